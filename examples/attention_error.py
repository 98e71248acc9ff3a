"""Variances of attention scores, and the error of attention: figure 7 of the paper.

As there (Reid et al. 2024, App. B.3): 16 normal keys of dimension 16, here with a query drawn like
them. Scores exp(q . k_j) are estimated by positive random features; attention is a score over the
sum of all. Frequencies are orthogonal with independent norms, with PNC norms and with PM norms, one
for a block; simplex directions are not in the figure. Variance and covariance are the two terms of
Eq. 46, averages over all keys and over all pairs of keys; their difference is its prediction of the
mean squared error of attention.

The paper draws keys from N(0, I/sqrt(d)). With 1/sqrt(d) as standard deviation, |k|^2 near 1,
variance and covariance can be measured. With 1/sqrt(d) as variance, |k|^2 near 4 as for standard
normal keys in attention, few draws in a million would make up most of both, so that only the error
of attention is given. Squares of single features enter by their exact means, which takes away the
heaviest tail.

    python examples/attention_error.py --out attention_error.png
    python examples/attention_error.py --quick
"""

from __future__ import annotations

import argparse

import numpy as np
from _figures import doublings, figure, legend_below, look
from _options import add_figure_option

from graphrf.euclidean.frequencies.draw import draw_frequencies

N_KEYS = DIMENSION = 16
FREQUENCIES = (4, 8, 16, 32, 64, 128)
SCHEMES = {
    "orthogonal": {"directions": "orthogonal", "norms": "iid"},
    "orthogonal + PNC": {"directions": "orthogonal", "norms": "pnc"},
    "orthogonal + PM": {"directions": "orthogonal", "norms": "pm"},
    "simplex": {"directions": "simplex", "norms": "iid"},
    "simplex + PM": {"directions": "simplex", "norms": "pm"},
}
LOOKS = {
    "orthogonal": look("orthogonal"),
    "orthogonal + PNC": look("+ PNC"),
    "orthogonal + PM": look("+ PM"),
    "simplex": look("simplex"),
    "simplex + PM": look("simplex", is_open=True) | {"linestyle": "--"},
}
# What figure 7 shows of each, against orthogonal
# frequencies: variance, covariance, and error of attention.
PUBLISHED = {
    "orthogonal": ("1", "1", "1"),
    "orthogonal + PNC": ("less", "less", "the same"),
    "orthogonal + PM": ("more", "more", "less"),
}
QUANTITIES = ("variance", "covariance", "difference", "error")
READINGS = {"standard deviation": DIMENSION**-0.5, "variance": DIMENSION**-0.25}
BATCH = 250


