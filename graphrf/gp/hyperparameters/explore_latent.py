"""The tempered posterior of hyperparameters with any likelihood, and points that represent it.

Quasi-random points of the prior, and of a normal distribution fitted to those that it favours, take
the place of the grid. Together they are a sample of their mixture, with importance weights (Owen
and Zhou 2000, Sec. 2.2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from graphrf._base.blas import linear_algebra
from graphrf.gp.hyperparameters.blocks import BLOCK, observed_blocks
from graphrf.gp.hyperparameters.explore import (
    INFORMATION,
    POINTS,
    families,
    warn_of_end,
    with_exact_mean_variance,
)
from graphrf.gp.hyperparameters.kernel_axis import KernelAxis, length_unit
from graphrf.gp.hyperparameters.latent_evidence import DenseEvidence, SparseEvidence, block_evidence
from graphrf.gp.hyperparameters.latent_mode import LatentMode, find_latent_mode
from graphrf.gp.hyperparameters.likelihood_search import mean_variance_of_blocks
from graphrf.gp.hyperparameters.longer_rows import mode_on_long_enough, trained_on_long_enough
from graphrf.gp.hyperparameters.mode import mean_variance_near
from graphrf.gp.hyperparameters.space import Model, Space, Units
from graphrf.gp.likelihoods.likelihood import Likelihood
from graphrf.gp.methods.mean_variance import RoughMeanVariance
from graphrf.gp.methods.protocol import Grams, Method
from graphrf.gp.model.hyperparameters import ComparedKernel, Explored, Hyperparameters
from graphrf.gp.model.notices import warn_of_nothing
from graphrf.gp.model.problem import LatentProblem
from graphrf.gp.model.progress import Step
from graphrf.gp.posterior.approximation.expectation_propagation import Sites, independent_sites
from graphrf.gp.search.bounds import warn_of_bounds
from graphrf.gp.search.sample import (
    NormalProposal,
    log_sum_exp,
    mixture_sample,
    probabilities,
    systematic,
)
from graphrf.kernels.kernel import Kernel
from graphrf.operators.precision.protocol import KernelPrecision

# Observed nodes of a block, the most blocks, and points of each half of the sample. An evaluation
# of the evidence takes some four factorisations, so blocks are smaller than those of normal noise.
_LATENT_BLOCK, _LATENT_BLOCKS, SAMPLE = 100, 3, 64
# Nats by which two estimates of an evidence from so many points may differ.
_ERROR = 1.0


def explore_latent(problem: LatentProblem, method: Method, step: Step | None = None) -> Explored:
    """Points of the tempered posterior, or the mode; `step` is called for each evaluation of the
    evidence.

    Cost: with averages 128 evaluations for each Laplacian, each some four factorisations of each
    block.
    """
    observed, rng = problem.responses.nodes, np.random.default_rng(problem.seed)
    most = min(problem.max_train, method.largest_block)
    if problem.averages:
        nodes = observed_blocks(
            problem.graph, observed, rng, size=min(_LATENT_BLOCK, most), count=_LATENT_BLOCKS
        )
    else:
        size = most if observed.size <= most else min(BLOCK, most)
        nodes = observed_blocks(problem.graph, observed, rng, size=size, count=max(most // size, 1))
    with linear_algebra(max(block.size for block in nodes), problem.n_threads):
        if problem.averages:
            return _LatentExploration(problem, method, nodes, step).result()
        return _mode(problem, method, nodes, step)


def _space(problem: LatentProblem, axis: KernelAxis) -> Space:
    """Coordinates of the hyperparameters of a kernel."""
    length = length_unit(problem.graph, axis.kernel)
    return Space.of(
        axis.kernel,
        axis.ranges,
        problem.prior,
        Units(problem.unit**2, length, problem.unit),
        output_scale=problem.output_scale,
        likelihood=problem.likelihood,
    )


class _Evaluated(NamedTuple):
    """Points at which the evidence was computed."""

    which: np.ndarray  # the kernel of each
    log_evidence: np.ndarray  # tempered
    vectors: np.ndarray  # coordinates
    amplitudes: np.ndarray


class _Sample(NamedTuple):
    """Evaluated hyperparameters of kernels that share their K."""

    spaces: Sequence[Space]  # one for each kernel
    which: np.ndarray  # the kernel of each point
    vectors: np.ndarray  # (n, p) coordinates, with columns that a kernel does not use
    amplitudes: np.ndarray
    # their logarithmic sum is the log evidence of all kernels, each of prior probability 1
    log_weights: np.ndarray
    grams: Grams
    # of lengthscales near the longest that is served, if longer ones are not
    log_mass_at_end: float

    def log_weights_of(self, k: int) -> np.ndarray:
        """Log weights of one kernel's points."""
        return np.where(self.which == k, self.log_weights, -np.inf)

    def model(self, k: int, vector: np.ndarray) -> Model:
        """Hyperparameters of one kernel."""
        return self.spaces[k].model(vector[: len(self.spaces[k].names)])


