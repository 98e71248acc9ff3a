"""Why simplex features win: conformity, densities, exact errors, figures 4 to 6.

As there (Reid et al. 2023, Secs. 3.2, 4 and 5.1), all for positive features of the Gaussian kernel:

- figure 4, RF-conformity for one draw of d = 6 norms at v = |x + y| = 1. Independent directions are
  averaged over 100 draws; the last row arranges the directions by a numerical optimiser, too slow
  to be of use otherwise.
- figure 5, densities of |w_i + w_j|.
- figure 6, exact errors relative to independent frequencies against v, for m = d = 64; no
  simulation.

    python examples/simplex_theory.py --out simplex_theory.png
    python examples/simplex_theory.py --dimension 4 --couplings 10
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import numpy as np
from _figures import figure, legend_below, look
from _options import add_figure_option
from scipy.optimize import minimize

from graphrf.euclidean.frequencies.directions import haar, simplex, simplex_plus
from graphrf.euclidean.kernels import stationary_kernel
from graphrf.euclidean.theory import (
    ensemble_conformity,
    laplace_mse,
    pair_norm_density,
    rf_conformity,
)
from graphrf.plot import COLOURS

if TYPE_CHECKING:
    from matplotlib.figure import SubFigure

COLOUR = {name: look(name)["color"] for name in ("iid", "orthogonal", "simplex", "simplex+")} | {
    "optimised": COLOURS[4]
}
EXACT = ("iid", "orthogonal", "simplex")
V = (0.01, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0)


def draw_norms(dimension: int, rng: np.random.Generator) -> np.ndarray:
    """One draw of independent chi norms."""
    return stationary_kernel("gaussian").norm_quantile(rng.random(dimension), dimension)


def unit_rows(vectors: np.ndarray) -> np.ndarray:
    """Rows divided by their norms."""
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def optimise_directions(norms: np.ndarray, start: np.ndarray, v: float) -> np.ndarray:
    """Directions of the least conformity that BFGS finds from `start`."""
    shape = start.shape

    def conformity(flat: np.ndarray) -> float:
        return ensemble_conformity(v, norms[:, None] * unit_rows(flat.reshape(shape)))

    return unit_rows(minimize(conformity, start.ravel(), method="L-BFGS-B").x.reshape(shape))


def conformities(
    dimension: int, v: float, n_couplings: int, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Conformity of one draw of norms under every coupling; `n_couplings` of iid."""
    norms = draw_norms(dimension, rng)
    rows = simplex(dimension)
    plus = simplex_plus(norms, rows)
    directions = {
        "orthogonal": np.eye(dimension),
        "simplex": rows,
        "simplex+": plus,
        "optimised": optimise_directions(norms, plus, v),
    }
    random = [unit_rows(rng.normal(size=(dimension, dimension))) for _ in range(n_couplings)]
    result = {"iid": np.array([ensemble_conformity(v, norms[:, None] * unit) for unit in random])}
    for name, unit in directions.items():
        result[name] = np.array([ensemble_conformity(v, norms[:, None] * unit)])
    return result


def error_ratios(dimension: int, v: np.ndarray) -> dict[str, np.ndarray]:
    """Errors of d positive features relative to independent ones, through v alone."""
    x = np.zeros((v.size, dimension))
    x[:, 0] = v / 2
    errors = {
        name: laplace_mse(x, x, dimension, directions=name, norms="iid", antithetic=False)
        for name in EXACT
    }
    return {name: errors[name] / errors["iid"] for name in EXACT}


def leading_coefficient(dimension: int) -> float:
    """c in MSE = c v^2 / m + O(v^4) of simplex features, from a small v; others have 1."""
    x = np.zeros(dimension)
    x[0] = 5e-4
    mse = laplace_mse(x, x, dimension, directions="simplex", norms="iid", antithetic=False)
    return float(mse) * dimension / 1e-3**2


