"""The record that a fit leaves, from which posteriors are computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from graphrf.gp.likelihoods.likelihood import Likelihood
from graphrf.gp.model.hyperparameters import ComparedKernel, Explored, Hyperparameters
from graphrf.gp.model.mean_function import Covariates
from graphrf.gp.model.observations import Observations
from graphrf.gp.model.problem import LatentProblem, NormalProblem
from graphrf.kernels.kernel import Kernel


class FittedModel(NamedTuple):
    """Data and hyperparameters of a fitted regressor: with its settings, all that is needed to
    condition again.
    """

    method: str  # the name of the method
    observations: Observations  # of y less `offset`
    offset: np.ndarray
    single: bool  # y had no axis of outputs
    kernel: Kernel
    output_scale: float
    noise: float
    mean_variance: float
    sampler: Any  # None without sampled rows
    seed: int
    log_marginal_likelihood: float | None  # None where the posterior computes it
    trained: bool  # training converged
    # those that predictions average; empty where the above are taken alone
    points: Sequence[Hyperparameters] = ()
    candidates: Sequence[ComparedKernel] = ()  # the compared kernels
    mean_precision: float = 0.0  # of the prior of the mean's coefficients, 0 where that is flat
    # if not normal; `observations` then approximate it by normal noise
    likelihood: Likelihood | None = None
    covariates: Covariates | None = None  # those that came with the observations

    @classmethod
    def of(
        cls,
        problem: NormalProblem | LatentProblem,
        explored: Explored,
        method: str,
        mean_variance: float,
    ) -> FittedModel:
        """The model of a problem, from the posterior of its hyperparameters, computed by a method.

        `mean_variance` is that of the most probable kernel, 1 without `normalize`.
        """
        best, output_scale = explored.best, problem.output_scale
        return cls(
            method=method,
            observations=problem.observations,
            offset=problem.offset,
            single=problem.single,
            kernel=best.kernel,
            output_scale=best.amplitude * mean_variance if output_scale is None else output_scale,
            noise=best.noise,
            mean_variance=mean_variance,
            sampler=explored.sampler,
            seed=problem.seed,
            log_marginal_likelihood=None,
            trained=explored.converged,
            points=explored.points,
            candidates=explored.compared,
            likelihood=best.likelihood,
            covariates=problem.covariates,
        )

    @property
    def amplitude(self) -> float:
        """Factor of the kernel before normalisation."""
        return self.output_scale / self.mean_variance

    @property
    def parts(self) -> list[FittedModel]:
        """The model at each of its points, or itself."""
        return [self.at(point) for point in self.points] or [self]

    def at(self, point: Hyperparameters) -> FittedModel:
        """The model at the hyperparameters of a point, without the other points."""
        return self._replace(
            kernel=point.kernel,
            output_scale=point.output_scale,
            noise=point.noise,
            mean_variance=point.output_scale / point.amplitude,
            points=(),
            observations=self.observations if point.observations is None else point.observations,
            likelihood=point.likelihood,
        )

    def conditions(self, basis: np.ndarray) -> dict[str, Any]:
        """The keywords of a posterior, with a basis of the mean at all nodes."""
        return {
            "noise": self.noise,
            "basis": basis,
            "offset": self.offset,
            "mean_precision": self.mean_precision,
        }
