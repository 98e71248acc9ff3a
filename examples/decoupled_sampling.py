"""Posterior draws in weights of Fourier features and decoupled: figures A.10, A.11.

As there ("Numerical methods for improved decoupled sampling of Gaussian processes", Sec. A.4.2):
128 points in [0, 1]^D with values from the prior of the Gaussian kernel, noise variance 1e-3,
lengthscales 1, 1/4 and 1/16; the posterior at 64 points; all points uniform; known hyperparameters;
five repeats. The squared 2-Wasserstein distance to the exact posterior is taken from the mean and
covariance of 4,096 draws, as published, and from exact moments of the draws. Beside it stands what
the chapter recommends instead, the Kullback-Leibler divergence (Eq. A.33) of the approximate law to
the exact one, here of noisy values: at 64 points the covariance of the function itself is singular
to rounding, unless the lengthscale is small or D large.

The chapter prints no values of these figures but one; what it concludes is checked, claim by claim.
Figure A.9 is drawn by `posterior_draws.py`.

    python examples/decoupled_sampling.py --out decoupled_sampling.png python
    examples/decoupled_sampling.py --dimensions 1 4 --features 16 64 256 --samples 512 --repeats 2
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from _figures import GREY, doublings, figure, legend_below, look
from _options import add_figure_option
from scipy.stats import spearmanr

from graphrf.euclidean.features import FourierFeatures
from graphrf.euclidean.gp.divergences import gaussian_kl, gaussian_w2
from graphrf.euclidean.gp.moments import (
    ProcessMoments,
    decoupled_moments,
    exact_moments,
    weight_space_moments,
)
from graphrf.euclidean.gp.pathwise import FunctionDraws, decoupled_draws, weight_space_draws
from graphrf.euclidean.kernels import stationary_kernel
from graphrf.euclidean.quadrature_features import QuadratureFeatures
from graphrf.plot import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KERNEL = stationary_kernel("gaussian")
TRAIN, TEST, NOISE = 128, 64, 1e-3
LENGTHSCALES = (1.0, 1 / 4, 1 / 16)
COUPLINGS = {
    "RFF": ("iid", "iid"),
    "ORF": ("orthogonal", "iid"),
    "PNC": ("orthogonal", "pnc"),
    "QRFF": ("sobol", None),
}
METHODS = (*COUPLINGS, "GH")
LABELS = {
    "RFF": "independent (RFF)",
    "ORF": "orthogonal (ORF)",
    "PNC": "orthogonal, norms coupled in pairs",
    "QRFF": "Sobol (QRFF)",
    "GH": "Gauss-Hermite (D <= 4)",
}
LOOKS: dict[str, dict[str, Any]] = {
    "RFF": {"coupling": "iid"},
    "ORF": {"coupling": "orthogonal"},
    "PNC": {"coupling": "+ PNC"},
    "QRFF": {"coupling": "low discrepancy"},
}
GAUSS_HERMITE = {"color": COLOURS[3], "marker": "v"}
APPROACHES = ("weights", "decoupled")
# A rank correlation from which on we call it strong.
STRONG = 0.5
# Smaller distances are drawn as this.
_LEAST = 1e-9
MEASURES = ("sampled", "w2", "kl")
HEADINGS = {"sampled": "W2^2 of {} draws", "w2": "W2^2, exact moments", "kl": "KL, exact moments"}


class Problem(NamedTuple):
    """Observations, points asked for, and the lengthscale that made them."""

    x: np.ndarray
    y: np.ndarray
    x_new: np.ndarray
    lengthscale: float

    @property
    def settings(self) -> dict[str, float]:
        return {"noise": NOISE, "lengthscale": self.lengthscale}


class Cell(NamedTuple):
    """What one set of features did on one problem; `MEASURES` for each approach.

    Of these, `mean` is the largest error of the mean, `ratio` the median over points of the
    variance over the exact one, and `latent` whether the divergence of the function itself could be
    computed.
    """

    dimension: int
    lengthscale: float
    repeat: int
    method: str
    columns: int
    gram: float
    measures: dict[str, dict[str, float]]


def make_problem(
    dimension: int, lengthscale: float, rng: np.random.Generator, n: int = TRAIN
) -> Problem:
    """Uniform points, and values from the prior with noise."""
    x, x_new = rng.uniform(size=(n, dimension)), rng.uniform(size=(TEST, dimension))
    covariance = KERNEL.gram(x, lengthscale=lengthscale) + NOISE * np.eye(n)
    return Problem(x, np.linalg.cholesky(covariance) @ rng.standard_normal(n), x_new, lengthscale)


def make_features(method: str, columns: int, problem: Problem, seed: int) -> Any:
    """Features of as many columns; of a quadrature rule the most nodes that fit, or None."""
    if method != "GH":
        directions, norms = COUPLINGS[method]
        features = FourierFeatures(
            columns // 2,
            directions=directions,
            norms=norms,
            lengthscale=problem.lengthscale,
            seed=seed,
            n_threads=1,
        )
        return features.fit(problem.x)
    dimension = problem.x.shape[1]
    n_nodes = int((columns + 0.5) ** (1 / dimension))
    if dimension > 4 or n_nodes < 2:
        return None
    return QuadratureFeatures(n_nodes, lengthscale=problem.lengthscale, n_threads=1).fit(problem.x)


def law(approach: str, features: Any, problem: Problem) -> ProcessMoments:
    """The exact mean and covariance of the draws."""
    x, y, x_new, _ = problem
    if approach == "weights":
        return weight_space_moments(features, x, y, x_new, noise=NOISE)
    return decoupled_moments(features, KERNEL, x, y, x_new, **problem.settings)


def draws(
    approach: str, features: Any, problem: Problem, n_samples: int, seed: int
) -> FunctionDraws:
    """Draws in the weights of the features, or decoupled ones."""
    if approach == "weights":
        return weight_space_draws(
            features, problem.x, problem.y, noise=NOISE, n_samples=n_samples, seed=seed
        )
    return decoupled_draws(
        features, KERNEL, problem.x, problem.y, n_samples=n_samples, seed=seed, **problem.settings
    )


def empirical(values: np.ndarray) -> ProcessMoments:
    """Mean and covariance of draws, one a row."""
    return ProcessMoments(values.mean(axis=0), np.cov(values.T))


def measure(
    approach: str, features: Any, problem: Problem, exact: ProcessMoments, samples: int, seed: int
) -> dict[str, float]:
    """Distances of the draws' law to the exact posterior."""
    drawn = law(approach, features, problem)
    values = draws(approach, features, problem, samples, seed).at(problem.x_new)
    try:
        gaussian_kl(*drawn, *exact)
        latent = 1.0
    except ValueError:
        latent = 0.0
    return {
        "w2": gaussian_w2(*drawn, *exact),
        "sampled": gaussian_w2(*empirical(values), *exact),
        "kl": gaussian_kl(*drawn, *exact, jitter=NOISE),
        "mean": float(np.abs(drawn.mean - exact.mean).max()),
        "ratio": float(np.median(drawn.covariance.diagonal() / exact.covariance.diagonal())),
        "latent": latent,
    }


