"""The torch engine of walks against the compiled loops, bit for bit, and plain oracles."""

from __future__ import annotations

import collections
import weakref

import numpy as np
import pytest

import graphrf as grf
from graphrf.sampling.walks.lengths import LONGEST_WALK
from graphrf.sampling.walks.transitions import Transitions

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from graphrf.features.device_record import unsigned16  # noqa: E402
from graphrf.sampling.device_blocks import Packing, host_block, joined, merged  # noqa: E402
from graphrf.sampling.walks import lengths_torch, walks_torch  # noqa: E402
from graphrf.sampling.walks.philox_torch import philox  # noqa: E402
from graphrf.sampling.walks.transitions_torch import neighbours, on_device  # noqa: E402
from graphrf.sampling.walks.walks_torch import DeviceWalks, WalkCosts  # noqa: E402
from tests.sampling.walks.test_philox import KNOWN_ANSWERS  # noqa: E402
from tests.sampling.walks.test_walks import _neighbours  # noqa: E402

CPU = torch.device("cpu")
FIELDS = ("entries_per_row", "visits_per_row", "indices", "visits_per_entry", "steps", "counts")
PLATEAUS = grf.sampling.Survival([1.0, 1.0, 0.5, 0.25, 0.25])
LAWS = [
    grf.sampling.IID(0.2),
    grf.sampling.Antithetic(0.2),
    grf.sampling.Antithetic(PLATEAUS),
    grf.sampling.SigmaCoupled(0.2),
    grf.sampling.SigmaCoupled(0.1, grf.sampling.Coupling([[2, 0, 1, 4, 3], [1, 2, 0, 4, 3]])),
    grf.sampling.Stratified(0.2),
    grf.sampling.Stratified(PLATEAUS),
    grf.sampling.Truncated(0),
]
DIRECTIONS = ["independent", "stratified"]


def _graph(kind: str) -> grf.Graph:
    """40 nodes, some of them isolated, one with a self-loop."""
    rng = np.random.default_rng(4)
    upper = np.triu(rng.random((40, 40)) < 0.08, 1) * rng.uniform(0.1, 3.0, (40, 40))
    adjacency = upper + upper.T
    adjacency[0] = adjacency[:, 0] = 0.0
    adjacency[7, 7] = 0.7
    return grf.Graph(adjacency if kind == "weighted" else (adjacency > 0).astype(float))


def _differing(one, other) -> list[str]:
    """The fields in which two blocks of numpy arrays differ, by value or, of 16 bits, by type."""
    return [
        name
        for name in FIELDS
        if not np.array_equal(getattr(one, name), getattr(other, name))
        or (name in FIELDS[3:] and getattr(one, name).dtype != getattr(other, name).dtype)
    ]


def _on_device(prepared, sources):
    return host_block(DeviceWalks(prepared, CPU).sample(torch.tensor(sources)))


@pytest.mark.parametrize("kind", ["plain", "weighted"])
@pytest.mark.parametrize("directions", DIRECTIONS)
@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_records_are_those_of_the_compiled_loops_bit_for_bit(kind, directions, law):
    graph = _graph(kind)
    for laplacian in ("normalized", "combinatorial"):
        for n_walks, seed, sources in (
            (law.group, 0, [5]),
            (6, 2**63 - 3, [3, 3, 39, 0, 7, 3, 12]),
            (36, 11, list(range(0, 40, 2))),
        ):
            sampler = grf.RandomWalks(n_walks, law, directions=directions, laplacian=laplacian)
            prepared = sampler.prepare(graph, seed)
            expected = prepared.sample(np.array(sources))
            assert _differing(expected, _on_device(prepared, sources)) == []


@pytest.mark.parametrize("directions", DIRECTIONS)
def test_more_walks_than_15_bits_count_and_one_walk_alone(weighted_graph, directions):
    for n_walks in (1, 40_000):
        sampler = grf.RandomWalks(n_walks, grf.sampling.Truncated(2), directions=directions)
        prepared = sampler.prepare(weighted_graph, 1)
        expected = prepared.sample(np.array([2, 7]))
        assert expected.counts.max() == n_walks
        assert _differing(expected, _on_device(prepared, [2, 7])) == []


def test_steps_and_visits_beyond_15_bits_are_kept_whole():
    block = merged(torch.arange(LONGEST_WALK + 1).flip(0), None, Packing(1, LONGEST_WALK), 1)
    assert unsigned16(block.steps).tolist() == list(range(LONGEST_WALK + 1))
    assert unsigned16(block.visits_per_entry).tolist() == [LONGEST_WALK + 1]


