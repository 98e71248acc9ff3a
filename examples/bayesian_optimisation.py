"""Bayesian optimisation on a large graph: batch Thompson sampling, one solve per round.

A smooth function is drawn exactly (`apply_root`) on a grid of 99,856 nodes; its values are observed
in batches, with noise of known standard deviation. Thompson sampling draws a function for each
member of the batch from the posterior, on all nodes, and asks where each is highest. Beside it:
nodes at random; the highest local maxima of the posterior mean ("greedy"); and upper confidence
bounds, mean + 2 standard deviations, at random candidates only, because the standard deviation at
one node costs as much as a draw at all nodes. All start from the same random nodes, from which
`GraphGPRegressor` learns the hyperparameters (with --train-every again after every given number of
rounds). Simple regret: what the best node evaluated so far falls short of the maximum, in standard
deviations of the function.

If evaluations are expensive, a round takes two lines:

    gp = grf.GraphGPRegressor(graph, noise=0.01, seed=0).fit(nodes, values)
    batch = gp.sample(n_samples=8, seed=number_of_the_round).argmax(axis=1)

Here, with thousands of evaluations, `Surrogate` keeps products with F from one round to the next.

    python examples/bayesian_optimisation.py --out regret.png
    python examples/bayesian_optimisation.py --graph luxembourg-roads --lengthscale 60 --repeats 4
    python examples/bayesian_optimisation.py --quick
"""

from __future__ import annotations

import argparse
import copy
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from _figures import figure
from _options import add_figure_option

import graphrf as grf
from graphrf.operators.pathwise import posterior_draws
from graphrf.operators.series.series_factor import SeriesFactor
from graphrf.operators.solvers import CholeskySolver
from graphrf.plot import COLOURS, VALUES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection

STRATEGIES = ("thompson", "ucb", "greedy", "random")
LABELS = {
    "thompson": "Thompson sampling, all nodes",
    "ucb": "upper confidence bound, candidates",
    "greedy": "highest posterior means",
    "random": "random nodes",
}
DEFAULTS = {
    "side": 316,
    "lengthscale": 40.0,
    "initial": 30,
    "rounds": 12,
    "batch": 8,
    "candidates": 150,
    "repeats": 8,
    "train_every": 0,
}
QUICK = {
    "side": 40,
    "lengthscale": 6.0,
    "initial": 15,
    "rounds": 6,
    "batch": 4,
    "candidates": 40,
    "repeats": 4,
    "train_every": 3,
}


def grid(side: int) -> grf.Graph:
    """A square grid."""
    path = sp.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(side, side))
    eye = sp.eye_array(side)
    return grf.Graph(sp.csr_array(sp.kron(path, eye) + sp.kron(eye, path)))


@dataclass
class Rows:
    """Rows of a factor with their modulation."""

    factor: SeriesFactor
    f: np.ndarray

    def apply(self, x: np.ndarray) -> np.ndarray:
        return self.factor.apply(self.f, x)


