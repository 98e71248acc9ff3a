"""Samplers, and how they draw rows of features: by walks, or by powers of the walk matrix."""

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
    from graphrf.sampling.walks.auto_lengths import AutoLengths as AutoLengths
    from graphrf.sampling.walks.coupling import Coupling as Coupling
    from graphrf.sampling.walks.lengths import IID as IID
    from graphrf.sampling.walks.lengths import Antithetic as Antithetic
    from graphrf.sampling.walks.lengths import LengthLaw as LengthLaw
    from graphrf.sampling.walks.lengths import SigmaCoupled as SigmaCoupled
    from graphrf.sampling.walks.lengths import Stratified as Stratified
    from graphrf.sampling.walks.lengths import Survival as Survival
    from graphrf.sampling.walks.lengths import Truncated as Truncated
    from graphrf.sampling.walks.random_walks import AdaptiveLengths as AdaptiveLengths
    from graphrf.sampling.walks.random_walks import RandomWalks as RandomWalks

__getattr__, __dir__, __all__ = lazy.attach(
    __name__,
    {
        "protocol": "PreparedSampler Sampler",
        "block": "Block",
        "by_error": "ErrorChoice",
        "powers.powers": "CompressedPowers CutPowers ExactPowers",
        "products": "ProductFeatures sample_product",
        "sample": "sample_features",
        "walks.auto_lengths": "AutoLengths",
        "walks.coupling": "Coupling",
        "walks.lengths": "IID Antithetic LengthLaw SigmaCoupled Stratified Survival Truncated",
        "walks.random_walks": "AdaptiveLengths RandomWalks",
    },
)
