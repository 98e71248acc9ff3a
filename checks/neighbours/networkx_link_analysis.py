"""networkx's own tests of link analysis through the backend: `nx.pagerank(..., backend="graphrf")`.

python checks/neighbours/networkx_link_analysis.py

They run twice: with functions that graphrf does not have left to networkx, and without, when
networkx itself expects the tests of those functions to fail. The exit status is 1 where a test
fails, or where none went through.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

TESTS = ["--pyargs", "networkx.algorithms.link_analysis"]


def counts(environment: Mapping[str, str]) -> dict[str, int]:
    """Tests by outcome, in pytest's words."""
    with tempfile.TemporaryDirectory() as folder:
        # The file is empty: without one, pytest takes that of this repository.
        settings = Path(folder, "pytest.ini")
        settings.touch()
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-c",
                str(settings),
                "-p",
                "no:cacheprovider",
                *TESTS,
            ],
            env={**os.environ, "NETWORKX_TEST_BACKEND": "graphrf", **environment},
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    summary = done.stdout.strip().splitlines()[-1]
    found = {
        outcome: int(n)
        for n, outcome in re.findall(r"(\d+) (passed|failed|errors?|xfailed|skipped)", summary)
    }
    if done.returncode or not found.get("passed"):
        print(done.stdout[-4000:], done.stderr[-2000:], file=sys.stderr)
        found["failed"] = max(found.get("failed", 0), 1)
    return found


def main() -> int:
    print("| backend | passed | failed | left to networkx |\n|---|---|---|---|")
    failed = 0
    for title, environment in (("with fallback", {"NETWORKX_FALLBACK_TO_NX": "1"}), ("alone", {})):
        found = counts(environment)
        wrong = found.get("failed", 0) + found.get("error", 0) + found.get("errors", 0)
        print(f"| {title} | {found.get('passed', 0)} | {wrong} | {found.get('xfailed', 0)} |")
        failed += wrong
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
