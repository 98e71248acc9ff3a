"""A process that is killed while it saves leaves the old file or the new one (see `saving`)."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.places import in_memory

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks processes and kills them")

WRITERS = ("features", "coupling", "data_set", "first", "report", "graph")


def killed(rounds: int, tmp_path: Path, *names: str) -> dict:
    with in_memory(tmp_path) as folder:
        done = subprocess.run(
            [sys.executable, "-m", "tests.faults.saving", str(rounds), str(folder), *names],
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def require_old_or_new(found: dict, name: str) -> None:
    assert found["wrong"] == [], name
    # A killed writer leaves one temporary file, which the next one removes.
    assert found["most_left"] <= 1, name
    assert found["left"] == 0, name


# With 8 rounds the moments are few, but steps are all there are.
@pytest.mark.parametrize("rounds", [8, pytest.param(300, marks=pytest.mark.full)])
def test_a_writer_that_is_killed_leaves_the_old_file_or_the_new_one(tmp_path, rounds):
    writers = (*WRITERS, "regressor") if importlib.util.find_spec("torch") else WRITERS
    for name, found in killed(rounds, tmp_path, *writers).items():
        steps, moments = found["steps"], found["moments"]
        require_old_or_new(steps, name)
        require_old_or_new(moments, name)
        assert moments["rounds"] == rounds
        assert steps["rounds"] == steps["steps"] >= 10, name
        assert steps["old"] + steps["missing"] > 0, name
        assert steps["new"] + steps["missing"] > 0, name


def test_a_file_written_in_its_place_is_found_out(tmp_path):
    """The negative control."""
    found = killed(40, tmp_path, "naive")["naive"]
    assert len(found["steps"]["wrong"]) > 30
    assert len(found["moments"]["wrong"]) > 5
