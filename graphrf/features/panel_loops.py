"""Compiled products with a few columns: of a sparse matrix by rows (CSR), and its transpose."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types, uint64
from numba.core import cgutils
from numba.extending import intrinsic

from graphrf._base.compiled import njit
from graphrf._base.intrinsics import VectorRegisters, unpacked

# Sums of a row, which its entries take in turn:
# additions to a single one would wait for each other.
_SUMS = 2


@intrinsic(prefer_literal=True)
def _gather(  # type: ignore[no-untyped-def]
    typingctx, width, indices, data, start, stop, panel, at, result, row, column
):
    """result[row, column : + width] <- sum over entries of data panel[index, at : + width].

    Entries at even and at odd places are added separately, in order, for every width.
    """
    if not isinstance(width, types.IntegerLiteral):
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, indices, data, start, stop, panel, at, result, row, column = unpacked(
            context, builder, signature, arguments
        )
        vectors = VectorRegisters(context, builder, width.literal_value, signature.args[5].dtype)
        one = ir.Constant(start.type, 1)
        sums = [cgutils.alloca_once_value(builder, vectors.zero) for _ in range(_SUMS)]

        def add(entry: Any, total: Any) -> None:
            node, value = vectors.entry(indices, data, entry)
            product = builder.fmul(value, vectors.load(vectors.place(panel, node, at)))
            builder.store(builder.fadd(builder.load(total), product), total)

        rounds = builder.and_(builder.sub(stop, start), ir.Constant(start.type, -_SUMS))
        even = builder.add(start, rounds)
        with cgutils.for_range_slice(
            builder, start, even, ir.Constant(start.type, _SUMS), start.type
        ) as (i, _):
            for turn, total in enumerate(sums):
                add(builder.add(i, ir.Constant(start.type, turn)), total)
        with cgutils.for_range_slice(builder, even, stop, one, start.type) as (i, _):
            add(i, sums[0])
        total = builder.fadd(builder.load(sums[0]), builder.load(sums[1]))
        vectors.store(total, vectors.place(result, row, column))
        return context.get_dummy_value()

    return types.void(width, indices, data, start, stop, panel, at, result, row, column), generate


@intrinsic(prefer_literal=True)
def _scatter(  # type: ignore[no-untyped-def]
    typingctx, width, indices, data, start, stop, y, row, column, panel, at
):
    """panel[index, at : + width] <- itself + data y[row, column : + width], entry by entry."""
    if not isinstance(width, types.IntegerLiteral):
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, indices, data, start, stop, y, row, column, panel, at = unpacked(
            context, builder, signature, arguments
        )
        vectors = VectorRegisters(context, builder, width.literal_value, signature.args[5].dtype)
        own = vectors.load(vectors.place(y, row, column))
        one = ir.Constant(start.type, 1)
        with cgutils.for_range_slice(builder, start, stop, one, start.type) as (entry, _):
            node, value = vectors.entry(indices, data, entry)
            place = vectors.place(panel, node, at)
            vectors.store(builder.fadd(vectors.load(place), builder.fmul(value, own)), place)
        return context.get_dummy_value()

    return types.void(width, indices, data, start, stop, y, row, column, panel, at), generate


@njit(nogil=True, cache=True)
def multiply_rows(first, last, indptr, indices, data, panel, result, column):  # type: ignore[no-untyped-def]
    """Rows first .. last - 1 of result[:, column : column + p] <- matrix panel, shape (N, p).

    Every number is the sum over its row's entries at even places plus that over those at odd
    places, each in order, so its bits depend neither on the rows and columns beside it nor on the
    threads.
    """
    p = uint64(panel.shape[1])
    to = uint64(column)
    for row in range(uint64(first), uint64(last)):
        start = uint64(indptr[row])
        stop = uint64(indptr[row + uint64(1)])
        c = uint64(0)
        while c + uint64(16) <= p:
            _gather(16, indices, data, start, stop, panel, c, result, row, to + c)
            c += uint64(16)
        if c + uint64(8) <= p:
            _gather(8, indices, data, start, stop, panel, c, result, row, to + c)
            c += uint64(8)
        if c + uint64(4) <= p:
            _gather(4, indices, data, start, stop, panel, c, result, row, to + c)
            c += uint64(4)
        if c + uint64(2) <= p:
            _gather(2, indices, data, start, stop, panel, c, result, row, to + c)
            c += uint64(2)
        if c < p:
            _gather(1, indices, data, start, stop, panel, c, result, row, to + c)


@njit(nogil=True, cache=True)
def scatter_rows(first, last, indptr, indices, data, y, column, panel, low):  # type: ignore[no-untyped-def]
    """panel <- panel + (matrix^T y[:, column : column + p])[low : low + h], of those rows alone.

    The columns of these rows are low .. low + h - 1, and the panel has shape (h, p). Every number
    is summed in the order of the rows, independently of other columns.
    """
    p = uint64(panel.shape[1])
    at = uint64(column)
    skipped = uint64(low) * p
    for row in range(uint64(first), uint64(last)):
        start = uint64(indptr[row])
        stop = uint64(indptr[row + uint64(1)])
        c = uint64(0)
        while c + uint64(16) <= p:
            _scatter(16, indices, data, start, stop, y, row, at + c, panel, c - skipped)
            c += uint64(16)
        if c + uint64(8) <= p:
            _scatter(8, indices, data, start, stop, y, row, at + c, panel, c - skipped)
            c += uint64(8)
        if c + uint64(4) <= p:
            _scatter(4, indices, data, start, stop, y, row, at + c, panel, c - skipped)
            c += uint64(4)
        if c + uint64(2) <= p:
            _scatter(2, indices, data, start, stop, y, row, at + c, panel, c - skipped)
            c += uint64(2)
        if c < p:
            _scatter(1, indices, data, start, stop, y, row, at + c, panel, c - skipped)


@njit(nogil=True, cache=True)
def add_panel(panel, result, low, column):  # type: ignore[no-untyped-def]
    """result[low : low + h, column : column + p] <- itself + panel, shape (h, p)."""
    p = uint64(panel.shape[1])
    for row in range(uint64(panel.shape[0])):
        for c in range(p):
            result[uint64(low) + row, uint64(column) + c] += panel[row, c]
