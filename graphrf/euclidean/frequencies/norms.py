r"""Couplings of norms of random frequencies: joint uniforms, mapped by the norms' quantiles.

Any joint distribution with uniform marginals leaves the features unbiased; it changes their
variance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np

from graphrf._base import checks

NORMS = ("iid", "pnc", "pm")


@runtime_checkable
class NormCoupling(Protocol):
    """A joint distribution of the norms of one block of frequencies, as uniforms."""

    def uniforms(self, n_blocks: int, size: int, rng: np.random.Generator) -> np.ndarray:
        """Uniforms in (0, 1) for independent blocks of `size` frequencies, (n_blocks, size).

        Each entry must be uniform by itself; entries of one row may depend on each other. The norm
        of a frequency is the kernel's `norm_quantile` of its uniform.
        """
        ...


class _Named:
    """A named coupling, with a readable representation."""

    def __init__(
        self, name: str, draw: Callable[[int, int, np.random.Generator], np.ndarray]
    ) -> None:
        self.name = name
        self.uniforms = draw

    def __repr__(self) -> str:
        return f"norm_coupling({self.name!r})"


def open_uniforms(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Uniforms (k + 1/2) / 2^52: never 0 or 1, and 1 - u is exact, so quantiles are finite."""
    return (rng.integers(0, 1 << 52, size=shape) + 0.5) * 2.0**-52


def _iid(n_blocks: int, size: int, rng: np.random.Generator) -> np.ndarray:
    return open_uniforms((n_blocks, size), rng)


def _pairwise(n_blocks: int, size: int, rng: np.random.Generator) -> np.ndarray:
    first = open_uniforms((n_blocks, (size + 1) // 2), rng)
    u = np.empty((n_blocks, size))
    u[:, 0::2] = first
    u[:, 1::2] = 1 - first[:, : size // 2]
    return u


def _positive_monotone(n_blocks: int, size: int, rng: np.random.Generator) -> np.ndarray:
    return np.repeat(open_uniforms((n_blocks, 1), rng), size, axis=1)


_COUPLINGS = {
    "iid": _Named("iid", _iid),
    "pnc": _Named("pnc", _pairwise),
    "pm": _Named("pm", _positive_monotone),
}


def norm_coupling(norms: str | NormCoupling) -> NormCoupling:
    """The coupling with a name; a coupling is returned unchanged.

    ====  =========================================================================================
    name  uniforms of a block of d frequencies
    ====  =========================================================================================
    iid   independent
    pnc   pairwise norm-coupled: u_2 = 1 - u_1 in floor(d/2) pairs; an odd last one is independent
    pm    positive monotone: one u for the whole block
    ====  =========================================================================================

    [Theory](../theory/euclidean.md#couplings-of-norms) has their variances. Source: Reid et al.
    2024, "Variance-reducing couplings for random features", Theorem 3.2, Definition 3.3 and App.
    B.3.

    Parameters
    ----------
    norms : str or NormCoupling
        A name, or an object with `uniforms(n_blocks, size, rng)`, such as a learned Gaussian
        copula; TypeError or ValueError if it is neither.

    Examples
    --------
    >>> u = norm_coupling("pnc").uniforms(1, 3, np.random.default_rng(0))
    >>> bool(u[0, 0] + u[0, 1] == 1.0)
    True
    """
    if isinstance(norms, NormCoupling) and not isinstance(norms, type):
        return norms
    return _COUPLINGS[checks.choice("norms", norms, NORMS)]


def block_uniforms(norms: Any, n_blocks: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Uniforms of a coupling, validated, since it may be the user's."""
    u = np.asarray(norm_coupling(norms).uniforms(n_blocks, size, rng), dtype=np.float64)
    if u.shape != (n_blocks, size):
        raise checks.value_error(
            "norms", f"must draw uniforms of shape {(n_blocks, size)}, got {checks.describe(u)}"
        )
    if not ((u > 0).all() and (u < 1).all()):
        raise checks.value_error("norms", "must draw uniforms greater than 0 and less than 1")
    return u
