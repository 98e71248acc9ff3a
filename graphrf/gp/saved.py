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

from graphrf._base import checks
from graphrf._base.files.arrays import read_record, whole_file, write_record
from graphrf.gp.conditioning import Conditions
from graphrf.gp.inference.mean_function import Covariates, MeanFunction, column_names
from graphrf.gp.inference.observations import Observations
from graphrf.gp.likelihoods import LIKELIHOODS, Likelihood
from graphrf.gp.prior import HyperparameterPrior, PenalisedMixing
from graphrf.gp.settings import checked_hyperprior, checked_settings
from graphrf.gp.training.comparison import CandidateKernel
from graphrf.gp.training.grid import GridCell
from graphrf.graph.folder import decoded_name, encoded_name
from graphrf.graph.graph import Graph, require_graph
from graphrf.kernels.areal import BYM2, CAR, ICAR
from graphrf.kernels.given import LearnedModulation, PowerSeries
from graphrf.kernels.kernel import require_kernel
from graphrf.kernels.named import Diffusion, InverseCosine, Leroux, Matern, PStepRandomWalk, RegularizedLaplacian
from graphrf.kernels.precision.precision import require_sparse_precision
from graphrf.sampling.powers.powers import CompressedPowers, CutPowers, ExactPowers
from graphrf.sampling.sample import require_sampler
from graphrf.sampling.walks.auto_lengths import AutoLengths
from graphrf.sampling.walks.coupling import Coupling
from graphrf.sampling.walks.lengths import IID, Antithetic, SigmaCoupled, Stratified, Survival, Truncated
from graphrf.sampling.walks.random_walks import RandomWalks

# Files of the first format have no points.
_FORMAT, _FORMER = "graphrf regressor 2", "graphrf regressor 1"
_WRITER = "GraphGPRegressor.save"
_CLASSES: dict[str, type[Any]] = {
    known.__name__: known
    for known in (
        *(Diffusion, InverseCosine, LearnedModulation, Matern, PowerSeries, PStepRandomWalk, RegularizedLaplacian),
        *(ICAR, CAR, Leroux, BYM2),
        *(IID, Antithetic, SigmaCoupled, Stratified, Truncated, Survival, AutoLengths, Coupling),
        *(RandomWalks, CompressedPowers, CutPowers, ExactPowers),
        *(Decimal, Fraction, HyperparameterPrior, PenalisedMixing),
        *LIKELIHOODS.values(),
    )
}
_RECORD = {
    *("format", "settings", "fitted", "kernel", "sampler", "within", "n_total", "log_precisions", "points"),
    "candidates",
    *("graph", "names", "x_names"),
}
_POINT = ("amplitude", "output_scale", "noise", "weight")
_UNWRITTEN = ("graph", "draw", "sample_features")  # the first is written apart
_LARGEST = 1e150  # of numbers whose squares are summed
_LARGEST_VARIANCE = 1e290  # that fits find, from squares of what is observed
_OBSERVED = ("nodes", "counts", "means")
_OF_POINTS = ("point_counts", "point_means")
_NAMELESS = "pass graph=False and keep the graph yourself"
_GRAPH = ("indptr", "indices", "weights")
_PLAIN = (
    "single",
    "output_scale",
    "noise",
    "mean_variance",
    "seed",
    "log_marginal_likelihood",
    "trained",
    "sparse",
    "mean_precision",
    "likelihood",
)
# What files of before do not say.
_FORMER_PLAIN = {"sparse": False, "mean_precision": 0.0, "likelihood": None}


class Saved:
    """What a regressor has of files."""

    def save(self: Any, path: str | os.PathLike[str], *, graph: bool = True) -> None:
        """Write the fitted regressor to a file, without pickle; the file appears whole or not at all.

        `draw` is not written: what is loaded draws all rows in its own process.

        Parameters
        ----------
        path : path
            Of an .npz file: settings and hyperparameters as JSON, observations and graph as arrays.
        graph : bool
            Whether the graph is in the file. Without it `load` must be given the same one.

        Raises
        ------
        TypeError
            For kernels, samplers and distributions of lengths that are not graphrf's own, and for nodes' names
            that are neither text, numbers nor tuples of them.

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
        with_graph = checks.flag("graph", graph)
        settings = {name: value for name, value in self.get_params(deep=False).items() if name not in _UNWRITTEN}
        if isinstance(self.prior, Mapping):
            settings["prior"] = checked_hyperprior(self.prior)
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
            If the file does not exist or is incomplete, or if `graph` is a different graph.

        Notes
        -----
        Nothing is trained; the solve of the posterior is done again, so the file holds no matrices.
        """
        loaded, given, mean = _read(path, graph, cls)
        with whole_file(path, _WRITER):
            return loaded._condition(given, mean)


