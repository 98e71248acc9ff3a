"""Files in the formats of other programs under damage: a sound graph, or an error that names the file."""

from __future__ import annotations

import gzip
import importlib.util
import io
import random
import sys
import tempfile
from functools import cache
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from graphrf.graph import Graph
from graphrf.loaders import from_mesh, load_graph
from tests.bounds import within

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bounds on time and memory are those of Linux")

PIECES = (
    *(
        b"0",
        b"-1",
        b"2147483648",
        b"4294967296",
        b"9" * 40,
        b"1e999",
        b"1e308",
        b"5e-324",
        b"nan",
        b"-inf",
        b"0x10",
    ),
    *(b"\x00", b"\xff", b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\n", b" ", b"[", b"]", b"<", b">", b"/", b'"'),
    *(b"&#0;", b"&lt;", b"&x;", b"<!DOCTYPE a>", b"<![CDATA[", b"<?a?>", b"<graph>", b"__class__ 1", b"key 1"),
    *(b"multigraph 1", b"directed 1", b"id 0", b"label", b"%", b"# # # # ", b"complex", b"pattern", b"hermitian"),
    *(b"skew-symmetric", b"array", b"coordinate", b"mtllib ../../etc/passwd\n", b"usemtl a\n", b"f 1 2 3 4 5\n"),
    *(
        b"element face 99999999\n",
        b"property list int int x\n",
        b"comment TextureFile /etc/passwd\n",
        b"list",
        b"COFF",
    ),
)


def network() -> nx.Graph:
    graph = nx.Graph()
    graph.add_weighted_edges_from([("a", "b", 2.0), ("b", "é c", 0.5), ("b", "b", 3.0)])
    return graph


def npz(make, save=sp.save_npz, **options) -> bytes:
    buffer = io.BytesIO()
    save(buffer, make(sp.csr_array(np.array([[0, 2, 0.5], [2, 0, 0], [0.5, 0, 1.5]]))), **options)
    return buffer.getvalue()


def market(matrix, **options) -> bytes:
    buffer = io.BytesIO()
    scipy.io.mmwrite(buffer, matrix, **options)
    return buffer.getvalue()


VERTICES = ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1))
FACES = ((0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3))
ROWS = "\n".join(" ".join(map(str, row)) for row in VERTICES) + "\n"
SIDES = "\n".join("3 " + " ".join(map(str, face)) for face in FACES) + "\n"
PLY = (
    "ply\nformat {} 1.0\nelement vertex 4\nproperty float x\nproperty float y\nproperty float z\n"
    "element face 4\nproperty list uchar int vertex_indices\nend_header\n"
)


def stl() -> bytes:
    corners = np.array(VERTICES, dtype="<f4")[np.array(FACES)]
    faces = b"".join(np.zeros(3, "<f4").tobytes() + face.tobytes() + b"\0\0" for face in corners)
    return b"\0" * 80 + (4).to_bytes(4, "little") + faces


def stl_text() -> bytes:
    facets = (
        "facet normal 0 0 1\nouter loop\n"
        + "".join("vertex {} {} {}\n".format(*VERTICES[corner]) for corner in face)
        + "endloop\nendfacet\n"
        for face in FACES
    )
    return f"solid x\n{''.join(facets)}endsolid x\n".encode()


@cache
def good_files() -> tuple[tuple[str, bytes], ...]:
    """Suffix and content of whole files of every format."""
    full = np.array([[0, 2, 0.5], [2, 0, 0], [0.5, 0, 1.5]])
    binary = PLY.format("binary_little_endian").encode() + np.array(VERTICES, "<f4").tobytes()
    binary += b"".join(b"\3" + np.array(face, "<i4").tobytes() for face in FACES)
    files: list[tuple[str, bytes]] = [
        (".gml", "\n".join(nx.generate_gml(network())).encode()),
        (".gml", "\n".join(nx.generate_gml(nx.MultiDiGraph([(0, 1), (0, 1), (1, 2)]))).encode()),
        (".graphml", "\n".join(nx.generate_graphml(network())).encode()),
        (".graphml", "\n".join(nx.generate_graphml(nx.MultiDiGraph([(0, 1), (0, 1), (1, 2)]))).encode()),
        (".mtx", market(sp.coo_array(full), symmetry="symmetric")),
        (".mtx", market(sp.coo_array(full), symmetry="general")),
        (".mtx", market(full, symmetry="general")),
        (".mtx", market(full, symmetry="symmetric")),
        (".mtx", market(sp.coo_array(full), field="pattern", symmetry="symmetric")),
        (".mtx", market(sp.coo_array(full + 0j))),
        *((".npz", npz(make)) for make in (sp.csr_array, sp.csc_matrix, sp.coo_array, sp.dia_array, sp.bsr_array)),
        (".npz", npz(sp.csr_array, compressed=False)),
    ]
    if importlib.util.find_spec("trimesh"):
        files += [
            (".off", f"OFF\n4 4 0\n{ROWS}{SIDES}".encode()),
            (".ply", (PLY.format("ascii") + ROWS + SIDES).encode()),
            (".ply", binary),
            (".obj", ("".join("v {} {} {}\n".format(*v) for v in VERTICES)
                      + "".join("f {} {} {}\n".format(*(c + 1 for c in f)) for f in FACES)).encode()),
            (".stl", stl()),
            (".stl", stl_text()),
        ]  # fmt: skip
    return tuple(files)


