"""What is said where an optional library is missing, and what comes without any."""

from __future__ import annotations

import subprocess
import sys

import pytest


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("missing", "name"),
    [("sklearn", "FourierFeatures"), ("sklearn", "KernelRegressionClassifier"), ("torch", "PerformerAttention")],
)
def test_a_missing_library_is_named_with_the_extra(missing, name):
    done = run(f"import sys; sys.modules[{missing!r}] = None\nfrom graphrf import euclidean\neuclidean.{name}")
    assert done.returncode == 1
    assert f"ImportError: {name} needs {missing}" in done.stderr
    assert "pip install 'graphrf[euclidean]'" in done.stderr


def test_the_wing_itself_loads_nothing():
    done = run(
        "import sys\nfrom graphrf import euclidean\nprint({'torch', 'sklearn', 'numpy'} & set(sys.modules))"
    )
    assert done.stdout == "set()\n", done.stderr
