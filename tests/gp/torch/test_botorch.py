"""A fitted regressor inside BoTorch, against dense posteriors and acquisition values."""

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


def fitted(graph, y, method="series", nodes=OBSERVED):
    gp = grf.GraphGPRegressor(
        graph,
        kernel=KERNEL,
        optimize=False,
        noise=NOISE,
        output_scale=SCALE,
        mean="zero",
        method=method,
        seed=0,
    )
    return gp.fit(nodes, y)


@pytest.fixture(scope="module")
def model(grid):
    return GraphGPModel(fitted(grid, values()))


def dense_posterior(graph, y):
    return dense_after(graph, OBSERVED, y, np.full(OBSERVED.size, NOISE))


def test_posteriors_of_any_batch_shape_are_the_dense_ones(model, grid):
    mean, covariance = dense_posterior(grid, values())
    for shape in ((3,), (1,), (4, 3), (5, 1), (2, 3, 2), (2, 2, 1)):
        nodes = np.random.default_rng(1).integers(0, 144, shape)
        for X in (
            torch.tensor(nodes)[..., None],
            torch.tensor(nodes, dtype=torch.float64)[..., None],
        ):
            posterior = model.posterior(X)
            assert posterior.mean.shape == (*shape, 1)
            assert posterior.mean.dtype == torch.float64
            np.testing.assert_allclose(posterior.mean[..., 0], mean[nodes], atol=1e-7)
            np.testing.assert_allclose(
                posterior.distribution.covariance_matrix,
                covariance[nodes[..., :, None], nodes[..., None, :]],
                atol=1e-7,
            )
            np.testing.assert_allclose(
                posterior.variance[..., 0], np.diag(covariance)[nodes], atol=1e-7
            )
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
    torch.testing.assert_close(
        parts.distribution.covariance_matrix, whole.distribution.covariance_matrix
    )


def test_observation_noise_is_added_on_the_diagonal_alone(model):
    X = torch.tensor([[[4], [9]]])
    plain = model.posterior(X).distribution.covariance_matrix
    noisy = model.posterior(X, observation_noise=True).distribution.covariance_matrix
    torch.testing.assert_close(noisy - plain, NOISE * torch.eye(2, dtype=torch.float64)[None])
    own = model.posterior(
        X, observation_noise=torch.tensor([[0.5], [2.0]])
    ).distribution.covariance_matrix
    torch.testing.assert_close(
        own - plain, torch.diag(torch.tensor([0.5, 2.0], dtype=torch.float64))[None]
    )


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
    np.testing.assert_allclose(
        combined.variance[..., 0], 5.25 * np.diag(covariance)[nodes], atol=1e-6
    )


def test_acquisition_functions_choose_the_best_node(model, grid):
    mean, covariance = dense_posterior(grid, values())
    std = np.sqrt(np.diag(covariance))
    choices = torch.arange(144, dtype=torch.float64)[:, None]
    chosen, value = optimize_acqf_discrete(
        UpperConfidenceBound(model, beta=4.0), q=1, choices=choices
    )
    upper = mean + 2 * std
    assert upper[int(chosen)] == pytest.approx(upper.max(), abs=1e-6)
    assert float(value) == pytest.approx(upper.max(), abs=1e-6)
    best = values().max()
    chosen, value = optimize_acqf_discrete(
        LogExpectedImprovement(model, best_f=best), q=1, choices=choices
    )
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


def test_bad_input_is_refused(model, grid):
    from sklearn.exceptions import NotFittedError

    with pytest.raises(TypeError, match="must be a GraphGPRegressor"):
        GraphGPModel(KERNEL)
    with pytest.raises(NotFittedError):
        GraphGPModel(grf.GraphGPRegressor(grid))
    for bad in (
        torch.tensor([1.0]),
        torch.zeros(2, 1, 2),
        torch.tensor([[0.5]]),
        torch.tensor([[144]]),
    ):
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


# -- more observations, some of the outputs, drawn functions ---------------------------------------


def dense_after(graph, nodes, y, noise):
    """Mean and covariance given observations with a variance each."""
    k = KERNEL.dense(graph)
    k *= SCALE * graph.n_nodes / np.trace(k)
    solved = np.linalg.solve(k[np.ix_(nodes, nodes)] + np.diag(noise), k[nodes])
    return solved.T @ y, k - k[:, nodes] @ solved


