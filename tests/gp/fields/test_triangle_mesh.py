"""TriangleMesh: other sources, sizes, the sphere, and input that is refused or warned of."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from graphrf.gp import TriangleMesh

shapely = pytest.importorskip("shapely")
pandas = pytest.importorskip("pandas")
geopandas = pytest.importorskip("geopandas")

SQUARE = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
HALVES = np.array([[0, 1, 2], [0, 2, 3]])
BOX = shapely.box(0, 0, 1, 1)


@pytest.fixture(scope="module")
def mesh():
    return TriangleMesh.from_points(None, boundary=BOX, max_edge=0.3, margin=0.2)


@pytest.mark.parametrize("subdivisions", range(5))
def test_spheres(subdivisions):
    mesh = TriangleMesh.sphere(subdivisions, radius=2.0)
    assert mesh.n_vertices == 10 * 4**subdivisions + 2
    assert len(mesh.edges) == 30 * 4**subdivisions
    np.testing.assert_allclose(np.linalg.norm(mesh.vertices, axis=1), 2.0, rtol=1e-14)
    # inscribed: the area falls short by a share that falls with the square of the edge
    missing = 1 - mesh.area / (16 * np.pi)
    assert 0 < missing < 0.31 / 4**subdivisions
    assert mesh.parts.max() == 0
    assert mesh.smallest_angle > 50


def test_longitudes_and_latitudes_are_places_of_a_sphere():
    earth = TriangleMesh.sphere(4, radius=6371)
    places = np.array([[0.0, 90.0], [0.0, 0.0], [90.0, 0.0], [180.0, 0.0], [-180.0, 0.0]])
    np.testing.assert_allclose(
        earth.points(places) / 6371,
        [[0, 0, 1], [1, 0, 0], [0, 1, 0], [-1, 0, 0], [-1, 0, 0]],
        atol=1e-15,
    )
    rows = earth.weights(places)
    found = rows @ earth.vertices
    assert np.abs(found - earth.points(places)).max() < 0.005 * 6371
    np.testing.assert_allclose(rows[[3]].toarray(), rows[[4]].toarray(), atol=1e-9)
    with pytest.raises(ValueError, match="longitude and latitude"):
        earth.weights([[51.0, 120.0]])


SOURCES = {
    "fmesher": lambda v, t: {"loc": np.column_stack([v, np.zeros(4)]), "tv": t},
    "meshio": lambda v, t: SimpleNamespace(points=v, cells_dict={"triangle": t, "line": t[:, :2]}),
    "pyvista": lambda v, t: SimpleNamespace(points=v, regular_faces=t),
    "trimesh": lambda v, t: SimpleNamespace(vertices=v, faces=t),
    "scikit-fem": lambda v, t: SimpleNamespace(p=v.T, t=t.T),
}


@pytest.mark.parametrize("source", SOURCES)
def test_meshes_of_other_libraries(source):
    mesh = TriangleMesh.from_mesh(SOURCES[source](SQUARE, HALVES))
    np.testing.assert_array_equal(mesh.vertices, SQUARE)
    np.testing.assert_array_equal(mesh.triangles, HALVES)


def test_the_mesh_of_trimesh_itself():
    trimesh = pytest.importorskip("trimesh")
    mesh = TriangleMesh.from_mesh(trimesh.creation.icosphere(2))
    assert mesh.dimension == 3
    assert mesh.area == pytest.approx(4 * np.pi, rel=0.03)


def test_a_file_has_each_vertex_once(tmp_path):
    trimesh = pytest.importorskip("trimesh")
    ball = trimesh.creation.icosphere(2)
    for suffix in (".stl", ".ply", ".off"):
        ball.export(tmp_path / f"ball{suffix}")
        mesh = TriangleMesh.from_mesh(tmp_path / f"ball{suffix}")
        assert (mesh.n_vertices, mesh.n_triangles) == (162, 320)
        assert mesh.area == pytest.approx(ball.area, rel=1e-5)
    with pytest.raises(FileNotFoundError, match=r"heart\.stl"):
        TriangleMesh.from_mesh(str(tmp_path / "heart.stl"))


@pytest.mark.parametrize("titles", [["lon", "lat"], ["Longitude", "Latitude"]])
def test_columns_in_degrees_are_refused_by_their_titles(titles):
    pandas = pytest.importorskip("pandas")
    points = pandas.DataFrame(np.random.default_rng(0).random((9, 2)), columns=titles)
    with pytest.raises(ValueError, match=rf"`points` must be in metres.*{titles[0]}.*estimate_utm"):
        TriangleMesh.from_points(points, max_edge=5.0)
    points.columns = ["platform", "x"]
    assert TriangleMesh.from_points(points).n_vertices > 9


def test_parts_that_are_not_connected_are_numbered():
    far = np.vstack([SQUARE, SQUARE + 5])
    mesh = TriangleMesh(far, np.vstack([HALVES, HALVES + 4]))
    assert mesh.parts.tolist() == [0] * 4 + [1] * 4
    assert mesh.area == 2.0


def test_points_of_frames_and_geometries_are_those_of_arrays(mesh):
    frame = pandas.DataFrame({"x": [0.2, 0.5], "y": [0.3, 0.9]})
    series = geopandas.GeoSeries([shapely.Point(*row) for row in frame.to_numpy()])
    wanted = mesh.weights(frame.to_numpy()).toarray()
    for places in (
        frame,
        series,
        geopandas.GeoDataFrame(geometry=series),
        frame.to_numpy().tolist(),
    ):
        np.testing.assert_array_equal(mesh.weights(places).toarray(), wanted)


def test_repeated_points_are_one_place():
    points = np.repeat(np.random.default_rng(0).random((10, 2)), 5, axis=0)
    once, often = TriangleMesh.from_points(points[::5]), TriangleMesh.from_points(points)
    np.testing.assert_array_equal(once.vertices, often.vertices)


REFUSED = {
    "a vertex that is not finite": (
        lambda: TriangleMesh([[0, 0], [1, np.nan], [0, 1]], [[0, 1, 2]]),
        r"`vertices`.*finite",
    ),
    "one coordinate": (
        lambda: TriangleMesh([[0], [1], [2]], [[0, 1, 2]]),
        r"`vertices` must have the shape \(n, 2\) or \(n, 3\)",
    ),
    "triangles of floats": (
        lambda: TriangleMesh(SQUARE, HALVES.astype(float)),
        r"`triangles` must be integers of shape \(T, 3\)",
    ),
    "no triangles": (
        lambda: TriangleMesh(SQUARE, np.zeros((0, 3), dtype=int)),
        r"`triangles` must be integers",
    ),
    "counted from 1": (
        lambda: TriangleMesh(SQUARE, HALVES + 1),
        r"`triangles` must have vertices in \[0, 3\], got 4; are they counted from 1\?",
    ),
    "a negative vertex": (
        lambda: TriangleMesh(SQUARE, [[0, 1, -1]]),
        r"`triangles` must have vertices in \[0, 3\], got -1",
    ),
    "a triangle without area": (
        lambda: TriangleMesh([[0, 0], [1, 0], [2, 0], [0, 1]], [[0, 1, 2], [0, 1, 3]]),
        r"`triangles` must have an area, but 1 have none, such as number 0.*leave them out",
    ),
    "a repeated corner": (
        lambda: TriangleMesh(SQUARE, [[0, 1, 1], [0, 2, 3]]),
        r"`triangles` must have an area, but 1 have none",
    ),
    "unused vertices": (
        lambda: TriangleMesh(SQUARE, [[0, 1, 2]]),
        r"`vertices` must each be a corner.*1 are not, such as 3.*numpy\.unique",
    ),
    "an edge of three triangles": (
        lambda: TriangleMesh(
            [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1]],
            [[0, 1, 2], [0, 1, 3], [0, 1, 4]],
        ),
        r"`triangles` must meet in pairs, but 1 edges have three triangles",
    ),
    "a triangle twice": (
        lambda: TriangleMesh(SQUARE, [[0, 1, 2], [0, 2, 3], [2, 1, 0]]),
        r"`triangles` must (meet in pairs|not overlap)",
    ),
    "a fold": (
        lambda: TriangleMesh([[0, 0], [1, 0], [0, 1], [0.1, 0.3]], [[0, 1, 2], [0, 1, 3]]),
        r"`triangles` must not overlap, but 1 pairs.*numbers \[0, 1\].*folded",
    ),
    "parts that cover each other": (
        lambda: TriangleMesh(np.vstack([SQUARE, SQUARE + 0.1]), np.vstack([HALVES, HALVES + 4])),
        r"`triangles` must not overlap, but the centres of \d are in others.*given twice",
    ),
    "a place outside": (
        lambda: TriangleMesh(SQUARE, HALVES).weights([[0.5, 0.5], [1.5, 0.5], [3.0, 0.5]]),
        r"`places` must lie in the mesh, but 2 of 3 do not: row 2 \(2 away\), row 1 \(0\.5 away\)",
    ),
    "a place far from a surface": (
        lambda: TriangleMesh.sphere(1).weights([[0, 0, 1], [0, 1, 0], [0, 0, 4]]),
        r"1 of 3 do not: row 2 \(3 away\); keep those with .*distances.* < 0\.582",
    ),
    "all places far from a surface": (
        lambda: TriangleMesh.sphere(1).weights([[0, 0, 4]]),
        r"1 of 1 do not: .*in the same unit",
    ),
    "a place that is not finite": (
        lambda: TriangleMesh(SQUARE, HALVES).weights([[0.5, np.inf]]),
        r"`places`.*finite",
    ),
    "three coordinates in the plane": (
        lambda: TriangleMesh(SQUARE, HALVES).weights([[0.5, 0.5, 0.0]]),
        r"`places` must have 2 coordinates.*got 3",
    ),
    "a place off a surface": (
        lambda: TriangleMesh.sphere(2).weights([[0.0, 0.0, 3.0]]),
        r"`places` must lie in the mesh, but 1 of 1.*\(2 away\).*same unit",
    ),
    "points with a height": (
        lambda: TriangleMesh.from_points(np.random.default_rng(0).random((9, 3))),
        r"`points` must have two coordinates.*leave out the height",
    ),
    "points on a line": (
        lambda: TriangleMesh.from_points([[0, 0], [1, 1], [2, 2]]),
        r"`points` must not all lie on a line, got 3 points: pass a `boundary`",
    ),
    "one point": (
        lambda: TriangleMesh.from_points([[0, 0]]),
        r"`points` must not all lie on a line, got 1 point",
    ),
    "no points": (lambda: TriangleMesh.from_points(np.zeros((0, 2))), r"`points`"),
    "points that are not finite": (
        lambda: TriangleMesh.from_points([[0, 0], [1, 0], [np.nan, 1]]),
        r"`points`.*finite",
    ),
    "nothing": (lambda: TriangleMesh.from_points(None), r"`points` or `boundary` must be given"),
    "degrees": (
        lambda: TriangleMesh.from_points(geopandas.GeoSeries([shapely.Point(1, 2)], crs=4326)),
        r"`points` must be in metres or kilometres.*degrees.*to_crs",
    ),
    "a boundary in degrees": (
        lambda: TriangleMesh.from_points(None, boundary=geopandas.GeoSeries([BOX], crs=4326)),
        r"`boundary` must be in metres.*to_crs",
    ),
    "two references": (
        lambda: TriangleMesh.from_points(
            geopandas.GeoSeries([shapely.Point(1, 2)], crs=32633),
            boundary=geopandas.GeoSeries([BOX], crs=3857),
        ),
        r"`boundary` must be in the coordinate reference system .*to_crs\(points\.crs\)",
    ),
    "a boundary that crosses itself": (
        lambda: TriangleMesh.from_points(
            None, boundary=shapely.Polygon([(0, 0), (1, 1), (1, 0), (0, 1)])
        ),
        r"`boundary` must be valid.*Self-intersection.*make_valid",
    ),
    "a line for a boundary": (
        lambda: TriangleMesh.from_points(None, boundary=shapely.LineString([(0, 0), (1, 1)])),
        r"`boundary` must be a polygon",
    ),
    "points outside the boundary": (
        lambda: TriangleMesh.from_points([[0.5, 0.5], [2, 2]], boundary=BOX, margin=0),
        r"`points` must lie in the `boundary`, but 1 of 2 do not, such as row 1",
    ),
    "points in a hole": (
        lambda: TriangleMesh.from_points(
            [[0.5, 0.5], [0.1, 0.1]], boundary=BOX.difference(shapely.box(0.3, 0.3, 0.7, 0.7))
        ),
        r"`points` must lie in the `boundary`.*1 of 2 do not, such as row 0",
    ),
    "points beyond the margin": (
        lambda: TriangleMesh.from_points([[0.5, 0.5], [3, 3]], boundary=BOX, margin=0.2),
        r"`points` must lie in the `boundary`.*1 of 2 do not, such as row 1.*margin",
    ),
    "an edge of 0": (lambda: TriangleMesh.from_points(SQUARE, max_edge=0), r"`max_edge`"),
    "a negative margin": (lambda: TriangleMesh.from_points(SQUARE, margin=-1), r"`margin`"),
    "another mesh": (
        lambda: TriangleMesh.from_mesh([1, 2]),
        r"`mesh` must be a file, a mesh of trimesh.*TriangleMesh\(vertices, triangles\)",
    ),
    "a mesh without triangles": (
        lambda: TriangleMesh.from_mesh(SimpleNamespace(points=SQUARE, cells_dict={"line": []})),
        r"`mesh` must have triangles, got cells \['line'\]",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_told(case):
    make, said = REFUSED[case]
    with pytest.raises((ValueError, TypeError), match=said):
        make()


def test_a_mesh_that_is_too_fine_names_an_edge_that_fits():
    with pytest.raises(
        MemoryError, match=r"about [\d,]+ vertices.*pass max_edge=[\d.e-]+ or longer"
    ):
        TriangleMesh.from_points(SQUARE, max_edge=1e-6)


def test_slivers_are_warned_of():
    with pytest.warns(UserWarning, match="1 of 1 triangles.*1.1 and.*177.7.*refined"):
        TriangleMesh([[0, 0], [1, 0], [0.5, 0.01]], [[0, 1, 2]])


def test_coordinates_that_look_like_degrees_are_warned_of():
    places = [-120.0, 40.0] + np.random.default_rng(0).random((20, 2))
    with pytest.warns(UserWarning, match="longitudes and latitudes.*TriangleMesh.sphere"):
        mesh = TriangleMesh.from_points(places)
    with pytest.warns(UserWarning, match="longitudes and latitudes"):
        TriangleMesh(mesh.vertices, mesh.triangles)


def test_obtuse_triangles_are_warned_of_by_their_share_of_the_area():
    # All angles are above 5 degrees: rows of points far apart, joined along the rows.
    flat = np.array([[0, 0], [2, 0], [1, 0.2], [1, -0.2]])
    halves = np.array([[0, 1, 2], [1, 0, 3]])
    with pytest.warns(UserWarning, match=r"2 of 2 triangles, with 100.0% .*157.*max_edge=1\)"):
        mesh = TriangleMesh(flat, halves)
    # the same in smaller triangles is what the warning asks for
    assert mesh.refined(0.1).n_triangles > 100
    beside = TriangleMesh.from_points(None, boundary=shapely.box(9, 9, 19, 19), max_edge=2.0)
    few = np.vstack([flat, beside.vertices]), np.vstack([halves, beside.triangles + 4])
    assert TriangleMesh(*few).n_triangles == beside.n_triangles + 2


def test_places_off_a_surface_by_more_than_its_edges_are_named():
    mesh = TriangleMesh.sphere(3)
    edge = np.median(mesh.edge_lengths)
    on = np.random.default_rng(0).standard_normal((20, 3))
    places = on / np.linalg.norm(on, axis=1, keepdims=True)
    mesh.weights(places * (1 + 0.9 * edge))  # without a word
    places[[3, 7]] *= [[1 + 1.2 * edge], [1 + 1.5 * edge]]
    with pytest.warns(UserWarning, match=r"2 of 20 .*: row 7 \(0\.\d+ away\), row 3 .*< 0\.1"):
        mesh.weights(places)
    frame = pandas.DataFrame(places, columns=["x", "y", "z"], index=[f"e{k}" for k in range(20)])
    with pytest.warns(UserWarning, match=r"row 'e7' \(0\.\d+ away\), row 'e3' \("):
        mesh.weights(frame)
    far = frame.mul(np.where(frame.index == "e5", 4.0, 1.0), axis=0)
    with pytest.raises(ValueError, match=r"1 of 20 do not: row 'e5' \(3 away\); keep those"):
        mesh.weights(far)


def test_coordinates_in_the_place_of_triangles_are_told():
    with pytest.raises(ValueError, match=r"`triangles`.*these are coordinates; .*from_points"):
        TriangleMesh(SQUARE, SQUARE[:, [0, 1, 1]] + 0.5)


def test_vertices_with_other_numbers_than_in_the_file_are_told(tmp_path):
    square = "v 0 0 0\nv 1 0 0\nv 1 1 1\nv 1 0 0\nv 0 1 0\nf 1 2 3\nf 1 3 5\nf 4 3 2\n"
    (tmp_path / "part.obj").write_text(square.replace("f 4 3 2\n", "f 5 3 4\n"))
    with pytest.warns(UserWarning, match="1 of 5 vertices of part.obj .* from number 3 on"):
        mesh = TriangleMesh.from_mesh(tmp_path / "part.obj")
    assert mesh.n_vertices == 4


def test_triangles_of_a_sphere_run_counterclockwise_seen_from_outside():
    mesh = TriangleMesh.sphere(2, radius=3.0)
    corners = mesh.vertices[mesh.triangles]
    assert (np.linalg.det(corners) > 0).all()
