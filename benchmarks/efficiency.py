"""Which sampler gives the least error for its cost, and when does exact algebra win?

    python benchmarks/efficiency.py --out out/efficiency    # ten graphs, in about half an hour
    python benchmarks/efficiency.py --graphs cora mesh-idler-riser

For every graph and kernel, the error of explicit feature rows Phi (relative Frobenius error of Phi
Phi^T, on the rows of 300 random nodes against all columns), beside

    operations    steps of walks, or multiply-adds of powers, for each node
    non-zeros     of Phi, for each row: what a product with Phi costs, and its memory
    seconds       of sampling all nodes and making the matrix, compiled code warm

and the exact rivals: rows of F computed exactly, the same cut to their largest entries, and the
series, which stores nothing and takes its operations anew in every product with K. The last table
asks what each sampler reaches within the cost of the paper's coupling: at no more operations and no
more non-zeros than sigma-coupled walks with 32 walks and p_halt = .1.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from _machine import header

import graphrf as grf
from graphrf.operators.series.apply import kernel_block
from graphrf.operators.series.series_factor import SeriesFactor

GRAPHS = {
    "san-jose": "road and mesh",
    "california-roads": "road and mesh",
    "mesh-idler-riser": "road and mesh",
    "mesh-torus": "road and mesh",
    "football": "social and citation",
    "eu-core": "social and citation",
    "arenas-email": "social and citation",
    "citeseer": "social and citation",
    "cora": "social and citation",
    "facebook-pages": "social and citation",
}
KERNELS: dict[str, grf.kernels.Kernel] = {
    "2-regularised Laplacian": grf.RegularizedLaplacian(1.0, 2),
    "diffusion, lengthscale 1": grf.Diffusion(1.0),
    "diffusion, lengthscale 3": grf.Diffusion(3.0),
    "diffusion, lengthscale 8": grf.Diffusion(8.0),
}
SERIES = "series (each product)"
# What the errors of road and mesh graphs, and of the
# others, are to be at most, as a share of sigma's.
TARGETS = {"road and mesh": 0.23, "social and citation": 0.6}
SIGMA = "sigma, p 0.1 (the paper)"
WITHIN = ", within sigma's cost"
ROWS = 300
TOLERANCE = 1e-3
# Records larger than 3 GiB, and exact rows of more
# multiply-adds than a few minutes allow, are not tried.
MEMORY = 3 * 2**30
WORK = 1e10


@dataclass(frozen=True)
class Row:
    """One sampler on one graph for one kernel; sizes are means for each node."""

    graph: str
    kernel: str
    method: str
    setting: str
    error: float
    stderr: float
    operations: float
    nonzeros: float
    seconds: float


@dataclass(frozen=True)
class Case:
    """A graph and a kernel, with the exact rows that estimates are compared with."""

    name: str
    graph: grf.Graph
    kernel_name: str
    kernel: grf.kernels.Kernel
    rows: np.ndarray
    exact: np.ndarray
    length: int

    def measure(
        self, method: str, setting: str, sampler: Any, repeats: int, n_factors: int = 1
    ) -> Row | None:
        """The row of a sampler, or None if its record would be too large."""
        errors, seconds, features = [], [], None
        deterministic = isinstance(sampler, grf.sampling.ExactPowers | grf.sampling.CutPowers)
        if deterministic and self.work(sampler) > WORK:
            return None
        for seed in range(1 if deterministic else repeats):
            started = time.perf_counter()
            try:
                features = self.sample(sampler, n_factors, seed=seed)
            except MemoryError:
                return None
            matrices = (
                [features.matrix(self.kernel)] if n_factors == 1 else features.matrices(self.kernel)
            )
            seconds.append(time.perf_counter() - started)
            errors.append(self.error(matrices))
        assert features is not None
        return self._row(method, setting, errors, seconds, features.n_steps, features.nnz)

    def work(self, sampler: Any) -> float:
        """Multiply-adds of a sampler for all nodes, from ten of them."""
        features = grf.sample_features(
            self.graph, sampler, nodes=self.rows[:: self.rows.size // 10], seed=0
        )
        return features.n_steps * self.graph.n_nodes / features.nodes.size

    def sample(self, sampler: Any, n_factors: int, **options: Any) -> Any:
        """Features, or a product of several."""
        if n_factors == 1:
            return grf.sample_features(self.graph, sampler, memory_limit=MEMORY, **options)
        return grf.sampling.sample_product(
            self.graph, sampler, n_factors=n_factors, memory_limit=MEMORY, **options
        )

    def error(self, factors: Sequence[sp.csr_array]) -> float:
        """Relative Frobenius error of the chosen rows of B B^T, B the product of the factors."""
        # Dense from the beginning: products of long kernels fill, and filled sparse matrices
        # multiply slowly.
        estimate = factors[0][self.rows].toarray().T
        for factor in [*(factor.T for factor in factors[1:]), *reversed(factors)]:
            estimate = factor @ estimate
        return float(np.linalg.norm(estimate.T - self.exact) / np.linalg.norm(self.exact))

    def _row(
        self,
        method: str,
        setting: str,
        errors: list[float],
        seconds: list[float],
        operations: float,
        nnz: float,
    ) -> Row:
        n = self.graph.n_nodes
        spread = float(np.std(errors, ddof=1) / len(errors) ** 0.5) if len(errors) > 1 else 0.0
        return Row(
            self.name,
            self.kernel_name,
            method,
            setting,
            float(np.mean(errors)),
            spread,
            operations / n,
            nnz / n,
            float(np.median(seconds)),
        )

    def series(self) -> Row:
        """One product with K, and the error of a truncation as loose as that of the walks."""
        factor = SeriesFactor(self.graph, max_length=self.length)
        products = 2 * factor.n_products(self.kernel.modulation(self.length + 1))
        vector = np.random.default_rng(0).standard_normal(self.graph.n_nodes)
        started = time.perf_counter()
        approximate = grf.apply_kernel(self.graph, self.kernel, vector, tol=TOLERANCE)
        seconds = time.perf_counter() - started
        exact = grf.apply_kernel(self.graph, self.kernel, vector)
        error = float(np.linalg.norm(approximate - exact) / np.linalg.norm(exact))
        operations = products * self.graph.walk_matrix("normalized").nnz
        return self._row(SERIES, f"{products} powers", [error], [seconds], operations, 0)

    def within(self, budget: Row, sampler: Callable[[int], Any], n_factors: int, most: int) -> int:
        """The largest setting with operations and non-zeros within `budget`, by bisection."""
        nodes = self.rows
        low, high = 0, most
        while low < high:
            middle = (low + high + 1) // 2
            features = grf.sample_features(self.graph, sampler(middle), nodes=nodes, seed=0)
            share = n_factors / nodes.size
            fits = (
                share * features.n_steps <= 0.99 * budget.operations
                and share * features.nnz <= 0.99 * budget.nonzeros
            )
            low, high = (middle, high) if fits else (low, middle - 1)
        return low


def paper(n_walks: int, lengths: grf.sampling.LengthLaw) -> grf.RandomWalks:
    """Walks with independent directions, as in the paper."""
    return grf.RandomWalks(n_walks, lengths, directions="independent")


def measured(case: Case, repeats: int, sizes: tuple[int, ...]) -> Iterator[Row | None]:
    """The rows of a case: every sampler at several sizes, exact rivals, what fits the cost.

    The setting is the number of walks, or the budget of powers, of each factor.
    """
    length, kernel = case.length, case.kernel
    budget = case.measure(SIGMA, "32", paper(32, grf.sampling.SigmaCoupled(0.1)), repeats)
    assert budget is not None
    yield budget
    families: dict[str, tuple[int, Callable[[int], Any]]] = {
        "iid, p 0.1": (1, lambda m: paper(m, grf.sampling.IID(0.1))),
        "stratified both, p 0.1": (1, lambda m: grf.RandomWalks(m, grf.sampling.Stratified(0.1))),
        "stratified, truncated": (1, lambda m: grf.RandomWalks(m, grf.sampling.Truncated(length))),
        "walks, auto": (1, lambda m: grf.RandomWalks(m, grf.sampling.AutoLengths(kernel))),
        "compressed (the default)": (1, lambda b: grf.CompressedPowers(b)),
        "compressed": (1, lambda b: grf.CompressedPowers(b, length)),
        "compressed, auto": (
            1,
            lambda b: grf.CompressedPowers(b, lengths=grf.sampling.AutoLengths(kernel)),
        ),
        "cut": (1, lambda b: grf.sampling.CutPowers(b, length)),
    }
    for n_factors in (2, 4):
        auto = grf.sampling.AutoLengths(kernel.root(n_factors))
        families[f"{n_factors} factors, walks, auto"] = (
            n_factors,
            lambda m, auto=auto: grf.RandomWalks(m, auto),
        )
        families[f"{n_factors} factors, compressed, auto"] = (
            n_factors,
            lambda b, auto=auto: grf.CompressedPowers(b, lengths=auto),
        )
    for method, (n_factors, sampler) in families.items():
        for size in sizes:
            yield case.measure(method, f"{size}", sampler(size), repeats, n_factors)
        if method.startswith(("iid", "cut")):
            continue
        size = case.within(budget, sampler, n_factors, most=512)
        if size:
            yield case.measure(method + WITHIN, f"{size}", sampler(size), repeats, n_factors)
    yield case.measure("exact rows", f"{length} powers", grf.sampling.ExactPowers(length), repeats)
    yield case.series()


def cases(names: list[str], kernels: list[str]) -> Iterator[Case]:
    """Every graph with every kernel."""
    for name in names:
        graph = grf.datasets.load(name).graph
        rows = np.sort(np.random.default_rng(0).permutation(graph.n_nodes)[:ROWS])
        for kernel_name in kernels:
            kernel = KERNELS[kernel_name]
            exact = kernel_block(graph, kernel, rows=rows)
            yield Case(
                name, graph, kernel_name, kernel, rows, exact, kernel.truncation_length(TOLERANCE)
            )


def table(rows: list[Row]) -> str:
    """The rows of one case."""
    lines = [
        (
            f"{'method':<48} {'setting':<10} {'error':>18} {'operations':>11} {'non-zeros':>10} "
            f"{'seconds':>8}"
        )
    ]
    for row in rows:
        error = f"{row.error:.4g} +- {row.stderr:.1g}" if row.stderr else f"{row.error:.4g}"
        lines.append(
            f"{row.method:<48} {row.setting:<10} {error:>18} {row.operations:>11,.0f} "
            f"{row.nonzeros:>10,.1f} {row.seconds:>8.3f}"
        )
    return "\n".join(lines)


def front(rows: list[Row], axis: str) -> list[Row]:
    """The rows of a case that no other beats in both error and `axis`, from cheap to exact."""
    best, chosen = np.inf, []
    for row in sorted(rows, key=lambda row: (getattr(row, axis), row.error)):
        if row.error < best:
            best = row.error
            chosen.append(row)
    return chosen


def within_table(rows: list[Row]) -> str:
    """For each case, each sampler's error within sigma's cost as a share of sigma's error."""
    methods = [
        method for method in dict.fromkeys(row.method for row in rows) if method.endswith(WITHIN)
    ]
    names = [method.removesuffix(WITHIN) for method in methods]
    widths = [max(8, len(name)) for name in names]
    heads = "  ".join(f"{name:>{width}}" for name, width in zip(names, widths, strict=True))
    lines = [f"{'graph':<17} {'kernel':<25} {'sigma':>6}  {heads}  target"]
    for case in dict.fromkeys((row.graph, row.kernel) for row in rows):
        own = {row.method: row for row in rows if (row.graph, row.kernel) == case}
        sigma = own[SIGMA].error
        shares = [
            f"{own[method].error / sigma:.3f}" if method in own else "-" for method in methods
        ]
        cells = "  ".join(f"{share:>{width}}" for share, width in zip(shares, widths, strict=True))
        lines.append(
            f"{case[0]:<17} {case[1]:<25} {sigma:>6.3g}  {cells}  {TARGETS[GRAPHS[case[0]]]:>6}"
        )
    return "\n".join(lines)


