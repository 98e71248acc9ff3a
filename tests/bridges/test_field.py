"""`SparseField`: densities, gradients and draws beside dense algebra, and what is refused."""

from __future__ import annotations

import pickle

import networkx as nx
import numpy as np
import pytest
from scipy.stats import multivariate_normal

import graphrf as grf
from graphrf.bridges import SparseField
from graphrf.bridges.field import split_values
from graphrf.bridges.pencil import Pencil
from graphrf.operators.sparse import ordering
from graphrf.operators.sparse.ordering import Elimination

CONNECTED = grf.load_graph(nx.grid_2d_graph(4, 5))
APART = grf.load_graph(
    nx.disjoint_union_all([nx.grid_2d_graph(4, 5), nx.path_graph(4), nx.empty_graph(2)])
)
CASES = [
    (CONNECTED, grf.CAR(0.7)),
    (APART, grf.Leroux(0.7)),
    (APART, grf.BYM2(0.4)),
    (CONNECTED, grf.BYM2(0.999)),
    (CONNECTED, grf.BYM2(1e-4)),
    (APART, grf.Matern(nu=1.0, lengthscale=2.0)),
    (APART, grf.Matern(nu=2.0, lengthscale=3.0)),
    (CONNECTED, grf.Matern(nu=3.0, lengthscale=3.0, laplacian="combinatorial")),
    (APART, grf.RegularizedLaplacian(lengthscale=1.5, power=4.0)),
]
SD = 1.7


def values_of(field):
    return np.array([*(field.kernel.hyperparameters[name] for name in field.free), SD])


def dense_density(graph, kernel, x, sd=SD):
    return multivariate_normal(np.zeros(x.size), sd**2 * kernel.dense(graph)).logpdf(x)


@pytest.mark.parametrize(("graph", "kernel"), CASES, ids=lambda case: repr(case))
def test_densities_and_gradients_are_those_of_dense_algebra(graph, kernel):
    field, x = SparseField(graph, kernel), np.random.default_rng(0).standard_normal(graph.n_nodes)
    values = values_of(field)
    density, in_x, in_values = field.gradients(x, values)
    assert density == pytest.approx(dense_density(graph, kernel, x), rel=1e-9)
    assert density == field.log_density(x, values)
    np.testing.assert_allclose(
        in_x, -np.linalg.solve(SD**2 * kernel.dense(graph), x), rtol=1e-6, atol=1e-8
    )
    name = field.free[0]
    step = 1e-3 * min(values[0], 1 - values[0]) if name in kernel.proportions else 1e-3 * values[0]
    around = [
        dense_density(graph, kernel.replace(**{name: values[0] + k * step}), x)
        for k in (-2, -1, 1, 2)
    ]
    assert in_values[0] == pytest.approx(np.dot([1, -8, 8, -1], around) / (12 * step), rel=1e-5)
    quadratic = -x @ in_x
    assert in_values[-1] == pytest.approx((quadratic - x.size) / SD)


@pytest.mark.parametrize("case", [0, 2, 6, 7])
def test_draws_have_the_covariance_of_the_kernel(case):
    graph, kernel = CASES[case]
    field = SparseField(graph, kernel)
    z = np.eye(2 * graph.n_nodes)

    class Units:
        """Draws that are columns of the identity: the product with itself is the covariance."""

        def standard_normal(self, shape):
            return z.reshape(2, graph.n_nodes, -1) if len(shape) == 3 else z[: graph.n_nodes]

    root = field.sample(values_of(field), Units(), 2 * graph.n_nodes)
    np.testing.assert_allclose(root.T @ root, SD**2 * kernel.dense(graph), rtol=1e-8, atol=1e-8)
    drawn = field.sample(values_of(field), np.random.default_rng(0), 3)
    assert drawn.shape == (3, graph.n_nodes)
    np.testing.assert_array_equal(
        drawn, field.sample(values_of(field), np.random.default_rng(0), 3)
    )


