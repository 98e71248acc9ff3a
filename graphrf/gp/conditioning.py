"""From known hyperparameters and observations to the posterior."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from graphrf._base.blas import linear_algebra
from graphrf._base.memory import require_memory
from graphrf.gp.inference.covariance import Covariance
from graphrf.gp.inference.observations import Observations
from graphrf.gp.inference.posterior import Posterior
from graphrf.gp.inference.rows import RootRows
from graphrf.gp.inference.solvers import (
    CholeskySolver,
    ConjugateGradients,
    IterativeSolver,
    nystrom_preconditioner,
)
from graphrf.gp.inference.spectral_solver import SpectralCG, evenly_observed
from graphrf.gp.method_choice import choose_solver
from graphrf.gp.progress import CountedRows, Step
from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel
from graphrf.kernels.series import mean_variance

_PRECONDITIONER_RANK = 200
# Probes for the mean variance: its error falls as 1 / sqrt(probes x nodes).
_PROBES = 64
_PROBE_NUMBERS = 4_000_000


class Conditions(NamedTuple):
    """What a fitted regressor rests on, besides its settings: all that is needed to condition anew.

    Attributes
    ----------
    observations : Observations
        Of y less `offset`.
    offset : ndarray, shape (p,)
    single : bool
        Whether y had no axis of outputs.
    kernel : Kernel
    output_scale, noise, mean_variance : float
    sampler : Sampler or None
        None for the series.
    seed : int
    log_marginal_likelihood : float
    trained : bool
        Whether training converged.
    """

    observations: Observations
    offset: np.ndarray
    single: bool
    kernel: Kernel
    output_scale: float
    noise: float
    mean_variance: float
    sampler: Any
    seed: int
    log_marginal_likelihood: float
    trained: bool

    @property
    def amplitude(self) -> float:
        """What multiplies the kernel as it is."""
        return self.output_scale / self.mean_variance

    @property
    def method(self) -> str:
        """ "series" or "features"."""
        return "series" if self.sampler is None else "features"


def normaliser(graph: Graph, kernel: Kernel, seed: int) -> float:
    """The mean variance of K over the nodes, exact up to 1,000 of them."""
    probes = int(np.clip(_PROBE_NUMBERS // graph.n_nodes, 2, _PROBES))
    return mean_variance(graph, kernel, n_probes=probes, seed=seed).value


def condition(
    graph: Graph,
    given: Conditions,
    basis: np.ndarray,
    *,
    solver: str,
    tol: float,
    max_iterations: int,
    n_threads: int | None,
    draw: Callable[..., Any] | None = None,
    step: Step | None = None,
) -> tuple[Posterior, float]:
    """The posterior, and a bound on what a cut of the series costs the prior in units of the output scale.

    `basis` is the mean function's at all nodes, whose first column, if there is one, is 1: so that predictions are
    about the values as they were before `offset` was taken off. The rest are settings of `GraphGPRegressor`, its
    `draw`, and what is called for each iteration of conjugate gradients. The same arguments
    give the same posterior: what is drawn depends on the seed only.
    """
    observations, kernel = given.observations, given.kernel
    size = observations.nodes.size
    if solver == "auto":
        solver = choose_solver(graph, given.method, size)
    if solver == "cholesky":
        draw = None  # the whole matrix is here
        require_memory(
            16.0 * size**2,  # beside the matrix, rows on the way to it, then its order turned for LAPACK
            f"the covariance matrix of {size} observed nodes",
            "pass solver='cg', or fewer observations",
        )
    covariance = Covariance.of(
        graph, kernel, given.amplitude, sampler=given.sampler, seed=given.seed, n_threads=n_threads, draw=draw
    )
    with linear_algebra(size, n_threads):
        rows = covariance.rows(observations.nodes)
        made: CholeskySolver | IterativeSolver
        if solver == "cholesky":
            made = _cholesky(rows, given)
        else:
            options = {"tol": tol, "max_iterations": max_iterations}
            made = _conjugate_gradients(graph, given, covariance, rows, step, n_threads, options)
        posterior = Posterior(covariance, rows, made, observations, noise=given.noise, basis=basis)
    posterior.coefficients[:1] += given.offset
    return posterior, covariance.error / given.mean_variance


def _cholesky(rows: RootRows, given: Conditions) -> CholeskySolver:
    """The solver by the whole matrix of the observations' covariance."""
    try:
        return CholeskySolver(rows.dense(), given.noise / given.observations.counts)
    except np.linalg.LinAlgError:
        raise ValueError(
            f"the covariance of the observations with noise {given.noise:g} is singular to rounding: raise "
            "`noise` (a millionth of the variance of y is enough)"
        ) from None


def _conjugate_gradients(
    graph: Graph,
    given: Conditions,
    covariance: Covariance,
    rows: RootRows,
    step: Step | None,
    n_threads: int | None,
    options: dict[str, Any],
) -> IterativeSolver:
    """Conjugate gradients, preconditioned by what suits the observed nodes; `step` is called in each iteration."""
    products: Any = rows if step is None else CountedRows(rows, step)
    diagonal = given.noise / given.observations.counts
    every = np.arange(graph.n_nodes)

    def smooth(x: np.ndarray) -> np.ndarray:
        return covariance.root_values(every, covariance.root_values(every, x))

    if given.sampler is None and evenly_observed(smooth, given.observations.nodes, graph.n_nodes):
        return SpectralCG(graph, given.kernel, given.amplitude, products, diagonal, n_threads=n_threads, **options)
    rng = np.random.default_rng([given.seed, 1])  # not the stream that training draws from
    chosen, columns = rows.some_columns(_PRECONDITIONER_RANK, rng)
    return ConjugateGradients(
        lambda x: products.gram(x) + diagonal[:, None] * x,
        nystrom_preconditioner(columns, chosen, diagonal),
        **options,
    )
