"""`LatentGaussianModel` by every convenience of docs/estimators.md, and in scikit-learn."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import graphrf as grf
from graphrf.gp import Groups, LatentGaussianModel, Nodes, Steps
from graphrf.gp.terms import PenalisedDeviation

pandas = pytest.importorskip("pandas")
pytest.importorskip("formulaic")

N = 72
PLACES = [f"E{k:02d}" for k in np.random.default_rng(5).permutation(12)]
GRAPH = grf.Graph(grf.from_edges(np.arange(11), np.arange(1, 12)).adjacency, nodes=PLACES)
SETTINGS = {"hyperparameters": "mode", "seed": 0}


def data():
    rng = np.random.default_rng(1)
    node, year = np.arange(N) % 12, 2015 + np.arange(N) // 12
    eta = 0.8 * np.sin(node / 2) + 0.1 * (year - 2017)
    people, share = rng.uniform(1, 5, N).round(2), rng.uniform(0, 1, N).round(3)
    eta = eta + share
    return pandas.DataFrame(
        {
            "node": [PLACES[k] for k in node],
            "year": year,
            "share": share,
            "people": people,
            "trials": 8,
            "seen": rng.random(N) < 0.8,
            "gaussian": eta + 0.2 * rng.standard_normal(N),
            "poisson": rng.poisson(people * np.exp(eta)),
            "binomial": rng.binomial(8, 1 / (1 + np.exp(-eta))),
            "weibull": np.exp(eta) * rng.weibull(2.0, N),
        },
        index=pandas.Index([f"row {k}" for k in rng.permutation(N)], name="row"),
    )


FRAME = data()
BESIDE = {
    "gaussian": {},
    "poisson": {"exposure": "people"},
    "binomial": {"trials": "trials"},
    "weibull": {"event": "seen"},
}
NAMED = [(likelihood, next(iter(own))) for likelihood, own in BESIDE.items() if own]
ALL = pytest.mark.parametrize("likelihood", BESIDE)


def model(likelihood, **settings):
    terms = [Nodes(GRAPH, grf.BYM2()), Steps("year", "rw1")]
    arguments = {**BESIDE[likelihood], **SETTINGS, **settings}
    return LatentGaussianModel(f"{likelihood} ~ 1 + share", terms, likelihood, **arguments)


@pytest.fixture(scope="module")
def fits():
    return {likelihood: model(likelihood).fit(FRAME) for likelihood in BESIDE}


@pytest.mark.parametrize(("likelihood", "argument"), NAMED)
def test_values_for_rows_are_aligned_by_their_labels(likelihood, argument, fits):
    rng = np.random.default_rng(2)
    column = FRAME[BESIDE[likelihood][argument]]
    if argument == "trials":
        column = column + rng.integers(0, 4, N)
    expected = model(likelihood, **{argument: column.to_numpy()}).fit(FRAME).predict()
    if argument != "trials":
        np.testing.assert_allclose(expected, fits[likelihood].predict(), rtol=1e-9)
    wider = pandas.concat([column, pandas.Series([1], index=["other"])])
    for same in (
        column,
        column.sample(frac=1, random_state=3),
        dict(column),
        wider.sample(frac=1, random_state=3),
    ):
        found = model(likelihood, **{argument: same}).fit(FRAME).predict()
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    for other in (column.reset_index(drop=True), column.set_axis([f"x{k}" for k in range(N)])):
        with pytest.raises(ValueError, match=f"`{argument}` has the labels"):
            model(likelihood, **{argument: other}).fit(FRAME)


@ALL
def test_the_order_of_rows_changes_nothing(likelihood, fits):
    mixed = FRAME.sample(frac=1, random_state=4)
    expected = fits[likelihood].predict(FRAME, as_frame=True)
    found = model(likelihood).fit(mixed).predict(FRAME, as_frame=True)
    pandas.testing.assert_frame_equal(found, expected, rtol=1e-5)


@ALL
def test_data_frames_have_the_index_of_the_rows(likelihood, fits):
    fitted = fits[likelihood]
    answers = [
        fitted.predict(as_frame=True),
        fitted.predict(FRAME, return_std=True, as_frame=True),
        fitted.predict(quantiles=(0.1, 0.9), as_frame=True),
        fitted.probability(above=1.0, as_frame=True),
    ]
    for answer in answers:
        assert answer.index.equals(FRAME.index)
        assert answer.index.name == "row"
    mixed = FRAME.sample(frac=1, random_state=4)
    joined = mixed.join(fitted.predict(as_frame=True))
    np.testing.assert_allclose(joined["mean"], fitted.predict(mixed), rtol=1e-9)


@ALL
def test_quantiles_and_probabilities_agree_with_draws_and_each_other(likelihood, fits):
    fitted = fits[likelihood]
    low, middle, high = fitted.predict(quantiles=(0.1, 0.5, 0.9)).T
    assert (low < middle).all()
    assert (middle < high).all()
    at = float(np.median(middle))
    above = fitted.probability(above=at)
    np.testing.assert_allclose(above + fitted.probability(below=at), 1.0)
    np.testing.assert_array_equal(above > 0.5, middle > at)
    place = int(np.abs(middle - at).argmin())
    assert fitted.probability(below=float(low[place]))[place] == pytest.approx(0.1, abs=1e-6)
    draws = fitted.sample(n_samples=2000, seed=0)
    np.testing.assert_allclose((draws < at).mean(axis=0), 1 - above, atol=0.06)
    latent = fitted.predict(quantiles=(0.5,), latent=True)[:, 0]
    np.testing.assert_array_equal(fitted.probability(above=0.0, latent=True) > 0.5, latent > 0)
    for bounds in ({}, {"above": 1.0, "below": 0.0}, {"above": np.nan}):
        with pytest.raises(ValueError, match="`above`"):
            fitted.probability(**bounds)


@ALL
def test_score_and_log_densities(likelihood, fits):
    fitted = fits[likelihood]
    assert fitted.score(FRAME) > (-1.0 if likelihood == "weibull" else 0.3)
    assert fitted.score(FRAME.sample(frac=1, random_state=3)) == pytest.approx(fitted.score(FRAME))
    density = fitted.log_density(FRAME)
    assert density.shape == (N,)
    assert np.isfinite(density).all()
    # The rows that were fitted are known better than those left out.
    assert density.sum() > fitted.loo().total
    assert fitted.loo().index.equals(FRAME.index)
    with pytest.raises(ValueError, match=f"`frame` has no column '{likelihood}'"):
        fitted.score(FRAME.drop(columns=likelihood))


@ALL
@pytest.mark.parametrize("hyperparameters", ["mode", "average"])
def test_files_keep_predictions_and_labels(likelihood, hyperparameters, fits, tmp_path):
    if hyperparameters == "mode":
        fitted = fits[likelihood]
    else:
        fitted = model(likelihood, hyperparameters="average").fit(FRAME)
    fitted.save(tmp_path / "model.npz")
    loaded = LatentGaussianModel.load(tmp_path / "model.npz")
    ahead = FRAME.iloc[:6].assign(year=2023)
    for asked in (None, FRAME, ahead):
        for arguments in ({"return_std": True}, {"quantiles": (0.025, 0.975)}):
            expected = fitted.predict(asked, as_frame=True, **arguments)
            pandas.testing.assert_frame_equal(
                loaded.predict(asked, as_frame=True, **arguments), expected, rtol=1e-8
            )
    pandas.testing.assert_frame_equal(loaded.summary(), fitted.summary())
    pandas.testing.assert_frame_equal(loaded.coefficients_, fitted.coefficients_)
    assert loaded.loo().total == pytest.approx(fitted.loo().total)
    assert loaded.score(FRAME) == pytest.approx(fitted.score(FRAME))
    fitted.save(tmp_path / "bare.npz", graph=False)
    assert LatentGaussianModel.load(tmp_path / "bare.npz", graph=GRAPH).terms[0].graph is GRAPH
    with pytest.raises(ValueError, match="`graph` must be given"):
        LatentGaussianModel.load(tmp_path / "bare.npz")
    with pytest.raises(ValueError, match="must be the graph that"):
        LatentGaussianModel.load(tmp_path / "bare.npz", graph=grf.from_edges([0], [1]))


def test_several_graphs_are_given_in_the_order_of_the_terms(tmp_path):
    other = grf.from_edges(range(5), range(1, 6))
    frame = FRAME.assign(year=FRAME["year"] - 2015)
    terms = [Nodes(GRAPH, grf.BYM2()), Nodes(other, grf.ICAR(), by="year")]
    fitted = LatentGaussianModel("gaussian ~ 1", terms, **SETTINGS).fit(frame)
    fitted.save(tmp_path / "model.npz", graph=False)
    loaded = LatentGaussianModel.load(tmp_path / "model.npz", graph=[GRAPH, other])
    np.testing.assert_allclose(loaded.predict(frame), fitted.predict(frame), rtol=1e-9)
    with pytest.raises(ValueError, match="must be the graph that"):
        LatentGaussianModel.load(tmp_path / "model.npz", graph=[other, GRAPH])


@pytest.mark.parametrize(
    "factor", ["ordered", "months", "integers", "booleans", "tuples in groups"]
)
def test_categories_keep_their_order_in_files(factor, tmp_path):
    rng = np.random.default_rng(3)
    months = ["January", "February", "March"]
    columns = {
        "ordered": pandas.Categorical(
            rng.choice(["low", "mid", "high"], N), ["low", "mid", "high"], ordered=True
        ),
        "months": pandas.Categorical(rng.choice(months, N), months),
        "integers": pandas.Categorical(rng.choice([10, 9, 2], N), [10, 9, 2]),
        "booleans": rng.random(N) < 0.5,
        "tuples in groups": [("a", int(k)) for k in rng.integers(0, 3, N)],
    }
    frame = FRAME.assign(own=pandas.Series(columns[factor], index=FRAME.index))
    frame["gaussian"] += 10.0 * pandas.factorize(frame["own"])[0]
    formula, terms = (
        ("gaussian ~ own", [])
        if factor != "tuples in groups"
        else ("gaussian ~ 1", [Groups("own")])
    )
    fitted = LatentGaussianModel(formula, terms, **SETTINGS).fit(frame)
    fitted.save(tmp_path / "model.npz")
    loaded = LatentGaussianModel.load(tmp_path / "model.npz")
    np.testing.assert_allclose(loaded.predict(frame), fitted.predict(frame), rtol=1e-9)
    assert np.abs(loaded.predict(frame) - frame["gaussian"]).max() < 4
    pandas.testing.assert_frame_equal(loaded.coefficients_, fitted.coefficients_)


@pytest.mark.parametrize("tuples", [True, False])
def test_columns_without_a_name_and_indices_of_tuples_are_kept_in_files(tuples, tmp_path):
    data = pandas.DataFrame({"y": np.arange(12.0), "": list("abc") * 4})
    data.index = pandas.MultiIndex.from_product([list("uv"), range(6)], names=["", "k"])
    if tuples:
        data.index = pandas.Index(data.index.tolist(), tupleize_cols=False)
    fitted = LatentGaussianModel("y ~ 1", Groups(""), hyperparameters="mode").fit(data)
    fitted.save(tmp_path / "model.npz")
    loaded = LatentGaussianModel.load(tmp_path / "model.npz")
    pandas.testing.assert_frame_equal(loaded.predict(as_frame=True), fitted.predict(as_frame=True))
    pandas.testing.assert_frame_equal(loaded.effects(0), fitted.effects(0))
    fitted.fit(data.set_axis([(k, np.nan) for k in range(12)]))
    with pytest.raises(ValueError, match=r"`frame\.index` cannot be saved"):
        fitted.save(tmp_path / "model.npz")


def test_what_a_file_cannot_hold_is_refused_by_save(tmp_path):
    class Own(grf.gp.Poisson):
        pass

    with pytest.raises(TypeError, match="to be saved"):
        model("poisson").set_params(likelihood=Own()).fit(FRAME).save(tmp_path / "model.npz")
    frame = FRAME.assign(own=[frozenset([k % 3]) for k in range(N)])
    fitted = LatentGaussianModel("gaussian ~ 1", Groups("own"), **SETTINGS).fit(frame)
    with pytest.raises(
        TypeError, match="`own` must have levels that are text, numbers, dates or tuples"
    ):
        fitted.save(tmp_path / "model.npz")
    assert list(tmp_path.iterdir()) == []


def test_progress_is_shown_on_request(capsys):
    model("gaussian", progress=True).fit(FRAME)
    assert "training" in capsys.readouterr().err


def test_a_fit_that_is_interrupted_leaves_nothing_of_the_one_before(monkeypatch, fits):
    fitted = copy.copy(fits["gaussian"])
    monkeypatch.setattr(
        "graphrf.gp.latent.model.maximum_likelihood",
        lambda *_: (_ for _ in ()).throw(KeyboardInterrupt),
    )
    with pytest.raises(KeyboardInterrupt):
        fitted.fit(FRAME.assign(gaussian=30.0))
    for call in (fitted.predict, fitted.summary, fitted.loo, lambda: fitted.save("nowhere.npz")):
        with pytest.raises(NotFittedError):
            call()


def test_scikit_learn_clones_pickles_and_validates(fits):
    fitted = fits["poisson"]
    assert is_regressor(fitted)
    assert clone(fitted).get_params()["terms"][0].graph is GRAPH
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict(), fitted.predict())
    np.testing.assert_array_equal(clone(fitted).fit(FRAME).predict(), fitted.predict())
    scores = cross_val_score(model("gaussian"), FRAME, cv=3)
    assert scores.shape == (3,)
    assert np.isfinite(scores).all()
    pipeline = make_pipeline(FunctionTransformer(), clone(fitted)).fit(FRAME)
    np.testing.assert_array_equal(pipeline.predict(FRAME), fitted.predict(FRAME))
    assert pipeline.score(FRAME) == fitted.score(FRAME)
    assert fitted.set_params(prior="weak").get_params()["prior"] == "weak"
    with pytest.raises(ValueError, match="`prior` must be 'weak', None"):
        model("gaussian", prior="default").fit(FRAME)


def test_terms_that_share_a_kernel_share_it_in_clones():
    kernel = grf.CAR(0.5)
    shared = LatentGaussianModel(
        "gaussian ~ 1", [Nodes(GRAPH, kernel), Nodes(GRAPH, kernel) * Groups("year")], **SETTINGS
    )
    for own in (clone(shared), copy.deepcopy(shared), pickle.loads(pickle.dumps(shared))):
        assert len(own.fit(FRAME).summary()) == len(shared.fit(FRAME).summary())


def test_a_model_may_have_no_term():
    for hyperparameters in ("mode", "average"):
        fitted = LatentGaussianModel(
            "gaussian ~ share", hyperparameters=hyperparameters, seed=0
        ).fit(FRAME)
        x = np.column_stack([np.ones(N), FRAME["share"]])
        np.testing.assert_allclose(
            fitted.coefficients_["mean"],
            np.linalg.lstsq(x, FRAME["gaussian"], rcond=None)[0],
            rtol=1e-4,
        )
        with pytest.raises(
            ValueError, match="`terms` must hold a term where the formula has no fixed effect"
        ):
            LatentGaussianModel("gaussian ~ 0", hyperparameters=hyperparameters).fit(FRAME)


def test_stated_priors_of_likelihoods_are_used_saved_and_checked(tmp_path):
    rng = np.random.default_rng(3)
    frame = pandas.DataFrame({"y": rng.standard_normal(30), "g": np.arange(30) % 5})
    tight = {"scale": PenalisedDeviation(0.05, 0.01)}
    model = LatentGaussianModel("y ~ 1", Groups("g"), prior=tight, seed=0).fit(frame)
    usual = LatentGaussianModel("y ~ 1", Groups("g"), seed=0).fit(frame)
    assert model.summary().loc["scale", "mean"] < usual.summary().loc["scale", "mean"]
    model.save(tmp_path / "model.npz")
    again = LatentGaussianModel.load(tmp_path / "model.npz")
    assert again.prior == tight
    np.testing.assert_allclose(again.predict(), model.predict(), rtol=1e-9)
    for prior, said in (({"noise": None}, "'scale'"), ({"scale": 3}, "factor"), (3, "mapping")):
        with pytest.raises((ValueError, TypeError), match=f"`prior` .*{said}"):
            LatentGaussianModel("y ~ 1", Groups("g"), prior=prior, seed=0).fit(frame)
