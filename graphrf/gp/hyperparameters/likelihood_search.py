"""Hyperparameters of the largest posterior density: L-BFGS by exact gradients, from the best of a
grid.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from graphrf.gp.hyperparameters.marginal_likelihood import (
    MarginalLikelihood,
    log_marginal_likelihood,
)
from graphrf.gp.hyperparameters.space import Model, Space
from graphrf.gp.methods.gram import Gram
from graphrf.gp.model.observations import Observations
from graphrf.gp.model.progress import Step
from graphrf.gp.search.maximum import Maximum, Tolerances, maximised
from graphrf.kernels.derivatives import spectral_derivatives
from graphrf.kernels.kernel import Kernel
from graphrf.operators.precision.protocol import KernelPrecision

Matrices = list[tuple[np.ndarray, list[np.ndarray]]]
"""K of each block, and its derivatives in the named parameters."""

MeanVariance = Callable[[Kernel, Sequence[str], Matrices], tuple[float, np.ndarray]]
"""The mean variance, by which K is divided before the output scale multiplies it, with its
derivatives in the named parameters.
"""


class TrainingBlock(NamedTuple):
    """Observations that training sees together, and K at their nodes."""

    gram: Gram
    observations: Observations


class LikelihoodResult(NamedTuple):
    """The best hyperparameters of a search."""

    model: Model
    amplitude: float  # factor of the unscaled kernel: output scale over mean variance
    value: float  # log marginal likelihood of the training observations, without the prior
    converged: bool
    vector: np.ndarray


@dataclass
class LikelihoodSearch:
    """The search for the largest marginal likelihood times prior; blocks are independent but for
    their mean.
    """

    blocks: Sequence[TrainingBlock]
    space: Space
    mean_variance: MeanVariance
    step: Step | None = None  # called for each evaluation

    def run(
        self, starts: Sequence[np.ndarray], tolerances: Tolerances | None = None
    ) -> LikelihoodResult:
        """The highest end of searches from some points; those less than 1 from the end of another
        are left out.
        """
        space, ends = self.space, list[Maximum]()
        for start in starts:
            if all(np.abs(start - end.vector).max(initial=0.0) >= 1.0 for end in ends):
                # By the number of observations, so that a first step stays near the start.
                ends.append(
                    maximised(
                        self.log_posterior,
                        start,
                        space.box,
                        scale=float(self._size),
                        tolerances=tolerances,
                    )
                )

        best = max(ends, key=lambda end: end.value)
        value = self.log_posterior(best.vector, gradient=False)[0]
        if not math.isfinite(value):
            raise ValueError(
                "the covariance of the observations cannot be factored with these hyperparameters: "
                "it is numerically singular (raise `noise`), or vanishes because walks or series "
                "are too short for the kernel (shorten its lengthscale)"
            )

        model = space.model(best.vector)
        amplitude = model.output_scale / self.mean_variance_of(model.kernel)
        likelihood = value - space.log_prior(best.vector)[0]
        return LikelihoodResult(model, amplitude, likelihood, best.converged, best.vector)

    @property
    def _size(self) -> int:
        """Values of distinct nodes and outputs."""
        return sum(block.observations.means.size for block in self.blocks)

    def log_posterior(self, vector: np.ndarray, gradient: bool = True) -> tuple[float, np.ndarray]:
        """The log posterior density and its gradient (or zeros); -inf if the covariance is
        singular.
        """
        if self.step is not None:
            self.step()

        space = self.space
        model = space.model(vector)
        names = space.kernel_names if gradient else None
        matrices = self._matrices(model.kernel, names or ())
        mean_variance, slopes = self.mean_variance(model.kernel, names or (), matrices)
        if not (np.isfinite(mean_variance) and mean_variance > 0):  # the modulation underflows
            return -math.inf, np.zeros(vector.size)

        try:
            result = self._likelihood(
                model.kernel, names, matrices, model.output_scale / mean_variance, model.noise
            )
        except np.linalg.LinAlgError:
            return -math.inf, np.zeros(vector.size)

        density, density_slope = space.log_prior(vector)
        if not gradient:
            return result.value + density, np.zeros(vector.size)

        kernel_slopes = space.kernel_slopes(
            model.kernel, result.parameters - result.log_scale * slopes / mean_variance
        )
        variances = [result.log_scale] if space.output_scale is None else []
        variances += [result.log_noise] if space.noise is None else []
        return result.value + density, np.append(kernel_slopes, variances) + density_slope

    def _matrices(self, kernel: Kernel, names: Sequence[str]) -> Matrices:
        return [block.gram(kernel, names) for block in self.blocks]

    def _likelihood(
        self,
        kernel: Kernel,
        names: Sequence[str] | None,
        matrices: Matrices,
        amplitude: float,
        noise: float,
    ) -> MarginalLikelihood:
        """The likelihood, with derivatives in the named parameters unless there are None."""
        return log_marginal_likelihood(
            [matrix for matrix, _ in matrices],
            [block.observations for block in self.blocks],
            scale=amplitude,
            noise=noise,
            derivatives=() if names is None else [changes for _, changes in matrices],
        )

    def mean_variance_of(self, kernel: Kernel) -> float:
        """The mean variance of K."""
        return self.mean_variance(kernel, (), self._matrices(kernel, ()))[0]


def mean_variance_of_blocks() -> MeanVariance:
    """The mean variance at the training nodes: it keeps scale and lengthscale nearly independent in
    the search.
    """

    def divide(kernel: Kernel, names: Sequence[str], blocks: Matrices) -> tuple[float, np.ndarray]:
        size = sum(matrix.shape[0] for matrix, _ in blocks)
        total = sum(float(np.trace(matrix)) for matrix, _ in blocks)
        slopes = np.sum([[np.trace(change) for change in changes] for _, changes in blocks], axis=0)
        return total / size, slopes / size

    return divide


def spectral_mean_variance(points: np.ndarray, weights: np.ndarray, scale: float) -> MeanVariance:
    """The mean variance over all nodes, by a quadrature of W's spectrum: for a fixed
    output scale.
    """

    def divide(kernel: Kernel, names: Sequence[str], blocks: Matrices) -> tuple[float, np.ndarray]:
        value = float(weights @ kernel.spectrum(scale * (1 - points), scale))
        return value, weights @ spectral_derivatives(kernel, names, points, scale)

    return divide


def precision_mean_variance(precision: KernelPrecision) -> MeanVariance:
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


def unit_mean_variance() -> MeanVariance:
    """1: for a fixed output scale that multiplies the kernel as it is."""

    def divide(kernel: Kernel, names: Sequence[str], blocks: Matrices) -> tuple[float, np.ndarray]:
        return 1.0, np.zeros(len(names))

    return divide
