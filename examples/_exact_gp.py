"""The exact Gaussian process on a small graph, by all eigenpairs: the papers' reference.

    y = c + f(node) + noise, with f ~ N(0, sigma^2 K / k_bar), K = U g(Lambda) U^T,
    k_bar = trace(K) / N

With A = sigma^2 K / k_bar + s I over all nodes and M = A^-1, values at the unobserved nodes u given
those at the observed ones have the covariance M_uu^-1. So nothing larger than M_uu is factored, and
no large numbers are subtracted. Decomposing the Laplacian takes about 10 N^3 operations, a step of
the search N |u|^2.

Source: Rasmussen and Williams 2006, "Gaussian Processes for Machine Learning", Eqs. 2.23, 2.24 and
2.30.
"""

from __future__ import annotations

import itertools
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import minimize

import graphrf as grf
from graphrf.kernels.lengthscales import lengthscale_unit

# Ranges and first values: of lengthscales in the unit of the graph, of variances in that of y.
_RANGES = {"lengthscale": (0.1, 100.0), "output_scale": (1e-3, 1e3), "noise": (1e-6, 10.0)}
_STARTS = {
    "lengthscale": np.geomspace(0.5, 50.0, 9),
    "output_scale": [1.0],
    "noise": [1e-3, 0.03, 0.3],
}


class ExactGP:
    """Regression with a dense kernel matrix; `known` hyperparameters are not trained.

    The others (of lengthscale, output_scale, noise) have the largest marginal likelihood: the best
    of a grid, then the simplex method. Several outputs share all but their mean, which is 0 or the
    least-squares estimate.
    """

    def __init__(
        self,
        graph: grf.Graph,
        kernel: grf.kernels.Kernel | None = None,
        *,
        mean: str = "constant",
        **known: float,
    ) -> None:
        self.graph, self.mean, self.known = graph, mean, known
        self.kernel = kernel if kernel is not None else grf.Diffusion(1.0)

    @cached_property
    def _eigen(self) -> tuple[np.ndarray, np.ndarray]:
        laplacian = self.graph.laplacian(self.kernel.laplacian == "normalized").toarray()
        values, vectors = np.linalg.eigh(laplacian)
        return np.maximum(values, 0.0), vectors

    def fit(self, nodes: np.ndarray, y: np.ndarray) -> ExactGP:
        """Train, and condition on y, shape (n,) or (n, p)."""
        self._y = y.reshape(len(y), -1)
        self._single = y.ndim == 1
        self._unobserved = self._eigen[1][np.setdiff1d(np.arange(self.graph.n_nodes), nodes)]
        self._sides = self._eigen[1][nodes].T @ np.column_stack([np.ones(len(y)), self._y])
        centre = self._y.mean(axis=0) if self.mean == "constant" else 0.0
        variance = float(np.square(self._y - centre).mean())
        length = lengthscale_unit(self.graph, self.kernel.laplacian)
        units = {"lengthscale": length, "output_scale": variance, "noise": variance}
        names = [name for name in units if name not in self.known]
        best = self._best(names, units) if names else []
        self._condition(self.known | dict(zip(names, best, strict=True)))
        return self

    def _best(self, names: list[str], units: dict[str, float]) -> list[float]:
        """The most likely values of some hyperparameters."""
        ranges = np.log([np.multiply(_RANGES[name], units[name]) for name in names])

        def negative(logarithms: np.ndarray) -> float:
            values = np.exp(np.clip(logarithms, *ranges.T))
            try:
                self._condition(self.known | dict(zip(names, values.tolist(), strict=True)))
            except np.linalg.LinAlgError:
                return np.inf
            return -self.log_marginal_likelihood_

        grid = itertools.product(*(np.multiply(_STARTS[name], units[name]) for name in names))
        start = min((np.log(point) for point in grid), key=negative)
        simplex = np.vstack(
            [start, start + np.diag(np.where(start + 0.25 <= ranges[:, 1], 0.25, -0.25))]
        )
        options = {"initial_simplex": simplex, "xatol": 1e-4, "fatol": 1e-6, "maxfev": 400}
        found = minimize(negative, start, method="Nelder-Mead", bounds=ranges, options=options).x
        return [float(value) for value in np.exp(found)]

    def _condition(self, values: dict[str, float]) -> None:
        """The likelihood and what predictions need, for known hyperparameters."""
        kernel = self.kernel
        if "lengthscale" in values:
            kernel = kernel.replace(lengthscale=values["lengthscale"])
        self.kernel_, self.output_scale_, self.noise_ = (
            kernel,
            values["output_scale"],
            values["noise"],
        )
        spectrum = kernel.spectrum(self._eigen[0], kernel.check_graph(self.graph))
        self.mean_variance_ = float(spectrum.mean())
        prior = self.output_scale_ / self.mean_variance_ * spectrum
        inverse = 1.0 / (prior + self.noise_)
        self._weights = prior * inverse
        self._root = np.linalg.cholesky((self._unobserved * inverse) @ self._unobserved.T)
        scaled = self._sides * inverse[:, None]
        self._half = np.linalg.solve(self._root, self._unobserved @ scaled)
        products = self._sides.T @ scaled - self._half.T @ self._half  # [1, y]^T A_oo^-1 [1, y]
        n, p = self._y.shape
        self._constant = (
            products[0, 1:] / products[0, 0] if self.mean == "constant" else np.zeros(p)
        )
        squares = np.diagonal(products)[1:] - 2 * self._constant * products[0, 1:]
        squares = squares + self._constant**2 * products[0, 0]
        log_determinant = 2 * np.log(np.diagonal(self._root)).sum() - np.log(inverse).sum()
        normaliser = p * (log_determinant + n * np.log(2 * np.pi))
        self.log_marginal_likelihood_ = -0.5 * float(squares.sum() + normaliser)
        self.mean_ = float(self._constant[0]) if self._single else self._constant

    def predict(
        self, nodes: Any = slice(None), return_std: bool = False, return_cov: bool = False
    ) -> Any:
        """The mean of f + c, and standard deviations or the covariance, which all outputs share."""
        rows = self._eigen[1][nodes]
        sides = self._sides[:, 1:] - self._sides[:, :1] * self._constant
        half = self._half[:, 1:] - self._half[:, :1] * self._constant
        missing = -np.linalg.solve(self._root.T, half)  # the means of y - c at the unobserved nodes
        mean = self._constant + (rows * self._weights) @ (sides + self._unobserved.T @ missing)
        mean = mean[:, 0] if self._single else mean
        known = self._weights * self.noise_  # the variances of f where all nodes are observed
        reduction = np.linalg.solve(self._root, (self._unobserved * self._weights) @ rows.T)
        if return_cov:
            return mean, (rows * known) @ rows.T + reduction.T @ reduction
        if not return_std:
            return mean
        std = np.sqrt(np.square(rows) @ known + np.square(reduction).sum(axis=0))
        return mean, std if self._single else np.repeat(std[:, None], mean.shape[1], axis=1)
