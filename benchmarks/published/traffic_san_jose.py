"""San Jose: are graphrf's fields those of MetricGraph, and do its intervals hold?

    python benchmarks/published/traffic_san_jose.py

`MetricGraph`: the vignette "Comparison of different models using real data". Mean speeds of 26
Mondays at all 325 sensors, all parameters by maximum likelihood, then each sensor predicted from
the 324 others with these parameters. There BC = 0 is a free end, BC = 1 a stationary one; GL1 and
GL2 are Matern kernels of the graph's Laplacian. A row with `ten folds` learns everything again
without the fold. `One evening`: the speeds of the first Monday, 250 sensors observed and 75
predicted (Borovitskiy et al. 2021; Reid et al. 2024, figure 11), over 10 splits, with all defaults.
The score is the CRPS, in miles an hour; for errors and densities see docs/gp_experiments.md.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from _table import Shares, Spent, covered, crps, loaded, row, start

import graphrf as grf
from graphrf.gp import FieldGPRegressor, GraphGPRegressor, MetricGraph, metrics

LIKELIEST: dict[str, Any] = {"prior": None, "hyperparameters": "mode"}
PUBLISHED = {
    "alpha = 1, free ends": "-1221.225; 8.614; 3.605; 4.738",
    "alpha = 1": "-1221.377; 8.612; 3.604; 4.736",
    "alpha = 2, free ends": "-1208.087; 8.255; 3.548; 4.519",
    "alpha = 2": "-1208.280; 8.255; 3.548; 4.518",
    "GL1": "-1221.384; 8.611; 3.605; 4.737",
    "GL2": "-1208.703; 8.304; 3.551; 4.531",
}


def models(graph: grf.Graph, roads: dict[str, MetricGraph]) -> dict[str, Any]:
    """The vignette's models but the isotropic one, parameters by maximum likelihood."""
    return {
        f"alpha = {alpha}{name}": FieldGPRegressor(roads[ends], alpha=alpha, **LIKELIEST)
        for alpha in (1, 2)
        for name, ends in ((", free ends", "free"), ("", "stationary"))
    } | {
        f"GL{nu}": GraphGPRegressor(
            graph,
            kernel=grf.Matern(float(nu), laplacian="combinatorial"),
            method="precision",
            seed=0,
            **LIKELIEST,
        )
        for nu in (1, 2)
    }


def prior(model: Any, sensors: np.ndarray) -> np.ndarray:
    """The covariance of observations at the fitted parameters."""
    if isinstance(model, GraphGPRegressor):
        field = model.prior_covariance(sensors)
    else:
        known = {"range": model.range_, "sd": model.sd_}
        field = model.domain.covariance(sensors, alpha=model.alpha, **known)
    return field + model.noise_ * np.eye(sensors.size)


def left_out(covariance: np.ndarray, y: np.ndarray, mean: float) -> tuple[np.ndarray, np.ndarray]:
    """Each observation from the others: mean and deviation (GPML, Eqs 5.10 to 5.12)."""
    inverse = np.linalg.inv(covariance)
    variance = 1 / np.diag(inverse)
    return y - variance * (inverse @ (y - mean)), np.sqrt(variance)


def splits(
    make: Callable[[], Any], sensors: np.ndarray, y: np.ndarray, parts: list
) -> tuple[str, Shares]:
    """RMSE and coverage at the parts, each predicted by a model fitted without it."""
    scores = []
    for left in parts:
        seen = np.setdiff1d(np.arange(y.size), left)
        mean, std = (
            make().fit(sensors[seen], y[seen]).predict(sensors[left], return_std="observation")
        )
        scores.append(
            [crps(y[left], mean, std), metrics.rmse(y[left], mean), *covered(y[left], mean, std)]
        )
    score, error, *held = np.mean(scores, axis=0)
    return f"CRPS {score:.3f}, RMSE {error:.3f}", tuple(held)


def main() -> None:
    warnings.simplefilter("ignore")  # of hyperparameters at the ends of their search
    data = loaded("san-jose")
    roads = {
        ends: MetricGraph(*data.extra["roads"].T, 0.001 * data.extra["lengths"], ends=ends)
        for ends in ("stationary", "free")
    }
    sensors, y = data.target_nodes, data.extra["speeds"].mean(axis=0)
    start("MetricGraph, 325 sensors left out one by one: log likelihood; RMSE; log score; CRPS")
    for name, model in models(data.graph, roads).items():
        with Spent() as spent:
            model.fit(sensors, y)
            mean, std = left_out(prior(model, sensors), y, float(np.ravel(model.mean_)[0]))
        scores = metrics.rmse(y, mean), metrics.nlpd(y, mean, std), crps(y, mean, std)
        here = "; ".join(f"{score:.3f}" for score in (model.log_marginal_likelihood_, *scores))
        row(name, PUBLISHED[name], here, covered(y, mean, std), spent)
    defaults = {
        "along the roads, order 2": lambda: FieldGPRegressor(roads["stationary"], alpha=2),
        "nodes": lambda: GraphGPRegressor(data.graph, seed=0),
    }
    folds = np.array_split(np.random.default_rng(0).permutation(y.size), 10)
    evenings = [np.random.default_rng(seed).permutation(y.size)[250:] for seed in range(10)]
    for name, make in defaults.items():
        with Spent() as spent:
            here, held = splits(make, sensors, y, folds)
        row(f"{name}, defaults, ten folds", "", here, held, spent)
    for name, make in defaults.items():
        with Spent() as spent:
            here, held = splits(make, sensors, data.targets, evenings)
        row(f"{name}, defaults, one evening", "not printed", here.split(",")[0], held, spent)


if __name__ == "__main__":
    main()
