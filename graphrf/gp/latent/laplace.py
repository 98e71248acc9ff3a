r"""Laplace's approximation: the posterior mode, the evidence there, and its exact gradient.

With eta = A z + offset, W = -d^2 log p(y | eta) and P = Q + A^T W A on the subspace of the
constraints,

.. math:: \log Z = \log p(y \mid \hat\eta)
          - \tfrac12 \big( \hat z^\top Q \hat z - \log |Q| + \log |P| \big) .

The mode is stationary, so that the gradient has the direct part and, as W moves with the mode,

.. math:: -\tfrac12 \sum_i v_i \, dW_i, \quad v_i = (A P^{-1} A^\top)_{ii}.

Source: Rasmussen and Williams 2006, "Gaussian Processes for Machine Learning", Sec. 5.5.1;
Kristensen et al. 2016, "TMB: Automatic Differentiation and Laplace Approximation".
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import factorial

from graphrf.gp.latent.data import Data
from graphrf.gp.likelihoods.likelihood import Likelihood
from graphrf.gp.posterior.approximation.expectation_propagation import Sites
from graphrf.gp.terms.joint import Joint, JointFactor, JointPrecision

# Newton steps and halvings at most; a step that gains less than this fraction of the objective ends
# them, or one that is so small.
_STEPS, _HALVINGS, _GAIN, _SMALL = 60, 30, 1e-13, 1e-5
# After a step as small as this, in units of eta, the next ones take the same factor, as weights
# hardly change any more; it is made again where a step is not shorter than this fraction of the
# last one.
_NEAR, _SHRUNK = 0.1, 0.3
# The smallest precision of an observation, in units of the latent function: densities that are not
# log-concave may have none.
_LEAST = 1e-8
# The step of differences in a likelihood's parameters.
_STEP = 1e-4


# The distance of the points in units of the latent function. Truncation and rounding leave nine
# digits of the second derivative, and six of the third.
_POINTS_APART = 0.02
_AWAY = np.arange(-3.0, 4.0)
# The weights of the three derivatives: exact for polynomials of degree 6.
_FIRST, _SECOND, _THIRD = (
    np.linalg.inv(np.vander(_AWAY, increasing=True)) * factorial(np.arange(7.0))[:, None]
)[1:4]


class Derivatives(NamedTuple):
    """log p(y | f) and its first three derivatives in f, shape (m,) each."""

    value: np.ndarray
    first: np.ndarray
    second: np.ndarray
    third: np.ndarray


def derivatives(likelihood: Likelihood, y: np.ndarray, f: np.ndarray, unit: float) -> Derivatives:
    """The derivatives for observations y, (m,) or (k, m), at latent values f (m,) in this unit."""
    step = _POINTS_APART * unit
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        density = likelihood.log_density(y[..., None], f[:, None] + step * _AWAY)
    middle = density[:, 3]
    away = density - middle[:, None]
    return Derivatives(
        middle, away @ _FIRST / step, (away @ _SECOND) / step**2, (away @ _THIRD) / step**3
    )


class LaplaceMode(NamedTuple):
    """The posterior mode for known hyperparameters."""

    z: np.ndarray
    at: Derivatives  # derivatives of the log densities
    weights: np.ndarray  # W
    prior: JointPrecision
    factor: JointFactor  # of P
    log_evidence: float

    @property
    def settled(self) -> bool:
        """True if the evidence is a number."""
        return bool(np.isfinite(self.log_evidence))

    def sites(self, joint: Joint) -> Sites:
        """Normal observations of eta with the same mode and precision."""
        return Sites(self.weights, self.weights * (joint.a @ self.z) + self.at.first)


def approximation(
    joint: Joint,
    data: Data,
    likelihood: Likelihood,
    vector: np.ndarray,
    before: LaplaceMode | None = None,
) -> LaplaceMode:
    """The mode for a vector of the terms' hyperparameters, by Newton's method from that `before`.

    Cost: some three factorisations. LinAlgError where P cannot be factored.
    """
    prior, a = joint.prior(vector), joint.a

    def at(z: np.ndarray) -> tuple[float, Derivatives]:
        derived = derivatives(likelihood, data.y, a @ z + data.offset, data.unit)
        value = float(derived.value.sum()) - 0.5 * float(z @ (prior.precision @ z))
        return value if np.isfinite(value) else -np.inf, derived

    if before is not None:
        z = before.z
    else:
        constant = likelihood.start(data.y, data.offset)
        first = derivatives(likelihood, data.y, constant + data.offset, data.unit)
        weights = _weights(first, data.unit)
        z = joint.posterior(prior, weights).solve(a.T @ (weights * constant))
    (value, derived), length, last = at(z), np.inf, np.inf

    for _ in range(_STEPS):
        if length > _NEAR * data.unit or length > _SHRUNK * last:
            factor = joint.posterior(prior, _weights(derived, data.unit))

        step, step_size = factor.solve(a.T @ derived.first - prior.precision @ z), 1.0
        length, last = np.abs(a @ step).max(), length
        for _ in range(_HALVINGS):
            new = at(z + step_size * step)
            if new[0] >= value - 1e-9 * abs(value):
                break
            step_size *= 0.5
        else:
            break

        z = z + step_size * step
        gain, (value, derived) = new[0] - value, new
        if abs(gain) <= _GAIN * (1 + abs(value)) or (
            step_size == 1.0 and length <= _SMALL * data.unit
        ):
            break

    weights = _weights(derived, data.unit)
    factor = joint.posterior(prior, weights)
    evidence = value + 0.5 * (prior.log_determinant - factor.log_determinant)
    return LaplaceMode(z, derived, weights, prior, factor, evidence)


def gradient(
    joint: Joint, data: Data, likelihood: Likelihood, vector: np.ndarray, mode: LaplaceMode
) -> np.ndarray:
    """The slopes of the evidence in the coordinates of terms, then of the likelihood."""
    a, z = joint.a, mode.z
    slopes, pull = [], _pull(joint, mode)

    for slope in joint.slopes(vector):
        direct = (
            slope.log_determinant
            - float(z @ (slope.precision @ z))
            - mode.factor.trace(slope.precision)
        )
        slopes.append(0.5 * (direct + float(pull @ (slope.precision @ z))))

    eta, variances = a @ z + data.offset, mode.factor.variances(joint.observed)
    for parameter in data.parameters():
        x = parameter.coordinate(getattr(likelihood, parameter.name))
        ahead, behind = (
            derivatives(
                likelihood.replace(**{parameter.name: parameter.value(x + step)}),
                data.y,
                eta,
                data.unit,
            )
            for step in (_STEP, -_STEP)
        )

        change = [(one - other) / (2 * _STEP) for one, other in zip(ahead, behind, strict=True)]
        slopes.append(
            float(change[0].sum())
            + 0.5 * float(variances @ change[2])
            - 0.5 * float(pull @ (a.T @ change[1]))
        )
    return np.array(slopes)


def coefficient_gradient(joint: Joint, design: np.ndarray, mode: LaplaceMode) -> np.ndarray:
    """The slopes of the evidence in coefficients b whose part X b of eta is in the offset."""
    s = mode.factor.variances(joint.observed) * -mode.at.third
    inner = s - mode.weights * (joint.a @ _pull(joint, mode))
    return np.asarray(design.T @ (mode.at.first - 0.5 * inner))


def _pull(joint: Joint, mode: LaplaceMode) -> np.ndarray:
    """P^-1 A^T s with s_i = v_i dW_i / d eta_i."""
    s = mode.factor.variances(joint.observed) * -mode.at.third
    return mode.factor.solve(joint.a.T @ s)


def _weights(at: Derivatives, unit: float) -> np.ndarray:
    return np.maximum(-at.second, _LEAST / unit**2)
