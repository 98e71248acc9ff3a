"""Quantile matching: optimal-transport couplings of walk lengths."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphrf._base import lazy

if TYPE_CHECKING:
    from graphrf.couplings.learn import learn_coupling as learn_coupling
    from graphrf.sampling.walks.coupling import shipped_coupling as shipped_coupling

__getattr__, __dir__, __all__ = lazy.attach(
    __name__, {"learn": "learn_coupling", ".sampling.walks.coupling": "shipped_coupling"}
)
