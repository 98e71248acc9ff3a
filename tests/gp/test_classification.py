"""GraphGPClassifier: against dense algebra, in scikit-learn, on bad input, calibrated."""

import networkx as nx
import numpy as np
import pytest
from scipy.special import softmax
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score

import graphrf as grf
from graphrf.gp import metrics
from graphrf.gp.hyperparameters.class_evidence import ClassEvidence
from graphrf.gp.hyperparameters.space import Model
from graphrf.gp.methods.gram import SampledGram, SeriesGram
from graphrf.gp.model.class_labels import CONSTANT, Labels
from graphrf.gp.posterior.approximation.softmax import Curvature, find_mode
from graphrf.gp.posterior.classes import integrated_softmax

FIXED = {"kernel": grf.Diffusion(2.0), "optimize": False, "output_scale": 5.0, "seed": 0}


@pytest.fixture(scope="module")
def thirds(grid):
    """The 12 x 12 grid, three classes by columns, 40 labelled nodes."""
    labels = np.array(["a", "b", "c"])[(np.arange(144) % 12) // 4]
    return grid, labels, np.random.default_rng(0).choice(144, 40, replace=False)


def _dense(graph, kernel, normalize, scale):
    matrix = kernel.dense(graph)
    roots = np.sqrt(np.diagonal(matrix)) if normalize else np.ones(graph.n_nodes)
    return scale * matrix / np.outer(roots, roots)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("predictive", ["mode", "integrated"])
def test_probabilities_are_those_of_dense_algebra(thirds, normalize, predictive):
    graph, labels, nodes = thirds
    gp = grf.GraphGPClassifier(graph, **FIXED, normalize=normalize, predictive=predictive)
    gp.fit(nodes, labels[nodes])
    matrix = _dense(graph, grf.Diffusion(2.0), normalize, 5.0) + CONSTANT
    counts = (labels[nodes, None] == gp.classes_).astype(float)
    own = matrix[np.ix_(nodes, nodes)]
    mode = find_mode(lambda x: own @ x, counts, tol=1e-10)
    np.testing.assert_allclose(gp.class_bias_, CONSTANT * mode.weights.sum(axis=0), atol=1e-6)
    mean = matrix[:, nodes] @ mode.weights
    proba = gp.predict_proba()
    if predictive == "mode":
        np.testing.assert_allclose(proba, softmax(mean, axis=1), atol=1e-6)
    else:
        spread = Curvature(own, mode.probabilities, np.ones(40)).covariances(
            matrix[nodes], np.diagonal(matrix)
        )
        draws = np.random.default_rng(1).standard_normal((20_000, 3))
        expected = integrated_softmax(mean, spread, draws)
        # 5 deviations of 20,000 draws, and 512 points.
        np.testing.assert_allclose(proba, expected, atol=0.02)
        assert np.abs(proba - softmax(mean, axis=1)).max() > 0.05  # the mode's would be seen
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(
        gp.predict([3, 3, 1]), gp.classes_[gp.predict_proba([3, 3, 1]).argmax(axis=1)]
    )


@pytest.mark.parametrize("method", ["series", "features"])
def test_products_of_the_factor_give_the_dense_answer(thirds, method, monkeypatch):
    graph, labels, nodes = thirds
    gp = grf.GraphGPClassifier(graph, **FIXED, method=method)
    dense = gp.fit(nodes, labels[nodes]).predict_proba()
    monkeypatch.setattr("graphrf.gp.methods.rows.choose_solver", lambda *_: "cg")
    np.testing.assert_allclose(gp.fit(nodes, labels[nodes]).predict_proba(), dense, atol=1e-6)


@pytest.mark.parametrize("trained", [True, False])
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("method", ["series", "features"])
def test_the_search_has_the_gradient_of_finite_differences(thirds, method, normalize, trained):
    graph, labels, nodes = thirds
    if method == "series":
        gram = SeriesGram(graph, "normalized", np.sort(nodes), max_degree=200)
    else:
        walks = grf.RandomWalks(16, grf.sampling.Truncated(12), directions="stratified")
        features = grf.sample_features(graph, walks, nodes=np.sort(nodes), seed=0, dtype="float64")
        gram = SampledGram(features.factor(), 1.0)
    known = Labels.of(nodes, np.unique(labels[nodes], return_inverse=True)[1], 3)
    evidence = ClassEvidence(gram, known, normalize, trained)

    def at(point):
        return evidence.gradient(
            Model(grf.Diffusion(point[0]), np.exp(point[1]), None), ("lengthscale",)
        )

    point, h = np.array([1.5, np.log(4.0)]), 1e-3
    gradient = at(point)[1]
    for k in range(2):
        ends = [at(point + sign * h * np.eye(2)[k])[0] for sign in (1, -1)]
        np.testing.assert_allclose(gradient[k], (ends[0] - ends[1]) / (2 * h), rtol=1e-4, atol=2e-4)


@pytest.mark.parametrize("method", ["series", "features"])
def test_training_raises_the_evidence_and_finds_the_classes(thirds, method):
    graph, labels, nodes = thirds
    fixed = grf.GraphGPClassifier(graph, **FIXED, method=method).fit(nodes, labels[nodes])
    gp = grf.GraphGPClassifier(graph, method=method, seed=0).fit(nodes, labels[nodes])
    assert gp.converged_
    assert gp.log_marginal_likelihood_ > fixed.log_marginal_likelihood_
    rest = np.setdiff1d(np.arange(144), nodes)
    assert gp.score(rest, labels[rest]) > 0.8
    # Negative control: labels that mean nothing.
    shuffled = np.random.default_rng(1).permutation(labels[nodes])
    with pytest.warns(UserWarning, match="explains the labels no better than independent values"):
        other = grf.GraphGPClassifier(graph, method=method, seed=0).fit(nodes, shuffled)
    assert other.score(rest, labels[rest]) < 0.6
    assert other.log_marginal_likelihood_ < gp.log_marginal_likelihood_ - 5


def test_a_subset_trains_and_all_labels_are_used(thirds):
    graph, labels, nodes = thirds
    gp = grf.GraphGPClassifier(graph, max_train=15, hyperparameters="mode", seed=0).fit(
        nodes, labels[nodes]
    )
    assert gp.n_observed_nodes_ == 40
    assert gp.n_points_ == 1
    again = grf.GraphGPClassifier(
        graph, kernel=gp.kernel_, optimize=False, output_scale=gp.output_scale_, seed=1
    ).fit(nodes, labels[nodes])
    np.testing.assert_allclose(again.predict_proba(), gp.predict_proba(), atol=1e-7)


def test_a_seed_gives_the_same_bits_on_any_number_of_threads(thirds):
    graph, labels, nodes = thirds
    one, two = (
        grf.GraphGPClassifier(graph, **FIXED, method="features", n_threads=n).fit(
            nodes, labels[nodes]
        )
        for n in (1, 2)
    )
    np.testing.assert_array_equal(one.predict_proba(), two.predict_proba())


# -- scikit-learn ----------------------------------------------------------------------------------


def test_clones_share_the_graph_and_searches_work(thirds):
    graph, labels, nodes = thirds
    gp = grf.GraphGPClassifier(graph, **FIXED)
    assert clone(gp).graph is graph
    assert clone(gp).get_params()["output_scale"] == 5.0
    scores = cross_val_score(gp, nodes, labels[nodes], cv=3)
    assert scores.mean() > 0.6
    found = GridSearchCV(gp, {"output_scale": [1.0, 5.0]}, cv=2, scoring="neg_log_loss")
    found.fit(nodes[:, None], labels[nodes])
    assert found.best_params_["output_scale"] in (1.0, 5.0)


def test_integers_and_strings_are_classes_alike(thirds):
    graph, labels, nodes = thirds
    numbers = np.array([{"a": -3, "b": 7, "c": 20}[label] for label in labels])
    by_name = grf.GraphGPClassifier(graph, **FIXED).fit(nodes, labels[nodes].tolist())
    by_number = grf.GraphGPClassifier(graph, **FIXED).fit(nodes, numbers[nodes])
    assert by_name.classes_.tolist() == ["a", "b", "c"]
    assert by_number.classes_.tolist() == [-3, 7, 20]
    np.testing.assert_array_equal(by_name.predict_proba(), by_number.predict_proba())
    mixed = np.array(labels[nodes], dtype=object)
    np.testing.assert_array_equal(
        grf.GraphGPClassifier(graph, **FIXED).fit(nodes, mixed).classes_, by_name.classes_
    )


# -- little information ----------------------------------------------------------------------------


def test_nodes_out_of_reach_have_the_shares_of_the_classes():
    # Two components and an isolated node.
    graph = grf.from_edges([0, 1, 2, 4], [1, 2, 3, 5], n_nodes=7)
    gp = grf.GraphGPClassifier(graph, **FIXED).fit([0, 1, 3, 0], ["x", "x", "y", "x"])
    shares = gp.predict_proba([4, 5, 6])
    np.testing.assert_allclose(shares, np.tile(softmax(gp.class_bias_), (3, 1)), atol=1e-12)
    assert 0.5 < shares[0, 0] < 0.75  # those of four labels by less, as they may be chance
    assert gp.predict_proba([0])[0, 0] > 0.75
    nodes, labels = np.arange(4).repeat(300), 4 * (225 * ["x"] + 75 * ["y"])
    many = grf.GraphGPClassifier(graph, **FIXED | {"output_scale": 0.01}).fit(nodes, labels)
    np.testing.assert_allclose(many.predict_proba([6]), [[0.75, 0.25]], atol=0.01)


def test_contradicting_labels_at_one_node_are_legal(thirds):
    graph = thirds[0]
    gp = grf.GraphGPClassifier(graph, **FIXED).fit([5, 5], ["x", "y"])
    np.testing.assert_allclose(gp.predict_proba(), 0.5, atol=1e-9)
    trained = grf.GraphGPClassifier(graph, seed=0).fit([5, 100], [0, 1])
    assert np.isfinite(trained.predict_proba()).all()
    assert trained.predict([5, 100]).tolist() == [0, 1]
    assert trained.predict_proba([]).shape == (0, 2)


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "labels", "error", "message"),
    [
        ([0, 1], ["a", "a"], ValueError, "at least two classes, got one class only, 'a'"),
        ([0, 1], ["a"], ValueError, r"`labels` must have shape \(2,\)"),
        ([0, 1], [0.5, 1.0], ValueError, "got continuous values"),
        ([0, 1], [1j, 2j], TypeError, "`labels` must be strings or integers"),
        ([0, 144], [0, 1], ValueError, r"`nodes` must be positions in \[0, 143\]"),
        ([], [], ValueError, "`nodes` must hold at least one node"),
    ],
)
def test_bad_labels_are_refused(thirds, nodes, labels, error, message):
    with pytest.raises(error, match=message):
        grf.GraphGPClassifier(thirds[0]).fit(nodes, labels)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"predictive": "mean"}, ValueError, "`predictive` must be one of 'mode', 'integrated'"),
        (
            {"hyperparameters": "best"},
            ValueError,
            "`hyperparameters` must be one of 'average', 'mode'",
        ),
        ({"output_scale": 0.0}, ValueError, "`output_scale` must be greater than 0"),
        ({"kernel": "gaussian"}, ValueError, "`kernel` must be one of 'diffusion'"),
        ({"method": "magic"}, ValueError, "`method` must be one of"),
        ({"normalize": 1}, TypeError, "`normalize` must be True or False"),
        ({"max_train": 0}, ValueError, "`max_train` must be at least 1"),
        ({"optimize": ["nu"]}, ValueError, "`optimize` must name hyperparameters"),
        (
            {"sampler": grf.RandomWalks(8), "method": "series"},
            ValueError,
            "`sampler` is for method='features'",
        ),
    ],
)
def test_bad_settings_are_refused_when_fitting(thirds, settings, error, message):
    gp = grf.GraphGPClassifier(thirds[0], **settings)
    with pytest.raises(error, match=message):
        gp.fit([0, 1], [0, 1])


