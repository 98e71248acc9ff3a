"""Public calls under half and a quarter of their memory: an answer, or a refusal."""

import json
import re
import subprocess
import sys

import pytest

from tests.load.limited_memory import CASES

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="bounds on address space are Linux's"
)
# What is asked for, or how much more than is there; then what to do instead.
REFUSAL = re.compile(
    r"(needs? (about|more than) .* GiB|needs more memory|would hold more than).*; \w+", re.DOTALL
)
# One of each kind; the others take a quarter of an hour together.
FEW = (
    "series, known",
    "features",
    "joint covariance",
    "quantiles",
    "draws, series",
    "prior covariance",
)


@pytest.mark.parametrize(
    "name", [own if own in FEW else pytest.param(own, marks=pytest.mark.full) for own in CASES]
)
def test_a_call_that_lacks_memory_answers_or_says_what_it_takes(name):
    command = [sys.executable, "-m", "tests.load.limited_memory", name]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    ends = [found["0.5"], found["0.25"]]
    assert all(end == "answer" or REFUSAL.search(end) for end in ends), ends
