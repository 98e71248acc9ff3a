"""Fields on triangle meshes and lattices, and the triangles themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from graphrf._base import checks
from graphrf.plot._pictures import Frame, Picture, draw_points, picture_of
from graphrf.plot._planes import box_of, triangulation_of
from graphrf.plot._style import (
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

    from graphrf.gp import TriangleMesh

# Of more edges svg and pdf files hold a bitmap.
_MANY = 20_000
# Inches: the usual width of a figure.
_USUAL = 5.2


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
