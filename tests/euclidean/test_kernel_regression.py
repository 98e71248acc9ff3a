"""The kernel-regression classifier, against sums written out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from graphrf.euclidean.kernel_regression import KernelRegressionClassifier
from graphrf.euclidean.kernels import KERNELS, stationary_kernel


class Linear(TransformerMixin, BaseEstimator):
    """phi(x) = x, or a sparse matrix of it: kernel masses of either sign."""

    def __init__(self, as_sparse=False):
        self.as_sparse = as_sparse

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        return sparse.csr_array(X) if self.as_sparse else X


def blobs(n=90, d=3, seed=0, n_queries=40):
    """Points around three centres, labelled with strings, and queries near them."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(3, d))
    codes = rng.integers(3, size=n)
    x = centres[codes] + 0.7 * rng.normal(size=(n, d))
    return x, np.array(["red", "green", "blue"])[codes], rng.normal(size=(n_queries, d))


def shares(gram, labels, classes):
    """Nadaraya-Watson, written out: `gram` is of shape (queries, points)."""
    mass = np.array([[row[labels == c].sum() for c in classes] for row in gram])
    return mass / mass.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("kernel", KERNELS)
def test_exact_probabilities_are_shares_of_the_kernel(kernel):
    x, labels, queries = blobs()
    lengthscale = np.array([0.5, 1.0, 2.0])
    classifier = KernelRegressionClassifier(kernel=kernel, lengthscale=lengthscale).fit(x, labels)
    gram = stationary_kernel(kernel).gram(queries, x, lengthscale=lengthscale)
    expected = shares(gram, labels, ["blue", "green", "red"])
    np.testing.assert_allclose(classifier.predict_proba(queries), expected, rtol=1e-12)
    assert classifier.classes_.tolist() == ["blue", "green", "red"]
    assert (
        classifier.predict(queries).tolist()
        == classifier.classes_[expected.argmax(axis=1)].tolist()
    )


def test_probabilities_with_features_are_shares_of_their_gram_matrix():
    x, labels, queries = blobs()
    # Many features, so that every estimated mass is positive here.
    classifier = KernelRegressionClassifier(
        RBFSampler(gamma=0.1, n_components=4_000, random_state=0)
    )
    classifier.fit(x, labels)
    phi = classifier.features_.transform
    expected = shares(phi(queries) @ phi(x).T, labels, classifier.classes_)
    assert expected.min() > 0
    np.testing.assert_allclose(classifier.predict_proba(queries), expected, rtol=1e-10)
    exact = KernelRegressionClassifier(lengthscale=5**0.5).fit(x, labels).predict_proba(queries)
    assert np.abs(expected - exact).max() < 0.1
    wrong = KernelRegressionClassifier(lengthscale=0.5).fit(x, labels).predict_proba(queries)
    assert np.abs(expected - wrong).max() > 0.2


