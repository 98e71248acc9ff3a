"""The compiled loop of the series: a product with a sparse matrix and additions, in a pass."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types, uint64
from numba.core import cgutils
from numba.extending import intrinsic

from graphrf._base.compiled import njit
from graphrf._base.intrinsics import VectorRegisters, unpacked

# Rows of a step whose products are taken before those of the next.
_ROWS = 128


@intrinsic(prefer_literal=True)
def _update(  # type: ignore[no-untyped-def]
    typingctx, width, indices, data, start, stop, scale, now, sign, before, value, v, row, column
):
    """before[row, column : + width] <- scale (matrix now) + sign before + value v, in registers.

    `v` without rows counts as zero.
    """
    if not isinstance(width, types.IntegerLiteral):
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, indices, data, start, stop, scale, now, sign, before, value, v, row, column = unpacked(
            context, builder, signature, arguments
        )
        vectors = VectorRegisters(context, builder, width.literal_value, signature.args[6].dtype)
        total = cgutils.alloca_once_value(builder, vectors.zero)
        with cgutils.for_range_slice(
            builder, start, stop, ir.Constant(start.type, 1), start.type
        ) as (entry, _):
            j, weight = vectors.entry(indices, data, entry)
            product = builder.fmul(weight, vectors.load(vectors.place(now, j, column)))
            builder.store(builder.fadd(builder.load(total), product), total)
        place = vectors.place(before, row, column)
        result = builder.fmul(vectors.broadcast(scale), builder.load(total))
        result = builder.fadd(result, builder.fmul(vectors.broadcast(sign), vectors.load(place)))
        builder.store(result, total)
        n_rows = builder.extract_value(v.shape, 0)
        with builder.if_then(builder.icmp_signed(">", n_rows, ir.Constant(n_rows.type, 0))):
            added = builder.fmul(
                vectors.broadcast(value), vectors.load(vectors.place(v, row, column))
            )
            builder.store(builder.fadd(result, added), total)
        vectors.store(builder.load(total), place)
        return context.get_dummy_value()

    return types.void(
        width, indices, data, start, stop, scale, now, sign, before, value, v, row, column
    ), generate


@njit(nogil=True)
def _step_column(  # type: ignore[no-untyped-def]
    first, last, indptr, indices, data, scale, now, sign, before, value, v
):
    """`step_rows` for one column, 1.5 times faster than blocks of one."""
    dense = v.size > 0
    stop = uint64(indptr[first])
    for i in range(uint64(first), uint64(last)):
        start = stop
        stop = uint64(indptr[i + uint64(1)])
        total = 0.0
        for entry in range(start, stop):
            total += data[entry] * now[uint64(indices[entry])]
        total = scale * total + sign * before[i]
        if dense:
            total += value * v[i]
        before[i] = total


@njit(nogil=True)
def _step_block(  # type: ignore[no-untyped-def]
    first, last, indptr, indices, data, scale, now, sign, before, value, v
):
    """`step_rows` for several columns."""
    p = uint64(now.shape[1])
    for i in range(uint64(first), uint64(last)):
        start = uint64(indptr[i])
        stop = uint64(indptr[i + uint64(1)])
        c = uint64(0)
        while c + uint64(16) <= p:
            _update(16, indices, data, start, stop, scale, now, sign, before, value, v, i, c)
            c += uint64(16)
        while c + uint64(8) <= p:
            _update(8, indices, data, start, stop, scale, now, sign, before, value, v, i, c)
            c += uint64(8)
        while c + uint64(4) <= p:
            _update(4, indices, data, start, stop, scale, now, sign, before, value, v, i, c)
            c += uint64(4)
        while c + uint64(2) <= p:
            _update(2, indices, data, start, stop, scale, now, sign, before, value, v, i, c)
            c += uint64(2)
        while c < p:
            _update(1, indices, data, start, stop, scale, now, sign, before, value, v, i, c)
            c += uint64(1)


@njit(nogil=True, cache=True)
def step_rows(  # type: ignore[no-untyped-def]
    first, last, indptr, indices, data, scale, now, sign, before, value, v, units
):
    """Rows first .. last - 1 of before <- scale matrix now + sign before + value v, matrix in CSR.

    `v` has no rows where the columns are unit vectors, of the nodes in `units`, or none are added.
    Every number is a sum in the order of its row, so its bits depend neither on the rows and
    columns beside it nor on the threads.
    """
    if now.shape[1] == 1:
        _step_column(
            first,
            last,
            indptr,
            indices,
            data,
            scale,
            now.ravel(),
            sign,
            before.ravel(),
            value,
            v.ravel(),
        )
    else:
        _step_block(first, last, indptr, indices, data, scale, now, sign, before, value, v)
    for column in range(units.size):
        if first <= units[column] < last:
            before[units[column], column] += value


@njit(nogil=True, cache=True)
def sum_polynomials(  # type: ignore[no-untyped-def]
    first, last, low, high, indptr, indices, data, coefficients, now, before, v, units
):
    """sum_k c_k T_k(M) v by Clenshaw's recurrence with 2 M; it ends in `now` or `before`.

    b_k = c_k v + 2 M b_{k+1} - b_{k+2} from k = degree - 1 down, and the sum is
    c_0 v + M b_1 - b_2: unlike T_k v, the partial sums need no third block. At entry `now` holds
    c_degree v and `before` zeros. `low` and `high` delimit the rows that a product reaches (see
    `ChebyshevSum`); if they are empty, all rows are computed. Returns the rows that may differ
    from zero.
    """
    for k in range(coefficients.size - 2, -1, -1):
        if low.size > 0:
            first, last = min(first, low[first]), max(last, high[last - 1])
        value = coefficients[k]
        added = v if value != 0.0 else v[:0]  # every second one of an even or odd function
        scale = 1.0 if k > 0 else 0.5
        step_rows(first, last, indptr, indices, data, scale, now, -1.0, before, value, added, units)
        now, before = before, now
    return first, last


@intrinsic(prefer_literal=True)
def _multiply(typingctx, width, first, last, a, b, cross, own, column):  # type: ignore[no-untyped-def]
    """Adds a b to cross[column : + width] and a a to own, over rows first .. last - 1, in order."""
    if not isinstance(width, types.IntegerLiteral):
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, first, last, a, b, cross, own, column = unpacked(context, builder, signature, arguments)
        vectors = VectorRegisters(context, builder, width.literal_value, signature.args[3].dtype)
        row = ir.Constant(column.type, 0)
        places = [vectors.place(out, row, column) for out in (cross, own)]
        totals = [cgutils.alloca_once_value(builder, vectors.load(place)) for place in places]
        with cgutils.for_range_slice(
            builder, first, last, ir.Constant(first.type, 1), first.type
        ) as (i, _):
            left = vectors.load(vectors.place(a, i, column))
            for total, right in zip(
                totals, (vectors.load(vectors.place(b, i, column)), left), strict=True
            ):
                builder.store(builder.fadd(builder.load(total), builder.fmul(left, right)), total)
        for total, place in zip(totals, places, strict=True):
            vectors.store(builder.load(total), place)
        return context.get_dummy_value()

    return types.void(width, first, last, a, b, cross, own, column), generate


@njit(nogil=True, cache=True)
def column_products(first, last, a, b, cross, own):  # type: ignore[no-untyped-def]
    """cross += <a_j, b_j>, own += <a_j, a_j> over rows first .. last - 1, in order; (1, p)."""
    p = uint64(a.shape[1])
    low, high = uint64(first), uint64(last)
    c = uint64(0)
    while c + uint64(16) <= p:
        _multiply(16, low, high, a, b, cross, own, c)
        c += uint64(16)
    while c + uint64(4) <= p:
        _multiply(4, low, high, a, b, cross, own, c)
        c += uint64(4)
    while c < p:
        _multiply(1, low, high, a, b, cross, own, c)
        c += uint64(1)


@njit(nogil=True, cache=True)
def half_moments(first, last, low, high, indptr, indices, data, now, before, moments):  # type: ignore[no-untyped-def]
    """moments[2 k], [2 k - 1] <- <T_k v, T_k v>, <T_k v, T_{k-1} v> for columns v of `now`.

    There is one more than can be asked for where their number is odd. The other arguments are those
    of `sum_polynomials`; a product gives two moments. Both blocks are overwritten.
    """
    none, no_units = now[:0], np.empty(0, dtype=np.int64)
    for k in range(moments.shape[0]):
        for c in range(moments.shape[1]):
            moments[k, c] = 0.0
    column_products(first, last, now, now, moments[1:2], moments[:1])
    for c in range(moments.shape[1]):
        moments[1, c] = 0.0
    for k in range(1, (moments.shape[0] + 1) // 2):
        if low.size > 0:
            first, last = min(first, low[first]), max(last, high[last - 1])
        scale = 1.0 if k > 1 else 0.5
        cross, own = moments[2 * k - 1 : 2 * k], moments[2 * k : 2 * k + 1]
        for start in range(first, last, _ROWS):  # rows that stay in the cache
            stop = min(start + _ROWS, last)
            step_rows(
                start, stop, indptr, indices, data, scale, now, -1.0, before, 0.0, none, no_units
            )
            column_products(start, stop, before, now, cross, own)
        now, before = before, now
