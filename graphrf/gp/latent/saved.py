"""Files of latent Gaussian models: terms, fixed effects, observations and the posterior."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from functools import reduce
from operator import mul
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from graphrf._base import checks
from graphrf.gp.fields.mesh_file import MeshFile
from graphrf.gp.files.graphs import GraphFile
from graphrf.gp.files.labels import decoded_labels, encoded_labels
from graphrf.gp.files.objects import attributes, check_probabilities, decoded, encoded, real
from graphrf.gp.files.saved import Saved, title_of
from graphrf.gp.latent.data import Data
from graphrf.gp.latent.design import Design
from graphrf.gp.latent.exploration import Sample
from graphrf.gp.latent.expressions import decoded_expression
from graphrf.gp.latent.posterior import Gaussian, posterior_at
from graphrf.gp.metric.street_file import StreetFile
from graphrf.gp.model.responses import checked_responses
from graphrf.gp.posterior.approximation.expectation_propagation import Sites
from graphrf.gp.terms.covariate import Covariate
from graphrf.gp.terms.field import Field
from graphrf.gp.terms.groups import Groups
from graphrf.gp.terms.joint import Joint
from graphrf.gp.terms.nodes import Nodes
from graphrf.gp.terms.steps import Steps
from graphrf.gp.terms.term import BoundTerm, ProductTerm, Term, VaryingCoefficient
from graphrf.graph.disk.folder import decoded_name

_TERMS: dict[str, type[Term | Covariate]] = {
    term.__name__: term for term in (Nodes, Steps, Groups, Field, Covariate)
}
_PLAIN = ("formula", "likelihood", "hyperparameters", "coefficient_deviation", "seed", "progress")
_FITTED = ("seed_", "log_marginal_likelihood_", "converged_", "warnings_")
# Columns of the frame, or numbers for each of its rows, in the order of `checked_responses`.
BESIDE = ("exposure", "trials", "event")


class SavedModel(Saved):
    """The contents of a file; the formula in it is text, and nothing of it is evaluated."""

    _format = "graphrf latent Gaussian model 4"
    _graph_files: ClassVar[tuple[type[GraphFile], ...]] = (GraphFile, StreetFile, MeshFile)

    def _graphs(self: Any) -> list[Any]:
        return _Shared.of(self._given_terms()).graphs

    def _saved(self: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        shared = _Shared.of(self._given_terms())
        cells, arrays = {}, {}
        for number, name in enumerate(self._frame.columns):
            cells[str(name)], arrays[f"cells{number}"] = _factored(name, self._frame[name].tolist())

        index: dict[str, Any] = {"titles": [title_of(name) for name in self._frame.index.names]}
        if type(self._frame.index).__name__ != "RangeIndex":
            index["labels"], arrays["index"] = _factored("frame.index", self._frame.index.tolist())

        numbers = {name: values for name, values in self._beside.items() if values is not None}
        record = {
            "settings": {**attributes(self, _PLAIN), "prior": _encoded_prior(self.prior)},
            "given": {
                name: value for name in BESIDE if isinstance(value := getattr(self, name), str)
            },
            "terms": [_described(term, shared) for term in shared.terms],
            "sum": [shared.places(term) for term in self._given_terms()],
            "kernels": [encoded("kernel", kernel) for kernel in shared.kernels],
            "cells": cells,
            "index": index,
            "response": self._response.encoded(),
            "design": self._design.encoded(),
            "fitted": attributes(self, _FITTED),
        }

        arrays |= {
            f"{name}_": np.broadcast_to(values, (len(self._frame),))
            for name, values in numbers.items()
        }
        return record, {**arrays, "observed": self._observations, **self._posterior_arrays()}

    @classmethod
    def _restored(
        cls, graphs: list[Any], record: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
    ) -> Self:
        shared = _Shared([], graphs, [decoded(contents) for contents in record["kernels"]])
        shared.terms.extend(_made(contents, shared) for contents in record["terms"])
        terms = [shared.sum_of(places) for places in record["sum"]]

        numbers = {
            name: real(name, arrays[f"{name}_"], 1) for name in BESIDE if f"{name}_" in arrays
        }
        settings = {name: decoded(record["settings"][name]) for name in _PLAIN}
        prior = record["settings"]["prior"]
        if isinstance(prior, dict):
            prior = {name: decoded(value) for name, value in prior.items()}
        settings["prior"] = prior
        given = {
            **numbers,
            **{name: str(value) for name, value in record["given"].items() if name in BESIDE},
        }

        model_class: Any = cls
        model = model_class(terms=terms, **settings, **given)
        model._restore(record, arrays, terms, numbers)
        return model

    def _restore(
        self: Any,
        record: Mapping[str, Any],
        arrays: Mapping[str, np.ndarray],
        terms: list[Term],
        numbers: Mapping[str, np.ndarray],
    ) -> None:
        """Set what a fit sets, once the contents of a file can be those of one."""
        _, likelihood = self._checked()
        observed = real("observed", arrays["observed"], 1)
        y, offset = checked_responses(
            likelihood, observed.size, observed, *map(numbers.get, BESIDE)
        )

        priors = self._stated_priors(likelihood)
        data = Data(y, offset, likelihood, likelihood.unit(y), priors)
        design = Design.decoded(record["design"], arrays["matrix"])
        frame = _frame(record, arrays, observed.size)
        if len(design.matrix) != observed.size:
            raise ValueError("its design is not that of its observations")
        bound = [BoundTerm.of(term, frame, number, data.unit) for number, term in enumerate(terms)]

        self._frame, self._response = frame, decoded_expression(record["response"])
        self._observations, self._beside = observed, {name: numbers.get(name) for name in BESIDE}

        self._bind(bound, design, data, [each.rows(frame) for each in bound])

        for name in _FITTED:
            setattr(self, name, record["fitted"][name])
        self.warnings_ = [str(each) for each in self.warnings_]
        checks.seed(checks.integer("seed_", self.seed_))
        checks.number("log_marginal_likelihood_", self.log_marginal_likelihood_)
        checks.flag("converged_", self.converged_)
        self._restore_posterior(arrays)

    def _posterior_arrays(self: Any) -> dict[str, np.ndarray]:
        """The design, and arrays from which the posterior is made again."""
        points = self._points
        return {
            "matrix": self._design.matrix,
            "vectors": np.array([each.vector for each in points]),
            "means": np.array([each.mean for each in points]),
            "precisions": np.array([each.sites.precision for each in points]),
            "shifts": np.array([each.sites.shift for each in points]),
            "probabilities": self._probabilities,
            "sample": self._sample.vectors,
            "shares": self._sample.weights,
        }

    def _restore_posterior(self: Any, arrays: Mapping[str, np.ndarray]) -> None:
        """Set the posterior of a file, once it can be one, by a factorisation for each point."""
        n, m, box = self._joint.n, self._data.offset.size, self._box()
        vectors, means, precisions, shifts = (
            real(name, arrays[name], 2) for name in ("vectors", "means", "precisions", "shifts")
        )
        sample, shares = real("sample", arrays["sample"], 2), real("shares", arrays["shares"], 1)
        probabilities = real("probabilities", arrays["probabilities"], 1)

        k = probabilities.size
        if (vectors.shape, means.shape, precisions.shape, shifts.shape) != (
            (k, len(box)),
            (k, n),
            (k, m),
            (k, m),
        ):
            raise ValueError("its arrays are inconsistent")
        if sample.shape != (shares.size, len(box)) or (precisions <= 0).any():
            raise ValueError("its arrays are not those of a posterior")

        for coordinates in (vectors, sample[shares > 0]):
            if (np.clip(coordinates, *box.T) != coordinates).any():
                raise ValueError("its hyperparameters are outside of what is searched")

        for weights in (probabilities, shares):
            check_probabilities(weights.tolist())
            if (weights < 0).any():
                raise checks.value_error("probabilities", "must not be negative")

        try:
            self._points = [
                _point(self._joint, self._data, *point)
                for point in zip(vectors, means, precisions, shifts, strict=True)
            ]
        except np.linalg.LinAlgError as error:
            raise ValueError(f"its posterior cannot be had: {error}") from error

        self._probabilities, self._sample = probabilities, Sample(sample, shares)
        self.coefficients_ = self.summary().iloc[: len(self._design.names)]


def _point(
    joint: Joint,
    data: Data,
    vector: np.ndarray,
    mean: np.ndarray,
    precision: np.ndarray,
    shift: np.ndarray,
) -> Gaussian:
    """The posterior at a point, by one factorisation."""
    point = posterior_at(joint, data, vector, Sites(precision, shift), rounds=False)
    eta = point.eta._replace(mean=joint.a @ mean)

    with np.errstate(over="ignore", invalid="ignore"):
        answers = point.likelihood.moments(eta.mean, eta.variance)
    if not np.isfinite(answers).all():
        raise ValueError("its posterior has no moments")
    return point._replace(mean=mean, eta=eta)


class _Shared(NamedTuple):
    """Factors of terms, graphs and kernels, each once, so that terms still share them."""

    terms: list[Term | Covariate]
    graphs: list[Any]
    kernels: list[Any]

    @classmethod
    def of(cls, terms: list[Term]) -> _Shared:
        """Those of some terms."""
        made = cls([], [], [])
        for term in terms:
            for leaf in _factors(term):
                _place(leaf, made.terms)
                for field, known in made.fields.items():
                    if hasattr(leaf, field):
                        _place(getattr(leaf, field), known)
        return made

    @property
    def fields(self) -> dict[str, list[Any]]:
        """The fields of terms that hold graphs and kernels, and these."""
        return {"graph": self.graphs, "domain": self.graphs, "kernel": self.kernels}

    def places(self, term: Term) -> list[int]:
        """The places of a term's factors."""
        return [_place(leaf, self.terms) for leaf in _factors(term)]

    def sum_of(self, places: Any) -> Term:
        """The term of these factors."""
        leaves: list[Any] = [self.terms[checks.integer("term", place, low=0)] for place in places]
        if len(leaves) not in (1, 2, 3) or not isinstance(leaves[-1], Term):
            raise ValueError("its terms have other factors than are written")
        term: Term = reduce(mul, leaves)
        return term


