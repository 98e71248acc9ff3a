"""The regressor on graph and time: forms of data, training, files, and what it refuses."""

from __future__ import annotations

import datetime
from functools import partial

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import graphrf as grf
from graphrf.gp.time import (
    ConstantTime,
    MaternTime,
    Part,
    PeriodicTime,
    TimeKernel,
    graph_kernels,
    regression,
)

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
    large = partial(graph_kernels.GraphCovariance, largest_dense=4)
    covariance, nodes = large(GRAPH, 0), np.arange(5)
    assert covariance.block(KERNEL, nodes, nodes) is covariance.block(
        KERNEL, nodes, nodes
    )  # made once
    assert covariance.block(KERNEL, nodes, nodes) is not covariance.block(
        grf.Diffusion(1.0), nodes, nodes
    )
    named = large(grf.Graph(GRAPH.adjacency, nodes=range(7, -1, -1)), 0)
    np.testing.assert_array_equal(
        named.block(KERNEL, nodes, nodes), covariance.block(KERNEL, nodes, nodes)
    )  # by position, although names are integers too
    monkeypatch.setattr(regression, "GraphCovariance", large)
    found = fixed(tol=1e-8).fit(y[:, :6], times=TIMES, nodes=range(6)).predict(return_std=True)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4)


def test_large_graphs_compare_several_kernels():
    y = waves()
    kernels = graph_kernels.candidate_kernels(GRAPH, "auto", largest_dense=4)
    assert {repr(type(kernel)) + str(getattr(kernel, "nu", "")) for kernel in kernels} == {
        f"{grf.Matern!r}1.0",
        f"{grf.Matern!r}2.0",
        f"{grf.Diffusion!r}",
    }
    large, small = (
        graph_kernels.GraphCovariance(GRAPH, 0, most).blocks(kernels, np.array([1, 2, 6]))
        for most in (4, 8)
    )
    for kernel in kernels:
        np.testing.assert_allclose(large[kernel], small[kernel], atol=1e-5)
    assert (
        grf.gp.GraphTimeGPRegressor(GRAPH, max_train=50, seed=0).fit(y, times=TIMES).kernel_
        is not None
    )


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
    future = 10 + 3 * np.sin(
        2 * np.pi * (times[-1] + np.arange(1.0, 7.0))[:, None] / 24 + np.arange(8) / 3
    )
    assert np.sqrt(np.mean((ahead - future) ** 2)) < 1.0


