"""Gaussian-process regression on a graph, with a scikit-learn API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin

from graphrf._base.memory import needs_memory
from graphrf._base.types import SignalLike
from graphrf.gp.evaluation import EvaluatedPredictor
from graphrf.gp.files.regressor import SavedRegressor
from graphrf.gp.hyperparameters.explore import POINTS, explore
from graphrf.gp.hyperparameters.explore_latent import explore_latent
from graphrf.gp.likelihoods.likelihood import Likelihood
from graphrf.gp.methods.choose import choose_method
from graphrf.gp.methods.protocol import Method
from graphrf.gp.model.estimator import (
    checked_weights,
    forget,
    without_alpha,
    without_offset,
    without_rates,
)
from graphrf.gp.model.fitted_model import FittedModel
from graphrf.gp.model.hyperparameters import ComparedKernel, Explored, Hyperparameters
from graphrf.gp.model.mean_function import Coefficients, MeanFunction, WithCoefficients
from graphrf.gp.model.notices import (
    warn_of_few,
    warn_of_free_nodes,
    warn_of_no_edges,
    warn_of_placeholders,
)
from graphrf.gp.model.numerics import Numerics
from graphrf.gp.model.prior import HyperparameterPrior
from graphrf.gp.model.problem import LatentProblem, NormalProblem, make_problem
from graphrf.gp.model.progress import step_bar
from graphrf.gp.model.responses import for_each
from graphrf.gp.model.settings import (
    AUTO,
    KERNELS,
    checked_method,
    checked_settings,
    checked_targets,
)
from graphrf.gp.posterior.latent import approximated
from graphrf.gp.predictor import LESS_MEMORY
from graphrf.graph.alignment import reordered
from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel
from graphrf.kernels.named import Matern
from graphrf.operators.series.walk_operator import kept_matrices

_LEFT_OUT = "leave these observations out; if not, likelihood='student_t' allows for outliers"


class GraphGPRegressor(SavedRegressor, WithCoefficients, RegressorMixin, EvaluatedPredictor):
    r"""Gaussian-process regression of a signal on the nodes of a graph.

    .. math:: y = c + x^\top b + f(\mathrm{node}) + \varepsilon, \quad f \sim N(0, \sigma^2 K),
        \quad
              \varepsilon \sim N(0, s),

    averaged over the posterior of the kernel K, output scale sigma^2 and noise variance s: see "How
    a fit works".

    Examples
    --------
    >>> import numpy as np, graphrf as grf
    >>> graph = grf.datasets.load("generated-grid").graph
    >>> rng = np.random.default_rng(0)
    >>> signal = 3 * grf.apply_root(graph, grf.Diffusion(4.0), rng.standard_normal(900))
    >>> nodes = rng.choice(900, 300, replace=False)
    >>> gp = grf.GraphGPRegressor(graph, seed=0).fit(
    ...     nodes, signal[nodes] + 0.1 * rng.standard_normal(300)
    ... )
    >>> mean, std = gp.predict(return_std=True)
    >>> print(f"{np.mean(np.abs(mean - signal) < 1.96 * std):.2f}")  # coverage of 95 % intervals
    0.97

    Parameters
    ----------
    graph : Graph
        Undirected, N nodes.
    kernel : Kernel or str
        "auto", "diffusion", "matern", "regularized_laplacian", or the areal "bym2", "car", "icar",
        "leroux". "auto" compares Matern kernels of four degrees of smoothness for both Laplacians.
        The lengthscale of any other is trained, its smoothness is kept.
    likelihood : str or Likelihood
        "gaussian", "student_t"; for counts "poisson", "negative_binomial", "binomial", "bernoulli";
        for positive values "gamma"; or an object such as `gp.NegativeBinomial()`.
    noise : float or array_like, shape (n,), optional
        Fixed noise variances. None trains a common one.
    mean : {"constant", "zero"} or array_like, shape (N,) or (N, b)
        An array or data frame holds covariates of all nodes; those of observed nodes only are
        passed to `fit`.
    method : {"auto", "series", "precision", "features"}
        "series": products with the exact K. "precision": a sparse inverse of K, for areal kernels,
        and others on roads and meshes. "features": graph random features, for huge graphs. "auto":
        the cheapest, an exact one wherever it is affordable.
    output_scale : float, optional
        Fixed sigma^2; None trains it.
    optimize : bool or sequence of str
        Hyperparameters of the kernel to train: all but `nu` and `power`, none, or those named.
    prior : "weak", None, mapping or HyperparameterPrior
        A mapping changes some of the weak priors: `{"noise": (0.01, 3.0)}`. With None, few
        observations often give zero noise and intervals that are far too narrow.
    hyperparameters : {"average", "mode"}
        Predictions average over about eight sets, or use the most probable (maximum likelihood with
        `prior=None`).
    seed : int in [0, 2^63), optional
        None draws one.
    progress : bool
        Show progress bars.
    numerics : Numerics
        Solver, tolerance, threads, sampler.

    Attributes
    ----------
    kernel_, output_scale_, noise_, likelihood_
        The most probable kernel; means of the variances; the likelihood, if it is not the Gaussian
        one.
    mean_, coefficients_
        c; c and b with standard errors, printed as a table.
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
    Rasmussen and Williams 2006, Ch. 2 and 5; Miller and Dunson 2019; Rue and Held 2005, Ch. 2; Reid
    et al. 2024.
    """

    noise_: Any
    mean_: float | np.ndarray

    @without_alpha
    @without_rates
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
        numerics: Numerics = Numerics(),
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

    @needs_memory(LESS_MEMORY)
    @without_offset
    def fit(
        self,
        nodes: SignalLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        x: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
        trials: ArrayLike | None = None,
    ) -> GraphGPRegressor:
        """Train the hyperparameters and condition on the observations.

        Parameters
        ----------
        nodes : nodes by position, shape (n,) or (n, 1), or by string name
            Repeated nodes are repeated observations. Without `y`, a dictionary of nodes and values,
            or a Series or data frame of pandas, whose index holds the names of nodes. Arguments
            with labels are aligned by the index that they share with `nodes` or `y`, or by the
            names of nodes; other labels are refused.
        y : array_like, shape (n,) or (n, p), optional
            Several outputs share all hyperparameters but the mean: scale them to similar units
            first. Other likelihoods accept a single output.
        sample_weight : float or array_like, shape (n,), optional
            w >= 0 for Gaussian noise: the noise variance of an observation is `noise` / w, and one
            of weight 0 is left out. Unlike an array in `noise` they are split with the nodes by
            cross-validation.
        x : array_like, shape (n,) or (n, b), or data frame, optional
            Covariates, a row for each observation, the same for all observations of a node: the
            mean is c + x b. The columns of a data frame name the coefficients. Those of all nodes
            may be given as `mean` instead.
        exposure : float or array_like, shape (n,), optional
            Positive factors of the mean, for likelihoods of rates: person-years, areas, hours.
        trials : int or array_like, shape (n,), optional
            Numbers of trials for the binomial likelihood, where y are the successes.

        Raises
        ------
        ValueError, TypeError
            For unknown nodes; y that is not finite, has the wrong length or overflows when squared;
            covariates that are collinear at the observed nodes; a directed graph; settings out of
            range; a lengthscale that is too long for the series. The regressor is then not fitted,
            even if it was before.
        MemoryError
            If the sparse factors of method="precision", or the covariances of the observed nodes,
            do not fit.

        Warns
        -----
        SolverWarning
            If conjugate gradients stop before their tolerance.
        UserWarning
            If y is constant (about the mean), so that no variance can be learned; if the graph
            explains y hardly better than noise does, as where nodes and y are in different orders;
            if the data favour a longer lengthscale than the method serves (at most 100,
            combinatorial: over the root of the weights' geometric mean); if nodes without an edge
            have a much larger prior standard deviation than others; if Poisson or binomial
            counts of one node differ by more than those of one rate do (p < 1e-4); with
            `hyperparameters="mode"`, if one ends at a bound of its search range; if the kernel's
            series had to be truncated at a visible error.

        Notes
        -----
        Time: K among at most 500 nodes, and some 100 reductions of matrices of 250 rows to
        tridiagonal form for each block; then eight posteriors: sparse factors, or Cholesky, m^3 / 6
        for m observed nodes, or conjugate gradients (one product with K a step). Memory: m^2
        numbers for each Cholesky factor; up to 512 MB for training by the series. Of sparse factors
        there is one at a time, with as many numbers to work with, and more on threads where they
        have room. An average keeps means and variances of all nodes by them, and none of them:
        covariances take another factorisation for each set of hyperparameters, and `sample` one for
        each set that has draws, in every call. A mode keeps its factor.
        """
        forget(
            self,
            ("_posterior", "_fitted", "_mean_function", "_titles", "_coefficients", "_separate"),
        )

        problem = make_problem(
            self,
            checked_settings(self),
            nodes,
            y,
            x=x,
            sample_weight=sample_weight,
            exposure=exposure,
            trials=trials,
        )

        alone = warn_of_no_edges(self.graph)
        warn_of_few(problem.n_observations, problem.trained)
        if isinstance(problem, NormalProblem):
            problem = problem.learnable()
            warn_of_placeholders("y", problem.values + problem.offset, _LEFT_OUT)

        numerics = self.numerics
        choice = choose_method(
            self.graph,
            problem.kernels,
            problem.nodes,
            method=self._asked_method(),
            automatic=isinstance(self.kernel, str) and self.kernel == AUTO and problem.trained,
            sampler=numerics.sampler,
            n_points=POINTS if problem.averages else 1,
            n_threads=numerics.n_threads,
            remote=numerics.feature_sampler is not None,
        )
        problem, method = replace(problem, kernels=choice.kernels), choice.method

        with kept_matrices():
            model = _fitted_model(problem, method, self._explored(problem, method))
            if isinstance(problem, LatentProblem):
                responses, prior_std = problem.responses, problem.prior_std
                model = approximated(
                    problem, model, lambda part: method.prior(part, responses, prior_std, numerics)
                )
            self._condition(model, problem.mean, method)
            if alone.size:
                warn_of_free_nodes(
                    self.graph,
                    alone,
                    model.kernel,
                    lambda: (
                        model.mean_variance
                        if problem.normalize
                        else method.mean_variance(model.kernel, problem.seed)
                    ),
                )

        self._separate = problem.separate
        self._keep_titles(nodes, y, self.mean)
        return self

    def _explored(self, problem: NormalProblem | LatentProblem, method: Method) -> Explored:
        """The hyperparameters: learned, or known."""
        if not problem.trained:
            return _fixed_hyperparameters(problem, method)
        n_kernels = None if isinstance(problem, LatentProblem) else len(problem.kernels)
        with step_bar("training", self.progress, n_kernels, "kernels") as bar:
            if isinstance(problem, LatentProblem):
                return explore_latent(problem, method, bar.update)
            return explore(problem, method, bar.update)

    def _condition(self, model: FittedModel, mean: MeanFunction, method: Method) -> Self:
        """The posterior for known hyperparameters, and all fitted attributes; none is set before
        all is made.
        """
        with step_bar("solving", self.progress) as bar:
            posterior, truncation_error = method.posterior(
                model, mean.basis, self.numerics, bar.update
            )
        constant, _ = mean.parts(posterior.coefficients)

        self._posterior, self._fitted, self._mean_function = posterior, model, mean
        self.kernel_, self.sampler_ = model.kernel, model.sampler
        self.output_scale_ = model.output_scale
        if model.likelihood is None:
            noise = reordered(self.noise, None)
            self.noise_ = (
                model.noise if np.ndim(noise) == 0 else np.asarray(noise, dtype=np.float64).ravel()
            )
        else:
            self.likelihood_ = model.likelihood

        self.mean_variance_ = model.mean_variance
        constant = constant + model.offset
        self.mean_ = float(constant[0]) if model.single else constant
        self._coefficients = Coefficients.of(
            mean,
            posterior.coefficients,
            posterior.coefficients_covariance,
            model.offset,
            model.single,
        )
        self.candidates_ = list(model.candidates)
        self.n_points_ = max(len(model.points), 1)
        self.method_, self.solver_ = model.method, posterior.solver
        self.residual_ = posterior.solution.residual
        self.converged_ = model.trained and posterior.solution.converged
        self.truncation_error_ = truncation_error
        self.seed_ = model.seed
        self.n_observations_ = model.observations.n_total
        self.n_observed_nodes_ = model.observations.nodes.size
        return self

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
    def log_marginal_likelihood_(self) -> float:
        """See Attributes."""
        if not self.__sklearn_is_fitted__():
            raise AttributeError(
                "log_marginal_likelihood_ is an attribute of fitted regressors: call `fit` first"
            )
        evidence = self._fitted.log_marginal_likelihood
        return float(self._posterior.log_likelihood if evidence is None else evidence)

    def score(
        self,
        nodes: SignalLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        x: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
        trials: ArrayLike | None = None,
    ) -> float:
        """The coefficient of determination R^2 of the predicted means, times exposures or trials; 1
        is best.

        The arguments are those of `fit`, and `x` that of `predict`. ValueError without exposures or
        trials where the fit had them.
        """
        self._check_fitted()
        self._require_factors(exposure, trials)
        positions, y, rows = self._observed_rows(nodes, y)
        weights = checked_weights(rows.numbers("sample_weight", sample_weight), rows.n)
        factors = [rows.numbers("exposure", exposure), rows.numbers("trials", trials)]
        predicted = self.predict(positions, x=None if x is None else rows.taken("x", x))
        for name, factor in zip(("exposure", "trials"), factors, strict=True):
            factors_of_rows = for_each(name, factor, rows.n)
            if factors_of_rows is not None:
                predicted = predicted * factors_of_rows
        from sklearn.metrics import r2_score  # which loads much of scipy

        return float(r2_score(checked_targets(y, rows.n)[0], predicted, sample_weight=weights))


def _fixed_hyperparameters(problem: NormalProblem | LatentProblem, method: Method) -> Explored:
    """The hyperparameters of a problem that has none to learn."""
    kernel, output_scale = problem.kernels[0][0], problem.output_scale
    assert output_scale is not None
    mean_variance = method.mean_variance(kernel, problem.seed) if problem.normalize else 1.0
    best = Hyperparameters(kernel, output_scale / mean_variance, output_scale, 1.0, 1.0)
    if isinstance(problem, LatentProblem):
        best = best._replace(likelihood=problem.likelihood)
    else:
        assert problem.noise is not None
        best = best._replace(noise=problem.noise)

    sampler = method.sampler_for([kernel], problem.nodes.size, None)
    method.check(kernel, sampler, problem.nodes, problem.seed)
    return Explored(best, [], [ComparedKernel(kernel, 0.0, 1.0)], sampler=sampler)


def _fitted_model(
    problem: NormalProblem | LatentProblem, method: Method, explored: Explored
) -> FittedModel:
    """The fitted model of a problem, whose output scale is that of the mean variance over all
    nodes.
    """
    best, mean_variance = explored.best, 1.0
    method.warn_of_rounding([best.kernel])
    if problem.normalize and not problem.trained:
        mean_variance = best.output_scale / best.amplitude
    elif problem.normalize:
        mean_variance = method.mean_variance(best.kernel, problem.seed)
    return FittedModel.of(problem, explored, method.name, mean_variance)
