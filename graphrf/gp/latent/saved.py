"""Files of latent Gaussian models: settings and columns as JSON, graphs and the posterior as arrays; no pickle."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np

from graphrf._base import checks
from graphrf._base.files.arrays import complete_file, read_record, write_record
from graphrf.gp.files.objects import decoded, encoded
from graphrf.gp.files.saved import Saved
from graphrf.gp.latent.posterior import Gaussian, conditioned
from graphrf.gp.likelihoods.ordinal import Ordinal
from graphrf.gp.likelihoods.real import NormalNoise
from graphrf.gp.metric.graph import MetricGraph
from graphrf.gp.metric.saved import SavedMetric
from graphrf.gp.model.likelihoods import LIKELIHOODS
from graphrf.gp.posterior.approximation.expectation import Sites
from graphrf.gp.terms.along import Along
from graphrf.gp.terms.groups import Groups
from graphrf.gp.terms.nodes import Nodes
from graphrf.gp.terms.parameters import BetaPrior, PenalisedDeviation
from graphrf.gp.terms.steps import Steps
from graphrf.gp.terms.term import ProductTerm, Term
from graphrf.graph.disk.folder import decoded_name, encoded_name
from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel

_FORMAT = "graphrf latent Gaussian model 2"
_TERMS: dict[str, type[Term]] = {known.__name__: known for known in (Nodes, Steps, Groups, Along)}
_PRIORS = {known.__name__: known for known in (PenalisedDeviation, BetaPrior)}
_PLAIN = ("formula", "hyperparameters", "coefficient_deviation", "prior", "seed", "progress")
_WAY_OUT = "rename the levels"


class SavedModel:
    """`save` and `load` of a latent Gaussian model."""

    def save(self: Any, path: str | os.PathLike[str]) -> None:
        """Write the graphs, the columns that the model reads, and the posterior to an .npz file, without pickle.

        The file appears whole or not at all. TypeError for user-defined likelihoods and priors, and for levels
        that are neither text, numbers, dates nor tuples of these.
        """
        self._check_fitted()
        shared = _Shared([], [], [])
        terms = [self.terms] if isinstance(self.terms, Term) else list(self.terms)
        record = {
            "format": _FORMAT,
            "settings": {name: getattr(self, name) for name in _PLAIN},
            "likelihood": _known_likelihood(self.likelihood),
            "terms": [_described(term, shared) for term in terms],
            "kernels": [encoded("kernel", kernel) for kernel in shared.kernels],
            "names": [Saved._encoded_names(graph) for graph in shared.graphs],
            "street_names": [SavedMetric._encoded_names(streets) for streets in shared.streets],
            "columns": {str(name): _cells(self._frame[name]) for name in self._frame.columns},
            "given": {name: _as_json(getattr(self, name)) for name in ("exposure", "trials", "event")},
            "fitted": [self.seed_, self.log_marginal_likelihood_, bool(self.converged_)],
        }
        arrays = {
            **_of_points(self._points),
            **shared.arrays(),
            "probabilities": self._probabilities,
            "mode": self._mode,
            "sample": self._sample.vectors,
            "shares": self._sample.weights,
        }
        write_record(path, record, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The model that `save` wrote, with the same predictions; nothing is trained.

        FileNotFoundError or ValueError if the file does not exist or is incomplete.
        """
        import pandas

        from graphrf.gp.latent.exploration import Sample

        path = checks.path("path", path)
        with complete_file(path, f"{cls.__name__}.save"):
            record, arrays = read_record(path, _FORMAT)
            shared = _Shared(
                [_graph(Saved, k, names, arrays) for k, names in enumerate(record["names"])],
                [decoded(each) for each in record["kernels"]],
                [
                    _graph(SavedMetric, number, names, arrays)
                    for number, names in enumerate(record["street_names"])
                ],
            )
            terms = [_made(each, shared) for each in record["terms"]]
            likelihood = record["likelihood"]
            if not isinstance(likelihood, str):
                likelihood = _likelihoods()[likelihood[0]](**likelihood[1])
            made: Any = cls
            model = made(terms=terms, likelihood=likelihood, **record["given"], **record["settings"])
            columns = {name: _column(*each) for name, each in record["columns"].items()}
            model.seed_, model.log_marginal_likelihood_, model.converged_ = record["fitted"]
            model._prepare(pandas.DataFrame(columns))
            model._points = [
                _point(model, *(arrays[name][k] for name in ("vectors", "means", "precisions", "shifts")))
                for k in range(len(arrays["vectors"]))
            ]
            model._probabilities, model._mode = arrays["probabilities"], arrays["mode"]
            model._sample = Sample(arrays["sample"], arrays["shares"])
            model.coefficients_ = model.summary().iloc[: len(model._design.names)]
        return model


