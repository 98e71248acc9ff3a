"""Counts on a graph with GPyTorch: `GRFKernel` in an approximate Gaussian process.

`GRFKernel` is a kernel as any other of GPyTorch's, so that it goes into an ApproximateGP with any
of its likelihoods, or one of your own: here Poisson counts whose log rate is the latent function.
Its rows are sampled features; the inducing points are nodes, which stay where they are. Beside it
is `GraphGPRegressor(likelihood="poisson")`, which takes Newton steps.

The counts are drawn on a grid of 900 nodes, where the true rates are known. Printed are, for nodes
that were not observed, the root mean square error of the log rate, the mean log predictive density
of new counts, and seconds of processor time.

    python examples/gpytorch_counts.py
    python examples/gpytorch_counts.py --observed 450 --inducing 300 --steps 400
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import graphrf as grf
from graphrf.gp import GRFKernel, Poisson

import gpytorch  # isort: skip  # after graphrf, which keeps quiet what linear_operator's import warns of
import torch  # isort: skip

# The true log rates: a constant and a smooth function of this standard deviation.
LEVEL, DEVIATION = 1.0, 0.8
# Draws of the latent function for predictive densities.
DRAWS = 1_000


class PoissonLikelihood(gpytorch.likelihoods.likelihood._OneDimensionalLikelihood):
    """Counts with rate exp(f), whose expected log density GPyTorch finds by quadrature."""

    def forward(
        self, function_samples: torch.Tensor, *args: object, **kwargs: object
    ) -> torch.distributions.Poisson:
        return torch.distributions.Poisson(function_samples.exp())


class Counts(gpytorch.models.ApproximateGP):
    """A constant mean and a scaled graph kernel; any normal posterior of f at nodes."""

    def __init__(self, inducing: torch.Tensor, kernel: GRFKernel) -> None:
        law = gpytorch.variational.CholeskyVariationalDistribution(inducing.shape[0])
        strategy = gpytorch.variational.VariationalStrategy(
            self, inducing, law, learn_inducing_locations=False
        )
        super().__init__(strategy)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(kernel)

    def forward(self, nodes: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(
            self.mean_module(nodes), self.covar_module(nodes)
        )


def by_gpytorch(
    graph: grf.Graph,
    nodes: np.ndarray,
    y: np.ndarray,
    inducing: np.ndarray,
    test: np.ndarray,
    steps: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of the log rate at other nodes, by Adam on the lower bound."""
    torch.manual_seed(0)
    features = grf.sample_features(graph, grf.CompressedPowers(64, 32), seed=0, dtype="float64")
    kernel = GRFKernel(features, grf.Diffusion(3.0))
    places = torch.from_numpy(inducing)[:, None].double()
    model, likelihood = Counts(places, kernel).double(), PoissonLikelihood()
    seen, counts = torch.from_numpy(nodes)[:, None].double(), torch.from_numpy(y)
    bound = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=y.size)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = -bound(model(seen), counts)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        law = model(torch.from_numpy(test)[:, None].double())
    return law.mean.numpy(), law.stddev.numpy()


def by_newton(
    graph: grf.Graph, nodes: np.ndarray, y: np.ndarray, test: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The same by the regressor."""
    gp = grf.GraphGPRegressor(graph, kernel="diffusion", likelihood="poisson", seed=0)
    mean, std = gp.fit(nodes, y).predict(test, latent=True, return_std=True)
    return mean, std


def log_score(y: np.ndarray, mean: np.ndarray, std: np.ndarray, rng: np.random.Generator) -> float:
    """The mean log predictive density of counts, by draws of the log rate."""
    f = mean + std * rng.standard_normal((DRAWS, y.size))
    return float((np.logaddexp.reduce(Poisson().log_density(y, f), axis=0) - np.log(DRAWS)).mean())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--observed", type=int, default=300, help="nodes with a count (default 300)"
    )
    parser.add_argument("--inducing", type=int, default=100, help="inducing nodes (default 100)")
    parser.add_argument("--steps", type=int, default=100, help="steps of Adam (default 100)")
    options = parser.parse_args()
    torch.set_num_threads(1)  # many small products, for which threads would wait for each other
    graph = grf.datasets.load("generated-grid").graph
    rng = np.random.default_rng(0)
    f = grf.apply_root(graph, grf.Diffusion(6.0), rng.standard_normal(graph.n_nodes))
    f = LEVEL + DEVIATION * (f - f.mean()) / f.std()
    order = rng.permutation(graph.n_nodes)
    nodes, test = np.sort(order[: options.observed]), np.sort(order[options.observed :])
    counts = rng.poisson(np.exp(f)).astype(np.float64)
    inducing = np.sort(rng.choice(graph.n_nodes, options.inducing, replace=False))
    ways = {
        "GPyTorch, variational": lambda: by_gpytorch(
            graph, nodes, counts[nodes], inducing, test, options.steps
        ),
        "GraphGPRegressor, Newton": lambda: by_newton(graph, nodes, counts[nodes], test),
    }
    print(f"{'':28}{'error of log rate':>18}{'log score':>12}{'seconds':>10}")
    for name, way in ways.items():
        started = time.process_time()
        mean, std = way()
        seconds = time.process_time() - started
        error = float(np.sqrt(np.mean((mean - f[test]) ** 2)))
        print(
            f"{name:28}{error:18.3f}{log_score(counts[test], mean, std, rng):12.3f}{seconds:10.1f}"
        )


if __name__ == "__main__":
    main()
