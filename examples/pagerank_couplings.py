"""The error of PageRank from two coupled walks per node on ten graphs: figure 9.

As there (Reid et al. 2024, App. E.3): two walks from every node, halting probabilities .1 to .9,
the error ||rho^ - rho||_2 of scores from end points with independent, antithetic and sigma-coupled
lengths; permutations of order 10 learned with Eq. 82 on an Erdos-Renyi graph of 100 nodes. Beside
them, and not in the paper, scores from the visits of as many walks: independent, antithetic,
sigma-coupled (with the permutations of Gram matrices), stratified, and pooled.

    python examples/pagerank_couplings.py --out pagerank_couplings.png
    python examples/pagerank_couplings.py --graphs karate --repeats 50

With --exact no walk is drawn: root mean square errors of sigma-coupled end points relative to those
of independent ones, from Eq. 82, for the shipped permutation and others; so it tells what learning
on the graph itself would add. (Graphs of more than 1,000 nodes are represented by a sample of the
sources, the same for all permutations.)

    python examples/pagerank_couplings.py --exact
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import numpy as np
from _options import add_figure_option
from gram_error import mean_and_error, ratio_and_error

import graphrf as grf
from graphrf.couplings.linear import solve_linear
from graphrf.couplings.pagerank_cost import pagerank_cost
from graphrf.pagerank import pagerank
from graphrf.plot import COLOURS
from graphrf.sampling.walks.coupling import shipped_coupling

if TYPE_CHECKING:
    from matplotlib.axes import Axes

P_HALT = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
REFERENCE = ("endpoints", "iid")
METHODS = (
    REFERENCE,
    ("endpoints", "antithetic"),
    ("endpoints", "sigma"),
    ("visits", "iid"),
    ("visits", "antithetic"),
    ("visits", "sigma"),
    ("visits", "stratified"),
    ("visits", "pooled"),
)
# What is drawn: label, colour, marker and line of every method.
STYLES = {
    REFERENCE: ("end points, independent", "#000000", "o", "--"),
    ("endpoints", "antithetic"): ("end points, antithetic", COLOURS[1], "s", "-"),
    ("endpoints", "sigma"): (r"end points, $\sigma$-coupled", COLOURS[0], "D", "-"),
    ("visits", "iid"): ("visits, independent", COLOURS[3], "v", "--"),
    ("visits", "sigma"): (r"visits, $\sigma$-coupled", COLOURS[4], "^", "-"),
    ("visits", "pooled"): ("visits, pooled", COLOURS[2], "P", "-"),
}
# The errors of one graph: for every method and p_halt one number a repeat.
Errors = dict[tuple[tuple[str, str], float], np.ndarray]


def errors_of(
    graph: grf.Graph,
    exact: np.ndarray,
    method: tuple[str, str],
    p_halt: float,
    n_walks: int,
    seeds: range,
) -> np.ndarray:
    """||rho^ - rho||_2 for every seed."""
    estimator, coupling = method
    errors = np.empty(len(seeds))
    for number, seed in enumerate(seeds):
        found = grf.pagerank.estimate(
            graph,
            p_halt=p_halt,
            n_walks=n_walks,
            estimator=estimator,
            coupling=coupling,
            n_batches=1,
            seed=seed,
            n_threads=1,
        )
        errors[number] = np.linalg.norm(found.scores - exact)
    return errors


def measure(graph: grf.Graph, n_walks: int, repeats: int, seed: int) -> Errors:
    """The errors of every method at every p_halt; repeats of all methods have the same seeds."""
    seeds = range(seed, seed + repeats)
    errors = {}
    for p_halt in P_HALT:
        exact = pagerank(graph, p_halt=p_halt).scores
        for method in METHODS:
            errors[method, p_halt] = errors_of(graph, exact, method, p_halt, n_walks, seeds)
    return errors


def mean_square(cost: np.ndarray, permutation: np.ndarray | None, n_nodes: int) -> float:
    """E ||rho^ - rho||^2 of end points of two walks (None: independent), by its cost.

    For graphs without dangling nodes; exact, see there.
    """
    between = cost.mean() if permutation is None else cost[np.arange(len(cost)), permutation].mean()
    return float(n_nodes + between - 2 * cost.mean()) / (2 * n_nodes**2)


def print_exact(name: str, graph: grf.Graph) -> None:
    """The rows of one graph with --exact."""
    for p_halt in P_HALT:
        survival = grf.sampling.Survival.geometric(p_halt)
        coarse, fine = (
            pagerank_cost(graph, survival, order, rng=np.random.default_rng(0))
            for order in (10, 30)
        )
        squares = [
            mean_square(cost, permutation, graph.n_nodes)
            for cost, permutation in (
                (coarse, None),
                (coarse, shipped_coupling(p_halt, "pagerank").permutation),
                (coarse, solve_linear(coarse)),
                (fine, solve_linear(fine)),
                (fine, shipped_coupling(p_halt, "gram").permutation),
            )
        ]
        ratios = np.sqrt(np.array(squares[1:]) / squares[0])
        print(
            f"| {name} | {p_halt} | " + " | ".join(f"{ratio:.4f}" for ratio in ratios) + " |",
            flush=True,
        )


def print_table(name: str, errors: Errors) -> None:
    """The rows of one graph."""
    for p_halt in P_HALT:
        reference = errors[REFERENCE, p_halt]
        mean, error = mean_and_error(reference)
        ratios = [ratio_and_error(errors[method, p_halt], reference) for method in METHODS[1:]]
        cells = [
            f"{mean:.5f} ± {error:.5f}",
            *(f"{ratio:.3f} ± {spread:.3f}" for ratio, spread in ratios),
        ]
        print(f"| {name} | {p_halt} | " + " | ".join(cells) + " |", flush=True)


def draw(results: dict[str, Errors], path: str) -> None:
    """Above the paper's figure; below errors relative to independent end points."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

    columns = min(5, len(results))
    rows = -(-len(results) // columns)
    figure = Figure(figsize=(max(2.3 * columns, 8), 4.4 * rows + 1.2), layout="constrained")
    upper, lower = figure.subfigures(2, 1)
    above = upper.subplots(rows, columns, squeeze=False, sharex=True)
    below = lower.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    for axes in (above, below):
        for ax in axes.flat[len(results) :]:
            ax.axis("off")
    for ax, ratio_ax, (name, errors) in zip(above.flat, below.flat, results.items(), strict=False):
        for method, style in STYLES.items():
            if method[0] == "endpoints":
                draw_line(ax, np.array([mean_and_error(errors[method, p]) for p in P_HALT]), style)
            ratios = [ratio_and_error(errors[method, p], errors[REFERENCE, p]) for p in P_HALT]
            draw_line(ratio_ax, np.array(ratios), style)
        ax.set_title(name, fontsize=9)
        ratio_ax.set_title(name, fontsize=9)
        finish(ax)
        finish(ratio_ax)
        ax.yaxis.set_major_locator(MaxNLocator(5))
        ax.ticklabel_format(axis="y", style="sci", scilimits=(-2, 2), useMathText=True)
        ax.yaxis.get_offset_text().set_fontsize(7)
        ratio_ax.set_yscale("log")
        ratio_ax.yaxis.set_major_locator(FixedLocator([0.1, 0.2, 0.3, 0.5, 0.7, 1.0]))
        ratio_ax.yaxis.set_minor_locator(NullLocator())
        ratio_ax.yaxis.set_major_formatter("{x:g}")
    upper.supylabel(r"$\|\hat\rho - \rho\|_2$, end points", fontsize=9)
    lower.supylabel("error / independent end points", fontsize=9)
    lower.supxlabel("halting probability", fontsize=9)
    handles, labels = below.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=8.5)
    figure.savefig(path, dpi=90)


