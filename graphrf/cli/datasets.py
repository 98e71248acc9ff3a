"""`graphrf datasets`: the named data sets, and their cards."""

from __future__ import annotations

from typing import Annotated

import typer

from graphrf.cli.options.output import echo

EXAMPLES = ("graphrf datasets", "graphrf datasets cora")


def datasets(
    name: Annotated[str | None, typer.Argument(help="Show the card of this data set.")] = None,
) -> None:
    """List the named data sets, or show the card of one."""
    if name is None:
        echo(_table())
        return
    from graphrf.datasets.sets import describe

    echo(describe(name))


def _table() -> str:
    from graphrf.datasets.sets import catalog

    cells = [("name", "kind", "nodes", "edges", "found", "licence")]
    for entry in catalog():
        edges = "-" if entry.n_edges is None else f"{entry.n_edges:,}"
        cells.append(
            (entry.name, entry.kind, f"{entry.n_nodes or entry.n_rows:,}", edges, entry.found, entry.licence)
        )
    widths = [max(len(row[column]) for row in cells) for column in range(5)]
    lines = []
    for *columns, licence in cells:
        aligned = [
            cell.rjust(width) if number in (2, 3) else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(columns, widths, strict=True))
        ]
        lines.append("  ".join([*aligned, licence]))
    lines += [
        "",
        "For tables, nodes counts rows. found: built in, in the folder GRAPHRF_DATA_DIR, in the cache, or to be",
        "downloaded when loaded. `graphrf datasets NAME` shows a card, graphrf.datasets.load(NAME) loads it.",
    ]
    return "\n".join(lines) + "\n"
