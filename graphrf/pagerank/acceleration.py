"""Acceleration of power iteration by extrapolation."""

from __future__ import annotations

import math

# Chosen on grids, stars, random, scale-free, small-world and clustered graphs, p_halt 0.02 to 0.5,
# from one node and from all: half as many iterations at p_halt 0.15 and tol 1e-12, and never more
# than two additional ones.
_FIRST = 4  # iterations before the first estimate, in which fast components decay
_WINDOW = 6  # iterations over which the decrease is measured
# Maximum of the first estimate as a share of the largest radius: it can only increase.
_FIRST_SHARE = 0.6
_SLOW = 1.1  # ratio of the decrease to the predicted one above which the radius is raised


class Acceleration:
    r"""The extrapolation of a vector on an undirected graph: P has real eigenvalues.

    .. math:: x_{k+1} = \omega (F(x_k) - x_{k-1}) + x_{k-1}, \qquad \omega = 2 / (1 + \sqrt{1 -
        r^2})

    for the map F of power iteration. Errors along eigenvalues up to r in size fall by
    sqrt(omega - 1) an iteration, which is well below r; those above r still fall faster than by F
    alone. So r need not be exact: it starts low, and when the change falls more slowly than
    predicted, the eigenvalue that explains this is the next r, up to 1 - p_halt, the bound of all
    of them. Sums are preserved, as by F.

    Source: Golub and Varga, Numer. Math. 3, 1961 (second-order Richardson iteration).
    """

    def __init__(self, walk: float) -> None:
        self.weight: float = 1.0
        self._walk = walk  # 1 - p_halt
        self._radius = 0.0
        self._changes: list[float] = []
        self._settled = False

    def observe(self, change: float) -> None:
        """Note the L1 norm of F(x_k) - x_k, and set `weight`, omega, for the next iteration."""
        if self._settled or not change > 0:
            return
        self._changes.append(change)
        k = len(self._changes)
        if k < _FIRST:
            return
        if k == _FIRST:
            self._radius = min(self._changes[-1] / self._changes[-2], _FIRST_SHARE * self._walk)
        elif (k - _FIRST) % _WINDOW == 0:
            decrease = (change / self._changes[-1 - _WINDOW]) ** (1 / _WINDOW)
            slower = decrease / math.sqrt(self.weight - 1)
            if slower > _SLOW:
                self._radius = min(max(1.0, (slower + 1 / slower) / 2) * self._radius, self._walk)
        self._radius = max(self._radius, 1e-3 * self._walk)
        self.weight = 2 / (1 + math.sqrt((1 - self._radius) * (1 + self._radius)))

    def settle(self) -> None:
        """Use plain steps from now on, so that the last change is one of F."""
        self.weight = 1.0
        self._settled = True
