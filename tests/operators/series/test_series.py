"""Matrix-free products against dense algebra."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from graphrf.graph.graph import Graph
from graphrf.kernels.chebyshev import polynomial_coefficients
from graphrf.kernels.explicit import LearnedModulation, PowerSeries
from graphrf.kernels.kernel import Kernel
from graphrf.kernels.named import (
    Diffusion,
    InverseCosine,
    Matern,
    PStepRandomWalk,
    RegularizedLaplacian,
)
from graphrf.operators.factor import Factor
from graphrf.operators.series import apply as series
from graphrf.operators.series import chebyshev_sums
from graphrf.operators.series.apply import (
    apply_kernel,
    apply_root,
    kernel_block,
    kernel_blocks,
    kernel_diagonal,
    mean_variance,
)
from graphrf.operators.series.costs import SeriesCosts
from graphrf.operators.series.series_factor import SeriesFactor
from graphrf.operators.series.spectral_filter import SpectralFilter
from graphrf.operators.series.walk_operator import doubled_matrix
from tests.support.interleaving import interleaved_results

GRAPH = Graph(np.pad(nx.to_numpy_array(nx.karate_club_graph()), (0, 1)))
C = GRAPH.laplacian_scale("combinatorial")
ROWS = np.array([3, 3, 1, 34])

KERNELS = [
    Diffusion(3.0),
    Diffusion(0.6, laplacian="combinatorial"),
    RegularizedLaplacian(3.0, 1.5),
    RegularizedLaplacian(1.0, 2.0, laplacian="combinatorial"),
    Matern(1.5, 5.0),
    PStepRandomWalk(2.2, 3),
    PStepRandomWalk(2 * C, 4, laplacian="combinatorial"),
    PowerSeries(taylor=[1.0, 0.3, 0.1]),
    PowerSeries(modulation=[1.0, 0.3, -0.4], laplacian="combinatorial"),
    LearnedModulation(4, [1.0, -0.5, 0.2, 0.1, -0.3]),
]


@pytest.fixture(params=KERNELS, ids=repr)
def kernel(request: pytest.FixtureRequest) -> Kernel:
    return request.param


def test_products_equal_dense_ones(kernel: Kernel) -> None:
    v = np.random.default_rng(0).standard_normal((35, 40))
    v /= np.linalg.norm(v, axis=0)
    dense, root = kernel.dense(GRAPH), kernel.dense_root(GRAPH)
    scale = kernel.check_graph(GRAPH)
    interval = scale * np.linspace(0, 2 if kernel.laplacian == "normalized" else 1, 501)
    largest = np.abs(kernel.root_spectrum(interval, scale)).max()
    for tol in (1e-3, 1e-10):
        error = np.linalg.norm(apply_kernel(GRAPH, kernel, v, tol=tol) - dense @ v, axis=0).max()
        assert error <= tol * largest**2
        error = np.linalg.norm(apply_root(GRAPH, kernel, v, tol=tol) - root @ v, axis=0).max()
        assert error <= tol * largest
    one = apply_kernel(GRAPH, kernel, v[:, 0])
    assert one.shape == (35,)
    assert np.abs(one - dense @ v[:, 0]).max() < 1e-9 * np.abs(dense).max()


@pytest.mark.parametrize("weight", [1e3, 1e6, 1e12])
def test_heavy_self_loops_change_nothing_of_combinatorial_kernels(weight: float) -> None:
    adjacency = np.array([[0.0, 1, 0], [1, 0, 1], [0, 1, 0]])
    plain, looped = Graph(adjacency), Graph(adjacency + np.diag([weight, 0.0, 0.0]))
    laplacian = np.diag([1.0, 2, 1]) - adjacency
    assert np.array_equal(looped.laplacian(normalized=False).toarray(), laplacian)
    for steps in (4, 6):
        steep = PStepRandomWalk(4.0, steps, laplacian="combinatorial")
        expected = np.linalg.matrix_power(4 * np.eye(3) - laplacian, steps)
        for got in (
            apply_kernel(looped, steep, np.eye(3)),
            kernel_block(looped, steep),
            apply_root(looped, steep, apply_root(looped, steep, np.eye(3))),
            steep.dense(looped),
        ):
            np.testing.assert_allclose(got, expected, atol=1e-9 * expected.max())
    for smooth in (
        Diffusion(1.0, laplacian="combinatorial"),
        Matern(1.5, 2.0, laplacian="combinatorial"),
    ):
        expected = smooth.dense(plain)
        np.testing.assert_allclose(apply_kernel(looped, smooth, np.eye(3)), expected, atol=1e-8)
        np.testing.assert_allclose(smooth.dense(looped), expected, rtol=1e-12)
        np.testing.assert_allclose(
            mean_variance(looped, smooth).value, np.trace(expected) / 3, rtol=1e-12
        )


def test_nothing_but_self_loops_is_a_graph_without_edges() -> None:
    loops = Graph(np.diag([1e-12, 0.0, 3.0]))
    for kernel in (
        Diffusion(1e6, laplacian="combinatorial"),
        Matern(1.5, 1e5, laplacian="combinatorial"),
    ):
        expected = kernel.spectrum(0.0, loops.laplacian_scale("combinatorial")) * np.eye(3)
        np.testing.assert_allclose(apply_kernel(loops, kernel, np.eye(3)), expected, rtol=1e-12)


def test_inverse_cosine_products_are_exact_and_its_root_says_what_it_reaches() -> None:
    kernel, v = InverseCosine(), np.random.default_rng(1).standard_normal(35)
    assert np.abs(apply_kernel(GRAPH, kernel, v) - kernel.dense(GRAPH) @ v).max() < 1e-9
    assert (
        np.abs(apply_root(GRAPH, kernel, v, tol=1e-3) - kernel.dense_root(GRAPH) @ v).max() < 1e-2
    )
    with pytest.raises(ValueError, match="max_degree = 500 products for the root of InverseCosine"):
        apply_root(GRAPH, kernel, v, max_degree=500)


def test_float32_in_float32_out() -> None:
    v = np.ones(35, dtype=np.float32)
    assert apply_kernel(GRAPH, Diffusion(), v).dtype == np.float32
    assert apply_kernel(GRAPH, Diffusion(), v.astype(int)).dtype == np.float64


def test_blocks_of_the_kernel_matrix(kernel: Kernel) -> None:
    dense = kernel.dense(GRAPH)
    size = np.abs(dense).max()
    assert np.abs(kernel_block(GRAPH, kernel) - dense).max() < 1e-9 * size
    assert np.abs(kernel_block(GRAPH, kernel, ROWS) - dense[ROWS]).max() < 1e-9 * size
    block = kernel_block(GRAPH, kernel, [5, 4, 30], ROWS)
    assert np.abs(block - dense[np.ix_([5, 4, 30], ROWS)]).max() < 1e-9 * size


def test_mean_variance_exact_and_estimated(kernel: Kernel) -> None:
    exact = np.trace(kernel.dense(GRAPH)) / 35
    assert mean_variance(GRAPH, kernel).value == pytest.approx(exact, rel=1e-12)
    assert mean_variance(GRAPH, kernel).stderr == 0
    costs = series.TraceCosts(dense_nodes=1, products=0)
    estimate = series._mean_variance(GRAPH, kernel, 2_000, 3, 1e-6, costs)
    assert 0 < estimate.stderr < 0.05 * exact
    assert abs(estimate.value - exact) < 5 * estimate.stderr + 1e-6 * exact
    assert estimate == series._mean_variance(GRAPH, kernel, 2_000, 3, 1e-6, costs)


def test_quadratic_forms_take_half_the_products(kernel: Kernel) -> None:
    z = np.random.default_rng(5).standard_normal((35, 3))
    expansion = series._expansion(GRAPH, kernel, 1e-12, 20_000, None, root=False)
    expected = (z * (kernel.dense(GRAPH) @ z)).sum(axis=0)
    assert np.abs(expansion.quadratic_forms(z) / expected - 1).max() < 1e-9


def test_diagonals_of_several_kernels_at_once() -> None:
    kernels = [Diffusion(0.3), RegularizedLaplacian(3.0, 1.5), Diffusion(9.0)]
    sums = [series._expansion(GRAPH, kernel, 1e-14, 20_000, None, root=False) for kernel in kernels]
    constant = chebyshev_sums.ChebyshevSum(sums[0]._doubled, np.array([2.5]))
    linear = chebyshev_sums.ChebyshevSum(sums[0]._doubled, np.array([2.5, 2.0]))
    nodes = np.array([3, 30, 0, 17])
    found = chebyshev_sums.shared_diagonals([*sums, constant], nodes)
    for kernel, diagonal in zip(kernels, found, strict=False):
        assert np.abs(diagonal - np.diagonal(kernel.dense(GRAPH))[nodes]).max() < 1e-12
    assert np.array_equal(found[3], [2.5] * 4)
    walk = np.diagonal(sums[0]._doubled.toarray())
    assert np.allclose(
        chebyshev_sums.shared_diagonals([constant, linear], nodes)[1], 2.5 + walk[nodes]
    )


def _factor(kernel: Kernel, nodes: np.ndarray | None = ROWS) -> tuple[SeriesFactor, np.ndarray]:
    scale = kernel.check_graph(GRAPH)
    length = kernel.truncation_length(1e-12, scale)
    return SeriesFactor(GRAPH, kernel.laplacian, max_length=length, nodes=nodes), kernel.modulation(
        length + 1, scale
    )


def test_factor_products_equal_dense_ones(kernel: Kernel) -> None:
    rng = np.random.default_rng(2)
    root = kernel.dense_root(GRAPH)
    size = np.abs(root).max()
    for nodes in (None, ROWS):
        factor, f = _factor(kernel, nodes)
        rows = root if nodes is None else root[nodes]
        assert factor.shape == rows.shape
        for x, y in (
            (rng.standard_normal(35), rng.standard_normal(len(rows))),
            (rng.standard_normal((35, 37)), rng.standard_normal((len(rows), 37))),
        ):
            assert np.abs(factor.apply(f, x) - rows @ x).max() < 1e-9 * size
            assert np.abs(factor.apply_t(f, y) - rows.T @ y).max() < 1e-9 * size
        assert np.abs(factor.diagonal(f) - (rows**2).sum(axis=1)).max() < 1e-9 * size**2
        some = factor.take(np.array([2, 0, 2]))
        assert np.abs(some.apply(f, x) - rows[[2, 0, 2]] @ x).max() < 1e-9 * size
        assert some.shape == (3, 35)
        assert factor.n_products(f) <= factor.max_length


def test_gradient_in_f_equals_its_definition(kernel: Kernel) -> None:
    rng = np.random.default_rng(4)
    factor = SeriesFactor(GRAPH, kernel.laplacian, max_length=6, nodes=ROWS)
    walk = GRAPH.walk_matrix(kernel.laplacian).toarray()
    for shape in ((), (5,)):
        x, y = rng.standard_normal((35, *shape)), rng.standard_normal((4, *shape))
        expected = [(y * (np.linalg.matrix_power(walk, k)[ROWS] @ x)).sum() for k in range(7)]
        assert np.abs(factor.grad_f(x, y) - expected).max() < 1e-13
        f = kernel.modulation(7, GRAPH.laplacian_scale(kernel.laplacian))
        assert f @ expected == pytest.approx((y * factor.apply(f, x)).sum(), rel=1e-12, abs=1e-12)


def test_factor_is_a_factor_and_keeps_the_protocol() -> None:
    factor = SeriesFactor(GRAPH, max_length=3)
    assert isinstance(factor, Factor)
    assert (factor.dtype, factor.max_length) == (np.dtype(np.float64), 3)
    x = np.ones(35)
    # a shorter modulation is padded with zeros, a longer one cut
    assert np.array_equal(factor.apply(np.array([2.0]), x), 2 * x)
    assert np.array_equal(factor.apply(np.array([1.0, 0, 0, 0, 9.0]), x), x)


def test_long_series_take_fewer_products_in_the_chebyshev_basis() -> None:
    kernel = RegularizedLaplacian(10.0, 2.0)
    length = kernel.truncation_length(1e-10)
    factor, f = SeriesFactor(GRAPH, max_length=length), kernel.modulation(length + 1)
    assert factor.n_products(f) < length / 8
    x = np.random.default_rng(6).standard_normal(35)
    powers = np.zeros(35)
    for value in f[::-1]:
        powers = GRAPH.walk_matrix() @ powers + value * x
    assert np.abs(factor.apply(f, x) - powers).max() < 1e-12


def test_chebyshev_coefficients_of_a_polynomial_are_no_more_than_its_own() -> None:
    rng = np.random.default_rng(8)
    x = np.linspace(-1, 1, 101)
    for width in (2.0, 1.0, 0.25):
        y = 1 - 0.5 * width * (1 - x)  # in [1 - width, 1]
        for size in (1, 2, 3, 17, 64, 65, 500):
            f = rng.standard_normal(size) / np.arange(1, size + 1) ** 2
            coefficients = polynomial_coefficients(f, width)
            assert coefficients.size <= size
            values = np.polynomial.chebyshev.chebval(x, coefficients)
            assert np.abs(values - np.polynomial.polynomial.polyval(y, f)).max() < 1e-13
    assert polynomial_coefficients(np.zeros(5), 1.0).tolist() == [0.0]
    assert polynomial_coefficients(np.array([2.0, 0.0, 0.0]), 2.0).tolist() == [2.0]


def test_bits_of_a_single_column_in_single_precision_do_not_depend_on_threads() -> None:
    doubled, _ = doubled_matrix(GRAPH, "normalized")
    coefficients = np.random.default_rng(1).standard_normal(31)
    v = np.linspace(-1, 2, GRAPH.n_nodes, dtype=np.float32)
    one, three = (
        chebyshev_sums.ChebyshevSum(
            doubled.astype(np.float32),
            coefficients,
            n_threads,
            SeriesCosts(worth_threads=0, worth_pool=0),
        )(v)
        for n_threads in (1, 3)
    )
    assert np.array_equal(one, three)


@pytest.mark.parametrize("worth", [0, 10**18], ids=["threads share rows", "threads take panels"])
def test_bits_depend_neither_on_threads_nor_on_other_columns(worth: int) -> None:
    costs = SeriesCosts(worth_threads=worth, worth_pool=0)

    def expansion(n_threads: int) -> chebyshev_sums.ChebyshevSum:
        return series._expansion(GRAPH, kernel, 1e-10, 20_000, n_threads, root=False, costs=costs)

    kernel = RegularizedLaplacian(3.0, 1.5)
    v = np.random.default_rng(10).standard_normal((35, 43))
    one = apply_kernel(GRAPH, kernel, v, n_threads=1)
    block = kernel_block(GRAPH, kernel, n_threads=1)
    factor, f = _factor(kernel)
    diagonal, gradient = factor.diagonal(f), factor.grad_f(v, v[:4])
    shared = chebyshev_sums.shared_diagonals([factor.square(f)], np.arange(35))
    forms = expansion(1).quadratic_forms(v)
    every = np.arange(35)
    for n_threads in (2, 3, 40):
        assert np.array_equal(apply_kernel(GRAPH, kernel, v, n_threads=n_threads), one)
        assert np.array_equal(expansion(n_threads)(v), one)
        assert np.array_equal(expansion(n_threads).block(every, every), block)
        other = SeriesFactor(
            GRAPH, max_length=factor.max_length, nodes=ROWS, n_threads=n_threads, costs=costs
        )
        assert np.array_equal(other.diagonal(f), diagonal)
        assert np.array_equal(other.grad_f(v, v[:4]), gradient)
        assert np.array_equal(
            chebyshev_sums.shared_diagonals([other.square(f)], np.arange(35)), shared
        )
        assert np.array_equal(expansion(n_threads).quadratic_forms(v), forms)
    for width in (1, 2, 5, 8, 9):
        assert np.array_equal(
            apply_kernel(GRAPH, kernel, v[:, 3 : 3 + width]), one[:, 3 : 3 + width]
        )
    assert np.array_equal(apply_kernel(GRAPH, kernel, v[:, 5]), one[:, 5])


def test_operands_are_read_only() -> None:
    kernel = Diffusion(2.0)
    factor, f = _factor(kernel, None)
    for shape in ((35,), (35, 1), (35, 8), (35, 20)):
        v = np.random.default_rng(11).standard_normal(shape)
        kept = v.copy()
        results = [apply_kernel(GRAPH, kernel, v), factor.apply(f, v), factor.grad_f(v, v)]
        assert np.array_equal(v, kept)
        v.flags.writeable = False
        again = [apply_kernel(GRAPH, kernel, v), factor.apply(f, v), factor.grad_f(v, v)]
        for first, second in zip(results, again, strict=True):
            assert np.array_equal(first, second)
        assert np.array_equal(factor.apply(f, np.asfortranarray(v)), results[1])


@pytest.mark.parametrize("laplacian", ["normalized", "combinatorial"])
def test_graphs_without_edges_and_isolated_nodes(laplacian: str) -> None:
    kernel = Diffusion(1.5, laplacian=laplacian)
    v = np.random.default_rng(12).standard_normal((3, 9))
    alone = Graph(np.zeros((1, 1)))
    assert np.allclose(
        apply_kernel(alone, kernel, v[:1]), kernel.dense(alone) @ v[:1], rtol=0, atol=1e-10
    )
    graph = Graph(np.array([[0, 0, 1], [0, 0, 0], [1, 0, 0]]))
    dense = kernel.dense(graph)
    assert np.allclose(apply_kernel(graph, kernel, v), dense @ v, rtol=0, atol=1e-10)
    assert np.allclose(
        kernel_block(graph, kernel, [1], [0, 1]), dense[[1]][:, [0, 1]], rtol=0, atol=1e-10
    )
    factor = SeriesFactor(graph, laplacian, max_length=5)
    f = np.array([1.0, 0.5, 0.2])
    walk = graph.walk_matrix(laplacian).toarray()
    root = np.eye(3) + 0.5 * walk + 0.2 * walk @ walk
    assert np.allclose(factor.diagonal(f), (root**2).sum(axis=1), rtol=0, atol=1e-14)
    assert apply_kernel(graph, kernel, np.empty((3, 0))).shape == (3, 0)
    assert kernel_block(graph, kernel, [], [1, 2]).shape == (0, 2)


def test_nodes_in_no_order_are_renumbered_and_nothing_else_changes() -> None:
    rng = np.random.default_rng(0)
    shuffled = rng.permutation(400)
    path = sp.coo_array(
        (rng.uniform(0.5, 2.0, 399), (shuffled[:-1], shuffled[1:])), shape=(400, 400)
    )
    graph = Graph(sp.csr_array(path + path.T))
    exact = series._expansion(graph, Matern(lengthscale=3.0, nu=1.0), 1e-10, 20_000, 1, root=False)
    few, place = exact.renumbered(1)
    assert few is exact
    assert np.array_equal(place, np.arange(400))
    renumbered, place = exact.renumbered(400)
    assert np.abs(np.diff(place[shuffled])).max() <= 2
    assert not np.array_equal(place[shuffled], np.arange(400))
    v = rng.standard_normal(400)
    assert np.allclose(renumbered(v[np.argsort(place)])[place], exact(v), rtol=0, atol=1e-12)
    dense = exact(np.eye(400))
    rows, cols = rng.permutation(400)[:150], np.r_[rng.permutation(400)[:200], 3, 3]
    assert np.allclose(exact.block(rows, cols), dense[np.ix_(rows, cols)], rtol=0, atol=1e-12)
    assert np.allclose(
        chebyshev_sums.shared_diagonals([exact], cols)[0], dense[cols, cols], rtol=0, atol=1e-12
    )
    (block,) = chebyshev_sums.shared_blocks([exact], rows, cols)
    assert np.allclose(block, dense[np.ix_(rows, cols)], rtol=0, atol=1e-12)


def test_unit_vectors_visit_only_rows_that_products_reach() -> None:
    # a path, some steps longer, and an isolated node: far from `nodes` the rows are never made
    steps = np.arange(399)
    ends = np.concatenate([steps, steps[:-7:9]]), np.concatenate([steps + 1, steps[:-7:9] + 7])
    upper = sp.coo_array((np.ones(ends[0].size), ends), shape=(401, 401))
    graph = Graph(sp.csr_array(upper + upper.T))
    kernel = Diffusion(2.0)
    nodes = np.array([3, 200, 202, 203, 211, 399, 400])
    dense = kernel.dense(graph)
    assert np.abs(kernel_block(graph, kernel, None, nodes) - dense[:, nodes]).max() < 1e-10
    expansion = series._expansion(graph, kernel, 1e-10, 20_000, 1, root=False)
    ((part, panel),) = expansion.of_units(nodes[1:5], lambda panel: panel.copy())
    assert part == slice(0, 4)
    reach = 7 * expansion.degree
    assert (panel[200:212] != 0).all()
    assert not panel[: 200 - reach].any()
    units = np.zeros((401, 4))
    units[nodes[1:5], np.arange(4)] = 1.0
    assert np.array_equal(panel, expansion(units))
    low, high = expansion._reach
    reached = expansion._doubled.toarray() != 0
    for first, last in ((0, 1), (150, 170), (399, 400), (400, 401)):
        rows = np.flatnonzero(reached[first:last].any(axis=0))
        assert rows.size == 0 or (low[first] <= rows[0] and rows[-1] < high[last - 1])


@pytest.mark.parametrize("laplacian", ["normalized", "combinatorial"])
def test_spectral_filters_equal_functions_of_the_eigenvalues(laplacian: str) -> None:
    kernel = Diffusion(0.7, laplacian=laplacian)
    scale = GRAPH.laplacian_scale(laplacian)
    eigenvalues, vectors = np.linalg.eigh(GRAPH.laplacian(laplacian == "normalized").toarray())
    v = np.random.default_rng(13).standard_normal((35, 6))

    def preconditioner(x: np.ndarray) -> np.ndarray:
        return 1 / (0.1 + 5.0 * kernel.spectrum(x, scale))

    for function in (preconditioner, np.ones_like, np.square, lambda x: np.cos(x - 1)):
        prepared = SpectralFilter(GRAPH, laplacian, function, tol=1e-12)
        expected = vectors @ (function(eigenvalues)[:, None] * (vectors.T @ v))
        largest = np.abs(
            function(scale * np.linspace(0, 2 if laplacian == "normalized" else 1, 501))
        ).max()
        bound = 2e-12 * largest * np.linalg.norm(v, axis=0).max()
        assert np.abs(prepared(v) - expected).max() < bound
        assert np.abs(prepared(v[:, 1]) - expected[:, 1]).max() < bound
        assert np.abs(prepared(1.01 * v) - expected).max() > bound


def test_spectral_filters_name_bad_arguments() -> None:
    with pytest.raises(ValueError, match="needs more than max_degree = 50 products"):
        SpectralFilter(GRAPH, "normalized", lambda x: np.abs(x - 1), max_degree=50)
    with pytest.raises(ValueError, match="`function` must give values of shape"):
        SpectralFilter(GRAPH, "normalized", lambda x: 1.0)
    with pytest.raises(ValueError, match="`function` must be finite"), np.errstate(divide="ignore"):
        SpectralFilter(GRAPH, "normalized", lambda x: 1 / x)
    with pytest.raises(ValueError, match="`laplacian` must be"):
        SpectralFilter(GRAPH, "random walk", np.ones_like)
    with pytest.raises(ValueError, match=r"`v` must have shape \(35,\)"):
        SpectralFilter(GRAPH, "normalized", np.ones_like)(np.ones(34))
    with pytest.raises(ValueError, match="`n_threads` must be"):
        apply_kernel(GRAPH, Diffusion(), np.ones(35), n_threads=0)


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ValueError, match=r"`v` must be numbers of shape \(35,\)"):
        apply_kernel(GRAPH, Diffusion(), np.ones(34))
    with pytest.raises(ValueError, match="`v` must be finite"):
        apply_kernel(GRAPH, Diffusion(), np.full(35, np.nan))
    with pytest.raises(ValueError, match="`tol` must be in"):
        apply_kernel(GRAPH, Diffusion(), np.ones(35), tol=0.0)
    with pytest.raises(ValueError, match="undirected"):
        apply_kernel(Graph(np.array([[0, 1], [0, 0]]), directed=True), Diffusion(), np.ones(2))
    with pytest.raises(ValueError, match="`rows` must be positions"):
        kernel_block(GRAPH, Diffusion(), [35])
    factor = SeriesFactor(GRAPH, max_length=2, nodes=ROWS)
    with pytest.raises(ValueError, match=r"`x` must have shape \(35,\)"):
        factor.apply(np.ones(2), np.ones(4))
    with pytest.raises(ValueError, match=r"`y` must have shape \(4,\)"):
        factor.apply_t(np.ones(2), np.ones(35))
    with pytest.raises(ValueError, match="as many columns"):
        factor.grad_f(np.ones((35, 2)), np.ones((4, 3)))
    with pytest.raises(ValueError, match="`f` must be a vector"):
        factor.apply(np.ones((2, 2)), np.ones(35))


def test_threads_that_share_a_factor_get_their_own_modulation() -> None:
    factor = SeriesFactor(GRAPH, max_length=60)
    mine, other = (Diffusion(lengthscale).modulation(61) for lengthscale in (1.0, 3.0))
    v = np.arange(35.0)
    expected = factor.apply(mine, v)
    for first in (mine, other):  # what the factor remembers at the start

        def call(first: np.ndarray = first) -> np.ndarray:
            factor.apply(first, v)
            return factor.apply(mine, v)

        results = interleaved_results(
            call, lambda: factor.apply(other, v), SeriesFactor._expansion.__code__
        )
        assert len(results) > 4
        for result in results:
            np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("door", ["apply_kernel", "apply_root", "kernel_block", "mean_variance"])
def test_things_that_are_no_kernel_or_no_graph_are_refused_at_the_door(karate, door):
    function = getattr(series, door)
    rest = (np.ones(34),) if door.startswith("apply") else ()
    with pytest.raises(TypeError, match="`kernel` must be a graphrf kernel"):
        function(karate, "diffusion", *rest)
    with pytest.raises(TypeError, match=r"`graph` must be a graphrf\.Graph"):
        function(np.eye(34), Diffusion(1.0), *rest)


@pytest.mark.parametrize("threads_share_rows", [False, True])
def test_several_kernels_share_their_products(threads_share_rows):
    """Blocks and diagonals of several kernels at once, at sparse and reached rows, are those of
    each alone.
    """
    costs = SeriesCosts(worth_threads=1 if threads_share_rows else 1_000_000)
    graph = Graph(sp.diags_array([np.ones(79), np.ones(79)], offsets=[-1, 1], format="csr"))
    kernels = [Matern(nu=2.0, lengthscale=6.0), Diffusion(1.0), Diffusion(4.0)]
    rows, cols = (
        np.array([0, 79, 40, 41, 3]),
        np.sort(np.random.default_rng(0).choice(80, 21, replace=False)),
    )
    sums = [
        series._expansion(graph, kernel, 1e-10, 20_000, None, root=False, costs=costs)
        for kernel in kernels
    ]
    found = chebyshev_sums.shared_blocks(sums, rows, cols)
    np.testing.assert_array_equal(kernel_blocks(graph, kernels, rows, cols), found)
    for kernel, block in zip(kernels, found, strict=True):
        dense = kernel.dense(graph)
        np.testing.assert_allclose(block, dense[np.ix_(rows, cols)], atol=1e-8)
        np.testing.assert_allclose(
            kernel_diagonal(graph, kernel, rows), np.diag(dense)[rows], atol=1e-9
        )
