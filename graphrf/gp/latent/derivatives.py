"""Derivatives of a log density in the latent value, by seven points: of any likelihood, also a user's own."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import factorial

from graphrf.gp.likelihoods.likelihood import Likelihood

# The distance of the points in units of the latent function. Truncation and rounding leave nine digits of the
# second derivative, and six of the third.
_STEP = 0.02
_AWAY = np.arange(-3.0, 4.0)
# The weights of the three derivatives: exact for polynomials of degree 6.
_FIRST, _SECOND, _THIRD = (np.linalg.inv(np.vander(_AWAY, increasing=True)) * factorial(np.arange(7.0))[:, None])[
    1:4
]


class Derivatives(NamedTuple):
    """log p(y | f) and its first three derivatives in f, shape (m,) each."""

    value: np.ndarray
    first: np.ndarray
    second: np.ndarray
    third: np.ndarray


def derivatives(likelihood: Likelihood, y: np.ndarray, f: np.ndarray, unit: float) -> Derivatives:
    """The derivatives for observations y, shape (m,) or (k, m), at latent values f of shape (m,) in this unit."""
    step = _STEP * unit
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        density = likelihood.log_density(y[..., None], f[:, None] + step * _AWAY)
    middle = density[:, 3]
    away = density - middle[:, None]
    return Derivatives(
        middle, away @ _FIRST / step, (away @ _SECOND) / step**2, (away @ _THIRD) / step**3
    )  # fmt: skip
