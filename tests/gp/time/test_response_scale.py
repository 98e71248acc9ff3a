"""Readings on another scale: the same model of transformed values, in their own units."""

import numpy as np
import pytest

import graphrf as grf
from graphrf.gp import GraphTimeGPRegressor
from graphrf.gp.time import MaternTime, Part
from graphrf.gp.time.response_scale import ResponseScale

LINE = grf.from_edges(range(7), range(1, 8))
TIMES = np.arange(120.0)
KNOWN = {
    "kernel": grf.Diffusion(2.0),
    "time_kernel": Part(MaternTime(8.0), 1.0, 0.1),
    "noise": 0.05,
    "seed": 0,
}


def _readings(seed=0, gaps=True):
    """Values with logarithms smooth in time and along the line, with noise; a fifth missing."""
    rng = np.random.default_rng(seed)
    f = np.sin(TIMES[:, None] / 9 + np.arange(8) / 3) + 0.5 * np.sin(TIMES[:, None] / 31)
    y = np.exp(f + 0.3 * rng.standard_normal(f.shape))
    if gaps:
        y[rng.random(y.shape) < 0.2] = np.nan
    return y


SCALES = [
    ResponseScale(),
    ResponseScale("sqrt"),
    ResponseScale("log"),
    *(ResponseScale("yeo-johnson", exponent) for exponent in (0.0, 0.3, 1.0, 1.7, 2.0)),
]


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_a_transform_its_inverse_and_its_slope_agree(scale):
    y = np.geomspace(0.05, 50.0, 30)
    if scale.name == "yeo-johnson":
        y = np.concatenate([-y[::-1], y])
    np.testing.assert_allclose(scale.back(scale.forward(y)), y, rtol=1e-9)
    step = 1e-6 * np.abs(y)
    slope = (scale.forward(y + step) - scale.forward(y - step)) / (2 * step)
    np.testing.assert_allclose(np.exp(scale.log_slope(y)), slope, rtol=1e-6)


def test_moments_are_those_of_the_lognormal_distribution_and_of_a_square():
    mean, variance = np.array([[0.3, -1.0]]), np.array([[0.5, 9.0]])
    found = ResponseScale("log").moments(mean, variance)
    expected = np.exp(mean + variance / 2)
    np.testing.assert_allclose(found[0], expected, rtol=1e-9)
    np.testing.assert_allclose(found[1], expected**2 * np.expm1(variance), rtol=1e-6)
    # z < 0 does not occur.
    far = ResponseScale("sqrt").moments(np.array([[20.0]]), np.array([[1.0]]))
    np.testing.assert_allclose(np.ravel(far), [401.0, 4 * 400.0 + 2.0], rtol=1e-9)


def test_the_exponent_is_that_of_scikit_learn_within_its_bounds():
    from sklearn.preprocessing import PowerTransformer

    y = _readings()
    (exponent,) = PowerTransformer(standardize=False).fit(y.reshape(-1, 1)).lambdas_
    assert ResponseScale.of("yeo-johnson", y).exponent == pytest.approx(np.clip(exponent, 0.0, 2.0))
    heavy = np.exp(np.abs(np.random.default_rng(0).standard_normal(200)) * 3)
    assert ResponseScale.of("yeo-johnson", heavy).exponent == 0.0


@pytest.mark.parametrize("gaps", [True, False])
def test_a_model_of_logarithms_is_taken_back(gaps):
    y = _readings(gaps=gaps)
    log = GraphTimeGPRegressor(LINE, optimize=False, **KNOWN).fit(np.log(y), times=TIMES)
    gp = GraphTimeGPRegressor(LINE, optimize=False, transform="log", **KNOWN).fit(y, times=TIMES)
    levels = (0.1, 0.5, 0.9)
    np.testing.assert_allclose(gp.predict(quantiles=levels), np.exp(log.predict(quantiles=levels)))
    np.testing.assert_allclose(gp.probability(above=2.0), log.probability(above=np.log(2.0)))
    np.testing.assert_allclose(
        gp.sample(n_samples=2, seed=1), np.exp(log.sample(n_samples=2, seed=1))
    )
    mean, std = log.predict(return_std="observation")
    expected = np.exp(mean + std**2 / 2)
    found, spread = gp.predict(return_std="observation")
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    np.testing.assert_allclose(spread, expected * np.sqrt(np.expm1(std**2)), rtol=1e-5)
    new = gp.predict(quantiles=levels, return_std="observation")
    np.testing.assert_allclose(
        new, np.exp(mean[..., None] + std[..., None] * [-1.2815516, 0.0, 1.2815516])
    )
    mean, std = log.predict(return_std=True)
    np.testing.assert_allclose(gp.predict(), np.exp(mean + std**2 / 2), rtol=1e-6)
    later = TIMES[-1] + 1
    again = log.update(np.log(_readings(1, gaps=False)[:1]), [later]).predict(
        times=[later + 1], quantiles=levels
    )
    ahead = gp.update(_readings(1, gaps=False)[:1], [later]).predict(
        times=[later + 1], quantiles=levels
    )
    np.testing.assert_allclose(ahead, np.exp(again))


