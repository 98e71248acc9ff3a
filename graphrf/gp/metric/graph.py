"""Metric graphs: edges with lengths, and places along them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from graphrf._base import checks
from graphrf._base.memory import needs_memory, require_memory
from graphrf._base.rows import slices
from graphrf._base.types import NodesLike
from graphrf.gp.metric.edge_precision import ENDS, EdgeKernel, EdgePrecision, checked_order
from graphrf.gp.metric.places import WithPlaces
from graphrf.gp.metric.subdivision import Places, Subdivision, rounded, subdivide
from graphrf.gp.posterior.by_rows import LARGEST_JOINT
from graphrf.graph import notices
from graphrf.graph.builders import from_edges
from graphrf.graph.edges import ends_of_edges
from graphrf.graph.graph import Graph
from graphrf.graph.other_graphs import streets_of
from graphrf.operators.pathwise import draws_at_once, draws_bytes

_LESS_MEMORY = "ask for fewer places or draws at a time"
# The distance of places of fields of order 2, in lengths of roads: see `MetricGraph.subdivide`.
_APART = 2e-3


class MetricGraph(WithPlaces):
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
    >>> roads.covariance(["a", ("b", "c", 100.0), (2, 300.0)], lengthscale=200.0).round(3)
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

    Attributes
    ----------
    graph : Graph
        The graph of joined nodes, without lengths.
    src, dst : ndarray of int64, shape (E,)
        Positions.
    length : ndarray of float64, shape (E,)

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

    def __init__(
        self,
        src: NodesLike,
        dst: NodesLike,
        length: ArrayLike,
        *,
        nodes: Iterable[Hashable] | None = None,
    ) -> None:
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
    def from_networkx(cls, graph: Any, length: str = "length") -> MetricGraph:
        """The metric graph of a networkx graph whose edges have an attribute with lengths.

        Edges are numbered as in `graph.edges`. In a directed graph, such as OSMnx's, edges (u, v)
        and (v, u) of the same length (to 0.1 %) are one street with both names, and so are two
        loops of a node, of which the second leads backwards; they are two if both have `oneway`, or
        they differ in `osmid`. ValueError or TypeError if an edge has no positive length; a warning
        if lengths are in degrees, as the coordinates of the nodes are.
        """
        streets = streets_of(graph, length)
        notices.warn_together([streets.remark])
        result = cls(streets.src, streets.dst, streets.length)
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
        """The mean length of a road between junctions or dead ends, at most a tenth of the total.

        It is the unit of the weak prior of lengthscales, and does not change when edges are
        subdivided.
        """
        degrees = np.bincount(np.concatenate([self.src, self.dst]))
        ways = max(0.5 * float(degrees[degrees != 2].sum()), 10.0)
        return float(self.length.sum()) / ways

    def subdivide(self, places: Places, alpha: int = 1) -> Subdivision:
        """The edges subdivided at places, in an order that does not depend on that of the places.

        For a field of order 2 places are rounded to 500ths of `road_length`: pieces x long take x^3
        of the digits of its precision.
        """
        if alpha == 2:
            places = rounded(places, self.length, _APART * self.road_length)
        return subdivide(self.n_nodes, self.src, self.dst, self.length, places)

    # -- the prior ---------------------------------------------------------------------------------

    @needs_memory(_LESS_MEMORY)
    def covariance(
        self,
        places: NodesLike | None = None,
        *,
        lengthscale: float,
        output_scale: float = 1.0,
        alpha: int = 1,
        ends: str = "stationary",
    ) -> np.ndarray:
        """The exact covariance of the field of `MetricGraphGPRegressor` at up to 5,000 places,
        shape (n, n).
        """
        result, precision, scale = self._prior(places, lengthscale, output_scale, alpha, ends)
        vertices, inverse = np.unique(result, return_inverse=True)
        check_few(vertices.size)

        require_memory(
            16.0 * precision.n_nodes * vertices.size,
            f"the covariance of {vertices.size} places",
            "ask for fewer",
        )
        return scale * precision.factor().inverse_between(vertices)[np.ix_(inverse, inverse)]

    @needs_memory(_LESS_MEMORY)
    def sample(
        self,
        places: NodesLike | None = None,
        *,
        lengthscale: float,
        output_scale: float = 1.0,
        alpha: int = 1,
        ends: str = "stationary",
        n_samples: int = 1,
        seed: int | None = None,
    ) -> np.ndarray:
        """Exact joint draws of that field, shape (n_samples, n), by half a solve each."""
        result, precision, scale = self._prior(places, lengthscale, output_scale, alpha, ends)
        n_samples = checks.integer("n_samples", n_samples, low=1)
        rng = np.random.default_rng(checks.seed(seed))

        require_memory(
            8.0 * n_samples * result.size + draws_bytes(precision.n_nodes, n_samples),
            f"`n_samples` = {n_samples}",
            "ask for fewer at a time, with another `seed` each",
        )

        factor, draws = precision.factor(), np.empty((n_samples, result.size))
        for part in slices(n_samples, draws_at_once(precision.n_nodes)):
            z = rng.standard_normal((part.stop - part.start, precision.n_nodes)).T
            draws[part] = np.sqrt(scale) * factor.root(z)[result].T
        return draws

    def _prior(
        self, places: Any, lengthscale: float, output_scale: float, alpha: int, ends: str
    ) -> tuple[np.ndarray, EdgePrecision, float]:
        """Vertices of places, the precision there, and sigma^2."""
        lengthscale = checks.number("lengthscale", lengthscale, low=0, include_low=False)
        scale = checks.number("output_scale", output_scale, low=0, include_low=False)
        checks.choice("ends", ends, ENDS)
        alpha = checked_order(alpha)

        pieces = self.subdivide(self.places(places), alpha)
        return pieces.where, EdgePrecision(pieces, EdgeKernel(lengthscale, alpha), ends), scale

    def __repr__(self) -> str:
        return (
            f"MetricGraph({self.n_nodes} nodes, {self.n_edges} edges, total length "
            f"{self.length.sum():g})"
        )

    def _ends(self, name: str, ends: Any) -> np.ndarray:
        """Positions of one end of every edge."""
        nodes = ends_of_edges(name, ends)
        if isinstance(nodes, np.ndarray) and not self.graph.has_integer_names:
            return nodes.astype(np.int64)
        names = nodes.tolist() if isinstance(nodes, np.ndarray) else nodes
        return np.array(self.graph.index(names), dtype=np.int64)


def require_metric_graph(graph: Any) -> MetricGraph:
    """`graph`, once it is known to be a `MetricGraph`."""
    if not isinstance(graph, MetricGraph):
        raise checks.type_error(
            "graph",
            f"must be a MetricGraph, got {checks.describe(graph)}; MetricGraph(src, dst, length) "
            "makes one (the weights of a Graph are not lengths)",
        )
    return graph


def check_few(n: int) -> None:
    """Raise if a joint covariance were of too many places."""
    if n > LARGEST_JOINT:
        raise checks.value_error(
            "places", f"must be at most {LARGEST_JOINT} for a joint covariance, got {n}"
        )


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
