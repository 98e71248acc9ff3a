"""Counts on a graph: time, memory, coverage and scores, and those of GPyTorch's variational GP.

    python benchmarks/likelihoods.py roads [--nodes 100000] python benchmarks/likelihoods.py
    variational [--nodes 2000] [--inducing 1000 200] python benchmarks/likelihoods.py coverage
    [--draws 40] [--observed 70] [--hyperparameters average]

`roads`: Poisson counts at all nodes of a grid without three tenths of its edges, exposures of 0.5
to 3, log rates from a Matern kernel of nu 1 with lengthscale 5; hyperparameters are trained, and
deviations taken at all nodes.

`variational`: as many nodes, half of them observed, the rest scored by the log predictive
probabilities of their counts. The rival has GPyTorch's full-rank whitened variational distribution
at the observed nodes, or at some of them, the same kernel matrix with the hyperparameters that
graphrf found (so that it has nothing to train but the distribution and the constant), the Poisson
likelihood, and Adam with steps of 0.05 until 40 of them raise its bound by less than 5e-4 for each
observation. Agreement with dense Newton steps and calibration over draws of the prior are tests,
long Markov chains are benchmarks/likelihood_chains.py.

`coverage`: the share of f in its intervals with all defaults, where mixing, output scale, constant
and the likelihood's parameters are drawn from their stated priors; BYM2 on 100 districts, 70 of
them observed.

Measured on 2 cores that many others used, so that only processor time says something: 99,856 nodes
took 22 s of processor time with hyperparameters and deviations, 0.5 GiB; 1,000,000 nodes 50 s (209
s by the clock), 1.8 GiB; its hyperparameters are those of a part of the graph; 95 % intervals hold
0.945 of f. `variational`, one thread: graphrf 0.6 s with its hyperparameters, log score 1.5530;
GPyTorch for the distribution alone 58 s with all 968 observed nodes as inducing ones (116 steps),
log score 1.5530, and 6.7 s with 200 of them, log score 1.5673.

`coverage`, 100 draws: 95 % intervals hold 0.950 to 0.967 of f at observed districts and 0.941 to
0.961 at the others.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from _machine import header, peak_gib
from scipy.spatial import Delaunay
from scipy.special import expit

import graphrf as grf
from graphrf.gp.model.likelihoods import LIKELIHOODS

# Adam's rate, and when the bound has settled: so
# little a rise in so many steps, for each observation.
_RATE, _WINDOW, _SETTLED = 0.05, 40, 5e-4


def road_like(n: int, rng: np.random.Generator) -> grf.Graph:
    """A square grid of about n nodes without three tenths of its edges."""
    side = int(n**0.5)
    index = np.arange(side * side).reshape(side, side)
    pairs = [(index[:, :-1].ravel(), index[:, 1:].ravel()), (index[:-1].ravel(), index[1:].ravel())]
    first, second = (np.concatenate(ends) for ends in zip(*pairs, strict=True))
    kept = rng.random(first.size) < 0.7
    edges = sp.coo_array(
        (np.ones(int(kept.sum())), (first[kept], second[kept])), shape=(side * side,) * 2
    )
    return grf.Graph((edges + edges.T).tocsr())


def counts(graph: grf.Graph, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log rates, exposures and counts at all nodes."""
    f = grf.apply_root(
        graph, grf.Matern(nu=1.0, lengthscale=5.0), rng.standard_normal(graph.n_nodes)
    )
    f = 0.7 * f / f.std() - 0.5
    exposure = rng.uniform(0.5, 3.0, graph.n_nodes)
    return f, exposure, rng.poisson(exposure * np.exp(f)).astype(float)


def roads(n: int) -> None:
    """Fit, and deviations at all nodes."""
    rng = np.random.default_rng(0)
    graph = road_like(n, rng)
    f, exposure, y = counts(graph, rng)
    began, cpu = time.perf_counter(), time.process_time()
    gp = grf.GraphGPRegressor(
        graph, kernel=grf.Matern(nu=1.0), likelihood="poisson", method="precision", seed=0
    ).fit(np.arange(graph.n_nodes), y, exposure=exposure)
    fitted = time.perf_counter() - began
    mean, std = gp.predict(latent=True, return_std=True)
    whole, cpu = time.perf_counter() - began, time.process_time() - cpu
    print(
        f"{graph.n_nodes:9,} nodes: fit {fitted:.0f} s, with deviations {whole:.0f} s ({cpu:.0f} s "
        f"of processor time), {peak_gib():.1f} GiB, {gp.kernel_!r}, converged {gp.converged_}, 95 "
        f"% intervals hold {np.mean(np.abs(mean - f) < 1.96 * std):.3f} of f"
    )


