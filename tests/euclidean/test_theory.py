"""The closed forms of theory.py, against the papers' series and special functions.

Errors of whole estimates are compared with simulated ones in test_unbiased.py.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, special, stats

from graphrf.euclidean import pair_means
from graphrf.euclidean.kernels import stationary_kernel
from graphrf.euclidean.theory import (
    ensemble_conformity,
    fourier_mse,
    laplace_mse,
    pair_norm_density,
    rf_conformity,
)


def z_score(squares, truth):
    return (squares.mean() - truth) / (squares.std(ddof=1) / squares.size**0.5)


# The papers' series


def test_orthogonal_conformity_is_the_papers_series():
    for d in (2, 3, 6, 64):
        for v in (0.3, 1.0, 2.5):
            k = np.arange(400)
            log_terms = (
                special.gammaln(d / 2)
                - special.gammaln(d)
                + special.xlogy(2 * k, v)
                - k * np.log(2)
                - special.gammaln(k + 1)
                + special.gammaln(k + d)
                - special.gammaln(k + d / 2)
            )
            assert rf_conformity(v, d) == pytest.approx(np.exp(log_terms).sum(), rel=1e-12)


def simplex_series(v, d):
    """SRF Eq. 24."""
    total = 0.0
    for k in range(60):
        inner = sum(
            (-1 / (d - 1)) ** p
            * math.exp(math.lgamma((d + p) / 2) - math.lgamma((d + p + 1) / 2))
            / (math.factorial(k - p) * math.factorial(p))
            for p in range(k + 1)
        )
        total += inner * math.exp(math.lgamma(k + d) - math.lgamma(k + d / 2)) * v ** (2 * k) / 2**k
    return math.sqrt(math.pi) / (math.gamma(d / 2) * 2 ** (d - 1)) * total


def test_simplex_conformity_is_the_papers_series():
    for d in (2, 3, 6, 20):
        for v in (0.3, 1.0, 2.0):
            assert rf_conformity(v, d, directions="simplex") == pytest.approx(
                simplex_series(v, d), rel=1e-10
            )


def test_conformity_grows_with_the_cosine_and_is_infinite_beyond_float64():
    values = [float(rf_conformity(1.5, 5, directions=c)) for c in (-1.0, -0.25, 0.0, 0.5, 1.0)]
    assert values == sorted(values)
    assert values[1] == rf_conformity(1.5, 5, directions="simplex")
    assert rf_conformity(40.0, 5, directions="iid") == np.inf


# Pairs: special functions, densities


def test_sphere_means_are_bessel_functions_in_any_dimension():
    mpmath = pytest.importorskip("mpmath")
    x = np.array([0.0, 1e-4, 0.5, 3.0, 20.0, 200.0])
    for d in (2, 3, 8, 64, 784):
        exact = [float(mpmath.hyp0f1(mpmath.mpf(d) / 2, -(mpmath.mpf(t) ** 2) / 4)) for t in x]
        np.testing.assert_allclose(pair_means.sphere_mean(x, d), exact, atol=2e-14)
        exact = [float(mpmath.log(mpmath.hyp0f1(mpmath.mpf(d) / 2, mpmath.mpf(t)))) for t in x]
        np.testing.assert_allclose(pair_means.log_sphere_mean(x, d), exact, rtol=1e-11, atol=1e-14)


def test_orthogonal_pairs_are_confluent_functions():
    mpmath = pytest.importorskip("mpmath")
    gaussian = stationary_kernel("gaussian")
    for d in (2, 3, 64, 65):
        for z in (0.1, 1.0, 6.0, 15.0):
            exact = float(mpmath.hyp1f1(d, mpmath.mpf(d) / 2, -(mpmath.mpf(z) ** 2) / 2))
            assert pair_means.fourier_pair(z, d, 0.0, "independent", gaussian) == pytest.approx(
                exact, abs=3e-15
            )
            exact = float(mpmath.log(mpmath.hyp1f1(d, mpmath.mpf(d) / 2, mpmath.mpf(z) ** 2 / 2)))
            assert pair_means.laplace_pair(z, d, 0.0, "independent") == pytest.approx(
                exact, rel=1e-12
            )


def test_densities_of_resultants_integrate_to_one_and_match_simulation():
    rng = np.random.default_rng(1)
    gaussian = stationary_kernel("gaussian")
    for d, name in ((3, "iid"), (3, "orthogonal"), (6, "simplex"), (64, "simplex"), (6, 0.5)):
        edges = np.linspace(0, 4 * math.sqrt(d) + 8, 4001)
        density = pair_norm_density(edges, d, directions=name)
        cumulative = integrate.cumulative_simpson(density, x=edges, initial=0)
        assert cumulative[-1] == pytest.approx(1, abs=1e-9)
        a, b = gaussian.norm_quantile(rng.random((2, 40_000)), d)
        if name == "iid":
            cosine = rng.normal(size=(40_000, d))
            cosine = cosine[:, 0] / np.linalg.norm(cosine, axis=1)
        else:
            cosine = {"orthogonal": 0.0, "simplex": -1 / (d - 1)}.get(name, name)
        sample = np.sqrt(a * a + b * b + 2 * a * b * cosine)
        p = stats.kstest(sample, lambda r, x=edges, y=cumulative: np.interp(r, x, y)).pvalue
        assert p > 1e-6


def test_conformity_of_an_ensemble_is_its_mean_over_rotations():
    rng = np.random.default_rng(2)
    w = rng.normal(size=(4, 3))
    x = rng.normal(size=(40_000, 3))
    b = np.exp(0.9 * x / np.linalg.norm(x, axis=1, keepdims=True) @ w.T)
    pairs = (b.sum(axis=1) ** 2 - np.sum(b * b, axis=1)) / 12
    assert abs(z_score(pairs, ensemble_conformity(0.9, w))) < 5


# What follows from them


def test_norm_couplings_are_ordered_as_the_theorems_say():
    x, y = np.full(6, 0.2), np.full(6, 0.1)
    for directions in ("orthogonal", "simplex"):
        for antithetic in (False, True):
            pnc, iid, pm = (
                float(
                    laplace_mse(x, y, 12, directions=directions, norms=norms, antithetic=antithetic)
                )
                for norms in ("pnc", "iid", "pm")
            )
            assert pnc < iid < pm
        pnc, iid, pm = (
            float(fourier_mse(0.5, 6, 12, directions=directions, norms=n))
            for n in ("pnc", "iid", "pm")
        )
        assert pnc < iid < pm
    plain, antithetic = (float(laplace_mse(x, y, 6, antithetic=flag)) for flag in (False, True))
    assert antithetic < plain


def test_blocks_and_parts_of_blocks_add_up():
    # Two whole blocks halve the error of one; a single frequency has no pairs.
    assert fourier_mse(1.0, 4, 8) == pytest.approx(float(fourier_mse(1.0, 4, 4)) / 2, rel=1e-14)
    single = (1 + math.exp(-2)) / 2 - math.exp(-1)
    assert fourier_mse(1.0, 4, 1) == pytest.approx(single, rel=1e-14)
    assert 25 * fourier_mse(1.0, 4, 5) == pytest.approx(
        16 * float(fourier_mse(1.0, 4, 4)) + single, rel=1e-13
    )
    assert fourier_mse([[0.0, 1.0]], 4, 8).shape == (1, 2)
    assert fourier_mse(0.0, 4, 8) < 1e-15
    assert fourier_mse(1.0, 1, 4, norms="pm") == pytest.approx(
        float(fourier_mse(1.0, 1, 4, directions="iid"))
    )


def test_laplace_errors_broadcast_and_stay_finite_where_the_truth_is():
    x = np.array([[0.1, 0.2, 0.0], [20.0, 0.0, 0.0]])
    values = laplace_mse(x, -x[1], 6)
    assert values.shape == (2,)
    # x = -y: the estimate is exact, and exp(-2 |x|^2 - 2 |y|^2) underflows harmlessly.
    assert values[1] == 0
    assert np.isfinite(laplace_mse(x[0], x[0] + 3, 6))


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: rf_conformity(1.0, 4, directions=2.0), ValueError, "`directions` must be in"),
        (lambda: rf_conformity(1.0, 1, directions="simplex"), ValueError, "at least 2"),
        (lambda: rf_conformity(1.0, 1, directions=0.5), ValueError, "at least 2"),
        (lambda: ensemble_conformity(1.0, np.ones(3)), ValueError, "`frequencies` must have shape"),
        (lambda: pair_norm_density(1.0, 2, directions="simplex"), ValueError, "antiparallel"),
        (lambda: laplace_mse([1.0], [1.0, 2.0], 2), ValueError, "`y` must have 1 coordinates"),
        (
            lambda: laplace_mse([1.0, 0.0], [1.0, 2.0], 3),
            ValueError,
            "`n_frequencies` must be even",
        ),
        (lambda: fourier_mse(1.0, 3, 3, norms="none"), ValueError, "`norms` must be one of"),
        (lambda: fourier_mse(1.0, 3, 3, readout="cosine"), ValueError, "`readout` must be one of"),
    ],
    ids=range(9),
)
def test_bad_arguments_are_named(call, error, match):
    with pytest.raises(error, match=match):
        call()


@pytest.mark.parametrize("dimension", [3, 4, 8])
@pytest.mark.parametrize("z", [0.0, 1e-12, 1e-8])
def test_heavy_tails_near_zero_distance(dimension, z):
    """At distance 0 every estimate is exact."""
    assert (
        float(fourier_mse(z, dimension, dimension, kernel="matern12", norms="iid")) < 2e-8 + 4 * z
    )
