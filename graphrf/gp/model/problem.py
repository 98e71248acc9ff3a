"""The problem of a fit: everything that is known once its arguments are checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from graphrf._base import checks
from graphrf._base.cached import cached_property
from graphrf._base.warn import warn
from graphrf.gp.model.estimator import checked_weights
from graphrf.gp.model.mean_function import Covariates, MeanFunction, observed_with
from graphrf.gp.model.observations import Observations
from graphrf.gp.model.prior import HyperparameterPrior
from graphrf.gp.model.settings import checked_hyperprior, checked_noise, checked_targets
from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel


@dataclass(frozen=True)
class Problem:
    """A Gaussian process with normal noise on the nodes of a graph, and its observations.

    Attributes
    ----------
    graph : Graph, N nodes
    kernels : sequence of (Kernel, names)
        Those to be compared, each with the hyperparameters to be trained.
    positions : ndarray of int, shape (n,)
        The observed nodes; repeats are repeated observations.
    values : ndarray, shape (n, p)
        Observed values less `offset`.
    precisions : ndarray, shape (n,), optional
        Of the observations, relative to 1 / noise.
    mean : MeanFunction
    covariates : Covariates or None
    offset : ndarray, shape (p,)
    single : bool
        Whether y had no axis of outputs.
    output_scale, noise : float or None
        None trains them.
    normalize : bool
        Whether an output scale multiplies K over its mean variance.
    prior : HyperparameterPrior
    averages : bool
        Whether hyperparameters are averaged over; else the most probable ones are taken.
    max_train : int
    seed : int
    n_threads : int or None
    """

    graph: Graph
    kernels: Sequence[tuple[Kernel, tuple[str, ...]]]
    positions: np.ndarray
    values: np.ndarray
    precisions: np.ndarray | None
    mean: MeanFunction
    covariates: Covariates | None
    offset: np.ndarray
    single: bool
    output_scale: float | None
    noise: float | None
    normalize: bool
    prior: HyperparameterPrior
    averages: bool
    max_train: int
    seed: int
    n_threads: int | None

    @cached_property
    def observations(self) -> Observations:
        """All of them."""
        return Observations.of(self.positions, self.values, self.mean.basis, self.precisions)

    def at(self, nodes: np.ndarray) -> Observations:
        """Those at some nodes."""
        here = np.isin(self.positions, nodes)
        precisions = None if self.precisions is None else self.precisions[here]
        return Observations.of(self.positions[here], self.values[here], self.mean.basis, precisions)

    @property
    def trained(self) -> bool:
        """True if there are hyperparameters to learn."""
        several = len(self.kernels) > 1 or bool(self.kernels[0][1])
        return several or self.output_scale is None or self.noise is None

    @cached_property
    def unit(self) -> float:
        """The variance of the observations about their mean function, in which variances are measured."""
        return self.observations.variance() or 1.0

    @property
    def varies(self) -> bool:
        """True if the observations vary about their mean function, so that something can be learned."""
        largest = float(np.abs(self.observations.means).max())
        return self.observations.variance() > 1e-20 * largest**2

    def settled(self) -> Problem:
        """The same without anything to learn, for observations that do not vary; it warns."""
        output_scale = 1.0 if self.output_scale is None else self.output_scale
        noise = 0.1 * output_scale if self.noise is None else self.noise
        warn(
            "`y` does not vary about its mean, so no hyperparameters can be learned: output_scale "
            f"{output_scale:g} and noise {noise:g} are used; set `output_scale` and `noise` to what is known",
        )
        return replace(self, kernels=[(self.kernels[0][0], ())], output_scale=output_scale, noise=noise)


def make_problem(
    gp: Any, kernels: Sequence[tuple[Kernel, tuple[str, ...]]], nodes: Any, y: Any, x: Any, sample_weight: Any
) -> Problem:
    """The problem of a regressor whose settings are checked, once the arguments of its `fit` are."""
    positions, y, covariates = observed_with(gp.graph, nodes, y, x)
    values, single = checked_targets(y, positions.size)
    noise, precisions = checked_noise(gp.noise, positions.size)
    weights = checked_weights(sample_weight, positions.size)
    if weights is not None:
        precisions = weights if precisions is None else precisions * weights
        kept = weights > 0
        positions, values, precisions = positions[kept], values[kept], precisions[kept]
    distinct = np.unique(positions)
    if covariates is not None:
        covariates = covariates.only(distinct)
    mean = MeanFunction.of(gp.mean, gp.graph.n_nodes, distinct, covariates)
    values, offset = mean.centred(values)
    return Problem(
        gp.graph, kernels, positions, values, precisions, mean, covariates, offset, single,
        output_scale=None if gp.output_scale is None else float(gp.output_scale), noise=noise,
        normalize=gp.normalize, prior=checked_hyperprior(gp.prior), averages=gp.hyperparameters == "average",
        max_train=gp.max_train, seed=checks.seed(gp.seed), n_threads=gp.n_threads,
    )  # fmt: skip