def draw(
    bars: dict[str, np.ndarray], dimension: int, ratio_dimension: int, seed: int, path: str
) -> None:
    """Above, one block of three frequencies by coupling; below, the three figures side by side."""
    with figure(path, height=5.4) as sheet:
        upper, lower = sheet.subfigures(2, 1, height_ratios=[1, 1.25])
        draw_blocks(upper, seed)
        left, middle, right = lower.subplots(1, 3)
        for number, (name, values) in enumerate(bars.items()):
            error = values.std(ddof=1) if values.size > 1 else None
            left.bar(number, values.mean(), color=COLOUR[name], yerr=error, ecolor="#9a9a9a")
        left.set_xticks(
            range(len(bars)), list(bars), rotation=30, ha="right", rotation_mode="anchor"
        )
        left.grid(visible=False, axis="x")
        left.set_title(f"one draw of norms, d = {dimension}, v = 1")
        left.set_ylabel("RF-conformity")
        r = np.linspace(0, 3 * np.sqrt(2 * dimension), 300)
        for name in EXACT:
            style = "--" if name == "iid" else "-"
            middle.plot(
                r,
                pair_norm_density(r, dimension, directions=name),
                style,
                color=COLOUR[name],
                label=name,
            )
        middle.set_title(f"two of a block, d = {dimension}")
        middle.set_xlabel("$|w_i + w_j|$")
        middle.set_ylabel("density")
        v = np.linspace(0.01, 3, 60)
        for name, ratio in error_ratios(ratio_dimension, v).items():
            right.plot(v, ratio, "--" if name == "iid" else "-", color=COLOUR[name], label=name)
        right.set_title(f"exact error, m = d = {ratio_dimension}")
        right.set_xlabel("v = |x + y|")
        right.set_ylabel("MSE / independent")
        for ax in (left, middle, right):
            ax.set_ylim(bottom=0)
        legend_below(lower, middle, columns=3)


def draw_blocks(part: SubFigure, seed: int) -> None:
    """One draw of norms in three dimensions, and the directions that the couplings give them."""
    rng = np.random.default_rng(seed)
    norms = draw_norms(3, rng)
    rows = simplex(3)
    directions = {
        "iid": unit_rows(rng.normal(size=(3, 3))),
        "orthogonal": np.eye(3),
        "simplex": rows,
        "simplex+": simplex_plus(norms, rows),
    }
    turned = haar(1, 3, rng)[0]
    axes = part.subplots(1, 4, subplot_kw={"projection": "3d"})
    for ax, (name, unit) in zip(axes, directions.items(), strict=True):
        for end in norms[:, None] * (unit @ turned):
            ax.plot(*np.transpose([np.zeros(3), end]), color=COLOUR[name], linewidth=2.2)
            ax.plot(*end[:, None], "o", color=COLOUR[name], markersize=6)
            # Its shadow on the floor shows where it points.
            ax.plot(
                *np.transpose([end, [*end[:2], -norms.max()]]),
                color="#b5b5b5",
                linewidth=0.8,
                linestyle=":",
            )
        ax.plot([0], [0], [0], "o", color="#000000", markersize=3)
        ends = (-norms.max(), norms.max())
        ax.set(xlim=ends, ylim=ends, zlim=ends, title=name)
        ax.set_box_aspect((1, 1, 1), zoom=1.2)
        ax.set(xticklabels=[], yticklabels=[], zticklabels=[])
        ax.tick_params(length=0)
    part.suptitle("one block of frequencies in three dimensions, the same norms")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dimension", type=int, default=6, help="of figures 4 and 5; at least 3")
    parser.add_argument("--ratio-dimension", type=int, default=64, help="of figure 6; at least 3")
    parser.add_argument(
        "--couplings", type=int, default=100, help="draws of independent directions; at least 2"
    )
    parser.add_argument("--seed", type=int, default=0)
    add_figure_option(parser)
    options = parser.parse_args()
    if min(options.dimension, options.ratio_dimension) < 3 or options.couplings < 2:
        parser.error("--dimension and --ratio-dimension must be at least 3, --couplings at least 2")

    d = options.dimension
    bars = conformities(d, 1.0, options.couplings, np.random.default_rng(options.seed))
    print(
        f"RF-conformity at v = 1, d = {d}, for one draw of norms, and its mean over norms where "
        "that is known"
    )
    print(
        "(published as figure 4, without numbers: what is gained beyond the simplex is called "
        "marginal)"
    )
    print(f"{'directions':<12} {'one draw':>9} {'deviation':>10} {'mean over norms':>16}")
    for name, values in bars.items():
        spread = f"{values.std(ddof=1):.4f}" if values.size > 1 else "-"
        mean = f"{float(rf_conformity(1.0, d, directions=name)):.4f}" if name in EXACT else "-"
        print(f"{name:<12} {values.mean():>9.4f} {spread:>10} {mean:>16}")

    d = options.ratio_dimension
    published = "(published .0078)" if d == 64 else "(published for d = 64 only)"
    print(f"\nexact MSE of m = d = {d} positive features, over that of independent ones")
    print(
        f"leading coefficient of the simplex in v^2 / m: {leading_coefficient(d):.5f} {published}"
    )
    ratios = error_ratios(d, np.array(V))
    print(f"{'v':>6} {'orthogonal':>11} {'simplex':>9}")
    for number, v in enumerate(V):
        print(f"{v:>6} {ratios['orthogonal'][number]:>11.5f} {ratios['simplex'][number]:>9.5f}")
    if options.out:
        draw(bars, options.dimension, options.ratio_dimension, options.seed, options.out)


if __name__ == "__main__":
    main()
