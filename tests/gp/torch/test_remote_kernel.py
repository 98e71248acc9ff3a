"""GRFKernel over features that live elsewhere trains and predicts as over those at hand."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import graphrf as grf

torch = pytest.importorskip("torch", reason="GRFKernel needs the extra `gp`")
gpytorch = pytest.importorskip("gpytorch", reason="GRFKernel needs the extra `gp`")

from graphrf.features.bounds import HeavyTailWarning, TruncationWarning  # noqa: E402
from graphrf.gp import GRFKernel  # noqa: E402
from tests.gp.remote import PlainFactor, RemoteFactor, RemoteFeatures, Travels  # noqa: E402
from tests.support.gpytorch_regression import Regression  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread", "torch_float64")

KERNEL = grf.Diffusion(1.5)
NODES = np.random.default_rng(0).permutation(144)[:100]
X = torch.from_numpy(NODES[:80])[:, None]
Y = torch.from_numpy(np.sin(NODES[:80] / 12) + 0.1 * np.random.default_rng(1).standard_normal(80))


def _features(graph, sampler=None, **options):
    sampler = grf.RandomWalks(16, grf.sampling.Truncated(12)) if sampler is None else sampler
    return grf.sample_features(
        graph, sampler, **{"nodes": NODES, "seed": 5, "dtype": "float64", **options}
    )


def _trained(source, n_steps=2):
    """Losses, parameters and predictions after some steps, iteratively or by Cholesky."""
    model = Regression(X, Y, GRFKernel(source, KERNEL))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    evidence = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    numbers = []
    for step in range(n_steps):
        torch.manual_seed(step)  # the probes of the log determinant
        optimizer.zero_grad()
        loss = -evidence(model(X), Y)
        loss.backward()
        optimizer.step()
        numbers.append(loss.item())
    numbers += [parameter.detach().numpy() for parameter in model.parameters()]
    model.eval()
    with torch.no_grad():
        found = model(torch.from_numpy(NODES[60:])[:, None])
        numbers += [found.mean.numpy(), found.variance.numpy()]
    return np.concatenate([np.ravel(number) for number in numbers])


@pytest.mark.parametrize(
    ("factor", "iterative"), [(PlainFactor, True), (RemoteFactor, True), (RemoteFactor, False)]
)
def test_training_and_predictions_are_those_over_features_at_hand(grid, iterative, factor):
    features, travels = _features(grid), Travels()
    with (
        gpytorch.settings.max_cholesky_size(0 if iterative else 800),
        gpytorch.settings.cg_tolerance(1e-5),
        gpytorch.settings.eval_cg_tolerance(1e-5),
        gpytorch.settings.min_preconditioning_size(10),
    ):
        expected = _trained(features)
        found = _trained(RemoteFeatures(features, travels, factor=factor))
        wrong = _trained(RemoteFeatures(features, Travels(), factor=factor, error=1.05))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-7)
    assert np.abs(wrong - expected).max() > 1e-3
    assert travels.count("step_squares") == 1
    assert travels.count("grad_f") > 0


def test_sets_of_few_nodes_come_once_and_are_products_at_hand_from_then_on(grid):
    features, travels = _features(grid), Travels()
    module = GRFKernel(RemoteFeatures(features, travels), KERNEL)
    some = torch.from_numpy(NODES[:20])
    for _ in range(3):
        matrix = module(some).to_dense()
        (matrix.sum() + module(some, diag=True).sum()).backward()
    assert [name for name, *_ in travels] == ["diagonal", "step_squares", "take"]
    expected = GRFKernel(features, KERNEL)(some).to_dense()
    torch.testing.assert_close(matrix, expected, rtol=0, atol=1e-14)


def test_unknown_nodes_and_kernels_are_refused_and_normalisation_may_be_left_out(grid):
    features = _features(grid)
    remote = RemoteFeatures(features, Travels())
    every = torch.from_numpy(NODES)
    plain = GRFKernel(remote, KERNEL, normalize=False)(every).to_dense()
    np.testing.assert_allclose(plain.detach(), features.gram(KERNEL), atol=1e-14)
    missing = int(np.setdiff1d(np.arange(144), NODES)[0])
    with pytest.raises(ValueError, match="must be among the sampled nodes"):
        GRFKernel(remote, KERNEL)(torch.tensor([missing])).to_dense()
    with pytest.raises(ValueError, match="must be of the normalized Laplacian"):
        GRFKernel(remote, grf.Diffusion(1.0, laplacian="combinatorial"))


@pytest.mark.parametrize(
    ("sampler", "kernel", "category"),
    [
        (grf.RandomWalks(8, grf.sampling.Truncated(3)), grf.Diffusion(4.0), TruncationWarning),
        (grf.RandomWalks(8, grf.sampling.IID(0.4)), grf.Diffusion(8.0), HeavyTailWarning),
        (grf.RandomWalks(8, grf.sampling.Truncated(12)), KERNEL, None),
    ],
)
def test_warnings_are_those_of_features_at_hand_and_point_at_the_caller(
    grid, sampler, kernel, category
):
    features = _features(grid, sampler)
    messages = []
    for source in (features, RemoteFeatures(features, Travels())):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            GRFKernel(source, kernel)
        assert all(warning.filename == __file__ for warning in caught)
        assert {warning.category for warning in caught} - {grf.features.FeatureErrorWarning} == (
            set() if category is None else {category}
        )
        messages.append([str(warning.message) for warning in caught])
    assert messages[0] == messages[1]
