"""Expressions of a formula as data: columns, numbers, functions, and piecewise polynomials.

An expression is read from the syntax tree of its text and is evaluated by looking functions up in a
table, so that neither a formula nor a file can run code. Transforms that are fitted to the data,
such as splines and scaling, are piecewise polynomials of one variable, whatever library made them,
and are kept as breaks and coefficients.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.interpolate import PPoly

from graphrf._base import checks
from graphrf.gp.files.objects import real

_OPERATORS: Mapping[type[ast.AST], str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.Pow: "power",
    ast.FloorDiv: "floor_divide",
    ast.Mod: "remainder",
    ast.USub: "negative",
    ast.UAdd: "positive",
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
    ast.Eq: "equal",
    ast.NotEq: "not_equal",
}
NAMED = (
    *(
        "log",
        "log2",
        "log10",
        "log1p",
        "exp",
        "exp2",
        "expm1",
        "sqrt",
        "cbrt",
        "square",
        "abs",
        "sign",
    ),
    *(
        "sin",
        "cos",
        "tan",
        "tanh",
        "arcsin",
        "arccos",
        "arctan",
        "floor",
        "ceil",
        "minimum",
        "maximum",
    ),
)
_FUNCTIONS: Mapping[str, np.ufunc] = {
    name: getattr(np, name) for name in (*NAMED, *_OPERATORS.values())
}
# Transforms of formulaic that are fitted, and the degree of their pieces; None is that of the
# arguments.
FITTED: Mapping[str, int | None] = {
    "center": 1,
    "scale": 1,
    "standardize": 1,
    "poly": None,
    "bs": None,
    "cr": 3,
    "cs": 3,
    "cc": 3,
}
# Values of a spline outside of its breaks.
_EXTRAPOLATIONS = ("extend", "clip", "zero", "raise", "na", "periodic")
_QUOTED = re.compile(r"`([^`]+)`")
# The largest degree of pieces: monomials of higher ones are numerically dependent in float64.
_DEGREE = 12


class Pieces(NamedTuple):
    """Piecewise polynomials of one variable, a column each."""

    breaks: np.ndarray  # (k + 1,), increasing
    coefficients: np.ndarray  # (degree + 1, k, columns), the highest power of x - breaks[k] first
    outside: str

    @classmethod
    def of(
        cls,
        function: Callable[[np.ndarray], np.ndarray],
        breaks: np.ndarray,
        degree: int,
        outside: str,
    ) -> Pieces:
        """The pieces of a function that is a polynomial of this degree between breaks.

        Where it is extended, each end has one more piece, since natural splines are straight lines
        there.
        """
        if outside == "extend":
            width = breaks[-1] - breaks[0]
            breaks = np.concatenate([[breaks[0] - width], breaks, [breaks[-1] + width]])

        # Chebyshev's points lie inside of a piece, and determine its polynomial to rounding.
        points = 0.5 - 0.5 * np.cos((np.arange(degree + 1) + 0.5) * np.pi / (degree + 1))
        inverse = np.linalg.inv(np.vander(points, degree + 1))
        widths = np.diff(breaks)

        values = function((breaks[:-1, None] + widths[:, None] * points).ravel())
        shaped = values.reshape(widths.size, degree + 1, -1)
        powers = widths[:, None] ** -np.arange(degree, -1, -1.0)
        return cls(breaks, np.einsum("ij,kjc,ki->ikc", inverse, shaped, powers), outside)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """The columns at values x of shape (m,), shape (m, columns)."""
        low, high = self.breaks[0], self.breaks[-1]
        beyond = (x < low) | (x > high)
        if self.outside == "raise" and beyond.any():
            raise ValueError(
                f"has {np.count_nonzero(beyond)} values outside of [{low:g}, {high:g}], the range "
                "of the fit: pass extrapolation='extend' or 'clip' to the spline"
            )

        extrapolate: Any = "periodic" if self.outside == "periodic" else True
        inner = x if self.outside in ("extend", "periodic") else np.clip(x, low, high)
        result = np.asarray(PPoly(self.coefficients, self.breaks, extrapolate=extrapolate)(inner))

        if self.outside in ("zero", "na"):
            result[beyond] = 0.0 if self.outside == "zero" else np.nan
        return result


class Expression(NamedTuple):
    """A column, a number, or a function of other expressions."""

    kind: str  # "column", "flag" (of booleans), "number", "function" or "pieces"
    value: Any
    arguments: tuple[Expression, ...] = ()

    @property
    def columns(self) -> set[str]:
        """The columns that it reads."""
        own = {self.value} if self.kind in ("column", "flag") else set()
        return own.union(*(each.columns for each in self.arguments))

    def __call__(self, column: Callable[[str], np.ndarray]) -> np.ndarray:
        """Its values, shape (m,) or (m, columns), from the numbers of each column."""
        if self.kind in ("column", "flag"):
            values = column(self.value)
            if self.kind == "flag" and not np.isin(values, (0.0, 1.0)).all():
                raise ValueError("was True or False in the fit, and has other values")
            return values
        if self.kind == "number":
            return np.float64(self.value)  # type: ignore[return-value]

        arguments = [each(column) for each in self.arguments]
        with np.errstate(all="ignore"):
            if self.kind == "pieces":
                return np.asarray(self.value(np.asarray(arguments[0], dtype=np.float64)))
            return np.asarray(_FUNCTIONS[self.value](*arguments), dtype=np.float64)

    def encoded(self) -> list[Any]:
        """The expression as JSON knows it."""
        value = self.value
        if self.kind == "pieces":
            value = [value.breaks.tolist(), value.coefficients.tolist(), value.outside]
        return [self.kind, value, [each.encoded() for each in self.arguments]]


def decoded_expression(record: Any) -> Expression:
    """The expression that a file has; an error for any other record."""
    kind, value, arguments = record
    expression = Expression(kind, value, tuple(decoded_expression(each) for each in arguments))
    wanted = {"column": 0, "flag": 0, "number": 0, "pieces": 1}.get(kind)

    if kind in ("column", "flag") and not isinstance(value, str):
        raise ValueError(f"its expressions read a column {value!r}")
    if kind == "number":
        expression = expression._replace(value=checks.number("number", value))
    if kind == "function":
        if value not in _FUNCTIONS:
            raise ValueError(f"its expressions have a function {value!r}")
        wanted = _FUNCTIONS[value].nin
    if kind == "pieces":
        expression = expression._replace(value=_decoded_pieces(*value))

    if wanted != len(expression.arguments):
        raise ValueError(f"its expressions have {kind!r} of {len(expression.arguments)} arguments")
    return expression


def _decoded_pieces(breaks: Any, coefficients: Any, outside: Any) -> Pieces:
    result = Pieces(
        real("breaks", np.array(breaks, dtype=np.float64), 1),
        real("coefficients", np.array(coefficients, dtype=np.float64), 3),
        checks.choice("outside", outside, _EXTRAPOLATIONS),
    )

    degree, pieces, _ = result.coefficients.shape
    if result.breaks.size < 2 or pieces != result.breaks.size - 1 or not 0 < degree <= _DEGREE + 1:
        raise ValueError("its splines have other numbers of pieces than are written")
    if (np.diff(result.breaks) <= 0).any():
        raise ValueError("its splines have breaks that do not increase")
    return result


def parsed(text: str, column: Callable[[str], np.ndarray]) -> Expression:
    """The expression of a text, with transforms that are fitted to the numbers of columns."""
    names: dict[str, str] = {}

    def alias(match: re.Match[str]) -> str:
        return names.setdefault(match[1], f"quoted_{len(names)}_")

    try:
        node = ast.parse(_QUOTED.sub(alias, text).strip(), mode="eval").body
    except SyntaxError:
        raise checks.value_error(
            "formula",
            f"has {text!r}, which cannot be read: write columns whose names are no words as `x.1`",
        ) from None
    return _of_node(node, text, {other: name for name, other in names.items()}, column)


def _of_node(
    node: ast.AST, text: str, names: Mapping[str, str], column: Callable[[str], np.ndarray]
) -> Expression:
    """The expression of a node of the syntax tree of `text`."""

    def inner(operand: ast.AST) -> Expression:
        return _of_node(operand, text, names, column)

    if isinstance(node, ast.Name):
        return Expression("column", names.get(node.id, node.id))
    if isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
        return Expression("number", float(node.value))

    operator, operands = _operation(node)
    if operator in _OPERATORS:
        return Expression("function", _OPERATORS[operator], tuple(map(inner, operands)))

    if isinstance(node, ast.Call):
        name = called(node)
        # C(...) are the categories of an expression.
        if (name == "I" and len(node.args) == 1) or (name == "C" and node.args):
            return inner(node.args[0])
        if name in NAMED and len(node.args) == _FUNCTIONS[name].nin and not node.keywords:
            return Expression("function", name, tuple(map(inner, node.args)))
        if name in FITTED and node.args:
            return _fitted_transform(name, inner(node.args[0]), node, text, column)

    raise checks.value_error(
        "formula",
        f"has {text!r}: an expression is made of columns, numbers, + - * / **, comparisons, "
        f"I(...), {', '.join(NAMED[:8])}, ..., and {', '.join(FITTED)}; compute others as a column "
        "of the frame",
    )


def _operation(node: ast.AST) -> tuple[type[ast.AST], list[ast.AST]]:
    """The operator of a node, none of `_OPERATORS` where there is none, and its operands."""
    if isinstance(node, ast.BinOp):
        return type(node.op), [node.left, node.right]
    if isinstance(node, ast.UnaryOp):
        return type(node.op), [node.operand]
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return type(node.ops[0]), [node.left, node.comparators[0]]
    return type(node), []


def called(node: ast.Call) -> str:
    """The name of a function that is called; that of numpy for `np.log`."""
    if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
        return node.func.attr if node.func.value.id in ("np", "numpy") else ""
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _fitted_transform(
    name: str, argument: Expression, node: ast.Call, text: str, column: Callable[[str], np.ndarray]
) -> Expression:
    """A transform of formulaic, fitted to the values of its argument."""
    from formulaic.transforms import TRANSFORMS

    try:
        settings = [ast.literal_eval(setting) for setting in node.args[1:]]
        named = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in node.keywords}
    except ValueError:
        raise checks.value_error(
            "formula", f"has {text!r}, whose settings must be numbers or text"
        ) from None

    if len(settings) > 1:
        raise checks.value_error(
            "formula", f"has {text!r}: name its settings, as in bs(x, df=4, degree=3)"
        )

    x = np.asarray(argument(column), dtype=np.float64)
    if x.ndim != 1 or not np.isfinite(x).all():
        raise checks.value_error(
            "formula", f"has {text!r}, whose argument must be one column of finite numbers"
        )

    state: dict[str, Any] = {}

    def transform(values: np.ndarray) -> np.ndarray:
        columns = TRANSFORMS[name](values, *settings, _state=state, **named)
        columns = getattr(columns, "__wrapped__", columns)
        if isinstance(columns, dict):
            columns = np.column_stack(list(columns.values()))
        return np.asarray(columns, dtype=np.float64).reshape(values.size, -1)

    try:
        transform(x)  # which fits the state
    except (ValueError, TypeError) as error:
        raise checks.value_error("formula", f"has {text!r}, which cannot be had: {error}") from None

    breaks = np.unique(np.array(state.get("knots", (x.min(), x.max())), dtype=np.float64))
    if breaks.size < 2:
        raise checks.value_error("formula", f"has {text!r} of a column that is constant")

    pieces = Pieces.of(
        transform, breaks, max(_degree(name, settings, named), 1), _outside(name, named)
    )
    return Expression("pieces", pieces, (argument,))


def _degree(name: str, settings: list[Any], named: Mapping[str, Any]) -> int:
    """The degree of the pieces of a transform with these settings."""
    fixed = FITTED[name]
    if fixed is not None:
        return fixed
    if name == "bs":
        return checks.integer("degree", named.get("degree", 3), low=0, high=_DEGREE)
    return checks.integer(
        "degree", settings[0] if settings else named.get("degree", 1), low=1, high=_DEGREE
    )


def _outside(name: str, named: Mapping[str, Any]) -> str:
    """The extrapolation of a transform to values outside of its breaks."""
    if name == "cc":
        return "periodic"
    return str(named.get("extrapolation", "raise" if name == "bs" else "extend"))
