"""Prefetching in compiled loops over scattered nodes: a line of memory that is needed soon is requested ahead."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from graphrf._base.vector_registers import unpacked

# LLVM's arguments: for reading, into all caches, as data.
_HOW = (0, 3, 1)


@intrinsic
def prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Request the cache line of `array[index]` (C-contiguous, one dimension); an index out of bounds is
    harmless."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view, place = unpacked(context, builder, signature, arguments)
        byte, integer = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, integer, integer, integer])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        pointer = builder.bitcast(builder.gep(view.data, [place]), byte)
        builder.call(function, [pointer, *map(integer, _HOW)])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate
