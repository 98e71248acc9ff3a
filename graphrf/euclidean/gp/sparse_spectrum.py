"""The sparse spectrum Gaussian process: regression on R^d in weights of Fourier features."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from graphrf._base import checks
from graphrf.euclidean.frequencies.norms import NormCoupling
from graphrf.euclidean.gp.ascent import Ascent, Point, ascend
from graphrf.euclidean.gp.weight_regressor import (
    Observed,
    WeightPosterior,
    WeightSpaceRegressor,
    tensors,
)
from graphrf.euclidean.gp.weight_space import (
    CosineBasis,
    DualPosterior,
    PrimalPosterior,
    total_sums,
)
from graphrf.euclidean.kernels import StationaryKernel

FREQUENCIES = ("fixed", "trained")


class SparseSpectrumGPRegressor(WeightSpaceRegressor):
    r"""Gaussian-process regression with random Fourier features: the sparse spectrum GP (SSGP).

    .. math:: y = c + \phi(x)^\top w + \varepsilon, \quad w \sim N(0, s I_{2m}), \quad
              \varepsilon \sim N(0, \sigma^2), \quad
              \phi(x) = \frac{1}{\sqrt m} [\cos(W x / l), \sin(W x / l)],

    a Gaussian process of kernel s m^-1 sum_i cos(w_i . (x - x') / l). Lengthscale, output scale s
    and noise variance maximise the marginal likelihood; with `frequencies="trained"` so does W.

    With fewer frequencies than the kernel needs over the range of X, features repeat and standard
    deviations become too small away from the data. Compare with twice as many frequencies. An
    evaluation of the likelihood with its gradient takes O(n m^2 + m^3) time and O(m^2) memory, in
    blocks of rows, for n >= 2m; with fewer rows O(n^2 m + n^3) and O(n m). On another number of
    torch's threads the result is the same up to rounding.

    Source: Lazaro-Gredilla et al. 2010, "Sparse spectrum Gaussian process regression"; Reid et al.
    2024, "Variance-reducing couplings for random features", App. B.2, Eqs. 37 to 43.

    Parameters
    ----------
    n_frequencies : int
        m; there are 2m features.
    kernel, directions, norms : optional
        Distribution and coupling of the frequencies, as for `draw_frequencies`; "halton" and
        "sobol" need norms=None.
    frequencies : {"fixed", "trained"}
        "fixed": W stays as drawn, and the model approximates a GP of that kernel. "trained", as in
        the paper: m d more parameters, which fit better with few frequencies and overfit with many
        (standard deviations become too small).
    lengthscale : {"ard", "shared"}, float or array_like of shape (d,)
        One trained for each coordinate, one trained for all, or fixed.
    output_scale, noise : float, optional
        Fixed variances of the function and of the noise; None trains them.
    mean : {"constant", "zero"}
        The constant c is a generalised least-squares estimate for each output, profiled out in
        training and treated as known afterwards: standard deviations exclude its uncertainty.
    n_starts : int
        Optimisations, of which the best is kept. The first starts at the best point of a grid, the
        others at random multiples of its lengthscales, with new frequencies if these are trained.
    max_iterations : int
        Of L-BFGS, per ascent; training frequencies takes a second ascent.
    seed : int in [0, 2^63), optional
        Of frequencies and starting points; None draws one, which `seed_` records.

    Attributes
    ----------
    lengthscale_ : float or ndarray, shape (d,)
    output_scale_, noise_ : float
        In units of y squared.
    mean_ : float, or ndarray of shape (p,) for several outputs
        The constant c.
    frequencies_ : ndarray, shape (m, d)
        W, at lengthscale 1.
    log_marginal_likelihood_ : float
        Summed over outputs.
    converged_ : bool
        True if the optimiser reached its tolerance.
    seed_, n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (200, 1))
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(200)
    >>> gp = SparseSpectrumGPRegressor(20, seed=0).fit(X, y)
    >>> mean, std = gp.predict([[0.5]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(1.0)) < 4 * std[0]), bool(0.008 < gp.noise_ < 0.012)
    (True, True)
    """

    def __init__(
        self,
        n_frequencies: int = 128,
        *,
        kernel: str | StationaryKernel = "gaussian",
        directions: str = "orthogonal",
        norms: str | NormCoupling | None = "pnc",
        frequencies: str = "fixed",
        lengthscale: str | ArrayLike = "ard",
        output_scale: float | None = None,
        noise: float | None = None,
        mean: str = "constant",
        n_starts: int = 1,
        max_iterations: int = 200,
        seed: int | None = None,
    ) -> None:
        self.n_frequencies = n_frequencies
        self.kernel = kernel
        self.directions = directions
        self.norms = norms
        self.frequencies = frequencies
        self.lengthscale = lengthscale
        self.output_scale = output_scale
        self.noise = noise
        self.mean = mean
        self.n_starts = n_starts
        self.max_iterations = max_iterations
        self.seed = seed

    _objective_name = "log_marginal_likelihood_"
    log_marginal_likelihood_: float

    def _check_settings(self) -> bool:
        return checks.choice("frequencies", self.frequencies, FREQUENCIES) == "trained"

    def _refined(
        self, found: Ascent, data: Observed, rng: np.random.Generator, steps: int
    ) -> Ascent:
        if self.frequencies == "fixed":
            return found
        return ascend(self.evidence(data), found.point, self._bounds(data), steps)

    def _posterior_at(self, data: Observed, point: Point) -> WeightPosterior:
        given, constant = self._hyperparameters(tensors(point), data), self.mean == "constant"
        basis = CosineBasis(given.lengthscale, torch.tensor(point["frequencies"]))
        k = 2 * self._m
        if data.x.shape[0] < k:
            dual = DualPosterior(basis(data.x), data.sides, given.scale, given.noise, constant)
            return _WeightSpace(basis, dual)
        sums = total_sums(basis.sums, data.x, data.sides, k)
        return _WeightSpace(basis, PrimalPosterior(sums, given.scale, given.noise, constant))


class _WeightSpace:
    """Functions with random weights from the posterior."""

    def __init__(self, basis: CosineBasis, posterior: PrimalPosterior | DualPosterior) -> None:
        self._basis, self._posterior = basis, posterior
        self.constant = posterior.constant

    def mean(self, x: Tensor) -> Tensor:
        return self._basis(x) @ self._posterior.weights

    def variances(self, x: Tensor) -> Tensor:
        return self._posterior.variances(self._basis(x))[:, None]

    def sample(self, x: Tensor, n_samples: int, rng: np.random.Generator) -> Tensor:
        shape = (n_samples, self._posterior.n_normals, self.constant.numel())
        return self._basis(x) @ self._posterior.draws(torch.from_numpy(rng.standard_normal(shape)))
