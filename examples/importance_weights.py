"""Why Matern frequencies are not drawn by importance weights: their variance is infinite.

The chapter ("Numerical methods for improved decoupled sampling of Gaussian processes", Sec. A.3.2)
draws frequencies w from the Gaussian law q of the squared-exponential kernel and gives each the
weight p(w)/q(w), with p the Student-t density of a Matern kernel. Its tails are heavier, so the
second moment of the weights, the integral of p^2/q, is infinite: the sample variance never settles,
and jumps whenever a frequency falls far out. Here the running sample variance of p(w)/q(w) cos(w .
t) is printed beside that of cos(w . t) with w drawn from p itself: a normal vector over the root of
a chi-squared number, which takes one more coordinate of a uniform sample and so does for Sobol
points what the weights were for.

The second table is the estimate of the kernel from scrambled Sobol points, both ways. No number is
published; the chapter reports that its quasi-random features do "considerably worse and with far
higher variance" for the Matern-5/2 kernel.

    python examples/importance_weights.py --out importance_weights.png
    python examples/importance_weights.py --draws 100000 --repeats 3
"""

from __future__ import annotations

import argparse

import numpy as np
from _figures import figure, legend_below
from _options import add_figure_option
from scipy import special
from scipy.stats import qmc

from graphrf.euclidean.frequencies.draw import draw_frequencies
from graphrf.euclidean.kernels import StationaryKernel, stationary_kernel
from graphrf.plot import COLOURS

KERNEL = "matern52"
CHUNK = 1_000_000


def weights(kernel: StationaryKernel, frequencies: np.ndarray) -> np.ndarray:
    """p(w) / q(w) at frequencies of shape (n, d)."""
    normal = stationary_kernel("gaussian")
    return kernel.spectral_density(frequencies) / normal.spectral_density(frequencies)


def sobol_normal(n: int, dimension: int, seed: int) -> np.ndarray:
    """n (a power of 2) scrambled Sobol points as normal frequencies: the chapter's."""
    u = qmc.Sobol(dimension, scramble=True, seed=np.random.default_rng(seed)).random(n)
    return special.ndtri(np.clip(u, 2.0**-53, 1 - 2.0**-53))


def importance_features(
    x: np.ndarray, kernel: StationaryKernel, n_columns: int, seed: int
) -> np.ndarray:
    """The chapter's quasi-random features: cosines and sines with the roots of the weights."""
    n = n_columns // 2
    frequencies = sobol_normal(n, x.shape[1], seed)
    amplitudes = np.sqrt(weights(kernel, frequencies) / n)
    projected = x @ frequencies.T
    return np.concatenate([np.cos(projected) * amplitudes, np.sin(projected) * amplitudes], axis=1)


def terms(
    kernel: StationaryKernel, dimension: int, r: float, n: int, rng: np.random.Generator
) -> list[np.ndarray]:
    """n terms of the two estimates of k(r): with weights, and with the kernel's own frequencies."""
    normal = rng.standard_normal((n, dimension))
    chi_squared = rng.chisquare(2 * kernel.nu, n)
    student = normal[:, 0] * np.sqrt(2 * kernel.nu / chi_squared)
    return [weights(kernel, normal) * np.cos(r * normal[:, 0]), np.cos(r * student)]