def _write(
    path: str | os.PathLike[str], settings: Mapping[str, Any], given: Conditions, graph: Graph, with_graph: bool
) -> None:
    """Write settings (all but the graph) and conditions, with or without the graph, as one .npz file."""
    arrays = {name: getattr(given.observations, name) for name in _OBSERVED} | {"offset": given.offset}
    settings = dict(settings)
    names = None
    if not isinstance(settings["mean"], str):
        mean = settings.pop("mean")
        arrays["covariates"] = np.asarray(mean, dtype=np.float64)
        names = column_names(mean, arrays["covariates"].reshape(graph.n_nodes, -1).shape[1])
    if given.covariates is not None:
        arrays["x"], names = given.covariates.values[given.observations.nodes], given.covariates.names
    if given.points and given.likelihood is not None:
        own = [point.observations for point in given.points]
        arrays |= {f"point_{name}": np.array([getattr(each, name) for each in own]) for name in _OBSERVED[1:]}
    record = {
        "format": _FORMAT,
        "x_names": None if names is None else list(names),
        "settings": {name: encoded(name, value) for name, value in settings.items()},
        "fitted": {name: encoded(name, getattr(given, name)) for name in _PLAIN},
        "kernel": encoded("kernel", given.kernel),
        "sampler": encoded("sampler", given.sampler),
        "within": float(given.observations.within),
        "n_total": int(given.observations.n_total),
        "log_precisions": float(given.observations.log_precisions),
        "points": [
            {"kernel": encoded("kernel", point.kernel), "likelihood": encoded("likelihood", point.likelihood)}
            | {name: getattr(point, name) for name in _POINT}
            for point in given.points
        ],
        "candidates": [[encoded("kernel", kernel), *numbers] for kernel, *numbers in given.candidates],
        "graph": graph.digest,
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
    path = checks.path("path", path)
    if graph is not None:
        require_graph(graph)
    with whole_file(path, _WRITER):
        record, arrays = read_record(path, _FORMAT, _FORMER)
        if record["format"] == _FORMER:
            counts = _real("counts", arrays["counts"], 1)
            record |= {"n_total": int(counts.sum()), "log_precisions": 0.0, "points": [], "candidates": []}
        record = {"x_names": None} | record
        if set(record) != _RECORD or set(arrays) - {
            *_OBSERVED, *_OF_POINTS, "offset", "covariates", "x", *_GRAPH
        }:  # fmt: skip
            raise ValueError("its contents are not those of a regressor")
        if graph is None and "weights" in arrays:
            graph = read_graph(arrays, record["names"])
            if graph.digest != record["graph"]:
                raise ValueError("its graph is damaged")
        settings = {name: decoded(value) for name, value in record["settings"].items()}
        if "covariates" in arrays:
            settings["mean"] = _real("covariates", arrays["covariates"], arrays["covariates"].ndim)
        known = _FORMER_PLAIN | record["fitted"]
        fitted = {name: decoded(known[name]) for name in _PLAIN}
        kernel, sampler = require_kernel(decoded(record["kernel"])), decoded(record["sampler"])
        offset, digest = _real("offset", arrays["offset"], 1), str(record["graph"])
    if graph is None:
        raise checks.value_error("graph", f"must be given, because {path!r} was saved without it")
    if graph.digest != digest:
        raise checks.value_error(
            "graph", f"must be the graph that {path!r} was fitted on, got another one, {graph!r}"
        )
    with whole_file(path, _WRITER):
        if settings.get("seed") is not None:
            checks.seed(settings["seed"])
        regressor = make(graph, **settings)
        checked_settings(regressor)
        nodes, counts, means, within = _observed(arrays, record["within"], graph.n_nodes)
        covariates, names = None, tuple(map(str, record["x_names"] or ()))
        if "x" in arrays:
            rows = _real("x", arrays["x"], 2)
            if rows.shape != (nodes.size, len(names)):
                raise ValueError("its arrays are inconsistent")
            covariates = Covariates.at(nodes, rows, names, graph.n_nodes)
        mean = MeanFunction.of(settings["mean"], graph.n_nodes, nodes, covariates)
        if names and len(names) != mean.width.size:
            raise ValueError("its arrays are inconsistent")
        mean = mean._replace(names=names or mean.names)
        if means.shape[1:] != offset.shape:
            raise ValueError("its arrays are inconsistent")
        n_total = checks.integer("n_total", record["n_total"], low=nodes.size)
        log_precisions = checks.number("log_precisions", record["log_precisions"])
        observations = Observations(nodes, counts, means, within, mean.basis[nodes], n_total, log_precisions)
        points = [_point(point) for point in record["points"]]
        if fitted["likelihood"] is not None:
            points = _with_observations(points, observations, arrays)
        if points and abs(sum(point.weight for point in points) - 1) > 1e-9:
            raise ValueError("the probabilities of its points do not sum to 1")
        candidates = [
            CandidateKernel(
                require_kernel(decoded(own)),
                float(evidence),
                float(probability),
                float(rest[0]) if rest and rest[0] is not None else None,
            )
            for own, evidence, probability, *rest in record["candidates"]  # older files have no more
        ]
        given = Conditions(
            observations,
            offset,
            kernel=kernel,
            sampler=sampler,
            points=points,
            candidates=candidates,
            covariates=covariates,
            **fitted,
        )
        _check_fitted(regressor, given)
        return regressor, given, mean


def read_graph(arrays: Mapping[str, np.ndarray], names: Any) -> Graph:
    """The graph of a file."""
    indptr, indices, weights = (arrays[name] for name in _GRAPH)
    if (indptr.dtype.kind, indices.dtype.kind) != ("i", "i") or weights.dtype != np.float64 or indptr.size < 2:
        raise ValueError("its graph has arrays of other types than are written")
    size = indptr.size - 1
    # scipy looks at no index of a matrix whose last pointer is negative, and then writes anywhere.
    if not (
        indptr.shape == (size + 1,)
        and indices.shape == weights.shape == (indices.size,)
        and (int(indptr[0]), int(indptr[-1])) == (0, indices.size)
        and (indptr[1:] >= indptr[:-1]).all()
        and (indices.size == 0 or (int(indices.min()) >= 0 and int(indices.max()) < size))
    ):
        raise ValueError("its graph has arrays that are inconsistent")
    matrix = sp.csr_array((weights, indices, indptr), shape=(size, size))
    return Graph(matrix, nodes=None if names is None else [decoded_name(name) for name in names])


def _real(name: str, array: np.ndarray, n_axes: int) -> np.ndarray:
    """An array of a file, once it is known to hold finite float64 numbers whose squares do, too."""
    if array.dtype != np.float64 or array.ndim != n_axes:
        raise checks.value_error(name, f"must be float64 with {n_axes} axes, got {checks.describe(array)}")
    if array.size and float(np.abs(checks.finite(name, array)).max()) > _LARGEST:
        raise checks.value_error(name, f"must be at most {_LARGEST:g}, whose squares leave float64")
    return array


def _observed(
    arrays: Mapping[str, np.ndarray], within: Any, n_nodes: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Nodes, counts, means and the sum of squares within nodes, once they can be those of observations."""
    nodes, counts, means = (
        arrays["nodes"],
        _real("counts", arrays["counts"], 1),
        _real("means", arrays["means"], 2),
    )
    if nodes.dtype != np.int64 or nodes.ndim != 1 or nodes.size == 0 or means.shape[1] == 0:
        raise ValueError("its arrays are not those of observations")
    if not nodes.shape == counts.shape == means.shape[:1]:
        raise ValueError("its arrays are inconsistent")
    if nodes[0] < 0 or nodes[-1] >= n_nodes or (nodes[1:] <= nodes[:-1]).any():
        raise checks.value_error("nodes", f"must increase from 0 to {n_nodes - 1} at most")
    if (counts <= 0).any():
        raise checks.value_error("counts", "must be positive")
    return nodes, counts, means, checks.number("within", within, low=0)


def _point(record: Mapping[str, Any]) -> GridCell:
    """Hyperparameters of a file, once they can be such."""
    numbers = {name: checks.number(name, record[name], low=0, include_low=False) for name in _POINT}
    amplitude, output_scale, noise, weight = (numbers[name] for name in _POINT)
    kernel, likelihood = require_kernel(decoded(record["kernel"])), decoded(record.get("likelihood"))
    return GridCell(kernel, amplitude, output_scale, noise, weight, likelihood)


def _with_observations(
    points: list[GridCell], observations: Observations, arrays: Mapping[str, np.ndarray]
) -> list[GridCell]:
    """Points of a file with the observations that give the approximation of each."""
    if not points:
        return points
    counts, means = (_real(name, arrays[name], axes) for name, axes in zip(_OF_POINTS, (2, 3), strict=True))
    if counts.shape != (len(points), observations.nodes.size) or means.shape != (*counts.shape, 1):
        raise ValueError("its arrays are inconsistent")
    if (counts <= 0).any():
        raise checks.value_error("point_counts", "must be positive")
    for point in points:
        if not isinstance(point.likelihood, Likelihood) or point.likelihood.unknown:
            raise ValueError("the likelihood of a point is not a fitted one")
    return [
        point._replace(observations=observations._replace(counts=own, means=values))
        for point, own, values in zip(points, counts, means, strict=True)
    ]


def _check_fitted(regressor: Any, given: Conditions) -> None:
    """Raise unless what a fit finds is what it can find, and suits the regressor's settings."""
    for name in ("single", "trained", "sparse"):
        checks.flag(name, getattr(given, name))
    for name in ("output_scale", "noise"):
        checks.number(name, getattr(given, name), low=1 / _LARGEST_VARIANCE, high=_LARGEST_VARIANCE)
    checks.number("mean_variance", given.mean_variance, low=0, include_low=False)
    checks.number("output_scale", given.amplitude, low=0, include_low=False)
    for noise in (given.noise, *(point.noise for point in given.points)):
        if noise > _LARGEST * min(1.0, float(given.observations.counts.min())):
            raise checks.value_error("noise", f"over `counts` must be at most {_LARGEST:g}")
    checks.number("mean_precision", given.mean_precision, low=0)
    if given.likelihood is not None and (
        not isinstance(given.likelihood, Likelihood) or given.likelihood.unknown or not given.mean_precision
    ):
        raise ValueError("its likelihood is not a fitted one")
    checks.seed(checks.integer("seed", given.seed))
    checks.number("log_marginal_likelihood", given.log_marginal_likelihood)
    if given.single and given.observations.n_outputs != 1:
        raise checks.value_error("single", "must be false for several outputs")
    if given.sparse:
        for kernel in (given.kernel, *(point.kernel for point in given.points)):
            require_sparse_precision(kernel)
    if given.sampler is None:
        return
    if given.sparse:
        raise ValueError("it has both a sparse precision and a sampler")
    if require_sampler(given.sampler).laplacian != given.kernel.laplacian:
        raise ValueError("its sampler and its kernel are of different Laplacians")


def encoded(name: str, value: Any) -> Any:
    """A setting as JSON knows it: plain values, and graphrf's own objects by class name and arguments."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [encoded(name, part) for part in value]
    if _CLASSES.get(type(value).__name__) is not type(value):
        raise TypeError(
            f"`{name}` must be made of graphrf's own kernels, samplers and distributions of lengths to be saved, "
            f"got {checks.describe(value)}; save its arguments yourself, and fit again"
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
        "arguments": {key: encoded(name, part) for key, part in arguments.items()},
    }


def decoded(value: Any) -> Any:
    """What `encoded` was given. Only the classes of `_CLASSES` are made, with all their arguments at hand."""
    if isinstance(value, dict):
        if set(value) != {"class", "arguments"} or value["class"] not in _CLASSES:
            raise ValueError(f"it names no class of graphrf: {checks.describe(value)}")
        made = _CLASSES[value["class"]]
        arguments = {name: decoded(part) for name, part in value["arguments"].items()}
        if made in (Decimal, Fraction):
            return _exact_number(made, *arguments.values())
        # Defaults may cost what the file does not: a modulation of 10^9 terms from one number.
        if dataclasses.is_dataclass(made) and made not in (PowerSeries, SigmaCoupled, HyperparameterPrior):
            missing = {field.name for field in dataclasses.fields(made) if field.init} - set(arguments)
            if missing:
                raise ValueError(f"its {value['class']} lacks {', '.join(sorted(missing))}")
        return made(**arguments)
    if isinstance(value, list):
        return [decoded(part) for part in value]
    return value


def _exact_number(made: Callable[[str], Any], text: Any) -> Any:
    """A Decimal or Fraction that float64 holds, too: 1e999999999 as a fraction would fill the memory."""
    exponent = Decimal(str(text).partition("/")[0]).adjusted()
    if not isinstance(text, str) or not -400 <= exponent <= 400:
        raise ValueError(f"it holds a number beyond float64, {checks.describe(text)}")
    return made(text)
