"""Tests that need files which are not in the repository."""

from __future__ import annotations

import os

import pytest

DATA = os.environ.get("GRAPHRF_DATA_DIR")
needs_data = pytest.mark.skipif(not DATA, reason="GRAPHRF_DATA_DIR is not set: no real data here")
