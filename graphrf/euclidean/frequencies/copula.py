r"""Gaussian copulas of frequency norms, and learning one from data by gradient descent.

A Gaussian copula is the joint distribution of u_i = Phi(g_i), g a Gaussian vector with unit
variances: each u_i is uniform, so features stay unbiased, and the correlations of g can be learned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy import special

from graphrf._base import checks
from graphrf.euclidean.frequencies.directions import unit_blocks
from graphrf.euclidean.kernels import StationaryKernel, lengthscales, points, stationary_kernel
from graphrf.euclidean.pair_means import log_norm_density

DIRECTIONS = ("iid", "orthogonal", "simplex")
READOUTS = ("fourier", "laplace")


@dataclass(frozen=True, eq=False, repr=False)
class GaussianCopula:
    """A Gaussian copula, as a coupling of the norms of a block of frequencies.

    u = Phi(L e) with e standard normal and L the Cholesky factor of a correlation matrix, used as
    `norms` of features whose blocks have `order` frequencies. Pairwise norm coupling
    (`norms="pnc"`) is the limit of correlation -1 in each pair, so it is not in this family. Cost
    of a draw: O(order^2) per block.

    Source: Reid et al. 2024, "Variance-reducing couplings for random features", Definition A.7.

    Parameters
    ----------
    cholesky : array_like, shape (order, order)
        L: lower triangular with a positive diagonal and rows of norm 1; TypeError or ValueError if
        it is not.

    Examples
    --------
    >>> copula = GaussianCopula([[1.0, 0.0], [-0.8, 0.6]])
    >>> copula.correlation.round(2)
    array([[ 1. , -0.8],
           [-0.8,  1. ]])
    >>> copula.uniforms(1000, 2, np.random.default_rng(0)).shape
    (1000, 2)
    """

    cholesky: np.ndarray

    def __post_init__(self) -> None:
        factor = points("cholesky", self.cholesky).copy()
        if factor.shape[0] != factor.shape[1]:
            raise checks.value_error("cholesky", f"must be square, got {checks.describe(factor)}")
        if np.triu(factor, 1).any() or not (np.diag(factor) > 0).all():
            raise checks.value_error(
                "cholesky", "must be lower triangular with a positive diagonal"
            )
        norms = np.linalg.norm(factor, axis=1)
        if not np.allclose(norms, 1, rtol=0, atol=1e-8):
            raise checks.value_error(
                "cholesky",
                f"must have rows of norm 1, got norms from {norms.min():g} to {norms.max():g}; "
                "divide each row by its norm",
            )
        factor.setflags(write=False)
        object.__setattr__(self, "cholesky", factor)

    @classmethod
    def independent(cls, order: int) -> GaussianCopula:
        """The copula of `order` independent uniforms."""
        return cls(np.eye(checks.integer("order", order, low=1)))

    def __repr__(self) -> str:
        return f"GaussianCopula(order {self.order})"

    @property
    def order(self) -> int:
        """Frequencies in a block."""
        return int(self.cholesky.shape[0])

    @property
    def correlation(self) -> np.ndarray:
        """Correlation matrix of the normal scores, shape (order, order)."""
        return self.cholesky @ self.cholesky.T

    def uniforms(self, n_blocks: int, size: int, rng: np.random.Generator) -> np.ndarray:
        """Uniforms in (0, 1) for independent blocks, shape (n_blocks, size), size = `order`."""
        if size != self.order:
            raise checks.value_error(
                "norms",
                f"is a copula of order {self.order}, got blocks of {size} frequencies; "
                f"learn one on points of {size} coordinates",
            )
        u = special.ndtr(rng.standard_normal((n_blocks, size)) @ self.cholesky.T)
        return np.clip(u, 2.0**-53, 1 - 2.0**-53)


@dataclass(frozen=True, eq=False, repr=False)
class LearnedCopula:
    """Result of `learn_copula`: the last copula, and losses estimated before each step."""

    copula: GaussianCopula
    losses: np.ndarray

    def __repr__(self) -> str:
        return f"LearnedCopula({self.copula!r}, {self.losses.size} steps)"


def learn_copula(
    x: ArrayLike,
    *,
    kernel: str | StationaryKernel = "gaussian",
    directions: str = "orthogonal",
    readout: str = "fourier",
    lengthscale: ArrayLike = 1.0,
    n_steps: int = 1000,
    learning_rate: float = 0.01,
    n_samples: int = 8,
    seed: int | None = None,
) -> LearnedCopula:
    r"""Learn a coupling of norms that minimises the error of the Gram matrix of given points.

    Minimises, over the correlations of a Gaussian copula of d norms,

    .. math:: L(\theta) = E \Big[ \Big( \tfrac{1}{N^2} \sum_{ij} (\phi(x_i) \cdot \phi(x_j) -
        k(x_i, x_j))^2
        \Big)^{1/2} \Big], \qquad L_{ij} = \theta_{ij} / s_i \; (j \le i), \quad \theta_{ii} = 1,

    with s_i the norm of row i of theta, which makes any real theta_ij (j < i) a Cholesky factor of
    a correlation matrix. Each step draws `n_samples` blocks of directions and normal vectors, and
    Adam uses the gradient through the quantile function of the norms (the reparameterisation
    trick). Cost of a step: O(n_samples (N^2 d + d^3)) time, n_samples N^2 numbers.

    Source: Reid et al. 2024, "Variance-reducing couplings for random features", App. A.5, Eqs. 34
    and 35. The printed Eq. 34 has j >= i and positive theta, which would allow positive
    correlations only. TypeError or ValueError if an argument is not as below.

    Parameters
    ----------
    x : array_like, shape (N, d)
        Training points, d at least 2, not all equal (readout "laplace": not all 0). Evaluate the
        features on other points.
    kernel : str or StationaryKernel
        "gaussian" with readout "laplace".
    directions : {"iid", "orthogonal", "simplex"}
    readout : {"fourier", "laplace"}
        Paired Fourier features of d frequencies, or positive features of d frequencies and their
        negatives.
    lengthscale : float or array_like of shape (d,)
    n_steps : int
    learning_rate : float
    n_samples : int
        Blocks drawn at each step; more make the gradient less noisy.
    seed : int, optional

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(20, 2))
    >>> learned = learn_copula(x, n_steps=40, learning_rate=0.1, seed=0)
    >>> bool(learned.copula.correlation[0, 1] < -0.5)
    True
    """
    data = points("x", x)
    d = data.shape[1]
    if d < 2:
        raise checks.value_error(
            "x", f"must have at least 2 columns, whose frequencies can be coupled, got {d}"
        )

    chosen = stationary_kernel(kernel)
    directions = checks.choice("directions", directions, DIRECTIONS)
    positive = checks.choice("readout", readout, READOUTS) == "laplace"
    if positive and chosen.nu is not None:
        raise checks.value_error(
            "kernel", f"must be 'gaussian' with readout 'laplace', got {chosen.name!r}"
        )
    if not (data if positive else data[1:] != data[:1]).any():
        wanted = "a point other than 0" if positive else "two different points"
        raise checks.value_error(
            "x",
            f"must hold {wanted}, got {checks.describe(data)}: its Gram matrix is exact for any "
            "copula",
        )

    n_steps = checks.integer("n_steps", n_steps, low=1)
    n_samples = checks.integer("n_samples", n_samples, low=1)
    rate = checks.number("learning_rate", learning_rate, low=0, include_low=False)
    rng = np.random.default_rng(checks.seed(seed))

    # Training needs gradients even if the caller has disabled them.
    with torch.inference_mode(False), torch.enable_grad():
        exact = torch.from_numpy(chosen.gram(data, lengthscale=lengthscale))
        scaled = torch.from_numpy(data / lengthscales(lengthscale, d))
        theta = torch.zeros(d * (d - 1) // 2, dtype=torch.float64, requires_grad=True)
        optimiser = torch.optim.Adam([theta], lr=rate)
        losses = np.empty(n_steps)

        for step in range(n_steps):
            scores = (
                torch.from_numpy(rng.standard_normal((n_samples, d))) @ cholesky_factor(theta, d).T
            )
            frequencies = NormsOfScores.apply(scores, d, chosen)[..., None] * torch.from_numpy(
                unit_blocks(directions, n_samples, d, rng)
            )
            error = _gram(scaled, frequencies, positive) - exact
            # a norm has gradient 0 at 0, where that of a root is not a number
            loss = torch.linalg.vector_norm(error, dim=(1, 2)).mean() / len(data)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses[step] = loss.item()
    return LearnedCopula(GaussianCopula(cholesky_factor(theta.detach(), d).numpy()), losses)


def cholesky_factor(theta: torch.Tensor, order: int) -> torch.Tensor:
    """L of Eq. 34 from its order (order - 1) / 2 entries, row by row; zeros give the identity."""
    rows, columns = torch.tril_indices(order, order, -1)
    factor = torch.eye(order, dtype=theta.dtype).index_put((rows, columns), theta)
    return factor / factor.norm(dim=1, keepdim=True)


class NormsOfScores(torch.autograd.Function):
    """Norms r with F(r) = P(|w| <= r) = Phi(g) of scores g, with dr/dg = phi(g) / p(r)."""

    @staticmethod
    def forward(
        ctx: Any, scores: torch.Tensor, dimension: int, kernel: StationaryKernel
    ) -> torch.Tensor:
        g = scores.detach().numpy()
        u = np.clip(special.ndtr(g), 2.0**-53, 1 - 2.0**-53)
        r = kernel.norm_quantile(u, dimension)
        log_slope = -0.5 * g * g - 0.5 * np.log(2 * np.pi) - log_norm_density(r, dimension, kernel)
        ctx.save_for_backward(torch.from_numpy(np.exp(log_slope)))
        return torch.from_numpy(r)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (slope,) = ctx.saved_tensors
        return gradient * slope, None, None


def _gram(x: torch.Tensor, frequencies: torch.Tensor, positive: bool) -> torch.Tensor:
    """Estimates of the Gram matrix, shape (n_samples, N, N), one for each block of frequencies."""
    projected = x @ frequencies.transpose(1, 2)
    if positive:
        features = torch.cat([projected, -projected], dim=2) - x.square().sum(dim=1)[:, None]
        features = features.exp()
        return features @ features.transpose(1, 2) / features.shape[2]
    features = torch.cat([projected.cos(), projected.sin()], dim=2)
    return features @ features.transpose(1, 2) / projected.shape[2]
