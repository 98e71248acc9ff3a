"""Reading graphs from files: edge lists, GML and GraphML, as plain edges or networkx graphs.

Files are bounded before they are parsed, and what other libraries' readers raise becomes
`ValueError`.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from graphrf._base.files.untrusted import listed, named, read_bytes, require, short, untrusted
from graphrf.graph.edges import positions_of_names
from graphrf.graph.files import edge_tables, separators, text_formats
from graphrf.graph.notices import is_weight

EDGE_LIST_SUFFIXES = (".csv", ".tsv", ".txt", ".edges", ".edgelist", ".cites")

# Characters that part the cells of a line.
_ASCII_MARKS = ",; \t\v\f\x1c\x1d\x1e\x1f"
_MARKS = (
    _ASCII_MARKS
    + "\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000"
    + "".join(map(chr, range(0x2000, 0x200B)))
)
# Memory that the graph of a file takes for each of its bytes. Measured as the peak of the resident
# memory of a process of its own (VmHWM after writing 5 to clear_refs, less VmRSS before), over
# files of 10^4 to 4 10^5 short records of every kind of the format: 35 for GML, 40 for GraphML; the
# margin is for kinds not thought of.
_TEXT = 12.0
_GML = 60.0
_GRAPHML = 80.0
# An edge list took up to 690 bytes a line of two columns, and 75 for each further cell, beside 4
# times its text.
_LINE = 600.0
_CELL = 75.0
# The text of a line of its own, and its place in the list of lines.
_SKIPPED = 70.0


@dataclass(frozen=True)
class TextSizes:
    """Sizes of texts that are read in another way."""

    # Characters from which a text is read by a compiled loop, and of its first rows, which show
    # what the columns are.
    large: int = 2**21
    sample: int = 2**14


@dataclass(frozen=True)
class EdgeList:
    """Edges of a file: ends as positions in `nodes`, weights as written, and their lines.

    Where no column of weights was asked for, `others` are the titles of the columns beside the
    ends, with the cells of those that are called weights.
    """

    src: np.ndarray
    dst: np.ndarray
    weight: np.ndarray | None
    nodes: Sequence[Hashable]
    lines: np.ndarray
    weight_title: str | None
    others: dict[str, list[str]]


def suffix(path: Path) -> str:
    """The file's format as its lower-case suffix, without `.gz`."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


def read_text(path: Path, factor: float = _TEXT, memory_limit: int | None = None) -> str:
    """The text of a UTF-8 file, decompressed, line ends as newlines; bounded as `read_bytes`."""
    content = read_bytes(path, factor, memory_limit)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ValueError(
            f"{path}, line {line}: not UTF-8 text (byte 0x{content[error.start]:02x}); convert it "
            "to UTF-8"
        ) from None
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise ValueError(
            f"{path}, line {line}: a byte is zero, which no text contains; convert the file to "
            "UTF-8"
        )
    return text


# -- edge lists ------------------------------------------------------------------------------------


def read_edge_list(
    path: Path,
    *,
    columns: tuple[str | int, str | int] | None = None,
    weight: str | int | None = None,
    header: bool | None = None,
    memory_limit: int | None = None,
    sizes: TextSizes = TextSizes(),
) -> EdgeList:
    """The edges of a text file with one edge a line; see `graphrf.load_graph` for the rules.

    Cost: about 2 s and 500 bytes a line for a file of a million lines; large files of integers a
    fifth of the time.
    """
    text = read_text(path, _TEXT, memory_limit)
    require_room(path, text, memory_limit)
    asked = _Asked(columns, weight, header, suffix(path) == ".csv")
    with named(path):
        text_formats.check_format(text, columns_given=columns is not None)
        table, integers = _large_table(text, asked, sizes) or (_table(text, asked), None)
        del text
        return _edges(table, integers, columns, weight)


