"""`graphrf bench`: which sampler gives what error at what cost on a graph."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from graphrf.cli.options.kernels import KernelChoice
from graphrf.cli.options.output import OutputPath, Result, aligned, check_output, deliver
from graphrf.cli.options.reading import GRAPH_HELP, Reading, load
from graphrf.cli.options.running import Seeding, Talking

if TYPE_CHECKING:
    from graphrf.cli.measures import Measured

PANEL = "Measuring"
_LEGEND = """\
error: relative error of rows of the Gram matrix. operations, non-zeros: per node. seconds: time to sample all
nodes and assemble the matrix, excluding compilation. The series stores nothing; its operations and seconds are
those of every product with K.
"""
EXAMPLES = (
    "graphrf bench roads.csv --kernel diffusion --lengthscale 2 --seed 0",
    "graphrf bench karate --kernel regularized-laplacian --sizes 8,32 --repeats 2 -o bench.csv",
)


def bench(
    reading: Reading,
    choice: KernelChoice,
    seeding: Seeding,
    talking: Talking,
    graph: Annotated[
        str, typer.Argument(metavar="[GRAPH]", show_default=False, help=f"{GRAPH_HELP} Default: generated-torus.")
    ] = "generated-torus",
    sizes: Annotated[
        str,
        typer.Option(metavar="M,M", help="Walks per node, or budgets of "
        "powers; even numbers.", rich_help_panel=PANEL),
    ] = "32",
    rows: Annotated[
        int, typer.Option(help="Number of random nodes whose rows are compared.", rich_help_panel=PANEL)
    ] = 200,
    repeats: Annotated[int, typer.Option(help="Number of samples from each sampler.", rich_help_panel=PANEL)] = 3,
    most_work: Annotated[
        float, typer.Option(help="Samplers that need more operations "
        "than this are skipped.", rich_help_panel=PANEL)
    ] = 1e10,
    output: OutputPath = None,
) -> None:  # fmt: skip
    """Measure the error and cost of each sampler on a graph, compared with exact rows and the series."""
    check_output(output, [graph])
    for option, value in (("--rows", rows), ("--repeats", repeats)):
        if value < 1:
            raise ValueError(f"`{option}` must be at least 1, got {value}")
    chosen = _sizes(sizes)
    kernel = choice.made("diffusion")
    loaded = load(graph, reading, talking)
    loaded.graph.require_undirected(f"the kernel {kernel!r}")
    seed = seeding.settled(talking)

    from graphrf._base.progress import progress_bar
    from graphrf.cli.measures import measures

    found: list[Measured] = []
    with progress_bar("samplers", talking.progress, unit="measured") as bar:
        for measured in measures(
            loaded.graph, kernel, sizes=chosen, n_rows=rows, repeats=repeats, most_work=most_work, seed=seed
        ):
            found.append(measured)
            bar.update(1)
    records = [asdict(measured) for measured in found]
    facts = {
        "graph": loaded.facts, "kernel": repr(kernel), "seed": seed, "rows": rows, "repeats": repeats,
    }  # fmt: skip
    columns = {name: [record[name] for record in records] for name in records[0]}
    deliver(Result("bench", list(columns.items()), facts, summary=lambda: _table(found)), output, talking)


def _sizes(text: str) -> list[int]:
    try:
        sizes = [int(cell) for cell in text.split(",")]
    except ValueError:
        sizes = []
    if not sizes or any(size < 2 or size % 2 for size in sizes):
        raise ValueError(f"`--sizes` must be even numbers of at least 2, separated by commas, got {text!r}")
    return sizes


def _table(found: list[Measured]) -> str:
    rows = [
        [
            measured.method,
            "-" if measured.size is None else str(measured.size),
            measured.note or ("-" if measured.error is None else f"{measured.error:.3g}"),
            "-" if measured.spread is None else f"{measured.spread:.1g}",
            f"{measured.operations:,.0f}",
            "-" if measured.nonzeros is None else f"{measured.nonzeros:,.1f}",
            "-" if measured.seconds is None else f"{measured.seconds:.3f}",
        ]
        for measured in found
    ]
    text = aligned(("sampler", "size", "error", "+-", "operations", "non-zeros", "seconds"), rows)
    return f"{text}\n{_LEGEND}"
