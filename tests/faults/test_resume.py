"""Sampling into a folder: whatever ends it, the next call draws what is missing."""

from __future__ import annotations

import io
import os
import random
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import graphrf as grf
from graphrf.features.folder import FeatureFolder, read_rows, write_rows
from graphrf.sampling import to_folder
from tests.distributed.helpers import Told, require_same, weighted

GRAPH = weighted(500)
SAMPLERS = {
    "RandomWalks": grf.RandomWalks(16),
    "CompressedPowers": grf.CompressedPowers(16, max_length=5),
    "CutPowers": grf.sampling.CutPowers(24, max_length=3),
    "ExactPowers": grf.sampling.ExactPowers(2),
}
WALKS = SAMPLERS["RandomWalks"]
N_BLOCKS, ROWS = 8, 63
# Rows that each call draws to know the features again.
FEW = 16

needs_linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="signals and limits of Linux"
)


@pytest.fixture(scope="module", autouse=True)
def _warm():
    """Loops are compiled, and written to numba's cache, before anything is limited or killed."""
    for sampler in SAMPLERS.values():
        grf.sample_features(GRAPH, sampler, nodes=range(3), seed=0)


@pytest.fixture(autouse=True)
def _eight_blocks(monkeypatch):
    monkeypatch.setattr("graphrf.sampling.to_folder.file_rows", lambda *_: ROWS)


@pytest.fixture(params=SAMPLERS.values(), ids=SAMPLERS)
def sampler(request):
    return request.param


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "features"


@pytest.fixture
def told(tmp_path):
    """Makes a sampler that tells what is drawn."""
    (tmp_path / "told").mkdir()
    return lambda sampler, pause=0.0: Told(sampler, str(tmp_path / "told"), pause)


def _drawn(told):
    """How many rows have been drawn, here and in other processes."""
    return sum(np.load(file).size for file in Path(told.folder).glob("*.npy"))


def _files(folder):
    return {file.name: file.read_bytes() for file in Path(folder).iterdir()}


def _whole_blocks(folder):
    """How many blocks there are, every one of which is read and checked."""
    known = FeatureFolder(folder)
    frame, nodes, rows, key = known.info()
    assert (nodes, rows) == (None, ROWS)
    missing = known.missing(N_BLOCKS)
    for number in set(range(N_BLOCKS)) - set(missing):
        begin = ROWS * number
        read_rows(known.file(number), frame, range(begin, min(begin + ROWS, GRAPH.n_nodes)), key)
    return N_BLOCKS - len(missing)


# -- there and back --------------------------------------------------------------------------------


@pytest.mark.parametrize("nodes", [None, [5, 80, 5, 0, 33]], ids=["all nodes", "some nodes"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_folder_gives_the_features_of_one_call(sampler, folder, nodes, dtype):
    expected = grf.sample_features(GRAPH, sampler, nodes=nodes, seed=3, dtype=dtype)
    path = folder / "not" / "there" / "yet"
    require_same(
        grf.sample_features(GRAPH, sampler, nodes=nodes, seed=3, dtype=dtype, path=path), expected
    )
    require_same(grf.features.load_features(path), expected)
    before = _files(path)
    require_same(grf.sample_features(GRAPH, sampler, nodes=nodes, dtype=dtype, path=path), expected)
    assert _files(path) == before
    assert sum(name.startswith("rows-") for name in before) == (N_BLOCKS if nodes is None else 1)


def _written(folder, sampler, **way):
    grf.sample_features(GRAPH, sampler, seed=3, path=folder, **way)
    return _files(folder)


def test_any_number_of_threads_writes_the_same_bytes(tmp_path, sampler):
    one, three = (
        _written(tmp_path / str(threads), sampler, n_threads=threads) for threads in (1, 3)
    )
    assert one == three


@pytest.mark.parametrize("lost", [[0], [3, 7], range(8)], ids=["the first", "two", "all"])
def test_missing_blocks_are_drawn_and_no_others(sampler, told, folder, lost):
    telling = told(sampler)
    expected = grf.sample_features(GRAPH, telling, seed=3, path=folder)
    assert _drawn(telling) == GRAPH.n_nodes + FEW
    before = _files(folder)
    for number in lost:
        (folder / f"rows-{number:06d}.npz").unlink()
    with pytest.raises(
        ValueError, match=rf"{len(lost)} of 8 are missing; sample_features with the same"
    ):
        grf.features.load_features(folder)
    require_same(grf.sample_features(GRAPH, telling, path=folder, n_threads=2), expected)
    lost_rows = sum(min(ROWS, GRAPH.n_nodes - ROWS * number) for number in lost)
    assert _drawn(telling) == GRAPH.n_nodes + lost_rows + 2 * FEW
    assert _files(folder) == before


def test_the_bar_counts_what_is_there(folder, monkeypatch):
    grf.sample_features(GRAPH, WALKS, seed=3, path=folder)
    (folder / "rows-000007.npz").unlink()
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    grf.sample_features(GRAPH, WALKS, path=folder, progress=True)
    shown = re.findall(r"(\d+)/500", sys.stderr.getvalue())
    assert shown[-1] == "500"
    assert "441" in shown


# -- refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"graph": weighted(501)}, "graph and rows"),
        ({"sampler": grf.RandomWalks(18)}, "sampler and rows"),
        ({"seed": 4}, "seed and rows"),
        ({"nodes": range(499)}, "nodes and rows"),
        ({"dtype": "float64"}, "dtype"),
    ],
    ids=["graph", "sampler", "seed", "nodes", "dtype"],
)
def test_other_features_are_refused_by_what_differs(folder, options, words):
    grf.sample_features(GRAPH, WALKS, seed=3, path=folder)
    before = _files(folder)
    with pytest.raises(ValueError, match=f"whose features differ in {words}; pass another `path`"):
        grf.sample_features(**{"graph": GRAPH, "sampler": WALKS, "path": folder} | options)
    assert _files(folder) == before


