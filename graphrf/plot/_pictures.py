"""Pictures of fields in axes: planar ones as images, those on surfaces as shaded triangles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from graphrf._base import checks
from graphrf.plot._given import finite_range
from graphrf.plot._meshes import draw_surface
from graphrf.plot._planes import Box, Region, box_of, plane_of, points_of, triangulation_of
from graphrf.plot._style import GREY, inches, map_frame, open_frame, stretch_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Images have the resolution of print, and no more pixels on a side than a page can show.
_PER_INCH, _MOST_PIXELS = 300, 2_000
# The share of the extent that is left free around a picture.
_PAD = 0.02
# Inches for each number on an axis.
_TICK = 0.6
_VIEW = (28.0, -60.0)


class Picture(Protocol):
    """The way a field is drawn."""

    n_values: int
    #: The height of the picture as a share of its width.
    ratio: float
    #: The thing that has a value.
    kind: str

    def limits(self, values: np.ndarray) -> tuple[float, float]:
        """The least and the largest value that can be seen."""

    def draw(
        self, ax: Axes, values: np.ndarray, cmap: str, limits: tuple[float, float], points: Any
    ) -> Any:
        """Draw values with points on top; what a colour bar is made of."""


def picture_of(domain: Any, boundary: Any, unit: str, geographic: bool) -> Picture:
    """The way to draw a field on a triangle mesh or a lattice."""
    vertices = getattr(domain, "vertices", None)
    if vertices is not None and np.ndim(vertices) == 2 and np.shape(vertices)[1] == 3:
        if boundary is not None:
            raise checks.value_error("boundary", "must be None on a surface, which has no plane")
        return SurfacePicture(domain)
    return PlanePicture(domain, boundary, unit, geographic)


class PlanePicture:
    """An image with axes in the units of the coordinates, cut off at a boundary."""

    def __init__(self, domain: Any, boundary: Any, unit: str, geographic: bool) -> None:
        self.plane = plane_of(domain)
        self.frame = Frame(self.plane.box, boundary, unit, geographic)
        self.n_values, self.ratio = len(self.plane.places), self.frame.ratio
        self.kind = "vertex" if hasattr(domain, "triangles") else "place"

    def limits(self, values: np.ndarray) -> tuple[float, float]:
        region = self.frame.region
        seen = values if region is None else self.plane.seen(values, region)
        if region is not None and not np.isfinite(seen).any() and np.isfinite(values).any():
            raise checks.value_error(
                "boundary",
                f"must be the region that is kept, got one that holds no {self.kind} with a value: "
                "pass the sea, as box.difference(land), not the land, which is the `barrier` of a "
                "Field",
            )
        return finite_range(seen)

    def draw(
        self, ax: Axes, values: np.ndarray, cmap: str, limits: tuple[float, float], points: Any
    ) -> Any:
        picture, box = self.plane.image(values, self.frame.box, self._pixels(ax))
        image = ax.imshow(
            picture,
            cmap=cmap,
            vmin=limits[0],
            vmax=limits[1],
            extent=box,
            origin="lower",
            interpolation="nearest",
            aspect="auto",
            zorder=1,
        )
        draw_points(ax, points)
        self.frame.draw(ax, image)
        return image

    def _pixels(self, ax: Axes) -> tuple[int, int]:
        """Columns and rows."""
        columns = min(_PER_INCH * inches(ax), _MOST_PIXELS / max(1.0, self.ratio))
        return max(2, int(columns)), max(2, int(columns * self.ratio))


class SurfacePicture:
    """Triangles in space, as `plot_mesh` draws them."""

    def __init__(self, mesh: Any) -> None:
        vertices, self.triangles = triangulation_of(mesh, "domain")
        self.corners = vertices[self.triangles]
        self.n_values, self.ratio, self.kind = len(vertices), 0.8, "vertex"

    def limits(self, values: np.ndarray) -> tuple[float, float]:
        return finite_range(values[self.triangles].mean(axis=1))

    def draw(
        self, ax: Axes, values: np.ndarray, cmap: str, limits: tuple[float, float], points: Any
    ) -> Any:
        if points is not None:
            raise checks.value_error("points", "must be None on a surface, which may hide them")
        means = values[self.triangles].mean(axis=1)
        return draw_surface(ax, self.corners, self.triangles, means, cmap, limits, _VIEW)


class Frame:
    """Axes in the units of coordinates around a planar domain, or around its boundary."""

    def __init__(self, box: Box, boundary: Any, unit: str, geographic: bool) -> None:
        self.unit, self.geographic = unit, checks.flag("geographic", geographic)
        self.region = None if boundary is None else Region(boundary)
        self.box = box if self.region is None else box_of(self.region.corners)
        _check_overlap(self.box, box)
        left, right, bottom, top = self.box
        self.stretch = stretch_of(np.array([[left, bottom], [right, top]]), geographic)
        self.ratio = self.stretch * (top - bottom) / ((right - left) or 1.0)

    def draw(self, ax: Axes, cut: Any) -> None:
        """Cut an artist off at the boundary, draw its outline, and label the axes."""
        from matplotlib.patches import PathPatch

        if self.region is not None:
            path = self.region.path()
            cut.set_clip_path(path, transform=ax.transData)
            ax.add_patch(PathPatch(path, fill=False, edgecolor=GREY, linewidth=0.6, zorder=2))

        left, right, bottom, top = self.box
        ax.dataLim.set_points(np.array([[left, bottom], [right, top]]))
        ax.use_sticky_edges = False
        ax.margins(_PAD)
        ax.autoscale_view()

        if self.geographic:
            map_frame(ax, self.stretch, True)
            return
        ax.set_aspect("equal")
        for axis, name in ((ax.xaxis, "x"), (ax.yaxis, "y")):
            axis.set_label_text(f"{name} ({self.unit})" if self.unit else "")
        ticks = int(np.clip(inches(ax) / _TICK, 2, 5))
        # A number at the very end of an axis would stick out of the figure.
        ax.locator_params(nbins=ticks, prune="upper")
        ax.ticklabel_format(useOffset=False, style="plain")
        ax.grid(visible=False)
        open_frame(ax)


def draw_points(ax: Axes, points: ArrayLike | None) -> None:
    """Places of data: dots with a pale rim, seen on dark colours and on light ones."""
    if points is None:
        return
    places = points_of(points)
    size = float(np.clip(18 * inches(ax) / np.sqrt(max(1, len(places))), 1.2, 2.6))
    x, y = places.T
    ax.scatter(x, y, s=size**2, c="black", edgecolors="white", linewidths=0.12 * size, zorder=4)


def _check_overlap(box: Box, domain: Box) -> None:
    """ValueError for a boundary that is somewhere else."""
    if box[0] > domain[1] or box[1] < domain[0] or box[2] > domain[3] or box[3] < domain[2]:
        ends = ["x {:.6g} to {:.6g}, y {:.6g} to {:.6g}".format(*some) for some in (box, domain)]
        raise checks.value_error(
            "boundary",
            f"must overlap what is drawn, but it spans {ends[0]}, and that {ends[1]}: are both in "
            "the same units and coordinate system, and is it what is kept (the sea, not the land)?",
        )
