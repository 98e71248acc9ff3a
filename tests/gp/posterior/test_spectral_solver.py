"""Conjugate gradients on all nodes: against a dense solve, with products as rough as may be."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import graphrf as grf
from graphrf.gp.covariance.covariance import Covariance
from graphrf.gp.posterior.spectral_solver import SpectralCG

ROOTS = {
    "exact": None,
    "rough": lambda series: series.rough,
    "wrong": lambda series: lambda tol: lambda x: 0.5 * series.rough(tol)(x),
    "nothing": lambda series: lambda tol: lambda x: 0 * x,
}


@pytest.fixture
def counted(monkeypatch):
    """The dtype of every solve that one is made of."""
    dtypes = []
    on_all_nodes = SpectralCG._solved_on_all_nodes

    def count(self, system, *arguments):
        dtypes.append(system.diagonal.dtype)
        return on_all_nodes(self, system, *arguments)

    monkeypatch.setattr(SpectralCG, "_solved_on_all_nodes", count)
    return dtypes


@pytest.mark.parametrize(
    ("name", "unit"),
    [("exact", 1e60), ("rough", 1.0), ("rough", 1e60), ("wrong", 1.0), ("nothing", 1.0)],
)
def test_whatever_products_it_begins_with_a_solve_ends_at_its_tolerance(name, unit, counted):
    graph, kernel, rng = (
        grf.load_graph(nx.grid_2d_graph(20, 20)),
        grf.Diffusion(4.0),
        np.random.default_rng(0),
    )
    nodes = np.sort(rng.permutation(400)[:200])
    covariance = Covariance.by_series(graph, kernel, 3.0 * unit, n_threads=1)
    diagonal = unit * rng.uniform(0.01, 0.02, 200)
    root = None if ROOTS[name] is None else ROOTS[name](covariance.series)
    steps: list[int] = []
    solver = SpectralCG(
        graph,
        kernel,
        3.0 * unit,
        covariance.rows(nodes),
        diagonal,
        nodes,
        rough=root,
        step=lambda: steps.append(1),
        tol=1e-8,
        max_iterations=1_000,
    )
    b = np.column_stack([rng.standard_normal(200), np.ones(200), np.zeros(200)])
    found = solver.solve(b)
    assert found.converged
    assert len(steps) >= found.iterations > 0
    assert found.residual <= 1e-8
    matrix = covariance.rows(nodes).dense() / unit + np.diag(diagonal / unit)
    np.testing.assert_allclose(unit * found.value, np.linalg.solve(matrix, b), atol=1e-5)
    assert np.float64 in counted or name == "rough"
    # Rough products serve to the end; others are given up at once.
    assert counted.count(np.float32) == {"exact": 0, "wrong": 1, "nothing": 1}.get(
        name, len(counted)
    )


@pytest.mark.parametrize(
    ("kernel", "noise", "expected"),
    [
        (grf.Diffusion(3.0), 1e-4, "float32"),
        # A filter of high degree: rounding would be met again and again.
        (grf.Diffusion(40.0), 1e-4, "float64"),
        # A small difference of large numbers is lost to rounding.
        (grf.Diffusion(1.0), 1e-9, "float64"),
    ],
    ids=["serves", "long", "noiseless"],
)
def test_single_precision_is_used_only_where_it_serves(kernel, noise, expected, counted):
    graph, nodes = grf.load_graph(nx.grid_2d_graph(40, 40)), np.arange(0, 1600, 3)
    covariance = Covariance.by_series(graph, kernel, 1.0, n_threads=1)
    solver = SpectralCG(
        graph,
        kernel,
        1.0,
        covariance.rows(nodes),
        np.full(nodes.size, noise),
        nodes,
        rough=covariance.series.rough,
        tol=1e-6,
        max_iterations=1_000,
    )
    assert solver.solve(np.sin(nodes / 50.0)).converged
    assert {dtype.name for dtype in counted} == {expected}