def run_panel(
    dimension: int,
    lengthscale: float,
    features: Sequence[int],
    repeats: int,
    samples: int,
    seed: int,
) -> tuple[list[Cell], list[float]]:
    """All cells of one problem, and the distance of draws of the exact posterior."""
    cells, floor = [], []
    for repeat in range(repeats):
        rng = np.random.default_rng([seed, dimension, round(1 / lengthscale), repeat])
        problem = make_problem(dimension, lengthscale, rng)
        exact = exact_moments(KERNEL, problem.x, problem.y, problem.x_new, **problem.settings)
        floor.append(gaussian_w2(*empirical(exact_draws(exact, samples, rng)), *exact))
        together = np.vstack([problem.x, problem.x_new])
        gram = KERNEL.gram(together, lengthscale=lengthscale)
        seen = set()
        for columns in features:
            for method in METHODS:
                feature_seed = int(rng.integers(2**62))
                fitted = make_features(method, columns, problem, feature_seed)
                if fitted is None:
                    continue
                phi = fitted.transform(together)
                # Few numbers of nodes have a fourth power that fits.
                if (method, phi.shape[1]) in seen:
                    continue
                seen.add((method, phi.shape[1]))
                measures = {
                    approach: measure(approach, fitted, problem, exact, samples, feature_seed)
                    for approach in APPROACHES
                }
                error = float(np.linalg.norm(phi @ phi.T - gram) / np.linalg.norm(gram))
                cells.append(
                    Cell(dimension, lengthscale, repeat, method, phi.shape[1], error, measures)
                )
    return cells, floor


def exact_draws(exact: ProcessMoments, n_samples: int, rng: np.random.Generator) -> np.ndarray:
    """Draws by a root of the covariance, the conventional way."""
    values, vectors = np.linalg.eigh(exact.covariance)
    root = vectors * np.sqrt(np.maximum(values, 0))
    return exact.mean + rng.standard_normal((n_samples, len(values))) @ root.T


