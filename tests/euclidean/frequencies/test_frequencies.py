"""Directions, norms and the fast forms: exact facts of each block (laws: test_unbiased.py)."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.linalg import hadamard as hadamard_matrix

from graphrf.euclidean.frequencies.directions import DIRECTIONS, simplex, simplex_plus
from graphrf.euclidean.frequencies.draw import SEQUENCES, draw_frequencies
from graphrf.euclidean.frequencies.hadamard import hadamard
from graphrf.euclidean.frequencies.norms import norm_coupling
from graphrf.euclidean.kernels import KERNELS, stationary_kernel


def draw(directions, n, d, **settings):
    norms = None if directions in SEQUENCES else settings.pop("norms", "iid")
    return draw_frequencies(n, d, directions=directions, norms=norms, **settings)


@pytest.mark.parametrize("directions", DIRECTIONS)
@pytest.mark.parametrize("d", [3, 8])
def test_projection_is_the_product_with_the_matrix(directions, d):
    frequencies = draw(directions, 5 * d + 2, d, seed=1)
    assert frequencies.shape == frequencies.matrix.shape == (5 * d + 2, d)
    x = np.random.default_rng(0).normal(size=(37, d))
    expected = x @ frequencies.matrix.T
    np.testing.assert_allclose(frequencies.project(x), expected, atol=1e-12)
    np.testing.assert_allclose(frequencies.project(torch.tensor(x)).numpy(), expected, atol=1e-12)
    stacked = frequencies.project(torch.tensor(x)[:36].reshape(2, 18, d))
    np.testing.assert_allclose(stacked.reshape(36, -1).numpy(), expected[:36], atol=1e-12)
    wide = np.zeros((37, 2 * len(expected[0])))
    frequencies.project(x, wide[:, : len(expected[0])])
    np.testing.assert_allclose(wide, np.c_[expected, 0 * expected], atol=1e-12)
    single = frequencies.project(x.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, expected, atol=2e-5)


@pytest.mark.parametrize("directions", DIRECTIONS)
def test_a_seed_gives_the_same_bits_and_another_seed_others(directions):
    first, again, other = (draw(directions, 10, 4, seed=seed).matrix for seed in (3, 3, 4))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_norms_have_a_stream_of_their_own():
    plain, coupled = (
        draw("orthogonal", 12, 4, norms=norms, seed=0).matrix for norms in ("iid", "pnc")
    )
    unit = [w / np.linalg.norm(w, axis=1, keepdims=True) for w in (plain, coupled)]
    np.testing.assert_allclose(*unit, atol=1e-12)
    assert abs(np.linalg.norm(plain, axis=1) - np.linalg.norm(coupled, axis=1)).max() > 0.1


@pytest.mark.parametrize(
    ("directions", "cosine"),
    [("orthogonal", 0.0), ("simplex", -1 / 4), ("orthogonal-hd", 0.0), ("simplex-hd", -1 / 7)],
)
def test_angles_within_a_block(directions, cosine):
    d = 8 if directions.endswith("hd") else 5
    w = draw(directions, 3 * d, d, seed=2).matrix
    for block in w.reshape(3, d, d):
        unit = block / np.linalg.norm(block, axis=1, keepdims=True)
        np.testing.assert_allclose(unit @ unit.T, np.where(np.eye(d), 1.0, cosine), atol=1e-12)


def test_simplex_plus_lowers_the_resultant_and_keeps_norms():
    rng = np.random.default_rng(0)
    norms = np.sqrt(rng.chisquare(16, size=16))
    start = simplex(16)
    resultants = [
        np.linalg.norm(norms @ (start if n == 0 else simplex_plus(norms, start, n_passes=n)))
        for n in (0, 1, 10)
    ]
    assert resultants[0] > 1
    assert resultants[1] < 0.05 * resultants[0]
    assert resultants[2] < 1e-10
    np.testing.assert_allclose(np.linalg.norm(simplex_plus(norms, start), axis=1), 1.0)


@pytest.mark.parametrize("d", [1, 2, 4, 8, 16, 32, 64, 256])
def test_hadamard_is_the_orthonormal_sylvester_matrix(d):
    x = np.random.default_rng(0).normal(size=(19, d))
    expected = x @ hadamard_matrix(d).T / np.sqrt(d)
    np.testing.assert_allclose(hadamard(torch.tensor(x)).numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("directions", ["orthogonal-hd", "simplex-hd"])
@pytest.mark.parametrize("d", [2, 5, 16, 100])
def test_fast_frequencies_are_their_product_of_matrices(directions, d):
    frequencies = draw(directions, 3 * d, d, seed=4)
    size = frequencies.norms.shape[1]
    h, s = (
        hadamard_matrix(size) / np.sqrt(size),
        simplex(size) if directions == "simplex-hd" else np.eye(size),
    )
    blocks = [
        np.diag(norms) @ s @ h @ np.diag(a) @ h @ np.diag(b) @ h @ np.diag(c)
        for norms, (a, b, c) in zip(frequencies.norms, frequencies.signs, strict=True)
    ]
    np.testing.assert_allclose(frequencies.matrix, np.concatenate(blocks)[: 3 * d, :d], atol=1e-12)


def test_pairs_add_to_one_and_an_odd_last_one_is_alone():
    u = norm_coupling("pnc").uniforms(50, 5, np.random.default_rng(0))
    assert (u[:, 0] + u[:, 1] == 1).all()
    assert (u[:, 2] + u[:, 3] == 1).all()
    assert abs(np.corrcoef(u[:, 4], u[:, 2])[0, 1]) < 0.6
    assert (
        np.ptp(norm_coupling("pm").uniforms(50, 5, np.random.default_rng(0)), axis=1) == 0
    ).all()


def test_antithetic_frequencies_are_pairs():
    w = draw("simplex", 12, 3, antithetic=True, seed=0).matrix
    assert np.array_equal(w[6:], -w[:6])


@pytest.mark.parametrize("kernel", KERNELS)
def test_quantile_inverts_the_law_of_the_norm(kernel):
    law = stationary_kernel(kernel)
    u = np.array([1e-12, 1e-3, 0.5, 0.999, 1 - 1e-9])
    for d in (1, 5, 200):
        np.testing.assert_allclose(law.norm_cdf(law.norm_quantile(u, d), d), u, rtol=1e-6)


class Constant:
    """A coupling from outside."""

    def __init__(self, value):
        self.value = value

    def uniforms(self, n_blocks, size, rng):
        return np.full((n_blocks, size), self.value)


def test_a_coupling_from_outside_is_used_and_checked():
    w = draw("orthogonal", 8, 4, norms=Constant(0.5), seed=0).matrix
    np.testing.assert_allclose(
        np.linalg.norm(w, axis=1), stationary_kernel("gaussian").norm_quantile(0.5, 4)
    )
    with pytest.raises(ValueError, match="greater than 0 and less than 1"):
        draw("orthogonal", 8, 4, norms=Constant(1.0))


class Misshapen:
    def uniforms(self, n_blocks, size, rng):
        return np.full(3, 0.5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n": 7, "antithetic": True}, "`n` must be even with antithetic"),
        ({"norms": "npc"}, "`norms` must be one of 'iid', 'pnc', 'pm', got 'npc'"),
        ({"directions": "halton"}, "`norms` must be None with directions='halton'"),
        ({"norms": None}, "`norms` must be a coupling with directions='orthogonal', got None"),
        (
            {"directions": "simplex", "dimension": 1},
            "simplex directions need at least 2 dimensions",
        ),
        ({"norms": Misshapen()}, r"uniforms of shape \(2, 4\), got an array of shape \(3,\)"),
    ],
    ids=range(6),
)
def test_what_cannot_be_drawn_is_refused_by_name(settings, message):
    with pytest.raises(ValueError, match=message):
        draw_frequencies(**{"n": 8, "dimension": 4, **settings})


@pytest.mark.parametrize("directions", ["orthogonal", "simplex-hd"])
def test_points_of_another_dimension_are_refused_and_integers_are_numbers(directions):
    frequencies = draw(directions, 8, 5, seed=0)
    for wrong in (np.ones((2, 7)), np.ones((2, 200_000)), torch.ones(2, 3)):
        with pytest.raises(ValueError, match="`x` must have 5 columns, got"):
            frequencies.project(wrong)
    expected = frequencies.project(np.ones((1, 5)))
    np.testing.assert_array_equal(frequencies.project(np.ones((1, 5), dtype=int)), expected)
    np.testing.assert_allclose(
        frequencies.project(torch.ones(1, 5, dtype=torch.int64)), expected, rtol=1e-5
    )
    np.testing.assert_allclose(
        frequencies.project(np.ones(5, dtype=np.float16)), expected[0], rtol=1e-5
    )
    np.testing.assert_array_equal(frequencies.project([[1.0] * 5]), expected)
    assert frequencies.project(np.ones((2, 3, 5))).shape == (2, 3, 8)
