"""Values on triangle meshes in space."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from graphrf._base import checks
from graphrf.graph.geometry.location import TriangleTree
from graphrf.plot._given import finite_range, mesh, mesh_values, turn
from graphrf.plot._style import (
    UNOBSERVED,
    VALUES,
    colour_bar,
    extended_ends,
    inches,
    new_axes,
    scale_bar,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable

# Of more faces svg and pdf files hold a bitmap: each face would be a shape of its own.
_MOST_SHAPES = 5_000
# The share of places with values, and the side of a face in points, below which these are dots.
_SPARSE, _SMALLEST = 0.5, 4.0
# Points per inch of a picture over the root of the number of dots: their size, alone or on a mean.
_DOTS, _MARKS = 40.0, 25.0
# The share of the depth of a surface within which places are on it.
_NEAR = 5e-3


def plot_mesh(
    vertices: ArrayLike,
    faces: ArrayLike,
    values: ArrayLike,
    *,
    ax: Axes | None = None,
    label: str = "",
    cmap: str = VALUES,
    limits: tuple[float, float] | None = None,
    unit: str = "",
    view: tuple[float, float] = (28.0, -60.0),
    up: str = "z",
    on: str | None = None,
) -> Axes:
    """A triangle mesh in space, its faces coloured by `values` and lightly shaded.

    Parameters
    ----------
    vertices : array_like, shape (V, 3)
    faces : array_like of int, shape (F, 3)
    values : array_like of float, shape (F,) or (V,)
        Values of the faces, or of the vertices, averaged over each face. NaN is drawn in pale grey
        (not observed).
    ax : matplotlib.axes.Axes, optional
        Plain axes: the projection is made here. Default: those of a new figure.
    label : str
        Label of the colour bar, with the unit.
    cmap : str
    limits : (low, high), optional
        Values at the ends of the colour bar. Default: the finite range.
    unit : str
        The unit of the coordinates, such as "mm", for a scale bar.
    view : (elevation, azimuth) in degrees
    up : "x", "y", "z", "-x", "-y" or "-z"
        The axis that points upwards in the figure. Many files of meshes have "y".
    on : "faces" or "vertices", optional
        What `values` belong to. Default: inferred from their number; faces where there are as many
        of both.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ValueError
        For shapes that do not match, an unknown `up` or `on`, and axes with a projection.

    See Also
    --------
    interactive_mesh : the same to turn, with the value of each face under the pointer.

    Notes
    -----
    The projection is orthographic. Of a closed surface the faces that look at the viewer are
    painted from back to front by the distance of their centres, which is right for all but long,
    interlocking faces; of an open one all faces are. Of more than 5,000 faces, svg and pdf files
    hold a bitmap (`savefig(..., dpi=300)`) beside text and colour bar.

    Examples
    --------
    >>> import graphrf as grf
    >>> from graphrf.plot import plot_mesh
    >>> data = grf.datasets.load("generated-icosphere")
    >>> ax = plot_mesh(
    ...     data.extra["vertices"], data.extra["faces"], data.targets, label="z of the normal"
    ... )
    >>> 2 * len(
    ...     ax.collections[0].get_paths()
    ... ) == data.graph.n_nodes  # of a closed surface one half is seen
    True
    """
    points, triangles, shown = _on_faces(vertices, faces, values, on)
    return _drawn(points, triangles, shown, None, ax, label, cmap, limits, unit, view, up)


def plot_mesh_readings(
    vertices: ArrayLike,
    faces: ArrayLike,
    values: ArrayLike,
    *,
    ax: Axes,
    label: str,
    cmap: str,
    limits: tuple[float, float],
    unit: str,
    view: tuple[float, float],
    up: str,
    on: str | None,
) -> Axes:
    """`plot_mesh` of values at some vertices or faces: dots where the faces would not be seen."""
    points, triangles = mesh(vertices, faces)
    known, on_vertices = mesh_values(values, len(points), len(triangles), on)
    shown = known[triangles].mean(axis=1) if on_vertices else known
    seen = np.isfinite(known)
    side = 72 * inches(ax) / np.sqrt(max(1, len(triangles)))
    if seen.mean() > _SPARSE or not (on_vertices or side < _SMALLEST):
        dots = None
    else:
        spots = points if on_vertices else points[triangles].mean(axis=1)
        dots = spots[seen], known[seen], _DOTS
        shown = np.full(len(triangles), np.nan)
    return _drawn(points, triangles, shown, dots, ax, label, cmap, limits, unit, view, up)


def plot_marked_mesh(
    vertices: ArrayLike,
    faces: ArrayLike,
    values: ArrayLike,
    marks: tuple[np.ndarray, np.ndarray],
    *,
    ax: Axes,
    label: str,
    cmap: str,
    limits: tuple[float, float],
    unit: str,
    view: tuple[float, float],
    up: str,
    on: str | None,
) -> Axes:
    """`plot_mesh`, with dots at the nearest points of the mesh to the places of `marks`."""
    points, triangles, shown = _on_faces(vertices, faces, values, on)
    places, known = marks
    corners = points[triangles]
    nearest = TriangleTree(corners).nearest(places)
    on_surface = np.einsum("nk,nkd->nd", nearest.weights, corners[nearest.triangle])
    dots = on_surface, known, _MARKS
    return _drawn(points, triangles, shown, dots, ax, label, cmap, limits, unit, view, up)


def _on_faces(
    vertices: ArrayLike, faces: ArrayLike, values: ArrayLike, on: str | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Vertices, triangles and a value of each, the mean of those of its vertices."""
    points, triangles = mesh(vertices, faces)
    known, on_vertices = mesh_values(values, len(points), len(triangles), on)
    return points, triangles, known[triangles].mean(axis=1) if on_vertices else known


