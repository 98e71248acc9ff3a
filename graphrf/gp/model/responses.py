"""Observations of a latent function by any likelihood: their log densities, summed at each node."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from graphrf._base import checks
from graphrf._base.cached import cached_property
from graphrf.gp.likelihoods.likelihood import Likelihood
from graphrf.gp.model.settings import checked_targets


@dataclass(frozen=True)
class Responses:
    """n observations y of f + offset at m distinct nodes."""

    nodes: np.ndarray  # (m,) distinct, increasing
    place: np.ndarray  # (n,) position in `nodes` of each observation
    y: np.ndarray  # (n,) or (k, n), as the likelihood takes them
    offset: np.ndarray  # (n,) logarithm of the exposure, and the middle of the constant's prior
    basis: np.ndarray  # (m, b) basis of the mean function

    @classmethod
    def of(
        cls, positions: np.ndarray, y: np.ndarray, offset: np.ndarray, basis: np.ndarray
    ) -> Responses:
        """Responses from node positions of shape (n,), and the basis at all nodes, shape (N, b)."""
        nodes, place = np.unique(positions, return_inverse=True)
        return cls(nodes, place, y, offset, basis[nodes])

    def at(self, nodes: np.ndarray) -> Responses:
        """Responses at some of the nodes."""
        kept = np.isin(self.nodes[self.place], nodes)
        own, place = np.unique(self.place[kept], return_inverse=True)
        return replace(
            self,
            nodes=self.nodes[own],
            place=place,
            y=self.y[..., kept],
            offset=self.offset[kept],
            basis=self.basis[own],
        )

    def log_density(self, likelihood: Likelihood, f: np.ndarray) -> np.ndarray:
        """log p(y | f) of the observations at each node, -inf where it overflows, for f of shape
        (m, T).
        """
        order, first = self._order
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            own = likelihood.log_density(
                self.y[..., order, None], f[self.place[order]] + self.offset[order, None]
            )
        own = np.where(np.isnan(own), -np.inf, own)
        return own if order.size == first.size else np.add.reduceat(own, first, axis=0)

    @cached_property
    def _order(self) -> tuple[np.ndarray, np.ndarray]:
        """Observations by their nodes, and where those of each node begin."""
        order = np.argsort(self.place, kind="stable")
        return order, np.searchsorted(self.place[order], np.arange(self.nodes.size))


def checked_responses(
    likelihood: Likelihood, n: int, y: Any, exposure: Any, trials: Any, event: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """n observations as the likelihood takes them, and the logarithms of their exposures."""
    values, single = checked_targets(y, n)
    if not single:
        raise checks.value_error(
            "y",
            f"must have shape ({n},) with {likelihood!r}, which has one output; fit one at a time",
        )

    events = for_each("event", event, n)
    if events is None:
        y = likelihood.checked(values[:, 0], for_each("trials", trials, n))
    else:
        y = likelihood.with_events(values[:, 0], events)

    factors = for_each("exposure", exposure, n)
    if factors is None:
        likelihood.check_without_exposure()
        return y, np.zeros(n)
    offset = likelihood.log_exposure(y, factors)
    return y, offset


def for_each(name: str, values: Any, n: int) -> np.ndarray | None:
    """A number for each observation, from one or as many."""
    if values is None:
        return None
    array = checks.finite(name, checks.array(name, values, np.float64))
    if array.ndim > 1 or array.shape not in ((), (n,), (1,)):
        raise checks.value_error(
            name,
            f"must be a number or have shape ({n},), one for each observation, got {array.shape}",
        )
    return np.broadcast_to(array.reshape(-1), (n,))
