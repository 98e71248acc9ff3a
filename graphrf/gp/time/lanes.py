"""Eight numbers side by side for compiled loops: SIMD instructions, which LLVM does not find."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.core.extending import intrinsic, register_model

WIDTH = 8
"""The number of series side by side, in the last axis of all arrays."""


class _Lanes(types.Type):
    def __init__(self) -> None:
        super().__init__(name="graphrf.Lanes")


_LANES = _Lanes()
_VECTOR = ir.VectorType(ir.DoubleType(), WIDTH)


@register_model(_Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, _VECTOR)


def _spread(builder: Any, value: Any) -> Any:
    """A vector of eight times a number, or the vector itself."""
    if value.type == _VECTOR:
        return value
    first = builder.insert_element(
        ir.Constant(_VECTOR, ir.Undefined), value, ir.Constant(ir.IntType(32), 0)
    )
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
    return builder.shuffle_vector(first, ir.Constant(_VECTOR, ir.Undefined), zeros)


def _place(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    """The address of array[index, 0]."""
    made = context.make_array(kind)(context, builder, array)
    indices = [*cgutils.unpack_tuple(builder, index), ir.Constant(ir.IntType(64), 0)]
    address = cgutils.get_item_pointer(context, builder, kind, made, indices, wraparound=False)
    return builder.bitcast(address, _VECTOR.as_pointer())


@intrinsic
def load(typing: Any, array: Any, index: Any) -> Any:
    """array[index], of eight."""

    def made(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_place(context, builder, signature.args[0], *args), align=8)

    return _LANES(array, index), made


@intrinsic
def store(typing: Any, array: Any, index: Any, value: Any) -> Any:
    """array[index] = value, of eight."""

    def made(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(
            _spread(builder, args[2]),
            _place(context, builder, signature.args[0], *args[:2]),
            align=8,
        )
        return context.get_dummy_value()

    return types.void(array, index, value), made


@intrinsic
def fma(typing: Any, a: Any, b: Any, c: Any) -> Any:
    """a b + c, each eight or one number."""

    def made(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vectors = [_spread(builder, value) for value in args]
        kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
        name = f"llvm.fma.v{WIDTH}f64"
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), vectors)

    return _LANES(a, b, c), made
