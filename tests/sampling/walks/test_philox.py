import numpy as np
import pytest
from numba import njit

from graphrf._base import checks
from graphrf.sampling.walks.philox import philox, unit


@njit
def _words(c0, c1, c2, c3, key):
    return philox(c0, c1, c2, c3, key)


# Counter, key and answer of Random123's philox4x32-10 (kat_vectors).
KNOWN_ANSWERS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN_ANSWERS)
def test_philox_gives_the_published_answers(counter, key, answer):
    words = _words(*(np.uint64(word) for word in counter), np.uint64(key[0] | key[1] << 32))
    assert tuple(int(word) for word in words) == answer


def test_unit_lies_in_the_half_open_interval_and_uses_53_bits():
    make = njit(lambda high, low: unit(high, low))
    assert make(np.uint64(0), np.uint64(0)) == 0.0
    assert make(np.uint64(0xFFFFFFFF), np.uint64(0xFFFFFFFF)) == 1.0 - 2.0**-53
    assert make(np.uint64(0), np.uint64(1 << 11)) == 2.0**-53


def test_seeds_are_checked_and_drawn_when_missing():
    assert checks.seed(0) == 0
    assert checks.seed(None) != checks.seed(None)
    for bad in (-1, 2**63, 1.5, "1", True):
        with pytest.raises((ValueError, TypeError), match="seed"):
            checks.seed(bad)
