"""The error of Gram matrices of coupled features on six UCI sets: Table 1 of the paper.

As there (Sec. 3.3 and App. B.1): the Gaussian kernel with hyperparameters of an exact GP; the root
mean square error of the test Gram matrix, divided by that of independent frequencies. Fourier
features take m = d frequencies, Laplace features 2 d, half of them opposite to the others but in
the rows "iid" and "Halton". Rows without a published figure are ours.

    python examples/norm_coupling.py --out norm_coupling.png
    python examples/norm_coupling.py --sets airfoil --first 512
    python examples/norm_coupling.py --sets cpu --splits 3 --repeats 50
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING

import _uci
import numpy as np
from _figures import GREY, figure, look
from _options import add_figure_option
from scipy import special
from scipy.stats import qmc

from graphrf.euclidean import draw_frequencies, stationary_kernel
from graphrf.euclidean.frequencies.directions import haar

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Coupling:
    """A row of the table.

    With `opposites` half of the frequencies point against the other half, with norms of their own
    ("own norms") or with the same ("same norms": antithetic).
    """

    directions: str
    norms: str | None
    opposites: str | None = None


ROWS = {
    "fourier": {
        "iid": Coupling("iid", "iid"),
        "Halton": Coupling("halton", None),
        "orthogonal": Coupling("orthogonal", "iid"),
        "+ PNC": Coupling("orthogonal", "pnc"),
        "Halton, unscrambled": Coupling("unscrambled halton", None),
        "simplex": Coupling("simplex", "iid"),
        "simplex + PNC": Coupling("simplex", "pnc"),
    },
    "laplace": {
        "iid": Coupling("iid", "iid"),
        "Halton": Coupling("halton", None),
        "orthogonal": Coupling("orthogonal", "iid", "own norms"),
        "+ PNC + antithetic": Coupling("orthogonal", "pnc", "same norms"),
        "Halton, unscrambled": Coupling("unscrambled halton", None),
        "orthogonal, antithetic": Coupling("orthogonal", "iid", "same norms"),
        "orthogonal, no opposites": Coupling("orthogonal", "iid"),
        "simplex + antithetic": Coupling("simplex", "iid", "same norms"),
    },
}

#: Variants of a coupling have its colour and an open mark.
LOOKS = {
    "Halton": look("low discrepancy", line=False),
    "orthogonal": look("orthogonal", line=False),
    "+ PNC": look("+ PNC", line=False),
    "+ PNC + antithetic": look("+ PNC", line=False),
    "Halton, unscrambled": look("low discrepancy", line=False, is_open=True),
    "simplex": look("simplex", line=False),
    "simplex + PNC": look("simplex", line=False, is_open=True),
    "simplex + antithetic": look("simplex", line=False),
    "orthogonal, antithetic": look("orthogonal", line=False, is_open=True),
    "orthogonal, no opposites": look("orthogonal", line=False, is_open=True) | {"marker": "o"},
}

#: Table 1 of Reid et al. 2024, "Variance-reducing couplings for random features": ratios and their
#: errors by set.
PUBLISHED = {
    "fourier": {
        "iid": (
            (1.000, 1.000, 1.000, 1.000, 1.000, 1.000),
            (0.028, 0.042, 0.082, 0.037, 0.023, 0.018),
        ),
        "Halton": (
            (1.028, 0.991, 0.995, 0.913, 0.927, 1.176),
            (0.029, 0.042, 0.082, 0.033, 0.021, 0.022),
        ),
        "orthogonal": (
            (0.627, 0.535, 0.617, 0.669, 0.586, 0.639),
            (0.019, 0.023, 0.070, 0.024, 0.013, 0.016),
        ),
        "+ PNC": (
            (0.563, 0.433, 0.544, 0.547, 0.481, 0.606),
            (0.019, 0.019, 0.071, 0.020, 0.011, 0.018),
        ),
    },
    "laplace": {
        "iid": (
            (1.000, 1.000, 1.000, 1.000, 1.000, 1.000),
            (0.092, 0.036, 0.086, 0.018, 0.026, 0.029),
        ),
        "Halton": (
            (0.721, 0.777, 0.779, 0.728, 0.721, 0.893),
            (0.067, 0.031, 0.084, 0.015, 0.021, 0.028),
        ),
        "orthogonal": (
            (0.418, 0.546, 0.614, 0.527, 0.489, 0.360),
            (0.041, 0.026, 0.098, 0.013, 0.016, 0.019),
        ),
        "+ PNC + antithetic": (
            (0.367, 0.486, 0.618, 0.438, 0.418, 0.324),
            (0.043, 0.027, 0.119, 0.013, 0.016, 0.019),
        ),
    },
}


def frequencies(coupling: Coupling, m: int, d: int, repeats: int, seed: int) -> np.ndarray:
    """Independent ensembles of m frequencies, (repeats, m, d); m counts opposite ones."""
    n = m if coupling.opposites is None else m // 2
    if coupling.directions == "unscrambled halton":
        # Its first point is 0, an infinite frequency. The others are the same every time but for a
        # rotation, so features are biased.
        points = special.ndtri(qmc.Halton(d, scramble=False).random(n + 1)[1:])
        return points @ haar(repeats, d, np.random.default_rng(seed))
    if coupling.norms is None:
        # A low-discrepancy sequence couples all its
        # points: every ensemble is a sequence of its own.
        seeds = np.random.default_rng(seed).integers(2**62, size=repeats)
        drawn = [
            draw_frequencies(n, d, directions=coupling.directions, norms=None, seed=int(one))
            for one in seeds
        ]
        return np.stack([ensemble.matrix for ensemble in drawn])
    rows = draw_frequencies(
        repeats * n, d, directions=coupling.directions, norms=coupling.norms, seed=seed
    ).matrix
    opposites = -rows
    if coupling.opposites == "own norms":
        others = draw_frequencies(
            repeats * n, d, directions="iid", norms="iid", seed=seed + 1
        ).matrix
        opposites *= np.linalg.norm(others, axis=1, keepdims=True) / np.linalg.norm(
            rows, axis=1, keepdims=True
        )
    rows, opposites = rows.reshape(repeats, n, d), opposites.reshape(repeats, n, d)
    return rows if coupling.opposites is None else np.concatenate([rows, opposites], axis=1)


def features(kind: str, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Features (repeats, n, 2 m or m) of points (n, d), for ensembles (repeats, m, d)."""
    repeats, m, d = w.shape
    projected = (x @ w.reshape(repeats * m, d).T).reshape(len(x), repeats, m).transpose(1, 0, 2)
    if kind == "fourier":
        return np.concatenate([np.cos(projected), np.sin(projected)], axis=2) / np.sqrt(m)
    return np.exp(projected - np.sum(x * x, axis=1)[:, None]) / np.sqrt(m)


