"""The most probable hyperparameters where the likelihood is not normal, by exact gradients of the
evidence.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from graphrf.gp.hyperparameters.latent_evidence import LatentEvidence
from graphrf.gp.hyperparameters.space import Model, Space
from graphrf.gp.model.hyperparameters import Hyperparameters
from graphrf.gp.search.maximum import Tolerances, maximised

# Evaluations of the evidence are dear.
_TOLERANCES = Tolerances(iterations=60)


class LatentMode(NamedTuple):
    """The maximum of evidence times prior."""

    space: Space
    model: Model
    amplitude: float  # factor of the unscaled kernel
    log_posterior: float  # up to a constant
    converged: bool

    @property
    def hyperparameters(self) -> Hyperparameters:
        """The mode as a set of hyperparameters."""
        return Hyperparameters(
            self.model.kernel,
            self.amplitude,
            self.model.output_scale,
            1.0,
            1.0,
            self.model.likelihood,
        )


def find_latent_mode(
    space: Space, evidence: LatentEvidence, start: Model | None = None
) -> LatentMode:
    """The mode near a model, or near the best of a few starts."""
    names = space.kernel_names
    # the derivatives of an evidence are those of the kernel, output scale and likelihood
    first = len(names) if space.output_scale is None else len(names) + 1

    def log_posterior(vector: np.ndarray) -> tuple[float, np.ndarray]:
        model = space.model(vector)
        value, slope = evidence.gradient(model, names)
        density, density_slope = space.log_prior(vector)
        if not np.isfinite(value):
            return -math.inf, np.zeros(vector.size)
        kernel_slopes = space.kernel_slopes(model.kernel, slope[: len(names)])
        return value + density, np.append(kernel_slopes, slope[first:]) + density_slope

    if start is None:
        vector = max(space.starts(), key=lambda vector: log_posterior(vector)[0])
    else:
        vector = space.vector_of(start)
    top = maximised(log_posterior, vector, space.box, scale=1.0, tolerances=_TOLERANCES)
    if not math.isfinite(top.value):
        raise ValueError(
            "the posterior cannot be approximated with these hyperparameters, because a matrix "
            "cannot be factored: fix a smaller `output_scale`, or another lengthscale"
        )
    model = space.model(top.vector)
    return LatentMode(space, model, evidence.amplitude(model), top.value, top.converged)
