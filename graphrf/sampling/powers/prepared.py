"""Power samplers bound to a graph: the walk matrix, sizes of rows, the call of the loops."""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from graphrf._base.cached import cached_property
from graphrf._base.memory import require_memory
from graphrf.graph.graph import Graph
from graphrf.sampling.block import Block
from graphrf.sampling.powers.loops import exact_size, power_block
from graphrf.sampling.powers.meetings import meeting_block
from graphrf.sampling.protocol import PreparedSampler, Sampler
from graphrf.sampling.walks.transitions import row_cumsum

# Compression measures an entry of W^k times (d_v / d_i)^LEVEL. The variance is least with 0 for
# short kernels, and with 1/2 (probabilities) for long ones on graphs of uneven degrees
# (docs/benchmarks.md).
LEVEL = 0.25

# Rows from which the sizes of exact rows are estimated, fewer if they take so many multiply-adds.
_PILOT_ROWS, _PILOT_WORK = 24, 20_000_000


class Matrix(NamedTuple):
    """The walk matrix in another order: `order` has the node at each place, `rank` the inverse.

    CSR arrays (indices unsigned) with weights W_uv level_v / level_u and their running sums in each
    row; the levels d^LEVEL of the nodes, and the loads d^(1/2 - LEVEL), both 1 for the
    combinatorial Laplacian: values times load_v / load_i are probabilities.
    """

    indptr: np.ndarray
    indices: np.ndarray
    weights: np.ndarray
    cumulative: np.ndarray
    level: np.ndarray
    load: np.ndarray
    order: np.ndarray
    rank: np.ndarray


class Scratch(NamedTuple):
    """An accumulator and counter for every node, and an ordered set; untouched, it is free."""

    dense: np.ndarray
    tally: np.ndarray
    low: np.ndarray
    middle: np.ndarray
    top: np.ndarray


# Gaussian processes prepare samplers for one graph repeatedly.
_relabelled: weakref.WeakKeyDictionary[Graph, dict[str, Matrix]] = weakref.WeakKeyDictionary()


def relabelled(graph: Graph, laplacian: str) -> Matrix:
    """The walk matrix in reverse Cuthill-McKee order, kept with the graph; O(nnz) once."""
    of_graph = _relabelled.setdefault(graph, {})
    if laplacian not in of_graph:
        entries = graph.adjacency.nnz
        require_memory(
            60.0 * entries + 80.0 * graph.n_nodes,
            f"the walk matrix of {graph.n_nodes} nodes and {entries} entries",
            "use RandomWalks, which read the graph as it is",
        )
        degrees = graph.walk_degrees
        flat = laplacian == "combinatorial"
        level, load = (
            np.ones_like(degrees) if flat else degrees**power for power in (LEVEL, 0.5 - LEVEL)
        )
        walk = graph.walk_matrix(laplacian)
        order = reverse_cuthill_mckee(sp.csr_matrix(walk), symmetric_mode=True).astype(np.uint32)
        rank = np.empty_like(order)
        rank[order] = np.arange(order.size, dtype=np.uint32)
        walk = sp.csr_array(walk)[order]
        walk.data *= np.repeat(1.0 / level[order], np.diff(walk.indptr))
        walk.data *= level[walk.indices]
        walk = sp.csr_array(
            (walk.data, rank[walk.indices].astype(walk.indices.dtype), walk.indptr), walk.shape
        )
        walk.sort_indices()
        indptr = walk.indptr.astype(np.int64)
        cumulative = row_cumsum(walk.data, indptr)
        matrix = Matrix(
            indptr, walk.indices.astype(np.uint32), walk.data, cumulative, level, load, order, rank
        )
        for array in matrix:
            array.setflags(write=False)
        of_graph[laplacian] = matrix
    return of_graph[laplacian]