@pytest.mark.parametrize("directions", DIRECTIONS)
@pytest.mark.parametrize(
    "law", [grf.sampling.Stratified(0.2), grf.sampling.Antithetic(0.2)], ids=repr
)
def test_blocks_cut_otherwise_and_small_stages_give_the_same_rows(directions, law, monkeypatch):
    prepared = grf.RandomWalks(8, law, directions=directions).prepare(_graph("weighted"), 5)
    walks, sources = DeviceWalks(prepared, CPU), torch.arange(40).flip(0)
    whole = walks.sample(sources)
    for cuts in ([1, 38, 1], [13, 13, 14]):
        parts = [walks.sample(part) for part in sources.split(cuts)]
        assert _differing(host_block(whole), host_block(joined(parts))) == []
    small = WalkCosts(stage=1), WalkCosts(most_keys=100)  # more visits than can be sorted
    for costs in small:
        again = DeviceWalks(prepared, CPU, costs).sample(sources)
        assert _differing(host_block(whole), host_block(again)) == []
    # more rows than a key has room for
    monkeypatch.setattr(Packing, "most_rows", property(lambda self: 7))
    assert _differing(host_block(whole), host_block(walks.sample(sources))) == []


@pytest.mark.parametrize("directions", DIRECTIONS)
def test_another_seed_and_any_changed_counter_word_are_noticed(directions, monkeypatch):
    sampler = grf.RandomWalks(8, grf.sampling.Stratified(0.2), directions=directions)
    graph, sources = _graph("weighted"), np.arange(40)
    prepared = sampler.prepare(graph, 5)
    expected = prepared.sample(sources)
    assert _differing(expected, _on_device(sampler.prepare(graph, 6), sources)) != []
    for module in (walks_torch, lengths_torch):
        for word in range(4):

            def changed(*counter_and_key, word=word):
                counter, key = list(counter_and_key[:4]), counter_and_key[4]
                counter[word] = counter[word] + 1
                return philox(*counter, key)

            with monkeypatch.context() as patch:
                patch.setattr(module, "philox", changed)
                assert "counts" in _differing(expected, _on_device(prepared, sources))


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN_ANSWERS)
def test_philox_gives_the_published_answers(counter, key, answer):
    for tensors in ([0], [1], [2], [3], [0, 1, 2, 3]):  # the other words are numbers
        words = [
            torch.tensor([word]) if place in tensors else word for place, word in enumerate(counter)
        ]
        assert tuple(word.item() for word in philox(*words, key[0] | key[1] << 32)) == answer


@pytest.mark.parametrize("weighted", [False, True])
def test_neighbours_are_those_of_the_compiled_loops_in_rows_of_all_sizes(weighted):
    rng = np.random.default_rng(1)
    sizes = np.array([1, 2, 3, 4, 5, 17, 64, 65, 300, 511, 1])
    indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    indices = rng.permutation(indptr[-1]).astype(np.int32)
    shares = np.zeros(0)
    if weighted:
        shares = np.concatenate([np.cumsum(rng.uniform(0.01, 1.0, size)) for size in sizes])
        shares /= np.repeat(shares[indptr[1:] - 1], sizes)
    arrays = Transitions(indptr, indices, shares)
    nodes = np.repeat(np.arange(sizes.size), 2000)
    bits = rng.integers(0, 2**64, nodes.size, dtype=np.uint64)
    bits[::500], bits[1::500] = 0, 2**64 - 1
    if weighted:  # where a share is met exactly, the next neighbour is taken
        bits[2::7] = (shares[indptr[nodes[2::7]]] * 2.0**53).astype(np.uint64) << np.uint64(11)
    expected = _neighbours(nodes, bits, *arrays)
    chosen = neighbours(
        torch.from_numpy(nodes), torch.from_numpy(bits.view(np.int64)), on_device(arrays, CPU)
    )
    np.testing.assert_array_equal(chosen.numpy(), expected)
    assert np.unique(expected).size > 0.8 * indices.size


@pytest.mark.parametrize("values", ["counted", "int16", "float32"])
@pytest.mark.parametrize(("n_nodes", "max_step"), [(1, 0), (5, 2), (2**31 + 5, 40_000)])
def test_merged_sorts_visits_and_adds_those_of_one_row_node_and_step(values, n_nodes, max_step):
    rng = np.random.default_rng(2)
    n = 200
    rows, steps = rng.choice([0, 1, 4], n), rng.integers(0, max_step, n, endpoint=True)
    nodes = n_nodes - 1 - rng.integers(0, min(n_nodes, 4), n)
    numbers = rng.integers(1, 200, n)
    sums: collections.Counter[tuple[int, int, int]] = collections.Counter()
    for row, node, step, number in zip(rows, nodes, steps, numbers, strict=True):
        sums[int(row), int(node), int(step)] += 1 if values == "counted" else int(number)
    packing = Packing(n_nodes, max_step)
    keys = packing.keys(
        packing.pairs(torch.from_numpy(rows), torch.from_numpy(nodes)), torch.from_numpy(steps)
    )
    given = None if values == "counted" else torch.from_numpy(numbers).to(getattr(torch, values))
    block = merged(keys, given, packing, 6)
    expected = sorted(sums)
    entries = sorted({key[:2] for key in expected})
    assert block.indices.tolist() == [node for _, node in entries]
    assert block.indices.dtype == (torch.int64 if n_nodes >= 2**31 else torch.int32)
    assert block.n_rows == 6
    assert block.entries_per_row.tolist() == [
        sum(row == entry[0] for entry in entries) for row in range(6)
    ]
    assert block.visits_per_row.tolist() == [
        sum(row == key[0] for key in expected) for row in range(6)
    ]
    assert unsigned16(block.visits_per_entry).tolist() == [
        sum(key[:2] == entry for key in expected) for entry in entries
    ]
    assert unsigned16(block.steps).tolist() == [key[2] for key in expected]
    assert host_block(block).counts.tolist() == [sums[key] for key in expected]
    assert host_block(block).counts.dtype == (np.float32 if values == "float32" else np.uint16)


