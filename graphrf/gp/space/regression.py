"""Gaussian-process regression over space: of values at places of a domain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin

from graphrf._base import checks
from graphrf._base.blas import blas_threads
from graphrf._base.lazy import need
from graphrf._base.memory import needs_memory
from graphrf._base.threads import ordered_map
from graphrf.gp.fields.domain import Domain, FieldNodes, require_domain
from graphrf.gp.fields.geometries import titles_of
from graphrf.gp.hyperparameters.explore import INFORMATION
from graphrf.gp.model.answers import Titles
from graphrf.gp.model.estimator import checked_weights, forget
from graphrf.gp.model.mean_function import (
    TABLE,
    Coefficients,
    Covariates,
    MeanFunction,
    WithCoefficients,
)
from graphrf.gp.model.notices import warn_of_few, warn_of_placeholders
from graphrf.gp.model.observations import Observations
from graphrf.gp.model.problem import assumed_variances
from graphrf.gp.model.progress import step_bar
from graphrf.gp.model.settings import HYPERPARAMETERS, checked_targets
from graphrf.gp.posterior.by_precision import PrecisionPosterior
from graphrf.gp.posterior.mixture import MixturePosterior
from graphrf.gp.posterior.protocol import Posterior
from graphrf.gp.space.predictor import LESS_MEMORY, FieldPredictor, observed_places
from graphrf.gp.space.priors import FieldPriors
from graphrf.gp.space.saved import Seen
from graphrf.gp.space.training import (
    FieldHyperparameters,
    averaged,
    best,
    hyperparameter_rows,
    warn_of_no_information,
)
from graphrf.graph.alignment import Rows, labels_of

_without_likelihood = checks.without(
    ("likelihood", "exposure", "trials"),
    "is for other observations than normal ones: LatentGaussianModel with the term Field(domain) "
    "takes counts and others",
)


class FieldGPRegressor(FieldPredictor, WithCoefficients, RegressorMixin, BaseEstimator):
    r"""Gaussian-process regression of values at places: points of a triangle mesh, in the plane or
    on a surface, or places along the edges of a metric graph.

    .. math:: y = c + x^\top b + u(s) + \varepsilon, \quad (\kappa^2 - \Delta)^{\alpha/2} \, (\tau
        u) = W, \quad \kappa = \frac{\sqrt{8 \nu}}{\mathrm{range}}, \quad
        \nu = \alpha - \frac{d}{2}, \quad \varepsilon \sim N(0, s),

    with the Whittle-Matern field u of order alpha, driven by white noise W, in d = 1 or 2
    dimensions. Far from borders it has the Matern covariance of smoothness nu and variance sd^2; at
    the distance `range` its correlation is about .14. Along edges it is continuous, and its
    derivatives out of each node sum to 0; where k long edges meet the variance of order 1 is 2 sd^2
    / k. For other likelihoods, further terms and averages along stretches, use
    `LatentGaussianModel` with `Field`.

    Examples
    --------
    >>> import numpy as np, graphrf as grf
    >>> rng = np.random.default_rng(0)
    >>> points = rng.random((80, 2))
    >>> mesh = grf.gp.TriangleMesh.from_points(points, max_edge=0.05)
    >>> y = mesh.sample(points, range=0.5, seed=0)[0] + 0.1 * rng.standard_normal(80)
    >>> gp = grf.gp.FieldGPRegressor(mesh).fit(points, y)
    >>> mean, std = gp.predict([[0.2, 0.3], [0.5, 0.5]], return_std=True)
    >>> mean.shape, bool((std > 0).all())
    ((2,), True)

    Along roads, places are nodes, edges and distances:

    >>> roads = grf.gp.MetricGraph([0, 1, 1], [1, 2, 3], [2.0, 3.0, 1.0])
    >>> edges = rng.integers(3, size=40)
    >>> places = np.column_stack([edges, rng.random(40) * roads.length[edges]])
    >>> y = roads.sample(places, range=4.0, seed=0)[0] + 0.1 * rng.standard_normal(40)
    >>> gp = grf.gp.FieldGPRegressor(roads).fit(places, y)
    >>> gp.predict([0, (1, 2, 0.5), (2, 1.0)]).shape
    (3,)

    Parameters
    ----------
    domain : TriangleMesh or MetricGraph
    alpha : {1, 1.5, 2, 2.5, 3}, optional
        The order of the field. Default: 2 on meshes, where 1.5 has the exponential covariance and
        half orders are approximated as in `Field`; 1 along edges, where orders are 1 and 2 and
        places of order 2 are rounded to 500ths of `MetricGraph.road_length`.
    range, sd, noise : float, optional
        Fixed values of the range (in the unit of the coordinates or lengths), of the field's
        standard deviation, and of the noise variance s. None trains them by the marginal likelihood
        times the prior.
    mean : {"constant", "zero"}
        c, by generalised least squares; its uncertainty is part of predictions.
    prior : "weak", None or mapping
        Priors by name: `range`, a `terms.PenalisedRange` or (median, factor) of a log-normal, in
        the unit of the coordinates; `sd`, (median, factor) or a `terms.PenalisedDeviation`, in
        standard deviations of y about its mean function; `noise`, (median, factor) in variances of
        y. None leaves one without a prior; those not named are weak. On meshes the weak prior of
        the range is `PenalisedRange` with the median 0.2 sqrt(area); along edges it is log-normal
        with the median 6 `MetricGraph.road_length` and the factor 3.
    hyperparameters : {"average", "mode"}
        Predictions average the tempered posterior of hyperparameters, at up to seven points, or use
        its mode.
    progress : bool
        Show progress of training on standard error.

    Attributes
    ----------
    range_, sd_, noise_ : float
        The hyperparameters with the highest posterior density.
    mean_, coefficients_
        c; c and b, as in `GraphGPRegressor`.
    log_marginal_likelihood_ : float
        Of all observations, without the prior, summed over outputs.
    converged_ : bool
        Whether the gradient vanishes at the fitted hyperparameters.
    feature_names_in_ : ndarray of str
        The columns of coordinates, where `places` were a data frame with titles that are text.
    n_points_, n_observations_, n_observed_places_ : int
        Sets of hyperparameters over which predictions are averaged, observations, and distinct
        places.

    Notes
    -----
    Whole orders are exact: the precision is sparse, at the vertices of the mesh, between which the
    field is linear, or at the vertices of edges that are subdivided at the places. Parts without
    observations keep the prior, of which a mesh warns. Time: an ordering of the variables, some 50
    factorisations for training and as many of a matrix with fewer entries, and one for each set of
    hyperparameters; along edges new places need the last again. Memory: one factor at a time, with
    as many numbers to work with, and more on threads where they have room. An average keeps none:
    covariances make those of all sets of hyperparameters again in every call, `sample` those of the
    sets with draws. A mesh of 150,000 vertices with 100,000 observations takes one to two minutes
    of one core and 1.5 GiB.

    Sources: Lindgren, Rue and Lindström 2011, "An explicit link between Gaussian fields and
    Gaussian Markov random fields"; Bolin, Simas and Wallin 2024, "Gaussian Whittle-Matern fields on
    metric graphs"; 2023, "Statistical inference for Gaussian Whittle-Matern fields on metric
    graphs".
    """

    @_without_likelihood
    def __init__(
        self,
        domain: Domain,
        *,
        alpha: float | None = None,
        range: float | None = None,
        sd: float | None = None,
        noise: float | None = None,
        mean: str = "constant",
        prior: Mapping[str, Any] | str | None = "weak",
        hyperparameters: str = "average",
        progress: bool = False,
    ) -> None:
        self.domain = domain
        self.alpha = alpha
        self.range = range
        self.sd = sd
        self.noise = noise
        self.mean = mean
        self.prior = prior
        self.hyperparameters = hyperparameters
        self.progress = progress

    # -- fitting -----------------------------------------------------------------------------------

    @needs_memory(LESS_MEMORY)
    @_without_likelihood
    def fit(
        self,
        places: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        x: ArrayLike | None = None,
    ) -> FieldGPRegressor:
        """Train the hyperparameters and condition on the observations.

        Parameters
        ----------
        places : array_like, shape (n, d), or as in `MetricGraph`
            On meshes coordinates: an array, a data frame, whose columns later calls find by their
            titles, or geometries: points, polygons (over which y is an average) or lines. On a
            metric graph nodes, pairs (edge number, distance) or triples (u, v, distance from u).
            Repeated places are repeated observations. Without `y`, a dictionary of places and
            values, or a Series or data frame of pandas, whose index holds the places.
        y, sample_weight, x
            As in `GraphGPRegressor.fit`; x is equal where a place is repeated. Arguments with an
            index are aligned by the one that they share with `places` or `y`; an index that
            differs is refused.

        Raises
        ------
        ValueError, TypeError
            For invalid places, y that is not finite or of the wrong length, settings out of range,
            and a range so long that the precision is numerically singular.

        Warns
        -----
        UserWarning
            If y does not vary, a hyperparameter ends at a bound of its search range, connected
            parts of a mesh have no observations, the range is below two edges of the mesh, or
            places are far from a surface, unlike others.
        """
        forget(self, ("_posterior", "_titles", "_coefficients"))
        fixed, priors = self._checked()
        self._titles = Titles.of(places if y is None else y, places, y)
        places, y, rows = observed_places(places, y)
        result = self.domain.places(places)
        on_mesh = self.domain.field_dimension == 2
        if on_mesh:
            # Other places than those of the fit have no such labels, but the same coordinates.
            self._titles = self._titles._replace(levels=titles_of(places))
        values, single = checked_targets(y, result.size, "place")
        weights = checked_weights(rows.numbers("sample_weight", sample_weight), rows.n, "place")
        if x is not None:
            x = rows.taken("x", x)
        labels = list(rows.labels if rows.labels is not None and rows.labelled else rows.keys()[0])
        if weights is not None:
            kept = np.flatnonzero(weights > 0)
            result, values, weights = result.at(kept), values[kept], weights[kept]
            labels = [labels[row] for row in kept.tolist()]
            if x is not None:
                x = x.iloc[kept] if hasattr(x, "iloc") else np.asarray(x)[kept]
        self.domain.warn_of_parts(result)
        self._condition_on(result, values, weights, x, single, fixed, priors, labels)
        if on_mesh and self._titles.levels:
            self.feature_names_in_ = np.array(self._titles.levels, dtype=object)
        return self

    def summary(self) -> Any:
        """A data frame of the coefficients (of one output), the range, and the standard deviations
        of field and noise: mean, sd, and the 2.5, 50 and 97.5 % quantiles.

        Those of hyperparameters are of log-normal distributions with the moments of the posterior,
        which is not tempered here. A single set of them, as with "mode", has NaN for its spread.

        Examples
        --------
        >>> import numpy as np, graphrf as grf
        >>> points = np.random.default_rng(0).random((80, 2))
        >>> mesh = grf.gp.TriangleMesh.from_points(points, max_edge=0.05)
        >>> y = mesh.sample(points, range=0.5, seed=0)[0]
        >>> grf.gp.FieldGPRegressor(mesh, noise=0.01).fit(points, y).summary().round(1)
                  mean   sd  0.025  0.5  0.975
        constant   0.4  0.9   -1.4  0.4    2.1
        range      0.7  0.2    0.4  0.7    1.2
        sd         1.1  0.2    0.7  1.1    1.6
        noise sd   0.1  0.0    0.1  0.1    0.1
        """
        self._check_fitted()
        pandas = need("pandas", "summary")
        observed = self.n_observed_places_ * self._seen.offset.size
        rows = hyperparameter_rows(self._points, min(1.0, INFORMATION / observed))
        table = pandas.DataFrame.from_dict(rows, orient="index", columns=list(TABLE))
        return pandas.concat([self.coefficients_, table]) if self._seen.single else table

    def _checked(self) -> tuple[FieldHyperparameters, FieldPriors]:
        """The hyperparameters that are fixed, and the priors, once all settings are legal."""
        require_domain(self.domain)
        fixed = {}
        for name in ("range", "sd", "noise"):
            value = getattr(self, name)
            low, high = (1e-70, 1e70) if name == "sd" else (1e-140, 1e140)
            fixed[name] = None if value is None else checks.number(name, value, low=low, high=high)
        checks.choice("mean", self.mean, ("constant", "zero"))
        checks.choice("hyperparameters", self.hyperparameters, HYPERPARAMETERS)
        checks.flag("progress", self.progress)
        self._order = self.domain.checked_order(self.alpha)
        output_scale = None if fixed["sd"] is None else fixed["sd"] ** 2
        return (
            FieldHyperparameters(fixed["range"], output_scale, fixed["noise"]),
            FieldPriors.of(self.prior, self.domain),
        )

    def _condition_on(
        self,
        observed: Any,
        values: np.ndarray,
        weights: np.ndarray | None,
        x: Any,
        single: bool,
        fixed: FieldHyperparameters,
        priors: FieldPriors,
        labels: list[Any],
    ) -> None:
        """Train, and condition on observations of positive weights."""
        domain = self.domain
        nodes = domain.field_nodes(observed, self._order)
        covariates = None
        if x is not None:
            aligned = Rows(observed.size, labels_of(x)[0], False, lambda: [labels], noun="place")
            covariates = Covariates.of(x, aligned, nodes.where, nodes.n_nodes)
        mean = MeanFunction.of(self.mean, nodes.n_nodes, np.unique(nodes.where), covariates)
        values, offset = mean.centred(values)
        observations = Observations.of(nodes.where, values, mean.basis, weights)
        warn_of_few(observed.size, None in fixed)
        warn_of_placeholders("y", values + offset, "leave these places out")
        if (fixed.output_scale is None or fixed.noise is None) and not observations.varies:
            output_scale, noise = assumed_variances(fixed.output_scale, fixed.noise)
            fixed = fixed._replace(output_scale=output_scale, noise=noise)
        unit = domain.length_unit
        first = nodes.precision(domain.kernel(fixed.range or unit, self._order))
        with step_bar("training", self.progress) as bar:
            search = best(first, nodes.readings, observations, fixed, priors, unit, bar.update)
            points = [(search.best, 1.0)]
            if self.hyperparameters == "average":
                points = averaged(search, min(1.0, INFORMATION / observations.means.size))
        warn_of_no_information(search, observations, fixed)
        self._settle(Seen(observed, values, offset, weights, mean, single, labels), nodes, points)
        self.range_, output_scale, self.noise_ = search.best
        domain.warn_of_range(self.range_, observed)
        self.sd_ = float(np.sqrt(output_scale))
        self.log_marginal_likelihood_ = search.value
        self.converged_ = search.converged

    def _settle(
        self, seen: Seen, nodes: FieldNodes, points: list[tuple[FieldHyperparameters, float]]
    ) -> None:
        """The posterior for known hyperparameters, and what it determines."""
        posterior = self._conditioned(seen, nodes, points, seen.mean.basis, deviations=True)
        self._seen, self._points, self._nodes, self._posterior = seen, points, nodes, posterior
        self.n_points_ = len(points)
        self.n_observations_ = seen.places.size
        self.n_observed_places_ = np.unique(nodes.where[: self.n_observations_]).size
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
        nodes: FieldNodes,
        points: list[tuple[FieldHyperparameters, float]],
        basis: np.ndarray,
        deviations: bool,
    ) -> Posterior:
        """The posterior at nodes of places, whose first are those that were observed; of several
        sets of hyperparameters none holds its factor.
        """
        where = nodes.where[: seen.places.size]
        observations = Observations.of(where, seen.values, basis, seen.weights)
        kernel = self.domain.kernel(points[0][0].range, self._order)
        precision = nodes.precision(kernel)
        readings = nodes.readings
        keeps = "factor" if len(points) == 1 else "variances" if deviations else "means"

        def part(point: FieldHyperparameters) -> PrecisionPosterior:
            return PrecisionPosterior(
                precision.with_kernel(kernel.replace(range=point.range)),
                point.output_scale,
                observations,
                noise=point.noise,
                basis=basis,
                offset=seen.offset,
                readings=readings,
                keeps=keeps,
            )

        with blas_threads(1):  # bits must not depend on the number of threads
            (first, _), *others = points  # the first orders the variables for all
            parts = [part(first)]
            n_threads = readings.elimination(precision).at_once(None)
            parts += ordered_map(part, [point for point, _ in others], n_threads)
        return (
            parts[0]
            if len(parts) == 1
            else MixturePosterior(parts, np.array([weight for _, weight in points]))
        )
