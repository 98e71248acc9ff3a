"""Nodes as text: names in files and on the command line, positions in arrays, and back."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING

from graphrf.cli.options.table import NODE_TITLES
from graphrf.cli.options.tables import Cell, listed

if TYPE_CHECKING:
    import numpy as np

    from graphrf.graph.graph import Graph


class NodeNames:
    """Text names of the nodes of a graph.

    A node is called by its name where the graph has names, else by its position from 0.
    """

    def __init__(self, nodes: Sequence[Hashable] | None, n_nodes: int) -> None:
        self._nodes = nodes
        self._n_nodes = n_nodes
        self._known: dict[str, int] | None = None

    @classmethod
    def of_graph(cls, graph: Graph) -> NodeNames:
        """Text names of the nodes of a graph."""
        return cls(graph.nodes if graph.has_names else None, graph.n_nodes)

    def of(self, positions: Iterable[int] | None = None) -> list[Hashable]:
        """The nodes at positions (default all): integers and text; of other names the text."""
        if self._nodes is None:
            return list(range(self._n_nodes) if positions is None else map(int, positions))
        chosen = (
            self._nodes if positions is None else [self._nodes[position] for position in positions]
        )
        plain = all(type(node) in (int, str) for node in chosen)
        return list(chosen) if plain else [str(node) for node in chosen]

    def is_node(self, text: str) -> bool:
        """True if a node has this name."""
        if self._nodes is None:
            return (
                text.isascii() and text.isdigit() and len(text) < 20 and int(text) < self._n_nodes
            )
        return text in self._by_text

    @property
    def _by_text(self) -> dict[str, int]:
        if self._known is None:
            self._known = {str(node): position for position, node in enumerate(self._nodes or ())}
            if len(self._known) < self._n_nodes:
                raise ValueError(
                    "GRAPH has different nodes whose names are the same as text; rename them"
                )
        return self._known

    def positions(self, cells: Iterable[Cell]) -> np.ndarray:
        """The positions of nodes; ValueError, beginning with the place, for one of unknown name."""
        import numpy as np

        return _known_positions(np.array([self._position(*cell) for cell in cells], dtype=np.int64))

    def _position(self, text: str, place: str) -> int:
        if self.is_node(text):
            return int(text) if self._nodes is None else self._by_text[text]
        if self._nodes is None:
            raise ValueError(
                f"{place}: the nodes of this graph have no names, so a position in [0, "
                f"{self._n_nodes - 1}] is needed, got {text[:60]!r}"
            )
        some = ", ".join(list(self._by_text)[:3])
        raise ValueError(
            f"{place}: no node of the graph is named {text[:60]!r}; its nodes are {some} and so on"
        )

    def chosen(self, given: str, option: str) -> np.ndarray:
        """Positions of the nodes of an option: of a file of nodes, or of names with commas."""
        return self.positions(listed(given, option, "nodes", NODE_TITLES, self.is_node))


def _known_positions(positions: np.ndarray) -> np.ndarray:
    """Positions that the library does not take for names."""
    from graphrf.graph.names import known_positions

    return known_positions(positions)
