"""Survival tables for a kernel: the variance's formula, its minimum, and the doors."""

import itertools

import numpy as np
import pytest
from scipy.linalg import toeplitz
from scipy.optimize import minimize

import graphrf as grf
from graphrf.sampling.walks import auto_lengths
from graphrf.sampling.walks.auto_lengths import optimal_survival

KERNEL = grf.RegularizedLaplacian(1.0, 2)
SIGNED = grf.kernels.PowerSeries(modulation=[0.3, 0.0, -1.0])


def _transitions(graph, laplacian="normalized"):
    """Dense P of the walk and the loads sqrt(d_i / d_v), shape (N, N) each."""
    if laplacian == "combinatorial":
        step = graph.walk_matrix(laplacian).toarray()
        return step, np.ones_like(step)
    degrees = np.where(graph.degrees > 0, graph.degrees, 1.0)
    root = np.sqrt(degrees)
    return graph.walk_matrix(laplacian).toarray() / root[:, None] * root, root[:, None] / root


def _second_moment(graph, f, survival):
    """mean_i E|psi_i|^2 of one walk, by enumerating all walks."""
    step, load = _transitions(graph)
    n = graph.n_nodes
    neighbours = [np.flatnonzero(row) for row in step]
    total = 0.0
    ends = survival - np.append(survival[1:], 0.0)
    walks = [((i,), 1.0) for i in range(n)]
    for length in range(f.size):
        for walk, probability in walks:
            psi = np.zeros(n)
            for k, v in enumerate(walk):
                psi[v] += f[k] / survival[k] * load[walk[0], v]
            total += probability * ends[length] * (psi @ psi)
        walks = [((*w, v), p * step[w[-1], v]) for w, p in walks for v in neighbours[w[-1]]]
    return total / n


def _returns(graph, n, laplacian="normalized"):
    """tr(W^k) / N."""
    eigenvalues = np.linalg.eigvalsh(graph.walk_matrix(laplacian).toarray())
    return (eigenvalues ** np.arange(n)[:, None]).mean(axis=1)


def _nu(graph, f, laplacian="normalized"):
    return auto_lengths._per_step(f, toeplitz(_returns(graph, f.size, laplacian)))


@pytest.mark.parametrize(
    "f", [KERNEL.modulation(4), np.array([0.3, 0.0, -1.0]), np.array([0.5, -0.4, 0.3, 0.2])]
)
def test_the_second_moment_of_a_walk_is_the_sum_of_nu_over_s(weighted_graph, f):
    survival = np.array([1.0, 0.8, 0.8, 0.3])[: f.size]
    exact = _second_moment(weighted_graph, f, survival)
    assert np.sum(_nu(weighted_graph, f) / survival) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("laplacian", ["normalized", "combinatorial"])
def test_the_pilot_estimates_covariances_and_probabilities_of_return(weighted_graph, laplacian):
    walks = grf.RandomWalks(
        20_000, grf.sampling.Truncated(4), directions="independent", laplacian=laplacian
    )
    moments = auto_lengths._pilot(weighted_graph, walks)
    returns = _returns(weighted_graph, 9, laplacian)
    np.testing.assert_allclose(moments.returns, returns[:5], atol=5 * 0.5 / np.sqrt(2 * 8 * 20_000))
    # Cov(X_k, X_l) of m independent walks is (r(|k - l|) - r(k + l)) / m; 8 sources and 2 samples
    # estimate it to about its own size over sqrt(8).
    steps = np.arange(5)
    exact = returns[np.abs(steps[:, None] - steps)] - returns[steps[:, None] + steps]
    averaged = np.zeros((5, 5))
    few = grf.RandomWalks(
        20, grf.sampling.Truncated(4), directions="independent", laplacian=laplacian
    )
    for seed in range(300):
        moments = auto_lengths._pilot(weighted_graph, few, (2 * seed, 2 * seed + 1))
        averaged += 20 * moments.covariance / 300
    np.testing.assert_allclose(
        averaged, exact, atol=5 * np.sqrt(2) * exact.max() / np.sqrt(8 * 300)
    )


