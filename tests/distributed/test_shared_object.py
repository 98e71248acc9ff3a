"""What a shared object brings is what was put in, in memory that all processes share."""

from __future__ import annotations

import copy
import gc
import mmap
import os
import pickle
import re
import time
from pathlib import Path
from types import SimpleNamespace

import cloudpickle
import numpy as np
import pytest

import graphrf as grf
from graphrf._base.files.atomic import version
from graphrf.distributed import shared_object
from graphrf.distributed.shared_object import SharedObject
from tests.distributed.helpers import require_same


def _frozen(array):
    array.setflags(write=False)
    return array


ARRAYS = {
    "large": _frozen(np.arange(30_000.0)),
    "writeable": np.arange(20_000, dtype=np.int64),
    "small": _frozen(np.arange(7, dtype=np.int32)),
    "small and writeable": np.arange(7, dtype=np.float32),
    "without numbers": np.zeros((0, 3), np.uint16),
    "two axes": _frozen(np.random.default_rng(0).random((300, 70))),
    "by columns": np.asfortranarray(np.random.default_rng(0).random((300, 70))),
    "every other": np.arange(60_000)[::2],
    "other byte order": _frozen(np.arange(20_000, dtype=">f8")),
    "flags": _frozen(np.arange(80_000) % 3 == 0),
    "complex": np.arange(9) * 1j,
    "text": np.array(["a", "bc"]),
    "no axis": np.array(2.5),
}


@pytest.fixture(params=["mapped", "sent"])
def folder(request, tmp_path):
    return tmp_path if request.param == "mapped" else None


def _travelled(shared_object):
    """The object as another process has it."""
    return pickle.loads(cloudpickle.dumps(shared_object))


