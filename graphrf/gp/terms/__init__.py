"""Terms of latent Gaussian models, which add and multiply; built on `metric` and `time`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphrf._base import lazy

if TYPE_CHECKING:
    from graphrf.gp.model.prior import BetaPrior as BetaPrior
    from graphrf.gp.model.prior import PenalisedDeviation as PenalisedDeviation
    from graphrf.gp.model.prior import PenalisedRange as PenalisedRange

__getattr__, __dir__, __all__ = lazy.attach(
    __name__, {"parameters": "BetaPrior PenalisedDeviation PenalisedRange"}
)
