"""Does a better Gram matrix make a better Gaussian process? Tables 3 and 4, reduced.

As there (App. B.2): the sets, splits and hyperparameters of `norm_coupling.py`; a GP whose kernel
is replaced by random features, m = d or 8 d frequencies (for Laplace features twice as many, with
their opposites); its predictive distribution against the exact GP's and against the test targets.
Both divergences are between distributions of the noisy targets: without noise the features'
covariance is singular and the divergence infinite.

    python examples/norm_coupled_gps.py
    python examples/norm_coupled_gps.py --sets cpu --splits 3 --repeats 2
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field

import _uci
import numpy as np
from _figures import GREY, figure, legend_below, look
from _options import add_figure_option
from _tables_3_and_4 import read
from norm_coupling import PUBLISHED, ROWS, features, frequencies, gram_errors
from scipy import linalg

from graphrf.euclidean import stationary_kernel
from graphrf.gp.metrics import rmse

#: The couplings that the tables have.
COUPLINGS = {kind: [row for row in rows if row in PUBLISHED[kind]] for kind, rows in ROWS.items()}
#: Frequencies in multiples of d.
SIZES = {"d": 1, "8d": 8}
METRICS = ("kernel", "reverse", "kl", "rmse", "nll")


@dataclass(frozen=True)
class Predictive:
    """A normal distribution of noisy test targets, with its covariance's Cholesky root."""

    mean: np.ndarray
    covariance: np.ndarray
    root: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "root", linalg.cholesky(self.covariance, lower=True))

    def whiten(self, values: np.ndarray) -> np.ndarray:
        return linalg.solve_triangular(self.root, values, lower=True)

    def joint_nll(self, targets: np.ndarray) -> float:
        """-log p(all targets) / their number."""
        n = len(targets)
        white = self.whiten(targets - self.mean)
        total = 0.5 * white @ white + np.log(self.root.diagonal()).sum()
        return float(total / n + 0.5 * np.log(2 * np.pi))

    def divergence(self, other: Predictive) -> float:
        """KL(self || other), nats; `graphrf.gp.metrics` has all digits for near-equal ones."""
        between = other.whiten(self.root)
        shift = other.whiten(self.mean - other.mean)
        logs = np.log(between.diagonal()).sum()
        return float(0.5 * (np.sum(between**2) + shift @ shift - len(shift)) - logs)


def exact_predictive(part: _uci.Split, fitted: _uci.Hyperparameters) -> Predictive:
    """Under the exact GP (Eqs 40 and 42, with the noise)."""
    kernel = stationary_kernel("gaussian")
    x, y = part.x_train / fitted.lengthscale, part.x_test / fitted.lengthscale
    noise = fitted.noise**2
    factor = linalg.cho_factor(
        fitted.output_scale**2 * kernel.gram(x) + noise * np.eye(len(x)), lower=True
    )
    cross = fitted.output_scale**2 * kernel.gram(y, x)
    prior = fitted.output_scale**2 * kernel.gram(y)
    covariance = prior - cross @ linalg.cho_solve(factor, cross.T) + noise * np.eye(len(y))
    return Predictive(
        cross @ linalg.cho_solve(factor, part.y_train), (covariance + covariance.T) / 2
    )


def feature_predictive(
    train: np.ndarray, test: np.ndarray, targets: np.ndarray, noise: float
) -> Predictive:
    """With the kernel Phi Phi^T, in weight space (Eqs 39 and 41 corrected); features are (n, p).

    With B = (Phi_d^T Phi_d / s^2 + I)^-1 the mean is Phi_p B Phi_d^T y / s^2 and the covariance
    Phi_p B Phi_p^T + s^2 I. O(n p^2) time.
    """
    root = linalg.cholesky(train.T @ train / noise**2 + np.eye(train.shape[1]), lower=True)
    whitened = linalg.solve_triangular(root, test.T, lower=True)
    mean = whitened.T @ linalg.solve_triangular(root, train.T @ targets, lower=True) / noise**2
    return Predictive(mean, whitened.T @ whitened + noise**2 * np.eye(len(test)))


def scores(part: _uci.Split, found: Predictive, exact: Predictive) -> list[float]:
    """KL(features || exact) and back a test point, RMSE and NLL in units of targets."""
    return [
        found.divergence(exact),
        exact.divergence(found) / len(part.y_test),
        part.scale * rmse(part.y_test, found.mean),
        found.joint_nll(part.y_test) + np.log(part.scale),
    ]


def measure(
    name: str, kind: str, splits: int, repeats: int, seed: int, first: int | None = None
) -> dict[str, dict[str, np.ndarray]]:
    """By frequencies and coupling: `METRICS` of all splits, means over draws, (splits, 5).

    The coupling "exact" has 0 for the first three.
    """
    table, targets = _uci.load(name, first)
    d = table.shape[1]
    result = {
        size: {row: np.zeros((splits, 5)) for row in [*COUPLINGS[kind], "exact"]} for size in SIZES
    }
    for number in range(splits):
        part = _uci.split(table, targets, seed + number)
        fitted = _uci.fit_for(kind, part)
        exact = exact_predictive(part, fitted)
        x = part.x_test / fitted.lengthscale
        both = np.concatenate([part.x_train / fitted.lengthscale, x])
        gram = stationary_kernel("gaussian").gram(x)
        for size, multiple in SIZES.items():
            m = multiple * d * (1 if kind == "fourier" else 2)
            result[size]["exact"][number, 1:] = scores(part, exact, exact)
            for row in COUPLINGS[kind]:
                w = frequencies(ROWS[kind][row], m, d, repeats, 1_000 * (seed + number))
                found = []
                for phi in fitted.output_scale * features(kind, both, w):
                    train, test = np.split(phi, [len(part.x_train)])
                    predictive = feature_predictive(train, test, part.y_train, fitted.noise)
                    found.append(scores(part, predictive, exact))
                result[size][row][number, 0] = (
                    fitted.output_scale**2 * gram_errors(kind, x, gram, w).mean()
                )
                result[size][row][number, 1:] = np.mean(found, axis=0)
    return result


