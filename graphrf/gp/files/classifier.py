"""Files of fitted classifiers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from graphrf._base import checks
from graphrf._base.blas import linear_algebra
from graphrf.gp.files.objects import attributes, check_probabilities, decoded
from graphrf.gp.files.saved import Saved
from graphrf.gp.methods.choose import NAMES, method_named
from graphrf.gp.model.class_labels import Labels
from graphrf.gp.model.hyperparameters import Hyperparameters
from graphrf.gp.model.settings import check_latent_scale
from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import require_kernel

_FITTED = (
    *("kernel_", "sampler_", "output_scale_", "log_marginal_likelihood_", "method_", "seed_"),
    *("n_observations_", "converged_"),
)
_POINT = ("kernel", "amplitude", "output_scale", "noise", "weight")


class SavedClassifier(Saved):
    """The contents of a classifier's file: settings, fitted attributes and labels."""

    _format = "graphrf classifier 1"

    def _saved(self: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        record = {
            "settings": attributes(
                self, [name for name in self.get_params(deep=False) if name != "graph"]
            ),
            "fitted": attributes(self, _FITTED),
            "points": [attributes(point, _POINT) for point in self._points],
            "classes": self.classes_.tolist(),
            "kind": self.classes_.dtype.str,
        }
        return record, {"nodes": self._labels.nodes, "counts": self._labels.counts}

    @classmethod
    def _loaded(
        cls, graph: Graph, record: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
    ) -> Self:
        kind = np.dtype(record["kind"])
        if kind.kind not in "biufU":
            raise ValueError("its classes are of another kind than labels")

        classes = np.array(record["classes"], dtype=kind)
        labels = _labels(arrays["nodes"], arrays["counts"], classes, graph.n_nodes)
        fitted = {name: decoded(record["fitted"][name]) for name in _FITTED}
        _check_fitted(fitted)

        estimator: Any = cls
        loaded = estimator(
            graph, **{name: decoded(value) for name, value in record["settings"].items()}
        )
        for name, value in fitted.items():
            setattr(loaded, name, value)
        loaded.classes_, loaded.n_observed_nodes_ = classes, labels.nodes.size

        points = [_point(point) for point in record["points"]]
        check_probabilities(point.weight for point in points)
        kernels = [*(point.kernel for point in points), loaded.kernel_]
        method = method_named(graph, loaded.method_, kernels, loaded.sampler_, loaded.n_threads)
        with linear_algebra(labels.nodes.size, loaded.n_threads):
            loaded._condition(labels, points, method)

        return loaded


def _labels(nodes: np.ndarray, counts: np.ndarray, classes: np.ndarray, n_nodes: int) -> Labels:
    """The labels of a file, once they can be such."""
    if (
        nodes.dtype != np.int64
        or counts.dtype != np.float64
        or counts.shape != (nodes.size, classes.size)
    ):
        raise ValueError("its arrays are not those of labels")

    if (
        classes.size < 2
        or not nodes.size
        or nodes[0] < 0
        or nodes[-1] >= n_nodes
        or (np.diff(nodes) <= 0).any()
    ):
        raise ValueError("its nodes are not in its graph, or there is one class only")

    checks.finite("counts", counts)
    seen = counts > 0
    if (
        (counts < 0).any()
        or (counts > 2.0**53).any()
        or not (seen.any(axis=0).all() and seen.any(axis=1).all())
    ):
        raise ValueError("its counts of labels are invalid")
    return Labels(nodes, counts)


def _point(record: Mapping[str, Any]) -> Hyperparameters:
    """A point that predictions average over, once it can be such."""
    point = Hyperparameters(**{name: decoded(record[name]) for name in _POINT})
    require_kernel(point.kernel)
    check_latent_scale(checks.number("amplitude", point.amplitude, low=0, include_low=False))
    checks.number("weight", point.weight, low=0, high=1, include_low=False)
    return point


def _check_fitted(fitted: dict[str, Any]) -> None:
    """Raise unless what a fit finds is what it can find."""
    require_kernel(fitted["kernel_"])
    check_latent_scale(
        checks.number("output_scale", fitted["output_scale_"], low=0, include_low=False)
    )
    checks.number("log_marginal_likelihood", fitted["log_marginal_likelihood_"])
    checks.choice("method", fitted["method_"], NAMES)
    checks.seed(checks.integer("seed", fitted["seed_"]))
    checks.integer("n_observations", fitted["n_observations_"], low=1)
    checks.flag("converged", fitted["converged_"])
