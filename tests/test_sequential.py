"""The sequential test itself: its false-alarm rate and its power."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sequential import assert_unbiased


def normal(shift: float, seed: int = 0):
    def draw(index: int, n: int) -> np.ndarray:
        return np.random.default_rng([seed, index]).normal(size=(n, 3)) + [0.0, 0.0, shift]

    return draw


def test_a_correct_sampler_passes() -> None:
    assert_unbiased(normal(0.0), np.zeros(3))


def test_the_false_alarm_rate_is_at_most_the_level() -> None:
    alarms = 0
    for seed in range(400):
        try:
            assert_unbiased(normal(0.0, seed + 1), np.zeros(3), n0=50, level=0.05)
        except AssertionError:
            alarms += 1
    assert alarms <= 38  # binomial(400, 0.05) exceeds this with probability 1e-4


def test_a_bias_of_a_quarter_standard_deviation_fails() -> None:
    with pytest.raises(AssertionError, match=r"projection 2 .*round 1"):
        assert_unbiased(normal(0.25), np.zeros(3))


def test_a_bias_in_doubt_is_found_by_a_larger_sample() -> None:
    # Samples of mean 4 / sqrt(1000) and deviation 1: no proof at n0, but 8 standard errors at 4 n0.
    def draw(index: int, n: int) -> np.ndarray:
        return np.resize([-1.0, 1.0], (n, 1)) + 4 / np.sqrt(1000)

    with pytest.raises(AssertionError, match="round 2"):
        assert_unbiased(draw, 0.0)


def test_a_constant_projection_must_equal_its_truth() -> None:
    assert_unbiased(lambda index, n: np.full((n, 1), 1 / 3), 1 / 3)
    with pytest.raises(AssertionError, match="biased"):
        assert_unbiased(lambda index, n: np.full((n, 1), 0.34), 1 / 3)


def test_draws_of_the_wrong_shape_are_refused() -> None:
    with pytest.raises(AssertionError, match=r"must return \(1000, 3\)"):
        assert_unbiased(lambda index, n: np.zeros((n, 2)), np.zeros(3))
