"""Paired against phased Fourier features at equal columns: the notebook's figures.

As there: 50 points from -2 to 2, lengthscale .5, independent frequencies, the relative Frobenius
error of the Gram matrix. Paired features [cos, sin] spend two columns on a frequency, phased ones
cos(w.x + b) one. First the convergence of paired features with the Gaussian kernel, then both for
three kernels from 16 to 512 columns. The notebook prints no numbers, but says: the slope is that of
1/sqrt(M), the error at M = 1024 is below 5 %; paired is below phased for the Gaussian kernel, and
the gap shrinks for Matern-3/2 and Laplace.

Beside the measured errors stands the exact root of the mean squared error: with z = x - y, a
frequency contributes (1 + k(2z)) / 2 - k(z)^2 to the variance of a paired estimate, and a phased
column 1 + k(2z) / 2 - k(z)^2. So at equal columns paired wins at z where k(z)^2 >= k(2z) / 2.

    python examples/paired_phased.py --out paired_phased.png
    python examples/paired_phased.py --repeats 10
"""

from __future__ import annotations

import argparse

import numpy as np
from _figures import doublings, figure, plain_logs
from _options import add_figure_option

from graphrf.euclidean.features import FourierFeatures
from graphrf.euclidean.kernels import stationary_kernel
from graphrf.plot import COLOURS

LENGTHSCALE = 0.5
KERNELS = {"gaussian": "Gaussian", "matern32": "Matern-3/2", "laplace": "Laplace"}
READOUTS = ("paired", "phased")
FREQUENCIES = (8, 16, 32, 64, 128, 256, 512, 1024)
COLUMNS = (16, 32, 64, 128, 256, 512)


def grid() -> np.ndarray:
    """The notebook's points."""
    return np.linspace(-2, 2, 50)[:, None]


def errors(kernel: str, readout: str, n_columns: int, repeats: int) -> np.ndarray:
    """Relative Frobenius errors of the Gram matrix, one for each seed."""
    x = grid()
    exact = stationary_kernel(kernel).gram(x, lengthscale=LENGTHSCALE)
    found = np.empty(repeats)
    for seed in range(repeats):
        phi = FourierFeatures(
            n_columns // 2 if readout == "paired" else n_columns,
            kernel=kernel,
            directions="iid",
            norms="iid",
            readout=readout,
            lengthscale=LENGTHSCALE,
            seed=seed,
            n_threads=1,
        ).fit_transform(x)
        found[seed] = np.linalg.norm(phi @ phi.T - exact)
    return found / np.linalg.norm(exact)


def exact_error(kernel: str, readout: str, n_columns: int) -> float:
    """Root of the mean squared relative Frobenius error."""
    x = grid() / LENGTHSCALE
    law = stationary_kernel(kernel)
    k, k_double = law.gram(x), law.gram(2 * x)
    if readout == "paired":
        variance = ((1 + k_double) / 2 - k**2) / (n_columns / 2)
    else:
        # The terms cos(w.z) and cos(w.(x + y) + 2b) are
        # uncorrelated: the second has variance 1/2 at all x, y.
        variance = (1 + k_double / 2 - k**2) / n_columns
    return float(np.sqrt(variance.sum() / np.sum(k**2)))


