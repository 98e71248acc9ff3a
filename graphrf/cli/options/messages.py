"""What the commands say when something is wrong, and the exit code that goes with it."""

from __future__ import annotations

import errno
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import typer

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
    "personalization": "--seeds", "source": "GRAPH", "graph": "GRAPH", "path": "-o", "folder": "GRAPH",
    **{
        name: f"--{name}"
        for name in (
            "repeats", "seed", "mesh", "budget", "lengths", "directions", "kernel", "lengthscale", "power",
            "alpha", "steps", "laplacian", "nodes", "rows", "cols", "weight", "columns", "header", "directed",
            "method", "noise", "tol", "k", "seeds", "order", "objective", "solver", "sampler", "predictive",
        )
    },
}  # fmt: skip
# Ways out that are Python, in the words of the command line.
_PHRASES = {
    "`graph.to_undirected()` makes one (weights of both directions are added)": "--undirected makes one",
    "use a smaller p_halt, Truncated(max_length), or the exact series (graphrf.apply_kernel, method='series')": (
        "use a smaller --p-halt, --lengths truncated, or the exact series (graphrf gram --exact, graphrf fit "
        "--method series)"
    ),
    "kernel.truncation_length(tol) gives a sufficient length for Truncated(max_length)": (
        "raise --max-length, or leave it out and name the --kernel, from which it then follows"
    ),
    "kernel.truncation_length(tol) gives a sufficient max_length": "raise --max-length",
    "compare features.gram(kernel, rows=r, cols=r) with graphrf.kernel_block(graph, kernel, r, r) for some "
    "nodes r": "compare `graphrf gram` with and without --exact for some --rows",
    ", and features.row_errors(kernel) what a larger budget would save": ", and a larger --budget may help too",
    "(graphrf.apply_kernel, method='series')": "(graphrf gram --exact, graphrf fit --method series)",
    "fix the lengthscale (optimize=False)": "fix it (--lengthscale and --no-optimize)",
    "kernel='diffusion'": "--kernel diffusion",
    "method='walks'": "--method walks",
    "method='series'": "--method series",
    "directed=True": "--directed",
    "directed=False": "--undirected",
    "weight='length'": "--weight length",
    "graphrf.load_graph reads your own files": "your own files are given by their path",
    "named data sets are read by graphrf.datasets.load(name)": "`graphrf datasets` lists the named data sets",
    "; graph.index(...) turns names of nodes into positions": "",
    "GraphGPRegressor.save": "`graphrf fit`",
    "Features.save": "`graphrf features`",
    "Coupling.save": "`graphrf couple`",
}
# Names that no sentence has by chance, where they are not part of the text of an object.
_BARE = re.compile(r"(?<![`\w.-])(n_walks|max_length|memory_limit|n_threads|weight_is|n_samples)(?![\w=`])")


@contextmanager
def plain_messages(places: Mapping[str, str] | None = None) -> Iterator[None]:
    """Warnings and what the library says of bad input, one line each on standard error; Ctrl-C leaves quietly.

    `places` names arguments otherwise than `_OPTIONS` does. Whatever is no fault of the input keeps its traceback
    and the exit code 1.
    """
    format_before = warnings.formatwarning
    warnings.formatwarning = lambda message, *_, **__: f"graphrf: warning: {_in_options(str(message), places)}\n"
    try:
        yield
    except BrokenPipeError:
        _leave_quietly()
    except (ValueError, OSError, ImportError, MemoryError) as error:
        # Without the "[Errno 2] " that Python puts before a message of the library's own.
        own = error.strerror if isinstance(error, OSError) and error.filename is None else None
        text = " ".join((own or str(error)).split()) or type(error).__name__
        typer.echo(f"graphrf: {_in_options(text, places)}", err=True)
        spent = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT)
        raise typer.Exit(FAILED if spent else USAGE) from None
    except KeyboardInterrupt:
        typer.echo("graphrf: interrupted", err=True)
        raise typer.Exit(INTERRUPTED) from None
    finally:
        warnings.formatwarning = format_before


def _in_options(text: str, places: Mapping[str, str] | None) -> str:
    """A message of the library in the words of the command line."""
    for phrase, words in _PHRASES.items():
        text = text.replace(phrase, words)
    names = {**_OPTIONS, **(places or {})}
    text = re.sub(r"`([a-z_]+)`", lambda found: f"`{names.get(found[1], found[1])}`", text)
    return _BARE.sub(lambda found: names[found[1]], text)


def _leave_quietly() -> None:
    """End as `| head` expects: nothing more is written, and nothing is said of it when Python closes its files."""
    import os

    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    raise typer.Exit(0)
