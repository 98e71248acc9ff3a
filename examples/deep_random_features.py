"""Deep random feature expansions against one layer and a sparse spectrum GP, two sets.

After Cutajar et al. 2017, "Random feature expansions for deep Gaussian processes": every layer is a
Gaussian process in weight space, random Fourier features of its inputs with a trained lengthscale
for each, and a linear map of them. The second layer sees the data beside the outputs of the first.
The posterior over the first linear map is variational (not MAP), a Gaussian with independent
entries; given that map, the last layer is a linear model, whose weights are integrated out exactly.
Adam maximises

    E_q(W1) log p(y | W1) - KL(q(W1) || p(W1)),

a lower bound of the evidence, with a draw of W1 at each step. (The paper has independent Gaussians
in the last layer too, and batches.) Frequencies stay as drawn, the paper's "prior-fixed" choice.

- deep: two layers;
- one layer: the same with one layer, where the bound is the evidence of a GP;
- SSGP: `SparseSpectrumGPRegressor`, the model of one layer with a grid of starts, L-BFGS and a
  trained constant.

Nine tenths of a set are for training, in random splits. The number of frequencies is chosen in each
split by the log density of a tenth of the training data, after which the model is trained on all of
them. Width, steps and rate were set beforehand and are not tuned, so differences between models
hold their training too.

    python examples/deep_random_features.py --out deep_random_features.png
    python examples/deep_random_features.py --sets airfoil --splits 2 --steps 50 --first 200
"""

from __future__ import annotations

import argparse
import math
from typing import NamedTuple, Protocol

import numpy as np
import torch
from _figures import figure
from _options import add_figure_option
from scipy.special import logsumexp
from torch import Tensor, nn

from graphrf import datasets
from graphrf.euclidean.gp.sparse_spectrum import SparseSpectrumGPRegressor
from graphrf.euclidean.gp.weight_space import FeatureSums, PrimalPosterior, evidence_by_sums
from graphrf.euclidean.modules import FourierModule
from graphrf.plot import COLOURS

SETS = {"concrete": "uci-concrete", "airfoil": "uci-airfoil"}
# What validation chooses from; the GP with exact gradients can afford more.
FREQUENCIES = {"SSGP": (50, 100, 200), "one layer": (50, 100), "deep": (50, 100)}
HIDDEN = 4
_LOG_TWO_PI = math.log(2 * math.pi)


class Scores(NamedTuple):
    """Root mean square error in units of y, and mean negative log predictive density."""

    rmse: float
    nlpd: float