def variational(n: int, inducing: list[int]) -> None:
    """graphrf's fit, and GPyTorch's variational posterior for its kernel."""
    import torch

    rng = np.random.default_rng(0)
    graph = road_like(n, rng)
    _, exposure, y = counts(graph, rng)
    order = rng.permutation(graph.n_nodes)
    seen, kept = np.sort(order[::2]), np.sort(order[1::2])
    for _ in range(2):  # the first compiles
        began, cpu = time.perf_counter(), time.process_time()
        gp = grf.GraphGPRegressor(graph, kernel=grf.Matern(nu=1.0), likelihood="poisson", seed=0)
        gp.fit(seen, y[seen], exposure=exposure[seen])
        score = -gp.log_density(kept, y[kept], exposure=exposure[kept]).mean()
        mine, own_cpu = time.perf_counter() - began, time.process_time() - cpu
    print(
        f"graphrf, hyperparameters trained, method {gp.method_!r}: {mine:.1f} s ({own_cpu:.1f} s "
        f"of processor time), log score {score:.4f}",
        flush=True,
    )
    covariance = torch.as_tensor(gp.prior_covariance() + 1e-6 * np.eye(graph.n_nodes))
    for size in inducing:
        at = np.sort(rng.choice(seen, min(size, seen.size), replace=False))
        _rival(gp, covariance, at, seen, kept, y, exposure, own_cpu)


def _rival(
    gp: grf.GraphGPRegressor,
    covariance: Any,
    inducing: np.ndarray,
    seen: np.ndarray,
    kept: np.ndarray,
    y: np.ndarray,
    exposure: np.ndarray,
    own_cpu: float,
) -> None:
    """GPyTorch's variational distribution, trained until its bound settles."""
    import gpytorch
    import linear_operator
    import torch

    class Field(gpytorch.models.ApproximateGP):
        def __init__(self) -> None:
            distribution = gpytorch.variational.CholeskyVariationalDistribution(inducing.size)
            super().__init__(
                gpytorch.variational.VariationalStrategy(
                    self,
                    torch.as_tensor(inducing)[:, None].double(),
                    distribution,
                    learn_inducing_locations=False,
                )
            )
            self.mean = gpytorch.means.ConstantMean()

        def forward(self, x: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
            at = x[..., 0].round().long()
            block = linear_operator.to_linear_operator(covariance[at][:, at])
            return gpytorch.distributions.MultivariateNormal(self.mean(x), block)

    began, cpu = time.perf_counter(), time.process_time()
    model = Field().double()
    with torch.no_grad():
        model.mean.constant.fill_(float(np.log(y[seen].sum() / exposure[seen].sum())))
    places = torch.as_tensor(seen)[:, None].double()
    target, factor = torch.as_tensor(y[seen]), torch.as_tensor(exposure[seen])
    optimizer = torch.optim.Adam(model.parameters(), lr=_RATE)
    bounds: list[float] = []
    while len(bounds) < 2 * _WINDOW or min(bounds[:-_WINDOW]) - min(bounds) > _SETTLED * seen.size:
        optimizer.zero_grad()
        q = model(places)
        # E[log p(y | f)] of Poisson counts in closed form
        expected = target * (q.mean + factor.log()) - factor * torch.exp(q.mean + 0.5 * q.variance)
        loss = model.variational_strategy.kl_divergence() - expected.sum()
        loss.backward()
        optimizer.step()
        bounds.append(float(loss.detach()))
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    with torch.no_grad():
        model.eval()
        law = model(torch.as_tensor(kept)[:, None].double())
        own = _marginal_score(gp, (law.mean.numpy(), law.variance.numpy()), y[kept], exposure[kept])
    print(
        f"GPyTorch, {inducing.size} inducing nodes, {len(bounds)} steps: {seconds:.1f} s "
        f"({cpu:.1f} s of processor time, {cpu / own_cpu:.0f} times), "
        f"{1e3 * cpu / len(bounds):.0f} ms a step, bound {-bounds[-1]:.2f}, log score {own:.4f}",
        flush=True,
    )


def districts(seed: int) -> grf.Graph:
    """The Delaunay triangulation of 100 random places."""
    places = np.random.default_rng([seed, 9]).random((100, 2))
    corners = Delaunay(places).simplices
    pairs = np.unique(
        np.sort(np.vstack([corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [0, 2]]])), axis=0
    )
    edges = sp.coo_array((np.ones(len(pairs)), tuple(pairs.T)), shape=(100, 100))
    return grf.Graph((edges + edges.T).tocsr())


