"""What does a torch device do with walks, features, PageRank and a Gaussian process, against the bandwidth it has?

    python benchmarks/device.py                                    # every part, on CUDA if it is there
    python benchmarks/device.py --device cpu --nodes 20000         # the same code in a minute without a GPU
    python benchmarks/device.py --parts gp --observed 300000
    python benchmarks/device.py --parts large --large 10000000     # 10M nodes: do they fit, and how fast?

A random graph of mean degree 8; for the Gaussian process a grid. Figures are the median and range of three runs
after a first one, but for the Gaussian process and the large graph, which run once, the former after a small case
that warms up. Before anything is timed, rows from the device are compared with those of the compiled loops.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import gpytorch
import numpy as np
import torch
from _machine import header
from walks import grid, random_graph

import graphrf as grf
from graphrf.gp import GRFKernel, pathwise_draws
from graphrf.pagerank import pagerank, power_iteration
from graphrf.sampling.walks.walks_torch import DeviceWalks

PARTS = ("walks", "features", "products", "pagerank", "gp", "large")
# Of a step that walks cannot do without: two numbers of `indptr` and a neighbour, each from a sector of 32 bytes
# read at random, and a key of 8 bytes written.
STEP_BYTES = 72


def timed(function: Callable[[], object], device: torch.device, repeats: int = 3) -> list[float]:
    """Seconds of each run, the device's work included, after a first one that is not counted."""
    return sorted([once(function, device)[0] for _ in range(repeats + 1)][1:])


