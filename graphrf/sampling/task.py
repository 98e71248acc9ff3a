"""A call of `sample_features` with valid arguments: the rows to draw, and memory needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from graphrf._base.cached import cached_property
from graphrf._base.memory import NoRoomError, available_memory, limit_words
from graphrf._base.progress import progress_bar
from graphrf.features.record import Record
from graphrf.features.sample_info import SampleInfo
from graphrf.graph.graph import Graph
from graphrf.sampling.block_sizes import block_rows
from graphrf.sampling.protocol import PreparedSampler, Sampler
from graphrf.sampling.record_builder import SPARE, draw_into, record_bytes, sample_rows

if TYPE_CHECKING:
    import torch

# Rows that estimate the size of the record, and rows that identify features.
_PILOT_ROWS = 256
_FEW_ROWS = 16
# A record below so many bytes needs no pilot.
_SMALL_BYTES = 2**24
# Memory that allocators keep free for a thread, measured with 4 and 8 threads.
_THREAD_BYTES = 3 * 2**20


@dataclass(frozen=True, eq=False)
class SamplingTask:
    """Valid arguments of a call of `sample_features`.

    `sources` are the nodes of the rows, `all_nodes` is True if none were chosen, `place` is the
    device of torch, None for compiled loops.
    """

    graph: Graph
    sampler: Sampler
    sources: np.ndarray
    all_nodes: bool
    seed: int
    dtype: np.dtype[Any]
    place: torch.device | None
    n_threads: int
    memory_limit: int | None
    progress: bool

    @cached_property
    def prepared(self) -> Any:
        """The sampler bound to the graph; allocated before room for rows is measured."""
        prepared = self.sampler.prepare(self.graph, self.seed)
        if self.place is None:
            return prepared
        from graphrf.sampling.device import OnDevice

        return OnDevice(prepared, self.place)

    @cached_property
    def info(self) -> SampleInfo:
        """Settings that all rows share."""
        return sample_info(self.prepared, self.graph.n_nodes, self.seed, self.dtype)

    @property
    def threads(self) -> int:
        """Threads that blocks are shared among; torch has its own."""
        return self.n_threads if self.place is None else 1

    @cached_property
    def limit(self) -> int | None:
        """Maximum number of bytes: `memory_limit`, else the available memory."""
        prepared = self.prepared
        if self.memory_limit is not None:
            return self.memory_limit
        if self.place is None:
            return available_memory()
        from graphrf.sampling.device import device_memory

        return device_memory(prepared.device)

    @cached_property
    def block_rows(self) -> int:
        """Rows of a block."""
        if self.place is None:
            rows = block_rows(self.sources.size, self.prepared.visits_per_row, self.threads)
        else:
            rows = self.prepared.block_rows(self.limit)
        return min(rows, self.sources.size)

    @cached_property
    def expected(self) -> tuple[int, int]:
        """Approximate entries and visits of the record; MemoryError if a pilot does not fit."""
        self.require_room(
            (0, 0), self.prepared.working_bytes(min(self.block_rows, _PILOT_ROWS)), at_least=True
        )
        return expected_size(self.prepared, self.sources, self.block_rows)

    @property
    def expected_bytes(self) -> int:
        """Approximate bytes of the record."""
        return expected_bytes(self.prepared, self.sources, self.expected)

    @property
    def working_bytes(self) -> int:
        """Memory beside the record in sampling: scratch of threads, and blocks in flight."""
        if self.place is not None:
            return int(self.prepared.working_bytes(self.block_rows))
        n_blocks = -(-self.sources.size // self.block_rows)
        # Waiting blocks are not in the record yet, so they add nothing, but the one that is copied
        # and the room that threads reserve for the next one do. Free memory of one thread is not
        # available to others.
        busy = min(self.threads, n_blocks)
        scratch = busy * self.prepared.working_bytes(1) + (busy - 1) * _THREAD_BYTES
        return int(scratch + min(self.threads + 1, n_blocks) * self.expected_bytes // n_blocks)

    def require_room(self, size: tuple[int, int], working: int, *, at_least: bool = False) -> None:
        """Raise MemoryError if such a record, or larger, and so many bytes beside, do not fit."""
        needed = needed_bytes(self.prepared, self.sources, size, working)
        if self.limit is not None and needed > self.limit:
            about = "more than" if at_least else "about"
            raise NoRoomError(
                f"features of {self.sources.size} nodes with {self.prepared.sampler!r} need "
                f"{about} {needed / 2**30:.3g} GiB, but "
                f"{limit_words(self.memory_limit, self.limit)}; {self.prepared.remedy}, pass fewer "
                "`nodes`, or use the exact series (graphrf.apply_kernel), which stores nothing"
            )

    def bar(self) -> Any:
        """The progress bar over all rows."""
        return progress_bar("features", self.progress, total=self.sources.size, unit="nodes")

    def draw_into(self, builder: Any) -> Any:
        """The record of all rows from a builder of records."""
        with self.bar() as bar:

            def after(n_rows: int) -> None:
                bar.update(n_rows)
                # The limit also holds if the record exceeds
                # its estimate by more than a pilot's error.
                if any(
                    now > SPARE * expected
                    for now, expected in zip(builder.size, self.expected, strict=True)
                ):
                    self.require_room(builder.size, self.working_bytes, at_least=True)

            draw_into(builder, self.prepared, self.sources, self.block_rows, self.threads, after)
        return builder.record()


def sample_info(
    prepared: PreparedSampler, n_nodes: int, seed: int, dtype: np.dtype[Any]
) -> SampleInfo:
    """Settings that all rows of a prepared sampler share."""
    return SampleInfo(
        n_nodes=n_nodes,
        n_walks=prepared.n_walks,
        laplacian=prepared.sampler.laplacian,
        scale=prepared.scale,
        complete=prepared.survival.is_complete,
        seed=seed,
        dtype=dtype,
        description=prepared.describe(),
        survival=prepared.survival.table,
        degrees=prepared.degrees,
        of_powers=prepared.counts_dtype == np.float32,
    )


def few_rows(prepared: PreparedSampler, sources: np.ndarray, n_nodes: int) -> Record:
    """The record of a few of the nodes, which identifies features in folders."""
    few = sources[np.linspace(0, sources.size - 1, min(sources.size, _FEW_ROWS)).astype(np.int64)]
    return sample_rows(prepared, few, n_nodes, few.size)


def expected_size(
    prepared: PreparedSampler, sources: np.ndarray, block_rows: int
) -> tuple[int, int]:
    """Entries and visits of the record, from a pilot; an upper bound for few or small rows."""
    entries, visits = (int(sources.size * most) for most in prepared.merged_per_row)
    n_pilot = min(_PILOT_ROWS, max(_FEW_ROWS, sources.size // 16))
    few = (
        sources.size < 2 * n_pilot
        or expected_bytes(prepared, sources, (entries, visits)) < _SMALL_BYTES
    )
    if few:
        return entries, visits
    # One source at random from each of n_pilot equal
    # ranges: evenly spaced ones may all be of one kind.
    ranges = np.linspace(0, sources.size, n_pilot + 1)
    places = ranges[:-1] + np.random.default_rng(0).random(n_pilot) * np.diff(ranges)
    pilot = sources[np.minimum(places.astype(np.int64), sources.size - 1)]
    factor = sources.size / pilot.size
    n_entries = n_visits = 0
    for start in range(0, pilot.size, block_rows):
        block = prepared.sample(pilot[start : start + block_rows])
        n_entries += block.indices.shape[0]
        n_visits += block.steps.shape[0]
    return int(factor * n_entries), int(factor * n_visits)


def expected_bytes(
    prepared: PreparedSampler, sources: np.ndarray, expected: tuple[int, int]
) -> int:
    """Memory of the record of the expected size."""
    record = record_bytes(sources.size, *expected, prepared.counts_dtype.itemsize)
    return record + sources.size * prepared.row_bytes


def needed_bytes(
    prepared: PreparedSampler, sources: np.ndarray, expected: tuple[int, int], working: int
) -> int:
    """Peak memory: the record of the expected size, and `working` bytes beside it."""
    return expected_bytes(prepared, sources, expected) + working
