"""Divisors of the output scale, and searches for a mode at the bounds, or that cannot be."""

from __future__ import annotations

import numpy as np
import pytest

import graphrf as grf
from graphrf.gp.hyperparameters.latent_mode import find_latent_mode
from graphrf.gp.hyperparameters.mode import mean_variance_near
from graphrf.gp.hyperparameters.space import Space, Units, hyperparameter_range
from graphrf.gp.likelihoods.counts import Poisson
from graphrf.gp.methods.mean_variance import RoughMeanVariance, mean_variance
from graphrf.gp.model.prior import FLAT
from graphrf.gp.search.bounds import warn_of_bounds
from graphrf.operators.precision.areal import precision_of
from graphrf.operators.precision.markov import SparsePrecision

KERNELS = [
    grf.Matern(nu=2.0, lengthscale=3.0),
    grf.Diffusion(1.0, laplacian="combinatorial"),
    grf.BYM2(0.4),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_the_mean_variance_and_its_slopes(karate, kernel):
    variance = np.diag(kernel.dense(karate)).mean()
    divide = mean_variance_near(karate, kernel, True, 0, None)
    (name,) = [own for own in kernel.hyperparameters if own != "nu"]
    value, (slope,) = divide(kernel, [name], [])
    assert value == pytest.approx(variance, rel=1e-9)
    value = kernel.hyperparameters[name]
    ends = [
        np.diag(kernel.replace(**{name: value + h}).dense(karate)).mean() for h in (1e-5, -1e-5)
    ]
    assert slope == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-4)
    assert mean_variance_near(karate, kernel, False, 0, None)(kernel, [name], [])[0] == 1.0


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_mean_variances_are_exact_on_small_graphs_with_and_without_a_precision(karate, kernel):
    variance = np.diag(kernel.dense(karate)).mean()
    rough = RoughMeanVariance(karate, 0, None)
    found = [mean_variance(karate, kernel, 0), rough(kernel), rough(kernel)]
    if not isinstance(kernel, grf.Diffusion):
        made = SparsePrecision if kernel.is_series else precision_of
        found.append(mean_variance(karate, kernel, 0, made(karate, kernel)))
    np.testing.assert_allclose(found, variance, rtol=1e-6)


# -- modes at the bounds of the search ------------------------------------------------------------


class Slope:
    """An evidence that rises with the logarithm of the lengthscale, or is none."""

    def __init__(self, rise):
        self.rise = rise

    def amplitude(self, model):
        return model.output_scale

    def gradient(self, model, names):
        value = self.rise * np.log(model.kernel.lengthscale) if np.isfinite(self.rise) else -np.inf
        slope = self.rise / model.kernel.lengthscale if np.isfinite(self.rise) else 0.0
        return value, np.array([slope, 0.0])


@pytest.mark.parametrize(("rise", "end"), [(2.0, "largest"), (-2.0, "smallest")])
def test_a_mode_at_its_bounds_is_found_from_any_start_and_warned_of(rise, end):
    bounds = {"lengthscale": (0.1, 20.0)}
    space = Space.of(KERNELS[0], bounds, FLAT, Units(1.0), output_scale=1.0, likelihood=Poisson())
    found = find_latent_mode(space, Slope(rise))
    assert found.converged
    assert found.model.kernel.lengthscale == pytest.approx(bounds["lengthscale"][end == "largest"])
    assert find_latent_mode(space, Slope(rise), found.model).model == found.model
    with pytest.warns(UserWarning, match=f"the {end} lengthscale that is searched, "):
        warn_of_bounds(space, space.vector_of(found.model))


def test_an_evidence_that_cannot_be_had_is_refused():
    space = Space.of(KERNELS[0], {}, FLAT, Units(1.0), output_scale=1.0, likelihood=Poisson())
    assert find_latent_mode(space, Slope(0.0)).converged  # nothing is trained
    with pytest.raises(
        ValueError, match="a matrix cannot be factored: fix a smaller `output_scale`"
    ):
        find_latent_mode(space, Slope(np.inf))


def test_coordinates_begin_at_several_lengthscales_and_shares():
    for kernel, name in ((KERNELS[0], "lengthscale"), (KERNELS[2], "mixing")):
        bounds = {name: hyperparameter_range(kernel, name, 1.0, 30.0)}
        space = Space.of(kernel, bounds, FLAT, Units(1.0), output_scale=1.0)
        starts = space.starts()
        assert len(starts) > 2
        values = [space.model(start).kernel.hyperparameters[name] for start in starts]
        assert values[0] == pytest.approx(kernel.hyperparameters[name])
        assert all(bounds[name][0] <= value <= bounds[name][1] for value in values)
    assert hyperparameter_range(KERNELS[0], "nu", 1.0, 30.0) == (0.25, 8.0)