class _LatentExploration:
    """The samples of all kernels of a problem."""

    def __init__(
        self, problem: LatentProblem, method: Method, nodes: Sequence[np.ndarray], step: Step | None
    ) -> None:
        self._problem, self._method, self._nodes, self._step = problem, method, nodes, step
        self._responses = [problem.responses.at(block) for block in nodes]
        # Tempered as with normal noise; repeated observations of a node count as one.
        self._temper = min(1.0, INFORMATION / sum(block.size for block in nodes))
        self._approximate = RoughMeanVariance(problem.graph, problem.seed, method.precision)
        self._sites: tuple[Likelihood, list[Sites]] | None = None  # of the last likelihood

    def result(self) -> Explored:
        problem, method = self._problem, self._method
        result = [self._family(members) for members in families(problem.kernels)]
        compared = self._compared(result)
        if method.name == "features":  # whose rows have one Laplacian and one length
            result = [max(result, key=lambda each: log_sum_exp(each.log_weights))]
        self._warn_of_ends(result)
        self._warn_of_nothing(result)
        points = self._points(result)
        best, grams = self._best(result)
        kernels = [best.kernel, *(point.kernel for point in points)]
        sampler = method.sampler_for(kernels, problem.responses.nodes.size, grams.sampler)
        grams.check(best.kernel)
        return Explored(best, points if len(points) > 1 else [], compared, sampler=sampler)

    def _family(self, members: Sequence[tuple[Kernel, tuple[str, ...]]]) -> _Sample:
        """Kernels with one Laplacian; sampled rows become longer while the data favour
        the longest.
        """

        def sampled(grams: Grams) -> _Sample:
            axes = [self._axis(kernel, names, grams) for kernel, names in members]
            return self._sampled(grams, axes)

        def probability_at_end(sample: _Sample) -> float:
            return math.exp(sample.log_mass_at_end - log_sum_exp(sample.log_weights))

        candidates = self._method.grams(members, self._nodes, self._problem.seed)
        return trained_on_long_enough(candidates, sampled, probability_at_end)

    def _axis(self, kernel: Kernel, names: tuple[str, ...], grams: Grams) -> KernelAxis:
        """A kernel whose hyperparameters without a prior are at the mode, and the one that is
        sampled.
        """
        problem = self._problem
        axis = KernelAxis.of(problem.graph, kernel, names, grams.longest)
        if axis.others:
            exact = self._method.exact_grams(grams, kernel, self._nodes, problem.seed)
            axis = axis.at(
                _block_mode(
                    problem, self._method, axis, self._nodes, exact, self._step
                ).model.kernel
            )
        return KernelAxis.of(
            problem.graph, axis.kernel, (axis.name,) if axis.name else (), grams.longest
        )

    def _sampled(self, grams: Grams, axes: Sequence[KernelAxis]) -> _Sample:
        spaces = [_space(self._problem, axis) for axis in axes]
        n_kernels, p = len(spaces), max(len(space.names) for space in spaces)
        evaluated: list[_Evaluated] = []

        def log_target(points: np.ndarray) -> np.ndarray:
            which, z = points[:, 0].astype(int), points[:, 1:]
            evaluated.append(self._evaluated(grams, spaces, which, z))
            return evaluated[-1].log_evidence + prior.log_density(points)

        # in the coordinates z the prior of hyperparameters is standard normal
        normal = NormalProposal(np.zeros(p), np.eye(p))
        prior = _KernelProposal(np.full(n_kernels, 1 / n_kernels), normal)
        if p:
            rng = np.random.default_rng([self._problem.seed, 4])
            sample = mixture_sample(
                prior,
                lambda points, _: _favoured(points, evaluated[0].log_evidence, n_kernels),
                log_target,
                (SAMPLE, p + 1),
                rng,
            )
            log_weights = sample.log_target - sample.log_density
        else:
            log_target(np.arange(n_kernels)[:, None])
            log_weights = evaluated[0].log_evidence
        which, _, vectors, amplitudes = (
            np.concatenate(parts) for parts in zip(*evaluated, strict=True)
        )
        if not np.isfinite(log_weights).any():
            raise ValueError(
                "the posterior cannot be approximated with these hyperparameters, because a matrix "
                "cannot be factored: fix a smaller `output_scale`, or another lengthscale"
            )

        log_weights = log_weights - math.log(which.size / n_kernels)
        at_end = [
            self._at_end(axes[k], vector) for k, vector in zip(which.tolist(), vectors, strict=True)
        ]
        end = log_sum_exp(np.where(at_end, log_weights, -np.inf))
        return _Sample(spaces, which, vectors, amplitudes, log_weights, grams, end)

    def _evaluated(
        self, grams: Grams, spaces: Sequence[Space], which: np.ndarray, z: np.ndarray
    ) -> _Evaluated:
        """The tempered log evidence of kernels at points with normal coordinates z."""
        levels = np.clip(ndtr(z), 1e-9, 1 - 1e-9)
        vectors = np.zeros(z.shape)
        for k, space in enumerate(spaces):
            p = len(space.names)
            vectors[which == k, :p] = space.quantiles(levels[which == k, :p])

        models = [
            spaces[k].model(vector[: len(spaces[k].names)])
            for k, vector in zip(which, vectors, strict=True)
        ]
        matrices = grams.many([model.kernel for model in models])

        evidence, amplitudes = np.full(which.size, -np.inf), np.ones(which.size)
        for number, model in enumerate(models):
            if self._step is not None:
                self._step()
            at_blocks = [matrix[number] for matrix in matrices]
            mean_variance = self._mean_variance_of(model.kernel, at_blocks)
            if np.isfinite(mean_variance) and mean_variance > 0:  # else the modulation underflows
                amplitudes[number] = model.output_scale / mean_variance
                evidence[number] = self._temper * self._evidence(
                    model, amplitudes[number], at_blocks
                )
        return _Evaluated(which, evidence, vectors, amplitudes)

    def _evidence(self, model: Model, amplitude: float, matrices: Sequence[np.ndarray]) -> float:
        prior_std, likelihood = self._problem.prior_std, model.likelihood
        if self._sites is None or self._sites[0] != likelihood:
            self._sites = (
                likelihood,
                [independent_sites(each, likelihood, prior_std) for each in self._responses],
            )
        blocks = zip(matrices, self._responses, self._sites[1], strict=True)
        return sum(
            block_evidence(amplitude * each, y, likelihood, prior_std, sites)
            for each, y, sites in blocks
        )

    def _mean_variance_of(self, kernel: Kernel, matrices: Sequence[np.ndarray]) -> float:
        """Mean variance of K: at the nodes of the blocks where the output scale is trained, else
        over all nodes, or 1 without `normalize`.
        """
        if self._problem.output_scale is None:
            return float(
                sum(np.trace(each) for each in matrices) / sum(each.shape[0] for each in matrices)
            )
        return self._approximate(kernel) if self._problem.normalize else 1.0

    @staticmethod
    def _at_end(axis: KernelAxis, vector: np.ndarray) -> bool:
        """True if lengthscales are cut off at a longest one, and this one is within a factor of 1.5
        of it.
        """
        return axis.is_cut and float(vector[0]) > math.log(axis.ranges["lengthscale"][1] / 1.5)

    # -- representation of the posterior -----------------------------------------------------------

    @staticmethod
    def _compared(samples: Sequence[_Sample]) -> list[ComparedKernel]:
        """The kernels, the most probable first."""
        total = log_sum_exp(np.concatenate([sample.log_weights for sample in samples]))
        compared = []
        for sample in samples:
            for k in range(len(sample.spaces)):
                evidence = log_sum_exp(sample.log_weights_of(k))
                if math.isfinite(evidence):
                    kernel = _mean(sample, k)[0].kernel
                    compared.append(ComparedKernel(kernel, evidence, math.exp(evidence - total)))
        return sorted(compared, key=lambda each: -each.probability)

    def _best(self, samples: Sequence[_Sample]) -> tuple[Hyperparameters, Grams]:
        """The most probable kernel with the posterior means of its coordinates, and its K."""
        kernels = [(sample, k) for sample in samples for k in range(len(sample.spaces))]
        sample, k = max(kernels, key=lambda pair: log_sum_exp(pair[0].log_weights_of(pair[1])))
        model, weight = _mean(sample, k)
        amplitude = math.exp(float(weight @ np.log(sample.amplitudes)))
        return Hyperparameters(
            model.kernel, amplitude, model.output_scale, 1.0, 1.0, model.likelihood
        ), sample.grams

    def _points(self, samples: Sequence[_Sample]) -> list[Hyperparameters]:
        """About eight points that represent the posterior, ordered by likelihood parameter or
        output scale.
        """
        log = np.concatenate([sample.log_weights for sample in samples])
        last = np.concatenate([sample.vectors[:, -1:].sum(axis=1) for sample in samples])
        chosen, counts = systematic(log, np.argsort(last, kind="stable"), POINTS)
        members = [(sample, number) for sample in samples for number in range(sample.which.size)]
        points = []
        for place, count in zip(chosen.tolist(), counts.tolist(), strict=True):
            sample, number = members[place]
            model = sample.model(int(sample.which[number]), sample.vectors[number])
            amplitude = float(sample.amplitudes[number])
            point = Hyperparameters(
                model.kernel, amplitude, model.output_scale, 1.0, count / POINTS, model.likelihood
            )
            points.append(with_exact_mean_variance(self._problem, self._method, point))
        return points

    def _warn_of_nothing(self, samples: Sequence[_Sample]) -> None:
        """Compare the evidence with that of independent latent values, at the same scales and
        likelihoods.
        """
        first = samples[0]
        if self._problem.output_scale is not None or not first.vectors.shape[1]:
            return

        matrices = [np.eye(each.nodes.size) for each in self._responses]
        models = [
            first.model(k, vector)
            for k, vector in zip(first.which[:SAMPLE].tolist(), first.vectors, strict=False)
        ]
        alone = np.array(
            [self._temper * self._evidence(each, each.output_scale, matrices) for each in models]
        )

        kernels = np.concatenate([sample.log_weights for sample in samples])
        n_kernels = sum(len(sample.spaces) for sample in samples)
        log_factor = (
            log_sum_exp(kernels) - math.log(n_kernels) - log_sum_exp(alone) + math.log(alone.size)
        )

        if log_factor < -_ERROR:
            warn_of_nothing(log_factor, self._problem.responses.place.size)

    def _warn_of_ends(self, samples: Sequence[_Sample]) -> None:
        total = log_sum_exp(np.concatenate([sample.log_weights for sample in samples]))
        end = log_sum_exp(np.array([sample.log_mass_at_end for sample in samples]))
        sample = max(samples, key=lambda each: each.log_mass_at_end)
        kernel = sample.model(0, sample.vectors[0]).kernel
        warn_of_end(kernel, sample.grams.longest(kernel), math.exp(end - total), self._method)


