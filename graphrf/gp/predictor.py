"""Predictions of a fitted regressor on a graph: means, deviations, quantiles, probabilities and
draws.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from graphrf._base import checks
from graphrf._base.blas import linear_algebra
from graphrf._base.memory import needs_memory, require_memory
from graphrf._base.types import NodesLike
from graphrf.gp.likelihoods.likelihood import Likelihood
from graphrf.gp.methods.costs import SERIES_SPEED, choose_deviations, exact_products
from graphrf.gp.model.answers import Question, checked_bounds, deviations_like
from graphrf.gp.model.estimator import NodeEstimator, without_exposure
from graphrf.gp.model.fitted_model import FittedModel
from graphrf.gp.model.mean_function import MeanFunction
from graphrf.gp.model.notices import warn_of_skewed_means
from graphrf.gp.model.numerics import Numerics
from graphrf.gp.model.progress import node_bar
from graphrf.gp.posterior.answers import Answers, draw_observations
from graphrf.gp.posterior.by_rows import LARGEST_JOINT
from graphrf.gp.posterior.marginals import MarginalMixture, marginals_of
from graphrf.gp.posterior.mixture import joint_draws
from graphrf.gp.posterior.protocol import Posterior
from graphrf.graph.alignment import Rows, observed_rows, rows_of
from graphrf.kernels.kernel import Kernel
from graphrf.operators.series.apply import kernel_block

LESS_MEMORY = (
    "observe or ask for fewer nodes at a time, "
    "pass hyperparameters='mode', or on roads and meshes method='precision'"
)
_LESS_EXACT = ", numerics=Numerics(std_method='sampled') or fewer nodes take less"


class NodePredictor(NodeEstimator):
    """Predictions at nodes from the posterior that `fit` computed."""

    numerics: Numerics
    progress: bool
    method_: str
    solver_: str
    seed_: int
    n_points_: int
    n_observed_nodes_: int
    output_scale_: float
    mean_variance_: float
    kernel_: Kernel
    likelihood_: Likelihood
    noise_: Any
    _posterior: Posterior
    _fitted: FittedModel
    _mean_function: MeanFunction

    @needs_memory(LESS_MEMORY)
    @without_exposure
    def predict(
        self,
        nodes: NodesLike | None = None,
        return_std: bool | str = False,
        return_cov: bool = False,
        *,
        x: ArrayLike | None = None,
        quantiles: float | Sequence[float] | None = None,
        latent: bool = False,
        as_frame: bool = False,
    ) -> Any:
        """The posterior mean, and on request standard deviations or covariances of the noise-free
        function.

        With a likelihood other than the Gaussian: the mean of the expected observation at exposure
        1 (rate, probability of success in one trial), over the posterior of f.

        Parameters
        ----------
        nodes : nodes, as in `fit`; default all
        return_std : bool or "observation"
            True: standard deviations of f, or with another likelihood those of the expected
            observation, the uncertainty of the rate or probability. "observation": of a new
            observation, noise included.
        return_cov : bool
            The joint covariance of f at the nodes, at most 5,000 distinct ones.
        x : array_like, shape (q,) or (q, b), or data frame, optional
            Covariates of these nodes, one row each, if `fit` was given `x`; those of observed nodes
            are known.
        quantiles : sequence of float, optional
            Levels such as (0.025, 0.5, 0.975): quantiles of f, or with another likelihood of the
            expected observation, are returned instead of mean and standard deviations; with
            return_std="observation" those of a new observation, whose intervals hold observations.
        latent : bool
            With a likelihood other than the Gaussian: mean, standard deviations, covariance or
            quantiles of the latent function (log rate, log odds), including the constant and trend.
        as_frame : bool
            Return a pandas data frame with a row for each node, by name, and the columns "mean",
            "std" and the levels of the quantiles, as far as they are asked for; with several
            outputs ("mean", 0), ("mean", 1) and so on.

        Returns
        -------
        mean : ndarray, shape (q,) or (q, p)
        std : ndarray, shape of `mean`
            All outputs have the same, unless predictions are averaged over hyperparameters.
        cov : ndarray, shape (q, q)
            The same for all outputs; if predictions are averaged, the mean over outputs.
        quantiles : ndarray, shape (q, levels)

        Notes
        -----
        Cost for each of `n_points_` sets of hyperparameters: one product with F for the means of
        all nodes; for standard deviations (`Numerics.std_method`) with Cholesky m^3 / 6
        multiply-adds once, and m^2 / 2 and a product with K for each node that is not observed;
        with conjugate gradients a solve for each node. Memory: blocks of about 64 MB; m^2 numbers
        for observed nodes with Cholesky; 3 N x 16 numbers for draws.
        """
        self._check_fitted()
        question = Question.of(return_std, return_cov, quantiles, latent=latent, as_frame=as_frame)
        answer = self._with_covariates(nodes, x)._answered(question, nodes)
        return self._frame(nodes, question.columns(answer)) if question.as_frame else answer

    def _answered(self, question: Question, nodes: Any) -> Any:
        """The arrays that `predict` returns."""
        of_response = self._is_of_response(question)
        distinct, inverse = np.unique(self._queried(nodes), return_inverse=True)

        if question.levels is not None or of_response:
            answer = self._from_marginals(distinct, question, of_response)
            return (
                tuple(part[inverse] for part in answer)
                if isinstance(answer, tuple)
                else (answer[inverse])
            )

        if question.return_cov:
            return self._predict_jointly(distinct, inverse)

        with self._bar(distinct.size, question.return_std) as bar, self._linear_algebra():
            if not question.return_std:
                return self._shaped(self._posterior.means(distinct, bar)[inverse])
            mean = self._posterior.means(distinct)[inverse]
            variance = self._variances(distinct, bar)[inverse]
        if question.of_observation:
            variance = variance + self._posterior.noise
        return self._shaped(mean), self._shaped(deviations_like(mean, variance))

    def _is_of_response(self, question: Question) -> bool:
        """True for predictions of the expected observation, and not of f; raises unless they can be
        made.
        """
        if not hasattr(self, "likelihood_"):
            if question.of_observation and np.ndim(self.noise_):
                raise checks.value_error(
                    "return_std",
                    "= 'observation' needs one noise variance, but `noise` has one for each "
                    "observation: add that of the new observation to the square of "
                    "`return_std=True`",
                )
            return False
        if question.return_cov and not question.latent:
            raise checks.value_error(
                "return_cov", "is of the latent function with this likelihood: set latent=True"
            )
        return not question.latent

    def _predict_jointly(self, distinct: np.ndarray, inverse: np.ndarray) -> Any:
        """Means and the covariance of f."""
        self._check_joint(distinct.size)
        require_memory(
            8.0 * (inverse.size**2 + distinct.size * (3 * distinct.size + self.n_observed_nodes_)),
            f"the joint covariance of {inverse.size} nodes",
            "ask for fewer",
        )
        with self._linear_algebra():
            mean = self._posterior.means(distinct)[inverse]
            covariance = self._posterior.covariances(distinct)
        return self._shaped(mean), covariance[np.ix_(inverse, inverse)]

    def _bar(self, n_nodes: int, deviations: Any = True) -> Any:
        """A bar of predicted nodes; of all nodes where deviations are sampled."""
        if not deviations:
            return node_bar(n_nodes, 1, self.progress)
        if not self._exact_deviations(n_nodes):
            return node_bar(self.graph.n_nodes, self.n_points_, self.progress, by_draws=True)
        products = exact_products(self.graph, *self._asked(n_nodes))
        return node_bar(
            n_nodes,
            self.n_points_,
            self.progress,
            way_out=_LESS_EXACT if products else "",
            expected=products / SERIES_SPEED,
        )

    def _variances(self, distinct: np.ndarray, bar: Any) -> np.ndarray:
        """Variances of f at distinct nodes, exact or sampled."""
        if self._exact_deviations(distinct.size):
            return self._posterior.variances(distinct, bar)
        return self._posterior.sampled_variances(np.random.default_rng([self.seed_, 2]), bar)[
            distinct
        ]

    def _marginals(self, nodes: np.ndarray, bar: Any = None) -> MarginalMixture:
        """The distribution of f at distinct nodes, for one output."""
        rng = None if self._exact_deviations(nodes.size) else np.random.default_rng([self.seed_, 2])
        likelihoods = [point.likelihood for point in self._fitted.points]
        return marginals_of(
            self._posterior.laws(nodes, rng, bar), likelihoods or [self._fitted.likelihood]
        )

    def _from_marginals(self, nodes: np.ndarray, question: Question, of_response: bool) -> Any:
        """Predictions from the distribution of f at each of distinct nodes alone: of f, or of the
        expected observation.
        """
        if not self._fitted.single:
            raise checks.value_error(
                "quantiles", "are those of one output; fit outputs one at a time"
            )
        answers = self._answers(nodes, of_response)
        if of_response and question.levels is None and self.likelihood_.log_link:
            names = [self.graph.nodes[node] for node in nodes.tolist()]
            medians = self.likelihood_.mean(answers.law.centre)
            warn_of_skewed_means(names, answers.moments()[0], medians)
        return answers.to(question)

    def _answers(self, nodes: np.ndarray, of_response: bool) -> Answers:
        """Answers about distinct nodes, each alone, for one output."""
        with self._bar(nodes.size) as bar, self._linear_algebra():
            law = self._marginals(nodes, bar)
        noises = [point.noise for point in self._fitted.points] or [self._posterior.noise]
        return Answers(law, self.likelihood_ if of_response else None, noises)

    @needs_memory(LESS_MEMORY)
    def probability(
        self,
        nodes: NodesLike | None = None,
        *,
        above: float | None = None,
        below: float | None = None,
        x: ArrayLike | None = None,
        latent: bool = False,
        as_frame: bool = False,
    ) -> Any:
        """The probability that f, or the expected observation, exceeds a threshold (exceedance), or
        is below one.

        Exact for the normal distribution of f, or the mixture of them; it costs as much as standard
        deviations.

        Examples
        --------
        >>> import graphrf as grf
        >>> line = grf.from_edges(range(4), range(1, 5))
        >>> known = {
        ...     "kernel": grf.Diffusion(1.0),
        ...     "output_scale": 1.0,
        ...     "noise": 0.01,
        ...     "optimize": False,
        ... }
        >>> gp = grf.GraphGPRegressor(line, **known)
        >>> gp.fit([0, 4], [2.0, -2.0]).probability([0, 2, 4], above=0.0).round(2)
        array([1. , 0.5, 0. ])

        Parameters
        ----------
        nodes : nodes, as in `fit`; default all
        above, below : float
            The threshold; with both, the probability of what is between.
        x
            Covariates, as in `predict`.
        latent : bool
            With a likelihood other than the Gaussian, of f (log rate, log odds) and not of the
            expected observation at exposure 1 (rate, probability).
        as_frame : bool
            As in `predict`, with the column "probability".

        Returns
        -------
        ndarray, shape (q,)

        Raises
        ------
        ValueError
            Without a threshold, or for several outputs.
        """
        self._check_fitted()
        question, ends = (
            Question.of(False, latent=latent, as_frame=as_frame),
            checked_bounds(above, below),
        )
        if not self._fitted.single:
            raise checks.value_error("above", "is for one output; fit outputs one at a time")
        gp = self._with_covariates(nodes, x)
        distinct, inverse = np.unique(gp._queried(nodes), return_inverse=True)
        answers = gp._answers(distinct, gp._is_of_response(question))
        result = answers.probability(*ends)[inverse]
        return self._frame(nodes, {"probability": result}) if question.as_frame else result

    @needs_memory(LESS_MEMORY)
    def sample(
        self,
        nodes: NodesLike | None = None,
        n_samples: int = 1,
        seed: int | None = None,
        *,
        x: ArrayLike | None = None,
        observations: bool = False,
    ) -> np.ndarray:
        """Joint draws of the noise-free function from the posterior; `sample(n_samples=3)` makes
        three.

        With a likelihood other than the Gaussian these are draws of the latent function. A draw is
        one function on the whole graph, fixed by the seed and its number, for any nodes. Thompson
        sampling chooses b nodes to observe next as `sample(n_samples=b, seed=seed).argmax(axis=1)`.

        Parameters
        ----------
        nodes : nodes, as in `fit`; default all
            The first argument: `sample(3)` is one draw at node 3, `sample(n_samples=3)` three draws
            at all nodes.
        n_samples : int
        seed : int in [0, 2^63), optional
            None draws one.
        x
            Covariates, as in `predict`.
        observations : bool
            New observations at these nodes (at exposure 1, of one trial), given each draw of f, in
            place of f.

        Returns
        -------
        ndarray, shape (n_samples, q), or (n_samples, q, p) for several outputs

        Warns
        -----
        SolverWarning
            If conjugate gradients stop before their tolerance; `posterior_draws` bounds the effect
            on draws.

        Notes
        -----
        By Matheron's rule (Wilson et al. 2021): a draw from the prior, conditioned by a solve;
        exact for the covariance in use, to the tolerance of the solve. Cost of a draw: m^2
        multiply-adds by Cholesky, and by the series three products with F, by features one. Memory:
        the result, and 8 N p numbers for each of 16 draws.
        """
        self._check_fitted()
        n_samples = checks.integer("n_samples", n_samples, low=1)
        rng = np.random.default_rng(checks.seed(seed))
        gp = self._with_covariates(nodes, x)
        distinct, inverse = np.unique(gp._queried(nodes), return_inverse=True)
        with self._linear_algebra():
            draws, parts = joint_draws(gp._posterior, distinct, inverse, n_samples, rng)
        if checks.flag("observations", observations):
            draws = draw_observations(draws, parts, self._models(), rng.spawn(1)[0])
        return self._shaped(draws, axis=2)

    def _models(self) -> list[Any]:
        """The likelihood, or the variance of the noise, of each part of the posterior."""
        points = self._fitted.points
        if hasattr(self, "likelihood_"):
            return [point.likelihood for point in points] or [self.likelihood_]
        if np.ndim(self.noise_):
            raise checks.value_error(
                "observations", "need one noise variance, but `noise` has one for each observation"
            )
        return [point.noise for point in points] or [self.noise_]

    def _observed_rows(self, nodes: Any, y: Any) -> tuple[np.ndarray, Any, Rows]:
        """Positions of nodes, what was observed there, and the rows of these."""
        if y is not None:
            super()._queried(nodes)  # whose column must be that of `fit`
        positions, y, rows = observed_rows(self.graph, nodes, y)
        return self.graph.positions(positions), y, rows

    @needs_memory(LESS_MEMORY)
    def prior_covariance(self, nodes: NodesLike | None = None) -> np.ndarray:
        """The prior covariance output_scale_ K / mean_variance_ without noise, (q, q), by the
        series.

        Parameters
        ----------
        nodes : nodes, as in `fit`, at most 5,000 distinct ones; default all
        """
        self._check_fitted()
        positions = self.graph.positions(super()._queried(nodes))
        self._check_joint(np.unique(positions).size)
        block = kernel_block(self.graph, self.kernel_, positions, positions)
        return (0.5 * self.output_scale_ / self.mean_variance_) * (block + block.T)

    def _with_covariates(self, nodes: Any, x: Any) -> Self:
        """A copy of the regressor, with covariates of these nodes; itself without any."""
        if x is None:
            return self
        positions = super()._queried(nodes)
        other, before = copy.copy(self), self._fitted.covariates
        rows = rows_of(self.graph, nodes, positions)
        other._posterior = self._posterior.with_basis(
            self._mean_function.with_rows(positions, x, rows)
        )
        if before is not None:
            known = before.known.copy()
            known[positions] = True
            other._fitted = self._fitted._replace(covariates=before._replace(known=known))
        return other

    def _queried(self, nodes: Any) -> np.ndarray:
        """The positions of nodes, once their covariates are known."""
        positions = super()._queried(nodes)
        if self._fitted.covariates is not None:
            unknown = positions[~self._fitted.covariates.known[positions]]
            if unknown.size:
                raise checks.value_error(
                    "x",
                    f"must be given: `fit` was given no covariates of {np.unique(unknown).size} of "
                    f"these nodes, such as node {self.graph.nodes[unknown[0]]!r}; pass a row for "
                    "each node, or ask for observed nodes only",
                )
        return positions

    # -- checks ------------------------------------------------------------------------------------

    def _check_joint(self, n: int) -> None:
        if n > LARGEST_JOINT:
            raise checks.value_error(
                "nodes",
                f"must hold at most {LARGEST_JOINT} distinct nodes for a joint covariance, got "
                f"{n}: ask for fewer, or for deviations only (predict(..., return_std=True)), "
                "which have no such limit",
            )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_posterior")

    def _linear_algebra(self) -> AbstractContextManager[None]:
        return linear_algebra(self.n_observed_nodes_, self.numerics.n_threads)

    def _shaped(self, array: np.ndarray, axis: int = 1) -> np.ndarray:
        """Without the axis of outputs where y had none."""
        return np.take(array, 0, axis=axis) if self._fitted.single else array

    def _exact_deviations(self, n_nodes: int) -> bool:
        """True if deviations at so many nodes are exact ones."""
        if self.numerics.std_method != "auto":
            return self.numerics.std_method == "exact"
        if n_nodes <= 64:  # about as many solves by conjugate gradients as draws would take
            return True
        return (
            self.solver_ == "cholesky"
            and choose_deviations(self.graph, *self._asked(n_nodes)) == "exact"
        )

    def _asked(self, n_nodes: int) -> tuple[str, int, int, int]:
        """The arguments on which the costs of deviations at so many nodes depend."""
        return self.method_, n_nodes, self.n_observed_nodes_, self.n_points_
