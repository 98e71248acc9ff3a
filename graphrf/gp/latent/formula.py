"""Formulas: the response and the fixed effects of a data frame, and values for each of its rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from graphrf._base import checks
from graphrf._base.lazy import missing
from graphrf._base.warn import warn
from graphrf.gp.latent.columns import RESPONSE, numbers, plain, require_columns, require_finite, row
from graphrf.gp.latent.design import Design, Factor, Product
from graphrf.gp.latent.expressions import NAMED, Expression, parsed
from graphrf.gp.latent.spelling import check_spelling
from graphrf.graph.alignment import Rows
from graphrf.graph.labels import canonical


class Formula(NamedTuple):
    """A formula for the columns of a data frame: the response, and the fixed effects."""

    response: Expression
    design: Design

    def observed(self, frame: Any) -> np.ndarray:
        """The response for each row of a data frame, shape (m,)."""
        require_columns(frame, self.response.columns, RESPONSE)
        values = self.response(lambda name: numbers(frame, name))
        if np.ndim(values) > 1:
            raise checks.value_error(
                "formula", f"must have one response, got {np.shape(values)[1]} columns"
            )
        return require_finite(frame, "the response", np.broadcast_to(values, (len(frame),)))


def read(formula: str, frame: Any) -> Formula:
    """The response and the fixed effects of "y ~ ..." for the rows of a data frame."""
    try:
        import formulaic
    except ModuleNotFoundError as error:
        raise missing(error, "formulas of fixed effects") from None
    if not len(frame):
        raise checks.value_error("frame", "must have a row for each observation, got none")

    text = check_spelling(formula)
    try:
        sides = formulaic.Formula(text)
    except (formulaic.errors.FormulaicError, SyntaxError) as error:
        raise checks.value_error(
            "formula", f"has {text!r}, which cannot be read: {_reason(error)}"
        ) from None

    terms = list(sides.lhs)
    if len(terms) != 1 or len(terms[0].factors) != 1 or not hasattr(sides, "rhs"):
        raise checks.value_error(
            "formula", f"must have one response, got {text.split('~')[0].strip()!r}"
        )
    response = _expression(terms[0].factors[0], frame, RESPONSE)
    if response is None:
        raise checks.value_error(
            "formula", f"must have a column as response, got {terms[0].factors[0].expr!r}"
        )

    result = Formula(response, _design(sides.rhs, frame))
    result.observed(frame)
    return result


def _design(effects: Any, frame: Any) -> Design:
    """The fixed effects of the right-hand side of a formula of formulaic."""
    factors: dict[str, Factor] = {}
    for factor in (factor for term in effects for factor in term.factors):
        expression = _expression(factor, frame)
        if expression is not None and factor.expr not in factors:
            factors[factor.expr] = _checked(Factor(factor.expr, expression, None, None), frame)

    matrix = _of_formulaic(effects, factors, frame)
    state = matrix.model_spec.encoder_state
    coded = [
        _with_levels(factor, *state[text]) if text in state else factor
        for text, factor in factors.items()
    ]

    place = {text: number for number, text in enumerate(factors)}
    products = [
        Product(
            tuple((place[part.factor.expr], bool(part.reduced)) for part in scoped.factors),
            float(scoped.scale),
        )
        for _, scopes, _ in matrix.model_spec.structure
        for scoped in scopes
    ]

    result = Design.of(coded, products, [str(name) for name in matrix.columns], frame)

    width = np.maximum(np.abs(result.matrix).max(axis=0, initial=0.0), 1e-300)
    if (np.abs(result.matrix - np.asarray(matrix, dtype=np.float64)) > 1e-8 * width).any():
        raise checks.value_error(
            "formula", f"has {effects!r}, which cannot be taken apart: compute columns before"
        )
    return result


def _of_formulaic(effects: Any, factors: Mapping[str, Factor], frame: Any) -> Any:
    """The matrix that formulaic makes of the fixed effects, with its specification."""
    import formulaic
    import pandas

    columns = set().union(*(each.expression.columns for each in factors.values()))
    data = {name: _for_formulaic(frame, name) for name in sorted(columns)}
    functions = {name: getattr(np, name) for name in NAMED}

    try:
        table = pandas.DataFrame(data, index=range(len(frame)))
        return formulaic.model_matrix(effects, table, na_action="raise", context=functions)
    except formulaic.errors.FormulaicError as error:
        raise checks.value_error(
            "formula", f"{effects!r} cannot be read: {_reason(error)}"
        ) from error


def _expression(factor: Any, frame: Any, reader: str = "the formula") -> Expression | None:
    """The expression of a factor of formulaic; None for a constant."""

    def column(name: str) -> np.ndarray:
        require_columns(frame, [name], reader)
        return numbers(frame, name)

    kind = factor.eval_method.value
    if kind == "literal":
        return None
    if kind == "lookup":
        require_columns(frame, [factor.expr], reader)
        result = Expression(
            "flag" if getattr(frame[factor.expr].dtype, "kind", "O") == "b" else "column",
            factor.expr,
        )
    else:
        result = parsed(factor.expr, column)
    require_columns(frame, result.columns, reader)
    return result


def _checked(factor: Factor, frame: Any) -> Factor:
    """A factor of finite numbers or labels; text that reads as numbers is warned of."""
    values = plain(frame, factor.expression.value) if factor.expression.kind == "column" else None
    if values is None or values.dtype != object:
        factor.columns(frame, False)
    elif factor.text == factor.expression.value and not hasattr(frame[factor.text], "cat"):
        try:
            [float(each.replace(",", ".")) for each in set(values.tolist())]
        except ValueError:
            return factor

        column = f"frame[{factor.text!r}]"
        warn(
            f"the column {factor.text!r} holds text that reads as numbers, and is taken for "
            f"categories: for numbers, set {column} = pandas.to_numeric({column}.str.replace(',', "
            f"'.')); for categories, {column} = {column}.astype('category')"
        )
    return factor


def _for_formulaic(frame: Any, name: str) -> Any:
    """A column as formulaic reads it: integers stay such, so that categories have their names."""
    column = frame[name]
    if hasattr(column, "cat"):
        empty = column.cat.categories.delete(np.unique(column.cat.codes))
        if len(empty):
            raise checks.value_error(
                name,
                f"has the category {empty[0]!r} in no row: "
                f"frame[{name!r}].cat.remove_unused_categories()",
            )
        return column.array

    values = plain(frame, name)
    if values.dtype == object:
        values[:] = [canonical(label) for label in values.tolist()]
        return values
    if getattr(column.dtype, "kind", "O") in "iub":
        return np.asarray(column)

    whole = column.dtype == object and all(
        isinstance(each, int | np.integer) for each in column.tolist()
    )
    return values.astype(np.int64) if whole else values


def _with_levels(factor: Factor, kind: Any, state: Any) -> Factor:
    """A factor of categories with the levels that formulaic found, and their coding."""
    if kind.value != "categorical":
        return factor
    levels = [
        level.item() if isinstance(level, np.generic) else level for level in state["categories"]
    ]
    contrasts = state["contrasts"].contrasts
    full, reduced = (
        np.asarray(contrasts.get_coding_matrix(levels, reduced, sparse=False), dtype=np.float64)
        for reduced in (False, True)
    )
    return factor._replace(levels=levels, coding=(full, reduced))


def for_rows(frame: Any, name: str, values: Any) -> Any:
    """Numbers for each row of a data frame: a named column, or values aligned by their labels."""
    if not isinstance(values, str):
        return Rows(len(frame), frame.index, False, list).numbers(name, values)
    require_columns(frame, [values], f"`{name}`")
    result = numbers(frame, values)
    wrong = np.flatnonzero(result <= 0)
    if name == "exposure" and wrong.size:
        raise checks.value_error(
            name,
            f"must be greater than 0, got {result[wrong[0]]:g} in row {row(frame, wrong[0])} "
            f"({wrong.size} of {len(frame)} such rows): leave out what was not exposed, "
            f"frame[frame[{values!r}] > 0]",
        )
    return result


def _reason(error: Exception) -> str:
    """The first line of an error of formulaic."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
