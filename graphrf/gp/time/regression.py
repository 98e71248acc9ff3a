"""Gaussian-process regression on graph and time: gaps, other places and forecasts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from graphrf._base import checks
from graphrf._base.blas import blas_threads
from graphrf._base.memory import needs_memory, require_memory
from graphrf._base.threads import thread_count
from graphrf._base.warn import warn
from graphrf.gp.model.answers import check_deviations, checked_bounds, checked_levels
from graphrf.gp.model.estimator import forget
from graphrf.gp.model.notices import FEW, warn_of_no_edges, warn_of_nothing, warn_of_placeholders
from graphrf.gp.model.progress import step_bar
from graphrf.gp.model.settings import AUTO
from graphrf.gp.posterior.by_rows import LARGEST_JOINT
from graphrf.gp.posterior.marginals import Marginals
from graphrf.gp.time.calibration import concerns, standardised_errors
from graphrf.gp.time.covariance import GridCovariance, Part, Sensors, Separable
from graphrf.gp.time.data import (
    Clock,
    Columns,
    Grid,
    as_grid,
    as_it_came,
    checked_grid,
    clock_of,
    has_labels,
    long_form,
    require_sound,
)
from graphrf.gp.time.gaps import ObservedCells
from graphrf.gp.time.graph_kernels import GraphCovariance, LearnedCovariance, candidate_kernels
from graphrf.gp.time.kernels import TimeKernel
from graphrf.gp.time.posterior import Places, TimePosterior, check_converged
from graphrf.gp.time.response_scale import TRANSFORMS, ResponseScale
from graphrf.gp.time.saved import SavedTime
from graphrf.gp.time.training.ascent import default_values
from graphrf.gp.time.training.search import Task, automatic_parts, log_density, train
from graphrf.graph.alignment import shown
from graphrf.graph.graph import Graph, given_nodes, require_graph
from graphrf.graph.tables import index_of
from graphrf.kernels.kernel import Kernel

_LESS_MEMORY = "fit or ask for fewer times or nodes at a time"
_LARGEST_SENSORS = 5_000


class GraphTimeGPRegressor(SavedTime, BaseEstimator):
    r"""A Gaussian process on graph and time, which fills gaps, predicts at other nodes, and forecasts.

    .. math:: y(u, t) = c + f(u, t) + \varepsilon, \quad
              \mathrm{cov}(f(u, t), f(v, t')) = \sum_p (a_p C_{uv} + b_p \delta_{uv})\, k_p(t - t'), \quad
              \varepsilon \sim N(0, s).

    C is a graph kernel with mean variance 1. Each temporal component p (a level, a daily profile, slow and fast
    processes) has a variance a_p that is shared along the graph, and a variance b_p per node that the graph does
    not explain. All times and lengthscales are in hours. If the covariance of sensors is learned (`learned_`),
    the variation per node may be correlated too: delta is then :math:`B \propto C (C + \kappa I)^{-1}`, so that
    only sensors that nearly coincide share it.

    Parameters
    ----------
    graph : Graph
        Undirected, N nodes.
    kernel : "auto", "diffusion", "matern", "regularized_laplacian" or Kernel
        "auto" compares diffusion and Matern kernels of six lengthscales by the likelihood, and from 100 times on
        mixes C with the sensors' empirical covariance, in the proportion under which each half of the times is
        most likely given the covariance of the other half. A name compares lengthscales of one kernel; a Kernel is
        used unchanged.
    time_kernel : "auto", TimeKernel, Part, or sequence of them
        "auto": a constant, a daily profile if the times span two days, a weekly one if they span three weeks, and
        four Matern processes whose initial lengthscales are multiples of the median step. Given kernels are
        starting points for training; a `Part` also gives the variances.
    noise : float, optional
        Initial noise variance for training, or the noise variance itself with `optimize=False`.
    transform : {"sqrt", "log", "yeo-johnson", "auto"}, optional
        For skewed readings, such as concentrations or counts of vehicles: the model is of T(y), and predictions
        are in the units of y; `noise` and `Part`s are in those of T(y). The mean is that of T^-1(f), or for
        `return_std="observation"` of a new reading, by quadrature; quantiles, probabilities and draws are those
        of T(y), taken back. "auto" compares the densities of the readings under no transform and under those
        whose domain holds them. Yeo and Johnson's exponent is estimated by scikit-learn's `PowerTransformer`.
    optimize : bool
        Whether hyperparameters are trained. With False, the given Kernel, Parts and noise are used unchanged.
    max_train : int, optional
        Approximate number of values used in training: runs of twelve consecutive times, evenly spread. Default:
        600 times or 20,000 values, whichever is more, and at most 60,000 values.
    n_draws : int
        Largest number of draws for standard deviations if there are gaps. Part of a variance is exact; draws, 8 at
        least, are made until what they contribute adds a relative error of sqrt(1 / (2 n_draws)) on average.
    tol : float
        Relative residual of conjugate gradients.
    seed : int, optional
    n_threads : int, optional
        Number of threads. Default: the cores that the process may use.
    progress : bool
        Show progress of training on standard error: evaluations of the likelihood.

    Attributes
    ----------
    kernel_ : Kernel
    parts_ : tuple of Part
        Each with `kernel`, `shared` (a_p) and `own` (b_p).
    noise_, mean_ : float
        s, and c: the mean of the sensors' means; both, like `parts_`, of T(y) where there is a transform.
    transform_ : str or None
        The transform T.
    learned_ : float
        The share of the empirical covariance in C among sensors. Nodes without a sensor inherit it through the
        graph kernel's prediction of them from the sensors (Le and Zidek 1992).
    log_marginal_likelihood_ : float
        Log marginal likelihood of the training times; NaN with `optimize=False`. With gaps, that of completed
        grids; with a learned covariance of sensors, that of each half of the times given the other half.
    converged_ : bool
        Whether training and conjugate gradients converged within their limits.
    residual_ : float
        Relative residual of the solve; 0 for direct solves.
    times_ : ndarray, shape (T,)
        All times that were given: hours, or datetime64 in UTC.
    sensors_ : ndarray of int
        Nodes with at least one value.
    n_observations_ : int
    seed_ : int

    Notes
    -----
    If at each time all sensors were observed, or none, eigenvectors of C make independent state-space models with
    d states: fits cost O(n^3 + n T d^2) for n sensors and T times, and standard deviations are exact. With other
    gaps, conjugate gradients find the missing values in O(n^2 T + n T d) per step, and standard deviations come
    from draws with a solve each. For a week of traffic at 207 sensors every five minutes, about 15 steps suffice,
    whether 30 or 70 % of the values are missing at random or sensors fail for days. Hyperparameters then come from
    Monte Carlo expectation maximisation, with up to 15 rounds and 8 to 12 more for the covariance of sensors, a
    fixed number that `converged_` does not judge. Memory: n T d numbers. Irregular times cost a transition matrix
    for each distinct step. The constant c is treated as known. Intervals at nodes without a sensor depend on the
    graph kernel: check their coverage at sensors that are left out.

    Sources: Hartikainen and Särkkä 2010; Särkkä, Solin and Hartikainen 2013, "Spatiotemporal learning via
    infinite-dimensional Bayesian filtering and smoothing"; Le and Zidek 1992, "Interpolation with uncertain
    spatial covariances: a Bayesian alternative to Kriging".

    Examples
    --------
    >>> import numpy as np, graphrf as grf
    >>> line = grf.from_edges(range(5), range(1, 6))
    >>> times = np.arange(48.0)                                    # hours
    >>> Y = np.sin(times[:, None] / 6 + np.arange(6) / 4)
    >>> Y[10:20, 2] = np.nan
    >>> gp = grf.gp.GraphTimeGPRegressor(line, kernel=grf.Diffusion(2.0), seed=0).fit(Y, times=times)
    >>> mean, std = gp.predict([2], times[10:20], return_std=True)
    >>> bool(np.abs(mean[:, 0] - np.sin(times[10:20] / 6 + 0.5)).max() < 0.1)
    True
    """

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

    @needs_memory(_LESS_MEMORY)
    def fit(self, Y: Any, times: Any = None, y: Any = None, *, nodes: Any = None) -> Self:
        """Train hyperparameters and condition on the observations.

        Parameters
        ----------
        Y : array_like, shape (T, n), DataFrame or DataArray
            NaN in gaps. A DataFrame (pandas) brings its index as times and its columns as nodes, a DataArray
            (xarray) the coordinates of its axes, of which the one called time, else the first, is that of times.
            Labels that differ from given `times` or `nodes` are refused. With `y`, in long form: the node of each
            value.
        times : array_like, shape (T,), increasing
            Hours, or dates, which are counted in UTC. In long form the time of each value, in any order.
        y : array_like, optional
            The values in long form, `fit(nodes, times, y)`.
        nodes : nodes by position or name, shape (n,)
            Nodes of the columns. Default: all nodes, if there are as many columns.

        Raises
        ------
        ValueError, TypeError
            For repeated or decreasing times, mixed time zones, unknown or repeated nodes, infinite values, and
            data without any value.

        Warns
        -----
        UserWarning
            Where ten sensors or more are explained as well without the graph, any two of them being equally alike.
            Where intervals will not hold: where values are few; at sensors whose values are three times as far
            from what is predicted from those before as the model says; where it fits most values badly; where a
            few extreme values dominate the variances; and of sensors that show one value throughout.
        """
        kernels = self._checked()
        forget(self, ("_posterior", "_grid", "_hours", "_clock", "_covariance", "_trained", "_columns"))
        positions, stamps, values = self._as_grid(Y, times, y, nodes)
        columns = Columns.of(positions, Y)
        warn_of_no_edges(self.graph)
        warn_of_placeholders("Y", values, "make them NaN")
        clock = clock_of(stamps)
        hours = clock.hours(stamps)
        grid = checked_grid(positions, hours, values)
        n = grid.nodes.size
        if n > _LARGEST_SENSORS:
            raise checks.value_error(
                "nodes",
                f"must hold at most {_LARGEST_SENSORS} observed ones, got {n}: C is a dense matrix of them",
            )
        seed = checks.seed(self.seed)
        covariance = GraphCovariance(self.graph, seed)
        scale = self._scale_of(grid, covariance, kernels, seed)
        grid = grid._replace(values=scale.forward(grid.values))
        mask = ~np.isnan(grid.values)
        mean = float(np.nanmean(np.nanmean(grid.values, axis=0)))
        residual = np.where(mask, grid.values - mean, 0.0)
        model = self._start(grid, float(residual[mask].var()))
        kernel, value, trained = kernels[0], np.nan, True
        if self.optimize:
            matrices = covariance.blocks(kernels, grid.nodes)
            # the bits depend on the number of threads; Kalman filters have their own
            with blas_threads(1), step_bar("training", self.progress) as bar:
                threads = thread_count(self.n_threads)
                task = Task(residual, mask, grid.times, matrices.__getitem__, seed, threads, bar.update)
                most = default_values(n) if self.max_train is None else int(self.max_train)
                found = train(task, model, kernels, most, self.kernel == AUTO)
            model, kernel, value, trained = found[:4]
            if n >= FEW:  # any two of few sensors are about equally far apart
                warn_of_nothing(found.log_factor, int(mask.sum()), "Y", "sensors that are all equally alike")
            if found.empirical is not None:
                covariance = LearnedCovariance(
                    covariance, kernel, grid.nodes, found.share, found.bend, found.empirical
                )
        self._columns, self._scale = columns, scale
        self._settle(grid, hours, clock, covariance, kernel, model, mean, seed, value, trained)
        self._warn()
        return self

    def _settle(
        self, grid: Grid, hours: np.ndarray, clock: Clock, covariance: GraphCovariance, kernel: Kernel,
        model: Separable, mean: float, seed: int, value: float, trained: bool, before: TimePosterior | None = None,
    ) -> None:  # fmt: skip
        """The posterior for known hyperparameters, and all fitted attributes."""
        mask = ~np.isnan(grid.values)
        d = sum(sum(kernel.blocks()) for kernel in model.kernels)
        require_memory(
            8.0 * mask.size * (d + 6), f"the filter of {mask.shape[1]} sensors at {mask.shape[0]} times",
            "fit fewer times, or a time kernel of fewer states",
        )  # fmt: skip
        with blas_threads(1):
            if before is None:
                sensors = Sensors.of(covariance.block(kernel, grid.nodes, grid.nodes), covariance.bend)
            else:
                sensors = before.covariance.sensors
            cells = ObservedCells(
                GridCovariance(model, sensors, grid.times, thread_count(self.n_threads)), mask, float(self.tol)
            )
            residual = np.where(mask, grid.values - mean, 0.0)
            posterior = TimePosterior(cells, residual, int(self.n_draws), seed, before=before)
            solution = posterior.outcome
        check_converged(solution, float(self.tol))
        self._posterior, self._grid, self._clock, self._covariance = posterior, grid, clock, covariance
        self._hours = hours
        self._trained = trained
        self.learned_ = covariance.share if isinstance(covariance, LearnedCovariance) else 0.0
        self.kernel_, self.parts_, self.noise_, self.mean_ = kernel, model.parts, model.noise, mean
        self.log_marginal_likelihood_ = value
        self.converged_ = trained and solution.converged
        self.residual_ = solution.residual
        self.sensors_, self.transform_ = grid.nodes, self._scale.name
        self.n_observations_ = int(mask.sum())
        self.seed_ = seed

    @needs_memory(_LESS_MEMORY)
    def update(self, Y: Any, times: Any = None, y: Any = None, *, nodes: Any = None) -> Self:
        """Condition on later observations, keeping the hyperparameters and the sensors of the fit.

        Parameters
        ----------
        Y, times, y, nodes
            As in `fit`, at times after all previous ones. Columns of an array are those of `fit`; columns of a
            data frame are found by their labels, and sensors without a column have gaps.

        Raises
        ------
        ValueError
            For times that are not later, and for values at nodes without a value in `fit`, which need a new fit.

        Notes
        -----
        The same posterior as a fit of all with these hyperparameters. Where each time has all sensors or none,
        filters go on, O(n d^2) a time, and forecasts from there on cost as little; what lies before the last
        time is solved for when it is asked for. With other gaps a solve follows, whose conjugate gradients begin
        from the one before.
        """
        self._check_fitted()
        positions, stamps, given = self._as_grid_of_fit(Y, times, y, nodes)
        hours = self._clock.hours(stamps)
        require_sound(positions, hours, given)
        values = np.full((hours.size, self.sensors_.size), np.nan)
        here, there = np.isin(positions, self.sensors_), np.isin(self.sensors_, positions)
        if not np.isnan(given[:, ~here]).all():
            unknown = [self.graph.nodes[node] for node in positions[~here].tolist()]
            raise checks.value_error(
                "Y",
                f"must have values at the nodes of `sensors_` only, got some at {shown(unknown)}: fit again to "
                "add sensors",
            )
        order = np.argsort(positions)
        values[:, there] = given[:, order[np.searchsorted(positions, self.sensors_[there], sorter=order)]]
        grid = self._grid
        require_sound(grid.nodes, np.concatenate([self._hours[-1:], hours]), np.pad(values, ((1, 0), (0, 0))))
        values = self._scale.forward(values)
        self._hours = np.concatenate([self._hours, hours])
        if np.isnan(values).all():
            return self
        joined = checked_grid(
            grid.nodes, np.concatenate([grid.times, hours]), np.concatenate([grid.values, values])
        )
        model = Separable(self.parts_, self.noise_)
        self._settle(
            joined, self._hours, self._clock, self._covariance, self.kernel_, model, self.mean_, self.seed_,
            self.log_marginal_likelihood_, self._trained, self._posterior,
        )  # fmt: skip
        return self

    def _as_grid(self, Y: Any, times: Any, y: Any, nodes: Any) -> tuple[Any, Any, np.ndarray]:
        """Positions, times and values of the arguments of `fit` and `update`."""
        if y is None:
            return as_grid(self.graph, Y, times, nodes)
        if nodes is not None:
            raise checks.value_error("nodes", "must be None in long form, fit(nodes, times, y)")
        return long_form(self.graph, Y, times, y)

    def _as_grid_of_fit(self, Y: Any, times: Any, y: Any, nodes: Any) -> tuple[Any, Any, np.ndarray]:
        """The grid of values given after `fit`: columns without labels are those of `fit`."""
        if y is None and nodes is None and not has_labels(Y):
            nodes = self.graph.positions(self._columns.nodes)
            if np.ndim(Y) != 2 or np.shape(Y)[1] != nodes.size:
                raise checks.value_error(
                    "Y",
                    f"must have {nodes.size} columns, those of `fit`, or come with their `nodes`, got shape "
                    f"{np.shape(Y)}",
                )
        return self._as_grid(Y, times, y, nodes)

    @property
    def times_(self) -> np.ndarray:
        self._check_fitted()
        return self._clock.times(self._hours)

    # -- predictions -------------------------------------------------------------------------------

    @needs_memory(_LESS_MEMORY)
    def predict(
        self,
        nodes: Any = None,
        times: Any = None,
        return_std: bool | str = False,
        *,
        quantiles: Any = None,
        as_frame: bool = False,
    ) -> Any:
        """Posterior means, with standard deviations on request: in gaps, at other nodes, in the future.

        Parameters
        ----------
        nodes : nodes by position or name, shape (q,)
            Default: all, those of `fit` first, in the order of its columns.
        times : array_like, shape (t,); default all that were given, those of gaps included
            In any order, hours or dates as in `fit`.
        return_std : bool or "observation"
            True: standard deviations of f. "observation": of a new observation, including noise.
        quantiles : sequence of float, optional
            Levels between 0 and 1, whose quantiles are returned instead of mean and standard deviations.
        as_frame : bool
            Return data frames of pandas with a row for each time and a column for each node, titled as in `fit`:
            one, or two with standard deviations, or one for each quantile.

        Returns
        -------
        mean, std : ndarray, shape (t, q)
        quantiles : ndarray, shape (t, q, levels)

        Notes
        -----
        Means cost a product, O(n T d + t n q). Deviations are exact without gaps; else they are those that all
        missing values but the queried one would leave, which are exact, and what these vary by, from at most
        `n_draws` draws with a solve for each (Sidén et al. 2018, "Efficient Covariance Approximations for Large
        Sparse Precision Matrices").
        """
        self._check_fitted()
        if checks.flag("as_frame", as_frame):
            found = self.predict(nodes, times, return_std, quantiles=quantiles)
            if quantiles is not None:
                return tuple(self._frame(nodes, times, own) for own in np.moveaxis(found, -1, 0))
            if return_std:
                return tuple(self._frame(nodes, times, own) for own in found)
            return self._frame(nodes, times, found)
        if quantiles is None:
            return self._predicted(self._asked_nodes(nodes), self._asked(times), return_std)
        levels = checked_levels(quantiles, return_std)
        law, shape = self._marginals(nodes, times)
        return self._scale.back(law.quantiles(levels)).reshape(*shape, levels.size)

    @needs_memory(_LESS_MEMORY)
    def probability(
        self,
        nodes: Any = None,
        times: Any = None,
        *,
        above: float | None = None,
        below: float | None = None,
        as_frame: bool = False,
    ) -> Any:
        """The probability that f exceeds a threshold, or is below one, shape (t, q).

        Parameters
        ----------
        nodes, times, as_frame
            As in `predict`.
        above, below : float
            The threshold; with both, the probability of what is between.
        """
        self._check_fitted()
        low, high = checked_bounds(above, below)
        law, shape = self._marginals(nodes, times)
        found = law.probability(self._scale.bound(low), self._scale.bound(high)).reshape(shape)
        return self._frame(nodes, times, found) if checks.flag("as_frame", as_frame) else found

    def score(self, Y: Any, times: Any = None, y: Any = None, *, nodes: Any = None) -> float:
        """The coefficient of determination R^2 of the predicted means of all values; arguments as in `update`."""
        self._check_fitted()
        positions, stamps, values = self._as_grid_of_fit(Y, times, y, nodes)
        known = ~np.isnan(values)
        predicted = self._predicted(self.graph.positions(positions), self._clock.hours(stamps), False)
        from sklearn.metrics import r2_score  # which loads much of scipy

        return float(r2_score(values[known], predicted[known]))

    def _marginals(self, nodes: Any, times: Any) -> tuple[Marginals, tuple[int, ...]]:
        """The distribution of f at each node and time, and the shape of these."""
        mean, variance = self._modelled(self._asked_nodes(nodes), self._asked(times), True)
        return Marginals(mean.ravel(), variance.ravel(), None), mean.shape

    def _frame(self, nodes: Any, times: Any, values: np.ndarray) -> Any:
        """A data frame with a row for each time and a column for each node."""
        import pandas

        positions = given_nodes(self.graph, self._asked_nodes(nodes)).tolist()
        own = hasattr(times, "rename") and hasattr(times, "nlevels")  # an index of pandas
        index = times if own else self._clock.as_index(self._asked(times))
        columns = index_of([self.graph.nodes[position] for position in positions], self._columns.nodes_titles)
        return pandas.DataFrame(values, index=index.rename(self._columns.times_title), columns=columns)

    def _predicted(self, nodes: Any, hours: np.ndarray, return_std: bool | str) -> Any:
        """Means, and deviations on request, in the units of the readings."""
        check_deviations(return_std)
        mean, variance = self._modelled(nodes, hours, bool(return_std) or self._scale.name is not None)
        variance = variance + (self.noise_ if return_std == "observation" else 0.0)
        mean, variance = self._scale.moments(mean, variance)
        return (mean, np.sqrt(variance)) if return_std else mean

    def _modelled(self, nodes: Any, hours: np.ndarray, deviations: bool) -> tuple[np.ndarray, np.ndarray]:
        """Means of what is modelled, T of the readings, and variances; without `deviations` these are 0."""
        places, columns, hours, rows = self._query(nodes, hours, "variances" if deviations else "means")
        with blas_threads(1):
            mean = self._posterior.means(places, hours)[np.ix_(rows, columns)] + self.mean_
            if not deviations:
                return mean, np.zeros(())
            return mean, self._posterior.variances(places, hours)[np.ix_(rows, columns)]

    @needs_memory(_LESS_MEMORY)
    def fill(self, Y: Any, times: Any = None, *, nodes: Any = None, return_std: bool | str = False) -> Any:
        """`Y` with its gaps filled by posterior means, in the same form.

        Parameters
        ----------
        Y : array_like, shape (t, q), DataFrame or DataArray
            Such as was given to `fit`, with NaN in gaps, for any nodes and increasing times. Its values stay and
            are not used: what is known is what was given to `fit` and `update`. Columns of an array without
            `nodes` are those of `fit`.
        times, nodes
            See `fit`.
        return_std : bool or "observation"
            See `predict`. Standard deviations are 0 where Y has a value.

        Returns
        -------
        filled, std : as Y
        """
        self._check_fitted()
        positions, stamps, values = self._as_grid_of_fit(Y, times, None, nodes)
        hours = self._clock.hours(stamps)
        require_sound(positions, hours, values)
        gaps = np.isnan(values)
        block = np.ix_(gaps.any(axis=1), gaps.any(axis=0))
        std = np.zeros(values.shape)
        if gaps.any():
            found = self._predicted(positions[gaps.any(axis=0)], hours[gaps.any(axis=1)], return_std)
            mean, spread = found if return_std else (found, 0.0)
            values[block] = np.where(gaps[block], mean, values[block])
            std[block] = np.where(gaps[block], spread, 0.0)
        filled = as_it_came(Y, values)
        return (filled, as_it_came(Y, std)) if return_std else filled

    @needs_memory(_LESS_MEMORY)
    def sample(
        self, nodes: Any = None, times: Any = None, n_samples: int = 1, seed: int | None = None
    ) -> np.ndarray:
        """Joint draws of f from the posterior, shape (n_samples, t, q); arguments as in `predict`.

        By Matheron's rule: draws from the prior, moved onto the observations by a solve for each. At most 5,000
        nodes; ValueError for more. Source: Wilson et al. 2021, "Pathwise Conditioning of Gaussian Processes".
        """
        self._check_fitted()
        n_samples = checks.integer("n_samples", n_samples, low=1)
        places, columns, hours, rows = self._query(self._asked_nodes(nodes), self._asked(times), "draws")
        require_memory(
            8.0 * n_samples * (hours.size * places.sensor.size + 2 * rows.size * columns.size),
            f"`n_samples` = {n_samples}",
            "ask for fewer at a time, with another `seed` each, or for fewer nodes or times",
        )
        with blas_threads(1):
            draws = self._posterior.draws(places, hours, n_samples, checks.seed(seed))
        draws = draws[:, rows[:, None], columns]
        draws += self.mean_
        return self._scale.back(draws)

    def _asked_nodes(self, nodes: Any) -> Any:
        """The nodes that are asked for: all by default, those of `fit` first."""
        return self.graph.positions(self._columns.with_others(self.graph.n_nodes)) if nodes is None else nodes

    def _asked(self, times: Any) -> np.ndarray:
        return self._hours if times is None else self._clock.hours(times)

    def _query(
        self, nodes: Any, given: np.ndarray, purpose: str
    ) -> tuple[Places, np.ndarray, np.ndarray, np.ndarray]:
        """Distinct places and hours, and which of them each column and row of the answer is."""
        positions, columns = np.unique(given_nodes(self.graph, nodes), return_inverse=True)
        if positions.size == 0 or given.size == 0:
            raise checks.value_error("nodes", "and `times` must not be empty")
        hours, rows = np.unique(given, return_inverse=True)
        if purpose == "draws" and positions.size > LARGEST_JOINT:
            raise checks.value_error(
                "nodes", f"must hold at most {LARGEST_JOINT} distinct nodes for joint draws, got {positions.size}"
            )
        sensor = np.full(self.graph.n_nodes, -1)
        sensor[self.sensors_] = np.arange(self.sensors_.size)
        block = self._covariance.block
        among = np.zeros(positions.size)
        if purpose == "variances":
            among = self._covariance.diagonal(self.kernel_, positions)
        elif purpose == "draws":
            among = block(self.kernel_, positions, positions)
        places = Places(block(self.kernel_, positions, self.sensors_), among, sensor[positions])
        return places, columns, hours, rows

    def _warn(self) -> None:
        """Warn where observations are few, or not as the fitted model predicts."""
        grid, covariance = self._grid, self._posterior.covariance
        n_trained = 1 + sum(2 + len(part.kernel.trained) for part in self.parts_)
        if self.optimize and self.n_observations_ < 5 * n_trained:
            warn(
                f"{n_trained} hyperparameters are trained on {self.n_observations_} values, of "
                f"{grid.values.size} on the grid: these depend on the starting values, and so do intervals; "
                "pass a `time_kernel` of fewer parts, or what is known with optimize=False"
            )
        with blas_threads(1):
            errors = standardised_errors(
                covariance.model, covariance.sensors, grid.times, grid.values - self.mean_
            )
        rows = np.searchsorted(self._hours, grid.times)
        for words, sensors in concerns(errors, grid.values, rows):
            named = ", ".join(repr(self.graph.nodes[grid.nodes[i]]) for i in sensors[:5])
            more = f" and {len(sensors) - 5} more" if len(sensors) > 5 else ""
            warn(words.format(nodes=f"node{'s' if len(sensors) > 1 else ''} {named}{more}"))

    # -- checks ------------------------------------------------------------------------------------

    def _checked(self) -> list[Kernel]:
        """The kernels to compare, once all settings are legal."""
        require_graph(self.graph).require_undirected("a Gaussian process on its nodes")
        kernels = candidate_kernels(self.graph, self.kernel)
        for kernel in kernels:
            kernel.check_graph(self.graph)
        parts = self._given_parts()
        known = bool(parts) and all(isinstance(part, Part) for part in parts)
        checks.flag("optimize", self.optimize)
        checks.flag("progress", self.progress)
        if self.noise is not None:
            checks.number("noise", self.noise, low=0, include_low=False)
        if not self.optimize and (len(kernels) > 1 or self.noise is None or not known):
            raise checks.value_error(
                "optimize", "= False needs a Kernel as `kernel`, Parts as `time_kernel`, and `noise`"
            )
        if self.transform is not None:
            checks.choice("transform", self.transform, (*TRANSFORMS, AUTO))
        if self.max_train is not None:
            checks.integer("max_train", self.max_train, low=10)
        checks.integer("n_draws", self.n_draws, low=2)
        checks.number("tol", self.tol, low=1e-12, high=0.1)
        thread_count(self.n_threads)
        return kernels

    def _scale_of(
        self, grid: Grid, covariance: GraphCovariance, kernels: list[Kernel], seed: int
    ) -> ResponseScale:
        """The transform of readings: the given one, or that under which they have the largest density."""
        if self.transform != AUTO:
            return ResponseScale.of(self.transform, grid.values)
        if not self.optimize:
            raise checks.value_error("transform", "= 'auto' is trained: name one, or set optimize=True")
        matrices = covariance.blocks(kernels, grid.nodes)
        mask = ~np.isnan(grid.values)

        def density(scale: ResponseScale) -> float:
            values = scale.forward(grid.values)
            residual = np.where(mask, values - float(np.nanmean(np.nanmean(values, axis=0))), 0.0)
            start = self._start(grid._replace(values=values), float(residual[mask].var()))
            task = Task(residual, mask, grid.times, matrices.__getitem__, seed, thread_count(self.n_threads))
            fitted = 0.5 * scale.n_fitted * float(np.log(mask.sum()))  # Schwarz's approximation
            return log_density(task, start, kernels, scale.log_slope(grid.values)) - fitted

        with blas_threads(1):
            return max(ResponseScale.candidates(grid.values), key=density)

    def _given_parts(self) -> list[Any]:
        """The time kernels and parts in `time_kernel`; none for "auto"."""
        given = self.time_kernel
        if isinstance(given, str):
            checks.choice("time_kernel", given, ("auto",))
            return []
        listed = (
            [given] if isinstance(given, TimeKernel | Part) or not isinstance(given, Sequence) else list(given)
        )
        for part in listed:
            if isinstance(part, Part) and isinstance(part.kernel, TimeKernel):
                checks.number("shared", part.shared, low=0)
                checks.number("own", part.own, low=0)
                checks.number("shared + own", part.shared + part.own, low=0, include_low=False)
            elif not isinstance(part, TimeKernel):
                raise checks.type_error(
                    "time_kernel",
                    "must be 'auto', or hold TimeKernels or Parts of graphrf.gp.time, got "
                    f"{checks.describe(part)}",
                )
        if not listed:
            raise checks.value_error("time_kernel", "must hold at least one kernel, got none")
        return listed

    def _start(self, grid: Grid, variance: float) -> Separable:
        """The model that training begins with."""
        largest = float(np.nanmax(np.abs(grid.values)))
        if self.optimize and not variance > (1e-12 * largest) ** 2:
            raise checks.value_error(
                "Y",
                "must not be constant, nor change by rounding alone, where hyperparameters are trained: pass more "
                "values, or the hyperparameters with optimize=False",
            )
        listed = self._given_parts()
        if not listed:
            parts = automatic_parts(grid.times, variance)
        else:
            share = 0.5 * variance / len(listed)
            parts = tuple(part if isinstance(part, Part) else Part(part, share, share) for part in listed)
        if self.optimize:  # logarithms are trained
            least = 1e-6 * variance
            parts = tuple(
                part._replace(shared=max(part.shared, least), own=max(part.own, least)) for part in parts
            )
        return Separable(parts, 0.05 * variance if self.noise is None else float(self.noise))

    def _check_fitted(self) -> None:
        if not hasattr(self, "_posterior"):
            raise NotFittedError("this GraphTimeGPRegressor is not fitted yet: call fit(Y, times=...) first")
