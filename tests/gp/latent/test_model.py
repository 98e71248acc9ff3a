"""`LatentGaussianModel`: published values, forecasts, criteria, and what is refused."""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

import graphrf as grf
from graphrf.gp import Groups, LatentGaussianModel, Nodes, Steps
from graphrf.gp.terms import BetaPrior

pandas = pytest.importorskip("pandas")
pytest.importorskip("formulaic")

AREAL = Path(os.environ.get("GRAPHRF_DATA_DIR", "none")) / "areal"
published = pytest.mark.skipif(not AREAL.is_dir(), reason="needs the districts of GRAPHRF_DATA_DIR")
GRAPH = grf.load_graph(nx.grid_2d_graph(4, 5))


def frame(n=200, seed=0):
    rng = np.random.default_rng(seed)
    nodes = list(GRAPH.nodes)
    made = pandas.DataFrame(
        {
            "node": [nodes[i] for i in rng.integers(0, 20, n)],
            "year": rng.integers(2001, 2011, n),
            "clinic": rng.integers(0, 6, n),
            "x": rng.standard_normal(n),
            "people": rng.uniform(1, 5, n),
        }
    )
    level = {node: 0.4 * np.sin(node[0]) for node in nodes}
    rate = np.exp(0.5 + made["node"].map(level) + 0.05 * (made["year"] - 2005) + 0.3 * made["x"])
    made["cases"] = rng.poisson(made["people"] * rate)
    made["y"] = np.log(rate) + 0.2 * rng.standard_normal(n)
    return made


@published
def test_scotland_has_the_moments_of_inla():
    data = json.loads((AREAL / "scotland_lip.json").read_text())
    edges = np.array(json.loads((AREAL / "scotland_connected.json").read_text())["edges"])
    edges = edges.T if edges.shape[0] == 2 else edges
    table = pandas.DataFrame(
        {"y": data["y"], "e": data["E"], "x": 10 * np.array(data["x"]), "district": range(56)}
    )
    prior = {"sd": (0.5, 30.0), "mixing": BetaPrior(0.5, 0.5)}
    graph = grf.from_edges(edges[:, 0] - 1, edges[:, 1] - 1)
    model = LatentGaussianModel(
        "y ~ 1 + x",
        Nodes(graph, grf.BYM2(), by="district", prior=prior),
        "poisson",
        exposure="e",
        coefficient_deviation=5.0,
        seed=0,
    )
    found = model.fit(table).coefficients_
    np.testing.assert_allclose(
        found[["mean", "sd"]], [[-0.2216, 0.1265], [0.3707, 0.1320]], atol=0.02
    )


def test_forecasts_new_groups_and_known_rows():
    data = frame()
    terms = [Nodes(GRAPH, grf.BYM2()), Steps("year", "ar1"), Groups("clinic")]
    model = LatentGaussianModel("y ~ 1 + x", terms, hyperparameters="mode", seed=0).fit(data)
    mean, std = model.predict(data, return_std=True)
    fitted = model.predict(return_std=True)
    np.testing.assert_allclose(mean, fitted[0], atol=1e-8)
    np.testing.assert_allclose(std, fitted[1], atol=1e-6)
    row = data.iloc[[0] * 4].assign(year=[2010, 2011, 2020, 2037], clinic=0)
    later, spread = model.predict(row, return_std=True)
    # Forecasts are less certain, and tend to the mean of the process.
    assert (np.diff(spread) > 0).all()
    assert abs(later[-1] - later[-2]) < abs(later[1] - later[0]) + 0.05
    new = model.predict(data.iloc[[0, 0]].assign(clinic=[0, 99]), return_std=True)[1]
    assert new[1] > new[0]
    draws = model.sample(row, 4_000, seed=1)
    assert draws.shape == (4_000, 4)
    np.testing.assert_allclose(draws.mean(axis=0), later, atol=0.1 * spread.max())
    np.testing.assert_allclose(draws.std(axis=0), spread, rtol=0.1)


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=pytest.mark.more) for kind in ("rw1", "matern", "iid")]
    + ["rw2", "seasonal"],
)
def test_every_kind_of_steps_forecasts(kind):
    data = frame()
    term = Steps("year", kind, period=3 if kind == "seasonal" else None)
    model = LatentGaussianModel("y ~ 1", term, hyperparameters="mode", seed=0).fit(data)
    ahead = pandas.DataFrame({"year": [2010, 2011, 2012, 2013, 2030]})
    mean, std = model.predict(ahead, return_std=True)
    assert np.isfinite(mean).all()
    assert std[-1] > std[0]
    if kind in ("rw1", "rw2"):
        assert std[-1] > 1.5 * std[1]


