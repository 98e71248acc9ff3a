"""Figures: what is drawn where, on axes of the caller or of their own, without pyplot."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="figures need the extra `plot`")

from matplotlib.figure import Figure

from graphrf import plot
from graphrf.gp import metrics

# A tetrahedron, its faces turned outwards.
VERTICES = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
FACES = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])


def rendered(ax) -> np.ndarray:
    """The figure's pixels, (height, width, 4); drawing it finds errors that come late."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(ax.figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())


def every_figure():
    coordinates = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    return {
        "mesh": plot.plot_mesh(VERTICES, FACES, np.arange(4.0)),
        "reliability": plot.plot_reliability({"classifier": [[0.6, 0.55], [0.9, 0.92]]}),
        "map": plot.plot_graph_signal(
            coordinates, [[0, 1], [1, 2]], [1.0, np.nan, 2.0], geographic=True
        ),
    }


def test_every_figure_is_drawn_and_has_something_on_it():
    for name, ax in every_figure().items():
        colours = np.ascontiguousarray(rendered(ax)).view(np.uint32)
        assert np.unique(colours).size > 20, name


def test_figures_are_drawn_into_given_axes():
    ax = Figure().add_subplot()
    assert plot.plot_reliability({"a": [[0.5, 0.6]]}, ax=ax) is ax


def test_pyplot_and_the_backend_are_left_alone_and_pyplot_has_the_figures_where_it_is_imported(
    tmp_path,
):
    code = (
        "import sys, matplotlib; before = matplotlib.rcParams._get_backend_or_none()\n"
        "import numpy as np, graphrf; plot = graphrf.plot\n"
        "assert 'torch' not in sys.modules\n"
        "plot.plot_reliability({'a': [[.4, .5]]}).figure.savefig(sys.argv[1])\n"
        "plot.plot_mesh(np.eye(3), [[0, 1, 2]], [1.0])\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
        "assert matplotlib.rcParams._get_backend_or_none() == before\n"
        "matplotlib.use('agg'); import matplotlib.pyplot as plt\n"
        "ax = plot.plot_mesh(np.eye(3), [[0, 1, 2]], [1.0])\n"
        "figure = plot.plot_map_posterior(np.eye(2), [1.0, 2.0], [1.0, 1.0])\n"
        "assert [plt.figure(number) for number in plt.get_fignums()] == [ax.figure, figure]\n"
    )
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "figure.png")], check=True, timeout=300
    )


def test_a_closed_mesh_shows_only_the_faces_that_look_at_the_viewer():
    view = (90.0, 0.0)  # from above: the slanted face and, edge-on, the upright ones
    ax = plot.plot_mesh(VERTICES, FACES, [0.0, 1.0, 2.0, 3.0], view=view)
    assert _n_painted(ax) == 1
    inside_out = plot.plot_mesh(VERTICES, FACES[:, ::-1], [0.0, 1.0, 2.0, 3.0], view=view)
    assert _n_painted(inside_out) == 1
    opened = plot.plot_mesh(VERTICES, FACES[1:], [1.0, 2.0, 3.0], view=view)
    assert _n_painted(opened) == 3


def _n_painted(ax) -> int:
    return len(ax.collections[0].get_facecolor())


@pytest.mark.parametrize("up", ["x", "y", "z", "-x", "-y", "-z"])
def test_a_mesh_is_turned_until_its_axis_points_upwards(up):
    sign, axis = (-1.0 if up.startswith("-") else 1.0), "xyz".index(up[-1])
    vertices = np.vstack([np.zeros(3), 0.1 * np.eye(3)])
    vertices[1 + axis, axis] = sign
    ax = plot.plot_mesh(vertices, FACES[1:], np.ones(3), view=(0.0, -60.0), up=up)
    corners = np.concatenate([path.vertices for path in ax.collections[0].get_paths()])
    assert corners[:, 1].max() == pytest.approx(1.0)
    from graphrf.plot import _given

    assert np.linalg.det(_given.turn(up)) == pytest.approx(1.0)  # turned and not mirrored


