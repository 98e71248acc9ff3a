"""Products with K = F_r F_c^T as differentiable torch functions of the modulation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from graphrf.operators.factor import Factor


@dataclass(frozen=True)
class BlockCosts:
    """Sizes of blocks of right-hand sides."""

    # Numbers (nodes of the graph x columns) in a block on the CPU, and on other devices, where a
    # pass over the matrix is worth more room; and its fewest columns.
    numbers: int = 4_000_000
    device_numbers: int = 2**28
    narrowest: int = 8


class TorchFactor(Protocol):
    """A `Factor` of torch tensors of two axes; results have the arguments' dtype and device."""

    shape: tuple[int, int]
    costs: BlockCosts = BlockCosts()

    def apply(self, f: Tensor, x: Tensor) -> Tensor:
        """F x for x of shape (N, p)."""

    def apply_t(self, f: Tensor, y: Tensor) -> Tensor:
        """F^T y for y of shape (n, p)."""

    def grad_f(self, x: Tensor, y: Tensor, size: int) -> Tensor:
        """<y, P_k x> for k < size, float64 on the device of x."""

    def diagonal(self, f: Tensor) -> Tensor:
        """The diagonal of F F^T."""

    def take(self, rows: Tensor | np.ndarray) -> TorchFactor:
        """The factor of some of the rows, given by number on any device."""

    def gram_apply(self, f: Tensor, x: Tensor) -> Tensor:
        """F F^T x for x of shape (n, p), here by products with blocks of columns."""
        return _in_blocks(self, self, f, x)

    def gram(self, f: Tensor) -> Tensor | None:
        """F F^T, differentiable in f, if the factor has a quicker way than products; here not."""
        return None


class HostFactor(TorchFactor):
    """A numpy `Factor` for torch tensors: shared memory on the CPU, copies for other devices."""

    def __init__(self, factor: Factor, costs: BlockCosts = BlockCosts()) -> None:
        self._factor, self.costs = factor, costs
        self.shape: tuple[int, int] = factor.shape

    def apply(self, f: Tensor, x: Tensor) -> Tensor:
        return _tensor(self._factor.apply(_modulation(f), _array(x)), x)

    def apply_t(self, f: Tensor, y: Tensor) -> Tensor:
        return _tensor(self._factor.apply_t(_modulation(f), _array(y)), y)

    def grad_f(self, x: Tensor, y: Tensor, size: int) -> Tensor:
        gradient = torch.zeros(size, dtype=torch.float64)
        known = self._factor.grad_f(_array(x), _array(y))[:size]
        gradient[: known.size] = torch.from_numpy(np.ascontiguousarray(known, dtype=np.float64))
        return gradient.to(x.device)

    def diagonal(self, f: Tensor) -> Tensor:
        return _tensor(self._factor.diagonal(_modulation(f)), f)

    def take(self, rows: Tensor | np.ndarray) -> HostFactor:
        chosen = _array(rows) if isinstance(rows, Tensor) else rows
        return type(self)(self._factor.take(chosen), self.costs)


class RemoteFactor(HostFactor):
    """A `Factor` with remote rows: F F^T x is one request, without transfer of N x p numbers."""

    def gram_apply(self, f: Tensor, x: Tensor) -> Tensor:
        return _tensor(self._factor.gram_apply(_modulation(f), _array(x)), x)


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().numpy()


def _modulation(f: Tensor) -> np.ndarray:
    return _array(f).astype(np.float64)


def _tensor(array: np.ndarray, like: Tensor) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array)).to(like)


# -- functions of the modulation -------------------------------------------------------------------


def product(rows: TorchFactor, cols: TorchFactor, f: Tensor, x: Tensor) -> Tensor:
    r"""F_r(f) F_c(f)^T x, (n, p), differentiable in the modulation f and in x, (m, p).

    .. math:: \partial_{f_k} \langle G, F_r F_c^\top X \rangle
              = \langle G, P^r_k (F_c^\top X) \rangle + \langle X, P^c_k (F_r^\top G) \rangle.

    Cost: a product with F_c^T and one with F_r; backward two products and two of `grad_f`, or one
    product if only x needs a gradient. Memory besides the result: N x p numbers, in blocks of
    columns with at most 4 million, on other devices than the CPU 2^28; or with 8 columns, for
    gradients of one object for both 16, where these are more.
    """
    result: Tensor = _Product.apply(rows, cols, f, x)
    return result


def dense(rows: TorchFactor, cols: TorchFactor, f: Tensor) -> Tensor:
    """F_r(f) F_c(f)^T itself, shape (n, m), differentiable in f.

    Cost: that of `gram` where one object for both has it; else `product` with m columns, and the
    gradient of one object for both half of that for two.
    """
    if rows is cols and (gram := rows.gram(f)) is not None:
        return gram
    result: Tensor = _Dense.apply(rows, cols, f)
    return result


def modulation_gradient(
    rows: TorchFactor, cols: TorchFactor, f: Tensor, left: Tensor, right: Tensor
) -> Tensor:
    """The gradient of <left, F_r F_c^T right> in f, of f's shape and dtype."""
    gradient = torch.zeros(f.numel(), dtype=torch.float64, device=f.device)
    height = cols.shape[1] * (2 if rows is cols else 1)
    for block in _column_blocks(height, right.shape[1], f.device, cols.costs):
        y, x = left[:, block], right[:, block]
        if rows is cols:  # both halves in one pass
            dense_rows = rows.apply_t(f, torch.cat([x, y], 1))
            gradient += rows.grad_f(dense_rows, torch.cat([y, x], 1), f.numel())
        else:
            gradient += rows.grad_f(cols.apply_t(f, x), y, f.numel())
            gradient += cols.grad_f(rows.apply_t(f, y), x, f.numel())
    return gradient.to(f)


