"""What the Gaussian-process experiments share: task, samplers, scores and figure."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from _exact_gp import ExactGP
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

import graphrf as grf
from graphrf.gp import metrics
from graphrf.operators.series.apply import kernel_block
from graphrf.plot import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Permutations as for the paper's Gaussian processes (App. F.2).
ORDER = 50
# Share of sum |f_k| beyond the last step: of rows
# that stand for exact ones, and of truncated walks.
EXACT_TAIL, WALK_TAIL = 1e-6, 1e-3
# A Gram matrix of rows with more non-zeros than this is made by dense products.
_DENSE_ROW = 150
_MOST_TRAINED = 2_000
# Non-zeros of our rows, against those of sigma-coupled
# walks with the most walks and the smallest p_halt.
SHARE = 1.4


class Task(NamedTuple):
    """Observed and test nodes of a graph, frozen hyperparameters, the exact posterior."""

    graph: grf.Graph
    train: np.ndarray
    test: np.ndarray
    y_train: np.ndarray
    y_test: np.ndarray
    kernel: grf.kernels.Kernel
    amplitude: float  # what multiplies the kernel
    noise: float
    constant: float  # the mean, 0 in the paper
    dense: np.ndarray  # the kernel's matrix, without amplitude
    mean: np.ndarray  # the exact posterior of f at the test nodes
    covariance: np.ndarray


class Score(NamedTuple):
    """How a sampler did, in one draw. KL is of the approximate posterior to the exact one."""

    gram: float
    rmse: float
    kl: float
    nonzeros: float
    seconds: float


@contextmanager
def quiet() -> Iterator[None]:
    """Without warnings of heavy tails and cut rows: what they warn of is what is measured here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def matern_field(
    graph: grf.Graph,
    nodes: np.ndarray,
    y: np.ndarray,
    *,
    mean: str = "zero",
    laplacian: str = "normalized",
) -> grf.GraphGPRegressor:
    """The likelier of the Markov random fields of Matern's nu = 1 and 2, by maximum likelihood."""
    with warnings.catch_warnings():
        # Maximum likelihood may end at the smallest noise.
        warnings.simplefilter("ignore")
        fields = [
            grf.GraphGPRegressor(
                graph,
                kernel=grf.Matern(nu, laplacian=laplacian),
                method="precision",
                mean=mean,
                prior=None,
                hyperparameters="mode",
                seed=0,
            ).fit(nodes, y)
            for nu in (1.0, 2.0)
        ]
    return max(fields, key=lambda field: field.log_marginal_likelihood_)


