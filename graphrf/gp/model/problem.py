"""The problem of a fit: everything that is known once its arguments are checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from graphrf._base import checks
from graphrf._base.cached import cached_property
from graphrf._base.warn import warn
from graphrf.gp.likelihoods.counts import Poisson
from graphrf.gp.likelihoods.likelihood import Likelihood
from graphrf.gp.model.estimator import checked_weights, refuse_features
from graphrf.gp.model.likelihoods import checked_likelihood
from graphrf.gp.model.mean_function import Covariates, MeanFunction
from graphrf.gp.model.notices import warn_of_differing_repeats, warn_of_exposures
from graphrf.gp.model.observations import Observations, SeparateObservations
from graphrf.gp.model.prior import HyperparameterPrior
from graphrf.gp.model.responses import Responses, checked_responses
from graphrf.gp.model.settings import checked_noise, checked_prior, checked_targets, is_normalized
from graphrf.graph.alignment import Rows, for_all_nodes, observed_rows
from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel

# The prior deviation of the constant, and of the trend's coefficients in deviations of a covariate,
# in units of f. With a larger one large rates would be probable where all counts are zero.
_SPREAD = 3.0


@dataclass(frozen=True)
class Problem:
    """A Gaussian process on the nodes of a graph, with observations."""

    graph: Graph
    # those to be compared, each with its trained hyperparameters
    kernels: Sequence[tuple[Kernel, tuple[str, ...]]]
    mean: MeanFunction
    covariates: Covariates | None
    offset: np.ndarray  # (p,) constant subtracted from the observations, or from f
    single: bool  # y had no axis of outputs
    output_scale: float | None  # None trains it
    normalize: bool  # an output scale multiplies K over its mean variance
    prior: HyperparameterPrior
    averages: bool  # hyperparameters are averaged over; else the most probable ones are taken
    max_train: int
    seed: int
    n_threads: int | None
    # of the observations, in the order of the arguments; None where these are the nodes
    labels: Any = field(default=None, kw_only=True)

    @property
    def nodes(self) -> np.ndarray:
        """The observed nodes, distinct and increasing."""
        raise NotImplementedError

    @property
    def n_observations(self) -> int:
        """All of them, repeats counted."""
        raise NotImplementedError

    @property
    def separate(self) -> SeparateObservations:
        """The observations one by one, in the order of the arguments."""
        raise NotImplementedError

    @property
    def trained(self) -> bool:
        """True if there are hyperparameters to learn."""
        return len(self.kernels) > 1 or bool(self.kernels[0][1]) or self.output_scale is None


@dataclass(frozen=True)
class NormalProblem(Problem):
    """Observations with normal noise."""

    positions: np.ndarray  # (n,) observed nodes; repeats are repeated observations
    values: np.ndarray  # (n, p) observed values less `offset`
    precisions: np.ndarray | None  # (n,) relative to 1 / noise
    noise: float | None  # None trains it

    @cached_property
    def observations(self) -> Observations:
        """All of them."""
        return Observations.of(self.positions, self.values, self.mean.basis, self.precisions)

    @property
    def nodes(self) -> np.ndarray:
        return self.observations.nodes

    @property
    def n_observations(self) -> int:
        return int(self.positions.size)

    @property
    def separate(self) -> SeparateObservations:
        n, precisions = self.positions.size, self.precisions
        return SeparateObservations(
            np.searchsorted(self.nodes, self.positions),
            self.values,
            np.ones(n) if precisions is None else precisions,
            np.zeros(n),
            self.labels,
        )

    def at(self, nodes: np.ndarray) -> Observations:
        """Observations at some nodes."""
        here = np.isin(self.positions, nodes)
        precisions = None if self.precisions is None else self.precisions[here]
        return Observations.of(self.positions[here], self.values[here], self.mean.basis, precisions)

    @property
    def trained(self) -> bool:
        return super().trained or self.noise is None

    @cached_property
    def unit(self) -> float:
        """The variance of the observations about their mean function, in which variances are
        measured.
        """
        return self.observations.variance() or 1.0

    def learnable(self) -> NormalProblem:
        """The problem; with nothing to learn, and a warning, if the observations do not vary about
        their mean.
        """
        if not self.trained or self.observations.varies:
            return self
        output_scale, noise = assumed_variances(self.output_scale, self.noise)
        return replace(
            self, kernels=[(self.kernels[0][0], ())], output_scale=output_scale, noise=noise
        )


@dataclass(frozen=True)
class LatentProblem(Problem):
    """Observations with another likelihood."""

    responses: Responses
    likelihood: Likelihood
    unit: float  # prior deviation of the latent function

    @cached_property
    def observations(self) -> Observations:
        """Values of 0 at the observed nodes, before an approximation replaces them."""
        nodes = self.responses.nodes
        return Observations.of(nodes, np.zeros((nodes.size, 1)), self.mean.basis)

    @property
    def nodes(self) -> np.ndarray:
        return self.responses.nodes

    @property
    def n_observations(self) -> int:
        return int(self.responses.place.size)

    @property
    def separate(self) -> SeparateObservations:
        place, y, offset = self.responses.place, self.responses.y, self.responses.offset
        return SeparateObservations(place, y, np.ones(place.size), offset, self.labels)

    @property
    def prior_std(self) -> float:
        """The prior deviation of the mean's coefficients."""
        return _SPREAD * self.unit

    @property
    def trained(self) -> bool:
        return super().trained or bool(self.likelihood.unknown)