def test_filled_gaps_are_in_the_units_of_the_readings_and_their_intervals_hold():
    y = _readings()
    gaps = np.isnan(y)
    truth = np.exp(
        np.sin(TIMES[:, None] / 9 + np.arange(8) / 3) + 0.5 * np.sin(TIMES[:, None] / 31)
    )
    settings = {
        "kernel": "diffusion",
        "time_kernel": MaternTime(8.0, nu=1.5),
        "max_train": 200,
        "seed": 0,
    }
    gp = GraphTimeGPRegressor(LINE, transform="auto", **settings).fit(y, times=TIMES)
    assert gp.transform_ in ("log", "yeo-johnson")
    filled = gp.fill(y, times=TIMES)
    assert (filled[~gaps] == y[~gaps]).all()
    low, high = np.moveaxis(gp.predict(quantiles=(0.025, 0.975)), -1, 0)
    assert 0.9 < np.mean((low < truth) & (truth < high)) <= 1.0
    plain = GraphTimeGPRegressor(LINE, **settings).fit(y, times=TIMES).fill(y, times=TIMES)
    errors = [np.abs(np.log(np.maximum(own, 0.01) / truth)[gaps]).mean() for own in (filled, plain)]
    assert errors[0] < errors[1]


def test_readings_that_are_normal_keep_their_scale():
    rng = np.random.default_rng(3)
    # near 0, since transforms are nearly linear far from it
    y = (
        0.5
        + np.sin(TIMES[:, None] / 9 + np.arange(8) / 3)
        + 0.3 * rng.standard_normal((TIMES.size, 8))
    )
    settings = {
        "kernel": "diffusion",
        "time_kernel": MaternTime(8.0, nu=1.5),
        "max_train": 200,
        "seed": 0,
    }
    assert (
        GraphTimeGPRegressor(LINE, transform="auto", **settings).fit(y, times=TIMES).transform_
        is None
    )


def test_a_saved_model_keeps_its_transform(tmp_path):
    gp = GraphTimeGPRegressor(LINE, optimize=False, transform="yeo-johnson", **KNOWN).fit(
        _readings(), times=TIMES
    )
    gp.save(tmp_path / "model.npz")
    loaded = GraphTimeGPRegressor.load(tmp_path / "model.npz", graph=LINE)
    assert loaded.transform_ == "yeo-johnson"
    np.testing.assert_allclose(loaded.predict([0, 3], [5.0]), gp.predict([0, 3], [5.0]), rtol=1e-9)


@pytest.mark.parametrize(("name", "low"), [("sqrt", -0.3), ("log", 0.0)])
def test_values_outside_of_the_domain_are_refused(name, low):
    y = _readings()
    y[0, 0] = low
    with pytest.raises(ValueError, match="use 'yeo-johnson'"):
        GraphTimeGPRegressor(LINE, transform=name).fit(y, times=TIMES)


def test_a_transform_that_is_chosen_needs_training():
    with pytest.raises(ValueError, match="transform"):
        GraphTimeGPRegressor(LINE, optimize=False, transform="auto", **KNOWN).fit(
            _readings(), times=TIMES
        )
    with pytest.raises(ValueError, match="'cube'"):
        GraphTimeGPRegressor(LINE, transform="cube").fit(_readings(), times=TIMES)


@pytest.mark.parametrize("name", ["sqrt", "log", "yeo-johnson"])
def test_probabilities_are_those_of_draws_whichever_ends_are_open(name):
    y = _readings(gaps=False) / 4
    gp = GraphTimeGPRegressor(LINE, optimize=False, transform=name, **KNOWN).fit(y, times=TIMES)
    draws = gp.sample([0, 5], [3.0, 60.0], n_samples=4_000, seed=1)
    low, high = np.quantile(draws, [0.3, 0.8]).tolist()
    for bounds in ({"above": low}, {"below": low}, {"above": low, "below": high}):
        held = (draws > bounds.get("above", -np.inf)) & (draws < bounds.get("below", np.inf))
        found = gp.probability([0, 5], [3.0, 60.0], **bounds)
        assert 0.1 < found.mean() < 0.9
        np.testing.assert_allclose(found, held.mean(axis=0), atol=0.04)  # five standard errors
    if name != "yeo-johnson":  # whose domain has no end
        assert (gp.probability([0, 5], [3.0], above=-1.0) == 1).all()
        assert (gp.probability([0, 5], [3.0], below=-1.0) == 0).all()


@pytest.mark.parametrize(("name", "low"), [("sqrt", -0.3), ("log", 0.0)])
def test_later_readings_outside_of_the_domain_are_refused_and_nothing_changes(name, low):
    gp = GraphTimeGPRegressor(LINE, optimize=False, transform=name, **KNOWN).fit(
        _readings(), times=TIMES
    )
    before = gp.predict([2], [5.0])
    later = np.full((1, 8), 1.0)
    later[0, 3] = low
    with pytest.raises(ValueError, match="use 'yeo-johnson'"):
        gp.update(later, [TIMES[-1] + 1])
    assert gp.times_.size == TIMES.size
    assert (gp.predict([2], [5.0]) == before).all()


def test_readings_of_zero_do_not_choose_the_square_root():
    """Its slope is infinite there; two normal readings in a hundred are too low, so 0."""
    rng = np.random.default_rng(5)
    y = (
        2.2
        + np.sin(TIMES[:, None] / 9 + np.arange(8) / 3)
        + 0.3 * rng.standard_normal((TIMES.size, 8))
    )
    y = np.where(y < np.quantile(y, 0.02), 0.0, y)
    assert (y == 0).any()
    settings = {
        "kernel": "diffusion",
        "time_kernel": MaternTime(8.0, nu=1.5),
        "max_train": 200,
        "seed": 0,
    }
    gp = GraphTimeGPRegressor(LINE, transform="auto", **settings)
    assert gp.fit(y, times=TIMES).transform_ != "sqrt"
