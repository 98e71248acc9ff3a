r"""K among a few nodes as a combination of resolvents of the Laplacian, for all kernels of one
Laplacian at once.

.. math:: g(L) \approx \sum_j w_j (\sigma_j I + L)^{-1} + w_\infty I, \quad \log \sigma_j \text{
    equally spaced.}
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from graphrf._base.threads import ordered_map
from graphrf.graph.graph import Graph
from graphrf.kernels.chebyshev import WIDTHS
from graphrf.kernels.derivatives import spectral_derivatives
from graphrf.kernels.kernel import Kernel
from graphrf.kernels.lengthscales import LENGTHSCALES, lengthscale_unit
from graphrf.kernels.named import Matern
from graphrf.operators.precision.markov import SparsePrecision

# Steps of the poles, and where they lie beside the inverse square of the longest and the shortest
# lengthscale.
_STEP = 2.0
_FIRST, _LAST = 0.5, 2.0
# Eigenvalues at which the combination is fitted, and the fraction of the first pole at which they
# begin.
_FITTED, _SMALLEST = 400, 1e-2
# Singular values below this fraction of the largest count as 0 in the fit.
_RANK = 1e-13
# The combination may differ from a kernel by this fraction of its spectrum, or of the smallest
# noise that training uses: a fraction of the mean variance, which is at least that of one
# eigenvector.
_ACCURATE, _SMALLEST_NOISE = 1e-2, 1e-6


class Resolvents(NamedTuple):
    """Resolvents among the nodes of one block, and the fit of a kernel to them."""

    matrices: np.ndarray  # (poles + 1, m, m), the identity last
    fit: ResolventFit

    def __call__(self, kernel: Kernel, names: Sequence[str]) -> tuple[np.ndarray, list[np.ndarray]]:
        """K among the nodes, and its derivatives in the named hyperparameters."""
        combined = np.tensordot(self.fit.weights(kernel, names), self.matrices, axes=1)
        return combined[0], list(combined[1:])

    def many(self, kernels: Sequence[Kernel]) -> np.ndarray:
        """K of several kernels, shape (kernels, m, m)."""
        return np.tensordot(
            np.array([self.fit.weights(kernel, ())[0] for kernel in kernels]), self.matrices, axes=1
        )


class ResolventFit:
    """Weights of resolvents that are nearest to a kernel relative to its spectrum.

    With an error e, (1 - e) (K + s I) <= K' + s I <= (1 + e) (K + s I) for every noise s of the
    search: a covariance stays positive definite, and the log likelihood of m values changes by
    about e m at most.
    """

    def __init__(self, graph: Graph, laplacian: str) -> None:
        self._scale = graph.laplacian_scale(laplacian)
        self._floor = _SMALLEST_NOISE / graph.n_nodes

        unit = lengthscale_unit(graph, laplacian)
        largest = WIDTHS[laplacian] * self._scale
        low = _FIRST * (LENGTHSCALES[1] * unit) ** -2
        high = max(_LAST * (LENGTHSCALES[0] * unit) ** -2, largest)
        count = math.ceil(math.log(high / low, _STEP)) + 1

        self.resolvents = [
            Matern(nu=1.0, lengthscale=math.sqrt(2.0 / pole), laplacian=laplacian)
            for pole in np.geomspace(low, high, count)
        ]

        self._eigenvalues = np.concatenate([[0.0], np.geomspace(_SMALLEST * low, largest, _FITTED)])
        columns = [kernel.spectrum(self._eigenvalues, self._scale) for kernel in self.resolvents]
        basis = np.column_stack([*columns, np.ones(self._eigenvalues.size)])
        self.sizes = basis.max(axis=0)
        self._basis = basis / self.sizes

    def weights(self, kernel: Kernel, names: Sequence[str]) -> np.ndarray:
        """Weights of the kernel and of its derivatives in these hyperparameters, shape (1 + names,
        poles + 1).
        """
        values = kernel.spectrum(self._eigenvalues, self._scale)
        wanted = values[:, None]
        if names:
            slopes = spectral_derivatives(
                kernel, names, 1 - self._eigenvalues / self._scale, self._scale
            )
            wanted = np.column_stack([values, slopes])
        size = (values + self._floor * values.max())[:, None]
        result = np.linalg.lstsq(self._basis / size, wanted / size, rcond=_RANK)[0]
        return np.asarray(result.T)

    def serves(self, kernel: Kernel) -> bool:
        """True if the combination of resolvents is close to the kernel."""
        values = kernel.spectrum(self._eigenvalues, self._scale)
        if not 0 < values.max() < np.inf:
            return False
        away = self._basis @ self.weights(kernel, ())[0] - values
        return bool((np.abs(away) <= _ACCURATE * (values + self._floor * values.max())).all())


def resolvents_between(
    precision: SparsePrecision,
    fit: ResolventFit,
    blocks: Sequence[np.ndarray],
    n_threads: int | None,
) -> list[Resolvents]:
    """Resolvents among the nodes of each block, from one sparse factor for each pole."""
    every = np.unique(np.concatenate(blocks))
    places = [np.searchsorted(every, block) for block in blocks]
    result = [np.empty((len(fit.resolvents) + 1, block.size, block.size)) for block in blocks]
    # computed once, before threads need it
    at_once = precision.with_kernel(fit.resolvents[0]).own_elimination.at_once(n_threads)

    def inverse(kernel: Kernel) -> np.ndarray:
        return precision.with_kernel(kernel).factor().inverse_between(every)

    for number, matrix in enumerate(ordered_map(inverse, fit.resolvents, at_once)):
        for each, place in zip(result, places, strict=True):
            each[number] = matrix[np.ix_(place, place)] / fit.sizes[number]
    for each in result:
        each[-1] = np.eye(each.shape[1]) / fit.sizes[-1]
    return [Resolvents(each, fit) for each in result]