def _mean(sample: _Sample, k: int) -> tuple[Model, np.ndarray]:
    """The model at the posterior mean of a kernel's coordinates, and the weights of its points."""
    weights = probabilities(sample.log_weights_of(k))
    return sample.model(k, weights @ sample.vectors), weights


class _KernelProposal(NamedTuple):
    """A kernel with some probability, and normal coordinates z; points are (kernel, z)."""

    probabilities: np.ndarray
    normal: NormalProposal

    def at(self, levels: np.ndarray) -> np.ndarray:
        ends = np.cumsum(self.probabilities)[:-1]
        which = np.searchsorted(ends, levels[:, 0], side="right")
        return np.column_stack([which, self.normal.at(levels[:, 1:])])

    def log_density(self, points: np.ndarray) -> np.ndarray:
        which = points[:, 0].astype(int)
        return self.normal.log_density(points[:, 1:]) + np.log(self.probabilities[which])


def _favoured(points: np.ndarray, log_evidence: np.ndarray, n_kernels: int) -> _KernelProposal:
    """A proposal near the points of the prior that have high evidence.

    It is half as wide again as the weighted points, and wider where few of them have most of the
    weight. Half of the probability is that of all kernels alike, half that of their weights.
    """
    top = float(log_evidence.max())
    weights = np.exp(log_evidence - top) if math.isfinite(top) else np.ones(log_evidence.size)
    weights = weights / weights.sum()
    which, z = points[:, 0].astype(int), points[:, 1:]
    added = (0.5 * float(np.square(weights).sum()) + 0.02) * np.eye(z.shape[1])
    near = NormalProposal.fitted(z, weights, added, math.sqrt(1.5))
    shares = 0.5 * np.bincount(which, weights=weights, minlength=n_kernels) + 0.5 / n_kernels
    return _KernelProposal(shares, near)


