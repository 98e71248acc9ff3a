"""Figures: what is drawn where, on axes of the caller or of their own, without pyplot."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="figures need the extra `plot`")

from matplotlib.figure import Figure

from graphrf import plot
from graphrf.lengths import Coupling, SigmaCoupled

CURVES = {"independent": [[4, 0.4, 0.02], [16, 0.2, 0.01]], "coupled": [[4, 0.3], [16, 0.1]]}
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
        "errors": plot.plot_error_against_walks(CURVES),
        "permutation": plot.plot_permutation(SigmaCoupled(0.1).coupling),
        "mesh": plot.plot_mesh(VERTICES, FACES, np.arange(4.0)),
        "pagerank": plot.plot_pagerank([0.2, 0.3, 0.5], {"walks": [0.0, 0.4, 0.6]}),
        "map": plot.plot_graph_signal(coordinates, [[0, 1], [1, 2]], [1.0, np.nan, 2.0], geographic=True),
    }


def test_every_figure_is_drawn_and_has_something_on_it():
    for name, ax in every_figure().items():
        pixels = rendered(ax)
        assert np.unique(pixels.reshape(-1, 4), axis=0).shape[0] > 20, name


def test_figures_are_drawn_into_given_axes():
    ax = Figure().add_subplot()
    assert plot.plot_error_against_walks(CURVES, ax=ax) is ax
    assert plot.plot_pagerank([0.5, 0.5], {"walks": [0.4, 0.6]}, ax=Figure().add_subplot()) is not ax


def test_pyplot_and_the_backend_are_left_alone(tmp_path):
    code = (
        "import sys, matplotlib; before = matplotlib.rcParams._get_backend_or_none()\n"
        "import numpy as np; from graphrf import plot; from graphrf.lengths import SigmaCoupled\n"
        "assert 'torch' not in sys.modules\n"
        "plot.plot_error_against_walks({'a': [[4, .4], [16, .2]]}).figure.savefig(sys.argv[1])\n"
        "plot.plot_mesh(np.eye(3), [[0, 1, 2]], [1.0]).figure.savefig(sys.argv[1])\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
        "assert matplotlib.rcParams._get_backend_or_none() == before\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "figure.png")], check=True, timeout=60)


def test_curves_carry_their_numbers_and_the_guide_its_slope():
    ax = plot.plot_error_against_walks(CURVES)
    guide = next(line for line in ax.get_lines() if "slope" in str(line.get_label())).get_xydata()
    np.testing.assert_allclose(np.diff(np.log(guide[:, 1])) / np.diff(np.log(guide[:, 0])), -0.5)
    np.testing.assert_allclose(guide[0], [4, 0.4])
    series = [container.lines[0].get_xydata() for container in ax.containers]
    np.testing.assert_allclose(series[1], [[4, 0.3], [16, 0.1]])
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    without = plot.plot_error_against_walks(CURVES, guide=False)
    assert not any("slope" in text.get_text() for text in without.get_legend().get_texts())


def test_permutation_is_drawn_from_one_as_people_count():
    coupling = Coupling(permutations=np.array([[2, 0, 1]]), p_halt=0.5)
    ax = plot.plot_permutation(coupling)
    squares = ax.get_lines()[-1].get_xydata()
    np.testing.assert_array_equal(squares, [[1, 3], [2, 1], [3, 2]])
    # The middle of the third of three tiles is u = 5/6: 1 - u = 1/6 lies between (1/2)^3 and (1/2)^2.
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1\n(0)", "2\n(1)", "3\n(2)"]


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


def test_faces_without_a_value_are_grey():
    from matplotlib import colormaps

    ax = plot.plot_mesh(VERTICES, FACES[3:], [np.nan], limits=(0.0, 1.0))
    red, green, blue, _ = ax.collections[0].get_facecolor()[0]
    assert red == green == blue
    seen = plot.plot_mesh(VERTICES, FACES[3:], [0.0], limits=(0.0, 1.0)).collections[0].get_facecolor()[0]
    shade = seen[:3] / np.array(colormaps["viridis"](0.0))[:3]
    assert np.ptp(shade) < 1e-9
    assert 0.72 <= shade[0] <= 1.0


def test_a_mesh_seen_from_any_side_stays_within_its_axes():
    from mpl_toolkits.mplot3d import proj3d

    rod = VERTICES * [0.05, 0.05, 1.0]
    for view in ((0.0, 0.0), (28.0, -60.0), (90.0, 45.0), (-40.0, 200.0)):
        for vertices in (VERTICES, rod, rod[:, ::-1]):
            ax = plot.plot_mesh(vertices, FACES, np.ones(4), view=view, limits=(0.0, 1.0))
            rendered(ax)
            frame = ax.get_position()
            x, y, _ = proj3d.proj_transform(*vertices.T, ax.get_proj())
            placed = ax.figure.transFigure.inverted().transform(ax.transData.transform(np.column_stack([x, y])))
            assert (placed >= frame.min - 1e-6).all()
            assert (placed <= frame.max + 1e-6).all()
            assert np.ptp(placed / frame.size, axis=0).max() > 0.4  # it fills them, too


def test_nodes_without_a_value_have_no_mark_and_degrees_keep_their_shape():
    coordinates = np.array([[-121.0, 60.0], [-122.0, 60.0], [-121.5, 60.0]])
    ax = plot.plot_graph_signal(
        coordinates, [[0, 1], [0, 2]], [1.0, np.nan, 3.0], geographic=True, marked=[0], limits=(0.0, 2.0)
    )
    bare, coloured, nodes, dots = ax.collections
    assert [len(lines.get_segments()) for lines in (bare, coloured)] == [1, 1]
    np.testing.assert_array_equal(coloured.get_array(), [2.0])  # the mean of its ends
    np.testing.assert_array_equal(nodes.get_offsets(), coordinates[[0, 2]])
    np.testing.assert_array_equal(dots.get_offsets(), coordinates[[0]])
    assert ax.get_aspect() == pytest.approx(2.0)  # 1 / cos(60 degrees)
    rendered(ax)


def test_a_graph_without_edges_is_drawn():
    rendered(plot.plot_graph_signal([[0.0, 1.0], [1.0, 0.0]], [], [1.0, 2.0]))


@pytest.mark.parametrize(
    ("limits", "ends"), [(None, "neither"), ((0.0, 2.0), "max"), ((1.5, 4.0), "min"), ((1.5, 2.0), "both")]
)
def test_colour_bar_is_pointed_where_values_lie_beyond_it(limits, ends):
    ax = plot.plot_graph_signal([[0.0, 1.0], [1.0, 0.0]], [[0, 1]], [1.0, 3.0], limits=limits)
    nodes = ax.collections[2]
    assert nodes.colorbar.extend == ends


def test_pagerank_of_zero_is_left_out_of_the_logarithms():
    ax = plot.plot_pagerank([0.2, 0.3, 0.5], {"walks": [0.0, 0.4, 0.6]})
    cloud = next(line for line in ax.get_lines() if line.get_label() == "walks")
    np.testing.assert_allclose(cloud.get_xydata(), [[0.3, 0.4], [0.5, 0.6]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plot.plot_error_against_walks({}), "`curves` must hold at least one"),
        (lambda: plot.plot_error_against_walks({"a": [1.0, 2.0]}), r"shape \(n, 2\) or \(n, 3\).*'a'"),
        (lambda: plot.plot_error_against_walks({"a": [[4, 0.0]]}), "positive numbers"),
        (lambda: plot.plot_mesh(VERTICES, FACES, [1.0]), r"one entry a face, shape \(4,\), got \(1,\)"),
        (lambda: plot.plot_mesh(VERTICES[:, :2], FACES, np.ones(4)), r"`vertices` must have shape \(V, 3\)"),
        (lambda: plot.plot_mesh(VERTICES, FACES * 1.0, np.ones(4)), "`faces` must be integers"),
        (lambda: plot.plot_pagerank([0.5, 0.5], {"a": [1.0]}), r"must have shape \(2,\) each.*'a'"),
        (lambda: plot.plot_graph_signal([[0.0]], [], [1.0]), r"`coordinates` must have shape \(N, 2\)"),
        (lambda: plot.plot_graph_signal([[0.0, 1.0]], [[0, 0]], [1.0, 2.0]), "one entry a node"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
