r"""Classification by kernel regression (Nadaraya-Watson), exactly or with random features."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from graphrf._base import checks
from graphrf.euclidean.kernels import StationaryKernel, lengthscales, stationary_kernel

# Numbers of a block of kernel values, and rows of a
# block of features: 32 MB, and 16 KB per feature.
_KERNEL_NUMBERS = 4_000_000
_FEATURE_ROWS = 2_048


class KernelRegressionClassifier(ClassifierMixin, BaseEstimator):
    r"""Class probabilities as shares of kernel mass: the Nadaraya-Watson classifier.

    .. math:: p(c \mid x) = \frac{\sum_i k(x, x_i) \, [y_i = c]}{\sum_i k(x, x_i)}
              \approx \frac{\phi(x) \cdot s_c}{\sum_b \phi(x) \cdot s_b}, \qquad
              s_c = \sum_{i : y_i = c} \phi(x_i).

    With features, only the sums s_c are stored, so data may come in batches (`partial_fit`) and a
    prediction does not depend on the number of training points.

    Fourier features may estimate a negative kernel mass, which counts as 0. If no class has
    positive mass, as far from all data, where positive features underflow, the probabilities are
    the classes' shares of the training points. If all values of the exact kernel underflow, the
    nearest training points share the weight: the limit of the Gaussian kernel.

    Cost with features: n m operations to fit, besides computing the features, m C to predict one
    point, and m C numbers stored. With the exact kernel: n d numbers stored, O(n d) operations to
    predict one point. Rows are processed in blocks, so memory stays bounded. Sums are in float64
    for features of any type.

    Source: Nadaraya 1964, "On estimating regression", Watson 1964, "Smooth regression analysis";
    with random features Reid et al. 2023, "Simplex random features", Sec. 5.3.

    Parameters
    ----------
    features : transformer, optional
        A map phi with phi(x) . phi(y) close to the kernel: `LaplaceFeatures`, `FourierFeatures`, or
        any scikit-learn transformer or pipeline. It is cloned, and fitted on the data of `fit` or
        on the first batch of `partial_fit`. None uses the exact kernel and stores the training
        points.
    kernel : str or StationaryKernel
        The exact kernel: "gaussian", "matern12", "matern32", "matern52" or "laplace".
    lengthscale : float or array_like of shape (d,)
        Of the exact kernel, l > 0 in the units of x. With `features` kernel and lengthscale keep
        their defaults, since a feature map has its own (`features__lengthscale` in searches).

    Attributes
    ----------
    classes_ : ndarray, shape (C,)
        Labels, sorted.
    class_count_ : ndarray of int64, shape (C,)
        Training points of each class.
    class_sums_ : ndarray of float64, shape (C, m)
        s_c; with features only, as is `features_`, the fitted map.
    X_, y_ : ndarray, shapes (n, d) and (n,)
        Training points and the positions of their labels in `classes_`; with the exact kernel only.
    n_features_in_ : int

    Raises
    ------
    TypeError, ValueError
        In `fit`, `partial_fit` and `predict`: if `features` is not a transformer, if it is given
        together with a kernel or a lengthscale, if shapes do not match, if an entry or a feature is
        not finite, or if a later batch has an unknown label.

    Examples
    --------
    >>> classifier = KernelRegressionClassifier(lengthscale=0.5).fit(
    ...     [[0.0], [1.0], [1.2]], ["a", "b", "b"]
    ... )
    >>> classifier.predict([[0.1], [1.1]])
    array(['a', 'b'], dtype='<U1')
    >>> classifier.predict_proba([[0.5]]).round(3)
    array([[0.382, 0.618]])
    """

    classes_: np.ndarray
    class_count_: np.ndarray
    features_: Any

    X_: np.ndarray
    y_: np.ndarray
    class_sums_: np.ndarray

    def __init__(
        self,
        features: Any = None,
        *,
        kernel: str | StationaryKernel = "gaussian",
        lengthscale: ArrayLike = 1.0,
    ) -> None:
        self.features = features
        self.kernel = kernel
        self.lengthscale = lengthscale

    def fit(self, X: ArrayLike, y: ArrayLike) -> KernelRegressionClassifier:
        """Learn from points (n, d) and labels (n,), which replace earlier training data."""
        return self._learn(X, y, classes=None, fresh=True)

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None
    ) -> KernelRegressionClassifier:
        """Add a batch of points and labels; sums are those of the whole data set up to rounding.

        A feature map that depends on more of the data than its dimension, such as
        `sklearn.kernel_approximation.Nystroem`, is fitted to the first batch only.

        Parameters
        ----------
        X : array_like, shape (n, d)
        y : array_like, shape (n,)
        classes : array_like, optional
            All labels that any batch may contain, for the first call. Default: those of its batch.
            A later call may repeat them.
        """
        return self._learn(X, y, classes=classes, fresh=not hasattr(self, "classes_"))

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """p(c | x) for points (n, d): float64, (n, C), rows of sum 1, columns as `classes_`."""
        check_is_fitted(self, "classes_")
        x = validate_data(
            self, checks.to_array_like("X", X), reset=False, dtype=(np.float64, np.float32)
        )
        mass = np.concatenate([self._mass(block) for block in self._blocks(x)])
        np.maximum(mass, 0, out=mass)
        # Scaling avoids overflow of sums of the largest
        # doubles, and loss of digits of subnormal ones.
        largest = mass.max(axis=1)
        empty = largest == 0
        mass[empty] = self.class_count_
        mass /= np.where(empty, self.class_count_.max(), largest)[:, None]
        return mass / mass.sum(axis=1, keepdims=True)

    def predict(self, X: ArrayLike) -> np.ndarray:
        """The most probable label of points (n, d), shape (n,); ties go to the first."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def _learn(self, X: Any, y: Any, *, classes: Any, fresh: bool) -> KernelRegressionClassifier:
        self._check_parameters()
        x, labels = validate_data(
            self,
            checks.to_array_like("X", X),
            checks.to_array_like("y", y),
            reset=fresh,
            dtype=(np.float64, np.float32),
        )
        check_classification_targets(labels)

        if fresh:
            # Attributes of an earlier fit with other parameters would be stale.
            for name in ("class_sums_", "features_", "X_", "y_"):
                self.__dict__.pop(name, None)
            known = np.unique(labels if classes is None else np.asarray(classes))
            codes = _positions(labels, known)
            self.classes_, self.class_count_ = known, np.zeros(known.size, dtype=np.int64)
        else:
            if classes is not None and not np.array_equal(
                np.unique(np.asarray(classes)), self.classes_
            ):
                raise checks.value_error(
                    "classes",
                    f"must be those of the first batch, {self.classes_.tolist()}, got {classes!r}; "
                    "`fit` starts again",
                )
            codes = _positions(labels, self.classes_)

        try:
            if self.features is None:
                self._keep(x, codes)
            else:
                self._add(x, codes)
        except BaseException:
            if fresh:  # nothing was learned
                del self.classes_, self.class_count_
            raise

        self.class_count_ += np.bincount(codes, minlength=self.classes_.size)
        return self

    def _check_parameters(self) -> None:
        if self.features is None:
            stationary_kernel(self.kernel)
            return

        if isinstance(self.features, type) or not all(
            hasattr(self.features, name) for name in ("fit", "transform")
        ):
            raise checks.type_error(
                "features",
                "must be a transformer with `fit` and `transform`, such as LaplaceFeatures(), or "
                f"None for the exact kernel, got {checks.describe(self.features)}",
            )

        if not (
            isinstance(self.kernel, str)
            and self.kernel == "gaussian"
            and np.array_equal(self.lengthscale, 1.0)
        ):
            raise checks.value_error(
                "kernel",
                "and `lengthscale` belong to the exact kernel and must be left out where "
                f"`features` is given, got kernel={self.kernel!r} and "
                f"lengthscale={self.lengthscale!r}; set those of the map",
            )

    def _keep(self, x: np.ndarray, codes: np.ndarray) -> None:
        lengthscales(self.lengthscale, x.shape[1])
        x = x.astype(np.float64)
        if hasattr(self, "X_"):
            x, codes = np.concatenate([self.X_, x]), np.concatenate([self.y_, codes])
        self.X_, self.y_ = x, codes

    def _add(self, x: np.ndarray, codes: np.ndarray) -> None:
        if not hasattr(self, "features_"):
            self.features_ = clone(self.features).fit(x)
        blocks = zip(self._blocks(x), self._blocks(codes), strict=True)
        with np.errstate(over="ignore", invalid="ignore"):
            sums = sum(self._indicators(part).T @ self._features(block) for block, part in blocks)
            dense = sums.toarray() if sparse.issparse(sums) else np.asarray(sums)
            total = dense + getattr(self, "class_sums_", 0.0)
        self.class_sums_ = checks.finite("sums of features.transform(X)", total)

    def _mass(self, x: np.ndarray) -> np.ndarray:
        """Estimated sums of k(x, x_i) over the points of each class, shape (n, C)."""
        if hasattr(self, "class_sums_"):
            with np.errstate(over="ignore", invalid="ignore"):
                mass = np.asarray(self._features(x) @ self.class_sums_.T)
            return checks.finite("sums of features.transform(X)", mass)
        x = x.astype(np.float64, copy=False)
        weights = stationary_kernel(self.kernel).gram(x, self.X_, lengthscale=self.lengthscale)
        lost = ~weights.any(axis=1)
        if lost.any():
            scale = lengthscales(self.lengthscale, x.shape[1])
            distances = cdist(x[lost] / scale, self.X_ / scale)
            weights[lost] = distances == distances.min(axis=1, keepdims=True)
        return (self._indicators(self.y_).T @ weights.T).T

    def _features(self, x: np.ndarray) -> Any:
        phi = self.features_.transform(x)
        return phi.astype(np.float64) if sparse.issparse(phi) else np.asarray(phi, dtype=np.float64)

    def _indicators(self, codes: np.ndarray) -> sparse.csr_array:
        """[y_i = c] as a sparse matrix of shape (n, C), one entry per row."""
        pointers = np.arange(codes.size + 1)
        return sparse.csr_array(
            (np.ones(codes.size), codes, pointers), shape=(codes.size, self.classes_.size)
        )

    def _blocks(self, array: np.ndarray) -> Iterator[np.ndarray]:
        if self.features is not None:
            rows = _FEATURE_ROWS
        else:
            rows = max(1, _KERNEL_NUMBERS // self.X_.shape[0])
        for start in range(0, array.shape[0], rows):
            yield array[start : start + rows]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if hasattr(self.features, "__sklearn_tags__"):
            tags.non_deterministic = get_tags(self.features).non_deterministic
        return tags


def _positions(labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Positions of labels in the sorted `classes`."""
    positions = np.minimum(np.searchsorted(classes, labels), classes.size - 1)
    unknown = classes[positions] != labels
    if unknown.any():
        raise checks.value_error(
            "y",
            f"must hold the labels of `classes` only, got {labels[unknown][0]!r}; give all labels "
            "as `classes` to the first call of `partial_fit`",
        )
    return positions