def test_values_of_vertices_are_averaged_over_the_faces():
    vertices = np.vstack([VERTICES, [[5.0, 5.0, 5.0]]])  # five vertices, four faces
    values = np.array([0.0, 3.0, 6.0, 9.0, np.nan])
    shown = {"view": (28.0, -60.0), "limits": (0.0, 9.0)}
    of_vertices = plot.plot_mesh(vertices, FACES, values, **shown).collections[0].get_facecolor()
    of_faces = (
        plot.plot_mesh(vertices, FACES, [3.0, 4.0, 5.0, 6.0], **shown)
        .collections[0]
        .get_facecolor()
    )
    np.testing.assert_array_equal(of_vertices, of_faces)
    said = (
        plot.plot_mesh(VERTICES, FACES, values[:4], on="vertices", **shown)
        .collections[0]
        .get_facecolor()
    )
    np.testing.assert_array_equal(said, of_faces)


def test_large_meshes_are_bitmaps_in_vector_files(tmp_path):
    rng = np.random.default_rng(0)
    many = plot.plot_mesh(rng.random((100, 3)), rng.integers(0, 100, (5_001, 3)), np.ones(5_001))
    few = plot.plot_mesh(VERTICES, FACES, np.ones(4))
    many.figure.savefig(tmp_path / "many.svg")
    few.figure.savefig(tmp_path / "few.svg")
    written = [(tmp_path / name).read_text() for name in ("many.svg", "few.svg")]
    assert ["<image" in text.split('id="PolyCollection')[0] for text in written] == [True, False]


def test_faces_without_a_value_are_grey():
    from matplotlib import colormaps

    ax = plot.plot_mesh(VERTICES, FACES[3:], [np.nan], limits=(0.0, 1.0))
    red, green, blue, _ = ax.collections[0].get_facecolor()[0]
    assert red == green == blue
    seen = (
        plot.plot_mesh(VERTICES, FACES[3:], [0.0], limits=(0.0, 1.0))
        .collections[0]
        .get_facecolor()[0]
    )
    shade = seen[:3] / np.array(colormaps["viridis"](0.0))[:3]
    assert np.ptp(shade) < 1e-9
    assert 0.72 <= shade[0] <= 1.0


def test_a_mesh_seen_from_any_side_fills_its_axes():
    rod = VERTICES * [0.05, 0.05, 1.0]
    for view in ((0.0, 0.0), (28.0, -60.0), (90.0, 45.0), (-40.0, 200.0)):
        for vertices in (VERTICES, rod, rod[:, ::-1]):
            ax = plot.plot_mesh(vertices, FACES, np.ones(4), view=view, limits=(0.0, 1.0))
            ax.apply_aspect()  # as drawing does
            corners = np.concatenate([path.vertices for path in ax.collections[0].get_paths()])
            placed = ax.transAxes.inverted().transform(ax.transData.transform(corners))
            assert (placed >= -1e-6).all()
            assert (placed <= 1 + 1e-6).all()
            assert np.ptp(placed, axis=0).max() > 0.85


def test_a_mesh_is_seen_without_perspective_and_painted_from_far_to_near():
    pyramid = np.array([[0.0, 0.0, 0.0], [2.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 5.0]])
    two = np.array([[0, 1, 3], [0, 1, 2]])  # an open surface: one face stands on the other
    ax = plot.plot_mesh(pyramid, two, [1.0, 0.0], view=(90.0, 0.0), limits=(0.0, 1.0))
    lying, standing = (path.vertices[:3] for path in ax.collections[0].get_paths())
    # From above, azimuth 0: y points to the right and x downwards.
    np.testing.assert_allclose(lying, [[0.0, 0.0], [0.0, -2.0], [1.0, 0.0]], atol=1e-12)
    np.testing.assert_allclose(standing, [[0.0, 0.0], [0.0, -2.0], [0.0, 0.0]], atol=1e-12)


