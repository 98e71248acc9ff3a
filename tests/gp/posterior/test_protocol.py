"""What predictions use of a posterior holds for each of them: by Cholesky, by conjugate gradients,
by a sparse precision, and for their averages.
"""

from __future__ import annotations

import numpy as np
import pytest

import graphrf as grf
from graphrf.gp.posterior.by_precision import PrecisionPosterior
from graphrf.gp.posterior.cholesky import CholeskyPosterior
from graphrf.gp.posterior.iterative import IterativePosterior
from graphrf.gp.posterior.mixture import MixturePosterior

GRAPH = grf.from_edges(np.arange(39), np.arange(1, 40))
NODES = np.arange(1, 40, 3)
EVERY = np.arange(40)
SETTINGS = {
    CholeskyPosterior: {"method": "series"},
    IterativePosterior: {"method": "series", "numerics": grf.gp.Numerics(solver="cg", tol=1e-8)},
    PrecisionPosterior: {"method": "precision"},
}


def posterior(kind, averages):
    """The posterior of two outputs, and the weights of its sets of hyperparameters."""
    y = np.column_stack([np.sin(NODES / 5), np.cos(NODES / 7)])
    known = {"output_scale": 1.0, "noise": 0.05, "optimize": False}
    options = SETTINGS[kind] | ({} if averages else known)
    gp = grf.GraphGPRegressor(GRAPH, kernel=grf.Matern(2.0, 4.0), seed=0, **options).fit(NODES, y)
    return gp._posterior, [point.weight for point in gp._fitted.points] or [1.0]


@pytest.mark.parametrize("averages", [False, True])
@pytest.mark.parametrize("kind", SETTINGS)
def test_laws_have_the_moments_of_the_posterior(kind, averages):
    made, weights = posterior(kind, averages)
    assert isinstance(made, MixturePosterior if averages else kind)
    laws = made.laws(EVERY, None)
    assert [law.probability for law in laws] == weights
    mean = sum(law.probability * law.means for law in laws)
    np.testing.assert_allclose(made.means(EVERY), mean, rtol=1e-10, atol=1e-8)
    variance = sum(
        law.probability * (law.variances[:, None] + np.square(law.means - mean)) for law in laws
    )
    np.testing.assert_allclose(made.variances(EVERY).reshape(40, -1), variance[:, : 1 + averages])


@pytest.mark.parametrize("averages", [False, True])
@pytest.mark.parametrize("kind", SETTINGS)
def test_a_draw_belongs_to_a_set_of_hyperparameters(kind, averages):
    made, weights = posterior(kind, averages)
    draws, parts = made.draws_and_parts(EVERY, 200, np.random.default_rng(0))
    assert draws.shape == (200, 40, 2)
    assert set(parts.tolist()) <= set(range(len(weights)))
    laws = made.laws(EVERY, None)
    scaled = [
        (draw - laws[part].means) / np.sqrt(laws[part].variances)[:, None]
        for draw, part in zip(draws, parts.tolist(), strict=True)
    ]
    # 200 draws of 80 values, which depend on each other: six standard errors of 400 values
    assert np.mean(np.square(scaled)) == pytest.approx(1.0, abs=6 * np.sqrt(2 / 400))


def test_the_ways_to_solve_agree():
    exact, iterative, sparse = (posterior(kind, False)[0] for kind in SETTINGS)
    for other in (iterative, sparse):
        np.testing.assert_allclose(exact.means(EVERY), other.means(EVERY), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(exact.variances(EVERY), other.variances(EVERY), rtol=1e-5)
        np.testing.assert_allclose(exact.covariances(EVERY), other.covariances(EVERY), atol=1e-6)
    assert exact.log_likelihood == pytest.approx(sparse.log_likelihood, rel=1e-8)
    assert np.isnan(iterative.log_likelihood)
