"""The values of a kernel's hyperparameter on the grid of the posterior: a lengthscale,
or a share.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from graphrf.gp.hyperparameters.space import hyperparameter_range, kernel_parameters
from graphrf.gp.model.prior import HyperparameterPrior
from graphrf.gp.search.coordinates import Coordinates
from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel
from graphrf.kernels.lengthscales import LENGTHSCALES, lengthscale_unit


def length_unit(graph: Graph, kernel: Kernel) -> float:
    """The unit of a kernel's lengthscales on a graph."""
    return lengthscale_unit(graph, kernel.laplacian) if kernel.is_series else 1.0


@dataclass(frozen=True)
class KernelAxis:
    """A kernel and the hyperparameter of it that varies on the grid."""

    kernel: Kernel
    name: str  # "" without a hyperparameter
    others: tuple[str, ...]  # further trained hyperparameters
    ranges: dict[str, tuple[float, float]]  # (low, high) of each trained hyperparameter
    unit: float  # unit of the hyperparameter on the grid
    is_cut: bool  # longer lengthscales are not served

    @classmethod
    def of(
        cls, graph: Graph, kernel: Kernel, names: Sequence[str], longest: Callable[[Kernel], float]
    ) -> KernelAxis:
        """The lengthscale, up to the longest that is served, or a share, if it is to be trained."""
        unit = length_unit(graph, kernel)
        end, is_cut = LENGTHSCALES[1] * unit, False
        if "lengthscale" in names:
            served = longest(kernel)
            is_cut = served < 0.98 * end
            end = min(served, end)
        scale = graph.laplacian_scale(kernel.laplacian) if kernel.is_series else 1.0
        ranges = {name: hyperparameter_range(kernel, name, scale, end, unit) for name in names}
        name = next((each for each in ("lengthscale", *kernel.proportions) if each in names), "")
        others = tuple(each for each in names if each != name)
        return cls(kernel, name, others, ranges, unit if name == "lengthscale" else 1.0, is_cut)

    def at(self, kernel: Kernel) -> KernelAxis:
        """This axis of a kernel whose other hyperparameters are known."""
        return replace(self, kernel=kernel, others=())

    @property
    def _points(self) -> np.ndarray:
        """Fourteen grid values as logarithms (log odds of shares); lengthscales from 0.3 to 100
        units.
        """
        ((low, high),) = self._coordinates.box
        if self.name != "lengthscale":
            return np.linspace(low, high, 14)
        shortest = 0.3 * self.unit
        step = math.log(LENGTHSCALES[1] * self.unit / shortest) / 13
        low = min(math.log(shortest), high)
        return np.linspace(low, high, 1 + math.ceil((high - low) / step - 1e-9))

    @property
    def _coordinates(self) -> Coordinates:
        return Coordinates(kernel_parameters(self.kernel, {self.name: self.ranges[self.name]}))

    @property
    def kernels(self) -> list[Kernel]:
        """The kernel at each value."""
        if not self.name:
            return [self.kernel]
        values = [self._coordinates.values(np.array([point]))[0] for point in self._points]
        return [self.kernel.replace(**{self.name: value}) for value in values]

    def log_prior(self, prior: HyperparameterPrior) -> np.ndarray:
        """The log prior density of each value."""
        if not self.name:
            return np.zeros(1)
        return np.asarray(prior.log_density(self.name, self._points, self.unit)[0])
