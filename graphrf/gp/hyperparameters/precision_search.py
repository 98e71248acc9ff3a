"""Hyperparameters by the exact marginal likelihood of all observations, where the prior has a
sparse precision.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np

from graphrf.gp.hyperparameters.likelihood_search import LikelihoodSearch, Matrices
from graphrf.gp.hyperparameters.marginal_likelihood import MarginalLikelihood
from graphrf.gp.model.observations import Observations
from graphrf.gp.posterior.generalised_mean import least_squares_mean
from graphrf.kernels.kernel import Kernel
from graphrf.operators.precision.protocol import Precision
from graphrf.operators.precision.readings import VARIABLES, Readings
from graphrf.operators.sparse.ordering import Elimination


def precision_likelihood(
    precision: Precision,
    observations: Observations,
    *,
    amplitude: float,
    noise: float,
    names: Sequence[str] | None = None,
    readings: Readings = VARIABLES,
) -> MarginalLikelihood:
    r"""log p(y) for y = H b + f + noise with f ~ N(0, a Q^-1), summed over outputs, and its
    gradient.

    With P, A and f_hat as in `PrecisionPosterior`,

    .. math:: \log |A| = \log |P| - \log |Q| + \log |D|, \quad
              r^\top A^{-1} r = \tfrac1a \hat f^\top Q \hat f + (r - S \hat f)^\top D^{-1} (r - S
              \hat f),

    .. math:: \partial \log |A| = \mathrm{tr}(P^{-1} \partial Q) - \mathrm{tr}(Q^{-1} \partial Q),
        \quad
              \partial (r^\top A^{-1} r) = \tfrac1a \hat f^\top \partial Q \hat f.

    Derivatives are in the hyperparameters `names` at a fixed amplitude (None: no gradient), and in
    log a. Cost: two sparse factorisations, one after the other, and two selected inverses for the
    gradient. The quadratic form is a minimum, so that errors of f_hat enter by their squares.
    Source: Rue and Held 2005, Sec. 2.3 and 2.4.
    """
    nodes, p = observations.nodes, observations.n_outputs
    d = observations.counts / noise
    factor = readings.factor(precision, nodes, amplitude * d)
    values = np.column_stack([observations.means, observations.basis])
    extended = readings.spread((amplitude * d)[:, None] * values, nodes, precision.n_nodes)
    smoothed = factor.solve(extended)
    away = values - readings.read(smoothed, nodes)
    inner = smoothed.T @ (precision.matrix @ smoothed) / amplitude + away.T @ (d[:, None] * away)
    mean = least_squares_mean(inner[p:, p:], inner[p:, :p])
    f, residual = smoothed[:, :p] - smoothed[:, p:] @ mean, away[:, :p] - away[:, p:] @ mean
    signal = float(np.vdot(f, precision.matrix @ f)) / amplitude
    error = float(np.vdot(residual, d[:, None] * residual))

    changes = [precision.derivative(name) for name in names or ()]
    explained, traces = 0.0, []
    if names is not None:
        explained = amplitude * readings.weighted_variance(factor, nodes, d)  # tr(A^-1 a K_uu)
        traces = [factor.trace(change) for change in changes]
    own = factor.log_determinant
    del factor  # that of the prior takes its room

    # |C^{1/2} A C^{1/2}| = |A| |C|: what the counts add is taken off again by log_constant
    log_determinant = own - precision.log_determinant() + nodes.size * np.log(noise)
    value = (
        -0.5 * (signal + error)
        - 0.5 * p * log_determinant
        + float(observations.log_constant(noise))
    )

    if names is None:
        return MarginalLikelihood(value, mean, 0.0, 0.0, np.zeros(0))
    log_noise = 0.5 * (error + observations.within / noise - p * (observations.n_total - explained))
    slopes = []
    for name, change, trace in zip(names, changes, traces, strict=True):
        both = trace - precision.trace_of_derivative(name)
        slopes.append(-0.5 * (float(np.vdot(f, change @ f)) / amplitude + p * both))

    return MarginalLikelihood(
        value, mean, 0.5 * (signal - p * explained), log_noise, np.array(slopes)
    )


class PrecisionSearch(LikelihoodSearch):
    """The search by `precision_likelihood` of all observations at once; its mean variance must
    not need matrices.
    """

    def __init__(
        self,
        precision: Precision,
        observations: Observations,
        search: LikelihoodSearch,
        readings: Readings = VARIABLES,
    ) -> None:
        super().__init__(**vars(search))
        self._precision, self._observations = precision, observations
        self._readings = readings

    @property
    def elimination(self) -> Elimination:
        """The order of elimination of P."""
        return self._readings.elimination(self._precision)

    @property
    def _size(self) -> int:
        return self._observations.means.size

    def _likelihood(
        self,
        kernel: Kernel,
        names: Sequence[str] | None,
        matrices: Matrices,
        amplitude: float,
        noise: float,
    ) -> MarginalLikelihood:
        try:
            # a copy, so that the factor of the prior goes with it
            precision = copy.copy(self._precision.with_kernel(kernel))
        except ValueError as error:  # numerically singular
            raise np.linalg.LinAlgError from error
        return precision_likelihood(
            precision,
            self._observations,
            amplitude=amplitude,
            noise=noise,
            names=names,
            readings=self._readings,
        )
