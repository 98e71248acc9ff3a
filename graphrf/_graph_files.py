"""Reading graphs from files: edge lists, GML, GraphML, MatrixMarket and scipy's npz.

Readers return plain edges, matrices or networkx graphs; what the edges mean (weights, distances, directions)
is decided in `graphrf.loaders`. Nothing is unpickled, and XML with a document type or entities is refused.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import zipfile
import zlib
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from graphrf._edges import positions_of_names

EDGE_LIST_SUFFIXES = (".csv", ".tsv", ".txt", ".edges", ".edgelist", ".cites")

# Column titles that mark a first line as a header even where all nodes are words.
_HEADER_TITLES = {
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
}
# Cells of a column of numbers that hold none; they do not make a line a header.
_MISSING = {"", "-", "?", "na", "n/a", "nan", "none", "null"}
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


@dataclass(frozen=True)
class EdgeList:
    """Edges as read from a file: ends as positions in `nodes`, weights as written, and each edge's line."""

    src: np.ndarray
    dst: np.ndarray
    weight: np.ndarray | None
    nodes: Sequence[Hashable]
    lines: np.ndarray


def suffix(path: Path) -> str:
    """The file's format as its lower-case suffix, without `.gz`."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


def read_bytes(path: Path) -> bytes:
    """The bytes of a file, decompressed when its name ends in `.gz`.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is a folder, is empty, or is a damaged or truncated gzip file.
    """
    if not path.exists():
        raise FileNotFoundError(
            f"no such file: {os.fspath(path)!r}; named data sets are read by graphrf.datasets.load(name)"
        )
    if path.is_dir():
        raise ValueError(f"{path} is a folder; a file with a graph or a mesh was wanted")
    content = path.read_bytes()
    if path.name.lower().endswith(".gz"):
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(
                f"{path} is not a whole gzip file ({error}); it is damaged or truncated: fetch it again"
            ) from None
    if not content.strip():
        raise ValueError(f"{path} is empty; a file with a graph or a mesh was wanted")
    return content


def read_text(path: Path) -> str:
    """The text of a file in UTF-8, decompressed, with line ends as newlines."""
    content = read_bytes(path)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ValueError(
            f"{path}, line {line}: not UTF-8 text (byte 0x{content[error.start]:02x}); convert it to UTF-8"
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


# -- edge lists ----------------------------------------------------------------------------------------


def read_edge_list(
    path: Path,
    *,
    columns: tuple[str | int, str | int] = (0, 1),
    weight: str | int | None = None,
    header: bool | None = None,
) -> EdgeList:
    """The edges of a text file with one edge a line; see `graphrf.load_graph` for the rules.

    Nodes that are all integers written plainly are integers, sorted; otherwise they are strings in the order
    of their first appearance. Cost: about 2 s and 500 bytes a line for a file of a million lines.
    """
    numbers, lines = _data_lines(path)
    cells, width = _split(path, numbers, lines)
    by_name = any(isinstance(column, str) for column in (*columns, weight))
    has_header = _has_header(cells, width, columns, by_name) if header is None else bool(header)
    titles = [cell.strip() for cell in cells[:width]] if has_header else None
    first, second = (_column(path, column, titles, width) for column in columns)
    if has_header:
        cells, numbers = cells[width:], numbers[1:]
    if not numbers:
        raise ValueError(f"{path} has a header but no edges; a line for each edge was wanted")
    ends: list[str] = [""] * (2 * len(numbers))
    ends[0::2] = [cell.strip() for cell in cells[first::width]]
    ends[1::2] = [cell.strip() for cell in cells[second::width]]
    if "" in ends:
        raise ValueError(
            f"{path}, line {numbers[ends.index('') // 2]}: the name of a node is empty; two nodes were wanted"
        )
    positions, nodes = _positions(ends)
    values = None
    if weight is not None:
        values = _numbers(path, cells[_column(path, weight, titles, width) :: width], numbers)
    return EdgeList(positions[0::2], positions[1::2], values, nodes, np.asarray(numbers))


def _data_lines(path: Path) -> tuple[list[int], list[str]]:
    """Numbers (from 1) and text of the lines that are neither blank nor comments."""
    numbers, lines = [], []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        stripped = line.lstrip()
        if stripped and stripped[0] not in "#%":
            numbers.append(number)
            lines.append(line)
    if not lines:
        raise ValueError(f"{path} has no edges, only blank lines and comments; a line for each edge was wanted")
    return numbers, lines


def _split(path: Path, numbers: list[int], lines: list[str]) -> tuple[list[str], int]:
    """All cells in one list, row after row, and the number of cells in a row (the same in all rows)."""
    delimiter = next((mark for mark in "\t,;" if mark in lines[0]), None)
    rows: Iterable[list[str]] | None = None
    if delimiter is None:
        widths = [len(line.split()) for line in lines]
        cells = " ".join(lines).split()
    elif any('"' in line for line in lines):
        rows = _quoted(path, numbers, lines, delimiter)
        widths = [len(row) for row in rows]
        cells = [cell for row in rows for cell in row]
    else:
        widths = [line.count(delimiter) + 1 for line in lines]
        cells = delimiter.join(lines).split(delimiter)
    width = widths[0]
    if width < 2:
        raise ValueError(
            f"{path}, line {numbers[0]}: one column; two nodes were wanted, separated by tabs, commas, "
            "semicolons or spaces"
        )
    if widths.count(width) != len(widths):
        row = next(row for row, count in enumerate(widths) if count != width)
        raise ValueError(f"{path}, line {numbers[row]}: {widths[row]} columns where the lines above have {width}")
    return cells, width


def _quoted(path: Path, numbers: list[int], lines: list[str], delimiter: str) -> list[list[str]]:
    """Rows of a file with quoted cells; a quoted cell may hold the delimiter but not a line end."""
    rows = []
    for number, line in zip(numbers, lines, strict=True):
        try:
            rows.append(next(csv.reader([line], delimiter=delimiter, strict=True, skipinitialspace=True)))
        except (csv.Error, StopIteration) as error:
            raise ValueError(f"{path}, line {number}: quotation marks do not match ({error})") from None
    return rows


def _has_header(cells: list[str], width: int, columns: tuple[str | int, str | int], by_name: bool) -> bool:
    """Whether the first row names the columns (the rule is in the docstring of `load_graph`)."""
    if by_name:
        return True
    if any(not 0 <= int(column) < width for column in columns):
        return False  # the bad column is reported by `_column`
    first = [cells[int(column)].strip() for column in columns]
    if (first[0].lower(), first[1].lower()) in _HEADER_TITLES:
        return True
    if all(_NUMBER.fullmatch(cell) for cell in first) or len(cells) == width:
        return False
    second = [cells[width + int(column)].strip() for column in columns]
    if all(_NUMBER.fullmatch(cell) for cell in second):
        return True
    # Names of nodes do not tell, but the title of a column of numbers does.
    return any(
        cells[column].strip().lower() not in _MISSING
        and not _NUMBER.fullmatch(cells[column].strip())
        and _NUMBER.fullmatch(cells[width + column].strip()) is not None
        for column in range(width)
        if column not in columns
    )


def _column(path: Path, column: str | int, titles: list[str] | None, width: int) -> int:
    if isinstance(column, str):
        if titles is None or column not in titles:
            have = "it has no header" if titles is None else f"its columns are {', '.join(map(repr, titles))}"
            raise ValueError(f"{path} has no column {column!r}: {have}; columns may be given by position from 0")
        return titles.index(column)
    if not 0 <= column < width:
        raise ValueError(f"{path} has no column {column}: it has {width} columns, counted from 0")
    return column


def _positions(ends: list[str]) -> tuple[np.ndarray, Sequence[Hashable]]:
    """Position of every end in the list of distinct nodes, and that list."""
    try:
        numbers = list(map(int, ends))
        # "007", "1_0" or "+1" are names and not the numbers 7, 10 and 1.
        if list(map(str, numbers)) == ends:
            nodes, positions = np.unique(np.array(numbers, dtype=np.int64), return_inverse=True)
            return positions.astype(np.int64), nodes.tolist()
    except (ValueError, OverflowError):
        pass
    return positions_of_names(ends)


def _numbers(path: Path, cells: list[str], lines: list[int]) -> np.ndarray:
    try:
        return np.array(list(map(float, cells)))
    except ValueError:
        for cell, line in zip(cells, lines, strict=True):
            try:
                float(cell)
            except ValueError:
                raise ValueError(f"{path}, line {line}: the weight must be a number, got {cell!r}") from None
        raise


# -- GML and GraphML -----------------------------------------------------------------------------------


def read_gml(path: Path) -> Any:
    """The networkx graph of a GML file.

    Nodes are named by their labels where every node has one and they differ, else by their ids.
    """
    import networkx as nx

    lines = read_text(path).split("\n")
    try:
        graph = nx.parse_gml(lines, label="id")
    except (nx.NetworkXError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _unreadable(path, "GML", error) from None
    labels = [data.get("label") for _, data in graph.nodes(data=True)]
    named = all(isinstance(label, Hashable) and label is not None for label in labels)
    if labels and named and len(set(labels)) == len(labels):
        graph = nx.relabel_nodes(graph, dict(zip(graph, labels, strict=True)))
    return graph


def read_graphml(path: Path) -> Any:
    """The networkx graph of a GraphML file in UTF-8, without document type or entities."""
    import xml.etree.ElementTree as ElementTree

    import networkx as nx

    text = read_text(path)
    # Entities can expand to gigabytes or name other files, and need a document type, which GraphML never has.
    forbidden = re.search("<!(DOCTYPE|ENTITY)", text, re.IGNORECASE)
    if forbidden:
        line = text.count("\n", 0, forbidden.start()) + 1
        raise ValueError(f"{path}, line {line}: XML document types and entities are refused; remove them")
    # The text is UTF-8 by now, whatever encoding its declaration names.
    text = re.sub(r"^\s*<\?xml[^>]*\?>", "", text, count=1)
    try:
        return nx.read_graphml(io.BytesIO(text.encode("utf-8")))
    except (
        nx.NetworkXError,
        ElementTree.ParseError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
    ) as error:
        raise _unreadable(path, "GraphML", error) from None


# -- matrices ------------------------------------------------------------------------------------------


def is_matrix_market(path: Path) -> bool:
    """Whether the file opens with MatrixMarket's banner; files called .mtx without it are edge lists."""
    return read_bytes(path)[:14].lower() == b"%%matrixmarket"