def test_predictions_before_a_fit_and_integrals_that_are_too_large_are_refused(thirds, monkeypatch):
    graph, labels, nodes = thirds
    with pytest.raises(NotFittedError, match="call fit"):
        grf.GraphGPClassifier(graph).predict()
    monkeypatch.setattr("graphrf.gp.classification.LARGEST_CURVATURE", 6 * 39**2)
    with pytest.raises(
        ValueError, match=r"at most 39 labelled nodes, got 40; use predictive='mode'"
    ):
        grf.GraphGPClassifier(graph, **FIXED, predictive="integrated").fit(nodes, labels[nodes])


# -- few labels ------------------------------------------------------------------------------------


def test_averages_are_those_of_fits_at_each_point(thirds):
    graph, labels, nodes = thirds
    gp = grf.GraphGPClassifier(graph, seed=0).fit(nodes, labels[nodes])
    assert 2 <= gp.n_points_ <= 8
    assert sum(point.weight for point in gp._points) == pytest.approx(1.0)
    mean = 0.0
    for point in gp._points:
        one = grf.GraphGPClassifier(
            graph, kernel=point.kernel, optimize=False, output_scale=point.amplitude, seed=0
        ).fit(nodes, labels[nodes])
        assert one.n_points_ == 1
        mean = mean + point.weight * one.predict_proba()
    np.testing.assert_allclose(gp.predict_proba(), mean, atol=1e-9)


