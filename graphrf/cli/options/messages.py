"""Error messages and warnings of the commands, and their exit codes."""

from __future__ import annotations

import errno
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import typer

from graphrf._base.memory import MORE_MEMORY
from graphrf.cli.options.standard_input import forget, named

FAILED, USAGE, INTERRUPTED = 1, 2, 130
EXIT_CODES = (
    "Exit codes: 0 done; 2 the command cannot be carried out as given (options, files, missing extras, too little "
    "memory), and nothing was written; 130 interrupted; 1 anything else."
)

# What the library calls `n_walks` is `--walks` to those who typed it.
_OPTIONS = {
    "n_walks": "--walks",
    "n_batches": "--batches", "p_halt": "--p-halt", "n_threads": "--threads", "max_length": "--max-length",
    "memory_limit": "--memory-limit", "weight_is": "--weight-is", "max_train": "--max-train",
    "output_scale": "--output-scale", "n_walkers": "--walkers", "n_samples": "--samples", "max_iter": "--max-iter",
    "nu": "--smoothness", "on": "--mesh-on", "weights": "--mesh-weights", "solvers": "--solver",
    "personalization": "--sources", "path": "-o",
    **dict.fromkeys(("source", "graph", "folder", "adjacency", "edge_index", "src", "dst"), "GRAPH"),
    **{
        name: f"--{name}"
        for name in (
            "repeats", "seed", "mesh", "budget", "lengths", "directions", "kernel", "lengthscale", "power",
            "alpha", "steps", "laplacian", "nodes", "rows", "cols", "weight", "columns", "header", "directed",
            "method", "noise", "tol", "k", "sources", "order", "objective", "solver", "sampler", "predictive",
            "times", "optimize", "dataset", "error",
        )
    },
}  # fmt: skip
_SWITCHED_OFF = {"directed": "--undirected", "optimize": "--no-optimize", "weight": "--unweighted"}
# Calls of the library and what does the same here.
_CALLS = {
    "graph.to_undirected": "--undirected",
    "graphrf.apply_kernel": "graphrf gram --exact",
    "graphrf.kernel_block": "`graphrf gram --exact`",
    "graphrf.pagerank": "--method power",
    "features.gram": "`graphrf gram`",
    "kernel.truncation_length": "`--kernel` without `--max-length`",
    "Truncated": "--lengths truncated",
    "graphrf.datasets.names": "what `graphrf datasets` lists",
    "GraphGPRegressor.save": "`graphrf fit`",
    "GraphTimeGPRegressor.save": "`graphrf fit --time`",
    "GraphGPRegressor": "graphrf fit",
    "Features.save": "`graphrf features`",
    "Coupling.save": "`graphrf couple`",
}
# Calls that nothing here does: remarks on them, in parentheses or behind a semicolon or question, are left out.
_ONLY_PYTHON = ("graph.index", "graphrf.load_graph", "features.row_errors")
_QUOTED = re.compile(r"`([a-zA-Z_]+)`")
# A setting, or an object with its settings, which stays as it is.
_SETTING = re.compile(r"\b[A-Z]\w*\(\w+=[^()]*\)|\b([a-z_]+)=(?:'([\w-]+)'|(True|False)\b)")
_CALL = re.compile(rf"(`?)\b({'|'.join(map(re.escape, _CALLS))})\b(?:\([^()]*\))?\1(?!\.)")
_REMARK = re.compile(rf"(?: \(|; |(?<=\?) )(?:{'|'.join(map(re.escape, _ONLY_PYTHON))})\([^()]*\)[^();]*\)?")
# Names that no sentence has by chance, where they are not part of the text of an object.
_BARE = re.compile(r"(?<![`\w.-])(n_walks|p_halt|max_length|memory_limit|n_threads|weight_is|n_samples)(?![\w=`])")
# A terminal obeys these characters, also in the name of a node.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_LONG_NUMBER = re.compile(r"\d+\.\d{4,}(?:e[-+]\d+)?")


@contextmanager
def plain_messages(places: Mapping[str, str] | None = None) -> Iterator[None]:
    """Warnings and what the library says of bad input, one line each on standard error; Ctrl-C leaves quietly.

    `places` names arguments otherwise than `_OPTIONS` does. Whatever is no fault of the input keeps its traceback
    and the exit code 1.
    """
    format_before = warnings.formatwarning
    warnings.formatwarning = lambda message, *_, **__: visible(
        f"graphrf: warning: {_in_options(str(message), places)}\n"
    )
    try:
        yield
    except BrokenPipeError:
        _leave_quietly()
    except (ValueError, OSError, ImportError, MemoryError) as error:
        # Without the "[Errno 2] " that Python puts before a message of the library's own.
        own = error.strerror if isinstance(error, OSError) and error.filename is None else None
        text = " ".join((own or str(error)).split()) or type(error).__name__
        typer.echo(visible(f"graphrf: {_in_options(text, places)}"), err=True)
        spent = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT)
        raise typer.Exit(FAILED if spent else USAGE) from None
    except KeyboardInterrupt:
        typer.echo("graphrf: interrupted", err=True)
        raise typer.Exit(INTERRUPTED) from None
    finally:
        warnings.formatwarning = format_before
        forget()


def visible(text: str) -> str:
    """The text with control characters written out."""
    return _CONTROLS.sub(lambda found: ascii(found[0])[1:-1], text)


def brief(value: float) -> str:
    """A number for people: four significant digits, and all of those before the point."""
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"


def shortened(text: str) -> str:
    """The text, such as the `repr` of a kernel, with its decimal numbers as `brief` shows them."""
    return _LONG_NUMBER.sub(lambda found: brief(float(found[0])), text)


def _in_options(text: str, places: Mapping[str, str] | None) -> str:
    """A message of the library in the words of the command line, by its names of arguments and calls."""
    names = {**_OPTIONS, **(places or {})}

    def setting(found: re.Match[str]) -> str:
        name, word, truth = found.groups()
        if name is None:
            return shortened(found[0])
        if not names.get(name, "").startswith("--"):
            return found[0]
        if word is not None:
            return f"{names[name]} {word}"
        return names[name] if truth == "True" else _SWITCHED_OFF.get(name, found[0])

    text = text.replace(MORE_MEMORY, "read it on a machine with more memory")
    text = _CALL.sub(lambda found: _CALLS[found[2]], _REMARK.sub("", named(text)))
    text = _QUOTED.sub(lambda found: f"`{names.get(found[1], found[1])}`", _SETTING.sub(setting, text))
    return _BARE.sub(lambda found: names[found[1]], text)


def _leave_quietly() -> None:
    """End as `| head` expects: nothing more is written, and nothing is said of it when Python closes its files."""
    import os

    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    raise typer.Exit(0)
