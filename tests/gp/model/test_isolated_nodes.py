"""Nodes without an edge, whose prior standard deviation is far above that of others, are named."""

import re
import warnings

import networkx as nx
import numpy as np
import pytest

import graphrf as grf
from graphrf.gp import LatentGaussianModel, Nodes
from graphrf.gp.model.notices import warn_of_free_nodes
from graphrf.graph.notices import nodes_without_edges

pandas = pytest.importorskip("pandas")
pytest.importorskip("formulaic")

GRID = nx.convert_node_labels_to_integers(nx.grid_2d_graph(12, 12))
SEEN = np.arange(0, 144, 2)
Y = np.sin(np.arange(144) // 12 / 4)[SEEN]
Y = Y + 0.1 * np.random.default_rng(0).standard_normal(72)


def with_isolated():
    graph = GRID.copy()
    graph.add_nodes_from(range(144, 148))
    graph.add_edge(147, 147)  # a self-loop joins no other node
    return grf.load_graph(graph)


@pytest.mark.parametrize("laplacian", ["normalized", "combinatorial"])
@pytest.mark.parametrize("method", ["series", "precision", "features"])
def test_the_stated_factor_is_that_of_prior_deviations(method, laplacian):
    graph = with_isolated()
    gp = grf.GraphGPRegressor(
        graph,
        kernel=grf.Matern(nu=1.0, lengthscale=3.0, laplacian=laplacian),
        method=method,
        optimize=False,
        output_scale=1.0,
        noise=0.1,
        mean="zero",
        seed=0,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gp.fit(SEEN, Y)
    texts = [str(each.message) for each in caught if "without an edge" in str(each.message)]
    (text,) = texts
    assert text.startswith("4 nodes without an edge (144, 145, 146, ...) have")
    stated = float(re.search(r"deviation (\S+) times", text).group(1))
    alone = gp.predict([144, 147], return_std=True)[1]  # of which nothing is learned
    others = np.sqrt(np.diag(gp.prior_covariance())[:144].mean())
    np.testing.assert_allclose(alone / others, stated, rtol=0.02)

    kept = graph.subgraph(
        graph.positions(np.flatnonzero(graph.degrees > graph.adjacency.diagonal()))
    )
    assert kept.n_nodes == 144
    assert gp.set_params(graph=kept).fit(SEEN, Y).converged_ is not None


def test_terms_name_them_too():
    frame = pandas.DataFrame({"node": SEEN, "y": Y})
    kernel = grf.Matern(nu=1.0, lengthscale=5.0)
    term = Nodes(with_isolated(), kernel, fixed=("lengthscale",))
    model = LatentGaussianModel("y ~ 1", term, hyperparameters="mode", seed=0)
    with pytest.warns(UserWarning, match="4 nodes without an edge") as caught:
        model.fit(frame)
    (text,) = (str(each.message) for each in caught if "without an edge" in str(each.message))
    stated = float(re.search(r"deviation (\S+) times", text).group(1))
    variances = np.diag(kernel.dense(term.graph))
    assert stated == pytest.approx(np.sqrt(variances[144] / variances[:144].mean()), rel=1e-2)


def test_nothing_is_computed_or_said_where_every_node_has_an_edge():
    def never():
        raise AssertionError

    graph = grf.load_graph(GRID)
    alone = nodes_without_edges(graph)
    assert alone.size == 0
    warn_of_free_nodes(graph, alone, grf.Matern(nu=1.0, lengthscale=5.0), never)
    graph = with_isolated()
    warn_of_free_nodes(graph, nodes_without_edges(graph), grf.ICAR(), never)


def test_short_lengthscales_are_no_reason():
    graph, kernel = with_isolated(), grf.Matern(nu=1.0, lengthscale=1.0)

    def notice():
        mean = float(np.diag(kernel.dense(graph)).mean())
        warn_of_free_nodes(graph, nodes_without_edges(graph), kernel, lambda: mean)

    notice()
    kernel = kernel.replace(lengthscale=5.0)
    with pytest.warns(UserWarning, match="4 nodes without an edge"):
        notice()
