"""Triangle meshes: domains of fields in the plane, on surfaces and on the sphere."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import connected_components

from graphrf._base import checks
from graphrf._base.cached import cached_property
from graphrf._base.warn import warn
from graphrf.gp.fields import averages, geometries, refinement, sources, validity
from graphrf.gp.fields.domain import Domain
from graphrf.gp.fields.elements import Elements, edges_of, smallest_angles
from graphrf.gp.fields.geometries import Geometries
from graphrf.gp.fields.half_order_precision import HalfOrderMatrices, HalfOrderPrecision
from graphrf.gp.fields.kernel import FieldKernel
from graphrf.gp.fields.mesh_nodes import MeshNodes, MeshPlaces
from graphrf.gp.fields.mesh_precision import MeshMatrices, MeshPrecision
from graphrf.graph.geometry.location import Located, TriangleGrid, TriangleTree, barycentric


class TriangleMesh(Domain):
    """Triangles in the plane or in space, between whose vertices a field is linear.

    Parameters
    ----------
    vertices : array_like, shape (V, 2) or (V, 3)
        Coordinates, all in one unit: metres or kilometres, not degrees.
    triangles : array_like of int, shape (T, 3)
        Positions of vertices, from 0.
    crs : optional
        The projected coordinate reference system of the vertices, as pyproj reads it: geometries in
        another one are refused. Geometries without one are taken as they are.

    Attributes
    ----------
    vertices : ndarray of float64, shape (V, 2) or (V, 3)
    triangles : ndarray of int64, shape (T, 3)
    crs : pyproj.CRS or None

    Examples
    --------
    >>> import numpy as np
    >>> from graphrf.gp import TriangleMesh
    >>> square = TriangleMesh([[0, 0], [1, 0], [1, 1], [0, 1]], [[0, 1, 2], [0, 2, 3]])
    >>> square
    TriangleMesh(4 vertices, 2 triangles, edges 1 to 1.41, smallest angle 45.0°, area 1)
    >>> square.weights([[0.5, 0.25]]).toarray()
    array([[0.5 , 0.25, 0.25, 0.  ]])

    Raises
    ------
    ValueError, TypeError
        For coordinates that are not finite, triangles of unknown or repeated vertices or without
        area, vertices of no triangle, edges of three triangles, and planar triangles that overlap.

    Warns
    -----
    UserWarning
        For triangles with an angle below 5 degrees, and for those with one above 140 on more than
        1 % of the area, where ranges become too short (see `refined`); for planar coordinates that
        look like degrees.
    """

    field_dimension = 2
    orders = (1, 1.5, 2, 2.5, 3)
    default_order = 2
    label = "vertex"

    def __init__(self, vertices: ArrayLike, triangles: ArrayLike, *, crs: Any = None) -> None:
        found = geometries.geometries_of(vertices, "vertices") if crs is None else None
        self.crs = geometries.read_reference(found.reference if found else crs)
        corners = validity.checked_vertices(vertices)
        self._take(corners, validity.checked_triangles(corners, triangles), False)

    def _take(self, vertices: np.ndarray, triangles: np.ndarray, is_sphere: bool) -> None:
        self.vertices, self.triangles, self.is_sphere = vertices, triangles, is_sphere
        self._matrices: dict[float, Any] = {}  # of precisions, by their order

    # -- other sources ---------------------------------------------------------------------------

    @classmethod
    def from_points(
        cls,
        points: Any,
        max_edge: float | None = None,
        *,
        boundary: Any = None,
        margin: float | None = None,
        margin_edge: float | None = None,
    ) -> TriangleMesh:
        """A planar mesh around points, or of a region, with a margin of longer edges.

        Near the border of a mesh a field has a larger variance: about twice that of the middle, and
        four times at a right angle. The margin, one typical range wide, keeps this away from data.

        Parameters
        ----------
        points : array_like or data frame of two columns, shape (n, 2), or GeoSeries of points
            The places of data. None if `boundary` is given. The mesh has their `crs`.
        max_edge : float, optional
            The longest edge where the data are. Default: a thirtieth of the region's diameter. A
            third of the field's range, or less, is fine enough.
        boundary : Polygon, MultiPolygon, list of these, GeoSeries or GeoDataFrame, optional
            The region, whose holes have no triangles; the margin fills its bays, and land that
            reaches into it from outside, with `margin=0` or `Field(mesh, barrier=land)` as ways
            out. Details far below `max_edge` are left out. Default: the convex hull of the points,
            `max_edge` wider.
        margin : float, optional
            Width of the margin. Default: a fifth of the region's diameter. 0 leaves it out.
        margin_edge : float, optional
            The longest edge in the margin. Default: four times `max_edge`.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> mesh = TriangleMesh.from_points(rng.random((100, 2)), max_edge=0.1)
        >>> bool(mesh.edge_lengths.max() <= 0.4 and mesh.smallest_angle > 20)
        True

        Raises
        ------
        ImportError
            Without shapely, which the extra `mesh` has.
        ValueError, TypeError
            For points without extent, a boundary that crosses itself or leaves points outside,
            geographic coordinates, and meshes of more vertices than fit into memory.
        """
        crs = sources.reference_of(points, boundary)
        return cls(*sources.around(points, max_edge, boundary, margin, margin_edge), crs=crs)

    @classmethod
    def from_mesh(cls, mesh: Any) -> TriangleMesh:
        """The mesh of a file (`.stl`, `.ply`, `.off` or `.obj`, as in `graphrf.from_mesh`), or of
        another library: trimesh, meshio, scikit-fem, pyvista, or fmesher's `loc` and `tv` in a
        mapping.

        Vertices of a file that lie at one place become one, the first; there is a warning if
        vertices after it have other numbers than in the file (STL has none).
        """
        return cls(*sources.arrays_of(mesh))

    @classmethod
    def sphere(cls, subdivisions: int = 4, radius: float = 1.0) -> TriangleMesh:
        """A sphere: an icosahedron whose 20 triangles are divided into 4, so many times.

        Places may be pairs of longitude and latitude in degrees. With `radius=6371` ranges are in
        kilometres.

        Examples
        --------
        >>> earth = TriangleMesh.sphere(3, radius=6371)
        >>> earth.n_vertices
        642
        """
        subdivisions = checks.integer("subdivisions", subdivisions, low=0, high=9)
        radius = checks.number("radius", radius, low=0, include_low=False)
        mesh = cls(*sources.sphere(subdivisions, radius))
        mesh.is_sphere = True
        return mesh

    def refined(self, max_edge: float) -> TriangleMesh:
        """The same surface in smaller triangles, whose edges are at most `max_edge` long.

        Triangles with longer edges are bisected by their longest edges, and with them those
        neighbours that then would have a vertex inside an edge. The vertices of this mesh remain,
        before the new ones; on a sphere new ones lie on it. In the plane no angle is below half of
        `smallest_angle`.

        Examples
        --------
        >>> square = TriangleMesh([[0, 0], [1, 0], [1, 1], [0, 1]], [[0, 1, 2], [0, 2, 3]])
        >>> square.refined(0.6)
        TriangleMesh(13 vertices, 16 triangles, edges 0.354 to 0.5, smallest angle 45.0°, area 1)

        Raises
        ------
        MemoryError
            For a mesh of more vertices than fit into memory.

        Source: Rivara 1984, "Algorithms for refining triangular grids suitable for adaptive and
        multigrid techniques".
        """
        max_edge = checks.number("max_edge", max_edge, low=0, include_low=False)
        mesh = TriangleMesh.__new__(TriangleMesh)
        mesh.crs = self.crs
        arrays = refinement.refined(self.vertices, self.triangles, max_edge, self.is_sphere)
        mesh._take(*arrays, self.is_sphere)
        return mesh

    # -- sizes -----------------------------------------------------------------------------------

    @property
    def n_vertices(self) -> int:
        """The number V of vertices."""
        return len(self.vertices)

    @property
    def n_triangles(self) -> int:
        """The number T of triangles."""
        return len(self.triangles)

    @property
    def dimension(self) -> int:
        """2 for planar coordinates, 3 for surfaces in space."""
        return int(self.vertices.shape[1])

    @cached_property
    def elements(self) -> Elements:
        """The finite elements."""
        return Elements.of(self.vertices, self.triangles)

    @property
    def area(self) -> float:
        """The area of all triangles."""
        return float(self.elements.areas.sum())

    @cached_property
    def edges(self) -> np.ndarray:
        """Pairs of vertices, each once, shape (E, 2)."""
        return edges_of(self.triangles)[0]

    @property
    def edge_lengths(self) -> np.ndarray:
        """The length of each edge, shape (E,)."""
        ends = self.vertices[self.edges]
        return np.asarray(np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1))

    @property
    def smallest_angle(self) -> float:
        """The smallest angle of all triangles, in degrees."""
        return float(smallest_angles(self.vertices[self.triangles]).min())

    @property
    def diameter(self) -> float:
        """The diagonal of the smallest box around all vertices."""
        return float(np.linalg.norm(np.ptp(self.vertices, axis=0)))

    @cached_property
    def parts(self) -> np.ndarray:
        """The connected part of each vertex, numbered from 0, shape (V,)."""
        first, last = self.edges.T
        joined = sp.csr_array((np.ones(first.size), (first, last)), shape=2 * (self.n_vertices,))
        return np.asarray(connected_components(joined, directed=False)[1])

    def __repr__(self) -> str:
        lengths = self.edge_lengths
        return (
            f"TriangleMesh({self.n_vertices} vertices, {self.n_triangles} triangles, edges "
            f"{lengths.min():.3g} to {lengths.max():.3g}, smallest angle "
            f"{self.smallest_angle:.1f}°, area {self.area:.6g}{self._short_crs})"
        )

    @property
    def _short_crs(self) -> str:
        """The code of the coordinate reference system, where it has one."""
        code = None if self.crs is None else self.crs.to_authority(min_confidence=100)
        return "" if code is None else f", {':'.join(code)}"

    # -- the field -------------------------------------------------------------------------------

    @property
    def length_unit(self) -> float:
        """A fifth of the root of the area: the median of the weak prior of the range."""
        return 0.2 * float(np.sqrt(self.area))

    @property
    def labels(self) -> range:
        """The positions of all vertices."""
        return range(self.n_vertices)

    def precision(self, kernel: FieldKernel) -> MeshPrecision | HalfOrderPrecision:
        """The precision of the values at all vertices, and for half orders of hidden fields after
        them.
        """
        alpha, kept = kernel.alpha, self._matrices
        if float(alpha).is_integer():
            if alpha not in kept:
                kept[alpha] = MeshMatrices(self.elements, int(alpha))
            return MeshPrecision(kept[alpha], kernel)
        if alpha not in kept:
            kept[alpha] = HalfOrderMatrices(self.elements, alpha, self.length_unit)
        return HalfOrderPrecision(kept[alpha], kernel)

    def places(self, places: Any = None) -> MeshPlaces:
        """Places as `weights` reads them; all vertices by default."""
        if isinstance(places, MeshPlaces):
            return places
        if places is None:
            return MeshPlaces(sp.csr_array(sp.eye_array(self.n_vertices, format="csr")))
        return MeshPlaces(self.weights(places))

    def places_of(self, arrays: dict[str, np.ndarray]) -> MeshPlaces:
        """The places with these arrays of a file, checked."""
        return MeshPlaces.of(arrays, self.n_vertices)

    def warn_of_parts(self, places: MeshPlaces) -> None:
        """Warn of connected parts of the mesh without any of these places."""
        count = int(self.parts.max()) + 1
        lacking = count - np.unique(self.parts[places.weights.indices]).size
        if lacking:
            warn(
                f"`domain`: {lacking} of {count} connected parts of the mesh have no data; the "
                "field has its prior there. Join the parts, or make the mesh of those with data"
            )

    def warn_of_range(self, range: float, places: MeshPlaces) -> None:
        """Warn of a range below two edges, where deviations in triangles are a sixth too small.

        The edge is that of an equilateral triangle as large as nine tenths of those among the
        observations are at most: on uneven meshes the largest ones do the harm.
        """
        reached = np.zeros(self.n_vertices, dtype=bool)
        reached[places.weights.indices] = True
        near = reached[self.triangles].all(axis=1)
        area = np.quantile(self.elements.areas[near] if near.any() else self.elements.areas, 0.9)
        edge = float(np.sqrt(area / np.sqrt(0.1875)))
        # In the middle of equilateral triangles the deviation of a field of order 2 is .60, .82,
        # .94 and .97 of what it should be for ranges of 1, 2, 4 and 6 edges.
        if range < 2 * edge:
            warn(
                f"the range of the field, {range:.3g}, is short for edges of {edge:.3g}: between "
                "vertices its standard deviation is too small (by a sixth at a range of two edges, "
                "by .4 at one), and the noise is too large; take "
                f"mesh.refined(max_edge={range / 4:.2g}), or state a prior of longer ranges"
            )

    def field_nodes(self, places: MeshPlaces, alpha: float) -> MeshNodes:
        """The distinct places, and the variables of `precision`."""
        return MeshNodes(self, places, alpha)

    # -- places ----------------------------------------------------------------------------------

    def weights(self, places: Any) -> sp.csr_array:
        """The weights of all vertices at places, shape (n, V): barycentric coordinates in
        triangles.

        A field's value at a place is its row times the values at the vertices. On a surface, the
        place is the nearest point of the mesh; on a sphere, pairs are longitudes and latitudes.

        Raises
        ------
        ValueError, TypeError
            For places outside the mesh, or farther from a surface than a tenth of its extent, which
            the message counts.

        Warns
        -----
        UserWarning
            For places farther from a surface than the median edge and, of ten places or more, than
            ten times the median distance, which it names.
        """
        found = geometries.geometries_of(places, "places")
        if found is not None and not found.are_points.all():
            return self._averages(found)
        located = self.located(self.points(places))
        validity.check_distances(places, located.distance, self)
        rows = np.arange(len(located.triangle))
        return self._rows(rows, located.triangle, located.weights, len(rows))

    def _averages(self, places: Geometries) -> sp.csr_array:
        """Rows of polygons or lines, whose averages they are, and points."""
        self._require_plane("places", "points")
        geometries.check_reference(places.reference, "places", self.crs)
        points, others = (np.flatnonzero(places.are_points == each) for each in (True, False))
        corners = self.vertices[self.triangles]
        parts = averages.pieces(corners, places.values, others, "places")
        weights = barycentric(parts.centre, corners[parts.triangle]) * parts.size[:, None]
        weights /= np.bincount(parts.geometry, parts.size)[parts.geometry, None]
        result = self._rows(parts.geometry, parts.triangle, weights, len(places))
        if not points.size:
            return result
        alone = self.weights(places.at(points))
        select = sp.csr_array(
            (np.ones(points.size), (points, np.arange(points.size))),
            shape=(len(places), points.size),
        )
        return sp.csr_array(result + select @ alone)

    def _rows(
        self, rows: np.ndarray, triangles: np.ndarray, weights: np.ndarray, n: int
    ) -> sp.csr_array:
        """Weights of the corners of triangles, added up in n rows."""
        places = np.repeat(rows, 3), self.triangles[triangles].ravel()
        result = sp.csr_array((weights.ravel(), places), shape=(n, self.n_vertices))
        result.eliminate_zeros()
        return result

    def points(self, places: Any) -> np.ndarray:
        """Places as coordinates, checked, shape (n, 2) or (n, 3)."""
        points = geometries.coordinates(
            places, "places", self.dimension, self.crs, degrees=self.is_sphere
        )
        if self.is_sphere and points.shape[1] == 2:
            radius = float(np.linalg.norm(self.vertices[0]))
            return radius * sources.directions(points)
        if points.shape[1] != self.dimension:
            raise checks.value_error(
                "places",
                f"must have {self.dimension} coordinates, as the vertices of the mesh, got "
                f"{points.shape[1]}"
                + (": leave out the height (x and y alone)" if self.dimension == 2 else ""),
            )
        return points

    def distances(self, places: Any) -> np.ndarray:
        """The distance of each place from the mesh, shape (n,).

        Examples
        --------
        >>> TriangleMesh.sphere(3).distances([[0, 0, 2], [0, 0.5, 0]]).round(1)
        array([1. , 0.5])
        """
        return self.located(self.points(places)).distance

    def located(self, points: np.ndarray) -> Located:
        """The nearest points of the mesh to points, shape (n, d)."""
        if self.dimension == 3:
            return self._tree.nearest(points)
        located = self._grid.containing(points)
        outside = np.flatnonzero(located.triangle < 0)
        if outside.size:
            nearest = self._tree.nearest(points[outside])
            for values, others in zip(located, nearest, strict=True):
                values[outside] = others
        return located

    @cached_property
    def _tree(self) -> TriangleTree:
        return TriangleTree(self.vertices[self.triangles])

    @cached_property
    def _grid(self) -> TriangleGrid:
        return TriangleGrid(self.vertices[self.triangles])

    # -- integrals -------------------------------------------------------------------------------

    def quadrature(self, region: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Points and weights of integrals over the mesh, or over a polygon: sum w f(x).

        In each triangle the points are its corners, the midpoints of its edges and its centre, with
        positive weights that are exact for cubic functions. In triangles that a border of the
        region crosses they are the corners alone, some of which lie outside the region, and exact
        for linear functions.

        Notes
        -----
        Corners must be among the points of the integral of exp(f): a field that is large at a
        vertex and negative at its neighbours would cost nothing at points inside triangles. Corners
        alone overestimate that integral where f changes by more than 1 in a triangle.

        Returns
        -------
        points : ndarray, shape (n, d)
        weights : ndarray, shape (n,)
        """
        if region is None:
            return averages.cubic_rule(self.vertices, self.triangles, self.elements.areas)
        self._require_plane("region", "left out")
        polygon = geometries.polygon_of(region, "region", self.crs)
        corners = self.vertices[self.triangles]
        parts = averages.pieces(corners, np.array([polygon]), np.zeros(1, dtype=int), "region")
        areas = self.elements.areas[parts.triangle]
        within = parts.size > (1 - sources.ROUNDING) * areas
        points, weights = averages.cubic_rule(
            self.vertices, self.triangles[parts.triangle[within]], areas[within]
        )

        crossed = parts.triangle[~within]
        shares = barycentric(parts.centre[~within], corners[crossed]) * parts.size[~within, None]
        at_corners = np.bincount(
            self.triangles[crossed].ravel(), shares.ravel(), minlength=self.n_vertices
        )
        weights[: self.n_vertices] += at_corners
        used = weights > sources.ROUNDING * weights.max()
        return points[used], weights[used]

    def _require_plane(self, name: str, way_out: str) -> None:
        """Refuse polygons and lines on surfaces, whose triangles lie in no common plane."""
        if self.dimension == 3:
            raise checks.value_error(
                name, f"must be {way_out} on a surface, got polygons or lines, which are planar"
            )
