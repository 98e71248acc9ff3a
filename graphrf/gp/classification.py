"""Gaussian-process classification of nodes, with a scikit-learn API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin

from graphrf._base import checks
from graphrf._base.blas import linear_algebra
from graphrf._base.memory import needs_memory
from graphrf._base.types import NodesLike, SignalLike
from graphrf._base.warn import warn
from graphrf.gp.files.classifier import SavedClassifier
from graphrf.gp.hyperparameters.blocks import observed_blocks
from graphrf.gp.hyperparameters.class_evidence import PRIOR, UNIT, ClassEvidence
from graphrf.gp.hyperparameters.explore import POINTS
from graphrf.gp.hyperparameters.kernel_axis import KernelAxis
from graphrf.gp.hyperparameters.latent_mode import LatentMode, find_latent_mode
from graphrf.gp.hyperparameters.longer_rows import mode_on_long_enough
from graphrf.gp.hyperparameters.space import Model, Space, Units
from graphrf.gp.methods.choose import Choice, choose_method
from graphrf.gp.methods.costs import SERIES_BUDGET, column_products
from graphrf.gp.methods.protocol import Grams, Method
from graphrf.gp.methods.series import SeriesMethod
from graphrf.gp.model.class_labels import Labels, checked_labels
from graphrf.gp.model.estimator import NodeEstimator, checked_weights, forget, refuse_features
from graphrf.gp.model.hyperparameters import Hyperparameters
from graphrf.gp.model.notices import warn_of_few, warn_of_no_edges, warn_of_nothing
from graphrf.gp.model.progress import Step, step_bar
from graphrf.gp.model.settings import (
    HYPERPARAMETERS,
    check_latent_scale,
    checked_kernel,
    checked_method,
)
from graphrf.gp.posterior.by_rows import SolverWarning
from graphrf.gp.posterior.classes import ClassPosterior
from graphrf.graph.alignment import observed_rows
from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel
from graphrf.sampling.protocol import Sampler

_LESS_MEMORY = "label or ask for fewer nodes, or on roads and meshes pass method='precision'"
PREDICTIVES = ("mode", "integrated")
# Numbers in the matrices of the latent covariance, 2 C m^2: 1 GB.
LARGEST_CURVATURE = 130_000_000

_without_covariates = checks.without(
    ("mean", "x", "likelihood"),
    "is no argument here: for covariates of two classes take LatentGaussianModel('class ~ 1 + x', "
    "Nodes(graph, Matern(nu=2.0)), likelihood='bernoulli'), and Ordinal(k) of k ordered ones; of "
    "more, one Bernoulli model for each (is it this class, 0 or 1), and divide its probabilities "
    "by their sum over classes",
)


class GraphGPClassifier(SavedClassifier, ClassifierMixin, NodeEstimator):
    r"""Gaussian-process classification of the nodes of a graph: class probabilities from labels at
    some nodes.

    .. math:: p(\mathrm{class}\ c \mid f) = \frac{e^{f_c}}{\sum_b e^{f_b}}, \quad
              f_c \sim N\!\left(b_c, \; \sigma^2 K_{ij} / \sqrt{K_{ii} K_{jj}}\right),

    independent latent functions that share the node kernel K and the output scale sigma^2, with
    means b_c ~ N(0, 4). The posterior is Laplace's approximation; probabilities are averaged over
    the posterior of lengthscale and output scale, which have weak priors: see "How a fit works".

    Examples
    --------
    >>> import numpy as np, graphrf as grf
    >>> graph = grf.datasets.load("generated-grid").graph
    >>> columns = np.arange(900) % 30
    >>> labels = np.array(["left", "middle", "right"])[columns // 10]
    >>> nodes = np.random.default_rng(0).choice(900, 60, replace=False)
    >>> gp = grf.GraphGPClassifier(graph, seed=0).fit(nodes, labels[nodes])
    >>> gp.predict_proba([0, 15]).shape
    (2, 3)
    >>> bool(np.mean(gp.predict() == labels) > 0.9)
    True

    Parameters
    ----------
    graph : Graph
        Undirected, N nodes.
    kernel : Kernel or {"diffusion", "matern", "regularized_laplacian"}
        A name stands for its default smoothness; a `Kernel` is the starting point of training.
    method : {"auto", "series", "precision", "features"}
        As in `GraphGPRegressor`; "auto" also takes "features" where the prior variances of all
        nodes would cost more than 5e10 multiply-adds.
    sampler : RandomWalks, CompressedPowers, CutPowers, ExactPowers or any `Sampler`, optional
        For "features". Default: compressed powers of 64 to 512 entries, chosen by the likelihood.
    normalize : bool
        Whether K is scaled to variance 1 at every node, so that sigma^2 is the variance of latent
        functions.
    output_scale : float, optional
        Fixed sigma^2; None trains it.
    optimize : bool or sequence of str
        Hyperparameters of the kernel to train: all but `nu` and `power`, none, or those named.
    predictive : {"mode", "integrated"}
        Probabilities are the softmax at the posterior mode, or its mean over the latent posterior;
        see Notes.
    hyperparameters : {"average", "mode"}
        Predictions average over about eight sets, or use the most probable one.
    max_train : int
        Maximum number m of distinct labelled nodes used in training, half of them drawn from all
        and half of groups of near ones: some 5 C m^3 operations per step.
    seed : int in [0, 2^63), optional
        None draws one, which `seed_` records.
    n_threads : int, optional
        Default: the cores that the process may use.
    progress : bool
        Show progress bars.

    Attributes
    ----------
    classes_ : ndarray, shape (C,)
        The labels that occur, sorted.
    class_bias_ : ndarray, shape (C,)
        The means b at the posterior mode, with sum 0.
    log_marginal_likelihood_ : float
        Laplace's approximation, of the labels used in training.
    n_points_ : int
        Sets of hyperparameters averaged over.
    converged_, residual_ : bool, float
        Of training and the search for the mode.
    kernel_, output_scale_, method_, sampler_, seed_, n_observations_, n_observed_nodes_
        What was trained and used; kernel and output scale are the most probable ones.

    Notes
    -----
    Repeated labels at a node may disagree. Isolated nodes and components without labels have the
    classes' shares by b, which are less extreme than those of a few labels. With few labels the
    mode is better calibrated, since Laplace's approximation makes the integral too cautious
    (`benchmarks/few_labels.py`); where labels are noisy and many, they hardly differ.

    Sources: Rasmussen and Williams 2006, "Gaussian Processes for Machine Learning", Sec. 3.5 and
    5.5.1.
    """

    class_bias_: np.ndarray
    seed_: int
    n_observations_: int
    method_: str
    kernel_: Kernel
    output_scale_: float
    log_marginal_likelihood_: float
    converged_: bool
    residual_: float

    @_without_covariates
    def __init__(
        self,
        graph: Graph,
        *,
        kernel: Kernel | str = "diffusion",
        method: str = "auto",
        sampler: Sampler | None = None,
        normalize: bool = True,
        output_scale: float | None = None,
        optimize: bool | Sequence[str] = True,
        predictive: str = "mode",
        hyperparameters: str = "average",
        max_train: int = 500,
        seed: int | None = None,
        n_threads: int | None = None,
        progress: bool = False,
    ) -> None:
        self.graph = graph
        self.kernel = kernel
        self.method = method
        self.sampler = sampler
        self.normalize = normalize
        self.output_scale = output_scale
        self.optimize = optimize
        self.predictive = predictive
        self.hyperparameters = hyperparameters
        self.max_train = max_train
        self.seed = seed
        self.n_threads = n_threads
        self.progress = progress

    # -- fitting -----------------------------------------------------------------------------------

    @needs_memory(_LESS_MEMORY)
    @_without_covariates
    def fit(
        self,
        nodes: SignalLike,
        labels: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> GraphGPClassifier:
        """Train the hyperparameters and find the posterior mode.

        Parameters
        ----------
        nodes : nodes by position, shape (n,) or (n, 1), or by string name
            Repeats are repeated observations. Without `labels` a dictionary of nodes and labels, or
            a Series of pandas, whose index holds the nodes: keys are names (`Graph.index`).
        labels : array_like, shape (n,), optional
            Strings or integers, of two classes or more. Missing ones (None, NaN, empty text) and -1
            mean that a node has no label, as in scikit-learn, with a warning; of only two classes,
            -1 may be one.
        sample_weight : float or array_like, shape (n,), optional
            w >= 0: a label counts as w labels of its node, one of weight 0 is left out.

        Raises
        ------
        ValueError, TypeError
            For unknown nodes, labels of only one class or of the wrong length, a directed graph,
            settings out of range; for predictive="integrated", if the latent covariance of the
            labels does not fit into memory.

        Warns
        -----
        SolverWarning
            If the search for the mode stops before its tolerance.
        UserWarning
            If walks are too short for the lengthscale that the labels suggest.

        Notes
        -----
        Time: training, the covariances and 5 C max_train^3 multiply-adds in each of some 25 steps,
        and of 10 to 130 more (the fewer labels, the more) to average; then some hundred products
        with K for the m labelled nodes: C m^2 multiply-adds each up to 7,000 nodes (1,000 with a
        sparse precision), besides one pass over the rows of its factor each, or C solves with the
        sparse factor. Memory: 4 C max_train^2 numbers; m^2 numbers up to as many nodes.
        predictive="integrated" takes 1.5 C m^3 multiply-adds and 2 C m^2 numbers besides.
        """
        forget(self, ("_posteriors", "_labels", "_titles"))
        self._keep_titles(nodes, labels)
        kernel, names = checked_kernel(self, self, self.kernel)
        check_latent_scale(self.output_scale)
        checks.choice("predictive", self.predictive, PREDICTIVES)
        checks.choice("hyperparameters", self.hyperparameters, HYPERPARAMETERS)
        trained = bool(names) or self.output_scale is None
        n_points = POINTS if trained and self.hyperparameters == "average" else 1
        checks.flag("progress", self.progress)

        classes, n_labels, observed = self._observed(nodes, labels, sample_weight)
        warn_of_no_edges(self.graph)
        warn_of_few(n_labels, trained)
        n_observed = observed.nodes.size
        if self.predictive == "integrated":
            _require_few(n_observed, classes.size, n_points)
        self.classes_ = classes
        self.seed_ = checks.seed(self.seed)
        kernel.check_graph(self.graph)
        self.n_observations_ = n_labels
        self.n_observed_nodes_ = n_observed

        choice = self._choice(kernel, names, observed.nodes, n_points)
        n_train = min(self.max_train, n_observed, choice.method.largest_block)
        trained_on = self._training_part(observed, n_train)
        with linear_algebra(n_train, self.n_threads), step_bar("training", self.progress) as bar:
            mode, points, self.sampler_ = self._trained(
                choice.method, trained_on, kernel, names, n_points > 1, bar.update
            )
        self.kernel_ = mode.model.kernel
        self.output_scale_ = mode.amplitude
        density, _ = mode.space.log_prior(mode.space.vector_of(mode.model))
        self.log_marginal_likelihood_ = mode.log_posterior - density
        points = points or [mode.hyperparameters]

        method = self._serving(choice.method, points)
        self.method_ = method.name
        with linear_algebra(n_observed, self.n_threads):
            self._condition(observed, points, method)
        self.converged_ = mode.converged and self._reached()
        return self

    def _observed(
        self, nodes: SignalLike, labels: ArrayLike | None, sample_weight: ArrayLike | None
    ) -> tuple[np.ndarray, int, Labels]:
        """The classes, the number of labels, and these at their nodes."""
        if labels is not None:
            refuse_features(self.graph, nodes)
        positions, labels, rows = observed_rows(self.graph, nodes, labels, "labels")
        weights = checked_weights(rows.numbers("sample_weight", sample_weight), positions.size)
        classes, labelled, codes = checked_labels(labels, positions.size, weights)
        positions = positions[labelled]
        observed = Labels.of(
            positions, codes, classes.size, None if weights is None else weights[labelled]
        )
        return classes, positions.size, observed

    def _training_part(self, observed: Labels, size: int) -> Labels:
        """Up to so many labelled nodes: half of them drawn from all, and half near some of these,
        without which nothing would be known of short lengthscales.
        """
        if observed.nodes.size <= size:
            return observed
        rng = np.random.default_rng(self.seed_)
        half = max(size // 2, 1)
        blocks = observed_blocks(self.graph, observed.nodes, rng, size=half, count=2)
        return observed.subset(np.flatnonzero(np.isin(observed.nodes, np.concatenate(blocks))))

    def _reached(self) -> bool:
        """True if all searches for a posterior mode ended at one; else there is a warning."""
        searches = [posterior.mode for posterior in self._posteriors]
        reached = all(search.converged for search in searches)
        if not reached:
            worst = max(searches, key=lambda search: search.residual)
            warn(
                f"the posterior mode was not reached: after {worst.iterations} Newton steps the "
                f"gradient is {self.residual_:.2g} of its first size; fix a smaller `output_scale`",
                SolverWarning,
            )
        return reached

    def _asked_method(self) -> str:
        """The method that the settings ask for."""
        method = checked_method(self.method)
        return "features" if method == "auto" and self.sampler is not None else method

    def _choice(
        self, kernel: Kernel, names: tuple[str, ...], nodes: np.ndarray, n_points: int
    ) -> Choice:
        """The method; sampled features also where the prior variances of all nodes cost too much by
        the series.
        """

        def chosen(method: str) -> Choice:
            return choose_method(
                self.graph,
                [(kernel, names)],
                nodes,
                method=method,
                automatic=False,
                sampler=self.sampler,
                n_points=n_points,
                n_threads=self.n_threads,
            )

        asked = self._asked_method()
        cheapest = chosen(asked)
        variances = n_points * column_products(self.graph, self.graph.n_nodes)
        if (
            asked == "auto"
            and cheapest.method.name == "series"
            and self.normalize
            and variances > SERIES_BUDGET
        ):
            return chosen("features")
        return cheapest

    def _trained(
        self,
        method: Method,
        seen: Labels,
        kernel: Kernel,
        names: tuple[str, ...],
        averages: bool,
        step: Step,
    ) -> tuple[LatentMode, list[Hyperparameters], Any]:
        """The most probable hyperparameters, points of their posterior, and the sampler of the rows
        of all.

        Rows are longer while they end too early.
        """
        scale = None if self.output_scale is None else float(self.output_scale)

        def evidence_of(grams: Grams) -> ClassEvidence:
            return ClassEvidence(grams.each[0], seen, self.normalize, scale is None, step)

        def find(axis: KernelAxis, grams: Grams, start: Model | None) -> LatentMode:
            units = Units(UNIT**2, axis.unit)
            space = Space.of(kernel, axis.ranges, PRIOR, units, output_scale=scale)
            return find_latent_mode(space, evidence_of(grams), start)

        mode, axis, grams = mode_on_long_enough(
            self.graph, method, (kernel, names), [seen.nodes], self.seed_, find
        )
        evidence = evidence_of(grams)
        if scale is None:
            n, factor = int(seen.counts.sum()), mode.log_posterior - evidence.of_constants()
            warn_of_nothing(factor, n, "the labels")
        points = evidence.points(axis.at(mode.model.kernel), mode.model) if averages else []
        kernels = [mode.model.kernel, *(point.kernel for point in points)]
        grams.check(mode.model.kernel)
        return mode, points, method.sampler_for(kernels, seen.nodes.size, grams.sampler)

    def _serving(self, method: Method, points: Sequence[Hyperparameters]) -> Method:
        """The method; the series where a precision is singular at a point and was not asked for."""
        try:
            method.warn_of_rounding([point.kernel for point in points])
        except ValueError:
            if self._asked_method() == method.name:
                raise
            return SeriesMethod(self.graph, self.n_threads)
        return method

    def _condition(self, labels: Labels, points: Sequence[Hyperparameters], method: Method) -> None:
        """The posterior mode at each point."""
        self._labels, self._points = labels, points
        covariances = method.covariances(
            [(point.kernel, point.amplitude) for point in points],
            self.sampler_,
            self.seed_,
            normalize=self.normalize,
        )

        dense, integrated = method.makes_matrix(labels.nodes.size), self.predictive == "integrated"
        self._posteriors = [
            ClassPosterior(labels, covariance, dense=dense, integrated=integrated)
            for covariance in covariances
        ]

        self.n_points_ = len(points)
        self.class_bias_ = np.array(
            sum(
                point.weight * posterior.bias
                for point, posterior in zip(points, self._posteriors, strict=True)
            )
        )
        self.residual_ = max(posterior.mode.residual for posterior in self._posteriors)

    # -- predictions -------------------------------------------------------------------------------

    @needs_memory(_LESS_MEMORY)
    def predict_proba(self, nodes: NodesLike | None = None, *, as_frame: bool = False) -> Any:
        """Probabilities of the classes.

        Parameters
        ----------
        nodes : nodes, as in `fit`; default all
        as_frame : bool
            Return a pandas data frame with one row per node, by name, and one column per class.

        Returns
        -------
        ndarray, shape (q, C)
            Columns in the order of `classes_`; rows sum to 1.

        Notes
        -----
        With a sparse precision all nodes take half a solve for each class, and at first a selected
        inversion; with the series and `normalize=True` every node one product with F, for its prior
        variance. Integrated, every node takes two such products and 2 C m^2 multiply-adds.
        """
        self._check_fitted()
        positions = self._queried(nodes)
        distinct, inverse = np.unique(positions, return_inverse=True)
        result = np.zeros((distinct.size, self.classes_.size))
        with linear_algebra(self.n_observed_nodes_, self.n_threads):
            for point, posterior in zip(self._points, self._posteriors, strict=True):
                result += point.weight * posterior.probabilities(distinct, self.seed_)
        result = result[inverse]
        if checks.flag("as_frame", as_frame):
            return self._frame(nodes, dict(zip(self.classes_.tolist(), result.T, strict=True)))
        return result

    def predict(self, nodes: NodesLike | None = None, *, as_frame: bool = False) -> Any:
        """The most probable class of each node, shape (q,); as a data frame, with its
        probability.
        """
        probabilities = self.predict_proba(nodes)
        best = self.classes_[probabilities.argmax(axis=1)]
        if not checks.flag("as_frame", as_frame):
            return np.asarray(best)
        return self._frame(nodes, {"class": best, "probability": probabilities.max(axis=1)})

    def score(
        self,
        nodes: SignalLike,
        labels: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """The fraction of nodes whose most probable class is their label; arguments as in `fit`."""
        self._check_fitted()
        if labels is not None:
            self._queried(nodes)  # whose column must be that of `fit`
        positions, labels, rows = observed_rows(self.graph, nodes, labels, "labels")
        weights = checked_weights(rows.numbers("sample_weight", sample_weight), rows.n)
        from sklearn.metrics import accuracy_score  # which loads much of scipy

        return float(
            accuracy_score(
                labels, self.predict(self.graph.positions(positions)), sample_weight=weights
            )
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_posteriors")


def _require_few(n_observed: int, n_classes: int, n_points: int) -> None:
    """Raise ValueError if the latent covariances of so many labelled nodes would not fit into
    memory.
    """
    most = int((LARGEST_CURVATURE / (2 * n_classes * n_points)) ** 0.5)
    if n_observed > most:
        raise ValueError(
            "predictive='integrated' holds 2 x classes x nodes^2 numbers for each of "
            f"{n_points} sets of hyperparameters: with {n_classes} classes at most {most} "
            f"labelled nodes, got {n_observed}; use predictive='mode', or fit on fewer"
        )
