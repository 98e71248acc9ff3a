"""Maps of areas: polygons filled with their values, those without a value hatched."""

import unicodedata

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="figures need the extra `plot`")

from matplotlib.figure import Figure

from graphrf import plot

shapely = pytest.importorskip("shapely", reason="areas need the extra `areal`")
pandas = pytest.importorskip("pandas")
geopandas = pytest.importorskip("geopandas", reason="areas need the extra `areal`")

HOLE = shapely.Polygon([(0, 0), (4, 0), (4, 4), (0, 4)], [[(1, 1), (3, 1), (3, 3), (1, 3)]])
TWO = shapely.MultiPolygon([shapely.box(5, 0, 6, 1), shapely.box(5, 2, 6, 3)])
INNER = shapely.box(1, 1, 3, 3)
MAP = geopandas.GeoDataFrame(
    {"risk": [1.0, 2.0, np.nan]}, geometry=[HOLE, TWO, INNER], index=["Ayr", "Bute", "Clyde"]
)


def filled(ax):
    """The paths that have a colour, and their values."""
    return ax.collections[1].get_paths(), ax.collections[1].get_array()


def pixel(figure, ax, place):
    """The colour at a place of the map, from 0 to 255."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    x, y = ax.transData.transform(place)
    image = np.asarray(canvas.buffer_rgba())
    return image[image.shape[0] - 1 - int(y), int(x), :3].astype(int)


def test_areas_are_filled_with_holes_and_parts():
    from matplotlib import colormaps

    ax = plot.plot_areas(MAP, MAP["risk"], label="relative risk")
    paths, values = filled(ax)
    np.testing.assert_array_equal(values, [1.0, 2.0])
    assert [len(np.unique(path.vertices, axis=0)) for path in paths] == [8, 8]
    low, high = (np.array(colormaps["viridis"](end)[:3]) * 255 for end in (0.0, 1.0))
    for place, colour in (((0.5, 2), low), ((5.5, 0.5), high), ((5.5, 2.5), high)):
        assert np.abs(pixel(ax.figure, ax, place) - colour).max() < 3, place
    assert (pixel(ax.figure, ax, (5.5, 1.5)) == 255).all()  # between the parts
    assert ax.collections[0].get_hatch()
    assert len(ax.collections[0].get_paths()) == 1
    assert ax.get_aspect() == 1
    assert ax.figure.axes[1].get_xlabel() == "relative risk"


def test_a_series_is_matched_by_the_names_of_areas():
    mixed = MAP["risk"].iloc[[2, 0, 1]]
    for source in (MAP, MAP.geometry):
        np.testing.assert_array_equal(filled(plot.plot_areas(source, mixed))[1], [1.0, 2.0])
    figure = plot.plot_map_posterior(MAP, mixed, mixed / 10, observed=mixed)
    maps = [ax for ax in figure.axes if ax.get_title()]
    assert [ax.get_title() for ax in maps] == ["observed", "posterior mean", "standard deviation"]
    np.testing.assert_allclose(filled(maps[-1])[1], [0.1, 0.2])
    with pytest.raises(ValueError, match="`deviation` must have the labels of the places"):
        plot.plot_map_posterior(MAP, mixed, mixed.rename({"Ayr": "Oban"}))


def test_accents_that_look_alike_are_one_name_as_in_a_fit():
    names = ["Cádiz", "Mérida", "Padul"]
    composed = MAP.set_axis(names, axis=0)
    marks = composed["risk"].rename(lambda name: unicodedata.normalize("NFD", name))
    assert marks.index[0] != names[0]
    for source, values in ((composed, marks), (composed.set_axis(marks.index), composed["risk"])):
        np.testing.assert_array_equal(filled(plot.plot_areas(source, values[::-1]))[1], [1.0, 2.0])


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (
            ["Ayr", "Bute ", "Clyde"],
            r"'Bute ', .* mean 'Bute'\? \('Bute ' has a space at its end\)",
        ),
        (
            ["AYR", "BUTE", "CLYDE"],
            r"got 'AYR', 'BUTE', 'CLYDE', which no area has; did you .*'Ayr'",
        ),
        ([*"vwxyz"], r"got 'v', 'w', 'x' and 2 more, which no area has; rename .*values.reindex"),
        (["Ayr", "Ayr", "Bute"], r"labels that repeat: take means, values.groupby"),
    ],
)
def test_labels_that_no_area_has_are_named(labels, message):
    values = pandas.Series(np.arange(len(labels), dtype=float), index=labels)
    with pytest.raises(ValueError, match=message) as raised:
        plot.plot_areas(MAP, values)
    assert "to_numpy" not in str(raised.value)


def test_areas_without_a_geometry_are_left_out():
    some = [HOLE, None, shapely.Polygon(), TWO]
    paths, values = filled(plot.plot_areas(some, [1.0, 2.0, 3.0, 4.0]))
    assert len(paths) == 2
    np.testing.assert_array_equal(values, [1.0, 4.0])


def test_the_unit_of_a_map_is_on_its_scale_bar():
    def bars(ax):
        return [
            text.get_text() for text in ax.findobj(match=lambda a: hasattr(a, "get_text")) if text
        ]

    metres = MAP.set_geometry(MAP.geometry.scale(1e4, 1e4, origin=(0, 0))).set_crs("EPSG:32610")
    assert "20 km" in bars(plot.plot_areas(metres, MAP["risk"]))
    assert "2 mm" in bars(plot.plot_areas(MAP, MAP["risk"], unit="mm"))
    assert "2 mm" not in bars(plot.plot_areas(MAP, MAP["risk"]))
    degrees = MAP.set_crs("EPSG:4326")
    assert plot.plot_areas(degrees, MAP["risk"]).get_xlabel() == "longitude (°)"


def test_a_new_figure_is_as_flat_as_its_map():
    flat = plot.plot_areas([shapely.box(0, 0, 20, 5)], [1.0])
    high = plot.plot_areas([shapely.box(0, 0, 20, 20)], [1.0])
    assert flat.figure.get_figheight() < 0.7 * high.figure.get_figheight()
    ax = Figure(figsize=(4, 4)).add_subplot()
    assert plot.plot_areas([shapely.box(0, 0, 20, 5)], [1.0], ax=ax) is ax
    assert ax.figure.get_figheight() == 4


def test_logarithmic_colours_have_values_up_to_0_below_all_others():
    from matplotlib.colors import LogNorm

    boxes = [shapely.box(k, 0, k + 1, 1) for k in range(4)]
    ax = plot.plot_areas(boxes, [0.0, 1.0, 10.0, 1000.0], norm="log")
    shapes = ax.collections[1]
    assert isinstance(shapes.norm, LogNorm)
    assert (shapes.norm.vmin, shapes.norm.vmax) == (1.0, 1000.0)
    colours = shapes.cmap(shapes.norm(shapes.get_array()))
    np.testing.assert_array_equal(colours[0], colours[1])
    np.testing.assert_allclose(shapes.norm(10.0), 1 / 3)
    assert shapes.colorbar.extend == "min"
    lines = plot.plot_edges([[[0, 0], [1, 0]], [[1, 0], [2, 1]]], [1.0, 100.0], norm="log")
    assert isinstance(lines.collections[1].norm, LogNorm)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plot.plot_areas([shapely.Point(0, 0)], [1.0]), "`areas` must be a GeoDataFrame"),
        (lambda: plot.plot_areas([HOLE, shapely.Point(0, 0)], [1.0, 2.0]), "got Point at 1"),
        (lambda: plot.plot_areas(MAP, [1.0]), r"one entry per area, shape \(3,\), got \(1,\)"),
        (lambda: plot.plot_areas(MAP, MAP["risk"], norm="sqrt"), "`norm` must be"),
        (lambda: plot.plot_areas(MAP, -MAP["risk"], norm="log"), "`norm` must be 'linear'"),
    ],
)
def test_bad_areas(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()