def paired(rows: TorchFactor, cols: TorchFactor, f: Tensor) -> Tensor:
    """The entries <F_r e_i, F_c e_i>, i < n, of two factors of n rows; differentiable in f.

    Cost: that of `diagonal` where both are one object; else, and for the gradient, products with n
    unit vectors by blocks of 32 rows.
    """
    result: Tensor = _Paired.apply(rows, cols, f)
    return result


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: TorchFactor, cols: TorchFactor, f: Tensor, x: Tensor) -> Tensor:
        ctx.factors = rows, cols
        ctx.save_for_backward(f, x)
        return _product(rows, cols, f, x)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        rows, cols = ctx.factors
        f, x = ctx.saved_tensors
        grad_f = modulation_gradient(rows, cols, f, grad, x) if ctx.needs_input_grad[2] else None
        grad_x = _product(cols, rows, f, grad) if ctx.needs_input_grad[3] else None
        return None, None, grad_f, grad_x


class _Dense(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: TorchFactor, cols: TorchFactor, f: Tensor) -> Tensor:
        ctx.factors = rows, cols
        ctx.save_for_backward(f)
        result = f.new_empty(rows.shape[0], cols.shape[0])
        for block, *_, dense_rows in _dense_rows(cols, f):
            result[:, block] = rows.apply(f, dense_rows)
        return result

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        rows, cols = ctx.factors
        (f,) = ctx.saved_tensors
        gradient = torch.zeros(f.numel(), dtype=torch.float64, device=f.device)
        if rows is cols:  # <G, P F^T + F P^T> = <G + G^T, P F^T>
            grad = grad + grad.T
        for block, part, units, dense_rows in _dense_rows(cols, f):
            gradient += rows.grad_f(dense_rows, grad[:, block], f.numel())
            if rows is not cols:
                gradient += part.grad_f(rows.apply_t(f, grad[:, block]), units, f.numel())
        return None, None, gradient.to(f)


class _Paired(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: TorchFactor, cols: TorchFactor, f: Tensor) -> Tensor:
        ctx.factors = rows, cols
        ctx.save_for_backward(f)
        if rows is cols:
            return rows.diagonal(f)
        parts = [(left * right).sum(0) for (*_, left), (*_, right) in _row_pairs(rows, cols, f)]
        return torch.cat(parts) if parts else f.new_zeros(0)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        rows, cols = ctx.factors
        (f,) = ctx.saved_tensors
        gradient = torch.zeros(f.numel(), dtype=torch.float64, device=f.device)
        for (block, each, _, left), (_, other, _, right) in _row_pairs(rows, cols, f):
            weights = torch.diag(grad[block])
            gradient += each.grad_f(right, weights, f.numel())
            if rows is not cols:
                gradient += other.grad_f(left, weights, f.numel())
        if rows is cols:  # both halves are the same
            gradient *= 2
        return None, None, gradient.to(f)


def _product(rows: TorchFactor, cols: TorchFactor, f: Tensor, x: Tensor) -> Tensor:
    return rows.gram_apply(f, x) if rows is cols else _in_blocks(rows, cols, f, x)


def _in_blocks(rows: TorchFactor, cols: TorchFactor, f: Tensor, x: Tensor) -> Tensor:
    blocks = list(_column_blocks(cols.shape[1], x.shape[1], x.device, cols.costs))
    if len(blocks) == 1:
        return rows.apply(f, cols.apply_t(f, x))
    result = x.new_empty(rows.shape[0], x.shape[1])
    for block in blocks:
        result[:, block] = rows.apply(f, cols.apply_t(f, x[:, block]))
    return result


def _column_blocks(
    height: int, n_columns: int, device: torch.device, costs: BlockCosts
) -> Iterator[slice]:
    """Blocks of columns, each of which takes `height` numbers."""
    numbers = costs.numbers if device.type == "cpu" else costs.device_numbers
    width = max(costs.narrowest, numbers // height)
    for start in range(0, n_columns, width):
        yield slice(start, min(start + width, n_columns))


def _dense_rows(
    factor: TorchFactor, f: Tensor, width: int = 0
) -> Iterator[tuple[slice, TorchFactor, Tensor, Tensor]]:
    """Blocks of rows with their factor, unit vectors e_i and F^T e_i, shape (N, block rows)."""
    n = factor.shape[0]
    blocks = _column_blocks(factor.shape[1], n, f.device, factor.costs)
    if width:
        blocks = (slice(start, min(start + width, n)) for start in range(0, n, width))
    for block in blocks:
        part = factor.take(torch.arange(block.start, block.stop, device=f.device))
        units = torch.eye(part.shape[0], dtype=f.dtype, device=f.device)
        yield block, part, units, part.apply_t(f, units)


def _row_pairs(rows: TorchFactor, cols: TorchFactor, f: Tensor) -> Iterator[tuple[Any, Any]]:
    """Blocks of 32 rows of both factors, as `_dense_rows` has them."""
    own = _dense_rows(rows, f, 32)
    if rows is cols:
        return ((each, each) for each in own)
    return zip(own, _dense_rows(cols, f, 32), strict=True)
