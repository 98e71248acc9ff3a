"""Reading OBJ meshes: the vertices and faces of a text file, whatever else it holds."""

from __future__ import annotations

from array import array

import numpy as np

from graphrf._base.files.untrusted import short_bytes
from graphrf.graph.geometry.faces import Faces


def read_obj(content: bytes) -> tuple[np.ndarray, Faces]:
    """Vertices (V, 3) and faces of an OBJ file in the order of the file; any fault raises `ValueError`.

    Corners below 0 count back from the last vertex above the face. Cost: a few seconds for a million lines.
    """
    coordinates, corners, starts, lines = array("d"), array("q"), array("q", [0]), array("q")
    for number, line in enumerate(content.replace(b"\\\r\n", b" ").replace(b"\\\n", b" ").splitlines(), 1):
        cells = line.partition(b"#")[0].split()
        if cells[:1] not in ([b"v"], [b"f"]):
            continue
        known = len(coordinates) // 3
        try:
            if b"_" in line:  # Python reads 1_0 as 10
                raise ValueError
            if cells[0] == b"v":
                coordinates.extend([float(cells[1]), float(cells[2]), float(cells[3])])
                continue
            face = [int(cell.partition(b"/")[0]) for cell in cells[1:]]
        except (ValueError, IndexError):
            wanted = "a vertex has three numbers" if cells[0] == b"v" else "the corners of a face are integers"
            raise ValueError(f"line {number}: {wanted}, got {short_bytes(line)}") from None
        face = [corner - 1 if corner > 0 else known + corner if corner else -1 for corner in face]
        if len(face) < 3 or min(face) < 0 or max(face) >= 2**62:
            raise ValueError(
                f"line {number}: a face has three corners or more, counted from 1, or from -1 back from the last "
                f"of the {known} vertices above it; got {short_bytes(line)}"
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
            f"line {face_line}: a face has the vertex {faces.corners[outside[0]] + 1}, but the file has "
            f"{len(vertices)} vertices"
        )
    return vertices, faces