class _Shared(NamedTuple):
    """Objects that several terms may have in common."""

    graphs: list[Graph]
    kernels: list[Kernel]
    streets: list[MetricGraph]

    def of(self, field: str) -> list[Any] | None:
        """The list of the objects that a field of a term holds; None for other fields."""
        lists: dict[str, list[Any]] = {"graph": self.graphs, "kernel": self.kernels, "streets": self.streets}
        return lists.get(field)

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of all graphs and streets, numbered."""
        result: dict[str, np.ndarray] = {}
        for number, graph in enumerate(self.graphs):
            result |= {f"{name}{number}": each for name, each in Saved._graph_arrays(graph).items()}
        for number, streets in enumerate(self.streets):
            result |= {f"{name}{number}": each for name, each in SavedMetric._graph_arrays(streets).items()}
        return result


def _graph(saved: type[Saved], number: int, names: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """The graph, or the streets, of this number in a file."""
    return saved._graph_of({name: arrays[f"{name}{number}"] for name in saved._graph_fields}, names)


def _of_points(points: list[Gaussian]) -> dict[str, np.ndarray]:
    """Arrays from which the posterior at each point is made again."""
    return {
        "vectors": np.array([each.vector for each in points]),
        "means": np.array([each.mean for each in points]),
        "precisions": np.array([each.sites.precision for each in points]),
        "shifts": np.array([each.sites.shift for each in points]),
    }


def _known_likelihood(likelihood: Any) -> Any:
    """A likelihood by name, or by class and parameters."""
    if isinstance(likelihood, str):
        return likelihood
    name = type(likelihood).__name__
    if _likelihoods().get(name) is not type(likelihood):
        raise checks.type_error("likelihood", f"must be a likelihood of graphrf to be saved, got {likelihood!r}")
    return [name, dataclasses.asdict(likelihood)]


def _as_json(value: Any) -> Any:
    """The name of a column, or numbers."""
    return value if value is None or isinstance(value, str) else np.asarray(value, dtype=np.float64).tolist()


def _likelihoods() -> dict[str, type[Any]]:
    known: list[type[Any]] = [NormalNoise, Ordinal, *LIKELIHOODS.values()]
    return {each.__name__: each for each in known}


def _point(model: Any, vector: np.ndarray, mean: np.ndarray, precision: np.ndarray, shift: np.ndarray) -> Gaussian:
    """The posterior at a point, by one factorisation."""
    point = conditioned(model._joint, model._data, vector, Sites(precision, shift), rounds=False)
    return point._replace(mean=mean, fitted=point.fitted._replace(mean=model._joint.a @ mean))


def _described(term: Term, shared: _Shared) -> dict[str, Any]:
    """A term as JSON knows it; graphs and kernels by their numbers, so that those that are shared stay so."""
    if isinstance(term, ProductTerm):
        return {"product": [_described(each, shared) for each in (term.first, term.second)]}
    if _TERMS.get(type(term).__name__) is not type(term):
        raise checks.type_error("terms", f"must be terms of graphrf to be saved, got {term!r}")
    arguments: dict[str, Any] = {}
    for each in dataclasses.fields(term):  # type: ignore[arg-type]
        value = getattr(term, each.name)
        if (known := shared.of(each.name)) is not None:
            value = _number(value, known)
        elif each.name == "prior" and value is not None:
            value = {name: _encoded_prior(prior) for name, prior in value.items()}
        arguments[each.name] = list(value) if isinstance(value, tuple) else value
    return {"class": type(term).__name__, "arguments": arguments}


def _made(described: Mapping[str, Any], shared: _Shared) -> Term:
    """The term that `_described` was given."""
    if "product" in described:
        first, second = (_made(each, shared) for each in described["product"])
        return first * second
    arguments = dict(described["arguments"])
    for name, value in arguments.items():
        if (known := shared.of(name)) is not None:
            arguments[name] = known[value]
    if arguments.get("prior") is not None:
        arguments["prior"] = {name: _decoded_prior(each) for name, each in arguments["prior"].items()}
    if "fixed" in arguments:
        arguments["fixed"] = tuple(arguments["fixed"])
    return _TERMS[described["class"]](**arguments)


def _number(value: Any, known: list[Any]) -> int:
    """The place of an object in a list, to which it is added if it is not there."""
    for place, each in enumerate(known):
        if each is value:
            return place
    known.append(value)
    return len(known) - 1


def _encoded_prior(prior: Any) -> Any:
    if type(prior).__name__ in _PRIORS:
        return {"prior": type(prior).__name__, "arguments": dataclasses.asdict(prior)}
    return encoded("prior", prior)


def _decoded_prior(prior: Any) -> Any:
    if isinstance(prior, dict) and "prior" in prior:
        return _PRIORS[prior["prior"]](**prior["arguments"])
    result = decoded(prior)
    return tuple(result) if isinstance(result, list) else result


def _cells(column: Any) -> list[Any]:
    """A kind of column and its cells: "dates", "cells" of levels, lists and weights, or numbers and text."""
    if column.dtype.kind == "M":
        return ["dates", [str(each) for each in column]]
    cells = []
    for cell in column.tolist():
        if isinstance(cell, dict):
            cells.append({"weights": [[encoded_name(name, _WAY_OUT), float(each)] for name, each in cell.items()]})
        elif isinstance(cell, list):
            cells.append({"mean": [encoded_name(name, _WAY_OUT) for name in cell]})
        else:
            cells.append(encoded_name(cell, _WAY_OUT))
    return ["cells", cells]


def _column(kind: str, cells: list[Any]) -> Any:
    import pandas

    if kind == "dates":
        return pandas.to_datetime(cells)
    result: list[Any] = []
    for cell in cells:
        if isinstance(cell, dict) and "weights" in cell:
            result.append({decoded_name(name): weight for name, weight in cell["weights"]})
        elif isinstance(cell, dict):
            result.append([decoded_name(name) for name in cell["mean"]])
        else:
            result.append(decoded_name(cell))
    series = pandas.Series(result, dtype=object)
    return series if any(isinstance(cell, tuple | list | dict) for cell in result) else series.infer_objects()
