"""Transforms for PyTorch Geometric: against dense kernels, GDC and AddRandomWalkPE."""

from __future__ import annotations

import pickle
from functools import partial

import numpy as np
import pytest

import graphrf as grf
from graphrf.graph.graph import Graph
from graphrf.pyg import operators, returns
from tests.statistics.grid import copies
from tests.support.sequential import assert_unbiased

torch = pytest.importorskip("torch", reason="transforms need the extra `pyg`")
pytest.importorskip("torch_geometric", reason="transforms need the extra `pyg`")

import torch_geometric.transforms as pyg  # noqa: E402
from torch_geometric.data import Batch, Data, HeteroData  # noqa: E402
from torch_geometric.loader import DataLoader  # noqa: E402
from torch_geometric.utils import to_dense_adj  # noqa: E402

from graphrf.pyg import (  # noqa: E402
    AddRandomFeatures,
    AddReturnProbabilities,
    GRFDiffusion,
    PersonalizedPageRank,
    diffusion,
    encodings,
)

HEAT = grf.Diffusion(2.0)
TRANSFORMS = [
    GRFDiffusion(HEAT, k=3, seed=1),
    GRFDiffusion(HEAT, k=3, normalization="row", seed=1),
    PersonalizedPageRank(3),
    PersonalizedPageRank(3, normalization="sym"),
    AddRandomFeatures(HEAT, dim=5, seed=1),
    AddRandomFeatures(HEAT, dim=5, sampler=grf.RandomWalks(4), seed=1),
    AddReturnProbabilities(6, budget=2, seed=1),
]
REPLACING = GRFDiffusion | PersonalizedPageRank
every_transform = pytest.mark.parametrize("transform", TRANSFORMS, ids=lambda t: repr(t)[:40])


def as_data(graph: Graph, **attributes) -> Data:
    """The same graph as PyTorch Geometric holds it."""
    edges = graph.adjacency.tocoo()
    return Data(
        edge_index=torch.from_numpy(np.stack([edges.row, edges.col]).astype(np.int64)),
        edge_weight=torch.tensor(edges.data),
        num_nodes=graph.n_nodes,
        **attributes,
    )


def operator(data: Data, name: str | None = None) -> np.ndarray:
    """The matrix whose row i holds the weights of the edges into i."""
    index, weight = (
        (data.edge_index, data.edge_weight)
        if name is None
        else (data[f"{name}_index"], data[f"{name}_weight"])
    )
    matrix = np.zeros((data.num_nodes, data.num_nodes))
    matrix[index[1], index[0]] = weight
    return matrix


def dense_cut(matrix: np.ndarray, k: int) -> np.ndarray:
    """The k largest entries of every row."""
    order = np.argsort(-matrix, axis=1, kind="stable")[:, :k]
    cut = np.zeros_like(matrix)
    np.put_along_axis(cut, order, np.take_along_axis(matrix, order, axis=1), axis=1)
    return cut


def walk_form(graph: Graph, kernel: grf.kernels.Kernel) -> np.ndarray:
    """D^-1/2 K D^1/2."""
    root = np.sqrt(graph.walk_degrees)
    return kernel.dense(graph) * root / root[:, None]


def dense_returns(graph: Graph, length: int) -> np.ndarray:
    step = graph.adjacency.toarray() / np.maximum(graph.degrees, 1e-300)[:, None]
    return np.stack(
        [np.diag(np.linalg.matrix_power(step, k)) for k in range(1, length + 1)], axis=1
    )


@pytest.fixture(scope="module")
def club(karate) -> Graph:
    """The karate club with weights of its edges, so that no two entries of a kernel are equal."""
    upper = np.triu(karate.adjacency.toarray()) * np.random.default_rng(0).uniform(
        0.5, 2.0, (34, 34)
    )
    return Graph(upper + upper.T)


# -- data ------------------------------------------------------------------------------------------


