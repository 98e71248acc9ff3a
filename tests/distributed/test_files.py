"""Folders of blocks: finished ones are not walked again, foreign ones are refused."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

import graphrf as grf
from graphrf._base.files.atomic import exclusive_write
from graphrf.distributed import features as _features
from graphrf.distributed import load_features, sample_features
from tests.distributed.helpers import Told, require_same, weighted

GRAPH = weighted()
WALKS = grf.RandomWalks(4)
SAMPLERS = {
    "walks": WALKS,
    "cut powers": grf.sampling.CutPowers(6, max_length=4),
    "combinatorial": None,
}
SAMPLERS["combinatorial"] = grf.RandomWalks(4, grf.sampling.Truncated(3), laplacian="combinatorial")


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


def _the(folder, name):
    """The file of a folder that a pattern stands for."""
    (file,) = folder.glob(name)
    return file


# -- there and back --------------------------------------------------------------------------------


@pytest.mark.parametrize("nodes", [None, [5, 80, 5, 0, 33]], ids=["all nodes", "some nodes"])
@pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)
@pytest.mark.parametrize("way", ["path", "save"])
def test_what_is_written_is_read(cluster_client, tmp_path, sampler, nodes, way):
    options = {"nodes": nodes, "seed": 3, "dtype": "float64"}
    folder = tmp_path / "not" / "there" / "yet"
    path = folder if way == "path" else None
    features = sample_features(
        GRAPH, sampler, client=cluster_client, block_size=4, path=path, **options
    )
    if way == "save":
        features.save(folder)
    expected = grf.sample_features(GRAPH, sampler, **options)
    require_same(features.gather(), expected)
    names = [f"rows-{number:06d}.npz" for number in range(features.n_blocks)]
    *found, shared = sorted(_bytes(folder))
    assert found == ["features.json", *names]
    assert re.fullmatch("shared-[0-9a-f]{16}.npz", shared)
    again = load_features(folder, client=cluster_client)
    require_same(again.gather(), expected)
    assert (again.shape, again.n_blocks, again.n_steps) == (
        features.shape,
        features.n_blocks,
        expected.n_steps,
    )
    again.save(tmp_path / "copy")
    assert sorted(_bytes(tmp_path / "copy")) == sorted(_bytes(folder))
    require_same(load_features(tmp_path / "copy", client=cluster_client).gather(), expected)


@pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)
def test_one_process_and_a_cluster_write_and_read_the_same_folders(
    cluster_client, tmp_path, sampler
):
    one, many, expected = (
        tmp_path / "one",
        tmp_path / "many",
        grf.sample_features(GRAPH, sampler, seed=3),
    )
    grf.sample_features(GRAPH, sampler, seed=3, path=one)
    sample_features(GRAPH, sampler, client=cluster_client, seed=3, path=many)
    assert _bytes(one) == _bytes(many)
    require_same(load_features(one, client=cluster_client).gather(), expected)
    require_same(grf.features.load_features(many), expected)


def test_a_cluster_goes_on_where_one_process_ended(cluster_client, told, tmp_path, monkeypatch):
    monkeypatch.setattr("graphrf.sampling.to_folder.file_rows", lambda *_: 9)
    folder = tmp_path / "features"
    features = grf.sample_features(GRAPH, told, seed=3, path=folder)
    before = _bytes(folder)
    for number in (2, 9):
        (folder / f"rows-{number:06d}.npz").unlink()
    require_same(
        sample_features(GRAPH, told, client=cluster_client, path=folder).gather(), features
    )
    assert told.nodes() == [*range(18, 27), *range(81, 90)]
    assert _bytes(folder) == before


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
    with pytest.raises(
        ValueError, match=rf"{len(lost)} of 10 are missing; sample_features with the same"
    ):
        load_features(folder, client=cluster_client)
    found = sample_features(GRAPH, told, **options)
    assert told.nodes() == [node for number in lost for node in range(9 * number, 9 * number + 9)]
    assert _bytes(folder) == before
    require_same(
        found.gather(), sample_features(GRAPH, told, seed=3, client=cluster_client).gather()
    )


def test_saving_goes_on_where_it_ended(cluster_client, folder):
    before = _bytes(folder)
    (folder / "rows-000004.npz").unlink()
    kept = {file: file.stat().st_mtime_ns for file in folder.iterdir()}
    sample_features(GRAPH, WALKS, client=cluster_client, seed=3, block_size=9).save(folder)
    assert _bytes(folder) == before
    assert kept == {file: file.stat().st_mtime_ns for file in kept}


# -- refused ---------------------------------------------------------------------------------------


def _lighter():
    adjacency = GRAPH.adjacency.copy()
    adjacency.data[:] = 1.0
    return grf.Graph(adjacency)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"graph": _lighter()}, "graph and rows"),
        ({"sampler": grf.RandomWalks(6)}, "sampler and rows"),
        ({"seed": 4}, "seed and rows"),
        ({"dtype": "float64"}, "dtype"),
    ],
    ids=["graph", "sampler", "seed", "dtype"],
)
def test_other_features_are_refused_by_what_differs(cluster_client, folder, options, words):
    before = _bytes(folder)
    options = {"graph": GRAPH, "sampler": WALKS, "client": cluster_client, "path": folder} | options
    with pytest.raises(ValueError, match=f"whose features differ in {words}; pass another `path`"):
        sample_features(**options)
    options.pop("path")
    with pytest.raises(
        ValueError, match=f"whose features differ in {words.replace('seed and rows', 'seed')}"
    ):
        sample_features(**{"seed": 3, "block_size": 9} | options).save(folder)
    assert _bytes(folder) == before


def test_a_path_without_features_is_refused(cluster_client, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"`path` must be a file .* got none at .*nothing"):
        load_features(tmp_path / "nothing", client=cluster_client)
    with pytest.raises(TypeError, match="`path` must"):
        load_features(3, client=cluster_client)


def test_a_folder_that_workers_do_not_see_is_refused(cluster_client, tmp_path, monkeypatch):
    monkeypatch.setattr(_features, "seen_by_all", lambda client, folder: False)
    with pytest.raises(ValueError, match=r"`path` must be a folder that .* all workers see"):
        sample_features(GRAPH, WALKS, client=cluster_client, path=tmp_path / "features")


# -- damage ----------------------------------------------------------------------------------------


def _spoil(file, how):
    data = bytearray(file.read_bytes())
    if how == "truncated":
        del data[len(data) // 2 :]
    elif how == "empty":
        data.clear()
    elif how == "a bit":
        data[len(data) // 2] ^= 4
    file.write_bytes(data)


@pytest.mark.parametrize(
    ("name", "how"),
    [("rows-000006.npz", "truncated"), ("shared-*.npz", "a bit"), ("features.json", "empty")],
)
def test_damaged_files_are_named(cluster_client, folder, name, how):
    file = _the(folder, name)
    _spoil(file, how)
    words = rf"`path` must be a whole file .* sample_features\(path=...\), got '{file}'"
    with pytest.raises(ValueError, match=words):
        load_features(folder, client=cluster_client).gather()


@pytest.mark.parametrize(
    ("options", "number"),
    [
        ({"seed": 3, "block_size": 9}, 1),
        ({"seed": 4, "block_size": 9}, 6),
        ({"seed": 3, "block_size": 8}, 6),
    ],
    ids=["another block", "another seed", "another size"],
)
def test_a_file_that_was_copied_from_elsewhere_is_refused(cluster_client, folder, options, number):
    other = folder.parent / "other"
    sample_features(GRAPH, WALKS, client=cluster_client, path=other, **options)
    shutil.copy(other / f"rows-{number:06d}.npz", folder / "rows-000006.npz")
    words = (
        r"got .*rows-000006.npz.*: it belongs to other features, or is another block; "
        "remove this file"
    )
    for call in (
        lambda: load_features(folder, client=cluster_client),
        lambda: sample_features(GRAPH, WALKS, client=cluster_client, path=folder),
    ):
        with pytest.raises(ValueError, match=words):
            call()


# -- file systems ----------------------------------------------------------------------------------


@pytest.fixture(params=["hard links", "no hard links"])
def links(request, monkeypatch):
    """A file system with hard links, or without."""

    def refuse(*arguments):
        raise OSError("no links here")

    if request.param == "no hard links":
        monkeypatch.setattr(os, "link", refuse)


def test_a_file_is_written_by_the_first_alone(tmp_path, links):
    file = tmp_path / "file"
    assert exclusive_write(file, b"one") is True
    file.chmod(0o604)
    before = file.stat()
    assert exclusive_write(file, b"another") is False
    assert (file.read_bytes(), file.stat().st_mtime_ns, file.stat().st_mode) == (
        (b"one", before.st_mtime_ns, before.st_mode)
    )
    assert list(tmp_path.iterdir()) == [file]
