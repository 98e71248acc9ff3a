"""The exact likelihood of complete grids, and its derivatives in time hyperparameters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from graphrf._base.threads import ordered_map
from graphrf.gp.time.covariance import Part, Separable, Series
from graphrf.gp.time.kernels import TimeSteps, transitions
from graphrf.gp.time.lanes import WIDTH
from graphrf.gp.time.training import slopes
from graphrf.gp.time.training.filters import Filters, interpolation, lanes

# Of logarithms of hyperparameters, where a kernel's own small matrices are differenced.
_DIFFERENCE = 1e-5


class TimeLikelihood(NamedTuple):
    """A log density, and its derivatives in the logarithms of `log_parameters`."""

    value: float
    slopes: np.ndarray


def log_parameters(model: Separable) -> np.ndarray:
    """Logarithms of all that is trained: shared and own variances, noise, kernels' own."""
    variances = [value for part in model.parts for value in (part.shared, part.own)]
    inner = [getattr(kernel, name) for kernel in model.kernels for name in kernel.trained]
    return np.log(np.array([*variances, model.noise, *inner]))


def with_parameters(model: Separable, logarithms: np.ndarray) -> Separable:
    """The model with other values, in the order of `log_parameters`."""
    values = iter(np.exp(logarithms).tolist())
    variances = [(next(values), next(values)) for _ in model.parts]
    noise = next(values)
    kernels = [
        kernel.replace(**{name: next(values) for name in kernel.trained})
        for kernel in model.kernels
    ]
    return Separable(tuple(Part(k, *v) for k, v in zip(kernels, variances, strict=True)), noise)


def log_likelihood(
    model: Separable,
    eigenvalues: np.ndarray,
    own_eigenvalues: np.ndarray,
    steps: TimeSteps,
    y: np.ndarray,
    *,
    with_slopes: bool = True,
    n_threads: int = 1,
) -> TimeLikelihood:
    """log N(y; 0, Sigma) of a complete grid y (T, n) in C's eigenvectors, or the mean of draws.

    `eigenvalues` and `own` are those of C and of B. Time O(T n d^2) for d states, with slopes about
    four times as much.
    """
    n_times, n, n_draws = y.reshape(*y.shape[:2], -1).shape
    flat, size = y.reshape(n_times, -1), n * n_draws
    noise = np.full(n_times, model.noise)
    series = Series(
        model, np.repeat(eigenvalues, n_draws), np.repeat(own_eigenvalues, n_draws), steps, noise
    )
    nodes, weights = interpolation(eigenvalues)
    at_nodes = Series(model, eigenvalues[nodes], own_eigenvalues[nodes], steps, noise)

    # Further series are copies of the last, and not read.
    weights = np.pad(np.repeat(weights, n_draws, axis=0), ((0, -size % WIDTH), (0, 0)), mode="edge")
    filters = Filters(at_nodes, weights, with_slopes, n_threads)
    d_gain = np.zeros_like(filters.gain) if with_slopes else filters.gain
    d_log = np.zeros_like(filters.variance) if with_slopes else filters.variance

    def of(block: int) -> tuple[float, np.ndarray, np.ndarray]:
        columns = lanes(block)
        count = min(WIDTH, size - columns.start)
        part = np.zeros((n_times, WIDTH))
        part[:, :count] = flat[:, columns]
        d_phi, d_h = np.zeros_like(series.phi), np.zeros((series.space.low.size, WIDTH))
        value = slopes.likelihood(
            *series.transitions,
            series.readout(block),
            filters.gain[..., columns],
            filters.variance[:, columns],
            part,
            count,
            with_slopes,
            d_phi,
            d_h,
            d_gain[..., columns],
            d_log[:, columns],
        )
        return float(value[:count].sum()), d_phi, d_h

    results = list(ordered_map(of, range(series.n_blocks), n_threads))
    value = -sum(result[0] for result in results) / n_draws - 0.5 * n_times * n * np.log(2 * np.pi)
    if not with_slopes:
        return TimeLikelihood(float(value), np.zeros(0))

    d_gain[..., size:] = d_log[:, size:] = 0.0
    by_filters = filters.back(d_gain, d_log)
    d_phi = np.sum([by_filters.phi, *(result[1] for result in results)], axis=0)
    by_readout = np.hstack([result[2] for result in results])[:, :size]
    variances = _by_variances(series, by_readout) + _by_variances(at_nodes, by_filters.readouts)
    slope = [
        *(variances * np.array([model.shared, model.own])).T.ravel(),
        model.noise * by_filters.noise,
    ]
    slope += _inner(model, steps, d_phi, by_filters.stationary)
    return TimeLikelihood(float(value), -np.array(slope) / n_draws)


def _by_variances(series: Series, by_readout: np.ndarray) -> np.ndarray:
    """Derivatives in shared and own variances, (2, p), from those in readouts, (d, n).

    They use h = readouts^T scale and scale_pm = sqrt(a_p lambda_m + b_p beta_m).
    """
    size = series.eigenvalues.size
    half = 0.5 * (series.space.readouts @ by_readout) / np.maximum(series.scales[:, :size], 1e-150)
    return np.array([half @ series.eigenvalues, half @ series.own])


def _inner(
    model: Separable, steps: TimeSteps, d_phi: np.ndarray, d_stationary: np.ndarray
) -> list[float]:
    """Derivatives in logarithms of what the kernels themselves are trained in."""
    gradient, end = [], 0
    for kernel in model.kernels:
        span = slice(end, end := end + sum(kernel.blocks()))
        for name in kernel.trained:
            up, down = (
                kernel.replace(**{name: getattr(kernel, name) * np.exp(h)})
                for h in (_DIFFERENCE, -_DIFFERENCE)
            )
            change = transitions((up,), steps.lengths) - transitions((down,), steps.lengths)
            slope = float(np.vdot(d_phi[:, span, span], change))
            slope += float(np.vdot(d_stationary[span, span], up.stationary() - down.stationary()))
            gradient.append(slope / (2 * _DIFFERENCE))
    return gradient
