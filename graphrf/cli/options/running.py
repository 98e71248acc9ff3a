"""Options for running a command: seed, threads, and messages beside the result."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

import typer

from graphrf._base import progress
from graphrf.cli.options.messages import visible
from graphrf.cli.options.standard_input import named

PANEL = "Running"


@dataclass(frozen=True)
class Talking:
    """Options for JSON output, and for progress bars and messages on standard error."""

    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object: result and metadata.", rich_help_panel="Output")
    ] = False
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet",
            "-q",
            help="Print no progress bars and no messages but warnings and errors.",
            rich_help_panel=PANEL,
        ),
    ] = False

    def __post_init__(self) -> None:
        if self.quiet:
            progress.silence()

    @property
    def progress(self) -> bool:
        """True if progress bars are shown: on a terminal, unless `quiet`."""
        return not self.quiet and sys.stderr.isatty()

    def remark(self, text: str) -> None:
        """Say something on standard error."""
        if not self.quiet:
            typer.echo(visible(f"graphrf: {named(text)}"), err=True)


@dataclass(frozen=True)
class Seeding:
    """The seed of all that is drawn."""

    seed: Annotated[
        int | None,
        typer.Option(help="Random seed. Default: random and reported.", rich_help_panel=PANEL),
    ] = None

    def settled(self, talking: Talking) -> int:
        """The seed that was given, or one that is drawn and reported."""
        from graphrf._base import checks

        seed = checks.seed(self.seed)
        if self.seed is None:
            talking.remark(f"random seed {seed}; `--seed {seed}` reproduces this result")
        return seed


@dataclass(frozen=True)
class Threads:
    """Threads of the compiled loops."""

    threads: Annotated[
        int | None,
        typer.Option(
            help="Number of threads. Default: all cores. Results do not depend on it.",
            rich_help_panel=PANEL,
        ),
    ] = None
