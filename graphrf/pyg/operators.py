"""Sparse diffusion operators on graphs: the largest entries of every row, and their scaling."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from graphrf._base import checks
from graphrf._base.threads import ordered_map, thread_count
from graphrf._base.warn import warn
from graphrf.features.bounds import HEAVY, HeavyTailWarning, TruncationWarning, termination_variance
from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel
from graphrf.pagerank.local import local_pagerank
from graphrf.pyg.loops import largest_entries
from graphrf.sampling.powers.powers import CompressedPowers
from graphrf.sampling.protocol import Sampler
from graphrf.sampling.sample import sample_features
from graphrf.sampling.walks.lengths import Survival

NORMALIZATIONS = ("sym", "row", "none")

# Nodes whose records are held at once, by a thread or by all.
_BLOCK = 16_384
# A kernel's series is cut where its remainder is below
# this fraction, and at this number of steps at most.
_TAIL, _MOST_STEPS = 1e-3, 1_000
# Terms of a series from which tails are read.
_TERMS = 8 * _MOST_STEPS
# Entries that powers are compressed to, for each one that a row keeps.
_BUDGET = 4
# Fraction of a series that may be missing without a warning, and without an error.
_MUCH = 0.05
_AT_ALL = 0.99
# The apparent remainder after the last term that rounding may cause, as a fraction of the series.
_ROUNDING = 1e-9


def kernel_diffusion(
    graph: Graph,
    kernel: Kernel,
    k: int,
    sampler: Sampler | None,
    normalization: str,
    seed: int,
    block: int = _BLOCK,
) -> sp.csr_array:
    """The k largest entries of every row of K, or of its random-walk form, estimated; scaled.

    Features with the Taylor coefficients of K in place of its modulation are estimates of the rows
    of K itself. "row" takes them times sqrt(d_v / d_i), sum_r alpha_r P^r, whose rows have one sum.
    See `scaled`.
    """
    scale = kernel.check_graph(graph)
    alpha = kernel.taylor(_TERMS, scale=scale)
    if normalization != "none" and alpha.min() < 0:
        raise checks.value_error(
            "normalization",
            f"must be 'none' for {kernel!r}, whose series has negative terms, got "
            f"{normalization!r}",
        )

    # The remainder after these terms is the rest of K's
    # eigenvalue at 0, where none of them is negative.
    total = float(kernel.spectrum(0.0, scale))
    remainder = total - float(alpha.sum())
    tails = np.append(np.abs(alpha)[::-1].cumsum()[::-1], 0.0)
    if remainder > _ROUNDING * total:
        tails += remainder
    tails = tails / tails[0]

    if sampler is None:
        sampler = _suited(tails, k, kernel.laplacian)
    if kernel.laplacian != sampler.laplacian:
        raise checks.value_error(
            "sampler",
            f"must walk for the {kernel.laplacian} Laplacian of `kernel`, got one for the "
            f"{sampler.laplacian} one",
        )

    blocks = [
        np.arange(start, min(start + block, graph.n_nodes))
        for start in range(0, graph.n_nodes, block)
    ]
    root = np.sqrt(graph.walk_degrees)
    by_walks = normalization == "row" and kernel.laplacian == "normalized"

    def of_block(nodes: np.ndarray) -> tuple[sp.csr_array, np.ndarray]:
        # Threads take blocks of nodes here, not inside.
        features = sample_features(graph, sampler, nodes=nodes, seed=seed, n_threads=1)
        rows = features.matrix_from_modulation(alpha, n_threads=1)
        if by_walks:
            # The rows' own roots do not change their order, nor what is kept.
            rows.data *= root[rows.indices]
        return cut_rows(rows, k), features.info.survival

    parts = list(ordered_map(of_block, blocks, thread_count(None)))
    _warn_of_mismatch(kernel, alpha, tails, parts[0][1])
    return scaled(sp.csr_array(sp.vstack([part for part, _ in parts], format="csr")), normalization)


def _warn_of_mismatch(
    kernel: Kernel, alpha: np.ndarray, tails: np.ndarray, survival: np.ndarray
) -> None:
    """Warn where a sampler's records end too early for the series, or are too few."""
    n = min(survival.size, alpha.size)
    left = float(tails[n])
    if left > _AT_ALL:
        raise checks.value_error(
            "kernel",
            f"is {kernel!r}, of whose series {left:.4g} is left where the sampler ends, after "
            f"{n - 1} steps; shorten its lengthscale, or pass a `sampler` with a larger max_length",
        )

    if left > _MUCH:
        warn(
            f"the sampler ends after {n - 1} steps, where {left:.2g} of the series of {kernel!r} "
            "remains: rows of the diffusion sum to that much less; pass a `sampler` with a larger "
            "max_length, or a shorter kernel",
            TruncationWarning,
        )

    heavy, plain = termination_variance(alpha, survival)
    if heavy > HEAVY * plain:
        warn(
            f"these walks end too early for {kernel!r}: sum alpha_r^2 / S(r) = {heavy:.3g} against "
            f"{plain:.3g} without termination; pass a `sampler` with a smaller p_halt, or none",
            HeavyTailWarning,
        )