def test_data_of_pytorch_geometric_become_graphs(weighted_graph):
    data = as_data(weighted_graph, x=torch.ones(8, 2))
    graph = grf.load_graph(data, weight="edge_weight")
    np.testing.assert_array_equal(graph.adjacency.toarray(), weighted_graph.adjacency.toarray())
    assert not graph.directed
    assert not grf.load_graph(data, weight=False).is_weighted
    one_way = Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=4)
    with pytest.raises(ValueError, match="both directions"):
        grf.load_graph(one_way)
    assert grf.load_graph(one_way, directed=True).n_nodes == 4
    data.edge_weight.requires_grad_()
    assert grf.load_graph(data, weight="edge_weight").n_edges == weighted_graph.n_edges
    assert grf.load_graph(pyg.ToUndirected()(one_way)).n_edges == 2


def test_a_light_edge_without_its_reverse_is_no_rounding_of_a_heavy_one():
    light_one_way = Data(
        edge_index=torch.tensor([[0, 1, 1], [1, 0, 2]]),
        edge_weight=torch.tensor([1e9, 1e9, 1.0], dtype=torch.float64),
        num_nodes=3,
    )
    with pytest.raises(ValueError, match="both directions"):
        AddReturnProbabilities(4, seed=0)(light_one_way)


@every_transform
@pytest.mark.parametrize("n_nodes", [0, 1, 3])
def test_graphs_without_edges_or_nodes_are_legal(transform, n_nodes):
    data = Data(
        edge_index=torch.zeros(2, 0, dtype=torch.int64), num_nodes=n_nodes, x=torch.ones(n_nodes, 1)
    )
    out = transform(data)
    assert out.num_nodes == n_nodes
    assert out.edge_index.shape[0] == 2
    if isinstance(transform, REPLACING):
        # A loop at an isolated node.
        np.testing.assert_allclose(operator(out), np.eye(n_nodes), atol=2e-3)
    if isinstance(transform, AddReturnProbabilities):
        assert out.return_probabilities.shape == (n_nodes, 6)
        assert (out.return_probabilities == 0).all()


@every_transform
def test_nothing_is_lost_and_the_input_is_left_alone(transform, weighted_graph):
    data = as_data(
        weighted_graph,
        x=torch.ones(8, 2),
        y=torch.arange(8),
        train_mask=torch.ones(8, dtype=torch.bool),
    )
    data.name = "eight"
    before = {
        key: (value.clone() if torch.is_tensor(value) else value)
        for key, value in data.to_dict().items()
    }
    out = transform(data)
    assert set(out.keys()) >= set(before)
    for key, value in before.items():
        assert (
            data[key] is value or torch.equal(data[key], value)
            if torch.is_tensor(value)
            else data[key] == value
        )
        if not key.startswith("edge"):
            assert torch.equal(out[key], value) if torch.is_tensor(value) else out[key] == value
    assert all(
        value.device == data.edge_index.device
        for value in out.to_dict().values()
        if torch.is_tensor(value)
    )


@every_transform
def test_the_same_seed_gives_the_same_bits_after_pickling_and_in_compose(transform, weighted_graph):
    data = as_data(weighted_graph)
    expected = transform(data)
    copy = pickle.loads(pickle.dumps(transform))
    assert copy == transform
    for other in (copy, pyg.Compose([transform])):
        found = other(data)
        assert found.keys() == expected.keys()
        for key, value in expected.to_dict().items():
            assert not torch.is_tensor(value) or torch.equal(found[key], value)
    batch = next(iter(DataLoader([transform(data), transform(data)], batch_size=2)))
    assert batch.num_nodes == 16
    assert repr(transform).startswith(f"{type(transform).__name__}(")


