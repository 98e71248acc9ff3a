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
from graphrf.graph.files.text_meshes import read_obj, read_off, read_stl_text
from graphrf.graph.geometry.faces import Faces, halves_of_quads, side_pairs
from graphrf.graph.geometry.joining import checked_tolerance, join_places

MESH_SUFFIXES = (".stl", ".ply", ".off", ".obj")
# Memory that the graph of a file takes for each of its
# bytes, measured as in `text_files.py`: up to 66, for OFF.
_MESH = 100.0

_FIRST_WORDS = {".ply": b"ply", ".off": b"OFF", ".stl": b"solid"}
_DAMAGED = "it is damaged or truncated: fetch it again"

# Cotangent weights of this size are no edges: two angles of 180 degrees together but for 0.0001.
_RIGHT = 1e-6


def mesh_arrays(mesh: Any, memory_limit: int | None = None) -> tuple[np.ndarray, Faces]:
    """Vertices (V, 3) and faces of a Path, a trimesh.Trimesh or a pair of arrays, checked."""
    if isinstance(mesh, Path):
        vertices, faces = _read(mesh, memory_limit)
    elif hasattr(mesh, "vertices") and hasattr(mesh, "faces"):
        vertices, faces = np.asarray(mesh.vertices), _rows(np.asarray(mesh.faces))
        _warn_of_halves(faces)
    elif isinstance(mesh, tuple | list) and len(mesh) == 2:
        vertices, faces = checks.array("mesh", mesh[0]), _rows(mesh[1])
    else:
        raise checks.type_error(
            "mesh",
            "must be a path, a trimesh.Trimesh or a pair (vertices, faces), got "
            f"{checks.describe(mesh)}",
        )
    if vertices.ndim != 2 or vertices.shape[1] != 3 or vertices.dtype.kind not in "iuf":
        raise checks.value_error(
            "mesh", f"must have vertices of shape (V, 3), got {checks.describe(vertices)}"
        )
    return checks.finite("mesh vertices", vertices.astype(np.float64)), _checked(
        faces, len(vertices)
    )


def _checked(faces: Faces, n_vertices: int) -> Faces:
    """Faces, once they are known to name vertices that exist."""
    if len(faces) == 0:
        raise checks.value_error("mesh", "must have at least one face, got none")

    low, high = int(faces.corners.min()), int(faces.corners.max())
    if low < 0 or high >= n_vertices:
        way_out = (
            "; are yours counted from 1? Then subtract 1" if (low, high) == (1, n_vertices) else ""
        )
        if low == -1:
            way_out = (
                "; if -1 fills up rows of several lengths, pass a list of the corners of each face "
                "without it"
            )
        wrong = low if low < 0 else high
        raise checks.value_error(
            "mesh",
            f"must have faces of vertices in [0, {n_vertices - 1}], got vertex {wrong}{way_out}",
        )

    if low == 1 and np.unique(faces.corners).size == n_vertices - 1:
        warn(
            "faces have vertices from 0, and there is none with vertex 0, but all others are used: "
            "are they counted from 1? Then subtract 1"
        )
    return Faces(faces.corners.astype(np.int64), faces.starts)


def _rows(given: Any) -> Faces:
    """Faces of a pair of arrays, without the number of corners that VTK has in front of each."""
    faces = _polygons_of(given)
    if not len(faces) or faces.sizes.min() < 4:
        return faces
    first = faces.corners[faces.starts[:-1]]
    if (first != faces.sizes - 1).any():
        return faces
    behind = np.ones(len(faces.corners), dtype=bool)
    behind[faces.starts[:-1]] = False
    corners = faces.corners[behind]
    # No polygon has a corner twice.
    if (corners == np.repeat(first, faces.sizes - 1)).any():
        return Faces(corners, faces.starts - np.arange(len(faces) + 1))
    warn(
        f"the first entries of the faces, {int(first[0])} and so on, are read as corners, though "
        "they are the numbers of the others as well, as pyvista and VTK put them in front: if they "
        "are that, pass faces[:, 1:]"
    )
    return faces


