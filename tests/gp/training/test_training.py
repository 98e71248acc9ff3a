"""Training: the gradient that the optimiser sees, and where it may look."""

from __future__ import annotations

import math
import warnings

import networkx as nx
import numpy as np
import pytest
from scipy import optimize

import graphrf as grf
from graphrf.gp.inference.likelihood import log_marginal_likelihood
from graphrf.gp.inference.observations import Observations
from graphrf.gp.prior import FLAT, HyperparameterPrior
from graphrf.gp.training import comparison, likelihood_search, regression_training
from graphrf.gp.training.blocks import training_blocks
from graphrf.gp.training.gram import SampledGram, SeriesGram
from graphrf.gp.training.grid import Axes, HyperparameterGrid
from graphrf.gp.training.likelihood_search import (
    Block,
    LikelihoodSearch,
    spectral_divisor,
    spread,
    subset_divisor,
    unit_divisor,
)
from graphrf.gp.training.parameters import Parameters, hyperparameter_range, longest_lengthscale
from graphrf.kernels.precision.ordering import FactorTooLargeError
from graphrf.kernels.precision.precision import SparsePrecision
from graphrf.kernels.spectrum import density_of_states

NODES = np.repeat(np.arange(0, 34, 2), 2)[:-5]
KERNELS = {
    "diffusion": (grf.Diffusion(2.0), {"lengthscale": (0.1, 10.0)}),
    "matern": (grf.Matern(1.5, 2.0), {"nu": (0.25, 8.0), "lengthscale": (0.1, 10.0)}),
    "combinatorial": (grf.Diffusion(0.7, laplacian="combinatorial"), {"lengthscale": (0.1, 10.0)}),
    "learned": (
        grf.LearnedModulation(max_length=2, values=[1.0, -0.4, 0.2]),
        {f"f{k}": (-math.inf, math.inf) for k in range(3)},
    ),
}


def _divisors(graph, laplacian):
    points, weights = density_of_states(graph, laplacian, np.random.default_rng(0))
    return {
        "subset": subset_divisor(),
        "spectral": spectral_divisor(points, weights, graph.laplacian_scale(laplacian)),
        "unit": unit_divisor(),
    }


@pytest.mark.parametrize("prior", [FLAT, HyperparameterPrior()], ids=["flat", "weak"])
@pytest.mark.parametrize("rows", ["series", "features"])
@pytest.mark.parametrize("divisor", ["subset", "spectral", "unit"])
@pytest.mark.parametrize("name", KERNELS)
def test_the_optimisers_gradient_is_the_limit_of_differences(karate, name, divisor, rows, prior):
    kernel, bounds = KERNELS[name]
    y = np.random.default_rng(0).standard_normal((NODES.size, 2))
    observations = Observations.of(NODES, y, np.ones((34, 1)))
    if rows == "series":
        gram = SeriesGram(karate, kernel.laplacian, observations.nodes, max_degree=300)
    else:
        sampler = grf.RandomWalks(8, lengths=grf.Truncated(12), laplacian=kernel.laplacian)
        features = grf.sample_features(karate, sampler, nodes=observations.nodes, seed=0, dtype="float64")
        gram = SampledGram(features.factor(), karate.laplacian_scale(kernel.laplacian))
    by = _divisors(karate, kernel.laplacian)[divisor]
    search = LikelihoodSearch(
        [Block(gram, observations)] * 2, Parameters(kernel, tuple(bounds), bounds), None, None, by, prior,
        unit=0.7, length_unit=1.3,
    )  # fmt: skip
    own = [
        math.log(value) if bounds[key][0] > 0 else value
        for key, value in kernel.hyperparameters.items()
        if key in bounds
    ]
    at = np.array([*own, 0.3, -1.2])
    _, gradient = search.negative(at)
    steps = 1e-5 * np.eye(at.size)
    expected = [(search.negative(at + h)[0] - search.negative(at - h)[0]) / 2e-5 for h in steps]
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=2e-5)


