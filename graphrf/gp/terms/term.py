"""Terms of a latent Gaussian model as a user declares them: they add and multiply."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from itertools import product as pairs
from typing import Any, NamedTuple, Self

import scipy.sparse as sp

from graphrf._base import checks
from graphrf._base.memory import require_memory
from graphrf.gp.search.coordinates import Parameter
from graphrf.gp.terms.covariate import Covariate
from graphrf.gp.terms.levels import Extension, LevelAxis, nothing_new
from graphrf.gp.terms.parameters import PenalisedDeviation, checked_prior
from graphrf.gp.terms.structure import Product, Structure, Values
from graphrf.operators.sparse.row_products import row_products

# Bytes of an entry of a product's precision, with the copies that factoring it takes.
_ENTRY = 60.0
# The range of standard deviations, in units of the linear predictor: the default prior,
# `PenalisedDeviation()`, has a probability of 1.5e-4 below it and none above.
_DEVIATIONS = (1e-4, 1e3)


class Term:
    """A part of the linear predictor with its own prior; a base class.

    `a * b` is the Kronecker product of two terms' precisions, `a + b` a list of terms.
    """

    prior: Mapping[str, Any] | None

    def axes(self, frame: Any) -> tuple[LevelAxis, ...]:
        """The term's variables for the levels of a data frame."""
        raise NotImplementedError

    @property
    def label(self) -> str:
        """The columns that it reads, in one word."""
        return ":".join(self.columns)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""
        raise NotImplementedError

    @property
    def deviation_prior(self) -> Any:
        """The prior of the term's standard deviation."""
        return checked_prior("sd", "positive", (self.prior or {}).get("sd", PenalisedDeviation()))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # terms are not changed, and scikit-learn's `clone` must keep what they share

    @property
    def covariate(self) -> Covariate | None:
        """The column that its rows are multiplied by."""
        return None

    def __mul__(self, other: Any) -> Term:
        if isinstance(other, Covariate):
            return VaryingCoefficient(other, self)
        if isinstance(other, VaryingCoefficient):
            return VaryingCoefficient(other.column, self * other.term)
        if (
            not isinstance(other, Term)
            or isinstance(self, ProductTerm)
            or isinstance(other, ProductTerm)
        ):
            raise checks.type_error(
                "terms", f"are multiplied in pairs, got {self!r} * {checks.describe(other)}"
            )
        return ProductTerm(self, other)

    def __rmul__(self, other: Any) -> Term:
        return self * other

    def __add__(self, other: Any) -> list[Term]:
        return [self, *([other] if isinstance(other, Term) else list(other))]

    def __radd__(self, other: Any) -> list[Term]:
        return [*list(other), self]


@dataclass(frozen=True)
class ProductTerm(Term):
    """The product of two terms, with one standard deviation: that of the first."""

    first: Term
    second: Term

    @property
    def prior(self) -> Mapping[str, Any] | None:  # type: ignore[override]
        return self.first.prior

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.first.columns, *self.second.columns)

    def axes(self, frame: Any) -> tuple[LevelAxis, ...]:
        return (*self.first.axes(frame), *self.second.axes(frame))


@dataclass(frozen=True)
class VaryingCoefficient(Term):
    """The coefficient of a covariate, which is a term."""

    column: Covariate
    term: Term

    @property
    def covariate(self) -> Covariate:
        return self.column

    @property
    def prior(self) -> Mapping[str, Any] | None:  # type: ignore[override]
        return self.term.prior

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column.by, *self.term.columns)

    def axes(self, frame: Any) -> tuple[LevelAxis, ...]:
        return self.term.axes(frame)

    def __mul__(self, other: Any) -> Term:
        if isinstance(other, Covariate | VaryingCoefficient):
            raise checks.type_error(
                "terms", f"have one covariate each, got {self!r} * {other!r}: multiply the columns"
            )
        return VaryingCoefficient(self.column, self.term * other)


