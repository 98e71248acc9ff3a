"""GPyTorch on graph kernels at extreme scales, noise and lengthscales, in two precisions."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import graphrf as grf
from tests.numerics.extremes import graphs

torch = pytest.importorskip("torch")
gpytorch = pytest.importorskip("gpytorch")

from tests.support.gpytorch_regression import Regression  # noqa: E402

GRAPHS = dict(graphs())
ROUNDING = {torch.float32: 1e-6, torch.float64: 1e-14}


def _source(kind, graph, dtype):
    if kind == "series":
        return graph
    if kind == "walks":
        sampler = grf.RandomWalks(n_walks=64, lengths=grf.sampling.Truncated(8))
    else:
        sampler = grf.sampling.ExactPowers(12)
    return grf.sample_features(graph, sampler, seed=0, dtype=str(dtype).removeprefix("torch."))


@pytest.mark.filterwarnings("ignore::graphrf.features.TruncationWarning")
@pytest.mark.parametrize("dtype", ROUNDING, ids=str)
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("scaled by 1e-12", "series"),
        ("weights from 1e-12 to 1e12", "walks"),
        ("weights from 1e-12 to 1e12", "powers"),
    ],
)
def test_kernels_are_positive_and_gradients_finite(name, kind, dtype):
    graph = grf.Graph(GRAPHS[name])
    source = _source(kind, graph, dtype)
    every = torch.arange(6)
    sound = 0
    for length in (1e-12, 1.0, 30.0):
        kernel = grf.gp.GRFKernel(source, grf.Diffusion(length)).to(dtype)
        matrix = kernel(every).to_dense().detach()
        eigenvalues = torch.linalg.eigvalsh(matrix.double())
        assert eigenvalues[0] >= -6 * ROUNDING[dtype] * eigenvalues[-1]
        diagonal = kernel(every, diag=True)
        assert (diagonal >= 0).all()
        assert abs(float(diagonal.detach().double().mean()) - 1) < 1e-4
        for scale, noise in ((1e-12, 1e-8), (1e-12, 1.0), (1.0, 1e-8), (1e12, 1e-8), (1e12, 1.0)):
            sound += _trained_step(kernel, dtype, scale, noise)
    assert sound > 5


def _trained_step(kernel, dtype, scale, noise):
    """Whether a likelihood, gradients and variances are finite; else GPyTorch said no."""
    nodes = torch.arange(4)
    y = (scale**0.5 * torch.cos(nodes.double())).to(dtype)
    positive = gpytorch.constraints.GreaterThan(0.0)
    likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=positive).to(dtype)
    options = {"noise": noise * scale, "mean": gpytorch.means.ZeroMean(), "likelihood": likelihood}
    model = Regression(nodes, y, kernel, **options).to(dtype)
    model.covar_module.outputscale = scale
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of jitter, and of variances below GPyTorch's least
        try:
            value = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)(model(nodes), y)
            value.backward()
            model.eval()
            likelihood.eval()
            with torch.no_grad():
                posterior = model(torch.arange(6))
                mean, variance = posterior.mean, posterior.variance
        except gpytorch.utils.errors.NotPSDError:
            return False
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    for part in (value, mean, variance, *gradients):
        assert torch.isfinite(part).all()
    assert (variance >= 0).all()
    return True


@pytest.mark.parametrize("name", GRAPHS)
def test_products_in_torch_are_those_of_numpy(name):
    graph = grf.Graph(GRAPHS[name])
    x = np.random.default_rng(0).standard_normal((graph.n_nodes, 3))
    for dtype in ROUNDING:
        features = _source("walks", graph, dtype)
        for length in (1e-12, 1.0, 3.0):
            module = grf.gp.GRFKernel(features, grf.Diffusion(length), normalize=False).to(dtype)
            # whose parameters begin in float32
            matrix = features.matrix(module.kernel).toarray().astype(np.float64)
            wanted = matrix @ (matrix.T @ x)
            found = (
                module(torch.arange(graph.n_nodes))
                .matmul(torch.from_numpy(x).to(dtype))
                .detach()
                .numpy()
            )
            size = np.abs(matrix) @ (np.abs(matrix).T @ np.abs(x))
            assert (np.abs(found - wanted) <= 20 * ROUNDING[dtype] * size + 1e-30).all()
