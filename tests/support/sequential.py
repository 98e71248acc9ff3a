r"""Sequential tests of means and rates with a false-alarm rate that is set beforehand.

Tests of random code either fail now and then on correct code, or have their seeds chosen until they
pass. Here each test states its false-alarm rate (`level`), a correct sampler usually passes in the
first round, a clear bias fails in the first round, and doubt buys a fresh, larger sample. Seeds are
fixed by the caller, so a result is reproducible, and no seed needs to be searched for; a night has
seeds of its own (`false_alarms.py`, which also adds up the levels of a session). Rates are exact in
`assert_rates`, whose p-values are binomial; in `assert_unbiased` they are those of Student's law,
corrected for skewness, far into tails where that is an approximation. Tests that compare fixed
seeds with a threshold of their own cannot alarm by chance.

Source: Gandy and Scott, "Unit Testing for MCMC and other Monte Carlo Methods", arXiv:2001.06465,
Sec. 3, Algorithm 3 and Theorem 3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import stats

from tests.support.false_alarms import LEVEL, account, numbered

Draw = Callable[[int, int], np.ndarray]
Judge = Callable[[np.ndarray], tuple[np.ndarray, Callable[[int], str]]]


def assert_unbiased(
    draw: Draw,
    truth: Any,
    *,
    n0: int = 1000,
    level: float = LEVEL,
    rounds: int = 7,
    slack: float = 0.0,
    names: Sequence[str] | None = None,
) -> None:
    """Raise `AssertionError` if the mean of `draw` differs from `truth` in any projection.

    The p-values are exact for normal draws. For others they are an approximation: of Student's
    statistic and of what Hall's transformation makes of it with the sample's skewness g, the larger
    p-value. That errs on the safe side where |g| / sqrt(n0) is below 0.15 and what is rare happens
    some fifty times in n0 draws; else raise n0. Where g is larger, Student's law alone may alarm
    more than a thousand times as often as it says.

    Parameters
    ----------
    draw : callable (round, n) -> array, shape (n, n_projections)
        n independent draws of the projected estimate. Rounds must be independent of each other, so
        derive the seeds from the round (an integer from 0 to 1.6e10) and the draw, such as
        round * 10**6 + i.
    truth : array_like, shape (n_projections,)
        Their exact means.
    n0 : int
        Draws in the first round; later rounds have 4 n0. The p-values at stake are near `level` /
        (7 n_projections). The smallest bias that is found in the first round is about 6.5 standard
        deviations of one draw over sqrt(n0), and more where draws are skewed.
    level : float
        Bound on the probability that a correct sampler fails.
    rounds : int
        Most rounds to run; what is still in doubt after the last one passes.
    slack : float
        What a mean may be off by, beside 1e-10 of the truth or of the median draw: by rounding, or
        because the truth is an approximation as good as that.
    names : sequence of str, optional
        Of the projections, for the message.
    """
    truth = np.atleast_1d(np.asarray(truth, dtype=np.float64))
    assert np.isfinite(truth).all(), "truth must be finite"

    def judge(sample: np.ndarray) -> tuple[np.ndarray, Callable[[int], str]]:
        p_values, z = _p_values(sample, truth, slack)
        return (
            p_values,
            lambda worst: (
                f"biased: {names[worst] if names else f'projection {worst}'} has mean "
                f"{sample[:, worst].mean():.6g}, expected {truth[worst]:.6g} (z = {z[worst]:.1f}"
            ),
        )

    account.spend(level)
    sequential_test(_numbered(draw), truth.size, judge, n0=n0, level=level, rounds=rounds)


def assert_rates(
    draw: Draw, low: Any, high: Any, *, n0: int = 1000, level: float = LEVEL, rounds: int = 7
) -> None:
    """Raise `AssertionError` if an event of `draw` is outside of rates `low` to `high`.

    Parameters
    ----------
    draw : callable (round, n) -> array of bool, shape (n, n_events)
        Whether the events happened in n independent trials; otherwise as in `assert_unbiased`.
    low, high : array_like, shape (n_events,)
        What their probabilities lie between. The binomial test of a bound is exact, for rare events
        too.
    n0, level, rounds
        As in `assert_unbiased`.
    """
    low, high = np.atleast_1d(low).astype(float), np.atleast_1d(high).astype(float)

    def judge(sample: np.ndarray) -> tuple[np.ndarray, Callable[[int], str]]:
        n, count = sample.shape[0], sample.sum(axis=0)
        p_values = 2 * np.minimum(
            stats.binom.sf(count - 1, n, high), stats.binom.cdf(count, n, low)
        )
        return (
            np.minimum(p_values, 1.0),
            lambda worst: (
                f"wrong rate: event {worst} happened {count[worst]:.0f} times in {n}, expected at "
                f"a rate of {low[worst]:.4g} to {high[worst]:.4g} (p = {p_values[worst]:.2g}"
            ),
        )

    account.spend(level)
    sequential_test(_numbered(draw), low.size, judge, n0=n0, level=level, rounds=rounds)


def _numbered(draw: Draw) -> Draw:
    return lambda index, n: draw(numbered(index), n)


def sequential_test(
    draw: Draw, size: int, judge: Judge, *, n0: int, level: float, rounds: int
) -> None:
    """Raise `AssertionError`, with probability at most `level` for true hypotheses.

    `judge` gives the p-values of a sample of `size` columns, and in words what a column says. Not
    counted, and rounds are 0, 1, ... on any night.

    Round r compares q = size * min(p-values), a Bonferroni p-value, with beta: it fails if
    q <= beta, passes if q > beta + gamma, and else continues with beta / gamma, where
    beta = level / rounds at first and gamma = beta^(1 / rounds). A correct sampler reaches round r
    with probability at most gamma^(r - 1), so every round contributes at most level / rounds.
    """
    beta = level / rounds
    gamma = beta ** (1 / rounds)
    n = n0
    for index in range(rounds):
        sample = np.asarray(draw(index, n), dtype=np.float64)
        assert sample.shape == (n, size), f"draw must return {(n, size)}, got {sample.shape}"
        assert np.isfinite(sample).all(), "draw must return finite numbers"
        p_values, words = judge(sample)
        worst = int(p_values.argmin())
        q = size * float(p_values[worst])
        if q <= beta:
            raise AssertionError(
                f"{words(worst)}, round {index + 1}, {n} draws, false-alarm rate {level:g})"
            )
        if q > beta + gamma:
            return
        beta /= gamma
        n = 4 * n0


def _p_values(sample: np.ndarray, truth: np.ndarray, slack: float) -> tuple[np.ndarray, np.ndarray]:
    """Two-sided p-values and Student statistics of means off by more than `slack`.

    The larger p-value of the statistic and of what corrects it for skewness.
    """
    n = sample.shape[0]
    mean = sample.mean(axis=0)
    rounding = 1e-10 * np.maximum(np.abs(truth), np.abs(np.median(sample, axis=0)))
    off = np.abs(mean - truth) - rounding - slack
    error = sample.std(axis=0, ddof=1) / np.sqrt(n)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(off > 0, np.copysign(off, mean - truth) / error, 0.0)
    p_values = 2 * stats.t.sf(
        np.minimum(np.abs(z), np.abs(unskewed(z, skewness(sample), n))), n - 1
    )
    return p_values, z


def skewness(sample: np.ndarray) -> np.ndarray:
    """E(x - E x)^3 / sd^3 of every column, 0 of those that are constant but for rounding."""
    centred = sample - sample.mean(axis=0)
    spread = np.sqrt((centred**2).mean(axis=0))
    varies = spread > 1e-10 * np.abs(sample).max(axis=0)
    cube = ((centred / np.where(varies, spread, 1.0)) ** 3).mean(axis=0)
    return np.where(varies, cube, 0.0)


def unskewed(t: np.ndarray, skew: np.ndarray, n: int) -> np.ndarray:
    """Student's statistic of n skewed draws, made nearly normal: increasing in t.

    With a = skew / (3 sqrt(n)): t + a t^2 + a^2 t^3 / 3 + a / 2. Where the skewness is positive,
    samples that lack the large values have a low mean and a small deviation, so that the left tail
    of t is heavy.

    Source: P. Hall, "On the removal of skewness by transformation", J. R. Stat. Soc. B 54 (1992),
    221-228.
    """
    a = skew / (3 * np.sqrt(n))
    finite = np.where(np.isfinite(t), t, 0.0)
    return np.where(np.isfinite(t), finite + a * finite**2 + a**2 * finite**3 / 3 + a / 2, t)