def _polygons_of(faces: Any) -> Faces:
    """Faces as an array, as lists of corners, or as of VTK, (k, k corners, k, k corners, ...)."""
    rows = (
        faces if isinstance(faces, np.ndarray) or not isinstance(faces, Iterable) else list(faces)
    )
    if (
        not isinstance(rows, list)
        or len({len(row) if isinstance(row, Sized) else -1 for row in rows}) < 2
    ):
        return _of_array(checks.array("mesh", rows))
    for number, row in enumerate(rows):
        corners = checks.array("mesh", row)
        if corners.ndim != 1 or len(corners) < 3 or corners.dtype.kind not in "iu":
            raise checks.value_error(
                "mesh",
                f"must have faces of three or more integers, got {checks.describe(row)} as face "
                f"{number}",
            )
    return Faces.of_rows(rows)


def _of_array(array: np.ndarray) -> Faces:
    """Faces of an array of one or two axes."""
    whole = array.dtype.kind in "iu"
    if array.ndim == 1 and array.size and whole:
        return _counted(array)
    if array.ndim != 2 or array.shape[1] < 3 or not whole:
        raise checks.value_error(
            "mesh",
            "must have faces that are integers of shape (F, 3), or (F, k) for polygons of k "
            f"corners, or lists of corners, got {checks.describe(array)}",
        )
    return Faces.of_rows(array)


def _counted(array: np.ndarray) -> Faces:
    """Faces of an array of one axis, the number of corners in front of those of each."""
    counts, place = [], 0
    while place < array.size and array[place] >= 3:
        counts.append(int(array[place]))
        place += counts[-1] + 1
    if place != array.size:
        raise checks.value_error(
            "mesh",
            "must have faces of shape (F, k), or in one row the number of corners, three or more, "
            f"in front of those of each, got {checks.describe(array)} without such a number at "
            f"{min(place, array.size)}",
        )
    starts = np.r_[0, np.cumsum(counts)]
    return Faces(np.delete(array, starts[:-1] + np.arange(len(counts))), starts)


def _warn_of_halves(faces: Faces) -> None:
    """Warn if a mesh of trimesh, which holds triangles only, was made of quadrilaterals."""
    if (faces.sizes != 3).any():
        return
    triangles = faces.triangles()
    count = halves_of_quads(triangles)
    if count > 1:
        first = len(triangles) - 2 * count
        warn(
            f"the nodes are the {len(triangles):,} triangles of the Trimesh, which seems to have "
            f"split {count:,} quadrilaterals: triangles k and k + {count} are halves of one, for k "
            f"from {first} to {first + count - 1}. Pass the path of the file, or (vertices, faces) "
            "with four corners a face, to have a node for each face"
        )


def _read(path: Path, memory_limit: int | None) -> tuple[np.ndarray, Faces]:
    """Vertices and faces of a mesh file as they stand; those of STL, which has corners, joined."""
    kind = suffix(path)
    if kind not in MESH_SUFFIXES:
        raise ValueError(
            f"{path} has no known mesh format; wanted one of {', '.join(MESH_SUFFIXES)} "
            f"(.gz){reader_of(path)}"
        )

    content = read_bytes(path, _MESH, memory_limit).removeprefix(b"\xef\xbb\xbf")
    reader = {".obj": read_obj, ".off": read_off}.get(kind)
    if kind == ".stl" and len(content) != _stl_size(content):
        lazy.need("trimesh", "reading STL and PLY meshes")
        if b"endsolid" not in content.lower():
            raise ValueError(
                f"{path} is not a whole STL mesh, neither text with 'endsolid' nor binary of the "
                f"{_stl_size(content):,} bytes that it declares (it has {len(content):,}); "
                f"{_DAMAGED}"
            )
        reader = read_stl_text

    if reader is not None:
        if b"\0" in content:
            raise ValueError(
                f"{path} is not a mesh as text in UTF-8: it has zero bytes, as UTF-16 and binary "
                "files do"
            )
        with untrusted(path, f"{kind[1:].upper()} mesh"):
            vertices, faces = reader(content)
            if kind == ".stl" and len(faces) and np.isfinite(vertices).all():
                vertices, faces = _joined(vertices, faces)
    else:
        vertices, faces = _read_by_trimesh(path, kind, content)

    if not len(faces):
        begins = [
            end
            for end, word in _FIRST_WORDS.items()
            if content.lstrip().startswith(word) and end != kind
        ]
        way_out = f"; it begins as {begins[0]} files do: is that its format?" if begins else ""
        raise ValueError(f"{path} holds no faces; a mesh with faces was wanted{way_out}")
    return vertices, faces


