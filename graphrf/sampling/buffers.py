"""Buffers of compiled loops."""

from __future__ import annotations

import numpy as np

from graphrf._base.compiled import njit


@njit(nogil=True)
def enlarged(array, used, room):  # type: ignore[no-untyped-def]
    """A larger copy of the first `used` elements of a buffer."""
    larger = np.empty(room, array.dtype)
    for i in range(used):
        larger[i] = array[i]
    return larger


@njit(nogil=True)
def with_room(array, used, needed):  # type: ignore[no-untyped-def]
    """The buffer itself, or a copy that is at least twice as large where it is too small."""
    return array if needed <= array.size else enlarged(array, used, max(2 * array.size, needed))