def _edges(
    table: _Table,
    integers: np.ndarray | None,
    columns: tuple[str | int, str | int] | None,
    weight: str | int | None,
) -> EdgeList:
    cells, titles, width = table.cells, table.titles, table.width
    if len(table.numbers) == 0:
        raise ValueError("a header but no edges; a line for each edge was wanted")

    if columns is None and weight is None:
        edge_tables.check_is_list(cells, width, titles)
    if columns is None and titles is not None:
        edge_tables.check_titles(titles)

    nodes: Sequence[Hashable]
    if integers is None:
        positions, nodes = _positions(_names(table))
    else:
        nodes, positions = _distinct(integers)

    values, weight_title = None, None
    others: dict[str, list[str]] = {}
    if weight is not None:
        column = _column(weight, titles, width)
        values = _numbers(cells[column::width], table.numbers)
        weight_title = None if titles is None else titles[column]
    elif titles is not None:
        beside = (column for column in range(width) if column not in table.ends)
        others = {titles[at]: cells[at::width] if is_weight(titles[at]) else [] for at in beside}

    lines_read = np.asarray(table.numbers)
    return EdgeList(
        positions[0::2], positions[1::2], values, nodes, lines_read, weight_title, others
    )


class _Asked(NamedTuple):
    """Arguments of `read_edge_list` about the columns, and whether the file is called `.csv`."""

    columns: tuple[str | int, str | int] | None
    weight: str | int | None
    header: bool | None
    in_csv: bool


class _Table(NamedTuple):
    """The rows of an edge list (see `separators.Rows`), and what the first line says."""

    cells: list[str]
    numbers: list[int] | np.ndarray
    width: int
    separator: str | None
    titles: list[str] | None
    ends: tuple[int, int]
    tuples: dict[str, tuple[Any, ...]]


def _table(text: str, asked: _Asked) -> _Table:
    columns, weight, header, in_csv = asked
    cells, numbers, width, separator, tuples = separators.read_rows(text, in_csv=in_csv)
    places = (0, 1) if columns is None else columns
    by_name = any(isinstance(column, str) for column in (*places, weight))
    if header is None and not by_name:
        try:
            header = edge_tables.has_header(cells, width, [int(place) for place in places])
        except ValueError as error:
            raise ValueError(f"line {numbers[0]}: {error}") from None
    has_header = by_name if header is None else header
    titles = [cell.strip() for cell in cells[:width]] if has_header else None
    first, second = (_column(place, titles, width) for place in places)
    if has_header:
        cells, numbers = cells[width:], numbers[1:]
    return _Table(cells, numbers, width, separator, titles, (first, second), tuples)


def _large_table(text: str, asked: _Asked, sizes: TextSizes) -> tuple[_Table, np.ndarray] | None:
    """The table of a large text and the integers at the ends of its edges; None for all but the
    plainest rows.

    The first rows show whether there are titles and which columns are the ends, as all rows
    together would.
    """
    if len(text) < sizes.large or '"' in text:
        return None
    from graphrf.graph.files.plain_rows import integer_ends

    some = text[: text.find("\n", sizes.sample) + 1] or text
    try:
        table = _table(some, asked)
    except ValueError:
        return None
    if len(table.numbers) == 0:
        return None

    above = some.split("\n")[: table.numbers[0] - 1]
    body = text[sum(map(len, above)) + len(above) :].removesuffix("\n")
    mark = table.separator or " "
    integers = np.empty((body.count("\n") + 1, 2), dtype=np.int64)
    if not integer_ends(
        np.frombuffer(body.encode(), np.uint8), ord(mark), table.width, *table.ends, integers
    ):
        return None

    cells = (
        [] if table.width == 2 and asked.weight is None else body.replace("\n", mark).split(mark)
    )
    numbers = table.numbers[0] + np.arange(len(integers))
    return table._replace(cells=cells, numbers=numbers), integers.ravel()


def _names(table: _Table) -> list[Any]:
    """The names at the ends of edges, both of each edge together."""
    ends: list[Any] = [""] * (2 * len(table.numbers))
    for side, column in enumerate(table.ends):
        ends[side::2] = [cell.strip() for cell in table.cells[column :: table.width]]
    if "" in ends:
        row = ends.index("") // 2
        may_be_title = row == 0 and table.titles is None
        titled = "; if the line has titles, pass header=True" if may_be_title else ""
        raise ValueError(
            f"line {table.numbers[row]}: the name of a node is empty; two nodes were wanted{titled}"
        )
    return [table.tuples.get(end, end) for end in ends] if table.tuples else ends


def require_room(path: Path, text: str, memory_limit: int | None) -> None:
    """Raise `MemoryError` where lines and cells of a text exceed the limit, by counting them."""
    # Blank lines and comments are left out: nothing but their text is made of them.
    n_skipped = sum(text.count(start) for start in ("\n\n", "\n# ", "\n% ", "\n#\n", "\n%\n"))
    n_lines = text.count("\n") + 1 - n_skipped
    n_cells = n_lines + sum(
        text.count(mark) for mark in (_ASCII_MARKS if text.isascii() else _MARKS)
    )
    size = sys.getsizeof(text)
    require(
        path,
        size,
        4 * size + _LINE * n_lines + _CELL * n_cells + _SKIPPED * n_skipped,
        memory_limit,
    )


