"""Likelihoods of real numbers: normal noise, and Student's t with outliers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from scipy.special import ndtr, stdtr

from graphrf._base import checks
from graphrf.gp.likelihoods.likelihood import Likelihood, Pair, known

# Of observations whose scale is trained, in their own units.
_LARGEST_SCATTER = 1e10


class Identity(Likelihood):
    """Likelihoods whose mean is f."""

    def mean(self, f: np.ndarray) -> np.ndarray:
        return np.asarray(f)

    def moments(self, mean: np.ndarray, variance: np.ndarray) -> Pair:
        return np.asarray(mean), np.asarray(variance)


@dataclass(frozen=True)
class StudentT(Identity):
    r"""Values with outliers: y = f + scale t, with Student's t of df degrees of freedom.

    Parameters
    ----------
    scale : float, optional
        In units of y; None trains it.
    df : float, optional
        Degrees of freedom, above 1: 4 is robust; large values approach normal noise. None trains
        it.

    Notes
    -----
    The density is not log-concave: the posterior may have several maxima, which one normal
    distribution covers.

    Source: Jylänki, Vanhatalo and Vehtari 2011, "Robust Gaussian process regression with a
    Student-t likelihood".
    """

    scale: float | None = None
    df: float | None = 4.0
    log_concave = False
    priors = MappingProxyType({"scale": (0.3, 3.0), "df": (5.0, 2.0)})
    ranges = MappingProxyType({"scale": (1e-3, 10.0), "df": (1.5, 200.0)})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.df is not None and self.df <= 1:
            raise checks.value_error(
                "df", f"must be greater than 1, so that y has a mean, got {self.df:g}"
            )

    def checked(self, y: np.ndarray, trials: np.ndarray | None) -> np.ndarray:
        scatter = self.unit(super().checked(y, trials))
        if self.scale is None and not 1 / _LARGEST_SCATTER <= scatter <= _LARGEST_SCATTER:
            raise checks.value_error(
                "y",
                f"must have a spread from {1 / _LARGEST_SCATTER:g} to {_LARGEST_SCATTER:g} with "
                f"{self!r}, got {scatter:.3g}; change its units",
            )
        return y

    def start(self, y: np.ndarray, offset: np.ndarray) -> float:
        return float(np.median(y - offset))

    def unit(self, y: np.ndarray) -> float:
        scatter = 1.4826 * float(np.median(np.abs(y - np.median(y))))
        return scatter or float(np.std(y)) or 1.0

    def parameter_unit(self, name: str, unit: float) -> float:
        return unit if name == "scale" else 1.0

    def log_density(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        s, v = known(self.scale), known(self.df)
        constant = (
            math.lgamma(0.5 * v + 0.5)
            - math.lgamma(0.5 * v)
            - 0.5 * math.log(v * math.pi)
            - math.log(s)
        )
        return np.asarray(constant - (0.5 * v + 0.5) * np.log1p(np.square((y - f) / s) / v))

    def variance(self, f: np.ndarray) -> np.ndarray:
        s, v = known(self.scale), known(self.df)
        return np.full(np.shape(f), s * s * v / (v - 2) if v > 2 else np.inf)

    def sample(self, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.asarray(f + known(self.scale) * rng.standard_t(known(self.df), size=np.shape(f)))

    def distribution(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return np.asarray(stdtr(known(self.df), (y - f) / known(self.scale)))


@dataclass(frozen=True)
class NormalNoise(Identity):
    """Values with normal noise: y = f + scale e, e ~ N(0, 1)."""

    scale: float | None = None  # in units of y; None trains it
    priors = MappingProxyType({"scale": (0.3, 4.0)})
    ranges = MappingProxyType({"scale": (1e-4, 10.0)})

    def start(self, y: np.ndarray, offset: np.ndarray) -> float:
        return float(np.mean(y - offset))

    def unit(self, y: np.ndarray) -> float:
        return float(np.std(y)) or 1.0

    def parameter_unit(self, name: str, unit: float) -> float:
        return unit

    def log_density(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        s = known(self.scale)
        return np.asarray(-0.5 * np.square((y - f) / s) - math.log(s) - 0.5 * math.log(2 * math.pi))

    def variance(self, f: np.ndarray) -> np.ndarray:
        return np.full(np.shape(f), known(self.scale) ** 2)

    def sample(self, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.asarray(f + known(self.scale) * rng.standard_normal(np.shape(f)))

    def distribution(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return np.asarray(ndtr((y - f) / known(self.scale)))
