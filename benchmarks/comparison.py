"""Which way to a Gaussian process on N nodes: dense, eigenpairs, precision, series or a rival?

    python benchmarks/comparison.py [--cases road hubs matern] [--methods ...] [--sizes ...]
    [--limit SECONDS]

Cases: `road`, a square grid of which 15 % of the edges are missing, and `hubs`, a Barabasi-Albert
graph that joins every node to 4, with draws of exp(-l^2 L / 2), l = 6 and 4 (L the normalized
Laplacian); `matern`, the road with a draw of (4 / l^2 I + L)^-2, l = 6. Variances are about 1. A
tenth of the nodes, at most 10,000, are observed with noise of deviation 0.1; asked are means and
deviations at 1,000 others. Every method gets the same data.

- `dense`: all eigenpairs and Cholesky; exact, and what the others are compared with.
- `eigenpairs`: the 200 smoothest, by scipy's `eigsh` (shift and invert on roads, Lanczos on hubs;
  `eigh` up to 1,200 nodes), then linear regression on them; scaled to the prior's mean variance, as
  GeometricKernels does.
- `precision`: `GraphGPRegressor(method="precision")`. It is exact in `matern`. It has no diffusion
  kernel: in the other cases it is another prior, a Matern kernel with the l, nu and scale that
  maximise its own posterior density on 1,024 nodes of such a graph, half of them observed, found
  beforehand.
- `lu`: the same posterior by scipy's sparse LU (SuperLU, minimum degree), a solve for every
  deviation.
- `amg`: the same mean by conjugate gradients with pyamg's smoothed aggregation, to 1e-8, and
  deviations from 64 draws.
- `series` and `walks`: `GraphGPRegressor(method=...)`, else with its defaults: compressed powers
  for `walks`, and deviations by 64 draws beyond 7,000 observed nodes.
- `fast-graph-gp`: its own defaults, with which it trains a kernel of its own
  (`pip install -r benchmarks/requirements.txt`).

All but `fast-graph-gp` know the prior and the noise, so that seconds are those of inference alone:
from graph and observations to the answers. The rival's hold its training (100 steps), which is not
to be compared with them; `benchmarks/gp.py` trains both.

Each method and size runs in a process of its own, where a small graph was done before, so that
loops are compiled. Seconds are medians [smallest, largest] of three runs, of fewer where these take
10 s. MB is the peak of memory above that of the small graph. RMSE is of the mean against the truth,
NLPD of new observations. The last columns are the RMS difference from the exact mean, in exact
deviations, and the median relative one of the deviation. A run of more than `--limit` seconds or
`--memory` GiB ends, and its method is not tried with more nodes, nor where growth as N (`dense`:
N^3; `series` and `walks`, whose number of observations stops growing: none) would exceed it.

By default `road` is run, without the rival.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

CASES = ("road", "hubs", "matern")
METHODS = ("dense", "eigenpairs", "precision", "lu", "amg", "series", "walks", "fast-graph-gp")
SIZES = (1_024, 4_096, 10_000, 100_000, 1_000_000)
NOISE = 0.1
PAIRS = 200
# The power of N with which seconds are sure to grow; otherwise 1.
GROWTH = {"dense": 3, "series": 0, "walks": 0}
MISSING, JOINED = 0.15, 4
OBSERVED, ASKED = 10_000, 1_000
LENGTHSCALE = {"road": 6.0, "hubs": 4.0, "matern": 6.0}
ENOUGH = 10.0  # seconds, after which no run is repeated
UNSURE = 300.0  # seconds beside those of the runs: imports, compilation, what is found beforehand
COLUMNS = ("method", "N", "seconds", "MB", "RMSE", "NLPD", "mean error", "std error")


class Data(NamedTuple):
    """A graph, what is known of it and what is asked."""

    case: str
    graph: Any
    scale: float
    nodes: Any
    y: Any
    asked: Any
    truth: Any


# -- in the processes that measure: what follows imports numpy and graphrf where it is needed, so
# that the process that starts them, whose memory they would be charged with, stays small.


def graph_of(case: str, n_nodes: int) -> Any:
    """A road-like grid, or a graph with hubs."""
    import numpy as np

    import graphrf as grf

    rng = np.random.default_rng(0)
    if case != "hubs":
        side = math.isqrt(n_nodes)
        places = np.arange(side * side).reshape(side, side)
        steps = (places[:, :-1], places[:, 1:]), (places[:-1], places[1:])
        source, target = (np.concatenate([step[end].ravel() for step in steps]) for end in (0, 1))
        kept = rng.random(source.size) > MISSING
        return grf.from_edges(source[kept], target[kept], n_nodes=side * side)
    # End 2 i is the new node of edge i; end 2 i + 1 is
    # any end before it, followed until it is a new node.
    edges = JOINED * n_nodes
    source = np.arange(edges) // JOINED
    chosen = rng.integers(0, 2 * np.arange(edges) + 1)
    place = chosen.copy()
    while (odd := place % 2 == 1).any():
        place[odd] = chosen[place[odd] // 2]
    target = source[place // 2]
    return grf.from_edges(source[source != target], target[source != target], n_nodes=n_nodes)


def kernel_of(case: str) -> Any:
    """The kernel that the truth is drawn from."""
    import graphrf as grf

    if case == "matern":
        return grf.Matern(nu=2.0, lengthscale=LENGTHSCALE[case])
    return grf.Diffusion(LENGTHSCALE[case])


def data_of(case: str, n_nodes: int, share: float = 0.1) -> Data:
    """The draw and the observations."""
    import numpy as np

    import graphrf as grf

    kernel = kernel_of(case)
    small = graph_of(case, 1_024)
    scale = 1 / float(kernel.dense(small).diagonal().mean())
    graph, rng = graph_of(case, n_nodes), np.random.default_rng(1)
    n = graph.n_nodes
    truth = np.sqrt(scale) * grf.apply_root(graph, kernel, rng.standard_normal(n), tol=1e-8)
    order = rng.permutation(n)
    observed = min(int(share * n), OBSERVED)
    nodes, asked = order[:observed], order[observed:][:ASKED]
    y = truth[nodes] + NOISE * rng.standard_normal(observed)
    return Data(case, graph, scale, nodes, y, asked, truth[asked])


def regressor(data: Data, method: str, **options: Any) -> tuple[Any, Any]:
    import graphrf as grf

    known = {
        "kernel": kernel_of(data.case),
        "optimize": False,
        "output_scale": data.scale,
        "noise": NOISE**2,
    }
    numerics = grf.gp.Numerics(normalize=False, **options)
    gp = grf.GraphGPRegressor(
        data.graph, method=method, mean="zero", seed=0, numerics=numerics, **known
    )
    return gp.fit(data.nodes, data.y).predict(data.asked, return_std=True)


def dense(data: Data) -> tuple[Any, Any]:
    import numpy as np

    values, vectors = np.linalg.eigh(data.graph.laplacian().toarray())
    root = vectors * np.sqrt(data.scale * kernel_of(data.case).spectrum(np.maximum(values, 0), 1.0))
    seen, asked = root[data.nodes], root[data.asked]
    factor = np.linalg.cholesky(seen @ seen.T + NOISE**2 * np.eye(len(seen)))
    half = np.linalg.solve(factor, np.column_stack([data.y, seen @ asked.T]))
    variance = np.square(asked).sum(axis=1) - np.square(half[:, 1:]).sum(axis=0)
    return half[:, 1:].T @ half[:, 0], np.sqrt(variance)


def eigenpairs(data: Data) -> tuple[Any, Any]:
    import numpy as np
    import scipy.sparse as sp
    from scipy.linalg import cho_factor, cho_solve, eigh
    from scipy.sparse.linalg import eigsh

    n_pairs, start = (
        min(PAIRS, data.graph.n_nodes // 2),
        np.random.default_rng(0).random(data.graph.n_nodes),
    )
    laplacian = sp.csc_array(data.graph.laplacian())
    if data.graph.n_nodes <= 6 * n_pairs:
        values, vectors = eigh(laplacian.toarray(), subset_by_index=(0, n_pairs - 1))
    elif data.case == "hubs":
        values, vectors = eigsh(data.graph.walk_matrix(), n_pairs, which="LA", v0=start)
        values = 1 - values
    else:
        values, vectors = eigsh(laplacian, n_pairs, sigma=-1e-3, v0=start)
    features = vectors * np.sqrt(kernel_of(data.case).spectrum(np.maximum(values, 0), 1.0))
    features *= np.sqrt(data.graph.n_nodes) / np.linalg.norm(features)
    seen, asked = features[data.nodes], features[data.asked]
    factor = cho_factor(seen.T @ seen + NOISE**2 * np.eye(n_pairs))
    mean = asked @ cho_solve(factor, seen.T @ data.y)
    return mean, NOISE * np.sqrt((asked * cho_solve(factor, asked.T).T).sum(axis=1))


def precision(data: Data, kernel: Any, scale: float) -> tuple[Any, Any]:
    import graphrf as grf

    gp = grf.GraphGPRegressor(
        data.graph,
        kernel=kernel,
        method="precision",
        optimize=False,
        output_scale=scale,
        noise=NOISE**2,
        numerics=grf.gp.Numerics(normalize=False),
        mean="zero",
        seed=0,
    )
    return gp.fit(data.nodes, data.y).predict(data.asked, return_std=True)


def lu(data: Data, kernel: Any, scale: float) -> tuple[Any, Any]:
    import numpy as np
    import scipy.sparse as sp
    from scipy.sparse.linalg import splu

    n = data.graph.n_nodes
    shift, _, power = kernel.inverse_power
    base = sp.csc_array(shift * sp.eye_array(n) + data.graph.laplacian())
    inverse = (base if power == 1 else sp.csc_array(base @ base)) / scale
    sides = np.zeros((n, 2))
    sides[data.nodes] = np.column_stack([np.ones(data.nodes.size), data.y]) / NOISE**2
    matrix = sp.csc_array(inverse + sp.diags_array(sides[:, 0]))
    factor = splu(
        matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
    )
    variances = []
    for some in np.array_split(data.asked, math.ceil(data.asked.size * n / 2**24)):
        units = np.zeros((n, some.size))
        units[some, np.arange(some.size)] = 1.0
        variances.append(factor.solve(units)[some, np.arange(some.size)])
    return factor.solve(sides[:, 1])[data.asked], np.sqrt(np.concatenate(variances))


def amg(data: Data, kernel: Any, scale: float) -> tuple[Any, Any]:
    import numpy as np
    import pyamg
    import scipy.sparse as sp

    from graphrf.operators.precision.markov import SparsePrecision

    n, rng = data.graph.n_nodes, np.random.default_rng(0)
    prior = SparsePrecision(data.graph, kernel)
    weights = np.zeros(n)
    weights[data.nodes] = 1 / NOISE**2
    solver = pyamg.smoothed_aggregation_solver(
        sp.csr_matrix(prior.matrix / scale + sp.diags_array(weights))
    )
    seen = np.zeros(n)
    seen[data.nodes] = data.y / NOISE**2
    root = root_of(prior)
    draws = root @ rng.standard_normal((root.shape[1], 64)) / np.sqrt(scale)
    draws += np.sqrt(weights)[:, None] * rng.standard_normal((n, 64))
    variances = np.zeros(data.asked.size)
    for draw in draws.T:
        variances += solver.solve(draw, tol=1e-4, accel="cg")[data.asked] ** 2 / 64
    return solver.solve(seen, tol=1e-8, accel="cg")[data.asked], np.sqrt(variances)


def root_of(prior: Any) -> Any:
    """A sparse R with R R^T = Q, without a factor: Q is c I + t L or its square."""
    import numpy as np
    import scipy.sparse as sp

    c, t, power = prior.kernel.inverse_power
    if power == 2:
        return prior.base
    edges = sp.triu(prior.graph.adjacency, k=1, format="coo")
    size = np.ones(prior.graph.n_nodes)
    if prior.kernel.laplacian == "normalized":
        size = 1 / np.sqrt(np.maximum(prior.graph.degrees, 1e-300))
    columns, half = np.arange(edges.nnz), np.sqrt(t * edges.data)
    entries = np.concatenate([half * size[edges.row], -half * size[edges.col]])
    places = np.concatenate([edges.row, edges.col]), np.concatenate([columns, columns])
    incidence = sp.csr_array((entries, places), shape=(size.size, edges.nnz))
    return sp.hstack([np.sqrt(c) * sp.eye_array(size.size), incidence], format="csr")


def matern_of(case: str) -> tuple[Any, float]:
    """The Matern kernel and the scale of the truth, or the most probable ones of a small draw."""
    import graphrf as grf

    small = data_of(case, 1_024, share=0.5)
    if case == "matern":
        return kernel_of(case), small.scale
    found = []
    for nu in (1.0, 2.0):
        gp = grf.GraphGPRegressor(
            small.graph,
            kernel=grf.Matern(nu),
            numerics=grf.gp.Numerics(normalize=False),
            mean="zero",
            seed=0,
        )
        found.append(gp.fit(small.nodes, small.y))
    best = max(found, key=lambda gp: gp.log_marginal_likelihood_)
    return best.kernel_, best.output_scale_


def method_of(
    name: str, case: str
) -> tuple[Callable[[Data], tuple[Any, ...]], list[Callable[[Data], Any]]]:
    """What is timed, and what is run before on a small graph to have everything compiled."""
    if name == "dense":
        return dense, [dense]
    if name == "eigenpairs":
        return eigenpairs, [eigenpairs]
    if name in ("precision", "lu", "amg"):
        matern = matern_of(case)
        field = {"precision": precision, "lu": lu, "amg": amg}[name]
        return (lambda data: field(data, *matern)), [lambda data: field(data, *matern)]
    if name == "fast-graph-gp":
        from _fast_graph_gp import fast_graph_gp

        def trained(data: Data, steps: int = 100) -> tuple[Any, ...]:
            return fast_graph_gp(data.graph, data.nodes, data.y, data.asked, steps)

        return trained, [lambda data: trained(data, 2)]

    def ours(data: Data, **options: Any) -> tuple[Any, Any]:
        return regressor(data, method="features" if name == "walks" else name, seed=0, **options)

    solvers = ("cholesky", "cg")
    first: list[Callable[[Data], Any]] = [
        lambda data, solver=solver: ours(data, solver=solver) for solver in solvers
    ]
    return ours, [*first, lambda data: ours(data, solver="cg", deviations="sampled")]


def prepare(case: str, n_nodes: int, folder: Path) -> None:
    """Write the data for all methods."""
    import numpy as np

    data = data_of(case, n_nodes)
    data.graph.save(folder / "graph")
    np.savez(
        folder / "data.npz",
        scale=data.scale,
        nodes=data.nodes,
        y=data.y,
        asked=data.asked,
        truth=data.truth,
    )


def measure(case: str, name: str, folder: Path, limit: int, memory: float) -> None:
    """Run one method on prepared data and write what came out."""
    import resource
    import warnings

    import numpy as np
    from _machine import peak_gib

    import graphrf as grf
    from graphrf.gp import metrics

    warnings.simplefilter("ignore")  # of walks that are short for the prior, and of torch
    method, first = method_of(name, case)
    small = data_of(case, 400, share=0.5)
    for warm in first:
        warm(small)
    with np.load(folder / "data.npz") as arrays:
        given = {key: arrays[key] for key in arrays.files}
    before = peak_gib()
    resource.setrlimit(resource.RLIMIT_DATA, (int(memory * 2**30), resource.RLIM_INFINITY))
    seconds: list[float] = []
    while len(seconds) < 3 and sum(seconds) < ENOUGH:
        # Opened anew each time: graphs remember what was made of them.
        data = Data(
            case,
            grf.open_graph(folder / "graph", verify=False),
            float(given.pop("scale", 1)),
            **given,
        )
        given["scale"] = data.scale
        signal.alarm(limit)
        started = time.perf_counter()
        mean, std, *noise = method(data)
        seconds.append(time.perf_counter() - started)
        signal.alarm(0)
    y = data.truth + NOISE * np.random.default_rng(2).standard_normal(data.truth.size)
    row: dict[str, Any] = {
        "seconds": sorted(seconds),
        "megabytes": (peak_gib() - before) * 2**30 / 1e6,
        "rmse": metrics.rmse(data.truth, mean),
        "nlpd": metrics.nlpd(y, mean, np.sqrt(std**2 + (noise[0] if noise else NOISE**2))),
    }
    exact = folder / "exact.npz"
    if name == "dense":
        np.savez(exact, mean=mean, std=std)
    elif exact.exists():
        with np.load(exact) as arrays:
            row["mean"] = float(np.sqrt(np.mean(((mean - arrays["mean"]) / arrays["std"]) ** 2)))
            row["std"] = float(np.median(np.abs(std / arrays["std"] - 1)))
    (folder / "row.json").write_text(json.dumps(row))


# -- in the process that starts them ---------------------------------------------------------------


def started(arguments: Iterable[object], seconds: float) -> subprocess.CompletedProcess[str]:
    """Another process of this file, once it has ended."""
    command = [sys.executable, __file__, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)


def tried(case: str, name: str, folder: Path, limit: int, memory: float) -> dict[str, Any] | str:
    """What one method gave, or in words why it gave nothing."""
    row = folder / "row.json"
    row.unlink(missing_ok=True)
    try:
        ended = started(
            ["--measure", case, name, folder, "--limit", limit, "--memory", memory],
            3 * limit + UNSURE,
        )
    except subprocess.TimeoutExpired:
        return f"more than {limit} s"
    if row.exists():
        return dict(json.loads(row.read_text()))
    if ended.returncode == -signal.SIGALRM:
        return f"more than {limit} s"
    said = (ended.stderr.strip().splitlines() or [f"ended with code {ended.returncode}"])[-1]
    return f"more than {memory:g} GiB" if "MemoryError" in said else f"failed: {said[:80]}"


def line(cells: Iterable[object]) -> str:
    """A row of a Markdown table."""
    return f"| {' | '.join(map(str, cells))} |"


def cells_of(name: str, n_nodes: int, row: dict[str, Any] | str) -> list[str]:
    """What the table says of one run."""
    if isinstance(row, str):
        return [name, f"{n_nodes:,}", row, *[""] * (len(COLUMNS) - 3)]
    low, middle, high = (
        row["seconds"][0],
        row["seconds"][len(row["seconds"]) // 2],
        row["seconds"][-1],
    )
    spread = (
        f"{middle:.3g}" if len(row["seconds"]) == 1 else f"{middle:.3g} [{low:.3g}, {high:.3g}]"
    )
    if name == "dense":
        off = ["0", "0"]
    else:
        off = [f"{row[key]:.2g}" if key in row else "" for key in ("mean", "std")]
    return [
        name,
        f"{n_nodes:,}",
        spread,
        f"{row['megabytes']:.0f}",
        f"{row['rmse']:.4f}",
        f"{row['nlpd']:.3f}",
        *off,
    ]


def compare(case: str, sizes: list[int], names: list[str], limit: int, memory: float) -> None:
    """The table of one case."""
    print(f"\n{case}\n\n{line(COLUMNS)}\n{line(['---'] * len(COLUMNS))}", flush=True)
    last: dict[str, tuple[int, dict[str, Any] | str]] = {}
    for n_nodes in sizes:
        with tempfile.TemporaryDirectory() as folder:
            prepared = started(["--prepare", case, n_nodes, folder], UNSURE)
            if prepared.returncode:
                raise SystemExit(prepared.stderr)
            for name in names:
                reason = not_worth(name, n_nodes, limit, *last.get(name, (1, None)))
                row = reason or tried(case, name, Path(folder), limit, memory)
                if not reason:
                    last[name] = n_nodes, row
                print(line(cells_of(name, n_nodes, row)), flush=True)


def not_worth(
    name: str, n_nodes: int, limit: int, size: int, row: dict[str, Any] | str | None
) -> str:
    """Why a method is not tried with so many nodes, from what it did with fewer; empty if it is."""
    if isinstance(row, str):
        return f"not tried: {row} at {size:,}"
    seconds = row["seconds"][0] * (n_nodes / size) ** GROWTH.get(name, 1) if row else 0.0
    return f"not tried: about {seconds:,.0f} s by growth from {size:,}" if seconds > limit else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES[:1])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS[:-1])
    parser.add_argument(
        "--sizes", nargs="+", type=int, default=SIZES, help="roads have the square number below"
    )
    parser.add_argument("--limit", type=int, default=60, help="seconds of a run")
    parser.add_argument("--memory", type=float, default=8.0, help="GiB of a run")
    parser.add_argument("--prepare", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.prepare:
        case, n_nodes, folder = options.prepare
        return prepare(case, int(n_nodes), Path(folder))
    if options.measure:
        case, name, folder = options.measure
        return measure(case, name, Path(folder), options.limit, options.memory)
    from _machine import header

    rivals = ["fast-graph-gp"] if "fast-graph-gp" in options.methods else []
    threads = os.environ.get("OMP_NUM_THREADS", "all")
    print(f"{header('scipy', 'scikit-learn', *rivals)}; threads: {threads}")
    for case in options.cases:
        compare(case, list(options.sizes), list(options.methods), options.limit, options.memory)
    return None


if __name__ == "__main__":
    main()
