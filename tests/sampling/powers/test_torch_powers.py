"""Powers by torch operations: the loops' records bit for bit on the CPU, valid elsewhere."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import graphrf as grf  # noqa: E402
from graphrf.sampling.device_blocks import Packing, host_block  # noqa: E402
from graphrf.sampling.powers import compression_torch  # noqa: E402
from graphrf.sampling.powers.powers_torch import DevicePowers, PowerCosts  # noqa: E402
from tests.sampling.powers.test_compression import hub_graph  # noqa: E402
from tests.sampling.test_sample import FALLING  # noqa: E402

CPU = torch.device("cpu")
LAPLACIANS = ["normalized", "combinatorial"]

pytestmark = pytest.mark.usefixtures("one_torch_thread")


def _wheel():
    """A star whose leaves are on a cycle, and three isolated nodes."""
    leaves = np.arange(1, 60)
    adjacency = np.zeros((63, 63))
    adjacency[0, leaves] = adjacency[leaves, np.roll(leaves, 1)] = 1.0
    return grf.Graph(np.maximum(adjacency, adjacency.T))


def _graph(name, request):
    if name == "hub":
        return hub_graph()
    if name == "wheel":
        return _wheel()
    return request.getfixturevalue(name)


def _samplers(laplacian):
    compressed = [
        grf.CompressedPowers(budget, 7, laplacian=laplacian) for budget in (1, 2, 8, 32, 10**6)
    ]
    cut = [grf.sampling.CutPowers(budget, 6, laplacian=laplacian) for budget in (1, 5, 10**6)]
    none = [
        grf.sampling.ExactPowers(0, laplacian=laplacian),
        grf.sampling.CutPowers(2, 0, laplacian=laplacian),
        grf.CompressedPowers(1, 0, laplacian=laplacian),
    ]
    falling = grf.CompressedPowers(3, lengths=FALLING, laplacian=laplacian)
    return [*compressed, falling, *cut, grf.sampling.ExactPowers(6, laplacian=laplacian), *none]


def _both(graph, sampler, seed=2**63 - 7, sources=None, **costs):
    """The blocks of the loops and of torch."""
    prepared = sampler.prepare(graph, seed)
    sources = np.arange(graph.n_nodes) if sources is None else np.asarray(sources, np.int64)
    device = DevicePowers(prepared, CPU, PowerCosts(**costs)).sample(
        torch.from_numpy(sources.copy())
    )
    return prepared.sample(sources), host_block(device)


def _same(one, other):
    pairs = list(zip(one, other, strict=True))
    return all((a is None) == (b is None) for a, b in pairs) and all(
        np.array_equal(a, b) for a, b in pairs if a is not None
    )


@pytest.mark.parametrize("laplacian", LAPLACIANS)
@pytest.mark.parametrize("which", ["weighted_graph", "karate", "grid", "hub", "wheel"])
def test_the_record_is_that_of_the_loops_bit_for_bit(request, which, laplacian):
    graph = _graph(which, request)
    for sampler in _samplers(laplacian):
        expected, block = _both(graph, sampler)
        assert _same(expected, block), sampler


@pytest.mark.parametrize(
    "sampler",
    [grf.sampling.ExactPowers(5), grf.sampling.CutPowers(6, 5), grf.CompressedPowers(6, 5)],
    ids=repr,
)
def test_blocks_cut_differently_and_repeated_sources_give_the_same_rows(
    monkeypatch, karate, sampler
):
    sources = [33, 0, 5, 0, 0, 11, 33]
    expected, block = _both(karate, sampler, sources=sources)
    assert _same(expected, block)
    for start, stop in ((0, 1), (2, 5)):
        assert _same(*_both(karate, sampler, sources=sources[start:stop]))
    with monkeypatch.context() as patch:
        patch.setattr(Packing, "most_rows", 3)
        assert _same(expected, _both(karate, sampler, sources=sources)[1])
    for costs in ({"most_keys": 1}, {"edges": 1}, {"edges": 40}):
        assert _same(expected, _both(karate, sampler, sources=sources, **costs)[1])


@pytest.mark.parametrize("name", ["after_swaps", "segment_sums", "_landed"])
def test_the_comparison_notices_what_is_done_in_another_way(monkeypatch, grid, name):
    right = getattr(compression_torch, name)
    wrong = {
        "after_swaps": lambda kept, sizes: (
            kept.int().sort(dim=1, descending=True, stable=True).indices
        ),
        "segment_sums": lambda values, sizes: right(values, sizes) * (1.0 + 1e-6),
        "_landed": lambda nodes, x, matrix: right(nodes, 0.99 * x, matrix),
    }[name]
    monkeypatch.setattr(compression_torch, name, wrong)
    assert not all(_same(*_both(grid, grf.CompressedPowers(budget, 7))) for budget in (2, 3, 5, 8))


def _scan(padded):
    """Running sums as parallel devices add: of 1, 2, 4, ... neighbours."""
    sums, reach = padded, 1
    while reach < padded.shape[1]:
        sums = torch.cat([sums[:, :reach], sums[:, reach:] + sums[:, :-reach]], dim=1)
        reach *= 2
    return sums.cummax(1).values


@pytest.mark.parametrize("which", ["grid", "karate", "hub", "wheel"])
def test_running_sums_in_another_order_pick_the_same(request, monkeypatch, which):
    sums = torch.from_numpy(np.random.default_rng(0).exponential(size=(9, 40)))
    assert not torch.equal(_scan(sums), compression_torch._running(sums))
    torch.testing.assert_close(_scan(sums), sums.cumsum(1), rtol=1e-14, atol=0.0)
    monkeypatch.setattr(compression_torch, "_running", _scan)
    for budget in (2, 5, 16):
        assert _same(*_both(_graph(which, request), grf.CompressedPowers(budget, 7)))


@pytest.fixture
def shaken(monkeypatch):
    """Sums in torch as they might round in another order, or worse."""

    def rounded(name, size):
        sums = getattr(compression_torch, name)

        def other(*args):
            result = sums(*args)
            noise = np.random.default_rng(result.numel()).uniform(-size, size, tuple(result.shape))
            result = result * torch.from_numpy(1.0 + noise)
            return result.cummax(1).values if name == "_running" else result

        monkeypatch.setattr(compression_torch, name, other)

    def shake(size):
        for name in ("segment_sums", "_running"):
            rounded(name, size)

    return shake


def test_sums_that_round_otherwise_change_no_more_than_rounding(shaken):
    # Weights of all sizes, of which nothing ties: no decision is so close.
    shaken(1e-9)
    graph = hub_graph()
    samplers = [grf.CompressedPowers(budget, 6) for budget in (1, 2, 5)]
    for sampler in (*samplers, grf.sampling.CutPowers(3, 4), grf.sampling.ExactPowers(4)):
        expected, block = _both(graph, sampler)
        for name, a, b in zip(expected._fields, expected, block, strict=True):
            if name in ("counts", "dropped") and a is not None:
                np.testing.assert_allclose(b, a, rtol=1e-6)
            else:
                np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("budget", [3, 8])
def test_sums_that_round_otherwise_leave_budgets_and_sums_as_they_are(shaken, grid, budget):
    # In a grid almost everything ties, and rounding decides.
    shaken(1e-15)
    expected, block = _both(grid, grf.CompressedPowers(budget, 8))
    assert not _same(expected, block)
    sums = []
    for record in (expected, block):
        rows = np.repeat(np.arange(grid.n_nodes), record.visits_per_row)
        n_values, total = np.zeros((grid.n_nodes, 9), int), np.zeros((grid.n_nodes, 9))
        np.add.at(n_values, (rows, record.steps), 1)
        nodes = np.repeat(record.indices, record.visits_per_entry)
        np.add.at(total, (rows, record.steps), record.counts * grid.degrees[nodes] ** -0.25)
        assert n_values.max() <= budget
        sums.append(total * grid.degrees[:, None] ** 0.25)
    # Compression keeps the sum; products make it another one, depending on the nodes.
    np.testing.assert_allclose(sums[1].mean(axis=0), sums[0].mean(axis=0), rtol=0.05)


# -- the steps of compression ----------------------------------------------------------------------


@pytest.mark.parametrize("u", [0.0, 0.3, 1 - 2.0**-53])
def test_rounding_never_changes_the_number_of_picks(u):
    rng = np.random.default_rng(1)
    sizes = rng.integers(4, 41, 200)
    y = np.where(np.arange(40) < sizes[:, None], rng.exponential(size=(200, 40)) ** 3, 0.0)
    there = torch.from_numpy(y > 0)
    n_picks = torch.from_numpy(rng.integers(0, sizes + 1))
    for share in (1 - 1e-14, 1.0, 1 + 1e-14, 1.5):
        total = torch.from_numpy(share * y.sum(axis=1))
        picked, _ = compression_torch.pick(
            torch.from_numpy(y), there, total, n_picks, torch.full((200,), u, dtype=torch.float64)
        )
        assert torch.equal(picked.sum(1), n_picks)
        assert not (picked & ~there).any()


@pytest.mark.parametrize(
    ("light", "reached"), [([1e-200, 1.0, 1e-200], [1]), ([1e-200, 1.0, 1.0], [1, 2])]
)
def test_shares_that_underflow_reach_no_node(light, reached):
    empty = torch.empty(0, dtype=torch.float64)
    matrix = compression_torch.DeviceMatrix(
        torch.tensor([0, 2, 3, 3]),
        torch.tensor([2, 1, 2]),
        torch.tensor(light, dtype=torch.float64),
        *(empty,) * 3,
        *(empty.long(),) * 2,
        halvings=1,
    )
    x = compression_torch.Vectors(
        torch.tensor([0, 1]), torch.full((2,), 1e-150, dtype=torch.float64), torch.tensor([2])
    )
    y, work = compression_torch.product(x, matrix, 0, None, Packing(3, 1))
    assert y.nodes.tolist() == reached
    assert y.starts.tolist() == [0, len(reached)]
    assert work.tolist() == [3]


# -- memory ----------------------------------------------------------------------------------------


def _peak(device, sources):
    """Bytes of tensors, temporary ones included, that `sample` holds at the most."""
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profile:
        device.sample(sources)
    events = [
        event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"
    ]
    events.sort(key=lambda event: event.start_ns())
    return int(np.cumsum([event.nbytes() for event in events]).max())


@pytest.mark.parametrize(
    "sampler",
    [
        grf.CompressedPowers(1, 1),
        grf.CompressedPowers(32, 2),
        grf.sampling.ExactPowers(6),
        grf.sampling.CutPowers(4, 6),
    ],
    ids=repr,
)
def test_a_block_takes_no_more_memory_than_it_says(karate, sampler):
    prepared = sampler.prepare(karate, 0)
    for n_rows, edges in ((1, 1 << 21), (1000, 1 << 21), (1000, 1 << 12)):
        device = DevicePowers(prepared, CPU, PowerCosts(edges=edges))
        peak = _peak(device, torch.arange(n_rows) % 34)
        assert peak <= device.working_bytes(n_rows)
    # And it says something.
    assert device.working_bytes(1000) < 10 * peak
