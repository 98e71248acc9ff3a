"""How walks are dealt to sources and batches, and the standard error that batches give."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from graphrf.pagerank.problem import make_problem
from graphrf.pagerank.walks import batches
from tests.pagerank.oracles import directed_graph

START = np.array([0.0, 0.3, 0.05, 0.0, 0.05, 0.4, 0.2])


@pytest.mark.parametrize("group", [1, 3])
def test_starts_are_shares_rounded_with_the_right_mean(group: int) -> None:
    problem = make_problem(directed_graph(), 0.15, START)
    # Cumulative shares of 3 * 5 groups are multiples of 1/4, so four offsets are exact.
    dealt = np.array([batches.starts(problem, 3, group, (i + 0.5) / 4) for i in range(4)])
    expected = START[START > 0] * 15 * group
    assert dealt.mean(axis=0) == pytest.approx(expected, abs=1e-12)
    assert np.all(np.abs(dealt - expected) < group)
    assert np.all(dealt % group == 0)
    assert np.all(dealt.sum(axis=1) == 15 * group)


def test_batches_differ_by_at_most_one() -> None:
    assert batches.split(11, 4) == [3, 3, 3, 2]
    assert batches.split(4, 4) == [1, 1, 1, 1]


def test_keys_and_offsets_of_batches_and_vectors_differ() -> None:
    counters = itertools.product((0, 1), range(50), (0, 1))
    drawn = [batches.batch_key(np.uint64(seed), batch, vector) for seed, batch, vector in counters]
    assert len({int(key) for key, _ in drawn}) == 200
    assert len({offset for _, offset in drawn}) == 200
    assert all(0 <= offset < 1 for _, offset in drawn)


def test_one_pass_gives_the_ratio_and_its_residuals() -> None:
    rng = np.random.default_rng(0)
    weights = np.array([0.3, 0.3, 0.2, 0.2])
    # Nearly equal: squares must not cancel.
    parts = weights[:, None] * (1 + 1e-7 * rng.normal(size=(4, 6)))
    mean = batches.BatchMean(6)
    for part, weight in zip(parts, weights, strict=True):
        mean.add(part, weight)
    scores, stderr = mean.result()
    total = parts.sum()
    residuals = parts - parts.sum(axis=0) / total * parts.sum(axis=1, keepdims=True)
    assert scores == pytest.approx(parts.sum(axis=0) / total, abs=1e-15)
    expected = np.sqrt((residuals**2).sum(axis=0) / (1 - (weights**2).sum())) / total
    assert stderr == pytest.approx(expected, rel=1e-6)
