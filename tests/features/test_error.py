"""The error that features state of themselves: measured, and warned about."""

import copy
import functools
import warnings

import networkx as nx
import numpy as np
import pytest

import graphrf as grf
from graphrf.features import FeatureErrorWarning
from tests.support.sequential import assert_rates

KERNELS = [
    grf.Diffusion(1.0),
    grf.Diffusion(3.0),
    grf.Diffusion(8.0),
    grf.Diffusion(12.0),
    grf.Matern(1.5, 3.0),
    grf.RegularizedLaplacian(1.0, 2),
]


def _hubs():
    """A ring whose nodes are tied to three hubs."""
    ring = nx.cycle_graph(150)
    ring.add_edges_from((200 + node % 3, node) for node in range(0, 150, 2))
    return nx.convert_node_labels_to_integers(ring)


GRAPHS = {
    "karate": nx.karate_club_graph(),
    "mesh": nx.triangular_lattice_graph(10, 20),
    "hubs": _hubs(),
}


def _graph(name):
    return grf.Graph(nx.to_scipy_sparse_array(GRAPHS[name], weight=None))


def _error(features, kernel, graph):
    phi = features.matrix_from_modulation(features.info.modulation(kernel)).toarray().astype(float)
    exact = kernel.dense(graph)[np.ix_(features.nodes, features.nodes)]
    return np.linalg.norm(phi @ phi.T - exact) / np.linalg.norm(exact)


@pytest.mark.parametrize("name", GRAPHS)
def test_the_error_is_within_a_quarter_of_the_true_one(name):
    graph = _graph(name)
    features = grf.sample_features(graph, seed=0)
    true = np.array([_error(features, kernel, graph) for kernel in KERNELS])

    def draw(round_, n):
        seeds = range(round_ * 10**6, round_ * 10**6 + n)
        found = np.array(
            [[features.relative_error(kernel, seed=seed) for kernel in KERNELS] for seed in seeds]
        )
        return np.abs(found / true - 1) > 0.25

    assert_rates(draw, np.zeros(len(KERNELS)), np.full(len(KERNELS), 0.01), n0=15)


@pytest.mark.parametrize("nodes", [[3], [5, 5, 7], range(0, 34, 2)])
def test_the_error_over_few_nodes_is_exact(nodes):
    graph = _graph("karate")
    features = grf.sample_features(graph, grf.RandomWalks(4), nodes=list(nodes), seed=0)
    for kernel in KERNELS:
        np.testing.assert_allclose(
            features.relative_error(kernel), _error(features, kernel, graph), rtol=1e-4
        )


def test_the_error_of_a_product_is_that_of_its_rows():
    graph, kernel = _graph("hubs"), grf.Diffusion(3.0)
    sampler = grf.CompressedPowers(16, lengths=grf.sampling.AutoLengths(kernel.root(2)))
    product = grf.sampling.sample_product(graph, sampler, seed=0)
    exact = kernel.dense(graph)
    true = np.linalg.norm(product.gram(kernel) - exact) / np.linalg.norm(exact)
    assert product.relative_error(kernel) == pytest.approx(true, rel=0.25)


def test_the_error_without_a_graph_needs_products(tmp_path):
    graph, kernel = _graph("mesh"), grf.Diffusion(2.0)
    features = grf.sample_features(graph, seed=0)
    features.save(tmp_path / "features.npz")
    alone = grf.features.load_features(tmp_path / "features.npz")
    assert alone.sampler is None
    assert alone.choice is None
    with pytest.raises(
        ValueError,
        match=r"`apply` must be given .*functools.partial\(graphrf.apply_kernel, graph\)",
    ):
        alone.relative_error(kernel)
    with pytest.raises(ValueError, match="`apply` must be given"):
        copy.deepcopy(features).relative_error(kernel)
    given = alone.relative_error(kernel, apply=functools.partial(grf.apply_kernel, graph))
    assert given == features.relative_error(kernel)
    with pytest.raises(ValueError, match="`seed` must be in"):
        features.relative_error(kernel, seed=-1)


