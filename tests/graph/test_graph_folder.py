"""Folders of graphs among others: several writers, full disks, foreign files."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import pickle
import re
import shutil
import sys
import traceback
from pathlib import Path

import numpy as np
import pytest

import graphrf as grf
from graphrf.graph import csr as graph_csr
from graphrf.graph.disk import folder as graph_folder
from graphrf.graph.disk import writing
from graphrf.pagerank import local
from tests.graph.on_disk import arrays_folder, names_in, same

OLD = grf.Graph([[0, 2, 0], [2, 0, 0.5], [0, 0.5, 1]], nodes=["a", "b", "c"])
NEW = grf.from_edges([0, 1, 2, 3], [1, 2, 3, 0])
FILES = {"indptr.npy", "indices.npy", "weights.npy", "degrees.npy", "graph.json"}

needs_locks = pytest.mark.skipif(writing.fcntl is None, reason="there are no file locks here")


def _left_by_a_killed_writer(folder):
    """A folder of arrays that no record names."""
    left = folder / "arrays-00000000deadbeef"
    left.mkdir(parents=True)
    (left / "indptr.npy").write_bytes(b"half")
    (left / "entries.keys").write_bytes(b"half")
    return left


def _fails(*_):
    raise RuntimeError


def _during(monkeypatch, act):
    """Let `act` happen once, while the next writer has the folder and before it writes."""
    write_folder = writing.write_folder

    def interrupted(*arguments):
        monkeypatch.setattr(writing, "write_folder", write_folder)
        act()
        return write_folder(*arguments)

    monkeypatch.setattr(writing, "write_folder", interrupted)


# -- several writers -------------------------------------------------------------------------------


@needs_locks
@pytest.mark.parametrize("is_new", [True, False])
def test_a_second_writer_is_refused_while_the_first_one_writes(tmp_path, monkeypatch, is_new):
    folder = tmp_path / "graph"
    if not is_new:
        OLD.save(folder)

    def second():
        for graph in (OLD, NEW):
            with pytest.raises(
                BlockingIOError, match=r"another writer is at work in .*; wait for it, or"
            ):
                graph.save(folder)

    _during(monkeypatch, second)
    NEW.save(folder)
    assert same(grf.open_graph(folder), NEW)
    assert names_in(folder) == FILES
    OLD.save(folder)


def _ring(step):
    nodes = np.arange(2000)
    return grf.from_edges(nodes, (nodes + step) % nodes.size)


def _race(folder, step, start):
    """Write the same folders as the other process at once."""
    os.fsync = lambda _: None
    graph = _ring(step)
    os.read(start, 1)
    for trial in range(40):
        with contextlib.suppress(BlockingIOError):
            graph.save(folder / str(trial))
    return 0


@needs_locks
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_two_processes_that_write_at_once_get_their_own_graph_or_an_error(tmp_path):
    start, go = os.pipe()
    children = []
    for number in (3, 5):
        child = os.fork()
        if child == 0:
            status = 99
            try:
                status = _race(tmp_path, number, start)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        children.append(child)
    os.write(go, b"12")
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0]
    graphs = [_ring(step) for step in (3, 5)]
    for trial in range(40):
        assert any(same(grf.open_graph(tmp_path / str(trial)), graph) for graph in graphs)
        assert names_in(tmp_path / str(trial)) == FILES


@needs_locks
def test_a_disk_without_locks_is_written_to(tmp_path, monkeypatch):
    def unknown(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(writing.fcntl, "flock", unknown)
    for _ in range(2):
        NEW.save(tmp_path)
        assert same(grf.open_graph(tmp_path), NEW)
        assert names_in(tmp_path) == FILES


def test_without_locks_writers_at_once_leave_the_graph_of_the_last_one(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "fcntl", None)
    OLD.save(tmp_path)
    _during(monkeypatch, lambda: OLD.save(tmp_path))
    NEW.save(tmp_path)
    assert same(grf.open_graph(tmp_path), NEW)
    # Nobody knows whose the arrays are that the other one left: he may be at work on them.
    assert names_in(tmp_path) > FILES
    left = _left_by_a_killed_writer(tmp_path)
    NEW.save(tmp_path)
    assert left.exists()
    monkeypatch.undo()
    NEW.save(tmp_path)
    assert names_in(tmp_path) == FILES


@pytest.mark.parametrize("overwritten", [1, 3, 100])
def test_a_reader_never_mixes_two_graphs(tmp_path, monkeypatch, overwritten):
    graphs = (OLD, grf.Graph(OLD.adjacency * 2.0, nodes=["x", "y", "z"]))
    graphs[0].save(tmp_path)
    mapped_array, written = graph_folder._mapped, []

    def write_between(file, *arguments):
        array = mapped_array(file, *arguments)
        if file.name == "indices.npy" and len(written) < overwritten:
            written.append(graphs[1 - len(written) % 2])
            written[-1].save(tmp_path)
        return array

    monkeypatch.setattr(graph_folder, "_mapped", write_between)
    if overwritten < 100:
        assert same(grf.open_graph(tmp_path), written[-1])
        assert len(written) == overwritten
    else:
        with pytest.raises(
            ValueError, match="must not be written over all the time while it is read"
        ):
            grf.open_graph(tmp_path)


def test_a_reader_that_has_opened_all_files_keeps_the_graph_that_is_written_over(
    tmp_path, monkeypatch
):
    OLD.save(tmp_path)
    read_names = graph_folder._read_names

    def write_after(*arguments):
        names = read_names(*arguments)
        NEW.save(tmp_path)
        return names

    monkeypatch.setattr(graph_folder, "_read_names", write_after)
    assert same(grf.open_graph(tmp_path), OLD)
    assert same(grf.open_graph(tmp_path), NEW)


def test_a_reader_between_any_two_steps_of_a_writer_gets_the_old_graph_or_the_new_one(
    tmp_path, monkeypatch
):
    OLD.save(tmp_path)
    seen = []

    def look():
        graph = grf.open_graph(tmp_path)
        seen.append("new" if graph.n_nodes == NEW.n_nodes else "old")
        assert same(graph, NEW if seen[-1] == "new" else OLD)

    def looking(function):
        def call(*arguments, **options):
            look()
            result = function(*arguments, **options)
            look()
            return result

        return call

    for name in ("replace", "fsync", "unlink", "mkdir", "rmdir"):
        monkeypatch.setattr(os, name, looking(getattr(os, name)))
    NEW.save(tmp_path)
    # One step makes the new graph of the old one.
    assert [one for one, last in zip(seen, [None, *seen], strict=False) if one != last] == [
        "old",
        "new",
    ]
    assert len(seen) > 30


def test_unpickling_refuses_the_same_adjacency_with_other_names_or_directions(tmp_path):
    OLD.save(tmp_path)
    pickled = pickle.dumps(grf.open_graph(tmp_path))
    for other in (
        grf.Graph(OLD.adjacency, nodes=["x", "y", "z"]),
        grf.Graph(OLD.adjacency, nodes=OLD.nodes, directed=True),
        grf.Graph(OLD.adjacency),
    ):
        other.save(tmp_path)
        with pytest.raises(ValueError, match="must be the one that was pickled, got another one"):
            pickle.loads(pickled)
    OLD.save(tmp_path)
    assert same(pickle.loads(pickled), OLD)


# -- what cannot be written ------------------------------------------------------------------------


@pytest.mark.parametrize("is_new", [True, False])
def test_a_disk_that_is_full_at_any_file_leaves_the_old_graph(tmp_path, monkeypatch, is_new):
    folder = tmp_path / "above" / "graph"
    for n_files in range(6):
        if not is_new:
            OLD.save(folder)
        written = []

        def full(_, written=written, n_files=n_files):
            written.append(1)
            if len(written) > n_files:
                raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", full)
            if n_files == 5:  # whether folders reach the disk is up to the system
                NEW.save(folder)
                break
            with pytest.raises(OSError, match="No space left"):
                NEW.save(folder)
        if is_new:
            assert not folder.parent.exists()
        else:
            assert same(grf.open_graph(folder), OLD)
            assert names_in(folder) == FILES | {"names.json"}
    assert same(grf.open_graph(folder), NEW)


def test_files_of_others_are_not_written_over(tmp_path):
    def arrays(folder):
        np.save(folder / "weights.npy", np.arange(5.0))

    def scratch(folder):
        (folder / ".building.mine").mkdir()

    def alike(folder):
        for name in (
            "arrays-0123456789abcde",
            "arrays-0123456789ABCDEF",
            "arrays",
            "0123456789abcdef",
        ):
            (folder / name).mkdir()

    def file(folder):
        (folder / "arrays-0123456789abcdef").write_bytes(b"mine")

    def damaged(folder):
        (folder / "graph.json").write_text("[" * 100_000)

    def directory(folder):
        (folder / "graph.json").mkdir()

    for number, fill in enumerate((arrays, scratch, alike, file, damaged, directory)):
        folder = tmp_path / str(number)
        folder.mkdir()
        fill(folder)
        before = names_in(folder)
        with pytest.raises(ValueError, match="`folder` must be new, empty, or a graph's folder"):
            NEW.save(folder)
        assert names_in(folder) == before
    # Beside a graph other files are left alone.
    NEW.save(tmp_path / "graph")
    (tmp_path / "graph" / ".building.mine").mkdir()
    (tmp_path / "graph" / "notes.txt").write_text("")
    for fill in (alike, file):
        fill(tmp_path / "graph")
    others = names_in(tmp_path / "graph") - FILES
    assert len(others) == 7
    OLD.save(tmp_path / "graph")
    assert names_in(tmp_path / "graph") == FILES | {"names.json"} | others


def test_what_killed_writers_left_goes_but_not_graphs_of_a_damaged_record(tmp_path, monkeypatch):
    _left_by_a_killed_writer(tmp_path / "new")
    NEW.save(tmp_path / "new")
    NEW.save(tmp_path / "graph")
    _left_by_a_killed_writer(tmp_path / "graph")
    NEW.save(tmp_path / "graph")
    assert names_in(tmp_path / "new") == names_in(tmp_path / "graph") == FILES
    for version in ("../../../kept", "", None, 3, ["x"], "0123456789abcde/"):
        arrays = arrays_folder(tmp_path / "graph")
        record = json.loads((tmp_path / "graph" / "graph.json").read_bytes())
        (tmp_path / "graph" / "graph.json").write_text(json.dumps(record | {"version": version}))
        with monkeypatch.context() as patched:
            patched.setattr(writing, "write_folder", _fails)
            with pytest.raises(RuntimeError):
                NEW.save(tmp_path / "graph")
        assert [place for place in (tmp_path / "graph").iterdir() if place.is_dir()] == [arrays]
        NEW.save(tmp_path / "graph")
        assert names_in(tmp_path / "graph") == FILES
        assert not arrays.exists()


@needs_locks
def test_a_graph_that_another_writer_puts_into_a_new_folder_is_not_taken_for_other_files(
    tmp_path, monkeypatch
):
    scandir, read_bytes, done = os.scandir, Path.read_bytes, []

    def finish_first():
        if not done:
            done.append(1)
            OLD.save(tmp_path)

    def scanned(path):
        if done:
            return scandir(path)
        entries = list(scandir(path))
        finish_first()
        return iter(entries)

    def read(path):
        try:
            return read_bytes(path)
        except FileNotFoundError:
            finish_first()
            raise

    for name, place, function in (("scandir", os, scanned), ("read_bytes", Path, read)):
        with monkeypatch.context() as patched:
            patched.setattr(place, name, function)
            NEW.save(tmp_path)
        assert same(grf.open_graph(tmp_path), NEW)
        done.clear()
        shutil.rmtree(tmp_path)
        tmp_path.mkdir()


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_links_are_not_followed_into_what_is_removed(tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("")
    folder = tmp_path / "locked"
    NEW.save(folder)
    (folder / ".graphrf-lock").symlink_to(tmp_path / "kept")
    with pytest.raises(ValueError, match="which holds other files"):
        OLD.save(folder)
    assert same(grf.open_graph(folder), NEW)
    # Other links beside a graph are left alone.
    for name in (".building.x", "arrays-0123456789abcdef"):
        (tmp_path / name).mkdir()
        NEW.save(tmp_path / name)
        (tmp_path / name / name).symlink_to(tmp_path / "kept")
        OLD.save(tmp_path / name)
        assert (tmp_path / name / name).is_symlink()
    assert names_in(tmp_path / "kept") == {"file"}


def test_a_folder_that_cannot_be_written_to_is_refused(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(
        ValueError, match=r"must be a folder, got .*graph, which is below the file .*file"
    ):
        NEW.save(tmp_path / "file" / "graph")
    with pytest.raises(ValueError, match="must be a folder, got the file"):
        NEW.save(tmp_path / "file")

    def read_only(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", read_only)
    with pytest.raises(
        PermissionError, match=r"must be one that can be written to, got .* \(Permission denied\)"
    ):
        NEW.save(tmp_path / "new" / "graph")
    assert names_in(tmp_path) == {"file"}


def test_an_interrupt_leaves_no_new_folder(tmp_path, monkeypatch):
    def interrupt():
        raise KeyboardInterrupt

    _during(monkeypatch, interrupt)
    with pytest.raises(KeyboardInterrupt):
        NEW.save(tmp_path / "a" / "b" / "c")
    assert not names_in(tmp_path)


def test_paths_that_are_none_are_said_so():
    for use in (grf.open_graph, NEW.save):
        for path in ("", "a\0b"):
            with pytest.raises(ValueError, match="`folder` must be the path of a folder, got"):
                use(path)


def test_a_name_that_is_not_equal_to_itself_is_refused(tmp_path):
    for name in (float("nan"), ("a", (float("nan"),)), np.float32("nan")):
        with pytest.raises(
            ValueError, match="equal to themselves to be saved, got nan; make a graph"
        ):
            grf.Graph([[1.0]], nodes=[name]).save(tmp_path / "graph")
    assert not names_in(tmp_path)
    grf.Graph([[1.0]], nodes=[float("inf")]).save(tmp_path)
    assert grf.open_graph(tmp_path).nodes == (float("inf"),)


# -- what nobody wrote -----------------------------------------------------------------------------

ARRAYS = {
    "indptr": np.array([0, 1, 3, 5, 6], np.int32),
    "indices": np.array([1, 0, 2, 1, 3, 2], np.int32),
    "weights": np.ones(6),
    "degrees": np.array([1.0, 2.0, 2.0, 1.0]),
}
LEFT_OUT = object()
VERSION = "0123456789abcdef"


def _forge(folder, arrays=None, record=None, names=None):
    """A folder whose digests and checksum are right, whatever is in it."""
    shutil.rmtree(folder, ignore_errors=True)
    place = folder / f"arrays-{VERSION}"
    place.mkdir(parents=True)
    arrays = ARRAYS | (arrays or {})
    digest, digests = hashlib.sha256(), {}
    for name, array in arrays.items():
        np.save(place / f"{name}.npy", array)
        digest.update(graph_csr.canonical(array) if array.dtype.kind in "iufb" else b"")
        digests[name] = digest.hexdigest()
    if names is not None:
        text = names if isinstance(names, bytes) else json.dumps(names).encode()
        (place / "names.json").write_bytes(text)
        digests["names"] = hashlib.sha256(text).hexdigest()
    facts = {
        "format": "graphrf graph 1",
        "version": VERSION,
        "n_nodes": 4,
        "n_edges": 3,
        "directed": False,
        "weighted": False,
        "n_entries": 6,
        "dtypes": {name: array.dtype.str for name, array in arrays.items()},
        "digests": digests,
    } | (record or {})
    facts = {name: value for name, value in facts.items() if value is not LEFT_OUT}
    checksum = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    (folder / "graph.json").write_text(json.dumps(facts | {"checksum": checksum}))


def _require_refused(folder, file, match="", read=grf.open_graph):
    with pytest.raises(
        ValueError, match=rf"`folder` must hold a whole graph, but .*{re.escape(file)} .*{match}"
    ):
        read(folder)


def test_a_forged_folder_opens_where_all_is_right(tmp_path):
    _forge(tmp_path / "graph", names=["a", "b", "c", ["d", 1]])
    graph = grf.open_graph(tmp_path / "graph")
    line = grf.from_edges([0, 1, 2], [1, 2, 3])
    assert same(graph, grf.Graph(line.adjacency, nodes=["a", "b", "c", ("d", 1)]))


RECORDS = {
    "n_nodes": ["4", 4.0, [4], True, 10**30, 0, -1, None, LEFT_OUT],
    "n_entries": ["6", -1, 6.0, 7, LEFT_OUT],
    "n_edges": ["many", 2, 7, True, LEFT_OUT],
    "directed": ["no", 0, None, LEFT_OUT],
    "weighted": [[1], LEFT_OUT],
    "digests": [
        [1],
        "abc",
        {},
        {"weights": "x"},
        dict.fromkeys(ARRAYS, 3),
        dict.fromkeys(ARRAYS, "0" * 63),
        None,
    ],
    "dtypes": [
        None,
        dict.fromkeys(ARRAYS, "<q9"),
        dict.fromkeys(ARRAYS, "V8,(2,3)i4"),
        {"indptr": "<i4"},
    ],
    "format": [["x"], 3, None, LEFT_OUT],
    "version": [
        None,
        3,
        [VERSION],
        "..",
        VERSION[1:],
        VERSION.upper(),
        f"{VERSION}\n",
        "\u0661" * 16,
        LEFT_OUT,
    ],
    "more": [1, {"deep": {}}],
}


@pytest.mark.parametrize("fact", RECORDS)
def test_a_record_with_a_wrong_fact_is_refused(tmp_path, fact):
    for value in RECORDS[fact]:
        _forge(tmp_path / "graph", record={fact: value})
        _require_refused(tmp_path / "graph", "graph.json", "is damaged")


def test_a_record_that_is_none_is_refused(tmp_path):
    long = b'{"format": ' + b"9" * 5000 + b"}"
    for text in (b"[" * 200_000, long, b"", b"\xff\xfe\0", b"[1, 2]", b"{}", b"no JSON"):
        _forge(tmp_path / "graph")
        (tmp_path / "graph" / "graph.json").write_bytes(text)
        _require_refused(tmp_path / "graph", "graph.json", "is damaged")
    (tmp_path / "graph" / "graph.json").unlink()
    (tmp_path / "graph" / "graph.json").mkdir()
    _require_refused(tmp_path / "graph", "graph.json", "is no file")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names here")
def test_a_pipe_is_not_waited_for(tmp_path):
    for file in ("graph.json", f"arrays-{VERSION}/indices.npy", f"arrays-{VERSION}/names.json"):
        _forge(tmp_path / "graph", names=list("abcd"))
        (tmp_path / "graph" / file).unlink()
        os.mkfifo(tmp_path / "graph" / file)
        _require_refused(tmp_path / "graph", file, "is no file")


# NumPy takes headers for Python, raises what Python's
# tokenizer, parser and checks raise, and warns of Python 2.
HEADERS = {
    "nine bytes": "{'descr': '<f9', 'fortran_order': False, 'shape': (6,)}",
    "indented": "  {'descr': '<i4',\n 'fortran_order': False, 'shape': (6L,)}",
    "no end": "{'descr': '<i4', 'fortran_order': False, 'shape': (6,",
    "call": "__import__('os').system('true')",
    "huge": "{'descr': '<i4', 'fortran_order': False, 'shape': (" + "9" * 400 + ",)}",
    "long": "{'descr': '<i4', 'fortran_order': False, 'shape': (6,)}" + " " * 20_000,
    "objects": "{'descr': '|O', 'fortran_order': False, 'shape': (6,)}",
}


@pytest.mark.parametrize("case", HEADERS)
def test_a_broken_header_of_an_array_is_named(tmp_path, case):
    _forge(tmp_path / "graph")
    header = HEADERS[case].encode()
    content = b"\x93NUMPY\x01\0" + len(header).to_bytes(2, "little") + header + bytes(24)
    (tmp_path / "graph" / f"arrays-{VERSION}" / "indices.npy").write_bytes(content)
    _require_refused(tmp_path / "graph", "indices.npy")


@pytest.mark.parametrize("dtype", ["i8", "i1", "u8", "u4", ">i4", "f8", "?"])
def test_indices_of_another_type_are_refused(tmp_path, dtype):
    wrong = {name: ARRAYS[name].astype(dtype) for name in ("indptr", "indices")}
    for arrays in (wrong, {"indptr": wrong["indptr"]}, {"indices": wrong["indices"]}):
        _forge(tmp_path / "graph", arrays)
        _require_refused(tmp_path / "graph", "graph.json", "is damaged")
        # Also where the record has the right types.
        _forge(
            tmp_path / "graph",
            arrays,
            {"dtypes": {name: array.dtype.str for name, array in ARRAYS.items()}},
        )
        _require_refused(tmp_path / "graph", f"{next(iter(arrays))}.npy", "holds dtype")


@pytest.mark.parametrize("dtype", ["f4", "f2", ">f8", "c16", "i8", "?", "M8[s]", "U1"])
@pytest.mark.parametrize("name", ["weights", "degrees"])
def test_numbers_of_another_type_are_refused(tmp_path, dtype, name):
    _forge(tmp_path / "graph", {name: np.ones(ARRAYS[name].size).astype(np.int64).astype(dtype)})
    _require_refused(tmp_path / "graph", "graph.json", "is damaged")


NAMES = {
    "few": ["a"],
    "many": list("abcdefgh"),
    "text": "abcd",
    "object": {"a": 1},
    "number": 7,
    "alike": list("aaaa"),
    "objects": [{"a": 1}, "b", "c", "d"],
    "deep": b"[" * 200_000 + b"]" * 200_000,
    "tuples": b"[" + b"[" * 900 + b"]" * 900 + b', "b", "c", "d"]',
    "no JSON": b"{x",
    "no text": b"\xff\xfe",
}


@pytest.mark.parametrize("case", NAMES)
def test_names_that_are_none_are_refused(tmp_path, case):
    _forge(tmp_path / "graph", names=NAMES[case])
    if case == "tuples":
        # JSON reads these; decoding them goes deeper.
        limit = sys.getrecursionlimit()
        try:
            sys.setrecursionlimit(1000)
            _require_refused(tmp_path / "graph", "names.json")
        finally:
            sys.setrecursionlimit(limit)
    else:
        _require_refused(tmp_path / "graph", "names.json")


def _with(name, position, value):
    array = ARRAYS[name].copy()
    array[position] = value
    return {name: array}


LEFT_SIDE = {"weights": np.array([1.0, 1.0, 2.0, 2.0, 1.0, 1.0])}
VALUES = {
    "NaN": (_with("weights", 2, np.nan), {"weighted": True}, "weights", "not finite and above 0"),
    "infinite": (
        _with("weights", 5, np.inf),
        {"weighted": True},
        "weights",
        "not finite and above 0",
    ),
    "negative": (
        _with("weights", 0, -1.0),
        {"weighted": True},
        "weights",
        "not finite and above 0",
    ),
    "zero": (_with("weights", 0, 0.0), {"weighted": True}, "weights", "not finite and above 0"),
    "unsorted": (
        {"indices": np.array([1, 2, 0, 1, 3, 2], np.int32)},
        {},
        "indices",
        "do not increase",
    ),
    "twice": (
        {"indices": np.array([1, 2, 2, 1, 3, 2], np.int32)},
        {},
        "indices",
        "do not increase",
    ),
    "far": (_with("indices", 5, 2_000_000_000), {}, "indices", r"outside \[0, 3\]"),
    "below": (_with("indices", 5, -1), {}, "indices", r"outside \[0, 3\]"),
    "decreasing": ({"indptr": np.array([0, 5, 3, 5, 6], np.int32)}, {}, "indptr", "decreases"),
    "begins late": (
        {"indptr": np.array([1, 1, 3, 5, 6], np.int32)},
        {},
        "indptr",
        "begins with 1 and ends with 6",
    ),
    "ends early": (
        {"indptr": np.array([0, 1, 3, 5, 5], np.int32)},
        {},
        "indptr",
        "begins with 0 and ends with 5",
    ),
    "short": (
        {"indptr": np.array([0, 1, 6], np.int32)},
        {},
        "indptr",
        r"shape \(3,\) where .* \(5,\)",
    ),
    "loop": (_with("indices", 5, 3), {}, "indices", "holds 1 self-loops"),
    "degrees": (_with("degrees", 3, 1.0 + 1e-12), {}, "weights", "are not those in degrees"),
    "NaN degree": (_with("degrees", 0, np.nan), {}, "weights", "are not those in degrees"),
    "equal": ({}, {"weighted": True}, "weights", "equal weights against the record"),
    "not symmetric": (
        {"indices": np.array([1, 0, 3, 1, 3, 2], np.int32)},
        {},
        "indices",
        "differ from their mirror images",
    ),
    "unequal halves": (
        {
            "weights": np.array([2.0, 1.0, 1.0, 2.0, 1.0, 1.0]),
            "degrees": np.array([2.0, 2.0, 3.0, 1.0]),
        },
        {"weighted": True},
        "indices",
        "differ from their mirror images",
    ),
    "different": (
        LEFT_SIDE | {"degrees": np.array([1.0, 3.0, 3.0, 1.0])},
        {},
        "weights",
        "different weights against the record",
    ),
}


@pytest.mark.parametrize("case", VALUES)
@pytest.mark.parametrize("chunk", [1, 2, 100])
def test_values_that_no_writer_writes_are_refused(tmp_path, case, chunk):
    arrays, record, file, match = VALUES[case]
    _forge(tmp_path / "graph", arrays, record)

    def in_chunks(folder):
        return graph_folder.read_folder(str(folder), True, chunk)

    for read in (grf.open_graph, in_chunks):
        _require_refused(tmp_path / "graph", f"{file}.npy", match, read)


@pytest.mark.parametrize("chunk", [1, 3, 64, 1 << 18])
@pytest.mark.parametrize("directed", [False, True])
def test_what_was_written_is_verified_with_inexact_weights_and_empty_rows(
    tmp_path, chunk, directed
):
    rng = np.random.default_rng(0)
    ends = rng.integers(0, 40, (2, 500)) * 3 + 5
    graph = grf.from_edges(
        *ends, rng.random(500) * 10.0 ** rng.integers(-9, 9, 500), directed=directed, n_nodes=300
    )
    graph.save(tmp_path)
    graph_folder.read_folder(str(tmp_path), True, chunk)
    assert same(grf.open_graph(tmp_path), graph)


# -- loops -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [1, 3, 1 << 18])
@pytest.mark.parametrize("directed", [False, True])
def test_the_largest_loop_found_in_pieces_is_that_of_the_diagonal(chunk, directed):
    rng = np.random.default_rng(0)
    for has_loops in (True, False):
        sources, targets = rng.integers(0, 12, (2, 40))
        kept = has_loops | (sources != targets)
        graph = grf.from_edges(
            sources[kept], targets[kept], rng.random(kept.sum()), directed=directed, n_nodes=15
        )
        expected = (graph.adjacency.diagonal() / np.maximum(graph.degrees, 1e-300)).max()
        assert (expected > 0) == has_loops
        assert local._largest_loop(graph, chunk) == expected


def test_loops_are_not_looked_for_where_the_numbers_say_that_there_are_none(tmp_path):
    NEW.save(tmp_path / "without")
    OLD.save(tmp_path / "with")
    for name, expected in (("without", 0.0), ("with", 1.0 / 1.5)):
        graph = grf.open_graph(tmp_path / name)
        assert local._largest_loop(graph) == expected
        graph = grf.open_graph(tmp_path / name)
        graph.adjacency.indices = None
        if expected:
            with pytest.raises(TypeError):
                local._largest_loop(graph)
        else:
            assert local._largest_loop(graph) == 0.0