def test_the_analysis_is_made_once_and_the_last_factor_is_kept(monkeypatch):
    field, x = SparseField(CONNECTED, grf.Matern(nu=2.0)), np.ones(20)
    made = []
    factor = Pencil.factor
    monkeypatch.setattr(
        Pencil, "factor", lambda self, *pair: made.append(pair) or factor(self, *pair)
    )
    monkeypatch.setattr(ordering, "nested_dissection", None)  # it would fail
    for sd in (1.0, 2.0):
        field.log_density(x, np.array([3.0, sd]))
        field.gradients(x, np.array([3.0, sd]))
    assert len(made) == 1


def test_values_out_of_range_have_density_0_and_one_warning():
    field, x = SparseField(CONNECTED, grf.CAR()), np.ones(20)
    with pytest.warns(
        UserWarning, match="density of the field is 0 at dependence=1.5, sd=1: `dependence` must"
    ):
        assert field.log_density(x, np.array([1.5, 1.0])) == -np.inf
    for dependence, sd in ((0.5, -1.0), (0.5, 0.0), (np.nan, 1.0), (0.5, 1e-170)):
        density, in_x, in_values = field.gradients(x, np.array([dependence, sd]))
        assert density == -np.inf
        assert not in_x.any()
        assert not in_values.any()
    assert field.log_density(1e200 * x, np.array([0.5, 1.0])) == -np.inf
    with pytest.raises(ValueError, match="`dependence` must"):
        field.sample(np.array([1.5, 1.0]), np.random.default_rng(0))


def test_a_field_is_pickled_with_what_it_was_made_from():
    field, x = SparseField(CONNECTED, grf.BYM2(), free=()), np.ones(20)
    again = pickle.loads(pickle.dumps(field))
    assert again.names == field.names
    assert again.log_density(x, np.ones(1)) == field.log_density(x, np.ones(1))


@pytest.mark.parametrize(
    ("graph", "kernel", "error", "message"),
    [
        (CONNECTED, grf.Diffusion(1.0), ValueError, "`kernel` must be Matern"),
        (CONNECTED, grf.Matern(nu=1.5), ValueError, "no density of the nodes by one sparse factor"),
        (CONNECTED, grf.ICAR(), ValueError, "sum to 0"),
        (CONNECTED, "CAR", TypeError, "must be a graphrf kernel"),
        ("graph", grf.CAR(), TypeError, "`graph` must"),
        (APART, grf.CAR(), ValueError, "isolated"),
        (
            grf.load_graph(nx.path_graph(3, create_using=nx.DiGraph)),
            grf.CAR(),
            ValueError,
            "undirected",
        ),
    ],
)
def test_what_has_no_density_is_refused(graph, kernel, error, message):
    with pytest.raises(error, match=message):
        SparseField(graph, kernel)


def test_bad_values_are_refused():
    with pytest.raises(ValueError, match="`free` must be of lengthscale of Matern"):
        SparseField(CONNECTED, grf.Matern(nu=1.0), free=("nu",))
    field = SparseField(CONNECTED, grf.CAR())
    for x, values in (
        (np.ones(19), np.ones(2)),
        (np.ones(20), np.ones(1)),
        (np.ones((1, 20)), np.ones(2)),
    ):
        with pytest.raises(ValueError, match=r"must have shapes \(20,\) and \(2,\)"):
            field.log_density(x, values)
    with pytest.raises(
        TypeError, match=r"`length` is no hyperparameter of Matern.*did you mean 'lengthscale'"
    ):
        split_values(grf.Matern(), {"length": 1.0}, lambda _: True)
    with pytest.raises(ValueError, match="`nu` must be a number"):
        split_values(grf.Matern(), {"nu": object()}, lambda _: False)
    with pytest.raises(ValueError, match="`mixing` must be in"):
        split_values(grf.BYM2(), {"mixing": 1.5}, lambda _: True)


def test_factors_that_fill_up_are_refused_where_the_field_is_made(monkeypatch):
    monkeypatch.setattr(ordering, "numbers_there", lambda: 10.0)
    with pytest.raises(ordering.FactorTooLargeError, match="more than 10 numbers"):
        SparseField(CONNECTED, grf.CAR())


def test_slow_factors_are_warned_of(monkeypatch):
    monkeypatch.setattr(Elimination, "seconds", 3.0)
    with pytest.warns(
        UserWarning, match="a gradient of the field takes about 6 s on this graph of 20 nodes"
    ):
        SparseField(CONNECTED, grf.CAR())
