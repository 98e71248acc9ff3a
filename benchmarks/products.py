"""What does a product with sampled features cost, against memory, scipy and torch (MKL)?

Each round measures all of them in turn; shares and ratios are taken within a round: the median, and
the smallest and largest in brackets. Bytes are counted in two ways. Compulsory: the matrix (a
number and an index a non-zero), the columns and the result, once each. Touched: for each non-zero
its number, its index and the p numbers that it is multiplied with (of F^T y: added to; what is
written back is not counted), and the rows' side once. Shares are of the faster of numpy's and a
compiled copy of 160 MB on as many threads, reads and writes counted. scipy has one thread only; MKL
multiplies with a transposed copy, made beforehand.

python benchmarks/products.py [--large] [--repeats 5]
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import scipy.sparse as sp
import torch
from _machine import header, peak_gib, timed
from numba import njit, uint64
from walks import grid, random_graph

import graphrf as grf

WIDTHS = (1, 4, 8, 16, 32)
COPIED = 20_000_000
KERNEL = grf.Diffusion(lengthscale=2.0)


@njit(nogil=True, cache=True)
def copy_range(first, last, source, target):  # type: ignore[no-untyped-def]
    for i in range(uint64(first), uint64(last)):
        target[i] = source[i]


class Copies:
    """The memory bandwidth in GB/s, by numpy and by a compiled loop."""

    def __init__(self) -> None:
        self.source, self.target = np.random.default_rng(0).random(COPIED), np.zeros(COPIED)
        copy_range(0, 1, self.source, self.target)
        self.pool = ThreadPoolExecutor(2)

    def __call__(self, n_threads: int) -> tuple[float, float]:
        def numpy_copy(first: int, last: int) -> None:
            np.copyto(self.target[first:last], self.source[first:last])

        def numba_copy(first: int, last: int) -> None:
            copy_range(first, last, self.source, self.target)

        bounds = [COPIED * share // n_threads for share in range(n_threads + 1)]
        found = []
        for copy in (numpy_copy, numba_copy):

            def whole(copy: Callable[[int, int], None] = copy) -> object:
                return list(self.pool.map(copy, bounds[:-1], bounds[1:]))

            found.append(2 * self.source.nbytes / timed(whole, 3)[0] / 1e9)
        return found[0], found[1]


def seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def spread(values: list[float], digits: int = 1) -> str:
    middle, low, high = statistics.median(values), min(values), max(values)
    return f"{middle:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def torch_matrix(matrix: sp.csr_array) -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # sparse CSR is in beta
        parts = (
            torch.from_numpy(np.array(part))
            for part in (matrix.indptr, matrix.indices, matrix.data)
        )
        return torch.sparse_csr_tensor(*parts, size=matrix.shape)


def products(name: str, features: grf.features.Features, copies: Copies, repeats: int) -> None:
    f = KERNEL.modulation(features.max_length + 1)
    factors = {n: features.factor(n_threads=n) for n in (1, 2)}
    matrix = factors[1].matrix(f)
    factors[2].matrix(f)
    theirs = torch_matrix(matrix)
    turned = torch_matrix(sp.csr_array(matrix.T))
    each = matrix.nnz / matrix.shape[0]
    print(f"\n{name}, {features.dtype}: {matrix.shape[0]} rows, {each:.0f} non-zeros per row")
    print(
        f"{'':<6} {'p':>2} {'threads':>7} {'ms':>7} {'GB/s':>6} {'share of copy':>18} "
        f"{'touched':>7} {'share of copy':>18} {'scipy / ours':>19} {'MKL / ours':>19}"
    )
    rng = np.random.default_rng(0)
    for transposed in (False, True):
        for width in WIDTHS:
            x = rng.standard_normal((matrix.shape[0 if transposed else 1], width)).astype(
                features.dtype
            )
            tensor = torch.from_numpy(x)

            def ours(n: int, transposed: bool = transposed, x: np.ndarray = x) -> np.ndarray:
                return factors[n].apply_t(f, x) if transposed else factors[n].apply(f, x)

            def scipys(transposed: bool = transposed, x: np.ndarray = x) -> np.ndarray:
                return np.asarray((matrix.T if transposed else matrix) @ x)

            def mkl(transposed: bool = transposed, x: torch.Tensor = tensor) -> torch.Tensor:
                return (turned if transposed else theirs) @ x

            times: dict[object, list[float]] = {
                key: [] for key in (1, 2, "scipy", ("mkl", 1), ("mkl", 2))
            }
            bandwidths: dict[int, list[float]] = {1: [], 2: []}
            expected = scipys()
            for result in (ours(1), ours(2), mkl().numpy()):
                assert np.allclose(result, expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())
            for _ in range(repeats):
                times["scipy"].append(seconds(scipys))
                for n in (1, 2):
                    times[n].append(seconds(lambda n=n: ours(n)))
                    torch.set_num_threads(n)
                    times["mkl", n].append(seconds(mkl))
                    bandwidths[n].append(max(copies(n)))
            size = x.itemsize
            sides = size * width * sum(matrix.shape)
            compulsory = matrix.nnz * (size + matrix.indices.itemsize) + sides
            touched = matrix.nnz * (size * (1 + width) + matrix.indices.itemsize) + size * x.size
            for n in (1, 2):
                own = times[n]
                middle = statistics.median(own)
                shares = [
                    [100 * total / t / 1e9 / b for t, b in zip(own, bandwidths[n], strict=True)]
                    for total in (compulsory, touched)
                ]
                ratios = [
                    [a / b for a, b in zip(times[rival], own, strict=True)]
                    for rival in ("scipy", ("mkl", n))
                ]
                print(
                    f"{'F^T y' if transposed else 'F x':<6} {width:>2} {n:>7} {1e3 * middle:>7.1f} "
                    f"{compulsory / middle / 1e9:>6.1f} {spread(shares[0], 0) + ' %':>18} "
                    f"{touched / middle / 1e9:>7.1f} {spread(shares[1], 0) + ' %':>18} "
                    f"{spread(ratios[0]):>19} {spread(ratios[1]):>19}",
                    flush=True,
                )
    passes(features, f, repeats)


def passes(features: grf.features.Features, f: np.ndarray, repeats: int) -> None:
    """What a new modulation costs, and the gradient in it."""
    x, y = (
        np.random.default_rng(1).standard_normal((n, 8)).astype(features.dtype)
        for n in features.shape[::-1]
    )
    for n in (1, 2):
        factor = features.factor(n_threads=n)
        factor.grad_f(x, y)
        values, gradients = [], []
        for _ in range(repeats):
            values.append(
                1e3 * seconds(lambda n=n: features.matrix_from_modulation(f, n_threads=n))
            )
            gradients.append(1e3 * seconds(lambda factor=factor: factor.grad_f(x, y)))
        print(
            f"{n} thread(s): new values {spread(values)} ms, gradient in f (p = 8) "
            f"{spread(gradients)} ms"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--large", action="store_true", help="a million nodes instead of 200 thousand"
    )
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    print(header("scipy", "torch"))
    copies = Copies()
    for n in (1, 2):
        numpy_copy, numba_copy = copies(n)
        print(f"copy on {n} thread(s): numpy {numpy_copy:.1f} GB/s, numba {numba_copy:.1f} GB/s")
    n_nodes = 1_000_000 if options.large else 200_000
    sampler = grf.RandomWalks(32, grf.sampling.Stratified(0.1))
    for name, make in (
        ("grid", lambda: grid(round(n_nodes**0.5))),
        ("random", lambda: random_graph(n_nodes, 8)),
    ):
        graph = make()
        for dtype in ("float64",) if options.large else ("float64", "float32"):
            features = grf.sample_features(graph, sampler, seed=0, dtype=dtype)
            products(name, features, copies, options.repeats)
    print(f"peak memory {peak_gib():.1f} GiB")


if __name__ == "__main__":
    main()
