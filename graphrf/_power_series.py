"""Numerics of power series: the coefficients of the named kernels, their tails, and roots of a series.

Pure functions of numbers and arrays; `graphrf.kernels` gives them their meaning.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

Floats = np.ndarray


def poisson(n: int, mean: float) -> Floats:
    """The first n coefficients e^-mean mean^r / r! of exp(mean (x - 1)).

    Computed in logarithms outward from the largest one, so that no mean underflows and the error does not
    grow with it.
    """
    mode = int(mean)
    steps = np.log(mean / np.arange(1, max(n, mode + 1)))
    below = -np.cumsum(steps[:mode][::-1])[::-1]
    above = np.cumsum(steps[mode:])
    logs = np.concatenate([below, [0.0], above])[:n] + _log_poisson_at_mode(mode, mean)
    return np.asarray(np.exp(logs))


def _log_poisson_at_mode(mode: int, mean: float) -> float:
    if mode == 0:
        return -mean
    excess = mean - mode
    # log(mode!) - Stirling's formula
    if mode < 16:
        rest = math.lgamma(mode + 1.0) - (0.5 * math.log(2 * math.pi * mode) + mode * math.log(mode) - mode)
    else:
        rest = 1 / (12 * mode) - 1 / (360 * mode**3) + 1 / (1260 * mode**5)
    return mode * math.log1p(excess / mode) - excess - 0.5 * math.log(2 * math.pi * mode) - rest


def negative_binomial(n: int, power: float, odds: float) -> Floats:
    """The first n coefficients of (1 + odds (1 - x))^-power: (1+b)^-q (q)_r / r! a^r, a = b / (1 + b)."""
    r = np.arange(1, n, dtype=np.float64)
    steps = np.log1p((power - 1) / r) - np.log1p(1 / odds)
    if n > 1:
        steps[0] = math.log(power) - math.log1p(1 / odds)
    logs = np.concatenate([[0.0], np.cumsum(steps)])[:n] - power * math.log1p(odds)
    return np.asarray(np.exp(logs))


def harmonic(n: int, start: float) -> Floats:
    """sum_{i<r} 1 / (start + i) for r = 0 .. n-1: the derivative of log (start)_r in start."""
    return np.concatenate([[0.0], np.cumsum(1.0 / (start + np.arange(max(n - 1, 0))))])[:n]


def poisson_tail(length: int, mean: float) -> float:
    """sum_{r>length} e^-mean mean^r / r!, exactly (an incomplete gamma function)."""
    return 1.0 if length < 0 else float(special.gammainc(length + 1.0, mean))


def negative_binomial_tail(length: int, power: float, odds: float) -> float:
    """sum_{r>length} of `negative_binomial`, exactly (an incomplete beta function); the total is 1."""
    if length < 0:
        return 1.0
    return float(special.betaincc(power, length + 1.0, 1.0 / (1.0 + odds)))
