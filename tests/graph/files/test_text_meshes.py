"""One pyramid in files as programs write them: all are read alike, or refused with a reason."""

import struct

import numpy as np
import pytest

from graphrf.graph.builders import from_mesh

CORNERS = [(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (0.5, 0.5, 1)]
FACES = [(0, 1, 4), (1, 2, 4), (2, 3, 4), (3, 0, 4), (0, 2, 1), (0, 3, 2)]


def _lines(word, rows):
    return "".join(f"{word}{a:g} {b:g} {c:g}\n" for a, b, c in rows)


ROWS = _lines("", CORNERS) + _lines("3 ", FACES)
OBJ = _lines("v ", CORNERS) + _lines("f ", (np.array(FACES) + 1).tolist())
PLY = (
    "ply\n"
    "format ascii 1.0\n"
    "element vertex 5\n"
    "property float x\n"
    "property float y\n"
    "property float z\n"
    "element face 6\n"
    "property list uchar int vertex_indices\n"
    "end_header\n"
    f"{ROWS}"
)
BOM = "\ufeff"


def _stl(begin="solid p\n", end="endsolid p\n"):
    facets = (
        " facet normal 0 0 1\n  outer loop\n"
        + _lines("   vertex ", (CORNERS[corner] for corner in face))
        + "  endloop\n endfacet\n"
        for face in FACES
    )
    return begin + "".join(facets) + end


def _binary(header=b"", count=6, trailing=b""):
    facets = (
        struct.pack("<12fH", 0, 0, 0, *(x for corner in face for x in CORNERS[corner]), 0)
        for face in FACES
    )
    return header.ljust(80) + struct.pack("<I", count) + b"".join(facets) + trailing


def _spectrum(graph):
    return np.linalg.eigvalsh(graph.adjacency.toarray())


def _written(folder, ending, content):
    path = folder / f"pyramid.{ending}"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("ending", "content"),
    [
        ("off", "OFF\n5 6 0\n" + ROWS),
        ("off", "OFF 5 6 0\n" + ROWS),
        ("off", "OFF5 6 0\n" + ROWS),
        ("off", "OFF5 6\n" + ROWS),
        ("off", ("OFF5 6 0\n" + ROWS).replace("\n", "\r\n")),
        ("off", ("OFF5 6 0\n" + ROWS).replace("\n", "\r")),
        ("off", "# made by a scanner\n\nOFF5 6 9 # counts\n" + ROWS),
        ("off", "OFF#\n5 6 0\n" + ROWS),
        ("off", "5 6 0\n" + ROWS),
        ("off", BOM + "OFF\n5 6 0\n" + ROWS),
        ("obj", OBJ),
        ("obj", BOM + OBJ),
        ("obj", BOM + OBJ.replace("\n", "\r\n")),
        ("obj", OBJ.replace("\n", "\r")),
        ("ply", PLY),
        ("ply", BOM + PLY),
        ("stl", _stl()),
        ("stl", BOM + _stl()),
        ("stl", _stl().upper()),
        ("stl", _stl().replace("\n", "\r\n")),
        ("stl", _stl().replace("\n", "\r")),
        ("stl", " ".join(_stl().split()[2:-2]).join(["solid p\n", "\nendsolid p\n"])),
        ("stl", _stl(" solid\n", "endsolid\n")),
        ("stl", _stl("solid facet vertex 1 2 3\n")),
        ("stl", _stl("solid vertex 1 2 3 vertex 4 5 6 vertex 7 8 9\n", "endsolid vertex 1 2 3\n")),
        ("stl", _stl("solid endsolid solid\n")),
        ("stl", _stl().replace("normal 0 0 1", "normal nan nan nan")),
        ("stl", _binary()),
        ("stl", _binary(b"solid endsolid vertex")),
    ],
)
def test_a_pyramid_is_read_from_files_of_many_programs(tmp_path, ending, content):
    if ending in ("stl", "ply"):
        pytest.importorskip("trimesh")
    path = _written(tmp_path, ending, content)
    for on in ("vertices", "faces"):
        expected = from_mesh((np.array(CORNERS, dtype=float), FACES), on=on)
        np.testing.assert_allclose(
            _spectrum(from_mesh(path, on=on)), _spectrum(expected), atol=1e-12
        )


@pytest.mark.parametrize(
    ("ending", "content", "reason"),
    [
        ("off", "4OFF\n5 6 0\n" + ROWS, "begin with OFF, but with '4OFF'"),
        ("off", "nOFF\n3\n5 6 0\n" + ROWS, "begin with OFF, but with 'nOFF'"),
        ("off", b"OFF BINARY\n\x01\x02", "begin with OFF, but with 'OFF BINARY'"),
        ("off", OBJ, "does not begin with OFF"),
        ("obj", OBJ.encode("utf-16"), "zero bytes, as UTF-16"),
        ("obj", OBJ.replace("\nf", "\n\0f", 1), "zero bytes"),
        ("obj", PLY, "it begins as .ply files do"),
        ("obj", _stl(), "it begins as .stl files do"),
        ("stl", _stl().replace("0.5", "0,5"), "could not convert"),
        (
            "stl",
            _stl().replace("vertex 1 0 0", "vertex 1 0", 1),
            "facet 1: a normal and three vertices",
        ),
        (
            "stl",
            _stl().replace("  endloop", "   vertex 9 9 9\n  endloop", 1),
            "facet 1: a normal and three",
        ),
        ("stl", _stl()[:-60] + "\nendsolid", "facet 6: a normal and three vertices"),
        ("stl", _stl(end=""), "it is damaged or truncated"),
        ("stl", _binary(count=7), "it is damaged or truncated"),
        ("stl", _binary(trailing=b"\0"), "it is damaged or truncated"),
        ("stl", _binary(b"solid endsolid", trailing=b"\0"), "zero bytes"),
    ],
)
def test_other_files_are_refused_with_a_reason(tmp_path, ending, content, reason):
    if ending == "stl":
        pytest.importorskip("trimesh")
    with pytest.raises(ValueError, match=reason):
        from_mesh(_written(tmp_path, ending, content))
