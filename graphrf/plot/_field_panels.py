"""Several fields on one domain, those of the same kind in the same colours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from graphrf._base import checks
from graphrf.plot._fields import field_values
from graphrf.plot._given import deviations
from graphrf.plot._pictures import Picture, picture_of
from graphrf.plot._style import (
    DEVIATIONS,
    VALUES,
    colour_bar,
    extended_ends,
    fit_height,
    new_figure,
    require_matplotlib,
    wanted_width,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from graphrf.gp import TriangleMesh

# Inches: the width that a panel needs at least and that it usually has, the width of the numbers
# beside a row, and a height of text with which the layout begins.
_LEAST, _USUAL, _BESIDE, _TEXT = 1.5, 2.8, 0.55, 1.0
_MOST_COLUMNS = 4


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
        Default: derived from `label`.
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
        fields = _titled(deviation, "standard deviation", "deviation")
        for some in fields.values():
            deviations(some, np.shape(some))
        blocks.append(_block(picture, fields, DEVIATIONS, None, words, "deviation"))

    places = points if isinstance(points, Mapping) else None
    if places is not None:
        places = {str(title): some for title, some in places.items()}
        _check_titles(places, blocks)
    filled, rows = _axes(blocks, figure)

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


def _axes(
    blocks: list[_Block], figure: Figure | SubFigure | None
) -> tuple[Figure | SubFigure, list[list[Axes]]]:
    """Axes for the panels of each block: two blocks of one panel are in one row."""
    counts = [len(block.panels) for block in blocks]
    beside = counts == [1, 1]
    n = 2 if beside else max(counts)
    width = wanted_width(_USUAL * min(n, _MOST_COLUMNS) + _BESIDE)
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
