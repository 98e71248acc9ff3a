"""The conveniences of tests/gp/test_matrix.py, of the estimator on graph and time."""

import numpy as np
import pytest

import graphrf as grf
from graphrf.gp.time import MaternTime, Part

pandas = pytest.importorskip("pandas")

NAMES = list("fbdace")
GRAPH = grf.from_edges(NAMES[:-1], NAMES[1:])
TIMES = pandas.date_range("2026-01-01", periods=30, freq="h", tz="Europe/Berlin", name="when")
RNG = np.random.default_rng(0)
VALUES = np.sin(np.arange(30)[:, None] / 4 + np.arange(6) / 3) + 0.05 * RNG.standard_normal((30, 6))
VALUES[4:9, 2] = np.nan
FRAME = pandas.DataFrame(VALUES, index=TIMES, columns=pandas.Index(NAMES, name="sensor"))
FRAME = FRAME[sorted(NAMES)]


def model(**settings):
    part = Part(MaternTime(lengthscale=6.0, nu=1.5), 0.6, 0.05)
    known = {
        "kernel": grf.Diffusion(2.0),
        "time_kernel": part,
        "noise": 0.01,
        "optimize": False,
        "seed": 0,
    }
    return grf.gp.GraphTimeGPRegressor(GRAPH, **{**known, **settings})


def test_rows_and_columns_are_titled_and_ordered_as_in_fit():
    gp = model().fit(FRAME)
    mean, std = gp.predict(return_std=True, as_frame=True)
    for frame in (
        mean,
        std,
        gp.probability(above=0.0, as_frame=True),
        *gp.predict(quantiles=(0.1, 0.9), as_frame=True),
    ):
        assert frame.columns.equals(FRAME.columns)
        assert frame.index.equals(FRAME.index)
        assert (frame.columns.name, frame.index.name) == ("sensor", "when")
    np.testing.assert_array_equal(gp.predict(), mean.to_numpy())  # also without a frame
    np.testing.assert_allclose(
        mean, model().fit(FRAME[NAMES]).predict(as_frame=True)[sorted(NAMES)], atol=1e-9
    )
    later = pandas.date_range(TIMES[-1], periods=3, freq="h")
    assert gp.predict(["d"], later, as_frame=True).index.equals(later.rename("when"))


def test_columns_that_lack_some_nodes_come_first():
    some = FRAME[["e", "b"]]
    assert list(model().fit(some).predict(as_frame=True).columns) == ["e", "b", "f", "d", "a", "c"]


def test_quantiles_probabilities_and_scores():
    gp = model().fit(FRAME)
    mean, std = gp.predict(return_std=True)
    low, high = np.moveaxis(gp.predict(quantiles=(0.025, 0.975)), -1, 0)
    np.testing.assert_allclose(high - low, 2 * 1.959964 * std, rtol=1e-6)
    new = gp.predict(quantiles=(0.025, 0.975), return_std="observation")
    mean, spread = gp.predict(return_std="observation")
    np.testing.assert_allclose(
        new, mean[..., None] + spread[..., None] * [-1.959964, 1.959964], rtol=1e-6, atol=1e-6
    )
    with pytest.raises(
        ValueError, match=r"`quantiles` are returned alone.*those of a new observation"
    ):
        gp.predict(quantiles=(0.025, 0.975), return_std=True)
    np.testing.assert_array_equal(gp.probability(above=0.0) > 0.5, mean > 0)
    draws = gp.sample(n_samples=2_000, seed=0, observations=True)
    np.testing.assert_allclose(draws.std(axis=0), spread, rtol=0.15)
    np.testing.assert_allclose(gp.sample(n_samples=2_000, seed=0).std(axis=0), std, rtol=0.15)
    assert gp.score(FRAME) > 0.95
    assert np.isclose(gp.score(FRAME[["b", "a"]]), gp.score(FRAME[["a", "b"]]))


