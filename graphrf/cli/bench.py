"""`graphrf bench`: the error and cost of each sampler on a graph."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from graphrf.cli.options.graphs import Reading, load
from graphrf.cli.options.kernels import KernelChoice
from graphrf.cli.options.messages import Talking
from graphrf.cli.options.output import Result, aligned, check_output, deliver

if TYPE_CHECKING:
    from graphrf.cli.measures import Measured

_LEGEND = """\
error: relative error of rows of the Gram matrix. operations, non-zeros: per node. seconds: time to
sample all nodes and assemble the matrix, excluding compilation. The series stores nothing; its
operations and seconds are those of every product with K.
"""
EXAMPLES = (
    "graphrf bench roads.csv --kernel diffusion --lengthscale 2 --seed 0",
    "graphrf bench karate --kernel regularized_laplacian --sizes 8,32 --repeats 2 -o bench.csv",
)


def bench(
    reading: Reading,
    choice: KernelChoice,
    talking: Talking,
    graph: str = "generated-torus",
    seed: int | None = None,
    sizes: str = "32",
    rows: int = 200,
    repeats: int = 3,
    most_work: float = 1e10,
    output: str | None = None,
) -> None:
    """Measure the error and cost of each sampler on a graph, compared with exact rows and the
    series.
    """
    check_output(output, [graph])
    for option, value in (("--rows", rows), ("--repeats", repeats)):
        if value < 1:
            raise ValueError(f"`{option}` must be at least 1, got {value}")
    chosen = [int(cell) if cell.isdecimal() else 0 for cell in sizes.split(",")]
    if any(size < 2 or size % 2 for size in chosen):
        raise ValueError(
            f"`--sizes` must be even numbers of at least 2, separated by commas, got {sizes!r}"
        )
    kernel = choice.made("diffusion")
    assert kernel is not None
    loaded = load(graph, reading, talking)
    loaded.graph.require_undirected(f"the kernel {kernel!r}")
    seed = talking.settled(seed)

    from graphrf._base.progress import progress_bar
    from graphrf.cli.measures import measures

    found: list[Measured] = []
    with progress_bar("samplers", talking.progress, unit="measured") as bar:
        for measured in measures(
            loaded.graph,
            kernel,
            sizes=chosen,
            n_rows=rows,
            repeats=repeats,
            most_work=most_work,
            seed=seed,
        ):
            found.append(measured)
            bar.update(1)
    records = [asdict(measured) for measured in found]
    facts = {
        "graph": loaded.facts,
        "kernel": repr(kernel),
        "seed": seed,
        "rows": rows,
        "repeats": repeats,
    }
    columns = [(name, [record[name] for record in records]) for name in records[0]]
    deliver(
        Result("bench", columns, facts, summary=lambda: table(found) + _LEGEND), output, talking
    )


def table(found: list[Measured]) -> str:
    """The measurements for people."""
    rows = [
        [
            measured.method,
            "-" if measured.size is None else str(measured.size),
            measured.note or ("-" if measured.error is None else f"{measured.error:.3g}"),
            "-" if measured.standard_error is None else f"{measured.standard_error:.1g}",
            f"{measured.operations:,.0f}",
            "-" if measured.nonzeros is None else f"{measured.nonzeros:,.1f}",
            "-" if measured.seconds is None else f"{measured.seconds:.3f}",
        ]
        for measured in found
    ]
    return aligned(("sampler", "size", "error", "+-", "operations", "non-zeros", "seconds"), rows)
