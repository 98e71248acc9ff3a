r"""The normal distribution nearest to the posterior, where Laplace's approximation is off because of skewness.

Of all distributions N(m, S) with S^-1 = K^-1 + W and diagonal W >= 0, the one of the least Kullback-Leibler
divergence to the posterior of f has

.. math:: K^{-1} m = g, \quad g_i = \mathrm{E} \, \partial_f \log p(y_i \mid f_i), \quad
          W_i = -\mathrm{E} \, \partial_f^2 \log p(y_i \mid f_i), \quad f_i \sim N(m_i, S_{ii}),

or W_i = 0 where that is negative. For given variances m is the mode under an averaged log density, which the same
Newton steps find; then W and the variances follow, and so on, from Laplace's. N(m, S) is the distribution of f
given observations m + g / W of noise variances 1 / W.

Sources: Opper and Archambeau 2009, "The variational Gaussian approximation revisited"; van Niekerk and Rue 2021,
"Low-rank variational Bayes correction to the Laplace method", who move the means of some latent values and keep
Laplace's W. The first round here does that for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from graphrf.gp.inference.local.responses import Local, Responses, positive
from graphrf.gp.likelihoods import Likelihood


@dataclass(frozen=True)
class AveragedResponses(Responses):
    """Observations whose log density is averaged over normal distributions of f.

    Attributes
    ----------
    variances : ndarray, shape (m,)
        Of the latent values.
    """

    variances: np.ndarray

    @classmethod
    def over(cls, responses: Responses, variances: np.ndarray) -> AveragedResponses:
        """Those of `responses`."""
        own = {field.name: getattr(responses, field.name) for field in fields(Responses)}
        return cls(**own, variances=variances)

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
        """W of the normal distribution."""
        return self.local(likelihood, latent).curvature
