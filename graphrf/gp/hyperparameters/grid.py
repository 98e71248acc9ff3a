r"""The likelihood of blocks of observations on a grid of output scale and noise, for one kernel
after another.

With :math:`K = U T U^\top`, T tridiagonal, the covariance of the observations is :math:`U (a T + s
I) U^\top` for every output scale a and noise s, so that one reduction of K serves all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from graphrf.gp.model.mean_function import COLLINEAR
from graphrf.gp.model.observations import Observations
from graphrf.gp.model.prior import HyperparameterPrior


class BlockValues(NamedTuple):
    r"""The observations of a block without their mean function, which determine its restricted
    likelihood.

    With the counts C of `Observations` and an orthonormal complement Q of :math:`C^{1/2} H`,

    .. math:: Q^\top C^{1/2} \bar y \sim N(0, a \, Q^\top C^{1/2} K C^{1/2} Q + s I).

    Source: Patterson and Thompson 1971, "Recovery of inter-block information when block sizes are
    unequal".
    """

    complement: np.ndarray  # C^(1/2) Q, (m, m - b)
    values: np.ndarray  # (m - b, p)
    repeated: int  # observations less one for each node, over all outputs
    within: float  # the sum of squares about the means of the nodes

    @classmethod
    def of(cls, observations: Observations, unit: float) -> BlockValues:
        """Observations divided by the root of a unit, so that no square leaves float64."""
        observations = observations.in_units_of(math.sqrt(unit))
        roots = np.sqrt(observations.counts)[:, None]
        u, singular, _ = np.linalg.svd(roots * observations.basis, full_matrices=True)
        rank = int((singular > COLLINEAR * singular.max(initial=0.0)).sum())
        complement = u[:, rank:]
        extra = observations.n_total - observations.nodes.size
        return cls(
            roots * complement,
            complement.T @ (roots * observations.means),
            extra * observations.n_outputs,
            observations.within,
        )

    def reduced(self, matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The diagonal and the off-diagonal of T for a prior covariance K, and the values in the
        basis U.
        """
        projected = self.complement.T @ (matrix @ self.complement)
        size = projected.shape[0]
        if size < 2:
            return np.diagonal(projected).copy(), np.zeros(0), self.values
        work = int(lapack.dsytrd_lwork(size, lower=1)[0])
        reflectors, diagonal, off, tau, _ = lapack.dsytrd(
            projected, lower=1, lwork=work, overwrite_a=1
        )
        values = self.values.copy()
        below = np.asfortranarray(reflectors[1:, :-1])
        values[1:] = lapack.dormqr("L", "T", below, tau, values[1:], 64 * max(values.shape[1], 1))[
            0
        ]
        return diagonal, off, values


class Cells(NamedTuple):
    """Pairs of output scale and noise, in units of the variance of y, with their prior."""

    scales: np.ndarray
    noises: np.ndarray
    ratios: np.ndarray  # distinct ratios of noise and output scale
    which: np.ndarray  # the ratio of each cell
    log_prior: np.ndarray

    @classmethod
    def of(
        cls,
        output_scale: float | None,
        noise: float | None,
        unit: float,
        prior: HyperparameterPrior,
        grid: Axes,
    ) -> Cells:
        """The grid; a variance that is known has one value."""
        scales, ratios = np.log(grid.scales), np.log(grid.ratios)
        if output_scale is not None:
            scales = np.array([math.log(output_scale / unit)])

        if noise is None:
            s, r = (values.ravel() for values in np.meshgrid(scales, ratios, indexing="ij"))
            if output_scale is not None:  # the noise itself has the range of its search
                r = np.log(grid.noises) - s[0]
                s = np.full(r.size, s[0])
        else:
            s, r = scales, math.log(noise / unit) - scales

        low, high = (math.log(grid.noises[end]) for end in (0, -1))
        kept = (
            (s + r >= low - 1e-9) & (s + r <= high + 1e-9)
            if noise is None
            else np.ones(s.size, dtype=bool)
        )
        s, r = s[kept], r[kept]

        distinct, which = np.unique(r, return_inverse=True)
        density = np.zeros(s.size)
        if output_scale is None:
            density += prior.log_density("output_scale", s, 1.0)[0]
        if noise is None:
            density += prior.log_density("noise", s + r, 1.0)[0]
        return cls(np.exp(s), np.exp(s + r), np.exp(distinct), which, density)


class Axes(NamedTuple):
    """Values of output scale, of its ratio with the noise, and of the noise, in equal steps of
    logarithms.
    """

    scales: np.ndarray
    ratios: np.ndarray
    noises: np.ndarray


def log_likelihoods(
    matrices: Sequence[np.ndarray], blocks: Sequence[BlockValues], cells: Cells
) -> np.ndarray:
    """Restricted log likelihoods up to a common constant, (kernels, cells); -inf where a covariance
    is singular.

    `matrices` are those of each block, shape (kernels, m, m).
    """
    result = np.zeros((matrices[0].shape[0], cells.scales.size))
    for each, block in zip(matrices, blocks, strict=True):
        size, p = block.values.shape
        if not size:  # as many coefficients of the mean as observed nodes
            continue
        log_determinant, quadratic = _profiles(
            [block.reduced(matrix) for matrix in each], cells.ratios
        )
        result -= 0.5 * p * (size * np.log(cells.scales) + log_determinant[:, cells.which])
        result -= 0.5 * quadratic[:, cells.which] / cells.scales
        result -= 0.5 * (block.repeated * np.log(cells.noises) + block.within / cells.noises)
    return np.where(np.isfinite(result), result, -np.inf)


def independent_log_likelihoods(blocks: Sequence[BlockValues], noises: np.ndarray) -> np.ndarray:
    """The restricted log likelihood of noise alone, shape (noises,), up to the same constant."""
    size = sum(block.values.size + block.repeated for block in blocks)
    squares = sum(float(np.square(block.values).sum()) + block.within for block in blocks)
    return np.asarray(-0.5 * (size * np.log(noises) + squares / noises))


def _profiles(
    parts: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]], ratios: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """log |T + r I| and z^T (T + r I)^-1 z of several T and ratios r, (parts, ratios); inf if
    singular.
    """
    diagonal, off, values = (np.array(each) for each in zip(*parts, strict=True))
    pivot = diagonal[:, 0, None] + ratios
    rest = np.broadcast_to(values[:, 0, None], (*pivot.shape, values.shape[2]))
    possible = pivot > 0
    logs, quadratic = np.log(np.where(possible, pivot, 1.0)), np.square(rest).sum(axis=2) / pivot
    for k in range(1, diagonal.shape[1]):
        factor = off[:, k - 1, None] / pivot
        pivot = diagonal[:, k, None] + ratios - factor * off[:, k - 1, None]
        rest = values[:, k, None] - factor[:, :, None] * rest
        possible &= pivot > 0
        logs += np.log(np.where(pivot > 0, pivot, 1.0))
        quadratic += np.square(rest).sum(axis=2) / pivot
    return np.where(possible, logs, np.inf), np.where(possible, quadratic, np.inf)
