"""Coupled frequencies and features: exact marginals, no bias, and closed-form errors.

Blocks of d frequencies are independent, so one draw of many blocks is as many repeats of the
estimate from one.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from graphrf.euclidean.features import FourierFeatures, LaplaceFeatures
from graphrf.euclidean.frequencies.directions import haar
from graphrf.euclidean.frequencies.draw import draw_frequencies
from graphrf.euclidean.frequencies.norms import NORMS
from graphrf.euclidean.kernels import stationary_kernel
from graphrf.euclidean.theory import fourier_mse, laplace_mse

D = 5  # odd: a frequency without a partner in each block
BLOCKS = 1_200
X, Y = np.array([0.35, 0.1, -0.2, 0.25, 0.1]), np.array([-0.15, 0.4, 0.1, -0.3, 0.0])
# |x + y| is small: positive features have finite and moderate fourth moments there.
# Blocks of D; simplex+ has no closed form.
BLOCKED = ("iid", "orthogonal", "simplex", "simplex+")
# The lightest and the heaviest tails; the other kernels share every line of code with the second.
DISTINCT = ("gaussian", "matern12")


def z_score(sample, truth):
    return (sample.mean() - truth) / (sample.std(ddof=1) / sample.size**0.5)


def estimates(features, n_blocks=BLOCKS):
    """Estimates of k(x, y), each from one block of D frequencies (and their negatives)."""
    first, second = features.fit_transform(np.stack([X, Y]))
    return (first * second).reshape(-1, n_blocks, D).sum(axis=(0, 2)) * n_blocks


def fourier(norms, directions, kernel="gaussian", readout="paired", n_blocks=BLOCKS):
    return FourierFeatures(
        D * n_blocks,
        kernel=kernel,
        directions=directions,
        norms=norms,
        readout=readout,
        lengthscale=1.2,
        seed=0,
    )


def laplace(norms, directions, antithetic, n_blocks=BLOCKS):
    m = D * n_blocks * (1 + antithetic)
    return LaplaceFeatures(
        m, directions=directions, norms=norms, antithetic=antithetic, lengthscale=1.2, seed=0
    )


@pytest.mark.parametrize("norms", NORMS)
@pytest.mark.parametrize("directions", BLOCKED[:3])
def test_fourier_features_are_unbiased_with_the_errors_of_the_closed_form(directions, norms):
    distance = float(np.linalg.norm(X - Y)) / 1.2
    for name in DISTINCT:
        value = float(stationary_kernel(name)(distance))
        exact = float(fourier_mse(distance, D, D, kernel=name, directions=directions, norms=norms))
        for readout, extra in (("paired", 0.0), ("phased", 0.5 / D)):
            sample = estimates(fourier(norms, directions, name, readout))
            assert abs(z_score(sample, value)) < 5
            assert abs(z_score((sample - value) ** 2, exact + extra)) < 5


@pytest.mark.parametrize("norms", NORMS)
@pytest.mark.parametrize("directions", BLOCKED[:3])
@pytest.mark.parametrize("antithetic", [False, True])
def test_laplace_features_are_unbiased_with_the_errors_of_the_closed_form(
    directions, norms, antithetic
):
    value = float(stationary_kernel("gaussian")(np.linalg.norm(X - Y) / 1.2))
    exact = laplace_mse(
        X,
        Y,
        D * (1 + antithetic),
        directions=directions,
        norms=norms,
        antithetic=antithetic,
        lengthscale=1.2,
    )
    sample = estimates(laplace(norms, directions, antithetic))
    assert abs(z_score(sample, value)) < 5
    assert abs(z_score((sample - value) ** 2, exact)) < 5


def test_simplex_plus_is_unbiased_and_no_worse_than_the_simplex():
    value = float(stationary_kernel("gaussian")(np.linalg.norm(X - Y) / 1.2))
    plus = estimates(laplace("iid", "simplex+", False, n_blocks=500), 500)
    assert abs(z_score(plus, value)) < 5
    exact = float(
        laplace_mse(X, Y, D, directions="simplex", norms="iid", antithetic=False, lengthscale=1.2)
    )
    assert z_score((plus - value) ** 2, exact) < 5
    for name in ("gaussian", "matern12"):
        sample = estimates(fourier("pnc", "simplex+", name, n_blocks=500), 500)
        assert abs(z_score(sample, stationary_kernel(name)(np.linalg.norm(X - Y) / 1.2))) < 5


# Marginals. One frequency of each block, so that the sample is independent.


def marginal_p_values(w, kernel):
    """Kolmogorov-Smirnov of norms and one coordinate: normal, or Student t of 2 nu degrees."""
    coordinate = stats.norm.cdf if kernel.nu is None else lambda t: stats.t.cdf(t, 2 * kernel.nu)
    norms = np.linalg.norm(w, axis=1)
    return (
        stats.kstest(norms, lambda r: kernel.norm_cdf(r, w.shape[1])).pvalue,
        stats.kstest(w[:, 1], coordinate).pvalue,
    )


@pytest.mark.parametrize("name", DISTINCT)
@pytest.mark.parametrize("directions", BLOCKED)
def test_every_coupled_frequency_has_the_spectral_law(directions, name):
    kernel = stationary_kernel(name)
    for norms in NORMS:
        n_blocks = 300 if directions == "simplex+" else 1_500
        w = draw_frequencies(
            n_blocks * D, D, kernel=kernel, directions=directions, norms=norms, seed=1
        ).matrix
        for row in (0, 1, D - 1):
            assert min(marginal_p_values(w[row::D], kernel)) > 1e-6


@pytest.mark.parametrize("directions", ["halton", "sobol"])
@pytest.mark.parametrize("name", ["gaussian", "matern12"])
def test_every_frequency_of_a_scrambled_sequence_has_the_spectral_law(directions, name):
    kernel = stationary_kernel(name)
    for row in (0, 5):
        w = np.stack(
            [
                draw_frequencies(
                    8, 3, kernel=kernel, directions=directions, norms=None, seed=seed
                ).matrix[row]
                for seed in range(120)
            ]
        )
        assert min(marginal_p_values(w, kernel)) > 1e-6


# Negative controls: wrong constructions that the tests above must be able to see.


def positive_mean(w):
    """z score of the mean of exp(w . v - |v|^2 / 2) over frequencies, 1 if they are Gaussian."""
    v = 0.9 * np.eye(D)[0]
    return z_score(np.exp(w @ v - v @ v / 2), 1.0)


def test_qr_without_its_signs_is_seen():
    rng = np.random.default_rng(3)
    chi = stationary_kernel("gaussian").norm_quantile(rng.random(2_000), D)
    raw = np.stack([np.linalg.qr(rng.standard_normal((D, D)))[0][0] for _ in range(2_000)])
    good = haar(2_000, D, rng)[:, 0]
    assert abs(positive_mean(chi[:, None] * good)) < 5
    assert abs(positive_mean(chi[:, None] * raw)) > 20
    assert (raw[:, 0] < 0).all()
    assert stats.kstest(chi * good[:, 0], "norm").pvalue > 1e-6
    assert stats.kstest(chi * raw[:, 0], "norm").pvalue < 1e-6


def test_norms_with_one_degree_of_freedom_less_are_seen():
    rng = np.random.default_rng(4)
    gaussian = stationary_kernel("gaussian")
    for dimension, seen in ((D, False), (D - 1, True)):
        w = (
            gaussian.norm_quantile(rng.random(4_000), dimension)[:, None]
            * haar(4_000, D, rng)[:, 0]
        )
        assert (marginal_p_values(w, gaussian)[0] < 1e-6) == seen


def test_a_product_of_cauchy_laws_is_not_the_law_of_the_isotropic_laplace_kernel():
    rng = np.random.default_rng(7)
    w = rng.standard_cauchy((4_000, D))
    kernel = stationary_kernel("laplace")
    by_norm, by_coordinate = marginal_p_values(w, kernel)
    assert by_norm < 1e-6 < by_coordinate