@pytest.mark.parametrize("steps", [1, 2])
def test_a_conditioned_model_is_the_model_of_all_observations(steps, model, grid):
    more, y = np.array([70, 3, 12, 12]), np.array([1.0, -0.5, 2.0, 1.8])
    X, Y = torch.tensor(more)[:, None], torch.tensor(y)[:, None]
    later = model
    for part in np.array_split(np.arange(4), steps):
        later = later.condition_on_observations(X[part], Y[part])
    assert later.batch_shape == torch.Size()
    nodes = np.append(OBSERVED, more)
    mean, covariance = dense_after(grid, nodes, np.append(values(), y), np.full(nodes.size, NOISE))
    query = np.array([5, 70, 90])
    posterior = later.posterior(torch.tensor(query)[:, None])
    np.testing.assert_allclose(posterior.mean[:, 0], mean[query], atol=1e-6)
    np.testing.assert_allclose(
        posterior.distribution.covariance_matrix, covariance[np.ix_(query, query)], atol=1e-6
    )
    alone = later.posterior(torch.tensor(query)[:, None, None])
    np.testing.assert_allclose(alone.variance[:, 0, 0], np.diag(covariance)[query], atol=1e-6)
    np.testing.assert_allclose(
        model.posterior(torch.tensor([[5]])).mean,
        dense_posterior(grid, values())[0][[[5]]],
        atol=1e-6,
    )


def test_batches_of_observations_with_noise_of_their_own(model, grid):
    X = torch.tensor([[[1.0], [2.0]], [[30.0], [99.0]], [[7.0], [140.0]]], dtype=torch.float64)
    Y = torch.randn(
        4, 3, 2, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    ).requires_grad_()
    noise = torch.tensor([0.5, 1e-3], dtype=torch.float64)[:, None]
    later = model.condition_on_observations(X, Y, noise=noise)
    assert later.batch_shape == (4, 3)
    query = torch.tensor([[5.0], [30.0]], dtype=torch.float64)
    posterior = later.posterior(query)
    assert posterior.mean.shape == (4, 3, 2, 1)
    for i, j in ((0, 0), (3, 1), (2, 2)):
        nodes = np.append(OBSERVED, X[j, :, 0].long().numpy())
        y = np.append(values(), Y[i, j, :, 0].detach().numpy())
        mean, covariance = dense_after(grid, nodes, y, [*[NOISE] * OBSERVED.size, 0.5, 1e-3])
        np.testing.assert_allclose(posterior.mean[i, j, :, 0].detach(), mean[[5, 30]], atol=1e-6)
        found = posterior.distribution.covariance_matrix[i, j]
        np.testing.assert_allclose(found, covariance[np.ix_([5, 30], [5, 30])], atol=1e-6)
    posterior.mean.sum().backward()
    assert bool((Y.grad != 0).all())
    # Candidates of their own before the model's batch.
    each = later.posterior(query.expand(5, 1, 1, 2, 1))
    torch.testing.assert_close(each.mean[4].detach(), posterior.mean.detach())


def test_fantasies_are_drawn_at_the_nodes_and_conditioned_on(model):
    X = torch.tensor([[[4.0], [9.0]], [[70.0], [4.0]]], dtype=torch.float64)
    sampler = SobolQMCNormalSampler(torch.Size([16]), seed=0)
    fantasy = model.fantasize(X, sampler)
    assert fantasy.batch_shape == (16, 2)
    before, after = model.posterior(X), fantasy.posterior(X)
    assert after.mean.shape == (16, 2, 2, 1)
    assert bool((after.variance < before.variance).all())
    torch.testing.assert_close(after.mean.mean(0), before.mean, atol=0.1, rtol=0)


def test_conditioning_several_outputs_and_taking_some_of_them(grid):
    y = values(3)
    model = GraphGPModel(fitted(grid, y))
    X, Y = (
        torch.tensor([[70], [12]]),
        torch.tensor([[1.0, 2.0, 3.0], [0.5, -1.0, 0.0]], dtype=torch.float64),
    )
    query = torch.tensor([[5], [71]])
    noise = torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64).expand(2, 3)
    for later in (
        model.condition_on_observations(X, Y, noise=noise).subset_output([2, 0]),
        model.subset_output([2, 0]).condition_on_observations(
            X, Y[:, [2, 0]], noise=noise[:, [2, 0]]
        ),
    ):
        assert later.num_outputs == 2
        posterior = later.posterior(query)
        for place, k in enumerate((2, 0)):
            nodes = np.append(OBSERVED, [70, 12])
            spread = [*[NOISE] * OBSERVED.size, *[(0.1, 0.2, 0.3)[k]] * 2]
            mean, covariance = dense_after(grid, nodes, np.append(y[:, k], Y[:, k].numpy()), spread)
            np.testing.assert_allclose(posterior.mean[:, place], mean[[5, 71]], atol=1e-6)
            np.testing.assert_allclose(
                posterior.variance[:, place], np.diag(covariance)[[5, 71]], atol=1e-6
            )
        single = later.posterior(query, output_indices=[1])
        torch.testing.assert_close(single.mean[:, 0], posterior.mean[:, 1])
    assert model.num_outputs == 3
    chosen = model.subset_output([1]).posterior(query)
    torch.testing.assert_close(chosen.mean[:, 0], model.posterior(query).mean[:, 1])


