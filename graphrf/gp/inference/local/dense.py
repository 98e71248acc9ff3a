r"""Laplace's approximation for likelihoods that factor over nodes, by dense matrices or products with K.

The latent values at m observed nodes are N(0, K); the constant and the trend, with normal priors, are part of K.
Laplace's approximation is normal around its mode, with the curvature W of the log-likelihood there. It is the
distribution of f given observations z = f + g / W with normal noise of variances 1 / W, where g is the
log-likelihood's gradient, so everything that holds for normal noise holds for it. Hyperparameters are trained by
its evidence; predictions take the nearest normal distribution (see `averaged`), for which it is the start.

Where log p is not concave the evidence takes the positive part of W, and that start what the likelihood calls its
information, as the mean of minus the second derivative over y for Student's t.

Source: Rasmussen and Williams 2006, "Gaussian Processes for Machine Learning", Sec. 3.4 and 5.5.1; the derivatives
in a likelihood's parameters are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular

from graphrf._base.warn import warn
from graphrf.gp.inference.local.averaged import AveragedResponses
from graphrf.gp.inference.local.newton import State, climb
from graphrf.gp.inference.local.responses import Local, Responses
from graphrf.gp.inference.observations import Observations
from graphrf.gp.inference.solvers import ConjugateGradients
from graphrf.gp.likelihoods import Likelihood

Product = Callable[[np.ndarray], np.ndarray]
Draws = Callable[[], Iterable[tuple[np.ndarray, np.ndarray]]]

# Wanted size of the gradient, with a factor and by conjugate gradients, and how closely these solve.
_TOLERANCE, _ITERATIVE_TOLERANCE = 1e-10, 1e-7
_LEAST_STEP = 1e-6
_CLOSENESSES = (1e-6, 1e-12, 1e-3)
_MAX_CONJUGATE = 2_000
# Rounds of means and variances at most, and the change of W in units of posterior precisions that ends them. Where
# the variance at an observed node is larger than the last, averages of exp(f) are of another order than at the
# mode, rounds may not converge, and Laplace's approximation stays.
_ROUNDS, _SETTLED, _LARGEST_VARIANCE = 8, 0.02, 25.0
_LEAST_SHARE = 0.3  # of a step that turns back
# Residual that is enough for variances by draws.
_DRAWS_TOLERANCE = 1e-4


class LatentMode(NamedTuple):
    """The posterior mode of the latent function at the observed nodes, or the mean of the nearest normal.

    Attributes
    ----------
    latent : ndarray, shape (m,)
        f.
    local : Local
        The likelihood there.
    information : ndarray, shape (m,)
        What the posterior takes for W.
    value : float
        log p(y | f) - f^T K^-1 f / 2.
    start : ndarray
        What another search may begin with.
    converged : bool
    residual : float
    """

    latent: np.ndarray
    local: Local
    information: np.ndarray
    value: float
    start: np.ndarray
    converged: bool
    residual: float

    def observations(self, responses: Responses) -> Observations:
        """Those of normal noise, of variance 1 / counts, whose posterior is the normal distribution."""
        targets = self.latent + self.local.slope / self.information
        return Observations(
            responses.nodes, self.information, targets[:, None], 0.0, responses.basis, responses.place.size
        )


class LaplaceEvidence(NamedTuple):
    """Laplace's log marginal likelihood and its derivatives.

    Attributes
    ----------
    value : float
    mode : LatentMode
    slope : ndarray, shape (m, m), or None
        What moves K by dK (symmetric) moves the value by <slope, dK>.
    parameters : ndarray
        Derivatives in the logarithms of the likelihood's parameters that were asked for.
    """

    value: float
    mode: LatentMode
    slope: np.ndarray | None
    parameters: np.ndarray


def with_mean(matrix: np.ndarray, basis: np.ndarray, spread: float) -> np.ndarray:
    """K of f + H b, where b has a normal prior of this standard deviation."""
    return matrix + (spread * basis) @ (spread * basis).T if basis.shape[1] else matrix


def find_latent_mode(
    prior: np.ndarray | Product,
    responses: Responses,
    likelihood: Likelihood,
    start: np.ndarray | None = None,
    unit: float | None = None,
) -> LatentMode:
    """The posterior mode by Newton's method, with K as a matrix or by its products with columns.

    `start` are weights K^-1 f of a mode nearby, `unit` what the gradient is measured in, if not the first one. A
    matrix is factored in every step, m^3 / 6 multiply-adds;
    products serve conjugate gradients, and nothing is factored.
    """
    system: _Local
    dense = isinstance(prior, np.ndarray)
    if isinstance(prior, np.ndarray):
        system = _Dense(prior, responses, likelihood)
    else:
        system = _Iterative(prior, responses, likelihood)
    tol = _TOLERANCE if dense else _ITERATIVE_TOLERANCE
    nothing = np.zeros(responses.nodes.size)
    near = None if start is None else (start, system.product(start))
    closenesses = (0.0, 0.0, 0.0) if dense else _CLOSENESSES
    end = climb(system, (nothing, nothing), near, tol=tol, closenesses=closenesses, unit=unit)
    # rounding may stop the search where the gradient is a little larger than asked for
    converged = end.residual <= max(1e3 * tol, 1e-7)
    information = responses.information(likelihood, end.image)
    if not converged:
        # Where the search began at the mode, its first gradient was rounding: what counts is whether the step that
        # is left is long, in deviations of f given its observation.
        _, moved = system.step(end.state, closenesses[1])
        converged = float(np.sqrt(np.maximum(information, 0.0) @ np.square(moved))) <= _LEAST_STEP
    return LatentMode(
        end.image, end.state.curved, information, end.state.value, end.weights, converged, end.residual
    )


def nearest_normal(
    responses: Responses,
    mode: LatentMode,
    variances: Callable[[np.ndarray], np.ndarray],
    find: Callable[[Responses, np.ndarray], LatentMode],
) -> LatentMode:
    """The mean and W of the normal distribution nearest to the posterior, as `averaged` has it, from Laplace's.

    `variances` are those at the observed nodes for given W, `find` finds the mode of responses from a start.
    """
    last = np.zeros(mode.information.size)
    for _ in range(_ROUNDS):
        before, spread = mode.information, variances(mode.information)
        if float(spread.max()) > _LARGEST_VARIANCE:
            break
        mode = find(AveragedResponses.over(responses, spread), mode.start)
        change = np.abs(mode.information - before) * spread
        if float(change.max()) <= _SETTLED:
            break
        # where W overshoots it would go to and fro: a secant step where it turned back, before that a shorter one
        step = mode.information - before
        shorter = np.sqrt(before * mode.information) if float(change.max()) > 1 else mode.information
        share = np.abs(last) / np.maximum(np.abs(last) + np.abs(step), np.finfo(np.float64).tiny)
        moved = np.where(step * last < 0, before + np.maximum(share, _LEAST_SHARE) * step, shorter)
        mode, last = mode._replace(information=moved), moved - before
    else:
        warn(
            f"the normal approximation of the posterior had not settled after {_ROUNDS} rounds: a precision at an "
            f"observed node still changed by {float(change.max()):.0%}, and intervals there are as uncertain; is "
            "there an observation far from all others?"
        )
    return mode


def nearest_dense(
    prior: np.ndarray | Product, responses: Responses, likelihood: Likelihood, draws: Draws | None = None
) -> LatentMode:
    """The normal distribution nearest to the posterior.

    With K as a matrix variances are exact, m^3 multiply-adds in each round. With products they are those of
    posterior draws, and `draws` must give the same blocks of draws from N(0, K) and N(0, I), each of shape (m, s),
    whenever it is called.
    """

    def variances(information: np.ndarray) -> np.ndarray:
        root = np.sqrt(information)
        if isinstance(prior, np.ndarray):
            factor = _factor(prior, root)
            reached = solve_triangular(factor, root[:, None] * prior, lower=True, check_finite=False)
            return np.maximum(np.diagonal(prior) - np.square(reached).sum(axis=0), 0.0)
        assert draws is not None
        product = prior
        system = ConjugateGradients(
            lambda x: x + root[:, None] * product(root[:, None] * x), lambda r: r.copy(),
            tol=_DRAWS_TOLERANCE, max_iterations=_MAX_CONJUGATE,
        )  # fmt: skip
        squares, count = np.zeros(root.size), 0
        for f, noise in draws():
            # a draw less its mean given noisy observations of it is a draw of the posterior about its mean
            solved = system.solve(root[:, None] * f + noise).value
            squares += np.square(f - product(root[:, None] * solved)).sum(axis=1)
            count += f.shape[1]
        return squares / count

    mode = find_latent_mode(prior, responses, likelihood)
    # the first gradient of averaged densities may be huge
    nothing = np.zeros(responses.nodes.size)
    slope = responses.local(likelihood, nothing).slope
    steep = np.asarray(prior @ slope if isinstance(prior, np.ndarray) else prior(slope))
    unit = max(float(np.sqrt(max(float(slope @ steep), 0.0))), np.finfo(np.float64).tiny)
    return nearest_normal(
        responses, mode, variances, lambda own, start: find_latent_mode(prior, own, likelihood, start, unit)
    )


def dense_evidence(
    matrix: np.ndarray,
    responses: Responses,
    likelihood: Likelihood,
    *,
    spread: float,
    names: tuple[str, ...] | None = None,
    start: np.ndarray | None = None,
) -> LaplaceEvidence:
    r"""log q(y) = log p(y | f) - f^T K^-1 f / 2 - log|I + K W| / 2 at the mode, and its gradient.

    With weights a = K^-1 f, M = (K + W^-1)^-1 and Sigma = K - K M K, the mode moves with K, and W with it:

    .. math:: s_i = -\tfrac12 \Sigma_{ii} W_i', \quad u = (I + W K)^{-1} s, \quad
              d \log q = \Big\langle \tfrac12 a a^\top - \tfrac12 M + u a^\top, \; dK \Big\rangle,

    and with a parameter of the likelihood, with \partial at fixed f,

    .. math:: \partial \log p - \tfrac12 \textstyle\sum_i \Sigma_{ii} \, \partial W_i + (\Sigma s)^\top \partial g.

    Parameters
    ----------
    matrix : ndarray, shape (m, m)
        K without the mean function's part.
    spread : float
        The prior deviation of the mean's coefficients.
    names : tuple of str, optional
        The likelihood's parameters whose derivatives are wanted; None: no gradient at all.

    Raises
    ------
    numpy.linalg.LinAlgError
        If I + W^{1/2} K W^{1/2} is not positive definite to rounding.

    Notes
    -----
    Cost: m^3 / 6 multiply-adds for each Newton step, some five or ten; about 2 m^3 more with the gradient.
    """
    matrix = with_mean(matrix, responses.basis, spread)
    mode = find_latent_mode(matrix, responses, likelihood, start)
    root = np.sqrt(mode.local.curvature)
    factor = _factor(matrix, root)
    value = mode.value - float(np.log(np.diagonal(factor)).sum())
    if names is None:
        return LaplaceEvidence(value, mode, None, np.zeros(0))
    half = solve_triangular(factor, np.diag(root), lower=True, overwrite_b=True, check_finite=False)
    reached = half @ matrix
    sigma = np.maximum(np.diagonal(matrix) - np.square(reached).sum(axis=0), 0.0)
    s = -0.5 * sigma * responses.thirds(likelihood, mode.latent)
    hessian = responses.hessian(likelihood, mode.latent)
    moved = matrix @ s
    if (hessian < 0).any():  # the mode moves by the whole Hessian
        moved = np.linalg.solve(np.eye(s.size) + matrix * hessian, moved)
    else:
        moved -= reached.T @ (reached @ s)
    u = s - hessian * moved
    a = mode.start
    slope = np.outer(0.5 * a + u, a)
    slope = 0.5 * (slope + slope.T) - 0.5 * (half.T @ half)
    parameters = []
    for name in names:
        change = responses.parameter_slopes(likelihood, mode.latent, name)
        parameters.append(change.value - 0.5 * float(sigma @ change.curvature) + float(moved @ change.slope))
    return LaplaceEvidence(value, mode, slope, np.array(parameters))


def _factor(matrix: np.ndarray, root: np.ndarray) -> np.ndarray:
    """The Cholesky factor of I + W^{1/2} K W^{1/2}."""
    b = root[:, None] * matrix * root
    b[np.diag_indices_from(b)] += 1.0
    return np.asarray(cholesky(b, lower=True, overwrite_a=True, check_finite=False))


class _Local:
    """What the `NewtonSystem`s here share; a state's `curved` is the likelihood's `Local`."""

    def __init__(self, product: Product, responses: Responses, likelihood: Likelihood) -> None:
        self.product = product
        self._responses = responses
        self._likelihood = likelihood
        self._steep = np.zeros(0)  # K times the gradient of the last size

    def state(self, weights: np.ndarray, image: np.ndarray) -> State:
        local = self._responses.local(self._likelihood, image)
        return State(local.value - 0.5 * float(weights @ image), local.slope - weights, local)

    def size(self, state: State) -> float:
        self._steep = self.product(state.gradient)
        return float(np.sqrt(max(float(state.gradient @ self._steep), 0.0)))

    def step(self, state: State, closeness: float) -> tuple[np.ndarray, np.ndarray]:
        root = np.sqrt(state.curved.curvature)
        move = state.gradient - root * self._solved(root, root * self._steep, closeness)
        return move, self.product(move)

    def _solved(self, root: np.ndarray, rhs: np.ndarray, closeness: float) -> np.ndarray:
        """(I + W^{1/2} K W^{1/2})^-1 b."""
        raise NotImplementedError


class _Dense(_Local):
    def __init__(self, matrix: np.ndarray, responses: Responses, likelihood: Likelihood) -> None:
        super().__init__(lambda x: np.asarray(matrix @ x), responses, likelihood)
        self._matrix = matrix

    def _solved(self, root: np.ndarray, rhs: np.ndarray, closeness: float) -> np.ndarray:
        return np.asarray(cho_solve((_factor(self._matrix, root), True), rhs, check_finite=False))


class _Iterative(_Local):
    def _solved(self, root: np.ndarray, rhs: np.ndarray, closeness: float) -> np.ndarray:
        system = ConjugateGradients(
            lambda x: x + root[:, None] * self.product((root[:, None] * x)[:, 0])[:, None],
            lambda r: r.copy(),
            tol=closeness,
            max_iterations=_MAX_CONJUGATE,
        )
        return system.solve(rhs[:, None]).value[:, 0]
