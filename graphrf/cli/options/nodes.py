"""Nodes as text: names in files and on the command line, positions in arrays, and back."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graphrf.cli.options.standard_input import input_file
from graphrf.cli.options.tables import NODE_TITLES, read_table

if TYPE_CHECKING:
    import numpy as np

    from graphrf.graph.graph import Graph

ChosenNodes = Annotated[
    str | None, typer.Option(metavar="NODES", help="A file of nodes, or A,B,C. Default: all nodes.")
]


class NodeNames:
    """Text names of the nodes of a graph, or of features.

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

    @property
    def everything(self) -> np.ndarray:
        """Positions of all nodes."""
        import numpy as np

        from graphrf.graph.names import known_positions

        return known_positions(np.arange(self._n_nodes, dtype=np.int64))

    def of(self, positions: Iterable[int] | None = None) -> list[Hashable]:
        """The nodes at positions (default all): integers and text; of other names the text."""
        if self._nodes is None:
            return list(range(self._n_nodes) if positions is None else map(int, positions))
        chosen = self._nodes if positions is None else [self._nodes[position] for position in positions]
        plain = all(type(node) in (int, str) for node in chosen)
        return list(chosen) if plain else [str(node) for node in chosen]

    def is_node(self, text: str) -> bool:
        """True if a node has this name."""
        if self._nodes is None:
            return text.isascii() and text.isdigit() and len(text) < 20 and int(text) < self._n_nodes
        return text in self._by_text

    @property
    def _by_text(self) -> dict[str, int]:
        if self._known is None:
            self._known = {str(node): position for position, node in enumerate(self._nodes or ())}
            if len(self._known) < self._n_nodes:
                raise ValueError("GRAPH has different nodes whose names are the same as text; rename them")
        return self._known

    def position(self, text: str, place: str) -> int:
        """The position of a node; ValueError, which begins with `place`, if there is none of that name."""
        if self._nodes is None:
            if self.is_node(text):
                return int(text)
            raise ValueError(
                f"{place}: the nodes of this graph have no names, so a position in [0, {self._n_nodes - 1}] "
                f"is needed, got {text[:60]!r}"
            )
        if text not in self._by_text:
            some = ", ".join(list(self._by_text)[:3])
            raise ValueError(
                f"{place}: no node of the graph is named {text[:60]!r}; its nodes are {some} and so on"
            )
        return self._by_text[text]

    def chosen(self, given: str, option: str) -> np.ndarray:
        """Positions of the nodes of an option: of a file of nodes, or of names with commas between them."""
        import numpy as np

        from graphrf.graph.names import known_positions

        path = Path(input_file(given))
        if path.is_file():
            table = read_table(path, self.is_node, spaces=False)
            cells = zip(table.column(table.first_of(NODE_TITLES) or 0), table.lines, strict=True)
            found = [self.position(cell, f"{path}, line {line}") for cell, line in cells]
        else:
            if not given.strip():
                raise ValueError(f"`{option}` must hold at least one node, got none")
            place = f"`{option}` must be a file (there is none named {given[:60]!r}) or nodes, A,B,C"
            found = [self.position(name.strip(), place) for name in given.split(",")]
        return known_positions(np.array(found, dtype=np.int64))
