"""Values on edges: lines as given, values by labels, the aspect of maps in degrees."""

import networkx as nx
import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="figures need the extra `plot`")

from graphrf import plot
from graphrf.plot._edges import lines_of

BEND = [[1.0, 0.0], [1.5, 0.5], [1.0, 1.0]]


def drawn(ax):
    """Coloured lines and their values."""
    return ax.collections[1].get_segments(), ax.collections[1].get_array()


def test_lines_have_their_geometry_and_values():
    ax = plot.plot_edges(
        [[[0, 0], [1, 0]], BEND, [[1, 1], [0, 1]]], [3.0, np.nan, 5.0], label="speed (km/h)"
    )
    lines, values = drawn(ax)
    np.testing.assert_array_equal(values, [3.0, 5.0])
    np.testing.assert_array_equal(lines[1], [[1, 1], [0, 1]])
    np.testing.assert_array_equal(ax.collections[0].get_segments()[0], BEND)
    assert ax.get_aspect() == 1
    assert ax.figure.axes[1].get_xlabel() == "speed (km/h)"
    x, y = ax.get_xlim(), ax.get_ylim()
    assert (x[0] <= 0, x[1] >= 1.5, y[0] <= 0, y[1] >= 1) == (True,) * 4


def test_a_line_of_several_parts_is_one_edge():
    shapely = pytest.importorskip("shapely")
    both = shapely.MultiLineString([[(0, 0, 7), (1, 0, 7)], [(2, 0, 7), (3, 0, 7)]])
    lines, values = drawn(plot.plot_edges([both, shapely.LineString(BEND)], [1.0, 2.0]))
    np.testing.assert_array_equal(values, [1.0, 1.0, 2.0])
    np.testing.assert_array_equal(lines[1], [[2, 0], [3, 0]])


def test_edges_of_a_graph_and_of_its_map_are_the_same():
    geopandas, shapely = pytest.importorskip("geopandas"), pytest.importorskip("shapely")
    pandas = pytest.importorskip("pandas")
    graph = nx.MultiDiGraph()
    for node, (x, y) in enumerate([(0.0, 0.0), (1.0, 0.0), (1.0, 1.0)]):
        graph.add_node(node, x=x, y=y)
    graph.add_edge(0, 1)
    graph.add_edge(1, 2, geometry=shapely.LineString(BEND))
    lines = [shapely.LineString([(0, 0), (1, 0)]), shapely.LineString(BEND)]
    table = geopandas.GeoDataFrame(
        {"speed": [30.0, 50.0]},
        geometry=lines,
        index=pandas.MultiIndex.from_tuples(graph.edges, names=["u", "v", "key"]),
    )
    for source in (graph, table, table.geometry, lines):
        for values in ([30.0, 50.0], table["speed"]):
            shown, colours = drawn(plot.plot_edges(source, values))
            np.testing.assert_array_equal(colours, [30.0, 50.0])
            np.testing.assert_array_equal(shown[1], BEND)
    for source in (graph, table):  # by labels, in whatever order
        np.testing.assert_array_equal(
            drawn(plot.plot_edges(source, table["speed"].iloc[::-1]))[1], [30.0, 50.0]
        )
        np.testing.assert_array_equal(  # some of them: the others are grey
            drawn(plot.plot_edges(source, table["speed"].iloc[1:]))[1], [50.0]
        )
        with pytest.raises(ValueError, match="got labels that repeat"):
            plot.plot_edges(source, table["speed"].iloc[[1, 1]])
        with pytest.raises(
            ValueError, match=r"labels of the edges, such as \(0, 1, 0\), got 0, 1, which no edge"
        ):
            plot.plot_edges(source, table["speed"].reset_index(drop=True))


def test_text_as_in_graphml_is_read(tmp_path):
    shapely = pytest.importorskip("shapely")
    streets = nx.MultiDiGraph(crs="epsg:4326")
    streets.add_node(1, x="4.83", y="45.75")  # OSMnx writes all attributes as text
    streets.add_node(2, x="4.84", y="45.76")
    bend = [(4.83, 45.75), (4.84, 45.75), (4.84, 45.76)]
    streets.add_edge(1, 2, geometry=shapely.LineString(bend).wkt)
    streets.add_edge(2, 1)
    nx.write_graphml(streets, tmp_path / "city.graphml")
    found = lines_of(nx.read_graphml(tmp_path / "city.graphml", force_multigraph=True))
    np.testing.assert_allclose(found.parts[0], bend)
    np.testing.assert_allclose(found.parts[1], [bend[-1], bend[0]])
    assert found.crs == "epsg:4326"
    streets.edges[2, 1, 0]["geometry"] = "LINE (4"
    with pytest.raises(ValueError, match=r"`lines` must have .*well-known text.*'LINE .4' at edge"):
        lines_of(streets)


def test_two_directions_are_drawn_beside_one_another_each_on_its_right():
    there, back, other = (
        [[0.0, 0.0], [0.0, 10.0]],
        [[0.0, 10.0], [0.0, 0.0]],
        [[0.0, 0.0], [5.0, 0.0]],
    )
    lines, _ = drawn(plot.plot_edges([there, back, other], [1.0, 2.0, 3.0]))
    assert lines[0][0, 0] == lines[0][1, 0] > 0 > lines[1][0, 0] == -lines[0][0, 0]
    np.testing.assert_array_equal(lines[2], other)
    loop = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]
    np.testing.assert_array_equal(drawn(plot.plot_edges([loop], [1.0]))[0][0], loop)
    bent = [[0.0, 0.0], [4.0, 0.0], [4.0, 0.0], [4.0, 4.0]]
    moved, _ = drawn(plot.plot_edges([bent, bent[::-1]], [1.0, 2.0]))
    assert np.isfinite(moved[0]).all()
    assert (moved[0][0, 0], moved[0][0, 1] < 0, moved[0][-1, 0] > 4, moved[0][-1, 1]) == (
        0,
        True,
        True,
        4,
    )


