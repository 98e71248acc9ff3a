"""Transforms of skewed readings to a scale on which they are nearly normal, and back."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial.hermite_e import hermegauss

from graphrf._base import checks

TRANSFORMS = ("sqrt", "log", "yeo-johnson")
# Nodes of Gauss-Hermite quadrature.
_NODES = 33


class ResponseScale(NamedTuple):
    """A monotone transform T, of which z = T(y) is modelled as normal; the identity without `name`.

    `exponent` is lambda of Yeo and Johnson's transform, the most likely for independent values,
    within [0, 2]: outside T is bounded on one side, and means of y need not exist.
    """

    name: str | None = None
    exponent: float = 1.0

    @classmethod
    def of(cls, name: str | None, values: np.ndarray) -> ResponseScale:
        """The transform for some values, NaN allowed; ValueError for any outside its domain."""
        cls(name)._check(values)
        if name != "yeo-johnson":
            return cls(name)
        from sklearn.preprocessing import PowerTransformer

        fitted = PowerTransformer(standardize=False).fit(values.reshape(-1, 1))
        return cls(name, float(np.clip(fitted.lambdas_[0], 0.0, 2.0)))

    @classmethod
    def candidates(cls, values: np.ndarray) -> list[ResponseScale]:
        """The identity, and the transforms whose domain holds all values."""
        least = float(np.nanmin(values))
        names = [
            None,
            *(["sqrt"] if least >= 0 else []),
            *(["log"] if least > 0 else []),
            "yeo-johnson",
        ]
        return [cls.of(name, values) for name in names]

    def forward(self, y: np.ndarray) -> np.ndarray:
        """T(y) of readings, which may be NaN; ValueError outside of the domain."""
        self._check(y)
        if self.name == "sqrt":
            return np.sqrt(y)
        if self.name == "log":
            return np.log(y)
        if self.name is None:
            return y
        return self._yeo_johnson.transform(np.reshape(y, (-1, 1))).reshape(np.shape(y))

    def bound(self, y: float) -> float:
        """The z below which readings are below y: minus infinity below the domain."""
        if not np.isfinite(y):
            return y
        if (self.name == "sqrt" and y < 0) or (self.name == "log" and y <= 0):
            return -np.inf
        return float(self.forward(np.array([y]))[0])

    def back(self, z: np.ndarray) -> np.ndarray:
        """y with T(y) = z; outside of T's range the end of the domain."""
        if self.name is None:
            return z
        if self.name == "sqrt":
            return np.square(np.maximum(z, 0.0))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            if self.name == "log":
                return np.exp(z)
            return np.asarray(self._yeo_johnson.inverse_transform(np.reshape(z, (-1, 1)))).reshape(
                np.shape(z)
            )

    @property
    def n_fitted(self) -> int:
        """Number of parameters that values determine."""
        return int(self.name == "yeo-johnson")

    def log_slope(self, y: np.ndarray) -> np.ndarray:
        """log T'(y), by which log densities of y and z differ.

        The slope of a square root is at most that at the least positive reading: a reading of 0 is
        one below the limit of measurement, without information on the scale.
        """
        if self.name is None:
            return np.zeros(np.shape(y))
        if self.name == "sqrt":
            positive = y[y > 0]
            return -0.5 * np.log(4.0 * np.maximum(y, positive.min() if positive.size else 1.0))
        if self.name == "log":
            return -np.log(y)
        return np.sign(y) * (self.exponent - 1.0) * np.log1p(np.abs(y))

    def moments(self, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of y for normal z, shape (t, q), by quadrature, row by row."""
        if self.name is None:
            return mean, variance
        nodes, weights = hermegauss(_NODES)
        weights = weights / weights.sum()
        result = np.empty((2, *mean.shape))
        for row, (centre, std) in enumerate(zip(mean, np.sqrt(variance), strict=True)):
            y = self.back(centre[:, None] + std[:, None] * nodes)
            result[0, row] = y @ weights
            result[1, row] = np.square(y - result[0, row][:, None]) @ weights
        return result[0], result[1]

    def _check(self, values: np.ndarray) -> None:
        least = float(np.nanmin(values, initial=np.inf))
        if (self.name == "sqrt" and least < 0) or (self.name == "log" and least <= 0):
            domain = "at least 0" if self.name == "sqrt" else "positive"
            raise checks.value_error(
                "transform",
                f"= {self.name!r} needs readings that are {domain}, got {least:g}: use "
                "'yeo-johnson'",
            )

    @property
    def _yeo_johnson(self) -> Any:
        from sklearn.preprocessing import PowerTransformer

        known = PowerTransformer(standardize=False).fit(np.array([[0.0], [1.0]]))
        known.lambdas_ = np.array([self.exponent])
        return known
