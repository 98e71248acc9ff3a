"""Expectation propagation, by which graphrf approximates posteriors, beside long Markov chains.

    python benchmarks/likelihood_chains.py [--graphs san-jose cora-connected mesh-idler-riser]
    [--observed 30 300]

On three real graphs f is drawn from a Matern prior (nu 1, lengthscale 3, variance 1, constant 0.5),
observations from each likelihood at 30 and at 300 nodes, and a model with a Matern kernel is
fitted. At its hyperparameters 16 chains of Hamiltonian Monte Carlo in the coordinates of the
approximation draw the latent values at the observed nodes, where all that is not normal is; at 300
other nodes f given these is normal. "rhat" is the largest split R-hat over observed nodes, "ess"
the smallest effective sample size (both as Vehtari et al. 2021 without ranks), "bernoulli-3" has a
prior variance of 9, and "poisson-0" exposures of 0.1, where most counts are 0.

Columns, over observed and other nodes together: the error of the mean of f in the chains'
deviations (root mean square, largest), the ratio of deviations (mean, smallest, largest), the error
of the expected observation in the chains' deviations of it, the probability that the chains give to
f outside 95 % intervals (below, above), and the log score of new observations at the other nodes
less that of the chains.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from _machine import header
from scipy.linalg import cho_factor, cho_solve, cholesky
from scipy.special import expit, logsumexp, ndtr

import graphrf as grf
from graphrf.gp.model.responses import checked_responses

CHAINS, DRAWS, BURN_IN = 16, 1500, 500
OTHERS = 300
GRAPHS = ["san-jose", "cora-connected", "mesh-idler-riser"]


class Case(NamedTuple):
    """A likelihood, how it is drawn, and the variance of f."""

    likelihood: str
    draw: Any
    variance: float = 1.0
    extra: Any = None


CASES = {
    "poisson": Case("poisson", lambda f, rng: rng.poisson(np.exp(f))),
    "poisson-0": Case(
        "poisson", lambda f, rng: rng.poisson(0.1 * np.exp(f)), 1.0, {"exposure": 0.1}
    ),
    "negative_binomial": Case(
        "negative_binomial", lambda f, rng: rng.poisson(np.exp(f) * rng.gamma(1 / 0.3, 0.3, f.size))
    ),
    "binomial": Case("binomial", lambda f, rng: rng.binomial(5, expit(f)), 1.0, {"trials": 5}),
    "bernoulli": Case("bernoulli", lambda f, rng: rng.binomial(1, expit(f))),
    "bernoulli-3": Case("bernoulli", lambda f, rng: rng.binomial(1, expit(f)), 9.0),
    "gamma": Case("gamma", lambda f, rng: rng.gamma(2.0, np.exp(f) / 2.0)),
    "student_t": Case("student_t", lambda f, rng: f + 0.3 * rng.standard_t(4.0, f.size)),
}


class Target:
    """The posterior of latent values at observed nodes, in normal coordinates."""

    def __init__(
        self, likelihood: Any, y: np.ndarray, offset: np.ndarray, prior: np.ndarray, law: Any
    ) -> None:
        self._likelihood, self._y, self._offset = likelihood, y[..., None], offset[:, None]
        self.mean, covariance = law
        self.root = cholesky(covariance, lower=True)
        factor = cho_factor(prior, lower=True)
        self._weights = cho_solve(factor, self.mean)[:, None]
        self._by_root = cho_solve(factor, self.root)

    def latent(self, z: np.ndarray) -> np.ndarray:
        """f, shape (m, chains)."""
        return np.asarray(self.mean[:, None] + self.root @ z)

    def __call__(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The log density of each column, and its gradient."""
        f, weights = self.latent(z), self._weights + self._by_root @ z
        eta = f + self._offset
        with np.errstate(over="ignore", invalid="ignore"):
            value = self._likelihood.log_density(self._y, eta).sum(axis=0) - 0.5 * (
                f * weights
            ).sum(axis=0)
            after, before = (
                self._likelihood.log_density(self._y, eta + sign * 1e-5) for sign in (1, -1)
            )
            return value, self.root.T @ ((after - before) / 2e-5 - weights)


