"""Predictions of a fitted regressor compared with observations: log densities and information
criteria.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from graphrf._base import checks
from graphrf._base.memory import needs_memory
from graphrf._base.types import SignalLike
from graphrf.gp.hyperparameters.explore import INFORMATION
from graphrf.gp.likelihoods.proportions import Binomial
from graphrf.gp.model.observations import SeparateObservations
from graphrf.gp.model.problem import refuse_counts
from graphrf.gp.model.responses import checked_responses
from graphrf.gp.model.settings import checked_targets
from graphrf.gp.posterior.criteria import Evaluation, WithCriteria, predicted_rows
from graphrf.gp.predictor import LESS_MEMORY, NodePredictor


class EvaluatedPredictor(WithCriteria, NodePredictor):
    """A predictor whose predictions are compared with its own observations, or with new ones."""

    _separate: SeparateObservations

    @needs_memory(LESS_MEMORY)
    def log_density(
        self,
        nodes: SignalLike,
        y: ArrayLike | None = None,
        *,
        x: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
        trials: ArrayLike | None = None,
    ) -> np.ndarray:
        """Log predictive densities (for counts, probabilities) of single observations at nodes,
        shape (n,).

        Their negative mean over held-out observations is the log score: the smaller, the better the
        predictions.

        Parameters
        ----------
        nodes, y, exposure, trials
            See `fit`; ValueError without exposures or trials where the fit had them.
        x
            Covariates, as in `predict`.

        Notes
        -----
        The mean of p(y | f) over the posterior of f at the node, by a trapezoidal rule that is
        refined at the largest values; with normal noise a normal density.
        """
        self._check_fitted()
        if x is not None:
            return self._with_covariates(nodes, x).log_density(
                nodes, y, exposure=exposure, trials=trials
            )

        self._require_factors(exposure, trials)
        positions, y, rows = self._observed_rows(nodes, y)
        exposure, trials = rows.numbers("exposure", exposure), rows.numbers("trials", trials)

        if hasattr(self, "likelihood_"):
            values, offset = checked_responses(
                self.likelihood_, positions.size, y, exposure, trials
            )
            distinct, inverse = np.unique(positions, return_inverse=True)
            with self._linear_algebra():
                law = self._marginals(distinct)
            return law.at(inverse).log_density(values, offset)

        values, single = checked_targets(y, positions.size)
        mean, std = self.predict(positions, return_std="observation")
        z = (values[:, 0] if single else values) - mean
        return np.asarray(-0.5 * np.square(z / std) - np.log(std) - 0.5 * np.log(2 * np.pi))

    def _require_factors(self, exposure: Any, trials: Any) -> None:
        """ValueError for observations without what those of the fit had: exposures, or trials."""
        likelihood = getattr(self, "likelihood_", None)
        if likelihood is None:
            return refuse_counts(exposure, trials)
        had = (self._separate.offset != self._fitted.offset[0]).any(), type(likelihood) is Binomial
        given_of = {"exposure": exposure, "trials": trials}
        for (name, given), expected in zip(given_of.items(), had, strict=True):
            if expected and given is None:
                raise checks.value_error(
                    name,
                    f"must be given, since the fit had {name.rstrip('s')}s: pass {name}=..., those "
                    "of these observations, and in cross-validation call "
                    f"set_fit_request({name}=True).set_score_request({name}=True) of the estimator "
                    "after sklearn.set_config(enable_metadata_routing=True)",
                )

    def _evaluated(self) -> Evaluation:
        """The observations under the posterior at each point, for criteria."""
        fitted, separate = self._fitted, self._separate
        with self._linear_algebra():
            moments = self._posterior.leave_one_out_moments()
        points = [fitted.at(point) for point in fitted.points] or [fitted]
        nodes = fitted.observations.nodes[separate.place]
        return Evaluation(
            [
                predicted_rows(given_others, separate, point, single=fitted.single)
                for given_others, point in zip(moments, points, strict=True)
            ],
            np.array([point.weight for point in fitted.points] or [1.0]),
            separate.named([self.graph.nodes[node] for node in nodes.tolist()]),
            # As if training had seen all values: its posterior has the information of n_0 of them.
            temper=min(1.0, INFORMATION / fitted.observations.means.size),
        )
