"""Bounds on the error of features for a kernel, and warnings if it is large."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from graphrf._base import checks
from graphrf._base.warn import warn
from graphrf.features.matrix import feature_matrix
from graphrf.features.record import Record
from graphrf.features.sample_info import FeatureKernel, SampleInfo

# A warning is issued when the bound on the variance of features is this many times that without
# termination; 5 separates harmless lengths (below 2 in practice) from those that ruin a Gaussian
# process (9, 1e4).
HEAVY = 5.0
# ... and when the error of their Gram matrix may exceed this fraction of K's bound, (sum_k
# |f_k|)^2: where the series ends too early, which is a bias of about that size, and where rows are
# cut, for which the bound is loose. Users of kernel.truncation_length(0.01) accept 2 %.
_ENDS_EARLY, _CUT = 0.02, 0.1
# Rounding errors as a share of sum_k |f_k| or of the mass of a row or column: 2^-24 in float32 for
# the record, the matrix of the masses, and the matrix in use, with a margin for float64.
_ROUNDING = 2.0**-21
# Unit roundoff of the powers in the record, and its effect
# on K that needs no warning, as a share of K's norm.
_SINGLE = 2.0**-24
_ROUNDED = 1e-3
# A way to measure the error of features whose bound is loose.
_MEASURE = (
    "to measure it, compare features.gram(kernel, rows=r, cols=r) with graphrf.kernel_block(graph, "
    "kernel, r, r) for some nodes r"
)


class HeavyTailWarning(UserWarning):
    """Walks end too early for the kernel: estimates have a huge or infinite variance."""


class TruncationWarning(UserWarning):
    """Walks or powers end before the kernel's series, or rows are cut: a bias of a stated size."""


class CutRows(NamedTuple):
    """Rows of which a part was cut: their nodes, and their record on the host."""

    nodes: np.ndarray
    record: Record

    @property
    def dropped(self) -> np.ndarray:
        """The norms of what was cut from each row, shape (n, L + 1)."""
        assert self.record.dropped is not None
        return self.record.dropped


def checked_modulation(
    info: SampleInfo, kernel: FeatureKernel, cut: CutRows | None = None
) -> np.ndarray:
    """`SampleInfo.modulation`, with warnings where features and kernel do not suit each other."""
    f = info.modulation(kernel)
    for warning in suitability_warnings(info, kernel, f, cut):
        warn(warning)
    return f


def suitability_warnings(
    info: SampleInfo, kernel: FeatureKernel, f: np.ndarray, cut: CutRows | None = None
) -> list[UserWarning]:
    """The warnings of `checked_modulation` for f; `cut` adds the error of rows that were cut."""
    found: list[UserWarning] = []
    heavy, plain = termination_variance(f, info.survival)
    if heavy > HEAVY * plain:
        found.append(
            HeavyTailWarning(
                f"these walks end too early for {kernel!r}: sum f_k^2 / S(k) = {heavy:.3g} against "
                f"{plain:.3g} without termination, so that estimates have a huge variance; use a "
                "smaller p_halt, Truncated(max_length), or the exact series (graphrf.apply_kernel, "
                "or method='series' of GraphGPRegressor)"
            )
        )
    if not info.complete or plain == 0:  # all of f may be at lengths above the longest walk
        size = kernel.modulation_tail(-1, scale=info.scale) ** 2
        ended = tail_error(kernel, info.max_length, info.scale)
        bound = ended if cut is None else truncation_error(info, kernel, cut)
        if cut is not None and bound > _CUT * size:
            found.append(TruncationWarning(_words(info, kernel, bound, size, is_cut=True)))
        elif ended > _ENDS_EARLY * size:
            found.append(TruncationWarning(_words(info, kernel, ended, size, is_cut=False)))
    cancelled = (
        2 * _SINGLE * kernel.cancellation(info.scale) if hasattr(kernel, "cancellation") else 0.0
    )
    if info.of_powers and cancelled > _ROUNDED:
        off = f"up to {cancelled:.2g} of its norm" if cancelled < 1 else "more than its norm"
        message = (
            f"the terms of the series of {kernel!r} cancel, and powers are kept in float32: the "
            f"Gram matrix may be off by {off}; use exact products (graphrf.apply_kernel, "
            "graphrf.kernel_block, or method='series' of GraphGPRegressor), fewer `steps` or a "
            "larger alpha"
        )
        if cancelled >= 1:
            raise checks.value_error(
                "kernel", f"cannot be estimated from these features: {message}"
            )
        found.append(UserWarning(message))
    return found


