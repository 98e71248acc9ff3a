"""Graphs that stay on disk: folders opened as memory maps, and written from edges that do not fit in memory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from graphrf._base import checks
from graphrf._base.progress import progress_bar
from graphrf.graph import notices
from graphrf.graph.csr import chunks
from graphrf.graph.disk import folder as graph_folder
from graphrf.graph.disk import writing
from graphrf.graph.disk.edge_chunks import COLUMN, SHIFT, Tally, checked_chunks, entries_of, rows_of
from graphrf.graph.graph import Graph
from graphrf.graph.names import validated_names

# Entries that are sorted together: at most 200 MB of memory.
_BLOCK = 1 << 21
# Files of entries before they are merged.
_KEYS, _WEIGHTS = "entries.keys", "entries.weights"

Edges = Callable[[], Iterable[Any]] | Iterable[Any]


def open_graph(folder: str | os.PathLike[str], *, verify: bool = True) -> Graph:
    """The graph of a folder that `Graph.save` or `write_graph` wrote, with its arrays mapped into memory.

    Nothing is copied: pages of the arrays are read when they are used, are shared by all processes that open the
    folder, and are dropped when memory is short. Walks and local queries read the rows that they visit (queries
    with walks on a directed graph, or one with loops, first read it all once, to find the loops), so the graph
    may be larger than the memory. What makes a matrix of its own needs room for it: `laplacian`, `walk_matrix`,
    kernels' series, and walks for combinatorial kernels or where nodes are isolated, which get loops.

    Parameters
    ----------
    folder : path
    verify : bool
        Whether all arrays are read, compared with the digest that was written, and looked at: positions in range
        and increasing within rows, weights finite and above 0, degrees their sums, an undirected graph's entries
        equal to their mirror images. Without it only the record, sizes, types and names are checked: for folders
        that you trust, since positions out of range end the process.

    Returns
    -------
    Graph
        As in memory, bit for bit, and whole for as long as it lives, also where its folder is written over
        meanwhile: of such a folder it is the old graph or the new one at every moment, also if the writer is
        killed. Copies are the graph itself; pickle keeps the folder's path, so the graph travels to other
        processes as a few hundred bytes, provided that they see the folder. Unpickling opens it without
        `verify`, and refuses another graph than the one pickled.

    Raises
    ------
    FileNotFoundError
        If there is no such folder or a file is missing, as where the first graph is not written yet.
    ValueError
        If a file is damaged or holds what no writer writes; the message names it. Also if the folder is written
        over again and again while it is read.

    Notes
    -----
    Cost: O(1) time and memory without `verify`; with it O(nnz) time, of which an undirected graph's mirror images
    take two fifths where all else is in memory, and 15 MB. For these the sums of scrambled entries above and below
    the diagonal are compared, with a secret of each call: one pass, which misses a difference with probability
    2^-64. Names are read into memory. Walks on weights that differ within a row read all weights first, and keep
    8 bytes per entry in memory.

    Examples
    --------
    >>> import pathlib, tempfile, graphrf as grf
    >>> folder = pathlib.Path(tempfile.mkdtemp(), "line")
    >>> grf.from_edges([0, 1], [1, 2]).save(folder)
    >>> graph = grf.open_graph(folder)
    >>> graph.degrees
    array([1., 2., 1.])
    """
    return _opened(graph_folder.folder_path(folder), checks.flag("verify", verify))[0]


def write_graph(
    folder: str | os.PathLike[str],
    edges: Edges,
    *,
    n_nodes: int | None = None,
    directed: bool = False,
    progress: bool = False,
) -> Graph:
    """Write a graph's folder from chunks of edges, of which only one is in memory at a time, and open it.

    Parameters
    ----------
    folder : path
        A new or empty folder, or one with a graph, in whose place the new one is at once when it is complete: a
        process killed at any moment leaves the old graph or the new one, as in `Graph.save`.
    edges : callable without arguments, or list
        What gives the chunks: pairs (sources, targets) or triples (sources, targets, weights) of arrays of one
        length, the nodes being positions from 0. The chunks are gone through twice, so a generator is not
        enough: pass the function that makes it.
    n_nodes : int, optional
        Number of nodes. Default: the largest position plus 1.
    directed : bool
        Whether an edge leads from its source to its target only.
    progress : bool
        Whether to show progress bars.

    Returns
    -------
    Graph
        The opened folder, with the arrays of `graphrf.from_edges` of all chunks together. Without weights every
        joined pair has weight 1 however often it is listed. With them, those of parallel edges of one direction
        are added, an undirected graph takes for every pair the direction with the larger sum, and sums of zero
        are no edges. Sums run in the order of the edges; those of three or more parallel edges may differ from
        `from_edges` by rounding.

    Raises
    ------
    TypeError, ValueError
        If a chunk is none of the above, a node is negative or too large, a weight is NaN, infinite or negative,
        some chunks have weights and some have none, the second pass gives other edges than the first, there is
        no node, or the folder holds other files.
    BlockingIOError
        If another writer is at work in the folder. Where the system or the disk has no file locks (Windows),
        that shows at the end, as a ValueError, if the other graph is there then.
    OSError
        If the folder cannot be written to, which shows before the first pass, or the disk is full. After this as
        after all other errors the graph that was in the folder is still there.

    Notes
    -----
    The entries (two for an undirected edge, one for a loop or directed edge) are counted by row, written to
    temporary files in blocks of rows, and each block is sorted and merged.

    Memory: 16 bytes per node (24 where `n_nodes` is not given), and the larger of 160 bytes an edge of a chunk and
    200 MB for a block of 2^21 entries (100 bytes an entry of a row that has more). Disk: the result of 12 bytes an
    entry and 12 a node (16 and 16 from 2^31 entries on), and until it is complete 8 bytes per entry (16 with
    weights) beside it, as well as the graph that is written over: 10^9 undirected edges on 10^8 nodes take 1.6 GB
    of memory beside chunk or block, and 25.2 GB of disk in the end, but 41.2 GB (57.2 GB with weights) shortly
    before, with an older graph of this size 66.4 GB (82.4 GB). Time: O(E), but for the sort of every block.

    Examples
    --------
    >>> import pathlib, tempfile, numpy as np, graphrf as grf
    >>> def ring():
    ...     for start in range(0, 1000, 100):
    ...         nodes = np.arange(start, start + 100)
    ...         yield nodes, (nodes + 1) % 1000
    >>> grf.write_graph(pathlib.Path(tempfile.mkdtemp(), "ring"), ring)
    Graph(1000 nodes, 1000 edges, undirected, unweighted)
    """
    path = graph_folder.folder_path(folder)
    directed = checks.flag("directed", directed)
    progress = checks.flag("progress", progress)
    if n_nodes is not None:
        n_nodes = checks.integer("n_nodes", n_nodes, low=1, high=2**32 - 1)
    if isinstance(edges, Iterator) or not (callable(edges) or isinstance(edges, Iterable)):
        raise checks.type_error(
            "edges",
            "must be a function that returns chunks of edges, or a list of them, since they are gone "
            f"through twice, got {checks.describe(edges)}; pass the function that makes a generator itself",
        )
    pass_once = edges if callable(edges) else lambda: edges
    with writing.writing(path) as place:
        tally, counts = _count(pass_once, n_nodes, directed, progress)
        first_rows, offsets = _blocks(counts)
        if n_nodes is None:
            number_them = "number them from 0, or take graphrf.from_edges, which has names"
            notices.warn_together([notices.of_identifiers(counts.size, tally.n_edges, number_them)])
        del counts
        entries = _Entries.made(place.arrays, int(offsets[-1]), tally.weighted)
        _place(entries, pass_once, directed, first_rows, offsets, tally, progress)
        rows = _merge(entries, directed, first_rows, offsets, progress)
        written = _write(place, entries, rows, directed)
        del entries
        # On Windows files stay while they are mapped.
        for name in (_KEYS, _WEIGHTS):
            with contextlib.suppress(OSError):
                (place.arrays / name).unlink()
        return _reopened(path, written, "that was just written")


def _opened(folder: str, verify: bool) -> tuple[Graph, str]:
    """The graph of a folder, and its identity."""
    folder = os.path.abspath(folder)
    record, place, arrays, names = graph_folder.read_folder(folder, verify)
    if names is not None:
        try:
            names = validated_names(names, record["n_nodes"])
        except (TypeError, ValueError) as error:
            raise graph_folder.fault(place / graph_folder.NAMES, f"holds wrong names ({error})") from None
    # Set one by one: the constructor would look for the smallest type of all indices.
    adjacency = sp.csr_array((record["n_nodes"], record["n_nodes"]), dtype=np.float64)
    adjacency.indptr, adjacency.indices, adjacency.data = (
        arrays[name] for name in ("indptr", "indices", "weights")
    )
    adjacency.has_canonical_format = True
    known = {
        "degrees": arrays["degrees"],
        "n_edges": record["n_edges"],
        "is_weighted": record["weighted"],
        "digest": record["digests"]["weights"],
    }
    identity = graph_folder.identity(record)
    again = _reopened, (folder, identity)
    return Graph._of_valid(adjacency, names, record["directed"], known, again), identity


def _reopened(folder: str, identity: str, which: str = "that was pickled") -> Graph:
    """The graph of a folder, known by its identity; ValueError if another one is there by now."""
    graph, found = _opened(folder, verify=False)
    if found != identity:
        raise ValueError(
            f"the graph in {folder} must be the one {which}, got another one; write different graphs to different "
            "folders"
        )
    return graph


# -- entries on disk -----------------------------------------------------------------------------------------


def _count(
    pass_once: Callable[[], Iterable[Any]], n_nodes: int | None, directed: bool, progress: bool
) -> tuple[Tally, np.ndarray]:
    """The first pass: what it met, and the number of entries in every row, duplicates included."""
    tally, counts, largest = Tally(), np.zeros(n_nodes or 0, dtype=np.int64), -1
    with progress_bar("counting edges", progress, total=None) as bar:
        for keys, weights in checked_chunks(pass_once, n_nodes):
            tally = tally.with_chunk(keys, weights)
            if n_nodes is None and keys.size:
                largest = max(largest, int(keys.max() >> SHIFT), int((keys & COLUMN).max()))
                if largest >= counts.size:
                    counts = np.concatenate([counts, np.zeros(largest + 1, dtype=np.int64)])
            np.add.at(counts, rows_of(entries_of(keys, weights, directed)[0]), 1)
            bar.update(keys.size)
    if not counts.size:
        raise checks.value_error("edges", "must hold at least one edge, got none; or give n_nodes")
    return tally, counts if n_nodes is not None else counts[: largest + 1]


class _Entries(NamedTuple):
    """Temporary vectors of keys and of weights (None where all are 1), on disk."""

    keys: np.ndarray
    weights: np.ndarray | None

    @classmethod
    def made(cls, scratch: Path, size: int, weighted: bool | None) -> _Entries:
        keys = _on_disk(scratch / _KEYS, np.uint64, size)
        return cls(keys, _on_disk(scratch / _WEIGHTS, np.float64, size) if weighted else None)


class _MergedRows(NamedTuple):
    """Facts about the merged rows: pointer, sums, number of self-loops, and whether weights differ."""

    indptr: np.ndarray
    degrees: np.ndarray
    n_loops: int
    weighted: bool


def _on_disk(file: Path, dtype: Any, size: int) -> np.ndarray:
    n_bytes = max(size, 1) * np.dtype(dtype).itemsize
    with open(file, "wb") as opened:
        # A full disk is an OSError here; in the middle of a map it would end the process.
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(opened.fileno(), 0, n_bytes)
        else:
            opened.truncate(n_bytes)
    mapped = np.memmap(file, dtype=dtype, mode="r+")
    # A map needs no name: its room is free when its process ends, even if it is killed.
    with contextlib.suppress(OSError):
        file.unlink()
    return np.asarray(mapped)[:size]


def _blocks(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Blocks of at most `_BLOCK` rows and entries (or one row): their first rows and entries, and the ends."""
    ends = np.cumsum(counts)
    first_rows, offsets = [0], [0]
    while first_rows[-1] < ends.size:
        first = first_rows[-1]
        last = int(np.searchsorted(ends, offsets[-1] + _BLOCK, side="right"))
        first_rows.append(min(max(last, first + 1), first + _BLOCK))
        offsets.append(int(ends[first_rows[-1] - 1]))
    return np.array(first_rows), np.array(offsets)


