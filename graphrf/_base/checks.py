"""Checks of arguments, used once at every public entry; messages name the argument and its value.

A wrong type raises `TypeError`, a wrong value `ValueError`; `error.argument` is the argument's
name.
"""

from __future__ import annotations

import difflib
import functools
import math
import numbers
import operator
import os
import re
import secrets
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np

_Error = TypeVar("_Error", bound=Exception)
_Function = TypeVar("_Function", bound=Callable[..., Any])

# Integers that are written out in messages; Python
# refuses to write those of more than 4,300 digits.
_MOST_BITS = 256
# Part of the default representation of Python objects.
_ADDRESS = re.compile(r"<.* at 0x[0-9a-fA-F]+>+", re.DOTALL)


def value_error(name: str, problem: str) -> ValueError:
    """A ValueError of the argument `name`, which begins its message and is its `argument`."""
    return _of_argument(ValueError(f"`{name}` {problem}"), name)


def type_error(name: str, problem: str) -> TypeError:
    """A TypeError of the argument `name`, made as `value_error` makes a ValueError."""
    return _of_argument(TypeError(f"`{name}` {problem}"), name)


def without(
    arguments: str | tuple[str, ...], problem: str | Callable[[str, Any], str]
) -> Callable[[_Function], _Function]:
    """A decorator for functions without arguments that others have; it names the way out."""
    names = (arguments,) if isinstance(arguments, str) else arguments

    def decorated(function: _Function) -> _Function:
        @functools.wraps(function)
        def checked(*args: Any, **options: Any) -> Any:
            for name in filter(options.__contains__, names):
                if isinstance(problem, str):
                    text = problem
                else:
                    text = problem(function.__name__, options[name])
                raise type_error(name, text)
            return function(*args, **options)

        return checked  # type: ignore[return-value]

    return decorated


def _of_argument(error: _Error, name: str) -> _Error:
    error.argument = name  # type: ignore[attr-defined]
    return error


def integer(name: str, value: Any, *, low: int | None = None, high: int | None = None) -> int:
    """`value` as an int within [low, high]; integral floats are refused, numpy integers taken."""
    if isinstance(value, bool | np.bool_):
        raise type_error(name, f"must be an integer, got the boolean {value}")
    try:
        result = operator.index(value)
    except TypeError:
        raise type_error(name, f"must be an integer, got {describe(value)}") from None
    if (low is not None and result < low) or (high is not None and result > high):
        came = result if result.bit_length() < _MOST_BITS else describe(result)
        raise value_error(name, f"must be {_bounds(low, high, True, True)}, got {came}")
    return result


