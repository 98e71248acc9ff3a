"""Hyperparameters by the exact marginal likelihood of all observations, where the prior has a sparse precision."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from graphrf.gp.inference.likelihood import Likelihood, average_information, least_squares_mean
from graphrf.gp.inference.observations import Observations
from graphrf.gp.training.likelihood_search import Block, LikelihoodSearch, over_divisor
from graphrf.kernels.kernel import Kernel
from graphrf.kernels.precision.contract import KernelPrecision, Precision

# The exact likelihood of all observations is climbed where so many evaluations, of two factors and two selected
# inverses each, take no more than so many seconds, or so many times that where dense blocks cannot serve the
# lengthscale.
_EVALUATIONS, _SECONDS, _PATIENCE = 12, 30.0, 4.0
# Numbers of a factor times columns of K: about half a second for each evaluation of dense blocks.
_GRAM_NUMBERS = 2e8


def affords_exact_likelihood(precision: KernelPrecision, *, too_long: bool = False) -> bool:
    """Whether hyperparameters can be sought by the exact likelihood of all observations.

    It may take longer if the lengthscale is `too_long` for dense blocks. Kernels that are no function of the
    Laplacian have no other way, and take the time.
    """
    seconds = _SECONDS * (_PATIENCE if too_long else 1.0)
    return not precision.kernel.is_series or exact_search_seconds(precision) <= seconds


def affords_exact_comparison(precisions: Sequence[KernelPrecision]) -> bool:
    """Whether that can be done for each of some kernels, to tell which is the best."""
    return sum(map(exact_search_seconds, precisions)) <= _SECONDS * _PATIENCE


def exact_search_seconds(precision: KernelPrecision) -> float:
    """The most that a search by the exact likelihood takes, about; measured searches took half of it."""
    return 4 * _EVALUATIONS * precision.own_elimination.seconds


def affords_precision_grams(precision: KernelPrecision, n_trained: int) -> bool:
    """Whether training can take its dense blocks from sparse factors, or has to."""
    return not precision.kernel.is_series or precision.own_elimination.n_entries * n_trained <= _GRAM_NUMBERS


def precision_likelihood(
    precision: Precision,
    observations: Observations,
    *,
    amplitude: float,
    noise: float,
    names: Sequence[str] | None = None,
) -> Likelihood:
    r"""log p(y) for y = H b + f + noise with f ~ N(0, a Q^-1), summed over outputs, and its gradient.

    With P, A and f_hat as in `PrecisionPosterior`, and m distinct observed nodes,

    .. math:: \log |A| = \log |P| - \log |Q| + \log |D|, \quad
              r^\top A^{-1} r = \tfrac1a \hat f^\top Q \hat f + (r - S \hat f)^\top D^{-1} (r - S \hat f),

    .. math:: \partial \log |A| = \mathrm{tr}(P^{-1} \partial Q) - \mathrm{tr}(Q^{-1} \partial Q), \quad
              \partial (r^\top A^{-1} r) = \tfrac1a \hat f^\top \partial Q \hat f.

    Parameters
    ----------
    names : sequence of str, optional
        Hyperparameters whose derivatives are wanted, at a fixed amplitude; None: no gradient.

    Returns
    -------
    Likelihood
        `log_scale` is the derivative in log a; `information` is 0 without `names`.

    Notes
    -----
    Two sparse factorisations, and for the gradient two selected inverses. The quadratic form is the least of its
    kind, so that errors of f_hat enter it by their squares. Source: Rue and Held 2005, Sec. 2.3 and 2.4.
    """
    nodes, p = observations.nodes, observations.n_outputs
    d = observations.counts / noise
    weights = np.zeros(precision.n_nodes)
    weights[nodes] = amplitude * d
    factor = precision.factor(weights)
    values = np.column_stack([observations.means, observations.basis])
    spread = np.zeros((weights.size, values.shape[1]))
    spread[nodes] = (amplitude * d)[:, None] * values
    fitted = factor.solve(spread)
    left = values - fitted[nodes]
    inner = fitted.T @ (precision.matrix @ fitted) / amplitude + left.T @ (d[:, None] * left)
    mean = least_squares_mean(inner[p:, p:], inner[p:, :p])
    f, rest = fitted[:, :p] - fitted[:, p:] @ mean, left[:, :p] - left[:, p:] @ mean
    signal = float(np.vdot(f, precision.matrix @ f)) / amplitude
    error = float(np.vdot(rest, d[:, None] * rest))
    # |C^{1/2} A C^{1/2}| = |A| |C|: what the counts add is taken off again by log_constant
    log_determinant = factor.log_determinant - precision.log_determinant() + nodes.size * np.log(noise)
    value = -0.5 * (signal + error) - 0.5 * p * log_determinant + float(observations.log_constant(noise))
    if names is None:
        return Likelihood(value, mean, 0.0, 0.0, np.zeros(0), np.zeros((2, 2)))
    told = amplitude * float(factor.inverse_diagonal[nodes] @ d)  # trace(A^-1 a K_uu)
    log_amplitude = 0.5 * (signal - p * told)
    extra = observations.n_total - nodes.size
    log_noise = 0.5 * (error - p * (nodes.size - told)) - 0.5 * p * extra + 0.5 * observations.within / noise
    slopes, moved = [], []
    for name in names:
        change = precision.derivative(name)
        along = change @ f
        quadratic = float(np.vdot(f, along)) / amplitude
        slopes.append(-0.5 * quadratic - 0.5 * p * (factor.trace(change) - precision.trace_of_derivative(name)))
        moved.append(-precision.solve(along)[nodes])
    moved += [f[nodes], rest]  # dA a, of the amplitude a K_uu A^-1 r
    columns = np.concatenate(moved, axis=1)
    spread = np.zeros((weights.size, columns.shape[1]))
    spread[nodes] = (amplitude * d)[:, None] * columns
    solved = d[:, None] * (columns - factor.solve(spread)[nodes])
    solved = np.array(np.split(solved, len(moved), axis=1))
    information = average_information(np.array(moved), solved, 0.5 * observations.within / noise)
    return Likelihood(value, mean, log_amplitude, log_noise, np.array(slopes), information)


class PrecisionSearch(LikelihoodSearch):
    """The search by `precision_likelihood` of all observations at once; its divisor must not look at matrices."""

    def __init__(self, precision: Precision, observations: Observations, search: LikelihoodSearch) -> None:
        fields = {field.name: getattr(search, field.name) for field in dataclasses.fields(LikelihoodSearch)}
        super().__init__(**fields | {"blocks": [Block(_no_matrix, observations)]})
        self._precision = precision

    def _likelihood(
        self, kernel: Kernel, names: Sequence[str] | None, output_scale: float, noise: float
    ) -> Likelihood | None:
        divisor, slopes = self.divisor(kernel, names or (), [])
        try:
            result = precision_likelihood(
                self._precision.with_kernel(kernel), self.blocks[0].observations,
                amplitude=output_scale / divisor, noise=noise, names=names,
            )  # fmt: skip
        except (np.linalg.LinAlgError, ValueError):  # numerically singular
            return None
        return result if names is None else over_divisor(result, slopes / divisor)

    def divided_by(self, kernel: Kernel) -> float:
        return self.divisor(kernel, (), [])[0]


def _no_matrix(kernel: Kernel, names: Sequence[str]) -> tuple[np.ndarray, list[np.ndarray]]:
    """Stands where a search by dense blocks has their matrices."""
    raise AssertionError("the exact search takes no dense matrices")