def draw_line(ax: Axes, values: np.ndarray, style: tuple[str, str, str, str]) -> None:
    """Means as a line, one standard error each way as a band."""
    label, colour, marker, line = style
    ax.plot(
        P_HALT,
        values[:, 0],
        color=colour,
        marker=marker,
        markersize=3.5,
        linewidth=1.2,
        linestyle=line,
        label=label,
    )
    low, high = values[:, 0] - values[:, 1], values[:, 0] + values[:, 1]
    ax.fill_between(P_HALT, low, high, color=colour, alpha=0.25, linewidth=0)


def finish(ax: Axes) -> None:
    """Ticks, grid and an open frame."""
    ax.set_xticks([0.1, 0.3, 0.5, 0.7, 0.9])
    ax.tick_params(labelsize=8)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="#ececec", linewidth=0.8)
    ax.set_axisbelow(True)


def even(text: str) -> int:
    """An even number of walks, at least 2."""
    number = int(text)
    if number < 2 or number % 2:
        raise argparse.ArgumentTypeError(f"must be an even number of at least 2, got {text}")
    return number


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--graphs", nargs="+", default=grf.datasets.PAPER_GRAPHS, metavar="NAME")
    parser.add_argument(
        "--walks", type=even, default=2, help="walks from every node, an even number"
    )
    parser.add_argument("--repeats", type=int, default=1_000, help="at least 2")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--exact", action="store_true", help="exact errors of several permutations, no walks"
    )
    add_figure_option(parser)
    options = parser.parse_args()
    if options.repeats < 2:
        parser.error("--repeats must be at least 2")
    if options.exact:
        print(
            "| graph | p_halt | shipped | learned on it | learned on it, order 30 | shipped for "
            "Gram matrices |"
        )
        print("|---" * 6 + "|")
        for name in options.graphs:
            print_exact(name, grf.datasets.load(name).graph)
        return

    print(
        f"ends: iid: ||rho^ - rho||_2, {options.walks} walks per node, {options.repeats} repeats, "
        "± std. error;"
    )
    print("the other columns: error / error of independent end points\n")
    names = [
        f"{'ends' if estimator == 'endpoints' else estimator}: {name}"
        for estimator, name in METHODS
    ]
    print("| graph | p_halt | " + " | ".join(names) + " |")
    print("|---" * (2 + len(METHODS)) + "|")
    results = {}
    for name in options.graphs:
        results[name] = measure(
            grf.datasets.load(name).graph, options.walks, options.repeats, options.seed
        )
        print_table(name, results[name])
    if options.out:
        draw(results, options.out)


if __name__ == "__main__":
    main()
