"""Fourier feature decompositions of real data: figures A.7 and A.8 of the chapter.

As there ("Numerical methods for improved decoupled sampling of Gaussian processes", Sec. A.4.1):
the relative Frobenius error of Phi Phi^T against the number of columns of Phi, for the
squared-exponential and the Matern-5/2 kernel with lengthscales 1, 1/4 and 1/16, mean and 95 %
interval of 25 repeats. Iris, diabetes, wine and breast cancer come with scikit-learn, Boston from
the data folder. The chapter's MOTORCYCLE is not available here: "line" is a synthetic stand-in, 133
uniform points in one dimension. The chapter does not say how it scales its data; here every column
is scaled to [0, 1]. At most 150 points of a set are taken; rows of Boston with missing entries are
left out.

The rows, at equal numbers of columns:

    iid         random Fourier features, paired
    phased      the phase-shifted cosine variant
    orthogonal  orthogonal directions, independent norms
    pnc         orthogonal directions, norms coupled in pairs: not in the chapter
    hermite     Gauss-Hermite rule (up to 4 dimensions)
    legendre    Gauss-Legendre rule (up to 4 dimensions)
    simpson     compound Simpson rule (up to 4 dimensions)
    sobol       quasi-random; Matern by the Student-t map
    weighted    Sobol with the chapter's importance weights (Matern only)

The chapter prints curves and no numbers; what it says of them stands below the tables, beside what
we find.

    python examples/fourier_decompositions.py --out fourier_decompositions.png
    python examples/fourier_decompositions.py --data line iris --columns 16 64 --repeats 3
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from _figures import doublings, figure, legend_below
from _options import add_figure_option
from importance_weights import importance_features
from sklearn import datasets as sklearn_datasets

import graphrf as grf
from graphrf.euclidean.features import FourierFeatures
from graphrf.euclidean.frequencies.quadrature import MAX_DIMENSION
from graphrf.euclidean.kernels import stationary_kernel
from graphrf.euclidean.quadrature_features import QuadratureFeatures
from graphrf.plot import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KERNELS = {"gaussian": "squared exponential", "matern52": "Matern-5/2"}
SHORT = {"gaussian": "Gaussian", "matern52": "Matern-5/2"}
LENGTHSCALES = (1.0, 0.25, 0.0625)
DATA = ("line", "iris", "diabetes", "boston", "wine", "breast_cancer")
COLUMNS = (16, 64, 256, 1024, 4096)
QUADRATURE = {"hermite": "gauss-hermite", "legendre": "gauss-legendre", "simpson": "simpson"}
RANDOM = ("iid", "phased", "orthogonal", "pnc", "sobol", "weighted")
STYLES = {
    "iid": (COLOURS[6], "-", "o"),
    "phased": (COLOURS[6], ":", "v"),
    "orthogonal": (COLOURS[5], "-", "s"),
    "pnc": (COLOURS[0], "-", "D"),
    "sobol": (COLOURS[2], "-", "^"),
    "weighted": (COLOURS[2], ":", "^"),
    "hermite": (COLOURS[1], "-", "P"),
    "legendre": (COLOURS[4], "--", "X"),
    "simpson": (COLOURS[3], "-.", "p"),
}
# Of a method: numbers of columns, each with the errors of the repeats.
Errors = dict[str, list[tuple[int, np.ndarray]]]
Results = dict[tuple[str, float], Errors]


def points(name: str, most: int = 150) -> np.ndarray:
    """At most `most` points of a data set, each column scaled to [0, 1]."""
    rng = np.random.default_rng(0)
    if name == "line":
        x = rng.uniform(size=(133, 1))
    elif name == "boston":
        features = grf.datasets.load("uci-housing").features
        assert features is not None
        x = np.asarray(features, dtype=np.float64)
        x = x[~np.isnan(x).any(axis=1)]
    else:
        x = getattr(sklearn_datasets, f"load_{name}")().data
    x = x[np.sort(rng.permutation(len(x))[:most])]
    low, high = x.min(axis=0), x.max(axis=0)
    return (x - low) / np.where(high > low, high - low, 1)


def random_features(
    x: np.ndarray, method: str, kernel: str, n_columns: int, seed: int
) -> Iterator[np.ndarray]:
    """Features with the given number of columns at every lengthscale, from the same frequencies."""
    if method == "weighted":
        for lengthscale in LENGTHSCALES:
            yield importance_features(x / lengthscale, stationary_kernel(kernel), n_columns, seed)
        return
    directions = {"iid": "iid", "phased": "iid", "sobol": "sobol"}.get(method, "orthogonal")
    norms = {"pnc": "pnc", "sobol": None}.get(method, "iid")
    readout = "phased" if method == "phased" else "paired"
    features = FourierFeatures(
        n_columns if method == "phased" else n_columns // 2,
        kernel=kernel,
        directions=directions,
        norms=norms,
        readout=readout,
        seed=seed,
        n_threads=1,
    ).fit(x)
    for lengthscale in LENGTHSCALES:
        yield features.transform(x / lengthscale)


def nodes_for(rule: str, n_columns: int, dimension: int) -> int:
    """The largest number of nodes with at most `n_columns` in the product, or 0."""
    n = int(n_columns ** (1 / dimension) + 1e-9)
    if rule == "simpson":
        n -= 1 - n % 2
    return n if n >= (3 if rule == "simpson" else 2) else 0


def relative_error(phi: np.ndarray, exact: np.ndarray) -> float:
    return float(np.linalg.norm(phi @ phi.T - exact) / np.linalg.norm(exact))


def quadrature_feature_errors(
    x: np.ndarray, exact: np.ndarray, rule: str, kernel: str, columns: list[int]
) -> list[tuple[int, np.ndarray]]:
    """(columns, error) of a rule for those numbers of columns that it has."""
    found = []
    for n_columns in columns:
        n_nodes = nodes_for(rule, n_columns, x.shape[1])
        if n_nodes:
            features = QuadratureFeatures(
                n_nodes, rule=QUADRATURE[rule], kernel=kernel, n_threads=1
            )
            with warnings.catch_warnings():
                # Simpson's rule says where it aliases; here the error shows it.
                warnings.filterwarnings("ignore", "points reach over", UserWarning)
                phi = features.fit_transform(x)
            found.append((n_columns, np.array([relative_error(phi, exact)])))
    return found


def measure(x: np.ndarray, kernel: str, columns: list[int], repeats: int) -> list[Errors]:
    """The errors of every method, one entry for each lengthscale."""
    exact = [
        stationary_kernel(kernel).gram(x, lengthscale=lengthscale) for lengthscale in LENGTHSCALES
    ]
    found: list[Errors] = [{} for _ in LENGTHSCALES]
    for method in RANDOM:
        if (method, kernel) == ("weighted", "gaussian"):
            continue
        for n_columns in columns:
            errors = np.empty((len(LENGTHSCALES), repeats))
            for seed in range(repeats):
                features = random_features(x, method, kernel, n_columns, seed)
                errors[:, seed] = [
                    relative_error(phi, gram) for phi, gram in zip(features, exact, strict=True)
                ]
            for row, of_lengthscale in zip(errors, found, strict=True):
                of_lengthscale.setdefault(method, []).append((n_columns, row))
    if x.shape[1] <= MAX_DIMENSION:
        for rule in QUADRATURE:
            for lengthscale, gram, of_lengthscale in zip(LENGTHSCALES, exact, found, strict=True):
                of_lengthscale[rule] = quadrature_feature_errors(
                    x / lengthscale, gram, rule, kernel, columns
                )
    return found


def print_table(kernel: str, results: Results, n_columns: int) -> None:
    """Mean errors at one number of columns, a row for each set and lengthscale."""
    methods = [*RANDOM, *QUADRATURE]
    print(f"\n{KERNELS[kernel]} kernel, {n_columns} columns: mean relative error")
    print(f"{'data':<14}{'l':>5} " + "".join(f"{method:>11}" for method in methods) + "  best")
    for (name, lengthscale), errors in results.items():
        means = {
            m: float(dict(errors[m])[n_columns].mean())
            for m in methods
            if n_columns in dict(errors.get(m, []))
        }
        cells = "".join(f"{means[m]:>11.2e}" if m in means else f"{'-':>11}" for m in methods)
        print(
            f"{name:<14}{f'1/{round(1 / lengthscale)}':>5} {cells} "
            f" {min(means, key=means.__getitem__)}"
        )


SAMPLED = ("iid", "phased", "orthogonal", "sobol")
MANY = ("diabetes", "boston", "wine", "breast_cancer")
# What the chapter says; kernel, method, rivals and data sets of the ratio that bears on it.
CLAIMS = (
    (
        "D = 1: quadrature far better at every lengthscale",
        "gaussian",
        "hermite",
        SAMPLED,
        ("line",),
    ),
    (
        "D = 1: quadrature far better at every lengthscale",
        "gaussian",
        "legendre",
        SAMPLED,
        ("line",),
    ),
    (
        "D = 4: Gauss-Hermite better than all others above l = 1/16",
        "gaussian",
        "hermite",
        SAMPLED,
        ("iris",),
    ),
    ("D = 4: Gauss-Legendre worse than all others", "gaussian", "legendre", SAMPLED, ("iris",)),
    ("D >= 10: quasi-random consistently the best", "gaussian", "sobol", SAMPLED[:3], MANY),
    (
        "Matern: quasi-random, by weights, considerably worse",
        "matern52",
        "weighted",
        SAMPLED[:3],
        MANY,
    ),
    (
        "(not there) Matern: quasi-random by the Student-t map",
        "matern52",
        "sobol",
        SAMPLED[:3],
        MANY,
    ),
    ("(not there) coupled norms", "gaussian", "pnc", SAMPLED, ("iris", *MANY)),
)


def print_claims(all_results: dict[str, Results], n_columns: int) -> None:
    """What the chapter says, and the ratios of our errors that bear on it."""
    print(
        "\n"
        f"what the chapter says, and our ratios of mean errors with {n_columns} columns at l = 1, "
        "1/4, 1/16"
    )
    for text, kernel, method, rivals, names in CLAIMS:
        print(f"- {text}: {method} / best of {', '.join(rivals)}")
        for name in names:
            ratios = []
            for lengthscale in LENGTHSCALES:
                errors = all_results[kernel].get((name, lengthscale), {})
                means = {
                    m: float(e.mean())
                    for m, pairs in errors.items()
                    for n, e in pairs
                    if n == n_columns
                }
                if method in means:
                    ratios.append(f"{means[method] / min(means[m] for m in rivals):.2g}")
            if ratios:
                print(f"    {name}: {', '.join(ratios)}")


def draw(all_results: dict[str, Results], dimensions: dict[str, int], path: str) -> None:
    """A row a kernel and lengthscale, a column a data set; bands of 95 % about means."""
    from matplotlib.ticker import NullFormatter

    names = list(dimensions)
    rows = [(kernel, lengthscale) for kernel in KERNELS for lengthscale in LENGTHSCALES]
    with figure(path, height=11.0, width=max(2.5 * len(names) + 0.5, 6.5)) as sheet:
        axes = sheet.subplots(len(rows), len(names), squeeze=False, sharex=True)
        for (kernel, lengthscale), line in zip(rows, axes, strict=True):
            for name, ax in zip(names, line, strict=True):
                for method, pairs in all_results[kernel][name, lengthscale].items():
                    if pairs:
                        draw_line(ax, method, pairs)
                ax.set_yscale("log")
                ax.yaxis.set_minor_formatter(NullFormatter())
                doublings(
                    ax,
                    sorted(
                        {n for pairs in all_results[kernel][name, 1.0].values() for n, _ in pairs}
                    ),
                )
            line[0].set_ylabel(f"{SHORT[kernel]}, l = {Fraction(lengthscale)}\nrelative error")
        for name, ax in zip(names, axes[0], strict=True):
            ax.set_title(f"{name.replace('_', ' ')}, D = {dimensions[name]}")
        for ax in axes[-1]:
            ax.set_xlabel("columns of features")
        legend_below(sheet, *axes.flat, columns=min(9, 2 * len(names) + 1))


def draw_line(ax: Axes, method: str, pairs: list[tuple[int, np.ndarray]]) -> None:
    """Mean errors of one method, with a band where there are repeats."""
    colour, style, marker = STYLES[method]
    columns = [n for n, _ in pairs]
    mean = np.array([e.mean() for _, e in pairs])
    ax.plot(
        columns, mean, style, color=colour, marker=marker, markersize=4, linewidth=1.2, label=method
    )
    if len(pairs[0][1]) > 1:
        half = 1.96 * np.array([e.std(ddof=1) / e.size**0.5 for _, e in pairs])
        # On a logarithmic axis an interval that reaches 0 ends at a third of the mean.
        ax.fill_between(
            columns,
            np.maximum(mean - half, mean / 3),
            mean + half,
            color=colour,
            alpha=0.2,
            linewidth=0,
        )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", nargs="+", choices=DATA, default=DATA, metavar="NAME")
    parser.add_argument("--columns", type=int, nargs="+", choices=COLUMNS, default=COLUMNS[:4])
    parser.add_argument("--repeats", type=int, default=25)
    parser.add_argument(
        "--at", type=int, choices=COLUMNS, help="columns of the tables; default: the largest"
    )
    add_figure_option(parser)
    options = parser.parse_args(arguments)
    if options.repeats < 2:
        parser.error("--repeats must be at least 2")

    columns = sorted(options.columns)
    at = columns[-1] if options.at is None else options.at
    all_results: dict[str, Results] = {kernel: {} for kernel in KERNELS}
    dimensions = {}
    for name in options.data:
        x = points(name)
        dimensions[name] = x.shape[1]
        print(
            f"{name}: {x.shape[0]} points, D = {x.shape[1]}"
            + (", synthetic" if name == "line" else "")
        )
        for kernel in KERNELS:
            found = measure(x, kernel, columns, options.repeats)
            for lengthscale, errors in zip(LENGTHSCALES, found, strict=True):
                all_results[kernel][name, lengthscale] = errors
    for kernel, results in all_results.items():
        print_table(kernel, results, at)
    print_claims(all_results, at)
    if options.out:
        draw(all_results, dimensions, options.out)


if __name__ == "__main__":
    main()
