"""Rows of new data: what they read of the fitted variables, and of variables that only they have."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from graphrf.gp.latent.posterior import Gaussian
from graphrf.gp.terms.axis import Extension
from graphrf.gp.terms.joint import Joint, JointFactor
from graphrf.operators.sparse.ordering import Elimination


class PredictedRows(NamedTuple):
    """eta = known z + sum_j s_j new_j e_j, with independent e_j.

    Attributes
    ----------
    known : csr_array, shape (m, n)
    extensions : list of (Extension, float)
        And the deviation s_j of the term.
    """

    known: sp.csr_array
    extensions: list[tuple[Extension, float]]

    def variances(self, joint: Joint, point: Gaussian) -> np.ndarray:
        """Of eta, shape (m,)."""
        factor = point.factor
        if not factor.holds(self.known):
            more = joint.with_rows(self.known)
            factor = more.posterior(more.prior(point.vector[: len(joint.parameters)]), point.sites.precision)
        total = factor.variances(self.known)
        for own, scale in self.extensions:
            total = total + scale**2 * _own_factor(own).variances(own.new)
        return np.maximum(total, 0.0)

    def more(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draws of the part of the new variables, shape (m, count)."""
        total = np.zeros((self.known.shape[0], count))
        for own, scale in self.extensions:
            total += scale * (own.new @ _own_factor(own).draws(rng.standard_normal((own.new.shape[1], count))))
        return total


def _own_factor(extension: Extension) -> JointFactor:
    """The factor of the precision of new variables."""
    pattern = sp.csr_array(abs(extension.precision) + abs(extension.new).T @ abs(extension.new))
    return JointFactor(extension.precision, Elimination.of(pattern), extension.constraints, pattern)