def _drawn(
    points: np.ndarray,
    triangles: np.ndarray,
    shown: np.ndarray,
    dots: tuple[np.ndarray, np.ndarray, float] | None,
    ax: Axes | None,
    label: str,
    cmap: str,
    limits: tuple[float, float] | None,
    unit: str,
    view: tuple[float, float],
    up: str,
) -> Axes:
    """Axes with the faces, dots at places with values, a scale bar and a colour bar."""
    if ax is not None and ax.name != "rectilinear":
        raise checks.value_error(
            "ax", f"must be plain axes, got those of the projection {ax.name!r}"
        )
    ax = new_axes(ax, (5.2, 4.4))
    ends = limits if limits is not None else finite_range(shown)
    turned = (points @ turn(up).T)[triangles]
    scale = draw_surface(ax, turned, triangles, shown, cmap, ends, view)
    if dots is not None:
        places, known, size = dots
        _draw_dots(ax, places @ turn(up).T, known, size, turned, scale, view)
        shown = np.append(shown, known)
    scale_bar(ax, unit)
    colour_bar(scale, ax, label, extended_ends(shown, *ends))
    return ax


def _draw_dots(
    ax: Axes,
    places: np.ndarray,
    values: np.ndarray,
    size: float,
    corners: np.ndarray,
    scale: ScalarMappable,
    view: tuple[float, float],
) -> None:
    """Dots in the colours of a scale at those places on a surface that can be seen."""
    across, depth = _projection(view)
    seen = ~_hidden(places @ across, places @ depth, corners @ across, corners @ depth)
    size = float(np.clip(size * inches(ax) / np.sqrt(max(1, len(places))), 2.0, 5.0))
    x, y = (places[seen] @ across).T
    colours = scale.to_rgba(values[seen])
    ax.scatter(x, y, s=size**2, c=colours, edgecolors="black", linewidths=0.08 * size, zorder=3)


