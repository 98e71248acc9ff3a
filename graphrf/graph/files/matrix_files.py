"""Reading matrices from files: MatrixMarket, and the npz archives of scipy.sparse."""

from __future__ import annotations

import inspect
import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp

from graphrf._base.files.npz import array_names, read_arrays
from graphrf._base.files.untrusted import first_bytes, read_bytes, short, short_bytes, untrusted
from graphrf._base.memory import NoRoomError, available_memory, limit_words

_BANNER = b"%%matrixmarket"
# Faults are sought in pieces of so many bytes.
_PIECE = 2**18
# What stands beside digits: 0 for white space, 1 for a dot, 2 for e, 3 for a sign (4 behind e), and
# which of them may follow which, at once and behind digits.
_KINDS = np.zeros(256, np.uint8)
_KINDS[list(b".eE+-")] = 1, 2, 2, 3, 3
_MAY_FOLLOW = np.zeros((5, 5, 2), bool)
for _pair in ("00", "01", "03", "10", "12", "24", "31"):
    _MAY_FOLLOW[int(_pair[0]), int(_pair[1]), 0] = True
for _pair in ("00", "01", "02", "10", "12", "20", "30", "31", "32", "40"):
    _MAY_FOLLOW[int(_pair[0]), int(_pair[1]), 1] = True
# Newer versions of scipy ask which kind of sparse matrix is wanted.
_ARRAYS = {"spmatrix": False} if "spmatrix" in inspect.signature(scipy.io.mmread).parameters else {}
# Memory that the graph of a file takes for each of its bytes, of npz for those of its arrays;
# measured as in `text_files.py` (42 for dense symmetric MatrixMarket, 26 for patterns, 5 for
# numbers; 4.6 for npz).
_MATRIX_MARKET = 50.0
_NPZ = 6.0
# Memory that the graph of a file takes for each of its nodes: up to 22 bytes, measured in the same
# way with one edge and 4 10^6 to 2 10^7 nodes, and twice that where pointers have 64 bits.
_ROW = 48.0
# What numbers in MatrixMarket files are written with, nan and infinity among them.
_OF_NUMBERS = b"0123456789+-.eEnNaAiIfFtTyY \t\r\n\v\f"
_DIGITS = re.compile(rb"\d+")
_NUMBER = re.compile(
    rb"[+-]?(\d+(\.\d*)?([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|nan|inf|infinity)", re.IGNORECASE
)


def is_matrix_market(path: Path) -> bool:
    """True if the file begins with MatrixMarket's banner; .mtx files without it are edge lists."""
    return first_bytes(path, len(_BANNER)).lower() == _BANNER


def read_matrix_market(path: Path, memory_limit: int | None = None) -> Any:
    """The sparse or dense real matrix of a MatrixMarket file."""
    content = read_bytes(path, _MATRIX_MARKET, memory_limit)
    with untrusted(path, "MatrixMarket file"):
        matrix = _market_matrix(content)
    return _real(path, matrix, memory_limit)


def _market_matrix(content: bytes) -> Any:
    """The matrix of a MatrixMarket file, with both halves if symmetric; faults are `ValueError`."""
    banner, at = _line(content, 0)
    form, field, symmetry = _market_kind(banner)
    number, sizes, at = _market_sizes(content, at, 2 if form == "array" else 3)
    rows, columns, *entries = sizes
    halved, skew = symmetry != "general", symmetry == "skew-symmetric"
    if rows < 1 or columns < 1 or (halved and rows != columns):
        raise ValueError(f"its shape is ({rows}, {columns})")

    if form == "array":
        declared = rows * columns if not halved else rows * (rows - 1 if skew else rows + 1) // 2
    else:
        declared = entries[0]

    places = 0 if form == "array" else 2
    each = places + (field != "pattern")
    body = content[at:]
    # A number takes two bytes: a digit, and what parts it from the next.
    found = None
    if 2 * each * declared <= len(body) + 1:
        found = _entries(body, declared, each, (rows, columns)[:places])
    if found is None:
        raise ValueError(_fault(body, number + 1, declared, each, (rows, columns)[:places]))

    if form == "array":
        return _dense(found[2], rows, columns, symmetry)
    row, column, values = _both_halves(*found, -1.0 if skew else 1.0) if halved else found
    return sp.coo_array((values, (row, column)), shape=(rows, columns))