def test_the_information_is_the_mean_of_the_observed_and_the_expected(karate):
    # In the output scale and the noise A is linear, so that nothing is left out; with repeated observations.
    observations = Observations.of(
        NODES, np.random.default_rng(0).standard_normal((NODES.size, 2)), np.ones((34, 0))
    )
    kernel = grf.Diffusion(2.0)
    matrix = kernel.dense(karate)[np.ix_(observations.nodes, observations.nodes)]
    at = np.array([1.7, 0.4])

    def slopes(scale, noise):
        found = log_marginal_likelihood([matrix], [observations], scale=scale, noise=noise, derivatives=[[]])
        return np.array([found.log_scale / scale, found.log_noise / noise])

    observed = -np.array([(slopes(*(at + h)) - slopes(*(at - h))) / 2e-5 for h in 1e-5 * np.eye(2)])
    moves = [matrix[np.ix_(whole := np.searchsorted(observations.nodes, NODES), whole)], np.eye(NODES.size)]
    inverse = np.linalg.inv(at[0] * moves[0] + at[1] * moves[1])
    expected = np.array([[np.trace(inverse @ a @ inverse @ b) for a in moves] for b in moves])  # half, two outputs
    found = log_marginal_likelihood([matrix], [observations], scale=at[0], noise=at[1], derivatives=[[]])
    np.testing.assert_allclose(found.information / np.outer(at, at), (observed + expected) / 2, rtol=1e-6)
    assert np.abs(observed / expected - 1).min() > 0.01  # they differ


@pytest.mark.parametrize("noise", [0.01, 0.3])
@pytest.mark.parametrize("kernel", [grf.Diffusion(3.0), grf.Matern(1.0, 3.0)], ids=repr)
def test_the_search_ends_where_another_optimiser_does_and_sooner(kernel, noise):
    graph = grf.load_graph(nx.grid_2d_graph(20, 20))
    evaluations = {"ours": 0, "theirs": 0}
    for seed in range(5):
        rng = np.random.default_rng(seed)
        y = grf.apply_root(graph, kernel, rng.standard_normal(400))
        y += np.sqrt(noise) * y.std() * rng.standard_normal(400)
        observations = Observations.of(nodes := rng.permutation(400)[:80], y[nodes, None], np.ones((400, 1)))
        bounds = {"lengthscale": (0.1, 30.0)}
        search = LikelihoodSearch(
            [Block(SeriesGram(graph, "normalized", observations.nodes, max_degree=400), observations)],
            Parameters(kernel, tuple(bounds), bounds), None, None, subset_divisor(), HyperparameterPrior(),
            unit=y.var(), length_unit=1.0,
        )  # fmt: skip
        start = search.point(kernel.replace(lengthscale=1.0), y.var(), 0.05 * y.var())
        whole = search._expanded

        def counted(*arguments, whole=whole):
            evaluations["ours"] += 1
            return whole(*arguments)

        search._expanded = counted
        found = search.run([start])
        del search._expanded
        theirs = optimize.minimize(search.negative, start, jac=True, method="L-BFGS-B", bounds=search._box())
        evaluations["theirs"] += theirs.nfev
        assert found.converged
        assert search.negative(found.point)[0] == pytest.approx(theirs.fun, abs=1e-3)
    assert evaluations["ours"] < 0.75 * evaluations["theirs"]


@pytest.mark.parametrize("first", [0.3, 4.3])
def test_the_search_stays_near_its_start(first, monkeypatch):
    # Two wells, the further one shallower, and an information that says next to nothing, so that the model's
    # minimum is far away. A long first step leads into the wrong well.
    def objective(x):
        value = x**2 * (x - 4) ** 2 + x
        return value, np.array([2 * x * (x - 4) * (2 * x - 4) + 1]), np.array([[1e-3]])

    monkeypatch.setattr(likelihood_search, "_FIRST", first)
    monkeypatch.setattr(likelihood_search, "_LONGEST", max(first, 2.0))
    search = LikelihoodSearch(
        (), Parameters(grf.Diffusion(1.0), (), {}), None, 1.0, unit_divisor(), FLAT, 1.0, 1.0
    )
    search._expanded = lambda vector: objective(vector[0])
    (found,), value, level = search._climb(np.array([-0.5]), [(-10.0, 10.0)])
    assert level
    assert value == pytest.approx(-objective(found)[0])
    assert abs(found) < 0.1 if first == 0.3 else found > 3.8


