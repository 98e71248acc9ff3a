"""The main job on a Dask cluster: features, products, a Gaussian process, PageRank.

The graph is a grid of streets with a few shortcuts, the signal a draw of a diffusion kernel, seen
with noise at a tenth of the nodes. Rows are sampled on the workers and stay there; what travels is
counted where it leaves a worker. Predictions are compared with the signal, and the neighbours of a
few hundred nodes are asked for.

    python examples/cluster.py                                     # two workers on this machine
    python examples/cluster.py --out cluster.png --path features   # keeps features, or reads them
    python examples/cluster.py --scheduler tcp://HOST:8786         # a cluster that is there
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import numpy as np
from _figures import figure
from _options import add_figure_option
from dask.distributed import Client, LocalCluster

import graphrf as grf
from graphrf.distributed import DistributedFeatures, WorkerMemory
from graphrf.plot import COLOURS, DEVIATIONS, VALUES

KERNEL = grf.Diffusion(6.0)
NOISE = 0.25  # variance
WINDOW = 80  # side of the part that is drawn
PATIENCE = 10  # seconds for a scheduler, and for its workers


# -- the cluster -----------------------------------------------------------------------------------


@contextmanager
def connected(options: argparse.Namespace) -> Iterator[Client]:
    """A client of the scheduler at the given address, or of workers started here."""
    with ExitStack() as stack:
        if options.scheduler is None:
            cluster = LocalCluster(
                n_workers=options.workers,
                threads_per_worker=options.threads,
                dashboard_address=":0",
            )
            client = stack.enter_context(Client(stack.enter_context(cluster)))
        else:
            try:
                client = stack.enter_context(Client(options.scheduler, timeout=PATIENCE))
            except (OSError, TimeoutError, ValueError) as error:
                raise SystemExit(
                    f"no scheduler answers at {options.scheduler} ({error}): `dask scheduler` "
                    "starts one and says its address; without --scheduler workers are started here"
                ) from None
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            raise SystemExit(
                f"the scheduler at {client.scheduler.address} has no worker: `dask worker "
                f"{client.scheduler.address}` starts one"
            ) from None
        yield client


def sent(client: Client) -> int:
    """Bytes that have left the workers so far."""
    return sum(client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total).values())


class Stage(NamedTuple):
    """What the workers held at the end of a part of the job."""

    name: str
    held: dict[str, WorkerMemory]


class Stages:
    """Prints each part with its time and traffic, and remembers what workers held."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.done: list[Stage] = []

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Time and traffic of a block of code, in a line."""
        before, started = sent(self.client), time.perf_counter()
        yield
        seconds = time.perf_counter() - started
        megabytes = (sent(self.client) - before) / 1e6
        print(f"  {what:<46} {seconds:7.2f} s, {megabytes:8.1f} MB left the workers", flush=True)

    def end(self, name: str, features: DistributedFeatures) -> None:
        """The end of a part: what is held now."""
        self.done.append(Stage(name, features.memory()))


# -- the job ---------------------------------------------------------------------------------------


class Task(NamedTuple):
    """A square grid with shortcuts, the true signal, and noisy observations of it."""

    graph: grf.Graph
    side: int
    signal: np.ndarray
    nodes: np.ndarray
    observed: np.ndarray


def made(n_nodes: int, seed: int) -> Task:
    """The task on about so many nodes; a shortcut for every 200 of them."""
    rng = np.random.default_rng(seed)
    side = round(n_nodes**0.5)
    at = np.arange(side * side).reshape(side, side)
    shortcuts = rng.integers(0, at.size, (2, at.size // 200))
    sources = np.concatenate([at[:, :-1].ravel(), at[:-1].ravel(), shortcuts[0]])
    targets = np.concatenate([at[:, 1:].ravel(), at[1:].ravel(), shortcuts[1]])
    graph = grf.from_edges(sources, targets, n_nodes=at.size)
    signal = grf.apply_root(graph, KERNEL, rng.standard_normal(at.size))
    signal /= signal.std()
    nodes = np.sort(rng.choice(at.size, at.size // 10, replace=False))
    return Task(
        graph, side, signal, nodes, signal[nodes] + NOISE**0.5 * rng.standard_normal(nodes.size)
    )


def sampled(task: Task, stages: Stages, options: argparse.Namespace) -> DistributedFeatures:
    """Features of all nodes, on the workers."""
    print("features")
    with stages.timed(
        "sampled" if options.path is None else f"sampled, or read from {options.path}"
    ):
        features = grf.distributed.sample_features(
            task.graph,
            grf.RandomWalks(options.walks),
            client=stages.client,
            seed=options.seed,
            path=options.path,
            progress=True,
        )
    stages.end("features", features)
    print(
        f"  {features}: {features.n_steps:,} steps, {features.nnz:,} entries, "
        f"{features.nbytes / 1e6:.0f} MB"
    )
    return features


def multiply(features: DistributedFeatures, stages: Stages) -> None:
    """Gram products: the first makes the values of the features."""
    print("products Phi Phi^T v")
    for number, columns in enumerate((1, 1, 8)):
        v = np.ones((features.shape[0], columns))
        with stages.timed(
            f"{columns} column{'s' * (columns > 1)}{', for the first time' * (number == 0)}"
        ):
            features.gram_matvec(KERNEL, v)
    stages.end("products", features)


def predicted(
    task: Task, features: DistributedFeatures, stages: Stages, options: argparse.Namespace
) -> tuple[np.ndarray, np.ndarray]:
    """Posterior mean and standard deviation at all nodes, for a known kernel."""
    print(f"Gaussian process, {task.nodes.size} of {task.graph.n_nodes} nodes observed")
    walks = grf.RandomWalks(options.walks, grf.sampling.Truncated(KERNEL.truncation_length(1e-2)))
    # A block of F^T y has the length of all nodes, so few rows do not need many blocks.
    threads = sum(stages.client.nthreads().values())
    place = grf.distributed.on_cluster(stages.client, block_size=-(-task.nodes.size // threads))
    gp = grf.GraphGPRegressor(
        task.graph,
        kernel=KERNEL,
        optimize=False,
        output_scale=1.0,
        noise=NOISE,
        numerics=grf.gp.Numerics(
            sampler=walks, feature_sampler=place, solver="cg", tol=1e-2, max_train=250
        ),
        seed=options.seed,
        progress=True,
    )
    with stages.timed("observed rows sampled, and solved for the mean"):
        gp.fit(task.nodes, task.observed)
    with stages.timed("standard deviations, from 64 posterior draws"):
        mean, std = gp.predict(return_std=True)
    stages.end("GP", features)
    rest = np.setdiff1d(np.arange(task.graph.n_nodes), task.nodes)
    error = np.abs(mean - task.signal)[rest]
    covered = np.mean(error <= 2 * std[rest])
    rmse = np.sqrt(np.mean(error**2))
    print(
        f"  at the others: RMSE {rmse:.3f} (of a constant: 1); within two standard deviations "
        f"{covered:.3f}"
    )
    return mean, std


def ranked(
    task: Task, features: DistributedFeatures, stages: Stages, options: argparse.Namespace
) -> None:
    """The best ten of some nodes by personalised PageRank."""
    n_nodes = task.graph.n_nodes
    sources = np.random.default_rng(options.seed).choice(
        n_nodes, min(options.queries, n_nodes), replace=False
    )
    print("local PageRank")
    with stages.timed(f"the ten best of {sources.size} nodes"):
        result = grf.distributed.local_pagerank(
            task.graph, sources, client=stages.client, k=10, seed=options.seed, progress=True
        )
    stages.end("PageRank", features)
    own = np.mean(result.scores[np.arange(sources.size), sources])
    print(f"  a node's own score is {own:.3f} on average")


# -- what is printed and drawn at the end ----------------------------------------------------------


def megabytes(nbytes: int | None) -> str:
    return "none" if nbytes is None else f"{nbytes / 1e6:.0f}"


def print_memory(stages: Stages) -> None:
    """A row for each worker."""
    print(
        "\n"
        "memory of the workers in MB: of the features' blocks, of the process without mapped "
        "files, its peak"
    )
    print(f"{'worker':<28} {'blocks':>6} {'in MB':>8} {'process':>8} {'peak':>8} {'limit':>8}")
    for address, held in stages.done[-1].held.items():
        sizes = " ".join(
            f"{megabytes(size):>8}" for size in (held.blocks, held.private, held.peak, held.limit)
        )
        print(f"{address:<28} {held.n_blocks:>6} {sizes}")


def draw(task: Task, mean: np.ndarray, std: np.ndarray, stages: Stages, path: str) -> None:
    """Maps of the signal, prediction and deviation, and memory of workers after parts."""
    corner = slice(min(task.side, WINDOW)), slice(min(task.side, WINDOW))
    at = task.nodes // task.side, task.nodes % task.side
    shown = (at[0] < WINDOW) & (at[1] < WINDOW)
    low, high = np.quantile(task.signal, [0.005, 0.995])
    maps = (
        (
            f"signal: {corner[0].stop} x {corner[1].stop} of {task.side} x {task.side} nodes",
            task.signal,
        ),
        ("prediction from noisy values at a tenth", mean),
        ("standard deviation, and the nodes observed", std),
    )
    with figure(path, height=6.6) as sheet:
        axes = sheet.subplots(2, 2)
        for ax, (title, values) in zip(axes.flat[:3], maps, strict=True):
            if values is std:
                ends = {"cmap": DEVIATIONS}
            else:
                ends = {"cmap": VALUES, "vmin": low, "vmax": high}
            image = ax.imshow(
                values.reshape(task.side, task.side)[corner], interpolation="nearest", **ends
            )
            bar = sheet.colorbar(
                image, ax=ax, shrink=0.9, extend="neither" if values is std else "both"
            )
            bar.outline.set_visible(False)
            ax.set_title(title)
            ax.set_axis_off()
        axes[1, 0].plot(at[1][shown], at[0][shown], ".", color="white", markersize=1.8)
        draw_memory(axes.flat[3], stages.done)


def draw_memory(ax: Any, done: list[Stage]) -> None:
    """Bars of each worker's memory by stage, and of that the features' blocks."""
    there = sorted({worker for stage in done for worker in stage.held})
    width = 0.8 / len(there)
    for number, worker in enumerate(there):
        at = np.arange(len(done)) + (number - (len(there) - 1) / 2) * width
        held = [stage.held.get(worker, WorkerMemory(0, 0, 0, 0, None)) for stage in done]
        first = number == 0
        ax.bar(
            at,
            [memory.private / 1e6 for memory in held],
            0.92 * width,
            color=COLOURS[5],
            label="whole process, without mapped files" if first else None,
        )
        ax.bar(
            at,
            [memory.blocks / 1e6 for memory in held],
            0.92 * width,
            color=COLOURS[0],
            label="blocks of features" if first else None,
        )
        if len(there) <= 8:
            for place in at:
                ax.annotate(
                    str(number + 1),
                    (place, 0),
                    (0, 2),
                    textcoords="offset points",
                    ha="center",
                    fontsize=8,
                    color="white",
                )
    ax.set_xticks(np.arange(len(done)), [stage.name for stage in done])
    ax.set_xlabel("after computing")
    ax.set_ylabel("memory (MB)")
    ax.set_title("memory of each worker" + (" (1, 2, ...)" if len(there) <= 8 else ""))
    ax.margins(y=0.3)
    ax.legend(loc="upper left")
    ax.grid(visible=False, axis="x")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--scheduler", metavar="ADDRESS", help="of a cluster; default: workers on this machine"
    )
    parser.add_argument("--workers", type=int, default=2, help="started here, without --scheduler")
    parser.add_argument("--threads", type=int, default=1, help="of each of these")
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--walks", type=int, default=16, help="from each node")
    parser.add_argument("--queries", type=int, default=300, help="nodes asked for by PageRank")
    parser.add_argument(
        "--path", metavar="FOLDER", help="keep features here, or go on with those that are here"
    )
    parser.add_argument("--seed", type=int, default=0)
    add_figure_option(parser)
    options = parser.parse_args()
    for name, least in (
        ("workers", 1),
        ("threads", 1),
        ("nodes", 100),
        ("walks", 1),
        ("queries", 1),
    ):
        if getattr(options, name) < least:
            parser.error(f"--{name} must be at least {least}")

    with connected(options) as client:
        threads = client.nthreads()
        print(f"{len(threads)} workers with {sum(threads.values())} threads in all", flush=True)
        task = made(options.nodes, options.seed)
        print(task.graph)
        stages = Stages(client)
        features = sampled(task, stages, options)
        multiply(features, stages)
        mean, std = predicted(task, features, stages, options)
        ranked(task, features, stages, options)
        print_memory(stages)
    if options.out:
        draw(task, mean, std, stages, options.out)


if __name__ == "__main__":
    main()
