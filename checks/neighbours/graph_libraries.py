"""Graphs and tables of other libraries as graphs, with the libraries themselves.

python checks/neighbours/graph_libraries.py

tests/graph/test_other_sources.py leaves out what is not installed; here all of requirements.txt is,
and a test that is left out counts as failed.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def main() -> int:
    options = ["-q", "-rs", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "tests/graph/test_other_sources.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    found = {
        outcome: int(n) for n, outcome in re.findall(r"(\d+) (passed|failed|skipped)", done.stdout)
    }
    if done.returncode or found.get("skipped"):
        print(done.stdout[-4000:], file=sys.stderr)
    print(
        f"{found.get('passed', 0)} passed, {found.get('failed', 0)} failed, "
        f"{found.get('skipped', 0)} left out"
    )
    return int(done.returncode != 0 or "skipped" in found or "passed" not in found)


if __name__ == "__main__":
    sys.exit(main())
