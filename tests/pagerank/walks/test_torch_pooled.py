"""Pools run by torch make the counts of the compiled loops, the oracle, bit for bit."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

import graphrf as grf
from graphrf.pagerank import estimate, refine
from graphrf.pagerank.walks import pooled
from graphrf.sampling.walks.transitions import Transitions, transitions
from tests.pagerank.oracles import directed_graph, lopsided_graph

torch = pytest.importorskip("torch")

from graphrf.pagerank.walks import pooled_torch  # noqa: E402 (needs torch)
from graphrf.sampling.walks.transitions_torch import on_device  # noqa: E402
from tests.support.simulated_device import SimulatedDevice  # noqa: E402

KEY = 2**63 + 12345


def hub_graph(n_nodes: int, *, weighted: bool) -> Transitions:
    """Directed, with a hub that every seventh node is on both sides of, and dangling nodes."""
    rng = np.random.default_rng(n_nodes)
    edges = rng.integers(0, n_nodes, (2, 4 * n_nodes))
    some = np.arange(0, n_nodes, 7)
    hub = np.full(some.size, 3)
    tails = np.r_[edges[0], hub, some]
    heads = np.r_[edges[1], some, hub]
    keep = tails % 11 != 5
    weights = rng.integers(1, 50, tails.size) if weighted else np.ones(tails.size)
    adjacency = sp.coo_array(
        (weights[keep], (tails[keep], heads[keep])), shape=(n_nodes, n_nodes)
    ).tocsr()
    adjacency.sum_duplicates()
    if not weighted:
        adjacency.data[:] = 1.0
    return transitions(adjacency)


GRAPHS = {
    "one": transitions(grf.Graph([[0]]).adjacency),
    "loop": transitions(grf.Graph([[1]]).adjacency),
    "directed": transitions(directed_graph().adjacency),
    "lopsided": transitions(lopsided_graph().adjacency),
    **{
        f"{n_nodes}-{'weighted' if weighted else 'plain'}": hub_graph(n_nodes, weighted=weighted)
        for n_nodes, weighted in itertools.product((300, 10_000), (False, True))
    },
}
STARTS = {
    "even": lambda n: np.full(n, 16),
    # Few of many nodes: followed by a list from the beginning.
    "hub": lambda n: np.where(np.arange(n) == min(3, n - 1), n // 20 + 1, 0),
    "some": lambda n: np.where(np.arange(n) % 3 == 0, np.arange(n) % 19, 0),
    "many": lambda n: np.full(n, 10**7 // n + 1),
    "none": lambda n: np.zeros(n),
}


def by_numba(
    arrays: Transitions, starts: np.ndarray, p_halt: float, key: int = KEY
) -> tuple[list[int], int]:
    counts = np.zeros(starts.size, np.int64)
    steps = pooled.count_pool(arrays, starts, p_halt, np.uint64(key), counts, 1)
    return counts.tolist(), steps


def by_torch(
    arrays: Transitions,
    starts: np.ndarray,
    p_halt: float,
    key: int = KEY,
    *,
    device: str | torch.device = "cpu",
    **options: int,
) -> tuple[list[int], int]:
    walk = on_device(arrays, torch.device(device))
    counts = torch.zeros(starts.size, dtype=torch.int64, device=device)
    steps = pooled_torch.count_pool_on(
        walk, torch.from_numpy(starts).to(device), p_halt, key, counts, **options
    )
    return counts.tolist(), steps


# Rounds are about log(walkers) / p_halt.
@pytest.mark.parametrize(
    ("start", "p_halt"),
    [("even", 0.15), ("even", 0.85), ("hub", 0.02), ("some", 0.15), ("many", 0.85), ("none", 0.15)],
)
@pytest.mark.parametrize("graph", GRAPHS)
def test_counts_are_those_of_the_compiled_loops(graph: str, start: str, p_halt: float) -> None:
    arrays = GRAPHS[graph]
    starts = STARTS[start](arrays.indptr.size - 1).astype(np.int64)
    assert by_torch(arrays, starts, p_halt) == by_numba(arrays, starts, p_halt)


@pytest.mark.cuda
@pytest.mark.parametrize("start", ["even", "hub"])
@pytest.mark.parametrize("graph", GRAPHS)
def test_counts_of_a_gpu_are_those_of_the_compiled_loops(
    graph: str, start: str, gpu: torch.device
) -> None:
    arrays = GRAPHS[graph]
    starts = STARTS[start](arrays.indptr.size - 1).astype(np.int64)
    assert by_torch(arrays, starts, 0.15, device=gpu) == by_numba(arrays, starts, 0.15)


@pytest.mark.parametrize("chunk", [1, 17, 4096])
@pytest.mark.parametrize("graph", ["directed", "300-plain", "300-weighted"])
def test_chunks_do_not_change_a_bit(graph: str, chunk: int) -> None:
    arrays = GRAPHS[graph]
    starts = STARTS["some"](arrays.indptr.size - 1)
    assert by_torch(arrays, starts, 0.4, chunk=chunk) == by_numba(arrays, starts, 0.4)


@pytest.mark.parametrize("graph", ["10000-plain", "10000-weighted"])
def test_blocks_in_chunks_of_nodes_do_not_change_a_bit(graph: str) -> None:
    arrays = GRAPHS[graph]
    starts = STARTS["even"](10_000)
    assert by_torch(arrays, starts, 0.6, chunk=5000) == by_numba(arrays, starts, 0.6)


def test_other_keys_blocks_or_orders_make_other_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    # Negative control: what the engines must agree on does show in the counts.
    arrays = GRAPHS["10000-weighted"]
    even, hub = (STARTS[start](10_000) for start in ("even", "hub"))
    assert by_torch(arrays, even, 0.4, KEY + 1) != by_numba(arrays, even, 0.4)
    assert by_torch(arrays, even, 0.4 + 1e-6) != by_numba(arrays, even, 0.4)
    with monkeypatch.context() as patch:
        patch.setattr(pooled_torch, "BLOCK", 2 * pooled.BLOCK)
        assert by_torch(arrays, even, 0.4) != by_numba(arrays, even, 0.4)
    with monkeypatch.context() as patch:
        deal = pooled_torch._deal
        patch.setattr(pooled_torch, "_deal", lambda *given: reversed(list(deal(*given))))
        assert by_torch(arrays, hub, 0.4, chunk=100) != by_numba(arrays, hub, 0.4)


def test_the_quotient_of_64_ones_is_that_of_unsigned_integers() -> None:
    divisors = [1, 2, 3, 4, 5, 10**6 + 1, 2**31, 2**62 - 1, 2**62]
    found = pooled_torch._quotient_of_all(torch.tensor(divisors))
    assert [int(quotient) % 2**64 for quotient in found] == [
        (2**64 - 1) // divisor for divisor in divisors
    ]


# -- the fronts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"n_batches": 4, "p_halt": 0.5},
        {"tol": 0.05},
        {"exact_steps": 3},
        {"personalization": {"b": 1.0, "e": 2.0}, "n_walks": 1000},
        {"personalization": np.eye(7)[:3], "n_batches": 2},
        {"device": torch.device("cpu", 0), "n_threads": 3},
    ],
    ids=["plain", "batches", "tol", "exact", "personal", "several", "device"],
)
def test_results_are_the_same_to_the_bit(options: dict) -> None:
    graph = directed_graph()
    one, other = (estimate(graph, seed=3, engine=engine, **options) for engine in (None, "torch"))
    assert one.scores.tolist() == other.scores.tolist()
    assert np.array_equal(one.stderr, other.stderr)
    assert (one.steps, one.walks, one.n_batches) == (other.steps, other.walks, other.n_batches)


@pytest.mark.cuda
def test_scores_of_a_gpu_are_the_same_to_the_bit(gpu: torch.device) -> None:
    for options in ({}, {"n_batches": 4, "p_halt": 0.5}, {"exact_steps": 3}):
        one = estimate(directed_graph(), seed=3, **options)
        other = estimate(directed_graph(), seed=3, engine="torch", device=gpu, **options)
        assert one.scores.tolist() == other.scores.tolist()
        assert np.array_equal(one.stderr, other.stderr)


def test_the_engine_asked_for_is_the_one_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: object) -> int:
        raise AssertionError("torch ran")

    monkeypatch.setattr(pooled_torch, "pool_counts", refuse)
    for options in ({}, {"engine": "numba"}, {"device": "cpu:0"}, {"device": torch.device("cpu")}):
        estimate(lopsided_graph(), seed=0, **options)
    with pytest.raises(AssertionError, match="torch ran"):
        estimate(lopsided_graph(), seed=0, engine="torch")


BAD = {
    "engine": (
        {"engine": "cuda"},
        ValueError,
        "`engine` must be one of 'numba', 'torch', got 'cuda'",
    ),
    "kind": ({"engine": 1}, TypeError, "`engine` must be one of 'numba', 'torch', got int 1"),
    "coupling": (
        {"engine": "torch", "coupling": "iid"},
        ValueError,
        "`coupling` must be 'pooled' for engine='torch', got 'iid'; .* engine='numba'",
    ),
    "learned": (
        {"engine": "torch", "coupling": grf.sampling.Coupling(np.array([[1, 0]]))},
        ValueError,
        "`coupling` must be 'pooled' for engine='torch', got Coupling",
    ),
    "device": (
        {"device": "gpu"},
        ValueError,
        "`device` must be a torch device .* such as 'cpu'.*, got 'gpu'",
    ),
    "empty": (
        {"device": "meta"},
        ValueError,
        "`device` must be a torch device at hand .* got 'meta'",
    ),
    "number": (
        {"device": 0.5, "engine": "torch"},
        ValueError,
        "`device` must be a torch device .* got 0.5",
    ),
}


@pytest.mark.parametrize(("options", "error", "message"), BAD.values(), ids=BAD)
def test_bad_engines_and_devices_are_named(
    options: dict, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        estimate(lopsided_graph(), **options)
    with pytest.raises(error, match=message):
        next(refine(lopsided_graph(), **options))


def test_numba_is_refused_on_other_devices() -> None:
    refusal = "`engine` must be 'torch', or None, for device='meta', got 'numba'"
    with SimulatedDevice(), pytest.raises(ValueError, match=refusal):
        estimate(lopsided_graph(), engine="numba", device="meta")


def test_pools_on_another_device_give_the_same_scores_and_only_counts_come_back() -> None:
    graph = grf.Graph(sp.kron(sp.eye_array(20), lopsided_graph().adjacency), directed=True)
    expected = estimate(graph, seed=3)
    with SimulatedDevice() as device:
        result = estimate(graph, seed=3, device="meta")
    np.testing.assert_array_equal(result.scores, expected.scores)
    assert device.largest("from") == graph.n_nodes
