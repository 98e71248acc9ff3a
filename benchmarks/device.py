"""How fast are walks, products, PageRank and a Gaussian process on a torch device?

    python benchmarks/device.py                                  # all parts but `large`
    python benchmarks/device.py --device cpu --nodes 20000       # a minute without a GPU
    python benchmarks/device.py --parts gp --observed 300000
    python benchmarks/device.py --parts large --large 10000000   # 10M nodes: do they fit?

The device is CUDA where it is there. The graph is random, of mean degree 8; that of the Gaussian
process is a grid. The part `bits`
compares the device with the compiled loops on three graphs, and `features` some rows of what it has
timed. Figures are medians and ranges of some runs after a first one; the Gaussian process and the
large graph run once, after a small case that warms up. A case that fails is printed with its
traceback, the others run all the same, and the exit status is 1.

Beside each figure stands a nominal bandwidth, and its ratio to that of a large copy: the bytes of
the work if each random read took a sector of 32 bytes from memory. Only for products is this what
is moved: a large cache saves reads, and time spent on starting many small operations lowers the
ratio. `--json FILE` is replaced after each figure, so that a run that is stopped keeps those it
made. `checks/gpu.sh` runs every part with a time limit.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

import gpytorch
import numpy as np
import torch
from _machine import header
from pagerank import preferential
from walks import grid, random_graph, weighted

import graphrf as grf
from graphrf.features.device_record import device_record
from graphrf.gp import GRFKernel, pathwise_draws
from graphrf.gp.torch.device_factors import TorchFeatureFactor
from graphrf.pagerank import estimate, pagerank
from graphrf.pagerank.walks import pooled_torch
from graphrf.sampling.walks.walks_torch import DeviceWalks

# Nominal bytes of a step of a walk: two numbers of `indptr`, which share a sector, a neighbour in
# another one, and a key of 8 bytes written.
STEP_BYTES = 72
# Walkers of a pool that leave a node along one edge move together: a neighbour's number, and its
# population, read and written in a sector of its own.
EDGE_BYTES = 4 + 2 * 32
# A multiply-add of a compressed power: a number of 8
# bytes and an index of 4, and a sum of 8 bytes written.
MULTIPLY_BYTES = 20

Result = TypeVar("Result")


class Runs(NamedTuple):
    """Seconds of each run, and the largest peak of the device's memory while they lasted."""

    seconds: list[float]
    peak_gib: float | None

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


class Device:
    """The device, its copy bandwidth, the figures measured so far, and cases that failed."""

    def __init__(self, name: str, file: Path | None, *, silent: bool = False) -> None:
        self.device = torch.empty(0, device=name).device  # with its number
        self.on_gpu = self.device.type == "cuda"
        self.failed: list[str] = []
        self._silent = silent
        self._file = file
        self._figures: list[dict[str, object]] = []
        self._copied = 0.0

    @contextmanager
    def case(self, name: str) -> Iterator[None]:
        """A case whose failure is printed and kept, and ends no other."""
        try:
            yield
        except Exception:
            traceback.print_exc()
            self.failed.append(name)
        with suppress(RuntimeError):  # of a device that an error has left unusable
            torch.cuda.empty_cache()

    def timed(self, function: Callable[[], object], repeats: int = 3) -> Runs:
        """Each run, the device's work included, after a first one that is not counted."""
        return together([self.once(function)[0] for _ in range(repeats + 1)][1:])

    def once(self, function: Callable[[], Result]) -> tuple[Runs, Result]:
        """One run, and its result."""
        self.wait()
        if self.on_gpu:
            torch.cuda.reset_peak_memory_stats(self.device)
        started = time.perf_counter()
        result = function()
        self.wait()
        seconds = time.perf_counter() - started
        peak = torch.cuda.max_memory_allocated(self.device) / 2**30 if self.on_gpu else None
        return Runs([seconds], peak), result

    def wait(self) -> None:
        if self.on_gpu:
            torch.cuda.synchronize(self.device)

    def measure_bandwidth(self) -> None:
        """Ten copies of 1 GiB (256 MiB on the CPU), bytes read and written, once clocks rose."""
        source = torch.ones(2**28 if self.on_gpu else 2**26, device=self.device)
        target = torch.empty_like(source)

        def copies(n: int) -> None:
            for _ in range(n):
                target.copy_(source)

        self.once(lambda: copies(400 if self.on_gpu else 1))
        n = 10 if self.on_gpu else 1
        runs, moved = self.timed(lambda: copies(n)), 2 * n * source.nbytes
        self.rate("copy", moved / 1e9, "GB/s", runs)
        self._copied = moved / runs.median

    def rate(
        self, name: str, amount: float, unit: str, runs: Runs, moved: float | None = None
    ) -> None:
        """Print and keep the amount per second; `moved` are the nominal bytes."""
        self._figure(name, [amount / each for each in runs.seconds], unit, runs, moved)

    def duration(self, name: str, runs: Runs, moved: float | None = None) -> None:
        """Print and keep milliseconds; `moved` are the nominal bytes."""
        self._figure(name, [1e3 * each for each in runs.seconds], "ms", runs, moved)

    def _figure(
        self, name: str, values: list[float], unit: str, runs: Runs, moved: float | None
    ) -> None:
        value, low, high = statistics.median(values), min(values), max(values)
        found: dict[str, object] = {
            "name": name,
            "value": value,
            "low": low,
            "high": high,
            "unit": unit,
        }
        text = f"{name}: {value:.4g} {unit}" + (
            f" [{low:.4g}, {high:.4g}]" if len(values) > 1 else ""
        )
        if moved is not None and self._copied:
            speed = moved / runs.median
            found |= {"gb_per_s": speed / 1e9, "share_of_copy": speed / self._copied}
            text += f"; {speed / 1e9:.4g} GB/s, {speed / self._copied:.2f} of a copy"
        if runs.peak_gib is not None:
            found["peak_gib"] = runs.peak_gib
            text += f"; peak {runs.peak_gib:.2f} GiB"
        self.keep(found, text)

    def keep(self, found: dict[str, object], text: str) -> None:
        """Print the text, and write all figures with this one."""
        if not self._silent:
            print(text, flush=True)
        self._figures.append(found)
        if self._file is not None:
            new = self._file.with_suffix(".new")
            new.write_text(json.dumps(self._figures, indent=1), encoding="utf-8")
            new.replace(self._file)