def line(
    cells: Sequence[Cell], method: str, value: Callable[[Cell], float]
) -> dict[int, np.ndarray]:
    """For each number of columns the values of a method over the repeats."""
    found: dict[int, list[float]] = {}
    for cell in cells:
        if cell.method == method:
            found.setdefault(cell.columns, []).append(value(cell))
    return {columns: np.array(values) for columns, values in sorted(found.items())}


def of(approach: str, name: str) -> Callable[[Cell], float]:
    """Reads one measure of one approach from a cell."""
    return lambda cell: cell.measures[approach][name]


def at_most(found: dict[int, np.ndarray], columns: int) -> float | None:
    """The mean of the repeats at the largest number of columns that does not exceed `columns`."""
    fitting = [number for number in found if number <= columns]
    return float(found[max(fitting)].mean()) if fitting else None


Panels = dict[tuple[int, float], list[Cell]]


def print_table(panels: Panels, columns: int, samples: int) -> None:
    """Means of the repeats of every panel."""
    print(f"means over the repeats at {columns} columns")
    heads = [HEADINGS[name].format(f"{samples:,}") for name in MEASURES]
    width = 10 * len(METHODS)
    print(" " * 21 + " | ".join(f"{head:<{width}}" for head in heads))
    print(
        f"{'D':>2} {'l':>6} {'draws':<11}"
        + " | ".join("".join(f"{m:>10}" for m in METHODS) for _ in heads)
    )
    for (dimension, lengthscale), cells in panels.items():
        for approach in APPROACHES:
            groups = []
            for name in MEASURES:
                values = [
                    at_most(line(cells, method, of(approach, name)), columns) for method in METHODS
                ]
                groups.append(
                    "".join(f"{'-' if value is None else f'{value:.2e}':>10}" for value in values)
                )
            print(
                f"{dimension:>2} {lengthscale:>6g} {approach:<11}" + " | ".join(groups), flush=True
            )


def rank_correlations(panels: Panels, approach: str, name: str) -> list[float]:
    """Spearman's correlation of the Gram matrix' error with a distance, by panel."""
    result = []
    for cells in panels.values():
        pairs = [
            (errors.mean(), values.mean())
            for method in METHODS
            for errors, values in zip(
                line(cells, method, lambda cell: cell.gram).values(),
                line(cells, method, of(approach, name)).values(),
                strict=True,
            )
        ]
        result.append(float(spearmanr(*np.transpose(pairs)).statistic))
    return result


def spreads(panels: Panels, approach: str, name: str, columns: int) -> list[float]:
    """Largest over smallest distance of the couplings at some columns, in every panel."""
    result = []
    for cells in panels.values():
        values = [at_most(line(cells, method, of(approach, name)), columns) for method in COUPLINGS]
        known = [value for value in values if value is not None]
        result.append(max(known) / min(known))
    return result


def starvation(repeats: int, seed: int) -> dict[str, list[float]]:
    """W2^2 (exact) of 32, 128 and 512 observations; D = 2, lengthscale 1/4, 256 columns."""
    result: dict[str, list[float]] = {approach: [] for approach in APPROACHES}
    for n in (32, 128, 512):
        found: dict[str, list[float]] = {approach: [] for approach in APPROACHES}
        for repeat in range(repeats):
            problem = make_problem(2, 1 / 4, np.random.default_rng([seed, n, repeat]), n)
            exact = exact_moments(KERNEL, problem.x, problem.y, problem.x_new, **problem.settings)
            features = make_features("RFF", 256, problem, seed + repeat)
            for approach in APPROACHES:
                found[approach].append(gaussian_w2(*law(approach, features, problem), *exact))
        for approach in APPROACHES:
            result[approach].append(float(np.mean(found[approach])))
    return result


def gauss_hermite_ratios(
    panels: Panels, approach: str, columns: int
) -> dict[tuple[int, float], float]:
    """W2^2 (exact moments) of Gauss-Hermite over that of the best coupling, where it has nodes."""
    ratios = {}
    for key, cells in panels.items():
        values = [at_most(line(cells, method, of(approach, "w2")), columns) for method in METHODS]
        known = [value for value in values[:-1] if value is not None]
        if values[-1] is not None:
            ratios[key] = values[-1] / min(known)
    return ratios


def listed(ratios: dict[tuple[int, float], float]) -> str:
    """Ratios by their panels."""
    return (
        ", ".join(f"D={d} l={scale:g}: {ratio:.1e}" for (d, scale), ratio in ratios.items())
        or "no such D"
    )


