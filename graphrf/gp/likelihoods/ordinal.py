"""The likelihood of ordered levels: a cumulative logit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from scipy.special import expit, log_expit, logit

from graphrf._base import checks
from graphrf.gp.likelihoods.likelihood import Likelihood, known

_MOST_LEVELS = 20
_GAPS = tuple(f"gap_{k}" for k in range(1, _MOST_LEVELS - 1))
# The distance outside the thresholds to which expected
# levels are tabulated, and that to which they are used.
_TABLE, _USED, _POINTS = 30.0, 25.0, 6_001


@dataclass(frozen=True)
class Ordinal(Likelihood):
    r"""Ordered levels 0, 1, ..., such as grades: a cumulative logit (proportional odds).

    .. math:: P(y \le j) = \frac{1}{1 + e^{f - t_j}}, \quad t_0 = 0 < t_1 < \dots < t_{L - 2}

    for L levels. The first threshold is 0, because the constant of f moves all of them; the others
    are sums of gaps, :math:`t_j = \mathrm{gap}_1 + \dots + \mathrm{gap}_j`. Larger f mean higher
    levels; `mean` is the expected level.

    Parameters
    ----------
    n_levels : int
        L, from 3 to 20.
    gaps : sequence of float or None, optional
        The L - 2 distances between neighbouring thresholds; None trains all, or the one in whose
        place it is. Trained ones are called gap_1, gap_2, ...

    Examples
    --------
    >>> import numpy as np, graphrf as grf
    >>> grades = grf.gp.Ordinal(3, gaps=[1.0])                     # thresholds 0 and 1
    >>> np.exp(grades.log_density(np.array([0.0, 1.0, 2.0]), 0.5)).round(3)
    array([0.378, 0.245, 0.378])

    Source: McCullagh 1980, "Regression models for ordinal data".
    """

    n_levels: int
    gaps: Sequence[float | None] | None = None
    whole = True
    priors = MappingProxyType(dict.fromkeys(_GAPS, (1.0, 4.0)))
    ranges = MappingProxyType(dict.fromkeys(_GAPS, (1e-3, 50.0)))

    def __post_init__(self) -> None:
        n = checks.integer("n_levels", self.n_levels, low=3, high=_MOST_LEVELS)
        gaps = (None,) * (n - 2) if self.gaps is None else tuple(self.gaps)
        if len(gaps) != n - 2:
            raise checks.value_error(
                "gaps",
                f"must hold {n - 2} distances between the {n - 1} thresholds of {n} levels, got "
                f"{len(gaps)}; None trains them",
            )
        for k, gap in enumerate(gaps):
            if gap is not None:
                checks.number(f"gaps[{k}]", gap, low=0, high=1e12, include_low=False)
        object.__setattr__(self, "gaps", gaps)

    def __getattr__(self, name: str) -> float | None:
        """gap_1, gap_2, ...: parameters by the names that inference has for them."""
        gaps = self.__dict__.get("gaps") or ()
        if name in _GAPS[: len(gaps)]:
            return gaps[_GAPS.index(name)]
        raise AttributeError(name)

    @property
    def unknown(self) -> tuple[str, ...]:
        return tuple(name for name in self._names if getattr(self, name) is None)

    def replace(self, **parameters: Any) -> Self:
        gaps = [parameters.get(name, getattr(self, name)) for name in self._names]
        return type(self)(self.n_levels, gaps)

    @property
    def support(self) -> tuple[float, float]:  # type: ignore[override]
        return 0.0, self.n_levels - 1.0

    @property
    def thresholds(self) -> np.ndarray:
        """t_0, ..., increasing from 0."""
        return np.cumsum([0.0, *(known(getattr(self, name)) for name in self._names)])

    def checked(self, y: np.ndarray, trials: np.ndarray | None) -> np.ndarray:
        y = super().checked(y, trials)
        wrong = np.flatnonzero(~np.isin(y, np.arange(self.n_levels)))
        if wrong.size:
            raise checks.value_error(
                "y",
                f"must hold the levels 0 to {self.n_levels - 1} with {self!r}, got {y[wrong[0]]:g} "
                f"at {wrong[0]}: number them by their order, as the `cat.codes` of an ordered "
                "categorical column of pandas do",
            )
        return y

    def start(self, y: np.ndarray, offset: np.ndarray) -> float:
        return float(logit((np.sum(y > 0) + 0.5) / (y.size + 1)))

    def log_density(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        # of two probabilities near 1 the difference would be lost
        low, high = self._around(y)
        with np.errstate(invalid="ignore"):
            between = np.log(-np.expm1(low - high))
        return np.asarray(log_expit(high - f) + log_expit(f - low) + between)

    def distribution(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        low, high = self._around(y)
        return np.asarray(0.5 * (expit(low - f) + expit(high - f)))

    def mean(self, f: np.ndarray) -> np.ndarray:
        return np.asarray(self._above(f).sum(axis=-1))

    def variance(self, f: np.ndarray) -> np.ndarray:
        above = self._above(f)
        square = above @ (2 * np.arange(self.n_levels - 1) + 1.0)
        return np.asarray(square - np.square(above.sum(axis=-1)))

    def sample(self, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        moved = np.asarray(f + rng.logistic(size=np.shape(f)))
        return (moved[..., None] > self.thresholds).sum(axis=-1).astype(np.float64)

    def latent_like(self, f: np.ndarray, other: Self) -> np.ndarray:
        if other == self:
            return f
        table = np.linspace(-_TABLE, _TABLE + self.thresholds[-1], _POINTS)
        # Further out, both are exponential in f.
        near = np.clip(f, -_USED, _USED + other.thresholds[-1])
        wanted, levels = (
            logit(mean / (self.n_levels - 1)) for mean in (other.mean(near), self.mean(table))
        )
        return np.asarray(np.interp(wanted, levels, table) + (f - near))

    @property
    def _names(self) -> tuple[str, ...]:
        return _GAPS[: self.n_levels - 2]

    def _above(self, f: np.ndarray) -> np.ndarray:
        """P(y > j), with an axis of j at the end."""
        return np.asarray(expit(np.asarray(f)[..., None] - self.thresholds))

    def _around(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The thresholds below and above levels; infinite at the ends."""
        ends = np.array([-math.inf, *self.thresholds, math.inf])
        level = np.asarray(y).astype(np.int64)
        return ends[level], ends[level + 1]
