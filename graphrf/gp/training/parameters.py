"""A kernel's hyperparameters as a vector that an optimiser can move: the positive ones by their logarithm."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from graphrf.kernels.kernel import Kernel

_GRID_LENGTHSCALES = 6
# The smallest of them over the lower bound.
_GRID_FROM = 5.0


class Parameters:
    """Named hyperparameters within bounds, in coordinates x: log(theta) where the lower bound is positive.

    Parameters
    ----------
    kernel : Kernel
        The first guess; what is not named stays as it is there.
    names : sequence of str
        May be empty.
    bounds : mapping
        Of each: (low, high).
    """

    def __init__(self, kernel: Kernel, names: Sequence[str], bounds: Mapping[str, tuple[float, float]]) -> None:
        self._kernel = kernel
        self.names: tuple[str, ...] = tuple(names)
        self._bounds = {name: bounds[name] for name in names}
        self._logged = np.array([bounds[name][0] > 0 for name in names], dtype=bool)

    @property
    def box(self) -> list[tuple[float, float]]:
        """The bounds of each coordinate."""
        ends = zip(self._bounds.values(), self._logged, strict=True)
        return [(math.log(low), math.log(high)) if logged else (low, high) for (low, high), logged in ends]

    def kernel(self, x: np.ndarray) -> Kernel:
        """The kernel of a vector that begins with the coordinates."""
        if not self.names:
            return self._kernel
        own = x[: len(self.names)]
        own = np.where(self._logged, np.exp(np.where(self._logged, own, 0.0)), own)
        # rounding in exp(log(bound)) may step over a bound
        values = zip(self.names, own, strict=True)
        return self._kernel.replace(**{name: float(np.clip(value, *self._bounds[name])) for name, value in values})

    def slopes(self, kernel: Kernel, derivatives: Sequence[float] | np.ndarray) -> np.ndarray:
        """Derivatives in the coordinates from those in the hyperparameters."""
        own = np.array([kernel.hyperparameters[name] for name in self.names])
        return np.asarray(derivatives, dtype=np.float64) * np.where(self._logged, own, 1.0)

    def point(self, kernel: Kernel) -> np.ndarray:
        """The coordinates of a kernel, within the bounds."""
        own = kernel.hyperparameters
        return np.array(
            [
                math.log(np.clip(own[name], *self._bounds[name])) if logged else own[name]
                for name, logged in zip(self.names, self._logged, strict=True)
            ]
        )

    def starts(self) -> list[np.ndarray]:
        """The kernel as given, and with a few other lengthscales if that is named."""
        given = self.point(self._kernel)
        points = [given]
        if "lengthscale" in self.names:
            low, high = self._bounds["lengthscale"]
            for value in np.geomspace(max(low, min(_GRID_FROM * low, high)), high, _GRID_LENGTHSCALES):
                points.append(given.copy())
                points[-1][self.names.index("lengthscale")] = math.log(value)
        return points
