"""Folders of blocks: what is finished is not walked again, and what is not these features, whole, is refused."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path

import numpy as np
import pytest

import graphrf as grf
from graphrf.distributed import files, load_features, sample_features
from tests.distributed.helpers import Told, require_same, weighted

GRAPH = weighted()
WALKS = grf.RandomWalks(4)
SAMPLERS = {"walks": WALKS, "cut powers": grf.CutPowers(6, max_length=4), "combinatorial": None}
SAMPLERS["combinatorial"] = grf.RandomWalks(4, grf.Truncated(3), laplacian="combinatorial")


@pytest.fixture
def told(tmp_path):
    """A sampler that tells what workers have sampled."""
    (tmp_path / "told").mkdir()
    return Told(WALKS, str(tmp_path / "told"))


@pytest.fixture(scope="module")
def written(cluster_client, tmp_path_factory):
    """A folder of ten blocks, to be read only."""
    folder = tmp_path_factory.mktemp("written") / "features"
    sample_features(GRAPH, WALKS, client=cluster_client, seed=3, block_size=9, path=folder)
    return folder


@pytest.fixture
def folder(written, tmp_path):
    """A folder of ten blocks."""
    return Path(shutil.copytree(written, tmp_path / "features"))


def _bytes(folder):
    return {file.name: file.read_bytes() for file in Path(folder).iterdir()}


# -- there and back ----------------------------------------------------------------------------------


@pytest.mark.parametrize("nodes", [None, [5, 80, 5, 0, 33]], ids=["all nodes", "some nodes"])
@pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)
@pytest.mark.parametrize("way", ["path", "save"])
def test_what_is_written_is_read(cluster_client, tmp_path, sampler, nodes, way):
    options = {"nodes": nodes, "seed": 3, "dtype": "float64"}
    folder = tmp_path / "not" / "there" / "yet"
    path = folder if way == "path" else None
    features = sample_features(GRAPH, sampler, client=cluster_client, block_size=4, path=path, **options)
    if way == "save":
        features.save(folder)
    expected = grf.sample_features(GRAPH, sampler, **options)
    require_same(features.gather(), expected)
    names = [f"rows-{number:06d}.npz" for number in range(features.n_blocks)]
    assert sorted(_bytes(folder)) == ["features.json", *names, "shared.npz"]
    again = load_features(folder, client=cluster_client)
    require_same(again.gather(), expected)
    assert (again.shape, again.n_blocks, again.n_steps) == (features.shape, features.n_blocks, expected.n_steps)
    again.save(tmp_path / "copy")
    assert sorted(_bytes(tmp_path / "copy")) == sorted(_bytes(folder))
    require_same(load_features(tmp_path / "copy", client=cluster_client).gather(), expected)


def test_both_ways_write_the_same_bytes(cluster_client, written, tmp_path):
    sample_features(GRAPH, WALKS, client=cluster_client, seed=3, block_size=9).save(tmp_path)
    assert _bytes(tmp_path) == _bytes(written)


def test_a_folder_given_by_a_relative_path_is_found_by_workers(cluster_client, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sample_features(GRAPH, WALKS, client=cluster_client, seed=3, path="features").save("other")
    require_same(load_features("other", client=cluster_client).gather(), grf.sample_features(GRAPH, WALKS, seed=3))
    assert len(_bytes(tmp_path / "features")) == len(_bytes(tmp_path / "other")) > 2


def test_a_second_call_walks_nothing_and_keeps_files_blocks_and_seed(cluster_client, told, folder, tmp_path):
    options = {"client": cluster_client, "path": tmp_path / "once"}
    first = sample_features(GRAPH, told, seed=3, block_size=9, **options)
    assert told.nodes() == list(range(90))
    times = {file: file.stat().st_mtime_ns for file in (tmp_path / "once").iterdir()}
    for more in ({"seed": 3}, {"block_size": 5}, {}):
        again = sample_features(GRAPH, told, **options, **more)
        assert (again.seed, again.n_blocks) == (3, first.n_blocks)
        require_same(again.gather(), first.gather())
    assert told.nodes() == list(range(90))
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / "once").iterdir()} == times


@pytest.mark.parametrize("lost", [[0], [3, 9], list(range(10))], ids=["the first", "two", "all"])
def test_missing_blocks_are_drawn_and_no_others(cluster_client, told, tmp_path, lost):
    folder = tmp_path / "features"
    options = {"client": cluster_client, "path": folder}
    sample_features(GRAPH, told, seed=3, block_size=9, **options)
    before = _bytes(folder)
    for file in Path(told.folder).iterdir():
        file.unlink()
    for number in lost:
        (folder / f"rows-{number:06d}.npz").unlink()
    with pytest.raises(ValueError, match=rf"{len(lost)} of 10 are missing; sample_features with the same"):
        load_features(folder, client=cluster_client)
    found = sample_features(GRAPH, told, **options)
    assert told.nodes() == [node for number in lost for node in range(9 * number, 9 * number + 9)]
    assert _bytes(folder) == before
    require_same(found.gather(), sample_features(GRAPH, told, seed=3, client=cluster_client).gather())


def test_saving_goes_on_where_it_ended(cluster_client, folder):
    before = _bytes(folder)
    (folder / "rows-000004.npz").unlink()
    kept = {file: file.stat().st_mtime_ns for file in folder.iterdir()}
    sample_features(GRAPH, WALKS, client=cluster_client, seed=3, block_size=9).save(folder)
    assert _bytes(folder) == before
    assert kept == {file: file.stat().st_mtime_ns for file in kept}


_INTERRUPTED = """
import sys
from distributed import Client, LocalCluster
import graphrf as grf
from tests.distributed.helpers import Told, weighted

