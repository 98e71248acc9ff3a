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