@pytest.mark.parametrize("shares", [(150, 150), (240, 60)])
@pytest.mark.parametrize("hyperparameters", ["average", "mode"])
def test_a_dozen_labels_of_two_groups_find_and_do_not_overstate_them(shares, hyperparameters):
    """By maximum likelihood the scale ran to a bound: labels nearly certain, or unlearned."""
    graph = grf.Graph(
        nx.to_scipy_sparse_array(
            nx.stochastic_block_model(shares, [[0.04, 0.01], [0.01, 0.04]], seed=1)
        )
    )
    truth = np.repeat([0, 1], shares)
    right, confidence = [], []
    for draw in range(6):
        nodes = np.random.default_rng(draw).choice(300, 12, replace=False)
        nodes[:2] = 0, 299
        gp = grf.GraphGPClassifier(graph, hyperparameters=hyperparameters, seed=0).fit(
            nodes, truth[nodes]
        )
        probabilities = gp.predict_proba()
        right.append(np.mean(probabilities.argmax(axis=1) == truth))
        confidence.append(probabilities.max(axis=1).mean())
    assert np.mean(right) > max(shares) / 300 + 0.05
    assert abs(np.mean(confidence) - np.mean(right)) < 0.15


# -- calibration -----------------------------------------------------------------------------------


def test_integrated_probabilities_are_calibrated_on_draws_from_the_model(thirds):
    """Laplace's own error is far below what 30 draws tell here; sharper ones are seen."""
    graph = thirds[0]
    kernel = grf.Diffusion(3.0)
    w, v = np.linalg.eigh(_dense(graph, kernel, True, 1.0))
    root = v * np.sqrt(np.maximum(w, 0))
    rng = np.random.default_rng(5)
    gaps, sharp = [], []
    for _ in range(30):
        p = softmax(root @ rng.standard_normal((144, 3)), axis=1)
        y = (rng.random((144, 1)) > p.cumsum(axis=1)[:, :2]).sum(axis=1)
        nodes = rng.choice(144, 50, replace=False)
        rest = np.setdiff1d(np.arange(144), nodes)
        gp = grf.GraphGPClassifier(
            graph, kernel=kernel, optimize=False, output_scale=1.0, predictive="integrated", seed=0
        )
        proba = gp.fit(nodes, y[nodes]).predict_proba(rest)
        right = proba.argmax(axis=1) == y[rest]
        gaps.append(np.mean(right - proba.max(axis=1)))
        power = proba**3 / (proba**3).sum(axis=1, keepdims=True)
        sharp.append(np.mean(right - power.max(axis=1)))
    error = np.std(gaps, ddof=1) / 30**0.5
    assert abs(np.mean(gaps)) < 5 * error
    assert abs(np.mean(sharp)) > 5 * np.std(sharp, ddof=1) / 30**0.5


