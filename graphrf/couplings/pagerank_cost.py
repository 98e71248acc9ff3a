r"""The matching cost of PageRank: Eq. 82 of the paper, from exact rows of powers of P."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from graphrf.couplings.quantiles import tile_survival
from graphrf.graph.graph import Graph, require_graph
from graphrf.sampling.walks.lengths import Survival


@dataclass(frozen=True)
class SourceCosts:
    """Numbers of sources whose rows are computed, and how many of these at once."""

    # Up to this number of nodes every source is used. On larger graphs the number of sources is
    # limited by the multiply-adds, but has a minimum.
    all_sources: int = 1_000
    fewest_sources: int = 8
    work: int = 4 * 10**9
    # Floats in the rows of all tiles that are held at once (128 MiB).
    block_floats: int = 2**24


def pagerank_cost(
    graph: Graph,
    survival: Survival,
    order: int,
    *,
    rng: np.random.Generator,
    costs: SourceCosts = SourceCosts(),
) -> np.ndarray:
    r"""C[a, b]: how often two walks from a node, of tiles a and b, end at the same node, summed.

    .. math:: C_{ab} = \langle P_a, P_b \rangle_F, \qquad
              P_a = \sum_k P(\text{length} = k \mid \text{tile } a)\, P^k, \qquad P = D^{-1} A.

    The permutation that minimises sum_q C[q, sigma(q)] has the least variance
    (`docs/theory/couplings.md`; the paper, App. E.2, Eqs. 80-82). Rows of P are zero at dangling
    nodes. Exact on graphs of at most 1,000 nodes; above, N / R times the sum over R sources drawn
    without replacement: an unbiased estimate, with R such that R K max(nnz, N) is at most 4e9 for K
    steps, but at least 8. Memory: about 128 MiB, or (order + 3) N floats if that is more.

    Examples
    --------
    >>> import numpy as np
    >>> import graphrf as grf
    >>> star = grf.Graph([[0, 1, 1], [1, 0, 0], [1, 0, 0]])
    >>> cost = pagerank_cost(
    ...     star, grf.sampling.Survival([1.0, 0.5]), 2, rng=np.random.default_rng(0)
    ... )
    >>> cost    # the first tile stays at its node, the second makes one step
    array([[3. , 0. ],
           [0. , 2.5]])
    """
    require_graph(graph)
    probability = -np.diff(tile_survival(survival, order), append=0.0)
    n_nodes = graph.n_nodes
    adjacency = graph.adjacency
    # Divided, not multiplied by inverses, which overflow for the smallest degrees.
    shares = adjacency.data / np.repeat(graph.degrees, np.diff(adjacency.indptr))
    # Columns of (P^T)^k are rows of P^k.
    step = sp.csr_array(
        (shares, adjacency.indices, adjacency.indptr), shape=adjacency.shape
    ).T.tocsr()
    if n_nodes <= costs.all_sources:
        sources = np.arange(n_nodes)
    else:
        affordable = costs.work // (survival.table.size * max(step.nnz, n_nodes))
        n_sources = min(max(affordable, costs.fewest_sources), n_nodes)
        sources = rng.choice(n_nodes, n_sources, replace=False)
    cost = np.zeros((order, order))
    width = max(1, costs.block_floats // (order * n_nodes))
    for first in range(0, sources.size, width):
        tiles = _tile_rows(step, probability, sources[first : first + width])
        cost += tiles @ tiles.T
    return cost * (n_nodes / sources.size)


def _tile_rows(step: sp.csr_array, probability: np.ndarray, sources: np.ndarray) -> np.ndarray:
    """Rows of every P_a for some sources, flattened: shape (order, N n_sources)."""
    order, n_lengths = probability.shape
    ends = np.zeros((step.shape[0], sources.size))
    ends[sources, np.arange(sources.size)] = 1.0
    tiles = np.zeros((order, *ends.shape))
    for k in range(n_lengths):
        for tile in np.flatnonzero(probability[:, k]):
            tiles[tile] += probability[tile, k] * ends
        if k + 1 < n_lengths:
            ends = step @ ends
    return tiles.reshape(order, -1)