def together(runs: Sequence[Runs]) -> Runs:
    """Several runs as one record."""
    peaks = [each.peak_gib for each in runs if each.peak_gib is not None]
    return Runs([seconds for each in runs for seconds in each.seconds], max(peaks, default=None))


def samplers(n_walks: int) -> dict[str, grf.RandomWalks | grf.CompressedPowers]:
    return {
        "stratified": grf.RandomWalks(n_walks, grf.sampling.Stratified(0.1)),
        "independent": grf.RandomWalks(
            n_walks, grf.sampling.Stratified(0.1), directions="independent"
        ),
        "compressed powers": grf.CompressedPowers(n_walks),
    }


def sampled_on(
    on: Device, graph: grf.Graph, sampler: grf.RandomWalks | grf.CompressedPowers
) -> grf.features.Features:
    return grf.sample_features(graph, sampler, seed=0, engine="torch", device=on.device)


def compared(name: str, made: grf.features.Features, graph: grf.Graph, on: Device) -> None:
    """Rows of what the device has sampled, from all its blocks, beside those of the compiled loops.

    Walks must have the same bits. Powers are sums of floating-point numbers, whose order is the
    device's, so that a choice among equal ones may differ: nine rows of ten must have the same
    nodes.
    """
    walks = isinstance(made.sampler, grf.RandomWalks)
    nodes = np.random.default_rng(0).permutation(graph.n_nodes)[:200]
    here = grf.sample_features(graph, made.sampler, nodes=nodes, seed=0).record
    there = made.take(nodes).to("cpu").record
    same = 0
    for row in range(nodes.size):
        one, other = (each.take(np.array([row])).arrays() for each in (here, there))
        same += all(
            np.array_equal(one[part], other[part]) for part in (one if walks else ("indices",))
        )
    what = (
        f"rows of {name} {'with the same bits as' if walks else 'with the same nodes as'} the "
        "compiled loops"
    )
    on.keep(
        {"name": what, "value": same, "unit": f"of {nodes.size}"}, f"{same} of {nodes.size} {what}"
    )
    if same < nodes.size * (1 if walks else 0.9):
        raise RuntimeError(f"only {same} of {nodes.size} {what}")


