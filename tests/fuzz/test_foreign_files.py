"""Files of other programs' formats under damage: a sound graph, or an error with the file."""

from __future__ import annotations

import gzip
import importlib.util
import io
import random
import sys
import zipfile
import zlib
from functools import cache
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from graphrf._base import memory
from graphrf.graph.builders import from_mesh
from graphrf.graph.graph import Graph
from graphrf.graph.loaders import load_graph
from tests.fuzz.damage import mutated, npy, read
from tests.support.bounds import within

pytestmark = [
    pytest.mark.skipif(
        sys.platform != "linux", reason="bounds on time and memory are those of Linux"
    ),
    # What is said of weights and directions that a file has and that nobody asked for.
    pytest.mark.filterwarnings(
        "ignore:(the graph is unweighted|the weights in|parallel edges|this MultiDiGraph)"
    ),
]

# What numbers are replaced by, and what is put between.
NUMBERS = [*b"0 -1 2147483648 4294967296 1e999 1e308 5e-324 nan -inf 0x10".split(), b"9" * 40]
PIECES = [
    *NUMBERS,
    *(
        b"\x00",
        b"\xff",
        b"\xff\xff\xff\xff",
        b"\xff\xff\xff\x7f",
        b"\n",
        b" ",
        b"[",
        b"]",
        b"<",
        b">",
        b"/",
        b'"',
    ),
    *(
        b"&#0;",
        b"&lt;",
        b"&x;",
        b"<!DOCTYPE a>",
        b"<![CDATA[",
        b"<?a?>",
        b"<graph>",
        b"__class__ 1",
        b"key 1",
    ),
    *(
        b"multigraph 1",
        b"directed 1",
        b"id 0",
        b"label",
        b"%",
        b"# # # # ",
        b"complex",
        b"pattern",
        b"hermitian",
    ),
    *(
        b"skew-symmetric",
        b"array",
        b"coordinate",
        b"mtllib ../../etc/passwd\n",
        b"usemtl a\n",
        b"f 1 2 3 4 5\n",
    ),
    *(b"element face 99999999\n", b"property list int int x\n", b"list", b"COFF"),
    b"comment TextureFile /etc/passwd\n",
]


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
        (
            ".graphml",
            "\n".join(nx.generate_graphml(nx.MultiDiGraph([(0, 1), (0, 1), (1, 2)]))).encode(),
        ),
        (".mtx", market(sp.coo_array(full), symmetry="symmetric")),
        (".mtx", market(sp.coo_array(full), symmetry="general")),
        (".mtx", market(full, symmetry="general")),
        (".mtx", market(full, symmetry="symmetric")),
        (".mtx", market(sp.coo_array(full), field="pattern", symmetry="symmetric")),
        (".mtx", market(sp.coo_array(full + 0j))),
        *(
            (".npz", npz(make))
            for make in (sp.csr_array, sp.csc_matrix, sp.coo_array, sp.dia_array, sp.bsr_array)
        ),
        (".npz", npz(sp.csr_array, compressed=False)),
    ]
    if importlib.util.find_spec("trimesh"):
        files += [
            (".off", f"OFF\n4 4 0\n{ROWS}{SIDES}".encode()),
            (".ply", (PLY.format("ascii") + ROWS + SIDES).encode()),
            (".ply", binary),
            (
                ".obj",
                (
                    "".join("v {} {} {}\n".format(*v) for v in VERTICES)
                    + "".join("f {} {} {}\n".format(*(c + 1 for c in f)) for f in FACES)
                ).encode(),
            ),
            (".stl", stl()),
            (".stl", stl_text()),
        ]
    return tuple(files)


def harmed(good: bytes, rng: random.Random) -> bytes:
    return mutated(good, PIECES, len(NUMBERS), rng)


@cache
def warm() -> None:
    """Load what readers import, so that bounds are on reading alone."""
    for suffix, content in good_files():
        read_any(content, suffix, random.Random(0))


