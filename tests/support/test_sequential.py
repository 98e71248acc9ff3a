"""Sequential tests themselves: false-alarm rate, power, account and nights."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from tests.support import false_alarms
from tests.support.false_alarms import LEVEL, TOTAL, Account, night, numbered
from tests.support.sequential import _p_values, assert_rates, assert_unbiased, skewness, unskewed


def normal(shift: float, seed: int = 0):
    def draw(index: int, n: int) -> np.ndarray:
        return np.random.default_rng([seed, index]).normal(size=(n, 3)) + [0.0, 0.0, shift]

    return draw


def coin(rate: float, seed: int = 0):
    def draw(index: int, n: int) -> np.ndarray:
        return np.random.default_rng([seed, index]).random((n, 2)) < [0.5, rate]

    return draw


@pytest.fixture
def by_day(monkeypatch: pytest.MonkeyPatch) -> Account:
    """Levels that do not count, of rounds that are the same every night."""
    monkeypatch.delenv(false_alarms.VARIABLE, raising=False)
    monkeypatch.setattr("tests.support.sequential.account", account := Account())
    return account


def alarms(test, n: int) -> int:
    """How many of n calls fail."""
    count = 0
    for seed in range(1, n + 1):
        try:
            test(seed)
        except AssertionError:
            count += 1
    return count


def test_a_correct_sampler_passes() -> None:
    assert_unbiased(normal(0.0), np.zeros(3))
    assert_rates(coin(0.01), [0.45, 0.0], [0.5, 0.01])


def test_the_false_alarm_rate_is_at_most_the_level(by_day: Account) -> None:
    # binomial(400, 0.05) exceeds 38 with probability 1e-4
    assert (
        alarms(lambda seed: assert_unbiased(normal(0.0, seed), np.zeros(3), n0=50, level=0.05), 400)
        <= 38
    )
    assert (
        alarms(
            lambda seed: assert_rates(coin(0.04, seed), [0.5, 0.0], [0.5, 0.04], n0=50, level=0.05),
            400,
        )
        <= 38
    )
    assert len(by_day.levels) == 800


@pytest.mark.parametrize("rate", [0.0, 0.02])
def test_rates_outside_their_bounds_fail(rate: float) -> None:
    with pytest.raises(
        AssertionError, match=r"event 1 happened .* at a rate of 0\.005 to 0\.01 .*round [12]"
    ):
        assert_rates(coin(rate), [0.5, 0.005], [0.5, 0.01], n0=5000)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_fails(bad: float) -> None:
    with pytest.raises(AssertionError, match="finite"):
        assert_unbiased(lambda index, n: np.full((n, 1), bad), 0.0)
    with pytest.raises(AssertionError, match="finite"):
        assert_unbiased(lambda index, n: np.zeros((n, 1)), bad)


def test_a_bias_of_a_quarter_standard_deviation_fails() -> None:
    with pytest.raises(AssertionError, match=r"projection 2 .*round 1"):
        assert_unbiased(normal(0.25), np.zeros(3))


def test_a_bias_in_doubt_is_found_by_a_larger_sample() -> None:
    # Samples of mean 4 / sqrt(1000) and deviation 1: no proof at n0, but 8 standard errors at 4 n0.
    def draw(index: int, n: int) -> np.ndarray:
        return np.resize([-1.0, 1.0], (n, 1)) + 4 / np.sqrt(1000)

    with pytest.raises(AssertionError, match="round 2"):
        assert_unbiased(draw, 0.0)


def test_a_constant_projection_must_equal_its_truth() -> None:
    assert_unbiased(lambda index, n: np.full((n, 1), 1 / 3), 1 / 3)
    with pytest.raises(AssertionError, match="biased"):
        assert_unbiased(lambda index, n: np.full((n, 1), 0.34), 1 / 3)


def test_what_a_constant_projection_may_be_off_by_is_a_share_of_the_truth() -> None:
    truth = np.array([1.0, 1e6])
    for off, expected in ((5e-11, 1.0), (2e-10, 0.0)):
        p_values = _p_values(np.tile(truth * (1 - off), (1000, 1)), truth, 0.0)[0]
        np.testing.assert_array_equal(p_values, expected)


def test_draws_of_the_wrong_shape_are_refused() -> None:
    with pytest.raises(AssertionError, match=r"must return \(1000, 3\)"):
        assert_unbiased(lambda index, n: np.zeros((n, 2)), np.zeros(3))


# -- skewness --------------------------------------------------------------------------------------


def exponential_p_values(sign: float, n: int, replicates: int) -> tuple[np.ndarray, np.ndarray]:
    """p-values of means of n exponential draws: corrected for skewness, and Student's."""
    draws = sign * np.random.default_rng(1).standard_exponential((n, replicates))
    p_values, t = _p_values(draws, np.full(replicates, sign), 0.0)
    return p_values, 2 * stats.t.sf(np.abs(t), n - 1)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_p_values_of_skewed_draws_are_as_rare_as_they_say_and_students_are_not(sign: float) -> None:
    corrected, student = exponential_p_values(sign, 100, 20_000)
    # 20 are expected; of Student's there are 76.
    assert (student < 1e-3).sum() > 40
    assert (corrected < 1e-3).sum() <= 20
    assert (corrected < 1e-2).sum() <= 200
    assert (corrected < 0.5).mean() > 0.45  # and not as rare as nothing
    assert (corrected >= student).all()


