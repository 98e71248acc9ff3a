"""The exact roots that priors are made of: right where power series are cut or cancel."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest

import graphrf as grf
from graphrf.gp.covariance.root_series import root_series
from graphrf.gp.posterior.mixture import MixturePosterior
from graphrf.operators.series.chebyshev_sums import ChebyshevSum, single_rounding

PATH = grf.load_graph(nx.path_graph(40))
KARATE = grf.load_graph(nx.karate_club_graph(), weight=False)
LIGHT_AND_HEAVY = grf.from_edges(
    np.arange(39), np.arange(1, 40), weight=10.0 ** (np.arange(39) % 5)
)


@pytest.mark.parametrize(
    ("graph", "kernel"),
    [
        (PATH, grf.Matern(1.5, 300.0)),  # its power series needs a million terms
        (PATH, grf.Diffusion(400.0)),
        (PATH, grf.RegularizedLaplacian(100.0)),
        (LIGHT_AND_HEAVY, grf.Matern(1.5, 5.0, laplacian="combinatorial")),
        # The terms are 10^12 times their sum.
        (KARATE, grf.kernels.PStepRandomWalk(19.0, 60, laplacian="combinatorial")),
        (PATH, grf.Diffusion(3.0)),
    ],
    ids=lambda x: repr(x) if isinstance(x, grf.kernels.Kernel) else "",
)
def test_roots_of_any_length_are_exact(graph, kernel):
    factor, modulation, error, _ = root_series(graph, kernel)
    expected = kernel.dense(graph)
    root = factor.apply(modulation, np.eye(graph.n_nodes))
    assert error < 1e-8 * kernel.root_norm(graph.laplacian_scale(kernel.laplacian)) ** 2
    np.testing.assert_allclose(root @ root.T, expected, atol=1e-9 * np.abs(expected).max())
    some = factor.take(np.array([3, 1]))
    np.testing.assert_allclose(
        some.columns(modulation, some)[0], expected[np.ix_([3, 1], [3, 1])], rtol=1e-8
    )


@pytest.mark.parametrize(
    "kernel", [grf.kernels.InverseCosine(), grf.kernels.PStepRandomWalk(2.0, 1)], ids=repr
)
def test_singular_roots_keep_their_stated_error(kernel):
    factor, modulation, error, _ = root_series(PATH, kernel)
    root = factor.apply(modulation, np.eye(40))
    off = np.linalg.norm(root @ root.T - kernel.dense(PATH), 2)
    assert off < error < 1e-3
    # 20,000 terms of the power series leave out 3.5e-3 of the root at the eigenvalue 2
    assert np.linalg.norm(root - kernel.dense_root(PATH), 2) < 2e-4


def test_what_is_cut_is_warned_about_and_in_the_end_refused():
    with pytest.warns(
        UserWarning, match=r"20000 Chebyshev terms of Reg.* leave out up to 0\.0\d+ of the norm"
    ):
        factor, modulation, error, _ = root_series(PATH, grf.RegularizedLaplacian(1e4))
    root = factor.apply(modulation, np.eye(40))
    assert (
        np.linalg.norm(root @ root.T - grf.RegularizedLaplacian(1e4).dense(PATH), 2) < error < 0.2
    )
    with pytest.raises(ValueError, match="shorten the lengthscale"):
        root_series(PATH, grf.RegularizedLaplacian(1e6))


@dataclass(frozen=True, repr=False)
class Slow(grf.kernels.Kernel):
    """A kernel of one's own, with nothing but coefficients, which fall as k^-1.25."""

    def modulation_coefficients(self, n, scale):
        return (1.0 + np.arange(n)) ** -1.25


def test_kernels_that_have_coefficients_only_are_told_of_their_cut():
    with pytest.warns(UserWarning, match="20000 terms of the series of Slow.* leave out up to 0.0"):
        root_series(PATH, Slow())


def test_regression_and_classification_with_long_kernels_are_those_of_dense_algebra(recwarn):
    nodes, y = np.array([0, 7, 20, 33]), np.array([1.0, -0.5, 0.3, 2.0])
    kernel = grf.Matern(1.5, 300.0)
    dense = kernel.dense(PATH)
    settings = {
        "kernel": kernel,
        "optimize": False,
        "output_scale": 1.0,
        "seed": 0,
        "method": "series",
    }
    regressor = grf.GraphGPRegressor(PATH, noise=0.1, mean="zero", **settings).fit(nodes, y)
    prior = dense / (np.trace(dense) / 40)
    expected = prior[:, nodes] @ np.linalg.solve(prior[np.ix_(nodes, nodes)] + 0.1 * np.eye(4), y)
    np.testing.assert_allclose(regressor.predict(), expected, atol=1e-7)
    classifier = grf.GraphGPClassifier(PATH, **settings).fit(nodes, y > 0)
    roots = np.sqrt(np.diagonal(dense))
    correlation = dense / np.outer(roots, roots)
    # The mode: f = K (labels - probabilities) + bias, for two classes of equal and opposite f.
    signs = np.where(y > 0, 1.0, -1.0)
    values = np.diff(np.log(np.clip(classifier.predict_proba(), 1e-300, 1)), axis=1)[:, 0]
    bias = classifier.class_bias_[1] - classifier.class_bias_[0]
    weights = 2 * signs / (1 + np.exp(signs * values[nodes]))
    np.testing.assert_allclose(values, bias + correlation[:, nodes] @ weights, atol=1e-5)


