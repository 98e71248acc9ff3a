"""Fast simplex features: table 3 of the paper, and the bias of HD products.

The product R = H D_1 H D_2 H D_3, of Walsh-Hadamard matrices and random signs, is orthogonal but
not Haar. Over all directions of x - y (Fourier features) or x + y (positive ones) its bias averages
to 0; at one of them it does not. The first table, which is not in the paper, has the mean of phi(x)
. phi(y) over k(x, y) for an axis, a diagonal of two coordinates and the diagonal of all. The mean
over D_1 is a product of cosines (cosh), that over the norms a Gauss-Laguerre rule; D_2, D_3 and
rows run through all values where these are few, else are drawn.

The second is that of App. B.2.2 (Reid et al. 2023): the classification of
`simplex_classification.py` with Haar rotations and with R in their place. All points are padded
with zeros to a power of two, d', and m = d'.

    python examples/fast_simplex.py --out fast_simplex.png
    python examples/fast_simplex.py --sets banknote --repeats 20 --dimensions 4 8
"""

from __future__ import annotations

import argparse
import itertools

import numpy as np
from _figures import GREY, doublings, figure, legend_below, look
from _options import add_figure_option
from gram_error import mean_and_error
from scipy import linalg, special
from simplex_classification import accuracy, cell, choose_sigma, load, test_split

from graphrf.euclidean.frequencies.directions import simplex
from graphrf.plot import COLOURS

#: Table 3: independent, orthogonal, fast orthogonal, simplex, fast simplex.
PUBLISHED = {
    "abalone": (
        "0.1432 +- 0.0003",
        "0.1445 +- 0.0003",
        "0.1447 +- 0.0003",
        "0.1455 +- 0.0003",
        "0.1462 +- 0.0003",
    ),
    "banknote": (
        "0.6441 +- 0.0024",
        "0.6612 +- 0.0025",
        "0.6596 +- 0.0024",
        "0.7196 +- 0.0019",
        "0.7296 +- 0.0017",
    ),
    "car": (
        "0.6768 +- 0.0006",
        "0.6788 +- 0.0006",
        "0.6784 +- 0.0006",
        "0.6797 +- 0.0006",
        "0.6800 +- 0.0006",
    ),
    "yeast": (
        "0.3187 +- 0.0006",
        "0.3193 +- 0.0006",
        "0.3171 +- 0.0006",
        "0.3187 +- 0.0006",
        "0.3195 +- 0.0006",
    ),
    "cmc": (
        "0.4088 +- 0.0009",
        "0.4149 +- 0.0009",
        "0.4159 +- 0.0009",
        "0.4206 +- 0.0008",
        "0.4222 +- 0.0008",
    ),
    "nursery": (
        "0.5870 +- 0.0013",
        "0.6213 +- 0.0019",
        "0.6193 +- 0.0019",
        "0.7030 +- 0.0008",
        "0.7037 +- 0.0008",
    ),
    "wifi": (
        "0.4914 +- 0.0026",
        "0.5224 +- 0.0025",
        "0.5310 +- 0.0024",
        "0.6509 +- 0.0027",
        "0.6533 +- 0.0027",
    ),
    "chess": (
        "0.2011 +- 0.0002",
        "0.2017 +- 0.0002",
        "0.2016 +- 0.0002",
        "0.2021 +- 0.0002",
        "0.2021 +- 0.0002",
    ),
}
DIRECTIONS = ("iid", "orthogonal", "orthogonal-hd", "simplex", "simplex-hd")
DIMENSIONS = (4, 8, 16, 32, 64)
#: Columns of the second table: features, and |x - y| or |x + y|.
CASES = (("fourier", 1.5), ("laplace", 1.5), ("laplace", 3.0))
#: Directions of x - y or x + y, by the number of equal coordinates; the others are 0.
SUPPORTS = {"axis": 1, "pair": 2, "all": None}
SUPPORT_NAMES = {"axis": "one coordinate", "pair": "two", "all": "all"}
# Signs that are enumerated, at most; draws beyond; nodes of the rule for norms.
MOST_SIGNS, DRAWS, NODES = 14, 40_000, 40


