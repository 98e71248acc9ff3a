"""Graphs from edges, points and meshes."""

from __future__ import annotations

import importlib
import os
from collections.abc import Hashable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from graphrf._base import checks
from graphrf._base.files.untrusted import named
from graphrf._base.memory import require_memory
from graphrf._base.types import NodesLike
from graphrf.graph import notices
from graphrf.graph.edges import (
    checked_positions,
    checked_weights,
    ends_of_edges,
    merged_adjacency,
    positions_of_ends,
)
from graphrf.graph.geometry import meshes
from graphrf.graph.geometry.faces import Faces, face_pairs, n_crowded_sides, side_pairs
from graphrf.graph.graph import Graph

WEIGHT_KINDS = ("similarity", "distance")
POINT_WEIGHTS = ("unit", "gaussian", "inverse_length")
MESH_WEIGHTS = ("unit", "inverse_length", "cotangent")
# Trees are left, in many dimensions, to where comparing
# all points would take longer than a few seconds.
_TREE_COLUMNS, _MOST_COMPARED = 10, 30_000
# Distances below this share of the largest are lost in the rounding of squares.
_ROUNDED = 1e-4


def from_edges(
    src: NodesLike,
    dst: NodesLike,
    weight: ArrayLike | None = None,
    *,
    n_nodes: int | None = None,
    nodes: Iterable[Hashable] | None = None,
    directed: bool = False,
    weight_is: str = "similarity",
) -> Graph:
    """A `Graph` from the two ends of every edge.

    Parameters
    ----------
    src, dst : array_like, shape (E,)
        The ends: integers are positions from 0, anything else that can be hashed is a name.
    weight : array_like of float, shape (E,), or False, optional
        Weights, merged as in `load_graph`. Without them every joined pair has weight 1 however
        often it is listed; False does the same without a warning.
    n_nodes : int, optional
        Number of nodes, where ends are positions. Default: the largest position plus 1.
    nodes : iterable of distinct names, optional
        Names of all nodes in their order. Integer ends are positions unless some name is an
        integer. Default: the names in `src` and `dst` in the order of first appearance.
    directed : bool
        Whether an edge leads from `src` to `dst` only.
    weight_is : "similarity" or "distance"
        Distances d > 0 become weights mean(d) / d.

    Returns
    -------
    Graph

    Raises
    ------
    TypeError, ValueError
        If lengths differ, an end is negative, too large or unknown, or a weight is NaN, infinite,
        negative or not a number (the message names the edge).

    Warns
    -----
    UserWarning
        If positions without `n_nodes` make more than 1,000 nodes and 100 for every edge, as
        identifiers do, or are all numbers from 1 to the largest, and not 0; if parallel edges of a
        directed graph count once.

    Notes
    -----
    Cost: O(E) time and about 100 bytes per edge; 10 million edges between positions take a few
    seconds, names about a microsecond each.

    Examples
    --------
    >>> import graphrf as grf
    >>> grf.from_edges([0, 1, 2, 0], [1, 2, 0, 1]).adjacency.toarray()
    array([[0., 1., 1.],
           [1., 0., 1.],
           [1., 1., 0.]])
    >>> grf.from_edges(["a", "b"], ["b", "c"], [0.5, 2.0]).nodes
    ('a', 'b', 'c')
    """
    checks.choice("weight_is", weight_is, WEIGHT_KINDS)
    directed = checks.flag("directed", directed)
    said_unweighted, remarks = weight is False, [""]
    weight = None if said_unweighted else weight
    if weight is None and weight_is == "distance":
        raise checks.value_error(
            "weight", "must hold the distances that weight_is='distance' refers to, got None"
        )

    names, n_nodes = _checked_names(nodes, n_nodes)
    ends = [ends_of_edges("src", src), ends_of_edges("dst", dst)]
    if len(ends[0]) != len(ends[1]):
        raise checks.value_error(
            "src", f"and `dst` must be equally long, got {len(ends[0])} and {len(ends[1])}"
        )

    if _are_positions(ends, names):
        positions, size = _numbered_ends(ends, n_nodes if names is None else len(names), remarks)
    else:
        positions, names = _named_ends(ends, names, n_nodes)
        size = len(names)

    values = None
    if weight is not None:
        values = checked_weights(weight, len(positions[0]), weight_is, lambda edge: f"edge {edge}")
    adjacency = merged_adjacency(size, positions[0], positions[1], values, weight_is, directed)

    if directed and weight is None and not said_unweighted:
        remarks.append(
            notices.of_parallel_edges(len(positions[0]) - adjacency.nnz, len(positions[0]))
        )
    notices.warn_together(remarks)
    return Graph(adjacency, nodes=names, directed=directed)


