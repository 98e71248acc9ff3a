"""K[S, S] between lengthscales: against direct evaluation, and never where it is not smooth."""

import networkx as nx
import numpy as np
import pytest

import graphrf as grf
from graphrf.gp.routes import interpolation as module
from graphrf.gp.routes.gram import SampledGram
from graphrf.kernels.derivatives import spectral_derivatives

NODES = np.arange(0, 90, 3)
KERNELS = [
    grf.Diffusion(1.0),
    grf.Matern(lengthscale=1.0, nu=0.5),
    grf.RegularizedLaplacian(1.0, 2),
    grf.Diffusion(1.0, laplacian="combinatorial"),
]


def _gram(graph, kernel):
    sampler = grf.CompressedPowers(16, max_length=24, laplacian=kernel.laplacian)
    features = grf.sample_features(graph, sampler, nodes=NODES, seed=0, dtype="float64")
    return SampledGram(features.factor(), graph.laplacian_scale(kernel.laplacian))


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("centre", [0.3, 2.0])
def test_interpolated_matrices_are_those_computed_directly(grid, kernel, centre, monkeypatch):
    fast, slow = _gram(grid, kernel), _gram(grid, kernel)
    centre /= np.sqrt(grid.laplacian_scale(kernel.laplacian))  # that the rows serve
    fast(kernel.replace(lengthscale=centre), ())  # a lengthscale counts once
    for step in range(-module._PATIENCE, 1):  # where more than so many are near each other, they are interpolated
        fast(kernel.replace(lengthscale=centre * (1.002 + 1e-4 * step)), ["lengthscale"])
    monkeypatch.setattr(fast._known, "_direct", None)
    edge = 0.999 * module.HALF_WIDTH
    for place in (-edge, -0.6 * edge, 0.0, 0.4 * edge, edge):
        near = kernel.replace(lengthscale=1.002 * centre * float(np.exp(place)))
        matrix, (slope,) = fast(near, ["lengthscale"])
        exact, (exact_slope,) = slow.direct(near, ["lengthscale"])
        size = np.linalg.norm(exact)
        assert np.linalg.norm(matrix - exact) < 1e-9 * size
        assert np.linalg.norm(slope - exact_slope) < 1e-7 * size / near.lengthscale


@pytest.mark.parametrize(
    "kernel",
    [grf.Diffusion(1.0), grf.RegularizedLaplacian(1.0, 2), *(grf.Matern(nu, 1.0) for nu in (0.5, 1.0, 2.0, 3.0))],
    ids=repr,
)
def test_the_worst_error_over_the_spectrum_is_what_the_docstring_says(kernel):
    gaps = np.linspace(0.0, 2.0, 101)

    def values(kernel, names):
        slopes = spectral_derivatives(kernel, names, 1 - gaps, 1.0).T
        return np.diag(kernel.spectrum(gaps, 1.0)), [np.diag(slope) for slope in slopes]

    worst = 0.0
    for centre in np.geomspace(0.1, 100.0, 13):
        known = module.Lengthscales(values, gaps.size, lambda: True)
        for step in range(module._PATIENCE + 1):
            known(kernel.replace(lengthscale=centre * (1 + 1e-6 * step)), ())
        assert known._panels
        for place in np.linspace(-0.99, 0.99, 9):
            near = kernel.replace(lengthscale=centre * float(np.exp(module.HALF_WIDTH * place)))
            exact = values(near, ())[0]
            worst = max(worst, np.abs(known(near, ())[0] - exact).max() / exact.max())
    assert worst < 1e-11


def test_what_was_asked_last_is_not_computed_again(grid, monkeypatch):
    gram = _gram(grid, KERNELS[0])
    matrix, (slope,) = gram(KERNELS[0], ["lengthscale"])
    monkeypatch.setattr(gram._known, "_direct", None)
    assert gram(KERNELS[0], ())[0] is matrix
    assert gram(KERNELS[0], ["lengthscale"])[1][0] is slope


class _Counting:
    """K of one number, a function of the lengthscale, and how often it was asked for."""

    def __init__(self, function):
        self.function, self.asked = function, 0
        self.known = module.Lengthscales(self.values, 1, lambda: True)

    def values(self, kernel, names):
        self.asked += 1
        value = self.function(kernel.lengthscale)
        slope = self.function(kernel.lengthscale * (1 + 1e-200j)).imag / (1e-200 * kernel.lengthscale)
        return np.array([[value.real]]), [np.array([[slope]])] * len(names)


def test_what_is_not_smooth_is_not_interpolated():
    rough = _Counting(lambda lengthscale: 2.0 + np.sqrt(np.log(lengthscale) ** 2))
    for step in range(module._PATIENCE + 3):
        lengthscale = 1.0 + (-1) ** step * 0.01 * step
        assert rough.known(grf.Diffusion(lengthscale), ())[0][0, 0] == rough.function(lengthscale)
    assert rough.asked == module._PATIENCE + 3 + module.POINTS


def test_kernels_and_hyperparameters_are_told_apart():
    smooth = _Counting(lambda lengthscale: lengthscale)
    for step in range(module._PATIENCE + 2):
        smooth.known(grf.Matern(lengthscale=1.0 + step / 100, nu=1.0), ())
    assert smooth.asked == module._PATIENCE + module.POINTS
    smooth.known(grf.Matern(lengthscale=1.0, nu=2.0), ())  # another smoothness, kernel or derivative
    smooth.known(grf.Diffusion(1.0), ())
    smooth.known(grf.Matern(lengthscale=1.0, nu=1.0), ["lengthscale", "nu"])
    assert smooth.asked == module._PATIENCE + 3 + module.POINTS
    near = grf.Matern(lengthscale=1.005, nu=1.0)
    assert smooth.known(near, ())[0][0, 0] == pytest.approx(1.005, rel=1e-12)
    assert smooth.asked == module._PATIENCE + 3 + module.POINTS


def test_what_is_quickly_computed_is_not_interpolated():
    smooth = _Counting(lambda lengthscale: lengthscale)
    smooth.known = module.Lengthscales(smooth.values, 1, lambda: False)
    for step in range(module._PATIENCE + 2):
        smooth.known(grf.Diffusion(1.0 + step / 100), ())
    assert smooth.asked == module._PATIENCE + 2


@pytest.mark.parametrize(("apart", "interpolated"), [(10, True), (100, False)])
def test_rows_that_share_few_nodes_are_quickly_multiplied(apart, interpolated):
    graph = grf.load_graph(nx.path_graph(3_000))
    rows = grf.sample_features(graph, grf.CompressedPowers(64, max_length=40), nodes=apart * np.arange(30), seed=0)
    gram = SampledGram(rows.factor(), graph.laplacian_scale("normalized"))
    for step in range(module._PATIENCE + 1):
        gram(grf.Diffusion(1.0 + step / 100), ())
    assert bool(gram._known._panels) is interpolated


def test_many_nodes_are_not_interpolated():
    smooth = _Counting(lambda lengthscale: lengthscale)
    smooth.known = module.Lengthscales(smooth.values, 2_001, lambda: True)
    for step in range(module._PATIENCE + 2):
        smooth.known(grf.Diffusion(1.0 + step / 100), ())
    assert smooth.asked == module._PATIENCE + 2
