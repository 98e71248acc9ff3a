"""A torch device without hardware: "meta" tensors with numbers on the CPU, and a log.

Operations that mix tensors of the device with those of the host fail, as on CUDA; copies between
the two are logged with their size, and so is every answer that Python waits for. Instead of being
divided by a number, tensors are multiplied by its reciprocal, which rounds differently, as on CUDA.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

DEVICE = torch.device("meta")
aten = torch.ops.aten
# What gives Python a number.
_ANSWERS = (aten._local_scalar_dense.default, aten.equal.default, aten.is_nonzero.default)
# Quotients, for which CUDA takes products with the reciprocal where a number divides.
_PRODUCTS = {aten.div.Tensor: aten.mul.Tensor, aten.div_.Tensor: aten.mul_.Tensor}


class Simulated(torch.Tensor):
    """A tensor of the device; `inner` has its numbers."""

    inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Simulated:
        shape = {}
        if inner.layout == torch.strided:
            shape = {"strides": inner.stride(), "storage_offset": inner.storage_offset()}
        made = torch.Tensor._make_wrapper_subclass(
            cls, inner.size(), dtype=inner.dtype, device=DEVICE, requires_grad=False, **shape
        )
        made.inner = inner
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(
        cls, function: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return _run(function, args, kwargs or {}, [])

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def numpy(self, **options: Any) -> Any:
        raise TypeError("a tensor of the device is no array: copy it to the host first")

    __array__ = numpy

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"Simulated({self.inner})"


class _HostGenerator(torch.Generator):
    """A generator of the host, whatever device is asked for."""

    def __new__(cls, device: Any = None) -> _HostGenerator:
        return super().__new__(cls)


class SimulatedDevice(TorchDispatchMode):
    """While it is entered, "meta" is the device.

    Attributes
    ----------
    transfers : list of (str, int)
        Copies and answers: from "device" or to "device", and how many numbers.
    """

    def __init__(self) -> None:
        super().__init__()
        self.transfers: list[tuple[str, int]] = []

    def __enter__(self) -> SimulatedDevice:
        super().__enter__()
        # torch makes these, and generators, without asking the mode
        self._plain = torch.tensor, torch.Generator
        torch.tensor = self._tensor
        torch.Generator = _HostGenerator
        return self

    def __exit__(self, *error: Any) -> None:
        torch.tensor, torch.Generator = self._plain
        super().__exit__(*error)

    def _tensor(
        self, data: Any, *, device: Any = None, requires_grad: bool = False, **options: Any
    ) -> Any:
        made = self._plain[0](data, **options)
        made = made if device is None else made.to(device)
        return made.requires_grad_(requires_grad)

    def __torch_dispatch__(
        self, function: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return _run(function, args, kwargs or {}, self.transfers)

    def largest(self, direction: str) -> int:
        """Numbers of the largest copy "to" or "from" the device."""
        return max((size for way, size in self.transfers if way == direction), default=0)


def _run(function: Any, args: Any, kwargs: dict[str, Any], log: list[tuple[str, int]]) -> Any:
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    here = [tensor for tensor in tensors if isinstance(tensor, Simulated)]
    there = [tensor for tensor in tensors if not isinstance(tensor, Simulated)]
    device = kwargs.get("device")
    on_device = bool(here) if device is None else torch.device(device) == DEVICE
    if function is aten._to_copy.default:
        if on_device != bool(here):
            log.append(("to" if on_device else "from", tensors[0].numel()))
    elif function is aten.copy_.default:
        if here and there:
            log.append(("to" if isinstance(args[0], Simulated) else "from", args[1].numel()))
        on_device = isinstance(args[0], Simulated)
    elif here and any(tensor.dim() for tensor in there):
        raise RuntimeError(f"{function}: expected all tensors to be on one device")
    if function in _ANSWERS and here:
        log.append(("from", 1))
    if torch.Tag.inplace_view in function.tags and here:
        with no_dispatch():
            function(*args, **kwargs)  # the shape of the wrapper
    if (
        function in _PRODUCTS
        and isinstance(args[0], Simulated)
        and not isinstance(args[1], Simulated)
    ):
        function, args = _PRODUCTS[function], (args[0], 1.0 / float(args[1]))
    known = {id(tensor.inner): tensor for tensor in here}
    if device is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    result = function(*tree_map(_inner, args), **tree_map(_inner, kwargs))

    def outer(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or not on_device:
            return leaf
        return known[id(leaf)] if id(leaf) in known else Simulated(leaf)

    return tree_map(outer, result)


def _inner(leaf: Any) -> Any:
    return leaf.inner if isinstance(leaf, Simulated) else leaf
