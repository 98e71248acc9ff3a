"""Interface of samplers: the contract between `sample_features` and the ways to sample."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from graphrf._base.cached import cached_property
from graphrf.graph.graph import Graph
from graphrf.sampling.block import Block

if TYPE_CHECKING:
    from graphrf.sampling.walks.lengths import Survival

# Rows by which a prepared sampler that does not say how large its rows are finds out.
_PILOT_ROWS = 16
# Memory for a visit while numpy sorts and merges the visits of a block.
_VISIT_BYTES = 64
# What JSON knows.
_PLAIN = (bool, int, float, str)


class Sampler(Protocol):
    """Settings of a way to estimate rows of F = sum_k f_k W^k: `RandomWalks`, `CompressedPowers` and its kin.

    A class with these two attributes and this method can be passed wherever they can; `PreparedSampler` has an
    example. A sampler whose settings depend on the graph has a method `resolved(graph)` beside, which returns it
    with these settings fixed: a Gaussian process calls it once, so that training does not change them.
    """

    @property
    def laplacian(self) -> str:
        """Whose kernels the features will serve: "normalized" or "combinatorial"."""
        ...

    @property
    def survival(self) -> Survival:
        """S(k), by which what is recorded at step k is divided; its end says how long walks are."""
        ...

    def prepare(self, graph: Graph, seed: int) -> PreparedSampler:
        """The sampler bound to a graph and a seed."""
        ...


class PreparedSampler(ABC):
    r"""A sampler bound to a graph and a seed: a function from source nodes to their records.

    A record holds c_ivk for source i, node v and step k, such that

    .. math:: \frac{E[c_{ivk}]}{m \, S(k)} \sqrt{\frac{d_i}{d_v}} = (W^k)_{iv}, \qquad m = \text{n\_walks},

    so c_ivk / (m S(k)) estimates the probability that a random walk from i stands on v after k steps: of walks c
    counts those that do, of powers it is that probability, with m = S(k) = 1. d = `degrees`, all > 0, for the
    normalised Laplacian; for the combinatorial one W itself holds the probabilities, and `degrees` is None. Rows
    of different sources must be independent for features to be unbiased off the diagonal.

    Your own sampler derives from this class and defines `sample`; walks also set `n_walks`. Everything
    else has defaults; sizes, from which memory is predicted, are estimated from a few rows.

    Parameters
    ----------
    sampler : Sampler
        The settings.
    graph : Graph
        Undirected.
    seed : int

    Attributes
    ----------
    n_walks : int
        m, what counts are divided by; 1 unless it is set.
    n_nodes : int
        N, the number of nodes of the graph.
    scale : float
        The graph's scale of the sampler's Laplacian.
    degrees : ndarray, shape (N,), or None
        d of every node, an isolated one having any positive number; None for the combinatorial Laplacian.
    counts_dtype : numpy.dtype
        The type of c_ivk: uint16 (default), or float32 of powers, whose blocks come with their multiply-adds.
    row_bytes : int
        Bytes of a row beside the six arrays of every record.
    remedy : str
        What to lower, in words, when memory does not suffice.

    Examples
    --------
    Plain walks, each of which goes on as long as its uniform number is below S(k):

    >>> from dataclasses import dataclass
    >>> import networkx as nx, numpy as np, graphrf as grf
    >>> from graphrf.sampling import Block, PreparedSampler
    >>> @dataclass(frozen=True)
    ... class PlainWalks:
    ...     n_walks: int
    ...     survival: grf.sampling.Survival
    ...     laplacian: str = "normalized"
    ...
    ...     def prepare(self, graph, seed):
    ...         return PreparedPlainWalks(self, graph, seed)
    >>> class PreparedPlainWalks(PreparedSampler):
    ...     def __init__(self, sampler, graph, seed):
    ...         super().__init__(sampler, graph, seed)
    ...         self.n_walks = sampler.n_walks
    ...         self.adjacency = graph.walk_adjacency(sampler.laplacian)  # without weights here
    ...
    ...     def sample(self, sources):
    ...         visits = [self.walk(row, source) for row, source in enumerate(sources)]
    ...         return Block.of_visits(*np.concatenate(visits, axis=1), n_rows=len(sources))
    ...
    ...     def walk(self, row, source):
    ...         rng = np.random.default_rng([self.seed, source])  # whatever the other sources are
    ...         indptr, indices = self.adjacency.indptr, self.adjacency.indices
    ...         uniforms = np.sort(rng.random(self.n_walks))
    ...         at, found = np.full(self.n_walks, source), []
    ...         for k, share in enumerate(self.survival.table):
    ...             at = at[: np.searchsorted(uniforms, share)]  # those whose uniform number is below S(k)
    ...             if k > 0:
    ...                 at = indices[rng.integers(indptr[at], indptr[at + 1])]
    ...             found.append(np.stack([np.full(at.size, row), at, np.full(at.size, k)]))
    ...         return np.concatenate(found, axis=1)
    >>> graph = grf.Graph(nx.to_scipy_sparse_array(nx.karate_club_graph(), weight=None))
    >>> kernel = grf.Diffusion(lengthscale=1.0)
    >>> sampler = PlainWalks(n_walks=200, survival=grf.sampling.Survival.geometric(0.2))
    >>> gram = grf.sample_features(graph, sampler, seed=0).gram(kernel)
    >>> exact = kernel.dense(graph)
    >>> bool(np.linalg.norm(gram - exact) < 0.1 * np.linalg.norm(exact))
    True
    """

    n_walks: int = 1
    counts_dtype: np.dtype[Any] = np.dtype(np.uint16)
    row_bytes: int = 0
    remedy: str = "use a sampler of smaller rows"

    def __init__(self, sampler: Sampler, graph: Graph, seed: int) -> None:
        graph.require_undirected("a kernel's features")
        self.sampler: Any = sampler
        self.seed = seed
        self.survival: Survival = sampler.survival
        self.n_nodes: int = graph.n_nodes
        self.scale: float = graph.laplacian_scale(sampler.laplacian)
        self.degrees: np.ndarray | None = graph.walk_degrees if sampler.laplacian == "normalized" else None

    @abstractmethod
    def sample(self, sources: np.ndarray) -> Block:
        """The record of `sources`, which depends for each of them on the seed and itself, not on the others.

        It may run in threads. Powers come with their multiply-adds. Where a row's nodes were left out, the others
        being exact, they come with the Euclidean norm of what that took from each row of W^k (not of the
        probabilities).
        """

    @property
    def visits_per_row(self) -> float:
        """Expected work of a row: what sizes blocks."""
        return max(self.merged_per_row[1], 1.0)

    @property
    def merged_per_row(self) -> tuple[float, float]:
        """Entries (nodes) and values (nodes and steps) of a row, expected or at most."""
        return self._pilot_sizes

    @cached_property
    def _pilot_sizes(self) -> tuple[float, float]:
        """Entries and values of a row, the mean over a few of them."""
        n_rows = min(self.n_nodes, _PILOT_ROWS)
        block = self.sample(np.linspace(0, self.n_nodes - 1, n_rows).astype(np.int64))
        return block.indices.size / n_rows, block.steps.size / n_rows

    def working_bytes(self, n_rows: int) -> int:
        """Memory that `sample` takes for a block of rows."""
        return int(_VISIT_BYTES * n_rows * self.visits_per_row)

    def describe(self) -> dict[str, Any]:
        """The sampler's settings, in types that JSON knows, for the record that features keep."""
        settings = {name: value for name, value in vars(self.sampler).items() if value is not None}
        plain = {name: value if isinstance(value, _PLAIN) else repr(value) for name, value in settings.items()}
        return {"sampler": type(self.sampler).__name__, **plain}
