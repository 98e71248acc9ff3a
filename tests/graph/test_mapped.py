"""Graphs on disk: what is opened is what was saved, and nothing that is not whole."""

from __future__ import annotations

import copy
import json
import mmap
import os
import pickle
import shutil
import tracemalloc

import numpy as np
import pytest

import graphrf as grf
from graphrf.graph import csr as graph_csr
from graphrf.graph.disk import folder as graph_folder
from graphrf.sampling.walks import transitions as walk_arrays
from graphrf.sampling.walks.transitions import row_cumsum
from tests.faults.saving import at_step, in_child
from tests.graph.on_disk import arrays_folder, arrays_of, names_in, same

FILES = ("indptr.npy", "indices.npy", "weights.npy", "degrees.npy", "names.json", "graph.json")
NAMED = grf.Graph(
    [[0, 2, 0, 0], [2, 0, 0.5, 0], [0, 0.5, 1, 0], [0, 0, 0, 0]],
    nodes=["a", (1, ("b", 2.5)), None, 7],
)
GRAPHS = {
    "named": NAMED,
    "directed": grf.Graph([[0, 1, 3], [0, 0, 0], [2, 0, 1]], directed=True),
    "level": grf.from_edges([0, 1, 2, 2], [1, 2, 0, 2]),
    "without edges": grf.Graph(np.zeros((3, 3))),
    "one node": grf.Graph([[0.5]]),
}


def _is_mapped(array):
    while isinstance(array.base, np.ndarray):
        array = array.base
    return isinstance(array.base, mmap.mmap)


def _file(folder, name):
    """Where a file of a graph is."""
    return (folder if name == "graph.json" else arrays_folder(folder)) / name


def _flip(file, position):
    data = bytearray(file.read_bytes())
    data[position] ^= 1
    file.write_bytes(data)


# -- saved and opened ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", GRAPHS)
def test_an_opened_graph_has_the_bits_of_the_saved_one_and_copies_none(tmp_path, name):
    graph = GRAPHS[name]
    graph.save(tmp_path / "graph")
    for verify in (True, False):
        opened = grf.open_graph(tmp_path / "graph", verify=verify)
        assert same(opened, graph)
        assert all(_is_mapped(array) and not array.flags.writeable for array in arrays_of(opened))
        assert opened.adjacency.has_sorted_indices
        assert opened.adjacency.has_canonical_format
    # Also over itself, while it is mapped, and from the map to another folder.
    opened.save(tmp_path / "graph")
    opened.save(tmp_path / "other")
    assert same(grf.open_graph(tmp_path / "graph"), graph)
    assert same(grf.open_graph(tmp_path / "other"), graph)


GRAPHS_TO_WALK = ("level", "named")


@pytest.mark.parametrize("name", GRAPHS_TO_WALK)
def test_walks_series_and_laplacians_of_an_opened_graph_are_those_in_memory(tmp_path, name):
    graph = GRAPHS[name]
    graph.save(tmp_path)
    opened = grf.open_graph(tmp_path)
    for normalized in (True, False):
        difference = graph.laplacian(normalized) != opened.laplacian(normalized)
        assert difference.nnz == 0
    walked = [grf.sample_features(g, grf.RandomWalks(8), seed=0) for g in (graph, opened)]
    assert (walked[0].matrix(grf.Diffusion(1.0)) != walked[1].matrix(grf.Diffusion(1.0))).nnz == 0
    v = np.arange(graph.n_nodes, dtype=float)
    one, other = (grf.apply_kernel(g, grf.Diffusion(1.0), v) for g in (graph, opened))
    np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(opened.components(), graph.components())
    np.testing.assert_array_equal(
        grf.pagerank.estimate(opened, n_walks=4, seed=0).scores,
        grf.pagerank.estimate(graph, n_walks=4, seed=0).scores,
    )


