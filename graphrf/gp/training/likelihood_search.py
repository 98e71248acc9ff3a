"""Hyperparameters of the largest posterior density: Newton steps by average information, from a grid's maxima."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import optimize
from scipy.special import expit

from graphrf.gp.inference.likelihood import Likelihood, least_squares_mean, log_marginal_likelihood
from graphrf.gp.inference.observations import Observations
from graphrf.gp.prior import HyperparameterPrior
from graphrf.gp.training.gram import Gram
from graphrf.gp.training.parameters import NOISES, OUTPUT_SCALES, Parameters
from graphrf.kernels.derivatives import spectral_derivatives
from graphrf.kernels.kernel import Kernel
from graphrf.kernels.precision.contract import KernelPrecision

# Noise that a search which goes on begins with where that is better, in units of y's variance.
_LARGER_NOISE = (0.01, 0.1, 0.5, 0.9)
_MAX_STEPS = 40
# Where the search stops: at so few nats that a step would gain, or a unit of the parameters' logarithms.
# Hyperparameters are known to a nat.
_FLAT, _LEVEL = 1e-6, 1e-3
# The longest step at first, later, and at the end, mostly in logarithms. The first one is short because a grid
# chose the start among several maxima, and longer steps leave for others.
_FIRST, _LONGEST, _SHORTEST = 0.3, 2.0, 1e-6
# A step is taken if it gains the first share of what was expected. Steps may become longer if it gains the second,
# and become shorter if it does not gain the third, by these factors.
_WORTH, _GOOD, _POOR = 1e-4, 0.75, 0.25
_LONGER, _SHORTER = 2.0, 0.3
# A climb that is at most so far from the end of another one may lead there.
_NEAR = 1.5
# Second derivatives of which nothing is known.
_SLIGHT = 1e-3
# It has converged where the gradient, projected on the bounds, is so small.
_NEARLY_LEVEL = 0.1
# So near a bound of the search, mostly in logarithms, a hyperparameter is at it.
_AT_END = 1e-6
# The step of differences.
_DIFFERENCE = 1e-5
# What the optimiser is told where the covariance cannot be factored.
_IMPOSSIBLE = 1e25

Matrices = list[tuple[np.ndarray, list[np.ndarray]]]
"""Of each block K and its derivatives in the named parameters."""

Divisor = Callable[[Kernel, Sequence[str], Matrices], tuple[float, np.ndarray]]
"""What K is divided by before the output scale multiplies it, and its derivatives in the named parameters."""


class SingularCovarianceError(ValueError):
    """The covariance of the observations cannot be factored with any of the hyperparameters tried."""


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
        The log marginal likelihood of the observations that training saw, without the prior.
    converged : bool
        Whether the gradient is level to a tenth of a nat in the logarithms of the parameters.
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


class _End(NamedTuple):
    """Where a climb ended: the log density there, and whether the gradient is nearly zero."""

    point: np.ndarray
    value: float
    converged: bool


@dataclass
class LikelihoodSearch:
    """The search for the largest posterior density of the hyperparameters: marginal likelihood times prior.

    Parameters
    ----------
    blocks : sequence of Block
        Independent of each other but for the mean.
    parameters : Parameters
        Of the kernel.
    output_scale, noise : float or None
        None trains them.
    divisor : Divisor
    prior : HyperparameterPrior
    unit, length_unit : float
        What variances and lengthscales are measured in.
    """

    blocks: Sequence[Block]
    parameters: Parameters
    output_scale: float | None
    noise: float | None
    divisor: Divisor
    prior: HyperparameterPrior
    unit: float
    length_unit: float

    def run(self, starts: Sequence[np.ndarray]) -> LikelihoodResult:
        """The best end of searches from some points."""
        box = self._box()
        if starts[0].size:
            ends: list[_End] = []
            for start in starts:
                ends.append(self._climb(np.clip(start, *np.transpose(box)), box, ends))
            best, value, converged = max(ends, key=lambda end: end.value)
        else:
            best, value, converged = starts[0], -self.negative(starts[0], gradient=False)[0], True
        if value <= -_IMPOSSIBLE:
            raise SingularCovarianceError(
                "the covariance of the observations cannot be factored with these hyperparameters: it is "
                "numerically singular (raise `noise`), or vanishes because walks or series are too short for the "
                "kernel (shorten its lengthscale)"
            )
        kernel, output_scale, noise = self._model(best)
        amplitude, likelihood = output_scale / self.divided_by(kernel), value - self._log_prior(best)[0]
        return LikelihoodResult(kernel, amplitude, noise, likelihood, converged, best, self._ends(best, box))

    def again(self, start: np.ndarray) -> LikelihoodResult:
        """From the end of another search, with its noise or more: near none the likelihood is flat in it."""
        points = [start]
        if self.noise is None:
            larger = [math.log(ratio * self.unit) for ratio in _LARGER_NOISE]
            points += [np.append(start[:-1], noise) for noise in larger if noise > start[-1]]
        # The first with derivatives: the search goes on from that lengthscale, which is then known.
        values = [self.negative(point, gradient=not k)[0] for k, point in enumerate(points)]
        return self.run([points[int(np.argmin(values))]])

    def point(self, kernel: Kernel, output_scale: float, noise: float) -> np.ndarray:
        """The vector of parameters of a kernel, output scale and noise."""
        vector = list(self.parameters.point(kernel))
        vector += [math.log(output_scale)] if self.output_scale is None else []
        vector += [math.log(noise)] if self.noise is None else []
        return np.array(vector)

    def _climb(self, start: np.ndarray, box: list[tuple[float, float]], others: Sequence[_End] = ()) -> _End:
        """The end of Newton steps from a point, or that of another climb where the way leads there.

        A step goes to the minimum of a quadratic model within a radius; coordinates that it would move out of the
        box stay. In place of second derivatives the model has the average information, corrected by what the last
        steps told of them: where the data say little of a hyperparameter, the two differ by a factor.

        Where output scale and noise are both sought and inside the box, steps are taken in `_total_and_ratio`. The
        data determine the sum of the two variances much better than their ratio, so that the density has a ridge
        that is curved in their logarithms; steps in these took a third more evaluations.
        """
        low, high = np.transpose(box)
        point, radius = start, _FIRST
        value, slope, information = self._expanded(point)
        steps: list[tuple[np.ndarray, np.ndarray]] = []
        was_curved = False
        for _ in range(_MAX_STEPS):
            free = np.where(slope > 0, point > low, point < high)
            if not np.any(np.abs(slope[free]) > _LEVEL) or radius < _SHORTEST:
                break
            curved = self.output_scale is None and self.noise is None and bool(free[-2:].all())
            if curved != was_curved:  # what steps told was told of other coordinates
                steps, was_curved = [], curved
            to, back = (_total_and_ratio, _scale_and_noise) if curved else (np.copy, np.copy)
            here, turn = to(point), _turn(point) if curved else np.eye(point.size)
            bend = turn.T @ slope
            for other in others:
                if _leads_to(to(other.point) - here, value + other.value, bend):
                    return other
            curvature = _told_by_steps(turn.T @ information @ turn, steps[-point.size :])
            step = np.zeros(point.size)
            step[free] = _step_within(radius, bend[free], curvature[np.ix_(free, free)])
            there = np.clip(back(here + step), low, high)
            moved = to(there) - here
            expected = -float(bend @ moved + 0.5 * moved @ curvature @ moved)
            if 0 <= expected < _FLAT:
                break
            found = self._expanded(there)
            if found[0] < _IMPOSSIBLE:
                steps.append((moved, (_turn(there).T if curved else turn) @ found[1] - bend))
            gained, length = value - found[0], float(np.linalg.norm(moved))
            if gained < _POOR * expected:
                radius = _SHORTER * length
            elif gained > _GOOD * expected and length > 0.9 * radius:
                radius = min(_LONGER * radius, _LONGEST)
            if gained > _WORTH * max(expected, 0.0):
                point, (value, slope, information) = there, found
        projected = point - np.clip(point - slope, low, high)
        return _End(point, -value, bool(np.abs(projected).max(initial=0.0) <= _NEARLY_LEVEL))

    # -- vectors of parameters ---------------------------------------------------------------------

    def _box(self) -> list[tuple[float, float]]:
        box = self.parameters.box
        for fixed, (low, high) in ((self.output_scale, OUTPUT_SCALES), (self.noise, NOISES)):
            if fixed is None:
                box.append((math.log(low * self.unit), math.log(high * self.unit)))
        return box

    @property
    def _names(self) -> list[str]:
        """Of the coordinates."""
        names = [*self.parameters.names]
        names += ["output_scale"] if self.output_scale is None else []
        names += ["noise"] if self.noise is None else []
        return names

    def _ends(self, best: np.ndarray, box: list[tuple[float, float]]) -> dict[str, str]:
        """See `LikelihoodResult`."""
        found = {}
        for name, value, (low, high) in zip(self._names, best, box, strict=True):
            if high > low and min(value - low, high - value) < _AT_END:
                found[name] = "smallest" if value - low < high - value else "largest"
        return found

    def _model(self, vector: np.ndarray) -> tuple[Kernel, float, float]:
        """Kernel, output scale and noise of a vector of parameters."""
        rest = list(vector[len(self.parameters.names) :])
        output_scale = math.exp(rest.pop(0)) if self.output_scale is None else self.output_scale
        noise = math.exp(rest.pop(0)) if self.noise is None else self.noise
        return self.parameters.kernel(vector), output_scale, noise

    # -- the objective -----------------------------------------------------------------------------

    def negative(self, vector: np.ndarray, gradient: bool = True) -> tuple[float, np.ndarray]:
        """Minus the log posterior density, up to a constant, and its gradient (or zeros)."""
        value, slope, _ = self._expanded(vector, gradient)
        return value, slope

    def _expanded(self, vector: np.ndarray, gradient: bool = True) -> tuple[float, np.ndarray, np.ndarray]:
        """`negative` and an approximation of its second derivatives, positive definite (or zeros)."""
        nothing = np.zeros(vector.size), np.zeros((vector.size, vector.size))
        kernel, output_scale, noise = self._model(vector)
        result = self._likelihood(kernel, self.parameters.names if gradient else None, output_scale, noise)
        if result is None:
            return _IMPOSSIBLE, *nothing
        density, bend, more = self._log_prior(vector)
        if not gradient:
            return -result.value - density, *nothing
        slope = np.append(result.parameters, [result.log_scale, result.log_noise])
        turned = np.append(self.parameters.slopes(kernel, np.ones(result.parameters.size)), [1.0, 1.0])
        told = np.ones(turned.size, dtype=bool)
        told[-2:] = self.output_scale is None, self.noise is None
        curvature = (turned[:, None] * result.information * turned)[np.ix_(told, told)] + more
        curvature[np.diag_indices(vector.size)] += _SLIGHT
        return -result.value - density, -(turned * slope)[told] - bend, curvature

    def _likelihood(
        self, kernel: Kernel, names: Sequence[str] | None, output_scale: float, noise: float
    ) -> Likelihood | None:
        """The likelihood, with derivatives in the named parameters unless there are None; None if impossible."""
        given = [block.gram(kernel, names or ()) for block in self.blocks]
        divisor, slopes = self.divisor(kernel, names or (), given)
        if not (np.isfinite(divisor) and divisor > 0):  # the modulation underflows
            return None
        try:
            found = log_marginal_likelihood(
                [matrix for matrix, _ in given], [block.observations for block in self.blocks],
                scale=output_scale / divisor, noise=noise,
                derivatives=() if names is None else [changes for _, changes in given],
            )  # fmt: skip
        except np.linalg.LinAlgError:
            return None
        return found if names is None else over_divisor(found, slopes / divisor)

    def divided_by(self, kernel: Kernel) -> float:
        """What K is divided by before the output scale multiplies it."""
        return self.divisor(kernel, (), [block.gram(kernel, ()) for block in self.blocks])[0]

    def _log_prior(self, vector: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """The log prior density of a vector, its gradient, and minus second derivatives where it is concave."""
        units = {"lengthscale": self.length_unit, "output_scale": self.unit, "noise": self.unit}
        sides = np.array([0.0, _DIFFERENCE, -_DIFFERENCE])
        values, slopes = np.zeros(vector.size), np.zeros((3, vector.size))
        for k, (name, own) in enumerate(zip(self._names, vector, strict=True)):
            density, slope = self.prior.log_density(name, own + sides, units.get(name, 1.0))
            values[k], slopes[:, k] = density[0], slope
        bend = (slopes[2] - slopes[1]) / (2 * _DIFFERENCE)
        return float(values.sum()), slopes[0], np.diag(np.maximum(bend, 0.0))


def over_divisor(found: Likelihood, slopes: np.ndarray) -> Likelihood:
    """A likelihood with its derivatives at a fixed output scale, in place of those at a fixed factor of K.

    The factor is the output scale over a divisor; `slopes` are the derivatives of the divisor's logarithm.
    """
    turned = np.eye(slopes.size + 2)
    turned[: slopes.size, -2] = -slopes
    return found._replace(
        parameters=found.parameters - found.log_scale * slopes,
        information=turned @ found.information @ turned.T,
    )


def _leads_to(away: np.ndarray, gain: float, slope: np.ndarray) -> bool:
    """Whether the value seems to fall all the way to a minimum that is `away` and lower by `gain`.

    Its derivative at the beginning of the way is -2 `gain` in a quadratic valley. A cubic that is level at the end
    falls all the way if that derivative is between -3 `gain` and 0; it has to be at least as steep as on average.
    """
    return float(np.linalg.norm(away)) <= _NEAR and 0 < gain <= -float(slope @ away) <= 3 * gain


def _total_and_ratio(point: np.ndarray) -> np.ndarray:
    """A vector that ends in log(scale) and log(noise) with log(scale + noise) and log(noise / scale) instead."""
    return np.append(point[:-2], [np.logaddexp(point[-2], point[-1]), point[-1] - point[-2]])


def _scale_and_noise(vector: np.ndarray) -> np.ndarray:
    """The inverse of `_total_and_ratio`."""
    total, ratio = vector[-2:]
    return np.append(vector[:-2], [total - np.logaddexp(0.0, ratio), total - np.logaddexp(0.0, -ratio)])


def _turn(point: np.ndarray) -> np.ndarray:
    """The derivatives of a vector in its `_total_and_ratio`."""
    turn, share = np.eye(point.size), expit(point[-1] - point[-2])
    turn[-2:, -2:] = [[1.0, -share], [1.0, 1.0 - share]]
    return turn


def _step_within(radius: float, slope: np.ndarray, curvature: np.ndarray) -> np.ndarray:
    """The step s of length `radius` at most with the least slope s + s curvature s / 2 (positive definite)."""
    values, vectors = np.linalg.eigh(curvature)
    turned = vectors.T @ slope

    def beyond(more: float) -> float:
        return float(np.linalg.norm(turned / (values + more))) - radius

    more = 0.0 if beyond(0.0) <= 0 else optimize.brentq(beyond, 0.0, np.linalg.norm(turned) / radius)
    return np.asarray(-vectors @ (turned / (values + more)))


def _told_by_steps(information: np.ndarray, steps: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Second derivatives: the information, and along each step the change of the gradient over it (BFGS)."""
    found = information
    for step, change in steps:
        if (bend := float(step @ change)) > _SLIGHT * float(step @ step):
            along = found @ step
            found = found + np.outer(change, change) / bend - np.outer(along, along) / float(step @ along)
    return found


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


