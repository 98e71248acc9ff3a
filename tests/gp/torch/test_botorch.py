"""A fitted regressor inside BoTorch, against dense posteriors and acquisition values computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

import graphrf as grf

torch = pytest.importorskip("torch", reason="GraphGPModel needs the extra `bo`")
pytest.importorskip("gpytorch", reason="GraphGPModel needs the extra `bo`")
pytest.importorskip("botorch", reason="GraphGPModel needs the extra `bo`")

from botorch.acquisition import (  # noqa: E402
    LogExpectedImprovement,
    UpperConfidenceBound,
    qLogNoisyExpectedImprovement,
)
from botorch.acquisition.objective import ScalarizedPosteriorTransform  # noqa: E402
from botorch.optim import optimize_acqf_discrete  # noqa: E402
from botorch.sampling import SobolQMCNormalSampler  # noqa: E402

from graphrf.gp import GraphGPModel  # noqa: E402
from graphrf.gp.torch import botorch as module  # noqa: E402

OBSERVED = np.array([3, 50, 77, 100, 141, 20, 64])
NOISE, SCALE = 0.04, 1.7
KERNEL = grf.Diffusion(2.0)


def values(n_outputs=None):
    rng = np.random.default_rng(0)
    return rng.standard_normal(OBSERVED.size if n_outputs is None else (OBSERVED.size, n_outputs))


@pytest.fixture(scope="module")
def grid():
    import networkx as nx

    return grf.Graph(nx.to_scipy_sparse_array(nx.grid_2d_graph(12, 12)))


def fitted(graph, y, method="series", nodes=OBSERVED):
    gp = grf.GraphGPRegressor(
        graph, kernel=KERNEL, optimize=False, noise=NOISE, output_scale=SCALE, mean="zero", method=method, seed=0
    )
    return gp.fit(nodes, y)


@pytest.fixture(scope="module")
def model(grid):
    return GraphGPModel(fitted(grid, values()))


def dense_posterior(graph, y):
    k = KERNEL.dense(graph)
    k *= SCALE * graph.n_nodes / np.trace(k)
    cross = k[:, OBSERVED]
    solved = np.linalg.solve(k[np.ix_(OBSERVED, OBSERVED)] + NOISE * np.eye(OBSERVED.size), np.eye(OBSERVED.size))
    return cross @ solved @ y, k - cross @ solved @ cross.T


def test_posteriors_of_any_batch_shape_are_the_dense_ones(model, grid):
    mean, covariance = dense_posterior(grid, values())
    for shape in ((3,), (1,), (4, 3), (5, 1), (2, 3, 2), (2, 2, 1)):
        nodes = np.random.default_rng(1).integers(0, 144, shape)
        for X in (torch.tensor(nodes)[..., None], torch.tensor(nodes, dtype=torch.float64)[..., None]):
            posterior = model.posterior(X)
            assert posterior.mean.shape == (*shape, 1)
            assert posterior.mean.dtype == torch.float64
            np.testing.assert_allclose(posterior.mean[..., 0], mean[nodes], atol=1e-7)
            np.testing.assert_allclose(
                posterior.distribution.covariance_matrix,
                covariance[nodes[..., :, None], nodes[..., None, :]],
                atol=1e-7,
            )
            np.testing.assert_allclose(posterior.variance[..., 0], np.diag(covariance)[nodes], atol=1e-7)
    assert model.posterior(torch.zeros(2, 1, 1, dtype=torch.float32)).mean.dtype == torch.float32
    assert model.num_outputs == 1
    assert model.batch_shape == torch.Size()


def test_batches_are_predicted_together(model, monkeypatch):
    sizes = []
    plain = grf.GraphGPRegressor.predict
    monkeypatch.setattr(
        grf.GraphGPRegressor,
        "predict",
        lambda self, nodes, **o: (sizes.append(len(nodes)), plain(self, nodes, **o))[1],
    )
    nodes = torch.arange(144).repeat(3)
    model.posterior(nodes[:, None, None])
    assert sizes == [144]  # distinct nodes, once
    pairs = torch.stack([torch.arange(144), torch.full((144,), 7)], dim=1)[..., None]
    whole = model.posterior(pairs)
    assert sizes == [144, 144]
    monkeypatch.setattr(module, "LARGEST_JOINT", 40)
    parts = model.posterior(pairs)
    assert len(sizes) > 3
    assert max(sizes[2:]) <= 40
    torch.testing.assert_close(parts.distribution.covariance_matrix, whole.distribution.covariance_matrix)


def test_observation_noise_is_added_on_the_diagonal_alone(model):
    X = torch.tensor([[[4], [9]]])
    plain = model.posterior(X).distribution.covariance_matrix
    noisy = model.posterior(X, observation_noise=True).distribution.covariance_matrix
    torch.testing.assert_close(noisy - plain, NOISE * torch.eye(2, dtype=torch.float64)[None])
    own = model.posterior(X, observation_noise=torch.tensor([[0.5], [2.0]])).distribution.covariance_matrix
    torch.testing.assert_close(own - plain, torch.diag(torch.tensor([0.5, 2.0], dtype=torch.float64))[None])


def test_several_outputs_are_independent_and_can_be_chosen_or_combined(grid):
    y = values(3)
    model = GraphGPModel(fitted(grid, y))
    mean, covariance = dense_posterior(grid, y)
    X = torch.tensor([[[4], [9]], [[70], [4]]])
    nodes = X[..., 0].numpy()
    posterior = model.posterior(X)
    assert model.num_outputs == 3
    np.testing.assert_allclose(posterior.mean, mean[nodes], atol=1e-7)
    single = model.posterior(X, output_indices=[1])
    np.testing.assert_allclose(single.mean[..., 0], mean[nodes][..., 1], atol=1e-7)
    joint = posterior.distribution.covariance_matrix.reshape(2, 3, 2, 3, 2)
    blocks = covariance[nodes[:, :, None], nodes[:, None, :]]
    np.testing.assert_allclose(joint[:, 1, :, 1], blocks, atol=1e-7)
    np.testing.assert_allclose(joint[:, 0, :, 1], 0, atol=1e-12)
    weights = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    combined = model.posterior(X, posterior_transform=ScalarizedPosteriorTransform(weights))
    np.testing.assert_allclose(combined.mean[..., 0], mean[nodes] @ weights.numpy(), atol=1e-7)
    np.testing.assert_allclose(combined.variance[..., 0], 5.25 * np.diag(covariance)[nodes], atol=1e-6)


def test_acquisition_functions_choose_the_best_node(model, grid):
    mean, covariance = dense_posterior(grid, values())
    std = np.sqrt(np.diag(covariance))
    choices = torch.arange(144, dtype=torch.float64)[:, None]
    chosen, value = optimize_acqf_discrete(UpperConfidenceBound(model, beta=4.0), q=1, choices=choices)
    upper = mean + 2 * std
    assert upper[int(chosen)] == pytest.approx(upper.max(), abs=1e-6)
    assert float(value) == pytest.approx(upper.max(), abs=1e-6)
    best = values().max()
    chosen, value = optimize_acqf_discrete(LogExpectedImprovement(model, best_f=best), q=1, choices=choices)
    normal = torch.distributions.Normal(0.0, 1.0)
    z = torch.tensor((mean - best) / std)
    improvement = torch.tensor(std) * (normal.log_prob(z).exp() + z * normal.cdf(z))
    assert float(value) == pytest.approx(float(improvement.max().log()), abs=1e-5)
    assert float(improvement[int(chosen)]) == pytest.approx(float(improvement.max()), rel=1e-5)


# Candidates that were observed stand twice in a batch.
@pytest.mark.filterwarnings("ignore:A not p.d.")
def test_noisy_expected_improvement_chooses_distinct_nodes_one_after_the_other(model):
    choices = torch.arange(144, dtype=torch.float64)[:, None]
    acquisition = qLogNoisyExpectedImprovement(
        model,
        torch.tensor(OBSERVED, dtype=torch.float64)[:, None],
        sampler=SobolQMCNormalSampler(torch.Size([64]), seed=0),
    )
    chosen, value = optimize_acqf_discrete(acquisition, q=3, choices=choices, unique=True)
    assert len(set(chosen[:, 0].tolist())) == 3
    assert torch.isfinite(value).all()
    with torch.no_grad():
        single = acquisition(choices[:, None])
    assert int(single.argmax()) == int(chosen[0])


def test_walked_posteriors_work_too(grid):
    gp = fitted(grid, values(), method="features")
    X = torch.arange(20)[:, None]
    posterior = GraphGPModel(gp).posterior(X)
    mean, covariance = gp.predict(np.arange(20), return_cov=True)
    np.testing.assert_allclose(posterior.mean[:, 0], mean)
    np.testing.assert_allclose(posterior.distribution.covariance_matrix, covariance)


def test_bad_input_is_refused(model, grid):
    from sklearn.exceptions import NotFittedError

    with pytest.raises(TypeError, match="must be a GraphGPRegressor"):
        GraphGPModel(KERNEL)
    with pytest.raises(NotFittedError):
        GraphGPModel(grf.GraphGPRegressor(grid))
    for bad in (torch.tensor([1.0]), torch.zeros(2, 1, 2), torch.tensor([[0.5]]), torch.tensor([[144]])):
        with pytest.raises(ValueError, match=r"`X`|144"):
            model.posterior(bad)
    with pytest.raises(TypeError, match="`observation_noise`"):
        model.posterior(torch.tensor([[1]]), observation_noise="yes")


def test_candidates_are_positions_also_where_nodes_are_named_by_integers(model, grid):
    named = grf.Graph(grid.adjacency, nodes=range(143, -1, -1))
    gp = fitted(named, values(), nodes=named.positions(OBSERVED))
    for shape in ((3, 1), (5, 1, 1)):
        X = torch.arange(np.prod(shape)).reshape(shape)
        expected, found = model.posterior(X), GraphGPModel(gp).posterior(X)
        assert torch.equal(found.mean, expected.mean)
        assert torch.equal(found.variance, expected.variance)
