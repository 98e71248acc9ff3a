"""What `make test` leaves out is run by `make test-more`, and no test is lost between them."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.other_blas import variables
from tests.support.quick import GRIDS, SLOW, said_again

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("beginning", [*SLOW, *GRIDS])
def test_what_is_listed_is_there(beginning: str) -> None:
    path, _, name = beginning.partition("::")
    assert (ROOT / path).exists()
    assert not name or f"\ndef {name}" in (ROOT / path).read_text(encoding="utf-8")


def test_each_test_that_is_not_full_runs_in_make_test_or_in_make_test_more() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    # The target of each call of pytest, and the marks that it selects.
    calls = re.findall(
        r'^(\S+):.*\n(?:\t.*\n)*?\t\$\(PYTEST\) -m "(.*?)" .* (?:tests|\$\(EVERYTHING\))$',
        makefile,
        re.MULTILINE,
    )
    selected = dict(calls)
    assert list(selected) == ["tests", "more"]
    for more, full, hypothesis in itertools.product((False, True), repeat=3):
        runs = [
            eval(marks, {"more": more, "full": full, "hypothesis": hypothesis})
            for marks in selected.values()
        ]
        assert runs == [not (more or full), (more or hypothesis) and not full]
        assert any(runs) or full
    # What is not even collected is all left to `make test-more`.
    (left_out,) = re.findall(r"^LEFT_OUT := (.*)$", makefile, re.MULTILINE)
    assert {f"{option.removeprefix('--ignore=')}/" for option in left_out.split()} <= set(SLOW)


class Case:
    """A case of a function with parameters."""

    def __init__(self, **parameters: object) -> None:
        self.callspec = SimpleNamespace(params=parameters)


def test_each_value_of_each_parameter_is_in_a_case_that_is_kept() -> None:
    objects = [object(), object()]
    cases = [Case(a=a, b=b, c=c) for a in range(4) for b in ("x", "y", "z") for c in objects]
    again = said_again(cases)
    kept = [case.callspec.params for case in cases if case not in again]
    assert len(kept) == 4  # as many as the parameter of the most values has
    for name, values in {"a": range(4), "b": "xyz", "c": objects}.items():
        assert {each[name] for each in kept} == set(values)


def test_equal_numbers_of_other_types_are_other_values() -> None:
    assert said_again([Case(a=value) for value in (1, 1.0, True, "1", None)]) == []


def test_cases_of_one_parameter_and_functions_without_any_are_kept() -> None:
    assert said_again([Case(a=value) for value in range(50)]) == []
    assert said_again([object()]) == []


def test_another_kernel_of_blas_is_named_where_there_is_one() -> None:
    assert variables("x86_64", {"SkylakeX"}) == "OPENBLAS_CORETYPE=Haswell OPENBLAS_L2_SIZE=512"
    assert variables("AMD64", {"Haswell"}) == "OPENBLAS_CORETYPE=Sandybridge"
    assert variables("arm64", {"neoversen1"}) == variables("x86_64", set()) == ""
