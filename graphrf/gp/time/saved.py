"""Files of fitted regressors on graph and time."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from graphrf._base import checks
from graphrf.gp.files.objects import attributes, decoded, encoded
from graphrf.gp.files.saved import Saved, title_of
from graphrf.gp.time.covariance import Part, Separable
from graphrf.gp.time.data import Clock, Columns, Grid, checked_grid
from graphrf.gp.time.graph_kernels import GraphCovariance, LearnedCovariance
from graphrf.gp.time.kernels import ConstantTime, MaternTime, PeriodicTime
from graphrf.gp.time.response_scale import TRANSFORMS, ResponseScale
from graphrf.gp.time.training.start import checked_settings
from graphrf.graph.disk.folder import decoded_name
from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel, require_kernel

_KERNELS = {kernel.__name__: kernel for kernel in (ConstantTime, MaternTime, PeriodicTime)}
_PLAIN = (
    "noise",
    "transform",
    "optimize",
    "max_train",
    "n_draws",
    "tol",
    "seed",
    "n_threads",
    "progress",
)


class SavedTime(Saved):
    """The file of a model on graph and time: settings, hyperparameters, grid, covariance."""

    _format = "graphrf graph-time regressor 1"

    def _saved(self: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        for part in self.parts_:
            if _KERNELS.get(type(part.kernel).__name__) is not type(part.kernel):
                raise checks.type_error(
                    "time_kernel",
                    f"must be a kernel of graphrf to be saved, got {checks.describe(part.kernel)}",
                )

        value = self.log_marginal_likelihood_
        arrays = {**self._grid._asdict(), "given": self._hours, "columns": self._columns.nodes}
        if self.learned_:
            arrays["covariance"] = self._covariance.matrix

        record = {
            "settings": attributes(self, _PLAIN),
            "kernel": encoded("kernel", self.kernel_),
            "parts": [
                [type(part.kernel).__name__, dataclasses.asdict(part.kernel), part.shared, part.own]
                for part in self.parts_
            ],
            "fitted": [
                self.noise_,
                self.mean_,
                self.seed_,
                None if math.isnan(value) else value,
                self._trained,
            ],
            "scale": list(self._scale),
            "clock": list(self._clock),
            "axes": [
                title_of(self._columns.times_title),
                [title_of(title) for title in self._columns.nodes_titles or ()],
            ],
            "learned": [self.learned_, self._covariance.own_correlation],
        }
        return record, arrays

    @classmethod
    def _loaded(
        cls, graph: Graph, record: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
    ) -> Self:
        kernel = require_kernel(decoded(record["kernel"]))
        parts = tuple(_part(*part) for part in record["parts"])
        noise, mean, seed, value, trained = record["fitted"]
        model = Separable(parts, checks.number("noise", noise, low=0, include_low=False))
        mean, seed = checks.number("mean", mean), checks.seed(checks.integer("seed", seed))
        value = math.nan if value is None else checks.number("log_marginal_likelihood", value)

        origin, zone = record["clock"]
        clock = Clock(None if origin is None else checks.integer("origin", origin), zone)
        grid = _grid(arrays, graph.n_nodes)
        hours = _hours("given", arrays)

        regressor_class: Any = cls
        loaded = regressor_class(
            graph, kernel, parts, **{name: decoded(record["settings"][name]) for name in _PLAIN}
        )
        checked_settings(loaded)
        covariance = _covariance(
            GraphCovariance(graph, seed), kernel, grid.nodes, record["learned"], arrays
        )

        trained = checks.flag("trained", trained)
        loaded._scale = _scale(*record["scale"])
        loaded._columns = _columns(arrays["columns"], grid, graph.n_nodes, *record["axes"])
        loaded._settle(grid, hours, clock, covariance, kernel, model, mean, seed, value, trained)
        return loaded


def _part(name: str, arguments: Mapping[str, Any], shared: Any, own: Any) -> Part:
    kernel = _KERNELS[name](**arguments)
    return Part(kernel, checks.number("shared", shared, low=0), checks.number("own", own, low=0))


def _scale(name: Any, exponent: Any) -> ResponseScale:
    """A transform of readings."""
    if name is not None:
        checks.choice("transform", name, TRANSFORMS)
    return ResponseScale(name, checks.number("exponent", exponent, low=0, high=2))


def _hours(name: str, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    if arrays[name].dtype != np.float64:
        raise ValueError("its arrays are not those of observations")
    return checks.finite(name, arrays[name])


def _grid(arrays: Mapping[str, np.ndarray], n_nodes: int) -> Grid:
    nodes, values = arrays["nodes"], arrays["values"]
    if nodes.dtype != np.int64 or values.dtype != np.float64:
        raise ValueError("its arrays are not those of observations")
    if nodes.size == 0 or nodes.min() < 0 or nodes.max() >= n_nodes:
        raise ValueError("its nodes are not in its graph")
    return checked_grid(nodes, _hours("times", arrays), values)


def _columns(
    nodes: np.ndarray, grid: Grid, n_nodes: int, times_title: Any, nodes_titles: Any
) -> Columns:
    """The columns of the data of `fit`, which hold all sensors."""
    if nodes.dtype != np.int64 or nodes.ndim != 1 or np.unique(nodes).size != nodes.size:
        raise ValueError("its columns are not nodes")
    if not np.isin(grid.nodes, nodes).all() or nodes.min() < 0 or nodes.max() >= n_nodes:
        raise ValueError("its columns are not those of its observations")
    return Columns(nodes, decoded_name(times_title), tuple(map(decoded_name, nodes_titles)) or None)


def _covariance(
    graph: GraphCovariance,
    kernel: Kernel,
    nodes: np.ndarray,
    learned: Any,
    arrays: Mapping[str, np.ndarray],
) -> GraphCovariance:
    """The graph's covariance, or its mixture with a learned one."""
    weight = checks.number("learned", learned[0], low=0, high=1)
    own_correlation = checks.number("own_correlation", learned[1], low=0)
    if weight == 0:
        return graph
    matrix = checks.finite("covariance", arrays["covariance"])
    if matrix.shape != (nodes.size, nodes.size):
        raise ValueError("its covariance is not that of its sensors")
    return LearnedCovariance(graph, kernel, nodes, weight, own_correlation, matrix)