@pytest.mark.parametrize("features", [None, RBFSampler(random_state=0)], ids=["exact", "features"])
def test_blocks_leave_the_answer(features):
    # 2,000 x 2,500 kernel values, and 2,500 rows of features, are two blocks each
    x, labels, queries = blobs(2_500 if features else 2_000, n_queries=2_500)
    model = KernelRegressionClassifier(features).fit(x, labels)
    some = [model.predict_proba(queries[start : start + 500]) for start in range(0, 2_500, 500)]
    np.testing.assert_allclose(model.predict_proba(queries), np.concatenate(some), rtol=1e-12)
    if features is not None:
        phi = model.features_.transform(x)
        sums = [phi[labels == label].sum(axis=0) for label in model.classes_]
        np.testing.assert_allclose(model.class_sums_, sums, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("features", [None, RBFSampler(random_state=0)], ids=["exact", "features"])
def test_batches_give_what_the_whole_gives(features):
    x, labels, queries = blobs()
    whole = KernelRegressionClassifier(features).fit(x, labels)
    parts = KernelRegressionClassifier(features)
    for start in range(0, len(x), 20):
        classes = np.unique(labels) if start == 0 else None
        assert (
            parts.partial_fit(x[start : start + 20], labels[start : start + 20], classes=classes)
            is parts
        )
    np.testing.assert_allclose(
        parts.predict_proba(queries), whole.predict_proba(queries), rtol=1e-11
    )
    for model in (parts, whole):
        np.testing.assert_array_equal(model.class_count_, np.unique(labels, return_counts=True)[1])
    # A new fit forgets the batches.
    np.testing.assert_array_equal(
        parts.fit(x, labels).predict_proba(queries), whole.predict_proba(queries)
    )


def test_negative_masses_count_as_zero():
    # Class sums: a at (2, 0), b at (0, 1), c at (-1, 0).
    classifier = KernelRegressionClassifier(Linear()).fit(
        [[2, 0], [0, 1], [-1, 0]], ["a", "b", "c"]
    )
    assert classifier.predict_proba([[1.0, 1.0]]).tolist() == [[2 / 3, 1 / 3, 0]]
    # Masses -2, -1, 1 have a negative sum: their shares
    # would be 1, .5, -.5, and the worst class the best.
    assert classifier.predict_proba([[-1.0, -1.0]]).tolist() == [[0, 0, 1]]
    assert classifier.predict([[-1.0, -1.0]]).tolist() == ["c"]


@pytest.mark.parametrize("query", [[-1.0, -1.0], [0.0, 0.0]], ids=["negative", "zero"])
def test_without_positive_mass_the_training_shares_speak(query):
    classifier = KernelRegressionClassifier(Linear()).fit(
        [[1, 0], [0, 1], [0, 1], [0, 1]], ["a", "b", "b", "b"]
    )
    assert classifier.predict_proba([query]).tolist() == [[0.25, 0.75]]
    assert classifier.predict([query]).tolist() == ["b"]


def test_masses_near_the_limits_of_doubles_keep_their_shares():
    classifier = KernelRegressionClassifier(Linear()).fit([[1, 0], [0, 1]], ["a", "b"])
    for size in (1.5e308, 1e-300):
        assert classifier.predict_proba([[size, size / 2]]) == pytest.approx(
            np.array([[2 / 3, 1 / 3]])
        )


def test_far_from_all_points_the_nearest_decides():
    x, labels = [[0.0], [1.0], [1.0], [-1.0]], ["a", "b", "c", "a"]
    probabilities = (
        KernelRegressionClassifier(lengthscale=0.01)
        .fit(x, labels)
        .predict_proba([[100.0], [-100.0]])
    )
    assert probabilities.tolist() == [[0, 0.5, 0.5], [1, 0, 0]]


def test_sparse_features_and_pipelines_serve():
    x, labels, queries = blobs()
    dense = KernelRegressionClassifier(Linear()).fit(x, labels)
    thin = KernelRegressionClassifier(Linear(as_sparse=True)).fit(x, labels)
    np.testing.assert_allclose(
        thin.predict_proba(queries), dense.predict_proba(queries), rtol=1e-12
    )
    steps = make_pipeline(StandardScaler(), RBFSampler(random_state=0))
    inside = KernelRegressionClassifier(steps).fit(x, labels)
    outside = make_pipeline(
        StandardScaler(), KernelRegressionClassifier(RBFSampler(random_state=0))
    )
    outside.fit(x, labels)
    np.testing.assert_allclose(
        inside.predict_proba(queries), outside.predict_proba(queries), rtol=1e-10
    )
    assert not hasattr(steps[0], "mean_")


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        (
            {"features": 3},
            TypeError,
            "`features` must be a transformer with `fit` and `transform`.*got int 3",
        ),
        (
            {"features": Linear(), "lengthscale": 2.0},
            ValueError,
            "belong to the exact kernel.*lengthscale=2.0",
        ),
        (
            {"features": Linear(), "kernel": "matern32"},
            ValueError,
            "belong to the exact kernel.*'matern32'",
        ),
        ({"lengthscale": [1.0, 2.0]}, ValueError, "one for each of the 3 coordinates"),
    ],
)
def test_bad_settings_are_refused(settings, error, message):
    x, labels, _ = blobs()
    with pytest.raises(error, match=message):
        KernelRegressionClassifier(**settings).fit(x, labels)


def test_bad_data_are_refused():
    """The checks of scikit-learn have others."""
    x, labels, _ = blobs()
    classifier = KernelRegressionClassifier().fit(x, labels)
    with pytest.raises(
        ValueError, match=r"`y` must hold the labels of `classes` only, got .*'grey'"
    ):
        classifier.partial_fit(x[:1], ["grey"])
    with pytest.raises(
        ValueError, match=r"`classes` must be those of the first batch, \['blue', 'green'"
    ):
        classifier.partial_fit(x[:1], labels[:1], classes=["red"])


def test_features_that_are_not_finite_are_refused():
    x = np.array([[1e200], [1e200]])
    classifier = KernelRegressionClassifier(Linear()).fit(x, ["a", "b"])
    with pytest.raises(ValueError, match=r"sums of features.transform\(X\)` must be finite"):
        classifier.predict(x)