def read_any(content: bytes, suffix: str, rng: random.Random) -> Graph | str:
    if suffix in (".stl", ".ply", ".off", ".obj") and rng.random() < 0.5:
        weights = rng.choice(("unit", "inverse_length"))
        return read(
            content, suffix, from_mesh, on=rng.choice(("faces", "vertices")), weights=weights
        )
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
        read_any(harmed(good, rng), suffix, rng)
    elif rng.random() < 0.5:
        read_any(gzip.compress(harmed(good, rng), 1), f"{suffix}.gz", rng)
    else:
        read_any(harmed(gzip.compress(good, 1), rng), f"{suffix}.gz", rng)


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
        read_well += isinstance(read_any(harmed(good, rng), suffix, rng), Graph)
    assert 20 < read_well < 180


# -- hostile files, each made by hand --------------------------------------------------------------


def archive(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return buffer.getvalue()


def members(**changed: np.ndarray | bytes) -> dict[str, bytes]:
    """The members of a good archive, some of them changed."""
    good: dict[str, np.ndarray | bytes] = {
        "format": np.array(b"csr"),
        "shape": np.array([2, 2]),
        "data": np.ones(2),
        "indices": np.array([1, 0]),
        "indptr": np.array([0, 1, 2]),
    }
    parts = (good | changed).items()
    return {f"{name}.npy": part if isinstance(part, bytes) else npy(part) for name, part in parts}


def with_bytes(content: bytes, old: bytes, new: bytes) -> bytes:
    assert old in content
    return content.replace(old, new)


def header(shape: str, descr: str = "'<f8'", data: bytes = b"", version: bytes = b"\1\0") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY" + version + len(text).to_bytes(2, "little") + text + data


GOOD_NPZ = archive(members())
STORED = archive(members(), zipfile.ZIP_STORED)
CENTRAL = b"PK\1\2"


def patched(content: bytes, offset: int, new: bytes) -> bytes:
    """The archive with bytes of its first central directory entry replaced."""
    at = content.index(CENTRAL) + offset
    return content[:at] + new + content[at + len(new) :]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (archive(members(data=header("(1000000000000,)"))), "has another size than the shape"),
        (archive(members(data=header("(99999999999999999999,)"))), "no header of a plain array"),
        (archive(members(data=header("(2,)", "'|O'", bytes(16)))), "no header of a plain array"),
        (
            archive(members(data=header("(2,)", "__import__('os')", bytes(16)))),
            "no header of a plain array",
        ),
        (
            archive(members(data=header("(2,)", data=bytes(16), version=b"\4\0"))),
            "no header of a plain array",
        ),
        (archive(members(data=header("(-2,)", data=bytes(16)))), "no header of a plain array"),
        (archive(members(data=header("(2,)", data=bytes(17)))), "has another size than the shape"),
        (archive(members() | {"data": b""}), "is not named as an array"),
        (with_bytes(GOOD_NPZ, b"indptr.npy", b"format.npy"), "two members of one name"),
        (archive(members(), zipfile.ZIP_BZIP2), "neither stored nor deflated"),
        (patched(STORED, 8, b"\1\0"), "is encrypted"),
        (patched(STORED, 24, b"\xf0\xff\xff\xff"), "declares more bytes than it can hold"),
        (
            patched(STORED, 20, b"\xf0\xff\xff\x7f"),
            "overlap, or declare more bytes than the file has",
        ),
        (patched(STORED, 42, b"\xf0\xff\xff\xff"), "not a readable scipy.sparse npz"),
        (patched(STORED, 16, b"\0\0\0\0"), "Bad CRC"),
        (archive({f"a{i}.npy": b"" for i in range(5000)}), "table of contents is longer"),
        (STORED[:-30], "not a whole one"),
        (archive(members(indptr=np.array([0, 2, 1]))), "not a readable"),
        (archive(members(indptr=np.array([0, 10**6, 0]))), "row pointers do not rise from 0"),
        (archive(members(indptr=np.array([0, 1, 10**9]))), "not a readable"),
        (archive(members(indptr=np.array([0.0, 1.0, 2.0]))), "no integers"),
        (archive(members(indices=np.array([1, 2]))), "not a readable"),
        (archive(members(indices=np.array([-1, 0]))), "not a readable"),
        (archive(members(indices=np.array([2**63 + 1, 0], dtype=np.uint64))), "not a readable"),
        (archive(members(shape=np.array([2, 2, 2]))), "not a matrix with two axes"),
        (archive(members(shape=np.array([2, 3]))), "square"),
        (archive(members(shape=np.array([-2, -2]))), "its shape is"),
        (archive(members(shape=np.array([10**12, 10**12]))), "not a readable"),
        (archive(members(data=np.array([np.nan, 1.0]))), "1 NaN entries"),
        (archive(members(data=np.array([1j, 1.0]))), "real one was wanted"),
        (archive(members(data=np.array(["a", "b"]))), "m.npz"),
        (archive(members(format=np.array(b"lil"))), "format 'lil'"),
        (archive(members(format=np.array([b"csr", b"csr"]))), "not a readable"),
    ],
)
def test_hostile_npz_archives_are_refused(tmp_path, content, message):
    (tmp_path / "m.npz").write_bytes(content)
    with within(seconds=5, megabytes=200), pytest.raises(ValueError, match=message) as caught:
        load_graph(tmp_path / "m.npz")
    assert "m.npz" in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_bytes_that_are_no_booleans_or_characters_are_refused(tmp_path):
    # What NumPy makes of such arrays is not defined.
    for values, message in ((b"\1\1", None), (b"\1\2", "bytes that are not booleans")):
        data = archive(members(data=header("(2,)", "'|b1'", values)))
        _require(tmp_path, data, message)
    for last, message in (
        ("r", None),
        (0x110000, "numbers that are not characters"),
        (2**31, "not characters"),
    ):
        letters = np.array(
            [ord("c"), ord("s"), ord(last) if isinstance(last, str) else last], "<u4"
        ).tobytes()
        _require(tmp_path, archive(members(format=header("()", "'<U3'", letters))), message)