def _suited(tails: np.ndarray, k: int, laplacian: str) -> CompressedPowers:
    """Powers whose budgets fall with the square root of the remainder of the series.

    What compressing x_r adds goes into all later terms. At equal operations the root has as much
    error on a citation graph, and less on a scale-free one, as budgets in proportion to the
    remainder.
    """
    length = min(int(np.flatnonzero(tails > _TAIL)[-1]), _MOST_STEPS)
    return CompressedPowers(
        _BUDGET * k, lengths=Survival(np.sqrt(tails[: length + 1])), laplacian=laplacian
    )


def pagerank_diffusion(
    graph: Graph,
    k: int,
    p_halt: float,
    max_residual: float,
    normalization: str,
    block: int = _BLOCK,
) -> sp.csr_array:
    """The k largest PageRank scores of every node, by pushing; for "sym" D^1/2 Pi D^-1/2."""
    parts = []
    for start in range(0, graph.n_nodes, block):
        nodes = np.arange(start, min(start + block, graph.n_nodes))
        found = local_pagerank(graph, nodes, k=k, p_halt=p_halt, max_residual=max_residual)
        parts.append(found.scores.astype(np.float32))
    scores = sp.csr_array(sp.vstack(parts, format="csr"))
    if normalization == "sym":
        roots = np.sqrt(graph.walk_degrees)
        scores = _over(scores, 1.0 / roots, roots)
    return scaled(scores, normalization)


def cut_rows(rows: sp.csr_array, k: int) -> sp.csr_array:
    """The k entries of largest size in each row; zeros are dropped, early ones win ties."""
    indptr, indices, data = largest_entries(rows.indptr, rows.indices, rows.data, k)
    return sp.csr_array((data, indices, indptr), shape=rows.shape)


def scaled(matrix: sp.csr_array, normalization: str) -> sp.csr_array:
    r"""A cut operator M >= 0, scaled: "none" leaves it, "row" divides each row by its sum, and

    "sym" gives D^-1/2 S D^-1/2 with the row sums D of S, symmetric with a spectrum in [-1, 1]. S is
    the mean of M and M^T where both have an entry, and the entry where one has it: the other one
    was cut, it is not zero.
    """
    if normalization == "none":
        return matrix
    if normalization == "row":
        return _over(matrix, np.asarray(matrix.sum(axis=1)), np.ones(matrix.shape[1]))
    pattern = sp.csr_array(
        (np.ones(matrix.nnz, np.float32), matrix.indices, matrix.indptr), shape=matrix.shape
    )
    both = sp.csr_array(matrix + matrix.T)
    both.sort_indices()
    times = sp.csr_array(pattern + pattern.T)
    times.sort_indices()
    both.data /= times.data
    roots = np.sqrt(np.asarray(both.sum(axis=1)))
    return _over(both, roots, roots)


def _over(matrix: sp.csr_array, of_rows: np.ndarray, of_columns: np.ndarray) -> sp.csr_array:
    """The matrix with entries over their row's and column's number; 1 in place of 0."""
    of_rows, of_columns = (np.where(of > 0, of, 1.0) for of in (of_rows, of_columns))
    # One division by the product, which rounds (i, j) as (j, i).
    data = matrix.data / (
        np.repeat(of_rows, np.diff(matrix.indptr)).astype(float) * of_columns[matrix.indices]
    )
    return sp.csr_array(
        (data.astype(np.float32), matrix.indices, matrix.indptr), shape=matrix.shape
    )
