"""Laplace's approximation for classification with a softmax likelihood and one prior covariance for
all classes.

See [classification](../theory/gaussian_processes.md#classification). With y_ic labels of class c at
node i, n_i in all, W is the negative Hessian of the log-likelihood, a C x C block n_i (diag(pi_i) -
pi_i pi_i^T) for every node.

Source: Rasmussen and Williams 2006, Sec. 3.5 and 5.5.1, for one label a node; the counts n_i and
the gradient for C classes are derived here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from graphrf.operators.solvers import ConjugateGradients

Product = Callable[[np.ndarray], np.ndarray]

_MAX_CONJUGATE = 2_000
# Residual of the first Newton systems; later ones are solved as much closer as the gradient is
# smaller. Their right-hand sides are up to sqrt(|K|) larger than what remains of the gradient: with
# large output scales and long lengthscales, where nearly all of |K| is common to all nodes,
# Newton's method stalls at 1e-3 already.
_LOOSEST = 1e-6
_CLOSEST = 1e-10


class SoftmaxMode(NamedTuple):
    """The posterior mode of the latent functions of C classes at m nodes."""

    latent: np.ndarray  # f
    weights: (
        np.ndarray
    )  # K^-1 f = y - n pi, whose rows sum to 0: the mean elsewhere is K_qm weights
    probabilities: np.ndarray  # pi
    value: float  # log p(y | f) - f^T K^-1 f / 2
    converged: bool
    iterations: int  # Newton steps
    residual: float  # sqrt(r^T K r) of the gradient r = y - n pi - weights, over its value at f = 0


def find_mode(
    product: Product, counts: np.ndarray, *, start: np.ndarray | None = None, tol: float = 1e-8
) -> SoftmaxMode:
    r"""The posterior mode by Newton's method, its linear systems by conjugate gradients.

    With f = K a the gradient of the log posterior in f is r = y - n pi - a. With W = L L^T, where
    L_i = sqrt(n_i) diag(s_i) (I - s_i s_i^T) and s_i = sqrt(pi_i), Newton's step moves the weights
    a by

    .. math:: r - L (I + L^\top K L)^{-1} L^\top K r

    and is halved until the posterior rises. Conjugate gradients underestimate the second term, so
    that the step leads uphill wherever they stop; their number grows with sqrt(max(n) |K|) for any
    m. `product` multiplies by K, `counts` (m, C) are labels of each class at each node, and `start`
    are first weights.
    """
    totals = counts.sum(axis=1, keepdims=True)

    def at(weights: np.ndarray, image: np.ndarray) -> _State:
        top = image.max(axis=1, keepdims=True)
        pi = np.exp(image - top)
        norm = pi.sum(axis=1, keepdims=True)
        pi /= norm
        value = float((counts * image).sum() - (totals * (top + np.log(norm))).sum())
        value -= 0.5 * float(np.vdot(weights, image))
        return _State(weights, image, value, counts - totals * pi - weights, pi)

    def size(state: _State) -> tuple[float, np.ndarray]:
        """sqrt(r^T K r), the gradient's norm in coordinates in which the prior is standard normal,
        and K r.
        """
        steep = product(state.gradient)
        return float(np.sqrt(max(float(np.vdot(state.gradient, steep)), 0.0))), steep

    def uphill(state: _State, move: np.ndarray, moved: np.ndarray) -> _State | None:
        """The state after the first of the lengths 1, 1/2, ... of a step that does not lower the
        posterior.
        """
        for halvings in range(30):
            length = 0.5**halvings
            there = at(state.weights + length * move, state.image + length * moved)
            # a rise that rounding hides counts as one
            if there.value >= state.value - 1e-13 * abs(state.value):
                return there
        return None

    state = at(np.zeros_like(counts), np.zeros_like(counts))
    now, steep = size(state)
    first = max(now, np.finfo(np.float64).tiny)
    residual, steps = 1.0, 0

    if start is not None:
        near = at(start, product(start))
        if near.value > state.value:
            state = near
        now, steep = size(state)
        residual = now / first

    while residual > tol and steps < 100:
        steps += 1
        closeness = float(np.clip(_LOOSEST * residual, _CLOSEST, _LOOSEST))
        there = None
        while there is None and closeness >= _CLOSEST:
            move = _newton(
                product, np.sqrt(state.curved), np.sqrt(totals), state.gradient, steep, closeness
            )
            there = uphill(state, move, product(move))
            # by rounding conjugate gradients may overshoot, and the step lead downhill: once more,
            # closer
            closeness = max(1e-3 * closeness, _CLOSEST) if closeness > _CLOSEST else 0.0
        if there is None:
            break  # no rise along the step but for rounding

        state = there
        now, steep = size(state)
        residual = now / first

    return SoftmaxMode(
        state.image, state.weights, state.curved, state.value, residual <= tol, steps, residual
    )


class _State(NamedTuple):
    """Weights, their image K a, the log posterior density, its gradient r, and pi."""

    weights: np.ndarray
    image: np.ndarray
    value: float
    gradient: np.ndarray
    curved: np.ndarray


def _newton(
    product: Product,
    s: np.ndarray,
    roots: np.ndarray,
    gradient: np.ndarray,
    steep: np.ndarray,
    tol: float,
) -> np.ndarray:
    """Newton's step for the weights, its system solved to a relative residual of `tol`; `steep` is
    K gradient.
    """

    def left(x: np.ndarray) -> np.ndarray:
        return np.asarray(roots * s * (x - s * (s * x).sum(axis=1, keepdims=True)))

    def left_t(x: np.ndarray) -> np.ndarray:
        y = s * x
        return np.asarray(roots * (y - s * (s * y).sum(axis=1, keepdims=True)))

    shape = s.shape
    # conjugate gradients see one column: the classes are coupled
    system = ConjugateGradients(
        lambda x: x + left_t(product(left(x.reshape(shape)))).reshape(-1, 1),
        lambda r: r.copy(),
        tol=tol,
        max_iterations=_MAX_CONJUGATE,
    )
    return gradient - left(system.solve(left_t(steep).reshape(-1, 1)).value.reshape(shape))


class Curvature:
    r"""(K + W^{-1})^{-1} at the mode, which determines variances, the evidence and its gradient.

    With D_c = diag(n pi_c), E_c = D_c (I + K D_c)^{-1}, S = sum_c E_c = R R^T and T_c = R^{-1} E_c,
    its block of classes a and b is

    .. math:: M_{ab} = \delta_{ab} E_a - T_a^\top T_b, \qquad
              \log |I + K W| = \sum_c \log |I + K D_c| + \log |S| - \sum_i \log n_i.

    `totals` are the labels n at each node. LinAlgError if a matrix is singular to rounding. Cost:
    about 1.5 C m^3 multiply-adds, 2 C m^2 numbers. Source: Rasmussen and Williams 2006, Eqs. 3.44
    to 3.47 and Algorithm 3.3; with n labels at a node, D_c is n times theirs and the last sum
    appears.
    """

    def __init__(self, matrix: np.ndarray, probabilities: np.ndarray, totals: np.ndarray) -> None:
        size, n_classes = probabilities.shape
        self.e: np.ndarray = np.empty((n_classes, size, size))
        self.log_determinant: float = -float(np.log(totals).sum())
        for c in range(n_classes):
            root = np.sqrt(totals * probabilities[:, c])
            b = root[:, None] * matrix * root
            b[np.diag_indices(size)] += 1.0
            factor = cholesky(b, lower=True, overwrite_a=True, check_finite=False)
            self.log_determinant += 2 * float(np.log(np.diagonal(factor)).sum())
            half = solve_triangular(
                factor, np.diag(root), lower=True, overwrite_b=True, check_finite=False
            )
            self.e[c] = half.T @ half

        factor = cholesky(self.e.sum(axis=0), lower=True, overwrite_a=True, check_finite=False)
        self.log_determinant += 2 * float(np.log(np.diagonal(factor)).sum())
        solved = [solve_triangular(factor, e, lower=True, check_finite=False) for e in self.e]
        self.t: np.ndarray = np.stack(solved)

    def covariances(self, cross: np.ndarray, prior: np.ndarray) -> np.ndarray:
        """The latent covariance of the classes at q nodes, (q, C, C), from K (m, q) and its
        diagonal (q,).

        Cost: 2 C m^2 multiply-adds for each node (Rasmussen and Williams 2006, Algorithm 3.4).
        """
        halves = self.t @ cross
        result = np.einsum("amq,bmq->qab", halves, halves, optimize=True)
        reduction = np.stack([(cross * (e @ cross)).sum(axis=0) for e in self.e], axis=1)
        n_classes = self.e.shape[0]
        result[:, range(n_classes), range(n_classes)] += np.maximum(prior[:, None] - reduction, 0.0)
        return result

    def apply(self, x: np.ndarray) -> np.ndarray:
        """M x for x of shape (m, C)."""
        shared = np.einsum("cij,jc->i", self.t, x, optimize=True)
        return np.asarray(
            np.einsum("cij,jc->ic", self.e, x, optimize=True)
            - (self.t.transpose(0, 2, 1) @ shared).T
        )

    def trace(self) -> np.ndarray:
        """sum_c M_cc, shape (m, m)."""
        rows = self.t.reshape(-1, self.t.shape[2])
        return np.asarray(self.e.sum(axis=0) - rows.T @ rows)


class LaplaceEvidence(NamedTuple):
    """Laplace's log marginal likelihood, and what it is made of."""

    value: float
    mode: SoftmaxMode
    curvature: Curvature


