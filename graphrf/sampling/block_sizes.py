"""Number of rows that are sampled together, and number that are written together."""

from __future__ import annotations

import numpy as np

# A block that is sampled is this many visits: large enough that Python's share is nothing, small enough for smooth
# progress and for buffers that stay out of the way.
_BLOCK_VISITS = 2_000_000
# The record of a block that is written has about so many bytes: some hundred milliseconds of walks, or of a
# product, a task of a cluster.
_FILE_BYTES = 2**27
# ... and so many times those of a column of F^T y, of which every block makes one.
_COLUMNS = 4
# Small features are still shared out among workers: the more of these blocks, the more such columns they have.
_FEWEST_COLUMNS = 2
_FEWEST_FILES = 4, 16
# Below so many bytes sharing gains nothing.
_SMALL_BYTES = 2**24
_FEWEST_ROWS = 64


def block_rows(n_sources: int, visits_per_row: float, threads: int) -> int:
    """Rows of a block of the compiled loops: at least four blocks a thread, so that none waits long."""
    return min(max(1, int(_BLOCK_VISITS / visits_per_row)), max(64, -(-n_sources // (4 * threads))))


def file_rows(n_rows: int, nbytes: int, n_nodes: int) -> int:
    """Rows of a block of features on a cluster or in a folder, of whose record `nbytes` are expected.

    They do not depend on workers and threads, so that neither do the files.
    """
    column = 8 * n_nodes
    by_size = nbytes / max(_FILE_BYTES, _COLUMNS * column)
    fewest, most = _FEWEST_FILES
    shared = np.clip(nbytes / (_FEWEST_COLUMNS * column), min(fewest, nbytes / _SMALL_BYTES), most)
    n_blocks = max(by_size, shared, 1.0)
    return min(max(_FEWEST_ROWS, int(np.ceil(n_rows / n_blocks))), n_rows)
