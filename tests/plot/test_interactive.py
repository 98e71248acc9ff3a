"""Pages to zoom and turn: what they hold, and that they need nothing else."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

pytest.importorskip("plotly", reason="interactive figures need the extra `interactive`")

import graphrf as grf
from graphrf import plot

PLACES = np.array([[-121.0, 60.0], [-122.0, 60.0], [-121.5, 60.5], [-121.2, 60.1]])
TOWN = grf.from_edges(["harbour", "<market>", "mill"], ["<market>", "mill", "farm"])
SPEED, SPREAD = np.array([30.0, 35.0, np.nan, 45.0]), np.array([0.5, 1.0, 2.0, 4.0])
VERTICES = np.array(
    [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 1.0, 1.0]]
)
FACES = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])


class Page(HTMLParser):
    """Tags that are opened and closed, the title, and addresses of what a browser would fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []
        self.title = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        if tag not in ("meta", "link", "img", "br"):
            self.open.append(tag)
        self.fetched += [value for name, value in attributes if name in ("src", "href") and value]

    def handle_startendtag(self, tag, attributes):
        self.fetched += [value for name, value in attributes if name in ("src", "href") and value]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] == ["title"]:
            self.title += data


def test_a_map_has_its_values_names_and_buttons():
    figure = plot.interactive_map(
        PLACES,
        SPEED,
        SPREAD,
        edges=TOWN,
        observed=[30.0, np.nan, np.nan, np.nan],
        label="speed (km/h)",
        geographic=True,
    )
    marks = [trace for trace in figure.data if trace.mode == "markers"]
    np.testing.assert_array_equal(marks[0].marker.color, [30.0, 35.0, 45.0])
    np.testing.assert_array_equal(marks[1].marker.color, [30.0])
    np.testing.assert_array_equal(marks[2].marker.color, SPREAD)
    np.testing.assert_array_equal(np.column_stack([marks[0].x, marks[0].y]), PLACES[[0, 1, 3]])
    assert marks[0].text[:2] == (
        "<b>harbour</b><br>speed (km/h): 30<br>observed: 30<br>standard deviation: 0.5",
        "<b>&lt;market&gt;</b><br>speed (km/h): 35<br>standard deviation: 1",
    )
    labels = [button.label for button in figure.layout.updatemenus[0].buttons]
    assert labels == ["speed (km/h)", "observed", "standard deviation"]
    last = figure.layout.updatemenus[0].buttons[2].args[0]["visible"]
    assert [trace for trace, seen in zip(figure.data, last, strict=True) if seen][-1] is marks[2]
    assert figure.layout.yaxis.scaleratio == pytest.approx(1 / np.cos(np.radians(60.15)))


def test_streets_are_drawn_by_their_geometry_and_named():
    nx = pytest.importorskip("networkx")
    streets = nx.MultiDiGraph([("a", "b"), ("b", "c")])
    for node, (x, y) in zip("abc", PLACES[:3].tolist(), strict=True):
        streets.nodes[node].update(x=x, y=y)
    bend = [[-122.0, 60.0], [-121.0, 60.2], [-121.5, 60.5]]
    streets.edges["b", "c", 0]["geometry"] = bend
    figure = plot.interactive_map(streets, [310.0, 95.0], label="cars")
    marks = figure.data[-1]
    assert marks.text == (
        "<b>(&#x27;a&#x27;, &#x27;b&#x27;, 0)</b><br>cars: 310",
        "<b>(&#x27;b&#x27;, &#x27;c&#x27;, 0)</b><br>cars: 95",
    )
    assert marks.marker.opacity == 0
    assert figure.data[-2].marker.colorbar.title.text == "cars"
    np.testing.assert_allclose([marks.x[0], marks.y[0]], [-121.5, 60.0])  # the middle
    low, high = figure.data[1:-2]
    np.testing.assert_array_equal(low.x, [*np.array(bend)[:, 0], np.nan])
    assert low.line.color != high.line.color
    assert figure.layout.yaxis.scaleratio == pytest.approx(1 / np.cos(np.radians(60.14)), rel=1e-3)