@pytest.mark.parametrize("with_truth", [False, True])
def test_posteriors_share_colours_among_values_and_not_with_deviations(with_truth):
    mean, deviation = np.arange(4.0), np.array([0.1, 0.2, 0.3, 0.4])
    truth, observed = np.array([0.0, 1.0, 2.0, 7.0]), np.array([np.nan, 1.0, np.nan, np.nan])
    given = {"truth": truth, "observed": observed} if with_truth else {}
    figure = plot.plot_map_posterior(
        np.eye(4)[:, :2], mean, deviation, edges=[[0, 1]], label="speed (mph)", **given
    )
    maps = [ax for ax in figure.axes if ax.get_title()]
    names = ["truth", "observed", "posterior mean"] if with_truth else ["posterior mean"]
    assert [ax.get_title() for ax in maps] == [*names, "standard deviation"]
    colours = [(ax.collections[2].get_cmap().name, ax.collections[2].get_clim()) for ax in maps]
    assert colours == [(plot.VALUES, (0.0, 7.0 if with_truth else 3.0))] * len(names) + [
        (plot.DEVIATIONS, (0.1, 0.4))
    ]
    np.testing.assert_array_equal(maps[-1].collections[2].get_array(), deviation)
    labels = [ax.get_xlabel() for ax in figure.axes if ax.get_xlabel()]
    assert labels == ["speed (mph)"] * len(names) + ["standard deviation of the speed (mph)"]


def test_few_values_far_beyond_the_others_do_not_stretch_the_colours():
    mean = np.append(np.linspace(0.0, 1.0, 199), 50.0)
    figure = plot.plot_map_posterior(np.random.default_rng(0).random((200, 2)), mean, np.ones(200))
    low, high = figure.axes[0].collections[2].get_clim()
    assert (0.0 <= low < 0.05, 0.95 < high <= 1.0) == (True, True)


def test_a_posterior_fills_a_given_figure():
    figure = Figure(layout="constrained")
    assert (
        plot.plot_mesh_posterior(VERTICES, FACES, np.arange(4.0), np.ones(4), figure=figure)
        is figure
    )
    assert len(figure.axes) == 4  # two meshes, two colour bars
    rendered(figure.axes[0])


def test_a_posterior_is_drawn_into_given_axes_with_the_callers_words():
    axes = Figure(layout="constrained").subplots(1, 3)
    mean, spread = np.arange(4.0), np.ones(4)
    figure = plot.plot_mesh_posterior(
        VERTICES,
        FACES,
        mean,
        spread,
        observed=mean,
        ax=axes,
        titles=["seen", "fitted", "unsure"],
        deviation_label="sd (K)",
        label="heat (K)",
        limits=(0.0, 2.0),
    )
    assert figure is axes[0].figure
    assert [ax.get_title() for ax in axes] == ["seen", "fitted", "unsure"]
    bars = figure.axes[3:]
    assert [bar.get_xlabel() for bar in bars] == ["heat (K)", "heat (K)", "sd (K)"]
    assert [bar.get_xlim() for bar in bars[:2]] == [(0.0, 2.0)] * 2


def test_a_graph_gives_its_edges():
    import graphrf as grf

    places, edges = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]), [[0, 1], [1, 2]]
    drawn = [
        plot.plot_graph_signal(places, some, [1.0, 2.0, 4.0]).collections[1]
        for some in (edges, grf.from_edges([0, 1], [1, 2]))
    ]
    np.testing.assert_array_equal(*[lines.get_array() for lines in drawn])