def number(
    name: str,
    value: Any,
    *,
    low: float | None = None,
    high: float | None = None,
    include_low: bool = True,
    include_high: bool = True,
) -> float:
    """`value` as a finite float within the given bounds."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real | np.number):
        raise type_error(name, f"must be a number, got {describe(value)}")
    try:
        result = float(value)
    except OverflowError:
        raise value_error(name, f"must be a number of float64, got {describe(value)}") from None
    if not math.isfinite(result):
        raise value_error(name, f"must be finite, got {result}")
    too_low = low is not None and (result < low if include_low else result <= low)
    too_high = high is not None and (result > high if include_high else result >= high)
    if too_low or too_high:
        raise value_error(
            name, f"must be {_bounds(low, high, include_low, include_high)}, got {result:g}"
        )
    return result


def flag(name: str, value: Any) -> bool:
    """`value` if it is True or False, not strings or numbers, whose truth is seldom meant."""
    if not isinstance(value, bool | np.bool_):
        raise type_error(name, f"must be True or False, got {describe(value)}")
    return bool(value)


def seed(value: int | None, name: str = "seed") -> int:
    """`value` as an integer in [0, 2^63); None draws one from the operating system."""
    if value is None:
        return secrets.randbits(63)
    return integer(name, value, low=0, high=2**63 - 1)


def path(name: str, value: Any) -> str:
    """`value` as the text of a path."""
    try:
        return os.fsdecode(os.fspath(value))
    except TypeError:
        raise type_error(name, f"must be a path, got {describe(value)}") from None


def choice(name: str, value: Any, options: Iterable[str]) -> str:
    """`value` if it is one of the strings `options`."""
    options = tuple(options)
    if not isinstance(value, str) or value not in options:
        error = value_error if isinstance(value, str) else type_error
        among = "one of " if len(options) > 1 else ""
        came = repr(value) if isinstance(value, str) else describe(value)
        near = (
            f"; {like}" if isinstance(value, str) and (like := did_you_mean(value, options)) else ""
        )
        raise error(name, f"must be {among}{', '.join(map(repr, options))}, got {came}{near}")
    return value


def did_you_mean(unknown: str, known: Iterable[str]) -> str:
    """A question that suggests known words similar to an unknown one; empty if there are none.

    Words that differ in spaces at their ends, or in capitals alone, are the most similar.
    """
    by_letters: dict[str, str] = {}
    for word in known:
        by_letters.setdefault(word.strip().casefold(), word)
    letters = unknown.strip().casefold()
    if letters in by_letters:
        near = [by_letters[letters]]
    else:
        close = difflib.get_close_matches(letters, list(by_letters), n=3, cutoff=0.6)
        near = [by_letters[word] for word in close]
    if not near:
        return ""
    start, end = unknown != unknown.lstrip(), unknown != unknown.rstrip()
    place = "around it" if start and end else "at its start" if start else "at its end"
    spaces = f" ({unknown!r} has a space {place})" if start or end else ""
    return f"did you mean {', '.join(map(repr, near))}?{spaces}"


def not_a_kernel(value: Any) -> TypeError:
    """The error of a `kernel` that is none."""
    came = f"the class {value.__name__}: call it" if isinstance(value, type) else describe(value)
    return type_error(
        "kernel", f"must be a graphrf kernel such as Diffusion(lengthscale=2.0), got {came}"
    )


def finite(name: str, array: np.ndarray) -> np.ndarray:
    """`array`, once every entry is known to be finite."""
    good = np.isfinite(array)
    if not good.all():
        where = tuple(int(i) for i in np.argwhere(~good)[0])
        at = where[0] if len(where) == 1 else where
        raise value_error(
            name,
            f"must be finite, got {array[where]} at position {at} "
            f"({int((~good).sum())} of {array.size} entries are NaN or infinite); drop or fill "
            "them first",
        )
    return array


def to_array_like(name: str, value: Any) -> Any:
    """`value` as numpy can take it: tensors of torch on the host; masked entries are refused."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    hidden = int(np.ma.count_masked(value)) if isinstance(value, np.ma.MaskedArray) else 0
    if hidden:
        raise value_error(
            name,
            f"must have no masked entries, got {hidden} of {value.size}; pass only the others, "
            f"with the nodes or edges that they belong to ({name}[~{name}.mask]), or fill them "
            f"({name}.filled)",
        )
    return value


def array(name: str, value: Any, dtype: Any = None) -> np.ndarray:
    """`value` as an array, once it is `to_array_like`."""
    return np.asarray(to_array_like(name, value), dtype=dtype)


def columns(name: str, value: Any, n: int) -> np.ndarray:
    """`value` as an array of real numbers, shape (n,) or (n, p)."""
    array = np.asarray(to_array_like(name, value))
    if array.ndim not in (1, 2) or array.shape[0] != n:
        raise value_error(name, f"must have shape ({n},) or ({n}, p), got {describe(array)}")
    if array.dtype.kind not in "fiub":
        raise type_error(name, f"must hold real numbers, got {describe(array)}")
    return array


def describe(value: Any) -> str:
    """A short account of a value for an error message: shape and dtype of arrays, no entries."""
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape} and dtype {value.dtype}"
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"a {type(value).__name__} of shape {tuple(value.shape)} and dtype {value.dtype}"
    if hasattr(value, "shape") and hasattr(value, "columns"):
        return f"a {type(value).__name__} of shape {tuple(value.shape)}"
    if isinstance(value, int) and value.bit_length() >= _MOST_BITS:
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    if _ADDRESS.fullmatch(text):
        kind = type(value)
        module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
        return f"an object of type {module}{kind.__qualname__}"
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"


def _bounds(low: float | None, high: float | None, include_low: bool, include_high: bool) -> str:
    # Integers are written out: 9.22337e+18 would not identify the last of them.
    least, most = (
        f"{bound}" if isinstance(bound, int) else f"{bound:g}" for bound in (low or 0, high or 0)
    )
    if low is not None and high is not None:
        return f"in {'[' if include_low else '('}{least}, {most}{']' if include_high else ')'}"
    if low is not None:
        return f"{'at least' if include_low else 'greater than'} {least}"
    return f"{'at most' if include_high else 'less than'} {most}"
