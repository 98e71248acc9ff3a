"""JSON read without trust: one meaning for every text, and one error for every fault."""

from __future__ import annotations

import json
from typing import Any

from graphrf._base.memory import require_memory

# Memory of a value, and of its place in a list or dictionary;
# at most 72 and 32 bytes in CPython 3.11 to 3.13.
_VALUE = 104.0


def parsed(text: str | bytes) -> Any:
    """Parse a JSON text; ValueError if it is invalid, repeats a key or is nested too deeply.

    `MemoryError` where its values may need more memory than is available: up to 26 bytes for each
    byte of the text.
    """
    if isinstance(text, str):
        n_values = sum(map(text.count, "[{,:"))
    else:
        n_values = sum(map(text.count, (b"[", b"{", b",", b":")))
    require_memory(
        _VALUE * n_values + 4.0 * len(text), "a JSON text of that size", "free some of it"
    )
    try:
        return json.loads(text, object_pairs_hook=_object)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("a key is there twice")
    return values


def is_number(value: Any, *, low: float, high: float) -> bool:
    """True if a parsed value is a number in [low, high]; booleans and NaN are not."""
    return isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high


def is_integer(value: Any, *, low: int, high: int) -> bool:
    """True if a parsed value is an integer in [low, high]; booleans are not."""
    return isinstance(value, int) and is_number(value, low=low, high=high)
