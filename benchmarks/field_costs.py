"""What do fits of fields over space cost?

    python benchmarks/field_costs.py
    python benchmarks/field_costs.py cod leukaemia

Wall and CPU seconds of one fit each, and the largest memory of its own process. Every case is
fitted once before on few data, so that loops are compiled. The data of the first two are files of
sdmTMB and R-INLA in the folder `spatial` of GRAPHRF_DATA_DIR; those of the others are drawn here.

cod         densities of 969 trawls in four years: a field of all and one of each year, Tweedie,
            the mode, mesh of 76 vertices (sdmTMB's example)
leukaemia   1,043 times of survival, a field at 1,721 vertices, Weibull, the mode; TMB takes 65 s
counts      20,000 counts in five years, a field of each year at 20,000 vertices, the average
points      100,000 points on a mesh of 150,000 vertices: `FieldGPRegressor`, deviations at 50,000
            new points, in the same seconds

On two cores of an Intel Xeon that other work shared, which makes CPU seconds longer, too:

cod            5.5 s CPU, 0.3 GiB
leukaemia      1.6 s CPU, 0.3 GiB
counts       107.6 s CPU, 1.3 GiB
points       109.1 s CPU, 1.5 GiB
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _machine import header, peak_gib

from graphrf.gp import Field, FieldGPRegressor, Groups, LatentGaussianModel, TriangleMesh

FLAT = {"sd": None, "range": None}
MODE = {"prior": None, "hyperparameters": "mode", "coefficient_deviation": 1e4, "seed": 0}


def spatial(name: str) -> tuple[TriangleMesh, dict[str, np.ndarray]]:
    """The mesh and the arrays of a file of data over space."""
    with np.load(Path(os.environ["GRAPHRF_DATA_DIR"]) / "spatial" / f"{name}.npz") as file:
        data = dict(file)
    return TriangleMesh(data["loc"][:, :2], data["tv"]), data


def cod(size: float) -> Callable[[], Any]:
    mesh, data = spatial("pcod_2011")
    names = [name for name in data if name.startswith("data_")]
    frame = pd.DataFrame({name.removeprefix("data_"): data[name] for name in names})
    frame["year"] = frame["year"].astype(int).astype(str)
    frame = frame.sample(frac=size, random_state=0)
    field = Field(mesh, at=("X", "Y"), prior=FLAT)
    terms = [field, field * Groups("year")]
    model = LatentGaussianModel("density ~ 0 + C(year)", terms, "tweedie", **MODE)
    return lambda: model.fit(frame)


def leukaemia(size: float) -> Callable[[], Any]:
    mesh, data = spatial("leukaemia")
    x, y = mesh.vertices[data["vertex"]].T
    names = ("time", "cens", "sex", "age", "wbc", "tpi")
    frame = pd.DataFrame({name: data[name] for name in names}).assign(x=x, y=y)
    frame = frame.sample(frac=size, random_state=0)
    field, formula = Field(mesh, prior=FLAT), "time ~ sex + age + wbc + tpi"
    model = LatentGaussianModel(formula, field, "weibull", event="cens", **MODE)
    return lambda: model.fit(frame)


def counts(size: float) -> Callable[[], Any]:
    rng, n = np.random.default_rng(0), int(20_000 * size)
    mesh = TriangleMesh.from_points(rng.random((n, 2)), max_edge=0.0125 / size**0.5)
    places = rng.random((n, 2))
    frame = pd.DataFrame(places, columns=["x", "y"]).assign(year=rng.integers(2019, 2024, n))
    fields = mesh.sample(places, range=0.3, sd=0.7, n_samples=5, seed=1)
    frame["count"] = rng.poisson(np.exp(1 + fields[frame["year"] - 2019, np.arange(n)]))
    terms = Field(mesh) * Groups("year")
    model = LatentGaussianModel("count ~ 1 + C(year)", terms, "poisson", seed=0)
    return lambda: model.fit(frame)


def points(size: float) -> Callable[[], Any]:
    rng, n = np.random.default_rng(0), int(100_000 * size)
    places, new = rng.random((n, 2)), rng.random((n // 2, 2))
    mesh = TriangleMesh.from_points(places, max_edge=0.0035 / size**0.5)
    truth = mesh.sample(np.vstack([places, new]), range=0.2, seed=1)[0]
    y = truth[:n] + 0.3 * rng.standard_normal(n)

    def run() -> None:
        model = FieldGPRegressor(mesh).fit(places, y)
        mean, std = model.predict(new, return_std=True)
        held = np.mean(np.abs(mean - truth[n:]) < 1.96 * std)
        print(f"{mesh.n_vertices:,} vertices, 95 % intervals hold {held:.3f}", end="; ")

    return run


CASES = {case.__name__: case for case in (cod, leukaemia, counts, points)}


def timed(name: str) -> None:
    """Print what one case costs."""
    warnings.simplefilter("ignore")
    CASES[name](0.5 if name in ("cod", "leukaemia") else 0.02)()
    run = CASES[name](1.0)
    wall, cpu = time.perf_counter(), time.process_time()
    run()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(f"{name:12} {wall:6.1f} s wall, {cpu:6.1f} s CPU, {peak_gib():.1f} GiB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*")
    cases = parser.parse_args().cases or list(CASES)
    if len(cases) == 1:
        timed(cases[0])
        return
    print(header("scipy"), flush=True)
    for name in cases:
        subprocess.run([sys.executable, __file__, name], check=True)


if __name__ == "__main__":
    main()
