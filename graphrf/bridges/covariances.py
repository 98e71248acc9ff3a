"""Covariances whose density takes one sparse factor: powers of a pencil, and BYM2."""

from __future__ import annotations

import math

import numpy as np

from graphrf._base.cached import cached_property
from graphrf.bridges.pencil import Pencil
from graphrf.graph.graph import Graph
from graphrf.kernels.areal import BYM2, CAR, ICAR
from graphrf.kernels.kernel import Kernel
from graphrf.operators.precision.areal import IntrinsicPrecision
from graphrf.operators.sparse.cholesky import SparseCholesky


class Powers:
    """K = B^-q with B = a diag(m) + b L and integer q: what its hyperparameters share."""

    def __init__(self, graph: Graph, kernel: Kernel) -> None:
        laplacian = graph.laplacian(kernel.laplacian == "normalized")
        self.pencil = Pencil(
            laplacian.diagonal() if isinstance(kernel, CAR) else np.ones(graph.n_nodes), laplacian
        )

    def at(self, kernel: Kernel) -> PowerCovariance:
        """The covariance of a kernel of the same class."""
        return PowerCovariance(self.pencil, kernel)


class PowerCovariance:
    r"""K = B^-q for one kernel.

    .. math:: \partial \log |K| = -q \, \mathrm{tr}(B^{-1} \partial B), \quad
              \partial (x^\top K^{-1} x) = q \, x^\top (\partial B) B^{q-1} x.
    """

    def __init__(self, pencil: Pencil, kernel: Kernel) -> None:
        self._pencil, self._kernel = pencil, kernel
        self._a, self._b, power = _coefficients(kernel)
        self._power = int(power)
        self._factor = pencil.factor(self._a, self._b)
        self.log_determinant = -self._power * self._factor.log_determinant

    def solve(self, x: np.ndarray) -> np.ndarray:
        """K^-1 x."""
        return self._raised(self._power, x)

    def slopes(self, x: np.ndarray, solved: np.ndarray, name: str) -> tuple[float, float]:
        """The derivatives of log |K| and x^T K^-1 x in a hyperparameter, with `solved` = K^-1 x.

        B commutes with its own derivatives where q > 1, as m is 1 there.
        """
        da, db = _coefficient_slopes(self._kernel, name)
        own, rest = self._traces
        quadratic = x @ self._times(da, db, self._raised(self._power - 1, x))
        return -self._power * (da * own + db * rest), self._power * float(quadratic)

    def draws(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Independent columns, (N, n): q / 2 solves, of which the last is half one for odd q."""
        columns = rng.standard_normal((self._pencil.diagonal.size, n))
        if self._power % 2:
            columns = self._factor.root(columns)
        for _ in range(self._power // 2):
            columns = self._factor.solve(columns)
        return columns

    @cached_property
    def _traces(self) -> tuple[float, float]:
        return self._pencil.traces(self._factor)

    def _raised(self, power: int, x: np.ndarray) -> np.ndarray:
        """B to a power, times x."""
        for _ in range(power):
            x = self._times(self._a, self._b, x)
        return x

    def _times(self, a: float, b: float, x: np.ndarray) -> np.ndarray:
        return np.asarray(a * self._pencil.diagonal * x + b * (self._pencil.matrix @ x))


def _coefficients(kernel: Kernel) -> tuple[float, float, float]:
    """a, b and q."""
    if isinstance(kernel, CAR):
        return 1 - kernel.dependence, kernel.dependence, 1.0
    assert kernel.inverse_power is not None
    return kernel.inverse_power


def _coefficient_slopes(kernel: Kernel, name: str) -> tuple[float, float]:
    """The derivatives of a and b, by those of log K = -q log(a + b L) at L = 0 and 1."""
    if isinstance(kernel, CAR):
        return -1.0, 1.0
    a, b, power = _coefficients(kernel)
    slopes = kernel.log_spectral_derivatives(np.array([0.0, 1.0]))
    assert slopes is not None
    at_zero, at_one = slopes[:, list(kernel.hyperparameters).index(name)]
    da = float(-at_zero * a / power)
    return da, float(-at_one * (a + b) / power) - da


class Mixtures:
    """K = (1 - phi) I + phi S of `BYM2`: what all phi share."""

    def __init__(self, graph: Graph, kernel: Kernel) -> None:
        self.structured = IntrinsicPrecision(graph, ICAR())
        intrinsic = self.structured.intrinsic
        self.pencil = Pencil(np.ones(graph.n_nodes), intrinsic.precision)
        self.n_constraints = self.structured.constraints.shape[0]

    def at(self, kernel: Kernel) -> MixedCovariance:
        """The covariance of a `BYM2`."""
        assert isinstance(kernel, BYM2)
        return MixedCovariance(self, kernel.mixing)

    @cached_property
    def draws_of_structured(self) -> SparseCholesky:
        """The factor by which the structured part is drawn."""
        return self.structured.factor()


class MixedCovariance:
    r"""K = (1 - phi) I + phi S for one phi, with the structured part integrated out.

    S is the inverse of Q on the k-fold constrained subspace, to which P projects, and constant
    fields of a component are null vectors of Q. So with w = phi / (1 - phi)

    .. math:: K^{-1} x = \frac{(I - P) x + Q (Q + w I)^{-1} P x}{1 - \varphi}, \quad
              \log |K| = N \log(1 - \varphi) + \log |Q + w I| - k \log w - \log |Q|_P,

    and the derivative of K is (K - I) / phi.
    """

    def __init__(self, shared: Mixtures, mixing: float) -> None:
        self._shared, self._mixing = shared, mixing
        self._odds, self._n = mixing / (1 - mixing), shared.pencil.diagonal.size
        self._factor = shared.pencil.factor(self._odds, 1.0)
        own = self._factor.log_determinant - shared.n_constraints * math.log(self._odds)
        own -= shared.structured.intrinsic.log_determinant
        self.log_determinant = self._n * math.log1p(-mixing) + own

    def solve(self, x: np.ndarray) -> np.ndarray:
        """K^-1 x."""
        free = self._shared.structured.unconstrained(x[:, None])[:, 0]
        smooth = self._shared.pencil.matrix @ self._factor.solve(free)
        return np.asarray((x - free + smooth) / (1 - self._mixing))

    def slopes(self, x: np.ndarray, solved: np.ndarray, name: str) -> tuple[float, float]:
        """The derivatives of log |K| and x^T K^-1 x in phi."""
        free = self._trace - self._shared.n_constraints / self._odds
        log_determinant = (free * (1 + self._odds) - self._n) / (1 - self._mixing)
        return log_determinant, float(solved @ (solved - x)) / self._mixing

    def draws(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Columns: an unstructured part and a structured one."""
        own, normal = rng.standard_normal((2, self._n, n))
        structured = self._shared.draws_of_structured.root(normal)
        return np.asarray(math.sqrt(1 - self._mixing) * own + math.sqrt(self._mixing) * structured)

    @cached_property
    def _trace(self) -> float:
        return self._shared.pencil.traces(self._factor)[0]


FieldCovariance = PowerCovariance | MixedCovariance
