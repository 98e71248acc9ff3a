"""Rows whose linear predictor is unbounded, beside enumeration and limits of densities."""

import itertools

import numpy as np
import pytest

from graphrf.gp.latent.basis import FixedEffects
from graphrf.gp.latent.data import Data
from graphrf.gp.latent.separation import DEVIATION, separation, unbounded_sides
from graphrf.gp.likelihoods.counts import NegativeBinomial, Poisson, ZeroInflatedPoisson
from graphrf.gp.likelihoods.ordinal import Ordinal
from graphrf.gp.likelihoods.positive import Gamma, Weibull
from graphrf.gp.likelihoods.proportions import Bernoulli, Beta, Binomial
from graphrf.gp.likelihoods.real import NormalNoise, StudentT

SIDES = [
    (Poisson(), [0, 1, 5], [-1, 0, 0]),
    (NegativeBinomial(), [0, 1, 5], [-1, 0, 0]),
    (ZeroInflatedPoisson(), [0, 1, 5], [-1, 0, 0]),
    (Bernoulli(), [[0, 1, 1], [1, 1, 1]], [-1, 1, 1]),
    (Binomial(), [[0, 2, 5], [5, 5, 5]], [-1, 0, 1]),
    (Ordinal(4), [0, 1, 3], [-1, 0, 1]),
    (Weibull(), [[1.0, 2.0, 3.0], [1, 0, 1]], [0, 1, 0]),
    (Gamma(), [0.1, 1, 5], [0, 0, 0]),
    (Beta(), [0.01, 0.5, 0.99], [0, 0, 0]),
    (NormalNoise(), [-1e6, 0, 1e6], [0, 0, 0]),
    (StudentT(), [-1e3, 0, 1e3], [0, 0, 0]),
]


def data(likelihood, y, offset=0.0):
    y = np.array(y, dtype=float)
    return Data(y, np.full(y.shape[-1], offset), likelihood, likelihood.unit(y))


@pytest.mark.parametrize(("likelihood", "y", "sides"), SIDES, ids=lambda own: type(own).__name__)
@pytest.mark.parametrize("offset", [0.0, 7.0])
def test_sides_are_those_to_which_densities_increase_for_ever(likelihood, y, sides, offset):
    found = unbounded_sides(data(likelihood, y, offset if likelihood.log_link else 0.0))
    np.testing.assert_array_equal(found, sides)


def moved_by_enumeration(x, sides):
    """Rows that a change with entries -2 to 2 moves, none of them to the wrong side."""
    moved = np.zeros(len(x), dtype=bool)
    for change in itertools.product(range(-2, 3), repeat=x.shape[1]):
        eta = x @ np.array(change, dtype=float)
        if (sides * eta >= 0).all() and (eta[sides == 0] == 0).all():
            moved |= eta != 0
    return moved


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
def test_rows_are_those_of_enumeration(seed, likelihood):
    rng = np.random.default_rng(seed)
    k = rng.integers(0, 3, 14)
    x = np.column_stack([np.ones(14), k == 1, k == 2, rng.integers(-1, 2, 14) * (seed % 2)])
    x = x[:, : 3 + seed % 2]
    y = rng.poisson(0.6, 14) if likelihood == "poisson" else rng.binomial(1, 0.5, 14)
    y[k == seed % 3] = 0
    own = data(Poisson(), y) if likelihood == "poisson" else data(Bernoulli(), [y, np.ones(14)])
    expected = moved_by_enumeration(x, unbounded_sides(own))
    found = separation(FixedEffects.of(x.astype(float), 1.0, None).matrix, own)
    np.testing.assert_array_equal(
        np.zeros(14, dtype=bool) if found is None else found.rows, expected
    )


def test_the_prior_of_an_empty_level_is_that_of_its_difference_from_the_others():
    level = np.repeat([0, 1, 2], 20)
    y = np.where(level == 2, 0, 3)
    x = (level[:, None] == np.arange(3)).astype(float)
    found = separation(x, data(Poisson(), y))
    difference = np.array([-0.5, -0.5, 1.0])
    np.testing.assert_allclose(found.precision, np.outer(difference, difference) / DEVIATION**2)
    np.testing.assert_array_equal(found.rows, level == 2)


def test_two_empty_levels_have_a_prior_each():
    level = np.repeat(np.arange(4), 10)
    found = separation(
        (level[:, None] == np.arange(4)).astype(float), data(Poisson(), np.where(level > 1, 0, 2))
    )
    own = found.precision[2:, 2:]
    np.testing.assert_allclose(own, np.eye(2) / DEVIATION**2, atol=1e-12)
