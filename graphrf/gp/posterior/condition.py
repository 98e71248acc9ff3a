"""The posterior from known hyperparameters and observations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from graphrf._base.blas import blas_threads, linear_algebra
from graphrf._base.memory import require_memory
from graphrf._base.threads import ordered_map, thread_count
from graphrf._base.warn import warn
from graphrf.gp.likelihoods.likelihood import Likelihood
from graphrf.gp.model.hyperparameters import ComparedKernel, Explored, Hyperparameters
from graphrf.gp.model.mean_function import Covariates
from graphrf.gp.model.observations import Observations
from graphrf.gp.model.problem import LatentProblem, NormalProblem, Problem
from graphrf.gp.model.progress import Step
from graphrf.gp.posterior.by_precision import PrecisionPosterior
from graphrf.gp.posterior.cholesky import CholeskyPosterior
from graphrf.gp.posterior.iterative import IterativePosterior
from graphrf.gp.posterior.mixture import MixturePosterior
from graphrf.gp.posterior.protocol import Posterior
from graphrf.gp.posterior.single import SinglePosterior
from graphrf.gp.posterior.spectral_solver import SpectralCG, evenly_observed
from graphrf.gp.routes.costs import choose_solver
from graphrf.gp.routes.covariance import Covariance, SampledSource, shared_matrices
from graphrf.gp.routes.normaliser import normaliser
from graphrf.gp.routes.protocol import Route
from graphrf.gp.routes.rows import RootRows
from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel
from graphrf.operators.precision.areal import precision_of
from graphrf.operators.precision.protocol import KernelPrecision
from graphrf.operators.solvers import (
    CholeskySolver,
    ConjugateGradients,
    IterativeSolver,
    nystrom_preconditioner,
)

_PRECONDITIONER_RANK = 200
# Numbers that solves hold for each node and column.
_SOLVED = 12
# Largest change by the cut of a root's series without a warning, relative to prior covariance and
# noise.
_CUT = 0.01


class FittedModel(NamedTuple):
    """Data and hyperparameters of a fitted regressor: with its settings, all that is needed to
    condition again.
    """

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
    points: Sequence[
        Hyperparameters
    ] = ()  # those that predictions average; empty where the above are taken alone
    candidates: Sequence[ComparedKernel] = ()  # the compared kernels
    sparse: bool = False  # the posterior is that of the kernel's sparse precision
    mean_precision: float = 0.0  # of the prior of the mean's coefficients, 0 where that is flat
    likelihood: Likelihood | None = (
        None  # if not normal; `observations` then approximate it by normal noise
    )
    covariates: Covariates | None = None  # those that came with the observations

    @property
    def amplitude(self) -> float:
        """Factor of the kernel before normalisation."""
        return self.output_scale / self.mean_variance

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

    @property
    def method(self) -> str:
        """ "series", "precision" or "features"."""
        if self.sparse:
            return "precision"
        return "series" if self.sampler is None else "features"


def known(problem: Problem, route: Route) -> Explored:
    """The hyperparameters of a problem that has none to learn."""
    kernel, output_scale = problem.kernels[0][0], problem.output_scale
    assert output_scale is not None
    by = (
        normaliser(problem.graph, kernel, problem.seed, route.precision)
        if problem.normalize
        else 1.0
    )
    best = Hyperparameters(kernel, output_scale / by, output_scale, 1.0, 1.0)
    if isinstance(problem, NormalProblem):
        assert problem.noise is not None
        best = best._replace(noise=problem.noise)
    elif isinstance(problem, LatentProblem):
        best = best._replace(likelihood=problem.likelihood)
    sampler = route.sampler_for([kernel], problem.nodes.size, None)
    route.check(kernel, sampler, problem.nodes, problem.seed)
    return Explored(best, [], [ComparedKernel(kernel, 0.0, 1.0)], sampler=sampler)


def fitted_model(
    problem: Problem, route: Route, explored: Explored, observations: Observations
) -> FittedModel:
    """The fitted model of a problem, from its posterior of hyperparameters."""
    best, precision = explored.best, route.precision
    if precision is not None:
        precision = precision.with_kernel(best.kernel)
        precision.warn_of_rounding()
    mean_variance, output_scale = 1.0, problem.output_scale
    if problem.normalize and not problem.trained:
        mean_variance = best.output_scale / best.amplitude
    elif problem.normalize:
        mean_variance = normaliser(problem.graph, best.kernel, problem.seed, precision)
    return FittedModel(
        observations=observations,
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
        sparse=precision is not None,
        covariates=problem.covariates,
    )


def condition(
    graph: Graph,
    model: FittedModel,
    basis: np.ndarray,
    *,
    solver: str,
    tol: float,
    max_iterations: int,
    n_threads: int | None,
    feature_sampler: Callable[..., Any] | None = None,
    step: Step | None = None,
    precision: KernelPrecision | None = None,
) -> tuple[Posterior, float]:
    """The posterior, and a bound on the error of a truncated series in units of the output scale.

    `basis` is the mean function's at all nodes, with ones first if there are any, so that
    predictions include `offset`; the rest are settings of `GraphGPRegressor`. The same arguments
    give the same posterior.
    """
    parts = [model.at(point) for point in model.points] or [model]
    if model.sparse:
        return _joined(
            _by_precision(graph, parts, basis, precision, n_threads), model, n_threads
        ), 0.0
    nodes = model.observations.nodes
    if solver == "auto":
        solver = choose_solver(graph, model.method, nodes.size)
    if solver == "cholesky":
        feature_sampler = None  # the whole matrix is here
        require_memory(
            8.0 * (len(parts) + 1) * nodes.size**2,  # the factors, and for one of them its matrix
            f"the covariance of {nodes.size} observed nodes for {len(parts)} sets of "
            "hyperparameters",
            "pass numerics=Numerics(solver='cg'), hyperparameters='mode', or fewer observations",
        )
    longest = max(parts, key=lambda part: part.kernel.hyperparameters.get("lengthscale", 0.0))
    sampled = SampledSource.of(graph, model.sampler, model.seed, n_threads, feature_sampler)
    covariances = [
        Covariance.of(
            graph,
            part.kernel,
            part.amplitude,
            n_threads=n_threads,
            sampled=sampled,
            warns=part is longest,
        )
        for part in parts
    ]
    options = {"tol": tol, "max_iterations": max_iterations}
    posteriors: list[SinglePosterior] = []
    with linear_algebra(nodes.size, n_threads):
        known = shared_matrices(covariances, nodes) if solver == "cholesky" else [None] * len(parts)
        for part, covariance, matrix in zip(parts, covariances, known, strict=True):
            rows = covariance.rows(nodes)
            conditions: Any = {
                "noise": part.noise,
                "basis": basis,
                "offset": part.offset,
                "mean_precision": part.mean_precision,
            }
            if solver == "cholesky":
                exact = _cholesky(rows.dense() if matrix is None else matrix, part, tol)
                posterior: SinglePosterior = CholeskyPosterior(
                    covariance, rows, exact, part.observations, **conditions
                )
            else:
                iterative = _conjugate_gradients(
                    graph, part, covariance, rows, step, n_threads, options
                )
                posterior = IterativePosterior(
                    covariance, rows, iterative, part.observations, **conditions
                )
            posteriors.append(posterior)
            if part is longest:
                _warn_of_cut(part.kernel, covariance.cut(part.noise))
    errors = [
        covariance.error / part.mean_variance
        for part, covariance in zip(parts, covariances, strict=True)
    ]
    return _joined(posteriors, model, n_threads), max(errors)


def _warn_of_cut(kernel: Kernel, cut: float) -> None:
    """Warn where the cut of a root's series changes the prior covariance by more than a
    hundredth.
    """
    if cut > _CUT:
        warn(
            f"the series of the root of {kernel!r} had to be cut, which moves the prior covariance "
            f"by up to {cut:.2g} of itself and the noise: means and standard deviations may be off "
            "by as much; raise `noise`, or use a kernel whose root is smooth, such as Matern or "
            "Diffusion"
        )


def _joined(
    posteriors: Sequence[SinglePosterior], model: FittedModel, n_threads: int | None
) -> Posterior:
    """The average of the posteriors at all points, if there are points."""
    if not model.points:
        return posteriors[0]
    return MixturePosterior(
        posteriors, np.array([point.weight for point in model.points]), n_threads
    )


def _by_precision(
    graph: Graph,
    parts: Sequence[FittedModel],
    basis: np.ndarray,
    precision: KernelPrecision | None,
    n_threads: int | None,
) -> list[PrecisionPosterior]:
    """The posteriors by the sparse precisions of kernels, which share their orders of
    elimination.
    """
    first = precision_of(graph, parts[0].kernel) if precision is None else precision
    own = [first.with_kernel(part.kernel) for part in parts]
    entries = sum(
        each.own_elimination.n_entries for each in own
    )  # orders are computed before threads need them
    require_memory(
        8.0 * entries,
        f"holding the sparse factors of {len(parts)} sets of hyperparameters",
        "pass hyperparameters='mode', or method='series'",
    )

    def made(number: int) -> PrecisionPosterior:
        part = parts[number]
        return PrecisionPosterior(
            own[number],
            part.amplitude,
            part.observations,
            noise=part.noise,
            basis=basis,
            offset=part.offset,
            mean_precision=part.mean_precision,
        )

    with blas_threads(1):  # bits must not depend on the number of threads
        return list(ordered_map(made, range(len(parts)), thread_count(n_threads)))


def _cholesky(matrix: np.ndarray, model: FittedModel, tol: float) -> CholeskySolver:
    """The solver by the whole matrix of the observations' covariance."""
    try:
        return CholeskySolver(matrix, model.noise / model.observations.counts, tol=tol)
    except np.linalg.LinAlgError:
        raise ValueError(
            f"the covariance of the observations with noise {model.noise:g} is numerically "
            "singular: raise `noise` (a millionth of the variance of y is enough)"
        ) from None


