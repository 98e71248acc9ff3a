r"""Transforms for PyTorch Geometric: diffusion, personalised PageRank, random features and return probabilities.

Each is a `torch_geometric.transforms.BaseTransform` for homogeneous `Data`: call it, put it into `Compose`, or
pass it to a dataset as `transform` or `pre_transform`. None forms an N x N dense matrix, and graphs with isolated
nodes, without edges or without nodes are legal. Results lie on the device of `edge_index`. The same seed gives
the same bits; `seed=None` draws one when the transform is made, which it then keeps, so that copies in the
workers of a `DataLoader` agree.

Edges carry the attribute `weight` if the data have it: "edge_weight" may be missing, as in PyTorch Geometric,
another name may not; None ignores weights. Edges that are listed several times count as `graphrf.load_graph`
says. A `Batch` is taken as one graph; what is made of it cannot be taken apart again by `to_data_list`, so graphs
that are wanted one by one are transformed before they are put together.

Needs the extra `pyg`: pip install 'graphrf[pyg]'.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.transforms import BaseTransform

from graphrf._base import checks
from graphrf.graph.graph import Graph
from graphrf.graph.loaders import load_graph
from graphrf.kernels.kernel import Kernel, require_kernel
from graphrf.kernels.series import apply_root
from graphrf.sampling.contract import Sampler
from graphrf.sampling.powers.powers import CompressedPowers
from graphrf.sampling.sample import require_sampler, sample_features
from graphrf.transforms.operators import NORMALIZATIONS, kernel_diffusion, pagerank_diffusion
from graphrf.transforms.returns import return_probabilities

__all__ = ["AddRandomFeatures", "AddReturnProbabilities", "GRFDiffusion", "PersonalizedPageRank"]

_EDGE_WEIGHT = "edge_weight"
# Both directions of an edge may differ by the rounding of float32.
_ROUNDING = 1e-6
# Columns of random features that are made at once, and the error of the exact ones relative to the largest root.
_COLUMNS, _TOLERANCE = 16, 1e-6


@dataclass(frozen=True)
class GRFDiffusion(BaseTransform):
    r"""Replaces the graph by a sparse kernel diffusion: for every node the k nodes of largest K_ij.

    What `torch_geometric.transforms.GDC` does, for any kernel K = sum_r alpha_r W^r of `graphrf`, with weights,
    without a dense matrix. Row i is estimated from the powers or walks of node i alone,

    .. math:: \phi(i) = \sum_r \alpha_r x_r, \qquad E[x_r] = W^r e_i, \qquad E[\phi(i)] = K e_i,

    and its k largest entries stay. GDC's personalised PageRank with return probability p is
    `RegularizedLaplacian(((1 - p) / p) ** 0.5, 1)`, and its heat kernel with time t is `Diffusion((2 * t) **
    0.5)`, both after `torch_geometric.transforms.AddSelfLoops()`, which GDC applies by itself.

    Parameters
    ----------
    kernel : Kernel
    k : int
        Entries kept in each row, at least 1. The node itself counts as any other.
    sampler : Sampler, optional
        What the rows are estimated from, of the kernel's Laplacian. Default: `CompressedPowers(4 k)` with budgets
        that fall with the root of what is left of the series, until 0.1 % of it is left, at most 1,000 steps.
        Where powers are not compressed, rows are exact: `ExactPowers` for graphs that allow it.
    normalization : {"sym", "row", "none"}
        What becomes of the cut rows M.

        "sym": D^-1/2 S D^-1/2, S being M and M^T averaged where both have an entry, else the one that is there,
        and D its row sums. Symmetric with a spectrum in [-1, 1], up to 2 k N edges: what
        `GCNConv(normalize=False)` takes in place of its own normalised adjacency.

        "row": the random-walk form D^-1/2 K D^1/2 = sum_r alpha_r P^r is estimated and cut instead (the entries
        that a walk finds most often), and the weights of the edges into every node sum to 1: weighted means over
        neighbours, as in PPRGo. GDC, where the target is the second index, calls it "col".

        "none": the estimates of K_ij. The only choice for kernels whose series has negative terms, such as
        `InverseCosine`; entries are then kept by size.
    weight : str or None
        The attribute with the weights of the edges; that of the new ones replaces it (None: "edge_weight").
    attr_name : str, optional
        None replaces `edge_index` and the weights. A name keeps them, and the diffusion goes to `{name}_index`,
        which PyTorch Geometric's batches number as `edge_index`, and `{name}_weight`.
    seed : int in [0, 2^63), optional

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; for heterogeneous data and for directed edges (`ToUndirected()` drops the
        directions); if `edge_index` is to be replaced while other attributes belong to the old edges.

    Warns
    -----
    TruncationWarning, HeavyTailWarning
        If the sampler suits the series badly.

    Notes
    -----
    An isolated node gets a loop: W_ii = 1 there. `edge_index[0]` is the source and column j, `edge_index[1]` the
    target and row i; edges are sorted by source, then target.

    Cost: of the default at most 8 k sum_r (sum_{l >= r} alpha_l / sum_l alpha_l)^(1/2) multiply-adds a node;
    memory of the result, 20 bytes an edge, twice over, and of the powers of 16,384 nodes for each thread.

    Source: Klicpera, Weißenberger and Günnemann, "Diffusion improves graph learning", NeurIPS 2019, Eqs. 1 to 4;
    the estimate is that of graph random features (Reid et al. 2024, Eq. 50) with alpha in place of f.

    Examples
    --------
    >>> import torch, graphrf as grf
    >>> from torch_geometric.data import Data
    >>> from graphrf.transforms import GRFDiffusion
    >>> data = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=4)
    >>> GRFDiffusion(grf.Diffusion(2.0), k=2, normalization="row", seed=0)(data)
    Data(edge_index=[2, 7], num_nodes=4, edge_weight=[7])
    """

    kernel: Kernel
    k: int = 32
    sampler: Sampler | None = field(default=None, kw_only=True)
    normalization: str = field(default="sym", kw_only=True)
    weight: str | None = field(default=_EDGE_WEIGHT, kw_only=True)
    attr_name: str | None = field(default=None, kw_only=True)
    seed: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        require_kernel(self.kernel)
        checks.integer("k", self.k, low=1)
        if self.sampler is not None:
            require_sampler(self.sampler)
        checks.choice("normalization", self.normalization, NORMALIZATIONS)
        _check_names(self)
        object.__setattr__(self, "seed", checks.seed(self.seed))

    def forward(self, data: Data) -> Data:
        """`data` with the diffusion in place of its edges, or beside them."""
        graph = _undirected(_graph_of(data, self.weight))
        if graph is None:
            return _with_edges(data, sp.csr_array((0, 0), dtype=np.float32), self.weight, self.attr_name)
        k = min(self.k, graph.n_nodes)
        assert self.seed is not None
        operator = kernel_diffusion(graph, self.kernel, k, self.sampler, self.normalization, self.seed)
        return _with_edges(data, operator, self.weight, self.attr_name)


@dataclass(frozen=True)
class PersonalizedPageRank(BaseTransform):
    r"""Replaces the graph by personalised PageRank: for every node the k nodes of largest score.

    Row i is the law of the node where a walk from i halts, which it does before each step with probability p,

    .. math:: \Pi = p \sum_r (1 - p)^r P^r, \qquad P = D^{-1} A,

    from below by pushing (`graphrf.pagerank.local_pagerank`): deterministic, and within the neighbourhood of i.
    This is PPRGo's matrix; `torch_geometric.transforms.GDC(exact=False)` computes it without weights and keeps
    all scores above a threshold.

    Parameters
    ----------
    k : int
        Entries kept in each row, at least 1. The node itself counts as any other.
    p_halt : float in (0, 1)
        p, GDC's alpha.
    max_residual : float > 0
        Pushing ends when no node holds more residual than this for each of its edges: GDC's eps. On an undirected
        graph with equal weights a score of node j is too small by at most this times the number of j's edges.
    normalization : {"row", "sym", "none"}
        What becomes of the cut rows. "row": weights of the edges into every node sum to 1. "sym", for undirected
        graphs: D^1/2 Pi D^-1/2, then as for `GRFDiffusion`. "none": the scores.
    weight, attr_name
        As for `GRFDiffusion`.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; for heterogeneous data; for directed edges with "sym"; if `edge_index` is
        to be replaced while other attributes belong to the old edges.

    Notes
    -----
    Of directed edges walks follow the direction, and what they find comes into the node that they started from: a
    paper gathers from what it cites. From a node without edges a walk jumps back to its start.

    Cost: at most 1 / (p max_residual) edges read a node; memory of the result, 20 bytes an edge, twice over.

    Source: Bojchevski et al., "Scaling graph neural networks with approximate PageRank", KDD 2020, Sec. 3;
    pushing: Andersen, Chung and Lang, FOCS 2006.

    Examples
    --------
    >>> import torch
    >>> from torch_geometric.data import Data
    >>> from graphrf.transforms import PersonalizedPageRank
    >>> data = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=4)
    >>> PersonalizedPageRank(k=2)(data)
    Data(edge_index=[2, 7], num_nodes=4, edge_weight=[7])
    """

    k: int = 32
    p_halt: float = field(default=0.15, kw_only=True)
    max_residual: float = field(default=1e-4, kw_only=True)
    normalization: str = field(default="row", kw_only=True)
    weight: str | None = field(default=_EDGE_WEIGHT, kw_only=True)
    attr_name: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        checks.integer("k", self.k, low=1)
        checks.number("p_halt", self.p_halt, low=0, high=1, include_low=False, include_high=False)
        checks.number("max_residual", self.max_residual, low=0, include_low=False)
        checks.choice("normalization", self.normalization, NORMALIZATIONS)
        _check_names(self)

    def forward(self, data: Data) -> Data:
        """`data` with the scores in place of its edges, or beside them."""
        graph = _graph_of(data, self.weight)
        if self.normalization == "sym":
            graph = _undirected(graph)
        if graph is None:
            return _with_edges(data, sp.csr_array((0, 0), dtype=np.float32), self.weight, self.attr_name)
        operator = pagerank_diffusion(graph, self.k, self.p_halt, self.max_residual, self.normalization)
        return _with_edges(data, operator, self.weight, self.attr_name)


@dataclass(frozen=True)
class AddRandomFeatures(BaseTransform):
    r"""Adds F R to the nodes: `dim` numbers for each whose inner products are the kernel K = F F^T, up to noise.

    R has independent entries +-1 / sqrt(dim), so that E[(F R)(F R)^T] = K, with a standard deviation below

    .. math:: \sqrt{(K_{ii} K_{jj} + K_{ij}^2) / \text{dim}}.

    Node inputs for graphs without any, where one-hot ones would need N weights each; a linear model on them is a
    Gaussian process with kernel K, approximately. Nodes of different graphs cannot be compared by them: R belongs
    to the nodes of one graph.

    Parameters
    ----------
    kernel : Kernel
    dim : int
        Numbers a node, at least 1.
    sampler : Sampler, optional
        Default: F is exact, by its Chebyshev series (`graphrf.apply_root`, relative tolerance 1e-6). A sampler
        puts sampled features Phi in place of F; the diagonal of the kernel is then too large by their variance.
    weight : str or None
        The attribute with the weights of the edges.
    attr_name : str or None
        Where the result, (N, dim) in float32, goes; None appends it to `x`.
    seed : int in [0, 2^63), optional
        Of R, and of the samples.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; for heterogeneous data and for directed edges.

    Notes
    -----
    Cost of the exact F: dim times the degree of the series (about 4 lengthscales of `Diffusion`) sparse products.
    Of a sampler: its samples, once, and dim times their non-zeros. Memory: the result, and 16 columns of float64.

    Source: Achlioptas, "Database-friendly random projections", JCSS 66 (2003), for R; the standard deviation
    follows from its fourth moments.

    Examples
    --------
    >>> import torch, graphrf as grf
    >>> from torch_geometric.data import Data
    >>> from graphrf.transforms import AddRandomFeatures
    >>> data = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=4)
    >>> AddRandomFeatures(grf.Diffusion(2.0), dim=8, seed=0)(data)
    Data(edge_index=[2, 4], num_nodes=4, random_features=[4, 8])
    """

    kernel: Kernel
    dim: int = 64
    sampler: Sampler | None = field(default=None, kw_only=True)
    weight: str | None = field(default=_EDGE_WEIGHT, kw_only=True)
    attr_name: str | None = field(default="random_features", kw_only=True)
    seed: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        require_kernel(self.kernel)
        checks.integer("dim", self.dim, low=1)
        if self.sampler is not None:
            require_sampler(self.sampler)
        _check_names(self)
        object.__setattr__(self, "seed", checks.seed(self.seed))

    def forward(self, data: Data) -> Data:
        """`data` with the features."""
        graph = _undirected(_graph_of(data, self.weight))
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
        return _with_node_attribute(data, result, self.attr_name)


@dataclass(frozen=True)
class AddReturnProbabilities(BaseTransform):
    r"""Adds the random-walk positional encoding: P^k_ii, k = 1 .. walk_length, P = D^-1 A, without filling in.

    What `torch_geometric.transforms.AddRandomWalkPE` computes by products of N x N matrices that fill up, from the
    powers of each node alone, and of half the length: walks are reversible, so that

    .. math:: P^{a+b}_{ii} = \sum_v P^a_{iv} P^b_{iv} \frac{d_i}{d_v}, \qquad a, b \approx k / 2.

    The two factors are independent `CompressedPowers(budget)`: unbiased, and exact (to float32) for the k whose
    powers a, b of the node need at most `budget` entries and 2 `budget` edges. Elsewhere the standard deviation
    falls about as 1 / budget.

    Parameters
    ----------
    walk_length : int
        The largest k, 1 to 1,000.
    budget : int
        Entries that each power of a node is compressed to, at least 1.
    weight : str or None
        The attribute with the weights of the edges.
    attr_name : str or None
        Where the result, (N, walk_length) in float32, goes; None appends it to `x`.
    seed : int in [0, 2^63), optional

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; for heterogeneous data and for directed edges, for which
        `AddRandomWalkPE` serves as long as it fits into memory.

    Notes
    -----
    0 for isolated nodes, as in PyTorch Geometric. Steps follow weighted edges in proportion to their weights,
    which `AddRandomWalkPE` does not. Estimates are not cut at 1, which would make them biased.

    Measured on cora at walk_length 16, as root mean square error over all k and nodes: .0015 with budget 64, .0003
    with 256; .0028 and .0006 with as many walks of half the length that meet in the same way; .011 and .003 with
    walks of the whole length whose returns are counted, in 1.3 to 1.6 times the steps.

    Cost: at most walk_length (2 budget + 1) edges read a node, and one pass over what they reached.

    Source: Dwivedi et al., "Graph neural networks with learnable structural and positional representations", ICLR
    2022, Sec. 3.2 (the encoding); the estimate is our own.

    Examples
    --------
    >>> import torch
    >>> from torch_geometric.data import Data
    >>> from graphrf.transforms import AddReturnProbabilities
    >>> triangle = Data(edge_index=torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]]), num_nodes=3)
    >>> AddReturnProbabilities(walk_length=4, seed=0)(triangle).return_probabilities[0]
    tensor([0.0000, 0.5000, 0.2500, 0.3750])
    """

    walk_length: int
    budget: int = 64
    weight: str | None = field(default=_EDGE_WEIGHT, kw_only=True)
    attr_name: str | None = field(default="return_probabilities", kw_only=True)
    seed: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        checks.integer("walk_length", self.walk_length, low=1, high=1_000)
        checks.integer("budget", self.budget, low=1)
        _check_names(self)
        object.__setattr__(self, "seed", checks.seed(self.seed))

    def forward(self, data: Data) -> Data:
        """`data` with the probabilities."""
        graph = _undirected(_graph_of(data, self.weight))
        result = np.zeros((0, self.walk_length), np.float32)
        if graph is not None:
            assert self.seed is not None
            sampler = CompressedPowers(self.budget, max_length=(self.walk_length + 1) // 2)
            result = return_probabilities(graph, self.walk_length, sampler, _two_seeds(self.seed))
        return _with_node_attribute(data, result, self.attr_name)


# -- between PyTorch Geometric and graphs ----------------------------------------------------------------------


def _check_names(transform: Any) -> None:
    """Check the names that all transforms take."""
    for name in ("weight", "attr_name"):
        value = getattr(transform, name)
        if value is not None and (not isinstance(value, str) or not value):
            raise TypeError(f"`{name}` must be the name of an attribute or None, got {checks.describe(value)}")


def _two_seeds(seed: int) -> tuple[int, int]:
    """Seeds of two independent records."""
    words = np.random.SeedSequence(seed).generate_state(2, np.uint64) >> np.uint64(1)
    return int(words[0]), int(words[1])


def _graph_of(data: Any, weight: str | None) -> Graph | None:
    """The graph of `data` with the directions of its edges, or None where it has no node."""
    if isinstance(data, HeteroData):
        raise TypeError("`data` must be homogeneous, got HeteroData; data.to_homogeneous() makes it so")
    if not isinstance(data, Data):
        raise TypeError(f"`data` must be a torch_geometric.data.Data, got {checks.describe(data)}")
    if data.num_nodes is None:
        raise ValueError("`data` must say how many nodes it has, by `num_nodes`, `x` or `edge_index`")
    if data.num_nodes == 0:
        return None
    if data.edge_index is None:
        raise ValueError("`data` must have an `edge_index`; transforms to `adj_t` come after this one")
    given = weight
    if weight is not None and getattr(data, weight, None) is None:
        if weight != _EDGE_WEIGHT:
            raise ValueError(f"`weight` must be an attribute of the data, which have no {weight!r}")
        given = None
    return load_graph(data, weight=given, directed=True)


def _undirected(graph: Graph | None) -> Graph | None:
    """The same graph as an undirected one, if every edge has its reverse with the same weight."""
    if graph is None:
        return None
    adjacency = graph.adjacency
    larger = adjacency.maximum(adjacency.T)
    if (abs(adjacency - adjacency.T) - _ROUNDING * larger).max() > 0:
        raise ValueError(
            "`data` must list every edge in both directions with one weight, but some are not; "
            "torch_geometric.transforms.ToUndirected() adds the reverses"
        )
    return Graph(larger)


def _with_edges(data: Data, operator: sp.csr_array, weight: str | None, attr_name: str | None) -> Data:
    """`data` with the entries of an operator as edges: row i is what comes into node i."""
    device = None if data.edge_index is None else data.edge_index.device
    by_source = sp.csr_array(operator.T)
    by_source.sort_indices()
    sources = np.repeat(np.arange(by_source.shape[0]), np.diff(by_source.indptr))
    edge_index = torch.from_numpy(np.stack([sources, by_source.indices.astype(np.int64)])).to(device)
    values = torch.from_numpy(by_source.data.astype(np.float32, copy=False)).to(device)
    if attr_name is not None:
        data[f"{attr_name}_index"], data[f"{attr_name}_weight"] = edge_index, values
        return data
    weight = _EDGE_WEIGHT if weight is None else weight
    stale = sorted(set(data.edge_attrs()) - {"edge_index", weight})
    if stale:
        raise ValueError(
            f"`data` must have no attributes of the edges that are to be replaced, got {', '.join(stale)}; delete "
            "them, or keep the edges: attr_name='diffusion'"
        )
    data.edge_index, data[weight] = edge_index, values
    return data


def _with_node_attribute(data: Data, values: np.ndarray, attr_name: str | None) -> Data:
    """`data` with an attribute of the nodes, appended to `x` if it has no name."""
    device = None if data.edge_index is None else data.edge_index.device
    tensor = torch.from_numpy(values).to(device)
    if attr_name is not None:
        data[attr_name] = tensor
    elif data.x is None:
        data.x = tensor
    else:
        x = data.x.view(-1, 1) if data.x.dim() == 1 else data.x
        # Integers would make zeros of nearly all values.
        dtype = x.dtype if x.is_floating_point() else tensor.dtype
        data.x = torch.cat([x.to(dtype), tensor.to(x.device, dtype)], dim=-1)
    return data
