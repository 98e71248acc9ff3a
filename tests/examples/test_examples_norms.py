"""The examples of norm couplings: their protocol and their arithmetic against exact values, and both run."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy import optimize, stats
from scipy.spatial.distance import cdist

from graphrf.euclidean import theory
from graphrf.gp.metrics import kl_divergence
from tests.support.real_data import needs_data


def made_up(n: int = 40, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(2.0, 3.0, size=(n, d))
    return x, np.sin(x[:, 0]) + 0.1 * rng.standard_normal(n)


def test_a_split_is_standardised_by_its_training_points(example):
    uci = example("_uci")
    x, y = made_up(700)
    part = uci.split(x, y, 0)
    assert part.x_train.shape == part.x_test.shape == (256, 3)
    np.testing.assert_allclose(part.x_train.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(part.x_train.std(axis=0), 1)
    np.testing.assert_allclose([part.y_train.mean(), part.y_train.std()], [0, 1], atol=1e-12)
    together = np.concatenate([part.x_train, part.x_test])
    assert len(np.unique(together, axis=0)) == 512


def test_what_test_points_hold_changes_nothing_of_the_training_points(example):
    uci = example("_uci")
    x, y = made_up(101)
    x[::7, 1] = np.nan
    part = uci.split(x, y, 3)
    test = np.random.default_rng(3).permutation(101)[50:100]
    x[test], y[test] = 1e6, -1e6
    other = uci.split(x, y, 3)
    np.testing.assert_array_equal(part.x_train, other.x_train)
    np.testing.assert_array_equal(part.y_train, other.y_train)
    assert not np.isnan(part.x_test).any()
    assert np.abs(other.x_test).min() > 1e5


def test_a_missing_cell_takes_the_median_of_the_training_points(example):
    uci = example("_uci")
    x, y = made_up(20, 2)
    train, test = np.split(np.random.default_rng(1).permutation(20), 2)
    x[test[0], 1] = np.nan
    part = uci.split(x, y, 1)
    column = x[train, 1]
    assert part.x_test[0, 1] == pytest.approx((np.median(column) - column.mean()) / column.std())


def test_a_constant_column_of_the_training_points_becomes_zero(example):
    uci = example("_uci")
    x, y = made_up()
    x[:, 2] = 5.0
    part = uci.split(x, y, 0)
    assert not part.x_train[:, 2].any()
    assert not part.x_test[:, 2].any()


def test_the_gradient_of_the_evidence_is_that_of_its_value(example):
    uci = example("_uci")
    x, y = made_up()
    distances = np.sum((x[:, None] - x[None]) ** 2, axis=2)
    for logs in np.random.default_rng(2).normal(0, 0.5, size=(3, 3)):
        value, gradient = uci.negative_evidence(logs, distances, y)
        assert value == pytest.approx(
            -stats.multivariate_normal(
                cov=np.exp(2 * logs[1] - distances / (2 * np.exp(2 * logs[0])))
                + np.exp(2 * logs[2]) * np.eye(len(y))
            ).logpdf(y)
        )
        numeric = optimize.approx_fprime(logs, lambda p: uci.negative_evidence(p, distances, y)[0], 1e-6)
        np.testing.assert_allclose(gradient, numeric, rtol=1e-4, atol=1e-3)


def test_fitting_finds_what_made_the_data_and_keeps_a_given_lengthscale(example):
    uci = example("_uci")
    rng = np.random.default_rng(4)
    x = rng.uniform(-3, 3, size=(200, 2))
    covariance = 4 * np.exp(-np.sum((x[:, None] - x[None]) ** 2, axis=2) / 2) + 0.01 * np.eye(200)
    fitted = uci.fit(x, np.linalg.cholesky(covariance) @ rng.standard_normal(200))
    assert 0.8 < fitted.lengthscale < 1.25
    assert 1 < fitted.output_scale < 4
    assert 0.08 < fitted.noise < 0.125
    assert uci.fit(x, x[:, 0], lengthscale=1.7).lengthscale == pytest.approx(1.7)


def test_the_lengthscale_of_laplace_features_is_twice_the_mean_summed_norm(example):
    x = made_up(5)[0]
    sums = [np.linalg.norm(a + b) for a in x for b in x]
    assert example("_uci").summed_norm_lengthscale(x) == pytest.approx(2 * np.mean(sums))


@pytest.mark.parametrize("kind", ["fourier", "laplace"])
def test_every_row_has_frequencies_of_the_right_law_and_number(example, kind):
    module = example("norm_coupling")
    for row, coupling in module.ROWS[kind].items():
        w = module.frequencies(coupling, 10, 5, 200, seed=7)
        assert w.shape == (200, 10, 5)
        if row == "Halton, unscrambled":  # the same norms every time
            np.testing.assert_allclose(np.ptp(np.linalg.norm(w, axis=2), axis=0), 0, atol=1e-12)
            continue
        norms = np.linalg.norm(w, axis=2)
        # One norm an ensemble, so that the sample is independent.
        for place in (0, 9):
            assert stats.kstest(norms[:, place], stats.chi(5).cdf).pvalue > 1e-6
            assert stats.kstest(w[:, place, 0], stats.norm.cdf).pvalue > 1e-6


def test_opposites_point_against_their_partners(example):
    module = example("norm_coupling")
    for row in ("orthogonal", "+ PNC + antithetic"):
        w = module.frequencies(module.ROWS["laplace"][row], 8, 4, 50, seed=1)
        first, second = w[:, :4], w[:, 4:]
        lengths = np.linalg.norm(first, axis=2), np.linalg.norm(second, axis=2)
        np.testing.assert_allclose(np.sum(first * second, axis=2), -lengths[0] * lengths[1])
        assert np.allclose(*lengths) == (row == "+ PNC + antithetic")
        gram = first @ first.transpose(0, 2, 1)
        assert np.abs(gram[:, ~np.eye(4, dtype=bool)]).max() < 1e-12


CLOSED_FORMS = {
    ("fourier", "iid"): {"directions": "iid", "norms": "iid"},
    ("fourier", "orthogonal"): {"norms": "iid"},
    ("fourier", "+ PNC"): {"norms": "pnc"},
    ("fourier", "simplex"): {"directions": "simplex", "norms": "iid"},
    ("laplace", "iid"): {"directions": "iid", "norms": "iid", "antithetic": False},
    ("laplace", "orthogonal, no opposites"): {"norms": "iid", "antithetic": False},
    ("laplace", "orthogonal, antithetic"): {"norms": "iid"},
    ("laplace", "+ PNC + antithetic"): {"norms": "pnc"},
    ("laplace", "simplex + antithetic"): {"directions": "simplex", "norms": "iid"},
}


def exact_mse(kind: str, x: np.ndarray, m: int, **options) -> float:
    """The mean over all pairs, by the closed forms."""
    if kind == "laplace":
        return float(np.mean([theory.laplace_mse(x, one, m, **options) for one in x]))
    return float(np.mean(theory.fourier_mse(cdist(x, x), x.shape[1], m, **options)))


def score(module, kind: str, row: str, x: np.ndarray, expected: float) -> float:
    """How far the sampled mean squared error is from the expected one, in standard errors."""
    w = module.frequencies(module.ROWS[kind][row], 8, x.shape[1], 4_000, seed=11)
    squares = module.gram_errors(kind, x, np.exp(-cdist(x, x, "sqeuclidean") / 2), w) ** 2
    return float((squares.mean() - expected) / (squares.std(ddof=1) / 4_000**0.5))


@pytest.mark.parametrize(("kind", "row"), CLOSED_FORMS)
def test_sampled_errors_are_those_of_the_closed_forms(example, kind, row):
    x = np.random.default_rng(5).normal(size=(4, 4)) * 0.4
    expected = exact_mse(kind, x, 8, **CLOSED_FORMS[kind, row])
    assert abs(score(example("norm_coupling"), kind, row, x, expected)) < 5


@pytest.mark.parametrize("kind", ["fourier", "laplace"])
def test_the_closed_form_of_another_coupling_does_not_fit(example, kind):
    x = np.random.default_rng(5).normal(size=(4, 4)) * 0.4
    expected = exact_mse(kind, x, 8, **CLOSED_FORMS[kind, "iid"])
    assert score(example("norm_coupling"), kind, "orthogonal", x, expected) < -5


def test_features_predict_as_the_exact_gp_of_their_kernel(example):
    module = example("norm_coupled_gps")
    rng = np.random.default_rng(6)
    train, test, y = rng.normal(size=(30, 7)), rng.normal(size=(5, 7)), rng.normal(size=30)
    found = module.feature_predictive(train, test, y, 0.3)
    gain = np.linalg.solve(train @ train.T + 0.09 * np.eye(30), train @ test.T).T
    np.testing.assert_allclose(found.mean, gain @ y)
    np.testing.assert_allclose(
        found.covariance, test @ test.T - gain @ train @ test.T + 0.09 * np.eye(5), atol=1e-12
    )


def test_the_exact_prediction_is_that_of_gaussian_conditioning(example):
    uci, module = example("_uci"), example("norm_coupled_gps")
    x, y = made_up()
    part = uci.split(x, y, 0)
    fitted = uci.Hyperparameters(1.5, 0.8, 0.2)
    both = np.concatenate([part.x_train, part.x_test])
    joint = 0.64 * np.exp(-np.sum((both[:, None] - both[None]) ** 2, axis=2) / 4.5) + 0.04 * np.eye(40)
    gain = np.linalg.solve(joint[:20, :20], joint[:20, 20:]).T
    exact = module.exact_predictive(part, fitted)
    np.testing.assert_allclose(exact.mean, gain @ part.y_train)
    np.testing.assert_allclose(exact.covariance, joint[20:, 20:] - gain @ joint[:20, 20:], atol=1e-12)
    expected = -stats.multivariate_normal(exact.mean, exact.covariance).logpdf(part.y_test) / 20
    assert exact.joint_nll(part.y_test) == pytest.approx(expected)


def test_the_divergence_is_that_of_the_metrics_in_both_directions(example):
    module = example("norm_coupled_gps")
    rng = np.random.default_rng(8)
    roots = rng.normal(size=(2, 6, 9))
    one, two = (module.Predictive(rng.normal(size=6), root @ root.T) for root in roots)
    for first, second in ((one, two), (two, one)):
        expected = kl_divergence(first.mean, first.covariance, second.mean, second.covariance)
        assert first.divergence(second) == pytest.approx(expected)
    assert abs(one.divergence(one)) < 1e-12


def test_published_figures_agree_with_the_ratios_published_beside_them(example):
    table = example("_tables_3_and_4").read()
    assert len(table) == 56
    assert all(len(row) == 6 for row in table.values())
    # "Predictive RMSE (normalised)" of Table 3, Fourier features.
    ratios = {
        "Halton": (1.013, 1.001, 1.005, 0.991, 0.999, 1.021),
        "orthogonal": (0.917, 0.994, 1.019, 0.915, 0.930, 0.974),
        "+ PNC": (0.917, 0.994, 1.033, 0.915, 0.930, 0.975),
    }
    reference = np.array(table["d", "rmse", "fourier", "iid"])[:, 0]
    for row, expected in ratios.items():
        values = np.array(table["d", "rmse", "fourier", row])[:, 0]
        np.testing.assert_allclose(values / reference, expected, atol=6e-4)


@needs_data
def test_the_sets_have_the_features_that_the_notes_name(example):
    uci = example("_uci")
    shapes = {name: uci.load(name)[0].shape for name in uci.SETS}
    assert [shape[1] for shape in shapes.values()] == [8, 7, 6, 4, 5, 13]
    table = uci.load("boston")[0]
    assert np.isnan(table).sum() == 120
    assert len(table) == 506
    assert not np.isnan(uci.load("concrete")[0]).any()


@needs_data
def test_both_examples_run(example, monkeypatch, capsys, tmp_path):
    pytest.importorskip("matplotlib", reason="figures need matplotlib")
    for name, words in (("norm_coupling", "+ PNC + antithetic"), ("norm_coupled_gps", "orthogonal -> + PNC")):
        picture = tmp_path / f"{name}.png"
        arguments = ["--sets", "cpu", "--splits", "2", "--repeats", "2", "--out", str(picture)]
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        example(name).main()
        assert words in capsys.readouterr().out
        assert picture.stat().st_size > 1_000


@pytest.mark.parametrize("name", ["norm_coupling", "norm_coupled_gps"])
@pytest.mark.parametrize(("option", "low"), [("--splits", 2), ("--repeats", 1)])
def test_too_few_splits_or_repeats_are_refused(example, monkeypatch, capsys, name, option, low):
    monkeypatch.setattr(sys, "argv", [name, option, str(low - 1)])
    with pytest.raises(SystemExit):
        example(name).main()
    assert f"{option}: must be at least {low}, got {low - 1}" in capsys.readouterr().err
