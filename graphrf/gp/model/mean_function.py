"""The mean function: zero, a constant, or a constant and a linear trend in covariates
of the nodes.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from graphrf._base import checks
from graphrf._base.lazy import need
from graphrf.gp.model.answers import Titles
from graphrf.gp.model.notices import warn_of_codes
from graphrf.graph.alignment import Rows, shown

_DUMMIES = "pandas.get_dummies(..., drop_first=True) makes numbers of categories"
# The columns of tables of coefficients and hyperparameters.
TABLE = ("mean", "sd", "0.025", "0.5", "0.975")
_NAMED = ("constant", "zero")
# Singular values of the scaled basis below this fraction of the largest count as 0.
COLLINEAR = 1e-9
# Covariates, and their range in units of their spread at the observed nodes, whose squares are safe
# in sums.
_LARGEST = 1e150


class Coefficients(NamedTuple):
    """The constant and the coefficients of covariates: posterior means, standard deviations and
    names.
    """

    mean: np.ndarray
    std: np.ndarray
    names: tuple[str, ...]

    @classmethod
    def of(
        cls,
        mean: MeanFunction,
        coefficients: np.ndarray,
        covariance: np.ndarray,
        offset: np.ndarray,
        single: bool,
    ) -> Coefficients:
        """Coefficients in the units of the covariates, from those of the basis and their
        covariance.
        """
        constant, trend = mean.parts(coefficients)
        values = np.concatenate(
            [np.atleast_2d(constant + offset)[: min(mean.basis.shape[1], 1)], trend]
        )
        names = ("constant", *mean.names)[: values.shape[0]]
        std = mean.deviations(covariance)
        if single:
            return cls(values[:, 0], std, names)
        return cls(values, np.broadcast_to(std[:, None], values.shape).copy(), names)

    def table(self, outputs: Sequence[Hashable] | None) -> Any:
        """A data frame of means, standard deviations and the 2.5, 50 and 97.5 % quantiles of normal
        distributions.

        Of several outputs, the titles of columns are pairs of these and of `outputs`, which default
        to numbers.
        """
        pandas = need("pandas", "coefficients_")

        half = 1.959964 * self.std
        columns = (self.mean, self.std, self.mean - half, self.mean, self.mean + half)
        if self.mean.ndim == 1:
            return pandas.DataFrame(dict(zip(TABLE, columns, strict=True)), index=list(self.names))
        titles = range(self.mean.shape[1]) if outputs is None else outputs
        parts = {
            (name, title): column[:, k]
            for name, column in zip(TABLE, columns, strict=True)
            for k, title in enumerate(titles)
        }
        return pandas.DataFrame(parts, index=list(self.names))


class WithCoefficients:
    """An estimator with a mean function, whose coefficients are a data frame."""

    _coefficients: Coefficients
    _titles: Titles

    @property
    def coefficients_(self: Any) -> Any:
        """The constant and the coefficients of covariates: a data frame of mean, sd and quantiles.

        Quantiles are those of normal distributions with this mean and standard deviation; those of
        rate ratios are `numpy.exp` of them.
        """
        self._check_fitted()
        return self._coefficients.table(self._titles.outputs)


class Covariates(NamedTuple):
    """Covariates that came with observations."""

    values: np.ndarray  # (N, b), the mean of the others in rows of unobserved nodes
    known: np.ndarray  # (N,)
    names: tuple[str, ...]

    @classmethod
    def of(cls, x: Any, rows: Rows, positions: np.ndarray, n_nodes: int) -> Covariates:
        """Covariates with a row for each observation."""
        table, names = checked_table(x, rows)
        distinct, first, place = np.unique(positions, return_index=True, return_inverse=True)
        unlike = np.flatnonzero((table != table[first][place]).any(axis=1))
        if unlike.size:
            labels = (rows.keys() or [positions.tolist()])[0]
            raise checks.value_error(
                "x",
                f"must be the same for all observations of a {rows.noun}, and differs at "
                f"{rows.noun} {shown([labels[unlike[0]]])}; take their mean",
            )
        return cls.at(distinct, table[first], names, n_nodes)

    @classmethod
    def at(
        cls, nodes: np.ndarray, rows: np.ndarray, names: tuple[str, ...], n_nodes: int
    ) -> Covariates:
        """Covariates with a row for each of some distinct nodes."""
        values = np.tile(rows.mean(axis=0), (n_nodes, 1))
        values[nodes] = rows
        known = np.zeros(n_nodes, dtype=bool)
        known[nodes] = True
        return cls(values, known, names)

    def only(self, nodes: np.ndarray) -> Covariates:
        """Covariates of some distinct nodes alone."""
        return Covariates.at(nodes, self.values[nodes], self.names, self.known.size)


class MeanFunction(NamedTuple):
    """A basis H of the mean at all nodes, and how its coefficients convert to the units of the
    covariates.

    Covariates are centred and scaled at the observed nodes, so that their units and origin cost no
    digits.
    """

    basis: np.ndarray  # (N, 0) for a zero mean, else (N, 1 + b) with ones first
    centre: np.ndarray  # (b,); column 1 + k is (covariate k - centre[k]) / width[k]
    width: np.ndarray
    names: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, mean: Any, n_nodes: int, observed: np.ndarray, x: Covariates | None = None
    ) -> MeanFunction:
        """The basis of the setting `mean` for observed nodes and their covariates; ValueError if
        too few.
        """
        argument, covariates = "mean", checked_mean(mean, n_nodes)
        names = column_names(mean, covariates.shape[1])

        if x is not None:
            if not isinstance(mean, str) or mean != "constant":
                raise checks.value_error(
                    "x",
                    "is for mean='constant': pass covariates either here or as `mean`, at all "
                    "nodes",
                )
            argument, covariates, names = "x", x.values, x.names

        if not covariates.shape[1]:
            nothing = np.zeros(0)
            return cls(np.ones((n_nodes, 1 if mean == "constant" else 0)), nothing, nothing)

        there = covariates[observed]
        centre = there.mean(axis=0)
        width = np.sqrt(np.square(there - centre).mean(axis=0))
        fixed = np.flatnonzero(width <= 1e-12 * np.maximum(np.abs(there).max(axis=0), 1e-200))
        if fixed.size:
            raise checks.value_error(
                argument,
                "must hold covariates that vary over the observations, and column "
                f"{_title(names, fixed[0])} does not; drop it: the mean has a constant anyway",
            )

        with np.errstate(over="ignore"):
            basis = np.column_stack([np.ones(n_nodes), (covariates - centre) / width])
        far = np.flatnonzero(np.abs(basis).max(axis=0) > _LARGEST)
        if far.size:
            raise checks.value_error(
                argument,
                f"must hold covariates that elsewhere are within {_LARGEST:g} times their spread "
                f"in the observations, and column {_title(names, far[0] - 1)} is not; rescale or "
                "drop it",
            )

        for name, column in zip(names, there.T, strict=True):
            warn_of_codes(name, column)
        singular = np.linalg.svd(basis[observed], compute_uv=False)
        rank = int((singular > COLLINEAR * singular[0]).sum())
        if rank < basis.shape[1]:
            raise checks.value_error(
                argument,
                "must hold covariates that are not collinear over the observations, but with the "
                f"constant its {basis.shape[1]} columns have rank {rank} at {observed.size} places "
                f"or nodes, where {_combined(names, basis[observed])} are combinations of each "
                "other; drop one of them, or observe more",
            )
        return cls(basis, centre, width, names)

    def with_rows(self, nodes: np.ndarray, x: Any, rows: Rows) -> np.ndarray:
        """The basis with other covariates at nodes, a row for each, whose columns must be those of
        `fit`.
        """
        if not self.width.size:
            raise checks.value_error("x", "must be None: `fit` was given no covariates")

        table, names = checked_table(x, rows)
        if hasattr(x, "columns") and set(names) >= set(self.names):
            table = table[:, [names.index(name) for name in self.names]]
        elif hasattr(x, "columns") and not all(re.fullmatch(r"x\d+", name) for name in self.names):
            raise checks.value_error(
                "x",
                f"must have the columns {', '.join(self.names)} that `fit` was given, got "
                f"{', '.join(names)}",
            )

        if table.shape[1] != self.width.size:
            raise checks.value_error(
                "x",
                f"must have {self.width.size} columns, as the covariates of `fit`, got "
                f"{table.shape[1]}",
            )

        basis = self.basis.copy()
        with np.errstate(over="ignore"):
            scaled = (table - self.centre) / self.width
        basis[nodes, 1:] = scaled
        if (basis[nodes, 1:] != scaled).any():
            raise checks.value_error(
                "x", "must be the same wherever a node or place is repeated, and is not"
            )

        if (np.abs(basis[nodes]) > _LARGEST).any():
            raise checks.value_error(
                "x", f"must be within {_LARGEST:g} times the spread of that of `fit`"
            )
        return basis

    def centred(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values less their mean if there is a constant, and that mean, (p,); remainders of
        rounding become 0.
        """
        offset = values.mean(axis=0) if self.basis.shape[1] else np.zeros(values.shape[1])
        rest = values - offset
        rest[np.abs(rest) <= 8 * np.finfo(np.float64).eps * np.abs(offset)] = 0.0
        return rest, offset

    def deviations(self, covariance: np.ndarray) -> np.ndarray:
        """Standard deviations of the constant and the trend in the units of the covariates, shape
        (columns,).
        """
        if not self.basis.shape[1]:
            return np.zeros(0)
        change = np.diag(np.concatenate([[1.0], 1 / self.width]))
        change[0, 1:] = -self.centre / self.width
        return np.sqrt(np.maximum(np.diagonal(change @ covariance @ change.T), 0.0))

    def parts(self, coefficients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The constant, shape (p,), and the trend, shape (b, p), of coefficients of shape (columns,
        p).
        """
        if not self.basis.shape[1]:
            return np.zeros(coefficients.shape[1]), np.zeros((0, coefficients.shape[1]))
        trend = coefficients[1:] / self.width[:, None]
        return coefficients[0] - self.centre @ trend, trend


def checked_table(x: Any, rows: Rows) -> tuple[np.ndarray, tuple[str, ...]]:
    """Covariates of all rows as float64, shape (n, b), and the names of their columns."""
    n, x = rows.n, rows.taken("x", x)
    array = _numbers("x", x, "be numbers")
    if array.ndim not in (1, 2) or array.shape[0] != n or array.size == 0:
        raise checks.value_error(
            "x",
            f"must have shape ({n},) or ({n}, b), a row for each entry of `{rows.noun}s`, got "
            f"{array.shape}",
        )
    values = _safe("x", array)
    names = column_names(x, values.shape[1])
    if len(set(names)) < len(names):
        raise checks.value_error(
            "x", f"must have columns of different names, got {', '.join(names)}"
        )
    return values, names


def column_names(x: Any, n_columns: int) -> tuple[str, ...]:
    """Names of a data frame's columns, or of a series; else x0, x1, ..."""
    if hasattr(x, "columns"):
        return tuple(map(str, x.columns))
    if isinstance(getattr(x, "name", None), str) and n_columns == 1:
        return (x.name,)
    return tuple(f"x{k}" for k in range(n_columns))


def _combined(names: tuple[str, ...], basis: np.ndarray) -> str:
    """The columns of a combination that vanishes, for messages."""
    weights = np.linalg.eigh(basis.T @ basis)[1][:, 0]
    places = np.flatnonzero(np.abs(weights) > np.sqrt(COLLINEAR))
    labels = ["constant", *names]
    return ", ".join(repr(labels[place]) for place in places.tolist())


def _title(names: tuple[str, ...], column: int) -> str:
    """A column's title where it has one, and its number else, for messages."""
    return str(column) if names[column] == f"x{column}" else repr(names[column])


def checked_mean(mean: Any, n_nodes: int) -> np.ndarray:
    """Covariates as float64 of shape (N, b); of shape (N, 0) for a name."""
    if isinstance(mean, str):
        if mean not in _NAMED:
            raise checks.value_error(
                "mean",
                "must be one of 'constant', 'zero', or an array of covariates at all nodes, got "
                f"{mean!r}",
            )
        return np.zeros((n_nodes, 0))

    mean = checks.to_array_like("mean", mean)
    array = _numbers("mean", mean, "be 'constant', 'zero', or an array of covariates at all nodes")

    if array.ndim not in (1, 2) or array.shape[0] != n_nodes or array.size == 0:
        raise checks.value_error(
            "mean",
            f"must hold covariates of shape ({n_nodes},) or ({n_nodes}, b), a row for each node of "
            f"the graph, got {array.shape}",
        )
    return _safe("mean", array)


def _numbers(name: str, table: Any, wanted: str) -> np.ndarray:
    """Covariates as an array of numbers."""
    came = checks.describe(table)
    try:
        if hasattr(table, "columns"):
            columns = [np.asarray(table[title]) for title in table.columns]
            for title, column in zip(table.columns, columns, strict=True):
                if column.dtype.kind not in "biuf":
                    kind = "text" if _has_text(column) else column.dtype
                    came = f"{kind} in the column {title!r}; {_DUMMIES}"
                    break
            array = np.column_stack(columns)
        else:
            array = np.asarray(table)
            if array.dtype.kind not in "biuf" and array.ndim and _has_text(array.ravel()):
                came = f"text; {_DUMMIES}"
    except ValueError:
        array = np.asarray(None)

    if array.dtype.kind not in "biuf":
        raise checks.type_error(name, f"must {wanted}, got {came}")
    return array


def _has_text(column: np.ndarray) -> bool:
    return any(isinstance(each, str) for each in column)


def _safe(name: str, array: np.ndarray) -> np.ndarray:
    """Covariates as float64 of two axes, once they are finite and their squares are, too."""
    values = checks.finite(name, array.astype(np.float64))
    largest = float(np.abs(values).max())
    if largest > _LARGEST:
        raise checks.value_error(
            name,
            f"must hold covariates of at most {_LARGEST:g} in size, whose squares float64 can "
            f"hold, got {largest:g}; multiply them by a constant",
        )
    return values[:, None] if values.ndim == 1 else values
