"""The graph: an immutable, validated sparse adjacency matrix with node names."""

from __future__ import annotations

import numbers
import os
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from graphrf._base import checks, html
from graphrf._base.cached import cached_property
from graphrf._base.memory import require_memory
from graphrf._base.warn import warn
from graphrf.graph import folder as graph_folder
from graphrf.graph import folder_writing
from graphrf.graph.csr import chunks, graph_digest, index_dtype

LAPLACIANS = ("normalized", "combinatorial")

# Names like an unknown one are looked for among at most so many, which takes up to half a second, and not if it is
# longer.
_MOST_COMPARED = 10_000
_LONGEST_COMPARED = 60
# Float node ids are exact only below 2**24 (float32's mantissa), so larger ones are refused.
_LARGEST_FLOAT_ID = 2**24
# Degrees below this, or above its inverse, lose digits or overflow where they are multiplied.
_SMALLEST_SCALE = 1e-290


class Graph:
    r"""A weighted graph, undirected unless `directed=True`; immutable once made.

    Every other part of the library takes one of these. Kernels, features and Gaussian processes need an
    undirected graph; PageRank takes both. Weights are similarities: larger means closer.

    Parameters
    ----------
    adjacency : scipy.sparse array or matrix, or array_like, shape (N, N)
        `adjacency[u, v]` is the weight of the edge from u to v: finite, at least 0; a zero is no edge.
        Duplicate entries of a sparse matrix are added. Self-loops and isolated nodes are legal. The matrix
        is copied, so later changes to it do not reach the graph.
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
        If the matrix is empty, not square, holds NaN, infinite or negative weights, or is asymmetric
        without `directed=True`; if names repeat or their number is not N.

    Notes
    -----
    Cost: O(nnz) time; memory 12 bytes an entry (16 beyond 2^31 entries). `copy.deepcopy` returns the
    graph itself, so estimators that hold it can be cloned for nothing.

    Examples
    --------
    >>> import numpy as np, graphrf as grf
    >>> graph = grf.Graph(np.array([[0, 1, 0], [1, 0, 2], [0, 2, 0]]), nodes=["a", "b", "c"])
    >>> graph
    Graph(3 nodes, 2 edges, undirected, weighted)
    >>> graph.degrees
    array([1., 3., 2.])
    >>> graph.index(["c", "a"])
    array([2, 0])
    """

    def __init__(self, adjacency: Any, nodes: Iterable[Hashable] | None = None, directed: bool = False) -> None:
        self._directed = checks.flag("directed", directed)
        self._adjacency = _validated(adjacency, self._directed)
        self._names = _validated_names(nodes, self._adjacency.shape[0])

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
        """The graph of arrays known to be valid, neither looked at nor copied; `known` are cached properties."""
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
        """Whether edges have a direction."""
        return self._directed

    @cached_property
    def degrees(self) -> np.ndarray:
        """Row sums of the adjacency, shape (N,), float64, read-only."""
        with np.errstate(over="ignore"):  # which is said below
            degrees = np.asarray(self._adjacency.sum(axis=1), dtype=np.float64).ravel()
        if not np.isfinite(degrees).all():
            raise ValueError("the degrees of this graph overflow float64; divide its weights by a constant")
        degrees.setflags(write=False)
        return degrees

    @cached_property
    def is_weighted(self) -> bool:
        """Whether the edges have different weights."""
        data = self._adjacency.data
        return any(bool((chunk != data[0]).any()) for chunk in chunks(data))

    @property
    def _common_weight(self) -> float | None:
        """The weight of every edge; None if they differ, or without edges."""
        return None if self.is_weighted or not self._adjacency.nnz else float(self._adjacency.data[0])

    @cached_property
    def _digest(self) -> str:
        """SHA-256 of the adjacency matrix, by which files know a graph again."""
        return graph_digest(self._adjacency)

    # -- names -----------------------------------------------------------------------------------

    @property
    def nodes(self) -> Sequence[Hashable]:
        """The nodes' names in the order of the rows; `range(N)` if none were given."""
        return self._names if self._names is not None else range(self.n_nodes)

    @property
    def has_names(self) -> bool:
        """Whether names were given to the nodes."""
        return self._names is not None

    @cached_property
    def _has_integer_names(self) -> bool:
        """Whether some name is an integer; that takes a look at every name."""
        return self._names is not None and any(is_integer(name) for name in self._names)

    @cached_property
    def _positions_by_name(self) -> dict[Hashable, int]:
        return {name: position for position, name in enumerate(self.nodes)}

    def index(self, names: Hashable | Iterable[Hashable]) -> Any:
        """Positions of nodes given by name.

        Parameters
        ----------
        names : a name, or an iterable of names
            A string or a tuple is one name.

        Returns
        -------
        int for one name, else ndarray of int64, shape (n,).

        Raises
        ------
        ValueError
            If a name is not in the graph.
        """
        single = isinstance(names, str | bytes | tuple) or not isinstance(names, Iterable)
        found = self._found([names] if single else list(names), "names")  # type: ignore[arg-type]
        return _Position(found[0]) if single else found

    def _found(self, names: Sequence[Any], argument: str) -> np.ndarray:
        """Positions of `names`, shape (n,), int64."""
        table = self._positions_by_name
        try:
            return np.fromiter((table[name] for name in names), dtype=np.int64, count=len(names))
        except KeyError as error:
            raise checks.value_error(
                argument, f"must be nodes of the graph, got {error.args[0]!r}; {self._hint(error.args[0])}"
            ) from None
        except TypeError as error:
            raise checks.type_error(argument, f"must be hashable names of nodes: {error}") from None

    def _hint(self, unknown: Hashable) -> str:
        """Names like the unknown one, or the first names of the graph."""
        if isinstance(unknown, str) and len(unknown) <= _LONGEST_COMPARED and self.n_nodes <= _MOST_COMPARED:
            words = [name for name in self.nodes if isinstance(name, str)]
            if like := checks.did_you_mean(unknown, words):
                return like
        return f"names here look like {', '.join(repr(name) for name in self.nodes[:3])}"

    def positions(self, nodes: Any = None, *, argument: str = "nodes") -> np.ndarray:
        """Positions of nodes given by position or by string name: what every `nodes=` argument goes through.

        Parameters
        ----------
        nodes : None, array_like of int with shape (n,) or (n, 1), or sequence of str
            None stands for all nodes. Integers are positions, also where names are integers: for names that are
            not strings use `graph.index` first. Integral floats below 2^24 are accepted, since float32 holds
            them exactly.
        argument : str
            The name that error messages give to the argument.

        Returns
        -------
        ndarray of int64, shape (n,)

        Warns
        -----
        UserWarning
            If Python's integers, or a column of pandas, are valid both ways: all of them are names too, and not
            all names of the nodes at these positions. What `graph.index` returned, and integers of numpy and
            torch, are taken as positions without a word: so come the results of `np.flatnonzero`, `argmax` and
            `rng.permutation`.
        """
        if nodes is None:
            return np.arange(self.n_nodes, dtype=np.int64)
        if isinstance(nodes, str):
            return self._found([nodes], argument)
        if isinstance(nodes, Sequence) and len(nodes) and all(isinstance(node, str) for node in nodes):
            return self._found(nodes, argument)
        array = np.asarray(nodes)
        if array.ndim == 0:
            array = array[None]
        if array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]
        if array.ndim != 1:
            raise checks.value_error(argument, f"must have shape (n,) or (n, 1), got {array.shape}")
        if array.size == 0:
            return np.zeros(0, dtype=np.int64)
        if array.dtype.kind in "UO" and all(isinstance(node, str) for node in array):
            return self._found(array.tolist(), argument)
        if array.dtype.kind == "f":
            with np.errstate(invalid="ignore"):
                good = (array == np.floor(array)) & (np.abs(array) < _LARGEST_FLOAT_ID)
            if not good.all():
                raise checks.type_error(
                    argument,
                    f"must be integer positions or string names, got the float "
                    f"{array[~good][0]} (integral floats are accepted below 2^24)",
                )
        elif array.dtype.kind not in "iu":
            raise checks.type_error(
                argument,
                f"must be integer positions or string names, got {checks.describe(array)}; "
                f"{_other_nodes(array)}use graph.index(...) for other names, np.flatnonzero(mask) for a mask",
            )
        bad = (array < 0) | (array >= self.n_nodes)
        if bad.any():
            way_out = "; graph.index(...) turns names of nodes into positions" if self.has_names else ""
            raise checks.value_error(
                argument, f"must be positions in [0, {self.n_nodes - 1}], got {int(array[bad][0])}{way_out}"
            )
        if self._ambiguous(nodes, array):
            warn(
                f"`{argument}`: integers are positions, though this graph has integer names too: "
                "graph.index([...]) turns names into positions; positions in a numpy array are taken without this "
                "warning",
            )
        return array.astype(np.int64)

    def _ambiguous(self, nodes: Any, array: np.ndarray) -> bool:
        """Whether the integers in `array`, made from `nodes`, are names as well, and of other nodes."""
        given = nodes if isinstance(nodes, list | tuple) else [nodes]
        computed = all(isinstance(node, _Position | np.integer | np.ndarray) for node in given)
        if computed or hasattr(nodes, "numpy") or not self._has_integer_names:
            return False
        named = [self._positions_by_name.get(position) for position in array.tolist()]
        return None not in named and named != array.tolist()

    # -- matrices --------------------------------------------------------------------------------

    def require_undirected(self, purpose: str) -> None:
        """Raise `ValueError` if the graph is directed; `purpose` says what needs it undirected."""
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
            return sp.csr_array(sp.eye_array(self.n_nodes, format="csr") - self.walk_matrix("normalized"))
        return sp.csr_array(sp.diags_array(self.degrees, format="csr") - self._adjacency)

    def laplacian_scale(self, laplacian: str = "normalized") -> float:
        r"""The scale s in L = s (I - W): 1 if normalized, c = 2 max(D) if combinatorial.

        A graph without edges has s = 1, so that W is the identity.
        """
        if checks.choice("laplacian", laplacian, LAPLACIANS) == "normalized":
            return 1.0
        largest = float(self.degrees.max())
        if largest and not _SMALLEST_SCALE < largest < 1 / _SMALLEST_SCALE:
            raise ValueError(
                f"the combinatorial Laplacian of this graph, whose largest degree is {largest:.3g}, leaves the "
                "range of float64; multiply its weights by a constant"
            )
        return 2.0 * largest if largest > 0 else 1.0

    def walk_adjacency(self, laplacian: str = "normalized") -> sp.csr_array:
        r"""The weights that random walks for a kernel follow: row u is proportional to P(next | u).

        For the normalized Laplacian this is A with a self-loop of weight 1 at every isolated node; for the
        combinatorial one it is c W = A + diag(c - D), whose rows all sum to c = 2 max(D).
        """
        self.require_undirected("a kernel's walk matrix")
        scale = self.laplacian_scale(laplacian)
        if laplacian == "combinatorial":
            return self._with_loops(scale - self.degrees)
        isolated = self.degrees == 0
        if not isolated.any():
            return self._adjacency
        return self._with_loops(isolated.astype(np.float64))

    def _with_loops(self, weights: np.ndarray) -> sp.csr_array:
        """A copy of the adjacency with self-loops, shape of `weights` (N,)."""
        entries = self._adjacency.nnz + self.n_nodes
        require_memory(
            16.0 * entries,
            f"a copy of the adjacency with loops, {entries} entries,",
            "take the normalized Laplacian of a graph without isolated nodes (Graph.largest_component)",
        )
        return sp.csr_array(self._adjacency + sp.diags_array(weights, format="csr"))

    @property
    def walk_degrees(self) -> np.ndarray:
        """The degrees by which walks are weighted: 1 for an isolated node, which never leaves itself."""
        return np.where(self.degrees > 0, self.degrees, 1.0)

    def walk_matrix(self, laplacian: str = "normalized") -> sp.csr_array:
        r"""The symmetric walk matrix W, with L = s (I - W) and s = `laplacian_scale(laplacian)`.

        .. math:: W = D^{-1/2} A D^{-1/2} \quad\text{or}\quad W = (c I - L) / c, \; c = 2 \max D.

        Its spectrum lies in [-1, 1] (normalized) or [0, 1] (combinatorial). W_ii = 1 at an isolated node.

        Returns
        -------
        scipy.sparse.csr_array, shape (N, N), float64. Cost: O(nnz), made anew at every call.
        """
        weights = self.walk_adjacency(laplacian)
        if laplacian == "combinatorial":
            return sp.csr_array(weights * (1.0 / self.laplacian_scale(laplacian)))
        root = np.sqrt(self.walk_degrees)
        rows = np.repeat(np.arange(self.n_nodes, dtype=weights.indices.dtype), np.diff(weights.indptr))
        if root.min() ** 2 > _SMALLEST_SCALE:
            data = weights.data / (root[rows] * root[weights.indices])
        else:  # the product would lose its digits; this way too W is symmetric bit for bit
            row, column = root[rows], root[weights.indices]
            data = weights.data / np.minimum(row, column) / np.maximum(row, column)
        return sp.csr_array((data, weights.indices, weights.indptr), shape=weights.shape)

    # -- other graphs ----------------------------------------------------------------------------

    def to_undirected(self) -> Graph:
        """The undirected graph with weights A + A^T (self-loops once); an undirected graph returns itself."""
        if not self._directed:
            return self
        both = sp.csr_array(self._adjacency + self._adjacency.T)
        both = sp.csr_array(both - sp.diags_array(self._adjacency.diagonal(), format="csr"))
        return Graph(both, nodes=self._names)

    def components(self) -> np.ndarray:
        """Number of the (weakly) connected component of every node, from 0, shape (N,)."""
        return np.asarray(connected_components(self._adjacency, directed=self._directed)[1])

    def largest_component(self) -> Graph:
        """The graph on the largest (weakly) connected component; the first of several of that size.

        The nodes keep their order and their names; without names, their positions in this graph become
        the names of the new one.
        """
        labels = self.components()
        return self.subgraph(np.flatnonzero(labels == np.bincount(labels).argmax()))

    def subgraph(self, nodes: Any) -> Graph:
        """The graph on `nodes`, in the order given, with the edges between them; names as above."""
        keep = self.positions(nodes)
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
        """Write the graph to a folder, from which `graphrf.open_graph` maps it into memory without reading it.

        The folder holds `graph.json`, a record of the graph, and a folder that it names: `arrays-` and 16 letters,
        others each time, with the CSR arrays `indptr.npy`, `indices.npy` and `weights.npy`, with `degrees.npy`,
        and with the names if there are any (`names.json`). The new arrays are complete, beside the old ones,
        before the record is replaced, and the old ones are removed after: a full disk, or a process killed at any
        moment, leaves the old graph or the new one, and a reader gets one of them whole. What a killed writer
        leaves is removed by the next one.

        Parameters
        ----------
        folder : path
            A new or empty folder, or one with a graph, which is written over; graphs that were opened from it
            keep their arrays.

        Raises
        ------
        TypeError, ValueError
            If the folder holds other files, or for nodes' names that are neither text, numbers other than NaN,
            nor tuples of them.
        BlockingIOError
            If another writer is at work in the folder. Where the system or the disk has no file locks (Windows),
            nobody notices: the graph of the last writer is there, and arrays of others may stay beside it.
        OSError
            If the folder cannot be written to, or the disk is full.

        Notes
        -----
        Cost: O(nnz) time, O(1) memory beside the graph; 12 bytes an entry of the adjacency and 12 a node on disk
        (16 and 16 from 2^31 entries on), for a while beside the graph that is written over.

        Examples
        --------
        >>> import pathlib, tempfile, graphrf as grf
        >>> folder = pathlib.Path(tempfile.mkdtemp(), "triangle")
        >>> grf.from_edges([0, 1, 2], [1, 2, 0]).save(folder)
        >>> grf.open_graph(folder)
        Graph(3 nodes, 3 edges, undirected, unweighted)
        """
        path = graph_folder.folder_path(folder)
        names = None
        if self._names is not None:
            way_out = "make a graph without them, and keep them yourself"
            names = [graph_folder.encoded_name(name, way_out) for name in self._names]
        with folder_writing.writing(path) as place:
            adjacency = self._adjacency
            arrays = (adjacency.indptr, adjacency.indices, adjacency.data, self.degrees)
            columns = map(folder_writing.Column.of, arrays)
            facts = {
                "n_nodes": self.n_nodes,
                "n_edges": self.n_edges,
                "directed": self._directed,
                "weighted": self.is_weighted,
            }
            folder_writing.write_folder(place, dict(zip(graph_folder.ARRAYS, columns, strict=True)), facts, names)

    # -- as a Python object ----------------------------------------------------------------------

    def __repr__(self) -> str:
        kind = "directed" if self._directed else "undirected"
        equal = "unweighted" if self._common_weight in (None, 1.0) else "equal weights"
        weights = "weighted" if self.is_weighted else equal
        return f"Graph({self.n_nodes} nodes, {self.n_edges} edges, {kind}, {weights})"

    def _repr_html_(self) -> str:
        """A table for notebooks."""
        names = None
        if self._names is not None:
            more = ", ..." if self.n_nodes > 3 else ""
            names = ", ".join(html.short_name(name) for name in self._names[:3]) + more
        adjacency, common = self._adjacency, self._common_weight
        size = html.memory(sum(array.nbytes for array in (adjacency.indptr, adjacency.indices, adjacency.data)))
        rows = [
            ("nodes", self.n_nodes),
            ("edges", self.n_edges),
            ("kind", "directed" if self._directed else "undirected"),
            ("weights", "different" if self.is_weighted else None if common is None else f"all {common:.4g}"),
            ("names", names),
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


class _Position(int):
    """What `Graph.index` found: an integer that is known to be a position."""


def is_integer(node: Any) -> bool:
    """Whether a node's name is an integer."""
    return isinstance(node, numbers.Integral) and not isinstance(node, bool)


def require_graph(graph: Any) -> Graph:
    """`graph`, once it is known to be a `Graph`: the check at the door of all that takes one."""
    if not isinstance(graph, Graph):
        raise checks.type_error(
            "graph", f"must be a graphrf.Graph, got {checks.describe(graph)}; graphrf.load_graph(...) makes one"
        )
    return graph


def _other_nodes(array: np.ndarray) -> str:
    """The first entry of an array of objects that is no string, or what to do with integers among them."""
    if array.dtype.kind != "O":
        return ""
    position, entry = next((i, node) for i, node in enumerate(array) if not isinstance(node, str))
    if isinstance(entry, int | np.integer):
        return "pass integers as an array of dtype int; "
    return f"entry {position} is {checks.describe(entry)}; "


def _validated(adjacency: Any, directed: bool) -> sp.csr_array:
    """A private, read-only, canonical CSR copy of a legal adjacency matrix."""
    if isinstance(adjacency, Graph):
        raise checks.type_error("adjacency", "must be a matrix, got a Graph; it can be used as it is")
    if sp.issparse(adjacency):
        matrix = adjacency
    else:
        try:
            matrix = np.asarray(adjacency)
        except ValueError as error:  # ragged lists
            raise checks.value_error("adjacency", f"must be a square matrix: {error}") from None
    if matrix.dtype.kind not in "biuf":
        raise checks.type_error(
            "adjacency",
            f"must be a numeric matrix, got {checks.describe(matrix)}; "
            "graphrf.load_graph reads files and other libraries' graphs, graphrf.from_edges edge lists",
        )
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise checks.value_error(
            "adjacency",
            f"must be a square matrix, got {checks.describe(matrix)}; "
            "graphrf.load_graph reads files and other libraries' graphs, graphrf.from_edges edge lists",
        )
    n_nodes = matrix.shape[0]
    if n_nodes == 0:
        raise checks.value_error("adjacency", "must have at least one node, got shape (0, 0)")
    if n_nodes >= 2**32:
        raise checks.value_error("adjacency", f"must have fewer than 2^32 nodes, got {n_nodes}")
    stored = matrix.nnz if sp.issparse(matrix) else np.count_nonzero(matrix)
    require_memory(
        24.0 * stored + 16.0 * n_nodes, f"a graph of {n_nodes} nodes and {stored} entries", "pass fewer nodes"
    )
    # Converted first: duplicates are added on the way to CSR, where small integers would overflow.
    csr = sp.csr_array(matrix.astype(np.float64, copy=False), copy=True)
    if not csr.has_canonical_format:
        csr.sum_duplicates()
    for problem, bad in (
        ("NaN", np.isnan(csr.data)),
        ("infinite", np.isinf(csr.data)),
        ("negative", csr.data < 0),
    ):
        if bad.any():
            row, column = _place(csr, int(np.flatnonzero(bad)[0]))
            way_out = (
                "weights are similarities, at least 0" if problem == "negative" else "drop or fill them first"
            )
            raise checks.value_error(
                "adjacency",
                f"must hold finite weights of at least 0, got {int(bad.sum())} {problem} "
                f"entries, the first at [{row}, {column}]; {way_out}",
            )
    csr.eliminate_zeros()
    if not directed:
        csr = _symmetric(csr)
    narrow = index_dtype(n_nodes, csr.nnz)
    if narrow == np.int32 and csr.indices.dtype != narrow:
        csr = sp.csr_array((csr.data, csr.indices.astype(narrow), csr.indptr.astype(narrow)), shape=csr.shape)
    for array in (csr.data, csr.indices, csr.indptr):
        array.setflags(write=False)
    return csr


def _symmetric(csr: sp.csr_array) -> sp.csr_array:
    """The matrix itself if symmetric; its symmetric part if it differs from it by rounding only."""
    transposed = sp.csr_array(csr.T)
    if not transposed.has_sorted_indices:
        transposed.sort_indices()
    same_pattern = np.array_equal(csr.indptr, transposed.indptr) and np.array_equal(
        csr.indices, transposed.indices
    )
    if same_pattern and np.array_equal(csr.data, transposed.data):
        return csr
    if same_pattern:
        off = np.abs(csr.data - transposed.data) > 1e-10 * np.maximum(csr.data, transposed.data)
        if not off.any():
            return sp.csr_array((0.5 * (csr.data + transposed.data), csr.indices, csr.indptr), shape=csr.shape)
        row, column = _place(csr, int(np.flatnonzero(off)[0]))
    else:
        difference = sp.coo_array(csr - transposed)
        worst = int(np.abs(difference.data).argmax())
        row, column = int(difference.row[worst]), int(difference.col[worst])
    raise checks.value_error(
        "adjacency",
        f"must be symmetric, got {csr[row, column]:g} at [{row}, {column}] but "
        f"{csr[column, row]:g} at [{column}, {row}]; pass directed=True to keep directions, "
        "or A + A.T to drop them",
    )


def _place(csr: sp.csr_array, entry: int) -> tuple[int, int]:
    """Row and column of a stored entry."""
    return int(np.searchsorted(csr.indptr, entry, side="right")) - 1, int(csr.indices[entry])


def _validated_names(nodes: Iterable[Hashable] | None, n_nodes: int) -> tuple[Hashable, ...] | None:
    if nodes is None:
        return None
    if isinstance(nodes, str | bytes) or not isinstance(nodes, Iterable):
        raise checks.type_error("nodes", f"must be a sequence of {n_nodes} names, got {checks.describe(nodes)}")
    names = tuple(nodes.tolist() if isinstance(nodes, np.ndarray) else nodes)
    if len(names) != n_nodes:
        raise checks.value_error("nodes", f"must hold {n_nodes} names, one for each row, got {len(names)}")
    try:
        distinct = len(set(names))
    except TypeError as error:
        raise checks.type_error("nodes", f"must hold hashable names: {error}") from None
    if distinct != n_nodes:
        seen: set[Hashable] = set()
        repeated = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise checks.value_error("nodes", f"must hold distinct names, got {repeated!r} more than once")
    if all(isinstance(name, int) for name in names) and names == tuple(range(n_nodes)):
        return None
    return names
