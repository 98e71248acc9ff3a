"""Reading OFF meshes: the vertices and faces of a text file."""

from __future__ import annotations

import re
from array import array

import numpy as np

from graphrf._base.files.untrusted import short_bytes
from graphrf.graph.geometry.faces import Faces


def read_off(content: bytes) -> tuple[np.ndarray, Faces]:
    """Vertices (V, 3) and faces of an OFF file in the order of the file; any fault raises `ValueError`.

    Colours, normals and textures are left aside. Cost: a few seconds for a million lines.
    """
    text = re.sub(rb"#[^\r\n]*", b"", content)
    head = re.match(rb"\s*(?:ST)?C?N?OFF\b(?!\s*BINARY)", text)
    if head is None:
        raise ValueError("it does not begin with OFF")
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
            f"it declares {n_vertices:,} vertices and {n_faces:,} faces, and holds {len(rows) - 1:,} lines of "
            "them; it is damaged or truncated: fetch it again"
        )
    faces = _faces(rows[n_vertices + 1 : n_vertices + n_faces + 1], n_vertices)
    return _vertices(rows[1 : n_vertices + 1]), faces


def _vertices(rows: list[tuple[int, list[bytes]]]) -> np.ndarray:
    coordinates = array("d")
    for number, cells in rows:
        try:
            if b"_" in b"".join(cells):  # Python reads 1_0 as 10
                raise ValueError
            coordinates.extend([float(cells[0]), float(cells[1]), float(cells[2])])
        except (ValueError, IndexError):
            raise ValueError(
                f"line {number}: a vertex has three numbers, got {short_bytes(b' '.join(cells))}"
            ) from None
    return np.array(coordinates).reshape(-1, 3)


def _faces(rows: list[tuple[int, list[bytes]]], n_vertices: int) -> Faces:
    corners, starts = array("q"), array("q", [0])
    for number, cells in rows:
        size = _integers(number, cells[:1])[0]
        face = _integers(number, cells[1 : size + 1]) if size > 0 else []
        if len(face) != size or size < 3 or min(face) < 0 or max(face) >= n_vertices:
            raise ValueError(
                f"line {number}: a face has the number of its corners, three or more, and these, counted from 0 "
                f"to {n_vertices - 1}; got {short_bytes(b' '.join(cells))}"
            )
        corners.extend(face)
        starts.append(len(corners))
    return Faces(np.array(corners, dtype=np.int64), np.array(starts, dtype=np.int64))


def _integers(number: int, cells: list[bytes]) -> list[int]:
    try:
        if b"_" in b"".join(cells):
            raise ValueError
        return [int(cell) for cell in cells]
    except ValueError:
        raise ValueError(f"line {number}: integers were wanted, got {short_bytes(b' '.join(cells))}") from None