def _read_by_trimesh(path: Path, kind: str, content: bytes) -> tuple[np.ndarray, Faces]:
    trimesh = lazy.need("trimesh", "reading STL and PLY meshes")
    # Textures would be read from other files, and vertices be numbered by them.
    options = {
        "process": False,
        **({"skip_materials": True, "fix_texture": False} if kind == ".ply" else {}),
    }

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
                f"{error} It is damaged or truncated, or it has faces of several sizes in binary "
                "form, which trimesh does not read: export it as text (ASCII), or as OBJ"
            ) from None
        vertices = np.asarray(getattr(loaded, "vertices", np.zeros((0, 3))))
        faces = Faces.of_rows(
            np.asarray(getattr(loaded, "faces", np.zeros((0, 3), dtype=np.int64)))
        )
        if kind == ".ply" and len(faces):
            faces = _polygons(loaded.metadata["_ply_raw"]["face"], faces)

    # An element within a comment does not count.
    found = re.search(rb"[\r\n][ \t]*element\s+face\s+(\d+)", content[:10_000])
    if kind == ".ply" and found and len(faces) < int(found[1]):
        raise ValueError(
            f"{path} is not a whole PLY mesh: it declares {int(found[1]):,} faces and holds "
            f"{len(faces):,}; {_DAMAGED}"
        )

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
    found = Faces.of_rows(
        rows if rows.ndim == 2 else [np.asarray(row, dtype=np.int64) for row in rows]
    )
    few = np.flatnonzero(found.sizes < 3)
    if few.size:
        raise ValueError(
            f"face {few[0]} has {found.sizes[few[0]]} corners, and a face has three or more: the "
            "file is damaged"
        )
    return found


def _stl_size(content: bytes) -> int:
    """The size in bytes that binary STL declares."""
    return 84 + 50 * int.from_bytes(content[80:84], "little")


def _joined(vertices: np.ndarray, faces: Faces) -> tuple[np.ndarray, Faces]:
    """A mesh whose corners within 1e-8 of its size are one, as in trimesh."""
    import trimesh

    exponent = int(np.frexp(np.abs(vertices).max())[1])
    exponent = 0 if 0 < exponent < 30 else exponent
    mesh = trimesh.Trimesh(np.ldexp(vertices, -exponent), faces.triangles(), process=False)
    mesh.merge_vertices()
    return np.ldexp(np.asarray(mesh.vertices), exponent), Faces.of_rows(np.asarray(mesh.faces))


def weld(
    vertices: np.ndarray, faces: Faces, tolerance: float | None, exponent: int = 0
) -> tuple[np.ndarray, Faces, str]:
    """The first vertex at every distinct place (ascending), the faces on these, and a remark.

    The tolerance is in the unit of `vertices` times 2^exponent.
    """
    sides = side_pairs(faces)
    lengths = np.linalg.norm(vertices[sides[:, 0]] - vertices[sides[:, 1]], axis=1)

    if tolerance is None:
        reach = checked_tolerance(None, lengths, "the sides")
    else:
        reach = np.ldexp(
            checked_tolerance(tolerance, np.ldexp(lengths, exponent), "the sides"), -exponent
        )

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
            f"{joined.n_left:,} vertices stay apart although others are within "
            f"tolerance={tolerance:g}: sides there are shorter than four times that"
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
    r"""(cot a + cot b) / 2 for every pair of joined vertices, a and b facing their side.

    Faces that repeat count once, faces without area not at all; negative sums are clipped to zero
    with a warning.
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
    # Right angles give rounding errors of either sign;
    # cotangents have no unit, and coordinates may be float32.
    weights[np.abs(weights) < _RIGHT] = 0.0

    negative = weights < 0
    if negative.any():
        warn(
            f"{int(negative.sum())} of {len(weights)} cotangent weights are negative (the least "
            f"{weights.min():.3g}) and were set to zero; weights='inverse_length' has no such case"
        )
    return np.maximum(weights, 0.0)


def has_faces(source: Any) -> bool:
    """True for meshes of other libraries, such as trimesh.Trimesh."""
    return hasattr(source, "vertices") and hasattr(source, "faces")
