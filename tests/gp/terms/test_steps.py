"""Levels along a line: the usual step, nearly equal levels, dates, and new levels."""

from __future__ import annotations

import warnings
from datetime import date, timedelta

import numpy as np
import pytest

from graphrf.gp import LatentGaussianModel, Steps
from graphrf.gp.terms import BetaPrior
from graphrf.gp.terms.parameters import PositiveCorrelation
from graphrf.gp.terms.term import BoundTerm
from graphrf.gp.time import MaternTime

pandas = pytest.importorskip("pandas")

DAYS = pandas.Series(pandas.date_range("2024-03-20", periods=20, freq="D"))
LATE = pandas.concat([DAYS, DAYS[7:8] + pandas.Timedelta("1s")], ignore_index=True)


def bound(labels, kind="rw1", **settings):
    return BoundTerm.of(Steps("t", kind, **settings), pandas.DataFrame({"t": labels}), 0, 1.0)


def precision(term):
    return term.structure.precision(term.structure.starts).toarray()


@pytest.mark.parametrize("kind", ["iid", "ar1", "rw1", "rw2", "seasonal", "matern"])
def test_a_reading_a_second_late_is_one_of_its_day(kind):
    period = {"period": 7} if kind == "seasonal" else {}
    whole = bound(DAYS, kind, **period)
    with pytest.warns(UserWarning, match="`t`: 1 of 21 levels are within a thousandth of a step"):
        late = bound(LATE, kind, **period)
    assert late.levels == whole.levels
    np.testing.assert_allclose(precision(late), precision(whole), rtol=1e-5, atol=1e-5)
    frame = pandas.DataFrame({"t": LATE[[7, 20]]})
    a, b = late.rows(frame).toarray()
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("kind", ["iid", "ar1", "rw1", "rw2", "matern"])
def test_numbers_that_differ_by_rounding_are_one_level(kind):
    levels = bound([*(0.1 * np.arange(8)), 0.3], kind).levels
    assert len(levels) == 8


@pytest.mark.parametrize("late", [1e-7, 1e-5, 1e-3, 2e-3, 0.01])
@pytest.mark.parametrize("kind", ["ar1", "rw1", "matern"])
def test_evidence_is_continuous_in_the_places_of_levels(kind, late):
    rng = np.random.default_rng(0)
    t = np.repeat(np.arange(15.0), 4)
    y = np.sin(t / 2) + 0.3 * rng.standard_normal(60)

    def evidence(places):
        frame = pandas.DataFrame({"t": places, "y": y})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = LatentGaussianModel(
                "y ~ 1", Steps("t", kind), hyperparameters="mode", seed=0
            ).fit(frame)
        return model.log_marginal_likelihood_

    moved = t.copy()
    moved[30] += late
    assert evidence(moved) == pytest.approx(evidence(t), abs=0.15)


