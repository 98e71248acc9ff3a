"""Predictions of a regressor fitted over space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import NotFittedError

from graphrf._base import checks
from graphrf._base.memory import needs_memory
from graphrf.gp.fields.domain import Domain, FieldNodes, check_few
from graphrf.gp.fields.geometries import geometries_of, titles_of
from graphrf.gp.hyperparameters.explore import INFORMATION
from graphrf.gp.model.answers import Question, Titles, checked_bounds, deviations_like
from graphrf.gp.model.estimator import checked_weights
from graphrf.gp.model.observations import Observations, SeparateObservations
from graphrf.gp.model.settings import checked_targets
from graphrf.gp.posterior.answers import Answers, draw_observations
from graphrf.gp.posterior.criteria import Evaluation, NormalRows, WithCriteria
from graphrf.gp.posterior.marginals import marginals_of
from graphrf.gp.posterior.mixture import joint_draws
from graphrf.gp.posterior.protocol import Posterior
from graphrf.gp.space.saved import SavedField, Seen
from graphrf.gp.space.training import FieldHyperparameters
from graphrf.graph.alignment import Rows, as_pandas, labels_of, reordered
from graphrf.graph.tables import is_table

LESS_MEMORY = "observe or ask for fewer places at a time, or pass hyperparameters='mode'"


class FieldPredictor(WithCriteria, SavedField):
    """Predictions at places from the posterior that `fit` computed."""

    domain: Domain
    _order: float
    _seen: Seen
    _points: list[tuple[FieldHyperparameters, float]]
    _nodes: FieldNodes
    _posterior: Posterior
    _titles: Titles

    def _conditioned(
        self,
        seen: Seen,
        nodes: FieldNodes,
        points: list[tuple[FieldHyperparameters, float]],
        basis: np.ndarray,
        deviations: bool,
    ) -> Posterior:
        raise NotImplementedError

    @needs_memory(LESS_MEMORY)
    def predict(
        self,
        places: Any = None,
        return_std: bool | str = False,
        return_cov: bool = False,
        *,
        x: ArrayLike | None = None,
        quantiles: float | Sequence[float] | None = None,
        as_frame: bool = False,
    ) -> Any:
        """The posterior mean, and on request deviations or covariances of the noise-free function.

        Parameters
        ----------
        places : places, as in `fit`; default all nodes or vertices
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
        """The arrays that `predict` returns."""
        deviations = bool(question.return_std or question.levels is not None)
        posterior, vertices, inverse = self._at(places, x, deviations)
        if question.levels is not None:
            answer = self._answers(posterior, vertices, "quantiles").to(question)
            if question.of_everything:
                return tuple(part[inverse] for part in answer)
            return answer[inverse]

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

    @needs_memory(LESS_MEMORY)
    def probability(
        self,
        places: Any = None,
        *,
        above: float | None = None,
        below: float | None = None,
        x: ArrayLike | None = None,
        as_frame: bool = False,
    ) -> Any:
        """The probability that the noise-free function is above or below a threshold, shape (q,).

        Parameters
        ----------
        places, x, as_frame
            As in `predict`; the column is "probability".
        above, below : float
            The threshold; with both, the probability of the range between them.
        """
        low, high = checked_bounds(above, below)
        as_frame = checks.flag("as_frame", as_frame)
        posterior, vertices, inverse = self._at(places, x, deviations=True)
        result = self._answers(posterior, vertices, "above").probability(low, high)[inverse]
        return self._frame(places, {"probability": result}) if as_frame else result

    @needs_memory(LESS_MEMORY)
    def sample(
        self,
        places: Any = None,
        n_samples: int = 1,
        seed: int | None = None,
        *,
        x: ArrayLike | None = None,
        observations: bool = False,
    ) -> np.ndarray:
        """Joint draws of the noise-free function from the posterior, (n_samples, q) or (n_samples,
        q, p).

        Draws depend on the seed and on the set of places, which are given as in `predict`, with
        their covariates `x`. With `observations` they are of new observations, noise included. The
        vertices of a mesh stand for unequal areas: means over regions are weighted means at the
        points of `TriangleMesh.quadrature`.
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

    @needs_memory(LESS_MEMORY)
    def log_density(
        self, places: Any, y: ArrayLike | None = None, *, x: ArrayLike | None = None
    ) -> np.ndarray:
        """Log predictive densities of single observations, shape (n,) or (n, p); arguments as in
        `fit`.

        Normal ones, with the mean and the standard deviation that `predict` has for observations.
        """
        places, y, rows = observed_places(places, y)
        values, single = checked_targets(y, rows.n, "place")
        own = None if x is None else rows.taken("x", x)

        mean, std = self.predict(places, return_std="observation", x=own)
        z = ((values[:, 0] if single else values) - mean) / std
        return np.asarray(-0.5 * np.square(z) - np.log(std) - 0.5 * np.log(2 * np.pi))

    def score(
        self,
        places: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        x: ArrayLike | None = None,
    ) -> float:
        """The coefficient of determination R^2 of the predicted means; arguments as in `fit`."""
        places, y, rows = observed_places(places, y)
        weights = checked_weights(rows.numbers("sample_weight", sample_weight), rows.n, "place")
        predicted = self.predict(places, x=None if x is None else rows.taken("x", x))
        from sklearn.metrics import r2_score  # which loads much of scipy

        return float(
            r2_score(checked_targets(y, rows.n, "place")[0], predicted, sample_weight=weights)
        )

    def _answers(self, posterior: Posterior, vertices: np.ndarray, argument: str) -> Answers:
        """Answers about each vertex alone, for one output."""
        if not self._seen.single:
            raise checks.value_error(argument, "is for one output; fit outputs one at a time")
        noises = [point.noise for point, _ in self._points]
        law = marginals_of(posterior.laws(vertices, None), [None] * len(noises))
        return Answers(law, noises=noises)

    def _evaluated(self) -> Evaluation:
        """The observations under the posterior at each point, for criteria."""
        seen = self._seen
        n = seen.places.size
        where = self._nodes.where[:n]
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
        self, places: Any, x: Any, deviations: bool = False
    ) -> tuple[Posterior, np.ndarray, np.ndarray]:
        """The posterior where places are nodes, their distinct nodes, and which of these each place
        is; `deviations` says that these will be asked for.
        """
        self._check_fitted()
        places = self._selected(places)
        asked = self.domain.places(places)
        nodes = self.domain.field_nodes(self._seen.places.followed_by(asked), self._order)
        n_seen = self._seen.places.size
        seen, own = nodes.where[:n_seen], nodes.where[n_seen:]
        mean, posterior = self._seen.mean, self._posterior
        if nodes.n_nodes != self._nodes.n_nodes or mean.width.size:
            basis = np.zeros((nodes.n_nodes, mean.basis.shape[1]))
            basis[:, :1] = 1.0
            basis[seen] = mean.basis[self._nodes.where[:n_seen]]
            # Covariates that are asked for are not those of the observations there.
            observed = basis.copy()
            if x is not None:
                rows = place_rows(self.domain.labels if places is None else places, asked.size)
                basis = mean._replace(basis=basis).with_rows(own, x, rows)
            elif mean.width.size and not np.isin(own, seen).all():
                raise checks.value_error(
                    "x",
                    "must be given: `fit` was given no covariates of "
                    f"{int((~np.isin(own, seen)).sum())} of these places; pass a row for "
                    "each place, or ask for observed places only",
                )
            posterior = self._extended(nodes, observed, basis, deviations)
        elif x is not None:
            raise checks.value_error("x", "must be None: `fit` was given no covariates")
        distinct, inverse = np.unique(own, return_inverse=True)
        return posterior, distinct, inverse

    def _extended(
        self, nodes: FieldNodes, observed: np.ndarray, basis: np.ndarray, deviations: bool
    ) -> Posterior:
        """The posterior at further nodes; anew where these bring variables of their own.

        The bases of the mean are those of the observations and of predictions, at all nodes.
        """
        readings = nodes.readings_by(self._nodes)
        if readings is None:
            made = self._conditioned(self._seen, nodes, self._points, observed, deviations)
            return made.with_basis(basis)
        posterior: Any = self._posterior
        result: Posterior = posterior.with_readings(readings, basis)
        return result

    def _selected(self, places: Any) -> Any:
        """The columns of a data frame that `fit` read, by title; other places as they are."""
        titles = list(getattr(self, "feature_names_in_", ()))
        if not titles or (found := titles_of(places)) is None:
            return places
        if lacking := [title for title in titles if title not in found]:
            raise checks.value_error(
                "places",
                f"must have the columns {', '.join(map(repr, titles))}, as in `fit`, but lacks "
                f"{', '.join(map(repr, lacking))}: rename its columns, or pass an array of them",
            )
        return (places if hasattr(places, "columns") else places.to_frame(index=False))[titles]

    def _frame(self, places: Any, columns: dict[Any, np.ndarray]) -> Any:
        """A data frame with a row for each of the places."""
        places = self._selected(places)
        labels, _ = labels_of(places)
        titles, usual = self._titles, "place"
        if places is None:
            labels, usual = self.domain.labels, self.domain.label
            # Vertices of a mesh are none of the places that the labels of a fit name.
            titles = titles._replace(levels=None) if self.domain.field_dimension == 2 else titles
        names = names_of_places(places) if labels is None else list(labels)
        return titles.frame(names, columns, places, usual)

    def _check_fitted(self) -> None:
        if not hasattr(self, "_posterior"):
            raise NotFittedError(
                "this FieldGPRegressor is not fitted yet: call fit(places, y) first"
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
        rows = Rows(len(labels), labels, False, list, noun="place")
        return labels, reordered(places, None), rows

    n = len(places) if hasattr(places, "__len__") else np.size(places)
    rows = place_rows(places, n)
    return places, rows.taken("y", y, all_of_them=True), rows.beside(y)


def place_rows(places: Any, n: int) -> Rows:
    """The rows of n places that a user gave; their other labels are the places themselves."""
    labels, numbered = labels_of(places)

    return Rows(n, labels, numbered, lambda: [names_of_places(places)], noun="place")


def names_of_places(places: Any) -> list[Any]:
    """Places as labels: geometries, nodes, or tuples of coordinates."""
    geometries = geometries_of(places, "places")
    if geometries is not None:
        return list(geometries.values)
    if is_table(places):
        columns = [np.asarray(places[title]).tolist() for title in places.columns]
        return list(zip(*columns, strict=True))
    listed = places.tolist() if hasattr(places, "tolist") else list(places)
    return [tuple(each) if isinstance(each, list) else each for each in listed]
