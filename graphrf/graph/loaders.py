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
    columns: Any
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
    r"""A `Graph` from a file or from another library's graph.

    Each source is read as follows:

    - a path that ends in `.gml` or `.graphml`: the networkx graph of that file; in `.csv`, `.tsv`, `.txt`,
      `.edges`, `.edgelist` or `.cites`: a list of edges, one per line (rules below); in `.mtx`: a MatrixMarket
      matrix, or without its banner a list of edges; in `.npz`: a matrix from `scipy.sparse.save_npz`; in
      `.stl`, `.ply`, `.off` or `.obj`: the face graph of the mesh. Each may also end in `.gz`. For other formats
      the error names a reader whose result can be passed;
    - a data frame (pandas, polars): a list of edges, one per row, as in a csv file of the table; integers are
      names of nodes, such as the identifiers of OpenStreetMap, and not positions;
    - a GeoDataFrame or GeoSeries without columns such as source and target: lines join their ends, which are
      named by their coordinates (`weight="length"` takes their lengths); polygons that share a border, or of which
      one lies within the other, are joined, and named by the index;
    - a dictionary of the neighbours of each node, {"a": ["b", "c"]}, also with numbers, {"a": {"b": 2.0}}
      (`weight="weight"` uses them), or attributes, as networkx's dictionaries of dictionaries; a list of pairs of
      nodes, or of longer tuples, whose weights are asked for by position. Names are taken as they are, integers
      too. A neighbour listed at one of two nodes only is joined to both, unless `directed=True`;
    - a networkx graph, such as OSMnx's road graphs: its nodes, their names, and its edges; likewise graphs of
      igraph, rustworkx, networkit and DGL;
    - a scipy.sparse or NumPy matrix, or a torch tensor, dense or sparse: the adjacency matrix; likewise for the
      matrices of PyGSP, libpysal and scikit-network, with their names;
    - a PyG `Data`: its `edge_index`; `weight` names an attribute such as `"edge_weight"`;
    - a trimesh.Trimesh: its face graph, as from `from_mesh`;
    - a `Graph`: itself.

    Parameters
    ----------
    source : as above
    on : {"nodes", "edges"}
        "edges": the line graph, for values on edges, such as the speeds of streets. Its nodes are the edges of the
        source, joined where they share an end (notes).
    weight : str, int or False, optional
        The edge attribute, or the column of an edge list (by name, or by position from 0), that holds the
        weights. Weights are used only if they are named: by default the graph is unweighted, and every
        joined pair has weight 1 however often it is listed; False does the same without a warning. Only the
        entries of a matrix are always weights.
    weight_is : "similarity" or "distance", optional
        Distances d become weights mean(d) / d (Borovitskiy et al. 2021), the mean over the edges kept; a
        distance of zero is refused, and so is "distance" without `weight`. Default: similarity, with a warning if
        the name of the weights suggests lengths, times or costs.
    directed : bool, optional
        True keeps the directions, False ignores them. By default networkx's directed graphs, and GML and
        GraphML files that are directed, keep them, unless they are road graphs of OSMnx: a `MultiDiGraph`, or
        a graph with the attribute `crs`. Lists of edges ignore them; matrices and PyG's `edge_index` must be
        symmetric.
    columns : pair of str or int
        The columns of an edge list that hold the two ends of an edge, by name or by position. Default: the first
        two; a list whose titles name others as source and target, and a table that seems to be an adjacency matrix
        or to list the neighbours of each node, is then refused.
    header : bool, optional
        Whether the first line of an edge list names its columns. By default it does if a column is asked for by
        name, if its two ends are words such as source, target or id_1, id_2, if they are words above columns of
        numbers, or if another column of numbers has a title such as weight or length; a first line that may be
        titles or an edge is refused.
    tolerance : float, optional
        For lines, polygons and meshes: the distance within which ends, borders or vertices are the same, in the
        unit of the coordinates. Default: 1e-4 of the median length of lines, outlines or sides (notes); 0:
        coordinates must be equal.
    memory_limit : int, optional
        Maximum number of bytes for reading a file. Default: the available memory; a matrix in a file must then
        have at most 10^6 rows, or 100 per entry, because one with more is considered damaged. A row takes up to 48
        bytes.

    Returns
    -------
    Graph
        Nodes of an edge list that are all integers are named by these, in ascending order; other nodes are
        named by strings, in the order of their first appearance.

    Raises
    ------
    FileNotFoundError
        If the file does not exist.
    MemoryError
        If reading a file would exceed `memory_limit`; raised before it is parsed. A `.gz` file is decompressed
        only up to the limit.
    TypeError, ValueError
        If the source is of none of these kinds; if the first column of a data frame or list is text and the second
        integers, or the other way round, and no titles nor `columns` say that these are ends; if a file is not a
        plain file, or is empty, truncated, ragged or of unknown format (with its name and line); if a weight is
        missing, not a number, NaN, infinite or negative (with its edge); if the index of a map of polygons has
        repeated names; if `tolerance` is a quarter of the median length or more, or the source has no coordinates.
    ImportError
        If an STL, PLY or OFF file is read without trimesh.

    Warns
    -----
    UserWarning
        Once per call, if an attribute or column named `weight` (or `weights`, `edge_weight`) that is not 1
        everywhere is not used because `weight` is not given; if `weight` is named like a distance and
        `weight_is` is not given; if parallel edges without weights are counted once, in a directed graph or in
        a multigraph of networkx that is no road graph (no `crs`); if a `MultiDiGraph` without `crs` loses its
        directions though `directed` is not given; if most areas of a map have no neighbour, or its lines fall into
        many parts; if borders overlap, or many of them have gaps between them; if more than a tenth of the ends of
        lines are joined by the default tolerance; if lines have several parts; if lengths seem to be in degrees.

    Notes
    -----
    **Parallel edges and both directions.** Similarities and the conductances 1/d of distances add over
    parallel edges of one direction, as currents do over parallel roads. An undirected graph takes, for every
    pair of nodes, the direction with the larger sum: a road that is listed once in each direction counts
    once. (Parallel edges of networkx's undirected `MultiGraph` have no direction and all add.) Without weights
    they count once, where `networkx.pagerank` counts each; edges that all have the weight 1 give the same here.

    **Values on edges.** With on="edges", nodes are named as the source names its edges: (u, v, key) in multigraphs
    of networkx and tables of OSMnx, (u, v) in other graphs of networkx; in data frames and maps by the index; in
    files and graphs of other libraries by their positions. They keep the order of the source: the rows of
    `osmnx.graph_to_gdfs(G, nodes=False)` are the nodes. Edges are joined whatever their directions. The two
    directions of a street are two nodes, joined as any two edges with a common end are, and so are parallel edges;
    where both directions have the same value, make the graph undirected first
    (`osmnx.convert.to_undirected(G)`). Lines of a map meet where they end within the tolerance, and not where they
    cross. Every joined pair has the weight 1; distances d give it the distance between the midpoints,
    (d_a + d_b) / 2, and similarities their harmonic mean. A node with k edges joins all k (k - 1) / 2 pairs of
    them, which takes about 200 bytes a pair.

    **Maps.** Areas are neighbours if they have a border longer than the default tolerance in common, or if their
    borders run along each other within the tolerance for more than four times its length, whatever their vertices;
    not if they touch at a corner. Areas that overlap by more are neighbours, too, with a warning. Ends of lines
    that lie within the tolerance of each other, directly or through others, are one node; it is smaller where
    lines are shorter than four times the tolerance, so that no line vanishes. Each part of a MultiLineString is an
    edge: lengths, times and costs (weight_is="distance", or so named) are shared among the parts by their lengths,
    and other weights are those of the whole line. A map of 10,000 areas takes a few seconds.

    **Edge lists** are UTF-8 text. Comments are lines that begin with `#` or `%` and white space (or nothing more),
    and those above the first edge that begin with one of the two, unless the nodes in them come again below; all
    else is an edge, and what may be either is refused. One separator serves the whole file: tabs, commas,
    semicolons or white space, whichever gives all lines the same number of cells, two or more. Where two of them
    do, it is the one whose cells hold no other; else the one that cuts both ends of the edges alike, that leaves
    numbers beside them, or that has fewer different nodes; else, in files called `.csv`, the comma; and else the
    file is refused. Cells in quotation marks may hold a separator, and so may tuples of numbers and quoted text,
    such as (0, 1): these are names that are tuples. Files that seem to be of another format (DIMACS, METIS, Pajek,
    GAL, GWT, LEDA, DOT, JSON, XML, lists of neighbours, a first line that counts the edges) are refused with the
    name of what reads them.

    **Matrices.** A MatrixMarket file has one entry a line, as the format wants it, rows and columns as plain
    digits, and no comments after its size. Of an npz file only what `save_npz` writes is read, and other members
    are left alone.

    Self-loops are kept. Cost: linear in the size of the source; a million lines of an edge list take about
    2 s and 500 MB, or 0.4 s if all nodes are integers and there are no weights.

    **Files that are not to be trusted.** Nothing is unpickled, no other file is opened, and XML with a document
    type or entities is refused; the readers of edge lists, MatrixMarket, npz and OBJ files are graphrf's own. GML,
    GraphML and other meshes are read by networkx and trimesh: that these never crash, nor read damaged numbers as
    others, is not promised, and only the size of what they are given is bounded.

    Examples
    --------
    >>> import networkx as nx, graphrf as grf
    >>> grf.load_graph(nx.karate_club_graph(), weight=False)    # weight="weight" uses its weights
    Graph(34 nodes, 78 edges, undirected, unweighted)
    >>> roads = nx.MultiDiGraph(crs="epsg:4326")                # as OSMnx makes them
    >>> roads.add_edges_from([("a", "b", {"length": 100.0}), ("b", "a", {"length": 100.0})])
    [0, 0]
    >>> _ = roads.add_edge("b", "c", length=300.0)
    >>> graph = grf.load_graph(roads, weight="length", weight_is="distance")
    >>> graph.adjacency.toarray()    # lengths 100 and 300, mean 200
    array([[0.        , 2.        , 0.        ],
           [2.        , 0.        , 0.66666667],
           [0.        , 0.66666667, 0.        ]])

    References
    ----------
    V. Borovitskiy et al., Matern Gaussian processes on graphs, AISTATS 2021 (weights of roads).
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
        columns,
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


# -- sources of load_graph -----------------------------------------------------------------------------


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
        edges = tables.edges_of_table(source, _two_columns(columns), weights.name)
        return _from_edge_list("row", edges, weights, bool(directed))
    edges = python_lists.plain_edges(source, _two_columns(columns), weights.given)
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
                f"must be that of the Graph, {source.directed}, got {directed}; graph.to_undirected() "
                "drops directions, Graph(graph.adjacency, directed=True) gives every edge both",
            )
        return source
    return _from_another_library(source, weights, directed)


def _from_file(path: Path, options: _Options) -> Graph:
    weights, directed, columns, header, tolerance, memory_limit = options
    checked_size(path)
    kind = text_files.suffix(path)
    if kind not in meshes.MESH_SUFFIXES:
        _refuse_tolerance(tolerance, str(path))
    as_edges = kind in text_files.EDGE_LIST_SUFFIXES
    if kind == ".mtx":
        as_edges = not matrix_files.is_matrix_market(path)
    if as_edges:
        weights.check()
        edges = text_files.read_edge_list(
            path, columns=_two_columns(columns), weight=weights.name, header=header, memory_limit=memory_limit
        )
        return _from_edge_list(f"{path}, line", edges, weights, bool(directed))
    if header is not None or columns is not None:
        raise checks.value_error("columns", f"and `header` belong to edge lists, {path} is none")
    if kind in meshes.MESH_SUFFIXES:
        return _from_plain_mesh(path, options)
    if kind in (".gml", ".graphml"):
        network = text_files.read_gml if kind == ".gml" else text_files.read_graphml
        return from_networkx(network(path, memory_limit), weights, directed)
    if kind in (".mtx", ".npz"):
        matrix = matrix_files.read_npz if kind == ".npz" else matrix_files.read_matrix_market
        return from_matrix(matrix(path, memory_limit), weights, directed)
    raise ValueError(
        f"{path} has no known format; wanted .gml, .graphml, .mtx, .npz, an edge list "
        f"({', '.join(text_files.EDGE_LIST_SUFFIXES)}) or a mesh ({', '.join(meshes.MESH_SUFFIXES)}), "
        f"each also with .gz{reader_of(path)}"
    )


def _line_graph(source: Any, options: _Options) -> Graph:
    """The graph of the edges of a source: see `line_graphs`."""
    weights, directed, columns, header, tolerance, memory_limit = options
    if directed:
        raise checks.value_error(
            "directed",
            "must not be True with on='edges', which joins edges whatever their directions; "
            "load_graph(networkx.line_graph(G), directed=True) keeps them",
        )
    weights.check()
    columns = _two_columns(columns)
    if not isinstance(source, str | bytes | os.PathLike):
        return line_graphs.line_graph(source, weights, columns, tolerance)
    _refuse_tolerance(tolerance, "a file of edges")
    path = Path(checks.path("source", source))
    with named(path):
        checked_size(path)
        kind = text_files.suffix(path)
        if kind in (".gml", ".graphml"):
            network = text_files.read_gml if kind == ".gml" else text_files.read_graphml
            return line_graphs.line_graph(network(path, memory_limit), weights, columns, None)
        if kind not in text_files.EDGE_LIST_SUFFIXES:
            raise checks.value_error("on", f"= 'edges' needs a list of edges, GML or GraphML, got {path.name}")
        edges = text_files.read_edge_list(
            path, columns=columns, weight=weights.name, header=header, memory_limit=memory_limit
        )
        return line_graphs.of_edge_list(f"{path}, line", edges, weights, None)


def _two_columns(columns: Any) -> tuple[str | int, str | int] | None:
    if columns is None:
        return None
    ok = isinstance(columns, tuple | list) and len(columns) == 2
    if not ok or not all(isinstance(column, str | int) and not isinstance(column, bool) for column in columns):
        raise checks.type_error(
            "columns", f"must be two names or positions of columns, got {checks.describe(columns)}"
        )
    if columns[0] == columns[1]:
        raise checks.value_error("columns", f"must be two different columns, got {columns[0]!r} twice")
    return columns[0], columns[1]


def _from_another_library(source: Any, weights: Weights, directed: bool | None) -> Graph:
    other = other_graph(source)
    if other is not None:
        return from_other(other, weights, directed)
    matrix = other_matrix(source)
    if matrix is not None:
        made = from_matrix(matrix[0], weights, matrix[1] if directed is None else directed)
        return made if matrix[2] is None else Graph(made.adjacency, nodes=matrix[2], directed=made.directed)
    raise checks.type_error(
        "source",
        "must be a path, a data frame, a dictionary of neighbours, a list of pairs, a graph of networkx, igraph, "
        "rustworkx, networkit, DGL, PyGSP or libpysal, a matrix of scipy.sparse, NumPy or torch, a PyG Data, a "
        f"trimesh.Trimesh or a Graph, got {checks.describe(source)}; graphrf.from_edges takes arrays of edges",
    )


def _from_edge_list(
    place: str, edges: text_files.EdgeList, weights: Weights, directed: bool, found: maps.MapEdges | None = None
) -> Graph:
    n_edges, values = len(edges.src), None
    if edges.weight is not None:
        values = checked_weights(edges.weight, n_edges, weights.kind, lambda edge: f"{place} {edges.lines[edge]}")
    adjacency = merged_adjacency(len(edges.nodes), edges.src, edges.dst, values, weights.kind, directed)
    remarks = [notices.of_distances(edges.weight_title, weights.stated)]
    if weights.given is None:
        remarks.append(notices.of_unused_weight(edges.others))
        remarks.append(notices.of_parallel_edges(n_edges - adjacency.nnz if directed else 0, n_edges))
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
        raise checks.value_error("tolerance", f"belongs to maps and meshes, got {tolerance!r} for {what}")
