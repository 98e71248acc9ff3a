"""Field: a Whittle-Matern field over space as a term."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from graphrf._base import checks, lazy
from graphrf._base.warn import warn
from graphrf.gp.fields.kernel import FieldKernel
from graphrf.gp.fields.mesh_precision import MeshMatrices, MeshPrecision
from graphrf.gp.fields.triangle_mesh import TriangleMesh
from graphrf.gp.search.coordinates import Parameter
from graphrf.gp.terms.levels import LevelAxis
from graphrf.gp.terms.mesh_structures import Variation, VaryingStructure
from graphrf.gp.terms.parameters import PenalisedRange, RangePrior, checked_prior
from graphrf.gp.terms.structure import Structure, Values, no_constraints
from graphrf.gp.terms.term import Term

ORDERS = (1, 2, 3)
# The longest range that is searched, in diameters of the mesh: the field is a constant there.
_LONGEST = 100.0
# The shortest, in median edges: below, vertices are independent.
_SHORTEST = 0.1


@dataclass(frozen=True, eq=False)  # arrays have no truth value
class Field(Term):
    r"""A Whittle-Matern field on a triangle mesh, linear between its vertices.

    Parameters
    ----------
    domain : TriangleMesh
    at : str or tuple of str
        The columns with the coordinates of places, or that with geometries.
    alpha : {1, 2, 3}
        The order: the smoothness is alpha - 1.
    prior : mapping, optional
        Priors by name: `sd`, and `range` in the unit of the coordinates, a `PenalisedRange` or
        (median, factor) of a log-normal. Default: `PenalisedDeviation()`, and a `PenalisedRange`
        whose median is a fifth of the root of the mesh's area. `anisotropy`, `range_by` and `sd_by`
        are deviations of normal priors around 0, by default 1.
    anisotropy : bool
        Train directions of a longer and of a shorter range, on planar meshes. Two hyperparameters
        v, both 0 for a field that is the same in all directions, turn and stretch it without a
        change of area. A summary also has what they mean: the longest and the shortest range, whose
        geometric mean is `range` and whose ratio is exp(|v|), and the angle of the longest one in
        degrees, anticlockwise from the first coordinate.
    barrier : Polygon, sequence of these, GeoSeries, or array_like of bool, shape (T,), optional
        Land in a sea, say: triangles with their centres in it, in which the range is a fifth, so
        that places are correlated around the barrier and hardly through it. Variances rise near it,
        less than at the border of a mesh. A wall must be as wide as two edges at least.
    range_by, sd_by : array_like, shape (V,) or (V, p), optional
        Columns of numbers x at the vertices of the mesh, by which the range or the standard
        deviation changes: log range(s) = log range + b (x(s) - m), with the mean m of x over the
        mesh. b is trained, with a prior N(0, 1) in units of 1 / the deviation of x over the mesh.

    Examples
    --------
    >>> from graphrf.gp import Field, TriangleMesh
    >>> mesh = TriangleMesh.from_points([[0, 0], [9, 0], [9, 9], [0, 9]], max_edge=2.0)
    >>> Field(mesh, at=("x", "y")).label
    'x:y'

    A longer range in the north, along a coast that runs east:

    >>> field = Field(mesh, anisotropy=True, range_by=mesh.vertices[:, 1])
    >>> field.range_by.shape == (mesh.n_vertices, 1)
    True

    Notes
    -----
    sdmTMB multiplies the range by the eigenvalues of H, whose roots are the ratios of ranges; its
    ranges along the axes are therefore farther apart than those here.

    Sources: Lindgren, Rue and Lindström 2011, "An explicit link between Gaussian fields and
    Gaussian Markov random fields"; Bakka, Vanhatalo, Illian, Simpson and Rue 2019, "Non-stationary
    Gaussian models with physical barriers"; Llamazares-Elias, Latz and Lindgren 2024, "A
    parameterization of anisotropic Gaussian fields with penalized complexity priors".
    """

    domain: TriangleMesh
    at: str | tuple[str, ...] = ("x", "y")
    alpha: int = 2
    prior: Mapping[str, Any] | None = None
    anisotropy: bool = False
    barrier: Any = field(default=None, repr=False)
    range_by: Any = field(default=None, repr=False)
    sd_by: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.domain, TriangleMesh):
            raise checks.type_error(
                "domain", f"must be a TriangleMesh, got {checks.describe(self.domain)}"
            )
        if self.alpha not in ORDERS:
            raise checks.value_error("alpha", f"must be 1, 2 or 3, got {self.alpha!r}")
        for name, value in self.variation._asdict().items():
            object.__setattr__(self, name, value)
        known = ("sd", "range", *self.variation.trained)
        for name in self.prior or ():
            if name not in known:
                names = f"{', '.join(known[:-1])} and {known[-1]}"
                raise checks.value_error("prior", f"must be of {names}, got one of {name!r}")

    @property
    def variation(self) -> Variation:
        """How the field differs between places and directions."""
        return Variation.of(
            self.domain,
            self.alpha,
            anisotropy=self.anisotropy,
            barrier=self.barrier,
            range_by=self.range_by,
            sd_by=self.sd_by,
        )

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
    """The values at all vertices of a mesh."""

    def __init__(self, mesh: TriangleMesh, alpha: int, parameter: Parameter) -> None:
        self.parameters, self.size = (parameter,), mesh.n_vertices
        self.constraints = no_constraints(self.size)
        kernel = FieldKernel(parameter.start, alpha, 2)
        self._precision = MeshPrecision(MeshMatrices(mesh.elements, alpha), kernel)

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
        variation = term.variation
        self.structure: Structure = (
            MeshStructure(mesh, term.alpha, parameter)
            if variation.is_stationary
            else VaryingStructure(
                mesh,
                term.alpha,
                parameter,
                variation,
                label=term.label,
                prior=term.prior or {},
                number=id(term),
            )
        )

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
        return self._term.domain.weights(values)