def test_training_says_where_its_tables_of_the_series_end(monkeypatch, recwarn):
    monkeypatch.setattr("graphrf.gp.methods.series._cheap_precision", lambda graph, fit: None)
    nodes = np.arange(0, 40, 2)
    labels = nodes >= 20
    matern = grf.Matern(1.5, laplacian="combinatorial")
    heavy = grf.from_edges(np.arange(39), np.arange(1, 40), weight=10.0 ** (np.arange(39) % 6))
    with pytest.warns(
        UserWarning,
        match=(
            "the data favour a lengthscale longer than .* longest that training by the series "
            "supports"
        ),
    ):
        grf.GraphGPClassifier(heavy, kernel=matern, method="series", seed=0).fit(nodes, labels)
    long = grf.Matern(1.5, 1000.0)
    # The series that is cut leaves no variance between
    # nodes, which the scale of a classifier is measured by.
    with pytest.raises(ValueError, match=r"cannot be factored: .* another lengthscale"):
        grf.GraphGPClassifier(PATH, kernel=long, method="series", optimize=False, seed=0).fit(
            nodes, labels
        )
    with pytest.warns(
        UserWarning, match="training cut the series of Matern.* after 1000 Chebyshev terms"
    ):
        grf.GraphGPRegressor(PATH, kernel=long, method="series", optimize=False, seed=0).fit(
            nodes, 1.0 * labels
        )


@pytest.mark.parametrize("laplacian", ["normalized", "combinatorial"])
@pytest.mark.parametrize(
    "graph",
    [nx.path_graph(300), nx.grid_2d_graph(17, 17), nx.barabasi_albert_graph(300, 3, seed=0)],
)
def test_rounding_to_single_precision_stays_within_what_is_expected(graph, laplacian):
    graph = grf.Graph(nx.to_scipy_sparse_array(graph))
    unit, n = graph.laplacian_scale(laplacian) ** -0.5, graph.n_nodes
    shares = []
    for kernel in (
        grf.Diffusion(3 * unit, laplacian=laplacian),
        grf.Diffusion(100 * unit, laplacian=laplacian),
        grf.Matern(1.0, 30 * unit, laplacian=laplacian),
    ):
        root = root_series(graph, kernel)
        exact = root.factor.rough(root.modulation, 1e-12)
        single = ChebyshevSum(exact._doubled.astype(np.float32), exact.coefficients)
        whole = exact(np.eye(n))
        smooth = (whole @ np.random.default_rng(0).standard_normal((n, 16))).astype(np.float32)
        errors = [np.linalg.norm(single(np.eye(n)) - whole, 2)]
        errors.append(
            np.linalg.norm(single(smooth) - whole @ smooth.astype(np.float64), 2)
            / np.linalg.norm(smooth, 2)
        )
        shares.append(max(errors) / single_rounding(exact.coefficients))
        # Control: a fifth of u sqrt(degree) sum |c_k|,
        # which random signs suggest, is exceeded by far.
        if exact.degree > 200 and isinstance(kernel, grf.Diffusion):
            assert max(errors) > 6e-8 * np.sqrt(exact.degree) * np.abs(exact.coefficients).sum()
    assert max(shares) <= 1.0
    assert max(shares) > 0.02


@pytest.mark.parametrize(
    ("method", "unit"), [("features", 1.0), ("features", 1e30), ("series", 1.0)]
)
def test_squares_of_draws_with_random_signs_are_unbiased_variances(method, unit):
    graph = grf.Graph(nx.to_scipy_sparse_array(nx.random_regular_graph(6, 400, seed=0)))
    nodes = np.random.default_rng(0).choice(400, 60, replace=False)
    gp = grf.GraphGPRegressor(
        graph,
        kernel=grf.Diffusion(1.0),
        method=method,
        noise=0.01 * unit**2,
        optimize=False,
        output_scale=unit**2,
        seed=0,
    )
    fitted = gp.fit(nodes, unit * np.sin(nodes))._posterior
    exact, prior = (
        fitted.variances(np.arange(400)),
        fitted.covariance.exact_rows(np.arange(400)).variances(),
    )
    sampled = fitted.sampled_variances(np.random.default_rng(1), n_draws=1_600)
    # Six standard deviations or more: one of the 400 errors exceeds them once in a million runs.
    assert np.abs(sampled / exact - 1).max() < 6 * np.sqrt(2 / 1_600)
    assert np.abs(prior / exact - 1).max() > 6 * np.sqrt(2 / 1_600)


def test_draws_of_an_average_are_shared_by_probability():
    asked = {}

    class Part:
        solution = SimpleNamespace(residual=0.0, converged=True, _replace=lambda converged: None)
        solver, noise, n_outputs = "cholesky", 1.0, 1
        coefficients, coefficients_covariance = np.zeros((0, 1)), np.zeros((0, 0))

        def __init__(self, name):
            self.name = name

        @staticmethod
        def sampled_variances_of(parts, numbers, rng, bar):
            asked.update(zip([part.name for part in parts], numbers, strict=True))
            return [np.ones(3) for _ in parts]

        def means(self, nodes):
            return np.zeros((nodes.size, 1))

    probabilities = np.array([0.75, 0.22, 0.03])
    average = MixturePosterior([Part(name) for name in "abc"], probabilities)
    np.testing.assert_allclose(average.sampled_variances(np.random.default_rng(0)), np.ones((3, 1)))
    # The variance of the average, of equal variances, is that of 64 draws of one at most.
    numbers = np.array([asked[name] for name in "abc"])
    assert numbers.tolist() == [48, 15, 8]
    assert (probabilities**2 / numbers).sum() <= 1 / 64
