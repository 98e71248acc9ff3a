"""Hyperparameters of a Gaussian process as coordinates: of its kernel, output scale, and noise or
likelihood.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from graphrf.gp.likelihoods.likelihood import Likelihood
from graphrf.gp.model.prior import FLAT, HyperparameterPrior
from graphrf.gp.search.coordinates import (
    Coordinates,
    Parameter,
    likelihood_at,
    likelihood_parameters,
)
from graphrf.kernels.kernel import Kernel
from graphrf.kernels.lengthscales import LENGTHSCALES

# Ranges of output scale and noise in variances of the observations: outside them neither has an
# effect.
OUTPUT_SCALES = (1e-3, 1e3)
NOISES = (1e-6, 10.0)
# Output scales at which searches begin, in the unit of variances.
_STARTS = (0.3, 3.0)


# The likelihood of normal observations, whose noise is no parameter of it.
NORMAL = Likelihood()


class Model(NamedTuple):
    """A kernel, its output scale, and what is observed of the latent function."""

    kernel: Kernel
    output_scale: float
    likelihood: Likelihood = NORMAL
    noise: float = 1.0  # of normal observations


class Units(NamedTuple):
    """Units of hyperparameters, in which their priors and ranges are stated."""

    variance: float  # of output scale and noise
    length: float = 1.0  # of lengthscales
    latent: float = 1.0  # of the latent function, for parameters of its likelihood


def hyperparameter_range(
    kernel: Kernel, name: str, scale: float, longest: float, unit: float = 1.0
) -> tuple[float, float]:
    """The bounds of a hyperparameter on a graph of this scale: of lengthscales, in their unit, up
    to `longest`.
    """
    if name == "lengthscale":
        return min(LENGTHSCALES[0] * unit, longest), longest
    if name in ("nu", "power"):  # trained on request only; outside, the data hardly determine them
        return 0.25, 8.0
    if name in kernel.proportions:
        return 1e-3, 1 - 1e-3
    low = kernel.hyperparameter_bounds(scale)[name]
    if low == -math.inf:
        return -math.inf, math.inf
    return (low, 100.0 * low) if low > 0 else (1e-3, 1e3)


def kernel_parameters(
    kernel: Kernel,
    ranges: Mapping[str, tuple[float, float]],
    prior: HyperparameterPrior = FLAT,
    length_unit: float = 1.0,
) -> tuple[Parameter, ...]:
    """The hyperparameters of a kernel that have a range."""
    result = []
    for name, (low, high) in ranges.items():
        is_share = name in kernel.proportions
        kind = "proportion" if is_share else "positive" if low > 0 else "real"
        unit = length_unit if name == "lengthscale" else 1.0
        start = kernel.hyperparameters[name]
        result.append(Parameter(name, kind, start, low, high, prior.of(name, unit)))
    return tuple(result)


@dataclass(frozen=True)
class Space(Coordinates):
    """The trained hyperparameters of a Gaussian process; `parameters` are those of the kernel, then
    the output scale, then the noise or the unknown parameters of the likelihood.
    """

    kernel: Kernel  # with the values of its other hyperparameters
    kernel_names: tuple[str, ...]  # its trained ones
    output_scale: float | None  # None trains it
    likelihood: Likelihood
    noise: float | None  # None trains it

    @classmethod
    def of(
        cls,
        kernel: Kernel,
        ranges: Mapping[str, tuple[float, float]],
        prior: HyperparameterPrior,
        units: Units,
        *,
        output_scale: float | None,
        likelihood: Likelihood = NORMAL,
        noise: float | None = 1.0,
    ) -> Self:
        """The space of a kernel whose hyperparameters with `ranges` are trained.

        Output scale and noise are trained where they are None. `FLAT` drops the priors of the
        likelihood, too.
        """
        parameters = [*kernel_parameters(kernel, ranges, prior, units.length)]
        variances = ("output_scale", output_scale, OUTPUT_SCALES), ("noise", noise, NOISES)
        for name, fixed, (low, high) in variances:
            if fixed is None:
                unit = units.variance
                prior_of_variance = prior.of(name, unit)
                parameters.append(
                    Parameter(name, "positive", unit, low * unit, high * unit, prior_of_variance)
                )

        flat = prior == FLAT
        parameters += likelihood_parameters(likelihood, units.latent, flat=flat)
        return cls(tuple(parameters), kernel, tuple(ranges), output_scale, likelihood, noise)

    def model(self, vector: np.ndarray) -> Model:
        """The hyperparameters at a vector of coordinates."""
        values = self.values(vector)
        names, others = self.kernel_names, values[len(self.kernel_names) :]
        # without names the kernel object stays the same
        kernel = self.kernel.replace(**dict(zip(names, values, strict=False))) if names else None
        output_scale = others.pop(0) if self.output_scale is None else self.output_scale
        noise = others.pop(0) if self.noise is None else self.noise
        likelihood = likelihood_at(self.likelihood, others)
        return Model(kernel or self.kernel, output_scale, likelihood, noise)

    def vector_of(self, model: Model) -> np.ndarray:
        """The coordinates of a model, within the box."""
        values = [model.kernel.hyperparameters[name] for name in self.kernel_names]
        values += [model.output_scale] if self.output_scale is None else []
        values += [model.noise] if self.noise is None else []
        values += [getattr(model.likelihood, name) for name in self.likelihood.unknown]
        return self.vector(values)

    def kernel_slopes(
        self, kernel: Kernel, derivatives: Sequence[float] | np.ndarray
    ) -> np.ndarray:
        """Derivatives in the kernel's coordinates from those in its hyperparameters."""
        theta = [kernel.hyperparameters[name] for name in self.kernel_names]
        pairs = zip(self.parameters, theta, strict=False)
        by = [parameter.derivative(value) for parameter, value in pairs]
        return np.asarray(derivatives, dtype=np.float64) * np.array(by, dtype=np.float64)

    def starts(self) -> list[np.ndarray]:
        """The kernel as it is, with a few other lengthscales or shares, and two output scales; the
        medians of the likelihood's priors.
        """
        first = self.start
        points = [first]

        for place, parameter in enumerate(self.parameters[: len(self.kernel_names)]):
            others: Sequence[float] = ()
            if parameter.name == "lengthscale":
                low = min(5.0 * parameter.low, parameter.high)
                others = np.geomspace(low, parameter.high, 6).tolist()
            elif parameter.kind == "proportion":
                others = (0.1, 0.9)
            for value in others:
                points.append(first.copy())
                points[-1][place] = parameter.coordinate(parameter.within(value))
        if self.output_scale is not None:
            return points

        place, scaled = len(self.kernel_names), []
        for point in points:
            for scale in _STARTS:
                scaled.append(point.copy())
                scaled[-1][place] = math.log(scale * self.parameters[place].start)
        return scaled
