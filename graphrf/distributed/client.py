"""The Dask client: its check at the door, what its workers are, and a bar for what they finish."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from graphrf import _checks

try:
    from distributed import Client, Future, as_completed, default_client
except ImportError as error:
    raise ImportError(
        "graphrf.distributed needs Dask, which is not installed: pip install 'graphrf[distributed]'"
    ) from error

_WAY_OUT = (
    "client = dask.distributed.Client() starts workers on this machine, Client('tcp://HOST:8786') joins a "
    "running scheduler"
)


class NoWorkersError(RuntimeError):
    """A scheduler without workers."""


class Worker(NamedTuple):
    """A worker process: where it is, its threads, and the bytes it may take (None: no limit)."""

    address: str
    threads: int
    memory_limit: int | None


def require_client(client: Any) -> Client:
    """`client`, or the current one if it is None; it must be connected and have a worker."""
    if client is None:
        try:
            client = default_client()
        except ValueError:
            raise ValueError(
                f"`client` must be given, because there is no current Dask client; {_WAY_OUT}"
            ) from None
    if not isinstance(client, Client):
        raise TypeError(f"`client` must be a dask.distributed.Client, got {_checks.describe(client)}; {_WAY_OUT}")
    if client.asynchronous:
        raise ValueError("`client` must be synchronous, got one made with asynchronous=True")
    if client.status != "running":
        raise ValueError(f"`client` must be connected, got one that is {client.status}; {_WAY_OUT}")
    return client


def workers(client: Client) -> list[Worker]:
    """The client's workers in the order of their names; NoWorkersError if there are none."""
    try:
        known = client.scheduler_info(n_workers=-1)["workers"]
    except TypeError:  # before Dask 2025 all of them came without asking
        known = client.scheduler_info()["workers"]
    found = [
        Worker(address, int(facts["nthreads"]), facts["memory_limit"] or None)
        for address, facts in sorted(known.items(), key=lambda item: str(item[1].get("name", item[0])))
    ]
    if not found:
        raise NoWorkersError(
            f"the scheduler of `client` at {client.scheduler.address} has no workers: start some with "
            "`dask worker ADDRESS`, or wait for them with client.wait_for_workers(1)"
        )
    return found


def seen_by_all(client: Client, folder: str | os.PathLike[str]) -> bool:
    """Whether every worker sees what this process writes into a folder."""
    token = uuid.uuid4().hex
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".graphrf-", suffix=".seen") as file:
            file.write(token.encode())
            file.flush()
            return all(client.run(_reads, file.name, token).values())
    except OSError:
        return False


def _reads(path: str, token: str) -> bool:
    try:
        return Path(path).read_text(encoding="ascii") == token
    except OSError:
        return False


def arrays_folder(client: Client, folder: str | os.PathLike[str] | None) -> str | None:
    """A folder that all workers see: the given one, else that of temporary files, else None.

    ValueError if they do not see the given one.
    """
    if folder is None:
        usual = tempfile.gettempdir()
        return usual if seen_by_all(client, usual) else None
    path = _checks.path("shared_folder", folder)
    if not seen_by_all(client, path):
        raise ValueError(
            f"`shared_folder` must be a folder that this process can write to and all workers see, got {path!r}; "
            "without one the graph is sent to each worker"
        )
    return path


@contextmanager
def cancelled_on_error(client: Client, futures: Sequence[Future]) -> Iterator[None]:
    """An error or an interrupt within the block cancels what has not begun."""
    try:
        yield
    except BaseException:
        client.cancel(list(futures))
        raise


def finish(
    client: Client, futures: Sequence[Future], sizes: Sequence[int], *, progress: bool, what: str, unit: str
) -> None:
    """Wait for all futures, with a bar of what they hold; an error of one of them is raised."""
    from tqdm import tqdm

    size_of = dict(zip((future.key for future in futures), sizes, strict=True))
    with (
        cancelled_on_error(client, futures),
        tqdm(total=sum(sizes), disable=not progress, desc=what, unit=f" {unit}", unit_scale=True) as bar,
    ):
        for future in as_completed(futures, loop=client.loop):  # else it asks for the current client
            if future.status != "finished":
                future.result()  # raises
            bar.update(size_of[future.key])
