"""Philox-4x32-10 as torch operations: the bits of `philox`, in words within int64."""

from __future__ import annotations

import torch
from torch import Tensor

MASK = 0xFFFFFFFF
_M0, _M1 = 0xD2511F53, 0xCD9E8D57
_W0, _W1 = 0x9E3779B9, 0xBB67AE85

Word = Tensor | int
"""A word of 32 bits, or one for each of many counters: int64 tensors that broadcast against each
other.
"""


def philox(
    c0: Word, c1: Word, c2: Word, c3: Word, key: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Four words of 32 random bits for each counter (c0, c1, c2, c3), at least one a tensor."""
    k0, k1 = key & MASK, key >> 32
    for _ in range(10):
        p0, p1 = c0 * _M0, c2 * _M1
        c0, c1 = ((p1 >> 32) & MASK) ^ c1 ^ k0, p1 & MASK
        c2, c3 = ((p0 >> 32) & MASK) ^ c3 ^ k1, p0 & MASK
        k0, k1 = (k0 + _W0) & MASK, (k1 + _W1) & MASK
    words = torch.broadcast_tensors(
        *(word for word in (c0, c1, c2, c3) if isinstance(word, Tensor))
    )
    assert len(words) == 4  # ten rounds mix a tensor into every word
    return words[0], words[1], words[2], words[3]


def bits64(high: Tensor, low: Tensor) -> Tensor:
    """Two words as 64 random bits in an int64."""
    return (high << 32) | low


def high32(bits: Tensor) -> Tensor:
    """The upper word of 64 bits."""
    return (bits >> 32) & MASK


def unit64(bits: Tensor) -> Tensor:
    """A uniform of 53 bits in [0, 1), float64, from 64 bits."""
    return ((bits >> 11) & ((1 << 53) - 1)).double() * 2.0**-53


def unit(high: Tensor, low: Tensor) -> Tensor:
    """A uniform of 53 bits in [0, 1), float64, from two words."""
    return unit64(bits64(high, low))


def signed64(bits: int) -> int:
    """The int64 with these 64 bits."""
    return bits - (1 << 64) if bits >> 63 else bits
