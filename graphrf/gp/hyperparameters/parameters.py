"""A kernel's hyperparameters as the bounded coordinates of a search."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.special import expit, logit

from graphrf.kernels.kernel import Kernel
from graphrf.kernels.lengthscales import LENGTHSCALES

# Ranges of output scale and noise in variances of the observations: outside them neither has an
# effect.
OUTPUT_SCALES = (1e-3, 1e3)
NOISES = (1e-6, 10.0)


def hyperparameter_range(
    kernel: Kernel, name: str, scale: float, longest: float, unit: float = 1.0
) -> tuple[float, float]:
    """The bounds of a hyperparameter on a graph of this scale: of lengthscales, in their unit, up
    to `longest`.
    """
    low = kernel.hyperparameter_bounds(scale)[name]
    if name == "lengthscale":
        return min(LENGTHSCALES[0] * unit, longest), longest
    if name in ("nu", "power"):  # trained on request only; outside, the data hardly determine them
        return 0.25, 8.0
    if name in kernel.proportions:
        return 1e-3, 1 - 1e-3
    if low == -math.inf:
        return -math.inf, math.inf
    return (low, 100.0 * low) if low > 0 else (1e-3, 1e3)


class Parameters:
    """Named hyperparameters of a kernel within bounds, as coordinates.

    A coordinate is log(theta) where the lower bound is positive, and log odds for shares between 0
    and 1. Other hyperparameters keep the kernel's values.
    """

    def __init__(
        self, kernel: Kernel, names: Sequence[str], bounds: Mapping[str, tuple[float, float]]
    ) -> None:
        self._kernel = kernel
        self.names: tuple[str, ...] = tuple(names)
        self._bounds = {name: bounds[name] for name in names}
        self._shares = np.array([name in kernel.proportions for name in names], dtype=bool)
        self._logged = np.array([bounds[name][0] > 0 for name in names], dtype=bool) & ~self._shares

    @property
    def box(self) -> list[tuple[float, float]]:
        """The bounds of each coordinate."""
        low, high = (self._coordinates([ends[k] for ends in self._bounds.values()]) for k in (0, 1))
        return list(zip(low.tolist(), high.tolist(), strict=True))

    def kernel(self, x: np.ndarray) -> Kernel:
        """The kernel of a vector that begins with the coordinates."""
        if not self.names:
            return self._kernel
        theta = x[: len(self.names)]
        theta = np.where(self._logged, np.exp(np.where(self._logged, theta, 0.0)), theta)
        theta = np.where(self._shares, expit(theta), theta)
        # rounding in exp(log(bound)) may step over a bound
        values = zip(self.names, theta, strict=True)
        return self._kernel.replace(
            **{name: float(np.clip(value, *self._bounds[name])) for name, value in values}
        )

    def slopes(self, kernel: Kernel, derivatives: Sequence[float] | np.ndarray) -> np.ndarray:
        """Derivatives in the coordinates from those in the hyperparameters."""
        theta = np.array([kernel.hyperparameters[name] for name in self.names])
        by = np.where(self._shares, theta * (1 - theta), np.where(self._logged, theta, 1.0))
        return np.asarray(derivatives, dtype=np.float64) * by

    def point(self, kernel: Kernel) -> np.ndarray:
        """The coordinates of a kernel, within the bounds."""
        theta = kernel.hyperparameters
        kept = self._logged | self._shares
        return self._coordinates(
            [
                float(np.clip(theta[name], *self._bounds[name])) if clipped else theta[name]
                for name, clipped in zip(self.names, kept, strict=True)
            ]
        )

    def starts(self) -> list[np.ndarray]:
        """The kernel as given, and with a few other lengthscales or shares, if these are named."""
        given = self.point(self._kernel)
        points = [given]
        if "lengthscale" in self.names:
            low, high = self._bounds["lengthscale"]
            for value in np.geomspace(min(5.0 * low, high), high, 6):
                points.append(given.copy())
                points[-1][self.names.index("lengthscale")] = math.log(value)
        for place in np.flatnonzero(self._shares):
            for proportion in (0.1, 0.9):
                points.append(given.copy())
                points[-1][place] = logit(proportion)
        return points

    def _coordinates(self, values: Sequence[float]) -> np.ndarray:
        """The coordinates of one value for each name."""
        kinds = zip(values, self._logged, self._shares, strict=True)
        return np.array(
            [
                math.log(each) if logged else float(logit(each)) if odds else each
                for each, logged, odds in kinds
            ]
        )
