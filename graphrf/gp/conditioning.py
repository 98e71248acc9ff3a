"""From known hyperparameters and observations to the posterior."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from graphrf._base.blas import linear_algebra
from graphrf._base.memory import require_memory
from graphrf._base.warn import warn
from graphrf.features.bounds import tail_error
from graphrf.gp.inference.covariance import Covariance, Rows, SampledRows, SeriesRows
from graphrf.gp.inference.observations import Observations
from graphrf.gp.inference.posterior import Posterior, RootRows
from graphrf.gp.inference.solvers import ConjugateGradients, Gradients, nystrom_preconditioner
from graphrf.gp.inference.spectral_solver import SpectralGradients, evenly_observed
from graphrf.gp.method_choice import choose_solver
from graphrf.gp.progress import CountedRows, Step
from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel
from graphrf.kernels.series import mean_variance
from graphrf.kernels.truncation import series_length
from graphrf.sampling.sample import sample_features

# What the cut of the series should lose of sum |f_k|; what it may lose of it unsaid, and at all.
_SERIES_TAIL = 1e-11
_PRECONDITIONER_RANK = 200
_UNSAID = 0.01
_AT_ALL = 0.5
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
    size = given.observations.nodes.size
    if solver == "auto":
        solver = choose_solver(graph, given.method, size)
    if solver == "cholesky":
        require_memory(
            16.0 * size**2,  # beside the matrix, rows on the way to it, then its order turned for LAPACK
            f"the covariance matrix of {size} observed nodes",
            "pass solver='cg', or fewer observations",
        )
    scale = graph.laplacian_scale(given.kernel.laplacian)
    exact_length = length = series_length(given.kernel, scale, _SERIES_TAIL)
    _check_share(given.kernel, exact_length, scale)
    exact = SeriesRows(graph, given.kernel.laplacian, given.kernel.modulation(exact_length + 1, scale), n_threads)
    rows: Rows = exact
    if given.sampler is not None:
        length = given.sampler.survival.max_length
        if draw is None or solver == "cholesky":  # which has the whole matrix here
            draw = sample_features
        rows = SampledRows(graph, given.sampler, given.seed, exact, n_threads, draw)
    amplitude = given.output_scale / given.mean_variance
    covariance = Covariance(rows, given.kernel.modulation(length + 1, scale), amplitude)
    observed = given.observations.nodes

    def gradients(rows: RootRows, diagonal: np.ndarray) -> Gradients:
        features: Any = rows if step is None else CountedRows(rows, step)
        options: dict[str, Any] = {"tol": tol, "max_iterations": max_iterations}
        every = np.arange(graph.n_nodes)

        def smooth(x: np.ndarray) -> np.ndarray:
            return exact.values(every, exact.values(every, x))

        if given.sampler is None and evenly_observed(smooth, observed, graph.n_nodes):
            return SpectralGradients(
                graph, given.kernel, amplitude, features, diagonal, n_threads=n_threads, **options
            )
        rng = np.random.default_rng([given.seed, 1])  # not the stream that training draws from
        chosen, columns = features.some_columns(_PRECONDITIONER_RANK, rng)
        return ConjugateGradients(
            lambda x: features.gram(x) + diagonal[:, None] * x,
            nystrom_preconditioner(columns, chosen, diagonal),
            **options,
        )

    with linear_algebra(size, n_threads):
        posterior = Posterior(
            covariance, given.observations,
            noise=given.noise, basis=basis, gradients=gradients if solver == "cg" else None,
        )  # fmt: skip
    posterior.coefficients[:1] += given.offset
    return posterior, tail_error(given.kernel, length, scale) / given.mean_variance


def _check_share(kernel: Kernel, length: int, scale: float) -> None:
    """Refuse kernels of whose series next to nothing is left, and warn of those that lose a share of it."""
    lost = kernel.modulation_tail(length, scale) / kernel.modulation_tail(-1, scale)
    if lost <= _UNSAID:
        return
    message = f"{length} terms of the series of {kernel!r} leave out {lost:.2g} of its coefficients' sum: "
    if lost > _AT_ALL:
        raise ValueError(f"{message}shorten the lengthscale of `kernel` (K is nearly constant on components)")
    warn(
        f"{message}variances are too small by up to twice that share; shorten the lengthscale of `kernel`",
    )
