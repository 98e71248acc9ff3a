"""Workers that are killed lose nothing: what they drew, wrote or multiplied is made again, the same bits."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from distributed import Client, LocalCluster

import graphrf as grf
from graphrf._base.files import arrays
from graphrf.distributed import client, load_features, sample_features
from tests.distributed.helpers import Told, require_same, weighted

GRAPH = weighted()
WALKS = grf.RandomWalks(4)
F = grf.Diffusion(1.0).modulation(12)


def cases(*quick):
    """How arrays reach workers, and how many of both are killed; those that are not quick are for the long run."""
    every = [("mapped", 1), ("mapped", 2), ("sent", 1), ("sent", 2)]
    marked = [pytest.param(*case, marks=() if case in quick else pytest.mark.full) for case in every]
    return pytest.mark.parametrize(("way", "n_killed"), marked, indirect=["way"])


def _processes(client):
    return list(client.run(os.getpid).values())


def _kill(processes):
    for process in processes:
        os.kill(process, signal.SIGKILL)


@contextmanager
def _killed(processes, when):
    """The processes are killed as soon as `when` says so, while the block runs; the list of those that were."""
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
    mortal_client.run(grf.sample_features, GRAPH, WALKS, seed=0)  # where one compiles, the other may do all
    victims = _processes(mortal_client)[:n_killed]
    with _killed(victims, lambda: all(len(list(tmp_path.glob(f"nodes-{pid}-*"))) > 2 for pid in victims)):
        found = sample_features(GRAPH, sampler, client=mortal_client, seed=3, block_size=3)
    sampled = sampler.nodes()
    assert set(sampled) == set(range(90))
    assert len(sampled) > 90  # some were sampled again
    require_same(found.gather(), sample_features(GRAPH, sampler, client=mortal_client, seed=3).gather())


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


@cases()
def test_rows_taken_from_killed_workers_come_again(mortal_client, monkeypatch, way, n_killed):
    monkeypatch.setattr("graphrf.distributed.factor._FEW_BYTES", -1)
    features = sample_features(GRAPH, WALKS, client=mortal_client, seed=3, block_size=9)
    rows, y = np.array([80, 3, 3, 41]), np.random.default_rng(0).standard_normal(4)
    taken = features.factor().take(rows)
    before = taken.gram_apply(F, y)
    _kill(_processes(mortal_client)[:n_killed])
    np.testing.assert_array_equal(taken.gram_apply(F, y), before)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in (1, 2, 3))])
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


@pytest.mark.parametrize("n_killed", [1, pytest.param(2, marks=pytest.mark.full)])
def test_workers_killed_in_the_middle_of_a_solve_change_no_bit(mortal_client, n_killed):
    graph = weighted(300)
    nodes = np.random.default_rng(0).permutation(300)[:250]
    y = np.sin(nodes / 9) + 0.1 * np.random.default_rng(1).standard_normal(250)
    processes: list[int] = []
    products = []

    class Deadly:
        """Rows on a cluster whose workers are killed at the fourth product."""

        def __init__(self, factor):
            self._factor = factor

        def __getattr__(self, name):
            return getattr(self._factor, name)

        def gram_apply(self, f, x, weight=1.0):
            products.append(x.shape)
            if len(products) == 4:
                _kill(processes)
            return self._factor.gram_apply(f, x, weight)

    def draw(graph, sampler, **options):
        features = grf.distributed.on_cluster(mortal_client, block_size=40)(graph, sampler, **options)
        features.factor = lambda plain=features.factor, **options: Deadly(plain(**options))
        return features

    def fitted():
        products.clear()
        gp = grf.GraphGPRegressor(
            graph, kernel=grf.Diffusion(1.5), method="features", optimize=False, noise=1e-3,
            output_scale=1.0, seed=4, numerics=grf.gp.Numerics(sampler=WALKS, solver="cg", feature_sampler=draw),
        )  # fmt: skip
        return gp.fit(nodes, y).predict(np.arange(300))

    expected = fitted()
    assert len(products) >= 5
    processes = _processes(mortal_client)[:n_killed]
    np.testing.assert_array_equal(fitted(), expected)


@pytest.mark.full
def test_a_worker_killed_while_it_writes_leaves_no_torn_file(mortal_client, tmp_path):
    folder, mark = tmp_path / "features", str(tmp_path / "mark")
    mortal_client.run(_die_while_writing, mark)
    try:
        found = sample_features(GRAPH, WALKS, client=mortal_client, seed=3, block_size=9, path=folder)
    finally:
        mortal_client.run(_write_again)
    assert Path(mark).exists()
    expected = grf.sample_features(GRAPH, WALKS, seed=3)
    require_same(found.gather(), expected)
    assert not any(file.name.startswith(".rows-") for file in folder.iterdir())  # its next writer removed it
    require_same(load_features(folder, client=mortal_client).gather(), expected)


def _die_while_writing(mark):
    """The first to write a block gets halfway and dies; `mark` says that it has."""
    plain = arrays.write_arrays

    def write_arrays(file, content):
        try:
            Path(mark).touch(exist_ok=False)
        except FileExistsError:
            plain(file, content)
        else:
            file.write(b"PK\x03\x04 half a file")
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)

    write_arrays.plain = plain
    arrays.write_arrays = write_arrays


def _write_again():
    arrays.write_arrays = getattr(arrays.write_arrays, "plain", arrays.write_arrays)


@pytest.mark.full
@pytest.mark.parametrize("n_killed", [1, 2])
def test_features_of_a_folder_whose_workers_are_killed_are_read_again(mortal_client, tmp_path, n_killed):
    sample_features(GRAPH, WALKS, client=mortal_client, seed=3, block_size=9, path=tmp_path)
    found = load_features(tmp_path, client=mortal_client)
    _kill(_processes(mortal_client)[:n_killed])
    require_same(found.gather(), grf.sample_features(GRAPH, WALKS, seed=3))


def test_blocks_that_wait_for_workers_that_are_gone_are_made_by_others(monkeypatch):
    monkeypatch.setattr(client, "_SLICE", 0.3)
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster,
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


@pytest.mark.full
def test_memory_is_told_after_a_kill_and_after_a_restart(mortal_client):
    features = sample_features(GRAPH, WALKS, client=mortal_client, seed=3, block_size=9)
    expected, y = features.gram_matvec(grf.Diffusion(1.0), np.ones(90)), np.ones(90)
    _kill(_processes(mortal_client)[:1])
    assert set(features.memory()) <= set(mortal_client.run(os.getpid))
    np.testing.assert_array_equal(features.gram_matvec(grf.Diffusion(1.0), y), expected)
    mortal_client.wait_for_workers(2)
    mortal_client.restart()
    mortal_client.wait_for_workers(2)
    held = features.memory()
    assert len(held) == 2
    assert all(worker.private > 0 for worker in held.values())
    np.testing.assert_array_equal(features.gram_matvec(grf.Diffusion(1.0), y), expected)
    assert sum(worker.n_blocks for worker in features.memory().values()) >= 10


def test_errors_of_a_sampler_are_raised_and_stop_the_others(cluster_client, tmp_path):
    class Failing(Told):
        def prepare(self, graph, seed):
            return _Failing(super().prepare(graph, seed))

    class _Failing:
        def __init__(self, prepared):
            self._prepared = prepared

        def __getattr__(self, name):
            if name.startswith("__") or name == "_prepared":
                raise AttributeError(name)
            return getattr(self._prepared, name)

        def sample(self, sources):
            if 4 in sources and sources.size < 16:
                raise ZeroDivisionError("node 4")
            return self._prepared.sample(sources)

    sampler = Failing(WALKS, str(tmp_path), 0.05)
    with pytest.raises(ZeroDivisionError, match="node 4"):
        sample_features(GRAPH, sampler, client=cluster_client, nodes=np.arange(90), seed=3, block_size=1)
    # Those that have begun go on to their end; all would be done within some seconds.
    done = -1
    while done != (done := len(sampler.nodes())):
        time.sleep(0.5)
    assert done < 80