@every_transform
def test_blocks_of_nodes_do_not_change_the_bits(transform, weighted_graph, monkeypatch):
    data = as_data(weighted_graph)
    expected = transform(data).to_dict()
    for module, name in (
        (diffusion, "kernel_diffusion"),
        (diffusion, "pagerank_diffusion"),
        (encodings, "return_probabilities"),
    ):
        monkeypatch.setattr(module, name, partial(getattr(module, name), block=3))
    found = transform(data)
    assert all(
        not torch.is_tensor(value) or torch.equal(found[key], value)
        for key, value in expected.items()
    )


def test_a_seed_is_drawn_once_and_another_seed_gives_another_sample(karate):
    data = as_data(karate)
    drawn = AddReturnProbabilities(6, budget=4)
    assert torch.equal(drawn(data).return_probabilities, drawn(data).return_probabilities)
    zero, one = (
        AddReturnProbabilities(6, budget=4, seed=seed)(data).return_probabilities for seed in (0, 1)
    )
    assert not torch.equal(zero, one)
    left, right = (
        AddRandomFeatures(HEAT, dim=4, seed=seed)(data).random_features for seed in (0, 1)
    )
    assert not torch.equal(left, right)


@every_transform
def test_weights_are_read_by_their_name(transform, weighted_graph, plain_graph):
    named = as_data(weighted_graph)
    named.length, named.edge_weight = named.edge_weight, None
    plain = as_data(plain_graph)
    unweighted = Data(edge_index=plain.edge_index, num_nodes=8)

    def result(data, **settings):
        changed = type(transform)(**{**vars(transform), **settings})
        out = changed(data)
        if settings.get("weight") == "length" and isinstance(transform, REPLACING):
            key = "length"
        else:
            key = "edge_weight"
        return out[key] if isinstance(transform, REPLACING) else out[transform.attr_name]

    by_name = result(named, weight="length")
    assert torch.equal(by_name, result(as_data(weighted_graph)))
    assert torch.equal(result(plain), result(unweighted))
    assert torch.equal(result(plain), result(as_data(weighted_graph), weight=None))
    assert by_name.shape != result(plain).shape or not torch.equal(by_name, result(plain))
    with pytest.raises(
        ValueError, match="`weight` must be an attribute of the data, which have no 'width'"
    ):
        result(named, weight="width")


# PyTorch Geometric says so, too.
@pytest.mark.filterwarnings("ignore:Unable to accurately infer 'num_nodes'")
@every_transform
def test_what_is_no_undirected_homogeneous_graph_is_refused(transform):
    with pytest.raises(TypeError, match=r"homogeneous, got HeteroData; data.to_homogeneous\(\)"):
        transform(HeteroData())
    with pytest.raises(TypeError, match=r"`data` must be a torch_geometric.data.Data, got"):
        transform(torch.ones(2, 3))
    if not (isinstance(transform, PersonalizedPageRank) and transform.normalization == "row"):
        with pytest.raises(ValueError, match=r"both directions with one weight.*ToUndirected"):
            transform(Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3))
    with pytest.raises(ValueError, match="`data` must have an `edge_index`"):
        transform(Data(x=torch.ones(3, 1)))
    with pytest.raises(ValueError, match="how many nodes"):
        transform(Data())


def test_bad_arguments_are_refused_with_their_names():
    with pytest.raises(TypeError, match="`kernel`"):
        GRFDiffusion("heat")
    with pytest.raises(
        ValueError, match="`normalization` must be one of 'sym', 'row', 'none', got 'col'"
    ):
        GRFDiffusion(HEAT, normalization="col")
    with pytest.raises(ValueError, match=r"`p_halt` must be in \(0, 1\), got 1"):
        PersonalizedPageRank(p_halt=1.0)
    with pytest.raises(ValueError, match="`max_residual` must be greater than 0"):
        PersonalizedPageRank(max_residual=0)
    with pytest.raises(TypeError, match="`sampler` must be a sampler"):
        AddRandomFeatures(HEAT, sampler=grf.RandomWalks)
    with pytest.raises(ValueError, match="`walk_length` must be in"):
        AddReturnProbabilities(0)
    with pytest.raises(
        TypeError, match="`attr_name` must be the name of an attribute or None, got"
    ):
        AddReturnProbabilities(4, attr_name=3)


