"""Products of all pairs of terms against covariances that are written from the definitions."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from scipy.linalg import null_space
from scipy.stats import multivariate_normal

import graphrf as grf
from graphrf.gp import Groups, LatentGaussianModel, Nodes, Steps
from graphrf.gp.terms.joint import Joint
from graphrf.gp.terms.term import BoundTerm

pandas = pytest.importorskip("pandas")


def graph(n):
    """A path with one shortcut."""
    return grf.load_graph([*nx.path_graph(n).edges, (0, n // 2)])


def unit(covariance):
    """A covariance whose variances have the geometric mean 1."""
    return covariance / np.exp(np.log(np.diag(covariance)).mean())


def icar(n):
    return unit(np.linalg.pinv(graph(n).laplacian(normalized=False).toarray(), hermitian=True))


def matern_field(n):
    values, vectors = np.linalg.eigh(graph(n).laplacian().toarray())
    covariance = (vectors * (4 / 1.5**2 + values) ** -2.0) @ vectors.T
    return covariance / np.diag(covariance).mean()


def walk(n, order):
    """The pseudoinverse of D^T D = V S^2 V^T, from the singular values of the differences D."""
    _, values, vectors = np.linalg.svd(np.diff(np.eye(n), order, axis=0), full_matrices=False)
    return unit((vectors.T / values**2) @ vectors)


def lags(n):
    return np.abs(np.subtract.outer(np.arange(n), np.arange(n)))


def matern_steps(n):
    r = np.sqrt(3) * lags(n) / (0.1 * (n - 1))  # the lengthscale that a search begins with
    return (1 + r) * np.exp(-r)


# The term of a column, and its covariance at n levels.
KINDS = {
    "ICAR": (lambda by, n: Nodes(graph(n), grf.ICAR(), by=by), icar),
    "BYM2": (
        lambda by, n: Nodes(graph(n), grf.BYM2(0.4), by=by),
        lambda n: 0.6 * np.eye(n) + 0.4 * icar(n),
    ),
    "Matern": (lambda by, n: Nodes(graph(n), grf.Matern(2.0, 1.5), by=by), matern_field),
    "iid": (lambda by, n: Steps(by, "iid"), np.eye),
    "ar1": (lambda by, n: Steps(by, "ar1"), lambda n: 0.5 ** lags(n)),
    "rw1": (lambda by, n: Steps(by, "rw1"), lambda n: walk(n, 1)),
    "rw2": (lambda by, n: Steps(by, "rw2"), lambda n: walk(n, 2)),
    "matern": (lambda by, n: Steps(by, "matern"), matern_steps),
    "Groups": (lambda by, n: Groups(by), np.eye),
}


def cells(n, m):
    """All pairs of levels: a in the outer order."""
    return pandas.DataFrame({"a": np.repeat(np.arange(n), m), "b": np.tile(np.arange(m), n)})


def bound_product(first, second, n, m):
    return BoundTerm.of(KINDS[first][0]("a", n) * KINDS[second][0]("b", m), cells(n, m), 0, 1.0)


def covariance(first, second, n, m):
    return np.kron(KINDS[first][1](n), KINDS[second][1](m))


@pytest.mark.parametrize("second", KINDS)
@pytest.mark.parametrize("first", KINDS)
def test_log_marginal_likelihoods_of_products_are_those_of_their_covariances(first, second):
    for n, m in ((9, 9), (9, 16), (16, 9), (9, 40)):
        own = bound_product(first, second, n, m)
        joint = Joint([own], np.zeros((0, 0)), [own.rows(cells(n, m))])
        y = np.random.default_rng(0).standard_normal(n * m)
        prior = joint.prior(joint.vector([each.start for each in joint.parameters]))
        factor = joint.posterior(prior, np.full(n * m, 2.0))  # noise of variance 1/2
        shift = joint.a.T @ (2.0 * y)
        found = 0.5 * (prior.log_determinant - factor.log_determinant + shift @ factor.solve(shift))
        found += 0.5 * (n * m * np.log(2.0 / (2 * np.pi)) - 2.0 * y @ y)
        dense = own.deviation.start**2 * covariance(first, second, n, m) + 0.5 * np.eye(n * m)
        assert found == pytest.approx(multivariate_normal.logpdf(y, cov=dense), abs=1e-4), (n, m)


@pytest.mark.parametrize("second", KINDS)
@pytest.mark.parametrize("first", KINDS)
def test_determinants_and_precisions_of_products_are_those_on_their_subspace(first, second):
    own = bound_product(first, second, 9, 12)
    product = own.structure
    q, held = product.precision(product.starts).toarray(), product.constraints.toarray()
    basis = null_space(held) if len(held) else np.eye(product.size)
    inner = basis.T @ q @ basis
    assert product.log_determinant(product.starts) == pytest.approx(
        np.linalg.slogdet(inner)[1], abs=1e-6
    )
    assert np.linalg.eigvalsh(q)[0] > 0  # definite off the subspace, too
    rows = own.rows(cells(9, 12)).toarray() @ basis
    found = rows @ np.linalg.solve(inner, rows.T)
    np.testing.assert_allclose(found, covariance(first, second, 9, 12), atol=1e-8)


@pytest.mark.filterwarnings("ignore:the term of 'a.b' has no mean")
@pytest.mark.parametrize(("first", "second"), [("ICAR", "rw2"), ("rw2", "rw1")])
def test_a_fit_at_the_mode_states_the_evidence_of_its_own_hyperparameters(first, second):
    n, m = 7, 12
    frame = cells(n, m)
    rng = np.random.default_rng(1)
    wave = np.sin(frame["a"]) * np.cos(0.5 * frame["b"])
    frame["y"] = 3.0 + wave + 0.3 * rng.standard_normal(n * m)
    term = KINDS[first][0]("a", n) * KINDS[second][0]("b", m)
    model = LatentGaussianModel("y ~ 1", term, hyperparameters="mode", prior=None, seed=0).fit(
        frame
    )
    found = model.summary()["mean"]
    dense = found["sd(a:b)"] ** 2 * covariance(first, second, n, m) + found["scale"] ** 2 * np.eye(
        n * m
    )
    mean = np.full(n * m, found["Intercept"])
    expected = multivariate_normal.logpdf(frame["y"], mean, dense)
    assert model.log_marginal_likelihood_ == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    ("n", "m"), [(15, 8), (30, 10), (50, 12), (64, 7), (31, 9), (80, 10), (10, 6), (3, 3), (5, 4)]
)
def test_the_walk_of_one_column_is_forecast_whatever_the_size_of_the_other(n, m):
    own = bound_product("rw2", "rw1", n, m)
    later = pandas.DataFrame({"a": np.arange(n), "b": m + 1})  # two steps ahead
    ahead = own.extension(later, {})
    joint = Joint([own], np.zeros((0, 0)), [own.rows(cells(n, m)), ahead.old])
    factor = joint.posterior(joint.prior(joint.vector([1.0])), np.full(n * m, 2.0))
    held, inverse = ahead.constraints.toarray(), np.linalg.inv(ahead.precision.toarray())
    if len(held):
        inverse -= inverse @ held.T @ np.linalg.solve(held @ inverse @ held.T, held @ inverse)
    found = np.sqrt(
        factor.variances(joint.layout.rows(ahead.old)) + np.diag(ahead.new @ inverse @ ahead.new.T)
    )

    steps = np.linalg.pinv(np.diff(np.eye(m), axis=0).T @ np.diff(np.eye(m), axis=0))
    scale = np.exp(np.log(np.diag(steps)).mean())
    last = np.vstack([np.eye(m), np.eye(m)[-1]])
    years = last @ (steps / scale) @ last.T
    years[-1, -1] += 2 / scale
    dense = np.kron(KINDS["rw2"][1](n), years).reshape(n, m + 1, n, m + 1)
    known = dense[:, :m, :, :m].reshape(n * m, n * m) + 0.5 * np.eye(n * m)
    across = dense[:, :m, :, m].reshape(n * m, n)
    expected = dense[:, m, :, m] - across.T @ np.linalg.solve(known, across)
    np.testing.assert_allclose(found, np.sqrt(np.diag(expected)), rtol=1e-6)
