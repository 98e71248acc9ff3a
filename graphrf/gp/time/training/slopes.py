"""The likelihood of independent series by Kalman filters, and its derivatives by a sweep back: compiled."""

from __future__ import annotations

import numpy as np

from graphrf._base.compiled import njit
from graphrf.gp.time.loops import WIDTH, advance, moved, moved_back, observed


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def likelihood(  # type: ignore[no-untyped-def]
    phi, which, low, high, stationary, h, noise, y, n_series, with_slopes, d_phi, d_stationary, d_h, d_noise
):
    """log S + e^2 / S halved and summed over times, (8,): minus the log density, without its constant.

    y is (T, 8). With slopes, derivatives are added to `d_phi` (u, d, d), within blocks, `d_stationary` (d, d),
    both summed over the first `n_series`, and to `d_h` (d, 8) and `d_noise` (8,).
    """
    d, n_times = low.size, noise.size
    kept = n_times if with_slopes else 1
    covariances = np.empty((kept, d, d, WIDTH))  # before each observation,
    means = np.empty((kept, d, WIDTH))
    gain = np.empty((kept, d, WIDTH))  # V h, not divided
    spread = np.empty((kept, WIDTH))
    error = np.empty((kept, WIDTH))
    value = np.zeros(WIDTH)
    v = np.repeat(stationary, WIDTH).reshape(d, d, WIDTH)
    scratch = np.empty((d, d, WIDTH))
    x = np.zeros((d, 1, WIDTH))
    new = np.zeros((d, 1, WIDTH))
    for t in range(n_times):
        u = t if with_slopes else 0
        if t > 0:
            f = phi[which[t]]
            advance(v, scratch, f, low, high, stationary)
            moved(f, low, high, x, new)
            x, new = new, x
        observed(v, h, noise[t], gain[u], spread[u])
        for m in range(WIDTH):
            error[u, m] = y[t, m]
            for i in range(d):
                error[u, m] -= h[i, m] * x[i, 0, m]
        if with_slopes:
            for i in range(d):
                for m in range(WIDTH):
                    means[t, i, m] = x[i, 0, m]
                for j in range(d):
                    for m in range(WIDTH):
                        covariances[t, i, j, m] = v[i, j, m]
        for m in range(WIDTH):
            value[m] += 0.5 * (np.log(spread[u, m]) + error[u, m] ** 2 / spread[u, m])
        for i in range(d):
            for m in range(WIDTH):
                x[i, 0, m] += gain[u, i, m] * error[u, m] / spread[u, m]
            for j in range(d):
                for m in range(WIDTH):
                    v[i, j, m] -= gain[u, i, m] * gain[u, j, m] / spread[u, m]
    if not with_slopes:
        return value

    dv = np.zeros((d, d, WIDTH))
    dx = np.zeros((d, 1, WIDTH))
    dg = np.zeros((d, WIDTH))
    ds = np.zeros(WIDTH)
    de = np.zeros(WIDTH)
    pushed = np.zeros((d, d, WIDTH))
    for t in range(n_times - 1, -1, -1):
        g, v = gain[t], covariances[t]
        for m in range(WIDTH):
            s, e = spread[t, m], error[t, m]
            along = 0.0
            for i in range(d):
                along += g[i, m] * dx[i, 0, m]
            de[m] = (along + e) / s
            ds[m] = 0.5 * (1.0 / s - e * e / (s * s)) - along * e / (s * s)
        for i in range(d):
            for m in range(WIDTH):
                dg[i, m] = 0.0
            for j in range(d):
                for m in range(WIDTH):
                    dg[i, m] += dv[i, j, m] * g[j, m]
            for m in range(WIDTH):
                s = spread[t, m]
                ds[m] += g[i, m] * dg[i, m] / (s * s)
                dg[i, m] = (dx[i, 0, m] * error[t, m] - 2.0 * dg[i, m]) / s
        for m in range(WIDTH):
            d_noise[m] += ds[m]
        for i in range(d):
            for m in range(WIDTH):
                dg[i, m] += h[i, m] * ds[m]
                d_h[i, m] += g[i, m] * ds[m] - means[t, i, m] * de[m]
                dx[i, 0, m] -= h[i, m] * de[m]
        for i in range(d):
            for j in range(d):
                for m in range(WIDTH):
                    d_h[i, m] += v[i, j, m] * dg[j, m]
                    dv[i, j, m] += 0.5 * (dg[i, m] * h[j, m] + h[i, m] * dg[j, m])
        if t == 0:
            for i in range(d):
                for j in range(d):
                    for m in range(n_series):
                        d_stationary[i, j] += dv[i, j, m]
            return value
        f = phi[which[t]]
        # what the step before left behind: v after its observation, less the stationary covariance
        for i in range(d):
            for j in range(d):
                for m in range(WIDTH):
                    scratch[i, j, m] = (
                        covariances[t - 1, i, j, m]
                        - gain[t - 1, i, m] * gain[t - 1, j, m] / spread[t - 1, m]
                        - stationary[i, j]
                    )
        moved(f, low, high, scratch, pushed)
        for i in range(d):
            for j in range(low[i], high[i]):
                total = 0.0
                for k in range(d):
                    for m in range(n_series):
                        total += 2.0 * dv[i, k, m] * pushed[k, j, m]
                for m in range(n_series):
                    before = means[t - 1, j, m] + gain[t - 1, j, m] * error[t - 1, m] / spread[t - 1, m]
                    total += dx[i, 0, m] * before
                d_phi[which[t], i, j] += total
        for i in range(d):
            for j in range(d):
                for m in range(n_series):
                    d_stationary[i, j] += dv[i, j, m]
        moved_back(f, low, high, dv, scratch)
        for i in range(d):
            for j in range(d):
                for m in range(n_series):
                    d_stationary[i, j] -= dv[i, j, m]
        moved(f.T, low, high, dx, new)
        dx, new = new, dx
    return value
