"""Hyperparameters of the largest posterior density: L-BFGS by exact gradients, from the best of a
grid.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import optimize

from graphrf.gp.hyperparameters.marginal_likelihood import (
    MarginalLikelihood,
    log_marginal_likelihood,
)
from graphrf.gp.hyperparameters.parameters import NOISES, OUTPUT_SCALES, Parameters
from graphrf.gp.model.observations import Observations
from graphrf.gp.model.prior import HyperparameterPrior
from graphrf.gp.model.progress import Step
from graphrf.gp.routes.gram import Gram
from graphrf.kernels.derivatives import spectral_derivatives
from graphrf.kernels.kernel import Kernel
from graphrf.operators.precision.protocol import KernelPrecision

Matrices = list[tuple[np.ndarray, list[np.ndarray]]]
"""K of each block, and its derivatives in the named parameters."""

Divisor = Callable[[Kernel, Sequence[str], Matrices], tuple[float, np.ndarray]]
"""Divides K before the output scale multiplies it; returned with its derivatives in the named
parameters.
"""


class TrainingBlock(NamedTuple):
    """Observations that training sees together, and K at their nodes."""

    gram: Gram
    observations: Observations


class LikelihoodResult(NamedTuple):
    """The best hyperparameters of a search."""

    kernel: Kernel
    amplitude: float  # factor of the unscaled kernel: output scale over divisor
    noise: float
    value: float  # log marginal likelihood of the training observations, without the prior
    converged: bool  # the gradient is below 0.1 in the logarithms of the parameters
    point: np.ndarray  # the vector of the search
    ends: dict[str, str]  # "smallest" or "largest" for hyperparameters at a bound of the search


@dataclass
class LikelihoodSearch:
    """The search for the largest marginal likelihood times prior; blocks are independent but for
    their mean.
    """

    blocks: Sequence[TrainingBlock]
    parameters: Parameters
    output_scale: float | None  # None trains it
    noise: float | None  # None trains it
    divisor: Divisor
    prior: HyperparameterPrior
    unit: float  # of variances
    length_unit: float  # of lengthscales
    step: Step | None = None  # called for each evaluation

    def run(self, starts: Sequence[np.ndarray]) -> LikelihoodResult:
        """The highest end of searches from some points; those less than 1 from the end of another
        are left out.
        """
        low, high = np.transpose(self._box).reshape(2, -1)
        ends: list[tuple[float, bool, np.ndarray]] = []
        for start in starts:
            if all(np.abs(start - end).max(initial=0.0) >= 1.0 for _, _, end in ends):
                ends.append(self._minimum(np.clip(start, low, high)))
        _, converged, best = min(ends, key=lambda end: end[0])
        value = -self.negative(best, gradient=False)[0]
        if not math.isfinite(value):
            raise ValueError(
                "the covariance of the observations cannot be factored with these hyperparameters: "
                "it is numerically singular (raise `noise`), or vanishes because walks or series "
                "are too short for the kernel (shorten its lengthscale)"
            )
        kernel, output_scale, noise = self._model(best)
        amplitude, likelihood = (
            output_scale / self.divided_by(kernel),
            value - self._log_prior(best)[0],
        )
        ended = {}
        for name, end, (first, last) in zip(self._names, best, self._box, strict=True):
            if first < last and end in (first, last):
                ended[name] = "smallest" if end == first else "largest"
        return LikelihoodResult(kernel, amplitude, noise, likelihood, converged, best, ended)

    def _minimum(self, start: np.ndarray) -> tuple[float, bool, np.ndarray]:
        """The end of one search: `negative` there, whether its gradient is level, and the point.

        The objective is divided by the number of observations, so that a first step, its gradient,
        stays near the start.
        """
        if not start.size:
            return 0.0, True, start
        size, values = self._size, list[float]()

        def objective(vector: np.ndarray) -> tuple[float, np.ndarray]:
            value, slope = self.negative(vector)
            values.append(value if math.isfinite(value) else max(values, default=1e25) + size)
            return values[-1] / size, slope / size

        result = optimize.minimize(
            objective,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=self._box,
            options={
                "ftol": 1e-9,
                "gtol": 1e-3 / size,
            },  # nats of an observation, and of all in a logarithm
        )
        projected = result.x - np.clip(result.x - size * result.jac, *np.transpose(self._box))
        return float(result.fun), bool(np.abs(projected).max() <= 0.1), result.x

    @property
    def _size(self) -> int:
        """Values of distinct nodes and outputs."""
        return sum(block.observations.means.size for block in self.blocks)

    # -- vectors of parameters ---------------------------------------------------------------------

    def point(self, kernel: Kernel, output_scale: float, noise: float) -> np.ndarray:
        """The vector of parameters of a kernel, output scale and noise."""
        vector = list(self.parameters.point(kernel))
        vector += [math.log(output_scale)] if self.output_scale is None else []
        vector += [math.log(noise)] if self.noise is None else []
        return np.array(vector)

    @property
    def _trained(self) -> np.ndarray:
        """Mask of those derivatives in the kernel's parameters, output scale and noise are used."""
        return np.array(
            [True] * len(self.parameters.names) + [self.output_scale is None, self.noise is None]
        )

    @property
    def _names(self) -> list[str]:
        """The names of the coordinates."""
        names = (*self.parameters.names, "output_scale", "noise")
        return [name for name, trained in zip(names, self._trained, strict=True) if trained]

    @property
    def _box(self) -> list[tuple[float, float]]:
        """The bounds of the coordinates."""
        box = self.parameters.box
        for fixed, (low, high) in ((self.output_scale, OUTPUT_SCALES), (self.noise, NOISES)):
            if fixed is None:
                box.append((math.log(low * self.unit), math.log(high * self.unit)))
        return box

    def _model(self, vector: np.ndarray) -> tuple[Kernel, float, float]:
        """Kernel, output scale and noise of a vector of parameters."""
        rest = list(vector[len(self.parameters.names) :])
        output_scale = math.exp(rest.pop(0)) if self.output_scale is None else self.output_scale
        noise = math.exp(rest.pop(0)) if self.noise is None else self.noise
        return self.parameters.kernel(vector), output_scale, noise

    # -- the objective -----------------------------------------------------------------------------

    def negative(self, vector: np.ndarray, gradient: bool = True) -> tuple[float, np.ndarray]:
        """Minus the log posterior density and its gradient (or zeros); inf if the covariance is
        singular.
        """
        if self.step is not None:
            self.step()
        kernel, output_scale, noise = self._model(vector)
        names = self.parameters.names if gradient else None
        given = self._matrices(kernel, names or ())
        divisor, slopes = self.divisor(kernel, names or (), given)
        if not (np.isfinite(divisor) and divisor > 0):  # the modulation underflows
            return math.inf, np.zeros(vector.size)
        try:
            result = self._likelihood(kernel, names, given, output_scale / divisor, noise)
        except np.linalg.LinAlgError:
            return math.inf, np.zeros(vector.size)
        density, density_slope = self._log_prior(vector)
        if not gradient:
            return -result.value - density, np.zeros(vector.size)
        kernel_slopes = self.parameters.slopes(
            kernel, result.parameters - result.log_scale * slopes / divisor
        )
        return -result.value - density, -np.append(
            kernel_slopes, [result.log_scale, result.log_noise]
        )[self._trained] - density_slope

    def _matrices(self, kernel: Kernel, names: Sequence[str]) -> Matrices:
        return [block.gram(kernel, names) for block in self.blocks]

    def _likelihood(
        self,
        kernel: Kernel,
        names: Sequence[str] | None,
        given: Matrices,
        amplitude: float,
        noise: float,
    ) -> MarginalLikelihood:
        """The likelihood, with derivatives in the named parameters unless there are None."""
        return log_marginal_likelihood(
            [matrix for matrix, _ in given],
            [block.observations for block in self.blocks],
            scale=amplitude,
            noise=noise,
            derivatives=() if names is None else [changes for _, changes in given],
        )

    def divided_by(self, kernel: Kernel) -> float:
        """The divisor of K."""
        return self.divisor(kernel, (), self._matrices(kernel, ()))[0]

    def _log_prior(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """The log prior density of a vector, and its gradient."""
        units = {"lengthscale": self.length_unit, "output_scale": self.unit, "noise": self.unit}
        result = [
            self.prior.log_density(name, value, units.get(name, 1.0))
            for name, value in zip(self._names, vector, strict=True)
        ]
        values, slopes = np.array(result, dtype=np.float64).reshape(-1, 2).T
        return float(values.sum()), slopes


def subset_divisor() -> Divisor:
    """The mean variance at the training nodes: it keeps scale and lengthscale nearly independent in
    the search.
    """

    def divide(kernel: Kernel, names: Sequence[str], blocks: Matrices) -> tuple[float, np.ndarray]:
        size = sum(matrix.shape[0] for matrix, _ in blocks)
        total = sum(float(np.trace(matrix)) for matrix, _ in blocks)
        slopes = np.sum([[np.trace(change) for change in changes] for _, changes in blocks], axis=0)
        return total / size, slopes / size

    return divide


def spectral_divisor(points: np.ndarray, weights: np.ndarray, scale: float) -> Divisor:
    """The mean variance over all nodes, by a quadrature of W's spectrum: for a fixed
    output scale.
    """

    def divide(kernel: Kernel, names: Sequence[str], blocks: Matrices) -> tuple[float, np.ndarray]:
        value = float(weights @ kernel.spectrum(scale * (1 - points), scale))
        return value, weights @ spectral_derivatives(kernel, names, points, scale)

    return divide


def precision_divisor(precision: KernelPrecision) -> Divisor:
    """The mean variance over all nodes by sparse factors; its derivatives are differences in the
    log odds.
    """

    def divide(kernel: Kernel, names: Sequence[str], blocks: Matrices) -> tuple[float, np.ndarray]:
        value = precision.with_kernel(kernel).mean_variance()
        slopes = []
        for name in names:
            proportion = kernel.hyperparameters[name]
            step = 1e-5 * proportion * (1 - proportion)  # half of the digits
            ends = (kernel.replace(**{name: end}) for end in (proportion + step, proportion - step))
            above, below = (precision.with_kernel(end).mean_variance() for end in ends)
            slopes.append((above - below) / (2 * step))
        return value, np.array(slopes)

    return divide


def unit_divisor() -> Divisor:
    """1: for a fixed output scale that multiplies the kernel as it is."""

    def divide(kernel: Kernel, names: Sequence[str], blocks: Matrices) -> tuple[float, np.ndarray]:
        return 1.0, np.zeros(len(names))

    return divide
