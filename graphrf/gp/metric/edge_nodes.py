"""Places along edges as nodes: the vertices of the edges that are subdivided there."""

from __future__ import annotations

import numpy as np

from graphrf.gp.fields.kernel import FieldKernel
from graphrf.gp.metric.edge_precision import EdgePrecision
from graphrf.gp.metric.subdivision import Places, Subdivision
from graphrf.operators.precision.readings import VARIABLES, VariableReadings


class EdgeNodes:
    """All vertices of pieces of edges; the variables of a field are its values there, and for order
    2 derivatives after them.
    """

    readings: VariableReadings = VARIABLES

    def __init__(self, pieces: Subdivision, ends: str) -> None:
        self.pieces, self._ends = pieces, ends
        self.where = pieces.where

    @property
    def n_nodes(self) -> int:
        """Vertices."""
        return self.pieces.n_nodes

    def precision(self, kernel: FieldKernel) -> EdgePrecision:
        """The precision of the variables."""
        return EdgePrecision(self.pieces, kernel, self._ends)

    def readings_by(self, other: EdgeNodes) -> VariableReadings | None:
        """The readings of other nodes if they are the same; else places are further variables."""
        return self.readings if self.n_nodes == other.n_nodes else None


def checked_places(arrays: dict[str, np.ndarray], n_nodes: int, length: np.ndarray) -> Places:
    """The places of a file, once they lie on edges of these lengths."""
    node, edge, distance = (arrays[name] for name in Places._fields)
    if (node.dtype, edge.dtype, distance.dtype) != (
        np.int64,
        np.int64,
        np.float64,
    ) or node.ndim != 1:
        raise ValueError("its arrays are not those of places")
    inside = node < 0
    if not node.shape == edge.shape == distance.shape or (node >= n_nodes).any():
        raise ValueError("its places are not in its graph")
    if (inside & ((edge < 0) | (edge >= length.size))).any() or not np.isfinite(distance).all():
        raise ValueError("its places are not in its graph")
    if (distance[inside] < 0).any() or (distance[inside] > length[edge[inside]]).any():
        raise ValueError("its places are not on their edges")
    return Places(node, edge, distance)
