"""The error of Gram matrices from coupled walks on ten graphs: figures 3 and 10.

As there (Reid et al. 2024, Sec. 4.2 and App. F.1): the 2-regularised Laplacian kernel with
lengthscale 1, two walks from every node with independent directions, halting probabilities .1 to
.5, and the relative Frobenius error of Phi Phi^T for independent, antithetic and sigma-coupled
lengths. The last column is not in the paper: lengths and directions stratified, with the same
number of walks.

    python examples/gram_error.py --out gram_error.png
    python examples/gram_error.py --graphs karate --repeats 20
"""

from __future__ import annotations

import argparse
import warnings
from typing import TYPE_CHECKING

import numpy as np
from _options import add_figure_option

import graphrf as grf
from graphrf.plot import COLOURS

# Errors are what is measured here, so that large ones are no news.
warnings.simplefilter("ignore", grf.features.FeatureErrorWarning)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

P_HALT = (0.1, 0.2, 0.3, 0.4, 0.5)
LAWS = ("iid", "antithetic", "sigma", "stratified")
LABELS = {
    "iid": "independent",
    "antithetic": "antithetic",
    "sigma": r"$\sigma$-coupled",
    "stratified": "lengths and directions stratified",
}


def sampler(law: str, p_halt: float, n_walks: int) -> grf.RandomWalks:
    """The walks of one column of the table."""
    if law == "stratified":
        return grf.RandomWalks(n_walks, grf.sampling.Stratified(p_halt), directions="stratified")
    laws = {
        "iid": grf.sampling.IID,
        "antithetic": grf.sampling.Antithetic,
        "sigma": grf.sampling.SigmaCoupled,
    }
    return grf.RandomWalks(n_walks, laws[law](p_halt), directions="independent")


def relative_errors(
    graph: grf.Graph,
    kernel: grf.kernels.Kernel,
    exact: np.ndarray,
    walks: grf.RandomWalks,
    seeds: range,
) -> np.ndarray:
    """||Phi Phi^T - K||_F / ||K||_F for every seed.

    Phi Phi^T stays sparse: the squared norm is ||K||^2 plus the sum of g (g - 2 K_ij) over its
    entries g.
    """
    total = np.sum(exact**2)
    errors = np.empty(len(seeds))
    for number, seed in enumerate(seeds):
        phi = (
            grf.sample_features(graph, walks, seed=seed, n_threads=1)
            .matrix(kernel)
            .astype(np.float64)
        )
        gram = (phi @ phi.T).tocoo()
        errors[number] = 1 + np.sum(gram.data * (gram.data - 2 * exact[gram.row, gram.col])) / total
    return np.sqrt(errors)


def mean_and_error(values: np.ndarray) -> tuple[float, float]:
    """Mean and its standard error."""
    return float(values.mean()), float(values.std(ddof=1) / values.size**0.5)


def ratio_and_error(values: np.ndarray, reference: np.ndarray) -> tuple[float, float]:
    """Ratio of the means and its standard error (delta method); repeats may depend."""
    ratio = values.mean() / reference.mean()
    return float(ratio), mean_and_error(values - ratio * reference)[1] / float(reference.mean())


