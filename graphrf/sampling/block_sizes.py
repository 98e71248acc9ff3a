"""Number of rows that are sampled together, and number that are written together."""

from __future__ import annotations

import numpy as np

# Visits of a block that is sampled: enough to hide Python's overhead, few enough for smooth
# progress and small buffers.
_BLOCK_VISITS = 2_000_000
# Bytes of the record of a block that is written, or of a task of a cluster: some hundred
# milliseconds of work,
_FILE_BYTES = 2**27
# and at least so many times those of a column of F^T y, of which every block makes one.
_COLUMNS = 4
# Small features are also divided among workers, into blocks of fewer such columns.
_FEWEST_COLUMNS = 2
_FEWEST_FILES = 4, 16
# Below so many bytes division gains nothing.
_SMALL_BYTES = 2**24
_FEWEST_ROWS = 64


def block_rows(n_sources: int, visits_per_row: float, threads: int) -> int:
    """Rows of a block of the compiled loops: at least four blocks a thread, to balance them."""
    return min(max(1, int(_BLOCK_VISITS / visits_per_row)), max(64, -(-n_sources // (4 * threads))))


def file_rows(n_rows: int, nbytes: int, n_nodes: int) -> int:
    """Rows of a block on a cluster or in a folder, of whose record `nbytes` are expected.

    The result does not depend on workers and threads, so neither do the files.
    """
    column = 8 * n_nodes
    by_size = nbytes / max(_FILE_BYTES, _COLUMNS * column)
    fewest, most = _FEWEST_FILES
    shared = np.clip(nbytes / (_FEWEST_COLUMNS * column), min(fewest, nbytes / _SMALL_BYTES), most)
    n_blocks = max(by_size, shared, 1.0)
    return min(max(_FEWEST_ROWS, int(np.ceil(n_rows / n_blocks))), n_rows)