def several(values: Sequence[float], form: str = ".2f") -> str:
    """Median and range."""
    return f"median {np.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def print_claims(
    panels: Panels,
    floors: dict[tuple[int, float], list[float]],
    columns: int,
    repeats: int,
    seed: int,
) -> None:
    """The chapter's conclusions, each with the figures that speak for it or against."""
    print("\nclaims of the chapter; medians and ranges are over the panels")
    floor = [float(np.mean(values)) for values in floors.values()]
    claim(
        "draws of the exact posterior have an empirical W2^2 of some 1e-2 (published: 1e-2; in "
        "theory 0)",
        f"W2^2 {several(floor, '.1e')}, growing with D and with shorter lengthscales",
        all(3e-3 < value < 3e-2 for value in floor),
    )

    correlation = rank_correlations(panels, "weights", "w2")
    claim(
        "weight space: a tighter kernel has a large positive effect",
        f"rank correlation of the Gram matrix' error with W2^2: {several(correlation)}",
        float(np.median(correlation)) > STRONG,
    )
    ratios = {approach: gauss_hermite_ratios(panels, approach, columns) for approach in APPROACHES}
    claim(
        "weight space: with D < 5 and lengthscales large enough Gauss-Hermite is considerably "
        "closer",
        f"its W2^2 over that of the best other: {listed(ratios['weights'])}",
        all(ratio < 0.5 for (_, scale), ratio in ratios["weights"].items() if scale == 1),
    )
    claim(
        "decoupled: there Gauss-Hermite is hardly discernible from the others",
        f"its W2^2 over that of the best other: {listed(ratios['decoupled'])}",
        all(ratio > 0.5 for (_, scale), ratio in ratios["decoupled"].items() if scale == 1),
    )

    for name, what in (("sampled", "of draws"), ("w2", "of exact moments"), ("kl", "KL")):
        first, second = (spreads(panels, approach, name, columns) for approach in APPROACHES)
        claim(
            f"decoupled: methods are far less discernible ({what})",
            f"largest over smallest of the four random ones: weights {several(first, '.1f')}, "
            f"decoupled {several(second, '.1f')}",
            float(np.median(second)) < 0.5 * float(np.median(first)),
        )
    for name, what in (("sampled", "W2^2 of draws"), ("w2", "W2^2 of exact moments"), ("kl", "KL")):
        correlation = rank_correlations(panels, "decoupled", name)
        claim(
            "decoupled: quality has no strong positive correlation with the kernel's tightness "
            f"({what})",
            f"rank correlation: {several(correlation)}",
            float(np.median(correlation)) < STRONG,
        )

    errors = {
        a: max(cell.measures[a]["mean"] for cells in panels.values() for cell in cells)
        for a in APPROACHES
    }
    claim(
        "decoupled: the means match whatever the features; in weight space they do not",
        f"largest error of a mean: weights {errors['weights']:.1e}, decoupled "
        f"{errors['decoupled']:.1e}",
        errors["decoupled"] < 1e-8 < errors["weights"],
    )
    if any(dimension == 1 for dimension, _ in panels):
        texts, last = [], []
        for (dimension, lengthscale), cells in panels.items():
            for method in ("GH", "RFF") if dimension == 1 else ():
                found = line(cells, method, of("decoupled", "ratio"))
                ratios_by_columns = [float(values.mean()) for values in found.values()]
                texts.append(
                    f"{method} l={lengthscale:g}: "
                    f"{', '.join(f'{x:.3f}' for x in ratios_by_columns)}"
                )
                last.append(ratios_by_columns[-1])
        claim(
            "decoupled: among the observations the variance is severely too small, and more nodes "
            "do not help",
            f"variance over the exact one (D = 1, by columns): {'; '.join(texts)}",
            max(last) < 0.9,
        )
    grown = starvation(repeats, seed)
    claim(
        "decoupled: the distance remains largely the same whatever the number of observations",
        "W2^2 with 32, 128, 512 observations: "
        + "; ".join(
            f"{a} {', '.join(f'{value:.3g}' for value in values)}" for a, values in grown.items()
        ),
        max(grown["decoupled"]) < 2 * min(grown["decoupled"]),
    )
    shares = {
        key: float(np.mean([cell.measures["decoupled"]["latent"] for cell in cells]))
        for key, cells in panels.items()
    }
    undone = ", ".join(f"D={d} l={scale:g}" for (d, scale), share in shares.items() if share < 1)
    claim(
        "the divergence is the more stable numerically",
        f"of the function itself it cannot be computed, or not always, at {undone or 'none'}; with "
        "noise it can",
        not undone,
    )


def claim(text: str, figures: str, holds: bool) -> None:
    """One conclusion."""
    print(f"- {text}:\n    {'holds' if holds else 'DOES NOT HOLD'}; {figures}")


