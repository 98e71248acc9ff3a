"""Do latent Gaussian models have the posterior of long Markov chains?

    python benchmarks/terms_chains.py                    # about 40 minutes on one core
    python benchmarks/terms_chains.py --steps 2000

Poisson counts of areas through years (BYM2 and a random walk), and binomial counts of groups within
areas, with the priors of the defaults but for coefficients. Chains move all variables and
hyperparameters: elliptical slices of the variables in coordinates in which they are independent a
priori (Murray, Adams and MacKay 2010), and Metropolis steps of the hyperparameters with these
coordinates held fixed (Murray and Adams 2010). Printed for linear predictors and coefficients: the
error of the mean in the chains' deviations (root mean square and largest), the ratio of deviations
(smallest and largest), and the largest split R-hat and smallest effective sample size of the
chains.

Measured: see docs/terms.md.
"""

from __future__ import annotations

import argparse
import time

import networkx as nx
import numpy as np
import pandas as pd
from _machine import header
from likelihood_chains import diagnostics

import graphrf as grf
from graphrf.gp import Groups, LatentGaussianModel, Nodes, Steps
from graphrf.gp.latent.exploration import Search

GRAPH = grf.load_graph(nx.convert_node_labels_to_integers(nx.grid_2d_graph(5, 5)))
CHAINS = 4
# Elliptical slices for each step of the hyperparameters.
SLICES = 15


def poisson() -> tuple[LatentGaussianModel, pd.DataFrame]:
    """Areas through years, with two expected cases in a row."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"area": np.repeat(np.arange(25), 6), "year": np.tile(np.arange(6), 25)})
    frame["x"] = rng.standard_normal(len(frame))
    eta = 0.5 * np.sin(frame["area"] / 4) + 0.1 * frame["year"] + 0.3 * frame["x"]
    frame["y"] = rng.poisson(2 * np.exp(eta))
    terms = [Nodes(GRAPH, grf.BYM2(), by="area"), Steps("year", "rw1")]
    return LatentGaussianModel(
        "y ~ 1 + x", terms, "poisson", coefficient_deviation=1.0, seed=0
    ), frame


def binomial() -> tuple[LatentGaussianModel, pd.DataFrame]:
    """Groups within areas, with one to eleven trials in a row."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"area": np.repeat(np.arange(25), 4), "group": np.arange(100) % 12})
    frame["x"], frame["n"] = rng.standard_normal(100), rng.integers(1, 12, 100)
    effects = 0.5 * rng.standard_normal(12)
    eta = 0.6 * np.sin(frame["area"] / 4) + effects[frame["group"]] + 0.4 * frame["x"]
    frame["y"] = rng.binomial(frame["n"], 1 / (1 + np.exp(-eta)))
    terms = [Nodes(GRAPH, grf.BYM2(), by="area"), Groups("group")]
    model = LatentGaussianModel(
        "y ~ 1 + x", terms, "binomial", trials="n", coefficient_deviation=1.0, seed=0
    )
    return model, frame


def chain(model: LatentGaussianModel, steps: int, seed: int) -> np.ndarray:
    """Draws of linear predictors and coefficients, shape (steps, rows + coefficients)."""
    joint, data, rng = model._joint, model._data, np.random.default_rng([seed, 5])
    search, root = Search(joint, data, flat=False), np.eye(joint.n)
    vectors, shares = model._sample
    spread = np.cov(vectors.T, aweights=shares).reshape(vectors.shape[1], -1)
    proposal = 2.4 / vectors.shape[1] ** 0.5 * np.linalg.cholesky(spread)
    rows = np.vstack([joint.a.toarray(), root[-len(model._design.names) :]])

    def maps(vector: np.ndarray) -> np.ndarray:
        """Linear predictors and coefficients as a function of independent coordinates."""
        prior = joint.prior(vector)
        return rows @ joint.posterior(prior, np.zeros(data.offset.size)).draws(root)

    def fits(values: np.ndarray) -> float:
        return float(
            data.likelihood.log_density(data.y, values[: data.offset.size] + data.offset).sum()
        )

    at = vectors[rng.choice(len(shares), p=shares)]
    own, w = maps(at), rng.standard_normal(joint.n)
    values, result = own @ w, np.empty((steps, len(rows)))
    level, low_prior, box = (
        fits(values),
        search.coordinates.log_prior(at)[0],
        search.coordinates.box,
    )
    for step in range(-steps // 5, steps):
        there = at + proposal @ rng.standard_normal(at.size)
        if ((box[:, 0] < there) & (there < box[:, 1])).all():
            other, prior = maps(there), search.coordinates.log_prior(there)[0]
            moved = other @ w
            fit = fits(moved)
            if np.log(rng.random()) < fit + prior - level - low_prior:
                at, own, values, level, low_prior = there, other, moved, fit, prior
        for _ in range(SLICES):
            other_w = rng.standard_normal(joint.n)
            aside, least = own @ other_w, level + np.log(rng.random())
            angle = rng.uniform(0, 2 * np.pi)
            low, high = angle - 2 * np.pi, angle
            while True:
                moved = values * np.cos(angle) + aside * np.sin(angle)
                fit = fits(moved)
                if fit > least:
                    break
                low, high = (angle, high) if angle < 0 else (low, angle)
                angle = rng.uniform(low, high)
            w, values, level = w * np.cos(angle) + other_w * np.sin(angle), moved, fit
        if step >= 0:
            result[step] = values
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=20_000)
    options = parser.parse_args()
    print(header("scipy"))
    for make in (poisson, binomial):
        model, frame = make()
        model.fit(frame)
        draws = np.stack([chain(model, options.steps, seed) for seed in range(CHAINS)], axis=2)
        rhat, size = diagnostics(draws)
        mean, std = model.predict(frame, return_std=True, latent=True)
        table = model.coefficients_
        mean, std = np.append(mean, table["mean"]), np.append(std, table["sd"])
        truth, deviation = draws.mean(axis=(0, 2)), draws.std(axis=(0, 2))
        error, ratio = (mean - truth) / deviation, std / deviation
        print(
            f"{make.__name__:10} mean {np.sqrt(np.mean(error**2)):.3f} (largest "
            f"{np.abs(error).max():.3f})  deviations {ratio.min():.3f} to {ratio.max():.3f}  R-hat "
            f"{rhat:.3f}, {size:,.0f} draws, {time.process_time():.0f} CPU s",
            flush=True,
        )


if __name__ == "__main__":
    main()