def evidence(
    matrix: np.ndarray, counts: np.ndarray, *, start: np.ndarray | None = None
) -> LaplaceEvidence:
    """log q(y) = log p(y | f) - f^T K^-1 f / 2 - log|I + K W| / 2 at the mode; see `find_mode` and
    `Curvature`.
    """
    mode = find_mode(lambda x: matrix @ x, counts, start=start)
    curvature = Curvature(matrix, mode.probabilities, counts.sum(axis=1))
    return LaplaceEvidence(mode.value - 0.5 * curvature.log_determinant, mode, curvature)


def evidence_slope(matrix: np.ndarray, counts: np.ndarray, at: LaplaceEvidence) -> np.ndarray:
    r"""The derivative of the evidence in K, (m, m): a symmetric change dK changes it by <slope,
    dK>.

    The mode moves with K: with weights a, Sigma_i the latent covariance at node i, and

    .. math:: s_{ic} = -\tfrac12 n_i \pi_{ic} \big[ \Sigma_{cc} - \textstyle\sum_a \pi_a \Sigma_{aa}
                       - 2 (\Sigma \pi)_c + 2 \pi^\top \Sigma \pi \big]_i, \quad u = s - M K s,

    the derivative of log q in f through W is s, that of f in K is (I + K W)^{-1} dK a, and together

    .. math:: d \log q = \Big\langle \sum_c \tfrac12 a_c a_c^\top - \tfrac12 M_{cc} + u_c a_c^\top,
              \; dK \Big\rangle.

    Cost: about 2.5 C m^3 multiply-adds. Source: Rasmussen and Williams 2006, Eq. 3.44 and, for two
    classes, Sec. 5.5.1.
    """
    mode, curvature, totals = at.mode, at.curvature, counts.sum(axis=1)
    pi, a = mode.probabilities, mode.weights
    sigma = curvature.covariances(matrix, np.diagonal(matrix))
    own = np.einsum("icc->ic", sigma)
    moved = np.einsum("iab,ib->ia", sigma, pi)
    inner = (
        own
        - (pi * own).sum(axis=1, keepdims=True)
        - 2 * moved
        + 2 * (pi * moved).sum(axis=1, keepdims=True)
    )
    s = -0.5 * totals[:, None] * pi * inner
    u = s - curvature.apply(matrix @ s)
    slope = (0.5 * a + u) @ a.T
    return np.asarray(0.5 * (slope + slope.T) - 0.5 * curvature.trace())
