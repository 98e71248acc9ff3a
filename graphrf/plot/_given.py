"""Checks of what is plotted: coordinates, edges, meshes, and the values of nodes or faces."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from graphrf._base import checks
from graphrf._base.files.untrusted import listed
from graphrf.graph.graph import Graph
from graphrf.graph.labels import Lookup

# For each axis that may point up, the axes that take the places of x, y and z.
_TURNS = {"x": (1, 2, 0), "y": (2, 0, 1), "z": (0, 1, 2)}
# Nearer to the equator degrees of longitude are as
# long as those of latitude, but for one in seventy.
_LEAST_LATITUDE = 10
_UNITS = {"metre": "m", "kilometre": "km", "foot": "ft", "US survey foot": "ft"}
_UPS = (*_TURNS, *(f"-{axis}" for axis in _TURNS))


def places(coordinates: ArrayLike) -> np.ndarray:
    """Coordinates of nodes in the plane, (N, 2)."""
    array = np.asarray(coordinates, dtype=np.float64)
    if array.ndim != 2 or array.shape[1] != 2:
        raise checks.value_error("coordinates", f"must have shape (N, 2), got {array.shape}")
    return array


def in_degrees(coordinates: np.ndarray, geographic: bool | None) -> bool:
    """True if coordinates are longitudes and latitudes: as stated, or by the usual rule."""
    if geographic is not None:
        return checks.flag("geographic", geographic)
    known = coordinates[np.isfinite(coordinates).all(axis=1)]
    if not known.size or (np.abs(known) > (180, 90)).any() or (known == np.round(known)).all():
        return False
    south, north = known[:, 1].min(), known[:, 1].max()
    return bool(abs(south + north) / 2 >= max(_LEAST_LATITUDE, north - south))


def links(edges: Graph | ArrayLike, n_nodes: int) -> np.ndarray:
    """Edges as pairs of positions, (E, 2): as given, or those of a graph, each once."""
    if isinstance(edges, Graph):
        if edges.n_nodes != n_nodes:
            raise checks.value_error(
                "edges",
                f"must be a graph with a node for each of {n_nodes} coordinates, got {edges!r}",
            )
        entries = edges.adjacency.tocoo()
        pairs = np.column_stack([entries.row, entries.col]).astype(np.int64)
        return pairs if edges.directed else pairs[pairs[:, 0] < pairs[:, 1]]
    array = np.asarray(edges)
    if array.size and (array.ndim != 2 or array.shape[1] != 2):
        raise checks.value_error(
            "edges", f"must be a graph or have shape (E, 2), got {array.shape}"
        )
    pairs = array.astype(np.int64).reshape(-1, 2)
    if pairs.size and (pairs.min() < 0 or pairs.max() >= n_nodes):
        raise checks.value_error(
            "edges", f"must be positions in [0, {n_nodes - 1}], got {pairs.min()} to {pairs.max()}"
        )
    return pairs


def mesh(vertices: ArrayLike, faces: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """A triangle mesh: vertices (V, 3) and faces (F, 3)."""
    corners, triangles = np.asarray(vertices, dtype=np.float64), np.asarray(faces)
    if corners.ndim != 2 or corners.shape[1] != 3:
        raise checks.value_error("vertices", f"must have shape (V, 3), got {corners.shape}")
    if triangles.ndim != 2 or triangles.shape[1] != 3 or triangles.dtype.kind not in "iu":
        raise checks.value_error(
            "faces",
            "must be integers of shape (F, 3), the positions of three vertices each, got "
            f"{checks.describe(triangles)}",
        )
    if triangles.size and (triangles.min() < 0 or triangles.max() >= len(corners)):
        raise checks.value_error(
            "faces",
            f"must be positions of vertices, in [0, {len(corners) - 1}], got {triangles.min()} to "
            f"{triangles.max()}",
        )
    return corners, triangles.astype(np.int64)


def node_values(values: ArrayLike, n_nodes: int, name: str = "values") -> np.ndarray:
    """One value for each node, (N,)."""
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (n_nodes,):
        raise checks.value_error(
            name, f"must have one entry per node, shape ({n_nodes},), got {array.shape}"
        )
    return array


def deviations(deviation: ArrayLike, shape: tuple[int, ...], of: str = "`mean`") -> np.ndarray:
    """Standard deviations, one for each value: at least 0, NaN where there is none."""
    array = np.asarray(deviation, dtype=np.float64)
    if array.shape != shape:
        raise checks.value_error(
            "deviation", f"must have one value per entry of {of}, shape {shape}, got {array.shape}"
        )
    below = np.flatnonzero(array.ravel() < 0)
    if below.size:
        raise checks.value_error(
            "deviation",
            f"must be standard deviations of at least 0, got {array.ravel()[below[0]]:.4g} at "
            f"position {below[0]} ({below.size} of {array.size} are negative); "
            "predict(return_std=True) gives the mean, then these",
        )
    return array


def mesh_values(
    values: ArrayLike, n_vertices: int, n_faces: int, on: str | None
) -> tuple[np.ndarray, bool]:
    """The values of a mesh, and whether they are its vertices': by `on`, or their number."""
    if on is not None:
        checks.choice("on", on, ("faces", "vertices"))
    array = np.asarray(values, dtype=np.float64)
    wanted = {"faces": n_faces, "vertices": n_vertices}
    fits = [
        kind for kind, number in wanted.items() if array.shape == (number,) and on in (None, kind)
    ]
    if not fits:
        one = {"faces": "face", "vertices": "vertex"}
        shapes = ", or ".join(
            f"per {one[kind]}, shape ({number},)"
            for kind, number in wanted.items()
            if on in (None, kind)
        )
        raise checks.value_error("values", f"must have one entry {shapes}, got {array.shape}")
    return array, fits[0] == "vertices"