def _checked_names(nodes: Any, n_nodes: Any) -> tuple[list[Any] | None, int | None]:
    """The names of all nodes, and their number, as far as these are given."""
    names = (
        None if nodes is None else list(nodes.tolist() if isinstance(nodes, np.ndarray) else nodes)
    )
    if n_nodes is not None:
        n_nodes = checks.integer("n_nodes", n_nodes, low=1)
        if names is not None and len(names) != n_nodes:
            raise checks.value_error(
                "nodes", f"must hold n_nodes={n_nodes} names, got {len(names)}"
            )
    return names, n_nodes


def _are_positions(ends: Any, names: list[Any] | None) -> bool:
    """True for ends that are integers where no name of a node is one."""
    numeric = all(isinstance(end, np.ndarray) for end in ends)
    return numeric and not any(isinstance(name, int | np.integer) for name in names or ())


def _numbered_ends(ends: Any, size: int | None, remarks: list[str]) -> tuple[list[np.ndarray], int]:
    """Ends that are positions, number of nodes, and remarks on what look like identifiers."""
    positions = [
        checked_positions(name, end, size) for name, end in zip(("src", "dst"), ends, strict=True)
    ]
    if size is not None:
        return positions, size
    size = 1 + max((int(end.max()) for end in positions if end.size), default=-1)
    if size == 0:
        raise checks.value_error(
            "src", "must hold at least one edge, got none; or give n_nodes or nodes"
        )
    name_them = "name the nodes by them: nodes=np.unique([src, dst])"
    remarks.append(notices.of_identifiers(size, len(positions[0]), name_them))
    remarks.append(notices.of_first_position(size, positions))
    return positions, size


def _named_ends(ends: Any, names: Any, n_nodes: int | None) -> tuple[Any, Any]:
    """Positions of ends among the names, and these."""
    listed = [end.tolist() if isinstance(end, np.ndarray) else end for end in ends]
    positions, names = positions_of_ends(listed, names)
    if n_nodes not in (None, len(names)):
        raise checks.value_error(
            "n_nodes",
            f"must be the number of names, {len(names)}, got {n_nodes}; "
            "give the names of nodes without edges by nodes=",
        )
    return positions, names


def from_points(
    x: ArrayLike, *, n_neighbors: int = 8, weights: str = "unit", lengthscale: float | None = None
) -> Graph:
    r"""The k-nearest-neighbour graph: i and j are joined if either is among the other's nearest.

    Parameters
    ----------
    x : array_like of float, shape (N, d) or (N,)
        Points; equal points are legal.
    n_neighbors : int
        Number of neighbours k of a point, itself not counted, from 1 to N - 1.
    weights : "unit", "gaussian" or "inverse_length"
        1, :math:`\exp(-d^2 / 2 s^2)` or mean(d) / d for distance d; in the last, a distance of zero
        counts as the smallest positive one. Gaussian weights that underflow to zero are no edges.
    lengthscale : float, optional
        s of the Gaussian weights. Default: the median distance over the edges (1 if it is zero).

    Returns
    -------
    Graph with N nodes and between N k / 2 and N k edges

    Raises
    ------
    TypeError, ValueError
        If `x` is not a finite matrix of numbers or an option is out of range.

    Notes
    -----
    Cost: O(N k log N) in few dimensions by a k-d tree (Maneewongvatana and Mount 1999), up to O(N^2
    d) in more than about 20; memory O(N (k + d)). From 11 columns on, up to 30,000 points are
    compared by matrix products where scikit-learn is installed (10,000 points with 30 columns: 0.5
    s in place of 3.5 s). Among neighbours whose distances agree to 1e-7 the choice is fixed for
    either way.

    Examples
    --------
    >>> import graphrf as grf
    >>> grf.from_points([0.0, 1.0, 3.0], n_neighbors=1).adjacency.toarray()
    array([[0., 1., 0.],
           [1., 0., 1.],
           [0., 1., 0.]])
    """
    checks.choice("weights", weights, POINT_WEIGHTS)
    if lengthscale is not None:
        lengthscale = checks.number("lengthscale", lengthscale, low=0.0, include_low=False)
        if weights != "gaussian":
            raise checks.value_error(
                "lengthscale", f"belongs to weights='gaussian', got weights={weights!r}"
            )

    points = checks.array("x", x)
    if points.dtype.kind not in "iuf" or points.ndim not in (1, 2) or points.size == 0:
        raise checks.value_error(
            "x", f"must be numbers of shape (N, d) or (N,), got {checks.describe(points)}"
        )
    points = checks.finite("x", points.astype(np.float64))
    points = points[:, None] if points.ndim == 1 else points
    n_points = len(points)
    if n_points < 2:
        raise checks.value_error("x", "must hold at least two points, got 1")
    k = checks.integer("n_neighbors", n_neighbors, low=1, high=n_points - 1)

    # Exact, and no square over- or underflows.
    exponent = _exponent(points)
    points = np.ldexp(points, -exponent)
    require_memory(
        48.0 * n_points * (k + 1),
        f"a graph of {n_points} points and {k} neighbours each",
        "lower n_neighbors",
    )

    distances, found = _nearest(points, k + 1)
    # A point is its own nearest neighbour, but among more than k equal points its list may miss it.
    others = found != np.arange(n_points)[:, None]
    others[others.all(axis=1), -1] = False
    src, dst, lengths = np.repeat(np.arange(n_points), k), found[others], distances[others]

    if weights == "unit":
        return from_edges(src, dst, n_nodes=n_points)
    if weights == "inverse_length":
        values = meshes.inverse_lengths(lengths)
    else:
        if lengthscale is None:
            scale = float(np.median(lengths)) or 1.0
        else:
            scale = np.ldexp(lengthscale, -exponent)
        with np.errstate(all="ignore"):  # far points weigh nothing, equal points 1
            values = np.exp(-0.5 * np.where(lengths == 0, 0.0, lengths / scale) ** 2)
    return from_edges(src, dst, values, n_nodes=n_points)


