"""Observations: repeated ones are joined at their node."""

from __future__ import annotations

import numpy as np

from graphrf.gp.model.observations import Observations


def test_repeats_become_means_counts_and_a_sum_of_squares():
    nodes, y = np.array([4, 1, 4, 4]), np.array([[1.0, 0.0], [5.0, 2.0], [2.0, 0.0], [3.0, 3.0]])
    joined = Observations.of(nodes, y, np.arange(10.0).reshape(5, 2))
    np.testing.assert_array_equal(joined.nodes, [1, 4])
    np.testing.assert_array_equal(joined.counts, [1, 3])
    np.testing.assert_allclose(joined.means, [[5.0, 2.0], [2.0, 1.0]])
    assert np.isclose(joined.within, 2.0 + 6.0)
    assert (joined.n_total, joined.n_outputs) == (4, 2)
    np.testing.assert_array_equal(joined.basis, [[2.0, 3.0], [8.0, 9.0]])


def test_distinct_nodes_are_sorted_with_their_values():
    joined = Observations.of(np.array([3, 0, 2]), np.array([[3.0], [0.0], [2.0]]), np.ones((4, 1)))
    np.testing.assert_array_equal(joined.means.ravel(), joined.nodes)
    assert joined.within == 0