def _require(folder: Path, content: bytes, message: str | None) -> None:
    """An archive is read, or refused with this message."""
    (folder / "m.npz").write_bytes(content)
    if message is None:
        assert load_graph(folder / "m.npz").n_edges == 1
        return
    with pytest.raises(ValueError, match=message):
        load_graph(folder / "m.npz")


def test_members_that_a_matrix_does_not_need_are_not_read(tmp_path):
    extra = {
        "node labels.npy": npy(np.array(["a", "b"])),
        "a.b.npy": npy(np.eye(2)),
        "when.npy": npy(np.array(["2020-01-01"], "datetime64[D]")),
        "table.npy": npy(np.array([(1, 2.0)], "i4,f8")),
        "objects.npy": header("(1,)", "'|O'", b"no pickle"),
        "notes.txt": b"text",
        "../evil.npy": b"",
        "large.npy": header("(33554432,)", data=bytes(2**28)),
    }
    content = archive(members() | extra)
    with within(seconds=20, megabytes=100):
        _require(tmp_path, content, None)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_version_of_the_npy_format_is_read(tmp_path, version):
    parts = {}
    for name, array in {"data": np.ones(2), "indices": np.array([1, 0])}.items():
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, array, version=version)
        parts[name] = buffer.getvalue()
    _require(tmp_path, archive(members(**parts)), None)


def test_a_header_is_not_as_long_as_it_says(tmp_path, monkeypatch):
    # This would refuse the array by its size.
    monkeypatch.setattr(memory, "address_space", lambda: None)
    long = b"\x93NUMPY\2\0" + (2**27).to_bytes(4, "little") + bytes(2**27)  # 128 MiB in 130 kB
    content = archive(members(data=long))
    del long
    with within(seconds=20, megabytes=64):
        _require(tmp_path, content, "no header of a plain array")


def test_the_checksum_is_compared_where_the_stream_ends_after_its_last_byte(tmp_path, monkeypatch):
    class Compressor:
        """Its last blocks are empty: all bytes are there long before the stream has ended."""

        def __init__(self) -> None:
            self.inner = zlib.compressobj(6, zlib.DEFLATED, -15)

        def compress(self, data: bytes) -> bytes:
            return (
                self.inner.compress(data)
                + self.inner.flush(zlib.Z_FULL_FLUSH)
                + b"\0\0\0\xff\xff" * 20_000
            )

        def flush(self) -> bytes:
            return self.inner.flush()

    monkeypatch.setattr(zipfile, "_get_compressor", lambda *_: Compressor())
    n = 20_000
    parts = {
        "data": np.random.default_rng(0).random(n),
        "indices": np.arange(n),
        "indptr": np.arange(n + 1),
        "shape": np.array([n, n]),
    }
    good = members(**parts)
    content = archive({"data.npy": good.pop("data.npy")} | good)
    (tmp_path / "m.npz").write_bytes(content)
    assert load_graph(tmp_path / "m.npz").n_nodes == n
    _require(tmp_path, patched(content, 16, b"\0\0\0\0"), "Bad CRC")


