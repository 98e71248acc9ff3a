"""The exact likelihood of complete grids, and its derivatives in all hyperparameters of the time axis."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from graphrf._base.threads import ordered_map
from graphrf.gp.time.covariance import Part, Separable, Series
from graphrf.gp.time.kernels import Steps, transitions
from graphrf.gp.time.lanes import WIDTH
from graphrf.gp.time.training import slopes

# Of logarithms of hyperparameters, where a kernel's own small matrices are differenced.
_DIFFERENCE = 1e-5


class Evidence(NamedTuple):
    """A log density, and its derivatives in the logarithms of `log_parameters`."""

    value: float
    slopes: np.ndarray


def log_parameters(model: Separable) -> np.ndarray:
    """Logarithms of all that is trained: variances shared and own, the noise, and the kernels' own."""
    variances = [value for part in model.parts for value in (part.shared, part.own)]
    inner = [getattr(kernel, name) for kernel in model.kernels for name in kernel.trained]
    return np.log(np.array([*variances, model.noise, *inner]))


def with_parameters(model: Separable, logarithms: np.ndarray) -> Separable:
    """The model with other values, in the order of `log_parameters`."""
    values = iter(np.exp(logarithms).tolist())
    variances = [(next(values), next(values)) for _ in model.parts]
    noise = next(values)
    kernels = [kernel.replace(**{name: next(values) for name in kernel.trained}) for kernel in model.kernels]
    return Separable(tuple(Part(k, *v) for k, v in zip(kernels, variances, strict=True)), noise)


def log_likelihood(
    model: Separable,
    eigenvalues: np.ndarray,
    own: np.ndarray,
    steps: Steps,
    y: np.ndarray,
    *,
    with_slopes: bool = True,
    n_threads: int = 1,
) -> Evidence:
    r"""log N(y; 0, Sigma) of a complete grid y (T, n) in the basis of C's eigenvectors.

    `eigenvalues` and `own` are those of C and of B; column i of y belongs to the i-th. Of several draws, y (T, n,
    draws), the mean of the log densities is taken.

    Time O(T n d^2) for d states, with slopes about four times as much. The slopes are exact but for those of
    lengthscales, whose inner derivative, of small transition matrices, is a central difference.
    """
    n_times, n = y.shape[:2]
    y = y.reshape(n_times, n, -1)
    n_draws = y.shape[2]
    repeated = np.repeat(eigenvalues, n_draws), np.repeat(own, n_draws)
    series = Series(model, repeated[0], repeated[1], steps, np.full(n_times, model.noise))
    space, phi = series.space, series.phi
    flat = y.reshape(n_times, -1)
    d = space.low.size

    def of(block: int) -> tuple[float, np.ndarray, np.ndarray, np.ndarray, float]:
        first = block * WIDTH
        part = np.zeros((n_times, WIDTH))
        size = min(WIDTH, flat.shape[1] - first)
        part[:, :size] = flat[:, first : first + size]
        h = series.readout(block)
        d_phi, d_stationary = np.zeros_like(phi), np.zeros((d, d))
        d_h, d_noise = np.zeros((d, WIDTH)), np.zeros(WIDTH)
        value = slopes.likelihood(
            phi, steps.which, space.low, space.high, space.stationary, h, series.noise, part, size, with_slopes,
            d_phi, d_stationary, d_h, d_noise,
        )  # fmt: skip
        # Of scale_pm = sqrt(a_p lambda_m + b_p beta_m), where h = readouts^T scale.
        by_scale = space.readouts @ d_h[:, :size]
        return float(value[:size].sum()), d_phi, d_stationary, by_scale, float(d_noise[:size].sum())

    results = list(ordered_map(of, range(series.n_blocks), n_threads))
    total = sum(result[0] for result in results) / n_draws
    value = -total - 0.5 * n_times * n * np.log(2 * np.pi)
    if not with_slopes:
        return Evidence(float(value), np.zeros(0))
    d_phi = np.sum([result[1] for result in results], axis=0) / n_draws
    d_stationary = np.sum([result[2] for result in results], axis=0) / n_draws
    by_scale = np.concatenate([result[3] for result in results], axis=1) / n_draws
    half = 0.5 * by_scale / np.maximum(series.scales[:, : by_scale.shape[1]], 1e-150)
    gradient = []
    for a, part in enumerate(model.parts):
        gradient += [part.shared * float(half[a] @ repeated[0]), part.own * float(half[a] @ repeated[1])]
    gradient.append(model.noise * sum(result[4] for result in results) / n_draws)
    end = 0
    for kernel in model.kernels:
        span = slice(end, end := end + sum(kernel.blocks()))
        for name in kernel.trained:
            up, down = (
                kernel.replace(**{name: getattr(kernel, name) * np.exp(h)}) for h in (_DIFFERENCE, -_DIFFERENCE)
            )
            change = transitions((up,), steps.lengths) - transitions((down,), steps.lengths)
            slope = float(np.vdot(d_phi[:, span, span], change))
            slope += float(np.vdot(d_stationary[span, span], up.stationary() - down.stationary()))
            gradient.append(slope / (2 * _DIFFERENCE))
    return Evidence(float(value), -np.array(gradient))
