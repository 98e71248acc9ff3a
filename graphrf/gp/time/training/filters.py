"""Kalman filters of many series that differ in an eigenvalue, interpolated between some."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from graphrf._base.threads import ordered_map
from graphrf.gp.time import kalman_covariances
from graphrf.gp.time.covariance import Series, turned
from graphrf.gp.time.lanes import WIDTH
from graphrf.gp.time.training import slopes

_SPACING = 0.5  # of nodes, in logarithms of eigenvalues


class FilterSlopes(NamedTuple):
    """Derivatives in transitions (u, d, d), stationary covariance, readouts and noise."""

    phi: np.ndarray
    stationary: np.ndarray
    readouts: np.ndarray
    noise: float


def lanes(block: int) -> slice:
    """The series of a block."""
    return slice(block * WIDTH, (block + 1) * WIDTH)


def interpolation(eigenvalues: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Indices of eigenvalues (K,) with computed filters, and weights (n, K) to interpolate others.

    Gains are analytic in the logarithm of an eigenvalue, but for points at least pi away from the
    real axis. Cubics through four nodes half a unit apart err by some 1e-4 of them, and the log
    likelihood of a series by less than 1e-3.
    """
    x = np.log(np.maximum(eigenvalues, 1e-12 * eigenvalues.max()))
    order = np.argsort(eigenvalues, kind="stable")

    # Smaller eigenvalues, which contribute almost nothing, are replaced by the largest of them.
    order = order[int(np.searchsorted(x[order], x.min(), side="right")) - 1 :]
    chosen = [int(order[0])]
    for i, here in enumerate(order[1:], 2):
        passed = x[here] - x[chosen[-1]]
        ends = i == order.size or x[order[i]] - x[chosen[-1]] > _SPACING
        if ends and passed > _SPACING / 8:
            chosen.append(int(here))

    nodes = np.array(chosen)
    if nodes.size > x.size - WIDTH:  # not a block is saved
        return np.arange(x.size), np.eye(x.size)
    count = min(4, nodes.size)
    near = np.clip(np.searchsorted(x[nodes], x) - 2, 0, nodes.size - count)[:, None] + np.arange(
        count
    )

    weights = np.zeros((x.size, nodes.size))
    for j in range(count):
        here, others = x[nodes[near[:, j]], None], x[nodes[np.delete(near, j, axis=1)]]
        weights[np.arange(x.size), near[:, j]] = np.prod(
            (x[:, None] - others) / (here - others), axis=1
        )
    return nodes, weights


class Filters:
    """Gains V h / S (T, d, n) and innovation variances S (T, n), interpolated by weights (n, K).

    `nodes` are the K computed series, all observed at all times; n and K are padded to whole
    blocks. With `with_slopes` covariances are kept, O(T K d^2), from which `back` has the
    derivatives.
    """

    def __init__(
        self, nodes: Series, weights: np.ndarray, with_slopes: bool, n_threads: int
    ) -> None:
        self._series, self._n_threads = nodes, n_threads
        self._size = weights.shape[1]
        self._weights = np.pad(weights, ((0, 0), (0, -self._size % WIDTH)))
        n_times, d = nodes.noise.size, nodes.space.low.size
        self._gain = np.empty((n_times, d, self._weights.shape[1]))
        self._variance = np.empty((n_times, self._weights.shape[1]))
        kept = n_times if with_slopes else 2
        self._covariances = [
            np.empty((kept, d * (d + 1) // 2, WIDTH)) for _ in range(nodes.n_blocks)
        ]
        list(ordered_map(self._filter, range(nodes.n_blocks), n_threads))
        self.gain = turned(self._gain, self._weights.T)
        self.variance = np.exp(np.log(self._variance) @ self._weights.T)

    def _filter(self, block: int) -> None:
        series, columns = self._series, lanes(block)
        kalman_covariances.gains(
            *series.transitions,
            series.space.stationary,
            series.first,
            series.readout(block),
            series.noise,
            self._covariances[block],
            self._gain[..., columns],
            self._variance[:, columns],
        )

    def back(self, d_gain: np.ndarray, d_log: np.ndarray) -> FilterSlopes:
        """Derivatives, given those in `gain` and in the logarithm of `variance`."""
        d_gain, d_log = turned(d_gain, self._weights), d_log @ self._weights
        series, d = self._series, self._series.space.low.size

        def of(block: int) -> FilterSlopes:
            columns = lanes(block)
            size = min(WIDTH, self._size - columns.start)
            d_phi, d_stationary = np.zeros_like(series.phi), np.zeros((d, d))
            d_h, d_noise = np.zeros((d, WIDTH)), np.zeros(WIDTH)
            slopes.gains_back(
                *series.transitions,
                series.space.stationary,
                series.readout(block),
                self._covariances[block],
                self._gain[..., columns],
                self._variance[:, columns],
                d_gain[..., columns],
                d_log[:, columns],
                size,
                d_phi,
                d_stationary,
                d_h,
                d_noise,
            )
            return FilterSlopes(d_phi, d_stationary, d_h, float(d_noise[:size].sum()))

        result = list(ordered_map(of, range(series.n_blocks), self._n_threads))
        readouts = np.hstack([part.readouts for part in result])[:, : self._size]
        return FilterSlopes(
            np.sum([part.phi for part in result], axis=0),
            np.sum([part.stationary for part in result], axis=0),
            readouts,
            sum(part.noise for part in result),
        )
