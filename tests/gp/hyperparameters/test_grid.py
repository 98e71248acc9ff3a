"""The likelihood on the grid is the restricted likelihood, and blocks hold what they should."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from scipy.stats import multivariate_normal

import graphrf as grf
from graphrf.gp.hyperparameters.blocks import NEAR, observed_blocks
from graphrf.gp.hyperparameters.explore import _AXES
from graphrf.gp.hyperparameters.grid import (
    BlockValues,
    Cells,
    independent_log_likelihoods,
    log_likelihoods,
)
from graphrf.gp.model.observations import Observations
from graphrf.gp.model.prior import FLAT, HyperparameterPrior


def _observations(n_outputs, columns, rng, precisions=False):
    """Repeated observations at six nodes, and the covariance of a unit output scale there."""
    nodes = np.array([3, 0, 1, 5, 3, 2, 4, 0, 3, 1])
    basis = np.column_stack([np.ones(6), rng.standard_normal((6, 3))])[:, :columns]
    y = rng.standard_normal((10, n_outputs)) + 2.0
    weights = rng.uniform(0.5, 2.0, 10) if precisions else None
    root = rng.standard_normal((6, 6))
    return nodes, y, basis, weights, root @ root.T / 6


@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("columns", [0, 1, 3])
@pytest.mark.parametrize("precisions", [False, True])
def test_likelihoods_are_those_of_dense_contrasts(n_outputs, columns, precisions):
    rng = np.random.default_rng(columns)
    nodes, y, basis, weights, k = _observations(n_outputs, columns, rng, precisions)
    block = BlockValues.of(Observations.of(nodes, y, basis, weights), 1.0)
    cells = Cells.of(None, None, 1.0, FLAT, _AXES)
    found = log_likelihoods([np.array([k, 2 * k])], [block], cells)
    assert found.shape == (2, cells.scales.size)
    some = rng.choice(cells.scales.size, 5, replace=False)
    a = np.ones(10) if weights is None else weights
    # contrasts of the raw observations, whose density does not depend on the mean's coefficients
    contrasts = np.linalg.qr(basis[nodes], mode="complete")[0][:, columns:].T
    expected = np.empty((2, 5))
    for column, (scale, noise) in enumerate(
        zip(cells.scales[some], cells.noises[some], strict=True)
    ):
        for row, factor in enumerate((1.0, 2.0)):
            covariance = factor * scale * k[np.ix_(nodes, nodes)] + np.diag(noise / a)
            law = multivariate_normal(np.zeros(10 - columns), contrasts @ covariance @ contrasts.T)
            expected[row, column] = sum(law.logpdf(contrasts @ y[:, j]) for j in range(n_outputs))
    away = found[:, some] - expected
    np.testing.assert_allclose(away, away[0, 0], atol=1e-3)  # up to a constant that all cells share
    alone = independent_log_likelihoods([block], np.array([0.3, 2.0]))
    tiny = log_likelihoods([1e-12 * k[None]], [block], cells)[0]
    for noise, value in zip((0.3, 2.0), alone, strict=True):
        near = int(np.argmin(np.abs(np.log(cells.noises / noise)) + np.abs(np.log(cells.scales))))
        own = independent_log_likelihoods([block], cells.noises[[near]])[0]
        assert tiny[near] == pytest.approx(own, abs=1e-6)
        assert np.isfinite(value)


def test_blocks_add_up_and_a_block_without_contrasts_says_nothing():
    rng = np.random.default_rng(0)
    nodes, y, basis, _, k = _observations(1, 1, rng)
    block = BlockValues.of(Observations.of(nodes, y, basis), 1.0)
    single = BlockValues.of(Observations.of(np.array([2]), np.ones((1, 1)), np.ones((6, 1))), 1.0)
    cells = Cells.of(None, None, 1.0, FLAT, _AXES)
    once = log_likelihoods([k[None]], [block], cells)
    twice = log_likelihoods([k[None], k[None]], [block, block], cells)
    np.testing.assert_allclose(twice, 2 * once)
    np.testing.assert_allclose(
        log_likelihoods([k[None], np.ones((1, 1, 1))], [block, single], cells), once
    )


def test_a_covariance_that_is_not_positive_definite_is_impossible():
    rng = np.random.default_rng(0)
    nodes, y, basis, _, k = _observations(1, 0, rng)
    block = BlockValues.of(Observations.of(nodes, y, basis), 1.0)
    cells = Cells.of(1.0, None, 1.0, FLAT, _AXES)
    found = log_likelihoods([(k - 0.5 * np.eye(6))[None]], [block], cells)[0]
    assert np.isneginf(found[cells.noises < 0.1]).all()
    assert np.isfinite(found[cells.noises > 1.0]).all()


@pytest.mark.parametrize(
    "known", [{}, {"output_scale": 3.0}, {"noise": 0.2}, {"output_scale": 3.0, "noise": 0.2}]
)
def test_known_variances_have_one_value(known):
    prior = HyperparameterPrior()
    cells = Cells.of(known.get("output_scale"), known.get("noise"), 2.0, prior, _AXES)
    np.testing.assert_allclose(cells.ratios[cells.which], cells.noises / cells.scales)
    if "output_scale" in known:
        np.testing.assert_allclose(cells.scales, 1.5)
    if "noise" in known:
        np.testing.assert_allclose(cells.noises, 0.1)
    expected = np.zeros(cells.scales.size)
    for name, values in (("output_scale", cells.scales), ("noise", cells.noises)):
        if name not in known:
            expected += prior.log_density(name, np.log(values), 1.0)[0]
    np.testing.assert_allclose(cells.log_prior, expected)


def _square(side):
    return grf.Graph(nx.to_scipy_sparse_array(nx.grid_2d_graph(side, side)))


def _extents(nodes, side):
    """Rows and columns that nodes of a square grid span, the larger number."""
    return max(np.ptp(places) for places in np.divmod(nodes, side))


def test_blocks_are_spread_or_near():
    graph = _square(30)
    rng = np.random.default_rng(0)
    observed = np.sort(rng.choice(900, 600, replace=False))
    spread, near, wider = observed_blocks(graph, observed, rng, size=NEAR, count=3)
    extents = [_extents(block, 30) for block in (spread, near, wider)]
    assert extents[0] > 20
    assert extents[1] < 15
    assert extents[1] < extents[2]
    for block in (spread, near, wider):
        assert np.isin(block, observed).all()
        assert (np.diff(block) > 0).all()
        assert block.size == NEAR
    (whole,) = observed_blocks(graph, observed, rng, size=600, count=3)
    assert whole is observed


def test_near_nodes_have_several_centres():
    graph = _square(60)
    _, near = observed_blocks(
        graph, np.arange(3_600), np.random.default_rng(0), size=10 * NEAR, count=2
    )
    parts = grf.Graph(graph.adjacency[near][:, near]).components()
    sizes = np.bincount(parts)
    assert near.size == 10 * NEAR
    assert sizes.size >= 5  # some of the ten balls touch
    assert sizes.min() >= NEAR
    assert _extents(near, 60) > 40


def test_the_noise_does_not_depend_on_where_near_nodes_are():
    """Half of the nodes have a hundred times the noise variance of the others. With one centre for
    250 near nodes the largest of six noises was 26 times the smallest.
    """
    graph = _square(60)
    rng = np.random.default_rng(0)
    f = grf.apply_root(graph, grf.Matern(nu=2.0, lengthscale=20.0), rng.standard_normal(3_600))
    noisy = np.where(np.arange(3_600) < 1_800, 1.0, 0.1)
    y = f / f.std() + noisy * rng.standard_normal(3_600)
    noises = [
        grf.GraphGPRegressor(graph, kernel=grf.Matern(nu=2.0), seed=seed)
        .fit(np.arange(3_600), y)
        .noise_
        for seed in range(6)
    ]
    assert max(noises) < 5 * min(noises)


def test_blocks_are_filled_from_other_components_where_one_is_small():
    islands = grf.from_edges([0, 1, 3, 4, 6, 7], [1, 2, 4, 5, 7, 8])
    _, near = observed_blocks(islands, np.arange(9), np.random.default_rng(0), size=4, count=2)
    assert near.size == 4
    assert 3 in np.bincount(near // 3)  # a whole island first
