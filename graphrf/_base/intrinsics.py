"""Processor instructions for compiled loops, in LLVM's language: vector registers and prefetching.

numba keeps a few sums side by side in scalar registers, up to three times slower; and on graphs
larger than the caches, loops over scattered nodes wait for one line of memory after another. These
instructions are compiled into the loops that use them: after an edit their caches must go, too.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

# LLVM's arguments: for reading, into all caches, as data.
_HOW = (0, 3, 1)


class VectorRegisters:
    """Spells registers of `columns` numbers, for rows of C-contiguous arrays of such numbers."""

    def __init__(self, context: Any, builder: Any, columns: int, number: Any) -> None:
        self._builder = builder
        self._columns = columns
        self._number = context.get_value_type(number)
        self._type = ir.VectorType(self._number, columns)
        self.zero = ir.Constant(self._type, [0.0] * columns)
        self._align = 8 if isinstance(self._number, ir.DoubleType) else 4

    def place(self, array: Any, row: Any, column: Any) -> Any:
        """Pointer to the vector array[row, column : column + columns]."""
        builder = self._builder
        first = builder.add(builder.mul(row, builder.extract_value(array.shape, 1)), column)
        return builder.bitcast(builder.gep(array.data, [first]), self._type.as_pointer())

    def load(self, place: Any) -> Any:
        """The numbers at a place."""
        return self._builder.load(place, align=self._align)

    def store(self, vector: Any, place: Any) -> None:
        """Put numbers at a place."""
        self._builder.store(vector, place, align=self._align)

    def broadcast(self, number: Any) -> Any:
        """A number, rounded to those of the registers, in every lane."""
        builder = self._builder
        if number.type != self._number:
            wider = isinstance(self._number, ir.DoubleType)
            number = (builder.fpext if wider else builder.fptrunc)(number, self._number)
        none = ir.Constant(self._type, ir.Undefined)
        lane = builder.insert_element(none, number, ir.Constant(ir.IntType(32), 0))
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), self._columns), [0] * self._columns)
        return builder.shuffle_vector(lane, none, lanes)

    def entry(self, indices: Any, data: Any, entry: Any) -> tuple[Any, Any]:
        """indices[entry], and data[entry] in every lane."""
        builder = self._builder
        node = builder.load(builder.gep(indices.data, [entry]))
        if node.type.width < 64:
            node = builder.zext(node, ir.IntType(64))
        return node, self.broadcast(builder.load(builder.gep(data.data, [entry])))


def unpacked(context: Any, builder: Any, signature: Any, arguments: Any) -> list[Any]:
    """The arguments of an intrinsic, arrays as structures with `data` and `shape`."""
    return [
        context.make_array(kind)(context, builder, argument)
        if isinstance(kind, types.Array)
        else argument
        for kind, argument in zip(signature.args, arguments, strict=True)
    ]


@intrinsic
def prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Request the cache line of `array[index]` without waiting; `array` is a C-contiguous vector.

    Results never depend on it, and an index out of bounds is harmless.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view, place = unpacked(context, builder, signature, arguments)
        byte, integer = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, integer, integer, integer])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        pointer = builder.bitcast(builder.gep(view.data, [place]), byte)
        builder.call(function, [pointer, *map(integer, _HOW)])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate
