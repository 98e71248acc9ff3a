"""Answers of a fitted latent Gaussian model: predictions, probabilities, draws and criteria."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import expit
from sklearn.exceptions import NotFittedError

from graphrf._base import checks
from graphrf._base.memory import needs_memory, require_memory
from graphrf._base.rows import slices
from graphrf._base.warn import warn
from graphrf.gp.latent.basis import FixedEffects
from graphrf.gp.latent.columns import as_pandas_frame, require_columns, require_no_responses
from graphrf.gp.latent.data import Data
from graphrf.gp.latent.design import Design
from graphrf.gp.latent.formula import for_rows
from graphrf.gp.latent.posterior import Gaussian, PredictedRows, rows_of
from graphrf.gp.likelihoods.proportions import Binomial, Successes
from graphrf.gp.model.answers import Question, checked_bounds
from graphrf.gp.model.mean_function import TABLE
from graphrf.gp.model.notices import UNITS, warn_of_far
from graphrf.gp.model.responses import for_each
from graphrf.gp.posterior.answers import Answers
from graphrf.gp.posterior.criteria import Evaluation, LatentRows, WithCriteria, without_sites
from graphrf.gp.posterior.marginals import MarginalMixture, Marginals
from graphrf.gp.terms.joint import Joint
from graphrf.gp.terms.steps import StepAxis
from graphrf.gp.terms.term import BoundTerm
from graphrf.operators.pathwise import draws_at_once, draws_bytes

LESS_MEMORY = "fit fewer rows, or terms of fewer variables"
# The quantiles of tables.
QUANTILES = tuple(map(float, TABLE[2:]))


_without_exposure = checks.without(
    ("exposure", "trials"),
    "is a column of the frame, which the model names: predict(frame, return_std='observation') is "
    "of observations with that exposure",
)


class LatentPredictor(WithCriteria):
    """The answers of a fitted latent Gaussian model, from its posterior at weighted points."""

    _points: list[Gaussian]
    _probabilities: np.ndarray
    _joint: Joint
    _bound: list[BoundTerm]
    _design: Design
    _effects: FixedEffects
    _data: Data
    _frame: Any
    exposure: Any
    trials: Any
    _observed: Callable[[Any], tuple[np.ndarray, np.ndarray]]

    @needs_memory(LESS_MEMORY)
    @_without_exposure
    def predict(
        self,
        frame: Any = None,
        *,
        return_std: Any = False,
        quantiles: float | Sequence[float] | None = None,
        latent: bool = False,
        as_frame: bool = False,
    ) -> Any:
        """The expected observation for each row of a frame, per unit of exposure or trial; of the
        fit by default.

        With return_std="observation" all answers are about a new observation, of the exposure or
        trials that the row has in the column that `exposure` or `trials` names. Exposures beyond
        100 times those of the fit are warned of.

        Parameters
        ----------
        frame : DataFrame, optional
            With the columns of the fixed effects and terms. New levels of `Steps` are forecasts,
            those of `Groups` have the prior's standard deviation. A warning names numbers that are
            outside of the range of the fit by more than three times that.
        return_std : bool or "observation"
            Standard deviations of the expected observation, or of a new observation.
        quantiles : sequence of float, optional
            Levels such as (0.025, 0.5, 0.975): quantiles of the expected observation are returned
            instead; with return_std="observation" those of a new observation, whose intervals hold
            observations.
        latent : bool
            The linear predictor instead.
        as_frame : bool
            A data frame with the index of the frame, by default of the fit's, and the columns
            "mean", "std" and "0.025" for a level, as far as they are asked for.
        """
        self._check_fitted()
        question = Question.of(return_std, quantiles=quantiles, latent=latent, as_frame=as_frame)
        law, index = self._marginals(frame)
        if question.of_observation:
            answer = self._of_observations(law, frame, question)
        else:
            answer = self._answers(law, question.latent).to(question)
        return _table(question.columns(answer), index) if question.as_frame else answer

    @needs_memory(LESS_MEMORY)
    def probability(
        self,
        frame: Any = None,
        *,
        above: float | None = None,
        below: float | None = None,
        latent: bool = False,
        as_frame: bool = False,
    ) -> Any:
        """The probability that the expected observation lies above, below, or between values.

        Parameters
        ----------
        frame, latent, as_frame
            As in `predict`; the column is "probability".
        above, below : float
            The threshold; with both, the probability of what is between.
        """
        self._check_fitted()
        low, high = checked_bounds(above, below)
        question = Question.of(False, latent=latent, as_frame=as_frame)

        law, index = self._marginals(frame)
        result = self._answers(law, question.latent).probability(low, high)
        return _table({"probability": result}, index) if question.as_frame else result

    def score(self, frame: Any, y: None = None) -> float:
        """The coefficient of determination R^2 of the predicted means, times exposures or trials; 1
        is best.

        The frame has the columns that `fit` reads: the response, and exposures, trials and events
        if any; `y` is None, as in `fit`.
        """
        require_no_responses(y)
        self._check_fitted()
        values, offset = self._observed(frame)
        predicted = self.predict(frame) * np.exp(offset)
        if isinstance(self._data.likelihood, Binomial):
            predicted = predicted * values[1]

        from sklearn.metrics import r2_score  # which loads much of scipy

        return float(r2_score(values if values.ndim == 1 else values[0], predicted))

    @needs_memory(LESS_MEMORY)
    def log_density(self, frame: Any) -> np.ndarray:
        """Log predictive densities (for counts, probabilities) of the observations of a frame,
        shape (rows,).

        Their negative mean over held-out rows is the log score: the smaller, the better. The frame
        is that of `score`; for the fit's own rows take `loo`, since the fit has seen these.
        """
        self._check_fitted()
        values, offset = self._observed(frame)
        return self._marginals(frame)[0].log_density(values, offset)

    @needs_memory(LESS_MEMORY)
    def sample(
        self,
        frame: Any = None,
        n_samples: int = 1,
        *,
        seed: int | None = None,
        latent: bool = False,
        observations: bool = False,
    ) -> np.ndarray:
        """Joint posterior draws of the expected observations, shape (n_samples, rows).

        With `latent` of the linear predictor; with `observations` of new observations, as in
        `predict`.
        """
        self._check_fitted()
        latent = checks.flag("latent", latent)
        observations = checks.flag("observations", observations)
        if latent and observations:
            raise checks.value_error(
                "observations", "are not of the latent function: set latent=False"
            )
        n_samples = checks.integer("n_samples", n_samples, low=1)

        rng = np.random.default_rng(checks.seed(seed))
        (noise,) = rng.spawn(1)  # draws of the linear predictor do not depend on `observations`
        which = rng.choice(len(self._points), size=n_samples, p=self._probabilities)
        rows_at = self._rows(frame)
        n_rows, n = rows_at(self._points[0]).known.shape
        offset = self._log_exposure(frame)[:, None] if observations else 0.0
        trials = self._trials(frame) if observations else None

        require_memory(
            8.0 * n_samples * n_rows + draws_bytes(n + n_rows, n_samples),
            f"`n_samples` = {n_samples}",
            "ask for fewer at a time, with another `seed` each, or for fewer rows",
        )

        draws = np.empty((n_samples, n_rows))
        for k in np.unique(which).tolist():
            point, numbers = self._points[k], np.flatnonzero(which == k)
            rows = rows_at(point)

            for part in slices(numbers.size, draws_at_once(n + n_rows)):
                chosen = numbers[part]
                z = point.mean[:, None] + point.factor.draws(rng.standard_normal((n, chosen.size)))
                eta = rows.known @ z + rows.more(rng, chosen.size)
                if observations:
                    if trials is None:
                        draws[chosen] = point.likelihood.sample(eta + offset, noise).T
                    else:
                        draws[chosen] = noise.binomial(trials[:, None], expit(eta)).T
                else:
                    draws[chosen] = (eta if latent else point.likelihood.mean(eta)).T
        return draws

    @needs_memory(LESS_MEMORY)
    def effects(self, term: int | str) -> Any:
        """The posterior of a term at its levels: a data frame with mean, sd and quantiles, on the
        latent scale.

        `term` is its number or its label, "district" where `summary` has sd(district); or a column
        of the formula, such as "depth" of bs(depth, df=4), whose effect is that of its values less
        the mean over the rows of the fit.
        """
        self._check_fitted()
        import pandas

        labels = [each.label for each in self._bound]
        if isinstance(term, str) and term in self._design.spans and term not in labels:
            fixed = self._design.along(term) @ self._effects.transform
            rows = PredictedRows(rows_of(self._bound, [None] * len(self._bound), fixed), [])
            index = pandas.Index(self._design.spans[term], name=term)
            table = law_rows(self._mixture(lambda _: rows))
            return pandas.DataFrame(table, index=index, columns=list(TABLE))
        number = self._number_of(term)
        bound = self._bound[number]

        law = self._law(self._level_rows(number))
        names = [axis.column for axis in bound.axes]

        index = (
            pandas.MultiIndex.from_tuples(bound.levels, names=names)
            if len(names) > 1
            else pandas.Index(bound.levels, name=names[0], tupleize_cols=False)
        )
        return pandas.DataFrame(law_rows(law), index=index, columns=list(TABLE))

    # -- inside ------------------------------------------------------------------------------------

    def _number_of(self, term: Any) -> int:
        """The number of a term that is given by its number or its label."""
        if not isinstance(term, str):
            return checks.integer("term", term, low=0, high=len(self._bound) - 1)
        labels = [each.label for each in self._bound]
        checks.choice("term", term, dict.fromkeys([*labels, *self._design.spans]))
        first, *others = (place for place, label in enumerate(labels) if label == term)
        if others:
            numbers = ", ".join(map(str, (first, *others)))
            raise checks.value_error(
                "term", f"must be one of the numbers {numbers}, whose labels are all {term!r}"
            )
        return first

    def _level_rows(self, number: int) -> sp.csr_array:
        """A row for each level of a term."""
        levels = self._bound[number].level_rows()
        alone = [levels if j == number else None for j in range(len(self._bound))]
        return rows_of(self._bound, alone, np.zeros((levels.shape[0], len(self._design.names))))

    def _evaluated(self) -> Evaluation:
        """The observations under the posterior at each point, for criteria."""
        y, offset = self._data.y, self._data.offset
        laws = [
            Marginals(each.eta.mean, each.eta.variance, each.likelihood) for each in self._points
        ]

        rows = [
            LatentRows(law, without_sites(law, point.sites), y, offset)
            for law, point in zip(laws, self._points, strict=True)
        ]
        return Evaluation(rows, self._probabilities, self._frame.index)

    def _answers(self, law: MarginalMixture, latent: bool = False) -> Answers:
        """Answers about the linear predictor, or about the expected observation."""
        return Answers(law, None if latent else law.parts[0].likelihood)

    def _of_observations(self, law: MarginalMixture, frame: Any, question: Question) -> Any:
        """Answers about a new observation in each row, of its exposure or trials."""
        trials = self._trials(frame)
        if trials is None:
            return self._answers(law.shifted(self._log_exposure(frame))).to(question)

        numbers = np.unique(trials).tolist() or [1]
        of_rows = [np.flatnonzero(trials == number) for number in numbers]
        found = [
            self._answers(law.at(rows).under(Successes(number))).to(question)
            for number, rows in zip(numbers, of_rows, strict=True)
        ]
        back = np.argsort(np.concatenate(of_rows))
        if isinstance(found[0], tuple):
            return tuple(np.concatenate(parts)[back] for parts in zip(*found, strict=True))
        return np.concatenate(found)[back]

    def _trials(self, frame: Any) -> np.ndarray | None:
        """The number of trials of an observation in each row; None without trials."""
        if self.trials is None:
            return None
        if frame is None:
            return np.asarray(self._data.y[1], dtype=np.int64)
        frame = as_pandas_frame(frame)
        values = for_each("trials", for_rows(frame, "trials", self.trials), len(frame))
        assert values is not None
        return self._data.likelihood.checked(np.zeros(len(frame)), values)[1].astype(np.int64)

    def _log_exposure(self, frame: Any) -> np.ndarray:
        """The logarithm of the exposure of an observation in each row, (rows,), or of all, (1,)."""
        if frame is None or self.exposure is None:
            return self._data.offset if frame is None else np.zeros(1)
        frame = as_pandas_frame(frame)
        values = for_each("exposure", for_rows(frame, "exposure", self.exposure), len(frame))
        assert values is not None
        asked = self._data.likelihood.log_exposure(np.zeros(len(frame)), values)
        self._warn_of_exposures(asked)
        return asked

    def _warn_of_exposures(self, asked: np.ndarray) -> None:
        """Warn of logarithms of exposures that are far from all of the fit, as in another unit."""
        seen = self._data.offset
        far = max(asked.max() - seen.max(), seen.min() - asked.min()) if asked.size else 0.0
        if far > math.log(UNITS):
            ends = [f"{np.exp(x.min()):.3g} to {np.exp(x.max()):.3g}" for x in (asked, seen)]
            warn(
                f"`exposure` of the rows to predict is {ends[0]}, that of the fit {ends[1]}: "
                "observations are of the exposure of their row; are both in one unit (km² or m²)?"
            )

    def _marginals(self, frame: Any) -> tuple[MarginalMixture, Any]:
        """The distribution of the linear predictor in each row of a frame, and their labels."""
        self._check_fitted()
        if frame is None:
            parts = [
                Marginals(each.eta.mean, each.eta.variance, each.likelihood)
                for each in self._points
            ]
            return MarginalMixture(parts, self._probabilities), self._frame.index

        frame = as_pandas_frame(frame)
        return self._mixture(self._rows(frame)), frame.index

    def _mixture(self, rows_at: Callable[[Gaussian], PredictedRows]) -> MarginalMixture:
        """The distributions of rows of eta."""
        parts, joint, before = [], self._joint, None
        for point in self._points:
            rows = rows_at(point)
            if rows is not before:
                (joint, known), before = rows.held_by(joint), rows
            variances = rows.variances(joint, known, point)
            parts.append(Marginals(rows.known @ point.mean, variances, point.likelihood))
        return MarginalMixture(parts, self._probabilities)

    def _law(self, rows: sp.csr_array) -> MarginalMixture:
        """The distributions of rows that the pattern holds."""
        asked = self._joint.layout.rows(rows)
        parts = [
            Marginals(
                rows @ each.mean, np.maximum(each.factor.variances(asked), 0.0), each.likelihood
            )
            for each in self._points
        ]
        return MarginalMixture(parts, self._probabilities)

    def _rows(self, frame: Any) -> Callable[[Gaussian], PredictedRows]:
        """The rows of eta for a data frame, by default that of the fit, at a point."""
        if frame is None:
            return lambda _: PredictedRows(self._joint.a, [])
        frame = as_pandas_frame(frame)
        for term in self._bound:
            require_columns(frame, term.columns, f"the term of {term.label!r}")

        fixed = self._design.rows(frame) @ self._effects.transform
        self._warn_of_far(frame)
        same: list[PredictedRows] = []  # where no level is new, the rows are those of all points

        def at(point: Gaussian) -> PredictedRows:
            if same:
                return same[0]
            values = [self._joint.values(point.vector, term) for term in self._bound]
            parts = [
                term.extension(frame, by_name)
                for term, by_name in zip(self._bound, values, strict=True)
            ]

            old_rows = rows_of(self._bound, [part.old for part in parts], fixed)
            scales = [
                by_name[term.deviation.name]
                for term, by_name in zip(self._bound, values, strict=True)
            ]

            rows = PredictedRows(
                old_rows, [(a, s) for a, s in zip(parts, scales, strict=True) if a.new.shape[1]]
            )

            if not rows.extensions:
                same.append(rows)
            return rows

        return at

    def _warn_of_far(self, frame: Any) -> None:
        """Warn of numbers far outside of those of the fit, in fixed effects and in `Steps`."""
        known: dict[str, Sequence[Hashable]] = dict(self._design.spans)
        axes = [axis for term in self._bound for axis in term.axes if isinstance(axis, StepAxis)]
        known.update((axis.column, axis.levels) for axis in axes)

        for name, values in known.items():
            levels, asked = (
                [x for x in own if isinstance(x, Real)] for own in (values, frame[name])
            )
            if levels and asked:
                ends = float(min(levels)), float(max(levels))
                warn_of_far(name, np.array(asked, dtype=np.float64), *ends)

    def _check_fitted(self) -> None:
        if not hasattr(self, "_points"):
            raise NotFittedError(
                "this LatentGaussianModel is not fitted yet: call fit(frame) first"
            )


def law_rows(law: MarginalMixture) -> np.ndarray:
    """A row for each of the marginals, shape (q, 5)."""
    mean, variance = law.moments()
    return np.column_stack([mean, np.sqrt(variance), law.quantiles(np.array(QUANTILES))])


def _table(columns: dict[Any, np.ndarray], index: Any) -> Any:
    """A data frame with the index of the rows asked for."""
    import pandas

    return pandas.DataFrame(columns, index=index)
