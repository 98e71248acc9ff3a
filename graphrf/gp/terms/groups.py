"""Groups: independent effects as a term."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import scipy.sparse as sp

from graphrf._base import checks
from graphrf.gp.terms.covariate import require_column
from graphrf.gp.terms.levels import Extension, LevelAxis, labels_in
from graphrf.gp.terms.structure import Independent, Values
from graphrf.gp.terms.term import Term
from graphrf.graph.labels import Lookup


@dataclass(frozen=True)
class Groups(Term):
    r"""Independent effects of the levels of a column: b_g ~ N(0, \sigma^2).

    New levels in `predict` have the prior's standard deviation. `Nodes(...) * Groups(by)` is a
    separate field for each level.

    Parameters
    ----------
    by : str
        The column; a cell may be a list of levels, or a dictionary of levels and weights.
    prior : mapping, optional
        `{"sd": ...}`.

    Examples
    --------
    >>> from graphrf.gp import Groups
    >>> Groups("hospital").label
    'hospital'
    """

    by: str
    prior: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        require_column(self.by)

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.by,)

    def axes(self, frame: Any) -> tuple[LevelAxis, ...]:
        return (GroupAxis(self.by, labels_in(self.by, frame[self.by])),)


class GroupAxis(LevelAxis):
    """Levels without order."""

    def __init__(self, column: str, levels: list[Hashable]) -> None:
        self.column, self.levels = column, levels
        self.structure = Independent(len(levels))

    def extension(self, values: Any, hyperparameters: Values) -> Extension:
        known = self.lookup
        labels = [label for label in labels_in(self.column, values) if label not in known]
        if other := self.other_kinds(labels):
            raise checks.type_error(self.column, other)
        old, new, _ = self._read(
            values, Lookup((label, place) for place, label in enumerate(labels)), len(labels)
        )
        k = len(labels)
        return Extension(
            old, new, sp.csr_array(sp.eye_array(k, format="csr")), sp.csr_array((0, k))
        )
