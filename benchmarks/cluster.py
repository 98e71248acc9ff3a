"""What does a Dask cluster cost against one process, and what would more machines gain?

    python benchmarks/cluster.py             # overhead: two workers against two threads
    python benchmarks/cluster.py --paper     # and what the measured rates say of up to 128 workers
    python benchmarks/cluster.py --mapped    # instead: a graph larger than workers may be, on disk

Overhead: a random graph of mean degree 8, 16 walks a node, diffusion kernel; two workers with a
thread each on this machine. Both sides do the same in turn in every round, after one that is not
counted: medians of seconds, and of the rounds' ratios with the smallest and the largest. Results
are compared, rows bit for bit. CG are 30 steps on Phi Phi^T + 1, each with a product and some
vector operations here.

On paper (`gram_seconds`): Phi Phi^T v with all N rows, p = 1 column, W workers with a thread each.
Computing falls as 1 / W; what passes does not. In units of 8 N p bytes: v goes to the workers in
shares, 1 in all, and the rows come back, 1 in all; each worker has a part of Phi^T v, of which
W - 1 travel to be added up, eight on one worker at a time; and the sum goes to W - 1 workers. So
2 W - 1 leave workers, and as many reach them, 2 - 1 / W each in the mean. That is compared with
what Dask counted for 2 and 4 workers. The network's time is that of the busiest links, one after
another: 2 units here, at most 7 for each of the ceil(log_8 W) rounds of sums, and W - 1 where the
sum is, which one worker hands out. Dask's own time is that of a product with a graph of 64 nodes,
and a measured time for each task more than there. Speed and latency of the network are assumptions.
Features come in some 16 blocks, which bounds the workers that have something to do; `block_size=`
makes more.

Mapped: a ring with random edges, five edges a node, saved, opened, and walked from
100,000 nodes by two workers, and by one process with the same arrays in memory.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import dask.config
import numpy as np
import scipy.sparse as sp
from _machine import header, timed
from dask.distributed import Client, LocalCluster

import graphrf as grf

THREADS = 2
WALKS = grf.RandomWalks(16)
KERNEL = grf.Diffusion(2.0)
FAN_IN = 8  # parts of a sum that are joined in one task
MAPPED_NODES = 100_000
# Bytes; Python with compiled loops takes 200 MB, and Dask pauses a worker at 80 %.
LEAST_LIMIT = 500_000_000


def random_graph(n_nodes: int, edges: int, seed: int = 0) -> grf.Graph:
    rng = np.random.default_rng(seed)
    return grf.from_edges(
        rng.integers(0, n_nodes, edges), rng.integers(0, n_nodes, edges), n_nodes=n_nodes
    )


@contextmanager
def cluster(n_workers: int, **options: Any) -> Iterator[Client]:
    """Workers of one thread each on this machine."""
    with (
        LocalCluster(
            n_workers=n_workers, threads_per_worker=1, dashboard_address=":0", **options
        ) as made,
        Client(made) as client,
    ):
        yield client


# -- overhead --------------------------------------------------------------------------------------


class Rates(NamedTuple):
    """What was measured of one process and of Dask, for `gram_seconds`."""

    steps: float  # of walks, a second and thread
    entries: float  # of Phi, each used twice, a second and thread of a product
    product: float  # seconds of Dask for a product with two workers
    task: float  # seconds of Dask for a task
    entries_a_row: float
    bytes_a_row: float


def conjugate_gradients(
    product: Callable[[np.ndarray], np.ndarray], b: np.ndarray, steps: int
) -> np.ndarray:
    """So many steps of conjugate gradients on (product + 1) x = b."""
    x, residual = np.zeros_like(b), b.copy()
    direction, square = residual, residual @ residual
    for _ in range(steps):
        image = product(direction) + direction
        step = square / (direction @ image)
        x, residual = x + step * direction, residual - step * image
        square, before = residual @ residual, square
        direction = residual + square / before * direction
    return x


def in_turn(
    one: Callable[[int], Any], other: Callable[[int], Any], rounds: int
) -> list[tuple[float, float]]:
    """Seconds of both in each round, after one that is not counted."""
    seconds = []
    for number in range(rounds + 1):
        each = []
        for function in (one, other):
            started = time.perf_counter()
            function(number)
            each.append(time.perf_counter() - started)
        seconds.append((each[0], each[1]))
    return seconds[1:]


def overhead(client: Client, graph: grf.Graph, rounds: int) -> Rates:
    """Print the table; the rates that it shows."""
    here: list[grf.features.Features] = []
    there: list[grf.distributed.DistributedFeatures] = []

    def sample_here(number: int) -> None:
        here[:] = [grf.sample_features(graph, WALKS, seed=0, n_threads=THREADS)]

    def sample_there(number: int) -> None:
        there[:] = [grf.distributed.sample_features(graph, WALKS, client=client, seed=0)]

    print(
        "\n"
        f"{graph!r}, {THREADS} workers x 1 thread against one process with {THREADS} threads, "
        f"{rounds} rounds\n"
        f"{'':<28} {'one process s':>13} {'cluster s':>10} {'ratio':>6} [min, max]"
    )
    medians: dict[str, float] = {}

    def compare(what: str, one: Callable[[int], Any], other: Callable[[int], Any]) -> None:
        seconds = in_turn(one, other, rounds)
        ratios = [b / a for a, b in seconds]
        medians[what] = statistics.median(a for a, _ in seconds)
        print(
            f"{what:<28} {medians[what]:>13.3f} {statistics.median(b for _, b in seconds):>10.3f} "
            f"{statistics.median(ratios):>6.2f} [{min(ratios):.2f}, {max(ratios):.2f}]",
            flush=True,
        )

    compare("sampling", sample_here, sample_there)
    features, remote = here[0], there[0]
    f = KERNEL.modulation(features.max_length + 1)
    factor = features.factor(n_threads=THREADS)

    def gram(v: np.ndarray) -> np.ndarray:
        return factor.apply(f, factor.apply_t(f, v))

    rng = np.random.default_rng(1)
    for columns in (1, 8):
        v = rng.standard_normal((graph.n_nodes, columns))
        expected = gram(v)
        assert np.allclose(
            remote.gram_matvec(KERNEL, v), expected, atol=1e-8 * np.abs(expected).max()
        )
        compare(
            f"Phi Phi^T v, {columns} column{'s' * (columns > 1)}",
            lambda _, v=v: gram(v),
            lambda _, v=v: remote.gram_matvec(KERNEL, v),
        )
    b = rng.standard_normal(graph.n_nodes)
    own = remote.factor()
    compare(
        "CG, 30 steps",
        lambda _: conjugate_gradients(gram, b, 30),
        lambda _: conjugate_gradients(lambda v: own.gram_apply(f, v), b, 30),
    )
    found: list[sp.csr_array] = [None, None]

    def matrix_of(side: int, source: Any) -> Callable[[int], None]:
        # Another lengthscale in each round, so that both sides make the values anew.
        def make(number: int) -> None:
            found[side] = source.matrix(grf.Diffusion(2.0 - 0.01 * number))

        return make

    compare("matrix, gathered", matrix_of(0, features), matrix_of(1, remote))
    assert all(
        np.array_equal(getattr(found[0], name), getattr(found[1], name))
        for name in ("indices", "data")
    )
    found.clear()
    sources = rng.choice(graph.n_nodes, min(1_000, graph.n_nodes), replace=False)
    compare(
        f"local PageRank, {sources.size} sources",
        lambda _: grf.pagerank.local_pagerank(graph, sources, k=10, seed=0, n_threads=THREADS),
        lambda _: grf.distributed.local_pagerank(graph, sources, k=10, seed=0, client=client),
    )
    print_memory(remote)

    tiny = grf.distributed.sample_features(random_graph(64, 256), WALKS, client=client, seed=0)
    v = np.ones(64)
    tiny.gram_matvec(KERNEL, v)
    tasks = 200

    def nothing() -> list[int]:
        return client.gather(client.map(int, range(tasks), pure=False))

    nothing()
    return Rates(
        steps=features.n_steps / medians["sampling"] / THREADS,
        entries=2 * features.nnz / medians["Phi Phi^T v, 1 column"] / THREADS,
        product=timed(lambda: tiny.gram_matvec(KERNEL, v), 11)[0],
        task=timed(nothing)[0] / tasks,
        entries_a_row=features.nnz / graph.n_nodes,
        bytes_a_row=features.nbytes / graph.n_nodes,
    )


def print_memory(features: grf.distributed.DistributedFeatures) -> None:
    for held in features.memory().values():
        limit = "none" if held.limit is None else f"{held.limit / 1e6:.0f}"
        print(
            f"worker: {held.n_blocks} blocks of {held.blocks / 1e6:.0f} MB, process without mapped "
            f"files {held.private / 1e6:.0f} MB, peak with them {held.peak / 1e6:.0f} MB, limit "
            f"{limit} MB"
        )


# -- on paper --------------------------------------------------------------------------------------


def sum_rounds(workers: int) -> list[int]:
    """Parts that a worker gets from others in each round of sums, one after another."""
    rounds = []
    while workers > 1:
        rounds.append(min(workers, FAN_IN) - 1)
        workers = -(-workers // FAN_IN)
    return rounds


def bytes_from_workers(n_nodes: int, columns: int, workers: int) -> int:
    """Bytes that leave workers in a product with all rows: parts, sum, rows of the result."""
    return 8 * n_nodes * columns * (2 * workers - 1)


def gram_seconds(
    n_nodes: int, workers: int, rates: Rates, bandwidth: float, latency: float
) -> tuple[float, ...]:
    """Seconds of computing, Dask and the network in a product of one column and all rows."""
    compute = 2 * n_nodes * rates.entries_a_row / rates.entries / workers
    sums = sum_rounds(workers)
    # A task a worker for parts and for rows; one, or one for each eight workers and more rounds of
    # them, for sums.
    tasks = 2 * workers + sum(-(-workers // FAN_IN**level) for level in range(1, len(sums) + 1))
    dask = rates.product + max(tasks - 5, 0) * rates.task
    units = 2 + sum(sums) + (workers - 1)
    return compute, dask, units * 8 * n_nodes / bandwidth + (4 + len(sums)) * latency


def on_paper(rates: Rates) -> None:
    print(
        "\n"
        f"on paper, from: {rates.steps / 1e6:.1f} M steps/s and {rates.entries / 1e6:.0f} M "
        f"entries/s a thread, {1e3 * rates.product:.0f} ms of Dask a product, "
        f"{1e3 * rates.task:.2f} ms a task (measured);\n"
        f"{rates.entries_a_row:.0f} entries and {rates.bytes_a_row:.0f} bytes a row; network "
        "(assumed): 100 us, and 10 or 25 Gbit/s. Workers have a thread each."
    )
    for n_nodes in (10**6, 10**7, 10**8):
        share = 8 * n_nodes / 1e6
        print(
            "\n"
            f"N = {n_nodes:.0e}: features {n_nodes * rates.bytes_a_row / 1e9:.1f} GB; a column "
            f"{share:.0f} MB\n"
            f"{'workers':>7} {'features GB':>11} {'MB in':>7} {'compute s':>9} {'Dask s':>7} "
            f"{'10 Gbit/s':>10} {'all s':>7} {'25 Gbit/s':>10} {'all s':>7}"
        )
        begins: dict[int, int | None] = {10: None, 25: None}
        for workers in (1, 2, 4, 8, 16, 32, 64, 128):
            cells = []
            for speed in (10, 25):
                compute, dask, network = gram_seconds(
                    n_nodes, workers, rates, speed / 8 * 1e9, 1e-4
                )
                cells.append(f"{network:>10.3f} {compute + dask + network:>7.3f}")
                if network + dask > compute and begins[speed] is None:
                    begins[speed] = workers
            held = n_nodes * rates.bytes_a_row / workers / 1e9
            print(
                f"{workers:>7} {held:>11.2f} {share * (2 - 1 / workers):>7.1f} "
                f"{compute:>9.3f} {dask:>7.3f} {' '.join(cells)}"
            )
        for speed, workers in begins.items():
            more = "beyond 128" if workers is None else f"from {workers}"
            print(
                f"at {speed} Gbit/s Dask and network take longer than computing {more} workers on"
            )


def verify_bytes(n_nodes: int) -> None:
    """Print what left the workers in a product, by the formula and by Dask's count."""
    print("\nMB that leave workers in a product, by formula and as Dask counts them")
    graph = random_graph(n_nodes, 4 * n_nodes)
    for n_workers in (2, 4):
        with cluster(n_workers) as client:
            features = grf.distributed.sample_features(graph, WALKS, client=client, seed=0)
            for columns in (1, 8):
                v = np.ones((n_nodes, columns))
                features.gram_matvec(KERNEL, v)
                before = left_workers(client)
                features.gram_matvec(KERNEL, v)
                print(
                    f"{n_workers} workers, N = {n_nodes}, {columns} columns: "
                    f"{bytes_from_workers(n_nodes, columns, n_workers) / 1e6:.2f} and "
                    f"{(left_workers(client) - before) / 1e6:.2f}"
                )