def bits(options: argparse.Namespace, on: Device) -> None:
    """Records of walks, and scores of pools, beside the compiled loops', on three graphs."""
    n_nodes = min(options.nodes, 20_000)
    plain = random_graph(n_nodes, 8)
    graphs = {"random": plain, "weighted": weighted(plain), "with hubs": preferential(n_nodes, 4)}
    walks = {
        **{
            name: sampler
            for name, sampler in samplers(options.walks).items()
            if "powers" not in name
        },
        "coupled": grf.RandomWalks(options.walks, grf.sampling.SigmaCoupled(0.1)),
        "of fixed length": grf.RandomWalks(
            options.walks, grf.sampling.Truncated(8), laplacian="combinatorial"
        ),
    }
    nodes = np.random.default_rng(0).permutation(n_nodes)[:500]
    torch_engine = {"engine": "torch", "device": on.device}
    equal = total = 0
    for name, graph in graphs.items():
        for kind, sampler in walks.items():
            total += 1
            with on.case(f"walks, {kind}, graph {name}"):
                here, there = (
                    grf.sample_features(graph, sampler, nodes=nodes, seed=0, **engine)
                    .to("cpu")
                    .record.arrays()
                    for engine in ({}, torch_engine)
                )
                for part, values in here.items():
                    np.testing.assert_array_equal(there[part], values, err_msg=part)
                equal += 1
        for p_halt in (0.15, 0.6):
            total += 1
            with on.case(f"pools, p_halt {p_halt}, graph {name}"):
                here, there = (
                    estimate(graph, seed=0, p_halt=p_halt, **engine).scores
                    for engine in ({}, torch_engine)
                )
                np.testing.assert_array_equal(there, here)
                equal += 1
    what = "cases identical to the compiled loops, bit for bit"
    on.keep({"name": what, "value": equal, "unit": f"of {total}"}, f"{equal} of {total} {what}")


def walks(
    options: argparse.Namespace, on: Device, graph: grf.Graph | None = None, name: str = "walks"
) -> None:
    """Walks with independent directions, not merged: keys (row, node, step) of all visits."""
    graph = graph or random_graph(options.nodes, 8)
    prepared = samplers(options.walks)["independent"].prepare(graph, 0)
    engine = DeviceWalks(prepared, on.device)
    rows = min(graph.n_nodes, int(5e7 / prepared.visits_per_row))
    sources = torch.arange(rows, device=on.device)
    n_steps = engine._walk_independent(sources).numel() - rows
    runs = on.timed(lambda: engine._walk_independent(sources))
    on.rate(name, n_steps / 1e6, "M steps/s", runs, STEP_BYTES * n_steps)


def features(options: argparse.Namespace, on: Device) -> None:
    """`sample_features` as a whole; what it prepares on the host is timed by itself, too."""
    graph = random_graph(options.nodes, 8)
    for name, sampler in samplers(options.walks).items():
        with on.case(f"features, {name}"):
            on.duration(
                f"{name}: preparation on the host",
                on.once(lambda s=sampler: s.prepare(graph, 0))[0],
            )
            made: list[grf.features.Features] = []

            def run(sampler=sampler, made=made) -> None:  # type: ignore[no-untyped-def]
                made.clear()  # one record at a time
                made.append(sampled_on(on, graph, sampler))

            _sampled(name, on, on.timed(run, repeats=2), made[0])
            compared(name, made[0], graph, on)
            del made[:]


def _sampled(name: str, on: Device, runs: Runs, made: grf.features.Features) -> None:
    powers = "powers" in name
    unit, each = ("M multiply-adds/s", MULTIPLY_BYTES) if powers else ("M steps/s", STEP_BYTES)
    moved = each * made.n_steps + made.nbytes
    on.rate(
        f"features, {name}, {made.nbytes / 2**30:.2f} GiB", made.n_steps / 1e6, unit, runs, moved
    )


def products(options: argparse.Namespace, on: Device) -> None:
    """F X and F^T Y with the matrices of a kernel; their bytes, and those of both sides once."""
    graph = random_graph(options.nodes, 8)
    sampled = sampled_on(on, graph, samplers(options.walks)["stratified"])
    factor = TorchFeatureFactor(sampled, on.device, torch.float32)
    f = torch.tensor(
        grf.Diffusion(1.0).modulation(sampled.max_length + 1), dtype=torch.float32, device=on.device
    )
    for width in (1, 16):
        x = torch.ones(graph.n_nodes, width, device=on.device)
        moved = 8 * sampled.nnz + 2 * x.nbytes
        for name, product in (("F X", factor.apply), ("F^T Y", factor.apply_t)):
            runs = on.timed(lambda product=product, x=x: product(f, x), repeats=5)
            on.duration(f"{name}, {width} columns", runs, moved)


