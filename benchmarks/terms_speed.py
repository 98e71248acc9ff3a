"""How long does a latent Gaussian model of areas through years take?

    python benchmarks/terms_speed.py                    # about two minutes
    python benchmarks/terms_speed.py --sizes 3000x20 --interaction IV

Poisson counts of areas on a random triangulation: BYM2, a random walk over the years where there
are several, and their interaction of type I (`Groups * Groups`) or another, with a covariate and
exposures; all defaults. One thread; a small model is fitted first, which compiles.

Measured: 100 areas x 50 years 4.1 s, 1,921 areas 1.9 s, 3,000 areas x 20 years 36.3 s and 0.8 GiB,
with an interaction of type II 56.3 s and 1.1 GiB.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import pandas as pd
from _machine import header, peak_gib
from scipy.spatial import Delaunay

import graphrf as grf
from graphrf.gp import Groups, LatentGaussianModel, Nodes, Steps
from graphrf.gp.terms.term import Term

SIZES = ("100x50", "1921x1", "3000x20")


def areas(n: int) -> grf.Graph:
    """Neighbours in a triangulation of random points."""
    triangles = Delaunay(np.random.default_rng(0).random((n, 2))).simplices
    pairs = np.sort(
        np.vstack([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [0, 2]]]), axis=1
    )
    return grf.from_edges(*np.unique(pairs, axis=0).T, n_nodes=n)


INTERACTIONS: dict[str, Callable[[grf.Graph], Term]] = {
    "I": lambda graph: Groups("area") * Groups("year"),
    "II": lambda graph: Groups("area") * Steps("year", "rw1"),
    "III": lambda graph: Nodes(graph, grf.ICAR(), by="area") * Groups("year"),
    "IV": lambda graph: Nodes(graph, grf.ICAR(), by="area") * Steps("year", "rw1"),
}


def fitted(n: int, years: int, interaction: str = "I") -> None:
    """Simulate, fit, and print a line."""
    graph, rng = areas(n), np.random.default_rng(1)
    frame = pd.DataFrame(
        {"area": np.repeat(np.arange(n), years), "year": np.tile(np.arange(years), n)}
    )
    field = grf.apply_root(graph, grf.Matern(2.0, 4.0), rng.standard_normal(n))
    trend = np.cumsum(0.1 * rng.standard_normal(years))
    frame["x"], frame["people"] = rng.standard_normal(len(frame)), rng.uniform(5, 50, len(frame))
    eta = 0.4 * field[frame["area"]] / field.std() + trend[frame["year"]] + 0.1 * frame["x"]
    frame["y"] = rng.poisson(frame["people"] * np.exp(eta + 0.1 * rng.standard_normal(len(frame))))
    terms: list[Term] = [Nodes(graph, grf.BYM2(), by="area")]
    if years > 1:
        terms += [Steps("year", "rw1"), INTERACTIONS[interaction](graph)]
    started = time.perf_counter()
    model = LatentGaussianModel("y ~ 1 + x", terms, "poisson", exposure="people", seed=0).fit(frame)
    seconds = time.perf_counter() - started
    slope = model.coefficients_.loc["x"]
    print(
        f"{n:,} areas x {years} years: {seconds:.1f} s, peak {peak_gib():.1f} GiB, slope "
        f"{slope['mean']:.3f} ({slope['sd']:.3f}), truth 0.1",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", nargs="+", default=SIZES, metavar="AREASxYEARS")
    parser.add_argument("--interaction", choices=INTERACTIONS, default="I")
    options = parser.parse_args()
    print(header("scipy"))
    fitted(40, 4)
    for size in options.sizes:
        fitted(*map(int, size.split("x")), options.interaction)


if __name__ == "__main__":
    main()