def test_one_call_has_tables_of_means_deviations_and_quantiles():
    gp = model().fit(FRAME)
    for kind in (True, "observation"):
        frames = gp.predict(return_std=kind, quantiles=(0.1, 0.9), as_frame=True)
        quantiles = {} if kind is True else {"return_std": kind}
        expected = [
            *gp.predict(return_std=kind),
            *np.moveaxis(gp.predict(quantiles=(0.1, 0.9), **quantiles), -1, 0),
        ]
        for frame, values in zip(frames, expected, strict=True):
            np.testing.assert_array_equal(frame, values)


def test_quantiles_of_observations_hold_readings_and_those_of_f_hold_f():
    """Draws of the model, of which cells are hidden, with as much noise as signal."""
    rng = np.random.default_rng(0)
    part, noise, hours = Part(MaternTime(lengthscale=6.0, nu=0.5), 0.6, 0.05), 0.6, np.arange(40.0)
    graph = grf.from_edges(range(7), range(1, 8))
    correlation = grf.Diffusion(2.0).dense(graph)
    correlation /= np.mean(np.diagonal(correlation))
    space = np.linalg.cholesky(0.6 * correlation + 0.05 * np.eye(8))
    time = np.linalg.cholesky(np.exp(-np.abs(hours[:, None] - hours) / 6.0))
    held: dict[str, list] = {"f": [], "readings": [], "readings by those of f": []}
    for _ in range(12):
        f = time @ rng.standard_normal((40, 8)) @ space.T
        y = f + np.sqrt(noise) * rng.standard_normal((40, 8))
        hidden = rng.random((40, 8)) < 0.3
        gp = grf.gp.GraphTimeGPRegressor(
            graph, kernel=grf.Diffusion(2.0), time_kernel=part, noise=noise, optimize=False, seed=0
        ).fit(np.where(hidden, np.nan, y), hours)
        levels = {"quantiles": (0.025, 0.975)}
        of_f = gp.predict(**levels)
        of_readings = gp.predict(return_std="observation", **levels)
        for name, ends, values in (
            ("f", of_f, f),
            ("readings", of_readings, y),
            ("readings by those of f", of_f, y),
        ):
            inside = (ends[..., 0] < values) & (values < ends[..., 1])
            held[name].append(inside[hidden].mean())
    assert np.mean(held["readings"]) == pytest.approx(0.95, abs=0.03)
    assert np.mean(held["f"]) == pytest.approx(0.95, abs=0.05)
    assert np.mean(held["readings by those of f"]) < 0.85


def test_update_takes_what_fit_takes():
    first, more = FRAME.iloc[:20], FRAME.iloc[20:]
    expected = model().fit(first).update(more.to_numpy(), more.index).predict()
    wanted = model().fit(FRAME).predict()
    np.testing.assert_allclose(expected, wanted, atol=5e-3)  # but for the constant
    for given in (more, more[NAMES], more.drop(columns="d").assign(d=more["d"])):
        np.testing.assert_allclose(model().fit(first).update(given).predict(), expected, atol=1e-12)
    long = more.melt(ignore_index=False).dropna().sample(frac=1.0, random_state=0)
    long = model().fit(first).update(long["sensor"].tolist(), long.index, long["value"].to_numpy())
    np.testing.assert_allclose(long.predict(), expected, atol=1e-12)
    with pytest.raises(ValueError, match="fit again to add sensors"):
        model().fit(first.drop(columns="d")).update(more)


def test_columns_of_arrays_are_those_of_fit():
    gp = model().fit(FRAME)
    filled = gp.fill(FRAME)
    np.testing.assert_array_equal(gp.fill(FRAME.to_numpy(), TIMES), filled)
    # The order matters.
    assert np.abs(gp.fill(FRAME.to_numpy(), TIMES, nodes=NAMES) - filled.to_numpy()).max() > 0.1
    np.testing.assert_allclose(
        filled.to_numpy()[4:9, 3], gp.predict(["d"], TIMES[4:9])[:, 0], atol=1e-12
    )
    assert gp.score(FRAME.to_numpy(), TIMES) == gp.score(FRAME)
    for method in (gp.fill, gp.score):
        with pytest.raises(
            ValueError, match=r"`Y` must have 6 columns, those of `fit`, .* got shape \(30, 5\)"
        ):
            method(FRAME.to_numpy()[:, :5], TIMES)


