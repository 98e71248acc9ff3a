"""Random features inside GPyTorch: dense formulas, GPyTorch's own kernels, training, batches."""

from __future__ import annotations

import math

import gpytorch
import numpy as np
import pytest
import torch
from gpytorch.kernels import RFFKernel, ScaleKernel
from linear_operator.operators import (
    LowRankRootLinearOperator,
    MatmulLinearOperator,
    RootLinearOperator,
)

from graphrf.euclidean.features import FourierFeatures
from graphrf.euclidean.gp.gpytorch_kernel import RandomFeatureKernel

DIRECTIONS = [
    ("iid", "iid"),
    ("orthogonal", "pnc"),
    ("simplex", "iid"),
    ("simplex+", "pm"),
    ("halton", None),
    ("sobol", None),
]


pytestmark = pytest.mark.usefixtures("one_torch_thread")


def data(n, dtype=torch.float64, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 4, (n, 2))
    y = np.sin(2 * x[:, 0]) + np.cos(x[:, 1]) + 0.1 * rng.standard_normal(n)
    return torch.tensor(x, dtype=dtype), torch.tensor(y, dtype=dtype)


class Model(gpytorch.models.ExactGP):
    def __init__(self, x, y, kernel, noise):
        likelihood = gpytorch.likelihoods.GaussianLikelihood().to(x.dtype)
        likelihood.noise = torch.tensor(noise, dtype=x.dtype)
        super().__init__(x, y, likelihood)
        self.mean_module, self.covar_module = gpytorch.means.ConstantMean(), kernel
        self.to(x.dtype)

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def scaled(kernel, scale=2.5, dtype=torch.float64):
    kernel = ScaleKernel(kernel).to(dtype)
    kernel.outputscale = torch.tensor(scale, dtype=dtype)
    return kernel


@pytest.mark.parametrize(("directions", "norms"), DIRECTIONS, ids=[d for d, _ in DIRECTIONS])
def test_entries_are_those_of_the_transformer(directions, norms):
    x, _ = data(9)
    kernel = RandomFeatureKernel(
        2, 6, directions=directions, norms=norms, ard_num_dims=2, seed=3
    ).double()
    kernel.lengthscale = [0.7, 1.9]
    features = FourierFeatures(
        6, directions=directions, norms=norms, lengthscale=[0.7, 1.9], seed=3
    ).fit(x.numpy())
    phi = torch.from_numpy(features.transform(x.numpy()))
    with torch.no_grad():
        # the buffer was cast from float32, the default dtype when the kernel was made
        torch.testing.assert_close(kernel(x).to_dense(), phi @ phi.T, rtol=0, atol=1e-5)
        torch.testing.assert_close(
            kernel(x[:4], x[4:]).to_dense(), phi[:4] @ phi[4:].T, rtol=0, atol=1e-5
        )
        torch.testing.assert_close(kernel(x, diag=True), torch.ones(9, dtype=torch.float64))


def test_the_convention_is_that_of_rff_kernel():
    x, _ = data(7)
    ours, theirs = (
        RandomFeatureKernel(2, 5, ard_num_dims=2, seed=0).double(),
        RFFKernel(5, 2, ard_num_dims=2).double(),
    )
    ours.lengthscale = theirs.lengthscale = torch.tensor([[0.6, 1.4]], dtype=torch.float64)
    theirs.randn_weights = ours.frequencies.mT
    with torch.no_grad():
        torch.testing.assert_close(ours.features(x), theirs._featurize(x, normalize=True))
        torch.testing.assert_close(ours(x, x[:3]).to_dense(), theirs(x, x[:3]).to_dense())


def test_operators_are_low_rank_where_that_pays():
    x, _ = data(30)
    narrow, wide = (RandomFeatureKernel(2, m, seed=0).double() for m in (4, 40))
    assert isinstance(narrow(x).evaluate_kernel(), LowRankRootLinearOperator)
    assert isinstance(wide(x).evaluate_kernel(), RootLinearOperator)
    assert not isinstance(wide(x).evaluate_kernel(), LowRankRootLinearOperator)
    assert isinstance(narrow(x, x[:5]).evaluate_kernel(), MatmulLinearOperator)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize(("m", "n"), [(10, 80), (60, 30)], ids=["low rank", "full rank"])
