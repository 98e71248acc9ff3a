"""Do 95 % intervals hold where a group has few binary or ordinal rows, for draws from priors?

    python benchmarks/binary_groups.py                          # 100 draws of each of four models
    python benchmarks/binary_groups.py --draws 20 --groups 300

Bernoulli rows and rows of four ordered levels, 2 and 5 a group, with one covariate: y ~ 1 + x and
independent groups. For each the share of intervals that hold the coefficient of x, the deviation of
the groups, and the likelihood's own parameters, and the mean rank of the true deviation among those
of the posterior, .5 if all is right. Laplace's evidence alone makes deviations of such groups too
small, and ranks too large.

Measured: see docs/terms.md.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import pandas as pd
from _machine import header
from terms_calibration import drawn

from graphrf.gp import Groups, LatentGaussianModel
from graphrf.gp.latent.data import Data
from graphrf.gp.likelihoods.likelihood import Likelihood
from graphrf.gp.likelihoods.ordinal import Ordinal
from graphrf.gp.likelihoods.proportions import Bernoulli
from graphrf.gp.terms.term import BoundTerm

# The deviation of the coefficients' prior.
DEVIATION = 1.0
MODELS: dict[str, Likelihood] = {"bernoulli": Bernoulli(), "ordinal": Ordinal(4)}


def replicate(
    likelihood: Likelihood, groups: int, rows: int, seed: int
) -> dict[str, tuple[bool, float]]:
    """Whether the interval of each quantity holds, and the rank of its true value, by name."""
    rng = np.random.default_rng([seed, rows])
    frame = pd.DataFrame(
        {"group": np.repeat(np.arange(groups), rows), "x": rng.standard_normal(groups * rows)}
    )
    term = Groups("group")
    nothing = np.zeros(len(frame))
    own = [
        *BoundTerm.of(term, frame, 0, likelihood.unit(nothing)).parameters,
        *Data(nothing, nothing, likelihood, likelihood.unit(nothing)).parameters(),
    ]
    truth = {each.name: each.value(drawn(each, rng)) for each in own}
    truth["x"] = DEVIATION * rng.standard_normal()
    effects = truth[own[0].name] * rng.standard_normal(groups)
    eta = (
        DEVIATION * rng.standard_normal()
        + truth["x"] * frame["x"].to_numpy()
        + effects[frame["group"]]
    )
    if likelihood.unknown:
        known = likelihood.replace(**{name: truth[name] for name in likelihood.unknown})
    else:
        known = likelihood
    frame["y"] = known.sample(eta, rng)
    model = LatentGaussianModel(
        "y ~ 1 + x", term, likelihood, coefficient_deviation=DEVIATION, seed=seed
    ).fit(frame)
    table, result = model.summary(), {}
    vectors, weights = model._sample
    for row, name in zip(table.index[1:], ["x", *(each.name for each in own)], strict=True):
        held = bool(table.loc[row, "0.025"] <= truth[name] <= table.loc[row, "0.975"])
        rank = np.nan
        if name != "x":
            k = [each.name for each in own].index(name)
            rank = float(weights @ (vectors[:, k] < own[k].coordinate(truth[name])))
        result[name] = held, rank
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--groups", type=int, default=200)
    options = parser.parse_args()
    print(header("scipy"))
    for name, likelihood in MODELS.items():
        for rows in (2, 5):
            started, found = time.process_time(), []
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = [
                    replicate(likelihood, options.groups, rows, seed)
                    for seed in range(options.draws)
                ]
            line = "  ".join(
                f"{key} {np.mean([each[key][0] for each in found]):.3f}" for key in found[0]
            )
            ranks = np.array([each["sd(group)"][1] for each in found])
            error = ranks.std() / len(ranks) ** 0.5
            seconds = (time.process_time() - started) / options.draws
            print(
                f"{name:10} {rows} rows a group: {line}  rank of sd {ranks.mean():.2f} "
                f"({error:.2f})  {len(found)} draws, {seconds:.1f} s each",
                flush=True,
            )


if __name__ == "__main__":
    main()
