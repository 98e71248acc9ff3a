"""Speeds in San Jose with GPyTorch: a kernel trained by Adam, and free coefficients.

`GRFKernel` is a kernel as any other of GPyTorch's: here ScaleKernel, a constant mean and
GaussianLikelihood around it, in an ExactGP. "diffusion" trains the lengthscale, "learned" every
coefficient f_0 .. f_L of F = sum_k f_k W^k. Both take the exact series (`GRFKernel(graph,
kernel)`). Beside them `GraphGPRegressor`, which trains the diffusion kernel by L-BFGS from several
starts.

For random splits of the 325 sensors into 250 to train and 75 to test: root mean square error in
miles per hour, negative log predictive density per sensor, the share of speeds within the 95 %
intervals, the trained kernel's log marginal likelihood per observation, and seconds; means over
splits.

    python examples/gpytorch_regression.py
    python examples/gpytorch_regression.py --splits 10 --steps 200 --out kernels.png
"""

from __future__ import annotations

import argparse
import time
from typing import NamedTuple

import numpy as np
from _figures import figure
from _options import add_figure_option

import graphrf as grf
from graphrf.gp import GRFKernel, metrics
from graphrf.plot import COLOURS, plot_reliability

import gpytorch  # isort: skip  # after graphrf, which keeps quiet what linear_operator's import warns of
import torch  # isort: skip

N_TRAIN = 250
FIRST = grf.Diffusion(4.0)
MODULATION_LENGTH = 32
# Eigenvalues of the normalised Laplacian.
FREQUENCIES = np.geomspace(1e-3, 2.0, 200)
# Of the intervals whose coverage is drawn.
LEVELS = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95])


class Outcome(NamedTuple):
    """What one fit predicts for the test sensors, in training units, and how it went."""

    mean: np.ndarray
    std: np.ndarray
    likelihood: float
    seconds: float
    spectrum: np.ndarray  # of the trained kernel at FREQUENCIES, 1 at the first


