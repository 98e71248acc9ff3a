import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from graphrf.features import factor as _feature_factor
from graphrf.features.factor import FactorCosts, FeatureFactor
from graphrf.features.record import Record
from graphrf.features.sample_info import SampleInfo

N_ROWS, N_NODES = 40, 30
TYPES = [("float32", "float32"), ("float32", "float64"), ("float64", "float64")]


def _pattern(n: int, n_nodes: int, index: type = np.int32) -> tuple[np.ndarray, np.ndarray]:
    """Row pointer and columns, of rows from empty to full, columns in no order."""
    rng = np.random.default_rng(0)
    sizes = np.concatenate([[0], rng.integers(0, n_nodes + 1, n - 2), [0]])
    columns = [rng.choice(n_nodes, size, replace=False) for size in sizes]
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    return indptr.astype(index), np.concatenate([np.empty(0), *columns]).astype(index)


def _factor(
    indptr: np.ndarray, indices: np.ndarray, n_nodes: int, dtype: str = "float64", **options
) -> FeatureFactor:
    """A factor of one step, F(f) = f_0 counts."""
    n, size = indptr.size - 1, indices.size
    counts = np.random.default_rng(1).integers(1, 999, size).astype(np.uint16)
    record = Record(
        indptr, indices, indptr.copy(), np.ones(size, np.uint16), np.zeros(size, np.uint16), counts
    )
    info = SampleInfo(
        n_nodes=n_nodes,
        n_walks=1,
        laplacian="combinatorial",
        scale=1.0,
        complete=True,
        seed=0,
        dtype=np.dtype(dtype),
        description={},
        survival=np.ones(1),
        degrees=None,
        of_powers=False,
    )
    return FeatureFactor(info, np.arange(n), record, **options)


def _plain_rows(matrix: sp.csr_array, x: np.ndarray) -> np.ndarray:
    """F x, the entries at even and at odd places of a row added apart."""
    result = np.zeros((matrix.shape[0], x.shape[1]), x.dtype)
    for i in range(matrix.shape[0]):
        first, last = matrix.indptr[i : i + 2]
        sums = np.zeros((2, x.shape[1]), x.dtype)
        for entry in range(first, last):
            turn = (entry - first) % 2 if entry < last - (last - first) % 2 else 0
            sums[turn] += x.dtype.type(matrix.data[entry]) * x[matrix.indices[entry]]
        result[i] = sums[0] + sums[1]
    return result


def _plain_columns(matrix: sp.csr_array, y: np.ndarray, runs: list[tuple[int, int]]) -> np.ndarray:
    """F^T y, in the order of the rows within runs of them, and of the runs."""
    result = np.zeros((matrix.shape[1], y.shape[1]), y.dtype)
    for first, last in runs:
        part = np.zeros_like(result)
        for i in range(first, last):
            for entry in range(matrix.indptr[i], matrix.indptr[i + 1]):
                part[matrix.indices[entry]] += y.dtype.type(matrix.data[entry]) * y[i]
        result += part
    return result


# Threads, runs of rows and panels for matrices far too small for them.
MANY_TASKS = FactorCosts(worth_thread=1, entries_per_number=4, cache=0, block_entries=100)


@pytest.mark.parametrize(("dtype", "dense"), TYPES, ids=["-".join(pair) for pair in TYPES])
@pytest.mark.parametrize("index", [np.int32, np.int64], ids=["int32", "int64"])
def test_products_are_those_of_the_matrix_bit_for_bit_on_any_number_of_threads(
    index: type, dtype: str, dense: str
) -> None:
    pattern = _pattern(N_ROWS, N_NODES, index)
    f = np.array([0.3])
    factors = [
        _factor(*pattern, N_NODES, dtype, n_threads=n, costs=replace(MANY_TASKS, cache=cache))
        for cache, n in itertools.product((0, 10**9), (1, 2, 3))  # in panels, and whole
    ]
    runs = [(run.first, run.last) for run in factors[0]._runs]
    assert 2 <= len(runs) < 16
    matrix = factors[0].matrix(f)
    x, y = (
        np.random.default_rng(4).standard_normal((n, 40)).astype(dense) for n in (N_NODES, N_ROWS)
    )
    rows, columns = _plain_rows(matrix, x), _plain_columns(matrix, y, runs)
    for width, factor in itertools.product(range(1, 41), factors):
        np.testing.assert_array_equal(factor.apply(f, x[:, :width]), rows[:, :width])
        np.testing.assert_array_equal(factor.apply_t(f, y[:, :width]), columns[:, :width])
    bound = 1e-4 if dense == "float32" else 1e-13
    np.testing.assert_allclose(rows, matrix @ x, rtol=0, atol=bound * np.abs(rows).max())
    np.testing.assert_allclose(columns, matrix.T @ y, rtol=0, atol=bound * np.abs(columns).max())
    gradients = [factor.grad_f(x, y) for factor in factors]
    for gradient in gradients[1:]:
        np.testing.assert_array_equal(gradient, gradients[0])
    assert gradients[0][0] == pytest.approx(np.sum(y.astype(float) * (matrix @ x)) / 0.3, rel=1e-4)


