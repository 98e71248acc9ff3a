"""Priors of the hyperparameters of a regression, which determine them where the data do not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betaln, expit, log_expit

from graphrf._base import checks
from graphrf.graph.graph import Graph
from graphrf.kernels.areal import ICAR

# The largest median, in the hyperparameter's unit, and the largest factor: the prior is then as
# good as flat.
_LARGEST = 1e6
# Up to so many nodes the spectrum of a structured covariance is computed: some two minutes.
_LARGEST_SPECTRUM = 5_000


@dataclass(frozen=True)
class PenalisedMixing:
    r"""The penalised-complexity prior of the mixing share of `BYM2`: towards the model without
    neighbours.

    With the eigenvalues g_i of the structured covariance (`ICAR`), phi is as far from 0 as

    .. math:: d(\varphi) = \sqrt{2\,\mathrm{KL}} =
              \Big(\sum_i \varphi (g_i - 1) - \log(1 + \varphi (g_i - 1))\Big)^{1/2},

    and d has an exponential distribution, whose rate follows from P(phi < below) = probability.

    Parameters
    ----------
    spectrum : tuple of float
        The g_i: `PenalisedMixing.of(graph)` computes them.
    below, probability : float in (0, 1)
        Riebler et al. take 1/2 and 2/3.

    Examples
    --------
    >>> import numpy as np, graphrf as grf
    >>> districts = grf.from_edges(range(59), range(1, 60))
    >>> prior = grf.gp.HyperparameterPrior(mixing=grf.gp.PenalisedMixing.of(districts))
    >>> gp = grf.GraphGPRegressor(
    ...     districts, kernel="bym2", likelihood="poisson", prior=prior, seed=0
    ... )
    >>> places = np.arange(60)
    >>> gp = gp.fit(places, np.random.default_rng(0).poisson(np.exp(1 + np.sin(places / 9))))
    >>> bool(0 < gp.kernel_.mixing < 1)
    True

    Source: Riebler, Sørbye, Simpson and Rue 2016, "An intuitive Bayesian spatial model for disease
    mapping that accounts for scaling", Sec. 3.3 and its appendix; Simpson et al. 2017, "Penalising
    Model Component Complexity".
    """

    spectrum: tuple[float, ...]
    below: float = 0.5
    probability: float = 2 / 3

    def __post_init__(self) -> None:
        values = checks.finite("spectrum", checks.array("spectrum", self.spectrum, np.float64))
        if values.ndim != 1 or not values.size or (values < 0).any():
            raise checks.value_error(
                "spectrum",
                f"must be numbers, 0 or more, got {checks.describe(self.spectrum)}: use "
                "`of(graph)`",
            )
        if not np.abs(values - 1).max() > 0:
            raise checks.value_error(
                "spectrum", "must not be 1 throughout: without edges every share is the same"
            )
        object.__setattr__(self, "spectrum", tuple(values.tolist()))

        for name in ("below", "probability"):
            proportion = checks.number(
                name, getattr(self, name), low=0, high=1, include_low=False, include_high=False
            )
            object.__setattr__(self, name, proportion)

    @classmethod
    def of(cls, graph: Graph, below: float = 0.5, probability: float = 2 / 3) -> PenalisedMixing:
        """The prior for a graph of at most 5,000 nodes; N^3 operations."""
        if graph.n_nodes > _LARGEST_SPECTRUM:
            raise checks.value_error(
                "graph",
                f"must have at most {_LARGEST_SPECTRUM:,} nodes, got {graph.n_nodes:,}: take a "
                "log-normal prior of the odds, `HyperparameterPrior(mixing=(1.0, 6.0))`",
            )
        spectrum = np.linalg.eigvalsh(ICAR().dense(graph))
        spectrum[spectrum < 1e-9 * spectrum[-1]] = 0.0  # the constant on each component
        return cls(tuple(spectrum.tolist()), below, probability)

    def log_density(self, log_odds: float | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log density of the logarithm of phi / (1 - phi), and its derivative, elementwise."""
        x = np.asarray(log_odds, dtype=np.float64)
        phi = expit(x)
        square, first, second = self._square(phi)
        (bound, *_), d = self._square(np.array(self.below)), np.sqrt(square)
        rate = -math.log1p(-self.probability) / math.sqrt(float(bound))
        slope = first / (2 * d)
        curvature = second / (2 * d) - first**2 / (4 * d**3)
        value = math.log(rate) - rate * d + np.log(slope) + log_expit(x) + log_expit(-x)
        return value, (curvature / slope - rate * slope) * phi * expit(-x) + 1 - 2 * phi

    def _square(self, phi: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """d^2 and its first two derivatives in phi."""
        away = np.array(self.spectrum) - 1
        p = phi[..., None]
        inside = 1 + p * away
        return (
            (p * away - np.log1p(p * away)).sum(axis=-1),
            (p * away**2 / inside).sum(axis=-1),
            np.square(away / inside).sum(axis=-1),
        )


@dataclass(frozen=True)
class HyperparameterPrior:
    r"""Independent log-normal priors of lengthscale, output scale and noise variance, and of the
    odds of shares.

    .. math:: \log \theta \sim N(\log(m u), (\log r)^2),

    each given as a pair (m, r): the median in the parameter's unit u, and the factor that
    corresponds to one standard deviation. Units are those of the graph and the data, so that one
    prior serves all: lengthscales in edges (for the combinatorial Laplacian over the root of the
    weights' geometric mean), output scale and noise in variances of y about its mean function. Of
    the shares of areal kernels, `mixing` and `dependence`, theta is the odds phi / (1 - phi), with
    unit 1: the median 1 and the factor 6 are close to a uniform distribution of phi. Another prior
    of `mixing` is `PenalisedMixing`. None leaves a hyperparameter without a prior.

    Without a prior the likelihood of a few observations is often largest where the noise or the
    output scale vanishes, and intervals of f vanish with them. The defaults are weak: a few tens of
    observations outweigh them (`benchmarks/calibration.py`).

    Parameters
    ----------
    lengthscale, output_scale, noise, mixing, dependence : (float, float) or None
        Median in (0, 1e6], and factor in (1, 1e6]; `mixing` may be a `PenalisedMixing`.
    noise_alone : float in [0, 1)
        The prior probability that y is its mean function and noise. It is used where predictions
        are averaged and both variances are trained: values that the graph does not explain may be
        noise, or a signal that varies too quickly for the graph.

    Examples
    --------
    >>> import graphrf as grf
    >>> line = grf.from_edges(range(9), range(1, 10))
    >>> prior = grf.gp.HyperparameterPrior(
    ...     noise=(0.01, 3.0)
    ... )  # measured well: about a hundredth of y's variance
    >>> gp = grf.GraphGPRegressor(line, prior=prior, seed=0).fit([0, 3, 6, 9], [0.0, 1.0, 2.1, 2.9])

    Source: Simpson et al. 2017, "Penalising Model Component Complexity".
    """

    lengthscale: tuple[float, float] | None = (3.0, 3.0)
    output_scale: tuple[float, float] | None = (3.0, 3.0)
    noise: tuple[float, float] | None = (0.2, 8.0)
    noise_alone: float = 0.1
    mixing: tuple[float, float] | PenalisedMixing | None = (1.0, 6.0)
    # The odds 9 are a dependence of 0.9, the default of `CAR`.
    dependence: tuple[float, float] | None = (9.0, 6.0)

    def __post_init__(self) -> None:
        for name in ("lengthscale", "output_scale", "noise", "mixing", "dependence"):
            pair = getattr(self, name)
            if pair is None or (name == "mixing" and isinstance(pair, PenalisedMixing)):
                continue
            object.__setattr__(self, name, checked_pair(name, pair))

        alone = checks.number("noise_alone", self.noise_alone, low=0, high=1, include_high=False)
        object.__setattr__(self, "noise_alone", alone)

    def log_density(self, name: str, log_value: float | np.ndarray, unit: float) -> tuple[Any, Any]:
        """Log density of the logarithm of a hyperparameter with this unit, and its derivative,
        elementwise.
        """
        return log_prior_density(self.of(name, unit), log_value)

    def of(self, name: str, unit: float) -> Any:
        """The prior of a hyperparameter with this unit, as `log_prior_density` takes it."""
        pair = getattr(self, name, None)
        return (pair[0] * unit, pair[1]) if isinstance(pair, tuple) else pair


def checked_pair(name: str, pair: Any, others: str = "") -> tuple[float, float] | None:
    """(median, factor), or None for no prior; `others` are what else is allowed, for messages."""
    if pair is None:
        return None
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise checks.type_error(
            name, f"must be (median, factor){others} or None, got {checks.describe(pair)}"
        )
    median = checks.number(
        f"the median of {name}", pair[0], low=0, high=_LARGEST, include_low=False
    )
    factor = checks.number(
        f"the factor of {name}", pair[1], low=1, high=_LARGEST, include_low=False
    )
    return median, factor


def log_prior_density(prior: Any, coordinate: Any) -> tuple[Any, Any]:
    """Log density of a hyperparameter's coordinate, and its derivative, elementwise.

    The prior is the median of the hyperparameter (or of its odds) and the factor that one standard
    deviation of the logarithm is, or has the method `log_density`; None is 0 throughout.
    """
    if prior is None:
        return np.zeros(np.shape(coordinate)), np.zeros(np.shape(coordinate))
    if not isinstance(prior, tuple):
        value, slope = prior.log_density(coordinate)
        return value, slope
    median, width = math.log(prior[0]), math.log(prior[1])
    z = (coordinate - median) / width
    return -0.5 * z * z - math.log(width * math.sqrt(2 * math.pi)), -z / width


FLAT = HyperparameterPrior(None, None, None, 0.0, None, None)


@dataclass(frozen=True)
class PenalisedDeviation:
    r"""The penalised-complexity prior of a standard deviation: exponential, towards a model without
    the term.

    .. math:: p(\sigma) = \lambda e^{-\lambda \sigma}, \quad
              \lambda = -\log(\mathrm{probability}) / \mathrm{upper}.

    Parameters
    ----------
    upper : float
        In units of the linear predictor.
    probability : float in (0, 1)
        Of a deviation above `upper`.

    Examples
    --------
    >>> import graphrf as grf
    >>> prior = grf.gp.terms.PenalisedDeviation(
    ...     1.0, 0.01
    ... )  # a deviation above 1 has probability 0.01

    Source: Simpson et al. 2017, "Penalising Model Component Complexity", Sec. 3.3.
    """

    upper: float = 2.0
    probability: float = 0.05

    def __post_init__(self) -> None:
        checks.number("upper", self.upper, low=0, include_low=False)
        checks.number(
            "probability", self.probability, low=0, high=1, include_low=False, include_high=False
        )

    def log_density(self, log_value: float) -> tuple[float, float]:
        """Log density of the deviation's logarithm, and its derivative."""
        rate = -math.log(self.probability) / self.upper
        value = math.exp(log_value)
        return math.log(rate) - rate * value + log_value, 1.0 - rate * value


@dataclass(frozen=True)
class PenalisedRange:
    r"""The penalised-complexity prior of the range of a field in d dimensions, towards a field that
    is constant.

    .. math:: p(r) = \tfrac{d}{2} \lambda r^{-d/2 - 1} e^{-\lambda r^{-d/2}}, \quad
              \lambda = -\log(\mathrm{probability})\, \mathrm{below}^{d/2}.

    Parameters
    ----------
    below : float
        In units of the coordinates.
    probability : float in (0, 1)
        Of a range below that: 1/2 makes `below` the median.

    Examples
    --------
    >>> import graphrf as grf
    >>> prior = grf.gp.terms.PenalisedRange(10.0, 0.5)

    Source: Fuglstad, Simpson, Lindgren and Rue 2019, "Constructing Priors that Penalize the
    Complexity of Gaussian Random Fields", Theorem 2.6.
    """

    below: float
    probability: float = 0.5

    def __post_init__(self) -> None:
        checks.number("below", self.below, low=0, include_low=False)
        checks.number(
            "probability", self.probability, low=0, high=1, include_low=False, include_high=False
        )

    def log_density(self, log_value: float, dimension: int) -> tuple[float, float]:
        """Log density of the range's logarithm in d dimensions, and its derivative."""
        half = 0.5 * dimension
        rate = -math.log(self.probability)
        power = rate * math.exp(half * (math.log(self.below) - log_value))
        return math.log(half * power) - power, half * (power - 1.0)


@dataclass(frozen=True)
class RangePrior:
    """A `PenalisedRange` in d dimensions."""

    prior: PenalisedRange
    dimension: int

    def log_density(self, log_value: float) -> tuple[float, float]:
        """Log density of the range's logarithm, and its derivative."""
        return self.prior.log_density(log_value, self.dimension)


@dataclass(frozen=True)
class BetaPrior:
    """A beta distribution of a proportion between 0 and 1.

    Parameters
    ----------
    a, b : float
        (1, 1) is uniform; (1/2, 1/2) is Jeffreys' prior of a proportion.

    Examples
    --------
    >>> import graphrf as grf
    >>> prior = grf.gp.terms.BetaPrior(0.5, 0.5)
    """

    a: float = 1.0
    b: float = 1.0

    def __post_init__(self) -> None:
        for name in ("a", "b"):
            checks.number(name, getattr(self, name), low=0, include_low=False)

    def log_density(self, log_odds: float) -> tuple[float, float]:
        """Log density of the proportion's log odds, and its derivative."""
        value = self.a * float(log_expit(log_odds)) + self.b * float(log_expit(-log_odds))
        proportion = float(expit(log_odds))
        return value - float(betaln(self.a, self.b)), self.a * (
            1 - proportion
        ) - self.b * proportion
