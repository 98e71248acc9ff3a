"""Observations of a graph signal: repeated ones at a node joined without loss, and one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


class Observations(NamedTuple):
    r"""n observations at m distinct nodes, as the sufficient statistics of a Gaussian likelihood.

    Observations y_i of f at one node with noise variances s / a_i act as one observation of their
    weighted mean with noise variance s / c, c = sum a_i, up to the factor for k observations

    .. math:: (2 \pi s)^{-(k-1)/2} \, c^{-1/2} \prod_i a_i^{1/2}
              \exp\left(-\tfrac{1}{2s} \sum_i a_i (y_i - \bar y)^2\right).
    """

    nodes: np.ndarray  # (m,) distinct, increasing
    counts: np.ndarray  # (m,) c, the number of observations where all precisions are 1
    means: np.ndarray  # (m, p)
    within: (
        float  # weighted sum of squared deviations from the node means, over all nodes and outputs
    )
    basis: (
        np.ndarray
    )  # (m, b) basis of the mean function: no columns for a zero mean, ones for a constant
    n_total: int  # n
    log_precisions: float = 0.0  # sum of log a_i

    @property
    def n_outputs(self) -> int:
        """p."""
        return int(self.means.shape[1])

    @classmethod
    def of(
        cls,
        nodes: np.ndarray,
        y: np.ndarray,
        basis: np.ndarray,
        precisions: np.ndarray | None = None,
    ) -> Observations:
        """The statistics of values (n, p) at nodes (n,), with a basis (N, b) and relative
        precisions (n,).
        """
        distinct, position = np.unique(nodes, return_inverse=True)
        a = np.ones(nodes.size) if precisions is None else precisions
        logs = 0.0 if precisions is None else float(np.log(a).sum())
        if distinct.size == nodes.size:
            order = np.argsort(nodes)
            return cls(distinct, a[order], y[order], 0.0, basis[distinct], nodes.size, logs)
        counts = np.bincount(position, weights=a)
        sums = np.zeros((distinct.size, y.shape[1]))
        np.add.at(sums, position, a[:, None] * y)
        means = sums / counts[:, None]
        within = float((a[:, None] * np.square(y - means[position])).sum())
        return cls(distinct, counts, means, within, basis[distinct], nodes.size, logs)

    def variance(self) -> float:
        """The variance about the mean function (by least squares), over all outputs."""
        roots = np.sqrt(self.counts)[:, None]
        basis, values = roots * self.basis, roots * self.means
        # `rcond` bounds the singular values that count
        residual = values - basis @ np.linalg.lstsq(basis, values, rcond=1e-12)[0]
        squares = float(np.square(residual).sum()) + self.within
        return squares / (float(self.counts.sum()) * self.n_outputs)

    @property
    def varies(self) -> bool:
        """True if the variance about the mean function is not rounding alone, so that something can
        be learned.
        """
        return self.variance() > 1e-20 * float(np.abs(self.means).max()) ** 2

    def in_units_of(self, unit: float) -> Observations:
        """Observations whose values are divided by a unit."""
        return self._replace(means=self.means / unit, within=self.within / unit / unit)

    def log_constant(self, noise: Any) -> Any:
        """The log likelihood without the quadratic form of the means and -p log det(C^(1/2) A
        C^(1/2)) / 2.
        """
        p, extra = self.n_outputs, self.n_total - self.nodes.size
        constant = -0.5 * p * (self.n_total * np.log(2 * np.pi) - self.log_precisions)
        return constant - 0.5 * (p * extra * np.log(noise) + self.within / noise)

    def log_likelihood(self, quadratic: float, log_determinant: float, noise: float) -> float:
        """The log likelihood by r^T A^-1 r, summed over outputs, and log |A| of the covariance A of
        the means.
        """
        determinant = 0.5 * log_determinant + 0.5 * float(np.log(self.counts).sum())
        return -0.5 * quadratic - self.n_outputs * determinant + float(self.log_constant(noise))


class SeparateObservations(NamedTuple):
    """The n observations of a fit one by one, in the order of its arguments."""

    place: np.ndarray  # (n,) where their nodes are among the distinct observed ones
    y: np.ndarray  # (n, p) less the offset of normal noise; else as the likelihood takes them
    precisions: np.ndarray  # (n,) of normal noise, relative
    offset: np.ndarray  # (n,) of the latent function of other likelihoods
    labels: Any = None  # None where these are the nodes

    def named(self, nodes: Sequence[Any]) -> Any:
        """The labels of the observations, by default their nodes."""
        return nodes if self.labels is None else self.labels

    @property
    def repeats(self) -> np.ndarray:
        """The number of observations at the node of each, shape (n,)."""
        return np.bincount(self.place)[self.place]