def mutated(good: bytes, rng: random.Random) -> bytes:
    """The file with bits flipped, parts cut, doubled or put elsewhere, numbers replaced and pieces put between."""
    content = bytearray(good)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(len(content) + 1)
        to = min(len(content), at + rng.choice((1, 4, 20, len(content))))
        way = rng.randrange(7)
        if way == 0 and content:
            content[min(at, len(content) - 1)] ^= 1 << rng.randrange(8)
        elif way == 1:
            del content[at:to]
        elif way == 2:
            content[at:at] = content[at:to]
        elif way == 3:
            content[at:at] = rng.choice(PIECES)
        elif way == 4:
            content[at : at + 1] = rng.choice(PIECES)
        elif way == 5:
            digits = [place for place, byte in enumerate(content) if 48 <= byte < 58]
            if digits:
                place = rng.choice(digits)
                content[place : place + 1] = rng.choice(PIECES[:11])
        else:
            content = content[:at] + content[to:] + content[at:to]
    return bytes(content)


def check_sound(graph: Graph) -> None:
    adjacency = graph.adjacency
    assert (adjacency.data > 0).all()
    assert np.isfinite(adjacency.data).all()
    fresh = sp.csr_array((adjacency.data, adjacency.indices, adjacency.indptr), shape=adjacency.shape)
    fresh.check_format(full_check=True)
    assert fresh.has_canonical_format
    assert graph.directed or (fresh != fresh.T).nnz == 0
    assert graph.n_nodes >= 1


def read(content: bytes, suffix: str, reader=load_graph, **options) -> Graph | str:
    """The graph of a file with this content, once it is sound, or the words with which it is refused."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"x{suffix}"
        path.write_bytes(content)
        try:
            with within(seconds=10, megabytes=400):
                graph = reader(path, **options)
        except (ValueError, MemoryError) as error:
            message = str(error)
            assert len(message) < 1000
            assert "not done after" not in message
            assert f"x{suffix}" in message
            return message
    check_sound(graph)
    return graph


@cache
def warm() -> None:
    """Load what readers import, so that bounds are on reading alone."""
    for suffix, content in good_files():
        read_any(content, suffix, random.Random(0))


def read_any(content: bytes, suffix: str, rng: random.Random) -> Graph | str:
    if suffix in (".stl", ".ply", ".off", ".obj") and rng.random() < 0.5:
        weights = rng.choice(("unit", "inverse_length"))
        return read(content, suffix, from_mesh, on=rng.choice(("faces", "vertices")), weights=weights)
    options = {}
    if suffix in (".gml", ".graphml") and rng.random() < 0.5:
        options = {"weight": "weight", "weight_is": rng.choice(("similarity", "distance"))}
    if suffix in (".mtx", ".npz") and rng.random() < 0.3:
        options = {"weight_is": "distance"}
    if rng.random() < 0.3:
        options["directed"] = rng.random() < 0.5
    return read(content, suffix, **options)


@given(st.integers(0, 2**64 - 1))
def test_any_damage_to_a_file_leaves_a_sound_graph_or_an_error_by_name(seed):
    warm()
    rng = random.Random(seed)
    suffix, good = rng.choice(good_files())
    if rng.random() < 0.85:
        read_any(mutated(good, rng), suffix, rng)
    elif rng.random() < 0.5:
        read_any(gzip.compress(mutated(good, rng), 1), f"{suffix}.gz", rng)
    else:
        read_any(mutated(gzip.compress(good, 1), rng), f"{suffix}.gz", rng)


def test_whole_files_of_every_format_are_read():
    for suffix, content in good_files():
        result = read(content, suffix)
        assert isinstance(result, Graph) or "real one" in result


def test_the_fuzzer_reaches_both_ends():
    warm()
    read_well = 0
    for seed in range(200):
        rng = random.Random(seed)
        suffix, good = rng.choice(good_files())
        read_well += isinstance(read_any(mutated(good, rng), suffix, rng), Graph)
    assert 20 < read_well < 180
