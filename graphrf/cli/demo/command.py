"""`graphrf demo`: a report that shows what the library does."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = (
    "graphrf demo --no-figures",
    "graphrf demo --walks 8 --repeats 4 --seed 1 --out tour",
)


def demo(
    dataset: Annotated[str, typer.Option(help="Graph for PageRank and the kernel.")] = "karate",
    mesh: Annotated[str, typer.Option(help="Mesh on which a signal is predicted.")] = "generated-torus",
    traffic: Annotated[
        bool, typer.Option("--traffic", help="Also predict speeds in San Jose and, through time, in Los Angeles.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for the report, the figures and results.json.")] = Path("out"),
    walks: Annotated[int, typer.Option(help="Random walks per node.")] = 16,
    repeats: Annotated[int, typer.Option(help="Repetitions over which errors are averaged.")] = 20,
    p_halt: Annotated[float, typer.Option(help="Probability that a walk ends before each step.")] = 0.1,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    figures: Annotated[bool, typer.Option(help="Draw figures (needs matplotlib).")] = True,
) -> None:
    """Write a report: predictions on a mesh, PageRank and graph random features, compared with exact answers."""
    started = time.perf_counter()
    if out.exists() and not out.is_dir():
        raise NotADirectoryError(f"`--out` must be a folder, got {out}, which is a file")
    from graphrf._base.files.atomic import require_writable

    if figures:
        import graphrf.plot

        graphrf.plot.require_matplotlib()
    from graphrf.cli.demo import report
    from graphrf.cli.demo.parts import Settings
    from graphrf.cli.demo.run import run

    settings = Settings(dataset, mesh, traffic, walks, repeats, seed, p_halt)
    # Checked now, since results would be lost if this failed after minutes of computation.
    require_writable(out, "--out")
    parts = []
    for part in run(settings, progress=True):
        parts.append(part)
        typer.echo(report.as_text(part))
    seconds = time.perf_counter() - started
    written = report.write(parts, settings, out, seconds=seconds, with_figures=figures)
    typer.echo(f"Report with {len(written) - 2} figures: {written[0]}")
    typer.echo(f"Numbers: {written[1]}")
