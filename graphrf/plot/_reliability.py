"""Calibration: observed frequencies against predicted probabilities, and transforms of data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from graphrf._base import checks
from graphrf.plot._style import COLOURS, GREY, GRID, MARKERS, legend_above, new_axes, open_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Points at which distribution functions are drawn, simulated samples for the band, and the share of
# these that leave it.
_POINTS, _SAMPLES, _OUTSIDE = 100, 10_000, 0.05


def plot_reliability(
    curves: Mapping[str, Any],
    *,
    ax: Axes | None = None,
    xlabel: str = "probability of the predicted class",
    ylabel: str = "accuracy",
) -> Axes:
    """A reliability diagram: observed frequencies against probabilities, a line a method.

    Parameters
    ----------
    curves : mapping of labels to array_like of shape (n, 2) or (n, 3), or `metrics.Reliability`
        Columns: the probability, the share, both in [0, 1], and (optional) the share's standard
        error, drawn as a bar of two each way. What `metrics.reliability` returns for classes is a
        curve with the binomial standard errors of its bins.
    ax : matplotlib.axes.Axes, optional
    xlabel, ylabel : str

    Returns
    -------
    matplotlib.axes.Axes
        With the diagonal, on which calibrated probabilities lie. Above it they are too small, below
        it too large. `ax.figure.savefig("reliability.png")` saves it.

    Examples
    --------
    >>> from graphrf.plot import plot_reliability
    >>> from graphrf.gp import metrics
    >>> curve = metrics.reliability([0, 1, 2], [[0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.1, 0.9, 0]])
    >>> ax = plot_reliability({"three classes": curve, "other": [[0.6, 0.55], [0.9, 0.92]]})
    >>> ax.get_xlabel(), ax.get_aspect()
    ('probability of the predicted class', 1.0)
    """
    lines = _checked_curves(curves)
    ax = new_axes(ax, (4.8, 4.6))
    ax.plot(
        [0, 1], [0, 1], color=GREY, linestyle=(0, (4, 3)), linewidth=1, zorder=1, label="calibrated"
    )

    for number, (label, line) in enumerate(lines.items()):
        ax.errorbar(
            line[:, 0],
            line[:, 1],
            yerr=2 * line[:, 2] if line.shape[1] == 3 else None,
            label=label,
            color=COLOURS[number % len(COLOURS)],
            marker=MARKERS[(number + number // len(COLOURS)) % len(MARKERS)],
            markersize=5,
            linewidth=1.6,
            elinewidth=1,
            capsize=2,
            zorder=2,
        )

    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel=xlabel, ylabel=ylabel)
    ax.set_aspect("equal")
    ax.grid(color=GRID, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.legend(frameon=False, loc="upper left")
    open_frame(ax)
    return ax


def plot_calibration(
    pit: ArrayLike | Mapping[str, ArrayLike],
    *,
    ax: Axes | None = None,
    histogram: bool = False,
    xlabel: str = "probability integral transform",
) -> Axes:
    """Probability integral transforms, which are uniform for a calibrated model, with a 95 % band.

    Parameters
    ----------
    pit : array_like of float, shape (n,), or mapping of labels to these
        In [0, 1], as `loo().pit` or `metrics.pit` has them; NaN is left out.
    ax : matplotlib.axes.Axes, optional
    histogram : bool
        Frequencies in bins, of one array, in place of the distribution function less the diagonal.
        Of a model whose intervals are too narrow the histogram is U-shaped, and the difference is
        first above and then below 0.
    xlabel : str

    Returns
    -------
    matplotlib.axes.Axes
        The band is simultaneous: of n independent uniform numbers the whole line, or all bars, are
        within with probability 0.95. Of several arrays it is that of the shortest.

    Raises
    ------
    ValueError
        For values outside of [0, 1], none at all, and a histogram of several arrays.

    Notes
    -----
    The level of the pointwise binomial intervals is the one at which 95 % of 10,000 simulated
    samples are within all of them. Transforms given all other observations are not quite
    independent, so that the band is approximate for them.

    Source: Säilynoja, Bürkner and Vehtari 2022, "Graphical test for discrete uniformity and its
    applications in goodness-of-fit evaluation and multiple sample comparison".

    Examples
    --------
    >>> import numpy as np
    >>> from graphrf.plot import plot_calibration
    >>> uniform = np.random.default_rng(0).uniform(size=200)
    >>> ax = plot_calibration({"calibrated": uniform, "too narrow": np.round(uniform)})
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['95 % band', 'calibrated', 'too narrow']
    """
    samples = _checked_samples(pit)
    histogram = checks.flag("histogram", histogram)
    if histogram and len(samples) > 1:
        raise checks.value_error("histogram", f"is of one array, got {len(samples)}")
    n = min(len(sample) for sample in samples.values())
    points = int(np.clip(n // 8, 4, 20)) if histogram else min(n, _POINTS)
    ends = np.linspace(0, 1, points + 1)
    low, high = _band(n, points, histogram)
    ax = new_axes(ax, (4.8, 3.4))
    if histogram:
        ax.fill_between([0, 1], low[0], high[0], color=GRID, linewidth=0, label="95 % band")
        (sample,) = samples.values()
        share = np.histogram(sample, ends)[0] / n * points
        ax.stairs(share, ends, color=COLOURS[0], linewidth=1.4, label=next(iter(samples)) or None)
        ax.axhline(1, color=GREY, linestyle=(0, (4, 3)), linewidth=1)
        ax.set_ylim(0, 1.15 * max(share.max(), high[0]))
        ax.set_ylabel("density")
    else:
        ax.fill_between(ends, low, high, color=GRID, linewidth=0, label="95 % band")
        ax.axhline(0, color=GREY, linestyle=(0, (4, 3)), linewidth=1)
        for number, (label, sample) in enumerate(samples.items()):
            below = np.searchsorted(np.sort(sample), ends, side="right") / len(sample)
            style = ("-", "--", "-.", ":")[number % 4]
            colour = COLOURS[number % len(COLOURS)]
            ax.plot(ends, below - ends, style, color=colour, linewidth=1.4, label=label or None)
        ax.set_ylabel("ECDF − uniform")
    ax.set(xlim=(0, 1), xlabel=xlabel)
    ax.grid(visible=False)
    legend_above(ax, 1.6)
    open_frame(ax)
    return ax


def _band(n: int, points: int, histogram: bool) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the simultaneous band of densities in bins, or of the distribution function less the
    diagonal, at the ends of these.
    """
    from scipy.stats import binom

    rng = np.random.default_rng(0)
    counts = rng.multinomial(n, np.full(points, 1 / points), size=_SAMPLES)
    share = np.full(points, 1 / points)
    if not histogram:
        counts, share = np.cumsum(counts, axis=1)[:, :-1], np.arange(1, points) / points
    below, above = binom.cdf(counts, n, share), binom.sf(counts - 1, n, share)
    tail = np.quantile(np.minimum(below, above).min(axis=1), _OUTSIDE, method="lower")
    ends = np.array([binom.ppf(tail, n, share), binom.isf(tail, n, share)]) / n
    if histogram:
        return ends[0] * points, ends[1] * points
    padded = np.pad(ends - share, ((0, 0), (1, 1)))
    return padded[0], padded[1]


