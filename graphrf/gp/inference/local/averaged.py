r"""Means of the latent function that are better than the mode, where the posterior is skewed.

Laplace's approximation N(f, S), with S^-1 = K^-1 + W, keeps its covariance, and its mean moves to the m that
minimises the Kullback-Leibler divergence from the posterior:

.. math:: m = \arg\max_m \; \sum_i \mathrm{E} \log p(y_i \mid m_i + \sqrt{S_{ii}} \, z) - \tfrac12 m^\top K^{-1} m,
          \qquad z \sim N(0, 1).

So m is the mode under a log density averaged over the law of f at each node, which the same Newton steps find, and
N(m, S) is the law of f given observations m + g / W of noise variances 1 / W, with the averaged gradient g.

Source: van Niekerk and Rue 2021, "Correcting the Laplace method with variational Bayes", who move some of the
latent values; here all of them move.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from graphrf.gp.inference.local.responses import Local, Responses, positive
from graphrf.gp.likelihoods import Likelihood


@dataclass(frozen=True)
class AveragedResponses(Responses):
    """Observations whose log density is averaged over normal laws of f.

    Attributes
    ----------
    variances : ndarray, shape (m,)
        Of the latent values.
    kept : ndarray, shape (m,)
        What the posterior takes for W.
    """

    variances: np.ndarray
    kept: np.ndarray

    @classmethod
    def over(cls, responses: Responses, variances: np.ndarray, kept: np.ndarray) -> AveragedResponses:
        """Those of `responses`."""
        own = {field.name: getattr(responses, field.name) for field in fields(Responses)}
        return cls(**own, variances=variances, kept=kept)

    def local(self, likelihood: Likelihood, latent: np.ndarray) -> Local:
        """The averages at means of shape (m,)."""
        with np.errstate(over="ignore", invalid="ignore"):
            value, first, second = likelihood.averages(
                self.y, latent[self.place] + self.offset, self.variances[self.place]
            )
            whole = float(value.sum())
            curvature = self._sum(-second)
        return Local(whole if np.isfinite(whole) else -np.inf, self._sum(first), positive(curvature))

    def information(self, likelihood: Likelihood, latent: np.ndarray) -> np.ndarray:
        """W of the posterior, which does not move."""
        return self.kept
