"""The exact Gaussian process, with dense matrices: the reference for all that is approximate."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from graphrf._base import checks, html
from graphrf._base.cached import cached_property
from graphrf._base.memory import require_memory
from graphrf.gp.hyperparameters.parameters import NOISES, OUTPUT_SCALES, hyperparameter_range
from graphrf.gp.model.answers import deviations_like, refuse_both
from graphrf.gp.model.settings import KERNELS, checked_targets
from graphrf.gp.posterior.rounding import positive_semidefinite
from graphrf.graph.graph import Graph, given_nodes, require_graph
from graphrf.kernels.kernel import Kernel, cleaned_eigenvalues, require_kernel
from graphrf.kernels.lengthscales import LENGTHSCALES, lengthscale_unit

LARGEST_EXACT = 12_000

# Smoothness is a choice, not trained: data hardly distinguish it from the lengthscale.
_TRAINED = ("lengthscale", "alpha")


class ExactGraphGP:
    r"""Gaussian-process regression on a graph with the dense kernel matrix, without approximation.

    .. math:: y = c + f(\mathrm{node}) + \varepsilon, \quad f \sim N(0, \sigma^2 K / \bar k), \quad
              \varepsilon \sim N(0, s), \quad K = U g(\Lambda) U^\top,

    the model of `GraphGPRegressor`: k_bar = trace(K) / N with `normalize=True`, else 1; c constant, or 0. The
    Laplacian U Lambda U^T is decomposed once, on the first fit: refits, on other observations too, reuse it.

    Parameters
    ----------
    graph : Graph
        Undirected, N nodes, at most 12,000.
    kernel : Kernel or {"diffusion", "matern", "regularized_laplacian"}
        The first guess of the kernel, or the kernel itself with `optimize=False`.
    normalize : bool
        Whether K is divided by its mean variance over all nodes.
    mean : {"constant", "zero"}
        The constant is the generalised least-squares estimate of each output, taken as known afterwards.
    output_scale, noise : float, optional
        Fixed variances; None trains them.
    optimize : bool
        Whether the kernel's lengthscale (or alpha) is trained; smoothness never is.

    Attributes
    ----------
    kernel_ : Kernel
    output_scale_, noise_ : float
        Variances.
    mean_ : float, or ndarray of shape (p,) for several outputs
    mean_variance_ : float
        The mean variance k_bar, or 1 with `normalize=False`.
    log_marginal_likelihood_ : float
        Log marginal likelihood of all observations, summed over outputs.

    Notes
    -----
    Time: about 10 N^3 operations for the decomposition. Each step of the search costs N m^2 + m^3 / 3
    multiply-adds for m observed nodes; where fewer nodes, u, are unobserved and none is observed twice only N u^2,
    by inverting all of A = sigma^2 K / k_bar + s I and removing the unobserved nodes:
    |A_SS| = |A| |M_UU| with M = A^-1, and so on.

    The search takes the best of a grid of lengthscales and noises and goes on by the simplex method of Nelder and
    Mead, so it needs no derivatives. Memory: some 4 N^2 numbers of 8 bytes at the peak of the decomposition, N^2
    and m N after.

    Source: Rasmussen and Williams 2006, "Gaussian Processes for Machine Learning", Eqs. 2.23, 2.24 and 2.30.

    Examples
    --------
    >>> import numpy as np, graphrf as grf
    >>> graph = grf.datasets.load("karate").graph
    >>> gp = grf.gp.ExactGraphGP(graph, kernel=grf.Diffusion(2.0), optimize=False, output_scale=1.0, noise=0.01)
    >>> mean, std = gp.fit([0, 33], [1.0, -1.0]).predict([1, 32], return_std=True)
    >>> bool(mean[0] > 0 > mean[1])
    True
    """

    mean_: float | np.ndarray

    def __init__(
        self,
        graph: Graph,
        *,
        kernel: Kernel | str = "diffusion",
        normalize: bool = True,
        mean: str = "constant",
        output_scale: float | None = None,
        noise: float | None = None,
        optimize: bool = True,
    ) -> None:
        require_graph(graph).require_undirected("a Gaussian process on its nodes")
        if graph.n_nodes > LARGEST_EXACT:
            raise checks.value_error(
                "graph",
                f"must have at most {LARGEST_EXACT} nodes for dense matrices, got {graph.n_nodes} (the "
                f"decomposition would need {32 * graph.n_nodes**2 / 2**30:.0f} GiB); GraphGPRegressor has no such "
                "limit",
            )
        if isinstance(kernel, str):
            kernel = KERNELS[checks.choice("kernel", kernel, KERNELS)]()
        for name, value in (("output_scale", output_scale), ("noise", noise)):
            if value is not None:
                checks.number(name, value, low=0, include_low=False)
        self.graph = graph
        self.kernel: Kernel = require_kernel(kernel)
        self.normalize: bool = checks.flag("normalize", normalize)
        self.mean: str = checks.choice("mean", mean, ("constant", "zero"))
        self.output_scale = output_scale
        self.noise = noise
        self.optimize: bool = checks.flag("optimize", optimize)
        self._scale = self.kernel.check_graph(graph)

    def fit(self, nodes: Any, y: Any) -> ExactGraphGP:
        """Train by maximum marginal likelihood, and condition on the observations.

        Parameters
        ----------
        nodes : nodes by position, shape (n,) or (n, 1), or by string name
            Repeats are repeated observations.
        y : array_like, shape (n,) or (n, p)
            Several outputs share all hyperparameters but the mean.

        Raises
        ------
        ValueError, TypeError
            For unknown nodes, y that is not finite or of the wrong length; if hyperparameters are trained and y is
            constant; if the covariance of the observations is numerically singular.
        """
        positions = given_nodes(self.graph, nodes)
        values, self._single = checked_targets(y, positions.size)
        self._observe(positions, values)
        self._search()
        return self

    def predict(self, nodes: Any = None, return_std: bool = False, return_cov: bool = False) -> Any:
        """The posterior mean, and on request standard deviations or the covariance of the noise-free function.

        Parameters
        ----------
        nodes : nodes, as in `fit`; default all
        return_std, return_cov : bool
            At most one of them.

        Returns
        -------
        mean : ndarray, shape (q,) or (q, p)
        std : ndarray, shape of `mean`; the same for all outputs
        cov : ndarray, shape (q, q); the same for all outputs
        """
        vectors = self._vectors()
        refuse_both(return_std, return_cov)
        rows = vectors[given_nodes(self.graph, nodes)]
        mean = self._constant + self._given.mean(rows, self._constant)
        if return_cov:
            return self._shaped(mean), self._given.covariance(rows)
        if not return_std:
            return self._shaped(mean)
        return self._shaped(mean), self._shaped(deviations_like(mean, self._given.variances(rows)))

    def prior_covariance(self, nodes: Any = None) -> np.ndarray:
        """The prior covariance output_scale_ K / mean_variance_ among nodes (default all), without noise."""
        rows = self._vectors()[given_nodes(self.graph, nodes)]
        return np.asarray((rows * self._values) @ rows.T)

    # -- as a Python object ------------------------------------------------------------------------

    def __repr__(self) -> str:
        if not hasattr(self, "_given"):
            return f"ExactGraphGP({self.graph!r}, {self.kernel!r}, not fitted)"
        return (
            f"ExactGraphGP({self.graph!r}, {self.kernel_!r}, output_scale={self.output_scale_:.4g}, "
            f"noise={self.noise_:.4g}, {self._counts.sum():.0f} observations)"
        )

    def _repr_html_(self) -> str:
        """A table for notebooks."""
        rows: list[tuple[str, Any]] = [("graph", self.graph), ("kernel", self.kernel), ("fitted", False)]
        if hasattr(self, "_given"):
            means = ", ".join(f"{mean:.4g}" for mean in self._constant)
            rows[1:] = [
                ("kernel", self.kernel_),
                ("output scale", self.output_scale_),
                ("noise", self.noise_),
                ("mean", means),
                ("log marginal likelihood", self.log_marginal_likelihood_),
                ("observations", f"{self._counts.sum():.0f} at {self._counts.size} nodes"),
            ]
        return html.table("ExactGraphGP", rows)

    # -- observations ------------------------------------------------------------------------------

    @cached_property
    def _eigen(self) -> tuple[np.ndarray, np.ndarray]:
        """The Laplacian's eigenvalues and eigenvectors."""
        require_memory(
            32 * self.graph.n_nodes**2,
            f"the eigendecomposition of a graph of {self.graph.n_nodes} nodes",
            "GraphGPRegressor needs none",
        )
        laplacian = self.kernel.laplacian
        eigenvalues, vectors = np.linalg.eigh(self.graph.laplacian(laplacian == "normalized").toarray())
        return cleaned_eigenvalues(eigenvalues, self.graph, laplacian), vectors

    def _observe(self, positions: np.ndarray, values: np.ndarray) -> None:
        """Join what was observed at one node: c values act as their mean with noise s / c."""
        distinct, inverse, counts = np.unique(positions, return_inverse=True, return_counts=True)
        self._counts = counts.astype(np.float64)
        self._y = np.zeros((distinct.size, values.shape[1]))
        np.add.at(self._y, inverse, values)
        self._y /= counts[:, None]
        self._within = float(np.square(values - self._y[inverse]).sum())
        centre = values.mean(axis=0) if self.mean == "constant" else 0.0
        self._unit = float(np.square(values - centre).mean())
        unobserved = np.setdiff1d(np.arange(self.graph.n_nodes), distinct)
        by_complement = unobserved.size < distinct.size and distinct.size == positions.size
        self._sides = np.hstack([np.ones((distinct.size, 1)), self._y])
        if by_complement:
            whole = np.zeros((self.graph.n_nodes, self._sides.shape[1]))
            whole[distinct] = self._sides
            self._sides = self._eigen[1].T @ whole
        self._rows = self._eigen[1][unobserved if by_complement else distinct]
        self._by_complement = by_complement

    def _conditioned(self, values: np.ndarray, noise: float) -> _Direct | _ByComplement:
        if self._by_complement:
            return _ByComplement(self._rows, values, noise, self._sides)
        return _Direct(self._rows, values, noise / self._counts, self._sides)

    # -- likelihood --------------------------------------------------------------------------------

    def _spectrum(self, kernel: Kernel, output_scale: float) -> tuple[np.ndarray, float]:
        """Eigenvalues of the prior covariance, and the mean variance that was divided by."""
        g = kernel.spectrum(self._eigen[0], self._scale)
        divisor = float(g.mean()) if self.normalize else 1.0
        return output_scale / divisor * g, divisor

    def _log_likelihood(self, kernel: Kernel, output_scale: float, noise: float) -> tuple[float, np.ndarray]:
        """The log marginal likelihood, summed over outputs, and the constant mean of each."""
        size, p = self._y.shape
        values, _ = self._spectrum(kernel, output_scale)
        given = self._conditioned(values, noise)
        products = given.products
        # products holds all of 1^T A^-1 1, 1^T A^-1 y and y^T A^-1 y.
        constant = products[0, 1:] / products[0, 0] if self.mean == "constant" else np.zeros(p)
        squares = np.diagonal(products)[1:] - 2 * constant * products[0, 1:] + constant**2 * products[0, 0]
        repeats = float(self._counts.sum()) - size
        value = -0.5 * (
            float(squares.sum())
            + p * given.log_determinant
            + p * size * np.log(2 * np.pi)
            + p * (repeats * np.log(2 * np.pi * noise) + np.log(self._counts).sum())
            + self._within / noise
        )
        return float(value), constant

    def _search(self) -> None:
        """Find the hyperparameters, and condition by them."""
        space = self._space()
        if space.starts and not self._unit > 1e-20 * float(np.abs(self._y).max()) ** 2:
            raise checks.value_error(
                "y",
                "must vary about its mean for hyperparameters to be learned; pass optimize=False, "
                "`output_scale` and `noise`",
            )
        best = self._best(space) if space.starts else np.zeros(0)
        self.kernel_, self.output_scale_, self.noise_ = space.model(best)
        try:
            self.log_marginal_likelihood_, self._constant = self._log_likelihood(*space.model(best))
        except np.linalg.LinAlgError:
            raise ValueError(
                "the covariance of the observations is numerically singular with these hyperparameters: raise "
                "`noise`"
            ) from None
        self._values, self.mean_variance_ = self._spectrum(self.kernel_, self.output_scale_)
        unscaled = self.kernel_.spectrum(self._eigen[0], self._scale)
        self.kernel_.warn_of_rounding(self.graph, self._eigen[0], unscaled)
        self._given = self._conditioned(self._values, self.noise_)
        self.mean_ = float(self._constant[0]) if self._single else self._constant

    def _space(self) -> _Space:
        """The trained hyperparameters: the kernel's lengthscale or alpha, and the variances that are not given.

        The grid of starts has lengthscales in the graph's unit, and noises in multiples of y's variance.
        """
        kernel, unit = self.kernel, lengthscale_unit(self.graph, self.kernel.laplacian)
        names = [name for name in kernel.hyperparameters if name in _TRAINED] if self.optimize else []
        ranges: list[tuple[float, float]] = []
        starts: list[list[float]] = []
        for name in names:
            ranges.append(hyperparameter_range(kernel, name, self._scale, LENGTHSCALES[1] * unit, unit))
            own = float(np.clip(kernel.hyperparameters[name], *ranges[-1]))
            starts.append([own, *(unit * np.geomspace(0.5, 50.0, 9) if name == "lengthscale" else ())])
        for given, (low, high), grid in (
            (self.output_scale, OUTPUT_SCALES, (1.0,)),
            (self.noise, NOISES, (1e-3, 0.03, 0.3)),
        ):
            if given is None:
                ranges.append((low * self._unit, high * self._unit))
                starts.append([factor * self._unit for factor in grid])
        return _Space(kernel, names, self.output_scale, self.noise, ranges, starts)

    def _best(self, space: _Space) -> np.ndarray:
        """The logarithms of the best hyperparameters: of a grid, and from there by the simplex method."""

        def objective(logarithms: np.ndarray) -> float:
            try:
                return -self._log_likelihood(*space.model(logarithms))[0]
            except np.linalg.LinAlgError:
                return np.inf

        best = min((np.log(point) for point in itertools.product(*space.starts)), key=objective)
        least, most = np.log(space.ranges).T
        # scipy's own first simplex is a share of the coordinates: another one for every unit of y
        inward = np.where(best + 0.25 <= most, 0.25, -0.25)
        found = minimize(
            objective, best, method="Nelder-Mead", bounds=list(zip(least, most, strict=True)),
            options={
                "initial_simplex": np.vstack([best, best + np.diag(inward)]),
                "xatol": 1e-4, "fatol": 1e-6, "maxfev": 400,
            },
        )  # fmt: skip
        return np.asarray(found.x)

    def _vectors(self) -> np.ndarray:
        if not hasattr(self, "_given"):
            raise ValueError("this ExactGraphGP is not fitted yet: call fit(nodes, y) first")
        return self._eigen[1]

    def _shaped(self, array: np.ndarray) -> np.ndarray:
        return array[:, 0] if self._single else array