@pytest.mark.parametrize("method", ["matrix", "gram"])
def test_long_kernels_are_warned_about_once(method):
    graph, kernel = _graph("hubs"), grf.Diffusion(8.0)
    features = grf.sample_features(graph, seed=0)
    with pytest.warns(FeatureErrorWarning, match="kernel=graphrf.Diffusion") as caught:
        plain = getattr(features, method)(kernel)
    assert [warning.filename for warning in caught if warning.category is FeatureErrorWarning] == [
        __file__
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error", FeatureErrorWarning)
        again = getattr(features, method)(kernel)
        getattr(features, method)(grf.Diffusion(0.5))
    assert (again != plain).sum() == 0
    # A part of the rows is judged by all.
    with pytest.warns(FeatureErrorWarning):
        grf.sample_features(graph, seed=0).gram(kernel, rows=[0, 1])


def test_the_warning_names_a_call_that_works():
    graph, kernel = _graph("hubs"), grf.Diffusion(5.0)
    with pytest.warns(FeatureErrorWarning) as caught:
        grf.sample_features(graph, grf.RandomWalks(4), seed=0).matrix(kernel)
    text = str(caught[0].message)
    call = text[text.index("graphrf.sample_features(") : text.index("error=0.1)")] + "error=0.1)"
    features = eval(call, {"graphrf": grf, "graph": graph})
    assert _error(features, kernel, graph) <= 0.1


def test_what_costs_more_than_its_call_is_left_out(monkeypatch):
    monkeypatch.setattr("graphrf.features.error.FREE", 0.0)
    features = grf.sample_features(_graph("hubs"), seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FeatureErrorWarning)
        warnings.simplefilter("ignore", grf.features.TruncationWarning)
        features.gram(grf.Diffusion(12.0), rows=[0], cols=[0])


def test_training_on_rows_that_were_chosen_knowingly_does_not_warn():
    pytest.importorskip("sklearn")
    graph = _graph("hubs")
    y = np.random.default_rng(0).standard_normal(graph.n_nodes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the graph explains y no better
        warnings.simplefilter("error", FeatureErrorWarning)
        regressor = grf.GraphGPRegressor(
            graph, kernel=grf.Diffusion(8.0), method="features", seed=0, optimize=False
        )
        regressor.fit(np.arange(0, graph.n_nodes, 2), y[::2]).predict()


def _star(leaves):
    return grf.from_edges(np.zeros(leaves, int), np.arange(1, leaves + 1))


def _told(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(w.message) for w in caught if w.category is FeatureErrorWarning]


def test_a_hub_with_a_huge_variance_is_always_told(tmp_path, monkeypatch):
    monkeypatch.setattr("graphrf.features.error.FREE", 0.0)  # nothing is left for products with K
    graph, kernel = _star(3000), grf.Diffusion(2.0)
    own = grf.kernel_block(graph, kernel, [0], [0])[0, 0]
    features = grf.sample_features(graph, seed=0)
    assert features.matrix_from_modulation(kernel.modulation(49)).power(2).sum(axis=1)[0] > 20 * own
    assert not _told(lambda: features.gram(kernel, rows=[5]))
    (text,) = _told(lambda: features.gram(kernel, rows=[0]))
    assert "on the diagonal at node 0, where no entry of K is above 1" in text
    assert not _told(lambda: features.matrix(kernel))  # once for a kernel
    features.save(tmp_path / "features.npz")
    for source in (
        grf.features.load_features(tmp_path / "features.npz"),
        copy.deepcopy(features),
        features.take([7, 0]),
    ):
        assert len(_told(lambda source=source: source.matrix(kernel))) == 1
    assert (
        len(
            _told(
                lambda: grf.sampling.sample_product(graph, grf.RandomWalks(8), seed=0).gram(
                    kernel, rows=[0]
                )
            )
        )
        == 1
    )


def test_a_hub_is_told_to_torch():
    pytest.importorskip("torch")
    gpytorch_kernel = pytest.importorskip("graphrf.gp.torch.kernel").GRFKernel
    kernel = grf.Diffusion(2.0)
    features = grf.sample_features(_star(3000), grf.RandomWalks(8), seed=0)
    assert len(_told(lambda: features.torch(kernel))) == 1
    assert len(_told(lambda: gpytorch_kernel(features, kernel))) == 1


def test_a_hub_that_was_observed_is_told_by_a_gaussian_process():
    pytest.importorskip("sklearn")
    graph, nodes = _star(3000), np.arange(0, 3000, 60)
    sampler = grf.CompressedPowers(16)
    options = {"method": "features", "optimize": False, "kernel": grf.Diffusion(2.0), "seed": 0}
    numerics = grf.gp.Numerics(sampler=sampler)
    regressor = grf.GraphGPRegressor(
        graph, noise=0.1, output_scale=1.0, numerics=numerics, **options
    )
    y = np.random.default_rng(0).standard_normal(nodes.size)
    assert len(_told(lambda: regressor.fit(nodes, y))) == 1
    assert not _told(lambda: regressor.fit(nodes[1:], y[1:]))
    classifier = grf.GraphGPClassifier(graph, sampler=sampler, **options)
    assert len(_told(lambda: classifier.fit(nodes, y > 0))) == 1


def test_a_diagonal_that_is_possible_but_twice_too_large_is_told():
    """|K| is so much larger than one node's error that the norm does not show it."""
    kernel = grf.Diffusion(1.0)
    (text,) = _told(lambda: grf.sample_features(_star(1000), seed=0).matrix(kernel))
    assert "on the diagonal at node 0, where that of K is 0.68" in text


def test_a_bias_of_a_fiftieth_is_warned_about():
    features = grf.sample_features(_graph("karate"), seed=0)
    for kernel in (grf.RegularizedLaplacian(5.0, 1), grf.Matern(0.5, 5.0)):
        with pytest.warns(grf.features.TruncationWarning, match="powers up to 48"):
            features.matrix(kernel)