def test_matheron_paths_are_draws_of_the_regressor(grid):
    from botorch.models.deterministic import MatheronPathModel
    from botorch.sampling.pathwise import draw_matheron_paths

    y = values(2)
    model, both = GraphGPModel(fitted(grid, y[:, 0])), GraphGPModel(fitted(grid, y))
    every = torch.arange(144)[:, None]
    torch.manual_seed(3)
    seed = int(torch.randint(2**62, ()))
    torch.manual_seed(3)
    paths = draw_matheron_paths(model, torch.Size([2, 3]))
    drawn = fitted(grid, y[:, 0]).sample(n_samples=6, seed=seed).reshape(2, 3, 144)
    np.testing.assert_array_equal(paths(every), drawn)
    own = torch.randint(144, (4, 2, 3, 5, 1), generator=torch.Generator().manual_seed(0))
    expected = np.take_along_axis(np.broadcast_to(drawn, (4, 2, 3, 144)), own[..., 0].numpy(), -1)
    np.testing.assert_array_equal(paths(own), expected)
    assert paths(every.float()).dtype == torch.float32
    torch.manual_seed(4)
    seed = int(torch.randint(2**62, ()))
    torch.manual_seed(4)
    path = MatheronPathModel(both.subset_output([1, 0]))
    np.testing.assert_array_equal(path(every), fitted(grid, y).sample(seed=seed)[0][:, [1, 0]])
    assert path(every.expand(7, 144, 1)).shape == (7, 144, 2)
    with pytest.raises(ValueError, match="fit its regressor"):
        draw_matheron_paths(
            model.condition_on_observations(every[:1], torch.zeros(1, 1)), torch.Size([1])
        )


@pytest.mark.filterwarnings("ignore::UserWarning")  # BoTorch's, of its own settings
def test_acquisition_functions_that_look_ahead_agree_with_their_definitions(model, grid):
    from botorch.acquisition import qKnowledgeGradient
    from botorch.acquisition.active_learning import qNegIntegratedPosteriorVariance

    every = torch.arange(144, dtype=torch.float64)[:, None]
    _, covariance = dense_posterior(grid, values())
    with torch.no_grad():
        found = qNegIntegratedPosteriorVariance(model, every)(every[:20, None])
    reduced = np.square(covariance[:, :20]).sum(0) / (np.diag(covariance)[:20] + NOISE)
    np.testing.assert_allclose(found, (reduced - np.trace(covariance)) / 144, atol=1e-6)
    gradient = qKnowledgeGradient(
        model, num_fantasies=3, sampler=SobolQMCNormalSampler(torch.Size([3]), seed=0)
    )
    candidates = torch.tensor([[[50.0], [51.0], [52.0], [53.0]]], dtype=torch.float64)
    with torch.no_grad():
        fantasy = model.fantasize(candidates[:, :1], gradient.sampler)
        expected = fantasy.posterior(candidates[0, 1:, None][:, None]).mean.mean()
        assert float(gradient(candidates)) == pytest.approx(float(expected), abs=1e-9)


def test_observations_that_do_not_fit_are_refused(model):
    X = torch.tensor([[1], [2]])
    for Y in (torch.zeros(2), torch.zeros(3, 1), torch.zeros(2, 2), [[1.0], [2.0]]):
        with pytest.raises(ValueError, match="`Y` must have shape"):
            model.condition_on_observations(X, Y)
    with pytest.raises(ValueError, match="`X` must be a tensor"):
        model.condition_on_observations([[1]], torch.zeros(1, 1))


def test_other_likelihoods_have_the_latent_functions_posterior_and_no_noise_of_their_own(grid):
    counts = np.random.default_rng(0).poisson(3.0, OBSERVED.size)
    gp = grf.GraphGPRegressor(
        grid,
        kernel=KERNEL,
        optimize=False,
        likelihood="poisson",
        output_scale=SCALE,
        method="series",
        seed=0,
    ).fit(OBSERVED, counts)
    model, query = GraphGPModel(gp), np.array([5, 70])
    mean, covariance = gp.predict(query, return_cov=True, latent=True)
    together, alone = (
        model.posterior(torch.tensor(query)[:, None]),
        model.posterior(torch.tensor(query)[:, None, None]),
    )
    np.testing.assert_allclose(together.mean[:, 0], mean)
    np.testing.assert_allclose(together.distribution.covariance_matrix, covariance)
    np.testing.assert_allclose(alone.mean[:, 0, 0], mean)
    np.testing.assert_allclose(alone.variance[:, 0, 0], np.diag(covariance), atol=1e-6)
    X, Y = torch.tensor([[5]]), torch.tensor([[2.0]], dtype=torch.float64)
    with pytest.raises(ValueError, match="`observation_noise` must give the variances"):
        model.posterior(X, observation_noise=True)
    with pytest.raises(ValueError, match="`noise` must give the variances"):
        model.condition_on_observations(X, Y)
    noise = torch.tensor(0.1, dtype=torch.float64)
    later = model.condition_on_observations(X, Y, noise=noise).posterior(
        torch.tensor(query)[:, None]
    )
    gain = covariance[:, 0] / (covariance[0, 0] + 0.1)
    np.testing.assert_allclose(later.mean[:, 0], mean + gain * (2.0 - mean[0]), atol=1e-8)
