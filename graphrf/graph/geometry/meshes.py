"""Meshes, read from files and other objects, and the weights of their edges."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterable, Mapping, Sized
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from graphrf._base import checks, lazy
from graphrf._base.files.untrusted import read_bytes, untrusted
from graphrf._base.warn import warn
from graphrf.graph.files.other_formats import reader_of
from graphrf.graph.files.text_files import suffix
from graphrf.graph.files.text_meshes import read_obj, read_off
from graphrf.graph.geometry.faces import Faces, halves_of_quads, side_pairs
from graphrf.graph.geometry.joining import checked_tolerance, join_places

MESH_SUFFIXES = (".stl", ".ply", ".off", ".obj")
# Memory that the graph of a file takes for each of its bytes, measured as in `text_files.py`: up to 66, for OFF.
_MESH = 100.0

# Cotangent weights of this size are no edges: two angles of 180 degrees together but for 0.0001.
_RIGHT = 1e-6


def mesh_arrays(mesh: Any, memory_limit: int | None = None) -> tuple[np.ndarray, Faces]:
    """Vertices (V, 3) and faces of a Path, a trimesh.Trimesh or a pair of arrays, checked."""
    faces: Any
    if isinstance(mesh, Path):
        vertices, faces = _read(mesh, memory_limit)
    elif hasattr(mesh, "vertices") and hasattr(mesh, "faces"):
        vertices, faces = np.asarray(mesh.vertices), np.asarray(mesh.faces)
        _warn_of_halves(faces)
    elif isinstance(mesh, tuple | list) and len(mesh) == 2:
        vertices, faces = checks.array("mesh", mesh[0]), _rows(mesh[1])
    else:
        raise checks.type_error(
            "mesh", f"must be a path, a trimesh.Trimesh or a pair (vertices, faces), got {checks.describe(mesh)}"
        )
    if vertices.ndim != 2 or vertices.shape[1] != 3 or vertices.dtype.kind not in "iuf":
        raise checks.value_error("mesh", f"must have vertices of shape (V, 3), got {checks.describe(vertices)}")
    return checks.finite("mesh vertices", vertices.astype(np.float64)), _checked(faces, len(vertices))


def _checked(faces: Faces | np.ndarray, n_vertices: int) -> Faces:
    """Faces, once they are known to name vertices that exist."""
    if isinstance(faces, np.ndarray):
        if faces.ndim != 2 or faces.shape[1] < 3 or faces.dtype.kind not in "iu":
            raise checks.value_error(
                "mesh",
                "must have faces that are integers of shape (F, 3), or (F, k) for polygons of k corners, or lists "
                f"of corners, got {checks.describe(faces)}",
            )
        faces = Faces.of_rows(faces)
    if len(faces) == 0:
        raise checks.value_error("mesh", "must have at least one face, got none")
    low, high = int(faces.corners.min()), int(faces.corners.max())
    if low < 0 or high >= n_vertices:
        raise checks.value_error(
            "mesh", f"must have faces of vertices in [0, {n_vertices - 1}], got vertex {low if low < 0 else high}"
        )
    return Faces(faces.corners.astype(np.int64), faces.starts)


def _rows(faces: Any) -> Any:
    """Faces of a pair of arrays: lists of corners of several lengths as `Faces`, others as an array."""
    if isinstance(faces, np.ndarray) or not isinstance(faces, Iterable):
        return checks.array("mesh", faces)
    rows = list(faces)
    if len({len(row) if isinstance(row, Sized) else -1 for row in rows}) < 2:
        return checks.array("mesh", rows)
    for number, row in enumerate(rows):
        corners = checks.array("mesh", row)
        if corners.ndim != 1 or len(corners) < 3 or corners.dtype.kind not in "iu":
            raise checks.value_error(
                "mesh", f"must have faces of three or more integers, got {checks.describe(row)} as face {number}"
            )
    return Faces.of_rows(rows)


def _warn_of_halves(triangles: np.ndarray) -> None:
    """Warn if a mesh of trimesh, which holds triangles only, was made of quadrilaterals."""
    if triangles.ndim != 2 or triangles.shape[1] != 3:
        return
    count = halves_of_quads(triangles)
    if count > 1:
        first = len(triangles) - 2 * count
        warn(
            f"the nodes are the {len(triangles):,} triangles of the Trimesh, which seems to have split {count:,} "
            f"quadrilaterals: triangles k and k + {count} are halves of one, for k from {first} to "
            f"{first + count - 1}. Pass the path of the file, or (vertices, faces) with four corners a face, to "
            "have a node for each face"
        )


def _read(path: Path, memory_limit: int | None) -> tuple[np.ndarray, Faces]:
    """Vertices and faces of a mesh file as they stand there; those of STL, which lists corners, are joined."""
    kind = suffix(path)
    if kind not in MESH_SUFFIXES:
        raise ValueError(
            f"{path} has no known mesh format; wanted one of {', '.join(MESH_SUFFIXES)} (.gz){reader_of(path)}"
        )
    content = read_bytes(path, _MESH, memory_limit)
    if kind in (".obj", ".off"):
        with untrusted(path, f"{kind[1:].upper()} mesh"):
            vertices, faces = read_obj(content) if kind == ".obj" else read_off(content)
    else:
        vertices, faces = _read_by_trimesh(path, kind, content)
    if not len(faces):
        raise ValueError(f"{path} holds no faces; a mesh with faces was wanted")
    return vertices, faces


def _read_by_trimesh(path: Path, kind: str, content: bytes) -> tuple[np.ndarray, Faces]:
    trimesh = lazy.need("trimesh", "reading STL and PLY meshes")
    # Textures would be read from other files, and vertices be numbered by them.
    options = {"process": False, **({"skip_materials": True, "fix_texture": False} if kind == ".ply" else {})}
    if kind == ".stl":
        content = _one_solid(content)
    log = logging.getLogger("trimesh")
    if not log.hasHandlers():
        # Otherwise what trimesh logs about damaged files lands on standard error, with tracebacks.
        log.addHandler(logging.NullHandler())
    with untrusted(path, f"{kind[1:].upper()} mesh"):
        try:
            loaded = trimesh.load(io.BytesIO(content), file_type=kind[1:], force="mesh", **options)
        except ValueError as error:
            if "unexpected length" not in str(error):
                raise
            raise ValueError(
                f"{error} It is damaged or truncated, or it has faces of several sizes in binary form, which "
                "trimesh does not read: export it as text (ASCII), or as OBJ"
            ) from None
        vertices = np.asarray(getattr(loaded, "vertices", np.zeros((0, 3))))
        faces = Faces.of_rows(np.asarray(getattr(loaded, "faces", np.zeros((0, 3), dtype=np.int64))))
        if kind == ".ply" and len(faces):
            faces = _polygons(loaded.metadata["_ply_raw"]["face"], faces)
    _check_whole(path, content, kind, len(faces))
    if kind == ".stl" and len(faces) and np.isfinite(vertices).all():
        with untrusted(path, "STL mesh"):
            vertices, faces = _joined(vertices.astype(np.float64), faces)
    return vertices, faces


def _polygons(held: Mapping[str, Any], triangles: Faces) -> Faces:
    """The faces of a PLY file as trimesh read them, before it split them into triangles."""
    if held["length"] == len(triangles):
        return triangles
    data = held["data"]
    titles = list(data) if isinstance(data, dict) else list(data.dtype.names)
    title = next((name for name in ("vertex_index", "vertex_indices") if name in titles), titles[0])
    rows = data[title] if isinstance(data, dict) else data[title]["f1"]
    found = Faces.of_rows(rows if rows.ndim == 2 else [np.asarray(row, dtype=np.int64) for row in rows])
    few = np.flatnonzero(found.sizes < 3)
    if few.size:
        raise ValueError(
            f"face {few[0]} has {found.sizes[few[0]]} corners, and a face has three or more: the file is damaged"
        )
    return found


def _one_solid(content: bytes) -> bytes:
    """STL as text, its solids as one: trimesh makes a mesh of each, in quadratic time."""
    if len(content) == _stl_size(content) or not content.lstrip().lower().startswith(b"solid"):
        return content
    return re.sub(rb"(?im)^[ \t]*endsolid[^\n]*\n\s*solid[^\n]*\n", b"", content)


def _stl_size(content: bytes) -> int:
    """The size in bytes that binary STL declares."""
    return 84 + 50 * int.from_bytes(content[80:84], "little")


def _joined(vertices: np.ndarray, faces: Faces) -> tuple[np.ndarray, Faces]:
    """A mesh whose corners within 1e-8 are one, as trimesh has it, where its coordinates are scaled to common
    size."""
    import trimesh

    exponent = int(np.frexp(np.abs(vertices).max())[1])
    exponent = 0 if 0 < exponent < 30 else exponent
    mesh = trimesh.Trimesh(np.ldexp(vertices, -exponent), faces.triangles(), process=False)
    mesh.merge_vertices()
    return np.ldexp(np.asarray(mesh.vertices), exponent), Faces.of_rows(np.asarray(mesh.faces))


def _check_whole(path: Path, content: bytes, kind: str, n_faces: int) -> None:
    """Refuse a file that ends early, which trimesh reads without a word as far as it goes."""
    way_out = "it is damaged or truncated: fetch it again"
    if kind == ".stl":
        size = _stl_size(content)
        if len(content) != size and b"endsolid" not in content.lower():
            raise ValueError(
                f"{path} is not a whole STL mesh, neither text with 'endsolid' nor binary of the {size:,} bytes "
                f"that it declares (it has {len(content):,}); {way_out}"
            )
        return
    found = re.search(rb"[\r\n][ \t]*element\s+face\s+(\d+)", content[:10_000])  # not within a comment
    if found and n_faces < int(found[1]):
        what = f"{path} is not a whole {kind[1:].upper()} mesh"
        raise ValueError(f"{what}: it declares {int(found[1]):,} faces and holds {n_faces:,}; {way_out}")


def weld(
    vertices: np.ndarray, faces: Faces, tolerance: float | None, exponent: int = 0
) -> tuple[np.ndarray, Faces, str]:
    """The first vertex at every distinct place (its position, ascending), the faces on these, and a remark.

    The tolerance is in the unit of `vertices` times 2^exponent.
    """
    sides = side_pairs(faces)
    lengths = np.linalg.norm(vertices[sides[:, 0]] - vertices[sides[:, 1]], axis=1)
    if tolerance is None:
        reach = checked_tolerance(None, lengths, "the sides")
    else:
        reach = np.ldexp(checked_tolerance(tolerance, np.ldexp(lengths, exponent), "the sides"), -exponent)
    exact = join_places(vertices, sides, 0.0)
    places, faces = exact.first, Faces(exact.group[faces.corners], faces.starts)
    # Within a tolerance, only the rims of pieces are joined: sides that belong to a single face.
    pairs, count = np.unique(faces.sides()[0], axis=0, return_counts=True)
    rim = np.zeros(len(places), dtype=bool)
    rim[pairs[count == 1]] = True
    joined = join_places(vertices[places], pairs, reach, rim)
    remark = ""
    if tolerance is not None and joined.n_left:
        remark = (
            f"{joined.n_left:,} vertices stay apart although others are within tolerance={tolerance:g}: sides "
            "there are shorter than four times that"
        )
    return places[joined.first], Faces(joined.group[faces.corners], faces.starts), remark


def usual_alone(n: int) -> float:
    """The share of the elements of a mesh that may have no neighbour."""
    return 0.01 if n >= 100 else 0.5


def inverse_lengths(lengths: np.ndarray) -> np.ndarray:
    """mean(length) / length; a length of zero counts as the smallest positive one."""
    positive = lengths[lengths > 0]
    if not positive.size:
        return np.ones_like(lengths)
    return lengths.mean() / np.maximum(lengths, positive.min())


def cotangent_weights(vertices: np.ndarray, faces: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    r"""(cot a + cot b) / 2 for every pair of joined vertices, a and b the angles that face their side.

    Faces that repeat count once, faces without area not at all; negative sums are clipped to zero with a warning.
    """
    n_vertices = len(vertices)
    faces = faces[np.unique(np.sort(faces, axis=1), axis=0, return_index=True)[1]]
    total = sp.csr_array((n_vertices, n_vertices), dtype=np.float64)
    for corner in range(3):
        apex, left, right = (faces[:, (corner + turn) % 3] for turn in range(3))
        to_left, to_right = vertices[left] - vertices[apex], vertices[right] - vertices[apex]
        sine = np.linalg.norm(np.cross(to_left, to_right), axis=1)
        cosine = (to_left * to_right).sum(axis=1)
        scale = np.linalg.norm(to_left, axis=1) * np.linalg.norm(to_right, axis=1)
        # Below this the angle is rounding error: the face is a needle or a point.
        flat = sine <= 1e-12 * scale
        cotangent = np.divide(cosine, sine, out=np.zeros_like(sine), where=~flat)
        ends = np.minimum(left, right), np.maximum(left, right)
        total = total + sp.csr_array((0.5 * cotangent, ends), shape=(n_vertices, n_vertices))
    if not len(pairs):
        return np.zeros(0)
    weights = np.asarray(total[pairs[:, 0], pairs[:, 1]]).ravel()
    # Right angles give rounding errors of either sign; cotangents have no unit, and coordinates may be float32.
    weights[np.abs(weights) < _RIGHT] = 0.0
    negative = weights < 0
    if negative.any():
        warn(
            f"{int(negative.sum())} of {len(weights)} cotangent weights are negative (the least "
            f"{weights.min():.3g}) and were set to zero; weights='inverse_length' has no such case",
        )
    return np.maximum(weights, 0.0)


def has_faces(source: Any) -> bool:
    """True for meshes of other libraries, such as trimesh.Trimesh."""
    return hasattr(source, "vertices") and hasattr(source, "faces")
