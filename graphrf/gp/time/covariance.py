r"""The covariance on sensors and times: a sum of Kronecker products, and its inverse."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from graphrf._base.cached import cached_property
from graphrf._base.threads import ordered_map
from graphrf.gp.time import kalman, kalman_covariances
from graphrf.gp.time.kernels import StateSpace, TimeKernel, TimeSteps, transitions
from graphrf.gp.time.lanes import WIDTH


def turned(x: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """x @ matrix for x of shape (..., n), as one product: stacked small ones are much slower."""
    return np.asarray(x.reshape(-1, x.shape[-1]) @ matrix).reshape(*x.shape[:-1], matrix.shape[1])


def conditioned(triangle: np.ndarray, gain: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """V - S g g^T for a triangle V: the covariance (d, d, 8) of states after an observation."""
    below = np.tril_indices(gain.shape[0])
    full = np.empty((gain.shape[0], *gain.shape))
    full[below] = full[below[::-1]] = triangle
    return np.asarray(
        full - (gain * np.where(np.isfinite(variance), variance, 0.0))[:, None] * gain
    )


class Part(NamedTuple):
    """(shared C + own I) x kernel: variances along the graph, and of individual sensors."""

    kernel: TimeKernel
    shared: float
    own: float


@dataclass(frozen=True)
class Separable:
    r"""The parts of the covariance.

    .. math:: \mathrm{cov}(f(u, t), f(v, t')) = \sum_p (a_p C_{uv} + b_p \delta_{uv}) k_p(t - t'),
        \quad
              y = f + \varepsilon, \quad \varepsilon \sim N(0, s).
    """

    parts: tuple[Part, ...]
    noise: float

    @property
    def kernels(self) -> tuple[TimeKernel, ...]:
        return tuple(part.kernel for part in self.parts)

    @property
    def shared(self) -> np.ndarray:
        return np.array([part.shared for part in self.parts])

    @property
    def own(self) -> np.ndarray:
        return np.array([part.own for part in self.parts])


class Sensors(NamedTuple):
    r"""C among the sensors, and B, of their individual variation, by common eigenvectors.

    B is the identity, or with a `own_correlation` k > 0

    .. math:: B \propto C (C + k m I)^{-1}

    with m the median eigenvalue of C, scaled to a mean variance of 1: sensors that nearly coincide
    in C do so in B, and others are nearly independent.
    """

    matrix: np.ndarray
    eigenvalues: np.ndarray
    vectors: np.ndarray
    own: np.ndarray  # eigenvalues of B

    @classmethod
    def of(cls, matrix: np.ndarray, own_correlation: float = 0.0) -> Sensors:
        matrix = 0.5 * (matrix + matrix.T)
        eigenvalues, vectors = np.linalg.eigh(matrix)
        eigenvalues = np.maximum(eigenvalues, 0.0)
        own = np.ones(eigenvalues.size)
        if own_correlation > 0:
            own = eigenvalues / np.maximum(
                eigenvalues + own_correlation * np.median(eigenvalues), 1e-300
            )
            own /= own.mean()
        return cls(matrix, eigenvalues, vectors, own)

    @property
    def own_matrix(self) -> np.ndarray:
        """B."""
        return np.asarray((self.vectors * self.own) @ self.vectors.T)


@dataclass(frozen=True)
class Series:
    """The independent series that eigenvectors of C make of a complete grid, eight abreast."""

    model: Separable
    eigenvalues: np.ndarray  # of C, (n,)
    own: np.ndarray  # eigenvalues of B
    steps: TimeSteps  # between the T times
    noise: np.ndarray  # (T,): variances of what is observed at each time; infinite where nothing is
    n_threads: int = 1

    @cached_property
    def space(self) -> StateSpace:
        return StateSpace.of(self.model.kernels)

    @cached_property
    def phi(self) -> np.ndarray:
        return transitions(self.model.kernels, self.steps.lengths)

    @cached_property
    def scales(self) -> np.ndarray:
        """The deviation of each part in each series, shape (p, n padded to whole blocks)."""
        n = self.eigenvalues.size
        # Further series fill the last block and are not read.
        padded = np.pad(
            np.array([self.eigenvalues, self.own]), ((0, 0), (0, -n % WIDTH)), constant_values=1.0
        )
        return np.asarray(
            np.sqrt(self.model.shared[:, None] * padded[0] + self.model.own[:, None] * padded[1])
        )

    def readout(self, block: int) -> np.ndarray:
        """h of one block, shape (d, 8)."""
        return np.ascontiguousarray(
            self.space.readouts.T @ self.scales[:, block * WIDTH : (block + 1) * WIDTH]
        )

    @property
    def n_blocks(self) -> int:
        return self.scales.shape[1] // WIDTH

    @cached_property
    def gains(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Gains (T, d, 8), innovation variances (T, 8) and last covariance of each block."""
        return list(ordered_map(self._gains, range(self.n_blocks), self.n_threads))

    def _gains(self, block: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        n_times = self.noise.size
        gain, variance = np.empty((n_times, self.space.low.size, WIDTH)), np.empty((n_times, WIDTH))
        predicted = self._predicted(slice(None), self.first, self.readout(block), gain, variance, 2)
        return gain, variance, conditioned(predicted[(n_times - 1) % 2], gain[-1], variance[-1])

    def _predicted(
        self,
        part: slice,
        first: np.ndarray,
        h: np.ndarray,
        gain: np.ndarray,
        variance: np.ndarray,
        kept: int,
    ) -> np.ndarray:
        """Predicted covariances at the last `kept` times, as triangles, the i-th at i % `kept`.

        `first` is that at the first time; `gain` and `variance` are filled.
        """
        phi, which, low, high = self.transitions
        predicted = np.empty((kept, *first.shape))
        kalman_covariances.gains(
            phi,
            which[part],
            low,
            high,
            self.space.stationary,
            first,
            h,
            self.noise[part],
            predicted,
            gain[part],
            variance[part],
        )
        return predicted

    @property
    def first(self) -> np.ndarray:
        """The covariance that is predicted at the first time, a triangle (d (d + 1) / 2, 8)."""
        return np.repeat(
            self.space.stationary[np.tril_indices(self.space.low.size)][:, None], WIDTH, axis=1
        )

    @property
    def transitions(self) -> tuple[np.ndarray, ...]:
        """The transitions as the compiled loops want them."""
        return self.phi, self.steps.which, self.space.low, self.space.high

    def _block(self, y: np.ndarray, block: int) -> np.ndarray:
        """Columns of y (T, R, n) that a block holds, (T, R, 8)."""
        part = y[..., block * WIDTH : (block + 1) * WIDTH]
        result = np.zeros((*y.shape[:2], WIDTH))
        result[..., : part.shape[2]] = part
        return result

    def solve(self, y: np.ndarray) -> np.ndarray:
        """The inverse covariance times y, (T, R, n), of series; 0 in rows without observation."""
        out = np.empty_like(y)

        def of(block: int) -> None:
            gain, variance, _ = self.gains[block]
            e = self._block(y, block)
            kalman.filtered(*self.transitions, self.readout(block), gain, e)
            e /= variance[:, None]
            kalman.unfiltered(*self.transitions, self.readout(block), gain, e)
            part = out[..., block * WIDTH : (block + 1) * WIDTH]
            part[...] = e[..., : part.shape[2]]

        _ = self.gains
        for _ in ordered_map(of, range(self.n_blocks), self.n_threads):
            pass
        return out

    def last_means(self, y: np.ndarray, block: int) -> np.ndarray:
        """Mean states of a block after all of y (T, n), shape (d, 8)."""
        e = self._block(y[:, None], block)
        return np.asarray(
            kalman.filtered(*self.transitions, self.readout(block), self.gains[block][0], e)
        )[:, 0]

    def smoothed(self) -> Iterator[tuple[int, np.ndarray]]:
        """Posterior covariances of unit-variance parts: a block's first series, and (m, T, p, p).

        Filtered covariances are kept at the beginnings of sqrt(T) segments, and computed again for
        one segment at a time, which takes O(sqrt(T) d^2) of memory in place of O(T d^2).
        """
        p, d, n_times = len(self.model.parts), self.space.low.size, self.noise.size
        length = int(np.ceil(np.sqrt(n_times)))
        phi, which, low, high = self.transitions

        def of(block: int) -> tuple[int, np.ndarray]:
            h = self.readout(block)
            gain, variance = np.empty((n_times, d, WIDTH)), np.empty((n_times, WIDTH))
            starts = {0: self.first}
            for start in range(0, n_times - length, length):
                predicted = self._predicted(
                    slice(start, start + length + 1), starts[start], h, gain, variance, 2
                )
                starts[start + length] = predicted[length % 2].copy()

            later, result = np.zeros((d, d, WIDTH)), np.empty((n_times, p, p, WIDTH))
            for start, first in reversed(starts.items()):
                part = slice(start, start + length)
                predicted = self._predicted(part, first, h, gain, variance, length)
                kalman.smoothed(
                    phi,
                    which[part],
                    low,
                    high,
                    h,
                    gain[part],
                    variance[part],
                    predicted,
                    self.space.readouts,
                    later,
                    result[part],
                )
            return block * WIDTH, np.moveaxis(result, 3, 0)[: self.eigenvalues.size - block * WIDTH]

        return ordered_map(of, range(self.n_blocks), self.n_threads)


@dataclass(frozen=True)
class GridCovariance:
    """The covariance of all values of n sensors at T times; a mask has what was observed."""

    model: Separable
    sensors: Sensors
    times: np.ndarray
    n_threads: int = 1

    @cached_property
    def steps(self) -> TimeSteps:
        return TimeSteps.of(self.times)

    def series(self, noise: np.ndarray) -> Series:
        """The independent series, with noise variances for each time."""
        sensors = self.sensors
        return Series(
            self.model, sensors.eigenvalues, sensors.own, self.steps, noise, self.n_threads
        )

    def at(self, times: np.ndarray) -> GridCovariance:
        """The same at other times."""
        return dataclasses.replace(self, times=times)

    def along_time(self, x: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
        """sum_p w_p k_p(t, t') x(t', columns) for x (T, R, n), w, a and b by rows."""
        space = StateSpace.of(self.model.kernels)
        phi = transitions(self.model.kernels, self.steps.lengths)
        flat = np.ascontiguousarray(x).reshape(x.shape[0], -1)
        weights = np.array([self.model.shared, self.model.own]) if weights is None else weights
        out = np.empty((len(weights), *flat.shape))

        def of(first: int) -> None:
            last = min(first + 64, flat.shape[1])
            kalman.products(
                phi,
                self.steps.which,
                space.low,
                space.high,
                space.stationary,
                space.readouts,
                weights,
                flat,
                first,
                last,
                out,
            )

        for _ in ordered_map(of, range(0, flat.shape[1], 64), self.n_threads):
            pass
        return out.reshape(-1, *x.shape)