def test_a_climb_that_leads_to_the_end_of_another_stops_and_no_other_does():
    def objective(x):
        asked.append(x)
        value = x**2 * (x - 1) ** 2 + 0.1 * x
        return value, np.array([2 * x * (x - 1) * (2 * x - 1) + 0.1]), np.array([[1.0]])

    asked: list[float] = []
    search = LikelihoodSearch(
        (), Parameters(grf.Diffusion(1.0), (), {}), None, 1.0, unit_divisor(), FLAT, 1.0, 1.0
    )
    search._expanded = lambda vector: objective(vector[0])
    box = [(-10.0, 10.0)]
    first = search._climb(np.array([-0.4]), box)
    alone = len(asked)
    assert search._climb(np.array([-0.4]), box, [first]) is first
    assert len(asked) - alone < alone
    other = search._climb(np.array([1.2]), box, [first])  # the shallower of two valleys, which are near each other
    assert abs(first.point[0]) < 0.2
    assert abs(other.point[0] - 1.0) < 0.2
    assert other.converged


@pytest.mark.parametrize("scale", [1e-3, 1.0, 50.0])
@pytest.mark.parametrize("noise", [1e-4, 1.0])
def test_the_total_and_the_ratio_of_variances_tell_them_and_their_derivatives(scale, noise):
    point = np.array([0.7, np.log(scale), np.log(noise)])
    vector = likelihood_search._total_and_ratio(point)
    np.testing.assert_allclose(vector, [0.7, np.log(scale + noise), np.log(noise / scale)], rtol=1e-12)
    np.testing.assert_allclose(likelihood_search._scale_and_noise(vector), point, rtol=1e-12, atol=1e-12)
    steps = 1e-6 * np.eye(3)
    back = likelihood_search._scale_and_noise
    expected = np.column_stack([(back(vector + h) - back(vector - h)) / 2e-6 for h in steps])
    np.testing.assert_allclose(likelihood_search._turn(point), expected, atol=1e-8)


def test_with_nothing_to_train_the_given_values_come_back(karate):
    observations = Observations.of(np.arange(5), np.arange(5.0)[:, None], np.ones((34, 1)))
    gram = SeriesGram(karate, "normalized", observations.nodes, max_degree=100)
    kernel = grf.Diffusion(1.5)
    search = LikelihoodSearch(
        [Block(gram, observations)], Parameters(kernel, (), {}), 2.0, 0.1, unit_divisor(), HyperparameterPrior(),
        unit=1.0, length_unit=1.0,
    )  # fmt: skip
    trained = search.run([search.point(kernel, 2.0, 0.1)])
    assert (trained.kernel, trained.amplitude, trained.noise) == (grf.Diffusion(1.5), 2.0, 0.1)
    assert trained.converged
    assert trained.ends == {}


def test_spread_is_the_variance_of_all_observations():
    rng = np.random.default_rng(0)
    nodes, y = rng.integers(0, 6, 40), rng.standard_normal((40, 3)) + 5.0
    first = nodes < 3
    for basis, expected in ((np.ones((6, 1)), y.var(axis=0)), (np.zeros((6, 0)), np.square(y).mean(axis=0))):
        blocks = [Observations.of(nodes[part], y[part], basis) for part in (first, ~first)]
        assert np.isclose(spread(blocks), expected.mean())


def test_the_longest_lengthscale_is_the_edge_of_what_fits():
    kernel = grf.Diffusion(1.0)
    longest = longest_lengthscale(kernel, lambda k: k.truncation_length(1e-3) <= 16)
    assert grf.Diffusion(longest).truncation_length(1e-3) <= 16
    assert grf.Diffusion(1.05 * longest).truncation_length(1e-3) > 16
    assert longest_lengthscale(kernel, lambda k: True) == 100.0