def frequency_sets(m: int, n_sets: int, scheme: dict[str, str], seed: int) -> np.ndarray:
    """Independent sets of m frequencies, (n_sets, m, d): blocks of d, the last cut."""
    rows = -(-m // DIMENSION) * DIMENSION
    w = draw_frequencies(rows * n_sets, DIMENSION, seed=seed, **scheme).matrix
    return w.reshape(n_sets, rows, DIMENSION)[:, :m]


def quantities(query: np.ndarray, keys: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Estimates of `QUANTITIES` from every set of frequencies, shape (n_sets, 4).

    Variance, covariance and their difference are divided by the square of the sum of all scores, as
    in Eq. 46.
    """
    m, half = w.shape[1], (keys**2).sum(axis=1) / 2
    # What each frequency gives to each score, shape (n_sets, n_keys, m).
    sums = keys + query
    single = np.exp(np.einsum("smd,nd->snm", w, sums) - half[:, None] - query @ query / 2)
    scores, truth = single.mean(axis=2), np.exp(keys @ query)
    # E[single_j single_l] within one frequency.
    exact = np.exp(
        ((sums[:, None] + sums) ** 2).sum(axis=2) / 2 - half[:, None] - half - query @ query
    )
    variance = scores**2 - (single**2).sum(axis=2) / m**2 + np.diag(exact) / m - truth**2
    mean = scores.mean(axis=1)
    covariance = (
        mean**2
        - (single.mean(axis=1) ** 2).sum(axis=1) / m**2
        + exact.mean() / m
        - truth.mean() ** 2
    )
    error = (scores / scores.sum(axis=1, keepdims=True) - truth / truth.sum()) ** 2
    terms = np.stack(
        [variance.mean(axis=1), covariance, variance.mean(axis=1) - covariance], axis=1
    )
    return np.concatenate([terms / truth.sum() ** 2, error.mean(axis=1, keepdims=True)], axis=1)


def measure(
    spread: float, frequencies: tuple[int, ...], n_data: int, n_sets: int, seed: int
) -> dict[tuple[int, str], np.ndarray]:
    """Quantities by number of frequencies and scheme, (n_data * n_sets, 4), paired."""
    results = {}
    for m in frequencies:
        for name, scheme in SCHEMES.items():
            found = []
            for data in range(n_data):
                x = (
                    np.random.default_rng([seed, data]).standard_normal((N_KEYS + 1, DIMENSION))
                    * spread
                )
                for start in range(0, n_sets, BATCH):
                    # The same seed for all schemes: they share
                    # rotations, and norms where the coupling does.
                    draw_seed = seed + 1_000_000 * data + start
                    w = frequency_sets(m, min(BATCH, n_sets - start), scheme, draw_seed)
                    found.append(quantities(x[0], x[1:], w))
            results[m, name] = np.concatenate(found)
    return results


def ratio_and_error(values: np.ndarray, reference: np.ndarray) -> tuple[float, float]:
    """Ratio of the means and two standard errors of it (delta method) from paired rows."""
    ratio = values.mean() / reference.mean()
    spread = (values - ratio * reference).std(ddof=1) / values.size**0.5
    return float(ratio), float(2 * spread / abs(reference.mean()))


def print_table(results: dict[tuple[int, str], np.ndarray], columns: tuple[str, ...]) -> None:
    """Ratios to orthogonal frequencies, and the error of attention itself."""
    print(
        f"{'m':>4} {'frequencies':<17}"
        + "".join(f" {name:>15}" for name in columns)
        + f" {'error itself':>12}  in the paper: "
        + ", ".join(name for name in columns if name != "difference")
    )
    for (m, name), values in results.items():
        reference = results[m, "orthogonal"]
        row = f"{m:>4} {name:<17}"
        for column in columns:
            number = QUANTITIES.index(column)
            ratio, spread = ratio_and_error(values[:, number], reference[:, number])
            row += f" {'1' if name == 'orthogonal' else f'{ratio:.3f} +- {spread:.3f}':>15}"
        published = PUBLISHED.get(name, ("not shown",))
        shown = published[-sum(c != "difference" for c in columns) :]
        print(f"{row} {values[:, 3].mean():>12.2e}  {', '.join(shown)}", flush=True)


def draw(results: dict[tuple[int, str], np.ndarray], path: str) -> None:
    """The three panels of figure 7, relative to orthogonal ones; bands of two errors."""
    counts = sorted({m for m, _ in results})
    titles = ("variance of scores", "covariance of scores", "squared error of attention")
    with figure(path, height=3.5) as sheet:
        axes = sheet.subplots(1, 3)
        for ax, title, number in zip(axes, titles, (0, 1, 3), strict=True):
            for name, style in LOOKS.items():
                pairs = (
                    (results[m, name][:, number], results[m, "orthogonal"][:, number])
                    for m in counts
                )
                ratio, spread = np.array([ratio_and_error(*pair) for pair in pairs]).T
                ax.plot(counts, ratio, label=name, **style)
                ax.fill_between(
                    counts,
                    ratio - spread,
                    ratio + spread,
                    color=style["color"],
                    alpha=0.18,
                    linewidth=0,
                )
            doublings(ax, counts)
            ax.set_title(title)
            ax.set_xlabel("frequencies")
        axes[0].set_ylabel("relative to orthogonal")
        legend_below(sheet, axes[0], columns=len(LOOKS))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=int, default=16, help="draws of query and keys")
    parser.add_argument("--sets", type=int, default=1_000, help="sets of frequencies for each")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--quick", action="store_true", help="seconds: 16 frequencies, fewer repeats"
    )
    add_figure_option(parser)
    options = parser.parse_args()
    if options.data < 1 or options.sets < 2:
        parser.error("--data must be at least 1 and --sets at least 2")

    frequencies = (8, 16) if options.quick else FREQUENCIES
    n_data, n_sets = (2, 250) if options.quick else (options.data, options.sets)
    print(
        f"a query and {N_KEYS} keys of dimension {DIMENSION} drawn {n_data} times, {n_sets} sets "
        "of m frequencies;"
    )
    print(
        "ratios to orthogonal frequencies with independent norms, +- two standard errors of paired "
        "repeats;"
    )
    print("difference: variance less covariance, which predicts the error of attention (Eq. 46)")
    for reading, spread in READINGS.items():
        print(f"\n1/sqrt(d) read as {reading} of keys: |k|^2 near {DIMENSION * spread**2:g}")
        results = measure(spread, frequencies, n_data, n_sets, options.seed)
        measurable = reading == "standard deviation"
        print_table(results, QUANTITIES if measurable else ("error",))
        if measurable and options.out:
            draw(results, options.out)


if __name__ == "__main__":
    main()
