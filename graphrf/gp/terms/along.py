"""Along: a field along the edges of a metric graph as a term."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from graphrf._base import checks
from graphrf._base.rows import within
from graphrf.gp.metric.edge_precision import ENDS, EdgeKernel, EdgePrecision, checked_order
from graphrf.gp.metric.graph import MetricGraph, require_metric_graph
from graphrf.gp.metric.subdivision import Subdivision
from graphrf.gp.search.coordinates import Parameter
from graphrf.gp.terms.levels import Extension, LevelAxis, labels_in
from graphrf.gp.terms.parameters import checked_prior
from graphrf.gp.terms.structure import Structure, Values, no_constraints
from graphrf.gp.terms.term import Term
from graphrf.operators.sparse.cholesky import SparseCholesky

# Points of Simpson's rule along a stretch.
_POINTS = 9
# The range of lengthscales, in lengths of roads: more than three deviations of the default prior,
# of median 1 and factor 4, on both sides.
_RANGE = (1e-2, 1e3)


@dataclass(frozen=True)
class Along(Term):
    r"""A Whittle-Matern field of order 1 or 2 along the edges of a metric graph, with variance
    \sigma^2 on lines.

    Parameters
    ----------
    streets : MetricGraph
    alpha : {1, 2}
        The order: 1 has the exponential covariance along a line, 2 the Matern covariance of
        smoothness 3/2, whose derivatives are continuous along edges. Places of order 2 are rounded
        to 500ths of `streets.road_length`.
    edge, distance : str
        The columns with the edges, (u, v), (u, v, key) or numbers, and the distances from u along
        them. A distance may be a pair of distances: the mean over that stretch, by Simpson's rule
        on nine points.
    ends : {"stationary", "free"}
        Ends of degree 1: as if an endless edge went on, or with the derivative 0.
    prior : mapping, optional
        Priors by name: `sd` and `lengthscale`, in units of the distances. Default:
        `PenalisedDeviation()`, and a log-normal with median `streets.road_length` and factor 4.

    Examples
    --------
    >>> import graphrf as grf
    >>> from graphrf.gp import Along
    >>> streets = grf.gp.MetricGraph([0, 1], [1, 2], [120.0, 80.0])
    >>> Along(streets, alpha=2, edge="street", distance="metres").label
    'street:metres'

    Source: Bolin, Simas and Wallin 2024, "Gaussian Whittle-Matern fields on metric graphs".
    """

    streets: MetricGraph
    alpha: int = 1
    edge: str = "edge"
    distance: str = "distance"
    ends: str = "stationary"
    prior: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        require_metric_graph(self.streets)
        checked_order(self.alpha)
        checks.choice("ends", self.ends, ENDS)
        for name in self.prior or ():
            if name not in ("sd", "lengthscale"):
                raise checks.value_error(
                    "prior", f"must be of sd and lengthscale, got one of {name!r}"
                )

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.edge, self.distance)

    def axes(self, frame: Any) -> tuple[LevelAxis, ...]:
        return (EdgeAxis(self, frame),)


class EdgeStructure(Structure):
    """The values at all vertices of pieces, and for order 2 the free derivatives after them."""

    def __init__(
        self, pieces: Subdivision, alpha: int, *, ends: str, lengthscale: Parameter
    ) -> None:
        self.pieces = pieces
        self.parameters = (lengthscale,)
        self._precision = EdgePrecision(pieces, EdgeKernel(lengthscale.start, alpha), ends)
        self.derivatives: np.ndarray = self._precision.states.derivatives
        self.size = self._precision.n_nodes
        self.constraints = no_constraints(self.size)

    def precision(self, values: Values) -> sp.csr_array:
        return self._at(values).matrix

    def slopes(self, values: Values, parameter: Parameter) -> tuple[sp.csr_array, float]:
        own, length = self._at(values), values[parameter.name]
        change = sp.csr_array(length * own.derivative("lengthscale"))
        return change, length * own.trace_of_derivative("lengthscale")

    def log_determinant(self, values: Values) -> float:
        return self._at(values).log_determinant()

    def _at(self, values: Values) -> EdgePrecision:
        kernel = self._precision.kernel.replace(lengthscale=values[self.parameters[0].name])
        if kernel != self._precision.kernel:
            try:
                self._precision = self._precision.with_kernel(kernel)
            except ValueError as error:  # numerically singular, which a search takes as impossible
                raise np.linalg.LinAlgError(str(error)) from error
        return self._precision


class EdgeAxis(LevelAxis):
    """Places along edges: those of the data."""

    def __init__(self, term: Along, frame: Any) -> None:
        self.column, self._term = term.edge, term
        self.levels = labels_in(self.column, self.cells(frame))
        unit = term.streets.road_length
        prior = checked_prior(
            "lengthscale", "positive", (term.prior or {}).get("lengthscale", (unit, 4.0))
        )

        low, high = (end * unit for end in _RANGE)
        name = f"lengthscale({term.label})"
        self._lengthscale = Parameter(
            name, "positive", unit, low, high, prior, ("lengthscale", id(term))
        )

        self._pieces = self._subdivided(self.levels)
        self.structure = self._structure(self._pieces)

    @property
    def columns(self) -> tuple[str, ...]:
        return self._term.columns

    def cells(self, frame: Any) -> list[Any]:
        """Places (u, v, key, distance); for stretches dictionaries of places and weights."""
        return [
            _stretch(edge, distance)
            if isinstance(distance, tuple | list)
            else _place(edge, distance)
            for edge, distance in zip(*(_list(frame[name]) for name in self.columns), strict=True)
        ]

    @property
    def lookup(self) -> Mapping[Hashable, int]:
        """The vertex of each place."""
        return dict(zip(self.levels, self._pieces.where.tolist(), strict=True))

    def extension(self, values: Any, hyperparameters: Values) -> Extension:
        vertices = self.lookup
        labels = [label for label in labels_in(self.column, values) if label not in vertices]
        if not labels:
            return super().extension(values, hyperparameters)

        pieces = self._subdivided([*self.levels, *labels])
        structure = self._structure(pieces)

        nodes = self._term.streets.n_nodes
        # the vertices of the fit among those of all places
        kept = np.concatenate(
            [np.arange(nodes), np.zeros(self._pieces.n_nodes - nodes, dtype=np.int64)]
        )
        kept[self._pieces.where] = pieces.where[: len(self.levels)]

        old = self._variables(structure, kept)
        new = np.setdiff1d(np.arange(structure.size), old)

        index = dict(zip(labels, pieces.where[len(self.levels) :].tolist(), strict=True))

        joint = structure.precision(hyperparameters)
        precision = sp.csr_array(joint[new][:, new])

        known_part, new_part, _ = self._read(values, index, structure.size)
        # a new place that is a vertex of the fit is none of the new variables
        both = sp.csr_array(new_part[:, old] + known_part)

        if not new.size:
            return Extension(
                both, sp.csr_array((both.shape[0], 0)), precision, sp.csr_array((0, 0))
            )

        mean = solved_by_components(precision, sp.csr_array(-joint[new][:, old]))
        part = sp.csr_array(new_part[:, new])
        return Extension(
            sp.csr_array(both + part @ mean), part, precision, sp.csr_array((0, new.size))
        )

    def _variables(self, structure: EdgeStructure, vertices: np.ndarray) -> np.ndarray:
        """The variables at some vertices, in the order of the fit: values, and then derivatives."""
        if self._term.alpha == 1:
            return vertices
        n = structure.pieces.n_nodes
        own = [
            n + np.flatnonzero(structure.derivatives == vertex)
            for vertex in vertices[self._owners()]
        ]
        return np.concatenate([vertices, *own])

    def _owners(self) -> np.ndarray:
        """The vertices of the fit that have derivatives, each once."""
        assert isinstance(self.structure, EdgeStructure)
        return np.unique(self.structure.derivatives)

    def _subdivided(self, places: Sequence[Hashable]) -> Subdivision:
        """The edges subdivided at places."""
        streets = self._term.streets
        return streets.subdivide(streets.places(list(places)), self._term.alpha)

    def _structure(self, pieces: Subdivision) -> EdgeStructure:
        return EdgeStructure(
            pieces, self._term.alpha, ends=self._term.ends, lengthscale=self._lengthscale
        )


def solved_by_components(matrix: sp.csr_array, rhs: sp.csr_array) -> sp.csr_array:
    """A^-1 B for a positive definite A of many small components and a sparse B.

    The columns of each component are counted from 0, so that one dense right-hand side has those of
    all.
    """
    n, width = rhs.shape
    component = connected_components(matrix, directed=False)[1]
    entries = sp.coo_array(rhs)
    keys, own = np.unique(
        component[entries.row].astype(np.int64) * width + entries.col, return_inverse=True
    )

    owner, column = np.divmod(keys, width)
    counts = np.bincount(owner, minlength=int(component.max()) + 1)
    first = np.cumsum(counts) - counts

    dense = np.zeros((n, int(counts.max(initial=0))))
    dense[entries.row, own - first[component[entries.row]]] = entries.data
    solved = SparseCholesky(matrix).solve(dense)

    row = np.repeat(np.arange(n), counts[component])
    place = within(counts[component])
    return sp.csr_array(
        (solved[row, place], (row, column[first[component[row]] + place])), shape=(n, width)
    )


def _place(edge: Any, distance: Any) -> tuple[Any, ...]:
    """A place as `MetricGraph.places` reads it."""
    return (*edge, float(distance)) if isinstance(edge, tuple) else (int(edge), float(distance))


def _stretch(edge: Any, ends: Sequence[float]) -> dict[tuple[Any, ...], float]:
    """Places along a stretch, with the weights of Simpson's rule."""
    if len(ends) != 2 or not ends[0] < ends[1]:
        raise checks.value_error(
            "distance", f"must be a number or an increasing pair, got {ends!r}"
        )

    weights = np.ones(_POINTS)
    weights[1:-1:2], weights[2:-1:2] = 4.0, 2.0
    places = [_place(edge, each) for each in np.linspace(ends[0], ends[1], _POINTS)]
    return dict(zip(places, (weights / weights.sum()).tolist(), strict=True))


def _list(column: Any) -> list[Any]:
    return column.tolist() if hasattr(column, "tolist") else list(column)
