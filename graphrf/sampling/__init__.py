"""Samplers, and how rows of features are drawn with them: by random walks, or by powers of the walk matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphrf._base import lazy

if TYPE_CHECKING:
    from graphrf.sampling.block import Block as Block
    from graphrf.sampling.by_error import ErrorChoice as ErrorChoice
    from graphrf.sampling.powers.powers import CompressedPowers as CompressedPowers
    from graphrf.sampling.powers.powers import CutPowers as CutPowers
    from graphrf.sampling.powers.powers import ExactPowers as ExactPowers
    from graphrf.sampling.products import ProductFeatures as ProductFeatures
    from graphrf.sampling.products import sample_product as sample_product
    from graphrf.sampling.protocol import PreparedSampler as PreparedSampler
    from graphrf.sampling.protocol import Sampler as Sampler
    from graphrf.sampling.sample import sample_features as sample_features
    from graphrf.sampling.walks.random_walks import RandomWalks as RandomWalks

__getattr__, __dir__, __all__ = lazy.attach(
    __name__,
    {
        "contract": "PreparedSampler Sampler",
        "block": "Block",
        "by_error": "ErrorChoice",
        "powers.powers": "CompressedPowers CutPowers ExactPowers",
        "products": "ProductFeatures sample_product",
        "sample": "sample_features",
        "walks.random_walks": "RandomWalks",
    },
)
