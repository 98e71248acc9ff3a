r"""Prior covariances among a few nodes as functions of the hyperparameters, with derivatives: for
training.

Training evaluates K[S, S] for one set S of nodes and many hyperparameters. What does not depend on
them is made once: Chebyshev polynomials of the walk matrix for the series, the samples for
features.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import scipy.sparse as sp

from graphrf._base.cached import cached_property
from graphrf._base.memory import require_memory
from graphrf._base.threads import ordered_map, thread_count
from graphrf.features.factor import FeatureFactor
from graphrf.features.pairs import RowPairs
from graphrf.gp.methods.rings import neighbourhood
from graphrf.graph.graph import Graph
from graphrf.kernels.chebyshev import chebyshev_coefficients, chebyshev_columns
from graphrf.kernels.derivatives import jacobian_columns, spectral_derivatives
from graphrf.kernels.kernel import Kernel
from graphrf.kernels.lengthscales import longest_lengthscale
from graphrf.operators.factor import units
from graphrf.operators.precision.protocol import KernelPrecision
from graphrf.operators.series.chebyshev_sums import RecurrenceSteps, reached_rows
from graphrf.operators.series.walk_operator import doubled_matrix, renumbered_matrix

# Chebyshev terms below the first fraction of the largest value are not worth a larger table. Of the
# terms in the table, all above the second fraction are summed: if the degree changed with the
# lengthscale, the likelihood would jump by tenths of a nat where noise is small, and searches would
# end there.
_TOLERANCE, _SUMMED = 1e-9, 1e-13
_TABLE_CHUNK = 32
_BLOCK_COLUMNS = 16
# Degrees whose reach the first part of the graph holds; with more, the table is made again on a
# larger part.
_FIRST_DEGREES = 64
# Multiply-adds of a chunk of the table below which a pool of threads is not worth its start.
_WORTH_POOL = 20_000_000


class Gram(Protocol):
    """K[S, S] of any kernel, and its derivatives in the named hyperparameters."""

    def __call__(self, kernel: Kernel, names: Sequence[str]) -> tuple[np.ndarray, list[np.ndarray]]:
        """The matrix, shape (m, m), and one of that shape for each name."""
        ...

    def many(self, kernels: Sequence[Kernel]) -> np.ndarray:
        """The matrices of several kernels, shape (kernels, m, m)."""
        ...


class SeriesGram:
    r"""The exact K[S, S] from a table of T_k(M)[S, S], the Chebyshev polynomials of the walk
    matrix.

    .. math:: K[S, S] = \sum_k c_k(\theta) \, T_k(M)[S, S], \quad
              \partial_\theta K[S, S] = \sum_k \partial_\theta c_k \, T_k(M)[S, S].

    The table grows as far as the requested kernels need, up to `max_degree`, where the series is
    truncated. It takes a sparse product with N x m numbers and m^2 / 2 numbers of memory for each
    degree; N counts the nodes within about degree / 2 steps of S. An evaluation costs (degree) m^2
    / 2 multiply-adds for the matrix and each derivative.
    """

    def __init__(
        self,
        graph: Graph,
        laplacian: str,
        nodes: np.ndarray,
        *,
        max_degree: int,
        n_threads: int | None = None,
    ) -> None:
        self._graph = graph
        self._laplacian = laplacian
        self._scale = graph.laplacian_scale(laplacian)
        self.nodes = nodes
        self.max_degree = max_degree
        self._threads = thread_count(n_threads)

        self._triangle = np.tril_indices(nodes.size)
        self._degree = 0  # of the last kernel
        self._longest: dict[Kernel, float] = {}
        self._start(min(_FIRST_DEGREES, max_degree))

    def extend(self, max_degree: int) -> None:
        """Allow more degrees; those that there are stay in the table."""
        self.max_degree = max_degree
        self._longest.clear()

    def fits(self, kernel: Kernel) -> bool:
        """True if `max_degree` suffices for the kernel's matrix."""
        return (
            self._coefficients(kernel, (), self.max_degree, _TOLERANCE)[0].shape[0] - 1
            <= self.max_degree
        )

    def longest(self, kernel: Kernel, unit: float) -> float:
        """The longest lengthscale of the kernel that `fits`, in a search whose lengthscales have
        this unit.
        """
        key = kernel.replace(lengthscale=unit)
        if key not in self._longest:
            self._longest[key] = longest_lengthscale(kernel, self.fits, unit)
        return self._longest[key]

    def lost(self, kernel: Kernel) -> float:
        """Error of the matrix because its series is cut at `max_degree`, relative to the kernel's
        norm.
        """
        scale = self._scale
        return chebyshev_coefficients(
            lambda gap: kernel.spectrum(scale * gap, scale),
            self._width,
            tol=_TOLERANCE,
            max_degree=self.max_degree,
        )[1]

    def __call__(self, kernel: Kernel, names: Sequence[str]) -> tuple[np.ndarray, list[np.ndarray]]:
        matrices = self._summed([self._trusted(kernel, names)])
        return matrices[0], list(matrices[1:])

    def many(self, kernels: Sequence[Kernel]) -> np.ndarray:
        """The matrices of several kernels, shape (kernels, m, m): all by one product with the
        table.
        """
        return self._summed([self._trusted(kernel, ()) for kernel in kernels])

    def _trusted(self, kernel: Kernel, names: Sequence[str]) -> np.ndarray:
        """The coefficients that are summed, once the table has those that matter."""
        coefficients, largest = self._coefficients(kernel, names, self.max_degree, _SUMMED)
        coefficients = coefficients[: self.max_degree + 1]
        self._grow(
            1
            + int(
                np.flatnonzero(np.abs(coefficients[:, 0]) > _TOLERANCE * largest[0]).max(initial=0)
            )
        )
        return coefficients[: len(self._chunks) * _TABLE_CHUNK]

    def _summed(self, columns: Sequence[np.ndarray]) -> np.ndarray:
        """The sums over the table of all columns of coefficients."""
        degrees = max(each.shape[0] for each in columns)
        padded = [np.pad(each, ((0, degrees - each.shape[0]), (0, 0))) for each in columns]
        coefficients = np.hstack(padded)
        packed = np.zeros((coefficients.shape[1], self._triangle[0].size))
        for start, chunk in zip(range(0, degrees, _TABLE_CHUNK), self._chunks, strict=False):
            part = coefficients[start : start + _TABLE_CHUNK]
            packed += part.T @ chunk[: part.shape[0]]
        return np.array([self._unpacked(values) for values in packed])

    def _coefficients(
        self, kernel: Kernel, names: Sequence[str], most: int, tol: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Chebyshev coefficients of g and derivatives, (degree + 1, 1 + len(names)), and largest
        values.

        Above the degree `most` coefficients may be wrong, but there are more than `most` + 1 then.
        """
        scale = self._scale

        def values(gap: np.ndarray) -> np.ndarray:
            slopes = spectral_derivatives(kernel, names, 1 - gap, scale)
            return np.column_stack([kernel.spectrum(scale * gap, scale), slopes])

        # Derivatives do not decide the degree. It is about that of the lengthscale before.
        result = chebyshev_columns(
            values, self._width, tol=tol, max_degree=most, expected=self._degree
        )
        self._degree = result[0].shape[0] - 1
        return result

    def _start(self, n_degrees: int) -> None:
        """Start a table on the part of the graph that so many degrees reach.

        A closed walk from S that leaves the nodes within h steps of S has 2 h + 2 steps at least.
        """
        self._chunks: list[np.ndarray] = []
        self._terms: list[tuple[np.ndarray, np.ndarray, int, int]] = []
        n_nodes = self._graph.n_nodes

        doubled, self._width = doubled_matrix(self._graph, self._laplacian)
        part = neighbourhood(self._graph, self.nodes, n_degrees // 2 + 1, n_nodes // 2)
        if part.size < n_nodes // 2:
            part.sort()
            self._doubled = sp.csr_array(doubled[part][:, part])
            self._rows = np.searchsorted(part, self.nodes)
            self._reach = n_degrees
        else:
            self._doubled, self._rows, self._reach = doubled, self.nodes, sys.maxsize

        self._doubled, place = renumbered_matrix(self._doubled)
        self._rows = place[self._rows]
        self._columns = np.argsort(self._rows, kind="stable")  # those of a block near each other
        self._require(2 * self._doubled.shape[0] * self.nodes.size)
        self._bounds = reached_rows(self._doubled)

    def _grow(self, size: int) -> None:
        """Have at least `size` degrees in the table."""
        if size > self._reach:
            self._start(max(size, 2 * self._reach))
        while len(self._chunks) * _TABLE_CHUNK < size:
            first = len(self._chunks) * _TABLE_CHUNK
            self._require(2 * _TABLE_CHUNK * self.nodes.size**2)
            chunk = np.empty((_TABLE_CHUNK, self.nodes.size, self.nodes.size))
            blocks = range(0, self.nodes.size, _BLOCK_COLUMNS)

            def fill(
                start: int, first: int = first, chunk: np.ndarray = chunk
            ) -> tuple[np.ndarray, np.ndarray, int, int]:
                columns = self._columns[start : start + _BLOCK_COLUMNS]
                if first:
                    before, now, low, high = self._terms[start // _BLOCK_COLUMNS]
                else:
                    rows = self._rows[columns]
                    low, high = int(rows.min()), int(rows.max()) + 1
                    before, now = (np.zeros((self._doubled.shape[0], rows.size)) for _ in range(2))
                    now[rows, np.arange(rows.size)] = 1.0

                with RecurrenceSteps(
                    self._doubled, now.shape[1], 1
                ) as steps:  # blocks are on threads of their own
                    for k in range(first, first + _TABLE_CHUNK):
                        chunk[k - first][:, columns] = now[self._rows]
                        low, high = (
                            min(low, int(self._bounds[0][low])),
                            max(high, int(self._bounds[1][high - 1])),
                        )
                        steps.step(1.0 if k else 0.5, now, -1.0, before, rows=(low, high))
                        before, now = now, before
                return before, now, low, high

            work = self._doubled.nnz * self.nodes.size * _TABLE_CHUNK
            self._terms = list(
                ordered_map(fill, blocks, self._threads if work > _WORTH_POOL else 1)
            )

            self._chunks.append(np.ascontiguousarray(chunk[:, *self._triangle]))

    def _require(self, numbers: int) -> None:
        require_memory(
            8.0 * numbers,
            f"training among {self.nodes.size} of {self._graph.n_nodes} nodes by the series",
            "set a smaller `max_train`, fix the hyperparameters (optimize=False), or on roads and "
            "meshes pass method='precision'",
        )

    def _unpacked(self, values: np.ndarray) -> np.ndarray:
        matrix = np.empty((self.nodes.size, self.nodes.size))
        matrix[self._triangle] = values
        matrix.T[self._triangle] = values
        return matrix


class PrecisionGram:
    """The exact K[S, S] of kernels with a sparse inverse, by one sparse factor for each kernel."""

    def __init__(self, precision: KernelPrecision, nodes: np.ndarray) -> None:
        self._precision = precision
        self._nodes = nodes

    def __call__(self, kernel: Kernel, names: Sequence[str]) -> tuple[np.ndarray, list[np.ndarray]]:
        precision = self._precision.with_kernel(kernel)
        factor = precision.factor()
        if not names:
            return factor.inverse_between(self._nodes), []
        columns = factor.solve(units(precision.n_nodes, self._nodes))
        matrix = columns[self._nodes]
        slopes = [
            -(columns.T @ (precision.derivative(name) @ columns)) for name in names
        ]  # dK = -K dQ K
        return 0.5 * (matrix + matrix.T), [0.5 * (slope + slope.T) for slope in slopes]

    def many(self, kernels: Sequence[Kernel]) -> np.ndarray:
        """The matrices of several kernels, shape (kernels, m, m)."""
        return np.array([self(kernel, ())[0] for kernel in kernels])


class SampledGram:
    """F F^T of sampled rows, and dF F^T + F dF^T, by `RowPairs`: nothing costs the graph's size."""

    def __init__(self, factor: FeatureFactor, scale: float) -> None:
        self._factor = factor
        self._scale = scale

    def __call__(self, kernel: Kernel, names: Sequence[str]) -> tuple[np.ndarray, list[np.ndarray]]:
        n = self._factor.max_length + 1
        slopes = list(jacobian_columns(kernel, names, n, self._scale).T) if names else []
        return self._pairs(kernel.modulation(n, self._scale), slopes)

    def many(self, kernels: Sequence[Kernel]) -> np.ndarray:
        """The matrices of several kernels, shape (kernels, m, m)."""
        return np.array([self(kernel, ())[0] for kernel in kernels])

    @cached_property
    def _pairs(self) -> RowPairs:
        return self._factor.pairs()
