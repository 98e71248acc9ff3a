"""Terms and their products against dense algebra on the subspace that their constraints leave."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import null_space

import graphrf as grf
from graphrf.gp import Groups, Nodes, Steps
from graphrf.gp.terms import PenalisedDeviation
from graphrf.gp.terms.joint import Joint
from graphrf.gp.terms.term import BoundTerm

pandas = pytest.importorskip("pandas")

GRAPH = grf.load_graph(nx.grid_2d_graph(3, 4))
# Two components and an isolated node.
ISLANDS = grf.from_edges([0, 1, 3, 4], [1, 2, 4, 5], nodes=list("abcdefg"))
RNG = np.random.default_rng(0)
FRAME = pandas.DataFrame(
    {
        "node": [list(GRAPH.nodes)[i] for i in RNG.integers(0, 12, 60)],
        "district": [list("abcdefg")[i] for i in RNG.integers(0, 7, 60)],
        "t": np.r_[7.0, RNG.integers(0, 6, 59)],
        "uneven": RNG.choice([0.0, 0.3, 1.7, 2.0, 4.1], 60),
        "h": RNG.integers(0, 4, 60),
    }
)
CAR = grf.CAR(0.8)
MODELS = {
    "areas through time, type IV": [
        Nodes(GRAPH, grf.BYM2(0.4)),
        Steps("t", "rw2"),
        Nodes(GRAPH, grf.ICAR()) * Steps("t", "rw1"),
        Groups("h"),
    ],
    "one kernel in two terms": [
        Nodes(GRAPH, CAR),
        Nodes(GRAPH, CAR) * Groups("h"),
        Steps("t", "ar1"),
    ],
    "season and trend": [
        Steps("t", "seasonal", period=3),
        Steps("t", "rw2"),
        Groups("h") * Steps("t", "rw2"),
    ],
    "products with hidden variables": [
        Nodes(GRAPH, grf.Matern(2.0, 2.0)) * Steps("uneven", "matern"),
        Nodes(GRAPH, grf.ICAR()) * Steps("t", "rw2"),
    ],
    "islands": [
        Nodes(ISLANDS, grf.BYM2(0.3), by="district"),
        Nodes(ISLANDS, grf.ICAR(), by="district") * Steps("uneven", "rw1"),
        Steps("uneven", "ar1"),
    ],
}


def joint(name):
    bound = [BoundTerm.of(term, FRAME, number, 1.0) for number, term in enumerate(MODELS[name])]
    design = np.column_stack([np.ones(60), np.linspace(-1, 1, 60)])
    a = sp.csr_array(sp.hstack([*(own.rows(FRAME) for own in bound), sp.csr_array(design)]))
    return Joint(bound, np.diag([1 / 25, 1 / 49]), [a])


def at(own, spread=0.3):
    start = own.vector([parameter.start for parameter in own.parameters])
    return start + spread * np.random.default_rng(1).standard_normal(start.size)


@pytest.mark.parametrize("name", MODELS)
def test_determinants_inverses_and_variances_are_those_of_the_subspace(name):
    own = joint(name)
    prior = own.prior(at(own))
    held = own.constraints.toarray()
    basis = null_space(held) if len(held) else np.eye(own.n)
    q, a = prior.precision.toarray(), own.a.toarray()
    assert prior.log_determinant == pytest.approx(
        np.linalg.slogdet(basis.T @ q @ basis)[1], abs=1e-8
    )
    weights = np.random.default_rng(2).uniform(0.5, 2.0, 60)
    p = q + a.T @ np.diag(weights) @ a
    inverse = basis @ np.linalg.inv(basis.T @ p @ basis) @ basis.T
    factor = own.posterior(prior, weights)
    assert factor.log_determinant == pytest.approx(
        np.linalg.slogdet(basis.T @ p @ basis)[1], abs=1e-8
    )
    rhs = np.random.default_rng(3).standard_normal(own.n)
    np.testing.assert_allclose(factor.solve(rhs), inverse @ rhs, atol=1e-8)
    np.testing.assert_allclose(
        factor.variances(own.observed), np.diag(a @ inverse @ a.T), atol=1e-9
    )
    draws = factor.draws(np.random.default_rng(4).standard_normal((own.n, 20)))
    np.testing.assert_allclose(held @ draws, 0.0, atol=1e-6)
    np.testing.assert_allclose(
        factor.draws(np.eye(own.n)) @ factor.draws(np.eye(own.n)).T, inverse, atol=1e-7
    )


@pytest.mark.parametrize("name", MODELS)
def test_slopes_are_those_of_precision_and_determinant(name):
    own = joint(name)
    vector, step = at(own), 1e-5
    factor = own.posterior(own.prior(vector), np.ones(60))
    for k, slope in enumerate(own.slopes(vector)):
        ahead, behind = (
            own.prior(vector + sign * step * np.eye(vector.size)[k]) for sign in (1, -1)
        )
        change = (ahead.precision - behind.precision) / (2 * step)
        scale = max(1.0, abs(change).max())
        assert abs(change - slope.precision).max() < 1e-6 * scale
        assert (ahead.log_determinant - behind.log_determinant) / (2 * step) == pytest.approx(
            slope.log_determinant, abs=1e-5
        )
        dense = factor.solve(np.eye(own.n))
        assert factor.trace(slope.precision) == pytest.approx(
            np.trace(dense @ slope.precision.toarray()), abs=1e-7
        )


def test_a_kernel_object_shares_its_hyperparameters_and_an_equal_one_does_not():
    own = joint("one kernel in two terms")
    names = [parameter.name for parameter in own.parameters]
    assert names == ["dependence(node)", "sd(node)", "sd(node:h)", "correlation(t)", "sd(t)"]
    apart = [Nodes(GRAPH, grf.CAR(0.8)), Nodes(GRAPH, grf.CAR(0.8)) * Groups("h")]
    bound = [BoundTerm.of(term, FRAME, number, 1.0) for number, term in enumerate(apart)]
    rows = [sp.csr_array(sp.hstack([own.rows(FRAME) for own in bound]))]
    assert len(Joint(bound, np.zeros((0, 0)), rows).parameters) == 4


@pytest.mark.parametrize(("kind", "order"), [("rw1", 1), ("rw2", 2)])
def test_random_walks_have_unit_variance_in_the_geometric_mean(kind, order):
    structure = BoundTerm.of(Steps("t", kind), FRAME, 0, 1.0).structure
    q = structure.precision({}).toarray()
    trends = np.vander(np.arange(structure.size), order, increasing=True)
    basis = null_space(trends.T)
    variances = np.diag(basis @ np.linalg.inv(basis.T @ q @ basis) @ basis.T)
    assert np.log(variances).mean() == pytest.approx(0.0, abs=1e-10)


@pytest.mark.parametrize("nu", [0.5, 1.5])
def test_a_matern_process_has_its_covariance(nu):
    from graphrf.gp.time import MaternTime

    structure = BoundTerm.of(Steps("uneven", "matern", nu=nu), FRAME, 0, 1.0).structure
    (parameter,) = structure.parameters
    covariance = np.linalg.inv(structure.precision({parameter.name: 1.3}).toarray())[:5, :5]
    times = np.array([0.0, 0.3, 1.7, 2.0, 4.1])
    np.testing.assert_allclose(
        covariance, MaternTime(1.3, nu).covariance(times[:, None] - times), atol=1e-9
    )


def test_an_autoregression_has_its_correlations_across_gaps():
    structure = BoundTerm.of(Steps("t", "ar1"), FRAME, 0, 1.0).structure
    (parameter,) = structure.parameters
    for rho in (0.7, -0.4):
        covariance = np.linalg.inv(structure.precision({parameter.name: rho}).toarray())
        lags = np.abs(np.subtract.outer(structure_levels(), structure_levels()))
        np.testing.assert_allclose(covariance, rho**lags, atol=1e-10)


def structure_levels():
    return np.array([0, 1, 2, 3, 4, 5, 7])


def test_cells_may_be_averages_and_weighted_sums():
    nodes = Nodes(GRAPH, CAR)
    frame = pandas.DataFrame({"node": [[(0, 0), (0, 1)], {(0, 0): 2.0, (2, 3): -1.0}, (1, 1)]})
    rows = BoundTerm.of(nodes, frame, 0, 1.0).rows(frame).toarray()
    assert rows[0, :2].tolist() == [0.5, 0.5]
    assert rows[1, [0, 11]].tolist() == [2.0, -1.0]
    assert np.count_nonzero(rows[2]) == 1


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Steps("t", "rw3"), "`kind` must be one of"),
        (lambda: Steps("t", "rw1", period=4), "`period` is the number of levels of a season"),
        (
            lambda: Steps("t", "rw1", prior={"correlation": (1.0, 2.0)}),
            "`prior` must be of sd for kind='rw1'",
        ),
        (lambda: Nodes(GRAPH, grf.Diffusion(2.0)), "`kernel` must have a sparse precision"),
        (lambda: Nodes(GRAPH, CAR, prior={"mixing": None}), "must be of sd, dependence"),
        (
            lambda: Nodes(GRAPH, CAR, prior={"sd": 3.0}).deviation_prior,
            r"must be \(median, factor\)",
        ),
        (
            lambda: Nodes(
                GRAPH, grf.Matern(1.0), prior={"lengthscale": PenalisedDeviation()}
            ).parameters(),
            r"of 'lengthscale' must be \(median, factor\), or None",
        ),
        (lambda: Nodes(GRAPH, CAR) * Groups("h") * Groups("t"), "`terms` are multiplied in pairs"),
        (
            lambda: BoundTerm.of(Steps("uneven", "rw2"), FRAME, 0, 1.0),
            "`uneven` must have equal steps",
        ),
        (
            lambda: BoundTerm.of(Steps("node", "rw1"), FRAME, 0, 1.0),
            "`node` must hold numbers or dates",
        ),
        (
            lambda: BoundTerm.of(Groups("h") * Steps("t", "seasonal", period=3), FRAME, 0, 1.0),
            "no part in products",
        ),
        (
            lambda: BoundTerm.of(Nodes(ISLANDS, grf.ICAR(), by="node"), FRAME, 0, 1.0).rows(FRAME),
            "`node` holds .* and the graph has no such node",
        ),
    ],
)
def test_what_a_term_cannot_be_is_refused(make, match):
    with pytest.raises((ValueError, TypeError), match=match):
        make()


def test_a_product_that_does_not_fit_is_refused_by_its_name(monkeypatch):
    from graphrf._base import memory

    term = Nodes(GRAPH, CAR) * Steps("t", "rw1")
    monkeypatch.setattr(memory, "_SMALL", 0)
    monkeypatch.setattr(memory, "available_memory", lambda: 1_000)
    with pytest.raises(MemoryError, match="the precision of the term 'node:t', 12 by 7 variables"):
        BoundTerm.of(term, FRAME, 0, 1.0)
