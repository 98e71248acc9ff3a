"""Named data sets: registry, order of the search, downloads from a local server, real files.

Tests of real files read `GRAPHRF_DATA_DIR` and are skipped where it is not set; nothing here uses
the network.
"""

from __future__ import annotations

import copy
import functools
import gzip
import hashlib
import importlib.util
import io
import os
import pickle
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from graphrf import datasets
from graphrf.datasets import files as data_files
from graphrf.datasets import readers, shapes
from graphrf.graph.builders import from_mesh
from graphrf.graph.loaders import load_graph
from tests.support.publisher import Publisher, sends
from tests.support.real_data import DATA, needs_data

REGISTRY = data_files.registry()
HAS_TRIMESH = importlib.util.find_spec("trimesh") is not None


def needs_trimesh(name: str) -> None:
    if name.startswith("mesh-") and not HAS_TRIMESH:
        pytest.skip("trimesh is not installed")


# -- the registry and the cards --------------------------------------------------------------------


def test_names_are_grouped_by_kind():
    assert datasets.names() == [name for kind in datasets.KINDS for name in datasets.names(kind)]
    assert "mesh-torus" in datasets.names("mesh")
    with pytest.raises(ValueError, match="`kind` must be one of"):
        datasets.names("meshes")


def test_cards_are_those_of_the_registry():
    folder = Path(__file__).parent.parent.parent / "datasets"
    cards = {path.stem for path in folder.glob("*.md")} - {"README"}
    assert cards == set(datasets.names()), "run python datasets/make_cards.py"
    for name in cards:
        text = (folder / f"{name}.md").read_text(encoding="utf-8")
        assert text == datasets.describe(name), "run python datasets/make_cards.py"


def test_the_catalog_has_every_data_set_with_its_size_and_licence():
    entries = datasets.catalog()
    assert [entry.name for entry in entries] == datasets.names()
    for entry in entries:
        assert (entry.n_rows is None) == (entry.kind != "table")
        assert (entry.n_nodes is None) == (entry.n_edges is None) == (entry.kind == "table")
        assert entry.licence
        assert entry.description
    assert [entry.name for entry in datasets.catalog("traffic")] == [
        "san-jose",
        "pems-bay",
        "metr-la",
    ]
    with pytest.raises(ValueError, match="`kind` must be one of"):
        datasets.catalog("roads")


def test_unknown_names_are_refused_with_near_ones():
    with pytest.raises(ValueError, match="did you mean 'cora'"):
        datasets.load("Cora")
    with pytest.raises(ValueError, match=r"load_graph\(path\) reads your own files"):
        datasets.load("../../etc/passwd")
    for name in (
        "/etc/passwd",
        "karate/../cora",
        "cora\0",
        "graphs/karate.gml",
        "",
        ".",
        "C:\\cora",
    ):
        for use in (datasets.load, datasets.path, datasets.describe):
            with pytest.raises(ValueError, match="`name` must be one of"):
                use(name)
    with pytest.raises(TypeError, match="`name` must be the name"):
        datasets.load(3)
    with pytest.raises(ValueError, match="which needs none"):
        datasets.path("karate")


def test_paper_graphs_are_ten_in_the_order_of_size():
    sizes = [REGISTRY["datasets"][name]["nodes"] for name in datasets.PAPER_GRAPHS]
    assert sizes == [34, 62, 105, 115, 398, 986, 1133, 1272, 2120, 2708]


# -- embedded data sets ----------------------------------------------------------------------------


def test_embedded_data_sets_need_no_file(monkeypatch, tmp_path):
    monkeypatch.delenv("GRAPHRF_DATA_DIR", raising=False)
    monkeypatch.setenv("GRAPHRF_CACHE_DIR", str(tmp_path / "cache"))
    karate = datasets.load("karate")
    assert karate.graph.n_edges == 78
    np.testing.assert_array_equal(np.bincount(karate.targets), [17, 17])
    np.testing.assert_array_equal(karate.target_nodes, np.arange(34))
    assert datasets.load("les-miserables").graph.is_weighted
    grid = datasets.load("generated-grid")
    rows, columns = grid.coordinates.T
    entries = grid.graph.adjacency.tocoo()
    assert (
        np.abs(rows[entries.row] - rows[entries.col])
        + np.abs(columns[entries.row] - columns[entries.col])
        == 1
    ).all()
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("name", ["generated-icosphere", "generated-torus"])
def test_generated_meshes_are_closed_surfaces_with_unit_normals(name):
    data = datasets.load(name)
    entry = REGISTRY["datasets"][name]
    assert (data.graph.n_nodes, data.graph.n_edges) == (entry["nodes"], entry["edges"])
    assert (data.graph.degrees == 3).all()
    np.testing.assert_allclose(np.linalg.norm(data.extra["normals"], axis=1), 1)
    np.testing.assert_array_equal(data.targets, data.extra["normals"][:, 2])
    corners = data.extra["vertices"][data.extra["faces"]]
    np.testing.assert_allclose(data.coordinates, corners.mean(axis=1))
    if name == "generated-icosphere":
        assert (np.einsum("ij,ij->i", data.extra["normals"], data.coordinates) > 0.9).all()


