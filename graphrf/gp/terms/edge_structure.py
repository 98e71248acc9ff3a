"""The prior of a field along edges as a structure of terms."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from graphrf.gp.metric.field import EdgeKernel, EdgePrecision
from graphrf.gp.metric.pieces import Pieces
from graphrf.gp.terms.parameters import Parameter
from graphrf.gp.terms.structure import Structure, Values, no_constraints


class EdgeStructure(Structure):
    """The values at all vertices of pieces, and for order 2 the free derivatives after them."""

    def __init__(self, pieces: Pieces, alpha: int, *, ends: str, lengthscale: Parameter) -> None:
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
