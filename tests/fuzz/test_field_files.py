"""Files of regressors over space with all kinds of harm: refused in words, or sound."""

from __future__ import annotations

import random
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrf.gp import FieldGPRegressor, MetricGraph, TriangleMesh
from graphrf.gp.terms import PenalisedRange
from tests.fuzz.damage import Corpus, archive_of, record_and_arrays
from tests.support.bounds import within
from tests.support.mutations import json_text, mutated_arrays, mutated_json

pandas = pytest.importorskip("pandas")
shapely = pytest.importorskip("shapely")
pytest.importorskip("pyproj")

SECONDS, MEGABYTES = 20, 512


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fields")
    result = Corpus(folder / "mutated.npz")
    square = TriangleMesh([[0, 0], [1, 0], [1, 1], [0, 1]], [[0, 1, 2], [0, 2, 3]])
    points = [[0.1, 0.2], [0.5, 0.7], [0.9, 0.3], [0.9, 0.3]]
    streets = MetricGraph(["a", "b"], ["b", "c"], [1.0, 2.0], ends="free")
    known = {"range": 1.0, "sd": 1.0, "noise": 0.1}
    prior = {"range": PenalisedRange(0.5), "noise": (0.1, 3.0)}
    projected = TriangleMesh(square.vertices, square.triangles, crs=32633)
    hole = shapely.Polygon([(0, 0), (1, 0), (0, 1)], [[(0.2, 0.2), (0.3, 0.2), (0.2, 0.3)]])
    parts = shapely.MultiPolygon([shapely.box(0, 0, 0.2, 0.2), shapely.box(0.5, 0.5, 0.9, 1)])
    line = shapely.LineString([(0, 0), (1, 1), (1, 0)])
    columns = pandas.DataFrame(points, columns=["x", "y"])
    cases = (
        (square, points, known, {}),
        (square, points, {"prior": prior}, {}),
        (projected, [hole, shapely.Point(0.1, 0.2), parts, line], known, {}),
        (projected, columns, known, {}),
        (TriangleMesh.sphere(0), [[0, 10], [5, 50], [9, 0], [40, -7]], known, {}),
        (streets, ["a", ("a", "b", 0.5), (1, 1.5), "c"], known, {"x": np.arange(4.0)[:, None]}),
    )
    for number, (domain, places, settings, more) in enumerate(cases):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gp = FieldGPRegressor(domain, **settings).fit(places, [1.0, -1.0, 0.5, 2.0], **more)
        path = folder / f"{number}.npz"
        gp.save(path)
        require_sound(FieldGPRegressor.load(path))
        result.append(record_and_arrays(path.read_bytes()))
    return result


def require_sound(gp: FieldGPRegressor) -> None:
    """All that a loaded model answers is finite."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        width = gp._seen.mean.width.size
        x = {"x": np.zeros((3, width))} if width else {}
        places = gp.domain.places().at(np.arange(3))
        mean, deviation = gp.predict(places, return_std=True, **x)
    assert np.isfinite(mean).all()
    assert np.isfinite(deviation).all()
    assert repr(gp)


@given(st.integers(0, 2**63 - 1))
def test_harmed_files_are_refused_or_predict(saved, seed):
    path, rng = saved.place, random.Random(seed)
    record, arrays = rng.choice(saved)
    where = rng.randrange(3)
    text = json_text(mutated_json(record, rng) if where != 1 else record)
    path.write_bytes(archive_of(text, mutated_arrays(arrays, rng) if where else arrays, False))
    with within(SECONDS, MEGABYTES), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            gp = FieldGPRegressor.load(path)
        except (ValueError, MemoryError) as error:
            if str(path) not in str(error):
                raise
        else:
            require_sound(gp)


@pytest.mark.parametrize(
    ("geometry", "said"),
    [
        (["Point", []], "geometry"),
        (["Point", [float("nan"), 0.0]], "geometry without coordinates|JSON|number"),
        (["Point", "text"], "geometry"),
        (["Polygon", [[[0, 0], [1, 1]]]], "geometry"),
        (["Polygon", {"a": 1}], "geometry"),
        (["LineString", [[0, 0], [1]]], "geometry"),
        (["LineString", None], "geometry"),
        (["GeometryCollection", [["Point", [0, 0]]]], "`geometry` must be one of"),
        (["Point"], "unpack|argument"),
        ("Point", "argument|`geometry`"),
    ],
)
def test_geometries_that_are_none_are_refused(saved, geometry, said):
    record, arrays = next(each for each in saved if "geometry" in str(each[0]["labels"]))
    changed = {**record, "labels": [{"geometry": geometry}, *record["labels"][1:]]}
    saved.place.write_bytes(archive_of(json_text(changed), arrays, False))
    with pytest.raises(ValueError, match=said):
        FieldGPRegressor.load(saved.place)


@pytest.mark.parametrize("crs", ["EPSG:32633", "text", 5, ["a"], {}, "/etc/passwd", "PROJCRS["])
def test_references_that_are_none_are_refused(saved, crs):
    record, arrays = next(each for each in saved if "PROJCRS" in str(each[0]["graphs"]))
    (graph,) = record["graphs"]
    names = {**graph["names"], "crs": crs}
    changed = {**record, "graphs": [{**graph, "names": names}]}
    saved.place.write_bytes(archive_of(json_text(changed), arrays, False))
    with pytest.raises(ValueError, match="`crs` must be a coordinate reference system"):
        FieldGPRegressor.load(saved.place)


@pytest.mark.parametrize("columns", [None, "xy", ["x"], ["x", "x"], ["x", 1], ["x", "y", "z", "w"]])
def test_columns_that_are_none_are_refused(saved, columns):
    record, arrays = next(each for each in saved if each[0]["columns"] == ["x", "y"])
    changed = {**record, "columns": columns}
    saved.place.write_bytes(archive_of(json_text(changed), arrays, False))
    with pytest.raises(ValueError, match="columns are not those of coordinates"):
        FieldGPRegressor.load(saved.place)
