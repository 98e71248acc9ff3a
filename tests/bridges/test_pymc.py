"""`graphrf.bridges.pymc`: densities, gradients, draws, refusals, posteriors with PyMC and Bambi."""

from __future__ import annotations

import pickle
import warnings

import networkx as nx
import numpy as np
import pytest

import graphrf as grf
from graphrf.bridges import SparseField
from tests.bridges.scotland import RATE, assert_agrees, districts, needs_districts

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pm = pytest.importorskip("pymc")
    from graphrf.bridges.pymc import GraphField

import pytensor.tensor as pt

# Of these libraries, about BLAS, short chains and each other.
pytestmark = pytest.mark.filterwarnings("ignore")
NAMES = [f"area {i}" for i in range(20)]
GRAPH = grf.load_graph(
    nx.relabel_nodes(nx.grid_2d_graph(4, 5), dict(zip(nx.grid_2d_graph(4, 5), NAMES, strict=True)))
)
X = np.random.default_rng(0).standard_normal((3, 20))


def own(x, mixing, sd):
    return SparseField(GRAPH, grf.BYM2()).gradients(x, np.array([mixing, sd]))


def test_densities_and_gradients_are_those_of_the_field():
    x, mixing, sd = pt.vector("x"), pt.scalar("mixing"), pt.scalar("sd")
    density = pm.logp(GraphField.dist(GRAPH, grf.BYM2(), mixing=mixing, sd=sd), x)
    above = pt.exp(0.01 * density)
    found = pm.compile([x, mixing, sd], [density, *pt.grad(above, [x, mixing, sd])])(X[0], 0.3, 2.0)
    expected, in_x, in_values = own(X[0], 0.3, 2.0)
    assert found[0] == pytest.approx(expected)
    slope = 0.01 * np.exp(0.01 * expected)
    np.testing.assert_allclose(found[1], slope * in_x)
    np.testing.assert_allclose(found[2:], slope * in_values)
    with pytest.raises(Exception, match="first derivatives alone"):
        pm.compile([x, mixing, sd], pt.grad(pt.grad(density, sd), sd))(X[0], 0.3, 2.0)


def test_fields_of_a_batch_are_members_one_by_one():
    mixing = pt.vector("mixing")
    field = GraphField.dist(GRAPH, grf.BYM2(), mixing=mixing, sd=2)
    density = pm.logp(field, X)
    found, slope = pm.compile([mixing], [density, pt.grad(density.sum(), mixing)])([0.3, 0.6, 0.9])
    expected = [own(x, phi, 2.0) for x, phi in zip(X, (0.3, 0.6, 0.9), strict=True)]
    np.testing.assert_allclose(found, [part[0] for part in expected])
    np.testing.assert_allclose(slope, [part[2][0] for part in expected])
    fixed = GraphField.dist(GRAPH, grf.BYM2(0.3), shape=(3, 20))
    np.testing.assert_allclose(pm.logp(fixed, X).eval(), [own(x, 0.3, 1.0)[0] for x in X])
    assert pm.draw(fixed, random_seed=0).shape == (3, 20)


def test_draws_have_the_covariance_of_the_kernel():
    field = GraphField.dist(GRAPH, grf.CAR(0.9), sd=2.0, size=20_000)
    np.testing.assert_allclose(
        np.cov(pm.draw(field, random_seed=0).T), 4 * grf.CAR(0.9).dense(GRAPH), atol=0.35
    )


def model_of(y=None):
    with pm.Model() as model:
        lengthscale, sd = pm.LogNormal("lengthscale", 0, 0.5), pm.HalfNormal("sd")
        f = GraphField("f", GRAPH, grf.Matern(nu=2.0), lengthscale=lengthscale, sd=sd, dims="area")
        pm.Normal("y", f, 0.3, observed=np.sin(np.arange(20)) if y is None else y)
    return model


def test_models_have_names_initial_values_draws_and_modes():
    model = model_of()
    assert model.coords["area"] == tuple(GRAPH.nodes)
    assert not model.initial_point()["f"].any()
    prior = pm.sample_prior_predictive(4, model=model, random_seed=0).prior
    assert prior["f"].shape == (1, 4, 20)
    assert list(prior["f"].coords["area"].values) == list(GRAPH.nodes)
    assert np.unique(prior["f"]).size == 80
    mode = pm.find_MAP(model=model, progressbar=False)
    assert np.isfinite(mode["f"]).all()
    assert "GraphField(lengthscale, sd)" in model.str_repr()


