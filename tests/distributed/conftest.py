"""Clusters of two processes on this machine."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator
from functools import partial

import dask
import numpy as np
import pytest
from distributed import Client, LocalCluster

import graphrf as grf
from graphrf.distributed import sampling
from graphrf.distributed.shared_object import SharedObject, SharingCosts
from graphrf.pagerank import local_pagerank
from tests.distributed.helpers import weighted

# Workers live as long as the session; idle ones took
# a twelfth of a core each to look what they are at.
QUIET = {
    "distributed.worker.profile.enabled": False,
    "distributed.worker.memory.monitor-interval": "1s",
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.admin.system-monitor.gil.enabled": False,
}


@pytest.fixture(scope="session")
def _compiled() -> None:
    """What workers run is compiled once, here: they find it in numba's cache."""
    graph, y = weighted(), np.ones(90)
    f = grf.Diffusion(1.0).modulation(5)
    for sampler in (grf.RandomWalks(4), grf.sampling.CutPowers(4, 4), grf.CompressedPowers(4, 4)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", grf.features.TruncationWarning)
            features = grf.sample_features(graph, sampler, seed=0)
            features.matrix(grf.Diffusion(1.0))
        factor = features.factor()
        factor.gram_apply(f, y)
        factor.grad_f(y, y)
        factor.diagonal(f)
    for settings in (
        {"seed": 0},
        {"seed": 0, "k": 2},
        {"max_residual": 1e-3},
        {"max_residual": 1e-3, "k": 2},
    ):
        local_pagerank(graph, [0, 1], **settings)


@pytest.fixture(scope="session")
def cluster_client(_compiled: None) -> Iterator[Client]:
    """A client of two workers of one thread, in processes of their own; not the current one."""
    with (
        dask.config.set(QUIET),
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        client.wait_for_workers(2)
        yield client


@pytest.fixture(scope="module")
def _mortal(_compiled: None) -> Iterator[Client]:
    # Some time after a death a cluster looks whether a worker of that name is there, and else gives
    # the name up, though its next one may have been killed this moment.
    with (
        dask.config.set({**QUIET, "distributed.deploy.lost-worker-timeout": "1h"}),
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            silence_logs=50,
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
    costs = SharingCosts(large=1)
    if request.param == "sent":
        costs = SharingCosts(large=1, light=0)
        monkeypatch.setattr(sampling, "arrays_folder", lambda client, folder: None)
    monkeypatch.setattr(sampling, "SharedObject", partial(SharedObject, costs=costs))
    return request.param
