"""Dense references on one thread: two pools of BLAS threads would wait for each other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True)
def _one_blas_thread() -> Iterator[None]:
    with threadpool_limits(1, user_api="blas"):
        yield