class Surrogate:
    """A posterior with the hyperparameters of a fitted regressor, that keeps the columns of F_u^T.

    So each further observation costs one product with F, and no solve a product with the graph.
    """

    def __init__(
        self, graph: grf.Graph, nodes: np.ndarray, values: np.ndarray, noise: float, seed: int
    ) -> None:
        gp = grf.GraphGPRegressor(
            graph,
            kernel="diffusion",
            hyperparameters="mode",
            method="series",
            noise=noise,
            numerics=grf.gp.Numerics(normalize=False, max_train=100),
            seed=seed,
        )
        self.gp = gp.fit(graph.positions(nodes), values)
        kernel = self.gp.kernel_
        length = kernel.truncation_length(1e-10)
        f = np.sqrt(self.gp.output_scale_) * kernel.modulation(length + 1)
        self.everywhere = Rows(SeriesFactor(graph, kernel.laplacian, max_length=length), f)
        self.columns = np.zeros((graph.n_nodes, 0))
        self.add(nodes, values)

    def add(self, nodes: np.ndarray, values: np.ndarray) -> None:
        """Observe all of these in place of what was seen so far, which they continue."""
        new = self.products(nodes[self.columns.shape[1] :])
        self.columns = np.hstack([self.columns, new])
        self.nodes, self.residual = nodes, values - self.gp.mean_
        matrix = self.columns.T @ self.columns
        matrix[np.diag_indices(nodes.size)] += self.gp.noise_
        self.solver = CholeskySolver(matrix)

    def products(self, nodes: np.ndarray) -> np.ndarray:
        """Columns of F^T."""
        return self.everywhere.factor.take(nodes).apply_t(self.everywhere.f, np.eye(nodes.size))

    # What pathwise conditioning asks of the observed rows.

    @property
    def shape(self) -> tuple[int, int]:
        return self.columns.shape[::-1]

    def apply(self, x: np.ndarray) -> np.ndarray:
        return self.columns.T @ x

    def apply_t(self, y: np.ndarray) -> np.ndarray:
        return self.columns @ y

    # What the strategies ask.

    def draws(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Posterior draws at all nodes, (N, n), without the constant mean: no maximum moves."""
        noise = np.full(self.nodes.size, self.gp.noise_)
        drawn = posterior_draws(
            self, noise, self.residual[:, None], self.solver.solve, n_samples=n, rng=rng
        )
        return drawn.at(self.everywhere)[:, :, 0]

    def mean(self) -> np.ndarray:
        """The posterior mean at all nodes, without the constant."""
        return self.everywhere.apply(self.columns @ self.solver.solve(self.residual).value)

    def joint(self, candidates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean and covariance at nodes whose columns of F^T are given."""
        cross = self.columns.T @ candidates
        half = self.solver.half(cross)
        mean = cross.T @ self.solver.solve(self.residual).value
        return mean, candidates.T @ candidates - half.T @ half


def thompson(surrogate: Surrogate, n: int, rng: np.random.Generator) -> np.ndarray:
    """Where each of n draws is highest."""
    return surrogate.draws(n, rng).argmax(axis=0)


def greedy(surrogate: Surrogate, n: int, adjacency: sp.csr_array) -> np.ndarray:
    """The n highest local maxima of the posterior mean (fewer if there are fewer)."""
    mean = surrogate.mean()
    neighbours = np.maximum.reduceat(
        np.append(mean[adjacency.indices], -np.inf), adjacency.indptr[:-1]
    )
    neighbours[np.diff(adjacency.indptr) == 0] = -np.inf
    peaks = np.flatnonzero(mean >= neighbours)
    return peaks[np.argsort(-mean[peaks])[:n]]


def upper_confidence(
    surrogate: Surrogate, n: int, nodes: np.ndarray, columns: np.ndarray
) -> np.ndarray:
    """Candidates with the highest mean + 2 deviations: n, each as if earlier were seen.

    Source: Desautels, Krause and Burdick 2014, "Parallelizing Exploration-Exploitation Tradeoffs in
    Gaussian Process Bandit Optimization" (GP-BUCB).
    """
    mean, covariance = surrogate.joint(columns)
    chosen = []
    for _ in range(n):
        deviation = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
        best = int(np.argmax(mean + 2 * deviation))
        chosen.append(best)
        column = covariance[:, best]
        covariance = covariance - np.outer(column, column) / (column[best] + surrogate.gp.noise_)
    return nodes[chosen]


class Search:
    """One function to maximise: what all strategies start from."""

    def __init__(self, graph: grf.Graph, options: argparse.Namespace, seed: int) -> None:
        self.graph, self.options, self.seed = graph, options, seed
        rng = np.random.default_rng([seed, 0])
        truth = grf.apply_root(
            graph, grf.Diffusion(options.lengthscale), rng.standard_normal(graph.n_nodes)
        )
        self.truth = truth / truth.std()
        self.nodes = rng.choice(graph.n_nodes, options.initial, replace=False)
        self.values = self.observed(self.nodes, rng)
        self.candidates = rng.choice(graph.n_nodes, options.candidates, replace=False)
        self.first = Surrogate(graph, self.nodes, self.values, options.noise**2, seed)
        self.first_columns = self.first.products(self.candidates)

    def observed(self, nodes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Noisy values."""
        return self.truth[nodes] + self.options.noise * rng.standard_normal(nodes.size)

    def run(self, strategy: str) -> tuple[np.ndarray, np.ndarray, float]:
        """Simple regret at the start and after every round, the nodes evaluated, and seconds."""
        options, rng = self.options, np.random.default_rng([self.seed, 1])
        nodes, values = self.nodes, self.values
        surrogate, columns = copy.copy(self.first), self.first_columns
        regret = [self.truth.max() - self.truth[nodes].max()]
        begun = time.perf_counter()
        for number in range(options.rounds):
            if strategy == "random":
                batch = rng.choice(self.graph.n_nodes, options.batch)
            else:
                if options.train_every and number and number % options.train_every == 0:
                    surrogate = Surrogate(self.graph, nodes, values, options.noise**2, self.seed)
                    columns = surrogate.products(self.candidates) if strategy == "ucb" else columns
                elif number:
                    surrogate.add(nodes, values)
                if strategy == "thompson":
                    batch = thompson(surrogate, options.batch, rng)
                elif strategy == "ucb":
                    batch = upper_confidence(surrogate, options.batch, self.candidates, columns)
                else:
                    batch = greedy(surrogate, options.batch, self.graph.adjacency)
            nodes = np.append(nodes, batch)
            values = np.append(values, self.observed(batch, rng))
            regret.append(self.truth.max() - self.truth[nodes].max())
        return np.array(regret), nodes, time.perf_counter() - begun


def mean_and_error(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean over the repeats and its standard error."""
    return values.mean(axis=0), values.std(axis=0, ddof=1) / values.shape[0] ** 0.5


def print_table(
    regrets: dict[str, np.ndarray], seconds: dict[str, float], options: argparse.Namespace
) -> None:
    """Regrets after every third round, and paired differences at the end."""
    print(" evaluations" + "".join(f"{name:>18}" for name in STRATEGIES))
    for number in sorted({*range(0, options.rounds, 3), options.rounds}):
        line = f"{options.initial + number * options.batch:>12}"
        for name in STRATEGIES:
            mean, error = mean_and_error(regrets[name][:, number])
            line += f"{mean:>9.3f} +- {error:.3f}"
        print(line)
    print(
        "s / round   " + "".join(f"{seconds[name] / options.rounds:>18.2f}" for name in STRATEGIES)
    )
    for name in STRATEGIES[1:]:
        mean, error = mean_and_error(regrets["thompson"][:, -1] - regrets[name][:, -1])
        print(f"thompson - {name}: {mean:+.3f} +- {error:.3f}")


def draw(
    regrets: dict[str, np.ndarray],
    places: np.ndarray | None,
    search: Search,
    asked: dict[str, np.ndarray],
    title: str,
    path: str,
) -> None:
    """Regrets, bands of one standard error; of a plane graph, where two strategies looked."""
    with figure(path, height=3.4 if places is None else 6.6, width=8.0) as sheet:
        upper = sheet if places is None else sheet.subfigures(2, 1, height_ratios=[3.0, 3.6])
        draw_regrets(
            sheet.subplots() if places is None else upper[0].subplots(),
            regrets,
            search.options,
            title,
        )
        if places is None:
            return
        panels = upper[1].subplots(1, 2)
        for ax, name in zip(panels, ("thompson", "greedy"), strict=True):
            marks = draw_search(ax, places, search, asked[name])
            ax.set_title(f"nodes evaluated by {LABELS[name]}")
        bar = upper[1].colorbar(
            marks,
            ax=panels,
            shrink=0.85,
            pad=0.02,
            label="the first function (standard deviations)",
        )
        bar.outline.set_visible(False)


def draw_regrets(
    ax: Axes, regrets: dict[str, np.ndarray], options: argparse.Namespace, title: str
) -> None:
    """A line for each strategy."""
    asked = options.initial + options.batch * np.arange(options.rounds + 1)
    colours = dict(zip(STRATEGIES, (COLOURS[0], COLOURS[1], COLOURS[2], "#000000"), strict=True))
    for name, marker in zip(STRATEGIES, "osD^", strict=True):
        mean, error = mean_and_error(regrets[name])
        ax.plot(
            asked,
            mean,
            color=colours[name],
            marker=marker,
            label=LABELS[name],
            linestyle="--" if name == "random" else "-",
        )
        ax.fill_between(
            asked, mean - error, mean + error, color=colours[name], alpha=0.2, linewidth=0
        )
    ax.set_ylim(0, 1.3 * max(np.add(*mean_and_error(values)).max() for values in regrets.values()))
    ax.set_title(title)
    ax.set_xlabel("evaluations")
    ax.set_ylabel("simple regret (standard deviations)")
    ax.legend(loc="upper right", ncols=2)


def draw_search(ax: Axes, places: np.ndarray, search: Search, nodes: np.ndarray) -> PathCollection:
    """The function at every node, and the nodes evaluated; common initial ones white."""
    n = search.options.initial
    marks = ax.scatter(
        *places.T,
        c=search.truth,
        cmap=VALUES,
        s=(220 / places.shape[0] ** 0.5) ** 2,
        marker="s",
        linewidths=0,
        rasterized=True,
    )
    edge = {"edgecolors": "black", "linewidths": 0.6}
    ax.scatter(*places[nodes[:n]].T, s=14, color="white", label="initial, at random", **edge)
    ax.scatter(*places[nodes[n:]].T, s=16, color=COLOURS[1], label="later", **edge)
    best = places[search.truth.argmax()]
    ax.plot(*best, "+", color="black", markersize=13, markeredgewidth=2, label="the maximum")
    ax.set_aspect("equal")
    ax.set_axis_off()
    ax.figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return marks


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--graph", default="grid", metavar="NAME", help="grid, or a data set of graphrf.datasets"
    )
    parser.add_argument("--side", type=int, help="of the grid; default: 316")
    parser.add_argument("--lengthscale", type=float, help="of the function; default: 40")
    parser.add_argument(
        "--noise",
        type=float,
        default=0.1,
        help="its standard deviation, in standard deviations of the function",
    )
    parser.add_argument("--initial", type=int, help="random nodes at first; default: 30")
    parser.add_argument("--rounds", type=int, help="default: 12")
    parser.add_argument("--batch", type=int, help="nodes per round; default: 8")
    parser.add_argument(
        "--candidates", type=int, help="for the upper confidence bound; default: 150"
    )
    parser.add_argument(
        "--train-every", type=int, help="rounds; default: 0, after the first nodes only"
    )
    parser.add_argument("--repeats", type=int, help="functions, at least 2; default: 8")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--quick", action="store_true", help="another default for all of these, of seconds"
    )
    add_figure_option(parser)
    options = parser.parse_args()
    for name, value in (QUICK if options.quick else DEFAULTS).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    if options.repeats < 2:
        parser.error("--repeats must be at least 2")

    if options.graph == "grid":
        graph, places = (
            grid(options.side),
            np.indices((options.side, options.side)).reshape(2, -1).T,
        )
    else:
        data = grf.datasets.load(options.graph)
        graph, places = data.graph, data.coordinates
        places = places if places is not None and places.shape[1] == 2 else None
    print(
        f"{options.graph}: {graph.n_nodes} nodes, {graph.n_edges} edges; {options.repeats} "
        "functions",
        flush=True,
    )
    runs: dict[str, list[np.ndarray]] = {name: [] for name in STRATEGIES}
    seconds = dict.fromkeys(STRATEGIES, 0.0)
    first: Search | None = None
    asked: dict[str, np.ndarray] = {}
    for repeat in range(options.repeats):
        begun = time.perf_counter()
        search = Search(graph, options, options.seed + repeat)
        first = first or search
        started = time.perf_counter() - begun
        for name in STRATEGIES:
            regret, nodes, taken = search.run(name)
            asked.setdefault(name, nodes)  # of the first function
            runs[name].append(regret)
            seconds[name] += taken / options.repeats
        print(
            f"function {repeat}: maximum {search.truth.max():.2f}, {search.first.gp.kernel_} "
            f"learned; {started:.1f} s to start, {time.perf_counter() - begun:.1f} s in all",
            flush=True,
        )
    regrets = {name: np.array(values) for name, values in runs.items()}
    print_table(regrets, seconds, options)
    if options.out:
        assert first is not None
        title = f"{graph.n_nodes:,} nodes ({options.graph}), {options.repeats} functions"
        draw(regrets, places, first, asked, title, options.out)


if __name__ == "__main__":
    main()
