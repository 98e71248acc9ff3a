"""Does graphrf have R-INLA's and Stan's posterior for lip cancer, and do its intervals hold?

    python benchmarks/published/lip_cancer.py [--folds 8]

Poisson counts of 56 districts with expected counts as exposure, a constant, a tenth of the
percentage of people in agriculture, fishing or forestry, and a BYM2 field. Priors of the Stan case
study: coefficients N(0, 25), mixing beta(1/2, 1/2); its sd is half-normal, that of R-INLA a
truncated normal of the log precision, ours a wide log-normal (median 0.5, factor 30), and the
second row has all defaults.

No risk is known, so coverage is that of counts, each predicted from the 55 others: the probability
integral transform of a count is uniform between P(Y < y) and P(Y <= y), and the share of that
interval within the central 50, 80 and 95 % is averaged. `loo()` takes it from the approximation of
one fit; the last row fits again without each of 8 folds of districts.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
from _table import LEVELS, Shares, Spent, covered_counts, loaded, row, start, within
from scipy.stats import poisson

import graphrf as grf
from graphrf.gp import LatentGaussianModel, Nodes
from graphrf.gp.terms import BetaPrior

INLA = "R-INLA: -0.2216 (0.1265), 0.3707 (0.1320)"
STAN = "Stan: -0.217 (0.129), 0.365 (0.134), mixing 0.878"
PRIOR = {"sd": (0.5, 30.0), "mixing": BetaPrior(0.5, 0.5)}


def districts() -> tuple[grf.Graph, pd.DataFrame]:
    """The graph, and a row for each district."""
    data = loaded("scottish-lip-cancer")
    columns = {"y": data.targets, "e": data.extra["expected"], "x": 0.1 * data.extra["outdoor"]}
    return data.graph, pd.DataFrame(columns).assign(district=np.arange(56))


def model(graph: grf.Graph, defaults: bool = False) -> LatentGaussianModel:
    """BYM2 with the priors of the case study, or with the default ones."""
    field = Nodes(graph, grf.BYM2(), by="district", **({} if defaults else {"prior": PRIOR}))
    settings = {} if defaults else {"coefficient_deviation": 5.0}
    return LatentGaussianModel("y ~ 1 + x", field, "poisson", exposure="e", seed=0, **settings)


def moments(fitted: LatentGaussianModel) -> str:
    """Intercept, slope and mixing."""
    table = fitted.summary()
    pairs = [f"{mean:.4f} ({sd:.4f})" for mean, sd in table[["mean", "sd"]].to_numpy()[:2]]
    return f"{pairs[0]}, {pairs[1]}, mixing {table['mean'].filter(like='mixing').item():.3f}"


def held_out(graph: grf.Graph, frame: pd.DataFrame, n_folds: int) -> Shares:
    """Coverage where each fold of districts is predicted by a fit without it."""
    bounds = []
    for fold in np.array_split(np.random.default_rng(0).permutation(len(frame)), n_folds):
        out = frame.iloc[fold]
        rates = (
            model(graph).fit(frame.drop(index=out.index)).sample(out, 4000, seed=0)
            * out["e"].to_numpy()
        )
        y = out["y"].to_numpy()
        bounds.append([poisson.cdf(y - below, rates).mean(axis=0) for below in (1, 0)])
    low, high = np.concatenate(bounds, axis=1)
    return tuple(within(low, high, level) for level in LEVELS)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--folds", type=int, default=8, help="of districts, each left out of a fit; 0: none"
    )
    options = parser.parse_args()
    graph, frame = districts()
    start(
        "Scotland: intercept (sd), slope (sd); coverage of 56 counts left out one by one", "pandas"
    )
    for name, published in (("priors of the case study", f"{INLA}; {STAN}"), ("defaults", "")):
        with Spent() as spent:
            fitted = model(graph, defaults=name == "defaults").fit(frame)
            held = covered_counts(fitted)
        row(f"BYM2, {name}", published, moments(fitted), held, spent)
    if options.folds:
        with Spent() as spent:
            held = held_out(graph, frame, options.folds)
        row(f"the first, {options.folds} folds held out", "", "", held, spent)


if __name__ == "__main__":
    main()
