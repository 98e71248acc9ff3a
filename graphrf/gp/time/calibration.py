"""Warnings of a fit: observations compared with the fitted model's predictions and intervals.

Under the model the values of one sensor in a run of times are Gaussian with a known covariance.
Multiplied by the inverse of its Cholesky factor they are standardised errors, each of one value
given those before it in the run, independent N(0, 1). Their sizes are compared with that;
neighbours have no part in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from graphrf._base.blas import blas_threads
from graphrf._base.warn import warn
from graphrf.gp.time.covariance import Sensors, Separable
from graphrf.gp.time.data import Grid
from graphrf.gp.time.posterior import TimePosterior
from graphrf.graph.graph import Graph

_RUN = 64  # consecutive times in a run
_FEW = 20  # values of a sensor, below which there is no warning of it
_MANY = 500  # values in all, likewise


class Errors(NamedTuple):
    """Standardised errors (rows, sensors) of some times and sensors, NaN where unobserved."""

    values: np.ndarray
    rows: np.ndarray
    sensors: np.ndarray


def standardised_errors(
    model: Separable, sensors: Sensors, times: np.ndarray, y: np.ndarray
) -> Errors:
    """Errors of values given those of the same sensor before, in evenly spaced runs of times.

    `y` (T, n) is without its mean, and NaN in gaps.
    """
    n_times, n = y.shape
    shown = np.unique(np.linspace(0, n - 1, min(n, 1_000)).astype(int))
    near, own = np.diag(sensors.matrix), np.diag(sensors.own_matrix)
    starts = np.unique(np.linspace(0, max(n_times - _RUN, 0), 6).astype(int))
    rows = np.unique(np.minimum(starts[:, None] + np.arange(_RUN), n_times - 1))
    values = np.full((rows.size, shown.size), np.nan)

    for first in range(0, rows.size, _RUN):
        run = rows[first : first + _RUN]
        lags = times[run][:, None] - times[run]
        along = [part.kernel.covariance(lags) for part in model.parts]
        for low in range(0, shown.size, 64):
            chosen = shown[low : low + 64]
            scales = model.shared[:, None] * near[chosen] + model.own[:, None] * own[chosen]
            covariance = np.einsum("ps,pij->sij", scales, along)
            covariance[:, np.arange(run.size), np.arange(run.size)] += model.noise
            seen = ~np.isnan(y[np.ix_(run, chosen)]).T
            # Rows without a value become those of an identity matrix, and do not change the others.
            covariance *= seen[:, :, None] & seen[:, None, :]
            sensor, gap = np.nonzero(~seen)
            covariance[sensor, gap, gap] = 1.0
            right = np.where(seen, y[np.ix_(run, chosen)].T, 0.0)
            z = np.linalg.solve(np.linalg.cholesky(covariance), right[:, :, None])[:, :, 0]
            values[first : first + run.size, low : low + chosen.size] = np.where(seen, z, np.nan).T
    return Errors(values, rows, shown)


def diagnostics(
    errors: Errors, y: np.ndarray, rows: np.ndarray
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Warnings, with a placeholder for nodes, and the sensors that each concerns.

    `y` (T, n) are the values themselves, from `rows` (T,) of the data.
    """
    z = errors.values
    seen = ~np.isnan(z)
    counts = seen.sum(axis=0)
    squares = np.where(seen, z, 0.0) ** 2
    means = squares.sum(axis=0) / np.maximum(counts, 1)

    # For 20 values the mean square of a correct model
    # stays below 9 with a probability of 1 - 1e-17.
    far = np.flatnonzero((counts >= _FEW) & (means > 9.0))
    far = far[np.argsort(-means[far], kind="stable")]
    if far.size:
        words = (
            f"one-step errors at {{nodes}} are up to {float(np.sqrt(means[far[0]])):.1f} times as "
            "large as the model predicts, and intervals there too narrow: check these values, and "
            "leave them out if they are wrong (NaN); else do not trust intervals there"
        )
        yield words, tuple(errors.sensors[far].tolist())

    total = int(seen.sum())
    coverage = float((squares[seen] < 1.96**2).mean())
    # 0.90 is five standard deviations of a proportion of 500 below 0.95.
    if not far.size and total >= _MANY and coverage < 0.90:
        words = (
            f"95 % intervals contain only {100 * coverage:.0f} % of the one-step errors: the model "
            "fits these values badly; try another `time_kernel`, or transform the values (a "
            "logarithm, a difference from what is usual)"
        )
        yield words, ()

    # Fourth over squared second moments: 3 for Gaussian errors, below 20 on the traffic data sets.
    if (
        total >= _MANY
        and float((squares[seen] ** 2).mean() / max(squares[seen].mean() ** 2, 1e-300)) > 100
    ):
        row, column = np.unravel_index(int(np.argmax(squares)), squares.shape)
        sensor = int(errors.sensors[column])
        value = float(y[errors.rows[row], sensor])
        words = (
            "a few values dominate the variances, so that intervals are too wide for the others; "
            f"the most extreme is {value:.6g} in row {int(rows[errors.rows[row]])} at {{nodes}}: "
            "put NaN where such values are errors"
        )
        yield words, (sensor,)

    n_values = (~np.isnan(y)).sum(axis=0)
    stuck = np.flatnonzero((n_values >= _FEW) & (np.nanmin(y, axis=0) == np.nanmax(y, axis=0)))
    if 0 < stuck.size < y.shape[1]:
        words = "all values at {nodes} are the same: where these are stuck sensors, leave them out"
        yield words, tuple(stuck.tolist())


def warn_of_misfit(
    posterior: TimePosterior, mean: float, grid: Grid, hours: np.ndarray, graph: Graph
) -> None:
    """Warn of all `diagnostics`, with the names of nodes; `hours` are all times of the data."""
    covariance = posterior.covariance
    with blas_threads(1):
        errors = standardised_errors(
            covariance.model, covariance.sensors, grid.times, grid.values - mean
        )
    for words, sensors in diagnostics(errors, grid.values, np.searchsorted(hours, grid.times)):
        named = ", ".join(repr(graph.nodes[grid.nodes[i]]) for i in sensors[:5])
        more = f" and {len(sensors) - 5} more" if len(sensors) > 5 else ""
        warn(words.format(nodes=f"node{'s' if len(sensors) > 1 else ''} {named}{more}"))


def warn_of_few_values(model: Separable, n_values: int, n_cells: int) -> None:
    """Warn if a model was trained on fewer than five values for each hyperparameter."""
    n_trained = 1 + sum(2 + len(part.kernel.trained) for part in model.parts)
    if n_values < 5 * n_trained:
        warn(
            f"{n_trained} hyperparameters are trained on {n_values} values, of {n_cells} on the "
            "grid: these depend on the starting values, and so do intervals; pass a `time_kernel` "
            "of fewer parts, or what is known with optimize=False"
        )