# -- metrics ---------------------------------------------------------------------------------------


def test_metrics_of_classifiers_are_their_formulas():
    rng = np.random.default_rng(0)
    proba = softmax(2 * rng.standard_normal((4000, 3)), axis=1)
    y = (rng.random((4000, 1)) > proba.cumsum(axis=1)[:, :2]).sum(axis=1)
    np.testing.assert_allclose(
        metrics.log_loss(y, proba), -np.mean([np.log(p[k]) for p, k in zip(proba, y, strict=True)])
    )
    curve = metrics.reliability(y, proba, n_bins=10)
    assert curve.weight.sum() == 4000
    error = np.sqrt(curve.confidence * (1 - curve.confidence) / curve.weight)
    assert (np.abs(curve.accuracy - curve.confidence) < 5 * error + 1e-12).all()
    wrong = metrics.expected_calibration_error(y, proba**3 / (proba**3).sum(axis=1, keepdims=True))
    assert metrics.expected_calibration_error(y, proba) < 0.04 < wrong
    assert metrics.log_loss([0], [[0.0, 1.0]]) == np.inf


@pytest.mark.parametrize(
    ("labels", "proba", "error", "message"),
    [
        (
            ["a"],
            [[1.0, 0.0]],
            TypeError,
            r"`labels` must be columns.*np.searchsorted\(gp.classes_, labels\)",
        ),
        ([0, 1], [[1.0, 0.0]], ValueError, "`probabilities` must have shape"),
        ([2], [[1.0, 0.0]], ValueError, r"`labels` must be in \[0, 1\]"),
        ([0], [[0.9, 0.0]], ValueError, "rows that sum to 1"),
        ([0], [[np.nan, 0.0]], ValueError, "`probabilities` must be finite"),
    ],
)
def test_bad_probabilities_are_refused(labels, proba, error, message):
    with pytest.raises(error, match=message):
        metrics.log_loss(labels, proba)


