"""`graphrf datasets`: the named data sets, and their cards."""

from __future__ import annotations

from graphrf.cli.options.output import aligned, echo

EXAMPLES = ("graphrf datasets", "graphrf datasets cora")
_LEGEND = """
For tables, nodes counts rows. found: built in, in the folder GRAPHRF_DATA_DIR, in the cache, or to
fetch when loaded. `graphrf datasets NAME` shows a card, graphrf.datasets.load(NAME) loads it.
"""


def datasets(name: str | None = None) -> None:
    """List the named data sets, or show the card of one."""
    from graphrf.datasets.sets import catalog, describe

    if name is not None:
        echo(describe(name))
        return
    rows = [
        (
            entry.name,
            entry.kind,
            f"{entry.n_nodes or entry.n_rows:,}",
            "-" if entry.n_edges is None else f"{entry.n_edges:,}",
            entry.found,
            entry.licence,
        )
        for entry in catalog()
    ]
    echo(
        aligned(("name", "kind", "nodes", "edges", "found", "licence"), rows, right=(2, 3))
        + _LEGEND
    )