def hamiltonian(target: Target, size: int, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """Draws of z, shape (draws, size, chains), by Hamiltonian Monte Carlo, and acceptance."""
    z = 1.5 * rng.standard_normal((size, CHAINS))
    value, slope = target(z)
    step, kept, accepted = 0.3, np.empty((DRAWS, size, CHAINS)), []
    for iteration in range(-BURN_IN, DRAWS):
        momentum = rng.standard_normal(z.shape)
        length = step * rng.uniform(0.7, 1.3)  # of all chains, and not of where they are
        there, p, (now, bent) = z, momentum, (value, slope)
        for _ in range(max(1, round(1.6 / step))):
            p = p + 0.5 * length * bent
            there = there + length * p
            now, bent = target(there)
            p = p + 0.5 * length * bent
        log_ratio = now - value - 0.5 * (np.square(p) - np.square(momentum)).sum(axis=0)
        log_ratio = np.where(np.isfinite(log_ratio), log_ratio, -np.inf)
        taken = np.log(rng.random(CHAINS)) < log_ratio
        z, value, slope = (
            np.where(taken, there, z),
            np.where(taken, now, value),
            np.where(taken, bent, slope),
        )
        share = float(np.exp(np.minimum(log_ratio, 0.0)).mean())
        if iteration < 0:
            step = float(np.clip(step * np.exp(0.1 * (share - 0.85)), 0.02, 0.6))
        else:
            kept[iteration] = z
            accepted.append(share)
    return kept, float(np.mean(accepted))


def diagnostics(draws: np.ndarray) -> tuple[float, float]:
    """The largest split R-hat and smallest effective sample size of (draws, size, chains)."""
    half = draws.shape[0] // 2
    split = np.concatenate([draws[:half], draws[half : 2 * half]], axis=2)
    n, _, chains = split.shape
    own = split.var(axis=0, ddof=1).mean(axis=1)
    between = split.mean(axis=0).var(axis=1, ddof=1)
    whole = (n - 1) / n * own + between
    spectrum = np.fft.rfft(split - split.mean(axis=0), 2 * n, axis=0)
    lagged = np.fft.irfft(np.square(np.abs(spectrum)).mean(axis=2), axis=0)[:n] / n
    rho = 1 - (own - lagged) / whole
    pairs = rho[: n // 2 * 2].reshape(n // 2, 2, -1).sum(axis=1)
    positive = np.cumprod(pairs > 0, axis=0)
    monotone = np.minimum.accumulate(pairs, axis=0) * positive
    tau = np.maximum(2 * monotone.sum(axis=0) - 1, 1 / np.log10(n * chains))
    return float(np.sqrt(whole / own).max()), float((n * chains / tau).min())


def compare(graph: grf.Graph, name: str, case: Case, n: int, seed: int) -> None:
    """One row."""
    rng = np.random.default_rng([seed, n, list(CASES).index(name)])
    kernel = grf.Matern(nu=1.0, lengthscale=3.0)
    f = grf.apply_root(graph, kernel, rng.standard_normal(graph.n_nodes))
    f = 0.5 + np.sqrt(case.variance) * f / f.std()
    chosen = rng.permutation(graph.n_nodes)
    nodes, others = np.sort(chosen[:n]), np.sort(chosen[n : n + OTHERS])
    y, extra = case.draw(f, rng), case.extra or {}
    settings = {
        "method": "series",
        "numerics": grf.gp.Numerics(solver="cholesky", std_method="exact"),
        "seed": 0,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of ends of the search
        gp = grf.GraphGPRegressor(
            graph,
            kernel=grf.Matern(nu=1.0),
            likelihood=case.likelihood,
            hyperparameters="mode",
            **settings,
        )
        gp.fit(nodes, y[nodes], **extra)
    likelihood, given = gp.likelihood_, gp._fitted
    middle, spread = given.offset[0], given.mean_precision**-0.5
    every = np.concatenate([nodes, others])
    prior = gp.prior_covariance(every) + spread**2
    prior[np.diag_indices_from(prior)] *= 1 + 1e-9
    values, offset = checked_responses(
        likelihood, n, y[nodes], extra.get("exposure"), extra.get("trials")
    )
    mean, covariance = gp.predict(nodes, latent=True, return_cov=True)
    target = Target(likelihood, values, offset + middle, prior[:n, :n], (mean - middle, covariance))
    began = time.process_time()
    z, accepted = hamiltonian(target, n, rng)
    rhat, ess = diagnostics(z)
    seconds = time.process_time() - began

    draws = target.latent(np.moveaxis(z, 1, 0).reshape(n, -1))
    predictor = cho_solve(cho_factor(prior[:n, :n], lower=True), prior[:n, n:]).T
    rest = np.maximum(np.diagonal(prior)[n:] - np.einsum("ij,ji->i", predictor, prior[:n, n:]), 0.0)
    at_others = predictor @ draws
    spreads = np.concatenate([np.zeros(n), rest])[:, None]
    chain = np.concatenate([draws, at_others]) + middle
    true_mean, true_std = chain.mean(axis=1), np.sqrt(chain.var(axis=1) + spreads[:, 0])
    some = chain[:, :: max(1, chain.shape[1] // 4000)]
    drawn = some + np.sqrt(spreads) * rng.standard_normal(some.shape)
    rate = likelihood.mean(drawn)
    new, own = checked_responses(
        likelihood, OTHERS, y[others], extra.get("exposure"), extra.get("trials")
    )
    densities = likelihood.log_density(new[..., None], drawn[n:] + own[:, None])
    score = -float((logsumexp(densities, axis=1) - np.log(some.shape[1])).mean())

    print(
        f"{name:17} {n:4} {gp.kernel_.lengthscale:6.2f} {gp.output_scale_:6.2f} | {rhat:.3f} "
        f"{ess:6.0f} {accepted:.2f} {seconds:4.0f} s",
        end="",
    )
    at = gp.predict(every, latent=True, return_std=True)
    z_error, ratio = (at[0] - true_mean) / true_std, at[1] / true_std
    rate_error = (gp.predict(every) - rate.mean(axis=1)) / rate.std(axis=1)
    low, high = (at[0][:, None] + at[1][:, None] * np.array([-1.959964, 1.959964])).T
    std = np.sqrt(np.maximum(spreads, 1e-18))
    below, above = (
        ndtr((low[:, None] - some) / std).mean(),
        ndtr((some - high[:, None]) / std).mean(),
    )
    own_score = -float(gp.log_density(others, y[others], **extra).mean())
    print(
        f" | {rms(z_error):.3f} {np.abs(z_error).max():.2f}  "
        f"{ratio.mean():.2f} {ratio.min():.2f} {ratio.max():.2f}  {rms(rate_error):.3f} "
        f" {below:.3f} {above:.3f}  {own_score - score:+.4f}",
        flush=True,
    )


def rms(values: np.ndarray) -> float:
    """The root mean square."""
    return float(np.sqrt(np.mean(np.square(values))))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--graphs", nargs="+", default=GRAPHS)
    parser.add_argument("--observed", type=int, nargs="+", default=[30, 300])
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    args = parser.parse_args()
    print(header())
    for name in args.graphs:
        graph = grf.datasets.load(name).graph
        print(f"\n{name}, {graph.n_nodes:,} nodes")
        print(
            "likelihood           n length  scale |  rhat    ess acc    CPU | mean: rms max  "
            "std: mean min max  rate   below above  score"
        )
        for n in args.observed:
            for case in args.cases:
                compare(graph, case, CASES[case], n, (*GRAPHS, name).index(name))


if __name__ == "__main__":
    main()