def _place(
    entries: _Entries,
    pass_once: Callable[[], Iterable[Any]],
    directed: bool,
    first_rows: np.ndarray,
    offsets: np.ndarray,
    expected: Tally,
    progress: bool,
) -> None:
    """The second pass: append every entry to those of its block, in the order of the edges."""
    changed = checks.value_error(
        "edges", "must give the same edges in both passes, got others in the second; fix the seed that makes them"
    )
    free, ends, tally = offsets[:-1].copy(), offsets[1:], Tally()
    n_blocks = free.size
    with progress_bar("placing edges", progress, total=expected.n_edges) as bar:
        for all_keys, all_weights in checked_chunks(pass_once, None):
            tally = tally.with_chunk(all_keys, all_weights)
            keys, weights = entries_of(all_keys, all_weights, directed)
            if (weights is None) != (entries.weights is None):
                raise changed
            block = np.searchsorted(first_rows[1:-1], rows_of(keys), side="right")
            per_block = np.bincount(block, minlength=n_blocks)
            if (free + per_block > ends).any():
                raise changed
            # NumPy sorts 16 bits in linear time.
            order = np.argsort(block.astype(np.min_scalar_type(n_blocks)), kind="stable")
            at = np.arange(keys.size) + np.repeat(free - (np.cumsum(per_block) - per_block), per_block)
            entries.keys[at] = keys[order]
            if entries.weights is not None and weights is not None:
                entries.weights[at] = weights[order]
            free += per_block
            bar.update(all_keys.size)
    if tally != expected:
        raise changed


