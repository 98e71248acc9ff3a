"""The demo's traffic through time: places without a sensor and forecasts, on a week of speeds."""

from __future__ import annotations

import numpy as np

from graphrf.cli.demo.data import graph_of, source_of
from graphrf.cli.demo.parts import Settings, TimePart, TimeRow
from graphrf.cli.demo.seconds import timed
from graphrf.datasets.sets import Dataset
from graphrf.gp.metrics import coverage, rmse

_EVERY = 3  # readings of five minutes
_DAY = 96
_HIDDEN_SHARE = 0.2
_AHEAD = 12
_MAX_TRAIN = 6_000


def predict_through_time(data: Dataset, settings: Settings) -> TimePart:
    """Speeds at a fifth of the sensors, which are hidden all week, and three hours ahead at the others."""
    from graphrf.gp import GraphTimeGPRegressor  # imports scikit-learn, which takes a second

    truth = np.asarray(data.extra["speeds"], dtype=np.float64)[::_EVERY]
    n_times, n = truth.shape
    times = np.arange(n_times) * _EVERY / 12
    hidden = np.sort(np.random.default_rng(settings.seed).permutation(n)[: round(_HIDDEN_SHARE * n)])
    shown = np.setdiff1d(np.arange(n), hidden)
    observed = truth.copy()
    observed[:, hidden] = observed[-_AHEAD:] = np.nan
    gp = GraphTimeGPRegressor(graph_of(data), max_train=_MAX_TRAIN, seed=settings.seed)
    (mean, deviation), seconds = timed(
        lambda: gp.fit(observed, times=times).predict(times=times, return_std="observation")
    )
    daily = np.array([np.nanmean(observed[start::_DAY]) for start in range(_DAY)])
    usual = np.broadcast_to(daily[np.arange(n_times) % _DAY, None], truth.shape)
    rows = []
    for where, at in (
        ("sensors never seen", np.ix_(np.arange(n_times - _AHEAD), hidden)),
        ("the next three hours", np.ix_(np.arange(n_times - _AHEAD, n_times), shown)),
    ):
        rows.append(TimeRow("mean of the time of day", where, rmse(truth[at], usual[at]), None))
        held = coverage(truth[at], mean[at], deviation[at])
        rows.append(TimeRow("Gaussian process on graph and time", where, rmse(truth[at], mean[at]), held))
    return TimePart(
        source=source_of(data),
        n_times=n_times,
        n_hidden=hidden.size,
        rows=tuple(rows),
        kernel=f"{type(gp.kernel_).__name__} kernel with the {gp.kernel_.laplacian} Laplacian",
        seconds=seconds,
        times=times,
        observed=observed,
        truth=truth,
        mean=mean,
        deviation=deviation,
        example=(int(shown[0]), int(hidden[0])),
    )
