"""Answers about nodes, places, times or rows, from the distribution of f at each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from graphrf.gp.likelihoods.likelihood import Likelihood
from graphrf.gp.model.answers import Question
from graphrf.gp.posterior.marginals import MarginalMixture
from graphrf.gp.posterior.predictive import observed_quantiles


def draw_observations(
    draws: np.ndarray,
    parts: np.ndarray | None,
    models: Sequence[Likelihood | float],
    rng: np.random.Generator,
) -> np.ndarray:
    """Put an observation in the place of each latent value of some draws, along the first axis.

    `models` are likelihoods, or variances of normal noise, one for each part of a mixture, and
    `parts` has the part of each draw; None if there is one.
    """
    numbers = np.zeros(len(draws), dtype=np.int64) if parts is None else parts
    for number, draw in zip(numbers.tolist(), draws, strict=True):
        model = models[number]
        if isinstance(model, Likelihood):
            draw[:] = model.sample(draw, rng)
        else:
            draw += np.sqrt(model) * rng.standard_normal(draw.shape)
    return draws


class Answers(NamedTuple):
    """Means, deviations, quantiles and probabilities of f, or with a likelihood of the expected
    observation.

    A new observation has the likelihood's distribution, or normal noise of the variances `noises`,
    one for each part of the mixture.
    """

    law: MarginalMixture  # of f
    likelihood: Likelihood | None = None
    noises: Sequence[float] = ()

    def to(self, question: Question) -> Any:
        """Means, deviations and quantiles, as the question asks: a tuple of several."""
        quantiles = None
        if question.levels is not None:
            quantiles = self.quantiles(question.levels, question.of_observation)
            if not question.of_everything:
                return quantiles
        mean, variance = self.moments(question.of_observation)
        if not question.return_std:
            return mean
        return (mean, np.sqrt(variance), *([] if quantiles is None else [quantiles]))

    def moments(self, of_observation: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances, shape (q,); the variances of a new observation on request."""
        if self.likelihood is None:
            law = self.law.with_noise(self.noises) if of_observation else self.law
            return law.moments()
        mean, variance = self.law.response()
        return mean, variance + self.law.observation_variance() if of_observation else variance

    def quantiles(self, levels: np.ndarray, of_observation: bool = False) -> np.ndarray:
        """Quantiles, shape (q, levels), in the order of the levels even where the expected
        observation decreases with f.
        """
        if self.likelihood is None:
            law = self.law.with_noise(self.noises) if of_observation else self.law
            return law.quantiles(levels)
        if of_observation:
            return observed_quantiles(self.law, levels)
        return self.likelihood.mean(self.law.quantiles(levels, self.likelihood))

    def probability(self, low: float, high: float) -> np.ndarray:
        """The probability of what lies between two ends, shape (q,)."""
        if self.likelihood is None:
            return self.law.probability(low, high)
        ends = self.likelihood.latent_at(low), self.likelihood.latent_at(high)
        return self.law.probability(*ends, self.likelihood)
