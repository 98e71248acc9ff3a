r"""K[S, S] between the lengthscales at which it was evaluated: a search asks for dozens that are near each other.

K is an analytic function of the logarithm of the lengthscale. Round a lengthscale l_0 that is asked for again and
again it is interpolated at Chebyshev points t_j of log l = log l_0 + h t, with its slope (Hermite),

.. math:: K(l) \approx \sum_{k < 2 n} C_k T_k(t), \qquad
          \frac{\partial K}{\partial l} \approx \frac{1}{h l} \sum_{k < 2 n} C_k T_k'(t),

with C_k from n evaluations of K and its slope, which cost little more than K alone. All values g of the spectrum
are interpolated by the same weights, so that the error in operator norm is at most the worst over the spectrum:
with h = log(2) / 4 and 6 points below 1e-11 of max g for `Diffusion`, `RegularizedLaplacian`, and `Matern` with nu
up to 3. The C_k fall geometrically, and the last of them tell for the K at hand how large the sum of those left
out is; where it is not small, nothing is interpolated.

Source: Trefethen, "Approximation Theory and Approximation Practice", SIAM 2013, ch. 8.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev

from graphrf.kernels.kernel import Kernel

# Points of a panel, and half its width in log l.
POINTS, HALF_WIDTH = 6, 0.25 * math.log(2.0)
# The terms left out may be so large beside K, in Frobenius norm.
_TOLERANCE = 1e-9
# Lengthscales within half a width after which a panel is worth its points.
_PATIENCE = 6
# So small, beside K, is rounding alone.
_ROUNDING = 1e-13
# Numbers of a panel, and panels that are kept.
_MOST_NUMBERS = 48_000_000
_MOST_PANELS = 2
_CHUNK = 65_536

Values = tuple[np.ndarray, list[np.ndarray]]


class _Panel:
    """One interpolation; `terms` is None where K is not smooth enough."""

    def __init__(self, key: tuple[Any, ...], centre: float, conditions: Iterable[np.ndarray]) -> None:
        self.key, self.centre = key, centre
        values = np.stack(list(conditions))
        self._shape = values.shape[1:]
        flat = values.reshape(2 * POINTS, -1)
        turn = np.linalg.inv(np.vstack([_values_of_terms(t) for t in points()]))
        for start in range(0, flat.shape[1], _CHUNK):
            flat[:, start : start + _CHUNK] = turn @ flat[:, start : start + _CHUNK]
        self._terms = flat if _left_out(flat) <= _TOLERANCE * float(np.linalg.norm(flat[0])) else None

    def covers(self, key: tuple[Any, ...], place: float) -> bool:
        return abs(place - self.centre) <= HALF_WIDTH and key == self.key

    def __call__(self, place: float, slope: bool) -> Values | None:
        if self._terms is None:
            return None
        t = (place - self.centre) / HALF_WIDTH
        weights = _values_of_terms(t)[: 2 if slope else 1]
        weights[1:] /= HALF_WIDTH * math.exp(place)
        matrix, *slopes = (weights @ self._terms).reshape(-1, *self._shape)
        return matrix, slopes


def _values_of_terms(t: float) -> np.ndarray:
    """T_k(t) and T_k'(t), shape (2, terms)."""
    slopes = chebyshev.chebval(t, chebyshev.chebder(np.eye(2 * POINTS)))
    return np.vstack([chebyshev.chebvander(np.array([t]), 2 * POINTS - 1)[0], slopes])


def _left_out(terms: np.ndarray) -> float:
    """About the norm of all terms beyond the last if they go on to fall as the last three; inf if these rise."""
    third, _, last = (float(np.linalg.norm(term)) for term in terms[-3:])
    if last <= _ROUNDING * float(np.linalg.norm(terms[0])):
        return last
    ratio = math.sqrt(last / third) if third > 0 else 1.0
    return last * ratio / (1.0 - ratio) if ratio < 1.0 else math.inf


class Lengthscales:
    """K[S, S] of any kernel and its derivatives, by interpolation where lengthscales are near each other.

    What was computed last is not computed again.

    Parameters
    ----------
    direct : callable
        direct(kernel, names): K[S, S] and its derivatives.
    size : int
        m, the nodes of S. A panel takes 12 m^2 numbers; there are none above 2,000 nodes.
    slow : callable
        Whether `direct` takes so long that a panel is worth its points, asked after evaluations.
    """

    def __init__(
        self, direct: Callable[[Kernel, Sequence[str]], Values], size: int, slow: Callable[[], bool]
    ) -> None:
        self._direct = direct
        self._slow = slow
        self._affordable = 2 * POINTS * size**2 <= _MOST_NUMBERS
        self._asked: set[tuple[tuple[Any, ...], float]] = set()
        self._panels: list[_Panel] = []
        self._last: tuple[Any, tuple[str, ...], Values] | None = None

    def __call__(self, kernel: Kernel, names: Sequence[str]) -> Values:
        """The matrix, shape (m, m), and a derivative of that shape for each of the named hyperparameters."""
        value = kernel.hyperparameters.get("lengthscale")
        family = _family(kernel)
        if (
            self._last is not None
            and self._last[0] == (family, value)
            and (self._last[1] == tuple(names) or not names)
        ):
            matrix, slopes = self._last[2]
            return matrix, slopes if names else []
        found = None
        if self._affordable and value is not None and all(name == "lengthscale" for name in names):
            found = self._interpolated(kernel, family, math.log(value), bool(names))
        if found is None:
            found = self._direct(kernel, names)
        for array in (found[0], *found[1]):
            array.setflags(write=False)  # it may be given again
        self._last = (family, value), tuple(names), found
        return found

    def _interpolated(self, kernel: Kernel, family: tuple[Any, ...], place: float, slope: bool) -> Values | None:
        """The matrix and its slope by the panel round a place; None where there is none, and none is worth it."""
        for panel in self._panels:
            if panel.covers(family, place):
                return panel(place, slope)
        self._asked.add((family, place))
        near = sum(abs(place - other) <= HALF_WIDTH and family == own for own, other in self._asked)
        if near <= _PATIENCE or not self._slow():
            return None
        self._panels = [
            _Panel(family, place, self._conditions(kernel, place)), *self._panels[: _MOST_PANELS - 1]
        ]  # fmt: skip
        return self._panels[0](place, slope)

    def _conditions(self, kernel: Kernel, place: float) -> Iterator[np.ndarray]:
        """The matrix and its derivative in t at the points round a place."""
        for t in points():
            value = math.exp(place + HALF_WIDTH * float(t))
            matrix, (slope,) = self._direct(kernel.replace(lengthscale=value), ("lengthscale",))
            yield matrix
            yield HALF_WIDTH * value * slope


def points() -> np.ndarray:
    """The Chebyshev points of the first kind in [-1, 1], shape (6,)."""
    return np.asarray(chebyshev.chebpts1(POINTS))


def _family(kernel: Kernel) -> tuple[Any, ...]:
    """Type of a kernel and its hyperparameters other than the lengthscale."""
    others = (part.name for part in dataclasses.fields(kernel) if part.name != "lengthscale")
    return (type(kernel), *(getattr(kernel, name) for name in others))
