"""What a fit on graph and time warns of: errors, few values, stuck sensors, extremes."""

from __future__ import annotations

import numpy as np
import pytest

import graphrf as grf
from graphrf.gp.time import ConstantTime, MaternTime, Part
from graphrf.gp.time.calibration import standardised_errors
from graphrf.gp.time.covariance import Sensors, Separable

PARTS = (Part(ConstantTime(), 1.0, 0.5), Part(MaternTime(3.0, nu=1.5), 1.0, 0.2))
NOISE = 0.05
GRAPH = grf.from_edges(range(11), range(1, 12))
TIMES = np.arange(60.0)
KERNEL = grf.Diffusion(2.0)


def drawn(gaps: float = 0.0, seed: int = 0) -> np.ndarray:
    """A draw of the model, with gaps at random."""
    rng = np.random.default_rng(seed)
    near = KERNEL.dense(GRAPH)
    near /= np.diag(near).mean()
    lags = TIMES[:, None] - TIMES
    covariance = sum(
        np.kron(part.kernel.covariance(lags), part.shared * near + part.own * np.eye(12))
        for part in PARTS
    )
    y = np.linalg.cholesky(covariance + NOISE * np.eye(720)) @ rng.standard_normal(720)
    return np.where(rng.random(720) < gaps, np.nan, 5 + y).reshape(60, 12)


def fitted(y: np.ndarray, **settings) -> grf.gp.GraphTimeGPRegressor:
    settings = {"noise": NOISE, "optimize": False, "seed": 0} | settings
    return grf.gp.GraphTimeGPRegressor(GRAPH, KERNEL, PARTS, **settings).fit(y, times=TIMES)


@pytest.mark.parametrize(("gaps", "own_correlation"), [(0.0, 0.0), (0.3, 1.0)])
def test_errors_are_those_of_each_value_given_the_ones_before(gaps, own_correlation):
    y, near = drawn(gaps) - 5, np.linspace(0.5, 1.5, 12)
    own = near / (near + own_correlation * np.median(near))
    own /= own.mean()
    z = standardised_errors(
        Separable(PARTS, NOISE), Sensors.of(np.diag(near), own_correlation), TIMES, y
    )
    assert z.rows.tolist() == list(range(60))
    for sensor in (0, 7):
        seen = np.flatnonzero(~np.isnan(y[:, sensor]))
        lags = TIMES[seen][:, None] - TIMES[seen]
        covariance = NOISE * np.eye(seen.size) + sum(
            (part.shared * near[sensor] + part.own * own[sensor]) * part.kernel.covariance(lags)
            for part in PARTS
        )
        for last in (1, 20, seen.size - 1):
            before = np.linalg.solve(covariance[:last, :last], covariance[:last, last])
            error = y[seen[last], sensor] - before @ y[seen[:last], sensor]
            spread = covariance[last, last] - before @ covariance[:last, last]
            assert z.values[seen[last], sensor] == pytest.approx(error / np.sqrt(spread))
        assert np.isnan(z.values[:, sensor]).tolist() == np.isnan(y[:, sensor]).tolist()


@pytest.mark.parametrize("gaps", [0.0, 0.3])
def test_a_correct_model_is_not_warned_of(gaps):
    fitted(drawn(gaps))  # warnings are errors here


def test_a_sensor_that_the_model_does_not_explain():
    y = drawn()
    y[:, 4] += 4 * np.random.default_rng(1).standard_normal(60)
    with pytest.warns(UserWarning, match=r"errors at node 4 are up to \d\.\d times") as caught:
        fitted(y)
    assert len(caught) == 1


def test_values_that_are_not_gaussian_enough():
    rng = np.random.default_rng(2)
    with pytest.warns(UserWarning, match=r"95 % intervals contain only [78]\d % of"):
        fitted(drawn() + 0.5 * rng.standard_normal((60, 12)))


def test_extreme_values_are_named():
    y = drawn()
    y[0] = np.nan
    y[31, 5] = 1e4
    with pytest.warns(UserWarning, match=r"the most extreme is 10000 in row 31 at node 5"):
        fitted(y, noise=1e6)


def test_stuck_sensors_are_named():
    y = drawn()
    y[:, [2, 3]] = 7.0
    with pytest.warns(UserWarning, match="all values at nodes 2, 3 are the same"):
        fitted(y)


def test_few_values_for_the_hyperparameters():
    with pytest.warns(UserWarning, match="15 hyperparameters are trained on 24 values"):
        grf.gp.GraphTimeGPRegressor(GRAPH, KERNEL, seed=0).fit(drawn()[:2], times=TIMES[:2])
