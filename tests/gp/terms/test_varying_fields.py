"""Fields with directions, barriers, and ranges and deviations by columns, as terms."""

from __future__ import annotations

import json

import numpy as np
import pytest

from graphrf.gp import Field, Groups, LatentGaussianModel, TriangleMesh
from graphrf.gp.files.objects import decoded, encoded
from graphrf.gp.terms.mesh_structures import anisotropy_matrix, anisotropy_slope
from graphrf.gp.terms.term import BoundTerm

pandas = pytest.importorskip("pandas")
pytest.importorskip("formulaic")
shapely = pytest.importorskip("shapely")

MODE = {"likelihood": "gaussian", "hyperparameters": "mode", "seed": 0}
WALL = shapely.box(1.8, -1, 2.2, 3)


@pytest.fixture(scope="module")
def mesh():
    return TriangleMesh.from_points(
        None, boundary=shapely.box(0, 0, 4, 4), max_edge=0.4, margin=0.8
    )


def places(n=60, seed=0):
    rng = np.random.default_rng(seed)
    return pandas.DataFrame({"x": rng.uniform(0, 4, n), "y": rng.uniform(0, 4, n)})


def structure_of(field):
    return BoundTerm.of(field, places(), 0, 1.0).structure


def options(mesh):
    x, y = mesh.vertices.T
    return {
        "anisotropy": {"anisotropy": True},
        "barrier": {"barrier": WALL},
        "range_by": {"range_by": np.column_stack([x, y])},
        "sd_by": {"sd_by": 3 * y - 5},
        "all": {"anisotropy": True, "barrier": WALL, "range_by": x, "sd_by": y},
    }


OPTIONS = ["anisotropy", "barrier", "range_by", "sd_by", "all"]


@pytest.mark.parametrize("option", [option for option in OPTIONS if option != "barrier"])
@pytest.mark.parametrize("alpha", [1, 2, 3])
def test_coefficients_of_0_give_the_stationary_precision(mesh, alpha, option):
    chosen = {name: value for name, value in options(mesh)[option].items() if name != "barrier"}
    varying = structure_of(Field(mesh, alpha=alpha, **chosen))
    stationary = structure_of(Field(mesh, alpha=alpha))
    wanted = stationary.precision({"range(x:y)": 1.3})
    found = varying.precision({**varying.starts, "range(x:y)": 1.3})
    assert all(varying.starts[each.name] == 0.0 for each in varying.parameters[1:])
    assert abs(found - wanted).max() < 1e-13 * abs(wanted).max()


def test_a_mask_of_triangles_is_the_barrier_of_polygons(mesh):
    by_polygon = Field(mesh, barrier=WALL)
    centres = mesh.vertices[mesh.triangles].mean(axis=1)
    mask = (abs(centres[:, 0] - 2) < 0.2) & (centres[:, 1] < 3)
    np.testing.assert_array_equal(by_polygon.barrier, mask)
    halves = [shapely.box(1.8, -1, 2.2, 1), shapely.box(1.8, 1, 2.2, 3)]
    np.testing.assert_array_equal(Field(mesh, barrier=halves).barrier, mask)
    geopandas = pytest.importorskip("geopandas")
    np.testing.assert_array_equal(Field(mesh, barrier=geopandas.GeoSeries(halves)).barrier, mask)
    np.testing.assert_array_equal(Field(mesh, barrier=mask.tolist()).barrier, mask)


def test_walls_that_are_narrow_beside_the_edges_are_warned_of(mesh):
    narrow = shapely.box(1.94, -1, 2.06, 3)  # a third of an edge
    with pytest.warns(UserWarning, match=r"`barrier`: .* cover \d+% of it, .*`max_edge`"):
        field = Field(mesh, barrier=narrow)
    assert repr(field).endswith(f", barrier={field.barrier.sum()} of {mesh.n_triangles} triangles)")
    assert "barrier" not in repr(Field(mesh))
    # Masks are as they are, and land beyond the mesh counts for nothing.
    Field(mesh, barrier=field.barrier)
    Field(mesh, barrier=shapely.union(shapely.box(50, 0, 90, 90), WALL))


def test_a_narrow_spit_of_a_wide_coast_is_warned_of_but_no_cape(mesh):
    coast, spit = shapely.box(-9, 2.6, 9, 9), shapely.box(1.94, 0.2, 2.06, 2.7)
    with pytest.warns(UserWarning, match=r"near \(2, .*narrower than two edges"):
        Field(mesh, barrier=coast.union(spit))
    # capes shorter than two edges keep no places apart, and wide spits are resolved
    capes = [shapely.Polygon([(x, 2.7), (x + 0.15, 2.3), (x + 0.3, 2.7)]) for x in range(4)]
    Field(mesh, barrier=shapely.union_all([coast, *capes]))
    Field(mesh, barrier=coast.union(shapely.box(1.4, 0.2, 2.6, 2.7)))


