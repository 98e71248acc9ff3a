"""Cut and compressed powers on extreme weights and lengthscales: finite, within bounds."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import graphrf as grf
from tests.numerics.extremes import Truth, graphs

GRAPHS = dict(graphs())
LENGTHS = [1e-12, 1e-3, 1.0, 1e2, 1e6, 1e12]
KINDS = [
    lambda length, laplacian: grf.Diffusion(length, laplacian=laplacian),
    lambda length, laplacian: grf.Matern(1.5, length, laplacian=laplacian),
]


@pytest.mark.parametrize("laplacian", ["normalized", "combinatorial"])
@pytest.mark.parametrize("name", GRAPHS)
def test_powers_are_within_their_stated_error(name, laplacian):
    graph = grf.Graph(GRAPHS[name])
    truth = Truth(GRAPHS[name], laplacian)
    scale = graph.laplacian_scale(laplacian)
    records = [
        grf.sample_features(
            graph, sampler(budget, max_length=12, laplacian=laplacian), seed=0, dtype=np.float64
        )
        for sampler, budget in (
            (grf.sampling.CutPowers, 3),
            (grf.sampling.CutPowers, 64),
            (grf.CompressedPowers, 64),
        )
    ]
    compressed = grf.sample_features(
        graph, grf.CompressedPowers(3, max_length=12, laplacian=laplacian), seed=0, dtype=np.float64
    )
    lost = 0
    for length in LENGTHS:
        for kind in KINDS:
            kernel = kind(float(length * scale**-0.5), laplacian)
            want = truth.matrix(kernel)
            size = kernel.modulation_tail(-1, scale) ** 2
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                found = [features.gram(kernel) for features in records]
                assert np.isfinite(compressed.gram(kernel)).all()
            assert not any(issubclass(warning.category, RuntimeWarning) for warning in said)
            for features, gram in zip(records, found, strict=True):
                error = np.linalg.norm(gram - want, 2)
                # loads are float32
                assert error <= features.truncation_error(kernel) * (1 + 1e-6) + 2e-7 * size
                lost += error > 0.01 * size
    assert lost > 5  # lengthscales that 12 steps do not hold, and the bound says so