def make_problem(
    gp: Any,
    kernels: Sequence[tuple[Kernel, tuple[str, ...]]],
    nodes: Any,
    y: Any,
    *,
    x: Any = None,
    sample_weight: Any = None,
    exposure: Any = None,
    trials: Any = None,
) -> NormalProblem | LatentProblem:
    """The problem of a regressor whose settings are checked, once the arguments of its
    `fit` are.
    """
    likelihood = checked_likelihood(gp.likelihood)
    if likelihood is None:
        refuse_counts(exposure, trials)
    elif sample_weight is not None:
        raise checks.value_error(
            "sample_weight", f"is for Gaussian noise; {likelihood!r} has `exposure` and `trials`"
        )
    elif gp.noise is not None:
        raise checks.value_error(
            "noise", f"is for likelihood='gaussian'; {likelihood!r} has parameters of its own"
        )

    for kernel, _ in kernels:
        kernel.check_graph(gp.graph)
    if y is not None:
        refuse_features(gp.graph, nodes)
    positions, y, rows = observed_rows(gp.graph, nodes, y)
    covariates = None if x is None else Covariates.of(x, rows, positions, gp.graph.n_nodes)
    if likelihood is None:
        return _normal(gp, kernels, positions, y, covariates, rows, sample_weight)

    mean = _mean(gp, np.unique(positions), covariates, rows)
    exposure, trials = rows.numbers("exposure", exposure), rows.numbers("trials", trials)
    y, offset = checked_responses(likelihood, positions.size, y, exposure, trials)
    if exposure is not None:
        warn_of_exposures("exposure", exposure)

    # The logarithms of larger counts are so precise that less than three digits are left to the
    # prior.
    if isinstance(likelihood, Poisson) and y.max(initial=0.0) > 1e13:
        raise checks.value_error(
            "y",
            f"must be counts of at most 10^13 with likelihood='poisson', got {y.max():g}: use "
            "likelihood='negative_binomial', or 'log_normal' for amounts",
        )

    warn_of_differing_repeats(likelihood, positions, y, offset)
    middle = likelihood.start(y, offset) if mean.basis.shape[1] else 0.0
    return LatentProblem(
        gp.graph,
        kernels,
        mean,
        covariates,
        np.array([middle]),
        single=True,
        **_shared(gp, kernels),
        labels=rows.labels if rows.labelled else None,
        likelihood=likelihood,
        responses=Responses.of(positions, y, offset + middle, mean.basis),
        unit=likelihood.unit(y),
    )


def _normal(
    gp: Any,
    kernels: Sequence[tuple[Kernel, tuple[str, ...]]],
    positions: np.ndarray,
    y: Any,
    covariates: Covariates | None,
    rows: Rows,
    sample_weight: Any,
) -> NormalProblem:
    values, single = checked_targets(y, positions.size)
    noise, precisions = checked_noise(rows.numbers("noise", gp.noise), positions.size)
    weights = checked_weights(rows.numbers("sample_weight", sample_weight), positions.size)
    labels = rows.labels if rows.labelled else None

    if weights is not None:
        precisions = weights if precisions is None else precisions * weights
        kept = weights > 0
        positions, values, precisions = positions[kept], values[kept], precisions[kept]
        if labels is not None and not kept.all():
            labels = [label for label, stays in zip(labels, kept, strict=True) if stays]

    distinct = np.unique(positions)
    if covariates is not None:
        covariates = covariates.only(distinct)
    mean = _mean(gp, distinct, covariates, rows)
    values, offset = mean.centred(values)

    return NormalProblem(
        gp.graph,
        kernels,
        mean,
        covariates,
        offset,
        single,
        **_shared(gp, kernels),
        labels=labels,
        positions=positions,
        values=values,
        precisions=precisions,
        noise=noise,
    )


def _mean(gp: Any, observed: np.ndarray, covariates: Covariates | None, rows: Rows) -> MeanFunction:
    mean = for_all_nodes(gp.graph, "mean", gp.mean, labelled=rows.labelled)
    return MeanFunction.of(mean, gp.graph.n_nodes, observed, covariates)


def _shared(gp: Any, kernels: Sequence[tuple[Kernel, tuple[str, ...]]]) -> dict[str, Any]:
    """Settings that both problems keep."""
    return {
        "output_scale": None if gp.output_scale is None else float(gp.output_scale),
        "normalize": is_normalized(gp.numerics, kernels[0][0]),
        "prior": checked_prior(gp.prior),
        "averages": gp.hyperparameters == "average",
        "max_train": gp.numerics.max_train,
        "seed": checks.seed(gp.seed),
        "n_threads": gp.numerics.n_threads,
    }


def assumed_variances(output_scale: float | None, noise: float | None) -> tuple[float, float]:
    """Output scale and noise for values that do not vary; it warns."""
    output_scale = 1.0 if output_scale is None else output_scale
    noise = 0.1 * output_scale if noise is None else noise
    warn(
        "`y` does not vary about its mean, so no hyperparameters can be learned: output_scale "
        f"{output_scale:g} and noise {noise:g} are used; set `output_scale` and `noise` to what is "
        "known"
    )
    return output_scale, noise


def refuse_counts(exposure: Any, trials: Any) -> None:
    """Refuse arguments that normal noise has no use for."""
    for name, given in (("exposure", exposure), ("trials", trials)):
        if given is not None:
            raise checks.value_error(
                name, "is for counts: set `likelihood`, as to 'poisson' or 'binomial'"
            )