def test_the_more_edges_the_thinner():
    widths = []
    for n in (20, 40, 60):
        graph = nx.convert_node_labels_to_integers(nx.grid_2d_graph(n, n))
        nx.set_node_attributes(graph, {u: {"x": u // n, "y": u % n} for u in graph})
        ax = plot.plot_edges(graph, np.ones(graph.size()))
        nodes = [[u // n + 0.1 * (u % 3), u % n] for u in graph]  # no lattice
        points = plot.plot_graph_signal(nodes, list(graph.edges), np.ones(n * n))
        widths.append(
            [*ax.collections[1].get_linewidths(), *points.collections[1].get_linewidths()]
        )
    assert (np.diff(widths, axis=0) < 0).all(), widths
    assert np.min(widths) >= 0.3


CITY = np.array([[-122.30, 37.80], [-122.25, 37.80], [-122.27, 37.84]])


@pytest.mark.parametrize(
    ("places", "degrees"),
    [
        (CITY, True),
        (CITY * [1, -1], True),  # south of the equator
        ([[-122.0, 47.6], [-71.1, 42.4], [-80.2, 25.8]], True),  # a continent
        ([[-0.2, 51.4], [0.1, 51.6]], True),
        ([[-0.2, 5.4], [0.1, 5.6]], False),  # near the equator, where it does not matter
        ([[-170.5, -60.5], [170.5, 70.5]], False),  # the world
        (np.random.default_rng(0).random((9, 2)), False),  # a unit square, as layouts are
        (np.random.default_rng(0).standard_normal((9, 2)), False),
        ([[0, 12], [1, 12], [1, 14]], False),  # rows and columns of a grid
        ([[553_000.5, 4_182_000.5], [554_000.5, 4_183_000.5]], False),  # metres
        ([[0.5, 0.5], [80.5, 60.5]], False),
    ],
)
def test_degrees_are_recognised_and_keep_their_shape(places, degrees):
    places = np.asarray(places, dtype=float)
    stretch = 1 / np.cos(np.radians(places[:, 1].mean()))
    ax = plot.plot_edges([places], [1.0])
    assert ax.get_aspect() == (pytest.approx(stretch) if degrees else 1)
    assert ax.get_xlabel() == ("longitude (°)" if degrees else "")


@pytest.mark.parametrize(("places", "degrees"), [(CITY, True), ([[0.0, 0.1], [1.0, 0.5]], False)])
def test_maps_of_nodes_recognise_degrees_as_those_of_edges_do_unless_it_is_said(places, degrees):
    places = np.asarray(places)
    values, line = np.ones(len(places)), [[0, 1]]
    stretch = 1 / np.cos(np.radians(places[:, 1].mean()))
    for geographic in (None, True, False):
        shown = degrees if geographic is None else geographic
        ax = plot.plot_graph_signal(places, line, values, geographic=geographic)
        assert ax.get_aspect() == (pytest.approx(stretch) if shown else 1)
        assert ax.get_xlabel() == ("longitude (°)" if shown else "")
    ax = plot.plot_map_posterior(places, values, values, edges=line).axes[0]
    assert ax.get_aspect() == (pytest.approx(stretch) if degrees else 1)


def test_what_a_map_says_of_its_coordinates_is_believed():
    geopandas, shapely = pytest.importorskip("geopandas"), pytest.importorskip("shapely")
    lines = geopandas.GeoSeries([shapely.LineString(CITY)])
    assert plot.plot_edges(lines.set_crs("EPSG:32610"), [1.0]).get_aspect() == 1
    near = geopandas.GeoSeries([shapely.LineString([(-0.2, 5.4), (0.1, 5.6)])], crs="EPSG:4326")
    assert plot.plot_edges(near, [1.0]).get_xlabel() == "longitude (°)"
    graph = nx.Graph([(0, 1)], crs="epsg:4326")
    nx.set_node_attributes(graph, {0: {"x": 0.0, "y": 1.0}, 1: {"x": 1.0, "y": 1.0}})
    assert plot.plot_edges(graph, [1.0]).get_xlabel() == "longitude (°)"


@pytest.mark.parametrize(
    ("lines", "values", "said"),
    [
        ([BEND], [1.0, 2.0], r"`values` must have one entry per edge, shape \(1,\), got \(2,\)"),
        (
            [[[0, 0]]],
            [1.0],
            r"must have coordinates of shape \(n, 2\) for each edge, got \(1, 2\) at edge 0",
        ),
        (3, [1.0], "`lines` must be a GeoDataFrame of lines, a networkx graph"),
        (nx.Graph([(0, 1)]), [1.0], r"whose nodes have x and y, but edge \(0, 1\) has neither"),
    ],
)
def test_what_is_no_line_is_refused(lines, values, said):
    with pytest.raises((ValueError, TypeError), match=said):
        plot.plot_edges(lines, values)


def test_points_are_no_lines():
    shapely = pytest.importorskip("shapely")
    with pytest.raises(ValueError, match="must have lines only, got Point at edge 0"):
        plot.plot_edges([shapely.Point(0, 0)], [1.0])
