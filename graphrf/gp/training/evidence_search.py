"""Hyperparameters of a classifier by maximum evidence: a coarse grid, then L-BFGS with exact gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy import optimize

from graphrf.gp.inference.labels import Labels
from graphrf.gp.inference.laplace import evidence
from graphrf.gp.training.gram import Gram
from graphrf.gp.training.parameters import LATENT_SCALES, Parameters
from graphrf.kernels.kernel import Kernel

_GRID_SCALES = (3.0, 30.0)
_MAX_STEPS = 40
UNFACTORED = (
    "the covariance of the labelled nodes cannot be factored with these hyperparameters: lower `output_scale`, or "
    "leave it to training"
)
# What the optimiser is told where the covariance cannot be factored.
_IMPOSSIBLE = 1e25


class EvidenceResult(NamedTuple):
    """The best hyperparameters found.

    Attributes
    ----------
    kernel : Kernel
    output_scale : float
    value : float
        The log evidence of the labels that the search saw.
    converged : bool
        Whether the optimiser says so.
    point : ndarray
        The parameters as the search has them.
    """

    kernel: Kernel
    output_scale: float
    value: float
    converged: bool
    point: np.ndarray


def search(
    gram: Gram,
    labels: Labels,
    kernel: Kernel,
    *,
    names: Sequence[str],
    bounds: dict[str, tuple[float, float]],
    output_scale: float | None,
    normalize: bool,
    start: np.ndarray | None = None,
) -> EvidenceResult:
    r"""Maximise Laplace's evidence over the named hyperparameters and the output scale.

    Parameters
    ----------
    gram : Gram
        K at the training nodes.
    labels : Labels
    kernel : Kernel
        The first guess.
    names : sequence of str
        Hyperparameters of the kernel to train; may be empty.
    bounds : dict
        Of each: (low, high). Those that are positive are sought by their logarithm.
    output_scale : float or None
        None trains it.
    normalize : bool
        Whether K_ij is divided by sqrt(K_ii K_jj).
    start : ndarray, optional
        The `point` of an earlier search with the same settings: only there this one begins.
    """
    return EvidenceSearch(gram, labels, Parameters(kernel, names, bounds), output_scale, normalize).run(start)


@dataclass
class EvidenceSearch:
    """The search of `search`."""

    gram: Gram
    labels: Labels
    parameters: Parameters
    output_scale: float | None
    normalize: bool
    # weights of the last mode: the next one is near
    _last: np.ndarray | None = field(default=None, init=False)

    def run(self, start: np.ndarray | None) -> EvidenceResult:
        box = self.parameters.box
        if self.output_scale is None:
            box.append((math.log(LATENT_SCALES[0]), math.log(LATENT_SCALES[1])))
        if start is None:
            start = min(self._grid(), key=lambda point: self.negative(point, gradient=False)[0])
        converged = True
        if start.size:
            result = optimize.minimize(
                self.negative, np.clip(start, *np.transpose(box)), jac=True, method="L-BFGS-B", bounds=box,
                options={"maxiter": _MAX_STEPS, "ftol": 1e-7},
            )  # fmt: skip
            start, converged = result.x, bool(result.success)
        try:
            matrix, _ = self._prior(*self._model(start), ())
            result = evidence(matrix, self.labels.counts, self.labels.bias, start=self._last, gradient=False)
        except np.linalg.LinAlgError:
            raise ValueError(UNFACTORED) from None
        return EvidenceResult(*self._model(start), result.value, converged, start)

    def _prior(
        self, kernel: Kernel, output_scale: float, names: Sequence[str]
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """The prior covariance of the training nodes, and its derivatives; LinAlgError where there is none."""
        matrix, changes = self.gram(kernel, names)
        if self.normalize:
            diagonal = np.diagonal(matrix).copy()
            if not (np.isfinite(diagonal).all() and (diagonal > 0).all()):
                raise np.linalg.LinAlgError("the modulation underflows")
            roots = np.sqrt(diagonal)
            matrix = matrix / np.outer(roots, roots)
            changes = [_correlated(change / np.outer(roots, roots), matrix) for change in changes]
        return output_scale * matrix, [output_scale * change for change in changes]

    def _model(self, vector: np.ndarray) -> tuple[Kernel, float]:
        """Kernel and output scale of a vector of parameters."""
        output_scale = math.exp(vector[-1]) if self.output_scale is None else float(self.output_scale)
        return self.parameters.kernel(vector), output_scale

    def _grid(self) -> list[np.ndarray]:
        """The kernel as given, and a few lengthscales; each with a few output scales."""
        points = self.parameters.starts()
        if self.output_scale is not None:
            return points
        return [np.append(point, math.log(scale)) for point in points for scale in _GRID_SCALES]

    def negative(self, vector: np.ndarray, gradient: bool = True) -> tuple[float, np.ndarray]:
        """Minus the log evidence, and its gradient (zeros unless asked for)."""
        kernel, output_scale = self._model(vector)
        try:
            matrix, changes = self._prior(kernel, output_scale, self.parameters.names if gradient else ())
            result = evidence(matrix, self.labels.counts, self.labels.bias, start=self._last, gradient=gradient)
        except np.linalg.LinAlgError:
            return _IMPOSSIBLE, np.zeros(vector.size)
        self._last = result.mode.weights
        if result.slope is None:
            return -result.value, np.zeros(vector.size)
        slope = list(self.parameters.slopes(kernel, [float(np.vdot(result.slope, change)) for change in changes]))
        if self.output_scale is None:
            slope.append(float(np.vdot(result.slope, matrix)))
        return -result.value, -np.array(slope)


def _correlated(change: np.ndarray, correlation: np.ndarray) -> np.ndarray:
    """The derivative of K_ij / sqrt(K_ii K_jj); `change` is that of K_ij over the same root."""
    half = 0.5 * np.diagonal(change)
    return np.asarray(change - correlation * (half[:, None] + half))