def test_ranges_respect_what_a_kernel_allows():
    assert hyperparameter_range(grf.PStepRandomWalk(2.5, 3), "alpha", 1.0, 100.0) == (2.0, 200.0)
    assert hyperparameter_range(grf.LearnedModulation(1), "f0", 1.0, 100.0) == (-math.inf, math.inf)
    assert hyperparameter_range(grf.Diffusion(1.0), "lengthscale", 1.0, 7.0) == (0.1, 7.0)


def test_blocks_hold_near_nodes_and_one_holds_distant_ones():
    nodes = np.arange(900).reshape(30, 30)
    grid = grf.from_edges(
        np.r_[nodes[:, 1:].ravel(), nodes[1:].ravel()], np.r_[nodes[:, :-1].ravel(), nodes[:-1].ravel()]
    )
    rng = np.random.default_rng(0)
    observed = np.sort(rng.choice(grid.n_nodes, 600, replace=False))
    blocks = training_blocks(grid, observed, 90, rng)
    assert [block.size for block in blocks] == [45, 45]
    assert all(np.isin(block, observed).all() and np.unique(block).size == block.size for block in blocks)
    rows, columns = np.divmod(blocks[0], 30)
    assert np.ptp(rows) < 20
    assert np.ptp(columns) < 20
    rows, columns = np.divmod(blocks[1], 30)
    assert np.ptp(rows) > 20
    assert np.ptp(columns) > 20
    assert training_blocks(grid, observed, 600, rng)[0] is observed


