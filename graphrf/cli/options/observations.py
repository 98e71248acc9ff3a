"""Observations in a file: a column of nodes, one of targets, and others that explain these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphrf.cli.options.messages import Talking
from graphrf.cli.options.nodes import NodeNames
from graphrf.cli.options.table import NODE_TITLES, TARGET_TITLES
from graphrf.cli.options.tables import TextTable, read_observations

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Covariates:
    """Columns of covariates by title or position, as in a data frame."""

    columns: list[str]
    values: np.ndarray  # (rows, columns)

    @classmethod
    def of(cls, table: TextTable, columns: Sequence[str]) -> Covariates:
        """Covariates from columns of a table of text, given by title or position."""
        import numpy as np

        numbers = [
            table.numbers(table.number_of(each, "--covariates"), "covariate") for each in columns
        ]
        return cls(list(columns), np.array(numbers).T)

    def __getitem__(self, column: str) -> np.ndarray:
        values: np.ndarray = self.values[:, self.columns.index(column)]
        return values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.values


@dataclass(frozen=True)
class Observed:
    """A table with the column of targets, and the positions of its nodes."""

    table: TextTable
    positions: np.ndarray
    target: int

    @property
    def targets(self) -> list[float]:
        """The numbers that were observed."""
        return self.table.numbers(self.target, "target")

    def factors(self, column: str | None, option: str) -> list[float] | None:
        """The exposures or trials of a column."""
        if column is None:
            return None
        return self.table.numbers(self.table.number_of(column, f"--{option}"), option)

    def labels(self, talking: Talking) -> list[str]:
        """The labels; reports what was taken as titles."""
        table = self.table
        if table.titles is not None and table.first_of((*NODE_TITLES, *TARGET_TITLES)) is None:
            talking.remark(f"the first line of {table.path} was read as titles: {table.names}")
        for label, place in table.cells(self.target):
            if not label:
                raise ValueError(f"{place}: the label is empty; leave the line out")
        labels = table.column(self.target)
        if len(set(labels)) < 2:
            raise ValueError(
                f"OBSERVATIONS must have labels of at least two classes, got only {labels[0]!r}"
            )
        return labels


@dataclass(frozen=True)
class ObservedColumns:
    """The columns of the file of observations."""

    node_column: str | None = None
    target_column: str | None = None

    def read(self, file: str, names: NodeNames) -> Observed:
        """The observations of a file."""
        table = read_observations(file, names.is_node)
        if table.width < 2:
            raise ValueError(
                f"{table.path}: only one column; a column of nodes and one of values are needed"
            )

        node, target = self.numbers(table)
        if table.width == 2:
            if node is None:
                node = 0 if target is None else 1 - target
            target = 1 - node if target is None else target

        if node is None or target is None:
            option, what = (
                ("--node-column", "nodes") if node is None else ("--target-column", "targets")
            )
            raise ValueError(
                f"`{option}` is needed: which column of {table.path} has the {what}, of "
                f"{table.names}"
            )
        if node == target:
            raise ValueError(
                f"`--node-column` and `--target-column` must be different columns of {table.path}, "
                "got the same"
            )

        return Observed(table, names.positions(table.cells(node)), target)

    def numbers(self, table: TextTable) -> tuple[int | None, int | None]:
        """The columns of nodes and of targets: as given, or by their titles."""
        node, target = table.first_of(NODE_TITLES), table.first_of(TARGET_TITLES)
        if self.node_column is not None:
            node = table.number_of(self.node_column, "--node-column")
        if self.target_column is not None:
            target = table.number_of(self.target_column, "--target-column")
        return node, target


def read_covariates(
    file: str, titles: Sequence[str], names: NodeNames
) -> tuple[np.ndarray, Covariates]:
    """The nodes of a file, in the column with that title or the first, and their covariates."""
    table = read_observations(file, names.is_node, "`--covariates`")
    return names.positions(table.cells(table.first_of(NODE_TITLES) or 0)), Covariates.of(
        table, titles
    )
