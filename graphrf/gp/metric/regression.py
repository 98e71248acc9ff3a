"""Gaussian-process regression along the edges of a metric graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import NotFittedError

from graphrf._base import checks
from graphrf._base.memory import require_memory
from graphrf.gp.hyperparameters.explore import INFORMATION
from graphrf.gp.metric.field import ENDS, EdgeKernel, EdgePrecision
from graphrf.gp.metric.graph import MetricGraph, check_few, require_metric_graph
from graphrf.gp.metric.pieces import Pieces
from graphrf.gp.metric.training import Hyperparameters, averaged, best
from graphrf.gp.model.answers import check_deviations, deviations_like
from graphrf.gp.model.estimator import forget
from graphrf.gp.model.observations import Observations
from graphrf.gp.model.prior import HyperparameterPrior
from graphrf.gp.model.problem import assumed_variances
from graphrf.gp.model.settings import HYPERPARAMETERS, checked_hyperprior, checked_targets
from graphrf.gp.posterior.by_precision import PrecisionPosterior
from graphrf.gp.posterior.mixture import MixturePosterior


class MetricGraphGPRegressor(RegressorMixin, BaseEstimator):
    r"""Gaussian-process regression of a signal along the edges of a metric graph, observed anywhere on them.

    .. math:: y = c + u(s) + \varepsilon, \quad (l^{-2} - \Delta)^{1/2} \, (\tau u) = W, \quad
              \sigma^2 = \frac{l}{2 \tau^2}, \quad \varepsilon \sim N(0, s),

    with the Whittle-Matern field u of order 1: driven by white noise W on every edge, continuous, and with
    derivatives out of each node that sum to 0. Along an endless edge its covariance is sigma^2 exp(-d / l); where
    k long edges meet the variance is 2 sigma^2 / k. All is exact: places become vertices, and the precision of the
    field at vertices is sparse.

    Parameters
    ----------
    graph : MetricGraph
        N nodes, E edges. Shared, never copied.
    lengthscale, output_scale, noise : float, optional
        Fixed values of l (in the unit of the edges' lengths), the variance sigma^2 and the noise variance s. None
        trains them by the exact marginal likelihood of all observations times the prior.
    ends : {"stationary", "free"}
        Of the field in nodes of degree 1. "stationary": as if the edge continued indefinitely. "free": its
        derivative is 0, and its variance twice that along the edge.
    mean : {"constant", "zero"}
        c, by generalised least squares for each output; its uncertainty is part of standard deviations,
        covariances and draws.
    prior : "weak", None, mapping or HyperparameterPrior
        As in `GraphGPRegressor`. The unit of lengthscales is the mean length of a road between junctions or dead
        ends (`MetricGraph.road_length`).
    hyperparameters : {"average", "mode"}
        "average": predictions are averaged over the tempered posterior of the hyperparameters, at up to seven
        points. "mode": they use the most probable ones.

    Attributes
    ----------
    lengthscale_, output_scale_, noise_ : float
        The hyperparameters with the highest posterior density.
    mean_ : float, or ndarray of shape (p,) for several outputs
        c.
    log_marginal_likelihood_ : float
        Log marginal likelihood of all observations, without the prior, summed over outputs.
    converged_ : bool
        Whether the gradient vanishes at the fitted hyperparameters.
    n_points_ : int
        Number of hyperparameter sets over which predictions are averaged.
    n_observations_, n_observed_places_ : int

    Notes
    -----
    Repeated observations of a place are legal. Components without observations keep the prior. Time: an ordering
    of all vertices (nodes, and places that were observed), some 30 factorisations for training, and for each
    prediction one more for each set of hyperparameters, after another ordering where places are new. On roads
    these take some microseconds a vertex each. Memory: the factor, some tens of numbers a vertex.

    Fields of higher order, which are differentiable along the edges, are not here.

    Sources: Bolin, Simas and Wallin 2024, "Gaussian Whittle-Matern fields on metric graphs"; 2023, "Statistical
    inference for Gaussian Whittle-Matern fields on metric graphs". The R package MetricGraph has the same model
    with its range 2 l.

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
    """

    def __init__(
        self,
        graph: MetricGraph,
        *,
        lengthscale: float | None = None,
        output_scale: float | None = None,
        noise: float | None = None,
        ends: str = "stationary",
        mean: str = "constant",
        prior: HyperparameterPrior | str | None = "weak",
        hyperparameters: str = "average",
    ) -> None:
        self.graph = graph
        self.lengthscale = lengthscale
        self.output_scale = output_scale
        self.noise = noise
        self.ends = ends
        self.mean = mean
        self.prior = prior
        self.hyperparameters = hyperparameters

    # -- fitting -----------------------------------------------------------------------------------

    def fit(self, places: Any, y: Any) -> MetricGraphGPRegressor:
        """Train the hyperparameters and condition on the observations.

        Parameters
        ----------
        places : nodes, pairs (edge number, distance) or triples (u, v, distance from u)
            n of them, as in `MetricGraph`; repeated places are repeated observations.
        y : array_like, shape (n,) or (n, p)
            Several outputs share all hyperparameters but the mean, as repeated measurements of one network do.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            For invalid places, y that is not finite or of the wrong length, settings out of range, and a
            lengthscale so long that the precision is numerically singular.

        Warns
        -----
        UserWarning
            If y does not vary, or a hyperparameter ends at a bound of its search range.
        """
        forget(self, ("_posterior",))
        graph = require_metric_graph(self.graph)
        fixed = Hyperparameters(self.lengthscale, self.output_scale, self.noise)
        for name, value in fixed._asdict().items():
            if value is not None:
                fixed = fixed._replace(**{name: checks.number(name, value, low=1e-140, high=1e140)})
        checks.choice("ends", self.ends, ENDS)
        checks.choice("mean", self.mean, ("constant", "zero"))
        checks.choice("hyperparameters", self.hyperparameters, HYPERPARAMETERS)
        prior = checked_hyperprior(self.prior)
        found = graph.places(places)
        values, single = checked_targets(y, found.node.size)
        pieces = graph.cut(found)
        offset = values.mean(axis=0) if self.mean == "constant" else np.zeros(values.shape[1])
        observations = Observations.of(pieces.where, values - offset, self._basis(pieces.n_nodes))
        if (fixed.output_scale is None or fixed.noise is None) and not observations.varies:
            output_scale, noise = assumed_variances(fixed.output_scale, fixed.noise)
            fixed = fixed._replace(output_scale=output_scale, noise=noise)
        first = EdgePrecision(pieces, EdgeKernel(self.lengthscale or graph.road_length), self.ends)
        search = best(first, observations, fixed, prior, graph.road_length)
        points = [(search.found, 1.0)]
        if self.hyperparameters == "average":
            points = averaged(search, min(1.0, INFORMATION / observations.means.size))
        posterior = self._condition(pieces, points, values - offset, offset, pieces.where)

        self._places, self._values, self._offset, self._single = found, values - offset, offset, single
        self._points, self._pieces, self._posterior = points, pieces, posterior
        self.lengthscale_, self.output_scale_, self.noise_ = search.found
        self.log_marginal_likelihood_ = search.value
        self.converged_ = search.converged
        self.n_points_ = len(points)
        self.n_observations_, self.n_observed_places_ = found.node.size, observations.nodes.size
        constant = offset + (posterior.coefficients[0] if self.mean == "constant" else 0.0)
        self.mean_ = float(constant[0]) if single else constant
        return self

    def _basis(self, n: int) -> np.ndarray:
        """The mean function's basis at n vertices."""
        return np.ones((n, 1 if self.mean == "constant" else 0))

    def _condition(
        self,
        pieces: Pieces,
        points: list[tuple[Hyperparameters, float]],
        values: np.ndarray,
        offset: np.ndarray,
        where: np.ndarray,
    ) -> PrecisionPosterior | MixturePosterior:
        """The posterior at the vertices of pieces, of values observed at some of them."""
        basis = self._basis(pieces.n_nodes)
        observations = Observations.of(where, values, basis)
        precision = EdgePrecision(pieces, EdgeKernel(points[0][0].lengthscale), self.ends)
        parts = [
            PrecisionPosterior(
                precision.with_kernel(EdgeKernel(point.lengthscale)), point.output_scale, observations,
                noise=point.noise, basis=basis, offset=offset,
            )
            for point, _ in points
        ]  # fmt: skip
        return parts[0] if len(parts) == 1 else MixturePosterior(parts, np.array([weight for _, weight in points]))

    # -- predictions -------------------------------------------------------------------------------

    def predict(self, places: Any = None, return_std: bool | str = False, return_cov: bool = False) -> Any:
        """The posterior mean, and on request standard deviations or covariances of the noise-free function.

        Parameters
        ----------
        places : places, as in `fit`; default all nodes
        return_std : bool or "observation"
            True: standard deviations of c + u. "observation": of a new observation, including noise.
        return_cov : bool
            The joint covariance, at most 5,000 distinct places.

        Returns
        -------
        mean : ndarray, shape (q,) or (q, p)
        std : ndarray, shape of `mean`
        cov : ndarray, shape (q, q)
            The same for all outputs; if predictions are averaged, the mean over outputs.
        """
        check_deviations(return_std, return_cov)
        posterior, vertices, inverse = self._at(places)
        mean = posterior.means(vertices)[inverse]
        if return_cov:
            check_few(vertices.size)
            return self._shaped(mean), posterior.covariances(vertices)[np.ix_(inverse, inverse)]
        if not return_std:
            return self._shaped(mean)
        variance = posterior.variances(vertices)
        if return_std == "observation":
            variance = variance + posterior.noise
        return self._shaped(mean), self._shaped(deviations_like(mean, variance[inverse]))

    def sample(self, places: Any = None, n_samples: int = 1, seed: int | None = None) -> np.ndarray:
        """Joint draws of the noise-free function from the posterior.

        Parameters
        ----------
        places : places, as in `fit`; default all nodes
        n_samples : int
        seed : int in [0, 2^63), optional
            None draws one. Draws depend on the seed and on the set of places.

        Returns
        -------
        ndarray, shape (n_samples, q), or (n_samples, q, p) for several outputs
        """
        n_samples = checks.integer("n_samples", n_samples, low=1)
        rng = np.random.default_rng(checks.seed(seed))
        posterior, vertices, inverse = self._at(places)
        require_memory(
            16.0 * inverse.size * n_samples * posterior.n_outputs, f"`n_samples` = {n_samples}", "ask for fewer"
        )
        return self._shaped(posterior.draws(vertices, n_samples, rng)[:, inverse], axis=2)

    def _at(self, places: Any) -> tuple[PrecisionPosterior | MixturePosterior, np.ndarray, np.ndarray]:
        """The posterior where places are vertices, their distinct vertices, and which of these each place is."""
        if not hasattr(self, "_posterior"):
            raise NotFittedError("this MetricGraphGPRegressor is not fitted yet: call fit(places, y) first")
        asked = self.graph.places(places)
        pieces = self.graph.cut(self._places.followed_by(asked))
        seen = self._places.node.size
        posterior = self._posterior
        if pieces.n_nodes != self._pieces.n_nodes:
            posterior = self._condition(pieces, self._points, self._values, self._offset, pieces.where[:seen])
        vertices, inverse = np.unique(pieces.where[seen:], return_inverse=True)
        return posterior, vertices, inverse

    def _shaped(self, array: np.ndarray, axis: int = 1) -> np.ndarray:
        """Without the axis of outputs where y had none."""
        return np.take(array, 0, axis=axis) if self._single else array
