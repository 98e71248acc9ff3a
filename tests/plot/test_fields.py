"""Fields on meshes and lattices: what the image holds, what is cut off, and common colours."""

from __future__ import annotations

from io import BytesIO
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="figures need the extra `plot`")

from matplotlib.figure import Figure

from graphrf import plot
from graphrf.gp import TriangleMesh

# Nine vertices, eight triangles: [0, 2] x [0, 2].
VERTICES = np.array([[x, y] for y in range(3) for x in range(3)], dtype=float)
CELLS = [0, 1, 3, 4]
TRIANGLES = np.array([t for v in CELLS for t in ((v, v + 1, v + 4), (v, v + 4, v + 3))])
MESH = TriangleMesh(VERTICES, TRIANGLES)
X = VERTICES[:, 0]
SURFACE = TriangleMesh.sphere(1)
LATTICE = np.array([[x, y] for y in (10.0, 12.0, 14.0) for x in (0.0, 0.5, 1.0, 1.5)])
UNIT_SQUARE = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]


def saved(figure, **options) -> np.ndarray:
    """The grey values of the saved figure."""
    from PIL import Image

    file = BytesIO()
    figure.savefig(file, **options)
    with Image.open(file) as image:
        return np.asarray(image.convert("L"))


def test_an_image_holds_the_linear_interpolant_and_nothing_outside_the_mesh():
    triangle = SimpleNamespace(vertices=[[0, 0], [1, 0], [0, 1]], triangles=[[0, 1, 2]])
    ax = plot.plot_field(triangle, [1.0, 3.0, 6.0], label="heat (K)", unit="mm")
    (image,) = ax.images
    picture = np.ma.filled(image.get_array(), np.nan)
    rows, columns = picture.shape
    x, y = np.meshgrid((np.arange(columns) + 0.5) / columns, (np.arange(rows) + 0.5) / rows)
    inside = x + y < 1 - 1e-9
    np.testing.assert_allclose(picture[inside], (1 + 2 * x + 5 * y)[inside])
    assert np.isnan(picture[x + y > 1 + 1e-9]).all()
    assert image.get_extent() == [0.0, 1.0, 0.0, 1.0]
    assert image.get_clim() == (1.0, 6.0)
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_aspect()) == ("x (mm)", "y (mm)", 1.0)
    assert image.colorbar.ax.get_xlabel() == "heat (K)"


def test_a_boundary_cuts_the_picture_off_and_colours_are_those_within_it():
    ax = plot.plot_field(MESH, X, boundary=UNIT_SQUARE)
    (image,) = ax.images
    assert image.get_extent() == [0.0, 1.0, 0.0, 1.0]
    assert image.get_clim() == (0.0, 1.0)
    assert ax.get_xlim() == pytest.approx((-0.02, 1.02))
    # The corners of a small boundary lie within triangles.
    small = plot.plot_field(MESH, X, boundary=[[0.25, 0.2], [0.75, 0.2], [0.5, 0.4]])
    assert small.images[0].get_clim() == pytest.approx((0.25, 0.75))


def test_holes_of_a_boundary_are_left_white():
    shapely = pytest.importorskip("shapely")
    hole = [(0.5, 0.5), (1.5, 0.5), (1.5, 1.5), (0.5, 1.5)]
    for ring in (hole, hole[::-1]):
        region = shapely.Polygon(VERTICES[[0, 2, 8, 6]], [ring])
        ax = plot.plot_field(MESH, np.zeros(9), boundary=region)
        ax.set_axis_off()
        pixels = saved(ax.figure)
        place = ax.transData.transform([[1.0, 1.0], [0.25, 0.25]]).astype(int)
        centre, corner = (pixels[len(pixels) - y, x] for x, y in place)
        assert (centre, corner < 255) == (255, True)


def test_values_in_holes_do_not_count_and_parts_of_a_region_do():
    shapely = pytest.importorskip("shapely")
    values = np.where(np.arange(9) == 4, 99.0, X)
    square = shapely.box(0, 0, 2, 2)
    pierced = square.difference(shapely.box(0.9, 0.9, 1.1, 1.1))
    assert plot.plot_field(MESH, values, boundary=pierced).images[0].get_clim()[1] < 99
    parts = shapely.MultiPolygon([shapely.box(0, 0, 0.5, 2), shapely.box(1.5, 0, 2, 2)])
    assert plot.plot_field(MESH, X, boundary=parts).images[0].get_clim() == (0.0, 2.0)


