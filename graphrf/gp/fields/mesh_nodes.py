"""Places of a triangle mesh as nodes: rows of barycentric weights of its vertices."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from graphrf.gp.fields.kernel import FieldKernel
from graphrf.operators.precision.protocol import Precision
from graphrf.operators.precision.readings import RowReadings
from graphrf.operators.sparse.layout import VariableLayout


class MeshPlaces(NamedTuple):
    """Places of a mesh: points, or averages over polygons and lines."""

    weights: sp.csr_array  # (n, V)

    @property
    def size(self) -> int:
        """n."""
        return int(self.weights.shape[0])

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of the weights."""
        weights = self.weights
        return {
            "place_weights": weights.data,
            "place_vertices": weights.indices.astype(np.int64),
            "place_ends": weights.indptr.astype(np.int64),
        }

    @classmethod
    def of(cls, arrays: dict[str, np.ndarray], n_vertices: int) -> MeshPlaces:
        """The places with these arrays, once they can be such."""
        data, indices, indptr = (
            arrays[name] for name in ("place_weights", "place_vertices", "place_ends")
        )
        if (data.dtype, indices.dtype, indptr.dtype) != (np.float64, np.int64, np.int64):
            raise ValueError("its arrays are not those of places")
        if data.ndim != 1 or data.shape != indices.shape or indptr.ndim != 1 or indptr.size < 1:
            raise ValueError("its arrays are not those of places")
        if (int(indptr[0]), int(indptr[-1])) != (0, data.size) or (np.diff(indptr) < 1).any():
            raise ValueError("its arrays are not those of places")
        if data.size and not 0 <= int(indices.min()) <= int(indices.max()) < n_vertices:
            raise ValueError("its places are not in its mesh")
        weights = sp.csr_array((data, indices, indptr), shape=(indptr.size - 1, n_vertices))
        sums = weights @ np.ones(n_vertices)
        if not np.isfinite(data).all() or (np.abs(sums - 1) > 1e-6).any() or (data < -1e-6).any():
            raise ValueError("its places are not in its mesh")
        return cls(weights)

    def at(self, chosen: np.ndarray) -> MeshPlaces:
        """Some of them."""
        return MeshPlaces(sp.csr_array(self.weights[chosen]))

    def followed_by(self, others: MeshPlaces) -> MeshPlaces:
        """These and then the others."""
        return MeshPlaces(sp.csr_array(sp.vstack([self.weights, others.weights], format="csr")))


class MeshNodes:
    """The distinct places among some, numbered by their first occurrence; the variables of a field
    are its values at all vertices, and hidden fields for half orders.
    """

    def __init__(self, mesh: Any, places: MeshPlaces, alpha: float) -> None:
        self._mesh = mesh
        # for any range: its pattern and number of variables are the same
        self._precision = mesh.precision(mesh.kernel(mesh.length_unit, alpha))
        self.where, first = _distinct(places.weights)
        n = self._precision.n_nodes
        # no place reads the hidden fields
        self.rows = _widened(sp.csr_array(places.weights[first]), first.size, n)
        self._readings: RowReadings | None = None

    @property
    def n_nodes(self) -> int:
        """Distinct places."""
        return int(self.rows.shape[0])

    @property
    def readings(self) -> RowReadings:
        """The rows of the nodes, in a pattern that holds those of all points."""
        if self._readings is None:
            # The consistent mass joins the corners of each triangle, where Q may have exact zeros.
            n = self._precision.n_nodes
            own = self._precision.with_kernel(self._precision.kernel)  # its matrix goes with it
            patterns = [
                own.matrix,
                _widened(self._mesh.elements.mass, n, n),
                sp.csr_array(abs(self.rows).T @ abs(self.rows)),
            ]
            self._readings = RowReadings(self.rows, VariableLayout.of(patterns))
        return self._readings

    def precision(self, kernel: FieldKernel) -> Precision:
        """The precision of the variables."""
        precision: Precision = self._precision.with_kernel(kernel)
        return precision

    def readings_by(self, other: MeshNodes) -> RowReadings:
        """These rows, in the pattern of other nodes."""
        return other.readings.with_rows(self.rows)


def _widened(matrix: sp.csr_array, n_rows: int, n_columns: int) -> sp.csr_array:
    """A matrix with rows and columns of zeros after its own."""
    ends = np.append(matrix.indptr, np.full(n_rows - matrix.shape[0], matrix.indptr[-1]))
    return sp.csr_array((matrix.data, matrix.indices, ends), shape=(n_rows, n_columns))


def _distinct(weights: sp.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """The number of each row among the distinct ones, and the first of each of these."""
    weights.sort_indices()
    ends = weights.indptr.tolist()
    numbers: dict[tuple[bytes, bytes], int] = {}
    where, first = np.empty(len(ends) - 1, dtype=np.int64), list[int]()
    for row, (start, stop) in enumerate(itertools.pairwise(ends)):
        key = weights.indices[start:stop].tobytes(), weights.data[start:stop].tobytes()
        number = numbers.setdefault(key, len(numbers))
        if number == len(first):
            first.append(row)
        where[row] = number
    return where, np.array(first, dtype=np.int64)
