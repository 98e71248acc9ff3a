"""Reading matrices from files: MatrixMarket, and the npz archives of scipy.sparse."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from graphrf._foreign_files import first_bytes, foreign, read_bytes
from graphrf._memory import available_memory
from graphrf._npz_files import read_arrays

_BANNER = b"%%matrixmarket"
# Memory that is taken for a byte of a file.
_MATRIX_MARKET = 40.0
_NPZ = 10.0


def is_matrix_market(path: Path) -> bool:
    """Whether the file opens with MatrixMarket's banner; files called .mtx without it are edge lists."""
    return first_bytes(path, len(_BANNER)).lower() == _BANNER


def read_matrix_market(path: Path, memory_limit: int | None = None) -> Any:
    """The sparse or dense real matrix of a MatrixMarket file."""
    from scipy.io import mmread

    content = read_bytes(path, _MATRIX_MARKET, memory_limit)
    with foreign(path, "MatrixMarket file"):
        _check_declared(content)
        matrix = mmread(io.BytesIO(content))
    return _real(path, matrix)


def _check_declared(content: bytes) -> None:
    """Raise where a MatrixMarket header declares more entries than its bytes can hold: scipy allocates them."""
    from scipy.io import mminfo

    rows, columns, declared, form, _, symmetry = mminfo(io.BytesIO(content))
    # An entry takes a digit and a line end, and its row and column two bytes each where they are written.
    each = 2 if form == "array" else 6 if b"pattern" not in content[:200].lower() else 4
    if form == "array":
        declared = rows * columns if symmetry == "general" else rows * (columns - 1) // 2
    if min(rows, columns) < 1:
        raise ValueError(f"its shape is ({rows}, {columns})")  # scipy divides by it: the process would die
    if declared < 0 or each * declared > len(content) + 1:
        raise ValueError(f"it declares {declared:,} entries, more than its {len(content):,} bytes can hold")


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
        # Without this check a damaged file would make scipy read outside its arrays.
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
