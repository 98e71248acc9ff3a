"""The regressor on graph and time: forms of data, training, files, and what it refuses."""

from __future__ import annotations

import datetime

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import graphrf as grf
from graphrf.gp.time import ConstantTime, MaternTime, Part, PeriodicTime, TimeKernel, graph_kernels

PARTS = (Part(ConstantTime(), 1.0, 0.5), Part(MaternTime(3.0, nu=1.5), 1.0, 0.2))
KERNEL = grf.Diffusion(2.0)
TIMES = np.arange(12.0)
GRAPH = grf.from_edges(range(7), range(1, 8))
NAMED = grf.from_edges(list("abcdefg"), list("bcdefgh"))


def fixed(graph: grf.Graph = GRAPH, **settings) -> grf.gp.GraphTimeGPRegressor:
    settings = {"noise": 0.01, "optimize": False, "seed": 0} | settings
    return grf.gp.GraphTimeGPRegressor(graph, KERNEL, PARTS, **settings)


def waves(times: np.ndarray = TIMES, gaps: bool = True) -> np.ndarray:
    y = 5 + np.sin(times[:, None] / 4 + np.arange(8) / 3)
    if gaps:
        y[2:5, 1] = y[7, 3:] = np.nan
    return y


def test_long_form_is_the_grid():
    y = waves()
    expected = fixed().fit(y, times=TIMES).predict()
    row, column = np.nonzero(~np.isnan(y))
    order = np.random.default_rng(0).permutation(row.size)
    row, column = row[order], column[order]
    long = fixed().fit(column, TIMES[row], y[row, column])
    np.testing.assert_allclose(long.predict(), expected, atol=1e-10)


def test_data_frames():
    pandas = pytest.importorskip("pandas")
    y = waves()
    expected = fixed().fit(y, times=TIMES).predict()
    frame = pandas.DataFrame(y, index=TIMES, columns=list("abcdefgh"))
    np.testing.assert_allclose(fixed(NAMED).fit(frame).predict(), expected, atol=1e-10)
    shuffled = frame[list("hbacdgef")]
    again = fixed(NAMED).fit(shuffled)
    np.testing.assert_allclose(again.predict(list("abcdefgh"), TIMES[::-1]), expected[::-1], atol=1e-2)
    assert again.n_observations_ == (~np.isnan(y)).sum()


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_dates_of_data_frames_are_hours(zone):
    pandas = pytest.importorskip("pandas")
    y = waves()
    dates = pandas.date_range("2024-05-06", periods=12, freq="h", tz=zone)
    gp = fixed(NAMED).fit(pandas.DataFrame(y, index=dates, columns=list("abcdefgh")))
    expected = fixed().fit(y, times=TIMES).predict(times=[3.0, 20.0])
    np.testing.assert_allclose(
        gp.predict(times=dates[0] + pandas.to_timedelta([3, 20], "h")), expected, atol=1e-10
    )


def test_dates_are_hours():
    expected = fixed().fit(waves(), times=TIMES).predict(times=[3.0, 20.0])
    first = datetime.datetime(2024, 5, 6)
    plain = fixed().fit(waves(), times=[first + datetime.timedelta(hours=h) for h in range(12)])
    at = np.array(["2024-05-06T03", "2024-05-06T20"], dtype="datetime64[h]")
    np.testing.assert_allclose(plain.predict(times=at), expected, atol=1e-10)
    zone = datetime.timezone(datetime.timedelta(hours=2))
    zoned = fixed().fit(
        waves(), times=[first.replace(tzinfo=zone) + datetime.timedelta(hours=h) for h in range(12)]
    )
    at = [first.replace(tzinfo=zone) + datetime.timedelta(hours=h) for h in (3, 20)]
    np.testing.assert_allclose(zoned.predict(times=at), expected, atol=1e-10)


def test_large_graphs_need_no_dense_laplacian(monkeypatch):
    y = waves()
    expected = fixed(tol=1e-8).fit(y[:, :6], times=TIMES, nodes=range(6)).predict(return_std=True)
    auto = grf.gp.GraphTimeGPRegressor(GRAPH, "matern", PARTS, noise=0.01, max_train=50, seed=0)
    monkeypatch.setattr(graph_kernels, "_LARGEST_DENSE", 4)
    found = fixed(tol=1e-8).fit(y[:, :6], times=TIMES, nodes=range(6)).predict(return_std=True)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4)
    assert auto.fit(y, times=TIMES).kernel_.laplacian == "normalized"