@pytest.mark.parametrize("option", OPTIONS)
def test_slopes_of_structures_are_differences(mesh, option):
    structure = structure_of(Field(mesh, **options(mesh)[option]))
    at = {each.name: each.start + 0.1 for each in structure.parameters}
    h = 1e-5
    for parameter in structure.parameters:
        middle = parameter.coordinate(at[parameter.name])
        low, high = ({**at, parameter.name: parameter.value(middle + sign * h)} for sign in (-1, 1))
        change, trace = structure.slopes(at, parameter)
        difference = (structure.precision(high) - structure.precision(low)) / (2 * h)
        assert abs(change - difference).max() < 1e-6 * abs(difference).max()
        slope = (structure.log_determinant(high) - structure.log_determinant(low)) / (2 * h)
        assert trace == pytest.approx(slope, rel=1e-6, abs=1e-5)


@pytest.mark.parametrize("v", [(0.0, 0.0), (1e-3, -2e-3), (0.009, 0.0), (0.8, -1.7), (-2.0, 0.0)])
def test_the_anisotropy_is_a_matrix_exponential(v):
    from scipy.linalg import expm

    def entries(first, second):
        return expm(np.array([[first, second], [second, -first]]))[[0, 0, 1], [0, 1, 1]]

    found = anisotropy_matrix(*v)
    np.testing.assert_allclose(found, entries(*v), rtol=1e-12, atol=1e-14)
    assert found[0] * found[2] - found[1] ** 2 == pytest.approx(1)
    h = 1e-5
    for place, step in enumerate(np.eye(2) * h):
        difference = (entries(*(v + step)) - entries(*(v - step))) / (2 * h)
        np.testing.assert_allclose(anisotropy_slope(*v, place), difference, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("angle", [0.0, 30.0, 89.0, -60.0])
def test_ranges_and_angle_are_those_of_the_correlation(mesh, angle):
    """The longest range lies in the direction that is reported, and angles do not wrap."""
    structure = structure_of(Field(mesh, anisotropy=True))
    v = 0.9 * np.array([np.cos(2 * np.radians(angle)), np.sin(2 * np.radians(angle))])
    values = {"range(x:y)": 1.0, "anisotropy[0](x:y)": v[0], "anisotropy[1](x:y)": v[1]}
    derived = structure.derived({name: np.array([value]) for name, value in values.items()})
    assert derived["longest range(x:y)"] == pytest.approx([np.exp(0.45)])
    assert derived["shortest range(x:y)"] == pytest.approx([np.exp(-0.45)])
    assert derived["angle(x:y)"] == pytest.approx([angle])
    covariance = np.linalg.inv(structure.precision(values).toarray())
    middle = mesh.weights([[2.0, 2.0]])
    turn = np.radians(angle)
    along = mesh.weights([[2 + 0.8 * np.cos(turn), 2 + 0.8 * np.sin(turn)]])
    across = mesh.weights([[2 - 0.8 * np.sin(turn), 2 + 0.8 * np.cos(turn)]])
    near, far = ((middle @ covariance @ each.T.toarray()).item() for each in (along, across))
    assert near > 2 * far


def test_angles_around_90_degrees_have_a_mean_there(mesh):
    structure = structure_of(Field(mesh, anisotropy=True))
    turned = np.radians(2 * np.array([88.0, 91.0]))
    values = {
        "range(x:y)": np.ones(2),
        "anisotropy[0](x:y)": np.cos(turned),
        "anisotropy[1](x:y)": np.sin(turned),
    }
    angles = structure.derived(values)["angle(x:y)"]
    assert np.ptp(angles) == pytest.approx(3)
    assert abs(angles.mean()) == pytest.approx(89.5)


def simulated(field, values, n, noise, seed):
    """Observations at random places of a field with these hyperparameters."""
    rng = np.random.default_rng(seed)
    frame = places(n, seed)
    structure = structure_of(field)
    names = {f"{name}(x:y)": value for name, value in values.items()}
    covariance = np.linalg.inv(structure.precision(names).toarray())
    draw = np.linalg.cholesky(covariance) @ rng.standard_normal(len(covariance))
    signal = field.domain.weights(frame[["x", "y"]]) @ draw
    return frame.assign(value=signal + noise * rng.standard_normal(n))


def covers(table, name, value):
    low, high = table.loc[f"{name}(x:y)", ["0.025", "0.975"]]
    return low < value < high


def test_a_simulated_anisotropy_is_recovered(mesh):
    """A ratio of the ranges of exp(1.4), 4.1, along 45 degrees."""
    field = Field(mesh, anisotropy=True)
    values = {"range": 1.2, "anisotropy[0]": 0.0, "anisotropy[1]": 1.4}
    frame = simulated(field, values, 500, 0.2, 1)
    model = LatentGaussianModel("value ~ 1", field, "gaussian", seed=0).fit(frame)
    table = model.summary()
    for name, value in values.items():
        assert covers(table, name, value), table
    assert covers(table, "angle", 45.0)
    assert table.loc["angle(x:y)", "mean"] == pytest.approx(45, abs=10)
    ratio = table.loc["longest range(x:y)", "mean"] / table.loc["shortest range(x:y)", "mean"]
    assert 2.5 < ratio < 6.5


def test_a_simulated_range_and_deviation_by_columns_are_recovered(mesh):
    x = mesh.vertices[:, 0]
    field = Field(mesh, range_by=x, sd_by=x)
    values = {"range": 1.2, "range_by": 0.5, "sd_by": 0.4}
    frame = simulated(field, values, 600, 0.1, 2)
    model = LatentGaussianModel("value ~ 1", field, "gaussian", seed=0).fit(frame)
    table = model.summary()
    for name, value in {**values, "sd": 1.0}.items():
        assert covers(table, name, value), table
    assert table.loc["range_by(x:y)", "0.025"] > 0


def test_hyperparameters_do_not_depend_on_zero_and_unit_of_a_column(mesh):
    x = mesh.vertices[:, 0]
    frame = simulated(Field(mesh, range_by=x), {"range": 1.2, "range_by": 0.4}, 200, 0.1, 3)
    one, other = (
        LatentGaussianModel("value ~ 1", Field(mesh, range_by=column), **MODE).fit(frame)
        for column in (x, 1000 * x - 5e5)
    )
    first, second = one.summary()["mean"], other.summary()["mean"]
    assert second["range(x:y)"] == pytest.approx(first["range(x:y)"], rel=1e-2)
    assert 1000 * second["range_by(x:y)"] == pytest.approx(first["range_by(x:y)"], rel=2e-2)
    assert other.log_marginal_likelihood_ == pytest.approx(one.log_marginal_likelihood_, abs=1e-3)


def test_a_wall_separates_two_sides(mesh):
    """Values of 1 west of a wall and -1 east of it."""
    frame = places(120)
    frame = frame[(abs(frame["x"] - 2) > 0.2) & (frame["y"] < 2)]
    frame = frame.assign(value=np.where(frame["x"] < 2, 1.0, -1.0))
    prior = {"range": (4.0, 1.01), "sd": (1.0, 1.01)}
    west = pandas.DataFrame({"x": [1.6], "y": [0.5]})
    sharp, smooth = (
        LatentGaussianModel("value ~ 0", Field(mesh, prior=prior, barrier=wall), **MODE).fit(frame)
        for wall in (WALL, None)
    )
    alone = frame[frame["x"] > 2]
    with_wall, without = (
        LatentGaussianModel("value ~ 0", Field(mesh, prior=prior, barrier=wall), **MODE)
        .fit(alone)
        .predict(west)
        .item()
        for wall in (WALL, None)
    )
    # data of the other side alone say little across the wall and much without it
    assert without < -0.6
    assert with_wall > without / 2
    assert sharp.log_marginal_likelihood_ > smooth.log_marginal_likelihood_


def test_products_and_terms_share_what_varies():
    square = shapely.box(0, 0, 4, 4)
    mesh = TriangleMesh.from_points(None, boundary=square, max_edge=2.0, margin=0)
    field = Field(mesh, anisotropy=True)
    frame = places(80).assign(year=np.arange(80) % 2)
    frame = frame.assign(value=np.sin(frame["x"] + frame["year"]))
    terms = [field, field * Groups("year")]
    names = list(LatentGaussianModel("value ~ 1", terms, **MODE).fit(frame).summary().index)
    assert names.count("angle(x:y)") == 1
    assert sum("anisotropy" in name for name in names) == 2
    apart = [Field(mesh, anisotropy=True), Field(mesh, anisotropy=True) * Groups("year")]
    names = list(LatentGaussianModel("value ~ 1", apart, **MODE).fit(frame).summary().index)
    assert [name for name in names if "angle" in name] == ["angle(x:y)", "angle(x:y), term 1"]


def test_priors_of_what_varies_are_stated_by_deviations(mesh):
    x = mesh.vertices[:, 0]
    (_, stretch, _, by) = structure_of(
        Field(mesh, anisotropy=True, range_by=x, prior={"anisotropy": 0.5, "range_by": None})
    ).parameters
    assert stretch.prior.deviation == 0.5
    assert by.prior is None
    (_, by) = structure_of(Field(mesh, range_by=x)).parameters
    mass = mesh.elements.lumped_mass / mesh.area
    assert by.prior.deviation == pytest.approx(1 / np.sqrt(mass @ (x - mass @ x) ** 2))


@pytest.mark.parametrize("option", OPTIONS)
def test_what_varies_is_the_same_from_the_values_of_a_file(mesh, option):
    """JSON has lists for arrays."""
    field = Field(mesh, **options(mesh)[option])
    written = {name: encoded(name, value) for name, value in field.variation._asdict().items()}
    read = {name: decoded(value) for name, value in json.loads(json.dumps(written)).items()}
    again = Field(mesh, **read)
    one, other = structure_of(field), structure_of(again)
    assert abs(one.precision(one.starts) - other.precision(other.starts)).max() == 0.0
    assert [each.prior for each in one.parameters] == [each.prior for each in other.parameters]


def sphere():
    return TriangleMesh.sphere(1)


REFUSED = {
    "anisotropy on a surface": (
        lambda mesh: Field(sphere(), anisotropy=True),
        ValueError,
        "`anisotropy` .* takes a planar mesh",
    ),
    "anisotropy of a number": (lambda mesh: Field(mesh, anisotropy=2), TypeError, "`anisotropy`"),
    "a barrier of all": (
        lambda mesh: Field(mesh, barrier=shapely.box(-9, -9, 9, 9)),
        ValueError,
        "`barrier` must leave triangles for the field",
    ),
    "a barrier elsewhere": (
        lambda mesh: Field(mesh, barrier=shapely.box(90, 90, 99, 99)),
        ValueError,
        "`barrier` must overlap the mesh, but it spans x 90 to 99, .* one unit and zone",
    ),
    "a barrier in another unit": (
        lambda mesh: Field(mesh, barrier=shapely.transform(WALL, lambda x: 1000 * x)),
        ValueError,
        "`barrier` must overlap the mesh, .* one in metres, the other in kilometres",
    ),
    "a barrier between centres": (
        lambda mesh: Field(mesh, barrier=shapely.Point(mesh.vertices[-1]).buffer(1e-3)),
        ValueError,
        "`barrier` has no triangle's centre in it: take mesh.refined",
    ),
    "a mask of the vertices": (
        lambda mesh: Field(mesh, barrier=np.zeros(mesh.n_vertices, dtype=bool)),
        ValueError,
        r"`barrier` must be.*fits the vertices: pass barrier\[mesh\.triangles\]",
    ),
    "a mask of another mesh": (
        lambda mesh: Field(mesh, barrier=np.array([True, False])),
        ValueError,
        "`barrier` must be polygons, or True and False for each of the",
    ),
    "polygons on a surface": (
        lambda mesh: Field(sphere(), barrier=WALL),
        ValueError,
        "`barrier` must be True and False for each triangle of a surface",
    ),
    "a barrier that crosses itself": (
        lambda mesh: Field(mesh, barrier=shapely.Polygon([(0, 0), (2, 2), (2, 0), (0, 2)])),
        ValueError,
        "`barrier` must be valid",
    ),
    "a barrier of words": (lambda mesh: Field(mesh, barrier="land"), TypeError, "`barrier`"),
    "a barrier of another order": (
        lambda mesh: Field(mesh, alpha=1, barrier=WALL),
        ValueError,
        "`barrier` takes a field of alpha=2, got alpha=1",
    ),
    "a column of another length": (
        lambda mesh: Field(mesh, range_by=[1.0, 2.0]),
        ValueError,
        "`range_by` must have a number for each of the .* vertices",
    ),
    "a constant column": (
        lambda mesh: Field(mesh, sd_by=np.full(mesh.n_vertices, 7.1)),
        ValueError,
        "`sd_by` must have columns that vary",
    ),
    "a column twice": (
        lambda mesh: Field(mesh, range_by=mesh.vertices[:, [0, 0]]),
        ValueError,
        "`range_by` must have columns that vary",
    ),
    "a column with a missing value": (
        lambda mesh: Field(mesh, range_by=np.where(mesh.vertices[:, 0] > 2, np.nan, 1.0)),
        ValueError,
        "`range_by` must be finite",
    ),
    "a column of text": (
        lambda mesh: Field(mesh, range_by=np.full(mesh.n_vertices, "deep")),
        TypeError,
        "`range_by` must hold real numbers",
    ),
    "a prior of what is constant": (
        lambda mesh: Field(mesh, prior={"anisotropy": 1.0}),
        ValueError,
        "`prior` must be of sd and range, got one of 'anisotropy'",
    ),
    "a prior that is no deviation": (
        lambda mesh: structure_of(Field(mesh, anisotropy=True, prior={"anisotropy": -1.0})),
        ValueError,
        "the prior of anisotropy",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_fields_that_cannot_vary_so_are_refused(mesh, case):
    make, kind, said = REFUSED[case]
    with pytest.raises(kind, match=said):
        make(mesh)
