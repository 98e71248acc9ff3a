"""Errors of Gram matrices of Matern kernels under couplings: figure 12 of the paper.

As there (Reid et al. 2024, App. G): 64 points from N(0, I/8) in 8 dimensions, lengthscale 1,
smoothness 1/2, 3/2 and 5/2, paired Fourier features with frequencies that are independent,
orthogonal with independent norms, or orthogonal with pairwise coupled norms. The error is the root
mean square over entries, of each Gram matrix. Beside its mean stands the exact root mean square
over entries and repeats, from the closed forms.

    python examples/matern_couplings.py --out matern_couplings.png
    python examples/matern_couplings.py --repeats 20 --frequencies 8 16
"""

from __future__ import annotations

import argparse

import numpy as np
from _figures import doublings, figure, legend_below, look, plain_logs
from _options import add_figure_option
from scipy.interpolate import CubicSpline
from scipy.spatial.distance import cdist

from graphrf.euclidean.features import FourierFeatures
from graphrf.euclidean.kernels import stationary_kernel
from graphrf.euclidean.theory import fourier_mse

KERNELS = {"matern12": "1/2", "matern32": "3/2", "matern52": "5/2"}
SCHEMES = {
    "iid": ("iid", "iid"),
    "orthogonal": ("orthogonal", "iid"),
    "+ PNC": ("orthogonal", "pnc"),
}
N, D = 64, 8


def errors(x: np.ndarray, kernel: str, scheme: str, m: int, seeds: range) -> np.ndarray:
    """Root mean squared error of the Gram matrix, for every seed."""
    directions, norms = SCHEMES[scheme]
    exact = stationary_kernel(kernel).gram(x)
    result = np.empty(len(seeds))
    for number, seed in enumerate(seeds):
        features = FourierFeatures(
            m, kernel=kernel, directions=directions, norms=norms, seed=seed, n_threads=1
        )
        phi = features.fit_transform(x)
        result[number] = np.sqrt(np.mean((phi @ phi.T - exact) ** 2))
    return result


def exact_errors(x: np.ndarray, kernel: str, scheme: str, counts: list[int]) -> np.ndarray:
    """Root of the mean over entries of the exact squared error, by frequencies.

    The counts are multiples of the dimension. The error of one block is splined over 25 distances.
    """
    directions, norms = SCHEMES[scheme]
    z = cdist(x, x)
    nodes = np.linspace(0, z.max(), 25)
    block = fourier_mse(nodes, D, D, kernel=kernel, directions=directions, norms=norms)
    # Whole blocks are independent, so the error of m frequencies is D / m of this.
    return np.sqrt(CubicSpline(nodes, block)(z).mean() * D / np.array(counts))


def draw(results: dict[tuple[str, str, int], np.ndarray], counts: list[int], path: str) -> None:
    """One panel for each smoothness; bars of two standard errors each way."""
    with figure(path, height=3.4) as sheet:
        axes = sheet.subplots(1, 3)
        for ax, (kernel, nu) in zip(axes, KERNELS.items(), strict=True):
            for scheme in SCHEMES:
                values = [results[kernel, scheme, m] for m in counts]
                mean = [v.mean() for v in values]
                bar = [2 * v.std(ddof=1) / v.size**0.5 for v in values]
                ax.errorbar(counts, mean, bar, label=scheme, **look(scheme))
            doublings(ax, counts)
            ax.set_yscale("log")
            plain_logs(ax.yaxis)
            ax.set_title(rf"Matern, $\nu$ = {nu}")
            ax.set_xlabel("frequencies")
        axes[0].set_ylabel("RMSE of the Gram matrix")
        legend_below(sheet, axes[0], columns=3)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--frequencies", type=int, nargs="+", default=[8, 16, 32, 64, 128], help="multiples of 8"
    )
    parser.add_argument("--repeats", type=int, default=300, help="at least 2")
    parser.add_argument("--seed", type=int, default=0)
    add_figure_option(parser)
    options = parser.parse_args()
    if options.repeats < 2 or any(m < D or m % D for m in options.frequencies):
        parser.error(f"--repeats must be at least 2, --frequencies multiples of {D}")

    x = np.random.default_rng(options.seed).normal(size=(N, D)) / D**0.5
    seeds = range(options.seed, options.seed + options.repeats)
    print(
        f"RMSE of the Gram matrix of {N} points, d = {D}, {options.repeats} repeats, mean +- "
        "standard error"
    )
    print(
        "exact: root of the mean squared error in closed form, which is above the mean of the roots"
    )
    print("published (figure 12, without numbers): + PNC has the least error for every nu")
    print(
        f"{'nu':<5} {'m':>4} {'scheme':<11} {'error':<18} {'root mean sq':>13} {'exact':>8} "
        f"{'ratio to iid':>13}"
    )
    results = {}
    for kernel, nu in KERNELS.items():
        truth = {scheme: exact_errors(x, kernel, scheme, options.frequencies) for scheme in SCHEMES}
        for column, m in enumerate(options.frequencies):
            for scheme in SCHEMES:
                values = results[kernel, scheme, m] = errors(x, kernel, scheme, m, seeds)
                ratio = values.mean() / results[kernel, "iid", m].mean()
                spread = values.std(ddof=1) / values.size**0.5
                print(
                    f"{nu:<5} {m:>4} {scheme:<11} {values.mean():.4f} +- {spread:.4f}"
                    f"  {np.sqrt(np.mean(values**2)):>13.4f} {truth[scheme][column]:>8.4f} "
                    f"{ratio:>13.3f}",
                    flush=True,
                )
    if options.out:
        draw(results, options.frequencies, options.out)


if __name__ == "__main__":
    main()
