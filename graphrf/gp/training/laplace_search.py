"""Hyperparameters of the largest posterior density where the likelihood is not normal, by Laplace's evidence."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize

from graphrf.gp.inference.local.dense import dense_evidence
from graphrf.gp.inference.local.precision import precision_evidence
from graphrf.gp.inference.local.responses import Responses
from graphrf.gp.likelihoods import Likelihood
from graphrf.gp.prior import FLAT, HyperparameterPrior
from graphrf.gp.progress import Step
from graphrf.gp.training.gram import Gram
from graphrf.gp.training.grid import GridCell
from graphrf.gp.training.likelihood_search import Divisor
from graphrf.gp.training.parameters import OUTPUT_SCALES, Parameters
from graphrf.kernels.kernel import Kernel
from graphrf.kernels.precision.contract import KernelPrecision

# Prior and range of a likelihood's parameters that say nothing of them.
_PRIOR, _RANGE = (1.0, 10.0), (1e-4, 1e4)
_START_SCALES = (0.3, 3.0)
_MAX_STEPS = 60
_FLAT, _LEVEL, _NEARLY_LEVEL = 1e-9, 1e-3, 0.1
_IMPOSSIBLE = 1e25
# Points over which predictions are averaged: their distance from the mode in deviations, over the root of their
# number of dimensions; the step of differences of gradients in logarithms; the smallest curvature.
_OUTWARD, _DIFFERENCE, _LEAST_CURVATURE = 1.1, 0.1, 0.05


class Model(NamedTuple):
    """A kernel, its output scale and a likelihood."""

    kernel: Kernel
    output_scale: float
    likelihood: Likelihood


class Evidence(NamedTuple):
    """A log evidence, its derivatives in log output scale, the kernel's hyperparameters, and the likelihood's."""

    value: float
    log_scale: float
    kernel: np.ndarray
    parameters: np.ndarray


class LaplaceResult(NamedTuple):
    """The best hyperparameters found.

    Attributes
    ----------
    model : Model
    amplitude : float
        What multiplies the kernel as it is.
    value : float
        The log evidence of the observations that training saw, without the prior.
    posterior : float
        With it.
    converged : bool
    point : ndarray
        The parameters as the search has them.
    """

    model: Model
    amplitude: float
    value: float
    posterior: float
    converged: bool
    point: np.ndarray

    @property
    def kernel(self) -> Kernel:
        """The trained one."""
        return self.model.kernel


class LaplacePoints(NamedTuple):
    """Sets of hyperparameters of one kernel and the logarithms of their probabilities: `Cells`."""

    found: list[LaplaceResult]
    posterior: np.ndarray

    def cell(self, index: int, weight: float) -> GridCell:
        """The set at a position."""
        model, amplitude, *_ = self.found[index]
        return GridCell(model.kernel, amplitude, model.output_scale, 1.0, weight, model.likelihood)


@dataclass
class LaplaceSearch:
    """The search for the largest posterior density: Laplace's evidence times the prior.

    Parameters
    ----------
    evidence : callable
        Model and the kernel's names (None: no gradient) to `Evidence`, or None where it cannot be had.
    amplitude : callable
        Model to what multiplies the kernel as it is.
    parameters : Parameters
        Of the kernel.
    output_scale : float or None
        None trains it.
    likelihood : Likelihood
        Its unknown parameters are trained.
    prior : HyperparameterPrior
        FLAT drops the likelihood's priors, too.
    unit, length_unit : float
        Of the latent function, and of lengthscales.
    """

    evidence: Callable[[Model, tuple[str, ...] | None], Evidence | None]
    amplitude: Callable[[Model], float]
    parameters: Parameters
    output_scale: float | None
    likelihood: Likelihood
    prior: HyperparameterPrior
    unit: float
    length_unit: float

    def run(self, start: np.ndarray | None = None) -> LaplaceResult:
        """The end of a climb from a point, or from the best of a few."""
        box = self.box()
        if start is None:
            start = self._best_start()
        best, converged = start, True
        if start.size:
            result = optimize.minimize(
                self.negative, np.clip(start, *np.transpose(box)), jac=True, method="L-BFGS-B", bounds=box,
                options={"maxiter": _MAX_STEPS, "ftol": _FLAT, "gtol": _LEVEL},
            )  # fmt: skip
            best = result.x
            low, high = np.transpose(box)
            projected = best - np.clip(best - result.jac, low, high)
            converged = bool(np.abs(projected).max() <= _NEARLY_LEVEL)
        return self._result(best, converged)

    def begun(self) -> LaplaceResult:
        """The best of a few points, from which another search may go on."""
        return self._result(self._best_start(), False)

    def around(self, best: LaplaceResult) -> LaplacePoints:
        r"""Points at the mode and on both sides of it along each axis of the posterior's curvature.

        With p hyperparameters they lie at r = 1.1 sqrt(p) deviations. Their integration weights make averages of
        polynomials of degree 3 exact if the posterior is normal, and the posterior's density takes the place of
        the normal one. Time: 2 p gradients and 2 p values. Source: Rue, Martino and Chopin 2009, "Approximate
        Bayesian Inference for Latent Gaussian Models", Sec. 6.5.
        """
        middle, p = best.point, best.point.size
        if not p:
            return LaplacePoints([best], np.array([best.posterior]))
        low, high = np.transpose(self.box())
        hessian = np.empty((p, p))
        for axis, step in enumerate(_DIFFERENCE * np.eye(p)):
            after, before = np.clip(middle + step, low, high), np.clip(middle - step, low, high)
            width = max(float(after[axis] - before[axis]), np.finfo(np.float64).tiny)
            hessian[axis] = (self.negative(after)[1] - self.negative(before)[1]) / width
        curvature, axes = np.linalg.eigh(0.5 * (hessian + hessian.T))
        curvature = np.maximum(curvature, _LEAST_CURVATURE)
        radius = _OUTWARD * math.sqrt(p)
        log_volume = 0.5 * (p * math.log(2 * math.pi) - float(np.log(curvature).sum()))
        moves = radius * (axes / np.sqrt(curvature)).T
        outer = math.log(1 / (2 * p * _OUTWARD**2)) + 0.5 * radius**2
        found, masses = [best], [best.posterior + log_volume + math.log1p(-1 / _OUTWARD**2)]
        for point in np.clip([*(middle + moves), *(middle - moves)], low, high):
            height = -self.negative(point, gradient=False)[0]
            model = self.model(point)
            if height > -_IMPOSSIBLE:
                value = height - self._log_prior(point)[0]
                found.append(LaplaceResult(model, self.amplitude(model), value, height, best.converged, point))
                masses.append(height + log_volume + outer)
        return LaplacePoints(found, np.array(masses))

    def _best_start(self) -> np.ndarray:
        return min(self._starts(), key=lambda point: self.negative(point, gradient=False)[0])

    def _result(self, best: np.ndarray, converged: bool) -> LaplaceResult:
        model = self.model(best)
        found = self.evidence(model, None)
        if found is None:
            raise ValueError(
                "Laplace's approximation fails with these hyperparameters, because a matrix cannot be "
                "factored: fix a smaller `output_scale`, or another lengthscale"
            )
        posterior = found.value + self._log_prior(best)[0]
        return LaplaceResult(model, self.amplitude(model), found.value, posterior, converged, best)

    def again(self, model: Model) -> LaplaceResult:
        """The end of a climb from a model."""
        return self.run(self.point(model))

    def negative(self, vector: np.ndarray, gradient: bool = True) -> tuple[float, np.ndarray]:
        """Minus the log posterior density, and its gradient (or zeros)."""
        model = self.model(vector)
        found = self.evidence(model, self.parameters.names if gradient else None)
        if found is None or not math.isfinite(found.value):
            return _IMPOSSIBLE, np.zeros(vector.size)
        density, density_slope = self._log_prior(vector)
        if not gradient:
            return -found.value - density, np.zeros(vector.size)
        slope = [*self.parameters.slopes(model.kernel, found.kernel)]
        slope += [found.log_scale] if self.output_scale is None else []
        return -found.value - density, -np.array([*slope, *found.parameters]) - density_slope

    # -- vectors of parameters ---------------------------------------------------------------------

    def model(self, vector: np.ndarray) -> Model:
        """That of a vector of parameters."""
        rest = [math.exp(value) for value in vector[len(self.parameters.names) :]]
        output_scale = rest.pop(0) if self.output_scale is None else self.output_scale
        unknown = dict(zip(self.likelihood.unknown, rest, strict=True))
        return Model(
            self.parameters.kernel(vector),
            output_scale,
            self.likelihood.replace(**unknown) if unknown else self.likelihood,
        )

    def point(self, model: Model) -> np.ndarray:
        """The vector of parameters of a model."""
        vector = [*self.parameters.point(model.kernel)]
        vector += [math.log(model.output_scale)] if self.output_scale is None else []
        return np.array(
            [*vector, *(math.log(getattr(model.likelihood, name)) for name in self.likelihood.unknown)]
        )

    def box(self) -> list[tuple[float, float]]:
        box = self.parameters.box
        if self.output_scale is None:
            low, high = OUTPUT_SCALES
            box.append((math.log(low * self.unit**2), math.log(high * self.unit**2)))
        for name in self.likelihood.unknown:
            low, high = self.likelihood.ranges.get(name, _RANGE)
            by = self.likelihood.parameter_unit(name, self.unit)
            box.append((math.log(low * by), math.log(high * by)))
        return box

    def _starts(self) -> list[np.ndarray]:
        """A few lengthscales, each with a few output scales; the medians of the likelihood's parameters."""
        scales: list[list[float]] = [[]]
        if self.output_scale is None:
            scales = [[math.log(scale * self.unit**2)] for scale in _START_SCALES]
        own = [
            math.log(self.likelihood.priors.get(name, _PRIOR)[0] * self.likelihood.parameter_unit(name, self.unit))
            for name in self.likelihood.unknown
        ]
        return [np.array([*point, *scale, *own]) for point in self.parameters.starts() for scale in scales]

    def _log_prior(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """The log prior density of a vector and its gradient."""
        names = [*self.parameters.names] + (["output_scale"] if self.output_scale is None else [])
        units = {"lengthscale": self.length_unit, "output_scale": self.unit**2}
        parts: list[tuple[float, float]] = [
            self.prior.log_density(name, value, units.get(name, 1.0))
            for name, value in zip(names, vector, strict=False)
        ]
        for name, value in zip(self.likelihood.unknown, vector[len(names) :], strict=True):
            pair = self.likelihood.priors.get(name, _PRIOR)
            own = FLAT if self.prior == FLAT else HyperparameterPrior(noise=pair)
            parts.append(own.log_density("noise", value, self.likelihood.parameter_unit(name, self.unit)))
        return float(sum(part for part, _ in parts)), np.array([slope for _, slope in parts], dtype=np.float64)


@dataclass
class DenseEvidence:
    """Laplace's evidence of blocks of observations, independent of each other, by K at their nodes.

    Attributes
    ----------
    grams : sequence of Gram
    responses : sequence of Responses
    divisor : Divisor
        What K is divided by before the output scale multiplies it.
    spread : float
        The prior deviation of the mean's coefficients.
    unknown : tuple of str
        Parameters of the likelihood whose derivatives are wanted.
    step : callable, optional
        Called at every evaluation.
    """

    grams: Sequence[Gram]
    responses: Sequence[Responses]
    divisor: Divisor
    spread: float
    unknown: tuple[str, ...]
    step: Step | None = None
    _last: dict[int, np.ndarray] = field(default_factory=dict, init=False)

    def amplitude(self, model: Model) -> float:
        """What multiplies the kernel as it is."""
        return model.output_scale / self.divisor(model.kernel, (), [g(model.kernel, ()) for g in self.grams])[0]

    def __call__(self, model: Model, names: tuple[str, ...] | None) -> Evidence | None:
        if self.step is not None:
            self.step()
        given = [gram(model.kernel, names or ()) for gram in self.grams]
        divisor, slopes = self.divisor(model.kernel, names or (), given)
        if not (np.isfinite(divisor) and divisor > 0):  # the modulation underflows
            return None
        value, log_scale = 0.0, 0.0
        kernel, parameters = np.zeros(len(names or ())), np.zeros(len(self.unknown))
        scale = model.output_scale / divisor
        for number, ((matrix, changes), responses) in enumerate(zip(given, self.responses, strict=True)):
            try:
                found = dense_evidence(
                    scale * matrix, responses, model.likelihood, spread=self.spread,
                    names=None if names is None else self.unknown, start=self._near(number),
                )  # fmt: skip
            except np.linalg.LinAlgError:
                return None
            value += found.value
            if np.isfinite(found.value):
                self._last[number] = found.mode.start
            if found.slope is None:
                continue
            whole = scale * float(np.vdot(found.slope, matrix))
            log_scale += whole
            own = [scale * float(np.vdot(found.slope, change)) for change in changes]
            kernel += np.array(own) - whole * slopes / divisor
            parameters += found.parameters
        return Evidence(value, log_scale, kernel, parameters)

    def _near(self, number: int) -> np.ndarray | None:
        return self._last.get(number)


@dataclass
class PrecisionEvidence:
    """Laplace's evidence of all observations by a sparse precision; the attributes as those of `DenseEvidence`."""

    precision: KernelPrecision
    responses: Responses
    divisor: Divisor
    spread: float
    unknown: tuple[str, ...]
    step: Step | None = None
    _last: Any = field(default=None, init=False)

    def amplitude(self, model: Model) -> float:
        """What multiplies the kernel as it is."""
        return model.output_scale / self.divisor(model.kernel, (), [])[0]

    def __call__(self, model: Model, names: tuple[str, ...] | None) -> Evidence | None:
        if self.step is not None:
            self.step()
        divisor, slopes = self.divisor(model.kernel, names or (), [])
        try:
            found = precision_evidence(
                self.precision.with_kernel(model.kernel), self.responses, model.likelihood,
                amplitude=model.output_scale / divisor, spread=self.spread, kernel_names=names or (),
                names=None if names is None else self.unknown, start=self._last,
            )  # fmt: skip
        except (np.linalg.LinAlgError, ValueError):  # numerically singular
            return None
        if np.isfinite(found.value):
            self._last = found.mode.start
        if names is None:
            return Evidence(found.value, 0.0, np.zeros(0), np.zeros(0))
        return Evidence(
            found.value,
            found.log_amplitude,
            found.kernel - found.log_amplitude * slopes / divisor,
            found.parameters,
        )
