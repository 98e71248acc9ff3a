"""Blocks on the workers of a cluster: where they are put, and how they are made again when they are lost."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from typing import Any, TypeVar

import numpy as np
from distributed import Client, Future
from distributed.comm import CommClosedError

from graphrf.distributed.client import finish, workers
from graphrf.distributed.parcel import Parcel

Result = TypeVar("Result")

# Parts of a sum that are added up in one task.
_FAN_IN = 4
# How often what was lost with workers is sent anew before their loss is an error.
_ATTEMPTS = 5
# Seconds before that, and for which a worker is waited for.
_PAUSE, _PATIENCE = 0.2, 60


class Blocks(ABC):
    """Futures of blocks, and what is done with them."""

    client: Client

    @property
    @abstractmethod
    def futures(self) -> list[Future]:
        """A future of each block."""

    @abstractmethod
    def revive(self) -> None:
        """Submit anew what Dask cannot make again, because all workers that had its parts are gone."""

    def __len__(self) -> int:
        return len(self.futures)

    def map(self, function: Callable[..., Any], *parts: Sequence[Any], **shared: Any) -> list[Future]:
        """A future of `function` for each block and its parts."""
        return list(self.client.map(function, self.futures, *parts, pure=False, **shared))

    def gathered(self, function: Callable[..., Any], *parts: Sequence[Any], **shared: Any) -> list[Any]:
        """The results of `map`, here."""
        return self.repeated(lambda: list(self.client.gather(self.map(function, *parts, **shared))))

    def repeated(self, attempt: Callable[[], Result]) -> Result:
        """The result of `attempt`, made again where something that it had sent was lost with a worker."""
        for left in reversed(range(_ATTEMPTS)):
            try:
                return attempt()
            except (CancelledError, CommClosedError):
                if not left or self.client.status != "running":
                    raise
                # A scheduler learns of a death a moment later, and a nanny starts another worker.
                time.sleep(_PAUSE)
                self.client.wait_for_workers(1, timeout=_PATIENCE)
                self.revive()
        raise AssertionError  # the last attempt returns or raises

    def some(self, numbers: Sequence[int]) -> Blocks:
        """Some of the blocks."""
        return _Some(self, numbers)


class MadeBlocks(Blocks):
    """Blocks that are each made by one task, from their parts and from what all share.

    Neighbours are put on one worker, and on each worker as many as its threads are among all: a wish, not an
    order, so a task goes elsewhere when its worker is gone. Dask makes blocks again that were lost with a worker,
    as long as their parts are somewhere.

    Parameters
    ----------
    client : Client
    function : callable
        From one element of each of the parts, and what is shared by name, to a block.
    *parts : sequences, or Blocks, of equal length
    **shared : Parcel
    """

    def __init__(
        self, client: Client, function: Callable[..., Any], *parts: Sequence[Any] | Blocks, **shared: Parcel
    ) -> None:
        self.client = client
        self._function = function
        self._parts = parts
        self._shared = shared
        self._futures = self._submitted(range(len(parts[0])))

    @property
    def futures(self) -> list[Future]:
        """A future of each block."""
        return self._futures

    def wait(self, sizes: Sequence[int], *, progress: bool, what: str, unit: str) -> None:
        """Wait until all blocks are there, with a bar of what they hold."""
        finish(self.client, self._futures, sizes, progress=progress, what=what, unit=unit)

    def revive(self) -> None:
        """Submit anew what Dask cannot make again."""
        for part in self._parts:
            if isinstance(part, Blocks):
                part.revive()
        lost = [number for number, future in enumerate(self._futures) if future.status in ("cancelled", "lost")]
        if lost:
            for number, future in zip(lost, self._submitted(lost), strict=True):
                self._futures[number] = future

    def _submitted(self, numbers: Sequence[int]) -> list[Future]:
        shared: dict[str, Any] = {name: parcel.delivered(self.client) for name, parcel in self._shared.items()}
        parts = [part.futures if isinstance(part, Blocks) else part for part in self._parts]
        there = workers(self.client)
        ends = np.cumsum([worker.threads for worker in there])
        bounds = [0, *(len(numbers) * ends // ends[-1]).tolist()]
        futures: list[Future] = []
        for worker, first, last in zip(there, bounds[:-1], bounds[1:], strict=True):
            if first < last:
                some = numbers[first:last]
                futures += self.client.map(
                    self._function, *([part[number] for number in some] for part in parts),
                    workers=[worker.address], allow_other_workers=True, pure=False, **shared,
                )  # fmt: skip
        return futures


class _Some(Blocks):
    """Some of other blocks."""

    def __init__(self, source: Blocks, numbers: Sequence[int]) -> None:
        self.client = source.client
        self._source = source
        self._numbers = numbers

    @property
    def futures(self) -> list[Future]:
        """As the source has them now."""
        return [self._source.futures[number] for number in self._numbers]

    def revive(self) -> None:
        """Submit anew what Dask cannot make again."""
        self._source.revive()


def added(client: Client, total: Callable[[list[Any]], Any], parts: list[Future]) -> Future:
    """A future of the sum of all parts, neighbours first: the same additions whatever the workers."""
    while len(parts) > 1:
        groups = [parts[first : first + _FAN_IN] for first in range(0, len(parts), _FAN_IN)]
        parts = [group[0] if len(group) == 1 else client.submit(total, group, pure=False) for group in groups]
    return parts[0]
