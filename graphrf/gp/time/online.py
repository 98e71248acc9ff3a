"""Filters that continue with new observations, and forecasts; no partly observed times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphrf.gp.time import kalman_covariances
from graphrf.gp.time.covariance import Series, conditioned
from graphrf.gp.time.kernels import transitions
from graphrf.gp.time.lanes import WIDTH


@dataclass(frozen=True)
class Filter:
    """The states of all series given all observations until a time; a step costs O(n d^2)."""

    series: Series
    time: float  # of the last observation, in hours
    means: np.ndarray  # (blocks, d, 8)
    covariances: np.ndarray  # (blocks, d, d, 8)

    @classmethod
    def of(cls, series: Series, y: np.ndarray, time: float) -> Filter:
        """After all of y (T, n), in the basis of the series, the last at `time`."""
        means = [series.last_means(y, block) for block in range(series.n_blocks)]
        return cls(series, time, np.array(means), np.array([last for _, _, last in series.gains]))

    def observed(self, times: np.ndarray, y: np.ndarray) -> Filter:
        """After more: y (t, n), in the basis of the series."""
        space, model = self.series.space, self.series.model
        d, stationary = space.low.size, space.stationary[:, :, None]
        phi = transitions(model.kernels, np.diff(times, prepend=self.time))
        padded = np.zeros((times.size, self.series.n_blocks * WIDTH))
        padded[:, : y.shape[1]] = y
        means, covariances = np.empty_like(self.means), np.empty_like(self.covariances)
        gain, variance = np.empty((times.size, d, WIDTH)), np.empty((times.size, WIDTH))

        for block, (x, v) in enumerate(zip(self.means, self.covariances, strict=True)):
            h = self.series.readout(block)
            predicted = (
                np.einsum("ij,jkm,lk->ilm", phi[0], v - stationary, phi[0], optimize=True)
                + stationary
            )
            kept = np.empty((2, d * (d + 1) // 2, WIDTH))
            kalman_covariances.gains(
                phi,
                np.arange(times.size),
                space.low,
                space.high,
                space.stationary,
                predicted[np.tril_indices(d)],
                h,
                np.full(times.size, model.noise),
                kept,
                gain,
                variance,
            )

            for t, row in enumerate(padded[:, block * WIDTH : (block + 1) * WIDTH]):
                x = phi[t] @ x
                x += gain[t] * (row - (h * x).sum(axis=0))
            means[block] = x
            covariances[block] = conditioned(kept[(times.size - 1) % 2], gain[-1], variance[-1])
        return Filter(self.series, float(times[-1]), means, covariances)

    def ahead(self, times: np.ndarray, coefficients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances, (t, q), of sums of unit-variance parts at times from the last on.

        `coefficients` (p, q, n) weight the parts.
        """
        space = self.series.space
        readouts, n = space.readouts, coefficients.shape[2]
        phi = transitions(self.series.model.kernels, times - self.time)
        mean, variance = np.zeros((2, times.size, coefficients.shape[1]))
        for block in range(self.series.n_blocks):
            own = coefficients[:, :, block * WIDTH : min((block + 1) * WIDTH, n)]
            less = self.covariances[block] - space.stationary[:, :, None]
            for t, step in enumerate(phi[: times.size]):
                left = readouts @ step
                parts = left @ self.means[block][:, : own.shape[2]]
                mean[t] += np.einsum("pqm,pm->q", own, parts)
                covariance = np.einsum(
                    "ai,ijm,bj->abm", left, less[..., : own.shape[2]], left, optimize=True
                )
                covariance += (readouts @ space.stationary @ readouts.T)[:, :, None]
                variance[t] += np.einsum("aqm,abm,bqm->q", own, covariance, own, optimize=True)
        return mean, variance
