"""Filon's rule: exact for piecewise parabolas, and what it has over Simpson's rule."""

from __future__ import annotations

import numpy as np
import pytest

from graphrf.euclidean.filon import filon, filon_kernel
from graphrf.euclidean.frequencies.quadrature import simpson
from graphrf.euclidean.kernels import stationary_kernel

# theta = h t from the series through its border into many oscillations within one interval.
TIMES = np.array([0.0, 1e-8, 1e-3, 0.1, 0.49, 0.51, 1.0, 3.0, 10.0, 47.0])


def parabola(w):
    return 1.5 - 0.7 * w + 0.4 * w**2


def exact_integral(g, low, high, t):
    """By 200 Gauss-Legendre nodes, exact to rounding for |t| (high - low) < 100."""
    xi, alpha = np.polynomial.legendre.leggauss(200)
    w = (high + low) / 2 + (high - low) / 2 * xi
    return (high - low) / 2 * (alpha * g(w) * np.cos(np.multiply.outer(t, w))).sum(axis=-1)


@pytest.mark.parametrize("n_nodes", [3, 5, 9])
def test_filon_is_exact_for_parabolas_at_every_frequency(n_nodes):
    low, high = -1.0, 1.0 * (n_nodes // 2)
    nodes = np.linspace(low, high, n_nodes)
    values = parabola(nodes)
    exact = exact_integral(parabola, low, high, TIMES)
    np.testing.assert_allclose(filon(values, low, high, TIMES), exact, rtol=0, atol=5e-13)
    np.testing.assert_allclose(filon(values, low, high, -TIMES), exact, rtol=0, atol=5e-13)
    weights = simpson(n_nodes, (high - low) / 2)[1]
    # Simpson's rule at 0.
    assert filon(nodes**4, low, high, 0.0) == pytest.approx(weights @ nodes**4)


@pytest.mark.parametrize(
    ("kernel", "atol"), [("gaussian", 2e-4), ("matern52", 2e-4), ("matern32", 2e-4)]
)
def test_filon_kernel_is_near_the_kernel(kernel, atol):
    # What is left out beyond the default end of the interval has probability 1e-4.
    t = np.linspace(-3, 3, 41)
    approximation = filon_kernel(t, 257, kernel=kernel, lengthscale=0.7)
    np.testing.assert_allclose(
        approximation, stationary_kernel(kernel)(abs(t) / 0.7), rtol=0, atol=atol
    )


def test_filon_has_no_ghost_where_simpson_has_one():
    nodes, weights = simpson(257, 5.0)
    ghost_at = np.pi / (nodes[1] - nodes[0])
    density = stationary_kernel("gaussian").spectral_density(nodes[:, None])
    assert (weights * density) @ np.cos(nodes * ghost_at) == pytest.approx(-1 / 3, abs=1e-5)
    assert (weights * density) @ np.cos(nodes * 2 * ghost_at) == pytest.approx(1, abs=1e-5)
    both = filon_kernel([ghost_at, 2 * ghost_at], 257, max_frequency=5.0)
    np.testing.assert_allclose(both, 0, atol=1e-6)


def test_filon_kernel_falls_to_zero_at_the_largest_distances(recwarn):
    assert np.abs(filon_kernel([1e10, 1e100, 1e200, 1e300, -1e300])).max() < 1e-8
    assert not recwarn


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"n_nodes": 4}, ValueError, "`n_nodes` must be odd for Filon's rule, got 4: use 5"),
        ({"n_nodes": 1}, ValueError, "`n_nodes` must be at least 3"),
        ({"max_frequency": -1.0}, ValueError, "`max_frequency` must be greater than 0"),
        ({"t": [0.0, np.nan]}, ValueError, "`t` must be finite"),
    ],
)
def test_bad_kernel_arguments_are_named(change, error, match):
    with pytest.raises(error, match=match):
        filon_kernel(**({"t": [0.0]} | change))


def test_bad_integrals_are_refused():
    with pytest.raises(ValueError, match="odd number of values, at least 3"):
        filon(np.ones(4), 0, 1, 0.0)
    with pytest.raises(ValueError, match="odd number of values, at least 3"):
        filon(np.ones((3, 3)), 0, 1, 0.0)
    with pytest.raises(ValueError, match="`high` must be greater than 1"):
        filon(np.ones(3), 1, 1, 0.0)
    with pytest.raises(ValueError, match="`values` must be finite"):
        filon([1.0, np.nan, 1.0], 0, 1, 0.0)


def test_a_heavy_tail_that_the_nodes_miss_is_reported():
    with pytest.warns(UserWarning, match=r"k\(0\) = .* in place of 1: 33 nodes are 398 apart"):
        filon_kernel([0.0, 1.0], kernel="matern12")
