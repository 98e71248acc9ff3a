"""The loops, exactly: all their random choices enumerated, in Python, against powers of P."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import scipy.sparse as sp

import graphrf as grf
from graphrf.pagerank.walks import pooled, walker_loops
from graphrf.sampling.walks.transitions import transitions
from tests.pagerank.oracles import directed_graph, lopsided_graph, transition_matrix

# Any survival table will do here: the loops must not care.
SURVIVAL = np.array([1.0, 0.7, 0.6, 0.2])


class Choices:
    """Runs a function for every sequence of choices it makes, with its probability."""

    def __init__(self) -> None:
        self._prefix: list[int] = []
        self._made: list[tuple[int, np.ndarray]] = []

    def choose(self, probabilities: np.ndarray) -> int:
        i = len(self._made)
        choice = self._prefix[i] if i < len(self._prefix) else 0
        self._made.append((choice, probabilities))
        return choice

    def enumerate(self, run: Callable[[], np.ndarray]) -> Iterator[tuple[float, np.ndarray]]:
        waiting: list[list[int]] = [[]]
        while waiting:
            self._prefix, self._made = waiting.pop(), []
            result = run()
            yield float(np.prod([options[choice] for choice, options in self._made])), result
            taken = [choice for choice, _ in self._made]
            for i in range(len(self._prefix), len(taken)):
                waiting += [taken[:i] + [other] for other in range(1, self._made[i][1].size)]


@pytest.mark.parametrize("make_graph", [directed_graph, lopsided_graph])
@pytest.mark.parametrize("visits", [True, False])
@pytest.mark.parametrize("source", [0, 2, 3, 4])
def test_walks_have_the_expected_counts(
    monkeypatch: pytest.MonkeyPatch, make_graph: Callable, visits: bool, source: int
) -> None:
    graph = make_graph()
    walk_arrays = transitions(graph.adjacency)
    chain = transition_matrix(graph)
    choices = Choices()

    def draw_lengths(source, rule, survival, permutations, key, lengths):
        lengths[0] = choices.choose(survival - np.append(survival[1:], 0.0))

    def neighbour(v, bits, indptr, indices, cumulative):
        neighbours = indices[indptr[v] : indptr[v + 1]]
        return neighbours[choices.choose(chain[v, neighbours])]

    monkeypatch.setattr(walker_loops, "draw_lengths", draw_lengths)
    monkeypatch.setattr(walker_loops, "neighbour", neighbour)
    monkeypatch.setattr(walker_loops, "philox", lambda *counter: (np.uint64(0),) * 4)
    monkeypatch.setattr(walker_loops, "uint64", np.uint64)
    monkeypatch.setattr(walker_loops, "_advance", walker_loops._advance.py_func)

    def run() -> np.ndarray:
        counts = np.zeros(graph.n_nodes, np.int64)
        steps, _ = walker_loops.count_walks.py_func(
            *walk_arrays,
            np.array([source]),
            1,
            0,
            SURVIVAL,
            np.zeros((0, 1), np.int64),
            0,
            visits,
            counts,
            False,
        )
        if visits:
            assert counts.sum() == steps
        return counts

    mean = sum(probability * counts for probability, counts in choices.enumerate(run))
    weight = np.r_[0.0, SURVIVAL[1:]] if visits else SURVIVAL - np.append(SURVIVAL[1:], 0.0)
    expected = sum(
        weight[k] * np.linalg.matrix_power(chain, k)[source] for k in range(SURVIVAL.size)
    )
    assert mean == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("population", [(1, 1, 1), (1, 2, 3), (3, 3, 2), (5, 4, 2), (0, 1, 7)])
def test_stops_have_the_expected_number_and_their_sum_is_rounded(
    population: tuple[int, ...],
) -> None:
    # At p = 1/4 all thresholds of the pivotal rounding are multiples of 1/12, so a grid of
    # midpoints is exact.
    grid = (np.arange(12) + 0.5) / 12
    stops = []
    for *uniforms, last in itertools.product(grid, repeat=4):
        left = np.array([*population, 0])
        pooled._stop(left, 0.25, np.array(uniforms), last)
        stops.append(np.array(population) - left[:-1])
    expected = 0.25 * np.array(population)
    assert np.mean(stops, axis=0) == pytest.approx(expected, abs=1e-13)
    assert np.all(np.abs(stops - expected) < 1)
    assert np.all(np.abs(np.sum(stops, axis=1) - expected.sum()) < 1)


@pytest.mark.parametrize("p_halt", [0.1, 1 / 3, 0.85])
def test_the_carry_is_exact(p_halt: float) -> None:
    # Against the sum of the fractions as integers: the
    # last uniform decides, to the last bit of the carry.
    rng = np.random.default_rng(0)
    populations = rng.integers(0, 1000, pooled.BLOCK)
    total = sum(int(expected * pooled.ONE) for expected in (populations * p_halt).tolist())
    whole, carry = divmod(total, pooled.ONE)
    for last, more in ((carry, 0), (carry - 1, 1)):
        left = np.append(populations, 0)
        pooled._stop(left, p_halt, rng.random(pooled.BLOCK), last / pooled.ONE)
        assert (populations - left[:-1]).sum() == whole + more


@pytest.mark.parametrize("make_graph", [directed_graph, lopsided_graph])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("count", [1, 3, 9])
def test_walkers_are_dealt_in_proportion_rounded_up_or_down(
    make_graph: Callable, weighted: bool, count: int
) -> None:
    graph = make_graph()
    adjacency = graph.adjacency if weighted else (graph.adjacency != 0).astype(float)
    walk_arrays = transitions(adjacency)
    assert (walk_arrays.cumulative.size > 0) == weighted
    for u in (0, 2):
        share = adjacency.toarray()[u] / adjacency.toarray()[u].sum()
        # Breakpoints of the systematic sampling are multiples
        # of 1/cells: shares here are of 1/9, 1/15 or 1/5.
        cells = 180 * count
        total = np.zeros(graph.n_nodes, np.int64)
        for i in range(cells):
            bits = np.uint64((2 * i + 1) * 2**63 // cells)
            dealt = np.zeros(graph.n_nodes, np.int64)
            reached = np.full(count, -1)
            n = pooled._deal(u, count, bits, *walk_arrays, dealt, reached, 0)
            assert sorted(reached[:n]) == np.flatnonzero(dealt).tolist()
            again = np.zeros(graph.n_nodes, np.int64)
            pooled._deal(u, count, bits, *walk_arrays, again, None, 0)
            assert np.array_equal(dealt, again)
            assert dealt.sum() == count
            assert np.all(np.abs(dealt - count * share) < 1)
            total += dealt
        assert total / cells == pytest.approx(count * share, abs=1e-12)


@pytest.mark.parametrize("weighted", [True, False])
def test_few_walkers_on_a_hub_are_dealt_evenly(weighted: bool) -> None:
    # Fewer walkers than a quarter of the neighbours take another way than many.
    weights = np.r_[np.full(20, 1.0), np.full(20, 3.0)] if weighted else np.ones(40)
    hub = np.zeros((41, 41))
    hub[0, 1:] = hub[1:, 0] = weights
    walk_arrays = transitions(grf.Graph(hub).adjacency)
    for count in (1, 3, 9, 10, 11):
        total = np.zeros(41, np.int64)
        cells = 80 * count
        for i in range(cells):
            dealt = np.zeros(41, np.int64)
            bits = np.uint64((2 * i + 1) * 2**63 // cells)
            pooled._deal(0, count, bits, *walk_arrays, dealt, None, 0)
            assert dealt.sum() == count
            assert np.all(np.abs(dealt[1:] - count * weights / weights.sum()) < 1)
            total += dealt
        assert total[1:] / cells == pytest.approx(count * weights / weights.sum(), abs=1e-9)


def test_sweeps_and_lists_and_threads_make_the_same_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    # 20,000 nodes are five blocks; most walkers start in the first two, and a list ends the pool.
    n_nodes = 20_000
    ring = sp.diags_array([np.ones(n_nodes - 1)] * 2, offsets=[-1, 1], format="csr")
    walk_arrays = transitions(grf.Graph(ring).adjacency)
    starts = np.r_[np.full(5000, 3), np.zeros(n_nodes - 5000)].astype(np.int64)
    runs = []
    for n_threads in (1, 5):
        counts = np.zeros(n_nodes, np.int64)
        steps = pooled.count_pool(walk_arrays, starts, 0.15, np.uint64(5), counts, n_threads)
        assert steps == counts.sum()
        runs.append(counts)
    assert all(np.array_equal(counts, runs[0]) for counts in runs)
    # Walkers stop in proportion: rounding in five blocks
    # leaves the total within a few of its expectation.
    rounds = np.arange(1, 60)
    assert abs(runs[0].sum() - (15_000 * 0.85**rounds).sum()) < 5 * rounds.size
