r"""A sequential test of unbiasedness whose false-alarm rate is set beforehand, for any sampler.

Tests of random code either fail now and then on correct code, or have their seeds chosen until they pass.
Here each test states its false-alarm rate (`level`), a correct sampler usually passes in the first round, a
clear bias fails in the first round, and doubt buys a fresh, larger sample. Seeds are fixed by the caller, so
a result is reproducible, and no seed needs to be searched for.

Source: Gandy and Scott, "Unit Testing for MCMC and other Monte Carlo Methods", arXiv:2001.06465, Sec. 3,
Algorithm 3 and Theorem 3.1.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import stats

# The whole suite may raise a false alarm with probability 1e-4; it has fewer than 200 of these tests.
LEVEL = 1e-4 / 200


def assert_unbiased(
    draw: Callable[[int, int], np.ndarray],
    truth: np.ndarray,
    *,
    n0: int = 1000,
    level: float = LEVEL,
    rounds: int = 7,
) -> None:
    """Raise `AssertionError` if the mean of `draw` differs from `truth` in any projection.

    Parameters
    ----------
    draw : callable (round, n) -> array, shape (n, n_projections)
        n independent draws of the projected estimate. Rounds must be independent of each other, so derive the
        seeds from the round (0, 1, ...) and the draw.
    truth : array_like, shape (n_projections,)
        Their exact means.
    n0 : int
        Draws in the first round; later rounds have 4 n0. Large enough for the mean of n0 draws to be normal
        far into its tails: the p-values at stake are near `level` / (7 n_projections). The smallest bias that
        is found in the first round is about 6 standard deviations of one draw over sqrt(n0).
    level : float
        Bound on the probability that a correct sampler fails.
    rounds : int
        Most rounds to run; what is still in doubt after the last one passes.

    Notes
    -----
    Round r compares q = n_projections * min(p-values), a Bonferroni p-value, with beta: it fails if
    q <= beta, passes if q > beta + gamma, and else continues with beta / gamma, where beta = level / rounds
    at first and gamma = beta^(1 / rounds). A correct sampler reaches round r with probability at most
    gamma^(r - 1), so every round contributes at most level / rounds.
    """
    truth = np.atleast_1d(np.asarray(truth, dtype=np.float64))
    beta = level / rounds
    gamma = beta ** (1 / rounds)
    n = n0
    for index in range(rounds):
        sample = np.asarray(draw(index, n), dtype=np.float64)
        assert sample.shape == (n, truth.size), f"draw must return {(n, truth.size)}, got {sample.shape}"
        p_values, z = _p_values(sample, truth)
        worst = int(p_values.argmin())
        q = truth.size * float(p_values[worst])
        if q <= beta:
            raise AssertionError(
                f"biased: projection {worst} has mean {sample[:, worst].mean():.6g}, expected "
                f"{truth[worst]:.6g} (z = {z[worst]:.1f}, round {index + 1}, {n} draws, false-alarm rate "
                f"{level:g})"
            )
        if q > beta + gamma:
            return
        beta /= gamma
        n = 4 * n0


def _p_values(sample: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two-sided Student p-values and statistics of the means; a constant projection must equal its truth."""
    n = sample.shape[0]
    scale = np.maximum(np.abs(sample).max(axis=0), np.abs(truth))
    difference = sample.mean(axis=0) - truth
    error = sample.std(axis=0, ddof=1) / np.sqrt(n)
    constant = error <= 1e-14 * scale
    off = np.abs(difference) > 1e-10 * scale
    z = np.where(constant, np.where(off, np.inf, 0.0), difference / np.where(constant, 1.0, error))
    return 2 * stats.t.sf(np.abs(z), n - 1), z
