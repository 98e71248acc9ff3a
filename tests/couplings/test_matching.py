import dataclasses
import itertools
import math

import numpy as np
import pytest
import scipy.sparse as sp

import graphrf as grf
from graphrf.couplings.learn import erdos_renyi
from graphrf.couplings.linear import (
    independent_cost,
    linear_cost,
    pair_cost,
    solve_linear,
    spectral_cost,
)
from graphrf.couplings.pagerank_cost import pagerank_cost
from graphrf.couplings.quantiles import tile_modulations, tile_products, tile_survival
from graphrf.operators.series.density_of_states import density_of_states
from graphrf.sampling.walks.lengths import Survival
from tests.couplings.tiles import KERNEL, spectra_of, tiles_of
from tests.support.sequential import assert_unbiased


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


def test_tile_modulations_average_to_the_modulation():
    survival = Survival.geometric(0.2)
    coefficients = tile_modulations(KERNEL.modulation(survival.table.size), survival, 12)
    np.testing.assert_allclose(
        coefficients.mean(axis=0), KERNEL.modulation(coefficients.shape[1]), atol=1e-12
    )


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

    spectra, weights = spectra_of(graph, 0.3, order)
    np.testing.assert_allclose(
        spectral_cost(spectra, spectra, weights) * graph.n_nodes, dense, rtol=1e-6
    )

    ends = np.divmod(np.arange(graph.n_nodes**2), graph.n_nodes)
    by_pairs = pair_cost(tile_products(tiles_of(graph, 0.3, order), graph.walk_matrix(), *ends))
    np.testing.assert_allclose(by_pairs * graph.n_nodes**2, dense, rtol=1e-6)


def test_the_linear_solver_finds_what_trying_all_permutations_finds(graph):
    order = 6
    spectra, weights = spectra_of(graph, 0.4, order)
    cost = spectral_cost(spectra, spectra, weights)
    best = min(
        sum(cost[q, s] for q, s in enumerate(sigma))
        for sigma in itertools.permutations(range(order))
    )
    found = solve_linear(cost)
    assert cost[np.arange(order), found].sum() == pytest.approx(best, rel=1e-12)
    assert best < cost.sum() / order


@pytest.mark.parametrize("laplacian", ["normalized", "combinatorial"])
def test_the_density_of_states_integrates_functions_on_large_graphs(laplacian):
    # Three components: 1,200 nodes, 60 nodes, one isolated node.
    parts = [
        erdos_renyi(1200, 0.01, seed=2).adjacency,
        erdos_renyi(60, 0.2, seed=3).adjacency,
        np.zeros((1, 1)),
    ]
    graph = grf.Graph(sp.block_diag(parts))
    points, weights = density_of_states(graph, laplacian, np.random.default_rng(0))
    assert weights.sum() == pytest.approx(1.0)
    eigenvalues = np.linalg.eigvalsh(graph.walk_matrix(laplacian).toarray())
    for power in (2, 4, 6):
        assert weights @ points**power == pytest.approx(np.mean(eigenvalues**power), rel=0.03)


def test_all_probes_share_one_pass_over_the_matrix(monkeypatch):
    products = []

    class Counted(sp.csr_array):
        def __matmul__(self, other):
            products.append(other.shape)
            return super().__matmul__(other)

    graph = erdos_renyi(1100, 0.01, seed=2)
    own = Counted(graph.walk_matrix("normalized"))
    monkeypatch.setattr(type(graph), "walk_matrix", lambda *_: own)
    points, weights = density_of_states(graph, "normalized", np.random.default_rng(0))
    assert products == [(1100, 8)] * 60
    # The first of the rules gives z^T W^k z of the first probe.
    top = np.sqrt(graph.walk_degrees) / np.linalg.norm(np.sqrt(graph.walk_degrees))
    start = np.random.default_rng(0).integers(0, 2, 1100) * 2.0 - 1.0
    start -= top * (top @ start)
    start /= np.linalg.norm(start)
    share = weights[1:61] / weights[1:61].sum()
    for power in (1, 2, 5, 9):
        image = start
        for _ in range(power):
            image = own @ image
        assert share @ points[1:61] ** power == pytest.approx(start @ image, abs=1e-12)


def test_probes_of_which_nothing_is_left_take_no_share_of_the_density():
    # One edge: equal signs at its ends leave nothing beside the eigenvalue 1.
    graph = grf.from_edges([0], [1], n_nodes=1500)
    points, weights = density_of_states(graph, "normalized", np.random.default_rng(0))
    assert points.size < 9  # some probes were such
    assert 1500 * weights @ points == pytest.approx(1498, rel=1e-12)
    assert weights.sum() == pytest.approx(1.0, rel=1e-12)


def test_products_of_many_pairs_are_made_in_blocks(graph):
    coefficients = tiles_of(graph, 0.4, 4)
    ends = np.random.default_rng(0).integers(0, graph.n_nodes, (2, 7))
    whole = tile_products(coefficients, graph.walk_matrix(), *ends)
    in_blocks = tile_products(coefficients, graph.walk_matrix(), *ends, 3 * graph.n_nodes)
    np.testing.assert_allclose(in_blocks, whole, rtol=1e-13)


