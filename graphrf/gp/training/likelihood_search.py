"""Hyperparameters by maximum marginal likelihood: starts on a grid, then L-BFGS with exact gradients."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from graphrf.gp.inference.likelihood import least_squares_mean, log_marginal_likelihood
from graphrf.gp.inference.observations import Observations
from graphrf.gp.training.gram import Gram
from graphrf.gp.training.parameters import Parameters
from graphrf.gp.training.ranges import NOISES, OUTPUT_SCALES
from graphrf.kernels.derivatives import spectral_derivatives
from graphrf.kernels.kernel import Kernel

_GRID_NOISE = (0.01, 0.1, 0.5, 0.9)
_MAX_STEPS = 40
# Where the optimiser stops: at so small a share of the likelihood gained by a step, or so few nats a unit of the
# parameters' logarithms. Hyperparameters are known to a nat.
_FLAT, _LEVEL = 1e-7, 1e-3
# So near a bound of the search, mostly in logarithms, a hyperparameter is at it.
_AT_END = 1e-6
# What the optimiser is told where the covariance cannot be factored.
_IMPOSSIBLE = 1e25

Matrices = list[tuple[np.ndarray, list[np.ndarray]]]
"""Of each block K and its derivatives in the named parameters."""

Divisor = Callable[[Kernel, Sequence[str], Matrices], tuple[float, np.ndarray]]
"""What K is divided by before the output scale multiplies it, and its derivatives in the named parameters."""


class Block(NamedTuple):
    """Observations that training sees together, and K at their nodes."""

    gram: Gram
    observations: Observations


class LikelihoodResult(NamedTuple):
    """The best hyperparameters found.

    Attributes
    ----------
    kernel : Kernel
    amplitude : float
        What multiplies the kernel as it is: output scale over divisor.
    noise : float
        Variance.
    value : float
        The log marginal likelihood of the observations that training saw.
    converged : bool
        Whether the optimiser says so.
    point : ndarray
        The parameters as the search has them.
    ends : dict
        Of each hyperparameter that ended where the search does: "smallest" or "largest".
    """

    kernel: Kernel
    amplitude: float
    noise: float
    value: float
    converged: bool
    point: np.ndarray
    ends: dict[str, str]


def train(
    blocks: Sequence[Block],
    kernel: Kernel,
    *,
    names: Sequence[str],
    bounds: dict[str, tuple[float, float]],
    output_scale: float | None,
    noise: float | None,
    divisor: Divisor,
    scouts: Sequence[Block] | None = None,
    start: np.ndarray | None = None,
) -> LikelihoodResult:
    """Maximise the log marginal likelihood over the named hyperparameters, output scale and noise.

    `scouts`, a part of the blocks, are searched from a grid of starts, and all blocks from where that ends.

    Parameters
    ----------
    blocks : sequence of Block
        Independent of each other but for the mean.
    kernel : Kernel
        The first guess.
    names : sequence of str
        Hyperparameters of the kernel to train; may be empty.
    bounds : dict
        Of each: (low, high). Those that are positive are sought by their logarithm.
    output_scale, noise : float or None
        None trains them.
    divisor : Divisor
    scouts : sequence of Block, optional
        None stands for all blocks.
    start : ndarray, optional
        The `point` of an earlier search with the same settings: only there this one begins.
    """
    unit = spread([block.observations for block in blocks])
    search = LikelihoodSearch(blocks, Parameters(kernel, names, bounds), output_scale, noise, divisor, unit)
    if start is None and scouts is not None and list(scouts) != list(blocks):
        start = replace(search, blocks=scouts).run().point
    return search.run(start)


@dataclass
class LikelihoodSearch:
    """The search of `train`."""

    blocks: Sequence[Block]
    parameters: Parameters
    output_scale: float | None
    noise: float | None
    divisor: Divisor
    unit: float

    def run(self, start: np.ndarray | None = None) -> LikelihoodResult:
        box = self._box()
        starts = (
            self._starts() if start is None else [self._from(np.clip(start, *np.transpose(box)) if box else start)]
        )
        best, best_value, converged = starts[0], -math.inf, True
        if best.size:
            for start in starts:
                result = minimize(
                    self._unitless, start, jac=True, method="L-BFGS-B", bounds=box,
                    options={"maxiter": _MAX_STEPS, "ftol": _FLAT, "gtol": _LEVEL},
                )  # fmt: skip
                if -result.fun > best_value:
                    best, best_value, converged = result.x, -float(result.fun), bool(result.success)
        value = -self.negative(best)[0]
        if value <= -_IMPOSSIBLE:
            raise ValueError(
                "the covariance of the observations cannot be factored with these hyperparameters: it is "
                "singular to rounding (raise `noise`), or vanishes because walks or series are too short for the "
                "kernel (shorten its lengthscale)"
            )
        kernel, output_scale, noise = self._model(best)
        divisor, _ = self.divisor(kernel, (), [block.gram(kernel, ()) for block in self.blocks])
        return LikelihoodResult(
            kernel, output_scale / divisor, noise, value, converged, best, self._ends(best, box)
        )

    def _from(self, start: np.ndarray) -> np.ndarray:
        """A start of another search, with its noise or a larger one: near none the likelihood is flat in it."""
        if self.noise is not None:
            return start
        larger = [math.log(ratio * self.unit) for ratio in _GRID_NOISE]
        points = [start, *(np.append(start[:-1], noise) for noise in larger if noise > start[-1])]
        values = [self.negative(point, gradient=False)[0] for point in points]
        return points[int(np.argmin(values))]

    # -- vectors of parameters ---------------------------------------------------------------------

    def _box(self) -> list[tuple[float, float]]:
        box = self.parameters.box
        for fixed, (low, high) in ((self.output_scale, OUTPUT_SCALES), (self.noise, NOISES)):
            if fixed is None:
                box.append((math.log(low * self.unit), math.log(high * self.unit)))
        return box

    def _ends(self, best: np.ndarray, box: list[tuple[float, float]]) -> dict[str, str]:
        """See `LikelihoodResult`."""
        names = [*self.parameters.names]
        names += ["output_scale"] if self.output_scale is None else []
        names += ["noise"] if self.noise is None else []
        found = {}
        for name, value, (low, high) in zip(names, best, box, strict=True):
            if high > low and min(value - low, high - value) < _AT_END:
                found[name] = "smallest" if value - low < high - value else "largest"
        return found

    def _model(self, vector: np.ndarray) -> tuple[Kernel, float, float]:
        """Kernel, output scale and noise of a vector of parameters."""
        rest = list(vector[len(self.parameters.names) :])
        output_scale = math.exp(rest.pop(0)) if self.output_scale is None else self.output_scale
        noise = math.exp(rest.pop(0)) if self.noise is None else self.noise
        return self.parameters.kernel(vector), output_scale, noise

    def _starts(self) -> list[np.ndarray]:
        """The best few points of a coarse grid over lengthscale and noise; the kernel as given is one of them."""
        ratios = _GRID_NOISE if self.noise is None else (0.1,)
        points = []
        for point, ratio in itertools.product(self.parameters.starts(), ratios):
            vector = list(point)
            if self.output_scale is None:  # what the noise leaves of the variance
                vector.append(math.log((1 - ratio) * self.unit))
            if self.noise is None:
                vector.append(math.log(ratio * self.unit))
            points.append(np.array(vector))
        if len(points) == 1:
            return points
        values_there = [self.negative(point, gradient=False)[0] for point in points]
        # The best point, the best with another lengthscale and the best with another share of noise: two starts
        # that have both in common end in one place, and mostly noise and mostly signal are maxima of their own.
        order = np.argsort(values_there, kind="stable")
        n = len(self.parameters.names)
        best = points[order[0]]
        others = (
            next((points[k] for k in order if not np.array_equal(points[k][part], best[part])), None)
            for part in (slice(0, n), slice(n, None))
        )
        return [best, *(point for point in others if point is not None)]

    # -- the objective -----------------------------------------------------------------------------

    def _unitless(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """The negative log density of y in units of its deviation: the optimiser stops alike in all units."""
        value, slope = self.negative(vector)
        count = sum(block.observations.n_total * block.observations.n_outputs for block in self.blocks)
        return value - 0.5 * count * math.log(self.unit), slope

    def negative(self, vector: np.ndarray, gradient: bool = True) -> tuple[float, np.ndarray]:
        """Minus the log marginal likelihood, and its gradient (zeros unless asked for)."""
        kernel, output_scale, noise = self._model(vector)
        names = self.parameters.names if gradient else ()
        given = [block.gram(kernel, names) for block in self.blocks]
        divisor, slopes = self.divisor(kernel, names, given)
        if not (np.isfinite(divisor) and divisor > 0):  # the modulation underflows
            return _IMPOSSIBLE, np.zeros(vector.size)
        matrices = [matrix / divisor for matrix, _ in given]
        derivatives = [
            [(change - slope * matrix) / divisor for change, slope in zip(changes, slopes, strict=True)]
            for matrix, (_, changes) in zip(matrices, given, strict=True)
        ]
        try:
            result = log_marginal_likelihood(
                matrices, [block.observations for block in self.blocks], scale=output_scale, noise=noise,
                derivatives=derivatives if gradient else (),
            )  # fmt: skip
        except np.linalg.LinAlgError:
            return _IMPOSSIBLE, np.zeros(vector.size)
        if not gradient:
            return -result.value, np.zeros(vector.size)
        slope = list(self.parameters.slopes(kernel, result.parameters))
        if self.output_scale is None:
            slope.append(result.log_scale)
        if self.noise is None:
            slope.append(result.log_noise)
        return -result.value, -np.array(slope)


def spread(blocks: Sequence[Observations]) -> float:
    """The variance of the observations about their mean function (by ordinary least squares), over all outputs."""
    basis, means = np.vstack([b.basis for b in blocks]), np.vstack([b.means for b in blocks])
    counts = np.concatenate([b.counts for b in blocks])[:, None]
    weighted = counts * basis
    residual = means - basis @ least_squares_mean(basis.T @ weighted, weighted.T @ means)
    squares = float((counts * np.square(residual)).sum()) + sum(b.within for b in blocks)
    return squares / (float(counts.sum()) * means.shape[1])


def subset_divisor() -> Divisor:
    """The mean variance at the training nodes: it keeps scale and lengthscale nearly independent in the search."""

    def divide(kernel: Kernel, names: Sequence[str], blocks: Matrices) -> tuple[float, np.ndarray]:
        size = sum(matrix.shape[0] for matrix, _ in blocks)
        total = sum(float(np.trace(matrix)) for matrix, _ in blocks)
        slopes = np.sum([[np.trace(change) for change in changes] for _, changes in blocks], axis=0)
        return total / size, slopes / size

    return divide


def spectral_divisor(points: np.ndarray, weights: np.ndarray, scale: float) -> Divisor:
    """The mean variance over all nodes, by a quadrature of W's spectrum: for a fixed output scale."""

    def divide(kernel: Kernel, names: Sequence[str], blocks: Matrices) -> tuple[float, np.ndarray]:
        value = float(weights @ kernel.spectrum(scale * (1 - points), scale))
        return value, weights @ spectral_derivatives(kernel, names, points, scale)

    return divide


def unit_divisor() -> Divisor:
    """1: for a fixed output scale that multiplies the kernel as it is."""

    def divide(kernel: Kernel, names: Sequence[str], blocks: Matrices) -> tuple[float, np.ndarray]:
        return 1.0, np.zeros(len(names))

    return divide