# -- diffusion -------------------------------------------------------------------------------------


@pytest.mark.parametrize("laplacian", ["normalized", "combinatorial"])
def test_exact_powers_give_the_largest_entries_of_the_kernel(weighted_graph, laplacian):
    kernel = grf.Diffusion(1.0, laplacian=laplacian)
    sampler = grf.sampling.ExactPowers(60, laplacian=laplacian)
    for k in (2, 8):
        transform = GRFDiffusion(kernel, k=k, sampler=sampler, normalization="none")
        found = operator(transform(as_data(weighted_graph)))
        np.testing.assert_allclose(found, dense_cut(kernel.dense(weighted_graph), k), atol=1e-6)


@pytest.mark.parametrize("laplacian", ["normalized", "combinatorial"])
def test_rows_are_the_largest_entries_of_the_random_walk_form_and_sum_to_one(
    weighted_graph, laplacian
):
    kernel = grf.RegularizedLaplacian(1.5, 1, laplacian=laplacian)
    if laplacian == "normalized":
        form = walk_form(weighted_graph, kernel)
    else:
        form = kernel.dense(weighted_graph)
    np.testing.assert_allclose(form.sum(axis=1), 1.0)
    sampler = grf.sampling.ExactPowers(400, laplacian=laplacian)
    out = GRFDiffusion(kernel, k=3, sampler=sampler, normalization="row")(as_data(weighted_graph))
    cut = dense_cut(form, 3)
    np.testing.assert_allclose(operator(out), cut / cut.sum(axis=1, keepdims=True), atol=1e-6)
    assert out.is_coalesced()


def test_sym_is_symmetric_and_keeps_what_either_row_keeps(club):
    out = GRFDiffusion(HEAT, k=4, sampler=grf.sampling.ExactPowers(60))(as_data(club))
    exact = HEAT.dense(club)
    kept = dense_cut(exact, 4) > 0
    expected = np.where(kept | kept.T, exact, 0.0)
    degrees = expected.sum(axis=1)
    found = operator(out)
    np.testing.assert_allclose(found, expected / np.sqrt(np.outer(degrees, degrees)), atol=1e-6)
    assert abs(np.linalg.eigvalsh(found)).max() <= 1 + 1e-6
    assert out.is_undirected()


@pytest.mark.parametrize(
    ("kernel", "method"),
    [
        (grf.RegularizedLaplacian((0.85 / 0.15) ** 0.5, 1), {"method": "ppr", "alpha": 0.15}),
        (grf.Diffusion(10**0.5), {"method": "heat", "t": 5.0}),
    ],
)
def test_it_is_what_gdc_computes_by_dense_matrices(club, kernel, method):
    data = as_data(club)
    data.edge_attr = data.edge_weight.float()  # where GDC looks
    gdc = pyg.GDC(
        normalization_in="row",
        normalization_out="row",
        diffusion_kwargs=method,
        sparsification_kwargs={"method": "topk", "k": 3, "dim": 1},
    )
    by_gdc = gdc(data)
    expected = to_dense_adj(by_gdc.edge_index, edge_attr=by_gdc.edge_attr)[0].numpy()
    ours = GRFDiffusion(kernel, k=3, sampler=grf.sampling.ExactPowers(120), normalization="row")
    np.testing.assert_allclose(
        operator(pyg.Compose([pyg.AddSelfLoops(), ours])(data)), expected, atol=1e-6
    )


def test_the_default_is_near_the_exact_operator_and_isolated_nodes_have_loops(club):
    alone = Graph(np.pad(club.adjacency.toarray(), (0, 2)))
    found = operator(GRFDiffusion(HEAT, k=34, normalization="row", seed=0)(as_data(alone)))
    exact = walk_form(alone, HEAT)
    assert np.abs(found - exact).sum(axis=1).mean() < 0.1  # of rows that sum to 1
    np.testing.assert_allclose(found[34:], np.eye(36)[34:], atol=1e-6)


