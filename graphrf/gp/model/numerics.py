"""Numerical settings of a regressor, and the unit of its output scale."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from graphrf.sampling.protocol import Sampler


@dataclass(frozen=True)
class Numerics:
    """Numerical settings of a `GraphGPRegressor`; the defaults give correct results.

    Examples
    --------
    >>> import graphrf as grf
    >>> line = grf.from_edges([0, 1], [1, 2])
    >>> gp = grf.GraphGPRegressor(line, seed=0, numerics=grf.gp.Numerics(tol=1e-8, n_threads=1))
    >>> gp.set_params(numerics__solver="cg").numerics.solver
    'cg'

    Parameters
    ----------
    normalize : bool, optional
        Whether K is divided by its mean variance over all nodes, so that `output_scale` is the mean
        variance of f. Default: for all kernels but the areal ones. Where the scale is trained,
        predictions do not depend on it.
    sampler : RandomWalks, CompressedPowers, CutPowers, ExactPowers or any `Sampler`, optional
        For the method "features". Default: compressed powers of 64 to 512 entries, as many as
        training can afford, with as many steps as the trained kernel needs to lose at most a
        thousandth of sum |f_k| (an error of K of at most 0.2 %), up to 128. With any sampler
        training ends, with a warning, at the lengthscale for which the variance of the rows is a
        quarter of the diagonal of K.
    feature_sampler : callable, optional
        Samples the rows of the observed nodes for the posterior: called as
        `graphrf.sample_features` (the default) with graph, sampler, `nodes`, `seed`, `n_threads`
        and `dtype`, it returns an object whose `factor(n_threads=)` is a
        `graphrf.operators.Factor`, which may be on a cluster. For the method "features", which
        "auto" then takes, and conjugate gradients. It is not saved.
    max_train : int
        Maximum number m of distinct observed nodes whose joint likelihood `hyperparameters="mode"`
        maximises by the series or by features, at m^3 operations per step; of more, blocks of 250
        are treated as independent.
    solver : {"auto", "cholesky", "cg"}
        For the posterior. "auto": Cholesky up to 7,000 distinct observed nodes m (with the series,
        while 40 nnz(W) m is below 5e10), else preconditioned conjugate gradients: with a function
        of the Laplacian as preconditioner if nodes are observed evenly all over the graph, else
        with 200 columns of K.
    tol : float
        Relative residual at which conjugate gradients stop.
    max_iterations : int
        Maximum number of conjugate-gradient iterations; a `SolverWarning` is given if they do not
        suffice.
    std_method : {"auto", "exact", "sampled"}
        Standard deviations. "exact", to the solver's tolerance: with conjugate gradients, a solve
        for every queried node. "sampled": from 64 posterior draws at all nodes, made at the first
        request; variances are unbiased, and standard deviations have relative standard errors of at
        most 9 %. "auto": exact for up to 64 nodes, and for more with Cholesky, by series or
        features while 40 nnz(W) multiply-adds for each column of K are below 5e10 in all, else
        sampled. There is a column for each node and set of hyperparameters; by series at most one
        for each observed node and set, and one for each node.
    n_threads : int, optional
        Default: the cores that the process may use.
    """

    normalize: bool | None = None
    sampler: Sampler | None = None
    feature_sampler: Callable[..., Any] | None = None
    max_train: int = 1000
    solver: str = "auto"
    tol: float = 1e-6
    max_iterations: int = 1000
    std_method: str = "auto"
    n_threads: int | None = None
