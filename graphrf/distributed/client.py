"""The Dask client: its validation, facts about its workers, and repetition after losses."""

from __future__ import annotations

import os
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import dask.config
from distributed import Client, Future, default_client, wait
from distributed.comm import CommClosedError

from graphrf._base import checks
from graphrf._base.warn import warn

Result = TypeVar("Result")

# Attempts before the loss of workers is an error.
_ATTEMPTS = 5
# Seconds before another attempt, of waiting for a worker, and between checks of waiting tasks.
_PAUSE, _PATIENCE, _SLICE = 0.2, 60, 3
# Fraction of a worker's memory that mapped files may use without a warning.
_MAPPED_FRACTION = 0.5
# Checks in a row that find all workers paused before a warning.
_SLICES = 10
_WAY_OUT = (
    "client = dask.distributed.Client() starts workers on this machine, Client('tcp://HOST:8786') "
    "joins a running scheduler"
)


class NoWorkersError(RuntimeError):
    """A scheduler without workers."""


class Worker(NamedTuple):
    """A worker process: its address, threads, and limit of memory in bytes (None: no limit)."""

    address: str
    threads: int
    memory_limit: int | None


def require_client(client: Any) -> Client:
    """`client`, or the current one if it is None; it must be connected."""
    if client is None:
        try:
            client = default_client()
        except ValueError:
            raise checks.value_error(
                "client", f"must be given, because there is no current Dask client; {_WAY_OUT}"
            ) from None

    if not isinstance(client, Client):
        raise checks.type_error(
            "client",
            f"must be a dask.distributed.Client, got {checks.describe(client)}; {_WAY_OUT}",
        )
    if client.asynchronous:
        raise checks.value_error(
            "client", "must be synchronous, got one made with asynchronous=True"
        )
    if client.status != "running":
        raise checks.value_error(
            "client", f"must be connected, got one that is {client.status}; {_WAY_OUT}"
        )
    return client


def workers(client: Client) -> list[Worker]:
    """The client's workers in the order of their names; NoWorkersError if there are none."""
    # `client.scheduler_info` may lack workers while the client is asking for other facts.
    known = client.run_on_scheduler(_known_workers)
    found = [Worker(*facts) for _, *facts in sorted(known)]
    if not found:
        raise NoWorkersError(
            f"the scheduler of `client` at {client.scheduler.address} has no workers: start some "
            "with `dask worker ADDRESS`, cluster.scale(1) or, if they are started on demand, "
            "cluster.adapt(minimum=1)"
        )
    return found


def _known_workers(dask_scheduler: Any = None) -> list[tuple[str, str, int, int | None]]:
    """Name, address, threads and limit of each worker."""
    return [
        (str(worker.name), worker.address, int(worker.nthreads), worker.memory_limit or None)
        for worker in dask_scheduler.workers.values()
    ]


def repeated(
    client: Client,
    attempt: Callable[[], Result],
    before: Callable[[], None] | None = None,
    pause: float = _PAUSE,
) -> Result:
    """The result of `attempt`, repeated if workers were lost with something that it needs.

    `before` is called before each attempt but the first. NoWorkersError if no worker returns;
    RuntimeError if the client is closed, or workers are lost repeatedly.
    """
    tried = 0
    while True:
        if client.status != "running":
            raise RuntimeError(
                "the client that these features are with is closed: draw them again with the same "
                "seed, or load them if they were saved"
            )

        try:
            if tried:
                # The scheduler learns of a death a moment later, and a nanny starts another worker.
                time.sleep(pause)
                _wait_for_a_worker(client)
                if before is not None:
                    before()
            return attempt()
        except NoWorkersError:
            tried += 1
            if tried == _ATTEMPTS:
                raise
        except (CancelledError, CommClosedError) as error:
            tried += 1
            if tried == _ATTEMPTS:
                raise RuntimeError(
                    f"workers were lost {tried} times in a row while they computed these rows, "
                    "most likely because of too little memory (see their logs): give them more, or "
                    "make blocks smaller by `block_size`"
                ) from error


def _wait_for_a_worker(client: Client) -> None:
    try:
        client.wait_for_workers(1, timeout=_PATIENCE)
    except TimeoutError:
        workers(client)  # raises
        raise


