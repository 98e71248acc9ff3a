"""Growth with the number of times, calibration over the prior, `update` against a fit."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import graphrf as grf
from graphrf.gp.time import ConstantTime, MaternTime, Part, kalman, kalman_covariances
from graphrf.gp.time.covariance import GridCovariance, Sensors, Separable
from graphrf.gp.time.gaps import ObservedCells
from graphrf.gp.time.posterior import QueriedNodes, TimePosterior, process_draws
from tests.support.sequential import assert_rates

PARTS = (
    Part(ConstantTime(), 0.5, 0.3),
    Part(MaternTime(4.0, nu=1.5), 1.0, 0.2),
    Part(MaternTime(1.0), 0.2, 0.3),
)
NOISE = 0.2
GRAPH = grf.from_edges([*range(9), 0], [*range(1, 10), 5])
KERNEL = grf.Diffusion(1.5)
SENSORS = np.array([0, 1, 3, 4, 6, 9])
TIMES = np.array([0.0, 1.0, 2.0, 3.5, 4.0, 7.0, 8.0])
N_DRAWS = 19


# -- growth ----------------------------------------------------------------------------------------

PASSES = {
    "gains": kalman_covariances,
    "filtered": kalman,
    "unfiltered": kalman,
    "smoothed": kalman,
    "products": kalman,
}


def work(monkeypatch, n_times: int) -> tuple[int, int]:
    """Times that the compiled loops pass in a fit with all predictions, and the peak of memory."""
    passed = 0
    y = 0.4 * np.random.default_rng(0).standard_normal((n_times, 6))

    def counted(loop):
        def run(phi, which, *arguments):
            nonlocal passed
            passed += which.size
            return loop(phi, which, *arguments)

        return run

    with monkeypatch.context() as patch:
        for name, module in PASSES.items():
            patch.setattr(module, name, counted(getattr(module, name)))
        tracemalloc.start()
        gp = grf.gp.GraphTimeGPRegressor(
            GRAPH, KERNEL, PARTS, noise=NOISE, optimize=False, n_threads=1
        )
        gp.fit(y, times=np.arange(float(n_times)), nodes=SENSORS)
        gp.predict(return_std=True)
        gp.predict([0, 2], [n_times + 1.0], return_std=True)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert passed > 0
    return passed, peak


def test_work_and_memory_are_linear_in_the_number_of_times(monkeypatch):
    sizes = np.array([1_000, 3_000, 9_000])
    work(monkeypatch, 100)  # compiles, which takes memory
    found = np.log([work(monkeypatch, size) for size in sizes])
    passes, memory = np.polyfit(np.log(sizes), found, 1)[0]
    assert passes == pytest.approx(1.0, abs=0.01)
    assert 0.8 < memory < 1.05


# -- calibration -----------------------------------------------------------------------------------


def ranks(gaps: str, believed_noise: float = NOISE):
    """For draws of the prior, whether the truth's rank among 19 is low, extreme, middling.

    `gaps`: "none", "times" (all sensors at once) or "cells". The truth is at a random place,
    observed or not.
    """
    near = KERNEL.dense(GRAPH)
    near /= np.diag(near).mean()
    model = Separable(PARTS, NOISE)
    places = np.array([0, 2, 4, 8])
    at = np.array([-1.0, 2.0, 3.0, 7.0, 9.0])
    grid = np.union1d(TIMES, at)
    steps = GridCovariance(model, Sensors.of(near), grid).steps
    roots = [np.linalg.cholesky(part.shared * near + part.own * np.eye(10)) for part in PARTS]
    mask = np.ones((TIMES.size, SENSORS.size), bool)
    if gaps == "times":
        mask[[2, 5]] = False
    if gaps == "cells":
        mask = np.random.default_rng(0).random(mask.shape) < 0.6
    believed = Separable(PARTS, believed_noise)
    covariance = GridCovariance(believed, Sensors.of(near[np.ix_(SENSORS, SENSORS)]), TIMES)
    sensor = np.array(
        [int(np.flatnonzero(node == SENSORS)[0]) if node in SENSORS else -1 for node in places]
    )
    seen_as = QueriedNodes(near[np.ix_(places, SENSORS)], near[np.ix_(places, places)], sensor)
    cells = ObservedCells(covariance, mask, 1e-6)
    posterior = TimePosterior(cells, np.zeros(mask.shape), 2, 0)

    def draw(round_: int, n: int) -> np.ndarray:
        rng = np.random.default_rng([round_, 11])
        f = sum(
            process_draws(part.kernel, steps, 10 * n, rng).reshape(grid.size, n, 10) @ root.T
            for part, root in zip(PARTS, roots, strict=True)
        )
        of_times, of_at = np.searchsorted(grid, TIMES), np.searchsorted(grid, at)
        y = f[of_times][:, :, SENSORS] + np.sqrt(NOISE) * rng.standard_normal(
            (TIMES.size, n, SENSORS.size)
        )
        # What is drawn is the mean, linear in y, and an error that does not depend on y.
        alpha, _, _ = cells.solve(y)
        mean = posterior._weighted(alpha, seen_as, at)
        errors = posterior.draws(seen_as, at, N_DRAWS * n, round_).reshape(
            N_DRAWS, n, at.size, places.size
        )
        t, place, each = (
            rng.integers(at.size, size=n),
            rng.integers(places.size, size=n),
            np.arange(n),
        )
        u = (
            mean[t, each, place] + errors[:, each, t, place] < f[of_at[t], each, places[place]]
        ).sum(axis=0)
        return np.column_stack([u < 10, (u < 2) | (u > 17), (u >= 5) & (u < 15)])

    return draw


RATES = [0.5, 0.2, 0.5]


@pytest.mark.parametrize("gaps", ["none", "times", "cells"])
def test_ranks_of_truths_are_uniform(gaps):
    assert_rates(ranks(gaps), RATES, RATES, n0=500)


def test_a_noise_that_is_believed_too_small_fails():
    with pytest.raises(AssertionError, match="wrong rate"):
        assert_rates(ranks("none", 0.02), RATES, RATES, n0=500)


# -- update ----------------------------------------------------------------------------------------