@pytest.mark.parametrize(
    ("predictive", "hyperparameters"), [("mode", "average"), ("integrated", "mode")]
)
def test_files_keep_the_predictions(tmp_path, predictive, hyperparameters):
    graph = grf.Graph(nx.to_scipy_sparse_array(nx.grid_2d_graph(5, 6)))
    labels = np.array(["west", "east"])[np.arange(30) % 6 // 3]
    nodes = np.arange(0, 30, 3)
    for method in ("series", "precision", "features"):
        kernel = grf.Matern(nu=2.0, lengthscale=2.0)
        gp = grf.GraphGPClassifier(
            graph,
            kernel=kernel,
            method=method,
            predictive=predictive,
            hyperparameters=hyperparameters,
            seed=0,
        )
        gp.fit(nodes, labels[nodes]).save(tmp_path / "gp.npz", graph=method == "series")
        loaded = grf.GraphGPClassifier.load(
            tmp_path / "gp.npz", graph=None if method == "series" else graph
        )
        np.testing.assert_array_equal(loaded.predict_proba(), gp.predict_proba())
        np.testing.assert_array_equal(loaded.predict(), gp.predict())
        assert (loaded.kernel_, loaded.converged_, loaded.n_observations_) == (
            gp.kernel_,
            gp.converged_,
            10,
        )
    with pytest.raises(ValueError, match="must be given"):
        grf.GraphGPClassifier.load(tmp_path / "gp.npz")
    with pytest.raises(ValueError, match="fitted on"):
        grf.GraphGPClassifier.load(tmp_path / "gp.npz", graph=grf.from_edges([0], [1]))
    other = grf.GraphGPRegressor(
        graph, kernel=grf.Matern(), optimize=False, output_scale=1.0, noise=0.1, seed=0
    )
    other.fit([0, 1, 2], [0.0, 1.0, 3.0]).save(tmp_path / "other.npz")
    with pytest.raises(ValueError, match=r"GraphGPClassifier\.save"):
        grf.GraphGPClassifier.load(tmp_path / "other.npz")
    with pytest.raises(NotFittedError):
        grf.GraphGPClassifier(graph).save(tmp_path / "none.npz")


def test_training_sees_near_labels_and_far_ones():
    graph = grf.load_graph(nx.convert_node_labels_to_integers(nx.grid_2d_graph(150, 150)))
    rng = np.random.default_rng(0)
    nodes = np.sort(rng.choice(graph.n_nodes, 1_200, replace=False))
    labels = Labels.of(nodes, rng.integers(0, 2, nodes.size), 2, None)
    gp = grf.GraphGPClassifier(graph)
    gp.seed_ = 0
    chosen = gp._training_part(labels, 200).nodes
    assert 150 <= chosen.size <= 200
    assert np.isin(chosen, nodes).all()
    assert gp._training_part(labels, 1_200).nodes.size == 1_200
    far = np.ptp(chosen % 150), np.ptp(chosen // 150)
    assert min(far) > 140

    def with_neighbours(some):
        x, y = some % 150, some // 150
        steps = np.abs(np.subtract.outer(x, x)) + np.abs(np.subtract.outer(y, y))
        return np.mean(np.sort(steps, axis=1)[:, 1] <= 4)

    assert with_neighbours(chosen) > 0.5 > 0.4 > with_neighbours(nodes[::6])