def test_blocks_are_filled_from_other_components_where_one_is_small():
    islands = grf.from_edges([0, 1, 3, 4, 6, 7], [1, 2, 4, 5, 7, 8])
    blocks = training_blocks(islands, np.arange(9), 8, np.random.default_rng(0))
    assert [np.unique(block).size for block in blocks] == [4, 4]
    assert 3 in np.bincount(blocks[0] // 3)  # a whole island first


@pytest.mark.parametrize("noise", [0.05, 3.0])
def test_little_and_much_noise_are_both_found(noise):
    graph = grf.Graph(nx.to_scipy_sparse_array(nx.grid_2d_graph(30, 30)))
    rng = np.random.default_rng(0)
    kernel = grf.Diffusion(5.0)
    truth = grf.apply_root(graph, kernel, rng.standard_normal((900, 4)))
    truth /= truth.std()
    nodes = rng.choice(900, 500, replace=False)
    y = truth[nodes] + np.sqrt(noise) * rng.standard_normal((500, 4))
    for method in ("series", "features"):
        gp = grf.GraphGPRegressor(graph, kernel="diffusion", method=method, seed=0).fit(nodes, y)
        # the estimate of a variance from 2,000 numbers: five standard errors are 16 %
        assert abs(gp.noise_ / noise - 1) < 0.3
        assert 3.0 < gp.kernel_.hyperparameters["lengthscale"] < 8.0


def _smooth_values(n, noise):
    """A 30 x 30 grid, and a smooth function observed at n of its nodes with little noise."""
    graph = grf.Graph(nx.to_scipy_sparse_array(nx.grid_2d_graph(30, 30)))
    x, y = np.divmod(np.arange(900), 30)
    rng = np.random.default_rng(1)
    nodes = rng.choice(900, n, replace=False)
    return graph, nodes, (np.sin(x / 5) * np.cos(y / 7))[nodes] + noise * rng.standard_normal(n)


def test_the_likelihood_of_little_noise_does_not_jump():
    # where the series ended at another degree for every lengthscale, these differences were off by up to 40 nats
    graph, nodes, y = _smooth_values(150, 0.001)
    kernel = grf.Matern(nu=4.0, lengthscale=9.0, laplacian="combinatorial")
    gram = SeriesGram(graph, "combinatorial", nodes, max_degree=600)
    parameters = Parameters(kernel, ["lengthscale"], {"lengthscale": (0.1, 20.0)})
    observations = Observations.of(nodes, y[:, None], np.ones((900, 1)))
    search = LikelihoodSearch(
        [Block(gram, observations)], parameters, 1.0, 2.6e-5, subset_divisor(), FLAT, unit=1.0, length_unit=1.0
    )
    gram(kernel.replace(lengthscale=18.0), ())
    points = math.log(9.0) + 1e-3 * np.arange(-6, 7)[:, None]
    values, slopes = zip(*(search.negative(point) for point in points), strict=True)
    between = 0.5 * (np.ravel(slopes)[:-1] + np.ravel(slopes)[1:])
    np.testing.assert_allclose(np.diff(values) / 1e-3, between, atol=0.5)


def test_kernels_whose_evidence_rises_at_the_longest_lengthscale_are_compared_further_on(monkeypatch):
    graph, nodes, y = _smooth_values(150, 0.05)

    def evidence() -> dict[tuple, float]:
        gp = grf.GraphGPRegressor(graph, hyperparameters="map", seed=0).fit(nodes, y)
        return {
            (type(each.kernel), each.kernel.laplacian, each.kernel.hyperparameters.get("nu")): each.log_evidence
            for each in gp.candidates_
        }

    monkeypatch.setattr(comparison, "BEGUN_DEGREES", 400)
    whole = evidence()
    monkeypatch.setattr(comparison, "BEGUN_DEGREES", 80)
    further = evidence()
    monkeypatch.setattr(comparison, "_look_further", lambda *arguments: None)
    cut = evidence()
    close = [name for name in whole if whole[name] > max(whole.values()) - 25]
    assert len(close) >= 4
    assert [further[name] for name in close] == pytest.approx([whole[name] for name in close], abs=1.0)
    smooth = grf.Matern, "normalized", 3.0
    assert cut[smooth] < whole[smooth] - 20  # its lengthscale takes more degrees
    rough = grf.Matern, "normalized", 0.5
    assert further[rough] == cut[rough] < whole[rough] - 20  # it could not have reached the best


@pytest.mark.parametrize("n_blocks", [1, 2])
@pytest.mark.parametrize("columns", [0, 2])
def test_predictions_of_nodes_left_out_are_those_without_them(n_blocks, columns):
    rng = np.random.default_rng(0)
    nodes, y = np.array([0, 0, 1, 2, 2, 2, 3, 4, 5, 6]), rng.standard_normal((10, 2))
    own = np.arange(10) < (10 if n_blocks == 1 else 6)
    basis = rng.standard_normal((7, columns))
    factor = rng.standard_normal((7, 7))
    kernel_matrix = factor @ factor.T
    blocks = []
    for part in [own, ~own][:n_blocks]:
        observations = Observations.of(nodes[part], y[part], basis)
        matrix = kernel_matrix[np.ix_(observations.nodes, observations.nodes)]
        blocks.append(Block(lambda kernel, names, matrix=matrix: (matrix, []), observations))
    grid = HyperparameterGrid(
        blocks, grf.Diffusion(1.0), Axes(np.zeros(0), np.array([2.0]), np.array([0.3])), divisor=unit_divisor(),
        unit=3.0, length_unit=1.0, prior=HyperparameterPrior(), leave_out=True,
    )  # fmt: skip

    def log_density(kept):
        """Of the observations, integrated over the coefficients of the mean function."""
        covariance = 2.0 * kernel_matrix[np.ix_(nodes[kept], nodes[kept])] * (own[kept, None] == own[kept])
        covariance = covariance + 0.3 * np.eye(covariance.shape[0])
        h = basis[nodes[kept]]
        inverse = np.linalg.inv(covariance)
        inner = h.T @ inverse @ h
        projected = inverse - inverse @ h @ np.linalg.inv(inner) @ h.T @ inverse
        determinants = np.linalg.slogdet(covariance)[1] + np.linalg.slogdet(inner)[1]
        constant = (kept.sum() - columns) * np.log(2 * np.pi)
        return -0.5 * (2 * (determinants + constant) + np.trace(y[kept].T @ projected @ y[kept]))

    whole = log_density(np.ones(10, dtype=bool))
    expected = sum(whole - log_density(nodes != node) for node in range(7))
    assert grid.log_left_out == pytest.approx(expected, rel=1e-9)
    elsewhere = HyperparameterGrid(
        blocks, grf.Diffusion(1.0), Axes(np.zeros(0), np.array([1.0]), np.array([0.1])), divisor=unit_divisor(),
        unit=3.0, length_unit=1.0, prior=HyperparameterPrior(),
    )  # fmt: skip
    at = elsewhere.left_out_at(blocks, grf.Diffusion(1.0), 2.0, 0.3)
    assert at.shape == (sum(block.observations.nodes.size for block in blocks),)
    assert at.sum() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("evidence", "lost", "nu"),
    [
        ((0.0, -1.0, -5.0), (None, None, None), 2.0),
        ((0.0, -8.0, -90.0), (0.0, 0.5, 50.0), 2.0),
        ((0.0, -8.0, -90.0), (3.0, 0.5, 0.0), 1.0),
        ((0.0, -8.0, -90.0), (0.0, 16.0, None), 2.0),
        ((0.0, -8.0, -90.0), (0.0, 24.0, None), 3.0),
        ((-90.0, 0.0, -8.0), (None, 6.0, 0.0), 1.0),
        ((-90.0, 0.0, -8.0), (None, 0.0, 6.0), 1.0),
        ((-90.0, 0.0, -8.0), (None, 0.0, 16.0), 2.0),
        ((0.0, -8.0, -90.0), (0.0, math.inf, None), 3.0),
    ],
)
def test_the_roughest_kernel_about_as_good_as_the_best_by_evidence_or_by_predictions_is_taken(evidence, lost, nu):
    """The differences of predictions at 400 nodes have a standard error of 10."""
    away = 0.5 * np.resize([1.0, -1.0], 400)
    left_out = [
        None if nats is None else np.zeros(400) - nats / 400 - (away if k == 1 else 0.0)
        for k, nats in enumerate(lost)
    ]
    kernels = [
        comparison.CandidateKernel(grf.Matern(nu=own), nats, 0.0)
        for own, nats in zip((3.0, 2.0, 1.0), evidence, strict=True)
    ]
    chosen = comparison.Compared(kernels, [], [], left_out=left_out).chosen
    assert kernels[chosen].kernel.nu == nu


