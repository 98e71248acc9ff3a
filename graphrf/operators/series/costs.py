"""Costs that decide how sums of Chebyshev polynomials are divided."""

from __future__ import annotations

from dataclasses import dataclass

import scipy.sparse as sp


@dataclass(frozen=True)
class SeriesCosts:
    """Sizes of panels, and work from which on threads share a sum or its nodes are renumbered."""

    # Columns summed together: two lines of the cache on graphs whose panels stay in it, one on
    # larger graphs.
    wide: int = 16
    wide_nodes: int = 250_000
    # Multiply-adds of one product below which several threads are not worth their waiting for each
    # other.
    worth_threads: int = 1_000_000
    # Multiply-adds of a whole sum below which a pool of threads is not worth its start.
    worth_pool: int = 20_000_000
    # Products of single columns from which on nodes are renumbered.
    worth_order: int = 2_000
    # Polynomials whose rows are kept until they are summed.
    kept: int = 32

    def share_rows(self, matrix: sp.csr_array, width: int) -> bool:
        """True if threads are worth sharing the rows of one product."""
        return bool(matrix.nnz * width >= self.worth_threads)


SERIES_COSTS = SeriesCosts()
