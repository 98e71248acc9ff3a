"""Features drawn on a cluster are those of one process; what cannot be drawn is refused."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from distributed import Client, LocalCluster

import graphrf as grf
from graphrf.distributed import sampling
from graphrf.distributed.shared_object import SharedObject, SharingCosts
from graphrf.sampling.block_sizes import file_rows
from graphrf.sampling.walks.loops import walk_block
from tests.distributed.helpers import require_same, require_same_matrix, weighted

pytestmark = pytest.mark.filterwarnings(
    "ignore::graphrf.features.HeavyTailWarning", "ignore::graphrf.features.TruncationWarning"
)

GRAPH = weighted()
WALKS = grf.RandomWalks(8)
SAMPLERS = {
    "stratified walks": WALKS,
    "coupled lengths": grf.RandomWalks(8, grf.sampling.SigmaCoupled(0.1)),
    "combinatorial": grf.RandomWalks(8, grf.sampling.Truncated(5), laplacian="combinatorial"),
    "compressed powers": grf.CompressedPowers(8, max_length=5),
    "cut powers": grf.sampling.CutPowers(6, max_length=4),
}
OPTIONS = {
    "rows alone": {"block_size": 1, "nodes": [5, 89, 7, 7]},
    "blocks of seven": {"block_size": 7},
    "one block": {"block_size": 90},
    "nodes in any order, some twice": {"nodes": [3, 88, 3, 0, 41, 7, 7], "block_size": 3},
    "combinatorial doubles": {"dtype": np.float64, "nodes": range(10, 30)},
}


@pytest.fixture(params=["in memory", "on disk"])
def graph(request, tmp_path):
    if request.param == "in memory":
        return GRAPH
    GRAPH.save(tmp_path / "graph")
    return grf.open_graph(tmp_path / "graph")


# -- the same bits ---------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)
def test_all_samplers_draw_what_one_process_draws(cluster_client, sampler):
    found = grf.distributed.sample_features(
        GRAPH, sampler, client=cluster_client, seed=3, block_size=31
    )
    expected = grf.sample_features(GRAPH, sampler, seed=3)
    require_same(found.gather(), expected)
    kernel = grf.RegularizedLaplacian(0.5, 1, laplacian=sampler.laplacian)
    require_same_matrix(found.matrix(kernel), expected.matrix(kernel))
    # Each block has an end of both its pointers.
    assert found.nbytes == expected.nbytes + 2 * (4 + 8)
    for name in (
        "n_steps",
        "nnz",
        "n_nodes",
        "n_walks",
        "seed",
        "laplacian",
        "dtype",
        "description",
    ):
        assert getattr(found, name) == getattr(expected, name), name
    assert (found.shape, found.n_blocks, found.max_length) == (
        expected.shape,
        3,
        expected.max_length,
    )
    np.testing.assert_array_equal(found.nodes, expected.nodes)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_rows_in_any_blocks_are_the_same(cluster_client, options):
    found = grf.distributed.sample_features(GRAPH, WALKS, client=cluster_client, seed=3, **options)
    local = {name: value for name, value in options.items() if name != "block_size"}
    expected = grf.sample_features(GRAPH, WALKS, seed=3, **local)
    require_same(found.gather(), expected)
    kernel = grf.Diffusion(0.5)
    require_same_matrix(found.matrix(kernel), expected.matrix(kernel))


@pytest.mark.parametrize("name", ["stratified walks", "cut powers", "combinatorial"])
def test_the_graph_may_be_mapped_or_sent(cluster_client, way, graph, name):
    sampler = SAMPLERS[name]
    found = grf.distributed.sample_features(
        graph, sampler, client=cluster_client, seed=3, block_size=50
    )
    require_same(found.gather(), grf.sample_features(GRAPH, sampler, seed=3))


def test_the_default_sampler_and_the_current_client_are_taken(cluster_client):
    with cluster_client.as_current():
        found = grf.distributed.sample_features(GRAPH, nodes=[0, 1], seed=3)
    require_same(found.gather(), grf.sample_features(GRAPH, nodes=[0, 1], seed=3))


def test_names_stand_for_nodes_and_a_seed_is_drawn(cluster_client):
    graph = grf.Graph(GRAPH.adjacency, nodes=[f"node {number}" for number in range(90)])
    found = grf.distributed.sample_features(
        graph, WALKS, client=cluster_client, nodes=["node 5", "node 2"]
    )
    require_same(found.gather(), grf.sample_features(GRAPH, WALKS, nodes=[5, 2], seed=found.seed))


@pytest.mark.skipif(not hasattr(walk_block, "signatures"), reason="compilation is switched off")
def test_loops_are_compiled_once_for_all_ways(cluster_client, way, graph):
    grf.distributed.sample_features(graph, WALKS, client=cluster_client, seed=3, block_size=9)
    assert set(cluster_client.run(_n_signatures).values()) == {1}


def _n_signatures():
    from graphrf.sampling.walks.loops import walk_block

    return len(walk_block.signatures)


def test_a_graph_of_many_small_arrays_is_not_mistaken_for_another(cluster_client, way, monkeypatch):
    costs = SharingCosts(large=2**20, light=0 if way == "sent" else SharingCosts().light)
    monkeypatch.setattr(sampling, "SharedObject", partial(SharedObject, costs=costs))
    for n in (6000, 6001):
        line = grf.from_edges(np.arange(n - 1), np.arange(1, n))
        found = grf.distributed.sample_features(
            line, grf.RandomWalks(2), client=cluster_client, seed=3
        )
        require_same(found.gather(), grf.sample_features(line, grf.RandomWalks(2), seed=3))


# -- what is shown and refused ---------------------------------------------------------------------


@pytest.mark.parametrize("shown", [True, False])
def test_a_bar_is_shown_on_request(cluster_client, capsys, shown):
    grf.distributed.sample_features(GRAPH, WALKS, client=cluster_client, seed=3, progress=shown)
    assert ("features: 100%" in capsys.readouterr().err) is shown


@pytest.fixture
def idle_client(cluster_client, monkeypatch):
    """A client that submits nothing."""

    def refuse(*arguments, **options):
        raise AssertionError("something was submitted")

    for name in ("map", "submit", "scatter"):
        monkeypatch.setattr(Client, name, refuse)
    return cluster_client


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        (
            {"memory_limit": 10**4},
            MemoryError,
            "`memory_limit` is .* on 2 workers; start more of them",
        ),
        ({"block_size": 0}, ValueError, "`block_size` must"),
        ({"nodes": [90]}, ValueError, "`nodes`"),
        ({"sampler": grf.RandomWalks}, TypeError, "`sampler` must be a sampler"),
        ({"graph": np.eye(3)}, TypeError, "`graph` must"),
        ({"graph": grf.Graph([[0, 1], [0, 0]], directed=True)}, ValueError, "undirected graph"),
        ({"shared_folder": "/nowhere/at/all"}, ValueError, "`shared_folder` must be a folder"),
        (
            {"client": "tcp://127.0.0.1:8786"},
            TypeError,
            "`client` must be a dask.distributed.Client",
        ),
    ],
    ids=lambda value: str(next(iter(value.items())))[:40] if isinstance(value, dict) else "",
)
def test_bad_input_is_refused_before_anything_is_submitted(idle_client, options, error, words):
    arguments = {"graph": GRAPH, "sampler": WALKS, "client": idle_client, "seed": 3} | options
    with pytest.raises(error, match=words):
        grf.distributed.sample_features(**arguments)


def test_what_does_not_fit_here_is_refused_and_stays_there(cluster_client):
    found = grf.distributed.sample_features(GRAPH, WALKS, client=cluster_client, seed=3)
    with pytest.raises(
        MemoryError, match=r"the matrix of 90 nodes would take about .* leave them on the workers"
    ):
        found.matrix(grf.Diffusion(0.5), memory_limit=1000)
    with pytest.raises(MemoryError, match="the features of 90 nodes would take about"):
        found.gather(memory_limit=1000)
    with pytest.raises(ValueError, match="`memory_limit` must"):
        found.gather(memory_limit=-1)
    with pytest.raises(ValueError, match="combinatorial"):
        found.matrix(grf.Diffusion(0.5, laplacian="combinatorial"))
    with pytest.raises(ValueError, match="combinatorial"):
        found.gram_matvec(grf.Diffusion(0.5, laplacian="combinatorial"), np.ones(90))


def test_options_of_a_gp_are_checked_when_they_are_given(cluster_client):
    with pytest.raises(
        TypeError, match=r"`options` must be among block_size, .* got n_threads, path"
    ):
        grf.distributed.on_cluster(cluster_client, path="somewhere", n_threads=3)
    with pytest.raises(TypeError, match="`client` must be"):
        grf.distributed.on_cluster("client")
    for options, error in (
        ({"block_size": "x"}, TypeError),
        ({"block_size": 0}, ValueError),
        ({"memory_limit": 0}, ValueError),
        ({"memory_limit": 2.5}, TypeError),
        ({"progress": "yes"}, TypeError),
    ):
        with pytest.raises(error, match=f"`{next(iter(options))}` must"):
            grf.distributed.on_cluster(cluster_client, **options)


@pytest.mark.parametrize(
    ("n_rows", "row_bytes", "n_nodes", "n_blocks"),
    [
        (1000, 5000, 10**8, 1),
        (10**6, 5000, 10**8, 4),
        (10**5, 2000, 10**5, 16),
        (2000, 2000, 2000, 16),
        (100, 100, 10**5, 1),
        (10**5, 1800, 2 * 10**7, 4),
        (10**6, 2**20, 10**6, 7813),
        (10**7, 10**4, 10**7, 313),
    ],
    ids=[
        "few rows of a large graph",
        "some rows of a large graph",
        "an ordinary graph",
        "a small graph",
        "few rows",
        "many rows of a large graph",
        "records of a TiB",
        "records beside long columns",
    ],
)
def test_blocks_are_neither_many_columns_nor_few_tasks(n_rows, row_bytes, n_nodes, n_blocks):
    rows = file_rows(n_rows, n_rows * row_bytes, n_nodes)
    assert rows >= 64
    assert -(-n_rows // rows) == pytest.approx(n_blocks, rel=0.02)


def test_without_a_client_it_is_said_how_to_make_one(cluster_client, monkeypatch):
    def none():
        raise ValueError("No clients found")

    monkeypatch.setattr("graphrf.distributed.client.default_client", none)
    for call in (
        lambda: grf.distributed.sample_features(GRAPH, WALKS),
        lambda: grf.distributed.load_features("somewhere"),
        grf.distributed.on_cluster,
    ):
        with pytest.raises(
            ValueError, match=r"`client` must be given, because there is no current .*Client\(\)"
        ):
            call()


def test_a_closed_client_is_refused(cluster_client):
    closed = Client(cluster_client.scheduler.address, set_as_default=False)
    closed.close()
    with pytest.raises(ValueError, match="`client` must be connected, got one that is closed"):
        grf.distributed.sample_features(GRAPH, WALKS, client=closed)


def test_a_scheduler_without_workers_is_told_apart():
    with (
        LocalCluster(n_workers=0, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as client,
        pytest.raises(RuntimeError, match="has no workers: start some"),
    ):
        grf.distributed.sample_features(GRAPH, WALKS, client=client)
