"""Functions from a posterior, drawn in weights of features and decoupled: figure A.9.

As in the chapter ("Numerical methods for improved decoupled sampling of Gaussian processes", Sec.
A.4.2): the Gaussian kernel with lengthscale 1/16, observations at uniform points of [0, 1] with
noise variance 1e-3, and 16 draws of each kind over [-0.1, 1.1] with 256 independent frequencies.
Draws in the weights must explain the data by the features alone: where there are no data, their
mean goes astray and their spread is too small. Decoupled draws take the prior from the features and
the correction by the data from the exact kernel. The figure is an illustration;
`decoupled_sampling.py` measures.

    python examples/posterior_draws.py --out posterior_draws.png
    python examples/posterior_draws.py --columns 64
"""

from __future__ import annotations

import argparse

import numpy as np
from _figures import figure, legend_below
from _options import add_figure_option
from decoupled_sampling import (
    APPROACHES,
    KERNEL,
    Problem,
    draws,
    exact_draws,
    law,
    make_features,
    make_problem,
)

from graphrf.euclidean.gp.divergences import gaussian_w2
from graphrf.euclidean.gp.moments import ProcessMoments, exact_moments
from graphrf.plot import COLOURS

LENGTHSCALE, OBSERVATIONS, POINTS = 1 / 16, 64, 256


def draw(problem: Problem, exact: ProcessMoments, kinds: dict[str, np.ndarray], path: str) -> None:
    """A panel for each kind of draws, over the exact 95 % band."""
    x = problem.x_new[:, 0]
    deviation = 1.96 * np.sqrt(exact.covariance.diagonal())
    with figure(path, height=3.4) as sheet:
        axes = sheet.subplots(1, len(kinds), sharey=True)
        for ax, (title, values), colour in zip(axes, kinds.items(), COLOURS, strict=False):
            ax.fill_between(
                x,
                exact.mean - deviation,
                exact.mean + deviation,
                color="#d9d9d9",
                linewidth=0,
                label="exact 95 % band",
            )
            ax.plot(x, values.T, color=colour, linewidth=0.8, alpha=0.7)
            ax.plot(
                problem.x[:, 0], problem.y, "x", color="#000000", markersize=4, label="observations"
            )
            ax.set_title(title)
            ax.set_xlabel("x")
        axes[0].set_ylabel("f(x)")
        legend_below(sheet, axes[0], columns=2)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--columns", type=int, default=512, help="of the features, an even number")
    parser.add_argument("--samples", type=int, default=16, help="draws of each kind")
    parser.add_argument("--seed", type=int, default=0)
    add_figure_option(parser)
    options = parser.parse_args()
    if options.columns < 2 or options.columns % 2 or options.samples < 1:
        parser.error("--columns must be even and at least 2, --samples at least 1")

    rng = np.random.default_rng(options.seed)
    problem = make_problem(1, LENGTHSCALE, rng, OBSERVATIONS)
    problem = problem._replace(x_new=np.sort(rng.uniform(-0.1, 1.1, POINTS))[:, None])
    exact = exact_moments(KERNEL, problem.x, problem.y, problem.x_new, **problem.settings)
    features = make_features("RFF", options.columns, problem, options.seed)
    outside = (problem.x_new[:, 0] < 0) | (problem.x_new[:, 0] > 1)
    print(
        f"{OBSERVATIONS} observations in [0, 1], {POINTS} points in [-0.1, 1.1], {options.columns} "
        "columns"
    )
    print(
        "mean: largest error; within, beyond [0, 1]: median standard deviation / exact; W2^2: to "
        "exact"
    )
    print(f"{'draws':<15} {'mean':>9} {'within':>7} {'beyond':>7} {'W2^2':>9}")
    kinds = {"the exact posterior": exact_draws(exact, options.samples, rng)}
    for approach, title in zip(APPROACHES, ("in the weights", "decoupled"), strict=True):
        kinds[title] = draws(approach, features, problem, options.samples, options.seed).at(
            problem.x_new
        )
        found = law(approach, features, problem)
        ratio = np.sqrt(found.covariance.diagonal() / exact.covariance.diagonal())
        print(
            f"{title:<15} {np.abs(found.mean - exact.mean).max():>9.2e} "
            f"{np.median(ratio[~outside]):>7.3f} {np.median(ratio[outside]):>7.3f} "
            f"{gaussian_w2(*found, *exact):>9.2e}"
        )
    if options.out:
        draw(problem, exact, kinds, options.out)


if __name__ == "__main__":
    main()
