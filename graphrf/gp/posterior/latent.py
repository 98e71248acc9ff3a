"""The posterior under a likelihood that is not normal, as one under artificial observations with
normal noise.
"""

from __future__ import annotations

from collections.abc import Callable

from graphrf._base.blas import linear_algebra
from graphrf._base.warn import warn
from graphrf.gp.model.fitted_model import FittedModel
from graphrf.gp.model.problem import LatentProblem
from graphrf.gp.posterior.approximation.expectation_propagation import (
    Approximation,
    LatentPrior,
    approximate,
    independent_sites,
)


def approximated(
    problem: LatentProblem, model: FittedModel, prior_of: Callable[[FittedModel], LatentPrior]
) -> FittedModel:
    """The model with observations whose posterior, under normal noise, is that of the problem: at
    its best hyperparameters, and at each point averaged over.

    `prior_of` makes the prior of the latent function for the hyperparameters of a model.
    """
    model = model._replace(mean_precision=problem.prior_std**-2)
    best = _approximation(problem, model, prior_of(model))
    points, settled = [], best.settled
    for point in model.points:
        part = model.at(point)
        approximation = _approximation(problem, part, prior_of(part))
        points.append(point._replace(observations=approximation.observations(problem.responses)))
        settled = settled and approximation.settled
    return model._replace(
        observations=best.observations(problem.responses),
        trained=model.trained and settled,
        log_marginal_likelihood=best.log_evidence,
        points=points,
    )


def _approximation(problem: LatentProblem, model: FittedModel, prior: LatentPrior) -> Approximation:
    """The posterior of the latent function at the observed nodes with known hyperparameters."""
    responses, likelihood = problem.responses, model.likelihood
    assert likelihood is not None
    sites = independent_sites(responses, likelihood, problem.prior_std)
    with linear_algebra(responses.nodes.size, problem.n_threads):
        result = approximate(prior, responses, likelihood, sites)
    if not result.settled:
        warn(
            f"the normal approximation of the posterior with {model.kernel!r} had not settled: in "
            f"the last round a mean still moved by {result.change:.0%} of its deviation, or a "
            "deviation by half of that, and intervals there are as uncertain; is there an "
            "observation far from all others?"
        )
    return result
