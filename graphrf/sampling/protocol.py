"""Protocol of samplers: the interface between `sample_features` and the ways to sample."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from graphrf._base.cached import cached_property
from graphrf.graph.graph import Graph
from graphrf.sampling.block import Block

if TYPE_CHECKING:
    from graphrf.sampling.walks.lengths import Survival

# Rows from which a prepared sampler estimates the size of rows, unless it defines it.
_PILOT_ROWS = 16
# Memory for a visit while numpy sorts and merges the visits of a block.
_VISIT_BYTES = 64
# Types that JSON supports.
_PLAIN = (bool, int, float, str)


class Sampler(Protocol):
    """Settings of a way to estimate rows of F = sum_k f_k W^k: `RandomWalks` and the like.

    Any class with these two attributes and this method is a sampler; `PreparedSampler` has an
    example. One whose settings depend on the graph also has `resolved(graph)`, which Gaussian
    processes call once before training.
    """

    @property
    def laplacian(self) -> str:
        """Laplacian of the kernels that the features serve: "normalized" or "combinatorial"."""
        ...

    @property
    def survival(self) -> Survival:
        """S(k), by which records of step k are divided; it ends at the longest walk."""
        ...

    def prepare(self, graph: Graph, seed: int) -> PreparedSampler:
        """The sampler bound to a graph and a seed."""
        ...


class PreparedSampler(ABC):
    r"""A sampler bound to a graph and a seed: a function from source nodes to their records.

    A record holds c_ivk for source i, node v and step k, such that

    .. math:: \frac{E[c_{ivk}]}{m \, S(k)} \sqrt{\frac{d_i}{d_v}} = (W^k)_{iv}, \qquad m =
        \text{n\_walks}.

    For walks, c_ivk counts those that stand on v after k steps; for powers it is the probability of
    that, with m = S(k) = 1. For the combinatorial Laplacian W itself holds the probabilities, and
    there are no d. Rows of different sources must be independent for features to be unbiased off
    the diagonal.

    Your own sampler derives from this class and defines `sample`; walks also set `n_walks`.
    Everything else has defaults; sizes, from which memory is predicted, are estimated from a few
    rows.

    `degrees`, shape (N,), are the d of the nodes, any positive number for an isolated one, None for
    the combinatorial Laplacian, and `scale` is the graph's. `counts_dtype` is the type of c_ivk:
    uint16, or float32 for powers, whose blocks have multiply-adds; `row_bytes` are those of a row
    beside the six arrays of every record; `remedy` is advice for the message of a MemoryError.

    Examples
    --------
    Plain walks, each of which continues while its uniform number is below S(k):

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
    ...         rng = np.random.default_rng([self.seed, source])  # independent of the other sources
    ...         indptr, indices = self.adjacency.indptr, self.adjacency.indices
    ...         uniforms = np.sort(rng.random(self.n_walks))
    ...         at, found = np.full(self.n_walks, source), []
    ...         for k, share in enumerate(self.survival.table):
    ...             # those whose uniform number is below S(k)
    ...             at = at[: np.searchsorted(uniforms, share)]
    ...             if k > 0:
    ...                 at = indices[rng.integers(indptr[at], indptr[at + 1])]
    ...             found.append(np.stack([np.full(at.size, row), at, np.full(at.size, k)]))
    ...         return np.concatenate(found, axis=1)
    >>> graph = grf.Graph(nx.to_scipy_sparse_array(nx.karate_club_graph(), weight=None))
    >>> sampler = PlainWalks(n_walks=200, survival=grf.sampling.Survival.geometric(0.2))
    >>> features = grf.sample_features(graph, sampler, seed=0)
    >>> features.relative_error(grf.Diffusion(lengthscale=1.0)) < 0.1
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
        self.degrees: np.ndarray | None = (
            graph.walk_degrees if sampler.laplacian == "normalized" else None
        )

    @abstractmethod
    def sample(self, sources: np.ndarray) -> Block:
        """The record of `sources`, which depends for each of them on the seed and itself alone.

        It may run in threads. Powers come with their multiply-adds; cut rows of exact powers also
        with the Euclidean norm of the part that was cut from each row of W^k (not of the
        probabilities).
        """

    @property
    def visits_per_row(self) -> float:
        """Expected work of a row, which determines the size of blocks."""
        return max(self.merged_per_row[1], 1.0)

    @property
    def merged_per_row(self) -> tuple[float, float]:
        """Entries (nodes) and values (nodes and steps) of a row, expected or at most."""
        return self._pilot_sizes

    @cached_property
    def _pilot_sizes(self) -> tuple[float, float]:
        """Mean entries and values of a few rows."""
        n_rows = min(self.n_nodes, _PILOT_ROWS)
        block = self.sample(np.linspace(0, self.n_nodes - 1, n_rows).astype(np.int64))
        return block.indices.size / n_rows, block.steps.size / n_rows

    def working_bytes(self, n_rows: int) -> int:
        """Memory that `sample` takes for a block of rows."""
        return int(_VISIT_BYTES * n_rows * self.visits_per_row)

    def describe(self) -> dict[str, Any]:
        """The sampler's settings in types that JSON supports, for the description of features."""
        settings = {name: value for name, value in vars(self.sampler).items() if value is not None}
        plain = {
            name: value if isinstance(value, _PLAIN) else repr(value)
            for name, value in settings.items()
        }
        return {"sampler": type(self.sampler).__name__, **plain}
