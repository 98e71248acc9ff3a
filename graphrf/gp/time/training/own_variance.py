"""Variances of individual sensors, enlarged until left-out days have the largest density.

Short steps dominate the likelihood; where it is wrong about whole days of single sensors, intervals
are too narrow.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, cholesky

from graphrf.gp.time.covariance import Sensors, Separable
from graphrf.gp.time.kernels import ConstantTime
from graphrf.gp.time.training.learned import halves

_FACTORS = 2.0 ** np.arange(8)


class SensorDays(NamedTuple):
    """Observed values: times, positions of sensors, values, and the groups left out."""

    times: np.ndarray
    sensor: np.ndarray
    y: np.ndarray
    group: np.ndarray


def inflate_own_variance(
    model: Separable,
    sensors: list[Sensors],
    times: np.ndarray,
    y: np.ndarray,
    mask: np.ndarray,
    cells: int,
) -> Separable:
    """The model whose lasting parts have the own variances that predict sensor-days best.

    `sensors` have the covariance of all times, or one for each of their halves; `y` (T, n) are
    values without their mean, observed where `mask` is true; a block has about `cells` of them.
    """
    step = float(np.median(np.diff(times))) if times.size > 1 else 1.0
    # parts that are neither levels nor gone after six steps
    moved = [
        not isinstance(k, ConstantTime) and float(k.covariance(6 * step)) > 0.3
        for k in model.kernels
    ]
    spans = [slice(None)] if len(sensors) == 1 else halves(times.size)
    scores = np.zeros(_FACTORS.size)
    for i, centre in enumerate(np.unique(np.linspace(0, mask.shape[1] - 1, 4).astype(int))):
        span, covariance = spans[i % len(spans)], sensors[i % len(spans)]
        near = covariance.matrix
        block = _block(int(centre), near, times[span], y[span], mask[span], cells)
        if block is not None:
            scores += _left_out(model, moved, covariance, block)
    best = float(_FACTORS[int(np.argmax(scores))])
    parts = [
        part._replace(own=part.own * (best if move else 1.0))
        for part, move in zip(model.parts, moved, strict=True)
    ]
    return Separable(tuple(parts), model.noise)


def _left_out(
    model: Separable, moved: list[bool], sensors: Sensors, block: SensorDays
) -> np.ndarray:
    """The sum of log densities of values, each given its block but for its group, by factor.

    With M the inverse covariance, a group g has the predicted covariance M_gg^-1 and the error
    M_gg^-1 (M y)_g.
    """
    pairs = np.ix_(block.sensor, block.sensor)
    lags, close, same = (
        block.times[:, None] - block.times,
        sensors.matrix[pairs],
        sensors.own_matrix[pairs],
    )

    unchanged, changed = model.noise * np.eye(block.y.size), np.zeros_like(lags)
    for part, move in zip(model.parts, moved, strict=True):
        along = part.kernel.covariance(lags)
        unchanged += part.shared * close * along
        (changed if move else unchanged)[...] += part.own * same * along
    groups = [np.flatnonzero(block.group == group) for group in range(int(block.group.max()) + 1)]

    totals = np.zeros(_FACTORS.size)
    for i, factor in enumerate(_FACTORS):
        inverse = cho_solve(
            (cholesky(unchanged + factor * changed, lower=True), True), np.eye(block.y.size)
        )
        weights = inverse @ block.y
        for members in groups:
            covariance = np.linalg.inv(inverse[np.ix_(members, members)])
            variance = np.diag(covariance)
            totals[i] -= 0.5 * float(
                (np.log(variance) + (covariance @ weights[members]) ** 2 / variance).sum()
            )
    return totals


def _block(
    centre: int, near: np.ndarray, times: np.ndarray, y: np.ndarray, mask: np.ndarray, cells: int
) -> SensorDays | None:
    """A sensor with the nearest by C, at evenly spaced times; None if too little was observed."""
    n_times, n = mask.shape
    rows = np.unique(np.linspace(0, n_times - 1, min(48, n_times)).astype(int))
    size = int(np.clip(cells // rows.size, 2, n))
    scale = np.sqrt(np.maximum(np.diag(near), 1e-300))
    chosen = np.argsort(-near[centre] / scale, kind="stable")[:size]
    row, column = np.nonzero(mask[np.ix_(rows, chosen)])
    if row.size < 10:
        return None
    day = np.floor((times[rows[row]] - times[0]) / 24.0).astype(int)
    _, group = np.unique(day * n + chosen[column], return_inverse=True)
    return SensorDays(times[rows[row]], chosen[column], y[rows[row], chosen[column]], group)