def _factors(term: Term) -> list[Term | Covariate]:
    """The factors of a term."""
    if isinstance(term, VaryingCoefficient):
        return [term.column, *_factors(term.term)]
    return [term.first, term.second] if isinstance(term, ProductTerm) else [term]


def _place(value: Any, known: list[Any]) -> int:
    """The place of an object in a list, to which it is added if it is not there."""
    for place, each in enumerate(known):
        if each is value:
            return place
    known.append(value)
    return len(known) - 1


def _described(term: Term | Covariate, shared: _Shared) -> dict[str, Any]:
    """A term as JSON knows it; graphs and kernels by their numbers."""
    if _TERMS.get(type(term).__name__) is not type(term):
        raise checks.type_error("terms", f"must be terms of graphrf to be saved, got {term!r}")

    arguments: dict[str, Any] = {}
    for field in dataclasses.fields(term):  # type: ignore[arg-type]
        value, known = getattr(term, field.name), shared.fields.get(field.name)
        if known is not None:
            arguments[field.name] = _place(value, known)
        elif field.name == "prior" and value is not None:
            arguments["prior"] = {name: encoded("prior", prior) for name, prior in value.items()}
        else:
            arguments[field.name] = encoded(field.name, value)
    return {"class": type(term).__name__, "arguments": arguments}


