"""Sampling by torch, as a user calls it: the compiled loops' features, on any device."""

from functools import partial

import numpy as np
import pytest

import graphrf as grf
from graphrf.sampling.sample import sample_features

torch = pytest.importorskip("torch")

from graphrf.sampling.device import DeviceCosts, OnDevice  # noqa: E402
from tests.distributed.helpers import require_same  # noqa: E402
from tests.sampling.test_protocol import PLAIN_WALKS  # noqa: E402
from tests.support.simulated_device import SimulatedDevice  # noqa: E402

SAMPLERS = {
    "independent": grf.RandomWalks(6, grf.sampling.IID(0.2), directions="independent"),
    "stratified": grf.RandomWalks(7, grf.sampling.Stratified(0.2)),
    "coupled": grf.RandomWalks(6, grf.sampling.SigmaCoupled(0.2)),
    "truncated": grf.RandomWalks(5, grf.sampling.Truncated(4), laplacian="combinatorial"),
    "auto": grf.RandomWalks(8, grf.sampling.AutoLengths(grf.Diffusion(1.0))),
    "compressed": grf.CompressedPowers(4, 5),
    "cut": grf.sampling.CutPowers(3, 4),
    "exact": grf.sampling.ExactPowers(3),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_torch_on_the_cpu_gives_the_features_of_the_compiled_loops(name, weighted_graph, karate):
    for graph in (weighted_graph, karate):
        for nodes in (None, [2, 0, 2]):
            by_torch = sample_features(graph, SAMPLERS[name], nodes=nodes, seed=5, engine="torch")
            assert by_torch.device == "cpu"
            require_same(by_torch, sample_features(graph, SAMPLERS[name], nodes=nodes, seed=5))


@pytest.mark.parametrize(
    ("name", "visits"),
    [("independent", 1), ("stratified", 40), ("auto", 10_000), ("compressed", 10_000), ("cut", 40)],
)
def test_on_another_device_features_stay_there_and_are_the_same(
    name, visits, weighted_graph, monkeypatch
):
    costs = DeviceCosts(device_visits=visits)  # all rows a block, one, some
    monkeypatch.setattr("graphrf.sampling.device.OnDevice", partial(OnDevice, costs=costs))
    expected = sample_features(weighted_graph, SAMPLERS[name], seed=5)
    with SimulatedDevice():
        features = sample_features(weighted_graph, SAMPLERS[name], seed=5, device="meta")
        assert features.device == "meta"
        require_same(features.to("cpu"), expected)


@pytest.mark.cuda
@pytest.mark.parametrize("name", SAMPLERS)
def test_a_gpu_gives_the_walks_of_the_compiled_loops_bit_for_bit_and_powers_to_rounding(
    name, weighted_graph, karate, gpu
):
    walks = isinstance(SAMPLERS[name], grf.RandomWalks)
    # Rounding may choose among equal weights.
    for graph in (weighted_graph, karate) if walks else (weighted_graph,):
        expected = sample_features(graph, SAMPLERS[name], seed=5)
        features = sample_features(graph, SAMPLERS[name], seed=5, engine="torch", device=gpu)
        assert features.device == str(gpu)
        if walks:
            require_same(features.to("cpu"), expected)
        else:
            found, wanted = (
                each.matrix(grf.Diffusion(1.0)).toarray() for each in (features, expected)
            )
            np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)


def test_what_leaves_the_device_while_it_samples_are_sizes(karate):
    graph = grf.Graph(np.kron(np.eye(30), karate.adjacency.toarray()))
    for name in ("independent", "stratified", "compressed"):
        with SimulatedDevice() as device:
            features = sample_features(
                graph, SAMPLERS[name], seed=5, device="meta", memory_limit=10**9
            )
            assert features.nnz > 5_000
        assert device.largest("from") < 600  # walkers at each step, or rows to be sorted out
        assert device.largest("to") >= graph.adjacency.nnz  # the graph, whose copy is noticed


