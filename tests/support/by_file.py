"""How tests are dealt out to the workers of pytest-xdist: a file at a time.

So what a file compiles and sets up is compiled and set up once, and one worker starts the clusters
of `tests/distributed`.
"""

from __future__ import annotations

from typing import Any

import pytest


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """The scheduler, unless the command line names another way than the usual one."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.split("::")[0]
            return "tests/distributed" if file.startswith("tests/distributed/") else file

    return ByFile(config, log) if config.getoption("dist") == "load" else None
