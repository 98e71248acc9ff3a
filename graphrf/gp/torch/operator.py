"""A kernel matrix among nodes as a `LinearOperator`, never N x N numbers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphrf.features.device_record import row_index
from graphrf.gp.torch.factor import TorchFactor, dense, modulation_gradient, paired, product

# isort: split
from graphrf.gp.torch import quiet_import  # noqa: F401

# isort: split
from linear_operator import LinearOperator
from linear_operator.utils.getitem import _is_noop_index


class FactorOperator(LinearOperator):
    """K = F_r(f) F_c(f)^T between two sets of nodes, by their rows of F, as a `LinearOperator`.

    A product is one with F_c^T and one with F_r; the gradient goes to the modulation f, from there
    to hyperparameters. Noise is added as to any other operator (`add_diagonal`, `add_jitter`, `+
    DiagLinearOperator`), and linear_operator's solvers, preconditioner, Lanczos and Cholesky work
    on the sum.

    Parameters
    ----------
    f : Tensor, shape (L + 1,), floating
        The modulation; its dtype and device are the operator's. Leading axes, which linear_operator
        adds, become batch axes along which f must not change.
    rows, cols : TorchFactor
        n and m rows over the same N nodes. One object for both gives a symmetric matrix.

    Notes
    -----
    Time of a product with p columns: O(p nnz(F)) for features, p times the series' sparse products
    for the series; `to_dense` takes min(n, m) columns. Memory: see
    `graphrf.gp.torch.factor.product`.
    """

    def __init__(self, f: Tensor, *, rows: TorchFactor, cols: TorchFactor) -> None:
        super().__init__(f, rows=rows, cols=cols)
        self._f = f.reshape(-1, f.shape[-1])[0]
        self._batch = f.shape[:-1]
        self._rows = rows
        self._cols = cols

    def __repr__(self) -> str:
        return f"FactorOperator({' x '.join(map(str, self.shape))}, {self.dtype} on {self.device})"

    def _size(self) -> torch.Size:
        return torch.Size((*self._batch, self._rows.shape[0], self._cols.shape[0]))

    def _transpose_nonbatch(self) -> LinearOperator:
        if self._rows is self._cols:
            return self
        return FactorOperator(self._args[0], rows=self._cols, cols=self._rows)

    def _matmul(self, rhs: Tensor) -> Tensor:
        if rhs.ndim == 1:
            return self._matmul(rhs[:, None])[..., 0]
        batch, width = rhs.shape[:-2], rhs.shape[-1]
        result = product(self._rows, self._cols, self._f, _columns(rhs))
        if batch:
            result = result.reshape(-1, *batch, width).movedim(0, -2)
        return result.expand(*torch.broadcast_shapes(self._batch, batch), *result.shape[-2:])

    def _bilinear_derivative(
        self, left_vecs: Tensor, right_vecs: Tensor
    ) -> tuple[Tensor | None, ...]:
        if not self._f.requires_grad:
            return (None,)
        if left_vecs.ndim == 1:
            left_vecs, right_vecs = left_vecs[:, None], right_vecs[:, None]
        batch = torch.broadcast_shapes(left_vecs.shape[:-2], right_vecs.shape[:-2])
        left = _columns(left_vecs.expand(*batch, *left_vecs.shape[-2:]))
        right = _columns(right_vecs.expand(*batch, *right_vecs.shape[-2:]))
        gradient = modulation_gradient(self._rows, self._cols, self._f.detach(), left, right)
        every = torch.zeros_like(self._args[0]).reshape(-1, gradient.numel())
        every[0] = gradient  # of copies the first one answers for all
        return (every.reshape(self._args[0].shape),)

    def to_dense(self) -> Tensor:
        """The matrix as a tensor, differentiable; the smaller of its sides is multiplied out."""
        if self._rows.shape[0] < self._cols.shape[0]:
            matrix = dense(self._cols, self._rows, self._f).T
        else:
            matrix = dense(self._rows, self._cols, self._f)
        return matrix.expand(self.shape)

    def _diagonal(self) -> Tensor:
        return paired(self._rows, self._cols, self._f).expand(*self._batch, -1)

    def _getitem(self, row_index: Any, col_index: Any, *batch_indices: Any) -> LinearOperator:
        if self._rows is self._cols and _same_index(row_index, col_index):
            rows = cols = _taken(self._rows, row_index, self.device)
        else:
            rows, cols = (
                _taken(self._rows, row_index, self.device),
                _taken(self._cols, col_index, self.device),
            )
        return FactorOperator(self._args[0][batch_indices], rows=rows, cols=cols)

    def _get_indices(self, row_index: Tensor, col_index: Tensor, *batch_indices: Any) -> Tensor:
        row_index, col_index = torch.broadcast_tensors(
            row_index.to(self.device), col_index.to(self.device)
        )
        rows, row_at = torch.unique(row_index.reshape(-1), return_inverse=True)
        cols, col_at = torch.unique(col_index.reshape(-1), return_inverse=True)
        shape = row_index.shape
        # The entries fill a quarter of the dense block.
        if rows.numel() * cols.numel() <= 4 * row_at.numel():
            block = FactorOperator(
                self._f,
                rows=_taken(self._rows, rows, self.device),
                cols=_taken(self._cols, cols, self.device),
            ).to_dense()
            return block[row_at, col_at].reshape(shape)
        own = _taken(self._rows, rows[row_at], self.device)
        other = own
        if self._rows is not self._cols or not torch.equal(rows[row_at], cols[col_at]):
            other = _taken(self._cols, cols[col_at], self.device)
        return paired(own, other, self._f).reshape(shape)


def _columns(x: Tensor) -> Tensor:
    """A batch of matrices (..., n, p) as one matrix with the columns of all."""
    return x if x.ndim == 2 else x.movedim(-2, 0).reshape(x.shape[-2], -1)


def _taken(factor: TorchFactor, index: Any, device: torch.device) -> TorchFactor:
    """The rows of an index (slice, tensor or array) on a device; the factor itself for all."""
    n = factor.shape[0]
    if isinstance(index, slice) and (_is_noop_index(index) or index == slice(0, n, None)):
        return factor
    rows = row_index(index, n, device)
    if rows.numel() == n and torch.equal(rows, torch.arange(n, device=device)):
        return factor
    return factor.take(rows)


def _same_index(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return torch.equal(one, other)
    return isinstance(one, slice) and isinstance(other, slice) and one == other
