"""Warnings of data from which little or something wrong is learned, the same in all estimators."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
from scipy.special import gammaincc

from graphrf._base.warn import warn
from graphrf.gp.likelihoods.counts import Poisson
from graphrf.gp.likelihoods.likelihood import Likelihood
from graphrf.gp.likelihoods.proportions import Binomial
from graphrf.graph.graph import Graph
from graphrf.graph.notices import nodes_without_edges, of_few_edges
from graphrf.kernels.kernel import Kernel

# Observations below which hyperparameters rest on their priors.
FEW = 10
# Observations below which data cannot decide between two models.
DECIDING = 20
# A repeated value is taken for a placeholder if it occurs so often, and that many times as often as
# other values near it, and lies so many (robust) standard deviations from the median of the others.
_REPEATS, _NEIGHBOURS, _AWAY = 3, 3, 3.0
# Values that files use for missing readings: zero, minus one, nines, and the ends of integers;
# above the last, fill values of scientific formats.
_NINES = [10.0**k - 1 for k in range(1, 7)]
_CODES = np.array(
    [0.0, -1.0, *_NINES, *np.negative(_NINES), 2.0**15 - 1, -(2.0**15), 2.0**31 - 1, -(2.0**31)]
)
_FILL = 1e20
# The probability of a code's gap to all other values below which it is noticed, and the extreme
# other values whose gaps it is compared with.
_IMPROBABLE, _TAIL = 1e-3, 20
# The probability of a chi-square of repeats below which these are no repeats of one rate, and the
# expected counts of a row from which on it is a part of it.
_CHANCE, _EXPECTED = 1e-4, 0.5
# A ratio of mean and median of a rate: of a lognormal distribution whose logarithm has a deviation
# of 2.1.
_SKEWED = 10.0
# The factor between exposures, of a fit or of predictions beyond it, at which they are likely to
# have two units: m² differ from km² by 1e6 and from ha by 1e4, m from km and people from thousands
# by 1e3.
UNITS = 100.0


def warn_of_no_edges(graph: Graph) -> np.ndarray:
    """Positions of the nodes without an edge; it warns if these are most nodes, so that nothing is
    learned about them from others.
    """
    alone = nodes_without_edges(graph)
    if 2 * alone.size > graph.n_nodes and (text := of_few_edges("nodes", graph)):
        warn(text)
    return alone


def warn_of_free_nodes(
    graph: Graph, alone: np.ndarray, kernel: Kernel, mean_variance: Callable[[], float]
) -> None:
    """Warn if the prior standard deviation of nodes `alone`, without an edge, is more than twice
    that of others.

    Both are of one output scale. A node without an edge has the eigenvalue 0 of the Laplacian by
    itself, so that its prior variance is g(0), the largest of a kernel that falls with the
    eigenvalue; a long lengthscale leaves other nodes far less.
    """
    n_others = graph.n_nodes - alone.size
    if not (alone.size and n_others and kernel.is_series):
        return
    own = float(kernel.spectrum(0.0, graph.laplacian_scale(kernel.laplacian)))
    others = (mean_variance() * graph.n_nodes - alone.size * own) / n_others
    if own > 4 * others > 0:
        names = ", ".join(repr(graph.nodes[node]) for node in alone[:3].tolist())
        few = alone.size == 1
        warn(
            f"{alone.size:,} node{'' if few else 's'} without an edge ({names}"
            f"{', ...' if alone.size > 3 else ''}) {'has' if few else 'have'} a prior standard "
            f"deviation {math.sqrt(own / others):.3g} times that of the others, by {kernel!r}: no "
            "neighbour reduces it, and means of rates become huge. Leave such nodes out of "
            "the graph: graph.subgraph(graph.positions(np.flatnonzero("
            "graph.degrees > graph.adjacency.diagonal())))"
        )


def warn_of_few(n: int, trained: bool) -> None:
    """Warn if hyperparameters are learned from a handful of observations."""
    if trained and n < FEW:
        warn(
            f"hyperparameters are learned from {n} observation{'s' if n != 1 else ''} only, so "
            "predictions rest on their priors: fix those that are known"
        )


def warn_of_placeholders(
    name: str, values: Any, way_out: str, *, repeats_count: bool = True
) -> None:
    """Warn if `placeholders` finds values that seem to mark missing readings (0, -1, -999); NaN are
    ignored.
    """
    own = np.asarray(values, dtype=np.float64).ravel()
    own = own[np.isfinite(own)]
    for value, count, median in placeholders(own, repeats_count=repeats_count):
        warn(
            f"`{name}` holds {value:g} {f'{count} times' if count > 1 else 'once'}, far from all "
            f"other values (median {median:.4g}): does it stand for missing readings? If so, "
            f"{way_out}"
        )


def warn_of_codes(name: str, values: Any) -> None:
    """Warn if a covariate or an exposure holds codes that seem to mark missing readings."""
    warn_of_placeholders(name, values, "leave these rows out", repeats_count=False)


def placeholders(
    values: np.ndarray, *, repeats_count: bool = True
) -> list[tuple[float, int, float]]:
    """Values that seem to mark missing ones, with their number and the median of the others.

    Candidates are the five most frequent values and usual codes: values that repeat in isolation
    far from the others, and codes that are improbably far from all others and occur once or twice,
    or while most others are equal. With `repeats_count=False` only codes other than 0 are
    candidates: an area has the same covariate in each year, so that a value counts in multiples of
    the usual number of repeats, and 0 is a value that covariates have, as incomes do.
    """
    distinct, counts = np.unique(values, return_counts=True)
    if distinct.size < 5:  # categories
        return []

    usual = 1 if repeats_count else int(np.median(counts))
    counted = np.maximum(counts // usual, 1)
    coded = np.isin(distinct, _CODES) | (np.abs(distinct) >= _FILL)
    without_codes = np.repeat(distinct[~coded], counted[~coded])
    frequent = np.argsort(-counts, kind="stable")[: 5 if repeats_count else 0]

    result = []
    for place in dict.fromkeys([*frequent.tolist(), *np.flatnonzero(coded).tolist()]):
        value, count = float(distinct[place]), int(counted[place])
        others = values[values != value]
        often = repeats_count and count >= _REPEATS
        if often and _deviation(others) > 0:
            found = _is_isolated(value, count, others)
        else:
            is_code = coded[place] and (value != 0 or (repeats_count and not often))
            found = is_code and gap_probability(value, count, without_codes) < _IMPROBABLE
        if found:
            result.append((value, int(counts[place]), float(np.median(others))))
    return result


def _is_isolated(value: float, count: int, others: np.ndarray) -> bool:
    """True if a repeated value is far from the median of the others, and much more frequent than
    others near it.

    The unit of rounded values is added to the scale.
    """
    scatter = 1.4826 * _deviation(others) + _unit(others)
    near = int((np.abs(others - value) < scatter).sum())
    away = abs(value - float(np.median(others)))
    return away > _AWAY * scatter and count >= _NEIGHBOURS * near


def _deviation(values: np.ndarray) -> float:
    """The median absolute deviation; 0 where most values are equal."""
    return float(np.median(np.abs(values - np.median(values))))


def gap_probability(value: float, count: int, others: np.ndarray) -> float:
    """The probability of so large a gap between `count` values and the sorted others beside them.

    For an exponential tail, k times the gap after the k-th extreme value are independent with one
    exponential distribution (Renyi 1953). The unit of rounded values does not count as a gap.
    """
    n = min(_TAIL, others.size // 2)
    if n < 2 or others[0] <= value <= others[-1]:
        return 1.0
    gaps = np.abs(np.diff(others[: n + 1] if value < others[0] else others[: -n - 2 : -1]))
    unit = _unit(others)
    scale = float(np.arange(count + 1, count + n + 1) @ gaps) / n + unit
    gap = count * (float(np.abs(others[[0, -1]] - value).min()) - unit)
    return (1 + max(gap, 0.0) / (n * scale)) ** -n if scale > 0 else 1.0


def _unit(values: np.ndarray) -> float:
    """The median difference of distinct values: of rounded ones mostly the unit of rounding, else
    next to 0.
    """
    distinct = np.unique(values)
    return float(np.median(np.diff(distinct))) if distinct.size > 1 else 0.0


def warn_of_far(name: str, values: np.ndarray, low: float, high: float) -> None:
    """Warn of values at which an effect is asked for far outside of the range of a fit.

    Trends are extrapolated by as much as the range or two, whereas other units, or the last digits
    of a year, differ by more.
    """
    distance = np.maximum(low - values, values - high)
    far = np.flatnonzero(distance > 3 * (high - low))
    if high > low and far.size:
        worst = values[far[np.argmax(distance[far])]]
        warn(
            f"`{name}` is {worst:.6g} in the frame{f' ({far.size} such rows)' * (far.size > 1)}, "
            f"and was between {low:.6g} and {high:.6g} in the fit: is it in another unit? "
            "So far outside, predictions have no support in the data"
        )


def warn_of_exposures(name: str, values: Any) -> None:
    """Warn of exposures that hold codes of missing readings, or that are in two groups far from
    each other, as if in two units.

    Populations of areas differ by more than a hundredfold, but without such a gap between them.
    """
    warn_of_codes(name, values)
    own = np.sort(np.asarray(values, dtype=np.float64).ravel())
    own = own[~np.isin(own, _CODES)]
    if own.size > 1 and (ratios := own[1:] / own[:-1]).max() > UNITS:
        place = int(ratios.argmax())
        warn(
            f"`{name}` is {own[0]:.3g} to {own[place]:.3g} in {place + 1} rows and "
            f"{own[place + 1]:.3g} to {own[-1]:.3g} in {own.size - place - 1}, with none between: "
            "are all in one unit (km² or m²)?"
        )


def warn_of_joined_copies(frame: Any) -> None:
    """Warn if the rows of a data frame seem to be those of a table that was joined with itself.

    Then all numbers of equal rows have a common divisor. In a table of few distinct rows, such as
    binary outcomes of groups, each is even with a probability of at most a half, so that all m are
    with at most 2^-m.
    """
    import pandas

    try:
        rows = pandas.util.hash_pandas_object(frame, index=False)
    except TypeError:  # cells that are lists or dictionaries
        return
    repeats = np.unique(rows, return_counts=True)[1]
    copies, m = int(np.gcd.reduce(repeats)), repeats.size
    if copies > 1 and 2.0**-m < _CHANCE:
        warn(
            f"the {len(frame)} rows of the frame are {copies} copies of {len(frame) // copies}, "
            "the response included: was a table joined with itself? Then all intervals are too "
            "narrow; frame.drop_duplicates() keeps one row of each"
        )


def warn_of_differing_repeats(
    likelihood: Likelihood, nodes: np.ndarray, y: np.ndarray, offset: np.ndarray
) -> None:
    """Warn if the counts of one node differ by more than they do at one rate.

    Pearson's chi-square of homogeneity, summed over nodes, is compared with a gamma distribution of
    its mean and of at least its variance, given the totals. Rows of which less than half a count is
    expected are left out.
    """
    if not isinstance(likelihood, Poisson | Binomial):  # others have a dispersion that is trained
        return
    events, size = (y, np.exp(offset)) if y.ndim == 1 else y
    _, place = np.unique(nodes, return_inverse=True)
    rate = (np.bincount(place, events) / np.bincount(place, size))[place]
    rows = size * np.minimum(rate, np.inf if y.ndim == 1 else 1 - rate) >= _EXPECTED
    events, size = events[rows], size[rows]
    _, place, repeats = np.unique(nodes[rows], return_inverse=True, return_counts=True)
    sizes = np.bincount(place, size)
    rate = (np.bincount(place, events) / sizes)[place]
    variance = size * rate * (1.0 if y.ndim == 1 else 1 - rate)
    rows = (repeats[place] > 1) & (variance > 0)
    found = float((np.square(events - size * rate)[rows] / variance[rows]).sum())
    # successes among trials are drawn without replacement
    drawn = 1.0 if y.ndim == 1 else sizes / np.maximum(sizes - 1, 1.0)
    freedom = float((drawn * np.maximum(np.bincount(place, rows) - 1, 0)).sum())
    if freedom == 0:
        return
    scale = 2 + float((1 / variance[rows]).sum()) / freedom
    if gammaincc(freedom / scale, found / scale) < _CHANCE:
        other = "; likelihood='negative_binomial' allows for more" if y.ndim == 1 else ""
        warn(
            f"the {nodes.size} observations are at {np.unique(nodes).size} nodes, and those of one "
            f"node differ by more than {likelihood!r} allows (chi-square {found:.4g}, expected "
            f"{freedom:.4g}): they are taken for repeats of one rate. For years, ages or groups at "
            f"each node, take LatentGaussianModel with a term for these{other}"
        )


def warn_of_skewed_means(names: Sequence[Hashable], means: np.ndarray, medians: np.ndarray) -> None:
    """Warn where log rates are so uncertain that means of rates are set by their distribution's far
    end.
    """
    far = np.flatnonzero(means > _SKEWED * medians)
    if far.size:
        worst = int(far[np.argmax(means[far] / medians[far])])
        warn(
            f"so little is known of the rates at {far.size} of {means.size} nodes, such as "
            f"{names[worst]!r}, that their means exceed their medians more than {_SKEWED:g} times "
            f"({means[worst]:.3g} and {medians[worst]:.3g} there): use medians and intervals, "
            "predict(quantiles=(0.025, 0.5, 0.975))"
        )


def warn_of_nothing(
    log_factor: float,
    n: int,
    what: str = "y",
    than: str = "independent values",
    prior: tuple[str, str] = ("graph", "nodes"),
) -> None:
    """Warn if n observations favour what has no graph, or field, by the log Bayes factor of this
    against it.
    """
    if n >= DECIDING and log_factor < 0:
        warn(
            f"the {prior[0]} explains {what} no better than {than} would (Bayes factor "
            f"{math.exp(log_factor):.2g} from {n} observations): are {prior[1]} and {what} in the "
            "same order? If they are, predictions are hardly better than those without a "
            f"{prior[0]}"
        )


def schwarz_factor(
    log_likelihood: float, log_likelihood_alone: float, n_parameters: int, n: int
) -> float:
    """The log Bayes factor of a model against one without some of its parameters (Schwarz 1978)."""
    return log_likelihood - log_likelihood_alone - 0.5 * n_parameters * math.log(n)
