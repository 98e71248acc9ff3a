"""Titles of an edge list, and tables that are not edge lists."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from graphrf._base.files.untrusted import short
from graphrf.graph.notices import is_weight, sounds_like_distance

# Titles of the two ends, which mark a first line as a header even where all nodes are words.
_ENDS = (
    ("source", "target"),
    ("from", "to"),
    ("src", "dst"),
    ("u", "v"),
    ("id_1", "id_2"),
    ("id1", "id2"),
    ("node1", "node2"),
    ("node_1", "node_2"),
    ("head", "tail"),
    ("origin", "destination"),
    ("start", "end"),
    ("sender", "receiver"),
)
# Titles of columns of numbers, beside weights and distances.
_TITLES = frozenset(
    (
        "id",
        "key",
        "index",
        "year",
        "date",
        "timestamp",
        "count",
        "value",
        "score",
        "rating",
        "speed",
    )
)
# Cells of a column of numbers that hold none; they do not make a line a header.
_MISSING = frozenset(("", "-", "?", "na", "n/a", "nan", "none", "null"))
# No two ways to match one text: a cell of many digits would take quadratic time.
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_NUMBERED = re.compile(r"(.*?[^\W\d])[_ -]?(1|2|a|b)", re.IGNORECASE)


def has_header(cells: list[str], width: int, ends: Sequence[int]) -> bool:
    """True if the first row names columns; `ValueError` if that is unclear. See `load_graph`."""
    titles = [cell.strip() for cell in cells[:width]]
    if not all(end in range(width) for end in ends):
        return False  # the bad column is reported where it is used

    first, second = (titles[end] for end in ends)
    named = (first.lower(), second.lower()) in _ENDS
    if len(cells) == width or not (named or all(map(_may_be_title, (first, second)))):
        return named

    below = _below_titles(cells, width, ends)
    above = [] if named else _titles_above_numbers(titles, cells, width, ends)
    numbered = not named and _are_numbered(first, second, below)
    sure = any(
        (named, all(map(_numbers, below)), any(map(_is_column_title, above)), numbered and above)
    )

    # A node of other edges is no title.
    again = not {first, second}.isdisjoint(below[0] + below[1])
    possible = any((above, numbered, all(map(_begins_with_number, below))))

    if sure != again:
        return sure
    if not (sure or possible):
        return False
    raise ValueError(
        f"{short(', '.join(titles))} may be the titles of the columns or an edge; say which by "
        "header=True or header=False"
    )


def _titles_above_numbers(
    titles: list[str], cells: list[str], width: int, ends: Sequence[int]
) -> list[str]:
    """The possible titles of columns of numbers, apart from those of the ends."""
    return [
        title
        for column, title in enumerate(titles)
        if column not in ends and title[:1].isalpha() and _may_be_title(title)
        if _numbers(cells[width + column :: width])
    ]


def _begins_with_number(column: list[str]) -> bool:
    return _NUMBER.fullmatch(column[0].strip()) is not None


def _is_column_title(title: str) -> bool:
    """True for words that name columns of numbers."""
    return title.lower() in _TITLES or is_weight(title) or sounds_like_distance(title)


def _below_titles(cells: list[str], width: int, ends: Sequence[int]) -> list[list[str]]:
    """The columns of the ends without titles, stripped where the first two lines have spaces."""
    below = [cells[width + end :: width] for end in ends]
    if any(cell != cell.strip() for cell in cells[: 2 * width]):
        return [[cell.strip() for cell in column] for column in below]
    return below


def check_is_list(cells: list[str], width: int, titles: list[str] | None) -> None:
    """Raise `ValueError` for what seems an adjacency matrix, or lists of each node's neighbours."""
    if any(cell.lstrip().startswith("{") for cell in cells[1::width]):
        raise ValueError(
            "it seems to be written by networkx.write_multiline_adjlist; read it by "
            "networkx.read_multiline_adjlist and pass its graph"
        )
    if width < 3:
        return
    heads = cells[::width]
    titled = titles is not None and titles[1:] == [cell.strip() for cell in heads[:width]]
    if titled or _is_matrix(cells, width):
        raise ValueError(
            "it seems to be an adjacency matrix; read it by numpy.loadtxt or pandas.read_csv and "
            "pass the array, or pass columns=(0, 1) if it is a list of edges"
        )
    if len(heads) > 1 and len(set(heads)) == len(heads) and _is_adjacency_list(cells, width):
        raise ValueError(
            "it seems to list the neighbours of each node; read it by networkx.read_adjlist and "
            "pass its graph, or pass columns=(0, 1) if it is a list of edges"
        )


def check_titles(titles: Sequence[str]) -> None:
    """Raise `ValueError` where titles say that the ends of edges are not the first two columns."""
    names = ends_among(titles)
    if names and {*names} != {*titles[:2]}:
        raise ValueError(
            "its titles name the ends of edges, which are not its first two columns: pass "
            f"columns={names}, or columns=(0, 1) if those are meant"
        )
    if titles[0] == "":
        raise ValueError(
            "its first column has no title, like the index that pandas writes: name the two "
            f"columns that hold the ends of edges, e.g. columns={tuple(titles[1:3])}"
        )


def ends_among(titles: Sequence[str]) -> tuple[str, ...]:
    """The two titles that are words for ends of edges, the first two columns first; or none."""
    low = [title.lower() for title in titles]
    pairs = [
        (low.index(first), low.index(second))
        for first, second in _ENDS
        if first in low and second in low
    ]
    return tuple(titles[place] for place in min(pairs, key=max)) if pairs else ()


def _is_matrix(cells: list[str], width: int) -> bool:
    """True if cells are numbers in a symmetric square, or of more columns than edge lists have."""
    if len(cells) != width * width or not _numbers(cells):
        return False
    return width > 8 or all(
        cells[row * width : (row + 1) * width] == cells[row::width] for row in range(width)
    )


def _is_adjacency_list(cells: list[str], width: int) -> bool:
    """True if every row has a node and its neighbours, different nodes with rows of their own."""
    nodes = {cell.strip() for cell in cells[::width]}
    for start in range(0, len(cells), width):
        row = {cell.strip() for cell in cells[start : start + width]}
        if len(row) < width or not row <= nodes:
            return False
    return True


def _numbers(column: Sequence[str]) -> bool:
    """True if at least one cell is a number, and all others are numbers or marked as missing."""
    left = {cell.strip() for cell in column}
    left = {cell for cell in left if cell.lower() not in _MISSING}
    return len(left) > 0 and all(map(_NUMBER.fullmatch, left))


def _are_numbered(first: str, second: str, below: Iterable[Sequence[str]]) -> bool:
    """True if two titles are one word with 1 and 2, or a and b, that begins no name below."""
    ends = [_NUMBERED.fullmatch(title) for title in (first, second)]
    if ends[0] is None or ends[1] is None or ends[0][1] != ends[1][1]:
        return False
    if (ends[0][2] + ends[1][2]).lower() not in ("12", "ab"):
        return False
    return not any(cell.strip().startswith(ends[0][1]) for column in below for cell in column)


def _may_be_title(cell: str) -> bool:
    """True if a cell is neither a number, inf and 1_000 included, nor marked as missing."""
    if cell.lower() in _MISSING - {""}:
        return False
    try:
        float(cell)
    except ValueError:
        return _NUMBER.fullmatch(cell.replace("_", "")) is None
    return False