def _checked_samples(pit: ArrayLike | Mapping[str, ArrayLike]) -> dict[str, np.ndarray]:
    given = pit if isinstance(pit, Mapping) else {"": pit}
    samples = {
        str(label): np.asarray(some, dtype=np.float64).ravel() for label, some in given.items()
    }
    samples = {label: some[~np.isnan(some)] for label, some in samples.items()}
    if not samples or not all(some.size for some in samples.values()):
        raise checks.value_error("pit", "must have values, got none")
    for some in samples.values():
        if some.min() < 0 or some.max() > 1:
            raise checks.value_error(
                "pit",
                f"must be in [0, 1], got {some.min():.4g} to {some.max():.4g}: "
                "model.loo().pit, or graphrf.gp.metrics.pit(y, draws)",
            )
    return samples


def _checked_curves(curves: Mapping[str, Any]) -> dict[str, np.ndarray]:
    if not curves:
        raise checks.value_error("curves", "must hold at least one curve, got none")
    arrays = {label: _points_of(curve) for label, curve in curves.items()}
    for label, array in arrays.items():
        if array.ndim != 2 or array.shape[1] not in (2, 3) or not len(array):
            raise checks.value_error(
                "curves", f"must have shape (n, 2) or (n, 3) each, got {array.shape} for {label!r}"
            )
        if not ((array[:, :2] >= 0) & (array[:, :2] <= 1)).all():
            raise checks.value_error(
                "curves", f"must have probabilities and shares in [0, 1], unlike {label!r}"
            )
    return arrays


def _points_of(curve: Any) -> np.ndarray:
    """Probabilities and shares, (n, 2) or (n, 3); of `metrics.reliability` with standard errors."""
    if not hasattr(curve, "accuracy"):
        return np.asarray(curve, dtype=np.float64)
    share = curve.accuracy
    return np.column_stack([curve.confidence, share, np.sqrt(share * (1 - share) / curve.weight)])
