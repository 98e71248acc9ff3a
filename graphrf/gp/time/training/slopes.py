"""The likelihood of independent series by Kalman filters, and its derivatives by a sweep back: compiled.

Covariances are symmetric and transitions act within blocks of states, so that one pass over pairs of blocks I >= J
conditions on what was observed and moves on. Of matrices only the lower triangle is kept, row after row.
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
def _known(v, gain, minus, stationary, i0, i1, j0, j1, out):  # type: ignore[no-untyped-def]
    """out (i, j, 8) <- v - g g^T / S - P for a pair of blocks of states; `minus` is -g / S."""
    for i in range(i0, i1):
        less = load(minus, (i,))
        for j in range(j0, j1):
            value = load(v, (_place(i, j),))
            if i0 == j0:
                value = fma(-1.0, stationary[i, j], value)
            store(out, (i - i0, j - j0), fma(less, load(gain, (j,)), value))


@njit(nogil=True, cache=True, error_model="numpy")
def _advanced(v, gain, minus, phi, high, stationary, known, half, new):  # type: ignore[no-untyped-def]
    """new <- phi (v - g g^T / S - P) phi^T + P."""
    i0 = 0
    while i0 < high.size:
        i1 = high[i0]
        j0 = 0
        while j0 <= i0:
            j1 = high[j0]
            _known(v, gain, minus, stationary, i0, i1, j0, j1, known)
            for i in range(i1 - i0):
                for j in range(j1 - j0):
                    total = fma(phi[i0 + i, i0], load(known, (0, j)), 0.0)
                    for k in range(1, i1 - i0):
                        total = fma(phi[i0 + i, i0 + k], load(known, (k, j)), total)
                    store(half, (i, j), total)
            for i in range(i1 - i0):
                for j in range(min(j1 - j0, i0 + i - j0 + 1)):
                    total = fma(phi[j0 + j, j0], load(half, (i, 0)), stationary[i0 + i, j0 + j])
                    for k in range(1, j1 - j0):
                        total = fma(phi[j0 + j, j0 + k], load(half, (i, k)), total)
                    store(new, (_place(i0 + i, j0 + j),), total)
            j0 = j1
        i0 = i1


@njit(nogil=True, cache=True, error_model="numpy")
def _pulled(dv, v, gain, minus, phi, high, stationary, known, twice, left, right, d_phi):  # type: ignore[no-untyped-def]
    """dv <- phi^T dv phi, and d_phi (d, b, 8) += 2 dv phi (v - g g^T / S - P), within blocks."""
    i0 = 0
    while i0 < high.size:
        i1 = high[i0]
        a = i1 - i0
        j0 = 0
        while j0 <= i0:
            j1 = high[j0]
            b = j1 - j0
            _known(v, gain, minus, stationary, i0, i1, j0, j1, known)
            for i in range(a):
                for j in range(b):
                    store(twice, (i, j), fma(2.0, load(dv, (_place(i0 + i, j0 + j),)), 0.0))
            for i in range(a):  # 2 dv phi_J and 2 phi_I^T dv
                for j in range(b):
                    total = fma(phi[j0, j0 + j], load(twice, (i, 0)), 0.0)
                    for k in range(1, b):
                        total = fma(phi[j0 + k, j0 + j], load(twice, (i, k)), total)
                    store(left, (i, j), total)
                    total = fma(phi[i0, i0 + i], load(twice, (0, j)), 0.0)
                    for k in range(1, a):
                        total = fma(phi[i0 + k, i0 + i], load(twice, (k, j)), total)
                    store(right, (i, j), total)
            for i in range(a):
                for j in range(a):
                    total = load(d_phi, (i0 + i, j))
                    for k in range(b):
                        total = fma(load(left, (i, k)), load(known, (j, k)), total)
                    store(d_phi, (i0 + i, j), total)
            if j0 < i0:
                for i in range(b):
                    for j in range(b):
                        total = load(d_phi, (j0 + i, j))
                        for k in range(a):
                            total = fma(load(right, (k, i)), load(known, (k, j)), total)
                        store(d_phi, (j0 + i, j), total)
            for i in range(a):
                for j in range(min(b, i0 + i - j0 + 1)):
                    total = fma(0.5 * phi[j0, j0 + j], load(right, (i, 0)), 0.0)
                    for k in range(1, b):
                        total = fma(0.5 * phi[j0 + k, j0 + j], load(right, (i, k)), total)
                    store(dv, (_place(i0 + i, j0 + j),), total)
            j0 = j1
        i0 = i1


@njit(nogil=True, cache=True, error_model="numpy")
def _add_within(dv, sign, low, high, out):  # type: ignore[no-untyped-def]
    """out (d, b, 8) += sign dv, within blocks."""
    for i in range(low.size):
        for j in range(low[i], high[i]):
            each = load(dv, (_place(i, j),))
            store(out, (i, j - low[i]), fma(sign, each, load(out, (i, j - low[i]))))


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def likelihood(  # type: ignore[no-untyped-def]
    phi, which, low, high, stationary, h, noise, y, n_series, with_slopes, d_phi, d_stationary, d_h, d_noise
):
    """log S + e^2 / S halved and summed over times, (8,): minus the log density, without its constant.

    y is (T, 8). With slopes, derivatives are added to `d_phi` (u, d, d) and `d_stationary` (d, d), both within
    blocks and summed over the first `n_series`, and to `d_h` (d, 8) and `d_noise` (8,).
    """
    d, n_times = low.size, noise.size
    kept = n_times if with_slopes else 2
    covariances = np.empty((kept, _place(d, 0), WIDTH))  # before each observation,
    means = np.empty((kept, d, 1, WIDTH))
    gain = np.empty((kept, d, WIDTH))  # V h, not divided
    minus = np.empty((kept, d, WIDTH))  # -V h / S
    spread = np.empty((kept, WIDTH))
    inverse = np.empty((kept, WIDTH))
    error = np.empty((kept, WIDTH))
    value = np.zeros(WIDTH)
    x = np.zeros((d, 1, WIDTH))
    widest = np.max(high - low)
    known, twice, left, right = np.empty((4, widest, widest, WIDTH))
    u = 0
    for t in range(n_times):
        before, u = u, t if with_slopes else t % 2
        if t == 0:
            means[0] = 0.0
            for i in range(d):
                for j in range(i + 1):
                    store(covariances, (0, _place(i, j)), stationary[i, j])
        else:
            v, f = covariances[before], phi[which[t]]
            _advanced(v, gain[before], minus[before], f, high, stationary, known, left, covariances[u])
            moved(f, low, high, x, means[u])
        _times(covariances[u], h, gain[u])
        store(spread, (u,), fma(noise[t], 1.0, _dot(h, gain[u], 1.0)))
        store(error, (u,), fma(1.0, load(y, (t,)), _dot(h, means[u, :, 0], -1.0)))
        for m in range(WIDTH):
            value[m] += 0.5 * (np.log(spread[u, m]) + error[u, m] ** 2 / spread[u, m])
            inverse[u, m] = 1.0 / spread[u, m]
        one, two = load(inverse, (u,)), load(error, (u,))
        for i in range(d):
            share = fma(load(gain, (u, i)), one, 0.0)
            store(minus, (u, i), fma(-1.0, share, 0.0))
            store(x, (i, 0), fma(share, two, load(means, (u, i, 0))))
    if not with_slopes:
        return value

    dv = np.zeros((_place(d, 0), WIDTH))
    dx = np.zeros((d, 1, WIDTH))
    new = np.zeros((d, 1, WIDTH))
    dg = np.zeros((d, WIDTH))
    change = np.zeros((d, WIDTH))
    ds, minus_de, along, across = np.zeros((4, 1, WIDTH))
    by_phi = np.zeros((phi.shape[0], d, widest, WIDTH))
    by_stationary = np.zeros((d, widest, WIDTH))
    for t in range(n_times - 1, -1, -1):
        g = gain[t]
        _times(dv, g, dg)
        store(along, (0,), _dot(g, dx[:, 0], 1.0))
        store(across, (0,), _dot(g, dg, 1.0))
        for m in range(WIDTH):
            e, r = error[t, m], inverse[t, m]
            minus_de[0, m] = -(along[0, m] + e) * r
            ds[0, m] = 0.5 * (r - e * e * r * r) + (across[0, m] - along[0, m] * e) * r * r
            d_noise[m] += ds[0, m]
            along[0, m] = e * r
            across[0, m] = -2.0 * r
        one, two, three, four = load(ds, (0,)), load(minus_de, (0,)), load(along, (0,)), load(across, (0,))
        for i in range(d):
            slope = fma(load(h, (i,)), one, fma(load(dx, (i, 0)), three, 0.0))
            store(dg, (i,), fma(load(dg, (i,)), four, slope))
        _times(covariances[t], dg, change)
        for i in range(d):
            slope = fma(load(means, (t, i, 0)), two, fma(load(g, (i,)), one, load(change, (i,))))
            store(d_h, (i,), fma(1.0, slope, load(d_h, (i,))))
            store(dx, (i, 0), fma(load(h, (i,)), two, load(dx, (i, 0))))
            store(dg, (i,), fma(0.5, load(dg, (i,)), 0.0))
        for i in range(d):
            one, two = load(dg, (i,)), load(h, (i,))
            for j in range(i + 1):
                total = fma(one, load(h, (j,)), load(dv, (_place(i, j),)))
                store(dv, (_place(i, j),), fma(two, load(dg, (j,)), total))
        _add_within(dv, 1.0, low, high, by_stationary)
        if t == 0:
            break
        f, w = phi[which[t]], which[t]
        for i in range(d):
            here = load(dx, (i, 0))
            for j in range(low[i], high[i]):
                seen = fma(
                    fma(-1.0, load(minus, (t - 1, j)), 0.0), load(error, (t - 1,)), load(means, (t - 1, j, 0))
                )
                store(by_phi, (w, i, j - low[i]), fma(here, seen, load(by_phi, (w, i, j - low[i]))))
        _pulled(
            dv, covariances[t - 1], gain[t - 1], minus[t - 1], f, high, stationary, known, twice, left, right,
            by_phi[w],
        )  # fmt: skip
        _add_within(dv, -1.0, low, high, by_stationary)
        moved(f.T, low, high, dx, new)
        dx, new = new, dx
    for i in range(d):
        for j in range(low[i], high[i]):
            d_stationary[i, j] += by_stationary[i, j - low[i], :n_series].sum()
            for k in range(phi.shape[0]):
                d_phi[k, i, j] += by_phi[k, i, j - low[i], :n_series].sum()
    return value