def _made(described: Mapping[str, Any], shared: _Shared) -> Term | Covariate:
    """The term that `_described` was given."""
    made = _TERMS[described["class"]]
    arguments = dict(described["arguments"])
    if missing := {field.name for field in dataclasses.fields(made)} - set(arguments):  # type: ignore[arg-type]
        raise ValueError(f"its {described['class']} lacks {', '.join(sorted(missing))}")

    for name, value in arguments.items():
        known = shared.fields.get(name)
        if known is not None:
            arguments[name] = known[checks.integer(name, value, low=0)]
        elif name == "prior" and value is not None:
            arguments["prior"] = {key: decoded(prior) for key, prior in value.items()}
        else:
            arguments[name] = tuple(value) if name == "fixed" else decoded(value)

    return made(**arguments)


def _factored(column: Any, cells: list[Any]) -> tuple[list[Any], np.ndarray]:
    """The distinct cells of a column as JSON knows them, and the number of that in each row."""
    table: dict[Any, int] = {}
    distinct: list[Any] = []
    numbers = np.empty(len(cells), dtype=np.int64)
    for row, cell in enumerate(cells):
        try:
            key: Any = (type(cell), cell)
            known = table.get(key)
        except TypeError:  # lists and dictionaries
            key = json.dumps(encoded_labels(str(column), [cell]))
            known = table.get(key)
        if known is None:
            known = table[key] = len(distinct)
            distinct.append(cell)

        numbers[row] = known

    return encoded_labels(str(column), distinct), numbers


def _frame(record: Mapping[str, Any], arrays: Mapping[str, np.ndarray], n: int) -> Any:
    """The columns of the data of the fit that terms read."""
    import pandas

    def column(labels: Any, numbers: np.ndarray) -> np.ndarray:
        known = np.empty(len(labels), dtype=object)
        known[:] = decoded_labels(labels)
        if numbers.dtype != np.int64 or numbers.shape != (n,) or (n and (numbers.min() < 0)):
            raise ValueError("its cells are not those of its observations")
        return np.asarray(known[numbers])

    names = [decoded_name(name) for name in record["index"]["titles"]]
    index = pandas.RangeIndex(n, name=names[0])
    if "index" in arrays:
        labels = column(record["index"]["labels"], arrays["index"])
        index = (
            pandas.MultiIndex.from_tuples(labels.tolist(), names=names)
            if len(names) > 1
            else pandas.Index(labels, name=names[0], tupleize_cols=False)
        )

    made = {
        name: pandas.Series(column(labels, arrays[f"cells{k}"]), index=index, dtype=object)
        for k, (name, labels) in enumerate(record["cells"].items())
    }
    return pandas.DataFrame(made, index=index)


def _encoded_prior(prior: Any) -> Any:
    """The model's prior as JSON knows it."""
    if not isinstance(prior, Mapping):
        return prior
    return {name: encoded("prior", value) for name, value in prior.items()}