def test_predictions_and_likelihood_are_the_dense_ones(m, n, dtype):
    x, y = data(n, dtype)
    x_new = data(7, dtype, seed=1)[0]
    model = Model(x, y, scaled(RandomFeatureKernel(2, m, seed=0), dtype=dtype), 0.1)
    features = model.covar_module.base_kernel.double()
    with torch.no_grad():
        phi, phi_new = (math.sqrt(2.5) * features.features(each.double()) for each in (x, x_new))
        a = phi @ phi.T + 0.1 * torch.eye(n, dtype=torch.float64)
        mean = phi_new @ phi.T @ torch.linalg.solve(a, y.double())
        covariance = phi_new @ phi_new.T - phi_new @ phi.T @ torch.linalg.solve(a, phi @ phi_new.T)
        value = torch.distributions.MultivariateNormal(
            torch.zeros(n, dtype=torch.float64), a
        ).log_prob(y.double())
        features.to(dtype)
        training = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)(model(x), y)
        model.eval()
        posterior = model(x_new)
    tolerance = {"rtol": 0, "atol": 1e-9 if dtype == torch.float64 else 1e-3}
    assert posterior.mean.dtype == dtype
    torch.testing.assert_close(posterior.mean.double(), mean, **tolerance)
    torch.testing.assert_close(posterior.covariance_matrix.double(), covariance, **tolerance)
    torch.testing.assert_close(
        training.double() * n, value, rtol=0, atol=1e-8 if dtype == torch.float64 else 1e-2
    )


def test_gradients_reach_lengthscales_and_inputs():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    kernel = RandomFeatureKernel(2, 3, ard_num_dims=2, seed=0)
    torch.set_default_dtype(before)

    def entries(raw, x):
        return torch.func.functional_call(kernel, {"raw_lengthscale": raw}, (x,)).to_dense()

    raw = kernel.raw_lengthscale.detach().clone().requires_grad_()
    assert torch.autograd.gradcheck(entries, (raw, data(4)[0].requires_grad_()))


def test_a_batch_has_independent_frequencies_and_is_the_stack_of_its_members():
    kernel = RandomFeatureKernel(2, 4, batch_shape=torch.Size([2, 3]), seed=0).double()
    kernel.lengthscale = torch.linspace(0.5, 2, 6, dtype=torch.float64).reshape(2, 3, 1, 1)
    x, _ = data(5)
    with torch.no_grad():
        whole = kernel(x).to_dense()
        assert whole.shape == kernel(x).shape == (2, 3, 5, 5)
        assert kernel(x, x[:2]).to_dense().shape == (2, 3, 5, 2)
        assert kernel(x, diag=True).shape == (2, 3, 5)
        torch.testing.assert_close(kernel[1, 2](x).to_dense(), whole[1, 2])
        torch.testing.assert_close(kernel[0](x).to_dense(), whole[0])
    assert len(torch.unique(kernel.frequencies)) == kernel.frequencies.numel()
    alone = RandomFeatureKernel(2, 4, seed=0)
    torch.testing.assert_close(alone.frequencies, kernel.frequencies[0, 0].float())


def test_batches_of_points_share_the_frequencies():
    kernel = RandomFeatureKernel(2, 4, seed=0).double()
    x = torch.stack([data(5, seed=seed)[0] for seed in range(3)])
    with torch.no_grad():
        whole = kernel(x).to_dense()
        for part, each in zip(whole, x, strict=True):
            torch.testing.assert_close(part, kernel(each).to_dense())


@pytest.mark.parametrize("m", [4, 40], ids=["low rank", "full rank"])
def test_sums_of_kernels_of_different_batches_are_those_of_their_members(m):
    x, _ = data(30)
    single = RandomFeatureKernel(2, m, seed=0).double()
    batch = RandomFeatureKernel(2, m, batch_shape=torch.Size([3]), seed=1).double()
    with torch.no_grad():
        expected = single(x).to_dense() + batch(x).to_dense()
        for total in (single + batch, batch + single):
            assert isinstance(total(x).evaluate_kernel(), RootLinearOperator)
            torch.testing.assert_close(total(x).to_dense(), expected, rtol=0, atol=1e-12)
            torch.testing.assert_close(
                total(x, x[:4]).to_dense(), expected[..., :4], rtol=0, atol=1e-12
            )


def test_a_state_dict_carries_the_frequencies():
    x, _ = data(5)
    kernel, other = (RandomFeatureKernel(2, 4, seed=seed).double() for seed in (0, 1))
    other.load_state_dict(kernel.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(kernel(x).to_dense(), other(x).to_dense(), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: RandomFeatureKernel(2, 0), "`n_frequencies` must be at least 1"),
        (
            lambda: RandomFeatureKernel(2, ard_num_dims=3),
            "`ard_num_dims` must be None or `dimension`, 2",
        ),
        (lambda: RandomFeatureKernel(2, directions="sobol"), "`norms` must be None"),
        (
            lambda: RandomFeatureKernel(2, 4)(torch.zeros(5, 3)).to_dense(),
            "inputs must have dimension 2",
        ),
    ],
    ids=["zero", "ard", "norms", "dimension"],
)
def test_bad_input_is_refused(call, match):
    with pytest.raises(ValueError, match=match):
        call()
