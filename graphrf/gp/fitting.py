"""From observations to trained hyperparameters, by the exact series or by sampled rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from graphrf._threads import thread_count
from graphrf.gp import training, walk_choice
from graphrf.gp.gram import FactorGram, Gram, SeriesGram
from graphrf.gp.observations import Observations
from graphrf.gp.progress import Step
from graphrf.gp.training import Block, Trained
from graphrf.graph import Graph
from graphrf.kernels import Kernel
from graphrf.matching.spectrum import density_of_states
from graphrf.sampling.sample import sample_features

# Numbers that the tables of the series may hold, and the most degrees that one has.
_TABLE_NUMBERS = 32_000_000
_LARGEST_DEGREE = 1_000
# Below this many nodes linear algebra runs on one thread: numpy and scipy each bring a pool whose idle threads spin.
# Two pools of two threads were ten times slower than one on matrices of a few hundred rows, and eighty times on
# 1,000 rows while other programs were running.
_SINGLE_THREADED = 3_000


class Task(NamedTuple):
    """What is to be trained.

    Attributes
    ----------
    graph : Graph
    kernel : Kernel
        The first guess.
    names : sequence of str
        Its hyperparameters to train.
    observations : sequence of Observations
        In blocks.
    output_scale, noise : float or None
        None trains them.
    normalize : bool
        Whether a given output scale multiplies K over its mean variance.
    seed : int
    n_threads : int or None
    step : callable, optional
        Called for every evaluation of the likelihood.
    """

    graph: Graph
    kernel: Kernel
    names: Sequence[str]
    observations: Sequence[Observations]
    output_scale: float | None
    noise: float | None
    normalize: bool
    seed: int
    n_threads: int | None
    step: Step | None = None


def train_by_series(task: Task) -> Trained:
    """Train on the exact K."""
    pairs = sum(block.nodes.size * (block.nodes.size + 1) // 2 for block in task.observations)
    most = int(np.clip(_TABLE_NUMBERS // pairs, 64, _LARGEST_DEGREE))
    grams = [
        SeriesGram(task.graph, task.kernel.laplacian, block.nodes, max_degree=most, n_threads=task.n_threads)
        for block in task.observations
    ]
    longest = training.LARGEST_LENGTHSCALE
    if "lengthscale" in task.names:
        longest = training.longest_lengthscale(task.kernel, lambda k: grams[0].degree(k) <= most)
    return _train(task, grams, longest)


def train_by_samples(task: Task, sampler: Any, n_observed: int) -> tuple[Trained, Any]:
    """Train on sampled rows, and the sampler of the posterior's at all observed nodes.

    That is the given one, or if it is None compressed powers with the budget that `n_observed` rows can afford;
    training, which sees fewer, affords more. They are lengthened until the trained kernel fits them.
    """
    graph, kernel, names = task.graph, task.kernel, task.names
    scale = graph.laplacian_scale(kernel.laplacian)
    given = sampler is not None
    if hasattr(sampler, "resolved"):
        sampler = sampler.resolved(graph)  # once: the kernel that is trained does not change its lengths
    n_trained = sum(block.nodes.size for block in task.observations)

    def rows(length: int, n_rows: int) -> Any:
        return walk_choice.default_sampler(kernel.laplacian, min(length, walk_choice.LONGEST), n_rows)

    own = (
        sampler
        if given
        else rows(walk_choice.FIRST_LENGTH if names else walk_choice.steps_needed(kernel, scale), n_trained)
    )
    longest = training.LARGEST_LENGTHSCALE
    if "lengthscale" in names:
        most = sampler if given else rows(walk_choice.LONGEST, n_trained)
        longest = training.longest_lengthscale(kernel, walk_choice.serves(most, scale))
    start: np.ndarray | None = None
    while True:
        sampled = [
            sample_features(
                graph, own, nodes=block.nodes, seed=task.seed, n_threads=task.n_threads, dtype="float64"
            )
            for block in task.observations
        ]
        grams = [FactorGram(features.factor(n_threads=task.n_threads), scale) for features in sampled]
        trained = _train(task._replace(kernel=kernel), grams, longest, start)
        kernel, start = trained.kernel, trained.point
        length = own.survival.max_length
        needed = min(walk_choice.steps_needed(kernel, scale), walk_choice.LONGEST)
        if given or needed <= length:
            break
        own = rows(max(needed, length + length // 4), n_trained)
    sampled[0].matrix(kernel, n_threads=task.n_threads)  # warns where rows and kernel do not fit
    at_end = "lengthscale" in names and kernel.hyperparameters["lengthscale"] > 0.98 * longest
    if at_end and longest < training.LARGEST_LENGTHSCALE:
        warnings.warn(
            f"the lengthscale stopped at {longest:.3g}, the longest that {own!r} with at most {length} "
            "steps can serve: the data ask for more; pass a longer `sampler` or method='series'",
            UserWarning,
            stacklevel=3,
        )
    return trained, sampler if given else rows(needed, n_observed)


def _train(task: Task, grams: Sequence[Any], longest: float, start: np.ndarray | None = None) -> Trained:
    kernel, names, output_scale, noise = task.kernel, task.names, task.output_scale, task.noise
    largest = max(float(np.abs(block.means).max()) for block in task.observations)
    if training.spread(task.observations) <= 1e-20 * largest**2:
        names = ()
        output_scale = 1.0 if output_scale is None else output_scale
        noise = 0.1 * output_scale if noise is None else noise
        warnings.warn(
            "`y` does not vary about its mean, so no hyperparameters can be learned: output_scale "
            f"{output_scale:g} and noise {noise:g} are taken; set `output_scale` and `noise` to what is known",
            UserWarning,
            stacklevel=4,
        )
    scale = task.graph.laplacian_scale(kernel.laplacian)
    bounds = {name: training.hyperparameter_range(kernel, name, scale, longest) for name in names}
    if output_scale is None:
        divisor = training.subset_divisor()
    elif not task.normalize:
        divisor = training.unit_divisor()
    else:
        points, weights = density_of_states(task.graph, kernel.laplacian, np.random.default_rng(task.seed))
        divisor = training.spectral_divisor(points, weights, scale)
    if task.step is not None:
        grams = [_counted(grams[0], task.step), *grams[1:]]
    with linear_algebra(max(block.nodes.size for block in task.observations), task.n_threads):
        return training.train(
            [Block(gram, block) for gram, block in zip(grams, task.observations, strict=True)], kernel,
            names=names, bounds=bounds, output_scale=output_scale, noise=noise, divisor=divisor, start=start,
        )  # fmt: skip


def _counted(gram: Gram, step: Step) -> Gram:
    """A Gram matrix with a step for every evaluation."""

    def evaluate(kernel: Kernel, names: Sequence[str]) -> tuple[np.ndarray, list[np.ndarray]]:
        step()
        return gram(kernel, names)

    return evaluate


def linear_algebra(size: int, n_threads: int | None) -> Any:
    """A context in which BLAS has the threads that suit matrices of this size."""
    return threadpool_limits(1 if size < _SINGLE_THREADED else thread_count(n_threads), user_api="blas")
