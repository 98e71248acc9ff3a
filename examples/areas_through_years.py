"""Sudden infant deaths in North Carolina in two periods, and as predicted for a third.

The counts of 1974 to 1978 and of 1979 to 1984 are in libpysal (its built-in example `sids2`).
Expected deaths are births times the rate of the whole state in the same period. The models are sums
of a field of the counties (BYM2) and of an interaction of counties and periods, without which
leave-one-out densities and the information criterion are printed too. Drawn are relative risks and
the probability that they are above 1.2. The third period has the births of the second, and no
counts. Transformed rates of the first period are analysed with a proper autoregression and without
Anson County, as by Cressie (1991, "Statistics for Spatial Data", pp. 386-389), and their
coefficient of non-white births is printed last.

    pip install 'graphrf[areal,terms]'
    python examples/areas_through_years.py --out areas_through_years.png
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import geopandas
import numpy as np
import pandas as pd
from _figures import figure
from _options import add_figure_option
from libpysal.examples import get_path

import graphrf as grf
from graphrf.gp import Groups, LatentGaussianModel, Nodes
from graphrf.plot import plot_areas

PERIODS = {"1974-78": "74", "1979-84": "79"}
COMING = "1985-90"
RAISED = 1.2


def rows(table: Any, period: str, digits: str) -> pd.DataFrame:
    """A row for each county in a period."""
    births, deaths = table[f"BIR{digits}"], table[f"SID{digits}"]
    expected = births * (deaths.sum() / births.sum())
    columns = {"deaths": deaths, "expected": expected, "nonwhite": table[f"NWBIR{digits}"] / births}
    return pd.DataFrame(columns).rename_axis("county").reset_index().assign(period=period)


def fitted(
    graph: grf.Graph, frame: pd.DataFrame, formula: str, *, interaction: bool
) -> LatentGaussianModel:
    """A field of the counties, and a deviation of its own for each county and period."""
    terms = [Nodes(graph, grf.BYM2(), by="county"), Groups("county") * Groups("period")]
    return LatentGaussianModel(
        formula, terms[: 1 + interaction], "poisson", exposure="expected", seed=0
    ).fit(frame)


def freeman_tukey(counts: Any, births: Any) -> Any:
    """Rates in a thousand whose noise has the variance 1000 / births."""
    return math.sqrt(1000) * (np.sqrt(counts / births) + np.sqrt((counts + 1) / births))


def transformed(table: Any, graph: grf.Graph) -> grf.GraphGPRegressor:
    """Transformed rates with normal noise and a proper autoregression, without the outlier."""
    kept = np.flatnonzero(table.index != "Anson")
    y = freeman_tukey(table.SID74, table.BIR74).iloc[kept]
    x = freeman_tukey(table.NWBIR74, table.BIR74).iloc[kept]
    gp = grf.GraphGPRegressor(
        graph,
        kernel="car",
        noise=1000 / table.BIR74.iloc[kept],
        numerics=grf.gp.Numerics(normalize=False),
        hyperparameters="mode",
        seed=0,
    )
    return gp.fit(y, x=x.rename("nonwhite"))


def draw(table: Any, maps: dict[str, tuple[np.ndarray, np.ndarray]], path: str) -> None:
    """Risks and probabilities of a raised risk, a row for each period."""
    looks: list[dict[str, Any]] = [
        {"norm": "log", "limits": (0.5, 2.0), "label": "relative risk"},
        {"limits": (0.0, 1.0), "label": f"probability of a risk above {RAISED:g}"},
    ]
    with figure(path, height=8.0) as sheet:
        axes = sheet.subplots(len(maps), 2)
        for row, (period, columns) in zip(axes, maps.items(), strict=True):
            for ax, values, look in zip(row, columns, looks, strict=True):
                plot_areas(table, values, ax=ax, **look)
                ax.set_title(period)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_figure_option(parser)
    options = parser.parse_args()
    table = geopandas.read_file(get_path("sids2.shp")).set_index("NAME")
    graph = grf.load_graph(table)
    frame = pd.concat([rows(table, *own) for own in PERIODS.items()], ignore_index=True)
    models = {
        "a shared field": fitted(graph, frame, "deaths ~ 1 + nonwhite", interaction=False),
        "an interaction too": fitted(graph, frame, "deaths ~ 1 + nonwhite", interaction=True),
        "a slope of each period": fitted(
            graph, frame, "deaths ~ 0 + C(period) + nonwhite:C(period)", interaction=True
        ),
    }
    for name, model in models.items():
        print(f"{name}: log predictive densities {model.loo().total:.1f}")
        print(model.summary().round(3), end="\n\n")
    print("transformed rates, normal noise, proper autoregression")
    print(transformed(table, graph).coefficients_)
    if options.out:
        maps = {}
        for period in PERIODS:
            own, model = frame[frame["period"] == period], models["a slope of each period"]
            maps[period.replace("-", " to 19")] = (
                model.predict(own),
                model.probability(own, above=RAISED),
            )
        own, model = (
            frame[frame["period"] == "1979-84"].assign(period=COMING),
            models["an interaction too"],
        )
        name = f"{COMING.replace('-', ' to 19')}, predicted"
        maps[name] = model.predict(own), model.probability(own, above=RAISED)
        draw(table, maps, options.out)


if __name__ == "__main__":
    main()
