"""Field: a Whittle-Matern field over space as a term."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from graphrf._base import checks, lazy
from graphrf._base.warn import warn
from graphrf.gp.fields.half_order_precision import HalfOrderMatrices, HalfOrderPrecision
from graphrf.gp.fields.kernel import FieldKernel
from graphrf.gp.fields.mesh_precision import MeshMatrices, MeshPrecision
from graphrf.gp.fields.triangle_mesh import TriangleMesh
from graphrf.gp.search.coordinates import Parameter
from graphrf.gp.terms.levels import LevelAxis
from graphrf.gp.terms.parameters import PenalisedRange, RangePrior, checked_prior
from graphrf.gp.terms.structure import Structure, Values, no_constraints
from graphrf.gp.terms.term import Term

ORDERS = (1, 1.5, 2, 2.5, 3)
# The longest range that is searched, in diameters of the mesh: the field is a constant there.
_LONGEST = 100.0
# The shortest, in median edges: below, vertices are independent.
_SHORTEST = 0.1


@dataclass(frozen=True)
class Field(Term):
    r"""A Whittle-Matern field on a triangle mesh, linear between its vertices.

    Parameters
    ----------
    domain : TriangleMesh
    at : str or tuple of str
        The columns with the coordinates of places, or that with geometries.
    alpha : {1, 1.5, 2, 2.5, 3}
        The order: the smoothness is alpha - 1, so that 1.5 has the exponential covariance. Orders
        1.5 and 2.5 are sums of two to four fields with sparse precisions: at the range that a
        search begins with, standard deviations are off by 3.5 % at most and those of the prior by
        1 %. With two or three fields, a factor holds 3.7 or 8 times as many numbers as
        that of alpha = 2 (alpha = 1.5), or 3.5 or 6 (alpha = 2.5).
    prior : mapping, optional
        Priors by name: `sd`, and `range` in the unit of the coordinates, a `PenalisedRange` or
        (median, factor) of a log-normal. Default: `PenalisedDeviation()`, and a `PenalisedRange`
        whose median is a fifth of the root of the mesh's area.

    Examples
    --------
    >>> from graphrf.gp import Field, TriangleMesh
    >>> mesh = TriangleMesh.from_points([[0, 0], [9, 0], [9, 9], [0, 9]], max_edge=2.0)
    >>> Field(mesh, at=("x", "y")).label
    'x:y'

    Source: Lindgren, Rue and Lindström 2011, "An explicit link between Gaussian fields and Gaussian
    Markov random fields".
    """

    domain: TriangleMesh
    at: str | tuple[str, ...] = ("x", "y")
    alpha: float = 2
    prior: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.domain, TriangleMesh):
            raise checks.type_error(
                "domain", f"must be a TriangleMesh, got {checks.describe(self.domain)}"
            )
        if self.alpha not in ORDERS:
            raise checks.value_error("alpha", f"must be 1, 1.5, 2, 2.5 or 3, got {self.alpha!r}")
        for name in self.prior or ():
            if name not in ("sd", "range"):
                raise checks.value_error("prior", f"must be of sd and range, got one of {name!r}")

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.at,) if isinstance(self.at, str) else tuple(self.at)

    def axes(self, frame: Any) -> tuple[LevelAxis, ...]:
        axis = MeshAxis(self)
        _warn_of_parts(self.domain, axis, frame)
        return (axis,)


def _warn_of_parts(mesh: TriangleMesh, axis: MeshAxis, frame: Any) -> None:
    """Warn of connected parts of a mesh without data, of which a fit learns nothing."""
    parts = mesh.parts
    if not parts.any():
        return
    seen = np.unique(parts[axis.rows(axis.cells(frame)).indices])
    count = int(parts.max()) + 1
    if seen.size < count:
        warn(
            f"`domain`: {count - seen.size} of {count} connected parts of the mesh have no data; "
            "the field has its prior there. Join the parts, or make the mesh of those with data"
        )


class MeshStructure(Structure):
    """The values at all vertices of a mesh, and for half orders those of hidden fields after
    them.
    """

    def __init__(self, mesh: TriangleMesh, alpha: float, parameter: Parameter) -> None:
        self.parameters = (parameter,)
        kernel = FieldKernel(parameter.start, alpha, 2)
        self._precision: MeshPrecision | HalfOrderPrecision
        if float(alpha).is_integer():
            self._precision = MeshPrecision(MeshMatrices(mesh.elements, int(alpha)), kernel)
        else:
            matrices = HalfOrderMatrices(mesh.elements, alpha, parameter.start)
            self._precision = HalfOrderPrecision(matrices, kernel)
        self.size = self._precision.n_nodes
        self.constraints = no_constraints(self.size)

    def precision(self, values: Values) -> sp.csr_array:
        return self._at(values).matrix

    def log_determinant(self, values: Values) -> float:
        return self._at(values).log_determinant()

    def slopes(self, values: Values, parameter: Parameter) -> tuple[sp.csr_array, float]:
        length, precision = values[parameter.name], self._at(values)
        change = sp.csr_array(length * precision.derivative("range"))
        return change, length * precision.trace_of_derivative("range")

    def _at(self, values: Values) -> MeshPrecision | HalfOrderPrecision:
        kernel = self._precision.kernel.replace(range=values[self.parameters[0].name])
        if kernel != self._precision.kernel:
            self._precision = self._precision.with_kernel(kernel)
        return self._precision


class MeshAxis(LevelAxis):
    """The vertices of a mesh."""

    def __init__(self, term: Field) -> None:
        self.column, self._term = term.label, term
        self.levels = range(term.domain.n_vertices)
        mesh = term.domain
        unit = 0.2 * float(np.sqrt(mesh.area))
        low, high = _SHORTEST * float(np.median(mesh.edge_lengths)), _LONGEST * mesh.diameter
        given = (term.prior or {}).get("range", PenalisedRange(unit))
        prior: Any = checked_prior("range", "positive", given)
        if isinstance(prior, PenalisedRange):
            prior = RangePrior(prior, 2)
        key = ("range", id(term))
        start = float(np.clip(unit, 2 * low, 0.5 * high))
        parameter = Parameter(f"range({term.label})", "positive", start, low, high, prior, key)
        self.structure = MeshStructure(mesh, term.alpha, parameter)

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
        weights = self._term.domain.weights(values)
        # no observation reads the hidden fields
        shape = weights.shape[0], self.structure.size
        return sp.csr_array((weights.data, weights.indices, weights.indptr), shape=shape)