def test_a_frame_of_polygons_and_one_of_points_are_taken():
    geopandas = pytest.importorskip("geopandas")
    shapely = pytest.importorskip("shapely")
    region = geopandas.GeoDataFrame(
        {"name": ["a", "b"]}, geometry=[shapely.box(0, 0, 1, 1), shapely.box(1, 0, 2, 1)]
    )
    points = geopandas.GeoSeries.from_xy([0.5, 1.5], [0.5, 0.5])
    ax = plot.plot_field(MESH, X, boundary=region, points=points)
    assert ax.images[0].get_extent() == [0.0, 2.0, 0.0, 1.0]
    np.testing.assert_array_equal(ax.collections[0].get_offsets(), [[0.5, 0.5], [1.5, 0.5]])


def test_a_vertex_without_a_value_leaves_its_triangles_white():
    ax = plot.plot_field(MESH, np.where(np.arange(9) == 0, np.nan, X))
    picture = np.ma.filled(ax.images[0].get_array(), np.nan)
    rows, columns = picture.shape
    assert np.isnan(picture[rows // 4, columns // 8])
    assert np.isfinite(picture[3 * rows // 4, columns // 8])
    assert ax.images[0].get_clim() == (0.0, 2.0)


def test_a_lattice_has_a_pixel_for_each_place_in_any_order():
    order = np.random.default_rng(0).permutation(12)[:-1]
    values = np.arange(12.0)
    ax = plot.plot_field(LATTICE[order], values[order])
    picture = np.ma.filled(ax.images[0].get_array(), np.nan)
    wanted = values.copy()
    wanted[np.setdiff1d(np.arange(12), order)] = np.nan
    np.testing.assert_array_equal(picture, wanted.reshape(3, 4))
    assert ax.images[0].get_extent() == [-0.25, 1.75, 9.0, 15.0]


def test_places_of_a_lattice_may_be_rounded():
    places = np.round(np.column_stack([np.arange(30) / 3, np.zeros(30)]), 3)
    ax = plot.plot_field(places, np.arange(30.0))
    np.testing.assert_array_equal(ax.images[0].get_array(), np.arange(30.0)[None])


def test_degrees_keep_their_shape():
    ax = plot.plot_field(LATTICE + [0, 48], np.ones(12), geographic=True)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("longitude (°)", "latitude (°)")
    assert ax.get_aspect() == pytest.approx(2.0)


def test_a_surface_is_drawn_as_a_mesh():
    values = SURFACE.vertices[:, 2]
    shapes = [
        ax.collections[0]
        for ax in (
            plot.plot_field(SURFACE, values),
            plot.plot_mesh(SURFACE.vertices, SURFACE.triangles, values, on="vertices"),
        )
    ]
    np.testing.assert_array_equal(*[some.get_facecolor() for some in shapes])
    figure = plot.plot_fields(SURFACE, values, np.abs(values))
    drawn = [len(ax.collections[0].get_paths()) for ax in figure.axes[:2]]
    assert drawn == [len(shapes[0].get_paths())] * 2


def test_the_edges_of_a_mesh_are_drawn_once_with_points_on_top():
    ax = plot.plot_triangulation(MESH, points=[[0.5, 0.5]], unit="km", boundary=UNIT_SQUARE)
    lines, dots = ax.collections
    assert len(lines.get_segments()) == len(MESH.edges)
    np.testing.assert_array_equal(dots.get_offsets(), [[0.5, 0.5]])
    assert dots.get_zorder() > lines.get_zorder()
    assert ax.get_xlim() == pytest.approx((-0.02, 1.02))
    assert ax.get_xlabel() == "x (km)"


def test_years_share_their_colours_and_deviations_have_their_own():
    years = {2003: X, 2005: X + 3}
    spread = {2003: X / 10, 2005: X / 5}
    figure = plot.plot_fields(
        MESH, years, spread, label="density", unit="km", points={2005: [[1.0, 1.0]]}
    )
    maps = [ax for ax in figure.axes if ax.images]
    assert [ax.get_title() for ax in maps] == ["2003", "2005"] * 2
    colours = [(ax.images[0].get_cmap().name, ax.images[0].get_clim()) for ax in maps]
    assert colours == [(plot.VALUES, (0.0, 5.0))] * 2 + [(plot.DEVIATIONS, (0.0, 0.4))] * 2
    assert [len(ax.collections) for ax in maps] == [0, 1, 0, 1]
    bars = [ax for ax in figure.axes if not ax.images]
    assert [bar.get_xlabel() for bar in bars] == ["density", "standard deviation of the density"]
    assert [ax.get_ylabel() for ax in maps] == ["y (km)", ""] * 2


def test_a_mean_stands_beside_its_deviation_in_a_given_figure():
    figure = Figure(figsize=(6, 3), layout="constrained")
    filled = plot.plot_fields(MESH, X, X / 2, limits=(0.5, 1.0), figure=figure, label="heat")
    assert filled is figure
    assert tuple(figure.get_size_inches()) == (6, 3)
    mean, deviation, *bars = figure.axes
    assert [ax.get_title() for ax in (mean, deviation)] == ["posterior mean", "standard deviation"]
    assert mean.get_subplotspec().rowspan == deviation.get_subplotspec().rowspan
    assert mean.images[0].get_clim() == (0.5, 1.0)
    assert mean.images[0].colorbar.extend == "both"
    assert deviation.images[0].get_clim() == (0.0, 1.0)
    assert [bar.get_xlabel() for bar in bars] == ["heat", "standard deviation of the heat"]


@pytest.mark.parametrize("width", [3.35, 6.7])
@pytest.mark.parametrize("tall", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("years", [1, 3, 7])
def test_titles_and_labels_lie_within_the_figure_and_apart(width, tall, years):
    places = LATTICE * [100, 25 * tall] + [400, 5_000]
    fields = {year: np.arange(12.0) for year in range(years)}
    with plot.style(width=width):
        figure = plot.plot_fields(places, fields, fields, label="log density (kg/km²)", unit="km")
        grey = saved(figure)
    drawn = np.argwhere(grey < 250)
    edges = [*drawn.min(axis=0), *(np.array(grey.shape) - drawn.max(axis=0) - 1)]
    assert min(edges) >= 2
    assert figure.get_figwidth() == width

    figure.draw_without_rendering()  # with the figure's own resolution
    labels = [
        part.get_window_extent()
        for ax in figure.axes
        for part in (ax.title, ax.xaxis.label, ax.yaxis.label)
        if part.get_text()
    ]
    bars = [ax.get_window_extent() for ax in figure.axes if not ax.images]
    overlapping = [
        (one, other)
        for number, one in enumerate(labels)
        for other in [*labels[number + 1 :], *bars]
        if one.overlaps(other)
    ]
    assert overlapping == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: plot.plot_field(MESH, [1.0]),
            r"`values` must have one entry per vertex of the domain, shape \(9,\), got \(1,\)",
        ),
        (lambda: plot.plot_field(LATTICE, [1.0]), r"one entry per place of the domain"),
        (
            lambda: plot.plot_fields(MESH, {1: X, 2: X[1:]}),
            r"`values\['2'\]` must have one entry per vertex",
        ),
        (lambda: plot.plot_fields(MESH, {}), "`values` must hold at least one panel"),
        (lambda: plot.plot_fields(MESH, X, -X), "`deviation` must be standard deviations"),
        (
            lambda: plot.plot_fields(MESH, {1: X, 2: X}, points={3: [[0, 0]]}),
            "`points` must have titles of panels as keys, got '3'",
        ),
        (lambda: plot.plot_field("mesh", X), "`domain` must be a TriangleMesh, or"),
        (
            lambda: plot.plot_field(np.random.default_rng(0).random((50, 2)), np.ones(50)),
            "`domain` must be .* got scattered places.*geographic=True",
        ),
        (
            lambda: plot.plot_field(np.vstack([LATTICE, LATTICE]), np.ones(24)),
            "`domain` must have each place of a lattice once, got 24 places in 12 cells",
        ),
        (
            lambda: plot.plot_field(MESH, X, boundary=np.add(UNIT_SQUARE, 5_000)),
            "`boundary` must overlap .* x 5000 to 5001.*same units",
        ),
        (
            lambda: plot.plot_fields(
                [[0, 0], [1, 0], [0, 1]], [1.0, 2.0, 3.0], boundary=[[0.9, 0.9], [2, 0.9], [2, 2]]
            ),
            "`boundary` must be the region that is kept, .* no place .* the sea, .*`barrier`",
        ),
        (lambda: plot.plot_field(MESH, X, boundary="sea"), "`boundary` must be a polygon"),
        (
            lambda: plot.plot_field(MESH, X, boundary=[[0, 0], [1, np.nan], [1, 1]]),
            "`boundary` must have finite corners",
        ),
        (
            lambda: plot.plot_field(
                MESH,
                X,
                boundary=SimpleNamespace(__geo_interface__={"type": "Point", "coordinates": 1}),
            ),
            "`boundary` must hold polygons alone, got a Point",
        ),
        (
            lambda: plot.plot_field(
                MESH,
                X,
                boundary=SimpleNamespace(__geo_interface__={"type": "Polygon", "coordinates": ()}),
            ),
            "`boundary` must hold at least one polygon",
        ),
        (lambda: plot.plot_field(MESH, X, points=[1.0]), r"`points` must be numbers of shape"),
        (
            lambda: plot.plot_field(SURFACE, np.ones(42), boundary=UNIT_SQUARE),
            "`boundary` must be None on a surface",
        ),
        (
            lambda: plot.plot_field(SURFACE, np.ones(42), points=[[0, 0]]),
            "`points` must be None on a surface",
        ),
        (lambda: plot.plot_triangulation(SURFACE), "`mesh` must be planar, got 3 coordinates"),
        (lambda: plot.plot_triangulation(X), "`mesh` must be a TriangleMesh"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
