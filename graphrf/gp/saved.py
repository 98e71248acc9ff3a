"""Files of fitted regressors: arrays and JSON, written whole or not at all, and read without pickle."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from graphrf import _checks
from graphrf._coupling import Coupling
from graphrf._graph_folder import decoded_name, encoded_name
from graphrf._kernel import require_kernel
from graphrf._record_files import read_record, whole_file, write_record
from graphrf.gp.conditioning import Conditions
from graphrf.gp.observations import Observations
from graphrf.gp.settings import checked_settings
from graphrf.gp.trend import MeanFunction
from graphrf.graph import Graph, require_graph
from graphrf.kernels import (
    Diffusion,
    InverseCosine,
    LearnedModulation,
    Matern,
    PowerSeries,
    PStepRandomWalk,
    RegularizedLaplacian,
)
from graphrf.lengths import IID, Antithetic, SigmaCoupled, Stratified, Survival, Truncated
from graphrf.sampling.auto_lengths import AutoLengths
from graphrf.sampling.powers import CompressedPowers, CutPowers, ExactPowers
from graphrf.sampling.random_walks import RandomWalks
from graphrf.sampling.sample import require_sampler

_FORMAT = "graphrf regressor 1"
_WRITER = "GraphGPRegressor.save"
_CLASSES = {
    known.__name__: known
    for known in (
        *(Diffusion, InverseCosine, LearnedModulation, Matern, PowerSeries, PStepRandomWalk, RegularizedLaplacian),
        *(IID, Antithetic, SigmaCoupled, Stratified, Truncated, Survival, AutoLengths, Coupling),
        *(RandomWalks, CompressedPowers, CutPowers, ExactPowers),
        *(Decimal, Fraction),
    )
}
_UNWRITTEN = ("graph", "sample_features")  # the first is written apart
_OBSERVED = ("nodes", "counts", "means")
_NAMELESS = "pass graph=False and keep the graph yourself"
_GRAPH = ("indptr", "indices", "weights")
_PLAIN = ("single", "output_scale", "noise", "mean_variance", "seed", "log_marginal_likelihood", "trained")


class Saved:
    """What a regressor has of files."""

    def save(self: Any, path: str | os.PathLike[str], *, graph: bool = True) -> None:
        """Write the fitted regressor to a file, without pickle; the file appears whole or not at all.

        `sample_features` is not written: what is loaded draws all rows in its own process.

        Parameters
        ----------
        path : path
            Of an .npz file: settings and hyperparameters as JSON, observations and graph as arrays.
        graph : bool
            Whether the graph is in the file. Without it `load` must be given the same one.

        Raises
        ------
        TypeError
            For kernels, samplers and laws that are not graphrf's own, and for nodes' names that are neither text,
            numbers nor tuples of them.

        Examples
        --------
        >>> import pathlib, tempfile, graphrf as grf
        >>> line = grf.from_edges([0, 1], [1, 2])
        >>> gp = grf.GraphGPRegressor(line, kernel=grf.Diffusion(1.0), optimize=False, noise=0.1, seed=0)
        >>> file = pathlib.Path(tempfile.mkdtemp(), "gp.npz")
        >>> gp.fit([0, 2], [1.0, -1.0]).save(file)
        >>> bool((grf.GraphGPRegressor.load(file).predict() == gp.predict()).all())
        True
        """
        self._check_fitted()
        with_graph = _checks.flag("graph", graph)
        settings = {name: value for name, value in self.get_params(deep=False).items() if name not in _UNWRITTEN}
        _write(path, settings, self._given, self.graph, with_graph)

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
            If there is no such file, it is not whole, or `graph` is another one.

        Notes
        -----
        Nothing is trained; the solve of the posterior is done again, so the file holds no matrices.
        """
        loaded, given, mean = _read(path, graph, cls)
        return loaded._condition(given, mean)


