r"""Kalman filters of independent series, eight side by side: compiled loops.

Series m observes y_t = h_m^T x_t + noise of variance s_t. All series share transitions Phi_t and
the states' stationary covariance P; blocks of states do not act on each other.
`kalman_covariances.gains` computes the filters.

Innovations e = L^-1 y are uncorrelated with variances S, which gives the inverse L^-T S^-1 L^-1 of
the covariance of a series, and its determinant.
"""

from __future__ import annotations

import numpy as np

from graphrf._base.compiled import njit
from graphrf.gp.time.kalman_covariances import place
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
def filtered(phi, which, low, high, h, gain, y):  # type: ignore[no-untyped-def]
    """y (T, R, 8) <- its innovations L^-1 y; returns the last mean states, (d, R, 8)."""
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
def smoothed(phi, which, low, high, h, gain, variance, predicted, readouts, q, out):  # type: ignore[no-untyped-def]
    """Fill `out` (T, p, p, 8): covariances of what p kernels contribute, given all observations.

    The recursion of Bryson and Frazier for the information Q that later observations hold: Q <- h
    h^T / S + (I - g h^T)^T Q (I - g h^T), the covariance is V - V Q V, and Q <- Phi^T Q Phi. `q`
    (d, d, 8) is that of observations after these times, and becomes that before them.
    """
    d, p = low.size, readouts.shape[0]
    scratch = np.zeros((d, d, WIDTH))
    qg = np.zeros((d, WIDTH))
    gqg = np.zeros(WIDTH)
    left = np.zeros((p, d, WIDTH))
    right = np.zeros((p, d, WIDTH))

    for t in range(variance.shape[0] - 1, -1, -1):
        if variance[t, 0] != np.inf:
            for m in range(WIDTH):
                gqg[m] = 1.0 / variance[t, m]
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
                        q[i, j, m] += (
                            h[i, m] * h[j, m] * gqg[m] - qg[i, m] * h[j, m] - h[i, m] * qg[j, m]
                        )

        v = predicted[t]
        for a in range(p):
            for i in range(d):
                for m in range(WIDTH):
                    left[a, i, m] = 0.0
                for j in range(d):
                    e = readouts[a, j]
                    if e != 0.0:
                        for m in range(WIDTH):
                            left[a, i, m] += e * v[place(i, j), m]
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

        if phi.shape[0] > 0:  # a single time has no step
            moved_back(phi[which[t]], low, high, q, scratch)


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def products(phi, which, low, high, stationary, readouts, weights, x, first, last, out):  # type: ignore[no-untyped-def]
    """out (w, T, n), columns `first` to `last` <- sum_a weights[., a] k_a(t, t') x(t', column).

    The kernel matrix is semiseparable: a recursion forwards and one backwards are the product, T d
    operations.
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

    `root` (u, d, d) times normal numbers is the innovation of a step, `first` (d, d) that of the
    first time.
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