def ranks(options: argparse.Namespace, on: Device) -> None:
    graph = random_graph(options.nodes, 8)
    exact = pagerank(graph).scores
    for n in (options.walks, 16 * options.walks):

        def run(n=n) -> grf.pagerank.PageRankEstimate:  # type: ignore[no-untyped-def]
            return estimate(graph, n_walks=n, seed=0, engine="torch", device=on.device)

        with _edges_dealt() as edges:
            result = run()
        runs = on.timed(run)
        error = float(np.abs(result.scores - exact).sum())
        name = f"pooled PageRank, {n} walks a node, {runs.median:.2f} s, L1 error {error:.4f}"
        on.rate(name, result.steps / 1e6, "M steps/s", runs, EDGE_BYTES * sum(edges))


@contextmanager
def _edges_dealt() -> Iterator[list[int]]:
    """A list of the edges along which walkers are dealt meanwhile, by parts of rounds."""
    edges: list[int] = []
    plain = pooled_torch._deal

    def counted(*given: object) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for targets, walkers in plain(*given):  # type: ignore[arg-type]
            edges.append(targets.numel())
            yield targets, walkers

    pooled_torch._deal = counted  # type: ignore[assignment]
    try:
        yield edges
    finally:
        pooled_torch._deal = plain


class Model(gpytorch.models.ExactGP):
    def __init__(self, x, y, kernel, likelihood) -> None:  # type: ignore[no-untyped-def]
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(kernel)

    def forward(self, x):  # type: ignore[no-untyped-def]
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def process(options: argparse.Namespace, on: Device) -> None:
    """Sample, train, and draw the posterior at all nodes; only observations are the host's."""
    # as many observed as bring conjugate gradients and their preconditioner into use
    _process(grid(80), 8, 2_500, 2, Device(str(on.device), None, silent=True))
    graph = grid(round(options.nodes**0.5))
    error, inside = _process(graph, options.walks, options.observed or graph.n_nodes // 10, 20, on)
    if not error < 0.8 or not 0.9 < inside < 0.999:
        raise RuntimeError(
            f"wrong predictions: error {error:.3f}, {inside:.3f} within 2 standard deviations"
        )


def _process(
    graph: grf.Graph, n_walks: int, n_observed: int, steps: int, on: Device
) -> tuple[float, float]:
    """Root mean square error of the mean, and the fraction of nodes within two deviations."""
    rng = np.random.default_rng(0)
    truth = grf.apply_root(graph, grf.Diffusion(4.0), rng.standard_normal(graph.n_nodes), tol=1e-6)
    truth /= truth.std()
    nodes = rng.permutation(graph.n_nodes)[:n_observed]
    noisy = truth[nodes] + 0.3 * rng.standard_normal(n_observed)
    y = torch.tensor(noisy, dtype=torch.float32, device=on.device)
    x = torch.tensor(nodes, device=on.device)[:, None]
    size = f"GP, {graph.n_nodes} nodes, {n_observed} observed"

    taken, sampled = on.once(lambda: _fixed_lengths(graph, n_walks, on))
    moved = STEP_BYTES * sampled.n_steps + sampled.nbytes
    on.duration(f"{size}: features, {sampled.nbytes / 2**30:.2f} GiB", taken, moved)
    with warnings.catch_warnings(record=True) as said, gpytorch.settings.max_cholesky_size(500):
        warnings.simplefilter("always")
        model = _model(sampled, x, y).to(on.device)
        with _bytes_of_products() as total:
            trained = _trained(model, x, y, steps, on)
        each = total[0] / steps
        on.duration(f"{size}: first training step", trained[0], each)
        with _bytes_of_products() as total:
            drawn, (mean, std, residual) = on.once(lambda: _drawn(model, x, y))
        on.duration(f"{size}: 64 draws everywhere, residual {residual:.1e}", drawn, total[0])
    for text, count in _counted(said).items():
        on.keep(
            {"name": f"warning: {text}", "value": count, "unit": "times"}, f"{count} times: {text}"
        )
    difference = mean - truth
    error, inside = (
        float(np.sqrt(np.mean(difference**2))),
        float(np.mean(np.abs(difference) < 2 * std)),
    )
    name = (
        f"{size}: error {error:.3f} of 1, {inside:.3f} of all nodes within 2 standard deviations; "
        "training step"
    )
    on.duration(name, together(trained[1:]), each)
    return error, inside


def _fixed_lengths(graph: grf.Graph, n_walks: int, on: Device) -> grf.features.Features:
    """Features of walks of 16 steps; as tensors on the CPU too, to run a GPU's code."""
    sampler = grf.RandomWalks(n_walks, grf.sampling.Truncated(16))
    sampled = grf.sample_features(graph, sampler, seed=0, engine="torch", device=on.device)
    if on.on_gpu:
        return sampled
    return grf.features.Features(
        sampled.info, sampled.nodes, device_record(sampled.record, on.device)
    )


def _model(sampled: grf.features.Features, x: torch.Tensor, y: torch.Tensor) -> Model:
    model = Model(
        x, y, GRFKernel(sampled, grf.Diffusion(2.0)), gpytorch.likelihoods.GaussianLikelihood()
    )
    model.mean_module.constant.data.fill_(float(y.mean()))
    return model


def _trained(model: Model, x: torch.Tensor, y: torch.Tensor, steps: int, on: Device) -> list[Runs]:
    """Each step of Adam, in their order."""
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.1)

    def step() -> None:
        optimiser.zero_grad()
        loss = -objective(model(x), y)
        loss.backward()
        optimiser.step()

    model.train()
    return [on.once(step)[0] for _ in range(steps)]


