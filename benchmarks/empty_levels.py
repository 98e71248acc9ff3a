"""Which prior of a level without events keeps intervals of its rate honest?

Levels of a factor have effects from a normal distribution of deviation 1, 2 or 4 around a common
level; counts or binary rows are drawn. Of the draws in which exactly one level has no event, the
share whose true rate lies in the 95 % interval is printed, for deviations of the prior from 1.5 to
4. A prior that is too narrow fails where levels differ more than it says; one that is too wide puts
intervals of small levels below their rates.

Run: python benchmarks/empty_levels.py [--draws 60]
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
import pandas

from graphrf.gp import Groups, LatentGaussianModel
from graphrf.gp.latent import separation

N_LEVELS, N_ROWS = 6, 15
PRIORS = (1.5, 2.0, 2.5, 3.0, 4.0)


def drawn(
    rng: np.random.Generator, likelihood: str, spread: float
) -> tuple[pandas.DataFrame, np.ndarray, int]:
    """A data set with one level without events, the rates of all levels, and that level."""
    while True:
        rate = np.exp(
            rng.normal(0.0 if likelihood == "poisson" else -1.0, 0.5)
            + spread * rng.standard_normal(N_LEVELS)
        )
        mean = rate if likelihood == "poisson" else rate / (1 + rate)
        level = np.repeat(np.arange(N_LEVELS), N_ROWS)
        if likelihood == "poisson":
            y = rng.poisson(np.minimum(mean[level], 1e6))
        else:
            y = rng.binomial(1, mean[level])
        events = np.bincount(level, y, N_LEVELS)
        full = (
            np.bincount(level, 1 - y, N_LEVELS) if likelihood == "bernoulli" else np.ones(N_LEVELS)
        )
        if (events == 0).sum() == 1 and (full > 0).all():
            frame = pandas.DataFrame({"y": y, "level": level, "group": rng.integers(0, 5, y.size)})
            return frame, mean, int(np.argmin(events))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=60)
    draws = parser.parse_args().draws
    print("likelihood  spread  " + "".join(f"{prior:8.1f}" for prior in PRIORS))
    for likelihood in ("poisson", "bernoulli"):
        for spread in (1.0, 2.0, 4.0):
            held = np.zeros(len(PRIORS))
            for seed in range(draws):
                frame, mean, empty = drawn(
                    np.random.default_rng([seed, len(likelihood)]), likelihood, spread
                )
                there = pandas.DataFrame({"level": [empty], "group": [0]})
                for place, prior in enumerate(PRIORS):
                    separation.DEVIATION = prior
                    model = LatentGaussianModel("y ~ C(level)", Groups("group"), likelihood, seed=0)
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        model.set_params(hyperparameters="mode").fit(frame)
                    low, high = model.predict(there, quantiles=(0.025, 0.975))[0]
                    held[place] += low <= mean[empty] <= high
            print(
                f"{likelihood:10}  {spread:6.1f}  "
                + "".join(f"{share:8.3f}" for share in held / draws),
                flush=True,
            )


if __name__ == "__main__":
    main()