def _on_grid(side, kernel, n, noise=0.1):
    """A square grid, a draw of a kernel on it with unit variance, n nodes, and noisy observations there."""
    graph = grf.Graph(nx.to_scipy_sparse_array(nx.grid_2d_graph(side, side)))
    rng = np.random.default_rng(3)
    field = grf.apply_root(graph, kernel, rng.standard_normal(graph.n_nodes))
    field /= field.std()
    nodes = rng.choice(graph.n_nodes, n, replace=False)
    return graph, field, nodes, field[nodes] + noise * rng.standard_normal(n)


@pytest.mark.parametrize("method", ["auto", "precision"])
def test_kernels_that_are_seen_in_blocks_are_told_apart_by_the_exact_likelihood_of_all(method):
    graph, _, nodes, y = _on_grid(40, grf.Matern(2.0, 10.0), 500)
    settings = {"method": method, "max_train": 100, "hyperparameters": "map", "seed": 0}
    gp = grf.GraphGPRegressor(graph, **settings).fit(nodes, y)
    assert gp.method_ == "precision"
    own = [each for each in gp.candidates_ if each.kernel.hyperparameters["nu"] >= 1][:3]
    alone = [
        grf.GraphGPRegressor(graph, kernel=each.kernel, **settings | {"method": "precision"}).fit(nodes, y)
        for each in own
    ]
    exact = np.array([one.log_marginal_likelihood_ for one in alone])
    assert np.allclose(np.diff([each.log_evidence for each in own]), np.diff(exact), atol=0.05)


