"""Maps of geopandas: tolerances, weights of lines of several parts, degrees, names."""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
import pytest

from graphrf.graph.loaders import load_graph

geopandas, shapely = pytest.importorskip("geopandas"), pytest.importorskip("shapely")


def streets(moved=0.0, size=100.0, seed=0, n=4):
    """The 24 streets of a grid of 16 junctions, each end moved by itself."""
    rng = np.random.default_rng(seed)
    junctions = list(np.ndindex(n, n))
    pairs = [
        ((x, y), end) for x, y in junctions for end in ((x + 1, y), (x, y + 1)) if end in junctions
    ]
    lines = [size * np.array(pair) + moved * rng.uniform(-1, 1, (2, 2)) for pair in pairs]
    return geopandas.GeoSeries([shapely.LineString(line) for line in lines])


def districts(moved=0.0, apart=0.0):
    rng = np.random.default_rng(0)
    corners = np.array([[0, 0], [1, 0], [1, 1], [0, 1]])
    made = [1000 * corners + (1000 + apart) * np.array(at) for at in np.ndindex(4, 4)]
    return geopandas.GeoSeries(
        [shapely.Polygon(area + moved * rng.uniform(-1, 1, (4, 2))) for area in made]
    )


# -- areas -----------------------------------------------------------------------------------------


def test_districts_whose_corners_differ_are_neighbours_without_a_word():
    for moved in (0.0, 1e-9, 1e-6, 1e-3):
        assert load_graph(districts(moved)).n_edges == 24  # warnings are errors


def test_a_map_without_borders_is_told_with_the_way_out():
    gaps = districts(apart=50.0)
    message = (
        "16 of the 16 areas have no edge, "
        ".* pass tolerance=, the width of the gaps .* the map .here 0.4"
    )
    with pytest.warns(UserWarning, match=message):
        assert load_graph(gaps).n_edges == 0
    assert load_graph(gaps, tolerance=60).n_edges == 24
    with pytest.warns(UserWarning, match="16 of the 16 areas"):
        load_graph(districts(1e-6), tolerance=0)
    with pytest.raises(
        ValueError, match=r"a quarter of the median length of the outlines, which is 4e\+03 here"
    ):
        load_graph(gaps, tolerance=1000)


def test_many_borders_along_gaps_are_told():
    """Half of the map was moved by 20 m."""
    broken = districts()
    broken[8:] = broken[8:].translate(20, 0)
    message = (
        r"4 more pairs of areas run along each other within 40, .*"
        r"\(there are 20 pairs of neighbours\): pass"
    )
    with pytest.warns(UserWarning, match=message):
        assert load_graph(broken).n_edges == 20
    assert load_graph(broken, tolerance=21).n_edges == 24


def test_a_few_islands_are_not_told():
    islands = districts()
    islands[:3] = islands[:3].translate(-9000, 0)
    islands[1] = islands[1].buffer(-400)
    assert load_graph(islands).n_nodes == 16


def lattice():
    return geopandas.GeoSeries([shapely.box(*at, at[0] + 1, at[1] + 1) for at in np.ndindex(6, 6)])


def test_an_area_that_was_shrunk_is_told_with_its_name():
    cells = lattice()
    cells[14] = cells[14].buffer(-0.03)
    message = (
        r"4 more pairs of areas run along each other within 0.04, .*56 pairs of neighbours; "
        r"without any neighbour: 14\).*pass tolerance=.*simplify_coverage"
    )
    with pytest.warns(UserWarning, match=message):
        assert load_graph(cells).n_edges == 56
    assert load_graph(cells, tolerance=0.04).n_edges == 60


MAPS = {"sids2": 231, "columbus": 100, "10740": 501, "us48": 105, "virginia": 287, "stl_hom": 199}


def counties(name):
    examples = pytest.importorskip("libpysal.examples")
    return geopandas.read_file(examples.get_path(f"{name}.shp")).geometry


@pytest.mark.parametrize("name", MAPS)
def test_enclaves_panhandles_and_water_are_no_gaps(name):
    assert load_graph(counties(name)).n_edges == MAPS[name]  # warnings are errors


@pytest.mark.parametrize("name", ["sids2", "columbus"])
def test_gaps_of_areas_that_were_simplified_one_by_one_are_told(name):
    areas = counties(name)
    size = 0.02 * np.median(np.sqrt(areas.area))
    with pytest.warns(UserWarning, match=r"\d+ more pairs of areas run along each other"):
        load_graph(areas.simplify(size))
    together = geopandas.GeoSeries(shapely.coverage_simplify(np.asarray(areas), size))
    assert load_graph(together).n_edges == MAPS[name]


def test_both_sides_of_a_narrow_area_are_no_gap():
    """A corridor of 20 m between two rows of districts, and an island in a strait of 500 m."""
    areas = districts()
    areas[8:] = areas[8:].translate(20, 0)
    areas[16] = shapely.box(2000, 0, 2020, 4000)
    areas[17] = shapely.box(4520, 0, 5000, 4000)
    assert load_graph(areas).n_edges == 20 + 8


def test_overlaps_are_told():
    with pytest.warns(
        UserWarning, match="18 of the 42 pairs of neighbours overlap by more than tolerance=0.4"
    ):
        load_graph(districts().buffer(20, join_style="mitre"))
    assert load_graph(districts().buffer(20, join_style="mitre"), tolerance=50).n_edges == 24


def test_an_index_with_repeated_names_is_refused():
    areas = geopandas.GeoDataFrame(geometry=list(districts()[:3]), index=["a", "b", "a"])
    message = (
        r"distinct names, one for each area, got 'a' more than once \(1 of 3 rows "
        r".* dissolve\(by='column'\)"
    )
    with pytest.raises(ValueError, match=message):
        load_graph(areas)
    assert load_graph(areas.reset_index(drop=True)).nodes == range(3)


