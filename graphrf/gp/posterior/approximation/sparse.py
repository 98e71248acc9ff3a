"""Normal priors of a latent function with a sparse precision, seen at the observed nodes."""

from __future__ import annotations

import copy
import math
from typing import NamedTuple

import numpy as np

from graphrf._base.cached import cached_property
from graphrf.gp.model.responses import Responses
from graphrf.gp.posterior.approximation.expectation_propagation import Normal
from graphrf.operators.precision.protocol import Precision
from graphrf.operators.sparse.cholesky import SparseCholesky


class Slopes(NamedTuple):
    """Derivatives of the evidence in log a, and in the kernel's named hyperparameters
    at a fixed a.
    """

    log_amplitude: float
    kernel: np.ndarray


class SparsePrior:
    r"""eta = S f + H b at the observed nodes, with f ~ N(0, a Q^-1) at N nodes and b ~ N(0, s^2 I).

    (f, b) has the prior precision :math:`P_0 = \mathrm{diag}(Q / a, I / s^2)`, with sites W the
    precision :math:`P = P_0 + A^\top W A`, A = (S, H). Its block of f has a sparse factor, and b
    the Schur complement C. Cost of a condition: a sparse factorisation and a selected inversion.
    One factor is held, and dropped before another one is made.
    """

    def __init__(
        self, precision: Precision, amplitude: float, responses: Responses, prior_std: float
    ) -> None:
        self._precision, self._amplitude = copy.copy(precision), amplitude
        self._nodes, self._basis = responses.nodes, responses.basis
        self._prior_std = prior_std
        self._n = precision.n_nodes
        self._factor: SparseCholesky | None = None
        self._by_mean: np.ndarray  # P_f^-1 (S^T W H), shape (N, b)
        self._inverse_schur: np.ndarray  # C^-1
        self._f: np.ndarray  # posterior means at all N nodes

    def condition(self, precision: np.ndarray, shift: np.ndarray) -> Normal:
        n, amplitude, basis = self._n, self._amplitude, self._basis
        weights = np.zeros(n)
        weights[self._nodes] = amplitude * precision
        self._factor, log_prior = None, self._log_prior
        self._factor = factor = self._precision.factor(weights)

        target = np.zeros((n, basis.shape[1]))
        target[self._nodes] = amplitude * precision[:, None] * basis
        self._by_mean = g = factor.solve(target)

        # H^T W H - H^T W G as a sum of squares, without cancellation
        left = basis - g[self._nodes]
        schur = (
            left.T @ (precision[:, None] * left) + g.T @ (self._precision.matrix @ g) / amplitude
        )
        schur += np.eye(schur.shape[0]) / self._prior_std**2
        self._inverse_schur = np.linalg.inv(schur)

        rhs = np.zeros(n)
        rhs[self._nodes] = shift
        b = self._inverse_schur @ (basis.T @ shift - g.T @ rhs)
        self._f = amplitude * factor.solve(rhs) - g @ b

        variance = amplitude * factor.inverse_diagonal[self._nodes]
        variance = variance + np.einsum("ib,bc,ic->i", left, self._inverse_schur, left)

        log_volume = factor.log_determinant - log_prior
        log_volume += float(np.linalg.slogdet(schur)[1]) + 2 * basis.shape[1] * math.log(
            self._prior_std
        )
        return Normal(self._f[self._nodes] + basis @ b, variance, log_volume)

    def slopes(self, precision: np.ndarray, variance: np.ndarray, names: tuple[str, ...]) -> Slopes:
        r"""Derivatives of log Z at the sites of the last condition, a fixed point of expectation
        propagation; another condition comes before the next call.

        .. math:: d \log Z = -\tfrac12 f^\top dP_0 f - \tfrac12 \mathrm{tr}(P^{-1} dP_0)
                  + \tfrac12 \mathrm{tr}(P_0^{-1} dP_0)
        """
        amplitude, inner, g = self._amplitude, self._inverse_schur, self._by_mean
        n, size = self._n, inner.shape[0]
        own = self._precision.matrix @ self._f / amplitude

        # P^-1 P_0, of f
        trace = n + size - float(precision @ variance) - float(np.trace(inner)) / self._prior_std**2
        changes = [self._precision.derivative(name) for name in names]
        factor, self._factor = self._factor, None
        assert factor is not None
        traces = [factor.trace(change) for change in changes]
        del factor  # that of the prior takes its room

        kernel = []
        for name, change, of_f in zip(names, changes, traces, strict=True):
            of_posterior = of_f + float(np.sum(inner * (g.T @ (change @ g)))) / amplitude
            quadratic = float(self._f @ (change @ self._f)) / amplitude
            kernel.append(
                0.5 * (self._precision.trace_of_derivative(name) - of_posterior - quadratic)
            )

        return Slopes(0.5 * (float(self._f @ own) + trace - n), np.array(kernel))

    @cached_property
    def _log_prior(self) -> float:
        """log |Q|, whose factor goes with the copy."""
        return copy.copy(self._precision).log_determinant()
