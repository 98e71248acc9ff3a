"""GraphGPClassifier by a sparse precision: the answers of the series, and what it refuses."""

import numpy as np
import pytest

import graphrf as grf
from graphrf.operators.sparse.ordering import FactorTooLargeError

KERNELS = [
    grf.Matern(nu=1.0, lengthscale=2.0),
    grf.Matern(nu=2.0, lengthscale=3.0, laplacian="combinatorial"),
    grf.RegularizedLaplacian(lengthscale=2.0, power=2.0),
]


@pytest.fixture(scope="module")
def halves():
    """The 30 x 30 grid, three classes by columns, 40 labelled nodes."""
    graph = grf.datasets.load("generated-grid").graph
    labels = np.array(["a", "b", "c"])[(np.arange(900) % 30) // 10]
    return graph, labels, np.random.default_rng(0).choice(900, 40, replace=False)


@pytest.mark.parametrize(
    ("kernel", "settings"),
    [
        (KERNELS[0], {}),
        (KERNELS[1], {"normalize": False}),
        (KERNELS[2], {"predictive": "integrated"}),
    ],
)
def test_probabilities_are_those_of_the_series(halves, kernel, settings):
    graph, labels, nodes = halves
    fits = [
        grf.GraphGPClassifier(graph, kernel=kernel, method=method, seed=0, **settings).fit(
            nodes, labels[nodes]
        )
        for method in ("series", "precision")
    ]
    assert [fit.method_ for fit in fits] == ["series", "precision"]
    likelihoods = [fit.log_marginal_likelihood_ for fit in fits]
    assert likelihoods[0] == pytest.approx(likelihoods[1], abs=1e-3)
    asked = np.arange(0, 900, 7)
    series, sparse = (fit.predict_proba(asked) for fit in fits)
    np.testing.assert_allclose(sparse, series, atol=1e-3)
    assert np.ptp(sparse, axis=0).min() > 0.1


def test_products_give_the_answer_of_the_matrix(halves, monkeypatch):
    graph, labels, nodes = halves
    gp = grf.GraphGPClassifier(
        graph, kernel=KERNELS[0], method="precision", optimize=False, output_scale=5.0, seed=0
    )
    dense = gp.fit(nodes, labels[nodes]).predict_proba()
    monkeypatch.setattr("graphrf.gp.methods.precision._FEW_COLUMNS", 0)
    np.testing.assert_allclose(gp.fit(nodes, labels[nodes]).predict_proba(), dense, atol=1e-6)


def test_auto_falls_back_where_the_trained_precision_is_singular(halves, monkeypatch):
    graph, labels, nodes = halves

    def singular(self, kernel):
        raise ValueError("numerically singular")

    monkeypatch.setattr("graphrf.operators.precision.markov.SparsePrecision.with_kernel", singular)
    monkeypatch.setattr("graphrf.gp.methods.series._cheap_precision", lambda graph, fit: None)
    gp = grf.GraphGPClassifier(graph, kernel=KERNELS[0], seed=0)
    assert gp.fit(nodes, labels[nodes]).method_ == "series"
    with pytest.raises(ValueError, match="numerically singular"):
        gp.set_params(method="precision").fit(nodes, labels[nodes])


def test_what_has_no_sparse_precision_is_refused(halves, monkeypatch):
    graph, labels, nodes = halves
    for kernel in ("diffusion", grf.Matern(nu=0.7)):
        gp = grf.GraphGPClassifier(graph, kernel=kernel, method="precision")
        with pytest.raises(ValueError, match="`kernel` must have a sparse precision"):
            gp.fit(nodes, labels[nodes])
    monkeypatch.setattr("graphrf.operators.sparse.ordering.available_memory", lambda: 1e4)
    with pytest.raises(FactorTooLargeError, match="use method='series'"):
        grf.GraphGPClassifier(graph, kernel=KERNELS[0], method="precision").fit(
            nodes, labels[nodes]
        )
