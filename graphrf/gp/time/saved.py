"""Files of fitted regressors on graph and time: arrays and JSON, without pickle."""

from __future__ import annotations

import dataclasses
import math
import os
from typing import Any, Self

import numpy as np

from graphrf._base import checks
from graphrf._base.files.arrays import read_record, whole_file, write_record
from graphrf.gp.saved import decoded, encoded, read_graph
from graphrf.gp.time.covariance import Part, Separable
from graphrf.gp.time.data import Clock, checked_grid
from graphrf.gp.time.graph_kernels import GraphCovariance, LearnedCovariance
from graphrf.gp.time.kernels import ConstantTime, MaternTime, PeriodicTime
from graphrf.graph.folder import encoded_name
from graphrf.graph.graph import Graph, require_graph
from graphrf.kernels.kernel import require_kernel

_FORMAT = "graphrf graph-time regressor 1"
_WRITER = "GraphTimeGPRegressor.save"
_KERNELS = {known.__name__: known for known in (ConstantTime, MaternTime, PeriodicTime)}
_PLAIN = ("noise", "optimize", "max_train", "n_draws", "tol", "seed", "n_threads")
_RECORD = {"format", "settings", "kernel", "parts", "fitted", "clock", "learned", "graph", "names"}
_OBSERVED = ("nodes", "times", "values", "given")
_LEARNED = "covariance"
_GRAPH = ("indptr", "indices", "weights")


class SavedTime:
    """What a regressor on graph and time has of files."""

    def save(self: Any, path: str | os.PathLike[str], *, graph: bool = True) -> None:
        """Write the fitted regressor to an .npz file, without pickle; the file appears whole or not at all.

        Settings and hyperparameters are JSON, observations and graph are arrays. What is loaded has the fitted
        kernels as its settings `kernel` and `time_kernel`.

        Parameters
        ----------
        path : path
        graph : bool
            Whether the graph is in the file. Without it `load` must be given the same one.
        """
        self._check_fitted()
        with_graph = checks.flag("graph", graph)
        for part in self.parts_:
            if _KERNELS.get(type(part.kernel).__name__) is not type(part.kernel):
                raise checks.type_error(
                    "time_kernel", f"must be graphrf's own to be saved, got {checks.describe(part.kernel)}"
                )
        own: Graph = self.graph
        observed = (self._grid.nodes, self._grid.times, self._grid.values, self._hours)
        arrays = dict(zip(_OBSERVED, observed, strict=True))
        value = self.log_marginal_likelihood_
        record = {
            "format": _FORMAT,
            "settings": {name: encoded(name, getattr(self, name)) for name in _PLAIN},
            "kernel": encoded("kernel", self.kernel_),
            "parts": [
                [type(part.kernel).__name__, dataclasses.asdict(part.kernel), part.shared, part.own]
                for part in self.parts_
            ],
            "fitted": [self.noise_, self.mean_, self.seed_, None if math.isnan(value) else value, self._trained],
            "clock": list(self._clock),
            "learned": [self.learned_, self._covariance.bend],
            "graph": own.digest,
            "names": [encoded_name(name, "pass graph=False and keep the graph yourself") for name in own.nodes]
            if with_graph and own.has_names
            else None,
        }
        if with_graph:
            adjacency = own.adjacency
            arrays |= dict(zip(_GRAPH, (adjacency.indptr, adjacency.indices, adjacency.data), strict=True))
        if self.learned_:
            arrays[_LEARNED] = self._covariance.matrix
        write_record(path, record, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, graph: Graph | None = None) -> Self:
        """The regressor that `save` wrote: it predicts as that one did.

        Parameters
        ----------
        path : path
        graph : Graph, optional
            The graph of the fit, to share it, or because the file was saved without it.

        Raises
        ------
        FileNotFoundError, ValueError
            If the file does not exist or is incomplete, or if `graph` is a different graph.
        """
        path = checks.path("path", path)
        if graph is not None:
            require_graph(graph)
        with whole_file(path, _WRITER):
            record, arrays = read_record(path, _FORMAT)
            if set(record) != _RECORD or set(arrays) - {*_OBSERVED, *_GRAPH, _LEARNED}:
                raise ValueError("its contents are not those of a regressor")
            if graph is None and "weights" in arrays:
                graph = read_graph(arrays, record["names"])
            settings = {name: decoded(record["settings"][name]) for name in _PLAIN}
            kernel = require_kernel(decoded(record["kernel"]))
            parts = tuple(
                Part(
                    _KERNELS[name](**arguments),
                    checks.number("shared", shared, low=0),
                    checks.number("own", own, low=0),
                )
                for name, arguments, shared, own in record["parts"]
            )
            noise, mean, seed, value, trained = record["fitted"]
            noise = checks.number("noise", noise, low=0, include_low=False)
            mean, seed = checks.number("mean", mean), checks.seed(checks.integer("seed", seed))
            value = math.nan if value is None else checks.number("log_marginal_likelihood", value)
            trained = checks.flag("trained", trained)
            origin, zone = record["clock"]
            clock = Clock(None if origin is None else checks.integer("origin", origin), zone)
            nodes, times, values, given = (np.asarray(arrays[name]) for name in _OBSERVED)
            if nodes.dtype != np.int64 or {times.dtype, values.dtype, given.dtype} != {np.dtype(np.float64)}:
                raise ValueError("its arrays are not those of observations")
            share, bend = record["learned"]
            share, bend = checks.number("learned", share, low=0, high=1), checks.number("bend", bend, low=0)
            matrix = arrays.get(_LEARNED)
            if share > 0 and (matrix is None or matrix.shape != (nodes.size, nodes.size)):
                raise ValueError("it lacks the covariance of its sensors")
        if graph is None:
            raise checks.value_error("graph", f"must be given, because {path!r} was saved without it")
        if graph.digest != record["graph"]:
            raise checks.value_error("graph", f"must be the graph that {path!r} was fitted on, got {graph!r}")
        with whole_file(path, _WRITER):
            if nodes.size == 0 or nodes.min() < 0 or nodes.max() >= graph.n_nodes:
                raise ValueError("its nodes are not in its graph")
            grid = checked_grid(nodes, checks.finite("times", times), values)
            made: Any = cls
            loaded = made(graph, kernel, parts, **settings)
            loaded._checked()
            covariance = GraphCovariance(graph, seed)
            if matrix is not None and share > 0:
                covariance = LearnedCovariance(
                    covariance, kernel, nodes, share, bend, checks.finite("covariance", matrix)
                )
            loaded._settle(
                grid,
                checks.finite("given", given),
                clock,
                covariance,
                kernel,
                Separable(parts, noise),
                mean,
                seed,
                value,
                trained,
            )
        return loaded
