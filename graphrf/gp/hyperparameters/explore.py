"""The tempered posterior of kernel, output scale and noise, and points that represent it.

See [the posterior of
hyperparameters](../theory/gaussian_processes.md#the-posterior-of-hyperparameters).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit

from graphrf._base.blas import linear_algebra
from graphrf._base.warn import warn
from graphrf.gp.hyperparameters.blocks import BLOCK, observed_blocks
from graphrf.gp.hyperparameters.grid import (
    Axes,
    BlockValues,
    Cells,
    independent_log_likelihoods,
    log_likelihoods,
)
from graphrf.gp.hyperparameters.kernel_axis import KernelAxis
from graphrf.gp.hyperparameters.longer_rows import trained_on_long_enough
from graphrf.gp.hyperparameters.mode import find_mode
from graphrf.gp.hyperparameters.space import NOISES
from graphrf.gp.methods.costs import TRAINED
from graphrf.gp.methods.mean_variance import RoughMeanVariance, mean_variance
from graphrf.gp.methods.protocol import Grams, Method, TrainedKernel
from graphrf.gp.model.hyperparameters import ComparedKernel, Explored, Hyperparameters
from graphrf.gp.model.notices import warn_of_nothing
from graphrf.gp.model.problem import NormalProblem, Problem
from graphrf.gp.model.progress import Step
from graphrf.gp.search.sample import log_sum_exp, probabilities, systematic
from graphrf.kernels.kernel import Kernel

# n_0 of the tempered likelihood p(y | theta)^t, t = min(1, n_0 / n), in observations: no kernel is
# the truth, and a likelihood of thousands of observations is concentrated at a wrong one, with too
# narrow intervals (Miller and Dunson 2019). With the points that represent the posterior it was
# chosen by `benchmarks/calibration.py`, whose docstring has the table.
INFORMATION = 50.0
POINTS = 8
# Output scales and noises in variances of y, and ratios of noise and output scale, in steps of
# factors from 1.3 to 1.6, over which a tempered density is smooth.
_AXES = Axes(
    scales=np.geomspace(0.02, 100.0, 20),
    ratios=np.geomspace(1e-6, 1e3, 56),
    noises=np.geomspace(*NOISES, 60),
)


class _Evaluated(NamedTuple):
    """A kernel on its grid, with the log likelihood and posterior, shape (values of its
    hyperparameter, cells).
    """

    axis: KernelAxis
    kernels: list[Kernel]
    mean_variances: np.ndarray
    log_likelihood: np.ndarray
    log_posterior: np.ndarray
    grams: Grams

    @property
    def log_evidence(self) -> float:
        return log_sum_exp(self.log_posterior)

    @property
    def log_mass_at_end(self) -> float:
        """The logarithm of the probability of the longest lengthscale, if longer ones are not
        served.
        """
        return log_sum_exp(self.log_posterior[-1]) if self.axis.is_cut else -math.inf


def explore(problem: NormalProblem, method: Method, step: Step | None = None) -> Explored:
    """The posterior of a problem's unknown hyperparameters; `step` is called for each kernel.

    Cost: K among at most 500 nodes, and for each kernel and lengthscale one reduction of a matrix
    for each block.
    """
    return _Exploration(problem, method, step).result()


def families(kernels: Sequence[TrainedKernel]) -> Iterable[list[TrainedKernel]]:
    """Kernels that share their Laplacian; all areal kernels together."""
    result: dict[str, list[TrainedKernel]] = {}
    for each in kernels:
        result.setdefault(each[0].laplacian if each[0].is_series else "", []).append(each)
    return result.values()


def warn_of_end(kernel: Kernel, longest: float, probability: float, method: Method) -> None:
    """Warn if a kernel's longest lengthscale has most of the posterior probability, and the method
    ends there.
    """
    if probability > 0.5:
        warn(
            f"the data favour a lengthscale longer than {longest:.3g} ({100 * probability:.0f} % "
            f"of the posterior probability is there), {method.limitation(kernel)}"
        )


def with_exact_mean_variance(
    problem: Problem, method: Method, point: Hyperparameters
) -> Hyperparameters:
    """A point with a known output scale over the exact mean variance of K, in place of the
    estimated one.
    """
    if problem.output_scale is None or not problem.normalize:
        return point
    exact = mean_variance(problem.graph, point.kernel, problem.seed, method.precision)
    return point._replace(amplitude=problem.output_scale / exact, output_scale=problem.output_scale)


class _Exploration:
    """The grid of all kernels of a problem."""

    def __init__(self, problem: NormalProblem, method: Method, step: Step | None) -> None:
        self._problem, self._method, self._step = problem, method, step
        rng = np.random.default_rng(problem.seed)
        nodes = problem.observations.nodes
        size = min(BLOCK, problem.max_train, method.largest_block)
        self._nodes = observed_blocks(problem.graph, nodes, rng, size=size, count=TRAINED // BLOCK)
        self._blocks = [BlockValues.of(problem.at(block), problem.unit) for block in self._nodes]
        self._cells = Cells.of(
            problem.output_scale, problem.noise, problem.unit, problem.prior, _AXES
        )
        # Values of several outputs count one by one.
        n_values = sum(block.values.size for block in self._blocks)
        self._temper = min(1.0, INFORMATION / max(n_values, 1))
        self._approximate = RoughMeanVariance(problem.graph, problem.seed, method.precision)

    def result(self) -> Explored:
        """Points, or the mode."""
        problem = self._problem
        with linear_algebra(max(block.size for block in self._nodes), problem.n_threads):
            result = self._evaluated()

        compared, order = self._compared(result)
        if self._method.name == "features":  # whose rows have one Laplacian and one length
            grams = result[order[0]].grams
            result = [evaluated for evaluated in result if evaluated.grams is grams]
            order = [max(range(len(result)), key=lambda k: result[k].log_evidence)]

        self._warn_of_ends(result)
        log_factor = self._log_bayes_factor(result)
        self._warn_of_nothing(log_factor)

        first = result[order[0]]
        if problem.averages:
            points = self._with_noise_alone(self._points(result), log_factor)
            best, converged = self._mean(self._peak(first), points), True
        else:
            mode = find_mode(
                problem,
                self._method,
                first.axis,
                self._starts(first),
                first.grams,
                self._step,
                warns=True,
            )
            best, converged, points = mode.best, mode.converged, []

        first.grams.check(best.kernel)
        kernels = [best.kernel, *(point.kernel for point in points)]
        n_observed = problem.observations.nodes.size
        sampler = self._method.sampler_for(kernels, n_observed, first.grams.sampler)
        return Explored(best, points if len(points) > 1 else [], compared, converged, sampler)

    def _compared(self, evaluated: Sequence[_Evaluated]) -> tuple[list[ComparedKernel], list[int]]:
        """The kernels, the most probable first, and their order."""
        evidence = np.array([each.log_evidence for each in evaluated])
        order = np.argsort(-evidence, kind="stable").tolist()
        shares = probabilities(evidence)
        kernels = [
            ComparedKernel(self._peak(evaluated[k]).kernel, float(evidence[k]), float(shares[k]))
            for k in order
        ]
        return kernels, order

    # -- the grid ----------------------------------------------------------------------------------

    def _evaluated(self) -> list[_Evaluated]:
        result: list[_Evaluated] = []
        for members in families(self._problem.kernels):
            family: list[_Evaluated] = trained_on_long_enough(
                self._method.grams(members, self._nodes, self._problem.seed),
                partial(self._family, members),
                self._mass_at_end,
            )
            result += family
            if self._step is not None:
                self._step(len(members))  # at once, as most time goes into what they share

        possible = [each for each in result if np.isfinite(each.log_posterior).any()]
        if not possible:
            raise ValueError(
                "the covariance of the observations cannot be factored: the kernel vanishes there "
                "to rounding, or its series is too short for it; raise `noise`, or shorten the "
                "lengthscale of `kernel`"
            )
        return possible

    def _family(self, members: Sequence[TrainedKernel], grams: Grams) -> list[_Evaluated]:
        return [self._on_grid(kernel, names, grams) for kernel, names in members]

    def _on_grid(self, kernel: Kernel, names: Sequence[str], grams: Grams) -> _Evaluated:
        """A kernel; of several hyperparameters to be trained all but one are first set
        to the mode.
        """
        axis = KernelAxis.of(self._problem.graph, kernel, names, grams.longest)
        result = self._along(axis, grams)
        if axis.others and np.isfinite(result.log_posterior).any():
            mode = find_mode(
                self._problem, self._method, axis, self._starts(result), grams, self._step
            )
            result = self._along(axis.at(mode.best.kernel), grams)
        return result

    def _along(self, axis: KernelAxis, grams: Grams) -> _Evaluated:
        kernels = axis.kernels
        matrices = grams.many(kernels)
        mean_variances = self._mean_variances(kernels, matrices)

        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            scaled = [each / mean_variances[:, None, None] for each in matrices]
        # else the modulation underflows
        usable = np.isfinite(mean_variances) & (mean_variances > 0)

        likelihood = np.full((len(kernels), self._cells.scales.size), -np.inf)
        if usable.any():
            likelihood[usable] = log_likelihoods(
                [each[usable] for each in scaled], self._blocks, self._cells
            )

        prior = axis.log_prior(self._problem.prior)[:, None] + self._cells.log_prior
        return _Evaluated(
            axis, kernels, mean_variances, likelihood, self._temper * likelihood + prior, grams
        )

    def _mean_variances(
        self, kernels: Sequence[Kernel], matrices: Sequence[np.ndarray]
    ) -> np.ndarray:
        """Mean variances of K: at the nodes of the blocks where the output scale is trained, else
        over all nodes, or 1 without `normalize`.
        """
        if self._problem.output_scale is None:
            traces = sum(np.trace(each, axis1=1, axis2=2) for each in matrices)
            return np.asarray(traces / sum(each.shape[1] for each in matrices))
        if not self._problem.normalize:
            return np.ones(len(kernels))
        return np.array([self._approximate(kernel) for kernel in kernels])

    # -- representation of the posterior -----------------------------------------------------------

    def _at(self, evaluated: _Evaluated, place: int, cell: int, weight: float) -> Hyperparameters:
        problem = self._problem
        scale, noise = problem.output_scale, problem.noise
        scale = float(self._cells.scales[cell]) * problem.unit if scale is None else scale
        noise = float(self._cells.noises[cell]) * problem.unit if noise is None else noise
        return Hyperparameters(
            evaluated.kernels[place],
            scale / float(evaluated.mean_variances[place]),
            scale,
            noise,
            weight,
        )

    def _peak(self, evaluated: _Evaluated) -> Hyperparameters:
        """The most probable ones of a kernel."""
        place, cell = np.unravel_index(
            int(np.argmax(evaluated.log_posterior)), evaluated.log_posterior.shape
        )
        return self._at(evaluated, int(place), int(cell), 1.0)

    def _starts(self, evaluated: _Evaluated) -> list[Hyperparameters]:
        """The most probable cells with little, some and much noise, since there may be several
        maxima.
        """
        prior = evaluated.log_posterior - self._temper * evaluated.log_likelihood
        log = evaluated.log_likelihood + np.where(np.isfinite(prior), prior, 0.0)

        result = []
        for cells in np.array_split(np.argsort(self._cells.noises, kind="stable"), 3):
            if cells.size and np.isfinite(log[:, cells]).any():
                place, cell = np.unravel_index(
                    int(np.argmax(log[:, cells])), (len(evaluated.kernels), cells.size)
                )
                result.append(
                    (
                        float(log[place, cells[cell]]),
                        self._at(evaluated, int(place), int(cells[cell]), 1.0),
                    )
                )

        result.sort(key=lambda pair: -pair[0])
        # Searches from cells that are lower by more than 6 nats end lower.
        return [start for value, start in result if value > result[0][0] - 6.0]

    def _points(self, evaluated: Sequence[_Evaluated]) -> list[Hyperparameters]:
        """About eight cells that represent the posterior, ordered by the noise, on which intervals
        depend most.
        """
        log = np.concatenate([each.log_posterior.ravel() for each in evaluated])
        noises = np.concatenate(
            [
                np.broadcast_to(self._cells.noises, each.log_posterior.shape).ravel()
                for each in evaluated
            ]
        )

        order = np.argsort(np.round(np.log(noises), 6), kind="stable")
        cells, counts = systematic(log, order, POINTS)
        starts = np.cumsum([0, *(each.log_posterior.size for each in evaluated)])

        points = []
        for position, count in zip(cells.tolist(), counts.tolist(), strict=True):
            which = int(np.searchsorted(starts, position, side="right")) - 1
            place, cell = divmod(position - int(starts[which]), self._cells.scales.size)
            point = self._at(evaluated[which], place, cell, count / POINTS)
            points.append(with_exact_mean_variance(self._problem, self._method, point))
        return points

    @staticmethod
    def _mean(peak: Hyperparameters, points: Sequence[Hyperparameters]) -> Hyperparameters:
        """The most probable kernel with the posterior means of output scale and noise."""
        weights = np.array([point.weight for point in points])
        scale = float(weights @ [point.output_scale for point in points]) / float(weights.sum())
        noise = float(weights @ [point.noise for point in points]) / float(weights.sum())
        return peak._replace(
            amplitude=peak.amplitude * (scale / peak.output_scale), output_scale=scale, noise=noise
        )

    def _with_noise_alone(
        self, points: list[Hyperparameters], log_factor: float
    ) -> list[Hyperparameters]:
        """The points, reweighted, and one at which y is its mean function and noise.

        A rough kernel with little noise explains unstructured values as well as noise does, so
        noise alone has a prior probability of its own.
        """
        probability = self._probability_of_noise_alone(log_factor)
        # Below one in fifty it is not worth a posterior of its own.
        if probability <= 0.02:
            return points

        # An amplitude is positive, so there is next to no signal.
        first, nothing = points[0], 1e-6
        alone = first._replace(
            amplitude=nothing * first.amplitude,
            output_scale=nothing * first.output_scale,
            noise=self._noise_alone(),
            weight=probability,
        )
        return [
            *(point._replace(weight=(1 - probability) * point.weight) for point in points),
            alone,
        ]

    def _probability_of_noise_alone(self, log_factor: float) -> float:
        """Its posterior probability, by the log Bayes factor against it."""
        return (
            float(expit(logit(self._problem.prior.noise_alone) - log_factor))
            if log_factor < math.inf
            else 0.0
        )

    def _alone(self) -> tuple[np.ndarray, np.ndarray]:
        """Log prior density of the noise, and log posterior density without a signal."""
        prior = self._problem.prior.log_density("noise", np.log(_AXES.noises), 1.0)[0]
        return prior, prior + self._temper * independent_log_likelihoods(self._blocks, _AXES.noises)

    def _noise_alone(self) -> float:
        """The noise variance if there is no signal."""
        _, log = self._alone()
        return float(np.exp(probabilities(log) @ np.log(_AXES.noises))) * self._problem.unit

    def _log_bayes_factor(self, evaluated: Sequence[_Evaluated]) -> float:
        """The log Bayes factor of all kernels against noise alone; inf where a variance
        is known.
        """
        if self._problem.output_scale is not None or self._problem.noise is not None:
            return math.inf
        kernels = log_sum_exp(np.array([each.log_evidence for each in evaluated]))
        axes = log_sum_exp(
            np.concatenate([each.axis.log_prior(self._problem.prior) for each in evaluated])
        )
        prior, alone = self._alone()
        return (
            kernels
            - axes
            - log_sum_exp(self._cells.log_prior)
            - (log_sum_exp(alone) - log_sum_exp(prior))
        )

    # -- warnings ----------------------------------------------------------------------------------

    @staticmethod
    def _mass_at_end(evaluated: list[_Evaluated]) -> float:
        """The probability of the longest lengthscales, where longer ones are not served."""
        total = log_sum_exp(np.array([each.log_evidence for each in evaluated]))
        end = log_sum_exp(np.array([each.log_mass_at_end for each in evaluated]))
        return math.exp(end - total) if math.isfinite(total) else 0.0

    def _warn_of_ends(self, evaluated: list[_Evaluated]) -> None:
        kernel = max(evaluated, key=lambda each: each.log_mass_at_end).kernels[-1]
        longest = kernel.hyperparameters.get("lengthscale", math.inf)
        warn_of_end(kernel, longest, self._mass_at_end(evaluated), self._method)

    def _warn_of_nothing(self, log_factor: float) -> None:
        if self._problem.prior.noise_alone > 0:
            warn_of_nothing(log_factor, self._problem.observations.n_total)
