"""Do 95 % intervals of latent Gaussian models hold for draws from their priors?

    python benchmarks/terms_calibration.py                       # 100 replicates of each model
    python benchmarks/terms_calibration.py --replicates 20 --models areas-years

Six models: Poisson counts of areas by years (BYM2, a random walk, and their interaction of type
IV); binomial counts of groups within areas; counts along streets (order 2); counts with an
autoregression of fields; a random walk of second order with gaps; and values with normal noise. For
each the share of 95 % intervals that hold the truth: of the linear predictor at the observations,
of the terms' effects, of the coefficients, and of the linear predictor in years that are forecast.
The standard error of a share over R replicates is at most that of R independent intervals; over
many levels it is smaller.

Measured: see docs/terms.md.
"""

from __future__ import annotations

import argparse
import time
import warnings

import networkx as nx
import numpy as np
import pandas as pd
import scipy.sparse as sp
from _machine import header

import graphrf as grf
from graphrf.gp import Field, Groups, LatentGaussianModel, MetricGraph, Nodes, Steps
from graphrf.gp.likelihoods.real import NormalNoise
from graphrf.gp.model.likelihoods import LIKELIHOODS
from graphrf.gp.search.coordinates import Parameter
from graphrf.gp.terms.joint import Joint, JointPrecision
from graphrf.gp.terms.step_structures import FLAT
from graphrf.gp.terms.term import BoundTerm

# The deviation of the coefficients' prior.
DEVIATION = 0.5
GRAPH = grf.load_graph(nx.convert_node_labels_to_integers(nx.grid_2d_graph(5, 5)))
STREETS = MetricGraph(
    *np.array(nx.convert_node_labels_to_integers(nx.grid_2d_graph(4, 4)).edges()).T, np.ones(24)
)


def crossed(years: int) -> pd.DataFrame:
    """All areas in all years."""
    frame = pd.DataFrame(
        {"area": np.repeat(np.arange(25), years), "year": np.tile(np.arange(years), 25)}
    )
    return frame.assign(
        group=np.arange(len(frame)) % 12, x=np.random.default_rng(1).standard_normal(len(frame))
    )


def along(n: int) -> pd.DataFrame:
    """Places anywhere on the streets."""
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(
        {"edge": rng.integers(0, 24, n), "distance": rng.random(n).round(3), "year": 0}
    )
    return frame.assign(x=rng.standard_normal(n))


MODELS = {
    "areas-years": (
        lambda: [
            Nodes(GRAPH, grf.BYM2(), by="area"),
            Steps("year", "rw1"),
            Nodes(GRAPH, grf.ICAR(), by="area") * Steps("year", "rw1"),
        ],
        "poisson",
        crossed(8),
        2,
    ),
    "groups-areas": (
        lambda: [Nodes(GRAPH, grf.BYM2(), by="area"), Groups("group")],
        "binomial",
        crossed(4),
        0,
    ),
    "streets": (lambda: [Field(STREETS, alpha=2)], "poisson", along(150), 0),
    "fields-ar1": (
        lambda: [Nodes(GRAPH, grf.Matern(nu=2.0), by="area") * Steps("year", "ar1")],
        "poisson",
        crossed(8),
        2,
    ),
    "rw2-gaps": (
        lambda: [Steps("year", "rw2"), Groups("group")],
        "poisson",
        crossed(16).query("year not in (4, 5, 9)").reset_index(drop=True),
        2,
    ),
    "normal": (
        lambda: [Nodes(GRAPH, grf.CAR(), by="area"), Steps("year", "matern")],
        "gaussian",
        crossed(8),
        2,
    ),
}


def drawn(parameter: Parameter, rng: np.random.Generator) -> float:
    """A coordinate from the parameter's prior."""
    ends = parameter.coordinate(parameter.low), parameter.coordinate(parameter.high)
    x = np.linspace(*ends, 4_001)
    mass = np.cumsum(np.exp([parameter.log_prior(own)[0] for own in x]))
    return float(np.interp(rng.random() * mass[-1], mass, x))