def far_tail(n: int, limit: float, replicates: int) -> tuple[float, float]:
    """P(t < -limit) of means of n exponential draws, corrected and Student's.

    By importance sampling: draws of density proportional to exp(-x - b y - b^2 y^2 / 2), y = x - 1,
    of which t is near -limit, with b = limit / sqrt(n); that is a normal law cut at 0.

    Source: Q.-M. Shao, "Self-normalized large deviations", Ann. Probab. 25 (1997), 285-328.
    """
    b = limit / np.sqrt(n)
    # -x - b (x - 1) - b^2 (x - 1)^2 / 2 = -(x - centre)^2 b^2 / 2 + constant
    centre = 1 - (1 + b) / b**2
    law = stats.truncnorm(-centre * b, np.inf, loc=centre, scale=1 / b)
    x = law.rvs((n, replicates), random_state=1)
    weights = np.exp((-x - law.logpdf(x)).sum(axis=0))
    t = (x.mean(axis=0) - 1) / (x.std(axis=0, ddof=1) / np.sqrt(n))
    corrected = unskewed(t, skewness(x), n)
    return float(np.mean(weights * (np.maximum(t, corrected) < -limit))), float(
        np.mean(weights * (t < -limit))
    )


def test_far_tails_of_skewed_draws_are_as_heavy_as_they_say_and_students_are_not() -> None:
    limit = stats.t.isf(1.4e-11, 999)  # what the grid of unbiasedness compares with
    corrected, student = far_tail(1000, limit, 2000)
    assert student > 30 * 1.4e-11
    assert corrected < 5 * 1.4e-11


def test_skewness_is_that_of_the_columns_and_zero_for_constant_ones() -> None:
    draws = np.random.default_rng(0).standard_exponential((100_000, 1))
    found = skewness(np.hstack([draws, -draws, np.full_like(draws, 1 / 3), np.zeros_like(draws)]))
    np.testing.assert_allclose(found, [2, -2, 0, 0], atol=0.1)


def test_the_transformed_statistic_increases_and_leaves_symmetric_draws_alone() -> None:
    t = np.linspace(-50, 50, 1001)
    for skew in (-8.0, -0.1, 0.5, 20.0):
        assert (np.diff(unskewed(t, np.full_like(t, skew), 1000)) >= 0).all()
    np.testing.assert_array_equal(unskewed(t, np.zeros_like(t), 1000), t)
    np.testing.assert_array_equal(
        unskewed(np.array([-np.inf, np.inf]), np.zeros(2), 10), [-np.inf, np.inf]
    )


# -- the account -----------------------------------------------------------------------------------


def test_every_call_is_counted_at_its_level(by_day: Account) -> None:
    assert_unbiased(normal(0.0), np.zeros(3))
    assert_rates(coin(0.01), [0.5, 0.0], [0.5, 0.01], level=1e-6)
    with pytest.raises(AssertionError):
        assert_unbiased(normal(1.0), np.zeros(3))
    assert by_day.levels == [LEVEL, 1e-6, LEVEL]


def test_as_many_calls_as_the_level_is_made_for_are_within_the_total() -> None:
    account = Account()
    account.levels = [LEVEL] * round(TOTAL / LEVEL)
    assert not account.overdrawn
    account.spend(LEVEL)
    assert account.overdrawn
    assert str(account).endswith("MORE THAN 0.0001: lower LEVEL in tests/support/false_alarms.py")