def marked(observed: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """Places in space, (m, 3), and what was observed there, (m,), of a pair; None for others."""
    if not isinstance(observed, tuple | list) or len(observed) != 2 or np.ndim(observed[0]) != 2:
        return None
    spots, values = (np.asarray(each, dtype=np.float64) for each in observed)
    if spots.shape[1] != 3 or values.shape != (len(spots),):
        raise checks.value_error(
            "observed",
            f"must be places of shape (m, 3) and as many values, got {spots.shape} and "
            f"{values.shape}",
        )
    known = np.isfinite(values)
    return checks.finite("observed", spots[known]), values[known]


def in_order(
    values: ArrayLike, n: int, names: Sequence[Hashable] | None, noun: str, name: str = "values"
) -> np.ndarray:
    """Values in the order of edges or areas: those of a Series by its labels, NaN without one."""
    array = np.asarray(values, dtype=np.float64)
    index = getattr(values, "index", None)  # of a list it is a method
    labels = [] if index is None or callable(index) else list(index)
    if names is None or array.shape != (len(labels),) or labels == list(names):
        if array.shape != (n,):
            raise checks.value_error(
                name, f"must have one entry per {noun}, shape ({n},), got {array.shape}"
            )
        return array

    _require_labels(name, noun, names, labels)
    places_of = Lookup(zip(labels, range(len(labels)), strict=True))
    return np.append(array, np.nan)[[places_of.get(each, -1) for each in names]]


def _require_labels(
    name: str, noun: str, names: Sequence[Hashable], labels: Sequence[Hashable]
) -> None:
    """ValueError for labels that repeat, or that no edge or area has."""
    known = Lookup(zip(names, range(len(names)), strict=True))
    unknown = [each for each in labels if each not in known]
    wanted = f"must have the labels of the {noun}s, such as {names[0]!r}, got"
    if unknown:
        near = checks.did_you_mean(str(unknown[0]), map(str, names))
        raise checks.value_error(
            name,
            f"{wanted} {listed(unknown, 3)}, which no {noun} has{near and '; '}{near}; rename "
            f"them, {name}.rename(str.strip) where they have spaces, or take "
            f"{name}.reindex(labels), which drops those of no {noun}",
        )
    if len(set(labels)) < len(labels):
        raise checks.value_error(
            name, f"{wanted} labels that repeat: take means, {name}.groupby(level=0).mean()"
        )


def unit_of(crs: Any) -> str:
    """The unit of a coordinate reference system of pyproj, for a scale bar; empty if not known."""
    axes = getattr(crs, "axis_info", None) or ()
    return _UNITS.get(axes[0].unit_name, "") if axes else ""


def turn(up: str) -> np.ndarray:
    """The rotation, (3, 3), that makes the axis `up` the third one."""
    checks.choice("up", up, _UPS)
    rotation = np.eye(3)[list(_TURNS[up[-1]])]
    return rotation * [[1], [-1], [-1]] if up.startswith("-") else rotation


def finite_range(values: np.ndarray) -> tuple[float, float]:
    """The least and the largest finite value; (0, 1) where there is none."""
    finite = values[np.isfinite(values)]
    return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
