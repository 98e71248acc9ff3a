"""The command line: `graphrf demo`, `graphrf datasets`."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from graphrf._version import __version__

_USAGE, _INTERRUPTED = 2, 130
# What the library calls `n_walks` is `--walks` to those who typed it.
_OPTIONS = {"n_walks": "--walks", "repeats": "--repeats", "seed": "--seed", "p_halt": "--p-halt", "mesh": "--mesh"}

app = typer.Typer(
    help="Graph random features, Gaussian processes on graphs and PageRank from coupled random walks.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"graphrf {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Options before the command's name."""


@contextmanager
def _plain_messages() -> Iterator[None]:
    """Warnings and what the library says of bad input, one line each on standard error; Ctrl-C leaves quietly."""
    format_before = warnings.formatwarning
    warnings.formatwarning = lambda message, *_, **__: f"graphrf: warning: {message}\n"
    try:
        yield
    except (ValueError, OSError, ImportError, MemoryError) as error:
        text = " ".join(str(error).split()) or type(error).__name__
        for argument, option in _OPTIONS.items():
            text = text.replace(f"`{argument}`", f"`{option}`")
        typer.echo(f"graphrf: {text}", err=True)
        raise typer.Exit(_USAGE) from None
    except KeyboardInterrupt:
        typer.echo("graphrf: interrupted", err=True)
        raise typer.Exit(_INTERRUPTED) from None
    finally:
        warnings.formatwarning = format_before


@app.command()
def demo(
    dataset: Annotated[str, typer.Option(help="Graph for the kernel and PageRank.")] = "karate",
    mesh: Annotated[str, typer.Option(help="Mesh that carries the signal.")] = "twisted-torus",
    traffic: Annotated[bool, typer.Option("--traffic", help="Also interpolate speeds in San Jose.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for the report, the figures and results.json.")] = Path("out"),
    walks: Annotated[int, typer.Option(help="Random walks from every node.")] = 16,
    repeats: Annotated[int, typer.Option(help="Repetitions that errors are averaged over.")] = 20,
    p_halt: Annotated[float, typer.Option(help="Chance that a walk ends before each step.")] = 0.1,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    figures: Annotated[bool, typer.Option(help="Draw figures (needs matplotlib).")] = True,
) -> None:
    """Estimate a graph kernel, a signal on a mesh and PageRank by random walks, beside the exact answers."""
    with _plain_messages():
        started = time.perf_counter()
        if out.exists() and not out.is_dir():
            raise NotADirectoryError(f"`--out` must be a folder, got {out}, which is a file")
        from graphrf._files import require_writable

        if figures:
            import graphrf.plot

            graphrf.plot.require_matplotlib()
        from graphrf import report
        from graphrf._demo_parts import Settings
        from graphrf.demo import run

        settings = Settings(dataset, mesh, traffic, walks, repeats, seed, p_halt)
        # Now, and not after minutes whose results would be lost.
        require_writable(out, "--out")
        parts = []
        for part in run(settings, progress=True):
            parts.append(part)
            typer.echo(report.as_text(part))
        seconds = time.perf_counter() - started
        written = report.write(parts, settings, out, seconds=seconds, with_figures=figures)
        typer.echo(f"Report with {len(written) - 2} figures: {written[0]}")
        typer.echo(f"Numbers: {written[1]}")


@app.command()
def datasets(
    name: Annotated[str | None, typer.Argument(help="Show the card of this data set.")] = None,
) -> None:
    """List the named data sets, or show the card of one."""
    with _plain_messages():
        if name is not None:
            from graphrf.datasets import describe

            typer.echo(describe(name), nl=False)
            return
        typer.echo(_dataset_table(), nl=False)


def _dataset_table() -> str:
    from graphrf.datasets import catalog

    cells = [("name", "kind", "nodes", "edges", "found", "licence")]
    for entry in catalog():
        edges = "-" if entry.n_edges is None else f"{entry.n_edges:,}"
        cells.append(
            (entry.name, entry.kind, f"{entry.n_nodes or entry.n_rows:,}", edges, entry.found, entry.licence)
        )
    widths = [max(len(row[column]) for row in cells) for column in range(5)]
    lines = []
    for *columns, licence in cells:
        aligned = [
            cell.rjust(width) if number in (2, 3) else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(columns, widths, strict=True))
        ]
        lines.append("  ".join([*aligned, licence]))
    lines += [
        "",
        "Nodes of a table are its rows. found: built in, in the folder GRAPHRF_DATA_DIR, in the cache, or to be",
        "fetched when loaded. `graphrf datasets NAME` shows a card, graphrf.datasets.load(NAME) loads it.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Entry point of the `graphrf` command."""
    try:
        app()
    except KeyboardInterrupt:  # before or after a command of ours
        sys.exit(_INTERRUPTED)
