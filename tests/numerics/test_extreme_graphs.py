"""Graphs with weights from 5e-324 to the largest float64: their matrices, and the walks on them."""

from __future__ import annotations

import numpy as np
import pytest

import graphrf as grf
from graphrf.sampling.walks.transitions import graph_transitions
from tests.numerics.extremes import graphs, mpmath

GRAPHS = dict(graphs())
SMALLEST = 5e-324
LAPLACIANS = ["normalized", "combinatorial"]


def path(*weights):
    a = np.zeros((len(weights) + 1, len(weights) + 1))
    for i, weight in enumerate(weights):
        a[i, i + 1] = a[i + 1, i] = weight
    return a


BEYOND = {
    "subnormal": path(SMALLEST, 3 * SMALLEST, 5 * SMALLEST),
    "subnormal and huge": path(SMALLEST, 1e154, 1e308),
    "huge and tiny": path(1e300, 1e-300, 1e300),
    "huge": path(8e307, 1e307, 8e307),
    "loops": np.diag([1.7e308, 1e-308, SMALLEST]),
    "overflow": path(1e308, 1e308),
    **GRAPHS,
}


@pytest.mark.parametrize("name", BEYOND)
def test_the_normalized_walk_matrix_has_its_digits_or_is_refused(name):
    a = BEYOND[name]
    graph = grf.Graph(a)
    if name == "overflow":
        for compute in (lambda: graph.degrees, graph.walk_matrix, graph.laplacian):
            with pytest.raises(
                ValueError, match="overflow float64; divide its weights by a constant"
            ):
                compute()
        return
    found = graph.walk_matrix().toarray()
    degrees = [mpmath.fsum(row) for row in a.tolist()]
    want = np.array(
        [
            [
                float(mpmath.mpf(w) / mpmath.sqrt(degrees[i] * degrees[j])) if w else 0.0
                for j, w in enumerate(row)
            ]
            for i, row in enumerate(a.tolist())
        ]
    )
    want[np.diag_indices(len(a))] += np.array(degrees, dtype=float) == 0
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_allclose(found, want, rtol=1e-14, atol=1e-300)
    assert np.abs(np.linalg.eigvalsh(found)).max() <= 1 + 1e-14


@pytest.mark.parametrize("name", BEYOND)
def test_the_combinatorial_walk_matrix_is_sound_or_refused(name):
    graph = grf.Graph(BEYOND[name])
    largest = BEYOND[name].sum(axis=1).max() if name != "overflow" else np.inf
    if 1e-290 < largest < 1e290:
        found = graph.walk_matrix("combinatorial").toarray()
        np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-14)
        assert found.min() >= 0
    else:
        with pytest.raises(ValueError, match=r"(multiply|divide) its weights by a constant"):
            graph.walk_matrix("combinatorial")


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("exponent", [-200, -40, -2, 2, 40, 200])
def test_a_power_of_four_on_all_weights_changes_no_bit(name, exponent):
    one, other = grf.Graph(GRAPHS[name]), grf.Graph(GRAPHS[name] * 2.0**exponent)
    np.testing.assert_array_equal(one.walk_matrix().toarray(), other.walk_matrix().toarray())
    combinatorial = [graph.walk_matrix("combinatorial").toarray() for graph in (one, other)]
    np.testing.assert_array_equal(*combinatorial)
    np.testing.assert_array_equal(
        graph_transitions(one).cumulative, graph_transitions(other).cumulative
    )
    kernel = grf.Diffusion(1.5)
    np.testing.assert_array_equal(kernel.dense(one), kernel.dense(other))
    samplers = (
        grf.RandomWalks(n_walks=16, lengths=grf.sampling.IID(0.2)),
        grf.sampling.ExactPowers(6),
    )
    for sampler in samplers:
        grams = [grf.sample_features(graph, sampler, seed=1).gram(kernel) for graph in (one, other)]
        np.testing.assert_allclose(*grams, rtol=1e-6)


@pytest.mark.parametrize("name", [name for name in BEYOND if name != "overflow"])
def test_running_shares_end_with_one_and_walks_keep_to_edges(name):
    a = BEYOND[name]
    graph = grf.Graph(a)
    indptr, _, cumulative = graph_transitions(graph)
    for i in range(len(a)):
        shares = cumulative[indptr[i] : indptr[i + 1]]
        if shares.size:
            assert shares[-1] == 1
            assert (np.diff(shares, prepend=0.0) >= 0).all()
    features = grf.sample_features(
        graph,
        grf.RandomWalks(n_walks=512, lengths=grf.sampling.Truncated(1)),
        seed=0,
        dtype=np.float64,
    )
    reached = features.matrix(grf.kernels.LearnedModulation(1, [0.0, 1.0])).toarray() > 0
    walk = graph.walk_matrix().toarray()
    assert not (reached & (walk == 0)).any()
    share = a / np.where(a.sum(axis=1) > 0, a.sum(axis=1), 1.0)[:, None]
    assert not (reached & (a > 0) & (share < 1e-20)).any()  # 512 walks do not meet those


@pytest.mark.parametrize("laplacian", LAPLACIANS)
@pytest.mark.parametrize("name", GRAPHS)
def test_walks_on_extreme_weights_estimate_the_kernel(name, laplacian):
    graph = grf.Graph(GRAPHS[name])
    kernel = grf.Diffusion(float(graph.laplacian_scale(laplacian) ** -0.5), laplacian=laplacian)
    want = kernel.dense(graph)
    sampler = grf.RandomWalks(n_walks=8192, lengths=grf.sampling.Truncated(12), laplacian=laplacian)
    phi = grf.sample_features(graph, sampler, seed=0, dtype=np.float64).matrix(kernel).toarray()
    # D^(-1/2) Phi D^(1/2) is a mean of bounded terms, whatever the weights: sum |f_k| = 1 each.
    root = np.sqrt(graph.walk_degrees) if laplacian == "normalized" else np.ones(len(want))
    terms = (phi - kernel.dense_root(graph)) / root[:, None] * root
    assert np.abs(terms).max() < 6 / np.sqrt(8192)
