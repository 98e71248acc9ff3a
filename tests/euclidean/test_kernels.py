"""Stationary kernels at their edges, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate

from graphrf.euclidean.kernels import KERNELS, StationaryKernel, lengthscales, stationary_kernel


@pytest.mark.parametrize("name", KERNELS)
def test_far_points_have_a_kernel_of_zero(name):
    gram = stationary_kernel(name).gram([[0.0], [1e-200], [1e200]])
    assert (gram[:2, :2] == 1).all()
    assert (gram[2] == [0, 0, 1]).all()


def test_a_smoothness_without_a_formula_is_refused():
    with pytest.raises(ValueError, match=r"`nu` must be 0\.5, 1\.5, 2\.5 or None.* got 3\.5"):
        StationaryKernel("matern72", 3.5)


@pytest.mark.parametrize("value", [True, "2.0", None, [1.0, "a"], 1j], ids=range(5))
def test_lengthscales_are_numbers(value):
    with pytest.raises(TypeError, match="`lengthscale` must be a number or 2 of them"):
        lengthscales(value, 2)


@pytest.mark.parametrize(
    "value", [0.0, -1.0, np.nan, np.inf, [1.0, 0.0], [1.0, 1.0, 1.0]], ids=range(6)
)
def test_lengthscales_are_positive_and_fit_the_points(value):
    with pytest.raises(ValueError, match="`lengthscale` must be"):
        lengthscales(value, 2)


@pytest.mark.parametrize("name", KERNELS)
def test_spectral_densities_have_the_law_of_the_norm(name):
    """The density on spheres of R^3, summed up to r, is the distribution function of the norm."""
    law = stationary_kernel(name)
    r = np.linspace(0, 3, 20_001)
    density = law.spectral_density(np.c_[r, 0 * r, 0 * r]) * 4 * np.pi * r**2
    total = integrate.simpson(density, x=r)
    np.testing.assert_allclose(total, law.norm_cdf(3.0, 3), rtol=1e-6)
