"""Places along edges as users give them: nodes, numbers or ends of edges, and distances."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from graphrf._base import checks
from graphrf._base.cached import cached_property
from graphrf._base.files.untrusted import listed
from graphrf._base.types import NodesLike
from graphrf.gp.metric.subdivision import Places
from graphrf.graph import tables
from graphrf.graph.graph import Graph, given_nodes
from graphrf.graph.names import exact_below

_WAYS = (
    "nodes, (edge number, distance from its `src`), (u, v, distance from u) or (u, v, key, "
    "distance from u)"
)


class WithPlaces:
    """Edges with lengths, and the reading of places along them."""

    graph: Graph
    src: np.ndarray
    dst: np.ndarray
    length: np.ndarray

    def places(self, places: NodesLike | None = None) -> Places:
        """Places as in `fit` and `predict`, checked; all nodes by default.

        ValueError or TypeError for unknown nodes or edges, a distance outside the edge, and two
        nodes joined by no edge or by several.
        """
        if isinstance(places, Places):
            return places

        places = checks.to_array_like("places", places)
        if tables.is_table(places):
            rows = tables.places_of_table(places)
            return self._alike(rows, len(rows[0])) if rows else self._listed(rows)

        # A Series or an Index of pandas.
        if hasattr(places, "tolist") and not isinstance(places, np.ndarray):
            places = places.tolist()

        if places is None or (isinstance(places, np.ndarray) and places.ndim < 2):
            return self._at_nodes(self._nodes(places))
        if isinstance(places, np.ndarray):
            return self._of_array(places)
        if isinstance(places, str | bytes) or not isinstance(places, Sequence):
            raise checks.type_error("places", f"must be {_WAYS}, got {checks.describe(places)}")
        return self._listed(places)

    def _of_array(self, places: np.ndarray) -> Places:
        """Rows of an array of two axes."""
        if places.ndim == 2 and places.dtype.kind == "O":
            return self._listed(list(map(tuple, places.tolist())))
        if places.ndim != 2 or places.shape[1] not in (2, 3, 4) or places.dtype.kind not in "iuf":
            raise checks.value_error(
                "places",
                f"must be {_WAYS}, got {checks.describe(places)}, which has none of these shapes",
            )
        return self._rows(places)

    def _at_nodes(self, nodes: np.ndarray) -> Places:
        return Places(nodes, np.full(nodes.size, -1), np.zeros(nodes.size))

    def _rows(self, rows: np.ndarray) -> Places:
        """Rows of two to four numbers."""
        whole, distances = rows[:, :-1], rows[:, -1].astype(np.float64)
        wanted = "edge numbers" if rows.shape[1] == 2 else "nodes"
        if whole.dtype.kind == "f":
            if not (np.isfinite(whole).all() and (whole == np.round(whole)).all()):
                raise checks.value_error(
                    "places", f"must have {wanted} before the last column, got other numbers"
                )
            if (np.abs(whole) >= exact_below(whole.dtype)).any():
                raise checks.value_error(
                    "places",
                    f"must have {wanted} that {whole.dtype} holds exactly, got "
                    f"{np.abs(whole).max():.0f}, which may be rounded: pass a list of tuples, or a "
                    "data frame with a column of integers for each",
                )
            whole = whole.astype(np.int64)

        first, *others = whole.T
        if not others:
            return self._along(first.astype(np.int64), distances)
        return self._between(
            self._nodes(first),
            self._nodes(others[0]),
            distances,
            *map(np.ndarray.tolist, others[1:]),
        )

    def _listed(self, places: Sequence[Any]) -> Places:
        """A list of nodes, pairs and triples."""
        kinds = [
            len(place)
            if isinstance(place, tuple | list | np.ndarray) and not self._names(place)
            else 1
            for place in places
        ]

        result = self._at_nodes(np.full(len(places), -1))
        for kind in sorted(set(kinds)):
            own = [number for number, other in enumerate(kinds) if other == kind]
            columns = self._alike([places[number] for number in own], kind)
            for whole, values in zip(result, columns, strict=True):
                whole[own] = values
        return result

    def _alike(self, places: Sequence[Any], n_parts: int) -> Places:
        """A list of nodes, of pairs or of triples."""
        if n_parts == 1:
            return self._at_nodes(self._nodes(places))
        if n_parts not in (2, 3, 4):
            raise checks.value_error(
                "places", f"must be {_WAYS}, got a place of {n_parts} parts: {places[0]!r}"
            )

        distances = np.array(
            [checks.number("the distance of places", place[-1]) for place in places]
        )
        if n_parts == 2:
            edges = np.array([_edge_number(place[0]) for place in places])
            return self._along(edges, distances)

        u, v = (self._nodes([place[end] for place in places]) for end in (0, 1))
        keys = () if n_parts == 3 else ([place[2] for place in places],)
        return self._between(u, v, distances, *keys)

    def _names(self, place: Any) -> bool:
        """True for a tuple that is the name of a node."""
        return isinstance(place, tuple) and place in self._tuples

    @cached_property
    def _tuples(self) -> frozenset[Hashable]:
        """The names that are tuples, as of nodes that are named by their coordinates."""
        return frozenset(name for name in self.graph.nodes if isinstance(name, tuple))

    def _nodes(self, nodes: Any) -> np.ndarray:
        """Positions of nodes; integers of which some are no positions are names, if all are."""
        if isinstance(nodes, Sequence) and any(isinstance(node, tuple) for node in nodes):
            return np.asarray(self.graph.index(nodes))
        if nodes is not None and self.graph.has_integer_names:
            array = np.asarray(nodes)
            if (
                array.dtype.kind in "iu"
                and array.size
                and not 0 <= array.min() <= array.max() < self.graph.n_nodes
            ):
                return np.asarray(self.graph.index(array.ravel().tolist()))
        return given_nodes(self.graph, nodes, "places")

    def _between(
        self, u: np.ndarray, v: np.ndarray, distance: np.ndarray, keys: Any = None
    ) -> Places:
        """Places at a distance from u on the one edge to v, or on that with a key."""
        named = self._only(u, v) if keys is None else self._named(u, v, keys)
        edge = np.where(named < 0, ~named, named)
        self._check_distances(edge, distance)
        turned = (named < 0) | (self.src[edge] != u)
        return self._along(edge, np.where(turned, self.length[edge] - distance, distance))

    def _named(self, u: np.ndarray, v: np.ndarray, keys: Sequence[Hashable]) -> np.ndarray:
        """Edges by their ends and keys, in either direction; ~edge for loops backwards."""
        named = self.edge_names
        result = np.empty(u.size, dtype=np.int64)

        for n, (first, last, key) in enumerate(zip(u.tolist(), v.tolist(), keys, strict=True)):
            edge = named.get((first, last, key), named.get((last, first, key)))
            if edge is None:
                there = [each for one, two, each in named if {one, two} == {first, last}]
                pair = f"{self.graph.nodes[first]!r} and {self.graph.nodes[last]!r}"
                known = (
                    f"whose edges have the keys {listed(there)}" if there else "which no edge joins"
                )
                raise checks.value_error(
                    "places",
                    f"must lie on edges, but got key {key!r} between {pair}, {known} (place {n})",
                )
            result[n] = edge

        return result

    @cached_property
    def edge_names(self) -> dict[tuple[int, int, Hashable], int]:
        """Edges by (position, position, key): parallel ones are counted from 0, as by networkx."""
        counts: dict[tuple[int, int], int] = {}
        result: dict[tuple[int, int, Hashable], int] = {}
        for edge, (u, v) in enumerate(zip(self.src.tolist(), self.dst.tolist(), strict=True)):
            pair = min(u, v), max(u, v)
            result[u, v, counts.get(pair, 0)] = edge
            counts[pair] = counts.get(pair, 0) + 1
        return result

    def _only(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """The one edge between u and v."""
        known, order = self._pairs
        keys = np.minimum(u, v) * self.graph.n_nodes + np.maximum(u, v)
        first, last = (np.searchsorted(known, keys, side=side) for side in ("left", "right"))

        wrong = np.flatnonzero(last - first != 1)
        if wrong.size:
            n = int(wrong[0])
            pair = f"{self.graph.nodes[int(u[n])]!r} and {self.graph.nodes[int(v[n])]!r}"
            if first[n] == last[n]:
                raise checks.value_error(
                    "places", f"must lie on edges, but no edge joins {pair} (place {n})"
                )
            several = ", ".join(str(int(edge)) for edge in order[first[n] : last[n]][:5])
            raise checks.value_error(
                "places",
                f"must specify which of the edges {several} between {pair} is meant (place {n}): "
                "give (u, v, key, distance from u) or (edge number, distance from its `src`)",
            )

        return np.asarray(order[first])

    @cached_property
    def _pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """A number for the two ends of each edge, sorted, and the edges in that order."""
        keys = np.minimum(self.src, self.dst) * self.graph.n_nodes + np.maximum(self.src, self.dst)
        order = np.argsort(keys, kind="stable")
        return keys[order], order

    def _along(self, edge: np.ndarray, distance: np.ndarray) -> Places:
        """Places at distances from the first ends of edges."""
        wrong = np.flatnonzero((edge < 0) | (edge >= self.src.size))
        if wrong.size:
            n = int(wrong[0])
            raise checks.value_error(
                "places",
                f"must have edge numbers in [0, {self.src.size - 1}], got {int(edge[n])} (place "
                f"{n})",
            )
        self._check_distances(edge, distance)
        return Places(np.full(edge.size, -1), edge, np.clip(distance, 0.0, self.length[edge]))

    def _check_distances(self, edge: np.ndarray, distance: np.ndarray) -> None:
        length = self.length[edge]
        fraction = distance / length
        wrong = np.flatnonzero(~((fraction >= -1e-9) & (fraction <= 1 + 1e-9)))  # but for rounding
        if wrong.size:
            n = int(wrong[0])
            u, v = (self.graph.nodes[int(ends[edge[n]])] for ends in (self.src, self.dst))
            raise checks.value_error(
                "places",
                f"must have distances from 0 to the length of the edge, {length[n]:.10g} for edge "
                f"{int(edge[n])} from {u!r} to {v!r}, got {distance[n]:.10g} (place {n}; "
                f"{wrong.size} such places)",
            )


def _edge_number(value: Any) -> int:
    """The first part of a pair: an integer, or a float that is one, as rows of arrays have it."""
    whole = isinstance(value, float) and value.is_integer()
    return checks.integer("the edge number of places", int(value) if whole else value)