def read_matrix_market(path: Path) -> Any:
    """The sparse or dense real matrix of a MatrixMarket file."""
    from scipy.io import mmread

    content = read_bytes(path)
    try:
        matrix = mmread(io.BytesIO(content))
    except (ValueError, OverflowError, TypeError, MemoryError, OSError) as error:
        raise _unreadable(path, "MatrixMarket", error) from None
    return _real(path, matrix)


def read_npz(path: Path) -> Any:
    """The matrix of a file written by `scipy.sparse.save_npz`."""
    content = read_bytes(path)
    try:
        matrix: Any = sp.load_npz(io.BytesIO(content))
        if matrix.format in ("csr", "csc", "bsr"):
            # Without this check a damaged file would make scipy read outside its arrays.
            matrix.check_format(full_check=True)
        elif matrix.format not in ("coo", "dia"):
            raise ValueError(f"format {matrix.format!r}")
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        IndexError,
        NotImplementedError,
        OverflowError,
        MemoryError,
        EOFError,
        OSError,
        zlib.error,
        zipfile.BadZipFile,
    ) as error:
        raise _unreadable(path, "scipy.sparse npz", error) from None
    return _real(path, matrix)


def _real(path: Path, matrix: Any) -> Any:
    """The matrix, once it is known to be real and of a size that its entries make credible."""
    if max(matrix.shape) > max(10**7, 100 * matrix.size):
        # A few bytes of a damaged header would otherwise ask for all the memory there is.
        raise ValueError(
            f"{path} holds a matrix of shape {tuple(matrix.shape)} with {matrix.size} entries; "
            "nearly all of its nodes would be isolated, so it is taken for damaged"
        )
    if matrix.dtype.kind not in "biuf":
        raise ValueError(f"{path} holds a matrix of dtype {matrix.dtype}; a real one was wanted")
    return matrix


def _unreadable(path: Path, wanted: str, error: BaseException) -> ValueError:
    # Libraries are given bytes: where they name the file, they name a place in memory.
    reason = re.sub(r"The file <[^>]*>", "it", " ".join(str(error).split())) or type(error).__name__
    return ValueError(f"{path} is not a readable {wanted} file: {reason[:300]}")
