"""All training of a regression: the nodes that it sees, the best of some kernels, and points averaged over."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from graphrf._base.blas import linear_algebra
from graphrf._base.warn import warn
from graphrf.gp.inference.observations import Observations
from graphrf.gp.prior import HyperparameterPrior
from graphrf.gp.progress import Step
from graphrf.gp.training.blocks import SCOUT, observed_part, training_blocks
from graphrf.gp.training.candidates import SampledRows, SeriesTables, TrainingSet, series_search_seconds
from graphrf.gp.training.comparison import (
    UNLIKELY_BESIDE_ONE,
    CandidateKernel,
    Compared,
    Smooth,
    at_mode,
    compare,
    is_noise_alone,
    smooth_weight,
)
from graphrf.gp.training.fitting import (
    Targets,
    begun,
    ended_early,
    train,
    train_exactly,
    warn_of_ends,
)
from graphrf.gp.training.grid import GridCell
from graphrf.gp.training.likelihood_search import LikelihoodResult, SingularCovarianceError
from graphrf.gp.training.noise import NoiseOpinion, affordable_loss, is_larger, larger_noise
from graphrf.gp.training.precision_search import (
    affords_exact_comparison,
    affords_exact_likelihood,
    exact_search_seconds,
    precision_likelihood,
)
from graphrf.gp.training.sampler_choice import shortened
from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel
from graphrf.kernels.precision.areal import precision_of
from graphrf.kernels.precision.contract import KernelPrecision
from graphrf.kernels.precision.precision import has_sparse_precision

# Where observed nodes are far apart, a part of the graph needs so many of them.
_FEWEST_APART = 50
# The largest graph whose order of elimination is looked for to see whether the exact likelihood compares kernels.
_ORDERED = 300_000
# So many times the nats that may be lost are near enough.
_NEARLY = 1.2


class Trained(NamedTuple):
    """What training found.

    Attributes
    ----------
    best : LikelihoodResult
    sampler : Sampler or None
        Of the posterior's rows.
    candidates : sequence of CandidateKernel
        Best first.
    points : sequence of GridCell
        Hyperparameters over which predictions are averaged; none where the best ones are taken alone.
    training : TrainingSet
        Of the best kernel.
    targets : Targets
    exact : LikelihoodResult, optional
        Of the best kernel, by the exact likelihood of all observations, if that was climbed.
    beyond : (KernelPrecision, RegressionTraining), optional
        Where the data favour longer lengthscales than sampled rows serve: a sparse precision that serves them, and
        the part of the graph on which they are to be trained.
    unexplained : bool
        Whether the rows that training saw explain hardly anything of values that vary.
    """

    best: LikelihoodResult
    sampler: Any
    candidates: Sequence[CandidateKernel]
    points: Sequence[GridCell]
    training: TrainingSet
    targets: Targets
    exact: LikelihoodResult | None = None
    beyond: tuple[KernelPrecision, RegressionTraining] | None = None
    unexplained: bool = False

    def warn_of_ends(self) -> None:
        """Warn of hyperparameters at the ends of the search.

        Not of the largest lengthscale of the smoothest of several kernels: y is smoother than all of them, and
        nobody asked for one of them. Nor of a rougher one that was taken although a smoother one explains more.
        """
        nus = [each.kernel.hyperparameters.get("nu", math.inf) for each in self.candidates]
        own = self.best.kernel.hyperparameters.get("nu", math.inf)
        smooth = min(nus) < own == max(nus) or own < nus[0]
        longest = math.inf if smooth else self.training.largest_lengthscale
        warn_of_ends(self.best, longest)


class _ExactSearches:
    """Searches for the maximum of the exact likelihood of all observations, and what they have found."""

    def __init__(self, every: Targets, precisions: dict[Kernel, KernelPrecision]) -> None:
        self._every = every
        self.precisions = precisions
        self.found: dict[Kernel, LikelihoodResult] = {}

    def __call__(self, training: TrainingSet, begin: GridCell) -> float:
        """The maximum of a kernel, -inf if its covariance cannot be factored."""
        kernel = training.kernel
        try:
            self.found[kernel] = train_exactly(training, self._every, self.precisions[kernel], begun(begin))
        except SingularCovarianceError:
            return -math.inf
        return self.found[kernel].value


@dataclass(frozen=True)
class RegressionTraining:
    """What a regression observed, and how it trains on that.

    Attributes
    ----------
    graph : Graph
    positions : ndarray of int, shape (n,)
        The observed nodes; repeats are repeated observations.
    values : ndarray, shape (n, p)
    precisions : ndarray, shape (n,), optional
        Relative to 1 / noise.
    basis : ndarray, shape (N, b)
        Of the mean function.
    output_scale, noise : float or None
        None trains them.
    normalize : bool
    prior : HyperparameterPrior
    n_train : int
        Nodes that training sees.
    share : float
        Of the graph that its products reach.
    method : "series", "precision" or "features"
    precision : KernelPrecision or None
        For the method "precision".
    sampler : Sampler or None
    integrate : bool
        Whether points are wanted.
    noise_alone : bool
        Whether noise alone may be averaged with the best hyperparameters where points are not wanted.
    exact : bool
        Whether `run_exactly` follows.
    cheaper : callable
        The sparse precision that the posterior would use for a kernel, or None.
    seed : int
    n_threads : int or None
    """

    graph: Graph
    positions: np.ndarray
    values: np.ndarray
    precisions: np.ndarray | None
    basis: np.ndarray
    output_scale: float | None
    noise: float | None
    normalize: bool
    prior: HyperparameterPrior
    n_train: int
    share: float
    method: str
    precision: KernelPrecision | None
    sampler: Any
    integrate: bool
    noise_alone: bool
    exact: bool
    cheaper: Callable[[Kernel], KernelPrecision | None]
    seed: int
    n_threads: int | None

    def run(self, kernels: Sequence[tuple[Kernel, Sequence[str]]], step: Step | None) -> Trained:
        """Train the named hyperparameters of the best of some kernels; `step` is called at every evaluation."""
        blocks, scouts = self._blocks()
        whole, few = self._targets(blocks, step), self._targets(scouts, step)
        integrate = self.integrate and whole.vary
        if not whole.vary:
            kernels, whole = [(kernels[0][0], ())], whole.fixed()
        if not few.vary:  # what varies is elsewhere, if anything does
            scouts, few = blocks, whole
        tables = SeriesTables(self.graph, self.share, self.n_threads)
        followed = self._followed([kernel for kernel, _ in kernels]) if self.exact or len(blocks) > 1 else {}
        exactly = _ExactSearches(self._targets([np.unique(self.positions)], step), followed)
        sets = [
            TrainingSet(
                self.graph, kernel, names, scouts, self.share, self.seed, self.n_threads, tables, self.precision,
                tell=not (self.exact or kernel in followed),
            )
            for kernel, names in kernels
        ]  # fmt: skip
        alone = self.noise_alone and whole.vary
        opinions = len(sets) > 1 and (integrate or alone)
        compared = compare(
            sets, few, self.method, self.sampler, leave_out=integrate, opinions=opinions,
            exactly=exactly if followed else None,
        )  # fmt: skip
        first = 0 if integrate else compared.chosen
        chosen, sooner, exact_follows = compared.training[first], None, False
        if integrate:  # of an average over kernels, `points` says whether the tables end too early
            quiet = len(sets) > 1 and self.method != "features"
        else:
            follows = self.cheaper(chosen.kernel) if self.precision is None else self.precision
            if follows is not None:
                exact_follows = self._affords(follows.with_kernel(chosen.kernel), too_long=True)
            quiet = exact_follows or (follows is not None and self.on_part(_FEWEST_APART) is not None)
            if follows is not None and blocks is not scouts and whole.vary:
                sooner = self._sooner(follows.with_kernel(chosen.kernel), whole)
            if sooner is not None:
                exactly.precisions[chosen.kernel] = sooner
                if not math.isfinite(exactly(chosen, compared.grids[first].peak)):
                    sooner = None
        rows = self.method == "features"  # what these do not serve is told below
        chosen = chosen._replace(blocks=blocks, quiet=quiet, tell=not (self.exact or rows))
        unserved = compared.unserved
        if sooner is not None:
            best, sampler = exactly.found[chosen.kernel], None
        elif self.exact and len(blocks) > 1 and not opinions:  # the exact search begins at the best of the grid
            best, sampler = begun(compared.grids[first].peak), None
        else:
            best, sampler, own = train(chosen, whole, compared.grids[first], self.method, self.sampler)
            unserved = unserved or own
        beyond = None
        unexplained = compared.unexplained and whole.vary
        if (unserved or unexplained) and not (quiet or integrate):
            beyond = self._beyond_rows([kernel for kernel, _ in kernels])
        # the exact likelihood finds longer lengthscales, but does not say whether the graph explains anything
        if beyond is None and (compared.unserved if exact_follows else unserved and not quiet):
            warn(unserved)
        points: list[GridCell] = []
        if integrate:
            with linear_algebra(max(block.nodes.size for block in whole.observations), self.n_threads):
                points = compared.points(blocks, whole, self.method, sampler, self.cheaper)
        elif alone:
            points = compared.points_at(self._modes(best, compared, chosen, whole, sampler, sooner))
            if len(blocks) == 1:
                points = compared.with_noise_alone(points, whole, UNLIKELY_BESIDE_ONE)
            points = points if len(points) > 1 else []
        if sampler is not None and self.sampler is None:
            used = [best.kernel, *(point.kernel for point in points)]
            sampler = shortened(sampler, used, chosen.scale)
        exact = exactly.found.get(chosen.kernel)
        return Trained(best, sampler, compared.kernels, points, chosen, whole, exact, beyond, unexplained)

    def _followed(self, kernels: Sequence[Kernel]) -> dict[Kernel, KernelPrecision]:
        """Those whose exact likelihoods of all observations can be climbed to compare them; none or several."""
        sparse = [kernel for kernel in kernels if kernel.is_series and has_sparse_precision(kernel)]
        if len(sparse) < 2 or self.integrate or self.method == "features" or self.graph.n_nodes > _ORDERED:
            return {}
        largest = max(sparse, key=lambda kernel: kernel.hyperparameters.get("nu", 0.0))
        precision = self.cheaper(largest) if self.precision is None else self.precision
        if precision is None or not affords_exact_likelihood(precision.with_kernel(largest)):
            return {}
        found = {kernel: precision.with_kernel(kernel) for kernel in sparse}
        return found if affords_exact_comparison(list(found.values())) else {}

    def _sooner(self, precision: KernelPrecision, targets: Targets) -> KernelPrecision | None:
        """The precision, if its exact likelihood is climbed sooner than that of the series in one block."""
        m = targets.observations[0].nodes.size
        if self.method != "series" or not precision.kernel.is_series:
            return None
        return precision if exact_search_seconds(precision) < series_search_seconds(self.graph, m) else None

    def _beyond_rows(self, kernels: Sequence[Kernel]) -> tuple[KernelPrecision, RegressionTraining] | None:
        """What serves the lengthscales of one of some kernels where rows are too short, see `Trained`.

        None where no sparse precision is cheaper than the series, or too few nodes of any part were observed.
        """
        sparse = [kernel for kernel in kernels if kernel.is_series and has_sparse_precision(kernel)]
        if not sparse or self.sampler is not None:
            return None
        precision = self.cheaper(min(sparse, key=lambda kernel: kernel.hyperparameters.get("nu", math.inf)))
        if precision is None or (part := self.on_part(_FEWEST_APART)) is None:
            return None
        return precision, part

    def _modes(
        self,
        best: LikelihoodResult,
        compared: Compared,
        training: TrainingSet,
        targets: Targets,
        sampler: Any,
        precision: KernelPrecision | None,
    ) -> list[tuple[LikelihoodResult, float]]:
        """The best hyperparameters and those with larger noise, if that is left open, with their probabilities.

        `precision` is that of the exact likelihood, if the best are its maximum.
        """
        opinions, rest = [], 1.0
        # of a cut series, or of rows, the first search has told
        training = training._replace(quiet=True)
        if sampler is not None:
            training = training._replace(rows=SampledRows(self.graph, self.seed, self.n_threads))
        if compared.smooth is not None:
            opinion = self._on_all(compared.smooth, best, training, targets, sampler)
            opinions, rest = [opinion], 1 - opinion.weight
        opinions += [other._replace(weight=rest * other.weight) for other in compared.others]
        noise, share = larger_noise(best.noise, opinions)
        most = affordable_loss(sum(block.n_total for block in targets.observations), opinions)
        while share:
            fixed = targets._replace(noise=noise)
            if precision is not None:
                other = train_exactly(training, fixed, precision, best._replace(noise=noise))
            else:
                grid = compared.grids[compared.chosen]
                other = train(training, fixed, grid, self.method, sampler, begin=best).best
            lost = best.value - other.value
            if lost <= _NEARLY * most:
                return [(best, 1 - share), (other, share)]
            # The likelihood falls about as the square of the logarithm.
            noise = best.noise * (noise / best.noise) ** math.sqrt(most / lost)
        return [(best, 1.0)]

    def _on_all(
        self, smooth: Smooth, best: LikelihoodResult, training: TrainingSet, targets: Targets, sampler: Any
    ) -> NoiseOpinion:
        """Diffusion's opinion of the noise from all observations, which tell more than the blocks compared."""
        own = training._replace(kernel=smooth.training.kernel, names=smooth.training.names)
        method = "series" if sampler is None else "features"
        try:
            found = train(own, targets, smooth.grid, method, sampler, begin=begun(smooth.grid.peak)).best
        except SingularCovarianceError:  # the series is too short for it with so many observations
            return smooth.opinion
        nats = found.value - best.value
        return smooth.opinion.moved(found.noise, smooth_weight(nats), nats)

    def on_part(self, fewest: int | None = None) -> RegressionTraining | None:
        """The same on a part of the graph, for its exact likelihood; None where large parts observe fewer nodes.

        The part is taken for the whole graph of a smaller problem, which changes the field near its boundary only.
        """
        part = observed_part(self.graph, np.unique(self.positions), np.random.default_rng(self.seed), fewest)
        if part is None:
            return None
        inside = np.isin(self.positions, part)
        graph = Graph(self.graph.adjacency[part][:, part])
        return replace(
            self, graph=graph, cheaper=lambda kernel: precision_of(graph, kernel),
            positions=np.searchsorted(part, self.positions[inside]), values=self.values[inside],
            precisions=None if self.precisions is None else self.precisions[inside], basis=self.basis[part],
            method="series", precision=None, exact=True, share=1.0,
        )  # fmt: skip

    def on_smaller_part(self, trained: Trained, precision: KernelPrecision) -> RegressionTraining | None:
        """A part for its exact likelihood, where that of the whole graph takes too long.

        It is taken where lengthscales were cut, and where a sparse precision was asked for but blocks were seen.
        """
        too_long = trained.unexplained or ended_early(trained.training, self.method, trained.best)
        unseen = too_long or (self.precision is not None and len(trained.training.blocks) > 1)
        precision = precision.with_kernel(trained.best.kernel)
        if self.integrate or not unseen or self._affords(precision, too_long):
            return None
        return self.on_part(_FEWEST_APART)

    def _affords(self, precision: KernelPrecision, too_long: bool) -> bool:
        return self.exact or affords_exact_likelihood(precision, too_long=too_long)

    def known(self, kernel: Kernel, precision: KernelPrecision, divisor: float) -> Trained:
        """What there is to know where nothing is trained: the exact likelihood."""
        assert self.output_scale is not None
        assert self.noise is not None
        every = self._targets([np.unique(self.positions)], None)
        amplitude = self.output_scale / divisor
        value = precision_likelihood(precision, every.observations[0], amplitude=amplitude, noise=self.noise).value
        best = LikelihoodResult(kernel, amplitude, self.noise, value, True, np.zeros(0), {})
        training = TrainingSet(self.graph, kernel, (), [], self.share, self.seed, self.n_threads)
        return Trained(best, None, [CandidateKernel(kernel, value, 1.0)], [], training, every)

    def run_exactly(self, trained: Trained, precision: KernelPrecision, step: Step | None) -> Trained:
        """The same by the exact likelihood of all observations, where that was not seen and can be afforded."""
        precision = precision.with_kernel(trained.best.kernel)
        best, points = trained.best, trained.points
        if best is trained.exact:
            return trained._replace(sampler=None)
        too_long = trained.unexplained or ended_early(trained.training, self.method, best)
        unseen = too_long or self.method == "features" or len(trained.training.blocks) > 1
        if unseen and self._affords(precision, too_long):
            every = self._targets([np.unique(self.positions)], step)
            every = every._replace(output_scale=trained.targets.output_scale, noise=trained.targets.noise)
            best = train_exactly(trained.training, every, precision, trained.exact or best)
            points = self._exact_points(trained, every, precision, best)
        return trained._replace(best=best, points=points, sampler=None)

    def _exact_points(
        self, trained: Trained, every: Targets, precision: KernelPrecision, best: LikelihoodResult
    ) -> list[GridCell]:
        """The points of `_modes` by the exact likelihood, without the second where noise is no longer larger."""
        points = []
        for number, point in enumerate(trained.points):
            if not number:
                points.append(at_mode(point, best))
            elif is_noise_alone(point, trained.points[0]):
                points.append(point)
            elif is_larger(point.noise, best.noise):
                fixed = every._replace(noise=point.noise)
                points.append(at_mode(point, train_exactly(trained.training, fixed, precision, begun(point))))
        total = sum(point.weight for point in points)
        return [point._replace(weight=point.weight / total) for point in points] if len(points) > 1 else []

    def _blocks(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """The nodes that training sees, and those on which kernels are compared."""
        rng = np.random.default_rng(self.seed)
        distinct = np.unique(self.positions)
        if self.exact and distinct.size > self.n_train:  # a rough start is enough
            blocks = training_blocks(self.graph, distinct, min(self.n_train, 3 * SCOUT), rng, SCOUT)
            return blocks, blocks
        blocks = training_blocks(self.graph, distinct, self.n_train, rng)
        if len(blocks) == 1 and distinct.size > 2 * SCOUT:
            # smaller blocks compare kernels at a fraction of the cost
            return blocks, training_blocks(self.graph, distinct, distinct.size - 1, rng, SCOUT)
        return blocks, blocks

    def _targets(self, blocks: Sequence[np.ndarray], step: Step | None) -> Targets:
        observed = []
        for block in blocks:
            own = np.isin(self.positions, block)
            precisions = None if self.precisions is None else self.precisions[own]
            observed.append(Observations.of(self.positions[own], self.values[own], self.basis, precisions))
        return Targets(observed, self.output_scale, self.noise, self.normalize, self.prior, step)
