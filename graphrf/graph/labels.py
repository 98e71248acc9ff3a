"""Labels as keys: text that differs in its Unicode form alone is one label."""

from __future__ import annotations

import unicodedata
from collections.abc import Hashable
from typing import Any


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
