"""Local PageRank queries on a cluster are those of one process, whatever happens to workers."""

from __future__ import annotations

import os
import time

import networkx as nx
import numpy as np
import pytest

pytest.importorskip("distributed")

from distributed import Client

import graphrf as grf
from graphrf.distributed import pagerank as on_cluster
from graphrf.distributed.shared_object import SharedObject
from graphrf.pagerank import LocalPageRankResult, local_pagerank
from graphrf.pagerank.push import local_rows
from graphrf.sampling.walks.transitions import graph_transitions
from tests.distributed.helpers import require_same_matrix
from tests.pagerank.oracles import directed_graph, lopsided_graph


def named_graph() -> grf.Graph:
    graph = nx.relabel_nodes(nx.connected_caveman_graph(6, 5), lambda node: f"node {node}")
    return grf.Graph(nx.to_scipy_sparse_array(graph), nodes=list(graph))


GRAPHS = {"directed": directed_graph(), "lopsided": lopsided_graph(), "named": named_graph()}
SETTINGS = {
    "walks": {"seed": 3},
    "walks for the best": {
        "seed": 3,
        "k": 4,
        "p_halt": 0.3,
        "epsilon": 0.25,
        "delta": 0.02,
        "failure": 0.1,
    },
    "pushes": {"max_residual": 1e-3},
    "pushes for the best": {"max_residual": 1e-6, "k": 3, "p_halt": 0.05},
}
LONG = {"seed": 5, "k": 5, "delta": 3e-5}


def require_same(found: LocalPageRankResult, expected: LocalPageRankResult) -> None:
    for name in vars(expected):
        one, other = getattr(found, name), getattr(expected, name)
        if name in ("scores", "stderr") and other is not None:
            require_same_matrix(one, other)
        elif isinstance(other, np.ndarray):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)
        else:
            assert one == other, name


def large_graph(n: int) -> grf.Graph:
    rng = np.random.default_rng(0)
    return grf.from_edges(
        np.repeat(np.arange(n), 4), rng.integers(0, n, 4 * n), weight=False, directed=True
    )


# -- the same bits ---------------------------------------------------------------------------------


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_rows_are_those_of_one_process(cluster_client, graph, settings):
    sources = [*range(graph.n_nodes), 0, 0, 2]
    found = grf.distributed.local_pagerank(graph, sources, client=cluster_client, **settings)
    require_same(found, local_pagerank(graph, sources, **settings))


def test_names_and_single_sources_are_taken_as_in_one_process(cluster_client):
    graph = GRAPHS["named"]
    for sources in ("node 7", ["node 7", "node 0", "node 7"], 3):
        found = grf.distributed.local_pagerank(graph, sources, client=cluster_client, k=2, seed=0)
        expected = local_pagerank(graph, sources, k=2, seed=0)
        require_same(found, expected)
        assert found.top() == expected.top()


@pytest.mark.parametrize(
    "n_nodes", [7_000, 30_000], ids=["some arrays travel", "all arrays are large"]
)
@pytest.mark.parametrize("way", ["mapped", "sent"])
def test_arrays_may_be_mapped_or_sent(cluster_client, monkeypatch, way, n_nodes):
    if way == "sent":
        monkeypatch.setattr(on_cluster, "arrays_folder", lambda client, folder: None)
    graph = large_graph(n_nodes)
    sources = np.arange(1000)
    found = grf.distributed.local_pagerank(
        graph, sources, client=cluster_client, k=2, max_residual=1e-2
    )
    require_same(found, local_pagerank(graph, sources, k=2, max_residual=1e-2))


def test_rows_leave_the_workers(cluster_client):
    grf.distributed.local_pagerank(
        GRAPHS["named"], [0, 1, 2], client=cluster_client, max_residual=1e-3
    )
    deadline = time.monotonic() + 60
    while any(
        "source_rows" in str(key) for keys in cluster_client.has_what().values() for key in keys
    ):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("n_nodes", [10, 50_000], ids=["small", "mapped"])
