"""The posterior of hyperparameters: beside quadrature, and after trials that fail."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from scipy.special import expit, log_expit, logsumexp

from graphrf.gp import Groups, LatentGaussianModel
from graphrf.gp.latent import exploration, laplace
from graphrf.gp.latent.exploration import Search, find_mode
from graphrf.gp.terms.joint import Joint
from graphrf.gp.terms.parameters import PenalisedDeviation

pandas = pytest.importorskip("pandas")

# The deviation of the intercept's prior.
WIDE = 2.0
X, WEIGHTS = np.polynomial.hermite_e.hermegauss(40)
LOG_WEIGHTS = np.log(WEIGHTS) - 0.5 * np.log(2 * np.pi)


def binary_groups():
    """400 groups of five binary rows, with as many k ones as a deviation of 0.75 expects."""
    k = np.arange(6)
    chance = expit(0.5 + 0.75 * X)[:, None]
    expected = np.exp(LOG_WEIGHTS) @ (chance**k * (1 - chance) ** (5 - k)) * [1, 5, 10, 10, 5, 1]
    ones = np.searchsorted(np.cumsum(expected), (np.arange(400) + 0.5) / 400)
    y = (np.arange(5) < ones[:, None]).astype(int)
    return pandas.DataFrame({"y": y.ravel(), "person": np.repeat(np.arange(400), 5)}), ones


def exact_deviation(ones):
    """Mean and deviation of the posterior of sd(person), by quadrature over the others."""
    k, counts = np.unique(ones, return_counts=True)
    grid, sds = np.linspace(-0.2, 1.2, 81), np.linspace(0.02, 1.6, 160)
    eta = grid[:, None, None] + sds[:, None] * X
    log = np.zeros(eta.shape[:2])
    for own, count in zip(k, counts, strict=True):
        log += count * logsumexp(
            own * log_expit(eta) + (5 - own) * log_expit(-eta) + LOG_WEIGHTS, axis=2
        )
    log += -0.5 * np.square(grid[:, None] / WIDE)
    log += [PenalisedDeviation().log_density(np.log(sd))[0] - np.log(sd) for sd in sds]
    weights = np.exp(log - log.max()).sum(axis=0)
    mean = weights @ sds / weights.sum()
    return mean, np.sqrt(weights @ np.square(sds - mean) / weights.sum())


def gap(frame, ones):
    """Of stated and exact means of sd(person), in deviations, and the deviations' ratio."""
    model = LatentGaussianModel(
        "y ~ 1", Groups("person"), "bernoulli", coefficient_deviation=WIDE, seed=0
    ).fit(frame)
    row, (mean, sd) = model.summary().loc["sd(person)"], exact_deviation(ones)
    return (row["mean"] - mean) / sd, row["sd"] / sd


def test_deviations_of_groups_with_few_binary_rows_are_those_of_quadrature():
    away, ratio = gap(*binary_groups())
    assert abs(away) < 0.25
    assert 0.9 < ratio < 1.1


def test_weights_by_the_evidence_of_laplace_are_found_to_be_wrong(monkeypatch):
    monkeypatch.setattr(exploration._Correction, "at", lambda self, vectors: np.zeros(len(vectors)))
    assert gap(*binary_groups())[0] < -0.5


def test_corrections_are_exact_at_their_vectors_and_for_quadratics():
    rng = np.random.default_rng(0)
    vectors, others = rng.standard_normal((30, 2)), 0.5 * rng.standard_normal((20, 2))

    def difference(x):
        return 3.0 + x @ [1.0, -2.0] + np.square(x) @ [0.3, 0.1]

    values = difference(vectors)
    values[4] = np.nan  # no approximation there
    correction = exploration._Correction(np.zeros((0, 2)), np.zeros(0))
    assert not correction.at(others).any()
    correction = correction.more(vectors, values)
    kept = np.arange(30) != 4
    np.testing.assert_allclose(correction.at(vectors[kept]), values[kept], atol=0.01)
    np.testing.assert_allclose(correction.at(others), difference(others), atol=0.1)
    far = correction.at(1e6 * vectors)
    assert np.isfinite(far).all()
    assert np.abs(far).max() < 100


def proportions(n, precision):
    rng = np.random.default_rng(0)
    groups, x = rng.integers(0, 10, n), rng.standard_normal(n)
    mean = expit(-0.2 + 0.1 * x + 0.2 * rng.standard_normal(10)[groups])
    return pandas.DataFrame(
        {"y": rng.beta(mean * precision, (1 - mean) * precision), "x": x, "group": groups}
    )


@pytest.mark.parametrize("precision", [20, 400, 2_000, 20_000])
@pytest.mark.parametrize("n", [50, pytest.param(200, marks=pytest.mark.more)])
def test_precise_proportions_are_fitted(n, precision):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LatentGaussianModel("y ~ 1 + x", Groups("group"), "beta", seed=0).fit(
            proportions(n, precision)
        )
    row = model.summary().loc["precision"]
    assert abs(np.log(row["mean"] / precision)) < 4 * np.sqrt(2 / (n - 12))


def test_an_evidence_does_not_depend_on_trials_that_failed():
    model = LatentGaussianModel("y ~ 1 + x", Groups("group"), "beta", seed=0)
    model._prepare(proportions(50, 400))
    search = Search(model._joint, model._data, flat=False)
    for possible in np.log([[0.375, 26.0], [0.2, 400.0]]):
        before = search.log_posterior(possible)
        for corner in itertools.product(*search.coordinates.box):
            search.log_posterior(np.array(corner))
            assert search.log_posterior(possible) == pytest.approx(before, abs=0.05)


@pytest.mark.parametrize("likelihood", ["poisson", "negative_binomial"])
@pytest.mark.parametrize("scale", [1e9, 1e12, 1e14])
@pytest.mark.filterwarnings(
    "ignore:(training ended|the posterior of 2|the normal approximation|the search):UserWarning"
)
def test_large_counts_have_the_means_of_their_groups(likelihood, scale):
    rng = np.random.default_rng(27)
    groups = np.arange(60) % 6
    y = rng.poisson(scale * np.exp(0.3 * rng.standard_normal(6))[groups]).astype(float)
    frame = pandas.DataFrame({"y": y, "group": groups})
    model = LatentGaussianModel("y ~ 1", Groups("group"), likelihood, seed=0).fit(frame)
    means = frame.groupby("group")["y"].transform("mean").to_numpy()
    np.testing.assert_allclose(model.predict(), means, rtol=1e-3)


@pytest.mark.parametrize(
    ("owner", "name", "match"),
    [
        (laplace, "approximation", "under the likelihood Poisson.*from 0 to 3"),
        (Joint, "posterior", "given twice"),
    ],
)
def test_a_refusal_names_terms_only_where_their_precision_cannot_be_factored(
    owner, name, match, monkeypatch
):
    def failing(*given, **named):
        raise np.linalg.LinAlgError

    model = LatentGaussianModel("y ~ 1", Groups("group"), "poisson", seed=0)
    model._prepare(pandas.DataFrame({"y": np.arange(20) % 4, "group": np.arange(20) % 5}))
    monkeypatch.setattr(owner, name, failing)
    with pytest.raises(ValueError, match=match):
        find_mode(Search(model._joint, model._data, flat=False))
