"""Quantile matching: optimal-transport couplings of walk lengths."""

from graphrf.matching.learn import learn_coupling

__all__ = ["learn_coupling"]