if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        client = Client(cluster)
        sampler = Told(grf.RandomWalks(4), sys.argv[1], 0.15)
        grf.distributed.sample_features(weighted(), sampler, client=client, seed=3, block_size=3, path=sys.argv[2])
"""


def test_what_a_killed_process_has_finished_is_kept(cluster_client, tmp_path):
    told, folder, script = (tmp_path / name for name in ("told", "features", "script.py"))
    told.mkdir()
    script.write_text(_INTERRUPTED)
    process = subprocess.Popen(
        [sys.executable, script, told, folder],
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )
    try:
        limit = time.monotonic() + 60
        while len(list(folder.glob("rows-*"))) < 6 and process.poll() is None and time.monotonic() < limit:
            time.sleep(0.02)
        assert process.poll() is None
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    kept = {file: file.read_bytes() for file in folder.glob("rows-*")}
    assert 6 <= len(kept) < 30
    for file in told.iterdir():
        file.unlink()
    sampler = Told(WALKS, str(told))
    found = sample_features(GRAPH, sampler, client=cluster_client, path=folder)
    numbers = [int(file.stem.removeprefix("rows-")) for file in kept]
    missing = sorted(set(range(30)) - set(numbers))
    assert sampler.nodes() == [node for number in missing for node in range(3 * number, 3 * number + 3)]
    assert kept == {file: file.read_bytes() for file in kept}
    require_same(found.gather(), grf.sample_features(GRAPH, WALKS, seed=3))


# -- refused -----------------------------------------------------------------------------------------


def _lighter():
    adjacency = GRAPH.adjacency.copy()
    adjacency.data[:] = 1.0
    return grf.Graph(adjacency)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"graph": _lighter()}, "graph and rows"),
        ({"sampler": grf.RandomWalks(6)}, "sampler and rows"),
        ({"sampler": grf.RandomWalks(4, directions="independent")}, "sampler and rows"),
        ({"seed": 4}, "seed and rows"),
        ({"nodes": range(89)}, "nodes and rows"),
        ({"dtype": "float64"}, "dtype"),
    ],
    ids=["graph", "sampler", "directions", "seed", "nodes", "dtype"],
)
def test_other_features_are_refused_by_what_differs(cluster_client, folder, options, words):
    before = _bytes(folder)
    options = {"graph": GRAPH, "sampler": WALKS, "client": cluster_client, "path": folder} | options
    with pytest.raises(ValueError, match=f"whose features differ in {words}; pass another `path`"):
        sample_features(**options)
    options.pop("path")
    with pytest.raises(ValueError, match=f"whose features differ in {words.replace('seed and rows', 'seed')}"):
        sample_features(**{"seed": 3, "block_size": 9} | options).save(folder)
    assert _bytes(folder) == before


def test_all_nodes_by_name_are_other_nodes_than_all(cluster_client, folder):
    with pytest.raises(ValueError, match="differ in nodes; pass"):
        sample_features(GRAPH, WALKS, client=cluster_client, nodes=range(90), path=folder)


def test_a_sampler_that_draws_otherwise_under_the_same_name_is_refused(cluster_client, folder, told):
    class Other(Told):
        def prepare(self, graph, seed):
            return super().prepare(graph, seed + 1)

    with pytest.raises(ValueError, match="differ in rows; pass"):
        sample_features(GRAPH, Other(WALKS, told.folder), client=cluster_client, path=folder)


def test_blocks_of_another_size_are_not_saved_beside(cluster_client, folder):
    before = _bytes(folder)
    features = sample_features(GRAPH, WALKS, client=cluster_client, seed=3, block_size=30)
    with pytest.raises(ValueError, match="or one whose blocks have 30 rows as these"):
        features.save(folder)
    assert _bytes(folder) == before


@pytest.mark.parametrize("name", ["notes.txt", "rows-000000.npz", "sub/notes.txt"])
def test_foreign_files_are_left_alone(cluster_client, tmp_path, name):
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("mine")
    for call in (
        lambda: sample_features(GRAPH, WALKS, client=cluster_client, path=tmp_path),
        lambda: sample_features(GRAPH, WALKS, client=cluster_client).save(tmp_path),
    ):
        with pytest.raises(ValueError, match=f"which holds '{name.split('/')[0]}'"):
            call()
    assert file.read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_path_of_a_file_is_refused(cluster_client, tmp_path):
    (tmp_path / "file").write_text("mine")
    for call in (
        lambda: sample_features(GRAPH, WALKS, client=cluster_client, path=tmp_path / "file"),
        lambda: load_features(tmp_path / "file", client=cluster_client),
        lambda: load_features(tmp_path / "nothing", client=cluster_client),
    ):
        with pytest.raises((ValueError, OSError), match=r"file|nothing"):
            call()
    with pytest.raises(TypeError, match="`path` must"):
        load_features(3, client=cluster_client)


def test_a_folder_that_workers_do_not_see_is_refused(cluster_client, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "seen_by_all", lambda client, folder: False)
    with pytest.raises(ValueError, match=r"`path` must be a folder that .* all workers see"):
        sample_features(GRAPH, WALKS, client=cluster_client, path=tmp_path / "features")


# -- damage ------------------------------------------------------------------------------------------


def _spoil(file, how):
    data = bytearray(file.read_bytes())
    if how == "missing":
        file.unlink()
        return
    if how == "truncated":
        del data[len(data) // 2 :]
    elif how == "empty":
        data.clear()
    elif how == "a bit":
        data[len(data) // 2] ^= 4
    file.write_bytes(data)


@pytest.mark.parametrize(
    ("name", "how"),
    [(name, how) for name in ("rows-000006.npz", "shared.npz", "features.json") for how in ("truncated", "empty")]
    + [("rows-000006.npz", "a bit"), ("shared.npz", "a bit")],
)
def test_damaged_files_are_named(cluster_client, folder, name, how):
    _spoil(folder / name, how)
    with pytest.raises(ValueError, match=rf"`path` must be a whole file .* graphrf.distributed, got .*{name}"):
        load_features(folder, client=cluster_client).gather()


@pytest.mark.parametrize("name", ["shared.npz", "features.json"])
def test_missing_files_are_named(cluster_client, folder, name):
    _spoil(folder / name, "missing")
    with pytest.raises(FileNotFoundError, match=f"`path` must be a file written by graphrf.distributed, .*{name}"):
        load_features(folder, client=cluster_client)


def test_a_damaged_block_is_named_when_walking_goes_on(cluster_client, folder):
    _spoil(folder / "rows-000006.npz", "truncated")
    with pytest.raises(ValueError, match=r"`path` must be a whole file .*rows-000006.npz"):
        sample_features(GRAPH, WALKS, client=cluster_client, path=folder)


def test_a_block_of_other_rows_is_named(cluster_client, folder):
    sample_features(GRAPH, WALKS, client=cluster_client, seed=3, block_size=8, path=folder.parent / "eights")
    shutil.copy(folder.parent / "eights" / "rows-000001.npz", folder / "rows-000006.npz")
    with pytest.raises(ValueError, match=r"got .*rows-000006.npz.*: its arrays contradict each other"):
        load_features(folder, client=cluster_client)


@pytest.mark.xfail(raises=(RuntimeError, zlib.error), reason="whole_file lets errors of zipfile through")
@pytest.mark.parametrize("name", ["rows-000006.npz", "shared.npz"])
def test_any_changed_byte_is_noticed_or_changes_nothing(written, tmp_path, name):
    folder = Path(shutil.copytree(written, tmp_path / "features"))
    block_folder = files.BlockFolder(folder)
    nodes = np.arange(54, 63)

    def read():
        frame, *_ = block_folder.frame()
        return {**frame._state(), **files.read_rows(block_folder.file(6), frame, nodes)}

    expected, whole = read(), (folder / name).read_bytes()
    noticed = 0
    places = [*range(len(whole) - 900, len(whole)), *range(0, len(whole), 7)]
    for place in places:
        data = bytearray(whole)
        data[place] ^= 1 << place % 8
        (folder / name).write_bytes(data)
        try:
            found = read()
        except ValueError as error:
            noticed += str(folder / name) in str(error)
        else:
            for key, value in expected.items():
                np.testing.assert_array_equal(found[key], value, err_msg=f"{key} {place}")
    assert noticed > len(places) / 2


@pytest.mark.parametrize(
    "change",
    [
        {"format": "graphrf blocks of features 0"},
        {"format": None},
        {"settings": {}},
        {"block_rows": 0},
        {"block_rows": "many"},
        {"identity": None},
    ],
    ids=lambda change: "-".join(map(str, *change.items())),
)
def test_records_of_another_kind_are_refused(cluster_client, folder, change):
    record = folder / "features.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | change))
    with pytest.raises(ValueError, match=r"`path` must be a whole file .*features.json"):
        load_features(folder, client=cluster_client).save(folder)


def test_what_killed_processes_leave_is_in_nobodys_way(cluster_client, tmp_path):
    (tmp_path / ".rows-000000.npz.abc.part").write_bytes(b"half")
    (tmp_path / "shared.npz").write_bytes(b"of a process that wrote no record")
    sample_features(GRAPH, WALKS, client=cluster_client, seed=3, path=tmp_path)
    found = load_features(tmp_path, client=cluster_client)
    require_same(found.gather(), grf.sample_features(GRAPH, WALKS, seed=3))