def _market_kind(banner: bytes) -> tuple[str, str, str]:
    """Format, field and symmetry of the first line."""
    words = banner.lower().split()
    if len(words) != 5 or words[:2] != [_BANNER, b"matrix"]:
        raise ValueError("its first line must be %%MatrixMarket matrix FORMAT FIELD SYMMETRY")
    form, field, symmetry = (word.decode("ascii", "replace") for word in words[2:])
    if field in ("complex", "hermitian") or symmetry == "hermitian":
        raise ValueError("it holds complex numbers; a real one was wanted")
    known = (
        form in ("coordinate", "array")
        and field in ("real", "double", "integer", "unsigned-integer", "pattern")
        and symmetry in ("general", "symmetric", "skew-symmetric")
        and (form, field) != ("array", "pattern")
    )
    if not known:
        raise ValueError(
            f"no matrices of the kind {short(' '.join((form, field, symmetry)))} are known"
        )
    return form, field, symmetry


def _market_sizes(content: bytes, at: int, n_sizes: int) -> tuple[int, list[int], int]:
    """The number of the line of sizes, the sizes, and where the next line starts."""
    line, number = b"%", 1
    while line[:1] in (b"%", b""):
        if at >= len(content):
            raise ValueError("it ends before its size")
        line, at = _line(content, at)
        number += 1
    sizes = line.split()
    if len(sizes) != n_sizes or not all(re.fullmatch(rb"\d{1,18}", size) for size in sizes):
        raise ValueError(f"line {number}: its size must be whole numbers, got {short_bytes(line)}")
    return number, [int(size) for size in sizes], at


def _both_halves(
    row: np.ndarray, column: np.ndarray, values: np.ndarray, sign: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The entries of one half of a matrix, and those of the other half."""
    if (row < column).any() and (row > column).any():
        # An entry that is listed on both sides would count twice.
        raise ValueError(
            "it is symmetric, but has entries on both sides of its diagonal; one was wanted"
        )
    off = row != column
    return np.r_[row, column[off]], np.r_[column, row[off]], np.r_[values, sign * values[off]]


def _line(content: bytes, at: int) -> tuple[bytes, int]:
    """The stripped line that starts `at`, and where the next one starts."""
    end = content.find(b"\n", at)
    end = len(content) if end < 0 else end
    return content[at:end].strip(), end + 1


def _entries(
    body: bytes, declared: int | None, each: int, shape: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Rows and columns from 0 and values of `declared` lines of `each` numbers; or None.

    scipy is given lines of numbers and nothing else: on some damaged files its reader ends the
    process.
    """
    n_lines = _count_of_lines(body, each, len(shape))
    if n_lines is None or (declared is not None and n_lines != declared):
        return None
    if n_lines == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
    if not _is_plain(body):
        return _numbers(body, each, shape)
    form = "coordinate" if shape else "array"
    kind = "real" if each > len(shape) else "pattern"
    size = f"{shape[0]} {shape[1]} {n_lines}" if shape else f"{n_lines} 1"
    header = f"%%MatrixMarket matrix {form} {kind} general\n{size}\n".encode()
    try:
        read = scipy.io.mmread(io.BytesIO(header + body), **_ARRAYS)
    except (ValueError, OverflowError):
        # The file has numbers outside float64 or with a plus before them, among others.
        return _numbers(body, each, shape)
    if not shape:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), read[:, 0]
    return read.row.astype(np.int64), read.col.astype(np.int64), read.data.astype(np.float64)


def _is_plain(body: bytes) -> bool:
    """True if all numbers are plain: scipy reads what it can and ignores the rest of a line."""
    if body.translate(None, b"0123456789+-.eE \t\r\n\v\f"):
        return False
    characters = np.frombuffer(body + b"\n", np.uint8)
    at = np.flatnonzero((characters < ord("0")) | (characters > ord("9")))
    kinds = _KINDS[characters[at]]
    before = np.r_[np.uint8(0), kinds[:-1]]
    kinds[(kinds == 3) & (before == 2)] = 4
    before[1:] = kinds[:-1]
    apart = np.diff(at, prepend=-1) > 1
    return bool(_MAY_FOLLOW[before, kinds, apart.view(np.uint8)].all())


