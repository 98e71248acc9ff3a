"""The most probable hyperparameters where the likelihood is not normal, by exact gradients of the
evidence.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import optimize

from graphrf._base.warn import warn
from graphrf.gp.hyperparameters.latent_evidence import LatentEvidence
from graphrf.gp.hyperparameters.latent_space import LatentSpace, Model
from graphrf.gp.model.hyperparameters import Hyperparameters

# The value that the optimiser has where there is none.
_IMPOSSIBLE = 1e25


class LatentMode(NamedTuple):
    """The maximum of evidence times prior."""

    space: LatentSpace
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
    space: LatentSpace, evidence: LatentEvidence, start: Model | None = None
) -> LatentMode:
    """The mode near a model, or near the best of a few starts."""

    def negative(vector: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = evidence.gradient(space.model(vector), space.parameters.names)
        density, density_slope = space.log_prior(vector)
        if not np.isfinite(value):
            return _IMPOSSIBLE, np.zeros(vector.size)
        n = len(space.parameters.names)
        own = [*space.parameters.slopes(space.model(vector).kernel, slope[:n])]
        own += [*slope[n if space.output_scale is None else n + 1 :]]
        return -value - density, -np.array(own) - density_slope

    if start is None:
        best = min(space.starts(), key=lambda vector: negative(vector)[0])
    else:
        best = np.clip(space.vector(start), *space.box.T)
    value, slope = negative(best)
    if best.size:
        result = optimize.minimize(
            negative,
            best,
            jac=True,
            method="L-BFGS-B",
            bounds=space.box,
            options={"maxiter": 60, "ftol": 1e-9, "gtol": 1e-3},
        )
        best, value, slope = result.x, result.fun, result.jac
    if value >= _IMPOSSIBLE:
        raise ValueError(
            "the posterior cannot be approximated with these hyperparameters, because a matrix "
            "cannot be factored: fix a smaller `output_scale`, or another lengthscale"
        )
    projected = best - np.clip(best - slope, *space.box.T)
    model = space.model(best)
    converged = bool(np.abs(projected).max(initial=0.0) <= 0.1)
    return LatentMode(space, model, evidence.amplitude(model), -float(value), converged)


def warn_of_bounds(mode: LatentMode) -> None:
    """Warn of hyperparameters at the bounds of the search, where the data do not determine them."""
    space = mode.space
    for name, value, (low, high) in zip(
        space.names, space.vector(mode.model), space.box, strict=True
    ):
        if high > low and min(value - low, high - value) < 1e-6:
            end = "smallest" if value - low < high - value else "largest"
            known = mode.model.kernel.hyperparameters.get(name, float(np.exp(value)))
            shown = f", {known:.3g}" if name not in ("output_scale", "lengthscale") else ""
            warn(
                f"training ended with the {end} {name} that is searched{shown}: the observations "
                "do not determine it; fix it if it is known, or pass a `prior`"
            )
