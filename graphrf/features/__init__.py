"""Random features: the visits that `sampling` recorded, and matrices of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphrf._base import lazy

if TYPE_CHECKING:
    from graphrf.features.bounds import HeavyTailWarning as HeavyTailWarning
    from graphrf.features.bounds import TruncationWarning as TruncationWarning
    from graphrf.features.error import FeatureErrorWarning as FeatureErrorWarning
    from graphrf.features.features import Features as Features
    from graphrf.features.features import load_features as load_features

__getattr__, __dir__, __all__ = lazy.attach(
    __name__,
    {
        "features": "Features load_features",
        "bounds": "HeavyTailWarning TruncationWarning",
        "error": "FeatureErrorWarning",
    },
)