def _merge(
    entries: _Entries, directed: bool, first_rows: np.ndarray, offsets: np.ndarray, progress: bool
) -> _MergedRows:
    """Sort and merge the entries block by block; what is left moves to the front of the vectors."""
    n_nodes = int(first_rows[-1])
    indptr, degrees = np.zeros(n_nodes + 1, dtype=np.int64), np.zeros(n_nodes)
    size = n_loops = 0
    least, most = np.inf, 0.0
    with progress_bar("merging entries", progress, total=int(offsets[-1])) as bar:
        for block in range(first_rows.size - 1):
            first, last = int(first_rows[block]), int(first_rows[block + 1])
            part = slice(int(offsets[block]), int(offsets[block + 1]))
            keys, weights = _merged(
                entries.keys[part], None if entries.weights is None else entries.weights[part], directed
            )
            rows = rows_of(keys)
            pointer = np.concatenate([[0], np.cumsum(np.bincount(rows - first, minlength=last - first))])
            indptr[first + 1 : last + 1] = size + pointer[1:]
            # The sums are scipy's, as in Graph.degrees, so that their bits are.
            values = np.ones(keys.size) if weights is None else weights
            block_rows = sp.csr_array((values, np.zeros(keys.size, np.int64), pointer), shape=(last - first, 1))
            with np.errstate(over="ignore"):
                degrees[first:last] = block_rows.sum(axis=1)
            n_loops += int(np.count_nonzero(rows == (keys & COLUMN).view(np.int64)))
            end = size + keys.size
            entries.keys[size:end] = keys
            if entries.weights is not None and weights is not None and keys.size:
                entries.weights[size:end] = weights
                least, most = min(least, float(weights.min())), max(most, float(weights.max()))
            size = end
            bar.update(part.stop - part.start)
    if not np.isfinite(degrees).all():
        raise ValueError("the degrees of this graph overflow float64; divide its weights by a constant")
    return _MergedRows(indptr, degrees, n_loops, least < most)


