"""From observations to the trained kernel and hyperparameters of a regression."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from graphrf._base.blas import linear_algebra
from graphrf._base.warn import warn
from graphrf.gp.inference.observations import Observations
from graphrf.gp.prior import HyperparameterPrior
from graphrf.gp.progress import Step
from graphrf.gp.training import likelihood_search
from graphrf.gp.training.candidates import MUCH_LOST, Candidate, TrainingSet, candidates
from graphrf.gp.training.gram import Gram
from graphrf.gp.training.grid import GridCell, HyperparameterGrid
from graphrf.gp.training.likelihood_search import Block, Divisor, LikelihoodResult, LikelihoodSearch
from graphrf.gp.training.parameters import Parameters
from graphrf.gp.training.precision_search import PrecisionSearch, affords_exact_likelihood
from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel
from graphrf.kernels.precision.areal import precision_of
from graphrf.kernels.precision.contract import KernelPrecision
from graphrf.kernels.series import mean_variance

# Probes for the mean variance: its error falls as 1 / sqrt(probes x nodes).
_PROBES = 64
_PROBE_NUMBERS = 4_000_000
# Searches begin at so many maxima of the grid.
_STARTS = 2


class Targets(NamedTuple):
    """What a regression trains on.

    Attributes
    ----------
    observations : sequence of Observations
        Of each block.
    output_scale, noise : float or None
        None trains them.
    normalize : bool
        Whether a given output scale multiplies K over its mean variance.
    prior : HyperparameterPrior
    step : callable, optional
        Called at every evaluation of the likelihood.
    """

    observations: Sequence[Observations]
    output_scale: float | None
    noise: float | None
    normalize: bool
    prior: HyperparameterPrior
    step: Step | None = None

    @property
    def vary(self) -> bool:
        """Whether anything can be learned from them: they vary about their mean function."""
        largest = max(float(np.abs(block.means).max()) for block in self.observations)
        return likelihood_search.spread(self.observations) > 1e-20 * largest**2

    def fixed(self) -> Targets:
        """The same with output scale and noise fixed, where nothing can be learned; it warns."""
        output_scale = 1.0 if self.output_scale is None else self.output_scale
        noise = 0.1 * output_scale if self.noise is None else self.noise
        warn(
            "`y` does not vary about its mean, so no hyperparameters can be learned: output_scale "
            f"{output_scale:g} and noise {noise:g} are used; set `output_scale` and `noise` to what is known",
        )
        return self._replace(output_scale=output_scale, noise=noise)


class Found(NamedTuple):
    """What `train` found.

    Attributes
    ----------
    best : LikelihoodResult
    sampler : Sampler or None
        Of the posterior's rows.
    unserved : str
        What is to be said if the data favour longer lengthscales than sampled rows serve; "" if not.
    """

    best: LikelihoodResult
    sampler: Any
    unserved: str


def train(
    training: TrainingSet,
    targets: Targets,
    grid: HyperparameterGrid,
    method: str,
    sampler: Any,
    begin: LikelihoodResult | None = None,
) -> Found:
    """The best hyperparameters of one kernel.

    Searches begin at maxima of the grid, or at the given hyperparameters.
    """
    searches = candidates(training, method, sampler)
    for candidate in searches:
        search = search_of(training, targets, candidate)
        with linear_algebra(max(block.nodes.size for block in targets.observations), training.n_threads):
            if candidate.start is None:
                maxima = grid.maxima(_STARTS)
                if begin is not None:
                    scale = begin.amplitude * search.divided_by(begin.kernel)
                    maxima = [(begin.kernel, scale, begin.noise)]
                searches.result = search.run([search.point(*maximum) for maximum in maxima])
            else:
                searches.result = search.again(candidate.start)
    result: LikelihoodResult = searches.result
    if targets.output_scale is not None and targets.normalize:
        result = _with_the_posteriors_normaliser(training, search, result)
    return Found(result, searches.sampler, searches.unserved)


def begun(cell: GridCell) -> LikelihoodResult:
    """Hyperparameters from which a search may go on."""
    return LikelihoodResult(cell.kernel, cell.amplitude, cell.noise, -math.inf, False, np.zeros(0), {})


def ended_early(training: TrainingSet, method: str, trained: LikelihoodResult) -> bool:
    """Whether the lengthscale was too long for the rows or the series that training saw."""
    lengthscale = trained.kernel.hyperparameters.get("lengthscale", 0.0)
    if trained.ends.get("lengthscale") == "largest" and lengthscale < 0.98 * training.largest_lengthscale:
        return True
    return method == "series" and training.series_grams()[0][0].lost(trained.kernel) > MUCH_LOST


def train_exactly(
    training: TrainingSet, targets: Targets, precision: KernelPrecision, trained: LikelihoodResult
) -> LikelihoodResult:
    """The best hyperparameters by the exact likelihood of all observations, from what blocks of them gave."""
    divisor = global_divisor(training, targets)
    if targets.output_scale is not None and targets.normalize:
        rough, _ = divisor(trained.kernel, (), [])
        exact = normaliser(training.graph, trained.kernel, training.seed, precision)
        divisor = likelihood_search.scaled_divisor(divisor, exact / rough)
    names = training.names
    search = PrecisionSearch(
        precision,
        targets.observations[0],
        LikelihoodSearch(
            (), Parameters(training.kernel, names, training.ranges(names, training.largest_lengthscale)),
            targets.output_scale, targets.noise, divisor, targets.prior,
            unit=likelihood_search.spread(targets.observations) or 1.0, length_unit=training.unit,
        ),
    )  # fmt: skip
    output_scale = trained.amplitude * search.divided_by(trained.kernel)
    return search.run([search.point(trained.kernel, output_scale, trained.noise)])


def normaliser(graph: Graph, kernel: Kernel, seed: int, precision: KernelPrecision | None = None) -> float:
    """The mean variance of K over the nodes, exact up to 1,000 of them and by cheap sparse precisions."""
    if precision is None and not kernel.is_series:
        precision = precision_of(graph, kernel)
    if precision is not None and affords_exact_likelihood(precision):
        return precision.with_kernel(kernel).mean_variance()
    probes = int(np.clip(_PROBE_NUMBERS // graph.n_nodes, 2, _PROBES))
    return mean_variance(graph, kernel, n_probes=probes, seed=seed).value


def _with_the_posteriors_normaliser(
    training: TrainingSet, search: LikelihoodSearch, result: LikelihoodResult
) -> LikelihoodResult:
    """The search, ended anew with the posterior's mean variance: the quadrature's is off by some percent."""
    point = result.point
    for _ in range(2):
        kernel = search.parameters.kernel(point)
        rough, _ = search.divisor(kernel, (), [])
        exact = normaliser(training.graph, kernel, training.seed)
        search = replace(search, divisor=likelihood_search.scaled_divisor(search.divisor, exact / rough))
        result = search.run([point])
        point = result.point
    return result


def warn_of_ends(trained: LikelihoodResult, largest: float) -> None:
    """Warn of hyperparameters at the ends of the search, where the data do not determine them.

    A lengthscale below the largest of all that is at its end is the longest that series or rows can serve: that
    was said, or longer rows gained nothing.
    """
    order = "are nodes and y in the same order?"
    said = {
        "largest lengthscale": "so the data do not determine it: y is smoother than the kernel, or has a trend. "
        "Predictions may still be good, but the lengthscale is meaningless: compare a smoother kernel "
        "on held-out values (kernel='diffusion'), or fix the lengthscale (optimize=False)",
        "smallest lengthscale": f"so y at a node carries no information on y at its neighbours: {order}",
        "smallest output_scale": f"so only a mean and noise were found: {order}",
        "largest noise": f"so only noise was found: {order}",
        "smallest noise": "so intervals at observed nodes are as narrow as without noise: if there is noise, pass "
        "its variance as `noise`, or a `prior` for it",
    }
    lengthscale = trained.kernel.hyperparameters.get("lengthscale", 0.0)
    for name, end in trained.ends.items():
        what = f"{end} {name}"
        if what in said and (what != "largest lengthscale" or lengthscale > 0.98 * largest):
            value = {"lengthscale": lengthscale, "noise": trained.noise}.get(name)
            at = "" if value is None else f" at {value:.3g}"
            warn(f"training ended with the {name}{at}, the {end} value searched, {said[what]}")


def search_of(training: TrainingSet, targets: Targets, candidate: Candidate) -> LikelihoodSearch:
    kernel = training.kernel
    if targets.output_scale is None:
        divisor = likelihood_search.subset_divisor()
    else:
        divisor = global_divisor(training, targets)
    names = training.names
    return LikelihoodSearch(
        blocks_of(candidate.grams, targets), Parameters(kernel, names, training.ranges(names, candidate.longest)),
        targets.output_scale, targets.noise, divisor, targets.prior,
        unit=likelihood_search.spread(targets.observations) or 1.0, length_unit=training.unit,
    )  # fmt: skip


def global_divisor(training: TrainingSet, targets: Targets) -> Divisor:
    """What divides K before an output scale multiplies it: 1, or its mean variance, mostly by quadrature."""
    if not targets.normalize:
        return likelihood_search.unit_divisor()
    if not training.kernel.is_series:
        return likelihood_search.precision_divisor(
            training.precision or precision_of(training.graph, training.kernel)
        )
    return likelihood_search.spectral_divisor(*training.density_of_states(), training.scale)


def blocks_of(grams: Sequence[Gram], targets: Targets) -> list[Block]:
    return [
        Block(_counted(gram, targets.step), own) for gram, own in zip(grams, targets.observations, strict=True)
    ]


def _counted(gram: Gram, step: Step | None) -> Gram:
    """A Gram matrix with a step for every evaluation."""
    if step is None:
        return gram

    def evaluate(kernel: Kernel, names: Sequence[str]) -> tuple[np.ndarray, list[np.ndarray]]:
        step()
        return gram(kernel, names)

    return evaluate