class Regression(gpytorch.models.ExactGP):
    """A constant mean and a scaled graph kernel."""

    def __init__(self, nodes: torch.Tensor, y: torch.Tensor, kernel: GRFKernel) -> None:
        super().__init__(nodes, y, gpytorch.likelihoods.GaussianLikelihood())
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(kernel)

    def forward(self, nodes: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(
            self.mean_module(nodes), self.covar_module(nodes)
        )


def by_gpytorch(
    kernel: GRFKernel, train: np.ndarray, y: np.ndarray, test: np.ndarray, steps: int, rate: float
) -> Outcome:
    """Train an ExactGP around the kernel by Adam and predict new observations."""
    started = time.perf_counter()
    nodes, values = torch.from_numpy(train)[:, None], torch.from_numpy(y)
    model = Regression(nodes, values, kernel).double()
    model.train()
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = -objective(model(nodes), values)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        predicted = model.likelihood(model(torch.from_numpy(test)[:, None]))
        mean, std = predicted.mean.numpy(), predicted.stddev.numpy()
    return Outcome(mean, std, -loss.item(), time.perf_counter() - started, spectrum(kernel.kernel))


def by_regressor(graph: grf.Graph, train: np.ndarray, y: np.ndarray, test: np.ndarray) -> Outcome:
    """The same model by `GraphGPRegressor`."""
    started = time.perf_counter()
    gp = grf.GraphGPRegressor(graph, kernel=FIRST, method="series", seed=0).fit(train, y)
    mean, std = gp.predict(test, return_std="observation")
    seconds = time.perf_counter() - started
    return Outcome(mean, std, gp.log_marginal_likelihood_ / y.size, seconds, spectrum(gp.kernel_))


def spectrum(kernel: grf.kernels.Kernel) -> np.ndarray:
    """Eigenvalues of the kernel, (sum_k f_k (1 - x)^k)^2 at those x of L; 1 at first."""
    modulation = kernel.modulation(kernel.truncation_length(1e-9) + 1)
    root = np.polynomial.polynomial.polyval(1 - FREQUENCIES, modulation / modulation.sum())
    return np.asarray((root / root[0]) ** 2)


def fits(
    graph: grf.Graph, train: np.ndarray, y: np.ndarray, test: np.ndarray, steps: int
) -> dict[str, Outcome]:
    """The rows of the table."""
    free = grf.kernels.LearnedModulation(
        MODULATION_LENGTH, tuple(FIRST.modulation(MODULATION_LENGTH + 1))
    )
    return {
        "gpytorch, diffusion": by_gpytorch(
            GRFKernel(graph, FIRST), train, y, test, steps, rate=0.1
        ),
        "gpytorch, learned": by_gpytorch(GRFKernel(graph, free), train, y, test, steps, rate=0.01),
        "regressor, diffusion": by_regressor(graph, train, y, test),
    }


def draw(coverage: dict[str, np.ndarray], spectra: dict[str, np.ndarray], path: str) -> None:
    """How many speeds fall within intervals, over all splits, and the first kernels."""
    with figure(path, height=4.0) as sheet:
        left, right = sheet.subplots(1, 2)
        plot_reliability(
            {name: np.column_stack([LEVELS, shares]) for name, shares in coverage.items()},
            ax=left,
            xlabel="probability of the interval",
            ylabel="coverage of test sensors",
        )
        left.set_title("intervals of the predictions")
        for number, (name, values) in enumerate(spectra.items()):
            right.plot(
                FREQUENCIES,
                values,
                ("-", "--", ":")[number],
                color=COLOURS[number],
                linewidth=2,
                label=name,
            )
        right.set_xscale("log")
        right.set_title("trained kernels")
        right.set_xlabel("eigenvalue of the normalised Laplacian")
        right.set_ylabel("eigenvalue of the kernel / the largest")
        right.legend()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--splits", type=int, default=2, help="random splits (default 2)")
    parser.add_argument("--steps", type=int, default=40, help="of Adam (default 40)")
    add_figure_option(parser)
    options = parser.parse_args()
    # Many products of a fraction of a millisecond: threads would wait for each other.
    torch.set_num_threads(1)
    data = grf.datasets.load("san-jose")
    sensors, speeds = np.asarray(data.target_nodes), np.asarray(data.targets, dtype=np.float64)
    scores: dict[str, list[tuple[float, ...]]] = {}
    coverage: dict[str, np.ndarray] = {}
    spectra: dict[str, np.ndarray] = {}
    for split in range(options.splits):
        order = np.random.default_rng(split).permutation(sensors.size)
        train, test = order[:N_TRAIN], order[N_TRAIN:]
        centre, spread = speeds[train].mean(), speeds[train].std()
        y = (speeds[train] - centre) / spread
        outcomes = fits(data.graph, sensors[train], y, sensors[test], options.steps)
        for name, outcome in outcomes.items():
            mean, std = centre + spread * outcome.mean, spread * outcome.std
            within = np.array(
                [metrics.coverage(speeds[test], mean, std, level=level) for level in LEVELS]
            )
            coverage[name] = coverage.get(name, 0.0) + within / options.splits
            spectra.setdefault(name, outcome.spectrum)
            scores.setdefault(name, []).append(
                (
                    metrics.rmse(speeds[test], mean),
                    metrics.nlpd(speeds[test], mean, std),
                    100 * metrics.coverage(speeds[test], mean, std),
                    outcome.likelihood,
                    outcome.seconds,
                )
            )
    print(
        f"san-jose: {N_TRAIN} of {sensors.size} sensors, {options.splits} splits, {options.steps} "
        "steps of Adam"
    )
    print(f"{'':22s} {'RMSE':>7s} {'NLPD':>7s} {'% in':>6s} {'log lik':>8s} {'seconds':>8s}")
    for name, rows in scores.items():
        error, density, inside, likelihood, seconds = np.mean(rows, axis=0)
        print(
            f"{name:22s} {error:7.2f} {density:7.3f} {inside:6.1f} {likelihood:8.4f} {seconds:8.1f}"
        )
    if options.out:
        draw(coverage, spectra, options.out)


if __name__ == "__main__":
    main()
