"""Posteriors and priors of the methods by rows of a covariance, exact or sampled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from graphrf._base.blas import linear_algebra
from graphrf._base.memory import require_memory
from graphrf._base.warn import warn
from graphrf.gp.covariance.covariance import Covariance, shared_matrices
from graphrf.gp.covariance.rows import RootRows
from graphrf.gp.methods.costs import choose_solver
from graphrf.gp.methods.mean_variance import mean_variance
from graphrf.gp.model.fitted_model import FittedModel
from graphrf.gp.model.numerics import Numerics
from graphrf.gp.model.progress import Step
from graphrf.gp.model.responses import Responses
from graphrf.gp.posterior.approximation.expectation_propagation import LatentPrior
from graphrf.gp.posterior.approximation.priors import DensePrior, ProductPrior, with_mean
from graphrf.gp.posterior.cholesky import CholeskyPosterior
from graphrf.gp.posterior.iterative import IterativePosterior
from graphrf.gp.posterior.mixture import averaged
from graphrf.gp.posterior.protocol import Posterior
from graphrf.gp.posterior.single import N_DRAWS, SinglePosterior
from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel
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
# Prior draws of expectation propagation that are held at once.
_DRAWN = 16


class RowsMethod:
    """A method whose posteriors have rows of the prior covariance at the observed nodes."""

    name = ""
    precision = None

    def __init__(self, graph: Graph, n_threads: int | None) -> None:
        self._graph = graph
        self._n_threads = n_threads

    def covariances(
        self,
        kernels: Sequence[tuple[Kernel, float]],
        sampler: Any,
        seed: int,
        *,
        feature_sampler: Callable[..., Any] | None = None,
        normalize: bool = False,
        warns: bool = True,
    ) -> list[Covariance]:
        """Covariances by exact rows of the series."""
        last = longest([kernel for kernel, _ in kernels])
        return [
            Covariance.by_series(
                self._graph,
                kernel,
                amplitude,
                n_threads=self._n_threads,
                normalize=normalize,
                warns=warns and number == last,
            )
            for number, (kernel, amplitude) in enumerate(kernels)
        ]

    def mean_variance(self, kernel: Kernel, seed: int) -> float:
        """The mean prior variance over all nodes."""
        return mean_variance(self._graph, kernel, seed)

    def warn_of_rounding(self, kernels: Sequence[Kernel]) -> None:
        """Nothing is lost to rounding before the posterior, which warns itself."""

    def makes_matrix(self, n_observed: int) -> bool:
        """True if K among so many observed nodes is made as a matrix; else products serve."""
        return choose_solver(self._graph, self.name, n_observed) == "cholesky"

    def posterior(
        self, model: FittedModel, basis: np.ndarray, numerics: Numerics, step: Step | None
    ) -> tuple[Posterior, float]:
        """Posteriors by Cholesky factors or conjugate gradients."""
        parts, nodes = model.parts, model.observations.nodes
        dense = self._is_dense(nodes.size, numerics)

        if dense:
            require_memory(
                # the factors, and for one of them its matrix
                8.0 * (len(parts) + 1) * nodes.size**2,
                f"the covariance of {nodes.size} observed nodes for {len(parts)} sets of "
                "hyperparameters",
                "pass numerics=Numerics(solver='cg'), hyperparameters='mode', or fewer "
                "observations",
            )
        covariances = self._covariances(parts, dense, numerics)

        with linear_algebra(nodes.size, self._n_threads):
            if dense:
                posteriors: list[SinglePosterior] = _by_cholesky(
                    parts, covariances, basis, numerics
                )
            else:
                posteriors = self._by_conjugate_gradients(parts, covariances, basis, numerics, step)

        last = longest([part.kernel for part in parts])
        _warn_of_cut(parts[last].kernel, covariances[last].cut(parts[last].noise))
        errors = [
            covariance.error / part.mean_variance
            for part, covariance in zip(parts, covariances, strict=True)
        ]
        return averaged(posteriors, model.points, self._n_threads), max(errors)

    def prior(
        self, model: FittedModel, responses: Responses, prior_std: float, numerics: Numerics
    ) -> LatentPrior:
        """The prior of f + H b at the observed nodes, by their matrix or by products."""
        size = responses.nodes.size
        dense = self._is_dense(size, numerics)
        (covariance,) = self._covariances([model], dense, numerics, warns=False)
        rows, basis = covariance.rows(responses.nodes), prior_std * responses.basis
        if dense:
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
                of_nodes, of_basis = (
                    rng.standard_normal((n, _DRAWN)) for n in (rows.shape[1], basis.shape[1])
                )
                yield rows.apply(of_nodes) + basis @ of_basis, rng.standard_normal((size, _DRAWN))

        return ProductPrior(product, draws)

    def _is_dense(self, n_observed: int, numerics: Numerics) -> bool:
        """True if the settings, or costs, ask for the matrix of the observed nodes."""
        if numerics.solver == "auto":
            return self.makes_matrix(n_observed)
        return numerics.solver == "cholesky"

    def _covariances(
        self, parts: Sequence[FittedModel], dense: bool, numerics: Numerics, warns: bool = True
    ) -> list[Covariance]:
        """The prior covariances of sets of hyperparameters."""
        return self.covariances(
            [(part.kernel, part.amplitude) for part in parts],
            parts[0].sampler,
            parts[0].seed,
            # rows of which a matrix is made are here
            feature_sampler=None if dense else numerics.feature_sampler,
            warns=warns,
        )

    def _by_conjugate_gradients(
        self,
        parts: Sequence[FittedModel],
        covariances: Sequence[Covariance],
        basis: np.ndarray,
        numerics: Numerics,
        step: Step | None,
    ) -> list[SinglePosterior]:
        """The posteriors by products with the covariance of the observed nodes."""
        posteriors: list[SinglePosterior] = []
        for part, covariance in zip(parts, covariances, strict=True):
            observations = part.observations
            rows = covariance.rows(observations.nodes)
            columns = observations.n_outputs + observations.basis.shape[1]
            self._require_room(part, _SOLVED * self._graph.n_nodes * columns)
            solver = self._iterative_solver(part, covariance, rows, numerics, step)
            posteriors.append(
                IterativePosterior(covariance, rows, solver, observations, **part.conditions(basis))
            )
        return posteriors

    def _require_room(self, part: FittedModel, numbers: float) -> None:
        """Raise NoRoomError where so many numbers of a solve by products do not fit."""
        require_memory(
            8.0 * numbers,
            f"solving by conjugate gradients for {part.observations.nodes.size} observed nodes of "
            f"{self._graph.n_nodes}",
            "fit fewer outputs or observations, or on roads and meshes pass method='precision'",
        )

    def _iterative_solver(
        self,
        part: FittedModel,
        covariance: Covariance,
        rows: RootRows,
        numerics: Numerics,
        step: Step | None,
    ) -> IterativeSolver:
        """Conjugate gradients, preconditioned by some columns of K; `step` is called in each
        iteration.
        """
        self._require_room(part, 4 * _PRECONDITIONER_RANK * part.observations.nodes.size)
        diagonal = part.noise / part.observations.counts
        rng = np.random.default_rng([part.seed, 1])  # not the stream that training draws from
        chosen, columns = rows.some_columns(_PRECONDITIONER_RANK, rng)

        def product(x: np.ndarray) -> np.ndarray:
            if step is not None:
                step()
            return rows.gram(x) + diagonal[:, None] * x

        return ConjugateGradients(
            product,
            nystrom_preconditioner(columns, chosen, diagonal),
            tol=float(numerics.tol),
            max_iterations=int(numerics.max_iterations),
        )


def longest(kernels: Sequence[Kernel]) -> int:
    """The position of the kernel with the longest lengthscale."""
    return int(np.argmax([kernel.hyperparameters.get("lengthscale", 0.0) for kernel in kernels]))


def _by_cholesky(
    parts: Sequence[FittedModel],
    covariances: Sequence[Covariance],
    basis: np.ndarray,
    numerics: Numerics,
) -> list[SinglePosterior]:
    """The posteriors by the matrix of the observed nodes for each set of hyperparameters."""
    nodes = parts[0].observations.nodes
    matrices = shared_matrices(covariances, nodes)
    posteriors: list[SinglePosterior] = []

    for part, covariance, matrix in zip(parts, covariances, matrices, strict=True):
        rows = covariance.rows(nodes)
        try:
            solver = CholeskySolver(
                rows.dense() if matrix is None else matrix,
                part.noise / part.observations.counts,
                tol=float(numerics.tol),
            )
        except np.linalg.LinAlgError:
            raise ValueError(
                f"the covariance of the observations with noise {part.noise:g} is numerically "
                "singular: raise `noise` (a millionth of the variance of y is enough)"
            ) from None

        posteriors.append(
            CholeskyPosterior(covariance, rows, solver, part.observations, **part.conditions(basis))
        )
    return posteriors


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