def test_no_visits_make_an_empty_block():
    block = merged(
        torch.zeros(0, dtype=torch.int64),
        torch.zeros(0),
        Packing(5, 2),
        3,
        work=torch.ones(3).long(),
    )
    assert block.entries_per_row.tolist() == block.visits_per_row.tolist() == [0, 0, 0]
    assert block.counts.numel() == block.indices.numel() == 0
    assert joined([block, block]).work.tolist() == [1] * 6


@pytest.mark.parametrize(
    ("n_nodes", "max_step"), [(1, 0), (2, 1), (10**6, 348), (2**32, LONGEST_WALK)]
)
def test_keys_have_room_for_many_rows_and_stay_positive(n_nodes, max_step):
    packing = Packing(n_nodes, max_step)
    assert packing.most_rows >= 32_767
    rows, nodes = torch.tensor([packing.most_rows - 1]), torch.tensor([n_nodes - 1])
    pairs = packing.pairs(rows, nodes)
    key = packing.keys(pairs, max_step).item()
    assert (
        key
        == ((packing.most_rows - 1 << packing.node_bits) + n_nodes - 1 << packing.step_bits)
        + max_step
    )
    assert key < packing.most_rows << (packing.node_bits + packing.step_bits) < 2**63
    assert (packing.rows(pairs), packing.nodes(pairs)) == (rows, nodes)


@pytest.fixture(scope="module")
def expander() -> grf.Graph:
    """A random graph of degree 8 or so, on which few visits merge."""
    return grf.from_edges(
        *np.random.default_rng(0).integers(0, 20_000, (2, 80_000)), n_nodes=20_000
    )


class _Peak(TorchDispatchMode):
    """The most memory that tensors hold at once, with a sort's scratch: 24 bytes a key."""

    def __init__(self) -> None:
        super().__init__()
        self._live: dict[int, weakref.ref] = {}
        self._held = self.bytes = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        result = operation(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else (result,):
            if isinstance(tensor, torch.Tensor):
                self._hold(tensor.untyped_storage())
        scratch = 24 * result[1].numel() if operation.overloadpacket is torch.ops.aten.sort else 0
        self.bytes = max(self.bytes, self._held + scratch)
        return result

    def _hold(self, storage) -> None:
        place, size = storage._cdata, storage.nbytes()
        if place not in self._live:
            self._live[place] = weakref.ref(storage, lambda _: self._release(place, size))
            self._held += size

    def _release(self, place: int, size: int) -> None:
        del self._live[place]
        self._held -= size


@pytest.mark.parametrize("directions", DIRECTIONS)
@pytest.mark.parametrize(
    ("law", "n_walks"),
    [
        (grf.sampling.Stratified(0.1), 4),
        (grf.sampling.Stratified(0.1), 32),
        (grf.sampling.Stratified(0.5), 32),
        (grf.sampling.Antithetic(0.1), 32),
        (grf.sampling.Antithetic(0.5), 32),
        (grf.sampling.Truncated(1), 8),
        (grf.sampling.Truncated(8), 32),
    ],
)
def test_the_memory_foreseen_is_what_is_taken_or_little_more(expander, law, n_walks, directions):
    prepared = grf.RandomWalks(n_walks, law, directions=directions).prepare(expander, 0)
    # stages fill up while many walks are left
    walks = DeviceWalks(prepared, CPU, WalkCosts(stage=1000))
    with _Peak() as peak:
        walks.sample(torch.arange(600))
    assert peak.bytes <= walks.working_bytes(600) <= 1.6 * peak.bytes


def test_coupled_lengths_of_several_sources_warn_of_nothing():
    always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)  # else torch warns once in a process
    try:
        graph = grf.from_edges([0, 1, 2], [1, 2, 0])
        for law in (
            grf.sampling.SigmaCoupled(0.1),
            grf.sampling.Stratified(0.1),
            grf.sampling.Antithetic(0.1),
        ):
            sampler = grf.RandomWalks(law.group if law.group > 1 else 4, law)
            grf.sample_features(graph, sampler, seed=0, engine="torch")
    finally:
        torch.set_warn_always(always)