def test_a_worker_compiles_nothing_anew(tmp_path, n_nodes):
    graph = large_graph(n_nodes)
    asked = on_cluster.checked_queries(
        graph,
        [0, 1],
        k=2,
        p_halt=0.5,
        epsilon=None,
        delta=None,
        failure=None,
        max_residual=0.1,
        seed=None,
    )
    local_pagerank(graph, [0, 1], k=2, p_halt=0.5, max_residual=0.1)
    known = list(local_rows.signatures)
    assert known
    sources = asked.positions.copy()
    sources.setflags(write=False)  # as after a journey
    content = graph_transitions(graph), asked.query, asked.key
    for folder in (None, tmp_path):
        on_cluster.source_rows(sources, SharedObject(content, folder))
    assert list(local_rows.signatures) == known


# -- tasks -----------------------------------------------------------------------------------------


# -- losses ----------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize(("way", "n_killed"), [("mapped", 1), ("mapped", 2), ("sent", 2)])
def test_killed_workers_lose_nothing(mortal_client, monkeypatch, way, n_killed):
    if way == "sent":
        monkeypatch.setattr(on_cluster, "arrays_folder", lambda client, folder: None)
    graph = large_graph(50_000)
    sources = np.arange(200)
    expected = local_pagerank(graph, sources, **LONG)
    arrived, revived = [], []
    plain, plain_revive = on_cluster._Answers.arrived, on_cluster._Answers.revive

    def watched(answers):
        batch = plain(answers)
        if not arrived:
            for process in processes[:n_killed]:
                os.kill(process, 9)
        arrived.append([number for number, _ in batch])
        return batch

    def watched_revive(answers):
        revived.append(len(answers))
        plain_revive(answers)

    processes = list(mortal_client.run(os.getpid).values())
    monkeypatch.setattr(on_cluster._Answers, "arrived", watched)
    monkeypatch.setattr(on_cluster._Answers, "revive", watched_revive)
    found = grf.distributed.local_pagerank(graph, sources, client=mortal_client, **LONG)
    require_same(found, expected)
    numbers = [number for batch in arrived for number in batch]
    assert sorted(numbers) == list(range(len(numbers)))  # none twice
    # Rows come here in `arrived` alone, so those of a killed worker had to be made again, or, where
    # what they are made from was lost too, asked for again.
    assert len(arrived[0]) < len(numbers) / 2
    assert bool(revived) == (way == "sent")


def test_an_error_cancels_what_has_not_begun(cluster_client, monkeypatch):
    futures = []

    def interrupted(answers):
        futures.extend(answers.futures)
        raise KeyboardInterrupt

    monkeypatch.setattr(on_cluster._Answers, "arrived", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        grf.distributed.local_pagerank(
            large_graph(50_000), np.arange(2000), client=cluster_client, **LONG
        )
    assert futures
    assert all(future.cancelled() for future in futures)
    deadline = time.monotonic() + 60
    while any(cluster_client.processing().values()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    del caught


# -- the door --------------------------------------------------------------------------------------


def test_without_a_client_it_says_how_to_get_one():
    with pytest.raises(
        ValueError,
        match=r"`client` must be given, because there is no current Dask client; .*Client",
    ):
        grf.distributed.local_pagerank(GRAPHS["named"], 0)
    with pytest.raises(TypeError, match=r"`client` must be a dask\.distributed\.Client, got"):
        grf.distributed.local_pagerank(GRAPHS["named"], 0, client=4)


@pytest.mark.parametrize(
    "arguments",
    [
        {"graph": 5},
        {"sources": 99},
        {"epsilon": 0.6},
        {"max_residual": 1e-3, "seed": 1},
        {"progress": 2},
    ],
    ids=str,
)
def test_wrong_arguments_are_refused_as_in_one_process_before_anything_is_sent(
    cluster_client, monkeypatch, arguments
):
    arguments = {"graph": GRAPHS["named"], "sources": 0, **arguments}
    with pytest.raises((TypeError, ValueError)) as expected:
        local_pagerank(**arguments)
    for name in ("map", "submit", "scatter", "run"):
        monkeypatch.setattr(Client, name, lambda *_, **__: pytest.fail("sent"))
    with pytest.raises(expected.type) as found:
        grf.distributed.local_pagerank(**arguments, client=cluster_client)
    assert str(found.value) == str(expected.value)


def test_the_bar_counts_sources(cluster_client, capsys):
    grf.distributed.local_pagerank(
        GRAPHS["named"], np.arange(30), client=cluster_client, max_residual=0.1, progress=True
    )
    assert "local PageRank: 100%" in (shown := capsys.readouterr().err)
    assert "30/30" in shown