def test_the_walk_arrays_of_a_mapped_level_graph_are_the_maps_themselves(tmp_path):
    GRAPHS["level"].save(tmp_path)
    graph = grf.open_graph(tmp_path)
    arrays = walk_arrays.transitions(graph.walk_adjacency())
    assert np.shares_memory(arrays.indices, graph.adjacency.indices)
    assert np.shares_memory(arrays.indptr, graph.adjacency.indptr)
    assert arrays.cumulative.size == 0


def test_weights_known_to_be_equal_are_not_read(tmp_path):
    GRAPHS["level"].save(tmp_path / "level")
    NAMED.save(tmp_path / "named")
    for name, reads in (("level", False), ("named", True)):
        graph = grf.open_graph(tmp_path / name)
        expected = walk_arrays.graph_transitions(GRAPHS[name])
        graph.adjacency.data = None
        if reads:
            with pytest.raises(AttributeError):
                walk_arrays.graph_transitions(graph)
        else:
            for one, other in zip(walk_arrays.graph_transitions(graph), expected, strict=True):
                np.testing.assert_array_equal(one, other)


def test_an_opened_graph_is_pickled_as_its_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    grf.from_edges(np.arange(5000), np.arange(5000) + 1).save("line")
    graph = grf.open_graph("line")
    assert copy.copy(graph) is graph
    assert copy.deepcopy(graph) is graph
    pickled = pickle.dumps(graph)
    assert len(pickled) < 1000
    monkeypatch.chdir("/")
    again = pickle.loads(pickled)
    assert same(again, graph)
    assert _is_mapped(again.adjacency.data)
    GRAPHS["level"].save(tmp_path / "line")
    with pytest.raises(
        ValueError, match=r"must be the one that was pickled, got another one; write different"
    ):
        pickle.loads(pickled)
    # The old maps outlive their files' names.
    assert same(graph, grf.from_edges(np.arange(5000), np.arange(5000) + 1))


def test_a_graph_in_memory_is_pickled_whole():
    assert same(pickle.loads(pickle.dumps(NAMED)), NAMED)


# -- what is not whole -----------------------------------------------------------------------------


