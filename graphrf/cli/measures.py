"""Errors of samplers on a graph against exact rows of the kernel, and their operations, non-zeros and seconds."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel
from graphrf.operators.series.apply import apply_kernel, kernel_block
from graphrf.operators.series.series_factor import SeriesFactor
from graphrf.sampling.powers.powers import CompressedPowers, CutPowers, ExactPowers
from graphrf.sampling.sample import sample_features
from graphrf.sampling.walks.auto_lengths import AutoLengths
from graphrf.sampling.walks.lengths import SigmaCoupled
from graphrf.sampling.walks.random_walks import RandomWalks

# What powers and series may leave out of sum |f_k|.
TAIL = 1e-3
# Numbers of the exact rows, and nodes that a sampler is tried on before it is timed.
_MOST_EXACT = 20_000_000
_TRIED = 16

_SIZED: dict[str, Callable[[int, Kernel, int], Any]] = {
    "compressed": lambda size, kernel, length: CompressedPowers(size, laplacian=kernel.laplacian),
    "compressed, lengths auto": lambda size, kernel, length: CompressedPowers(
        size, lengths=AutoLengths(kernel), laplacian=kernel.laplacian
    ),
    "walks": lambda size, kernel, length: RandomWalks(size, laplacian=kernel.laplacian),
    "walks, lengths auto": lambda size, kernel, length: RandomWalks(
        size, AutoLengths(kernel), laplacian=kernel.laplacian
    ),
    "walks, sigma, independent directions": lambda size, kernel, length: RandomWalks(
        size, SigmaCoupled(0.1), directions="independent", laplacian=kernel.laplacian
    ),
    "cut": lambda size, kernel, length: CutPowers(size, length, laplacian=kernel.laplacian),
}


@dataclass(frozen=True)
class Measured:
    """A sampler on a graph: sizes are means for each node; None where it was not run, for the reason in `note`."""

    method: str
    size: int | None
    error: float | None
    spread: float | None
    operations: float
    nonzeros: float | None
    seconds: float | None
    note: str = ""


def measures(
    graph: Graph, kernel: Kernel, *, sizes: list[int], n_rows: int, repeats: int, most_work: float, seed: int
) -> Iterator[Measured]:
    """Each sampler at each size, then exact rows and the series, as soon as it is measured.

    The error is that of rows of Phi Phi^T for at most `n_rows` random nodes, in relative Frobenius norm against
    exact rows of K. What would take more than `most_work` operations is not run.
    """
    scale = kernel.check_graph(graph)
    length = kernel.truncation_length(TAIL, scale)
    rng = np.random.default_rng(seed)
    n_rows = max(1, min(n_rows, graph.n_nodes, _MOST_EXACT // graph.n_nodes))
    rows = graph.positions(np.sort(rng.permutation(graph.n_nodes)[:n_rows]))
    exact = kernel_block(graph, kernel, rows=rows)
    case = _Case(graph, kernel, rows, exact, most_work, seed)
    for method, make in _SIZED.items():
        for size in sizes:
            yield case.measured(method, size, make(size, kernel, length), 1 if method == "cut" else repeats)
    yield case.measured("exact", None, ExactPowers(length, laplacian=kernel.laplacian), 1)
    yield _series(graph, kernel, length, rng.standard_normal(graph.n_nodes))


@dataclass(frozen=True)
class _Case:
    graph: Graph
    kernel: Kernel
    rows: np.ndarray
    exact: np.ndarray
    most_work: float
    seed: int

    def measured(self, method: str, size: int | None, sampler: Any, repeats: int) -> Measured:
        """A sampler's errors and costs; a few nodes first, which compiles what is not, and tells the work."""
        n_nodes = self.graph.n_nodes
        errors, seconds = [], []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of heavy tails and cut series: the error is measured
            tried = sample_features(self.graph, sampler, nodes=self.rows[:_TRIED], seed=self.seed)
            tried.matrix(self.kernel)
            operations = tried.n_steps / tried.nodes.size
            if operations * n_nodes > self.most_work:
                return Measured(method, size, None, None, operations, None, None, "too much work")
            for number in range(repeats):
                started = time.perf_counter()
                try:
                    features = sample_features(self.graph, sampler, seed=self.seed + number)
                    phi = features.matrix(self.kernel)
                except MemoryError:
                    return Measured(method, size, None, None, operations, None, None, "too little memory")
                seconds.append(time.perf_counter() - started)
                estimate = np.asarray(phi @ phi[self.rows].toarray().T).T
                errors.append(float(np.linalg.norm(estimate - self.exact) / np.linalg.norm(self.exact)))
        spread = float(np.std(errors, ddof=1) / repeats**0.5) if repeats > 1 else None
        return Measured(
            method, size, float(np.mean(errors)), spread, features.n_steps / n_nodes, features.nnz / n_nodes,
            float(np.median(seconds)),
        )  # fmt: skip


def _series(graph: Graph, kernel: Kernel, length: int, vector: np.ndarray) -> Measured:
    """One product with K by the series, which stores nothing: its error against the product to 1e-10."""
    exact = apply_kernel(graph, kernel, vector)
    started = time.perf_counter()
    found = apply_kernel(graph, kernel, vector, tol=TAIL)
    seconds = time.perf_counter() - started
    factor = SeriesFactor(graph, laplacian=kernel.laplacian, max_length=length)
    f = kernel.modulation(length + 1, kernel.check_graph(graph))
    operations = 2 * factor.n_products(f) * graph.walk_matrix(kernel.laplacian).nnz / graph.n_nodes
    error = float(np.linalg.norm(found - exact) / np.linalg.norm(exact))
    return Measured("series, a product", None, error, None, operations, 0.0, seconds)