def _numerical(gain, variance):
    """The minimum by a general optimiser: S as a product of factors in (0, 1]."""

    def objective(logits):
        table = np.concatenate([[1.0], np.cumprod(1.0 / (1.0 + np.exp(-logits)))])
        return (variance + np.sum(gain[1:] * (1 / table[1:] - 1))) * table.sum()

    starts = itertools.product([-1.0, 6.0], repeat=min(gain.size - 1, 3))
    return min(
        minimize(
            objective,
            np.resize(start, gain.size - 1),
            method="Nelder-Mead",
            options={"maxiter": 20_000, "maxfev": 20_000, "xatol": 1e-10, "fatol": 1e-14},
        ).fun
        for start in starts
    )


@pytest.mark.parametrize(
    ("gain", "variance"),
    [
        ([0.2, 0.3, 0.1, 0.02], 0.62),  # plain: S(1) capped or not as it comes
        # A variance far below the gains, as stratified directions have.
        ([0.2, 0.3, 0.1, 0.02], 0.05),
        ([1.0, 0.01, 0.04, 0.003], 1.053),  # to be pooled
        # f = (.3, 0, -1): a negative gain at the start, and one to be pooled.
        ([-0.31, 0.0, 1.0], 0.4),
        ([0.5, -0.1, 0.4, 0.1], 0.9),  # a negative gain inside
        ([0.5, 0.4, 0.3, 0.2], 1e-9),  # ending any walk costs: S = 1
    ],
)
def test_the_table_is_the_optimum(gain, variance):
    gain = np.array(gain)
    table = optimal_survival(gain, variance)
    assert table[0] == 1
    assert (np.diff(table) <= 0).all()
    assert table[-1] > 0
    value = (variance + np.sum(gain[1:] * (1 / table[1:] - 1))) * table.sum()
    best = _numerical(gain, variance)
    assert value == pytest.approx(best, rel=2e-6)
    # It is the fixed point S = min(1, sqrt(n C / V)), with n averaged over the blocks of equal S.
    total = variance + np.sum(gain[1:] * (1 / table[1:] - 1))
    for level in np.unique(table[1:]):
        inside = np.flatnonzero(table[1:] == level) + 1
        ratio = np.sqrt(max(gain[inside].mean(), 0) * table.sum() / total)
        assert level == pytest.approx(ratio, rel=1e-9) if level < 1 else ratio >= 1 - 1e-9


@pytest.mark.parametrize("kernel", [KERNEL, grf.Diffusion(3.0)], ids=repr)
@pytest.mark.parametrize("coupling", ["stratified", "independent"])
def test_the_pilots_lead_to_the_table_of_exact_moments(grid, kernel, coupling):
    table = (
        grf.sampling.AutoLengths(kernel)
        .survival(grid, n_walks=64, directions="independent", coupling=coupling)
        .table
    )
    f, steps, returns = (
        kernel.modulation(table.size),
        np.arange(table.size),
        _returns(grid, 2 * table.size - 1),
    )
    nu = _nu(grid, f)
    each = nu - auto_lengths._per_step(f, returns[steps[:, None] + steps])
    exact = optimal_survival((each if coupling == "stratified" else nu) / 64, each.sum() / 64)
    floor = np.cumsum(np.abs(f[::-1]))[::-1] / np.abs(f).sum()
    np.testing.assert_allclose(table, np.maximum(exact, floor), rtol=0, atol=0.06)


def test_tables_of_nothing_to_gain():
    np.testing.assert_array_equal(optimal_survival(np.array([0.7]), 0.7), [1.0])
    np.testing.assert_array_equal(optimal_survival(np.array([0.7, 0.0, 0.0]), 0.7), [1.0, 0.0, 0.0])
    np.testing.assert_array_equal(optimal_survival(np.array([0.0, 0.1, 0.0]), 0.0), [1.0, 1.0, 1.0])


