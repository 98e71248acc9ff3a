"""Sudden infant deaths in North Carolina: relative risks by BYM2, and a covariate.

The counts of 1974 to 1978 and the counties' borders are in libpysal (its built-in example `sids2`,
after Cressie 1991, "Statistics for Spatial Data", pp. 386-389). Counties that share a border are
joined. Expected deaths are births times the rate of the whole state. Printed are the posteriors of
coefficients and hyperparameters without and with the share of non-white births; the coefficient and
leave-one-out densities by other areal kernels; and the coefficients of transformed rates, which
that book analyses without Anson County.

    pip install 'graphrf[areal,terms]'
    python examples/disease_mapping.py --out disease_mapping.png
"""

from __future__ import annotations

import argparse
import math
from typing import Any, NamedTuple

import geopandas
import numpy as np
import pandas as pd
from _figures import figure
from _options import add_figure_option
from libpysal.examples import get_path

import graphrf as grf
from graphrf.gp import LatentGaussianModel, Nodes
from graphrf.plot import plot_areas

KERNELS = {"BYM2": grf.BYM2, "Leroux": grf.Leroux, "ICAR": grf.ICAR, "CAR": grf.CAR}
# Of the maps: the deaths over those expected, from half to twice as many.
RATIOS = (0.5, 2.0)


class Counties(NamedTuple):
    """The map, the graph of borders, and a row of counts and covariates for each county."""

    table: Any
    graph: grf.Graph
    frame: pd.DataFrame


def read() -> Counties:
    """The counties of libpysal."""
    table = geopandas.read_file(get_path("sids2.shp")).set_index("NAME")
    rate = table.SID74.sum() / table.BIR74.sum()
    columns = {
        "deaths": table.SID74,
        "expected": rate * table.BIR74,
        "nonwhite": table.NWBIR74 / table.BIR74,
    }
    return Counties(
        table, grf.load_graph(table), pd.DataFrame(columns).rename_axis("county").reset_index()
    )


def fitted(counties: Counties, kernel: str, covariate: bool) -> LatentGaussianModel:
    """Log relative risks of all counties."""
    formula = "deaths ~ 1 + nonwhite" if covariate else "deaths ~ 1"
    field = Nodes(counties.graph, KERNELS[kernel](), by="county")
    return LatentGaussianModel(formula, field, "poisson", exposure="expected", seed=0).fit(
        counties.frame
    )


def freeman_tukey(counts: Any, births: Any) -> Any:
    """Rates in a thousand whose noise has the variance 1000 / births."""
    return math.sqrt(1000) * (np.sqrt(counts / births) + np.sqrt((counts + 1) / births))


def transformed(counties: Counties) -> grf.GraphGPRegressor:
    """Transformed rates with normal noise and a proper autoregression, without the outlier."""
    table = counties.table
    kept = np.flatnonzero(table.index != "Anson")
    y = freeman_tukey(table.SID74, table.BIR74).iloc[kept]
    x = freeman_tukey(table.NWBIR74, table.BIR74).iloc[kept]
    gp = grf.GraphGPRegressor(
        counties.graph,
        kernel="car",
        noise=1000 / table.BIR74.iloc[kept],
        numerics=grf.gp.Numerics(normalize=False),
        hyperparameters="mode",
        seed=0,
    )
    return gp.fit(y, x=x.rename("nonwhite"))


def draw(
    counties: Counties, plain: LatentGaussianModel, explained: LatentGaussianModel, path: str
) -> None:
    """Four maps: raw ratios, risks without and with the covariate, probabilities."""
    ratios = (counties.frame.deaths / counties.frame.expected).to_numpy()
    risks: dict[str, Any] = {"norm": "log", "limits": RATIOS, "label": "relative risk"}
    chances: dict[str, Any] = {"limits": (0.0, 1.0), "label": "probability of a risk above 1"}
    maps = [
        ("deaths over expected deaths", ratios, risks | {"label": "ratio"}),
        ("relative risk", plain.predict(), risks),
        ("relative risk, with the share of non-white births", explained.predict(), risks),
        ("raised risks", explained.probability(above=1.0), chances),
    ]
    with figure(path, height=5.2) as sheet:
        for ax, (title, values, look) in zip(sheet.subplots(2, 2).flat, maps, strict=True):
            plot_areas(counties.table, values, ax=ax, **look)
            ax.set_title(title)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_figure_option(parser)
    options = parser.parse_args()
    counties = read()
    plain, explained = fitted(counties, "BYM2", False), fitted(counties, "BYM2", True)
    for title, model in (
        ("without a covariate", plain),
        ("with the share of non-white births", explained),
    ):
        print(f"BYM2 {title}: log predictive densities {model.loo().total:.1f}")
        print(model.summary().round(3), end="\n\n")
    print("the coefficient of non-white births by kernel")
    for kernel in KERNELS:
        model = fitted(counties, kernel, True)
        mean, sd = model.coefficients_.loc["nonwhite", ["mean", "sd"]]
        print(
            f"{kernel:8}{mean:8.2f} +- {sd:.2f}   log predictive densities {model.loo().total:.1f}"
        )
    print("\ntransformed rates, normal noise, proper autoregression")
    print(transformed(counties).coefficients_)
    if options.out:
        draw(counties, plain, explained, options.out)


if __name__ == "__main__":
    main()