# -- the mode --------------------------------------------------------------------------------------


def _mode(
    problem: LatentProblem, method: Method, nodes: Sequence[np.ndarray], step: Step | None
) -> Explored:
    """The most probable hyperparameters of the most probable kernel."""

    def find(axis: KernelAxis, grams: Grams, start: Model | None) -> LatentMode:
        return _block_mode(problem, method, axis, nodes, grams, step, start)

    modes = [
        mode_on_long_enough(problem.graph, method, member, nodes, problem.seed, find)
        for member in problem.kernels
    ]
    modes.sort(key=lambda result: -result.mode.log_posterior)
    shares = probabilities(np.array([result.mode.log_posterior for result in modes]))
    compared = [
        ComparedKernel(result.mode.model.kernel, result.mode.log_posterior, float(share))
        for result, share in zip(modes, shares, strict=True)
    ]
    mode, _, grams = modes[0]
    if method.precision is not None and problem.responses.nodes.size > nodes[0].size:
        mode = _exact_mode(problem, method.precision, mode, grams, step)
    warn_of_bounds(mode.space, mode.space.vector_of(mode.model))
    best = mode.hyperparameters
    sampler = method.sampler_for([best.kernel], problem.responses.nodes.size, grams.sampler)
    grams.check(best.kernel)
    return Explored(best, [], compared, mode.converged, sampler)


