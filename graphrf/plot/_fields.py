"""Fields on triangle meshes and lattices, alone or several in the same colours, and the triangles
themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from graphrf._base import checks
from graphrf.plot._given import deviations
from graphrf.plot._pictures import Frame, Picture, draw_points, picture_of
from graphrf.plot._planes import box_of, triangulation_of
from graphrf.plot._style import (
    DEVIATIONS,
    GREY,
    VALUES,
    colour_bar,
    extended_ends,
    fit_height,
    new_figure,
    require_matplotlib,
    spacing,
    wanted_width,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from graphrf.gp import TriangleMesh

# Of more edges svg and pdf files hold a bitmap.
_MANY = 20_000
# Inches: the usual width of a figure.
_USUAL = 5.2
# Inches: the width that a panel needs at least and that it usually has, the width of the numbers
# beside a row, and a height of text with which the layout begins.
_LEAST, _PANEL, _BESIDE, _TEXT = 1.5, 2.8, 0.55, 1.0
_MOST_COLUMNS = 4


def plot_triangulation(
    mesh: TriangleMesh,
    *,
    points: ArrayLike | None = None,
    boundary: Any = None,
    ax: Axes | None = None,
    unit: str = "",
) -> Axes:
    """The triangles of a planar mesh, with the places of data on top.

    Parameters
    ----------
    mesh : TriangleMesh
        With vertices in the plane.
    points : array_like or GeoSeries of points, shape (n, 2), optional
        Drawn as dots.
    boundary : Polygon, MultiPolygon, GeoSeries, GeoDataFrame, or array_like of shape (n, 2)
        A region that is outlined; triangles outside are not drawn. Optional.
    ax : matplotlib.axes.Axes, optional
        Default: those of a new figure.
    unit : str
        The unit of the coordinates, for the labels of the axes, such as "km".

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ValueError
        For a mesh in space, which `plot_mesh` draws, and a boundary that is no polygon or lies
        elsewhere.

    Examples
    --------
    >>> import numpy as np
    >>> from graphrf.gp import TriangleMesh
    >>> from graphrf.plot import plot_triangulation
    >>> places = np.random.default_rng(0).uniform(0, 50, (100, 2))
    >>> mesh = TriangleMesh.from_points(places, max_edge=5)
    >>> ax = plot_triangulation(mesh, points=places, unit="km")
    >>> ax.get_xlabel()
    'x (km)'
    """
    require_matplotlib()
    vertices, triangles = triangulation_of(mesh, "mesh")
    if vertices.shape[1] != 2:
        raise checks.value_error(
            "mesh", f"must be planar, got {vertices.shape[1]} coordinates: see `plot_mesh`"
        )

    frame = Frame(box_of(vertices), boundary, unit, False)
    new, ax = ax is None, _axes(ax)
    pairs = np.sort(triangles[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    pairs = np.unique(pairs, axis=0)
    apart, _ = spacing(ax, vertices, 1.0, len(triangles))

    from matplotlib.collections import LineCollection

    lines = LineCollection(
        list(vertices[pairs]),
        colors=GREY,
        linewidths=float(np.clip(0.06 * apart, 0.1, 0.6)),
        rasterized=len(pairs) > _MANY,
        zorder=1,
    )
    ax.add_collection(lines)
    draw_points(ax, points)
    frame.draw(ax, lines)
    if new:
        fit_height([ax], frame.ratio)
    return ax


def plot_field(
    domain: TriangleMesh | ArrayLike,
    values: ArrayLike,
    *,
    points: ArrayLike | None = None,
    boundary: Any = None,
    ax: Axes | None = None,
    label: str = "",
    cmap: str = VALUES,
    limits: tuple[float, float] | None = None,
    unit: str = "",
    geographic: bool = False,
) -> Axes:
    """A field as an image with axes in the units of its coordinates.

    Parameters
    ----------
    domain : TriangleMesh, or array_like of shape (n, 2)
        A mesh with V vertices, or places of a lattice of equal steps, of which some may be missing.
    values : array_like of float, shape (V,) or (n,)
        At the vertices, between which the field is linear, or at the places. NaN is left white.
    points : array_like or GeoSeries of points, shape (m, 2), optional
        Places of data, drawn as dots.
    boundary : Polygon, MultiPolygon, GeoSeries, GeoDataFrame, or array_like of shape (k, 2)
        The region that is drawn, such as the sea without the margin of the mesh; holes are left
        white. Optional.
    ax : matplotlib.axes.Axes, optional
        Default: those of a new figure.
    label : str
        Label of the colour bar, with the unit.
    cmap : str
        `graphrf.plot.DEVIATIONS` for standard deviations.
    limits : (low, high), optional
        Values at the ends of the colour bar, which is pointed where values lie outside. Default:
        the finite range of what is drawn.
    unit : str
        The unit of the coordinates, for the labels of the axes, such as "km".
    geographic : bool
        True for longitudes and latitudes in degrees: a degree of longitude is then drawn
        cos(latitude) as long.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ValueError
        For shapes that do not match, places in no lattice, and a boundary that is no polygon or
        lies elsewhere.

    See Also
    --------
    plot_fields : means beside standard deviations, and several years with the same colours.
    interactive_mesh : a surface to turn, from `mesh.vertices` and `mesh.triangles`.

    Notes
    -----
    A surface in space is drawn as by `plot_mesh`, which has options of the view.

    Examples
    --------
    >>> import numpy as np
    >>> from graphrf.gp import TriangleMesh
    >>> from graphrf.plot import plot_field
    >>> places = np.random.default_rng(0).uniform(0, 50, (100, 2))
    >>> mesh = TriangleMesh.from_points(places, max_edge=5)
    >>> square = [[0, 0], [50, 0], [50, 50], [0, 50]]
    >>> depth = np.hypot(*(mesh.vertices - 25).T)
    >>> ax = plot_field(mesh, depth, boundary=square, label="depth (m)", unit="km")
    >>> len(ax.images)
    1
    """
    require_matplotlib()
    picture = picture_of(domain, boundary, unit, geographic)
    shown = field_values(picture, values, "values")
    ends = limits if limits is not None else picture.limits(shown)
    new, ax = ax is None, _axes(ax)
    mappable = picture.draw(ax, shown, cmap, ends, points)
    colour_bar(mappable, ax, label, extended_ends(np.array(picture.limits(shown)), *ends))
    if new:
        fit_height([ax], picture.ratio)
    return ax


def field_values(picture: Picture, values: ArrayLike, name: str) -> np.ndarray:
    """One value for each vertex or place."""
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (picture.n_values,):
        raise checks.value_error(
            name,
            f"must have one entry per {picture.kind} of the domain, shape ({picture.n_values},), "
            f"got {array.shape}",
        )
    return np.where(np.isfinite(array), array, np.nan)


def _axes(ax: Axes | None) -> Any:
    """`ax`, or new axes."""
    if ax is not None:
        return ax
    width = wanted_width(_USUAL)
    return new_figure((width, width)).add_subplot()


class _Block(NamedTuple):
    """Panels with common colours."""

    panels: dict[str, np.ndarray]
    cmap: str
    limits: tuple[float, float]
    label: str


def plot_fields(
    domain: TriangleMesh | ArrayLike,
    values: ArrayLike | Mapping[Any, ArrayLike],
    deviation: ArrayLike | Mapping[Any, ArrayLike] | None = None,
    *,
    points: ArrayLike | Mapping[Any, ArrayLike] | None = None,
    boundary: Any = None,
    figure: Figure | SubFigure | None = None,
    label: str = "value",
    deviation_label: str | None = None,
    limits: tuple[float, float] | None = None,
    unit: str = "",
    geographic: bool = False,
) -> Figure | SubFigure:
    """Means of a field beside their standard deviations, or those of several years.

    Parameters
    ----------
    domain : TriangleMesh, or array_like of shape (n, 2)
        See `plot_field`.
    values : array_like of float, shape (V,) or (n,), or mapping
        A posterior mean, or titles of panels and their values: `{2003: mean_2003, 2004: ...}`.
    deviation : array_like of float, or mapping, optional
        Standard deviations, likewise.
    points : array_like of shape (m, 2), or mapping, optional
        Places of data, in all panels or in those with these titles.
    figure : matplotlib.figure.Figure or SubFigure, optional
        To be filled. Default: a new figure.
    label : str
        Name of the field, with its unit.
    deviation_label : str, optional
        Default: derived from `label`. It is the title, too, such as "CV" of sd / mean.
    limits : (low, high), optional
        Values at the ends of the colour bar of the values. Default: the finite range of what is
        drawn.
    boundary, unit, geographic
        See `plot_field`.

    Returns
    -------
    Figure or SubFigure
        All values have the same colours, and so have all standard deviations, which have a colour
        map of their own. One mean and one deviation are side by side; otherwise deviations are
        below.

    Raises
    ------
    ValueError
        As `plot_field`, and for negative deviations and mappings without panels.

    Examples
    --------
    >>> import numpy as np
    >>> from graphrf.gp import TriangleMesh
    >>> from graphrf.plot import plot_fields
    >>> places = np.random.default_rng(0).uniform(0, 50, (100, 2))
    >>> mesh = TriangleMesh.from_points(places, max_edge=10)
    >>> x, y = mesh.vertices.T
    >>> figure = plot_fields(mesh, {2003: x, 2004: y}, label="density (kg/km²)", unit="km")
    >>> [ax.get_title() for ax in figure.axes]  # two maps and a colour bar
    ['2003', '2004', '']
    """
    require_matplotlib()
    picture = picture_of(domain, boundary, unit, geographic)
    first = "" if deviation is None else "posterior mean"
    blocks = [_block(picture, _titled(values, first, "values"), VALUES, limits, label)]
    if deviation is not None:
        words = f"standard deviation of the {label}" if deviation_label is None else deviation_label
        fields = _titled(deviation, deviation_label or "standard deviation", "deviation")
        for some in fields.values():
            deviations(some, np.shape(some))
        blocks.append(_block(picture, fields, DEVIATIONS, None, words, "deviation"))

    places = points if isinstance(points, Mapping) else None
    if places is not None:
        places = {str(title): some for title, some in places.items()}
        _check_titles(places, blocks)
    filled, rows = _panel_axes(blocks, figure)

    for block, axes in zip(blocks, rows, strict=True):
        for ax, (title, field) in zip(axes, block.panels.items(), strict=True):
            dots = points if places is None else places.get(title)
            mappable = picture.draw(ax, field, block.cmap, block.limits, dots)
            ax.set_title(title)
        _label_outside(axes)
        seen = np.array([picture.limits(field) for field in block.panels.values()])
        colour_bar(mappable, axes, block.label, extended_ends(seen, *block.limits))
        for ax in axes:
            # Room above a map, where bars let it stand, would be taken for that of its title.
            ax.set_anchor("N")
    if figure is None:
        fit_height(rows[0], picture.ratio)
    return filled


def _titled(fields: Any, title: str, name: str) -> dict[str, Any]:
    """Fields by the titles of their panels."""
    if not isinstance(fields, Mapping):
        return {title: fields}
    if not fields:
        raise checks.value_error(name, "must hold at least one panel, got none")
    return {str(key): field for key, field in fields.items()}


def _block(
    picture: Picture,
    fields: dict[str, Any],
    cmap: str,
    limits: tuple[float, float] | None,
    label: str,
    name: str = "values",
) -> _Block:
    single = len(fields) == 1
    panels = {
        title: field_values(picture, field, name if single else f"{name}[{title!r}]")
        for title, field in fields.items()
    }
    ends = np.array([picture.limits(field) for field in panels.values()])
    seen = (float(ends.min()), float(ends.max()))
    return _Block(panels, cmap, seen if limits is None else limits, label)


def _check_titles(points: dict[str, Any], blocks: list[_Block]) -> None:
    titles = {title for block in blocks for title in block.panels}
    unknown = [title for title in points if title not in titles]
    if unknown:
        raise checks.value_error(
            "points", f"must have titles of panels as keys, got {unknown[0]!r}, which is none"
        )


def _panel_axes(
    blocks: list[_Block], figure: Figure | SubFigure | None
) -> tuple[Figure | SubFigure, list[list[Axes]]]:
    """Axes for the panels of each block: two blocks of one panel are in one row."""
    counts = [len(block.panels) for block in blocks]
    beside = counts == [1, 1]
    n = 2 if beside else max(counts)
    width = wanted_width(_PANEL * min(n, _MOST_COLUMNS) + _BESIDE)
    width = width if figure is None else _width(figure)
    columns = min(n, _MOST_COLUMNS, max(1, int(width / _LEAST)))
    # Rows of about equal length.
    columns = -(-n // -(-n // columns))
    beside = beside and columns == 2
    lines = [1] if beside else [-(-count // columns) for count in counts]

    if figure is None:
        figure = new_figure((width, sum(lines) * (width / columns + _TEXT)))

    if beside:
        return figure, [[figure.add_subplot(1, 2, number)] for number in (1, 2)]
    rows: list[list[Axes]] = []
    start = 0
    for count, n_lines in zip(counts, lines, strict=True):
        numbers = start * columns + 1 + np.arange(count)
        rows.append([figure.add_subplot(sum(lines), columns, int(some)) for some in numbers])
        start += n_lines
    return figure, rows


def _width(figure: Figure | SubFigure) -> float:
    """The size in inches."""
    return float(figure.bbox.width / figure.dpi)


def _label_outside(axes: Sequence[Axes]) -> None:
    """Leave numbers and labels to the first column, and to the last panel of each column."""
    places = [ax.get_subplotspec() for ax in axes]
    for ax, place in zip(axes, places, strict=True):
        assert place is not None
        if place.colspan.start:
            ax.set_ylabel("")
            ax.tick_params(labelleft=False)
        if any(
            other is not None
            and other.colspan.start == place.colspan.start
            and other.rowspan.start > place.rowspan.start
            for other in places
        ):
            ax.set_xlabel("")
            ax.tick_params(labelbottom=False)
