"""Triangle meshes as edges: which faces or vertices are neighbours, and how strongly."""

from __future__ import annotations

import io
import logging
import re
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from graphrf._base import checks, lazy
from graphrf._base.files.foreign import foreign, read_bytes
from graphrf._base.warn import warn
from graphrf.graph.files.obj_files import read_obj
from graphrf.graph.files.text_files import suffix

MESH_SUFFIXES = (".stl", ".ply", ".off", ".obj")
# Memory that the graph of a file takes for each of its bytes, measured as in `text_files.py`: up to 66, for OFF.
_MESH = 100.0

# Cotangent weights of this size are no edges: two angles of 180 degrees together but for 0.0001.
_RIGHT = 1e-6


def mesh_arrays(mesh: Any, memory_limit: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Vertices (V, 3) and triangles (F, 3) of a Path, a trimesh.Trimesh or a pair of arrays, checked."""
    if isinstance(mesh, Path):
        vertices, faces = _read(mesh, memory_limit)
    elif hasattr(mesh, "vertices") and hasattr(mesh, "faces"):
        vertices, faces = np.asarray(mesh.vertices), np.asarray(mesh.faces)
    elif isinstance(mesh, tuple | list) and len(mesh) == 2:
        vertices, faces = (checks.array("mesh", part) for part in mesh)
    else:
        raise checks.type_error(
            "mesh", f"must be a path, a trimesh.Trimesh or a pair (vertices, faces), got {checks.describe(mesh)}"
        )
    if vertices.ndim != 2 or vertices.shape[1] != 3 or vertices.dtype.kind not in "iuf":
        raise checks.value_error("mesh", f"must have vertices of shape (V, 3), got {checks.describe(vertices)}")
    if faces.ndim != 2 or faces.shape[1] != 3 or faces.dtype.kind not in "iu":
        raise checks.value_error(
            "mesh",
            f"must have triangles, integers of shape (F, 3), got {checks.describe(faces)}; "
            "split other polygons into triangles first",
        )
    if len(faces) == 0:
        raise checks.value_error("mesh", "must have at least one face, got none")
    if faces.min() < 0 or faces.max() >= len(vertices):
        bad = int(faces.min()) if faces.min() < 0 else int(faces.max())
        raise checks.value_error(
            "mesh", f"must have faces of vertices in [0, {len(vertices) - 1}], got vertex {bad}"
        )
    return checks.finite("mesh vertices", vertices.astype(np.float64)), faces.astype(np.int64)


def _read(path: Path, memory_limit: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Vertices and triangles of a mesh file as they stand there; those of STL, which lists corners, are joined.

    trimesh's own processing is left out: it drops faces with a coordinate that is no number, and joins places
    closer than 1e-8 in the unit of the file, whatever that is.
    """
    kind = suffix(path)
    content = read_bytes(path, _MESH, memory_limit)
    if kind not in MESH_SUFFIXES:
        raise ValueError(f"{path} has no known mesh format; wanted one of {', '.join(MESH_SUFFIXES)} (.gz)")
    if kind == ".obj":
        with foreign(path, "OBJ mesh"):
            vertices, faces = read_obj(content)
        return _with_triangles(path, vertices, faces)
    trimesh = lazy.need("trimesh", "reading STL, PLY and OFF meshes")
    # Textures are left alone: they would be looked for in other files.
    options: dict[str, Any] = {"process": False, **({"skip_materials": True} if kind == ".ply" else {})}
    if kind == ".stl":
        content = _one_solid(content)
    elif kind == ".off":
        # trimesh knows comments above the counts only.
        content = re.sub(rb"#[^\r\n]*", b"", content)
    log = logging.getLogger("trimesh")
    if not log.hasHandlers():
        # Otherwise what trimesh logs about damaged files lands on standard error, with tracebacks.
        log.addHandler(logging.NullHandler())
    with foreign(path, f"{kind[1:].upper()} mesh"):
        loaded = trimesh.load(io.BytesIO(content), file_type=kind[1:], force="mesh", **options)
        vertices = np.asarray(getattr(loaded, "vertices", np.zeros((0, 3))))
        faces = np.asarray(getattr(loaded, "faces", np.zeros((0, 3), dtype=np.int64)))
    _check_whole(path, content, kind, len(faces))
    vertices, faces = _with_triangles(path, vertices, faces)
    if kind == ".stl" and np.isfinite(vertices).all():
        with foreign(path, "STL mesh"):
            vertices, faces = _joined(vertices.astype(np.float64), faces)
    return vertices, faces


def _with_triangles(path: Path, vertices: np.ndarray, faces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if not len(faces):
        raise ValueError(f"{path} holds no triangles; a mesh with faces was wanted")
    return vertices, faces


def _one_solid(content: bytes) -> bytes:
    """STL as text, its solids as one: trimesh makes a mesh of each, in quadratic time."""
    if len(content) == _stl_size(content) or not content.lstrip().lower().startswith(b"solid"):
        return content
    return re.sub(rb"(?im)^[ \t]*endsolid[^\n]*\n\s*solid[^\n]*\n", b"", content)


def _stl_size(content: bytes) -> int:
    """The size in bytes that binary STL declares."""
    return 84 + 50 * int.from_bytes(content[80:84], "little")


def _joined(vertices: np.ndarray, faces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A mesh whose corners within 1e-8 are one, as trimesh has it, where its coordinates are of common size.

    Coordinates below 1, and such as would overflow the integers that trimesh compares, are scaled first.
    """
    import trimesh

    exponent = int(np.frexp(np.abs(vertices).max())[1])
    exponent = 0 if 0 < exponent < 30 else exponent
    mesh = trimesh.Trimesh(np.ldexp(vertices, -exponent), faces, process=False)
    mesh.merge_vertices()
    return np.ldexp(np.asarray(mesh.vertices), exponent), np.asarray(mesh.faces)


def _check_whole(path: Path, content: bytes, kind: str, n_faces: int) -> None:
    """Refuse a file that ends early, which trimesh reads without a word as far as it goes.

    PLY and OFF declare how many faces they have (polygons become more triangles), binary STL its size; text STL
    ends with a word of its own.
    """
    way_out = "it is damaged or truncated: fetch it again"
    if kind == ".stl":
        size = _stl_size(content)
        if len(content) != size and b"endsolid" not in content.lower():
            raise ValueError(
                f"{path} is not a whole STL mesh, neither text with 'endsolid' nor binary of the {size:,} bytes "
                f"that it declares (it has {len(content):,}); {way_out}"
            )
        return
    declaration = {
        ".ply": rb"[\r\n][ \t]*element\s+face\s+(\d+)",  # not within a comment
        ".off": rb"OFF\s+(?:#[^\n]*\n\s*)*\+?\d+\s+\+?(\d+)",
    }.get(kind)
    found = re.search(declaration, content[:10_000]) if declaration else None
    if found and n_faces < int(found[1]):
        what = f"{path} is not a whole {kind[1:].upper()} mesh"
        raise ValueError(f"{what}: it declares {int(found[1]):,} faces and holds {n_faces:,}; {way_out}")


def weld(vertices: np.ndarray, faces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first vertex at every distinct place (its position, ascending), and the faces on these vertices."""
    # Adding zero turns -0.0 into 0.0, so that the two are one place.
    _, first, inverse = np.unique(vertices + 0.0, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return first[order], rank[np.ravel(inverse)][faces]


def face_pairs(faces: np.ndarray) -> np.ndarray:
    """Distinct pairs of faces that share a side, shape (E, 2).

    A side of three or more faces joins none of them: it belongs to no surface there (trimesh has it so too).
    """
    sides = np.sort(faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    owner = np.repeat(np.arange(len(faces)), 3)
    real = sides[:, 0] != sides[:, 1]
    sides, owner = sides[real], owner[real]
    order = np.lexsort((owner, sides[:, 1], sides[:, 0]))
    sides, owner = sides[order], owner[order]
    starts = np.flatnonzero(np.r_[True, (sides[1:] != sides[:-1]).any(axis=1)]) if len(sides) else order
    twice = starts[np.diff(np.r_[starts, len(sides)]) == 2]
    pairs = np.column_stack([owner[twice], owner[twice + 1]])
    return np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)


def vertex_pairs(faces: np.ndarray) -> np.ndarray:
    """Distinct pairs of vertices that a side of a face joins, shape (E, 2)."""
    sides = np.sort(faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    return np.unique(sides[sides[:, 0] != sides[:, 1]], axis=0)


def inverse_lengths(lengths: np.ndarray) -> np.ndarray:
    """mean(length) / length; a length of zero counts as the smallest positive one."""
    positive = lengths[lengths > 0]
    if not positive.size:
        return np.ones_like(lengths)
    return lengths.mean() / np.maximum(lengths, positive.min())


def cotangent_weights(vertices: np.ndarray, faces: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    r"""(cot a + cot b) / 2 for every pair of joined vertices, a and b the angles that face their side.

    Faces that repeat count once; faces without area count not at all. Negative sums, of sides whose opposite
    angles add to more than 180 degrees, are clipped to zero with a warning.
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
