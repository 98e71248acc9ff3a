"""Cases by district and year, with gaps: rates, ranks, a forecast of cases, and rate ratios.

The map is that of the counties of North Carolina, which libpysal has (its example `sids2`), and
cases are simulated, so that answers can be compared with the truth. A district lacks three years,
and the last year is predicted. Printed are the model, the shares of true rates and of new
counts that lie in their 95 % intervals, the first ranks, the total of the next year, and the table
of rate ratios, also in LaTeX. Drawn are the rates of the last year with counts and their standard
deviations, and ranks. It takes about ten seconds. For a map and a table of your own, replace
`simulated`.

    pip install 'graphrf[areal,terms,plot]' jinja2
    python examples/disease_mapping.py --out disease_mapping.png
"""

from __future__ import annotations

import argparse
from typing import Any

import geopandas
import numpy as np
import pandas as pd
from _figures import figure
from _options import add_figure_option
from libpysal.examples import get_path

import graphrf as grf
from graphrf.gp import LatentGaussianModel, Nodes, Steps
from graphrf.plot import plot_map_posterior, plot_ranking

YEARS = range(2016, 2025)
INTERVAL = (0.025, 0.975)
INCOMPLETE = "Ashe"


def simulated(districts: Any) -> pd.DataFrame:
    """A row for each district and year, with the rate by which its cases were drawn."""
    rng, at = np.random.default_rng(0), districts.geometry.representative_point()
    n, years = len(districts), len(YEARS)
    pairs = pd.MultiIndex.from_product([districts.index, YEARS], names=["district", "year"])
    rows = pairs.to_frame(index=False)
    x, y, births = (np.repeat(each.to_numpy(), years) for each in (at.x, at.y, districts.BIR74))
    rows["people"] = 2 * births
    rows["poverty"] = (15 + 4 * np.sin(3 * y) + rng.normal(0, 3, n * years)).round(1)
    level, trend = 0.3 * np.sin(2 * x), 0.03 * np.cos(1.5 * x) * (rows["year"] - 2020)
    chance = np.repeat(rng.normal(0, 0.1, n), years)
    rows["rate"] = 0.005 * np.exp(level + trend + chance + 0.03 * (rows["poverty"] - 15))
    rows["cases"] = rng.poisson(rows["people"] * rows["rate"])
    return rows


def fitted(graph: grf.Graph, known: pd.DataFrame) -> LatentGaussianModel:
    """Levels of districts, years, and a trend of each district that is like its neighbours'."""
    time = Steps("year", "rw1")
    trends = Nodes(graph, grf.ICAR(), by="district") * time
    terms = [Nodes(graph, grf.BYM2(), by="district"), time, trends]
    model = LatentGaussianModel("cases ~ 1 + poverty", terms, "poisson", exposure="people", seed=0)
    return model.fit(known)


def draw(model: LatentGaussianModel, districts: Any, last: Any, ranks: Any, path: str) -> None:
    """Maps of rates and their standard deviations above ranks."""
    rates = 1e5 * model.predict(last, return_std=True, as_frame=True)
    with figure(path, height=6.4) as sheet:
        maps = sheet.add_gridspec(2, 2, height_ratios=(1.0, 1.7))
        axes = [sheet.add_subplot(maps[0, column]) for column in (0, 1)]
        label = "cases per 100,000"
        plot_map_posterior(districts, rates["mean"], rates["std"], ax=axes, label=label)
        plot_ranking(ranks, most=12, ax=sheet.add_subplot(maps[1, :]))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_figure_option(parser)
    options = parser.parse_args()
    districts = geopandas.read_file(get_path("sids2.shp")).set_index("NAME")
    rows = simulated(districts)
    lost = (rows["district"] == INCOMPLETE) & rows["year"].between(2018, 2020)
    known = rows[(rows["year"] < YEARS[-1]) & ~lost]
    model = fitted(grf.load_graph(districts), known)
    print(model)

    for name, part in {"known years": known, "lost years": rows[lost]}.items():
        rates = model.predict(part, quantiles=INTERVAL, as_frame=True)
        inside = part["rate"].between(rates["0.025"], rates["0.975"])
        print(f"{name}: {inside.mean():.2f} of {inside.size} true rates in the 95 % intervals")

    by_year = {year: own.set_index("district", drop=False) for year, own in rows.groupby("year")}
    last, ahead = by_year[YEARS[-2]], by_year[YEARS[-1]]
    ranks = model.ranks(last, top=5, seed=0)
    print(ranks.sort_values("0.5").head(5).round(2))

    cases = model.predict(ahead, return_std="observation", quantiles=INTERVAL, as_frame=True)
    inside = ahead["cases"].between(cases["0.025"], cases["0.975"])
    total = np.quantile(model.sample(ahead, 2000, seed=0, observations=True).sum(axis=1), INTERVAL)
    print(
        f"{YEARS[-1]}: {inside.mean():.2f} of the counts inside; {total[0]:.0f} to {total[1]:.0f} "
        f"cases in all, and it had {ahead['cases'].sum()}"
    )

    ratios = model.summary(transform="exp").loc[["poverty"], ["0.5", "0.025", "0.975"]]
    ratios = ratios.set_axis(["ratio", "2.5 %", "97.5 %"], axis=1)
    print(ratios.to_latex(float_format="%.3f", escape=True))
    if options.out:
        draw(model, districts, last, ranks, options.out)


if __name__ == "__main__":
    main()
