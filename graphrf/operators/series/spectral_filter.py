r"""Products with any smooth function of a graph's Laplacian, prepared once for many vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphrf._base import checks
from graphrf.graph.graph import LAPLACIANS, Graph
from graphrf.kernels.chebyshev import Function, chebyshev_coefficients
from graphrf.operators.series.chebyshev_sums import ChebyshevSum, single_rounding
from graphrf.operators.series.walk_operator import doubled_matrix


class SpectralFilter:
    """h(L) v for a function h of the Laplacian's eigenvalues, by a Chebyshev series; internal.

    For preconditioners such as h = 1 / (s + rho g) that are applied many times: the coefficients
    and the matrix are made once. `function` maps eigenvalues of L, float64 of shape (m,), in [0, 2]
    or [0, 2 max degree], to finite values of that shape; `tol`, `max_degree` and `n_threads` as in
    `apply_kernel`.

    Examples
    --------
    >>> import numpy as np, graphrf as grf
    >>> pair = grf.from_edges([0], [1])
    >>> inverse = SpectralFilter(pair, "normalized", lambda eigenvalues: 1 / (1 + eigenvalues))
    >>> np.allclose(inverse(np.array([4.0, -2.0])), [2.0, 0.0])
    True
    """

    def __init__(
        self,
        graph: Graph,
        laplacian: str,
        function: Function,
        *,
        tol: float = 1e-10,
        max_degree: int = 20_000,
        n_threads: int | None = None,
    ) -> None:
        doubled, width = doubled_matrix(graph, checks.choice("laplacian", laplacian, LAPLACIANS))
        scale = graph.laplacian_scale(laplacian)
        tol = checks.number("tol", tol, low=1e-14, high=1, include_high=False)
        max_degree = checks.integer("max_degree", max_degree, low=1)

        def of_gap(gap: np.ndarray) -> np.ndarray:
            values = np.asarray(function(scale * gap), dtype=np.float64)
            if values.shape != gap.shape:
                raise checks.value_error(
                    "function",
                    f"must give values of shape {gap.shape}, got {checks.describe(values)}",
                )
            return checks.finite("function", values)

        coefficients, reached = chebyshev_coefficients(
            of_gap, width, tol=tol, max_degree=max_degree
        )
        if coefficients is None:
            raise checks.value_error(
                "tol",
                f"= {tol:g} needs more than max_degree = {max_degree} products, which reach "
                f"{reached:.1g}: raise `tol` or `max_degree`",
            )
        self._expansion = ChebyshevSum(doubled, coefficients, n_threads)
        self._graph = graph

    def __call__(self, v: np.ndarray) -> np.ndarray:
        """h(L) v for v of shape (N,) or (N, p); float64 of that shape."""
        v = np.asarray(v, dtype=np.float64)
        n = self._graph.n_nodes
        if v.ndim not in (1, 2) or v.shape[0] != n:
            raise checks.value_error("v", f"must have shape ({n},) or ({n}, p), got {v.shape}")
        return self._expansion(v)

    def single(self) -> Callable[[np.ndarray], np.ndarray]:
        """The same in single precision: from blocks (N, p) to such blocks, both float32."""
        return self._expansion.single()

    @property
    def single_rounding(self) -> float:
        """About the most that single precision changes, in operator norm."""
        return single_rounding(self._expansion.coefficients)

    def block(self, rows: Any = None, cols: Any = None) -> np.ndarray:
        """The entries h(L)[rows, cols], dense, for nodes (default all), as `kernel_block`."""
        return self._expansion.block(self._graph.positions(rows), self._graph.positions(cols))
