"""Kernels of the nodes of a graph: what is estimated, and how it is computed exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphrf._base import lazy

if TYPE_CHECKING:
    from graphrf.kernels.areal import BYM2 as BYM2
    from graphrf.kernels.areal import CAR as CAR
    from graphrf.kernels.areal import ICAR as ICAR
    from graphrf.kernels.factor import Factor as Factor
    from graphrf.kernels.factor import FactorBase as FactorBase
    from graphrf.kernels.given import LearnedModulation as LearnedModulation
    from graphrf.kernels.given import PowerSeries as PowerSeries
    from graphrf.kernels.kernel import Kernel as Kernel
    from graphrf.kernels.named import Diffusion as Diffusion
    from graphrf.kernels.named import InverseCosine as InverseCosine
    from graphrf.kernels.named import Leroux as Leroux
    from graphrf.kernels.named import Matern as Matern
    from graphrf.kernels.named import PStepRandomWalk as PStepRandomWalk
    from graphrf.kernels.named import RegularizedLaplacian as RegularizedLaplacian
    from graphrf.kernels.series import apply_kernel as apply_kernel
    from graphrf.kernels.series import apply_root as apply_root
    from graphrf.kernels.series import kernel_block as kernel_block
    from graphrf.kernels.series import mean_variance as mean_variance
    from graphrf.kernels.series_factor import SeriesFactor as SeriesFactor

__getattr__, __dir__, __all__ = lazy.attach(
    __name__,
    {
        "kernel": "Kernel",
        "named": "Diffusion InverseCosine Leroux Matern PStepRandomWalk RegularizedLaplacian",
        "areal": "BYM2 CAR ICAR",
        "given": "LearnedModulation PowerSeries",
        "factor": "Factor FactorBase",
        "series_factor": "SeriesFactor",
        "series": "apply_kernel apply_root kernel_block mean_variance",
    },
)