def _column(column: str | int, titles: list[str] | None, width: int) -> int:
    if isinstance(column, str):
        if titles is None or column not in titles:
            have = "it has no header" if titles is None else f"its columns are {listed(titles)}"
            raise ValueError(
                f"no column {short(column)}: {have}; columns may be given by position from 0"
            )
        return titles.index(column)
    if not 0 <= column < width:
        raise ValueError(f"no column {column}: it has {width} columns, counted from 0")
    return column


def _positions(ends: list[Any]) -> tuple[np.ndarray, Sequence[Hashable]]:
    """Position of every end in the list of distinct nodes, and that list."""
    try:
        numbers = list(map(int, ends))
        # "007", "1_0" or "+1" are names and not the numbers 7, 10 and 1.
        if list(map(str, numbers)) == ends:
            nodes, positions = _distinct(np.array(numbers, dtype=np.int64))
            return positions, nodes
    except (TypeError, ValueError, OverflowError):  # TypeError: tuples
        pass
    return positions_of_names(ends)


def _distinct(integers: np.ndarray) -> tuple[list[int], np.ndarray]:
    """The distinct integers, sorted, and the position of each among them."""
    low, high = int(integers.min()), int(integers.max())
    if high - low > 4 * integers.size:
        distinct, positions = np.unique(integers, return_inverse=True)
        return distinct.tolist(), positions.astype(np.int64)
    # Without sorting: a table of all integers between the smallest and the largest.
    there = np.zeros(high - low + 1, dtype=bool)
    there[integers - low] = True
    return (np.flatnonzero(there) + low).tolist(), (np.cumsum(there) - 1)[integers - low]


def _numbers(cells: list[str], lines: list[int] | np.ndarray) -> np.ndarray:
    # Python reads "1_0" as 10, but no table of numbers means that.
    if "_" not in "".join(cells):
        with suppress(ValueError):
            return np.array(list(map(float, cells)))
    for cell, line in zip(cells, lines, strict=True):
        try:
            bad = "_" in cell or float(cell) is None
        except ValueError:
            bad = True
        if bad:
            has_comma = re.fullmatch(r"\s*[+-]?\d+,\d+\s*", cell)
            point = "; numbers have a point for decimals, and no commas" if has_comma else ""
            raise ValueError(f"line {line}: the weight must be a number, got {short(cell)}{point}")
    raise AssertionError("no cell is at fault")  # pragma: no cover


# -- GML and GraphML -------------------------------------------------------------------------------


def read_gml(path: Path, memory_limit: int | None = None) -> Any:
    """The networkx graph of a GML file, nodes named by labels if all differ, else by ids."""
    import networkx as nx

    lines = read_text(path, _GML, memory_limit).split("\n")
    with untrusted(path, "GML file"):
        graph = nx.parse_gml(lines, label="id")
        labels = [data.get("label") for _, data in graph.nodes(data=True)]
        hashable = all(isinstance(label, Hashable) and label is not None for label in labels)
        if labels and hashable and len(set(labels)) == len(labels):
            graph = nx.relabel_nodes(graph, dict(zip(graph, labels, strict=True)))
    return graph


def read_graphml(path: Path, memory_limit: int | None = None) -> Any:
    """The networkx graph of a GraphML file in UTF-8, without document type or entities."""
    import networkx as nx

    text = read_text(path, _GRAPHML, memory_limit)
    # Entities can expand to gigabytes or name other files,
    # and need a document type, which GraphML never has.
    forbidden = re.search("<!(DOCTYPE|ENTITY)", text, re.IGNORECASE)
    if forbidden:
        line = text.count("\n", 0, forbidden.start()) + 1
        raise ValueError(
            f"{path}, line {line}: XML document types and entities are refused; remove them"
        )
    # The text is UTF-8 by now, whatever encoding its declaration names.
    text = re.sub(r"^\s*<\?xml[^>]*\?>", "", text, count=1)
    with untrusted(path, "GraphML file"):
        return nx.read_graphml(io.BytesIO(text.encode("utf-8")))