def _nearest(points: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Distances (N, k), ascending, and positions of the k nearest of each point, with itself."""
    from scipy.spatial import cKDTree

    by_tree = points.shape[1] <= _TREE_COLUMNS or len(points) > _MOST_COMPARED
    tree: Any = cKDTree(points) if by_tree else None
    neighbors: Any = None
    if tree is None:
        with suppress(ImportError):
            neighbors = importlib.import_module("sklearn.neighbors")

    if neighbors is None:
        distances, found = (tree or cKDTree(points)).query(points, k=k)
        return distances, found

    # Squares of distances are differences of squares of lengths here: those are made small first,
    # and what is lost in their rounding is left to the tree.
    centred = points - points.mean(axis=0)
    every = neighbors.NearestNeighbors(n_neighbors=k, algorithm="brute").fit(centred)
    found = every.kneighbors(centred, return_distance=False)
    distances = np.column_stack(
        [np.linalg.norm(points - points[column], axis=1) for column in found.T]
    )
    close = distances.max(axis=1) < _ROUNDED * np.sqrt((centred**2).sum(axis=1).max())
    if close.any():
        distances[close], found[close] = cKDTree(points).query(points[close], k=k)

    order = np.argsort(distances, axis=1, kind="stable")
    return np.take_along_axis(distances, order, axis=1), np.take_along_axis(found, order, axis=1)


def from_mesh(
    mesh: Any,
    *,
    on: str = "faces",
    weights: str = "unit",
    weld: bool = True,
    tolerance: float | None = None,
    memory_limit: int | None = None,
) -> Graph:
    r"""The graph of a mesh of triangles or other polygons, on its faces or on its vertices.

    Parameters
    ----------
    mesh : path, trimesh.Trimesh, or pair (vertices (V, 3), faces)
        Faces are an array (F, 3), or (F, k) for polygons of k corners, or a list of corners for
        each face; the number of corners may stand before those of each, also in one row, as in
        pyvista's `mesh.faces`. Files: `.stl`, `.ply`, `.off`, `.obj`, also with `.gz`; STL and PLY
        need trimesh.
    on : "faces" or "vertices"
        Faces are joined where they share a side (a side of three or more faces joins none, as in
        trimesh); vertices are joined along the sides of faces.
    weights : "unit", "inverse_length" or "cotangent"
        1; mean(d) / d for the distance d of the two centres (means of the corners) or vertices
        (zero counts as the smallest positive d); or, on vertices only, :math:`(\cot\alpha +
        \cot\beta) / 2` for the angles that face the side (Pinkall and Polthier 1993), with negative
        ones set to zero and a warning; polygons are then split into triangles at their first
        corner.
    weld : bool
        Whether vertices at the same place are one: files split them along seams and creases, which
        cuts the surface.
    tolerance : float, optional
        The distance within which places are the same, in the unit of the mesh. Default: 1e-4 of the
        median length of sides; 0: coordinates must be equal. It is smaller near sides shorter than
        four times the tolerance.
    memory_limit : int, optional
        Maximum number of bytes for reading a file. Default: the available memory.

    Returns
    -------
    Graph
        On faces: F nodes in the order of the faces (a Trimesh holds triangles only). On vertices: a
        node for every place, in the order of the vertices; where vertices were welded, its name is
        the number of the first vertex there, for `Graph.index`.

    Raises
    ------
    ImportError
        If an STL or PLY file is read without trimesh: pip install 'graphrf[mesh]'.
    TypeError, ValueError, FileNotFoundError
        If the mesh is of no kind above, has no face, or a face names a vertex that does not exist;
        if `tolerance` is a quarter of the median length of sides or more, or given with weld=False.
    MemoryError
        If the reading of a file would exceed `memory_limit`, before it is parsed.

    Warns
    -----
    UserWarning
        If more than 1 % of 100 or more faces (or vertices), or most of fewer, have no neighbour; if
        a Trimesh seems to have split quadrilaterals; if vertices within a given `tolerance` stay
        apart; if faces repeat; if many sides belong to three or more faces; if all vertices but 0
        are used, or faces may begin with numbers of corners.

    Notes
    -----
    Faces that repeat or have no area are legal; those that repeat have no neighbours, and those
    with fewer than three distinct corners neither. Values at all vertices are taken to nodes by
    `values[list(graph.nodes)]`, and predictions at nodes to all vertices by the nearest node:
    `scipy.spatial.cKDTree(vertices[list(graph.nodes)]).query(vertices)[1]`. Vertices of STL files
    have no numbers: pass their arrays. Cost: O(F log F).

    Examples
    --------
    >>> import numpy as np, graphrf as grf
    >>> square = (
    ...     np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0.0]]),
    ...     np.array([[0, 1, 2], [0, 2, 3]]),
    ... )
    >>> grf.from_mesh(square)
    Graph(2 nodes, 1 edges, undirected, unweighted)
    >>> grf.from_mesh(square, on="vertices", weights="cotangent").adjacency.toarray()[0]
    array([0. , 0.5, 0. , 0.5])
    """
    checks.choice("on", on, ("faces", "vertices"))
    checks.choice("weights", weights, MESH_WEIGHTS)
    if weights == "cotangent" and on == "faces":
        raise checks.value_error("weights", "= 'cotangent' needs on='vertices', got on='faces'")
    if not checks.flag("weld", weld) and tolerance is not None:
        raise checks.value_error(
            "tolerance", f"belongs to weld=True, got {tolerance!r} with weld=False"
        )
    if memory_limit is not None:
        memory_limit = checks.integer("memory_limit", memory_limit, low=1)

    if isinstance(mesh, str | bytes | os.PathLike):
        mesh = Path(checks.path("mesh", mesh))
        with named(mesh):
            vertices, faces = meshes.mesh_arrays(mesh, memory_limit)
    else:
        vertices, faces = meshes.mesh_arrays(mesh)

    places, remarks, n_repeated = np.arange(len(vertices)), [], 0
    # Weights depend on the shape alone: by this factor,
    # which is exact, no square over- or underflows.
    exponent = _exponent(vertices)
    vertices = np.ldexp(vertices, -exponent)
    if weld:
        places, faces, remark = meshes.weld(vertices, faces, tolerance, exponent)
        vertices, remarks = vertices[places], [remark]

    if on == "faces":
        pairs, points, names = face_pairs(faces), faces.centres(vertices), None
        n_repeated = faces.n_repeated()
        remarks.append(notices.of_repeated_faces(n_repeated))
    else:
        pairs, points, names = side_pairs(faces), vertices, places.tolist()

    values = None
    if weights == "inverse_length":
        values = meshes.inverse_lengths(
            np.linalg.norm(points[pairs[:, 0]] - points[pairs[:, 1]], axis=1)
        )
    elif weights == "cotangent":
        triangles = faces.triangles()
        pairs = side_pairs(Faces.of_rows(triangles))
        values = meshes.cotangent_weights(vertices, triangles, pairs)

    adjacency = merged_adjacency(len(points), pairs[:, 0], pairs[:, 1], values, "similarity", False)
    graph = Graph(adjacency, nodes=names)
    if not n_repeated:
        remarks.append(notices.of_crowded_sides(*n_crowded_sides(faces), on))
    way_out = "pass weld=True if vertices repeat"
    if weld:
        one = "the distance of vertices that should be one"
        way_out = f"pass tolerance=, {one}, if the mesh has gaps"
    remarks.append(notices.of_few_edges(on, graph, way_out, alone=meshes.usual_alone(len(points))))
    notices.warn_together(remarks)
    return graph


def _exponent(values: np.ndarray) -> int:
    """The power of two just above all magnitudes; 0 for zeros."""
    return int(np.frexp(np.abs(values).max(initial=0.0))[1])
