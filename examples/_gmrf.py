"""A Matern Gaussian Markov random field by sparse LU: what a user of scipy would take instead of features."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.sparse.linalg import splu

import graphrf as grf

NUS = (1, 2)
# Beyond, the square of 2 nu / l^2 I + L is singular to rounding.
_LONGEST = 1e3


class MaternGMRF:
    r"""The Gaussian process of covariance s K, K = (2 nu / l^2 I + L)^-nu, through its sparse precision.

    For y = c + f + noise observed on n nodes, and r = noise / s, with Q = K^-1 and the diagonal indicator B of the
    observed nodes,

        log |K_SS + r I| = log |Q + B / r| - log |Q| + n log r,
        y^T (K_SS + r I)^-1 y = (y^T y - y^T (Q + B / r)^-1 y / r) / r,

    so one sparse LU of Q + B / r and one of (2 nu / l^2 I + L) give the likelihood, in which the best s is known:
    l and r are sought by the simplex method, for nu = 1 and 2, and the better nu is taken.

    Parameters
    ----------
    graph : graphrf.Graph
    mean : "constant" or "zero"
    laplacian : "normalized" or "combinatorial"
    """

    def __init__(self, graph: grf.Graph, mean: str = "zero", laplacian: str = "normalized") -> None:
        self.graph = graph
        self.mean = mean
        self.laplacian = sp.csc_array(graph.laplacian(laplacian == "normalized"))
        self.scale = graph.laplacian_scale(laplacian)
        self.eye = sp.eye_array(graph.n_nodes, format="csc")

    def fit(self, nodes: np.ndarray, y: np.ndarray) -> MaternGMRF:
        """Distinct nodes, shape (n,), and values, shape (n,) or (n, p); outputs share all but the mean."""
        self._nodes = nodes
        self._y = y.reshape(nodes.size, -1)
        found = []
        for nu in NUS:
            # Far below K's smallest eigenvalue the formula for y^T (K_SS + r I)^-1 y loses its digits.
            least = np.log(1e-8) - nu * np.log(self.scale)

            def objective(point: np.ndarray, nu: int = nu) -> float:
                return -self._profile(nu, *np.exp(point))[0]

            starts = itertools.product(np.log([1.0, 4.0, 16.0, 64.0]), np.log([1e-3, 1e-1]))
            # r and s are confounded with l through the size of K, about (2 nu / l^2)^-nu.
            points = [np.array([a, b + 2 * nu * (a - 0.5 * np.log(2 * nu))]) for a, b in starts]
            best = minimize(
                objective, min(points, key=objective), method="Nelder-Mead",
                bounds=[(np.log(0.1), np.log(_LONGEST)), (least, 40.0)],
                options={"xatol": 1e-2, "fatol": 1e-3, "maxfev": 100},
            )  # fmt: skip
            found.append((-best.fun, nu, *np.exp(best.x)))
        self.log_marginal_likelihood_, self.nu_, self.lengthscale_, ratio = max(found)
        _, self.output_scale_, self._factor, self._constant = self._profile(self.nu_, self.lengthscale_, ratio)
        self.noise_ = ratio * self.output_scale_
        self._ratio = ratio
        return self

    def predict(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean (q,) or (q, p) and covariance (q, q) of the noise-free function."""
        whole = np.zeros((self.graph.n_nodes, self._y.shape[1]))
        whole[self._nodes] = (self._y - self._constant) / self._ratio
        mean = self._constant + self._factor.solve(whole)[nodes]
        units = np.zeros((self.graph.n_nodes, nodes.size))
        units[nodes, np.arange(nodes.size)] = 1.0
        covariance = self.output_scale_ * self._factor.solve(units)[nodes]
        return (mean[:, 0] if mean.shape[1] == 1 else mean), 0.5 * (covariance + covariance.T)

    def _profile(self, nu: int, lengthscale: float, ratio: float) -> tuple[float, float, Any, np.ndarray]:
        """The likelihood at its best output scale, that scale, the factor of Q + B / r, and the means."""
        n, p = self._y.shape
        base = sp.csc_array(2 * nu / lengthscale**2 * self.eye + self.laplacian)
        precision = base if nu == 1 else sp.csc_array(base @ base)
        observed = np.zeros(self.graph.n_nodes)
        observed[self._nodes] = 1 / ratio
        try:
            factor = _lu(sp.csc_array(precision + sp.diags_array(observed)))
            log_determinant = _log_determinant(factor) - nu * _log_determinant(_lu(base)) + n * np.log(ratio)
        except RuntimeError:  # exactly singular
            return -np.inf, np.nan, None, np.zeros(p)
        sides = np.zeros((self.graph.n_nodes, p + 1))
        sides[self._nodes, 0] = 1.0
        sides[self._nodes, 1:] = self._y
        solved = (sides - factor.solve(sides) / ratio)[self._nodes] / ratio  # (K_SS + r I)^-1 of the sides
        constant = np.zeros(p)
        if self.mean == "constant":
            constant = solved[:, 0] @ self._y / solved[:, 0].sum()
        residual = self._y - constant
        scale = float(np.vdot(residual, solved[:, 1:] - solved[:, :1] * constant)) / (n * p)
        if not scale > 0:  # lost to rounding: far from any optimum
            return -np.inf, np.nan, None, constant
        value = -0.5 * (n * p * (np.log(2 * np.pi * scale) + 1) + p * log_determinant)
        return float(value), scale, factor, constant


def _lu(matrix: sp.csc_array) -> Any:
    return splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})


def _log_determinant(factor: Any) -> float:
    return float(np.log(np.abs(factor.U.diagonal())).sum())
