"""What is with a client, and what is said when the client or its workers go."""

from __future__ import annotations

import asyncio
import copy
import pickle
from concurrent.futures import CancelledError

import numpy as np
import pytest
from distributed import Client
from distributed.comm import CommClosedError

import graphrf as grf
from graphrf.distributed import client as clients
from graphrf.distributed import sample_features
from tests.distributed.helpers import weighted

GRAPH = weighted()
KERNEL = grf.Diffusion(1.0)


@pytest.fixture(scope="module")
def features(cluster_client):
    return sample_features(GRAPH, grf.RandomWalks(4), client=cluster_client, seed=3, block_size=40)


def test_features_are_copied_to_themselves_and_not_pickled(features):
    assert copy.copy(features) is features
    assert copy.deepcopy([features])[0] is features
    for thing in (features, features.factor()):
        with pytest.raises(
            TypeError, match=r"cannot be pickled: use `save\(path\)` .* load_features\(path\)"
        ):
            pickle.dumps(thing)


def test_vectors_of_another_shape_are_refused_by_the_name_they_have(features):
    for v, error in (
        (np.ones(89), ValueError),
        (1.0, ValueError),
        (np.array(["a"] * 90), TypeError),
    ):
        with pytest.raises(error, match=r"^`v` must "):
            features.gram_matvec(KERNEL, v)


def test_a_closed_client_is_told_in_words(cluster_client, tmp_path):
    client = Client(cluster_client.scheduler.address, set_as_default=False)
    features = sample_features(GRAPH, grf.RandomWalks(4), client=client, seed=3, block_size=40)
    client.close()
    for call in (
        lambda: features.gram_matvec(KERNEL, np.ones(90)),
        lambda: features.matrix(KERNEL),
        features.gather,
        lambda: features.save(tmp_path / "features"),
        features.memory,
        lambda: features.nnz,
        features.step_squares,
        lambda: features.factor().take(np.array([3])),
    ):
        with pytest.raises(
            RuntimeError, match="client that these features are with is closed: draw them again"
        ):
            call()


def test_a_worker_that_dies_meanwhile_does_not_hide_a_folder(cluster_client, tmp_path, monkeypatch):
    plain, calls = cluster_client.run, []

    def run(*arguments, **options):
        calls.append(arguments)
        if len(calls) == 1:
            raise CommClosedError("a worker has died")
        return plain(*arguments, **options)

    monkeypatch.setattr(cluster_client, "run", run)
    assert clients.seen_by_all(cluster_client, tmp_path) is True
    assert len(calls) == 2
    assert clients.seen_by_all(cluster_client, tmp_path / "nowhere") is False
    assert not list(tmp_path.iterdir())


def test_workers_are_known_while_a_client_asks_for_other_facts(cluster_client, monkeypatch):
    # A client asks its scheduler for facts without workers
    # every other second, and keeps the last answer.
    plain = cluster_client._update_scheduler_info

    async def updated(**options):
        await plain(**options)
        await plain(n_workers=0)

    assert asyncio.iscoroutinefunction(plain)
    monkeypatch.setattr(cluster_client, "_update_scheduler_info", updated)
    assert [worker.threads for worker in clients.workers(cluster_client)] == [1, 1]


def test_workers_that_map_more_than_they_may_are_warned_of(cluster_client):
    with pytest.warns(RuntimeWarning, match="map 1.07e\\+09 GiB .*terminate"):
        clients.warn_of_mapped(cluster_client, 2**60)
    clients.warn_of_mapped(cluster_client, 1000)  # warnings are errors here


def test_workers_that_die_again_and_again_end_the_attempts(cluster_client):
    tries = []

    def attempt():
        tries.append(0)
        raise CancelledError

    with pytest.raises(RuntimeError, match=r"lost 5 times in a row .*memory"):
        clients.repeated(cluster_client, attempt, pause=0.0)
    assert len(tries) == 5
