"""Fourier and Laplace features against formulas, on numpy and torch, any number of threads."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

from graphrf.euclidean.cosines import LARGEST, cos_rows, cos_sin_rows
from graphrf.euclidean.features import FourierFeatures, LaplaceFeatures

POINTS = np.random.default_rng(0).normal(size=(300, 5))
SCALES = np.array([0.5, 1.0, 2.0, 3.0, 0.7])


def test_paired_features_are_their_formula():
    features = FourierFeatures(
        7, kernel="matern32", directions="iid", norms="iid", lengthscale=SCALES, seed=1
    )
    p = (POINTS / SCALES) @ features.fit(POINTS).frequencies_.matrix.T
    expected = np.concatenate([np.cos(p), np.sin(p)], axis=1) / np.sqrt(7)
    np.testing.assert_allclose(features.transform(POINTS), expected, atol=1e-13)


def test_phased_features_are_their_formula():
    features = FourierFeatures(7, readout="phased", lengthscale=2.0, seed=1)
    p = (POINTS / 2) @ features.fit(POINTS).frequencies_.matrix.T + features.phases_
    np.testing.assert_allclose(features.transform(POINTS), np.sqrt(2 / 7) * np.cos(p), atol=1e-13)
    assert not hasattr(features.set_params(readout="paired").fit(POINTS), "phases_")


def test_laplace_features_are_their_formula():
    features = LaplaceFeatures(8, lengthscale=SCALES, seed=1)
    z = POINTS / SCALES
    w = features.fit(POINTS).frequencies_.matrix
    expected = np.exp(-np.sum(z**2, axis=1, keepdims=True)) * np.exp(z @ w.T) / np.sqrt(8)
    np.testing.assert_allclose(features.transform(POINTS), expected, rtol=1e-11)


@pytest.mark.parametrize("scale", [1.0, 30.0, LARGEST, 1e9])
def test_cosines_are_exact_to_rounding(scale):
    x = np.random.default_rng(0).uniform(-scale, scale, size=(50, 64))
    x[0, :5] = 0, np.pi / 2, -np.pi, 0.75 * np.pi, scale
    out = np.concatenate([x, x], axis=1)
    cos_sin_rows(out, 2.0)
    exact = x.astype(np.longdouble)
    assert abs(out[:, :64] - 2 * np.cos(exact)).max() < 5e-16
    assert abs(out[:, 64:] - 2 * np.sin(exact)).max() < 5e-16
    cosines = x.copy()
    cos_rows(cosines, 2.0)
    assert np.array_equal(cosines, out[:, :64])


def test_large_points_do_not_overflow_positive_features():
    features = LaplaceFeatures(64, seed=0).fit(POINTS)
    assert np.isfinite(features.transform(1e3 * POINTS)).all()
    assert np.isfinite(features.transform(30 * POINTS.astype(np.float32))).all()


def test_transforms_in_several_threads_give_what_one_gives():
    features = FourierFeatures(64, seed=0, n_threads=2).fit(POINTS)
    many = np.tile(POINTS, (20, 1))
    found = [None] * 4

    def transform(index):
        found[index] = features.transform(many)

    workers = [threading.Thread(target=transform, args=(index,)) for index in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert all(np.array_equal(each, features.transform(many)) for each in found)


@pytest.mark.parametrize("map_class", [FourierFeatures, LaplaceFeatures])
def test_settings_changed_after_fit_wait_for_the_next_fit(map_class):
    features = map_class(8, lengthscale=2.0).fit(POINTS)
    before = features.transform(POINTS)
    features.set_params(lengthscale=5.0)
    assert features.lengthscale_ == 2.0
    assert np.array_equal(features.transform(POINTS), before)


@pytest.mark.parametrize("map_class", [FourierFeatures, LaplaceFeatures])
def test_a_lengthscale_beyond_single_precision_is_refused(map_class):
    features = map_class(8, lengthscale=1e-50).fit(1e-50 * POINTS)
    assert np.isfinite(features.transform(1e-50 * POINTS)).all()
    for points in (POINTS.astype(np.float32), torch.tensor(POINTS).float()):
        with pytest.raises(
            ValueError, match=r"`lengthscale` 1e-50 is out of the range of .*float32"
        ):
            features.transform(points)
