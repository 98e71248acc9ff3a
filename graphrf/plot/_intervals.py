"""Points with intervals: the effects of a model, and ranks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphrf._base import checks
from graphrf.plot._style import (
    COLOURS,
    GREY,
    GRID,
    VALUES,
    colour_bar,
    inches,
    log_steps,
    new_axes,
    new_figure,
    open_frame,
    wanted_width,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

# Columns of tables of effects and ranks.
_LOW, _MEDIAN, _HIGH = "0.025", "0.5", "0.975"
# Inches: the width of a panel at least and usually, the height of a curve, of a named row, and of
# what is above and below rows.
_LEAST, _USUAL, _CURVE, _ROW, _BESIDE = 3.0, 4.5, 1.9, 0.2, 0.65
# The ratio of the ends of a logarithmic axis from which its ticks are 1, 2, 5, 10 and so on.
_DECADE = 8
# Rows up to which each has its name.
_NAMED = 40


class _Panel(NamedTuple):
    """Effects with intervals: a curve along numbers or dates, or points beside their names."""

    title: str
    table: Any
    curve: bool

    @property
    def height(self) -> float:
        """Inches."""
        rows = min(len(self.table), _NAMED)
        return _CURVE if self.curve else _BESIDE + _ROW * max(rows, 2)


def plot_effects(
    model: Any,
    *,
    along: str | Sequence[str] = (),
    transform: str | None = None,
    figure: Figure | SubFigure | None = None,
    intercept: bool = False,
    label: str | None = None,
) -> Figure | SubFigure:
    """The coefficients of a fitted model with 95 % intervals, and a panel for each term.

    Parameters
    ----------
    model : LatentGaussianModel, or another fitted estimator with `coefficients_`
        Terms of one column are drawn: along numbers and dates (`Steps`) as curves with bands,
        others (`Groups`) as points with intervals, sorted by their medians; so are coefficients
        that vary (`Covariate`). Fields of nodes and in space are maps: see `plot_map_posterior`.
    along : str or sequence of str
        Columns of the formula, of a `LatentGaussianModel`, with a panel each in place of their
        coefficients: the effect of their values less the mean over the rows of the fit.
    transform : {None, "exp"}
        "exp" draws ratios, as in `summary`, on a logarithmic axis: of rates under a log link.
    figure : matplotlib.figure.Figure or SubFigure, optional
        To be filled. Default: a new figure.
    intercept : bool
        Draw the intercept, or the levels that stand for it, among the coefficients.
    label : str, optional
        Label of the axes of effects.

    Returns
    -------
    Figure or SubFigure

    Raises
    ------
    ValueError
        If there is nothing to draw.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from graphrf.gp import Groups, LatentGaussianModel, Steps
    >>> from graphrf.plot import plot_effects
    >>> rng = np.random.default_rng(0)
    >>> years, wards = np.repeat(np.arange(2000, 2010), 10), 10 * list("abcdefghij")
    >>> frame = pd.DataFrame({"year": years, "ward": wards})
    >>> frame["share"] = rng.uniform(size=100)
    >>> frame["cases"] = rng.poisson(np.exp(frame["share"] + 0.1 * (frame["year"] - 2005)))
    >>> terms = [Steps("year"), Groups("ward")]
    >>> model = LatentGaussianModel("cases ~ 1 + share", terms, "poisson", seed=0).fit(frame)
    >>> [ax.get_title() for ax in plot_effects(model).axes]
    ['coefficients', 'year', 'ward']
    """
    columns = [along] if isinstance(along, str) else list(along)
    panels = _panels(model, checks.flag("intercept", intercept), columns)
    if transform is not None:
        checks.choice("transform", transform, ("exp",))
    neutral, usual = (0, "effect on the linear predictor") if transform is None else (1, "ratio")
    label = usual if label is None else label
    if not panels:
        raise checks.value_error(
            "model",
            "must have coefficients besides the intercept, or terms of one column that "
            "are no fields: pass intercept=True",
        )
    heights = [panel.height for panel in panels]
    if figure is None:
        figure = new_figure((wanted_width(_USUAL), sum(heights)))
    grid = figure.add_gridspec(len(panels), height_ratios=heights)
    for number, panel in enumerate(panels):
        ax = figure.add_subplot(grid[number])
        ax.set_title(panel.title)
        table = panel.table[[_LOW, _MEDIAN, _HIGH]]
        table = table if transform is None else np.exp(table)
        if panel.curve:
            _draw_curve(ax, table, label)
            ax.axhline(neutral, color=GREY, linewidth=0.8, zorder=2)
        else:
            _draw_rows(ax, table, panel.title == "coefficients")
            ax.set_xlabel(label)
            ax.axvline(neutral, color=GREY, linewidth=0.8, zorder=1)
        if transform is not None:
            _logarithmic(ax, "y" if panel.curve else "x")
    return figure


def plot_ranking(
    ranks: Any, *, most: int = _NAMED, ax: Axes | None = None, label: str = "rank"
) -> Axes:
    """Ranks with 95 % intervals, sorted by their medians, in the colours of a probability.

    Parameters
    ----------
    ranks : DataFrame
        As `LatentGaussianModel.ranks` returns it: columns "0.025", "0.5" and "0.975", and last the
        probability of being among the first.
    most : int
        The number of rows that are drawn, from the first rank on.
    ax : matplotlib.axes.Axes, optional
        Default: those of a new figure, as high as the rows need.
    label : str
        Label of the axis of ranks.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import pandas as pd
    >>> from graphrf.plot import plot_ranking
    >>> ranks = pd.DataFrame(
    ...     [[1, 1, 2, 0.8], [1, 2, 3, 0.2], [2, 3, 3, 0.0]],
    ...     index=["Anson", "Halifax", "Wake"],
    ...     columns=["0.025", "0.5", "0.975", "P(rank <= 1)"],
    ... )
    >>> ax = plot_ranking(ranks)
    >>> [name.get_text() for name in ax.get_yticklabels()]
    ['Anson', 'Halifax', 'Wake']
    """
    most = checks.integer("most", most, low=1)
    _require_columns(ranks, "ranks")
    probability = str(ranks.columns[-1])
    by = [_MEDIAN, probability]
    shown = ranks.sort_values(by, ascending=[True, False], kind="stable").iloc[:most]
    ax = new_axes(ax, (_USUAL, 2 * _BESIDE + _ROW * min(max(len(shown), 3), _NAMED)))
    points = _draw_rows(ax, shown, True, shown[probability].to_numpy(dtype=float))
    ax.set_xlim(0, float(shown[_HIGH].max()) + 1)
    ax.set_xlabel(label)
    colour_bar(points, ax, probability.replace("<=", "≤"), "neither")
    return ax


def _panels(model: Any, intercept: bool, along: list[str]) -> list[_Panel]:
    """The coefficients, columns of the formula, and the terms of one column that are no fields."""
    table = model.coefficients_
    _require_columns(table, "model.coefficients_")
    if not intercept:
        table = table.drop(index=_intercepts(table.index))
    curves = [_along(model, column) for column in along]
    for column in along:
        own = re.compile(rf"\b{re.escape(column)}\b")
        table = table[[own.search(str(name)) is None for name in table.index]]
    panels = [_Panel("coefficients", table, False)] if len(table) else []
    panels += curves
    terms = getattr(model, "terms", ())
    for number, term in enumerate(terms if isinstance(terms, list | tuple) else [terms]):
        effects = None if _is_field(term) else model.effects(number)
        if effects is not None and effects.index.nlevels == 1:
            panels.append(_Panel(" by ".join(term.columns), effects, _is_ordered(term)))
    return panels


def _intercepts(names: Any) -> list[Any]:
    """The intercept, or without one the levels of a factor, which stand for it."""
    found = [name for name in names if str(name).lower() in ("intercept", "constant")]
    return found or [
        name for name in names if re.fullmatch(r"(C\(.*\)|\w+)\[(?!T\.).*\]", str(name))
    ]


def _along(model: Any, column: Any) -> _Panel:
    """The effect of a column of the formula: a curve along numbers."""
    if not hasattr(model, "effects"):
        raise checks.type_error(
            "along", f"is for LatentGaussianModel, got {type(model).__name__}: leave it out"
        )
    table = model.effects(column)
    return _Panel(str(column), table, table.index.dtype.kind in "iuf")


def _is_field(term: Any) -> bool:
    """True for terms on the nodes of a graph and in space, and products with these."""
    parts = [getattr(term, name) for name in ("first", "second", "term") if hasattr(term, name)]
    return hasattr(term, "graph") or hasattr(term, "domain") or any(map(_is_field, parts))


def _logarithmic(ax: Axes, name: str) -> None:
    """A logarithmic axis, "x" or "y", with plain numbers."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator, StrMethodFormatter

    axis = getattr(ax, f"{name}axis")
    getattr(ax, f"set_{name}scale")("log")
    low, high = axis.get_view_interval()
    # Few round numbers lie in less than a decade.
    logs = LogLocator(subs=log_steps(low, high))
    axis.set_major_locator(logs if high > _DECADE * low else MaxNLocator(4, steps=[1, 2, 5, 10]))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))


