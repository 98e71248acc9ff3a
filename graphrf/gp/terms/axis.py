"""A term's variables over the levels of one column: the rows that read them, and what new levels add."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from graphrf._base import checks
from graphrf.gp.terms.structure import Structure, Values
from graphrf.graph.graph import Graph

Lookup = Mapping[Hashable, int]


class Extension(NamedTuple):
    """Rows of data with levels that are new to a fit: eta = old x + new e, e ~ N(0, precision^-1) with C e = 0."""

    old: sp.csr_array  # (m, n), for the variables x of the fit
    new: sp.csr_array  # (m, k), for k variables e that are independent of x
    precision: sp.csr_array  # for a standard deviation of 1
    constraints: sp.csr_array  # C


class LevelAxis:
    """The levels of one column, their prior, and rows for data; a base class."""

    column: str  # of the data frame
    structure: Structure
    levels: Sequence[Hashable]  # labels, in the order of the first variables of the structure
    graph: Graph | None = None  # if the levels are its nodes

    def cells(self, frame: Any) -> Any:
        """The cells of a data frame that `rows` reads."""
        return frame[self.column]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""
        return (self.column,)

    @property
    def factor(self) -> Structure:
        """The structure as a factor of a product."""
        return self.structure

    def rows(self, values: Any) -> sp.csr_array:
        """A row for each cell of the column; ValueError for levels that are not known."""
        weights, _, unknown = self._read(values, {})
        if unknown:
            raise self.unknown(unknown)
        return weights

    def extension(self, values: Any, hyperparameters: Values) -> Extension:
        """Rows for cells that may have new levels."""
        return Extension(self.rows(values), *nothing_new(len(values)))

    def level_rows(self) -> sp.csr_array:
        """A row for each level."""
        n, lookup = len(self.levels), self.lookup
        places = np.arange(n), np.array([lookup[level] for level in self.levels], dtype=np.int64)
        return sp.csr_array((np.ones(n), places), shape=(n, self.structure.size))

    def unknown(self, labels: Sequence[Hashable]) -> ValueError:
        """The error for labels that are no levels, with the nearest names."""
        shown = ", ".join(map(repr, labels[:3])) + (f" and {len(labels) - 3} more" if len(labels) > 3 else "")
        near = checks.did_you_mean(str(labels[0]), [str(level) for level in self.levels])
        return checks.value_error(
            self.column, f"holds {shown}, of which the fit knows nothing{near and '; '}{near}"
        )

    @property
    def lookup(self) -> Lookup:
        """The position of each label."""
        return {label: place for place, label in enumerate(self.levels)}

    def _read(
        self, values: Any, more: Lookup, width: int = 0
    ) -> tuple[sp.csr_array, sp.csr_array, list[Hashable]]:
        """Rows for known labels, rows of this width for those of `more`, and unknown labels.

        A cell is a label, a list of labels, of which it is the mean, or a dictionary of labels and weights.
        """
        known = self.lookup
        rows, places, weights = [], [], []
        others: list[tuple[int, int, float]] = []
        unknown: dict[Hashable, None] = {}
        for row, cell in enumerate(_cells(values)):
            for label, weight in _weighted(cell):
                place = known.get(label)
                if place is not None:
                    rows.append(row)
                    places.append(place)
                    weights.append(weight)
                elif label in more:
                    others.append((row, more[label], weight))
                else:
                    unknown[label] = None
        m, n = len(values), self.structure.size
        result = sp.csr_array((np.array(weights, dtype=np.float64), (rows, places)), shape=(m, n))
        new = np.array(others, dtype=np.float64).reshape(-1, 3)
        at = new[:, 0].astype(int), new[:, 1].astype(int)
        return result, sp.csr_array((new[:, 2], at), shape=(m, width)), list(unknown)


def nothing_new(m: int) -> tuple[sp.csr_array, sp.csr_array, sp.csr_array]:
    """The new part of an `Extension` of m rows without new levels."""
    return sp.csr_array((m, 0)), sp.csr_array((0, 0)), sp.csr_array((0, 0))


def labels_in(values: Any) -> list[Hashable]:
    """The distinct labels of cells, in their order."""
    return list(dict.fromkeys(label for cell in _cells(values) for label, _ in _weighted(cell)))


def _cells(values: Any) -> list[Any]:
    """The cells of a column, as Python's own objects where these are hashed alike."""
    return values.tolist() if hasattr(values, "tolist") else list(values)


def _weighted(cell: Any) -> list[tuple[Hashable, float]]:
    if isinstance(cell, dict):
        return [(label, float(weight)) for label, weight in cell.items()]
    if isinstance(cell, list):
        return [(label, 1.0 / len(cell)) for label in cell]
    return [(cell, 1.0)]