def test_the_same_on_any_number_of_threads():
    y = waves()
    one, two = (
        grf.gp.GraphTimeGPRegressor(
            GRAPH, KERNEL, seed=4, n_threads=k, n_draws=4, max_train=50
        ).fit(y, times=TIMES)
        for k in (1, 2)
    )
    for a, b in zip(one.predict(return_std=True), two.predict(return_std=True), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("with_graph", [True, False])
@pytest.mark.parametrize("graph", [GRAPH, NAMED], ids=["positions", "names"])
def test_files(tmp_path, with_graph, graph):
    dates = np.datetime64("2024-05-06T00") + np.arange(12)
    y = waves()
    y[3] = np.nan
    gp = fixed(graph, n_draws=4).fit(y, times=dates)
    gp.save(tmp_path / "gp.npz", graph=with_graph)
    loaded = grf.gp.GraphTimeGPRegressor.load(
        tmp_path / "gp.npz", graph=None if with_graph else graph
    )
    for a, b in zip(gp.predict(return_std=True), loaded.predict(return_std=True), strict=True):
        np.testing.assert_array_equal(a, b)
    assert (loaded.parts_, loaded.noise_, loaded.seed_) == (gp.parts_, gp.noise_, gp.seed_)
    loaded.update(np.full((1, 8), 5.0), dates[-1:] + 1)
    if not with_graph:
        with pytest.raises(ValueError, match="saved without it"):
            grf.gp.GraphTimeGPRegressor.load(tmp_path / "gp.npz")
        with pytest.raises(ValueError, match="must be the graph"):
            grf.gp.GraphTimeGPRegressor.load(tmp_path / "gp.npz", graph=grf.from_edges([0], [1]))


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
        ({"Y": waves(), "times": 1.7e9 + 3600 * TIMES}, r"must be hours.*datetime64\[s\]"),
        ({"Y": waves(), "times": np.full(12, "NaT", "datetime64[s]")}, "NaT"),
        ({"Y": waves(), "times": np.full(12, "NaT", "timedelta64[s]")}, "NaT"),
        ({"Y": waves().astype(object), "times": TIMES}, "dtype=float"),
        ({"Y": waves() * 1e150, "times": TIMES}, "float64"),
        ({"Y": np.ma.masked_invalid(waves()), "times": TIMES}, "masked"),
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


def test_bad_data_frames():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(waves(), index=TIMES, columns=list("abcdefgh"))
    for other, message in (
        (
            frame.set_axis(pandas.date_range("2024-01-01", periods=12).astype(str)),
            "pandas.to_datetime",
        ),
        (frame.set_axis(pandas.period_range("2024-01-01", periods=12, freq="h")), "to_timestamp"),
        (
            frame.set_axis([*pandas.date_range("2024-01-01", periods=11, tz="UTC"), pandas.NaT]),
            "NaT",
        ),
        # clocks are set back: hours repeat
        (
            frame.set_axis(
                pandas.date_range(
                    "2024-10-26 18:00", periods=12, freq="h", tz="Europe/Berlin"
                ).tz_localize(None)
            ),
            "repeat at position 9",
        ),
        (frame.drop(columns=frame.columns), "neither of them 0"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            fixed(NAMED).fit(other)


def test_hours_as_durations_and_dates_without_a_time_of_day():
    y, expected = waves(), fixed().fit(waves(), times=TIMES).predict()
    durations = fixed().fit(y, times=np.arange(0, 720, 60).astype("timedelta64[m]"))
    np.testing.assert_array_equal(durations.predict(), expected)
    np.testing.assert_allclose(durations.predict(times=[3.0]), expected[3:4], rtol=1e-12)
    days = fixed().fit(
        y, times=[datetime.date(2024, 2, 25) + datetime.timedelta(days=i) for i in range(12)]
    )
    np.testing.assert_array_equal(days.predict(), fixed().fit(y, times=24 * TIMES).predict())


@pytest.mark.parametrize(
    ("rows", "columns"),
    [(1, 8), (12, 1), (1, 1), (2, 8)],
    ids=["time", "sensor", "value", "two times"],
)
def test_little_data(rows, columns):
    y = waves(gaps=False)[:rows, :columns]
    gp = fixed().fit(y, times=TIMES[:rows], nodes=range(columns))
    for found in gp.predict(times=[0.0, 5.0], return_std=True):
        assert found.shape == (2, 8)
        assert np.isfinite(found).all()
    np.testing.assert_allclose(gp.predict(range(columns), [0.0])[0], y[0], atol=0.1)


@pytest.mark.parametrize("change", [0.0, 1e-14])
def test_constant_values(change):
    y = 5 + change * waves()
    with pytest.raises(ValueError, match=r"constant.*optimize=False"):
        grf.gp.GraphTimeGPRegressor(GRAPH).fit(y, times=TIMES)
    np.testing.assert_allclose(fixed().fit(y, times=TIMES).predict(), 5.0, atol=1e-10)


def test_times_of_gaps_are_predicted_by_default():
    y = waves(gaps=False)
    y[[0, 4, 11]] = np.nan
    gp = fixed().fit(y, times=TIMES)
    np.testing.assert_array_equal(gp.predict(), gp.predict(times=TIMES))
    gp.update(np.full((2, 8), np.nan), [12.0, 13.0])
    assert gp.predict().shape == (14, 8)
    with pytest.raises(ValueError, match="repeat"):
        gp.update(waves()[:1], [13.0])


def test_filling_keeps_form_and_values():
    y = waves()
    gp = fixed(NAMED).fit(y[:, :7], times=TIMES, nodes=list("abcdefg"))
    mean, std = gp.predict(times=TIMES, return_std="observation")
    wanted, spread = (np.where(np.isnan(y), new, old) for new, old in ((mean, y), (std, 0 * y)))
    every = list("abcdefgh")
    filled, deviation = gp.fill(y, TIMES, nodes=every, return_std="observation")
    np.testing.assert_allclose(filled, wanted, atol=1e-9)
    np.testing.assert_allclose(deviation, np.where(np.isnan(y), spread, 0.0), atol=1e-9)
    assert np.isnan(y).any()  # the caller's own
    np.testing.assert_array_equal(gp.fill(waves(gaps=False), TIMES, nodes=every), waves(gaps=False))
    part = gp.fill(y[2:5, [1, 7]], TIMES[2:5], nodes=["b", "h"])
    np.testing.assert_allclose(part, wanted[2:5, [1, 7]], atol=1e-9)
    with pytest.raises(ValueError, match="fall"):
        gp.fill(y, TIMES[::-1], nodes=every)


def test_arrays_with_named_axes():
    class DataArray:
        """What graphrf uses of xarray's class."""

        def __init__(self, data, dims, coords):
            self.data, self.dims, self.coords = np.asarray(data), dims, coords

        def __array__(self, dtype=None, copy=None):
            return np.asarray(self.data, dtype)

        def transpose(self, *dims):
            return DataArray(self.data if dims == self.dims else self.data.T, dims, self.coords)

        def copy(self, data):
            return DataArray(data, self.dims, self.coords)

    coordinates = {
        "time": np.datetime64("2024-05-06T00") + np.arange(12),
        "place": np.array(list("abcdefgh")),
    }
    expected = fixed(NAMED).fit(waves(), times=TIMES).predict()
    try:
        import xarray
    except ModuleNotFoundError:
        kinds = [DataArray]
    else:
        kinds = [DataArray, xarray.DataArray]
    for kind in kinds:
        for dims, y in ((("time", "place"), waves()), (("place", "time"), waves().T)):
            array = kind(y, dims=dims, coords=coordinates)
            gp = fixed(NAMED).fit(array)
            np.testing.assert_allclose(gp.predict(), expected, atol=1e-10)
            filled = gp.fill(array)
            assert isinstance(filled, kind)
            wanted = np.where(np.isnan(waves()), expected, waves())
            np.testing.assert_allclose(filled.transpose("time", "place"), wanted, atol=1e-9)
        with pytest.raises(ValueError, match="no coordinates"):
            fixed(NAMED).fit(
                kind(waves(), dims=("time", "place"), coords={"place": coordinates["place"]})
            )
        with pytest.raises(ValueError, match="two axes"):
            fixed(NAMED).fit(
                kind(np.ones(12), dims=("time",), coords={"time": coordinates["time"]})
            )


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
        gp.update(waves()[:1], [3.0])
    with pytest.raises(ValueError, match="8 columns"):
        gp.update(np.ones((1, 3)), [13.0])
    zoned = fixed().fit(waves()[:2], times=[MIXED[1], MIXED[1] + datetime.timedelta(hours=1)])
    with pytest.raises(ValueError, match="mixed"):
        zoned.predict(times=dates)


@pytest.mark.parametrize(
    "kernel",
    [
        MaternTime(2.0),
        MaternTime(2.0, 1.5),
        MaternTime(2.0, 2.5),
        PeriodicTime(24.0, 50.0),
        ConstantTime(),
    ],
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
    np.testing.assert_allclose(
        kernel.covariance(lags), (whole - average) / (1 - average), atol=1e-7
    )


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