class Model(Protocol):
    """What is compared: trained on standardised data, it has a mixture for each point."""

    def fit(self, x: np.ndarray, y: np.ndarray) -> Model: ...

    def mixture(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of observations, each of shape (components, q)."""
        ...


class Hidden(nn.Module):
    """f(x) = sqrt(s) phi(x / l) W, with Gaussian posteriors of W and priors N(0, 1)."""

    def __init__(self, inputs: int, outputs: int, n_frequencies: int, seed: int) -> None:
        super().__init__()
        self.features = FourierModule(
            inputs, n_frequencies, lengthscale=np.full(inputs, inputs**0.5), seed=seed
        )
        self.log_scale = nn.Parameter(torch.zeros(()))
        self.mean = nn.Parameter(0.1 * torch.randn(2 * n_frequencies, outputs))
        self.log_deviation = nn.Parameter(torch.full((2 * n_frequencies, outputs), -2.0))

    def draw(self) -> Tensor:
        """Weights from the posterior."""
        return self.mean + self.log_deviation.exp() * torch.randn_like(self.mean)

    def values(self, x: Tensor, weights: Tensor) -> Tensor:
        return (0.5 * self.log_scale).exp() * self.features(x) @ weights

    def divergence(self) -> Tensor:
        """KL of the posterior from the prior."""
        square = (2 * self.log_deviation).exp()
        return 0.5 * (square + self.mean.square() - 1 - 2 * self.log_deviation).sum()


class Expansion:
    """One layer or two of random features, and Gaussian noise."""

    def __init__(self, depth: int, n_frequencies: int, steps: int, seed: int) -> None:
        self.depth, self.n_frequencies, self.steps, self.seed = depth, n_frequencies, steps, seed

    def fit(self, x: np.ndarray, y: np.ndarray) -> Expansion:
        torch.manual_seed(self.seed)
        d = x.shape[1]
        width = d + HIDDEN * (self.depth - 1)
        self.hidden = [
            Hidden(d, HIDDEN, self.n_frequencies, self.seed).double() for _ in range(self.depth - 1)
        ]
        self.last = FourierModule(
            width, self.n_frequencies, lengthscale=np.full(width, width**0.5), seed=self.seed + 1
        ).double()
        self.log_scale, self.log_noise = (
            torch.tensor(math.log(value), dtype=torch.float64, requires_grad=True)
            for value in (1.0, 0.1)
        )
        self._x, self._sides = torch.tensor(x), torch.tensor(np.column_stack([np.ones(len(y)), y]))
        parts = [
            parameter for module in [*self.hidden, self.last] for parameter in module.parameters()
        ]
        optimiser = torch.optim.Adam([*parts, self.log_scale, self.log_noise], lr=0.05)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, self.steps)
        for _ in range(self.steps):
            optimiser.zero_grad()
            loss = -self.bound() / len(y)
            loss.backward()
            optimiser.step()
            schedule.step()
        return self

    def bound(self) -> Tensor:
        """An unbiased estimate of the lower bound of the evidence."""
        value = evidence_by_sums(
            self._sums(self._draw()), self.log_scale.exp(), self.log_noise.exp(), False
        )
        return value - sum(layer.divergence() for layer in self.hidden)

    def mixture(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        torch.manual_seed(self.seed)
        scale, noise = self.log_scale.exp(), self.log_noise.exp()
        parts = []
        with torch.no_grad():
            for _ in range(30 if self.hidden else 1):
                weights = self._draw()
                posterior = PrimalPosterior(self._sums(weights), scale, noise, False)
                phi = self._features(torch.tensor(x), weights)
                parts.append(((phi @ posterior.weights)[:, 0], posterior.variances(phi) + noise))
        means, variances = (torch.stack(each).numpy() for each in zip(*parts, strict=True))
        return means, variances

    def _draw(self) -> list[Tensor]:
        return [layer.draw() for layer in self.hidden]

    def _features(self, x: Tensor, weights: list[Tensor]) -> Tensor:
        """Of the last layer, for known weights of the hidden one."""
        values = [layer.values(x, each) for layer, each in zip(self.hidden, weights, strict=True)]
        return self.last(torch.cat([x, *values], -1))

    def _sums(self, weights: list[Tensor]) -> FeatureSums:
        features, sides = self._features(self._x, weights), self._sides
        return FeatureSums(features.T @ features, features.T @ sides, sides.T @ sides, len(self._x))


class SparseSpectrum:
    """SSGP with frequencies as drawn."""

    def __init__(self, n_frequencies: int, seed: int) -> None:
        self._gp = SparseSpectrumGPRegressor(n_frequencies, seed=seed)

    def fit(self, x: np.ndarray, y: np.ndarray) -> SparseSpectrum:
        self._gp.fit(x, y)
        return self

    def mixture(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, std = self._gp.predict(x, return_std="observation")
        return mean[None], std[None] ** 2


def make(name: str, n_frequencies: int, steps: int, seed: int) -> Model:
    """A model by its name."""
    if name == "SSGP":
        return SparseSpectrum(n_frequencies, seed)
    return Expansion(2 if name == "deep" else 1, n_frequencies, steps, seed)


def score(model: Model, x: np.ndarray, y: np.ndarray) -> Scores:
    """In the units of the model."""
    means, variances = model.mixture(x)
    logs = -0.5 * ((y - means) ** 2 / variances + np.log(variances) + _LOG_TWO_PI)
    nlpd = -(logsumexp(logs, axis=0) - math.log(len(logs))).mean()
    return Scores(float(np.sqrt(np.mean((means.mean(0) - y) ** 2))), float(nlpd))


def evaluate(name: str, x: np.ndarray, y: np.ndarray, steps: int, seed: int) -> tuple[Scores, int]:
    """Scores on one split's test points, and the number of frequencies chosen without them."""
    order = np.random.default_rng(seed).permutation(len(y))
    test, train = np.split(order, [len(y) // 10])
    centre, deviation = x[train].mean(0), x[train].std(0)
    x = (x - centre) / np.where(deviation > 0, deviation, 1)
    unit = float(y[train].std())
    y = (y - y[train].mean()) / unit
    held, rest = np.split(train, [len(train) // 10])
    chosen = min(
        FREQUENCIES[name],
        key=lambda m: (
            score(make(name, m, steps, seed).fit(x[rest], y[rest]), x[held], y[held]).nlpd
        ),
    )
    scores = score(make(name, chosen, steps, seed).fit(x[train], y[train]), x[test], y[test])
    return Scores(unit * scores.rmse, scores.nlpd + math.log(unit)), chosen


def mean_and_error(values: np.ndarray) -> tuple[float, float]:
    """Mean and its standard error."""
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values)))


def draw(results: dict[str, dict[str, np.ndarray]], path: str) -> None:
    """Both scores of every model, a dot a split and a bar of one standard error."""
    with figure(path, height=2.7 * len(results)) as sheet:
        axes = sheet.subplots(len(results), 2, squeeze=False)
        for row, (name, by_model) in zip(axes, results.items(), strict=True):
            for column, (ax, label) in enumerate(
                zip(row, ("root mean square error", "negative log density"), strict=True)
            ):
                for number, (scores, colour) in enumerate(
                    zip(by_model.values(), COLOURS, strict=False)
                ):
                    mean, error = mean_and_error(scores[:, column])
                    offsets = number + np.linspace(-0.12, 0.12, len(scores))
                    ax.plot(offsets, scores[:, column], ".", color=colour, alpha=0.6)
                    ax.errorbar(number + 0.3, mean, error, fmt="os^"[number], color=colour)
                ax.set_xticks(range(len(by_model)), list(by_model))
                ax.set_xlim(-0.5, len(by_model) - 0.3)
                ax.grid(visible=False, axis="x")
                ax.set_title(name)
                ax.set_ylabel(label)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS), metavar="NAME")
    parser.add_argument("--splits", type=int, default=5, help="random splits, at least 2")
    parser.add_argument("--steps", type=int, default=200, help="of Adam")
    parser.add_argument(
        "--first", type=int, metavar="N", help="only the first N rows of a set, after shuffling"
    )
    parser.add_argument("--seed", type=int, default=100)
    add_figure_option(parser)
    options = parser.parse_args()
    if options.splits < 2:
        parser.error("--splits must be at least 2, for a standard error")

    print(
        "test scores, mean +- standard error over splits; m: frequencies chosen on validation "
        "data, each split"
    )
    print(f"{'set':<10} {'model':<10} {'RMSE':>16} {'NLPD':>16}  m")
    results: dict[str, dict[str, np.ndarray]] = {}
    for name in options.sets:
        data = datasets.load(SETS[name])
        x, y = (
            np.asarray(data.features, dtype=np.float64),
            np.asarray(data.targets, dtype=np.float64),
        )
        kept = np.random.default_rng(options.seed).permutation(len(y))[: options.first]
        results[name] = {}
        for model in FREQUENCIES:
            runs = [
                evaluate(model, x[kept], y[kept], options.steps, options.seed + number)
                for number in range(options.splits)
            ]
            scores = np.array([each for each, _ in runs])
            results[name][model] = scores
            cells = "".join(
                " {:>7.3f} +- {:.3f}".format(*mean_and_error(column)) for column in scores.T
            )
            print(f"{name:<10} {model:<10}{cells}  {' '.join(str(m) for _, m in runs)}", flush=True)
    if options.out:
        draw(results, options.out)


if __name__ == "__main__":
    main()
