"""The error of Gram matrices from positive features: figure 7 of "Simplex random features".

As there (Reid et al. 2023, Sec. 5.2): 64 points of N(0, 0.1^2 I) in 64 dimensions, the Gaussian
kernel of lengthscale 1, independent norms, and the squared Frobenius error sum_ij (K_ij - phi(x_i)
. phi(x_j))^2 against the number of features. A block has 64. Every repeat has new points and
frequencies; the four couplings share the points and the norms.

The paper prints no figures for its curves. It says that simplex features have the least error and
independent ones the most. Beside ours stand the exact means: the sum of the mean square errors of
all pairs of the points (its Eq. 11 with Eqs 19, 23 and 24). There is no closed form for simplex+.

    python examples/simplex_gram.py --out simplex_gram.png
    python examples/simplex_gram.py --features 64 --repeats 5
"""

from __future__ import annotations

import argparse

import numpy as np
from _figures import GREY, doublings, figure, look, plain_logs
from _options import add_figure_option
from gram_error import mean_and_error, ratio_and_error
from scipy.interpolate import BarycentricInterpolator

from graphrf.euclidean.features import LaplaceFeatures
from graphrf.euclidean.kernels import stationary_kernel
from graphrf.euclidean.theory import laplace_mse

DIMENSION, POINTS, SPREAD = 64, 64, 0.1
DIRECTIONS = ("iid", "orthogonal", "simplex", "simplex+")
CLOSED_FORM = DIRECTIONS[:3]
FEATURES = (16, 32, 64, 128, 256, 512)
NODES = 12


def draw_points(repeats: int, seed: int) -> np.ndarray:
    """The points of every repeat, shape (repeats, 64, 64)."""
    return SPREAD * np.random.default_rng(seed).standard_normal((repeats, POINTS, DIMENSION))


def squared_errors(points: np.ndarray, directions: str, n_features: int, seed: int) -> np.ndarray:
    """||Phi Phi^T - K||_F^2 of every repeat."""
    errors = np.empty(len(points))
    for repeat, x in enumerate(points):
        features = LaplaceFeatures(
            n_features,
            directions=directions,
            norms="iid",
            antithetic=False,
            seed=seed + repeat,
            n_threads=1,
        )
        phi = features.fit_transform(x)
        errors[repeat] = np.sum((phi @ phi.T - stationary_kernel("gaussian").gram(x)) ** 2)
    return errors


def exact_means(points: np.ndarray, directions: str, n_features: int) -> np.ndarray:
    """The mean of `squared_errors` given the points of every repeat.

    The error of a pair is exp(-2 |x|^2 - 2 |y|^2) g(|x + y|); log g is interpolated between
    Chebyshev nodes.
    """
    square = np.sum(points**2, axis=2)
    total = square[:, :, None] + square[:, None, :]
    v = np.sqrt(np.maximum(total + 2 * points @ points.transpose(0, 2, 1), 0))
    low, high = v.min(), v.max()
    nodes = (low + high) / 2 + (high - low) / 2 * np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)
    axis = np.eye(DIMENSION)[0] * nodes[:, None] / 2
    mse = laplace_mse(axis, axis, n_features, directions=directions, norms="iid", antithetic=False)
    log_g = BarycentricInterpolator(nodes, np.log(mse) + nodes**2)
    return np.exp(log_g(v) - 2 * total).sum(axis=(1, 2))


def draw(
    results: dict[tuple[str, int], np.ndarray], means: dict[tuple[str, int], float], path: str
) -> None:
    """Errors against the number of features, a standard error each way; lines: the exact means."""
    numbers = sorted({m for _, m in results})
    with figure(path, height=4.2, width=6.0) as sheet:
        ax = sheet.subplots()
        for directions in DIRECTIONS:
            mean, error = np.array([mean_and_error(results[directions, m]) for m in numbers]).T
            ax.errorbar(numbers, mean, error, label=directions, **look(directions, line=False))
            if directions in CLOSED_FORM:
                exact = [means[directions, m] for m in numbers]
                ax.plot(numbers, exact, color=look(directions)["color"], linewidth=1)
        ax.plot([], [], color=GREY, linewidth=1, label="exact mean")
        if numbers[0] < DIMENSION <= numbers[-1]:
            ax.axvline(DIMENSION, color=GREY, linewidth=1, linestyle=":", label="one block")
        doublings(ax, numbers)
        ax.set_yscale("log")
        plain_logs(ax.yaxis)
        ax.set_xlabel("features")
        ax.set_ylabel("squared Frobenius error of the Gram matrix")
        ax.legend()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--features", nargs="+", type=int, default=FEATURES, metavar="M")
    parser.add_argument("--repeats", type=int, default=600, help="at least 2")
    parser.add_argument("--seed", type=int, default=0)
    add_figure_option(parser)
    options = parser.parse_args()
    if options.repeats < 2:
        parser.error("--repeats must be at least 2")

    print(
        "squared Frobenius error of the Gram matrix, mean +- standard error, and the exact mean in "
        "brackets"
    )
    print(
        f"{'m':>4}  "
        + "".join(f"{name:<27}" for name in DIRECTIONS)
        + "orthogonal / iid    simplex / orthogonal"
    )
    points = draw_points(options.repeats, options.seed)
    results, means = {}, {}
    for m in options.features:
        for name in DIRECTIONS:
            results[name, m] = squared_errors(points, name, m, options.seed)
            if name in CLOSED_FORM:
                means[name, m] = float(exact_means(points, name, m).mean())
        cells = (
            "{:.2f} +- {:.2f} ({})".format(
                *mean_and_error(results[name, m]),
                f"{means[name, m]:.2f}" if name in CLOSED_FORM else "-",
            )
            for name in DIRECTIONS
        )
        ratios = (
            "{:.4f} +- {:.4f}".format(*ratio_and_error(results[a, m], results[b, m]))
            for a, b in (("orthogonal", "iid"), ("simplex", "orthogonal"))
        )
        print(
            f"{m:>4}  " + "".join(f"{text:<27}" for text in cells) + "    ".join(ratios), flush=True
        )
    if options.out:
        draw(results, means, options.out)


if __name__ == "__main__":
    main()
