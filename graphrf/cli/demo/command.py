"""`graphrf demo`: a report of predictions on generated data, beside their truth."""

from __future__ import annotations

import time
from pathlib import Path

from graphrf.cli.options.messages import Talking
from graphrf.cli.options.output import echo

EXAMPLES = ("graphrf demo", "graphrf demo --seed 1 --out tour")


def demo(out: str = "out", seed: int = 0, quiet: bool = False) -> None:
    """Write a report of predictions on roads, districts, a mesh and through time."""
    talking = Talking(quiet=quiet)
    started = time.perf_counter()
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"`--out` must be a folder, got {folder}, which is a file")

    from graphrf._base.files.atomic import require_writable
    from graphrf.plot import require_matplotlib

    require_writable(folder, "--out")  # before minutes of computation
    require_matplotlib()
    from graphrf.cli.demo.parts import PARTS
    from graphrf.cli.demo.report import write

    done = []
    for part in PARTS:
        done.append(part(seed))
        echo(f"{done[-1].text}\n")

    page = write(done, folder, seed, time.perf_counter() - started)
    talking.remark(f"report with {len(done)} figures written to {page}")
