"""What the signal itself tells of the covariance among sensors, and how nodes without a sensor inherit it."""

from __future__ import annotations

import numpy as np

from graphrf._base.cached import cached_property
from graphrf.gp.time.graph_kernels import GraphCovariance
from graphrf.kernels.kernel import Kernel

# What is added to C's diagonal, as a share of its mean, where nodes are predicted from sensors.
_RIDGE = 0.05


def empirical(y: np.ndarray, noise: float, near: np.ndarray) -> np.ndarray:
    """The covariance of sensors over times of y (T, n), without noise, on the scale of C: shape (n, n)."""
    centred = y - y.mean(axis=0)
    values, vectors = np.linalg.eigh(centred.T @ centred / len(y))
    matrix = (vectors * np.maximum(values - noise, 0.0)) @ vectors.T
    trace = float(np.trace(matrix))
    return matrix * (np.trace(near) / trace) if trace > 0 else near


class LearnedCovariance(GraphCovariance):
    r"""C (1 - w) + E w among sensors, for a graph kernel C and a covariance E of what was observed.

    Other nodes inherit E by the graph's own prediction of them from the sensors,

    .. math:: f_u = W_u f_S + r_u, \quad W = C_{US} (C_{SS} + \delta I)^{-1},

    whose error r has the covariance that C gives it: a covariance function on all nodes, and C itself if E is C
    and delta is 0. A sensor's row of W is that of the identity.

    Parameters
    ----------
    graph : GraphCovariance
    kernel : Kernel
    sensors : ndarray of int, shape (n,)
    share : float
        w, from 0 to 1.
    matrix : ndarray, shape (n, n)
        E.

    Source: Le and Zidek 1992, "Interpolation with uncertain spatial covariances: a Bayesian alternative to
    Kriging".
    """

    def __init__(
        self, graph: GraphCovariance, kernel: Kernel, sensors: np.ndarray, share: float, matrix: np.ndarray
    ) -> None:
        self.graph, self.kernel, self.sensors, self.share, self.matrix = graph, kernel, sensors, share, matrix

    def block(self, kernel: Kernel, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """The covariance between nodes, shape (rows, columns)."""
        near = self.graph.block(kernel, rows, columns)
        left, right = self._weights(rows), self._weights(columns)
        inherited = left @ self.matrix @ right.T
        # Covariances of errors; those of sensors are 0.
        new, other = self._unseen(rows), self._unseen(columns)
        if new.size and other.size:
            block = self.graph.block
            to_sensors, from_sensors = (
                block(kernel, rows[new], self.sensors),
                block(kernel, columns[other], self.sensors),
            )
            a, b = left[new], right[other]
            error = near[np.ix_(new, other)] - a @ from_sensors.T - to_sensors @ b.T + a @ self._near @ b.T
            inherited[np.ix_(new, other)] += error
        return np.asarray((1.0 - self.share) * near + self.share * inherited)

    def diagonal(self, kernel: Kernel, nodes: np.ndarray) -> np.ndarray:
        """The variances of nodes."""
        near, weights, new = self.graph.diagonal(kernel, nodes), self._weights(nodes), self._unseen(nodes)
        inherited = np.einsum("qn,qn->q", weights @ self.matrix, weights)
        if new.size:
            a = weights[new]
            inherited[new] += near[new] - 2.0 * np.einsum(
                "qn,qn->q", a, self.graph.block(kernel, nodes[new], self.sensors)
            )
            inherited[new] += np.einsum("qn,qn->q", a @ self._near, a)
        return np.asarray((1.0 - self.share) * near + self.share * inherited)

    @cached_property
    def _near(self) -> np.ndarray:
        return self.graph.block(self.kernel, self.sensors, self.sensors)

    @cached_property
    def _inverse(self) -> np.ndarray:
        n = self.sensors.size
        return np.linalg.inv(self._near + _RIDGE * np.trace(self._near) / n * np.eye(n))

    @cached_property
    def _places(self) -> dict[int, int]:
        return {int(node): place for place, node in enumerate(self.sensors)}

    def _unseen(self, nodes: np.ndarray) -> np.ndarray:
        """Which of the nodes have no sensor."""
        return np.flatnonzero(~np.isin(nodes, self.sensors))

    def _weights(self, nodes: np.ndarray) -> np.ndarray:
        """W, shape (q, n)."""
        result = np.zeros((nodes.size, self.sensors.size))
        new = self._unseen(nodes)
        known = np.setdiff1d(np.arange(nodes.size), new)
        result[known, [self._places[int(node)] for node in nodes[known]]] = 1.0
        if new.size:
            result[new] = self.graph.block(self.kernel, nodes[new], self.sensors) @ self._inverse
        return result
