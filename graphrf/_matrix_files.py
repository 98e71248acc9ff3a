"""Reading matrices from files: MatrixMarket, and the npz archives of scipy.sparse."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from graphrf._foreign_files import first_bytes, foreign, read_bytes, short
from graphrf._memory import available_memory
from graphrf._npz_files import read_arrays

_BANNER = b"%%matrixmarket"
# Memory that the graph of a file takes for each of its bytes, of npz for those of its arrays; measured as in
# `_graph_files` (42 for dense symmetric MatrixMarket, 26 for patterns, 5 for numbers; 4.6 for npz).
_MATRIX_MARKET = 50.0
_NPZ = 6.0


def is_matrix_market(path: Path) -> bool:
    """Whether the file opens with MatrixMarket's banner; files called .mtx without it are edge lists."""
    return first_bytes(path, len(_BANNER)).lower() == _BANNER


def read_matrix_market(path: Path, memory_limit: int | None = None) -> Any:
    """The sparse or dense real matrix of a MatrixMarket file.

    The reader is graphrf's own: on damaged files that of scipy can end the process.
    """
    content = read_bytes(path, _MATRIX_MARKET, memory_limit)
    with foreign(path, "MatrixMarket file"):
        matrix = _market_matrix(content)
    return _real(path, matrix)


def _market_matrix(content: bytes) -> Any:
    """The matrix of a MatrixMarket file; any fault raises `ValueError`.

    Entries of the lower half of a symmetric or skew-symmetric matrix stand for both halves.
    """
    banner, at = _line(content, 0)
    words = banner.lower().split()
    if len(words) != 5 or words[1] != b"matrix":
        raise ValueError("its first line must be %%MatrixMarket matrix FORMAT FIELD SYMMETRY")
    _, _, form, field, symmetry = (word.decode("ascii", "replace") for word in words)
    if field in ("complex", "hermitian") or symmetry == "hermitian":
        raise ValueError("it holds complex numbers; a real one was wanted")
    known = (
        form in ("coordinate", "array")
        and field in ("real", "double", "integer", "unsigned-integer", "pattern")
        and symmetry in ("general", "symmetric", "skew-symmetric")
        and (form, field) != ("array", "pattern")
    )
    if not known:
        raise ValueError(f"no matrices of the kind {short(' '.join((form, field, symmetry)))} are known")
    line = b"%"
    while line[:1] in (b"%", b""):
        if at >= len(content):
            raise ValueError("it ends before its size")
        line, at = _line(content, at)
    sizes = line.split()
    if len(sizes) != (2 if form == "array" else 3) or not all(re.fullmatch(rb"\d{1,18}", size) for size in sizes):
        raise ValueError(f"its size must be whole numbers, got {short(line)}")
    rows, columns, *entries = map(int, sizes)
    halved = symmetry != "general"
    if rows < 1 or columns < 1 or (halved and rows != columns):
        raise ValueError(f"its shape is ({rows}, {columns})")
    skew = symmetry == "skew-symmetric"
    if form == "array":
        declared = rows * columns if not halved else rows * (rows - 1 if skew else rows + 1) // 2
    else:
        declared = entries[0]
    each = 1 if form == "array" else 2 if field == "pattern" else 3
    # A number takes two bytes: a digit, and what parts it from the next.
    if 2 * each * declared > len(content) - at + 1:
        raise ValueError(f"it declares {declared:,} entries, more than its {len(content):,} bytes can hold")
    numbers = _numbers(content[at:])
    if numbers.size != each * declared:
        raise ValueError(f"it declares {declared:,} entries of {each} numbers, and holds {numbers.size:,} numbers")
    if form == "array":
        return _dense(numbers, rows, columns, symmetry)
    table = numbers.reshape(declared, each)
    places = table[:, :2]
    if not ((places >= 1) & (places <= (rows, columns)) & (places == np.floor(places))).all():
        raise ValueError(f"the row or column of an entry is outside of ({rows}, {columns})")
    values = np.ones(declared) if field == "pattern" else table[:, 2].copy()
    row, column = (places[:, axis].astype(np.int64) - 1 for axis in (0, 1))
    if halved:
        off = row != column
        sign = -1.0 if skew else 1.0
        row, column = np.r_[row, column[off]], np.r_[column, row[off]]
        values = np.r_[values, sign * values[off]]
    return sp.coo_array((values, (row, column)), shape=(rows, columns))


def _line(content: bytes, at: int) -> tuple[bytes, int]:
    """The stripped line that starts `at`, and where the next one starts."""
    end = content.find(b"\n", at)
    end = len(content) if end < 0 else end
    return content[at:end].strip(), end + 1


def _numbers(content: bytes) -> np.ndarray:
    """The numbers of a text, which holds nothing else."""
    if not content.strip():
        return np.zeros(0)
    # NumPy's parser knows hexadecimal numbers too; MatrixMarket does not.
    if content.translate(None, b"0123456789+-.eEnNaAiIfFtTyY \t\r\n\v\f"):
        raise ValueError("it holds other characters than those of numbers")
    return np.fromstring(content, dtype=np.float64, sep=" ")


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
    content = read_bytes(path, _NPZ, memory_limit)
    limit = available_memory() if memory_limit is None else memory_limit
    with foreign(path, "scipy.sparse npz file"):
        arrays = read_arrays(io.BytesIO(content), len(content) * 1032 if limit is None else int(limit / _NPZ))
        del content
        matrix = _sparse(arrays)
    return _real(path, matrix)


def _sparse(arrays: Mapping[str, np.ndarray]) -> Any:
    """The matrix of the arrays that `scipy.sparse.save_npz` writes, once they are known to agree."""
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
    for name in ("shape", *parts):
        if name not in arrays:
            raise ValueError(f"it has no {name!r}")
        if arrays[name].dtype.kind not in "iu":
            raise ValueError(f"its {name!r} are no integers")
    if arrays["shape"].shape != (2,):
        raise ValueError("it is no matrix, of two axes")
    shape = tuple(int(size) for size in arrays["shape"])
    if min(shape) < 0 or max(shape) >= 2**62:
        raise ValueError(f"its shape is {shape}")
    data, *places = arrays["data"], *(arrays[name] for name in parts)
    make = getattr(sp, f"{kind}_array")
    if kind == "coo":
        matrix = make((data, tuple(places) if len(places) == 2 else places[0]), shape=shape)
    else:
        matrix = make((data, *places), shape=shape)
    if kind in ("csr", "csc", "bsr"):
        # Without these checks a damaged file would make scipy read outside its arrays. That of scipy looks at no
        # entry where the last pointer is not above 0.
        if matrix.indptr[0] != 0 or (np.diff(matrix.indptr) < 0).any():
            raise ValueError("its row pointers do not rise from 0")
        matrix.check_format(full_check=True)
    return matrix


def _real(path: Path, matrix: Any) -> Any:
    """The matrix, once it is known to be real and of a size that its entries make credible."""
    if max(matrix.shape) > max(10**6, 100 * matrix.size):
        # A few bytes of a damaged header would otherwise ask for all the memory there is.
        raise ValueError(
            f"{path} holds a matrix of shape {tuple(matrix.shape)} with {matrix.size} entries; "
            "nearly all of its nodes would be isolated, so it is taken for damaged"
        )
    if matrix.dtype.kind not in "biuf":
        raise ValueError(f"{path} holds a matrix of dtype {matrix.dtype}; a real one was wanted")
    return matrix
