"""Features on an edited graph: only rows whose walks met the edit are drawn again."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import uint64

from graphrf._base import checks
from graphrf._base.compiled import njit
from graphrf._base.memory import require_memory
from graphrf._base.rows import row_shares
from graphrf._base.threads import ordered_map, thread_count
from graphrf.features.record import Record
from graphrf.features.rows import MOST_SHORT
from graphrf.graph.graph import Graph, require_graph
from graphrf.sampling.record_builder import sample_rows
from graphrf.sampling.task import SamplingTask
from graphrf.sampling.walks.random_walks import RandomWalks, walk_transitions
from graphrf.sampling.walks.transitions import Transitions

if TYPE_CHECKING:
    from graphrf.features.features import Features
    from graphrf.features.sample_info import SampleInfo

# Ranges of rows per thread.
_RANGES = 8
_PER_ROW = ("indptr", "visit_ptr")
_PER_ENTRY = ("indices", "visits_per_entry")
_U1 = np.uint64(1)


def updated_record(
    task: SamplingTask, features: Features, graph: Graph, n_threads: int | None
) -> tuple[SamplingTask, Record]:
    """Task and record of the features on an edited graph; see `Features.updated`."""
    require_same_nodes(task.graph, graph)
    if not isinstance(task.sampler, RandomWalks):
        raise TypeError(
            f"features can follow an edit only if `RandomWalks` drew them, got {task.sampler!r}: "
            "powers are computed in an order of the nodes that depends on the whole graph, so that "
            "every row would change; sample again"
        )
    if features.on_device:
        raise ValueError(
            "features can follow an edit only in the memory of the host, got features on "
            f"{features.device!r}; move them there first, features.to('cpu')"
        )
    threads = thread_count(n_threads)
    after = replace(task, graph=graph, sources=features.nodes, place=None, n_threads=threads)
    new, record = after.prepared, features.record
    require_memory(
        1.1 * record.nbytes,
        f"the updated record of {features.nodes.size} nodes",
        "update features of fewer nodes (Features.take)",
    )
    if _same_law(features.info, after.info):
        changed = changed_rows(
            walk_transitions(task.graph, task.sampler.laplacian), new.transitions
        )
        rows = np.flatnonzero(rows_that_met(record, changed, threads))
    else:
        rows = np.arange(features.nodes.size)
    if rows.size:
        fresh = sample_rows(new, features.nodes[rows], graph.n_nodes, after.block_rows, threads)
        record = with_rows(record, rows, fresh, threads)
    return after, record


def require_same_nodes(before: Graph, after: Any) -> None:
    """Raise unless `after` is a graph on the nodes of `before`, in the same order."""
    require_graph(after)
    if after.n_nodes != before.n_nodes:
        raise checks.value_error(
            "graph",
            f"must have the {before.n_nodes} nodes of the graph before the edit, got "
            f"{after.n_nodes}; a node that was removed, or is yet to come, can be kept as an "
            "isolated one",
        )
    named = before.has_names, after.has_names
    if any(named) and not (all(named) and before.nodes == after.nodes):
        raise checks.value_error(
            "graph", "must have the same names of nodes in the same order as before the edit"
        )


def _same_law(old: SampleInfo, new: SampleInfo) -> bool:
    """True if both draw lengths alike: `AutoLengths` may choose others after an edit."""
    return np.array_equal(old.survival, new.survival) and old.description == new.description


def changed_rows(old: Transitions, new: Transitions) -> np.ndarray:
    """Marks nodes whose transitions differ, uint8; all if weights became unequal, or equal."""
    if (
        (old.cumulative.size == 0) != (new.cumulative.size == 0)
        and old.indices.size
        and new.indices.size
    ):
        return np.ones(old.indptr.size - 1, np.uint8)
    return np.asarray(_changed_rows(*old, *new))


@njit(nogil=True, cache=True)
def _changed_rows(  # type: ignore[no-untyped-def]
    indptr, indices, cumulative, new_indptr, new_indices, new_cumulative
):
    changed = np.zeros(indptr.size - 1, np.uint8)
    for row in range(changed.size):
        shift = np.int64(new_indptr[row]) - np.int64(indptr[row])
        differs = np.int64(new_indptr[row + 1]) - np.int64(indptr[row + 1]) != shift
        if not differs:
            for entry in range(indptr[row], indptr[row + 1]):
                differs |= indices[entry] != new_indices[entry + shift]
                if cumulative.size:
                    differs |= cumulative[entry] != new_cumulative[entry + shift]
        changed[row] = differs
    return changed


def rows_that_met(record: Record, marked: np.ndarray, n_threads: int) -> np.ndarray:
    """Marks rows that have an entry at a marked node, uint8, shape (n,)."""
    met = np.zeros(record.n_rows, np.uint8)

    def run(part: tuple[int, int]) -> None:
        _rows_that_met(*part, record.indptr, record.indices, marked, met)

    _in_parts(run, record, n_threads)
    return met


@njit(nogil=True, cache=True)
def _rows_that_met(first, last, indptr, indices, marked, met):  # type: ignore[no-untyped-def]
    # Unsigned subscripts need no test for negative ones.
    for row in range(uint64(first), uint64(last)):
        found = np.uint8(0)
        for entry in range(uint64(indptr[row]), uint64(indptr[row + _U1])):
            found |= marked[uint64(indices[entry])]
        met[row] = found


def with_rows(record: Record, rows: np.ndarray, fresh: Record, n_threads: int) -> Record:
    """A record in which `rows`, ascending, are replaced by those of another one."""
    source = np.full(record.n_rows, -1, np.int64)
    source[rows] = np.arange(rows.size)
    pointers = {}
    for name in _PER_ROW:
        sizes = np.diff(getattr(record, name)).astype(np.int64)
        sizes[rows] = np.diff(getattr(fresh, name))
        ends = np.zeros(sizes.size + 1, np.int64)
        np.cumsum(sizes, out=ends[1:])
        kept = getattr(record, name).dtype
        pointers[name] = ends if ends[-1] > MOST_SHORT else ends.astype(kept)
    arrays: dict[str, np.ndarray] = {}
    for part in fields(Record):
        old, new = getattr(record, part.name), getattr(fresh, part.name)
        if part.name in _PER_ROW or old is None:
            continue
        pointer = "indptr" if part.name in _PER_ENTRY else "visit_ptr"
        # scipy requires both index arrays to have one type.
        dtype = pointers["indptr"].dtype if part.name == "indices" else old.dtype
        made = arrays[part.name] = np.empty(int(pointers[pointer][-1]), dtype)
        both = getattr(record, pointer), old, getattr(fresh, pointer), new, pointers[pointer], made

        def run(span: tuple[int, int], both: tuple[np.ndarray, ...] = both) -> None:
            _splice(*span, source, *both)

        _in_parts(run, record, n_threads)
    return Record(**pointers, **arrays)


@njit(nogil=True, cache=True)
def _splice(first, last, source, old_ptr, old, new_ptr, new, ptr, out):  # type: ignore[no-untyped-def]
    """Rows first .. last - 1 of `out`: row `source` of `new`, or the row of `old` if that is -1."""
    row = first
    while row < last:
        end = row + 1
        if source[row] < 0:
            while end < last and source[end] < 0:  # long runs are copied at the speed of memory
                end += 1
            _copy(old, uint64(old_ptr[row]), uint64(old_ptr[end]), out, uint64(ptr[row]))
        else:
            fresh = source[row]
            _copy(new, uint64(new_ptr[fresh]), uint64(new_ptr[fresh + 1]), out, uint64(ptr[row]))
        row = end


@njit(nogil=True)
def _copy(array, start, stop, out, place):  # type: ignore[no-untyped-def]
    for i in range(stop - start):
        out[place + i] = array[start + i]


def _in_parts(run: Any, record: Record, n_threads: int) -> None:
    """Call `run` for ranges of rows with about equal numbers of entries, on threads."""
    for _ in ordered_map(run, row_shares(record.indptr, _RANGES * n_threads), n_threads):
        pass
