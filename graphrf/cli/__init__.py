"""The command line: the commands of `graphrf`, each in a file of its own."""

from __future__ import annotations

import gc
import sys
from typing import Annotated

import typer

from graphrf._base.version import __version__
from graphrf.cli import bench, classify, couple, datasets, features, gram, pagerank, regression, space_time
from graphrf.cli.demo import command
from graphrf.cli.options.groups import Group, add_command
from graphrf.cli.options.messages import EXIT_CODES, INTERRUPTED

app: typer.Typer = typer.Typer(
    help="Gaussian processes on graphs, node classification, PageRank and graph random features.",
    epilog=f"`graphrf COMMAND --help` has examples.\n\n{EXIT_CODES}",
    no_args_is_help=True,
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 115},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich takes longer to import than all else that help needs
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


add_command(app, command.demo, examples=command.EXAMPLES)
add_command(app, datasets.datasets, examples=datasets.EXAMPLES, places={"name": "NAME"})
add_command(app, features.features, examples=features.EXAMPLES)
add_command(app, gram.gram, examples=gram.EXAMPLES, places={"nodes": "--rows"})
add_command(app, regression.fit, examples=regression.FIT_EXAMPLES, places=space_time.PLACES)
add_command(app, regression.predict, examples=regression.PREDICT_EXAMPLES, places={"path": "MODEL"})
add_command(app, space_time.fill, examples=space_time.EXAMPLES, places=space_time.PLACES)
add_command(app, classify.classify, examples=classify.EXAMPLES, places={"labels": "OBSERVATIONS"})
add_command(app, pagerank.pagerank, examples=pagerank.EXAMPLES)
add_command(app, couple.couple, examples=couple.EXAMPLES)
add_command(app, bench.bench, examples=bench.EXAMPLES)


def main() -> None:
    """Entry point of the `graphrf` command."""
    gc.set_threshold(50_000)  # what imports make stays: to look for garbage in it is a twentieth of short commands
    try:
        app()
    except KeyboardInterrupt:  # before or after a command of ours
        sys.exit(INTERRUPTED)
