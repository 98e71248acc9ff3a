"""What does a training step of GRFKernel on a graph cost in GPyTorch's exact GP, with terms kept
and by products?

A step is the marginal likelihood of the observations and its gradient in lengthscale, scale, mean
and noise, at another lengthscale each time. Both ways run in turn in every round, in one process;
processor time is printed beside the wall time, since other work on the machine lengthens the latter
alone. The first step with kept terms, which makes them, is a row of its own.

python benchmarks/gpytorch_step.py [--nodes 4941] [--observed 400] [--lengthscale 3] [--rounds 5]
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings

import numpy as np
import torch
from _machine import header

import graphrf as grf
from graphrf.gp import GRFKernel
from graphrf.gp.torch.device_factors import TorchSeriesFactor

# isort: split
# After graphrf, which imports linear_operator without a warning of torch's.
import gpytorch

KEPT = TorchSeriesFactor.gram


class Regression(gpytorch.models.ExactGP):
    def __init__(self, x: torch.Tensor, y: torch.Tensor, kernel: GRFKernel) -> None:
        super().__init__(x, y, gpytorch.likelihoods.GaussianLikelihood())
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(kernel)

    def forward(self, x: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def step(model: Regression, lengthscale: float) -> tuple[float, float, list[float]]:
    """Wall time, processor time, and the value with its gradient."""
    model.covar_module.base_kernel.lengthscale = lengthscale
    model.zero_grad()
    started = time.perf_counter(), time.process_time()
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    loss = -mll(model(*model.train_inputs), model.train_targets)
    loss.backward()
    seconds = time.perf_counter() - started[0], time.process_time() - started[1]
    return *seconds, [loss.item(), *(float(p.grad.sum()) for p in model.parameters())]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=4941)
    parser.add_argument("--observed", type=int, default=400)
    parser.add_argument("--lengthscale", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print(header("torch", "gpytorch"), f"torch threads {torch.get_num_threads()}", sep="; ")
    rng = np.random.default_rng(0)
    graph = grf.from_points(
        rng.random((options.nodes, 2)), n_neighbors=3
    )  # as sparse as a power grid
    x = torch.tensor(rng.choice(graph.n_nodes, options.observed, replace=False))[:, None]
    y = torch.tensor(rng.standard_normal(options.observed))
    model = Regression(x, y, GRFKernel(graph, grf.Diffusion(options.lengthscale))).double()
    TorchSeriesFactor.gram = lambda self, f: None  # type: ignore[method-assign]
    step(model, options.lengthscale)  # the mean variance of the graph, and what is compiled
    TorchSeriesFactor.gram = KEPT  # type: ignore[method-assign]
    first = step(model, options.lengthscale)
    before, after, apart = [], [], 0.0
    for number in range(options.rounds):
        lengthscale = options.lengthscale * 1.05**number
        TorchSeriesFactor.gram = lambda self, f: None  # type: ignore[method-assign]
        before.append(step(model, lengthscale))
        TorchSeriesFactor.gram = KEPT  # type: ignore[method-assign]
        after.append(step(model, lengthscale))
        pairs = zip(before[-1][2], after[-1][2], strict=True)
        apart = max(apart, *(abs(one - other) / max(abs(one), 1e-3) for one, other in pairs))
    print(f"{graph!r}, {options.observed} observed, {model.covar_module.base_kernel.kernel!r}")
    print(
        "| a step | wall time, ms: median (least) | processor time, ms: median (least) |\n"
        "|---|---|---|"
    )
    for name, found in (
        ("by products", before),
        ("first, making the terms", [first]),
        ("with kept terms", after),
    ):
        cells = [
            f"{1e3 * statistics.median(t):.1f} ({1e3 * min(t):.1f})"
            for t in list(zip(*found, strict=True))[:2]
        ]
        print(f"| {name} | {cells[0]} | {cells[1]} |")
    print(f"largest relative difference of values and gradients: {apart:.1g}")


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gpytorch.utils.warnings.GPInputWarning)
        main()