def _margins(figure, **options) -> int:
    """White pixels between what is drawn and the nearest border."""
    from io import BytesIO

    from PIL import Image

    file = BytesIO()
    figure.savefig(file, **options)
    with Image.open(file) as image:
        drawn = np.argwhere(np.asarray(image.convert("L")) < 250)
        height, width = image.height, image.width
    return int(min(*drawn.min(axis=0), *((height, width) - drawn.max(axis=0) - 1)))


@pytest.mark.parametrize("width", [None, 3.3])
@pytest.mark.parametrize("tall", [0.3, 3.0])
def test_titles_and_labels_lie_within_the_figure(width, tall):
    from matplotlib.text import Text

    with plot.style(width=width):
        figure = plot.plot_mesh_posterior(
            VERTICES * [1, 1, tall],
            FACES,
            np.arange(4.0),
            np.ones(4),
            observed=np.ones(4),
            label="temperature (K)",
        )
        map_of_roads = plot.plot_map_posterior(
            [[-121.0, 60.0], [-122.0, 60.0], [-121.5, 60.0]],
            np.arange(3.0),
            np.ones(3),
            edges=[[0, 1], [1, 2]],
            geographic=True,
            label="the speed of cars in the morning (km/h)",
        )
        for drawn in (figure, map_of_roads):
            assert _margins(drawn) >= 2
            assert width is None or drawn.get_figwidth() == width
            assert (
                min(text.get_fontsize() for text in drawn.findobj(Text) if text.get_text()) >= 7.5
            )


GRID = np.argwhere(np.ones((12, 10))).astype(float)


def test_nodes_that_fill_a_lattice_are_its_cells_and_others_are_lines():
    values = np.where(np.arange(120) == 7, np.nan, np.arange(120.0))
    near = [[node, node + 1] for node in range(119) if node % 10 < 9]
    ax = plot.plot_graph_signal(GRID, near, values, limits=(0.0, 100.0), unit="km")
    grey, cells = ax.images
    assert not [lines for lines in ax.collections if lines.get_paths()]
    np.testing.assert_array_equal(cells.get_array().T.ravel(), values)
    assert np.isfinite(np.asarray(grey.get_array())).all()
    assert cells.get_clim() == (0.0, 100.0)
    assert cells.colorbar.extend == "max"
    assert list(cells.get_extent()) == [-0.5, 11.5, -0.5, 9.5]
    far = [*near, [0, 119]]
    some = GRID + np.random.default_rng(0).uniform(-0.1, 0.1, GRID.shape)
    for places, edges in ((GRID, far), (some, near), (GRID[:20], near[:18])):
        shown = values[: len(places)]
        assert not plot.plot_graph_signal(places, edges, shown).images


def test_a_posterior_on_a_lattice_needs_no_edges():
    figure = plot.plot_map_posterior(GRID, np.arange(120.0), np.ones(120))
    assert [len(ax.images) for ax in figure.axes[:2]] == [2, 2]


def _strip(n: int):
    """An open, flat strip of small triangles that is seen from above."""
    x, y = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
    vertices = np.column_stack([x.ravel(), y.ravel(), np.zeros(n * n)])
    first = (x[:-1, :-1] * n + y[:-1, :-1]).ravel()
    corners = (first, first + n, first + 1), (first + 1, first + n, first + n + 1)
    return vertices.astype(float), np.concatenate([np.column_stack(some) for some in corners])


def test_few_observed_vertices_are_dots_in_the_colours_of_their_values():
    vertices, faces = _strip(12)
    seen = np.full(144, np.nan)
    seen[[5, 77]] = 1.0, 3.0
    figure = plot.plot_mesh_posterior(
        vertices,
        faces,
        np.arange(144.0) / 40,
        np.ones(144),
        observed=seen,
        view=(90.0, -90.0),
        unit="mm",
    )
    observed = figure.axes[0]
    shapes, dots = observed.collections
    np.testing.assert_allclose(dots.get_offsets(), vertices[[5, 77], :2], atol=1e-9)
    assert np.ptp(shapes.get_facecolor()[:, :3], axis=1).max() == 0  # all grey
    assert not np.array_equal(*dots.get_facecolor())
    assert len(figure.axes[1].collections) == 1
    all_seen = plot.plot_mesh_posterior(
        vertices, faces, np.ones(144), np.ones(144), observed=np.ones(144)
    )
    assert len(all_seen.axes[0].collections) == 1


