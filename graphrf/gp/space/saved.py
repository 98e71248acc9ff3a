"""Files of fitted regressors over space."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from graphrf._base import checks
from graphrf.gp.fields.domain import Domain
from graphrf.gp.fields.mesh_file import MeshFile
from graphrf.gp.files.graphs import GraphFile
from graphrf.gp.files.labels import decoded_labels, encoded_labels
from graphrf.gp.files.objects import attributes, check_probabilities, decoded, encoded, real
from graphrf.gp.files.saved import Saved
from graphrf.gp.metric.street_file import StreetFile
from graphrf.gp.model.mean_function import Covariates, MeanFunction
from graphrf.gp.space.training import FieldHyperparameters
from graphrf.graph.alignment import Rows

_FITTED = ("range_", "sd_", "noise_", "log_marginal_likelihood_", "converged_")
_SETTINGS = ("alpha", "range", "sd", "noise", "mean", "hyperparameters", "progress")


class Seen(NamedTuple):
    """Observations: values less `offset`, shape (n, p), their places, relative precisions and mean
    function.
    """

    places: Any
    values: np.ndarray
    offset: np.ndarray
    weights: np.ndarray | None
    mean: MeanFunction
    single: bool
    labels: list[Any]  # of the observations, or their places


class SavedField(Saved):
    """The contents of a file: settings, hyperparameters, and observations with their places and
    covariates.
    """

    _format = "graphrf field regressor 1"
    _graph_files: ClassVar[tuple[type[GraphFile], ...]] = (MeshFile, StreetFile)

    def _graphs(self: Any) -> list[Any]:
        return [self.domain]

    def _saved(self: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        seen = self._seen
        arrays = {**seen.places.arrays, "values": seen.values, "offset": seen.offset}
        if seen.weights is not None:
            arrays["precisions"] = seen.weights
        mean = seen.mean
        if mean.width.size:
            arrays["x"] = mean.basis[self._nodes.where, 1:] * mean.width + mean.centre
        prior: Any = self.prior
        if isinstance(prior, Mapping):
            prior = {name: encoded("prior", value) for name, value in prior.items()}
        record = {
            "settings": {**attributes(self, _SETTINGS), "prior": prior},
            "fitted": attributes(self, _FITTED),
            "points": [[*point, weight] for point, weight in self._points],
            "single": bool(seen.single),
            "x_names": list(mean.names),
            "labels": encoded_labels("labels of y", seen.labels),
            "columns": list(getattr(self, "feature_names_in_", ())),
        }
        return record, arrays

    @classmethod
    def _loaded(
        cls, graph: Any, record: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
    ) -> Self:
        made: Any = cls
        settings = {name: decoded(record["settings"][name]) for name in _SETTINGS}
        prior = record["settings"]["prior"]
        if isinstance(prior, Mapping):
            prior = {name: _prior(value) for name, value in prior.items()}
        loaded = made(graph, **settings, prior=prior)
        loaded._checked()
        seen, nodes = _seen(graph, loaded.mean, loaded._order, record, arrays)
        points = [_point(*point) for point in record["points"]]
        check_probabilities(weight for _, weight in points)
        fitted = {name: decoded(record["fitted"][name]) for name in _FITTED}
        for name in _FITTED[:-1]:
            checks.number(name, fitted[name])
        checks.flag("converged_", fitted["converged_"])
        loaded._settle(seen, nodes, points)
        if columns := _columns(record["columns"]):
            loaded.feature_names_in_ = np.array(columns, dtype=object)
        for name, value in fitted.items():
            setattr(loaded, name, value)
        return loaded


def _seen(
    domain: Domain,
    mean: str,
    alpha: float,
    record: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
) -> tuple[Seen, Any]:
    """The observations of a file, once they can be such, and their nodes."""
    places = domain.places_of(dict(arrays))
    n, single = places.size, checks.flag("single", record["single"])
    values, offset = real("values", arrays["values"], 2), real("offset", arrays["offset"], 1)
    weights = real("precisions", arrays["precisions"], 1) if "precisions" in arrays else None
    if values.shape != (n, offset.size) or not values.size or (single and offset.size != 1):
        raise ValueError("its arrays are inconsistent")
    labels = decoded_labels(record["labels"])
    if len(labels) != n:
        raise ValueError("its labels are not those of its observations")
    if weights is not None and (weights.size != n or (weights <= 0).any()):
        raise checks.value_error("precisions", "must be positive, one for each place")
    nodes = domain.field_nodes(places, alpha)
    covariates, names = None, tuple(map(str, record["x_names"]))
    if "x" in arrays:
        x = real("x", arrays["x"], 2)
        if x.shape != (n, len(names)):
            raise ValueError("its arrays are inconsistent")
        covariates = Covariates.of(x, Rows(n, None, False, list), nodes.where, nodes.n_nodes)
    function = MeanFunction.of(mean, nodes.n_nodes, np.unique(nodes.where), covariates)
    function = function._replace(names=names or function.names)
    return Seen(places, values, offset, weights, function, single, labels), nodes


def _columns(names: Any) -> list[str]:
    """The titles of columns in a file, once they can be those of coordinates."""
    are_text = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if not are_text or len(names) not in (0, 2, 3) or len(set(names)) < len(names):
        raise ValueError("its columns are not those of coordinates")
    return list(names)


def _prior(value: Any) -> Any:
    """A prior of a file: an object, or median and factor."""
    return tuple(value) if isinstance(value, list) else decoded(value)


def _point(
    range: Any, output_scale: Any, noise: Any, weight: Any
) -> tuple[FieldHyperparameters, float]:
    values = (range, output_scale, noise)
    own = [checks.number("hyperparameter", value, low=1e-290, high=1e290) for value in values]
    return FieldHyperparameters(*own), checks.number("weight", weight, low=0)
