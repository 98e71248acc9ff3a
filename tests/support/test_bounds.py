"""Bounds on time and memory must stop what is beyond them, and nothing else."""

import time

import numpy as np
import pytest

from tests.support.bounds import within


def test_what_is_within_its_bounds_goes_through_and_the_bounds_are_gone_afterwards():
    with within(5.0, 256):
        assert np.ones(2**20).sum() == 2**20
    np.empty(2**28, dtype=np.uint8)


def test_a_hang_is_ended():
    with pytest.raises(AssertionError, match=r"not done after 0.05 s"), within(0.05, 256):
        time.sleep(10)


def test_a_huge_allocation_fails():
    with within(5.0, 256), pytest.raises(MemoryError):
        np.empty(2**30, dtype=np.uint8)
