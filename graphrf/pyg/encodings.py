"""Random features and return probabilities as attributes of nodes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from graphrf._base import checks
from graphrf.kernels.kernel import Kernel
from graphrf.operators.series.apply import apply_root
from graphrf.pyg.data import EDGE_WEIGHT, check_settings, graph_of, undirected, with_node_attribute
from graphrf.pyg.returns import return_probabilities
from graphrf.sampling.powers.powers import CompressedPowers
from graphrf.sampling.protocol import Sampler
from graphrf.sampling.sample import sample_features

# Columns of random features that are made at once, and the
# error of the exact ones relative to the largest root.
_COLUMNS, _TOLERANCE = 16, 1e-6


@dataclass(frozen=True)
class AddRandomFeatures(BaseTransform):
    r"""Adds F R to the nodes: `dim` numbers with inner products K = F F^T, up to noise.

    R has independent entries +-1 / sqrt(dim), so that E[(F R)(F R)^T] = K, with a standard
    deviation below

    .. math:: \sqrt{(K_{ii} K_{jj} + K_{ij}^2) / \text{dim}}.

    Node inputs for graphs without any, where one-hot ones would need N weights each; a linear model
    on them is a Gaussian process with kernel K, approximately. Nodes of different graphs cannot be
    compared by them.

    Source: Achlioptas, "Database-friendly random projections", JCSS 66 (2003), for R; the standard
    deviation follows from its fourth moments.

    Parameters
    ----------
    kernel : Kernel
    dim : int
        Number of features per node, at least 1.
    sampler : Sampler, optional
        Default: F is exact, by its Chebyshev series (`graphrf.apply_root`, relative tolerance
        1e-6). A sampler replaces F by sampled features Phi; the diagonal of the kernel is then too
        large by their variance.
    weight : str or None
        Edge attribute with the weights; None ignores weights.
    attr_name : str or None
        Where the result, (N, dim) in float32, goes; None appends it to `x`.
    seed : int in [0, 2^63), optional
        Seed of R and of the samples.

    Raises
    ------
    TypeError, ValueError
        For heterogeneous data and for directed edges.

    Notes
    -----
    Cost of the exact F: dim times the degree of the series (about 4 lengthscales of `Diffusion`)
    sparse products. Of a sampler: its samples, once, and dim times their non-zeros. Memory: the
    result, and 16 columns of float64.

    Examples
    --------
    >>> import torch, graphrf as grf
    >>> from torch_geometric.data import Data
    >>> from graphrf.pyg import AddRandomFeatures
    >>> data = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=4)
    >>> AddRandomFeatures(grf.Diffusion(2.0), dim=8, seed=0)(data)
    Data(edge_index=[2, 4], num_nodes=4, random_features=[4, 8])
    """

    kernel: Kernel
    dim: int = 64
    sampler: Sampler | None = field(default=None, kw_only=True)
    weight: str | None = field(default=EDGE_WEIGHT, kw_only=True)
    attr_name: str | None = field(default="random_features", kw_only=True)
    seed: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        checks.integer("dim", self.dim, low=1)
        check_settings(self)

    def forward(self, data: Data) -> Data:
        """`data` with the features."""
        graph = undirected(graph_of(data, self.weight))
        result = np.empty((0 if graph is None else graph.n_nodes, self.dim), np.float32)
        if graph is not None:
            root = None
            if self.sampler is not None:
                root = sample_features(graph, self.sampler, seed=self.seed).matrix(self.kernel)
            signs = np.random.default_rng(self.seed)
            for first in range(0, self.dim, _COLUMNS):
                columns = result[:, first : first + _COLUMNS]
                r = (2.0 * signs.integers(0, 2, columns.shape, dtype=np.int8) - 1.0) / self.dim**0.5
                if root is None:
                    columns[:] = apply_root(graph, self.kernel, r, tol=_TOLERANCE)
                else:
                    columns[:] = root @ r
        return with_node_attribute(data, result, self.attr_name)


@dataclass(frozen=True)
class AddReturnProbabilities(BaseTransform):
    r"""Adds the random-walk positional encoding: P^k_ii, k = 1 .. walk_length, P = D^-1 A.

    `torch_geometric.transforms.AddRandomWalkPE` computes it by products of N x N matrices that fill
    in. Here it is computed from powers of half the length, node by node: walks are reversible, so
    that

    .. math:: P^{a+b}_{ii} = \sum_v P^a_{iv} P^b_{iv} \frac{d_i}{d_v}, \qquad a, b \approx k / 2.

    The two factors are independent `CompressedPowers(budget)`: unbiased, and exact (to float32) for
    the k whose powers a, b of the node need at most `budget` entries and 2 `budget` edges.
    Elsewhere the standard deviation is roughly proportional to 1 / budget.

    Source: Dwivedi et al., "Graph neural networks with learnable structural and positional
    representations", ICLR 2022, Sec. 3.2 (the encoding); the estimate is our own.

    Parameters
    ----------
    walk_length : int
        The largest k, 1 to 1,000.
    budget : int
        Entries that each power of a node is compressed to, at least 1.
    weight, attr_name, seed
        As for `AddRandomFeatures`; the result has shape (N, walk_length).

    Raises
    ------
    TypeError, ValueError
        For heterogeneous data and for directed edges, for which `AddRandomWalkPE` serves as long as
        it fits into memory.

    Notes
    -----
    0 for isolated nodes, as in PyTorch Geometric. Steps follow weighted edges in proportion to
    their weights, which `AddRandomWalkPE` does not. Estimates are not cut at 1, which would make
    them biased.

    Root mean square error on cora at walk_length 16, over all k and nodes: 0.0015 with budget 64,
    0.0003 with 256; 0.0028 and 0.0006 with as many walks that meet in the same way; 0.011 and 0.003
    with walks whose returns are counted, in 1.3 to 1.6 times the steps.

    Cost: at most walk_length (2 budget + 1) edges read per node, and one pass over what they
    reached.

    Examples
    --------
    >>> import torch
    >>> from torch_geometric.data import Data
    >>> from graphrf.pyg import AddReturnProbabilities
    >>> triangle = Data(
    ...     edge_index=torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]]), num_nodes=3
    ... )
    >>> AddReturnProbabilities(walk_length=4, seed=0)(triangle).return_probabilities[0]
    tensor([0.0000, 0.5000, 0.2500, 0.3750])
    """

    walk_length: int
    budget: int = 64
    weight: str | None = field(default=EDGE_WEIGHT, kw_only=True)
    attr_name: str | None = field(default="return_probabilities", kw_only=True)
    seed: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        checks.integer("walk_length", self.walk_length, low=1, high=1_000)
        checks.integer("budget", self.budget, low=1)
        check_settings(self)

    def forward(self, data: Data) -> Data:
        """`data` with the probabilities."""
        graph = undirected(graph_of(data, self.weight))
        result = np.zeros((0, self.walk_length), np.float32)
        if graph is not None:
            sampler = CompressedPowers(self.budget, max_length=(self.walk_length + 1) // 2)
            first, second = np.random.SeedSequence(self.seed).generate_state(
                2, np.uint64
            ) >> np.uint64(1)
            result = return_probabilities(
                graph, self.walk_length, sampler, (int(first), int(second))
            )
        return with_node_attribute(data, result, self.attr_name)