@pytest.mark.skipif(not HAS_TRIMESH, reason="trimesh is not installed")
def test_generated_meshes_are_those_of_trimesh():
    from trimesh import creation

    theirs = creation.torus(
        major_radius=2.0, minor_radius=1.0, major_sections=64, minor_sections=32
    )
    vertices, faces = shapes.torus(around=64, across=32, radius=2.0, tube=1.0)
    np.testing.assert_array_equal(faces, theirs.faces)
    np.testing.assert_allclose(vertices, theirs.vertices, atol=1e-15)
    theirs = creation.icosphere(subdivisions=3)
    vertices, faces = shapes.icosphere(subdivisions=3)
    # Their vertices have another order, their triangles the same.
    np.testing.assert_allclose(vertices[faces], theirs.vertices[theirs.faces], atol=1e-15)


@pytest.mark.parametrize(
    ("shape", "euler", "volume"),
    [("torus", 0, 2 * np.pi**2 * 2.0 * 0.5**2), ("icosphere", 2, 4 / 3 * np.pi)],
)
def test_shapes_are_closed_surfaces_whose_normals_point_outwards(shape, euler, volume):
    vertices, faces = shapes.torus(20, 15, 2.0, 0.5) if shape == "torus" else shapes.icosphere(2)
    sides = {
        tuple(sorted(side)) for face in faces for side in zip(face, np.roll(face, 1), strict=True)
    }
    assert len(vertices) - len(sides) + len(faces) == euler
    a, b, c = vertices[faces].transpose(1, 0, 2)
    # The area vectors of a closed surface add to zero.
    np.testing.assert_allclose(np.cross(b - a, c - a).sum(axis=0), 0, atol=1e-9)
    assert 0.9 * volume < np.einsum("ij,ij->", a, np.cross(b, c)) / 6 < volume


def test_a_record_cannot_be_changed():
    data = datasets.load("karate")
    with pytest.raises(AttributeError):
        data.targets = None
    with pytest.raises(AttributeError):
        data.extra = {}


def test_a_record_can_be_sent_to_another_process():
    data = datasets.load("karate")
    again = pickle.loads(pickle.dumps(data))
    np.testing.assert_array_equal(again.targets, data.targets)
    assert again.extra == data.extra
    assert copy.deepcopy(data).graph is data.graph


# -- files: data folder, cache, download -----------------------------------------------------------

