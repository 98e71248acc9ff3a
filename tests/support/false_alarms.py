"""How often the suite may fail by chance, counted and enforced; and the seed of a night.

Every sequential test (`tests.support.sequential`) may fail on correct code with a probability of at
most its level. The levels of a session are added up, over the workers of pytest-xdist too and the
negative controls among them, and a session whose sum exceeds `TOTAL` fails. For rates
(`assert_rates`) a level is an exact bound, binomial; for means (`assert_unbiased`) it is an
approximation, by Student's law corrected for skewness, which test_sequential.py holds against
skewed laws. Other random tests draw from fixed seeds: what passes once passes always.

With the environment variable GRAPHRF_TEST_SEED set to an integer from 1 to 999,999,999 (a date,
say) all sequential tests draw anew and Hypothesis looks at inputs of that seed. The same integer
repeats the same session.

The functions named pytest_* are hooks, which tests/conftest.py imports.
"""

from __future__ import annotations

import math
import os
from typing import Any

import pytest

# Bound on the probability that a correct package fails the
# suite, and the level of a test that does not state one.
TOTAL = 1e-4
LEVEL = TOTAL / 2000
VARIABLE = "GRAPHRF_TEST_SEED"
# Rounds of a test that are kept free for one night;
# draws use up to round * 10^6 + n as seeds, below 2^63.
ROUNDS = 16

_KEY = "sequential_levels"


class Account:
    """The levels that were spent in this process, and in workers that have ended."""

    def __init__(self) -> None:
        self.levels: list[float] = []

    def spend(self, level: float) -> None:
        self.levels.append(level)

    @property
    def spent(self) -> float:
        return math.fsum(self.levels)

    @property
    def overdrawn(self) -> bool:
        return self.spent > TOTAL * (1 + 1e-9)

    def __str__(self) -> str:
        rate = f"false-alarm rate at most {self.spent:.2g}"
        return f"sequential tests: {len(self.levels)} calls, {rate}" + (
            f", MORE THAN {TOTAL:g}: lower LEVEL in tests/support/false_alarms.py"
            if self.overdrawn
            else ""
        )


account = Account()


def night(environment: Any = os.environ) -> int:
    """The seed of the night, 0 by day."""
    given = environment.get(VARIABLE) or "0"
    if not (given.isascii() and given.isdigit() and int(given) < 10**9):
        raise ValueError(f"{VARIABLE} must be an integer in [0, 999999999], got {given!r}")
    return int(given)


def numbered(round_: int) -> int:
    """The number of a round among those of all nights: no two nights share one."""
    if not 0 <= round_ < ROUNDS:
        raise ValueError(f"a sequential test has at most {ROUNDS} rounds, got number {round_}")
    return ROUNDS * night() + round_


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if night() and getattr(config.option, "hypothesis_seed", None) is None:
        config.option.hypothesis_seed = str(night())


def pytest_report_header() -> str | None:
    return f"random tests: repeat with {VARIABLE}={night()}" if night() else None


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    account.levels += getattr(node, "workeroutput", {}).get(_KEY, [])


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):  # this is a worker
        session.config.workeroutput[_KEY] = account.levels
    elif account.overdrawn and session.exitstatus in (
        pytest.ExitCode.OK,
        pytest.ExitCode.NO_TESTS_COLLECTED,
    ):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if account.levels:
        terminalreporter.write_line(str(account), red=account.overdrawn)
