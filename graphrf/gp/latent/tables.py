"""Rows of tables: mean, standard deviation and quantiles of posteriors."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphrf.gp.model.mean_function import TABLE
from graphrf.gp.posterior.marginals import MarginalMixture

COLUMNS = list(TABLE)
_QUANTILES = tuple(map(float, TABLE[2:]))


def law_rows(law: MarginalMixture) -> np.ndarray:
    """A row for each of the marginals, shape (q, 5)."""
    mean, variance = law.moments()
    return np.column_stack([mean, np.sqrt(variance), law.quantiles(np.array(_QUANTILES))])


def weighted_row(values: np.ndarray, weights: np.ndarray) -> list[Any]:
    """The row of weighted values, whose quantiles are interpolated between them."""
    mean = float(weights @ values)
    sd = float(np.sqrt(weights @ np.square(values - mean)))
    order = np.argsort(values, kind="stable")
    ends = np.cumsum(weights[order])
    return [mean, sd, *np.interp(_QUANTILES, ends - 0.5 * weights[order], values[order]).tolist()]