def test_fields_of_future_years_are_predicted():
    data = frame()
    areas, years = Nodes(GRAPH, grf.ICAR()), Steps("year", "rw1")
    terms = [areas, years, areas * years]
    settings = {"exposure": "people", "hyperparameters": "mode", "seed": 0}
    model = LatentGaussianModel("cases ~ 1", terms, "poisson", **settings).fit(data)
    later = data.iloc[:20].assign(year=2012)
    _, std = model.predict(later, return_std=True, latent=True)
    assert (std > model.predict(data.iloc[:20], return_std=True, latent=True)[1]).all()
    draws = model.sample(later, 3_000, seed=0, latent=True)
    np.testing.assert_allclose(draws.std(axis=0), std, rtol=0.12)


def test_answers_agree_with_each_other():
    data = frame()
    terms = [Nodes(GRAPH, grf.BYM2()), Steps("year", "rw1")]
    model = LatentGaussianModel("cases ~ 1 + x", terms, "poisson", exposure="people", seed=0).fit(
        data
    )
    table = model.predict(data, quantiles=(0.1, 0.9), as_frame=True)
    assert table.index.equals(data.index)
    draws = model.sample(data, 3_000, seed=0)
    np.testing.assert_allclose(np.mean(draws < table["0.9"].to_numpy(), axis=0), 0.9, atol=0.04)
    expected, spread = model.predict(data, return_std="observation")
    counts = np.random.default_rng(1).poisson(draws * data["people"].to_numpy())
    np.testing.assert_allclose(expected, model.predict(data) * data["people"])
    np.testing.assert_allclose(spread, counts.std(axis=0), rtol=0.1)
    above = model.probability(data, above=2.0)
    np.testing.assert_allclose(above, np.mean(draws > 2.0, axis=0), atol=0.05)
    effects = model.effects("year")
    pandas.testing.assert_frame_equal(effects, model.effects(1))
    assert effects.index.tolist() == list(range(2001, 2011))
    assert abs(effects["mean"].sum()) < 1e-6
    left_out = model.loo()
    assert left_out.total < 0
    # They are nearly the same nevertheless.
    with pytest.warns(UserWarning, match="5 of 200 observations has a variance above"):
        assert model.waic().value == pytest.approx(-2 * left_out.total, rel=0.02)
    x = model.coefficients_.loc["x"]
    assert x["0.025"] < 0.3 < x["0.975"]


def test_no_fixed_effects_no_terms_and_one_row_a_level():
    data = frame(40)
    alone = LatentGaussianModel("y ~ 1 + x", (), seed=0).fit(data)
    design = np.column_stack([np.ones(40), data["x"]])
    np.testing.assert_allclose(
        alone.coefficients_["mean"],
        np.linalg.lstsq(design, data["y"].to_numpy(), rcond=None)[0],
        atol=1e-3,
    )
    with pytest.warns(UserWarning, match="sums to zero, and the formula has no intercept"):
        LatentGaussianModel("y ~ 0", Nodes(GRAPH, grf.ICAR()), seed=0).fit(data)


