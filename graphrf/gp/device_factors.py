"""Features and the series as torch sparse matrices on any device: the same factors as on the CPU, in torch."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from graphrf.features import Features
from graphrf.series import SeriesFactor

# Visits and gathered numbers (entries x columns) worked on at once: temporaries of 64 and 128 MB in float32.
_VISITS_AT_ONCE = 2**24
_GATHERED = 2**25
# Rows of F F^T whose diagonal is made at once by the series: numbers (nodes of the graph x rows).
_UNIT_NUMBERS = 2**22


class DeviceFeatures:
    r"""The factor of sampled features on a torch device; a `graphrf.gp.torch_factor.TorchFactor`.

    One pattern serves all modulations: the value of an entry is sqrt(d_i / d_v) times the sum of f_k c / (m S(k))
    over its visits, of count c after k steps. Values are made anew when f changes, by one pass over the visits;
    products are those of the CSR matrix, and of its transpose, whose order is kept. The gradient gathers
    <y_i, x_v> for each entry. On CUDA sums are added up in no fixed order, so they repeat to rounding only.

    Parameters
    ----------
    features : Features
    device : torch.device
    dtype : torch.dtype
        float32 or float64, of values and products.

    Notes
    -----
    Memory on the device: 12 bytes a visit; for each entry 12 bytes of indices and three numbers of `dtype`.
    """

    def __init__(self, features: Features, device: torch.device, dtype: torch.dtype) -> None:
        self._features = features
        self._device = device
        self._dtype = dtype
        self.shape = features.shape
        index = np.int32 if max(features.nnz, *features.shape) < 2**31 else np.int64
        pattern = sp.csr_array(
            (np.arange(features.nnz, dtype=index), features._indices, features._indptr), shape=features.shape
        )
        transposed = pattern.T.tocsr()  # its data say where each entry stood
        self._pointer, self._index = self._put(features._indptr, index), self._put(features._indices, index)
        self._pointer_t = self._put(transposed.indptr, index)
        self._index_t = self._put(transposed.indices, index)
        self._order_t = self._put(transposed.data, index)
        per_entry = features._visits_per_entry.astype(np.int64)
        # where the visits of an entry begin
        self._first_visit = np.concatenate([[0], np.cumsum(per_entry)])
        self._entry = self._put(np.repeat(np.arange(features.nnz, dtype=index), per_entry), index)
        self._step = self._put(features._steps, np.int32)
        self._count = self._put(features._counts, np.float32)
        self._load = self._put(1.0 / (features._survival * features.n_walks), np.float64)
        root = features._degree_roots()
        self._ratio: Tensor | None = None
        if root.size:
            own = np.repeat(root[features.nodes], np.diff(features._indptr))
            self._ratio = torch.from_numpy(own / root[features._indices]).to(device, dtype)
        self._last: tuple[Tensor, Tensor, Tensor] | None = None

    def _put(self, array: np.ndarray, dtype: type) -> Tensor:
        return torch.from_numpy(np.array(array, dtype=dtype)).to(self._device)

    def apply(self, f: Tensor, x: Tensor) -> Tensor:
        """F x."""
        return self._matrices(f)[0] @ x

    def apply_t(self, f: Tensor, y: Tensor) -> Tensor:
        """F^T y."""
        return self._matrices(f)[1] @ y

    def grad_f(self, x: Tensor, y: Tensor, size: int) -> Tensor:
        """<y, P_k x> for k < size."""
        sums = torch.zeros(self._load.numel(), dtype=torch.float64, device=self._device)
        at_once = max(1, _GATHERED // x.shape[1])
        for start in range(0, self._index.numel(), at_once):
            stop = min(start + at_once, self._index.numel())
            entries = torch.arange(start, stop, dtype=self._pointer.dtype, device=self._device)
            row = torch.searchsorted(self._pointer, entries, right=True, out_int32=False) - 1
            inner = (y[row] * x.index_select(0, self._index[start:stop])).sum(1)
            if self._ratio is not None:
                inner *= self._ratio[start:stop]
            first, last = int(self._first_visit[start]), int(self._first_visit[stop])
            for begin in range(first, last, _VISITS_AT_ONCE):
                visits = slice(begin, min(begin + _VISITS_AT_ONCE, last))
                terms = inner.index_select(0, self._entry[visits] - start).double() * self._count[visits]
                sums.index_add_(0, self._step[visits], terms)
        sums *= self._load
        gradient = torch.zeros(size, dtype=torch.float64, device=self._device)
        known = min(size, sums.numel())
        gradient[:known] = sums[:known]
        return gradient

    def diagonal(self, f: Tensor) -> Tensor:
        """Row sums of squares of F."""
        squares = self._matrices(f)[0].values().square()
        row = torch.repeat_interleave(self._pointer.diff().long())
        return squares.new_zeros(self.shape[0]).index_add_(0, row, squares)

    def take(self, rows: np.ndarray) -> DeviceFeatures:
        """The factor of some of the rows."""
        return DeviceFeatures(self._features._take_rows(rows), self._device, self._dtype)

    def _matrices(self, f: Tensor) -> tuple[Tensor, Tensor]:
        """F and F^T of a modulation, kept until another one comes."""
        f = f.detach()
        if self._last is None or not torch.equal(self._last[0], f):
            self._last = None  # frees the old values first
            load = torch.zeros_like(self._load)
            used = min(load.numel(), f.numel())
            load[:used] = f[:used] * self._load[:used]
            load = load.to(self._dtype)
            values = torch.zeros(self._index.numel(), dtype=self._dtype, device=self._device)
            for start in range(0, self._step.numel(), _VISITS_AT_ONCE):
                visits = slice(start, start + _VISITS_AT_ONCE)
                terms = load.index_select(0, self._step[visits]) * self._count[visits]
                values.index_add_(0, self._entry[visits], terms)
            if self._ratio is not None:
                values *= self._ratio
            n, n_nodes = self.shape
            transposed = values.index_select(0, self._order_t)
            matrix = csr_tensor(self._pointer, self._index, values, (n, n_nodes))
            self._last = (
                f.clone(),
                matrix,
                csr_tensor(self._pointer_t, self._index_t, transposed, (n_nodes, n)),
            )
        return self._last[1:]


class DeviceSeries:
    r"""Exact rows F = sum_k c_k T_k(M) on a torch device; a `graphrf.gp.torch_factor.TorchFactor`.

    Its P_k are Chebyshev polynomials of the walk matrix moved to [-1, 1], not powers: M = W for the normalized
    Laplacian, 2 W - I for the combinatorial one. A kernel needs far fewer of them, in products and gradients alike
    (combinatorial `Diffusion` of lengthscale 3 on a graph of largest degree 294: 196 for 1,577 powers).

    Parameters
    ----------
    series : SeriesFactor
        Whose rows; its `max_length` is of no account, the modulation says how many terms there are.
    device : torch.device
    dtype : torch.dtype
        float32 or float64.

    Notes
    -----
    Memory on the device: the walk matrix, and four blocks of N x p numbers.
    """

    def __init__(self, series: SeriesFactor, device: torch.device, dtype: torch.dtype) -> None:
        self.shape = series.shape
        self._device = device
        self._dtype = dtype
        # 2 M. On the CPU scipy's product is quicker, and immune to threads that wait for each other.
        self._doubled = _from_scipy(series._doubled, device, dtype)
        self._host = None
        if device.type == "cpu":
            self._host = series._doubled.astype(np.float32 if dtype == torch.float32 else np.float64)
        self._nodes = torch.from_numpy(np.array(series.nodes)).to(device)

    def apply(self, f: Tensor, x: Tensor) -> Tensor:
        """F x."""
        return self._whole(f, x).index_select(0, self._nodes)

    def apply_t(self, f: Tensor, y: Tensor) -> Tensor:
        """F^T y."""
        return self._whole(f, self._spread(y))

    def grad_f(self, x: Tensor, y: Tensor, size: int) -> Tensor:
        """<y, P_k x> for k < size: one product each."""
        y = self._spread(y)
        terms = [(term * y).sum(dtype=torch.float64) for term in self._terms(x, size)]
        return torch.stack(terms)

    def diagonal(self, f: Tensor) -> Tensor:
        """The diagonal of F F^T, by products with unit vectors."""
        width = max(1, _UNIT_NUMBERS // self.shape[1])
        parts = [torch.zeros(0, dtype=self._dtype, device=self._device)]
        for members in self._nodes.split(width):
            units = torch.zeros(self.shape[1], members.numel(), dtype=self._dtype, device=self._device)
            units[members, torch.arange(members.numel(), device=self._device)] = 1.0
            parts.append(self._whole(f, units).square().sum(0))
        return torch.cat(parts)

    def take(self, rows: np.ndarray) -> DeviceSeries:
        """The factor of some of the rows."""
        other = object.__new__(DeviceSeries)
        other.__dict__.update(self.__dict__)
        other._nodes = self._nodes[torch.from_numpy(np.asarray(rows)).to(self._device)]
        other.shape = (other._nodes.numel(), self.shape[1])
        return other

    def _spread(self, y: Tensor) -> Tensor:
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


def csr_tensor(pointer: Tensor, index: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """A torch CSR matrix of arrays that are known to be right."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(pointer, index, values, size=shape, check_invariants=False)


def _from_scipy(matrix: sp.csr_array, device: torch.device, dtype: torch.dtype) -> Tensor:
    pointer, index, values = (
        torch.from_numpy(np.array(part)) for part in (matrix.indptr, matrix.indices, matrix.data)
    )
    return csr_tensor(pointer.to(device), index.to(device), values.to(device, dtype), matrix.shape)
