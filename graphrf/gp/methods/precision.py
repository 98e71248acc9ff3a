"""The method by the sparse precision of a kernel."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from graphrf._base.blas import blas_threads
from graphrf._base.threads import ordered_map
from graphrf.gp.covariance.covariance import Covariance
from graphrf.gp.methods.gram import PrecisionGram
from graphrf.gp.methods.protocol import Grams, TrainedKernel
from graphrf.gp.methods.resolvents import ResolventFit, resolvents_between
from graphrf.gp.model.fitted_model import FittedModel
from graphrf.gp.model.numerics import Numerics
from graphrf.gp.model.progress import Step
from graphrf.gp.model.responses import Responses
from graphrf.gp.posterior.approximation.expectation_propagation import LatentPrior
from graphrf.gp.posterior.approximation.sparse import SparsePrior
from graphrf.gp.posterior.by_precision import PrecisionPosterior
from graphrf.gp.posterior.mixture import averaged
from graphrf.gp.posterior.protocol import Posterior
from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel
from graphrf.kernels.lengthscales import lengthscale_unit, longest_lengthscale
from graphrf.operators.precision.markov import SparsePrecision
from graphrf.operators.precision.protocol import KernelPrecision

# Labelled nodes up to which as many solves with a sparse factor take no longer than those of all
# Newton steps of a classifier.
_FEW_COLUMNS = 1_000


class PrecisionMethod:
    """Sparse Cholesky factors of areal kernels and of Matern kernels of (half-)integer order."""

    name = "precision"

    def __init__(self, graph: Graph, precision: KernelPrecision, n_threads: int | None) -> None:
        self._graph = graph
        self._own = precision
        self._trained = precision.smooth_in_lengthscale()
        self._n_threads = n_threads

    @property
    def precision(self) -> KernelPrecision | None:
        """The precision of training, whose likelihoods are smooth in the lengthscale."""
        return self._trained

    @property
    def largest_block(self) -> int:
        """No limit."""
        return sys.maxsize

    def grams(
        self, members: Sequence[TrainedKernel], blocks: Sequence[np.ndarray], seed: int
    ) -> Iterator[Grams]:
        """One: resolvents for functions of the Laplacian, else a factor for each set of
        hyperparameters.
        """
        (kernel, _), own = members[0], self._own
        if isinstance(own, SparsePrecision) and "lengthscale" in kernel.hyperparameters:
            unit = lengthscale_unit(self._graph, kernel.laplacian)
            fit = ResolventFit(self._graph, kernel.laplacian)
            tables = resolvents_between(own, fit, blocks, self._n_threads)

            def longest(kernel: Kernel) -> float:
                return longest_lengthscale(kernel, own.serves, unit)

            yield Grams(tables, longest)
            return
        yield Grams([PrecisionGram(own, block) for block in blocks], lambda kernel: np.inf)

    def exact_grams(
        self, trained: Grams, kernel: Kernel, blocks: Sequence[np.ndarray], seed: int
    ) -> Grams:
        """Gram matrices from a factor for each set of hyperparameters."""
        return Grams([PrecisionGram(self._trained, block) for block in blocks], trained.longest)

    def check(self, kernel: Kernel, sampler: Any, observed: np.ndarray, seed: int) -> None:
        """The posterior itself warns where it is not exact."""

    def sampler_for(self, kernels: Sequence[Kernel], n_observed: int, trained: Any) -> None:
        """None: there are no sampled rows."""

    def mean_variance(self, kernel: Kernel, seed: int) -> float:
        """The mean prior variance over all nodes, exact."""
        return self._own.with_kernel(kernel).mean_variance()

    def warn_of_rounding(self, kernels: Sequence[Kernel]) -> None:
        """Warn where rounding takes much of a precision; ValueError where it is singular."""
        for precision in [self._own.with_kernel(kernel) for kernel in kernels]:
            precision.warn_of_rounding()

    def makes_matrix(self, n_observed: int) -> bool:
        """True for few observed nodes."""
        return n_observed <= _FEW_COLUMNS

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
        """Covariances by a sparse factor for each kernel."""
        return [
            Covariance.by_precision(self._own.with_kernel(kernel), amplitude, normalize=normalize)
            for kernel, amplitude in kernels
        ]

    def posterior(
        self, model: FittedModel, basis: np.ndarray, numerics: Numerics, step: Step | None
    ) -> tuple[Posterior, float]:
        """Posteriors by sparse factors, which share their orders of elimination; only that of one
        set of hyperparameters holds its factor.
        """
        parts = model.parts
        precisions = [self._own.with_kernel(part.kernel) for part in parts]
        # orders of elimination are computed before threads need them
        n_threads = min(each.own_elimination.at_once(self._n_threads) for each in precisions)
        keeps = "variances" if len(parts) > 1 else "factor"

        def posterior_of(number: int) -> PrecisionPosterior:
            part, own = parts[number], precisions[number]
            return PrecisionPosterior(
                own, part.amplitude, part.observations, **part.conditions(basis), keeps=keeps
            )

        with blas_threads(1):  # bits must not depend on the number of threads
            posteriors = list(ordered_map(posterior_of, range(len(parts)), n_threads))
        return averaged(posteriors, model.points, self._n_threads), 0.0

    def prior(
        self, model: FittedModel, responses: Responses, prior_std: float, numerics: Numerics
    ) -> LatentPrior:
        """The prior of f + H b at the observed nodes, by the sparse precision."""
        precision = self._own.with_kernel(model.kernel)
        return SparsePrior(precision, model.amplitude, responses, prior_std)

    def limitation(self, kernel: Kernel) -> str:
        """Rounding."""
        return (
            "the longest at which the sparse precision is not numerically singular; pass "
            "method='series', or bring the weights closer together"
        )
