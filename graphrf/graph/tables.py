"""Data frames of pandas, polars and others: edges as in a csv file of them; values at nodes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from graphrf._base import checks
from graphrf._base.files.untrusted import listed, short
from graphrf._base.lazy import missing
from graphrf.graph.edges import ends_of_edges, positions_of_ends, refuse_values
from graphrf.graph.files.edge_tables import check_titles, ends_among
from graphrf.graph.files.text_files import EdgeList
from graphrf.graph.labels import is_missing
from graphrf.graph.notices import is_weight


def is_table(source: Any) -> bool:
    """True if an object has columns by name, as data frames do."""
    return (
        hasattr(source, "columns") and hasattr(source, "__getitem__") and hasattr(source, "__len__")
    )


def names_ends(table: Any) -> bool:
    """True if columns, or levels of an index, are called source and target or the like."""
    levels = getattr(getattr(table, "index", None), "names", ())
    return bool(ends_among([str(title) for title in (*getattr(table, "columns", ()), *levels)]))


def edges_of_table(
    table: Any, columns: tuple[str | int, str | int] | None, weight: str | int | None
) -> EdgeList:
    """The edges of a data frame, one a row; integers are names of nodes.

    Levels of an index of pandas count as columns where they are asked for by name, or called source
    and target.
    """
    table, titles = _with_index(table, columns)
    meant = columns is not None or names_ends(table)
    if columns is None:
        check_titles([str(title) for title in titles])
        columns = (0, 1)

    if len(titles) < 2 or len(table) == 0:
        raise checks.value_error(
            "source",
            f"must have two columns of nodes and a row for each edge, got {checks.describe(table)}",
        )

    first, second = (_place(titles, column) for column in columns)
    ends = [_ends(table, titles[place]) for place in (first, second)]
    if not meant:
        refuse_values(ends, [f"column {short(titles[place])}" for place in (first, second)])
    parts, nodes = _positions_and_nodes(ends)

    values, weight_title, others = None, None, {}
    if weight is not None:
        weight_title = str(titles[_place(titles, weight)])
        values = _numbers(weight_title, table[titles[_place(titles, weight)]])
    else:
        beside = [title for place, title in enumerate(titles) if place not in (first, second)]
        others = {str(title): list(table[title]) if is_weight(title) else [] for title in beside}

    return EdgeList(parts[0], parts[1], values, nodes, np.arange(len(table)), weight_title, others)


def _positions_and_nodes(ends: list[Any]) -> tuple[Sequence[np.ndarray], Sequence[Hashable]]:
    """Positions of the two ends of each edge, and the nodes; integers in ascending order."""
    if all(isinstance(end, np.ndarray) for end in ends):
        if len({end.dtype.kind for end in ends}) == 1:
            exact = ends
        else:
            exact = [end.astype(object) for end in ends]
        distinct, positions = np.unique(np.concatenate(exact), return_inverse=True)
        return np.split(positions.astype(np.int64), 2), distinct.tolist()
    return positions_of_ends(
        [end.tolist() if hasattr(end, "tolist") else end for end in ends], None
    )


def places_of_table(table: Any) -> list[tuple[Any, ...]]:
    """Places along edges, one a row, by titles: (edge, distance) or (u, v[, key], distance)."""
    table, titles = _with_index(table, None)
    words = [str(title) for title in titles]
    ends = ends_among(words)
    leading = [*ends, "key"] if ends and "key" in words else [*ends] or ["edge"]
    rest = [title for title, word in zip(titles, words, strict=True) if word not in leading]
    if not {*leading} <= {*words} or len(rest) != 1:
        raise checks.value_error(
            "places",
            "must have the columns u, v, key and one of distances from u (without key in a simple "
            f"graph), or edge and distance, got {listed(words)}; select them, e.g. frame[['u', "
            "'v', 'key', 'metres']]",
        )
    order = [titles[words.index(word)] for word in leading] + rest
    return list(zip(*(_plain(table[title]) for title in order), strict=True))


def _plain(column: Any) -> list[Any]:
    """The cells of a column as Python's own objects."""
    return column.tolist() if hasattr(column, "tolist") else list(column)


def _with_index(table: Any, columns: tuple[str | int, str | int] | None) -> tuple[Any, list[Any]]:
    """The table and titles, index levels as columns where they hold the ends of edges."""
    titles = list(table.columns)
    levels = [
        name for name in getattr(getattr(table, "index", None), "names", ()) if name is not None
    ]
    wanted = list(columns) if columns is not None else ends_among([str(level) for level in levels])
    if any(column in levels and column not in titles for column in wanted):
        kept = [level for level in levels if level not in titles]
        table = table.reset_index()[kept + titles]
        titles = kept + titles
    return table, titles


def _place(titles: list[Any], column: str | int) -> int:
    if column in titles and not isinstance(column, int):
        return titles.index(column)
    if isinstance(column, int) and 0 <= column < len(titles):
        return column
    raise checks.value_error(
        "source", f"must have a column {column!r}, but its columns are {listed(titles)}"
    )


def _ends(table: Any, title: Any) -> Any:
    """One end of every edge, as an array of integers or a list of names."""
    values = np.asarray(table[title])
    if values.dtype.kind in "OUSTf":
        values = values.tolist()
        missing = next(
            (row for row, node in enumerate(values) if is_missing(node) or node == ""), None
        )
        if missing is not None:
            raise checks.value_error(
                "source",
                f"must have two nodes in each row, got none in row {missing} of column "
                f"{short(title)}",
            )
    return ends_of_edges(f"column {short(title)}", values)


def _numbers(title: str, column: Any) -> np.ndarray:
    try:
        return np.asarray(column).astype(np.float64)
    except (TypeError, ValueError):
        raise checks.type_error(
            "weight", f"must name a column of numbers, got {short(title)}"
        ) from None


def frame_of(
    names: Sequence[Hashable],
    columns: Mapping[Any, Any],
    titles: Sequence[Hashable] | None = None,
    usual: str = "node",
) -> Any:
    """A pandas data frame with a row for each name, of columns (q,); see `index_of`."""
    index = index_of(names, titles, usual)
    import pandas

    return pandas.DataFrame(dict(columns), index=index)


def index_of(
    names: Sequence[Hashable], titles: Sequence[Hashable] | None, usual: str | None = None
) -> Any:
    """An index of pandas with titled levels (`usual` if untitled); tuples make a MultiIndex."""
    try:
        import pandas
    except ModuleNotFoundError as error:
        raise missing(error, "as_frame=True") from error
    lengths = {len(name) if isinstance(name, tuple) else 1 for name in names}
    n_levels = lengths.pop() if len(lengths) == 1 else 1
    titles = list(titles) if titles is not None and len(titles) == n_levels else None
    if n_levels > 1:
        return pandas.MultiIndex.from_tuples(names, names=titles)
    return pandas.Index(names, name=usual if titles is None else titles[0], tupleize_cols=False)
