"""Figures: errors against walks, couplings, signals on meshes and maps, PageRank scores.

Every function draws into the matplotlib axes `ax`, or into a new figure of its own if `ax` is None, and returns
the axes; `ax.figure.savefig(path)` writes the figure. pyplot is never imported: no backend is chosen or changed,
and no figure stays open behind the caller's back. Needs the extra `plot`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from graphrf import _checks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from graphrf.lengths import Coupling

#: Colours of lines and marks, distinct to colour-blind readers (Okabe and Ito 2008), the strongest first.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = "osD^vPX"
_GREY = "#6b6b6b"
_PALE = "#d9d9d9"


def require_matplotlib() -> None:
    """Raise `ImportError` with the way out if figures cannot be drawn."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise ImportError("figures need matplotlib, which is not installed: pip install 'graphrf[plot]'") from None


def plot_error_against_walks(
    curves: Mapping[str, Any],
    *,
    ax: Axes | None = None,
    ylabel: str = "relative error of the Gram matrix",
    guide: bool = True,
) -> Axes:
    r"""Errors against numbers of walks on logarithmic axes, one line for each method.

    Parameters
    ----------
    curves : mapping of labels to array_like of shape (n, 2) or (n, 3)
        Columns: walks, error, and (optional) the error's standard error, drawn as a bar of two each way.
    ax : matplotlib.axes.Axes, optional
    ylabel : str
    guide : bool
        Draw the slope of independent walks, error ~ walks^(-1/2), through the first point of the first curve.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from graphrf.plot import plot_error_against_walks
    >>> ax = plot_error_against_walks({"independent": [[4, 0.2, 0.01], [16, 0.1, 0.01]]})
    >>> ax.get_xscale()
    'log'
    """
    if not curves:
        raise ValueError("`curves` must hold at least one curve, got none")
    lines = {label: _curve(label, curve) for label, curve in curves.items()}
    ax = _axes(ax, (6.4, 4.4))
    if guide:
        first = next(iter(lines.values()))
        walks = np.unique(np.concatenate([line[:, 0] for line in lines.values()]))
        ax.plot(
            walks, first[0, 1] * np.sqrt(first[0, 0] / walks), color=_GREY, linestyle=(0, (4, 3)), linewidth=1,
            label="slope of independent walks, $-1/2$", zorder=1,
        )  # fmt: skip
    for number, (label, line) in enumerate(lines.items()):
        ax.errorbar(
            line[:, 0], line[:, 1], yerr=2 * line[:, 2] if line.shape[1] == 3 else None, label=label,
            color=COLOURS[number % len(COLOURS)], marker=_MARKERS[number % len(_MARKERS)], markersize=5,
            linewidth=1.6, elinewidth=1, capsize=2, zorder=2,
        )  # fmt: skip
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    _plain_log_labels(ax.yaxis)
    ax.set_xlabel("walks from each node")
    ax.set_ylabel(ylabel)
    ax.grid(which="major", color="#ececec", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.legend(frameon=False, fontsize=8.5, loc="lower left")
    _open_frame(ax)
    return ax


def plot_permutation(coupling: Coupling, *, ax: Axes | None = None) -> Axes:
    """Which quantile of one walk's length is matched with which quantile of the next walk's.

    Parameters
    ----------
    coupling : Coupling
        Its first permutation is drawn.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    permutation = coupling.permutation
    order = coupling.order
    ax = _axes(ax, (4.8, 4.6))
    ax.plot([0.5, order + 0.5], [order + 0.5, 0.5], color=_GREY, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    ax.plot(np.arange(1, order + 1), permutation + 1, "s", color=COLOURS[0], markersize=130 / order, zorder=2)
    ax.set_xlim(0.5, order + 0.5)
    ax.set_ylim(0.5, order + 0.5)
    ax.set_aspect("equal")
    ticks = np.unique(np.linspace(1, order, 6).round().astype(int))
    labels = [_tile_label(int(tick), order, coupling.p_halt) for tick in ticks]
    ax.set_xticks(ticks, labels)
    ax.set_yticks(ticks, labels)
    what = "quantile of its length" if coupling.p_halt is None else "quantile of its length (steps)"
    ax.set_xlabel(f"first walk: {what}")
    ax.set_ylabel(f"second walk: {what}")
    ax.annotate("dashed: shortest\nwith longest", (0.03, 0.03), xycoords="axes fraction", fontsize=8, color=_GREY)
    _open_frame(ax)
    return ax


def plot_mesh(
    vertices: Any,
    faces: Any,
    values: Any,
    *,
    ax: Axes | None = None,
    label: str = "",
    cmap: str = "viridis",
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
    norm = Normalize(*(limits if limits is not None else _range(values)))
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

    axes: Any = _axes(ax, (5.2, 4.4), projection="3d")
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
        ScalarMappable(norm, cmap), ax=axes, orientation="horizontal", shrink=0.7, pad=0.0, aspect=30, label=label
    )
    bar.outline.set_visible(False)
    bar.locator = MaxNLocator(5)
    return axes


def plot_pagerank(exact: Any, estimates: Mapping[str, Any], *, ax: Axes | None = None) -> Axes:
    """Estimated PageRank scores against the exact ones, on logarithmic axes.

    Parameters
    ----------
    exact : array_like, shape (N,)
    estimates : mapping of labels to array_like of shape (N,)
        At most seven. Estimates of zero are left out: nodes that no walk visited.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    exact = np.asarray(exact, dtype=np.float64)
    ax = _axes(ax, (5.2, 4.8))
    ends = float(exact[exact > 0].min()), float(exact.max())
    ax.plot(ends, ends, color=_GREY, linewidth=1, zorder=1, label="exact")
    for number, (label, scores) in enumerate(estimates.items()):
        scores = np.asarray(scores, dtype=np.float64)
        if scores.shape != exact.shape:
            raise ValueError(f"`estimates` must have shape {exact.shape} each, got {scores.shape} for {label!r}")
        seen = scores > 0
        ax.plot(
            exact[seen], scores[seen], _MARKERS[number], color=COLOURS[number], label=label, alpha=0.75,
            markersize=max(2.5, 6 - 0.9 * math.log10(exact.size)), markeredgewidth=0, zorder=2,
        )  # fmt: skip
    ax.set_xscale("log")
    ax.set_yscale("log")
    _plain_log_labels(ax.xaxis)
    _plain_log_labels(ax.yaxis)
    ax.set_xlabel("exact PageRank score")
    ax.set_ylabel("estimated PageRank score")
    ax.grid(which="major", color="#ececec", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.legend(frameon=False, fontsize=8.5, loc="upper left")
    _open_frame(ax)
    return ax


def plot_graph_signal(
    coordinates: Any,
    edges: Any,
    values: Any,
    *,
    ax: Axes | None = None,
    label: str = "",
    cmap: str = "viridis",
    limits: tuple[float, float] | None = None,
    marked: Any = None,
    geographic: bool = False,
) -> Axes:
    """A graph drawn in the plane, its nodes coloured by `values`, its edges by the mean of their ends.

    Parameters
    ----------
    coordinates : array_like, shape (N, 2)
        Horizontal and vertical places of the nodes: (longitude, latitude) for maps.
    edges : array_like of int, shape (E, 2)
    values : array_like of float, shape (N,)
        NaN draws no mark: the node has no value.
    ax : matplotlib.axes.Axes, optional
    label : str
        Of the colour bar, with the unit.
    cmap : str
    limits : (low, high), optional
        Values at the ends of the colour bar, which is pointed where values lie beyond. Default: the finite range.
    marked : array_like of int, optional
        Positions of nodes to dot in white, such as those observed.
    geographic : bool
        Whether coordinates are degrees: a degree of longitude is then drawn cos(latitude) as long.

    Returns
    -------
    matplotlib.axes.Axes
    """
    from matplotlib.collections import LineCollection

    coordinates = np.asarray(coordinates, dtype=np.float64)
    edges = np.asarray(edges, dtype=np.int64).reshape(-1, 2)
    values = np.asarray(values, dtype=np.float64)
    if coordinates.ndim != 2 or coordinates.shape[1] != 2:
        raise ValueError(f"`coordinates` must have shape (N, 2), got {coordinates.shape}")
    if values.shape != (len(coordinates),):
        raise ValueError(f"`values` must have one entry a node, shape ({len(coordinates)},), got {values.shape}")
    low, high = limits if limits is not None else _range(values)
    x, y = coordinates.T
    ax = _axes(ax, (6.0, 5.0))
    # Edges between two valued nodes carry the mean of the two, so that roads read as lines and not as beads.
    means = values[edges].mean(axis=1) if len(edges) else np.empty(0)
    known = np.isfinite(means)
    ax.add_collection(LineCollection(list(coordinates[edges[~known]]), colors="#b5b5b5", linewidths=0.8, zorder=1))
    lines = LineCollection(list(coordinates[edges[known]]), cmap=cmap, linewidths=2.2, zorder=2)
    lines.set_array(means[known])
    lines.set_clim(low, high)
    ax.add_collection(lines)
    shown = np.flatnonzero(np.isfinite(values))
    size = float(np.clip(6000 / max(1, shown.size), 9, 60))
    points = ax.scatter(
        x[shown], y[shown], c=values[shown], cmap=cmap, vmin=low, vmax=high, s=size, linewidths=0, zorder=3
    )
    if marked is not None:
        dotted = np.asarray(marked)
        ax.scatter(x[dotted], y[dotted], s=0.6 * size, color="white", edgecolors="black", linewidths=0.6, zorder=4)
    if geographic:
        ax.set_aspect(1 / math.cos(math.radians(float(coordinates[:, 1].mean()))))
        ax.set_xlabel("longitude (degrees)")
        ax.set_ylabel("latitude (degrees)")
        ax.locator_params(nbins=5)
        _open_frame(ax)
    else:
        ax.set_aspect("equal")
        ax.set_axis_off()
    bar = ax.figure.colorbar(
        points, ax=ax, label=label, shrink=0.8, pad=0.02, extend=_beyond(values[shown], low, high)
    )
    bar.outline.set_visible(False)
    return ax


# -- what the figures share --------------------------------------------------------------------------------


def _axes(ax: Axes | None, size: tuple[float, float], **options: Any) -> Any:
    """`ax`, or the axes of a new figure that pyplot does not know of."""
    if ax is not None:
        return ax
    require_matplotlib()
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout="constrained").add_subplot(**options)


def _curve(label: str, curve: Any) -> np.ndarray:
    array = np.asarray(curve, dtype=np.float64)
    if array.ndim != 2 or array.shape[1] not in (2, 3) or not len(array):
        raise ValueError(f"`curves` must have shape (n, 2) or (n, 3) each, got {array.shape} for {label!r}")
    if not (array[:, :2] > 0).all():
        raise ValueError(f"`curves` must have positive walks and errors for logarithmic axes, not so {label!r}")
    return array


def _range(values: np.ndarray) -> tuple[float, float]:
    finite = values[np.isfinite(values)]
    return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)


def _beyond(values: np.ndarray, low: float, high: float) -> str:
    """Which ends of a colour bar values lie beyond, as matplotlib's `extend` has it."""
    below, above = bool((values < low).any()), bool((values > high).any())
    return {(False, False): "neither", (True, False): "min", (False, True): "max", (True, True): "both"}[
        below, above
    ]


def _tile_label(tile: int, order: int, p_halt: float | None) -> str:
    if p_halt is None:
        return str(tile)
    steps = math.floor(math.log1p(-(tile - 0.5) / order) / math.log1p(-p_halt))
    return f"{tile}\n({steps})"


def _plain_log_labels(axis: Any) -> None:
    """Numbers as they are said, 0.02 and not 2 x 10^-2, at 1, 2 and 5 times the powers of ten."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(lambda value, _: f"{value:.10g}")
    axis.set_minor_formatter(NullFormatter())


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


def _open_frame(ax: Axes) -> None:
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
