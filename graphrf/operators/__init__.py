"""Exact linear algebra: kernels, and factors of kernels, applied to vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphrf._base import lazy

if TYPE_CHECKING:
    from graphrf.operators.factor import Factor as Factor
    from graphrf.operators.factor import FactorBase as FactorBase
    from graphrf.operators.series.apply import apply_kernel as apply_kernel
    from graphrf.operators.series.apply import apply_root as apply_root
    from graphrf.operators.series.apply import kernel_block as kernel_block
    from graphrf.operators.series.apply import mean_variance as mean_variance
    from graphrf.operators.series.series_factor import SeriesFactor as SeriesFactor

__getattr__, __dir__, __all__ = lazy.attach(
    __name__,
    {
        "factor": "Factor FactorBase",
        "series.series_factor": "SeriesFactor",
        "series.apply": "apply_kernel apply_root kernel_block mean_variance",
    },
)