@pytest.mark.parametrize("file", FILES)
def test_a_missing_truncated_lengthened_or_changed_file_is_named(tmp_path, file):
    NAMED.save(tmp_path / "graph")

    def refused(error, match, change, verify):
        shutil.rmtree(tmp_path / "broken", ignore_errors=True)
        shutil.copytree(tmp_path / "graph", tmp_path / "broken")
        change(_file(tmp_path / "broken", file))
        with pytest.raises(
            error,
            match=rf"`folder` must hold a whole graph, but .*{file}.*{match}.*write the graph",
        ):
            grf.open_graph(tmp_path / "broken", verify=verify)

    size = _file(tmp_path / "graph", file).stat().st_size
    for verify in (True, False):
        refused(FileNotFoundError, "", lambda path: path.unlink(), verify)
        for kept in (0, 5, size // 2, size - 1):
            refused(ValueError, "", lambda path, kept=kept: os.truncate(path, kept), verify)
        refused(ValueError, "", lambda path: path.write_bytes(path.read_bytes() + b"\0"), verify)
    for position in (0, size // 2, size - 3):
        refused(ValueError, "", lambda path, position=position: _flip(path, position), True)


def test_without_verify_changed_values_go_unseen(tmp_path):
    NAMED.save(tmp_path)
    _flip(_file(tmp_path, "weights.npy"), 128)
    grf.open_graph(tmp_path, verify=False)
    with pytest.raises(ValueError, match=r"weights\.npy holds other values than were written"):
        grf.open_graph(tmp_path)


def test_what_is_no_graph_folder_is_said_so(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"written by Graph\.save, got none at"):
        grf.open_graph(tmp_path / "nowhere")
    with pytest.raises(
        FileNotFoundError, match=r"must hold a whole graph, but there is no .*graph\.json; write"
    ):
        grf.open_graph(tmp_path)
    (tmp_path / "graph.json").write_text(json.dumps({"format": "graphrf graph 99", "checksum": ""}))
    with pytest.raises(ValueError, match="is of another format, 'graphrf graph 99'"):
        grf.open_graph(tmp_path)
    with pytest.raises(TypeError, match="`verify` must be True or False"):
        grf.open_graph(tmp_path, verify=1)
    with pytest.raises(TypeError, match="`folder` must be a path"):
        grf.open_graph(3)


def test_a_graph_whose_names_cannot_be_saved_leaves_the_old_one(tmp_path):
    NAMED.save(tmp_path)
    with pytest.raises(TypeError, match=r"names that are text, numbers or tuples .* got frozenset"):
        grf.Graph([[1]], nodes=[frozenset()]).save(tmp_path)
    assert same(grf.open_graph(tmp_path), NAMED)
    # One without names takes the names' file away.
    GRAPHS["level"].save(tmp_path)
    assert same(grf.open_graph(tmp_path), GRAPHS["level"])
    assert names_in(tmp_path) == set(FILES) - {"names.json"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
@pytest.mark.parametrize("before", ["old", "none"])
@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.more)])
def test_a_writer_killed_at_any_moment_leaves_a_whole_graph_or_none(
    tmp_path, monkeypatch, before, every
):
    # What a killed process wrote stays: only a machine
    # that loses its power needs the waiting for the disk.
    monkeypatch.setattr(os, "fsync", lambda _: None)
    graphs = {
        "old": grf.Graph([[0, 2], [2, 0]], nodes=["a", "b"]),
        "new": grf.Graph([[0, 3, 0], [3, 0, 1], [0, 1, 0]], nodes=["c", "d", "e"]),
    }
    found, n_steps = [], ""
    while not n_steps:
        target = tmp_path / str(len(found))
        if before == "old":
            graphs["old"].save(target)

        def write(pipe, target=target):
            os.write(
                pipe,
                str(at_step(every * len(found) + 1, lambda: graphs["new"].save(target))).encode(),
            )

        n_steps = in_child(write)
        try:
            opened = grf.open_graph(target)
        except FileNotFoundError:
            found.append("none")
        else:
            found.append("old" if opened.n_nodes == 2 else "new")
            assert same(opened, graphs[found[-1]])
        # The next writer takes what the killed one left.
        graphs["new"].save(target)
        assert same(grf.open_graph(target), graphs["new"])
        assert names_in(target) == set(FILES)
    assert len(found) > 50 // every
    assert [stage for stage, last in zip(found, [None, *found], strict=False) if stage != last] == [
        before,
        "new",
    ]


def _random_edges(n_nodes, n_edges, seed=0):
    rng = np.random.default_rng(seed)
    # A quarter of the ends is one of three hubs; weights
    # are quarters, so that sums are exact; some are zero.
    ends = rng.integers(0, n_nodes, (2, n_edges))
    ends[rng.random((2, n_edges)) < 0.25] %= 3
    return ends[0], ends[1], rng.integers(0, 9, n_edges) / 4


# -- memory and digests ----------------------------------------------------------------------------


def _peak(function):
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_graph_is_opened_saved_and_walked_in_chunks(tmp_path):
    rng = np.random.default_rng(0)
    grf.from_edges(*rng.integers(0, 10_000, (2, 400_000)), rng.random(400_000)).save(tmp_path)
    graph = grf.open_graph(tmp_path)
    assert graph.adjacency.nnz > 790_000
    size = 1 << 14
    read = graph_folder.read_folder
    assert _peak(lambda: read(str(tmp_path), True, size)) < 1_200_000
    adjacency = graph.adjacency
    again = grf.Graph(adjacency)
    for name in ("n_edges", "is_weighted", "digest"):
        # a chunk of the widest type has 2 MiB, and all indices, in that type, 6 MB
        assert _peak(lambda name=name: getattr(again, name)) < 3_000_000
        assert getattr(again, name) == getattr(graph, name)
    assert _peak(lambda: graph_csr.graph_digest(adjacency, size)) < 1_000_000
    assert _peak(lambda: graph.save(tmp_path / "again")) < 3_000_000
    # The shares of unequal weights are one array of the size of the weights, and equal ones need
    # none.
    row_cumsum(np.ones(1), np.array([0, 1], np.int32))
    walk_arrays.transitions(NAMED.adjacency)
    taken = _peak(lambda: walk_arrays.transitions(adjacency, chunk_size=size))
    assert taken < adjacency.data.nbytes + 1_000_000
    level = np.ones(adjacency.nnz)
    assert _peak(lambda: walk_arrays._running_shares(adjacency.indptr, level, size)) < 1_000_000


