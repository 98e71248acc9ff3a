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
from graphrf._base.threads import ordered_map
from graphrf.gp.inference.observations import Observations
from graphrf.gp.likelihoods import Likelihood
from graphrf.gp.prior import HyperparameterPrior
from graphrf.gp.training.likelihood_search import Block, Divisor
from graphrf.gp.training.parameters import NOISES, OUTPUT_SCALES
from graphrf.kernels.kernel import Kernel

# Factors between neighbouring lengthscales, at most, and numbers of output scales and noises.
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

    @property
    def posterior(self) -> np.ndarray:
        """The logarithms."""
        ...

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
            lengths = np.geomspace(low, high, 1 + math.ceil(math.log(high / low, _LENGTHSCALE_FACTOR)))
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

    def around(
        self, posterior: np.ndarray, longest: float, noises: Sequence[float] = (), further: bool = False
    ) -> Axes:
        """Finer axes over the part that holds the probability, with lengthscales up to the longest.

        Where the longest so far is still probable, they may be twice as long, or as long as any if they go
        `further`. The axis of noises reaches the given ones, too.
        """
        fine = []
        for number, (axis, size) in enumerate(zip(self._each, _FINE, strict=True)):
            marginal = log_sum_exp(posterior, axis=tuple(other for other in range(3) if other != number))
            kept = np.flatnonzero(marginal >= marginal.max() + math.log(_CUT))
            if number == 2 and axis.size > 1:
                kept = np.append(kept, np.searchsorted(axis, noises).clip(max=axis.size - 1))
                kept.sort()
            low, high = max(kept[0] - 1, 0), min(kept[-1] + 1, marginal.size - 1)
            if axis.size > 1:
                last = axis[high]
                if number == 0 and self.name == "lengthscale":
                    if kept[-1] == marginal.size - 1:
                        last = longest if further else _LENGTHSCALE_FACTOR * last
                    last = min(last, longest)
                axis = np.geomspace(min(axis[low], 0.5 * last), last, size)
            fine.append(axis)
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
    leave_out : bool
        Whether `log_left_out` is wanted.
    n_threads : int
        That evaluate K at several lengthscales at a time; 1 unless the blocks' K may be evaluated so.

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
        leave_out: bool = False,
        n_threads: int = 1,
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
        self._left_out: list[np.ndarray] = []
        self._observations = observations = [block.observations for block in blocks]
        peaks: list[float] = []  # of the lengthscales so far
        matrices = ordered_map(
            lambda kernel: [block.gram(kernel, ()) for block in blocks], self._kernels, n_threads
        )
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
            given = next(matrices)
            by, _ = divisor(member, (), given)
            self._divisors.append(by)
            if not (np.isfinite(by) and by > 0):  # the modulation underflows
                likelihoods.append(np.full(density.shape, -np.inf))
            else:
                parts = self._parts([matrix / by for matrix, _ in given], observations, axes)
                likelihoods.append(self._likelihoods(parts))
            here = (likelihoods[-1] + densities[-1]).ravel()
            peaks.append(float(here.max()))
            if leave_out and np.isfinite(peaks[-1]):
                probable = np.flatnonzero(here >= max(peaks) + math.log(_CUT))
                self._left_out.append(here[probable] + left_out([part.of(probable) for part in parts]).sum(axis=1))
        self.likelihood = np.array(likelihoods)
        self.posterior = self.likelihood + np.array(densities)
        self._density, self._densities = density, np.array(densities)

    def finer(
        self,
        blocks: Sequence[Block],
        longest: float,
        noises: Sequence[float] = (),
        *,
        further: bool = False,
        n_threads: int = 1,
    ) -> HyperparameterGrid:
        """A grid of smaller cells on the part that holds the probability, for these blocks.

        `longest` is the longest lengthscale that they serve; `noises` and `further` see `Axes.around`.
        """
        return HyperparameterGrid(
            blocks, self._kernel, self._axes.around(self.posterior, longest, noises, further),
            divisor=self._divisor, unit=self._unit, length_unit=self._length_unit, prior=self._prior,
            n_threads=n_threads,
        )  # fmt: skip

    def left_out_at(
        self, blocks: Sequence[Block], kernel: Kernel, output_scale: float, noise: float
    ) -> np.ndarray:
        """The log density of what was observed at each node given all others, at one set of hyperparameters."""
        given = [block.gram(kernel, ()) for block in blocks]
        by, _ = self._divisor(kernel, (), given)
        axes = Axes(np.zeros(0), np.array([output_scale]), np.array([noise]))
        parts = self._parts([matrix / by for matrix, _ in given], [block.observations for block in blocks], axes)
        return left_out(parts)[0]

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
        matrices = [np.eye(block.nodes.size) for block in self._observations]
        return self._likelihoods(self._parts(matrices, self._observations, self._axes))

    @property
    def log_evidence(self) -> float:
        """The logarithm of the likelihood's mean under the prior, up to a constant that all kernels share."""
        return float(log_sum_exp(self.posterior))

    @property
    def noises(self) -> np.ndarray:
        """The values of the noise."""
        return self._noises

    @property
    def log_noise_marginal(self) -> np.ndarray:
        """The logarithms of their probabilities, shape (noises,)."""
        return log_sum_exp(self.posterior, axis=(0, 1)) - self.log_evidence

    @property
    def log_left_out(self) -> float:
        """The logarithm of p(y_i | all others), multiplied over nodes i, averaged over the posterior."""
        return float(log_sum_exp(np.concatenate(self._left_out))) - self.log_evidence

    @property
    def log_peak(self) -> float:
        """The largest log likelihood times prior density on the grid."""
        return float(self.posterior.max()) - self._axes.log_cell

    def bound_at(self, lengthscale: float) -> float:
        """The log evidence with lengthscales up to this one, if it went on as it rises at the end of the grid.

        -inf where it does not rise there, inf where a single lengthscale does not tell.
        """
        lengths = self._axes.lengthscales
        if lengths.size == 1:
            return math.inf
        before, last = log_sum_exp(self.posterior[-2:], axis=(1, 2))
        if not last > before:
            return -math.inf
        steps = math.log(lengthscale / lengths[-1]) / math.log(lengths[-1] / lengths[-2])
        return self.log_evidence + float(last - before) * steps

    @property
    def longest(self) -> float:
        """The longest lengthscale."""
        return float(self._axes.lengthscales[-1])

    @property
    def share_at_end(self) -> float:
        """The probability of the longest lengthscale."""
        return float(np.exp(log_sum_exp(self.posterior[-1]) - self.log_evidence))

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

    @property
    def peak(self) -> GridCell:
        """The most probable cell."""
        return self.cell(int(np.argmax(self.posterior)), 1.0)

    def cell(self, index: int, weight: float) -> GridCell:
        """The cell of a position in the flattened posterior."""
        i, j, k = np.unravel_index(index, self.posterior.shape)
        scale = float(self._scales[j])
        return GridCell(self._kernels[i], scale / self._divisors[i], scale, float(self._noises[k]), weight)

    def _parts(self, matrices: Sequence[np.ndarray], blocks: Sequence[Observations], axes: Axes) -> list[_Part]:
        """Each block in the eigenvectors of its K, for y over the root of its unit: no square leaves float64."""
        parts = []
        for matrix, block in zip(matrices, blocks, strict=True):
            block = block.over(math.sqrt(self._unit))
            roots = np.sqrt(block.counts)
            eigenvalues, vectors = np.linalg.eigh(matrix * roots * roots[:, None])
            mean = max(float(np.trace(matrix)) / roots.size, 0.0)
            rounded = np.abs(eigenvalues) <= _NEGATIVE * mean  # what is more negative has been cut, not rounded
            eigenvalues[rounded] = np.maximum(eigenvalues[rounded], _ROUNDING * mean)
            signal = np.multiply.outer(axes.scales / self._unit, eigenvalues)
            noises = np.tile(axes.noises / self._unit, axes.scales.size)
            variances = np.repeat(signal, axes.noises.size, axis=0) + noises[:, None]
            y, h = vectors.T @ (roots[:, None] * block.means), vectors.T @ (roots[:, None] * block.basis)
            constant = block.log_constant(noises) - 0.5 * y.shape[1] * block.n_total * math.log(self._unit)
            indefinite = (variances <= 0).any(axis=1)
            constant[indefinite], variances[indefinite] = -np.inf, 1.0
            parts.append(_Part(vectors, variances, y, h, constant))
        return parts

    def _likelihoods(self, parts: Sequence[_Part]) -> np.ndarray:
        """The log likelihood for every output scale and noise, shape (output scales, noises)."""
        value = np.zeros(parts[0].constant.size)
        for part in parts:
            value += part.constant - 0.5 * (part.y.shape[1] * np.log(part.variances)).sum(axis=1)
            value -= 0.5 * ((1 / part.variances) @ np.square(part.y).sum(axis=1))
        if parts[0].h.shape[1]:
            inner, outer = _normal_equations(parts)
            value += 0.5 * (outer * _solved(inner, outer)).sum(axis=(1, 2))
        return value.reshape(self._scales.size, self._noises.size)