def test_areas_in_degrees_are_neighbours_without_a_warning_of_geopandas():
    areas = geopandas.GeoSeries([shapely.box(7, 50, 8, 51), shapely.box(8, 50, 9, 51)], crs=4326)
    assert load_graph(areas).n_edges == 1


# -- lines -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("moved", [1e-9, 1e-6, 1e-3])
def test_ends_that_miss_each_other_a_little_are_one_junction_which_is_told(moved):
    message = (
        r"\d+ ends of lines were joined with others .* but within 0.01, 0.0001 of the median length"
    )
    with pytest.warns(UserWarning, match=message):
        graph = load_graph(streets(moved))
    assert (graph.n_nodes, graph.n_edges) == (16, 24)
    assert graph.nodes[0] == streets(moved)[0].coords[0]  # the place of the first end there
    assert load_graph(streets(moved), tolerance=0.01).n_edges == 24  # warnings are errors
    np.testing.assert_array_equal(
        load_graph(streets(moved), tolerance=0.01).adjacency.toarray(),
        load_graph(streets()).adjacency.toarray(),
    )


def test_roads_in_many_parts_are_told():
    with pytest.warns(
        UserWarning,
        match=r"the largest of the 2\d parts .* here within 0.01: pass tolerance= if ends",
    ):
        assert load_graph(streets(0.5)).n_nodes > 40
    assert load_graph(streets(0.5), tolerance=2.0).n_nodes == 16


def test_short_streets_are_kept():
    """Forty streets of half a metre in a row, beside others of 300 m, with a tolerance of 2 m."""
    row = [shapely.LineString([(x / 2, 0), (x / 2 + 0.5, 0)]) for x in range(40)]
    spokes = [
        shapely.LineString([(300 * np.cos(a), 300 * np.sin(a)), (0, 1e-9)])
        for a in np.linspace(0.1, 3, 60)
    ]
    with pytest.warns(
        UserWarning, match="ends of lines stay apart although others are within tolerance=2: lines"
    ):
        graph = load_graph(geopandas.GeoSeries(row + spokes), tolerance=2.0)
    assert (graph.n_nodes, graph.n_edges) == (41 + 60, 100)
    assert graph.adjacency.diagonal().sum() == 0


def parts(**columns):
    """A road of 3 km in parts of 1 and 2, and one of 3 km; and the length of each line."""
    first = shapely.MultiLineString([[(0, 0), (1, 0)], [(1, 0), (3, 0)]])
    return geopandas.GeoDataFrame(columns, geometry=[first, shapely.LineString([(3, 0), (3, 3)])])


def test_times_are_shared_among_the_parts_of_a_line_and_speeds_are_not():
    roads = parts(minutes=[9.0, 6.0], speed=[50.0, 30.0])
    graph = load_graph(roads, weight="minutes", weight_is="distance")
    mean = (3 + 6 + 6) / 3
    weights = graph.adjacency.toarray()
    np.testing.assert_allclose(
        [weights[0, 1], weights[1, 2], weights[2, 3]], [mean / 3, mean / 6, mean / 6]
    )
    with pytest.warns(UserWarning, match="'minutes' are taken as similarities"):
        weights = load_graph(roads, weight="minutes").adjacency.toarray()
    np.testing.assert_allclose([weights[0, 1], weights[1, 2], weights[2, 3]], [3, 6, 6])
    with pytest.warns(
        UserWarning,
        match=r"MultiLineString \(1 of the 2 lines\) has the whole line's 'speed': weight_",
    ):
        weights = load_graph(roads, weight="speed").adjacency.toarray()
    np.testing.assert_allclose([weights[0, 1], weights[1, 2], weights[2, 3]], [50, 50, 30])
    np.testing.assert_array_equal(
        load_graph(roads, weight="speed", weight_is="similarity").adjacency.toarray(), weights
    )
    lengths = load_graph(roads, weight="length", weight_is="similarity").adjacency.toarray()
    np.testing.assert_allclose([lengths[0, 1], lengths[1, 2], lengths[2, 3]], [1, 2, 3])


@pytest.mark.parametrize(
    ("places", "warned"),
    [
        ([(-122.4, 37.7), (-122.41, 37.75), (-122.42, 37.76)], True),
        ([(7.0, 50.0), (8.0, 50.5), (9.5, 51.0)], True),
        ([(0.0, 0.0), (0.0, 1.0), (1.0, 1.0)], False),
        ([(122.4, 97.7), (122.41, 97.75), (122.42, 97.76)], False),
        ([(500.0, 50.0), (501.0, 50.5), (502.0, 51.0)], False),
    ],
)
def test_lengths_that_seem_to_be_in_degrees_are_told(places, warned):
    lines = geopandas.GeoSeries([shapely.LineString(pair) for pair in pairwise(places)])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        load_graph(lines, weight="length", weight_is="distance")
        load_graph(lines)  # hops have no unit
    in_degrees = ["'length' seems to be in degrees" in str(one.message) for one in caught]
    assert in_degrees == [True] * warned


def test_a_tolerance_is_refused_where_there_are_no_coordinates(tmp_path):
    table = geopandas.GeoDataFrame({"source": [0], "target": [1]}, geometry=[shapely.Point(0, 0)])
    for source in (np.eye(2), table):
        with pytest.raises(
            ValueError, match=r"`tolerance` belongs to maps and meshes, got 1.0 for a "
        ):
            load_graph(source, tolerance=1.0)
    (tmp_path / "edges.csv").write_text("0,1\n")
    with pytest.raises(ValueError, match=r"belongs to maps and meshes, got 0 for .*edges\.csv"):
        load_graph(tmp_path / "edges.csv", tolerance=0)
