"""Effects, ranks and calibration: what is drawn where."""

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="figures need the extra `plot`")
pytest.importorskip("formulaic", reason="terms need the extra `terms`")

from matplotlib.figure import Figure

import graphrf as grf
from graphrf import plot
from graphrf.gp import Covariate, Groups, LatentGaussianModel, Nodes, Steps

pandas = pytest.importorskip("pandas")

GRAPH = grf.from_edges(np.arange(5), np.arange(1, 6))


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({"node": np.arange(120) % 6, "year": 2001 + np.arange(120) // 6 % 4})
    frame = frame.assign(ward=rng.choice(list("abc"), 120), dose=rng.uniform(size=120))
    frame["y"] = frame["dose"] + 0.2 * frame["year"] + 0.1 * rng.standard_normal(120)
    terms = [
        Nodes(GRAPH, grf.ICAR()),
        Steps("year", "rw1"),
        Groups("ward"),
        Covariate("dose") * Groups("ward"),
        Nodes(GRAPH, grf.ICAR()) * Groups("year"),
    ]
    return LatentGaussianModel("y ~ 1 + dose", terms, hyperparameters="mode", seed=0).fit(frame)


def test_effects_are_a_panel_for_each_term_of_one_column_that_is_no_field(fitted):
    figure = plot.plot_effects(fitted)
    assert [ax.get_title() for ax in figure.axes] == [
        "coefficients",
        "year",
        "ward",
        "dose by ward",
    ]
    coefficients, years, wards, _ = figure.axes
    assert [text.get_text() for text in coefficients.get_yticklabels()] == ["dose"]
    np.testing.assert_allclose(years.get_lines()[0].get_xdata(), [2001, 2002, 2003, 2004])
    np.testing.assert_allclose(years.get_lines()[0].get_ydata(), fitted.effects(1)["0.5"])
    band = years.collections[0].get_paths()[0].vertices[:, 1]
    assert band.max() == pytest.approx(fitted.effects(1)["0.975"].max())
    # The largest median is on top.
    table = fitted.effects(2).sort_values("0.5", ascending=False)
    assert [text.get_text() for text in wards.get_yticklabels()] == list(table.index)
    ends = np.array([line[:, 0] for line in wards.collections[0].get_segments()])
    np.testing.assert_allclose(ends, table[["0.025", "0.975"]])


def test_the_intercept_is_drawn_on_request_and_a_given_figure_is_filled(fitted):
    figure = Figure(layout="constrained")
    assert plot.plot_effects(fitted, figure=figure, intercept=True) is figure
    names = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert names == ["Intercept", "dose"]


def test_coefficients_of_other_estimators_are_drawn_too():
    rng = np.random.default_rng(0)
    x = pandas.DataFrame({"age": rng.uniform(size=6), "income": rng.uniform(size=6)})
    gp = grf.GraphGPRegressor(GRAPH, mean=x, hyperparameters="mode", seed=0)
    with pytest.warns(UserWarning, match="6 observations"):
        gp.fit(np.arange(6), x["age"] + 0.1 * rng.standard_normal(6))
    (ax,) = plot.plot_effects(gp).axes
    assert [text.get_text() for text in ax.get_yticklabels()] == ["age", "income"]


def test_columns_of_the_formula_are_curves_and_ratios_are_on_a_logarithmic_axis():
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({"year": np.arange(90) % 3, "depth": rng.uniform(0, 4, 90)})
    frame["gear"] = rng.choice(["beam", "otter"], 90)
    frame["catch"] = rng.poisson(np.exp(frame["year"] + np.sin(frame["depth"])))
    formula = "catch ~ 0 + C(year) + poly(depth, 2) + gear"
    model = LatentGaussianModel(formula, (), "poisson", seed=0).fit(frame)
    # Without an intercept the levels of the first factor are that.
    (coefficients,) = plot.plot_effects(model).axes
    names = [text.get_text() for text in coefficients.get_yticklabels()]
    assert names == ["poly(depth, 2)[1]", "poly(depth, 2)[2]", "gear[T.otter]"]
    coefficients, depth = plot.plot_effects(model, along="depth").axes
    assert [text.get_text() for text in coefficients.get_yticklabels()] == ["gear[T.otter]"]
    depth, gear = plot.plot_effects(model, along=["depth", "gear"], transform="exp").axes
    assert (depth.get_yscale(), gear.get_xscale(), gear.get_xlabel()) == ("log", "log", "ratio")
    table = np.exp(model.effects("depth"))
    np.testing.assert_allclose(depth.get_lines()[0].get_xdata(), table.index)
    np.testing.assert_allclose(depth.get_lines()[0].get_ydata(), table["0.5"])
    largest = model.effects("gear")["0.5"].idxmax()
    assert gear.get_yticklabels()[0].get_text() == largest
    (whole,) = plot.plot_effects(model, intercept=True).axes
    assert len(whole.get_yticklabels()) == 6
    with pytest.raises(ValueError, match="`transform` must be"):
        plot.plot_effects(model, transform="log")
    with pytest.raises(ValueError, match="did you mean 'depth'"):
        plot.plot_effects(model, along="dpeth")


def ranks(n):
    middle = np.arange(1, n + 1)
    return pandas.DataFrame(
        {
            "0.025": np.maximum(1, middle - 1),
            "0.5": middle,
            "0.975": np.minimum(n, middle + 2),
            "P(rank <= 2)": np.linspace(1, 0, n),
        },
        index=[f"district {k}" for k in range(n)],
    )


def test_ranks_are_sorted_and_coloured_by_their_probability():
    ax = plot.plot_ranking(ranks(8).iloc[::-1], most=5)
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert names == [f"district {k}" for k in range(5)]
    assert ax.yaxis_inverted()
    points = ax.collections[1]
    np.testing.assert_allclose(points.get_array(), np.linspace(1, 0, 8)[:5])
    assert points.get_clim() == (0, 1)
    assert points.colorbar.ax.get_xlabel() == "P(rank ≤ 2)"


def test_many_ranks_have_no_names():
    ax = plot.plot_ranking(ranks(60), most=60)
    assert not ax.get_yticklabels()
    assert len(ax.collections[0].get_segments()) == 60


# -- calibration -----------------------------------------------------------------------------------


def band(ax):
    return ax.collections[0].get_paths()[0].vertices


def test_the_band_holds_all_of_the_line_in_nineteen_of_twenty_samples():
    """Checked with other samples than those that the band is made of: 2,000, +-4 deviations."""
    from graphrf.plot._reliability import _band

    rng = np.random.default_rng(11)
    for n, points, histogram in ((40, 40, False), (500, 100, False), (160, 20, True)):
        low, high = _band(n, points, histogram)
        counts = rng.multinomial(n, np.full(points, 1 / points), size=2_000)
        if histogram:
            inside = (counts * points / n >= low - 1e-9) & (counts * points / n <= high + 1e-9)
        else:
            line = np.cumsum(counts, axis=1) / n - np.arange(1, points + 1) / points
            inside = (line >= low[1:] - 1e-9) & (line <= high[1:] + 1e-9)
        share = inside.all(axis=1).mean()
        # Counts are discrete: a band can hold more than 0.95, and hardly less.
        assert 0.95 - 4 * np.sqrt(0.05 * 0.95 / 2_000) < share < 0.98, (n, share)


def test_narrow_intervals_leave_the_band_and_calibrated_ones_do_not():
    uniform = (np.arange(200) + 0.5) / 200
    narrow = uniform**3 / (uniform**3 + (1 - uniform) ** 3)
    ax = plot.plot_calibration({"good": uniform, "narrow": narrow})
    good, bad = ax.get_lines()[1:]
    assert np.abs(good.get_ydata()).max() < 0.01
    assert bad.get_ydata()[:50].max() > band(ax)[:, 1].max()
    assert good.get_linestyle() != bad.get_linestyle()
    ax = plot.plot_calibration(narrow, histogram=True)
    assert ax.get_ylabel() == "density"
    bars = ax.patches[0].get_data().values
    assert bars.mean() == pytest.approx(1)
    assert min(bars[0], bars[-1]) > band(ax)[:, 1].max()


def test_missing_transforms_are_left_out():
    values = np.append((np.arange(50) + 0.5) / 50, np.nan)
    line = plot.plot_calibration(values).get_lines()[1].get_ydata()
    np.testing.assert_allclose(line, plot.plot_calibration(values[:-1]).get_lines()[1].get_ydata())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plot.plot_calibration([0.5, 1.5]), r"`pit` must be in \[0, 1\], got 0.5 to 1.5"),
        (lambda: plot.plot_calibration([np.nan]), "`pit` must have values"),
        (
            lambda: plot.plot_calibration({"a": [0.5], "b": [0.5]}, histogram=True),
            "`histogram` is of one array, got 2",
        ),
        (lambda: plot.plot_ranking(ranks(3)[["0.5"]]), "`ranks` must be a data frame"),
        (lambda: plot.plot_ranking(ranks(3), most=0), "`most` must be"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