def _conjugate_gradients(
    graph: Graph,
    model: FittedModel,
    covariance: Covariance,
    rows: RootRows,
    step: Step | None,
    n_threads: int | None,
    options: dict[str, Any],
) -> IterativeSolver:
    """Conjugate gradients, preconditioned by what suits the observed nodes; `step` is called in
    each iteration.
    """
    observations = model.observations
    columns = observations.n_outputs + observations.basis.shape[1]
    what = f"solving by conjugate gradients for {observations.nodes.size} observed nodes of {graph.n_nodes}"
    way_out = "fit fewer outputs or observations, or on roads and meshes pass method='precision'"
    require_memory(8.0 * _SOLVED * graph.n_nodes * columns, what, way_out)
    diagonal = model.noise / model.observations.counts
    every = np.arange(graph.n_nodes)

    def smooth(x: np.ndarray) -> np.ndarray:
        return covariance.root_values(every, covariance.root_values(every, x))

    if model.sampler is None and evenly_observed(smooth, model.observations.nodes, graph.n_nodes):
        series = covariance.series
        return SpectralCG(
            graph,
            model.kernel,
            model.amplitude,
            rows,
            diagonal,
            model.observations.nodes,
            rough=None if series is None else series.rough,
            step=step,
            n_threads=n_threads,
            **options,
        )
    require_memory(8.0 * 4 * _PRECONDITIONER_RANK * observations.nodes.size, what, way_out)
    rng = np.random.default_rng([model.seed, 1])  # not the stream that training draws from
    chosen, columns = rows.some_columns(_PRECONDITIONER_RANK, rng)

    def product(x: np.ndarray) -> np.ndarray:
        if step is not None:
            step()
        return rows.gram(x) + diagonal[:, None] * x

    return ConjugateGradients(product, nystrom_preconditioner(columns, chosen, diagonal), **options)
