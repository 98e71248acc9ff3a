"""Kernels with their evidence, and the hyperparameters that stand for all of them or for the one that is taken."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit

from graphrf._base.blas import blas_threads
from graphrf._base.threads import thread_count
from graphrf._base.warn import warn
from graphrf.gp.training.candidates import Candidate, TrainingSet, candidates
from graphrf.gp.training.fitting import Targets, blocks_of, normaliser
from graphrf.gp.training.grid import GridCell, HyperparameterGrid, log_sum_exp, representatives
from graphrf.gp.training.likelihood_search import LikelihoodResult
from graphrf.gp.training.noise import NoiseOpinion
from graphrf.kernels.kernel import Kernel
from graphrf.kernels.precision.contract import KernelPrecision

# The probability at the end of the tables of the series that a precision is worth, and that is warned of.
_CUT_OFF, _MUCH_AT_END = 0.1, 0.5
# Points over which predictions are averaged.
N_POINTS = 8
# Nats that do not tell kernels apart where only one is taken; standard errors by which a kernel may predict worse
# than a smoother one and still be taken, and from which smoothness on twice as many.
_ALIKE, _ERRORS, _SMOOTHNESS = 2.0, 1.0, 2.0
# Kernels whose weight is a smaller share of the largest are not averaged over.
LIKELY = 0.05
# Probabilities of noise alone below which it is left out: beside several sets of hyperparameters, and beside one.
UNLIKELY, UNLIKELY_BESIDE_ONE = 0.02, 0.1
# The output scale of noise alone, as a share of another one.
_NOTHING = 1e-6


class CandidateKernel(NamedTuple):
    """A kernel that training compared.

    Attributes
    ----------
    kernel : Kernel
        With the best hyperparameters of the comparison's grid.
    log_evidence : float
        The logarithm of its likelihood's mean over the grid under the prior, up to a constant that all share.
        Where the exact likelihood of all observations is climbed for several kernels, because training sees a part
        of these or has sparse factors, they differ by its maxima.
    probability : float
        Posterior probability among the kernels compared, all equally probable a priori.
    log_predictive : float or None
        The sum over the nodes compared of log p(what was observed at a node | what was observed at the others): at
        the best hyperparameters, or averaged over them where predictions are; None where it was not needed.
    """

    kernel: Kernel
    log_evidence: float
    probability: float
    log_predictive: float | None = None


class _Shared(NamedTuple):
    """`Cells` of one kernel whose probabilities sum to its weight."""

    posterior: np.ndarray
    cell: Callable[[int, float], GridCell]
    noises: np.ndarray

    @property
    def every_noise(self) -> np.ndarray:
        """That of each cell."""
        return np.broadcast_to(self.noises, self.posterior.shape)


class Smooth(NamedTuple):
    """Diffusion, whose opinion of the noise counts beside those of the kernels compared."""

    training: TrainingSet
    grid: HyperparameterGrid
    opinion: NoiseOpinion


class Compared(NamedTuple):
    """Kernels compared on the nodes that training sees, best first, and what was found of each.

    `unserved` is what is to be said if one was chosen only because sampled rows are too short for another, or if
    rows that could be longer explain nothing; `unexplained` whether these explain hardly anything. `left_out` is
    the log density of each node's values given all others, of kernels that may be taken alone.
    """

    kernels: list[CandidateKernel]
    training: list[TrainingSet]
    grids: list[HyperparameterGrid]
    smooth: Smooth | None = None
    others: Sequence[NoiseOpinion] = ()
    unserved: str = ""
    unexplained: bool = False
    left_out: Sequence[np.ndarray | None] = ()

    @property
    def chosen(self) -> int:
        """The kernel to take if only one is: the roughest of those that are about as good as the best.

        By evidence that means within two nats; by predictions of values that were left out, within two nats or one
        standard error of the difference. Where the data do not determine the smoothness, a rougher kernel is the
        safer choice, as its intervals are wider. The evidence alone takes too smooth a kernel for values that none
        of the kernels describes, such as coordinates on a mesh, although it hardly predicts them better. So
        kernels smoother than nu = 2, whose intervals are then far too narrow, have to be better by two standard
        errors.

        Source: Hastie, Tibshirani and Friedman, "The Elements of Statistical Learning", 2nd ed., section 7.10.1
        (the one-standard-error rule).
        """
        evidence = [kernel.log_evidence for kernel in self.kernels]
        smoothness = [kernel.kernel.hyperparameters.get("nu", math.inf) for kernel in self.kernels]
        close = [k for k, value in enumerate(evidence) if value >= max(evidence) - _ALIKE]
        left_out = {k: own for k, own in enumerate(self.left_out) if own is not None and np.isfinite(own).all()}
        best = max(left_out.values(), key=np.sum, default=None)
        for k, own in left_out.items():
            away = best - own
            errors = 2 * _ERRORS if smoothness[k] >= _SMOOTHNESS else _ERRORS
            if away.sum() <= max(_ALIKE, errors * math.sqrt(away.size) * float(away.std())):
                close.append(k)
        return min(close, key=lambda k: smoothness[k])

    @property
    def shares(self) -> np.ndarray:
        """The weight of each kernel in averages.

        The mean of two opinions: its probability given y, and what that would be if p(y) were the product of
        p(y_i | all others) over nodes. The first is right where y was drawn from one of the kernels. The second
        looks at predictions alone, and loses less where none of them is true.
        """
        left = np.array([grid.log_left_out for grid in self.grids])
        predictive = np.exp(left - log_sum_exp(left))
        return 0.5 * (np.array([kernel.probability for kernel in self.kernels]) + predictive)

    def points(
        self,
        blocks: Sequence[np.ndarray],
        targets: Targets,
        method: str,
        sampler: Any,
        cheaper: Callable[[Kernel], KernelPrecision | None],
    ) -> list[GridCell]:
        """Hyperparameters that stand for their posterior, over all kernels that are not out of the question.

        With sampled rows it is over the best kernel alone, for whose Laplacian and length these are. `blocks` are
        the nodes of `targets`, on which finer grids have the posterior. None where one point would stand for all,
        as where nothing is trained. Where the tables of the series end too early, a sparse precision, if `cheaper`
        has one, goes on. It warns where more than half of the probability is still at the longest lengthscales.
        """
        shares = self.shares if sampler is None else np.eye(len(self.kernels))[0]
        likely, at_end = [], 0.0
        for training, grid, share in zip(self.training, self.grids, shares, strict=True):
            if share >= LIKELY * shares.max():
                whole = training._replace(blocks=blocks)
                scouted: Candidate = candidates(whole, method, sampler).scout()
                noises = () if self.smooth is None else self.smooth.opinion.range
                finer = grid.finer(blocks_of(scouted.grams, targets), scouted.longest, noises)
                trained = method == "series" and "lengthscale" in training.names
                if trained and scouted.longest < whole.largest_lengthscale:
                    precision = cheaper(training.kernel) if finer.share_at_end > _CUT_OFF else None
                    if precision is not None:
                        scouted = candidates(whole._replace(precision=precision), "precision", None).scout()
                        with blas_threads(1):  # factors on several threads: bits must not depend on that
                            finer = finer.finer(
                                blocks_of(scouted.grams, targets), scouted.longest, noises, further=True,
                                n_threads=thread_count(whole.n_threads),
                            )  # fmt: skip
                    else:
                        while finer.share_at_end > _CUT_OFF and finer.longest < 0.99 * scouted.longest:
                            finer = finer.finer(blocks_of(scouted.grams, targets), scouted.longest, noises)
                    at_end += share * finer.share_at_end
                posterior = finer.posterior - finer.log_evidence
                if self.smooth is not None:
                    posterior = self.smooth.opinion.mixed(posterior, finer.noises)
                likely.append(_Shared(posterior + math.log(share), finer.cell, finer.noises))
        if at_end > _MUCH_AT_END:
            warn(
                f"{100 * at_end:.0f} % of the probability of the kernels averaged over is at the longest "
                "lengthscales that training supports with the Chebyshev terms of the series, but the data favour "
                "longer ones: intervals may be too wide; bring the weights closer together, or name a smoother "
                "kernel",
            )
        # Noise first: intervals at observed nodes depend on it more than on all else.
        cells = representatives(likely, N_POINTS, [each.every_noise for each in likely])
        found = self.with_noise_alone(cells, targets)
        if len(found) == 1:
            return []
        if targets.output_scale is None or not targets.normalize:
            return found
        # The posterior's mean variance, as for the mode: the quadrature's is off by some percent.
        graph, seed = self.training[0].graph, self.training[0].seed
        return [
            point._replace(amplitude=point.output_scale / normaliser(graph, point.kernel, seed)) for point in found
        ]

    def points_at(self, modes: Sequence[tuple[LikelihoodResult, float]]) -> list[GridCell]:
        """Hyperparameters of the kernel that is taken alone, with their probabilities."""
        peak = self.grids[self.chosen].peak
        return [at_mode(peak, mode)._replace(weight=weight) for mode, weight in modes]

    def with_noise_alone(
        self, points: Sequence[GridCell], targets: Targets, unlikely: float = UNLIKELY
    ) -> list[GridCell]:
        """The same points and one more, for which y is its mean function and noise, with their probabilities.

        Values that the graph does not explain may be noise, or a signal that varies too quickly for the graph. A
        rough kernel with little noise explains them as well as noise does, so noise alone is given a prior
        probability of its own. It is left out where that is at most `unlikely` given the data, and where the
        output scale or the noise is known.
        """
        if targets.output_scale is not None or targets.noise is not None:
            return list(points)
        share = float(expit(logit(targets.prior.noise_alone) - log_bayes_factor(self.grids)))
        if share <= unlikely:
            return list(points)
        first, noise = points[0], self.grids[0].noise_alone
        alone = first._replace(
            amplitude=_NOTHING * first.amplitude,
            output_scale=_NOTHING * first.output_scale,
            noise=noise,
            weight=share,
        )
        return [*(point._replace(weight=(1 - share) * point.weight) for point in points), alone]


def at_mode(point: GridCell, mode: LikelihoodResult) -> GridCell:
    """A point of the same weight, with the hyperparameters that a search found."""
    return point._replace(
        kernel=mode.kernel,
        amplitude=mode.amplitude,
        output_scale=mode.amplitude * point.output_scale / point.amplitude,
        noise=mode.noise,
    )


def is_noise_alone(point: GridCell, first: GridCell) -> bool:
    """Whether a point is the one that `Compared.with_noise_alone` adds to the first and others."""
    return point.amplitude == _NOTHING * first.amplitude


def log_bayes_factor(grids: Sequence[HyperparameterGrid]) -> float:
    """The log Bayes factor of the kernels, all equally probable a priori, against independent values."""
    return float(log_sum_exp([grid.log_bayes_factor for grid in grids])) - math.log(len(grids))
