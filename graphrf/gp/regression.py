"""Gaussian-process regression on a graph, with a scikit-learn API."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin

from graphrf._base import checks
from graphrf._base.blas import linear_algebra
from graphrf._base.memory import needs_memory, require_memory
from graphrf.gp.files.regressor import SavedRegressor
from graphrf.gp.hyperparameters.explore import POINTS, explore
from graphrf.gp.hyperparameters.explore_latent import explore_latent
from graphrf.gp.likelihoods.likelihood import Likelihood
from graphrf.gp.model.answers import check_deviations, checked_bounds, checked_levels, columns_of, deviations_like
from graphrf.gp.model.estimator import NodeEstimator, checked_weights, forget, without_alpha, without_offset
from graphrf.gp.model.hyperparameters import Explored
from graphrf.gp.model.mean_function import Coefficients, MeanFunction
from graphrf.gp.model.notices import warn_of_few, warn_of_no_edges, warn_of_placeholders, warn_of_skewed_means
from graphrf.gp.model.numerics import Numerics
from graphrf.gp.model.prior import HyperparameterPrior
from graphrf.gp.model.problem import LatentProblem, NormalProblem, make_problem, refuse_counts
from graphrf.gp.model.progress import node_bar, step_bar
from graphrf.gp.model.responses import checked_responses, for_each
from graphrf.gp.model.settings import AUTO, KERNELS, checked_method, checked_settings, checked_targets
from graphrf.gp.posterior.by_rows import LARGEST_JOINT
from graphrf.gp.posterior.condition import Conditions, condition, conditions_of, known
from graphrf.gp.posterior.latent import approximated
from graphrf.gp.posterior.marginals import MarginalMixture, Marginals
from graphrf.gp.posterior.mixture import MixturePosterior, joint_draws
from graphrf.gp.routes.costs import SERIES_SPEED, choose_deviations, exact_products
from graphrf.gp.routes.plan import make_plan
from graphrf.gp.routes.protocol import Route
from graphrf.graph.alignment import Rows, observed_rows, reordered, rows_of
from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel
from graphrf.kernels.named import Matern
from graphrf.operators.precision.protocol import KernelPrecision
from graphrf.operators.series.apply import kernel_block
from graphrf.operators.series.walk_operator import kept_matrices

_LESS_MEMORY = (
    "observe or ask for fewer nodes at a time, "
    "pass hyperparameters='mode', or on roads and meshes method='precision'"
)
_LESS_EXACT = ", numerics=Numerics(std_method='sampled') or fewer nodes take less"
_LEFT_OUT = "leave these observations out; if not, likelihood='student_t' allows for outliers"

_NUMERICS = Numerics()


class GraphGPRegressor(SavedRegressor, RegressorMixin, NodeEstimator):
    r"""Gaussian-process regression of a signal on the nodes of a graph.

    Examples
    --------
    >>> import numpy as np, graphrf as grf
    >>> graph = grf.datasets.load("generated-grid").graph
    >>> rng = np.random.default_rng(0)
    >>> signal = 3 * grf.apply_root(graph, grf.kernels.Diffusion(4.0), rng.standard_normal(900))
    >>> nodes = rng.choice(900, 300, replace=False)
    >>> gp = grf.GraphGPRegressor(graph, seed=0).fit(nodes, signal[nodes] + 0.1 * rng.standard_normal(300))
    >>> mean, std = gp.predict(return_std=True)
    >>> print(f"{np.mean(np.abs(mean - signal) < 1.96 * std):.1f}")  # coverage of 95 % intervals
    0.9

    .. math:: y = c + x^\top b + f(\mathrm{node}) + \varepsilon, \quad f \sim N(0, \sigma^2 K), \quad
              \varepsilon \sim N(0, s),

    averaged over the posterior of the lengthscale of K, output scale sigma^2 and noise variance s: see "How a fit
    works".

    Parameters
    ----------
    graph : Graph
        Undirected, N nodes.
    kernel : Kernel or {"auto", "diffusion", "matern", "regularized_laplacian", "bym2", "car", "icar", "leroux"}
        "auto" compares Matern kernels of four degrees of smoothness for both Laplacians. The lengthscale of any
        other is trained, its smoothness is kept. The last four are areal kernels.
    likelihood : str or Likelihood
        "gaussian", "student_t"; for counts "poisson", "negative_binomial", "binomial", "bernoulli"; for positive
        values "gamma"; or an object such as `gp.NegativeBinomial()`.
    noise : float or array_like, shape (n,), optional
        Fixed noise variances. None trains a common one.
    mean : {"constant", "zero"} or array_like, shape (N,) or (N, b)
        An array or data frame holds covariates of all nodes; those of observed nodes only are passed to `fit`.
    method : {"auto", "series", "precision", "features"}
        "series": products with the exact K. "precision": a sparse inverse of K, for areal kernels, and others on
        roads and meshes. "features": graph random features, for huge graphs. "auto": the cheapest, an exact one
        wherever it is affordable.
    output_scale : float, optional
        Fixed sigma^2; None trains it.
    optimize : bool or sequence of str
        Hyperparameters of the kernel to train: all but `nu` and `power`, none, or those named.
    prior : "weak", None, mapping or HyperparameterPrior
        A mapping changes some of the weak priors: `{"noise": (0.01, 3.0)}`. With None, few observations often give
        zero noise and intervals that are far too narrow.
    hyperparameters : {"average", "mode"}
        Predictions average over about eight sets, or use the most probable one (maximum likelihood with
        `prior=None`).
    seed : int in [0, 2^63), optional
    progress : bool
    numerics : Numerics
        Solver, tolerance, threads, sampler.

    Attributes
    ----------
    kernel_, output_scale_, noise_, likelihood_
        The most probable kernel; means of the variances; the likelihood, if it is not the Gaussian one.
    mean_, trend_, coefficients_
        c; b; both as a table with standard errors.
    candidates_, n_points_
        The kernels compared, with log evidence and probability; the number of sets averaged over.
    log_marginal_likelihood_ : float
        NaN with conjugate gradients.
    mean_variance_, truncation_error_ : float
        The divisor of K; a bound on the error of K in operator norm.
    method_, solver_, sampler_, converged_, residual_, seed_, n_observations_, n_observed_nodes_
        How the fit was computed.

    References
    ----------
    Rasmussen and Williams 2006, Ch. 2 and 5; Miller and Dunson 2019; Rue and Held 2005, Ch. 2; Reid et al. 2024.
    """

    noise_: Any
    mean_: float | np.ndarray

    @without_alpha
    def __init__(
        self,
        graph: Graph,
        *,
        kernel: Kernel | str = "auto",
        likelihood: Likelihood | str = "gaussian",
        noise: ArrayLike | None = None,
        mean: ArrayLike | str = "constant",
        method: str = "auto",
        output_scale: float | None = None,
        optimize: bool | Sequence[str] = True,
        prior: HyperparameterPrior | Mapping[str, Any] | str | None = "weak",
        hyperparameters: str = "average",
        seed: int | None = None,
        progress: bool = False,
        numerics: Numerics = _NUMERICS,
    ) -> None:
        self.graph = graph
        self.kernel = kernel
        self.likelihood = likelihood
        self.noise = noise
        self.mean = mean
        self.method = method
        self.output_scale = output_scale
        self.optimize = optimize
        self.prior = prior
        self.hyperparameters = hyperparameters
        self.seed = seed
        self.progress = progress
        self.numerics = numerics

    # -- fitting -----------------------------------------------------------------------------------

    @needs_memory(_LESS_MEMORY)
    @without_offset
    def fit(
        self,
        nodes: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        x: Any = None,
        exposure: Any = None,
        trials: Any = None,
    ) -> GraphGPRegressor:
        """Train the hyperparameters and condition on the observations.

        Parameters
        ----------
        nodes : nodes by position, shape (n,) or (n, 1), or by string name
            Repeated nodes are repeated observations. Without `y`, a dictionary of nodes and values, or a Series or
            data frame of pandas, whose index holds the nodes: keys and labels are names (`Graph.index`).
            Whatever has labels, here and in every argument below, is aligned by them: by the index that it shares
            with `nodes` or `y`, or by the names of nodes; labels that match neither are refused.
        y : array_like, shape (n,) or (n, p), optional
            Several outputs share all hyperparameters but the mean: scale them to similar units first. Other
            likelihoods accept a single output.
        sample_weight : float or array_like, shape (n,), optional
            w >= 0 for Gaussian noise: the noise variance of an observation is `noise` / w, trained or fixed, and
            one of weight 0 is left out. With noise=1.0 the weights are the inverses of known variances. Unlike an
            array in `noise` they are split with the nodes by scikit-learn, as in cross-validation.
        x : array_like, shape (n,) or (n, b), or data frame, optional
            Covariates of the observed nodes, a row for each observation, the same for all observations of a node:
            the mean is c + x b. The columns of a data frame name the coefficients. Covariates of all nodes may be
            given as `mean` instead.
        exposure : float or array_like, shape (n,), optional
            Positive factors of the mean, for likelihoods of rates: person-years, areas, hours.
        trials : int or array_like, shape (n,), optional
            Numbers of trials for the binomial likelihood, where y are the successes.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            For unknown nodes; y that is not finite, has the wrong length or squares beyond float64; covariates
            that are collinear at the observed nodes; a directed graph; settings out of range; a lengthscale that
            is too long for the series. The regressor is then not fitted, even if it was before.
        MemoryError
            If the sparse factors of method="precision", or the covariances of the observed nodes, do not fit.

        Warns
        -----
        SolverWarning
            If conjugate gradients stop before their tolerance.
        UserWarning
            If y is constant (about the mean), so that no variance can be learned; if the graph explains y hardly
            better than noise does, as where nodes and y are in different orders; if the data favour a longer
            lengthscale than the route serves (at most 100, combinatorial: over the root of the weights' geometric
            mean); with `hyperparameters="mode"`, if one ends at a bound of its search range; if the kernel's
            series had to be truncated at a visible error.

        Notes
        -----
        Time: K among at most 500 nodes, and some 100 reductions of matrices of 250 rows to tridiagonal form for
        each block; then eight posteriors: sparse factors, or Cholesky, m^3 / 6 for m observed nodes, or conjugate
        gradients (one product with K a step). Memory: m^2 numbers for each Cholesky factor; up to 512 MB for
        training by the series.
        """
        forget(self, ("_posterior", "_given", "_mean_function", "_titles"))
        problem = make_problem(
            self, checked_settings(self), nodes, y, x=x, sample_weight=sample_weight, exposure=exposure,
            trials=trials,
        )  # fmt: skip
        warn_of_no_edges(self.graph)
        warn_of_few(problem.n_observations, problem.trained)
        if isinstance(problem, NormalProblem):
            problem = problem.learnable()
            warn_of_placeholders("y", problem.values + problem.offset, _LEFT_OUT)
        numerics = self.numerics
        plan = make_plan(
            self.graph, problem.kernels, problem.nodes.size, method=self._asked_method(),
            automatic=self._is_automatic and problem.trained, sampler=numerics.sampler,
            n_points=POINTS if problem.averages else 1, n_threads=numerics.n_threads,
            remote=numerics.feature_sampler is not None,
        )  # fmt: skip
        problem, route = replace(problem, kernels=plan.kernels), plan.route
        with kept_matrices():
            found = self._explored(problem, route)
            if isinstance(problem, LatentProblem):
                given = approximated(problem, route, found, numerics.solver, numerics.feature_sampler)
            else:
                given = conditions_of(problem, route, found, problem.observations)
            self._condition(given, problem.mean, route.precision)
        self._keep_titles(nodes, y, self.mean)
        return self

    def _explored(self, problem: NormalProblem | LatentProblem, route: Route) -> Explored:
        """The hyperparameters: learned, or known."""
        if not problem.trained:
            return known(problem, route)
        n_kernels = None if isinstance(problem, LatentProblem) else len(problem.kernels)
        with step_bar("training", self.progress, n_kernels, "kernels") as bar:
            if isinstance(problem, LatentProblem):
                return explore_latent(problem, route, bar.update)
            return explore(problem, route, bar.update)

    def _condition(self, given: Conditions, mean: MeanFunction, precision: KernelPrecision | None = None) -> Self:
        """The posterior for known hyperparameters, and all fitted attributes; none is set before all is made."""
        numerics = self.numerics
        with step_bar("solving", self.progress) as bar:
            posterior, truncation_error = condition(
                self.graph, given, mean.basis, solver=numerics.solver, tol=float(numerics.tol),
                max_iterations=int(numerics.max_iterations), n_threads=numerics.n_threads,
                draw=numerics.feature_sampler, step=bar.update, precision=precision,
            )  # fmt: skip
        constant, trend = mean.parts(posterior.coefficients)

        self._posterior, self._given, self._mean_function = posterior, given, mean
        self.kernel_, self.sampler_ = given.kernel, given.sampler
        self.output_scale_ = given.output_scale
        if given.likelihood is None:
            own = reordered(self.noise, None)
            self.noise_ = given.noise if np.ndim(own) == 0 else np.asarray(own, dtype=np.float64).ravel()
        else:
            self.likelihood_ = given.likelihood
        self.mean_variance_ = given.mean_variance
        constant = constant + given.offset
        self.mean_ = float(constant[0]) if given.single else constant
        self.trend_ = trend[:, 0] if given.single else trend
        self.coefficients_ = Coefficients.of(
            mean, posterior.coefficients, posterior.coefficients_covariance, given.offset, given.single
        )
        self.candidates_ = list(given.candidates)
        self.n_points_ = max(len(given.points), 1)
        self.method_, self.solver_ = given.method, posterior.solver
        self.residual_ = posterior.solution.residual
        self.converged_ = given.trained and posterior.solution.converged
        self.truncation_error_ = truncation_error
        self.seed_ = given.seed
        self.n_observations_ = given.observations.n_total
        self.n_observed_nodes_ = given.observations.nodes.size
        return self

    def _exact_deviations(self, n_nodes: int) -> bool:
        """True if deviations at so many nodes are exact ones."""
        if self.numerics.std_method != "auto":
            return self.numerics.std_method == "exact"
        if n_nodes <= 64:  # about as many solves by conjugate gradients as draws would take
            return True
        return self.solver_ == "cholesky" and choose_deviations(self.graph, *self._asked(n_nodes)) == "exact"

    def _asked(self, n_nodes: int) -> tuple[str, int, int, int]:
        """The arguments on which the costs of deviations at so many nodes depend."""
        return self.method_, n_nodes, self.n_observed_nodes_, self.n_points_

    def _asked_method(self) -> str:
        """The method that the settings ask for."""
        method = checked_method(self.method)
        if method != "auto":
            return method
        kernel = KERNELS.get(self.kernel, Matern)() if isinstance(self.kernel, str) else self.kernel
        if not kernel.is_series:
            return "precision"
        drawn = self.numerics.sampler is not None or self.numerics.feature_sampler is not None
        return "features" if drawn else method

    @property
    def _is_automatic(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == AUTO

    @property
    def log_marginal_likelihood_(self) -> float:
        """See Attributes."""
        if not self.__sklearn_is_fitted__():
            raise AttributeError("log_marginal_likelihood_ is an attribute of fitted regressors: call `fit` first")
        known = self._given.log_marginal_likelihood
        return float(self._posterior.log_likelihood if known is None else known)

    # -- predictions -------------------------------------------------------------------------------

    @needs_memory(_LESS_MEMORY)
    def predict(
        self,
        nodes: Any = None,
        return_std: bool | str = False,
        return_cov: bool = False,
        *,
        x: Any = None,
        quantiles: Any = None,
        latent: bool = False,
        as_frame: bool = False,
    ) -> Any:
        """The posterior mean, and on request standard deviations or covariances of the noise-free function.

        With a likelihood other than the Gaussian: the mean of the expected observation at exposure 1 (rate,
        probability of success in one trial), over the posterior of f.

        Parameters
        ----------
        nodes : nodes, as in `fit`; default all
        return_std : bool or "observation"
            True: standard deviations of f, or with another likelihood those of the expected observation, the
            uncertainty of the rate or probability. "observation": of a new observation, noise included.
        return_cov : bool
            The joint covariance of f at the nodes, at most 5,000 distinct ones.
        x : array_like, shape (q,) or (q, b), or data frame, optional
            Covariates of these nodes, one row each, if `fit` was given `x`; those of observed nodes are already
            known. The columns of a data frame are matched by name.
        quantiles : sequence of float, optional
            Levels between 0 and 1, such as (0.025, 0.5, 0.975): the quantiles of f, or of the expected
            observation, are returned instead of mean and standard deviations. Where predictions are averaged over
            hyperparameters, they are those of the mixture.
        latent : bool
            With a likelihood other than the Gaussian: mean, standard deviations, covariance or quantiles of the
            latent function (log rate, log odds), including the constant and trend.
        as_frame : bool
            Return a pandas data frame with one row per node, indexed by the names of the nodes, which can be
            joined to the GeoDataFrame that the graph was loaded from. Columns are "mean" and, if asked for,
            "std", or the levels of the quantiles; with several outputs ("mean", 0), ("mean", 1) and so on.

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
        Means: one product with F for all nodes, made once. Standard deviations: see `deviations`. With Cholesky
        an observed node costs nothing beyond m^3 / 6 multiply-adds once for all of them, another node m^2 / 2
        and a product with K, or where fewer nodes were observed half a product, and a product for each observed
        node; with conjugate gradients each costs a solve (64 columns at once). All that for each of the
        `n_points_` sets of hyperparameters, but half products once for all of one Laplacian. Memory: blocks of
        about 64 MB; m^2 numbers where observed nodes are asked for with Cholesky; 3 N x 16 numbers for draws.
        """
        if checks.flag("as_frame", as_frame):
            found = self.predict(nodes, return_std, return_cov, x=x, quantiles=quantiles, latent=latent)
            return self._frame(nodes, columns_of(found, return_std, return_cov, quantiles))
        self._check_fitted()
        if x is not None:
            return self._with_covariates(nodes, x).predict(
                nodes, return_std, return_cov, quantiles=quantiles, latent=latent
            )
        response = self._is_response(return_std, return_cov, quantiles, latent)
        distinct, inverse = np.unique(self._queried(nodes), return_inverse=True)
        if quantiles is not None or response:
            return self._predict_marginals(distinct, return_std, quantiles, response, inverse)
        if return_cov:
            return self._predict_jointly(distinct, inverse)
        with self._bar(distinct.size, return_std) as bar, self._linear_algebra():
            if not return_std:
                return self._shaped(self._posterior.means(distinct, bar)[inverse])
            mean = self._posterior.means(distinct)[inverse]
            variance = self._variances(distinct, bar)[inverse]
        if return_std == "observation":
            variance = variance + self._posterior.noise
        return self._shaped(mean), self._shaped(deviations_like(mean, variance))

    def _is_response(self, return_std: bool | str, return_cov: bool, quantiles: Any, latent: bool) -> bool:
        """True for predictions of the expected observation, and not of f; raises unless they can be made."""
        check_deviations(return_std, return_cov)
        if quantiles is not None:
            checked_levels(quantiles, return_std, return_cov)
        latent = checks.flag("latent", latent)
        if not hasattr(self, "likelihood_"):
            if return_std == "observation" and np.ndim(self.noise_):
                raise checks.value_error(
                    "return_std",
                    "= 'observation' needs one noise variance, but `noise` has one for each observation: add that "
                    "of the new observation to the square of `return_std=True`",
                )
            return False
        if latent and return_std == "observation":
            raise checks.value_error(
                "return_std", "= 'observation' is not of the latent function: set latent=False"
            )
        if return_cov and not latent:
            raise checks.value_error(
                "return_cov", "is of the latent function with this likelihood: set latent=True"
            )
        return not latent

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
            return node_bar(self.graph.n_nodes, self.n_points_, self.progress)
        return node_bar(
            n_nodes, self.n_points_, self.progress, way_out=_LESS_EXACT if self.method_ != "precision" else "",
            expected=exact_products(self.graph, *self._asked(n_nodes)) / SERIES_SPEED,
        )  # fmt: skip

    def _variances(self, distinct: np.ndarray, bar: Any) -> np.ndarray:
        """Variances of f at distinct nodes, exact or sampled."""
        if self._exact_deviations(distinct.size):
            return self._posterior.variances(distinct, bar)
        return self._posterior.sampled_variances(np.random.default_rng([self.seed_, 2]), bar)[distinct]

    def _marginals(self, nodes: np.ndarray, bar: Any = None) -> Marginals | MarginalMixture:
        """The distribution of f at distinct nodes, for one output."""
        posterior, likelihood = self._posterior, self._given.likelihood
        if not isinstance(posterior, MixturePosterior):
            mean = posterior.means(nodes)[:, 0]
            return Marginals(mean, self._variances(nodes, bar).reshape(mean.shape), likelihood)
        rng = None if self._exact_deviations(nodes.size) else np.random.default_rng([self.seed_, 2])
        laws = posterior.laws(nodes, rng, bar)
        parts = [
            Marginals(mean[:, 0], variance.reshape(-1), point.likelihood)
            for (_, mean, variance), point in zip(laws, self._given.points, strict=True)
        ]
        return MarginalMixture(parts, np.array([probability for probability, *_ in laws]))

    def _predict_marginals(
        self, distinct: np.ndarray, return_std: bool | str, quantiles: Any, response: bool, inverse: np.ndarray
    ) -> Any:
        """Predictions from the distribution of f at each node alone: of f, or of the expected observation."""
        levels = None if quantiles is None else checked_levels(quantiles)
        if levels is not None and not self._given.single:
            raise checks.value_error("quantiles", "are those of one output; fit outputs one at a time")
        with self._bar(distinct.size) as bar, self._linear_algebra():
            law = self._marginals(distinct, bar)
        if levels is not None:
            if not response:
                return law.quantiles(levels)[inverse]
            return self.likelihood_.mean(law.quantiles(levels, self.likelihood_))[inverse]
        mean, variance = law.response()
        if self.likelihood_.log_link:
            names = [self.graph.nodes[node] for node in distinct.tolist()]
            warn_of_skewed_means(names, mean, self.likelihood_.mean(law.centre))
        if not return_std:
            return mean[inverse]
        if return_std == "observation":
            variance = variance + law.observation_variance()
        return mean[inverse], np.sqrt(variance)[inverse]

    @needs_memory(_LESS_MEMORY)
    def probability(
        self,
        nodes: Any = None,
        *,
        above: float | None = None,
        below: float | None = None,
        x: Any = None,
        latent: bool = False,
        as_frame: bool = False,
    ) -> Any:
        """The probability that f, or the expected observation, exceeds a threshold (exceedance), or is below one.

        Examples
        --------
        >>> import graphrf as grf
        >>> line = grf.from_edges(range(4), range(1, 5))
        >>> known = {"kernel": grf.Diffusion(1.0), "output_scale": 1.0, "noise": 0.01, "optimize": False}
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
            With a likelihood other than the Gaussian, of f (log rate, log odds) and not of the expected
            observation at exposure 1 (rate, probability).
        as_frame : bool
            As in `predict`, with the column "probability".

        Returns
        -------
        ndarray, shape (q,)

        Raises
        ------
        ValueError
            Without a threshold, or for several outputs.

        Notes
        -----
        The area of the normal distribution of f at each node, or of their mixture over hyperparameters. Cost: that
        of standard deviations.
        """
        self._check_fitted()
        low, high = checked_bounds(above, below)
        if x is not None:
            return self._with_covariates(nodes, x).probability(
                nodes, above=above, below=below, latent=latent, as_frame=as_frame
            )
        if not self._given.single:
            raise checks.value_error("above", "is for one output; fit outputs one at a time")
        like = self.likelihood_ if self._is_response(False, False, None, latent) else None
        if like is not None:
            low, high = sorted(map(like.latent_at, (low, high)))
        distinct, inverse = np.unique(self._queried(nodes), return_inverse=True)
        with self._bar(distinct.size) as bar, self._linear_algebra():
            found = self._marginals(distinct, bar).probability(low, high, like)[inverse]
        return self._frame(nodes, {"probability": found}) if checks.flag("as_frame", as_frame) else found

    def score(
        self, nodes: Any, y: Any = None, sample_weight: Any = None, *, x: Any = None, exposure: Any = None,
        trials: Any = None,
    ) -> float:  # fmt: skip
        """The coefficient of determination R^2 of the predicted means; 1 is best, and their average has 0.

        With exposures or trials, of expected counts: the predicted rate or probability times these.

        Parameters
        ----------
        nodes, y, sample_weight, exposure, trials
            See `fit`.
        x
            Covariates, as in `predict`.

        Returns
        -------
        float
        """
        self._check_fitted()
        positions, y, rows = self._observed_rows(nodes, y)
        weights = checked_weights(rows.numbers("sample_weight", sample_weight), rows.n)
        factors = [rows.numbers("exposure", exposure), rows.numbers("trials", trials)]
        if not hasattr(self, "likelihood_"):
            refuse_counts(exposure, trials)
        predicted = self.predict(positions, x=None if x is None else rows.taken("x", x))
        for name, factor in zip(("exposure", "trials"), factors, strict=True):
            known = for_each(name, factor, rows.n)
            predicted = predicted if known is None else predicted * known
        from sklearn.metrics import r2_score  # which loads much of scipy

        return float(r2_score(checked_targets(y, rows.n)[0], predicted, sample_weight=weights))

    @needs_memory(_LESS_MEMORY)
    def sample(
        self,
        nodes: Any = None,
        n_samples: int = 1,
        seed: int | None = None,
        *,
        x: Any = None,
        observations: bool = False,
    ) -> np.ndarray:
        """Joint draws of the noise-free function from the posterior; `sample(n_samples=3)` makes three.

        With a likelihood other than the Gaussian these are draws of the latent function, including constant and
        trend.

        A draw is one function on the whole graph, fixed by the seed and the draw's number: it is the same (to
        rounding) whatever nodes are asked for, and however many draws. Thompson sampling chooses a batch of b
        nodes to observe next as `sample(n_samples=b, seed=seed).argmax(axis=1)`.

        Parameters
        ----------
        nodes : nodes, as in `fit`; default all
            The first argument: `sample(3)` is one draw at node 3, `sample(n_samples=3)` three draws at all nodes.
        n_samples : int
        seed : int in [0, 2^63), optional
            None draws one.
        x
            Covariates, as in `predict`.
        observations : bool
            New observations at these nodes (at exposure 1, of one trial), given each draw of f, in place of f.

        Returns
        -------
        ndarray, shape (n_samples, q), or (n_samples, q, p) for several outputs

        Raises
        ------
        MemoryError
            If the draws would need more memory than there is.

        Warns
        -----
        SolverWarning
            If conjugate gradients stop before their tolerance; `posterior_draws` bounds the effect on draws.

        Notes
        -----
        By Matheron's rule: draws from the prior, moved onto the observations by a solve for each. By Cholesky that
        is m^2 multiply-adds, by conjugate gradients one block of them for each block of draws.
        The series needs three products with F besides for each draw, whatever the nodes; features one, since the
        rows of the queried nodes are exact. Memory: the result, and blocks of at least 16 draws, of 8 N p numbers
        for each. The distribution is exact for the covariance in use, to the tolerance of the solve.

        Source: Wilson et al. 2021, "Pathwise Conditioning of Gaussian Processes".
        """
        self._check_fitted()
        if x is not None:
            return self._with_covariates(nodes, x).sample(nodes, n_samples, seed, observations=observations)
        n_samples = checks.integer("n_samples", n_samples, low=1)
        rng = np.random.default_rng(checks.seed(seed))
        distinct, inverse = np.unique(self._queried(nodes), return_inverse=True)
        with self._linear_algebra():
            draws, parts = joint_draws(self._posterior, distinct, inverse, n_samples, rng)
        if checks.flag("observations", observations):
            draws = self._observed(draws, rng.spawn(1)[0], parts)
        return self._shaped(draws, axis=2)

    def sample_y(
        self, nodes: Any, n_samples: int = 1, random_state: int | np.random.RandomState | None = 0
    ) -> np.ndarray:
        """The draws of `sample`, called and shaped as scikit-learn's Gaussian processes do.

        Parameters
        ----------
        nodes : nodes, as in `fit`; None for all
            q of them. Their covariates, if the model has any, must be known from `fit`.
        n_samples : int
            Number of draws.
        random_state : int in [0, 2^63), numpy.random.RandomState or None
            An integer is the `seed` of `sample`. None draws one.

        Returns
        -------
        ndarray, shape (q, n_samples), or (q, p, n_samples) for several outputs
            Draws of f without noise; with a likelihood other than the Gaussian, of the latent function.

        Examples
        --------
        >>> import graphrf as grf
        >>> gp = grf.GraphGPRegressor(grf.datasets.load("generated-grid").graph, kernel="diffusion", seed=0)
        >>> gp.fit([0, 5, 16, 32], [1.0, 1.2, 1.1, -0.9]).sample_y([1, 2, 33], n_samples=10).shape
        (3, 10)
        """
        if isinstance(random_state, np.random.RandomState):
            random_state = int(random_state.randint(2**31))
        seed = checks.seed(random_state, "random_state")
        return np.moveaxis(self.sample(nodes, n_samples, seed), 0, -1)

    def _observed(self, draws: np.ndarray, rng: np.random.Generator, parts: np.ndarray | None) -> np.ndarray:
        """Observations in place of draws of f, one for each node; `parts` has the point of each draw."""
        own = np.zeros(draws.shape[0], dtype=np.int64) if parts is None else parts
        if hasattr(self, "likelihood_"):
            models = [point.likelihood for point in self._given.points] or [self.likelihood_]
            for number, draw in zip(own.tolist(), draws, strict=True):
                draw[:] = cast(Likelihood, models[number]).sample(draw, rng)
            return draws
        if np.ndim(self.noise_):
            raise checks.value_error(
                "observations", "need one noise variance, but `noise` has one for each observation"
            )
        noises = [self.noise_] if parts is None else [point.noise for point in self._given.points]
        for number, draw in zip(own.tolist(), draws, strict=True):
            draw += np.sqrt(noises[number]) * rng.standard_normal(draw.shape)
        return draws

    @needs_memory(_LESS_MEMORY)
    def log_density(
        self, nodes: Any, y: Any = None, *, x: Any = None, exposure: Any = None, trials: Any = None
    ) -> np.ndarray:
        """Log predictive densities (for counts, probabilities) of single observations at nodes.

        Their negative mean is the log score; of two models, the one with the smaller score on held-out
        observations predicts better.

        Parameters
        ----------
        nodes, y, exposure, trials
            See `fit`.
        x
            Covariates, as in `predict`.

        Returns
        -------
        ndarray, shape (n,)

        Notes
        -----
        The mean of p(y | f) over the posterior of f at the node, by a trapezoidal rule that is refined at the
        largest values; with normal noise, the density of the normal distribution with the mean and variance of
        `predict(return_std="observation")`.
        """
        self._check_fitted()
        if x is not None:
            return self._with_covariates(nodes, x).log_density(nodes, y, exposure=exposure, trials=trials)
        positions, y, rows = self._observed_rows(nodes, y)
        exposure, trials = rows.numbers("exposure", exposure), rows.numbers("trials", trials)
        if hasattr(self, "likelihood_"):
            values, offset = checked_responses(self.likelihood_, positions.size, y, exposure, trials)
            distinct, inverse = np.unique(positions, return_inverse=True)
            with self._linear_algebra():
                law = self._marginals(distinct)
            return law.at(inverse).log_density(values, offset)
        refuse_counts(exposure, trials)
        given, single = checked_targets(y, positions.size)
        mean, std = self.predict(positions, return_std="observation")
        z = (given[:, 0] if single else given) - mean
        return np.asarray(-0.5 * np.square(z / std) - np.log(std) - 0.5 * np.log(2 * np.pi))

    def _observed_rows(self, nodes: Any, y: Any) -> tuple[np.ndarray, Any, Rows]:
        """Positions of nodes, what was observed there, and the rows of these."""
        if y is not None:
            super()._queried(nodes)  # whose column must be that of `fit`
        positions, y, rows = observed_rows(self.graph, nodes, y)
        return self.graph.positions(positions), y, rows

    @needs_memory(_LESS_MEMORY)
    def prior_covariance(self, nodes: Any = None) -> np.ndarray:
        """The prior covariance output_scale_ K / mean_variance_, exact (series), without noise.

        Parameters
        ----------
        nodes : nodes, as in `fit`, at most 5,000 distinct ones; default all

        Returns
        -------
        ndarray, shape (q, q)
        """
        self._check_fitted()
        positions = self.graph.positions(super()._queried(nodes))
        self._check_joint(np.unique(positions).size)
        block = kernel_block(self.graph, self.kernel_, positions, positions)
        return (0.5 * self.output_scale_ / self.mean_variance_) * (block + block.T)

    def _with_covariates(self, nodes: Any, x: Any) -> Self:
        """A copy of the regressor, with covariates of these nodes."""
        positions = super()._queried(nodes)
        other, before = copy.copy(self), self._given.covariates
        rows = rows_of(self.graph, nodes, positions)
        other._posterior = self._posterior.with_basis(self._mean_function.with_rows(positions, x, rows))
        if before is not None:
            known = before.known.copy()
            known[positions] = True
            other._given = self._given._replace(covariates=before._replace(known=known))
        return other

    def _queried(self, nodes: Any) -> np.ndarray:
        """The positions of nodes, once their covariates are known."""
        positions = super()._queried(nodes)
        if self._given.covariates is not None:
            unknown = positions[~self._given.covariates.known[positions]]
            if unknown.size:
                raise checks.value_error(
                    "x",
                    f"must be given: `fit` was given no covariates of {np.unique(unknown).size} of these nodes, "
                    f"such as node {self.graph.nodes[unknown[0]]!r}; pass a row for each node, or ask for "
                    "observed nodes only",
                )
        return positions

    # -- checks ------------------------------------------------------------------------------------

    def _check_joint(self, n: int) -> None:
        if n > LARGEST_JOINT:
            raise checks.value_error(
                "nodes",
                f"must hold at most {LARGEST_JOINT} distinct nodes for a joint covariance, got {n}: ask "
                "for fewer, or for deviations only (predict(..., return_std=True)), which have no such limit",
            )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_posterior")

    def _linear_algebra(self) -> AbstractContextManager[None]:
        return linear_algebra(self.n_observed_nodes_, self.numerics.n_threads)

    def _shaped(self, array: np.ndarray, axis: int = 1) -> np.ndarray:
        """Without the axis of outputs where y had none."""
        return np.take(array, 0, axis=axis) if self._given.single else array