def test_the_archive_that_is_made_hostile_is_good(tmp_path):
    for content in (GOOD_NPZ, STORED):
        (tmp_path / "m.npz").write_bytes(content)
        assert load_graph(tmp_path / "m.npz").n_edges == 1


def test_an_npz_bomb_is_refused_in_the_memory_allowed(tmp_path):
    zeros = header("(33554432,)", data=bytes(2**28))  # 256 MiB in 260 kB
    (tmp_path / "m.npz").write_bytes(archive(members(data=zeros)))
    del zeros
    with (
        within(seconds=20, megabytes=100),
        pytest.raises(
            MemoryError, match=r"m.npz: .* its arrays take 256.0 MiB, and .* are allowed"
        ),
    ):
        load_graph(tmp_path / "m.npz", memory_limit=2**28)


def test_entries_of_an_npz_need_not_be_in_order(tmp_path):
    unsorted = members(
        data=np.array([1.0, 2.0, 4.0, 3.0, 4.0]),
        indices=np.array([1, 0, 1, 0, 0]),
        indptr=np.array([0, 3, 5]),
    )
    (tmp_path / "m.npz").write_bytes(archive(unsorted))
    np.testing.assert_array_equal(
        load_graph(tmp_path / "m.npz", directed=True).adjacency.toarray(), [[2, 5], [7, 0]]
    )