def prior_of_draw(joint: Joint, rng: np.random.Generator) -> JointPrecision:
    """The prior of drawn hyperparameters, of those for which it is not singular."""
    while True:
        vector = np.array([drawn(own, rng) for own in joint.parameters])
        try:
            return joint.prior(vector)
        except np.linalg.LinAlgError:
            continue


def replicate(name: str, seed: int) -> dict[str, tuple[int, int]]:
    """How many intervals hold, of how many, by what they are of."""
    make, kind, frame, ahead = MODELS[name]
    terms, rng = make(), np.random.default_rng([seed, 11])
    bound = [BoundTerm.of(term, frame, number, 1.0) for number, term in enumerate(terms)]
    design = np.column_stack([np.ones(len(frame)), frame["x"]])
    a = sp.csr_array(sp.hstack([*(own.rows(frame) for own in bound), sp.csr_array(design)]))
    joint = Joint(bound, np.full(2, DEVIATION), [a])
    for own in bound:
        if own.structure.flat is not None:  # draws of a flat prior would be absurd
            own.structure.flat = own.structure.flat * FLAT**2
    prior = prior_of_draw(joint, rng)
    z = joint.posterior(prior, np.zeros(len(frame))).draws(rng.standard_normal((joint.n, 1)))[:, 0]
    eta = a @ z
    trials = rng.integers(1, 12, len(frame))
    likelihood = NormalNoise(0.3) if kind == "gaussian" else LIKELIHOODS[kind]()
    if kind == "binomial":
        y = rng.binomial(trials, 1 / (1 + np.exp(-eta)))
    else:
        y = likelihood.sample(eta, rng)
    seen = frame["year"] <= frame["year"].max() - ahead
    data = frame.assign(y=np.minimum(y, 1e9), trials=trials)
    model = LatentGaussianModel(
        "y ~ 1 + x",
        terms,
        likelihood,
        trials="trials" if kind == "binomial" else None,
        coefficient_deviation=DEVIATION,
        seed=seed,
    )
    model.fit(data[seen])
    found: dict[str, tuple[int, int]] = {}

    def count(what: str, low: np.ndarray, high: np.ndarray, truth: np.ndarray) -> None:
        found[what] = int(((low <= truth) & (truth <= high)).sum()), truth.size

    count(
        "observed", *model.predict(data[seen], quantiles=(0.025, 0.975), latent=True).T, eta[seen]
    )
    if ahead:
        count(
            "forecast",
            *model.predict(data[~seen], quantiles=(0.025, 0.975), latent=True).T,
            eta[~seen],
        )
    table, first = model.coefficients_, 1 if ahead else 0
    # with years ahead a random walk of the truth sums
    # to zero over other years, so that levels differ
    count(
        "coefficients",
        table["0.025"].to_numpy()[first:],
        table["0.975"].to_numpy()[first:],
        z[-2:][first:],
    )
    if not ahead:
        effects = model.effects(0)
        truth = bound[0].level_rows() @ z[: bound[0].structure.size]
        count("effects", effects["0.025"].to_numpy(), effects["0.975"].to_numpy(), truth)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--replicates", type=int, default=100)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    options = parser.parse_args()
    print(header("scipy"))
    for name in options.models:
        totals: dict[str, list[float]] = {}
        started, warned = time.process_time(), 0
        for seed in range(options.replicates):
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                for what, (held, of) in replicate(name, seed).items():
                    totals.setdefault(what, []).append(held / of)
            warned += bool(said)
        shares = "  ".join(
            f"{what} {np.mean(own):.3f} ({np.std(own) / len(own) ** 0.5:.3f})"
            for what, own in totals.items()
        )
        each = (time.process_time() - started) / options.replicates
        print(f"{name:14}{shares}  {each:.1f} CPU s each, {warned} with a warning", flush=True)


if __name__ == "__main__":
    main()
