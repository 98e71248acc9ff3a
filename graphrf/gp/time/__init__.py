"""Gaussian processes on graph and time: separable kernels with a state-space time part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphrf._base import lazy

if TYPE_CHECKING:
    from graphrf.gp.time.covariance import Part as Part
    from graphrf.gp.time.kernels import ConstantTime as ConstantTime
    from graphrf.gp.time.kernels import MaternTime as MaternTime
    from graphrf.gp.time.kernels import PeriodicTime as PeriodicTime
    from graphrf.gp.time.kernels import TimeKernel as TimeKernel

__getattr__, __dir__, __all__ = lazy.attach(
    __name__, {"covariance": "Part", "kernels": "ConstantTime MaternTime PeriodicTime TimeKernel"}
)