def draw(
    convergence: np.ndarray,
    measured: dict[tuple[str, str], np.ndarray],
    columns: tuple[int, ...],
    path: str,
) -> None:
    """The notebook's convergence figure, then a panel per kernel; bars: one deviation."""
    with figure(path, height=5.8) as sheet:
        axes = sheet.subplots(2, 2, sharey=True)
        first, *others = axes.flat
        mean, spread = convergence.mean(axis=1), convergence.std(axis=1, ddof=1)
        first.plot(FREQUENCIES, mean, "o-", color=COLOURS[0], label="paired")
        first.fill_between(
            FREQUENCIES, mean - spread, mean + spread, color=COLOURS[0], alpha=0.25, linewidth=0
        )
        reference = mean[0] * np.sqrt(FREQUENCIES[0] / np.array(FREQUENCIES))
        first.plot(FREQUENCIES, reference, "k--", linewidth=1, label="slope -1/2")
        doublings(first, FREQUENCIES)
        first.set_title("Gaussian, paired: convergence")
        first.set_xlabel("frequencies")
        for ax, (kernel, name) in zip(others, KERNELS.items(), strict=True):
            for readout, marker, style, colour in zip(
                READOUTS, "os", ("-", "--"), COLOURS[:2], strict=True
            ):
                values = measured[kernel, readout]
                root = np.sqrt(np.mean(values**2, axis=1))
                ax.errorbar(
                    columns,
                    root,
                    values.std(axis=1, ddof=1),
                    fmt=marker,
                    color=colour,
                    label=readout,
                )
                theory = [exact_error(kernel, readout, n) for n in columns]
                ax.plot(
                    columns, theory, style, color=colour, linewidth=1.2, label=f"{readout}, exact"
                )
            doublings(ax, columns)
            ax.set_title(f"{name}: equal columns")
            ax.set_xlabel("columns")
        for ax in axes.flat:
            ax.set_yscale("log")
            ax.set_ylim(0.02, 1.2)
            plain_logs(ax.yaxis)
            ax.legend(loc="lower left")
        sheet.supylabel("relative Frobenius error (mean; root mean square)", fontsize=9)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--repeats", type=int, default=200, help="seeds for each point; the notebook has 20 and 12"
    )
    add_figure_option(parser)
    options = parser.parse_args(arguments)
    if options.repeats < 2:
        parser.error("--repeats must be at least 2")

    convergence = np.stack(
        [errors("gaussian", "paired", 2 * m, options.repeats) for m in FREQUENCIES]
    )
    slope = np.polyfit(np.log(FREQUENCIES), np.log(convergence.mean(axis=1)), 1)[0]
    print("Gaussian kernel, paired, M frequencies: mean relative error")
    print(
        "   ".join(
            f"{m}: {e:.4f}" for m, e in zip(FREQUENCIES, convergence.mean(axis=1), strict=True)
        )
    )
    print(
        f"slope {slope:.3f} (notebook: close to -1/2); at M = 1024 {convergence[-1].mean():.4f} "
        "(below .05)\n"
    )

    print(
        "equal columns: root of the mean squared relative error, measured +- standard error, and "
        "exact"
    )
    print(
        f"{'kernel':<11} {'columns':>7}  {'paired':<18} {'exact':<7} {'phased':<18} {'exact':<7} "
        "phased/paired"
    )
    measured: dict[tuple[str, str], np.ndarray] = {}
    for kernel, name in KERNELS.items():
        for readout in READOUTS:
            measured[kernel, readout] = np.stack(
                [errors(kernel, readout, n, options.repeats) for n in COLUMNS]
            )
        for row, n in enumerate(COLUMNS):
            cells, roots = [], []
            for readout in READOUTS:
                squares = measured[kernel, readout][row] ** 2
                roots.append(np.sqrt(squares.mean()))
                error = squares.std(ddof=1) / squares.size**0.5 / (2 * roots[-1])
                cells.append(
                    f"{roots[-1]:.4f} +- {error:.4f}   {exact_error(kernel, readout, n):.4f} "
                )
            print(f"{name:<11} {n:>7}  {'  '.join(cells)}  {roots[1] / roots[0]:.3f}")
    print(
        "\n"
        "phased / paired, exact, at any number of columns (notebook: the gap shrinks from left to "
        "right):"
    )
    print(
        "   ".join(
            f"{name} {exact_error(k, 'phased', 64) / exact_error(k, 'paired', 64):.3f}"
            for k, name in KERNELS.items()
        )
    )
    if options.out:
        draw(convergence, measured, COLUMNS, options.out)


if __name__ == "__main__":
    main()
