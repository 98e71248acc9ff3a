"""Predictions of a fit on graph and time: gaps, other nodes and times, probabilities, draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import NotFittedError

from graphrf._base import checks
from graphrf._base.blas import blas_threads
from graphrf._base.memory import needs_memory, require_memory
from graphrf._base.types import NodesLike, TimesLike
from graphrf.gp.model.answers import Question, checked_bounds
from graphrf.gp.posterior.answers import Answers, draw_observations
from graphrf.gp.posterior.marginals import MarginalMixture
from graphrf.gp.time.data import Clock, Columns, check_series, later_arguments, restore_type
from graphrf.gp.time.graph_kernels import GraphCovariance, distinct_places
from graphrf.gp.time.posterior import QueriedNodes, TimePosterior
from graphrf.gp.time.response_scale import ResponseScale
from graphrf.gp.time.saved import SavedTime
from graphrf.graph.graph import Graph, given_nodes
from graphrf.kernels.kernel import Kernel

LESS_MEMORY = "fit or ask for fewer times or nodes at a time"


class TimePredictor(SavedTime):
    """Predictions at nodes and times from the posterior that `fit` computed."""

    graph: Graph
    kernel_: Kernel
    noise_: float
    mean_: float
    sensors_: np.ndarray
    _posterior: TimePosterior
    _covariance: GraphCovariance
    _columns: Columns
    _hours: np.ndarray
    _clock: Clock
    _scale: ResponseScale

    # -- predictions -------------------------------------------------------------------------------

    @needs_memory(LESS_MEMORY)
    def predict(
        self,
        nodes: NodesLike | None = None,
        times: TimesLike | None = None,
        return_std: bool | str = False,
        *,
        quantiles: float | Sequence[float] | None = None,
        as_frame: bool = False,
    ) -> Any:
        """Posterior means, with standard deviations on request: in gaps, at other nodes, ahead.

        Means cost O(n T d + t n q). Standard deviations are exact without gaps; else the part that
        varies with the missing values comes from at most `n_draws` draws with a solve each.

        Parameters
        ----------
        nodes : nodes by position or name, shape (q,)
            Default: all, those of `fit` first, in the order of its columns.
        times : array_like, shape (t,); default all of the data, those of gaps included
            In any order, hours or dates as in `fit`.
        return_std : bool or "observation"
            True: standard deviations of f. "observation": of a new observation, including noise.
        quantiles : sequence of float, optional
            Levels between 0 and 1: quantiles of f, in the units of readings, are returned instead
            of mean and standard deviations; with return_std="observation" those of a new
            observation, whose intervals hold readings.
        as_frame : bool
            Return data frames of pandas with a row for each time and a column for each node, titled
            as in `fit`: one of means, or a tuple of means, standard deviations and each quantile,
            as far as they are asked for.

        Returns
        -------
        mean, std : ndarray, shape (t, q)
        quantiles : ndarray, shape (t, q, levels)
        """
        self._check_fitted()
        question = Question.of(return_std, quantiles=quantiles, as_frame=as_frame)
        answer: Any = ()
        if question.levels is None or question.of_everything:
            answer = self._predicted(self._asked_nodes(nodes), self._asked(times), question)
        if question.levels is not None:
            answers, shape = self._answers(nodes, times)
            values = answers.quantiles(question.levels, question.of_observation)
            values = self._scale.back(values).reshape(*shape, question.levels.size)
            answer = (*answer, values) if question.of_everything else values
        if not question.as_frame:
            return answer
        frames = [self._frame(nodes, times, each) for each in question.columns(answer).values()]
        return tuple(frames) if return_std or question.levels is not None else frames[0]

    @needs_memory(LESS_MEMORY)
    def probability(
        self,
        nodes: NodesLike | None = None,
        times: TimesLike | None = None,
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
        as_frame = checks.flag("as_frame", as_frame)
        answers, shape = self._answers(nodes, times)
        result = answers.probability(self._scale.bound(low), self._scale.bound(high)).reshape(shape)
        return self._frame(nodes, times, result) if as_frame else result

    def score(
        self,
        Y: ArrayLike,
        times: TimesLike | None = None,
        y: ArrayLike | None = None,
        *,
        nodes: NodesLike | None = None,
    ) -> float:
        """The coefficient of determination R^2 of predicted means of all values, as in `update`."""
        self._check_fitted()
        positions, stamps, values = later_arguments(self.graph, self._columns, Y, times, y, nodes)
        known = ~np.isnan(values)
        predicted = self._predicted(
            self.graph.positions(positions), self._clock.hours(stamps), Question.of(False)
        )
        from sklearn.metrics import r2_score  # which loads much of scipy

        return float(r2_score(values[known], predicted[known]))

    def _answers(self, nodes: Any, times: Any) -> tuple[Answers, tuple[int, ...]]:
        """Answers about T of the readings at each node and time, and the shape of
        these.
        """
        mean, variance = self._modelled(self._asked_nodes(nodes), self._asked(times), True)
        law = MarginalMixture.alone(mean.ravel(), variance.ravel(), None)
        return Answers(law, noises=[self.noise_]), mean.shape

    def _predicted(self, nodes: Any, hours: np.ndarray, question: Question) -> Any:
        """Means, and deviations on request, in the units of the readings."""
        deviations = bool(question.return_std)
        mean, variance = self._modelled(nodes, hours, deviations or self._scale.name is not None)
        variance = variance + (self.noise_ if question.of_observation else 0.0)
        mean, variance = self._scale.moments(mean, variance)
        return (mean, np.sqrt(variance)) if deviations else mean

    def _modelled(
        self, nodes: Any, hours: np.ndarray, deviations: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of T of the readings; without `deviations` variances are 0."""
        places, columns, hours, rows = self._places(
            nodes, hours, "variances" if deviations else "means"
        )
        with blas_threads(1):
            mean = self._posterior.means(places, hours)[np.ix_(rows, columns)] + self.mean_
            if not deviations:
                return mean, np.zeros(())
            return mean, self._posterior.variances(places, hours)[np.ix_(rows, columns)]

    @needs_memory(LESS_MEMORY)
    def fill(
        self,
        Y: ArrayLike,
        times: TimesLike | None = None,
        *,
        nodes: NodesLike | None = None,
        return_std: bool | str = False,
    ) -> Any:
        """`Y` with its gaps filled by posterior means, in the same form.

        Parameters
        ----------
        Y : array_like, shape (t, q), DataFrame or DataArray
            As in `fit`, for any nodes and increasing times. Its values stay and are not used: the
            model conditions on the data of `fit` and `update`. Columns of an array without `nodes`
            are those of `fit`.
        times, nodes
            See `fit`.
        return_std : bool or "observation"
            See `predict`. Standard deviations are 0 where Y has a value.

        Returns
        -------
        filled, std : as Y
        """
        self._check_fitted()
        question = Question.of(return_std)
        positions, stamps, values = later_arguments(
            self.graph, self._columns, Y, times, None, nodes
        )
        hours = self._clock.hours(stamps)
        check_series(positions, hours, values)
        gaps = np.isnan(values)
        block = np.ix_(gaps.any(axis=1), gaps.any(axis=0))
        std = np.zeros(values.shape)
        if gaps.any():
            result = self._predicted(positions[gaps.any(axis=0)], hours[gaps.any(axis=1)], question)
            mean, deviation = result if return_std else (result, 0.0)
            values[block] = np.where(gaps[block], mean, values[block])
            std[block] = np.where(gaps[block], deviation, 0.0)
        filled = restore_type(Y, values)
        return (filled, restore_type(Y, std)) if return_std else filled

    @needs_memory(LESS_MEMORY)
    def sample(
        self,
        nodes: NodesLike | None = None,
        times: TimesLike | None = None,
        n_samples: int = 1,
        seed: int | None = None,
        *,
        observations: bool = False,
    ) -> np.ndarray:
        """Joint posterior draws of f at up to 5,000 nodes, (n_samples, t, q), as in `predict`.

        With `observations` they are of new observations, noise included.

        Matheron's rule: draws from the prior, moved onto the observations by a solve for each.
        Source: Wilson et al. 2021, "Pathwise Conditioning of Gaussian Processes".
        """
        self._check_fitted()
        n_samples = checks.integer("n_samples", n_samples, low=1)
        seed, observations = checks.seed(seed), checks.flag("observations", observations)
        places, columns, hours, rows = self._places(
            self._asked_nodes(nodes), self._asked(times), "draws"
        )
        require_memory(
            8.0 * n_samples * (hours.size * places.sensor.size + 2 * rows.size * columns.size),
            f"`n_samples` = {n_samples}",
            "ask for fewer at a time, with another `seed` each, or for fewer nodes or times",
        )
        with blas_threads(1):
            draws = self._posterior.draws(places, hours, n_samples, seed)
        draws = draws[:, rows[:, None], columns]
        draws += self.mean_
        if observations:
            (rng,) = np.random.default_rng(seed).spawn(1)
            draws = draw_observations(draws, None, [self.noise_], rng)
        return self._scale.back(draws)

    def _asked_nodes(self, nodes: Any) -> Any:
        """The queried nodes: all by default, those of `fit` first."""
        if nodes is None:
            return self.graph.positions(self._columns.with_others(self.graph.n_nodes))
        return nodes

    def _asked(self, times: Any) -> np.ndarray:
        return self._hours if times is None else self._clock.hours(times)

    def _places(
        self, nodes: Any, hours: np.ndarray, purpose: str
    ) -> tuple[QueriedNodes, np.ndarray, np.ndarray, np.ndarray]:
        """Distinct places and hours, and which of them each column and row of the answer is."""
        return distinct_places(
            self.graph, self._covariance, self.kernel_, self.sensors_, nodes, hours, purpose
        )

    def _frame(self, nodes: Any, times: Any, values: np.ndarray) -> Any:
        """A data frame with a row for each time and a column for each node."""
        positions = given_nodes(self.graph, self._asked_nodes(nodes))
        return self._columns.frame(
            values, self.graph, positions, self._clock, times, self._asked(times)
        )

    def _check_fitted(self) -> None:
        if not hasattr(self, "_posterior"):
            raise NotFittedError(
                "this GraphTimeGPRegressor is not fitted yet: call fit(Y, times=...) first"
            )
