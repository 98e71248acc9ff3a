r"""Covariances of Kalman filters of independent series, eight side by side: compiled.

With the covariance V_t that is predicted for the states, a step of the filter is

.. math:: S_t = h^\top V_t h + s_t, \quad g_t = V_t h / S_t, \quad
          V_{t+1} = \Phi_{t+1} (V_t - S_t g_t g_t^\top - P) \Phi_{t+1}^\top + P.

Of symmetric matrices the lower triangle is kept, row after row, whose entries are eight numbers,
one of each series.
"""

from __future__ import annotations

import numpy as np

from graphrf._base.compiled import njit
from graphrf.gp.time.lanes import WIDTH, fma, load, store


@njit(nogil=True, cache=True, error_model="numpy")
def place(i, j):  # type: ignore[no-untyped-def]
    """The index of the entry (i, j) or (j, i) in a triangle."""
    return i * (i + 1) // 2 + j if i >= j else j * (j + 1) // 2 + i


@njit(nogil=True, cache=True, error_model="numpy")
def times(a, x, out):  # type: ignore[no-untyped-def]
    """out (d, 8) <- a x for a triangle a."""
    for i in range(x.shape[0]):
        here = load(x, (i,))
        row = place(i, 0)
        total = fma(load(a, (row + i,)), here, 0.0)
        for j in range(i):
            each = load(a, (row + j,))
            total = fma(each, load(x, (j,)), total)
            store(out, (j,), fma(each, here, load(out, (j,))))
        store(out, (i,), total)


@njit(nogil=True, cache=True, error_model="numpy")
def dot(a, b, sign):  # type: ignore[no-untyped-def]
    """sign a . b of (d, 8) each."""
    total = fma(0.0, 0.0, 0.0)
    for i in range(a.shape[0]):
        total = fma(load(a, (i,)), load(b, (i,)), total)
    return fma(sign, total, 0.0)


@njit(nogil=True, cache=True, error_model="numpy")
def row_of(a, x, y, i, last, out):  # type: ignore[no-untyped-def]
    """out (last, 8) <- the first entries of row i of a + x y^T for a triangle a."""
    here = load(x, (i,))
    row = place(i, 0)
    for j in range(min(i + 1, last)):
        store(out, (j,), fma(here, load(y, (j,)), load(a, (row + j,))))
    for j in range(i + 1, last):
        row += j
        store(out, (j,), fma(here, load(y, (j,)), load(a, (row + i,))))


@njit(nogil=True, cache=True, error_model="numpy")
def within_blocks(f, high, x, last, out):  # type: ignore[no-untyped-def]
    """out (last, 8) <- f x within blocks."""
    j = 0
    while j < last:
        end = high[j]
        one = load(x, (j,))
        if end - j == 1:
            store(out, (j,), fma(f[j, j], one, 0.0))
        elif end - j == 2:
            two = load(x, (j + 1,))
            store(out, (j,), fma(f[j, j], one, fma(f[j, j + 1], two, 0.0)))
            store(out, (j + 1,), fma(f[j + 1, j], one, fma(f[j + 1, j + 1], two, 0.0)))
        else:
            for i in range(j, end):
                total = fma(f[i, j], one, 0.0)
                for k in range(j + 1, end):
                    total = fma(f[i, k], load(x, (k,)), total)
                store(out, (i,), total)
        j = end


@njit(nogil=True, cache=True, error_model="numpy")
def combined(f, x, n, last, out):  # type: ignore[no-untyped-def]
    """out (last, 8) <- sum_k f[k] x[k, j] of n rows."""
    if n == 1:
        for j in range(last):
            store(out, (j,), fma(f[0], load(x, (0, j)), 0.0))
    elif n == 2:
        for j in range(last):
            store(out, (j,), fma(f[0], load(x, (0, j)), fma(f[1], load(x, (1, j)), 0.0)))
    else:
        for j in range(last):
            total = fma(f[0], load(x, (0, j)), 0.0)
            for k in range(1, n):
                total = fma(f[k], load(x, (k, j)), total)
            store(out, (j,), total)


@njit(nogil=True, cache=True, error_model="numpy")
def known(v, gain, minus, stationary, i, low, high, last, out):  # type: ignore[no-untyped-def]
    """out (last, 8) <- row i of v - g g^T / S - P; `minus` is -g / S, P is 0 off its band."""
    row_of(v, minus, gain, i, last, out)
    for j in range(low, high):
        store(out, (j,), fma(-1.0, stationary[i, j], load(out, (j,))))


@njit(nogil=True, cache=True, error_model="numpy")
def _advanced(v, gain, minus, phi, high, stationary, rows, mixed, new):  # type: ignore[no-untyped-def]
    """new <- phi (v - g g^T / S - P) phi^T + P, for triangles."""
    first = 0
    while first < high.size:
        last = high[first]
        for i in range(first, last):
            known(v, gain, minus, stationary, i, first, last, last, rows[0])
            within_blocks(phi, high, rows[0], last, mixed[i - first])
        for i in range(first, last):
            row = new[place(i, 0) :]
            combined(phi[i, first:], mixed, last - first, i + 1, row)
            for j in range(first, i + 1):
                store(row, (j,), fma(1.0, stationary[i, j], load(row, (j,))))
        first = last


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def gains(phi, which, low, high, stationary, first, h, noise, covariances, gain, variance):  # type: ignore[no-untyped-def]
    """Fill `covariances` V, `gain` g (T, d, 8), `variance` S (T, 8); infinite s_t: no observation.

    V are triangles (kept, d (d + 1) / 2, 8), those of the last times if these are fewer than all;
    `first` is V at the first time.
    """
    d, kept = low.size, covariances.shape[0]
    rows, mixed = np.empty((2, np.max(high - low), d, WIDTH))
    across, minus = np.empty((2, d, WIDTH))
    covariances[0] = first
    for t in range(noise.size):
        v = covariances[t % kept]
        if t > 0:
            old = covariances[(t - 1) % kept]
            _advanced(old, across, minus, phi[which[t]], high, stationary, rows, mixed, v)
        times(v, h, across)
        store(variance, (t,), fma(noise[t], 1.0, dot(h, across, 1.0)))
        for m in range(WIDTH):
            for i in range(d):
                gain[t, i, m] = across[i, m] / variance[t, m]
                minus[i, m] = -gain[t, i, m]
