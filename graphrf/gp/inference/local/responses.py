"""Observations of a latent function by any likelihood: its log density and derivatives, summed at each node."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from graphrf.gp.likelihoods import Likelihood, differences

# A curvature below this share of the largest possible counts as that: an observation says at least so little.
_FLATTEST = 1e-10
# Steps of differences in the logarithms of a likelihood's parameters.
_STEP = 1e-3


class Local(NamedTuple):
    """What a likelihood says at the latent values of m nodes.

    Attributes
    ----------
    value : float
        log p(y | f).
    slope : ndarray, shape (m,)
        Its derivatives in f.
    curvature : ndarray, shape (m,)
        W: minus its second derivatives in f, where they are positive.
    """

    value: float
    slope: np.ndarray
    curvature: np.ndarray


class ParameterSlopes(NamedTuple):
    """Derivatives of `Local` in the logarithm of a likelihood's parameter, at fixed f."""

    value: float
    slope: np.ndarray
    curvature: np.ndarray


@dataclass(frozen=True)
class Responses:
    r"""n observations y of f + offset at m distinct nodes.

    Attributes
    ----------
    nodes : ndarray of int64, shape (m,)
        Distinct, increasing.
    place : ndarray of int64, shape (n,)
        The position in `nodes` of each observation.
    y : ndarray, shape (n,) or (k, n)
        As the likelihood takes them.
    offset : ndarray, shape (n,)
        Of each observation: logarithm of the exposure, and the middle of the constant's prior.
    basis : ndarray, shape (m, b)
        The mean function's basis at the nodes.
    """

    nodes: np.ndarray
    place: np.ndarray
    y: np.ndarray
    offset: np.ndarray
    basis: np.ndarray

    @classmethod
    def of(cls, positions: np.ndarray, y: np.ndarray, offset: np.ndarray, basis: np.ndarray) -> Responses:
        """From node positions of shape (n,), and the basis at all nodes, shape (N, b)."""
        nodes, place = np.unique(positions, return_inverse=True)
        return cls(nodes, place, y, offset, basis[nodes])

    def at(self, nodes: np.ndarray) -> Responses:
        """Those at some of the nodes."""
        kept = np.isin(self.nodes[self.place], nodes)
        own, place = np.unique(self.place[kept], return_inverse=True)
        return replace(
            self, nodes=self.nodes[own], place=place, y=self.y[..., kept], offset=self.offset[kept],
            basis=self.basis[own],
        )  # fmt: skip

    def local(self, likelihood: Likelihood, latent: np.ndarray) -> Local:
        """What the likelihood says at latent values of shape (m,)."""
        f = latent[self.place] + self.offset
        with np.errstate(over="ignore", invalid="ignore"):
            value = float(likelihood.log_density(self.y, f).sum())
            first, second = likelihood.derivatives(self.y, f)
            curvature = self._sum(-second)
        return Local(value if math.isfinite(value) else -math.inf, self._sum(first), positive(curvature))

    def information(self, likelihood: Likelihood, latent: np.ndarray) -> np.ndarray:
        """What the posterior takes for W, shape (m,), positive."""
        return positive(self._sum(likelihood.information(self.y, latent[self.place] + self.offset)))

    def thirds(self, likelihood: Likelihood, latent: np.ndarray) -> np.ndarray:
        """The derivatives of the curvature in f, shape (m,): 0 where it has been made positive."""
        bent = self._sum(-likelihood.third(self.y, latent[self.place] + self.offset))
        return np.where(self.hessian(likelihood, latent) >= 0, bent, 0.0)

    def hessian(self, likelihood: Likelihood, latent: np.ndarray) -> np.ndarray:
        """Minus the second derivatives of log p, negative ones too, shape (m,)."""
        curvature = self._sum(-likelihood.derivatives(self.y, latent[self.place] + self.offset)[1])
        return np.where(curvature < 0, curvature, positive(curvature))

    def parameter_slopes(self, likelihood: Likelihood, latent: np.ndarray, name: str) -> ParameterSlopes:
        """Derivatives in the logarithm of a parameter of the likelihood."""
        f = latent[self.place] + self.offset
        value = float(getattr(likelihood, name))

        def stacked(x: float) -> np.ndarray:
            moved = likelihood.replace(**{name: value * math.exp(x)})
            return np.stack([moved.log_density(self.y, f), *moved.derivatives(self.y, f)])

        changes = differences(stacked, _STEP)
        bent = np.where(self.hessian(likelihood, latent) >= 0, self._sum(-changes[2]), 0.0)
        return ParameterSlopes(float(changes[0].sum()), self._sum(changes[1]), bent)

    def _sum(self, values: np.ndarray) -> np.ndarray:
        """Added up at each node."""
        if self.place.size == self.nodes.size:
            result = np.empty(self.nodes.size)
            result[self.place] = values
            return result
        return np.bincount(
            self.place, weights=np.broadcast_to(values, self.place.shape), minlength=self.nodes.size
        )


def positive(curvature: np.ndarray) -> np.ndarray:
    """W of minus second derivatives, at least a vanishing share of its largest."""
    floor = max(_FLATTEST * float(curvature.max(initial=0.0)), 1e-100)
    return np.maximum(curvature, floor)
