"""Gaussian-process regression along the edges of a metric graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin

from graphrf._base import checks
from graphrf._base.memory import needs_memory
from graphrf._base.types import NodesLike
from graphrf.gp.hyperparameters.explore import INFORMATION
from graphrf.gp.metric.edge_precision import ENDS, EdgeKernel, EdgePrecision, checked_order
from graphrf.gp.metric.graph import MetricGraph, require_metric_graph
from graphrf.gp.metric.predictor import LESS_MEMORY, MetricPredictor, observed_places
from graphrf.gp.metric.saved import Seen
from graphrf.gp.metric.subdivision import Places, Subdivision
from graphrf.gp.metric.training import FieldHyperparameters, averaged, best, warn_of_no_information
from graphrf.gp.model.answers import Titles
from graphrf.gp.model.estimator import checked_weights, forget
from graphrf.gp.model.mean_function import Coefficients, Covariates, MeanFunction, WithCoefficients
from graphrf.gp.model.notices import warn_of_few, warn_of_placeholders
from graphrf.gp.model.observations import Observations
from graphrf.gp.model.prior import HyperparameterPrior
from graphrf.gp.model.problem import assumed_variances
from graphrf.gp.model.progress import step_bar
from graphrf.gp.model.settings import HYPERPARAMETERS, checked_prior, checked_targets
from graphrf.gp.posterior.by_precision import PrecisionPosterior
from graphrf.gp.posterior.mixture import MixturePosterior
from graphrf.gp.posterior.protocol import Posterior
from graphrf.graph.alignment import Rows, labels_of


class MetricGraphGPRegressor(MetricPredictor, WithCoefficients, RegressorMixin, BaseEstimator):
    r"""Gaussian-process regression of a signal along the edges of a metric graph.

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

    @needs_memory(LESS_MEMORY)
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
                # All observations together have the information of so many: see `INFORMATION`.
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
    ) -> Posterior:
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
