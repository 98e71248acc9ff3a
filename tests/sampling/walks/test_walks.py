"""The compiled loops: exact integrals over the uniforms, no sampling."""

import math
from fractions import Fraction
from itertools import accumulate, pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from numba import njit

import graphrf as grf
from graphrf.sampling.walks.batches import MOST_TOGETHER, choose_edges, gaps, new_desk
from graphrf.sampling.walks.lengths import LengthLaw, Survival
from graphrf.sampling.walks.loops import _length_of, draw_lengths, walk_block
from graphrf.sampling.walks.transitions import neighbour, transitions
from graphrf.sampling.walks.word_sort import DIGIT_BITS, sort_words

WEIGHTS = [[1, 1, 1], [1, 2, 3], [1, 1, 5], [2, 7], [1], [1, 1, 1, 1, 1, 1]]


def _star(weights):
    """Row 0 leads to nodes 1 .. d with the given weights."""
    d = len(weights)
    adjacency = sp.csr_array(
        (np.array(weights, float), (np.zeros(d, int), np.arange(1, d + 1))), shape=(d + 1,) * 2
    )
    return transitions(adjacency)


def _chosen(position, bits, arrays):
    """The nodes to which `choose_edges` leads."""
    n = position.size
    edge = np.empty(n, np.uint64)
    high, low = (bits >> np.uint64(32)).astype(np.uint32), bits.astype(np.uint32)
    room = np.empty(n, np.uint64), np.empty(n)
    choose_edges(n, position, high, low, arrays.indptr, arrays.cumulative, edge, *room)
    return arrays.indices[edge.astype(np.int64)]


@pytest.mark.parametrize("is_weighted", [False, True])
def test_a_batch_of_walkers_chooses_as_one_walker_does(is_weighted):
    rng = np.random.default_rng(0)
    dense = np.where(rng.random((300, 300)) < 0.05, rng.random((300, 300)), 0.0) + np.eye(300)
    dense[7] = rng.random(300) + 0.1  # one long row
    adjacency = sp.csr_array(dense)
    if not is_weighted:
        adjacency.data[:] = 1.0
    arrays = transitions(adjacency)
    position = rng.integers(0, 300, 4000).astype(np.uint32)
    position[:200] = 7
    bits = rng.integers(0, 2**64, 4000, dtype=np.uint64)
    one_by_one = _neighbours(position.astype(np.int64), bits, *arrays)
    np.testing.assert_array_equal(_chosen(position, bits, arrays), one_by_one)


