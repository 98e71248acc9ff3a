"""Features on an edited graph: bit for bit those of a fresh sample, few rows drawn."""

import functools

import numpy as np
import pytest
import scipy.sparse as sp

import graphrf as grf
from graphrf.sampling import updated as module
from tests.distributed.helpers import require_same
from tests.support.same_features import ARRAYS

LAWS = [
    grf.sampling.IID(0.2),
    grf.sampling.SigmaCoupled(0.2),
    grf.sampling.Stratified(0.2),
    grf.sampling.AutoLengths(grf.Diffusion(1.0)),
]
SIDE = 20


def _adjacency(weighted):
    """A grid with some long edges, and an isolated node at its end."""
    rng = np.random.default_rng(0)
    node = np.arange(SIDE**2).reshape(SIDE, SIDE)
    src = np.concatenate([node[:, 1:].ravel(), node[1:].ravel(), rng.integers(0, SIDE**2, 20)])
    dst = np.concatenate([node[:, :-1].ravel(), node[:-1].ravel(), rng.integers(0, SIDE**2, 20)])
    weights = np.random.default_rng(1).random(src.size) + 0.5 if weighted else np.ones(src.size)
    matrix = sp.coo_array((weights, (src, dst)), shape=(SIDE**2 + 1,) * 2).tolil()
    if weighted:
        return (matrix + matrix.T).tolil()
    return ((matrix + matrix.T) > 0).astype(float).tolil()


def _edit(matrix, a, b, weight):
    matrix[a, b] = matrix[b, a] = weight


@functools.cache
def _edited(weighted):
    """Graphs before and after an edge is removed, added, added to an isolated node, changed."""
    matrix = _adjacency(weighted)
    before = grf.Graph(matrix.tocsr())
    _edit(matrix, 0, 1, 0.0)
    _edit(matrix, 3, 77, 1.0)
    _edit(matrix, SIDE**2, 5, 1.0)
    if weighted:
        _edit(matrix, 100, 101, 9.0)
    return before, grf.Graph(matrix.tocsr())


@pytest.mark.parametrize(
    ("directions", "weighted", "laplacian"),
    [
        ("independent", False, "normalized"),
        ("stratified", True, "normalized"),
        ("independent", True, "combinatorial"),
        ("stratified", False, "combinatorial"),
    ],
)
@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_updated_features_are_those_of_a_fresh_sample(law, directions, weighted, laplacian):
    if isinstance(law, grf.sampling.AutoLengths):
        law = grf.sampling.AutoLengths(grf.Diffusion(1.0, laplacian=laplacian))
    before, after = _edited(weighted)
    sampler = grf.RandomWalks(6, law, directions=directions, laplacian=laplacian)
    features = grf.sample_features(before, sampler, seed=5)
    updated = features.updated(after)
    require_same(updated, grf.sample_features(after, sampler, seed=5))
    require_same(updated.updated(before), features)  # and back


@pytest.mark.parametrize("n_threads", [1, 3])
def test_only_rows_that_met_the_edit_are_drawn(monkeypatch, n_threads):
    before, after = _edited(True)
    sampler = grf.RandomWalks(4, grf.sampling.IID(0.3))
    drawn_nodes = []
    original = module.sample_rows
    monkeypatch.setattr(
        module, "sample_rows", lambda *a, **k: (drawn_nodes.append(a[1]), original(*a, **k))[1]
    )
    features = grf.sample_features(before, sampler, nodes=np.arange(0, 401, 2), seed=5)
    require_same(
        features.updated(after, n_threads=n_threads),
        grf.sample_features(after, sampler, nodes=np.arange(0, 401, 2), seed=5),
    )
    ends = [0, 1, 3, 77, SIDE**2, 5, 100, 101]
    met = np.diff(features.matrix(grf.Diffusion(1.0))[:, ends].tocsr().indptr) > 0
    np.testing.assert_array_equal(drawn_nodes[0], features.nodes[met])
    assert met.sum() < 100


def test_rows_in_any_order_and_twice_and_those_that_were_taken():
    before, after = _edited(False)
    sampler = grf.RandomWalks(4, grf.sampling.IID(0.3))
    nodes = [77, 3, 399, 3, 0]
    anew = grf.sample_features(after, sampler, nodes=nodes, seed=1)
    require_same(grf.sample_features(before, sampler, nodes=nodes, seed=1).updated(after), anew)
    require_same(grf.sample_features(before, sampler, seed=1).take(nodes).updated(after), anew)


def test_a_graph_without_an_edit_draws_nothing(monkeypatch):
    before, _ = _edited(True)
    features = grf.sample_features(before, grf.RandomWalks(4), seed=1)
    monkeypatch.setattr(module, "sample_rows", None)
    require_same(features.updated(grf.Graph(before.adjacency)), features)
    twice = features.updated(grf.Graph(2.0 * before.adjacency))  # whose walks are the same
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(twice.record, name), getattr(features.record, name))
    np.testing.assert_array_equal(twice.info.degrees[:-1], 2.0 * features.info.degrees[:-1])


def test_weights_that_become_unequal_change_every_row():
    matrix = _adjacency(False)
    before = grf.Graph(matrix.tocsr())
    _edit(matrix, 0, 1, 2.0)
    after = grf.Graph(matrix.tocsr())
    sampler = grf.RandomWalks(4)
    updated = grf.sample_features(before, sampler, seed=1).updated(after)
    require_same(updated, grf.sample_features(after, sampler, seed=1))


@pytest.mark.parametrize(
    "sampler", [None, grf.sampling.ExactPowers(3), grf.sampling.CutPowers(4, 3)], ids=repr
)
def test_powers_are_refused(sampler):
    before, after = _edited(False)
    with pytest.raises(TypeError, match="order of the nodes that depends on the whole graph"):
        grf.sample_features(before, sampler, nodes=[1, 2], seed=1).updated(after)


def test_other_nodes_other_names_and_files_are_refused(tmp_path):
    before, after = _edited(False)
    features = grf.sample_features(before, grf.RandomWalks(2), nodes=[0, 1], seed=1)
    with pytest.raises(ValueError, match="must have the 401 nodes"):
        features.updated(after.subgraph(np.arange(400)))
    with pytest.raises(ValueError, match="must have the same names"):
        features.updated(grf.Graph(after.adjacency, nodes=[f"n{i}" for i in range(401)]))
    with pytest.raises(TypeError, match=r"must be a graphrf\.Graph"):
        features.updated(after.adjacency)
    features.save(tmp_path / "features.npz")
    with pytest.raises(ValueError, match="do not hold their graph"):
        grf.features.load_features(tmp_path / "features.npz").updated(after)
