"""How features serve a kernel: bounds on what they lack, and warnings where that is much."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from graphrf._base import checks
from graphrf._base.warn import warn

if TYPE_CHECKING:
    from graphrf.features.features import Features

# Features of a kernel are warned about when their bound on the variance is this many times that without
# termination; 5 separates harmless laws (below 2 in practice) from those that ruin a Gaussian process (9, 1e4).
HEAVY = 5.0
# ... and when the error of their Gram matrix may exceed this share of the bound of K, (sum_k |f_k|)^2.
_MUCH = 0.1
# What rounding may do, as a share of sum_k |f_k| or of the mass of a row or column. A float32 is off by 2^-24:
# the record, the matrix that masses are read from, and the matrix that is used. The rest is for float64.
_ROUNDING = 2.0**-21


# sum_k |f_k| up to here, and down to its inverse, has a square that float32 holds.
_LARGEST_SINGLE = 1e17


# How to see the error of features whose bound is loose.
_MEASURE = (
    "to measure it, compare features.gram(kernel, rows=r, cols=r) with graphrf.kernel_block(graph, kernel, "
    "r, r) for some nodes r"
)


class HeavyTailWarning(UserWarning):
    """The law of lengths ends walks too early for the kernel: estimates have a huge or infinite variance."""


class TruncationWarning(UserWarning):
    """Walks or powers end before the kernel's series, or rows are cut: a bias of a stated size."""


class FeatureKernel(Protocol):
    """What features need of a kernel (`graphrf.kernels.Kernel`)."""

    @property
    def laplacian(self) -> str: ...
    def modulation(self, n: int, scale: float | None = None) -> np.ndarray: ...
    def modulation_tail(self, length: int, scale: float | None = None) -> float: ...


def modulation(features: Features, kernel: FeatureKernel) -> np.ndarray:
    """f_0 .. f_L of a kernel, L the features' largest length; TypeError or ValueError if it is not theirs."""
    for needed in ("laplacian", "modulation", "modulation_tail"):
        if not hasattr(kernel, needed):
            raise checks.not_a_kernel(kernel)
    if kernel.laplacian != features.laplacian:
        raise ValueError(
            f"`kernel` must be of the {features.laplacian} Laplacian, whose "
            f"{'powers' if features._of_powers else 'walks'} these are, got one of the {kernel.laplacian} "
            f"Laplacian; sample with laplacian={kernel.laplacian!r}"
        )
    if features.dtype == np.float32:
        total = kernel.modulation_tail(-1, scale=features._scale)
        if total and not 1 / _LARGEST_SINGLE < total < _LARGEST_SINGLE:
            raise ValueError(
                f"entries of the Gram matrix of {kernel!r}, up to {total**2:.2g}, leave float32: sample with "
                "dtype=numpy.float64"
            )
    return kernel.modulation(features.max_length + 1, scale=features._scale)


def served_modulation(features: Features, kernel: FeatureKernel) -> np.ndarray:
    """The same, with warnings where features and kernel do not suit each other."""
    f = modulation(features, kernel)
    for warning in complaints(features, kernel, f):
        warn(warning)
    return f


def complaints(features: Features, kernel: FeatureKernel, f: np.ndarray) -> list[UserWarning]:
    """The warnings of `served_modulation`; f is the modulation."""
    found: list[UserWarning] = []
    plain = float(np.sum(f * f))
    heavy = float(np.sum(f * f / features._survival))
    if heavy > HEAVY * plain:
        found.append(
            HeavyTailWarning(
                f"these walks end too early for {kernel!r}: sum f_k^2 / S(k) = {heavy:.3g} against "
                f"{plain:.3g} without termination, so that estimates have a huge variance; use a smaller "
                "p_halt, Truncated(max_length), or the exact series (graphrf.apply_kernel, or method='series' of "
                "GraphGPRegressor)"
            )
        )
    if not features._complete or plain == 0:  # all of f may lie beyond the longest walk that ever happens
        size = kernel.modulation_tail(-1, scale=features._scale) ** 2
        error = truncation_error(features, kernel)
        if error > _MUCH * size:
            found.append(TruncationWarning(_words(features, kernel, error, size)))
    return found


def _words(features: Features, kernel: FeatureKernel, error: float, size: float) -> str:
    length = features.max_length
    what = f"powers up to {length}" if features._of_powers else f"walks of {length} steps"
    way_out = "raise `max_length` (kernel.truncation_length(tol) gives a sufficient one)"
    off = f"off by up to {error:.3g} in operator norm, K's own being at most {size:.3g}"
    if features._dropped is None:
        return f"{what} cut the series of {kernel!r}: the Gram matrix is {off}; {way_out}"
    return (
        f"a guaranteed bound, mostly well above the error: {what} and rows cut to a budget cut the series of "
        f"{kernel!r}, and the Gram matrix is {off}; {_MEASURE}; to lower it, {way_out} "
        "or `budget` (features.row_errors(kernel) tells what a larger one would save)"
    )


def truncation_error(features: Features, kernel: FeatureKernel) -> float:
    """See `Features.truncation_error`."""
    f = np.abs(modulation(features, kernel))
    tail = kernel.modulation_tail(features.max_length, scale=features._scale)
    total = kernel.modulation_tail(-1, scale=features._scale)
    return float(tail * (2 * total - tail) + 2 * float(f.sum()) * _cut_norm(features, f))


def row_errors(features: Features, kernel: FeatureKernel) -> np.ndarray:
    """See `Features.row_errors`."""
    lost = _cut_row_norms(features, np.abs(modulation(features, kernel)))
    return lost + kernel.modulation_tail(features.max_length, scale=features._scale)


def _cut_row_norms(features: Features, f: np.ndarray) -> np.ndarray:
    """Bounds on the Euclidean norms of what was cut from each row, f >= 0."""
    if features._dropped is None:
        return np.zeros(features.nodes.size)
    return np.asarray(features._dropped @ f)


def _cut_norm(features: Features, f: np.ndarray) -> float:
    """A bound on the operator norm of what was cut from the rows, f >= 0; rounding to float32 is included.

    The smaller of the Frobenius norm and Schur's test: |D|_2^2 <= max_i (D p)_i / p_i max_v (D^T p)_v / p_v for
    any D >= 0, p > 0. Here D, sum_k f_k W^k without the entries kept, bounds what was cut entry by entry, and
    p = sqrt(d) (combinatorial: 1), so that W p = p: every row and column of sum_k f_k W^k has the mass sum_k f_k.
    Rows that are not there would only add to a column's mass.
    """
    if features._dropped is None:
        return 0.0
    distinct, first = np.unique(features.nodes, return_index=True)
    if distinct.size < features.nodes.size:
        features = features._take_rows(first)
    frobenius = float(np.linalg.norm(_cut_row_norms(features, f)))
    p = features._degree_roots() if features._degrees is not None else np.ones(features.n_nodes)
    own = p[features.nodes]
    kept = features.matrix_from_modulation(f)
    total = float(f.sum())
    by_row, by_column = (
        max(total - (1 - _ROUNDING) * float(mass.min()), 0.0) for mass in (kept @ p / own, kept.T @ own / p)
    )
    return float(min(frobenius + _ROUNDING * total, np.sqrt(by_row * by_column)))
