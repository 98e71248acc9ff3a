"""What wrong calls share: small graphs, tables and fits, each made once."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import graphrf as grf
from graphrf import GraphGPClassifier as Classifier
from graphrf import GraphGPRegressor as Regressor
from graphrf.gp import (
    FieldGPRegressor,
    GraphTimeGPRegressor,
    Groups,
    LatentGaussianModel,
    MetricGraph,
    Nodes,
    Steps,
    TriangleMesh,
)
from graphrf.gp.time import MaternTime

pandas = pytest.importorskip("pandas")
pytest.importorskip("formulaic")
pytest.importorskip("shapely")

PLACES = ["Ayr", "Bute", "Clyde", "Dee", "Esk", "Forth"]
NUMBERED = grf.from_edges(range(5), range(1, 6))
NAMED = grf.Graph(NUMBERED.adjacency, nodes=PLACES)
DIRECTED = grf.from_edges([0, 1], [1, 2], directed=True)
RNG = np.random.default_rng(0)
Y, COUNTS, LABELS = RNG.standard_normal(6), np.array([3, 1, 4, 2, 5, 3]), list("ababab")
FEATURES = pandas.DataFrame(
    RNG.standard_normal((6, 3)), index=PLACES, columns=["age", "income", "visits"]
)
XY, XYZ = RNG.random((6, 2)), RNG.random((6, 3))
HOURS = pandas.date_range("2024-01-01", periods=12, freq="h", name="hour")
READINGS = pandas.DataFrame(RNG.standard_normal((12, 6)), index=HOURS, columns=PLACES)
LONG = READINGS.melt(ignore_index=False, var_name="node", value_name="speed")
FRAME = pandas.DataFrame(
    {
        "district": PLACES * 4,
        "year": np.repeat([2016, 2017, 2018, 2019], 6),
        "share": RNG.random(24),
        "cases": RNG.poisson(5, 24),
        "people": RNG.uniform(1, 3, 24),
    }
)
KNOWN = {"kernel": grf.Diffusion(1.0), "optimize": False, "output_scale": 1.0, "seed": 0}
TERMS = (Nodes(NAMED, grf.ICAR(), by="district"), Steps("year", "rw1"))
ROADS = MetricGraph([0, 1, 1], [1, 2, 3], [2.0, 3.0, 1.0])
EDGES = pandas.DataFrame({"source": [0, 1], "target": [1, 2]})
MATERN = grf.Matern(nu=1.0)


# -- what calls share ------------------------------------------------------------------------------


@cache
def regressor() -> Any:
    return Regressor(NAMED, noise=0.1, **KNOWN).fit(PLACES, Y)


@cache
def classifier() -> Any:
    settings = {"output_scale": 1.0, "optimize": False, "seed": 0}
    return Classifier(NAMED, **settings).fit(PLACES, LABELS)


@cache
def mesh() -> Any:
    return TriangleMesh.from_points(XY, max_edge=0.4)


@cache
def on_mesh() -> Any:
    return FieldGPRegressor(mesh(), range=2.0, sd=1.0, noise=0.1).fit(XY, Y)


@cache
def through_time() -> Any:
    settings = {"kernel": grf.Diffusion(1.0), "time_kernel": MaternTime(3.0), "max_train": 20}
    return GraphTimeGPRegressor(NAMED, seed=0, **settings).fit(READINGS)


def terms(formula: str = "cases ~ 1", *own: Any, likelihood: str = "poisson", **more: Any) -> Any:
    settings = {"hyperparameters": "mode", "seed": 0, **more}
    return LatentGaussianModel(formula, own or TERMS, likelihood, **settings)


@cache
def of_terms() -> Any:
    return terms("cases ~ 1 + share", exposure="people").fit(FRAME)


@cache
def by_year() -> Any:
    return terms("cases ~ C(year)", Groups("district")).fit(FRAME)


@cache
def of_districts_and_groups() -> Any:
    return terms("cases ~ 1", TERMS[0], Groups("district")).fit(FRAME)


@cache
def file(of: Callable[[], Any]) -> Path:
    path = Path(tempfile.mkdtemp(), "model.npz")
    of().save(path)
    return path


def areas() -> Any:
    shapely, geopandas = pytest.importorskip("shapely"), pytest.importorskip("geopandas")
    boxes = [shapely.box(k, 0, k + 1, 1) for k in range(6)]
    return geopandas.GeoDataFrame({"name": PLACES}, geometry=boxes)


def points() -> Any:
    return areas().set_geometry(areas().centroid)


def streets() -> Any:
    return grf.Graph(NUMBERED.adjacency, nodes=[(k, k + 1) for k in range(6)])


def of_streets() -> Any:
    ends = LONG.reset_index().assign(u=np.repeat(range(6), 12), v=np.repeat(range(1, 7), 12))
    return ends[["hour", "u", "v", "speed"]]


def surface() -> Any:
    return pytest.importorskip("trimesh").creation.icosphere(1)


class Wrong(NamedTuple):
    """A call, its error, and words of the message."""

    call: Callable[[], Any]
    error: type[Exception]
    words: tuple[str, ...]


def wrong(call: Callable[[], Any], error: type[Exception], *words: str) -> Wrong:
    return Wrong(call, error, words)
