"""Hyperparameters of a kernel and a likelihood, as coordinates with their prior."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from graphrf._base.cached import cached_property
from graphrf.gp.hyperparameters.parameters import OUTPUT_SCALES, Parameters
from graphrf.gp.likelihoods.likelihood import PRIOR, RANGE, Likelihood
from graphrf.gp.model.prior import FLAT, HyperparameterPrior
from graphrf.kernels.kernel import Kernel


class Model(NamedTuple):
    """A kernel, its output scale and a likelihood."""

    kernel: Kernel
    output_scale: float
    likelihood: Likelihood


@dataclass(frozen=True)
class LatentSpace:
    """Coordinates of hyperparameters (`Parameters`); logarithms of output scale and likelihood
    parameters.
    """

    parameters: Parameters
    output_scale: float | None  # None trains it
    likelihood: Likelihood  # its unknown parameters are trained
    prior: HyperparameterPrior  # FLAT drops the likelihood's priors, too
    unit: float  # of the latent function
    length_unit: float  # of lengthscales

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the coordinates."""
        scale = ("output_scale",) if self.output_scale is None else ()
        return (*self.parameters.names, *scale, *self.likelihood.unknown)

    def model(self, vector: np.ndarray) -> Model:
        """The hyperparameters at a vector of coordinates."""
        rest = [math.exp(value) for value in vector[len(self.parameters.names) :]]
        scale = rest.pop(0) if self.output_scale is None else self.output_scale
        unknown = dict(zip(self.likelihood.unknown, rest, strict=True))
        likelihood = self.likelihood.replace(**unknown) if unknown else self.likelihood
        return Model(self.parameters.kernel(vector), scale, likelihood)

    def vector(self, model: Model) -> np.ndarray:
        """The coordinates of a model."""
        scale = [math.log(model.output_scale)] if self.output_scale is None else []
        own = [math.log(getattr(model.likelihood, name)) for name in self.likelihood.unknown]
        return np.array([*self.parameters.point(model.kernel), *scale, *own])

    @cached_property
    def box(self) -> np.ndarray:
        """The range of each coordinate, shape (p, 2)."""
        box = list(self.parameters.box)
        if self.output_scale is None:
            box.append(
                (
                    math.log(OUTPUT_SCALES[0] * self.unit**2),
                    math.log(OUTPUT_SCALES[1] * self.unit**2),
                )
            )
        for name in self.likelihood.unknown:
            by = self.likelihood.parameter_unit(name, self.unit)
            low, high = self.likelihood.ranges.get(name, RANGE)
            box.append((math.log(low * by), math.log(high * by)))
        return np.array(box).reshape(-1, 2)

    def starts(self) -> list[np.ndarray]:
        """A few lengthscales or shares, two output scales, the medians of the
        likelihood's priors.
        """
        scales: list[list[float]] = [[]]
        if self.output_scale is None:
            scales = [[math.log(scale * self.unit**2)] for scale in (0.3, 3.0)]
        own = [
            math.log(
                self.likelihood.priors.get(name, PRIOR)[0]
                * self.likelihood.parameter_unit(name, self.unit)
            )
            for name in self.likelihood.unknown
        ]
        points = [
            np.array([*point, *scale, *own])
            for point in self.parameters.starts()
            for scale in scales
        ]
        return [np.clip(point, *self.box.T) for point in points]

    def log_prior(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """The log prior density at a vector, up to a constant, and its gradient."""
        parts = [
            prior.log_density(name, float(value), unit)
            for value, (prior, name, unit) in zip(vector, self._priors(), strict=True)
        ]
        return float(sum(part for part, _ in parts)), np.array(
            [slope for _, slope in parts], dtype=np.float64
        )

    def quantiles(self, levels: np.ndarray) -> np.ndarray:
        """Vectors at quantiles of the prior within the box, for levels of shape (n, p)."""
        result = np.empty(levels.shape)
        for k, ((low, high), (prior, name, unit)) in enumerate(
            zip(self.box, self._priors(), strict=True)
        ):
            values = np.linspace(low, high, 1_001)
            log = np.broadcast_to(prior.log_density(name, values, unit)[0], values.shape)
            density = np.exp(log - log.max())
            mass = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]))])
            result[:, k] = np.interp(levels[:, k], mass / mass[-1], values)
        return result

    def _priors(self) -> Iterator[tuple[HyperparameterPrior, str, float]]:
        """The prior of each coordinate, the name that it has there, and its unit."""
        units = {"lengthscale": self.length_unit, "output_scale": self.unit**2}
        for name in self.names[: len(self.names) - len(self.likelihood.unknown)]:
            yield self.prior, name, units.get(name, 1.0)
        for name in self.likelihood.unknown:
            own = HyperparameterPrior(noise=self.likelihood.priors.get(name, PRIOR))
            unit = self.likelihood.parameter_unit(name, self.unit)
            yield FLAT if self.prior == FLAT else own, "noise", unit
