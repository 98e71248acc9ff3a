"""Does graphrf find sdmTMB's likelihood maximum for Ohio, and do its intervals hold?

    GRAPHRF_DATA_DIR=... python benchmarks/published/ohio_lung.py

Deaths in 88 counties in 1968, 1978 and 1988: a CAR field of the counties and one for each year with
the same dependence, effects of the years and of the share of men, all by maximum likelihood with
Laplace's approximation. The data are in no registry of graphrf (they are made from an R package):
without them the script skips. Coverage is of the 264 counts, each given all others, as in
`lip_cancer.py`; the second row averages over hyperparameters with the default priors.
"""

from __future__ import annotations

import json

import pandas as pd
from _table import Spent, areal_file, covered_counts, row, start

import graphrf as grf
from graphrf.gp import Groups, LatentGaussianModel, Nodes

COUNTS = ("ohio_lung.csv", "e3192238e36c5cd088f46af970489e352e09654f2035ea2f12392abd99b92627")
BORDERS = (
    "ohio_neighbours.json",
    "754a58245443b951a988a473cff68aa8c7eaba6bed185617afbc335660e4f8f7",
)
SDMTMB = "log likelihood -825.199, dependence 0.597, sd 0.465 and 0.145"


def main() -> None:
    frame = pd.read_csv(areal_file(*COUNTS))
    borders = json.loads(areal_file(*BORDERS).read_text(encoding="utf-8"))
    graph = grf.load_graph(
        [(borders["counties"][a], borders["counties"][b]) for a, b in borders["edges"]]
    )
    field = Nodes(graph, grf.CAR(), by="county")
    start("Ohio: maximum likelihood; coverage of 264 counts left out one by one", "pandas")
    for name, published, settings in (
        ("maximum likelihood", f"sdmTMB: {SDMTMB}", {"hyperparameters": "mode", "prior": None}),
        ("averaged over hyperparameters", "", {}),
    ):
        with Spent() as spent:
            fitted = LatentGaussianModel(
                "cases ~ 0 + C(year) + pct_male",
                [field, field * Groups("year")],
                "poisson",
                exposure="pop",
                seed=0,
                **settings,
            ).fit(frame)
            held = covered_counts(fitted)
        dependence, first, second = fitted.summary()["mean"].iloc[-3:]
        likelihood = f"log likelihood {fitted.log_marginal_likelihood_:.3f}, " if published else ""
        here = f"{likelihood}dependence {dependence:.3f}, sd {first:.3f} and {second:.3f}"
        row(f"CAR, {name}", published, here, held, spent)


if __name__ == "__main__":
    main()
