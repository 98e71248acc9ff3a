"""Kernels of the nodes of a graph: functions of its Laplacian, and areal models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphrf._base import lazy

if TYPE_CHECKING:
    from graphrf.kernels.areal import BYM2 as BYM2
    from graphrf.kernels.areal import CAR as CAR
    from graphrf.kernels.areal import ICAR as ICAR
    from graphrf.kernels.explicit import LearnedModulation as LearnedModulation
    from graphrf.kernels.explicit import PowerSeries as PowerSeries
    from graphrf.kernels.kernel import Kernel as Kernel
    from graphrf.kernels.lengthscales import correlation_range as correlation_range
    from graphrf.kernels.named import Diffusion as Diffusion
    from graphrf.kernels.named import InverseCosine as InverseCosine
    from graphrf.kernels.named import Leroux as Leroux
    from graphrf.kernels.named import Matern as Matern
    from graphrf.kernels.named import PStepRandomWalk as PStepRandomWalk
    from graphrf.kernels.named import RegularizedLaplacian as RegularizedLaplacian

__getattr__, __dir__, __all__ = lazy.attach(
    __name__,
    {
        "kernel": "Kernel",
        "named": "Diffusion InverseCosine Leroux Matern PStepRandomWalk RegularizedLaplacian",
        "areal": "BYM2 CAR ICAR",
        "lengthscales": "correlation_range",
        "explicit": "LearnedModulation PowerSeries",
    },
)
