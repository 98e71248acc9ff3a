"""Graphs, features and couplings come back from files as they were, over generated graphs."""

from __future__ import annotations

import tempfile
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import graphrf as grf
from tests.support.graph_strategies import edge_lists, graphs, seeds, slower

either = st.booleans().flatmap(lambda directed: graphs(directed=directed))
SAMPLERS = [
    grf.RandomWalks(4),
    grf.sampling.ExactPowers(3),
    grf.sampling.CutPowers(3, 4),
    grf.CompressedPowers(3, 4),
]


def same(first, second):
    """Whether two graphs have the same bits."""
    a, b = first.adjacency, second.adjacency
    return (
        first.directed == second.directed
        and a.shape == b.shape
        and all(
            np.array_equal(getattr(a, name), getattr(b, name))
            for name in ("indptr", "indices", "data")
        )
    )


@slower
@given(edge_lists(weighted=False), seeds)
def test_the_order_of_edges_and_of_their_ends_does_not_matter(edges, seed):
    n, src, dst, _ = edges
    # Each pair once: of a pair listed in both directions the larger sum counts (`load_graph`).
    pairs = np.sort(np.column_stack([src, dst]).reshape(-1, 2), axis=1)
    _, first = np.unique(pairs, axis=0, return_index=True)
    src, dst = src[first], dst[first]
    rng = np.random.default_rng(seed)
    # Sums of parallel edges are exact in any order.
    weight = rng.integers(1, 9, src.size).astype(float)
    order = rng.permutation(src.size)
    swap = rng.random(src.size) < 0.5
    one = grf.from_edges(src, dst, weight, n_nodes=n)
    a, b = np.where(swap, dst, src)[order], np.where(swap, src, dst)[order]
    assert same(one, grf.from_edges(a, b, weight[order], n_nodes=n))
    halves = grf.from_edges(
        np.r_[a, a], np.r_[b, b], np.r_[weight[order], weight[order]] / 2, n_nodes=n
    )
    assert same(one, halves)


@slower
@given(either)
def test_a_graph_comes_back_from_its_folder_and_from_a_matrix_bit_for_bit(graph):
    with tempfile.TemporaryDirectory() as place:
        graph.save(Path(place) / "graph")
        assert same(grf.open_graph(Path(place) / "graph"), graph)
        sp.save_npz(Path(place) / "graph.npz", graph.adjacency)
        assert same(grf.load_graph(Path(place) / "graph.npz", directed=graph.directed), graph)
        scipy.io.mmwrite(Path(place) / "graph.mtx", sp.coo_array(graph.adjacency), precision=17)
        assert same(grf.load_graph(Path(place) / "graph.mtx", directed=graph.directed), graph)
    assert same(grf.load_graph(graph.adjacency, directed=graph.directed), graph)
    assert same(grf.load_graph(graph.adjacency.toarray(), directed=graph.directed), graph)


@slower
@given(either, st.sampled_from(["gml", "graphml", "edges"]))
def test_a_graph_comes_back_from_the_files_that_networkx_writes(graph, ending):
    kind = nx.DiGraph if graph.directed else nx.Graph
    made = nx.from_scipy_sparse_array(graph.adjacency, create_using=kind)
    write = {"gml": nx.write_gml, "graphml": nx.write_graphml, "edges": nx.write_weighted_edgelist}[
        ending
    ]
    if ending == "edges" and not made.number_of_edges():
        return  # such a file has no nodes
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / f"graph.{ending}"
        write(made, path)
        found = grf.load_graph(
            path, weight=2 if ending == "edges" else "weight", directed=graph.directed
        )
    if ending == "edges":
        isolated = np.flatnonzero((graph.adjacency + graph.adjacency.T).sum(axis=1) == 0)
        assert found.n_nodes == graph.n_nodes - isolated.size
    else:
        assert found.n_nodes == graph.n_nodes
    names = np.array([int(name) for name in found.nodes])
    rows = sp.coo_array(found.adjacency)
    again = sp.csr_array(
        (rows.data, (names[rows.row], names[rows.col])), shape=graph.adjacency.shape
    )
    assert same(grf.Graph(again, directed=graph.directed), graph)


@slower
@given(graphs(), st.sampled_from(SAMPLERS), seeds)
def test_features_come_back_from_their_file_bit_for_bit(graph, sampler, seed):
    features = grf.sample_features(graph, sampler, seed=seed)
    with tempfile.TemporaryDirectory() as place:
        features.save(Path(place) / "features.npz")
        again = grf.features.load_features(Path(place) / "features.npz")
    f = np.arange(1.0, 6)
    one, other = features.matrix_from_modulation(f), again.matrix_from_modulation(f)
    for name in ("indptr", "indices", "data"):
        assert np.array_equal(getattr(one, name), getattr(other, name))
    assert (again.seed, again.n_steps, again.nnz) == (features.seed, features.n_steps, features.nnz)
    assert again.description == features.description


@slower
@given(
    graphs(),
    st.integers(2, 12),
    st.integers(2, 4),
    st.floats(0.05, 0.9),
    st.sampled_from(["linear", "quadratic", "exhaustive", "projection"]),
)
def test_couplings_are_permutations_no_dearer_than_independent_tiles_and_come_back(
    graph, order, n_walkers, p_halt, solver
):
    if solver != "linear":
        n_walkers, order = 2, min(order, 6)
    coupling = grf.couplings.learn_coupling(
        graph, p_halt=p_halt, order=order, n_walkers=n_walkers, solver=solver
    )
    assert coupling.permutations.shape == (n_walkers - 1, order)
    for permutation in coupling.permutations:
        # Each walker takes each tile of the unit interval
        # once: its own lengths keep their law exactly.
        assert np.array_equal(np.sort(permutation), np.arange(order))
    assert np.isfinite([coupling.cost_before, coupling.cost_after]).all()
    if solver != "projection":  # the best of some candidates
        assert coupling.cost_after <= coupling.cost_before * (1 + 1e-9)
    with tempfile.TemporaryDirectory() as place:
        coupling.save(Path(place) / "coupling.json")
        again = grf.sampling.Coupling.load(Path(place) / "coupling.json")
    assert again == coupling
    assert np.array_equal(again.permutations, coupling.permutations)


@pytest.mark.parametrize("order", [2, 5])
def test_a_file_with_a_permutation_that_is_none_is_refused(order, tmp_path):
    coupling = grf.couplings.learn_coupling(p_halt=0.3, order=order)
    coupling.save(tmp_path / "coupling.json")
    text = (tmp_path / "coupling.json").read_text()
    shown = str(coupling.permutations[0].tolist())
    (tmp_path / "coupling.json").write_text(
        "".join(text.split()).replace("".join(shown.split()), str([0] * order))
    )
    with pytest.raises(ValueError, match="permutation"):
        grf.sampling.Coupling.load(tmp_path / "coupling.json")
