"""A method: one way to compute with a kernel, in training and in the posterior."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from graphrf.gp.covariance.covariance import Covariance
from graphrf.gp.methods.gram import Gram
from graphrf.gp.model.fitted_model import FittedModel
from graphrf.gp.model.numerics import Numerics
from graphrf.gp.model.progress import Step
from graphrf.gp.model.responses import Responses
from graphrf.gp.posterior.approximation.expectation_propagation import LatentPrior
from graphrf.gp.posterior.protocol import Posterior
from graphrf.kernels.kernel import Kernel
from graphrf.operators.precision.protocol import KernelPrecision

TrainedKernel = tuple[Kernel, tuple[str, ...]]
"""A kernel, and the names of its hyperparameters that are trained."""


class Grams(NamedTuple):
    """K among the nodes of some blocks, for any kernel with one Laplacian."""

    each: Sequence[Gram]  # one for each block
    longest: Callable[[Kernel], float]  # the longest lengthscale of a kernel that they serve
    sampler: Any = None  # of sampled rows
    check: Callable[[Kernel], None] = lambda kernel: None  # warns where they are far from a kernel

    def many(self, kernels: Sequence[Kernel]) -> list[np.ndarray]:
        """K of several kernels for each block, shape (kernels, m, m)."""
        return [gram.many(kernels) for gram in self.each]


class Method(Protocol):
    """The series, the sparse precision or sampled features.

    `kernels` of the posterior have their amplitudes beside them, and `sampler` is that of its rows,
    None for methods without.
    """

    name: str

    # -- training ----------------------------------------------------------------------------------

    @property
    def precision(self) -> KernelPrecision | None:
        """The sparse precision of any kernel, by which training has all observations."""
        ...

    @property
    def largest_block(self) -> int:
        """The most nodes among which training may have K."""
        ...

    def grams(
        self, members: Sequence[TrainedKernel], blocks: Sequence[np.ndarray], seed: int
    ) -> Iterator[Grams]:
        """K for training on some blocks, of kernels that share their Laplacian.

        Each `Grams` serves longer lengthscales, at a higher cost, than the one before; most methods
        have one.
        """
        ...

    def exact_grams(
        self, trained: Grams, kernel: Kernel, blocks: Sequence[np.ndarray], seed: int
    ) -> Grams:
        """K of a kernel with derivatives in all of its hyperparameters; `trained` has the sampler
        of its rows.
        """
        ...

    def check(self, kernel: Kernel, sampler: Any, observed: np.ndarray, seed: int) -> None:
        """Warn where the posterior's rows are not near to a kernel of which nothing is trained."""
        ...

    def sampler_for(self, kernels: Sequence[Kernel], n_observed: int, trained: Any) -> Any:
        """The sampler of the posterior's rows, if there are any; `trained` is that of training, or
        None.
        """
        ...

    def limitation(self, kernel: Kernel) -> str:
        """Why lengthscales end, and which method serves longer ones."""
        ...

    def mean_variance(self, kernel: Kernel, seed: int) -> float:
        """The mean prior variance of a kernel over all nodes."""
        ...

    # -- the posterior -----------------------------------------------------------------------------

    def warn_of_rounding(self, kernels: Sequence[Kernel]) -> None:
        """Warn where rounding takes much of a kernel; ValueError if it cannot be computed with."""
        ...

    def makes_matrix(self, n_observed: int) -> bool:
        """True if K among so many observed nodes is best made as a matrix; else products serve."""
        ...

    def covariances(
        self,
        kernels: Sequence[tuple[Kernel, float]],
        sampler: Any,
        seed: int,
        *,
        feature_sampler: Callable[..., Any] | None = None,
        normalize: bool = False,
        warns: bool = True,
    ) -> list[Covariance]:
        """The prior covariance of each kernel by its rows at any nodes.

        `normalize` makes all prior variances equal to the amplitude. Where rows are cut or vary
        much, that of the longest lengthscale is warned of if `warns`.
        """
        ...

    def posterior(
        self, model: FittedModel, basis: np.ndarray, numerics: Numerics, step: Step | None
    ) -> tuple[Posterior, float]:
        """The posterior, averaged over the points of a model if it has any, and a bound on the
        error of a truncated series in units of the output scale.

        `basis` is the mean function's at all nodes, with ones first if there are any, so that
        predictions include the offset. The same arguments give the same posterior; `step` is called
        in each iteration of a solve.
        """
        ...

    def prior(
        self, model: FittedModel, responses: Responses, prior_std: float, numerics: Numerics
    ) -> LatentPrior:
        """The prior of f + H b at the observed nodes, b of this prior deviation, for expectation
        propagation.
        """
        ...
