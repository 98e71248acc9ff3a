r"""Fixed effects without bounds: levels without events, and covariates that separate.

Where a change d of the coefficients lowers the density of no observation however far it goes, as
for a level all of whose counts are 0, a flat prior leaves the coefficients infinite. Such changes
solve a linear program: with the sign s_i of the side to which the density of row i increases for
ever (0 if it has a maximum between),

.. math:: \max_{|d| \le 1} \sum_{s_i \ne 0} s_i x_i^\top d, \quad
          s_i x_i^\top d \ge 0, \quad x_i^\top d = 0 \text{ where } s_i = 0 .

The fixed part of the rows that such a d moves then has a normal prior around its mean at all other
rows.

Source: Konis 2007, "Linear programming algorithms for detecting separated data in binary logistic
regression models".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from scipy.linalg import null_space
from scipy.optimize import linprog

from graphrf.gp.latent.data import Data
from graphrf.gp.latent.design import Design

# The deviation of the linear predictor of rows without information around that of the others. Where
# levels differ with deviation 2, 95 % intervals of empty ones hold .94 to .99 of the true rates
# (benchmarks/empty_levels.py).
DEVIATION = 2.5
# Distances from the start at which densities are compared, in units of the linear predictor.
_AWAY = np.array([1e3, 100.0, 30.0, 10.0, 3.0])
# A change of a row's linear predictor that counts as none, for coefficients within 1 and columns of
# mean square 1: ten times the feasibility tolerance of HiGHS.
_NOTHING = 1e-6


class Separation(NamedTuple):
    """Rows whose linear predictor the observations do not bound, and a prior that does."""

    rows: np.ndarray  # (m,) booleans
    precision: np.ndarray  # (p, p), of the coefficients of the basis around the middle


def separation(basis: np.ndarray, data: Data) -> Separation | None:
    """The rows that some change of the coefficients moves for ever; None if there is none."""
    sides = unbounded_sides(data)
    if not basis.shape[1] or not sides.any():
        return None

    # The same row with the same side is one condition.
    rows, place = np.unique(
        np.column_stack([sides, np.round(basis, 12)]), axis=0, return_inverse=True
    )
    signs, x = rows[:, 0], basis[np.unique(place, return_index=True)[1]]

    moved = _moved(signs, x)
    if not moved.any():
        return None
    others = x[~moved]

    directions = null_space(others) if len(others) else np.eye(x.shape[1])
    centre = basis[~moved[place.ravel()]].mean(axis=0) if len(others) else np.zeros(x.shape[1])
    away = (x[moved] - centre) / (DEVIATION * data.unit)

    # The rows share a prior that has the weight of one row for each direction.
    share = min(1.0, directions.shape[1] / len(away))
    return Separation(moved[place.ravel()], share * away.T @ away)


def _moved(signs: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The rows that some change moves to their own sides and no other row moves against.

    A program moves as many as its bounds allow. Rows that have moved hold whatever follows, by more
    of the same change, so that the next program is of the others.
    """
    moved, exact = np.zeros(signs.size, dtype=bool), x[signs == 0]
    while True:
        free = np.flatnonzero((signs != 0) & ~moved)
        signed = signs[free, None] * x[free]

        solved = linprog(
            -signed.sum(axis=0),
            A_ub=-signed,
            b_ub=np.zeros(free.size),
            A_eq=exact if len(exact) else None,
            b_eq=np.zeros(len(exact)) if len(exact) else None,
            bounds=(-1.0, 1.0),
            method="highs",
        )

        new = free[signed @ solved.x > _NOTHING] if free.size and solved.x is not None else free[:0]
        if not new.size:
            return moved
        moved[new] = True


def unbounded_sides(data: Data) -> np.ndarray:
    """-1 and 1 for observations whose density increases for ever as eta decreases or increases, 0
    for others.
    """
    likelihood = data.likelihood_at(
        np.array([each.coordinate(each.start) for each in data.parameters()])
    )

    start = likelihood.start(data.y, data.offset)
    f = start + data.unit * np.concatenate([-_AWAY, [0.0], _AWAY[::-1]])
    with np.errstate(all="ignore"):
        density = likelihood.log_density(data.y[..., None], data.offset[:, None] + f)
    density = np.where(np.isnan(density), -np.inf, density)

    top = density.max(axis=1) - 1e-9
    low, high = density[:, 0] >= top, density[:, -1] >= top
    return high.astype(np.float64) - low


def described(design: Design, frame: object, rows: np.ndarray) -> str:
    """The levels that rows make up, or the columns that separate them, for a message."""
    levels = list(_levels_of(design, frame, rows))
    if levels:
        more = f" and {len(levels) - 3} more" if len(levels) > 3 else ""
        return ("the levels " if len(levels) > 1 else "the level ") + ", ".join(levels[:3]) + more
    if rows.all():
        return "all fixed effects together"
    return (
        f"the {np.count_nonzero(rows)} rows that a combination of the fixed effects separates from "
        "the others"
    )


def _levels_of(design: Design, frame: object, rows: np.ndarray) -> Iterable[str]:
    """Levels of factors all of whose rows are among these."""
    for factor in design.factors:
        if factor.levels is not None:
            places = factor.codes(frame)
            for place, level in enumerate(factor.levels):
                own = places == place
                if own.any() and rows[own].all():
                    yield f"{level!r} of {factor.text!r}"