def left_workers(client: Client) -> int:
    return sum(client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total).values())


# -- mapped graphs ---------------------------------------------------------------------------------


def ring_with_random_edges(n_nodes: int, n_edges: int) -> grf.Graph:
    """A ring, so that no node is isolated, and random edges."""
    ring, random = (
        np.arange(n_nodes),
        np.random.default_rng(2).integers(0, n_nodes, (2, n_edges - n_nodes)),
    )
    return grf.from_edges(
        np.r_[ring, random[0]], np.r_[(ring + 1) % n_nodes, random[1]], n_nodes=n_nodes
    )


def mapped(edges: int, rounds: int) -> None:
    n_nodes = edges // 5
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "graph"
        started = time.perf_counter()
        ring_with_random_edges(n_nodes, edges).save(folder)
        print(f"\nwritten in {time.perf_counter() - started:.1f} s")
        graph = grf.open_graph(folder, verify=False)
        size = graph.adjacency.indptr.nbytes + graph.adjacency.indices.nbytes + graph.degrees.nbytes
        limit = max(int(0.75 * size), LEAST_LIMIT)
        how = "below" if limit < size else "NOT below, pass more --edges"
        print(
            f"{graph!r}: walks read {size / 1e6:.0f} MB, limit of a worker {limit / 1e6:.0f} MB, "
            f"{how}"
        )
        nodes = np.sort(
            np.random.default_rng(3).choice(n_nodes, min(MAPPED_NODES, n_nodes), replace=False)
        )
        own = graph.adjacency
        inside = grf.Graph(
            sp.csr_array((own.data.copy(), own.indices.copy(), own.indptr.copy()), shape=own.shape)
        )
        # Dask counts mapped pages as the workers' memory, and would kill them for it.
        unwatched = {f"distributed.worker.memory.{name}": False for name in ("pause", "terminate")}
        with dask.config.set(unwatched), cluster(THREADS, memory_limit=limit) as client:
            there: list[grf.distributed.DistributedFeatures] = []
            here: list[grf.features.Features] = []

            def sample_there(number: int) -> None:
                there.clear()  # workers have no room for two
                there.append(
                    grf.distributed.sample_features(
                        graph, WALKS, client=client, nodes=nodes, seed=0
                    )
                )

            def sample_here(number: int) -> None:
                here[:] = [
                    grf.sample_features(inside, WALKS, nodes=nodes, seed=0, n_threads=THREADS)
                ]

            seconds = in_turn(sample_here, sample_there, rounds)
            ratios = [b / a for a, b in seconds]
            one, other = (statistics.median(each) for each in zip(*seconds, strict=True))
            print(
                f"{nodes.size} nodes: in memory, one process {one:.2f} s; mapped, on workers "
                f"{other:.2f} s; ratio {statistics.median(ratios):.2f} [{min(ratios):.2f}, "
                f"{max(ratios):.2f}]"
            )
            assert (there[0].n_steps, there[0].nnz) == (here[0].n_steps, here[0].nnz)
            print_memory(there[0])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--paper", action="store_true", help="and growth with workers, on paper")
    parser.add_argument("--mapped", action="store_true", help="only graphs on disk")
    parser.add_argument("--edges", type=int, default=20_000_000, help="of the graph on disk")
    options = parser.parse_args()
    print(header("scipy", "dask", "distributed"))
    if options.mapped:
        mapped(options.edges, options.rounds)
        return
    with cluster(THREADS) as client:
        rates = overhead(
            client, ring_with_random_edges(options.nodes, 4 * options.nodes), options.rounds
        )
    if options.paper:
        verify_bytes(min(options.nodes, 200_000))
        on_paper(rates)


if __name__ == "__main__":
    main()
