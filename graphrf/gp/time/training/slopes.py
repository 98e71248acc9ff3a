"""The likelihood of independent series by Kalman filters, and its derivatives by a sweep back: compiled.

Covariances are symmetric and transitions act within blocks of states, of one or two as a rule. Of matrices only the
lower triangle is kept, row after row; each entry is eight numbers, one of each series. A step goes through the rows
of one block at a time, which stay in the processor's first cache.
"""

from __future__ import annotations

import numpy as np

from graphrf._base.compiled import njit
from graphrf.gp.time.lanes import WIDTH, fma, load, store
from graphrf.gp.time.loops import moved


@njit(nogil=True, cache=True, error_model="numpy")
def _place(i, j):  # type: ignore[no-untyped-def]
    """The index of the entry (i, j) or (j, i) in a triangle."""
    return i * (i + 1) // 2 + j if i >= j else j * (j + 1) // 2 + i


@njit(nogil=True, cache=True, error_model="numpy")
def _times(a, x, out):  # type: ignore[no-untyped-def]
    """out (d, 8) <- a x for a triangle a."""
    for i in range(x.shape[0]):
        here = load(x, (i,))
        row = _place(i, 0)
        total = fma(load(a, (row + i,)), here, 0.0)
        for j in range(i):
            each = load(a, (row + j,))
            total = fma(each, load(x, (j,)), total)
            store(out, (j,), fma(each, here, load(out, (j,))))
        store(out, (i,), total)


@njit(nogil=True, cache=True, error_model="numpy")
def _dot(a, b, sign):  # type: ignore[no-untyped-def]
    """sign a . b of (d, 8) each."""
    total = fma(0.0, 0.0, 0.0)
    for i in range(a.shape[0]):
        total = fma(load(a, (i,)), load(b, (i,)), total)
    return fma(sign, total, 0.0)


@njit(nogil=True, cache=True, error_model="numpy")
def _row(a, x, y, i, last, out):  # type: ignore[no-untyped-def]
    """out (last, 8) <- the first entries of row i of a + x y^T for a triangle a."""
    here = load(x, (i,))
    row = _place(i, 0)
    for j in range(min(i + 1, last)):
        store(out, (j,), fma(here, load(y, (j,)), load(a, (row + j,))))
    for j in range(i + 1, last):
        row += j
        store(out, (j,), fma(here, load(y, (j,)), load(a, (row + i,))))


@njit(nogil=True, cache=True, error_model="numpy")
def _mixed(f, high, x, last, out):  # type: ignore[no-untyped-def]
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
def _combined(f, x, n, last, out):  # type: ignore[no-untyped-def]
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
def _add(sign, a, first, last, out):  # type: ignore[no-untyped-def]
    """out (j - first, 8) += sign a for j from `first` to `last`; a is a number or (d, 8)."""
    for j in range(first, last):
        store(out, (j - first,), fma(sign, load(a, (j,)), load(out, (j - first,))))


@njit(nogil=True, cache=True, error_model="numpy")
def _known(v, gain, minus, stationary, i, low, high, last, out):  # type: ignore[no-untyped-def]
    """out (last, 8) <- row i of v - g g^T / S - P; `minus` is -g / S, and P is 0 outside of `low` to `high`."""
    _row(v, minus, gain, i, last, out)
    for j in range(low, high):
        store(out, (j,), fma(-1.0, stationary[i, j], load(out, (j,))))


@njit(nogil=True, cache=True, error_model="numpy")
def _advanced(v, gain, minus, phi, high, stationary, rows, mixed, new):  # type: ignore[no-untyped-def]
    """new <- phi (v - g g^T / S - P) phi^T + P, for triangles."""
    first = 0
    while first < high.size:
        last = high[first]
        for i in range(first, last):
            _known(v, gain, minus, stationary, i, first, last, last, rows[0])
            _mixed(phi, high, rows[0], last, mixed[i - first])
        for i in range(first, last):
            row = new[_place(i, 0) :]
            _combined(phi[i, first:], mixed, last - first, i + 1, row)
            for j in range(first, i + 1):
                store(row, (j,), fma(1.0, stationary[i, j], load(row, (j,))))
        first = last


