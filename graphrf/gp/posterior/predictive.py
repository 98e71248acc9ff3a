"""Quantiles of a new observation."""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import expit, ndtri

from graphrf._base.rows import slices
from graphrf.gp.likelihoods.likelihood import Likelihood, known
from graphrf.gp.likelihoods.real import NormalNoise
from graphrf.gp.posterior.approximation.integrals import monotone_average
from graphrf.gp.posterior.marginals import MarginalMixture, require_quantiles

# Pairs of a node and a level at once; the most steps that widen or narrow a bracket; the error of a
# level, in normal deviates.
_PAIRS, _STEPS, _ERROR = 3_000, 200, 1e-7
# Probabilities whose normal deviates are finite.
_LEAST, _MOST = 1e-300, 1 - 1e-16


def observed_quantiles(law: MarginalMixture, levels: np.ndarray) -> np.ndarray:
    r"""Quantiles of a new observation at each node, shape (q, levels): the least y with P(Y <= y)
    >= level.

    .. math:: P(Y \le y) = \sum_k p_k \int P(Y \le y \mid f, \phi_k) \, N(f; m_k, v_k) \, df
    """
    likelihoods = [part.likelihood for part in law.parts]
    if all(isinstance(each, NormalNoise) for each in likelihoods):
        return law.with_noise([known(each.scale) ** 2 for each in likelihoods]).quantiles(levels)
    size = law.centre.size
    require_quantiles(size, levels.size)
    result = np.empty((size, levels.size))
    for block in slices(size, max(1, _PAIRS // levels.size)):
        result[block] = _searched(law.at(np.arange(block.start, block.stop)), levels)
    return result


def _searched(law: MarginalMixture, levels: np.ndarray) -> np.ndarray:
    """Quantiles of a few nodes: those of one normal distribution with the mixture's moments, and
    from these.
    """
    parts = law.parts
    wanted = np.broadcast_to(ndtri(levels), (parts[0].mean.size, levels.size)).ravel()
    row = np.repeat(np.arange(parts[0].mean.size), levels.size)

    likelihood = parts[int(np.argmax(law.probabilities))].likelihood
    mean = law.centre[row]
    scale = _Scale.of(likelihood)
    start = scale.start(likelihood.mean(mean))

    unit = np.ones(row.size)
    if scale.real:
        unit = np.maximum(
            np.sqrt(law.moments()[1])[row], 1e-6 * np.abs(start) + np.finfo(np.float64).tiny
        )

    if len(parts) > 1:
        alone = MarginalMixture.alone(*law.moments(), likelihood)
        at_alone = _rooted(_Excess(alone, scale, row, wanted), start, unit, unit)
        start = np.where(np.isfinite(at_alone), at_alone, start)

    step = unit if len(parts) == 1 or scale.whole else 0.05 * unit
    return scale.back(_rooted(_Excess(law, scale, row, wanted), start, step, unit)).reshape(
        -1, levels.size
    )


class _Scale(NamedTuple):
    """A map of observations onto the real line, or whole numbers."""

    least: float
    most: float
    whole: bool

    @classmethod
    def of(cls, likelihood: Likelihood) -> _Scale:
        return cls(*likelihood.support, likelihood.whole)

    @property
    def real(self) -> bool:
        return math.isinf(self.least) and math.isinf(self.most)

    def start(self, y: np.ndarray) -> np.ndarray:
        """Coordinates near those of y, within the range of numbers."""
        if self.whole:
            return np.clip(np.floor(y), self.least, min(self.most, 2.0**53))
        with np.errstate(divide="ignore", over="ignore"):
            above, below = np.log(y - self.least), np.log(self.most - y)
        t = above if math.isinf(self.most) else -below if math.isinf(self.least) else above - below
        return np.asarray(y if self.real else np.clip(t, -700.0, 700.0), dtype=np.float64)

    def back(self, t: np.ndarray) -> np.ndarray:
        """The observations of coordinates."""
        if self.whole or self.real:
            return np.clip(t, self.least, self.most)
        if math.isinf(self.most):
            return np.asarray(self.least + np.exp(t))
        if math.isinf(self.least):
            return np.asarray(self.most - np.exp(-t))
        return np.asarray(self.least + (self.most - self.least) * expit(t))


class _Excess(NamedTuple):
    """The normal deviates of P(Y <= y) beyond those wanted, for pairs of a node and a level."""

    law: MarginalMixture
    scale: _Scale
    row: np.ndarray  # the node of each pair
    wanted: np.ndarray

    def above_least(self) -> np.ndarray:
        """The pairs whose quantile is above the least observation, where that has a probability."""
        every, least = np.arange(self.row.size), np.array([self.scale.least])
        if self.scale.whole or not self.law.parts[0].likelihood.is_atom(least).any():
            return every
        return every[self(np.full(every.size, -np.inf), every) < 0]

    def __call__(self, t: np.ndarray, pairs: np.ndarray) -> np.ndarray:
        """The differences for some of the pairs, at coordinates of y."""
        row, y = self.row[pairs], self.scale.back(t)[:, None]
        p = np.zeros(row.size)
        for part, weight in zip(self.law.parts, self.law.probabilities.tolist(), strict=True):
            std = np.sqrt(part.variance[row])
            p += weight * monotone_average(partial(part.likelihood.at_most, y), part.mean[row], std)
        if self.scale.whole:
            p = np.where(t < self.scale.least, 0.0, np.where(t >= self.scale.most, 1.0, p))
        return np.asarray(ndtri(np.clip(p, _LEAST, _MOST)) - self.wanted[pairs])


def _rooted(excess: _Excess, start: np.ndarray, step: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """Roots, -inf where the least observation alone has the probability of the level."""
    result, pairs = np.full(start.size, -np.inf), excess.above_least()
    some = excess._replace(row=excess.row[pairs], wanted=excess.wanted[pairs])
    result[pairs] = _bracketed(some, start[pairs], step[pairs], unit[pairs])
    return result


def _bracketed(
    excess: _Excess, start: np.ndarray, step: np.ndarray, unit: np.ndarray
) -> np.ndarray:
    """Roots by false positions (Illinois) and bisection; the least whole numbers of which none is
    negative.
    """
    is_whole, every = excess.scale.whole, np.arange(start.size)
    at_start = excess(start, every)
    low, below, high, above = start.copy(), at_start.copy(), start.copy(), at_start.copy()

    for end, value, sign in ((low, below, -1.0), (high, above, 1.0)):
        pairs, width = every[at_start >= 0 if sign < 0 else at_start < 0], step.copy()
        for _ in range(_STEPS):
            if not pairs.size:
                break
            end[pairs] += sign * width[pairs]
            width[pairs] *= 2
            value[pairs] = excess(end[pairs], pairs)
            pairs = pairs[value[pairs] >= 0 if sign < 0 else value[pairs] < 0]

    last = np.zeros(start.size)
    for count in range(_STEPS):
        pairs = np.flatnonzero(high - low > (1.0 if is_whole else _ERROR * unit))
        if not pairs.size:
            break
        a, b, fa, fb = low[pairs], high[pairs], below[pairs], above[pairs]
        middle = 0.5 * (a + b) if count % 3 == 2 else (a * fb - b * fa) / (fb - fa)
        middle = np.clip(np.floor(middle), a + 1, b - 1) if is_whole else np.clip(middle, a, b)
        at_middle = excess(middle, pairs)

        up = at_middle >= 0
        below[pairs] = np.where(up, np.where(last[pairs] > 0, 0.5 * fa, fa), at_middle)
        above[pairs] = np.where(up, at_middle, np.where(last[pairs] < 0, 0.5 * fb, fb))
        last[pairs] = np.where(up, 1.0, -1.0)
        near = (np.abs(at_middle) < _ERROR) & (not is_whole)
        low[pairs], high[pairs] = np.where(up & ~near, a, middle), np.where(up | near, middle, b)

    return high if is_whole else 0.5 * (low + high)
