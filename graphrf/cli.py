"""The command line: `graphrf demo`, `graphrf datasets`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Graph random features, Gaussian processes on graphs and PageRank from coupled random walks.",
    no_args_is_help=True,
    add_completion=False,
)


@app.callback()
def _group() -> None:
    """Keep `demo` a command of its own while there is only one."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for figures and the report.")] = Path("out"),
    n_walks: Annotated[int, typer.Option("--walks", help="Walks from every node.")] = 16,
    seed: Annotated[int, typer.Option(help="Seed of all random draws.")] = 0,
) -> None:
    """Estimate a graph kernel with every law of walk lengths and print its error."""
    from graphrf.demo import run

    typer.echo(run(n_walks=n_walks, seed=seed))


def main() -> None:
    """Entry point of the `graphrf` command."""
    app()
