"""Sudden infant deaths in the counties of North Carolina: relative risks by BYM2, and what a covariate explains.

The counts of 1974 to 1978 and the counties' borders are in libpysal (its built-in example `sids2`, after Cressie
1991, "Statistics for Spatial Data", pp. 386-389). Counties that share a border are joined. Expected deaths are
births times the rate of the whole state. Printed are the trained variance, the share of it that neighbours explain
and the coefficients, without and with the share of non-white births; the coefficient by other areal kernels; and
those of transformed rates, which that book analyses without Anson County.

    pip install 'graphrf[areal]'
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
from matplotlib.colors import LogNorm
from scipy.special import ndtr

import graphrf as grf

KERNELS = ("bym2", "icar", "leroux", "car")
# Of the maps: the deaths over those expected, from half to twice as many.
RATIOS = (0.5, 2.0)


class Counties(NamedTuple):
    """The table, the graph of borders, expected deaths, and the share of non-white births."""

    table: Any
    graph: grf.Graph
    expected: np.ndarray
    nonwhite: Any


def read() -> Counties:
    """The counties of libpysal."""
    table = geopandas.read_file(get_path("sids2.shp"))
    rate = table.SID74.sum() / table.BIR74.sum()
    nonwhite = pd.DataFrame({"nonwhite": table.NWBIR74 / table.BIR74})
    return Counties(table, grf.load_graph(table), (rate * table.BIR74).to_numpy(), nonwhite)


def fitted(counties: Counties, kernel: str, covariate: bool) -> grf.GraphGPRegressor:
    """Log relative risks of all counties; `normalize=False` leaves the kernel with the scale that defines it."""
    gp = grf.GraphGPRegressor(counties.graph, kernel=kernel, likelihood="poisson", normalize=False, seed=0)
    x = counties.nonwhite if covariate else None
    return gp.fit(np.arange(counties.graph.n_nodes), counties.table.SID74, x=x, exposure=counties.expected)


def freeman_tukey(counts: Any, births: Any) -> Any:
    """Rates in a thousand whose noise has the variance 1000 / births."""
    return math.sqrt(1000) * (np.sqrt(counts / births) + np.sqrt((counts + 1) / births))


def transformed(counties: Counties) -> grf.GraphGPRegressor:
    """Transformed rates with normal noise and a proper autoregression, without the outlier."""
    table = counties.table
    kept = np.flatnonzero(table.NAME != "Anson")
    y, x = freeman_tukey(table.SID74, table.BIR74)[kept], freeman_tukey(table.NWBIR74, table.BIR74)[kept]
    gp = grf.GraphGPRegressor(
        counties.graph,
        kernel="car",
        noise=1000 / table.BIR74[kept],
        normalize=False,
        hyperparameters="mode",
        seed=0,
    )
    return gp.fit(kept, y, x=x.rename("nonwhite"))


def draw(counties: Counties, plain: grf.GraphGPRegressor, explained: grf.GraphGPRegressor, path: str) -> None:
    """Four maps: raw ratios, relative risks without and with the covariate, probabilities of a raised risk."""
    mean, std = explained.predict(latent=True, return_std=True)
    # A logarithm has no colour for 0; the arrow of the colour bar stands for all that is below a half.
    ratios = np.maximum(counties.table.SID74 / counties.expected, 0.01)
    # Half as many deaths as expected and twice as many are equally far from 1, which is white.
    ticks = (0.5, 0.7, 1.0, 1.4, 2.0)
    risks = {"norm": LogNorm(*RATIOS), "cmap": "RdBu_r"}
    bar = {"extend": "both", "ticks": ticks, "format": "{x:g}", "label": "relative risk"}
    maps = [
        ("deaths over expected deaths", ratios, risks, bar | {"label": "ratio"}),
        ("relative risk", plain.predict(), risks, bar),
        ("relative risk, with the share of non-white births", explained.predict(), risks, bar),
        (
            "which risks are raised",
            ndtr(mean / std),
            {"vmin": 0, "vmax": 1},
            {"label": "probability of a risk above 1"},
        ),
    ]
    with figure(path, height=5.2) as sheet:
        for ax, (title, values, colours, legend) in zip(sheet.subplots(2, 2).flat, maps, strict=True):
            counties.table.assign(value=np.asarray(values)).plot(
                "value", ax=ax, edgecolor="0.6", linewidth=0.3, legend=True, **colours,
                legend_kwds={"orientation": "horizontal", "shrink": 0.7, "pad": 0.04, "aspect": 30} | legend,
            )  # fmt: skip
            sheet.axes[-1].minorticks_off()
            ax.set_title(title)
            ax.set_aspect(1 / math.cos(math.radians(35.5)))
            ax.set_axis_off()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_figure_option(parser)
    options = parser.parse_args()
    counties = read()
    plain, explained = fitted(counties, "bym2", False), fitted(counties, "bym2", True)
    for title, gp in (("without a covariate", plain), ("with the share of non-white births", explained)):
        print(f"BYM2 {title}: variance {gp.output_scale_:.3f}, structured share {gp.kernel_.mixing:.2f}")
        print(gp.coefficients_, end="\n\n")
    print("the coefficient of non-white births by kernel")
    for kernel in KERNELS:
        gp = fitted(counties, kernel, True)
        mean, std = gp.coefficients_.mean[1], gp.coefficients_.std[1]
        print(f"{kernel:8}{mean:8.2f} +- {std:.2f}   log evidence {gp.log_marginal_likelihood_:.1f}")
    print("\ntransformed rates, normal noise, proper autoregression")
    print(transformed(counties).coefficients_)
    if options.out:
        draw(counties, plain, explained, options.out)


if __name__ == "__main__":
    main()
