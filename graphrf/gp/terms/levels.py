"""A term's variables over the levels of a column: rows that read them, and new levels."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from graphrf._base import checks
from graphrf.gp.terms.structure import Structure, Values
from graphrf.graph.graph import Graph
from graphrf.graph.labels import Lookup, canonical
from graphrf.graph.notices import NAMED_BY


class Extension(NamedTuple):
    """Rows of data with levels that are new to a fit: eta = old x + new e, e ~ N(0, precision^-1)
    with C e = 0.
    """

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

    def warn_of(self, values: Values) -> None:
        """Warn of hyperparameters for which the variables are too few."""

    def sums(self, structure: Structure) -> np.ndarray:
        """The sums that are zero, shape (k, n): of the parts of a graph together."""
        return np.asarray(structure.constraints.sum(axis=0))[None]

    def way_out(self, other: str) -> str:
        """Advice where a product leaves out the mean for each level of another column."""
        return f"add a term of {other!r}, or C({other}) to the formula"

    def level_rows(self) -> sp.csr_array:
        """A row for each level."""
        n, lookup = len(self.levels), self.lookup
        places = np.arange(n), np.array([lookup[level] for level in self.levels], dtype=np.int64)
        return sp.csr_array((np.ones(n), places), shape=(n, self.structure.size))

    def unknown(self, labels: Sequence[Hashable]) -> ValueError:
        """The error for labels that are no levels, with the nearest names."""
        shown = ", ".join(map(repr, labels[:3])) + (
            f" and {len(labels) - 3} more" if len(labels) > 3 else ""
        )

        first = labels[0]
        is_name = isinstance(first, str) and not first.isdecimal()
        if self.graph is not None and not self.graph.has_names and is_name:
            return checks.value_error(
                self.column,
                f"holds {shown}, and the nodes of the graph are 0 to {self.graph.n_nodes - 1}: "
                f"{NAMED_BY}",
            )
        other, near = (
            self.other_kinds(labels),
            checks.did_you_mean(str(labels[0]), map(str, self.levels)),
        )

        hint = f"; it {other}" if other else f"; {near}" if near else ""
        nothing = "of which the fit knows nothing"
        if self.graph is not None:
            nothing = f"and the graph has no such node{'s' * (len(labels) > 1)}"
        return checks.value_error(self.column, f"holds {shown}, {nothing}{hint}")

    def other_kinds(self, labels: Sequence[Hashable]) -> str:
        """A sentence on kinds of labels that the fit did not have, such as text; else empty."""
        here, there = ({_kind(label) for label in every} for every in (labels, self.levels))
        if not here or here & there:
            return ""
        return (
            f"holds {' and '.join(sorted(here))}, such as {labels[0]!r}, where the fit had "
            f"{' and '.join(sorted(there))}, such as {self.levels[0]!r}: convert the column"
        )

    @property
    def lookup(self) -> Mapping[Hashable, int]:
        """The position of each label."""
        return Lookup((label, place) for place, label in enumerate(self.levels))

    def _read(
        self,
        values: Any,
        more: Mapping[Hashable, int],
        width: int = 0,
        aliases: Mapping[Hashable, int] | None = None,
    ) -> tuple[sp.csr_array, sp.csr_array, list[Hashable]]:
        """Rows for known labels and `aliases` of these, rows of this width for labels of `more`,
        and unknown labels.
        """
        lookup = Lookup({**self.lookup, **aliases}) if aliases else self.lookup
        rows, places, weights = [], [], []
        others: list[tuple[int, int, float]] = []
        unknown: dict[Hashable, None] = {}

        for row, label, weight in weighted_labels(self.column, values):
            place = lookup.get(label)
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


def labels_in(column: str, values: Any) -> list[Hashable]:
    """The distinct labels of the cells of a column, in their order; of forms of one, the first."""
    found: dict[Hashable, Hashable] = {}
    for _, label, _ in weighted_labels(column, values):
        found.setdefault(canonical(label), label)
    return list(found.values())


def weighted_labels(column: str, values: Any) -> Iterator[tuple[int, Hashable, float]]:
    """Rows of a column, their labels and the weights of these.

    A cell is a label, a list or array of labels, of which it is the mean, or a dictionary of labels
    and weights.
    """
    # as Python's own objects where these are hashed alike
    for row, cell in enumerate(values.tolist() if hasattr(values, "tolist") else values):
        if isinstance(cell, np.ndarray):
            cell = cell.tolist()
        if isinstance(cell, list):
            if not cell:
                raise checks.value_error(
                    column, f"has an empty list in row {row}, which has no mean: drop the row"
                )
            pairs: Iterable[tuple[Any, float]] = ((label, 1.0 / len(cell)) for label in cell)
        elif isinstance(cell, dict):
            pairs = ((label, _weight(column, row, label, weight)) for label, weight in cell.items())
        else:
            pairs = ((cell, 1.0),)

        for label, weight in pairs:
            if label.__hash__ is None:
                raise checks.type_error(
                    column,
                    f"must hold labels, lists or dictionaries, got {checks.describe(label)} in row "
                    f"{row}",
                )
            if _is_missing(label):
                raise checks.value_error(
                    column, f"has no value in row {row}, got {label}: leave it out"
                )
            yield row, label, weight


def _weight(column: str, row: int, label: Any, weight: Any) -> float:
    try:
        return checks.number("weight", weight)
    except (TypeError, ValueError) as error:
        raise checks.value_error(
            column, f"has no weight of {label!r} in row {row}: {error}"
        ) from None


def _is_missing(label: Any) -> bool:
    """True for None, NaN, and what pandas has for missing values."""
    if label is None or type(label).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(label, float | np.number | np.datetime64) and bool(label != label)


def _kind(label: Any) -> str:
    """The kind of a label, as messages name it."""
    kinds: dict[str, Any] = {
        "text": str,
        "tuples": tuple,
        "numbers": Real,
        "dates": (date, np.datetime64),
    }
    return next(
        (name for name, kind in kinds.items() if isinstance(label, kind)), type(label).__name__
    )
