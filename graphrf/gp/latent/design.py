"""The matrix of fixed effects: what a formula stands for, once it is read for the data of a fit."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np

from graphrf._base import checks
from graphrf.gp.files.labels import decoded_labels, encoded_labels
from graphrf.gp.files.objects import real
from graphrf.gp.latent.columns import codes, numbers, plain, require_columns, require_finite
from graphrf.gp.latent.expressions import Expression, decoded_expression

# A design of smaller rank than columns has a singular value below this fraction of the largest.
_RANK = 1e-10
# The tolerance of a constant.
_CONSTANT = 1e-8
# Values of a column of numbers along which its effect is drawn, at most.
_ALONG = 50


class Factor(NamedTuple):
    """A part of a formula that gives columns: numbers, or levels with a row of `coding` each."""

    text: str
    expression: Expression
    levels: list[Hashable] | None
    coding: tuple[np.ndarray, np.ndarray] | None  # of full and of reduced rank, (levels, columns)

    def columns(self, frame: Any, reduced: bool) -> list[np.ndarray]:
        """Its columns for the rows of a data frame."""
        if self.coding is not None:
            return list(self.coding[reduced][self.codes(frame)].T)
        values = self._numbers(frame)
        # numbers that are reduced span the constant together, and the first is left out
        return [values] if values.ndim == 1 else list(values.T)[int(reduced) :]

    def codes(self, frame: Any) -> np.ndarray:
        """The position among its levels of each row of a data frame."""
        column = self.expression.value if self.expression.kind == "column" else None
        values = self._numbers(frame) if column is None else plain(frame, column)
        return codes(frame, self.text, values, self.levels or [], column)

    def _numbers(self, frame: Any) -> np.ndarray:
        """Its numbers for each row of a data frame."""
        try:
            values = np.asarray(self.expression(partial(numbers, frame)))
        except ValueError as error:
            raise checks.value_error(
                "frame", f"does not fit {self.text!r} of the formula, which {error}"
            ) from error
        whole = np.broadcast_to(values, (len(frame), *values.shape[1:]))
        return require_finite(frame, self.text, whole)


class Product(NamedTuple):
    """Products of the columns of factors: their places, whether each is reduced, and a scale."""

    factors: tuple[tuple[int, bool], ...]
    scale: float


class Design(NamedTuple):
    """The matrix of fixed effects for the data of a fit, and how it is made for other data."""

    matrix: np.ndarray
    names: tuple[str, ...]
    factors: tuple[Factor, ...]
    products: tuple[Product, ...]
    spans: Mapping[str, list[Hashable]]  # values of each column along which its effect is drawn

    @classmethod
    def of(
        cls,
        factors: Sequence[Factor],
        products: Sequence[Product],
        names: Sequence[str],
        frame: Any,
    ) -> Design:
        """The design for a data frame; ValueError if a column is a combination of others."""
        parts = tuple(names), tuple(factors), tuple(products)
        made = cls(np.zeros((len(frame), 0)), *parts, {})
        matrix = made.rows(frame)
        made = made._replace(spans={name: _span(frame, name) for name in sorted(made.columns)})
        if names:
            require_rank(matrix, made.names)
        return made._replace(matrix=matrix)

    @property
    def columns(self) -> set[str]:
        """The columns of a data frame that it reads."""
        return set().union(*(each.expression.columns for each in self.factors))

    @property
    def constant(self) -> np.ndarray | None:
        """Coefficients whose sum of columns is 1 in every row; None where there are none."""
        if not self.names:
            return None
        ones = np.ones(self.matrix.shape[0])
        width = np.maximum(np.abs(self.matrix).max(axis=0), 1e-300)
        result = np.linalg.lstsq(self.matrix / width, ones, rcond=None)[0] / width
        return result if np.abs(ones - self.matrix @ result).max() < _CONSTANT else None

    def rows(self, frame: Any) -> np.ndarray:
        """The matrix for a data frame, shape (m, p)."""
        require_columns(frame, self.columns, "the formula")
        kept: dict[tuple[int, bool], list[np.ndarray]] = {}
        columns: list[np.ndarray] = []
        for product in self.products:
            for key in product.factors:
                if key not in kept:
                    kept[key] = self.factors[key[0]].columns(frame, key[1])
            # as formulaic orders them, those of the first factor change first
            for parts in itertools.product(*(kept[key] for key in reversed(product.factors))):
                columns += [reduce(np.multiply, parts[::-1], np.full(len(frame), product.scale))]
        return np.column_stack(columns) if columns else np.zeros((len(frame), 0))

    def along(self, column: str) -> np.ndarray:
        """The rows for the values of a column less the mean of those of the fit, shape (m, p);
        ValueError if its effect depends on other columns.
        """
        for product in self.products:
            read = set().union(*(self.factors[k].expression.columns for k, _ in product.factors))
            if column in read and len(read) > 1:
                raise checks.value_error(
                    "term",
                    f"= {column!r} has an effect that depends on "
                    f"{', '.join(map(repr, sorted(read - {column})))}: predict(frame, latent=True) "
                    "draws it for a frame of both",
                )
        import pandas

        values = self.spans[column]
        frame = {name: [own[0]] * len(values) for name, own in self.spans.items()}
        rows = self.rows(pandas.DataFrame(frame | {column: values}))
        return np.where(np.ptp(rows, axis=0) > 0, rows - self.matrix.mean(axis=0), 0.0)

    def encoded(self) -> dict[str, Any]:
        """The design as JSON knows it, without its matrix."""
        factors = [
            {
                "text": each.text,
                "expression": each.expression.encoded(),
                "levels": None if each.levels is None else encoded_labels(each.text, each.levels),
                "coding": None if each.coding is None else [part.tolist() for part in each.coding],
            }
            for each in self.factors
        ]
        products = [[[list(key) for key in each.factors], each.scale] for each in self.products]
        spans = {name: encoded_labels(name, values) for name, values in self.spans.items()}
        return {"factors": factors, "products": products, "names": list(self.names), "spans": spans}

    @classmethod
    def decoded(cls, record: Mapping[str, Any], matrix: np.ndarray) -> Design:
        """The design that a file has, with its matrix; an error for any other record."""
        factors = tuple(_factor(each) for each in record["factors"])
        products = tuple(
            Product(_keys(keys, len(factors)), checks.number("scale", s))
            for keys, s in record["products"]
        )
        names = tuple(record["names"])
        if not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
            raise ValueError("its fixed effects have no names")
        if real("design", matrix, 2).shape[1] != len(names):
            raise ValueError("its fixed effects are not those of its design")
        spans = {str(name): decoded_labels(values) for name, values in record["spans"].items()}
        made = cls(matrix, names, factors, products, spans)
        if spans.keys() != made.columns or not all(spans.values()):
            raise ValueError("its columns are not those of its fixed effects")
        return made


def _span(frame: Any, name: str) -> list[Hashable]:
    """All values of a column, or some of many numbers."""
    values = plain(frame, name)
    if values.dtype.kind != "f":
        return list(dict.fromkeys(values.tolist()))
    distinct = np.unique(values)
    if distinct.size > _ALONG:
        distinct = np.linspace(distinct[0], distinct[-1], _ALONG)
    whole = (distinct == np.rint(distinct)).all() and np.abs(distinct).max() < 2**53
    return (distinct.astype(np.int64) if whole else distinct).tolist()


def _keys(keys: Any, n_factors: int) -> tuple[tuple[int, bool], ...]:
    return tuple(
        (
            checks.integer("factor", place, low=0, high=n_factors - 1),
            checks.flag("reduced", reduced),
        )
        for place, reduced in keys
    )


def _factor(record: Mapping[str, Any]) -> Factor:
    """A factor of a file."""
    expression, coding = decoded_expression(record["expression"]), record["coding"]
    levels = None if record["levels"] is None else decoded_labels(record["levels"])
    if (levels is None) != (coding is None):
        raise ValueError("its factors have levels without a coding")
    made = None
    if coding is not None and levels is not None:
        full, reduced = (
            np.array(part, dtype=np.float64).reshape(len(levels), -1) for part in coding
        )
        made = real("coding", full, 2), real("coding", reduced, 2)
        if len(set(levels)) != len(levels):
            raise ValueError("its factors have levels that repeat")
    return Factor(str(record["text"]), expression, levels, made)


def require_rank(matrix: np.ndarray, names: tuple[str, ...]) -> None:
    """ValueError if fixed effects are combinations of one another."""
    scaled = matrix / np.maximum(np.abs(matrix).max(axis=0), 1e-300)
    scaled /= np.maximum(np.linalg.norm(scaled, axis=0), 1e-300)
    _, values, vectors = np.linalg.svd(scaled, full_matrices=False)
    if matrix.shape[0] < matrix.shape[1] or values[-1] < _RANK * values[0]:
        involved = [
            name for name, entry in zip(names, vectors[-1], strict=True) if abs(entry) > 1e-3
        ]
        raise checks.value_error(
            "formula",
            f"has fixed effects of which one is a combination of the others: {', '.join(involved)}",
        )
