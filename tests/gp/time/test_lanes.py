"""Arithmetic of eight numbers side by side in compiled loops."""

from __future__ import annotations

import numba
import numpy as np

from graphrf.gp.time.lanes import WIDTH, fma, load, store


@numba.njit
def _combined(a, b, factor, out):
    for i in range(a.shape[0]):
        total = fma(0.0, 0.0, 1.0)
        for j in range(a.shape[1]):
            total = fma(factor, load(a, (i, j)), total)
            total = fma(load(a, (i, j)), load(b, (j,)), total)
        store(out, (i,), total)
    store(out, (0,), 2.5)


def test_numbers_and_lanes_are_multiplied_and_added():
    rng = np.random.default_rng(0)
    a, b, wide = rng.standard_normal((3, 5, WIDTH)), rng.standard_normal((5, WIDTH)), np.full((3, 2, WIDTH), 7.0)
    out = wide[:, 1]  # rows that are not adjacent in memory
    _combined(a, b, 0.3, out)
    expected = 1.0 + (0.3 * a + a * b).sum(axis=1)
    np.testing.assert_allclose(out[1:], expected[1:], atol=1e-13)
    assert (out[0] == 2.5).all()
    assert (wide[:, 0] == 7.0).all()
