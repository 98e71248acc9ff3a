"""Errors of samplers on a graph against exact rows of the kernel, and their operations, non-zeros
and seconds.
"""

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

# Fraction of sum |f_k| that powers and series may leave out.
TAIL = 1e-3
# Most numbers in the exact rows, and nodes of a first
# sample, which compiles loops and counts the operations.
_MOST_EXACT = 20_000_000
_FIRST = 16

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
    """A sampler on a graph: sizes are means for each node; None where it was not run, for the
    reason in `note`.
    """

    method: str
    size: int | None
    operations: float
    error: float | None = None
    standard_error: float | None = None
    nonzeros: float | None = None
    seconds: float | None = None
    note: str = ""


def measures(
    graph: Graph,
    kernel: Kernel,
    *,
    sizes: list[int],
    n_rows: int,
    repeats: int,
    most_work: float,
    seed: int,
) -> Iterator[Measured]:
    """Each sampler at each size, then exact rows and the series, as soon as it is measured.

    The error is that of rows of Phi Phi^T for at most `n_rows` random nodes, in relative Frobenius
    norm against exact rows of K. What would take more than `most_work` operations is not run.
    """
    length = kernel.truncation_length(TAIL, kernel.check_graph(graph))
    rng = np.random.default_rng(seed)
    n_rows = max(1, min(n_rows, graph.n_nodes, _MOST_EXACT // graph.n_nodes))
    rows = graph.positions(np.sort(rng.permutation(graph.n_nodes)[:n_rows]))
    exact = kernel_block(graph, kernel, rows=rows)
    samplers = [
        (method, size, make(size, kernel, length), 1 if method == "cut" else repeats)
        for method, make in _SIZED.items()
        for size in sizes
    ]
    for method, size, sampler, n_repeats in [
        *samplers,
        ("exact", None, ExactPowers(length, laplacian=kernel.laplacian), 1),
    ]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of heavy tails and cut series: the error is measured
            first = sample_features(graph, sampler, nodes=rows[:_FIRST], seed=seed)
            first.matrix(kernel)
            operations = first.n_steps / first.nodes.size
            if operations * graph.n_nodes > most_work:
                yield Measured(method, size, operations, note="too much work")
                continue
            try:
                yield _repeated(
                    method, size, graph, kernel, sampler, rows, exact, range(seed, seed + n_repeats)
                )
            except MemoryError:
                yield Measured(method, size, operations, note="too little memory")
    yield _series(graph, kernel, length, rng.standard_normal(graph.n_nodes))


def _repeated(
    method: str,
    size: int | None,
    graph: Graph,
    kernel: Kernel,
    sampler: Any,
    rows: np.ndarray,
    exact: np.ndarray,
    seeds: range,
) -> Measured:
    """Mean error and median time of samples with several seeds."""
    errors, seconds = [], []
    for seed in seeds:
        started = time.perf_counter()
        features = sample_features(graph, sampler, seed=seed)
        phi = features.matrix(kernel)
        seconds.append(time.perf_counter() - started)
        estimate = np.asarray(phi @ phi[rows].toarray().T).T
        errors.append(float(np.linalg.norm(estimate - exact) / np.linalg.norm(exact)))
    standard_error = float(np.std(errors, ddof=1) / len(errors) ** 0.5) if len(errors) > 1 else None
    return Measured(
        method,
        size,
        features.n_steps / graph.n_nodes,
        float(np.mean(errors)),
        standard_error,
        features.nnz / graph.n_nodes,
        float(np.median(seconds)),
    )


def _series(graph: Graph, kernel: Kernel, length: int, vector: np.ndarray) -> Measured:
    """One product with K by the series, which stores nothing: its error against the product to
    1e-10.
    """
    exact = apply_kernel(graph, kernel, vector)
    started = time.perf_counter()
    found = apply_kernel(graph, kernel, vector, tol=TAIL)
    seconds = time.perf_counter() - started
    factor = SeriesFactor(graph, laplacian=kernel.laplacian, max_length=length)
    f = kernel.modulation(length + 1, kernel.check_graph(graph))
    operations = 2 * factor.n_products(f) * graph.walk_matrix(kernel.laplacian).nnz / graph.n_nodes
    error = float(np.linalg.norm(found - exact) / np.linalg.norm(exact))
    return Measured("series, a product", None, operations, error, None, 0.0, seconds)