@pytest.mark.parametrize("chunk", [1, 3, 1 << 18])
def test_the_digest_of_a_graph_is_that_of_files_written_before(weighted_graph, plain_graph, chunk):
    known = {
        weighted_graph: "0ff5736fcb286308431119bd71dedf7f1dff342db644a6efa02857a4555a7945",
        plain_graph: "782197907f79c688c59315b57202f097f3a2ac9728bbd8e4278291d0ee0a9c0f",
    }
    for graph, digest in known.items():
        adjacency = graph.adjacency
        assert graph_csr.graph_digest(adjacency, chunk) == digest
        wide = adjacency.copy()
        wide.indptr, wide.indices = wide.indptr.astype(np.int64), wide.indices.astype(np.int64)
        assert graph_csr.graph_digest(wide, chunk) == digest


def _shares_in_one_piece(indptr, weights):
    """The formula as it was, with temporary arrays of the size of the weights."""
    degree = np.diff(indptr)
    filled = degree > 0
    if np.array_equal(np.repeat(weights[indptr[:-1][filled]], degree[filled]), weights):
        return np.zeros(0)
    cumulative = np.asarray(row_cumsum(weights, indptr))
    last = indptr[1:][filled] - 1
    cumulative /= np.repeat(cumulative[last], degree[filled])
    cumulative[last] = 1.0
    return cumulative


@pytest.mark.parametrize("chunk", [1, 2, 7, 1 << 20])
def test_running_shares_in_chunks_have_the_bits_of_the_formula_in_one_piece(chunk):
    rng = np.random.default_rng(0)
    n_level = 0
    for trial in range(200):
        degree = rng.integers(0, 4, 8)
        indptr = np.concatenate([[0], np.cumsum(degree)]).astype((np.int32, np.int64)[trial % 2])
        # Rows of equal weights, of which some trials spoil one entry.
        weights = np.repeat(rng.choice([0.3, 1.0, 1.7], 8), degree)
        if trial % 3 and weights.size:
            weights[rng.integers(weights.size)] = 0.7
        found = walk_arrays._running_shares(indptr, weights, chunk)
        np.testing.assert_array_equal(found, _shares_in_one_piece(indptr, weights))
        n_level += found.size == 0
    assert 70 < n_level < 190


# -- sizes that no test can have -------------------------------------------------------------------


def test_indices_are_wide_where_entries_or_nodes_ask_for_it():
    assert graph_csr.index_dtype(2**31, 2**31 - 1) == np.int32
    assert graph_csr.index_dtype(2**31 + 1, 5) == np.int64
    assert graph_csr.index_dtype(5, 2**31) == np.int64


def test_a_folder_with_wide_indices_opens_as_it_is_and_is_walked_alike(tmp_path, monkeypatch):
    src, dst, _ = _random_edges(60, 600)
    with monkeypatch.context() as patched:
        patched.setattr(graph_folder, "index_dtype", lambda *_: np.dtype(np.int64))
        grf.from_edges(src, dst).save(tmp_path)
        wide = grf.open_graph(tmp_path)
    narrow = grf.from_edges(src, dst)
    assert wide.adjacency.indptr.dtype == wide.adjacency.indices.dtype == np.int64
    assert _is_mapped(wide.adjacency.indices)
    assert wide.digest == narrow.digest
    one, other = (
        grf.sample_features(g, grf.RandomWalks(8), seed=0).matrix(grf.Diffusion(1.0))
        for g in (wide, narrow)
    )
    assert (one != other).nnz == 0