def _merged(keys: np.ndarray, weights: np.ndarray | None, directed: bool) -> tuple[np.ndarray, np.ndarray | None]:
    """The distinct keys in order, with the sums of their weights, or the larger sum of both directions."""
    if weights is None:
        keys = np.sort(keys)
        return keys[_first_of_runs(keys)], None
    order = np.argsort(keys, kind="stable")
    keys, weights = keys[order], weights[order]
    first = _first_of_runs(keys)
    run = np.cumsum(first) - 1
    # Unlike np.add.reduceat, bincount adds in the order of the edges, so that [u, v] and [v, u] are equal.
    sums = np.bincount(run, weights=np.maximum(weights, 0.0))
    if not directed:
        sums = np.maximum(sums, np.bincount(run, weights=np.maximum(-weights, 0.0)))
    return keys[first], sums


def _first_of_runs(keys: np.ndarray) -> np.ndarray:
    first = np.ones(keys.size, dtype=bool)
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    return first


def _write(place: writing.Writing, entries: _Entries, rows: _MergedRows, directed: bool) -> str:
    """Write the merged entries as a graph; its identity."""
    n_nodes, size = rows.degrees.size, int(rows.indptr[-1])
    keys = entries.keys[:size]
    if entries.weights is None:
        weights: Iterable[np.ndarray] = (np.ones(chunk.size) for chunk in chunks(keys))
    else:
        weights = chunks(entries.weights[:size])
    columns = {
        "indptr": writing.Column.of(rows.indptr),
        "indices": writing.Column(size, (chunk & COLUMN for chunk in chunks(keys))),
        "weights": writing.Column(size, weights),
        "degrees": writing.Column.of(rows.degrees),
    }
    facts = {
        "n_nodes": n_nodes,
        "n_edges": size if directed else (size + rows.n_loops) // 2,
        "directed": directed,
        "weighted": rows.weighted,
    }
    return writing.write_folder(place, columns, facts, None)