def settled(
    client: Client,
    futures: Sequence[Future[Any]],
    needed: Sequence[Future[Any]],
    *,
    all_of_them: bool = True,
    between: float = _SLICE,
) -> Any:
    """Wait until all futures, or the first of them, are done; the done ones. Every `between`
    seconds it looks whether they still can be.

    Dask never runs a task for a certain worker if there was no worker at all at one moment. Such
    tasks, of the futures or of those needed for them, are cancelled: CancelledError.

    Warns
    -----
    RuntimeWarning
        If Dask has paused all workers for half a minute.
    """
    paused = 0
    while True:
        try:
            with client.as_current():  # `wait` asks for the current client
                when = "ALL_COMPLETED" if all_of_them else "FIRST_COMPLETED"
                return wait(futures, timeout=between, return_when=when).done
        except TimeoutError:
            every = {future.key: future for future in (*needed, *futures)}
            stuck, halted = client.run_on_scheduler(_state, keys=list(every))
            paused = paused + 1 if halted else 0
            if paused == _SLICES:
                seconds = _SLICES * between
                warn(
                    f"Dask has paused all workers for {seconds:.0f} seconds, because their memory "
                    "is above what `distributed.worker.memory.pause` allows (0.8 of the "
                    "limit): give them more, release results that are not needed, or start more "
                    "workers",
                    RuntimeWarning,
                )

            if stuck:
                client.cancel([every[key] for key in stuck])
                raise CancelledError(stuck) from None


def warn_of_mapped(client: Client, nbytes: int) -> None:
    """Warn if Dask may pause or kill workers for mapping files of so many bytes."""
    limits = [worker.memory_limit for worker in workers(client) if worker.memory_limit]
    if limits and nbytes > _MAPPED_FRACTION * min(limits):
        watched = repeated(client, lambda: client.run(_is_watched))
        if any(watched.values()):
            warn(
                f"workers map {nbytes / 2**30:.3g} GiB of the graph, and Dask counts the pages "
                f"that they read as theirs, of which it allows {min(limits) / 2**30:.3g} GiB: it "
                "may pause or kill them, though the machine can drop such pages at any time. Start "
                "workers with a larger limit, or with `distributed.worker.memory.pause` and "
                "`distributed.worker.memory.terminate` set to False",
                RuntimeWarning,
            )


def _is_watched() -> bool:
    """True if Dask pauses or terminates this worker when it uses too much memory."""
    return any(
        dask.config.get(f"distributed.worker.memory.{name}", default=False)
        for name in ("pause", "terminate")
    )


def _state(keys: list[Any], dask_scheduler: Any = None) -> tuple[list[Any], bool]:
    """Tasks that wait for lost workers while others are there, and True if all are paused."""
    statuses = [worker.status.name for worker in dask_scheduler.workers.values()]
    if not statuses:
        return [], False
    halted = all(status == "paused" for status in statuses)
    known = (dask_scheduler.tasks.get(key) for key in keys)
    waiting = [task.key for task in known if task is not None and task.state == "no-worker"]
    # Dask does not count paused workers, but they come back.
    return ([] if "paused" in statuses else waiting), halted


def seen_by_all(client: Client, folder: str | os.PathLike[str]) -> bool:
    """True if every worker sees the files that this process writes into a folder."""
    token = uuid.uuid4().hex
    try:
        file = tempfile.NamedTemporaryFile(dir=folder, prefix=".graphrf-", suffix=".seen")  # noqa: SIM115
    except OSError:
        return False
    with file:
        file.write(token.encode())
        file.flush()
        return all(repeated(client, lambda: client.run(_reads, file.name, token)).values())


def _reads(path: str, token: str) -> bool:
    try:
        return Path(path).read_text(encoding="ascii") == token
    except OSError:
        return False


def arrays_folder(client: Client, folder: str | os.PathLike[str] | None) -> str | None:
    """`folder` if all workers see it (else ValueError); by default temporary files' or None."""
    if folder is None:
        usual = tempfile.gettempdir()
        return usual if seen_by_all(client, usual) else None
    path = checks.path("shared_folder", folder)
    if not seen_by_all(client, path):
        raise checks.value_error(
            "shared_folder",
            f"must be a folder that this process can write to and all workers see, got {path!r}; "
            "without one the graph is sent to each worker",
        )
    return path
