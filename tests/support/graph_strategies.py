"""Hypothesis strategies for small graphs of every kind that is legal, and what is done to them."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

import graphrf as grf

# Exponents (of 10) that a graph's weights span; degrees then neither overflow nor vanish.
DECADES = 12
# Of tests whose inputs take longer: 10 in `make test`, 20 in `make test-more`.
slower = settings(max_examples=max(10, settings.default.max_examples // 15))


@st.composite
def edge_lists(
    draw: Any, max_nodes: int = 12, weighted: bool | None = None, decades: int = DECADES
) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    """Number of nodes, both ends and weights of edges.

    One of: a few edges anywhere (loops and parallel ones among them), a star, a clique, a path, a
    cycle, a complete bipartite graph, no edges; on some of the nodes, the others being isolated.
    """
    n = draw(st.integers(1, max_nodes))
    used = draw(st.integers(1, n))
    kind = draw(st.sampled_from(["some", "star", "clique", "path", "cycle", "bipartite", "none"]))
    if kind == "some":
        node = st.integers(0, n - 1)
        pairs = draw(st.lists(st.tuples(node, node), max_size=2 * n))
    elif kind == "star":
        pairs = [(0, v) for v in range(1, used)]
    elif kind == "clique":
        pairs = list(combinations(range(used), 2))
    elif kind == "path":
        pairs = list(pairwise(range(used)))
    elif kind == "cycle":
        pairs = [(v, (v + 1) % used) for v in range(used)] if used > 2 else []
    elif kind == "bipartite":
        pairs = [(u, v) for u in range(used // 2) for v in range(used // 2, used)]
    else:
        pairs = []
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    # Isolated nodes and the hub then do not depend on positions.
    order = rng.permutation(n)
    if weighted is None:
        weighted = draw(st.booleans())
    weights = (
        10 ** rng.uniform(-decades / 2, decades / 2, len(ends)) if weighted else np.ones(len(ends))
    )
    return n, order[ends[:, 0]], order[ends[:, 1]], weights


@st.composite
def graphs(draw: Any, directed: bool = False, **options: Any) -> grf.Graph:
    """Graphs of `edge_lists`."""
    n, src, dst, weight = draw(edge_lists(**options))
    return grf.from_edges(src, dst, weight, n_nodes=n, directed=directed)


def permutations(n: int, seed: int) -> np.ndarray:
    """A permutation of n positions."""
    return np.random.default_rng(seed).permutation(n)


def relabelled(graph: grf.Graph, order: np.ndarray) -> grf.Graph:
    """The graph whose node i is node order[i] of `graph`."""
    return grf.Graph(graph.adjacency[order][:, order], directed=graph.directed)


def union(first: grf.Graph, second: grf.Graph) -> grf.Graph:
    """Both graphs side by side, the nodes of the first in front."""
    import scipy.sparse as sp

    return grf.Graph(
        sp.block_diag([first.adjacency, second.adjacency], format="csr"), directed=first.directed
    )


# Kernels of either Laplacian that every graph can have.
KERNELS = [
    grf.Diffusion(1.5),
    grf.RegularizedLaplacian(1.0, 1.5),
    grf.Matern(1.5, 2.0),
    grf.kernels.PStepRandomWalk(2.5, 3),
    grf.kernels.InverseCosine(),
    grf.kernels.PowerSeries(taylor=[1.0, 0.5, 0.25]),
    grf.kernels.PowerSeries(modulation=[1.0, -0.5, 0.25]),
    grf.kernels.LearnedModulation(3, (0.7, 0.4, -0.2, 0.1)),
]
kernels = st.sampled_from(KERNELS)
# Kernels of the combinatorial Laplacian, which depend on the scale of the weights.
COMBINATORIAL = [
    grf.Diffusion(1.5, laplacian="combinatorial"),
    grf.RegularizedLaplacian(1.0, 1.5, laplacian="combinatorial"),
    grf.Matern(1.5, 2.0, laplacian="combinatorial"),
    grf.kernels.PowerSeries(modulation=[1.0, -0.5, 0.25], laplacian="combinatorial"),
    grf.kernels.LearnedModulation(3, (0.7, 0.4, -0.2, 0.1), laplacian="combinatorial"),
]
seeds = st.integers(0, 2**32 - 1)
