"""Regression with areal kernels against dense algebra, on the methods that serve them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad

import graphrf as grf
from graphrf.gp.hyperparameters.likelihood_search import (
    LikelihoodSearch,
    TrainingBlock,
    precision_mean_variance,
)
from graphrf.gp.hyperparameters.precision_search import PrecisionSearch
from graphrf.gp.hyperparameters.space import Model, Space, Units, hyperparameter_range
from graphrf.gp.likelihoods.counts import Poisson
from graphrf.gp.likelihoods.real import StudentT
from graphrf.gp.methods.gram import PrecisionGram
from graphrf.gp.model.observations import Observations
from graphrf.gp.model.prior import HyperparameterPrior
from graphrf.gp.model.responses import Responses
from graphrf.gp.posterior.approximation import expectation_propagation
from graphrf.gp.posterior.approximation.expectation_propagation import (
    approximate,
    independent_sites,
)
from graphrf.gp.posterior.approximation.priors import DensePrior, with_mean
from graphrf.gp.posterior.approximation.sparse import SparsePrior
from graphrf.operators.precision.areal import precision_of

KERNELS = [grf.ICAR(), grf.BYM2(0.3), grf.CAR(0.8), grf.Leroux(0.7)]
# of others test_expectation.py has gradients by a sparse precision
LIKELIHOODS = [Poisson(), StudentT(0.3, 3.0)]
SPREAD = 3.0


def graph_for(kernel, weighted_graph, karate):
    """Three components, one of them a node, where the kernel is defined there."""
    return karate if isinstance(kernel, grf.CAR) else weighted_graph


@pytest.mark.parametrize("mean", ["constant", "zero", "covariate"])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_the_posterior_is_that_of_dense_algebra(kernel, mean, weighted_graph, karate):
    graph = graph_for(kernel, weighted_graph, karate)
    n, rng = graph.n_nodes, np.random.default_rng(0)
    # One node repeats; a component and the isolated node are not observed.
    nodes = np.array([0, 1, 3, 3, 2])
    y, scale, noise = rng.standard_normal(5) + 2, 1.7, 0.3
    x = rng.standard_normal(n)
    H = {
        "constant": np.ones((n, 1)),
        "zero": np.zeros((n, 0)),
        "covariate": np.column_stack([np.ones(n), x]),
    }[mean]
    gp = grf.GraphGPRegressor(
        graph,
        kernel=kernel,
        optimize=False,
        output_scale=scale,
        noise=noise,
        numerics=grf.gp.Numerics(normalize=False),
        method="precision",
        mean=x if mean == "covariate" else mean,
        seed=0,
    ).fit(nodes, y)
    K = scale * kernel.dense(graph)
    A, Hu = K[np.ix_(nodes, nodes)] + noise * np.eye(5), H[nodes]
    M = np.linalg.inv(Hu.T @ np.linalg.solve(A, Hu))
    beta = M @ Hu.T @ np.linalg.solve(A, y)
    gain = np.linalg.solve(A, K[nodes]).T
    rest = H - gain @ Hu
    found, covariance = gp.predict(return_cov=True)
    expected = K - gain @ K[nodes] + rest @ M @ rest.T
    np.testing.assert_allclose(found, H @ beta + gain @ (y - Hu @ beta), atol=1e-8)
    np.testing.assert_allclose(covariance, expected, atol=1e-8)
    np.testing.assert_allclose(
        gp.predict(return_std=True)[1], np.sqrt(np.diag(expected)), atol=1e-8
    )
    np.testing.assert_allclose(gp.coefficients_["mean"].to_numpy(), beta, atol=1e-8)
    np.testing.assert_allclose(gp.coefficients_["sd"].to_numpy(), np.sqrt(np.diag(M)), atol=1e-8)
    r = y - Hu @ beta
    value = -0.5 * (r @ np.linalg.solve(A, r) + np.linalg.slogdet(2 * np.pi * A)[1])
    assert gp.log_marginal_likelihood_ == pytest.approx(value, abs=1e-8)
    np.testing.assert_allclose(gp.prior_covariance(), K, atol=1e-8)
    assert gp.converged_
    assert gp.method_ == "precision"


def test_draws_have_the_posteriors_covariance(weighted_graph):
    """Of 36 moments none is off by six deviations but once in ten million runs."""
    gp = grf.GraphGPRegressor(
        weighted_graph, kernel=grf.BYM2(0.6), optimize=False, output_scale=1.0, noise=0.2, seed=0
    ).fit([0, 1, 5], [1.0, 2.0, -1.0])
    mean, covariance = gp.predict(return_cov=True)
    draws = gp.sample(n_samples=3_000, seed=1) - mean
    variances = np.diag(covariance)
    error = np.sqrt((covariance**2 + np.outer(variances, variances)) / 3_000)
    assert (np.abs(draws.T @ draws / 3_000 - covariance) < 6 * error).all()


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda own: type(own).__name__)
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_evidence_and_gradient_are_those_of_dense_matrices(
    kernel, likelihood, weighted_graph, karate, monkeypatch
):
    monkeypatch.setattr(expectation_propagation, "_SETTLED", 1e-9)
    monkeypatch.setattr(expectation_propagation, "_ROUNDS", 300)
    graph = graph_for(kernel, weighted_graph, karate)
    rng, n = np.random.default_rng(0), graph.n_nodes
    basis = np.column_stack([np.ones(n), rng.standard_normal(n)])
    positions = np.concatenate([np.arange(6), [2, 2]])
    y = likelihood.sample(np.full(8, 0.3), rng)
    y = likelihood.checked(y, None)
    responses = Responses.of(positions, y, np.zeros(8), basis)
    precision, names = precision_of(graph, kernel), kernel.proportions

    sites = independent_sites(responses, likelihood, SPREAD)

    def dense(moved, amplitude=1.3):
        matrix = amplitude * moved.dense(graph)[np.ix_(responses.nodes, responses.nodes)]
        return approximate(
            DensePrior(with_mean(matrix, basis[responses.nodes], SPREAD)),
            responses,
            likelihood,
            sites,
        )

    prior = SparsePrior(precision, 1.3, responses, SPREAD)
    sparse = approximate(prior, responses, likelihood, sites)
    slopes = prior.slopes(sparse.sites.precision, sparse.normal.variance, names)
    own = dense(kernel)
    assert sparse.log_evidence == pytest.approx(own.log_evidence, abs=1e-7)
    np.testing.assert_allclose(sparse.normal.mean, own.normal.mean, atol=1e-7)
    step = 1e-4
    near = 0.05 if isinstance(likelihood, StudentT) else 1e-5  # sites of outliers are held at none
    ends = [dense(kernel, 1.3 * np.exp(s)).log_evidence for s in (step, -step)]
    assert slopes.log_amplitude == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=near)
    for name, slope in zip(names, slopes.kernel, strict=True):
        value = kernel.hyperparameters[name]
        ends = [dense(kernel.replace(**{name: value + s})).log_evidence for s in (step, -step)]
        assert slope == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=near)


@pytest.mark.parametrize("kernel", KERNELS[1:], ids=repr)
def test_training_has_exact_gradients_in_log_odds(kernel, karate):
    precision, (name,) = precision_of(karate, kernel), kernel.proportions
    rng = np.random.default_rng(0)
    observations = Observations.of(np.arange(20), rng.standard_normal((20, 1)), np.ones((34, 1)))
    ranges, units = {name: hyperparameter_range(kernel, name, 1.0, 1.0)}, Units(1.0)
    space = Space.of(kernel, ranges, HyperparameterPrior(), units, output_scale=None, noise=None)
    mean_variance = precision_mean_variance(precision)
    search = PrecisionSearch(precision, observations, LikelihoodSearch((), space, mean_variance))
    point = space.vector_of(Model(kernel, 0.8, noise=0.3))
    assert point[0] == pytest.approx(
        np.log(kernel.hyperparameters[name] / (1 - kernel.hyperparameters[name]))
    )
    assert space.model(point).kernel.hyperparameters[name] == pytest.approx(
        kernel.hyperparameters[name]
    )
    _, gradient = search.log_posterior(point)
    numerical = [
        (
            search.log_posterior(point + step, gradient=False)[0]
            - search.log_posterior(point - step, gradient=False)[0]
        )
        / 2e-5
        for step in 1e-5 * np.eye(3)
    ]
    np.testing.assert_allclose(gradient, numerical, atol=1e-6)
    dense = LikelihoodSearch(
        [TrainingBlock(PrecisionGram(precision, observations.nodes), observations)],
        space,
        mean_variance,
    )
    for ours, theirs in zip(search.log_posterior(point), dense.log_posterior(point), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-8)


@pytest.fixture(scope="module")
def districts():
    """A 12 x 12 map of districts with structured and unstructured variation, and its graph."""
    import networkx as nx

    graph = grf.load_graph(nx.convert_node_labels_to_integers(nx.grid_2d_graph(12, 12)))
    rng = np.random.default_rng(3)
    root = grf.BYM2(0.8).dense_root(graph)
    x = rng.standard_normal(144)
    return graph, x, 0.7 * root @ rng.standard_normal(144) + 0.5 * x, rng


@pytest.mark.parametrize("name", ["icar", "bym2", "car"])
def test_all_are_trained_and_saved(name, districts, tmp_path):
    graph, _, f, rng = districts
    y = f + 0.2 * rng.standard_normal(144)
    gp = grf.GraphGPRegressor(graph, kernel=name, seed=0, prior={"mixing": (1.0, 4.0)}).fit(
        np.arange(144), y
    )
    assert gp.converged_
    assert gp.n_points_ > 1  # averaged over hyperparameters, shares among them
    if gp.kernel_.proportions:
        points = {
            point.kernel.hyperparameters[gp.kernel_.proportions[0]] for point in gp._fitted.points
        }
        assert len(points) > 1
    gp.save(tmp_path / "gp.npz")
    loaded = grf.GraphGPRegressor.load(tmp_path / "gp.npz")
    np.testing.assert_array_equal(loaded.predict(), gp.predict())
    assert loaded.kernel_ == gp.kernel_


def test_many_observations_train_by_the_exact_likelihood(districts):
    graph, x, f, rng = districts
    cases = rng.poisson(5 * np.exp(f))
    settings = {
        "kernel": "bym2",
        "likelihood": "poisson",
        "mean": x,
        "hyperparameters": "mode",
        "seed": 0,
    }
    gp = grf.GraphGPRegressor(graph, **settings).set_params(numerics__max_train=60)
    gp.fit(np.arange(144), cases, exposure=np.full(144, 5.0))
    assert gp.converged_
    assert abs(gp.coefficients_["mean"].iloc[1] - 0.5) < 4 * gp.coefficients_["sd"].iloc[1]
    whole = grf.GraphGPRegressor(graph, **settings)
    whole.fit(np.arange(144), cases, exposure=np.full(144, 5.0))
    # One posterior, two ways to it.
    assert gp.kernel_.mixing == pytest.approx(whole.kernel_.mixing, abs=0.02)


@pytest.mark.parametrize("kernel", ["car", "matern"])
def test_a_trained_scale_has_another_unit_without_normalisation_and_predicts_the_same(
    kernel, karate
):
    nodes, y = np.arange(0, 34, 2), np.cos(np.arange(0, 34, 2))
    plain, divided, default = (
        grf.GraphGPRegressor(
            karate,
            kernel=kernel,
            method="precision",
            hyperparameters="mode",
            seed=0,
            numerics=grf.gp.Numerics(normalize=normalize),
        ).fit(nodes, y)
        for normalize in (False, True, None)
    )
    for one, other in zip(
        plain.predict(return_std=True), divided.predict(return_std=True), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    assert divided.output_scale_ / divided.mean_variance_ == pytest.approx(
        plain.output_scale_, rel=1e-12
    )
    assert abs(divided.mean_variance_ - 1) > 0.1
    assert default.output_scale_ == (plain if kernel == "car" else divided).output_scale_


def test_bad_settings_are_refused(weighted_graph):
    y = np.arange(8.0)
    for options, message in (
        ({"method": "series"}, "`method` must be 'auto' or 'precision'"),
        ({"method": "features"}, "`method` must be 'auto' or 'precision'"),
        (
            {
                "numerics": grf.gp.Numerics(
                    sampler=grf.sampling.ExactPowers(3, laplacian="combinatorial")
                )
            },
            "`sampler` must be None",
        ),
        (
            {"numerics": grf.gp.Numerics(feature_sampler=grf.sample_features)},
            "`feature_sampler` must be None",
        ),
        ({"optimize": ["lengthscale"]}, "`optimize` must name hyperparameters"),
        ({"prior": {"mixing": 0.5}}, "`mixing`|mixing"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            grf.GraphGPRegressor(weighted_graph, kernel="bym2", **options).fit(np.arange(8), y)
    with pytest.raises(ValueError, match="no isolated nodes"):
        grf.GraphGPRegressor(weighted_graph, kernel="car").fit(np.arange(8), y)
    with pytest.raises(ValueError, match="function of the Laplacian"):
        grf.GraphGPClassifier(weighted_graph, kernel=grf.BYM2()).fit(np.arange(8), y > 3)


def test_a_map_of_islands_is_independent():
    alone = grf.Graph(np.zeros((4, 4)))
    for kernel in ("icar", "bym2"):
        gp = grf.GraphGPRegressor(
            alone, kernel=kernel, optimize=False, output_scale=2.0, noise=0.5, seed=0
        )
        mean, std = gp.fit([0, 1], [1.0, 3.0]).predict(return_std=True)
        np.testing.assert_allclose(gp.prior_covariance(), 2 * np.eye(4), atol=1e-12)
        np.testing.assert_allclose(mean, [2 - 0.8, 2 + 0.8, 2, 2], atol=1e-10)
        np.testing.assert_allclose(std[2:], np.sqrt(2 + 2.5 / 2), atol=1e-10)  # and of the constant


def test_a_share_at_its_end_is_told_as_a_share(karate):
    """Counts that are as rough as the graph allows: no dependence at all."""
    rough = np.linalg.eigh(karate.laplacian(normalized=True).toarray())[1][:, -1]
    y = np.round(400 * np.exp(5 * rough))
    gp = grf.GraphGPRegressor(
        karate, kernel="car", likelihood="poisson", hyperparameters="mode", seed=0, prior=None
    )
    with pytest.warns(UserWarning, match=r"the smallest dependence that is searched, 0\.001"):
        gp.fit(np.arange(34), y)


def test_the_penalised_prior_of_the_mixing_share_is_exponential_in_the_distance(karate):
    prior = grf.gp.PenalisedMixing.of(karate, below=0.4, probability=0.7)

    def distance(phi):  # sqrt(2 KL) of N(0, K) from N(0, I)
        k = grf.BYM2(phi).dense(karate)
        return np.sqrt(np.trace(k) - len(k) - np.linalg.slogdet(k)[1])

    rate = -np.log(0.3) / distance(0.4)
    x = np.array([-4.0, 0.3, 2.5])
    value, slope = prior.log_density(x)
    phi, h = 1 / (1 + np.exp(-x)), 1e-5
    by_share = np.array([(distance(p + h) - distance(p - h)) / (2 * h) for p in phi])
    wanted = (
        rate * np.exp(-rate * np.array([distance(p) for p in phi])) * by_share * phi * (1 - phi)
    )
    np.testing.assert_allclose(np.exp(value), wanted, rtol=1e-6)
    ends = [prior.log_density(x + s)[0] for s in (h, -h)]
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * h), atol=1e-7)

    def mass(low, high):
        return quad(lambda t: float(np.exp(prior.log_density(t)[0])), low, high, limit=200)[0]

    assert mass(-30, np.log(0.4 / 0.6)) == pytest.approx(0.7, abs=1e-6)
    assert mass(-30, 4) == pytest.approx(
        1 - np.exp(-rate * distance(1 / (1 + np.exp(-4)))), abs=1e-6
    )


def test_the_penalised_prior_draws_shares_down_and_is_saved(karate, tmp_path):
    y = grf.BYM2(0.7).dense_root(karate) @ np.random.default_rng(1).standard_normal(34)
    settings = {
        "hyperparameters": "mode",
        "noise": 0.1,
        "output_scale": 1.0,
        "numerics": grf.gp.Numerics(normalize=False),
        "seed": 0,
    }
    shares = []
    for below in (0.9, 0.01):
        mixing = grf.gp.PenalisedMixing.of(karate, below=below, probability=0.9)
        gp = grf.GraphGPRegressor(karate, kernel="bym2", prior={"mixing": mixing}, **settings)
        shares.append(gp.fit(np.arange(34), y).kernel_.mixing)
    assert shares[1] < shares[0]
    gp.save(tmp_path / "gp.npz")
    assert grf.GraphGPRegressor.load(tmp_path / "gp.npz").prior.mixing == mixing


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"spectrum": [1.0, -1.0]}, "0 or more"),
        ({"spectrum": [1.0, 1.0]}, "without edges"),
        ({"spectrum": [0.0, 2.0], "below": 1.0}, "below"),
    ],
)
def test_penalised_priors_that_cannot_be_are_told(settings, said):
    with pytest.raises(ValueError, match=said):
        grf.gp.PenalisedMixing(**settings)
