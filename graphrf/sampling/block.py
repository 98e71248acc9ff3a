"""Blocks that samplers return: the records of some rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike


class Block(NamedTuple):
    """The visits of a block of rows, merged by (node, step), or the values of its powers.

    Powers come with their multiply-adds, int64, shape (rows,), and cut ones with the norms of what
    was dropped, float32, shape (rows, steps).
    """

    entries_per_row: np.ndarray
    visits_per_row: np.ndarray
    indices: np.ndarray
    visits_per_entry: np.ndarray
    steps: np.ndarray
    counts: np.ndarray
    work: np.ndarray | None = None
    dropped: np.ndarray | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.entries_per_row.size)

    @classmethod
    def of_visits(
        cls,
        rows: ArrayLike,
        nodes: ArrayLike,
        steps: ArrayLike,
        *,
        n_rows: int,
        values: np.ndarray | None = None,
    ) -> Block:
        """The block of visits in any order, for samplers in numpy.

        Parameters
        ----------
        rows, nodes, steps : array_like of int, shape (visits,)
            Row of the block, node and step of each visit.
        n_rows : int
        values : ndarray, shape (visits,), optional
            Values that are added up for each row, node and step; by default visits are counted.
            Each value counts as one multiply-add of its row.

        Examples
        --------
        >>> from graphrf.sampling import Block
        >>> block = Block.of_visits(
        ...     rows=[0, 0, 0, 1], nodes=[3, 2, 3, 5], steps=[1, 0, 1, 0], n_rows=2
        ... )
        >>> block.indices.tolist(), block.counts.tolist()
        ([2, 3, 5], [1, 2, 1])
        """
        rows, nodes, steps = (np.asarray(column, dtype=np.int64) for column in (rows, nodes, steps))
        order = np.lexsort((steps, nodes, rows))
        rows, nodes, steps = rows[order], nodes[order], steps[order]
        of_entry = _changes(rows, nodes)
        of_visit = of_entry | _changes(steps)
        weights = None if values is None else np.asarray(values)[order]
        counts = np.bincount(np.cumsum(of_visit) - 1, weights, int(of_visit.sum()))
        visits_per_row = np.bincount(rows[of_visit], minlength=n_rows)
        return cls(
            entries_per_row=np.bincount(rows[of_entry], minlength=n_rows),
            visits_per_row=visits_per_row,
            indices=nodes[of_entry],
            visits_per_entry=np.bincount((np.cumsum(of_entry) - 1)[of_visit]).astype(np.uint16),
            steps=steps[of_visit].astype(np.uint16),
            counts=counts.astype(np.uint16 if values is None else np.float32),
            work=None if values is None else np.bincount(rows, minlength=n_rows),
        )


def _changes(*columns: np.ndarray) -> np.ndarray:
    """True at the first element, and where any of several sorted columns changes."""
    changes = np.ones(columns[0].size, dtype=bool)
    changes[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return changes
