"""Philox-4x32-10: random bits of a key (the seed) and a counter (source, walk, step, use).

So the same seed gives the same walks on any number of threads, for any block of nodes, and on any
device. Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC
2011.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numba import uint64

from graphrf._base.compiled import njit

_MASK = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_M0 = np.uint64(0xD2511F53)
_M1 = np.uint64(0xCD9E8D57)
_W0 = np.uint64(0x9E3779B9)
_W1 = np.uint64(0xBB67AE85)


class Use(IntEnum):
    """Purpose of random bits: the last word of the counter, so that no two uses share bits."""

    LENGTH = 0
    DIRECTION = 1
    SHARED_DIRECTION = 2
    POOL = 3
    BATCH = 5
    COMPRESS = 6
    PUSH_WALK = 7


@njit(inline="always")
def philox(c0, c1, c2, c3, key):  # type: ignore[no-untyped-def]
    """Four words of 32 random bits (as uint64) from four 32-bit counters and a 64-bit key."""
    k0 = key & _MASK
    k1 = key >> _HALF
    for _ in range(10):
        p0 = uint64(_M0 * c0)
        p1 = uint64(_M1 * c2)
        c0 = (p1 >> _HALF) ^ c1 ^ k0
        c2 = (p0 >> _HALF) ^ c3 ^ k1
        c1 = p1 & _MASK
        c3 = p0 & _MASK
        k0 = (k0 + _W0) & _MASK
        k1 = (k1 + _W1) & _MASK
    return c0, c1, c2, c3


@njit(inline="always")
def unit(high, low):  # type: ignore[no-untyped-def]
    """A uniform of 53 bits in [0, 1) from two words of 32 bits."""
    return float(((high << _HALF) | low) >> np.uint64(11)) * 2.0**-53
