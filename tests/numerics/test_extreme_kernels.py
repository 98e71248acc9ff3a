"""Kernels at extreme parameters and weights: sound against 60 digits, or a word about it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import graphrf as grf
from graphrf.operators.series.apply import kernel_block, mean_variance
from tests.numerics.extremes import DECADES, Truth, graphs, kernels, mpmath

# What is off by more must have said so.
UNSAID = 1e-5
# ... in one of these ways.
SAYS = (
    "may be off by",
    "leaves the range of float64",
    "raise `tol` or `max_degree`",
    "more than 2^53 steps",
    "too long",
)
GRAPHS = dict(graphs())
LAPLACIANS = ["normalized", "combinatorial"]


def outcome(compute, want, size):
    """The error of an answer relative to the kernel's norm; or the words of a refusal."""
    with warnings.catch_warnings(record=True) as said, np.errstate(all="raise", under="ignore"):
        warnings.simplefilter("always")
        try:
            found = compute()
        except ValueError as error:
            return None, str(error)
    assert np.isfinite(found).all()
    error = float(np.linalg.norm(found / size - want / size))
    return error, " ".join(str(warning.message) for warning in said)


def _size(kernel, scale, want):
    """The norm of relative errors: where coefficients may cancel, (sum |f_k|)^2."""
    if isinstance(kernel, grf.kernels.PowerSeries | grf.kernels.LearnedModulation):
        return kernel.modulation_tail(-1, scale) ** 2
    return np.abs(want).max()


def _gram(graph, kernel, scale):
    length = kernel.truncation_length(1e-7, scale)
    if length > 60:
        raise ValueError("too long")
    sampler = grf.sampling.ExactPowers(length, laplacian=kernel.laplacian)
    return grf.sample_features(graph, sampler, seed=0, n_threads=1, dtype=np.float64).gram(kernel)


def _made(make, graph):
    """The kernel, or None where it was refused because its size leaves float64."""
    try:
        kernel = make()
        kernel.check_graph(graph)
    except ValueError as error:
        if "leaves the range of float64" not in str(error):
            raise
        return None
    return kernel


def _all_ways(graph, kernel, scale):
    n = graph.n_nodes
    every = np.eye(n)
    yield "dense", lambda: kernel.dense(graph)
    yield "dense_root", lambda: kernel.dense_root(graph) @ kernel.dense_root(graph)
    yield (
        "apply_kernel",
        lambda: grf.apply_kernel(graph, kernel, every, n_threads=1, max_degree=500),
    )
    yield "kernel_block", lambda: kernel_block(graph, kernel, n_threads=1, max_degree=500)
    yield "mean_variance", lambda: np.diag(np.full(n, mean_variance(graph, kernel).value))
    yield "gram", lambda: _gram(graph, kernel, scale)


@pytest.mark.parametrize("laplacian", LAPLACIANS)
@pytest.mark.parametrize("name", GRAPHS)
def test_every_kernel_is_sound_or_says_what_is_lost(name, laplacian, full_grid):
    graph = grf.Graph(GRAPHS[name])
    truth = Truth(GRAPHS[name], laplacian)
    scale = graph.laplacian_scale(laplacian)
    sound = 0
    for number, make in enumerate(kernels(laplacian, scale)):
        if not full_grid and (number + len(name)) % 11:
            continue
        kernel = _made(make, graph)
        if kernel is None:
            continue
        want = truth.matrix(kernel)
        assert np.isfinite(want).all()
        size = _size(kernel, scale, want)
        average = np.diag(np.full(len(want), np.trace(want / len(want))))
        for way, compute in _all_ways(graph, kernel, scale):
            error, words = outcome(compute, average if way == "mean_variance" else want, size)
            assert any(word in words for word in SAYS) or (error is not None and error < UNSAID), (
                way,
                error,
                words,
            )
            sound += error is not None and error < UNSAID
    assert sound > 10


@pytest.fixture(
    params=[False, pytest.param(True, marks=pytest.mark.full)], ids=["sparse grid", "whole grid"]
)
def full_grid(request):
    return request.param


@pytest.mark.parametrize("power", [1e-12, 1e-6, 1e-3, 0.5, 1.0, 2.0, 1e3])
@pytest.mark.parametrize("length", DECADES[::4])
def test_tails_of_series_keep_their_digits(length, power):
    kernel = grf.RegularizedLaplacian(length, 2 * power)
    with mpmath.workdps(400):
        odds = mpmath.mpf(length) ** 2
        share = odds / (1 + odds)
        terms = [mpmath.rf(power, r) / mpmath.factorial(r) * share**r for r in range(6)]
        want = 1 - mpmath.fsum(terms) * (1 + odds) ** -mpmath.mpf(power)
    np.testing.assert_allclose(kernel.modulation_tail(5), float(want), rtol=1e-9, atol=1e-300)


def test_features_in_float32_refuse_what_float32_does_not_hold():
    graph = grf.Graph(GRAPHS["scaled by 1"])
    for kernel in (grf.Matern(2.0, 1e-12), grf.kernels.PStepRandomWalk(1e3, 21)):
        sampler = grf.sampling.ExactPowers(12)
        single = grf.sample_features(graph, sampler, seed=0)
        for ask in (single.matrix, single.gram, single.truncation_error):
            with pytest.raises(
                ValueError, match=r"leave float32: sample with dtype=numpy\.float64"
            ):
                ask(kernel)
        double = grf.sample_features(graph, sampler, seed=0, dtype=np.float64).gram(kernel)
        np.testing.assert_allclose(double, kernel.dense(graph), rtol=1e-5, atol=1e-6 * double.max())


@pytest.mark.parametrize("length", [1e-12, 1e-6, 1.0, 1e6, 1e12])
@pytest.mark.parametrize("kind", [grf.Diffusion, grf.RegularizedLaplacian, grf.Matern])
def test_a_constant_on_components_survives_every_lengthscale(kind, length):
    # Rounding leaves 1e-16 of the eigenvalue 0, which a lengthscale of 1e12 would turn into a
    # kernel of zeros.
    graph = grf.Graph(GRAPHS["scaled by 1"])
    smoothest = np.sqrt(graph.degrees / graph.degrees.sum())
    kernel = kind(lengthscale=length)
    np.testing.assert_allclose(
        smoothest @ kernel.dense(graph) @ smoothest, kernel.spectrum([0.0])[0], rtol=1e-9
    )


@pytest.mark.parametrize("lengthscale", [1e-170, 1e170, 5e-324])
def test_lengthscales_whose_squares_leave_float64_are_refused(lengthscale):
    for kind in (grf.Diffusion, grf.RegularizedLaplacian, grf.Matern):
        with pytest.raises(ValueError, match="`lengthscale` must be in"):
            kind(lengthscale=lengthscale)


def test_kernels_whose_size_leaves_float64_are_refused():
    for make in (
        lambda: grf.Matern(1e3, 1e-12).modulation(4),
        lambda: grf.Matern(1e3, 1e12).spectrum([0.0]),
        lambda: grf.kernels.PStepRandomWalk(2.0, 10**12),
        lambda: grf.kernels.PStepRandomWalk(1e12, 51),
        lambda: grf.kernels.PowerSeries(modulation=[1e-200, 1e-200]).taylor(2),
        lambda: grf.kernels.LearnedModulation(0, [1e200]).spectrum([0.0]),
    ):
        with pytest.raises(ValueError, match="leaves the range of float64"):
            make()