def padded(x: np.ndarray) -> np.ndarray:
    """Zero columns up to the next power of two."""
    size = 1 << (x.shape[1] - 1).bit_length()
    return np.pad(x, ((0, 0), (0, size - x.shape[1])))


def repeats_for(n: int) -> int:
    """Fewer repeats for large tables, whose accuracies vary less."""
    return int(np.clip(1_000_000 // n, 100, 300))


def measure(
    x: np.ndarray, y: np.ndarray, sigma: float, repeats: int, seed: int
) -> dict[str, np.ndarray]:
    """Accuracies with m = d' features, one a repeat."""
    found = {directions: np.empty(repeats) for directions in DIRECTIONS}
    for repeat in range(repeats):
        split = test_split(x, y, repeat, seed)
        split = split._replace(x=padded(split.x), x_test=padded(split.x_test))
        for directions in DIRECTIONS:
            found[directions][repeat] = accuracy(
                split, sigma, directions, split.x.shape[1], seed + repeat
            )
    return found


def bias(
    features: str, reach: float, support: str, dimension: int, is_simplex: bool, seed: int
) -> tuple[float, float]:
    """Mean of phi(x) . phi(y) over k(x, y), and its standard error (0 if enumerated).

    `reach` is |x - y| for "fourier" and |x + y| for "laplace", `support` their direction; d is a
    power of two.
    """
    rng = np.random.default_rng(seed)
    hadamard = linalg.hadamard(dimension) / dimension**0.5
    # Signs make all rows of H alike.
    rows = (simplex(dimension) if is_simplex else np.eye(dimension)[:1]) @ hadamard
    width = SUPPORTS[support] or dimension
    x = np.zeros(dimension)
    x[:width] = width**-0.5
    free = dimension + width - 2  # of D_2 and D_3; a sign common to all of a factor changes nothing
    if free <= MOST_SIGNS:
        signs = np.array(list(itertools.product((1.0, -1.0), repeat=free))).reshape(-1, free)
        one = np.ones((len(signs), 1))
        third = np.concatenate(
            [one, signs[:, : width - 1], np.ones((len(signs), dimension - width))], axis=1
        )
        second = np.concatenate([one, signs[:, width - 1 :]], axis=1)
    else:
        second, third = rng.choice((1.0, -1.0), size=(2, DRAWS, dimension))
    z = (second * ((third * x) @ hadamard)) @ hadamard  # H D_2 H D_3 x
    if free <= MOST_SIGNS:
        angles = (reach * z[:, None, :] * rows).reshape(-1, dimension)
    else:
        angles = reach * z * rows[rng.integers(len(rows), size=DRAWS)]
    half_square, weights = special.roots_genlaguerre(NODES, dimension / 2 - 1)
    values = np.zeros(len(angles))
    for norm, weight in zip(np.sqrt(2 * half_square), weights / weights.sum(), strict=True):
        values += weight * (np.cos if features == "fourier" else np.cosh)(norm * angles).prod(
            axis=1
        )
    values *= np.exp((1 if features == "fourier" else -1) * reach**2 / 2)
    return float(values.mean()), 0.0 if free <= MOST_SIGNS else mean_and_error(values)[1]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--sets", nargs="+", default=list(PUBLISHED), choices=list(PUBLISHED), metavar="NAME"
    )
    parser.add_argument(
        "--repeats", type=int, help="at least 2; default: 100 to 300 by the table's size"
    )
    parser.add_argument(
        "--dimensions", nargs="+", type=int, default=DIMENSIONS, choices=DIMENSIONS, metavar="D"
    )
    parser.add_argument("--seed", type=int, default=0)
    add_figure_option(parser)
    options = parser.parse_args()
    if options.repeats is not None and options.repeats < 2:
        parser.error("--repeats must be at least 2")

    print("mean of the estimated kernel over the kernel, H D_1 H D_2 H D_3")
    print(
        f"{'':>3} {'':<5}  " + "".join(f"{kind + ', ' + str(reach):<36}" for kind, reach in CASES)
    )
    print(f"{'d':>3} {'x':<5}  " + f"{'orthogonal-hd':<18}{'simplex-hd':<18}" * len(CASES))
    biases = {}
    for dimension, support in itertools.product(options.dimensions, SUPPORTS):
        row = []
        for case, is_simplex in itertools.product(CASES, (False, True)):
            row.append(bias(*case, support, dimension, is_simplex, options.seed))
            biases[(*case, support, is_simplex, dimension)] = row[-1]
        cells = (f"{mean:.4f}" + (f" +- {error:.4f}" if error else "") for mean, error in row)
        print(
            f"{dimension:>3} {support:<5}  " + "".join(f"{text:<18}" for text in cells), flush=True
        )

    print(
        "\n"
        "accuracy with m = d' features, mean +- standard error; below each row the published ones "
        "(table 3)"
    )
    print(f"{'set':<9} {'d':>3} {'repeats':>7}  " + "  ".join(f"{name:<16}" for name in DIRECTIONS))
    results = {}
    for name in options.sets:
        x, y = load(name)
        sigma = choose_sigma(x, y, options.seed)
        repeats = options.repeats or repeats_for(len(x))
        results[name] = measure(x, y, sigma, repeats, options.seed)
        cells = "  ".join(cell(results[name][directions]) for directions in DIRECTIONS)
        print(f"{name:<9} {padded(x[:1]).shape[1]:>3} {repeats:>7}  {cells}")
        print(f"{'  paper':<21}  " + "  ".join(PUBLISHED[name]), flush=True)
    if options.out:
        draw(biases, options.dimensions, results, options.out)


def draw(
    biases: dict[tuple[str, float, str, bool, int], tuple[float, float]],
    dimensions: list[int],
    results: dict[str, dict[str, np.ndarray]],
    path: str,
) -> None:
    """Biases of Fourier and positive features against the dimension; accuracies below."""
    with figure(path, height=6.4) as sheet:
        upper, lower = sheet.subfigures(2, 1, height_ratios=[1.1, 1])
        panels = upper.subplots(1, 2)
        for ax, (kind, reach) in zip(panels, (CASES[0], CASES[-1]), strict=True):
            for colour, support in zip(COLOURS, SUPPORTS, strict=False):
                for is_simplex, style in ((False, "o-"), (True, "s--")):
                    values = np.array(
                        [biases[kind, reach, support, is_simplex, d] for d in dimensions]
                    )
                    label = (
                        f"{'simplex' if is_simplex else 'orthogonal'}-hd, {SUPPORT_NAMES[support]}"
                    )
                    ax.errorbar(
                        dimensions, values[:, 0], values[:, 1], fmt=style, color=colour, label=label
                    )
            ax.axhline(1, color=GREY, linewidth=1, linestyle=":", zorder=1)
            doublings(ax, dimensions)
            if kind == "fourier":
                names = ("Fourier features", "|x - y|")
            else:
                names = ("positive features", "|x + y|")
            ax.set_title(f"{names[0]}, {names[1]} = {reach}")
            ax.set_xlabel("dimension")
        panels[0].set_ylabel("mean estimate / kernel")
        legend_below(upper, panels[0], columns=3)
        ax = lower.subplots()
        places = np.arange(len(results))
        for number, directions in enumerate(DIRECTIONS):
            values = np.array([mean_and_error(found[directions]) for found in results.values()])
            is_fast = directions.endswith("-hd")
            ax.errorbar(
                places + 0.11 * (number - 2),
                values[:, 0],
                values[:, 1],
                label=directions,
                **look(directions.removesuffix("-hd"), line=False, is_open=is_fast),
            )
        ax.set_xticks(places, list(results))
        ax.grid(visible=False, axis="x")
        ax.set_ylabel("accuracy with m = d' features")
        legend_below(lower, ax, columns=5)


if __name__ == "__main__":
    main()