def test_sampled_pairs_average_to_the_mean_over_all(graph):
    ends = np.divmod(np.arange(graph.n_nodes**2), graph.n_nodes)
    products = tile_products(tiles_of(graph, 0.4, 8), graph.walk_matrix(), *ends)
    each = np.array([pair_cost(product[None]).sum() / 8 for product in products])
    sampled = grf.couplings.learn_coupling(graph, KERNEL, p_halt=0.4, order=8, pairs=2000, seed=1)
    assert abs(sampled.cost_before - each.mean()) < 5 * each.std() / np.sqrt(2000)


def test_independent_cost_is_the_mean_over_all_choices_of_tiles():
    rng = np.random.default_rng(0)
    spectra, weights = rng.standard_normal((4, 6)), rng.random(6)
    for walkers in (1, 2, 3):
        choices = np.array(list(itertools.product(range(4), repeat=walkers)))
        sums = spectra[choices].sum(axis=1)
        assert independent_cost(spectra, weights, walkers) == pytest.approx(
            4 * (sums**4 @ weights).mean(), rel=1e-12
        )
    pairs = spectral_cost(spectra, spectra, weights)
    assert independent_cost(spectra, weights, 2) == pytest.approx(pairs.sum() / 4)


def _walk_features(graph, node, modulation, table, low, high, weigh):
    """draw(round, n): features of n walks from `node` with uniforms in [low, high)."""
    adjacency = graph.adjacency
    degrees = np.diff(adjacency.indptr)

    def draw(stage, n):
        rng = np.random.default_rng([9, stage])
        uniform = low + (high - low) * rng.random(n)
        # The length is the number of k >= 1 with S(k) > 1 - u, short walks first.
        lengths = (table[None, 1:] > 1 - uniform[:, None]).sum(axis=1)
        features, at = np.zeros((n, graph.n_nodes)), np.full(n, node)
        for k in range(int(lengths.max()) + 1):
            alive = np.flatnonzero(lengths >= k)
            load = np.sqrt(degrees[node] / degrees[at[alive]]) / (table[k] if weigh else 1.0)
            features[alive, at[alive]] += modulation[k] * load
            at = adjacency.indices[adjacency.indptr[at] + (rng.random(n) * degrees[at]).astype(int)]
        return features

    return draw


@pytest.mark.parametrize("tile", [0, 2, 3])
def test_tile_averages_agree_with_simulated_walks(karate, tile):
    """The paper's Monte-Carlo version, for psi^(q) of one node; dropping 1 / S(k) is found."""
    order, node, survival = 4, 2, Survival.geometric(0.3)
    table = survival.table
    modulation = KERNEL.modulation(table.size)
    walk = karate.walk_matrix()
    coefficients = tile_modulations(modulation, survival, order)
    exact, power = np.zeros(karate.n_nodes), np.eye(karate.n_nodes)[node]
    for weight in coefficients[tile]:
        exact += weight * power
        power = walk @ power
    leading = np.linalg.eigh(walk.toarray())[1][:, -3:]
    directions = np.column_stack([np.sqrt(karate.degrees), 1 / np.sqrt(karate.degrees), leading])
    for weigh in (True, False):
        features = _walk_features(
            karate, node, modulation, table, tile / order, (tile + 1) / order, weigh
        )

        def draw(stage, n, features=features):
            return features(stage, n) @ directions

        if weigh or tile == 0:  # the first tile holds only walks of length 0
            assert_unbiased(draw, exact @ directions, n0=20_000)
        else:
            with pytest.raises(AssertionError, match="biased"):
                assert_unbiased(draw, exact @ directions, n0=20_000)


@pytest.mark.parametrize(
    ("arguments", "equation"),
    [
        ({}, 56),
        ({"solver": "quadratic"}, 55),
        ({"solver": "projection"}, 55),
        ({"solver": "exhaustive"}, 55),
        ({"pairs": 30, "solver": "quadratic"}, 55),
        ({"n_walkers": 3}, 56),
    ],
)
def test_recorded_costs_are_those_of_the_equation_that_the_solver_minimises(
    graph, arguments, equation
):
    order = 6
    coupling = grf.couplings.learn_coupling(
        graph, KERNEL, p_halt=0.4, order=order, seed=3, **arguments
    )
    coefficients = tiles_of(graph, 0.4, order)
    walk = graph.walk_matrix().toarray()
    psi = sum(
        c[:, None, None] * np.linalg.matrix_power(walk, k) for k, c in enumerate(coefficients.T)
    )
    rows = np.arange(graph.n_nodes)
    sources, targets = (rows.repeat(rows.size), np.tile(rows, rows.size))
    scale = rows.size  # the mean over all pairs is recorded but for a factor N
    if "pairs" in arguments:
        sources, targets = np.random.default_rng(3).integers(0, graph.n_nodes, (2, 30))
        scale = 1

    def mean_square(left, right):
        return np.mean(np.einsum("pi,pi->p", left[sources], right[targets]) ** 2) * scale

    tiles = np.vstack([np.arange(order), coupling.permutations])
    sums = psi[tiles].sum(axis=0)
    choices = np.array(list(itertools.product(range(order), repeat=coupling.n_walkers)))
    free = psi[choices].sum(axis=1)
    if equation == 56:
        after = sum(mean_square(s, s) for s in sums)
        before = order * np.mean([mean_square(s, s) for s in free])
    else:
        after = sum(mean_square(a, b) for a, b in itertools.product(sums, repeat=2))
        before = order**2 * np.mean(
            [mean_square(a, b) for a, b in itertools.product(free, repeat=2)]
        )
    assert coupling.cost_after == pytest.approx(after, rel=1e-10)
    assert coupling.cost_before == pytest.approx(before, rel=1e-10)
    assert coupling.cost_after < coupling.cost_before


