"""Covariance functions of time that are linear stochastic differential equations of few states."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.linalg import block_diag
from scipy.special import ive

from graphrf._base import checks


class TimeKernel:
    """A stationary covariance function k of time with k(0) = 1, as a state-space model.

    A vector x of d states has covariance `stationary()` at every time, and E[x(t + h) | x(t)] =
    `transition(h)` x(t); the process is the sum of the states that `readout()` marks: k(h) = e^T
    transition(h) stationary e.
    """

    trained: ClassVar[tuple[str, ...]] = ()
    """The hyperparameters that a fit may move, all positive."""

    def blocks(self) -> list[int]:
        """The number of states in each independent block."""
        raise NotImplementedError

    def readout(self) -> np.ndarray:
        """e, shape (d,)."""
        raise NotImplementedError

    def stationary(self) -> np.ndarray:
        """The covariance of the states, shape (d, d), by blocks."""
        raise NotImplementedError

    def transition(self, hours: np.ndarray) -> np.ndarray:
        """The matrix of the conditional mean for each step, (u,); shape (u, d, d), by blocks."""
        raise NotImplementedError

    def replace(self, **changes: Any) -> TimeKernel:
        """The same kernel with other hyperparameters."""
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]

    def covariance(self, lags: Any) -> np.ndarray:
        """k at these lags in hours, of any shape."""
        lags = np.abs(np.asarray(lags, dtype=np.float64))
        distinct, which = np.unique(lags.ravel(), return_inverse=True)
        right = self.stationary() @ self.readout()
        return np.asarray(self.transition(distinct) @ right @ self.readout())[which].reshape(
            lags.shape
        )


def _positive(kernel: TimeKernel, *names: str) -> None:
    for name in names:
        value = checks.number(name, getattr(kernel, name), low=0, high=1e9, include_low=False)
        object.__setattr__(kernel, name, value)


@dataclass(frozen=True)
class MaternTime(TimeKernel):
    r"""A Matern covariance function of time.

    .. math:: k(h) = e^{-h/\ell}, \quad (1 + z) e^{-z},\ z = \sqrt3 h/\ell, \quad
              (1 + z + z^2/3) e^{-z},\ z = \sqrt5 h/\ell

    for smoothness 1/2, 3/2 and 5/2.

    Parameters
    ----------
    lengthscale : float
        Hours.
    nu : {0.5, 1.5, 2.5}

    Examples
    --------
    >>> from graphrf.gp.time import MaternTime
    >>> MaternTime(2.0).covariance([0.0, 2.0]).round(4)
    array([1.    , 0.3679])

    Source: Hartikainen and Särkkä 2010, "Kalman filtering and smoothing solutions to temporal
    Gaussian process regression models".
    """

    lengthscale: float = 1.0
    nu: float = 0.5
    trained: ClassVar[tuple[str, ...]] = ("lengthscale",)

    def __post_init__(self) -> None:
        _positive(self, "lengthscale")
        if self.nu not in (0.5, 1.5, 2.5):
            raise checks.value_error(
                "nu", f"must be 0.5, 1.5 or 2.5, got {checks.describe(self.nu)}"
            )

    def blocks(self) -> list[int]:
        return [int(self.nu + 0.5)]

    def readout(self) -> np.ndarray:
        return np.eye(self.blocks()[0])[0]

    def stationary(self) -> np.ndarray:
        """Covariance of the process and its derivatives, in units of powers of its rate."""
        if self.nu < 2:
            return np.eye(self.blocks()[0])
        return np.array([[1, 0, -1 / 3], [0, 1 / 3, 0], [-1 / 3, 0, 1]])

    def transition(self, hours: np.ndarray) -> np.ndarray:
        d = self.blocks()[0]
        rate = math.sqrt(2 * self.nu) / self.lengthscale
        x = (rate * np.asarray(hours, dtype=np.float64))[:, None, None]
        # The drift plus the identity is nilpotent: the exponential is a polynomial times exp(-x).
        drift = np.eye(d, k=1)
        drift[-1] = [-math.comb(d, j) for j in range(d)]
        nilpotent = drift + np.eye(d)
        result = np.eye(d) + x * nilpotent
        if d == 3:
            result = result + 0.5 * x * x * (nilpotent @ nilpotent)
        return np.asarray(np.exp(-x) * result)


@dataclass(frozen=True)
class PeriodicTime(TimeKernel):
    r"""A profile that repeats with a period, and changes slowly.

    .. math:: k(h) = e^{-h/\delta} \sum_{j=1}^J q_j \cos(2\pi j h/p), \quad q_j \propto
        I_j(\ell^{-2}),

    the first J harmonics, without the constant, of exp(-2 sin^2(pi h / p) / ell^2), scaled so that
    k(0) = 1.

    Parameters
    ----------
    period : float
        p in hours: 24 for a day, 168 for a week.
    decay : float
        delta in hours.
    lengthscale : float
        ell, without unit: small values make rough profiles.
    harmonics : int
        J, from 1 to 50.

    Examples
    --------
    >>> from graphrf.gp.time import PeriodicTime
    >>> PeriodicTime(24.0, decay=240.0).covariance([24.0, 48.0]).round(4)
    array([0.9048, 0.8187])

    Source: Solin and Särkkä 2014, "Explicit link between periodic covariance functions and state
    space models".
    """

    period: float = 24.0
    decay: float = 500.0
    lengthscale: float = 1.0
    harmonics: int = 5
    trained: ClassVar[tuple[str, ...]] = ("decay", "lengthscale")

    def __post_init__(self) -> None:
        _positive(self, "period", "decay", "lengthscale")
        object.__setattr__(
            self, "harmonics", checks.integer("harmonics", self.harmonics, low=1, high=50)
        )

    def _weights(self) -> np.ndarray:
        weights = ive(np.arange(1, self.harmonics + 1), self.lengthscale**-2)
        total = float(weights.sum())
        return np.asarray(weights / total) if total > 0 else np.eye(self.harmonics)[0]

    def blocks(self) -> list[int]:
        return [2] * self.harmonics

    def readout(self) -> np.ndarray:
        return np.tile([1.0, 0.0], self.harmonics)

    def stationary(self) -> np.ndarray:
        return np.diag(np.repeat(self._weights(), 2))

    def transition(self, hours: np.ndarray) -> np.ndarray:
        hours = np.asarray(hours, dtype=np.float64)
        result = np.zeros((hours.size, 2 * self.harmonics, 2 * self.harmonics))
        shrink = np.exp(-hours / self.decay)
        for j in range(self.harmonics):
            angle = 2 * math.pi * (j + 1) * hours / self.period
            cosine, sine = shrink * np.cos(angle), shrink * np.sin(angle)
            result[:, 2 * j, 2 * j] = result[:, 2 * j + 1, 2 * j + 1] = cosine
            result[:, 2 * j, 2 * j + 1], result[:, 2 * j + 1, 2 * j] = -sine, sine
        return result


@dataclass(frozen=True)
class ConstantTime(TimeKernel):
    """A level that does not change with time, k = 1.

    Examples
    --------
    >>> from graphrf.gp.time import ConstantTime
    >>> ConstantTime().covariance([0.0, 1000.0])
    array([1., 1.])
    """

    def blocks(self) -> list[int]:
        return [1]

    def readout(self) -> np.ndarray:
        return np.ones(1)

    def stationary(self) -> np.ndarray:
        return np.ones((1, 1))

    def transition(self, hours: np.ndarray) -> np.ndarray:
        return np.ones((np.size(hours), 1, 1))


class TimeSteps(NamedTuple):
    """Times as the steps between them: distinct ones, and which each is (the first is unused)."""

    lengths: np.ndarray
    which: np.ndarray

    @classmethod
    def of(cls, times: np.ndarray) -> TimeSteps:
        """Steps between increasing times in hours; lengths that differ by rounding only are one."""
        steps = np.diff(times)
        # Rounding of the times themselves, so that equal steps of a long axis stay one.
        unit = 1e-12 * max(1.0, float(np.abs(times).max()))
        _, which, counts = np.unique(
            np.round(steps / unit), return_inverse=True, return_counts=True
        )
        lengths = np.bincount(which, steps, minlength=counts.size) / counts
        return cls(lengths, np.concatenate([[0], which]).astype(np.int64))


class StateSpace(NamedTuple):
    """The states of several time kernels side by side, as the compiled loops want them."""

    stationary: np.ndarray  # (d, d)
    readouts: np.ndarray  # (p, d): a row for each kernel
    low: np.ndarray  # of the block that each state is in, and
    high: np.ndarray

    @classmethod
    def of(cls, kernels: tuple[TimeKernel, ...]) -> StateSpace:
        sizes = [size for kernel in kernels for size in kernel.blocks()]
        ends = np.cumsum(sizes)
        return cls(
            block_diag(*[kernel.stationary() for kernel in kernels]),
            block_diag(*[kernel.readout()[None] for kernel in kernels]),
            np.repeat(ends - sizes, sizes).astype(np.int64),
            np.repeat(ends, sizes).astype(np.int64),
        )


def transitions(kernels: tuple[TimeKernel, ...], lengths: np.ndarray) -> np.ndarray:
    """The transition matrices of all kernels side by side, shape (u, d, d)."""
    parts = [kernel.transition(lengths) for kernel in kernels]
    d = sum(part.shape[1] for part in parts)
    result = np.zeros((max(lengths.size, 1), d, d))
    start = 0
    for part in parts:
        end = start + part.shape[1]
        result[: lengths.size, start:end, start:end] = part
        start = end
    return result
