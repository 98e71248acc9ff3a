"""The graph: an immutable, validated sparse adjacency matrix with node names."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from graphrf._base import checks, html
from graphrf._base.cached import cached_property
from graphrf._base.memory import require_memory
from graphrf._base.types import NodesLike
from graphrf.graph.csr import chunks, graph_digest
from graphrf.graph.disk import writing
from graphrf.graph.names import NodeNames, validated_names
from graphrf.graph.other_graphs import networkx_graph, way_to_graph
from graphrf.graph.validation import validated_adjacency

LAPLACIANS = ("normalized", "combinatorial")

# Degrees below this, or above its inverse, lose digits or overflow where they are multiplied.
_SMALLEST_SCALE = 1e-290


class Graph:
    r"""A weighted graph, undirected unless `directed=True`; immutable once made.

    Weights are similarities: larger is closer. Kernels and their models need an undirected graph.

    Parameters
    ----------
    adjacency : scipy.sparse array or matrix, or array_like, shape (N, N)
        `adjacency[u, v]` is the weight of the edge from u to v: finite, at least 0 (no edge).
        Duplicate entries are added; self-loops and isolated nodes are legal. It is copied.
    nodes : sequence of N distinct hashable names, optional
        Names of the nodes, in the order of the rows. Default: the positions 0 .. N-1.
    directed : bool
        Whether `adjacency` may be asymmetric.

    Attributes
    ----------
    n_nodes, n_edges : int
        N, and the number of edges (of unordered pairs, self-loops counted once, when undirected).
    adjacency : scipy.sparse.csr_array, shape (N, N), float64
        Sorted, without zeros or duplicates, and read-only.
    degrees : ndarray, shape (N,), float64
        Row sums of the adjacency (out-degrees of a directed graph); a self-loop counts once.

    Raises
    ------
    TypeError, ValueError
        If the matrix is empty, not square, holds NaN, infinite or negative weights, or is
        asymmetric without `directed=True`; if names repeat or their number is not N.

    Notes
    -----
    Cost: O(nnz) time; 12 bytes an entry (16 from 2^31 entries on). Copies are the graph itself.

    Examples
    --------
    >>> import numpy as np, graphrf as grf
    >>> graph = grf.Graph(np.array([[0, 1, 0], [1, 0, 2], [0, 2, 0]]), nodes=["a", "b", "c"])
    >>> graph
    Graph(3 nodes, 2 edges, undirected, weighted)
    >>> graph.degrees
    array([1., 3., 2.])
    """

    # networkx calls the backend of this name with a Graph as it is (pagerank/networkx_backend.py).
    __networkx_backend__ = "graphrf"

    def __init__(
        self, adjacency: Any, nodes: Iterable[Hashable] | None = None, directed: bool = False
    ) -> None:
        self._directed = checks.flag("directed", directed)
        if isinstance(adjacency, Graph):
            raise checks.type_error(
                "adjacency", "must be a matrix, got a Graph; it can be used as it is"
            )
        self._adjacency = validated_adjacency(adjacency, self._directed)
        self._names = validated_names(nodes, self._adjacency.shape[0])

    # What `pickle` calls to make the graph again, if not the constructor.
    _remade_by: tuple[Callable[..., Graph], tuple[Any, ...]] | None = None

    @classmethod
    def _of_valid(
        cls,
        adjacency: sp.csr_array,
        names: tuple[Hashable, ...] | None,
        directed: bool,
        known: Mapping[str, Any],
        remade_by: tuple[Callable[..., Graph], tuple[Any, ...]],
    ) -> Graph:
        """The graph of arrays known to be valid, not copied; `known` are cached properties."""
        graph = cls.__new__(cls)
        graph._adjacency, graph._names, graph._directed = adjacency, names, directed
        graph._remade_by = remade_by
        vars(graph).update(known)
        return graph

    # -- size and content ------------------------------------------------------------------------

    @property
    def n_nodes(self) -> int:
        """Number of nodes, N."""
        return int(self._adjacency.shape[0])

    @cached_property
    def n_edges(self) -> int:
        """Number of edges; an undirected edge counts once."""
        if self._directed:
            return int(self._adjacency.nnz)
        loops = int(np.count_nonzero(self._adjacency.diagonal()))
        return (int(self._adjacency.nnz) + loops) // 2

    @property
    def adjacency(self) -> sp.csr_array:
        """The read-only adjacency matrix, shape (N, N), float64."""
        return self._adjacency

    @property
    def directed(self) -> bool:
        """True if edges have a direction."""
        return self._directed

    @cached_property
    def degrees(self) -> np.ndarray:
        """Row sums of the adjacency, shape (N,), float64, read-only."""
        with np.errstate(over="ignore"):  # which is refused below
            degrees = np.asarray(self._adjacency.sum(axis=1), dtype=np.float64).ravel()
        if not np.isfinite(degrees).all():
            raise ValueError(
                "the degrees of this graph overflow float64; divide its weights by a constant"
            )
        degrees.setflags(write=False)
        return degrees

    @cached_property
    def is_weighted(self) -> bool:
        """True if the edges have different weights."""
        data = self._adjacency.data
        return any(bool((chunk != data[0]).any()) for chunk in chunks(data))

    @cached_property
    def geometric_mean_weight(self) -> float:
        """The geometric mean of the weights of the entries; 1 without edges."""
        data = self._adjacency.data
        logarithms = sum(float(np.log(chunk).sum()) for chunk in chunks(data))
        return math.exp(logarithms / data.size) if data.size else 1.0

    @property
    def _common_weight(self) -> float | None:
        """The weight of every edge; None if they differ, or without edges."""
        if self.is_weighted or not self._adjacency.nnz:
            return None
        return float(self._adjacency.data[0])

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the adjacency matrix, by which files recognise a graph."""
        return graph_digest(self._adjacency)

    # -- names -----------------------------------------------------------------------------------

    @property
    def nodes(self) -> Sequence[Hashable]:
        """The nodes' names in the order of the rows; `range(N)` if none were given."""
        return self._names if self._names is not None else range(self.n_nodes)

    @property
    def has_names(self) -> bool:
        """True if the nodes have been given names."""
        return self._names is not None

    @property
    def has_integer_names(self) -> bool:
        """True if some node's name is an integer."""
        return self._lookup.has_integers

    @cached_property
    def _lookup(self) -> NodeNames:
        return NodeNames(self._names, self.n_nodes)

    def index(self, names: Any, *, argument: str = "names") -> Any:
        """Positions of nodes given by name; without names, integers are positions.

        Parameters
        ----------
        names : a name, or several
            Several in a list, array, Series, index (of a MultiIndex, tuples) or a frame's rows.
        argument : str
            The name that error messages give to the argument.

        Returns
        -------
        int for one name, else ndarray of int64, shape (n,).

        Raises
        ------
        ValueError
            If a name is not in the graph.

        Examples
        --------
        >>> import graphrf as grf
        >>> graph = grf.from_edges([0, 1], [1, 2], nodes=[("a", 1), ("a", 2), ("b", 1)])
        >>> graph.index(("a", 2)), graph.index([("b", 1), ("a", 1)])
        (1, array([2, 0]))
        """
        return self._lookup.index(names, argument)

    def positions(self, nodes: NodesLike | None = None, *, argument: str = "nodes") -> np.ndarray:
        """Positions of nodes given by position or by name.

        Arguments such as `nodes=` are read alike, but refuse integers that may be positions of some
        nodes and names of others, and those in a Series or index where names are text. Pass
        `graph.positions(integers)` for positions, `graph.index(integers)` for names. The arrays
        that these return, and their slices, are positions everywhere; results of arithmetic not.

        Parameters
        ----------
        nodes : None, or positions or names of nodes in a list, array or column of a data frame
            None is all nodes. Integers, and integral floats below 2^24, are positions, others are
            names. Rows of several cells are tuples; a tuple is a name, refused if it may be a list.
        argument : str
            The name that error messages give to the argument.

        Returns
        -------
        ndarray of int64, shape (n,)

        Raises
        ------
        TypeError, ValueError
            If a position is out of range, a name is not in the graph, or the nodes are neither.

        Examples
        --------
        >>> import numpy as np, graphrf as grf
        >>> graph = grf.from_edges([1, 2], [2, 3], nodes=[1, 2, 3])
        >>> grf.sample_features(graph, nodes=graph.positions(np.array([1, 2])), seed=0).nodes
        array([1, 2])
        >>> grf.sample_features(graph, nodes=graph.index([1, 2]), seed=0).nodes
        array([0, 1])
        """
        return self._lookup.known(self._lookup.positions(nodes, argument, as_positions=True))

    # -- matrices --------------------------------------------------------------------------------

    def require_undirected(self, purpose: str) -> None:
        """Raise `ValueError` if the graph is directed; `purpose` is what needs it undirected."""
        if self._directed:
            raise ValueError(
                f"for {purpose} `graph` must be an undirected graph, got a directed one; "
                "`graph.to_undirected()` makes one (weights of both directions are added)"
            )

    def laplacian(self, normalized: bool = True) -> sp.csr_array:
        r"""The Laplacian matrix of an undirected graph.

        .. math:: \tilde L = I - D^{-1/2} A D^{-1/2} \quad\text{or}\quad L = D - A.

        An isolated node has a zero row and column in both, as in networkx.

        Returns
        -------
        scipy.sparse.csr_array, shape (N, N), float64
        """
        self.require_undirected("the Laplacian")
        if checks.flag("normalized", normalized):
            identity = sp.eye_array(self.n_nodes, format="csr")
            return sp.csr_array(identity - self.walk_matrix("normalized"))
        plain = self.without_loops()  # whose weights would cancel, and leave their rounding
        return sp.csr_array(sp.diags_array(plain.degrees, format="csr") - plain.adjacency)

    def laplacian_scale(self, laplacian: str = "normalized") -> float:
        r"""The scale s in L = s (I - W): 1 if normalized, c = 2 max(D) if combinatorial.

        A graph without edges has s = 1, so that W is the identity.
        """
        if checks.choice("laplacian", laplacian, LAPLACIANS) == "normalized":
            return 1.0
        largest = float(self.degrees.max())
        if largest and not _SMALLEST_SCALE < largest < 1 / _SMALLEST_SCALE:
            raise ValueError(
                "the combinatorial Laplacian of this graph, whose largest degree is "
                f"{largest:.3g}, leaves the range of float64; multiply its weights by a constant"
            )
        return 2.0 * largest if largest > 0 else 1.0

    def walk_adjacency(self, laplacian: str = "normalized") -> sp.csr_array:
        r"""The weights that random walks for a kernel follow: row u is proportional to P(next | u).

        They are A with a self-loop of weight 1 at every isolated node or, combinatorial,
        c W = A + diag(c - D) with c = 2 max(D).
        """
        self.require_undirected("a kernel's walk matrix")
        scale = self.laplacian_scale(laplacian)
        if laplacian == "combinatorial":
            return self._with_loops(scale - self.degrees)
        isolated = self.degrees == 0
        return self._with_loops(isolated.astype(np.float64)) if isolated.any() else self._adjacency

    def _with_loops(self, weights: np.ndarray) -> sp.csr_array:
        """A copy of the adjacency with self-loops, shape of `weights` (N,)."""
        entries = self._adjacency.nnz + self.n_nodes
        require_memory(
            16.0 * entries,
            f"a copy of the adjacency with loops, {entries} entries,",
            "use the normalized Laplacian of a graph without isolated nodes "
            "(Graph.largest_component)",
        )
        return sp.csr_array(self._adjacency + sp.diags_array(weights, format="csr"))

    @property
    def walk_degrees(self) -> np.ndarray:
        """The degrees by which walks are weighted: 1 for an isolated node, which stays there."""
        return np.where(self.degrees > 0, self.degrees, 1.0)

    def walk_matrix(self, laplacian: str = "normalized") -> sp.csr_array:
        r"""The symmetric walk matrix W, with L = s (I - W) and s = `laplacian_scale(laplacian)`.

        .. math:: W = D^{-1/2} A D^{-1/2} \quad\text{or}\quad W = (c I - L) / c, \; c = 2 \max D.

        Its spectrum lies in [-1, 1] (normalized) or [0, 1] (combinatorial). W_ii = 1 if isolated.

        Returns
        -------
        scipy.sparse.csr_array, shape (N, N), float64. Cost: O(nnz) at every call.
        """
        weights = self.walk_adjacency(laplacian)
        if laplacian == "combinatorial":
            return sp.csr_array(weights * (1.0 / self.laplacian_scale(laplacian)))
        root = np.sqrt(self.walk_degrees)
        positions = np.arange(self.n_nodes, dtype=weights.indices.dtype)
        rows = np.repeat(positions, np.diff(weights.indptr))

        if root.min() ** 2 > _SMALLEST_SCALE:
            data = weights.data / (root[rows] * root[weights.indices])
        else:  # the product would lose its digits; this way too W is symmetric bit for bit
            row, column = root[rows], root[weights.indices]
            data = weights.data / np.minimum(row, column) / np.maximum(row, column)
        return sp.csr_array((data, weights.indices, weights.indptr), shape=weights.shape)

    # -- other graphs ----------------------------------------------------------------------------

    def to_undirected(self) -> Graph:
        """The undirected graph of weights A + A^T (self-loops once); itself if undirected."""
        if not self._directed:
            return self
        both = sp.csr_array(self._adjacency + self._adjacency.T)
        both = sp.csr_array(both - sp.diags_array(self._adjacency.diagonal(), format="csr"))
        return Graph(both, nodes=self._names)

    def to_networkx(self) -> Any:
        """The graph as a networkx `Graph` or `DiGraph`, with `weight` unless it is unweighted."""
        return networkx_graph(self._adjacency, self.nodes, self._directed)

    def is_directed(self) -> bool:
        """The property `directed`, under networkx's name."""
        return self._directed

    def is_multigraph(self) -> bool:
        """False; networkx's name for graphs with parallel edges."""
        return False

    def without_loops(self) -> Graph:
        """The graph without its self-loops; a graph that has none returns itself."""
        loops = self._adjacency.diagonal()
        if not loops.any():
            return self
        plain = sp.csr_array(self._adjacency - sp.diags_array(loops, format="csr"))
        plain.eliminate_zeros()
        return Graph(plain, nodes=self._names, directed=self._directed)

    def components(self) -> np.ndarray:
        """Number of the (weakly) connected component of every node, from 0, shape (N,)."""
        return np.asarray(connected_components(self._adjacency, directed=self._directed)[1])

    def largest_component(self) -> Graph:
        """The graph on the largest (weakly) connected component; the first of several of that size.

        Nodes keep their order and their names, or have their positions in this graph as names.
        """
        labels = self.components()
        return self.subgraph(self.positions(np.flatnonzero(labels == np.bincount(labels).argmax())))

    def subgraph(self, nodes: NodesLike) -> Graph:
        """The graph on `nodes`, in the order given, with the edges between them; names as above."""
        keep = given_nodes(self, nodes)
        if not keep.size:
            raise checks.value_error("nodes", "of a subgraph must hold at least one node, got none")
        if np.unique(keep).size != keep.size:
            raise checks.value_error("nodes", "of a subgraph must be distinct")
        if keep.size == self.n_nodes and (keep == np.arange(self.n_nodes)).all():
            return self
        names = [self.nodes[position] for position in keep.tolist()]
        return Graph(self._adjacency[keep][:, keep], nodes=names, directed=self._directed)

    # -- on disk ---------------------------------------------------------------------------------

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the graph to a folder, from which `graphrf.open_graph` maps it into memory.

        The folder holds a record, `graph.json`, the CSR arrays, degrees and names. A full disk, or
        a process killed at any moment, leaves the old graph or the new one, whole to any reader.

        Parameters
        ----------
        folder : path
            A new or empty folder, or one with a graph to write over; opened graphs keep theirs.

        Raises
        ------
        TypeError, ValueError
            If the folder holds other files, or nodes' names are not text, numbers other than NaN,
            or tuples of them.
        BlockingIOError
            If another writer is at work in the folder (not on Windows, without file locks).
        OSError
            If the folder cannot be written to, or the disk is full.

        Notes
        -----
        Cost: O(nnz) time, O(1) memory beside the graph; on disk 12 bytes an entry of the adjacency
        and 12 a node (16 from 2^31 entries on), for a while beside a graph that is written over.

        Examples
        --------
        >>> import pathlib, tempfile, graphrf as grf
        >>> folder = pathlib.Path(tempfile.mkdtemp(), "triangle")
        >>> grf.from_edges([0, 1, 2], [1, 2, 0]).save(folder)
        >>> grf.open_graph(folder)
        Graph(3 nodes, 3 edges, undirected, unweighted)
        """
        writing.save(self, folder)

    # -- as a Python object ----------------------------------------------------------------------

    def __repr__(self) -> str:
        kind = "directed" if self._directed else "undirected"
        equal = "unweighted" if self._common_weight in (None, 1.0) else "equal weights"
        weights = "weighted" if self.is_weighted else equal
        return f"Graph({self.n_nodes} nodes, {self.n_edges} edges, {kind}, {weights})"

    def _repr_html_(self) -> str:
        """A table for notebooks."""
        adjacency, common = self._adjacency, self._common_weight
        equal = None if common is None else f"all {common:.4g}"
        arrays = (adjacency.indptr, adjacency.indices, adjacency.data)
        size = html.memory(sum(array.nbytes for array in arrays))

        rows = [
            ("nodes", self.n_nodes),
            ("edges", self.n_edges),
            ("kind", "directed" if self._directed else "undirected"),
            ("weights", "different" if self.is_weighted else equal),
            ("names", None if self._names is None else html.first_names(self._names)),
            ("memory", size if self._remade_by is None else f"{size}, on disk"),
            ("folder", None if self._remade_by is None else self._remade_by[1][0]),
        ]
        return html.table("Graph", rows)

    def __len__(self) -> int:
        return self.n_nodes

    def __copy__(self) -> Graph:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Graph:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return self._remade_by or (Graph, (self._adjacency, self._names, self._directed))


def require_graph(graph: Any) -> Graph:
    """`graph`, once it is known to be a `Graph`: the check at the door of all that takes one."""
    if not isinstance(graph, Graph):
        got = checks.describe(graph)
        raise checks.type_error(
            "graph", f"must be a graphrf.Graph, got {got}; {way_to_graph(graph)}"
        )
    return graph


def given_nodes(graph: Graph, nodes: Any = None, argument: str = "nodes") -> np.ndarray:
    """Positions of nodes, of which no integer may be a position and another's name."""
    return graph._lookup.positions(nodes, argument, as_positions=False)


def is_one_node(graph: Graph, nodes: Any) -> bool:
    """True if a user gave one node, such as a name, and not several."""
    return graph._lookup.is_one(nodes)
