r"""Cosine and sine of many numbers at once, the larger part of the cost of Fourier features.

numpy computes them one by one in double precision. Here one loop computes both without branches, so
that it compiles to vector instructions; single precision is computed in double and rounded once.
"""

from __future__ import annotations

import numpy as np

from graphrf._base.compiled import njit

LARGEST = 1e5
"""Largest argument; pi/2 in three parts of 33 bits then gives an error of the argument below 1e-16.
"""

# pi/2 = _P1 + _P2 + _P3, where k _P1 and k _P2 are exact for |k| < 2^20. The polynomials are
# minimax on [-pi/4, pi/4], all from fdlibm (Sun Microsystems 1993, k_sin.c, k_cos.c, e_rem_pio2.c).
_P1, _P2, _P3 = 1.57079632673412561417e00, 6.07710050630396597660e-11, 2.02226624879595063154e-21
_S1, _S2, _S3 = -1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04
_S4, _S5, _S6 = 2.75573137070700676789e-06, -2.50507602534068634195e-08, 1.58969099521155010221e-10
_C1, _C2, _C3 = 4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05
_C4, _C5, _C6 = -2.75573143513906633035e-07, 2.08757232129817482790e-09, -1.13596475577881948265e-11
_ROUND = 6755399441055744.0  # 1.5 * 2^52: adding and subtracting it rounds to the nearest integer


def cos_sin_rows(out: np.ndarray, scale: float) -> None:
    """out[i] = scale [cos(p), sin(p)], in place: p is half of row i. Shape (n, 2 m), contiguous.

    Within 2e-16 of the exact values in double precision; numpy's if some |p| is above `LARGEST`.
    """
    m = out.shape[1] // 2
    first = out[:, :m]
    if _in_range(first):
        _cos_sin_rows(out, scale)
        return
    np.sin(first, out=out[:, m:])
    np.cos(first, out=first)
    out *= out.dtype.type(scale)


def cos_rows(out: np.ndarray, scale: float) -> None:
    """out = scale cos(out), in place, C-contiguous with two axes; as `cos_sin_rows`.

    In single precision numpy's are used, which are faster without sines.
    """
    if out.dtype == np.float64 and _in_range(out):
        _cos_rows(out, scale)
        return
    np.cos(out, out=out)
    out *= out.dtype.type(scale)


def _in_range(x: np.ndarray) -> bool:
    return bool(x.max(initial=0.0) <= LARGEST and x.min(initial=0.0) >= -LARGEST)


@njit(nogil=True, cache=True)
def _cos_rows(out, scale):  # type: ignore[no-untyped-def]
    unused = np.empty(out.shape[1])
    for i in range(out.shape[0]):
        _cos_sin(out[i], scale, unused)


@njit(nogil=True, cache=True)
def _cos_sin_rows(out, scale):  # type: ignore[no-untyped-def]
    m = out.shape[1] // 2
    for i in range(out.shape[0]):
        row = out[i]
        _cos_sin(row[:m], scale, row[m:])


@njit(nogil=True, cache=True)
def _cos_sin(cos, scale, sin):  # type: ignore[no-untyped-def]
    """Replace angles in `cos` by scaled cosines, and write sines, in arrays that do not overlap."""
    for j in range(cos.shape[0]):
        x = cos[j]
        k = (x * (2 / np.pi) + _ROUND) - _ROUND
        r = ((x - k * _P1) - k * _P2) - k * _P3
        z = r * r
        s = r + r * z * (_S1 + z * (_S2 + z * (_S3 + z * (_S4 + z * (_S5 + z * _S6)))))
        c = (1 - 0.5 * z) + z * z * (_C1 + z * (_C2 + z * (_C3 + z * (_C4 + z * (_C5 + z * _C6)))))
        half, quarter = 0.5 * k, 0.25 * k
        odd = (half + _ROUND) - _ROUND != half
        # k mod 4 is 0, 1, 2, 3: 0, 0.25, +-0.5, -0.25.
        turn = quarter - ((quarter + _ROUND) - _ROUND)
        co, si = (s, c) if odd else (c, s)
        cos[j] = -scale * co if turn > 0.1 or turn < -0.3 else scale * co
        sin[j] = -scale * si if turn < -0.1 or turn > 0.3 else scale * si
