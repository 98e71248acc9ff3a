"""Data frames: the fixed effects of a formula, the response, and columns for each observation."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from graphrf._base import checks
from graphrf._base.lazy import missing

# A design of smaller rank than columns has a singular value below this fraction of the largest.
_RANK = 1e-10
# The tolerance of a constant.
_CONSTANT = 1e-8


class Design(NamedTuple):
    """The matrix of fixed effects, the names of its columns, and the specification for other data frames."""

    matrix: np.ndarray
    names: tuple[str, ...]
    specification: Any  # None without fixed effects
    variables: frozenset[str]  # columns that the formula reads

    @property
    def constant(self) -> np.ndarray | None:
        """Coefficients whose sum of columns is 1 in every row; None where there are none."""
        if not self.names:
            return None
        ones = np.ones(self.matrix.shape[0])
        result = np.linalg.lstsq(self.matrix, ones, rcond=None)[0]
        return result if np.abs(ones - self.matrix @ result).max() < _CONSTANT else None

    def of(self, frame: Any) -> np.ndarray:
        """The matrix for another data frame, shape (m, p)."""
        if self.specification is None:
            return np.zeros((len(frame), 0))
        from formulaic.errors import DataMismatchWarning, FormulaicError

        require_columns(frame, sorted(map(str, self.specification.required_variables)), "formula")
        try:
            with warnings.catch_warnings():  # unknown categories would count as the first one
                warnings.simplefilter("error", DataMismatchWarning)
                made = self.specification.get_model_matrix(frame, na_action="raise")
        except (FormulaicError, DataMismatchWarning) as error:
            raise checks.value_error("frame", f"does not fit the formula: {_reason(error)}") from error
        return np.asarray(made, dtype=np.float64)


def as_pandas_frame(frame: Any) -> Any:
    """A data frame of pandas, from one of pandas or of a library that narwhals knows, such as polars."""
    if hasattr(frame, "iloc") and hasattr(frame, "columns"):
        return frame
    try:
        import narwhals
    except ModuleNotFoundError as error:
        raise missing(error, "data frames of other libraries than pandas") from None
    try:
        return narwhals.from_native(frame, eager_only=True).to_pandas()
    except TypeError:
        raise checks.type_error("frame", f"must be a data frame, got {checks.describe(frame)}") from None


def read(formula: str, frame: Any) -> tuple[np.ndarray, Design]:
    """The response and the fixed effects of "y ~ ...", in the order of the frame's rows."""
    try:
        import formulaic
    except ModuleNotFoundError as error:
        raise missing(error, "formulas of fixed effects") from None
    if not len(frame):
        raise checks.value_error("frame", "must have a row for each observation, got none")
    if not isinstance(formula, str) or formula.count("~") != 1:
        raise checks.value_error("formula", f"must be like 'cases ~ 1 + share', got {checks.describe(formula)}")
    try:
        variables = frozenset(map(str, formulaic.Formula(formula).required_variables))
        require_columns(frame, sorted(variables), "formula")
        made = formulaic.model_matrix(formula, frame, na_action="raise")
    except formulaic.errors.FormulaicError as error:
        raise checks.value_error("formula", f"{formula!r} cannot be read: {_reason(error)}") from error
    lacking = [name for name in made.lhs.columns if name not in frame.columns and "[" in str(name)]
    if lacking:
        raise checks.type_error(
            "formula", f"must have numbers as response, got text or categories, {lacking[0]!r}"
        )
    response = np.asarray(made.lhs, dtype=np.float64)
    if response.ndim == 2 and response.shape[1] != 1:
        raise checks.value_error("formula", f"must have one response, got {list(made.lhs.columns)}")
    matrix, names = np.asarray(made.rhs, dtype=np.float64), tuple(map(str, made.rhs.columns))
    if not names:
        return response.reshape(-1), Design(np.zeros((len(frame), 0)), (), None, variables)
    require_rank(matrix, names)
    return response.reshape(-1), Design(matrix, names, made.rhs.model_spec, variables)


def require_rank(matrix: np.ndarray, names: tuple[str, ...]) -> None:
    """ValueError if fixed effects are combinations of one another."""
    scaled = matrix / np.maximum(np.linalg.norm(matrix, axis=0), 1e-300)
    _, values, vectors = np.linalg.svd(scaled, full_matrices=False)
    if matrix.shape[0] < matrix.shape[1] or values[-1] < _RANK * values[0]:
        involved = [name for name, entry in zip(names, vectors[-1], strict=True) if abs(entry) > 1e-3]
        raise checks.value_error(
            "formula", f"has fixed effects of which one is a combination of the others: {', '.join(involved)}"
        )


def column(frame: Any, name: str, values: Any) -> Any:
    """Numbers for each row: those of a column that is named, or values given."""
    if isinstance(values, str):
        if values not in frame.columns:
            near = checks.did_you_mean(values, [str(each) for each in frame.columns])
            raise checks.value_error(
                name, f"must be a column of the frame or numbers, got {values!r}{near and '; '}{near}"
            )
        return frame[values].to_numpy()
    return values


def require_columns(frame: Any, names: list[str], reader: str = "terms") -> None:
    """ValueError for columns that the frame lacks, or that hold missing values; `reader` is who reads them."""
    for name in names:
        if name not in frame.columns:
            near = checks.did_you_mean(name, [str(each) for each in frame.columns])
            raise checks.value_error(reader, f"must read columns of the frame, got {name!r}{near and '; '}{near}")
        lacking = np.flatnonzero(frame[name].isna().to_numpy())
        if lacking.size:
            raise checks.value_error(
                name,
                f"has no value in {lacking.size} of {len(frame)} rows, the first of them {lacking[0]}: leave "
                "these out, frame.dropna()",
            )


def _reason(error: Exception) -> str:
    """The last line of an error of formulaic."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