SESSION = """
import numpy as np, pytest
from tests.support.sequential import assert_unbiased

@pytest.mark.parametrize("case", range(4))
def test_mean(case):
    assert_unbiased(lambda index, n: np.zeros((n, 1)), 0.0, level=2.6e-5)
"""


def test_a_session_fails_if_the_levels_of_its_workers_exceed_the_total(tmp_path: Path) -> None:
    (tmp_path / "test_session.py").write_text(SESSION)
    session = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "xdist",
            "-p",
            "tests.support.false_alarms",
            "-p",
            "no:cacheprovider",
            "-n2",
            str(tmp_path / "test_session.py"),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
        env=os.environ
        | {
            "PYTEST_ADDOPTS": "",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            false_alarms.VARIABLE: "20261122",
        },
    )
    lines = session.stdout.splitlines()
    assert session.returncode == 1, session.stdout
    assert "random tests: repeat with GRAPHRF_TEST_SEED=20261122" in lines
    assert lines[-2].startswith(
        "sequential tests: 4 calls, false-alarm rate at most 0.0001, MORE THAN 0.0001"
    )
    assert "4 passed" in lines[-1]


class Session:
    """What hooks see of a session."""

    def __init__(self, **config: object) -> None:
        self.config = SimpleNamespace(**config)
        self.exitstatus = pytest.ExitCode.OK


def test_the_hooks_act_in_this_session(pytestconfig: pytest.Config) -> None:
    names = [name for name in vars(false_alarms) if name.startswith("pytest_")]
    assert len(names) == 5
    for name in names:
        if hasattr(pytestconfig.hook, name):  # pytest-xdist may be absent
            acting = [each.function for each in getattr(pytestconfig.hook, name).get_hookimpls()]
            assert getattr(false_alarms, name) in acting, name


def test_a_session_passes_within_the_total_and_workers_report_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = Session(workeroutput={})
    monkeypatch.setattr(false_alarms, "account", account := Account())
    account.levels = [TOTAL / 2]
    false_alarms.pytest_sessionfinish(worker)
    controller = Session()
    for expected in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        false_alarms.pytest_testnodedown(
            SimpleNamespace(workeroutput=dict(worker.config.workeroutput))
        )
        false_alarms.pytest_sessionfinish(controller)
        assert controller.exitstatus == expected
    false_alarms.pytest_testnodedown(SimpleNamespace())  # of a worker that crashed


# -- nights ----------------------------------------------------------------------------------------


def drawn(monkeypatch: pytest.MonkeyPatch, given: str) -> list[int]:
    """The rounds that a test which is always in doubt draws."""
    rounds = []

    def draw(index: int, n: int) -> np.ndarray:
        rounds.append(index)
        return np.resize([-1.0, 1.0], (n, 1)) + 2.5 / np.sqrt(n)

    monkeypatch.setenv(false_alarms.VARIABLE, given)
    with pytest.raises(AssertionError, match="round 7"):
        assert_unbiased(draw, 0.0)
    return rounds


def test_a_night_has_rounds_of_its_own_and_repeats_them(
    by_day: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    day, other, again, last = (drawn(monkeypatch, given) for given in ("", "1", "1", "999999999"))
    assert day == list(range(len(day)))
    assert len(day) > 1
    assert other == again
    assert not set(day) & set(other)
    assert len({*day, *other, *last}) == 3 * len(day)
    assert last[-1] * 10**8 + 10**8 < 2**63


def test_tests_have_no_more_rounds_than_a_night_keeps_for_them() -> None:
    with pytest.raises(ValueError, match="at most 16 rounds"):
        numbered(16)


@pytest.mark.parametrize("given", ["-1", "1.5", "tomorrow", "1000000000", "²"])
def test_a_night_that_is_no_number_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match="must be an integer"):
        night({false_alarms.VARIABLE: given})


def test_the_header_says_how_a_night_is_repeated_and_hypothesis_has_its_seed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(false_alarms.VARIABLE, "20261122")
    assert (
        false_alarms.pytest_report_header()
        == "random tests: repeat with GRAPHRF_TEST_SEED=20261122"
    )
    given = SimpleNamespace(option=SimpleNamespace(hypothesis_seed=None))
    for expected in ("20261122", "5"):
        false_alarms.pytest_configure(given)
        assert given.option.hypothesis_seed == expected
        given.option.hypothesis_seed = "5"  # said on the command line
    monkeypatch.delenv(false_alarms.VARIABLE)
    assert false_alarms.pytest_report_header() is None
