"""From observations to trained hyperparameters, by the exact series or by sampled rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from graphrf._base.blas import linear_algebra
from graphrf._base.warn import warn
from graphrf.gp.inference.observations import Observations
from graphrf.gp.progress import Step
from graphrf.gp.training import likelihood_search, sampler_choice
from graphrf.gp.training.gram import FactorGram, Gram, SeriesGram
from graphrf.gp.training.likelihood_search import Block, Trained
from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel
from graphrf.kernels.spectrum import density_of_states
from graphrf.kernels.truncation import steps_needed
from graphrf.sampling.sample import sample_features

# Of the tables of the series: the numbers that they may hold, the multiply-adds that they may cost, and the fewest
# and the most degrees.
_TABLE_NUMBERS = 64_000_000
_TABLE_PRODUCTS = 2e10
_FEWEST_DEGREES = 64
_LARGEST_DEGREE = 1_000
# Of one block of sampled rows, whose products are slow, so many are searched first.
_SCOUTS = 250
# Nats that rows of twice the length, or of twice the entries, must gain.
_WORTH_MORE = 1.0

Result = TypeVar("Result", bound="Found")


class Found(Protocol):
    """The end of a search: the kernel, its likelihood, and the point from which another search may go on."""

    @property
    def kernel(self) -> Kernel: ...

    @property
    def point(self) -> np.ndarray: ...

    @property
    def value(self) -> float: ...


Search = Callable[[Sequence[Any], Kernel, float, np.ndarray | None], Result]
"""From the Gram matrix of each block, the first guess, the longest lengthscale and a start, to what is found."""


class Place(NamedTuple):
    """Where hyperparameters are sought.

    Attributes
    ----------
    graph : Graph
    kernel : Kernel
        The first guess.
    names : sequence of str
        Its hyperparameters to train.
    blocks : sequence of ndarray of int
        The nodes that training sees.
    share : float
        Of the graph that products for training reach.
    seed : int
    n_threads : int or None
    """

    graph: Graph
    kernel: Kernel
    names: Sequence[str]
    blocks: Sequence[np.ndarray]
    share: float
    seed: int
    n_threads: int | None

    @property
    def scale(self) -> float:
        """Of the kernel's Laplacian."""
        return self.graph.laplacian_scale(self.kernel.laplacian)

    @property
    def unit(self) -> float:
        """Of lengthscales."""
        return likelihood_search.lengthscale_unit(self.graph, self.kernel.laplacian)


class Task(NamedTuple):
    """What a regression trains on there.

    Attributes
    ----------
    observations : sequence of Observations
        Of each block.
    output_scale, noise : float or None
        None trains them.
    normalize : bool
        Whether a given output scale multiplies K over its mean variance.
    step : callable, optional
        Called at every evaluation of the likelihood.
    """

    observations: Sequence[Observations]
    output_scale: float | None
    noise: float | None
    normalize: bool
    step: Step | None = None