class _Part(NamedTuple):
    """A block at one lengthscale, for every output scale and noise, shape (cells,).

    Attributes
    ----------
    vectors : ndarray, shape (n, n)
        Eigenvectors of K.
    variances : ndarray, shape (cells, n)
        Along them, with the noise.
    y, h : ndarray, shapes (n, p) and (n, b)
        Values and basis along them.
    constant : ndarray, shape (cells,)
        The log likelihood but for the quadratic form and the determinant.
    """

    vectors: np.ndarray
    variances: np.ndarray
    y: np.ndarray
    h: np.ndarray
    constant: np.ndarray

    def of(self, cells: np.ndarray) -> _Part:
        """The same for some cells."""
        return self._replace(variances=self.variances[cells], constant=self.constant[cells])


def _normal_equations(parts: Sequence[_Part]) -> tuple[np.ndarray, np.ndarray]:
    """H^T C^{-1} H and H^T C^{-1} y for every cell, shapes (cells, b, b) and (cells, b, p)."""
    columns = parts[0].h.shape[1]
    found = []
    for part in parts:
        pairs = part.h[:, :, None] * np.hstack([part.h, part.y])[:, None, :]
        found.append(np.einsum("ci,ijk->cjk", 1 / part.variances, pairs, optimize=True))
    total = np.sum(found, axis=0)
    return total[:, :, :columns], total[:, :, columns:]