def test_areas_are_filled_and_a_series_is_matched_by_its_index():
    geopandas, shapely = pytest.importorskip("geopandas"), pytest.importorskip("shapely")
    districts = geopandas.GeoSeries(
        [shapely.box(0, 0, 1, 1), shapely.box(1, 0, 2, 1)], index=["Ayr", "Bute"]
    )
    figure = plot.interactive_map(districts, districts.area.rename("x")[::-1] * [2.0, 1.0])
    assert [trace.fill for trace in figure.data[:-2]] == ["toself"] * 3
    assert figure.data[-1].text == ("<b>Ayr</b><br>value: 1", "<b>Bute</b><br>value: 2")
    np.testing.assert_array_equal(figure.data[-1].x, [0.5, 1.5])


def test_names_of_streets_are_matched_by_their_index():
    nx, pandas = pytest.importorskip("networkx"), pytest.importorskip("pandas")
    streets = nx.MultiDiGraph([(1, 2), (2, 3), (3, 4)])
    nx.set_node_attributes(streets, {n: {"x": n / 100, "y": 0.0} for n in streets})
    index = pandas.MultiIndex.from_tuples(streets.edges(keys=True))
    flow = pandas.Series([10.0, 20.0, 30.0], index)
    names = pandas.Series(["Ash", None, "Cedar"], index)
    for own in (names, names[::-1], list(names)):
        figure = plot.interactive_map(streets, flow[::-1], names=own)
        assert figure.data[-1].text == (
            *("<b>Ash</b><br>value: 10", "<b></b><br>value: 20", "<b>Cedar</b><br>value: 30"),
        )


def test_a_road_has_the_colour_of_the_mean_of_its_ends():
    from plotly.colors import sample_colorscale

    figure = plot.interactive_map(PLACES[:3], [0.0, 0.0, 2.0], edges=[[0, 1], [1, 2]])
    pale, low, high, _ = figure.data
    assert len(pale.x) == 0
    np.testing.assert_array_equal(low.x, [-121.0, -122.0, np.nan])
    np.testing.assert_array_equal(high.y, [60.0, 60.5, np.nan])
    assert [low.line.color] == sample_colorscale("viridis", [0.5 / 32])
    assert [high.line.color] == sample_colorscale("viridis", [16.5 / 32])


def test_few_large_values_have_a_logarithmic_scale():
    from plotly.colors import sample_colorscale

    flows = np.array([10.0, 100.0, 1000.0, 0.0, np.nan])
    places = np.column_stack([np.arange(5.0), np.zeros(5)])
    edges = [[0, 0], [1, 1], [2, 2], [3, 3]]
    figure = plot.interactive_map(
        places,
        flows,
        [1, 10, 100, 1, 2],
        edges=edges,
        observed=2 * flows,
        norm="log",
        label="observed",
    )
    marks = [trace for trace in figure.data if trace.mode == "markers"]
    assert [mark.marker.colorbar.title.text for mark in marks] == [
        *("observed", "observed", "standard deviation")
    ]
    values, observed, deviation = (mark.marker for mark in marks)
    np.testing.assert_allclose(values.color, [1, 2, 3, np.log10(5)])  # 0 is below the lowest
    np.testing.assert_allclose(observed.color[:3], np.log10([20, 200, 2000]))
    np.testing.assert_allclose([values.cmin, values.cmax, observed.cmax], [1, 3, 3])
    assert values.colorbar.ticktext == ("10", "30", "100", "300", "1000")
    np.testing.assert_allclose(values.colorbar.tickvals, np.log10([10, 30, 100, 300, 1000]))
    np.testing.assert_allclose([deviation.cmin, *deviation.color[:3]], [0, 0, 1, 2])
    assert "<br>observed: 100<br>observed: 200" in marks[0].text[1]
    colours = [trace.line.color for trace in figure.data if trace.mode == "lines"]
    assert sample_colorscale("viridis", [16.5 / 32])[0] in colours  # 100, amid 10 and 1000


def test_faces_and_vertices_have_their_values_and_text():
    figure = plot.interactive_mesh(
        VERTICES, FACES, [1.0, np.nan, 3.0, 4.0], names=list("abcd"), label="heat"
    )
    valued, pale = figure.data
    assert valued.intensitymode == pale.intensitymode == "cell"
    np.testing.assert_array_equal(valued.intensity, [1.0, 3.0, 4.0])
    np.testing.assert_array_equal(np.column_stack([valued.i, valued.j, valued.k]), FACES[[0, 2, 3]])
    assert (valued.text, pale.text) == (
        ("<b>a</b><br>heat: 1", "<b>c</b><br>heat: 3", "<b>d</b><br>heat: 4"),
        ("<b>b</b>",),
    )
    (smooth,) = plot.interactive_mesh(VERTICES, FACES, np.arange(5.0)).data
    assert smooth.intensitymode == "vertex"
    np.testing.assert_array_equal(smooth.intensity, np.arange(5.0))