def mean_and_error(values: np.ndarray) -> tuple[float, float]:
    """Mean over splits and its standard error."""
    return float(values.mean()), float(values.std(ddof=1) / values.size**0.5)


def print_rows(kind: str, size: str, name: str, result: dict[str, np.ndarray]) -> None:
    """Every coupling of one set: ours, the published figure, their difference in errors."""
    published = read()
    place = list(_uci.SETS).index(name)
    reference = result["iid"][:, METRICS.index("rmse")].mean()
    for row, values in result.items():
        line = f"{name:<9}{row:<19}"
        for index, metric in enumerate(METRICS):
            value, error = mean_and_error(values[:, index])
            line += f" {value:8.3f} +- {error:<6.3f}"
            if (size, metric, kind, row) in published:
                theirs, their_error = published[size, metric, kind, row][place]
                line += f" {theirs:7.3f} {(value - theirs) / np.hypot(error, their_error):+5.1f}"
            elif metric in ("kl", "rmse", "nll"):
                line += " " * 14
            if metric == "rmse":
                line += f" {value / reference:6.3f}"
        print(line.rstrip(), flush=True)


def print_comparison(kind: str, results: dict[tuple[str, str], dict[str, np.ndarray]]) -> None:
    """Whether a step between couplings pays: ratios of means, errors of pairs in splits."""
    names = COUPLINGS[kind]
    print(
        "\n"
        f"{kind} features: what each step does to the mean over splits (ratio; of the NLL the "
        "difference)"
    )
    print(
        f"{'m':<4}{'set':<9}{'step':<34}"
        + " ".join(f" {metric:<16}" for metric in METRICS).rstrip()
    )
    for (size, name), result in results.items():
        for first, second in (("iid", names[2]), (names[2], names[3])):
            line = f"{size:<4}{name:<9}{first + ' -> ' + second:<34}"
            for index, metric in enumerate(METRICS):
                before, after = result[first][:, index], result[second][:, index]
                if metric == "nll":
                    value, error = mean_and_error(after - before)
                else:
                    value = after.mean() / before.mean()
                    error = mean_and_error(after - value * before)[1] / before.mean()
                line += (
                    f" {value:+8.3f} +- {error:.3f}"
                    if metric == "nll"
                    else f" {value:8.3f} +- {error:.3f}"
                )
            print(line)


def draw(results: dict[str, dict[tuple[str, str], dict[str, np.ndarray]]], path: str) -> None:
    """Kernel error against the divergence, relative to independent ones; a mark a set."""
    with figure(path, height=4.3) as sheet:
        axes = sheet.subplots(1, 2, sharey=True)
        for ax, (kind, tables) in zip(axes, results.items(), strict=True):
            for row in COUPLINGS[kind][1:]:
                for size in SIZES:
                    found = [result for (of_size, _), result in tables.items() if of_size == size]
                    points = np.array(
                        [result[row].mean(axis=0) / result["iid"].mean(axis=0) for result in found]
                    )
                    name = row.removesuffix(" + antithetic")
                    style = look(
                        "low discrepancy" if row == "Halton" else name,
                        line=False,
                        is_open=size != "d",
                    )
                    ax.plot(points[:, 0], points[:, 2], label=f"{name}, m = {size}", **style)
            ax.axhline(1, color=GREY, linewidth=1, linestyle="--", zorder=1)
            ax.set_title(f"{kind.capitalize()} features")
            ax.set_xlabel("kernel error / independent")
        axes[0].set_ylabel("KL(exact || features) / independent")
        legend_below(sheet, axes[0], columns=3)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    _uci.add_options(parser, repeats=5)
    add_figure_option(parser)
    options = parser.parse_args()

    print(
        f"{options.splits} splits, {options.repeats} ensembles a split; mean +- standard error "
        "over splits"
    )
    print(
        "kernel: RMSE of the test Gram matrix. reverse: KL(features || exact), nats. kl: KL(exact "
        "|| features), in"
    )
    print(
        "nats a test point. rmse, nll (joint, a test point): in the units of the targets. After "
        "kl, rmse, nll: the"
    )
    print(
        "published figure and the difference in combined standard errors; after rmse: divided by "
        "that of iid"
    )
    print(_uci.NOTES)
    results: dict[str, dict[tuple[str, str], dict[str, np.ndarray]]] = {kind: {} for kind in ROWS}
    for kind in ROWS:
        found = {
            name: measure(name, kind, options.splits, options.repeats, options.seed, options.first)
            for name in options.sets
        }
        results[kind] = {(size, name): found[name][size] for size in SIZES for name in options.sets}
        for size in SIZES:
            print(
                "\n"
                f"{kind} features, m = "
                f"{size}{'' if kind == 'fourier' else ' and as many opposites'}"
            )
            for name in options.sets:
                print_rows(kind, size, name, results[kind][size, name])
    for kind in ROWS:
        print_comparison(kind, results[kind])
    if options.out:
        draw(results, options.out)


if __name__ == "__main__":
    main()
