"""The Dask client: its check at the door, what its workers are, and a bar for what they finish."""

from __future__ import annotations

import os
import tempfile
import uuid
from pathlib import Path
from typing import Any, NamedTuple

from graphrf import _checks

try:
    from distributed import Client, default_client
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
