"""Rates from counts: a Poisson likelihood on a mesh, of which a tenth of the faces were counted.

On the faces of a torus events happen at a rate exp(1 + z), z the z-component of the normal. Each of
400 faces was watched for a time of its own, its exposure; `GraphGPRegressor(likelihood="poisson")`
learns the rates of all faces from the counts. Printed is the error of the mean rate and the share
of faces whose rate lies within the 95 % interval.

    python examples/rates.py --out rates.png
"""

from __future__ import annotations

import argparse

import numpy as np
from _figures import figure
from _options import add_figure_option
from mean_and_deviation import filled

import graphrf as grf
from graphrf.plot import plot_mesh_posterior

COUNTED = 400


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0)
    add_figure_option(parser)
    options = parser.parse_args()
    data = grf.datasets.load("generated-torus")
    rng = np.random.default_rng(options.seed)
    n = data.graph.n_nodes
    rate = np.exp(1.0 + data.targets)
    seen = rng.permutation(n)[:COUNTED]
    exposure = rng.gamma(2.0, 1.0, COUNTED)
    counts = rng.poisson(exposure * rate[seen])
    gp = grf.GraphGPRegressor(
        data.graph, kernel="diffusion", likelihood="poisson", seed=options.seed
    )
    gp.fit(seen, counts, exposure=exposure)
    mean, std = gp.predict(return_std=True)
    low, high = gp.predict(quantiles=(0.025, 0.975)).T
    error = np.sqrt(np.mean((mean - rate) ** 2))
    print(f"{gp.kernel_}: {counts.sum()} events on {COUNTED} of {n} faces")
    print(
        f"RMSE of the rate {error:.3g} (of a constant: {rate.std():.3g}); within 95 %: "
        f"{np.mean((low < rate) & (rate < high)):.3f}"
    )
    if options.out:
        mesh, observed = data.extra, filled(n, seen, counts / exposure)
        with figure(options.out, height=7.0) as sheet:
            plot_mesh_posterior(
                mesh["vertices"],
                mesh["faces"],
                mean,
                std,
                truth=rate,
                observed=observed,
                figure=sheet,
                label="rate (events per unit of time)",
            )


if __name__ == "__main__":
    main()