def _solved(inner: np.ndarray, outer: np.ndarray) -> np.ndarray:
    """The coefficients of the mean function for every cell, finite where the observations do not tell them."""
    size = np.sqrt(np.maximum(np.einsum("cii->ci", inner), np.finfo(np.float64).tiny))
    scaled = inner / (size[:, :, None] * size[:, None, :]) + _RIDGE * np.eye(size.shape[1])
    return np.linalg.solve(scaled, outer / size[:, :, None]) / size[:, :, None]


def left_out(parts: Sequence[_Part]) -> np.ndarray:
    """log p(what was observed at a node | what was observed at all others), shape (cells, nodes).

    With P = C^{-1} - C^{-1} H (H^T C^{-1} H)^{-1} H^T C^{-1}, which has estimated the mean's coefficients without
    the node, too, y_i given the others has the variance 1 / P_ii, and is [P y]_i / P_ii off its mean.
    """
    found = []
    inner, outer = _normal_equations(parts)
    for vectors, variances, y, h, constant in parts:
        precision = (1 / variances) @ np.square(vectors).T
        rest = np.broadcast_to(y, (variances.shape[0], *y.shape))
        if h.shape[1]:
            basis = vectors @ (h / variances[:, :, None])
            precision = precision - (basis * _solved(inner, basis.transpose(0, 2, 1)).transpose(0, 2, 1)).sum(
                axis=2
            )
            rest = rest - h @ _solved(inner, outer)
        residual = vectors @ (rest / variances[:, :, None])
        precision = np.maximum(precision, np.finfo(np.float64).tiny)[:, :, None]
        density = 0.5 * (np.log(precision) - np.square(residual) / precision).sum(axis=2)
        found.append(density + constant[:, None] / density.shape[1])
    return np.hstack(found)


def representatives(grids: Sequence[Cells], n: int, first: Sequence[np.ndarray] = ()) -> list[GridCell]:
    """About n cells that stand for the posterior over all grids, by systematic sampling of ordered cells.

    Every stretch of cells (by kernel, lengthscale, output scale and noise) with a share p of the probability holds
    n p of them, rounded up or down, so that averages over them have far smaller errors than over independent
    draws. `first` are values of each grid by which cells are ordered before all else.
    """
    log = np.concatenate([grid.posterior.ravel() for grid in grids])
    order = np.arange(log.size)
    if first:
        order = np.argsort(np.concatenate([own.ravel() for own in first]), kind="stable")
    log = log[order]
    cumulated = np.cumsum(np.exp(log - log_sum_exp(log)))
    chosen = np.searchsorted(cumulated, (np.arange(n) + 0.5) / n * cumulated[-1])
    distinct, counts = np.unique(np.minimum(chosen, log.size - 1), return_counts=True)
    starts = np.cumsum([0, *(grid.posterior.size for grid in grids)])
    found = []
    for position, count in zip(order[distinct], counts, strict=True):
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
