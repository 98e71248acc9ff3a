"""Coefficients that vary as terms do: dense algebra, a simulation, files and bad columns."""

from __future__ import annotations

import numpy as np
import pytest

import graphrf as grf
from graphrf.gp import Covariate, Field, Groups, LatentGaussianModel, Nodes, Steps, TriangleMesh
from graphrf.gp.terms import PenalisedDeviation
from graphrf.gp.terms.term import BoundTerm

pandas = pytest.importorskip("pandas")
pytest.importorskip("formulaic")
shapely = pytest.importorskip("shapely")

LINE = grf.from_edges(range(9), range(1, 10))
MODE = {"likelihood": "gaussian", "hyperparameters": "mode", "seed": 0}


@pytest.fixture(scope="module")
def mesh():
    return TriangleMesh.from_points(
        None, boundary=shapely.box(0, 0, 4, 4), max_edge=0.6, margin=0.8
    )


def observed(n=120, seed=0):
    rng = np.random.default_rng(seed)
    frame = pandas.DataFrame({"x": rng.uniform(0, 4, n), "y": rng.uniform(0, 4, n)})
    frame = frame.assign(z=rng.uniform(-2, 2, n), node=rng.integers(0, 10, n))
    frame = frame.assign(group=rng.integers(0, 4, n), step=rng.integers(0, 8, n))
    slope = 1 + np.sin(frame["x"])
    return frame.assign(value=slope * frame["z"] + 0.2 * rng.standard_normal(n))


def alone(mesh, kind):
    return {
        "field": Field(mesh),
        "nodes": Nodes(LINE, grf.ICAR()),
        "groups": Groups("group"),
        "steps": Steps("step", "ar1"),
        "product": Nodes(LINE, grf.ICAR()) * Groups("group"),
    }[kind]


KINDS = ["field", "nodes", "groups", "steps", "product"]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_those_of_the_term_times_the_column(mesh, kind):
    frame, term = observed(), alone(mesh, kind)
    frame.loc[3, "z"] = 0.0
    plain = BoundTerm.of(term, frame, 0, 1.0)
    varying = BoundTerm.of(Covariate("z") * term, frame, 0, 1.0)
    wanted = frame["z"].to_numpy()[:, None] * plain.rows(frame).toarray()
    np.testing.assert_array_equal(varying.rows(frame).toarray(), wanted)
    assert varying.label == f"z:{plain.label}"
    # its levels are coefficients
    assert (varying.level_rows() != plain.level_rows()).nnz == 0


def test_factors_may_be_written_in_any_order(mesh):
    z, field, years = Covariate("z"), Field(mesh), Groups("group")
    wanted = z * (field * years)
    assert (z * field) * years == wanted
    assert field * (z * years) == wanted
    assert field * z * years == wanted


@pytest.mark.filterwarnings("ignore:the term of 'z.node.group' has no mean")
@pytest.mark.parametrize("kind", KINDS)
def test_a_varying_coefficient_is_its_dense_posterior(mesh, kind):
    frame = observed()
    term = Covariate("z") * alone(mesh, kind)
    model = LatentGaussianModel("value ~ z", term, **MODE).fit(frame)
    table, bound = model.summary()["mean"], model._bound[0]
    values = {each.name: table[each.name] for each in bound.parameters}
    precision = bound.structure.precision(values).toarray() / values[bound.deviation.name] ** 2
    constraints = bound.structure.constraints.toarray()
    covariance = np.linalg.inv(precision)
    if len(constraints):
        gain = covariance @ constraints.T
        covariance -= gain @ np.linalg.solve(constraints @ gain, gain.T)
    rows = bound.rows(frame).toarray()
    noise = table.iloc[-1]
    total = rows @ covariance @ rows.T + noise**2 * np.eye(len(frame))
    fixed = np.column_stack([np.ones(len(frame)), frame["z"]])
    coefficients = np.linalg.solve(
        fixed.T @ np.linalg.solve(total, fixed), fixed.T @ np.linalg.solve(total, frame["value"])
    )
    left = np.linalg.solve(total, frame["value"] - fixed @ coefficients)
    wanted = fixed @ coefficients + rows @ covariance @ rows.T @ left
    np.testing.assert_allclose(model.predict(frame), wanted, atol=2e-3)
    np.testing.assert_allclose(table.iloc[:2], coefficients, atol=2e-3)


def test_the_unit_of_the_column_does_not_matter(mesh):
    frame = observed()
    term = Covariate("z") * Field(mesh)
    one = LatentGaussianModel("value ~ z", term, **MODE).fit(frame)
    large = frame.assign(z=1000 * frame["z"])
    other = LatentGaussianModel("value ~ z", term, **MODE).fit(large)
    np.testing.assert_allclose(other.predict(large), one.predict(frame), atol=1e-3)
    deviation = one.summary().loc["sd(z:x:y)", "mean"]
    assert other.summary().loc["sd(z:x:y)", "mean"] * 1000 == pytest.approx(deviation, rel=1e-2)


def test_a_stated_prior_is_in_units_of_eta_per_unit_of_the_column():
    stated = PenalisedDeviation(0.5, 0.1)
    term = Covariate("z") * Groups("group", prior={"sd": stated})
    frame = observed().assign(z=10.0)
    assert BoundTerm.of(term, frame, 0, 1.0).deviation.prior == stated
    default = BoundTerm.of(Covariate("z") * Groups("group"), frame, 0, 1.0).deviation.prior
    assert default.upper == pytest.approx(PenalisedDeviation().upper / 10)


