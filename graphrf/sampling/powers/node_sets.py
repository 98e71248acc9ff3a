"""Ordered sets of nodes for compiled loops: a bitmap under two levels of summaries.

`low` has a bit for every node, `middle` one for every 64 nodes, `top` one for every 4,096; all
zeros when empty.
"""

from __future__ import annotations

import numpy as np
from numba import uint64

from graphrf._base.compiled import njit

_U0 = np.uint64(0)
_U1 = np.uint64(1)
_LOW6 = np.uint64(63)
_S6, _S12, _S18 = np.uint64(6), np.uint64(12), np.uint64(18)
# 2 generates the residues of 67, so the remainder of a word with a single bit determines the bit.
_PRIME = np.uint64(67)
_PLACE = np.zeros(67, np.uint64)
for _bit in range(64):
    _PLACE[(1 << _bit) % 67] = _bit


@njit(inline="always")
def insert(node, low, middle, top):  # type: ignore[no-untyped-def]
    """Put a node into the set."""
    word = uint64(node)
    low[word >> _S6] |= _U1 << (word & _LOW6)
    middle[word >> _S12] |= _U1 << ((word >> _S6) & _LOW6)
    top[word >> _S18] |= _U1 << ((word >> _S12) & _LOW6)


@njit(inline="always")
def _lowest(word):  # type: ignore[no-untyped-def]
    """The place of the lowest bit set in a word that is not zero."""
    return _PLACE[(word & (~word + _U1)) % _PRIME]


@njit(nogil=True)
def drain(low, middle, top, nodes, first):  # type: ignore[no-untyped-def]
    """Empty the set into nodes[first:], ascending; returns the end. O(its size + N / 2^18)."""
    n = uint64(first)
    for t in range(uint64(top.size)):
        top_word = top[t]
        top[t] = _U0
        while top_word != _U0:
            m = (t << _S6) + _lowest(top_word)
            top_word &= top_word - _U1
            middle_word = middle[m]
            middle[m] = _U0
            while middle_word != _U0:
                place = (m << _S6) + _lowest(middle_word)
                middle_word &= middle_word - _U1
                word = low[place]
                low[place] = _U0
                while word != _U0:
                    nodes[n] = (place << _S6) + _lowest(word)
                    word &= word - _U1
                    n += _U1
    return np.int64(n)