def rows_projected(graph: Graph, kernel: grf.kernels.Kernel, u: np.ndarray, v: np.ndarray):
    """Draws of u^T M v, M by compressed powers, as kernel_diffusion without a cut."""
    sampler = grf.CompressedPowers(2, max_length=12)

    def draw(index: int, n: int) -> np.ndarray:
        matrix = operators.kernel_diffusion(
            copies(graph, n), kernel, graph.n_nodes, sampler, "none", index
        )
        products = (np.tile(u, n) @ matrix) * np.tile(v, n)
        return products.reshape(len(u), n, graph.n_nodes).sum(axis=2).T

    return draw


def test_rows_of_the_diffusion_are_unbiased(club):
    kernel = grf.Diffusion(1.0)
    root = np.sqrt(club.walk_degrees)
    leading = np.linalg.eigh(club.walk_matrix().toarray())[1][:, -4:].T
    u, v = np.vstack([1 / root, root, leading]), np.vstack([root, root, leading])
    exact = kernel.dense(club)
    truth = np.einsum("pi,ij,pj->p", u, exact, v)
    # The series of twelve steps lacks 1e-12. A kernel 5 % longer must be found.
    assert_unbiased(rows_projected(club, kernel, u, v), truth, n0=300)
    with pytest.raises(AssertionError, match="biased"):
        assert_unbiased(rows_projected(club, grf.Diffusion(1.05), u, v), truth, n0=300)


def test_edges_that_are_replaced_must_not_leave_attributes_behind(karate):
    data = as_data(karate, edge_attr=torch.ones(karate.adjacency.nnz, 2))
    with pytest.raises(
        ValueError, match="attributes of the edges that are to be replaced, got edge_attr"
    ):
        GRFDiffusion(HEAT, k=4)(data)
    beside = GRFDiffusion(HEAT, k=4, attr_name="heat", seed=0)(data)
    assert torch.equal(beside.edge_index, data.edge_index)
    assert torch.equal(beside.edge_attr, data.edge_attr)
    del data.edge_attr
    replaced = GRFDiffusion(HEAT, k=4, seed=0)(data)
    np.testing.assert_array_equal(operator(replaced), operator(beside, "heat"))
    pair = Batch.from_data_list([beside, beside])
    assert int(pair.heat_index.max()) == 2 * 34 - 1


@pytest.mark.parametrize("name", ["e_id", "edge_type"])
@pytest.mark.parametrize(
    "transform", [GRFDiffusion(HEAT, k=4, seed=0), PersonalizedPageRank(4)], ids=["heat", "ppr"]
)
def test_what_pytorch_geometric_keeps_of_old_edges_goes_with_them(karate, transform, name):
    plain = transform(as_data(karate))
    found = transform(as_data(karate, **{name: torch.arange(karate.adjacency.nnz)}))
    assert found.keys() == plain.keys()
    assert torch.equal(found.edge_index, plain.edge_index)
    beside = type(transform)(**{**vars(transform), "attr_name": "beside"})
    assert name in beside(as_data(karate, **{name: torch.arange(karate.adjacency.nnz)}))


def test_signed_series_are_kept_by_size_and_never_divided_by_their_sums(club):
    kernel = grf.kernels.InverseCosine()
    with pytest.raises(ValueError, match="`normalization` must be 'none' for InverseCosine"):
        GRFDiffusion(kernel)(as_data(club))
    out = GRFDiffusion(kernel, k=5, sampler=grf.sampling.ExactPowers(30), normalization="none")(
        as_data(club)
    )
    exact = kernel.dense(club)
    assert (exact < -1e-6).any()
    expected = np.sign(exact) * dense_cut(np.abs(exact), 5)
    np.testing.assert_allclose(operator(out), expected, atol=1e-6)


