"""Gaussian-process regression on a graph, with a scikit-learn API."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Self, cast

import numpy as np
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
from graphrf.sampling.protocol import Sampler

_LESS_MEMORY = (
    "observe or ask for fewer nodes at a time, "
    "pass hyperparameters='mode', or on roads and meshes method='precision'"
)
_LESS_EXACT = ", deviations='sampled' or fewer nodes take less"
_LEFT_OUT = "leave these observations out; if not, likelihood='student_t' allows for outliers"


class GraphGPRegressor(SavedRegressor, RegressorMixin, NodeEstimator):
    r"""Gaussian-process regression of a signal on the nodes of a graph.

    .. math:: y = c + x^\top b + f(\mathrm{node}) + \varepsilon, \quad f \sim N(0, \sigma^2 K / \bar k), \quad
              \varepsilon \sim N(0, s),

    with covariates x of the nodes (none by default), a node kernel K, its mean variance k_bar = trace(K) / N
    (`normalize=True`), output scale sigma^2 and noise variance s. Predictions are averaged over the posterior of
    kernel, lengthscale, output scale and noise, which are learned from at most 50 observations' worth of
    information (see Notes). The posterior of f given these uses all observations.

    Parameters
    ----------
    graph : Graph
        Undirected, N nodes. Shared, never copied.
    kernel : Kernel or {"auto", "diffusion", "matern", "regularized_laplacian", "bym2", "car", "icar", "leroux"}
        "auto" compares `Matern` with nu = 0.5, 1, 2 and 3, each with the normalized and the combinatorial
        Laplacian, by their evidence (see `candidates_`); with the method "precision" nu = 1, 2 and 3, with
        "features" `Diffusion` as well. Another name means the kernel with its default smoothness; its lengthscale
        is trained. A `Kernel` keeps its smoothness while its other hyperparameters are trained (with
        `optimize=False`, all are kept). The last four are areal kernels; all but "leroux" require the method
        "precision", which "auto" then uses.
    method : {"auto", "series", "precision", "features"}
        "series": the exact K, by sparse products. "precision": the exact posterior by the sparse inverse of K, for
        areal kernels, and `Matern` with nu and `RegularizedLaplacian` with power, an integer from 1 to 4, on
        graphs with small separators, such as roads and meshes; all standard deviations are exact and cheap. Of
        nu 1/2, 3/2 and 5/2 the prior's standard deviations are off by a thousandth at most, and factors are
        many times larger, as each node has four or more hidden variables. "auto" takes them where it expects the
        series to take longer, and `kernel="auto"` compares nu 1, 2 and 3 only.
        "features": Phi Phi^T of a single set of features from `sampler`, whose diagonal exceeds that of K by the
        variance of the features, a nugget that training takes into account. "auto": chosen before training by what
        each costs; see Notes.
    sampler : RandomWalks, CompressedPowers, CutPowers, ExactPowers, or any other `Sampler`, optional
        For "features". Default: compressed powers of 64 to 512 entries, as many as training can afford, with as
        many steps as the trained kernel needs to lose at most a thousandth of sum |f_k| (an error of K of at most
        0.2 %), up to 128. Rows with fewer entries are exact. With any sampler
        training ends, with a warning, at the lengthscale for which the variance of the rows is a quarter of the
        diagonal of K: beyond, it would pass for a signal that differs at every node, and intervals would be too
        narrow.
    draw : callable, optional
        Draws the rows of the observed nodes for the posterior: called as `graphrf.sample_features` (the default)
        with graph, sampler, `nodes`, `seed`, `n_threads` and `dtype`, it returns something whose
        `factor(n_threads=)` is a `graphrf.operators.Factor` that may live elsewhere, as on a cluster. For
        "features", which "auto" then takes, and conjugate gradients: training, Cholesky and queried nodes draw
        their rows here. It is not written by `save`.
    normalize : bool
        Whether K is divided by its mean variance over all nodes, so that `output_scale` is a variance of f.
    mean : {"constant", "zero"} or array_like, shape (N,) or (N, b)
        The mean function. An array or data frame holds covariates x of every node (coordinates, elevation): the
        mean is c + x b. Covariates known only at observed nodes are passed to `fit`.
        c and b are generalised least-squares estimates for each output, profiled out in training; their
        uncertainty is part of standard deviations, covariances and draws.
    output_scale : float, optional
        Fixed variance of f; None trains it.
    noise : float or array_like, shape (n,), optional
        Fixed noise variance: one for all observations, or one for each. None trains a common one.
    likelihood : str or Likelihood
        The distribution of an observation given f. "gaussian": f plus normal noise. "poisson",
        "negative_binomial": counts with mean exp(f) times an exposure. "binomial", "bernoulli": successes, or
        binary outcomes, with log odds f. "student_t": f plus noise with outliers. "gamma": positive values with
        mean exp(f) times an exposure. Classes such as `gp.NegativeBinomial` accept fixed parameters. All but
        "gaussian" use a normal approximation of the posterior; see Notes.
    optimize : bool or sequence of str
        Which hyperparameters of the kernel are trained: all but smoothness (`nu`, `power`), none, or those
        named. Must be True with `kernel="auto"`.
    prior : "weak", None, mapping or HyperparameterPrior
        Log-normal priors of lengthscale, output scale and noise, and of the odds of shares; see
        `HyperparameterPrior` for the weak ones. A mapping changes some of them: `{"noise": (0.01, 3.0)}`. None
        trains by maximum likelihood alone, which with few observations often leads to zero noise and
        far too narrow intervals.
    hyperparameters : {"average", "mode"}
        "average": predictions are averaged over about eight points of the tempered posterior of kernel and
        hyperparameters, and a model of pure noise (see `HyperparameterPrior`) unless y rules it out. With sampled
        rows, kernels of one Laplacian are averaged over. "mode": the most probable kernel with the hyperparameters
        of the largest posterior density, without tempering: maximum likelihood with `prior=None`.
    max_train : int
        Maximum number m of distinct observed nodes whose joint likelihood `hyperparameters="mode"` maximises by
        the series or by features, at m^3 operations per step; beyond, blocks of 250 are treated as independent.
    solver : {"auto", "cholesky", "cg"}
        For the posterior. "auto": Cholesky up to 7,000 distinct observed nodes m (with the series, while
        40 nnz(W) m is below 5e10), preconditioned conjugate gradients above: with a function of the Laplacian
        as preconditioner if nodes are observed evenly all over the graph, else with 200 columns of K.
    tol : float
        Relative residual at which conjugate gradients stop.
    max_iterations : int
        Maximum number of conjugate-gradient iterations; a `SolverWarning` is given if they do not suffice.
    deviations : {"auto", "exact", "sampled"}
        Standard deviations. "exact", to the solver's tolerance: with conjugate gradients, a solve for every
        queried node. "sampled": from 64 posterior draws at all nodes, made at the first request; variances are
        unbiased, and standard deviations have relative standard errors of at most 9 %. "auto": exact for up to 64
        nodes, and for more with Cholesky, by series or features while 40 nnz(W) multiply-adds for each column of K
        are below 5e10 in all, else sampled. Columns: one for each node and set of hyperparameters; by series at
        most one for each observed node and set, and one for each node.
    seed : int in [0, 2^63), optional
        Seed of features, training subset and draws; None draws one, which `seed_` records.
    n_threads : int, optional
        Number of threads. Default: the cores that the process may use.
    progress : bool
        Show progress on standard error: kernels, or evaluations of the likelihood, in training, iterations of
        conjugate gradients, and predicted nodes.

    Attributes
    ----------
    kernel_ : Kernel
        The most probable kernel with its most probable hyperparameters.
    candidates_ : list of ComparedKernel
        The kernels compared, the largest evidence first: (kernel, log_evidence, probability).
    n_points_ : int
        Number of hyperparameter sets over which predictions are averaged; 1 without averaging.
    output_scale_, noise_ : float
        Variances: posterior means, or with `hyperparameters="mode"` the most probable ones. `noise_` is the given
        array if there was one, and is absent with another likelihood.
    likelihood_ : Likelihood
        The likelihood with trained parameters; absent for the Gaussian one.
    mean_ : float, or ndarray of shape (p,) for several outputs
        The constant c.
    trend_ : ndarray, shape (b,), or (b, p) for several outputs
        Coefficients of the covariates; b = 0 without any.
    coefficients_ : Coefficients
        (mean, std, names) of c and b, in the units of the covariates, which `print` shows as a table:
        mean and std of shape (1 + b,), or (1 + b, p) for several outputs. Empty with mean="zero".
    log_marginal_likelihood_ : float
        Log marginal likelihood of all observations, without the prior, summed over outputs; with averages the
        logarithm of its mean over them. NaN with conjugate gradients, which give no determinant. With another
        likelihood, the approximation by expectation propagation at the most probable hyperparameters.
    method_, solver_ : str
        The method and the solver that were used.
    converged_ : bool
        Whether the solve reached its tolerance, and with `hyperparameters="mode"` the search, to a tenth of a nat.
    residual_ : float
        Relative residual of the solve.
    mean_variance_ : float
        The mean variance k_bar, or 1 with `normalize=False`.
    sampler_ : the sampler of the posterior, or None
    truncation_error_ : float
        Bound on the error of the prior covariance, in operator norm and units of the output scale, that the
        samples' largest length causes; of the series below 1e-9, unless its kernel's root is singular
        (`InverseCosine`: about 1e-3) or needs more than 20,000 Chebyshev terms.
        It does not include what `CutPowers` drop.
    seed_ : int
    n_observations_, n_observed_nodes_ : int

    Notes
    -----
    Hyperparameters theta have the tempered posterior

    .. math:: \pi(\theta \mid y) \propto p(\theta) \, p(y \mid \theta)^t, \quad t = \min(1, 50 / n),

    with n values at distinct nodes, because no kernel is the truth, and the likelihood of many observations is
    sure of a wrong one. Up to 250 observed nodes are seen; of more, two blocks of 250, so that the cost of
    training does not grow with n. The posterior is evaluated on a grid of kernels, lengthscales, output scales
    and noises, and represented by eight points that are drawn systematically in the order of their noise.

    `method="auto"` uses sparse precisions where their factors, for training, predictions and standard deviations
    at all nodes, cost less than products. Otherwise it uses the series if the exact products of a fit stay below
    5e10 multiply-adds: 40 nnz(W) for every node in training and, for the posterior, 40 m or 5,000 times nnz(W).
    Beyond, it uses features if the steps of their solver cost at most a quarter of that. Where the data favour
    longer lengthscales than a route serves, a warning names one that does.

    With features, only the rows of observed nodes are sampled; this suits few observations on huge graphs.
    Means and draws use exact rows at the queried nodes, which reduces their error by two fifths
    (`benchmarks/gp_rows.py`). Standard deviations are those of the error of the means under the exact prior,
    so they include the error of the sampled rows. Prefer the series, which is exact, whenever it is affordable.
    `benchmarks/gp.py` measures both.

    The smoothest function of the normalized Laplacian is the square root of the degrees; that of the combinatorial
    Laplacian is constant. This matters if weights or degrees vary, as on roads, so `kernel="auto"` compares both.
    `benchmarks/calibration.py` measures the coverage of the intervals of all defaults.

    With a likelihood other than the Gaussian, the posterior of f is approximated by a normal distribution, by
    expectation propagation. Hyperparameters have the same tempered posterior, with the evidence of up to 300
    observed nodes in blocks of 100 at 128 quasi-random points for each Laplacian; eight of them stand for it.
    `hyperparameters="mode"` maximises the evidence of blocks of up to `max_train` nodes, or with a sparse
    precision and more of them that of all. The constant and the trend have normal priors with a standard deviation
    of 3 about those of the observations (in units of f, and of the spread of the covariates), so that all zeros,
    or classes that the graph separates, still have a posterior. `solver` and `deviations` are as above.
    "Likelihoods" in the documentation describes where the approximation is accurate and where it is not.

    Repeated observations at a node are combined: c of them act as one with noise s / c. Isolated nodes and
    components without observations are allowed; they keep the prior.

    Sources: Rasmussen and Williams 2006, "Gaussian Processes for Machine Learning", Ch. 2, 3 and 5; Miller and
    Dunson 2019, "Robust Bayesian Inference via Coarsening" (tempering); Rue and Held 2005, "Gaussian Markov Random
    Fields", Ch. 2 (precisions); Reid et al. 2024, "Variance-Reducing Couplings for Random Features", Sec. 4 and
    App. F.2 (walks).

    Examples
    --------
    >>> import numpy as np, graphrf as grf
    >>> graph = grf.datasets.load("generated-grid").graph
    >>> rng = np.random.default_rng(0)
    >>> signal = 3 * grf.apply_root(graph, grf.Diffusion(4.0), rng.standard_normal(900))
    >>> nodes = rng.choice(900, 300, replace=False)
    >>> gp = grf.GraphGPRegressor(graph, seed=0).fit(nodes, signal[nodes] + 0.1 * rng.standard_normal(300))
    >>> mean, std = gp.predict(return_std=True)
    >>> bool(np.mean(np.abs(mean - signal) < 2 * std) > 0.85)
    True
    """

    noise_: Any
    mean_: float | np.ndarray

    @without_alpha
    def __init__(
        self,
        graph: Graph,
        *,
        kernel: Kernel | str = "auto",
        method: str = "auto",
        sampler: Sampler | None = None,
        draw: Callable[..., Any] | None = None,
        normalize: bool = True,
        mean: Any = "constant",
        output_scale: float | None = None,
        noise: Any = None,
        likelihood: Likelihood | str = "gaussian",
        optimize: bool | Sequence[str] = True,
        prior: HyperparameterPrior | str | None = "weak",
        hyperparameters: str = "average",
        max_train: int = 1000,
        solver: str = "auto",
        tol: float = 1e-6,
        max_iterations: int = 1000,
        deviations: str = "auto",
        seed: int | None = None,
        n_threads: int | None = None,
        progress: bool = False,
    ) -> None:
        self.graph = graph
        self.kernel = kernel
        self.method = method
        self.sampler = sampler
        self.draw = draw
        self.normalize = normalize
        self.mean = mean
        self.output_scale = output_scale
        self.noise = noise
        self.likelihood = likelihood
        self.optimize = optimize
        self.prior = prior
        self.hyperparameters = hyperparameters
        self.max_train = max_train
        self.solver = solver
        self.tol = tol
        self.max_iterations = max_iterations
        self.deviations = deviations
        self.seed = seed
        self.n_threads = n_threads
        self.progress = progress

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
        plan = make_plan(
            self.graph, problem.kernels, problem.nodes.size, method=self._asked_method(),
            automatic=self._is_automatic and problem.trained, sampler=self.sampler,
            n_points=POINTS if problem.averages else 1, n_threads=self.n_threads, remote=self.draw is not None,
        )  # fmt: skip
        problem, route = replace(problem, kernels=plan.kernels), plan.route
        with kept_matrices():
            found = self._explored(problem, route)
            if isinstance(problem, LatentProblem):
                given = approximated(problem, route, found, self.solver, self.draw)
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
        with step_bar("solving", self.progress) as bar:
            posterior, truncation_error = condition(
                self.graph, given, mean.basis,
                solver=self.solver, tol=float(self.tol), max_iterations=int(self.max_iterations),
                n_threads=self.n_threads, draw=self.draw, step=bar.update,
                precision=precision,
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
        if self.deviations != "auto":
            return self.deviations == "exact"
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
        drawn = self.sampler is not None or self.draw is not None
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
        with self._bar(distinct.size, return_std) as bar, linear_algebra(self.n_observed_nodes_, self.n_threads):
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
        with linear_algebra(self.n_observed_nodes_, self.n_threads):
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
        with self._bar(distinct.size) as bar, linear_algebra(self.n_observed_nodes_, self.n_threads):
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
        with self._bar(distinct.size) as bar, linear_algebra(self.n_observed_nodes_, self.n_threads):
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
        with linear_algebra(self.n_observed_nodes_, self.n_threads):
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
            with linear_algebra(self.n_observed_nodes_, self.n_threads):
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

    def _shaped(self, array: np.ndarray, axis: int = 1) -> np.ndarray:
        """Without the axis of outputs where y had none."""
        return np.take(array, 0, axis=axis) if self._given.single else array