def test_dots_behind_a_surface_are_not_drawn():
    vertices, faces = _strip(12)
    behind = np.vstack([vertices, vertices - [0.0, 0.0, 5.0]])
    both = np.concatenate([faces, faces + 144])
    seen = np.full(288, np.nan)
    seen[[40, 184 + 11]] = 1.0
    figure = plot.plot_mesh_posterior(
        behind, both, np.ones(288), np.ones(288), observed=seen, view=(90.0, -90.0)
    )
    (dot,) = figure.axes[0].collections[1].get_offsets()
    np.testing.assert_allclose(dot, vertices[40, :2], atol=1e-9)


def test_more_methods_than_colours_are_told_apart_by_marks():
    ax = plot.plot_reliability({f"{number}": [[0.5, number / 10]] for number in range(9)})
    looks = {
        (container.lines[0].get_color(), container.lines[0].get_marker())
        for container in ax.containers
    }
    assert len(looks) == 9


def test_curves_of_metrics_are_drawn_with_binomial_errors():
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet([1.0, 1.0, 1.0], 300)
    labels = (rng.random((300, 1)) > probabilities.cumsum(axis=1)).sum(axis=1)
    for n_bins in (3, 10):
        curve = metrics.reliability(labels, probabilities, n_bins=n_bins)
        ax = plot.plot_reliability({"GP": curve})
        line = ax.containers[0].lines[0]
        np.testing.assert_array_equal(line.get_xdata(), curve.confidence)
        np.testing.assert_array_equal(line.get_ydata(), curve.accuracy)
        (bars,) = ax.containers[0].lines[2]
        half = [np.ptp(segment[:, 1]) / 2 for segment in bars.get_segments()]
        p, n = curve.accuracy, curve.weight
        np.testing.assert_allclose(half, 2 * np.sqrt(p * (1 - p) / n))


def test_reliability_has_the_diagonal_and_bars_of_two_errors():
    ax = plot.plot_reliability({"a": [[0.2, 0.1, 0.05], [0.9, 0.8, 0.1]]})
    diagonal = ax.get_lines()[0].get_xydata()
    np.testing.assert_array_equal(diagonal, [[0, 0], [1, 1]])
    line, _, (bars,) = ax.containers[0].lines
    np.testing.assert_allclose(line.get_xydata(), [[0.2, 0.1], [0.9, 0.8]])
    np.testing.assert_allclose(
        [segment[:, 1] for segment in bars.get_segments()], [[0.0, 0.2], [0.6, 1.0]]
    )


def test_style_ends_with_its_block():
    from matplotlib import rcParams

    before = dict(rcParams)
    with plot.style():
        ax = Figure().add_subplot()
        assert ax.plot([0, 1])[0].get_color() == plot.COLOURS[0]
        assert not ax.spines["top"].get_visible()
    assert dict(rcParams) == before


def test_nodes_without_a_value_have_no_mark_and_degrees_keep_their_shape():
    coordinates = np.array([[-121.0, 60.0], [-122.0, 60.0], [-121.5, 60.0]])
    ax = plot.plot_graph_signal(
        coordinates,
        [[0, 1], [0, 2]],
        [1.0, np.nan, 3.0],
        geographic=True,
        marked=[0],
        limits=(0.0, 2.0),
    )
    bare, coloured, nodes, dots = ax.collections
    assert [len(lines.get_segments()) for lines in (bare, coloured)] == [2, 1]
    # Lines of edges have a rim.
    assert bare.get_linewidths()[1] > coloured.get_linewidths()[0] > bare.get_linewidths()[0]
    assert dots.get_facecolor().size == 0  # rings, within which colours can be seen
    np.testing.assert_array_equal(coloured.get_array(), [2.0])  # the mean of its ends
    np.testing.assert_array_equal(nodes.get_offsets(), coordinates[[0, 2]])
    np.testing.assert_array_equal(dots.get_offsets(), coordinates[[0]])
    assert ax.get_aspect() == pytest.approx(2.0)  # 1 / cos(60 degrees)
    rendered(ax)


