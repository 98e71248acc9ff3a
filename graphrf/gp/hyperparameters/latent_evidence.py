"""The evidence of hyperparameters where the likelihood is not normal, by expectation
propagation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from graphrf.gp.hyperparameters.likelihood_search import MeanVariance
from graphrf.gp.hyperparameters.space import Model
from graphrf.gp.likelihoods.likelihood import Likelihood
from graphrf.gp.methods.gram import Gram
from graphrf.gp.model.progress import Step
from graphrf.gp.model.responses import Responses
from graphrf.gp.posterior.approximation.expectation_propagation import (
    ENOUGH,
    Sites,
    approximate,
    independent_sites,
)
from graphrf.gp.posterior.approximation.priors import DensePrior, with_mean
from graphrf.gp.posterior.approximation.sparse import SparsePrior
from graphrf.operators.precision.protocol import KernelPrecision


class LatentEvidence(Protocol):
    """log p(y | hyperparameters) of some observations."""

    def amplitude(self, model: Model) -> float:
        """The factor of the kernel as it is: output scale over mean variance."""
        ...

    def gradient(self, model: Model, names: tuple[str, ...]) -> tuple[float, np.ndarray]:
        """The evidence and its derivatives; -inf and zeros where it cannot be computed.

        They are in the kernel's named hyperparameters, then the logarithms of the output scale and
        of the likelihood's unknown parameters.
        """
        ...


@dataclass
class DenseEvidence:
    """Evidence of independent blocks of observations, from the matrix K at the nodes of each."""

    grams: Sequence[Gram]
    responses: Sequence[Responses]
    mean_variance: MeanVariance  # of K before the output scale
    prior_std: float
    unknown: tuple[str, ...]  # parameters of the likelihood
    step: Step | None = None  # called at every evaluation

    def amplitude(self, model: Model) -> float:
        return (
            model.output_scale
            / self.mean_variance(model.kernel, (), [g(model.kernel, ()) for g in self.grams])[0]
        )

    def gradient(self, model: Model, names: tuple[str, ...]) -> tuple[float, np.ndarray]:
        if self.step is not None:
            self.step()
        matrices = [gram(model.kernel, names) for gram in self.grams]
        mean_variance, slopes = self.mean_variance(model.kernel, names, matrices)
        nothing = -np.inf, np.zeros(len(names) + 1 + len(self.unknown))
        if not (np.isfinite(mean_variance) and mean_variance > 0):  # the modulation underflows
            return nothing

        scale = model.output_scale / mean_variance
        value, gradient = 0.0, nothing[1]
        for (matrix, changes), responses in zip(matrices, self.responses, strict=True):
            prior = DensePrior(with_mean(scale * matrix, responses.basis, self.prior_std))
            try:
                sites = independent_sites(responses, model.likelihood, self.prior_std)
                approximation = approximate(prior, responses, model.likelihood, sites)
            except np.linalg.LinAlgError:
                return nothing

            slope = prior.slope(approximation.sites.precision, approximation.weights)
            log_scale = scale * float(np.vdot(slope, matrix))
            kernel = [
                scale * float(np.vdot(slope, change)) for change in changes
            ] - log_scale * slopes / mean_variance
            parameters = [
                approximation.slope(responses, model.likelihood, name) for name in self.unknown
            ]
            value += approximation.log_evidence
            gradient = gradient + np.array([*kernel, log_scale, *parameters])

        return value, gradient


@dataclass
class SparseEvidence:
    """Evidence of all observations, from a sparse precision; attributes as in `DenseEvidence`."""

    precision: KernelPrecision
    responses: Responses
    mean_variance: MeanVariance
    prior_std: float
    unknown: tuple[str, ...]
    step: Step | None = None

    def amplitude(self, model: Model) -> float:
        return model.output_scale / self.mean_variance(model.kernel, (), [])[0]

    def gradient(self, model: Model, names: tuple[str, ...]) -> tuple[float, np.ndarray]:
        if self.step is not None:
            self.step()
        mean_variance, slopes = self.mean_variance(model.kernel, names, [])
        amplitude = model.output_scale / mean_variance
        precision = self.precision.with_kernel(model.kernel)
        prior = SparsePrior(precision, amplitude, self.responses, self.prior_std)
        try:
            sites = independent_sites(self.responses, model.likelihood, self.prior_std)
            result = approximate(prior, self.responses, model.likelihood, sites)
        except (np.linalg.LinAlgError, ValueError):  # numerically singular
            return -np.inf, np.zeros(len(names) + 1 + len(self.unknown))
        slopes_of_prior = prior.slopes(result.sites.precision, result.normal.variance, names)
        parameters = [result.slope(self.responses, model.likelihood, name) for name in self.unknown]
        kernel = slopes_of_prior.kernel - slopes_of_prior.log_amplitude * slopes / mean_variance
        return result.log_evidence, np.array([*kernel, slopes_of_prior.log_amplitude, *parameters])


def block_evidence(
    matrix: np.ndarray, responses: Responses, likelihood: Likelihood, prior_std: float, sites: Sites
) -> float:
    """The evidence of one block by K at its nodes, to about a hundredth of a nat; -inf where it
    cannot be had.
    """
    try:
        prior = DensePrior(with_mean(matrix, responses.basis, prior_std))
        result = approximate(prior, responses, likelihood, sites, enough=ENOUGH)
    except np.linalg.LinAlgError:
        return -np.inf
    return result.log_evidence if np.isfinite(result.log_evidence) else -np.inf
