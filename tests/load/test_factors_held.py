"""Sparse factors that fits make, and those that are in memory at once."""

from __future__ import annotations

import weakref

import numpy as np
import pytest

import graphrf as grf
from graphrf.gp import FieldGPRegressor, MetricGraph, TriangleMesh
from graphrf.operators.precision.markov import SparsePrecision
from graphrf.operators.sparse import multifrontal, ordering
from tests.load.limited_memory import grid

GRID = grid(30)
NODES = np.random.default_rng(0).choice(900, 150, replace=False)
Y = np.sin(NODES % 30 / 6) + np.random.default_rng(1).normal(0, 0.3, 150)


class Factors:
    """How many were made, and numbers of those in memory."""

    def __init__(self) -> None:
        self.made, self.numbers, self.most = 0, 0, 0

    def add(self, values: np.ndarray) -> None:
        self.made += 1
        self.numbers += values.size
        self.most = max(self.most, self.numbers)
        weakref.finalize(values, self._drop, values.size)

    def _drop(self, size: int) -> None:
        self.numbers -= size

    def of(self, call):
        """The factors that a call makes."""
        before = self.made
        call()
        return self.made - before


@pytest.fixture
def factors(monkeypatch):
    counted, factor = Factors(), multifrontal.factor

    def counting(*given):
        counted.add(given[-1])
        return factor(*given)

    monkeypatch.setattr(multifrontal, "factor", counting)
    return counted


def fitted(hyperparameters="average", n_threads=1):
    numerics = grf.gp.Numerics(n_threads=n_threads)
    settings = {"method": "precision", "kernel": grf.Matern(2.0), "seed": 0}
    gp = grf.GraphGPRegressor(GRID, hyperparameters=hyperparameters, numerics=numerics, **settings)
    return gp.fit(NODES, Y)


def entries():
    return SparsePrecision(GRID, grf.Matern(2.0)).own_elimination.n_entries


def test_an_average_has_one_factor_at_a_time_and_holds_none(factors):
    gp = fitted()
    assert gp.n_points_ > 4
    assert (factors.most, factors.numbers) == (entries(), 0)
    assert factors.of(lambda: gp.predict(return_std=True)) == 0
    assert factors.of(lambda: gp.predict([3, 4], return_std="observation")) == 0
    assert factors.of(lambda: gp.predict(quantiles=0.9)) == 0
    assert factors.of(gp.loo) == 0
    assert factors.of(lambda: gp.sample(n_samples=1, seed=0)) == 1
    assert 1 < factors.of(lambda: gp.sample(n_samples=50, seed=0)) <= gp.n_points_
    assert factors.of(lambda: gp.predict([3, 4], return_cov=True)) == gp.n_points_
    assert factors.most == entries()


def test_a_mode_holds_its_factor(factors):
    gp = fitted("mode")
    assert factors.most == factors.numbers == entries()
    questions = (
        lambda: gp.predict(return_std=True),
        lambda: gp.predict([3, 4], return_cov=True),
        lambda: gp.sample(n_samples=3, seed=0),
    )
    assert [factors.of(question) for question in questions] == [0, 0, 0]


def test_threads_have_as_many_factors_as_there_is_memory_for(factors, monkeypatch):
    one, size = fitted(), entries()
    answers = one.predict(return_std=True)
    for room in (1, 3):
        monkeypatch.setattr(ordering, "available_memory", lambda room=room: room * 2 * 8 * size)
        factors.most = 0
        gp = fitted(n_threads=8)
        assert size <= factors.most <= room * size
        assert all(map(np.array_equal, gp.predict(return_std=True), answers))
        elimination = SparsePrecision(GRID, grf.Matern(2.0)).own_elimination
        assert [elimination.at_once(n) for n in (1, 2, 8)] == [1, min(2, room), room]


def test_fields_are_known_at_all_places_of_a_mesh_without_their_factors(factors):
    rng = np.random.default_rng(0)
    points, others = rng.random((80, 2)), rng.random((30, 2))
    mesh = TriangleMesh.from_points(points, max_edge=0.1)
    y = np.sin(4 * points[:, 0]) + rng.normal(0, 0.1, 80)
    gp = FieldGPRegressor(mesh).fit(points, y)
    assert gp.n_points_ == 7
    assert factors.numbers == 0
    assert factors.of(lambda: gp.predict(others, return_std=True)) == 0
    assert factors.of(lambda: gp.predict(quantiles=0.1)) == 0
    assert factors.of(lambda: gp.predict(others, return_cov=True)) == 7
    assert factors.of(lambda: gp.sample(others, n_samples=1, seed=0)) == 1
    assert factors.numbers == 0


def test_new_places_along_edges_take_a_factor_for_each_set_of_hyperparameters(factors):
    rng = np.random.default_rng(0)
    streets = MetricGraph(np.arange(9), np.arange(1, 10), np.ones(9))
    places = np.column_stack([rng.integers(0, 9, 40), rng.random(40)])
    gp = FieldGPRegressor(streets).fit(places, np.sin(places.sum(axis=1)) + rng.normal(0, 0.1, 40))
    others = np.column_stack([rng.integers(0, 9, 5), rng.random(5)])
    assert gp.n_points_ == 7
    assert factors.of(lambda: gp.predict(others)) == 7
    assert factors.of(lambda: gp.predict(others, return_std=True)) == 7
    assert factors.of(lambda: gp.predict(others, quantiles=0.5)) == 7
    assert factors.of(lambda: gp.predict(others, return_cov=True)) == 14
    assert factors.of(lambda: gp.sample(others, n_samples=1, seed=0)) == 8
    assert factors.numbers == 0