def search_by_series(place: Place, search: Search[Result]) -> Result:
    """Search with the exact K."""
    pairs = sum(block.size * (block.size + 1) // 2 for block in place.blocks)
    columns = sum(block.size for block in place.blocks) * place.share
    affordable = min(_TABLE_NUMBERS / pairs, _TABLE_PRODUCTS / (columns * max(place.graph.adjacency.nnz, 1)))
    most = int(np.clip(affordable, _FEWEST_DEGREES, _LARGEST_DEGREE))
    grams = [
        SeriesGram(place.graph, place.kernel.laplacian, block, max_degree=most, n_threads=place.n_threads)
        for block in place.blocks
    ]
    longest = likelihood_search.LARGEST_LENGTHSCALE * place.unit
    if "lengthscale" in place.names:
        longest = likelihood_search.longest_lengthscale(
            place.kernel, lambda k: grams[0].degree(k) <= most, place.unit
        )
    return search(grams, place.kernel, longest, None)


def search_by_samples(place: Place, sampler: Any, search: Search[Result]) -> tuple[Result, Any]:
    """Search with sampled rows; beside what is found the sampler of the posterior's rows.

    That is the given one, or if it is None compressed powers: what training learns rests on the sampling
    error of its rows, which those of the posterior must share. Rows that end where the lengthscale does are
    doubled, up to 128 steps, and then their budget, up to 512 entries, each as long as the likelihood gains a nat
    by it: data that say nothing of the lengthscale do not pay for long rows.
    """
    kernel, names, scale = place.kernel, place.names, place.scale
    if hasattr(sampler, "resolved"):
        sampler = sampler.resolved(place.graph)  # once: the kernel that is trained does not change its lengths
    if sampler is not None:
        attempt = _Attempt.of(place, sampler, search, None)
    else:
        n_trained = sum(block.size for block in place.blocks)
        length = sampler_choice.FIRST_LENGTH if names else steps_needed(kernel, scale)
        length = min(length, sampler_choice.LONGEST)
        own = sampler_choice.default_sampler(kernel.laplacian, length, n_trained)
        attempt = _Attempt.of(place, own, search, None)
        while attempt.at_end and length < sampler_choice.LONGEST:
            length *= 2
            own = sampler_choice.default_sampler(kernel.laplacian, length, n_trained)
            longer = _Attempt.of(place, own, search, attempt.found.point)
            if longer.found.value < attempt.found.value + _WORTH_MORE:
                attempt = attempt._replace(at_end=False)
                break
            attempt = longer
        while names and attempt.sampler.budget < sampler_choice.LARGEST_BUDGET:
            budget = min(2 * attempt.sampler.budget, sampler_choice.LARGEST_BUDGET)
            larger = _Attempt.of(place, replace(attempt.sampler, budget=budget), search, attempt.found.point)
            if larger.found.value < attempt.found.value + _WORTH_MORE:
                break
            attempt = larger
    kernel, own = attempt.found.kernel, attempt.sampler
    attempt.features.matrix(kernel, n_threads=place.n_threads)  # warns where rows and kernel do not fit
    if attempt.at_end:
        lengthscale = kernel.hyperparameters["lengthscale"]
        warn(
            f"the lengthscale stopped at {lengthscale:.3g}, the longest that {own!r} can serve: the data ask for "
            "more; pass a longer `sampler` or method='series'",
        )
    if sampler is None:  # steps that the kernel does not need; the others stay as they are
        own = replace(own, max_length=min(steps_needed(kernel, scale), own.survival.max_length))
    return attempt.found, own


class _Attempt(NamedTuple):
    """A search with the rows of one sampler: what it found, whether its lengthscale is the longest they serve."""

    sampler: Any
    found: Any
    at_end: bool
    features: Any

    @classmethod
    def of(cls, place: Place, sampler: Any, search: Search[Any], start: np.ndarray | None) -> _Attempt:
        scale = place.scale
        largest = longest = likelihood_search.LARGEST_LENGTHSCALE * place.unit
        if "lengthscale" in place.names:
            longest = likelihood_search.longest_lengthscale(
                place.kernel, sampler_choice.serves(sampler, scale), place.unit
            )
        sampled = [
            sample_features(
                place.graph, sampler, nodes=block, seed=place.seed, n_threads=place.n_threads, dtype="float64"
            )
            for block in place.blocks
        ]
        grams = [FactorGram(features.factor(n_threads=place.n_threads), scale) for features in sampled]
        found = search(grams, place.kernel, longest, start)
        reached = found.kernel.hyperparameters.get("lengthscale", 0.0) > 0.98 * longest
        at_end = "lengthscale" in place.names and reached and longest < largest
        return cls(sampler, found, at_end, sampled[0])


def train_by_series(place: Place, task: Task) -> Trained:
    """Train a regression on the exact K."""
    trained = search_by_series(place, lambda *given: _train(place, task, *given))
    _warn_of_ends(trained)
    return trained


def train_by_samples(place: Place, task: Task, sampler: Any) -> tuple[Trained, Any]:
    """Train a regression on sampled rows; beside the result the sampler of the posterior's rows."""
    trained, own = search_by_samples(place, sampler, lambda *given: _train(place, task, *given))
    if (
        trained.kernel.hyperparameters.get("lengthscale", 0.0)
        > 0.98 * likelihood_search.LARGEST_LENGTHSCALE * place.unit
    ):
        _warn_of_ends(trained)  # below, the end is that of the rows: it was said, or longer rows gained nothing
    return trained, own


def _warn_of_ends(trained: Trained) -> None:
    """Warn of the longest lengthscale. The other ends are answers: no noise, or nothing but mean and noise."""
    if trained.ends.get("lengthscale") != "largest":
        return
    warn(
        f"training ended with the lengthscale at {trained.kernel.hyperparameters['lengthscale']:.3g}, the largest "
        "that it looks at, so that the data do not tell it: y is smoother than the kernel, or has a trend. "
        "Predictions may be good all the same, but the lengthscale says nothing: compare a smoother kernel "
        "(kernel='diffusion'), or fix the lengthscale (optimize=False)",
    )


def _train(
    place: Place, task: Task, grams: Sequence[Any], kernel: Kernel, longest: float, start: np.ndarray | None
) -> Trained:
    names, output_scale, noise = place.names, task.output_scale, task.noise
    largest = max(float(np.abs(block.means).max()) for block in task.observations)
    if likelihood_search.spread(task.observations) <= 1e-20 * largest**2:
        names = ()
        output_scale = 1.0 if output_scale is None else output_scale
        noise = 0.1 * output_scale if noise is None else noise
        warn(
            "`y` does not vary about its mean, so no hyperparameters can be learned: output_scale "
            f"{output_scale:g} and noise {noise:g} are taken; set `output_scale` and `noise` to what is known",
        )
    scale = place.scale
    bounds = {
        name: likelihood_search.hyperparameter_range(kernel, name, scale, longest, place.unit) for name in names
    }
    if output_scale is None:
        divisor = likelihood_search.subset_divisor()
    elif not task.normalize:
        divisor = likelihood_search.unit_divisor()
    else:
        points, weights = density_of_states(place.graph, kernel.laplacian, np.random.default_rng(place.seed))
        divisor = likelihood_search.spectral_divisor(points, weights, scale)
    blocks = [
        Block(_counted(gram, task.step), block) for gram, block in zip(grams, task.observations, strict=True)
    ]
    scouts = blocks[:1]
    size = task.observations[0].nodes.size
    if len(blocks) == 1 and size > _SCOUTS and isinstance(grams[0], FactorGram):
        few = np.sort(np.random.default_rng(place.seed).choice(size, _SCOUTS, replace=False))
        scouts = [Block(_counted(grams[0].take(few), task.step), task.observations[0].take(few))]
    with linear_algebra(max(block.nodes.size for block in task.observations), place.n_threads):
        return likelihood_search.train(
            blocks, kernel,
            names=names, bounds=bounds, output_scale=output_scale, noise=noise, divisor=divisor,
            scouts=scouts, start=start,
        )  # fmt: skip


def _counted(gram: Gram, step: Step | None) -> Gram:
    """A Gram matrix with a step for every evaluation."""
    if step is None:
        return gram

    def evaluate(kernel: Kernel, names: Sequence[str]) -> tuple[np.ndarray, list[np.ndarray]]:
        step()
        return gram(kernel, names)

    return evaluate