def precision_divisor(precision: KernelPrecision) -> Divisor:
    """The mean variance over all nodes by sparse factors; its derivatives are differences in the log odds."""

    def divide(kernel: Kernel, names: Sequence[str], blocks: Matrices) -> tuple[float, np.ndarray]:
        value = precision.with_kernel(kernel).mean_variance()
        slopes = []
        for name in names:
            share = kernel.hyperparameters[name]
            step = _DIFFERENCE * share * (1 - share)
            ends = (kernel.replace(**{name: end}) for end in (share + step, share - step))
            above, below = (precision.with_kernel(end).mean_variance() for end in ends)
            slopes.append((above - below) / (2 * step))
        return value, np.array(slopes)

    return divide


def scaled_divisor(divisor: Divisor, factor: float) -> Divisor:
    """Another one times a factor."""

    def divide(kernel: Kernel, names: Sequence[str], blocks: Matrices) -> tuple[float, np.ndarray]:
        value, slopes = divisor(kernel, names, blocks)
        return factor * value, factor * slopes

    return divide


def unit_divisor() -> Divisor:
    """1: for a fixed output scale that multiplies the kernel as it is."""

    def divide(kernel: Kernel, names: Sequence[str], blocks: Matrices) -> tuple[float, np.ndarray]:
        return 1.0, np.zeros(len(names))

    return divide