@pytest.mark.parametrize("kind", ["ar1", "rw1", "matern"])
@pytest.mark.parametrize("mode", ["mode", "average"])
def test_levels_at_any_times_are_fitted_and_predicted(kind, mode):
    rng = np.random.default_rng(7)
    t = np.sort(rng.uniform(0, 1000, 40))
    t[rng.random(40) < 0.1] *= 50
    frame = pandas.DataFrame({"t": t, "y": np.sin(t) + 0.3 * rng.standard_normal(40)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LatentGaussianModel("y ~ 1", Steps("t", kind), hyperparameters=mode, seed=0).fit(
            frame
        )
    later = pandas.DataFrame({"t": rng.uniform(0, 60_000, 9)})
    assert np.isfinite(model.predict(later, return_std=True)).all()


def test_an_autoregression_has_one_pattern_for_all_correlations():
    """Correlations across long gaps underflow to 0."""
    structure = bound([0.0, 1.0, 2.2, 3.0, 4000.0, 90000.0], "ar1").structure
    (parameter,) = structure.parameters
    patterns = {
        structure.precision({parameter.name: rho}).indices.tobytes()
        for rho in (0.001, 0.5, 0.99, 0.9999)
    }
    assert len(patterns) == 1


@pytest.mark.parametrize("nu", [0.5, 1.5])
@pytest.mark.parametrize("gap", [0.3, 2e-3])
@pytest.mark.parametrize("lengthscale", [0.7, 5.0])
def test_matern_covariances_hold_where_levels_are_near_to_each_other(nu, gap, lengthscale):
    labels = np.array([0, 1, 2, 2 + gap, 4, 5.3])
    structure = bound(labels, "matern", nu=nu).structure
    (parameter,) = structure.parameters
    values = {parameter.name: lengthscale}
    q = structure.precision(values).toarray()
    expected = MaternTime(lengthscale, nu).covariance(labels[:, None] - labels)
    # This is the inverse of a stiff matrix.
    np.testing.assert_allclose(np.linalg.inv(q)[:6, :6], expected, atol=1e-5)
    assert structure.log_determinant(values) == pytest.approx(np.linalg.slogdet(q)[1], abs=1e-5)


def test_the_usual_step_is_that_of_most_levels():
    """rho is the correlation a day apart, though two readings are 100 seconds late."""
    labels = [*range(20), 5 + 100 / 86400, 9 + 100 / 86400]
    (parameter,) = bound(labels, "ar1").structure.parameters
    structure = bound(labels, "ar1").structure
    covariance = np.linalg.inv(structure.precision({parameter.name: 0.6}).toarray())
    places = np.sort(labels)
    np.testing.assert_allclose(covariance, 0.6 ** np.abs(places[:, None] - places), atol=1e-8)


def test_the_law_of_positive_correlations_is_that_of_all_given_their_sign():
    law = PositiveCorrelation(5.0, 2.0)
    odds = np.linspace(-40, 40, 20_001)
    density = np.exp([law.log_density(x)[0] for x in odds])
    assert np.trapezoid(density, odds) == pytest.approx(1.0, abs=1e-6)
    whole = BetaPrior(5.0, 2.0)
    ratios = []
    for r in (0.1, 0.5, 0.9):
        x, z = np.log(r / (1 - r)), np.log((1 + r) / (1 - r))
        # densities of r, from those of the two coordinates
        ratios.append(
            law.log_density(x)[0]
            - np.log(r * (1 - r))
            - whole.log_density(z)[0]
            + np.log((1 - r * r) / 2)
        )
        step = (law.log_density(x + 1e-5)[0] - law.log_density(x - 1e-5)[0]) / 2e-5
        assert law.log_density(x)[1] == pytest.approx(step, abs=1e-7)
    np.testing.assert_allclose(ratios, ratios[0], atol=1e-9)


# -- dates -----------------------------------------------------------------------------------------

DATES = {
    "days": DAYS.tolist(),
    "Python's dates": [date(2024, 3, 20) + timedelta(k) for k in range(20)],
    "numpy's dates": [np.datetime64("2024-03-20") + k for k in range(20)],
    "1600": pandas.date_range("1600-01-01", periods=20, freq="D", unit="s").tolist(),
    "2300": [date(2300, 1, 1) + timedelta(k) for k in range(20)],
    "nights in Berlin": pandas.date_range(
        "2024-03-20", periods=20, freq="D", tz="Europe/Berlin"
    ).tolist(),
    "hours in Berlin": pandas.date_range(
        "2024-03-30 20:00", periods=20, freq="h", tz="Europe/Berlin"
    ).tolist(),
    "microseconds": pandas.date_range("2024-03-30", periods=20, freq="us").tolist(),
    "nanoseconds": pandas.date_range("2024-03-30", periods=20, freq="3ns").tolist(),
    "nanoseconds since 1970": [1_700_000_000_000_000_000 + k for k in range(20)],
    "seconds since 1970": [1_700_000_000 + 60 * k for k in range(20)],
}


@pytest.mark.parametrize("name", DATES)
def test_equal_steps_of_dates_are_equal(name):
    """rw2 and its forecast are those of plain numbers."""
    labels = pandas.Series(DATES[name], dtype=object)
    dates, numbers = bound(labels[:18], "rw2"), bound(range(18), "rw2")
    np.testing.assert_allclose(precision(dates), precision(numbers), atol=1e-9)
    ahead = dates.extension(pandas.DataFrame({"t": labels[17:]}), {})
    expected = numbers.extension(pandas.DataFrame({"t": [17, 18, 19]}), {})
    np.testing.assert_allclose(ahead.old.toarray(), expected.old.toarray(), atol=1e-9)


def test_a_moment_is_the_same_level_in_all_zones():
    hours = bound(pandas.Series(DATES["hours in Berlin"]), "rw1")
    moments = pandas.DataFrame(
        {"t": pandas.Series(DATES["hours in Berlin"]).dt.tz_convert("Asia/Tokyo")}
    )
    np.testing.assert_array_equal(hours.extension(moments, {}).old.toarray(), np.eye(20))


def test_days_that_are_missing_are_levels():
    """A walk of second order adds them, and they are predicted as levels of the fit."""
    term = bound(DAYS[DAYS.index != 5], "rw2")
    assert len(term.levels) == 20
    found = term.extension(pandas.DataFrame({"t": DAYS[5:6]}), {})
    np.testing.assert_array_equal(found.old.toarray(), np.eye(20)[5:6])
    assert bound([2001, 2002, 2005], "rw2").levels == [2001, 2002, 2003, 2004, 2005]


@pytest.mark.parametrize(
    ("labels", "match"),
    [
        (
            [20260130, 20260131, 20260201],
            r'got 20260130, which looks like a date: .*format="%Y%m%d"',
        ),
        ([20260130.0, 20260131.0, 20260201.0], "looks like a date"),
        ([202611, 202612, 202701], 'format="%Y%m"'),
        ([2026013023, 2026013100, 2026013101], 'format="%Y%m%d%H"'),
        (
            list("abc"),
            "must hold numbers or dates for Steps, got 'a'; pandas.to_datetime makes dates of text",
        ),
        ([1.0, 2.0, np.inf], "`t` must be finite"),
        ([1, 2, 10**400], "`t` must be finite"),
        ([1.0, 1.0 + 1e-16, 2.0], "must have at least 3 levels"),
        ([1, 2, pandas.Timestamp("2024-01-01")], "must hold numbers or dates"),
        ([pandas.Timestamp("2024-01-01"), 2, 3], "must hold dates in all rows, got int 2"),
        (
            [*DAYS[:2], pandas.Timestamp("2024-01-01", tz="UTC")],
            "with a time zone in all rows or in none",
        ),
    ],
)
def test_labels_that_are_no_places_are_refused(labels, match):
    with pytest.raises((ValueError, TypeError), match=match):
        bound(pandas.Series(labels, dtype=object))


@pytest.mark.parametrize(
    "labels", [[202601, 202602, 202612], [20269901, 20269902, 20269903], [5, 6, 20260131]]
)
def test_numbers_that_are_no_dates_are_numbers(labels):
    assert bound(labels).levels == labels


# -- new levels ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["iid", "ar1", "rw1", "matern"])
def test_new_levels_have_the_law_of_all_levels(kind):
    """Conditional means and variances of other places, from the joint covariance."""
    known, new = np.array([0.0, 1, 2.5, 4, 5.2]), np.array([-1.0, 1.7, 9.0])
    term = bound(known, kind)
    values = term.structure.starts
    ahead = term.extension(pandas.DataFrame({"t": new}), values)
    every = np.sort(np.concatenate([known, new]))
    a, b = np.searchsorted(every, known), np.searchsorted(every, new)
    if kind == "rw1":  # differences alone have a law
        paths = np.minimum.outer(every - every[0] + 5, every - every[0] + 5) / term.axes[0]._at.step
        covariance = paths / term.structure.scale
    else:
        increments = term.axes[0]._structure((every - known[0]) / term.axes[0]._at.step)
        covariance = np.linalg.inv(increments.precision(values).toarray())
        covariance = covariance[: every.size, : every.size]
    n = known.size
    found = np.linalg.inv(ahead.precision.toarray())
    spread = ahead.new @ found @ ahead.new.T
    if kind == "matern":  # given the derivatives of the fit, too
        q = np.linalg.inv(term.structure.precision(values).toarray())
        whole = ahead.old @ q @ ahead.old.T + spread
        np.testing.assert_allclose(whole, covariance[np.ix_(b, b)], atol=1e-8)
        return
    gain = np.linalg.solve(covariance[np.ix_(a, a)], covariance[np.ix_(a, b)])
    if kind == "rw1":
        # The level is that of its neighbours.
        assert ahead.old.toarray().sum(axis=1) == pytest.approx(1.0)
        np.testing.assert_allclose(
            ahead.old.toarray()[1, :n], [0, 0.8 / 1.5, 0.7 / 1.5, 0, 0], atol=1e-9
        )
        np.testing.assert_allclose(
            np.diag(spread)[1:],
            np.diag(covariance[np.ix_(b, b)] - gain.T @ covariance[np.ix_(a, b)])[1:],
        )
    else:
        np.testing.assert_allclose(ahead.old.toarray(), gain.T, atol=1e-9)
        expected = covariance[np.ix_(b, b)] - gain.T @ covariance[np.ix_(a, b)]
        np.testing.assert_allclose(spread, expected, atol=1e-9)


@pytest.mark.parametrize(
    ("kind", "new", "match"),
    [
        (
            "ar1",
            5.5,
            "`t` must be a whole number of steps of 1 from .*got 5.5: use 'rw1' or 'matern'",
        ),
        ("rw2", 22.5, "must be a whole number of steps of 1"),
        ("rw2", -1, "of which the fit knows nothing"),
        ("rw1", pandas.Timestamp("2024-01-01"), "must hold numbers or dates"),
        ("rw1", "5", "must hold numbers or dates for Steps, got '5'"),
    ],
)
def test_new_levels_without_a_meaning_are_refused(kind, new, match):
    with pytest.raises((ValueError, TypeError), match=match):
        bound(range(20), kind).extension(
            pandas.DataFrame({"t": [3, new]}), {"correlation(t)": -0.5}
        )


@pytest.mark.parametrize(
    ("kind", "settings", "labels", "match"),
    [
        ("seasonal", {"period": 12}, range(8), "must have all 12 levels of a season, got 8"),
        ("rw2", {}, pandas.date_range("2024-01-01", periods=9, freq="MS"), r"12 \* year \+ month"),
        ("rw1", {}, range(2001), "must have at most 2,000 levels for kind='rw1', got 2,001"),
        ("rw2", {}, [0, 1, 5000], "must have at most 2,000 levels for kind='rw2', got 5,001"),
        ("seasonal", {"period": 2}, [0, 1, 2, 10**12], "must have at most 1,000,000 levels"),
    ],
)
def test_levels_that_a_prior_cannot_have_are_refused(kind, settings, labels, match):
    with pytest.raises(ValueError, match=match):
        bound(labels, kind, **settings)
