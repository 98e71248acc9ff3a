"""Hyperparameters of a Gaussian process, and kernels that were compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from graphrf.gp.likelihoods.likelihood import Likelihood
from graphrf.gp.model.observations import Observations
from graphrf.kernels.kernel import Kernel


class Hyperparameters(NamedTuple):
    """One set of hyperparameters."""

    kernel: Kernel
    amplitude: float  # factor of the unscaled kernel: output scale over mean variance
    # per mean variance of K over all nodes; in training, over the training nodes
    output_scale: float
    noise: float
    weight: float  # posterior probability
    likelihood: Likelihood | None = None  # None for normal noise
    # of the normal noise that approximates another likelihood
    observations: Observations | None = None


class ComparedKernel(NamedTuple):
    """A kernel that training compared.

    Attributes
    ----------
    kernel : Kernel
        With its most probable hyperparameters.
    log_evidence : float
        The logarithm of its tempered likelihood, averaged over the prior of its hyperparameters, up
        to a constant that all kernels share.
    probability : float
        Posterior probability among the kernels compared, all equally probable a priori.
    """

    kernel: Kernel
    log_evidence: float
    probability: float


class Explored(NamedTuple):
    """The posterior of hyperparameters."""

    # the most probable, or with averages the most probable kernel and posterior mean variances
    best: Hyperparameters
    # those that predictions average; empty if the best are taken alone
    points: Sequence[Hyperparameters]
    compared: Sequence[ComparedKernel]  # the most probable first
    converged: bool = True
    sampler: Any = None  # of the posterior's rows, or None