def draw(panels: Panels, floors: dict[tuple[int, float], list[float]], path: str) -> None:
    """Figures A.10 (left) and A.11 (right), with the divergence under the distance."""
    dimensions = sorted({dimension for dimension, _ in panels})
    size = {"height": 13.0, "width": max(4.4 * len(dimensions) + 1.0, 9.0)}
    with figure(path, **size) as sheet:
        drawn = []
        for part, name, ylabel in zip(
            sheet.subfigures(2, 1), ("w2", "kl"), (r"$W_2^2$", "KL (nats)"), strict=True
        ):
            for block, approach in zip(part.subfigures(1, 2), APPROACHES, strict=True):
                axes = block.subplots(
                    len(LENGTHSCALES), len(dimensions), squeeze=False, sharex=True
                )
                for row, lengthscale in zip(axes, LENGTHSCALES, strict=True):
                    for ax, dimension in zip(row, dimensions, strict=True):
                        key = dimension, lengthscale
                        draw_panel(ax, panels[key], approach, name, floors[key])
                        drawn.append(ax)
                        ax.set_title(f"D = {dimension}, lengthscale {lengthscale:g}")
                    row[0].set_ylabel(ylabel)
                block.suptitle(
                    "in the weights of the features" if approach == "weights" else "decoupled"
                )
                block.supxlabel("columns of the features", fontsize=9)
        # The first panel has all that any has: draws are
        # drawn beside distances, quadrature where D is small.
        legend_below(sheet, drawn[0], columns=4)


def draw_panel(
    ax: Axes, cells: Sequence[Cell], approach: str, name: str, floor: list[float]
) -> None:
    """Exact moments: means as lines, 95 % bands. From draws: crosses; exact ones: grey."""
    from matplotlib.ticker import NullFormatter

    for method in METHODS:
        found = line(cells, method, of(approach, name))
        x = np.array(list(found))
        mean = np.array([max(values.mean(), _LEAST) for values in found.values()])
        half = np.array([interval(values) for values in found.values()])
        style = look(**LOOKS[method]) if method != "GH" else GAUSS_HERMITE
        ax.plot(x, mean, label=LABELS[method], **style)
        # On a logarithmic axis an interval that reaches 0 ends at a third of the mean.
        ax.fill_between(
            x,
            np.maximum(mean - half, mean / 3),
            mean + half,
            color=style["color"],
            alpha=0.15,
            linewidth=0,
        )
        if name == "w2":
            drawn = [
                values.mean() for values in line(cells, method, of(approach, "sampled")).values()
            ]
            ax.plot(x, drawn, "x", color=style["color"], markersize=4)
    if name == "w2":
        ax.plot([], [], "x", color=GREY, markersize=4, label="from draws")
        ax.axhline(
            float(np.mean(floor)), color=GREY, linestyle="--", linewidth=1, label="from exact draws"
        )
    doublings(ax, sorted({cell.columns for cell in cells if cell.method == "RFF"}))
    ax.set_yscale("log")
    ax.yaxis.set_minor_formatter(NullFormatter())


def interval(values: np.ndarray) -> float:
    """Half the width of a 95 % interval of the mean, by Student's law; 0 of one value."""
    from scipy.stats import t

    if values.size < 2:
        return 0.0
    return float(t.ppf(0.975, values.size - 1) * values.std(ddof=1) / values.size**0.5)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dimensions", nargs="+", type=int, default=(1, 2, 4, 8, 16), metavar="D")
    parser.add_argument(
        "--features",
        nargs="+",
        type=int,
        default=(16, 64, 256, 1024),
        metavar="N",
        help="columns of the features, even numbers",
    )
    parser.add_argument("--samples", type=int, default=4096, help="draws for the published measure")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    add_figure_option(parser)
    options = parser.parse_args()
    if min(options.features) < 2 or any(columns % 2 for columns in options.features):
        parser.error("--features must be even numbers")
    if min(options.dimensions) < 1 or options.repeats < 1 or options.samples < 2:
        parser.error("--dimensions and --repeats must be at least 1, --samples at least 2")

    panels: Panels = {}
    floors = {}
    for dimension in options.dimensions:
        for lengthscale in LENGTHSCALES:
            panels[dimension, lengthscale], floors[dimension, lengthscale] = run_panel(
                dimension,
                lengthscale,
                sorted(options.features),
                options.repeats,
                options.samples,
                options.seed,
            )
    middle = min(options.features, key=lambda columns: abs(np.log2(columns / 256)))
    print_table(panels, middle, options.samples)
    print_claims(panels, floors, middle, options.repeats, options.seed)
    if options.out:
        draw(panels, floors, options.out)


if __name__ == "__main__":
    main()