def _words(
    info: SampleInfo, kernel: FeatureKernel, error: float, size: float, *, is_cut: bool
) -> str:
    length = info.max_length
    what = f"powers up to {length}" if info.of_powers else f"walks of {length} steps"
    way_out = "raise `max_length` (kernel.truncation_length(tol) gives a sufficient one)"
    off = f"off by up to {error:.3g} in operator norm, K's own being at most {size:.3g}"
    if not is_cut:
        return f"{what} cut the series of {kernel!r}: the Gram matrix is {off}; {way_out}"
    return (
        f"a guaranteed bound, mostly well above the error: {what} and rows cut to a budget cut the "
        f"series of {kernel!r}, and the Gram matrix is {off}; {_MEASURE}; to lower it, {way_out} "
        "or `budget` (features.row_errors(kernel) returns the effect of a larger one)"
    )


def termination_variance(f: np.ndarray, survival: np.ndarray) -> tuple[float, float]:
    """sum_k f_k^2 / S(k), a bound on the variance but for constants, and sum_k f_k^2."""
    n = min(f.size, survival.size)
    squares = np.square(f[:n])
    return float(np.sum(squares / survival[:n])), float(np.sum(squares))


def tail_error(kernel: FeatureKernel, length: int, scale: float) -> float:
    """The bound tail (2 A - tail) on the error of K from the series' end, A = sum_k |f_k|."""
    total = kernel.modulation_tail(-1, scale=scale)
    tail = kernel.modulation_tail(length, scale=scale)
    return float(tail * (2 * total - tail))


def truncation_error(info: SampleInfo, kernel: FeatureKernel, cut: CutRows | None = None) -> float:
    """See `Features.truncation_error`."""
    f = np.abs(info.modulation(kernel))
    lost = 0.0 if cut is None else _cut_norm(info, cut, f)
    return tail_error(kernel, info.max_length, info.scale) + 2 * float(f.sum()) * lost


def row_errors(
    info: SampleInfo, kernel: FeatureKernel, n_rows: int, cut: CutRows | None
) -> np.ndarray:
    """See `Features.row_errors`."""
    f = np.abs(info.modulation(kernel))
    lost = np.zeros(n_rows) if cut is None else np.asarray(cut.dropped @ f)
    return lost + kernel.modulation_tail(info.max_length, scale=info.scale)


def _cut_norm(info: SampleInfo, cut: CutRows, f: np.ndarray) -> float:
    """A bound on the operator norm of the part that was cut, for f >= 0, with rounding to float32.

    It is the smaller of the Frobenius norm and Schur's test, see `Features.truncation_error`, with
    W p = p.
    """
    distinct, first = np.unique(cut.nodes, return_index=True)
    if distinct.size < cut.nodes.size:
        cut = CutRows(distinct, cut.record.take(first))
    frobenius = float(np.linalg.norm(cut.dropped @ f))
    p = info.degree_roots if info.degrees is not None else np.ones(info.n_nodes)
    own = p[cut.nodes]
    kept = feature_matrix(info, cut.nodes, cut.record, f)
    total = float(f.sum())
    by_row, by_column = (
        max(total - (1 - _ROUNDING) * float(mass.min()), 0.0)
        for mass in (kept @ p / own, kept.T @ own / p)
    )
    return float(min(frobenius + _ROUNDING * total, np.sqrt(by_row * by_column)))