class PreparedPowers(PreparedSampler):
    """A power sampler bound to a graph and a seed: a function from source nodes to powers.

    Each is compressed to `budgets` entries (None: not at all), for each of which a product reads
    `picks` edges (0: all); `keep` nodes of a finished row are kept (None: all).
    """

    counts_dtype: np.dtype[Any] = np.dtype(np.float32)

    def __init__(
        self,
        sampler: Sampler,
        graph: Graph,
        seed: int,
        *,
        budgets: np.ndarray | None = None,
        picks: int = 0,
        keep: int | None = None,
        remedy: str,
    ) -> None:
        super().__init__(sampler, graph, seed)
        self.remedy = remedy
        n_nodes, n_powers = graph.n_nodes, self.survival.table.size
        self._compresses = budgets is not None
        self._matrix = relabelled(graph, sampler.laplacian)
        # Budgets above the number of nodes still determine how many edges are read.
        most = self._matrix.indices.size
        self._budgets = np.full(n_powers, n_nodes) if budgets is None else np.minimum(budgets, most)
        self._picks = picks
        self._keep = n_nodes if keep is None else min(keep, n_nodes)
        # Multiply-adds, and norms of cut parts.
        self.row_bytes = 8 + (4 * n_powers if self._keep < n_nodes else 0)
        self._key = np.uint64(seed)

    @property
    def visits_per_row(self) -> float:
        """Expected number of values of a row's powers, before any is cut."""
        return self._row_size[2]

    @property
    def merged_per_row(self) -> tuple[float, float]:
        """Nodes and values of a row: a bound if compressed, the mean over a few if exact."""
        return self._row_size[:2]

    @cached_property
    def _row_size(self) -> tuple[float, float, float]:
        """Nodes and values of a row, and values before it is cut."""
        n_powers, n_nodes = float(self.survival.table.size), self._matrix.order.size
        if self._compresses:
            values = 1.0 + float(np.minimum(self._budgets[1:], n_nodes).sum())
            return min(values, float(n_nodes)), values, values
        sizes = []
        work = 0
        for place in np.linspace(0, n_nodes - 1, min(_PILOT_ROWS, n_nodes)).astype(np.int64):
            entries, values, edges = exact_size(*self._matrix[:2], place, self.survival.max_length)
            sizes.append((entries, values))
            work += edges
            if work > _PILOT_WORK:
                break
        entries, values = (float(size) for size in np.mean(sizes, axis=0))
        kept = min(entries, float(self._keep))
        return kept, min(values, kept * n_powers), values

    def working_bytes(self, n_rows: int) -> int:
        """Memory that `sample` takes for a block: scratch, powers of a row, and the record."""
        indptr, order = self._matrix.indptr, self._matrix.order
        scratch = sum(array.nbytes for array in self._scratch())
        # A product may reach as many nodes as it reads edges; the buffers of a row double in size.
        values = min(self.visits_per_row, float(order.size) * self.survival.table.size)
        reached = min(values * float(indptr[-1]) / order.size, float(order.size))
        row = 24 * (values + reached)
        return int(scratch + row + 12 * self._capacity(n_rows) + self.row_bytes * n_rows)

    def _capacity(self, n_rows: int) -> int:
        # Approximate maximum; untouched memory costs nothing.
        return int(n_rows * self.merged_per_row[1]) + 1024

    def _scratch(self) -> Scratch:
        n_nodes = self._matrix.order.size
        low, middle, top = (np.zeros(-(-n_nodes // 64**level), np.uint64) for level in (1, 2, 3))
        return Scratch(np.zeros(n_nodes), np.zeros(n_nodes, np.int64), low, middle, top)

    def sample(self, sources: np.ndarray) -> Block:
        """The powers of `sources`; runs without the interpreter lock."""
        # This avoids compilation for other arrays.
        if not (sources.flags.writeable and sources.flags.c_contiguous):
            sources = sources.copy()
        rows, per_row, work, dropped, nodes, per_entry, steps, values, n_entries, n_values = (
            power_block(
                self._matrix,
                self._scratch(),
                sources,
                self._budgets,
                self._picks,
                self._keep,
                self._key,
                self._capacity(sources.size),
            )
        )
        return Block(
            rows,
            per_row,
            nodes[:n_entries],
            per_entry[:n_entries],
            steps[:n_values],
            values[:n_values],
            work,
            dropped if dropped.size else None,
        )

    def meetings(
        self, other: PreparedPowers, sources: np.ndarray, degrees: np.ndarray
    ) -> np.ndarray:
        r"""Products of these powers with those of another seed, (n, 2 max_length + 1), float64.

        .. math:: \sum_v (P^a)_{iv} (P^b)_{iv} \frac{d_i}{d_v}, \qquad |a - b| \le 1,

        at [i, a + b], averaged over (a, b) and (b, a); see `meeting_block`. All nodes of a row are
        kept.
        """
        products = np.zeros((sources.size, 2 * self._budgets.size - 1))
        keys = np.array([self._key, other._key])
        meeting_block(
            self._matrix,
            self._scratch(),
            sources,
            self._budgets,
            self._picks,
            keys,
            degrees,
            products,
        )
        return products

    def meeting_bytes(self, n_rows: int) -> int:
        """Approximate memory that `meetings` takes for so many rows."""
        scratch = sum(array.nbytes for array in self._scratch())
        return int(scratch + 16 * n_rows * self._budgets.size + 100 * self.visits_per_row)
