"""Weighted samples of densities whose moments are known."""

from __future__ import annotations

import numpy as np
import pytest

from graphrf.gp.search.sample import (
    NormalProposal,
    evenly,
    log_sum_exp,
    mixture_sample,
    probabilities,
)

MEAN, ROOT = np.array([0.5, -1.0]), np.array([[0.8, 0.0], [0.5, 0.4]])
BOX = np.tile([-20.0, 20.0], (2, 1))


def test_the_curvature_of_a_normal_density_gives_its_covariance():
    precision = np.linalg.inv(ROOT @ ROOT.T)
    around = NormalProposal.around(MEAN, lambda x: -precision @ (x - MEAN), BOX, 1.0)
    np.testing.assert_allclose(around.root @ around.root.T, ROOT @ ROOT.T, rtol=1e-8)
    flat = NormalProposal.around(MEAN, np.zeros_like, BOX, 2.0)
    np.testing.assert_allclose(flat.root, 6.0 * np.eye(2))  # the widest that is taken


def test_at_the_end_of_a_box_differences_stay_inside():
    def gradient(x):
        assert (x >= 0).all()
        return -4 * x

    around = NormalProposal.around(np.zeros(1), gradient, np.array([[0.0, 9.0]]), 1.0)
    assert around.root[0, 0] == pytest.approx(0.5)


@pytest.mark.parametrize("wide", [0.7, 3.0])
def test_a_mixture_sample_has_the_moments_of_its_target(wide):
    target = NormalProposal(MEAN, ROOT)
    first = NormalProposal(np.zeros(2), wide * np.eye(2))

    def fitted(points, log):
        weights = probabilities(log - first.log_density(points))
        return NormalProposal.fitted(points, weights, 0.01 * np.eye(2), 1.2)

    rng = np.random.default_rng(0)
    sample = mixture_sample(first, fitted, target.log_density, (2_000, 2), rng)
    weights = probabilities(sample.log_target - sample.log_density)
    np.testing.assert_allclose(weights @ sample.points, MEAN, atol=0.03)
    away = sample.points - weights @ sample.points
    np.testing.assert_allclose((away.T * weights) @ away, ROOT @ ROOT.T, atol=0.04)
    integral = log_sum_exp(sample.log_target - sample.log_density) - np.log(len(weights))
    assert integral == pytest.approx(0.0, abs=0.03)


def test_points_fill_the_cube():
    points = evenly(1_000, 3, np.random.default_rng(1))
    counts = np.histogramdd(points, bins=2, range=[(0, 1)] * 3)[0]
    assert counts.min() > 110
    assert counts.max() < 140