@pytest.mark.parametrize(
    ("cache", "width"), [(10**9, 40), (0, 8)], ids=["one panel", "panels of 8"]
)
def test_every_thread_gets_enough_to_do(
    cache: int, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pattern = _pattern(N_ROWS, N_NODES)
    size = pattern[1].size
    started = []
    plain = _feature_factor.ordered_map
    monkeypatch.setattr(
        _feature_factor,
        "ordered_map",
        lambda *of: (started.append(min(of[2], len(of[1]))), plain(*of))[1],
    )
    for share, threads in (
        (size * width + 1, 1),
        (size * width // 2 + 1, 1),
        (size * width // 3, 3),
    ):
        costs = FactorCosts(cache=cache, worth_thread=share)
        factor = _factor(*pattern, N_NODES, n_threads=16, costs=costs)
        started.clear()
        factor.apply(np.ones(1), np.ones((N_NODES, 40)))
        assert started == [threads] * (40 // width)
        started.clear()
        factor.apply_t(np.ones(1), np.ones((N_ROWS, width)))
        assert max(started) <= threads


def test_another_order_of_addition_gives_other_bits() -> None:
    # Else the tests above would not see one.
    indptr, indices = _pattern(N_ROWS, N_NODES)
    factor = _factor(indptr, indices, N_NODES)
    f = np.array([0.3])
    x, y = (np.random.default_rng(4).standard_normal((n, 8)) for n in (N_NODES, N_ROWS))
    matrix = factor.matrix(f)
    assert (factor.apply(f, x) != matrix @ x).any()
    assert (
        _plain_columns(matrix, y, [(0, N_ROWS)])
        != _plain_columns(matrix, y, [(0, 20), (20, N_ROWS)])
    ).any()


def test_runs_span_what_their_rows_reach() -> None:
    # A band: sixteen runs, which overlap a little; and rows
    # with nothing in common: fewer, for each reaches all.
    n, f = 640, np.array([0.3])
    local = (np.arange(n)[:, None] + np.arange(9)) % n
    scattered = np.random.default_rng(0).permuted(np.tile(np.arange(n), (n, 1)), axis=1)[:, :9]
    factors = [
        _factor(np.arange(n + 1) * 9, np.ravel(columns), n, n_threads=2, costs=MANY_TASKS)
        for columns in (local, scattered)
    ]
    assert [len(factor._runs) for factor in factors] == [16, 2]
    assert [run.height for run in factors[0]._runs[:3]] == [48, 48, 48]
    for factor in factors:
        runs = [(run.first, run.last) for run in factor._runs]
        assert [last for _, last in runs[:-1]] == [first for first, _ in runs[1:]]
        assert (runs[0][0], runs[-1][1]) == (0, n)
        x = np.random.default_rng(5).standard_normal((n, 10))
        np.testing.assert_array_equal(factor.apply(f, x), _plain_rows(factor.matrix(f), x))
        np.testing.assert_array_equal(
            factor.apply_t(f, x), _plain_columns(factor.matrix(f), x, runs)
        )


@pytest.mark.parametrize("n_threads", [1, 2])
def test_rows_and_columns_may_be_missing(n_threads: int) -> None:
    f = np.array([0.5])
    none = _factor(
        np.zeros(1, np.int32), np.empty(0, np.int32), 5, n_threads=n_threads, costs=MANY_TASKS
    )
    assert none.apply(f, np.ones((5, 3))).shape == (0, 3)
    np.testing.assert_array_equal(none.apply_t(f, np.ones((0, 3))), np.zeros((5, 3)))
    np.testing.assert_array_equal(none.grad_f(np.ones((5, 3)), np.ones((0, 3))), [0.0])
    empty = _factor(
        np.zeros(4, np.int32), np.empty(0, np.int32), 5, n_threads=n_threads, costs=MANY_TASKS
    )
    np.testing.assert_array_equal(empty.apply(f, np.ones(5)), np.zeros(3))
    np.testing.assert_array_equal(empty.apply_t(f, np.ones(3)), np.zeros(5))
    some = _factor(*_pattern(N_ROWS, N_NODES), N_NODES, n_threads=n_threads, costs=MANY_TASKS)
    assert some.apply(f, np.ones((N_NODES, 0))).shape == (N_ROWS, 0)
    assert some.apply_t(f, np.ones((N_ROWS, 0))).shape == (N_NODES, 0)
    np.testing.assert_array_equal(some.grad_f(np.ones((N_NODES, 0)), np.ones((N_ROWS, 0))), [0.0])


@pytest.mark.parametrize(
    "change",
    [
        lambda x: np.asfortranarray(x),
        lambda x: np.repeat(x, 2, axis=1)[:, ::2],
        lambda x: np.broadcast_to(x[:, :1], x.shape),
        lambda x: x.astype(np.float32),
        lambda x: (100 * x).astype(np.int64),
        lambda x: x[:, 2],
    ],
    ids=["by columns", "strided", "broadcast", "float32", "int64", "one axis"],
)
def test_any_real_array_of_a_fitting_shape_will_do(
    change: Callable[[np.ndarray], np.ndarray],
) -> None:
    f = np.array([0.5])
    for dtype in ("float32", "float64"):
        factor = _factor(*_pattern(N_ROWS, N_NODES), N_NODES, dtype)
        matrix = factor.matrix(f)
        x, y = (change(np.random.default_rng(4).standard_normal((n, 5))) for n in (N_NODES, N_ROWS))
        for result, expected in (
            (factor.apply(f, x), matrix @ x),
            (factor.apply_t(f, y), matrix.T @ y),
        ):
            assert result.dtype == expected.dtype
            np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("name", ["x", "y"])
def test_arrays_that_do_not_fit_are_refused(name: str) -> None:
    factor = _factor(*_pattern(N_ROWS, N_NODES), N_NODES)
    size, multiply = (N_NODES, factor.apply) if name == "x" else (N_ROWS, factor.apply_t)
    for wrong in (np.ones(size - 1), np.ones((size + 1, 2)), np.ones((size, 2, 2)), np.array(1.0)):
        with pytest.raises(ValueError, match=f"`{name}` must have shape \\({size},\\)"):
            multiply(np.array([0.5]), wrong)
    with pytest.raises(TypeError, match=f"`{name}` must hold real numbers"):
        multiply(np.array([0.5]), np.ones(size, complex))
