"""All training of a regression whose likelihood is not normal: the best of some kernels, on blocks or exactly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from graphrf._base.blas import linear_algebra
from graphrf._base.warn import warn
from graphrf.gp.inference.local.responses import Responses
from graphrf.gp.likelihoods import Likelihood
from graphrf.gp.prior import FLAT, HyperparameterPrior
from graphrf.gp.progress import Step
from graphrf.gp.training import likelihood_search
from graphrf.gp.training.blocks import SCOUT, observed_part, training_blocks
from graphrf.gp.training.candidates import SeriesTables, TrainingSet, candidates
from graphrf.gp.training.comparison import N_POINTS, CandidateKernel
from graphrf.gp.training.fitting import Targets, global_divisor, normaliser
from graphrf.gp.training.grid import GridCell, representatives
from graphrf.gp.training.laplace_search import DenseEvidence, LaplaceResult, LaplaceSearch, PrecisionEvidence
from graphrf.gp.training.parameters import Parameters
from graphrf.gp.training.precision_search import affords_exact_likelihood
from graphrf.gp.training.sampler_choice import shortened
from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel
from graphrf.kernels.named import Matern
from graphrf.kernels.precision.contract import KernelPrecision

# Nodes on which kernels are compared, and on which a search begins.
SCOUTED = 3 * SCOUT
# Nats by which a kernel must be ahead of the one of middle smoothness.
_UNTOLD = 2.0
# Kernels whose largest posterior density is so many nats below are not averaged over.
_HOPELESS = 6.0
# So near a bound of the search, in logarithms, a hyperparameter is at it.
_AT_END = 1e-6


class LaplaceTrained(NamedTuple):
    """What training found.

    Attributes
    ----------
    best : LaplaceResult
    sampler : Sampler or None
        Of the posterior's rows.
    candidates : list of CandidateKernel
        Best first.
    search : LaplaceSearch
        The last one.
    others : sequence of (LaplaceResult, LaplaceSearch)
        The best of other kernels on the same observations, where they have been found.
    """

    best: LaplaceResult
    sampler: Any
    candidates: list[CandidateKernel]
    search: LaplaceSearch
    others: Sequence[tuple[LaplaceResult, LaplaceSearch]] = ()

    def points(self) -> list[GridCell]:
        """About eight sets of kernel and hyperparameters that stand for their posterior."""
        every = [(self.best, self.search), *self.others]
        highest = max(result.posterior for result, _ in every)
        designs = [search.around(own) for own, search in every if own.posterior > highest - _HOPELESS]
        return representatives(designs, N_POINTS)


@dataclass(frozen=True)
class LaplaceTraining:
    """What a regression observed, and how it trains on that: see `RegressionTraining`.

    `exact` says whether `exactly` follows, so that a rough start is enough if there are many observed nodes.
    `spread` is the prior deviation of the mean's coefficients, `unit` that of the latent function.
    """

    graph: Graph
    responses: Responses
    likelihood: Likelihood
    spread: float
    unit: float
    output_scale: float | None
    normalize: bool
    prior: HyperparameterPrior
    n_train: int
    share: float
    method: str
    precision: KernelPrecision | None
    sampler: Any
    exact: bool
    seed: int
    n_threads: int | None
    step: Step | None

    def run(self, kernels: Sequence[tuple[Kernel, Sequence[str]]]) -> LaplaceTrained:
        """Train the named hyperparameters of the best of some kernels."""
        rng = np.random.default_rng(self.seed)
        nodes = self.responses.nodes
        rough = self.exact and nodes.size > self.n_train
        blocks = scouts = training_blocks(
            self.graph, nodes, SCOUTED if rough else self.n_train, rng, *_size(rough)
        )
        if nodes.size > SCOUTED and not rough:
            scouts = training_blocks(self.graph, nodes, SCOUTED, rng, SCOUT)
        tables = SeriesTables(self.graph, self.share, self.n_threads)
        sets = [
            TrainingSet(
                self.graph, kernel, names, scouts, self.share, self.seed, self.n_threads, tables, self.precision,
                tell=len(kernels) == 1 and not rough,
            )
            for kernel, names in kernels
        ]  # fmt: skip
        found = [self._search(training, None, climbs=not rough or len(sets) > 1) for training in sets]
        evidence = np.array([result.posterior for result, *_ in found])
        probabilities = np.exp(evidence - evidence.max())
        probabilities /= probabilities.sum()
        order = np.argsort(-self._cautious(sets, evidence), kind="stable")
        compared = [
            CandidateKernel(found[k][0].kernel, float(evidence[k]), float(probabilities[k]))
            for k in order.tolist()
        ]
        best, sampler, search = found[order[0]]
        if blocks is not scouts:
            chosen = sets[order[0]]._replace(blocks=blocks, tell=True)
            best, sampler, search = self._search(chosen, best)
        others = [(found[k][0], found[k][2]) for k in order[1:] if blocks is scouts and sampler is None]
        return LaplaceTrained(best, sampler, compared, search, others)

    @staticmethod
    def _cautious(sets: Sequence[TrainingSet], evidence: np.ndarray) -> np.ndarray:
        """The evidence, raised to the largest for the kernel of middle smoothness if that is not far behind.

        One kernel is taken, not an average over all, and the smoothest of them have by far the narrowest
        intervals: they are to be taken where the observations tell them, and not by the chance of a nat.
        """
        middle = [k for k, own in enumerate(sets) if own.kernel == Matern(nu=1.0, laplacian=own.kernel.laplacian)]
        raised = evidence.copy()
        if len(sets) > 1 and middle:
            first = max(middle, key=lambda k: evidence[k])
            if evidence[first] > evidence.max() - _UNTOLD:
                raised[first] = np.nextafter(evidence.max(), np.inf)
        return raised

    def exactly(self, trained: LaplaceTrained, precision: KernelPrecision) -> LaplaceTrained:
        """The same by the evidence of all observations with a sparse precision, where it can be afforded."""
        kernel = trained.best.kernel
        precision = precision.with_kernel(kernel)
        if not affords_exact_likelihood(precision):
            return trained._replace(sampler=None, others=())
        names = trained.search.parameters.names
        training = TrainingSet(
            self.graph, kernel, names, [], self.share, self.seed, self.n_threads, precision=precision
        )
        divisor = global_divisor(training, self._targets())
        if self.output_scale is not None and self.normalize:
            rough, _ = divisor(kernel, (), [])
            divisor = likelihood_search.scaled_divisor(
                divisor, normaliser(self.graph, kernel, self.seed, precision) / rough
            )
        evidence = PrecisionEvidence(
            precision, self.responses, divisor, self.spread, self.likelihood.unknown, self.step
        )
        search = self._of(training, evidence, training.largest_lengthscale)
        model = trained.best.model
        scale = trained.best.amplitude * divisor(kernel, (), [])[0]
        return trained._replace(
            best=search.again(model._replace(output_scale=scale)), sampler=None, search=search, others=()
        )

    def on_part(self) -> LaplaceTraining | None:
        """The same on a part of the graph, which is taken for the whole graph of a smaller problem."""
        part = observed_part(self.graph, self.responses.nodes, np.random.default_rng(self.seed))
        if part is None:
            return None
        responses = self.responses.at(part)
        return replace(
            self, graph=Graph(self.graph.adjacency[part][:, part]), method="series", precision=None, share=1.0,
            exact=True, responses=replace(responses, nodes=np.searchsorted(part, responses.nodes)),
        )  # fmt: skip

    def _search(
        self, training: TrainingSet, start: LaplaceResult | None, climbs: bool = True
    ) -> tuple[LaplaceResult, Any, LaplaceSearch]:
        searches = candidates(training, self.method, self.sampler)
        if self.output_scale is None:
            divisor = likelihood_search.subset_divisor()
        else:
            divisor = global_divisor(training, self._targets())
        responses = [self.responses.at(block) for block in training.blocks]
        for candidate in searches:
            evidence = DenseEvidence(
                candidate.grams, responses, divisor, self.spread, self.likelihood.unknown, self.step
            )
            search = self._of(training, evidence, candidate.longest)
            with linear_algebra(max(block.size for block in training.blocks), self.n_threads):
                if start is None:
                    searches.result = search.run(candidate.start) if climbs else search.begun()
                else:
                    model = start.model
                    scale = start.amplitude * model.output_scale / evidence.amplitude(model)
                    searches.result = search.again(model._replace(output_scale=scale))
        sampler = searches.sampler
        if sampler is not None and self.sampler is None:
            sampler = shortened(sampler, [searches.result.kernel], training.scale)
        return searches.result, sampler, search

    def _of(self, training: TrainingSet, evidence: Any, longest: float) -> LaplaceSearch:
        names = training.names
        return LaplaceSearch(
            evidence, evidence.amplitude, Parameters(training.kernel, names, training.ranges(names, longest)),
            self.output_scale, self.likelihood, self.prior, self.unit, training.unit,
        )  # fmt: skip

    def _targets(self) -> Targets:
        return Targets([], self.output_scale, None, self.normalize, FLAT)


def _size(rough: bool) -> tuple[int, ...]:
    """That of blocks, if it is not the usual one."""
    return (SCOUT,) if rough else ()


def warn_of_likelihoods_ends(trained: LaplaceTrained) -> None:
    """Warn of hyperparameters at the ends of the search, where the data do not determine them."""
    search, best = trained.search, trained.best
    names = [*search.parameters.names] + (["output_scale"] if search.output_scale is None else [])
    names += search.likelihood.unknown
    for name, value, (low, high) in zip(names, best.point, search.box(), strict=True):
        if high > low and min(value - low, high - value) < _AT_END:
            end = "smallest" if value - low < high - value else "largest"
            known = best.kernel.hyperparameters.get(name, math.exp(value))
            shown = f" at {known:.3g}" if name not in ("output_scale", "lengthscale") else ""
            warn(
                f"training ended with the {name}{shown}, the {end} value searched: the observations do not "
                "determine it; fix it if it is known, or pass a `prior`"
            )
