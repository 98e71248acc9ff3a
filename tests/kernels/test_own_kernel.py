"""A kernel of one's own, which has coefficients and nothing else: all that follows from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.special import gammainc

import graphrf as grf
from graphrf.kernels import coefficients


@dataclass(frozen=True, repr=False)
class PlainDiffusion(grf.kernels.Kernel):
    """`Diffusion` by its coefficients alone."""

    lengthscale: float = 1.0

    def modulation_coefficients(self, n, scale):
        return coefficients.poisson(n, scale * self.lengthscale**2 / 4)


@dataclass(frozen=True, repr=False)
class PlainMatern(grf.kernels.Kernel):
    """`Matern` by its coefficients alone, of two hyperparameters."""

    nu: float = 1.5
    lengthscale: float = 1.0

    def modulation_coefficients(self, n, scale):
        return grf.Matern(self.nu, self.lengthscale, laplacian=self.laplacian).modulation(n, scale)


@dataclass(frozen=True, repr=False)
class AveragedHeat(grf.kernels.Kernel):
    """That of the docstring of `Kernel`."""

    lengthscale: float = 1.0

    def modulation_coefficients(self, n, scale):
        mean = scale * self.lengthscale**2 / 4
        return gammainc(np.arange(1, n + 1), mean) / mean


@pytest.mark.parametrize(
    ("own", "known", "scale"),
    [
        (PlainDiffusion(3.0), grf.Diffusion(3.0), None),
        (
            PlainDiffusion(0.7, laplacian="combinatorial"),
            grf.Diffusion(0.7, laplacian="combinatorial"),
            16.0,
        ),
        (PlainMatern(1.5, 4.0), grf.Matern(1.5, 4.0), None),
    ],
    ids=repr,
)
def test_the_coefficients_of_the_root_suffice(own, known, scale):
    assert own.hyperparameters == known.hyperparameters
    assert repr(own) == repr(known).replace(type(known).__name__, type(own).__name__)
    for name in ("modulation", "taylor"):
        np.testing.assert_allclose(
            getattr(own, name)(40, scale), getattr(known, name)(40, scale), rtol=1e-12
        )
    jacobian = known.modulation_jacobian(40, scale)
    np.testing.assert_allclose(
        own.modulation_jacobian(40, scale), jacobian, atol=1e-8 * np.abs(jacobian).max()
    )
    eigenvalues = np.linspace(0.0, 2.0 if scale is None else scale, 60).reshape(3, 20)
    for name in ("spectrum", "root_spectrum"):
        exact = getattr(known, name)(eigenvalues, scale)
        np.testing.assert_allclose(
            getattr(own, name)(eigenvalues, scale), exact, atol=1e-12 * exact.max()
        )
    for length in (-1, 0, 7, 30):
        tail, total = known.modulation_tail(length, scale), known.modulation_tail(-1, scale)
        assert own.modulation_tail(length, scale) == pytest.approx(tail, abs=1e-12 * total)
    assert own.truncation_length(1e-6, scale) == known.truncation_length(1e-6, scale)
    with pytest.raises(ValueError, match="must have a root R"):
        own.root(2)


def test_what_a_kernel_must_have_is_named():
    with pytest.raises(
        NotImplementedError, match=r"must have `modulation_coefficients\(n, scale\)`"
    ):
        grf.kernels.Kernel().modulation(3)


@pytest.mark.parametrize("method", ["series", "features"])
def test_a_kernel_of_ones_own_is_trained(method, grid):
    rng = np.random.default_rng(0)
    nodes = rng.choice(grid.n_nodes, 60, replace=False)
    y = grf.apply_root(grid, AveragedHeat(4.0), rng.standard_normal(grid.n_nodes))[nodes]
    y = y / y.std() + 0.1 * rng.standard_normal(60)
    own = grf.GraphGPRegressor(grid, kernel=AveragedHeat(), method=method, seed=0).fit(nodes, y)
    assert own.kernel_.lengthscale != 1.0
    assert own.converged_
    plain, known = (
        grf.GraphGPRegressor(grid, kernel=kernel, method=method, seed=0).fit(nodes, y)
        for kernel in (PlainDiffusion(), grf.Diffusion())
    )
    assert plain.kernel_.lengthscale == pytest.approx(known.kernel_.lengthscale, rel=1e-3)
    np.testing.assert_allclose(plain.predict(), known.predict(), atol=1e-3)
