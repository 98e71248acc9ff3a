"""A posterior of f plus its mean function, whichever way it was computed."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from graphrf.operators.solvers import Solution


class Law(NamedTuple):
    """Normal distributions of f + H beta at each of q nodes under one set of hyperparameters."""

    probability: float  # of the hyperparameters
    means: np.ndarray  # (q, p)
    variances: np.ndarray  # (q,)


class Posterior(Protocol):
    """f + H beta given p outputs at the observed nodes; H, (N, b), is the basis of the mean."""

    solver: str  # "cholesky" or "cg"
    solution: Solution  # of the system that gave the means
    noise: float  # the mean over sets of hyperparameters
    n_outputs: int  # p
    coefficients: np.ndarray  # (b, p) posterior means of beta
    coefficients_covariance: np.ndarray  # (b, b), averaged over outputs where these differ

    @property
    def log_likelihood(self) -> float:
        """The log marginal likelihood of the observations; NaN where it is not known."""
        ...

    def with_basis(self, basis: np.ndarray) -> Self:
        """A copy with another basis of the mean at queried nodes."""
        ...

    def means(self, nodes: np.ndarray, bar: Any = None) -> np.ndarray:
        """Posterior means, shape (q, p); `bar` counts the nodes."""
        ...

    def variances(self, nodes: np.ndarray, bar: Any = None) -> np.ndarray:
        """Variances at distinct nodes, shape (q,), or (q, p) where outputs differ."""
        ...

    def sampled_variances(self, rng: np.random.Generator, bar: Any = None) -> np.ndarray:
        """Variances at all N nodes, estimated from draws where exact ones cost more."""
        ...

    def covariances(self, nodes: np.ndarray) -> np.ndarray:
        """The joint covariance at distinct nodes, shape (q, q), averaged over outputs."""
        ...

    def laws(
        self, nodes: np.ndarray, rng: np.random.Generator | None, bar: Any = None
    ) -> list[Law]:
        """The distributions under each set of hyperparameters; with `rng`, of sampled variances."""
        ...

    def leave_one_out_moments(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Means (m, p) and variances (m,) of f + H beta at each observed node, given the
        observations of all other nodes, under each set of hyperparameters.
        """
        ...

    def draws_and_parts(
        self, nodes: np.ndarray, n_samples: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Joint draws, (n_samples, q, p), and the set of hyperparameters of each, by position."""
        ...

    def draw_bytes(self, n_samples: int) -> float:
        """Memory beside the draws while they are made, in bytes."""
        ...