def _hidden(
    spots: np.ndarray, depths: np.ndarray, corners: np.ndarray, corner_depths: np.ndarray
) -> np.ndarray:
    """True for points behind a triangle, given places in the picture and distances to the viewer.

    Takes each point with each triangle.
    """
    start, one, two = corners[:, 0], corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    area = one[:, 0] * two[:, 1] - one[:, 1] * two[:, 0]
    flat = np.abs(area) > 0
    start, one, two, area = start[flat], one[flat], two[flat], area[flat]
    level = corner_depths[flat]
    # A point on a triangle, or on its border, is not behind it.
    gap = _NEAR * float(np.ptp(corner_depths) or 1.0)
    hidden = np.zeros(len(spots), dtype=bool)
    for number, (spot, depth) in enumerate(zip(spots, depths.tolist(), strict=True)):
        away = spot - start
        a = (away[:, 0] * two[:, 1] - away[:, 1] * two[:, 0]) / area
        b = (one[:, 0] * away[:, 1] - one[:, 1] * away[:, 0]) / area
        within = (a >= 0) & (b >= 0) & (a + b <= 1)
        a, b, near = a[within], b[within], level[within]
        at = near[:, 0] + a * (near[:, 1] - near[:, 0]) + b * (near[:, 2] - near[:, 0])
        hidden[number] = bool((at > depth + gap).any())
    return hidden


def _projection(view: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    """The two axes of a picture, shape (3, 2), and the direction to its viewer."""
    towards, right = direction(*view), direction(0.0, view[1] + 90)
    return np.column_stack([right, np.cross(towards, right)]), towards


def draw_surface(
    ax: Axes,
    corners: np.ndarray,
    triangles: np.ndarray,
    values: np.ndarray,
    cmap: str,
    limits: tuple[float, float],
    view: tuple[float, float],
) -> ScalarMappable:
    """Paint triangles with corners of shape (F, 3, 3); the scale of their colours."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import Normalize

    scale = ScalarMappable(Normalize(*limits), colormaps[cmap])
    colours = scale.to_rgba(values)
    colours[~np.isfinite(values)] = UNOBSERVED

    normals = _normals(corners)
    across, towards = _projection(view)
    colours[:, :3] *= _lightness(normals, view)[:, None]
    order = np.argsort(corners.mean(axis=1) @ towards, kind="stable")
    if _is_closed(triangles):
        # Of a closed surface only what looks at the viewer can be seen; "inside out" meshes look
        # away throughout.
        volume = float(np.einsum("ij,ij->", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])))
        order = order[(normals @ towards * np.sign(volume) > 0)[order]]

    flat = corners[order] @ across
    # Edges in the faces' colours close the hairlines that antialiasing leaves between them.
    shapes = PolyCollection(
        flat, facecolors=colours[order], edgecolors=colours[order], linewidths=0.3
    )
    shapes.set_rasterized(len(order) > _MOST_SHAPES)
    ax.add_collection(shapes)
    ax.autoscale_view()

    # Axes that shrink to the mesh would mislead the layout, which then cuts titles off.
    ax.set_aspect("equal", adjustable="datalim")
    ax.set_axis_off()
    return scale


def direction(elevation: float, azimuth: float) -> np.ndarray:
    """The unit vector that points from the middle to a viewer at these angles in degrees."""
    up, around = np.radians(elevation), np.radians(azimuth)
    return np.array([np.cos(up) * np.cos(around), np.cos(up) * np.sin(around), np.sin(up)])


def _normals(corners: np.ndarray) -> np.ndarray:
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    length = np.linalg.norm(normals, axis=1, keepdims=True)
    return np.divide(normals, length, out=np.zeros_like(normals), where=length > 0)


def _lightness(normals: np.ndarray, view: tuple[float, float]) -> np.ndarray:
    """Lightness of faces in [0.72, 1] under a lamp beside the viewer, alike on both sides."""
    return 0.72 + 0.28 * np.abs(normals @ direction(view[0] + 25, view[1] + 25))


def _is_closed(faces: np.ndarray) -> bool:
    """True if every side of a face is one side of another, traversed in the opposite direction."""
    starts, ends = faces.ravel(), np.roll(faces, -1, axis=1).ravel()
    n = int(faces.max()) + 1 if len(faces) else 0
    forth, back = (
        np.sort(starts.astype(np.int64) * n + ends),
        np.sort(ends.astype(np.int64) * n + starts),
    )
    return bool(len(faces) and np.array_equal(forth, back) and (np.diff(forth) > 0).all())
