"""The prior of a field on the nodes of a graph, by the sparse precision of its kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from graphrf.gp.terms.parameters import Parameter
from graphrf.gp.terms.structure import Structure, Values
from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel
from graphrf.operators.precision.areal import precision_of


class NodeStructure(Structure):
    """A kernel's precision: its N nodes first, hidden variables after them.

    Functions of the Laplacian are divided by their mean variance, so that a standard deviation is that of the
    field at a typical node; areal kernels are as they are defined.
    """

    def __init__(
        self, graph: Graph, kernel: Kernel, parameters: tuple[Parameter, ...], names: tuple[str, ...]
    ) -> None:
        self._precision = precision_of(graph, kernel)
        self._kernel = kernel
        self._last: tuple[Any, float] | None = None
        self._names = dict(zip((own.name for own in parameters), names, strict=True))
        self.size, self.parameters = self._precision.n_nodes, parameters
        self.constraints = self._precision.constraints

    def kernel(self, values: Values) -> Kernel:
        """The kernel with these hyperparameters."""
        return self._kernel.replace(**{own: values[name] for name, own in self._names.items()})

    def precision(self, values: Values) -> sp.csr_array:
        own, variance = self._at(values)
        return sp.csr_array(own.lifted * variance)

    def log_determinant(self, values: Values) -> float:
        own, variance = self._at(values)
        return float(own.log_determinant() + self.free * np.log(variance))

    def _at(self, values: Values) -> tuple[Any, float]:
        """The kernel's precision and the variance that it is multiplied by; the last are kept."""
        kernel, last = self.kernel(values), self._last
        if last is None or last[0].kernel != kernel:
            own: Any = self._precision.with_kernel(kernel)
            last = own, own.mean_variance() if self._kernel.is_series else 1.0
            self._last = last
        return last
