"""The posterior of a Gaussian process on a mesh or map: mean beside standard deviation."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from graphrf._base import checks
from graphrf.plot._areas import are_areas, areas_of, plot_areas
from graphrf.plot._edges import are_lines, lines_of, plot_edges
from graphrf.plot._given import deviations, in_order, marked
from graphrf.plot._maps import plot_graph_signal
from graphrf.plot._meshes import plot_marked_mesh, plot_mesh, plot_mesh_readings
from graphrf.plot._style import (
    DEVIATIONS,
    VALUES,
    fit_maps,
    new_figure,
    require_matplotlib,
    wanted_width,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from graphrf.graph.graph import Graph

# Colours end at these percentiles unless the whole range is hardly more: a few nodes far from all
# observations would stretch the colours of all others.
_ENDS = (2, 98)
_HARDLY_MORE = 1.3
# Inches: the width that a panel needs at least, the
# width that it usually has, and the height of its text.
_LEAST, _USUAL, _TEXT = 1.5, 4.2, 1.1


def plot_mesh_posterior(
    vertices: ArrayLike,
    faces: ArrayLike,
    mean: ArrayLike,
    deviation: ArrayLike,
    *,
    truth: ArrayLike | None = None,
    observed: ArrayLike | tuple[ArrayLike, ArrayLike] | None = None,
    figure: Figure | SubFigure | None = None,
    ax: Sequence[Axes] | None = None,
    label: str = "value",
    deviation_label: str | None = None,
    titles: Sequence[str] | None = None,
    limits: tuple[float, float] | None = None,
    unit: str = "",
    view: tuple[float, float] = (28.0, -60.0),
    up: str = "z",
    on: str | None = None,
) -> Figure | SubFigure:
    """Plot truth, observations, posterior mean and standard deviation of a signal on a mesh.

    Parameters
    ----------
    vertices : array_like, shape (V, 3)
    faces : array_like of int, shape (F, 3)
    mean, deviation : array_like of float, shape (F,) or (V,)
        Values of the faces or of the vertices.
    truth : array_like of float, of the same shape, optional
    observed : array_like of float, of the same shape, or (places, values), optional
        NaN where not observed. Few vertices, or faces too small to be seen, are drawn as dots.
        Values at places of shape (m, 3) near the surface are dots on the mean, at the nearest
        points of it; those that it hides are left out.
    figure : matplotlib.figure.Figure or SubFigure, optional
        To be filled. Default: a new figure.
    ax : sequence of matplotlib.axes.Axes, optional
        In place of `figure`: axes for the panels, as many as there are.
    label : str
        Name of the signal, with its unit.
    deviation_label : str, optional
        Label of the standard deviation. Default: derived from `label`.
    titles : sequence of str, optional
        Titles of the panels. Default: "truth", "observed", "posterior mean" and "standard
        deviation", if drawn.
    limits : (low, high), optional
        Values at the ends of the colour bars of the signal.
    unit, view, up, on
        See `plot_mesh`.

    Returns
    -------
    Figure or SubFigure
        Up to three panels are in one row, four in two rows. Truth, observations and mean share
        their colours. Without `limits`, colours end at the 2nd and the 98th percentile if a few
        values are far outside.

    Raises
    ------
    ValueError
        For shapes that do not match, both `figure` and `ax`, and as many titles or axes as there
        are no panels.

    Examples
    --------
    >>> import numpy as np, graphrf as grf
    >>> from graphrf.plot import plot_mesh_posterior
    >>> data = grf.datasets.load("generated-icosphere")
    >>> mesh, n = data.extra, data.graph.n_nodes
    >>> figure = plot_mesh_posterior(
    ...     mesh["vertices"], mesh["faces"], data.targets, np.ones(n), truth=data.targets
    ... )
    >>> [ax.get_title() for ax in figure.axes if ax.get_title()]
    ['truth', 'posterior mean', 'standard deviation']
    """
    own: dict[str, Any] = {"unit": unit, "view": view, "up": up, "on": on}
    draw = partial(plot_mesh, vertices, faces, **own)
    pens = {"observed": partial(plot_mesh_readings, vertices, faces, **own)}
    marks, also = marked(observed), np.empty(0)
    if marks is not None:
        observed, also = None, marks[1]
        pens["posterior mean"] = partial(plot_marked_mesh, vertices, faces, marks=marks, **own)
    given = {"truth": truth, "observed": observed, "posterior mean": mean}
    words = (label, deviation_label)
    return _panels(draw, given, deviation, figure, ax, words, titles, limits, pens, also)


def plot_map_posterior(
    places: Any,
    mean: ArrayLike,
    deviation: ArrayLike,
    *,
    edges: Graph | ArrayLike | None = None,
    truth: ArrayLike | None = None,
    observed: ArrayLike | None = None,
    figure: Figure | SubFigure | None = None,
    ax: Sequence[Axes] | None = None,
    label: str = "value",
    deviation_label: str | None = None,
    titles: Sequence[str] | None = None,
    limits: tuple[float, float] | None = None,
    unit: str | None = None,
    geographic: bool | None = None,
) -> Figure | SubFigure:
    """The mean of a signal on a map and its standard deviation, after truth and data.

    Parameters
    ----------
    places : GeoDataFrame, GeoSeries, networkx graph, sequence of shapely, or array_like
        Areas, which are filled (`plot_areas`); lines or a graph with geometry (`plot_edges`); or
        horizontal and vertical places of N nodes, shape (N, 2): (longitude, latitude) for maps.
    mean, deviation : array_like of float, shape (N,)
        Of areas and lines a Series is matched by its index.
    edges : Graph, or array_like of int of shape (E, 2), optional
        Between nodes; of nodes that fill a lattice they are not needed.
    truth : array_like of float, shape (N,), optional
    observed : array_like of float, shape (N,), optional
        NaN where not observed.
    figure, ax, label, deviation_label, titles, limits
        See `plot_mesh_posterior`.
    unit : str, optional
        The unit of the coordinates, for a scale bar. Default: that of the coordinate system.
    geographic : bool, optional
        Whether coordinates are degrees. Default: as the coordinate system has them, or guessed, as
        by `plot_graph_signal`.

    Returns
    -------
    Figure or SubFigure
        See `plot_mesh_posterior`.

    Examples
    --------
    >>> from graphrf.plot import plot_map_posterior
    >>> places, roads = [[0, 0], [1, 0], [1, 1]], [[0, 1], [1, 2]]
    >>> figure = plot_map_posterior(
    ...     places, [30.0, 35.0, 40.0], [0.1, 2.0, 4.0], edges=roads, label="speed (mph)"
    ... )
    >>> len(figure.axes)  # two maps, each with a colour bar
    4
    """
    own = {"geographic": geographic, "unit": unit}
    draw, names = _drawing(places, edges, own)
    given = {"truth": truth, "observed": observed, "posterior mean": mean}
    if names is not None:
        given = {
            title: None
            if some is None
            else in_order(some, len(names), names, "place", title.split()[-1])
            for title, some in given.items()
        }
        deviation = in_order(deviation, len(names), names, "place", "deviation")
    words = (label, deviation_label)
    filled = _panels(draw, given, deviation, figure, ax, words, titles, limits)
    if figure is None and ax is None:
        fit_maps(filled.axes[:1])
    return filled


def _drawing(
    places: Any, edges: Any, own: dict[str, Any]
) -> tuple[Callable[..., Any], Sequence[Hashable] | None]:
    """The function that draws values at places, and the names by which a Series is matched."""
    if edges is None and are_areas(places):
        return partial(plot_areas, places, **own), areas_of(places).names
    if edges is None and are_lines(places):
        return partial(plot_edges, places, **own), lines_of(places).names
    none: list[Any] = []
    own = {**own, "unit": own["unit"] or ""}
    return partial(plot_graph_signal, places, none if edges is None else edges, **own), None


def _panels(
    draw: Callable[..., Any],
    given: dict[str, Any],
    deviation: ArrayLike,
    figure: Figure | SubFigure | None,
    ax: Sequence[Axes] | None,
    labels: tuple[str, str | None],
    titles: Sequence[str] | None,
    limits: tuple[float, float] | None,
    pens: Mapping[str, Callable[..., Any]] = MappingProxyType({}),
    also: ArrayLike = (),
) -> Figure | SubFigure:
    """Panels in which `draw` draws values, or the pen of the panel, which may draw others also."""
    values = _values(given)
    shape = values["posterior mean"].shape
    spread = deviations(deviation, shape)
    ends = limits or _limits(np.concatenate([*values.values(), also]))
    words = [*values, "standard deviation"] if titles is None else list(titles)
    if len(words) != len(values) + 1:
        drawn = ", ".join([*values, "standard deviation"])
        raise checks.value_error("titles", f"must have one per panel ({drawn}), got {len(words)}")
    axes = _axes(len(words), figure, ax)
    of_spread = f"standard deviation of the {labels[0]}" if labels[1] is None else labels[1]
    panels = [
        (pens.get(name, draw), some, VALUES, ends, labels[0]) for name, some in values.items()
    ]
    panels.append((draw, spread, DEVIATIONS, _limits(spread), of_spread))
    for here, title, (pen, some, cmap, own, label) in zip(axes, words, panels, strict=True):
        pen(some, ax=here, label=label, cmap=cmap, limits=own)
        here.set_title(title)
        place = here.get_subplotspec()
        if ax is None and place is not None and not place.is_first_col():
            here.set_ylabel("")
    filled: Figure | SubFigure = axes[0].figure
    return filled


def _values(given: dict[str, Any]) -> dict[str, np.ndarray]:
    """The values of each panel, all of the same shape."""
    values = {
        title: np.asarray(some, dtype=np.float64)
        for title, some in given.items()
        if some is not None
    }
    shape = values["posterior mean"].shape
    for name in ("truth", "observed"):
        if name in values and values[name].shape != shape:
            gaps = ", NaN where nothing was observed" if name == "observed" else ""
            raise checks.value_error(
                name,
                f"must have one value per entry of `mean`, shape {shape}{gaps}, got "
                f"{values[name].shape}",
            )
    return values


def _axes(panels: int, figure: Figure | SubFigure | None, ax: Sequence[Axes] | None) -> list[Axes]:
    """Axes for the panels: those that are given, or new ones in a figure."""
    if ax is not None:
        if figure is not None:
            raise checks.value_error("ax", "must not be given with `figure`: one of them is filled")
        axes = list(np.ravel(np.array(ax, dtype=object)))
        if len(axes) != panels:
            raise checks.value_error("ax", f"must be {panels} axes, one per panel, got {len(axes)}")
        return axes
    columns = 2 if panels == 4 else panels
    if figure is None:
        require_matplotlib()
        width = wanted_width(_USUAL * columns)
        columns = min(columns, max(1, int(width / _LEAST)))
        rows = -(-panels // columns)
        figure = new_figure((width, rows * (_TEXT + 0.65 * width / columns)))
    rows = -(-panels // columns)
    return [figure.add_subplot(rows, columns, number) for number in range(1, panels + 1)]


def _limits(values: np.ndarray) -> tuple[float, float]:
    finite = values[np.isfinite(values)]
    if not finite.size:
        return 0.0, 1.0
    low, high = np.percentile(finite, _ENDS)
    if np.ptp(finite) < _HARDLY_MORE * (high - low):
        low, high = finite.min(), finite.max()
    return float(low), float(high)
