"""The variational sparse spectrum Gaussian process: uncertain frequencies, regression on R^d."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from graphrf.euclidean.frequencies.norms import NormCoupling
from graphrf.euclidean.gp.ascent import Ascent, Objective, Point, ascend, value_at
from graphrf.euclidean.gp.weight_regressor import (
    Observed,
    WeightPosterior,
    WeightSpaceRegressor,
    tensors,
)
from graphrf.euclidean.gp.weight_space import PrimalPosterior, backward_evidence, total_sums

# Initial standard deviations of the frequencies; the best one is used.
_DEVIATIONS = (0.05, 0.2, 0.5)


class VariationalSparseSpectrumGPRegressor(WeightSpaceRegressor):
    r"""Sparse spectrum GP regression, frequencies integrated out by a variational bound (VSSGP).

    .. math:: y = c + \phi_W(x)^\top a + \varepsilon, \quad a \sim N(0, s I_{2m}), \quad w_i \sim
        N(0, I_d), \quad
              \varepsilon \sim N(0, \sigma^2),

    with the features of `SparseSpectrumGPRegressor`, about an anchor z_i for each frequency:
    cosines and sines of w_i . (x - z_i) / l. The distribution of their weights is isotropic, so the
    prior is the same for all anchors. The posterior is approximated by q(W) q(a), q(W) = prod_i
    N(w_i; mu_i, diag(sigma_i^2)), with q(a) optimal for it, by maximising

    .. math:: L = \log N(y; c, A) \big|_{\Phi^\top \Phi \to E_q \Phi^\top \Phi, \; \Phi \to E_q
        \Phi}
              - \sum_i \mathrm{KL}(q(w_i) \| N(0, I_d)),

    .. math:: \log N(y; c, A) = -\tfrac12 \Big( \tfrac{|r|^2}{\sigma^2} - \tfrac{s}{\sigma^4}
        r^\top \Phi B^{-1}
              \Phi^\top r + \log\det B + n \log(2 \pi \sigma^2) \Big), \quad
              B = I + \tfrac{s}{\sigma^2} \Phi^\top \Phi, \quad r = y - c,

    a lower bound of log p(y | l, s, sigma^2, c), where both W and a are integrated out; for several
    outputs the first term is summed over them. Expectations are in closed form.

    `predict` has the exact mean and variance of f under q; `sample` draws frequencies and weights
    from q. Away from its anchor the expectation of a feature decays as exp(-|sigma_i (x - z_i) /
    l|^2 / 2), so standard deviations grow far from the data. An evaluation of the bound with its
    gradient takes O(n m^2 + m^3 + n m d) time and O(m^2) memory.

    Source: Gal and Turner 2015, "Improving the Gaussian process sparse spectrum approximation by
    representing uncertainty in frequency inputs", with optimal weights, which replace its phases on
    learned intervals.

    Parameters
    ----------
    n_frequencies : int
        m; 3 m d numbers are trained in addition to the hyperparameters.
    directions, norms : optional
        Initial means, as for `FourierFeatures`. In the prior, frequencies are independent.
    lengthscale, output_scale, noise, mean, seed : optional
        See `SparseSpectrumGPRegressor`. The kernel is Gaussian.
    n_starts : int
        Optimisations, each with its own frequencies and anchors, of which the best is kept.
    max_iterations : int
        Of L-BFGS, per ascent: of the likelihood with fixed frequencies, then the bound.

    Attributes
    ----------
    lengthscale_, output_scale_, noise_, mean_, converged_, seed_, n_features_in_
        See `SparseSpectrumGPRegressor`.
    frequencies_, deviations_ : ndarray, shape (m, d)
        mu and sigma, at lengthscale 1.
    anchors_ : ndarray, shape (m, d)
        z, in units of X.
    lower_bound_ : float
        L, summed over outputs.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, (60, 1))
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(60)
    >>> gp = VariationalSparseSpectrumGPRegressor(5, seed=0).fit(X, y)
    >>> mean, std = gp.predict([[0.5], [9.0]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(1.0)) < 4 * std[0]), bool(std[1] > 5 * std[0])
    (True, True)
    """

    anchors_: np.ndarray
    deviations_: np.ndarray

    _objective_name = "lower_bound_"
    lower_bound_: float
    kernel = "gaussian"

    def __init__(
        self,
        n_frequencies: int = 64,
        *,
        directions: str = "orthogonal",
        norms: str | NormCoupling | None = "pnc",
        lengthscale: str | ArrayLike = "ard",
        output_scale: float | None = None,
        noise: float | None = None,
        mean: str = "constant",
        n_starts: int = 1,
        max_iterations: int = 200,
        seed: int | None = None,
    ) -> None:
        self.n_frequencies = n_frequencies
        self.directions = directions
        self.norms = norms
        self.lengthscale = lengthscale
        self.output_scale = output_scale
        self.noise = noise
        self.mean = mean
        self.n_starts = n_starts
        self.max_iterations = max_iterations
        self.seed = seed

    def _check_settings(self) -> bool:
        return True

    def _refined(
        self, found: Ascent, data: Observed, rng: np.random.Generator, steps: int
    ) -> Ascent:
        """Maximise the bound from the drawn frequencies, with anchors at observations."""
        bound, n = self.bound(data), data.x.shape[0]
        anchors = data.x.numpy()[rng.choice(n, self._m, replace=self._m > n)]
        starts = [
            found.point
            | {"log_deviations": np.full(anchors.shape, math.log(each)), "anchors": anchors}
            for each in _DEVIATIONS
        ]
        start = max(starts, key=lambda point: value_at(bound, point))
        return ascend(bound, start, self._bounds(data), steps)

    def bound(self, data: Observed) -> Objective:
        """L of the data in their units, as a function of a point of the search."""

        def objective(point: dict[str, Tensor]) -> float:
            given = self._hyperparameters(point, data)
            basis = UncertainBasis.of(given.lengthscale, point)
            value = backward_evidence(
                basis.sums,
                data.x,
                data.sides,
                2 * self._m,
                given.scale,
                given.noise,
                self.mean == "constant",
                data.block_numbers,
            )
            divergence = basis.divergence()
            if divergence.requires_grad:
                (-divergence).backward()
            return value - float(divergence.detach())

        return objective

    def _posterior_at(self, data: Observed, point: Point) -> WeightPosterior:
        values = tensors(point)
        given = self._hyperparameters(values, data)
        basis = UncertainBasis.of(given.lengthscale, values)
        self.deviations_, self.anchors_ = (
            basis.deviations.numpy(),
            basis.anchors.numpy() + data.centre,
        )
        sums = total_sums(basis.sums, data.x, data.sides, 2 * self._m)
        return _Variational(
            basis, PrimalPosterior(sums, given.scale, given.noise, self.mean == "constant")
        )


class UncertainBasis(NamedTuple):
    """Paired features of independent Gaussian frequencies (m, d), about their anchors."""

    lengthscale: Tensor
    means: Tensor
    deviations: Tensor
    anchors: Tensor

    @classmethod
    def of(cls, lengthscale: Tensor, point: dict[str, Tensor]) -> UncertainBasis:
        return cls(
            lengthscale, point["frequencies"], point["log_deviations"].exp(), point["anchors"]
        )

    def divergence(self) -> Tensor:
        """KL(q || prior) of all frequencies."""
        variances = self.deviations.square()
        return 0.5 * (variances + self.means.square() - 1 - variances.log()).sum()

    def expected(self, x: Tensor) -> Tensor:
        """E phi at points (n, d), shape (n, 2m)."""
        phase, variance = self._phases(x)
        damped = (-variance / 2).exp()
        return torch.cat([damped * phase.cos(), damped * phase.sin()], -1) / math.sqrt(
            phase.shape[-1]
        )

    def covariances(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Covariances of each pair: var cos, var sin and cov(cos, sin), over m; shape (n, m) each.

        Different frequencies are independent, so the rest of the covariance is 0.
        """
        phase, variance = self._phases(x)
        m = phase.shape[-1]
        damped = (-variance).exp()
        double, single = damped * damped * (2 * phase).cos(), damped * (2 * phase).cos()
        even, odd = 1 - damped, double - single
        both = damped * (damped - 1) * (2 * phase).sin()
        return (even + odd) / (2 * m), (even - odd) / (2 * m), both / (2 * m)

    def sums(self, x: Tensor, sides: Tensor) -> tuple[Tensor, Tensor]:
        """E Phi^T Phi and E Phi^T [1, Y]."""
        phi = self.expected(x)
        cos, sin, both = (each.sum(0) for each in self.covariances(x))
        m = cos.shape[0]
        block = torch.diag(torch.cat([cos, sin])) + torch.diag(both, m) + torch.diag(both, -m)
        return phi.T @ phi + block, phi.T @ sides

    def features(self, x: Tensor, normals: Tensor) -> Tensor:
        """phi at frequencies made of standard normals, shape (m, d)."""
        return self._replace(
            means=self.means + self.deviations * normals, deviations=0 * normals
        ).expected(x)

    def _phases(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of w_i . (x - z_i) / l, each of shape (n, m)."""
        x, z = x / self.lengthscale, self.anchors / self.lengthscale
        phase = x @ self.means.T - (z * self.means).sum(-1)
        weights = self.deviations.square()
        variance = x.square() @ weights.T - 2 * x @ (weights * z).T + (weights * z.square()).sum(-1)
        return phase, variance.clamp_min(0)  # rounding


class _Variational:
    """Functions under q."""

    def __init__(self, basis: UncertainBasis, weights: PrimalPosterior) -> None:
        self.basis, self._weights = basis, weights
        self.constant = weights.constant

    def mean(self, x: Tensor) -> Tensor:
        return self.basis.expected(x) @ self._weights.weights

    def variances(self, x: Tensor) -> Tensor:
        r"""tr(S E phi phi^T) + m^T cov(phi) m, for weights of mean m and covariance S."""
        cos, sin, both = self.basis.covariances(x)
        k = cos.shape[1]
        s, m = self._weights.weight_covariance(), self._weights.weights
        a, b = m[:k], m[k:]
        diagonal = s.diagonal()
        return (
            self._weights.variances(self.basis.expected(x))[:, None]
            + (cos @ diagonal[:k] + sin @ diagonal[k:] + 2 * both @ s[:k, k:].diagonal())[:, None]
            + (cos @ a.square() + sin @ b.square() + 2 * both @ (a * b))
        )

    def sample(self, x: Tensor, n_samples: int, rng: np.random.Generator) -> Tensor:
        m, d = self.basis.means.shape
        draws = []
        for _ in range(n_samples):
            phi = self.basis.features(x, torch.from_numpy(rng.standard_normal((m, d))))
            normals = torch.from_numpy(rng.standard_normal((1, 2 * m, self.constant.numel())))
            draws.append(phi @ self._weights.draws(normals)[0])
        return torch.stack(draws)
