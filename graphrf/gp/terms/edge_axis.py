"""Places along the edges of a metric graph as the axis of a field."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from graphrf._base import checks
from graphrf._base.rows import within
from graphrf.gp.fields.kernel import FieldKernel
from graphrf.gp.metric.edge_precision import EdgePrecision
from graphrf.gp.metric.graph import MetricGraph, edge_number
from graphrf.gp.metric.subdivision import Subdivision
from graphrf.gp.search.coordinates import Parameter
from graphrf.gp.terms.levels import Extension, LevelAxis, labels_in
from graphrf.gp.terms.parameters import PenalisedRange, RangePrior, checked_prior
from graphrf.gp.terms.structure import Structure, Values, no_constraints
from graphrf.graph.labels import Lookup
from graphrf.operators.sparse.cholesky import SparseCholesky

# Points of Simpson's rule along a stretch.
_POINTS = 9
# The ranges that are searched, in units of lengths.
_RANGES = (1e-2, 1e3)


class FieldStructure(Structure):
    """The variables of a field with this precision, whose range is trained."""

    def __init__(self, precision: Any, parameter: Parameter) -> None:
        self._precision, self.parameters = precision, (parameter,)
        self.size = precision.n_nodes
        self.constraints = no_constraints(self.size)

    def precision(self, values: Values) -> sp.csr_array:
        return self._at(values).matrix

    def slopes(self, values: Values, parameter: Parameter) -> tuple[sp.csr_array, float]:
        length, precision = values[parameter.name], self._at(values)
        change = sp.csr_array(length * precision.derivative("range"))
        return change, length * precision.trace_of_derivative("range")

    def log_determinant(self, values: Values) -> float:
        return self._at(values).log_determinant()

    def _at(self, values: Values) -> Any:
        kernel = self._precision.kernel.replace(range=values[self.parameters[0].name])
        if kernel != self._precision.kernel:
            try:
                self._precision = self._precision.with_kernel(kernel)
            except ValueError as error:  # numerically singular, which a search takes as impossible
                raise np.linalg.LinAlgError(str(error)) from error
        return self._precision


class EdgeStructure(FieldStructure):
    """The values at all vertices of pieces, and for order 2 the free derivatives after them."""

    def __init__(self, pieces: Subdivision, alpha: int, *, ends: str, parameter: Parameter) -> None:
        self.pieces = pieces
        precision = EdgePrecision(pieces, FieldKernel(parameter.start, alpha, 1), ends)
        super().__init__(precision, parameter)
        self.derivatives: np.ndarray = precision.states.derivatives


class EdgeAxis(LevelAxis):
    """Places along edges: those of the data."""

    def __init__(self, term: Any, streets: MetricGraph, frame: Any) -> None:
        self._term, self._streets, self._alpha = term, streets, int(term.order)
        self.column = self.columns[0]
        self.levels = labels_in(self.column, self.cells(frame))
        unit = streets.length_unit
        prior: Any = checked_prior(
            "range", "positive", (term.prior or {}).get("range", (unit, 4.0))
        )
        if isinstance(prior, PenalisedRange):
            prior = RangePrior(prior, 1)
        low, high = (end * unit for end in _RANGES)
        key = ("range", id(term))
        self._parameter = Parameter(f"range({term.label})", "positive", unit, low, high, prior, key)
        self._pieces = self._subdivided(self.levels)
        self.structure = self._structure(self._pieces)

    @property
    def columns(self) -> tuple[str, ...]:
        columns: tuple[str, ...] = self._term.columns
        return columns

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
        return Lookup(zip(self.levels, self._pieces.where.tolist(), strict=True))

    def extension(self, values: Any, hyperparameters: Values) -> Extension:
        vertices = self.lookup
        labels = [label for label in labels_in(self.column, values) if label not in vertices]
        if not labels:
            return super().extension(values, hyperparameters)

        pieces = self._subdivided([*self.levels, *labels])
        structure = self._structure(pieces)
        nodes = self._streets.n_nodes
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
        if self._alpha == 1:
            return vertices
        n = structure.pieces.n_nodes
        assert isinstance(self.structure, EdgeStructure)
        owners = vertices[np.unique(self.structure.derivatives)]
        own = [n + np.flatnonzero(structure.derivatives == vertex) for vertex in owners]
        return np.concatenate([vertices, *own])

    def _subdivided(self, places: Sequence[Hashable]) -> Subdivision:
        """The edges subdivided at places."""
        return self._streets.subdivide(self._streets.places(list(places)), self._alpha)

    def _structure(self, pieces: Subdivision) -> EdgeStructure:
        return EdgeStructure(
            pieces, self._alpha, ends=self._streets.ends, parameter=self._parameter
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
    ends = edge if isinstance(edge, tuple) else (edge_number(edge),)
    return (*ends, float(distance))


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
