"""Observations in a file: a column of nodes and one of targets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graphrf.cli.options.nodes import NodeNames
from graphrf.cli.options.running import Talking
from graphrf.cli.options.standard_input import input_file
from graphrf.cli.options.tables import NODE_TITLES, TARGET_TITLES, TextTable, read_table

if TYPE_CHECKING:
    import numpy as np

PANEL = "Observations"
ObservationsFile = Annotated[
    str,
    typer.Argument(
        metavar="OBSERVATIONS", show_default=False,
        help="A csv file, or - for standard input: a column of nodes and one of values, a line per observation.",
    ),
]  # fmt: skip


@dataclass(frozen=True)
class ObservedColumns:
    """Which columns of the file of observations are read."""

    node_column: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", rich_help_panel=PANEL,
            help=f"Title, or position from 0. Default: {', '.join(NODE_TITLES)}, or the first of two.",
        ),
    ] = None  # fmt: skip
    target_column: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", rich_help_panel=PANEL,
            help=f"Title, or position from 0. Default: {', '.join(TARGET_TITLES)}, or the other of two.",
        ),
    ] = None  # fmt: skip

    def read(self, file: str, names: NodeNames) -> tuple[np.ndarray, list[float]]:
        """Positions of the observed nodes, and what was observed there."""
        table, positions, target = self._read(file, names)
        return positions, table.numbers(target)

    def read_labels(self, file: str, names: NodeNames, talking: Talking) -> tuple[np.ndarray, list[str]]:
        """Positions of the labelled nodes, and their labels as text; says what was taken as titles."""
        table, positions, target = self._read(file, names)
        if table.titles is not None and table.first_of((*NODE_TITLES, *TARGET_TITLES)) is None:
            talking.remark(f"the first line of {table.path} was read as titles: {', '.join(table.titles)}")
        labels = table.column(target)
        if "" in labels:
            raise ValueError(
                f"{table.path}, line {table.lines[labels.index('')]}: the label is empty; leave the line out"
            )
        return positions, labels

    def _read(self, file: str, names: NodeNames) -> tuple[TextTable, np.ndarray, int]:
        import numpy as np

        from graphrf.graph.names import known_positions

        path = Path(input_file(file))
        if not path.is_file():
            raise FileNotFoundError(f"OBSERVATIONS must be a file, got {file!r}, which does not exist")
        table = read_table(path, names.is_node)
        node, target = self._columns(table)
        cells = zip(table.column(node), table.lines, strict=True)
        positions = np.array(
            [names.position(cell, f"{path}, line {line}") for cell, line in cells], dtype=np.int64
        )
        return table, known_positions(positions), target

    def _columns(self, table: TextTable) -> tuple[int, int]:
        """The columns of nodes and of targets: as given, by their titles, or the two that there are."""
        if table.width < 2:
            raise ValueError(f"{table.path}: only one column; a column of nodes and one of values are needed")
        node = table.first_of(NODE_TITLES)
        target = table.first_of(TARGET_TITLES)
        if self.node_column is not None:
            node = table.number_of(self.node_column, "--node-column")
        if self.target_column is not None:
            target = table.number_of(self.target_column, "--target-column")
        if table.width == 2:
            if node is None:
                node = 0 if target is None else 1 - target
            target = 1 - node if target is None else target
        for number, option, what in ((node, "--node-column", "nodes"), (target, "--target-column", "targets")):
            if number is None:
                have = table.titles or [str(position) for position in range(table.width)]
                raise ValueError(
                    f"`{option}` is needed: which column of {table.path} has the {what}, of {', '.join(have)}"
                )
        assert node is not None
        assert target is not None
        if node == target:
            raise ValueError(
                f"`--node-column` and `--target-column` must be different columns of {table.path}, got the same"
            )
        return node, target
