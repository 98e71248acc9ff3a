"""Files of features: settings and arrays, written atomically, and validated when they are read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from graphrf._base import checks
from graphrf._base.files.arrays import complete_file, read_record, write_record
from graphrf._base.files.json_text import is_integer, is_number
from graphrf.features.record import Record
from graphrf.features.rows import row_blocks
from graphrf.features.sample_info import SampleInfo

_FORMAT = "graphrf features 1"
# The arrays of a file in this order; those that are None in `Record` or `SampleInfo` are absent.
ARRAYS = (
    *("nodes", "indptr", "indices", "visit_ptr", "visits_per_entry", "steps", "counts"),
    *("survival", "degrees", "work", "dropped"),
)
_OPTIONAL = ("degrees", "work", "dropped")
# Largest value before the modulation, whose square float32 holds.
# Sampled features stay far below it: a walk moves from i to v with
# a probability of at most d_v / d_i, and reaches step k with S(k).
_LARGEST_VALUE = 1e18
_SETTINGS = ("n_nodes", "n_walks", "laplacian", "scale", "complete", "seed", "dtype", "description")


def write_features(
    path: str | os.PathLike[str], info: SampleInfo, nodes: np.ndarray, record: Record
) -> None:
    """Write features as an .npz file."""
    arrays = named_arrays(info, nodes, record)
    write_record(path, {"format": _FORMAT, **settings_of(info)}, arrays)


def read_features(path: str | os.PathLike[str]) -> tuple[SampleInfo, np.ndarray, Record]:
    """Read the parts of `Features` from a file; FileNotFoundError or ValueError if that fails."""
    path = checks.path("path", path)
    with complete_file(path, "Features.save"):
        settings, stored = read_record(path, _FORMAT)
        if set(settings) != {"format", *_SETTINGS} or set(stored) - set(ARRAYS):
            raise ValueError("its contents are not those of features")
        arrays = {name: stored[name] for name in ARRAYS if name not in _OPTIONAL or name in stored}
        info = sample_info(
            settings, arrays.pop("survival"), arrays.pop("degrees", None), "work" in arrays
        )
        nodes = arrays.pop("nodes")
        record = Record(**arrays)
        if not fits(info, nodes, record):
            raise ValueError("its arrays are inconsistent")
        return info, nodes, record


def settings_of(info: SampleInfo) -> dict[str, Any]:
    """The settings in types that JSON knows."""
    return {name: getattr(info, name) for name in _SETTINGS} | {"dtype": info.dtype.name}


def sample_info(
    settings: Mapping[str, Any], survival: np.ndarray, degrees: np.ndarray | None, of_powers: bool
) -> SampleInfo:
    """`SampleInfo` of settings from a file; `fits` checks the values."""
    known = {name: settings[name] for name in _SETTINGS}
    known |= {"dtype": np.dtype(checks.choice("dtype", known["dtype"], ("float32", "float64")))}
    return SampleInfo(**known, survival=survival, degrees=degrees, of_powers=of_powers)


def named_arrays(info: SampleInfo, nodes: np.ndarray, record: Record) -> dict[str, np.ndarray]:
    """The arrays of features that are not None, by name, in the order of files."""
    known = {"nodes": nodes, "survival": info.survival, "degrees": info.degrees, **record.arrays()}
    return {name: array for name in ARRAYS if (array := known.get(name)) is not None}


def fits(info: SampleInfo, nodes: np.ndarray, record: Record) -> bool:
    """True if settings and arrays are valid: types are right, and no index is out of bounds.

    ValueError if only magnitudes are wrong: degrees, counts and survival whose values would
    overflow.
    """
    return (
        _are_settings(info)
        and _are_shaped(info, nodes, record)
        and _are_values(info, nodes, record)
    )


def _are_settings(info: SampleInfo) -> bool:
    return (
        is_integer(info.n_nodes, low=1, high=2**32 - 1)
        and is_integer(info.n_walks, low=1, high=1 if info.of_powers else 65_535)
        and is_integer(info.seed, low=0, high=2**63 - 1)
        and is_number(info.scale, low=np.nextafter(0.0, 1.0), high=np.finfo(np.float64).max)
        and isinstance(info.complete, bool)
        and isinstance(info.description, dict)
        and info.dtype in (np.dtype(np.float32), np.dtype(np.float64))
        and (
            info.laplacian == "combinatorial"
            or (info.laplacian == "normalized" and info.scale == 1)
        )
    )


def _are_shaped(info: SampleInfo, nodes: np.ndarray, record: Record) -> bool:
    """True if required arrays are there, with the types of compiled loops and matching lengths."""
    named = named_arrays(info, nodes, record)
    n, indptr, work = nodes.size, record.indptr, record.work
    n_entries, n_visits, length = record.indices.size, record.steps.size, info.survival.size
    narrow = indptr.dtype == np.int32 and max(info.n_nodes - 1, n_entries) < 2**31
    wanted = {
        "nodes": (np.int64, (n,)),
        "indptr": (np.int32 if narrow else np.int64, (n + 1,)),
        "indices": (indptr.dtype, (n_entries,)),
        "visit_ptr": (np.int32 if record.visit_ptr.dtype == np.int32 else np.int64, (n + 1,)),
        "visits_per_entry": (np.uint16, (n_entries,)),
        "steps": (np.uint16, (n_visits,)),
        "counts": (info.counts_dtype, (n_visits,)),
        "survival": (np.float64, (length,)),
        "degrees": (np.float64, (info.n_nodes,)),
        "work": (np.int64, (n,)),
        "dropped": (np.float32, (n, length)),
    }
    return (
        all(
            array.flags.c_contiguous and (array.dtype, array.shape) == wanted[name]
            for name, array in named.items()
        )
        and 1 <= length <= 65_535
        and (info.degrees is None) == (info.laplacian == "combinatorial")
        and (work is not None) == info.of_powers
        and (record.dropped is None or work is not None)
    )


def _are_values(info: SampleInfo, nodes: np.ndarray, record: Record) -> bool:
    """True if arrays of matching lengths hold valid values; checked in blocks, to save memory."""
    indptr, visit_ptr, work = record.indptr, record.visit_ptr, record.work
    survival = info.survival
    return (
        _within(nodes, info.n_nodes)
        and _are_pointers(indptr, record.indices.size)
        and _are_pointers(visit_ptr, record.steps.size)
        and survival[0] == 1
        and bool((np.diff(survival) <= 0).all() and survival[-1] >= 2.0**-53)
        and (info.degrees is None or _above(info.degrees, np.nextafter(0.0, 1.0)))
        and (work is None or (_within(work, 2**62 // max(nodes.size, 1)) and survival[-1] == 1))
        and (record.dropped is None or _above(record.dropped, 0.0))
        and all(_is_block(info, nodes, record, *rows) for rows in row_blocks(indptr))
    )


def _is_block(info: SampleInfo, nodes: np.ndarray, record: Record, first: int, last: int) -> bool:
    """True if entries and visits of rows first .. last - 1 are valid; else ValueError."""
    indptr, visit_ptr = record.indptr, record.visit_ptr
    entries, visits = (slice(int(ends[first]), int(ends[last])) for ends in (indptr, visit_ptr))
    columns, sizes = record.indices[entries], record.visits_per_entry[entries]
    # The ends of each entry's visits; rows and entries must agree on their number.
    ends = visits.start + np.cumsum(sizes, dtype=np.int64)
    borders = indptr[first : last + 1] - indptr[first]
    if not np.array_equal(
        np.concatenate([[visits.start], ends])[borders], visit_ptr[first : last + 1]
    ):
        return False
    steps, counts = record.steps[visits], record.counts[visits]
    if not (
        _ascend(columns, borders, info.n_nodes)
        and _ascend(steps, ends - visits.start, info.survival.size)
        and _are_counts(info, steps, counts, last - first)
    ):
        return False
    root, walkers = info.degree_roots, info.walkers
    widest = float(root.max() / root.min()) if root.size else 1.0
    bound = widest * float(counts.max(initial=0)) / walkers[steps.max(initial=0)]
    if bound > _LARGEST_VALUE:  # seldom, and then the values themselves are checked
        values = counts / walkers[steps]
        if root.size:
            ratio = np.repeat(root[nodes[first:last]], np.diff(borders)) / root[columns]
            values *= np.repeat(ratio, sizes)
        bound = float(values.max())
    if bound > _LARGEST_VALUE:
        raise ValueError(
            f"its degrees, counts and survival must give values of at most {_LARGEST_VALUE:g}, "
            f"whose squares float32 holds, got {bound:.3g}"
        )
    return True


def _ascend(values: np.ndarray, starts: np.ndarray, end: int) -> bool:
    """True if values are in [0, end) and ascend strictly between the `starts` of runs."""
    begins = np.zeros(values.size + 1, dtype=bool)
    begins[starts] = True
    return _within(values, end) and bool((begins[1:-1] | (values[1:] > values[:-1])).all())


def _are_counts(info: SampleInfo, steps: np.ndarray, counts: np.ndarray, n_rows: int) -> bool:
    """True if powers are finite and not negative, and all walks of every row start at step 0."""
    if info.of_powers:
        return _above(counts, 0.0)
    started = int(counts[steps == 0].sum(dtype=np.int64))
    return int(counts.max(initial=0)) <= info.n_walks and started == info.n_walks * n_rows


def _are_pointers(pointer: np.ndarray, size: int) -> bool:
    return (
        int(pointer[0]) == 0
        and int(pointer[-1]) == size
        and bool((pointer[1:] >= pointer[:-1]).all())
    )


def _within(array: np.ndarray, end: int) -> bool:
    return array.size == 0 or (int(array.min()) >= 0 and int(array.max()) < end)


def _above(array: np.ndarray, low: float) -> bool:
    """True if all numbers are finite, and at least `low`."""
    return array.size == 0 or (float(array.min()) >= low and float(array.max()) < np.inf)
