import itertools

import numpy as np
import pytest
import scipy.sparse as sp

import graphrf as grf
from graphrf.lengths import Survival
from graphrf.matching.learn import erdos_renyi
from graphrf.matching.linear import pair_cost, solve_linear, spectral_cost
from graphrf.matching.quantiles import tile_modulations, tile_products, tile_spectra, tile_survival
from graphrf.matching.spectrum import density_of_states

KERNEL = grf.RegularizedLaplacian(1.0, 2)


@pytest.fixture(scope="module")
def graph():
    return erdos_renyi(20, 0.2, seed=1)


def _direction_averages(graph, survival, length):
    """psi~(l) for every l < length, rows all nodes: exact powers, Eq. 52 of the paper."""
    f = KERNEL.modulation(length)
    walk = graph.walk_matrix().toarray()
    terms = [f[k] / survival.table[k] * np.linalg.matrix_power(walk, k) for k in range(length)]
    return np.cumsum(terms, axis=0)


@pytest.mark.parametrize("p_halt", [0.1, 0.3, 0.6])
@pytest.mark.parametrize("order", [2, 7, 30])
def test_tiles_average_to_the_law_and_each_lies_in_its_quantile(p_halt, order):
    survival = Survival.geometric(p_halt)
    tiles = tile_survival(survival, order)
    np.testing.assert_allclose(tiles.mean(axis=0), survival.table, atol=1e-12)
    assert (tiles[:, 0] == 1).all()
    assert (np.diff(tiles, axis=1) <= 0).all()
    assert (np.diff(tiles, axis=0) >= 0).all()


def test_tile_survival_agrees_with_an_integral_over_the_uniforms():
    survival, order, fine = Survival.geometric(0.3), 4, 100_000
    u = (np.arange(order * fine) + 0.5) / (order * fine)
    length = np.floor(np.log1p(-u) / np.log1p(-0.3)).reshape(order, fine)
    for k in range(8):
        np.testing.assert_allclose(tile_survival(survival, order)[:, k], (length >= k).mean(axis=1), atol=2e-5)


def test_tile_modulations_average_to_the_modulation():
    survival = Survival.geometric(0.2)
    coefficients = tile_modulations(KERNEL.modulation(survival.table.size), survival, 12)
    np.testing.assert_allclose(coefficients.mean(axis=0), KERNEL.modulation(coefficients.shape[1]), atol=1e-12)


def test_costs_by_spectrum_and_by_pairs_agree_with_eq_56_from_dense_features(graph):
    survival, order = Survival.geometric(0.3), 5
    averages = _direction_averages(graph, survival, 60)
    tiles = tile_survival(survival, order)[:, :61]
    probability = tiles[:, :60] - np.append(tiles[:, 1:60], np.zeros((order, 1)), axis=1)
    psi = np.einsum("ql,lij->qij", probability, averages)
    dense = np.empty((order, order))
    for a, b in itertools.product(range(order), repeat=2):
        sums = psi[a] + psi[b]
        dense[a, b] = ((sums @ sums.T) ** 2).sum()

    coefficients = tile_modulations(KERNEL.modulation(survival.table.size), survival, order)
    walk = graph.walk_matrix()
    points, weights = density_of_states(graph, "normalized", np.random.default_rng(0))
    spectral = spectral_cost(tile_spectra(coefficients, points), weights)
    np.testing.assert_allclose(spectral * graph.n_nodes, dense, rtol=1e-6)

    sources, targets = np.divmod(np.arange(graph.n_nodes**2), graph.n_nodes)
    by_pairs = pair_cost(tile_products(coefficients, walk, sources, targets))
    np.testing.assert_allclose(by_pairs * graph.n_nodes**2, dense, rtol=1e-6)


def test_the_linear_solver_finds_what_trying_all_permutations_finds(graph):
    survival, order = Survival.geometric(0.4), 6
    coefficients = tile_modulations(KERNEL.modulation(survival.table.size), survival, order)
    points, weights = density_of_states(graph, "normalized", np.random.default_rng(0))
    cost = spectral_cost(tile_spectra(coefficients, points), weights)
    best = min(sum(cost[q, s] for q, s in enumerate(sigma)) for sigma in itertools.permutations(range(order)))
    found = solve_linear(cost)
    assert cost[np.arange(order), found].sum() == pytest.approx(best, rel=1e-12)
    assert best < cost.sum() / order


@pytest.mark.parametrize("laplacian", ["normalized", "combinatorial"])
def test_the_density_of_states_integrates_functions_on_large_graphs(laplacian):
    # Three components: 1,200 nodes, 60 nodes, one isolated node.
    parts = [erdos_renyi(1200, 0.01, seed=2).adjacency, erdos_renyi(60, 0.2, seed=3).adjacency, np.zeros((1, 1))]
    graph = grf.Graph(sp.block_diag(parts))
    points, weights = density_of_states(graph, laplacian, np.random.default_rng(0))
    assert weights.sum() == pytest.approx(1.0)
    eigenvalues = np.linalg.eigvalsh(graph.walk_matrix(laplacian).toarray())
    for power in (2, 4, 6):
        assert weights @ points**power == pytest.approx(np.mean(eigenvalues**power), rel=0.03)


def test_sampled_pairs_average_to_the_mean_over_all(graph):
    survival = Survival.geometric(0.4)
    coefficients = tile_modulations(KERNEL.modulation(survival.table.size), survival, 8)
    sources, targets = np.divmod(np.arange(graph.n_nodes**2), graph.n_nodes)
    products = tile_products(coefficients, graph.walk_matrix(), sources, targets)
    each = np.array([pair_cost(product[None]).sum() / 8 for product in products])
    sampled = grf.learn_coupling(graph, KERNEL, p_halt=0.4, order=8, pairs=2000, seed=1)
    assert abs(sampled.cost_before - each.mean()) < 5 * each.std() / np.sqrt(2000)


def test_learned_couplings_record_how_they_were_found(graph):
    coupling = grf.learn_coupling(graph, grf.Diffusion(1.0), p_halt=0.5, order=10)
    assert coupling.order == 10
    assert coupling.n_walkers == 2
    assert coupling.cost_after < coupling.cost_before
    assert coupling.p_halt == 0.5
    assert "Diffusion" in coupling.kernel
    assert "20 nodes" in coupling.graph
    assert grf.SigmaCoupled(coupling).p_halt == 0.5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"order": 1}, "order"),
        ({"solver": "magic"}, "'linear'"),
        ({"objective": "speed"}, "'gram'"),
        ({"n_walkers": 3}, "n_walkers"),
        ({"p_halt": 1.0}, "p_halt"),
        ({"pairs": 0}, "pairs"),
        ({"kernel": "diffusion"}, "`kernel` must be a graphrf kernel"),
        ({"graph": np.eye(3)}, "`graph` must be a graphrf.Graph"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        grf.learn_coupling(**arguments)
