"""Costs of products, factors and solves decide between series and features, and solvers."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import graphrf as grf
from graphrf.gp.methods import costs
from graphrf.gp.methods.costs import (
    choose_deviations,
    choose_solver,
    factored_precision,
    is_thick,
    series_or_features,
    solve_products,
)
from graphrf.operators.sparse import ordering
from graphrf.operators.sparse.ordering import Elimination, FactorTooLargeError


@pytest.fixture(scope="module")
def ring():
    nodes = np.arange(200_000)
    return grf.from_edges(nodes, np.roll(nodes, -1))


def test_beyond_the_budget_few_observations_take_walks_and_many_the_series(ring, monkeypatch):
    # 5,000 products of the series cost as much as 100 steps with rows of 1,024 entries at so many
    # observed nodes
    # With so many, walks cost a quarter.
    even = (5_000 + 40 * 1_000) * ring.adjacency.nnz / (2 * 100 * 1024) / 4
    assert series_or_features(ring, int(0.9 * even), 1_000) == "series"  # within the budget
    monkeypatch.setattr(costs, "SERIES_BUDGET", 1e9)
    assert series_or_features(ring, int(0.9 * even), 1_000) == "features"
    assert series_or_features(ring, int(1.1 * even), 1_000) == "series"


def test_rows_are_taken_sooner_where_a_few_steps_reach_most_nodes(monkeypatch):
    monkeypatch.setattr(costs, "_QUICKLY_ORDERED", 500)
    monkeypatch.setattr(costs, "SERIES_BUDGET", 2e8)
    ends = np.random.default_rng(0).integers(0, 2_000, (2, 8_000))
    scattered = grf.from_edges(*ends[:, ends[0] != ends[1]], n_nodes=2_000)
    narrow = grf.from_edges(np.arange(8_000), np.roll(np.arange(8_000), -1))
    assert narrow.adjacency.nnz >= scattered.adjacency.nnz  # the products cost as much
    assert (is_thick(scattered), is_thick(narrow)) == (True, False)
    assert series_or_features(scattered, 100, 100) == "features"
    assert series_or_features(narrow, 100, 100) == "series"
    assert series_or_features(scattered, 40, 40) == "series"
    monkeypatch.setattr(costs, "_QUICKLY_ORDERED", 2_000)
    assert not is_thick(scattered)  # it takes no time to see what a factor costs


def test_deviations_are_exact_while_their_columns_are_affordable(ring):
    assert choose_deviations(ring, "series", 2_000, 10_000, 1) == "exact"
    assert choose_deviations(ring, "series", 4_000, 10_000, 1) == "sampled"
    # several sets of hyperparameters have columns each, and
    # share prior variances where few nodes were observed
    assert choose_deviations(ring, "series", 2_000, 10_000, 9) == "sampled"
    assert choose_deviations(ring, "series", 2_000, 100, 9) == "exact"
    # deviations of predictors by sampled rows take the columns of the series, too
    assert choose_deviations(ring, "features", 2_000, 100, 1) == "exact"
    assert choose_deviations(ring, "features", 2_000, 100, 9) == "sampled"
    assert choose_deviations(ring, "precision", 4_000, 100, 9) == "exact"


def test_solvers_and_costs_beyond_a_size(ring, karate):
    assert choose_solver(ring, "series", 1_000) == "cholesky"
    assert choose_solver(ring, "series", 4_000) == "cg"
    assert choose_solver(ring, "features", 2_000) == "cholesky"
    assert choose_solver(ring, "features", 7_001) == "cg"
    assert [solve_products(karate, n) / karate.adjacency.nnz for n in (10, 1_000)] == [400, 5_000]


# -- factors ---------------------------------------------------------------------------------------

KERNELS = [(grf.Matern(nu=nu), ("lengthscale",)) for nu in (1.0, 2.0, 3.0)]


def test_an_order_of_elimination_is_not_found_to_see_that_a_factor_fits(monkeypatch):
    graph = grf.load_graph(nx.grid_2d_graph(30, 30))
    found = []
    of = Elimination.of
    monkeypatch.setattr(Elimination, "of", lambda *given: found.append(1) or of(*given))
    precision, kept = factored_precision(graph, KERNELS)
    assert (len(found), kept) == (1, KERNELS)
    first = precision.own_elimination.n_entries
    # with room for 3.3 times the first factor the others have to be ordered
    monkeypatch.setattr(costs, "numbers_there", lambda: 10 / 3 * first)
    assert factored_precision(graph, KERNELS)[1] == KERNELS
    assert len(found) == 3


def test_kernels_are_kept_whose_factors_fit(monkeypatch):
    graph = grf.load_graph(nx.grid_2d_graph(20, 20))
    entries = factored_precision(graph, KERNELS)[0].own_elimination.n_entries
    monkeypatch.setattr(ordering, "available_memory", lambda: 16 * entries)
    assert factored_precision(graph, KERNELS)[1] == KERNELS[:1]
    monkeypatch.setattr(ordering, "available_memory", lambda: 16 * entries - 8)
    with pytest.raises(
        FactorTooLargeError, match=r"would hold more than .* numbers: .*; use method="
    ):
        factored_precision(graph, KERNELS)


def test_an_elimination_without_room_is_one_kernel_less(monkeypatch):
    graph = grf.load_graph(nx.grid_2d_graph(20, 20))
    monkeypatch.setattr("graphrf.operators.sparse.ordering.numbers_there", lambda: 100.0)
    monkeypatch.setattr(costs, "numbers_there", lambda: 1e12)
    with pytest.raises(
        FactorTooLargeError, match=r"numbers: graphs with hubs .* kernel of smaller `nu`"
    ):
        factored_precision(graph, KERNELS)
