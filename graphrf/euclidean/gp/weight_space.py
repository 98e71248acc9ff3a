r"""Gaussian linear models on features: evidence, posterior, draws, in the smaller of n and k.

.. math:: y = c + \Phi w + \varepsilon, \quad w \sim N(0, s I_k), \quad \varepsilon \sim N(0,
    \sigma^2 I_n),

is a Gaussian process of covariance s Phi Phi^T. With A = s Phi Phi^T + sigma^2 I_n and
B = I_k + s Phi^T Phi / sigma^2, log det A = n log sigma^2 + log det B, and A^-1 needs only B^-1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from graphrf.euclidean.tensors import paired

# Numbers of one block of rows of features.
BLOCK_NUMBERS = 4_000_000


class FeatureSums(NamedTuple):
    """Sums that the evidence needs, of n rows of k features and the sides [1, Y], p outputs."""

    gram: Tensor  # Phi^T Phi, or its expectation where features are uncertain, (k, k)
    cross: Tensor  # Phi^T [1, Y], or its expectation, (k, 1 + p)
    squares: Tensor  # [1, Y]^T [1, Y], (1 + p, 1 + p)
    n: int


BlockSums = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""(gram, cross) of a block of points (b, d) and its sides (b, 1 + p)."""


class CosineBasis(NamedTuple):
    """Paired features of known frequencies, (m, d)."""

    lengthscale: Tensor
    frequencies: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        return paired((x / self.lengthscale) @ self.frequencies.T)

    def sums(self, x: Tensor, sides: Tensor) -> tuple[Tensor, Tensor]:
        """Phi^T Phi and Phi^T [1, Y]."""
        phi = self(x)
        return phi.T @ phi, phi.T @ sides


def total_sums(
    sums: BlockSums, x: Tensor, sides: Tensor, n_features: int, block_numbers: int = BLOCK_NUMBERS
) -> FeatureSums:
    """The sums over all rows, in blocks: O(n k^2) time, k^2 numbers beside one block."""
    gram, cross = x.new_zeros(n_features, n_features), x.new_zeros(n_features, sides.shape[1])
    with torch.no_grad():
        for rows in row_blocks(x.shape[0], n_features, block_numbers):
            part, side = sums(x[rows], sides[rows])
            gram += part
            cross += side
    return FeatureSums(gram, cross, sides.T @ sides, x.shape[0])


def backward_evidence(
    sums: BlockSums,
    x: Tensor,
    sides: Tensor,
    n_features: int,
    scale: Tensor,
    noise: Tensor,
    constant: bool,
    block_numbers: int = BLOCK_NUMBERS,
) -> float:
    """The log evidence; adds its gradient to `.grad` of what `sums`, `scale` and `noise` use.

    A first pass adds up the sums, a second one brings the gradient in them back to the features of
    each block, so that memory is O(k^2) and not O(n k).
    """
    total = total_sums(sums, x, sides, n_features, block_numbers)
    total = total._replace(gram=total.gram.requires_grad_(), cross=total.cross.requires_grad_())
    value = evidence_by_sums(total, scale, noise, constant)
    value.backward()
    for rows in row_blocks(x.shape[0], n_features, block_numbers):
        parts = sums(x[rows], sides[rows])
        if parts[0].requires_grad:
            # what all blocks share (the lengthscale from its logarithm) is needed again
            torch.autograd.backward(parts, (total.gram.grad, total.cross.grad), retain_graph=True)
    return float(value.detach())


def evidence_by_sums(sums: FeatureSums, scale: Tensor, noise: Tensor, constant: bool) -> Tensor:
    r"""log N(Y; c, A), summed over outputs, c by generalised least squares or 0: O(k^3).

    The quadratic form is the minimum over w of |y - Phi w|^2 / sigma^2 + |w|^2 / s, which loses no
    digits to cancellation between large terms, and whose gradient needs none of the minimiser.
    """
    root = _root(sums.gram, scale, noise)
    weights = (scale / noise * torch.cholesky_solve(sums.cross, root)).detach()
    inner = sums.cross.T @ weights
    residuals = sums.squares - inner - inner.T + weights.T @ sums.gram @ weights
    products = residuals / noise + weights.T @ weights / scale
    log_determinant = 2 * root.diagonal().log().sum() + sums.n * noise.log()
    return _gaussian(products, log_determinant, sums.n, constant)


def evidence_by_gram(
    gram: Tensor, sides: Tensor, scale: Tensor, noise: Tensor, constant: bool
) -> Tensor:
    """The same from Phi Phi^T, shape (n, n): O(n^3)."""
    root = _dense_root(gram, scale, noise)
    half = torch.linalg.solve_triangular(root, sides, upper=False)
    return _gaussian(half.T @ half, 2 * root.diagonal().log().sum(), sides.shape[0], constant)


