"""The posterior of all variables: normal for known hyperparameters, and a mixture of these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from graphrf.gp.latent import joint_expectation_propagation
from graphrf.gp.latent.data import Data
from graphrf.gp.likelihoods.likelihood import Likelihood
from graphrf.gp.posterior.approximation.expectation_propagation import Normal, Sites
from graphrf.gp.terms.joint import Joint, JointFactor
from graphrf.gp.terms.levels import Extension
from graphrf.gp.terms.term import BoundTerm
from graphrf.operators.sparse.layout import PatternRows, VariableLayout


class Gaussian(NamedTuple):
    """z ~ N(mean, S) for known hyperparameters."""

    mean: np.ndarray
    factor: JointFactor  # of S^-1
    vector: np.ndarray  # coordinates of all hyperparameters
    likelihood: Likelihood
    sites: Sites  # precisions and shifts of the rows of A
    eta: Normal  # means and variances of eta at the observations
    log_evidence: float
    settled: bool


def posterior_at(
    joint: Joint, data: Data, vector: np.ndarray, sites: Sites, *, rounds: bool
) -> Gaussian:
    """The posterior at coordinates of hyperparameters, from some sites; they stay as they are
    without `rounds`.
    """
    n = len(joint.parameters)
    likelihood = data.likelihood_at(vector[n:])

    if rounds:
        at = joint_expectation_propagation.approximation(
            joint, data, likelihood, vector[:n], sites=sites, enough=0.0
        )
        result = at.approximation
        return Gaussian(
            at.z,
            at.factor,
            vector,
            likelihood,
            result.sites,
            result.normal,
            result.log_evidence,
            result.settled,
        )

    prior = joint_expectation_propagation.JointPrior(joint, joint.prior(vector[:n]))
    eta = prior.condition(*sites)
    return Gaussian(prior.mean, prior.factor, vector, likelihood, sites, eta, np.nan, True)


class PredictedRows(NamedTuple):
    """eta = known z + sum_j s_j new_j e_j with independent e_j; `extensions` are pairs of new_j and
    s_j.
    """

    known: sp.csr_array
    extensions: list[tuple[Extension, float]]

    def variances(self, joint: Joint, known: PatternRows, point: Gaussian) -> np.ndarray:
        """The variances of eta, shape (m,), where the pattern of `joint` holds the known part."""
        factor = point.factor
        if joint.layout is not factor.layout:
            factor = joint.posterior(
                joint.prior(point.vector[: len(joint.parameters)]), point.sites.precision
            )
        total = factor.variances(known)
        for each, scale in self.extensions:
            new = _own_factor(each)
            total = total + scale**2 * new.variances(new.layout.rows(each.new))
        return np.maximum(total, 0.0)

    def held_by(self, joint: Joint) -> tuple[Joint, PatternRows]:
        """The same variables with a pattern that holds the known part, and this part in it."""
        try:
            return joint, joint.layout.rows(self.known)
        except KeyError:
            wider = joint.with_rows(self.known)
            return wider, wider.layout.rows(self.known)

    def more(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draws of the part of the new variables, shape (m, count)."""
        total = np.zeros((self.known.shape[0], count))
        for each, scale in self.extensions:
            total += scale * (
                each.new @ _own_factor(each).draws(rng.standard_normal((each.new.shape[1], count)))
            )
        return total


def _own_factor(extension: Extension) -> JointFactor:
    """The factor of the precision of new variables."""
    layout = VariableLayout.of([extension.precision, abs(extension.new).T @ abs(extension.new)])
    kept, places = layout.places(extension.precision)
    lower = np.zeros(layout.keys.size)
    lower[places] = extension.precision.data[kept]
    return JointFactor(layout, lower, extension.constraints)


def rows_of(
    terms: Sequence[BoundTerm], parts: Sequence[sp.csr_array | None], design: np.ndarray
) -> sp.csr_array:
    """Rows for all variables, from those of each term (None is 0) and of the coefficients."""
    blocks = [
        sp.csr_array((len(design), term.structure.size)) if part is None else part
        for term, part in zip(terms, parts, strict=True)
    ]
    return sp.csr_array(sp.hstack([*blocks, sp.csr_array(design)], format="csr"))


def units(n: int, places: np.ndarray) -> sp.csr_array:
    """Unit rows for the variables at some places."""
    m = places.size
    return sp.csr_array((np.ones(m), (np.arange(m), places)), shape=(m, n))
