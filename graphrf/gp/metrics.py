"""How good a prediction with uncertainty is: root mean square error, negative log density, coverage."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtri

from graphrf import _checks


def rmse(y: Any, mean: Any) -> float:
    r"""The root mean square error sqrt(mean (y - mean)^2).

    Examples
    --------
    >>> from graphrf.gp import metrics
    >>> metrics.rmse([1.0, 2.0], [1.0, 4.0])
    1.4142135623730951
    """
    y, mean = _arrays(y, mean=mean)
    return float(np.sqrt(np.mean(np.square(y - mean))))


def nlpd(y: Any, mean: Any, std: Any) -> float:
    r"""The mean negative log predictive density, in nats, of independent normal predictions.

    .. math:: \frac1n \sum_i \tfrac12 \log(2 \pi s_i^2) + \frac{(y_i - m_i)^2}{2 s_i^2}.

    For noisy y, `std` must include the noise (`return_std="observation"`).

    Examples
    --------
    >>> from graphrf.gp import metrics
    >>> round(metrics.nlpd([0.0], [0.0], [1.0]), 4)
    0.9189
    """
    y, mean, std = _arrays(y, mean=mean, std=std)
    _positive(std)
    return float(np.mean(0.5 * np.log(2 * np.pi * std**2) + 0.5 * np.square((y - mean) / std)))


def coverage(y: Any, mean: Any, std: Any, *, level: float = 0.95) -> float:
    """The share of y within the central intervals of the given level; honest deviations give about `level`.

    For noisy y, `std` must include the noise (`return_std="observation"`).

    Examples
    --------
    >>> from graphrf.gp import metrics
    >>> metrics.coverage([0.0, 1.0, 3.0, 0.5], [0.0] * 4, [1.0] * 4)
    0.75
    """
    level = _checks.number("level", level, low=0, high=1, include_low=False, include_high=False)
    y, mean, std = _arrays(y, mean=mean, std=std)
    _positive(std)
    return float(np.mean(np.abs(y - mean) <= ndtri(0.5 + 0.5 * level) * std))


def _arrays(y: Any, **others: Any) -> list[np.ndarray]:
    truth = _checks.finite("y", np.asarray(y, dtype=np.float64))
    if truth.size == 0:
        raise ValueError("`y` must hold at least one value, got none")
    result = [truth]
    for name, value in others.items():
        array = _checks.finite(name, np.asarray(value, dtype=np.float64))
        if array.shape != truth.shape:
            raise ValueError(f"`{name}` must have the shape of `y`, {truth.shape}, got {array.shape}")
        result.append(array)
    return result


def _positive(std: np.ndarray) -> None:
    if (std <= 0).any():
        raise ValueError(
            f"`std` must be greater than 0, got {float(std.min()):g}; of noisy values it includes the noise "
            '(predict(..., return_std="observation"))'
        )
