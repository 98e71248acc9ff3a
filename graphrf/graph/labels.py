"""Labels as keys, of which text that differs in its Unicode form alone is one, and their kinds."""

from __future__ import annotations

import numbers
import unicodedata
from collections.abc import Hashable
from typing import Any

import numpy as np

# Python's floats are exact integers below this.
EXACT = 2.0**53


def canonical(label: Any) -> Any:
    """A label whose text, also within tuples, has Unicode's composed form (NFC)."""
    if isinstance(label, str):
        return label if label.isascii() else unicodedata.normalize("NFC", label)
    return tuple(map(canonical, label)) if isinstance(label, tuple) else label


class Lookup(dict[Hashable, int]):
    """Places by label: of a label that is no key, the place of the one key that reads the same.

    Files of macOS have accents as marks of their own, and others have them within their letters:
    the two look alike. Keys that are equal once they are composed are found as they are alone.
    """

    def __missing__(self, label: Hashable) -> int:
        if not _has_forms(label):
            raise KeyError(label)
        return self._by_form[canonical(label)]

    def __contains__(self, label: object) -> bool:
        return dict.__contains__(self, label) or (
            _has_forms(label) and canonical(label) in self._by_form
        )

    def get(self, label: Hashable, default: Any = None) -> Any:
        try:
            return self[label]
        except KeyError:
            return default

    @property
    def _by_form(self) -> dict[Hashable, int]:
        """Places by the composed form of keys, without forms that several keys have."""
        if "_forms" not in vars(self):
            forms: dict[Hashable, list[int]] = {}
            for label, place in self.items():
                if _has_forms(label):
                    forms.setdefault(canonical(label), []).append(place)
            self._forms = {form: places[0] for form, places in forms.items() if len(places) == 1}
        return self._forms


def _has_forms(label: Any) -> bool:
    """True for labels with text beyond ASCII, which Unicode may write in several ways."""
    if isinstance(label, tuple):
        return any(map(_has_forms, label))
    return isinstance(label, str) and not label.isascii()


def is_integer(node: Any) -> bool:
    """True if a node's name is an integer."""
    return are_integers(type(node))


def are_integers(kind: type) -> bool:
    """True for types of integers other than booleans."""
    return issubclass(kind, numbers.Integral) and not issubclass(kind, bool)


def exact_below(dtype: Any) -> float:
    """The size below which floats of this type hold every integer."""
    return 2.0 ** (np.finfo(dtype).nmant + 1)


def is_rounded(node: Any, exact: float = EXACT) -> bool:
    """True for a float that may be a rounded integer."""
    return isinstance(node, float) and abs(node) >= exact


def is_missing(node: Any) -> bool:
    """True for None, NaN, and the missing values of pandas."""
    if isinstance(node, float):
        return node != node
    return node is None or type(node).__name__ in ("NAType", "NaTType")
