r"""The posterior of lengthscale, output scale and noise on a grid, by one eigendecomposition for each lengthscale.

Kernels with a share instead of a lengthscale have its odds on that axis.

With Q diag(w) Q^T the eigendecomposition of K at a lengthscale, the covariance of the observations is
Q diag(sigma^2 w + s) Q^T for every output scale sigma^2 and noise s, so that all of their values cost little more
than one. That finds every maximum of the likelihood that is wider than a cell, tells kernels apart by their
evidence, and gives the points over which predictions are averaged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from graphrf._base.cached import cached_property
from graphrf.gp.inference.observations import Observations
from graphrf.gp.likelihoods import Likelihood
from graphrf.gp.prior import HyperparameterPrior
from graphrf.gp.training.likelihood_search import Block, Divisor
from graphrf.gp.training.ranges import NOISES, OUTPUT_SCALES
from graphrf.kernels.kernel import Kernel

# Factors between neighbouring lengthscales, and numbers of output scales and noises.
_LENGTHSCALE_FACTOR = 2.0
_SCALES = 19
_NOISES = 19
# Cells along each axis of a grid on the part that holds the probability, and the share of the largest marginal
# probability below which an axis is cut.
_FINE = (7, 13, 13)
_CUT = 1e-3
# Eigenvalues of K below the second share of its mean variance are taken for the first.
_ROUNDING, _NEGATIVE = 1e-9, 1e-6
# Keeps what the observations do not tell of the mean's coefficients finite.
_RIDGE = 1e-12
# Lengthscales beyond two whose peaks are so many nats lower than the highest are not looked at.
_HOPELESS = 30.0
# Maxima that are so many nats lower than the largest are not worth a search.
_WORTH = 6.0


class GridCell(NamedTuple):
    """One set of hyperparameters.

    Attributes
    ----------
    kernel : Kernel
    amplitude : float
        What multiplies the kernel as it is.
    output_scale, noise : float
    weight : float
        Its posterior probability.
    likelihood : Likelihood or None
        Where it is not normal, with its parameters.
    observations : Observations or None
        Those of normal noise whose posterior is then Laplace's.
    """

    kernel: Kernel
    amplitude: float
    output_scale: float
    noise: float
    weight: float
    likelihood: Likelihood | None = None
    observations: Observations | None = None


class Cells(Protocol):
    """Sets of hyperparameters with the logarithms of their probabilities, up to a constant."""

    posterior: np.ndarray

    def cell(self, index: int, weight: float) -> GridCell:
        """The set at a position in the flattened posterior."""
        ...


@dataclass(frozen=True)
class Axes:
    """The values on a grid, each axis in equal steps of the logarithm.

    Attributes
    ----------
    lengthscales, scales, noises : ndarray
        One value where a parameter is fixed; the first empty where the kernel stays as it is.
    name : str
        Whose values the first are: "lengthscale", or a share, whose odds they are.
    """

    lengthscales: np.ndarray
    scales: np.ndarray
    noises: np.ndarray
    name: str = "lengthscale"

    @classmethod
    def of(
        cls,
        kernel: Kernel,
        ranges: Mapping[str, tuple[float, float]],
        output_scale: float | None,
        noise: float | None,
        unit: float,
    ) -> Axes:
        """The whole range of a search, `ranges` of the kernel's parameters; None seeks a variance."""
        lengths: np.ndarray = np.zeros(0)
        name = next((name for name in ("lengthscale", *kernel.shares) if name in ranges), "")
        if name:
            low, high = ranges[name]
            if name in kernel.shares:
                low, high = low / (1 - low), high / (1 - high)
            lengths = low * _LENGTHSCALE_FACTOR ** np.arange(1 + int(math.log(high / low, _LENGTHSCALE_FACTOR)))
        return cls(
            lengths,
            unit * np.geomspace(*OUTPUT_SCALES, _SCALES) if output_scale is None else np.array([output_scale]),
            unit * np.geomspace(*NOISES, _NOISES) if noise is None else np.array([noise]),
            name,
        )

    def moved(self, kernel: Kernel) -> list[Kernel]:
        """The kernel at each value of the first axis."""
        values = self.lengthscales
        if self.name in kernel.shares:
            values = values / (1 + values)
        return [kernel.replace(**{self.name: float(value)}) for value in values] or [kernel]

    @property
    def log_cell(self) -> float:
        """The logarithm of the volume of a cell in logarithms of the parameters."""
        steps = [math.log(axis[1] / axis[0]) for axis in self._each if axis.size > 1]
        return float(np.log(steps).sum())

    def around(self, posterior: np.ndarray) -> Axes:
        """Finer axes over the part that holds the probability."""
        fine = []
        for number, (axis, size) in enumerate(zip(self._each, _FINE, strict=True)):
            marginal = log_sum_exp(posterior, axis=tuple(other for other in range(3) if other != number))
            kept = np.flatnonzero(marginal >= marginal.max() + math.log(_CUT))
            low, high = max(kept[0] - 1, 0), min(kept[-1] + 1, marginal.size - 1)
            fine.append(np.geomspace(axis[low], axis[high], size) if axis.size > 1 else axis)
        return Axes(fine[0], fine[1], fine[2], self.name)

    @property
    def _each(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.lengthscales, self.scales, self.noises


class HyperparameterGrid:
    """Log posterior densities of one kernel's hyperparameters on a grid.

    Parameters
    ----------
    blocks : sequence of Block
        Independent of each other but for the mean.
    kernel : Kernel
    axes : Axes
    divisor : Divisor
    unit, length_unit : float
        Of variances and lengthscales.
    prior : HyperparameterPrior

    Attributes
    ----------
    likelihood, posterior : ndarray, shape (lengthscales, output scales, noises)
        Logarithms; the second, of a cell's probability up to a constant that all kernels share.

    Notes
    -----
    Time: an eigendecomposition of each block, about 9 m^3 multiply-adds, for each lengthscale, from the shortest
    on until they are hopeless.
    """

    def __init__(
        self,
        blocks: Sequence[Block],
        kernel: Kernel,
        axes: Axes,
        *,
        divisor: Divisor,
        unit: float,
        length_unit: float,
        prior: HyperparameterPrior,
    ) -> None:
        self._kernel = kernel
        self._divisor, self._prior = divisor, prior
        self._unit, self._length_unit = unit, length_unit
        self._axes = axes
        self._scales, self._noises = axes.scales, axes.noises
        self._kernels = axes.moved(kernel)
        density = np.zeros((self._scales.size, self._noises.size)) + axes.log_cell
        if self._scales.size > 1:
            density = density + prior.log_density("output_scale", np.log(self._scales)[:, None], unit)[0]
        if self._noises.size > 1:
            density = density + prior.log_density("noise", np.log(self._noises), unit)[0]
        self._divisors, likelihoods, densities = [], [], []
        self._observations = observations = [block.observations for block in blocks]
        peaks: list[float] = []  # of the lengthscales so far
        for number, member in enumerate(self._kernels):
            own: Any = 0.0
            if axes.lengthscales.size:
                length = length_unit if axes.name == "lengthscale" else 1.0
                own = prior.log_density(axes.name, math.log(axes.lengthscales[number]), length)[0]
            densities.append(density + own)
            if max(peaks[-2:], default=np.inf) < max(peaks, default=np.inf) - _HOPELESS:
                # what is longer still is less probable, and its series would take the most products
                self._divisors.append(np.nan)
                likelihoods.append(np.full(density.shape, -np.inf))
                continue
            given = [block.gram(member, ()) for block in blocks]
            by, _ = divisor(member, (), given)
            self._divisors.append(by)
            if not (np.isfinite(by) and by > 0):  # the modulation underflows
                likelihoods.append(np.full(density.shape, -np.inf))
            else:
                likelihoods.append(self._likelihoods([matrix / by for matrix, _ in given], observations))
            peaks.append(float((likelihoods[-1] + densities[-1]).max()))
        self.likelihood = np.array(likelihoods)
        self.posterior = self.likelihood + np.array(densities)
        self._density, self._densities = density, np.array(densities)

    def finer(self, blocks: Sequence[Block]) -> HyperparameterGrid:
        """A grid of smaller cells on the part that holds the probability, for these blocks."""
        return HyperparameterGrid(
            blocks,
            self._kernel, self._axes.around(self.posterior), divisor=self._divisor, unit=self._unit,
            length_unit=self._length_unit, prior=self._prior,
        )  # fmt: skip

    @cached_property
    def log_null_evidence(self) -> float:
        """The logarithm of the mean likelihood of independent values under the same prior of variances."""
        return float(log_sum_exp(self._independent + self._density) - log_sum_exp(self._density))

    @property
    def noise_alone(self) -> float:
        """The noise variance if y is its mean function and noise: its average over the likelihood on the grid."""
        likelihood = self._independent[0]  # of the smallest output scale
        return float(np.exp(likelihood - log_sum_exp(likelihood)) @ self._noises)

    @cached_property
    def _independent(self) -> np.ndarray:
        """The log likelihood of independent values for every output scale and noise."""
        return self._likelihoods([np.eye(block.nodes.size) for block in self._observations], self._observations)

    @property
    def log_evidence(self) -> float:
        """The logarithm of the likelihood's mean under the prior, up to a constant that all kernels share."""
        return float(log_sum_exp(self.posterior))

    @property
    def log_peak(self) -> float:
        """The largest log likelihood times prior density on the grid."""
        return float(self.posterior.max()) - self._axes.log_cell

    @property
    def log_bayes_factor(self) -> float:
        """Of the kernel against independent values."""
        return self.log_evidence - float(log_sum_exp(self._densities)) - self.log_null_evidence

    def maxima(self, most: int) -> list[tuple[Kernel, float, float]]:
        """Kernel, output scale and noise of the largest local maxima of the posterior, best first."""
        padded = np.pad(self.posterior, 1, constant_values=-np.inf)
        inner = (slice(1, -1),) * 3
        peaks = np.isfinite(self.posterior)
        for axis in range(3):
            for shift in (-1, 1):
                peaks &= self.posterior >= np.roll(padded, shift, axis)[inner]
        cells = np.argwhere(peaks & (self.posterior >= self.posterior.max() - _WORTH))
        order = sorted(cells.tolist(), key=lambda cell: -self.posterior[tuple(cell)])[:most]
        return [(self._kernels[i], float(self._scales[j]), float(self._noises[k])) for i, j, k in order]

    def cell(self, index: int, weight: float) -> GridCell:
        """The cell of a position in the flattened posterior."""
        i, j, k = np.unravel_index(index, self.posterior.shape)
        scale = float(self._scales[j])
        return GridCell(self._kernels[i], scale / self._divisors[i], scale, float(self._noises[k]), weight)

    def _likelihoods(self, matrices: Sequence[np.ndarray], blocks: Sequence[Observations]) -> np.ndarray:
        """The log likelihood for every output scale and noise, shape (output scales, noises).

        All is computed for y over the root of its unit, so that no square leaves float64.
        """
        unit = self._unit
        outputs, columns = blocks[0].means.shape[1], blocks[0].basis.shape[1]
        cells = self._scales.size * self._noises.size
        noises = np.tile(self._noises / unit, self._scales.size)
        value, squares = np.zeros(cells), np.zeros(cells)
        inner, outer = np.zeros((cells, columns, columns)), np.zeros((cells, columns, outputs))
        for matrix, block in zip(matrices, blocks, strict=True):
            block = block.over(math.sqrt(unit))
            value -= 0.5 * outputs * block.n_total * math.log(unit)
            roots = np.sqrt(block.counts)
            eigenvalues, vectors = np.linalg.eigh(matrix * roots * roots[:, None])
            mean = max(float(np.trace(matrix)) / roots.size, 0.0)
            rounded = np.abs(eigenvalues) <= _NEGATIVE * mean  # what is more negative has been cut, not rounded
            eigenvalues[rounded] = np.maximum(eigenvalues[rounded], _ROUNDING * mean)
            signal = np.multiply.outer(self._scales / unit, eigenvalues)
            variances = np.repeat(signal, self._noises.size, axis=0) + noises[:, None]
            indefinite = (variances <= 0).any(axis=1)
            value[indefinite] = -np.inf
            variances[indefinite] = 1.0
            y, h = vectors.T @ (roots[:, None] * block.means), vectors.T @ (roots[:, None] * block.basis)
            inverse = 1 / variances
            squares += inverse @ np.square(y).sum(axis=1)
            inner += (inverse @ (h[:, :, None] * h[:, None, :]).reshape(h.shape[0], -1)).reshape(inner.shape)
            outer += (inverse @ (h[:, :, None] * y[:, None, :]).reshape(h.shape[0], -1)).reshape(outer.shape)
            value += block.log_constant(noises) - 0.5 * outputs * np.log(variances).sum(axis=1)
        if columns:
            size = np.sqrt(np.maximum(np.einsum("cii->ci", inner), np.finfo(np.float64).tiny))
            inner = inner / (size[:, :, None] * size[:, None, :]) + _RIDGE * np.eye(columns)
            outer = outer / size[:, :, None]
            squares = squares - (outer * np.linalg.solve(inner, outer)).sum(axis=(1, 2))
        return (value - 0.5 * squares).reshape(self._scales.size, self._noises.size)


def representatives(grids: Sequence[Cells], n: int) -> list[GridCell]:
    """About n cells that stand for the posterior over all grids, by systematic sampling of ordered cells.

    Every stretch of cells (by kernel, lengthscale, output scale and noise) with a share p of the probability holds
    n p of them, rounded up or down, so that averages over them have far smaller errors than over independent
    draws.
    """
    log = np.concatenate([grid.posterior.ravel() for grid in grids])
    cumulated = np.cumsum(np.exp(log - log_sum_exp(log)))
    chosen = np.searchsorted(cumulated, (np.arange(n) + 0.5) / n * cumulated[-1])
    distinct, counts = np.unique(np.minimum(chosen, log.size - 1), return_counts=True)
    starts = np.cumsum([0, *(grid.posterior.size for grid in grids)])
    found = []
    for position, count in zip(distinct, counts, strict=True):
        which = int(np.searchsorted(starts, position, side="right")) - 1
        found.append(grids[which].cell(int(position - starts[which]), float(count) / n))
    return found


def log_sum_exp(values: Any, axis: tuple[int, ...] | None = None) -> np.ndarray:
    """log(sum(exp(values))) over some axes, for arrays so small that scipy's checks take most of its time."""
    values = np.asarray(values, dtype=np.float64)
    largest = values.max(axis=axis, keepdims=True)
    largest = np.where(np.isfinite(largest), largest, 0.0)
    with np.errstate(divide="ignore"):  # of nothing but -inf
        return np.asarray(np.log(np.exp(values - largest).sum(axis=axis)) + largest.squeeze(axis))
