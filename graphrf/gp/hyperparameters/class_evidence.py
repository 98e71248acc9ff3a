"""The evidence of a classifier's hyperparameters, by Laplace's approximation, and points of their
posterior.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from graphrf.gp.hyperparameters.explore import INFORMATION, POINTS
from graphrf.gp.hyperparameters.kernel_axis import KernelAxis
from graphrf.gp.hyperparameters.space import Model
from graphrf.gp.methods.gram import Gram
from graphrf.gp.model.class_labels import CONSTANT, Labels
from graphrf.gp.model.hyperparameters import Hyperparameters
from graphrf.gp.model.prior import HyperparameterPrior
from graphrf.gp.model.progress import Step
from graphrf.gp.posterior.approximation.softmax import evidence, evidence_slope
from graphrf.gp.search.sample import systematic

# The unit of latent functions: a deviation between that of labels which are nearly equally probable
# everywhere and that of nearly certain ones. The prior is chosen by `benchmarks/few_labels.py`.
UNIT = 10**0.5
PRIOR = HyperparameterPrior(output_scale=(3.0, 5.0))
# Variances of the grid; and labelled nodes above which it is computed near the mode only.
_SCALES = np.geomspace(0.05, 180, 9) * UNIT**2
_BLOCK = 100
# The share of a kernel's variance that is added to its variance between nodes, which rounding hides
# below it.
_HIDDEN = 1e-4


@dataclass
class ClassEvidence:
    """log p(labels | hyperparameters), a `LatentEvidence`.

    A trained output scale is the variance of latent functions between labelled nodes, mean(K_ii) -
    mean(K_ij) times the factor of K: the constants of the classes take what all nodes share, which
    is nearly all of K where lengthscales are long.
    """

    gram: Gram  # K at the labelled nodes
    labels: Labels
    normalize: bool  # divides K_ij by sqrt(K_ii K_jj)
    trained: bool  # whether the output scale is trained; a fixed one is the factor of K
    step: Step | None = None  # called at every evaluation
    # weights of the last mode, near which the next one is
    _last: np.ndarray | None = field(default=None, init=False)

    def amplitude(self, model: Model) -> float:
        if not self.trained:
            return model.output_scale
        return model.output_scale / self._prepared(self.gram(model.kernel, ())[0], [])[1]

    def gradient(self, model: Model, names: tuple[str, ...]) -> tuple[float, np.ndarray]:
        if self.step is not None:
            self.step()
        counts, scale = self.labels.counts, model.output_scale
        try:
            matrix, _, changes = self._prepared(*self.gram(model.kernel, names))
            prior = scale * matrix + CONSTANT
            approximation = evidence(prior, counts, start=self._last)
            slope = evidence_slope(prior, counts, approximation)
        except np.linalg.LinAlgError:
            return -np.inf, np.zeros(len(names) + 1)
        self._last = approximation.mode.weights
        return approximation.value, np.array(
            [scale * float(np.vdot(slope, change)) for change in (*changes, matrix)]
        )

    def of_constants(self) -> float:
        """The evidence of the classes' constants alone, without the graph."""
        return evidence(np.full(2 * self.labels.nodes.shape, CONSTANT), self.labels.counts).value

    def points(self, axis: KernelAxis, mode: Model) -> list[Hyperparameters]:
        """About eight points of the tempered posterior, on a grid of lengthscale (or share) and
        output scale.

        None if it vanishes on the grid.
        """
        scales = _SCALES if self.trained else np.array([mode.output_scale])
        kernels, n = axis.kernels, self.labels.nodes.size
        near = np.ones((len(kernels), scales.size), dtype=bool)

        # An evaluation takes some m^3 operations: for many labels only near the mode, at three grid
        # values to each side, and scales within a factor of e^2.5.
        if n > _BLOCK:
            values = [kernel.hyperparameters.get(axis.name, 0.0) for kernel in kernels]
            at = np.searchsorted(values, mode.kernel.hyperparameters.get(axis.name, 0.0))
            there = np.abs(np.log(scales / mode.output_scale)) < 2.5
            near = (np.abs(np.arange(len(kernels)) - at) <= 3)[:, None] & there

        log = np.full((len(kernels), scales.size), -np.inf)
        amplitudes = np.ones(log.shape)
        for k, matrix in enumerate(self.gram.many(kernels)):
            start = None
            for j in np.flatnonzero(near[k]):
                scale = float(scales[j])
                if self.step is not None:
                    self.step()
                try:
                    unit_matrix, variance, _ = self._prepared(matrix, [])
                    approximation = evidence(
                        scale * unit_matrix + CONSTANT, self.labels.counts, start=start
                    )
                except np.linalg.LinAlgError:
                    continue
                amplitudes[k, j] = scale / variance
                if approximation.mode.converged and np.isfinite(approximation.value):
                    start, log[k, j] = approximation.mode.weights, approximation.value

        # Tempered as the likelihood of normal noise, by the number of labelled nodes.
        log *= min(1.0, INFORMATION / n)
        log += axis.log_prior(PRIOR)[:, None]
        if self.trained:
            log += PRIOR.log_density("output_scale", np.log(scales), UNIT**2)[0]
        if not np.isfinite(log).any():
            return []

        order = np.arange(log.size).reshape(log.shape).T.ravel()  # by scale
        chosen, repeats = systematic(log.ravel(), order, POINTS)
        return [
            Hyperparameters(
                kernels[place // scales.size], amplitude, amplitude, 1.0, repeated / POINTS
            )
            for place, repeated in zip(chosen.tolist(), repeats.tolist(), strict=True)
            for amplitude in [float(amplitudes.flat[place])]
        ]

    def _prepared(
        self, matrix: np.ndarray, changes: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, float, list[np.ndarray]]:
        """K of output scale 1, the variance by which it was divided, and its derivatives;
        LinAlgError where K vanishes.
        """
        if self.normalize:
            diagonal = np.diagonal(matrix).copy()
            if not (np.isfinite(diagonal).all() and (diagonal > 0).all()):
                raise np.linalg.LinAlgError("the modulation underflows")
            roots = np.outer(*(2 * [np.sqrt(diagonal)]))
            matrix = matrix / roots
            changes = [_correlated(change / roots, matrix) for change in changes]

        if not self.trained:
            return matrix, 1.0, list(changes)

        variance = _between(matrix)
        if not variance > 0:
            raise np.linalg.LinAlgError("the modulation underflows")
        matrix = matrix / variance
        return (
            matrix,
            variance,
            [(change - _between(change) * matrix) / variance for change in changes],
        )


def _between(matrix: np.ndarray) -> float:
    """Mean variance less mean covariance, which is half the mean square difference of two nodes."""
    size, trace = matrix.shape[0], float(np.trace(matrix))
    others = (float(matrix.sum()) - trace) / (size * (size - 1)) if size > 1 else 0.0
    return (1 + _HIDDEN) * trace / size - others


def _correlated(change: np.ndarray, correlation: np.ndarray) -> np.ndarray:
    """The derivative of K_ij / sqrt(K_ii K_jj); `change` is that of K_ij over the same root."""
    half = 0.5 * np.diagonal(change)
    return np.asarray(change - correlation * (half[:, None] + half))
