"""Metric graphs: edges with lengths, and places along them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from graphrf._base import checks
from graphrf._base.cached import cached_property
from graphrf._base.files.untrusted import listed
from graphrf._base.types import NodesLike
from graphrf.gp.fields.domain import Domain
from graphrf.gp.metric.edge_nodes import EdgeNodes, checked_places
from graphrf.gp.metric.edge_precision import ENDS
from graphrf.gp.metric.subdivision import Places, Subdivision, rounded, subdivide
from graphrf.graph import notices, tables
from graphrf.graph.builders import from_edges
from graphrf.graph.edges import ends_of_edges
from graphrf.graph.graph import Graph, given_nodes
from graphrf.graph.labels import exact_below
from graphrf.graph.other_graphs import streets_of

# Between places of fields of order 2, in lengths of roads.
_APART = 2e-3
_WAYS = (
    "nodes, (edge number, distance from its `src`), (u, v, distance from u) or (u, v, key, "
    "distance from u)"
)


class MetricGraph(Domain):
    """Edges with lengths, which are lines between nodes: roads, rivers, cables.

    Places are nodes, or points along edges, in one of these forms:

    - nodes, by position or name;
    - pairs (edge number, distance from its `src`): a list, or an array of shape (n, 2);
    - triples (u, v, distance from u), where one edge joins u and v: a list, or an array of shape
      (n, 3);
    - (u, v, key, distance from u), where several do: a list, or an array of shape (n, 4); keys as
      in networkx, which counts parallel edges from 0;
    - a list that mixes these;
    - a data frame of these columns, or levels of its index: u, v, key and one of distances, or edge
      and distance.

    Integers that are names of nodes and no positions, such as the identifiers of OpenStreetMap, are
    names.

    Examples
    --------
    >>> import graphrf as grf
    >>> roads = grf.gp.MetricGraph(["a", "b", "b"], ["b", "c", "d"], [400.0, 250.0, 300.0])
    >>> roads
    MetricGraph(4 nodes, 3 edges, total length 950)
    >>> roads.covariance(["a", ("b", "c", 100.0), (2, 300.0)], range=400.0).round(3)
    array([[0.994, 0.055, 0.02 ],
           [0.055, 0.877, 0.09 ],
           [0.02 , 0.09 , 0.983]])

    Parameters
    ----------
    src, dst : array_like, shape (E,)
        The ends of every edge, by position or name as in `graphrf.from_edges`. Edges have no
        direction; parallel ones and loops are legal.
    length : array_like of float, shape (E,)
        Positive, in any unit.
    nodes : iterable of distinct names, optional
        See `graphrf.from_edges`.
    ends : {"stationary", "free"}
        Fields at nodes of degree 1: as if the edge continued, or with the derivative 0 and twice
        the variance.

    Attributes
    ----------
    graph : Graph
        The graph of joined nodes, without lengths.
    src, dst : ndarray of int64, shape (E,)
        Positions.
    length : ndarray of float64, shape (E,)
    ends : str

    Raises
    ------
    ValueError, TypeError
        For lengths that are not positive and finite, ends that are not nodes, and nodes without an
        edge.

    Warns
    -----
    UserWarning
        If more than half of the edges lead back along another of the same length, as in a list of
        both directions.
    """

    field_dimension = 1
    orders = (1, 2)
    default_order = 1
    label = "node"

    def __init__(
        self,
        src: NodesLike,
        dst: NodesLike,
        length: ArrayLike,
        *,
        nodes: Iterable[Hashable] | None = None,
        ends: str = "stationary",
    ) -> None:
        self.ends: str = checks.choice("ends", ends, ENDS)
        self.graph: Graph = from_edges(src, dst, False, nodes=nodes)
        self.src = self._ends("src", src)
        self.dst = self._ends("dst", dst)
        self.length = _checked_lengths(length, self.src.size)
        notices.warn_together([notices.of_two_directions(self.src, self.dst, self.length)])
        lonely = np.flatnonzero(
            np.bincount(np.concatenate([self.src, self.dst]), minlength=self.n_nodes) == 0
        )
        if lonely.size:
            raise checks.value_error(
                "nodes",
                f"must each be an end of an edge, got {self.graph.nodes[int(lonely[0])]!r} without "
                f"one ({lonely.size} such nodes); leave them out",
            )

    @classmethod
    def from_networkx(
        cls, graph: Any, length: str = "length", *, ends: str = "stationary"
    ) -> MetricGraph:
        """The metric graph of a networkx graph whose edges have an attribute with lengths.

        Edges are numbered as in `graph.edges`. In a directed graph, such as OSMnx's, edges (u, v)
        and (v, u) of the same length (to 0.1 %) are one street with both names, and so are two
        loops of a node, of which the second leads backwards; they are two if both have `oneway`, or
        they differ in `osmid`. ValueError or TypeError if an edge has no positive length; a warning
        if lengths are in degrees, as the coordinates of the nodes are.
        """
        streets = streets_of(graph, length)
        notices.warn_together([streets.remark])
        result = cls(streets.src, streets.dst, streets.length, ends=ends)
        if streets.nodes != list(range(len(streets.nodes))):
            result.graph = Graph(result.graph.adjacency, nodes=streets.nodes)
        result.edge_names = streets.names
        return result

    @property
    def nodes(self) -> Sequence[Hashable]:
        """Names of all nodes, as in `Graph`."""
        return self.graph.nodes

    def index(self, names: Hashable | Iterable[Hashable]) -> Any:
        """Positions of nodes given by their names, as in `Graph`."""
        return self.graph.index(names)

    @property
    def n_nodes(self) -> int:
        """N."""
        return self.graph.n_nodes

    @property
    def n_edges(self) -> int:
        """E, parallel edges counted."""
        return int(self.src.size)

    @property
    def road_length(self) -> float:
        """The mean length of a road between junctions or dead ends, at most a tenth of the total
        length.

        It does not change when edges are subdivided.
        """
        degrees = np.bincount(np.concatenate([self.src, self.dst]))
        ways = max(0.5 * float(degrees[degrees != 2].sum()), 10.0)
        return float(self.length.sum()) / ways

    @property
    def length_unit(self) -> float:
        """Twice `road_length`: the range of which lengthscales are a half."""
        return 2 * self.road_length

    @property
    def labels(self) -> Sequence[Hashable]:
        """The names of all nodes."""
        return self.graph.nodes

    # -- places ------------------------------------------------------------------------------------

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
        if hasattr(places, "tolist") and not isinstance(
            places, np.ndarray
        ):  # a Series or an Index of pandas
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

    def subdivide(self, places: Places, alpha: float = 1) -> Subdivision:
        """The edges subdivided at places, in an order that does not depend on that of the places.

        For a field of order 2 places are rounded to 500ths of `road_length`: pieces x long take x^3
        of the digits of its precision.
        """
        if alpha == 2:
            places = rounded(places, self.length, _APART * self.road_length)
        return subdivide(self.n_nodes, self.src, self.dst, self.length, places)

    def places_of(self, arrays: dict[str, np.ndarray]) -> Places:
        """The places with these arrays of a file, checked."""
        return checked_places(arrays, self.n_nodes, self.length)

    def warn_of_parts(self, places: Places) -> None:
        """Nothing: components without observations are common in networks of roads."""

    def warn_of_range(self, range: float, places: Places) -> None:
        """Nothing: edges are subdivided at all places, so that fields are exact for every range."""

    def field_nodes(self, places: Places, alpha: float) -> EdgeNodes:
        """The vertices of the edges subdivided at places."""
        return EdgeNodes(self.subdivide(places, alpha), self.ends)

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
            edges = np.array([edge_number(place[0]) for place in places])
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
            return np.asarray(self.index(nodes))
        if nodes is not None and self.graph.has_integer_names:
            array = np.asarray(nodes)
            if (
                array.dtype.kind in "iu"
                and array.size
                and not 0 <= array.min() <= array.max() < self.n_nodes
            ):
                return np.asarray(self.index(array.ravel().tolist()))
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
        """Edges by their ends and keys, in either direction; ~edge for the names of loops
        backwards.
        """
        named = self.edge_names
        result = np.empty(u.size, dtype=np.int64)
        for n, (first, last, key) in enumerate(zip(u.tolist(), v.tolist(), keys, strict=True)):
            edge = named.get((first, last, key), named.get((last, first, key)))
            if edge is None:
                there = [each for one, two, each in named if {one, two} == {first, last}]
                pair = f"{self.nodes[first]!r} and {self.nodes[last]!r}"
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
        keys = np.minimum(u, v) * self.n_nodes + np.maximum(u, v)
        first, last = (np.searchsorted(known, keys, side=side) for side in ("left", "right"))
        wrong = np.flatnonzero(last - first != 1)
        if wrong.size:
            n = int(wrong[0])
            pair = f"{self.nodes[int(u[n])]!r} and {self.nodes[int(v[n])]!r}"
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
        keys = np.minimum(self.src, self.dst) * self.n_nodes + np.maximum(self.src, self.dst)
        order = np.argsort(keys, kind="stable")
        return keys[order], order

    def _along(self, edge: np.ndarray, distance: np.ndarray) -> Places:
        """Places at distances from the first ends of edges."""
        wrong = np.flatnonzero((edge < 0) | (edge >= self.n_edges))
        if wrong.size:
            n = int(wrong[0])
            raise checks.value_error(
                "places",
                f"must have edge numbers in [0, {self.n_edges - 1}], got {int(edge[n])} (place "
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
            u, v = (self.nodes[int(ends[edge[n]])] for ends in (self.src, self.dst))
            raise checks.value_error(
                "places",
                f"must have distances from 0 to the length of the edge, {length[n]:.10g} for edge "
                f"{int(edge[n])} from {u!r} to {v!r}, got {distance[n]:.10g} (place {n}; "
                f"{wrong.size} such places)",
            )

    def __repr__(self) -> str:
        return (
            f"MetricGraph({self.n_nodes} nodes, {self.n_edges} edges, total length "
            f"{self.length.sum():g})"
        )

    def _ends(self, name: str, ends: Any) -> np.ndarray:
        """Positions of one end of every edge."""
        known = ends_of_edges(name, ends)
        if isinstance(known, np.ndarray) and not self.graph.has_integer_names:
            return known.astype(np.int64)
        listed = known.tolist() if isinstance(known, np.ndarray) else known
        return np.array(self.graph.index(listed), dtype=np.int64)


def require_metric_graph(graph: Any) -> MetricGraph:
    """`graph`, once it is known to be a `MetricGraph`."""
    if not isinstance(graph, MetricGraph):
        raise checks.type_error(
            "graph",
            f"must be a MetricGraph, got {checks.describe(graph)}; MetricGraph(src, dst, length) "
            "makes one (the weights of a Graph are not lengths)",
        )
    return graph


def _checked_lengths(length: Any, n_edges: int) -> np.ndarray:
    values = checks.array("length", length)
    if values.dtype.kind not in "iuf":
        raise checks.type_error("length", f"must hold numbers, got {checks.describe(values)}")
    if values.shape != (n_edges,):
        raise checks.value_error(
            "length", f"must have shape ({n_edges},), one for each edge, got {values.shape}"
        )
    values = values.astype(np.float64)
    wrong = np.flatnonzero(~((values > 0) & np.isfinite(values)))
    if wrong.size:
        raise checks.value_error(
            "length",
            f"must hold positive, finite lengths, got {values[wrong[0]]:g} at edge {int(wrong[0])} "
            f"({wrong.size} such edges): join the ends of edges without length, or drop them",
        )
    return values


def edge_number(value: Any) -> int:
    """The first part of a pair: an integer, or a float that is one, as rows of arrays have it."""
    whole = isinstance(value, float) and value.is_integer()
    return checks.integer("the edge number of places", int(value) if whole else value)
