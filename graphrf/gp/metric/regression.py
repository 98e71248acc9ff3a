"""Gaussian-process regression along the edges of a metric graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import NotFittedError

from graphrf._base import checks
from graphrf._base.memory import needs_memory
from graphrf._base.types import NodesLike
from graphrf.gp.hyperparameters.explore import INFORMATION
from graphrf.gp.metric.edge_precision import ENDS, EdgeKernel, EdgePrecision, checked_order
from graphrf.gp.metric.graph import MetricGraph, check_few, require_metric_graph
from graphrf.gp.metric.saved import SavedMetric, Seen
from graphrf.gp.metric.subdivision import Places, Subdivision
from graphrf.gp.metric.training import FieldHyperparameters, averaged, best, warn_of_no_information
from graphrf.gp.model.answers import Question, Titles, checked_bounds, deviations_like
from graphrf.gp.model.estimator import checked_weights, forget
from graphrf.gp.model.mean_function import Coefficients, Covariates, MeanFunction, WithCoefficients
from graphrf.gp.model.notices import warn_of_few, warn_of_placeholders
from graphrf.gp.model.observations import Observations
from graphrf.gp.model.prior import HyperparameterPrior
from graphrf.gp.model.problem import assumed_variances
from graphrf.gp.model.progress import step_bar
from graphrf.gp.model.settings import HYPERPARAMETERS, checked_prior, checked_targets
from graphrf.gp.posterior.answers import Answers, draw_observations
from graphrf.gp.posterior.by_precision import PrecisionPosterior
from graphrf.gp.posterior.criteria import Evaluation, NormalRows, SeparateObservations, WithCriteria
from graphrf.gp.posterior.marginals import MarginalMixture, Marginals
from graphrf.gp.posterior.mixture import MixturePosterior, joint_draws
from graphrf.graph.alignment import Rows, as_pandas, labels_of, reordered

_LESS_MEMORY = "observe or ask for fewer places at a time, or pass hyperparameters='mode'"


class MetricGraphGPRegressor(
    SavedMetric, WithCoefficients, WithCriteria, RegressorMixin, BaseEstimator
):
    r"""Gaussian-process regression of a signal along the edges of a metric graph, observed anywhere
    on them.

    .. math:: y = c + x^\top b + u(s) + \varepsilon, \quad (\kappa^2 - \Delta)^{\alpha/2} \, (\tau
        u) = W, \quad
              \kappa = \frac{\sqrt{2 \alpha - 1}}{l}, \quad \varepsilon \sim N(0, s),

    with the Whittle-Matern field u of order alpha: driven by white noise W, continuous, and with
    derivatives out of each node that sum to 0. Along an endless edge its covariance is sigma^2
    exp(-d / l) for order 1, and sigma^2 (1 + kappa d) exp(-kappa d) for order 2. Where k long edges
    meet the variance of order 1 is 2 sigma^2 / k. For other likelihoods, and averages along
    stretches, use `LatentGaussianModel` with `Along`.

    Examples
    --------
    >>> import numpy as np, graphrf as grf
    >>> roads = grf.gp.MetricGraph([0, 1, 1], [1, 2, 3], [2.0, 3.0, 1.0])
    >>> rng = np.random.default_rng(0)
    >>> edges = rng.integers(3, size=40)
    >>> places = np.column_stack([edges, rng.random(40) * roads.length[edges]])
    >>> y = roads.sample(places, lengthscale=2.0, seed=0)[0] + 0.1 * rng.standard_normal(40)
    >>> gp = grf.gp.MetricGraphGPRegressor(roads).fit(places, y)
    >>> mean, std = gp.predict([0, (1, 2, 0.5), (2, 1.0)], return_std=True)
    >>> mean.shape, bool((std > 0).all())
    ((3,), True)

    Parameters
    ----------
    graph : MetricGraph
    alpha : {1, 2}
        The order of the field. Places of order 2 are rounded to 500ths of
        `MetricGraph.road_length`.
    lengthscale, output_scale, noise : float, optional
        Fixed values of l (in the unit of the edges' lengths), sigma^2 and s. None trains them by
        the marginal likelihood times the prior.
    ends : {"stationary", "free"}
        The field at nodes of degree 1: as if the edge continued, or with the derivative 0 and twice
        the variance.
    mean : {"constant", "zero"}
        c, by generalised least squares; its uncertainty is part of predictions.
    prior : "weak", None, mapping or HyperparameterPrior
        As in `GraphGPRegressor`, with lengthscales in units of `MetricGraph.road_length`.
    hyperparameters : {"average", "mode"}
        Predictions average the tempered posterior of hyperparameters, at up to seven points, or use
        its mode.
    progress : bool
        Show progress of training on standard error.

    Attributes
    ----------
    lengthscale_, output_scale_, noise_ : float
        The hyperparameters with the highest posterior density.
    mean_, coefficients_
        c; c and b, as in `GraphGPRegressor`.
    log_marginal_likelihood_ : float
        Of all observations, without the prior, summed over outputs.
    converged_ : bool
        Whether the gradient vanishes at the fitted hyperparameters.
    n_points_, n_observations_, n_observed_places_ : int
        Sets of hyperparameters over which predictions are averaged, observations, and distinct
        places.

    Notes
    -----
    All is exact: the precision of the field at places is sparse. Components without observations
    keep the prior. Time: an ordering of vertices, some 30 factorisations for training, and for each
    prediction one for each set of hyperparameters, after an ordering where places are new.

    Sources: Bolin, Simas and Wallin 2024, "Gaussian Whittle-Matern fields on metric graphs"; 2023,
    "Statistical inference for Gaussian Whittle-Matern fields on metric graphs". The R package
    MetricGraph has this model with range 2 l.
    """

    def __init__(
        self,
        graph: MetricGraph,
        *,
        alpha: int = 1,
        lengthscale: float | None = None,
        output_scale: float | None = None,
        noise: float | None = None,
        ends: str = "stationary",
        mean: str = "constant",
        prior: HyperparameterPrior | str | None = "weak",
        hyperparameters: str = "average",
        progress: bool = False,
    ) -> None:
        self.graph = graph
        self.alpha = alpha
        self.lengthscale = lengthscale
        self.output_scale = output_scale
        self.noise = noise
        self.ends = ends
        self.mean = mean
        self.prior = prior
        self.hyperparameters = hyperparameters
        self.progress = progress

    # -- fitting -----------------------------------------------------------------------------------

    @needs_memory(_LESS_MEMORY)
    def fit(
        self,
        places: NodesLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        x: ArrayLike | None = None,
    ) -> MetricGraphGPRegressor:
        """Train the hyperparameters and condition on the observations.

        Parameters
        ----------
        places : nodes, pairs (edge number, distance) or triples (u, v, distance from u)
            n of them, as in `MetricGraph`; repeated places are repeated observations. Without `y`,
            a dictionary of places and values, or a Series or data frame of pandas, whose index
            holds the places.
        y, sample_weight, x
            As in `GraphGPRegressor.fit`. Arguments with an index are aligned by the one that they
            share with `places` or `y`; an index that differs is refused.

        Raises
        ------
        ValueError, TypeError
            For invalid places, y that is not finite or of the wrong length, settings out of range,
            and a lengthscale so long that the precision is numerically singular.

        Warns
        -----
        UserWarning
            If y does not vary, or a hyperparameter ends at a bound of its search range.
        """
        forget(self, ("_posterior", "_titles", "_coefficients"))
        fixed, prior = self._checked()
        self._titles = Titles.of(places if y is None else y, places, y)
        places, y, rows = observed_places(places, y)
        result = self.graph.places(places)
        values, single = checked_targets(y, result.node.size)
        weights = checked_weights(rows.numbers("sample_weight", sample_weight), rows.n)
        if x is not None:
            x = rows.taken("x", x)
        labels = list(rows.labels if rows.labels is not None and rows.labelled else rows.keys()[0])
        if weights is not None:
            kept = np.flatnonzero(weights > 0)
            result, values, weights = result.at(kept), values[kept], weights[kept]
            labels = [labels[row] for row in kept.tolist()]
            x = None if x is None else x.iloc[kept] if hasattr(x, "iloc") else np.asarray(x)[kept]
        self._condition_on(result, values, weights, x, single, fixed, prior, labels)
        return self

    def _checked(self) -> tuple[FieldHyperparameters, HyperparameterPrior]:
        """The hyperparameters that are fixed, and the prior, once all settings are legal."""
        require_metric_graph(self.graph)
        fixed = FieldHyperparameters(self.lengthscale, self.output_scale, self.noise)
        for name, value in fixed._asdict().items():
            if value is not None:
                fixed = fixed._replace(**{name: checks.number(name, value, low=1e-140, high=1e140)})
        checked_order(self.alpha)
        checks.choice("ends", self.ends, ENDS)
        checks.choice("mean", self.mean, ("constant", "zero"))
        checks.choice("hyperparameters", self.hyperparameters, HYPERPARAMETERS)
        checks.flag("progress", self.progress)
        return fixed, checked_prior(self.prior)

    def _condition_on(
        self,
        observed: Places,
        values: np.ndarray,
        weights: np.ndarray | None,
        x: Any,
        single: bool,
        fixed: FieldHyperparameters,
        prior: HyperparameterPrior,
        labels: list[Any],
    ) -> None:
        """Train, and condition on observations of positive weights."""
        graph: MetricGraph = self.graph
        pieces = graph.subdivide(observed, self.alpha)
        covariates = None
        if x is not None:
            aligned = Rows(observed.node.size, labels_of(x)[0], False, list)
            covariates = Covariates.of(x, aligned, pieces.where, pieces.n_nodes)
        mean = MeanFunction.of(self.mean, pieces.n_nodes, np.unique(pieces.where), covariates)
        values, offset = mean.centred(values)
        observations = Observations.of(pieces.where, values, mean.basis, weights)
        warn_of_few(observed.node.size, None in fixed)
        warn_of_placeholders("y", values + offset, "leave these places out")
        if (fixed.output_scale is None or fixed.noise is None) and not observations.varies:
            output_scale, noise = assumed_variances(fixed.output_scale, fixed.noise)
            fixed = fixed._replace(output_scale=output_scale, noise=noise)
        first = EdgePrecision(
            pieces, EdgeKernel(self.lengthscale or graph.road_length, self.alpha), self.ends
        )
        with step_bar("training", self.progress) as bar:
            search = best(first, observations, fixed, prior, graph.road_length, bar.update)
            points = [(search.best, 1.0)]
            if self.hyperparameters == "average":
                points = averaged(search, min(1.0, INFORMATION / observations.means.size))
        warn_of_no_information(search, observations, fixed)
        self._settle(Seen(observed, values, offset, weights, mean, single, labels), pieces, points)
        self.lengthscale_, self.output_scale_, self.noise_ = search.best
        self.log_marginal_likelihood_ = search.value
        self.converged_ = search.converged

    def _settle(
        self, seen: Seen, pieces: Subdivision, points: list[tuple[FieldHyperparameters, float]]
    ) -> None:
        """The posterior for known hyperparameters, and what it determines."""
        posterior = self._conditioned(seen, pieces, points, seen.mean.basis)
        self._seen, self._points, self._pieces, self._posterior = seen, points, pieces, posterior
        self.n_points_ = len(points)
        self.n_observations_ = seen.places.node.size
        self.n_observed_places_ = np.unique(pieces.where[: self.n_observations_]).size
        self._coefficients = Coefficients.of(
            seen.mean,
            posterior.coefficients,
            posterior.coefficients_covariance,
            seen.offset,
            seen.single,
        )
        constant = seen.offset + seen.mean.parts(posterior.coefficients)[0]
        self.mean_ = float(constant[0]) if seen.single else constant

    def _conditioned(
        self,
        seen: Seen,
        pieces: Subdivision,
        points: list[tuple[FieldHyperparameters, float]],
        basis: np.ndarray,
    ) -> PrecisionPosterior | MixturePosterior:
        """The posterior at the vertices of pieces, whose first are those that were observed."""
        where = pieces.where[: seen.places.node.size]
        observations = Observations.of(where, seen.values, basis, seen.weights)
        precision = EdgePrecision(
            pieces, EdgeKernel(points[0][0].lengthscale, self.alpha), self.ends
        )
        parts = [
            PrecisionPosterior(
                precision.with_kernel(EdgeKernel(point.lengthscale, self.alpha)),
                point.output_scale,
                observations,
                noise=point.noise,
                basis=basis,
                offset=seen.offset,
            )
            for point, _ in points
        ]
        return (
            parts[0]
            if len(parts) == 1
            else MixturePosterior(parts, np.array([weight for _, weight in points]))
        )

    # -- predictions -------------------------------------------------------------------------------

    @needs_memory(_LESS_MEMORY)
    def predict(
        self,
        places: NodesLike | None = None,
        return_std: bool | str = False,
        return_cov: bool = False,
        *,
        x: ArrayLike | None = None,
        quantiles: float | Sequence[float] | None = None,
        as_frame: bool = False,
    ) -> Any:
        """The posterior mean, and on request standard deviations or covariances of the noise-free
        function.

        Parameters
        ----------
        places : places, as in `fit`; default all nodes
        return_std, return_cov, x, quantiles
            As in `GraphGPRegressor.predict`, for c + x b + u; covariances of at most 5,000 distinct
            places.
        as_frame : bool
            Return a pandas data frame with one row per place, indexed by that of `places` or by the
            places.

        Returns
        -------
        mean, std, cov, quantiles : ndarray
            As by `GraphGPRegressor.predict`.
        """
        self._check_fitted()
        question = Question.of(return_std, return_cov, quantiles, as_frame=as_frame)
        answer = self._answered(question, places, x)
        return self._frame(places, question.columns(answer)) if question.as_frame else answer

    def _answered(self, question: Question, places: Any, x: Any) -> Any:
        """What `predict` returns without `as_frame`."""
        posterior, vertices, inverse = self._at(places, x)
        if question.levels is not None:
            return self._answers(posterior, vertices, "quantiles").to(question)[inverse]
        mean = posterior.means(vertices)[inverse]
        if question.return_cov:
            check_few(vertices.size)
            return self._shaped(mean), posterior.covariances(vertices)[np.ix_(inverse, inverse)]
        if not question.return_std:
            return self._shaped(mean)
        variance = posterior.variances(vertices)
        if question.of_observation:
            variance = variance + posterior.noise
        return self._shaped(mean), self._shaped(deviations_like(mean, variance[inverse]))

    @needs_memory(_LESS_MEMORY)
    def probability(
        self,
        places: NodesLike | None = None,
        *,
        above: float | None = None,
        below: float | None = None,
        x: ArrayLike | None = None,
        as_frame: bool = False,
    ) -> Any:
        """The probability that the noise-free function exceeds a threshold, or is below one, shape
        (q,).

        Parameters
        ----------
        places, x, as_frame
            As in `predict`; the column is "probability".
        above, below : float
            The threshold; with both, the probability of the range between them.
        """
        low, high = checked_bounds(above, below)
        as_frame = checks.flag("as_frame", as_frame)
        posterior, vertices, inverse = self._at(places, x)
        result = self._answers(posterior, vertices, "above").probability(low, high)[inverse]
        return self._frame(places, {"probability": result}) if as_frame else result

    @needs_memory(_LESS_MEMORY)
    def sample(
        self,
        places: NodesLike | None = None,
        n_samples: int = 1,
        seed: int | None = None,
        *,
        x: ArrayLike | None = None,
        observations: bool = False,
    ) -> np.ndarray:
        """Joint draws of the noise-free function from the posterior, (n_samples, q) or (n_samples,
        q, p).

        Draws depend on the seed and on the set of places, which are given as in `predict`, with
        their covariates `x`. With `observations` they are of new observations, noise included.
        """
        observations = checks.flag("observations", observations)
        n_samples = checks.integer("n_samples", n_samples, low=1)
        rng = np.random.default_rng(checks.seed(seed))
        posterior, vertices, inverse = self._at(places, x)
        draws, parts = joint_draws(posterior, vertices, inverse, n_samples, rng)
        if observations:
            noises = [point.noise for point, _ in self._points]
            draws = draw_observations(draws, parts, noises, rng.spawn(1)[0])
        return self._shaped(draws, axis=2)

    @needs_memory(_LESS_MEMORY)
    def log_density(
        self, places: NodesLike, y: ArrayLike | None = None, *, x: ArrayLike | None = None
    ) -> np.ndarray:
        """Log predictive densities of single observations, shape (n,) or (n, p); arguments as in
        `fit`.

        Normal ones, with the mean and the standard deviation that `predict` has for observations.
        """
        places, y, rows = observed_places(places, y)
        values, single = checked_targets(y, rows.n)
        own = None if x is None else rows.taken("x", x)
        mean, std = self.predict(places, return_std="observation", x=own)
        z = ((values[:, 0] if single else values) - mean) / std
        return np.asarray(-0.5 * np.square(z) - np.log(std) - 0.5 * np.log(2 * np.pi))

    def score(
        self,
        places: NodesLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        x: ArrayLike | None = None,
    ) -> float:
        """The coefficient of determination R^2 of the predicted means; arguments as in `fit`."""
        places, y, rows = observed_places(places, y)
        weights = checked_weights(rows.numbers("sample_weight", sample_weight), rows.n)
        predicted = self.predict(places, x=None if x is None else rows.taken("x", x))
        from sklearn.metrics import r2_score  # which loads much of scipy

        return float(r2_score(checked_targets(y, rows.n)[0], predicted, sample_weight=weights))

    def _answers(
        self, posterior: PrecisionPosterior | MixturePosterior, vertices: np.ndarray, argument: str
    ) -> Answers:
        """What can be answered about each vertex alone, for one output."""
        if not self._seen.single:
            raise checks.value_error(argument, "is for one output; fit outputs one at a time")
        noises = [point.noise for point, _ in self._points]
        if isinstance(posterior, PrecisionPosterior):
            mean = posterior.means(vertices)[:, 0]
            law = MarginalMixture.alone(mean, posterior.variances(vertices), None)
            return Answers(law, noises=noises)
        laws = posterior.laws(vertices, None)
        parts = [Marginals(mean[:, 0], variance, None) for _, mean, variance in laws]
        law = MarginalMixture(parts, np.array([probability for probability, *_ in laws]))
        return Answers(law, noises=noises)

    def _evaluated(self) -> Evaluation:
        """The observations under the posterior at each point, for criteria."""
        seen = self._seen
        n = seen.places.node.size
        where = self._pieces.where[:n]
        observations = Observations.of(where, seen.values, seen.mean.basis, seen.weights)
        weights = np.ones(n) if seen.weights is None else seen.weights
        place = np.searchsorted(observations.nodes, where)
        separate = SeparateObservations(place, seen.values, weights, np.zeros(n), seen.labels)
        rows = [
            NormalRows.of(moments, observations, point.noise, separate, seen.single)
            for moments, (point, _) in zip(
                self._posterior.leave_one_out_moments(), self._points, strict=True
            )
        ]
        probabilities = np.array([weight for _, weight in self._points])
        # all observations together have the information of so many, as in training
        temper = min(1.0, INFORMATION / observations.means.size)
        return Evaluation(rows, probabilities, seen.labels, temper)

    def _at(
        self, places: Any, x: Any
    ) -> tuple[PrecisionPosterior | MixturePosterior, np.ndarray, np.ndarray]:
        """The posterior where places are vertices, their distinct vertices, and which of these each
        place is.
        """
        self._check_fitted()
        asked = self.graph.places(places)
        pieces = self.graph.subdivide(self._seen.places.followed_by(asked), self.alpha)
        n_seen = self._seen.places.node.size
        seen, own = pieces.where[:n_seen], pieces.where[n_seen:]
        mean, posterior = self._seen.mean, self._posterior
        if pieces.n_nodes != self._pieces.n_nodes or mean.width.size:
            basis = np.zeros((pieces.n_nodes, mean.basis.shape[1]))
            basis[:, :1] = 1.0
            basis[seen] = mean.basis[self._pieces.where[:n_seen]]
            if x is not None:
                rows = place_rows(
                    self.graph.graph.nodes if places is None else places, asked.node.size
                )
                basis = mean._replace(basis=basis).with_rows(own, x, rows)
            elif mean.width.size and not np.isin(own, seen).all():
                raise checks.value_error(
                    "x",
                    "must be given: `fit` was given no covariates of "
                    f"{int((~np.isin(own, seen)).sum())} of these places; pass a row for each "
                    "place, or ask for observed places only",
                )
            posterior = self._conditioned(self._seen, pieces, self._points, basis)
        elif x is not None:
            raise checks.value_error("x", "must be None: `fit` was given no covariates")
        vertices, inverse = np.unique(own, return_inverse=True)
        return posterior, vertices, inverse

    def _frame(self, places: Any, columns: dict[Any, np.ndarray]) -> Any:
        """A data frame with a row for each of the places."""
        labels, _ = labels_of(places)
        if labels is None:
            labels = self.graph.graph.nodes if places is None else places
        listed = labels.tolist() if hasattr(labels, "tolist") else list(labels)
        names = [tuple(each) if isinstance(each, list) else each for each in listed]
        return self._titles.frame(names, columns, places)

    def _check_fitted(self) -> None:
        if not hasattr(self, "_posterior"):
            raise NotFittedError(
                "this MetricGraphGPRegressor is not fitted yet: call fit(places, y) first"
            )

    def _shaped(self, array: np.ndarray, axis: int = 1) -> np.ndarray:
        """Without the axis of outputs where y had none."""
        return np.take(array, 0, axis=axis) if self._seen.single else array


def observed_places(places: Any, y: Any) -> tuple[Any, Any, Rows]:
    """Places, what was observed there, and the rows by which other arguments are aligned."""
    places = as_pandas(places)
    if y is None:
        labels, _ = labels_of(places)
        if labels is None:
            raise checks.type_error(
                "y",
                "must be given, unless `places` is a dictionary or a Series, got "
                f"{checks.describe(places)}",
            )
        return list(labels), reordered(places, None), Rows(len(labels), labels, False, list)
    n = len(places) if hasattr(places, "__len__") else np.size(places)
    rows = place_rows(places, n)
    return places, rows.taken("y", y, all_of_them=True), rows.beside(y)


def place_rows(places: Any, n: int) -> Rows:
    """The rows of n places that a user gave; their other labels are the places themselves."""
    labels, numbered = labels_of(places)

    def keys() -> list[Any]:
        if hasattr(places, "itertuples"):
            return [list(places.itertuples(index=False, name=None))]
        listed = places.tolist() if hasattr(places, "tolist") else list(places)
        return [[tuple(each) if isinstance(each, list) else each for each in listed]]

    return Rows(n, labels, numbered, keys)