def _drawn(model: Model, x: torch.Tensor, y: torch.Tensor) -> tuple[np.ndarray, np.ndarray, float]:
    """Mean and standard deviation of 64 draws at all nodes, and the residual of their solves."""
    model.eval()
    with torch.no_grad():
        mean, noise = model.mean_module.constant, model.likelihood.noise
        draws = pathwise_draws(
            model.covar_module, x, y - mean, noise, n_samples=64, tol=1e-3, seed=0
        )
        values = draws.at(torch.arange(draws.coefficients.shape[0], device=x.device)) + mean
        found = (each.cpu().double().numpy() for each in (values.mean(0), values.std(0)))
        return (*found, draws.residual)


def _counted(said: list[warnings.WarningMessage]) -> dict[str, int]:
    """The first words of each kind of warning, and how often it came."""
    counts: dict[str, int] = {}
    for warning in said:
        text = " ".join(str(warning.message).split())[:60]
        counts[text] = counts.get(text, 0) + 1
    return counts


@contextmanager
def _bytes_of_products() -> Iterator[list[float]]:
    """One number: bytes that products with F and F^T move at least; gradients not counted."""
    total = [0.0]
    plain = TorchFeatureFactor.apply, TorchFeatureFactor.apply_t

    def counted(product: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def run(self: TorchFeatureFactor, f: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            result = product(self, f, x)
            total[0] += 8 * self._record.indices.numel() + x.nbytes + result.nbytes
            return result

        return run

    TorchFeatureFactor.apply, TorchFeatureFactor.apply_t = map(counted, plain)  # type: ignore[method-assign]
    try:
        yield total
    finally:
        TorchFeatureFactor.apply, TorchFeatureFactor.apply_t = plain  # type: ignore[method-assign]


def large(options: argparse.Namespace, on: Device) -> None:
    """Walks and their features: do so many nodes fit, and how fast are they?"""
    small, graph = random_graph(10_000, 8), random_graph(options.large, 8)
    with on.case("large, walks"):
        walks(options, on, graph, f"walks, {options.large} nodes")
    for name, sampler in samplers(options.walks).items():
        if isinstance(sampler, grf.RandomWalks):
            with on.case(f"large, {name}"):
                sampled_on(on, small, sampler)
                runs, made = on.once(lambda sampler=sampler: sampled_on(on, graph, sampler))
                _sampled(f"{options.large} nodes, {name}", on, runs, made)
                compared(f"{options.large} nodes, {name}", made, graph, on)
                del made


PARTS = {
    "bits": bits,
    "walks": walks,
    "features": features,
    "products": products,
    "pagerank": ranks,
    "gp": process,
    "large": large,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument(
        "--parts", nargs="+", choices=PARTS, default=[name for name in PARTS if name != "large"]
    )
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--large", type=int, default=10_000_000, metavar="NODES")
    parser.add_argument(
        "--observed", type=int, metavar="NODES", help="default: a tenth of the nodes"
    )
    parser.add_argument("--walks", type=int, default=32)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    on = Device(options.device, options.json)
    card = (
        torch.cuda.get_device_name(on.device) if on.on_gpu else f"{torch.get_num_threads()} threads"
    )
    print(f"{header('torch', 'gpytorch', 'linear_operator')}; {on.device}: {card}")
    on.measure_bandwidth()
    for name in options.parts:
        with on.case(name):
            PARTS[name](options, on)
    if on.failed:
        raise SystemExit(f"failed: {'; '.join(on.failed)}")


if __name__ == "__main__":
    main()
