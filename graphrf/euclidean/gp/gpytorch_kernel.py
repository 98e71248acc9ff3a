"""Random features inside GPyTorch: a `Kernel` that evaluates to a low-rank operator."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

# isort: split
from graphrf.gp.torch import quiet_import  # noqa: F401

# isort: split
import gpytorch
from gpytorch.constraints import Interval
from gpytorch.models.exact_prediction_strategies import (
    DefaultPredictionStrategy,
    LinearPredictionStrategy,
)
from gpytorch.priors import Prior
from linear_operator.operators import (
    LinearOperator,
    LowRankRootLinearOperator,
    MatmulLinearOperator,
    RootLinearOperator,
)
from torch import Tensor

from graphrf._base import checks
from graphrf.euclidean.frequencies.draw import draw_frequencies
from graphrf.euclidean.frequencies.norms import NormCoupling
from graphrf.euclidean.kernels import StationaryKernel, stationary_kernel
from graphrf.euclidean.tensors import paired


class RandomFeatureKernel(gpytorch.kernels.Kernel):
    r"""A stationary kernel for GPyTorch, approximated by paired random Fourier features.

    .. math:: k(x, y) = \phi(x)^\top \phi(y) = \frac 1 m \sum_{i=1}^m \cos(w_i^\top (x - y) / l).

    It evaluates to a `LowRankRootLinearOperator` where there are more points than features, so that
    GPyTorch solves by the Woodbury identity. The convention is that of
    `gpytorch.kernels.RFFKernel`: cosines and sines of x W^T / l, all cosines first, divided by
    sqrt(m); every variance is 1. Put it into `ScaleKernel`, sums and products like any other
    kernel. Sums of these kernels stay of low rank.

    Cost for n points: O(n m d) for the features and O(n m^2) for a solve, or O(n^2 m + n^3) where n
    is smaller. In float32 Woodbury's identity loses digits where noise is small: with 1,000 points,
    100 features and a noise of 1e-4 of the scale, means were off by 1e-4, and standard deviations
    of 0.002 by 1e-6.

    Source: Reid et al. 2024, "Variance-reducing couplings for random features", Sec. 3 and App.
    B.2.

    Parameters
    ----------
    dimension : int
        d, of the inputs; ValueError for others.
    n_frequencies : int
        m; there are 2m features.
    kernel, directions, norms, seed : optional
        As for `draw_frequencies`; "halton" and "sobol" need norms=None.
    ard_num_dims : int, optional
        d for one lengthscale per dimension; None for a common one.
    batch_shape : torch.Size
        Each member of the batch has its own lengthscale and its own independent frequencies.
    active_dims, lengthscale_prior, lengthscale_constraint : optional
        As for kernels of GPyTorch; `dimension` counts the active dimensions.

    Attributes
    ----------
    frequencies : Tensor, shape (*batch_shape, m, d)
        At lengthscale 1; a buffer, in `state_dict`.

    Examples
    --------
    >>> import torch, gpytorch
    >>> kernel = gpytorch.kernels.ScaleKernel(RandomFeatureKernel(2, 64, ard_num_dims=2, seed=0))
    >>> x = torch.linspace(0, 1, 10).reshape(5, 2)
    >>> kernel(x).to_dense().shape, [name for name, _ in kernel.named_parameters()]
    (torch.Size([5, 5]), ['raw_outputscale', 'base_kernel.raw_lengthscale'])
    """

    has_lengthscale = True
    frequencies: Tensor

    def __init__(
        self,
        dimension: int,
        n_frequencies: int = 128,
        *,
        kernel: str | StationaryKernel = "gaussian",
        directions: str = "orthogonal",
        norms: str | NormCoupling | None = "pnc",
        seed: int | None = None,
        ard_num_dims: int | None = None,
        batch_shape: torch.Size | None = None,
        active_dims: tuple[int, ...] | None = None,
        lengthscale_prior: Prior | None = None,
        lengthscale_constraint: Interval | None = None,
    ) -> None:
        dimension = checks.integer("dimension", dimension, low=1)
        n_frequencies = checks.integer("n_frequencies", n_frequencies, low=1)
        if ard_num_dims not in (None, dimension):
            raise checks.value_error(
                "ard_num_dims", f"must be None or `dimension`, {dimension}, got {ard_num_dims}"
            )

        law, seed = stationary_kernel(kernel), checks.seed(seed)
        super().__init__(
            ard_num_dims=ard_num_dims,
            batch_shape=batch_shape or torch.Size(),
            active_dims=active_dims,
            lengthscale_prior=lengthscale_prior,
            lengthscale_constraint=lengthscale_constraint,
        )

        # Independent of each other in the batch; one set alone is that of the same seed elsewhere.
        seeds = [
            seed,
            *np.random.default_rng(seed)
            .integers(2**62, size=self.batch_shape.numel() - 1)
            .tolist(),
        ]
        matrices = np.stack(
            [
                draw_frequencies(
                    n_frequencies,
                    dimension,
                    kernel=law,
                    directions=directions,
                    norms=norms,
                    seed=each,
                ).matrix
                for each in seeds[: self.batch_shape.numel()]
            ]
        )

        frequencies = torch.tensor(matrices, dtype=self.raw_lengthscale.dtype)
        self.register_buffer(
            "frequencies", frequencies.reshape(*self.batch_shape, n_frequencies, dimension)
        )

    def extra_repr(self) -> str:
        *_, m, d = self.frequencies.shape
        return f"dimension={d}, n_frequencies={m}"

    def features(self, x: Tensor) -> Tensor:
        """The features of points (..., n, d), shape (..., n, 2m); differentiable."""
        if x.shape[-1] != self.frequencies.shape[-1]:
            raise ValueError(
                f"inputs must have dimension {self.frequencies.shape[-1]}, got shape "
                f"{tuple(x.shape)}"
            )
        return paired((x / self.lengthscale) @ self.frequencies.mT)

    def forward(
        self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any
    ) -> Tensor | LinearOperator:
        """K[x1, x2] as an operator, or its diagonal as a tensor; called by GPyTorch."""
        if params.get("last_dim_is_batch"):
            raise checks.value_error(
                "last_dim_is_batch", "must be False: frequencies couple the dimensions"
            )
        same = x1 is x2 or torch.equal(x1, x2)
        left = self.features(x1)
        right = left if same else self.features(x2)
        if diag:
            return (left * right).sum(-1)
        if not same:
            return MatmulLinearOperator(left, right.mT)
        return _operator(left)

    def prediction_strategy(
        self, train_inputs: Any, train_prior_dist: Any, train_labels: Any, likelihood: Any
    ) -> DefaultPredictionStrategy:
        """Predictions in the weights if features are fewer than points; called by GPyTorch."""
        few = 2 * self.frequencies.shape[-2] < train_inputs[0].shape[-2]
        strategy = LinearPredictionStrategy if few else DefaultPredictionStrategy
        return strategy(train_inputs, train_prior_dist, train_labels, likelihood)


def _operator(features: Tensor) -> RootLinearOperator:
    """Phi Phi^T, by Woodbury's identity where there are fewer features than points."""
    return (_LowRank if features.shape[-1] < features.shape[-2] else _FullRank)(features)


class _Sums:
    """Sums of such operators put features side by side; linear_operator would invert one."""

    root: LinearOperator

    def __add__(self, other: Any) -> Any:
        if isinstance(other, RootLinearOperator):
            roots = self.root.to_dense(), other.root.to_dense()
            batch = torch.broadcast_shapes(*(root.shape[:-2] for root in roots))
            return _operator(
                torch.cat([root.expand(*batch, *root.shape[-2:]) for root in roots], -1)
            )
        return super().__add__(other)  # type: ignore[misc]


class _LowRank(_Sums, LowRankRootLinearOperator): ...


class _FullRank(_Sums, RootLinearOperator): ...