def repeats_for(n_nodes: int) -> int:
    """Errors on large graphs average over their nodes, so fewer repeats do."""
    return int(np.clip(300_000 // n_nodes, 150, 1_000))


def measure(
    graph: grf.Graph, n_walks: int, repeats: int, seed: int
) -> dict[tuple[str, float], np.ndarray]:
    """The errors of every law at every p_halt."""
    kernel = grf.RegularizedLaplacian(1.0, 2)
    exact = kernel.dense(graph)
    seeds = range(seed, seed + repeats)
    return {
        (law, p_halt): relative_errors(graph, kernel, exact, sampler(law, p_halt, n_walks), seeds)
        for p_halt in P_HALT
        for law in LAWS
    }


def print_table(name: str, errors: dict[tuple[str, float], np.ndarray]) -> None:
    """The rows of one graph."""
    for p_halt in P_HALT:
        mean, error = mean_and_error(errors["iid", p_halt])
        largest = errors["iid", p_halt].max() / mean
        ratios = [ratio_and_error(errors[law, p_halt], errors["iid", p_halt]) for law in LAWS[1:]]
        print(
            f"{name:<13} {p_halt:>6} {errors['iid', p_halt].size:>7}  {mean:.4f} +- {error:.4f} "
            f"{largest:>8.2f}"
            + "".join(f"  {ratio:.4f} +- {spread:.4f}" for ratio, spread in ratios),
            flush=True,
        )


def draw(results: dict[str, dict[tuple[str, float], np.ndarray]], path: str) -> None:
    """Errors of the last graph with permutations, and all relative to independent walks."""
    from matplotlib.figure import Figure

    columns = min(5, len(results))
    rows = -(-len(results) // columns)
    figure = Figure(figsize=(max(2.25 * columns, 7), 3.7 + 2.2 * rows), layout="constrained")
    upper, lower = figure.subfigures(2, 1, height_ratios=[3.7, 2.2 * rows])
    draw_absolute(upper.subplots(), *list(results.items())[-1])
    axes = lower.subplots(rows, columns, squeeze=False, sharex=True)
    for ax in axes.flat[len(results) :]:
        ax.axis("off")
    for ax, (name, errors) in zip(axes.flat, results.items(), strict=False):
        for number, law in enumerate(LAWS):
            values = np.array([ratio_and_error(errors[law, p], errors["iid", p]) for p in P_HALT])
            draw_line(ax, values, number)
        ax.set_title(name, fontsize=9)
        finish(ax)
    lower.supxlabel("halting probability", fontsize=9)
    lower.supylabel("error / independent walks", fontsize=9)
    figure.savefig(path, dpi=110)


def draw_absolute(ax: Axes, name: str, errors: dict[tuple[str, float], np.ndarray]) -> None:
    """Figure 3 of the paper: errors of one graph, the permutations above."""
    from matplotlib.ticker import MaxNLocator

    lines = {law: np.array([mean_and_error(errors[law, p]) for p in P_HALT]) for law in LAWS}
    for number, law in enumerate(LAWS):
        draw_line(ax, lines[law], number, LABELS[law])
    low = min(line[:, 0].min() for line in lines.values())
    high = max(line[:, 0].max() for line in lines.values())
    ax.set_ylim(low - 0.1 * (high - low), high + 0.85 * (high - low))
    ax.set_xlim(0.05, 0.55)
    for p_halt in P_HALT:
        inset = ax.inset_axes(
            (p_halt - 0.032, high + 0.17 * (high - low), 0.064, 0.62 * (high - low)),
            transform=ax.transData,
        )
        permutation = grf.sampling.SigmaCoupled(p_halt).coupling.permutation
        inset.plot(np.arange(permutation.size), permutation, "s", color=COLOURS[0], markersize=1.6)
        inset.set_aspect("equal")
        inset.set_xticks([])
        inset.set_yticks([])
    ax.set_title(
        f"{name}: error of the Gram matrix, and the permutations of the five probabilities",
        fontsize=9,
    )
    ax.set_xlabel("halting probability", fontsize=9)
    ax.set_ylabel("relative Frobenius error", fontsize=9)
    finish(ax)
    # No ticks beside the permutations.
    ax.set_yticks([tick for tick in MaxNLocator(6).tick_values(low, high) if low <= tick <= high])
    ax.figure.legend(loc="outside lower center", ncols=len(LAWS), frameon=False, fontsize=8.5)


def draw_line(ax: Axes, values: np.ndarray, number: int, label: str | None = None) -> None:
    """Means as a line, one standard error each way as a band."""
    colour = ("#000000", COLOURS[1], COLOURS[0], COLOURS[2])[number]
    ax.plot(
        P_HALT,
        values[:, 0],
        color=colour,
        marker="osD^"[number],
        markersize=4,
        linewidth=1.4,
        label=label,
        linestyle=("--" if number == 0 else "-"),
    )
    ax.fill_between(
        P_HALT,
        values[:, 0] - values[:, 1],
        values[:, 0] + values[:, 1],
        color=colour,
        alpha=0.25,
        linewidth=0,
    )


def finish(ax: Axes) -> None:
    """Ticks, grid and an open frame."""
    from matplotlib.ticker import MaxNLocator

    ax.set_xticks(P_HALT)
    ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    ax.yaxis.set_major_formatter("{x:.2f}")
    ax.tick_params(labelsize=8)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="#ececec", linewidth=0.8)
    ax.set_axisbelow(True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--graphs", nargs="+", default=grf.datasets.PAPER_GRAPHS, metavar="NAME")
    parser.add_argument(
        "--walks", type=int, default=2, help="walks from every node, an even number"
    )
    parser.add_argument(
        "--repeats", type=int, help="at least 2; default: 150 to 1000 by the graph's size"
    )
    parser.add_argument("--seed", type=int, default=0)
    add_figure_option(parser)
    options = parser.parse_args()
    if options.repeats is not None and options.repeats < 2:
        parser.error("--repeats must be at least 2")

    print(
        f"relative Frobenius error of the Gram matrix, {options.walks} walks, mean +- standard "
        "error;"
    )
    print("largest: the largest of the repeats with independent walks, over their mean")
    print(
        f"{'graph':<13} {'p_halt':>6} {'repeats':>7}  {'iid':<16} {'largest':>8}  "
        + "  ".join(f"{law + ' / iid':<16}" for law in LAWS[1:])
    )
    results = {}
    for name in options.graphs:
        graph = grf.datasets.load(name).graph
        repeats = repeats_for(graph.n_nodes) if options.repeats is None else options.repeats
        results[name] = measure(graph, options.walks, repeats, options.seed)
        print_table(name, results[name])
    if options.out:
        draw(results, options.out)


if __name__ == "__main__":
    main()
