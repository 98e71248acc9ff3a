"""Latent Gaussian models: fixed effects and a sum of terms under a likelihood."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin

from graphrf._base import checks
from graphrf._base.blas import blas_threads
from graphrf._base.memory import needs_memory
from graphrf._base.warn import heard, warn
from graphrf.gp.latent.basis import FixedEffects
from graphrf.gp.latent.columns import (
    as_pandas_frame,
    numbers,
    plain,
    require_columns,
    require_no_responses,
)
from graphrf.gp.latent.data import Data
from graphrf.gp.latent.design import Design
from graphrf.gp.latent.exploration import Sample, Search, explored, find_mode, maximum_likelihood
from graphrf.gp.latent.formula import Formula, for_rows, read
from graphrf.gp.latent.posterior import Gaussian, posterior_at, rows_of, units
from graphrf.gp.latent.predictor import LESS_MEMORY
from graphrf.gp.latent.saved import BESIDE, SavedModel
from graphrf.gp.latent.separation import DEVIATION, described, separation
from graphrf.gp.latent.tables import WithTables
from graphrf.gp.likelihoods.counts import ZeroInflatedNegativeBinomial, ZeroInflatedPoisson
from graphrf.gp.likelihoods.likelihood import Likelihood
from graphrf.gp.likelihoods.real import NormalNoise
from graphrf.gp.likelihoods.tweedie import Tweedie
from graphrf.gp.model.estimator import forget
from graphrf.gp.model.likelihoods import LIKELIHOODS, checked_likelihood
from graphrf.gp.model.notices import (
    warn_of_codes,
    warn_of_exposures,
    warn_of_few,
    warn_of_joined_copies,
    warn_of_no_edges,
    warn_of_placeholders,
)
from graphrf.gp.model.progress import step_bar
from graphrf.gp.model.responses import checked_responses
from graphrf.gp.search.bounds import warn_of_bounds
from graphrf.gp.terms.joint import Joint
from graphrf.gp.terms.parameters import PenalisedDeviation, checked_prior
from graphrf.gp.terms.sums import warn_of_sums
from graphrf.gp.terms.term import BoundTerm, Term

# Likelihoods under which zeros far from all other values are no sign of missing ones.
_WITH_ZEROS = (ZeroInflatedPoisson, ZeroInflatedNegativeBinomial, Tweedie)

_without_graph = checks.without(
    ("graph", "kernel", "domain"),
    "belongs to a term: Nodes(graph, kernel, by='district') of a column with names of nodes, or "
    "Field(domain, at=('x', 'y'))",
)


class LatentGaussianModel(WithTables, SavedModel, RegressorMixin, BaseEstimator):
    r"""A latent Gaussian model: fixed effects and terms with Gaussian priors under any likelihood.

    .. math:: \eta = X \beta + \sum_j A_j x_j + \log(\mathrm{exposure}), \quad x_j \sim N(0, s_j^2
        Q_j^{-1}), \quad
              y_i \sim p(y_i \mid \eta_i, \phi)

    Examples
    --------
    >>> import numpy as np, pandas as pd, graphrf as grf
    >>> from graphrf.gp import LatentGaussianModel, Nodes, Steps
    >>> districts = grf.from_edges(range(39), range(1, 40))
    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame(
    ...     {"district": rng.integers(0, 40, 100), "year": rng.integers(2001, 2011, 100)}
    ... )
    >>> frame["cases"] = rng.poisson(np.exp(1 + 0.05 * (frame["year"] - 2005)))
    >>> model = LatentGaussianModel(
    ...     "cases ~ 1",
    ...     [Nodes(districts, grf.ICAR(), by="district"), Steps("year", "rw1")],
    ...     likelihood="poisson",
    ... )
    >>> list(model.fit(frame).summary().index)
    ['Intercept', 'sd(district)', 'sd(year)']

    `print(model)` says in at most ten lines what was fitted.

    Parameters
    ----------
    formula : str
        Response and fixed effects, "cases ~ 1 + share", in formulaic's form of R's formulas.
    terms : Term, or sequence of Term
        `Nodes`, `Steps`, `Groups`, `Field`, their products `a * b` and sums `a + b`.
        `Covariate(by) * a` is a coefficient of a column that varies as `a` does.
    likelihood : str or Likelihood
        "gaussian", one of the names of `GraphGPRegressor`, or an object, as `Ordinal(4)`.
    exposure, trials : str or array_like, optional
        A column, or numbers for each row: see `GraphGPRegressor.fit`.
    event : str or array_like, optional
        A column, or numbers for each row, for likelihood="weibull": 1 at the time of the event, 0
        where it is right-censored. Default: all events are observed.
    hyperparameters : {"average", "mode"}
        Average predictions over the posterior of hyperparameters, or take the joint mode of these
        and coefficients by Laplace's approximation: maximum likelihood with `prior=None`.
    coefficient_deviation : float, optional
        The standard deviation of the normal prior of each coefficient. Default: as good as flat.
    prior : "weak", mapping or None
        A mapping states priors of the likelihood's parameters by name, in their own units: a
        `PenalisedDeviation` or (median, factor) of a log-normal. `{"scale": PenalisedDeviation(1.0,
        0.01)}` says that normal noise has a deviation above 1 with probability .01. Terms have
        priors of their own. None drops all priors of hyperparameters.
    seed : int, optional
    progress : bool

    Attributes
    ----------
    coefficients_ : DataFrame
        Mean, sd and quantiles of the fixed effects.
    log_marginal_likelihood_ : float
        Laplace's approximation; with "average" the integral over coefficients and hyperparameters,
        by expectation propagation, where "mode" has the maximum: they may differ by 100. Neither
        compares formulas (priors of coefficients are as good as flat, and a maximum grows with each
        coefficient): compare `loo().total`.
    converged_ : bool
    warnings_ : list of str
        What `fit` warned of.

    Notes
    -----
    One sparse factor of Q + A^T W A serves modes, evidence, its exact gradient, and variances. The
    mode of the hyperparameters is that of Laplace's approximation (of expectation propagation where
    densities are not log-concave); weights, and the posterior at each of 8 to 24 points, are those
    of expectation propagation.

    Sources: Rue, Martino and Chopin 2009; Minka 2001.
    """

    @_without_graph
    def __init__(
        self,
        formula: str,
        terms: Term | Sequence[Term] = (),
        likelihood: str | Likelihood = "gaussian",
        *,
        exposure: ArrayLike | None = None,
        trials: ArrayLike | None = None,
        event: ArrayLike | None = None,
        hyperparameters: str = "average",
        coefficient_deviation: float | None = None,
        prior: Mapping[str, Any] | str | None = "weak",
        seed: int | None = None,
        progress: bool = False,
    ) -> None:
        self.formula = formula
        self.terms = terms
        self.likelihood = likelihood
        self.exposure = exposure
        self.trials = trials
        self.event = event
        self.hyperparameters = hyperparameters
        self.coefficient_deviation = coefficient_deviation
        self.prior = prior
        self.seed = seed
        self.progress = progress

    # -- fitting -----------------------------------------------------------------------------------

    @needs_memory(LESS_MEMORY)
    def fit(self, frame: Any, y: None = None) -> Self:
        """Fit the model to a data frame with a row for each observation.

        The response is one of its columns; `y` is None, which scikit-learn's pipelines pass.

        Raises
        ------
        ValueError, TypeError
            For columns that are missing or lack values, labels that a term does not know, fixed
            effects that are combinations of others, and observations that the likelihood cannot
            have.
        FactorTooLargeError
            Before any work, if the factor of all variables would not fit into memory.

        Warns
        -----
        UserWarning
            For fewer than 10 observations, values of the response, of covariates and of exposures
            that seem to mark missing ones, exposures in two units, a table joined with itself, and
            graphs most of whose nodes have no edge; if the search has not converged, or ended at a
            bound; if the points do not cover the posterior.
        """
        require_no_responses(y)
        forget(self, ("_points",))
        self.seed_ = checks.seed(self.seed)

        with heard() as messages:
            self._train(as_pandas_frame(frame))
        self.warnings_ = messages
        self.coefficients_ = self.summary().iloc[: len(self._design.names)]
        return self

    def _train(self, frame: Any) -> None:
        """The posterior, and warnings of what may be wrong with it."""
        with blas_threads(1), step_bar("training", self.progress) as bar:
            self._prepare(frame)
            self._warn_of_data(frame)
            middle = self._effects.middle
            centred = dataclasses.replace(
                self._data, offset=self._data.offset + self._effects.matrix @ middle
            )
            search = Search(self._joint, centred, flat=self.prior is None, step=bar.update)
            if self.hyperparameters == "mode":
                self._take_mode(search)
            else:
                self._take_average(search)
            self._points = [self._around(each, middle) for each in self._points]

        if not self.converged_:
            warn(
                "the search of hyperparameters had not converged: state priors, or leave out terms"
            )
        warn_of_bounds(search.coordinates, self._mode)
        for term in self._bound:
            for axis in term.axes:
                axis.warn_of(self._joint.values(self._mode, term))

    def _prepare(self, frame: Any) -> None:
        """All that is known before training: observations, terms and their joint variables."""
        terms, likelihood = self._checked()
        for term in terms:
            require_columns(frame, term.columns, f"the term of {term.label!r}")

        formula = read(self.formula, frame)
        if not terms and not formula.design.names:
            raise checks.value_error(
                "terms", "must hold a term where the formula has no fixed effect"
            )

        response = formula.observed(frame)
        beside = {name: for_rows(frame, name, getattr(self, name)) for name in BESIDE}
        y, offset = checked_responses(likelihood, response.size, response, *beside.values())
        priors = self._stated_priors(likelihood)
        data = Data(y, offset, likelihood, likelihood.unit(y), priors)

        bound = [BoundTerm.of(term, frame, number, data.unit) for number, term in enumerate(terms)]
        parts = [each.rows(frame) for each in bound]
        warn_of_sums(bound, parts, frame, formula.design.matrix)

        kept = [name for name in frame.columns if any(name in term.columns for term in terms)]
        self._frame, self._response = frame[kept], formula.response
        self._observations, self._beside = response, beside
        self._bind(bound, formula.design, data, parts)
        self._warn_of_separation(frame)

    def _bind(
        self, bound: list[BoundTerm], design: Design, data: Data, parts: list[sp.csr_array]
    ) -> None:
        """The basis of the fixed effects, and the joint variables, from the rows of each term."""
        self._bound, self._design, self._data = bound, design, data

        effects = FixedEffects.of(design.matrix, data.unit, self.coefficient_deviation)
        ones = design.constant
        if ones is not None and self.coefficient_deviation is None:
            middle = data.likelihood.start(data.y, data.offset) * ones
            effects = effects._replace(middle=np.linalg.solve(effects.transform, middle))

        self._separation = (
            separation(effects.matrix, data) if self.coefficient_deviation is None else None
        )
        if self._separation is not None:
            effects = effects._replace(precision=effects.precision + self._separation.precision)
        self._effects = effects

        levels = [self._level_rows(number) for number in range(len(bound))]
        rows = [rows_of(bound, parts, effects.matrix), *levels, self._coefficient_rows()]
        self._joint = Joint(bound, effects.precision, rows)

    def _observed(self, frame: Any) -> tuple[np.ndarray, np.ndarray]:
        """Observations as the likelihood takes them, and the logarithms of their exposures."""
        frame = as_pandas_frame(frame)
        response = Formula(self._response, self._design).observed(frame)
        beside = (for_rows(frame, name, getattr(self, name)) for name in BESIDE)
        return checked_responses(self._data.likelihood, len(frame), response, *beside)

    def _warn_of_separation(self, frame: Any) -> None:
        """Warn of levels without events, and of covariates that separate the observations."""
        if self._separation is not None:
            warn(
                "the observations do not bound the effect of "
                f"{described(self._design, frame, self._separation.rows)}, as where a level has no "
                f"events: its linear predictor has a normal prior of deviation {DEVIATION:g} "
                "around the mean of the others; state `coefficient_deviation`, or take Groups(...) "
                "as a term"
            )

    def _around(self, point: Gaussian, middle: np.ndarray) -> Gaussian:
        """The posterior with the middle of the coefficients' prior, which eta had left out."""
        mean, added = point.mean.copy(), self._effects.matrix @ middle
        mean[mean.size - middle.size :] += middle

        sites = point.sites._replace(shift=point.sites.shift + point.sites.precision * added)
        return point._replace(
            mean=mean, sites=sites, eta=point.eta._replace(mean=point.eta.mean + added)
        )

    def _coefficient_rows(self) -> sp.csr_array:
        """A row for each coefficient."""
        return rows_of(self._bound, [None] * len(self._bound), self._effects.transform)

    def _take_mode(self, search: Search) -> None:
        """The most probable hyperparameters and coefficients, with a normal distribution."""
        joint, data, design = self._joint, search.data, self._effects.matrix
        first = search.at(search.coordinates.start)
        n = joint.n - design.shape[1]
        own = units(joint.n, np.arange(n, joint.n))
        root = np.linalg.cholesky(own @ first.factor.solve(own.T.toarray()))
        # a factor has at least one row: without terms, a variable that no observation reads
        idle = int(n == 0)
        rows = sp.csr_array(sp.hstack([joint.a[:, :n], sp.csr_array((joint.a.shape[0], idle))]))

        alone = Joint(self._bound, np.eye(idle), [rows])
        bound = (
            np.zeros((design.shape[1],) * 2)
            if self._separation is None
            else self._separation.precision
        )

        inner = Search(alone, data, flat=self.prior is None, step=search.step)
        result = maximum_likelihood(inner, design, first.z[n:], root, bound)

        z = np.concatenate([result.at.z[:n], result.coefficients])
        sites = result.at.sites(alone)
        sites = sites._replace(shift=sites.shift + sites.precision * (design @ result.coefficients))
        at = posterior_at(joint, data, result.vector, sites, rounds=False)
        self._points = [at._replace(mean=z, eta=at.eta._replace(mean=joint.a @ z))]
        self._probabilities = np.ones(1)

        self._mode, self._sample = result.vector, Sample(result.vector[None], np.ones(1))
        self.log_marginal_likelihood_ = result.value - inner.coordinates.log_prior(result.vector)[0]
        self.converged_ = result.converged

    def _take_average(self, search: Search) -> None:
        """The posterior at points that represent that of hyperparameters."""
        top = find_mode(search)
        self._points, self._probabilities, self._sample, total = explored(search, top, self.seed_)
        if not all(each.settled for each in self._points):
            warn(
                "the normal approximation of the posterior had not settled: intervals are "
                "uncertain where observations are far from all others"
            )
        self._mode = top.vector
        self.log_marginal_likelihood_ = total
        self.converged_ = top.converged

    def _warn_of_data(self, frame: Any) -> None:
        """Warn of few observations, placeholders, copies, and graphs without edges."""
        likelihood = self._data.likelihood
        warn_of_few(self._data.offset.size, bool(self._joint.parameters))
        for name in sorted(self._response.columns):
            seen = numbers(frame, name)
            if isinstance(likelihood, _WITH_ZEROS):
                seen = seen[seen != 0]
            if self.event is not None:  # many times are censored at the end of a study
                seen = seen[self._data.y[-1] > 0]
            warn_of_placeholders(name, seen, "leave these rows out")

        covariates = {term.covariate.by for term in self._bound if term.covariate is not None}
        for name in sorted((covariates | self._design.columns) - self._response.columns):
            if (values := plain(frame, name)).dtype.kind == "f":
                warn_of_codes(name, values)
        if self.exposure is not None:
            name = self.exposure if isinstance(self.exposure, str) else "exposure"
            warn_of_exposures(name, self._beside["exposure"])
        warn_of_joined_copies(frame)
        graphs = {id(each.graph): each.graph for term in self._bound for each in term.axes}
        for graph in filter(None, graphs.values()):
            warn_of_no_edges(graph)

    # -- inside ------------------------------------------------------------------------------------

    def _given_terms(self) -> list[Term]:
        return [self.terms] if isinstance(self.terms, Term) else list(self.terms)

    def _box(self) -> np.ndarray:
        """The ends of the search for each hyperparameter."""
        return Search(self._joint, self._data, flat=True).coordinates.box

    def _checked(self) -> tuple[list[Term], Likelihood]:
        several = isinstance(self.terms, Sequence) and not isinstance(self.terms, str)
        given: Any = self.terms if several else [self.terms]
        for term in given:
            if not isinstance(term, Term):
                raise checks.type_error(
                    "terms",
                    "must hold Nodes(graph, kernel, by='district'), Steps('year', 'rw1'), "
                    "Groups('school'), Field(domain) or products of these, got "
                    f"{checks.describe(term)}",
                )
        terms = self._given_terms()

        checks.choice("hyperparameters", self.hyperparameters, ("average", "mode"))
        checks.flag("progress", self.progress)

        if self.coefficient_deviation is not None:
            checks.number(
                "coefficient_deviation", self.coefficient_deviation, low=0, include_low=False
            )

        if isinstance(self.likelihood, str):
            name = checks.choice("likelihood", self.likelihood, ("gaussian", *LIKELIHOODS))
            return terms, NormalNoise() if name == "gaussian" else LIKELIHOODS[name]()
        result = checked_likelihood(self.likelihood)
        assert result is not None
        return terms, result

    def _stated_priors(self, likelihood: Likelihood) -> dict[str, Any]:
        """The priors of the likelihood's parameters in a mapping, checked."""
        if self.prior is None or (isinstance(self.prior, str) and self.prior == "weak"):
            return {}
        if not isinstance(self.prior, Mapping):
            raise checks.value_error(
                "prior",
                "must be 'weak', None, or a mapping of the likelihood's parameters to priors "
                f"(terms have their own), got {checks.describe(self.prior)}",
            )
        unknown = set(self.prior) - set(likelihood.unknown)
        if unknown:
            names = ", ".join(map(repr, likelihood.unknown)) or "none"
            raise checks.value_error(
                "prior",
                f"must be of parameters of {likelihood!r} that are trained ({names}), got one of "
                f"{sorted(unknown)[0]!r}",
            )
        return {
            name: prior
            if isinstance(prior, PenalisedDeviation)
            else checked_prior(name, "positive", prior)
            for name, prior in self.prior.items()
        }
