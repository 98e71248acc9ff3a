"""The posterior under a likelihood that is not normal, as one under artificial observations with
normal noise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from graphrf._base.blas import linear_algebra
from graphrf._base.memory import require_memory
from graphrf._base.warn import warn
from graphrf.gp.model.hyperparameters import Explored
from graphrf.gp.model.observations import Observations
from graphrf.gp.model.problem import LatentProblem
from graphrf.gp.posterior.approximation.expectation_propagation import (
    Approximation,
    Prior,
    approximate,
    independent_sites,
)
from graphrf.gp.posterior.approximation.priors import DensePrior, ProductPrior, with_mean
from graphrf.gp.posterior.approximation.sparse import SparsePrior
from graphrf.gp.posterior.condition import FittedModel, fitted_model
from graphrf.gp.posterior.single import N_DRAWS
from graphrf.gp.routes.costs import choose_solver
from graphrf.gp.routes.covariance import Covariance, SampledSource
from graphrf.gp.routes.protocol import Route
from graphrf.operators.precision.protocol import KernelPrecision

# Posterior draws that are held at once for variances at observed nodes.
_DRAWN = 16


def approximated(
    problem: LatentProblem,
    route: Route,
    explored: Explored,
    solver: str,
    feature_sampler: Callable[..., Any] | None,
) -> FittedModel:
    """The conditions of a problem's posterior: of its best hyperparameters, and of each point
    averaged over.
    """
    nodes = problem.nodes
    without = Observations.of(nodes, np.zeros((nodes.size, 1)), problem.mean.basis)
    model = fitted_model(problem, route, explored, without)
    model = model._replace(
        points=(), mean_precision=problem.prior_std**-2, likelihood=explored.best.likelihood
    )
    own = _approximation(problem, model, route.precision, solver, feature_sampler)
    points, settled = [], own.settled
    for point in explored.points:
        at_point = _approximation(
            problem, model.at(point), route.precision, solver, feature_sampler
        )
        points.append(point._replace(observations=at_point.observations(problem.responses)))
        settled = settled and at_point.settled
    return model._replace(
        observations=own.observations(problem.responses),
        trained=model.trained and settled,
        log_marginal_likelihood=own.log_evidence,
        points=points,
    )


def _approximation(
    problem: LatentProblem,
    model: FittedModel,
    precision: KernelPrecision | None,
    solver: str,
    feature_sampler: Callable[..., Any] | None,
) -> Approximation:
    """The posterior of the latent function at the observed nodes with known hyperparameters."""
    responses, likelihood = problem.responses, model.likelihood
    assert likelihood is not None
    if precision is None:
        prior = _prior_by_rows(problem, model, solver, feature_sampler)
    else:
        prior = SparsePrior(
            precision.with_kernel(model.kernel), model.amplitude, responses, problem.prior_std
        )
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


def _prior_by_rows(
    problem: LatentProblem,
    model: FittedModel,
    solver: str,
    feature_sampler: Callable[..., Any] | None,
) -> Prior:
    """Prior of the latent function at the observed nodes."""
    responses, prior_std = problem.responses, problem.prior_std
    size = responses.nodes.size
    if solver == "auto":
        solver = choose_solver(problem.graph, model.method, size)
    elsewhere = None if solver == "cholesky" else feature_sampler
    covariance = Covariance.of(
        problem.graph,
        model.kernel,
        model.amplitude,
        n_threads=problem.n_threads,
        warns=False,
        sampled=SampledSource.of(
            problem.graph, model.sampler, model.seed, problem.n_threads, elsewhere
        ),
    )
    basis = prior_std * responses.basis
    rows = covariance.rows(responses.nodes)
    if solver == "cholesky":
        require_memory(
            24.0 * size**2,
            f"the covariance matrix of {size} observed nodes",
            "pass numerics=Numerics(solver='cg'), or fewer",
        )
        matrix = rows.dense()
        return DensePrior(with_mean(0.5 * (matrix + matrix.T), responses.basis, prior_std))

    def product(x: np.ndarray) -> np.ndarray:
        return np.asarray(rows.gram(x) + basis @ (basis.T @ x))

    def draws() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        rng = np.random.default_rng([model.seed, 3])
        for _ in range(N_DRAWS // _DRAWN):
            shared, own = (
                rng.standard_normal((n, _DRAWN)) for n in (rows.shape[1], basis.shape[1])
            )
            yield rows.apply(shared) + basis @ own, rng.standard_normal((size, _DRAWN))

    return ProductPrior(product, draws)