class PrimalPosterior:
    r"""The weights given Y: mean s B^-1 Phi^T (Y - c) / sigma^2, covariance s B^-1.

    Source: Reid et al. 2024, "Variance-reducing couplings for random features", App. B.2, Eqs. 39
    and 41, with the factor sigma^-2 in the mean that is left out in print.
    """

    def __init__(self, sums: FeatureSums, scale: Tensor, noise: Tensor, constant: bool) -> None:
        self._scale, self._root = scale, _root(sums.gram, scale, noise)
        self.n_normals: int = sums.gram.shape[0]
        weights = scale / noise * torch.cholesky_solve(sums.cross, self._root)
        products = (sums.squares - sums.cross.T @ weights) / noise
        self.constant: torch.Tensor = _constants(products, constant)
        self.weights: torch.Tensor = weights[:, 1:] - weights[:, :1] * self.constant

    def variances(self, features: Tensor) -> Tensor:
        """Variances of the noise-free function at rows of features."""
        half = torch.linalg.solve_triangular(self._root, features.T, upper=False)
        return self._scale * half.square().sum(0)

    def weight_covariance(self) -> Tensor:
        return self._scale * torch.cholesky_inverse(self._root)

    def draws(self, normals: Tensor) -> Tensor:
        """Weights, shape (draws, k, p), from as many standard normals: `n_normals` is k."""
        flat = normals.movedim(1, 0).reshape(self.weights.shape[0], -1)
        parts = torch.linalg.solve_triangular(self._root.T, flat, upper=True) * self._scale.sqrt()
        shape = (normals.shape[1], normals.shape[0], normals.shape[2])
        return self.weights + parts.reshape(shape).movedim(0, 1)


class DualPosterior:
    r"""The same through A: mean s Phi^T A^-1 (Y - c), for n < k rows.

    Source: Reid et al. 2024, App. B.2, Eq. 43.
    """

    def __init__(
        self, features: Tensor, sides: Tensor, scale: Tensor, noise: Tensor, constant: bool
    ) -> None:
        self._scale, self._noise, self._features = scale, noise, features
        self.n_normals: int = sum(features.shape)
        self._root = _dense_root(features @ features.T, scale, noise)
        half = torch.linalg.solve_triangular(self._root, sides, upper=False)
        self.constant: torch.Tensor = _constants(half.T @ half, constant)
        self._residual = sides[:, 1:] - self.constant
        self.weights: torch.Tensor = (
            scale * features.T @ torch.cholesky_solve(self._residual, self._root)
        )

    def variances(self, features: Tensor) -> Tensor:
        """Variances of the noise-free function at rows of features."""
        prior = self._scale * features.square().sum(1)
        half = torch.linalg.solve_triangular(
            self._root, self._scale * self._features @ features.T, upper=False
        )
        # rounding may leave a variance of 0 below it
        return (prior - half.square().sum(0)).clamp_min(0)

    def draws(self, normals: Tensor) -> Tensor:
        """Weights, shape (draws, k, p), from standard normals, (draws, n_normals = k + n, p).

        Prior weights and noise, moved by the mean of what they leave of Y: the cost is that of n x
        n systems.
        """
        k = self._features.shape[1]
        prior = self._scale.sqrt() * normals[:, :k]
        left = self._residual - self._features @ prior - self._noise.sqrt() * normals[:, k:]
        return prior + self._scale * self._features.T @ torch.cholesky_solve(left, self._root)


def _root(gram: Tensor, scale: Tensor, noise: Tensor) -> Tensor:
    """The Cholesky factor of B, whose eigenvalues are at least 1."""
    eye = torch.eye(gram.shape[0], dtype=gram.dtype)
    root: Tensor = torch.linalg.cholesky(eye + scale / noise * gram)
    return root


def _dense_root(gram: Tensor, scale: Tensor, noise: Tensor) -> Tensor:
    eye = torch.eye(gram.shape[0], dtype=gram.dtype)
    root: Tensor = torch.linalg.cholesky(scale * gram + noise * eye)
    return root


def _constants(products: Tensor, constant: bool) -> Tensor:
    """The generalised least-squares constant of each output, from [1, Y]^T A^-1 [1, Y]."""
    return products[0, 1:] / products[0, 0] if constant else torch.zeros_like(products[0, 1:])


def _gaussian(products: Tensor, log_determinant: Tensor, n: int, constant: bool) -> Tensor:
    c = _constants(products, constant)
    squares = products.diagonal()[1:] - 2 * c * products[0, 1:] + c * c * products[0, 0]
    log_two_pi = 1.8378770664093453
    return -0.5 * (squares.sum() + c.numel() * (log_determinant + n * log_two_pi))


def row_blocks(n: int, n_features: int, block_numbers: int = BLOCK_NUMBERS) -> list[slice]:
    """Slices of n rows with about that many numbers of features each, 32 MB by default."""
    rows = max(1, block_numbers // n_features)
    return [slice(start, start + rows) for start in range(0, n, rows)]