def coverage(n_draws: int, n: int, hyperparameters: str) -> None:
    """The share of f in 95 % and 50 % intervals for hyperparameters drawn from priors."""
    prior = grf.gp.HyperparameterPrior()
    print(
        "likelihood          95 %, 50 % at observed nodes   at the others   seconds of processor "
        "time"
    )
    for name, kind in LIKELIHOODS.items():
        held = []
        for seed in range(n_draws):
            rng = np.random.default_rng([seed, 11])
            graph = districts(seed)
            mixing = expit(
                np.log(prior.mixing[0]) + np.log(prior.mixing[1]) * rng.standard_normal()
            )
            covariance = grf.BYM2(mixing).dense(graph) / np.mean(
                np.diag(grf.BYM2(mixing).dense(graph))
            )
            scale = prior.output_scale[0] * prior.output_scale[1] ** rng.standard_normal()
            root = np.linalg.cholesky(covariance + 1e-10 * np.eye(100))
            f = np.sqrt(scale) * root @ rng.standard_normal(100) + 3 * rng.standard_normal()
            if "poisson" in name or "negative" in name:
                exposure = np.exp(rng.standard_normal(100))
            else:
                exposure = None
            likelihood = kind()
            known = {
                own: min(
                    likelihood.priors[own][0] * likelihood.priors[own][1] ** rng.standard_normal(),
                    likelihood.ranges[own][1],
                )
                for own in likelihood.unknown
            }
            rates = f if exposure is None else f + np.log(exposure)
            if name == "binomial":
                y = rng.binomial(10, expit(f))
            else:
                y = likelihood.replace(**known).sample(rates, rng)
            nodes = rng.permutation(100)[:n]
            extra = {} if exposure is None else {"exposure": exposure[nodes]}
            extra |= {"trials": 10} if name == "binomial" else {}
            began = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of lengthscales at the end of the search
                gp = grf.GraphGPRegressor(
                    graph,
                    kernel="bym2",
                    likelihood=name,
                    hyperparameters=hyperparameters,
                    seed=seed,
                )
                gp.fit(nodes, y[nodes], **extra)
            began = time.process_time() - began
            low, first, third, high = gp.predict(
                latent=True, quantiles=(0.025, 0.25, 0.75, 0.975)
            ).T
            wide, narrow = (low < f) & (f < high), (first < f) & (f < third)
            own = [wide[nodes], narrow[nodes], np.delete(wide, nodes), np.delete(narrow, nodes)]
            held.append([*(inside.mean() for inside in own), began])
        mean, error = np.mean(held, axis=0), np.std(held, axis=0) / n_draws**0.5
        print(
            f"{name:18} {mean[0]:.3f} +- {error[0]:.3f}, {mean[1]:.3f}   {mean[2]:.3f} +- "
            f"{error[2]:.3f}, {mean[3]:.3f}   {mean[4]:.2f}",
            flush=True,
        )


def _marginal_score(
    gp: grf.GraphGPRegressor,
    law: tuple[np.ndarray, np.ndarray],
    y: np.ndarray,
    exposure: np.ndarray,
) -> float:
    """The log score of normal marginals of the log rate."""
    from graphrf.gp.posterior.marginals import Marginals

    own = Marginals(*law, gp.likelihood_)
    return float(-own.log_density(y, np.log(exposure)).mean())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("roads", "variational", "coverage"))
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--inducing", type=int, nargs="+", default=[1000, 200])
    parser.add_argument("--draws", type=int, default=40)
    parser.add_argument("--observed", type=int, default=70)
    parser.add_argument("--hyperparameters", choices=("average", "mode"), default="average")
    args = parser.parse_args()
    print(header())
    if args.what == "roads":
        roads(args.nodes or 100_000)
    elif args.what == "variational":
        variational(args.nodes or 2_000, args.inducing)
    else:
        coverage(args.draws, args.observed, args.hyperparameters)


if __name__ == "__main__":
    main()
