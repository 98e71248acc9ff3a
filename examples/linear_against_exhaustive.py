"""Does it matter that couplings are learned with the linear objective? Figure 8 of the paper.

Permutations of order 2 to 9 are learned with the linear objective (Eq. 56, Hungarian algorithm) and
with the quadratic one that it approximates (Eq. 55, by trying every permutation), and the relative
Frobenius errors of Phi Phi^T on the eurosis graph are compared: 2-regularised Laplacian kernel with
lengthscale 1, two walks from every node with independent directions. The paper (Reid et al. 2024,
App. C.3) goes to order 10. It does not say which halting probability it took, on which graph the
permutations were learned, nor over which node pairs the objectives were averaged. Here they are
learned on the graph itself, so that nothing but the objective differs, at .5, where the
permutations differ most, and over all node pairs or `--pairs` random ones.

    python examples/linear_against_exhaustive.py --out linear_against_exhaustive.png
    python examples/linear_against_exhaustive.py --pairs 1
    python examples/linear_against_exhaustive.py --graph karate --orders 2 5 --repeats 20
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from _options import add_figure_option
from gram_error import mean_and_error, ratio_and_error, relative_errors

import graphrf as grf
from graphrf.couplings.quadratic import spectral_form
from graphrf.couplings.quantiles import tile_modulations, tile_spectra, tile_survival
from graphrf.plot import COLOURS

KERNEL = grf.RegularizedLaplacian(1.0, 2)


@dataclass(frozen=True)
class Row:
    """Results at one order: ratios of errors with errors, distances, objectives."""

    order: int
    linear: tuple[float, float]
    exhaustive: tuple[float, float]
    relative: tuple[float, float]
    distance: int
    distance_of_ties: int
    objective: float


def cayley_distance(first: np.ndarray, second: np.ndarray) -> int:
    """The fewest transpositions between two: n minus the cycles of first^-1 second."""
    quotient = np.argsort(first)[second]
    left, cycles = set(range(quotient.size)), 0
    while left:
        cycles += 1
        tile = next(iter(left))
        while tile in left:
            left.remove(tile)
            tile = int(quotient[tile])
    return quotient.size - cycles


def tied_distance(first: np.ndarray, second: np.ndarray, p_halt: float) -> int:
    """The smallest Cayley distance from `first` to any that couples as `second` does.

    Both objectives see only which unordered pairs {q, sigma(q)} there are, and tiles only by the
    lengths in them. So a permutation ties with its inverse (indeed with every cycle reversed on its
    own), and with all those in which tiles of the same lengths are exchanged.
    """
    order = first.size
    lengths = tile_survival(grf.sampling.Survival.geometric(p_halt), order)
    kind = np.unique(lengths, axis=0, return_inverse=True)[1].ravel()
    candidates = np.array(list(permutations(range(order))))
    ends = np.broadcast_to(kind, candidates.shape), kind[candidates]
    pairs = np.sort(np.minimum(*ends) * order + np.maximum(*ends), axis=1)
    wanted = np.sort(np.minimum(kind, kind[second]) * order + np.maximum(kind, kind[second]))
    ties = candidates[(pairs == wanted).all(axis=1)]
    return min(cayley_distance(first, candidate) for candidate in ties)


def quadratic_objective(permutation: np.ndarray, eigenvalues: np.ndarray, p_halt: float) -> float:
    """Eq. 55 averaged over all node pairs: from the eigenvalues of W."""
    survival = grf.sampling.Survival.geometric(p_halt)
    modulation = KERNEL.modulation(survival.table.size)
    spectra = tile_spectra(tile_modulations(modulation, survival, permutation.size), eigenvalues)
    return float(
        spectral_form(spectra, np.full(eigenvalues.size, 1.0 / eigenvalues.size))(permutation)
    )


def compare(
    graph: grf.Graph, p_halt: float, orders: range, pairs: int | None, repeats: int, seed: int
) -> list[Row]:
    """Learn both permutations of every order and measure them with the same seeds."""
    exact = KERNEL.dense(graph)
    eigenvalues = np.linalg.eigvalsh(graph.walk_matrix("normalized").toarray())
    seeds = range(seed, seed + repeats)

    def errors(law: grf.sampling.IID | grf.sampling.SigmaCoupled) -> np.ndarray:
        return relative_errors(
            graph, KERNEL, exact, grf.RandomWalks(2, law, directions="independent"), seeds
        )

    independent = errors(grf.sampling.IID(p_halt))
    mean, error = mean_and_error(independent)
    print(f"independent lengths: relative error {mean:.4f} +- {error:.4f}, {repeats} repeats")
    print(
        "                                                                      Cayley distance "
        "  Eq. 55: linear"
    )
    print(
        "order  linear / iid      exhaustive / iid  exhaustive / linear  found  least of ties  / "
        "exhaustive"
    )
    rows = []
    for order in orders:
        linear, exhaustive = (
            grf.couplings.learn_coupling(
                graph, KERNEL, p_halt=p_halt, order=order, solver=solver, pairs=pairs, seed=seed
            )
            for solver in ("linear", "exhaustive")
        )
        of_linear, of_exhaustive = (
            errors(grf.sampling.SigmaCoupled(coupling)) for coupling in (linear, exhaustive)
        )
        objectives = [
            quadratic_objective(each.permutation, eigenvalues, p_halt)
            for each in (linear, exhaustive)
        ]
        row = Row(
            order,
            ratio_and_error(of_linear, independent),
            ratio_and_error(of_exhaustive, independent),
            ratio_and_error(of_exhaustive, of_linear),
            cayley_distance(linear.permutation, exhaustive.permutation),
            tied_distance(linear.permutation, exhaustive.permutation, p_halt),
            objectives[0] / objectives[1],
        )
        ratios = (
            f"{ratio:.4f} +- {error:.4f}"
            for ratio, error in (row.linear, row.exhaustive, row.relative)
        )
        print(
            f"{order:>5}  {'  '.join(ratios)}    {row.distance:>5}  {row.distance_of_ties:>13}  "
            f"{row.objective:>13.6f}",
            flush=True,
        )
        rows.append(row)
    return rows


def draw(rows: list[Row], title: str, path: str) -> None:
    """Ratios of errors above, Cayley distances below."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 5.4), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[2, 1])
    orders = np.array([row.order for row in rows])
    lines = (
        ([row.linear for row in rows], "linear (Eq. 56)", COLOURS[0], "o", -0.06),
        ([row.exhaustive for row in rows], "exhaustive (Eq. 55)", COLOURS[1], "s", 0.06),
    )
    for values, label, colour, marker, shift in lines:
        ratio, error = np.array(values).T
        upper.errorbar(
            orders + shift,
            ratio,
            yerr=error,
            label=label,
            color=colour,
            marker=marker,
            markersize=5,
            linewidth=1.4,
            elinewidth=1,
            capsize=2,
        )
    upper.set_ylabel("error relative to independent walks")
    upper.set_title(title, fontsize=10)
    upper.legend(frameon=False)
    lower.plot(
        orders,
        [row.distance for row in rows],
        "o--",
        color="#000000",
        label="as found",
        markersize=5,
    )
    lower.plot(
        orders,
        [row.distance_of_ties for row in rows],
        "s-",
        color=COLOURS[2],
        label="least among ties",
        markersize=5,
    )
    lower.set_ylim(-0.4, max(3.4, 0.4 + max(row.distance for row in rows)))
    lower.set_ylabel("Cayley distance")
    lower.set_xlabel("order of the permutations")
    lower.set_xticks(orders)
    lower.legend(frameon=False, loc="upper left")
    for ax in (upper, lower):
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(color="#ececec", linewidth=0.8)
        ax.set_axisbelow(True)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--graph", default="eurosis", metavar="NAME")
    parser.add_argument("--p-halt", type=float, default=0.5)
    parser.add_argument(
        "--orders",
        type=int,
        nargs=2,
        default=(2, 9),
        metavar=("FROM", "TO"),
        help="TO is 9 at most",
    )
    parser.add_argument("--repeats", type=int, default=400, help="at least 2")
    parser.add_argument(
        "--pairs", type=int, help="average the objectives over so many random node pairs, not all"
    )
    parser.add_argument("--seed", type=int, default=0)
    add_figure_option(parser)
    options = parser.parse_args()
    if options.repeats < 2:
        parser.error("--repeats must be at least 2")
    if not 2 <= options.orders[0] <= options.orders[1] <= 9:
        parser.error("--orders must be FROM and TO with 2 <= FROM <= TO <= 9")

    graph = grf.datasets.load(options.graph).graph
    orders = range(options.orders[0], options.orders[1] + 1)
    rows = compare(graph, options.p_halt, orders, options.pairs, options.repeats, options.seed)
    if options.out:
        learned = f"{options.pairs or 'all'} node pair{'' if options.pairs == 1 else 's'}"
        title = f"{options.graph}, halting probability {options.p_halt:g}, objectives of {learned}"
        draw(rows, title, options.out)


if __name__ == "__main__":
    main()
