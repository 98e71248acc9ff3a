"""Couplings of many walkers: cost against dense features, solver, exact marginals."""

import itertools

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

import graphrf as grf
from graphrf.couplings.learn import erdos_renyi
from graphrf.couplings.linear import solve_linear, spectral_cost
from graphrf.couplings.multiway import multiway_cost, solve_multiway
from tests.couplings.tiles import KERNEL, spectra_of, tiles_of

GRAPH = erdos_renyi(40, 0.2, seed=1)
KERNELS = [KERNEL, grf.Diffusion(1.5)]


def least_possible(spectra, weights, n_walkers):
    """The cost of a sum of walkers that does not vary with q: Jensen's bound."""
    return spectra.shape[0] * float((n_walkers * spectra.mean(axis=0)) ** 4 @ weights)


def with_identity(permutations):
    return np.vstack([np.arange(permutations.shape[1]), permutations])


def test_the_cost_is_the_sum_over_all_node_pairs_of_squared_products_of_dense_features():
    order, graph = 4, erdos_renyi(12, 0.3, seed=2)
    coefficients = tiles_of(graph, 0.4, order)
    walk = graph.walk_matrix().toarray()
    powers = [np.linalg.matrix_power(walk, k) for k in range(coefficients.shape[1])]
    psi = np.einsum("qk,kij->qij", coefficients, powers)
    permutations = np.array([[2, 0, 3, 1], [1, 3, 0, 2]])
    dense = 0.0
    for q, i, j in itertools.product(range(order), range(12), range(12)):
        total = sum(psi[row[q]] for row in with_identity(permutations))
        dense += (total[i] @ total[j]) ** 2
    cost = multiway_cost(*spectra_of(graph, 0.4, order), permutations)
    assert cost * graph.n_nodes == pytest.approx(dense, rel=1e-12)


def test_the_cost_of_one_walker_beside_the_others_is_the_full_one():
    # Small sums of the others, and signs of all kinds,
    # in which every term of the fourth power matters.
    rng = np.random.default_rng(0)
    for scale in (0.1, 0.3, 1.0, 3.0) * 5:
        others, spectra, weights = (
            scale * rng.normal(size=(6, 3)),
            rng.normal(size=(6, 3)),
            rng.random(3),
        )
        full = ((others[:, None] + spectra) ** 4) @ weights
        np.testing.assert_allclose(
            spectral_cost(others, spectra, weights), full, rtol=1e-10, atol=1e-13
        )


@pytest.mark.parametrize("p_halt", [0.1, 0.5])
def test_for_two_walkers_the_solution_is_the_linear_one(p_halt):
    spectra, weights = spectra_of(GRAPH, p_halt, 30)
    cost = spectral_cost(spectra, spectra, weights)
    best = cost[np.arange(30), solve_linear(cost)].sum()
    permutations = solve_multiway(spectra, weights, 2, rng=np.random.default_rng(0))
    assert permutations.shape == (1, 30)
    assert multiway_cost(spectra, weights, permutations) == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("p_halt", [0.1, 0.6])
@pytest.mark.parametrize("seed", range(2))
def test_three_walkers_of_order_four_gain_what_the_best_of_all_576_pairs_gains(
    kernel, p_halt, seed
):
    spectra, weights = spectra_of(GRAPH, p_halt, 4, kernel)
    pairs = itertools.product(itertools.permutations(range(4)), repeat=2)
    costs = [multiway_cost(spectra, weights, np.array(pair)) for pair in pairs]
    found = multiway_cost(
        spectra, weights, solve_multiway(spectra, weights, 3, rng=np.random.default_rng(seed))
    )
    best, mean = min(costs), np.mean(costs)
    assert len(costs) == 576
    assert best * (1 - 1e-12) <= found <= 1.01 * best
    assert mean - found >= 0.99 * (mean - best) > 0


@pytest.mark.parametrize("n_walkers", [3, 5, 8])
def test_no_walker_can_be_matched_better(n_walkers):
    spectra, weights = spectra_of(GRAPH, 0.3, 12)
    permutations = solve_multiway(spectra, weights, n_walkers, rng=np.random.default_rng(1))
    found = multiway_cost(spectra, weights, permutations)
    tiles = with_identity(permutations)
    for walker in range(n_walkers):
        others = spectra[np.delete(tiles, walker, axis=0)].sum(axis=0)
        cost = np.einsum("qbp,p->qb", (others[:, None, :] + spectra[None, :, :]) ** 4, weights)
        assert cost[linear_sum_assignment(cost)].sum() >= found * (1 - 1e-9)


def test_restarts_only_help_and_a_state_of_the_generator_fixes_the_result():
    spectra, weights = spectra_of(GRAPH, 0.3, 9)
    by_restarts = [
        multiway_cost(
            spectra,
            weights,
            solve_multiway(spectra, weights, 4, rng=np.random.default_rng(3), restarts=n),
        )
        for n in (0, 2, 10)
    ]
    assert by_restarts[0] >= by_restarts[1] >= by_restarts[2]
    one, again = (
        solve_multiway(spectra, weights, 4, rng=np.random.default_rng(7)) for _ in range(2)
    )
    np.testing.assert_array_equal(one, again)


@pytest.mark.parametrize("n_walkers", [3, 4, 8])
def test_cyclic_shifts_of_as_many_tiles_as_walkers_reach_the_least_possible_cost(n_walkers):
    spectra, weights = spectra_of(GRAPH, 0.3, n_walkers)
    shifts = (np.arange(n_walkers) + np.arange(1, n_walkers)[:, None]) % n_walkers
    bound = least_possible(spectra, weights, n_walkers)
    assert multiway_cost(spectra, weights, shifts) == pytest.approx(bound, rel=1e-12)
    found = multiway_cost(
        spectra, weights, solve_multiway(spectra, weights, n_walkers, rng=np.random.default_rng(0))
    )
    assert bound * (1 - 1e-12) <= found < 1.02 * bound
