"""The method is chosen by what each costs, before anything is trained."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import graphrf as grf
from graphrf.gp.methods.choose import NAMES, choose_method, estimated_seconds, method_named
from graphrf.gp.model.settings import automatic_kernels
from graphrf.operators.precision.markov import SparsePrecision
from graphrf.operators.sparse.ordering import FactorTooLargeError

LENGTH = ("lengthscale",)


def _plan(graph, kernels=None, n_observed=100, **settings):
    automatic = kernels is None
    kernels = automatic_kernels(graph) if kernels is None else kernels
    settings = {"method": "auto", "sampler": None, "n_points": 8, "n_threads": 1, **settings}
    return choose_method(
        graph,
        [(kernel, LENGTH) for kernel in kernels],
        np.arange(n_observed),
        automatic=automatic,
        **settings,
    )


@pytest.fixture(scope="module")
def roads():
    return grf.Graph(nx.to_scipy_sparse_array(nx.grid_2d_graph(60, 60)))


@pytest.fixture(scope="module")
def hubs():
    return grf.load_graph(nx.barabasi_albert_graph(3_000, 6, seed=0))


@pytest.mark.parametrize("n_observed", [5, 3_000])
def test_meshes_and_roads_take_sparse_precisions_however_few_nodes_are_observed(roads, n_observed):
    plan = _plan(roads, n_observed=n_observed)
    assert plan.method.name == "precision"
    assert {kernel.nu for kernel, _ in plan.kernels} == {1.0, 2.0, 3.0}


def test_kernels_without_a_sparse_inverse_take_the_series(roads):
    assert _plan(roads, [grf.Diffusion(1.0)]).method.name == "series"
    assert _plan(roads, [grf.Matern(nu=0.7)]).method.name == "series"
    assert _plan(roads, [grf.Matern(nu=2.0), grf.Matern(nu=0.7)]).method.name == "series"


def test_a_trained_smoothness_takes_the_series_also_from_an_integer(roads):
    settings = {
        "method": "auto",
        "automatic": False,
        "sampler": None,
        "n_points": 8,
        "n_threads": 1,
    }
    plan = choose_method(
        roads, [(grf.Matern(nu=2.0), ("nu", "lengthscale"))], np.arange(100), **settings
    )
    assert plan.method.name == "series"


def test_graphs_whose_factors_fill_up_take_the_series_or_features(hubs, monkeypatch):
    monkeypatch.setattr("graphrf.gp.methods.costs._QUICKLY_ORDERED", 500)
    plan = _plan(hubs)
    assert plan.method.name == "series"
    assert len(plan.kernels) == 8
    monkeypatch.setattr("graphrf.gp.methods.costs.SERIES_BUDGET", 1e6)
    plan = _plan(hubs)
    assert plan.method.name == "features"
    assert [type(kernel) for kernel, _ in plan.kernels].count(grf.Diffusion) == 2
    assert _plan(hubs, [grf.Matern(nu=2.0)]).method.name == "features"
    assert [kernel for kernel, _ in _plan(hubs, [grf.Matern(nu=2.0)]).kernels] == [
        grf.Matern(nu=2.0)
    ]


def test_features_hold_the_rows_of_observed_nodes_unless_these_live_elsewhere(roads):
    sampler = grf.RandomWalks(8)
    here, there = (
        _plan(roads, method="features", sampler=sampler, remote=remote) for remote in (False, True)
    )
    assert (here.method._n_held, there.method._n_held) == (100, 0)
    assert here.method.sampler is sampler


def test_the_factors_of_a_search_for_a_mode_count(roads, monkeypatch):
    kernel, settings = (
        grf.Matern(nu=2.0),
        {"automatic": False, "sampler": None, "n_threads": 1, "method": "auto"},
    )

    def method(names, n_points):
        return choose_method(
            roads, [(kernel, names)], np.arange(3_000), n_points=n_points, **settings
        ).method.name

    assert method(LENGTH, 1) == "precision"
    monkeypatch.setattr("graphrf.gp.methods.seconds._EVALUATIONS", 1e9)
    assert method(LENGTH, 1) == "series"
    # Averages and known kernels have no search.
    assert method(LENGTH, 8) == method((), 1) == "precision"


def test_of_kernels_that_are_compared_some_may_fit_and_given_ones_all_or_none(roads, monkeypatch):
    entries = SparsePrecision(roads, grf.Matern(nu=1.0)).own_elimination.n_entries
    room = 1.02 * 16 * entries
    monkeypatch.setattr("graphrf.operators.sparse.ordering.available_memory", lambda: room)
    plan = _plan(roads)
    assert plan.method.name == "precision"
    assert {kernel.nu for kernel, _ in plan.kernels} == {1.0}
    assert _plan(roads, [grf.Matern(nu=1.0)]).method.name == "precision"
    assert _plan(roads, [grf.Matern(nu=1.0), grf.Matern(nu=3.0)]).method.name == "series"


def test_layers_are_taken_only_where_they_are_cheaper_than_a_long_wait(roads, monkeypatch):
    assert _plan(roads, [grf.Matern(nu=0.5)], n_observed=3_000).method.name == "precision"
    assert _plan(roads, [grf.Matern(nu=0.5)], n_observed=50).method.name == "series"
    block = grf.Graph(nx.to_scipy_sparse_array(nx.grid_graph([16, 16, 16])))
    # Layers are not ordered to see that they are dear.
    monkeypatch.setattr(SparsePrecision, "_dissected", None)
    assert _plan(block, [grf.Matern(nu=1.5)]).method.name == "series"
    monkeypatch.undo()
    assert _plan(block, [grf.Matern(nu=1.0)]).method.name == "precision"


@pytest.mark.parametrize("method", ["series", "precision", "features"])
def test_a_method_that_is_asked_for_is_taken(roads, method):
    assert _plan(roads, [grf.Matern(nu=2.0)], method=method).method.name == method


def test_a_factor_that_does_not_fit_is_refused_before_anything_is_trained(roads, monkeypatch):
    monkeypatch.setattr("graphrf.operators.sparse.ordering.numbers_there", lambda: 100.0)
    roads = grf.Graph(roads.adjacency)  # whose order of elimination is not known yet
    with pytest.raises(FactorTooLargeError, match="method='series'"):
        _plan(roads, [grf.Matern(nu=1.0), grf.Matern(nu=2.0)], method="precision")
    assert _plan(grf.Graph(roads.adjacency)).method.name == "series"


def test_a_precision_that_cannot_be_ordered_is_no_method(roads, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pymetis", None)
    assert _plan(grf.Graph(roads.adjacency)).method.name == "series"


@pytest.mark.parametrize(
    ("method", "kernel", "sampler", "reason"),
    [
        ("series", grf.Diffusion(1.0), grf.RandomWalks(8), "method and its sampler"),
        ("features", grf.Diffusion(1.0), None, "method and its sampler"),
        ("precision", grf.Diffusion(1.0), None, "precision"),
        (
            "features",
            grf.Diffusion(1.0, laplacian="combinatorial"),
            grf.RandomWalks(8),
            "different Laplacians",
        ),
    ],
)
def test_a_method_that_does_not_serve_a_fitted_model_is_refused(
    roads, method, kernel, sampler, reason
):
    with pytest.raises(ValueError, match=reason):
        method_named(roads, method, [kernel], sampler, 1)


@pytest.mark.parametrize("name", NAMES)
def test_the_method_of_a_fitted_model_is_that_of_its_name(roads, name):
    sampler = grf.RandomWalks(8) if name == "features" else None
    method = method_named(roads, name, [grf.Matern(nu=2.0)], sampler, 1)
    assert method.name == name
    assert (method.precision is None) == (name != "precision")


def test_costs_of_the_series_grow_with_the_lengthscale_and_with_uneven_observations(roads):
    def seconds(kernel, nodes):
        return estimated_seconds(roads, [(kernel, ())], nodes, False, 8)["series"]

    few, grid = np.arange(0, 3_600, 40), nx.grid_2d_graph(120, 120)
    assert seconds(grf.Matern(1.5, 20.0), few) > 2 * seconds(grf.Matern(1.5, 5.0), few)
    large = grf.load_graph(grid)
    costs = [
        estimated_seconds(large, [(grf.Matern(1.5, 20.0), ())], nodes, False, 8)["series"]
        for nodes in (np.arange(7_200), np.arange(0, 14_400, 2))
    ]
    assert costs[0] > 1.5 * costs[1]


def test_a_lengthscale_that_the_series_does_not_serve_takes_the_precision():
    graph = grf.load_graph(nx.grid_2d_graph(120, 120))
    kernels = [(grf.Matern(1.0, 1e5, laplacian="combinatorial"), ())]
    nodes = np.arange(0, 14_400, 9)
    with pytest.raises(ValueError, match="of the norm of its root"):
        estimated_seconds(graph, kernels, nodes, False, 8)
    settings = {"sampler": None, "n_points": 8, "n_threads": 1, "method": "auto"}
    plan = choose_method(graph, kernels, nodes, automatic=False, **settings)
    assert plan.method.name == "precision"
