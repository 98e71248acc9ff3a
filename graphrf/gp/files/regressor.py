"""Files of fitted regressors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np

from graphrf._base import checks
from graphrf.gp.files.labels import decoded_labels, encoded_labels
from graphrf.gp.files.objects import (
    LARGEST,
    attributes,
    check_probabilities,
    decoded,
    encoded,
    real,
)
from graphrf.gp.files.saved import Saved
from graphrf.gp.likelihoods.likelihood import Likelihood
from graphrf.gp.methods.choose import NAMES, method_named
from graphrf.gp.model.fitted_model import FittedModel
from graphrf.gp.model.hyperparameters import ComparedKernel, Hyperparameters
from graphrf.gp.model.mean_function import Covariates, MeanFunction, column_names
from graphrf.gp.model.observations import Observations, SeparateObservations
from graphrf.gp.model.settings import checked_prior, checked_settings
from graphrf.graph.alignment import for_all_nodes
from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import require_kernel

# Fields of a FittedModel that are written as they are.
_PLAIN = (
    *(
        "method",
        "single",
        "output_scale",
        "noise",
        "mean_variance",
        "seed",
        "log_marginal_likelihood",
        "trained",
    ),
    *("mean_precision", "likelihood"),
)
_POINT = ("amplitude", "output_scale", "noise", "weight")
_LARGEST_VARIANCE = 1e290  # that fits find, from squares of what is observed


class SavedRegressor(Saved):
    """A regressor's file: settings, conditions of the posterior, and points averaged over."""

    _format = "graphrf regressor 1"

    def _saved(self: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        model: FittedModel = self._fitted
        observations = model.observations
        settings = self.get_params(deep=False)
        del settings["graph"]
        settings["numerics"] = replace(self.numerics, feature_sampler=None)
        if np.ndim(self.noise) or isinstance(self.noise, Mapping):
            settings["noise"] = self.noise_
        if isinstance(self.prior, Mapping):
            settings["prior"] = checked_prior(self.prior)

        arrays = {name: getattr(observations, name) for name in ("nodes", "counts", "means")}
        arrays["offset"] = model.offset

        names: tuple[str, ...] = ()
        if not isinstance(self.mean, str):
            mean = for_all_nodes(self.graph, "mean", settings.pop("mean"))
            arrays["covariates"] = np.asarray(mean, dtype=np.float64)
            names = column_names(
                mean, arrays["covariates"].reshape(self.graph.n_nodes, -1).shape[1]
            )

        if model.covariates is not None:
            arrays["x"], names = model.covariates.values[observations.nodes], model.covariates.names
        labels, separate = _described(self._separate)
        arrays |= separate

        if model.points and model.likelihood is not None:
            approximations: list[Any] = [point.observations for point in model.points]
            arrays |= {
                f"point_{name}": np.array([getattr(observed, name) for observed in approximations])
                for name in ("counts", "means")
            }

        record = {
            "x_names": list(names),
            "labels": labels,
            "settings": {name: encoded(name, value) for name, value in settings.items()},
            "fitted": attributes(model, _PLAIN),
            "kernel": encoded("kernel", model.kernel),
            "sampler": encoded("sampler", model.sampler),
            "within": float(observations.within),
            "n_total": int(observations.n_total),
            "log_precisions": float(observations.log_precisions),
            "points": [
                attributes(point, ("kernel", "likelihood", *_POINT)) for point in model.points
            ],
            "candidates": [encoded("kernel", tuple(candidate)) for candidate in model.candidates],
        }
        return record, arrays

    @classmethod
    def _loaded(
        cls, graph: Graph, record: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
    ) -> Self:
        settings = {name: decoded(value) for name, value in record["settings"].items()}
        if "covariates" in arrays:
            settings["mean"] = real("covariates", arrays["covariates"], arrays["covariates"].ndim)
        if settings.get("seed") is not None:
            checks.seed(settings["seed"])

        estimator: Any = cls
        regressor = estimator(graph, **settings)
        checked_settings(regressor)

        nodes = _nodes(arrays["nodes"], graph.n_nodes)
        covariates, names = None, tuple(map(str, record["x_names"]))
        if "x" in arrays:
            rows = real("x", arrays["x"], 2)
            _require_consistent(rows.shape == (nodes.size, len(names)))
            covariates = Covariates.at(nodes, rows, names, graph.n_nodes)

        mean = MeanFunction.of(settings["mean"], graph.n_nodes, nodes, covariates)
        _require_consistent(len(names) in (0, mean.width.size))
        mean = mean._replace(names=names or mean.names)
        observations, offset = (
            _observed(nodes, record, arrays, mean),
            real("offset", arrays["offset"], 1),
        )
        _require_consistent(observations.means.shape[1:] == offset.shape)

        fitted = {name: decoded(record["fitted"][name]) for name in _PLAIN}
        points = [_point(point) for point in record["points"]]
        if points and fitted["likelihood"] is not None:
            points = _with_observations(points, observations, arrays)
        model = FittedModel(
            observations=observations,
            offset=offset,
            kernel=require_kernel(decoded(record["kernel"])),
            sampler=decoded(record["sampler"]),
            points=points,
            covariates=covariates,
            candidates=[_candidate(*decoded(candidate)) for candidate in record["candidates"]],
            **fitted,
        )

        _check_numbers(model)
        _check_models(model)

        separate = _separate(model, record["labels"], arrays)
        kernels = [*(point.kernel for point in model.points), model.kernel]
        n_threads = regressor.numerics.n_threads
        method = method_named(graph, model.method, kernels, model.sampler, n_threads)

        loaded: Any = regressor._condition(model, mean, method)
        loaded._separate = separate
        return loaded


def _require_consistent(holds: bool) -> None:
    if not holds:
        raise ValueError("its arrays are inconsistent")


def _counts(name: str, array: np.ndarray, n_axes: int) -> np.ndarray:
    if (real(name, array, n_axes) <= 0).any():
        raise checks.value_error(name, "must be positive")
    return array


def _nodes(nodes: np.ndarray, n_nodes: int) -> np.ndarray:
    if nodes.dtype != np.int64 or nodes.ndim != 1 or nodes.size == 0:
        raise ValueError("its arrays are not those of observations")
    if nodes[0] < 0 or nodes[-1] >= n_nodes or (nodes[1:] <= nodes[:-1]).any():
        raise checks.value_error("nodes", f"must increase from 0 to {n_nodes - 1} at most")
    return nodes


def _observed(
    nodes: np.ndarray,
    record: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    mean: MeanFunction,
) -> Observations:
    counts, means = _counts("counts", arrays["counts"], 1), real("means", arrays["means"], 2)
    _require_consistent(nodes.shape == counts.shape == means.shape[:1] and means.shape[1] > 0)

    return Observations(
        nodes,
        counts,
        means,
        checks.number("within", record["within"], low=0),
        mean.basis[nodes],
        checks.integer("n_total", record["n_total"], low=nodes.size),
        checks.number("log_precisions", record["log_precisions"]),
    )


def _described(separate: SeparateObservations) -> tuple[Any, dict[str, np.ndarray]]:
    """The labels of the observations, as JSON knows them, and arrays with a row for each."""
    arrays = {f"each_{name}": getattr(separate, name) for name in separate._fields[:-1]}
    if separate.labels is None:
        return None, arrays
    return encoded_labels("labels of y", separate.labels), arrays


def _separate(
    model: FittedModel, labels: Any, arrays: Mapping[str, np.ndarray]
) -> SeparateObservations:
    """The observations one by one, once they can be those of the fit."""
    place, y = arrays["each_place"], arrays["each_y"]
    precisions, offset = (
        _counts("each_precisions", arrays["each_precisions"], 1),
        arrays["each_offset"],
    )

    _require_consistent(y.ndim in (1, 2))
    n, m = model.observations.n_total, model.observations.nodes.size
    if model.likelihood is None:
        _require_consistent(y.shape == (n, model.observations.n_outputs))
    _require_consistent(real("each_y", y, y.ndim).shape[0 if model.likelihood is None else -1] == n)
    _require_consistent(place.shape == precisions.shape == real("each_offset", offset, 1).shape)
    _require_consistent(place.dtype == np.int64 and place.shape == (n,))
    _require_consistent(np.array_equal(np.unique(place), np.arange(m)))

    labels = None if labels is None else decoded_labels(labels)
    _require_consistent(labels is None or len(labels) == n)
    return SeparateObservations(place, y, precisions, offset, labels)


def _candidate(kernel: Any, evidence: Any, probability: Any) -> ComparedKernel:
    return ComparedKernel(require_kernel(kernel), float(evidence), float(probability))


def _point(record: Mapping[str, Any]) -> Hyperparameters:
    numbers: Any = {
        name: checks.number(name, record[name], low=0, include_low=False) for name in _POINT
    }
    kernel, likelihood = require_kernel(decoded(record["kernel"])), decoded(record["likelihood"])
    return Hyperparameters(kernel, **numbers, likelihood=likelihood)


def _with_observations(
    points: list[Hyperparameters], observations: Observations, arrays: Mapping[str, np.ndarray]
) -> list[Hyperparameters]:
    """Points of a file with the observations that give the approximation of each."""
    counts, means = (
        _counts("point_counts", arrays["point_counts"], 2),
        real("point_means", arrays["point_means"], 3),
    )
    _require_consistent(
        counts.shape == (len(points), observations.nodes.size) and means.shape == (*counts.shape, 1)
    )
    for point in points:
        _require_fitted(point.likelihood)
    return [
        point._replace(observations=observations._replace(counts=own, means=values))
        for point, own, values in zip(points, counts, means, strict=True)
    ]


def _require_fitted(likelihood: Any) -> None:
    if not isinstance(likelihood, Likelihood) or likelihood.unknown:
        raise ValueError("its likelihood is not a fitted one")


def _check_numbers(model: FittedModel) -> None:
    """Raise unless the numbers that a fit finds are such as it can find."""
    checks.choice("method", model.method, NAMES)
    for name in ("single", "trained"):
        checks.flag(name, getattr(model, name))
    for name in ("output_scale", "noise"):
        checks.number(name, getattr(model, name), low=1 / _LARGEST_VARIANCE, high=_LARGEST_VARIANCE)
    for name in ("mean_variance", "amplitude"):
        checks.number(name, getattr(model, name), low=0, include_low=False)

    checks.number("mean_precision", model.mean_precision, low=0)
    checks.seed(checks.integer("seed", model.seed))
    if model.log_marginal_likelihood is not None:
        checks.number("log_marginal_likelihood", model.log_marginal_likelihood)

    noise = max([model.noise, *(point.noise for point in model.points)])
    if noise > LARGEST * min(1.0, float(model.observations.counts.min())):
        raise checks.value_error("noise", f"over `counts` must be at most {LARGEST:g}")
    if model.points:
        check_probabilities(point.weight for point in model.points)


def _check_models(model: FittedModel) -> None:
    """Raise unless likelihood, outputs, kernels and sampler suit one another."""
    if model.likelihood is not None:
        _require_fitted(model.likelihood)
        checks.number("mean_precision", model.mean_precision, low=0, include_low=False)
    if model.single and model.observations.n_outputs != 1:
        raise checks.value_error("single", "must be false for several outputs")