def once(function: Callable[[], object], device: torch.device) -> tuple[float, object]:
    wait(device)
    started = time.perf_counter()
    result = function()
    wait(device)
    return time.perf_counter() - started, result


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def rate(amount: float, seconds: list[float], unit: str) -> str:
    middle = seconds[len(seconds) // 2]
    return f"{amount / middle:>8.1f} {unit} [{amount / seconds[-1]:.1f}, {amount / seconds[0]:.1f}]"


def peak(device: torch.device) -> str:
    if device.type != "cuda":
        return ""
    gib = torch.cuda.max_memory_allocated(device) / 2**30
    torch.cuda.reset_peak_memory_stats(device)
    return f", peak {gib:.1f} GiB on the device"


def bandwidth(device: torch.device) -> float:
    """GB/s of a copy, read and written bytes together."""
    source = torch.ones(2**28 if device.type == "cuda" else 2**26, device=device)
    target = torch.empty_like(source)
    seconds = timed(lambda: target.copy_(source), device)
    print(f"copy of {source.nbytes / 2**30:.2f} GiB: {rate(2 * source.nbytes / 1e9, seconds, 'GB/s')}")
    return 2 * source.nbytes / 1e9 / seconds[1]


def samplers(n_walks: int) -> dict[str, grf.RandomWalks | grf.CompressedPowers]:
    return {
        "independent": grf.RandomWalks(n_walks, grf.Stratified(0.1), directions="independent"),
        "stratified": grf.RandomWalks(n_walks, grf.Stratified(0.1)),
        "compressed powers": grf.CompressedPowers(n_walks),
    }


def check(graph: grf.Graph, n_walks: int, device: torch.device) -> None:
    """Rows of the device against those of the compiled loops."""
    nodes = np.random.default_rng(0).permutation(graph.n_nodes)[:500]
    for name, sampler in samplers(n_walks).items():
        here = grf.sample_features(graph, sampler, nodes=nodes, seed=0)
        there = grf.sample_features(graph, sampler, nodes=nodes, seed=0, engine="torch", device=device).to("cpu")
        same = all(
            np.array_equal(getattr(here.record, part), getattr(there.record, part))
            for part in ("indptr", "indices", "steps", "counts")
        )
        print(f"500 rows of {name}: {'the same bits as on the CPU' if same else 'NOT the bits of the CPU'}")


def walks(graph: grf.Graph, n_walks: int, device: torch.device, copied: float) -> None:
    """Walks with independent directions, not merged: keys (row, node, step) of all visits."""
    prepared = samplers(n_walks)["independent"].prepare(graph, 0)
    engine = DeviceWalks(prepared, device)
    rows = min(graph.n_nodes, int(5e7 / prepared.visits_per_row))
    sources = torch.arange(rows, device=device)
    n_steps = engine._walk_independent(sources).numel() - rows
    seconds = timed(lambda: engine._walk_independent(sources), device)
    used = STEP_BYTES * n_steps / seconds[1] / 1e9
    print(
        f"walks alone: {rate(n_steps / 1e6, seconds, 'M steps/s')}; {STEP_BYTES} bytes a step are "
        f"{used:.0f} GB/s, {used / copied:.2f} of a copy{peak(device)}"
    )


def features(graph: grf.Graph, n_walks: int, device: torch.device, copied: float) -> None:
    for name, sampler in samplers(n_walks).items():
        made: list[grf.Features] = []

        def run(sampler=sampler, made=made) -> None:  # type: ignore[no-untyped-def]
            made.clear()  # one record at a time
            made.append(grf.sample_features(graph, sampler, seed=0, engine="torch", device=device))

        seconds = timed(run, device)
        what = "M multiply-adds/s" if "powers" in name else "M steps/s"
        print(f"features, {name}: {rate(made[0].n_steps / 1e6, seconds, what)}, "
              f"{made[0].nbytes / 2**30:.2f} GiB{peak(device)}")  # fmt: skip


def products(graph: grf.Graph, n_walks: int, device: torch.device, copied: float) -> None:
    """Phi X with the CSR matrix of a kernel: bytes of the matrix, and of X and the result once."""
    sampled = grf.sample_features(graph, samplers(n_walks)["stratified"], seed=0, engine="torch", device=device)
    matrix = sampled.torch(grf.Diffusion(1.0))
    for width in (1, 16):
        x = torch.ones(graph.n_nodes, width, device=device)
        seconds = timed(lambda x=x: matrix @ x, device)
        moved = (8 * sampled.nnz + 2 * x.nbytes) / 1e9
        share = moved / seconds[1] / copied
        print(f"Phi X, {width:>2} columns: {rate(moved, seconds, 'GB/s')}, {share:.2f} of a copy")


def ranks(graph: grf.Graph, n_walks: int, device: torch.device, copied: float) -> None:
    exact = power_iteration(graph).scores
    for n in (n_walks, 16 * n_walks):
        result = pagerank(graph, n_walks=n, seed=0, engine="torch", device=device)
        seconds = timed(lambda n=n: pagerank(graph, n_walks=n, seed=0, engine="torch", device=device), device)
        error = float(np.abs(result.scores - exact).sum())
        print(f"pooled PageRank, {n} walks a node: {rate(result.steps / 1e6, seconds, 'M steps/s')}, "
              f"{seconds[1]:.2f} s, L1 error {error:.4f}{peak(device)}")  # fmt: skip


class Model(gpytorch.models.ExactGP):
    def __init__(self, x, y, kernel, likelihood) -> None:  # type: ignore[no-untyped-def]
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(kernel)

    def forward(self, x):  # type: ignore[no-untyped-def]
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def process(graph: grf.Graph, n_walks: int, n_observed: int, device: torch.device, steps: int = 20) -> None:
    """Sample, train, and predict means and deviations at all nodes, nothing leaving the device."""
    rng = np.random.default_rng(0)
    truth = grf.apply_root(graph, grf.Diffusion(4.0), rng.standard_normal(graph.n_nodes), tol=1e-6)
    truth /= truth.std()
    nodes = rng.permutation(graph.n_nodes)[:n_observed]
    y = torch.tensor(truth[nodes] + 0.3 * rng.standard_normal(n_observed), dtype=torch.float32, device=device)
    x = torch.tensor(nodes, device=device)[:, None]
    every = torch.arange(graph.n_nodes, device=device)
    taken: dict[str, float] = {}

    def sample() -> grf.Features:
        return grf.sample_features(
            graph, grf.RandomWalks(n_walks, grf.Truncated(16)), seed=0, engine="torch", device=device
        )

    taken["sample"], sampled = once(sample, device)
    with warnings.catch_warnings(), gpytorch.settings.max_cholesky_size(500):
        warnings.simplefilter("ignore")
        kernel = GRFKernel(sampled, grf.Diffusion(2.0)).to(device)
        model = Model(x, y, kernel, gpytorch.likelihoods.GaussianLikelihood()).to(device)
        model.mean_module.constant.data.fill_(float(y.mean()))

        def train() -> None:
            model.train()
            objective = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
            optimiser = torch.optim.Adam(model.parameters(), lr=0.1)
            for _ in range(steps):
                optimiser.zero_grad()
                loss = -objective(model(x), y)
                loss.backward()
                optimiser.step()

        def predict() -> tuple[torch.Tensor, torch.Tensor]:
            model.eval()
            with torch.no_grad():
                mean = model.mean_module.constant
                draws = pathwise_draws(
                    model.covar_module, x, y - mean, model.likelihood.noise, n_samples=64, tol=1e-3, seed=0
                ).at(every)
                return draws.mean(0) + mean, draws.std(0)

        taken["train"], _ = once(train, device)
        taken["predict"], (mean, std) = once(predict, device)
    error = mean.cpu().double().numpy() - truth
    inside = float(np.mean(np.abs(error) < 2 * std.cpu().double().numpy()))
    print(
        f"Gaussian process, {graph.n_nodes} nodes, {n_observed} observed, {steps} steps of Adam: "
        + ", ".join(f"{name} {seconds:.1f} s" for name, seconds in taken.items())
        + f", in all {sum(taken.values()):.1f} s; root mean square error {np.sqrt(np.mean(error**2)):.3f} "
        f"of a deviation of 1, {inside:.3f} of all nodes within 2 deviations{peak(device)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS[:-1])
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--large", type=int, default=10_000_000, metavar="NODES")
    parser.add_argument("--observed", type=int, metavar="NODES", help="default: a fifth of the nodes")
    parser.add_argument("--walks", type=int, default=32)
    options = parser.parse_args()
    device = torch.device(options.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else f"{torch.get_num_threads()} threads"
    print(f"{header('torch', 'gpytorch', 'linear_operator')}; {device}: {name}")
    copied = bandwidth(device)
    graph = random_graph(options.nodes, 8)
    check(graph, options.walks, device)
    for part, function in (("walks", walks), ("features", features), ("products", products), ("pagerank", ranks)):
        if part in options.parts:
            function(graph, options.walks, device, copied)
    if "gp" in options.parts:
        smooth = grid(round(options.nodes**0.5))
        process(grid(40), options.walks, 200, device, steps=2)
        process(smooth, options.walks, options.observed or smooth.n_nodes // 5, device)
    if "large" in options.parts:
        large = random_graph(options.large, 8)
        walks(large, options.walks, device, copied)
        for name, sampler in samplers(options.walks).items():
            seconds, made = once(
                lambda sampler=sampler: grf.sample_features(large, sampler, seed=0, engine="torch", device=device),
                device,
            )
            assert isinstance(made, grf.Features)
            print(f"{options.large} nodes, {name}: {seconds:.1f} s, {made.n_steps / seconds / 1e6:.1f}M a second, "
                  f"{made.nbytes / 2**30:.1f} GiB{peak(device)}")  # fmt: skip
            del made


if __name__ == "__main__":
    main()
