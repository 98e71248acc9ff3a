"""Blocks on the workers of a cluster: where they are put, and how they are made again if lost."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from typing import Any, TypeVar

import numpy as np
from distributed import Client, Future

from graphrf._base.cached import cached_property
from graphrf._base.progress import progress_bar
from graphrf.distributed.blocks import BlockGroup, each
from graphrf.distributed.client import Worker, repeated, settled, workers
from graphrf.distributed.shared_object import SharedObject

Result = TypeVar("Result")

# A task works on blocks of up to this part of its worker's memory.
_GROUP_SHARE = 4


class Blocks(ABC):
    """Futures of blocks, and what is done with them."""

    client: Client

    @property
    @abstractmethod
    def futures(self) -> list[Future[Any]]:
        """A future of each block."""

    @abstractmethod
    def revive(self) -> None:
        """Resubmit tasks that Dask cannot repeat because all workers with their inputs are gone."""

    def __len__(self) -> int:
        return len(self.futures)

    def __reduce__(self) -> Any:
        raise TypeError(
            "rows on the workers of a cluster are with one client and cannot be pickled: use "
            "`save(path)` of their features, and load_features(path)"
        )

    @property
    def needed(self) -> list[Future[Any]]:
        """The futures of all blocks that these are made from, and their own."""
        return self.futures

    def groups(self) -> list[BlockGroup]:
        """The blocks by worker, those under way together at most a quarter of its memory.

        Dask may have written blocks to disk, from where those of a group come back all at once.
        """
        futures = self.futures
        there = {worker.address: worker for worker in workers(self.client)}
        # What was lost is made again, and stays where it is made.
        settled(self.client, futures, self.needed)
        keys = [future.key for future in futures]
        where, sizes = self.client.who_has(futures), self._nbytes(keys)

        of_worker: dict[str, list[int]] = {}
        for number, key in enumerate(keys):
            holders = where.get(key) or [next(iter(there))]
            address = next((holder for holder in holders if holder in of_worker), holders[0])
            of_worker.setdefault(address, []).append(number)

        groups = []
        for address, numbers in of_worker.items():
            worker = there.get(address, Worker(address, 1, None))
            most = (worker.memory_limit or 2**62) / (_GROUP_SHARE * worker.threads)
            together: list[list[int]] = [[]]
            held = 0
            for number in numbers:
                held += sizes.get(keys[number], 0)
                if held > most and together[-1]:
                    together.append([])
                    held = sizes.get(keys[number], 0)
                together[-1].append(number)
            threads = max(1, worker.threads // len(together))
            groups += [BlockGroup(address, some, threads) for some in together]
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
        self,
        function: Callable[..., Any],
        groups: Sequence[BlockGroup],
        parts: Sequence[Any] = (),
        **shared: Any,
    ) -> list[Future[Any]]:
        """A future for each group: `function(group, blocks, part, **shared)`; part may be None."""
        futures = self.futures
        return [
            self.client.submit(
                function,
                group,
                [futures[number] for number in group.numbers],
                part,
                workers=[group.address],
                allow_other_workers=True,
                pure=False,
                **shared,
            )
            for group, part in zip(groups, parts or [None] * len(groups), strict=True)
        ]

    def gathered(
        self, function: Callable[..., Any], parts: Sequence[Any] | None = None, **shared: Any
    ) -> list[Any]:
        """`function(block, **shared)` of every block, or `function(block, part, **shared)`."""
        return self.repeated(lambda: self.gathered_once(function, parts, **shared))

    def gathered_once(
        self, function: Callable[..., Any], parts: Sequence[Any] | None = None, **shared: Any
    ) -> list[Any]:
        """`gathered` within `repeated`: what is shared may be futures, which can be lost, too."""
        groups = self.groups()
        if parts is None:
            some = []
        else:
            some = [[parts[number] for number in group.numbers] for group in groups]
        there = self.sent(groups, some) if some else []
        futures = self.submitted(each, groups, there, of_block=function, **shared)
        results: list[Any] = [None] * len(self)
        for group, found in zip(groups, self.results(futures), strict=True):
            for number, result in zip(group.numbers, found, strict=True):
                results[number] = result
        return results

    def sent(self, groups: Sequence[BlockGroup], parts: Sequence[Any]) -> list[Future[Any]]:
        """A future of each part, on the worker of its group."""

        async def send() -> list[Future[Any]]:
            each = (  # in a list of its own: `scatter` takes a list for many parts
                self.client.scatter([part], workers=[group.address], hash=False, asynchronous=True)
                for group, part in zip(groups, parts, strict=True)
            )
            try:
                return [future for (future,) in await asyncio.gather(*each)]
            except KeyError as error:
                # The scheduler raises this for a worker that has just died.
                if error.args[:1] and error.args[0] in {group.address for group in groups}:
                    raise CancelledError(f"the worker {error.args[0]} was lost") from error
                raise

        found: list[Future[Any]] = self.client.sync(send)
        return found

    def results(self, futures: Sequence[Future[Any]]) -> list[Any]:
        """The results of futures that these blocks are needed for."""
        settled(self.client, futures, self.needed)
        return list(self.client.gather(list(futures)))

    def repeated(self, attempt: Callable[[], Result]) -> Result:
        """The result of `attempt`, repeated where something it had sent was lost with a worker."""
        return repeated(self.client, attempt, self.revive)

    def some(self, numbers: Sequence[int]) -> Blocks:
        """Some of the blocks."""
        return _Some(self, numbers)


class MadeBlocks(Blocks):
    """Blocks made by a task each, from one element of each of `parts` and what all share by name.

    Neighbours are put on one worker, and on each worker as many as its threads are among all: a
    wish, not an order, so a task goes elsewhere when its worker is gone. Dask makes blocks again
    that were lost with a worker, as long as their parts are somewhere.
    """

    def __init__(
        self,
        client: Client,
        function: Callable[..., Any],
        *parts: Sequence[Any] | Blocks,
        **shared: SharedObject,
    ) -> None:
        self.client = client
        self._function = function
        self._parts = parts
        self._shared = shared
        self._futures: list[Future[Any]] = []
        self._futures = self.repeated(lambda: self._submitted(range(len(parts[0]))))

    @property
    def futures(self) -> list[Future[Any]]:
        return self._futures

    def wait(self, sizes: Sequence[int], *, progress: bool, what: str, unit: str) -> None:
        """Wait until all blocks are there, with a bar of what they hold.

        An error in a task is raised; an error or an interrupt cancels tasks that have not started.
        """
        done: set[int] = set()

        def attempt() -> None:
            left = {
                future.key: number
                for number, future in enumerate(self._futures)
                if number not in done
            }
            while left:
                waiting = [self._futures[number] for number in left.values()]
                for future in settled(self.client, waiting, self.needed, all_of_them=False):
                    if future.status != "finished":
                        future.result()  # raises
                    number = left.pop(future.key)
                    done.add(number)
                    bar.update(sizes[number])

        try:
            with progress_bar(what, progress, total=sum(sizes), unit=unit) as bar:
                self.repeated(attempt)
        except BaseException:
            self.client.cancel(self._futures)
            raise

    @property
    def needed(self) -> list[Future[Any]]:
        parts = [part for part in self._parts if isinstance(part, Blocks)]
        return [*(future for part in parts for future in part.needed), *self._futures]

    def revive(self) -> None:
        for part in self._parts:
            if isinstance(part, Blocks):
                part.revive()
        lost = [
            number
            for number, future in enumerate(self._futures)
            if future.status in ("cancelled", "lost")
        ]
        if lost:
            for number, future in zip(lost, self._submitted(lost), strict=True):
                self._futures[number] = future

    def _submitted(self, numbers: Sequence[int]) -> list[Future[Any]]:
        shared: dict[str, Any] = {
            name: each.delivered(self.client) for name, each in self._shared.items()
        }
        parts = [part.futures if isinstance(part, Blocks) else part for part in self._parts]
        there = workers(self.client)
        ends = np.cumsum([worker.threads for worker in there])
        bounds = [0, *(len(numbers) * ends // ends[-1]).tolist()]
        futures: list[Future[Any]] = []
        for worker, first, last in zip(there, bounds[:-1], bounds[1:], strict=True):
            if first < last:
                some = numbers[first:last]
                futures += self.client.map(
                    self._function,
                    *([part[number] for number in some] for part in parts),
                    workers=[worker.address],
                    allow_other_workers=True,
                    pure=False,
                    **shared,
                )
        return futures


class _Some(Blocks):
    """Some of other blocks."""

    def __init__(self, source: Blocks, numbers: Sequence[int]) -> None:
        self.client = source.client
        self._source = source
        self._numbers = numbers

    @property
    def needed(self) -> list[Future[Any]]:
        return self._source.needed

    @property
    def futures(self) -> list[Future[Any]]:
        """Futures of these blocks, taken from the source at each access."""
        return [self._source.futures[number] for number in self._numbers]

    def revive(self) -> None:
        self._source.revive()
