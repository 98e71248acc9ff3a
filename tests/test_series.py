"""Matrix-free products against dense algebra."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from graphrf import series
from graphrf._chebyshev import polynomial
from graphrf.factor import Factor
from graphrf.graph import Graph
from graphrf.kernels import (
    Diffusion,
    InverseCosine,
    Kernel,
    LearnedModulation,
    Matern,
    PowerSeries,
    PStepRandomWalk,
    RegularizedLaplacian,
)
from graphrf.series import SeriesFactor, apply_kernel, apply_root, kernel_block, mean_variance
from tests.interleaving import interleaved_results

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


def test_inverse_cosine_products_are_exact_and_its_root_says_what_it_reaches() -> None:
    kernel, v = InverseCosine(), np.random.default_rng(1).standard_normal(35)
    assert np.abs(apply_kernel(GRAPH, kernel, v) - kernel.dense(GRAPH) @ v).max() < 1e-9
    assert np.abs(apply_root(GRAPH, kernel, v, tol=1e-3) - kernel.dense_root(GRAPH) @ v).max() < 1e-2
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


def test_mean_variance_exact_and_estimated(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = np.trace(kernel.dense(GRAPH)) / 35
    assert mean_variance(GRAPH, kernel).value == pytest.approx(exact, rel=1e-12)
    assert mean_variance(GRAPH, kernel).stderr == 0
    monkeypatch.setattr(series, "_LARGEST_EXACT_TRACE", 1)
    estimate = mean_variance(GRAPH, kernel, n_probes=2_000, seed=3)
    assert 0 < estimate.stderr < 0.05 * exact
    assert abs(estimate.value - exact) < 5 * estimate.stderr + 1e-6 * exact
    assert estimate == mean_variance(GRAPH, kernel, n_probes=2_000, seed=3)


def test_quadratic_forms_take_half_the_products(kernel: Kernel) -> None:
    z = np.random.default_rng(5).standard_normal((35, 3))
    expansion = series._expansion(GRAPH, kernel, 1e-12, 20_000, None, root=False)
    expected = (z * (kernel.dense(GRAPH) @ z)).sum(axis=0)
    assert np.abs(expansion.quadratic_forms(z) / expected - 1).max() < 1e-9


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
    assert (factor.dtype, factor.device, factor.max_length) == (np.dtype(np.float64), "cpu", 3)
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


def test_a_polynomial_by_blocks_equals_horner() -> None:
    f = np.random.default_rng(7).standard_normal(3_000)
    gap = np.concatenate([[0.0, 1.0, 2.0], np.linspace(0, 2, 77), [1e-9, 1 - 1e-3]])
    expected = np.polynomial.polynomial.polyval(1 - gap, f)
    assert np.abs(polynomial(f)(gap) - expected).max() < 1e-11


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

        results = interleaved_results(call, lambda: factor.apply(other, v), SeriesFactor._expansion.__code__)
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
