"""Observations of a graph signal, with repeated ones at a node joined without loss."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Observations(NamedTuple):
    r"""n observations at m distinct nodes, as the statistics that a Gaussian likelihood needs.

    c observations y_1 .. y_c of f at one node with noise variance s are, up to a factor that does not depend
    on f, one observation of their mean with noise variance s / c; the factor is

    .. math:: (2 \pi s)^{-(c-1)/2} \, c^{-1/2} \exp\left(-\tfrac{1}{2s} \sum_i (y_i - \bar y)^2\right).

    Attributes
    ----------
    nodes : ndarray of int64, shape (m,)
        Distinct, increasing.
    counts : ndarray of float64, shape (m,)
    means : ndarray of float64, shape (m, p)
    within : float
        Sum of squared deviations from the node means, over all nodes and outputs.
    basis : ndarray of float64, shape (m, b)
        The mean function's basis at the nodes: no columns for a zero mean, ones for a constant.
    """

    nodes: np.ndarray
    counts: np.ndarray
    means: np.ndarray
    within: float
    basis: np.ndarray

    @property
    def n_outputs(self) -> int:
        """p."""
        return int(self.means.shape[1])

    @property
    def n_total(self) -> int:
        """n, repeats counted."""
        return int(self.counts.sum())

    @classmethod
    def of(cls, nodes: np.ndarray, y: np.ndarray, basis: np.ndarray) -> Observations:
        """From node positions of shape (n,), values of shape (n, p) and the basis at all nodes, shape (N, b)."""
        distinct, position, counts = np.unique(nodes, return_inverse=True, return_counts=True)
        if distinct.size == nodes.size:
            return cls(distinct, np.ones(nodes.size), y[np.argsort(nodes)], 0.0, basis[distinct])
        sums = np.zeros((distinct.size, y.shape[1]))
        np.add.at(sums, position, y)
        means = sums / counts[:, None]
        within = float(np.square(y - means[position]).sum())
        return cls(distinct, counts.astype(np.float64), means, within, basis[distinct])

    def take(self, rows: np.ndarray) -> Observations:
        """Those of some of the nodes, without what is known of each node's own spread."""
        return Observations(self.nodes[rows], self.counts[rows], self.means[rows], 0.0, self.basis[rows])
