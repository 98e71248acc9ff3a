"""Transforms for PyTorch Geometric: diffusion, PageRank, features, return probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphrf._base import lazy

if TYPE_CHECKING:
    from graphrf.pyg.diffusion import GRFDiffusion as GRFDiffusion
    from graphrf.pyg.diffusion import PersonalizedPageRank as PersonalizedPageRank
    from graphrf.pyg.encodings import AddRandomFeatures as AddRandomFeatures
    from graphrf.pyg.encodings import AddReturnProbabilities as AddReturnProbabilities

__getattr__, __dir__, __all__ = lazy.attach(
    __name__,
    {
        "diffusion": "GRFDiffusion PersonalizedPageRank",
        "encodings": "AddRandomFeatures AddReturnProbabilities",
    },
    extra="pyg",
)
