r"""Priors along an axis: autoregressions, random walks, a seasonal pattern, and a Matern process.

With increments d between neighbouring levels in units of the usual step, x has

.. math:: \text{ar1: } x_{k+1} = \rho^{d} x_k + \sqrt{1 - \rho^{2d}}\, e, \quad
          \text{rw1: } x_{k+1} - x_k = \sqrt{d}\, e, \quad
          \text{rw2: } x_{k+1} - 2 x_k + x_{k-1} = e, \quad
          \text{seasonal: } x_k + \dots + x_{k+s-1} = e,

with independent standard normal e. Random walks sum to zero and are scaled: the geometric mean of
their variances (of rw2 without its slope) is 1 (Sorbye and Rue 2014), so that a deviation means the
same for all numbers of levels.

Source: Rue and Held 2005, "Gaussian Markov Random Fields", Ch. 3.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp
from scipy.special import gammainc

from graphrf.gp.search.coordinates import Parameter
from graphrf.gp.terms.structure import Structure, Values, no_constraints
from graphrf.gp.time.kernels import MaternTime

# The deviation of what a prior leaves open, in units of the linear predictor: as good as flat.
FLAT = 1e3


class Autoregression(Structure):
    """ar1: stationary, with variance 1."""

    def __init__(self, increments: np.ndarray, correlation: Parameter) -> None:
        self.size = increments.size + 1
        self.parameters = (correlation,)
        self.constraints = no_constraints(self.size)
        self._increments = increments

    def precision(self, values: Values) -> sp.csr_array:
        rho = values[self.parameters[0].name]
        own = np.sign(rho) ** np.round(self._increments) * abs(rho) ** self._increments
        rest = 1 / self._unexplained(rho)
        diagonal = np.concatenate([[1.0], rest])
        diagonal[:-1] += own**2 * rest
        return _tridiagonal(diagonal, -own * rest)

    def log_determinant(self, values: Values) -> float:
        return -float(np.log(self._unexplained(values[self.parameters[0].name])).sum())

    def _unexplained(self, rho: float) -> np.ndarray:
        """The variance of each value given the one before."""
        return np.asarray(-np.expm1(2 * self._increments * math.log(max(abs(rho), 1e-300))))


class RandomWalk(Structure):
    """rw1 or rw2, whose values sum to zero.

    The slope of rw2, the difference of its ends, has a flat prior; where `closed`, it is 0.
    """

    def __init__(
        self,
        increments: np.ndarray,
        order: int,
        *,
        closed: bool = False,
        template: RandomWalk | None = None,
    ) -> None:
        n = increments.size + 1
        self.size = n
        self.scale = 1.0

        if order == 1:
            roots = 1 / np.sqrt(increments)
            steps = sp.diags_array([-roots, roots], offsets=[0, 1], shape=(n - 1, n))
            root = np.tril(np.ones((n, n - 1)), -1) * np.sqrt(increments)
        else:
            ones = np.ones(n - 2)
            steps = sp.diags_array([ones, -2 * ones, ones], offsets=[0, 1, 2], shape=(n - 2, n))
            root = np.subtract.outer(np.arange(n), np.arange(1.0, n - 1)).clip(0)

        plain = sp.csr_array(steps.T @ steps)
        if template is not None:
            self._matrix = sp.csr_array(template.scale * plain)
            return

        # x = R e with D R = I for the differences D, less its polynomial
        trends = np.linalg.qr(np.vander(np.linspace(-1, 1, n), order))[0]
        root -= trends @ (trends.T @ root)
        self.scale = math.exp(float(np.log((root**2).sum(axis=1)).mean()))

        # |D D^T|: the matrix tree theorem, and for rw2 its analogue.
        determinant = math.log(n) - float(np.log(increments).sum())

        # The level and the slope in the middle, where they are independent of each other.
        middle, held = np.zeros((order, n)), np.ones((order, n))
        middle[0, [(n - 1) // 2, n // 2]] = 0.5 + 0.5 * (n % 2)
        if order == 2:
            held[1] = np.arange(n) - 0.5 * (n - 1)
            right = n // 2 + n % 2
            middle[1, [n - 1 - right, right]] = np.array([-0.5, 0.5]) / held[1, right]
            determinant = math.log(n**2 * (n**2 - 1) / 12)
            if not closed:
                ends = np.zeros((1, n))
                ends[0, [0, -1]] = -1.0, 1.0
                self.flat, self.n_flat = sp.csr_array(ends.T @ ends) / FLAT**2, 1
                determinant = math.log(n * (n - 1) ** 2 / FLAT**2)
                middle, held = middle[:1], held[:1]

        self.constraints = sp.csr_array(held)
        self._log_determinant = determinant + (n - order) * math.log(self.scale)

        # c b^T + b c^T is 0 where c x = 0; with a small b, the matrix is definite.
        variances = np.maximum(((middle @ root) ** 2).sum(axis=1) / self.scale, n**-2.0)
        lift = (middle.T / (variances * (held**2).sum(axis=1))) @ held
        self._matrix = sp.csr_array(self.scale * plain + sp.csr_array(lift + lift.T))

    def precision(self, values: Values) -> sp.csr_array:
        return self._matrix

    def log_determinant(self, values: Values) -> float:
        return self._log_determinant


class Seasonal(Structure):
    """Sums over a period are near 0; the pattern itself has a flat prior."""

    def __init__(self, size: int, period: int) -> None:
        self.size = size
        self.constraints = no_constraints(size)
        sums = sp.diags_array(
            [np.ones(size)] * period, offsets=range(period), shape=(size - period + 1, size)
        )
        self._matrix = sp.csr_array(sums.T @ sums)
        first = np.zeros(size)
        first[: period - 1] = FLAT**-2
        self.flat, self.n_flat = sp.csr_array(sp.diags_array(first)), period - 1
        self._log_determinant = super().log_determinant({})

    def precision(self, values: Values) -> sp.csr_array:
        return self._matrix

    def log_determinant(self, values: Values) -> float:
        return self._log_determinant


class MaternSteps(Structure):
    """A Matern process of smoothness 1/2 or 3/2 with variance 1: values, then derivatives."""

    def __init__(self, times: np.ndarray, lengthscale: Parameter, nu: float) -> None:
        self._unit = float(np.ptp(times))  # so that seconds since 1970 are as good as days
        self._increments, self._nu = np.diff(times) / self._unit, nu
        self._states = int(nu + 0.5)
        self.size = self._states * times.size
        self.parameters = (lengthscale,)
        self.constraints = no_constraints(self.size)

    def precision(self, values: Values) -> sp.csr_array:
        d, m = self._states, self._increments.size
        transitions, noise, stationary = self._law(values)
        inverse = np.linalg.inv(noise)
        blocks = np.zeros((m + 1, d, d))
        blocks[0] = np.linalg.inv(stationary)
        blocks[1:] = inverse
        blocks[:-1] += transitions.transpose(0, 2, 1) @ inverse @ transitions
        beside = -inverse @ transitions  # row k + 1, column k
        rows, columns = [], []
        data: list[np.ndarray] = []
        for a in range(d):
            for b in range(d):
                at = np.arange(m + 1)
                rows += [a * (m + 1) + at, a * (m + 1) + at[1:], b * (m + 1) + at[:-1]]
                columns += [b * (m + 1) + at, b * (m + 1) + at[:-1], a * (m + 1) + at[1:]]
                data += [blocks[:, a, b], beside[:, a, b], beside[:, a, b]]
        places = np.concatenate(rows), np.concatenate(columns)
        return sp.csr_array((np.concatenate(data), places), shape=(self.size, self.size))

    def log_determinant(self, values: Values) -> float:
        _, noise, stationary = self._law(values)
        total = np.linalg.slogdet(noise)[1].sum() + np.linalg.slogdet(stationary)[1]
        return -float(total)

    def _law(self, values: Values) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Transitions T, covariances S - T S T^T of the rest, and the stationary covariance S."""
        kernel = MaternTime(values[self.parameters[0].name] / self._unit, self._nu)
        transitions, stationary = kernel.transition(self._increments), kernel.stationary()
        x = 2 * math.sqrt(2 * self._nu) / kernel.lengthscale * self._increments
        noise = np.empty_like(transitions)
        if self._states == 1:
            noise[:, 0, 0] = -np.expm1(-x)
        else:
            # Without differences, of which rounding leaves nothing where increments are small.
            noise[:, 0, 0] = gammainc(3, x)
            noise[:, 0, 1] = noise[:, 1, 0] = 0.5 * x**2 * np.exp(-x)
            noise[:, 1, 1] = noise[:, 0, 0] + 2 * x * np.exp(-x)
        return transitions, noise, stationary


def _tridiagonal(diagonal: np.ndarray, beside: np.ndarray) -> sp.csr_array:
    """A symmetric matrix with all of its entries, zeros too, in one pattern for all values."""
    n = diagonal.size
    at = np.arange(n)
    places = np.concatenate([at, at[1:], at[:-1]]), np.concatenate([at, at[:-1], at[1:]])
    return sp.csr_array((np.concatenate([diagonal, beside, beside]), places), shape=(n, n))