@pytest.mark.parametrize(
    "draw",
    [
        lambda std: plot.plot_map_posterior([[0, 0], [1, 0], [1, 1]], np.ones(3), std),
        lambda std: plot.plot_mesh_posterior(VERTICES, FACES, np.ones(4), np.append(std, 1.0)),
        lambda std: plot.plot_series(np.arange(3.0), np.ones(3), std),
        lambda std: plot.interactive_map([[0, 0], [1, 0], [1, 1]], np.ones(3), std),
        lambda std: plot.interactive_mesh(VERTICES, FACES, np.ones(4), np.append(std, 1.0)),
    ],
)
def test_negative_deviations_are_refused(draw):
    pytest.importorskip("plotly")
    with pytest.raises(
        ValueError, match=r"`deviation` must be .* of at least 0, got -0\.5 at position 1 \(1 of"
    ):
        draw(np.array([0.0, -0.5, np.nan]))
    draw(np.array([0.0, 0.5, np.nan]))


def test_a_graph_without_edges_is_drawn():
    rendered(plot.plot_graph_signal([[0.0, 1.0], [1.0, 0.0]], [], [1.0, 2.0]))


@pytest.mark.parametrize(
    ("limits", "ends"),
    [(None, "neither"), ((0.0, 2.0), "max"), ((1.5, 4.0), "min"), ((1.5, 2.0), "both")],
)
def test_colour_bar_is_pointed_where_values_lie_beyond_it(limits, ends):
    ax = plot.plot_graph_signal([[0.0, 1.0], [1.0, 0.0]], [[0, 1]], [1.0, 3.0], limits=limits)
    nodes = ax.collections[2]
    assert nodes.colorbar.extend == ends


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: plot.plot_mesh(VERTICES, FACES, [1.0]),
            r"one entry per face, shape \(4,\), or per vertex, shape \(4,\), got \(1,\)",
        ),
        (
            lambda: plot.plot_mesh(VERTICES[:, :2], FACES, np.ones(4)),
            r"`vertices` must have shape \(V, 3\)",
        ),
        (lambda: plot.plot_reliability({}), "`curves` must hold at least one"),
        (lambda: plot.plot_reliability({"a": [1.0, 0.5]}), r"shape \(n, 2\) or \(n, 3\).*'a'"),
        (
            lambda: plot.plot_reliability({"a": [[0.5, 1.1]]}),
            r"probabilities and shares in \[0, 1\], unlike 'a'",
        ),
        (lambda: plot.plot_reliability({"a": [[np.nan, 0.5]]}), r"in \[0, 1\]"),
        (
            lambda: plot.plot_mesh(
                VERTICES, FACES, np.ones(4), ax=Figure().add_subplot(projection="3d")
            ),
            "`ax` must be plain axes.*'3d'",
        ),
        (lambda: plot.plot_mesh(VERTICES, FACES * 1.0, np.ones(4)), "`faces` must be integers"),
        (
            lambda: plot.plot_mesh_posterior(
                VERTICES, FACES, np.ones(4), np.ones(4), observed=[0, 2]
            ),
            (
                r"`observed` must have one value per entry of `mean`, shape \(4,\), "
                "NaN where nothing was observed"
            ),
        ),
        (
            lambda: plot.plot_graph_signal([[0.0]], [], [1.0]),
            r"`coordinates` must have shape \(N, 2\)",
        ),
        (lambda: plot.plot_graph_signal([[0.0, 1.0]], [[0, 0]], [1.0, 2.0]), "one entry per node"),
        (
            lambda: plot.plot_graph_signal([[0.0, 1.0]], [[0, 1]], [1.0]),
            r"`edges` must be positions in \[0, 0\]",
        ),
        (
            lambda: plot.plot_graph_signal([[0.0, 1.0]], [0, 0], [1.0]),
            r"`edges` must be a graph or have shape",
        ),
        (
            lambda: plot.plot_mesh(VERTICES, FACES + 1, np.ones(4)),
            r"`faces` must be positions of vertices",
        ),
        (
            lambda: plot.plot_mesh(VERTICES, FACES, np.ones(4), up="w"),
            "`up` must be one of 'x', 'y', 'z', '-x'",
        ),
        (lambda: plot.plot_mesh(VERTICES, FACES, np.ones(4), on="edges"), "`on` must be one of"),
        (
            lambda: plot.plot_mesh(VERTICES, FACES, np.ones(5), on="vertices"),
            r"one entry per vertex, shape \(4,\), got \(5,\)",
        ),
        (
            lambda: plot.plot_mesh_posterior(VERTICES, FACES, np.ones(4), np.ones(4), titles=["a"]),
            r"`titles` must have one per panel \(posterior mean, standard deviation\), got 1",
        ),
        (
            lambda: plot.plot_mesh_posterior(
                VERTICES, FACES, np.ones(4), np.ones(4), ax=[Figure().add_subplot()]
            ),
            "`ax` must be 2 axes, one per panel, got 1",
        ),
        (
            lambda: plot.plot_mesh_posterior(VERTICES, FACES, np.ones(4), np.ones(3)),
            "`deviation` must have one",
        ),
        (lambda: plot.style(width=0.1), "`width` must be"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def a_ball():
    """The hull of random points on a sphere, in no order of rotation."""
    from scipy.spatial import ConvexHull

    points = np.random.default_rng(0).standard_normal((300, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    return points, ConvexHull(points).simplices


@pytest.mark.parametrize("share", [0.98, 1.02])  # beneath the surface and above it
def test_points_that_are_no_vertices_are_marks_on_the_mean(share):
    points, faces = a_ball()
    towards = np.array([0.0, -1.0, 0.0])  # elevation 0, azimuth -90
    places = share * np.array([towards, [0.6, -0.8, 0.0], -towards, [0.0, 0.8, 0.6]])
    values = np.array([0.0, 1.0, 2.0, 3.0])
    own = {"view": (0, -90), "limits": (0.0, 3.0)}
    figure = plot.plot_mesh_posterior(
        points, faces, np.full(300, 1.0), np.ones(300), observed=(places, values), **own
    )
    titles = [ax.get_title() for ax in figure.axes if ax.get_title()]
    assert titles == ["posterior mean", "standard deviation"]
    mean, deviation = (ax for ax in figure.axes if ax.get_title())
    (marks,) = (each for each in mean.collections if len(each.get_offsets()) > 1)
    # those on the far side are hidden; the nearest points are within a facet of the sphere
    np.testing.assert_allclose(np.asarray(marks.get_offsets()), [[0, 0], [0.6, 0]], atol=0.03)
    assert not any(len(each.get_offsets()) > 1 for each in deviation.collections)
    from matplotlib import colormaps

    np.testing.assert_allclose(marks.get_facecolors(), colormaps[plot.VALUES]([0.0, 1 / 3]))
    rendered(mean)


def test_points_that_do_not_match_their_values_are_told():
    points, faces = a_ball()
    for observed in ((points[:3], [1.0, 2.0]), (points[:3, :2], [1.0, 2.0, 3.0])):
        with pytest.raises(ValueError, match=r"`observed` must be places of shape \(m, 3\) and as"):
            plot.plot_mesh_posterior(points, faces, np.ones(300), np.ones(300), observed=observed)
