"""Gaussian copulas of norms: marginals, gradient, and that learning lowers the error."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from graphrf.euclidean.features import FourierFeatures, LaplaceFeatures
from graphrf.euclidean.frequencies.copula import (
    GaussianCopula,
    NormsOfScores,
    cholesky_factor,
    learn_copula,
)
from graphrf.euclidean.frequencies.norms import norm_coupling
from graphrf.euclidean.kernels import KERNELS, stationary_kernel


def factor(order, seed=0):
    theta = torch.from_numpy(np.random.default_rng(seed).normal(size=order * (order - 1) // 2))
    return cholesky_factor(theta, order).numpy()


def test_uniforms_have_uniform_marginals_and_the_copulas_correlation():
    copula = GaussianCopula(factor(4))
    u = copula.uniforms(20_000, 4, np.random.default_rng(3))
    assert norm_coupling(copula) is copula
    for column in u.T:
        assert stats.kstest(column, "uniform").pvalue > 1e-6
    scores = stats.norm.ppf(u)
    # The standard error of a correlation is at most 1 / sqrt(n).
    np.testing.assert_allclose(np.corrcoef(scores.T), copula.correlation, atol=5 / 20_000**0.5)


@pytest.mark.parametrize("name", KERNELS)
def test_the_gradient_of_norms_agrees_with_finite_differences(name):
    kernel = stationary_kernel(name)
    scores = torch.linspace(-2.5, 2.5, 11, dtype=torch.float64, requires_grad=True)
    for d in (2, 13):
        assert torch.autograd.gradcheck(
            lambda g, d=d: NormsOfScores.apply(g, d, kernel), scores, rtol=1e-5
        )


def gram_errors(x, norms, readout, seed, n_blocks=6_000):
    """Root mean squared errors of Gram matrices, each from one block of frequencies."""
    d = x.shape[1]
    if readout == "fourier":
        phi = FourierFeatures(d * n_blocks, norms=norms, seed=seed).fit_transform(x)
    else:
        phi = LaplaceFeatures(2 * d * n_blocks, norms=norms, seed=seed).fit_transform(x)
    parts = phi.reshape(len(x), 2, n_blocks, d) * n_blocks**0.5  # [cos, sin], or [+w, -w]
    grams = np.einsum("isbk,jsbk->bij", parts, parts, optimize=True)
    return np.sqrt(np.mean((grams - stationary_kernel("gaussian").gram(x)) ** 2, axis=(1, 2)))


@pytest.mark.parametrize("readout", ["fourier", "laplace"])
def test_learning_lowers_the_error_below_that_of_independent_norms(readout):
    x = 0.25 * np.random.default_rng(4).normal(size=(12, 4))
    learned = learn_copula(x, readout=readout, n_steps=100, learning_rate=0.1, n_samples=16, seed=0)
    assert learned.losses.shape == (100,)
    errors = [
        gram_errors(x, norms, readout, seed) for seed, norms in enumerate(("iid", learned.copula))
    ]
    gain = errors[0].mean() - errors[1].mean()
    assert gain > 5 * np.hypot(*(e.std(ddof=1) / e.size**0.5 for e in errors))
    # One step of many samples estimates the loss that features have.
    loss = learn_copula(x, readout=readout, n_steps=1, n_samples=3_000, seed=1).losses[0]
    assert abs(loss - errors[0].mean()) < 5 * errors[0].std() * (1 / 3_000 + 1 / 6_000) ** 0.5


def test_learning_repeats_with_its_seed_and_takes_every_kernel_and_direction():
    x = np.random.default_rng(6).normal(size=(8, 3))
    first, second = (learn_copula(x, n_steps=3, seed=7) for _ in range(2))
    np.testing.assert_array_equal(first.losses, second.losses)
    np.testing.assert_array_equal(first.copula.cholesky, second.copula.cholesky)
    for directions in ("iid", "simplex"):
        losses = learn_copula(
            x, kernel="matern32", directions=directions, n_steps=2, lengthscale=[1, 2, 3]
        ).losses
        assert np.isfinite(losses).all()


def test_points_as_good_as_equal_teach_nothing_and_break_nothing():
    learned = learn_copula([[0.0, 0.0], [1e-200, 0.0]], n_steps=3, seed=0)
    np.testing.assert_array_equal(learned.copula.cholesky, np.eye(2))
    np.testing.assert_array_equal(learned.losses, 0)


@pytest.mark.parametrize(
    "mode", [torch.no_grad, torch.inference_mode], ids=["no_grad", "inference"]
)
def test_a_copula_is_learned_in_any_mode_of_the_caller(mode):
    x = np.random.default_rng(6).normal(size=(8, 3))
    with mode():
        learned = learn_copula(x, n_steps=3, seed=7)
    np.testing.assert_array_equal(
        learned.copula.cholesky, learn_copula(x, n_steps=3, seed=7).copula.cholesky
    )


@pytest.mark.parametrize(
    ("matrix", "match"),
    [
        ([[1.0, 0.5], [0.0, 1.0]], "lower triangular"),
        ([[1.0, 0.0], [-1.0, 0.0]], "positive diagonal"),
        ([[1.0, 0.0], [0.5, 0.5]], "rows of norm 1"),
    ],
    ids=["upper", "singular", "norm"],
)
def test_bad_factors_are_named(matrix, match):
    with pytest.raises(ValueError, match=match):
        GaussianCopula(np.asarray(matrix))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"x": np.ones((4, 1))}, "at least 2 columns"),
        (
            {"x": np.ones((1, 2))},
            "`x` must hold two different points, got an array of shape \\(1, 2\\)",
        ),
        ({"x": np.ones((3, 2))}, "`x` must hold two different points"),
        ({"x": np.zeros((3, 2)), "readout": "laplace"}, "`x` must hold a point other than 0"),
        ({"directions": "simplex+"}, "`directions` must be one of"),
        ({"readout": "laplace", "kernel": "matern12"}, "`kernel` must be 'gaussian'"),
        ({"lengthscale": -1.0}, "`lengthscale` must be finite and greater than 0"),
    ],
    ids=range(7),
)
def test_bad_settings_are_named(options, match):
    with pytest.raises(ValueError, match=match):
        learn_copula(**({"x": np.eye(3)} | options))
