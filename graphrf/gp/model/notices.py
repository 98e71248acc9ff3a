"""Warnings of data from which little or something wrong is learned, the same in all estimators."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from graphrf._base.warn import warn
from graphrf.graph.graph import Graph
from graphrf.graph.notices import of_few_edges

# Observations below which hyperparameters rest on their priors.
FEW = 10
# Observations below which data cannot decide between two models.
DECIDING = 20
# A repeated value is taken for a placeholder if it occurs so often, and that many times as often as other values
# near it, and lies so many (robust) standard deviations from the median of the others.
_REPEATS, _NEIGHBOURS, _AWAY = 3, 3, 3.0
# A ratio of mean and median of a rate: of a lognormal distribution whose logarithm has a deviation of 2.1.
_SKEWED = 10.0


def warn_of_no_edges(graph: Graph) -> None:
    """Warn if most nodes have no edge, so that nothing is learned about them from others."""
    if text := of_few_edges("nodes", graph):
        warn(text)


def warn_of_few(n: int, trained: bool) -> None:
    """Warn if hyperparameters are learned from a handful of observations."""
    if trained and n < FEW:
        warn(
            f"hyperparameters are learned from {n} observation{'s' if n != 1 else ''} only, so predictions rest "
            "on their priors: fix what is known, such as `noise` or `output_scale`, or state it as `prior`"
        )


def warn_of_placeholders(name: str, values: Any, way_out: str) -> None:
    """Warn if a value that repeats, far from all others, seems to stand for missing readings (0, -1, -999).

    Readings have two axes at most; NaN are no values.
    """
    own = np.asarray(values, dtype=np.float64).ravel()
    own = own[np.isfinite(own)]
    for value, count, median in placeholders(own):
        warn(
            f"`{name}` holds {value:g} {count} times, far from all other values (median "
            f"{median:.4g}): does it stand for missing readings? If so, {way_out}"
        )


def placeholders(values: np.ndarray) -> list[tuple[float, int, float]]:
    """Values that repeat in isolation far from the others: with their numbers, and the median of the others.

    Of the five most frequent values.
    """
    distinct, counts = np.unique(values, return_counts=True)
    if distinct.size < 5:  # categories
        return []
    found = []
    for place in np.argsort(-counts, kind="stable")[:5].tolist():
        value, count = float(distinct[place]), int(counts[place])
        if count < _REPEATS:
            continue
        others = values[values != value]
        median = float(np.median(others))
        spread = 1.4826 * float(np.median(np.abs(others - median)))
        near = int((np.abs(others - value) < spread).sum())
        if spread > 0 and abs(value - median) > _AWAY * spread and count >= _NEIGHBOURS * near:
            found.append((value, count, median))
    return found


def warn_of_skewed_means(names: Sequence[Hashable], means: np.ndarray, medians: np.ndarray) -> None:
    """Warn where log rates are so uncertain that means of rates are set by their distribution's far end."""
    far = np.flatnonzero(means > _SKEWED * medians)
    if far.size:
        worst = int(far[np.argmax(means[far] / medians[far])])
        warn(
            f"so little is known of the rates at {far.size} of {means.size} nodes, such as {names[worst]!r}, that "
            f"their means exceed their medians more than {_SKEWED:g} times ({means[worst]:.3g} and "
            f"{medians[worst]:.3g} there): use medians and intervals, predict(quantiles=(0.025, 0.5, 0.975))"
        )


def warn_of_nothing(log_factor: float, n: int, what: str = "y", than: str = "independent values") -> None:
    """Warn if n observations favour what has no graph, by the log Bayes factor of the graph against it."""
    if n >= DECIDING and log_factor < 0:
        warn(
            f"the graph explains {what} no better than {than} would (Bayes factor "
            f"{math.exp(log_factor):.2g} from {n} observations): are nodes and {what} in the same order? "
            "If they are, predictions are hardly better than those without a graph"
        )


def schwarz_factor(log_likelihood: float, log_likelihood_alone: float, n_parameters: int, n: int) -> float:
    """The log Bayes factor of a model at its most probable parameters against one that lacks some of them.

    Source: Schwarz 1978, "Estimating the Dimension of a Model".
    """
    return log_likelihood - log_likelihood_alone - 0.5 * n_parameters * math.log(n)