def split(n: int, n_test: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Training and test positions among n."""
    order = np.random.default_rng(seed).permutation(n)
    return np.sort(order[n_test:]), np.sort(order[:n_test])


class Model(NamedTuple):
    """Frozen hyperparameters: y = constant + f + noise, f ~ N(0, amplitude K)."""

    kernel: grf.kernels.Kernel
    amplitude: float
    noise: float
    constant: float


def task_from(
    graph: grf.Graph,
    train: np.ndarray,
    test: np.ndarray,
    y_train: np.ndarray,
    y_test: np.ndarray,
    model: Model,
    known: tuple[np.ndarray, np.ndarray] | None = None,
) -> Task:
    """The task with its exact posterior: `known`, or by Cholesky of the kernel matrix."""
    dense = kernel_block(graph, model.kernel, tol=1e-13)
    dense = 0.5 * (dense + dense.T)
    empty = np.zeros(0)
    task = Task(graph, train, test, y_train, y_test, *model, dense, empty, empty)
    mean, covariance = known or posterior(task, dense)
    return task._replace(mean=mean, covariance=covariance)


def model_of(gp: ExactGP) -> Model:
    """The hyperparameters of a fitted exact GP."""
    return Model(gp.kernel_, gp.output_scale_ / gp.mean_variance_, gp.noise_, float(gp.mean_))


def train_on_walks(
    graph: grf.Graph, train: np.ndarray, y: np.ndarray, mean: str, p_halt: float, seed: int
) -> Model:
    """The paper's training (App. F.2): the mode for 8 independent walks, then frozen.

    The likelihood is that of at most 2,000 observed nodes, drawn at random.
    """
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.permutation(train.size)[:_MOST_TRAINED])
    walks = grf.RandomWalks(8, grf.sampling.IID(p_halt), directions="independent")
    features = grf.sample_features(graph, walks, nodes=train[chosen], seed=seed, dtype="float64")
    sides = np.stack([np.ones(chosen.size), y[chosen]], axis=1)

    def profile(point: np.ndarray) -> tuple[float, Model]:
        """Minus the likelihood at the best scale and mean; point: log lengthscale, log ratio."""
        kernel = grf.Diffusion(float(np.exp(point[0])))
        with quiet():
            phi = features.matrix(kernel)
        gram = (phi @ phi.T).toarray()
        ratio = float(np.diagonal(gram).mean() * np.exp(point[1]))
        gram[np.diag_indices_from(gram)] += ratio
        root = np.linalg.cholesky(gram)
        half = np.linalg.solve(root, sides)
        constant = (
            half[:, 0] @ half[:, 1] / (half[:, 0] @ half[:, 0]) if mean == "constant" else 0.0
        )
        scale = float(np.square(half[:, 1] - constant * half[:, 0]).mean())
        value = 0.5 * chosen.size * np.log(scale) + np.log(np.diagonal(root)).sum()
        return float(value), Model(kernel, scale, scale * ratio, float(constant))

    starts = [np.array([np.log(length), np.log(0.1)]) for length in (1.0, 2.0, 4.0, 8.0)]
    best = minimize(
        lambda point: profile(point)[0],
        min(starts, key=lambda point: profile(point)[0]),
        method="Nelder-Mead",
        bounds=[(np.log(0.1), np.log(20.0)), (np.log(1e-6), np.log(1e3))],
        options={"xatol": 1e-2, "fatol": 1e-2, "maxfev": 80},
    ).x
    return profile(best)[1]


def coupled_walks(n_walks: int, p_halt: float) -> dict[str, grf.RandomWalks]:
    """The paper's samplers: independent directions; three couplings of lengths."""
    laws = {
        "iid": grf.sampling.IID(p_halt),
        "antithetic": grf.sampling.Antithetic(p_halt),
        "sigma": grf.sampling.SigmaCoupled(
            grf.couplings.learn_coupling(p_halt=p_halt, order=ORDER)
        ),
    }
    return {
        f"{name}, p {p_halt:g}, {n_walks}": grf.RandomWalks(n_walks, law, directions="independent")
        for name, law in laws.items()
    }


def rivals(task: Task, n_walks: int, nonzeros: float) -> dict[str, Any]:
    """Our samplers; those with a budget at no more than that many non-zeros per row."""
    length = max(task.kernel.truncation_length(WALK_TAIL), 1)
    exact = max(task.kernel.truncation_length(EXACT_TAIL), 1)
    auto = grf.sampling.AutoLengths(task.kernel)
    stratified = grf.RandomWalks(n_walks, grf.sampling.Truncated(length), directions="stratified")
    return {
        f"stratified, truncated, {n_walks}": stratified,
        "compressed, default": largest_budget(
            task, lambda budget: grf.CompressedPowers(budget), nonzeros
        ),
        "compressed, flat": largest_budget(
            task, lambda budget: grf.CompressedPowers(budget, exact), nonzeros
        ),
        "compressed, auto": largest_budget(
            task,
            lambda budget: grf.CompressedPowers(budget, lengths=auto).resolved(task.graph),
            nonzeros,
        ),
        "cut rows": grf.sampling.CutPowers(int(nonzeros), exact),
        "exact rows": grf.sampling.ExactPowers(exact),
    }


def largest_budget(task: Task, sampler: Callable[[int], Any], nonzeros: float) -> Any:
    """The largest budget whose rows have at most so many non-zeros, by bisection."""
    some = np.random.default_rng(0).permutation(task.graph.n_nodes)[:2_000]

    def fits(budget: int) -> bool:
        features = grf.sample_features(task.graph, sampler(budget), nodes=some, seed=0)
        # Other nodes and other seeds may have a few more.
        return features.matrix(task.kernel).nnz <= 0.995 * nonzeros * some.size

    low, high = 1, 2
    while high <= task.graph.n_nodes and fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return sampler(low)


def posterior(task: Task, prior: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of f at the test nodes for a kernel matrix over all nodes."""
    a = task.amplitude * prior[np.ix_(task.train, task.train)]
    a[np.diag_indices_from(a)] += task.noise
    cross = task.amplitude * prior[np.ix_(task.train, task.test)]
    sides = np.hstack([(task.y_train - task.constant)[:, None], cross])
    solved = cho_solve(cho_factor(a, lower=True, overwrite_a=True, check_finite=False), sides)
    covariance = task.amplitude * prior[np.ix_(task.test, task.test)] - cross.T @ solved[:, 1:]
    return task.constant + cross.T @ solved[:, 0], 0.5 * (covariance + covariance.T)


def sampled(task: Task, sampler: Any, seed: int) -> Any:
    """Phi, float64, over all nodes."""
    with quiet():
        return grf.sample_features(task.graph, sampler, seed=seed, dtype="float64").matrix(
            task.kernel
        )


def score(task: Task, sampler: Any, seed: int) -> Score:
    """One draw of the features, and the posterior they give; `seconds` of features."""
    start = time.perf_counter()
    phi = sampled(task, sampler, seed)
    seconds = time.perf_counter() - start
    nonzeros = phi.nnz / task.graph.n_nodes
    if nonzeros > _DENSE_ROW:
        phi = phi.toarray()
        gram = phi @ phi.T
    else:
        gram = (phi @ phi.T).toarray()
    mean, covariance = posterior(task, gram)
    try:
        divergence = metrics.kl_divergence(mean, covariance, task.mean, task.covariance)
    except ValueError:  # the posterior of wild features is singular to rounding
        divergence = np.inf
    gram -= task.dense
    error = float(np.linalg.norm(gram) / np.linalg.norm(task.dense))
    return Score(error, metrics.rmse(task.y_test, mean), divergence, nonzeros, seconds)


def scores(task: Task, sampler: Any, repeats: int, seed: int) -> np.ndarray:
    """Scores of several draws, shape (repeats, 5); what is not random is drawn once."""
    if isinstance(sampler, grf.sampling.ExactPowers | grf.sampling.CutPowers):
        repeats = 1
    return np.array([score(task, sampler, seed + k) for k in range(repeats)])


def mean_and_error(values: np.ndarray) -> tuple[float, float]:
    """Mean and its standard error, 0 for a single value."""
    return float(values.mean()), float(
        values.std(ddof=1) / values.size**0.5
    ) if values.size > 1 else 0.0


HEADER = f"{'sampler':<27}{'non-zeros':>10}  {'Gram error':<18}{'RMSE':<18}{'KL':<20}{'seconds':>8}"


def print_scores(name: str, values: np.ndarray) -> None:
    """A row of the table."""
    cells = []
    for k, width in ((0, 18), (1, 18), (2, 20)):
        mean, error = mean_and_error(values[:, k])
        cells.append(
            (f"{mean:.3g} +- {error:.1g}" if len(values) > 1 else f"{mean:.3g}").ljust(width)
        )
    print(
        f"{name:<27}{values[:, 3].mean():>10.0f}  {''.join(cells)}{np.median(values[:, 4]):>8.3f}",
        flush=True,
    )


def warm_up(samplers: Iterable[Any]) -> None:
    """Compile, so that seconds are those of a second call."""
    ring = grf.from_edges(np.arange(8), (np.arange(8) + 1) % 8)
    settings = {"kernel": grf.Diffusion(1.0), "optimize": False, "output_scale": 1.0, "noise": 0.1}
    with quiet():
        for sampler in samplers:
            grf.sample_features(ring, sampler, seed=0).matrix(grf.Diffusion(1.0))
            grf.GraphGPRegressor(ring, numerics=grf.gp.Numerics(sampler=sampler), **settings).fit(
                [0, 1], [0.0, 1.0]
            ).predict(return_std=True)


def compare(
    task: Task, walks: tuple[int, ...], p_halts: tuple[float, ...], repeats: int, seed: int
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Scores of every sampler, printed as they come; seconds of all nodes' features."""
    paper = {
        name: sampler
        for p_halt in p_halts
        for number in walks
        for name, sampler in coupled_walks(number, p_halt).items()
    }
    warm_up(paper.values())
    print(HEADER)
    results = {}
    reference = f"sigma, p {p_halts[-1]:g}, {walks[-1]}"
    for name, sampler in paper.items():
        results[name] = scores(task, sampler, repeats, seed)
        print_scores(name, results[name])
    ours = rivals(task, walks[-1], SHARE * results[reference][:, 3].mean())
    warm_up(ours.values())
    for name, sampler in ours.items():
        results[name] = scores(task, sampler, repeats, seed)
        print_scores(name, results[name])
    return results, {reference: paper[reference], **ours}


def print_targets(
    results: dict[str, np.ndarray], exact: float, n_walks: int, p_halt: float
) -> None:
    """Compressed and cut rows against sigma-coupled walks of like size, and exact GPs."""
    reference = f"sigma, p {p_halt:g}, {n_walks}"
    sigma = results[reference]
    for name in ("compressed, auto", "cut rows"):
        values = results[name]
        print(
            f"{name}: {values[:, 3].mean() / sigma[:, 3].mean():.2f} x the non-zeros of "
            f"{reference}; KL {100 * values[:, 2].mean() / sigma[:, 2].mean():.2g} % of its KL; "
            f"RMSE {100 * (values[:, 1].mean() / exact - 1):+.3g} % from the exact GP's"
        )


# -- the figure ------------------------------------------------------------------------------------

# What lies below these is drawn on the lower edge of its panel.
_FLOORS = (1e-5, 0.0, 1e-6)
_COUPLED = {"iid": ("#000000", "o"), "antithetic": (COLOURS[1], "s"), "sigma": (COLOURS[0], "D")}
_OTHERS = {
    "stratified": (COLOURS[2], "^"),
    "compressed, default": (COLOURS[3], "<"),
    "compressed, flat": (COLOURS[3], ">"),
    "compressed, auto": (COLOURS[3], "*"),
    "cut rows": (COLOURS[4], "P"),
    "exact rows": (COLOURS[5], "X"),
}


def draw(results: dict[str, tuple[dict[str, np.ndarray], float]], held_out: str, path: str) -> None:
    """Error of the Gram matrix, error of predictions and KL against non-zeros per row.

    A column for each graph; of a single graph the three panels stand side by side.
    """
    from matplotlib.figure import Figure

    n = len(results)
    figure = Figure(figsize=(9, 3.6) if n == 1 else (2.5 * n + 0.6, 7.8), layout="constrained")
    axes = figure.subplots(1, 3, squeeze=False).T if n == 1 else figure.subplots(3, n, sharex="col")
    for column, (name, (values, exact)) in enumerate(results.items()):
        for row in range(3):
            draw_panel(axes[row, column], values, row)
        axes[1, column].axhline(
            exact, color="#000000", linewidth=0.9, linestyle=":", label="exact GP"
        )
        if n > 1:
            axes[0, column].set_title(name, fontsize=9)
    for row, label in enumerate(
        ("relative Gram error", f"RMSE at {held_out}", "KL(approximate || exact)")
    ):
        axes[row, 0].set_ylabel(label, fontsize=9)
    for ax in axes.flat if n == 1 else axes[-1]:
        ax.set_xlabel("non-zeros per row", fontsize=9)
    handles, labels = axes[1, 0].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=4 if n == 1 else 7,
        frameon=False,
        fontsize=8.5,
    )
    figure.savefig(path, dpi=110)


def draw_panel(ax: Axes, results: dict[str, np.ndarray], row: int) -> None:
    """One measure of every sampler: lines join numbers of walks, open marks p_halt's."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    lines: dict[str, list[np.ndarray]] = {}
    for name, values in results.items():
        lines.setdefault(name.rpartition(", ")[0] if " p " in name else name, []).append(values)
    widest = max(float(name.split(" p ")[1]) for name in lines if " p " in name)
    for name, points in lines.items():
        across = [p[:, 3].mean() for p in points]
        means = np.maximum([p[:, row].mean() for p in points], _FLOORS[row])
        spread = [mean_and_error(p[:, row])[1] for p in points]
        coupled = " p " in name
        opened = coupled and float(name.split(" p ")[1]) == widest
        key = name.split(",")[0] if coupled or name.startswith("stratified") else name
        colour, marker = (_COUPLED if coupled else _OTHERS)[key]
        ax.errorbar(
            across,
            means,
            spread,
            color=colour,
            marker=marker,
            markersize=4 if coupled else 7,
            linewidth=1.1 if coupled else 0,
            linestyle="--" if opened else "-",
            elinewidth=1,
            markerfacecolor="white" if opened else colour,
            label=name,
        )
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_formatter(NullFormatter())
    if _FLOORS[row]:
        ax.set_yscale("log")
        ax.set_ylim(bottom=0.5 * _FLOORS[row])
        ax.yaxis.set_major_locator(LogLocator(numticks=6))
    else:
        ax.yaxis.set_major_locator(MaxNLocator(5))
    ax.tick_params(labelsize=8)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="#ececec", linewidth=0.8)
    ax.set_axisbelow(True)
