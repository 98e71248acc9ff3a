"""Radix sort of 64-bit words by some of their bits, for loops that sort small sets repeatedly."""

from __future__ import annotations

import numpy as np
from numba import uint64

from graphrf._base.compiled import njit

# Maximum width of a digit: its counters stay in the first cache (benchmarks/walks.py).
DIGIT_BITS = 9


@njit(nogil=True)
def sort_words(words, n, low_bit, n_bits, spare, places):  # type: ignore[no-untyped-def]
    """Sort words[:n] (uint64) by `n_bits` bits from `low_bit` on, keeping the order of equal ones.

    `spare` has room for n words, `places` for 2^DIGIT_BITS int64. True if the sorted words are in
    `words`, not `spare`.
    """
    n_passes = (n_bits + DIGIT_BITS - 1) // DIGIT_BITS
    if n_passes == 0:
        return True
    digit_bits = uint64((n_bits + n_passes - 1) // n_passes)
    size = 1 << np.int64(digit_bits)
    mask = uint64(size - 1)
    shift = uint64(low_bit)
    source, target = words, spare
    in_place = True
    for _ in range(n_passes):
        for digit in range(size):
            places[digit] = 0
        for i in range(n):
            places[(source[i] >> shift) & mask] += 1
        place = 0
        for digit in range(size):
            count = places[digit]
            places[digit] = place
            place += count
        for i in range(n):
            word = source[i]
            digit = (word >> shift) & mask
            target[uint64(places[digit])] = word
            places[digit] += 1
        source, target = target, source
        in_place = not in_place
        shift += digit_bits
    return in_place