GRAPHML = (
    '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">{}'
    '<graph edgedefault="undirected">{}</graph></graphml>'
)
NODES = '<node id="0"/><node id="1"/><edge source="0" target="1"/>'
TRIANGLE = "0 0 0\n1 0 0\n0 1 0\n"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "x.graphml",
            '<!DOCTYPE a SYSTEM "file:///etc/passwd">' + GRAPHML.format("", NODES),
            "are refused",
        ),
        ("x.graphml", GRAPHML.format("", NODES).encode("utf-16"), "x.graphml"),
        ("x.graphml", GRAPHML.format("", NODES).replace("0", "\0"), "a byte is zero"),
        (
            "x.graphml",
            GRAPHML.format('<key id="d" for="edge" attr.type="java.Runtime"/>', NODES),
            "x.graphml",
        ),
        ("x.graphml", GRAPHML.format("", "<node id='a'>" * 50_000), "not a readable GraphML"),
        ("x.gml", "graph " + "[ a " * 50_000, "not a readable GML"),
        ("x.gml", "graph [ node [ id 0 node_for_adding 3 ] node [ id 1 ] ]", "not a readable GML"),
        ("x.gml", "graph [ node [ id [ a 1 ] ] ]", "not a readable GML"),
        ("x.gml", "graph [ node [ id " + "9" * 5000 + " ] ]", "not a readable GML"),
        ("x.gml", 'graph [ node [ id 0 label "' + "x" * 10**6 + " ] ]", "not a readable GML"),
    ],
)
def test_hostile_texts_are_refused(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    with within(seconds=20, megabytes=400), pytest.raises(ValueError, match=message) as caught:
        load_graph(tmp_path / name)
    assert len(str(caught.value)) < 1000


def test_a_graphml_file_includes_no_other(tmp_path):
    include = '<xi:include href="file:///etc/passwd" xmlns:xi="http://www.w3.org/2001/XInclude"/>'
    for prefix in ("", '<?xml version="1.0" encoding="UTF-16"?>'):
        (tmp_path / "x.graphml").write_text(
            prefix + GRAPHML.format("", NODES + include), encoding="utf-8"
        )
        assert load_graph(tmp_path / "x.graphml").n_edges == 1


def facet(*corners: float) -> bytes:
    return np.array([0, 0, 1, *corners], dtype="<f4").tobytes() + b"\0\0"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "x.stl",
            bytes(80)
            + b"\2\0\0\0"
            + facet(0, 0, 0, 1, 0, 0, 0, 1, 0)
            + facet(0, 0, 0, 1, 0, 0, 0, np.nan, 0),
            "must be finite",
        ),
        ("x.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 nan 0\nf 1 2 3\nf 1 2 4\n", "must be finite"),
        ("x.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 99999999999999999999\n", "not a readable OBJ"),
        (
            "x.obj",
            "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\nf 1 2 x\n",
            "line 5: the corners of a face are integers",
        ),
        ("x.off", f"OFF\n3 2 0\n{TRIANGLE}3 0 1 2\n3 0 1 7\n", "not a readable OFF"),
        ("x.off", f"OFF\n3 999999999999 0\n{TRIANGLE}3 0 1 2\n", "999,999,999,999 faces"),
        ("x.off", f"OFF\n999999999999 1 0\n{TRIANGLE}3 0 1 2\n", "not a readable OFF"),
        (
            "x.ply",
            PLY.format("ascii").replace("4", "3", 1).replace("face 4", "face 1")
            + TRIANGLE
            + "3 0 1 -2\n",
            "got vertex -2",
        ),
        (
            "x.ply",
            PLY.format("ascii").replace("vertex 4", "vertex 999999999999999") + ROWS + SIDES,
            "x.ply",
        ),
        (
            "x.ply",
            PLY.format("binary_little_endian").replace("uchar", "int").encode()
            + bytes(48)
            + b"\xff" * 16,
            "not a readable PLY",
        ),
        ("x.ply", "ply\nformat ascii 1.0\n", "not a readable PLY"),
    ],
)
def test_hostile_meshes_are_refused(tmp_path, name, content, message):
    pytest.importorskip("trimesh")
    warm()
    (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    with within(seconds=20, megabytes=400), pytest.raises(ValueError, match=message) as caught:
        load_graph(tmp_path / name)
    assert name in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_comments_of_a_ply_file_declare_nothing(tmp_path):
    pytest.importorskip("trimesh")
    warm()
    text = PLY.format("ascii") + ROWS + SIDES
    for comment in ("comment element face 99\n", "obj_info element face 99\n"):
        (tmp_path / "x.ply").write_text(
            text.replace("element vertex", comment + "element vertex"), encoding="ascii"
        )
        assert load_graph(tmp_path / "x.ply").n_nodes == 4
        cut = text.replace("element vertex", comment.replace("99", "0") + "element vertex")
        cut = cut[: -len("3 1 2 3\n")]
        (tmp_path / "x.ply").write_text(cut, encoding="ascii")
        with pytest.raises(ValueError, match=r"x\.ply"):
            load_graph(tmp_path / "x.ply")


def test_an_stl_text_may_be_in_capitals(tmp_path):
    pytest.importorskip("trimesh")
    warm()
    (tmp_path / "x.stl").write_bytes(stl_text().upper())
    assert load_graph(tmp_path / "x.stl").n_nodes == 4
    (tmp_path / "x.stl").write_bytes(stl_text().upper()[:-20])
    with pytest.raises(ValueError, match=r"x\.stl"):
        load_graph(tmp_path / "x.stl")


def test_comments_of_an_off_file_take_linear_time(tmp_path):
    pytest.importorskip("trimesh")
    warm()
    (tmp_path / "x.off").write_text(
        f"OFF\n{'# ' * 1000}\n+3 1 0\n{TRIANGLE}3 0 1 2\n", encoding="ascii"
    )
    with within(seconds=10, megabytes=400):
        assert load_graph(tmp_path / "x.off").n_nodes == 1


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e30])
def test_the_unit_of_an_stl_file_does_not_matter(tmp_path, scale):
    pytest.importorskip("trimesh")
    content = bytearray(stl())
    for face in range(4):
        at = 84 + 50 * face + 12
        corners = np.frombuffer(content[at : at + 36], "<f4") * np.float32(scale)
        content[at : at + 36] = corners.astype("<f4").tobytes()
    (tmp_path / "x.stl").write_bytes(content)
    graph = from_mesh(tmp_path / "x.stl", on="vertices", weights="cotangent")
    assert (graph.n_nodes, from_mesh(tmp_path / "x.stl").n_edges) == (4, 6)


def test_a_mesh_of_one_place_has_no_cotangents():
    assert (
        from_mesh((np.zeros((3, 3)), [[0, 1, 2]]), on="vertices", weights="cotangent").n_edges == 0
    )
