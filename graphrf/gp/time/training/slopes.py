"""Derivatives of the likelihood of independent series by sweeps back in time: compiled."""

from __future__ import annotations

import numpy as np

from graphrf._base.compiled import njit
from graphrf.gp.time.kalman import moved
from graphrf.gp.time.kalman_covariances import (
    combined,
    dot,
    known,
    place,
    row_of,
    times,
    within_blocks,
)
from graphrf.gp.time.lanes import WIDTH, fma, load, store


@njit(nogil=True, cache=True, error_model="numpy")
def _add(sign, a, first, last, out):  # type: ignore[no-untyped-def]
    """out (j - first, 8) += sign a for j from `first` to `last`; a is a number or (d, 8)."""
    for j in range(first, last):
        store(out, (j - first,), fma(sign, load(a, (j,)), load(out, (j - first,))))


@njit(nogil=True, cache=True, error_model="numpy")
def _pulled(dv, dg, h, v, gain, minus, phi, high, stationary, rows, mixed, d_phi, d_stationary):  # type: ignore[no-untyped-def]
    """dv <- phi^T D phi for D = dv + dg h^T + h dg^T, and derivatives within blocks, (d, b, 8).

    These are d_phi += 2 D phi (v - g g^T / S - P), and d_stationary += D - phi^T D phi.
    """
    d, first = high.size, 0
    while first < d:
        last = high[first]
        for i in range(first, last):
            row_of(dv, dg, h, i, d, rows[i - first])
            for j in range(d):
                here = load(rows, (i - first, j))
                store(rows, (i - first, j), fma(load(h, (i,)), load(dg, (j,)), here))
            _add(1.0, rows[i - first], first, last, d_stationary[i])
            within_blocks(phi.T, high, rows[i - first], d, mixed[i - first])

        for j in range(first, last):
            known(v, gain, minus, stationary, j, first, last, d, rows[0])
            for i in range(first, last):
                here = (i, j - first)
                store(d_phi, here, fma(1.0, dot(mixed[i - first], rows[0], 2.0), load(d_phi, here)))

        for i in range(first, last):
            combined(phi[first:, i], mixed, last - first, last, rows[i - first])
            _add(-1.0, rows[i - first], first, last, d_stationary[i])
            row = place(i, 0)
            for j in range(i + 1):
                store(dv, (row + j,), load(rows, (i - first, j)))
        first = last


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def gains_back(  # type: ignore[no-untyped-def]
    phi,
    which,
    low,
    high,
    stationary,
    h,
    covariances,
    gain,
    variance,
    d_gain,
    d_log,
    n_series,
    d_phi,
    d_stationary,
    d_h,
    d_noise,
):
    """Derivatives through `kalman_covariances.gains`, from `d_gain` (T, d, 8) and `d_log` of log S
    (T, 8).

    They are added to `d_phi` (u, d, d) and `d_stationary` (d, d), both within blocks and summed
    over the first `n_series`, to `d_h` (d, 8) and to `d_noise` (8,).
    """
    d, widest = low.size, np.max(high - low)
    rows, mixed = np.empty((2, widest, d, WIDTH))
    dv = np.zeros((place(d, 0), WIDTH))
    du, across, minus, change = np.zeros((4, d, WIDTH))
    ds = np.zeros((1, WIDTH))
    by_phi = np.zeros((phi.shape[0], d, widest, WIDTH))
    by_stationary = np.zeros((d, widest, WIDTH))
    still = np.zeros((d, d))  # no step leads to the first time

    for t in range(variance.shape[0] - 1, -1, -1):
        times(dv, gain[t], du)
        slope = dot(gain[t], du, 1.0)
        store(ds, (0,), slope)
        store(change, (0,), dot(gain[t], d_gain[t], 1.0))
        for m in range(WIDTH):
            ds[0, m] += (d_log[t, m] - change[0, m]) / variance[t, m]
            d_noise[m] += ds[0, m]
            for i in range(d):
                du[i, m] = d_gain[t, i, m] / variance[t, m] - 2.0 * du[i, m]

        for i in range(d):
            store(du, (i,), fma(load(h, (i,)), load(ds, (0,)), load(du, (i,))))
        times(covariances[t], du, change)
        s = load(variance, (t,))
        for i in range(d):
            u = fma(load(gain, (t, i)), s, 0.0)
            slope = fma(u, load(ds, (0,)), load(change, (i,)))
            store(d_h, (i,), fma(1.0, slope, load(d_h, (i,))))
            store(du, (i,), fma(0.5, load(du, (i,)), 0.0))

        w, before = which[t], max(t - 1, 0)
        s = load(variance, (before,))
        for i in range(d):
            gain_before = load(gain, (before, i))
            store(across, (i,), fma(gain_before, s, 0.0))
            store(minus, (i,), fma(-1.0, gain_before, 0.0))
        _pulled(
            dv,
            du,
            h,
            covariances[before],
            across,
            minus,
            phi[w] if t > 0 else still,
            high,
            stationary,
            rows,
            mixed,
            by_phi[w],
            by_stationary,
        )

    for i in range(d):
        for j in range(low[i], high[i]):
            d_stationary[i, j] += by_stationary[i, j - low[i], :n_series].sum()
            for k in range(phi.shape[0]):
                d_phi[k, i, j] += by_phi[k, i, j - low[i], :n_series].sum()


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def likelihood(  # type: ignore[no-untyped-def]
    phi, which, low, high, h, gain, variance, y, n_series, with_slopes, d_phi, d_h, d_gain, d_log
):
    """(log S + e^2 / S) / 2 summed over times, (8,): minus the log density of y, but a constant.

    With slopes, `d_gain` (T, d, 8) and `d_log` (T, 8), of the logarithm of S, are filled, and
    derivatives added to `d_phi` (u, d, d), within blocks and summed over the first `n_series`, and
    to `d_h` (d, 8).
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
        store(error, (u,), fma(1.0, load(y, (t,)), dot(h, x[:, 0], -1.0)))
        for m in range(WIDTH):
            value[m] += 0.5 * (np.log(variance[t, m]) + error[u, m] ** 2 / variance[t, m])
        e = load(error, (u,))
        for i in range(d):
            store(x, (i, 0), fma(load(gain, (t, i)), e, load(x, (i, 0))))
    if not with_slopes:
        return value

    dz, new = np.zeros((2, d, 1, WIDTH))
    minus_de = np.zeros((1, WIDTH))
    by_phi = np.zeros((phi.shape[0], d, np.max(high - low), WIDTH))
    for t in range(n_times - 1, -1, -1):
        store(minus_de, (0,), dot(gain[t], dz[:, 0], -1.0))
        for m in range(WIDTH):
            scaled = error[t, m] / variance[t, m]
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
