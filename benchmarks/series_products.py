"""How long do exact products with kernels take, against scipy's sparse products and
`expm_multiply`?

Ratios are of times within one repetition: the median, and the smallest and largest in brackets. The
loop of scipy's products sums the same series: T_{k+1} v = 2 M T_k v - T_{k-1} v on blocks of 32
columns (one at a time on a million nodes, where that was faster). `expm_multiply` is asked for
exp(-t L) v in double precision. Matrices and coefficients are made before, on both sides, except
where K[S, S] is made.

python benchmarks/series_products.py [--large] [--repeats 5]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from _machine import header
from scipy.sparse.linalg import expm_multiply

import graphrf as grf
from graphrf import datasets
from graphrf.kernels.chebyshev import chebyshev_coefficients
from graphrf.operators.series.apply import kernel_block
from graphrf.operators.series.spectral_filter import SpectralFilter

CODE = """
import time
import numpy as np, graphrf as grf
graph, kernel = grf.from_edges([0, 1], [1, 2]), grf.Diffusion(lengthscale=1.0)
def seconds(v):
    started = time.perf_counter()
    grf.apply_kernel(graph, kernel, v)
    return time.perf_counter() - started
import graphrf.operators.series.apply
print(seconds(np.ones((3, 8))), seconds(np.ones((3, 8))))
"""


def grid(side: int) -> grf.Graph:
    path = sp.diags_array([np.ones(side - 1), np.ones(side - 1)], offsets=[-1, 1])
    eye = sp.eye_array(side)
    return grf.Graph(sp.csr_array(sp.kron(path, eye) + sp.kron(eye, path)))


def random_graph(n: int, degree: int) -> grf.Graph:
    ends = np.random.default_rng(0).integers(0, n, size=(2, n * degree // 2))
    ends = ends[:, ends[0] != ends[1]]
    both = np.hstack([ends, ends[::-1]])
    adjacency = sp.csr_array((np.ones(both.shape[1]), (both[0], both[1])), shape=(n, n))
    adjacency.sum_duplicates()
    return grf.Graph(adjacency)


class Plain:
    """The series by scipy's products, on the normalized Laplacian."""

    def __init__(self, graph: grf.Graph, kernel: grf.Diffusion) -> None:
        coefficients, _ = chebyshev_coefficients(kernel.spectrum, 2.0, tol=1e-10, max_degree=1_000)
        assert coefficients is not None
        self.coefficients = coefficients
        self.doubled = sp.csr_array(graph.walk_matrix() * 2.0)
        self.width = min(max(1_000_000 // graph.n_nodes, 1), 32)

    def __call__(self, v: np.ndarray) -> np.ndarray:
        result = np.empty(v.shape)
        for start in range(0, v.shape[1], self.width):
            part = slice(start, start + self.width)
            result[:, part] = self.block(np.ascontiguousarray(v[:, part]))
        return result

    def block(self, v: np.ndarray) -> np.ndarray:
        before, now = v, 0.5 * (self.doubled @ v)
        result = self.coefficients[0] * v + self.coefficients[1] * now
        for c in self.coefficients[2:]:
            after = self.doubled @ now
            after -= before
            before, now = now, after
            result += c * now
        return result

    def columns(self, nodes: np.ndarray) -> np.ndarray:
        """The rows and columns of `nodes`."""
        result = np.empty((nodes.size, nodes.size))
        for start in range(0, nodes.size, self.width):
            members = nodes[start : start + self.width]
            units = np.zeros((self.doubled.shape[0], members.size))
            units[members, np.arange(members.size)] = 1.0
            result[:, start : start + members.size] = self.block(units)[nodes]
        return result


def compare(
    name: str,
    repeats: int,
    ours: Callable[[], np.ndarray],
    rivals: dict[str, Callable[[], np.ndarray]],
) -> None:
    """One line for each rival; the first calls, which compile and fill caches, are not timed."""
    result = ours()
    seconds: dict[str, list[float]] = {rival: [] for rival in rivals}
    own: list[float] = []
    errors = {rival: float(np.abs(call() - result).max()) for rival, call in rivals.items()}
    for _ in range(repeats):
        for times, call in [
            (own, ours),
            *((seconds[rival], call) for rival, call in rivals.items()),
        ]:
            started = time.perf_counter()
            call()
            times.append(time.perf_counter() - started)
    for rival, times in seconds.items():
        ratios = [b / a for a, b in zip(own, times, strict=True)]
        print(
            f"{name:<44} {rival:<14} {statistics.median(own):>9.4f} "
            f"{statistics.median(times):>9.4f} {statistics.median(ratios):>7.1f} "
            f"[{min(ratios):.1f}, {max(ratios):.1f}]  {errors[rival]:.0e}",
            flush=True,
        )


def vectors(
    name: str, graph: grf.Graph, lengthscale: float, widths: list[int], repeats: int
) -> None:
    kernel = grf.Diffusion(lengthscale=lengthscale)
    plain, ours = Plain(graph, kernel), SpectralFilter(graph, "normalized", kernel.spectrum)
    generator = sp.csr_array(graph.laplacian(True) * (-0.5 * lengthscale**2))
    trace = float(generator.diagonal().sum())
    for width in widths:
        v = np.random.default_rng(1).standard_normal((graph.n_nodes, width))
        rivals: dict[str, Callable[[], np.ndarray]] = {"scipy products": lambda v=v: plain(v)}
        if graph.n_nodes * width <= 1_000_000:
            rivals["expm_multiply"] = lambda v=v: expm_multiply(generator, v, traceA=trace)
        compare(
            f"{name}, {width} columns, degree {plain.coefficients.size - 1}",
            repeats,
            lambda v=v: ours(v),
            rivals,
        )


def units(name: str, graph: grf.Graph, lengthscale: float, n: int, repeats: int) -> None:
    kernel = grf.Diffusion(lengthscale=lengthscale)
    nodes = np.sort(np.random.default_rng(2).choice(graph.n_nodes, n, replace=False))
    plain = Plain(graph, kernel)
    compare(
        f"{name}, K[S, S] of {n} nodes, degree {plain.coefficients.size - 1}",
        repeats,
        lambda: kernel_block(graph, kernel, nodes, nodes),
        {"scipy products": lambda: plain.columns(nodes)},
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--large", action="store_true", help="a million nodes as well: minutes, 3 GiB"
    )
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    print(header("scipy"))
    with tempfile.TemporaryDirectory() as cache:
        for name in ("compiled now", "from the cache"):
            words = subprocess.run(
                [sys.executable, "-c", CODE],
                env={**os.environ, "NUMBA_CACHE_DIR": cache},
                capture_output=True,
                check=True,
            ).stdout.split()
            print(
                f"first product, {name}: {float(words[0]):.2f} s; second: {float(words[1]):.4f} s"
            )
    print(
        f"{'':<44} {'rival':<14} {'graphrf s':>9} {'rival s':>9} {'ratio':>7} [smallest, largest] "
        " difference"
    )
    repeats = arguments.repeats
    small = grid(100)
    vectors("grid 10k", small, 10.0, [1, 8, 64], repeats)
    units("grid 10k", small, 10.0, 6_000, min(repeats, 3))
    vectors("random graph 10k", random_graph(10_000, 8), 10.0, [1, 8, 64], repeats)
    vectors("cora", datasets.load("cora").graph, 10.0, [1, 8, 64], repeats)
    if arguments.large:
        large = grid(1_000)
        vectors("grid 1M", large, 10.0, [1, 2, 8], repeats)
        units("grid 1M", large, 10.0, 64, repeats)
        vectors("random graph 1M", random_graph(1_000_000, 8), 5.0, [1, 2, 8], repeats)
