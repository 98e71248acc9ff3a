"""Weak priors of the hyperparameters of a regression: what settles them where the data do not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphrf._base import checks

_LARGEST = 1e6


@dataclass(frozen=True)
class HyperparameterPrior:
    r"""Independent log-normal priors of lengthscale, output scale and noise variance, and of the odds of shares.

    .. math:: \log \theta \sim N(\log(m u), (\log r)^2),

    each given as a pair (m, r): the median in the parameter's unit u, and the factor that one standard deviation
    is. Units are those of the graph and the data, so that one prior serves all: lengthscales in edges (for the
    combinatorial Laplacian over the root of the weights' geometric mean), output scale and noise in variances of y
    about its mean function. Of the shares of areal kernels, `mixing` and `dependence`, theta is the odds
    phi / (1 - phi), with unit 1: the median 1 and the factor 6 are close to a uniform distribution of phi. None
    leaves a hyperparameter without a prior.

    Twenty observations hardly tell a rough function from noise. Without a prior the likelihood of such data is
    often largest where the noise or the output scale vanishes, and the intervals of f vanish with them. The
    defaults are weak: a few tens of observations outweigh them. The prior of the noise is wide, so that averages
    contain both explanations of values that the graph does not tell apart from noise. A signal varies more over
    the whole graph than over a few observed nodes, so the median of the output scale exceeds the variance of y.
    `benchmarks/calibration.py` measures the effect on the coverage of intervals and on the errors of means.

    Parameters
    ----------
    lengthscale, output_scale, noise, mixing, dependence : (float, float) or None
        Median in (0, 1e6], and factor in (1, 1e6].
    noise_alone : float in [0, 1)
        The prior probability that y is its mean function and noise. It takes part where predictions are averaged
        and both variances are trained: values that the graph does not explain may be noise, or a signal that
        varies too quickly for the graph.

    Raises
    ------
    ValueError, TypeError
        For anything else.

    Examples
    --------
    >>> import graphrf as grf
    >>> line = grf.from_edges(range(9), range(1, 10))
    >>> prior = grf.gp.HyperparameterPrior(noise=(0.01, 3.0))  # measured well: about a hundredth of y's variance
    >>> gp = grf.GraphGPRegressor(line, prior=prior, seed=0).fit([0, 3, 6, 9], [0.0, 1.0, 2.1, 2.9])

    Sources: on why such priors, Simpson et al. 2017, "Penalising Model Component Complexity".
    """

    lengthscale: tuple[float, float] | None = (3.0, 3.0)
    output_scale: tuple[float, float] | None = (3.0, 3.0)
    noise: tuple[float, float] | None = (0.2, 8.0)
    noise_alone: float = 0.1
    mixing: tuple[float, float] | None = (1.0, 6.0)
    dependence: tuple[float, float] | None = (9.0, 6.0)

    def __post_init__(self) -> None:
        for name in ("lengthscale", "output_scale", "noise", "mixing", "dependence"):
            pair = getattr(self, name)
            if pair is None:
                continue
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                raise checks.type_error(name, f"must be (median, factor) or None, got {checks.describe(pair)}")
            median = checks.number(f"the median of {name}", pair[0], low=0, high=_LARGEST, include_low=False)
            factor = checks.number(f"the factor of {name}", pair[1], low=1, high=_LARGEST, include_low=False)
            object.__setattr__(self, name, (median, factor))

        alone = checks.number("noise_alone", self.noise_alone, low=0, high=1, include_high=False)
        object.__setattr__(self, "noise_alone", alone)

    def log_density(self, name: str, log_value: Any, unit: float) -> tuple[Any, Any]:
        """Of the logarithm of a hyperparameter with this unit: log density and its derivative, elementwise."""
        pair = getattr(self, name, None)
        if pair is None:
            return np.zeros(np.shape(log_value)), np.zeros(np.shape(log_value))
        median, width = math.log(pair[0] * unit), math.log(pair[1])
        z = (log_value - median) / width
        return -0.5 * z * z - math.log(width * math.sqrt(2 * math.pi)), -z / width


FLAT = HyperparameterPrior(None, None, None, 0.0, None, None)
