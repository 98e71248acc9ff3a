"""What a Gaussian process says of a whole mesh or map: its mean beside its deviation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from graphrf._base import checks
from graphrf.plot._maps import plot_graph_signal
from graphrf.plot._meshes import plot_mesh
from graphrf.plot._style import DEVIATIONS, VALUES, require_matplotlib

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

# Colours end at these percentiles unless the whole range is hardly more: a few nodes far from all observations
# would stretch the colours of all others.
_ENDS = (2, 98)
_HARDLY_MORE = 1.3


def plot_mesh_posterior(
    vertices: Any,
    faces: Any,
    mean: Any,
    deviation: Any,
    *,
    truth: Any = None,
    observed: Any = None,
    figure: Figure | SubFigure | None = None,
    label: str = "value",
    view: tuple[float, float] = (28.0, -60.0),
) -> Figure | SubFigure:
    """The mean of a signal on the faces of a mesh and its standard deviation, after the truth and what was seen.

    Parameters
    ----------
    vertices : array_like, shape (V, 3)
    faces : array_like of int, shape (F, 3)
    mean, deviation : array_like of float, shape (F,)
    truth : array_like of float, shape (F,), optional
    observed : array_like of float, shape (F,), optional
        NaN where not observed.
    figure : matplotlib.figure.Figure or SubFigure, optional
        To be filled. Default: a new figure.
    label : str
        Of the signal, with the unit if there is one.
    view : (elevation, azimuth) in degrees

    Returns
    -------
    Figure or SubFigure
        The panels stand in one row, four of them in two. Truth, observations and mean share their colours. Colours
        end at the 2nd and the 98th percentile where few values lie far beyond.

    Examples
    --------
    >>> import numpy as np, graphrf as grf
    >>> from graphrf.plot import plot_mesh_posterior
    >>> data = grf.datasets.load("generated-icosphere")
    >>> mesh, n = data.extra, data.graph.n_nodes
    >>> figure = plot_mesh_posterior(mesh["vertices"], mesh["faces"], data.targets, np.ones(n), truth=data.targets)
    >>> [ax.get_title() for ax in figure.axes if ax.get_title()]
    ['truth', 'posterior mean', 'standard deviation']
    """
    draw = partial(plot_mesh, vertices, faces, view=view)
    return _panels(draw, mean, deviation, truth, observed, figure, label)


def plot_map_posterior(
    coordinates: Any,
    edges: Any,
    mean: Any,
    deviation: Any,
    *,
    truth: Any = None,
    observed: Any = None,
    figure: Figure | SubFigure | None = None,
    label: str = "value",
    geographic: bool = False,
) -> Figure | SubFigure:
    """The mean of a signal on a graph in the plane and its standard deviation, after the truth and what was seen.

    Parameters
    ----------
    coordinates : array_like, shape (N, 2)
        Horizontal and vertical places of the nodes: (longitude, latitude) for maps.
    edges : array_like of int, shape (E, 2)
    mean, deviation : array_like of float, shape (N,)
    truth : array_like of float, shape (N,), optional
    observed : array_like of float, shape (N,), optional
        NaN where not observed.
    figure : matplotlib.figure.Figure or SubFigure, optional
        To be filled. Default: a new figure.
    label : str
        Of the signal, with the unit if there is one.
    geographic : bool
        Whether coordinates are degrees.

    Returns
    -------
    Figure or SubFigure
        As of `plot_mesh_posterior`.

    Examples
    --------
    >>> from graphrf.plot import plot_map_posterior
    >>> places, roads = [[0, 0], [1, 0], [1, 1]], [[0, 1], [1, 2]]
    >>> figure = plot_map_posterior(places, roads, [30.0, 35.0, 40.0], [0.1, 2.0, 4.0], label="speed (mph)")
    >>> len(figure.axes)                                                      # two maps, each with a colour bar
    4
    """
    draw = partial(plot_graph_signal, coordinates, edges, geographic=geographic)
    return _panels(draw, mean, deviation, truth, observed, figure, label)


def _panels(
    draw: Callable[..., Any],
    mean: Any,
    deviation: Any,
    truth: Any,
    observed: Any,
    figure: Figure | SubFigure | None,
    label: str,
) -> Figure | SubFigure:
    given = (("truth", truth), ("observed", observed), ("posterior mean", mean))
    values = {title: np.asarray(some, dtype=np.float64) for title, some in given if some is not None}
    if observed is not None and values["observed"].shape != np.shape(mean):
        raise checks.value_error(
            "observed",
            f"must have one value an entry of `mean`, shape {np.shape(mean)}, NaN where nothing was "
            f"observed, got {values['observed'].shape}",
        )
    spread = np.asarray(deviation, dtype=np.float64)
    limits = _limits(np.concatenate([some.ravel() for some in values.values()]))
    columns = 2 if len(values) == 3 else len(values) + 1
    rows = -(-(len(values) + 1) // columns)
    if figure is None:
        require_matplotlib()
        from matplotlib.figure import Figure

        figure = Figure(figsize=(4.2 * columns, 3.8 * rows), layout="constrained")
    panels = [(title, some, VALUES, limits, label) for title, some in values.items()]
    panels.append(("standard deviation", spread, DEVIATIONS, _limits(spread), f"deviation of the {label}"))
    for number, (title, some, cmap, ends, words) in enumerate(panels, start=1):
        ax = figure.add_subplot(rows, columns, number)
        draw(some, ax=ax, label=words, cmap=cmap, limits=ends)
        ax.set_title(title)
        if number % columns != 1:
            ax.set_ylabel("")
    return figure


def _limits(values: np.ndarray) -> tuple[float, float]:
    finite = values[np.isfinite(values)]
    if not finite.size:
        return 0.0, 1.0
    low, high = np.percentile(finite, _ENDS)
    if np.ptp(finite) < _HARDLY_MORE * (high - low):
        low, high = finite.min(), finite.max()
    return float(low), float(high)
