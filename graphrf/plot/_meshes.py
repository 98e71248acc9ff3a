"""Values on triangle meshes in space."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphrf import _checks
from graphrf.plot._style import VALUES, beyond, finite_range, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_mesh(
    vertices: Any,
    faces: Any,
    values: Any,
    *,
    ax: Axes | None = None,
    label: str = "",
    cmap: str = VALUES,
    limits: tuple[float, float] | None = None,
    view: tuple[float, float] = (28.0, -60.0),
) -> Axes:
    """A triangle mesh in space, its faces coloured by `values` and lightly shaded.

    Parameters
    ----------
    vertices : array_like, shape (V, 3)
    faces : array_like of int, shape (F, 3)
    values : array_like of float, shape (F,)
        Of the faces; NaN is drawn pale grey (not observed).
    ax : mpl_toolkits.mplot3d.Axes3D, optional
        Made with `projection="3d"`.
    label : str
        Of the colour bar, with the unit if there is one.
    cmap : str
    limits : (low, high), optional
        Values at the ends of the colour bar. Default: the finite range.
    view : (elevation, azimuth) in degrees

    Returns
    -------
    mpl_toolkits.mplot3d.Axes3D

    Notes
    -----
    Of a closed surface the faces that look at the viewer are painted from back to front by the distance of their
    centres, which is right for all but long, interlocking faces; of an open one all faces are. About 1 s for
    10,000 faces.
    """
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.ticker import MaxNLocator
    from mpl_toolkits.mplot3d.art3d import Poly3DCollection

    vertices = np.asarray(vertices, dtype=np.float64)
    faces = np.asarray(faces)
    values = np.asarray(values, dtype=np.float64)
    if vertices.ndim != 2 or vertices.shape[1] != 3:
        raise ValueError(f"`vertices` must have shape (V, 3), got {vertices.shape}")
    if faces.ndim != 2 or faces.shape[1] != 3 or faces.dtype.kind not in "iu":
        raise ValueError(f"`faces` must be integers of shape (F, 3), got {_checks.describe(faces)}")
    if values.shape != (len(faces),):
        raise ValueError(f"`values` must have one entry a face, shape ({len(faces)},), got {values.shape}")
    norm = Normalize(*(limits if limits is not None else finite_range(values)))
    colours = colormaps[cmap](norm(values))
    colours[~np.isfinite(values)] = (0.87, 0.87, 0.87, 1.0)
    corners = vertices[faces]
    normals = _normals(corners)
    colours[:, :3] *= _lightness(normals, view)[:, None]
    low, high = corners.reshape(-1, 3).min(axis=0), corners.reshape(-1, 3).max(axis=0)
    size = np.maximum(high - low, 0.01 * max(float((high - low).max()), 1e-300))
    zoom = 0.92 * float(np.linalg.norm(size)) / _extent(corners.reshape(-1, 3) - (low + high) / 2, view, size)
    if _is_closed(faces):
        # Of a closed surface only what looks at the viewer can be seen; "inside out" meshes look away throughout.
        volume = float(np.einsum("ij,ij->", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])))
        seen = normals @ _direction(*view) * np.sign(volume) > 0
        corners, colours = corners[seen], colours[seen]

    axes: Any = new_axes(ax, (5.2, 4.4), projection="3d")
    # Edges in the faces' colours close the hairlines that antialiasing leaves between them.
    axes.add_collection3d(
        Poly3DCollection(corners, facecolors=colours, edgecolors=colours, linewidths=0.3, zsort="average")
    )
    start, end = (low + high - size) / 2, (low + high + size) / 2
    axes.set(**{f"{name}lim": (start[number], end[number]) for number, name in enumerate("xyz")})
    axes.set_proj_type("ortho")
    axes.set_box_aspect(size, zoom=zoom)
    axes.view_init(*view)
    axes.set_axis_off()
    bar = axes.figure.colorbar(
        ScalarMappable(norm, cmap),
        ax=axes,
        orientation="horizontal",
        shrink=0.7,
        pad=0.0,
        aspect=30,
        label=label,
        extend=beyond(values, norm.vmin, norm.vmax),
    )
    bar.outline.set_visible(False)
    bar.locator = MaxNLocator(5)
    return axes


def _direction(elevation: float, azimuth: float) -> np.ndarray:
    """The unit vector that points from the middle to a viewer at these angles in degrees."""
    up, around = np.radians(elevation), np.radians(azimuth)
    return np.array([np.cos(up) * np.cos(around), np.cos(up) * np.sin(around), np.sin(up)])


def _normals(corners: np.ndarray) -> np.ndarray:
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    length = np.linalg.norm(normals, axis=1, keepdims=True)
    return np.divide(normals, length, out=np.zeros_like(normals), where=length > 0)


def _lightness(normals: np.ndarray, view: tuple[float, float]) -> np.ndarray:
    """Lightness of every face in [0.72, 1] under a lamp beside the viewer, the same for both sides of a face."""
    return 0.72 + 0.28 * np.abs(normals @ _direction(view[0] + 25, view[1] + 25))


def _is_closed(faces: np.ndarray) -> bool:
    """Whether every side of a face is one side of another, run through the other way."""
    starts, ends = faces.ravel(), np.roll(faces, -1, axis=1).ravel()
    n = int(faces.max()) + 1 if len(faces) else 0
    forth, back = np.sort(starts.astype(np.int64) * n + ends), np.sort(ends.astype(np.int64) * n + starts)
    return bool(len(faces) and np.array_equal(forth, back) and (np.diff(forth) > 0).all())


def _extent(points: np.ndarray, view: tuple[float, float], size: np.ndarray) -> float:
    """Twice the largest offset, sideways or upwards, of points from the origin as they are seen."""
    right = _direction(0.0, view[1] + 90)
    offsets = points @ np.column_stack([right, np.cross(_direction(*view), right)])
    return float(max(2 * np.abs(offsets).max(), 0.01 * np.linalg.norm(size)))
