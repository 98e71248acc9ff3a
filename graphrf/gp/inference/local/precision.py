"""Laplace's approximation for likelihoods that factor over nodes, where the prior has a sparse precision."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from graphrf.gp.inference.local.dense import LatentMode, nearest_normal
from graphrf.gp.inference.local.newton import Climb, State, climb
from graphrf.gp.inference.local.responses import Responses
from graphrf.gp.likelihoods import Likelihood
from graphrf.kernels.precision.cholesky import SparseCholesky
from graphrf.kernels.precision.contract import Precision

# Wanted size of Newton's last step in prior deviations, over the root of the number of observed nodes, and what is
# near enough where rounding ends the search.
_TOLERANCE, _NEAR = 1e-7, 1e-4


class SparseEvidence(NamedTuple):
    """Laplace's log marginal likelihood and its derivatives.

    Attributes
    ----------
    value : float
    mode : LatentMode
        Its `start` is the image (f at all N nodes, and the mean's coefficients).
    log_amplitude : float
        The derivative in log a.
    kernel, parameters : ndarray
        Derivatives in the named hyperparameters of the kernel at a fixed a, and in the logarithms of the
        likelihood's.
    """

    value: float
    mode: LatentMode
    log_amplitude: float
    kernel: np.ndarray
    parameters: np.ndarray


class _System:
    r"""The `NewtonSystem` of (f, b): f ~ N(0, a Q^-1) at N nodes, b of deviation `spread`, eta = S f + H b.

    Its precision is P_0 = diag(Q / a, I / spread^2), with the curvature
    P = P_0 + (S, H)^T W (S, H); its block of f is that of a sparse factor, and b has the Schur complement C.
    """

    def __init__(
        self, precision: Precision, amplitude: float, responses: Responses, likelihood: Likelihood, spread: float
    ) -> None:
        self._precision, self._amplitude = precision, amplitude
        self._responses, self._likelihood = responses, likelihood
        self._mean_precision = 1 / spread**2
        self._n = precision.n_nodes
        self._moved = np.zeros(0)
        self.factor: SparseCholesky
        self.by_mean: np.ndarray  # P_f^-1 (S^T W H), shape (N, b)
        self.schur: np.ndarray  # C

    def eta(self, image: np.ndarray) -> np.ndarray:
        """f + H b at the observed nodes."""
        return np.asarray(image[: self._n][self._responses.nodes] + self._responses.basis @ image[self._n :])

    def spread(self, values: np.ndarray) -> np.ndarray:
        """(S, H)^T of values at the observed nodes."""
        result = np.zeros(self._n + self._responses.basis.shape[1])
        result[self._responses.nodes] = values
        result[self._n :] = self._responses.basis.T @ values
        return result

    def weights(self, image: np.ndarray) -> np.ndarray:
        """P_0 of an image."""
        f = self._precision.matrix @ image[: self._n] / self._amplitude
        return np.concatenate([f, self._mean_precision * image[self._n :]])

    def state(self, weights: np.ndarray, image: np.ndarray) -> State:
        local = self._responses.local(self._likelihood, self.eta(image))
        return State(local.value - 0.5 * float(weights @ image), self.spread(local.slope) - weights, local)

    def size(self, state: State) -> float:
        """Of the Newton step: the root of r^T P^-1 r."""
        self.curve(state.curved.curvature)
        self._moved = self.solve(state.gradient)
        return math.sqrt(max(float(state.gradient @ self._moved), 0.0))

    def step(self, state: State, closeness: float) -> tuple[np.ndarray, np.ndarray]:
        return self.weights(self._moved), self._moved

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        """P^-1 r."""
        own = self._amplitude * self.factor.solve(rhs[: self._n])
        b = np.linalg.solve(self.schur, rhs[self._n :] - self.by_mean.T @ rhs[: self._n])
        return np.concatenate([own - self.by_mean @ b, b])

    def variances(self) -> np.ndarray:
        """Posterior variances of eta at the observed nodes, shape (m,)."""
        nodes = self._responses.nodes
        left = self._responses.basis - self.by_mean[nodes]
        own = self._amplitude * self.factor.inverse_diagonal[nodes]
        return np.asarray(own + np.einsum("ib,bc,ic->i", left, np.linalg.inv(self.schur), left))

    def climb(self, start: np.ndarray | None) -> tuple[Climb, LatentMode]:
        """Where Newton's method ends that begins at 0, or at an image where that is better."""
        nothing = np.zeros(self._n + self._responses.basis.shape[1])
        near = None if start is None else (self.weights(start), start)
        end = climb(self, (nothing, nothing), near, tol=_TOLERANCE, unit=math.sqrt(self._responses.nodes.size))
        latent = self.eta(end.image)
        information = self._responses.information(self._likelihood, latent)
        return end, LatentMode(
            latent, end.state.curved, information, end.state.value, end.image, end.residual <= _NEAR, end.residual
        )

    def curve(self, curvature: np.ndarray) -> None:
        """The factors of P."""
        responses, amplitude = self._responses, self._amplitude
        weights = np.zeros(self._n)
        weights[responses.nodes] = amplitude * curvature
        self.factor = self._precision.factor(weights)
        target = np.zeros((self._n, responses.basis.shape[1]))
        target[responses.nodes] = amplitude * curvature[:, None] * responses.basis
        self.by_mean = g = self.factor.solve(target)
        # H^T W H - H^T W G as a sum of squares, without cancellation
        left = responses.basis - g[responses.nodes]
        schur = left.T @ (curvature[:, None] * left) + g.T @ (self._precision.matrix @ g) / amplitude
        self.schur = schur + self._mean_precision * np.eye(schur.shape[0])


def nearest_sparse(
    precision: Precision, responses: Responses, likelihood: Likelihood, *, amplitude: float, spread: float
) -> LatentMode:
    """The nearest normal distribution; each round takes Newton's steps and a selected inversion."""
    system = _System(precision, amplitude, responses, likelihood, spread)

    def variances(information: np.ndarray) -> np.ndarray:
        system.curve(information)
        return system.variances()

    def find(own: Responses, start: np.ndarray | None) -> LatentMode:
        return _System(precision, amplitude, own, likelihood, spread).climb(start)[1]

    return nearest_normal(responses, system.climb(None)[1], variances, find)


def precision_evidence(
    precision: Precision,
    responses: Responses,
    likelihood: Likelihood,
    *,
    amplitude: float,
    spread: float,
    kernel_names: tuple[str, ...] = (),
    names: tuple[str, ...] | None = None,
    start: np.ndarray | None = None,
) -> SparseEvidence:
    r"""log q(y) for eta = f + H b, f ~ N(0, a Q^-1), b ~ N(0, spread^2 I), and its gradient.

    With z = (f, b) at the mode, P_0 its prior precision and P = P_0 + A^T W A the curvature, A = (S, H),

    .. math:: \log q(y) = \log p(y | A z) - \tfrac12 z^\top P_0 z - \tfrac12 \log \frac{|P|}{|P_0|}, \quad
              t = P^{-1} A^\top s, \quad s_i = -\tfrac12 (A P^{-1} A^\top)_{ii} W_i',

    .. math:: d \log q = -\tfrac12 z^\top dP_0 \, z - t^\top dP_0 \, z
              - \tfrac12 \mathrm{tr}(P^{-1} dP_0) + \tfrac12 \mathrm{tr}(P_0^{-1} dP_0).

    Parameters
    ----------
    kernel_names : tuple of str
        Hyperparameters of the kernel whose derivatives are wanted.
    names : tuple of str, optional
        Parameters of the likelihood whose derivatives are wanted; None: no gradient at all.
    start : ndarray, shape (N + b,), optional
        The image of a mode nearby.

    Notes
    -----
    Cost: a sparse factorisation for each Newton step, some five or ten, and one of Q's base; with the gradient two
    selected inversions. Source: Rue, Martino and Chopin 2009, "Approximate Bayesian inference for latent Gaussian
    models", Sec. 2.3 and 3.2, for the approximation; the exact gradient is ours.
    """
    system = _System(precision, amplitude, responses, likelihood, spread)
    n, b = precision.n_nodes, responses.basis.shape[1]
    end, mode = system.climb(start)
    local = mode.local
    log_determinant = system.factor.log_determinant - precision.log_determinant()
    log_determinant += float(np.linalg.slogdet(system.schur)[1]) + 2 * b * math.log(spread)
    value = mode.value - 0.5 * log_determinant
    if names is None:
        return SparseEvidence(value, mode, 0.0, np.zeros(0), np.zeros(0))
    sigma = system.variances()
    s = -0.5 * sigma * responses.thirds(likelihood, mode.latent)
    f, own = end.image[:n], end.weights[:n]
    inner, by_mean = np.linalg.inv(system.schur), system.by_mean
    trace = n + b - float(local.curvature @ sigma) - float(np.trace(inner)) / spread**2  # of P^-1 P_0, of f
    changes = [precision.derivative(name) for name in kernel_names]
    traces = [
        system.factor.trace(change) + float(np.sum(inner * (by_mean.T @ (change @ by_mean)))) / amplitude
        for change in changes
    ]
    hessian = responses.hessian(likelihood, mode.latent)
    if (hessian < 0).any():  # the mode moves by the whole Hessian
        system.curve(hessian)
    t = system.solve(system.spread(s))
    log_amplitude = 0.5 * float(f @ own) + float(t[:n] @ own) + 0.5 * trace - 0.5 * n
    kernel = []
    for name, change, told in zip(kernel_names, changes, traces, strict=True):
        quadratic = float((0.5 * f + t[:n]) @ (change @ f)) / amplitude
        kernel.append(-quadratic - 0.5 * told + 0.5 * precision.trace_of_derivative(name))
    at = system.eta(t)
    parameters = []
    for name in names:
        slopes = responses.parameter_slopes(likelihood, mode.latent, name)
        parameters.append(slopes.value - 0.5 * float(sigma @ slopes.curvature) + float(at @ slopes.slope))
    return SparseEvidence(value, mode, log_amplitude, np.array(kernel), np.array(parameters))
