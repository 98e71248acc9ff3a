r"""Fields on a mesh whose range, deviation or directions differ between places, as structures.

The anisotropy is the matrix exponential

.. math:: H = \exp \begin{pmatrix} v_1 & v_2 \\ v_2 & -v_1 \end{pmatrix}
            = \cosh |v| \, I + \frac{\sinh |v|}{|v|}
              \begin{pmatrix} v_1 & v_2 \\ v_2 & -v_1 \end{pmatrix},

with determinant 1, the identity for v = 0, and any v in the plane. Its eigenvalues are
:math:`e^{\pm |v|}`, and ranges along the eigenvectors are those of the field times the *roots* of
these. The eigenvector of the longest range has the angle :math:`\operatorname{atan2}(v_2, v_1) / 2`
to the first coordinate.

Source: Llamazares-Elias, Latz and Lindgren 2024, "A parameterization of anisotropic Gaussian fields
with penalized complexity priors".
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from graphrf._base import checks, lazy
from graphrf._base.warn import warn
from graphrf.gp.fields.geometries import check_overlap, polygon_of
from graphrf.gp.fields.triangle_mesh import TriangleMesh
from graphrf.gp.fields.varying_precision import Coefficients, VaryingMatrices, VaryingPrecision
from graphrf.gp.search.coordinates import Parameter
from graphrf.gp.terms.parameters import NormalPrior
from graphrf.gp.terms.structure import Structure, Values, no_constraints

# The range in a barrier, in units of the range: that of R-INLA and sdmTMB.
_BARRIER_SHARE = 0.2
# The least share of a barrier that its triangles cover. Triangles of edge 1 cover 0.67 of straight
# walls of width 1/2, 0.83 of those of width 1, and 0.91 of those of width 2 (medians).
_COVERED = 0.8
# Places of points along two sides of a triangle, by which areas are measured.
_GRID = (np.arange(4) + 0.5) / 4
# The largest coordinate of the anisotropy that is searched, and the largest coefficient of a
# column, in units of its deviation.
_LARGEST = {"anisotropy": 4.0, "range_by": 3.0, "sd_by": 3.0}
# The deviation of a column that is constant but for rounding, in units of its largest entry.
_ROUNDING = 1e-10
# Below, derivatives of sinh(a) / a are by their series.
_SMALL = 1e-2


class Variation(NamedTuple):
    """Differences of a field between places and directions, as `Field` declares it."""

    anisotropy: bool
    barrier: np.ndarray | None  # True for triangles of a barrier, shape (T,)
    range_by: np.ndarray | None  # columns at vertices, shape (V, p)
    sd_by: np.ndarray | None

    @classmethod
    def of(
        cls, domain: Any, alpha: float, *, anisotropy: Any, barrier: Any, **columns: Any
    ) -> Variation:
        """The checked arguments of a `Field`; `columns` are range_by and sd_by."""
        anisotropic = checks.flag("anisotropy", anisotropy)
        if not isinstance(domain, TriangleMesh):
            stated = {"anisotropy": anisotropy or None, "barrier": barrier, **columns}
            for name in (name for name, value in stated.items() if value is not None):
                raise checks.value_error(
                    name, f"takes a TriangleMesh as domain, got {checks.describe(domain)}"
                )
            return cls(False, None, None, None)
        if anisotropic and domain.dimension == 3:
            raise checks.value_error(
                "anisotropy",
                "has two directions of the plane and takes a planar mesh, got one in space: leave "
                "it out, or flatten the surface",
            )
        if barrier is not None:
            if alpha != 2:
                raise checks.value_error("barrier", f"takes a field of alpha=2, got alpha={alpha}")
            barrier = _checked_barrier(domain, barrier)
        checked = {
            name: None if values is None else _checked_columns(domain, name, values)
            for name, values in columns.items()
        }
        return cls(anisotropic, barrier, **checked)

    @property
    def trained(self) -> tuple[str, ...]:
        """The names of hyperparameters besides range and sd, as priors have them."""
        columns = (name for name in ("range_by", "sd_by") if getattr(self, name) is not None)
        return (*(["anisotropy"] if self.anisotropy else []), *columns)

    @property
    def is_stationary(self) -> bool:
        """True for a field that is the same everywhere and in all directions."""
        return not self.trained and self.barrier is None


def _checked_barrier(mesh: TriangleMesh, barrier: Any) -> np.ndarray:
    """True for each triangle of a barrier, shape (T,)."""
    array = np.asarray(barrier) if isinstance(barrier, list | tuple | np.ndarray) else None
    if array is not None and array.dtype == bool:
        if array.shape != (mesh.n_triangles,):
            of_vertices = array.shape == (mesh.n_vertices,)
            way_out = ", which fits the vertices: pass barrier[mesh.triangles].all(axis=1)"
            raise checks.value_error(
                "barrier",
                f"must be polygons, or True and False for each of the {mesh.n_triangles} "
                f"triangles, got {checks.describe(array)}{way_out if of_vertices else ''}",
            )
        inside = array
    else:
        if mesh.dimension == 3:
            raise checks.value_error(
                "barrier", "must be True and False for each triangle of a surface, got polygons"
            )
        inside = _triangles_in(mesh, polygon_of(barrier, "barrier", mesh.crs))
    if inside.all():
        raise checks.value_error(
            "barrier", "must leave triangles for the field, got a barrier of all of them"
        )
    if not inside.any():
        raise checks.value_error(
            "barrier",
            "has no triangle's centre in it: take mesh.refined(max_edge) with less than half of "
            "the barrier's width, or leave it out",
        )
    return inside


def _triangles_in(mesh: TriangleMesh, region: Any) -> np.ndarray:
    """True for triangles with their centres in a polygon, as in R-INLA, with a warning where these
    cover little of a narrow part of it.
    """
    shapely = lazy.need("shapely", "barriers")
    shapely.prepare(region)
    corners = mesh.vertices[mesh.triangles]
    inside = np.asarray(shapely.contains_xy(region, *corners.mean(axis=1).T))
    if inside.all() or not inside.any():
        box = mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)
        check_overlap(np.reshape(region.bounds, (2, 2)), box, "barrier", "mesh")
        return inside
    for wall in _walls(mesh, region):
        covered = _covered(mesh, wall, inside)
        if covered < _COVERED:
            x, y = wall.representative_point().coords[0]
            warn(
                f"`barrier`: its part near ({x:.5g}, {y:.5g}) is narrower than two edges of the "
                f"mesh, its triangles cover {covered:.0%} of it, and the field passes through the "
                "rest: make the mesh with a `max_edge` of at most half of its width"
            )
            break
    return inside


def _walls(mesh: TriangleMesh, region: Any) -> Iterator[Any]:
    """The parts of a barrier that are narrower than two edges and longer than four: smaller ones
    keep no places apart.
    """
    shapely = lazy.need("shapely", "barriers")
    ends = mesh.vertices[mesh.edges]
    edge = float(np.median(np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1)))
    low, high = mesh.vertices.min(axis=0) - 3 * edge, mesh.vertices.max(axis=0) + 3 * edge
    near = shapely.intersection(region.simplify(edge / 8), shapely.box(*low, *high))
    # A little wider, so that straight sides leave nothing.
    wide = near.buffer(-edge, quad_segs=4).buffer(1.05 * edge, quad_segs=4)
    for part in shapely.get_parts(shapely.difference(near, wide)):
        west, south, east, north = part.bounds
        if max(east - west, north - south) > 4 * edge:
            yield part


def _covered(mesh: TriangleMesh, region: Any, chosen: np.ndarray) -> float:
    """The share of a region within a mesh that some triangles cover; 1 outside of the mesh."""
    shapely = lazy.need("shapely", "barriers")
    shapely.prepare(region)
    corners = mesh.vertices[mesh.triangles]
    # Areas by points of a grid in each triangle: a coast may have too many sides for intersections.
    first, second = (each.ravel() for each in np.meshgrid(_GRID, _GRID))
    over = first + second > 1
    first, second = np.where(over, 1 - first, first), np.where(over, 1 - second, second)
    points = np.einsum("cp,tcd->tpd", np.stack([first, second, 1 - first - second]), corners)
    shares = shapely.contains_xy(region, points[..., 0], points[..., 1]).mean(axis=1)
    areas = shares * mesh.elements.areas
    return float(areas[chosen].sum() / areas.sum()) if areas.any() else 1.0


def _checked_columns(mesh: TriangleMesh, name: str, values: Any) -> np.ndarray:
    """Numbers at the vertices that vary, shape (V, p)."""
    array = checks.array(name, values)
    if array.ndim not in (1, 2) or len(array) != mesh.n_vertices:
        raise checks.value_error(
            name,
            f"must have a number for each of the {mesh.n_vertices} vertices of the mesh, or "
            f"columns of these, got {checks.describe(array)}: evaluate it at `mesh.vertices`",
        )
    if array.dtype.kind not in "fiub":
        raise checks.type_error(name, f"must hold real numbers, got {checks.describe(array)}")
    columns = checks.finite(name, array.astype(np.float64).reshape(mesh.n_vertices, -1))
    centred = columns - columns.mean(axis=0)
    widths = centred.std(axis=0)
    vary = widths > _ROUNDING * np.abs(columns).max(axis=0)
    if not vary.all() or np.linalg.matrix_rank(centred / widths) < columns.shape[1]:
        raise checks.value_error(
            name,
            "must have columns that vary and are no combinations of each other, got "
            f"{checks.describe(columns)} with a constant or superfluous one: leave it out",
        )
    return columns


class VaryingStructure(Structure):
    """The values at all vertices of a mesh.

    Columns are less their means over the mesh, so that the hyperparameters range and sd are those
    where the columns have these means.
    """

    def __init__(
        self,
        mesh: TriangleMesh,
        alpha: int,
        length: Parameter,
        variation: Variation,
        *,
        label: str,
        prior: Mapping[str, Any],
        number: int,
    ) -> None:
        self.size = mesh.n_vertices
        self.constraints = no_constraints(self.size)
        shares = None
        if variation.barrier is not None:
            shares = np.where(variation.barrier, _BARRIER_SHARE, 1.0)
        self._matrices = VaryingMatrices(
            mesh.elements, alpha, anisotropic=variation.anisotropy, shares=shares
        )
        self._label, self._length = label, length
        self._last: tuple[tuple[float, ...], VaryingPrecision] | None = None

        self._stretch: list[Parameter] = []
        if variation.anisotropy:
            self._stretch = _parameters("anisotropy", np.ones(2), label, prior, number)
        share = self._matrices.mass / self._matrices.mass.sum()
        self._columns: list[tuple[str, np.ndarray, Parameter]] = []
        for name in ("range_by", "sd_by"):
            values = getattr(variation, name)
            if values is not None:
                centred = values - share @ values
                widths = np.sqrt(share @ centred**2)
                slopes = _parameters(name, widths, label, prior, number)
                self._columns += [(name, *pair) for pair in zip(centred.T, slopes, strict=True)]
        slopes = [parameter for *_, parameter in self._columns]
        self.parameters = (length, *self._stretch, *slopes)

    def precision(self, values: Values) -> sp.csr_array:
        return self._at(values).matrix

    def log_determinant(self, values: Values) -> float:
        return self._at(values).log_determinant()

    def slopes(self, values: Values, parameter: Parameter) -> tuple[sp.csr_array, float]:
        precision, change = self._at(values), self._change(values, parameter)
        return precision.derivative(change), precision.trace_of_derivative(change)

    def derived(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        if not self._stretch:
            return {}
        first, second = (np.asarray(values[each.name]) for each in self._stretch)
        ratio, length = np.exp(np.hypot(first, second)), np.asarray(values[self._length.name])
        # Angles differ by multiples of 180 degrees: each is that next to the mean v's.
        middle = 0.5 * math.degrees(math.atan2(second.mean(), first.mean()))
        angle = 0.5 * np.degrees(np.arctan2(second, first))
        angle = middle + (angle - middle + 90) % 180 - 90
        return {
            f"longest range({self._label})": length * np.sqrt(ratio),
            f"shortest range({self._label})": length / np.sqrt(ratio),
            f"angle({self._label})": angle,
        }

    def _at(self, values: Values) -> VaryingPrecision:
        key = tuple(values[each.name] for each in self.parameters)
        if self._last is None or self._last[0] != key:
            logs = {
                "range_by": np.full(self.size, math.log(values[self._length.name])),
                "sd_by": np.zeros(self.size),
            }
            for name, column, parameter in self._columns:
                logs[name] += values[parameter.name] * column
            coefficients = Coefficients(self._diffusion(values), *logs.values())
            self._last = key, VaryingPrecision(self._matrices, coefficients)
        return self._last[1]

    def _diffusion(self, values: Values) -> np.ndarray:
        """The entries of H, or the factor 1 of the identity."""
        if not self._stretch:
            return np.ones(1)
        return anisotropy_matrix(*(values[each.name] for each in self._stretch))

    def _change(self, values: Values, parameter: Parameter) -> Coefficients:
        """The derivatives of the coefficients in a parameter's coordinate."""
        diffusion = np.zeros(3 if self._stretch else 1)
        logs = {"range_by": np.zeros(self.size), "sd_by": np.zeros(self.size)}
        if parameter.name == self._length.name:
            logs["range_by"] += 1.0
        for place, stretch in enumerate(self._stretch):
            if parameter.name == stretch.name:
                v = [values[each.name] for each in self._stretch]
                diffusion = anisotropy_slope(v[0], v[1], place)
        for name, column, slope in self._columns:
            if parameter.name == slope.name:
                logs[name] += column
        return Coefficients(diffusion, *logs.values())


