"""Hyperparameters of a Gaussian process, and kernels that were compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from graphrf.gp.likelihoods.likelihood import Likelihood
from graphrf.gp.model.observations import Observations
from graphrf.kernels.kernel import Kernel


class Hyperparameters(NamedTuple):
    """One set of hyperparameters.

    Attributes
    ----------
    kernel : Kernel
    amplitude : float
        The factor of the kernel as it is: output scale over the kernel's mean variance.
    output_scale : float
        Per mean variance of K over all nodes; in training, over the nodes that it sees.
    noise : float
    weight : float
        Its posterior probability.
    likelihood : Likelihood or None
        If it is not normal, with its parameters.
    observations : Observations or None
        Of normal noise, whose posterior is then that of the approximation to another likelihood.
    """

    kernel: Kernel
    amplitude: float
    output_scale: float
    noise: float
    weight: float
    likelihood: Likelihood | None = None
    observations: Observations | None = None


class ComparedKernel(NamedTuple):
    """A kernel that training compared.

    Attributes
    ----------
    kernel : Kernel
        With its most probable hyperparameters.
    log_evidence : float
        The logarithm of its tempered likelihood, averaged over the prior of its hyperparameters, up to a constant
        that all kernels share.
    probability : float
        Posterior probability among the kernels compared, all equally probable a priori.
    """

    kernel: Kernel
    log_evidence: float
    probability: float


class Explored(NamedTuple):
    """The posterior of hyperparameters.

    Attributes
    ----------
    best : Hyperparameters
        With averages: the most probable kernel, and the posterior means of output scale and noise. Else the most
        probable ones of all.
    points : sequence of Hyperparameters
        Those averaged over, with their probabilities; none if the best are taken alone.
    compared : sequence of ComparedKernel
        The most probable first.
    converged : bool
    sampler : Sampler or None
        Of the posterior's rows.
    """

    best: Hyperparameters
    points: Sequence[Hyperparameters]
    compared: Sequence[ComparedKernel]
    converged: bool = True
    sampler: Any = None