@pytest.mark.parametrize("coupling", ["stratified", "independent"])
@pytest.mark.parametrize(
    "kernel", [KERNEL, grf.Diffusion(3.0), SIGNED, grf.kernels.PStepRandomWalk(2.0, 2)], ids=repr
)
def test_tables_do_not_increase_and_bound_the_loads(karate, kernel, coupling):
    table = grf.sampling.AutoLengths(kernel).survival(karate, n_walks=16, coupling=coupling).table
    f = kernel.modulation(table.size)
    assert table[0] == 1
    assert (np.diff(table) <= 0).all()
    assert (table > 0).all()
    assert (np.abs(f) / table <= np.abs(f).sum() * (1 + 1e-12)).all()
    assert table.size - 1 == kernel.truncation_length(1e-4)


def test_a_graph_without_randomness_keeps_its_walks_whole():
    # Edges apart from each other, and isolated nodes.
    graph = grf.from_edges([0, 2], [1, 3], n_nodes=6)
    table = grf.sampling.AutoLengths(KERNEL).survival(graph).table
    np.testing.assert_array_equal(table, np.ones(table.size))


def test_the_law_is_a_function_of_graph_kernel_and_sampler(karate):
    sampler = grf.RandomWalks(8, grf.sampling.AutoLengths(KERNEL))
    resolved = sampler.resolved(karate)
    assert resolved == sampler.resolved(karate)
    assert resolved.lengths == grf.sampling.Stratified(
        grf.sampling.AutoLengths(KERNEL).survival(karate, n_walks=8)
    )
    assert resolved.resolved(karate) is resolved
    assert (
        resolved.lengths
        != grf.RandomWalks(64, grf.sampling.AutoLengths(KERNEL)).resolved(karate).lengths
    )
    one, other = (grf.sample_features(karate, sampler, seed=seed) for seed in (1, 2))
    np.testing.assert_array_equal(one.info.survival, resolved.survival.table)
    np.testing.assert_array_equal(one.info.survival, other.info.survival)
    assert one.description["lengths"] == repr(resolved.lengths)
    part = grf.sample_features(karate, sampler, nodes=[5, 3], seed=1)
    assert (part.matrix(KERNEL) != one.take([5, 3]).matrix(KERNEL)).nnz == 0
    assert one.truncation_error(KERNEL) == pytest.approx(
        grf.sample_features(
            karate, grf.RandomWalks(4, grf.sampling.Truncated(one.max_length)), seed=0
        ).truncation_error(KERNEL)
    )


def test_errors_at_the_door(karate):
    with pytest.raises(TypeError, match="`kernel` must be a graphrf kernel"):
        grf.sampling.AutoLengths("diffusion")
    combinatorial = grf.Diffusion(1.0, laplacian="combinatorial")
    with pytest.raises(ValueError, match="pass laplacian='combinatorial'"):
        grf.RandomWalks(8, grf.sampling.AutoLengths(combinatorial))
    with pytest.raises(TypeError, match="`lengths` must be a distribution"):
        grf.RandomWalks(8, KERNEL)
    sampler = grf.RandomWalks(8, grf.sampling.AutoLengths(KERNEL))
    with pytest.raises(ValueError, match=r"sampler\.resolved\(graph\)\.survival"):
        _ = sampler.survival
    directed = grf.Graph(np.triu(np.ones((4, 4)), 1), directed=True)
    with pytest.raises(ValueError, match="undirected"):
        grf.sample_features(directed, sampler)
    with pytest.raises(ValueError, match="`coupling` must be one of"):
        grf.sampling.AutoLengths(KERNEL).survival(karate, coupling="sigma")
    with pytest.raises(ValueError, match="`directions` must be one of"):
        grf.sampling.AutoLengths(KERNEL).survival(karate, directions="both")
    with pytest.raises(ValueError, match="`max_length` must be larger"):
        grf.sampling.AutoLengths(grf.Diffusion(60.0)).survival(karate)


def test_slow_kernels_are_cut_at_max_length(karate):
    table = grf.sampling.AutoLengths(grf.kernels.InverseCosine(), max_length=40).survival(
        karate, n_walks=4
    )
    assert table.max_length == 40
