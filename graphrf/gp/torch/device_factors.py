"""Features and the series as torch sparse matrices on any device: the CPU's factors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from graphrf.features.device_record import VISITS_AT_ONCE, DeviceRecord, row_index
from graphrf.features.features import Features
from graphrf.features.tensor import (
    DegreeRoots,
    csr_tensor,
    entry_values,
    row_squares,
    step_products,
    step_squares,
    transposed_pattern,
)
from graphrf.gp.torch.factor import TorchFactor
from graphrf.operators.series.chebyshev_sums import ChebyshevSum
from graphrf.operators.series.series_factor import SeriesFactor

# Gathered numbers (entries x columns) worked on at once: temporaries of 512 MB in float32.
_GATHERED = 2**27
# Rows of F F^T whose diagonal is made at once by the series: numbers (nodes of the graph x rows).
_UNIT_NUMBERS = 2**22
# Entries of Chebyshev polynomials that are kept: 512 MiB in float64.
_KEPT_NUMBERS = 2**26


class TorchFeatureFactor(TorchFactor):
    """The factor of sampled features on a torch device, float32 or float64: a `TorchFactor`.

    The value of an entry is sqrt(d_i / d_v) times the sum of f_k c / (m S(k)) over its visits, of
    count c after k steps, added in float64 in the order of the visits. Memory on the device besides
    the record (4 bytes per visit, 6 an entry): 16 bytes per row, 8 a node, and for each entry two
    numbers of `dtype` and, with the transpose, two indices of 4 bytes, or 8 from 2^31 entries on; a
    gradient takes three times 2^27 numbers.
    """

    def __init__(self, features: Features, device: torch.device, dtype: torch.dtype) -> None:
        rows = features.device_rows(device)
        walkers = torch.from_numpy(features.info.walkers).to(device)
        self._set(rows.record, rows.roots, walkers, features.n_nodes, dtype)

    def _set(
        self,
        record: DeviceRecord,
        roots: DegreeRoots | None,
        walkers: Tensor,
        n_nodes: int,
        dtype: torch.dtype,
    ) -> None:
        self._record = record
        self._roots = roots
        self._walkers = walkers  # m S(k): the walks that are expected to reach step k
        self._dtype = dtype
        self.shape: tuple[int, int] = (record.n_rows, n_nodes)
        self._last: _Made | None = None
        self._pattern_t: tuple[Tensor, Tensor, Tensor] | None = None

    def apply(self, f: Tensor, x: Tensor) -> Tensor:
        return self._matrix(f) @ x

    def apply_t(self, f: Tensor, y: Tensor) -> Tensor:
        return self._transpose(f) @ y

    def grad_f(self, x: Tensor, y: Tensor, size: int) -> Tensor:
        at_once = min(VISITS_AT_ONCE, max(1, _GATHERED // x.shape[1]))
        sums = step_products(self._record, self._roots, x, y, self._walkers.numel(), at_once)
        sums /= self._walkers
        gradient = torch.zeros(size, dtype=torch.float64, device=x.device)
        known = min(size, sums.numel())
        gradient[:known] = sums[:known]
        return gradient

    def diagonal(self, f: Tensor) -> Tensor:
        """Row sums of squares of F."""
        return row_squares(self._matrix(f).values(), self._record.indptr)

    def take(self, rows: Tensor | np.ndarray) -> TorchFeatureFactor:
        """The factor of some of the rows, gathered on the device."""
        at = row_index(rows, self.shape[0], self._record.device)
        roots = None if self._roots is None else self._roots._replace(rows=self._roots.rows[at])
        taken = object.__new__(TorchFeatureFactor)
        taken._set(self._record.take(at), roots, self._walkers, self.shape[1], self._dtype)
        return taken

    def mean_squares(self) -> Tensor:
        """<P_k, P_l> / n for all steps, float64, shape (L + 1, L + 1)."""
        sums = step_squares(self._record, self._roots, self._walkers.numel(), VISITS_AT_ONCE)
        return sums / torch.outer(self._walkers, self._walkers) / self.shape[0]

    def _matrix(self, f: Tensor) -> Tensor:
        """F of a modulation, kept until another one comes."""
        return self._made(f).matrix

    def _transpose(self, f: Tensor) -> Tensor:
        """F^T of a modulation, kept as long as F is."""
        made = self._made(f)
        if made.transpose is None:
            if self._pattern_t is None:
                self._pattern_t = transposed_pattern(self._record, self.shape[1], VISITS_AT_ONCE)
            pointer, index, order = self._pattern_t
            values = made.matrix.values().index_select(0, order)
            made.transpose = csr_tensor(pointer, index, values, self.shape[::-1])
        return made.transpose

    def _made(self, f: Tensor) -> _Made:
        f = f.detach()
        made = self._last  # read once and replaced whole: another thread may be doing the same
        if made is None or not torch.equal(made.f, f):
            self._last = made = None  # frees the old values first
            load = torch.zeros_like(self._walkers)
            used = min(load.numel(), f.numel())
            load[:used] = f[:used] / self._walkers[:used]  # divided as on the host: the same bits
            values = entry_values(self._record, self._roots, load, self._dtype, VISITS_AT_ONCE)
            matrix = csr_tensor(self._record.indptr, self._record.indices, values, self.shape)
            self._last = made = _Made(f.clone(), matrix)
        return made


@dataclass
class _Made:
    """F of a modulation, and F^T once it is needed."""

    f: Tensor
    matrix: Tensor
    transpose: Tensor | None = None


class TorchSeriesFactor(TorchFactor):
    """Exact rows F = sum_k c_k T_k(M) on a torch device; a `graphrf.gp.torch.factor.TorchFactor`.

    M is the walk matrix moved to [-1, 1]: W for the normalized Laplacian, 2 W - I for the
    combinatorial one. F F^T = sum_k s_k T_k(M) with s the Chebyshev coefficients of the squared
    series, so that entries of T_k among n rows serve all hyperparameters: where a gradient is
    wanted, `gram` makes them once and keeps them for one set of rows, n (n + 1) / 2 numbers a term,
    up to 2^26 in all. Memory besides: the walk matrix, four blocks of N x p numbers.
    """

    def __init__(
        self,
        series: SeriesFactor,
        device: torch.device,
        dtype: torch.dtype,
        kept_numbers: int = _KEPT_NUMBERS,
    ) -> None:
        self._kept_numbers = kept_numbers
        self.shape: tuple[int, int] = series.shape
        self._device = device
        self._dtype = dtype
        # 2 M. On the CPU scipy's product is quicker, and
        # immune to threads that wait for each other.
        self._doubled = _from_scipy(series.doubled, device, dtype)
        self._host = None
        if device.type == "cpu":
            self._host = series.doubled.astype(np.float32 if dtype == torch.float32 else np.float64)
        self._nodes = torch.from_numpy(np.array(series.nodes)).to(device)
        self._series = series
        # The last rows whose terms were made, and these; shared by all that is taken from this one.
        self._kept: list[tuple[Tensor, Tensor]] = []

    def apply(self, f: Tensor, x: Tensor) -> Tensor:
        return self._whole(f, x).index_select(0, self._nodes)

    def apply_t(self, f: Tensor, y: Tensor) -> Tensor:
        return self._whole(f, self._on_all_nodes(y))

    def grad_f(self, x: Tensor, y: Tensor, size: int) -> Tensor:
        """<y, P_k x> for k < size: one product each."""
        y = self._on_all_nodes(y)
        terms = [(term * y).sum(dtype=torch.float64) for term in self._terms(x, size)]
        return torch.stack(terms)

    def diagonal(self, f: Tensor) -> Tensor:
        """The diagonal of F F^T, by products with unit vectors."""
        width = max(1, _UNIT_NUMBERS // self.shape[1])
        parts = [torch.zeros(0, dtype=self._dtype, device=self._device)]
        for members in self._nodes.split(width):
            units = torch.zeros(
                self.shape[1], members.numel(), dtype=self._dtype, device=self._device
            )
            units[members, torch.arange(members.numel(), device=self._device)] = 1.0
            parts.append(self._whole(f, units).square().sum(0))
        return torch.cat(parts)

    def gram(self, f: Tensor) -> Tensor | None:
        """F F^T as a sum of kept terms; None where there are none and no gradient is wanted, or too
        many.
        """
        n, size = (
            self.shape[0],
            2 * f.numel() - 1,
        )  # of the square: where its end is small, its derivative is not
        most = self._kept_numbers // max(1, n * (n + 1) // 2)
        if size > most:
            return None
        terms = next(
            (made for nodes, made in self._kept[:] if torch.equal(nodes, self._nodes)), None
        )
        if terms is None or len(terms) < size:
            if not (f.requires_grad and torch.is_grad_enabled()):
                return None
            # some more, for longer lengthscales to come
            terms = self.gram_terms(min(most, size + size // 2))
            self._kept[:] = [(self._nodes, terms)]
        sums = _squared(f.to(terms.dtype)) @ terms[:size]
        return sums[_triangle(n, self._device)].to(f.dtype)

    def take(self, rows: Tensor | np.ndarray) -> TorchSeriesFactor:
        other = object.__new__(TorchSeriesFactor)
        other.__dict__.update(self.__dict__)
        other._nodes = self._nodes[row_index(rows, self.shape[0], self._device)]
        other.shape = (other._nodes.numel(), self.shape[1])
        return other

    def gram_terms(self, size: int) -> Tensor:
        """Entries of T_k(M) among the rows, on and above the diagonal column by column,
        k < size.
        """
        n = self.shape[0]
        terms = torch.empty(size, n * (n + 1) // 2, dtype=self._dtype, device=self._device)
        for columns, panel in self._term_panels(size):
            for at, column in enumerate(columns):
                terms[:, column * (column + 1) // 2 :][:, : column + 1] = panel[:, : column + 1, at]
        return terms

    def _term_panels(self, size: int) -> Iterator[tuple[Sequence[int], Tensor]]:
        """Some columns of T_k(M) among the rows, shape (size, n, columns), after others."""
        n = self.shape[0]
        if self._host is not None:
            polynomials, place = ChebyshevSum(self._series.doubled, np.ones(size)).renumbered(n)
            places = place[self._nodes.numpy()]
            order = np.argsort(places, kind="stable")
            for part, panel in polynomials.unit_terms(places[order], places):
                yield order[part].tolist(), torch.from_numpy(panel)
            return
        width = max(1, min(_UNIT_NUMBERS // self.shape[1], _UNIT_NUMBERS // (n * size)))
        for start in range(0, n, width):
            columns = range(n)[start : start + width]
            units = torch.zeros(self.shape[1], len(columns), dtype=self._dtype, device=self._device)
            column_at = torch.arange(len(columns), device=self._device)
            units[self._nodes[start : start + width], column_at] = 1.0
            yield columns, torch.stack([term[self._nodes] for term in self._terms(units, size)])

    def _on_all_nodes(self, y: Tensor) -> Tensor:
        whole = torch.zeros(self.shape[1], y.shape[1], dtype=y.dtype, device=self._device)
        return whole.index_add_(0, self._nodes, y)

    def _whole(self, f: Tensor, x: Tensor) -> Tensor:
        """F x on all nodes."""
        coefficients = f.detach().tolist()
        result = torch.zeros_like(x)
        for coefficient, term in zip(coefficients, self._terms(x, len(coefficients)), strict=True):
            if coefficient != 0:  # every second one of an even or odd function
                result.add_(term, alpha=coefficient)
        return result

    def _terms(self, x: Tensor, size: int) -> Iterator[Tensor]:
        """T_k(M) x for k < size."""
        x = x.contiguous()
        before, now = x, x
        for k in range(size):
            if k == 1:
                now = 0.5 * self._product(x)
            elif k:
                before, now = now, self._product(now).sub_(before)
            yield now

    def _product(self, x: Tensor) -> Tensor:
        if self._host is None:
            return self._doubled @ x
        return torch.from_numpy(self._host @ x.numpy())


def _triangle(n: int, device: torch.device) -> Tensor:
    """The places of a symmetric matrix's entries among those that `gram_terms` holds, shape (n,
    n).
    """
    every = torch.arange(n, device=device)
    row, column = torch.minimum(every[:, None], every), torch.maximum(every[:, None], every)
    return column * (column + 1) // 2 + row


def _squared(f: Tensor) -> Tensor:
    """Chebyshev coefficients of a squared series: T_a T_b = (T_{a+b} + T_{|a-b|}) / 2."""
    n = f.numel()
    values = torch.fft.rfft(f, 2 * n)
    sums = torch.fft.irfft(values * values, 2 * n)[: 2 * n - 1]
    differences = torch.fft.irfft(values * values.conj(), 2 * n)[:n]
    halved = torch.cat([0.5 * differences[:1], differences[1:]])
    return 0.5 * sums + torch.nn.functional.pad(halved, (0, n - 1))


def _from_scipy(matrix: sp.csr_array, device: torch.device, dtype: torch.dtype) -> Tensor:
    pointer, index, values = (
        torch.from_numpy(np.array(part)) for part in (matrix.indptr, matrix.indices, matrix.data)
    )
    return csr_tensor(pointer.to(device), index.to(device), values.to(device, dtype), matrix.shape)