class _Space(NamedTuple):
    """Hyperparameters that are trained, within ranges, from a grid of starts; the others as they are."""

    kernel: Kernel
    names: list[str]
    output_scale: float | None
    noise: float | None
    ranges: list[tuple[float, float]]
    starts: list[list[float]]

    def model(self, logarithms: np.ndarray) -> tuple[Kernel, float, float]:
        """Kernel, output scale and noise of the logarithms of what is trained."""
        numbers = list(np.clip(np.exp(logarithms), *np.transpose(self.ranges))) if self.starts else []
        kernel = self.kernel.replace(**{name: float(numbers.pop(0)) for name in self.names})
        output_scale = float(numbers.pop(0)) if self.output_scale is None else self.output_scale
        return kernel, output_scale, float(numbers.pop(0)) if self.noise is None else self.noise


# numpy alone does the linear algebra: where scipy's functions alternate with it, two pools of BLAS threads wait
# for each other, and matrices of a few hundred rows take ten times as long.


class _Direct:
    """The posterior by Cholesky of A = U_S g U_S^T + noise over the observed nodes.

    `products` are [1, y]^T A^-1 [1, y].
    """

    def __init__(self, rows: np.ndarray, values: np.ndarray, noise: np.ndarray, sides: np.ndarray) -> None:
        self._rows, self._values = rows, values
        a = (rows * values) @ rows.T
        a[np.diag_indices_from(a)] += noise
        self._root = np.linalg.cholesky(a)
        self.log_determinant = 2.0 * float(np.log(np.diagonal(self._root)).sum())
        half = np.linalg.solve(self._root, sides)
        self.products = half.T @ half
        self._half = half

    def mean(self, rows: np.ndarray, constant: np.ndarray) -> np.ndarray:
        residual = self._half[:, 1:] - self._half[:, :1] * constant
        return np.asarray(self._reduction(rows).T @ residual)

    def covariance(self, rows: np.ndarray) -> np.ndarray:
        reduction = self._reduction(rows)
        prior = (rows * self._values) @ rows.T
        prior = 0.5 * (prior + prior.T)
        return positive_semidefinite(prior - reduction.T @ reduction, prior)

    def variances(self, rows: np.ndarray) -> np.ndarray:
        prior = np.square(rows) @ self._values
        # rounding may leave a variance of 0 below it
        return np.asarray(np.maximum(prior - np.square(self._reduction(rows)).sum(axis=0), 0.0))

    def _reduction(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(np.linalg.solve(self._root, (self._rows * self._values) @ rows.T))


class _ByComplement:
    r"""The same where few nodes, U, are unobserved, and each other one is observed once.

    With M = (K + s I)^-1 over all nodes, which the eigenvectors give, y_U given y_S has covariance M_UU^-1 and
    mean -M_UU^-1 M_US y_S; and f given all of y has a covariance of eigenvalues g s / (g + s) and the mean K M y.
    The laws of total expectation and covariance join the two, without differences of large numbers:

    .. math:: \mathrm{cov}(f | y_S) = U \tfrac{g s}{g + s} U^\top + H M_{UU}^{-1} H^\top, \quad
              H = U \tfrac{g}{g + s} U_U^\top.

    `sides` are U^T [1, y], with zeros where nothing is observed.
    """

    def __init__(self, rows: np.ndarray, values: np.ndarray, noise: float, sides: np.ndarray) -> None:
        self._rows = rows
        self._noise = noise
        self._share = values / (values + noise)
        inverse = 1.0 / (values + noise)
        self._root = np.linalg.cholesky((rows * inverse) @ rows.T)
        self.log_determinant = float(2.0 * np.log(np.diagonal(self._root)).sum() - np.log(inverse).sum())
        scaled = sides * inverse[:, None]
        half = np.linalg.solve(self._root, rows @ scaled)
        self.products = sides.T @ scaled - half.T @ half
        self._sides, self._half = sides, half

    def mean(self, rows: np.ndarray, constant: np.ndarray) -> np.ndarray:
        sides = self._sides[:, 1:] - self._sides[:, :1] * constant
        half = self._half[:, 1:] - self._half[:, :1] * constant
        guess = -np.linalg.solve(self._root.T, half)  # of y at the unobserved nodes
        return np.asarray((rows * self._share) @ (sides + self._rows.T @ guess))

    def covariance(self, rows: np.ndarray) -> np.ndarray:
        spread = self._spread(rows)
        return np.asarray((rows * (self._share * self._noise)) @ rows.T + spread.T @ spread)

    def variances(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(
            np.square(rows) @ (self._share * self._noise) + np.square(self._spread(rows)).sum(axis=0)
        )

    def _spread(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(np.linalg.solve(self._root, (self._rows * self._share) @ rows.T))
