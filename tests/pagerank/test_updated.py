"""PageRank on an edited graph: bit for bit that of new walks; few walks are made."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import graphrf as grf
from graphrf.couplings import shipped_coupling
from graphrf.pagerank import estimate
from graphrf.pagerank.walks import stored_walks as module

N = 300
COUPLINGS = ["iid", "antithetic", "sigma", "stratified", shipped_coupling(0.3)]


def _graphs(directed, weighted):
    """Before and after edges are removed, added or changed; some nodes are dangling."""
    rng = np.random.default_rng(3)
    src, dst = rng.integers(0, N, (2, N))
    weights = rng.random(N) + 0.5 if weighted else np.ones(N)
    matrix = sp.coo_array((weights, (src, dst)), shape=(N, N)).tocsr()
    if not weighted:
        matrix.data[:] = 1.0
    matrix = matrix.tolil() if directed else matrix.maximum(matrix.T).tolil()
    dangling = int(np.flatnonzero(np.diff(matrix.tocsr().indptr) == 0)[0])
    edited = matrix.copy()
    edits = [(int(src[0]), int(dst[0]), 0.0), (2, 200, 1.0), (dangling, 7, 1.0)]
    if weighted:
        edits.append((int(src[5]), int(dst[5]), 7.0))
    for a, b, weight in edits:
        edited[a, b] = weight
        if not directed:
            edited[b, a] = weight
    return tuple(grf.Graph(part.tocsr(), directed=directed) for part in (matrix, edited))


def _assert_same(one, other):
    for name in ("scores", "stderr", "l1_error", "walks", "steps", "seed", "n_batches"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


@pytest.mark.parametrize("estimator", ["visits", "endpoints"])
@pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize("coupling", COUPLINGS, ids=str)
def test_an_updated_result_is_that_of_walks_made_anew(coupling, directed, weighted, estimator):
    before, after = _graphs(directed, weighted)
    options = {"coupling": coupling, "estimator": estimator, "p_halt": 0.3, "n_walks": 8, "seed": 4}
    first = estimate(before, keep_walks=True, **options)
    _assert_same(first, estimate(before, **options))
    updated = first.updated(after)
    _assert_same(updated, estimate(after, **options))
    _assert_same(updated.updated(before, n_threads=3), first)  # and back


def test_personalised_walks_follow():
    before, after = _graphs(False, True)
    options = {
        "coupling": "iid",
        "personalization": {3: 1.0, 250: 2.5, 40: 1.0},
        "n_walks": 50,
        "seed": 1,
    }
    _assert_same(
        estimate(before, keep_walks=True, **options).updated(after), estimate(after, **options)
    )


def test_a_long_chain_of_edits_and_only_sources_that_met_them(monkeypatch):
    before, after = _graphs(False, False)
    options = {"coupling": "stratified", "n_walks": 4, "seed": 2}
    masks = []
    original = module.Walks.counts
    monkeypatch.setattr(
        module.Walks, "counts", lambda *a, **k: (masks.append(k.get("only")), original(*a, **k))[1]
    )
    result = estimate(before, keep_walks=True, **options)
    for graph in [after, before] * 6:  # so many that visitors are sorted anew
        result = result.updated(graph)
    _assert_same(result, estimate(before, **options))
    assert 0 < masks[1].sum() < N / 2


def test_weights_that_become_unequal_change_every_walk():
    before, _ = _graphs(False, False)
    matrix = before.adjacency.tolil()
    matrix[0, 1] = matrix[1, 0] = 2.0
    after = grf.Graph(matrix.tocsr())
    options = {"coupling": "iid", "seed": 2}
    _assert_same(
        estimate(before, keep_walks=True, **options).updated(after), estimate(after, **options)
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "must be False for coupling='pooled'"),
        ({"coupling": "iid", "tol": 0.1}, "must be False with `tol` and `exact_steps`"),
        ({"coupling": "iid", "exact_steps": 2}, "must be False with `tol` and `exact_steps`"),
        ({"coupling": "iid", "personalization": np.eye(2, N)}, "several personalisation vectors"),
    ],
)
def test_walks_that_depend_on_the_whole_graph_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        estimate(_graphs(False, False)[0], keep_walks=True, seed=0, **options)


def test_walks_that_were_not_kept_and_other_nodes_are_refused():
    before, after = _graphs(False, False)
    with pytest.raises(ValueError, match="keep_walks=True"):
        estimate(before, coupling="iid", seed=0).updated(after)
    kept = estimate(before, coupling="iid", seed=0, keep_walks=True)
    with pytest.raises(ValueError, match="must have the 300 nodes"):
        kept.updated(after.subgraph(np.arange(10)))
    with pytest.raises(ValueError, match="must be directed if"):
        kept.updated(grf.Graph(after.adjacency, directed=True))
    again = pickle.loads(pickle.dumps(kept))
    assert again.follow is None
    _assert_same(again, kept)
