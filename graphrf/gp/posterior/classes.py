"""The posterior of a classifier's latent functions for one set of hyperparameters."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.special import ndtri, softmax
from scipy.stats import qmc

from graphrf._base.memory import require_memory
from graphrf._base.rows import slices
from graphrf.gp.covariance.covariance import Covariance
from graphrf.gp.model.class_labels import CONSTANT, Labels
from graphrf.gp.posterior.approximation.softmax import Curvature, find_mode

# Sparse rows that are made at once.
_ROWS_AT_ONCE = 4_096
# Points of the integral over latent functions, and numbers that are summed at once.
_POINTS = 512
_POINT_NUMBERS = 4_000_000


class ClassPosterior:
    """The posterior mode, by the matrix of the labelled nodes if `dense`, and the predictions from
    it: `integrated` over the posterior, or at the mode.
    """

    def __init__(
        self, labels: Labels, covariance: Covariance, *, dense: bool, integrated: bool
    ) -> None:
        self._covariance = covariance
        self._rows = rows = covariance.rows(labels.nodes)
        self._curvature: Curvature | None = None

        if dense or integrated:
            require_memory(
                24.0 * labels.nodes.size**2,
                f"the covariance of {labels.nodes.size} labelled nodes",
                "label fewer",
            )

            matrix = rows.dense()
            matrix = 0.5 * (matrix + matrix.T) + CONSTANT
            self.mode = find_mode(lambda x: matrix @ x, labels.counts)
            if integrated:
                try:
                    self._curvature = Curvature(
                        matrix, self.mode.probabilities, labels.counts.sum(axis=1)
                    )
                except np.linalg.LinAlgError:
                    raise ValueError(
                        "the covariance of the labelled nodes cannot be factored: lower "
                        "`output_scale`, or leave it to training"
                    ) from None
        else:
            self.mode = find_mode(lambda x: rows.gram(x) + CONSTANT * x.sum(axis=0), labels.counts)

        # the mode of the classes' constants
        self.bias: np.ndarray = CONSTANT * self.mode.weights.sum(axis=0)
        self._spread = rows.apply_t(self.mode.weights)

    def probabilities(self, nodes: np.ndarray, seed: int) -> np.ndarray:
        """Class probabilities at distinct nodes, (q, C): softmax at the mode, or its posterior
        mean.
        """
        result = np.empty((nodes.size, self.bias.size))
        if self._curvature is None:
            # exact rows are applied over the whole graph, however few they are
            size = max(nodes.size, 1) if self._covariance.exact else _ROWS_AT_ONCE
            for block in slices(nodes.size, size):
                mean = self.bias + self._covariance.rows(nodes[block]).apply(self._spread)
                result[block] = softmax(mean, axis=1)
            return result
        normals = _normals(self.bias.size, seed)
        for block, mean, covariance in self._latents(nodes, self._curvature):
            result[block] = integrated_softmax(mean, covariance, normals)
        return result

    def _latents(
        self, nodes: np.ndarray, curvature: Curvature
    ) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Posterior means and covariances of the latent functions at each node, by blocks."""
        for block in self._rows.blocks(nodes.size):
            rows = self._covariance.rows(nodes[block])
            cross = self._rows.columns(rows)[0] + CONSTANT
            yield (
                block,
                cross.T @ self.mode.weights,
                curvature.covariances(cross, rows.variances() + CONSTANT),
            )


def _normals(n_classes: int, seed: int) -> np.ndarray:
    """Points of the standard normal distribution, the same for every node."""
    sequence = qmc.Sobol(n_classes, seed=np.random.default_rng(seed))
    # the sequence is on a grid that may hold 0
    return np.asarray(ndtri(np.clip(sequence.random(_POINTS), 1e-12, 1 - 1e-12)))


def integrated_softmax(mean: np.ndarray, covariance: np.ndarray, normals: np.ndarray) -> np.ndarray:
    """The mean of softmax(f), f ~ N(mean, covariance), at each of q nodes, by points of the
    standard normal.

    Parameters
    ----------
    mean : ndarray, shape (q, C)
    covariance : ndarray, shape (q, C, C)
    normals : ndarray, shape (p, C)

    Returns
    -------
    ndarray, shape (q, C)
    """
    eigenvalues, vectors = np.linalg.eigh(covariance)
    roots = vectors * np.sqrt(np.maximum(eigenvalues, 0.0))[:, None, :]
    result = np.empty_like(mean)
    width = max(1, _POINT_NUMBERS // normals.size)
    for start in range(0, mean.shape[0], width):
        part = slice(start, start + width)
        latent = mean[part, None] + normals @ roots[part].transpose(0, 2, 1)
        result[part] = softmax(latent, axis=2).mean(axis=1)
    return result