def test_samplers_that_do_not_suit_the_kernel_are_told(karate):
    data = as_data(karate)
    with pytest.warns(grf.features.TruncationWarning, match="ends after 2 steps"):
        GRFDiffusion(grf.Diffusion(3.0), sampler=grf.sampling.ExactPowers(2))(data)
    with pytest.warns(grf.features.HeavyTailWarning, match="too early"):
        GRFDiffusion(
            grf.Diffusion(3.0), sampler=grf.RandomWalks(8, grf.sampling.Stratified(0.5)), seed=0
        )(data)
    # of the 8,000 terms that are read less is beyond the 1,000th
    with pytest.warns(
        grf.features.TruncationWarning, match=r"ends after 1000 steps, where 0\.94 of"
    ):
        GRFDiffusion(grf.RegularizedLaplacian(50.0), k=4)(data)
    for kernel in (grf.Diffusion(200.0), grf.RegularizedLaplacian(500.0)):
        with pytest.raises(
            ValueError, match=r"of whose series (1|0\.99\d+) is left where the sampler ends"
        ):
            GRFDiffusion(kernel, k=4)(data)
    with pytest.raises(ValueError, match="`sampler` must walk for the combinatorial Laplacian"):
        GRFDiffusion(
            grf.Diffusion(1.0, laplacian="combinatorial"), sampler=grf.sampling.ExactPowers(9)
        )(data)


# -- personalised PageRank -------------------------------------------------------------------------


def dense_pagerank(graph: Graph, p_halt: float) -> np.ndarray:
    """Row i: where walks from i halt; nodes without edges send them back to i."""
    n = graph.n_nodes
    step = graph.adjacency.toarray() / np.where(graph.degrees > 0, graph.degrees, 1.0)[:, None]
    rows = []
    for i in range(n):
        closed = step.copy()
        closed[graph.degrees == 0, i] = 1.0
        rows.append(p_halt * np.linalg.inv(np.eye(n) - (1 - p_halt) * closed)[i])
    return np.array(rows)


def test_small_residuals_give_the_largest_scores_of_personalised_pagerank(weighted_graph, club):
    for graph in (weighted_graph, club):
        exact = dense_pagerank(graph, 0.2)
        settings = {"k": 4, "p_halt": 0.2, "max_residual": 1e-10}
        data = as_data(graph)
        found = operator(PersonalizedPageRank(**settings, normalization="none")(data))
        cut = dense_cut(exact, 4)
        np.testing.assert_allclose(found, cut, atol=1e-6)
        found = operator(PersonalizedPageRank(**settings)(data))
        np.testing.assert_allclose(found, cut / cut.sum(axis=1, keepdims=True), atol=1e-6)


def test_symmetric_pagerank_is_a_diffusion_of_the_regularized_laplacian(club):
    data = as_data(club)
    pushed = PersonalizedPageRank(34, max_residual=1e-10, normalization="sym")(data)
    kernel = grf.RegularizedLaplacian((0.85 / 0.15) ** 0.5, 1)
    by_kernel = GRFDiffusion(kernel, k=34, sampler=grf.sampling.ExactPowers(120))(data)
    np.testing.assert_allclose(operator(pushed), operator(by_kernel), atol=1e-6)


def test_walks_follow_the_direction_of_edges(weighted_graph):
    data = Data(edge_index=torch.tensor([[0, 1, 2, 2], [1, 2, 0, 3]]), num_nodes=5)
    graph = grf.load_graph(data, directed=True)
    out = PersonalizedPageRank(5, max_residual=1e-12, normalization="none")(data)
    np.testing.assert_allclose(operator(out), dense_pagerank(graph, 0.15), atol=1e-6)
    assert operator(out)[0, 3] > 0  # 0 reaches 3 and gathers from it
    assert operator(out)[3, 0] == 0


