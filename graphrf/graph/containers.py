"""Nodes in whatever holds them: lists, arrays, and the columns and indices of data frames."""

from __future__ import annotations

import numbers
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import numpy as np

from graphrf._base import checks


def is_one(nodes: Any) -> bool:
    """True for what holds no others: a number, a text, an array without axes, or an object of another kind."""
    if isinstance(nodes, str | bytes) or getattr(nodes, "ndim", 1) == 0:
        return True
    return not (isinstance(nodes, Iterable) or hasattr(nodes, "__array__"))


def numbers_or_names(argument: str, nodes: Any, *, tuples: bool) -> np.ndarray | list[Any]:
    """Several nodes as an array of numbers or booleans, shape (n,), or else as a list of names.

    A column (n, 1) is its entries, and rows of several cells are tuples; text, tuples, dates and other objects are
    names as they are. Tuples of one entry stay tuples only if `tuples`.
    """
    if isinstance(nodes, set | frozenset | dict | Iterator):
        raise checks.type_error(
            argument, f"must be in an order, as in a list, got a {type(nodes).__name__}; pass a list of its nodes"
        )
    if len(getattr(nodes, "columns", ())) > 1 and hasattr(nodes, "itertuples"):  # of pandas
        return list(nodes.itertuples(index=False, name=None))
    if len(getattr(nodes, "columns", ())) > 1 and hasattr(nodes, "rows"):  # of polars
        return list(nodes.rows())
    if isinstance(nodes, Collection) and not (hasattr(nodes, "__array__") or hasattr(nodes, "dtype")):
        return _of_list(argument, list(nodes), tuples)
    array = np.atleast_1d(checks.array(argument, nodes))
    if array.dtype.kind in "Mm":  # whose `tolist` may be integers
        return list(nodes)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim > 2:
        raise checks.value_error(argument, f"must have shape (n,) or (n, 1), got {array.shape}")
    if array.ndim == 2:
        return [tuple(row) for row in array.tolist()]
    return array if array.dtype.kind in "biufc" else _of_list(argument, array.tolist(), tuples)


def are_integers(kind: type) -> bool:
    """True for types of integers other than booleans."""
    return issubclass(kind, numbers.Integral) and not issubclass(kind, bool)


def is_missing(node: Any) -> bool:
    """True for None, NaN, and the missing values of pandas."""
    if isinstance(node, float):
        return node != node
    return node is None or type(node).__name__ in ("NAType", "NaTType")


def _of_list(argument: str, nodes: list[Any], tuples: bool) -> np.ndarray | list[Any]:
    kinds = set(map(type, nodes))
    if not kinds:
        return np.zeros(0, dtype=np.int64)
    if any(hasattr(kind, "shape") and not issubclass(kind, np.generic) for kind in kinds):
        nodes = [_plain(argument, node) for node in nodes]  # tensors without axes, and arrays as rows
        kinds = set(map(type, nodes))
    if all(issubclass(kind, tuple | list) for kind in kinds):
        column = all(len(row) == 1 and not isinstance(row[0], list) for row in nodes)
        if column and not (tuples and tuple in kinds):
            return _of_list(argument, [row[0] for row in nodes], tuples)
        return [tuple(row) for row in nodes]
    if all(are_integers(kind) for kind in kinds):
        try:
            return np.array(nodes, dtype=np.int64)
        except OverflowError:
            return np.array(nodes, dtype=object)
    booleans = sum(issubclass(kind, bool | np.bool_) for kind in kinds)
    if booleans == len(kinds) or (not booleans and all(issubclass(kind, numbers.Real) for kind in kinds)):
        return np.array(nodes)
    return nodes


def _plain(argument: str, node: Any) -> Any:
    """A tensor or array within a list as a number, or as a list of numbers; other nodes as they are."""
    return checks.array(argument, node).tolist() if hasattr(node, "shape") else node