class BoundTerm(NamedTuple):
    """A term for the levels of the data of a fit."""

    label: str
    columns: tuple[str, ...]
    axes: tuple[LevelAxis, ...]  # one, or the two of a product
    structure: Structure
    deviation: Parameter  # its standard deviation
    covariate: Covariate | None

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Hyperparameters: those of the structure, and the deviation."""
        return (*self.structure.parameters, self.deviation)

    @classmethod
    def of(cls, term: Term, frame: Any, number: int, unit: float) -> BoundTerm:
        """The term for the levels of a data frame; `unit` is that of the linear predictor."""
        axes = term.axes(frame)
        factors = [axis.factor if len(axes) > 1 else axis.structure for axis in axes]

        structure = factors[0]
        if len(factors) > 1:
            entries = math.prod(float(each.precision(each.starts).nnz) for each in factors)
            require_memory(
                _ENTRY * entries,
                f"the precision of the term {term.label!r}, {factors[0].size:,} by "
                f"{factors[1].size:,} variables,",
                "round the levels of a column, or take `Groups` for one of the factors",
            )
            structure = Product(*factors)

        deviation = _deviation(term, frame, number, unit)
        return cls(term.label, term.columns, axes, structure, deviation, term.covariate)

    def rows(self, frame: Any) -> sp.csr_array:
        """A row of the design for each row of a data frame, shape (m, n)."""
        parts = [axis.rows(axis.cells(frame)) for axis in self.axes]
        return self._times_covariate(frame, self._combined(*parts))

    def level_rows(self) -> sp.csr_array:
        """A row for each level, or pair of levels."""
        parts = [axis.level_rows() for axis in self.axes]
        if len(parts) == 1:
            return parts[0]

        a, b = (rows.shape[0] for rows in parts)
        first = parts[0][[i for i in range(a) for _ in range(b)]]
        return self._combined(sp.csr_array(first), sp.csr_array(sp.vstack([parts[1]] * a)))

    @property
    def levels(self) -> list[Hashable]:
        """Labels, or pairs of labels."""
        if len(self.axes) == 1:
            return list(self.axes[0].levels)
        return list(pairs(*(axis.levels for axis in self.axes)))

    def extension(self, frame: Any, values: Values) -> Extension:
        """Rows of a data frame that may have new levels."""
        extension = self._extension(frame, values)
        old, new = (self._times_covariate(frame, rows) for rows in (extension.old, extension.new))
        return extension._replace(old=old, new=new)

    def _extension(self, frame: Any, values: Values) -> Extension:
        """Those of the term without its covariate."""
        extensions = [axis.extension(axis.cells(frame), values) for axis in self.axes]
        new = [extension.new.shape[1] > 0 for extension in extensions]

        if len(extensions) == 1:
            return extensions[0]

        old = self._combined(*(extension.old for extension in extensions))
        if not any(new):
            return Extension(old, *nothing_new(len(frame)))
        if all(new):
            raise checks.value_error(
                self.label, "has new levels in both columns: predict those of one column at a time"
            )

        structure = self.structure
        assert isinstance(structure, Product)
        place = new.index(True)
        factor = (structure.first, structure.second)[1 - place]
        rows = structure.rows_of(1 - place, extensions[1 - place].old)
        both, precisions = (
            [rows, extensions[place].new],
            [factor.precision(values), extensions[place].precision],
        )

        eye = sp.eye_array(extensions[place].new.shape[1], format="csr")
        held = [factor.constraints, eye]
        if place == 0:
            both, precisions, held = both[::-1], precisions[::-1], held[::-1]
        return Extension(
            old,
            row_products(*both),
            sp.csr_array(sp.kron(*precisions)),
            sp.csr_array(sp.kron(*held)),
        )

    def _combined(self, *rows: sp.csr_array) -> sp.csr_array:
        if len(rows) == 1:
            return rows[0]
        assert isinstance(self.structure, Product)
        return self.structure.rows(*rows)

    def _times_covariate(self, frame: Any, rows: sp.csr_array) -> sp.csr_array:
        if self.covariate is None:
            return rows
        result = sp.csr_array(sp.diags_array(self.covariate.values(frame)) @ rows)
        result.eliminate_zeros()  # the pattern of all variables has none
        return result


def _deviation(term: Term, frame: Any, number: int, unit: float) -> Parameter:
    """A term's standard deviation, where `unit` is that of the linear predictor."""
    prior, usual = term.deviation_prior, unit
    if term.covariate is not None:
        # A coefficient has the unit of eta per unit of the column; a default must not depend on it.
        usual = unit / term.covariate.scale(frame)
    by = unit if "sd" in (term.prior or {}) else usual
    if isinstance(prior, PenalisedDeviation):
        prior = PenalisedDeviation(prior.upper * by, prior.probability)
    elif isinstance(prior, tuple):
        prior = (prior[0] * by, prior[1])
    low, high = (end * usual for end in _DEVIATIONS)
    return Parameter(f"sd({term.label})", "positive", 0.5 * usual, low, high, prior, ("sd", number))
