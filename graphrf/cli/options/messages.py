"""Error messages and warnings of the commands, remarks on standard error, and exit codes."""

from __future__ import annotations

import errno
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import typer

from graphrf._base import progress
from graphrf._base.memory import MORE_MEMORY
from graphrf.cli.options.standard_input import forget, named

FAILED, USAGE, INTERRUPTED, UNREAD = 1, 2, 130, 141
EXIT_CODES = (
    "Exit codes: 0 done; 2 the command cannot be carried out as given (options, files, missing "
    "extras, too little memory), and nothing was written; 130 interrupted; 141 nobody reads the "
    "output any more; 1 anything else."
)
# Full disks, and standard output that was closed.
_UNWRITABLE = (errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT, errno.EBADF)
# Phrases of the library's messages, and the same on the command line; longer ones first.
_PHRASES = {
    MORE_MEMORY: "read it on a machine with more memory",
    "kernel.truncation_length(tol)": "`--kernel` without `--max-length`",
    "Truncated(max_length)": "--lengths truncated",
    "graph.to_undirected()": "--undirected",
    "graphrf.pagerank(graph)": "--method power",
    "graphrf.datasets.names()": "the names that `graphrf datasets` lists",
    "GraphGPRegressor.save": "`graphrf fit`",
    "GraphTimeGPRegressor.save": "`graphrf fit --time`",
    "GraphGPRegressor": "graphrf fit",
    "Features.save": "`graphrf features`",
}
# An object with its settings, which stays as it is; an
# argument in backticks, with its value, or by itself.
_ARGUMENTS = re.compile(
    r"\b[A-Z]\w*\([^()]*\)|`(\w+)`|\b(\w+)=(?:'([\w-]+)'|(True|False)\b)|(?<![\w.-])([a-z]+_[a-z]+)(?![\w=(])"
)
# A remark on a method that no command calls, in parentheses or behind a semicolon or a question.
_PYTHON_ONLY = re.compile(
    r"(?: \(|; |(?<=\?) )(?:graph\.index|graphrf\.load_graph|features\.row_errors)"
    r"\([^()]*\)[^();]*\)?"
)
_OPPOSITES = {
    "--directed": "--undirected",
    "--optimize": "--no-optimize",
    "--weight": "--unweighted",
}
# A terminal obeys these characters, also in the name of a node.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_LONG_NUMBER = re.compile(r"\d+\.\d{6,}(?:e[-+]\d+)?")


@dataclass(frozen=True)
class Talking:
    """Options for JSON output, and for progress bars and remarks on standard error."""

    json: bool = False
    quiet: bool = False

    def __post_init__(self) -> None:
        if self.quiet:
            progress.silence()

    @property
    def progress(self) -> bool:
        """True if progress bars are shown: on a terminal, unless `quiet`."""
        return not self.quiet and progress.on_terminal()

    def remark(self, text: str) -> None:
        """Write a line on standard error, unless `quiet`."""
        if not self.quiet:
            typer.echo(visible(f"graphrf: {named(text)}"), err=True)

    def settled(self, seed: int | None) -> int:
        """The seed, or one that is drawn and reported."""
        from graphrf._base import checks

        settled = checks.seed(seed)
        if seed is None:
            self.remark(f"random seed {settled}; `--seed {settled}` reproduces this result")
        return settled


@contextmanager
def plain_messages(names: Mapping[str, str]) -> Iterator[None]:
    """Warnings and errors about bad input, in one line each on standard error; Ctrl-C is quiet.

    `names` has the options of the command by the library's names of the same arguments. An error
    that is no fault of the input keeps its traceback and the exit code 1.
    """
    format_before = warnings.formatwarning
    warnings.formatwarning = lambda message, *_, **__: visible(
        f"graphrf: warning: {in_options(str(message), names)}\n"
    )

    try:
        yield
    except BrokenPipeError:  # as `| head` makes it
        forget_output()
        raise typer.Exit(UNREAD) from None
    except (ValueError, OSError, ImportError, MemoryError) as error:
        # Without the "[Errno 2] " that Python puts before a message of the library.
        own = (
            said_by(error) if isinstance(error, OSError) and error.filename is None else str(error)
        )
        text = " ".join(own.split()) or type(error).__name__
        typer.echo(visible(f"graphrf: {in_options(text, names)}"), err=True)
        if not isinstance(error, OSError) or error.errno not in _UNWRITABLE:
            raise typer.Exit(USAGE) from None
        forget_output()
        raise typer.Exit(FAILED) from None
    except KeyboardInterrupt:
        typer.echo("graphrf: interrupted", err=True)
        raise typer.Exit(INTERRUPTED) from None
    finally:
        warnings.formatwarning = format_before
        forget()


def in_options(text: str, names: Mapping[str, str]) -> str:
    """A message of the library in the words of the command line."""

    def option(found: re.Match[str]) -> str:
        quoted, name, word, truth, alone = found.groups()
        if quoted:
            return f"`{names.get(quoted, quoted)}`"
        if alone:
            return names.get(alone, alone)
        flag = names.get(name or "", "")
        if not flag.startswith("--"):
            return shortened(found[0])
        if word:
            return f"{flag} {word}"
        return flag if truth == "True" else _OPPOSITES.get(flag, found[0])

    text = _PYTHON_ONLY.sub("", named(text))
    for phrase, here in _PHRASES.items():
        text = text.replace(phrase, here)
    return _ARGUMENTS.sub(option, text)


def visible(text: str) -> str:
    """The text with control characters written out."""
    return _CONTROLS.sub(lambda found: ascii(found[0])[1:-1], text)


def brief(value: float) -> str:
    """A number for people: six significant digits."""
    return f"{value:.6g}"


def shortened(text: str) -> str:
    """The text, such as the `repr` of a kernel, with its decimal numbers as `brief` shows them."""
    return _LONG_NUMBER.sub(lambda found: brief(float(found[0])), text)


def open_streams() -> None:
    """Open streams that the caller has closed: of these, only writing a result is an error."""
    # In the order of their numbers, since the system gives the lowest that is free.
    sys.stdin = sys.stdin or os.fdopen(os.open(os.devnull, os.O_RDONLY), encoding="utf-8")
    sys.stdout = sys.stdout or os.fdopen(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")
    sys.stderr = sys.stderr or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")


def said_by(error: OSError) -> str:
    """The text of an error of the system, without its number."""
    if error.errno == errno.EBADF:
        return "standard output is closed"
    return error.strerror or str(error)


def forget_output() -> None:
    """Write nothing more to standard output that failed, not even when Python closes its files."""
    with suppress(OSError, ValueError):  # replaced by an object without a file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
