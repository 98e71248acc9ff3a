"""Warnings of effects that a model lacks, since sums of its intrinsic terms are zero."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import lsmr
from scipy.sparse.linalg import norm as sparse_norm

from graphrf._base.warn import warn
from graphrf.gp.terms.levels import LevelAxis
from graphrf.gp.terms.term import BoundTerm

# The relative residual above which effects are no combination of others, and that of the search.
_LACKING, _TOLERANCE = 0.05, 1e-3


def warn_of_sums(
    bound: Sequence[BoundTerm], parts: Sequence[sp.csr_array], frame: Any, fixed: np.ndarray
) -> None:
    """Warn where the sums of an intrinsic term are zero, for a product at each level of the other
    factor, and nothing else in the model has these effects.

    Random values of the sums are regressed on `parts`, the rows of the other terms, and `fixed`.
    """
    for number, term in enumerate(bound):
        sums = [axis.sums(axis.factor if term.axes[1:] else axis.structure) for axis in term.axes]
        if not any(each.any() for each in sums):
            continue
        others = [rows for place, rows in enumerate(parts) if place != number]
        columns = sp.csr_array(sp.hstack([sp.csr_array(fixed), *others]))
        for axis, own in zip(term.axes, sums, strict=True):
            other = [each for each in term.axes if each is not axis]
            effects = _left_out(own, axis, other, frame)
            if term.covariate is not None:
                effects = effects * term.covariate.values(frame)[:, None]
            lacking = [_is_lacking(each, columns) for each in effects.T]
            if any(lacking):
                names = compress(("mean", "linear trend"), lacking)
                warn(_message(term, " and ".join(names), axis, *other))


def _message(term: BoundTerm, names: str, axis: LevelAxis, other: LevelAxis | None = None) -> str:
    """The lacking effects, and what would have them."""
    if other is not None:
        times = "" if term.covariate is None else f" times {term.covariate.by!r}"
        return (
            f"the term of {term.label!r} has no {names} over {axis.column!r} for each "
            f"{other.column!r}, and nothing else in the model has it: "
            f"{axis.way_out(other.column)}{times}"
        )
    if term.covariate is not None:
        by = term.covariate.by
        return (
            f"the coefficients of {by!r} in the term of {term.label!r} sum to zero, and nothing "
            f"else in the model has their mean: write '+ {by}' in the formula"
        )
    return (
        f"the term of {term.label!r} sums to zero, and the formula has no intercept: the level of "
        "the observations is then 0; write '1 +' in the formula"
    )


def _left_out(sums: np.ndarray, axis: LevelAxis, other: list[LevelAxis], frame: Any) -> np.ndarray:
    """The rows' values of random sums over an axis, for each level of the other if there is one:
    shape (rows, 1), or (rows, 2) with those of linear trends.
    """
    rows = axis.rows(axis.cells(frame)) @ sums.T
    rng = np.random.default_rng(0)
    if not other:
        return np.asarray(rows * rng.standard_normal(len(sums)))
    levels = other[0].rows(other[0].cells(frame))
    weights = rng.standard_normal((levels.shape[1], len(sums)))
    return np.asarray(rows * (levels @ weights))


def _is_lacking(effects: np.ndarray, columns: sp.csr_array) -> bool:
    """True if effects on the rows are no combination of the columns."""
    size = float(np.linalg.norm(effects))
    if size == 0 or not columns.shape[1]:
        return size > 0
    norms = sparse_norm(columns, axis=0)
    scaled = columns @ sp.diags_array(1 / np.where(norms > 0, norms, 1.0))
    residual = lsmr(scaled, effects, atol=_TOLERANCE**2, btol=_TOLERANCE)[3]
    return bool(residual > _LACKING * size)
