"""Workers that are killed lose nothing: what they drew, wrote or multiplied is made again."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest
from distributed import Client, LocalCluster

import graphrf as grf
from graphrf.distributed import block_store, sample_features
from tests.distributed.helpers import PreparedTold, Told, require_same, weighted

GRAPH = weighted()
WALKS = grf.RandomWalks(4)
F = grf.Diffusion(1.0).modulation(12)


def cases(*quick):
    """How arrays reach workers, and how many of both are killed; slow cases are for long runs."""
    every = [("mapped", 1), ("mapped", 2), ("sent", 1), ("sent", 2)]
    marked = [
        pytest.param(*case, marks=() if case in quick else pytest.mark.full) for case in every
    ]
    return pytest.mark.parametrize(("way", "n_killed"), marked, indirect=["way"])


def _processes(client):
    return list(client.run(os.getpid).values())


def _kill(processes):
    for process in processes:
        os.kill(process, signal.SIGKILL)


@contextmanager
def _killed(processes, when):
    """Processes are killed when `when` says so, while the block runs; the list of them."""
    done, dead = threading.Event(), []

    def watch():
        while not done.wait(0.005):
            if when():
                _kill(processes)
                dead.extend(processes)
                return

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield dead
    finally:
        done.set()
        watcher.join()
    assert dead == processes


@cases(("mapped", 1))
def test_workers_killed_while_they_sample_lose_nothing(mortal_client, tmp_path, way, n_killed):
    sampler = Told(WALKS, str(tmp_path), 0.05)
    # Where one compiles, the other may do all.
    mortal_client.run(grf.sample_features, GRAPH, WALKS, seed=0)
    victims = _processes(mortal_client)[:n_killed]
    with _killed(
        victims, lambda: all(len(list(tmp_path.glob(f"nodes-{pid}-*"))) > 2 for pid in victims)
    ):
        found = sample_features(GRAPH, sampler, client=mortal_client, seed=3, block_size=3)
    sampled = sampler.nodes()
    assert set(sampled) == set(range(90))
    assert len(sampled) > 90  # some were sampled again
    require_same(
        found.gather(), sample_features(GRAPH, sampler, client=mortal_client, seed=3).gather()
    )


@cases(("mapped", 2))
def test_workers_killed_between_products_change_no_bit(mortal_client, way, n_killed):
    features = sample_features(GRAPH, WALKS, client=mortal_client, seed=3, block_size=9)
    factor, y = features.factor(), np.random.default_rng(0).standard_normal((90, 3))
    before = factor.gram_apply(F, y), factor.apply_t(F, y), factor.grad_f(y, y), factor.diagonal(F)
    _kill(_processes(mortal_client)[:n_killed])
    after = factor.gram_apply(F, y), factor.apply_t(F, y), factor.grad_f(y, y), factor.diagonal(F)
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)
    require_same(features.gather(), grf.sample_features(GRAPH, WALKS, seed=3))


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in (1, 2, 3))]
)
@cases(("sent", 1))
def test_workers_killed_in_the_middle_of_products_change_no_bit(mortal_client, way, n_killed, seed):
    features = sample_features(GRAPH, WALKS, client=mortal_client, seed=3, block_size=9)
    factor, y = features.factor(), np.random.default_rng(0).standard_normal((90, 3))
    expected = factor.gram_apply(F, y)
    moment = time.monotonic() + np.random.default_rng(seed).uniform(0.05, 0.4)
    products = afterwards = 0
    with _killed(_processes(mortal_client)[:n_killed], lambda: time.monotonic() > moment) as dead:
        while products < 10 or afterwards < 5:
            np.testing.assert_array_equal(factor.gram_apply(F, y), expected)
            products += 1
            afterwards += bool(dead)


def test_blocks_that_wait_for_workers_that_are_gone_are_made_by_others(monkeypatch):
    monkeypatch.setattr(block_store, "settled", partial(block_store.settled, between=0.3))
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        Client(cluster, set_as_default=False) as one,
    ):
        features = sample_features(GRAPH, WALKS, client=one, seed=3, block_size=30)
        cluster.scale(0)
        while one.nthreads():
            time.sleep(0.02)
        cluster.scale(1)
        one.wait_for_workers(1)
        # Dask does not run them, though they may go to any worker.
        assert set(one.run_on_scheduler(_states)) == {"no-worker"}
        require_same(features.gather(), grf.sample_features(GRAPH, WALKS, seed=3))


def _states(dask_scheduler):
    return [task.state for task in dask_scheduler.tasks.values()]


def test_errors_of_a_sampler_are_raised_and_stop_the_others(cluster_client, tmp_path):
    class PreparedFailing(PreparedTold):
        def sample(self, sources):
            if 4 in sources and sources.size < 16:
                raise ZeroDivisionError("node 4")
            return super().sample(sources)

    class Failing(Told):
        def prepare(self, graph, seed):
            return PreparedFailing(self.sampler.prepare(graph, seed), self.folder, self.pause)

    sampler = Failing(WALKS, str(tmp_path), 0.05)
    with pytest.raises(ZeroDivisionError, match="node 4"):
        sample_features(
            GRAPH, sampler, client=cluster_client, nodes=np.arange(90), seed=3, block_size=1
        )
    # Those that have begun go on to their end; all would be done within some seconds.
    done = -1
    while done != (done := len(sampler.nodes())):
        time.sleep(0.5)
    assert done < 80
