"""The spectrum of a walk matrix as a quadrature: exact, or by stochastic Lanczos if large."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh_tridiagonal

from graphrf._base.blas import blas_threads
from graphrf.graph.graph import Graph

# Up to here all eigenvalues take a few seconds at most.
_DENSE_NODES = 1_000
# Probes on moderate graphs; and on larger ones so few that together they have about this many
# entries, which is enough because the variance falls as one over it.
_MOST_PROBES = 8
_PROBE_ENTRIES = 1_000_000


def density_of_states(
    graph: Graph,
    laplacian: str,
    rng: np.random.Generator,
    n_probes: int | None = None,
    n_steps: int = 60,
) -> tuple[np.ndarray, np.ndarray]:
    """Points and weights with sum_p weight_p g(point_p) about (1/N) trace g(W).

    Exact on graphs of at most 1,000 nodes. Above, stochastic Lanczos quadrature: from each of
    `n_probes` random sign vectors z / sqrt(N), `n_steps` of Lanczos give a Gauss rule for z^T g(W)
    z / N, exact for polynomials of degree below 2 n_steps but for the probes' variance, which falls
    as 1 / (N n_probes): by default 8 probes up to 125,000 nodes, 1 from 500,001 on. The eigenvalue
    1, whose weight matters most, has a known eigenvector on every component and is treated exactly.
    Memory for 4 n_probes vectors of N floats.

    Source: Ubaru, Chen and Saad, SIAM J. Matrix Anal. Appl. 38 (2017).
    """
    walk_matrix = graph.walk_matrix(laplacian)
    n = graph.n_nodes
    if n <= _DENSE_NODES:
        # The bits depend on their number, and two take longer up to some hundred nodes.
        with blas_threads(1):
            return np.linalg.eigvalsh(walk_matrix.toarray()), np.full(n, 1.0 / n)
    if n_probes is None:
        n_probes = max(1, min(_MOST_PROBES, _PROBE_ENTRIES // n))
    labels = graph.components()
    top = np.sqrt(graph.walk_degrees) if laplacian == "normalized" else np.ones(n)
    squares = np.bincount(labels, top**2)
    probes = []
    for _ in range(n_probes):
        probe = rng.integers(0, 2, n) * 2.0 - 1.0
        probe -= top * (np.bincount(labels, top * probe) / squares)[labels]
        norm = float(np.linalg.norm(probe))
        if norm >= 1e-9 * np.sqrt(n):  # else nothing is left, where nearly all nodes are isolated
            probes.append(probe / norm)
    rules = []
    for diagonal, off in _lanczos(walk_matrix, np.column_stack(probes), n_steps) if probes else []:
        ritz, vectors = eigh_tridiagonal(diagonal, off)
        rules.append((ritz, vectors[0] ** 2))
    points, weights = [np.ones(1)], [np.array([squares.size / n])]
    for ritz, shares in rules:
        points.append(ritz)
        weights.append(shares * (1 - squares.size / n) / len(rules))
    return np.concatenate(points), np.concatenate(weights)


def _lanczos(
    matrix: sp.csr_array, start: np.ndarray, n_steps: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Diagonal and off-diagonal of each column's tridiagonal matrix; columns have norm 1.

    The matrix is read once for all columns, and sums are made outside of BLAS, whose threads wait
    for each other longer than these sums take. Without reorthogonalisation: the vectors lose their
    orthogonality, which splits an eigenvalue into close copies that share its weight, and leaves
    the quadrature as it was (Chen, Trogdon and Ubaru, ICML 2021).
    """
    n, width = start.shape
    n_steps = min(n_steps, n)
    diagonal, off = np.zeros((n_steps, width)), np.zeros((n_steps, width))
    lengths = np.full(width, n_steps)
    vectors, previous, norms = start, np.zeros_like(start), np.zeros(width)
    for step in range(n_steps):
        images = matrix @ vectors
        previous *= norms
        images -= previous
        diagonal[step] = np.einsum("ij,ij->j", images, vectors)
        images -= np.multiply(vectors, diagonal[step], out=previous)
        norms = np.sqrt(np.einsum("ij,ij->j", images, images))
        ended = norms < 1e-12
        lengths = np.where(ended, np.minimum(lengths, step + 1), lengths)
        if ended.all():
            break
        off[step] = norms
        images *= np.divide(1.0, norms, out=np.zeros(width), where=~ended)
        previous, vectors = vectors, images
    return [
        (diagonal[:length, column], off[: length - 1, column])
        for column, length in enumerate(lengths)
    ]