def test_records_that_grow_beyond_what_a_pilot_foretold_are_whole(monkeypatch):
    # A pilot of sources without edges foretells next to nothing.
    path = np.arange(1_000)
    graph = grf.from_edges(path[:-1] + 1_000, path[1:] + 1_000, n_nodes=2_000)
    sampler = grf.RandomWalks(4, grf.sampling.Truncated(3))
    monkeypatch.setattr("graphrf.sampling.task.expected_size", lambda *_: (1, 1))
    monkeypatch.setattr("graphrf.sampling.device.SLACK", 0)
    expected = sample_features(graph, sampler, seed=1)
    with SimulatedDevice():
        costs = DeviceCosts(device_visits=1_000)
        monkeypatch.setattr("graphrf.sampling.device.OnDevice", partial(OnDevice, costs=costs))
        features = sample_features(graph, sampler, seed=1, device="meta", memory_limit=10**9)
        require_same(features.to("cpu"), expected)


def test_columns_on_a_device_keep_little_room_that_they_do_not_need(karate):
    # Of few sources the most that can be is expected, far more than there is.
    with SimulatedDevice():
        features = sample_features(
            karate, grf.RandomWalks(3_000, grf.sampling.Truncated(4)), seed=1, device="meta"
        )
        for column in features.device_rows(torch.device("meta")).record.tensors().values():
            held = column.inner.untyped_storage().nbytes()
            assert held <= column.inner.nbytes / 0.85


def test_the_memory_of_a_device_is_asked_for_once_the_graph_is_there(karate, monkeypatch):
    from graphrf.sampling import device

    calls = []
    memory, prepare = device.device_memory, device.OnDevice.__init__
    monkeypatch.setattr(
        device, "device_memory", lambda place: calls.append("memory") or memory(place)
    )
    monkeypatch.setattr(
        device.OnDevice, "__init__", lambda *a: calls.append("graph") or prepare(*a)
    )
    sample_features(karate, SAMPLERS["independent"], seed=0, engine="torch")
    assert calls == ["graph", "memory"]


def test_blocks_keep_to_a_share_of_the_memory_that_there_is(karate):
    from graphrf.sampling.device import OnDevice

    prepared = OnDevice(SAMPLERS["independent"].prepare(karate, 0), torch.device("cpu"))
    free, little = prepared.block_rows(None), prepared.block_rows(10_000_000)
    assert little < free
    assert prepared.working_bytes(little) <= 2_500_000 < prepared.working_bytes(2 * little)
    assert prepared.block_rows(1) == 1


@pytest.mark.parametrize("engine", ["numba", "torch"])
def test_what_exceeds_the_memory_limit_is_refused_and_told(engine, karate):
    graph = grf.Graph(np.kron(np.eye(60), karate.adjacency.toarray()))
    sampler = grf.RandomWalks(32)
    features = sample_features(graph, sampler, seed=0, engine=engine)
    with pytest.raises(
        MemoryError, match=r"features of 2040 nodes with RandomWalks.*`memory_limit` is.*n_walks"
    ):
        sample_features(graph, sampler, seed=0, engine=engine, memory_limit=features.nbytes)
    sample_features(graph, sampler, seed=0, engine=engine, memory_limit=40 * features.nbytes)


def test_bad_engines_and_devices_are_named(karate):
    with pytest.raises(
        ValueError, match=r"`engine` must be 'numba' or 'torch'|`engine` must be one of"
    ):
        sample_features(karate, engine="cuda")
    for device in ("nowhere", "meta", 3.5):
        with pytest.raises(
            (ValueError, TypeError), match="`device` must be a torch device at hand"
        ):
            sample_features(karate, device=device)
    with (
        SimulatedDevice(),
        pytest.raises(ValueError, match="`engine` must be 'torch', or None, for device='meta'"),
    ):
        sample_features(karate, engine="numba", device="meta")


def test_samplers_of_others_are_refused_by_torch(karate):
    with pytest.raises(TypeError, match=r"`sampler` must be RandomWalks, .* for engine='torch'"):
        sample_features(karate, PLAIN_WALKS, seed=0, engine="torch")


def test_a_missing_torch_is_told_with_the_extra_that_brings_it(karate, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(ImportError, match=r"graphrf\[gp\]"):
        sample_features(karate, engine="torch")
    sample_features(karate, seed=0)