def test_rows_and_columns_without_values_are_predicted():
    y = waves(gaps=False)
    y[:, 2] = np.nan
    y[4:6] = np.nan
    gp = fixed().fit(y, times=TIMES)
    assert gp.sensors_.tolist() == [0, 1, 3, 4, 5, 6, 7]
    mean, std = gp.predict(times=TIMES, return_std=True)
    assert np.abs(mean - waves(gaps=False)).max() < 0.3
    assert std[0, 2] > std[0, 1]
    assert std[4, 1] > std[3, 1]


def test_training_finds_the_signal():
    rng = np.random.default_rng(3)
    times = np.arange(0.0, 72.0, 1.0)
    truth = 10 + 3 * np.sin(2 * np.pi * times[:, None] / 24 + np.arange(8) / 3)
    y = truth + 0.3 * rng.standard_normal(truth.shape)
    y[rng.random(y.shape) < 0.2] = np.nan
    gp = grf.gp.GraphTimeGPRegressor(GRAPH, seed=0, max_train=400).fit(y, times=times)
    assert any(isinstance(part.kernel, PeriodicTime) for part in gp.parts_)
    assert 0.04 < gp.noise_ < 0.2
    mean, std = gp.predict(times=times, return_std=True)
    assert np.sqrt(np.mean((mean - truth) ** 2)) < 0.2
    assert np.mean(np.abs(mean - truth) < 1.96 * std) > 0.85
    ahead = gp.predict(times=times[-1] + np.arange(1.0, 7.0))
    future = 10 + 3 * np.sin(2 * np.pi * (times[-1] + np.arange(1.0, 7.0))[:, None] / 24 + np.arange(8) / 3)
    assert np.sqrt(np.mean((ahead - future) ** 2)) < 1.0


def test_the_same_on_any_number_of_threads():
    y = waves()
    one, two = (
        grf.gp.GraphTimeGPRegressor(GRAPH, KERNEL, seed=4, n_threads=k, n_draws=4, max_train=50).fit(
            y, times=TIMES
        )
        for k in (1, 2)
    )
    for a, b in zip(one.predict(return_std=True), two.predict(return_std=True), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("with_graph", [True, False])
@pytest.mark.parametrize("graph", [GRAPH, NAMED], ids=["positions", "names"])
def test_files(tmp_path, with_graph, graph):
    dates = np.datetime64("2024-05-06T00") + np.arange(12)
    gp = fixed(graph, n_draws=4).fit(waves(), times=dates)
    gp.save(tmp_path / "gp.npz", graph=with_graph)
    loaded = grf.gp.GraphTimeGPRegressor.load(tmp_path / "gp.npz", graph=None if with_graph else graph)
    for a, b in zip(gp.predict(return_std=True), loaded.predict(return_std=True), strict=True):
        np.testing.assert_array_equal(a, b)
    assert (loaded.parts_, loaded.noise_, loaded.seed_) == (gp.parts_, gp.noise_, gp.seed_)
    loaded.update(dates[-1:] + 1, np.full((1, 8), 5.0))
    if not with_graph:
        with pytest.raises(ValueError, match="saved without it"):
            grf.gp.GraphTimeGPRegressor.load(tmp_path / "gp.npz")
        with pytest.raises(ValueError, match="must be the graph"):
            grf.gp.GraphTimeGPRegressor.load(tmp_path / "gp.npz", graph=grf.from_edges([0], [1]))


def test_damaged_files_are_refused(tmp_path):
    fixed().fit(waves(), times=TIMES).save(tmp_path / "gp.npz")
    content = (tmp_path / "gp.npz").read_bytes()
    (tmp_path / "short.npz").write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match="short"):
        grf.gp.GraphTimeGPRegressor.load(tmp_path / "short.npz")


