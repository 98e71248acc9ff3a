"""Clusters of two processes on this machine."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import dask
import pytest
from distributed import Client, LocalCluster

from graphrf.distributed import parcel, sampling


@pytest.fixture(scope="session")
def cluster_client() -> Iterator[Client]:
    """A client of two workers of one thread each, in processes of their own; not the current client."""
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        client.wait_for_workers(2)
        yield client


@pytest.fixture(scope="session")
def _mortal() -> Iterator[Client]:
    # Some time after a death a cluster looks whether a worker of that name is there, and else gives the name up,
    # though its next one may have been killed this moment.
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1h"}),
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture
def mortal_client(_mortal: Client) -> Client:
    """A client of two workers that may be killed: a nanny starts others, but not always at once."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            _mortal.wait_for_workers(2, timeout=30)
            if len(_mortal.run(os.getpid)) == 2:  # those of which the scheduler knows are alive
                return _mortal
        except OSError:
            time.sleep(0.1)
    pytest.fail("workers that were killed do not come back")


@pytest.fixture(params=["mapped", "sent"])
def way(request, monkeypatch):
    """How all arrays reach workers: by files, or through the client."""
    monkeypatch.setattr(parcel, "_LARGE", 1)
    if request.param == "sent":
        monkeypatch.setattr(parcel, "_LIGHT", 0)
        monkeypatch.setattr(sampling, "arrays_folder", lambda client, folder: None)
    return request.param