GML = b'graph [ node [ id 0 gt "x" ] node [ id 1 gt "y" ] edge [ source 0 target 1 ] ]'
CITES = b"1\t2\n2\t3\n"


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    server = Publisher()
    yield server
    server.stop()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def small(monkeypatch, tmp_path, publisher) -> dict:
    """A registry of a few small files of the local publisher, an empty cache, no data folder."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as writer:
        writer.writestr("cora/cora.cites", CITES)
        writer.writestr("../../evil", b"x")
    table = b'id,"page_name",page_type\n0,"a, b",x\n1,c,y\n'
    contents = {"/plain.gml": GML, "/cora.zip": archive.getvalue(), "/table.csv": table}
    publisher.answers = {place: sends(content) for place, content in contents.items()}
    columns = b"id,page_type\n0,x\n1,y\n"
    # Stored files compressed by another library than this
    # one: their bytes differ, their content does not.
    other_gzip = {"sha256": "0" * 64, "licence": "MIT"}
    registry = {
        "files": {
            "graphs/plain.gml": {
                "sha256": sha256(GML),
                "licence": "MIT",
                "stored": "identity",
                "url": f"{publisher.url}/plain.gml",
            },
            "graphs/zipped.gml.gz": {
                **other_gzip,
                "content_sha256": sha256(GML),
                "stored": "gzip",
                "url": f"{publisher.url}/plain.gml",
            },
            "graphs/c.cites": {
                "sha256": sha256(CITES),
                "licence": "MIT",
                "stored": "member",
                "member": "cora/cora.cites",
                "url": f"{publisher.url}/cora.zip",
            },
            "large/table.csv.gz": {
                **other_gzip,
                "content_sha256": sha256(columns),
                "stored": "columns",
                "columns": ["id", "page_type"],
                "url": f"{publisher.url}/table.csv",
            },
        },
        "datasets": {
            name: {"kind": "graph", "files": [key], "description": "-", "reader": reader}
            for name, key, reader in (
                ("plain", "graphs/plain.gml", "gml"),
                ("zipped", "graphs/zipped.gml.gz", "gml"),
                ("cites", "graphs/c.cites", "cites"),
                ("table", "large/table.csv.gz", "gml"),
            )
        },
    }
    monkeypatch.setattr(data_files, "registry", lambda: registry)
    data_files.forget_verified()
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("GRAPHRF_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("GRAPHRF_DATA_DIR", raising=False)
    return registry


def files_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_file_is_fetched_once_and_then_found_in_the_cache(small, publisher, tmp_path):
    data = datasets.load("plain")
    np.testing.assert_array_equal(data.targets, [0, 1])
    assert data.extra["classes"] == ("x", "y")
    assert files_below(tmp_path / "cache") == ["graphs/plain.gml"]
    datasets.load("plain")
    assert publisher.asked == {"/plain.gml": 1}
    assert datasets.path("plain").read_bytes() == GML


def test_a_download_has_a_progress_bar_on_a_terminal_only(small, publisher, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    log, terminal = io.StringIO(), Terminal()
    monkeypatch.setattr("sys.stderr", log)
    datasets.path("plain")
    monkeypatch.setattr("sys.stderr", terminal)
    datasets.path("cites")
    assert log.getvalue() == ""
    assert "graphs/c.cites: 100%" in terminal.getvalue()


def test_the_data_folder_comes_before_the_cache_and_the_publisher(
    small, publisher, tmp_path, monkeypatch
):
    folder = tmp_path / "data" / "graphs"
    folder.mkdir(parents=True)
    (folder / "plain.gml").write_bytes(GML)
    monkeypatch.setenv("GRAPHRF_DATA_DIR", str(tmp_path / "data"))
    assert datasets.path("plain") == folder / "plain.gml"
    assert not publisher.asked
    datasets.load("cites")  # not there: fetched into the cache, the data folder is left alone
    assert files_below(tmp_path / "data") == ["graphs/plain.gml"]
    assert files_below(tmp_path / "cache") == ["graphs/c.cites"]


def test_the_catalog_tells_where_files_are_and_fetches_none(
    small, publisher, tmp_path, monkeypatch
):
    def found() -> dict[str, str]:
        return {entry.name: entry.found for entry in datasets.catalog()}

    assert set(found().values()) == {"to fetch"}
    datasets.load("cites")
    publisher.asked.clear()
    folder = tmp_path / "data" / "graphs"
    folder.mkdir(parents=True)
    (folder / "plain.gml").write_bytes(b"not read")
    monkeypatch.setenv("GRAPHRF_DATA_DIR", str(tmp_path / "data"))
    expected = {"plain": "data folder", "zipped": "to fetch", "cites": "cache", "table": "to fetch"}
    assert found() == expected
    assert not publisher.asked


def test_gzip_member_and_columns_are_made_from_what_is_fetched(small, tmp_path):
    assert gzip.decompress(datasets.path("zipped").read_bytes()) == GML
    graph = datasets.load("cites").graph
    np.testing.assert_array_equal(graph.adjacency.toarray(), [[0, 0, 0], [1, 0, 0], [0, 1, 0]])
    assert gzip.decompress(datasets.path("table").read_bytes()) == b"id,page_type\n0,x\n1,y\n"
    assert files_below(tmp_path) == [
        "cache/graphs/c.cites",
        "cache/graphs/zipped.gml.gz",
        "cache/large/table.csv.gz",
    ]  # and no evil one
    datasets.load("zipped")


def test_offline_the_message_says_where_to_put_the_file(small, publisher, tmp_path):
    small["files"]["graphs/plain.gml"]["url"] = "http://127.0.0.1:1/plain.gml"
    with pytest.raises(
        ConnectionError, match="not on this machine and could not be fetched"
    ) as caught:
        datasets.load("plain")
    target = tmp_path / "cache" / "graphs" / "plain.gml"
    assert str(target) in str(caught.value)
    assert "GRAPHRF_DATA_DIR" in str(caught.value)
    target.parent.mkdir(parents=True)
    target.write_bytes(GML)  # as the message says
    assert datasets.load("plain").graph.n_nodes == 2


def test_a_damaged_file_in_the_cache_is_fetched_again_in_the_data_folder_refused(
    small, tmp_path, monkeypatch
):
    for key in ("graphs/plain.gml", "graphs/zipped.gml.gz"):
        path = tmp_path / "cache" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(GML[:20])
    assert datasets.load("plain").graph.n_nodes == 2
    assert datasets.load("zipped").graph.n_nodes == 2
    monkeypatch.setenv("GRAPHRF_DATA_DIR", str(tmp_path / "cache"))
    path = tmp_path / "cache" / "graphs" / "plain.gml"
    path.write_bytes(GML[:20])
    with pytest.raises(ValueError, match=r"plain\.gml has SHA-256 .* damaged or another file"):
        datasets.load("plain")
    assert path.read_bytes() == GML[:20]


def test_a_file_that_changes_while_it_is_read_is_refused(small, tmp_path, monkeypatch):
    path = datasets.path("plain")
    times = path.stat()

    def change() -> None:
        path.write_bytes(GML.replace(b"source 0", b"source 1"))
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    for fault, message in (
        (change, "has SHA-256 .* wanted"),
        (path.unlink, "was removed while it was read"),
    ):
        datasets.load("plain")  # fetched again where it was damaged

        def changed_before(name, entry, files, fault=fault):
            content = readers._gml(name, entry, files)
            fault()
            return content

        with monkeypatch.context() as patched:
            patched.setitem(readers.READERS, "gml", changed_before)
            with pytest.raises(ValueError, match=message):
                datasets.load("plain")
    assert datasets.load("plain").graph.n_edges == 1


def test_a_linked_folder_of_the_cache_is_the_users_own(small, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "cache" / "graphs").symlink_to(tmp_path / "elsewhere")
    assert datasets.load("plain").graph.n_edges == 1
    assert files_below(tmp_path / "elsewhere") == ["plain.gml"]


def test_a_data_folder_that_is_none_is_refused(small, monkeypatch, tmp_path):
    monkeypatch.setenv("GRAPHRF_DATA_DIR", str(tmp_path / "absent"))
    with pytest.raises(ValueError, match="GRAPHRF_DATA_DIR must name a folder"):
        datasets.load("plain")


def test_the_default_cache_is_the_users(monkeypatch):
    monkeypatch.delenv("GRAPHRF_CACHE_DIR", raising=False)
    assert data_files.cache_folder().name == "graphrf"


# -- San Jose from its published parts -------------------------------------------------------------


def polylines(starts: list[tuple[float, float]]) -> bytes:
    records = b""
    for number, (x, y) in enumerate(starts, start=1):
        body = struct.pack("<i4d3i4d", 3, 0, 0, 0, 0, 1, 2, 0, x, y, x + 1, y + 1)
        records += struct.pack(">ii", number, len(body) // 2) + body
    return b"\0" * 100 + records


SAN_JOSE = {
    "V.csv": b"id,x,y\n1,0.0,0.0\n2,1.0,0.0\n3,1.0,1.0\n",
    "E.csv": b"id,V1,V2,length\n1,1,2,100.0\n2,2,3,50.0\n",
    "PtE.csv": b"E,length\n0,70.0\n0,20.0\n",
    "Y.csv": b",7,8\nnow,60,50\n",
    "graph_sensor_locations_bay.csv": b"7,0.5,0.1\n8,0.5,-0.1\n",
}


def test_sensors_cut_their_road_along_the_direction_of_its_line():
    made = data_files.san_jose({**SAN_JOSE, "lines.shp": polylines([(1.0, 0.0), (1.0, 0.0)])})
    # The first line runs from the second junction to the first, against E.csv.
    assert made["edges.csv"] == (
        b"source,target,length_m,road\n1,4,20.0,0\n4,3,50.0,0\n3,0,30.0,0\n1,2,50.0,1\n"
    )
    assert made["nodes.csv"].startswith(b"node,kind,sensor_id,lat,lon\n0,junction,,0.0,0.0\n")
    assert made["nodes.csv"].endswith(b"4,sensor,8,0.5,-0.1\n")
    assert made["speeds.csv"] == b"time,7,8\nnow,60,50\n"


@pytest.mark.parametrize(
    "shapefile", [polylines([(0, 0)])[:-120], b"\0" * 100 + b"\0" * 80, b"\0" * 104]
)
def test_a_damaged_shapefile_is_refused(shapefile):
    with pytest.raises(ValueError, match=r"lines\.shp"):
        data_files.san_jose({**SAN_JOSE, "lines.shp": shapefile})


@needs_data
def test_the_stored_san_jose_files_are_made_byte_for_byte(monkeypatch, tmp_path, publisher):
    """Lines start where the stored edges say: lines.shp itself is not in a data folder."""
    base = "traffic/san_jose"
    stored = {
        name: data_files.find(f"{base}/{name}").read_bytes() for name in ("nodes.csv", "edges.csv")
    }
    first: dict[int, int] = {}
    for line in stored["edges.csv"].decode().splitlines()[1:]:
        source, _, _, road = line.split(",")
        first.setdefault(int(road), int(source))
    places = [line.split(",") for line in stored["nodes.csv"].decode().splitlines()[1:]]
    shapefile = polylines(
        [(float(places[node][4]), float(places[node][3])) for _, node in sorted(first.items())]
    )
    registry = copy.deepcopy(REGISTRY)
    for name in (*SAN_JOSE, "lines.shp"):
        key = f"{base}/source/{name}"
        content = shapefile if name == "lines.shp" else data_files.find(key).read_bytes()
        publisher.answers[f"/{name}"] = sends(content)
        registry["files"][key]["url"] = f"{publisher.url}/{name}"
    monkeypatch.setattr(data_files, "registry", lambda: registry)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("GRAPHRF_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("GRAPHRF_DATA_DIR")
    publisher.answers["/lines.shp"] = sends(b"an error page")
    with pytest.raises(
        ValueError, match=r"nodes\.csv, made from V\.csv.* is not what was published \(lines\.shp"
    ):
        datasets.load("san-jose")
    publisher.answers["/lines.shp"] = sends(polylines([(0.0, 0.0)] * 848))
    with pytest.raises(
        ValueError, match=r"edges\.csv, made from .* has SHA-256 .* nothing was stored"
    ):
        datasets.load("san-jose")
    assert not (tmp_path / base / "source" / "lines.shp").exists()
    publisher.answers["/lines.shp"] = sends(shapefile)
    publisher.asked.clear()
    assert datasets.load("san-jose").graph.n_nodes == 1016
    for name, content in stored.items():
        assert (tmp_path / base / name).read_bytes() == content
    assert publisher.asked == {"/lines.shp": 1}  # the other parts were checked and kept
    assert datasets.load("san-jose").graph.n_edges == 1172
    assert publisher.asked.total() == 1


# -- the real files --------------------------------------------------------------------------------


@needs_data
@pytest.mark.parametrize(
    "key", [key for key, entry in REGISTRY["files"].items() if "sha256" in entry]
)
def test_files_of_the_data_folder_have_their_checksums(key):
    path = Path(DATA, key)
    if not path.is_file():
        pytest.skip(f"{key} is not in the data folder")
    content = path.read_bytes()
    assert sha256(content) == REGISTRY["files"][key]["sha256"]
    assert len(content) == REGISTRY["files"][key]["size"]
    if key.endswith(".gz"):
        assert sha256(gzip.decompress(content)) == REGISTRY["files"][key]["content_sha256"]


@functools.cache  # reading the larger files takes half a second each; tests share them
def loaded(name):
    keys = REGISTRY["datasets"][name]["files"]
    if data_files.location(keys) == "to fetch":
        pytest.skip(f"{', '.join(keys)} is not in the data folder")
    return datasets.load(name)


# Components, classes and labelled nodes as counted by hand on the files; sizes are in the registry.
COMPONENTS = {
    "cora": 78,
    "cora-directed": 78,
    "pems-bay": 5,
    "metr-la": 2,
    "mesh-teapot": 4,
    "mesh-bunny": 94,
    "mesh-cycloidal": 119,
    "mesh-counter": 6,
}
CLASSES = {
    "karate": 2,
    "karate-gml": 2,
    "dolphins": 2,
    "polbooks": 3,
    "football": 12,
    "newsgroup": 2,
    "eu-core": 42,
    "eurosis": 13,
    "citeseer": 6,
    "cora": 7,
    "cora-connected": 7,
    "facebook-pages": 4,
    "github": 2,
}


@needs_data
@pytest.mark.filterwarnings("ignore:87 faces repeat")  # mesh-bunny, as published
@pytest.mark.parametrize(
    "name", [name for kind in datasets.KINDS[:4] for name in datasets.names(kind)]
)
def test_graphs_load_with_their_published_counts(name):
    needs_trimesh(name)
    data = loaded(name)
    entry = REGISTRY["datasets"][name]
    assert (data.graph.n_nodes, data.graph.n_edges) == (entry["nodes"], entry["edges"])
    assert np.unique(data.graph.components()).size == COMPONENTS.get(name, 1)
    if name in CLASSES:
        assert len(data.extra["classes"]) == CLASSES[name]
        assert np.unique(data.targets).size == CLASSES[name]
    if data.targets is not None:
        assert data.targets.shape == data.target_nodes.shape
        assert np.isfinite(data.targets).all()
    if data.coordinates is not None:
        assert len(data.coordinates) == data.graph.n_nodes
    assert data.sources or not entry["files"]


@needs_data
@pytest.mark.parametrize("name", datasets.names("table"))
def test_tables_load_with_their_published_counts(name):
    data = loaded(name)
    entry = REGISTRY["datasets"][name]
    assert data.graph is None
    assert data.features.shape == (entry["rows"], len(entry["columns"]) - 1 - len(entry["drop"]))
    assert data.targets.shape == (entry["rows"],)
    assert data.targets.dtype.kind == ("i" if entry["task"] == "classification" else "f")
    assert np.isnan(data.features).sum() == (120 if name == "uci-housing" else 0)
    assert len(data.extra["columns"]) == data.features.shape[1]


@needs_data
def test_self_loops_are_those_of_the_publishers():
    loops = {
        name: np.count_nonzero(loaded(name).graph.adjacency.diagonal())
        for name in ("eu-core", "citeseer", "facebook-pages", "cora")
    }
    assert loops == {"eu-core": 623, "citeseer": 52, "facebook-pages": 179, "cora": 0}


@needs_data
def test_cora_with_directions_is_cora():
    directed, plain = loaded("cora-directed").graph, loaded("cora").graph
    order = plain.index([str(node) for node in directed.nodes])
    both = directed.adjacency.maximum(directed.adjacency.T)
    assert abs(both - plain.adjacency[order][:, order]).max() == 0
    # `35<TAB>1033` says that 1033 cites 35.
    assert directed.adjacency[directed.index(1033), directed.index(35)] == 1
    assert directed.adjacency[directed.index(35), directed.index(1033)] == 0
    assert load_graph(datasets.path("cora-directed")).n_edges == 5278


@needs_data
def test_san_jose_has_roads_as_conductances_and_speeds_at_sensors():
    data = loaded("san-jose")
    roads, lengths = data.extra["roads"], data.extra["lengths"]
    assert len(roads) == 1173
    expected = np.zeros((1016, 1016))
    for (u, v), length in zip(roads, lengths, strict=True):
        expected[u, v] += lengths.mean() / length
        expected[v, u] += lengths.mean() / length
    np.testing.assert_allclose(data.graph.adjacency.toarray(), expected, rtol=1e-12)
    np.testing.assert_array_equal(data.target_nodes, np.arange(691, 1016))
    assert data.extra["speeds"].shape == (26, 325)
    assert data.extra["times"][0] == "2017-01-02 17:30:00"
    assert (data.targets.min(), data.targets.max()) > (3.0, 50.0)
    longitude, latitude = data.coordinates.T
    assert (longitude > -122.2).all() and (longitude < -121.7).all()  # noqa: PT018
    assert (latitude > 37.2).all() and (latitude < 37.5).all()  # noqa: PT018


@needs_data
@pytest.mark.parametrize(
    ("name", "edges", "components"), [("fuze", 1500, 1), ("teapot", 1309, 4), ("bunny", 24073, 94)]
)
@pytest.mark.filterwarnings("ignore:87 faces repeat")
def test_meshes_are_read_with_the_vertices_of_their_files(name, edges, components):
    """The faces of fuze have textures, by which trimesh would split its vertices."""
    pytest.importorskip("trimesh")
    path = datasets.path(f"mesh-{name}")
    for weld in (False, True):
        graph = from_mesh(path, weld=weld)
        assert (graph.n_edges, np.unique(graph.components()).size) == (edges, components)
