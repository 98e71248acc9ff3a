"""The route is chosen by what each costs, before anything is trained."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import graphrf as grf
from graphrf.gp.model.settings import automatic_kernels
from graphrf.gp.routes.plan import make_plan
from graphrf.operators.sparse.ordering import FactorTooLargeError

LENGTH = ("lengthscale",)


def _plan(graph, kernels=None, n_observed=100, **settings):
    automatic = kernels is None
    kernels = automatic_kernels(graph) if kernels is None else kernels
    settings = {"method": "auto", "sampler": None, "n_points": 8, "n_threads": 1, **settings}
    return make_plan(graph, [(kernel, LENGTH) for kernel in kernels], n_observed, automatic=automatic, **settings)


@pytest.fixture(scope="module")
def roads():
    return grf.Graph(nx.to_scipy_sparse_array(nx.grid_2d_graph(60, 60)))


@pytest.fixture(scope="module")
def hubs():
    return grf.load_graph(nx.barabasi_albert_graph(20_000, 6, seed=0))


@pytest.mark.parametrize("n_observed", [5, 50, 500, 3_000])
def test_meshes_and_roads_take_sparse_precisions_however_few_nodes_are_observed(roads, n_observed):
    plan = _plan(roads, n_observed=n_observed)
    assert plan.route.name == "precision"
    assert {kernel.nu for kernel, _ in plan.kernels} == {1.0, 2.0, 3.0}


def test_kernels_without_a_sparse_inverse_take_the_series(roads):
    assert _plan(roads, [grf.Diffusion(1.0)]).route.name == "series"
    assert _plan(roads, [grf.Matern(nu=0.7)]).route.name == "series"
    assert _plan(roads, [grf.Matern(nu=2.0), grf.Matern(nu=0.7)]).route.name == "series"


def test_a_trained_smoothness_takes_the_series_also_from_an_integer(roads):
    settings = {"method": "auto", "automatic": False, "sampler": None, "n_points": 8, "n_threads": 1}
    plan = make_plan(roads, [(grf.Matern(nu=2.0), ("nu", "lengthscale"))], 100, **settings)
    assert plan.route.name == "series"
    nodes = np.arange(0, 3_600, 40)
    gp = grf.GraphGPRegressor(roads, kernel=grf.Matern(nu=2.0), optimize=("nu", "lengthscale"), seed=0)
    assert gp.fit(nodes, np.sin(nodes / 600)).kernel_.nu != 2.0


def test_graphs_whose_factors_fill_up_take_the_series_or_features(hubs, monkeypatch):
    plan = _plan(hubs)
    assert plan.route.name == "series"
    assert len(plan.kernels) == 8
    monkeypatch.setattr("graphrf.gp.routes.costs.SERIES_BUDGET", 1e6)
    plan = _plan(hubs)
    assert plan.route.name == "features"
    assert [type(kernel) for kernel, _ in plan.kernels].count(grf.Diffusion) == 2


@pytest.mark.parametrize("method", ["series", "precision", "features"])
def test_a_method_that_is_asked_for_is_taken(roads, method):
    assert _plan(roads, [grf.Matern(nu=2.0)], method=method).route.name == method


def test_a_factor_that_does_not_fit_is_refused_before_anything_is_trained(roads, monkeypatch):
    monkeypatch.setattr("graphrf.operators.sparse.ordering.numbers_there", lambda: 100.0)
    roads = grf.Graph(roads.adjacency)  # whose order of elimination is not known yet
    with pytest.raises(FactorTooLargeError, match="method='series'"):
        _plan(roads, [grf.Matern(nu=1.0), grf.Matern(nu=2.0)], method="precision")
    assert _plan(grf.Graph(roads.adjacency)).route.name == "series"


def test_a_precision_that_cannot_be_ordered_is_no_route(roads, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pymetis", None)
    graph = grf.Graph(roads.adjacency)
    assert _plan(graph).route.name == "series"
    assert np.isfinite(
        grf.GraphGPRegressor(graph, kernel="matern", seed=0).fit([0, 5, 9], [0.0, 1.0, 2.0]).predict()
    ).all()