@pytest.mark.parametrize(
    ("change", "settings", "match"),
    [
        ({}, {"formula": "cases"}, "`formula` must be like"),
        (
            {},
            {"formula": "cases ~ 1 + nothing"},
            "`frame` has no column 'nothing', which the formula reads",
        ),
        ({}, {"formula": "cases ~ 1 + bs(x, )("}, "cannot be read"),
        ({}, {"formula": "cases ~ 1 + x + I(2 * x)"}, "combination of the others"),
        (
            {},
            {"terms": [Groups("clinics")]},
            "no column 'clinics', which .* reads; .*did you mean 'clinic'",
        ),
        ({}, {"terms": [GRAPH]}, "`terms` must hold Nodes"),
        ({}, {"exposure": "peopel"}, "did you mean 'people'"),
        ({}, {"hyperparameters": "best"}, "`hyperparameters` must be one of"),
        ({"cases": 1.5}, {}, "must hold counts"),
        ({"people": 0.0}, {}, "must be greater than 0"),
        ({"node": [(9, 9)] * 40}, {}, "`node` holds .* and the graph has no such node"),
        ({"year": np.nan}, {"terms": [Steps("year")]}, "`year` has no value in 40 of 40 rows"),
        ({"cases": "many"}, {}, "must hold numbers where the formula computes with it, got"),
        ({"x": np.nan}, {}, "`x` has no value in 40 of 40 rows"),
    ],
)
def test_what_cannot_be_fitted_is_refused(change, settings, match):
    data = frame(40).assign(**change)
    known = {
        "formula": "cases ~ 1 + x",
        "terms": [Nodes(GRAPH, grf.CAR())],
        "likelihood": "poisson",
    }
    with pytest.raises((ValueError, TypeError), match=match):
        LatentGaussianModel(**{"exposure": "people", **known, **settings}).fit(data)


@pytest.mark.parametrize(
    "hyperparameters", [pytest.param("average", marks=pytest.mark.more), "mode"]
)
def test_files_keep_predictions_and_what_terms_share(hyperparameters, tmp_path):
    data = frame(60).assign(when=lambda own: pandas.to_datetime(own["year"].astype(str) + "-01-01"))
    data["node"] = [[node, (0, 0)] if k % 7 == 0 else node for k, node in enumerate(data["node"])]
    car = grf.CAR(0.5)
    prior = {"dependence": BetaPrior(4, 1), "sd": (0.3, 3.0)}
    terms = [
        Nodes(GRAPH, car, prior=prior),
        Nodes(GRAPH, car) * Groups("clinic"),
        Steps("when", "ar1"),
    ]
    model = LatentGaussianModel(
        "cases ~ C(clinic) + x",
        terms,
        "poisson",
        exposure="people",
        hyperparameters=hyperparameters,
        seed=0,
    ).fit(data)
    model.save(tmp_path / "model.npz")
    loaded = LatentGaussianModel.load(tmp_path / "model.npz")
    later = data.iloc[:9].assign(when=pandas.Timestamp("2013-01-01"))
    for asked in (data, later):
        for one, other in zip(
            model.predict(asked, return_std=True),
            loaded.predict(asked, return_std=True),
            strict=True,
        ):
            np.testing.assert_allclose(other, one, rtol=1e-9)
    pandas.testing.assert_frame_equal(loaded.summary(), model.summary())
    assert loaded.loo().total == pytest.approx(model.loo().total)
    assert len(loaded._joint.parameters) == len(model._joint.parameters) == 5


def test_files_keep_fields_along_streets(tmp_path):
    from graphrf.gp import Field

    # Two streets from b to c, of which one also leads back: by key 0 from there.
    roads = nx.MultiDiGraph()
    for u, v, length in [("a", "b", 1.0), ("b", "c", 2.0), ("b", "c", 1.5), ("c", "b", 1.5)]:
        roads.add_edge(u, v, length=length)
    streets = grf.gp.MetricGraph.from_networkx(roads)
    rng = np.random.default_rng(0)
    data = pandas.DataFrame(
        {"edge": [("b", "c", 0), ("c", "b", 0)] * 30, "distance": rng.uniform(0, 1, 60)}
    )
    data["y"] = np.tile([1.0, -1.0], 30) + 0.1 * rng.standard_normal(60)
    model = LatentGaussianModel("y ~ 1", Field(streets), seed=0, hyperparameters="mode").fit(data)
    model.save(tmp_path / "model.npz")
    loaded = LatentGaussianModel.load(tmp_path / "model.npz")
    np.testing.assert_allclose(loaded.predict(data), model.predict(data), rtol=1e-9)
    there = pandas.DataFrame({"edge": [("b", "c", 0), ("c", "b", 0)], "distance": [0.7, 0.7]})
    np.testing.assert_allclose(loaded.predict(there), model.predict(there), rtol=1e-9)


