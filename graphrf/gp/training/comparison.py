"""The kernels that a regression compares by their evidence, and what stands for all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit

from graphrf._base.blas import blas_threads, linear_algebra
from graphrf._base.threads import thread_count
from graphrf._base.warn import warn
from graphrf.gp.training.candidates import BEGUN_DEGREES, Candidate, SampledRows, TrainingSet, candidates
from graphrf.gp.training.fitting import Targets, blocks_of, normaliser, search_of
from graphrf.gp.training.grid import Axes, GridCell, HyperparameterGrid, log_sum_exp, representatives
from graphrf.gp.training.likelihood_search import LikelihoodResult, LikelihoodSearch
from graphrf.gp.training.noise import NoiseOpinion
from graphrf.gp.training.sampler_choice import FIRST_LENGTH
from graphrf.kernels.kernel import Kernel
from graphrf.kernels.named import Diffusion
from graphrf.kernels.precision.contract import KernelPrecision

# Several kernels are compared up to the lengthscales that so many degrees of their series serve: at first if
# predictions are averaged over all of them, else where the evidence rises at those that `BEGUN_DEGREES` serve.
_COMPARED_DEGREES = 400
# Sampled rows have the first length, first, and are longer where the evidence seems to rise by so many nats up to
# so many times the longest lengthscale that they serve: the longest rows reach about that far.
_LONGER_ROWS = (2 * FIRST_LENGTH, 4 * FIRST_LENGTH, 8 * FIRST_LENGTH)
_WORTH_LOOKING, _AS_LONG = 10.0, 3.0
# From so many observations on peaks are climbed, of kernels whose evidence is within so many nats for each.
_SHARP, _MISSED = 40, 0.25
# The probability at the end of the tables of the series that a precision is worth, and that is warned of.
_CUT_OFF, _MUCH_AT_END = 0.1, 0.5
# Points over which predictions are averaged.
N_POINTS = 8
# Nats that do not tell kernels apart where only one is taken; standard errors by which a kernel may predict worse
# than a smoother one and still be taken, and from which smoothness on twice as many.
_ALIKE, _ERRORS, _SMOOTHNESS = 2.0, 1.0, 2.0
# Kernels whose weight is a smaller share of the largest are not averaged over.
_LIKELY = 0.05
# So few observations may well tell nothing of hyperparameters: that the graph explains nothing is no news.
_FEW = 20
# Sampled rows that reach no other observed node explain no more than so many nats, by chance.
_HARDLY = 3.0
# What it may mean if they explain nothing.
_FAR_APART = (
    ", or the observed nodes lie farther apart than sampled rows reach: try method='precision' (on a road network "
    "or a mesh) or method='series'"
)
# Probabilities of noise alone below which it is left out: beside several sets of hyperparameters, and beside one.
_UNLIKELY, UNLIKELY_BESIDE_ONE = 0.02, 0.1
# The largest weight of diffusion's opinion of the noise, and the nats by which it must explain the values better
# to count more than the other kernels: what it cannot explain of a signal it takes for noise.
_SMOOTH, _CLEARLY = 0.95, 3.0
# On the blocks compared, diffusion may be less probable than the other kernels by so many nats and still be asked,
# since all observations together may favour it.
_FAR = 10.0
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
            if share >= _LIKELY * shares.max():
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
        self, points: Sequence[GridCell], targets: Targets, unlikely: float = _UNLIKELY
    ) -> list[GridCell]:
        """The same points and one more, for which y is its mean function and noise, with their probabilities.

        Values that the graph does not explain may be noise, or a signal that varies too quickly for the graph. A
        rough kernel with little noise explains them as well as noise does, so noise alone is given a prior
        probability of its own. It is left out where that is at most `unlikely` given the data, and where the
        output scale or the noise is known.
        """
        if targets.output_scale is not None or targets.noise is not None:
            return list(points)
        share = float(expit(logit(targets.prior.noise_alone) - _log_bayes_factor(self.grids)))
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


def compare(
    sets: Sequence[TrainingSet],
    targets: Targets,
    method: str,
    sampler: Any,
    *,
    leave_out: bool = False,
    opinions: bool = False,
    exactly: Callable[[TrainingSet, GridCell], float] | None = None,
) -> Compared:
    """The evidence of several kernels, each on the rows or the series with which its search would begin.

    `leave_out` says whether weights of averages are wanted, `opinions` whether those of the noise are. `exactly`
    is the maximum of the exact likelihood of a kernel, from some hyperparameters on, where that follows.
    """
    most = None
    if len(sets) > 1:
        most = _COMPARED_DEGREES if leave_out else BEGUN_DEGREES
    own_rows = method == "features" and sampler is None
    grows = len(sets) > 1 and own_rows
    # Rows are let go with the comparison: their Gram matrices take much memory.
    rows = SampledRows(sets[0].graph, sets[0].seed, sets[0].n_threads)
    with linear_algebra(max(block.nodes.size for block in targets.observations), sets[0].n_threads):
        every = [
            _looked_at(training._replace(rows=rows), targets, method, sampler, most, leave_out)
            for training in sets
        ]
        found = [one for one in every if np.isfinite(one.grid.likelihood).any()]
        if not found:
            raise ValueError(
                "the covariance of the observations cannot be factored: the kernel vanishes there to rounding, or "
                "its series is too short for it; shorten the lengthscale of `kernel`"
            )
        if most is not None and method == "series":
            _look_further(found, targets, leave_out, _COMPARED_DEGREES)
            _look_further(found, targets, leave_out, None)
        if grows:
            _look_at_longer_rows(found, targets, leave_out)
        factor = _log_bayes_factor([one.grid for one in found])
        nothing = _nothing(factor, targets)
        if nothing and not own_rows:
            warn(nothing)
        evidence, left_out = _evidence(found, targets, leave_out)
        seen = evidence
        if exactly is not None:
            evidence = _decided_exactly(seen, found, targets, exactly)
    probabilities = np.exp(evidence - log_sum_exp(evidence))
    order = np.argsort(-probabilities, kind="stable")
    predictive: list[float | None] = [None if own is None else float(own.sum()) for own in left_out]
    if leave_out:
        predictive = [one.grid.log_left_out for one in found]
    kernels = [
        CandidateKernel(found[k].grid.maxima(1)[0][0], float(evidence[k]), float(probabilities[k]), predictive[k])
        for k in order
    ]
    compared = Compared(
        kernels, [found[k].training._replace(rows=None) for k in order], [found[k].grid for k in order],
        left_out=[left_out[k] for k in order],
    )  # fmt: skip
    first = 0 if leave_out else compared.chosen
    if own_rows:
        unserved = nothing + _FAR_APART if nothing else _unserved(found, found[order[first]])
        compared = compared._replace(unserved=unserved, unexplained=factor < _HARDLY)
    if not opinions or targets.noise is not None:
        return compared
    with linear_algebra(max(block.nodes.size for block in targets.observations), sets[0].n_threads):
        found = [found[k] for k in order]
        smooth = _smooth(found, first, targets, method, sampler)
        return _with_opinions(compared, found, seen[order], first, smooth, leave_out)


class _Looked(NamedTuple):
    """A kernel on its grid, and the search that may follow."""

    training: TrainingSet
    grid: HyperparameterGrid
    search: LikelihoodSearch
    longest: float

    @property
    def rises(self) -> bool:
        """Whether the evidence seems to rise by much at lengthscales that only longer rows would serve."""
        if "lengthscale" not in self.training.names or self.longest >= self.training.largest_lengthscale:
            return False
        further = self.grid.bound_at(min(_AS_LONG * self.longest, self.training.largest_lengthscale))
        return further > self.grid.log_evidence + _WORTH_LOOKING


def _looked_at(
    training: TrainingSet, targets: Targets, method: str, sampler: Any, most: int | None, leave_out: bool
) -> _Looked:
    """A kernel on its grid, up to the lengthscale that `most` degrees serve."""
    candidate: Candidate = candidates(training, method, sampler).scout(most)
    search = search_of(training, targets, candidate)
    ranges = training.ranges(training.names, candidate.longest)
    grid = HyperparameterGrid(
        search.blocks, training.kernel,
        Axes.of(training.kernel, ranges, targets.output_scale, targets.noise, search.unit),
        divisor=search.divisor,
        unit=search.unit, length_unit=search.length_unit, prior=targets.prior,
        leave_out=leave_out,
    )  # fmt: skip
    return _Looked(training, grid, search, candidate.longest)


def _look_further(found: list[_Looked], targets: Targets, leave_out: bool, most: int | None) -> None:
    """Compare kernels on a longer range of lengthscales where their evidence still rises at its end, in place.

    That range ends with `most` degrees, or where the whole tables do. Only kernels that might then reach the best
    are looked at again, because the degrees are what a comparison costs.
    """
    for k in sorted(range(len(found)), key=lambda k: -found[k].grid.log_evidence):
        one = found[k]
        if "lengthscale" in one.training.names and one.longest < one.training.largest_lengthscale:
            longest = candidates(one.training, "series", None).scout(most).longest
            best = max(other.grid.log_evidence for other in found)
            if longest > one.longest and one.grid.bound_at(longest) > best + math.log(_LIKELY):
                found[k] = _looked_at(one.training, targets, "series", None, most, leave_out)


def _look_at_longer_rows(found: list[_Looked], targets: Targets, leave_out: bool) -> None:
    """Compare kernels on rows of twice as many steps, and so on, as long as they may gain much by it, in place.

    Where lengthscales are far too short, the evidence rises ever faster with them, so that short rows do not tell
    which kernels might reach the best.
    """
    for k, one in enumerate(found):
        for steps in _LONGER_ROWS:
            if not found[k].rises:
                break
            found[k] = _looked_at(one.training._replace(steps=steps), targets, "features", None, None, leave_out)


def _unserved(found: Sequence[_Looked], chosen: _Looked) -> str:
    """What is to be said where diffusion may be chosen only because rows do not serve another kernel; or ""."""
    others = [one for one in found if not isinstance(one.training.kernel, Diffusion)]
    if not others or not isinstance(chosen.training.kernel, Diffusion):
        return ""
    best = max(others, key=lambda one: one.grid.log_evidence)
    if not best.rises:
        return ""
    other, own = (one.grid.maxima(1)[0][0] for one in (best, chosen))
    return (
        f"the evidence of {other!r} still rises with the lengthscale, which is the longest that sampled "
        f"rows serve for this kernel: {own!r} may have been chosen for want of longer rows, and intervals "
        "may be too narrow; compare kernels with method='series' or method='precision', or name one"
    )


def _evidence(
    found: Sequence[_Looked], targets: Targets, averaged: bool
) -> tuple[np.ndarray, list[np.ndarray | None]]:
    """The log evidence of each kernel, and the log density of each node's values given all others.

    The more observations, the sharper the peak, which a grid then misses, of one kernel by more than of another.
    So peaks that may decide are climbed, and what the grid missed is added. Where kernels are not averaged over,
    values are left out at these peaks.
    """
    evidence = np.array([one.grid.log_evidence for one in found])
    left_out: list[np.ndarray | None] = [None] * len(found)
    n = sum(block.n_total * block.n_outputs for block in targets.observations)
    if len(found) == 1 or n < _SHARP:
        return evidence, left_out
    for k in np.flatnonzero(evidence >= evidence.max() - _MISSED * n).tolist():
        _, grid, search, _ = found[k]
        peak = search.run([search.point(*grid.maxima(1)[0])])
        evidence[k] += max(0.0, -search.negative(peak.point, gradient=False)[0] - grid.log_peak)
        if not averaged:
            scale = peak.amplitude * search.divided_by(peak.kernel)
            left_out[k] = grid.left_out_at(search.blocks, peak.kernel, scale, peak.noise)
    return evidence, left_out


def _decided_exactly(
    evidence: np.ndarray,
    found: Sequence[_Looked],
    targets: Targets,
    exactly: Callable[[TrainingSet, GridCell], float],
) -> np.ndarray:
    """The log evidence, with differences of the exact likelihood between kernels for which it can be climbed.

    All observations tell more than the blocks compared, and no lengthscale is too long for a sparse precision. The
    best of these kernels keeps its evidence, so that the others, for which only the series can be had, are
    compared with it on the blocks.
    """
    n = sum(block.n_total * block.n_outputs for block in targets.observations)
    followed = np.array([k for k, one in enumerate(found) if not one.training.tell], dtype=np.int64)
    best = evidence[followed].max()
    near = followed[evidence[followed] >= best - _MISSED * n]
    values = np.array([exactly(found[k].training, found[k].grid.peak) for k in near.tolist()])
    decided = evidence.copy()
    if np.isfinite(values).any():
        decided[near] = best + values - values.max()
    return decided


def _smooth(found: Sequence[_Looked], first: int, targets: Targets, method: str, sampler: Any) -> _Looked:
    """Diffusion with the Laplacian of one of the kernels: it may be among them."""
    training = found[first].training
    laplacian = training.kernel.laplacian
    for one in found:
        if isinstance(one.training.kernel, Diffusion) and one.training.kernel.laplacian == laplacian:
            return one
    training = training._replace(kernel=Diffusion(laplacian=laplacian))
    method = "features" if method == "features" else "series"
    return _looked_at(training, targets, method, sampler, _COMPARED_DEGREES, False)


def _with_opinions(
    compared: Compared, found: Sequence[_Looked], evidence: np.ndarray, first: int, smooth: _Looked, averaged: bool
) -> Compared:
    """With what diffusion says of the noise, and where one kernel is taken alone, what the others say, too.

    Their weights are those of the log evidence on the blocks compared, on which all of them were seen.
    """
    probabilities = np.exp(evidence - log_sum_exp(evidence))
    rivals = [number for number, one in enumerate(found) if one is not smooth]
    if found[first] is not smooth:
        grid = smooth.grid.finer(smooth.search.blocks, smooth.longest)
        others = float(log_sum_exp(evidence[rivals])) - math.log(len(rivals))
        nats = grid.log_evidence - others if np.isfinite(grid.log_evidence) else -math.inf
        weight = smooth_weight(nats)
        # All observations may tell more than these blocks, where a search with all of them follows.
        if weight > _UNLIKELY or (not averaged and nats > -_FAR):
            opinion = NoiseOpinion.of(grid, weight, nats)
            training = smooth.training._replace(rows=None)
            compared = compared._replace(smooth=Smooth(training, grid, opinion))
    if averaged:
        return compared
    left = [
        NoiseOpinion.of(found[number].grid.finer(found[number].search.blocks, found[number].longest), probability)
        for number in rivals
        if number != first and (probability := float(probabilities[number])) > _UNLIKELY
    ]
    return compared._replace(others=left)


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


def smooth_weight(nats: float) -> float:
    """The weight of diffusion's opinion if its log evidence is larger by these than that of the other kernels."""
    return min(_SMOOTH, float(max(expit(min(nats, 0.0)), expit(nats - _CLEARLY))))


def _nothing(factor: float, targets: Targets) -> str:
    """What is to be said where a log Bayes factor favours independent values over the kernels; or ""."""
    n = sum(block.n_total for block in targets.observations)
    trains = targets.output_scale is None and targets.noise is None
    if not trains or n < _FEW or factor >= 0:
        return ""
    return (
        f"the graph explains y no better than independent values would (Bayes factor {math.exp(factor):.2g} "
        f"from {n} observations): are nodes and y in the same order? If they are, predictions are hardly "
        "better than the mean"
    )


def _log_bayes_factor(grids: Sequence[HyperparameterGrid]) -> float:
    """The log Bayes factor of the kernels, all equally probable a priori, against independent values."""
    return float(log_sum_exp([grid.log_bayes_factor for grid in grids])) - math.log(len(grids))
