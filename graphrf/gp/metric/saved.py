"""Files of fitted regressors along edges."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from graphrf._base import checks
from graphrf.gp.files.graphs import WAY_OUT, GraphFile, decoded_names
from graphrf.gp.files.labels import decoded_labels, encoded_labels
from graphrf.gp.files.objects import attributes, check_probabilities, decoded, encoded, real
from graphrf.gp.files.saved import Saved
from graphrf.gp.metric.graph import MetricGraph, require_metric_graph
from graphrf.gp.metric.subdivision import Places
from graphrf.gp.metric.training import FieldHyperparameters
from graphrf.gp.model.mean_function import Covariates, MeanFunction
from graphrf.gp.model.settings import checked_prior
from graphrf.graph.alignment import Rows
from graphrf.graph.disk.folder import decoded_name, encoded_name
from graphrf.graph.graph import Graph

_FITTED = ("lengthscale_", "output_scale_", "noise_", "log_marginal_likelihood_", "converged_")
_SETTINGS = (
    "alpha",
    "lengthscale",
    "output_scale",
    "noise",
    "ends",
    "mean",
    "hyperparameters",
    "progress",
)


class StreetFile(GraphFile):
    """The file of a `MetricGraph`, with the names of its nodes and edges."""

    fields: ClassVar[tuple[str, ...]] = ("src", "dst", "length")

    @classmethod
    def holds(cls, graph: Any) -> bool:
        return isinstance(graph, MetricGraph)

    @classmethod
    def require(cls, graph: Any) -> None:
        require_metric_graph(graph)

    @classmethod
    def named(cls, graph: Any) -> Graph:
        own: Graph = graph.graph
        return own

    @classmethod
    def digest(cls, graph: Any) -> str:
        result = hashlib.sha256(super().digest(graph).encode())
        for array in cls.arrays(graph).values():
            result.update(np.ascontiguousarray(array).tobytes())
        return result.hexdigest()

    @classmethod
    def arrays(cls, graph: Any) -> dict[str, np.ndarray]:
        return {name: getattr(graph, name) for name in cls.fields}

    @classmethod
    def names(cls, graph: Any) -> Any:
        edges = [
            [u, v, encoded_name(key, WAY_OUT), edge]
            for (u, v, key), edge in graph.edge_names.items()
        ]
        return {"nodes": super().names(graph), "edges": edges}

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray], names: Any) -> Any:
        src, dst, length = (arrays[name] for name in cls.fields)
        if (src.dtype, dst.dtype, length.dtype) != (np.int64, np.int64, np.float64):
            raise ValueError("its graph has arrays of other types than are written")
        graph = MetricGraph(src, dst, length)
        named = decoded_names(names["nodes"])
        if named is not None:
            graph.graph = Graph(graph.graph.adjacency, nodes=named)
        graph.edge_names = {
            (u, v, decoded_name(key)): _edge(graph, u, v, edge)
            for u, v, key, edge in names["edges"]
        }
        return graph


class Seen(NamedTuple):
    """Observations: values less `offset` (n, p), places, relative precisions and mean function."""

    places: Places
    values: np.ndarray
    offset: np.ndarray
    weights: np.ndarray | None
    mean: MeanFunction
    single: bool
    labels: list[Any]  # of the observations, or their places


class SavedMetric(Saved):
    """The contents of a file: settings, hyperparameters, and observations at their places."""

    _format = "graphrf metric regressor 1"
    _graph_files: ClassVar[tuple[type[GraphFile], ...]] = (StreetFile,)

    def _saved(self: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        seen = self._seen
        arrays = {**seen.places._asdict(), "values": seen.values, "offset": seen.offset}
        if seen.weights is not None:
            arrays["precisions"] = seen.weights

        mean = seen.mean
        if mean.width.size:
            arrays["x"] = mean.basis[self._pieces.where, 1:] * mean.width + mean.centre

        prior = checked_prior(self.prior) if isinstance(self.prior, Mapping) else self.prior
        record = {
            "settings": {**attributes(self, _SETTINGS), "prior": encoded("prior", prior)},
            "fitted": attributes(self, _FITTED),
            "points": [[*point, weight] for point, weight in self._points],
            "single": bool(seen.single),
            "x_names": list(mean.names),
            "labels": encoded_labels("labels of y", seen.labels),
        }
        return record, arrays

    @classmethod
    def _loaded(
        cls, graph: Any, record: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
    ) -> Self:
        regressor_class: Any = cls
        loaded = regressor_class(
            graph, **{name: decoded(value) for name, value in record["settings"].items()}
        )
        loaded._checked()

        seen = _seen(graph, loaded.mean, loaded.alpha, record, arrays)
        points = [_point(*point) for point in record["points"]]
        check_probabilities(weight for _, weight in points)

        fitted = {name: decoded(record["fitted"][name]) for name in _FITTED}
        for name in _FITTED[:-1]:
            checks.number(name, fitted[name])
        checks.flag("converged_", fitted["converged_"])

        loaded._settle(seen, graph.subdivide(seen.places, loaded.alpha), points)
        for name, value in fitted.items():
            setattr(loaded, name, value)
        return loaded


def _edge(graph: MetricGraph, u: Any, v: Any, edge: Any) -> int:
    """The number of an edge of a file (~number for a loop backwards), once it joins its ends."""
    given = checks.integer(
        "edge", edge, low=-graph.n_edges if u == v else 0, high=graph.n_edges - 1
    )
    number = max(given, ~given)
    if {u, v} != {int(graph.src[number]), int(graph.dst[number])}:
        raise ValueError("its edges have names of other ends")
    return given


def _seen(
    graph: MetricGraph,
    mean: str,
    alpha: int,
    record: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
) -> Seen:
    """The observations of a file, once they can be such."""
    places = _places(graph, arrays)
    n, single = places.node.size, checks.flag("single", record["single"])
    values, offset = real("values", arrays["values"], 2), real("offset", arrays["offset"], 1)
    weights = real("precisions", arrays["precisions"], 1) if "precisions" in arrays else None
    if values.shape != (n, offset.size) or not values.size or (single and offset.size != 1):
        raise ValueError("its arrays are inconsistent")

    labels = decoded_labels(record["labels"])
    if len(labels) != n:
        raise ValueError("its labels are not those of its observations")
    if weights is not None and (weights.size != n or (weights <= 0).any()):
        raise checks.value_error("precisions", "must be positive, one for each place")

    pieces = graph.subdivide(places, alpha)
    covariates, names = None, tuple(map(str, record["x_names"]))
    if "x" in arrays:
        x = real("x", arrays["x"], 2)
        if x.shape != (n, len(names)):
            raise ValueError("its arrays are inconsistent")
        covariates = Covariates.of(x, Rows(n, None, False, list), pieces.where, pieces.n_nodes)
    function = MeanFunction.of(mean, pieces.n_nodes, np.unique(pieces.where), covariates)
    function = function._replace(names=names or function.names)
    return Seen(places, values, offset, weights, function, single, labels)


def _places(graph: MetricGraph, arrays: Mapping[str, np.ndarray]) -> Places:
    node, edge, distance = (arrays[name] for name in Places._fields)
    if (node.dtype, edge.dtype, distance.dtype) != (
        np.int64,
        np.int64,
        np.float64,
    ) or node.ndim != 1:
        raise ValueError("its arrays are not those of places")

    inside = node < 0
    if not node.shape == edge.shape == distance.shape or (node >= graph.n_nodes).any():
        raise ValueError("its places are not in its graph")
    if (inside & ((edge < 0) | (edge >= graph.n_edges))).any() or not np.isfinite(distance).all():
        raise ValueError("its places are not in its graph")
    if (distance[inside] < 0).any() or (distance[inside] > graph.length[edge[inside]]).any():
        raise ValueError("its places are not on their edges")
    return Places(node, edge, distance)


def _point(
    lengthscale: Any, output_scale: Any, noise: Any, weight: Any
) -> tuple[FieldHyperparameters, float]:
    values = (lengthscale, output_scale, noise)
    own = [checks.number("hyperparameter", value, low=1e-290, high=1e290) for value in values]
    return FieldHyperparameters(*own), checks.number("weight", weight, low=0)
