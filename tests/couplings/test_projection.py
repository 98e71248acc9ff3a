"""Random projections: unbiased with the stated variance, candidates near the optimum."""

import numpy as np
import pytest

import graphrf as grf
from graphrf.couplings.exhaustive import solve_exhaustive
from graphrf.couplings.learn import erdos_renyi
from graphrf.couplings.projection import projected_form, projection_candidates
from graphrf.couplings.quadratic import spectral_form
from tests.couplings.tiles import KERNEL, spectra_of
from tests.support.sequential import assert_unbiased


@pytest.fixture(scope="module")
def spectrum():
    return spectra_of(erdos_renyi(12, 0.4, seed=1), 0.3, 7)


class _SharedVectors:
    """A generator whose every second draw repeats the one before: g = h, which is biased."""

    def __init__(self, seed):
        self.rng, self.last = np.random.default_rng(seed), None

    def standard_normal(self, shape):
        if self.last is None:
            self.last = self.rng.standard_normal(shape)
            return self.last
        again, self.last = self.last, None
        return again


def _estimates(spectrum, permutations, rng_of):
    def draw(stage, n):
        return np.array(
            [projected_form(*spectrum, 100, rng_of([5, stage, i]))(permutations) for i in range(n)]
        )

    return draw


def test_projected_costs_are_unbiased_for_the_true_ones_and_shared_vectors_are_not(spectrum):
    permutations = np.array([np.arange(7), np.arange(7)[::-1], [3, 1, 0, 2, 6, 5, 4]])
    truth = spectral_form(*spectrum)(permutations)
    assert_unbiased(_estimates(spectrum, permutations, np.random.default_rng), truth, n0=500)
    with pytest.raises(AssertionError, match="biased"):
        assert_unbiased(_estimates(spectrum, permutations, _SharedVectors), truth, n0=500)


def test_blocks_of_projections_are_averaged_over_all_of_them(spectrum):
    # More than one block, the last one short: the mean
    # of so many is within 8 / sqrt(5000) of the truth.
    permutation = np.arange(7)
    truth = float(spectral_form(*spectrum)(permutation))
    assert projected_form(*spectrum, 5000, np.random.default_rng(3))(permutation) == pytest.approx(
        truth, rel=0.2
    )


def test_projection_candidates_gain_nearly_all_that_permutations_can(spectrum):
    cost = spectral_form(*spectrum)
    best = float(cost(solve_exhaustive(cost)))
    candidates = projection_candidates(*spectrum, 50, np.random.default_rng(0))
    assert (np.sort(candidates, axis=1) == np.arange(7)).all()
    # The best one; and every single one beats independent
    # tiles, which a random permutation does not.
    assert cost(candidates).min() - best <= 0.02 * (cost.independent - best)
    assert (cost(candidates) < cost.independent).all()
    rng = np.random.default_rng(1)
    assert (cost(np.array([rng.permutation(7) for _ in range(50)])) > cost.independent).any()


def test_a_search_by_projections_records_the_true_cost_and_nears_the_exact_search():
    graph = erdos_renyi(20, 0.2, seed=1)
    exact = grf.couplings.learn_coupling(graph, KERNEL, p_halt=0.3, order=7, solver="quadratic")
    projected = grf.couplings.learn_coupling(
        graph, KERNEL, p_halt=0.3, order=7, solver="quadratic", projections=2000
    )
    assert projected.projections == 2000
    assert projected.cost_before == exact.cost_before
    true = spectral_form(*spectra_of(graph, 0.3, 7))
    assert projected.cost_after == pytest.approx(float(true(projected.permutation)), rel=1e-12)
    assert exact.cost_after * (1 - 1e-12) <= projected.cost_after
    assert projected.cost_after - exact.cost_after <= 0.1 * (exact.cost_before - exact.cost_after)
