"""Scores of predictions with uncertainty: error, log density, coverage, divergence from the exact
one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cholesky, solve_triangular, svdvals
from scipy.special import ndtri

from graphrf._base import checks, html


def rmse(y: ArrayLike, mean: ArrayLike) -> float:
    r"""The root mean square error sqrt(mean (y - mean)^2).

    Examples
    --------
    >>> from graphrf.gp import metrics
    >>> metrics.rmse([1.0, 2.0], [1.0, 4.0])
    1.4142135623730951
    """
    y, mean = _arrays(y, mean=mean)
    return float(np.sqrt(np.mean(np.square(y - mean))))


def nlpd(y: ArrayLike, mean: ArrayLike, std: ArrayLike) -> float:
    r"""The mean negative log predictive density, in nats, of independent normal predictions.

    .. math:: \frac1n \sum_i \tfrac12 \log(2 \pi s_i^2) + \frac{(y_i - m_i)^2}{2 s_i^2}.

    For noisy y, `std` must include the noise (`return_std="observation"`).

    Examples
    --------
    >>> from graphrf.gp import metrics
    >>> round(metrics.nlpd([0.0], [0.0], [1.0]), 4)
    0.9189
    """
    y, mean, std = _arrays(y, mean=mean, std=std)
    _positive(std)
    return float(np.mean(0.5 * np.log(2 * np.pi * std**2) + 0.5 * np.square((y - mean) / std)))


def coverage(y: ArrayLike, mean: ArrayLike, std: ArrayLike, *, level: float = 0.95) -> float:
    """The fraction of y within the central intervals, about `level` if deviations are calibrated.

    For noisy y, `std` must include the noise (`return_std="observation"`).

    Examples
    --------
    >>> from graphrf.gp import metrics
    >>> metrics.coverage([0.0, 1.0, 3.0, 0.5], [0.0] * 4, [1.0] * 4)
    0.75
    """
    level = checks.number("level", level, low=0, high=1, include_low=False, include_high=False)
    y, mean, std = _arrays(y, mean=mean, std=std)
    _positive(std)
    return float(np.mean(np.abs(y - mean) <= ndtri(0.5 + 0.5 * level) * std))


def kl_divergence(
    mean0: ArrayLike, cov0: ArrayLike, mean1: ArrayLike, cov1: ArrayLike, *, jitter: float = 0.0
) -> float:
    r"""The Kullback-Leibler divergence KL(N(mean0, cov0) || N(mean1, cov1)) in nats, summed over
    the k dimensions.

    .. math:: \mathrm{KL}(N_0 \| N_1) = \tfrac12 \Big( \mathrm{tr}(\Sigma_1^{-1} \Sigma_0)
              + (\mu_1 - \mu_0)^\top \Sigma_1^{-1} (\mu_1 - \mu_0) - k + \log
              \frac{|\Sigma_1|}{|\Sigma_0|} \Big)

    For an approximate posterior (first) and the exact one (second) it is large where the
    approximation is confident in values that are unlikely under the exact posterior.

    Parameters
    ----------
    mean0, mean1 : array_like, shape (k,)
    cov0, cov1 : array_like, shape (k, k), symmetric positive definite
    jitter : float
        A variance >= 0 added to both diagonals: with the noise variance, noisy values are compared.

    Raises
    ------
    ValueError
        For shapes that differ, entries that are not finite, or a covariance that is not symmetric
        or not positive definite to rounding.

    Notes
    -----
    It is computed so that no large terms cancel, in some 5 k^3 operations.

    Examples
    --------
    >>> from graphrf.gp import metrics
    >>> round(metrics.kl_divergence([0.0], [[1.0]], [1.0], [[4.0]]), 4)
    0.4431
    """
    means = [
        checks.finite(name, checks.array(name, m, np.float64))
        for name, m in (("mean0", mean0), ("mean1", mean1))
    ]

    size = means[0].size
    for name, array in zip(("mean0", "mean1"), means, strict=True):
        if array.ndim != 1 or array.size != size or size == 0:
            raise checks.value_error(
                name, f"must be a vector, both of one size, got shape {array.shape}"
            )

    jitter = checks.number("jitter", jitter, low=0)
    covariances = [
        _covariance(name, c, size) + jitter * np.eye(size)
        for name, c in (("cov0", cov0), ("cov1", cov1))
    ]

    root0, root1 = _root("cov0", covariances[0]), _root("cov1", covariances[1])
    stretches = svdvals(solve_triangular(root1, root0, lower=True))
    if stretches[-1] == 0:
        raise ValueError(_singular("cov0"))

    changes = (stretches - 1.0) * (stretches + 1.0)
    shift = solve_triangular(root1, means[1] - means[0], lower=True)
    # Where the two are close, log(1 + d) from d; where they
    # are far, from the stretches, which have all digits.
    logs = np.where(
        np.abs(changes) < 0.5, np.log1p(np.maximum(changes, -0.5)), 2.0 * np.log(stretches)
    )
    return float(0.5 * (np.sum(changes - logs) + shift @ shift))


def _covariance(name: str, value: Any, size: int) -> np.ndarray:
    array = checks.finite(name, checks.array(name, value, np.float64))
    if array.shape != (size, size):
        raise checks.value_error(
            name, f"must have shape {(size, size)}, as the means, got {array.shape}"
        )
    if np.abs(array - array.T).max() > 1e-8 * np.abs(array).max():
        raise checks.value_error(name, "must be symmetric, got one that differs from its transpose")
    return array


def _root(name: str, covariance: np.ndarray) -> np.ndarray:
    try:
        return np.asarray(cholesky(covariance, lower=True))
    except np.linalg.LinAlgError:
        raise ValueError(_singular(name)) from None


def _singular(name: str) -> str:
    return (
        f"`{name}` must be positive definite, got one that is numerically singular; compare noisy "
        "values (add the noise variance to both diagonals), or fewer of them"
    )


def _arrays(y: Any, **others: Any) -> list[np.ndarray]:
    truth = checks.finite("y", checks.array("y", y, np.float64))
    if truth.size == 0:
        raise checks.value_error("y", "must hold at least one value, got none")
    result = [truth]
    for name, value in others.items():
        array = checks.finite(name, checks.array(name, value, np.float64))
        if array.shape != truth.shape:
            raise checks.value_error(
                name, f"must have the shape of `y`, {truth.shape}, got {array.shape}"
            )
        result.append(array)
    return result


def _positive(std: np.ndarray) -> None:
    if (std <= 0).any():
        raise checks.value_error(
            "std",
            f"must be greater than 0, got {float(std.min()):g}; of noisy values it includes the "
            "noise "
            '(predict(..., return_std="observation"))',
        )


def log_loss(labels: ArrayLike, probabilities: ArrayLike) -> float:
    r"""The mean of -log(probability of the true class), in nats: the classifier's `nlpd`.

    Parameters
    ----------
    labels : array_like of int, shape (n,)
        Columns of `probabilities`: `np.searchsorted(gp.classes_, labels)` for the labels of a
        classifier.
    probabilities : array_like, shape (n, C)
        Rows sum to 1. A true class of probability 0 gives infinity.

    Examples
    --------
    >>> from graphrf.gp import metrics
    >>> round(metrics.log_loss([0, 1], [[0.5, 0.5], [0.5, 0.5]]), 4)
    0.6931
    """
    labels, probabilities = _classified(labels, probabilities)
    with np.errstate(divide="ignore"):
        return float(-np.mean(np.log(probabilities[np.arange(labels.size), labels])))


class Reliability(NamedTuple):
    """Accuracy of a classifier by its predicted probability; bins without predictions are left out.

    Attributes
    ----------
    confidence, accuracy : ndarray, shape (b,)
        The mean probability of the predicted class in each bin, and the fraction of correct
        predictions.
    weight : ndarray of int, shape (b,)
        Predictions in the bin.
    """

    confidence: np.ndarray
    accuracy: np.ndarray
    weight: np.ndarray

    def _repr_html_(self) -> str:
        """A table of the bins for notebooks."""
        return html.table(
            "Reliability", zip(*self, strict=True), ("confidence", "accuracy", "predictions")
        )


def reliability(labels: ArrayLike, probabilities: ArrayLike, *, n_bins: int = 15) -> Reliability:
    """The reliability curve of the predicted (most probable) class, over bins of equal width of its
    probability.

    Source: Guo et al. 2017, "On Calibration of Modern Neural Networks", Sec. 2.

    Examples
    --------
    >>> from graphrf.gp import metrics
    >>> metrics.reliability([0, 1], [[0.9, 0.1], [0.9, 0.1]]).accuracy
    array([0.5])
    """
    n_bins = checks.integer("n_bins", n_bins, low=1)
    labels, probabilities = _classified(labels, probabilities)
    sure = probabilities.max(axis=1)
    right = probabilities.argmax(axis=1) == labels
    place = np.minimum((sure * n_bins).astype(np.int64), n_bins - 1)
    count = np.bincount(place, minlength=n_bins)
    kept = count > 0
    means = [
        np.bincount(place, weights, minlength=n_bins)[kept] / count[kept]
        for weights in (sure, right)
    ]
    return Reliability(means[0], means[1], count[kept])


def expected_calibration_error(
    labels: ArrayLike, probabilities: ArrayLike, *, n_bins: int = 15
) -> float:
    r"""The mean of \|accuracy - confidence\| over the bins of `reliability`, weighted by their
    sizes.

    It depends on the bins, and is above 0 for perfect probabilities too, by some sqrt(n_bins / n):
    compare it at equal n.

    Examples
    --------
    >>> from graphrf.gp import metrics
    >>> round(metrics.expected_calibration_error([0, 1], [[0.9, 0.1], [0.9, 0.1]]), 4)
    0.4
    """
    curve = reliability(labels, probabilities, n_bins=n_bins)
    return float(np.average(np.abs(curve.accuracy - curve.confidence), weights=curve.weight))


def _classified(labels: Any, probabilities: Any) -> tuple[np.ndarray, np.ndarray]:
    p = checks.finite("probabilities", checks.array("probabilities", probabilities, np.float64))
    codes = checks.array("labels", labels)

    if codes.dtype.kind not in "biu":
        raise checks.type_error(
            "labels",
            f"must be columns of `probabilities`, integers, got {checks.describe(codes)}; "
            "np.searchsorted(gp.classes_, labels) gives those of a classifier's labels",
        )
    if codes.ndim != 1 or not codes.size or p.ndim != 2 or p.shape[0] != codes.size:
        raise checks.value_error(
            "probabilities",
            f"must have shape (n, C) for the n > 0 `labels`, got {p.shape} and {codes.shape}",
        )

    if codes.min() < 0 or codes.max() >= p.shape[1]:
        raise checks.value_error(
            "labels",
            f"must be in [0, {p.shape[1] - 1}], got {int(codes.min())} to {int(codes.max())}",
        )
    if (p < 0).any() or not np.allclose(p.sum(axis=1), 1.0, atol=1e-6):
        raise checks.value_error("probabilities", "must be at least 0 with rows that sum to 1")
    return codes.astype(np.int64), p


def interval_score(y: ArrayLike, low: ArrayLike, high: ArrayLike, *, level: float = 0.95) -> float:
    r"""The mean interval score (Winkler's) of central intervals: their width, and a penalty for
    values outside.

    .. math:: (u - l) + \tfrac{2}{\alpha} (l - y)_+ + \tfrac{2}{\alpha} (y - u)_+, \quad
              \alpha = 1 - \mathrm{level}.

    Smaller is better; the true quantiles minimise its expectation.

    Source: Gneiting and Raftery 2007, "Strictly Proper Scoring Rules, Prediction, and Estimation",
    Sec. 6.2.

    Examples
    --------
    >>> from graphrf.gp import metrics
    >>> round(metrics.interval_score([0.0, 3.0], [-2.0, -2.0], [2.0, 2.0]), 3)
    24.0
    """
    level = checks.number("level", level, low=0, high=1, include_low=False, include_high=False)
    y, low, high = _arrays(y, low=low, high=high)
    if (low > high).any():
        raise checks.value_error("low", "must not be above `high`")
    outside = np.maximum(low - y, 0) + np.maximum(y - high, 0)
    return float(np.mean(high - low + 2 / (1 - level) * outside))


def crps(y: ArrayLike, draws: ArrayLike) -> float:
    r"""The mean continuous ranked probability score of predictions by draws, in units of y; smaller
    is better.

    .. math:: E|X - y| - \tfrac12 E|X - X'|

    for draws X and X' of the prediction; both means are unbiased. Cost: n s log s for s draws.

    Source: Gneiting and Raftery 2007, Sec. 4.2.

    Parameters
    ----------
    y : array_like, shape (n,)
    draws : array_like, shape (s, n), s > 1
        Draws of new observations: `gp.sample(nodes, s, observations=True)`, real numbers or counts.

    Examples
    --------
    >>> from graphrf.gp import metrics
    >>> metrics.crps([0.0], [[-1.0], [1.0]])
    0.0
    """
    y, draws = _drawn(y, draws)
    size = draws.shape[0]
    if size < 2:
        raise checks.value_error("draws", "must hold at least two draws, got one")
    ranks = 2.0 * np.arange(1, size + 1) - size - 1
    pairs = 2 * (ranks @ np.sort(draws, axis=0)) / (size * (size - 1))
    return float(np.mean(np.abs(draws - y).mean(axis=0) - 0.5 * pairs))


def pit(y: ArrayLike, draws: ArrayLike, *, seed: int | None = None) -> np.ndarray:
    """Probability integral transforms of y under predictions by draws, in [0, 1]: uniform if these
    are calibrated.

    It is the fraction of draws below y, with ties broken at random, so that it is uniform for
    counts too. A histogram (`numpy.histogram(u, 10, (0, 1))`) that is high at both ends shows
    overconfident predictions, one that is high in the middle underconfident ones.

    Source: Czado, Gneiting and Held 2009, "Predictive Model Assessment for Count Data".

    Parameters
    ----------
    y : array_like, shape (n,)
    draws : array_like, shape (s, n)
        Draws of new observations.
    seed : int, optional

    Examples
    --------
    >>> from graphrf.gp import metrics
    >>> metrics.pit([0.5], [[0.0], [1.0], [2.0]], seed=0).round(2)
    array([0.41])
    """
    y, draws = _drawn(y, draws)
    u = np.random.default_rng(checks.seed(seed)).random(y.size)
    below, equal = (draws < y).sum(axis=0), (draws == y).sum(axis=0)
    return np.asarray((below + u * (equal + 1)) / (draws.shape[0] + 1))


def _drawn(y: Any, draws: Any) -> tuple[np.ndarray, np.ndarray]:
    (truth,) = _arrays(y)
    values = checks.finite("draws", checks.array("draws", draws, np.float64))
    if truth.ndim != 1 or values.ndim != 2 or values.shape[1] != truth.size or not values.shape[0]:
        raise checks.value_error(
            "draws",
            f"must have shape (s, n) for the n values of `y`, got {values.shape} and {truth.shape}",
        )
    return truth, values
