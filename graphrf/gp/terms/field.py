"""Field: a Whittle-Matern field over space, or along edges, as a term."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from graphrf._base import checks, lazy
from graphrf.gp.fields.domain import Domain, require_domain
from graphrf.gp.fields.mesh_nodes import MeshPlaces
from graphrf.gp.fields.mesh_precision import MeshPrecision
from graphrf.gp.fields.triangle_mesh import TriangleMesh
from graphrf.gp.metric.graph import MetricGraph
from graphrf.gp.search.coordinates import Parameter
from graphrf.gp.terms.edge_axis import EdgeAxis
from graphrf.gp.terms.levels import LevelAxis
from graphrf.gp.terms.parameters import PenalisedRange, RangePrior, checked_prior
from graphrf.gp.terms.structure import Structure, Values, no_constraints
from graphrf.gp.terms.term import Term

# The longest range that is searched, in diameters of the mesh: the field is a constant there.
_LONGEST = 100.0
# The shortest, in median edges: below, vertices are independent.
_SHORTEST = 0.1


@dataclass(frozen=True)
class Field(Term):
    r"""A Whittle-Matern field on a triangle mesh, linear between its vertices, or along the edges
    of a metric graph.

    Parameters
    ----------
    domain : TriangleMesh or MetricGraph
    at : str or tuple of str, optional
        The columns with places. On meshes coordinates, ("x", "y") by default, or one with
        geometries; on a metric graph, the edges, (u, v), (u, v, key) or numbers, and the distances
        from u along them, ("edge", "distance") by default. A distance may be a pair of distances:
        the mean over that stretch, by Simpson's rule on nine points.
    alpha : {1, 2, 3}, optional
        The order. Default: 2 on meshes, where the smoothness is alpha - 1; 1 along edges, the
        exponential covariance on a line. Order 2 has there the Matern covariance of smoothness 3/2,
        whose derivatives are continuous along edges, and places that are rounded to 500ths of
        `MetricGraph.road_length`; 3 is for meshes.
    prior : mapping, optional
        Priors by name: `sd`, and `range` in the unit of the coordinates or lengths, a
        `PenalisedRange` or (median, factor) of a log-normal. Default: `PenalisedDeviation()`, and
        on meshes a `PenalisedRange` whose median is a fifth of the root of the area, along edges a
        log-normal with median 2 `MetricGraph.road_length` and factor 4.

    Examples
    --------
    >>> from graphrf.gp import Field, MetricGraph, TriangleMesh
    >>> mesh = TriangleMesh.from_points([[0, 0], [9, 0], [9, 9], [0, 9]], max_edge=2.0)
    >>> Field(mesh, at=("x", "y")).label
    'x:y'
    >>> streets = MetricGraph([0, 1], [1, 2], [120.0, 80.0])
    >>> Field(streets, at=("street", "metres"), alpha=2).label
    'street:metres'

    Sources: Lindgren, Rue and Lindström 2011, "An explicit link between Gaussian fields and
    Gaussian Markov random fields"; Bolin, Simas and Wallin 2024, "Gaussian Whittle-Matern fields on
    metric graphs".
    """

    domain: Domain
    at: str | tuple[str, ...] | None = None
    alpha: int | None = None
    prior: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        require_domain(self.domain)
        self.domain.checked_order(self.alpha)
        for name in self.prior or ():
            if name not in ("sd", "range"):
                raise checks.value_error("prior", f"must be of sd and range, got one of {name!r}")
        along = self.domain.field_dimension == 1
        if self.at is None:
            object.__setattr__(self, "at", ("edge", "distance") if along else ("x", "y"))
        elif not isinstance(self.at, str):
            object.__setattr__(self, "at", tuple(self.at))
        if along and len(self.columns) != 2:
            raise checks.value_error(
                "at", f"must be the columns with edges and distances along them, got {self.at!r}"
            )

    @property
    def order(self) -> int:
        """alpha, or the default of the domain."""
        return self.domain.checked_order(self.alpha)

    @property
    def columns(self) -> tuple[str, ...]:
        assert self.at is not None
        return (self.at,) if isinstance(self.at, str) else self.at

    def axes(self, frame: Any) -> tuple[LevelAxis, ...]:
        if isinstance(self.domain, MetricGraph):
            return (EdgeAxis(self, self.domain, frame),)
        assert isinstance(self.domain, TriangleMesh)
        axis = MeshAxis(self, self.domain)
        self.domain.warn_of_parts(MeshPlaces(axis.rows(axis.cells(frame))))
        return (axis,)


class MeshStructure(Structure):
    """The values at all vertices of a mesh."""

    def __init__(self, mesh: TriangleMesh, alpha: int, parameter: Parameter) -> None:
        self.parameters, self.size = (parameter,), mesh.n_vertices
        self.constraints = no_constraints(self.size)
        kernel = mesh.kernel(parameter.start, alpha)
        self._precision = MeshPrecision(mesh.matrices(alpha), kernel)

    def precision(self, values: Values) -> sp.csr_array:
        return self._at(values).matrix

    def log_determinant(self, values: Values) -> float:
        return self._at(values).log_determinant()

    def slopes(self, values: Values, parameter: Parameter) -> tuple[sp.csr_array, float]:
        length, precision = values[parameter.name], self._at(values)
        change = sp.csr_array(length * precision.derivative("range"))
        return change, length * precision.trace_of_derivative("range")

    def _at(self, values: Values) -> MeshPrecision:
        kernel = self._precision.kernel.replace(range=values[self.parameters[0].name])
        if kernel != self._precision.kernel:
            self._precision = self._precision.with_kernel(kernel)
        return self._precision


class MeshAxis(LevelAxis):
    """The vertices of a mesh."""

    def __init__(self, term: Field, mesh: TriangleMesh) -> None:
        self.column, self._term, self._mesh = term.label, term, mesh
        self.levels = range(mesh.n_vertices)
        unit = mesh.length_unit
        low, high = _SHORTEST * float(np.median(mesh.edge_lengths)), _LONGEST * mesh.diameter
        given = (term.prior or {}).get("range", PenalisedRange(unit))
        prior: Any = checked_prior("range", "positive", given)
        if isinstance(prior, PenalisedRange):
            prior = RangePrior(prior, 2)
        key = ("range", id(term))
        start = float(np.clip(unit, 2 * low, 0.5 * high))
        parameter = Parameter(f"range({term.label})", "positive", start, low, high, prior, key)
        self.structure = MeshStructure(mesh, term.order, parameter)

    @property
    def columns(self) -> tuple[str, ...]:
        return self._term.columns

    def cells(self, frame: Any) -> Any:
        """Coordinates, shape (n, d), or a GeoSeries."""
        if len(self.columns) == 1:
            geometries = frame[self.columns[0]]
            if hasattr(geometries, "geom_type"):
                return geometries
            geopandas = lazy.need("geopandas", "a column of geometries")
            return geopandas.GeoSeries(geometries)
        return np.column_stack([np.asarray(frame[name], dtype=np.float64) for name in self.columns])

    def rows(self, values: Any) -> sp.csr_array:
        return self._mesh.weights(values)