def _is_ordered(term: Any) -> bool:
    """True for steps, and coefficients that vary as these."""
    return hasattr(getattr(term, "term", term), "kind")


def _require_columns(table: Any, name: str) -> None:
    lacking = [
        column for column in (_LOW, _MEDIAN, _HIGH) if column not in getattr(table, "columns", ())
    ]
    if lacking:
        raise checks.value_error(
            name,
            f"must be a data frame with the columns '0.025', '0.5' and '0.975', got "
            f"{checks.describe(table)} without {lacking[0]!r}",
        )


def _draw_rows(ax: Axes, table: Any, ordered: bool, shades: np.ndarray | None = None) -> Any:
    """Points with intervals, a row each; in the colours of probabilities if there are any."""
    if not ordered:
        table = table.sort_values(_MEDIAN, ascending=False, kind="stable")
    low, middle, high = (table[name].to_numpy(dtype=float) for name in (_LOW, _MEDIAN, _HIGH))
    rows = np.arange(len(table))
    named = len(table) <= _NAMED
    ax.hlines(rows, low, high, color=GREY, linewidth=1.2 if named else 0.6, zorder=2)
    colours: dict[str, Any] = {"color": COLOURS[0]}
    if shades is not None:
        colours = {"c": shades, "cmap": VALUES, "vmin": 0, "vmax": 1}
    points = ax.scatter(
        middle,
        rows,
        s=22 if named else 6,
        edgecolors="black" if shades is not None else "none",
        linewidths=0.5,
        zorder=3,
        **colours,
    )
    ax.set_yticks(rows if named else [], [str(name) for name in table.index] if named else [])
    ax.set_ylim(len(table) - 0.4, -0.6)
    ax.grid(visible=False, axis="y")
    ax.grid(visible=True, axis="x", color=GRID, linewidth=0.8)
    ax.locator_params(axis="x", nbins=5 if inches(ax) < _LEAST else 7)
    open_frame(ax)
    return points


def _draw_curve(ax: Axes, table: Any, label: str) -> None:
    """Medians along numbers or dates, with a band."""
    at = np.array(table.index)
    if at.dtype.kind not in "iufM":
        # Labels of levels that the data lack are text.
        known = [not isinstance(level, str) for level in table.index]
        table, at = table[known], np.array(table.index[known])
    low, middle, high = (table[name].to_numpy(dtype=float) for name in (_LOW, _MEDIAN, _HIGH))
    ax.fill_between(at, low, high, color=COLOURS[0], alpha=0.22, linewidth=0, zorder=1)
    ax.plot(at, middle, color=COLOURS[0], marker="o", markersize=2.5, linewidth=1.2, zorder=3)
    if at.dtype.kind in "iu":
        from matplotlib.ticker import MaxNLocator

        ax.xaxis.set_major_locator(MaxNLocator(5 if inches(ax) < _LEAST else 8, integer=True))
    ax.set_xlabel(str(table.index.name or ""))
    ax.set_ylabel(label)
    ax.grid(visible=True, color=GRID, linewidth=0.8)
    ax.set_axisbelow(True)
    open_frame(ax)
