"""Fields as terms: values of other programs, priors, products, averages, and refusals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad

from graphrf.gp import Field, Groups, LatentGaussianModel, MetricGraph, TriangleMesh
from graphrf.gp.likelihoods.real import NormalNoise
from graphrf.gp.terms import PenalisedDeviation, PenalisedRange
from graphrf.gp.terms.parameters import RangePrior
from graphrf.gp.terms.term import BoundTerm
from tests.support.spatial_data import mesh_of, needs_spatial_data, spatial

pandas = pytest.importorskip("pandas")
pytest.importorskip("formulaic")
shapely = pytest.importorskip("shapely")

FLAT = {"sd": None, "range": None}
LIKELIHOOD = {"prior": None, "hyperparameters": "mode", "coefficient_deviation": 1e4, "seed": 0}


def check_deviations(found, published):
    """TMB's are of coefficients and hyperparameters together, ours at the mode of these: a few
    percent narrower.
    """
    share = found.to_numpy() / published
    assert (share > 0.96).all(), share
    assert (share < 1.001).all(), share


@pytest.fixture(scope="module")
def cod():
    data = spatial("pcod_2011")
    names = [name for name in data if name.startswith("data_")]
    frame = pandas.DataFrame({name.removeprefix("data_"): data[name] for name in names})
    return mesh_of(data), frame.assign(year=frame["year"].astype(int).astype(str))


@needs_spatial_data
def test_presence_of_cod_is_that_of_sdmtmb(cod):
    mesh, frame = cod
    model = LatentGaussianModel(
        "present ~ C(year)", Field(mesh, at=("X", "Y"), prior=FLAT), "bernoulli", **LIKELIHOOD
    )
    with pytest.warns(UserWarning, match="range of the field, 48.4, is short for edges"):
        model.fit(frame)
    assert -model.log_marginal_likelihood_ == pytest.approx(564.495, abs=6e-4)
    table = model.summary()
    np.testing.assert_allclose(table["mean"][:4], [-0.6064, 0.9901, 0.7496, 0.0127], atol=3e-4)
    check_deviations(table["sd"][:4], [0.5511, 0.2216, 0.2202, 0.2209])
    assert table.loc["range(X:Y)", "mean"] == pytest.approx(48.45, abs=0.02)
    assert table.loc["sd(X:Y)", "mean"] == pytest.approx(1.84, abs=0.006)


@pytest.mark.more
@needs_spatial_data
def test_density_of_cod_is_that_of_sdmtmb(cod):
    """A field of all years, and one of each, with one range."""
    mesh, frame = cod
    field = Field(mesh, at=("X", "Y"), prior=FLAT)
    model = LatentGaussianModel(
        "density ~ 0 + C(year)", [field, field * Groups("year")], "tweedie", **LIKELIHOOD
    )
    with pytest.warns(UserWarning, match="range of the field, 13.3, is short for edges"):
        model.fit(frame)
    assert -model.log_marginal_likelihood_ == pytest.approx(3007.552, abs=6e-4)
    table = model.summary()
    np.testing.assert_allclose(table["mean"][:4], [2.7618, 3.1035, 3.2093, 2.4727], atol=1e-3)
    check_deviations(table["sd"][:4], [0.3593, 0.3450, 0.3491, 0.3592])
    hyper = table["mean"][4:]
    assert hyper.filter(like="range").to_numpy() == pytest.approx([13.31], abs=0.01)
    assert sorted(hyper.filter(like="sd(").to_numpy()) == pytest.approx([1.79, 3.17], abs=0.006)
    assert hyper["dispersion"] == pytest.approx(14.83, abs=0.006)
    assert hyper["power"] == pytest.approx(1.565, abs=6e-4)


@pytest.mark.more
@needs_spatial_data
def test_survival_of_leukaemia_is_that_of_tmb():
    data = spatial("leukaemia")
    mesh = mesh_of(data)
    x, y = mesh.vertices[data["vertex"]].T
    names = ("time", "cens", "sex", "age", "wbc", "tpi")
    frame = pandas.DataFrame({name: data[name] for name in names}).assign(x=x, y=y)
    model = LatentGaussianModel(
        "time ~ sex + age + wbc + tpi",
        Field(mesh, prior=FLAT),
        "weibull",
        event="cens",
        **LIKELIHOOD,
    ).fit(frame)
    assert -model.log_marginal_likelihood_ == pytest.approx(float(data["iso_objective"]), abs=1e-5)
    assert float(data["iso_objective"]) == pytest.approx(5985.670250, abs=1e-6)
    # TMB's linear predictor is a log hazard, ours the logarithm of a time: a factor of minus shape
    log_tau, log_kappa, log_shape = data["iso_par"][5:]
    kappa, tau, shape = np.exp([log_kappa, log_tau, log_shape])
    table = model.summary()["mean"]
    np.testing.assert_allclose(-shape * table[:5], data["iso_par"][:5], rtol=1e-3)
    assert table["shape"] == pytest.approx(shape, rel=1e-4)
    assert table["range(x:y)"] == pytest.approx(8**0.5 / kappa, rel=1e-3)
    deviation = 1 / ((4 * np.pi) ** 0.5 * kappa * tau)
    assert shape * table["sd(x:y)"] == pytest.approx(deviation, rel=1e-3)


@pytest.mark.more
@needs_spatial_data
def test_zinc_of_meuse_is_that_of_r_inla():
    """Priors P(range < .5) = .5, P(sd > 1) = .5 and P(noise sd > 1) = .01.

    R-INLA's deviations, .1690 and .4118, are narrower than those of the exact posterior on a dense
    grid of the three hyperparameters, which are the target here.
    """
    data = spatial("meuse")
    x, y = data["locations"].T
    frame = pandas.DataFrame({"zinc": data["y"], "dist": data["dist"], "x": x, "y": y})
    unit = float(NormalNoise(0.3).unit(data["y"]))
    prior = {"range": PenalisedRange(0.5, 0.5), "sd": PenalisedDeviation(1.0 / unit, 0.5)}
    model = LatentGaussianModel(
        "zinc ~ dist",
        Field(mesh_of(data), prior=prior),
        coefficient_deviation=1000**0.5,
        prior={"scale": PenalisedDeviation(1.0, 0.01)},
        seed=0,
    ).fit(frame)
    mean, sd = model.coefficients_[["mean", "sd"]].to_numpy().T
    np.testing.assert_allclose(mean, [6.6193, -2.8116], rtol=0.01)
    np.testing.assert_allclose(sd, [0.1866, 0.4255], rtol=0.12)
    medians = model.summary()["0.5"]
    assert medians["range(x:y)"] == pytest.approx(0.584, rel=0.1)
    assert medians["sd(x:y)"] == pytest.approx(0.455, rel=0.08)
    assert medians["scale"] ** -2 == pytest.approx(15.4, rel=0.05)


@pytest.fixture(scope="module")
def mesh():
    return TriangleMesh.from_points(
        None, boundary=shapely.box(0, 0, 4, 4), max_edge=0.8, margin=0.8
    )


@pytest.mark.parametrize("dimension", [1, 2])
@pytest.mark.parametrize("probability", [0.5, 0.1])
def test_penalised_ranges_are_distributions(dimension, probability):
    prior = RangePrior(PenalisedRange(3.0, probability), dimension)

    def density(x):
        return np.exp(prior.log_density(x)[0])

    below, above = quad(density, -25, np.log(3.0))[0], quad(density, np.log(3.0), 60)[0]
    assert below == pytest.approx(probability, abs=1e-6)
    assert below + above == pytest.approx(1, abs=1e-6)
    h, x = 1e-5, 0.7
    slope = (prior.log_density(x + h)[0] - prior.log_density(x - h)[0]) / (2 * h)
    assert prior.log_density(x)[1] == pytest.approx(slope, rel=1e-8)


@pytest.mark.parametrize("alpha", [1, 1.5, 2, 2.5, 3])
def test_slopes_of_the_structure_are_differences(mesh, alpha):
    frame = pandas.DataFrame({"x": [1.0, 2.0], "y": [0.5, 3.0]})
    structure = BoundTerm.of(Field(mesh, alpha=alpha), frame, 0, 1.0).structure
    (parameter,) = structure.parameters
    at = {parameter.name: 1.3}
    h = 1e-5
    low, high = ({parameter.name: 1.3 * np.exp(sign * h)} for sign in (-1, 1))
    change, trace = structure.slopes(at, parameter)
    difference = (structure.precision(high) - structure.precision(low)) / (2 * h)
    assert abs(change - difference).max() < 1e-7 * abs(difference).max()
    slope = (structure.log_determinant(high) - structure.log_determinant(low)) / (2 * h)
    assert trace == pytest.approx(slope, rel=1e-7)


def observed(mesh, n=80):
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({"x": rng.uniform(0, 4, n), "y": rng.uniform(0, 4, n)})
    return frame.assign(value=np.sin(frame["x"]) + 0.1 * rng.standard_normal(n))


@pytest.mark.parametrize("alpha", [1.5, 2])
def test_a_field_is_its_dense_posterior(mesh, alpha):
    """At the hyperparameters of the fit, with a coefficient whose prior is as good as flat."""
    frame = observed(mesh)
    model = LatentGaussianModel(
        "value ~ 1", Field(mesh, alpha=alpha), "gaussian", hyperparameters="mode", seed=0
    ).fit(frame)
    table = model.summary()["mean"]
    bound = BoundTerm.of(Field(mesh, alpha=alpha), frame, 0, 1.0)
    precision = bound.structure.precision({"range(x:y)": table["range(x:y)"]}).toarray()
    v = mesh.n_vertices  # the variables after these are hidden
    covariance = table["sd(x:y)"] ** 2 * np.linalg.inv(precision)[:v, :v]
    a = mesh.weights(frame[["x", "y"]]).toarray()
    (noise,) = (table[name] for name in table.index[-1:])
    total = a @ covariance @ a.T + noise**2 * np.eye(len(frame))
    ones = np.ones(len(frame))
    middle = ones @ np.linalg.solve(total, frame["value"]) / (ones @ np.linalg.solve(total, ones))
    new = frame[["x", "y"]].iloc[:7] * 0.9
    cross = mesh.weights(new).toarray() @ covariance @ a.T
    wanted = middle + cross @ np.linalg.solve(total, frame["value"] - middle)
    np.testing.assert_allclose(model.predict(new), wanted, atol=2e-3)
    assert table["Intercept"] == pytest.approx(middle, abs=2e-3)
    at_vertices = covariance @ a.T @ np.linalg.solve(total, frame["value"] - middle)
    np.testing.assert_allclose(model.effects(0)["mean"], at_vertices, atol=2e-3)


def test_levels_of_a_product_of_half_order_are_vertices(mesh):
    """With independent groups: the covariance of rows is that of the field within each group."""
    frame = observed(mesh, 12).assign(group=list("abc") * 4)
    field, groups = Field(mesh, alpha=1.5), Groups("group")
    alone = BoundTerm.of(field, frame, 0, 1.0)
    both = BoundTerm.of(field * groups, frame, 0, 1.0)
    values = alone.structure.starts

    def covariance(bound, rows):
        return rows @ np.linalg.inv(bound.structure.precision(values).toarray()) @ rows.T

    same = np.equal.outer(frame["group"].to_numpy(), frame["group"].to_numpy())
    wanted = same * covariance(alone, alone.rows(frame).toarray())
    np.testing.assert_allclose(covariance(both, both.rows(frame).toarray()), wanted, atol=1e-8)
    assert both.level_rows().shape == (3 * mesh.n_vertices, both.structure.size)
    assert len(both.levels) == 3 * mesh.n_vertices
    at_vertices = alone.level_rows().toarray()
    np.testing.assert_array_equal(at_vertices, np.eye(mesh.n_vertices, alone.structure.size))
    vertex, group = map(np.array, zip(*both.levels, strict=True))
    of_vertices = covariance(alone, at_vertices)[np.ix_(vertex, vertex)]
    wanted = np.equal.outer(group, group) * of_vertices
    found = covariance(both, both.level_rows().toarray())
    np.testing.assert_allclose(found, wanted, atol=1e-8)


def test_geometries_are_places_and_averages(mesh):
    geopandas = pytest.importorskip("geopandas")
    frame = observed(mesh)
    points = geopandas.GeoDataFrame(
        frame[["value"]], geometry=geopandas.points_from_xy(frame["x"], frame["y"])
    )
    settings = {"likelihood": "gaussian", "hyperparameters": "mode", "seed": 0}
    by_columns = LatentGaussianModel("value ~ 1", Field(mesh), **settings).fit(frame)
    by_points = LatentGaussianModel("value ~ 1", Field(mesh, at="geometry"), **settings).fit(points)
    np.testing.assert_allclose(by_points.predict(points), by_columns.predict(frame), rtol=1e-8)
    box = geopandas.GeoDataFrame(geometry=[shapely.box(1, 1, 3, 2)])
    x = (np.arange(60) + 0.5) / 60
    lattice = np.stack(np.meshgrid(1 + 2 * x, 1 + x), axis=-1).reshape(-1, 2)
    lattice = pandas.DataFrame(lattice, columns=["x", "y"])
    average = by_points.predict(box, return_std=True)
    assert average[0][0] == pytest.approx(by_columns.predict(lattice).mean(), abs=1e-3)
    # an average is known better than a point
    assert average[1][0] < by_columns.predict(lattice, return_std=True)[1].mean()


REFUSED = {
    "a domain": (lambda mesh: Field([1, 2]), TypeError, "`domain` must be a TriangleMesh"),
    "an order": (
        lambda mesh: Field(mesh, alpha=0.5),
        ValueError,
        "`alpha` must be 1, 1.5, 2, 2.5 or",
    ),
    "a prior": (
        lambda mesh: Field(mesh, prior={"lengthscale": (1.0, 2.0)}),
        ValueError,
        "`prior` must be of sd and range, got one of 'lengthscale'",
    ),
    "a range's prior": (
        lambda mesh: BoundTerm.of(Field(mesh, prior={"range": 3.0}), observed(mesh), 0, 1.0),
        TypeError,
        "'range' must be .median, factor., a PenalisedRange, or None",
    ),
    "a range below 0": (lambda mesh: PenalisedRange(-1.0), ValueError, "`below`"),
    "a probability": (lambda mesh: PenalisedRange(1.0, 1.0), ValueError, "`probability`"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_fields_that_cannot_be_are_refused(mesh, case):
    make, kind, said = REFUSED[case]
    with pytest.raises(kind, match=said):
        make(mesh)


def test_rows_outside_of_the_mesh_and_columns_are_told(mesh):
    frame = observed(mesh)
    model = LatentGaussianModel("value ~ 1", Field(mesh), "gaussian")
    with pytest.raises(ValueError, match=r"must lie in the mesh, but 1 of 80 do not: row 3 \("):
        model.fit(frame.assign(x=frame["x"].where(frame.index != 3, 99.0)))
    with pytest.raises(ValueError, match=r"no column 'x'"):
        model.fit(frame.rename(columns={"x": "east"}))
    with pytest.raises(ValueError, match="'x'"):
        model.fit(frame.assign(x=frame["x"].where(frame.index != 3, np.nan)))
    with pytest.raises(ValueError, match="finite"):
        model.fit(frame.assign(x=frame["x"].where(frame.index != 3, np.inf)))


def test_parts_without_data_are_warned_of():
    parts = [shapely.box(0, 0, 4, 4), shapely.box(6, 0, 8, 4)]
    both = TriangleMesh.from_points(None, boundary=shapely.union_all(parts), max_edge=0.8, margin=0)
    frame = observed(both)
    with pytest.warns(
        UserWarning, match="`domain`: 1 of 2 connected parts of the mesh have no data"
    ):
        BoundTerm.of(Field(both), frame, 0, 1.0)
    BoundTerm.of(Field(both), frame.assign(x=np.where(frame.index == 3, 7.0, frame["x"])), 0, 1.0)


def test_edge_numbers_are_not_cut():
    roads = MetricGraph([0, 1], [1, 2], [2.0, 3.0])
    frame = pandas.DataFrame({"edge": [0.7, 1.7, 0.7], "distance": 0.5, "z": [1.0, 2.0, 1.5]})
    with pytest.raises((TypeError, ValueError), match="edge number of places"):
        LatentGaussianModel("z ~ 1", Field(roads)).fit(frame)


def test_point_patterns_without_weights_are_refused(mesh):
    points, _ = mesh.quadrature()
    frame = pandas.DataFrame(points, columns=["x", "y"]).assign(event=0)
    frame.loc[:5, "event"] = 1
    with pytest.raises(ValueError, match="`exposure` must be given for likelihood='point_process'"):
        LatentGaussianModel("event ~ 1", Field(mesh), "point_process").fit(frame)
