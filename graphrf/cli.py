"""The command line: the commands of `graphrf`, each in a file of its own."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from graphrf import (
    _cli_bench,
    _cli_classify,
    _cli_couple,
    _cli_datasets,
    _cli_demo,
    _cli_features,
    _cli_gram,
    _cli_pagerank,
    _cli_regression,
)
from graphrf._cli_groups import add_command
from graphrf._cli_messages import EXIT_CODES, INTERRUPTED
from graphrf._version import __version__

app: typer.Typer = typer.Typer(
    help="Graph random features, Gaussian processes on graphs and PageRank from coupled random walks.",
    epilog=f"`graphrf COMMAND --help` has examples.\n\n{EXIT_CODES}",
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


add_command(app, _cli_demo.demo, examples=_cli_demo.EXAMPLES)
add_command(app, _cli_datasets.datasets, examples=_cli_datasets.EXAMPLES)
add_command(app, _cli_features.features, examples=_cli_features.EXAMPLES)
add_command(app, _cli_gram.gram, examples=_cli_gram.EXAMPLES, places={"nodes": "--rows"})
add_command(app, _cli_regression.fit, examples=_cli_regression.FIT_EXAMPLES, places={"y": "OBSERVATIONS"})
add_command(app, _cli_regression.predict, examples=_cli_regression.PREDICT_EXAMPLES, places={"path": "MODEL"})
add_command(app, _cli_classify.classify, examples=_cli_classify.EXAMPLES, places={"labels": "OBSERVATIONS"})
add_command(app, _cli_pagerank.pagerank, examples=_cli_pagerank.EXAMPLES)
add_command(app, _cli_couple.couple, examples=_cli_couple.EXAMPLES)
add_command(app, _cli_bench.bench, examples=_cli_bench.EXAMPLES)


def main() -> None:
    """Entry point of the `graphrf` command."""
    try:
        app()
    except KeyboardInterrupt:  # before or after a command of ours
        sys.exit(INTERRUPTED)
