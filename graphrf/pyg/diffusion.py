"""Transforms for PyTorch Geometric that replace edges: diffusion and personalised PageRank.

Each is a `torch_geometric.transforms.BaseTransform` for homogeneous `Data`. None forms a dense N x
N matrix, and graphs with isolated nodes, without edges or without nodes are allowed. Results lie on
the device of `edge_index`. The same seed gives the same bits; `seed=None` draws one when the
transform is created and keeps it, so that copies in the workers of a `DataLoader` agree.

Edges carry the attribute `weight` if the data have it: "edge_weight" may be missing, as in PyTorch
Geometric, another name may not; None ignores weights. Repeated edges are treated as by
`graphrf.load_graph`. A `Batch` is treated as one graph, and the result cannot be split by
`to_data_list`: transform graphs before batching them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from graphrf._base import checks
from graphrf.kernels.kernel import Kernel
from graphrf.pyg.data import EDGE_WEIGHT, check_settings, graph_of, undirected, with_edges
from graphrf.pyg.operators import NORMALIZATIONS, kernel_diffusion, pagerank_diffusion
from graphrf.sampling.protocol import Sampler


@dataclass(frozen=True)
class GRFDiffusion(BaseTransform):
    r"""Replaces the graph by a sparse kernel diffusion: for every node the k nodes of largest K_ij.

    What `torch_geometric.transforms.GDC` does, for any kernel K = sum_r alpha_r W^r of `graphrf`,
    with weights, without forming a dense matrix. Row i is estimated from the powers or walks of
    node i alone,

    .. math:: \phi(i) = \sum_r \alpha_r x_r, \qquad E[x_r] = W^r e_i, \qquad E[\phi(i)] = K e_i,

    and its k largest entries are kept. GDC's personalised PageRank with return probability p is
    `RegularizedLaplacian(((1 - p) / p) ** 0.5, 1)`, and its heat kernel with time t is
    `Diffusion((2 * t) ** 0.5)`, both after `torch_geometric.transforms.AddSelfLoops()`, which GDC
    applies by itself.

    Source: Klicpera, Weißenberger and Günnemann, "Diffusion improves graph learning", NeurIPS 2019,
    Eqs. 1 to 4; the estimate is that of graph random features (Reid et al. 2024, Eq. 50) with alpha
    in place of f.

    Parameters
    ----------
    kernel : Kernel
    k : int
        Number of entries kept in each row, at least 1. The node itself counts like any other.
    sampler : Sampler, optional
        Estimates the rows, with the kernel's Laplacian (TruncationWarning or HeavyTailWarning if it
        does not suit the series). Default: `CompressedPowers(4 k)`, with budgets that fall as the
        square root of the rest of the series, until 0.1 % of it remains, at most 1,000 steps.
        `ExactPowers` makes rows exact, for graphs that allow it.
    normalization : {"sym", "row", "none"}
        "sym": D^-1/2 S D^-1/2, S being the cut rows M and M^T averaged where both have an entry,
        else the one that is there, and D its row sums. Symmetric with a spectrum in [-1, 1], up to
        2 k N edges: for `GCNConv(normalize=False)`.

        "row": D^-1/2 K D^1/2 = sum_r alpha_r P^r is estimated and cut instead, and the weights of
        the edges into every node sum to 1: weighted means over neighbours, as in PPRGo; GDC calls
        it "col".

        "none": the estimates of K_ij, kept by size. The only choice for kernels whose series has
        negative terms.
    weight : str or None
        Edge attribute with the weights, replaced by the new ones. None ignores weights, and the new
        ones are "edge_weight".
    attr_name : str, optional
        None replaces `edge_index` and the weights. A name keeps them, and the diffusion goes to
        `{name}_index`, which PyTorch Geometric's batches number as `edge_index`, and
        `{name}_weight`.
    seed : int in [0, 2^63), optional

    Raises
    ------
    TypeError, ValueError
        For heterogeneous data and for directed edges (`ToUndirected()` drops the directions); if
        `edge_index` is to be replaced while other attributes belong to the old edges.

    Notes
    -----
    An isolated node gets a loop: W_ii = 1 there. `edge_index[0]` is the source and column j,
    `edge_index[1]` the target and row i; edges are sorted by source, then target. Cost of the
    default: at most 8 k sum_r (sum_{l >= r} alpha_l / sum_l alpha_l)^(1/2) multiply-adds per node;
    memory of the result, 20 bytes per edge, twice over, and of the powers of 16,384 nodes for each
    thread.

    Examples
    --------
    >>> import torch, graphrf as grf
    >>> from torch_geometric.data import Data
    >>> from graphrf.pyg import GRFDiffusion
    >>> data = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=4)
    >>> GRFDiffusion(grf.Diffusion(2.0), k=2, normalization="row", seed=0)(data)
    Data(edge_index=[2, 7], num_nodes=4, edge_weight=[7])
    """

    kernel: Kernel
    k: int = 32
    sampler: Sampler | None = field(default=None, kw_only=True)
    normalization: str = field(default="sym", kw_only=True)
    weight: str | None = field(default=EDGE_WEIGHT, kw_only=True)
    attr_name: str | None = field(default=None, kw_only=True)
    seed: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        checks.integer("k", self.k, low=1)
        checks.choice("normalization", self.normalization, NORMALIZATIONS)
        check_settings(self)

    def forward(self, data: Data) -> Data:
        """`data` with the diffusion instead of its edges, or in addition to them."""
        graph = undirected(graph_of(data, self.weight))
        if graph is None:
            return with_edges(
                data, sp.csr_array((0, 0), dtype=np.float32), self.weight, self.attr_name
            )
        k = min(self.k, graph.n_nodes)
        assert self.seed is not None
        operator = kernel_diffusion(
            graph, self.kernel, k, self.sampler, self.normalization, self.seed
        )
        return with_edges(data, operator, self.weight, self.attr_name)


@dataclass(frozen=True)
class PersonalizedPageRank(BaseTransform):
    r"""Replaces the graph by personalised PageRank: for every node the k nodes of largest score.

    Row i is the distribution of the node where a walk from i halts, if it halts before each step
    with probability p,

    .. math:: \Pi = p \sum_r (1 - p)^r P^r, \qquad P = D^{-1} A,

    approximated from below by pushing (`graphrf.pagerank.local_pagerank`), which is deterministic
    and local to i. This is PPRGo's matrix; `torch_geometric.transforms.GDC(exact=False)` computes
    it without weights and keeps all scores above a threshold.

    Source: Bojchevski et al., "Scaling graph neural networks with approximate PageRank", KDD 2020,
    Sec. 3; pushing: Andersen, Chung and Lang, FOCS 2006.

    Parameters
    ----------
    k, weight, attr_name
        As for `GRFDiffusion`, which has the errors too; directed edges are refused with "sym"
        alone.
    p_halt : float in (0, 1)
        p, GDC's alpha.
    max_residual : float > 0
        Pushing ends when no node holds more residual than this for each of its edges: GDC's eps. On
        an undirected graph with equal weights a score of node j is too small by at most this times
        the number of j's edges.
    normalization : {"row", "sym", "none"}
        How the cut rows are scaled. "row": weights of the edges into every node sum to 1. "sym",
        for undirected graphs: D^1/2 Pi D^-1/2, then as for `GRFDiffusion`. "none": the scores.

    Notes
    -----
    Walks follow the direction of directed edges, and the new edges point to the node where a walk
    started: a paper aggregates from what it cites. From a node without out-edges a walk jumps back
    to its start.

    Cost: at most 1 / (p max_residual) edges read per node; memory of the result, 20 bytes per edge,
    twice over.

    Examples
    --------
    >>> import torch
    >>> from torch_geometric.data import Data
    >>> from graphrf.pyg import PersonalizedPageRank
    >>> data = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=4)
    >>> PersonalizedPageRank(k=2)(data)
    Data(edge_index=[2, 7], num_nodes=4, edge_weight=[7])
    """

    k: int = 32
    p_halt: float = field(default=0.15, kw_only=True)
    max_residual: float = field(default=1e-4, kw_only=True)
    normalization: str = field(default="row", kw_only=True)
    weight: str | None = field(default=EDGE_WEIGHT, kw_only=True)
    attr_name: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        checks.integer("k", self.k, low=1)
        checks.number("p_halt", self.p_halt, low=0, high=1, include_low=False, include_high=False)
        checks.number("max_residual", self.max_residual, low=0, include_low=False)
        checks.choice("normalization", self.normalization, NORMALIZATIONS)
        check_settings(self)

    def forward(self, data: Data) -> Data:
        """`data` with the scores in place of its edges, or beside them."""
        graph = graph_of(data, self.weight)
        if self.normalization == "sym":
            graph = undirected(graph)
        if graph is None:
            return with_edges(
                data, sp.csr_array((0, 0), dtype=np.float32), self.weight, self.attr_name
            )
        operator = pagerank_diffusion(
            graph, self.k, self.p_halt, self.max_residual, self.normalization
        )
        return with_edges(data, operator, self.weight, self.attr_name)
