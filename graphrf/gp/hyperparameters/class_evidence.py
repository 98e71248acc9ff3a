"""The evidence of a classifier's hyperparameters, by Laplace's approximation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from graphrf.gp.hyperparameters.latent_space import Model
from graphrf.gp.model.labels import Labels
from graphrf.gp.model.progress import Step
from graphrf.gp.posterior.approximation.softmax import evidence
from graphrf.gp.routes.gram import Gram
from graphrf.kernels.kernel import Kernel


@dataclass
class ClassEvidence:
    """log p(labels | hyperparameters), a `LatentEvidence`."""

    gram: Gram  # K at the labelled nodes
    labels: Labels
    normalize: bool  # divides K_ij by sqrt(K_ii K_jj)
    step: Step | None = None  # called at every evaluation
    # weights of the last mode, near which the next one is
    _last: np.ndarray | None = field(default=None, init=False)

    def amplitude(self, model: Model) -> float:
        return model.output_scale

    def gradient(self, model: Model, names: tuple[str, ...]) -> tuple[float, np.ndarray]:
        if self.step is not None:
            self.step()
        try:
            matrix, changes = self._prior(model.kernel, model.output_scale, names)
            result = evidence(matrix, self.labels.counts, self.labels.bias, start=self._last)
        except np.linalg.LinAlgError:
            return -np.inf, np.zeros(len(names) + 1)
        self._last, slope = result.mode.weights, result.slope
        return result.value, np.array([float(np.vdot(slope, change)) for change in (*changes, matrix)])

    def _prior(
        self, kernel: Kernel, output_scale: float, names: Sequence[str]
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """The prior covariance of the labelled nodes, and its derivatives; LinAlgError where there is none."""
        matrix, changes = self.gram(kernel, names)
        if self.normalize:
            diagonal = np.diagonal(matrix).copy()
            if not (np.isfinite(diagonal).all() and (diagonal > 0).all()):
                raise np.linalg.LinAlgError("the modulation underflows")
            roots = np.sqrt(diagonal)
            matrix = matrix / np.outer(roots, roots)
            changes = [_correlated(change / np.outer(roots, roots), matrix) for change in changes]
        return output_scale * matrix, [output_scale * change for change in changes]


def _correlated(change: np.ndarray, correlation: np.ndarray) -> np.ndarray:
    """The derivative of K_ij / sqrt(K_ii K_jj); `change` is that of K_ij over the same root."""
    half = 0.5 * np.diagonal(change)
    return np.asarray(change - correlation * (half[:, None] + half))