def anisotropy_matrix(first: float, second: float) -> np.ndarray:
    """The entries 11, 12 and 22 of H."""
    size = math.hypot(first, second)
    share = math.sinh(size) / size if size > 0 else 1.0
    even = math.cosh(size)
    return np.array([even + share * first, share * second, even - share * first])


def anisotropy_slope(first: float, second: float, place: int) -> np.ndarray:
    """The derivatives of the entries of H in the first (place 0) or second coordinate."""
    size = math.hypot(first, second)
    if size < _SMALL:
        share, bend = 1 + size**2 / 6 + size**4 / 120, 1 / 3 + size**2 / 30 + size**4 / 840
    else:
        share = math.sinh(size) / size
        bend = (math.cosh(size) - share) / size**2
    coordinate = (first, second)[place]
    of_entries = np.array([[1.0, 0.0, -1.0], [0.0, 1.0, 0.0]])[place]
    even = coordinate * share * np.array([1.0, 0.0, 1.0])
    return even + coordinate * bend * np.array([first, second, -first]) + share * of_entries


def _parameters(
    name: str, widths: np.ndarray, label: str, prior: Mapping[str, Any], number: int
) -> list[Parameter]:
    """Coefficients of columns of these deviations, one or more."""
    deviation = prior.get(name, 1.0)
    if deviation is not None:
        deviation = checks.number(f"the prior of {name}", deviation, low=0, include_low=False)
    result = []
    for place, width in enumerate(widths.tolist()):
        end = _LARGEST[name] / width
        own = f"{name}({label})" if len(widths) == 1 else f"{name}[{place}]({label})"
        law = None if deviation is None else NormalPrior(deviation / width)
        result.append(Parameter(own, "real", 0.0, -end, end, law, (name, place, number)))
    return result
