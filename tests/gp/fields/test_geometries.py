"""Places in any container, columns by their titles, and coordinate reference systems."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from graphrf.gp import Field, FieldGPRegressor, LatentGaussianModel, TriangleMesh
from graphrf.gp.fields.geometries import check_order, coordinates, in_order

shapely = pytest.importorskip("shapely")
pandas = pytest.importorskip("pandas")
geopandas = pytest.importorskip("geopandas")

UTM, NEXT_ZONE = 32633, 32634
KNOWN = {"range": 1.0, "sd": 1.0, "noise": 0.1}
BOXES = [shapely.box(a, a, a + 0.3, 0.9) for a in (0.1, 0.3, 0.5)]
LINE = shapely.LineString([(0.1, 0.1), (0.8, 0.4)])
POINTS = [shapely.Point(x, 0.2) for x in (0.1, 0.5, 0.9)]
MIXED = [*BOXES, LINE, *POINTS]
FEW = pytest.mark.filterwarnings("ignore::UserWarning")  # little is learned from few values
Y = np.array([1.0, 2.0, 0.5, 1.5, -1.0, 0.0, 3.0])


@pytest.fixture(scope="module")
def mesh():
    region = geopandas.GeoSeries([shapely.box(0, 0, 1, 1)], crs=UTM)
    return TriangleMesh.from_points(None, boundary=region, max_edge=0.3, margin=0.2)


def objects(geometries):
    array = np.empty(len(geometries), dtype=object)
    array[:] = geometries
    return array


CONTAINERS = {
    "GeometryArray": lambda geometries: geopandas.GeoSeries(geometries).values,
    "array": objects,
    "list": list,
    "tuple": tuple,
    "Series": lambda geometries: pandas.Series(objects(geometries)),
    "GeoDataFrame": lambda geometries: geopandas.GeoDataFrame(
        {"a": range(len(geometries))}, geometry=list(geometries)
    ),
}


@FEW
@pytest.mark.parametrize("kind", CONTAINERS)
def test_geometries_in_any_container_are_those_of_a_series(mesh, kind):
    pytest.importorskip("formulaic")
    series, own = geopandas.GeoSeries(MIXED), CONTAINERS[kind](MIXED)
    np.testing.assert_array_equal(mesh.weights(own).toarray(), mesh.weights(series).toarray())
    around = TriangleMesh.from_points(CONTAINERS[kind](POINTS + [shapely.Point(0.3, 0.7)]))
    assert around.n_vertices > 4
    gp, expected = (FieldGPRegressor(mesh, **KNOWN).fit(each, Y) for each in (own, series))
    np.testing.assert_array_equal(gp.predict(own), expected.predict(series))
    assert len(gp.predict(own, as_frame=True)) == len(MIXED)
    frame = pandas.DataFrame({"place": own["geometry"] if "Frame" in kind else own, "y": Y})
    model = LatentGaussianModel("y ~ 1", Field(mesh, at="place"), hyperparameters="mode", seed=0)
    found = model.fit(frame).predict(frame)
    wanted = model.fit(frame.assign(place=series)).predict(frame)
    np.testing.assert_array_equal(found, wanted)


@FEW
@pytest.mark.parametrize("places", [POINTS, BOXES, MIXED], ids=["points", "polygons", "mixed"])
def test_fits_on_geometries_are_saved_and_loaded(mesh, places, tmp_path):
    pytest.importorskip("formulaic")
    y = Y[: len(places)]
    series = geopandas.GeoSeries(places, crs=UTM)
    gp = FieldGPRegressor(mesh, **KNOWN).fit(list(places), y)
    gp.save(tmp_path / "gp.npz")
    loaded = FieldGPRegressor.load(tmp_path / "gp.npz")
    for ours, theirs in zip(
        gp.predict(series, return_std=True), loaded.predict(series, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    assert [shapely.equals_exact(*pair) for pair in zip(loaded.loo().index, places, strict=True)]
    assert loaded.domain.crs == mesh.crs
    frame = geopandas.GeoDataFrame({"y": y}, geometry=series)
    model = LatentGaussianModel("y ~ 1", Field(mesh, at="geometry"), hyperparameters="mode", seed=0)
    model.fit(frame).save(tmp_path / "model.npz")
    again = LatentGaussianModel.load(tmp_path / "model.npz")
    for data in (None, frame):
        np.testing.assert_allclose(again.predict(data), model.predict(data), rtol=1e-12)
    with pytest.raises(ValueError, match="coordinate reference system of the mesh"):
        again.predict(frame.to_crs(NEXT_ZONE))


def test_a_mesh_keeps_its_reference_and_refuses_others(mesh):
    series = geopandas.GeoSeries(POINTS, crs=UTM)
    around = TriangleMesh.from_points(geopandas.GeoSeries([*POINTS, shapely.Point(0, 1)], crs=UTM))
    stated = TriangleMesh(mesh.vertices, mesh.triangles, crs=f"EPSG:{UTM}")
    for own in (mesh, around, stated, pickle.loads(pickle.dumps(mesh)), copy.deepcopy(mesh)):
        assert own.crs == series.crs
        assert repr(own).endswith("EPSG:32633)")
    assert TriangleMesh(mesh.vertices, mesh.triangles).crs is None
    wanted = mesh.weights(series).toarray()
    np.testing.assert_array_equal(mesh.weights(POINTS).toarray(), wanted)
    gp = FieldGPRegressor(mesh, **KNOWN).fit(series, Y[:3])
    region = geopandas.GeoSeries(BOXES[:1], crs=UTM)
    assert mesh.quadrature(region)[1].sum() == pytest.approx(BOXES[0].area)
    doors = (
        (gp.predict, series, "places"),
        (mesh.weights, geopandas.GeoSeries(BOXES, crs=UTM), "places"),
        (lambda places: gp.score(places, Y[:3]), series, "places"),
        (mesh.quadrature, region, "region"),
        (lambda places: Field(mesh, barrier=places), region, "barrier"),
    )
    for door, places, name in doors:
        with pytest.raises(
            ValueError, match=f"`{name}` must .* zone 33N, got .* zone 34N: .*to_crs.mesh.crs"
        ):
            door(places.set_crs(NEXT_ZONE, allow_override=True))
        with pytest.raises(ValueError, match=f"`{name}` must .* degrees .*to_crs.mesh.crs"):
            door(places.set_crs(4326, allow_override=True))


def test_references_without_a_name_are_told_by_their_definition(mesh):
    kilometres = "+proj=utm +zone=33 +datum=WGS84 +units=km"
    own = TriangleMesh(mesh.vertices, mesh.triangles, crs=kilometres)
    with pytest.raises(ValueError, match=r"the mesh, \+proj=utm .*\+units=km.*, got .* zone 33N"):
        own.weights(geopandas.GeoSeries(POINTS, crs=UTM))


def test_points_and_boundaries_in_metres_and_kilometres_are_refused():
    region = shapely.box(499, 499, 521, 521)
    places = np.random.default_rng(0).uniform(500, 520, (30, 2))
    in_metres = shapely.transform(region, lambda x: 1000 * x)
    with pytest.raises(ValueError, match=r"`points` must overlap the boundary, .* in kilometres"):
        TriangleMesh.from_points(places, max_edge=3, boundary=in_metres)
    with pytest.raises(ValueError, match=r"x 499 to 521.* one unit and zone"):
        TriangleMesh.from_points(places + 100, max_edge=3, boundary=region)
    assert TriangleMesh.from_points(places, max_edge=3, boundary=region).n_vertices > 100


def test_references_that_are_none_are_refused(mesh):
    for crs, said in ((4326, "degrees"), ("nothing", "pyproj knows"), (3.5, "pyproj knows")):
        with pytest.raises(ValueError, match=rf"`crs` must .*{said}"):
            TriangleMesh(mesh.vertices, mesh.triangles, crs=crs)


def test_a_sphere_takes_geometries_in_degrees_and_no_others():
    earth = TriangleMesh.sphere(2)
    places = np.array([[10.0, 50.0], [-170.0, -30.0]])
    series = geopandas.GeoSeries.from_xy(*places.T, crs=4326)
    wanted = earth.weights(places).toarray()
    np.testing.assert_array_equal(earth.weights(series).toarray(), wanted)
    with pytest.raises(ValueError, match=r"longitudes and latitudes on a sphere.*to_crs\(4326\)"):
        earth.weights(series.to_crs(3857))
    with pytest.raises(ValueError, match="'lat', 'lon': pass"):
        earth.weights(pandas.DataFrame(places[:, ::-1], columns=["lat", "lon"]))


def test_heights_of_points_are_read_on_surfaces_and_refused_in_the_plane(mesh):
    points = TriangleMesh.sphere(1).vertices[:4]
    solid = [shapely.Point(point) for point in points]
    np.testing.assert_array_equal(TriangleMesh.sphere(1).points(solid), points)
    level = [shapely.Point(0.1, 0.2, 7.0), shapely.Point(0.3, 0.2, 7.0)]
    assert mesh.points(level).shape == (2, 2)
    with pytest.raises(ValueError, match=r"must have 2 coordinates.*got 3: leave out the height"):
        mesh.points([level[0], shapely.Point(0.3, 0.2, 8.0)])


@pytest.mark.parametrize(
    ("titles", "ordered"),
    [
        (("y", "x"), ("x", "y")),
        (("Lat", "LON"), ("LON", "Lat")),
        (("Latitude", "Longitude"), ("Longitude", "Latitude")),
        (("northing", "easting"), ("easting", "northing")),
        (("utm_north [m]", "utm_east [m]"), ("utm_east [m]", "utm_north [m]")),
        (("z", "y", "x"), ("x", "y", "z")),
    ],
)
def test_titles_that_contradict_their_order_are_refused_with_the_call_that_works(
    mesh, titles, ordered
):
    assert in_order(titles) == list(ordered)
    frame = pandas.DataFrame(np.full((3, len(titles)), 0.5), columns=list(titles))
    doors = (mesh.weights, TriangleMesh.from_points, FieldGPRegressor(mesh).fit)
    for door in doors:
        with pytest.raises(ValueError) as error:
            door(frame, Y[:3]) if door == doors[2] else door(frame)
        assert f"pass frame[{list(ordered)!r}]" in str(error.value)
    with pytest.raises(ValueError, match="`at` are read in the order"):
        Field(mesh, at=titles)
    check_order(ordered, "places", "")


@pytest.mark.parametrize("titles", [("a", "b"), ("x1", "x2"), ("east", "y"), ("row", "x"), (0, 1)])
def test_titles_without_an_order_are_read_by_position(mesh, titles):
    points = np.array([[0.1, 0.7], [0.5, 0.2]])
    frame = pandas.DataFrame(points, columns=list(titles))
    np.testing.assert_array_equal(mesh.points(frame), points)


def test_frames_of_polars_are_read_as_those_of_pandas(mesh):
    polars = pytest.importorskip("polars")
    points = np.array([[0.1, 0.7], [0.5, 0.2], [0.4, 0.4]])
    frame = polars.DataFrame({"x": points[:, 0], "y": points[:, 1]})
    gp = FieldGPRegressor(mesh, **KNOWN).fit(frame, Y[:3])
    expected = FieldGPRegressor(mesh, **KNOWN).fit(points, Y[:3])
    found = gp.predict(frame[["y", "x"]], as_frame=True)
    np.testing.assert_array_equal(found["mean"], expected.predict(points))
    assert found.index.tolist() == list(map(tuple, points.tolist()))


def test_covariates_that_differ_at_a_repeated_place_are_refused(mesh):
    places = [[0.1, 0.2], [0.5, 0.5], [0.1, 0.2], [0.9, 0.1]]
    gp = FieldGPRegressor(mesh, **KNOWN)
    with pytest.raises(ValueError, match=r"of a place, and differs at place \(0.1, 0.2\)"):
        gp.fit(places, Y[:4], x=[1.0, 2.0, 3.0, 4.0])
    stations = pandas.Index(list("abcd"))
    with pytest.raises(ValueError, match="of a place, and differs at place 'c'"):
        gp.fit(pandas.DataFrame(places, index=stations), Y[:4], x=[1.0, 2.0, 3.0, 4.0])
    gp.fit(places, Y[:4], x=[1.0, 2.0, 1.0, 4.0])
    with pytest.raises(ValueError, match="wherever a node or place is repeated"):
        gp.predict(places, x=[1.0, 2.0, 3.0, 4.0])


NUMBERS = np.array([[0.1, 0.2], [0.5, 0.5], [0.3, 0.2]])
BOWTIE = shapely.Polygon([(0, 0), (0.5, 0.5), (0.5, 0), (0, 0.5)])
BAD = {
    "text": (NUMBERS.astype(str), "must be numbers, got text"),
    "text in objects": (NUMBERS.astype(str).astype(object), "must be numbers, got text"),
    "text in a column": (
        pandas.DataFrame({"x": ["1", "2", "3"], "y": 0.5}),
        "must be numbers, got text or other objects in 'x'; pandas.to_numeric",
    ),
    "truth": (NUMBERS > 0.3, "must be numbers, got dtype bool"),
    "missing cells": (
        pandas.DataFrame({"x": pandas.array([1.0, None, 0.1], dtype="Float64"), "y": 0.5}),
        r"must be finite, got nan at position \(1, 0\)",
    ),
    "far away": ([[0.1, 0.2], [1e300, 0.1], [0.3, 0.2]], "must lie in the mesh, but 1 of 3"),
    "another unit": (NUMBERS + 1000, "3 of 3 do not: .* same unit and reference system"),
    "missing geometries": ([*POINTS[:2], None], "got NoneType None in row 2 .1 of 3 such rows"),
    "empty geometries": ([*POINTS[:2], shapely.Point()], "got an empty one in row 2"),
    "several points": ([*POINTS[:2], shapely.MultiPoint(NUMBERS)], "got a MultiPoint in row 2"),
    "collections": (
        [*POINTS[:2], shapely.GeometryCollection([POINTS[0], BOXES[0]])],
        "got a GeometryCollection in row 2: explode it",
    ),
    "crossing polygons": ([*POINTS[:2], BOWTIE], "must be valid, but row 2 is not .Self-inter"),
    "lines without length": (
        [*POINTS[:2], shapely.LineString([(0.5, 0.5), (0.5, 0.5)])],
        "must be valid, but row 2 is not .Too few points",
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_places_are_told_by_regressors_and_terms(mesh, kind):
    pytest.importorskip("formulaic")
    places, said = BAD[kind]
    with pytest.raises((ValueError, TypeError), match=said):
        FieldGPRegressor(mesh, **KNOWN).fit(places, Y[:3])
    if isinstance(places, list) and hasattr(places[0], "geom_type"):
        frame, at = pandas.DataFrame({"geometry": objects(places)}), "geometry"
    else:
        frame, at = pandas.DataFrame(places).set_axis(["x", "y"], axis=1), ("x", "y")
    model = LatentGaussianModel("v ~ 1", Field(mesh, at=at), seed=0)
    if kind.startswith("missing"):
        said = "has no value in 1 of 3 rows"
    with pytest.raises((ValueError, TypeError), match=said):
        model.fit(frame.assign(v=Y[:3]))


SQUARE = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
TOO_MANY = {
    "a margin of many edges": lambda: TriangleMesh.from_points(
        SQUARE, max_edge=0.1, margin=1e7, margin_edge=0.2
    ),
    "a point far away": lambda: TriangleMesh.from_points([*SQUARE, [1e12, 0.5]], max_edge=0.1),
}


@pytest.mark.parametrize("kind", TOO_MANY)
def test_meshes_that_do_not_fit_are_refused_before_the_work(kind):
    with pytest.raises(
        MemoryError, match=r"about [\d,]+ vertices.*pass max_edge=.*unit of the coordinates"
    ):
        TOO_MANY[kind]()


def test_a_sphere_that_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr("graphrf._base.memory.available_memory", lambda: 2**20)
    with pytest.raises(MemoryError, match=r"a sphere of 163,842 vertices.*fewer `subdivisions`"):
        TriangleMesh.sphere(7)


@pytest.mark.parametrize(
    ("boundary", "said"),
    [
        (LINE, "must be a polygon or polygons, got a LineString: shapely.Polygon"),
        (geopandas.GeoDataFrame(geometry=[]), "must be polygons of shapely or geopandas"),
        ([], "must be polygons of shapely or geopandas"),
        ([*BOXES, None], "got NoneType None in row 3"),
        ([*BOXES, BOWTIE], "must be valid, but row 3 is not"),
    ],
)
def test_boundaries_regions_and_barriers_that_are_none_are_refused(mesh, boundary, said):
    doors = (
        lambda: TriangleMesh.from_points(None, boundary=boundary),
        lambda: mesh.quadrature(boundary),
        lambda: Field(mesh, barrier=boundary),
    )
    for door in doors:
        with pytest.raises((ValueError, TypeError), match=said):
            door()


@pytest.mark.parametrize("at", [3, (), ("a", "b", "c", "d")])
def test_columns_that_are_none_are_refused(mesh, at):
    with pytest.raises(ValueError, match="`at` must be a column of geometries or two or three"):
        Field(mesh, at=at)


def test_three_columns_in_another_order_are_told_the_order_of_three():
    frame = pandas.DataFrame(np.zeros((2, 3)), columns=["Y [mm]", "X [mm]", "Z [mm]"])
    with pytest.raises(ValueError, match=r"in the order x, y, z .* are 'Y \[mm\]'.*: pass frame"):
        coordinates(frame, "places", 3)
