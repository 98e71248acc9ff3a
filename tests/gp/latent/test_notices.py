"""Warnings of `LatentGaussianModel` about its data, and silence about data that are right."""

from __future__ import annotations

import numpy as np
import pytest

import graphrf as grf
from graphrf.gp import Covariate, Groups, LatentGaussianModel, Steps

pandas = pytest.importorskip("pandas")
pytest.importorskip("formulaic")


def frame(n=240, seed=0):
    """Counts of 24 wards in several years, with the poverty of each ward in all of them."""
    rng = np.random.default_rng(seed)
    ward = np.arange(n) % 24
    made = pandas.DataFrame({"ward": ward, "year": 2010 + np.arange(n) // 24})
    made["poverty"] = rng.normal(15, 4, 24).round(1)[ward]
    made["age"] = rng.normal(40, 9, n)
    made["people"] = rng.lognormal(6, 1, n).round()
    made["sick"] = rng.random(n) < 0.3
    made["cases"] = rng.poisson(made["people"] * 0.02 * np.exp(0.03 * (made["poverty"] - 15)))
    made["cost"] = rng.gamma(3, 20, n)
    return made


def fitted(data, formula="cases ~ poverty", likelihood="poisson", term=None, **more):
    """Fitted: warnings are errors."""
    settings = {"hyperparameters": "mode", "seed": 0, **more}
    return LatentGaussianModel(formula, term or Groups("ward"), likelihood, **settings).fit(data)


# -- exposures -------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [[5], range(0, 60)])
def test_exposures_in_two_units_are_told(rows):
    data = frame()
    data["people"] = np.random.default_rng(0).uniform(0.5, 1.5, len(data))
    data.loc[list(rows), "people"] *= 1e4
    with pytest.warns(UserWarning, match=f"`people` is .* {len(rows)}, .* one unit"):
        fitted(data, exposure="people")


def test_exposures_in_two_units_are_told_by_graph_processes_too():
    graph = grf.from_edges(range(29), range(1, 30))
    people = np.random.default_rng(0).uniform(0.5, 1.5, 30)
    gp = grf.GraphGPRegressor(graph, likelihood="poisson", hyperparameters="mode", seed=0)
    y = np.random.default_rng(1).poisson(5 * people)
    gp.fit(np.arange(30), y, exposure=people)
    people[4] *= 1e4
    with pytest.warns(UserWarning, match="`exposure` is .* in 29 rows .* in 1, .* one unit"):
        gp.fit(np.arange(30), y, exposure=people)


def test_exposures_of_many_sizes_are_not_told():
    data = frame()
    data["people"] = np.random.default_rng(0).lognormal(10, 2.5, len(data))
    data["cases"] = np.random.default_rng(1).poisson(1e-3 * data["people"])
    fitted(data, exposure="people")


# -- codes of missing values -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "value", "rows"),
    [
        ("poverty", -99.0, [7]),
        ("poverty", -99.0, range(5, 240, 24)),  # of one ward, in each year
        ("age", 999.0, [3]),
        ("people", 999_999.0, [3]),
        ("cases", 9999, range(0, 240, 30)),
    ],
)
@pytest.mark.parametrize("formula", ["cases ~ poverty + age", "cases ~ I(poverty / 5) + exp(-age)"])
def test_codes_are_told_of_counts_covariates_and_exposures(column, value, rows, formula):
    data = frame()
    data.loc[list(rows), column] = value
    times = f"{len(rows)} times" if len(rows) > 1 else "once"
    with pytest.warns(UserWarning, match=f"`{column}` holds {value:g} {times}, .*leave these rows"):
        fitted(data, formula, exposure="people")


def test_codes_are_told_of_the_columns_of_varying_coefficients_and_exposures_beside_the_frame():
    data = frame()
    exposure = data["people"].where(data.index != 4, 999_999.0)
    data.loc[7, "age"] = -99.0
    with pytest.warns(UserWarning, match="holds") as caught:
        fitted(data, term=Covariate("age") * Groups("ward"), exposure=exposure)
    told = [str(each.message).split(", ")[0] for each in caught]
    assert told == ["`age` holds -99 once", "`exposure` holds 999999 once"]


def test_rare_counts_hide_no_codes():
    data = frame().assign(cases=np.random.default_rng(0).poisson(0.3, 240))
    fitted(data)
    data.loc[::30, "cases"] = 9999
    with pytest.warns(UserWarning, match="`cases` holds 9999 8 times"):
        fitted(data)


def test_incomes_of_0_outliers_and_zeros_that_a_likelihood_has_are_right():
    rng, data = np.random.default_rng(0), frame()
    data["income"] = np.where(rng.random(240) < 0.3, 0.0, rng.lognormal(10, 0.5, 240))
    data["distance"] = np.where(data["ward"] == 3, 60.0, data["poverty"])  # one ward, far away
    fitted(data, "cases ~ I(income / 1e4) + distance", exposure="people")

    data["visits"] = rng.poisson(50.0, 240) * (rng.random(240) < 0.7)
    fitted(data, "visits ~ 1", "zero_inflated_poisson")
    with pytest.warns(UserWarning, match="`visits` holds 0"):
        fitted(data, "visits ~ 1", "negative_binomial")


def test_times_that_are_censored_at_the_end_of_a_study_are_right():
    rng, data = np.random.default_rng(1), frame()
    time = rng.exponential(20.0, 240) * np.where(rng.random(240) < 0.3, 100.0, 1.0)
    data["time"], data["seen"] = np.minimum(time, 365.0), (time < 365.0).astype(int)
    fitted(data, "time ~ 1", "weibull", event="seen")
    with pytest.warns(UserWarning, match="`time` holds 365"):
        fitted(data, "time ~ 1", "weibull")


# -- rows twice ------------------------------------------------------------------------------------


@pytest.mark.parametrize("copies", [2, 3])
@pytest.mark.parametrize("likelihood", ["poisson", "gamma"])
def test_a_table_that_was_joined_with_itself_is_told(copies, likelihood):
    data, response = frame(), {"poisson": "cases", "gamma": "cost"}[likelihood]
    twice = pandas.concat([data] * copies)
    message = f"the {240 * copies} rows of the frame are {copies} copies of 240, .*drop_duplicates"
    with pytest.warns(UserWarning, match=message) as caught:
        fitted(twice, f"{response} ~ poverty", likelihood)
    assert len(caught) == 1
    fitted(twice.drop_duplicates(), f"{response} ~ poverty", likelihood)


def test_binary_outcomes_of_few_groups_are_right():
    rng = np.random.default_rng(0)
    data = pandas.DataFrame({"ward": rng.integers(0, 24, 3000), "sick": rng.integers(0, 2, 3000)})
    assert data.duplicated(keep=False).all()
    fitted(data, "sick ~ 1", "bernoulli")
    cells = frame().assign(places=[[0, 1]] * 240)  # rows that have no hash
    fitted(pandas.concat([cells] * 2))


# -- numbers outside of the fit --------------------------------------------------------------------


@pytest.fixture(scope="module")
def of_years():
    return fitted(frame(), "cases ~ poverty + C(sick) + age", term=Steps("year", "rw1"))


@pytest.mark.parametrize(
    ("column", "change", "message"),
    [
        ("poverty", lambda x: 100 * x, r"`poverty` is 2\d+ .*was between 5.7 and 20.5 in the fit"),
        ("age", lambda x: -9.0, r"`age` is -9.*240 such rows"),
        ("year", lambda x: x - 2000, r"`year` is 10 .*between 2010 and 2019 .* another unit\?"),
        ("year", lambda x: 2060, r"`year` is 2060 "),
    ],
)
def test_covariates_in_another_unit_are_told_in_all_answers(of_years, column, change, message):
    data = frame()
    if column == "age":
        data["age"] = data["age"].clip(30.0, 40.0)
        of_years = fitted(data, "cases ~ age")
    data[column] = change(data[column])
    for answer in (
        of_years.predict,
        lambda rows: of_years.probability(rows, above=1.0),
        lambda rows: of_years.sample(rows, 2, seed=0),
    ):
        with np.errstate(over="ignore"), pytest.warns(UserWarning, match=message) as caught:
            answer(data)
        assert len(caught) == 1


def test_extrapolation_by_as_much_as_the_range_is_right(of_years, tmp_path):
    data = frame()
    data["poverty"], data["year"] = data["poverty"] + 14.0, data["year"] + 20
    of_years.predict(data)  # warnings are errors
    of_years.save(tmp_path / "model.npz")
    kept = LatentGaussianModel.load(tmp_path / "model.npz")
    with pytest.warns(UserWarning, match="`poverty` is"):
        kept.predict(data.assign(poverty=1500.0))
