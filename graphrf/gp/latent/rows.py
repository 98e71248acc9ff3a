"""Rows of new data: what they read of the fitted variables, and of variables that only they have."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from graphrf.gp.latent.posterior import Gaussian
from graphrf.gp.terms.axis import Extension
from graphrf.gp.terms.joint import Joint, JointFactor
from graphrf.gp.terms.layout import Layout


class PredictedRows(NamedTuple):
    """eta = known z + sum_j s_j new_j e_j with independent e_j; `extensions` are pairs of new_j and s_j."""

    known: sp.csr_array
    extensions: list[tuple[Extension, float]]

    def variances(self, joint: Joint, point: Gaussian) -> np.ndarray:
        """The variances of eta, shape (m,), of which the pattern of `joint` holds the known part."""
        factor = point.factor
        if joint.layout is not factor.layout:
            factor = joint.posterior(joint.prior(point.vector[: len(joint.parameters)]), point.sites.precision)
        total = factor.variances(joint.layout.rows(self.known))
        for own, scale in self.extensions:
            new = _own_factor(own)
            total = total + scale**2 * new.variances(new.layout.rows(own.new))
        return np.maximum(total, 0.0)

    def held_by(self, joint: Joint) -> Joint:
        """The same variables, with a pattern that holds the known part."""
        try:
            joint.layout.rows(self.known)
        except KeyError:
            return joint.with_rows(self.known)
        return joint

    def more(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draws of the part of the new variables, shape (m, count)."""
        total = np.zeros((self.known.shape[0], count))
        for own, scale in self.extensions:
            total += scale * (own.new @ _own_factor(own).draws(rng.standard_normal((own.new.shape[1], count))))
        return total


def _own_factor(extension: Extension) -> JointFactor:
    """The factor of the precision of new variables."""
    layout = Layout.of([extension.precision, abs(extension.new).T @ abs(extension.new)])
    kept, places = layout.places(extension.precision)
    lower = np.zeros(layout.keys.size)
    lower[places] = extension.precision.data[kept]
    return JointFactor(layout, lower, extension.constraints)