def test_variables_are_pickled_for_processes():
    op = GraphField.dist(GRAPH, grf.BYM2(), mixing=pt.scalar()).owner.op
    assert pickle.loads(pickle.dumps(op)).field.names == ("mixing", "sd")


def test_bad_arguments_are_refused_where_the_model_is_made():
    with pm.Model(coords={"other": NAMES[:19], "turned": NAMES[::-1], "mine": range(20)}):
        scale = pm.HalfNormal("scale")
        with pytest.raises(TypeError, match="`length` is no hyperparameter"):
            GraphField("f", GRAPH, grf.Matern(), length=scale)
        with pytest.raises(ValueError, match="`sd` must be greater than 0"):
            GraphField("f", GRAPH, grf.CAR(), sd=-1)
        with pytest.raises(ValueError, match="'other' has 19"):
            GraphField("f", GRAPH, grf.CAR(), dims="other")
        with pytest.raises(ValueError, match=r"order of graph.nodes, and 'turned' has"):
            GraphField("f", GRAPH, grf.CAR(), dims="turned")
        with pytest.raises(ValueError, match="must end with the 20 nodes of the graph, got 19"):
            GraphField("f", GRAPH, grf.CAR(), shape=19)
        assert GraphField("f", GRAPH, grf.CAR(), dims="mine").type.shape == (20,)


@needs_districts
def test_the_posterior_of_scotland_is_that_of_our_model():
    graph, cases, expected, outdoors = districts()
    with pm.Model():
        a, b = pm.Normal("a", 0, 5), pm.Normal("b", 0, 5)
        sd, mixing = pm.Exponential("sd", RATE), pm.Beta("mixing", 1, 1)
        f = GraphField("f", graph, grf.BYM2(), sd=sd, mixing=mixing, dims="district")
        pm.Poisson("y", expected * pm.math.exp(a + b * outdoors + f), observed=cases)
        drawn = pm.sample(
            400, tune=400, chains=2, cores=1, random_seed=0, progressbar=False
        ).posterior
    draws = {name: drawn[name].to_numpy().ravel() for name in ("a", "b", "sd", "mixing")}
    assert_agrees(draws, drawn["f"].to_numpy().reshape(-1, 56))


@needs_districts
def test_a_term_of_bambi_is_a_field():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bmb = pytest.importorskip("bambi")
    import pandas as pd

    graph, cases, expected, outdoors = districts()
    places = pd.Categorical(graph.nodes, categories=list(graph.nodes), ordered=True)
    frame = pd.DataFrame({"y": cases, "log_e": np.log(expected), "x": outdoors, "district": places})

    def field(name, dims=None, **values):
        return GraphField(name, graph, grf.BYM2(), dims=dims, **values)

    wide, share = bmb.Prior("Normal", mu=0, sigma=5), bmb.Prior("Beta", alpha=1, beta=1)
    prior = bmb.Prior("GraphField", dist=field, sd=bmb.Prior("Exponential", lam=RATE), mixing=share)
    settings = {"family": "poisson", "noncentered": False}
    priors = {"Intercept": wide, "x": wide, "1|district": prior}
    formula = "y ~ x + offset(log_e) + (1|district)"
    model = bmb.Model(formula, frame, priors=priors, **settings)
    options = {"chains": 2, "cores": 1, "random_seed": 0, "progressbar": False}
    drawn = model.fit(draws=400, tune=400, **options).posterior
    names = {"a": "Intercept", "b": "x", "sd": "1|district_sd", "mixing": "1|district_mixing"}
    draws = {name: drawn[long].to_numpy().ravel() for name, long in names.items()}
    assert_agrees(draws, drawn["1|district"].to_numpy().reshape(-1, 56))
    unordered = frame.assign(district=list(graph.nodes))
    with pytest.raises(ValueError, match=r"order of graph.nodes"):
        bmb.Model(formula, unordered, priors=priors, **settings).build()
