"""Covariate: a column of numbers whose coefficient is a term."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from graphrf._base import checks


@dataclass(frozen=True)
class Covariate:
    r"""A column of numbers x whose coefficient varies as a term does: eta has x times the term.

    `Covariate(by) * term` is a term again. Its standard deviation is that of the coefficient, in
    units of eta per unit of the column. It has mean 0: with the column among the fixed effects, the
    term is the deviation of the coefficient at a place from the fixed one. Where the prior states
    no `sd`, it is as for the term alone, over the root mean square of the column, so that the unit
    of the column does not matter.

    Parameters
    ----------
    by : str
        The column. In `predict`, too, it has a finite number in every row.

    Examples
    --------
    A trend of its own at each place:

    >>> from graphrf.gp import Covariate, Field, Groups, TriangleMesh
    >>> mesh = TriangleMesh.from_points([[0, 0], [9, 0], [9, 9], [0, 9]], max_edge=2.0)
    >>> (Covariate("year_scaled") * Field(mesh, at=("x", "y"))).label
    'year_scaled:x:y'

    and slopes that differ between hospitals, each row of the column times the hospital's:

    >>> (Covariate("dose") * Groups("hospital")).label
    'dose:hospital'

    Source: Gelfand, Kim, Sirmans and Banerjee 2003, "Spatial Modeling with Spatially Varying
    Coefficient Processes".
    """

    by: str

    def __post_init__(self) -> None:
        require_column(self.by)

    def values(self, frame: Any) -> np.ndarray:
        """The column's numbers, shape (m,)."""
        cells = frame[self.by]
        try:
            result = np.asarray(cells, dtype=np.float64)
        except (TypeError, ValueError):
            result = None
        kind = getattr(cells.dtype, "kind", "O")  # dates would be nanoseconds
        if result is None or kind in "mMcSU" or any(isinstance(cell, str) for cell in cells):
            raise checks.type_error(
                self.by,
                "must hold numbers for Covariate, such as pandas.to_numeric or a difference of "
                f"dates over pandas.Timedelta('1D') makes, got {checks.describe(cells.iloc[0])}",
            )
        return checks.finite(self.by, result)

    def scale(self, frame: Any) -> float:
        """The root mean square of the column."""
        size = float(np.sqrt(np.mean(np.square(self.values(frame)))))
        if not size > 0:
            raise checks.value_error(
                self.by, "must not be 0 in all rows, which say nothing of its coefficient"
            )
        return size


def require_column(by: Any) -> None:
    """TypeError unless `by` is the name of a column, as terms have it."""
    if not isinstance(by, str):
        raise checks.type_error("by", f"must be the name of a column, got {checks.describe(by)}")
