"""The rows of an edge list: comments, separator, quotation marks, and names that are tuples."""

from __future__ import annotations

import ast
import csv
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from graphrf._base.files.untrusted import short

_MARKS = ("\t", ",", ";")
_WORDS = {"\t": "tabs", ",": "commas", ";": "semicolons", None: "white space"}
# Rows by which one of two possible separators is chosen.
_SAMPLE = 2000
# A number or a text within a tuple, as Python writes them.
_PART = r"\s*(?:[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|'[^'\\()]{0,200}')\s*"
_TUPLE = re.compile(rf"(?<![^\s,;])\({_PART},(?:{_PART},)*(?:{_PART})?\)(?![^\s,;])")
_HELD = re.compile("\0(\\d+)\0")
_WITHIN_QUOTES = re.compile(r'"[^"]*"')
_QUOTED = re.compile(r'"(?:[^"]|"")*"(?!\S)|\S+')
_ATTRIBUTES = re.compile(r"[\t ,;]\{.+\}\s*$")
_NUMBER = re.compile(r"\s*[+-]?\d+([.,]\d*)?([eE][+-]?\d+)?\s*")
_WAYS_OUT = (
    "write such names in quotation marks, or read the file by pandas.read_csv(path, sep=..., "
    "header=None) and pass the data frame"
)


class Rows(NamedTuple):
    """Cells row after row in one list, numbers of lines, what parts them, and values of tuples."""

    cells: list[str]
    numbers: list[int]
    width: int
    separator: str | None
    tuples: dict[str, tuple[Any, ...]]


class _Lines(NamedTuple):
    """Lines with their numbers (from 1)."""

    numbers: list[int]
    texts: list[str]

    def at(self, row: int) -> str:
        """The place of a row, for a message."""
        return f"line {self.numbers[row]}"


def read_rows(text: str, *, in_csv: bool) -> Rows:
    """The rows of an edge list; `in_csv` if its name says that commas are its separators."""
    leading, lines = _data_lines(text)
    for row, line in enumerate(lines.texts):
        if "}" in line and _ATTRIBUTES.search(line):
            raise ValueError(
                f"{lines.at(row)}: it ends with attributes in braces, as networkx.write_edgelist "
                "has them; read the file by networkx.read_edgelist and pass its graph, or write "
                "only what is wanted"
            )

    tuples = _Tuples()
    if "(" in text:
        leading, lines = (
            _Lines(part.numbers, list(map(tuples.hide, part.texts))) for part in (leading, lines)
        )

    try:
        separator = _separator(lines, in_csv)
    except ValueError as error:
        raise ValueError(
            tuples.shown([str(error).replace("\\x00", "\0")])[0].replace("\0", "")
        ) from None

    cells, width = _all_cells(lines, separator)
    edges = _edges_among(leading, cells, separator, width)
    if edges:
        above = _at(leading, edges)
        lines = _Lines(above.numbers + lines.numbers, above.texts + lines.texts)
        cells, width = _all_cells(lines, separator)

    _check_marked(lines, cells, width)
    cells = tuples.shown(cells)
    if "(" in text or "[" in text:
        _check_brackets(lines, cells, width)
    return Rows(cells, lines.numbers, width, separator, tuples.values)


# -- lines that are no comments --------------------------------------------------------------------


def is_comment(line: str) -> bool:
    """True for a line that begins with # or %, or several, and then white space or nothing."""
    line = line.lstrip()
    rest = line.lstrip("#%")
    return rest != line and (not rest or rest[0].isspace())


def _data_lines(text: str) -> tuple[_Lines, _Lines]:
    """Lines at the top that begin with a marker, and all from the first that does not."""
    numbers: list[int] = []
    lines: list[str] = []
    for number, line in enumerate(text.split("\n"), start=1):
        stripped = line.lstrip()
        if stripped and not (stripped[0] in "#%" and is_comment(stripped)):
            numbers.append(number)
            lines.append(line)
    first = next((row for row, line in enumerate(lines) if not _is_marked(line)), len(lines))
    if first == len(lines):
        names = (
            "; where names begin with # or %, titles such as source,target are needed above them"
            if lines
            else ""
        )
        raise ValueError(
            f"no edges, only blank lines and comments; a line for each edge was wanted{names}"
        )
    return _Lines(numbers[:first], lines[:first]), _Lines(numbers[first:], lines[first:])


