"""The spectrum of a walk matrix as a quadrature: exact on small graphs, by stochastic Lanczos on large ones."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh_tridiagonal

from graphrf._base.blas import blas_threads
from graphrf.graph.graph import Graph

# Up to here all eigenvalues take a few seconds at most.
_DENSE_NODES = 1_000
# Probes on moderate graphs; and on larger ones so few that together they have about this many entries, which is
# enough because the variance falls as one over it.
_MOST_PROBES = 8
_PROBE_ENTRIES = 1_000_000


def density_of_states(
    graph: Graph, laplacian: str, rng: np.random.Generator, n_probes: int | None = None, n_steps: int = 60
) -> tuple[np.ndarray, np.ndarray]:
    r"""Points and weights with sum_p weight_p g(point_p) about (1/N) trace g(W).

    Exact on graphs of at most 1,000 nodes. Beyond, stochastic Lanczos quadrature: from each of `n_probes` random
    sign vectors z / sqrt(N), `n_steps` of Lanczos give a Gauss rule for z^T g(W) z / N, exact for polynomials of
    degree below 2 n_steps but for the probes' variance, which falls as 1 / (N n_probes). Hence the default number
    of probes: 8 up to 125,000 nodes, 1 from 500,001 on. The eigenvalue 1, whose share matters most, has a known
    eigenvector on every component and is treated exactly.

    Source: Ubaru, Chen and Saad, SIAM J. Matrix Anal. Appl. 38 (2017).

    Cost: n_probes n_steps sparse products, and memory for four vectors of N floats.
    """
    walk_matrix = graph.walk_matrix(laplacian)
    n = graph.n_nodes
    if n <= _DENSE_NODES:
        with blas_threads(1):  # the bits depend on their number, and two take longer up to some hundred nodes
            return np.linalg.eigvalsh(walk_matrix.toarray()), np.full(n, 1.0 / n)
    if n_probes is None:
        n_probes = max(1, min(_MOST_PROBES, _PROBE_ENTRIES // n))
    labels = graph.components()
    top = np.sqrt(graph.walk_degrees) if laplacian == "normalized" else np.ones(n)
    squares = np.bincount(labels, top**2)
    rules = []
    for _ in range(n_probes):
        probe = rng.integers(0, 2, n) * 2.0 - 1.0
        probe -= top * (np.bincount(labels, top * probe) / squares)[labels]
        norm = float(np.linalg.norm(probe))
        if norm < 1e-9 * np.sqrt(n):  # nothing is left where nearly all nodes are isolated
            continue
        diagonal, off = _lanczos(walk_matrix, probe / norm, n_steps)
        ritz, vectors = eigh_tridiagonal(diagonal, off)
        rules.append((ritz, vectors[0] ** 2))
    points, weights = [np.ones(1)], [np.array([squares.size / n])]
    for ritz, shares in rules:
        points.append(ritz)
        weights.append(shares * (1 - squares.size / n) / len(rules))
    return np.concatenate(points), np.concatenate(weights)


def _lanczos(matrix: sp.csr_array, start: np.ndarray, n_steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Diagonal and off-diagonal of the tridiagonal matrix; `start` has norm 1.

    Without reorthogonalisation: the vectors lose their orthogonality, which splits an eigenvalue into close copies
    that share its weight, and leaves the quadrature as it was (Chen, Trogdon and Ubaru, ICML 2021).
    """
    n_steps = min(n_steps, start.size)
    diagonal, off = [], []
    vector, previous, norm = start, np.zeros_like(start), 0.0
    for step in range(n_steps):
        image = matrix @ vector
        image -= norm * previous
        diagonal.append(float(image @ vector))
        image -= diagonal[-1] * vector
        norm = float(np.linalg.norm(image))
        if step + 1 == n_steps or norm < 1e-12:
            break
        off.append(norm)
        image /= norm
        previous, vector = vector, image
    return np.array(diagonal), np.array(off)