def running_variances(
    kernel: StationaryKernel, dimension: int, r: float, stops: list[int], seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Sample variances after `stops` draws, and the largest term's share of the sum of squares."""
    rng = np.random.default_rng([seed, dimension])
    totals, squares, largest = np.zeros(2), np.zeros(2), np.zeros(2)
    variances, shares = np.empty((2, len(stops))), np.empty((2, len(stops)))
    done = 0
    for column, stop in enumerate(stops):
        while done < stop:
            n = min(CHUNK, stop - done)
            for row, values in enumerate(terms(kernel, dimension, r, n, rng)):
                totals[row] += values.sum()
                squares[row] += values @ values
                largest[row] = max(largest[row], np.abs(values).max() ** 2)
            done += n
        variances[:, column] = (squares - totals**2 / done) / (done - 1)
        shares[:, column] = largest / squares
    return variances, shares


def sobol_estimates(
    kernel: StationaryKernel, dimension: int, r: float, n: int, repeats: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Estimates of k(r) from n frequencies: Sobol with weights, Student-t map, random."""
    estimates = np.empty((3, repeats))
    for seed in range(repeats):
        normal = sobol_normal(n, dimension, seed)
        estimates[0, seed] = np.mean(weights(kernel, normal) * np.cos(r * normal[:, 0]))
        for row, directions, norms in ((1, "sobol", None), (2, "iid", "iid")):
            drawn = draw_frequencies(
                n, dimension, kernel=kernel, directions=directions, norms=norms, seed=seed
            ).matrix
            estimates[row, seed] = np.mean(np.cos(r * drawn[:, 0]))
    return estimates[0], estimates[1], estimates[2]


def draw(results: dict[int, list[np.ndarray]], stops: list[int], path: str) -> None:
    """Running variances of all seeds, one panel for each dimension."""
    looks = {
        "importance weights from a Gaussian": (COLOURS[1], "-"),
        "the kernel's own distribution (Student t)": (COLOURS[0], "--"),
    }
    with figure(path, height=3.5) as sheet:
        axes = sheet.subplots(1, len(results), sharey=True, squeeze=False)[0]
        for ax, (dimension, runs) in zip(axes, results.items(), strict=True):
            for variances in runs:
                for values, (label, (colour, style)) in zip(variances, looks.items(), strict=True):
                    ax.plot(stops, values, style, color=colour, linewidth=1.2, label=label)
            ax.set_xscale("log")
            ax.set_yscale("log")
            ax.set_title(f"{dimension} dimension{'s' if dimension > 1 else ''}")
            ax.set_xlabel("frequencies drawn")
        axes[0].set_ylabel("sample variance of one term")
        legend_below(sheet, axes[0], columns=2)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=10**7, help="frequencies in each run")
    parser.add_argument("--dimensions", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--repeats", type=int, default=5, help="runs, each with its own seed")
    parser.add_argument("--distance", type=float, default=0.7, help="|x - x'| in lengthscales")
    add_figure_option(parser)
    options = parser.parse_args(arguments)

    kernel = stationary_kernel(KERNEL)
    r = options.distance
    exact = float(kernel(r))
    truth = (1 + float(kernel(2 * r))) / 2 - exact**2
    stops = [int(stop) for stop in np.unique(np.geomspace(100, options.draws, 41).astype(int))]
    shown = [
        int(np.searchsorted(stops, min(10.0**k, stops[-1])))
        for k in range(3, 8)
        if 10**k <= options.draws
    ]
    print(
        f"Matern-5/2, distance {r} lengthscales: k = {exact:.4f}. Sample variance of one term of "
        "the estimate"
    )
    print(
        "with weights, after so many draws, run by run; the law's own terms have variance "
        f"{truth:.4f}."
    )
    print(
        f"{'d':>2} {'run':>3}  " + "".join(f"{f'1e{k}':>9}" for k in range(3, 3 + len(shown))),
        end="",
    )
    print(f"{'largest':>9}  {'own law':>8}")
    results: dict[int, list[np.ndarray]] = {}
    for dimension in options.dimensions:
        results[dimension] = []
        for seed in range(options.repeats):
            variances, shares = running_variances(kernel, dimension, r, stops, seed)
            results[dimension].append(variances)
            row = "".join(f"{variances[0, column]:>9.3f}" for column in shown)
            print(
                f"{dimension:>2} {seed:>3}  {row}{shares[0, -1]:>9.3f}  {variances[1, -1]:>8.4f}",
                flush=True,
            )
    print("largest: share of the largest single term in the sum of squares of the run.")

    n, repeats = 256, 20 * options.repeats
    print(
        "\n"
        f"estimate of k = {exact:.4f} from {n} frequencies, {repeats} scramblings: mean +- "
        "standard error, sd"
    )
    print(
        f"{'d':>2} "
        f" {'Sobol with weights':<26}{'Sobol, Student-t map':<26}{'independent, own law':<26}"
    )
    for dimension in options.dimensions:
        cells = [
            f"{e.mean():.4f} +- {e.std(ddof=1) / e.size**0.5:.4f}  {e.std(ddof=1):.4f}"
            for e in sobol_estimates(kernel, dimension, r, n, repeats)
        ]
        print(f"{dimension:>2}  " + "".join(f"{cell:<26}" for cell in cells))
    if options.out:
        draw(results, stops, options.out)


if __name__ == "__main__":
    main()
