"""K as a sum of Chebyshev terms that are kept between steps, against products with F."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import graphrf as grf

torch = pytest.importorskip("torch", reason="GRFKernel needs the extra `gp`")
pytest.importorskip("gpytorch", reason="GRFKernel needs the extra `gp`")

from graphrf.gp import GRFKernel  # noqa: E402
from graphrf.gp.torch import sources  # noqa: E402
from graphrf.gp.torch.device_factors import TorchSeriesFactor  # noqa: E402

NODES = torch.tensor([7, 0, 33, 140, 7, 81])
KERNELS = [
    grf.Diffusion(3.0),
    grf.Diffusion(0.5, laplacian="combinatorial"),
    grf.Matern(2.5, 1.2),
    grf.kernels.PStepRandomWalk(2.5, 2),
    grf.kernels.LearnedModulation(3, (1.0, 0.6, -0.2, 0.1)),
    # Its derivatives do not end where it does.
    grf.kernels.LearnedModulation(3, (1.0, 0.0, 0.0, 0.0)),
]


def evaluated(kernel, graph, dtype=torch.float64):
    """K, and the gradient of a fixed weighting of it in the one parameter."""
    source = GRFKernel(graph, kernel).to(dtype)
    matrix = source(NODES).to_dense()
    weights = torch.randn(6, 6, generator=torch.Generator().manual_seed(0)).to(dtype)
    (matrix * weights).sum().backward()
    (gradient,) = [parameter.grad for parameter in source.parameters()]
    return matrix.detach(), gradient


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_sums_of_kept_terms_are_the_products_with_their_gradients(kernel, grid, monkeypatch):
    made = []
    plain = TorchSeriesFactor.gram_terms
    monkeypatch.setattr(TorchSeriesFactor, "gram_terms", lambda *a: (made.append(1), plain(*a))[1])
    matrix, gradient = evaluated(kernel, grid)
    single, slope = evaluated(kernel, grid, torch.float32)
    assert len(made) == 2
    monkeypatch.setattr(TorchSeriesFactor, "gram", lambda self, f: None)
    expected, wanted = evaluated(kernel, grid)
    torch.testing.assert_close(matrix, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(gradient, wanted, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(single.double(), expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(slope.double(), wanted, rtol=1e-3, atol=1e-4)


def test_terms_are_made_once_and_again_where_a_kernel_needs_more(grid, monkeypatch):
    made = []
    plain = TorchSeriesFactor.gram_terms
    monkeypatch.setattr(
        TorchSeriesFactor, "gram_terms", lambda self, n: (made.append(n), plain(self, n))[1]
    )
    source = GRFKernel(grid, grf.Diffusion(1.0)).double()
    with torch.no_grad():
        source(NODES).to_dense()
    assert not made  # nothing is trained: nothing is kept
    for lengthscale in (1.0, 1.1, 0.5):
        source.lengthscale = lengthscale
        source(NODES).to_dense()
    assert len(made) == 1
    source.lengthscale = 8.0
    expected = source(NODES).to_dense().detach()
    assert len(made) == 2
    assert made[1] > made[0]
    with torch.no_grad():
        torch.testing.assert_close(source(NODES).to_dense(), expected)
    twin = NODES.flip(0)
    torch.testing.assert_close(source(twin).to_dense(), expected.flip(0, 1))
    assert len(made) == 3


def test_more_than_the_bound_is_not_kept(grid, monkeypatch):
    expected = GRFKernel(grid, grf.Diffusion(3.0)).double()(NODES).to_dense()
    small = partial(TorchSeriesFactor, kept_numbers=21 * 10)
    monkeypatch.setattr(sources, "TorchSeriesFactor", small)
    monkeypatch.setattr(TorchSeriesFactor, "gram_terms", lambda *a: pytest.fail("kept too much"))
    source = GRFKernel(grid, grf.Diffusion(3.0)).double()
    found = source(NODES).to_dense()
    torch.testing.assert_close(found, expected)
    found.sum().backward()


def test_terms_by_products_on_a_device_are_the_same(grid):
    every = GRFKernel(grid, grf.Diffusion(3.0)).double().root_rows(torch.arange(144))
    factor = every.take(NODES)
    expected = factor.gram_terms(12)
    factor._host = None  # as on other devices than the CPU
    torch.testing.assert_close(factor.gram_terms(12), expected, rtol=0, atol=1e-13)


@pytest.mark.cuda
def test_terms_on_a_gpu_are_those_of_the_cpu(grid, gpu):
    expected = GRFKernel(grid, grf.Diffusion(3.0)).double()(NODES).to_dense()
    found = GRFKernel(grid, grf.Diffusion(3.0)).double().to(gpu)(NODES.to(gpu)).to_dense()
    torch.testing.assert_close(found.cpu(), expected)


def test_kept_terms_serve_other_dtypes(grid):
    operator = GRFKernel(grid, grf.Diffusion(2.0)).float()(NODES.float()[:, None]).evaluate_kernel()
    dense = operator.to_dense()  # which keeps the terms
    double = operator.double().to_dense()
    assert double.dtype == torch.float64
    np.testing.assert_allclose(double.detach(), dense.detach(), atol=1e-6)
