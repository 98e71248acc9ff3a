"""Reading OBJ, OFF and STL meshes: vertices and faces of a text file, whatever else it holds."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from graphrf._base.files.untrusted import short_bytes
from graphrf.graph.geometry.faces import Faces

_Number = TypeVar("_Number", int, float)
# The words of a facet of STL, empty for numbers, and the places of the coordinates.
_VERTEX = (b"vertex", b"", b"", b"")
_FACET = (
    b"facet",
    b"normal",
    b"",
    b"",
    b"",
    b"outer",
    b"loop",
    *_VERTEX,
    *_VERTEX,
    *_VERTEX,
    b"endloop",
    b"endfacet",
)
_COORDINATES = [place for place in range(7, 19) if not _FACET[place]]


def read_obj(content: bytes) -> tuple[np.ndarray, Faces]:
    """Vertices (V, 3) and faces of an OBJ file in its order; any fault raises `ValueError`.

    Corners below 0 count back from the last vertex above the face. Cost: a few seconds for a
    million lines.
    """
    coordinates, corners, starts, lines = array("d"), array("q"), array("q", [0]), array("q")
    joined = content.replace(b"\\\r\n", b" ").replace(b"\\\n", b" ")
    for number, line in enumerate(joined.splitlines(), 1):
        cells = line.partition(b"#")[0].split()
        if cells[:1] not in ([b"v"], [b"f"]):
            continue

        known = len(coordinates) // 3
        try:
            if cells[0] == b"v":
                coordinates.extend(_place(cells[1:]))
                continue
            face = _numbers([cell.partition(b"/")[0] for cell in cells[1:]], int)
        except ValueError:
            if cells[0] == b"v":
                wanted = "a vertex has three numbers"
            else:
                wanted = "the corners of a face are integers"
            raise ValueError(f"line {number}: {wanted}, got {short_bytes(line)}") from None

        face = [corner - 1 if corner > 0 else known + corner if corner else -1 for corner in face]
        if len(face) < 3 or min(face) < 0 or max(face) >= 2**62:
            raise ValueError(
                f"line {number}: a face has three corners or more, counted from 1, or from -1 back "
                f"from the last of the {known} vertices above it; got {short_bytes(line)}"
            )
        corners.extend(face)
        starts.append(len(corners))
        lines.append(number)

    vertices = np.frombuffer(coordinates).reshape(-1, 3)
    faces = Faces(np.frombuffer(corners, dtype=np.int64), np.frombuffer(starts, dtype=np.int64))
    outside = np.flatnonzero(faces.corners >= len(vertices))
    if outside.size:
        face_line = lines[int(np.searchsorted(faces.starts, outside[0], side="right")) - 1]
        raise ValueError(
            f"line {face_line}: a face has the vertex {faces.corners[outside[0]] + 1}, but the "
            f"file has {len(vertices)} vertices"
        )
    return vertices, faces


def read_off(content: bytes) -> tuple[np.ndarray, Faces]:
    """Vertices (V, 3) and faces of an OFF file in its order; any fault raises `ValueError`.

    Colours, normals and textures are left aside. Cost: a few seconds for a million lines.
    """
    text = re.sub(rb"#[^\r\n]*", b"", content)
    head = re.match(rb"\s*(?:(?:ST)?C?N?OFF(?![A-Za-z_])(?!\s*BINARY)|(?=\d+\s))", text)
    if head is None:
        other = re.match(rb"\s*((?:ST)?C?N?4?n?OFF(?:\s*BINARY)?)", text)
        kind = f", but with {short_bytes(other[1])}" if other else ""
        way_out = ": text with vertices of three coordinates is read" if other else ""
        raise ValueError(f"it does not begin with OFF{kind}{way_out}")

    # Lines keep their numbers; the head may share one with the counts.
    lines = [line.split() for line in (b" " * head.end() + text[head.end() :]).splitlines()]
    lines[0:0] = [[] for _ in range(text[: head.end()].count(b"\n"))]
    rows = [(number, cells) for number, cells in enumerate(lines, 1) if cells]
    counts = _integers(*rows[0])[:2] if rows else []
    if len(counts) < 2 or min(counts) < 0:
        raise ValueError("the numbers of its vertices and faces are missing")

    n_vertices, n_faces = counts
    if len(rows) - 1 < n_vertices + n_faces:
        raise ValueError(
            f"it declares {n_vertices:,} vertices and {n_faces:,} faces, and holds "
            f"{len(rows) - 1:,} lines of them; it is damaged or truncated: fetch it again"
        )

    faces = _faces(rows[n_vertices + 1 : n_vertices + n_faces + 1], n_vertices)
    coordinates = array("d")
    for number, cells in rows[1 : n_vertices + 1]:
        try:
            coordinates.extend(_place(cells))
        except ValueError:
            got = short_bytes(b" ".join(cells))
            raise ValueError(f"line {number}: a vertex has three numbers, got {got}") from None
    return np.array(coordinates).reshape(-1, 3), faces


def read_stl_text(content: bytes) -> tuple[np.ndarray, Faces]:
    """Corners (3 F, 3) and faces of STL as text, without names; any fault raises `ValueError`."""
    lines = b"\n".join(content.splitlines())
    words = re.sub(rb"(?im)^[ \t]*(?:end)?solid\b.*", b"", lines).split()
    size = len(_FACET)
    cells = np.array(words[: len(words) // size * size], dtype=bytes).reshape(-1, size)

    wrong = np.zeros(cells.shape, dtype=bool)
    for place, word in enumerate(_FACET):
        if word:
            wrong[:, place] = np.char.lower(cells[:, place]) != word

    if wrong.any() or len(words) % size:
        number = int(np.flatnonzero(np.r_[wrong.any(axis=1), True])[0])
        got = short_bytes(b" ".join(words[number * size : number * size + size]))
        raise ValueError(
            f"facet {number + 1}: a normal and three vertices were wanted, as in 'facet normal 0 0 "
            "1 outer loop vertex 0 0 0 ... endloop endfacet', with three numbers for each, got "
            f"{got}"
        )

    coordinates = _numbers(cells[:, _COORDINATES].ravel().tolist(), float)
    n_corners = 3 * len(cells)
    return np.array(coordinates).reshape(-1, 3), Faces(
        np.arange(n_corners), np.arange(0, n_corners + 1, 3)
    )


def _faces(rows: list[tuple[int, list[bytes]]], n_vertices: int) -> Faces:
    corners, starts = array("q"), array("q", [0])
    for number, cells in rows:
        size = _integers(number, cells[:1])[0]
        face = _integers(number, cells[1 : size + 1]) if size > 0 else []
        if len(face) != size or size < 3 or min(face) < 0 or max(face) >= n_vertices:
            raise ValueError(
                f"line {number}: a face has the number of its corners, three or more, and these, "
                f"counted from 0 to {n_vertices - 1}; got {short_bytes(b' '.join(cells))}"
            )
        corners.extend(face)
        starts.append(len(corners))
    return Faces(np.array(corners, dtype=np.int64), np.array(starts, dtype=np.int64))


def _integers(number: int, cells: list[bytes]) -> list[int]:
    try:
        return _numbers(cells, int)
    except ValueError:
        got = short_bytes(b" ".join(cells))
        raise ValueError(f"line {number}: integers were wanted, got {got}") from None


def _place(cells: list[bytes]) -> list[float]:
    """The first three cells as coordinates."""
    if len(cells) < 3:
        raise ValueError
    return _numbers(cells[:3], float)


def _numbers(cells: list[bytes], number: Callable[[bytes], _Number]) -> list[_Number]:
    """Cells as numbers; ValueError also for 1_0, which Python reads as 10."""
    if b"_" in b"".join(cells):
        raise ValueError
    return [number(cell) for cell in cells]
