"""Gaussian-process regression on graph and time: gaps, other places and forecasts."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from graphrf._base import checks
from graphrf._base.blas import blas_threads
from graphrf._base.memory import needs_memory, require_memory
from graphrf._base.threads import thread_count
from graphrf._base.types import NodesLike, TimesLike
from graphrf.gp.model.estimator import forget
from graphrf.gp.model.notices import FEW, warn_of_no_edges, warn_of_nothing, warn_of_placeholders
from graphrf.gp.model.progress import step_bar
from graphrf.gp.model.settings import AUTO
from graphrf.gp.time.calibration import warn_of_few_values, warn_of_misfit
from graphrf.gp.time.covariance import GridCovariance, Sensors, Separable
from graphrf.gp.time.data import (
    Clock,
    Columns,
    Grid,
    check_series,
    checked_grid,
    clock_of,
    grid_arguments,
    later_arguments,
    values_of_sensors,
)
from graphrf.gp.time.gaps import ObservedCells
from graphrf.gp.time.graph_kernels import GraphCovariance, LearnedCovariance
from graphrf.gp.time.posterior import TimePosterior, check_converged
from graphrf.gp.time.predictor import LESS_MEMORY, TimePredictor
from graphrf.gp.time.training.ascent import default_values
from graphrf.gp.time.training.search import TrainingGrid, train
from graphrf.gp.time.training.start import Start, checked_settings
from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel

_LARGEST_SENSORS = 5_000


_without_covariates = checks.without(
    ("mean", "x", "likelihood", "exposure", "trials"),
    "is no argument here: for covariates and counts through time take LatentGaussianModel('count "
    "~ 1 + weekend', [Nodes(graph, Matern(nu=1.0)), Steps('hour', 'ar1')], likelihood='poisson')",
)


class GraphTimeGPRegressor(TimePredictor, BaseEstimator):
    r"""A Gaussian process on graph and time: fills gaps, predicts at other nodes, forecasts.

    .. math:: y(u, t) = c + f(u, t) + \varepsilon, \quad
              \mathrm{cov}(f(u, t), f(v, t')) = \sum_p (a_p C_{uv} + b_p \delta_{uv})\, k_p(t -
              t'), \quad
              \varepsilon \sim N(0, s).

    C is a graph kernel with mean variance 1. Each temporal component p has a variance a_p shared
    along the graph, and a variance b_p of individual nodes. Times and lengthscales are in hours.

    Examples
    --------
    >>> import numpy as np, graphrf as grf
    >>> line = grf.from_edges(range(5), range(1, 6))
    >>> times = np.arange(48.0)                                    # hours
    >>> Y = np.sin(times[:, None] / 6 + np.arange(6) / 4)
    >>> Y[10:20, 2] = np.nan
    >>> gp = grf.gp.GraphTimeGPRegressor(line, kernel=grf.Diffusion(2.0), seed=0).fit(
    ...     Y, times=times
    ... )
    >>> mean, std = gp.predict([2], times[10:20], return_std=True)
    >>> bool(np.abs(mean[:, 0] - np.sin(times[10:20] / 6 + 0.5)).max() < 0.1)
    True

    Parameters
    ----------
    graph : Graph
        Undirected, N nodes.
    kernel : "auto", "diffusion", "matern", "regularized_laplacian" or Kernel
        "auto" compares diffusion and Matern kernels, and from 100 times on mixes C with the
        sensors' empirical covariance. A name compares lengthscales of one kernel; a Kernel is not
        changed.
    time_kernel : "auto", TimeKernel, Part, or sequence of them
        "auto": a constant, daily and weekly profiles from two days and three weeks on, and four
        Matern processes. Kernels are starting points; a `Part` also has the variances.
    noise : float, optional
        Initial noise variance, or with `optimize=False` the noise variance.
    transform : {"sqrt", "log", "yeo-johnson", "auto"}, optional
        For skewed readings, a transform T: the model, `noise` and `Part`s are of T(y), predictions
        of y. "auto" takes that of largest likelihood, or none.
    optimize : bool
        Whether hyperparameters are trained; with False, Kernel, Parts and noise are used unchanged.
    max_train : int, optional
        Approximate number of values used in training. Default: the larger of 600 times and 20,000
        values, at most 60,000 values.
    n_draws : int
        Largest number of draws (at least 8) for standard deviations with gaps: a relative error of
        sqrt(1 / (2 n_draws)).
    tol : float
        Relative residual of conjugate gradients.
    seed, n_threads : int, optional
    progress : bool
        Show progress of training on standard error.

    Attributes
    ----------
    kernel_ : Kernel
    parts_ : tuple of Part
        Each with `kernel`, `shared` (a_p) and `own` (b_p).
    noise_, mean_ : float
        s, and c, the mean of the sensors' means; of T(y), like `parts_`.
    transform_ : str or None
    learned_ : float
        The weight of the empirical covariance in C among sensors.
    log_marginal_likelihood_ : float
        Log marginal likelihood of the training times; NaN with `optimize=False`. With gaps: of
        completed grids.
    converged_ : bool
        Of training and conjugate gradients.
    residual_ : float
        Relative residual; 0 for direct solves.
    times_ : ndarray, shape (T,)
        Hours, or datetime64 in UTC.
    sensors_ : ndarray of int
        Nodes with values.
    n_observations_, seed_ : int

    Notes
    -----
    c is treated as known. Check the coverage of intervals at nodes without a sensor by leaving
    sensors out.

    Sources: Särkkä, Solin and Hartikainen 2013; Le and Zidek 1992.
    """

    @_without_covariates
    def __init__(
        self,
        graph: Graph,
        kernel: Kernel | str = "auto",
        time_kernel: Any = "auto",
        *,
        noise: float | None = None,
        transform: str | None = None,
        optimize: bool = True,
        max_train: int | None = None,
        n_draws: int = 48,
        tol: float = 1e-3,
        seed: int | None = None,
        n_threads: int | None = None,
        progress: bool = False,
    ) -> None:
        self.graph = graph
        self.kernel = kernel
        self.time_kernel = time_kernel
        self.noise = noise
        self.transform = transform
        self.optimize = optimize
        self.max_train = max_train
        self.n_draws = n_draws
        self.tol = tol
        self.seed = seed
        self.n_threads = n_threads
        self.progress = progress

    # -- fit ---------------------------------------------------------------------------------------

    @needs_memory(LESS_MEMORY)
    @_without_covariates
    def fit(
        self,
        Y: ArrayLike,
        times: TimesLike | None = None,
        y: ArrayLike | None = None,
        *,
        nodes: NodesLike | None = None,
    ) -> Self:
        """Train hyperparameters and condition on the observations.

        Parameters
        ----------
        Y : array_like, shape (T, n), DataFrame or DataArray
            NaN in gaps. A DataFrame (pandas) has times in its index and nodes in its columns; a
            DataArray (xarray) has times along the axis called time, else the first. With `y`, in
            long form: the node of each value.
        times : array_like, shape (T,), increasing
            Hours, or dates, which are counted in UTC. In long form the time of each value, in any
            order.
        y : array_like, optional
            The values in long form, `fit(nodes, times, y)`.
        nodes : nodes by position or name, shape (n,)
            Nodes of the columns. Default: all nodes, if there are as many columns.

        Raises
        ------
        ValueError, TypeError
            For repeated or decreasing times, mixed time zones, unknown or repeated nodes, labels
            that differ from `times` or `nodes`, infinite values, and data without any value.

        Warns
        -----
        UserWarning
            If ten sensors or more are explained as well without the graph; if values are few, or
            are not as the model predicts, so that intervals are unreliable; and for sensors with
            one value throughout.
        """
        kernels = checked_settings(self)
        forget(
            self, ("_posterior", "_grid", "_hours", "_clock", "_covariance", "_trained", "_columns")
        )

        positions, stamps, values = grid_arguments(self.graph, Y, times, y, nodes)
        columns = Columns.of(positions, Y)
        warn_of_no_edges(self.graph)

        warn_of_placeholders("Y", values, "make them NaN")
        clock = clock_of(stamps)
        hours = clock.hours(stamps)
        grid = checked_grid(positions, hours, values)
        n = grid.nodes.size
        if n > _LARGEST_SENSORS:
            limit = (
                f"must hold at most {_LARGEST_SENSORS} observed ones, got {n}: C is a dense matrix "
                "of them"
            )
            raise checks.value_error("nodes", limit)

        seed = checks.seed(self.seed)
        covariance = GraphCovariance(self.graph, seed)
        start, threads = Start.of(self), thread_count(self.n_threads)
        scale = start.scale(self.transform, grid, covariance, kernels, seed, threads)
        grid = grid._replace(values=scale.forward(grid.values))

        mask = ~np.isnan(grid.values)
        mean = float(np.nanmean(np.nanmean(grid.values, axis=0)))
        residual = np.where(mask, grid.values - mean, 0.0)
        model = start.model(grid, float(residual[mask].var()))
        kernel, value, trained = kernels[0], np.nan, True

        if self.optimize:
            matrices = covariance.blocks(kernels, grid.nodes)
            # the bits depend on the number of threads; Kalman filters have their own
            with blas_threads(1), step_bar("training", self.progress) as bar:
                data = TrainingGrid(
                    residual, mask, grid.times, matrices.__getitem__, seed, threads, bar.update
                )
                most = default_values(n) if self.max_train is None else int(self.max_train)
                result = train(data, model, kernels, most, self.kernel == AUTO)
            model, kernel, value, trained = result[:4]
            if n >= FEW:  # any two of few sensors are about equally far apart
                warn_of_nothing(
                    result.log_factor, int(mask.sum()), "Y", "sensors that are all equally alike"
                )
            if result.learned is not None:
                weight, own_correlation, matrix = result.learned[1:4]
                covariance = LearnedCovariance(
                    covariance, kernel, grid.nodes, weight, own_correlation, matrix
                )

        self._columns, self._scale = columns, scale
        self._settle(grid, hours, clock, covariance, kernel, model, mean, seed, value, trained)
        if self.optimize:
            warn_of_few_values(model, self.n_observations_, grid.values.size)
        warn_of_misfit(self._posterior, mean, grid, hours, self.graph)
        return self

    def _settle(
        self,
        grid: Grid,
        hours: np.ndarray,
        clock: Clock,
        covariance: GraphCovariance,
        kernel: Kernel,
        model: Separable,
        mean: float,
        seed: int,
        value: float,
        trained: bool,
        before: TimePosterior | None = None,
    ) -> None:
        """The posterior for known hyperparameters, and all fitted attributes."""
        mask = ~np.isnan(grid.values)
        d = sum(sum(kernel.blocks()) for kernel in model.kernels)
        require_memory(
            8.0 * mask.size * (d + 6),
            f"the filter of {mask.shape[1]} sensors at {mask.shape[0]} times",
            "fit fewer times, or a time kernel of fewer states",
        )

        with blas_threads(1):
            if before is None:
                sensors = Sensors.of(
                    covariance.block(kernel, grid.nodes, grid.nodes), covariance.own_correlation
                )
            else:
                sensors = before.covariance.sensors
            cells = ObservedCells(
                GridCovariance(model, sensors, grid.times, thread_count(self.n_threads)),
                mask,
                float(self.tol),
            )
            residual = np.where(mask, grid.values - mean, 0.0)
            posterior = TimePosterior(cells, residual, int(self.n_draws), seed, before=before)
            solution = posterior.outcome

        check_converged(solution, float(self.tol))
        self._posterior, self._grid, self._clock, self._covariance = (
            posterior,
            grid,
            clock,
            covariance,
        )
        self._hours = hours
        self._trained = trained
        self.learned_ = covariance.weight if isinstance(covariance, LearnedCovariance) else 0.0
        self.kernel_, self.parts_, self.noise_, self.mean_ = kernel, model.parts, model.noise, mean
        self.log_marginal_likelihood_ = value
        self.converged_ = trained and solution.converged
        self.residual_ = solution.residual
        self.sensors_, self.transform_ = grid.nodes, self._scale.name
        self.n_observations_ = int(mask.sum())
        self.seed_ = seed

    @needs_memory(LESS_MEMORY)
    def update(
        self,
        Y: ArrayLike,
        times: TimesLike | None = None,
        y: ArrayLike | None = None,
        *,
        nodes: NodesLike | None = None,
    ) -> Self:
        """Condition on later observations, keeping the hyperparameters and the sensors of the fit.

        The posterior is that of a fit to all data with these hyperparameters. Where each time has
        all sensors or none, a new time costs O(n d^2), and so do forecasts; other gaps take a solve
        that starts from the previous one.

        Parameters
        ----------
        Y, times, y, nodes
            As in `fit`, at times after all previous ones. Columns of an array are those of `fit`;
            sensors without a column in a data frame have gaps.

        Raises
        ------
        ValueError
            For times that are not later, and for values at nodes without a value in `fit`, which
            need a new fit.
        """
        self._check_fitted()
        positions, stamps, values = later_arguments(self.graph, self._columns, Y, times, y, nodes)
        hours = self._clock.hours(stamps)
        check_series(positions, hours, values)
        values, grid = values_of_sensors(self.graph, self.sensors_, positions, values), self._grid
        check_series(
            grid.nodes, np.concatenate([self._hours[-1:], hours]), np.pad(values, ((1, 0), (0, 0)))
        )

        values = self._scale.forward(values)
        self._hours = np.concatenate([self._hours, hours])
        if np.isnan(values).all():
            return self

        joined = checked_grid(
            grid.nodes, np.concatenate([grid.times, hours]), np.concatenate([grid.values, values])
        )
        model = Separable(self.parts_, self.noise_)
        self._settle(
            joined,
            self._hours,
            self._clock,
            self._covariance,
            self.kernel_,
            model,
            self.mean_,
            self.seed_,
            self.log_marginal_likelihood_,
            self._trained,
            self._posterior,
        )
        return self

    @property
    def times_(self) -> np.ndarray:
        self._check_fitted()
        return self._clock.times(self._hours)