def test_tables_of_another_form_are_refused_with_the_way_out():
    for other, message in (
        (FRAME.stack(), r"a Series with 2 levels in its index: pass Y\.unstack\(\)"),
        (FRAME.T, r"got nodes in its index, 'a', 'b', .*, and columns Timestamp.*: pass Y\.T"),
        (
            pandas.concat([FRAME, FRAME[["a"]]], axis=1),
            "`Y` must have one column for each node, got 2 of 'a'",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            model().fit(other)


def test_labels_that_differ_are_refused():
    with pytest.raises(
        ValueError,
        match=r"must be None where the columns of `Y` are nodes: got 'f', 'b', .* 'a', 'b'",
    ):
        model().fit(FRAME, nodes=NAMES)
    with pytest.raises(ValueError, match="`times` must be None, or the index"):
        model().fit(FRAME, times=np.arange(30.0))
    with pytest.raises(ValueError, match="'Z'"):
        model().fit(FRAME.rename(columns={"a": "Z"}))
    with pytest.raises(TypeError, match="text in 'a'"):
        model().fit(FRAME.astype({"a": str}))
    with pytest.warns(UserWarning, match="numbers are taken for hours"):
        model().fit(FRAME.reset_index(drop=True))
    long = FRAME.melt(ignore_index=False).dropna()
    y = pandas.Series(long["value"].to_numpy(), index=np.arange(7, 7 + len(long)))
    with pytest.raises(ValueError, match="`y` has the labels 7, 8"):
        model().fit(
            pandas.Series(long["sensor"].to_numpy(), index=np.arange(len(long)) + 3), long.index, y
        )


def test_files_keep_titles(tmp_path):
    gp = model().fit(FRAME)
    gp.save(tmp_path / "gp.npz")
    loaded = grf.gp.GraphTimeGPRegressor.load(tmp_path / "gp.npz")
    pandas.testing.assert_frame_equal(loaded.predict(as_frame=True), gp.predict(as_frame=True))


def test_progress_and_placeholders(capsys):
    frame = FRAME + 50
    frame.iloc[[3, 12, 17], 4] = -999.0
    trained = {"optimize": True, "noise": None, "time_kernel": MaternTime(lengthscale=6.0, nu=1.5)}
    with pytest.warns(UserWarning, match="`Y` holds -999 3 times"):
        model(progress=True, max_train=50, **trained).fit(frame.iloc[:, 3:])
    assert "training" in capsys.readouterr().err


def test_sensors_in_another_order_are_warned_of(recwarn):
    """A draw has the covariance of its graph; with its columns shuffled, none of it is left."""
    rng = np.random.default_rng(0)
    graph = grf.from_edges(np.arange(11), np.arange(1, 12))
    space = np.linalg.cholesky(grf.Diffusion(2.0).dense(graph) + 1e-9 * np.eye(12))
    hours = np.arange(80.0)
    time = np.linalg.cholesky(np.exp(-np.abs(hours[:, None] - hours) / 6))
    y = time @ rng.standard_normal((80, 12)) @ space.T + 0.05 * rng.standard_normal((80, 12))
    gp = grf.gp.GraphTimeGPRegressor(
        graph, "diffusion", time_kernel=MaternTime(6.0), max_train=400, seed=0
    )
    gp.fit(y, hours)
    assert not [warning for warning in recwarn if "equally alike" in str(warning.message)]
    with pytest.warns(
        UserWarning, match="explains Y no better than sensors that are all equally alike"
    ):
        gp.fit(y[:, rng.permutation(12)], hours)