def _numbers(
    body: bytes, each: int, shape: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Entries, as by `_entries`, by NumPy's slower parser, which reads hexadecimal, too."""
    try:
        table = np.fromstring(body, dtype=np.float64, sep=" ").reshape(-1, each)
    except (ValueError, DeprecationWarning):
        return None
    places = table[:, : len(shape)]
    if not ((places >= 1) & (places <= shape)).all():
        return None
    values = table[:, -1].copy() if each > len(shape) else np.ones(len(table))
    row, column = (
        places[:, axis].astype(np.int64) - 1 if shape else np.zeros(0, np.int64) for axis in (0, 1)
    )
    return row, column, values


def _count_of_lines(body: bytes, each: int, places: int) -> int | None:
    """Number of lines in the body; None unless all have `each` numbers, the first of digits."""
    if body.translate(None, _OF_NUMBERS):
        return None
    characters = np.frombuffer(body, np.uint8)
    blank = characters <= ord(" ")
    starts = np.flatnonzero(~blank & np.r_[True, blank[:-1]])
    if starts.size % each or starts.size == 0:
        return None if starts.size else 0
    # Whether a line ends between a number and the next one.
    ends = np.bitwise_or.reduceat(characters == ord("\n"), starts).reshape(-1, each)
    if ends[:, :-1].any() or not ends[:-1, -1].all():
        return None
    if places:
        digits = (characters >= ord("0")) & (characters <= ord("9"))
        if np.bitwise_or.reduceat(~(digits | blank), starts).reshape(-1, each)[:, :places].any():
            return None
    return starts.size // each


def _fault(body: bytes, first: int, declared: int, each: int, shape: tuple[int, ...]) -> str:
    """Description of the first fault in the entries, with its line; `first` is the first line's."""
    count, start = 0, 0

    while start < len(body):
        # Pieces without a fault are passed over as a whole.
        end = body.find(b"\n", start + _PIECE) + 1 or len(body)
        piece, start = body[start:end], end
        found = _entries(piece, None, each, shape)
        if found is not None and count + len(found[2]) <= declared:
            count, first = count + len(found[2]), first + piece.count(b"\n")
            continue

        for number, line in enumerate(piece.split(b"\n"), first):
            cells = line.split()
            if not cells:
                continue
            count += 1
            if cells[0][:1] == b"%":
                return f"line {number}: comments stand before the size"
            if count > declared:
                return f"line {number}: it declares {declared:,} entries, and this is one more"
            fault = _fault_of_line(cells, each, shape)
            if fault:
                return f"line {number}: {fault}"
        first += piece.count(b"\n")
    return f"it declares {declared:,} entries and holds {count:,}"


def _fault_of_line(cells: list[bytes], each: int, shape: tuple[int, ...]) -> str:
    """Description of the first fault in the cells of an entry, or nothing."""
    for cell, size in zip(cells, shape, strict=False):
        if not _DIGITS.fullmatch(cell):
            return f"a row or column must be a whole number, got {short_bytes(cell)}"
        if len(cell) > 30 or not 1 <= int(cell) <= size:
            return f"a row or column must be in [1, {size}], got {short_bytes(cell)}"
    bad = next((cell for cell in cells if not _NUMBER.fullmatch(cell)), None)
    if bad is not None:
        return f"{short_bytes(bad)} is not a number"
    return "" if len(cells) == each else f"{len(cells)} numbers where {each} were wanted"


def _dense(numbers: np.ndarray, rows: int, columns: int, symmetry: str) -> np.ndarray:
    """The matrix of numbers listed column after column: all of them, or those of the lower half."""
    if symmetry == "general":
        return numbers.reshape(columns, rows).T
    matrix = np.zeros((rows, rows))
    skew = symmetry == "skew-symmetric"
    # Column after column of the lower half is row after row of the upper one.
    upper = np.triu_indices(rows, 1 if skew else 0)
    matrix[upper[1], upper[0]] = numbers
    matrix[upper] = -numbers if skew else numbers
    return matrix


def read_npz(path: Path, memory_limit: int | None = None) -> Any:
    """The matrix of a file written by `scipy.sparse.save_npz`."""
    if path.suffix.lower() == ".npz" and first_bytes(path, 2) == b"PK":
        with path.open("rb") as file, untrusted(path, "scipy.sparse npz file"):
            array_names(file)  # a false table of contents is refused before the rest is read
    content = read_bytes(path, _NPZ, memory_limit)
    limit = available_memory() if memory_limit is None else memory_limit
    with untrusted(path, "scipy.sparse npz file"):
        most = len(content) * 1032 if limit is None else int(limit / _NPZ)
        arrays = read_arrays(io.BytesIO(content), most, _OF_MATRICES)
        del content
        matrix = _sparse(arrays)
    return _real(path, matrix, memory_limit)


# What scipy.sparse.save_npz writes; other members are left alone.
_OF_MATRICES = ("format", "shape", "data", "indices", "indptr", "row", "col", "coords", "offsets")


def _sparse(arrays: Mapping[str, np.ndarray]) -> Any:
    """The matrix of arrays that `scipy.sparse.save_npz` writes, once they are known to agree."""
    if "format" not in arrays or "shape" not in arrays or "data" not in arrays:
        raise ValueError("it does not contain a sparse array or matrix")

    kind = arrays["format"].item()
    kind = kind.decode("ascii") if isinstance(kind, bytes) else kind
    parts = {
        **dict.fromkeys(("csr", "csc", "bsr"), ("indices", "indptr")),
        "coo": ("coords",) if "coords" in arrays else ("row", "col"),
        "dia": ("offsets",),
    }.get(kind)
    if parts is None:
        raise ValueError(f"format {kind!r}")

    shape = _npz_shape(arrays, parts)
    data, *places = arrays["data"], *(arrays[name] for name in parts)
    make = getattr(sp, f"{kind}_array")
    if kind == "coo":
        matrix = make((data, tuple(places) if len(places) == 2 else places[0]), shape=shape)
    else:
        matrix = make((data, *places), shape=shape)

    if kind in ("csr", "csc", "bsr"):
        # Without these checks a damaged file would make scipy read outside its arrays. That of
        # scipy looks at no entry where the last pointer is not above 0.
        if matrix.indptr[0] != 0 or (np.diff(matrix.indptr) < 0).any():
            raise ValueError("its row pointers do not rise from 0")
        matrix.check_format(full_check=True)
    return matrix


def _npz_shape(arrays: Mapping[str, np.ndarray], parts: tuple[str, ...]) -> tuple[int, ...]:
    """The shape of the matrix, once its arrays of places are known to be integers."""
    for name in ("shape", *parts):
        if name not in arrays:
            raise ValueError(f"it has no {name!r}")
        if arrays[name].dtype.kind not in "iu":
            raise ValueError(f"its {name!r} are no integers")
    if arrays["shape"].shape != (2,):
        raise ValueError("it is not a matrix with two axes")
    shape = tuple(int(size) for size in arrays["shape"])
    if min(shape) < 0 or max(shape) >= 2**62:
        raise ValueError(f"its shape is {shape}")
    return shape


def _real(path: Path, matrix: Any, memory_limit: int | None) -> Any:
    """The matrix, once known to be real and of a size that is credible or allowed."""
    size = max(matrix.shape)
    needed = _ROW * size
    if memory_limit is None and size > max(10**6, 100 * matrix.size):
        # A few bytes of a damaged header would otherwise ask for all the memory there is.
        raise ValueError(
            f"{path} holds a matrix of shape {tuple(matrix.shape)} with {matrix.size} entries; "
            "nearly all of its nodes would be isolated, so it is taken for damaged; if it is not, "
            f"pass a `memory_limit` for its graph, which takes about {needed / 2**30:.3g} GiB"
        )
    limit = available_memory() if memory_limit is None else memory_limit
    if limit is not None and needed > limit:
        raise NoRoomError(
            f"{path} holds a matrix of shape {tuple(matrix.shape)}, whose graph takes about "
            f"{needed / 2**30:.3g} GiB, but {limit_words(memory_limit, limit)}; pass a larger "
            "`memory_limit`, or drop nodes without edges"
        )
    if matrix.dtype.kind not in "biuf":
        raise ValueError(f"{path} holds a matrix of dtype {matrix.dtype}; a real one was wanted")
    return matrix