@njit
def _neighbours(nodes, bits, indptr, indices, cumulative):
    chosen = np.empty(nodes.size, np.int64)
    for i in range(nodes.size):
        chosen[i] = neighbour(nodes[i], bits[i], indptr, indices, cumulative)
    return chosen


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
def test_each_dealt_walk_moves_like_a_simple_walk_and_together_they_spread_evenly(weights, count):
    arrays = _star(weights)
    total = sum(weights)
    # Destinations are constant between multiples of
    # 1 / (total * count): midpoints integrate exactly.
    pieces = math.lcm(total, count)
    share = np.zeros((count, len(weights)))
    for piece in range(pieces):
        bits = np.uint64((2 * piece + 1) * 2**64 // (2 * pieces))
        choices = bits + np.arange(count, dtype=np.uint64) * gaps(count)[count]
        chosen = _chosen(np.zeros(count, np.uint32), choices, arrays) - 1
        share[np.arange(count), chosen] += 1 / pieces
        counts = np.bincount(chosen, minlength=len(weights))
        expected = count * np.array(weights) / total
        assert (np.abs(counts - expected) < 1 + 1e-9).all()
    np.testing.assert_allclose(share, np.tile(np.array(weights) / total, (count, 1)), atol=1e-12)


@pytest.mark.parametrize(
    "survival", [Survival.geometric(0.1), Survival.geometric(0.6), Survival([1, 1, 0.5, 0.5])]
)
def test_a_walk_reaches_step_k_exactly_when_its_uniform_is_below_the_survival(survival):
    table = survival.table
    for k in range(1, table.size):
        assert _length_of(table[k] - 2.0**-53, table) >= k
        if table[k] < 1:
            assert _length_of(table[k], table) < k
    assert _length_of(0.0, table) == table.size - 1


def _lengths(law: LengthLaw, n_walks: int, sources: int) -> np.ndarray:
    drawn = np.empty((sources, n_walks), np.int64)
    table, permutations = law.survival.table, law.permutations(n_walks)
    for source in range(sources):
        draw_lengths(
            np.uint64(source), int(law.rule), table, permutations, np.uint64(5), drawn[source]
        )
    return drawn


def test_antithetic_walks_never_end_together_below_one_half():
    pairs = _lengths(grf.sampling.Antithetic(0.3), 2, 4000)
    assert (pairs[:, 0] != pairs[:, 1]).all()
    independent = _lengths(grf.sampling.IID(0.3), 2, 4000)
    assert (independent[:, 0] == independent[:, 1]).mean() > 0.1


def test_stratified_lengths_fall_one_into_each_quantile():
    law = grf.sampling.Stratified(0.2)
    n_walks = 8
    drawn = np.sort(_lengths(law, n_walks, 500), axis=1)
    table = np.append(law.survival.table, 0.0)
    # The length at quantile u lies between those at the ends of u's stratum.
    ends = [int(np.count_nonzero(table[1:] > 1 - q / n_walks)) for q in range(n_walks)] + [
        table.size
    ]
    for stratum in range(n_walks):
        assert (drawn[:, stratum] >= ends[stratum]).all()
        assert (drawn[:, stratum] <= ends[stratum + 1]).all()


def test_sigma_coupled_lengths_lie_in_the_matched_tiles():
    order = 5
    permutation = np.array([4, 2, 0, 1, 3])
    law = grf.sampling.SigmaCoupled(Survival.geometric(0.05), grf.sampling.Coupling(permutation))
    drawn = _lengths(law, 2, 3000)
    table = np.append(law.survival.table, 0.0)
    ends = np.array(
        [np.count_nonzero(table[1:] > 1 - q / order) for q in range(order)] + [table.size]
    )
    matched = np.zeros(drawn.shape[0], bool)
    for tile in range(order):
        first = (drawn[:, 0] >= ends[tile]) & (drawn[:, 0] <= ends[tile + 1])
        partner = permutation[tile]
        second = (drawn[:, 1] >= ends[partner]) & (drawn[:, 1] <= ends[partner + 1])
        matched |= first & second
    assert matched.all()
    unmatched = _lengths(grf.sampling.IID(0.05), 2, 3000)
    inside = (unmatched[:, 0] <= ends[1]) & (unmatched[:, 1] >= ends[4])
    assert inside.mean() < 0.1


def test_lengths_of_different_sources_are_independent_and_of_one_pair_are_not():
    drawn = _lengths(grf.sampling.Stratified(0.2), 2, 20_000).astype(float)
    within = np.corrcoef(drawn[:, 0], drawn[:, 1])[0, 1]
    between = np.corrcoef(drawn[:-1, 0], drawn[1:, 0])[0, 1]
    assert within < -0.3
    assert abs(between) < 5 / np.sqrt(20_000)


@pytest.mark.parametrize("n", [0, 1, 24, 300])
@pytest.mark.parametrize("n_bits", [0, 1, DIGIT_BITS, DIGIT_BITS + 1, 32])
@pytest.mark.parametrize("low_bit", [5, 32])
def test_sort_words_is_a_stable_sort_by_the_bits_that_it_is_given(n, n_bits, low_bit):
    rng = np.random.default_rng(n)
    parts = rng.integers(0, 2**n_bits, n).astype(np.uint64)
    words = (parts << np.uint64(low_bit)) | rng.integers(0, 2**low_bit, n, dtype=np.uint64)
    given, spare = words.copy(), np.empty(n, np.uint64)
    in_place = sort_words(given, n, low_bit, n_bits, spare, np.empty(1 << DIGIT_BITS, np.int64))
    np.testing.assert_array_equal(
        given if in_place else spare, words[np.argsort(parts, kind="stable")]
    )


@pytest.mark.parametrize("stratified", [False, True])
@pytest.mark.parametrize("n_walks", [1, 6, 300])
def test_sources_that_advance_together_leave_what_each_leaves_alone(
    weighted_graph, stratified, n_walks
):
    arrays = transitions(weighted_graph.walk_adjacency("normalized"))
    law = grf.sampling.Stratified(0.2)
    sources = np.array([3, 0, 0, 5, 1, 2, 7], np.int64)  # a node may come twice
    records = []
    for batch in (1, 2, 3, MOST_TOGETHER // n_walks):
        rows, visits, *columns, n_entries, n_visits = walk_block(
            *arrays,
            sources,
            n_walks,
            int(law.rule),
            law.survival.table,
            law.permutations(n_walks),
            stratified,
            np.uint64(1),
            new_desk(batch, n_walks, law.survival.max_length, True),
            4,
        )
        sizes = (n_entries, n_entries, n_visits, n_visits)
        records.append(
            [rows, visits, *(column[:n] for column, n in zip(columns, sizes, strict=True))]
        )
    for record in records[1:]:
        for array, alone in zip(record, records[0], strict=True):
            np.testing.assert_array_equal(array, alone)


def test_running_shares_are_kept_only_where_weights_differ_within_a_row():
    rowwise_equal = sp.csr_array(np.array([[0.0, 2, 2], [3, 0, 0], [5, 0, 5]]))
    assert transitions(rowwise_equal).cumulative.size == 0
    shares = transitions(sp.csr_array(np.array([[0.0, 1, 3], [2, 0, 0], [0, 0, 0]]))).cumulative
    np.testing.assert_array_equal(shares, [0.25, 1.0, 1.0])


@pytest.mark.parametrize("decades", [0.5, 6, 14])
def test_running_shares_are_exact_prefix_sums_up_to_the_rounding_of_float64(decades):
    # The grid of unbiasedness does not see shares that are rounded to float32.
    rng = np.random.default_rng(0)
    sizes = np.array([1, 2, 7, 0, 50, 300])
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    weights = 10 ** rng.uniform(-decades / 2, decades / 2, indptr[-1])
    columns = np.concatenate([np.arange(size) for size in sizes])
    shares = transitions(
        sp.csr_array((weights, columns, indptr), shape=(sizes.size, sizes.max()))
    ).cumulative
    assert shares.dtype == np.float64
    for start, end in pairwise(indptr):
        sums = list(accumulate(map(Fraction, weights[start:end])))
        exact = np.array([float(one / sums[-1]) for one in sums])
        # Every sum of m terms and the division round by
        # at most 2^-53 of a share, which is at most 1.
        bound = (2 * (end - start) + 1) * 2.0**-53
        np.testing.assert_allclose(shares[start:end], exact, rtol=bound, atol=0)
        if end - start > 1:
            rounded = exact.astype(np.float32)
            assert not np.allclose(rounded, exact, rtol=bound, atol=0), "the bound finds float32"
