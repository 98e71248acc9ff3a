"""Leave-one-out densities and WAIC: against refits, enumeration on a grid, and posterior draws."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

import graphrf as grf
from graphrf.gp import Numerics
from graphrf.gp.posterior.criteria import leave_one_out
from tests.support.sequential import assert_rates

N = 14
RNG = np.random.default_rng(3)
LINE = grf.from_edges(range(N - 1), range(1, N))
NODES = np.append(RNG.permutation(N)[:9], [4, 4, 7])  # three observations of some nodes
SIGNAL = np.sin(np.arange(N) / 3)
Y = SIGNAL[NODES] + 0.3 * RNG.standard_normal(NODES.size)
WEIGHTS = RNG.uniform(0.5, 2.0, NODES.size)
NOISE = 0.09
SMOOTH = grf.Diffusion(1.5)
ROADS = grf.gp.MetricGraph(np.arange(N - 1), np.arange(1, N), np.ones(N - 1))


def regressor(method="series", **settings):
    kernel = grf.Matern(nu=1.0, lengthscale=2.0) if method == "precision" else SMOOTH
    known = {"kernel": kernel, "output_scale": 1.0, "noise": NOISE, "optimize": False, "seed": 0}
    return grf.GraphGPRegressor(LINE, **{**known, "method": method, **settings})


def along():
    return grf.gp.FieldGPRegressor(ROADS, range=6.0, sd=1.0, noise=NOISE)


MAKERS = {
    "series": regressor,
    "precision": lambda: regressor("precision"),
    "zero mean": lambda: regressor(mean="zero"),
    "covariate": lambda: regressor(mean=np.cos(np.arange(N))),
    "noise of each": lambda: regressor(noise=NOISE * np.linspace(1, 2, NODES.size)),
    "along edges": along,
}


def refitted(make, rows, y, weights):
    """Means and deviations of observations by fits without each of them."""
    moments = []
    for row in rows:
        others = np.delete(np.arange(len(y)), row)
        gp = make().set_params()
        if np.ndim(getattr(gp, "noise", 0.0)):
            gp.set_params(noise=gp.noise[others])
        gp.fit(NODES[others], y[others], sample_weight=weights[others])
        mean, std = gp.predict(NODES[[row]], return_std=True)
        noise = make().noise
        own = (noise[row] if np.ndim(noise) else noise) / weights[row]
        moments.append((mean[0], np.sqrt(std[0] ** 2 + own)))
    means, stds = zip(*moments, strict=True)
    return np.array(means), np.array(stds)


@pytest.mark.parametrize("name", MAKERS)
def test_normal_densities_are_those_of_fits_without_the_observation(name):
    gp = MAKERS[name]().fit(NODES, Y, sample_weight=WEIGHTS)
    rows = [0, 5, *np.flatnonzero(NODES == 4)]
    mean, std = refitted(MAKERS[name], rows, Y, WEIGHTS)
    found = gp.loo()
    np.testing.assert_allclose(found.log_density[rows], norm.logpdf(Y[rows], mean, std), atol=1e-9)
    np.testing.assert_allclose(found.pit[rows], norm.cdf(Y[rows], mean, std), atol=1e-9)
    assert found.total == pytest.approx(found.log_density.sum())

    seen_mean, seen_std = gp.predict(NODES[rows], return_std=True)  # which knows the observation
    seen = norm.logpdf(Y[rows], seen_mean, np.hypot(seen_std, std.min()))
    assert np.abs(found.log_density[rows] - seen).max() > 0.05


@pytest.mark.filterwarnings("ignore:WAIC may mislead")
def test_rows_of_several_outputs_are_left_out_whole():
    both = np.column_stack([Y, np.cos(Y)])
    gp = regressor().fit(NODES, both, sample_weight=WEIGHTS)
    rows = [1, 10]
    mean, std = refitted(regressor, rows, both, WEIGHTS)
    std = std if std.ndim == 2 else std[:, None]
    found = gp.loo()
    expected = norm.logpdf(both[rows], mean, std)
    np.testing.assert_allclose(found.log_density[rows], expected.sum(axis=1), atol=1e-9)
    np.testing.assert_allclose(found.pit[rows], norm.cdf(both[rows], mean, std), atol=1e-9)
    alone = [regressor().fit(NODES, y, sample_weight=WEIGHTS) for y in both.T]
    assert gp.waic().value == pytest.approx(sum(each.waic().value for each in alone))


def test_the_error_of_sampled_features_widens_densities_as_it_does_predictions():
    nodes = np.arange(0, N, 2)
    walks = {
        "method": "features",
        "numerics": Numerics(solver="cholesky", sampler=grf.RandomWalks(n_walks=8)),
    }
    gp = regressor(**walks).fit(nodes, SIGNAL[nodes])
    expected = []
    for row in range(nodes.size):
        others = np.delete(nodes, row)
        other = regressor(**walks).fit(others, SIGNAL[others])
        mean, std = other.predict(nodes[[row]], return_std="observation")
        expected.append(norm.logpdf(SIGNAL[nodes[row]], mean[0], std[0]))
    np.testing.assert_allclose(gp.loo().log_density, expected, atol=1e-6)


# -- other likelihoods -----------------------------------------------------------------------------

AXIS = np.linspace(-16.0, 16.0, 129)
THREE = grf.from_edges([0, 1], [1, 2])
OBSERVED = np.array([0, 1, 2, 2])


def on_a_grid(gp, y, likelihood):
    """Log densities of each of four observations given the others, by sums over three latent
    values.
    """
    offset = likelihood.start(likelihood.checked(y, None), np.zeros(y.size))
    covariance = gp.prior_covariance() + (3.0 * likelihood.unit(y)) ** 2
    f = np.array(list(product(AXIS, repeat=3)))
    prior = -0.5 * np.einsum("ij,jk,ik->i", f, np.linalg.inv(covariance), f)
    each = likelihood.log_density(likelihood.checked(y, None)[..., None], f[:, OBSERVED].T + offset)
    whole = logsumexp(prior + each.sum(axis=0))
    return np.array([whole - logsumexp(prior + each.sum(axis=0) - own) for own in each])


@pytest.mark.parametrize(
    ("likelihood", "y"),
    [
        (grf.gp.Poisson(), [2.0, 4.0, 3.0, 9.0]),
        (grf.gp.Bernoulli(), [0.0, 1.0, 0.0, 1.0]),
        (grf.gp.StudentT(scale=0.5, df=4.0), [-0.5, 0.1, 0.4, 1.5]),
    ],
    ids=repr,
)
def test_densities_of_other_likelihoods_are_those_of_enumeration(likelihood, y):
    y = np.array(y)
    known = {"kernel": grf.Diffusion(1.0), "output_scale": 1.0, "optimize": False}
    gp = grf.GraphGPRegressor(THREE, likelihood=likelihood, **known).fit(OBSERVED, y)
    expected = on_a_grid(gp, y, likelihood)
    found = gp.loo()
    np.testing.assert_allclose(found.log_density, expected, atol=0.04)
    assert np.abs(gp.log_density(OBSERVED, y) - expected).max() > 0.1  # which knows the rows
    assert ((found.pit > 0) & (found.pit < 1)).all()


def test_methods_agree_for_counts():
    counts = np.random.default_rng(1).poisson(np.exp(1 + SIGNAL[NODES])).astype(float)
    kernel = grf.Matern(nu=1.0, lengthscale=2.0)
    fits = [
        regressor(method, kernel=kernel, noise=None, likelihood="poisson").fit(NODES, counts)
        for method in ("series", "precision")
    ]
    one, other = (gp.loo() for gp in fits)
    np.testing.assert_allclose(one.log_density, other.log_density, atol=2e-3)
    np.testing.assert_allclose(one.pit, other.pit, atol=2e-3)


def test_many_observations_of_a_node_are_taken_some_at_a_time(monkeypatch):
    nodes, y = np.tile(NODES, 3), np.tile(np.abs(np.round(3 * Y)), 3)
    gp = regressor(noise=None, likelihood="poisson").fit(nodes, y)
    expected = gp.loo().log_density
    monkeypatch.setattr("graphrf.gp.posterior.criteria._PAIRS", 20)
    np.testing.assert_allclose(gp.loo().log_density, expected, atol=1e-3)


# -- probability integral transforms ---------------------------------------------------------------

SHARES = np.array([0.1, 0.3, 0.5, 0.7, 0.9])


def rows_of_terms(likelihood, rng, n):
    """n observations of a correct model without terms, fitted.

    The common coefficients make numbers of transforms in an interval vary less than those of
    independent ones, so that the false-alarm rate is at most the stated one.
    """
    frame = pd.DataFrame({"x": rng.standard_normal(n)})
    frame["y"] = likelihood.sample(0.5 * frame["x"].to_numpy() - 0.3, rng)
    settings = {"hyperparameters": "mode", "seed": 0}
    return grf.gp.LatentGaussianModel("y ~ x", (), likelihood, **settings).fit(frame)


def rows_on_graph(likelihood, rng, n):
    """The same on the pairs of nodes of a graph, which depend on each other by the mean alone."""
    pairs = grf.from_edges(range(0, n, 2), range(1, n, 2))
    known = {"kernel": grf.Diffusion(1.0), "output_scale": 0.5, "optimize": False, "seed": 0}
    gp = grf.GraphGPRegressor(pairs, likelihood=likelihood, **known)
    kernel = grf.Diffusion(1.0).dense(grf.from_edges([0], [1]))
    root = np.linalg.cholesky(0.5 * kernel / kernel[0, 0])
    f = (rng.standard_normal((n // 2, 2)) @ root.T).ravel() - 0.3
    return gp.fit(np.arange(n), likelihood.sample(f, rng))


@pytest.mark.parametrize("fitted", [rows_of_terms, rows_on_graph])
@pytest.mark.parametrize("likelihood", [grf.gp.Poisson(), grf.gp.Tweedie(3.0, 1.5)], ids=repr)
def test_transforms_of_observations_with_probabilities_are_uniform(likelihood, fitted):
    def below(transforms):
        def draw(round_, n):
            model = fitted(likelihood, np.random.default_rng([round_, n]), n)
            return transforms(model)[:, None] < SHARES

        return draw

    assert_rates(below(lambda model: model.loo().pit), SHARES, SHARES, n0=600)
    middle = below(lambda model: leave_one_out(model._evaluated(), 0.5).pit)
    with pytest.raises(AssertionError, match="wrong rate"):
        assert_rates(middle, SHARES, SHARES, n0=600)


@pytest.mark.parametrize("likelihood", [grf.gp.Poisson(), grf.gp.Tweedie(3.0, 1.5)], ids=repr)
def test_transforms_lie_between_both_probabilities_and_repeat_with_the_seed(likelihood):
    model = rows_of_terms(likelihood, np.random.default_rng(0), 80)
    low, high = (leave_one_out(model._evaluated(), share).pit for share in (0.0, 1.0))
    atoms = likelihood.is_atom(model._data.y) & np.ones(80, dtype=bool)
    np.testing.assert_allclose(
        (high - low)[atoms], np.exp(model.loo().log_density[atoms]), rtol=1e-5
    )
    np.testing.assert_array_equal(low[~atoms], high[~atoms])
    found = model.loo(seed=5).pit
    assert ((low <= found) & (found <= high)).all()
    np.testing.assert_array_equal(found, model.loo(seed=5).pit)
    np.testing.assert_array_equal(model.loo().pit, model.loo(seed=0).pit)  # that of the fit
    assert (found[atoms] != model.loo(seed=6).pit[atoms]).all()


@pytest.mark.parametrize("make", [regressor, along])
def test_transforms_of_densities_have_no_random_part(make):
    gp = make().fit(NODES, Y)
    np.testing.assert_array_equal(gp.loo(seed=1).pit, gp.loo(seed=2).pit)


# -- averages over hyperparameters, and WAIC -------------------------------------------------------


@pytest.mark.parametrize("n", [40, 160])
def test_hyperparameters_are_weighted_by_all_other_observations(n):
    rng = np.random.default_rng(0)
    graph = grf.from_edges(range(n - 1), range(1, n))
    y = np.sin(np.arange(n) / 5) + 0.3 * rng.standard_normal(n)
    gp = grf.GraphGPRegressor(graph, kernel="diffusion", seed=0).fit(np.arange(n), y)
    evaluation = gp._evaluated()
    assert evaluation.temper == min(1.0, 50 / n)
    density = np.array([rows.left_out(0.5)[0] for rows in evaluation.rows])
    weights = evaluation.probabilities[:, None] * np.exp(-evaluation.temper * density)
    expected = np.log((weights * np.exp(density)).sum(axis=0) / weights.sum(axis=0))
    np.testing.assert_allclose(gp.loo().log_density, expected, rtol=1e-10)
    plain = leave_one_out(evaluation._replace(temper=1.0), 0.5).log_density
    np.testing.assert_allclose(
        plain, -logsumexp(-density, b=evaluation.probabilities[:, None], axis=0)
    )


@pytest.mark.filterwarnings("ignore:WAIC may mislead")
@pytest.mark.parametrize("likelihood", ["gaussian", "poisson"])
def test_waic_is_that_of_posterior_draws(likelihood):
    nodes = np.unique(NODES)
    if likelihood == "gaussian":
        gp, y = regressor(), SIGNAL[nodes] + 0.2
        gp.fit(nodes, y)
        model = grf.gp.likelihoods.real.NormalNoise(NOISE**0.5)
    else:
        y = np.array([2.0, 1, 0, 4, 3, 6, 2, 5, 1, 3, 2, 1])[: nodes.size]
        gp = regressor(noise=None, likelihood="poisson").fit(nodes, y)
        model = gp.likelihood_
    density = model.log_density(y, gp.sample(nodes, 40_000, seed=0))
    n_effective = density.var(axis=0).sum()
    total = (logsumexp(density, axis=0) - np.log(len(density))).sum()
    found = gp.waic()
    assert found.n_effective == pytest.approx(n_effective, rel=0.03)
    assert found.value == pytest.approx(-2 * (total - n_effective), rel=0.02)


# -- rows, labels, files and refusals --------------------------------------------------------------


def test_an_observation_that_alone_determines_a_coefficient_is_named():
    covariate = np.zeros(N)
    covariate[6] = 1.0
    nodes = np.arange(10)
    for method in ("series", "precision"):
        gp = regressor(method, mean=covariate).fit(nodes, SIGNAL[nodes])
        with pytest.warns(UserWarning, match="of 1 of 10 observations .* as that of row 6: "):
            found = gp.loo()
        assert np.flatnonzero(np.isinf(found.log_density)).tolist() == [6]
        assert np.flatnonzero(np.isnan(found.pit)).tolist() == [6]


def test_observations_of_weight_zero_are_no_rows():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"node": NODES, "y": Y}, index=[f"r{k}" for k in range(NODES.size)])
    weights = np.where(np.arange(NODES.size) == 2, 0.0, 1.0)
    for gp in (regressor(), along()):
        found = gp.fit(table["node"], table["y"], sample_weight=weights).loo()
        kept = np.flatnonzero(weights)
        assert list(found.index) == [f"r{k}" for k in kept]
        expected = gp.fit(NODES[kept], Y[kept]).loo()
        np.testing.assert_allclose(found.log_density, expected.log_density)
        assert [int(node) for node in expected.index] == NODES[kept].tolist()


@pytest.mark.parametrize("likelihood", ["gaussian", "binomial"])
def test_files_keep_criteria(tmp_path, likelihood):
    pandas = pytest.importorskip("pandas")
    index = [f"r{k}" for k in range(Y.size)]
    nodes, y = (pandas.Series(own, index=index) for own in (NODES, np.abs(np.round(2 * Y))))
    extra = {"trials": np.full(Y.size, 5)} if likelihood == "binomial" else {}
    noise = None if likelihood == "binomial" else NOISE
    fits = [regressor(likelihood=likelihood, noise=noise).fit(nodes, y, **extra)]
    if likelihood == "gaussian":
        fits.append(along().fit(nodes, y))
    for gp in fits:
        gp.save(tmp_path / "gp.npz")
        loaded, expected = type(gp).load(tmp_path / "gp.npz").loo(), gp.loo()
        np.testing.assert_array_equal(loaded.log_density, expected.log_density)
        assert list(loaded.index) == list(expected.index)


def test_conjugate_gradients_are_refused_with_the_way_out():
    gp = regressor(numerics=Numerics(solver="cg")).fit(NODES, Y)
    for criterion in (gp.loo, gp.waic):
        with pytest.raises(ValueError, match=r"Numerics\(solver='cholesky'\).*method='precision'"):
            criterion()
