"""Every way into a `Graph`: edges, points, meshes, files, and the graphs of other libraries."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from graphrf._base import checks
from graphrf._base.files.untrusted import checked_size, named
from graphrf.graph import line_graphs, notices, python_lists, tables
from graphrf.graph.builders import WEIGHT_KINDS, from_mesh
from graphrf.graph.edges import Weights, checked_weights, merged_adjacency
from graphrf.graph.files import matrix_files, text_files
from graphrf.graph.files.other_formats import reader_of
from graphrf.graph.geometry import maps, meshes
from graphrf.graph.graph import Graph
from graphrf.graph.library_graphs import (
    from_matrix,
    from_networkx,
    from_other,
    from_pyg,
    refuse_weights,
    with_directions,
)
from graphrf.graph.other_graphs import other_graph, other_matrix


class _Options(NamedTuple):
    """The checked arguments of `load_graph`, but for the source and what its nodes are."""

    weights: Weights
    directed: bool | None
    columns: tuple[str | int, str | int] | None
    header: bool | None
    tolerance: float | None
    memory_limit: int | None


def load_graph(
    source: Any,
    *,
    on: str = "nodes",
    weight: str | int | bool | None = None,
    weight_is: str | None = None,
    directed: bool | None = None,
    columns: tuple[str | int, str | int] | None = None,
    header: bool | None = None,
    tolerance: float | None = None,
    memory_limit: int | None = None,
) -> Graph:
    r"""A `Graph` from a file, a table, a map, or the graph or matrix of another library.

    - A path: networkx's graph of a `.gml` or `.graphml` file; the edges, one per line, of `.csv`,
      `.tsv`, `.txt`, `.edges`, `.edgelist`, `.cites`, and `.mtx` without a banner; the matrix of
      `.mtx` (MatrixMarket) or `.npz` (`scipy.sparse.save_npz`); the face graph of `.stl`, `.ply`,
      `.off` or `.obj`. Each may also end in `.gz`. For other formats the error names a reader.
    - A data frame (pandas, polars): an edge per row; integers are names of nodes.
    - A GeoDataFrame or GeoSeries without columns such as source and target: lines join their ends,
      named by their coordinates; polygons that share a border, or of which one lies within the
      other, are joined, and named by the index.
    - A dictionary of the neighbours of each node, {"a": ["b", "c"]}, also with weights, {"a": {"b":
      2.0}}, or attributes; a list of pairs of nodes, or of longer tuples. An edge listed at one of
      its nodes joins both, unless `directed=True`.
    - A graph of networkx (such as OSMnx's roads), igraph, rustworkx, networkit or DGL; the
      `edge_index` of a PyG `Data`.
    - An adjacency matrix: scipy.sparse, NumPy, a torch tensor, or that of PyGSP, libpysal or
      scikit-network.
    - A trimesh.Trimesh: its face graph, as from `from_mesh`; a `Graph`: itself.

    Source of the weights of roads: V. Borovitskiy et al., Matern Gaussian processes on graphs,
    AISTATS 2021.

    Parameters
    ----------
    source : as above
    on : {"nodes", "edges"}
        "edges": the line graph, for values on edges, such as the speeds of streets (notes).
    weight : str, int or False, optional
        The attribute or column (by name, or by position from 0) of the weights; "weight" for the
        numbers of a dictionary, "length" for the lengths of lines of a map. By default the graph is
        unweighted: every joined pair has weight 1 however often it is listed; False does the same
        without a warning. The entries of a matrix are always weights.
    weight_is : "similarity" or "distance", optional
        Distances d > 0 become weights mean(d) / d, with the mean over the edges kept. Default:
        similarity, with a warning if the name of the weights suggests lengths, times or costs.
    directed : bool, optional
        By default the directed graphs of other libraries, GML and GraphML keep their directions,
        unless they are road graphs: a `MultiDiGraph`, or a graph with the attribute `crs`. Lists of
        edges ignore them; matrices and `edge_index` must be symmetric.
    columns : pair of str or int
        The columns of a list of edges that hold the two ends. Default: the first two, unless titles
        name others, or the table seems to be an adjacency matrix or a list of neighbours, which is
        refused.
    header : bool, optional
        Whether the first line of a file of edges has titles. By default it has if a column is asked
        for by name, if the ends are words such as source, target or id_1, id_2 or stand above
        columns of numbers, or if another column of numbers has a title such as weight; what may be
        titles or an edge is refused.
    tolerance : float, optional
        The distance within which ends of lines, borders of polygons or vertices of meshes are the
        same, in the unit of the coordinates. Default: 1e-4 of the median length of lines, outlines
        or sides; 0: coordinates must be equal.
    memory_limit : int, optional
        Maximum number of bytes for reading a file. Default: the available memory; a matrix in a
        file must then have at most 10^6 rows, or 100 per entry, because one with more is considered
        damaged. A row takes up to 48 bytes.

    Returns
    -------
    Graph
        Nodes of a list of edges that are all integers are named by these, in ascending order; other
        nodes by strings, in the order of their first appearance.

    Raises
    ------
    FileNotFoundError, ImportError
        If the file does not exist, or trimesh, for STL and PLY, is missing.
    MemoryError
        If reading a file would exceed `memory_limit`, before it is parsed; `.gz` files are
        decompressed only up to it.
    TypeError, ValueError
        If the source is of none of these kinds, or seems to hold values of nodes; if a file is
        empty, damaged, ragged or of unknown format (with its line); if a weight is missing, NaN,
        infinite or negative (with its edge); if names of polygons repeat; if `tolerance` is a
        quarter of the median length or more.

    Warns
    -----
    UserWarning
        Once per call, if weights called `weight` (or `weights`, `edge_weight`) are not used; if
        weights named like distances are taken for similarities; if parallel edges of a directed
        list or of networkx's multigraphs count once (those of undirected lists do so without a
        warning), or a `MultiDiGraph` without `crs` loses its directions, and no argument says so;
        if most areas of a map have no neighbour, or its lines fall into many parts; if borders
        overlap or have gaps; if more than a tenth of the ends of lines are joined by the default
        tolerance; if lines have several parts; if lengths seem to be in degrees.

    Notes
    -----
    **Parallel edges.** Without weights they count once, where `networkx.pagerank` counts each. With
    weights, similarities and the conductances 1/d of distances add over parallel edges of one
    direction, so that rows that a table repeats by mistake change the graph: drop them first
    (`drop_duplicates`). An undirected graph takes, for every pair of nodes, the direction with the
    larger sum, so a road that is listed once in each direction counts once; parallel edges of an
    undirected `MultiGraph` all add. In a directed source, and in a list with edges in both
    directions, two loops of a node and of one weight (to 0.1 %) are the two directions of one,
    unless OSMnx's attributes say that they are two one-way roads or ways. Self-loops are kept, and
    count in the degrees of the normalized Laplacian; from the combinatorial one they cancel.

    **Values on edges.** With on="edges", nodes are named as the source names its edges, and in its
    order: (u, v, key) in multigraphs, (u, v) in other graphs of networkx, the index of a frame,
    else positions. Edges are joined where they share an end: the two directions of a street are two
    nodes, unless the source is made undirected first (`osmnx.convert.to_undirected(G)`). A joined
    pair has the weight 1; for distances, that of the distance (d_a + d_b) / 2 between midpoints;
    for similarities, their harmonic mean. A node with k edges joins all k (k - 1) / 2 pairs of
    them, about 200 bytes each.

    **Maps.** Areas are neighbours if they have a border longer than the default tolerance in
    common, or if their borders run along each other within the tolerance for more than four times
    its length, and, with a warning, if they overlap by more; not if they touch at a corner. Lines
    meet at their ends, and not where they cross; the tolerance is smaller where lines are shorter
    than four times it. Parts of a MultiLineString share its length, time or cost by their lengths;
    other weights are those of the whole line. A map of 10,000 areas takes a few seconds.

    **Edge lists** are UTF-8 text. Lines that begin with `#` or `%` and white space are comments,
    and so are those above the first edge that begin with one of the two, unless their nodes come
    again. One separator serves the whole file: tabs, commas, semicolons or white space, by which
    all lines have the same number of cells; if several do, the one that cuts both ends alike, else
    the comma in `.csv`. Cells in quotation marks may hold a separator, and so may names that are
    tuples, (0, 1). What may be read in two ways, or seems to be of another format, is refused with
    the name of what reads it.

    **Untrusted files.** Nothing is unpickled, no other file is opened, and XML with a document type
    or entities is refused; of npz files only the arrays of the matrix are read. GML, GraphML, STL
    and PLY are read by networkx and trimesh, whose faults only the bound on the size contains.

    Cost: linear in the size of the source; a million lines of an edge list take about 2 s and 500
    MB, or 0.4 s if all nodes are integers and there are no weights.

    Examples
    --------
    >>> import networkx as nx, graphrf as grf
    >>> grf.load_graph(nx.karate_club_graph(), weight=False)    # weight="weight" uses its weights
    Graph(34 nodes, 78 edges, undirected, unweighted)
    >>> roads = nx.MultiDiGraph(crs="epsg:4326")                # as OSMnx makes them
    >>> lengths = [("a", "b", 100.0), ("b", "a", 100.0), ("b", "c", 300.0)]
    >>> roads.add_weighted_edges_from(lengths, weight="length")
    >>> grf.load_graph(
    ...     roads, weight="length", weight_is="distance"
    ... ).adjacency.toarray()  # mean length 200
    array([[0.        , 2.        , 0.        ],
           [2.        , 0.        , 0.66666667],
           [0.        , 0.66666667, 0.        ]])
    """
    if weight_is is not None:
        checks.choice("weight_is", weight_is, WEIGHT_KINDS)
    if weight is True or not (weight is None or isinstance(weight, str | int)):
        raise checks.type_error(
            "weight",
            "must be the name of an attribute or column, or False for an unweighted graph, "
            f"got {checks.describe(weight)}",
        )

    options = _Options(
        Weights(weight, weight_is),
        None if directed is None else checks.flag("directed", directed),
        _two_columns(columns),
        None if header is None else checks.flag("header", header),
        tolerance,
        None if memory_limit is None else checks.integer("memory_limit", memory_limit, low=1),
    )

    if checks.choice("on", on, ("nodes", "edges")) == "edges":
        return _line_graph(source, options)
    if isinstance(source, str | bytes | os.PathLike):
        path = Path(checks.path("source", source))
        with named(path):
            return _from_file(path, options)
    return _from_object(source, options)


# -- sources of load_graph -------------------------------------------------------------------------


def _from_object(source: Any, options: _Options) -> Graph:
    """The graph of anything but a file."""
    weights, directed, columns, header = options[:4]
    if columns is None and header is None and maps.is_map(source) and not tables.names_ends(source):
        found = maps.edges_of_map(source, weights.name, weights.stated, options.tolerance)
        return _from_edge_list("row", found.edges, weights, bool(directed), found)
    if meshes.has_faces(source):
        return _from_plain_mesh(source, options)
    _refuse_tolerance(options.tolerance, f"a {type(source).__name__}")
    as_table, as_plain = tables.is_table(source), python_lists.is_plain(source)
    if header is not None or (columns is not None and not (as_table or as_plain)):
        raise checks.value_error(
            "columns", f"and `header` belong to files of edges, got a {type(source).__name__}"
        )
    if not (as_table or as_plain):
        return _from_library(source, weights, directed)
    weights.check()
    if as_table:
        edges = tables.edges_of_table(source, columns, weights.name)
        return _from_edge_list("row", edges, weights, bool(directed))
    edges = python_lists.plain_edges(source, columns, weights.given)
    return _from_edge_list("edge", edges, weights, bool(directed))


def _from_library(source: Any, weights: Weights, directed: bool | None) -> Graph:
    """The graph of a matrix, or of an object of networkx, PyG or another library."""
    networkx = sys.modules.get("networkx")
    if networkx is not None and isinstance(source, networkx.Graph):
        return from_networkx(source, weights, directed)
    if sp.issparse(source) or isinstance(source, np.ndarray):
        return from_matrix(source, weights, directed)
    if hasattr(source, "edge_index"):
        return from_pyg(source, weights, directed)
    if isinstance(source, Graph):
        refuse_weights(weights, "a Graph, which holds its weights")
        if directed not in (None, source.directed):
            raise checks.value_error(
                "directed",
                f"must be that of the Graph, {source.directed}, got {directed}; "
                "graph.to_undirected() drops directions, Graph(graph.adjacency, directed=True) "
                "gives every edge both",
            )
        return source
    return _from_another_library(source, weights, directed)


def _from_file(path: Path, options: _Options) -> Graph:
    weights, directed, memory_limit = options.weights, options.directed, options.memory_limit
    checked_size(path)
    kind = text_files.suffix(path)
    if kind not in meshes.MESH_SUFFIXES:
        _refuse_tolerance(options.tolerance, str(path))

    as_edges = kind in text_files.EDGE_LIST_SUFFIXES
    if kind == ".mtx":
        as_edges = not matrix_files.is_matrix_market(path)
    if as_edges:
        weights.check()
        return _from_edge_list(
            f"{path}, line", _edges_of_file(path, options), weights, bool(directed)
        )

    if options.header is not None or options.columns is not None:
        raise checks.value_error("columns", f"and `header` belong to edge lists, {path} is none")
    if kind in meshes.MESH_SUFFIXES:
        return _from_plain_mesh(path, options)
    if kind in (".gml", ".graphml"):
        return from_networkx(_network(path, memory_limit), weights, directed)
    if kind in (".mtx", ".npz"):
        matrix = matrix_files.read_npz if kind == ".npz" else matrix_files.read_matrix_market
        return from_matrix(matrix(path, memory_limit), weights, directed)

    raise ValueError(
        f"{path} has no known format; wanted .gml, .graphml, .mtx, .npz, an edge list "
        f"({', '.join(text_files.EDGE_LIST_SUFFIXES)}) or a mesh "
        f"({', '.join(meshes.MESH_SUFFIXES)}), each also with .gz{reader_of(path)}"
    )


def _network(path: Path, memory_limit: int | None) -> Any:
    """The networkx graph of a GML or GraphML file."""
    read = text_files.read_gml if text_files.suffix(path) == ".gml" else text_files.read_graphml
    return read(path, memory_limit)


def _edges_of_file(path: Path, options: _Options) -> text_files.EdgeList:
    return text_files.read_edge_list(
        path,
        columns=options.columns,
        weight=options.weights.name,
        header=options.header,
        memory_limit=options.memory_limit,
    )


def _line_graph(source: Any, options: _Options) -> Graph:
    """The graph of the edges of a source: see `line_graphs`."""
    weights, tolerance = options.weights, options.tolerance
    if options.directed:
        raise checks.value_error(
            "directed",
            "must not be True with on='edges', which joins edges whatever their directions; "
            "load_graph(networkx.line_graph(G), directed=True) keeps them",
        )

    weights.check()
    if not isinstance(source, str | bytes | os.PathLike):
        return line_graphs.line_graph(source, weights, options.columns, tolerance)
    _refuse_tolerance(tolerance, "a file of edges")

    path = Path(checks.path("source", source))
    with named(path):
        checked_size(path)
        kind = text_files.suffix(path)
        if kind in (".gml", ".graphml"):
            return line_graphs.line_graph(
                _network(path, options.memory_limit), weights, options.columns, None
            )
        if kind not in text_files.EDGE_LIST_SUFFIXES:
            raise checks.value_error(
                "on", f"= 'edges' needs a list of edges, GML or GraphML, got {path.name}"
            )
        return line_graphs.of_edge_list(
            f"{path}, line", _edges_of_file(path, options), weights, None
        )


def _two_columns(columns: Any) -> tuple[str | int, str | int] | None:
    if columns is None:
        return None
    ok = isinstance(columns, tuple | list) and len(columns) == 2
    ok = ok and all(isinstance(name, str | int) and not isinstance(name, bool) for name in columns)
    if not ok:
        raise checks.type_error(
            "columns", f"must be two names or positions of columns, got {checks.describe(columns)}"
        )
    if columns[0] == columns[1]:
        raise checks.value_error(
            "columns", f"must be two different columns, got {columns[0]!r} twice"
        )
    return columns[0], columns[1]


def _from_another_library(source: Any, weights: Weights, directed: bool | None) -> Graph:
    other = other_graph(source)
    if other is not None:
        return from_other(other, weights, directed)
    matrix = other_matrix(source)
    if matrix is not None:
        made = from_matrix(matrix[0], weights, matrix[1] if directed is None else directed)
        if matrix[2] is None:
            return made
        return Graph(made.adjacency, nodes=matrix[2], directed=made.directed)
    raise checks.type_error(
        "source",
        "must be a path, a data frame, a dictionary of neighbours, a list of pairs, a graph of "
        "networkx, igraph, rustworkx, networkit, DGL, PyGSP or libpysal, a matrix of scipy.sparse, "
        f"NumPy or torch, a PyG Data, a trimesh.Trimesh or a Graph, got {checks.describe(source)}; "
        "graphrf.from_edges takes arrays of edges",
    )


def _from_edge_list(
    place: str,
    edges: text_files.EdgeList,
    weights: Weights,
    directed: bool,
    found: maps.MapEdges | None = None,
) -> Graph:
    n_edges, values = len(edges.src), None
    if edges.weight is not None:
        values = checked_weights(
            edges.weight, n_edges, weights.kind, lambda edge: f"{place} {edges.lines[edge]}"
        )
    adjacency = merged_adjacency(
        len(edges.nodes), edges.src, edges.dst, values, weights.kind, directed
    )
    remarks = notices.of_weights(edges.weight_title, edges.others, weights)
    if weights.given is None:
        remarks.append(
            notices.of_parallel_edges(n_edges - adjacency.nnz if directed else 0, n_edges)
        )
    graph = Graph(adjacency, nodes=edges.nodes, directed=directed)
    if found is not None:
        remarks += found.notices(graph)
    notices.warn_together(remarks)
    return graph


def _from_plain_mesh(mesh: Any, options: _Options) -> Graph:
    refuse_weights(options.weights, "a mesh; graphrf.from_mesh has weights=")
    graph = from_mesh(mesh, tolerance=options.tolerance, memory_limit=options.memory_limit)
    return with_directions(graph) if options.directed else graph


def _refuse_tolerance(tolerance: Any, what: str) -> None:
    if tolerance is not None:
        raise checks.value_error(
            "tolerance", f"belongs to maps and meshes, got {tolerance!r} for {what}"
        )
