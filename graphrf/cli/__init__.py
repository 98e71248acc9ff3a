"""The command line: the commands of `graphrf`, each in a file of its own."""

from __future__ import annotations

import gc
import sys
from typing import Annotated

import typer

from graphrf._base.version import __version__
from graphrf.cli import classify, compile, datasets, features, pagerank, regression, space_time
from graphrf.cli.demo import command as demo
from graphrf.cli.options.commands import Group, add_command
from graphrf.cli.options.messages import (
    EXIT_CODES,
    FAILED,
    INTERRUPTED,
    forget_output,
    open_streams,
    said_by,
)

app: typer.Typer = typer.Typer(
    help="Gaussian processes on graphs, node classification, PageRank and graph random features.",
    epilog=f"`graphrf COMMAND --help` has examples.\n\n{EXIT_CODES}",
    no_args_is_help=True,
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 115},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich takes longer to import than everything else that help needs
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"graphrf {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Options before the command's name."""


add_command(app, demo.demo, demo.EXAMPLES)
add_command(app, datasets.datasets, datasets.EXAMPLES)
add_command(app, features.features, features.EXAMPLES)
add_command(app, regression.fit, regression.FIT_EXAMPLES)
add_command(app, regression.predict, regression.PREDICT_EXAMPLES)
add_command(app, space_time.fill, space_time.EXAMPLES)
add_command(app, classify.classify, classify.EXAMPLES)
add_command(app, pagerank.pagerank, pagerank.EXAMPLES)
add_command(app, compile.compile, compile.EXAMPLES)


def main() -> None:
    """Entry point of the `graphrf` command."""
    # Imports make objects that stay: collecting garbage among them takes 5 % of the time.
    gc.set_threshold(50_000)
    open_streams()
    try:
        app()
    except KeyboardInterrupt:  # before or after a command of ours
        sys.exit(INTERRUPTED)
    except OSError as error:  # of help, which is printed outside of commands
        typer.echo(f"graphrf: {said_by(error)}", err=True)
        forget_output()
        sys.exit(FAILED)
