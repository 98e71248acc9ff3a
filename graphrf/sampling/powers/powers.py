"""Samplers of powers of the walk matrix without walkers: exact, cut, or compressed without bias."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from graphrf._base import checks
from graphrf.graph.graph import LAPLACIANS, Graph
from graphrf.sampling.powers.prepared import PreparedPowers
from graphrf.sampling.walks.lengths import LONGEST_WALK, LengthLaw, Survival
from graphrf.sampling.walks.random_walks import MOST_WALKS, AdaptiveLengths, RandomWalks

# Default budgets, for unknown kernels (docs/benchmarks.md).
_BUDGETS = Survival.geometric(0.1).cut(48)
# Node numbers have 32 bits, so no row has more entries.
_MOST_ENTRIES = 2**31 - 1
# Edges that a product samples for each entry of the budget (docs/benchmarks.md).
PICKS = 1


class _Fixed:
    """Base class of the deterministic samplers, whose settings do not depend on the graph."""

    max_length: int

    @property
    def survival(self) -> Survival:
        """S(k) = 1 up to `max_length`."""
        return _whole(self.max_length)

    def resolved(self, graph: Graph) -> Self:
        """The sampler itself, since it does not depend on the graph."""
        return self


@dataclass(frozen=True)
class ExactPowers(_Fixed):
    r"""Exact rows of F = sum_{k <= L} f_k W^k by sparse products.

    .. math:: x_0 = e_i, \quad x_k = W x_{k-1}, \quad \phi(i) = \sum_{k \le L} f_k x_k.

    For short kernels on graphs of low degree (roads, meshes), where it costs no more than good
    walks; the number of non-zeros grows fast on graphs with hubs. Time: a multiply-add for each
    edge at each node of the support of each x_k.

    Parameters
    ----------
    max_length : int
        L, the highest power, 0 to 65,534. `kernel.truncation_length(tol)` gives a sufficient one,
        and `Features.truncation_error(kernel)` the remaining error.
    laplacian : {"normalized", "combinatorial"}
        The Laplacian of the kernels for which the features will be used.

    Examples
    --------
    >>> import networkx as nx, numpy as np, graphrf as grf
    >>> graph = grf.load_graph(nx.karate_club_graph(), weight=False)
    >>> kernel = grf.Diffusion(lengthscale=1.0)
    >>> features = grf.sample_features(graph, grf.sampling.ExactPowers(max_length=12), seed=0)
    >>> bool(np.allclose(features.gram(kernel), kernel.dense(graph), atol=1e-6))
    True
    """

    max_length: int
    laplacian: str = field(default="normalized", kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_length", _checked_length(self.max_length))
        checks.choice("laplacian", self.laplacian, LAPLACIANS)

    def prepare(self, graph: Graph, seed: int) -> PreparedPowers:
        """The sampler bound to a graph; the seed is not used."""
        remedy = "lower max_length, take CompressedPowers or CutPowers"
        return PreparedPowers(self, graph, seed, remedy=remedy)


@dataclass(frozen=True)
class CutPowers(_Fixed):
    """Exact powers cut to the `budget` largest nodes of each row: with a bounded bias.

    The nodes v of row i with the largest sum_k x_k(v), x_k = W^k e_i, are kept, for any kernel. The
    norm of the dropped part is recorded for each row and step, for the bounds
    `Features.row_errors(kernel)` and `Features.truncation_error(kernel)`. Time: as `ExactPowers`.
    Memory: rows of at most `budget` nodes, and 4 (L + 1) bytes a row for the bound.

    Parameters
    ----------
    budget : int
        Nodes kept in each row, at least 1.
    max_length, laplacian
        As for `ExactPowers`.

    Examples
    --------
    >>> import networkx as nx, numpy as np, graphrf as grf
    >>> graph = grf.Graph(nx.to_scipy_sparse_array(nx.grid_2d_graph(8, 8)))
    >>> kernel = grf.Diffusion(lengthscale=1.0)
    >>> features = grf.sample_features(graph, grf.sampling.CutPowers(budget=12, max_length=8))
    >>> error = np.linalg.norm(features.gram(kernel) - kernel.dense(graph), 2)
    >>> bool(error <= features.truncation_error(kernel))
    True
    """

    budget: int
    max_length: int
    laplacian: str = field(default="normalized", kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "budget", _checked_budget(self.budget))
        object.__setattr__(self, "max_length", _checked_length(self.max_length))
        checks.choice("laplacian", self.laplacian, LAPLACIANS)

    def prepare(self, graph: Graph, seed: int) -> PreparedPowers:
        """The sampler bound to a graph; the seed is not used."""
        remedy = "lower budget or max_length"
        return PreparedPowers(self, graph, seed, keep=self.budget, remedy=remedy)


@dataclass(frozen=True)
class CompressedPowers:
    r"""Powers of the walk matrix, compressed without bias to `budget` entries after every product.

    .. math:: x_0 = e_i, \quad x_k = C(W x_{k-1}), \quad E[C(y)] = y, \quad \phi(i) = \sum_{k \le
        L} f_k x_k,

    so that E[phi(i)] is row i of F cut at L, and E[phi(i) . phi(j)] = K_ij for i != j as with
    walks, since rows of different nodes are independent. Large entries are kept exactly
    (`docs/theory/samplers.md` has the rule): nothing is random as long as x_{k-1} has at most 2
    `budget` edges, and these lead to at most `budget` nodes.

    Source: Lim and Weare, "Fast randomized iteration", SIAM Review 59 (2017), Sec. 4, with the
    threshold computed after every entry kept; the sampled products, the measure of size and the
    order are our own.

    Parameters
    ----------
    budget : int
        Entries of each x_k, at least 1: the counterpart of `n_walks` of `RandomWalks`.
    max_length : int, optional
        L, the highest power, 0 to 65,534, all with the same budget. This or `lengths`, or neither.
    lengths : Survival or AdaptiveLengths, optional
        Budgets that fall with the step: x_k keeps ceil(budget S(k)) entries, at least 1, and L is
        the end of the table. Default: Survival.geometric(0.1).cut(48), which suits many kernels.
        `AutoLengths(kernel)` makes one for each graph, with the lowest error for its operations and
        non-zeros (`benchmarks/efficiency.py`).
    laplacian : {"normalized", "combinatorial"}
        The Laplacian of the kernels for which the features will be used.

    Notes
    -----
    Time a node: at most 2 `budget` + 1 edges for each power, and a linear-time sort of the nodes
    they reach. Memory: 6 bytes for each distinct (source, node, step), at most the sum of the
    budgets, and 6 for each distinct (source, node).

    *When walks are better:* for kernels that reach far more nodes than the budget. With
    `AutoLengths`, as many operations and Diffusion(8), `RandomWalks` have 0.6 of the error on a
    social graph and 0.9 on a citation graph and a mesh; for shorter kernels, and on roads, 1.3 to
    67 times the error (`docs/benchmarks.md`).

    Examples
    --------
    >>> import networkx as nx, graphrf as grf
    >>> graph = grf.load_graph(nx.karate_club_graph(), weight=False)
    >>> kernel = grf.Diffusion(lengthscale=1.0)
    >>> features = grf.sample_features(graph, grf.CompressedPowers(budget=16, max_length=8), seed=0)
    >>> few = grf.CompressedPowers(16, lengths=grf.sampling.AutoLengths(kernel))
    >>> grf.sample_features(graph, few, seed=0).nnz < features.nnz
    True
    """

    budget: int = 32
    max_length: int | None = None
    lengths: Survival | AdaptiveLengths | None = field(default=None, kw_only=True)
    laplacian: str = field(default="normalized", kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "budget", _checked_budget(self.budget))
        checks.choice("laplacian", self.laplacian, LAPLACIANS)
        if self.max_length is not None:
            object.__setattr__(self, "max_length", _checked_length(self.max_length))
            if self.lengths is not None:
                raise checks.value_error(
                    "max_length",
                    "and `lengths` must not both be given: the table of `lengths` has an end",
                )
        if isinstance(self.lengths, AdaptiveLengths):
            if self.lengths.laplacian != self.laplacian:
                raise checks.value_error(
                    "lengths",
                    f"must be chosen for the {self.laplacian} Laplacian, got {self.lengths!r}; "
                    f"pass laplacian={self.lengths.laplacian!r}",
                )
        elif not isinstance(self.lengths, Survival | None):
            way_out = (
                "; pass its table, law.survival" if isinstance(self.lengths, LengthLaw) else ""
            )
            raise checks.type_error(
                "lengths",
                "must be a Survival table or a choice of one such as AutoLengths(kernel), got "
                f"{checks.describe(self.lengths)}{way_out}",
            )

    def __repr__(self) -> str:
        given = {
            "max_length": self.max_length,
            "lengths": self.lengths,
            "laplacian": self.laplacian,
        }
        words = [
            f"{name}={value!r}"
            for name, value in given.items()
            if value not in (None, "normalized")
        ]
        return f"CompressedPowers({', '.join([f'budget={self.budget}', *words])})"

    @property
    def survival(self) -> Survival:
        """S(k) = 1 up to the highest power; for `AdaptiveLengths`, defined once `resolved`."""
        return _whole(self.budgets.size - 1)

    @property
    def budgets(self) -> np.ndarray:
        """Entries of the compressed x_k, k = 0, 1, ..., int64."""
        if self.max_length is not None:
            return np.full(self.max_length + 1, self.budget)
        lengths = _BUDGETS if self.lengths is None else self.lengths
        if not isinstance(lengths, Survival):
            raise ValueError(f"{lengths!r} has a table for each graph: use sampler.resolved(graph)")
        # Tables are rounded to 2^-53, which must not cost an entry; every power has at least one.
        return np.maximum(np.ceil(self.budget * lengths.table - 1e-9), 1.0).astype(np.int64)

    def resolved(self, graph: Graph) -> CompressedPowers:
        """This sampler with the table of `AdaptiveLengths` for the graph, or the default."""
        if self.lengths is None and self.max_length is None:
            return replace(self, lengths=_BUDGETS)
        if not isinstance(self.lengths, AdaptiveLengths):
            return self
        # As for walks: `budget` entries reach about as many nodes as `budget` walks.
        walks = RandomWalks(min(self.budget, MOST_WALKS), self.lengths, laplacian=self.laplacian)
        law = walks.resolved(graph).lengths
        assert isinstance(law, LengthLaw)
        return replace(self, lengths=law.survival)

    def prepare(self, graph: Graph, seed: int) -> PreparedPowers:
        """The sampler bound to a graph and a seed."""
        sampler = self.resolved(graph)
        remedy = "lower budget or max_length" if self.lengths is None else "lower budget"
        return PreparedPowers(
            sampler, graph, seed, budgets=sampler.budgets, picks=PICKS, remedy=remedy
        )


# Integers of numpy become Python's, which JSON supports.
def _checked_length(max_length: int) -> int:
    return checks.integer("max_length", max_length, low=0, high=LONGEST_WALK)


def _checked_budget(budget: int) -> int:
    return checks.integer("budget", budget, low=1, high=_MOST_ENTRIES)


def _whole(max_length: int) -> Survival:
    return Survival(np.ones(max_length + 1))
