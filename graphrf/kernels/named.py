r"""Node kernels as power series in the walk matrix: coefficients, root, and dense matrices.

A kernel is K = g(L) for a Laplacian L = s (I - W) with the walk matrix W (`Graph.walk_matrix`) and
its scale s (`Graph.laplacian_scale`). So

.. math:: K = \sum_r \alpha_r W^r = F F^\top, \quad F = \sum_r f_r W^r, \quad \sum_{i+j=r} f_i f_j
    = \alpha_r.

alpha is `taylor`, f the `modulation`: both come in closed form, in logarithms where they would
underflow. Source: Reid et al. 2024, "Variance-Reducing Couplings for Random Features", Appendix C.1
and Table 5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse.linalg

from graphrf._base import checks
from graphrf._base.warn import warn
from graphrf.graph.graph import Graph
from graphrf.kernels import coefficients
from graphrf.kernels.kernel import Kernel


@dataclass(frozen=True, repr=False)
class Diffusion(Kernel):
    r"""The diffusion (heat) kernel.

    .. math:: K = \exp(-\tfrac{\ell^2}{2} L), \quad \alpha_r = e^{-x} x^r / r!, \; x = s \ell^2 / 2,
              \quad f_r = e^{-y} y^r / r!, \; y = s \ell^2 / 4.

    Source: Kondor and Lafferty 2002, "Diffusion kernels on graphs and other discrete structures".

    Parameters
    ----------
    lengthscale : float
        l > 0: roughly the distance, in steps, over which the kernel is correlated.
    laplacian : "normalized" or "combinatorial"

    Examples
    --------
    >>> import graphrf as grf
    >>> kernel = grf.Diffusion(lengthscale=2.0)
    >>> kernel.modulation(4).round(4)
    array([0.3679, 0.3679, 0.1839, 0.0613])
    >>> kernel.truncation_length(1e-3)
    5
    """

    lengthscale: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_positive("lengthscale")

    def _mean(self, scale: float) -> float:
        return scale * self.lengthscale**2 / 4

    def taylor_coefficients(self, n: int, scale: float) -> np.ndarray:
        return coefficients.poisson(n, 2 * self._mean(scale))

    def modulation_coefficients(self, n: int, scale: float) -> np.ndarray:
        return coefficients.poisson(n, self._mean(scale))

    def modulation_derivatives(self, n: int, scale: float) -> np.ndarray:
        # d log f_r / dl = (2 / l) (r - y)
        slope = (np.arange(n) - self._mean(scale)) * (2 / self.lengthscale)
        return (self.modulation_coefficients(n, scale) * slope)[:, None]

    def modulation_remainder(self, length: int, scale: float) -> float:
        return coefficients.poisson_tail(length, self._mean(scale))

    def spectral_function(self, eigenvalues: np.ndarray, scale: float) -> np.ndarray:
        return np.asarray(np.exp(-0.5 * self.lengthscale**2 * eigenvalues))

    def root_spectral_function(self, eigenvalues: np.ndarray, scale: float) -> np.ndarray:
        return np.asarray(np.exp(-0.25 * self.lengthscale**2 * eigenvalues))

    def log_spectral_derivatives(self, eigenvalues: np.ndarray) -> np.ndarray:
        return -self.lengthscale * eigenvalues[:, None]

    def nth_root(self, n: int) -> Diffusion:
        return self.replace(lengthscale=self.lengthscale / math.sqrt(n))


class _InversePower(Kernel):
    r"""K = (c I + t L)^-q, the form of the regularized Laplacian and the Matérn kernel.

    .. math:: \alpha_r = (c + s t)^{-q} \frac{(q)_r}{r!} a^r, \; a = \frac{s t}{c + s t};
              \quad f_r \text{ the same with } q/2 \text{ for } q.
    """

    @property
    def _coefficients(self) -> tuple[float, float, float]:
        """c, t and q."""
        raise NotImplementedError

    @property
    def inverse_power(self) -> tuple[float, float, float]:
        return self._coefficients

    def check_scale(self, scale: float) -> None:
        c, _, q = self._coefficients
        self.check_size(-q * math.log(c))

    def _series(self, n: int, scale: float, power: float) -> np.ndarray:
        c, t, q = self._coefficients
        return np.asarray(
            c ** (-power * q) * coefficients.negative_binomial(n, power * q, scale * t / c)
        )

    def taylor_coefficients(self, n: int, scale: float) -> np.ndarray:
        return self._series(n, scale, 1.0)

    def modulation_coefficients(self, n: int, scale: float) -> np.ndarray:
        return self._series(n, scale, 0.5)

    def modulation_remainder(self, length: int, scale: float) -> float:
        c, t, q = self._coefficients
        return c ** (-0.5 * q) * coefficients.negative_binomial_tail(length, 0.5 * q, scale * t / c)

    def spectral_function(self, eigenvalues: np.ndarray, scale: float) -> np.ndarray:
        c, t, q = self._coefficients
        return np.asarray((c + t * eigenvalues) ** -q)

    def root_spectral_function(self, eigenvalues: np.ndarray, scale: float) -> np.ndarray:
        c, t, q = self._coefficients
        return np.asarray((c + t * eigenvalues) ** (-0.5 * q))


@dataclass(frozen=True, repr=False)
class RegularizedLaplacian(_InversePower):
    r"""The (power of the) regularized Laplacian kernel.

    .. math:: K = (I + \ell^2 L)^{-p}, \quad \alpha_r = (1+b)^{-p} \frac{(p)_r}{r!} a^r, \;
              b = s \ell^2, \; a = \frac{b}{1+b}; \quad f_r \text{ the same with } p/2 \text{ for }
              p.

    (p)_r is the rising factorial.

    Source: Smola and Kondor 2003, "Kernels and regularization on graphs".

    Parameters
    ----------
    lengthscale, power : float
        l > 0 and p > 0. p = 2 is the paper's "2-regularised Laplacian".
    laplacian : "normalized" or "combinatorial"

    Examples
    --------
    >>> import graphrf as grf
    >>> grf.RegularizedLaplacian(lengthscale=1.0, power=2.0).modulation(4)
    array([0.5   , 0.25  , 0.125 , 0.0625])
    """

    lengthscale: float = 1.0
    power: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_positive("lengthscale", "power")

    @property
    def _coefficients(self) -> tuple[float, float, float]:
        return 1.0, self.lengthscale**2, self.power

    def log_spectral_derivatives(self, eigenvalues: np.ndarray) -> np.ndarray:
        odds = self.lengthscale**2 * eigenvalues
        in_lengthscale = (-2 * self.power / self.lengthscale) * (odds / (1 + odds))
        return np.stack([in_lengthscale, -np.log1p(odds)], axis=1)

    def nth_root(self, n: int) -> RegularizedLaplacian:
        return self.replace(power=self.power / n)

    def modulation_derivatives(self, n: int, scale: float) -> np.ndarray:
        half, odds = self.power / 2, scale * self.lengthscale**2
        in_lengthscale = (np.arange(n) - half * odds) * (2 / (self.lengthscale * (1 + odds)))
        in_power = 0.5 * (coefficients.harmonic(n, half) - math.log1p(odds))
        return self.modulation_coefficients(n, scale)[:, None] * np.stack(
            [in_lengthscale, in_power], axis=1
        )


@dataclass(frozen=True, repr=False)
class Matern(_InversePower):
    r"""The Matérn kernel on a graph.

    .. math:: K = \left(\kappa I + L\right)^{-\nu}, \; \kappa = \frac{2\nu}{\ell^2}, \quad
              \alpha_r = (\kappa+s)^{-\nu} \frac{(\nu)_r}{r!} a^r, \; a = \frac{s}{\kappa+s}; \quad
              f_r \text{ the same with } \nu/2 \text{ for } \nu.

    Source: Borovitskiy et al. 2021, "Matérn Gaussian processes on graphs".

    Parameters
    ----------
    nu, lengthscale : float
        Both > 0. On a grid or mesh f has the smoothness nu - 1 of a Matérn field in the plane, on a
        line nu - 1/2: nu is the alpha of `Field`. `correlation_range` has the range in edges. For
        integers nu the inverse of K is sparse, for 1/2, 3/2 and 5/2 with hidden variables.
    laplacian : "normalized" or "combinatorial"

    Notes
    -----
    RegularizedLaplacian(l, p) = l^(-2p) Matern(nu=p, lengthscale=sqrt(2p) l). Gaussian processes
    scale the variance, kappa^-nu at most.

    Examples
    --------
    >>> import graphrf as grf
    >>> grf.Matern(nu=2.0, lengthscale=2.0).modulation(4)
    array([0.5   , 0.25  , 0.125 , 0.0625])
    """

    nu: float = 2.0
    lengthscale: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_positive("nu", "lengthscale")

    @property
    def _coefficients(self) -> tuple[float, float, float]:
        return 2 * self.nu / self.lengthscale**2, 1.0, self.nu

    def log_spectral_derivatives(self, eigenvalues: np.ndarray) -> np.ndarray:
        kappa, _, nu = self._coefficients
        ratio = kappa / (kappa + eigenvalues)
        return np.stack(
            [-np.log(kappa + eigenvalues) - ratio, (2 * nu / self.lengthscale) * ratio], axis=1
        )

    def nth_root(self, n: int) -> Matern:
        return self.replace(nu=self.nu / n, lengthscale=self.lengthscale / math.sqrt(n))

    def modulation_derivatives(self, n: int, scale: float) -> np.ndarray:
        # log f_r = -(q + r) log(kappa + s) + r log s + log (q)_r / r!, q = nu / 2
        kappa, _, nu = self._coefficients
        half = nu / 2
        in_log_kappa = -(half + np.arange(n)) * (kappa / (kappa + scale))
        in_half = coefficients.harmonic(n, half) - math.log(kappa + scale)
        in_nu = in_log_kappa / nu + 0.5 * in_half
        in_lengthscale = in_log_kappa * (-2 / self.lengthscale)
        return self.modulation_coefficients(n, scale)[:, None] * np.stack(
            [in_nu, in_lengthscale], axis=1
        )


@dataclass(frozen=True, repr=False)
class Leroux(_InversePower):
    r"""The conditional autoregression of Leroux et al.

    .. math:: K = \left((1 - \lambda) I + \lambda L\right)^{-1}.

    Given its neighbours, a node has the precision 1 - lambda + lambda d with its degree d, and the
    mean lambda times the sum of their values over that precision.

    Source: Leroux, Lei and Breslow 2000, "Estimation of disease rates in small areas: a new mixed
    model for spatial dependence".

    Parameters
    ----------
    mixing : float
        lambda in (0, 1): towards 0 the values are independent, towards 1 the field is an intrinsic
        autoregression.
    laplacian : "combinatorial" or "normalized"
        The first is the published one.

    Notes
    -----
    A function of the Laplacian, which all methods serve. Isolated nodes are independent, with
    variance 1 / (1 - lambda). Weights are compared with 1, the weight of every border in the
    published model; there is a warning if their mean is more than ten times larger or smaller.
    `BYM2` and `CAR` do not depend on their unit.

    Examples
    --------
    >>> import numpy as np, graphrf as grf
    >>> line = grf.from_edges([0, 1], [1, 2])
    >>> np.linalg.inv(grf.Leroux(mixing=0.5).dense(line)).round(6) + 0.0
    array([[ 1. , -0.5,  0. ],
           [-0.5,  1.5, -0.5],
           [ 0. , -0.5,  1. ]])
    """

    mixing: float = 0.5
    laplacian: str = field(default="combinatorial", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_proportion("mixing")

    @property
    def proportions(self) -> tuple[str, ...]:
        return ("mixing",)

    def check_graph(self, graph: Graph) -> float:
        weights = graph.adjacency.data
        if (
            self.laplacian == "combinatorial"
            and weights.size
            and not 0.1 <= (mean := float(weights.mean())) <= 10
        ):
            warn(
                f"the Leroux kernel compares weights with 1, and these have the mean {mean:.3g}, "
                "so `mixing` is no share of dependence: divide the weights by their mean, or use "
                "BYM2, which has no unit"
            )
        return super().check_graph(graph)

    @property
    def _coefficients(self) -> tuple[float, float, float]:
        return 1 - self.mixing, self.mixing, 1.0

    def log_spectral_derivatives(self, eigenvalues: np.ndarray) -> np.ndarray:
        return ((1 - eigenvalues) / (1 - self.mixing + self.mixing * eigenvalues))[:, None]

    def modulation_derivatives(self, n: int, scale: float) -> np.ndarray:
        # log f_r = -(1/2 + r) log(c + s t) + r log t + a constant
        steps = np.arange(n)
        c, t, _ = self._coefficients
        slope = steps / t - (0.5 + steps) * ((scale - 1) / (c + scale * t))
        return (self.modulation_coefficients(n, scale) * slope)[:, None]


@dataclass(frozen=True, repr=False)
class PStepRandomWalk(Kernel):
    r"""The p-step random walk kernel.

    .. math:: K = (\alpha I - L)^p, \quad \alpha_r = \binom{p}{r} u^{p-r} s^r, \; u = \alpha - s;
        \quad
              f_r = \binom{p/2}{r} u^{p/2-r} s^r.

    Source: Smola and Kondor 2003, "Kernels and regularization on graphs".

    Parameters
    ----------
    alpha : float
        Normalized Laplacian: alpha >= 2. Combinatorial: alpha >= the largest eigenvalue of L if
        `steps` is even, alpha >= 2 c if it is odd (c = 2 max(D)); these are checked when the scale
        or graph is known. As a hyperparameter alpha is trained above `hyperparameter_bounds` only.
    steps : int
        p >= 1. Even: F is the finite series (alpha I - L)^(p/2). Odd: f is infinite and signed, and
        converges only for u >= s.
    laplacian : "normalized" or "combinatorial"

    Notes
    -----
    With odd p at alpha = 2, K is singular at the eigenvalue 2 and |f_r| ~ r^(-p/2-1): for the
    default tolerance of `truncation_length` p = 1 needs 79,578 steps, p = 3 needs 21. A larger
    alpha makes the decay geometric, with ratio s / u.

    For an alpha below the scale of the combinatorial Laplacian the coefficients alternate and
    cancel (`Kernel.cancellation`), up to 3^(p/2) times their sum without self-loops. Exact products
    do not suffer by it, features by powers, which are kept in float32, warn or refuse.

    Examples
    --------
    >>> import graphrf as grf
    >>> grf.kernels.PStepRandomWalk(alpha=3.0, steps=4).modulation(4)
    array([4., 4., 1., 0.])
    """

    alpha: float = 2.0
    steps: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_positive("alpha")
        object.__setattr__(self, "steps", checks.integer("steps", self.steps, low=1))
        if self.laplacian == "normalized":
            self.check_scale(1.0)

    def check_scale(self, scale: float) -> None:
        self.check_size(self.steps * math.log(self.alpha))
        if self.laplacian == "normalized" and self.alpha < 2:
            raise checks.value_error(
                "alpha", f"must be at least 2 for the normalized Laplacian, got {self.alpha:g}"
            )
        if self.steps % 2 and self.alpha < 2 * scale:
            raise checks.value_error(
                "alpha",
                f"must be at least 2 c = {2 * scale:g} on this graph for an odd number of steps "
                f"(the series of the root diverges below), got {self.alpha:g}; raise alpha or use "
                "even `steps`",
            )

    def check_graph(self, graph: Graph) -> float:
        scale = super().check_graph(graph)
        # c bounds the eigenvalues, so only a smaller alpha needs the largest of them.
        if self.alpha < scale:
            largest = _largest_eigenvalue(graph)
            if self.alpha < largest * (1 - 1e-10):
                raise checks.value_error(
                    "alpha",
                    f"must be at least {largest:g}, the largest eigenvalue of this graph's "
                    f"combinatorial Laplacian, got {self.alpha:g}",
                )
        return scale

    def spectrum_end(self, scale: float) -> float:
        return min(self.alpha, super().spectrum_end(scale))

    def hyperparameter_bounds(self, scale: float | None = None) -> dict[str, float]:
        """alpha's lower bound: 2, or 2 c (odd steps), c (even steps) if combinatorial.

        c is a bound of the eigenvalues; an alpha that is already below it is its own bound.
        """
        scale = self.checked_scale(scale)
        if self.laplacian == "normalized" or self.steps % 2:
            return {"alpha": 2 * scale}
        return {"alpha": min(scale, self.alpha)}

    def taylor_coefficients(self, n: int, scale: float) -> np.ndarray:
        return coefficients.binomial(n, self.steps, self.alpha - scale, scale)

    def modulation_coefficients(self, n: int, scale: float) -> np.ndarray:
        return coefficients.binomial(n, self.steps / 2, self.alpha - scale, scale)

    def modulation_derivatives(self, n: int, scale: float) -> np.ndarray:
        half = self.steps / 2
        return half * coefficients.binomial(n, half - 1, self.alpha - scale, scale)[:, None]

    def modulation_remainder(self, length: int, scale: float) -> float:
        return coefficients.binomial_tail(length, self.steps / 2, self.alpha - scale, scale)

    def spectral_function(self, eigenvalues: np.ndarray, scale: float) -> np.ndarray:
        return np.asarray((self.alpha - eigenvalues) ** self.steps)

    def root_spectral_function(self, eigenvalues: np.ndarray, scale: float) -> np.ndarray:
        base = self.alpha - eigenvalues
        if self.steps % 2:  # rounding may put an eigenvalue above alpha
            base = np.maximum(base, 0.0)
        return np.asarray(base ** (self.steps / 2))

    def nth_root(self, n: int) -> PStepRandomWalk:
        if self.steps % n:
            raise checks.value_error(
                "n", f"must divide the {self.steps} steps of {self!r}, got {n}"
            )
        return self.replace(steps=self.steps // n)


def _largest_eigenvalue(graph: Graph) -> float:
    laplacian = graph.laplacian(normalized=False)
    if graph.n_nodes <= 64:
        return float(np.linalg.eigvalsh(laplacian.toarray())[-1])
    # The start is fixed, so that the answer is the same every time.
    start = np.random.default_rng(0).standard_normal(graph.n_nodes)
    top = scipy.sparse.linalg.eigsh(laplacian, k=1, which="LA", v0=start, return_eigenvectors=False)
    return float(top[0])


@dataclass(frozen=True, repr=False)
class InverseCosine(Kernel):
    r"""The inverse cosine kernel, on the normalized Laplacian only.

    .. math:: K = \cos(\tfrac{\pi}{4} L), \quad
              \alpha_r = \frac{(\pi/4)^r}{\sqrt 2 \, r!} \text{ with signs } + + - -, \quad
              f = \text{the root series, } f_r \approx -(-1)^r r^{-3/2} / 4.

    f decays slowly because K is singular at the eigenvalue 2: `truncation_length(1e-2)` is 885, and
    of 1e-3 about 88,000. Use `graphrf.apply_kernel`, or truncated walks with their error stated.

    Source: Smola and Kondor 2003, "Kernels and regularization on graphs".

    Examples
    --------
    >>> import graphrf as grf
    >>> grf.kernels.InverseCosine().modulation(4).round(4)
    array([ 0.8409,  0.3302, -0.1945,  0.0424])
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.laplacian != "normalized":
            raise checks.value_error(
                "laplacian",
                "must be 'normalized' for InverseCosine, got 'combinatorial': cos(pi L / 4) is "
                "indefinite as soon as an eigenvalue of L exceeds 2",
            )

    def taylor_coefficients(self, n: int, scale: float) -> np.ndarray:
        return coefficients.inverse_cosine(n)

    def modulation_coefficients(self, n: int, scale: float) -> np.ndarray:
        return coefficients.inverse_cosine_root(n)

    def modulation_remainder(self, length: int, scale: float) -> float:
        return coefficients.inverse_cosine_root_tail(length)

    def spectral_function(self, eigenvalues: np.ndarray, scale: float) -> np.ndarray:
        return np.asarray(np.cos(np.pi / 4 * eigenvalues))

    def root_spectral_function(self, eigenvalues: np.ndarray, scale: float) -> np.ndarray:
        return np.asarray(np.sqrt(np.maximum(np.cos(np.pi / 4 * eigenvalues), 0.0)))