def test_pagerank_couplings_minimise_eq_82_on_directed_graphs_too():
    rng = np.random.default_rng(2)
    graph = grf.Graph(rng.random((9, 9)) < 0.3, directed=True)
    coupling = grf.couplings.learn_coupling(graph, p_halt=0.2, order=5, objective="pagerank")
    cost = pagerank_cost(graph, Survival.geometric(0.2), 5, rng=rng)
    best = min(linear_cost(cost, np.array(sigma)) for sigma in itertools.permutations(range(5)))
    assert coupling.cost_after == pytest.approx(best, rel=1e-12)
    assert coupling.cost_before == pytest.approx(cost.sum() / 5, rel=1e-12)
    assert (coupling.objective, coupling.kernel) == ("pagerank", "")


@pytest.mark.parametrize(
    "arguments",
    [
        {"solver": "linear", "pairs": 20, "seed": 7},
        {"solver": "quadratic", "projections": 50},
        {"solver": "projection"},
        {"solver": "exhaustive", "p_halt": Survival([1.0, 0.5, 0.25])},
        {"n_walkers": 4},
        {"objective": "pagerank"},
    ],
)
def test_records_of_every_solver_go_to_json_and_back(graph, arguments):
    coupling = grf.couplings.learn_coupling(graph, order=5, **arguments)
    again = grf.sampling.Coupling.from_json(coupling.to_json())
    for field in dataclasses.fields(coupling):
        if field.name != "permutations":
            assert getattr(again, field.name) == getattr(coupling, field.name), field.name
    np.testing.assert_array_equal(again.permutations, coupling.permutations)
    for key, value in arguments.items():
        if key != "p_halt":
            assert getattr(again, key) == value
    assert again.seed == arguments.get("seed", 0)
    assert (again.law != "") == ("p_halt" in arguments)
    assert not math.isnan(again.cost_before)
    assert np.array_equal(
        grf.couplings.learn_coupling(graph, order=5, **arguments).permutations,
        coupling.permutations,
    )


def test_walks_come_in_groups_as_large_as_the_coupling():
    coupling = grf.couplings.learn_coupling(order=5, n_walkers=3)
    assert (
        grf.RandomWalks(n_walks=6, lengths=grf.sampling.SigmaCoupled(coupling)).lengths.group == 3
    )
    with pytest.raises(ValueError, match="multiple of 3"):
        grf.RandomWalks(n_walks=4, lengths=grf.sampling.SigmaCoupled(coupling))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"order": 10, "solver": "exhaustive"},
            "`order` must be at most 9 for the solver 'exhaustive', got 10",
        ),
        ({"order": 101, "solver": "quadratic"}, "`order` must be at most 100"),
        ({"solver": "magic"}, "'linear'"),
        (
            {"n_walkers": 3, "solver": "quadratic"},
            "`solver` must be 'linear' for more than two walkers",
        ),
        (
            {"n_walkers": 3, "objective": "pagerank"},
            "`objective` must be 'gram' for more than two walkers",
        ),
        ({"n_walkers": 3, "pairs": 9}, "`pairs` must be None, got 9"),
        (
            {"objective": "pagerank", "solver": "quadratic"},
            "`solver` must be 'linear' for the objective 'pagerank'",
        ),
        (
            {"objective": "pagerank", "kernel": KERNEL},
            "`kernel` must be None for the objective 'pagerank'",
        ),
        ({"solver": "projection", "pairs": 9}, "`pairs` must be None, got 9"),
        ({"projections": 9}, "`projections` must be None unless the solver is 'quadratic', got 9"),
        ({"kernel": "diffusion"}, "`kernel` must be a graphrf kernel"),
        ({"graph": np.eye(3)}, "`graph` must be a graphrf.Graph"),
        ({"graph": np.eye(3), "objective": "pagerank"}, "`graph` must be a graphrf.Graph"),
        ({"n_walkers": 1}, "`n_walkers` must be"),
        ({"order": 2.5}, "`order` must be an integer"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        grf.couplings.learn_coupling(**arguments)