MIXED = [datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"Y": waves()}, "`times` must be given"),
        ({"Y": waves(), "times": TIMES[:-1]}, r"`Y` must have shape \(11, 8\)"),
        ({"Y": waves(), "times": [0.0, 0.0, *TIMES[2:]]}, "they repeat at position 1"),
        ({"Y": waves(), "times": TIMES[::-1]}, "they fall at position 1"),
        ({"Y": waves(), "times": TIMES, "nodes": [0, 0, *range(2, 8)]}, "`nodes` must be distinct"),
        ({"Y": waves(), "times": TIMES, "nodes": [*range(7), 8]}, "8"),
        ({"Y": waves()[:, :3], "times": TIMES, "nodes": ["a", "b", "zz"]}, "zz"),
        ({"Y": np.full((12, 8), np.nan), "times": TIMES}, "gaps only"),
        ({"Y": np.where(np.isnan(waves()), np.inf, 1.0), "times": TIMES}, "infinite"),
        ({"Y": np.full((2, 8), "x"), "times": [0, 1]}, "real numbers"),
        ({"Y": waves()[0], "times": TIMES}, r"shape \(times, nodes\)"),
        ({"Y": waves()[:2], "times": MIXED}, "one time zone"),
        ({"Y": waves()[:2], "times": ["today", "tomorrow"]}, "hours"),
        ({"Y": waves(), "times": np.full(12, np.nan)}, "finite"),
        ({"Y": [0, 0], "times": [1.0, 1.0], "y": [1.0, 2.0]}, "average such values first"),
        ({"Y": [0, 0], "times": [1.0], "y": [1.0, 2.0]}, "one value for each"),
        ({"Y": [0], "times": [1.0], "y": [1.0], "nodes": [0]}, "long form"),
    ],
)
def test_bad_data(arguments, message):
    graph = NAMED if "zz" in str(arguments.get("nodes")) else GRAPH
    with pytest.raises((ValueError, TypeError), match=message):
        fixed(graph).fit(**arguments)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": "rbf"}, "`kernel`"),
        ({"time_kernel": "daily"}, "`time_kernel`"),
        ({"time_kernel": []}, "at least one"),
        ({"time_kernel": [3.0]}, "TimeKernels"),
        ({"time_kernel": Part(ConstantTime(), 0.0, 0.0)}, "shared \\+ own"),
        ({"optimize": False}, "needs a Kernel"),
        ({"noise": -1.0}, "`noise`"),
        ({"max_train": 1}, "`max_train`"),
        ({"n_draws": 0}, "`n_draws`"),
        ({"tol": 0.0}, "`tol`"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises((ValueError, TypeError), match=message):
        grf.gp.GraphTimeGPRegressor(GRAPH, **settings).fit(waves(), times=TIMES)


def test_bad_queries():
    gp = fixed()
    with pytest.raises(NotFittedError):
        gp.predict()
    gp.fit(waves(), times=TIMES)
    dates = np.datetime64("2024-01-01T00") + np.arange(2)
    with pytest.raises(TypeError, match="numbers"):
        gp.predict(times=dates)
    with pytest.raises(ValueError, match="return_std"):
        gp.predict(return_std="f")
    with pytest.raises(ValueError, match="must not be empty"):
        gp.predict(times=[])
    with pytest.raises(ValueError, match="fall"):
        gp.update([3.0], waves()[:1])
    with pytest.raises(ValueError, match="sensors_"):
        gp.update([13.0], np.ones((1, 3)))
    zoned = fixed().fit(waves()[:2], times=[MIXED[1], MIXED[1] + datetime.timedelta(hours=1)])
    with pytest.raises(ValueError, match="mixed"):
        zoned.predict(times=dates)
    with pytest.raises(ValueError, match="constant"):
        grf.gp.GraphTimeGPRegressor(GRAPH).fit(np.ones((3, 8)), times=[0, 1, 2])


@pytest.mark.parametrize(
    "kernel",
    [MaternTime(2.0), MaternTime(2.0, 1.5), MaternTime(2.0, 2.5), PeriodicTime(24.0, 50.0), ConstantTime()],
)
def test_time_kernels(kernel: TimeKernel):
    lags = np.array([0.0, 0.3, 5.0, 30.0])
    if isinstance(kernel, MaternTime):
        z = np.sqrt(2 * kernel.nu) * lags / kernel.lengthscale
        shape = {0.5: 1.0, 1.5: 1 + z, 2.5: 1 + z + z**2 / 3}[kernel.nu]
        np.testing.assert_allclose(kernel.covariance(lags), shape * np.exp(-z), atol=1e-14)
    assert kernel.covariance(0.0) == pytest.approx(1.0)
    # the transitions are a semigroup that the stationary covariance survives
    one, two, three = kernel.transition(np.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(one @ two, three, atol=1e-14)
    left = kernel.stationary() - one @ kernel.stationary() @ one.T
    assert np.linalg.eigvalsh(left).min() > -1e-14


def test_many_harmonics_are_the_periodic_kernel():
    kernel = PeriodicTime(24.0, decay=1e9, lengthscale=0.8, harmonics=50)
    lags = np.linspace(0.0, 24.0, 7)
    whole = np.exp(-2 * np.sin(np.pi * lags / 24) ** 2 / 0.8**2)
    average = np.exp(-2 * np.sin(np.pi * np.arange(4096) / 4096) ** 2 / 0.8**2).mean()
    np.testing.assert_allclose(kernel.covariance(lags), (whole - average) / (1 - average), atol=1e-7)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MaternTime(0.0), "lengthscale"),
        (lambda: MaternTime(nu=1.0), "nu"),
        (lambda: PeriodicTime(-1.0), "period"),
        (lambda: PeriodicTime(harmonics=0), "harmonics"),
    ],
)
def test_bad_kernels(make, message):
    with pytest.raises(ValueError, match=message):
        make()