# -- random features -------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", [None, grf.sampling.ExactPowers(40)])
def test_inner_products_of_random_features_are_the_kernel_within_the_stated_error(karate, sampler):
    dim = 4_000
    x = (
        AddRandomFeatures(HEAT, dim=dim, sampler=sampler, seed=0)(as_data(karate))
        .random_features.double()
        .numpy()
    )
    exact = HEAT.dense(karate)
    deviation = np.sqrt((np.outer(np.diag(exact), np.diag(exact)) + exact**2) / dim)
    error = np.abs(x @ x.T - exact) / deviation
    assert error.max() < 5
    assert error.std() > 0.1  # the stated deviation is not far too large either


def test_random_features_are_the_root_times_signs(weighted_graph):
    x = (
        AddRandomFeatures(HEAT, dim=33, seed=3)(as_data(weighted_graph))
        .random_features.double()
        .numpy()
    )
    signs = np.linalg.solve(HEAT.dense_root(weighted_graph), x) * 33**0.5
    np.testing.assert_allclose(np.abs(signs), 1.0, atol=1e-3)
    assert abs(signs.mean()) < 5 / signs.size**0.5


@pytest.mark.parametrize(
    "transform",
    [
        AddRandomFeatures(HEAT, 3, attr_name=None, seed=0),
        AddReturnProbabilities(3, attr_name=None, seed=0),
    ],
)
def test_without_a_name_features_are_appended_to_x(transform, karate):
    named = type(transform)(**{**vars(transform), "attr_name": "z"})
    data = as_data(karate)
    z = named(data).z
    assert torch.equal(transform(data).x, z)
    data.x = torch.arange(34, dtype=torch.float64)
    x = transform(data).x
    assert x.dtype == torch.float64
    assert torch.equal(x, torch.cat([data.x[:, None], z.double()], dim=1))
    data.x = torch.arange(34)
    assert torch.equal(transform(data).x, torch.cat([torch.arange(34.0)[:, None], z], dim=1))


# -- return probabilities --------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 2, 7, 10])
def test_return_probabilities_are_those_of_pytorch_geometric_where_nothing_is_compressed(
    plain_graph, karate, length
):
    for graph in (plain_graph, karate):
        data = as_data(graph)
        data.edge_weight = None
        expected = pyg.AddRandomWalkPE(length)(data).random_walk_pe
        found = AddReturnProbabilities(length, budget=200)(data).return_probabilities
        assert found.dtype == torch.float32
        assert found.shape == expected.shape
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)


def test_return_probabilities_follow_weights(weighted_graph):
    found = AddReturnProbabilities(9, budget=100)(as_data(weighted_graph)).return_probabilities
    np.testing.assert_allclose(found, dense_returns(weighted_graph, 9), atol=1e-6)


def test_return_probabilities_that_do_not_fit_are_refused(karate, monkeypatch):
    sampler = grf.CompressedPowers(4, max_length=100)  # a block of whose nodes has 26 MB
    returns.return_probabilities(karate, 8, sampler, (0, 1))  # the walk matrix is there
    monkeypatch.setattr("graphrf._base.memory.available_memory", lambda: 1_000)
    with pytest.raises(
        MemoryError, match=r"return probabilities of 34 nodes .*lower walk_length or budget"
    ):
        returns.return_probabilities(karate, 8, sampler, (0, 1))


def test_return_probabilities_are_unbiased_and_one_record_used_twice_is_not(karate):
    sampler = grf.CompressedPowers(4, max_length=4)
    truth = dense_returns(karate, 8).mean(axis=0)[1:]  # the first is 0

    def draw(index: int, n: int, twice: bool = False) -> np.ndarray:
        seeds = (2 * index, 2 * index + (not twice))
        found = returns.return_probabilities(copies(karate, n), 8, sampler, seeds)
        return found.reshape(n, karate.n_nodes, 8).mean(axis=1)[:, 1:]

    assert_unbiased(draw, truth, n0=400)
    with pytest.raises(AssertionError, match="biased"):
        assert_unbiased(lambda index, n: draw(index, n, True), truth, n0=400)