def _is_mapped(array):
    while isinstance(array.base, np.ndarray):
        array = array.base
    return isinstance(array.base, mmap.mmap)


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_come_out_as_they_went_in(folder, name):
    array = ARRAYS[name]
    sent = SharedObject({"it": array, "again": array}, folder)
    found = _travelled(sent).content()
    assert found["it"] is found["again"]
    assert type(found["it"]) is np.ndarray
    assert (found["it"].dtype, found["it"].shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(found["it"], array)
    if array.flags.c_contiguous and array.dtype.kind in "biuf":
        assert found["it"].flags.writeable == array.flags.writeable
    assert _is_mapped(found["it"]) is (folder is not None and name in MAPPED)


MAPPED = {"large", "writeable", "two axes", "other byte order", "flags"}


def test_writing_to_an_array_changes_no_other_copy(folder):
    array = np.arange(20_000)
    sent = SharedObject([array, array[:5].copy()], folder)
    one, two = sent.content(), None
    one[0][0] = one[1][0] = 77
    shared_object._opened.clear()
    two = _travelled(sent).content()
    assert (array[0], two[0][0], two[1][0]) == (0, 0, 0)


def _opened_array(file, array):
    """The array of a file as an opened graph has it."""
    np.save(file, array)
    mapped = np.load(file, mmap_mode="r")
    mapped.version = version(file)
    return np.asarray(mapped)


def _arrays_files(folder):
    return [file.stat().st_size for file in folder.glob("graphrf-*.arrays")]


def test_arrays_of_an_opened_graph_stay_in_their_files(tmp_path):
    mapped = _opened_array(tmp_path / "array.npy", np.arange(50_000.0))
    sent = SharedObject([mapped, mapped[10_000:40_000], mapped.reshape(500, 100)[3:400]], tmp_path)
    assert sent.nbytes < 1000
    assert _arrays_files(tmp_path) == [0]
    whole, part, rows = _travelled(sent).content()
    np.testing.assert_array_equal(whole, mapped)
    np.testing.assert_array_equal(part, mapped[10_000:40_000])
    np.testing.assert_array_equal(rows, mapped.reshape(500, 100)[3:400])
    assert not any(array.flags.writeable for array in (whole, part, rows))


def test_maps_of_files_that_nobody_watches_are_copied(tmp_path):
    np.save(tmp_path / "array.npy", np.arange(50_000.0))
    mapped = np.load(tmp_path / "array.npy", mmap_mode="r")
    sent = SharedObject(mapped, tmp_path)
    assert _arrays_files(tmp_path) == [mapped.nbytes]
    (tmp_path / "array.npy").unlink()
    np.testing.assert_array_equal(_travelled(sent).content(), mapped)


def _written_over(file, array):
    """Another file in the place of one, as processes write them that keep the old one's maps."""
    np.save(file.with_suffix(".new.npy"), array)
    os.replace(file.with_suffix(".new.npy"), file)


def test_features_of_an_opened_graph_that_was_written_over_are_its_own(cluster_client, tmp_path):
    # Without loops and weights walks take the arrays of the folder as they are.
    graph, other = (
        grf.from_edges(range(3000), np.arange(step, 3000 + step) % 3000) for step in (1, 7)
    )
    graph.save(tmp_path / "graph")
    opened = grf.open_graph(tmp_path / "graph")
    (arrays,) = (tmp_path / "graph").glob("arrays-*")
    sent = SharedObject(grf.RandomWalks(4).prepare(opened, 0), tmp_path)
    assert bytes(arrays / "indices.npy") in sent._text
    other.save(tmp_path / "graph")
    # What was on its way finds the files no more.
    with pytest.raises(
        FileNotFoundError, match=r"cannot map .*indptr\.npy.* overwritten, open the graph again"
    ):
        _travelled(sent).content()
    sampler = grf.RandomWalks(4)
    options = {"client": cluster_client, "nodes": range(300), "seed": 0}
    expected = grf.sample_features(graph, sampler, nodes=range(300), seed=0)
    require_same(grf.distributed.sample_features(opened, sampler, **options).gather(), expected)
    again = grf.distributed.sample_features(
        grf.open_graph(tmp_path / "graph"), sampler, **options
    ).gather()
    with pytest.raises(AssertionError):
        require_same(again, expected)


def test_a_worker_names_a_file_that_has_changed_since_it_was_packed(tmp_path):
    file = tmp_path / "array.npy"
    mapped = _opened_array(file, np.arange(50_000.0))
    sent = SharedObject(mapped, tmp_path)
    _written_over(file, -np.arange(50_000.0))
    with pytest.raises(
        ValueError,
        match=(
            f"^{re.escape(str(file))} has changed since its graph was opened.* open the graph again"
        ),
    ):
        _travelled(sent).content()


def test_another_copy_of_the_same_numbers_is_taken(tmp_path):
    file = tmp_path / "array.npy"
    mapped = _opened_array(file, np.arange(50_000.0))
    sent = SharedObject(mapped, tmp_path)
    _written_over(file, mapped)
    np.testing.assert_array_equal(_travelled(sent).content(), mapped)


def test_changes_to_a_private_map_of_a_file_are_not_lost(tmp_path):
    np.save(tmp_path / "array.npy", np.arange(50_000.0))
    private = np.load(tmp_path / "array.npy", mmap_mode="c")
    private[0] = 5.0
    sent = SharedObject(_frozen(private[:40_000]), tmp_path)
    assert _travelled(sent).content()[0] == 5.0


def test_the_file_vanishes_with_the_parcel_and_not_before(tmp_path):
    sent = SharedObject(ARRAYS["large"], tmp_path)
    (file,) = tmp_path.iterdir()
    arrived = _travelled(sent)
    copied = copy.copy(arrived)
    del arrived, copied
    gc.collect()
    assert file.exists()
    content = sent.content()
    del sent
    gc.collect()
    assert not any(tmp_path.iterdir())
    np.testing.assert_array_equal(content, ARRAYS["large"])


def test_no_file_stays_of_what_cannot_be_packed(tmp_path):
    with pytest.raises(TypeError):
        SharedObject([ARRAYS["large"], (value for value in ())], tmp_path)
    assert not any(tmp_path.iterdir())


def test_a_file_that_is_not_seen_is_named(tmp_path):
    sent = SharedObject(ARRAYS["large"], tmp_path)
    (file,) = tmp_path.iterdir()
    file.unlink()
    shared_object._opened.clear()
    with pytest.raises(
        FileNotFoundError, match=f"cannot map {file}.*in a folder that all workers see"
    ):
        _travelled(sent).content()


def test_the_content_is_opened_once_in_a_process(tmp_path):
    sent = SharedObject(ARRAYS["large"], tmp_path)
    assert _travelled(sent).content() is _travelled(sent).content()
    assert _travelled(SharedObject(ARRAYS["large"], tmp_path)).content() is not sent.content()


def test_maps_of_a_graph_that_was_written_over_are_kept_as_long_as_their_parcel(tmp_path):
    graph, other = (
        grf.from_edges(range(3000), np.arange(step, 3000 + step) % 3000) for step in (1, 7)
    )
    graph.save(tmp_path / "graph")
    sent = SharedObject(grf.open_graph(tmp_path / "graph").adjacency.indices, tmp_path)
    content = _travelled(sent).content()
    other.save(tmp_path / "graph")
    another = SharedObject(ARRAYS["large"], tmp_path)
    another.content()
    assert _travelled(sent).content() is content
    np.testing.assert_array_equal(content, graph.adjacency.indices)
    del sent
    gc.collect()
    SharedObject(ARRAYS["large"], tmp_path).content()
    assert not any(opened.content is content for opened in shared_object._opened.values())


def test_a_process_keeps_few_maps_open(tmp_path):
    shared_objects = [SharedObject([number, ARRAYS["large"]], tmp_path) for number in range(20)]
    assert [sent.content()[0] for sent in shared_objects] == list(range(20))
    assert len(shared_object._opened) == shared_object._KEPT


def test_pages_are_let_go_of_and_come_back(tmp_path):
    array = _frozen(np.random.default_rng(0).random(200_000))
    found = SharedObject(array, tmp_path)
    content = found.content()
    np.testing.assert_array_equal(content, array)
    found.release(2**30)
    found.release(0)
    np.testing.assert_array_equal(content, array)


class _Pages:
    """An array of a mapped file that tells when its pages are let go of."""

    def __init__(self, nbytes):
        self.nbytes, self.flags, self.base = nbytes, SimpleNamespace(writeable=False), self
        self.advice = []

    def madvise(self, advice):
        self.advice.append(advice)


@pytest.mark.parametrize(("allowed", "is_let_go"), [(2999, True), (3000, False)])
def test_pages_of_all_open_parcels_are_counted_together(allowed, is_let_go):
    pages = [_Pages(1000), _Pages(2000)]
    opened = {str(array.nbytes): shared_object._Opened(None, [array]) for array in pages}
    SharedObject(0).release(allowed, opened)
    assert [array.advice for array in pages] == [[mmap.MADV_DONTNEED] if is_let_go else []] * 2


def test_files_of_dead_processes_vanish_after_a_day(tmp_path):
    dead, now = 2**31 - 2, time.time()  # beyond the largest that Linux gives
    ages = {
        f"{shared_object._OWNER}{dead}-old.arrays": 90_000,
        f"{shared_object._OWNER}{dead}-young.arrays": 80_000,
        f"{shared_object._OWNER}{os.getpid()}-alive.arrays": 90_000,
        f"graphrf-elsewhere-{dead}-old.arrays": 90_000,
        f"{shared_object._OWNER}{dead}-old.npz": 90_000,
        f"{shared_object._OWNER}notes.arrays": 90_000,
        f"{dead}.arrays": 90_000,
    }
    for name, age in ages.items():
        (tmp_path / name).write_text("mine")
        os.utime(tmp_path / name, (now - age, now - age))
    sent = SharedObject(ARRAYS["large"], tmp_path)
    left = {file.name for file in tmp_path.iterdir()}
    assert set(ages) - left == {f"{shared_object._OWNER}{dead}-old.arrays"}
    assert len(left) == len(ages)  # with that of the shared object
    del sent


def test_mapped_arrays_are_not_private_memory_of_a_worker(cluster_client, tmp_path):
    size = 60 * 2**20
    before = cluster_client.run(_private_bytes)
    sent = SharedObject(_frozen(np.ones(size // 8)), tmp_path)
    assert sent.delivered(cluster_client) is sent
    assert len(cloudpickle.dumps(sent)) < 1000
    assert set(cluster_client.run(_total, sent).values()) == {size // 8}
    after = cluster_client.run(_private_bytes)
    for address, private in after.items():
        assert private - before[address] < size // 4
    assert not list(Path(tmp_path).glob("*.part"))


def _total(sent):
    return int(sent.content().sum())


def _private_bytes():
    from graphrf.distributed.features import _process_memory

    return _process_memory()[0]


def test_what_is_sent_does_not_travel_with_each_task(cluster_client):
    size, tasks = 4 * 2**20, 40
    sent = SharedObject(_frozen(np.ones(size // 8)))
    before = cluster_client.run(_sent_on)
    future = sent.delivered(cluster_client)
    found = cluster_client.gather(
        cluster_client.map(_total_and_new, range(tasks), sent=future, pure=False)
    )
    after = cluster_client.run(_sent_on)
    assert [total for total, _ in found] == [size // 8 + number for number in range(tasks)]
    # From this process to one worker, and from there to the other. On a busy machine Dask's active
    # memory manager may drop a copy that no task waits for yet, which is then sent again: a few
    # times, not with each task.
    assert sum(after.values()) - sum(before.values()) <= 5 * size
    assert sum(new for _, new in found) <= 6


def _total_and_new(number, sent):
    """The total, and whether this copy is opened for the first time."""
    new = sent._own is None
    return number + int(sent.content().sum()), new


def _sent_on(dask_worker):
    return dask_worker.transfer_outgoing_bytes_total
