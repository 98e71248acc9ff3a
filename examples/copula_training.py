"""Learning the coupling of frequency norms: the training curves of figure 6 of the couplings paper.

As there (Reid et al. 2024, App. A.5 and B.1): one split of the Boston housing data, at most 256
standardised training points, the lengthscale of the exact GP for Fourier features and twice the
mean |x_i + x_j| for Laplace features; d frequencies, or d with their negatives. A Gaussian copula
of the d norms is trained to lower the error of the training points' Gram matrix. Horizontal lines:
independent frequencies, orthogonal ones with independent norms, and with pairwise coupled norms.
The last row scores the learned copula as the lines are scored, on fresh frequencies.

    python examples/copula_training.py --out copula_training.png
    python examples/copula_training.py --steps 20 --repeats 20 --points 40
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from _figures import figure, legend_below, look
from _options import add_figure_option
from _uci import fit_for, load, split
from scipy.special import ndtri

from graphrf.euclidean.features import FourierFeatures, LaplaceFeatures
from graphrf.euclidean.frequencies.copula import GaussianCopula, learn_copula
from graphrf.euclidean.kernels import stationary_kernel
from graphrf.plot import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SCHEMES = {
    "iid": ("iid", "iid"),
    "orthogonal": ("orthogonal", "iid"),
    "+ PNC": ("orthogonal", "pnc"),
}
READOUTS = {"fourier": "Fourier features", "laplace": "Laplace features"}


def errors(
    x: np.ndarray, lengthscale: float, readout: str, directions: str, norms: Any, seeds: range
) -> np.ndarray:
    """RMSE of the Gram matrix from d frequencies (and their negatives), for every seed."""
    exact = stationary_kernel("gaussian").gram(x, lengthscale=lengthscale)
    options: dict[str, Any] = {
        "directions": directions,
        "norms": norms,
        "lengthscale": lengthscale,
        "n_threads": 1,
    }
    d = x.shape[1]
    result = np.empty(len(seeds))
    for number, seed in enumerate(seeds):
        if readout == "fourier":
            phi = FourierFeatures(d, seed=seed, **options).fit_transform(x)
        else:
            # Independent frequencies come without negatives;
            # those of the others have the same norms.
            antithetic = directions != "iid"
            phi = LaplaceFeatures(2 * d, antithetic=antithetic, seed=seed, **options).fit_transform(
                x
            )
        result[number] = np.sqrt(np.mean((phi @ phi.T - exact) ** 2))
    return result


def moving_average(values: np.ndarray, window: float) -> np.ndarray:
    """Exponential moving average over `window` steps, started at the mean of the first."""
    keep = np.exp(-1 / window)
    average = np.empty_like(values)
    current = values[: max(1, int(window) // 4)].mean()
    for index, value in enumerate(values):
        current = keep * current + (1 - keep) * value
        average[index] = current
    return average


def draw(
    curves: Mapping[str, np.ndarray],
    lines: Mapping[str, Mapping[str, np.ndarray]],
    copulas: Mapping[str, GaussianCopula],
    path: str,
) -> None:
    """A row a kind of feature: training curve, learned correlations, most opposed pair."""
    with figure(path, height=5.6) as sheet:
        rows = sheet.subplots(2, 3, width_ratios=[1.6, 1.2, 1])
        for (curve, matrix, pair), (readout, title) in zip(rows, READOUTS.items(), strict=True):
            draw_curve(curve, curves[readout], lines[readout])
            curve.set_title(title)
            correlation = copulas[readout].correlation
            edges = (0.5, len(correlation) + 0.5)
            image = matrix.imshow(
                correlation, cmap="PuOr", vmin=-1, vmax=1, origin="lower", extent=(*edges, *edges)
            )
            matrix.grid(visible=False)
            matrix.set_title("learned correlations")
            matrix.set_xlabel("norm")
            matrix.set_ylabel("norm")
            sheet.colorbar(image, ax=matrix, shrink=0.75, ticks=(-1, 0, 1))
            draw_density(pair, float(correlation.min()))
        legend_below(sheet, rows[0, 0], columns=4)


def draw_curve(ax: Axes, loss: np.ndarray, levels: Mapping[str, np.ndarray]) -> None:
    """Losses and their moving average; coupling schemes as lines, two errors each way."""
    steps = np.arange(1, loss.size + 1)
    ax.plot(steps, loss, color=COLOURS[2], linewidth=0.4, alpha=0.5)
    ax.plot(
        steps, moving_average(loss, loss.size / 40), color=COLOURS[2], label="learned (training)"
    )
    for scheme, values in levels.items():
        style = look(scheme)
        bar = 2 * values.std(ddof=1) / values.size**0.5
        ax.axhline(
            values.mean(),
            color=style["color"],
            linestyle=style["linestyle"],
            linewidth=1.3,
            label=scheme,
        )
        ax.axhspan(
            values.mean() - bar, values.mean() + bar, color=style["color"], alpha=0.15, linewidth=0
        )
    means = [values.mean() for values in levels.values()]
    room = max(means) - min(means)
    ax.set_ylim(max(0, min(means) - 0.3 * room), max(means) + 0.2 * room)
    ax.set_xlabel("step")
    ax.set_ylabel("RMSE of the Gram matrix")


def draw_density(ax: Axes, correlation: float) -> None:
    """Density of the quantiles of two norms by their scores' correlation; PNC is a line."""
    u = (np.arange(40) + 0.5) / 40
    score = ndtri(u)
    first, second = score[:, None], score
    rest = 1 - correlation**2
    exponent = (2 * correlation * first * second - correlation**2 * (first**2 + second**2)) / (
        2 * rest
    )
    density = np.exp(exponent) / rest**0.5
    ax.imshow(
        density,
        origin="lower",
        extent=(0, 1, 0, 1),
        cmap="Purples",
        vmin=0,
        vmax=4,
        interpolation="nearest",
    )
    ax.plot([0, 1], [1, 0], "--", color=look("+ PNC")["color"], linewidth=1.2)
    ax.grid(visible=False)
    ax.set_title(f"most opposed pair,\n$\\rho$ = {correlation:.2f}")
    ax.set_xlabel("quantile of one norm")
    ax.set_ylabel("of the other")
    ax.set_xticks((0, 0.5, 1))
    ax.set_yticks((0, 0.5, 1))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument(
        "--samples", type=int, default=8, help="blocks of frequencies drawn at a step"
    )
    parser.add_argument("--learning-rate", type=float, default=0.02)
    parser.add_argument(
        "--repeats", type=int, default=400, help="ensembles behind each level; at least 2"
    )
    parser.add_argument(
        "--points", type=int, default=256, help="training points, at most; at least 20"
    )
    parser.add_argument("--seed", type=int, default=0)
    add_figure_option(parser)
    options = parser.parse_args()
    if options.repeats < 2 or options.points < 20:
        parser.error("--repeats must be at least 2, --points at least 20")

    part = split(*load("boston"), seed=options.seed)
    x = part.x_train[: options.points]
    seeds = range(options.seed + 1, options.seed + 1 + options.repeats)
    print(
        f"Boston, {x.shape[0]} training points, d = {x.shape[1]}: RMSE of the Gram matrix, "
        f"{options.repeats} draws"
    )
    print("published (figure 6, without numbers): the learned copula matches + PNC")
    print(
        "Table 1, test points, ratios: Fourier .639 and .606, Laplace .360 and .324 (orthogonal, + "
        "PNC)"
    )
    print(
        f"{'features':<9} {'lengthscale':>11} {'coupling':<11} {'error':<22} {'ratio to iid':>12}"
    )
    curves, lines, copulas = {}, {}, {}
    for readout in READOUTS:
        lengthscale = fit_for(readout, part).lengthscale
        learned = learn_copula(
            x,
            readout=readout,
            lengthscale=lengthscale,
            n_steps=options.steps,
            n_samples=options.samples,
            learning_rate=options.learning_rate,
            seed=options.seed,
        )
        curves[readout], copulas[readout] = learned.losses, learned.copula
        levels = {
            scheme: errors(x, lengthscale, readout, directions, norms, seeds)
            for scheme, (directions, norms) in SCHEMES.items()
        }
        lines[readout] = levels
        fresh = {
            **levels,
            "learned": errors(x, lengthscale, readout, "orthogonal", learned.copula, seeds),
        }
        for scheme, values in fresh.items():
            spread = values.std(ddof=1) / values.size**0.5
            print(
                f"{readout:<9} {lengthscale:>11.3f} {scheme:<11} {values.mean():.6f} +- "
                f"{spread:.6f} {values.mean() / levels['iid'].mean():>13.3f}",
                flush=True,
            )
        correlation = learned.copula.correlation
        off = correlation[np.triu_indices(len(correlation), 1)]
        print(
            f"{'':<9} correlations of the scores: mean {off.mean():.3f}, from {off.min():.2f} to "
            f"{off.max():.2f}"
        )
    if options.out:
        draw(curves, lines, copulas, options.out)


if __name__ == "__main__":
    main()
