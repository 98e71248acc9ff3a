"""From observations to the trained hyperparameters of a regression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from graphrf._base.blas import linear_algebra
from graphrf._base.warn import warn
from graphrf.gp.inference.observations import Observations
from graphrf.gp.progress import Step
from graphrf.gp.training import likelihood_search
from graphrf.gp.training.candidates import Candidate, SampledCandidates, SeriesCandidates, TrainingSet
from graphrf.gp.training.gram import Gram
from graphrf.gp.training.likelihood_search import Block, LikelihoodResult
from graphrf.kernels.kernel import Kernel
from graphrf.kernels.spectrum import density_of_states


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
    step : callable, optional
        Called at every evaluation of the likelihood.
    """

    observations: Sequence[Observations]
    output_scale: float | None
    noise: float | None
    normalize: bool
    step: Step | None = None


def train(
    training: TrainingSet,
    targets: Targets,
    candidates: SeriesCandidates[LikelihoodResult] | SampledCandidates[LikelihoodResult],
) -> LikelihoodResult:
    """The best hyperparameters of all candidates."""
    for candidate in candidates:
        candidates.result = _searched(training, targets, candidate)
    result = candidates.result
    if result.kernel.hyperparameters.get("lengthscale", 0.0) > 0.98 * training.largest_lengthscale:
        _warn_of_ends(result)  # below, the end is that of series or rows: it was said, or more gained nothing
    return result


def _warn_of_ends(trained: LikelihoodResult) -> None:
    """Warn of the longest lengthscale. The other ends are answers: no noise, or nothing but mean and noise."""
    if trained.ends.get("lengthscale") != "largest":
        return
    warn(
        f"training ended with the lengthscale at {trained.kernel.hyperparameters['lengthscale']:.3g}, the largest "
        "that it looks at, so that the data do not tell it: y is smoother than the kernel, or has a trend. "
        "Predictions may be good all the same, but the lengthscale says nothing: compare a smoother kernel "
        "(kernel='diffusion'), or fix the lengthscale (optimize=False)",
    )


def _searched(training: TrainingSet, targets: Targets, candidate: Candidate) -> LikelihoodResult:
    names, output_scale, noise = training.names, targets.output_scale, targets.noise
    observations, kernel = targets.observations, training.kernel
    largest = max(float(np.abs(block.means).max()) for block in observations)
    if likelihood_search.spread(observations) <= 1e-20 * largest**2:
        names = ()
        output_scale = 1.0 if output_scale is None else output_scale
        noise = 0.1 * output_scale if noise is None else noise
        warn(
            "`y` does not vary about its mean, so no hyperparameters can be learned: output_scale "
            f"{output_scale:g} and noise {noise:g} are taken; set `output_scale` and `noise` to what is known",
        )
    if output_scale is None:
        divisor = likelihood_search.subset_divisor()
    elif not targets.normalize:
        divisor = likelihood_search.unit_divisor()
    else:
        rng = np.random.default_rng(training.seed)
        points, weights = density_of_states(training.graph, kernel.laplacian, rng)
        divisor = likelihood_search.spectral_divisor(points, weights, training.scale)
    grams = candidate.grams
    blocks = [Block(_counted(gram, targets.step), own) for gram, own in zip(grams, observations, strict=True)]
    scouts = blocks[:1]
    if candidate.scouts is not None:
        few = candidate.scouts
        scouts = [Block(_counted(grams[0].take(few), targets.step), observations[0].take(few))]
    with linear_algebra(max(block.nodes.size for block in observations), training.n_threads):
        return likelihood_search.train(
            blocks, kernel,
            names=names, bounds=training.ranges(names, candidate.longest), output_scale=output_scale, noise=noise,
            divisor=divisor, scouts=scouts, start=candidate.start,
        )  # fmt: skip


def _counted(gram: Gram, step: Step | None) -> Gram:
    """A Gram matrix with a step for every evaluation."""
    if step is None:
        return gram

    def evaluate(kernel: Kernel, names: Sequence[str]) -> tuple[np.ndarray, list[np.ndarray]]:
        step()
        return gram(kernel, names)

    return evaluate
