"""The noise that the data leave open.

Where a signal varies about as much from one observed node to the next as over the graph, a smooth kernel with
noise and a rougher one with less noise explain the values about equally well: the rough kernel takes noise for
signal. If the signal was smooth, intervals at observed nodes are then far too narrow. So every kernel that the
data leave open is asked how large the noise is, and so is diffusion, the smoothest of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from graphrf.gp.training.grid import HyperparameterGrid, log_sum_exp

# Nats by which noises are less probable than the most probable one that are not worth a place on a grid, and those
# of noises beyond the grid.
_IMPROBABLE, _BEYOND = 7.0, 30.0
# Nats of its likelihood that a kernel may lose by noise that another one suggests; if these are more, as many for
# each observation, or those by which the other one explains the values better.
_LOSS, _LOSS_EACH = 4.0, 0.01
# The probability with which noise may exceed the larger noise that is taken beside the one found; noise is larger
# from the first factor on, and sought up to the second, at so many values.
_EXCEEDED = 0.1
_LARGER, _LARGEST, _TRIED = 1.5, 1e6, 400


class NoiseOpinion(NamedTuple):
    """What a kernel says of the noise.

    Attributes
    ----------
    noises : ndarray
        Variances, in equal steps of the logarithm.
    log_marginal : ndarray
        The logarithms of their probabilities.
    weight : float
        The probability of the kernel.
    lead : float
        Nats by which it explains the values better than the kernel that is told.
    """

    noises: np.ndarray
    log_marginal: np.ndarray
    weight: float
    lead: float = 0.0

    @classmethod
    def of(cls, grid: HyperparameterGrid, weight: float, lead: float = 0.0) -> NoiseOpinion:
        """That of a kernel on its grid."""
        return cls(grid.noises, grid.log_noise_marginal, weight, lead)

    def moved(self, noise: float, weight: float, lead: float) -> NoiseOpinion:
        """The same opinion about another most probable noise, with another weight and lead."""
        factor = noise / self.noises[int(np.argmax(self.log_marginal))]
        return self._replace(noises=factor * self.noises, weight=weight, lead=lead)

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest noise that are not improbable."""
        kept = self.noises[self.log_marginal >= self.log_marginal.max() - _IMPROBABLE]
        return float(kept[0]), float(kept[-1])

    def mixed(self, posterior: np.ndarray, noises: np.ndarray) -> np.ndarray:
        """The log probabilities of another kernel's hyperparameters when this opinion of its noise has its weight.

        `posterior` are those before, shape (lengthscales, output scales, noises). Given the noise, the others stay
        as probable as they were. Noise at which that kernel loses too much of its likelihood stays as improbable.
        """
        own = log_sum_exp(posterior, axis=(0, 1))
        possible = np.isfinite(own)
        told = self._log_density(noises)
        told = told - log_sum_exp(told[possible]) + np.minimum(own - own.max() + max(_LOSS, self.lead), 0.0)
        mixed = np.logaddexp(np.log1p(-self.weight) + own, np.log(self.weight) + told + log_sum_exp(own))
        mixed += log_sum_exp(own) - log_sum_exp(mixed)
        return posterior + np.where(possible, mixed - own, 0.0)

    def _log_density(self, noises: np.ndarray) -> np.ndarray:
        """In the logarithm of the noise, up to a constant."""
        beyond = float(self.log_marginal.max()) - _BEYOND
        return np.interp(np.log(noises), np.log(self.noises), self.log_marginal, left=beyond, right=beyond)

    def exceeds(self, noises: np.ndarray) -> np.ndarray:
        """The probabilities, times the weight, of noise larger than each of some."""
        probabilities = np.exp(self.log_marginal - log_sum_exp(self.log_marginal))
        # each noise stands for the cell around it
        ends = np.log(self.noises) + 0.5 * np.log(self.noises[1] / self.noises[0])
        below = np.interp(np.log(noises), ends, np.cumsum(probabilities), left=0.0, right=1.0)
        return self.weight * (1 - below)


def larger_noise(noise: float, opinions: Sequence[NoiseOpinion]) -> tuple[float, float]:
    """Noise that is hardly exceeded, and the probability of much larger noise than `noise`, or 0.

    The probability is that of the opinions with their weights; the rest of the probability is for `noise`.
    """
    larger = noise * np.geomspace(_LARGER, _LARGEST, _TRIED)
    exceeds = sum((opinion.exceeds(larger) for opinion in opinions), np.zeros(_TRIED))
    unsure = np.flatnonzero(exceeds > _EXCEEDED)
    return (float(larger[unsure[-1]]), float(exceeds[0])) if unsure.size else (noise, 0.0)


def is_larger(noise: float, found: float) -> bool:
    """Whether noise is so much larger than what was found that predictions are averaged over both."""
    return noise >= _LARGER * found


def affordable_loss(n: int, opinions: Sequence[NoiseOpinion]) -> float:
    """Nats of the likelihood of n observations that a kernel may lose by the noise that others suggest."""
    return max(_LOSS, _LOSS_EACH * n, *(opinion.lead for opinion in opinions))