def test_the_exact_likelihood_is_climbed_by_a_sparse_precision_where_that_is_sooner(monkeypatch):
    graph, _, nodes, y = _on_grid(40, grf.Matern(2.0, 5.0), 400, noise=0.3)
    climbed = []
    exactly = regression_training.train_exactly
    monkeypatch.setattr(
        regression_training, "train_exactly", lambda *given: climbed.append(given) or exactly(*given)
    )
    sooner = grf.GraphGPRegressor(graph, seed=0).fit(nodes, y)
    assert climbed
    climbed.clear()
    monkeypatch.setattr(regression_training, "exact_search_seconds", lambda precision: np.inf)
    later = grf.GraphGPRegressor(graph, seed=0).fit(nodes, y)
    assert not climbed
    assert sooner.log_marginal_likelihood_ == pytest.approx(later.log_marginal_likelihood_, abs=0.01)
    assert sooner.n_points_ == later.n_points_ == 2  # with other noise, too
    np.testing.assert_allclose(sooner.predict(return_std=True), later.predict(return_std=True), atol=0.02)


@pytest.mark.parametrize(("method", "chosen"), [("auto", "series"), ("auto", "features"), ("precision", "series")])
def test_a_part_tells_long_lengthscales_where_the_exact_likelihood_of_the_whole_takes_too_long(
    method, chosen, monkeypatch
):
    graph, field, nodes, y = _on_grid(60, grf.Matern(2.0, 30.0), 400)
    # as on a graph of a million nodes: a short series or rows, nothing that takes time, and no large parts
    monkeypatch.setattr("graphrf.gp.regression.choose_method", lambda *given: chosen)
    monkeypatch.setattr("graphrf.gp.training.sampler_choice.LONGEST", 32)
    monkeypatch.setattr("graphrf.gp.training.candidates._LARGEST_DEGREE", 64)
    monkeypatch.setattr("graphrf.gp.training.precision_search._SECONDS", 0.0)
    monkeypatch.setattr("graphrf.gp.training.blocks._BALLS", (1_000,))
    beyond = []
    rows = regression_training.RegressionTraining._beyond_rows
    monkeypatch.setattr(
        regression_training.RegressionTraining, "_beyond_rows", lambda *given: beyond.append(1) or rows(*given)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gp = grf.GraphGPRegressor(graph, method=method, seed=0).fit(nodes, y)
    assert gp.method_ == "precision"
    assert len(beyond) == (chosen == "features")
    error = np.sqrt(np.mean((gp.predict() - field) ** 2))
    known = grf.GraphGPRegressor(
        graph, kernel=grf.Matern(2.0, 30.0), method="precision", optimize=False, output_scale=1.0, noise=0.01
    ).fit(nodes, y)
    assert error < 1.05 * np.sqrt(np.mean((known.predict() - field) ** 2))


def test_a_part_compares_kernels_whose_factor_of_the_whole_graph_fits_in_memory(monkeypatch):
    graph, field, nodes, _ = _on_grid(60, grf.Matern(3.0, 30.0), 400)
    elimination = SparsePrecision.elimination

    def large(self, power):
        if power == 3 and self.n_nodes == 3600:
            raise FactorTooLargeError("too large")
        return elimination(self, power)

    monkeypatch.setattr("graphrf.gp.training.candidates._LARGEST_DEGREE", 64)
    monkeypatch.setattr("graphrf.gp.training.precision_search._SECONDS", 0.0)
    monkeypatch.setattr("graphrf.gp.training.blocks._BALLS", (1_000,))
    monkeypatch.setattr(SparsePrecision, "elimination", large)
    monkeypatch.setattr("graphrf.gp.method_choice.numbers_there", lambda: 1.0)
    usual = comparison.Compared.chosen.fget

    def first(compared):  # the short series of the whole graph takes a kernel whose factor fits
        if compared.training[0].graph.n_nodes == 3600:
            return [each.kernel.nu for each in compared.kernels].index(1.0)
        return usual(compared)

    monkeypatch.setattr(comparison.Compared, "chosen", property(first))
    gp = grf.GraphGPRegressor(graph, seed=0).fit(nodes, field[nodes])
    assert gp.method_ == "precision"
    assert gp.kernel_.nu < 3