def _block_mode(
    problem: LatentProblem,
    method: Method,
    axis: KernelAxis,
    nodes: Sequence[np.ndarray],
    grams: Grams,
    step: Step | None,
    start: Model | None = None,
) -> LatentMode:
    mean_variance = mean_variance_of_blocks()
    if problem.output_scale is not None:
        mean_variance = mean_variance_near(
            problem.graph, axis.kernel, problem.normalize, problem.seed, method.precision
        )

    responses = [problem.responses.at(block) for block in nodes]
    evidence = DenseEvidence(
        grams.each, responses, mean_variance, problem.prior_std, problem.likelihood.unknown, step
    )
    return find_latent_mode(_space(problem, axis), evidence, start)


def _exact_mode(
    problem: LatentProblem,
    precision: KernelPrecision,
    mode: LatentMode,
    grams: Grams,
    step: Step | None,
) -> LatentMode:
    """The mode by the evidence of all observations with a sparse precision."""
    precision = precision.with_kernel(mode.model.kernel)
    axis = KernelAxis.of(problem.graph, mode.model.kernel, mode.space.kernel_names, grams.longest)
    mean_variance = mean_variance_near(
        problem.graph, mode.model.kernel, problem.normalize, problem.seed, precision
    )

    evidence = SparseEvidence(
        precision,
        problem.responses,
        mean_variance,
        problem.prior_std,
        problem.likelihood.unknown,
        step,
    )

    start = mode.model._replace(
        output_scale=mode.amplitude * mean_variance(mode.model.kernel, (), [])[0]
    )
    return find_latent_mode(_space(problem, axis), evidence, start)
