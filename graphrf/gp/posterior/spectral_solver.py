"""Conjugate gradients for the exact series, preconditioned by a function of the graph's
Laplacian.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel
from graphrf.operators.pathwise import FeatureRows
from graphrf.operators.series.spectral_filter import SpectralFilter
from graphrf.operators.solvers import ConjugateGradients, Solution, columns_near_one

# The filter's error, relative to its smallest value.
_FILTER_TOLERANCE = 0.3
# The smallest residuals, relative to their right-hand sides, that solves in double and single
# precision aim at: below them there is rounding alone, or steps gain too little.
_ROUNDING, _SINGLE = 1e-13, 1e-6
# Nodes are observed evenly where their density, seen through the kernel, stays within this factor
# of its mean.
_UNEVEN = 4.0
# Solves from the last residual, each with the full tolerance of one solve.
_REFINEMENTS = 12
# Fraction of a residual that rough products may leave, and that after which exact products replace
# them. Largest rounding to single precision relative to the filter's smallest value: above it
# solves gain little.
_ROUGH, _TOO_ROUGH = 0.02, 0.3
_ROUNDED = 1e-4

Product = Callable[[np.ndarray], np.ndarray]


class _System(NamedTuple):
    """The products R, R^T and B of the system on all nodes, and its diagonal D, (m, 1)."""

    apply: Product
    apply_t: Product
    filter: Product
    diagonal: np.ndarray


class SpectralCG:
    """A^-1 b for A = R R^T + D, by conjugate gradients on all N nodes of the graph instead of the m
    observed.

    See [linear systems](../theory/gaussian_processes.md#linear-systems); g = B h with the filter B
    = (I + rho K)^{-1/2}. A step costs two products with R and two with B. Every solution is checked
    by its true residual in A, and solved again until that is below `tol` |b|: steps may use
    `rough`, from a tolerance to a product with the kernel's root of that operator-norm error, of
    which c / sqrt(rho) leaves about c of the residual.
    """

    name = "cg"

    def __init__(
        self,
        graph: Graph,
        kernel: Kernel,
        amplitude: float,
        rows: FeatureRows,
        diagonal: np.ndarray,
        nodes: np.ndarray,
        *,
        rough: Callable[[float], Product] | None = None,
        step: Callable[[], object] | None = None,
        tol: float,
        max_iterations: int,
        n_threads: int | None = None,
    ) -> None:
        self._rows = rows
        self._step = step
        self._diagonal = diagonal[:, None]
        self.tol = tol
        self._max_iterations = max_iterations
        scale = graph.laplacian_scale(kernel.laplacian)
        density = amplitude * float((1 / diagonal).sum()) / graph.n_nodes

        def function(eigenvalues: np.ndarray) -> np.ndarray:
            return 1 / np.sqrt(1 + density * kernel.spectrum(eigenvalues, scale))

        ends = function(np.array([0.0, 2 * scale]))
        self._extended = float(ends.max() / ends.min()) ** 2
        self._filter = SpectralFilter(
            graph,
            kernel.laplacian,
            function,
            tol=max(_FILTER_TOLERANCE * float(ends.min() / ends.max()), 1e-12),
            n_threads=n_threads,
        )
        self._systems = [_System(rows.apply, rows.apply_t, self._filter, self._diagonal)]
        # D w = b - R g is the small difference of large numbers where the noise is small.
        largest = (
            amplitude
            * float(kernel.spectrum(np.array([0.0, 2 * scale]), scale).max())
            / diagonal.min()
        )
        serves = (
            self._filter.single_rounding <= _ROUNDED * float(ends.min())
            and 0.5 * np.finfo(np.float32).eps * largest <= _ROUGH
        )
        if rough is not None and serves:
            # In units in which D is near 1, so that nothing leaves single precision.
            unit = float(diagonal.mean())
            root, factor = rough(_ROUGH / density**0.5), np.float32((amplitude / unit) ** 0.5)
            n_nodes = graph.n_nodes

            def apply(x: np.ndarray) -> np.ndarray:
                return np.asarray(factor * root(x)[nodes], dtype=np.float32)

            def apply_t(y: np.ndarray) -> np.ndarray:
                extended = np.zeros((n_nodes, y.shape[1]), dtype=np.float32)
                extended[nodes] = factor * y
                return np.asarray(root(extended), dtype=np.float32)

            single_diagonal = (self._diagonal / unit).astype(np.float32)
            self._systems.append(_System(apply, apply_t, self._filter.single(), single_diagonal))

    def product(self, x: np.ndarray) -> np.ndarray:
        """A x for x of shape (m, p)."""
        return np.asarray(self._rows.apply(self._rows.apply_t(x)) + self._diagonal * x)

    def solve(self, rhs: np.ndarray) -> Solution:
        """A^-1 b for b of shape (m,) or (m, p)."""
        return self.solve_to(rhs, self.tol)

    def solve_to(self, rhs: np.ndarray, tol: float) -> Solution:
        """A^-1 b with a tolerance of its own."""
        b, exponents = columns_near_one(rhs)
        norm = np.linalg.norm(b, axis=0)
        norm[norm == 0] = 1.0
        x, residual, done = np.zeros_like(b), b, 0
        left = float((np.linalg.norm(b, axis=0) / norm).max())
        systems = list(self._systems)

        # Factor by which a residual of h's system is larger in A's, relative to its right-hand
        # side: at most 1 + rho K, mostly about the root of that. Each solve improves the estimate.
        growth = self._extended**0.5

        for _ in range(_REFINEMENTS):
            rough = len(systems) > 1
            inner = float(
                np.clip(tol / (max(left, tol) * growth), _SINGLE if rough else _ROUNDING, 0.5)
            )
            step, n = self._solved_on_all_nodes(
                systems[-1], residual, inner, self._max_iterations - done
            )
            done += n

            after = residual - self.product(step)
            reached = float((np.linalg.norm(after, axis=0) / norm).max())
            growth = max(growth, 2 * reached / (max(left, tol) * inner))
            if rough and not reached <= _TOO_ROUGH * left:
                systems.pop()
                # the estimate from rough products does not hold for exact ones
                growth = self._extended**0.5

            if reached < left:
                x, residual, left = x + step, after, reached
            if left <= tol or done >= self._max_iterations or inner == _ROUNDING:
                break

        return Solution(np.ldexp(x, exponents).reshape(rhs.shape), left <= tol, done, left)

    def _solved_on_all_nodes(
        self, system: _System, b: np.ndarray, tol: float, most: int
    ) -> tuple[np.ndarray, int]:
        """An approximate A^-1 b from the system on all nodes, and the steps that it took."""
        diagonal = system.diagonal
        size = np.linalg.norm(b, axis=0)
        size[size == 0] = 1.0
        scaled: np.ndarray = (b / size).astype(diagonal.dtype)

        def product(h: np.ndarray) -> np.ndarray:
            if self._step is not None:
                self._step()
            g = system.filter(h)
            g += system.apply_t(system.apply(g) / diagonal)
            return system.filter(g)

        right = system.filter(system.apply_t(scaled / diagonal))
        solver = ConjugateGradients(product, lambda r: r.copy(), tol=tol, max_iterations=most)
        solution = solver.solve(right)
        g = system.filter(solution.value)
        return (scaled - system.apply(g)).astype(
            np.float64
        ) / self._diagonal * size, solution.iterations


def evenly_observed(
    smooth: Callable[[np.ndarray], np.ndarray], observed: np.ndarray, n_nodes: int
) -> bool:
    """True if the density of observed nodes, smoothed by the kernel, is even; `smooth` is a product
    with K.
    """
    mask = np.zeros(n_nodes)
    mask[observed] = 1.0
    both = smooth(np.column_stack([mask, np.ones(n_nodes)]))
    density = both[:, 0] / np.maximum(both[:, 1], np.finfo(np.float64).tiny)
    mean = observed.size / n_nodes
    return bool(density.min() >= mean / _UNEVEN and density.max() <= mean * _UNEVEN)
