"""Field: a Whittle-Matern field over space, or along edges, as a term."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import scipy.sparse as sp

from graphrf._base import checks
from graphrf.gp.fields.domain import Domain, require_domain
from graphrf.gp.fields.geometries import check_order, geometries_of, in_order
from graphrf.gp.fields.mesh_nodes import MeshPlaces
from graphrf.gp.fields.triangle_mesh import TriangleMesh
from graphrf.gp.metric.graph import MetricGraph
from graphrf.gp.search.coordinates import Parameter
from graphrf.gp.terms.edge_axis import EdgeAxis, FieldStructure
from graphrf.gp.terms.levels import LevelAxis
from graphrf.gp.terms.mesh_structures import Variation, VaryingStructure
from graphrf.gp.terms.parameters import PenalisedRange, RangePrior, checked_prior
from graphrf.gp.terms.structure import Structure, Values
from graphrf.gp.terms.term import Term

# The longest range that is searched, in diameters of the mesh: the field is a constant there.
_LONGEST = 100.0
# The shortest, in median edges: below, vertices are independent.
_SHORTEST = 0.1


@dataclass(frozen=True, eq=False)  # arrays have no truth value
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
    alpha : {1, 1.5, 2, 2.5, 3}, optional
        The order. Default: 2 on meshes, where the smoothness is alpha - 1, so that 1.5 has the
        exponential covariance; 1 along edges, the exponential covariance on a line. Orders 1.5 and
        2.5 are for meshes, sums of two to four fields with sparse precisions: at the range that a
        search begins with, standard deviations are off by 3.5 % at most and those of the prior by 1
        %, at four times that range by 8 % at most, and a factor holds 3.5 to 8 times as many
        numbers as that of order 2. Order 2 along edges has the Matern covariance of smoothness 3/2,
        whose derivatives are continuous along edges, and places that are rounded to 500ths of
        `MetricGraph.road_length`; 3 is for meshes. Barriers take order 2, other fields that vary 1,
        2 and 3.
    prior : mapping, optional
        Priors by name: `sd`, and `range` in the unit of the coordinates or lengths, a
        `PenalisedRange` or (median, factor) of a log-normal. Default: `PenalisedDeviation()`, and
        on meshes a `PenalisedRange` whose median is a fifth of the root of the area, along edges a
        log-normal with median 2 `MetricGraph.road_length` and factor 4. `anisotropy`, `range_by`
        and `sd_by` are deviations of normal priors around 0, by default 1.
    anisotropy : bool
        Train directions of a longer and of a shorter range, on planar meshes. Two hyperparameters
        v, both 0 for a field that is the same in all directions, turn and stretch it without a
        change of area. A summary also has what they mean: the longest and the shortest range, whose
        geometric mean is `range` and whose ratio is exp(|v|), and the angle of the longest one in
        degrees, anticlockwise from the first coordinate.
    barrier : Polygon, sequence of these, GeoSeries, or array_like of bool, shape (T,), optional
        Land in a sea, say: triangles with their centres in it, in which the range is a fifth, so
        that places are correlated around the barrier and hardly through it. Variances rise near it,
        less than at the border of a mesh. A wall must be as wide as two edges at least: narrower
        parts of which triangles cover less than four fifths are warned of.
    range_by, sd_by : array_like, shape (V,) or (V, p), optional
        Columns of numbers x at the vertices of the mesh, by which the range or the standard
        deviation changes: log range(s) = log range + b (x(s) - m), with the mean m of x over the
        mesh. b is trained, with a prior N(0, 1) in units of 1 / the deviation of x over the mesh.

    Examples
    --------
    >>> from graphrf.gp import Field, MetricGraph, TriangleMesh
    >>> mesh = TriangleMesh.from_points([[0, 0], [9, 0], [9, 9], [0, 9]], max_edge=2.0)
    >>> Field(mesh, at=("x", "y")).label
    'x:y'
    >>> streets = MetricGraph([0, 1], [1, 2], [120.0, 80.0])
    >>> Field(streets, at=("street", "metres"), alpha=2).label
    'street:metres'

    A longer range in the north, along a coast that runs east:

    >>> field = Field(mesh, anisotropy=True, range_by=mesh.vertices[:, 1])
    >>> field.range_by.shape == (mesh.n_vertices, 1)
    True

    Notes
    -----
    sdmTMB multiplies the range by the eigenvalues of H, whose roots are the ratios of ranges; its
    ranges along the axes are therefore farther apart than those here.

    Sources: Lindgren, Rue and Lindström 2011, "An explicit link between Gaussian fields and
    Gaussian Markov random fields"; Bolin, Simas and Wallin 2024, "Gaussian Whittle-Matern fields on
    metric graphs"; Bakka, Vanhatalo, Illian, Simpson and Rue 2019, "Non-stationary Gaussian models
    with physical barriers"; Llamazares-Elias, Latz and Lindgren 2024, "A parameterization of
    anisotropic Gaussian fields with penalized complexity priors".
    """

    domain: Domain
    at: str | tuple[str, ...] | None = None
    alpha: float | None = None
    prior: Mapping[str, Any] | None = None
    anisotropy: bool = False
    barrier: Any = field(default=None, repr=False)
    range_by: Any = field(default=None, repr=False)
    sd_by: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        require_domain(self.domain)
        along = self.domain.field_dimension == 1
        if self.at is None:
            object.__setattr__(self, "at", ("edge", "distance") if along else ("x", "y"))
        elif not isinstance(self.at, str):
            if not isinstance(self.at, tuple | list) or not 0 < len(self.at) < 4:
                raise checks.value_error(
                    "at", f"must be a column of geometries or two or three, got {self.at!r}"
                )
            object.__setattr__(self, "at", tuple(self.at))
        if not along:
            check_order(self.columns, "at", f"at={tuple(in_order(self.columns))!r}")
        if along and len(self.columns) != 2:
            raise checks.value_error(
                "at", f"must be the columns with edges and distances along them, got {self.at!r}"
            )

        for name, value in self.variation._asdict().items():
            object.__setattr__(self, name, value)
        if self.order % 1 and not self.variation.is_stationary:
            raise checks.value_error(
                "alpha", f"must be 1, 2 or 3 for fields that vary, got {self.alpha!r}"
            )
        allowed = ("sd", "range", *self.variation.trained)
        for name in self.prior or ():
            if name not in allowed:
                names = f"{', '.join(allowed[:-1])} and {allowed[-1]}"
                raise checks.value_error("prior", f"must be of {names}, got one of {name!r}")

    def __repr__(self) -> str:
        shown = [f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr]
        if self.barrier is not None:
            shown.append(f"barrier={self.barrier.sum()} of {self.barrier.size} triangles")
        return f"Field({', '.join(shown)})"

    @property
    def order(self) -> float:
        """alpha, or the default of the domain."""
        return self.domain.checked_order(self.alpha)

    @property
    def variation(self) -> Variation:
        """The differences of the field between places and directions."""
        return Variation.of(
            self.domain,
            self.order,
            anisotropy=self.anisotropy,
            barrier=self.barrier,
            range_by=self.range_by,
            sd_by=self.sd_by,
        )

    @property
    def columns(self) -> tuple[str, ...]:
        assert self.at is not None
        return (self.at,) if isinstance(self.at, str) else self.at

    def axes(self, frame: Any) -> tuple[LevelAxis, ...]:
        if isinstance(self.domain, MetricGraph):
            return (EdgeAxis(self, self.domain, frame),)
        assert isinstance(self.domain, TriangleMesh)
        axis = MeshAxis(self, self.domain)
        axis.observed = MeshPlaces(axis.rows(axis.cells(frame)))
        self.domain.warn_of_parts(axis.observed)
        return (axis,)


class MeshAxis(LevelAxis):
    """The vertices of a mesh."""

    observed: MeshPlaces  # the places of the data

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
        variation = term.variation
        self.structure: Structure = (
            FieldStructure(mesh.precision(mesh.kernel(start, term.order)), parameter)
            if variation.is_stationary
            else VaryingStructure(
                mesh,
                int(term.order),
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

    def warn_of(self, values: Values) -> None:
        """Warn of a range that is short beside the edges of the mesh."""
        self._mesh.warn_of_range(values[self.structure.parameters[0].name], self.observed)

    def cells(self, frame: Any) -> Any:
        """Geometries, or columns of coordinates."""
        if len(self.columns) > 1:
            return frame[list(self.columns)]
        found = geometries_of(frame[self.columns[0]], self.columns[0])
        if found is None:
            raise checks.type_error(
                self.columns[0], "must hold geometries of shapely: pass at=('x', 'y') for others"
            )
        return found

    def rows(self, values: Any) -> sp.csr_array:
        weights = self._mesh.weights(values)
        # no observation reads the hidden fields
        shape = weights.shape[0], self.structure.size
        return sp.csr_array((weights.data, weights.indices, weights.indptr), shape=shape)