@njit(nogil=True, cache=True, error_model="numpy")
def _pulled(dv, dg, h, v, gain, minus, phi, high, stationary, rows, mixed, d_phi, d_stationary):  # type: ignore[no-untyped-def]
    """dv <- phi^T D phi for D = dv + dg h^T + h dg^T, and derivatives within blocks, (d, b, 8).

    These are d_phi += 2 D phi (v - g g^T / S - P), and d_stationary += D - phi^T D phi.
    """
    d, first = high.size, 0
    while first < d:
        last = high[first]
        for i in range(first, last):
            _row(dv, dg, h, i, d, rows[i - first])
            for j in range(d):
                here = load(rows, (i - first, j))
                store(rows, (i - first, j), fma(load(h, (i,)), load(dg, (j,)), here))
            _add(1.0, rows[i - first], first, last, d_stationary[i])
            _mixed(phi.T, high, rows[i - first], d, mixed[i - first])
        for j in range(first, last):
            _known(v, gain, minus, stationary, j, first, last, d, rows[0])
            for i in range(first, last):
                here = (i, j - first)
                store(d_phi, here, fma(1.0, _dot(mixed[i - first], rows[0], 2.0), load(d_phi, here)))
        for i in range(first, last):
            _combined(phi[first:, i], mixed, last - first, last, rows[i - first])
            _add(-1.0, rows[i - first], first, last, d_stationary[i])
            row = _place(i, 0)
            for j in range(i + 1):
                store(dv, (row + j,), load(rows, (i - first, j)))
        first = last


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def filtered(phi, which, low, high, stationary, h, noise, covariances, gain, spread):  # type: ignore[no-untyped-def]
    """Fill `covariances` V before each observation, `gain` V h / S (T, d, 8) and `spread` S (T, 8).

    V are triangles (kept, d (d + 1) / 2, 8), of the last times if these are fewer.
    """
    d, kept = low.size, covariances.shape[0]
    rows, mixed = np.empty((2, np.max(high - low), d, WIDTH))
    across, minus = np.empty((2, d, WIDTH))
    for i in range(d):
        for j in range(i + 1):
            store(covariances, (0, _place(i, j)), stationary[i, j])
    for t in range(noise.size):
        v = covariances[t % kept]
        if t > 0:
            old = covariances[(t - 1) % kept]
            _advanced(old, across, minus, phi[which[t]], high, stationary, rows, mixed, v)
        _times(v, h, across)
        store(spread, (t,), fma(noise[t], 1.0, _dot(h, across, 1.0)))
        for m in range(WIDTH):
            for i in range(d):
                gain[t, i, m] = across[i, m] / spread[t, m]
                minus[i, m] = -gain[t, i, m]


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def filtered_back(  # type: ignore[no-untyped-def]
    phi, which, low, high, stationary, h, covariances, gain, spread, d_gain, d_log, n_series, d_phi, d_stationary,
    d_h, d_noise,
):  # fmt: skip
    """Derivatives through `filtered`, from `d_gain` (T, d, 8) and `d_log` (T, 8), of the logarithm of S.

    They are added to `d_phi` (u, d, d) and `d_stationary` (d, d), both within blocks and summed over the first
    `n_series`, to `d_h` (d, 8) and to `d_noise` (8,).
    """
    d, widest = low.size, np.max(high - low)
    rows, mixed = np.empty((2, widest, d, WIDTH))
    dv = np.zeros((_place(d, 0), WIDTH))
    du, across, minus, change = np.zeros((4, d, WIDTH))
    ds = np.zeros((1, WIDTH))
    by_phi = np.zeros((phi.shape[0], d, widest, WIDTH))
    by_stationary = np.zeros((d, widest, WIDTH))
    still = np.zeros((d, d))  # no step leads to the first time
    for t in range(spread.shape[0] - 1, -1, -1):
        _times(dv, gain[t], du)
        slope = _dot(gain[t], du, 1.0)
        store(ds, (0,), slope)
        store(change, (0,), _dot(gain[t], d_gain[t], 1.0))
        for m in range(WIDTH):
            ds[0, m] += (d_log[t, m] - change[0, m]) / spread[t, m]
            d_noise[m] += ds[0, m]
            for i in range(d):
                du[i, m] = d_gain[t, i, m] / spread[t, m] - 2.0 * du[i, m]
        for i in range(d):
            store(du, (i,), fma(load(h, (i,)), load(ds, (0,)), load(du, (i,))))
        _times(covariances[t], du, change)
        s = load(spread, (t,))
        for i in range(d):
            u = fma(load(gain, (t, i)), s, 0.0)
            slope = fma(u, load(ds, (0,)), load(change, (i,)))
            store(d_h, (i,), fma(1.0, slope, load(d_h, (i,))))
            store(du, (i,), fma(0.5, load(du, (i,)), 0.0))
        w, before = which[t], max(t - 1, 0)
        s = load(spread, (before,))
        for i in range(d):
            each = load(gain, (before, i))
            store(across, (i,), fma(each, s, 0.0))
            store(minus, (i,), fma(-1.0, each, 0.0))
        _pulled(
            dv, du, h, covariances[before], across, minus, phi[w] if t > 0 else still, high, stationary, rows, mixed,
            by_phi[w], by_stationary,
        )  # fmt: skip
    for i in range(d):
        for j in range(low[i], high[i]):
            d_stationary[i, j] += by_stationary[i, j - low[i], :n_series].sum()
            for k in range(phi.shape[0]):
                d_phi[k, i, j] += by_phi[k, i, j - low[i], :n_series].sum()


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def likelihood(  # type: ignore[no-untyped-def]
    phi, which, low, high, h, gain, spread, y, n_series, with_slopes, d_phi, d_h, d_gain, d_log
):
    """log S + e^2 / S halved and summed over times, (8,): minus the log density of y (T, 8), without its constant.

    With slopes, `d_gain` (T, d, 8) and `d_log` (T, 8), of the logarithm of S, are filled, and derivatives are added
    to `d_phi` (u, d, d), within blocks and summed over the first `n_series`, and to `d_h` (d, 8).
    """
    d, n_times = low.size, y.shape[0]
    kept = n_times if with_slopes else 1
    means, error = np.empty((kept, d, 1, WIDTH)), np.empty((kept, WIDTH))
    value = np.zeros(WIDTH)
    x, new = np.zeros((2, d, 1, WIDTH))
    for t in range(n_times):
        u = t % kept
        if t > 0:
            moved(phi[which[t]], low, high, x, new)
            x, new = new, x
        means[u] = x
        store(error, (u,), fma(1.0, load(y, (t,)), _dot(h, x[:, 0], -1.0)))
        for m in range(WIDTH):
            value[m] += 0.5 * (np.log(spread[t, m]) + error[u, m] ** 2 / spread[t, m])
        e = load(error, (u,))
        for i in range(d):
            store(x, (i, 0), fma(load(gain, (t, i)), e, load(x, (i, 0))))
    if not with_slopes:
        return value

    dz, new = np.zeros((2, d, 1, WIDTH))
    minus_de = np.zeros((1, WIDTH))
    by_phi = np.zeros((phi.shape[0], d, np.max(high - low), WIDTH))
    for t in range(n_times - 1, -1, -1):
        store(minus_de, (0,), _dot(gain[t], dz[:, 0], -1.0))
        for m in range(WIDTH):
            scaled = error[t, m] / spread[t, m]
            minus_de[0, m] -= scaled
            d_log[t, m] = 0.5 * (1.0 - error[t, m] * scaled)
        e, less = load(error, (t,)), load(minus_de, (0,))
        for i in range(d):
            store(d_gain, (t, i), fma(load(dz, (i, 0)), e, 0.0))
            store(d_h, (i,), fma(load(means, (t, i, 0)), less, load(d_h, (i,))))
            store(dz, (i, 0), fma(load(h, (i,)), less, load(dz, (i, 0))))
        if t == 0:
            break
        w, e = which[t], load(error, (t - 1,))
        for i in range(d):
            here = load(dz, (i, 0))
            for j in range(low[i], high[i]):
                z = fma(load(gain, (t - 1, j)), e, load(means, (t - 1, j, 0)))
                store(by_phi, (w, i, j - low[i]), fma(here, z, load(by_phi, (w, i, j - low[i]))))
        moved(phi[w].T, low, high, dz, new)
        dz, new = new, dz
    for i in range(d):
        for j in range(low[i], high[i]):
            for k in range(phi.shape[0]):
                d_phi[k, i, j] += by_phi[k, i, j - low[i], :n_series].sum()
    return value