def draw(rows: list[Row], path: Path) -> None:
    """The Pareto fronts in operations and non-zeros, a column a graph, a row a kernel."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter

    styles = {
        SIGMA: ("#000000", "x"),
        "iid, p 0.1": ("#999999", "."),
        "stratified both, p 0.1": ("#56b4e9", "s"),
        "stratified, truncated": ("#0072b2", "o"),
        "walks, auto": ("#009e73", "^"),
        "compressed": ("#e69f00", "D"),
        "compressed, auto": ("#d55e00", "D"),
        "4 factors, walks, auto": ("#882255", "P"),
        "4 factors, compressed, auto": ("#ee3377", "X"),
        "cut": ("#cc79a7", "v"),
        "exact rows": ("#000000", "*"),
    }
    graphs = list(dict.fromkeys(row.graph for row in rows))
    kernels = list(dict.fromkeys(row.kernel for row in rows))
    for axis in ("operations", "nonzeros"):
        figure = Figure(
            figsize=(2.6 * len(graphs) + 1, 2.5 * len(kernels) + 1), layout="constrained"
        )
        axes = figure.subplots(len(kernels), len(graphs), squeeze=False)
        for i, kernel in enumerate(kernels):
            for j, graph in enumerate(graphs):
                panel = axes[i, j]
                own = [row for row in rows if (row.graph, row.kernel) == (graph, kernel)]
                for method, (colour, marker) in styles.items():
                    points = sorted(
                        (getattr(row, axis), max(row.error, 1e-8))
                        for row in own
                        if row.method == method
                    )
                    if points:
                        x, y = zip(*points, strict=True)
                        panel.loglog(
                            x,
                            y,
                            color=colour,
                            marker=marker,
                            ms=8 if marker == "*" else 5,
                            lw=1,
                            label=method,
                        )
                if i == 0:
                    panel.set_title(graph, fontsize=10)
                if j == 0:
                    panel.set_ylabel(f"{kernel}\nrelative error", fontsize=8)
                panel.tick_params(labelsize=7)
                for side in (panel.xaxis, panel.yaxis):
                    side.set_minor_formatter(NullFormatter())
                panel.grid(alpha=0.25)
        figure.supxlabel(
            {"operations": "operations per node", "nonzeros": "non-zeros per row"}[axis],
            fontsize=10,
        )
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(
            handles, labels, loc="outside upper center", ncols=5, fontsize=9, frameon=False
        )
        FigureCanvasAgg(figure).print_figure(path / f"efficiency_{axis}.png", dpi=110)


def read(path: Path) -> list[Row]:
    """The rows of a csv file."""
    with open(path, newline="", encoding="utf-8") as file:
        return [
            Row(
                *(record[f.name] if f.type == "str" else float(record[f.name]) for f in fields(Row))
            )
            for record in csv.DictReader(file)
        ]


def main() -> None:
    """Measure, print, and write a csv file and figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--graphs", nargs="*", default=list(GRAPHS), choices=list(GRAPHS))
    parser.add_argument("--kernels", nargs="*", default=list(KERNELS), choices=list(KERNELS))
    parser.add_argument("--sizes", nargs="*", type=int, default=[8, 32, 128])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, help="folder for efficiency.csv and the figures")
    parser.add_argument(
        "--draw",
        action="store_true",
        help="draw what a former run wrote to --out, and measure nothing",
    )
    arguments = parser.parse_args()
    if arguments.draw:
        rows = [
            row for row in read(arguments.out / "efficiency.csv") if row.graph in arguments.graphs
        ]
        draw([row for row in rows if row.kernel in arguments.kernels], arguments.out)
        return
    # Long kernels are measured with walks that do not suit them, on purpose.
    warnings.simplefilter("ignore", grf.features.HeavyTailWarning)
    warnings.simplefilter("ignore", grf.features.TruncationWarning)
    print(header("scipy"))
    for sampler in (
        paper(2, grf.sampling.SigmaCoupled(0.1)),
        grf.RandomWalks(2),
        grf.CompressedPowers(2, 2),
    ):
        grf.sample_features(grf.datasets.load("karate").graph, sampler, seed=0).matrix(
            KERNELS["diffusion, lengthscale 1"]
        )
    rows = []
    for case in cases(arguments.graphs, arguments.kernels):
        own = [
            row
            for row in measured(case, arguments.repeats, tuple(arguments.sizes))
            if row is not None
        ]
        print(f"\n{case.name} ({GRAPHS[case.name]}), {case.kernel_name}: {case.length} steps")
        print(table(own), flush=True)
        rivals = [row for row in own if row.method != SERIES]  # whose products store nothing
        for axis in ("operations", "nonzeros", "seconds"):
            names = ", ".join(f"{row.method} {row.setting}" for row in front(rivals, axis))
            print(f"  front in {axis}: {names}")
        rows += own
        if arguments.out:
            arguments.out.mkdir(parents=True, exist_ok=True)
            with open(arguments.out / "efficiency.csv", "w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, [field.name for field in fields(Row)])
                writer.writeheader()
                writer.writerows(asdict(row) for row in rows)
    print(
        "\nerror within sigma's operations and non-zeros, as a share of sigma's error\n"
        + within_table(rows)
    )
    if arguments.out:
        draw(rows, arguments.out)


if __name__ == "__main__":
    main()