def _write(
    path: str | os.PathLike[str], settings: Mapping[str, Any], given: Conditions, graph: Graph, with_graph: bool
) -> None:
    """Write settings (all but the graph) and conditions, with or without the graph, as one .npz file."""
    arrays = {name: getattr(given.observations, name) for name in _OBSERVED} | {"offset": given.offset}
    settings = dict(settings)
    if not isinstance(settings["mean"], str):
        arrays["covariates"] = np.asarray(settings.pop("mean"), dtype=np.float64)
    record = {
        "format": _FORMAT,
        "settings": {name: _encoded(name, value) for name, value in settings.items()},
        "fitted": {name: _encoded(name, getattr(given, name)) for name in _PLAIN},
        "kernel": _encoded("kernel", given.kernel),
        "sampler": _encoded("sampler", given.sampler),
        "within": float(given.observations.within),
        "graph": graph._digest,
        "names": [encoded_name(name, _NAMELESS) for name in graph.nodes]
        if with_graph and graph.has_names
        else None,
    }
    if with_graph:
        adjacency = graph.adjacency
        arrays |= dict(zip(_GRAPH, (adjacency.indptr, adjacency.indices, adjacency.data), strict=True))
    write_record(path, record, arrays)


def _read(
    path: str | os.PathLike[str], graph: Graph | None, make: Callable[..., Any]
) -> tuple[Any, Conditions, MeanFunction]:
    """`make(graph, **settings)` of a file, conditions and mean function.

    FileNotFoundError or ValueError unless the file is there and whole, and `graph` (if given) that of the fit.
    """
    path = _checks.path("path", path)
    if graph is not None:
        require_graph(graph)
    with whole_file(path, _WRITER):
        record, arrays = read_record(path, _FORMAT)
        if graph is None and "weights" in arrays:
            size = arrays["indptr"].size - 1
            matrix = sp.csr_array(tuple(arrays[name] for name in reversed(_GRAPH)), shape=(size, size))
            matrix.check_format(full_check=True)
            names = record["names"]
            graph = Graph(matrix, nodes=None if names is None else [decoded_name(name) for name in names])
            if graph._digest != record["graph"]:
                raise ValueError("its graph is damaged")
        settings = {name: _decoded(value) for name, value in record["settings"].items()}
        settings.setdefault("mean", arrays.get("covariates"))
        fitted = {name: _decoded(record["fitted"][name]) for name in _PLAIN}
        kernel, sampler = require_kernel(_decoded(record["kernel"])), _decoded(record["sampler"])
        if sampler is not None:
            require_sampler(sampler)
        nodes, counts, means, offset = (_checks.finite(name, arrays[name]) for name in (*_OBSERVED, "offset"))
        within = float(record["within"])
        digest = str(record["graph"])
    if graph is None:
        raise ValueError(f"`graph` must be given, because {path!r} was saved without it")
    if graph._digest != digest:
        raise ValueError(f"`graph` must be the graph that {path!r} was fitted on, got another one, {graph!r}")
    with whole_file(path, _WRITER):
        regressor = make(graph, **settings)
        checked_settings(regressor)
        mean = MeanFunction.of(settings["mean"], graph.n_nodes, graph.positions(nodes))
        if not (nodes.shape == counts.shape == means.shape[:1] and means.shape[1:] == offset.shape):
            raise ValueError("its arrays contradict each other")
        observations = Observations(nodes, counts, means, within, mean.basis[nodes])
        return regressor, Conditions(observations, offset, kernel=kernel, sampler=sampler, **fitted), mean


def _encoded(name: str, value: Any) -> Any:
    """A setting as JSON knows it: plain values, and graphrf's own objects by class name and arguments."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_encoded(name, part) for part in value]
    if _CLASSES.get(type(value).__name__) is not type(value):
        raise TypeError(
            f"`{name}` must be made of graphrf's own kernels, samplers and laws to be saved, got "
            f"{_checks.describe(value)}; save its arguments yourself, and fit again"
        )
    arguments: dict[str, Any]
    if isinstance(value, Decimal):
        arguments = {"value": str(value)}
    elif isinstance(value, Fraction):
        arguments = {"numerator": str(value)}
    elif isinstance(value, PowerSeries):
        arguments = {value.given: value.coefficients, "laplacian": value.laplacian}
    elif isinstance(value, SigmaCoupled):
        arguments = {"p_halt": value.p_halt, "coupling": value.coupling}
    else:
        arguments = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
    return {
        "class": type(value).__name__,
        "arguments": {key: _encoded(name, part) for key, part in arguments.items()},
    }


def _decoded(value: Any) -> Any:
    if isinstance(value, dict):
        arguments = {name: _decoded(part) for name, part in value["arguments"].items()}
        return _CLASSES[value["class"]](**arguments)
    if isinstance(value, list):
        return [_decoded(part) for part in value]
    return value