def test_a_level_far_from_zero_in_its_deviations_is_found():
    """The prior of coefficients is flat around where the observations are."""
    data = frame(80)
    terms = [Groups("clinic")]
    model = LatentGaussianModel("y ~ 1 + x", terms, hyperparameters="mode", seed=0)
    near, far = (copy.copy(model).fit(data.assign(y=data["y"] + level)) for level in (0.0, 1e7))
    np.testing.assert_allclose(far.predict(data) - 1e7, near.predict(data), atol=1e-4)
    np.testing.assert_allclose(far.coefficients_["sd"], near.coefficients_["sd"], rtol=1e-3)
    assert far.coefficients_["mean"].iloc[0] == pytest.approx(
        1e7 + near.coefficients_["mean"].iloc[0], abs=1e-3
    )
    assert far.loo().total == pytest.approx(near.loo().total, abs=1e-3)


def test_terms_of_one_column_have_hyperparameters_of_their_own():
    """A field on districts and independent effects of them, both read by one column."""
    model = LatentGaussianModel(
        "y ~ 1", [Nodes(GRAPH, grf.ICAR()), Groups("node")], seed=0, hyperparameters="mode"
    )
    assert model.fit(frame()).summary().index.tolist() == [
        "Intercept",
        "sd(node), term 0",
        "sd(node), term 1",
        "scale",
    ]


def test_categories_that_the_fit_has_not_seen_are_refused():
    data = frame(60)
    model = LatentGaussianModel("y ~ C(clinic)", Steps("year"), seed=0, hyperparameters="mode").fit(
        data
    )
    with pytest.raises(
        ValueError, match=r"has 17 in 'clinic', row 0, which the fit has not seen: it knows 0, 1, "
    ):
        model.predict(data.assign(clinic=17))
    with pytest.raises(ValueError, match="`frame` has no column 'clinic', which the formula reads"):
        model.predict(data.drop(columns="clinic"))


def test_data_are_warned_of_as_by_other_estimators():
    settings = {"seed": 0, "hyperparameters": "mode"}
    data = frame(60).assign(y=lambda own: 60.0 + own["y"])
    data.loc[[3, 8, 20], "y"] = -999.0
    with pytest.warns(UserWarning, match="`y` holds -999 3 times"):
        LatentGaussianModel("y ~ 1", Groups("clinic"), **settings).fit(data)
    with pytest.warns(UserWarning, match="learned from 8 observations only"):
        LatentGaussianModel("cases ~ 1", Groups("clinic"), "poisson", **settings).fit(frame(8))
    alone = grf.from_edges([0], [1], n_nodes=20)
    with pytest.warns(UserWarning, match="have no edge"):
        LatentGaussianModel("y ~ 1", Nodes(alone, grf.BYM2(), by="place"), **settings).fit(
            frame(60).assign(place=np.arange(60) % 20)
        )


def test_frames_of_polars_are_read():
    polars = pytest.importorskip("polars")
    data = frame(60).drop(columns="node")
    fits = [
        LatentGaussianModel("y ~ 1 + x", Groups("clinic"), seed=0, hyperparameters="mode").fit(own)
        for own in (data, polars.DataFrame({name: data[name].to_numpy() for name in data.columns}))
    ]
    np.testing.assert_allclose(fits[0].coefficients_, fits[1].coefficients_)
