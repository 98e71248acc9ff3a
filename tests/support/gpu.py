"""The device of tests with the mark `cuda`, which are skipped where torch sees no GPU.

The environment variable `GRAPHRF_TEST_DEVICE` names the device instead: with `cpu` these tests are
rehearsed, and with `cuda` they fail where there is no GPU.
"""

from __future__ import annotations

import os

import pytest


def pytest_runtest_logreport(report):
    """Print a failure at once where the device is named: a later test may hang."""
    if report.failed and "GRAPHRF_TEST_DEVICE" in os.environ:
        print(f"\n{report.nodeid}\n{report.longreprtext}", flush=True)


@pytest.fixture
def gpu():
    """A torch device, in tests that have the mark `cuda`."""
    import torch

    named = os.environ.get("GRAPHRF_TEST_DEVICE")
    if named is None and not torch.cuda.is_available():
        pytest.skip("torch sees no CUDA device")
    return torch.empty(0, device=named or "cuda").device
