"""Quasi-Newton ascent on the likelihood of complete grids."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
from scipy.optimize import minimize

from graphrf.gp.model.progress import Step
from graphrf.gp.time.covariance import Sensors, Separable, turned
from graphrf.gp.time.kernels import MaternTime, Steps, TimeKernel
from graphrf.gp.time.training.likelihood import log_likelihood, log_parameters, with_parameters

_RUN = 12  # consecutive times in a training run
ROUNDS = 15  # of expectation maximisation at most
FEW_STEPS = 12  # of a search that need not end by itself
_SHORT = 0.1  # one standard deviation of the logarithm of a lengthscale below half a step
_NEAR = 0.1  # standard deviations of a coordinate from the mode, where a search ends


class Complete(NamedTuple):
    """A grid without gaps, in the basis of C's eigenvectors."""

    eigenvalues: np.ndarray
    own: np.ndarray  # eigenvalues of B
    steps: Steps
    y: np.ndarray  # (T, n, draws)

    @classmethod
    def of(cls, sensors: Sensors, times: np.ndarray, draws: np.ndarray) -> Self:
        """The grid of draws (T, draws, n) of all values."""
        y = np.moveaxis(turned(draws, sensors.vectors), 1, 2)
        return cls(sensors.eigenvalues, sensors.own, Steps.of(times), y)

    @property
    def step(self) -> float:
        """The median step, in hours."""
        return float(np.median(self.steps.lengths[self.steps.which[1:]])) if len(self.y) > 1 else 1.0


def training_rows(n_times: int, n: int, max_train: int) -> np.ndarray:
    """Runs of consecutive times, evenly spread, that hold about so many values of n sensors in all."""
    wanted = max(2 * _RUN, max_train // n)
    if n_times <= wanted:
        return np.arange(n_times)
    starts = np.linspace(0, n_times - _RUN, max(2, wanted // _RUN)).astype(int)
    return np.unique((starts[:, None] + np.arange(_RUN)).ravel())


def evidence(model: Separable, grids: Sequence[Complete], n_threads: int, step: Step | None = None) -> float:
    """The sum of the log likelihoods of grids; `step` is called once."""
    if step is not None:
        step()
    return sum(log_likelihood(model, *grid, with_slopes=False, n_threads=n_threads).value for grid in grids)


def information(model: Separable, grid: Complete) -> np.ndarray:
    r"""The Fisher information of the logarithms of `log_parameters` in a grid, as if its steps were equal.

    Fourier coefficients of a series are then nearly independent, with variances S that are linear in those of the
    parts: the information is half the sum of d log S / d i d log S / d j. Source: Whittle 1953, "Estimation and
    information in stationary time series".
    """
    n_times = len(grid.y)
    lags = np.arange(n_times)

    def spectrum(kernel: TimeKernel) -> np.ndarray:
        along = kernel.covariance(grid.step * lags)
        around = (1.0 - lags / n_times) * along + lags / n_times * np.roll(along[::-1], 1)
        return np.maximum(np.fft.fft(around).real, 0.0)

    parts = model.parts
    scales = np.array([part.shared * grid.eigenvalues + part.own * grid.own for part in parts])
    spectra = np.array([spectrum(part.kernel) for part in parts])
    inverse = 1.0 / (scales.T @ spectra + model.noise)  # (n, T)
    slopes = []
    for part, along in zip(parts, spectra, strict=True):
        slopes += [np.outer(each, along) for each in (part.shared * grid.eigenvalues, part.own * grid.own)]
    slopes.append(np.full(inverse.shape, model.noise))
    for part, scale in zip(parts, scales, strict=True):
        for name in part.kernel.trained:
            value = getattr(part.kernel, name)
            up, down = (spectrum(part.kernel.replace(**{name: value * np.exp(h)})) for h in (0.01, -0.01))
            slopes.append(np.outer(scale, (up - down) / 0.02))
    flat = np.reshape(slopes, (len(slopes), -1)) * inverse.ravel()
    return np.asarray(0.5 * flat @ flat.T)


def maximised(
    model: Separable, grids: Sequence[Complete], prior: np.ndarray, most: int, n_threads: int,
    step: Step | None = None, variances: bool = False,
) -> tuple[Separable, float, bool]:  # fmt: skip
    """The model after `most` steps on the likelihood of all grids with weak priors; whether the search ended.

    In the coordinates of the search the information is about the identity, and it ends where each is less than a
    tenth of a standard deviation from the mode. With `variances` the kernels of time are left as they are. `step`
    is called once for each evaluation of the likelihood.
    """
    width = math.log(10.0)  # one standard deviation of the weak priors
    low, high = prior + math.log(1e-6), prior + math.log(1e4)
    start = np.clip(log_parameters(model), low, high)
    model = with_parameters(model, start)
    known = np.sum([information(model, grid) for grid in grids], axis=0) + np.eye(start.size) / width**2
    least = _least(model, prior, grids[0].step)
    moved = slice(0, 2 * len(model.parts) + 1) if variances else slice(None)
    axes = np.eye(start.size)[:, moved] @ np.linalg.inv(np.linalg.cholesky(known[moved, moved])).T

    def objective(logarithms: np.ndarray) -> tuple[float, np.ndarray]:
        inside = np.clip(logarithms, low, high)
        found = [log_likelihood(with_parameters(model, inside), *grid, n_threads=n_threads) for grid in grids]
        slopes = np.sum([each.slopes for each in found], axis=0)
        off, out = (inside - prior) / width, logarithms - inside  # a slope leads back from beyond the bounds
        short = np.minimum(inside - least, 0.0) / _SHORT
        if step is not None:
            step()
        value = 0.5 * float(off @ off + short @ short + out @ out) - sum(each.value for each in found)
        return value, axes.T @ np.where(out == 0.0, off / width + short / _SHORT - slopes, out)

    first, slopes = objective(start)
    scale = max(1.0, float(np.linalg.norm(slopes)))  # so that the first step is Newton's

    def scaled(place: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = objective(start + scale * (axes @ place)) if place.any() else (first, slopes)
        return (value - first) / scale**2, slope / scale

    found = minimize(
        scaled, np.zeros(axes.shape[1]), jac=True, method="L-BFGS-B",
        options={"maxiter": most, "maxcor": 30, "ftol": 0.0, "gtol": _NEAR / scale},
    )  # fmt: skip
    end = np.clip(start + scale * (axes @ found.x), low, high)
    off, short = (end - prior) / width, np.minimum(end - least, 0.0) / _SHORT
    value = 0.5 * float(off @ off + short @ short) - (first + scale**2 * float(found.fun))
    return with_parameters(model, end), value, bool(found.success)


def _least(model: Separable, prior: np.ndarray, step: float) -> np.ndarray:
    """Logarithms of half a step for lengthscales, or of what is likely beforehand if that is less; else -infinity.

    A process that is forgotten from one time to the next looks like noise, and would take the noise's variance.
    """
    result = np.full(prior.size, -np.inf)
    place = 2 * len(model.parts) + 1
    for kernel in model.kernels:
        if isinstance(kernel, MaternTime):
            result[place] = min(math.log(0.5 * step), prior[place])
        place += len(kernel.trained)
    return result
