"""Blocks on the workers of a cluster: where they are put, and how they are made again when they are lost."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from distributed import Client, Future, as_completed, wait
from distributed.comm import CommClosedError

from graphrf.distributed.blocks import each
from graphrf.distributed.client import NoWorkersError, workers
from graphrf.distributed.parcel import Parcel

Result = TypeVar("Result")

# A task works on blocks of up to this part of its worker's memory.
_GROUP_SHARE = 4
# How often what was lost with workers is sent anew before their loss is an error.
_ATTEMPTS = 5
# Seconds before that, and for which a worker is waited for.
_PAUSE, _PATIENCE = 0.2, 60


class Group(NamedTuple):
    """Blocks that one worker holds, by number, in order: what one task works on."""

    address: str
    numbers: list[int]


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

    def groups(self) -> list[Group]:
        """The blocks by the worker that holds them, at most a quarter of its memory together.

        Dask may have written blocks to disk, from where those of a group come back all at once.
        """
        futures = self.futures
        there = workers(self.client)
        with self.client.as_current():  # `wait` asks for the current client
            wait(futures)  # what was lost with a worker is made again first, where it is then to stay
        keys = [future.key for future in futures]
        where, sizes = self.client.who_has(futures), self._nbytes(keys)
        limits = {worker.address: worker.memory_limit for worker in there}
        groups: list[Group] = []
        of_worker: dict[str, tuple[Group, int]] = {}
        for number, key in enumerate(keys):
            holders = where.get(key) or (next(iter(limits)),)
            address = next((holder for holder in holders if holder in of_worker), holders[0])
            group, held = of_worker.get(address, (None, 0))
            size = sizes.get(key, 0)
            if group is None or held + size > (limits.get(address) or 2**62) // _GROUP_SHARE:
                group, held = Group(address, []), 0
                groups.append(group)
            group.numbers.append(number)
            of_worker[address] = group, held + size
        return groups

    @cached_property
    def _sizes(self) -> dict[Any, int]:
        """Bytes of blocks by the keys of their futures, as far as they were asked for."""
        return {}

    def _nbytes(self, keys: Sequence[Any]) -> dict[Any, int]:
        unknown = [key for key in keys if key not in self._sizes]
        if unknown:
            self._sizes.update(self.client.nbytes(unknown, summary=False))
        return self._sizes

    def submitted(
        self, function: Callable[..., Any], groups: Sequence[Group], parts: Sequence[Any] = (), **shared: Any
    ) -> list[Future]:
        """A future for each group: `function` of its blocks, their numbers, its part (None without any)."""
        futures = self.futures
        return [
            self.client.submit(
                function, [futures[number] for number in group.numbers], group.numbers, part,
                workers=[group.address], allow_other_workers=True, pure=False, **shared,
            )
            for group, part in zip(groups, parts or [None] * len(groups), strict=True)
        ]  # fmt: skip

    def gathered(
        self, function: Callable[..., Any], parts: Sequence[Any] | None = None, **shared: Any
    ) -> list[Any]:
        """`function(block, **shared)` of every block, or `function(block, part, **shared)`, here."""

        def attempt() -> list[Any]:
            groups = self.groups()
            some = [] if parts is None else [[parts[number] for number in group.numbers] for group in groups]
            there = self.sent(groups, some) if some else []
            futures = self.submitted(each, groups, there, of_block=function, **shared)
            results: list[Any] = [None] * len(self)
            for group, found in zip(groups, self.client.gather(futures), strict=True):
                for number, result in zip(group.numbers, found, strict=True):
                    results[number] = result
            return results

        return self.repeated(attempt)

    def sent(self, groups: Sequence[Group], parts: Sequence[Any]) -> list[Future]:
        """A future of each part, on the worker of its group."""

        async def send() -> list[Future]:
            each = (  # in a list of its own: `scatter` takes a list for many parts
                self.client.scatter([part], workers=[group.address], hash=False, asynchronous=True)
                for group, part in zip(groups, parts, strict=True)
            )
            return [future for (future,) in await asyncio.gather(*each)]

        found: list[Future] = self.client.sync(send)
        return found

    def repeated(self, attempt: Callable[[], Result]) -> Result:
        """The result of `attempt`, made again where something that it had sent was lost with a worker."""
        tried = 0
        while True:
            try:
                if tried:
                    # A scheduler learns of a death a moment later, and a nanny starts another worker.
                    time.sleep(_PAUSE)
                    self.client.wait_for_workers(1, timeout=_PATIENCE)
                    self.revive()
                return attempt()
            except (CancelledError, CommClosedError, NoWorkersError):
                tried += 1
                if tried == _ATTEMPTS or self.client.status != "running":
                    raise

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
        """Wait until all blocks are there, with a bar of what they hold.

        An error of one of them is raised; it, or an interrupt, cancels what has not begun.
        """
        from tqdm import tqdm

        done: set[int] = set()

        def attempt() -> None:
            numbers = {future.key: number for number, future in enumerate(self._futures) if number not in done}
            left = [self._futures[number] for number in numbers.values()]
            for future in as_completed(left, loop=self.client.loop):  # else it asks for the current client
                if future.status != "finished":
                    future.result()  # raises
                done.add(numbers[future.key])
                bar.update(sizes[numbers[future.key]])

        try:
            with tqdm(total=sum(sizes), disable=not progress, desc=what, unit=f" {unit}", unit_scale=True) as bar:
                self.repeated(attempt)
        except BaseException:
            self.client.cancel(self._futures)
            raise

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
