r"""Kalman filters of independent series, eight side by side: compiled loops.

Series m observes y_t = h_m^T x_t + noise of variance s_t. All series share transitions Phi_t and the states'
stationary covariance P; blocks of states do not act on each other, so that one step costs d^2 operations
times the size of a block. With predicted covariance V_t the filter is, one step after the other,

.. math:: S_t = h^\top V_t h + s_t, \quad g_t = V_t h / S_t, \quad
          V_{t+1} = \Phi_{t+1} (V_t - S_t g_t g_t^\top - P) \Phi_{t+1}^\top + P.

Innovations e = L^-1 y are uncorrelated with variances S, which gives the inverse L^-T S^-1 L^-1 of the covariance
of a series, and its determinant. An infinite s_t stands for a time without observation.
"""

from __future__ import annotations

import numpy as np

from graphrf._base.compiled import njit
from graphrf.gp.time.lanes import WIDTH, fma, load, store


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def moved(f, low, high, x, new):  # type: ignore[no-untyped-def]
    """new <- f x for x (d, R, 8), with f by blocks."""
    for i in range(low.size):
        for r in range(x.shape[1]):
            total = fma(0.0, 0.0, 0.0)
            for k in range(low[i], high[i]):
                total = fma(f[i, k], load(x, (k, r)), total)
            store(new, (i, r), total)


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def moved_back(f, low, high, q, scratch):  # type: ignore[no-untyped-def]
    """q <- f^T q f for q (d, d, 8)."""
    moved(f.T, low, high, q, scratch)
    for i in range(low.size):
        for j in range(low.size):
            total = fma(0.0, 0.0, 0.0)
            for k in range(low[j], high[j]):
                total = fma(f[k, j], load(scratch, (i, k)), total)
            store(q, (i, j), total)


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def observed(v, h, noise, gain, spread):  # type: ignore[no-untyped-def]
    """gain (d, 8) <- v h, and spread (8,) <- h^T v h + noise."""
    across = fma(0.0, 0.0, noise)
    for i in range(v.shape[0]):
        total = fma(0.0, 0.0, 0.0)
        for j in range(v.shape[0]):
            total = fma(load(v, (i, j)), load(h, (j,)), total)
        store(gain, (i,), total)
        across = fma(load(h, (i,)), total, across)
    store(spread, (), across)


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def advance(v, scratch, phi, low, high, stationary):  # type: ignore[no-untyped-def]
    """v <- phi (v - stationary) phi^T + stationary."""
    d = low.size
    for i in range(d):
        for j in range(low[i], high[i]):
            store(v, (i, j), fma(-1.0, stationary[i, j], load(v, (i, j))))
    moved(phi, low, high, v, scratch)
    for i in range(d):
        for j in range(i + 1):
            total = fma(0.0, 0.0, stationary[i, j])
            for k in range(low[j], high[j]):
                total = fma(phi[j, k], load(scratch, (i, k)), total)
            store(v, (i, j), total)
            store(v, (j, i), total)


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def gains(phi, which, low, high, stationary, h, noise, gain, spread, predicted):  # type: ignore[no-untyped-def]
    """Fill `gain` (T, d, 8) and `spread` S (T, 8), and `predicted` V (T, d, d, 8) if it has rows.

    Returns V after the last observation, (d, d, 8).
    """
    d = low.size
    v = np.repeat(stationary, WIDTH).reshape(d, d, WIDTH)
    scratch = np.empty((d, d, WIDTH))
    minus = np.empty(WIDTH)
    keep = predicted.shape[0] > 0
    for t in range(noise.size):
        if t > 0:
            advance(v, scratch, phi[which[t]], low, high, stationary)
        if keep:
            for i in range(d):
                for j in range(d):
                    for m in range(WIDTH):
                        predicted[t, i, j, m] = v[i, j, m]
        observed(v, h, noise[t], gain[t], spread[t])
        for i in range(d):
            for m in range(WIDTH):
                gain[t, i, m] /= spread[t, m]  # 0 where the noise is infinite
        if noise[t] == np.inf:
            continue
        for m in range(WIDTH):
            minus[m] = -spread[t, m]
        for i in range(d):
            less = fma(load(gain, (t, i)), load(minus, ()), 0.0)
            for j in range(d):
                store(v, (i, j), fma(less, load(gain, (t, j)), load(v, (i, j))))
    return v


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def filtered(phi, which, low, high, h, gain, y):  # type: ignore[no-untyped-def]
    """y (T, R, 8) <- its innovations L^-1 y; returns the mean states after the last step, (d, R, 8)."""
    d, n_columns = low.size, y.shape[1]
    x = np.zeros((d, n_columns, WIDTH))
    new = np.zeros((d, n_columns, WIDTH))
    for t in range(y.shape[0]):
        if t > 0:
            moved(phi[which[t]], low, high, x, new)
            x, new = new, x
        for r in range(n_columns):
            total = fma(0.0, 0.0, 0.0)
            for i in range(d):
                total = fma(load(h, (i,)), load(x, (i, r)), total)
            error = fma(-1.0, total, load(y, (t, r)))
            store(y, (t, r), error)
            for i in range(d):
                store(x, (i, r), fma(load(gain, (t, i)), error, load(x, (i, r))))
    return x


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def unfiltered(phi, which, low, high, h, gain, e):  # type: ignore[no-untyped-def]
    """e (T, R, 8) <- L^-T e, the adjoint of `filtered`."""
    d, n_columns = low.size, e.shape[1]
    x = np.zeros((d, n_columns, WIDTH))
    new = np.zeros((d, n_columns, WIDTH))
    for t in range(e.shape[0] - 1, -1, -1):
        for r in range(n_columns):
            total = load(e, (t, r))
            for i in range(d):
                total = fma(load(gain, (t, i)), load(x, (i, r)), total)
            store(e, (t, r), total)
            less = fma(-1.0, total, 0.0)
            for i in range(d):
                store(x, (i, r), fma(load(h, (i,)), less, load(x, (i, r))))
        if t == 0:
            return
        moved(phi[which[t]].T, low, high, x, new)
        x, new = new, x


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def smoothed(phi, which, low, high, h, gain, spread, predicted, readouts, out):  # type: ignore[no-untyped-def]
    """Fill `out` (T, p, p, 8): covariances of what p kernels contribute, given all observations.

    By the recursion of Bryson and Frazier for the information Q that later observations hold:
    Q <- h h^T / S + (I - g h^T)^T Q (I - g h^T), the covariance is V - V Q V, and Q <- Phi^T Q Phi.
    """
    d, p = low.size, readouts.shape[0]
    q = np.zeros((d, d, WIDTH))
    scratch = np.zeros((d, d, WIDTH))
    qg = np.zeros((d, WIDTH))
    gqg = np.zeros(WIDTH)
    left = np.zeros((p, d, WIDTH))
    right = np.zeros((p, d, WIDTH))
    for t in range(spread.shape[0] - 1, -1, -1):
        if spread[t, 0] != np.inf:
            for m in range(WIDTH):
                gqg[m] = 1.0 / spread[t, m]
            for i in range(d):
                for m in range(WIDTH):
                    qg[i, m] = 0.0
                for j in range(d):
                    for m in range(WIDTH):
                        qg[i, m] += q[i, j, m] * gain[t, j, m]
                for m in range(WIDTH):
                    gqg[m] += gain[t, i, m] * qg[i, m]
            for i in range(d):
                for j in range(d):
                    for m in range(WIDTH):
                        q[i, j, m] += h[i, m] * h[j, m] * gqg[m] - qg[i, m] * h[j, m] - h[i, m] * qg[j, m]
        v = predicted[t]
        for a in range(p):
            for i in range(d):
                for m in range(WIDTH):
                    left[a, i, m] = 0.0
                for j in range(d):
                    e = readouts[a, j]
                    if e != 0.0:
                        for m in range(WIDTH):
                            left[a, i, m] += e * v[i, j, m]
            for i in range(d):
                for m in range(WIDTH):
                    right[a, i, m] = 0.0
                for j in range(d):
                    for m in range(WIDTH):
                        right[a, i, m] += q[i, j, m] * left[a, j, m]
        for a in range(p):
            for b in range(p):
                for m in range(WIDTH):
                    out[t, a, b, m] = 0.0
                for i in range(d):
                    e = readouts[a, i]
                    for m in range(WIDTH):
                        out[t, a, b, m] += e * left[b, i, m] - left[a, i, m] * right[b, i, m]
        if t > 0:
            moved_back(phi[which[t]], low, high, q, scratch)


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def products(phi, which, low, high, stationary, readouts, weights, x, first, last, out):  # type: ignore[no-untyped-def]
    """out (w, T, n), columns from `first` to `last` <- sum_a weights[., a] k_a(t, t') x(t', column).

    The kernel matrix is semiseparable: a recursion forwards and one backwards are the product, T d operations.
    """
    d, p, width = low.size, readouts.shape[0], last - first
    starts = stationary @ readouts.sum(axis=0)
    owner = np.zeros(d, np.int64)
    ends = np.zeros(d)
    for a in range(p):
        for i in range(d):
            if readouts[a, i] != 0.0:
                ends[i] = readouts[a, i]
                for k in range(low[i], high[i]):
                    owner[k] = a
    eights = -(-width // WIDTH)
    states = np.zeros((d, eights, WIDTH))
    new = np.zeros((d, eights, WIDTH))
    n_times = x.shape[0]
    for t in range(n_times):
        if t > 0:
            moved(phi[which[t]], low, high, states, new)
            states, new = new, states
        z = states.reshape(d, eights * WIDTH)
        for a in range(weights.shape[0]):
            for c in range(first, last):
                out[a, t, c] = 0.0
        for i in range(d):
            start = starts[i]
            if start != 0.0:
                for c in range(width):
                    z[i, c] += start * x[t, first + c]
            if ends[i] != 0.0:
                for a in range(weights.shape[0]):
                    w = ends[i] * weights[a, owner[i]]
                    for c in range(width):
                        out[a, t, first + c] += w * z[i, c]
    states = np.zeros((d, eights, WIDTH))
    for t in range(n_times - 2, -1, -1):
        z = states.reshape(d, eights * WIDTH)
        for i in range(d):
            if ends[i] != 0.0:
                for c in range(width):
                    z[i, c] += ends[i] * x[t + 1, first + c]
        moved(phi[which[t + 1]].T, low, high, states, new)
        states, new = new, states
        z = states.reshape(d, eights * WIDTH)
        for i in range(d):
            if starts[i] != 0.0:
                for a in range(weights.shape[0]):
                    w = starts[i] * weights[a, owner[i]]
                    for c in range(width):
                        out[a, t, first + c] += w * z[i, c]


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def simulated(phi, which, root, first, low, high, readout, normals, out):  # type: ignore[no-untyped-def]
    """out (T, c) <- draws of one process from normal numbers (T, d, c).

    `root` (u, d, d) times normal numbers is what a step adds, `first` (d, d) those of the first time.
    """
    n_times, d, width = normals.shape
    x = np.zeros((d, width))
    new = np.zeros((d, width))
    for t in range(n_times):
        for i in range(d):
            for c in range(width):
                new[i, c] = 0.0
            for k in range(low[i], high[i]):
                f = phi[which[t], i, k] if t > 0 else 0.0
                r = root[which[t], i, k] if t > 0 else first[i, k]
                for c in range(width):
                    new[i, c] += f * x[k, c] + r * normals[t, k, c]
        x, new = new, x
        for c in range(width):
            out[t, c] = 0.0
        for i in range(d):
            if readout[i] != 0.0:
                for c in range(width):
                    out[t, c] += readout[i] * x[i, c]


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def stepped(phi, low, high, stationary, h, noise, y, v, x):  # type: ignore[no-untyped-def]
    """One step of the filter: means x (d, 8) and covariances v (d, d, 8) go on by phi, and see y (8,)."""
    d = low.size
    advance(v, np.empty((d, d, WIDTH)), phi, low, high, stationary)
    old = x.copy()
    moved(phi, low, high, old.reshape(d, 1, WIDTH), x.reshape(d, 1, WIDTH))
    gain, spread = np.empty((d, WIDTH)), np.empty(WIDTH)
    observed(v, h, noise, gain, spread)
    for m in range(WIDTH):
        error = y[m]
        for i in range(d):
            error -= h[i, m] * x[i, m]
        for i in range(d):
            x[i, m] += gain[i, m] * error / spread[m]
            for j in range(d):
                v[i, j, m] -= gain[i, m] * gain[j, m] / spread[m]
