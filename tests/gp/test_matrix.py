"""Every estimator by every convenience: all can what one can, or documentation says why."""

import re
from pathlib import Path

import numpy as np
import pytest

import graphrf as grf
from graphrf._base.progress import Once
from graphrf.gp.model.progress import node_bar, step_bar

pandas = pytest.importorskip("pandas")

N = 24
RNG = np.random.default_rng(5)
PLACES = [f"E{k:02d}" for k in RNG.permutation(N)]
VERTICES = [(float(k // 2), float(k % 2)) for k in range(N)]
SIGNAL = np.sin(np.arange(N) / 4)
SEEN = RNG.permutation(N)[:16]
KNOWN = {"kernel": grf.Diffusion(2.0), "output_scale": 1.0, "optimize": False, "seed": 0}


def path(names):
    return grf.Graph(grf.from_edges(np.arange(N - 1), np.arange(1, N)).adjacency, nodes=names)


class OnNodes:
    """`GraphGPRegressor` with one of the likelihoods."""

    names = PLACES  # of all nodes or places

    def index(self, places=SEEN):
        return pandas.Index([self.names[k] for k in places], name="district")

    def __init__(self, likelihood):
        self.likelihood = likelihood

    def y(self):
        rng = np.random.default_rng(1)
        f = SIGNAL[SEEN]
        if self.likelihood == "poisson":
            return rng.poisson(np.exp(1 + f)).astype(float)
        if self.likelihood == "binomial":
            return rng.binomial(5, 1 / (1 + np.exp(-2 * f))).astype(float)
        return f + 0.1 * rng.standard_normal(f.size)

    def make(self, names=PLACES, **settings):
        normal = {"noise": 0.01} if self.likelihood == "gaussian" else {}
        settings = {**KNOWN, **normal, "likelihood": self.likelihood, **settings}
        return grf.GraphGPRegressor(path(list(names)), **settings)

    def extra(self):
        return {"trials": np.full(SEEN.size, 5)} if self.likelihood == "binomial" else {}

    def fit(self, names=None, nodes=None, y=None, settings=None, **arguments):
        names = self.names if names is None else names
        nodes = [names[k] for k in SEEN] if nodes is None else nodes
        y = self.y() if y is None else y
        return self.make(names, **(settings or {})).fit(nodes, y, **{**self.extra(), **arguments})


class Classes(OnNodes):
    """`GraphGPClassifier`."""

    def __init__(self):
        super().__init__("classes")

    def y(self):
        return np.where(SIGNAL[SEEN] > 0, "high", "low")

    def make(self, names=PLACES, **settings):
        return grf.GraphGPClassifier(path(list(names)), **{**KNOWN, **settings})


class Along(OnNodes):
    """`FieldGPRegressor` along edges, observed at nodes."""

    def __init__(self):
        super().__init__("gaussian")

    def make(self, names=PLACES, **settings):
        names = list(names)
        graph = grf.gp.MetricGraph(np.arange(N - 1), np.arange(1, N), np.ones(N - 1), nodes=None)
        graph.graph = path(names)
        return grf.gp.FieldGPRegressor(
            graph, **{"range": 6.0, "sd": 1.0, "noise": 0.01, **settings}
        )


class OnMesh(Along):
    """`FieldGPRegressor` on a triangle mesh, observed at its vertices."""

    names = VERTICES

    def index(self, places=SEEN):
        return pandas.MultiIndex.from_tuples([self.names[k] for k in places], names=["x", "y"])

    def make(self, names=None, **settings):
        corner = np.arange(N).reshape(-1, 2)
        (a, b), (c, d) = corner[:-1].T, corner[1:].T
        size = 1 if names is None or names == self.names else 2
        triangles = np.concatenate([np.stack([a, c, b], 1), np.stack([c, d, b], 1)])
        mesh = grf.gp.TriangleMesh(size * np.array(self.names), triangles)
        return grf.gp.FieldGPRegressor(mesh, **{"range": 6.0, "sd": 1.0, "noise": 0.01, **settings})


ON_NODES = {
    # the others are fitted by the same code: counts with exposures, counts with trials
    **{name: OnNodes(name) for name in ("gaussian", "poisson", "binomial")},
    "classes": Classes(),
}
NAMED = {**ON_NODES, "along": Along()}
ALL = {**NAMED, "mesh": OnMesh()}
REGRESSORS = {name: case for name, case in ALL.items() if name != "classes"}


def everywhere(gp):
    return gp.predict_proba() if hasattr(gp, "predict_proba") else gp.predict()


def by(cases):
    return pytest.mark.parametrize("case", cases.values(), ids=cases)


def shuffled(series):
    return series.sample(frac=1.0, random_state=3)


# -- labels ----------------------------------------------------------------------------------------


@by(ON_NODES)
def test_values_are_aligned_by_their_labels(case):
    expected = everywhere(case.fit())
    names = [PLACES[k] for k in SEEN]
    y = pandas.Series(case.y(), index=names)
    rows = pandas.DataFrame({"place": names, "y": case.y()}, index=np.arange(100, 116))
    extra = {name: pandas.Series(values, index=names) for name, values in case.extra().items()}
    for nodes, values in (
        (names, shuffled(y)),  # by the names of nodes
        (shuffled(y), None),
        (dict(shuffled(y)), None),
        (rows["place"], shuffled(rows["y"])),  # by the index that they share
        (np.array(names, dtype=object), dict(shuffled(y))),
    ):
        arguments = {name: shuffled(own) for name, own in extra.items()}
        if values is not None:
            gp = case.make().fit(nodes, values, **arguments)
        else:
            gp = case.make().fit(nodes, **arguments)
        np.testing.assert_allclose(everywhere(gp), expected, rtol=1e-9, atol=1e-12)


@by(ON_NODES)
def test_labels_that_differ_are_refused_with_labels_of_both_sides(case):
    names = [PLACES[k] for k in SEEN]
    for index in ([f"X{k}" for k in range(16)], [*names[:-1], "E99"], range(200, 216)):
        y = pandas.Series(case.y(), index=pandas.Index(list(index)))
        with pytest.raises(
            ValueError,
            match=rf"`(y|labels)` has the labels .*{y.index[0]}.* the rows have .*{names[0]}",
        ):
            case.make().fit(names, y, **case.extra())
    twice = pandas.Series(case.y(), index=[names[0], *names[:-1]])
    with pytest.raises(ValueError, match="repeated labels"):
        case.make().fit(names, twice, **case.extra())
    more = pandas.Series([*case.y(), case.y()[0]], index=[*names, "E99"])
    with pytest.raises(ValueError, match="for 'E99' as well"):
        case.make().fit(names, more, **case.extra())


# argument, the cases that take it, its values for each observation
ARGUMENTS = [
    ("x", "gaussian", np.cos(SEEN)),
    ("x", "poisson", np.cos(SEEN)),
    ("x", "along", np.cos(SEEN)),
    ("x", "mesh", np.cos(SEEN)),
    ("exposure", "poisson", 1.0 + SEEN),
    ("trials", "binomial", 5 + SEEN),
    ("sample_weight", "gaussian", 1.0 + SEEN),
    ("sample_weight", "classes", 1.0 + SEEN),
    ("sample_weight", "along", 1.0 + SEEN),
    ("sample_weight", "mesh", 1.0 + SEEN),
    ("noise", "gaussian", 0.01 * (1.0 + SEEN)),
]


@pytest.mark.parametrize(("argument", "name", "values"), ARGUMENTS)
def test_every_argument_is_aligned_or_refused(argument, name, values):
    case = ALL[name]
    names = case.index()
    y = pandas.Series(case.y(), index=names)

    def fit(own, y=y):
        settings, arguments = (
            ({argument: own}, {}) if argument == "noise" else ({}, {argument: own})
        )
        return everywhere(case.make(**settings).fit(y, **{**case.extra(), **arguments}))

    own = pandas.Series(values, index=names)
    other = [(9.0, 9.0)] if name == "mesh" else ["E99"]
    wider = pandas.Series([*values, 1.0], index=pandas.Index([*names, *other]))
    try:
        expected = fit(values)
    except ValueError as error:  # covariates are asked for at nodes without them
        assert "`x` must be given" in str(error)  # noqa: PT017
        expected = None
    if expected is not None:
        wrong = everywhere_wrong = fit(values[::-1].copy())
        assert np.abs(wrong - expected).max() > 1e-3, everywhere_wrong  # the order matters
        for same in (shuffled(own), dict(shuffled(own)), shuffled(wider)):
            np.testing.assert_allclose(fit(same), expected, rtol=1e-9, atol=1e-12)
    for other in (pandas.Series(values), pandas.Series(values, index=[f"X{k}" for k in range(16)])):
        with pytest.raises(ValueError, match=f"`{argument}` has the labels"):
            fit(other)


@pytest.mark.parametrize("name", ["gaussian", "poisson", "along", "mesh"])
def test_covariates_are_aligned_in_fit_and_predict(name):
    case = ALL[name]
    every, names = case.names, [case.names[k] for k in SEEN]
    index = case.index(range(N))
    x = pandas.DataFrame({"level": np.cos(np.arange(N)), "slope": np.arange(N) % 3}, index=index)
    expected = case.fit(x=x.to_numpy()[SEEN]).predict(every, x=x.to_numpy())
    gp = case.fit(x=shuffled(x))
    assert gp.coefficients_.index.tolist() == ["constant", "level", "slope"]
    np.testing.assert_allclose(gp.predict(every, x=shuffled(x)), expected, rtol=1e-9)
    np.testing.assert_allclose(
        gp.predict(every, x=shuffled(x)[["slope", "level"]]), expected, rtol=1e-9
    )
    with pytest.raises(ValueError, match=r"`x` has the labels 'X', .* the rows have"):
        gp.predict(names[:2], x=x.set_axis(["X", *every[1:]]).iloc[:2])


def test_covariates_of_all_nodes_are_aligned():
    case = ALL["gaussian"]
    x = pandas.DataFrame({"level": np.cos(np.arange(N))}, index=PLACES)
    expected = case.fit(settings={"mean": x.to_numpy()}).predict()
    np.testing.assert_allclose(
        case.fit(settings={"mean": shuffled(x)}).predict(), expected, rtol=1e-9
    )
    with pytest.raises(ValueError, match=r"`mean` has the labels 'X0'"):
        case.fit(settings={"mean": x.set_axis([f"X{k}" for k in range(N)])})


def test_labels_that_can_mean_two_orders_are_refused():
    line = grf.from_edges(range(5), range(1, 6))
    numbered = pandas.Series([1.0, 2.0, 3.0])
    gp = grf.GraphGPRegressor(line, **{**KNOWN, "noise": 0.1})
    with pytest.raises(ValueError, match="numbers of rows"):
        gp.fit([2, 0, 1], numbered)
    np.testing.assert_array_equal(gp.fit([0, 1, 2], numbered).predict(), gp.fit(numbered).predict())
    np.testing.assert_array_equal(
        gp.fit([5, 0, 1], numbered).predict(), gp.fit([5, 0, 1], [1.0, 2.0, 3.0]).predict()
    )


MOVED = [int(k) for k in np.random.default_rng(2).permutation(N)]


@pytest.mark.parametrize("names", [PLACES, MOVED], ids=["text", "integers"])
@pytest.mark.parametrize("seen", [SEEN, np.arange(N)], ids=["some", "all"])
@pytest.mark.parametrize(
    ("argument", "name", "values"), [own for own in ARGUMENTS if own[1] != "mesh"]
)
def test_numbers_of_rows_are_refused_beside_labels(argument, name, values, seen, names):
    case, own = ALL[name], np.resize(values, N)
    if name == "along" and names is MOVED:
        pytest.skip(
            "places along edges refuse integers that can be names and positions, beside whatever "
            "comes"
        )
    y, extra = (
        np.resize(case.y(), N)[seen],
        {key: np.resize(each, N)[seen] for key, each in case.extra().items()},
    )
    index = pandas.Index([names[place] for place in seen])

    def fit(nodes, y, given):
        settings, arguments = (
            ({argument: given}, {}) if argument == "noise" else ({}, {argument: given})
        )
        return case.make(names, **settings).fit(nodes, y, **{**extra, **arguments})

    alone = [(pandas.Series(y, index), None)]
    for nodes, labelled in (
        [*alone, (index.tolist(), pandas.Series(y, index))] if names is PLACES else alone
    ):
        for numbered in (pandas.Series(own[seen]), pandas.DataFrame({"own": own[seen]})):
            with pytest.raises(ValueError, match=rf"`{argument}` has (the )?labels,? 0, 1"):
                fit(nodes, labelled, numbered)
        # These are in the order of all nodes, or by names.
        if names is MOVED and len(seen) < N and name != "along":
            with pytest.raises(
                ValueError, match=f"`{argument}` has labels, 0, 1, .* in other orders"
            ):
                fit(nodes, labelled, pandas.Series(own))


def test_observations_are_not_taken_by_numbers_that_may_be_of_rows():
    case, y = ALL["gaussian"], np.cos(np.arange(N))
    with pytest.raises(ValueError, match=r"`y` has labels, 0, 1, .* in other orders"):
        case.make(MOVED).fit(pandas.Series(y))
    by_name = case.make(MOVED).fit(pandas.Series(y, list(range(N)))).predict()
    np.testing.assert_allclose(
        by_name, case.make(MOVED).fit(dict(zip(MOVED, y[MOVED], strict=True))).predict()
    )
    with pytest.raises(
        ValueError, match=r"`index of y` must be nodes of the graph, got 'X'; names here look like"
    ):
        case.make().fit(pandas.Series([1.0], ["X"]))
    with pytest.raises(ValueError, match="`keys of y` must be nodes of the graph, got 'X'"):
        case.make().fit({"X": 1.0})


def test_repeated_nodes_are_repeated_observations_and_repeated_labels_elsewhere_are_refused():
    case, names = ALL["poisson"], [PLACES[0], PLACES[1], PLACES[0]]
    y, exposure = pandas.Series([3.0, 4.0, 5.0], names), pandas.Series([1.0, 2.0, 3.0], names)
    expected = case.make().fit(names, y.to_numpy(), exposure=exposure.to_numpy()).predict()
    # Both have the same index.
    np.testing.assert_array_equal(case.make().fit(y, exposure=exposure).predict(), expected)
    with pytest.raises(ValueError, match=f"`exposure` has repeated labels, such as '{PLACES[0]}'"):
        case.make().fit(y, exposure=exposure[::-1].iloc[[1, 0, 2]])


@pytest.mark.parametrize(
    ("argument", "name", "values"), [own for own in ARGUMENTS if own[0] != "x"]
)
def test_a_data_frame_of_one_column_is_that_column(argument, name, values):
    case, y = ALL[name], pandas.Series(ALL[name].y(), ALL[name].index())
    found = []
    for own in (values, shuffled(pandas.DataFrame({"own": values}, y.index))):
        settings, arguments = (
            ({argument: own}, {}) if argument == "noise" else ({}, {argument: own})
        )
        found.append(everywhere(case.make(**settings).fit(y, **{**case.extra(), **arguments})))
    np.testing.assert_allclose(*found, rtol=1e-9)


def test_messages_name_columns_by_their_titles():
    case = ALL["gaussian"]
    table = pandas.DataFrame({"level": np.cos(np.arange(N)), "kind": ["a"] * N}, PLACES)
    for given in ({"settings": {"mean": table}}, {"x": table}):
        with pytest.raises(TypeError, match=r"got text in the column 'kind'; pandas\.get_dummies"):
            case.fit(**given)
    with pytest.raises(ValueError, match="vary over the observations, and column 'kind' does not"):
        case.fit(x=table.assign(kind=1.0))


# -- names -----------------------------------------------------------------------------------------

NAMES = {
    "integers": [1000 + 7 * k for k in range(N)],
    "text": PLACES,
    "tuples": [(k // 5, k % 5) for k in range(N)],
    "edges": [(100 + k, 200 + k, 0) for k in range(N)],
}


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("name", ["gaussian", "classes", "along"])
def test_names_of_any_kind_in_any_container(name, kind):
    case, names = ALL[name], NAMES[kind]
    expected = everywhere(case.fit())
    own = [names[k] for k in SEEN]
    index = pandas.MultiIndex.from_tuples(own) if isinstance(own[0], tuple) else pandas.Index(own)
    array = np.empty(len(own), dtype=object)
    array[:] = own
    for nodes in (own, tuple(own), array, index, pandas.Series(own)):
        gp = case.fit(names, nodes)
        np.testing.assert_allclose(everywhere(gp), expected, rtol=1e-9)
        if name != "classes":
            np.testing.assert_allclose(gp.predict(nodes), gp.predict()[SEEN], rtol=1e-9)
    assert gp.predict(index[:2], as_frame=True).index.equals(
        index[:2].rename(gp.predict(index, as_frame=True).index.names)
    )


# -- answers ---------------------------------------------------------------------------------------


@by(NAMED)
def test_data_frames_have_rows_and_columns_as_in_fit(case):
    index = pandas.Index([PLACES[k] for k in SEEN], name="district")
    gp = case.make().fit(pandas.Series(case.y(), index=index), **case.extra())
    frame = gp.predict(as_frame=True)
    assert frame.index.equals(pandas.Index(PLACES))
    assert frame.index.name == "district"
    some = gp.predict([PLACES[3], PLACES[1]], as_frame=True)
    pandas.testing.assert_frame_equal(some, frame.loc[[PLACES[3], PLACES[1]]], rtol=1e-9)
    table = pandas.DataFrame({"area": np.arange(N)}, index=pandas.Index(PLACES, name="district"))
    assert table.join(frame).notna().all(axis=None)
    if "classes" in vars(case).values():
        assert list(gp.predict_proba(as_frame=True).columns) == ["high", "low"]


def test_data_frames_of_places_have_their_index_and_those_of_vertices_their_numbers():
    case = ALL["mesh"]
    stations = pandas.Index([f"S{k}" for k in SEEN], name="station")
    table = pandas.DataFrame(case.index().tolist(), columns=["x", "y"], index=stations)
    gp = case.make().fit(table, pandas.Series(case.y(), stations))
    assert list(gp.loo().index) == stations.tolist()
    frame = gp.predict(table.iloc[:3], as_frame=True)
    assert frame.index.equals(stations[:3])
    assert frame.index.name == "station"
    frame = gp.predict(as_frame=True)
    assert frame.index.tolist() == list(range(N))
    assert frame.index.name == "vertex"
    frame = gp.predict(case.names[:2], as_frame=True)
    assert frame.index.tolist() == case.names[:2]
    assert frame.index.names == ["x", "y"]
    frame = gp.predict(table.iloc[:2].reset_index(drop=True), as_frame=True)
    assert frame.index.name == "place"


def test_columns_of_places_are_found_by_their_titles(tmp_path):
    case = ALL["mesh"]
    table = pandas.DataFrame(case.index().tolist(), columns=["x", "y"])
    gp = case.make().fit(table, case.y())
    expected = case.fit().predict(case.names)
    wide = pandas.DataFrame({"depth": "deep", "y": [y for _, y in case.names]})
    wide["x"] = [x for x, _ in case.names]
    gp.save(tmp_path / "gp.npz")
    for own in (gp, grf.gp.FieldGPRegressor.load(tmp_path / "gp.npz")):
        assert own.feature_names_in_.tolist() == ["x", "y"]
        np.testing.assert_array_equal(own.predict(wide), expected)
        np.testing.assert_array_equal(own.predict(case.names), expected)
        some = wide.iloc[SEEN]
        assert own.score(some, case.y()) == case.fit().score(case.index(), case.y())
        with pytest.raises(ValueError, match=r"`places` must have the columns 'x', 'y'.*lacks 'x'"):
            own.predict(wide.rename(columns={"x": "east"}))
        with pytest.raises(ValueError, match=r"in the order x, y .* are 'y', 'x': pass"):
            case.make().fit(table[["y", "x"]], case.y())
    by_index = pandas.Series(case.y(), case.index().swaplevel())
    with pytest.raises(ValueError, match=r"in the order x, y .* are 'y', 'x': pass"):
        case.make().fit(by_index)
    assert not hasattr(case.make().fit(table.to_numpy(), case.y()), "feature_names_in_")
    assert not hasattr(gp.fit(table.set_axis([0, 1], axis=1), case.y()), "feature_names_in_")


def test_the_index_of_a_series_of_nodes_is_of_its_rows():
    table = pandas.DataFrame({"place": PLACES[:5]}, index=pandas.Index(range(50, 55), name="row"))
    frame = ALL["gaussian"].fit().predict(table["place"], as_frame=True)
    assert frame.index.name == "node"
    assert list(frame.index) == PLACES[:5]


def test_several_outputs_keep_their_titles():
    for case in (ALL["gaussian"], ALL["along"], ALL["mesh"]):
        y = pandas.DataFrame({"am": SIGNAL[SEEN], "pm": -SIGNAL[SEEN]}, index=case.index())
        frame = case.make().fit(y).predict(as_frame=True, return_std=True)
        assert list(frame.columns) == [("mean", "am"), ("mean", "pm"), ("std", "am"), ("std", "pm")]


@by(REGRESSORS)
def test_quantiles_and_probabilities_agree_with_draws_and_each_other(case):
    gp = case.fit()
    low, middle, high = gp.predict(quantiles=(0.1, 0.5, 0.9)).T
    assert (low < middle).all()
    assert (middle < high).all()
    at = float(np.median(middle))
    above = gp.probability(above=at)
    np.testing.assert_allclose(above + gp.probability(below=at), 1.0)
    np.testing.assert_array_equal(above > 0.5, middle > at)
    node = int(np.abs(middle - at).argmin())
    for level, quantile in ((0.1, low), (0.9, high)):
        assert np.isclose(gp.probability(below=float(quantile[node]))[node], level, atol=1e-6)
    np.testing.assert_allclose(
        gp.probability(above=float(low.min()), below=float(high.max())),
        1 - gp.probability(below=float(low.min())) - gp.probability(above=float(high.max())),
        atol=1e-12,
    )
    assert list(gp.probability(above=at, as_frame=True).columns) == ["probability"]
    for bounds in ({}, {"above": 1.0, "below": 0.0}, {"above": np.nan}):
        with pytest.raises(ValueError, match="`above`"):
            gp.probability(**bounds)


@by(REGRESSORS)
def test_quantiles_of_a_new_observation_are_further_apart_than_those_of_its_expectation(case):
    gp, levels = case.fit(), (0.1, 0.5, 0.9)
    expected, observed = (
        gp.predict(quantiles=levels),
        gp.predict(return_std="observation", quantiles=levels),
    )
    draws = gp.sample(n_samples=2_000, seed=0, observations=True)
    for level, own in zip(levels, observed.T, strict=True):
        assert ((draws <= own).mean(axis=0) > level - 0.05).all()
        assert ((draws < own).mean(axis=0) < level + 0.05).all()
    if case.likelihood == "gaussian":
        mean, std = gp.predict(return_std="observation")
        np.testing.assert_allclose(
            observed, mean[:, None] + std[:, None] * [-1.2815516, 0, 1.2815516], rtol=1e-6
        )
    else:
        assert (observed == np.floor(observed)).all()
    if case.likelihood != "binomial":  # whose observation of one trial is 0 or 1
        assert (observed[:, 2] - observed[:, 0] > expected[:, 2] - expected[:, 0]).all()
    frame = gp.predict(return_std="observation", quantiles=levels, as_frame=True)
    assert list(frame.columns) == ["mean", "std", *map(str, levels)]
    np.testing.assert_array_equal(frame.iloc[:, 2:], observed)
    np.testing.assert_array_equal(frame[["mean", "std"]].T, gp.predict(return_std="observation"))
    table = gp.predict(return_std=True, quantiles=levels, as_frame=True)
    np.testing.assert_array_equal(
        table, np.column_stack([*gp.predict(return_std=True), gp.predict(quantiles=levels)])
    )


@by(ALL)
def test_score_and_samples(case):
    gp, y = case.fit(), case.y()
    names = [case.names[k] for k in SEEN]
    assert gp.score(names, y, **case.extra()) > 0.3
    series = pandas.Series(y, index=names)
    extra = {name: pandas.Series(own, index=names) for name, own in case.extra().items()}
    assert np.isclose(gp.score(shuffled(series), **extra), gp.score(names, y, **case.extra()))
    if hasattr(gp, "sample"):
        assert gp.sample(n_samples=3, seed=0).shape == (3, N)
        density = gp.log_density(names, y, **case.extra())
        np.testing.assert_allclose(density, gp.log_density(shuffled(series)[names], **extra))
        assert density.sum() > gp.log_density(names, y[::-1], **case.extra()).sum()
        if case.likelihood == "gaussian":
            mean, std = gp.predict(names, return_std="observation")
            expected = -0.5 * (((y - mean) / std) ** 2 + np.log(2 * np.pi * std**2))
            np.testing.assert_allclose(density, expected)


@pytest.mark.filterwarnings("ignore:WAIC may mislead")
@by(REGRESSORS)
def test_criteria_have_the_rows_of_fit(case):
    index = case.index()
    y = pandas.Series(case.y(), index=index)
    gp = case.make().fit(y, **case.extra())
    found, arrays = gp.loo(), case.fit().loo()
    assert list(found.index) == list(arrays.index) == index.tolist()
    np.testing.assert_allclose(found.log_density, arrays.log_density)
    assert found.pit.shape == found.log_density.shape == (SEEN.size,)
    criterion = gp.waic()
    assert criterion.value == pytest.approx(case.fit().waic().value)
    assert 0 < criterion.n_effective < SEEN.size
    order = np.random.default_rng(0).permutation(SEEN.size)
    other = case.make().fit(y.iloc[order], **case.extra()).loo()
    np.testing.assert_allclose(other.log_density, found.log_density[order], rtol=1e-6, atol=1e-9)


def test_scores_of_counts_multiply_rates_by_exposures():
    exposure = 1.0 + np.arange(SEEN.size)
    rates = np.exp(SIGNAL[SEEN])
    case = ALL["poisson"]
    gp = case.fit(y=np.round(rates * exposure), exposure=exposure)
    names = [PLACES[k] for k in SEEN]
    assert gp.score(names, np.round(rates * exposure), exposure=exposure) > 0.9
    assert gp.score(names, np.round(rates * exposure), exposure=1.0) < 0.5


def test_comparisons_need_the_exposures_and_trials_that_the_fit_had(tmp_path):
    exposure, names = 1.0 + np.arange(SEEN.size), [PLACES[k] for k in SEEN]
    counts = np.round(np.exp(SIGNAL[SEEN]) * exposure)
    with_exposures = ALL["poisson"].fit(y=counts, exposure=exposure)
    with_exposures.save(tmp_path / "model.npz")
    loaded = grf.GraphGPRegressor.load(tmp_path / "model.npz")
    with_trials = ALL["binomial"].fit()
    for gp, name in ((with_exposures, "exposure"), (loaded, "exposure"), (with_trials, "trials")):
        for ask in (gp.score, gp.log_density):
            with pytest.raises(ValueError, match=f"the fit had {name}.*set_score_request") as error:
                ask(names, counts)
            assert error.value.argument == name
    without = ALL["poisson"].fit()
    assert without.score(names, ALL["poisson"].y()) > 0.3
    assert np.isfinite(without.log_density(names, ALL["poisson"].y())).all()
    ones = np.ones(SEEN.size)
    assert np.isfinite(ALL["poisson"].fit(exposure=ones).score(names, ALL["poisson"].y()))


@by(ALL)
def test_files_keep_predictions_names_and_titles(case, tmp_path):
    gp = case.make().fit(pandas.Series(case.y(), index=case.index()), **case.extra())
    expected = gp.predict(as_frame=True)
    gp.save(tmp_path / "gp.npz")
    pandas.testing.assert_frame_equal(
        type(gp).load(tmp_path / "gp.npz").predict(as_frame=True), expected
    )
    gp.save(tmp_path / "gp.npz", graph=False)
    pandas.testing.assert_frame_equal(
        type(gp).load(tmp_path / "gp.npz", graph=carrier(gp)).predict(as_frame=True), expected
    )
    other = carrier(case.make(sorted(PLACES)))
    # The other graph has the same edges between other names.
    with pytest.raises(ValueError, match="must be the graph that"):
        type(gp).load(tmp_path / "gp.npz", graph=other)
    with pytest.raises(ValueError, match="must be given"):
        type(gp).load(tmp_path / "gp.npz")


def carrier(gp):
    """The graph or the domain of an estimator."""
    return gp.domain if hasattr(gp, "domain") else gp.graph


def trained(case, **settings):
    """Settings with which everything is learned."""
    if isinstance(case, Along):
        free = {"range": None, "sd": None, "noise": None}
    else:
        free = {"kernel": "matern", "output_scale": None, "optimize": True}
    if case.likelihood == "gaussian":
        free["noise"] = None
    return {**free, **settings}


@pytest.mark.parametrize("name", ["gaussian", "poisson", "classes", "along", "mesh"])
def test_progress_is_shown_on_request(name, capsys):
    case = ALL[name]
    case.fit(settings=trained(case, progress=True))
    assert "training" in capsys.readouterr().err


def test_a_line_announces_what_takes_long(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr("graphrf.gp.model.progress.time.monotonic", lambda: now[0])
    monkeypatch.setattr("graphrf._base.progress.once", Once())
    with step_bar("training", False, 8, "kernels") as bar:
        bar.update()  # at once: nothing can be estimated from it
        for now[0] in (5.0, 10.0):
            bar.update()
    with step_bar("solving", False) as bar:
        for now[0] in (12.0, 23.0):
            bar.update()
    with step_bar("training", False, 4) as bar:  # six seconds in all
        for now[0] in (25.0, 26.0, 27.0, 28.0):
            bar.update()
    with step_bar("averaging", False, 4, "points") as bar:  # the first, after shared work
        now[0] = 40.0
        bar.update()
    assert capsys.readouterr().err.splitlines() == [
        "graphrf: training of 8 kernels takes about 35 s; progress=True shows how far it is",
        "graphrf: solving has taken 13 s so far; progress=True shows how far it is",
        (
            "graphrf: averaging of 4 points takes at most about 48 s; progress=True shows how far "
            "it is"
        ),
    ]


def test_exact_deviations_of_many_nodes_are_announced_with_the_way_out(monkeypatch, capsys):
    monkeypatch.setattr("graphrf._base.progress.once", Once())
    with node_bar(
        1_000, 9, False, expected=90.0, way_out=", std_method='sampled' takes less"
    ) as bar:
        bar.update(9_000)
    monkeypatch.setattr("graphrf.gp.predictor.SERIES_SPEED", 1.0)  # multiply-adds a second
    case = ALL["gaussian"]
    gp = case.make(
        method="series",
        kernel="matern",
        hyperparameters="average",
        optimize=True,
        output_scale=None,
    )
    gp.fit(PLACES, 60.0 + SIGNAL).predict(PLACES[:3], return_std=True)
    first, second = [line for line in capsys.readouterr().err.splitlines() if "prediction" in line]
    assert first == (
        "graphrf: prediction of 1,000 nodes, each for 9 sets of hyperparameters, takes about 90 s "
        "or more; progress=True shows how far it is, std_method='sampled' takes less"
    )
    assert "prediction of 3 nodes, each for" in second
    assert second.endswith("numerics=Numerics(std_method='sampled') or fewer nodes take less")


# -- warnings --------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:the range of the field")
@by(ALL)
def test_few_observations_are_warned_of_where_something_is_learned(case):
    first = [0, *np.flatnonzero(case.y() != case.y()[0])[:1]]
    names, y = [case.names[k] for k in SEEN[first]], case.y()[first]
    extra = {name: own[:2] for name, own in case.extra().items()}
    with pytest.warns(UserWarning, match="learned from 2 observations only"):
        case.make(**trained(case)).fit(names, y, **extra)
    case.make().fit(names, y, **extra)  # an error here, as all warnings in tests


@pytest.mark.filterwarnings("ignore:the range of the field")
@pytest.mark.parametrize("name", ["gaussian", "poisson", "classes", "along", "mesh"])
def test_values_in_another_order_are_warned_of(name):
    case = ALL[name]
    rng = np.random.default_rng(2)
    if name == "classes":
        y = rng.permutation(np.repeat(["high", "low"], N // 2))
    else:
        if name == "poisson":
            y = rng.poisson(np.exp(rng.normal(3, 0.7, N))).astype(float)
        else:
            y = rng.standard_normal(N)
    with pytest.warns(
        UserWarning, match="explains (y|the labels) no better than independent values"
    ):
        case.make(**trained(case)).fit(case.names, y)


@pytest.mark.parametrize("name", ["gaussian", "along", "mesh"])
@pytest.mark.parametrize("value", [0.0, -1.0, -999.0])
def test_values_that_stand_for_missing_ones_are_warned_of(name, value):
    y = 60.0 + SIGNAL
    y[[2, 9, 17]] = value
    with pytest.warns(UserWarning, match=f"`y` holds {value:g} 3 times"):
        ALL[name].make().fit(ALL[name].names, y)


def test_one_code_for_missing_values_is_warned_of():
    y = 60.0 + SIGNAL
    y[2] = -999.0
    with pytest.warns(UserWarning, match="`y` holds -999 once, far from all other values"):
        ALL["gaussian"].make(output_scale=1.0).fit(PLACES, y)


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize(
    "codes",
    [
        {-999: 1},
        {-999: 2},
        {0: 2},
        {1e20: 1},
        {-32768: 1},
        {9999: 1, -999: 1, 0: 5},
        {-1: 1, 99999: 2},
    ],
)
def test_codes_for_missing_values_are_found(codes, rounded):
    from graphrf.gp.model.notices import placeholders

    rng = np.random.default_rng(0)
    speeds = 50 + 10 * np.sin(rng.uniform(0, 7, 120)) + rng.normal(size=120)
    values = np.r_[np.round(speeds) if rounded else speeds, np.repeat([*codes], [*codes.values()])]
    assert {value: count for value, count, _ in placeholders(values)} == codes


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize(
    "draw",
    [
        lambda rng, n: rng.normal(size=n),
        lambda rng, n: rng.normal(20, 4, n),
        lambda rng, n: rng.standard_t(4, n),
        lambda rng, n: rng.lognormal(size=n),
        lambda rng, n: rng.exponential(3, n),
        lambda rng, n: rng.gamma(2, 3, n),
        lambda rng, n: rng.poisson(3, n).astype(float),
        lambda rng, n: rng.poisson(20, n).astype(float),
    ],
)
def test_ordinary_samples_hold_placeholders_once_in_a_hundred_at_most(draw, rounded):
    from graphrf.gp.model.notices import placeholders

    rng = np.random.default_rng(0)
    samples = [draw(rng, n) for n in np.geomspace(50, 2000, 300).astype(int).tolist()]
    assert sum(bool(placeholders(np.round(y) if rounded else y)) for y in samples) <= 3


@pytest.mark.parametrize(
    "y",
    [
        np.round(RNG.normal(50, 10, 400)),  # rounded
        np.maximum(RNG.standard_normal(400), 0),  # rain: none on half of the days
        np.maximum(RNG.lognormal(0, 1, 400), 0.2),  # below the limit of detection
        np.where(
            RNG.random(400) < 0.1, 0, np.maximum(np.random.default_rng(1).lognormal(0, 1, 400), 0.2)
        ),
        np.random.default_rng(1).lognormal(0, 1, 400) * (RNG.random(400) < 0.9),
        RNG.standard_cauchy(400),
        (RNG.random(400) < 0.02).astype(float),
        RNG.poisson(0.3, 400).astype(float),
        np.repeat(RNG.normal(50, 10, 40), 10),
    ],
)
def test_other_values_are_no_placeholders(y):
    from graphrf.gp.model.notices import placeholders

    assert placeholders(y) == []


def test_a_silent_majority_is_noticed_too():
    from graphrf.gp.model.notices import placeholders

    speeds = np.where(RNG.random(400) < 0.6, 0.0, RNG.normal(60, 5, 400))
    ((value, count, median),) = placeholders(speeds)
    assert (value, count) == (0.0, (speeds == 0).sum())
    assert 55 < median < 65


def test_labels_that_stand_for_none_are_not_learned():
    case, names = ALL["classes"], [PLACES[k] for k in SEEN]
    codes = np.where(case.y() == "high", 1, 0)
    expected = everywhere(case.make().fit(names[:10], codes[:10]))
    marked = [*codes[:10], *[-1] * 6]
    for labels in (marked, pandas.Series([*map(float, codes[:10]), *[np.nan] * 6], index=names)):
        with pytest.warns(UserWarning, match="6 of 16 labels are -1 or missing"):
            gp = case.make().fit(names, labels)
        np.testing.assert_array_equal(everywhere(gp), expected)
        assert gp.n_observations_ == 10
    with pytest.warns(UserWarning, match=r"'\?' is taken for a class"):
        case.make().fit(names, np.where(np.arange(16) < 10, case.y(), "?"))
    with pytest.warns(UserWarning, match="-1 is taken for a class"):
        gp = case.make().fit(names, np.where(codes == 1, 1, -1))
    np.testing.assert_array_equal(gp.classes_, [-1, 1])


def test_means_of_rates_of_which_nothing_is_known_are_warned_of():
    graph = grf.from_edges([0, 1], [1, 2], n_nodes=5)
    gp = grf.GraphGPRegressor(
        graph,
        kernel=grf.Diffusion(1.0),
        output_scale=30.0,
        optimize=False,
        likelihood="poisson",
        numerics=grf.gp.Numerics(normalize=False),
    )
    gp.fit([0, 1, 2], [3, 4, 5])
    gp.predict([0, 1, 2])
    with pytest.warns(
        UserWarning, match="so little is known of the rates at 2 of 5 nodes, such as 3"
    ):
        gp.predict()


def test_graphs_of_which_most_nodes_have_no_edge_are_warned_of():
    alone = grf.from_edges([0], [1], n_nodes=6)
    for gp in (
        grf.GraphGPRegressor(alone, **KNOWN, noise=0.1),
        grf.GraphGPClassifier(alone, **KNOWN),
    ):
        with pytest.warns(UserWarning, match="4 of the 6 nodes have no edge"):
            gp.fit([0, 1, 2], [0, 1, 1])


def test_the_unit_of_weights_is_warned_of_where_it_matters():
    for unit in (1e-12, 1e12):
        line = grf.from_edges(np.arange(5), np.arange(1, 6), np.full(5, unit))
        with pytest.warns(UserWarning, match=re.escape(f"these have the mean {unit:g}")):
            grf.Leroux(0.5).check_graph(line)
        grf.Leroux(0.5, laplacian="normalized").check_graph(line)
    grf.Leroux(0.5).check_graph(grf.from_edges(np.arange(5), np.arange(1, 6), np.full(5, 3.0)))


def test_units_that_a_likelihood_cannot_bear_are_those_of_y():
    y = 1e14 * np.random.default_rng(0).standard_t(3, SEEN.size)
    with pytest.raises(
        ValueError, match=r"`y` must have a spread from 1e-10 to 1e\+10 .* change its units"
    ):
        grf.GraphGPRegressor(path(PLACES), kernel="matern", likelihood="student_t").fit(SEEN, y)


# -- the documentation -----------------------------------------------------------------------------


def test_the_table_in_the_documentation_names_these_tests():
    here = Path(__file__)
    text = (here.parents[2] / "docs/estimators.md").read_text()
    tested = {
        name
        for path in (
            here,
            *(here.parent / f"{own}/test_conveniences.py" for own in ("time", "latent")),
            *(here.parent / f"{own}.py" for own in ("latent/test_answers", "model/test_repeats")),
            here.parents[1] / "graph/test_labels.py",
        )
        for name in re.findall(r"def (test_\w+)", path.read_text())
    }
    named = set(re.findall(r"`(test_\w+)`", text))
    assert len(named) > 15
    assert named <= tested, named - tested