def test_new_levels_are_multiplied_by_the_column():
    frame = observed()
    model = LatentGaussianModel("value ~ z", Covariate("z") * Groups("group"), **MODE).fit(frame)
    deviation = model.summary().loc["sd(z:group)", "mean"]
    new = pandas.DataFrame({"group": [99, 99], "z": [0.0, 3.0]})
    known = pandas.DataFrame({"group": [0, 0], "z": [0.0, 3.0]})
    first, second = model.predict(new, return_std=True)[1]
    assert first == pytest.approx(model.predict(known, return_std=True)[1][0], rel=1e-6)
    assert second > 3 * deviation
    draws = model.sample(new, 4000, seed=0, latent=True)
    assert draws.std(axis=0) == pytest.approx([first, second], rel=0.05)


def test_forecasts_of_steps_are_multiplied_by_the_column():
    frame = observed()
    term = Covariate("z") * Steps("step", "ar1")
    model = LatentGaussianModel("value ~ 0", term, **MODE).fit(frame)
    later = pandas.DataFrame({"step": [9, 9, 9], "z": [0.0, 1.0, 2.0]})
    mean, std = model.predict(later, return_std=True)
    assert mean[0] == std[0] == 0.0
    assert mean[2] == pytest.approx(2 * mean[1])
    assert std[2] == pytest.approx(2 * std[1])


def test_a_simulated_coefficient_field_is_recovered(mesh):
    """A level and a trend that vary, from 800 observations."""
    rng = np.random.default_rng(3)
    n = 800
    frame = pandas.DataFrame({"x": rng.uniform(0, 4, n), "y": rng.uniform(0, 4, n)})
    frame = frame.assign(year=rng.integers(-3, 4, n) / 2)
    precision = BoundTerm.of(Field(mesh), frame, 0, 1.0).structure.precision({"range(x:y)": 2.0})
    root = np.linalg.cholesky(np.linalg.inv(precision.toarray()))
    level, trend = (0.7 * root @ rng.standard_normal(len(root)) for _ in range(2))
    weights = mesh.weights(frame[["x", "y"]])
    eta = 1 + weights @ level + frame["year"] * (0.3 + weights @ trend)
    frame = frame.assign(value=eta + 0.5 * rng.standard_normal(n))
    terms = [Field(mesh), Covariate("year") * Field(mesh)]
    model = LatentGaussianModel("value ~ year", terms, "gaussian", seed=0).fit(frame)
    table = model.summary()
    for name in ("sd(year:x:y)", "sd(x:y)"):
        assert table.loc[name, "0.025"] < 0.7 < table.loc[name, "0.975"]
    places = pandas.DataFrame(rng.uniform(0.2, 3.8, (200, 2)), columns=["x", "y"])
    both = [model.sample(places.assign(year=year), 300, seed=0, latent=True) for year in (0.0, 1.0)]
    slopes = both[1] - both[0]
    truth = 0.3 + mesh.weights(places) @ trend
    assert np.corrcoef(slopes.mean(axis=0), truth)[0, 1] > 0.9
    low, high = np.quantile(slopes, [0.025, 0.975], axis=0)
    assert ((low < truth) & (truth < high)).mean() > 0.85


def test_files_keep_covariates(tmp_path):
    frame = observed()
    terms = [
        Covariate("z") * Nodes(LINE, grf.ICAR()),
        Covariate("z") * Groups("group") * Steps("step", "ar1"),
        Groups("group"),
    ]
    model = LatentGaussianModel("value ~ z", terms, **MODE).fit(frame)
    model.save(tmp_path / "model.npz")
    loaded = LatentGaussianModel.load(tmp_path / "model.npz")
    np.testing.assert_allclose(loaded.predict(frame), model.predict(frame), rtol=1e-9)
    pandas.testing.assert_frame_equal(loaded.summary(), model.summary())
    later = frame.iloc[:5].assign(group=77, z=1.5)
    np.testing.assert_allclose(
        loaded.predict(later, return_std=True), model.predict(later, return_std=True), rtol=1e-9
    )


def text(frame):
    return frame.assign(z=frame["z"].astype(str))


def dates(frame):
    return frame.assign(z=pandas.Timestamp("2020-01-01"))


def infinite(frame):
    return frame.assign(z=frame["z"].where(frame.index != 3, np.inf))


def missing(frame):
    return frame.assign(z=frame["z"].where(frame.index != 3))


BAD = {
    "text": (text, TypeError, "`z` must hold numbers for Covariate"),
    "dates": (dates, TypeError, "`z` must hold numbers for Covariate"),
    "infinite": (infinite, ValueError, "`z` must be finite"),
    "missing": (missing, ValueError, "`z` has no value in 1 of 120 rows"),
    "no column": (lambda frame: frame.drop(columns="z"), ValueError, "no column 'z'"),
}


@pytest.mark.parametrize("case", BAD)
def test_columns_without_numbers_are_refused_by_fit_and_predict(case):
    change, kind, said = BAD[case]
    model = LatentGaussianModel("value ~ 1", Covariate("z") * Groups("group"), **MODE)
    with pytest.raises(kind, match=said):
        model.fit(change(observed()))
    model.fit(observed())
    with pytest.raises(kind, match=said):
        model.predict(change(observed()))


def test_covariates_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="`z` must not be 0 in all rows"):
        BoundTerm.of(Covariate("z") * Groups("group"), observed().assign(z=0), 0, 1.0)
    with pytest.raises(TypeError, match="`by` must be the name of a column"):
        Covariate(3)
    with pytest.raises(TypeError, match="have one covariate each"):
        Covariate("z") * (Covariate("x") * Groups("group"))
    with pytest.raises(TypeError, match="`terms` are multiplied in pairs"):
        Groups("group") * 3
    with pytest.raises(TypeError, match="products of these"):
        LatentGaussianModel("value ~ 1", [Covariate("z")]).fit(observed())