def _at(lines: _Lines, rows: Sequence[int]) -> _Lines:
    return _Lines([lines.numbers[row] for row in rows], [lines.texts[row] for row in rows])


def _is_marked(text: str) -> bool:
    return text.lstrip()[:1] in ("#", "%")


def _edges_among(leading: _Lines, cells: list[str], separator: str | None, width: int) -> list[int]:
    """Lines above the first edge with a marker that are edges; unclear ones are refused."""
    cut = {row: _cells(line, separator) or [] for row, line in enumerate(leading.texts)}
    alike = {row: list(map(str.strip, own)) for row, own in cut.items() if len(own) == width}
    if not alike or _all_integers(cells[width:] or cells, width):  # apart from titles
        return []
    names = set(map(str.strip, cells))
    marked = any(map(_is_marked, names))
    edges = []
    for row, (name, *others) in alike.items():
        again = not names.isdisjoint(others)
        if name in names or (marked and again):
            edges.append(row)
        elif marked or (again and name.lstrip("#%") not in names):
            raise _unclear(leading, row)
    return edges


def _check_marked(lines: _Lines, cells: list[str], width: int) -> None:
    """ValueError for a line with a marker that may be an edge, or one made a comment."""
    marked = {row for row, line in enumerate(lines.texts) if _is_marked(line)}
    if not marked or any(
        _is_marked(cell) for column in range(1, width) for cell in cells[column::width]
    ):
        return
    plain = [cell.strip() for at, cell in enumerate(cells) if at // width not in marked]
    whole, names = _all_integers(plain[width:] or plain, width), set(plain)
    for row in sorted(marked):
        name = cells[row * width].strip().lstrip("#%")
        if name in names or (whole and _is_integer(name)):
            raise _unclear(lines, row)


def _all_integers(cells: list[str], width: int) -> bool:
    """True if the first two columns hold integers."""
    return all(map(_is_integer, cells[0::width])) and all(map(_is_integer, cells[1::width]))


def _is_integer(cell: str) -> bool:
    return cell.strip().removeprefix("-").isdecimal()


def _unclear(lines: _Lines, row: int) -> ValueError:
    return ValueError(
        f"{lines.at(row)}: {short(lines.texts[row])} may be a comment or an edge; write a space "
        "after the marker of a comment, or a name that begins with it in quotation marks"
    )


# -- cells -----------------------------------------------------------------------------------------


class _Tuples:
    """The tuples among a file's cells, such as (0, 1), for which lines hold their numbers."""

    def __init__(self) -> None:
        self.values: dict[str, tuple[Any, ...]] = {}
        self._texts: list[str] = []
        self._places: dict[str, str] = {}

    def hide(self, line: str) -> str:
        """The line with a number between zero bytes, which no text has, for each of its tuples."""
        return _TUPLE.sub(self._place, line) if "(" in line else line

    def shown(self, cells: list[str]) -> list[str]:
        """The cells with their tuples as text again."""
        if self._texts:
            return [_HELD.sub(lambda held: self._texts[int(held[1])], cell) for cell in cells]
        return cells

    def _place(self, found: re.Match[str]) -> str:
        if found[0] not in self._places:
            try:
                value = ast.literal_eval(found[0])
            except (ValueError, SyntaxError):  # such as 007
                return found[0]
            self.values.setdefault(str(value), value)
            self._places[found[0]] = f"\0{len(self._texts)}\0"
            self._texts.append(str(value))
        return self._places[found[0]]


def _cells(line: str, separator: str | None) -> list[str] | None:
    """The cells of a line, which may be quoted; None where quotation marks do not match."""
    if '"' not in line:
        return line.split(separator)
    if separator is None:
        return [
            cell[1:-1].replace('""', '"') if len(cell) > 1 and cell[0] == cell[-1] == '"' else cell
            for cell in _QUOTED.findall(line)
        ]
    try:
        return next(csv.reader([line], delimiter=separator, strict=True, skipinitialspace=True))
    except (csv.Error, StopIteration):
        return None


def _n_cells(line: str, separator: str | None) -> int:
    """The number of cells of a line; 0 where quotation marks do not match."""
    if separator is None or '"' in line:
        return len(_cells(line, separator) or ())
    return line.count(separator) + 1


def _all_cells(lines: _Lines, separator: str | None) -> tuple[list[str], int]:
    """All cells in one list, and the number of cells in each row, which is that of all rows."""
    width = _n_cells(lines.texts[0], separator)
    if not any('"' in line for line in lines.texts):
        return (separator or " ").join(lines.texts).split(separator), width
    return [cell for line in lines.texts for cell in _cells(line, separator) or ()], width


def _check_brackets(lines: _Lines, cells: list[str], width: int) -> None:
    """ValueError where a cell ends within brackets that a later one closes."""
    for at, cell in enumerate(cells):
        closing = {"(": ")", "[": "]"}.get(cell.lstrip()[:1])
        if closing is None or closing in cell:
            continue
        row = at // width
        if any(closing in other for other in cells[at + 1 : (row + 1) * width]):
            raise ValueError(
                f"{lines.at(row)}: {short(lines.texts[row])} has names in brackets, which are cut "
                "in parts here; write names in quotation marks, or read the file by "
                "networkx.read_edgelist and pass its graph"
            )


# -- the separator ---------------------------------------------------------------------------------


def _separator(lines: _Lines, in_csv: bool) -> str | None:
    """The separator by which all lines have the same number of cells, at least two."""
    widths: dict[str | None, list[int]] = {
        mark: [_n_cells(line, mark) for line in lines.texts] for mark in _present(lines)
    }
    fitting = [mark for mark, own in widths.items() if _are_equal(own)]
    clean = [mark for mark in fitting if _is_clean(lines.texts[:_SAMPLE], mark)]
    if clean:
        return clean[0]  # white space stands beside it only
    widths[None] = [_n_cells(line, None) for line in lines.texts]
    fitting += [None] if _are_equal(widths[None]) else []
    if not fitting:
        raise _ragged(lines, widths)
    chosen = fitting[0] if len(fitting) == 1 else _best(lines, fitting, in_csv)
    _check_others(
        lines, chosen, {mark: own for mark, own in widths.items() if mark not in (chosen, *fitting)}
    )
    return chosen


def _check_others(lines: _Lines, chosen: str | None, widths: dict[str | None, list[int]]) -> None:
    """Refuse lines whose ends another mark cuts apart."""
    for mark, own in widths.items():
        if mark is not None and _cuts_ends_apart(lines, chosen, mark):
            raise _ragged(lines, {mark: own}, chosen)


def _cuts_ends_apart(lines: _Lines, chosen: str | None, mark: str) -> bool:
    """True if another mark stands in half of the lines, and not alike in the two ends."""
    with_mark = [line for line in lines.texts if mark in _WITHIN_QUOTES.sub("", line)]
    return 2 * len(with_mark) >= len(lines.texts) and not _ends_alike(with_mark, chosen, mark)


def _present(lines: _Lines) -> list[str]:
    """The marks that stand in any line."""
    return [mark for mark in _MARKS if any(mark in line for line in lines.texts)]


def _are_equal(widths: list[int]) -> bool:
    """True if all lines have the same number of cells, at least two."""
    return widths[0] >= 2 and widths.count(widths[0]) == len(widths)


def _best(lines: _Lines, fitting: list[str | None], in_csv: bool) -> str | None:
    """The one of several possible separators that does not cut names."""
    sample = lines.texts[:_SAMPLE]
    if "\t" in fitting:
        return "\t"
    if "," in fitting and _are_decimal_commas(sample):
        if ";" in fitting:
            return ";"
        if sum("," not in cell for cell in sample[0].split()) >= 2:
            raise ValueError(
                f"{lines.at(0)}: {short(sample[0])} may have decimal commas between white space, "
                "or commas between names with spaces; write decimals with a point, or names in "
                "quotation marks"
            )
    best = _best_by_merit(sample, fitting)
    if len(best) == 1 or (in_csv and "," in best):
        return best[0] if len(best) == 1 else ","
    readings = " or ".join(
        f"{short((_cells(sample[0], mark) or [])[:2])} ({_WORDS[mark]})" for mark in best
    )
    raise ValueError(f"{lines.at(0)}: {short(sample[0])} may be {readings}; {_WAYS_OUT}")


def _best_by_merit(sample: list[str], fitting: list[str | None]) -> list[str | None]:
    """The separators of the greatest merit."""
    merits = {
        mark: _merit(sample, mark, [other for other in fitting if other != mark])
        for mark in fitting
    }
    return [mark for mark in fitting if merits[mark] == max(merits.values())]


def _are_decimal_commas(sample: list[str]) -> bool:
    """True if commas stand within numbers only, as many languages write decimals."""
    return not any(re.search(r"(?<!\d),|,(?!\d)", line) for line in sample if '"' not in line)


def _is_clean(sample: list[str], mark: str | None) -> bool:
    """True if no cell holds another separator."""
    cells = (cell.strip() for line in sample for cell in _cells(line, mark) or ())
    return not any(len(cell.split()) > 1 or "," in cell or ";" in cell for cell in cells)


def _merit(sample: list[str], mark: str | None, others: list[str | None]) -> tuple[bool, bool, int]:
    """The merits of a separator, to be compared: similar ends, numbers, names that recur."""
    rows = [_cells(line, mark) or [] for line in sample]
    beside = [all(map(_NUMBER.fullmatch, column)) for column in list(zip(*rows, strict=True))[2:]]
    names = {cell.strip() for row in rows for cell in row[:2]}
    return all(_ends_alike(sample, mark, other) for other in others), any(beside), -len(names)


def _ends_alike(texts: list[str], separator: str | None, mark: str | None) -> bool:
    """True if in every line another mark is as often in the first cell as in the second."""
    rows = (_cells(line, separator) or [] for line in texts)
    return all(_count(row[0], mark) == _count(row[1], mark) for row in rows)


def _count(cell: str, mark: str | None) -> int:
    return len(cell.split()) if mark is None else cell.count(mark)


def _ragged(
    lines: _Lines, widths: dict[str | None, list[int]], other: str | None = ""
) -> ValueError:
    """The error of lines with different numbers of cells, which shows two of them."""
    agreeing = {mark: own.count(own[0]) for mark, own in widths.items() if own[0] >= 2}
    mark = max(agreeing or widths, key=lambda mark: agreeing.get(mark, max(widths[mark])))
    own = widths[mark]
    if own[0] < 2 and max(own) >= 2:
        row, later = 0, next(row for row, width in enumerate(own) if width >= 2)
        wanted = (
            f", where {lines.at(later)} has {own[later]}: {short(lines.texts[0])} and "
            f"{short(lines.texts[later])}"
        )
    elif own[0] < 2:
        row, wanted = 0, "; two nodes were wanted, separated by tabs, commas, semicolons or spaces"
    else:
        row = next(row for row, width in enumerate(own) if width != own[0])
        wanted = f" where the lines above have {own[0]}, parted by {_WORDS[mark]}: "
        wanted += f"{short(lines.texts[row])} after {short(lines.texts[row - 1])}"
    if any(own[row] == 0 for own in widths.values()):
        return ValueError(f"{lines.at(row)}: quotation marks do not match")
    columns = "one column" if row == 0 else f"{own[row]} columns"
    return ValueError(f"{lines.at(row)}: {columns}{wanted}{_way_out(lines, row, mark, other)}")


def _way_out(lines: _Lines, row: int, mark: str | None, other: str | None) -> str:
    """Advice about a line with another number of cells than others."""
    rows = [[cell.strip() for cell in _cells(line, mark) or ()] for line in lines.texts]
    nodes = {cells[0] for cells in rows if cells}
    if len(nodes) == len(rows) > 1 and all(nodes.issuperset(cells) for cells in rows):
        return (
            "; if each line lists a node and its neighbours, read it by networkx.read_adjlist and "
            "pass its graph"
        )
    if _is_marked(lines.texts[row]):
        return "; if it is a comment, write a space after its marker"
    return f" ({_WORDS[other]} would part all lines alike); {_WAYS_OUT}" if other != "" else ""
