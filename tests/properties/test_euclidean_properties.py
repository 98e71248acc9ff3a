"""Invariants of random features on R^d, over generated points."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")
pytest.importorskip("sklearn")

from graphrf.euclidean import FourierFeatures, LaplaceFeatures
from tests.support.graph_strategies import seeds, slower

dimensions = st.integers(1, 5)
MAPS = [FourierFeatures, LaplaceFeatures]


def points(n, d, seed):
    return np.random.default_rng(seed).normal(size=(n, d))


@slower
@given(st.sampled_from(MAPS), dimensions, st.integers(1, 6), seeds)
def test_the_gram_matrix_of_features_is_symmetric_and_positive(map_class, d, n, seed):
    rows = np.asarray(
        map_class(8, seed=seed % 1000).fit_transform(points(n, d, seed)), dtype=np.float64
    )
    gram = rows @ rows.T
    assert np.isfinite(gram).all()
    assert np.allclose(gram, gram.T, rtol=0, atol=0)
    assert np.linalg.eigvalsh(gram).min() >= -1e-9 * np.abs(gram).max()


@slower
@given(st.sampled_from(MAPS), dimensions, st.integers(-3, 3), seeds)
def test_a_lengthscale_is_a_scale_of_the_points(map_class, d, power, seed):
    x, scale = points(5, d, seed), 2.0**power
    one = map_class(8, lengthscale=scale, seed=seed % 1000).fit_transform(x * scale)
    other = map_class(8, lengthscale=1.0, seed=seed % 1000).fit_transform(x)
    assert np.allclose(one, other, rtol=1e-9, atol=1e-12)


@slower
@given(st.sampled_from(MAPS), dimensions, seeds)
def test_rows_of_features_follow_their_points(map_class, d, seed):
    x = points(6, d, seed)
    features = map_class(8, seed=seed % 1000).fit(x)
    order = np.random.default_rng(seed).permutation(6)
    assert np.allclose(
        features.transform(x[order]), features.transform(x)[order], rtol=1e-12, atol=1e-14
    )