def gram_errors(kind: str, x: np.ndarray, exact: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Root mean square of the entries of Phi Phi^T - K for every ensemble, shape (repeats,)."""
    errors = np.empty(len(w))
    for start in range(0, len(w), 25):
        phi = features(kind, x, w[start : start + 25])
        difference = phi @ phi.transpose(0, 2, 1) - exact
        errors[start : start + 25] = np.sqrt(np.mean(difference**2, axis=(1, 2)))
    return errors


def measure(
    name: str, kind: str, splits: int, repeats: int, seed: int, first: int | None = None
) -> dict[str, np.ndarray]:
    """For every row the errors of all splits, each the mean over its ensembles, shape (splits,)."""
    table, targets = _uci.load(name, first)
    d = table.shape[1]
    m = d if kind == "fourier" else 2 * d
    errors = {row: np.empty(splits) for row in ROWS[kind]}
    for number in range(splits):
        part = _uci.split(table, targets, seed + number)
        fitted = _uci.fit_for(kind, part)
        x = part.x_test / fitted.lengthscale
        exact = stationary_kernel("gaussian").gram(x)
        for row, coupling in ROWS[kind].items():
            w = frequencies(coupling, m, d, repeats, 1_000 * (seed + number))
            errors[row][number] = fitted.output_scale**2 * gram_errors(kind, x, exact, w).mean()
    return errors


def ratio(values: np.ndarray, reference: np.ndarray) -> tuple[float, float, float]:
    """Ratio of means over splits; its standard error as published, and of the ratio.

    The published one is the standard error of the numerator alone, divided by the reference's mean:
    it holds the spread of the error's size from split to split, which ratios within a split do not
    have (delta method).
    """
    value, n = values.mean() / reference.mean(), values.size
    spread = values.std(ddof=1), (values - value * reference).std(ddof=1)
    return float(value), *(float(s / n**0.5 / reference.mean()) for s in spread)


def published(kind: str, row: str, name: str) -> tuple[float, float]:
    """The paper's ratio and standard error."""
    ratios, errors = PUBLISHED[kind][row]
    place = list(_uci.SETS).index(name)
    return ratios[place], errors[place]


def print_table(kind: str, results: dict[str, dict[str, np.ndarray]]) -> None:
    """Our ratios, the published ones and the difference in combined standard errors."""
    print(f"\n{kind} features: error / independent frequencies")
    print(
        f"{'set':<9} {'coupling':<25} {'ours':>7} {'+-':>6} {'own':>6}   {'published':<15} {'z':>5}"
    )
    for name, errors in results.items():
        for row in ROWS[kind]:
            value, spread, own = ratio(errors[row], errors["iid"])
            line = f"{name:<9} {row:<25} {value:7.3f} {spread:6.3f} {own:6.3f}"
            if row in PUBLISHED[kind]:
                theirs, their_spread = published(kind, row, name)
                z = (value - theirs) / np.hypot(spread, their_spread)
                line += f"   {theirs:.3f} +- {their_spread:.3f} {z if row != 'iid' else 0:+6.1f}"
            print(line)


def draw(results: dict[str, dict[str, dict[str, np.ndarray]]], path: str) -> None:
    """One panel a kind of feature: ours with standard errors, published ones as crosses."""
    with figure(path, height=6.6) as sheet:
        for ax, kind in zip(sheet.subplots(2, 1), ROWS, strict=True):
            draw_panel(ax, kind, results[kind])
            ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


def draw_panel(ax: Axes, kind: str, results: dict[str, dict[str, np.ndarray]]) -> None:
    rows = [row for row in ROWS[kind] if row != "iid"]
    places = np.arange(len(results))
    for number, row in enumerate(rows):
        shift = (number - (len(rows) - 1) / 2) * 0.12
        ours = np.array([ratio(errors[row], errors["iid"])[:2] for errors in results.values()])
        ax.errorbar(places + shift, *ours.T, label=row, elinewidth=1, capsize=0, **LOOKS[row])
        if row in PUBLISHED[kind]:
            theirs = [published(kind, row, name)[0] for name in results]
            ax.plot(places + shift, theirs, "x", color="#000000", markersize=6, zorder=3)
    ax.plot([], [], "x", color="#000000", label="published")
    ax.axhline(1, color=GREY, linewidth=1, linestyle="--", label="independent", zorder=1)
    ax.set_xticks(places, list(results))
    ax.grid(visible=False, axis="x")
    ax.set_ylim(bottom=0)
    ax.set_title(f"{kind.capitalize()} features")
    ax.set_ylabel("error / independent")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    _uci.add_options(parser, repeats=200)
    add_figure_option(parser)
    options = parser.parse_args()

    print(
        f"{options.splits} splits, {options.repeats} ensembles a split: mean over splits, divided "
        "by that of iid"
    )
    print(
        "+-: standard error as published; own: of the ratio itself; z: difference in combined "
        "standard errors"
    )
    print(_uci.NOTES)
    results: dict[str, dict[str, dict[str, np.ndarray]]] = {}
    for kind in ROWS:
        results[kind] = {
            name: measure(name, kind, options.splits, options.repeats, options.seed, options.first)
            for name in options.sets
        }
        print_table(kind, results[kind])
    if options.out:
        draw(results, options.out)


if __name__ == "__main__":
    main()
