"""Quantiles of a new observation, from the distribution of f and the likelihood."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import expit, logit, ndtri

from graphrf._base.rows import slices
from graphrf.gp.likelihoods.likelihood import known
from graphrf.gp.likelihoods.real import NormalNoise
from graphrf.gp.posterior.approximation.integrals import monotone_average
from graphrf.gp.posterior.marginals import MarginalMixture, Marginals, require_quantiles

# Nodes at once; steps by which a bracket is widened and narrowed; and the error of a level, in normal deviates.
_ROWS, _WIDENED, _NARROWED, _ERROR = 1_000, 200, 200, 1e-9
# Probabilities whose normal deviates are finite.
_LEAST, _MOST = 1e-300, 1 - 1e-16

Map = Callable[[np.ndarray], np.ndarray]


def observed_quantiles(law: Marginals | MarginalMixture, levels: np.ndarray) -> np.ndarray:
    r"""Quantiles of a new observation at each node, shape (q, levels): the least y with P(Y <= y) >= level.

    .. math:: P(Y \le y) = \sum_k p_k \int P(Y \le y \mid f, \phi_k) \, N(f; m_k, v_k) \, df
    """
    parts, probabilities = ([law], np.ones(1)) if isinstance(law, Marginals) else law
    if all(isinstance(part.likelihood, NormalNoise) for part in parts):
        return law.with_noise([known(part.likelihood.scale) ** 2 for part in parts]).quantiles(levels)
    size = parts[0].mean.size
    require_quantiles(size, levels.size)
    result = np.empty((size, levels.size))
    for block in slices(size, _ROWS):
        rows = np.arange(block.start, block.stop)
        result[block] = _searched([part.at(rows) for part in parts], probabilities, levels)
    return result


def _searched(parts: list[Marginals], probabilities: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Quantiles of a few nodes, by false positions (Illinois) and bisection."""
    like = parts[0].likelihood
    (least, most), whole = like.support, like.whole
    into, back = _coordinate(least, most, whole)
    wanted = ndtri(levels)
    stds = [np.sqrt(part.variance)[:, None] for part in parts]

    def excess(t: np.ndarray) -> np.ndarray:
        y = np.clip(back(t), least, most)[..., None]
        below = [
            monotone_average(
                lambda f, part=part: part.likelihood.at_most(y, f),
                np.broadcast_to(part.mean[:, None], t.shape), np.broadcast_to(std, t.shape),
            )
            for part, std in zip(parts, stds, strict=True)
        ]  # fmt: skip
        p = np.tensordot(probabilities, np.array(below), axes=1)
        if whole:
            p = np.where(t < least, 0.0, np.where(t >= most, 1.0, p))
        return np.asarray(ndtri(np.clip(p, _LEAST, _MOST)) - wanted)

    with np.errstate(over="ignore", divide="ignore"):
        start = into(np.asarray(like.mean(parts[0].mean), dtype=np.float64))[:, None]
    unit = np.maximum(stds[0], 1e-6 * np.abs(start)) if math.isinf(least) and math.isinf(most) else 1.0
    unit = np.broadcast_to(np.maximum(unit, np.finfo(np.float64).tiny), (start.size, levels.size))
    ends = []
    for sign in (-1.0, 1.0):
        step = sign * unit.copy()
        end = start + step
        own = excess(end)
        for _ in range(_WIDENED):
            inside = sign * own < 0
            if not inside.any():
                break
            step = np.where(inside, 2 * step, step)
            end = np.where(inside, end + step, end)
            own = excess(end)
        ends += [end, own]
    return back(_between(excess, *ends, whole, unit))


def _between(
    excess: Map, low: np.ndarray, below: np.ndarray, high: np.ndarray, above: np.ndarray, whole: bool,
    unit: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """The roots of an increasing function between ends; the least whole numbers at which it is not negative."""
    last = np.zeros(low.shape)
    for step in range(_NARROWED):
        active = high - low > (1.0 if whole else _ERROR * unit)
        if not active.any():
            break
        with np.errstate(invalid="ignore", divide="ignore"):
            middle = (low * above - high * below) / (above - below)
        middle = np.where((step % 3 < 2) & (low < middle) & (middle < high), middle, 0.5 * (low + high))
        if whole:
            middle = np.clip(np.floor(middle), low + 1, high - 1)
        middle = np.where(active, middle, high)
        own = excess(middle)
        up = own >= 0
        below = np.where(up, np.where(last > 0, 0.5 * below, below), own)
        above = np.where(up, own, np.where(last < 0, 0.5 * above, above))
        low = np.where(active & ~up, middle, low)
        high = np.where(active & up, middle, high)
        last = np.where(up, 1.0, -1.0)
        if not whole:
            done = active & (np.abs(own) < _ERROR)
            low, high = np.where(done, middle, low), np.where(done, middle, high)
    return high if whole else 0.5 * (low + high)


def _coordinate(least: float, most: float, whole: bool) -> tuple[Map, Map]:
    """A map of observations onto the real line, or whole numbers, and its inverse."""
    if whole:
        return lambda y: np.clip(np.floor(y), least, min(most, 2.0**53)), lambda t: t
    if math.isinf(least) and math.isinf(most):
        return lambda y: y, lambda t: t
    if math.isinf(most):
        return lambda y: np.clip(np.log(y - least), -700, 700), lambda t: least + np.exp(t)
    if math.isinf(least):
        return lambda y: np.clip(-np.log(most - y), -700, 700), lambda t: most - np.exp(-t)
    return (
        lambda y: np.clip(logit((y - least) / (most - least)), -36, 36),
        lambda t: least + (most - least) * expit(t),
    )
