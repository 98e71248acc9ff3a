"""K[S, S] between lengthscales: against direct evaluation, and never where it is not smooth."""

import numpy as np
import pytest

import graphrf as grf
from graphrf.gp.training import lengthscales as module
from graphrf.gp.training.gram import FactorGram, SeriesGram

NODES = np.arange(0, 90, 3)
KERNELS = [
    grf.Diffusion(1.0),
    grf.Matern(lengthscale=1.0, nu=0.5),
    grf.RegularizedLaplacian(1.0, 2),
    grf.Diffusion(1.0, laplacian="combinatorial"),
]


def _gram(graph, kernel, kind):
    if kind == "series":
        return SeriesGram(graph, kernel.laplacian, NODES, max_degree=400)
    sampler = grf.CompressedPowers(16, max_length=24, laplacian=kernel.laplacian)
    features = grf.sample_features(graph, sampler, nodes=NODES, seed=0, dtype="float64")
    return FactorGram(features.factor(), graph.laplacian_scale(kernel.laplacian))


@pytest.mark.parametrize("kind", ["series", "features"])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("centre", [0.3, 2.0])
def test_interpolated_matrices_are_those_computed_directly(grid, kernel, kind, centre):
    fast, slow = _gram(grid, kernel, kind), _gram(grid, kernel, kind)
    for step in range(3):  # the third time lengthscales near each other are asked for, they are interpolated
        fast(kernel.replace(lengthscale=centre * (1 + 1e-3 * step)), ["lengthscale"])
    assert len(fast.known._panels) == 1
    tol = 1e-9 if kind == "features" else 5e-9  # the direct sum of the series drops terms below 1e-9 each
    edge = 0.999 * module.HALF_WIDTH
    for place in (-edge, -0.21, 0.0, 0.13, edge):
        near = kernel.replace(lengthscale=1.002 * centre * float(np.exp(place)))
        matrix, (slope,) = fast(near, ["lengthscale"])
        exact, (exact_slope,) = slow.known._direct(near, ["lengthscale"])
        size = np.linalg.norm(exact)
        assert np.linalg.norm(matrix - exact) < tol * size
        assert np.linalg.norm(slope - exact_slope) < 100 * tol * size / near.lengthscale
    assert len(fast.known._panels) == 1


def test_what_was_asked_last_is_not_computed_again(grid, monkeypatch):
    gram = _gram(grid, KERNELS[0], "features")
    matrix, (slope,) = gram(KERNELS[0], ["lengthscale"])
    monkeypatch.setattr(gram.known, "_direct", None)
    assert gram(KERNELS[0], ())[0] is matrix
    assert gram(KERNELS[0], ["lengthscale"])[1][0] is slope


class _Counting:
    """K of one number, exp(i w log(lengthscale)) or whatever is given, and how often it was asked for."""

    def __init__(self, function):
        self.function, self.direct, self.together = function, 0, 0

    def values(self, kernel, names):
        self.direct += 1
        return np.array([[self.function(kernel.lengthscale)]]), [np.zeros((1, 1))] * len(names)

    def many(self, kernels):
        self.together += 1
        return [np.array([[self.function(kernel.lengthscale)]]) for kernel in kernels]


def test_what_is_not_smooth_is_not_interpolated():
    rough = _Counting(lambda lengthscale: 2.0 + abs(np.log(lengthscale)))
    known = module.Lengthscales(rough.values, rough.many, 1)
    for lengthscale in (1.0, 1.01, 1.02, 0.99, 0.98):
        assert known(grf.Diffusion(lengthscale), ())[0][0, 0] == rough.function(lengthscale)
    assert (rough.direct, rough.together) == (5, 1)


def test_kernels_and_hyperparameters_are_told_apart():
    smooth = _Counting(lambda lengthscale: lengthscale)
    known = module.Lengthscales(smooth.values, smooth.many, 1)
    for step in range(4):
        known(grf.Matern(lengthscale=1.0 + step / 100, nu=1.0), ())
    assert (smooth.direct, smooth.together) == (2, 1)
    known(grf.Matern(lengthscale=1.0, nu=2.0), ())  # another smoothness, kernel or derivative
    known(grf.Diffusion(1.0), ())
    known(grf.Matern(lengthscale=1.0, nu=1.0), ["lengthscale", "nu"])
    assert (smooth.direct, smooth.together) == (5, 1)
    assert known(grf.Matern(lengthscale=1.005, nu=1.0), ())[0][0, 0] == pytest.approx(1.005, rel=1e-12)


def test_many_nodes_are_not_interpolated():
    smooth = _Counting(lambda lengthscale: lengthscale)
    known = module.Lengthscales(smooth.values, smooth.many, 2_001)
    for step in range(4):
        known(grf.Diffusion(1.0 + step / 100), ())
    assert (smooth.direct, smooth.together) == (4, 0)