@pytest.mark.parametrize(("up", "above"), [("z", (0, 0, 1)), ("y", (0, 1, 0)), ("-x", (-1, 0, 0))])
def test_the_camera_stands_upright(up, above):
    camera = plot.interactive_mesh(
        VERTICES, FACES, np.ones(4), view=(90.0, 0.0), up=up
    ).layout.scene.camera
    np.testing.assert_allclose([camera.up.x, camera.up.y, camera.up.z], above)
    eye = np.array([camera.eye.x, camera.eye.y, camera.eye.z])
    np.testing.assert_allclose(eye / np.linalg.norm(eye), above, atol=1e-12)  # it looks down


def test_a_page_is_whole_and_needs_no_network(tmp_path):
    path = tmp_path / "town.html"
    plot.interactive_map(
        PLACES, SPEED, SPREAD, edges=TOWN, label="speed", title="A <town>", path=path
    )
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert (page.open, page.fetched, page.title) == ([], [], "A <town>")
    assert text.startswith('<!DOCTYPE html>\n<html lang="en">')
    data = json.loads(
        re.search(r"Plotly\.newPlot\(\s*\"[\w-]+\",\s*(\[.*?\])\s*,\s*\{\"", text, re.DOTALL)[1]
    )
    assert any(trace.get("text") and "harbour" in trace["text"][0] for trace in data)
    assert '"scrollZoom": true' in text


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: plot.interactive_map(PLACES, SPEED[:2], edges=TOWN),
            r"one entry per node, shape \(4,\), got \(2,\)",
        ),
        (
            lambda: plot.interactive_map(PLACES[:3], SPEED[:3], edges=TOWN),
            "`edges` must be a graph with a node for each",
        ),
        (
            lambda: plot.interactive_map(PLACES, SPEED, edges=TOWN, names=["a"]),
            "`names` must have one per node, 4, got 1",
        ),
        (
            lambda: plot.interactive_map(PLACES, -SPEED, edges=TOWN, norm="log"),
            "`norm` must be 'linear' for colours between",
        ),
        (
            lambda: plot.interactive_map(PLACES, SPEED, edges=TOWN, path="a.png"),
            r"`path` must end in \.html",
        ),
        (
            lambda: plot.interactive_mesh(VERTICES, FACES, np.ones(4), np.ones(5)),
            "`deviation` must have one entry per face, as `values` has",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_a_mesh_is_lit_smoothly_and_fills_the_page_in_any_unit(scale):
    corners = scale * np.array([[0.0, 0.0, 5.0], [4.0, 0.0, 5.0], [0.0, 3.0, 5.0]])  # flat
    figure = plot.interactive_mesh(corners, [[0, 1, 2]], [1.0])
    assert figure.data[0].flatshading is False
    scene = figure.layout.scene
    assert scene.aspectratio.x / scene.aspectratio.y == pytest.approx(4 / 3)
    assert np.hypot(scene.aspectratio.x, scene.aspectratio.y) == pytest.approx(2 * 0.97, rel=0.01)
    for name, column in zip("xyz", corners.T, strict=True):
        low, high = scene[f"{name}axis"].range
        assert low < column.min() <= column.max() < high


def test_points_that_are_no_vertices_are_marks_on_a_mesh():
    places, values = np.array([[0.2, 0.2, 0.1], [0.1, 0.1, -0.1]]), [7.0, -1.0]
    surface, marks = plot.interactive_mesh(
        VERTICES[:4], FACES, np.arange(4.0), observed=(places, values), on="faces"
    ).data
    assert (surface.cmin, surface.cmax) == (marks.marker.cmin, marks.marker.cmax) == (-1.0, 7.0)
    spots = np.column_stack([marks.x, marks.y, marks.z])
    # both are nearest to the face z = 0, above and below which each is
    np.testing.assert_allclose(spots[:, :2], np.tile(places[:, :2], (2, 1)), atol=1e-12)
    np.testing.assert_allclose(spots[:2, 2], -spots[2:, 2])
    assert (np.abs(spots[:, 2]) > 0).all()
    assert (np.abs(spots[:, 2]) < 0.01).all()
    assert marks.marker.color.tolist() == [7.0, -1.0, 7.0, -1.0]
    assert marks.text[0] == "observed: 7"