@pytest.mark.parametrize("name", ["rows-000000.npz", "sub/notes.txt"])
def test_foreign_files_are_left_alone(tmp_path, name):
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("mine")
    with pytest.raises(ValueError, match=f"which holds '{name.split('/')[0]}'"):
        grf.sample_features(GRAPH, WALKS, path=tmp_path)
    assert file.read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("name", ["", "file", "a\0b"], ids=["empty", "a file", "a zero byte"])
def test_a_path_of_no_folder_is_refused_before_anything_is_drawn(tmp_path, told, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("mine")
    telling = told(WALKS)
    words = {"": "an empty path", "file": "'file', which is a file"}.get(
        name, re.escape(repr(name))
    )
    with pytest.raises(ValueError, match=f"`path` must be a folder, got {words}"):
        grf.sample_features(GRAPH, telling, path=name)
    assert _drawn(telling) == 0


def test_what_does_not_fit_is_refused_before_the_folder_is_made(folder, monkeypatch):
    with pytest.raises(MemoryError, match=r"features of 500 nodes .*`memory_limit` is"):
        grf.sample_features(GRAPH, WALKS, path=folder, memory_limit=100_000)
    assert not folder.exists()
    grf.sample_features(GRAPH, WALKS, seed=3, path=folder)
    monkeypatch.setattr("graphrf.features.folder.available_memory", lambda: 100_000)
    monkeypatch.setattr(FeatureFolder, "read", lambda *_: pytest.fail("read"))
    with pytest.raises(
        MemoryError, match=r"the features in .* need about .* GiB, but 9.31e-05 GiB are available"
    ):
        grf.features.load_features(folder)


def _truncate(data):
    del data[len(data) // 2 :]


def _flip(data):
    data[len(data) // 2] ^= 4


@pytest.mark.parametrize(
    "spoil", [_truncate, _flip, bytearray.clear], ids=["truncated", "a bit", "empty"]
)
def test_a_damaged_block_is_named_and_drawn_again_when_it_is_gone(sampler, folder, spoil):
    expected = grf.sample_features(GRAPH, sampler, seed=3, path=folder)
    file = folder / "rows-000006.npz"
    data = bytearray(file.read_bytes())
    spoil(data)
    file.write_bytes(data)
    for call in (
        lambda: grf.features.load_features(folder),
        lambda: grf.sample_features(GRAPH, sampler, path=folder),
    ):
        with pytest.raises(
            ValueError, match=rf"got '{file}': .*; remove this file, and sample_features"
        ):
            call()
    file.unlink()
    require_same(grf.sample_features(GRAPH, sampler, path=folder), expected)


def test_a_block_with_other_arrays_than_the_first_is_named(folder):
    grf.sample_features(GRAPH, SAMPLERS["CutPowers"], seed=3, path=folder)
    known = FeatureFolder(folder)
    frame, _, _, key = known.info()
    for number, named in ((6, "rows-000006.npz"), (0, "rows-000001.npz")):
        file = known.file(number)
        before = Path(file).read_bytes()
        record = read_rows(file, frame, range(ROWS * number, ROWS * (number + 1)), key)
        write_rows(file, replace(record, dropped=None), key)
        with pytest.raises(
            ValueError, match=rf"got '.*{named}', which has other arrays than the blocks before"
        ):
            grf.features.load_features(folder)
        Path(file).write_bytes(before)
    grf.features.load_features(folder)


def test_of_two_calls_without_a_seed_the_second_takes_that_of_the_first(folder, monkeypatch):
    def begin(*arguments):
        monkeypatch.setattr("graphrf.sampling.to_folder.begin_folder", plain)
        grf.sample_features(GRAPH, WALKS, seed=7, path=folder)  # another process, just before
        return plain(*arguments)

    plain = to_folder.begin_folder
    monkeypatch.setattr("graphrf.sampling.to_folder.begin_folder", begin)
    require_same(
        grf.sample_features(GRAPH, WALKS, path=folder), grf.sample_features(GRAPH, WALKS, seed=7)
    )


# -- interrupted -----------------------------------------------------------------------------------


class _Ending:
    """A prepared sampler at whose n-th block something happens."""

    def __init__(self, prepared, happens, count):
        self._prepared, self._happens, self._left = prepared, happens, count

    def __getattr__(self, name):
        return getattr(self._prepared, name)

    def sample(self, sources):
        self._left -= 1
        if self._left < 0:
            self._happens()
        return self._prepared.sample(sources)


def _happening(monkeypatch, sampler, happens, count):
    plain = type(sampler).prepare
    monkeypatch.setattr(
        type(sampler), "prepare", lambda *arguments: _Ending(plain(*arguments), happens, count)
    )


@pytest.mark.parametrize(("error", "threads"), [(KeyboardInterrupt, 2), (MemoryError, 1)])
def test_an_error_within_leaves_whole_blocks(sampler, folder, monkeypatch, error, threads):
    def happens():
        raise error

    expected = grf.sample_features(GRAPH, sampler, seed=3)
    with monkeypatch.context() as patch:
        _happening(patch, sampler, happens, 5)
        with pytest.raises(error):
            grf.sample_features(GRAPH, sampler, seed=3, path=folder, n_threads=threads)
    assert 0 < _whole_blocks(folder) < N_BLOCKS
    assert not list(folder.glob(".*"))
    require_same(grf.sample_features(GRAPH, sampler, path=folder), expected)


@needs_linux
@pytest.mark.parametrize("count", [1, 5], ids=["at once", "midway"])
def test_a_file_that_cannot_grow_is_named_and_the_next_call_goes_on(
    sampler, folder, monkeypatch, count
):
    import resource

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    expected = grf.sample_features(GRAPH, sampler, seed=3)
    with monkeypatch.context() as patch:
        # As on a full disk, only that the errors have other numbers.
        _happening(
            patch,
            sampler,
            lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (9_000, limits[1])),
            count,
        )
        try:
            words = rf"`path` must be .* can be written to, got '{folder}/rows-.*make room there"
            with pytest.raises(OSError, match=words):
                grf.sample_features(GRAPH, sampler, seed=3, path=folder, n_threads=1)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert _whole_blocks(folder) in ((0,) if count == 1 else range(1, 5))
    assert not list(folder.glob(".*"))
    require_same(grf.sample_features(GRAPH, sampler, path=folder), expected)


_SCRIPT = """
import sys
import graphrf as grf
from graphrf.sampling import block_sizes
from tests.distributed.helpers import Told
from tests.faults.test_resume import GRAPH, ROWS, WALKS

block_sizes._FEWEST_ROWS, block_sizes._SMALL_BYTES = ROWS, 1
folder, told, pause, threads = sys.argv[1:]
sampler = Told(WALKS, told, float(pause))
grf.sample_features(GRAPH, sampler, seed=3, path=folder, n_threads=int(threads))
"""


def _begun(folder, telling, threads):
    """A process that samples into the folder, once it has begun to."""
    count = len(list(Path(telling.folder).iterdir()))
    arguments = (folder, telling.folder, telling.pause, threads)
    process = subprocess.Popen(
        [sys.executable, "-c", _SCRIPT, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    limit = time.monotonic() + 120
    while len(list(Path(telling.folder).iterdir())) == count and process.poll() is None:
        assert time.monotonic() < limit
        time.sleep(0.005)
    return process


@needs_linux
@pytest.mark.parametrize("kills", [1, pytest.param(12, marks=pytest.mark.full)])
def test_a_killed_process_loses_at_most_a_block(told, folder, kills):
    telling, random_state = told(WALKS, 0.03), random.Random(0)
    expected = grf.sample_features(GRAPH, WALKS, seed=3)
    done = 0
    for turn in range(kills):
        process = _begun(folder, telling, 1 + turn % 3)
        time.sleep(random_state.uniform(0.0, 0.4))
        process.kill()
        _, err = process.communicate(timeout=60)
        assert process.returncode in (0, -signal.SIGKILL), err.decode()
        if (folder / "features.json").exists():
            kept = _whole_blocks(folder)
            assert kept >= done
            done = kept
    found = grf.sample_features(GRAPH, telling, seed=3, path=folder)
    require_same(found, expected)
    require_same(grf.features.load_features(folder), expected)
    # Of a killed process one block, at most, is drawn again.
    calls = kills + 1
    assert GRAPH.n_nodes <= _drawn(telling) <= GRAPH.n_nodes + calls * FEW + kills * ROWS
    assert not list(folder.glob(".rows-*")) or done == N_BLOCKS


def test_threads_that_sample_into_one_folder_at_once_get_the_same(sampler, folder):
    expected = grf.sample_features(GRAPH, sampler, seed=3)
    with ThreadPoolExecutor(3) as pool:
        futures = [
            pool.submit(grf.sample_features, GRAPH, sampler, seed=3, path=folder) for _ in range(3)
        ]
        for future in futures:
            require_same(future.result(), expected)
    require_same(grf.features.load_features(folder), expected)
    assert not list(folder.glob(".*"))
