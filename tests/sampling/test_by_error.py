"""Features that are asked for an error: what is chosen keeps it, and what cannot be is refused."""

import networkx as nx
import numpy as np
import pytest

import graphrf as grf
from graphrf.sampling.by_error import ChoiceCosts, ErrorChoice, _Pilot, features_with_error
from tests.features.test_error import _error


def _graph(name):
    made = {
        "social": lambda: nx.barabasi_albert_graph(200, 5, seed=1),
        "mesh": lambda: nx.triangular_lattice_graph(8, 20),
    }[name]()
    return grf.Graph(nx.to_scipy_sparse_array(made, weight=None))


@pytest.mark.parametrize("error", [0.3, 0.05])
@pytest.mark.parametrize(
    "kernel", [grf.Diffusion(4.0), grf.RegularizedLaplacian(0.2, 2, laplacian="combinatorial")]
)
@pytest.mark.parametrize("name", ["social", "mesh"])
def test_the_error_is_kept(name, kernel, error):
    graph = _graph(name)
    features = grf.sample_features(graph, kernel=kernel, error=error, seed=3)
    choice = features.choice
    assert isinstance(choice, ErrorChoice)
    assert choice.sampler == features.sampler
    assert choice.error == error
    assert choice.measured <= error
    assert choice.predicted <= error
    assert choice.nonzeros == features.nnz / graph.n_nodes
    assert choice.measured == features.relative_error(kernel)
    assert _error(features, kernel, graph) <= 1.1 * error
    again = grf.sample_features(graph, features.sampler, seed=3)
    assert _error(again, kernel, graph) == _error(features, kernel, graph)
    features.matrix(kernel)  # without a warning


def test_the_error_is_that_of_the_nodes_asked_for():
    graph, kernel = _graph("social"), grf.Diffusion(3.0)
    features = grf.sample_features(
        graph, kernel=kernel, error=0.1, nodes=[5, 3, 5, 150, 11], seed=0
    )
    assert features.nodes.tolist() == [5, 3, 5, 150, 11]
    assert _error(features, kernel, graph) <= 0.1


@pytest.mark.parametrize(
    "sampler",
    [
        grf.sampling.CutPowers(20, 8),
        grf.sampling.ExactPowers(3),
        grf.CompressedPowers(16, 12),
        grf.RandomWalks(16, grf.sampling.Truncated(12)),
    ],
)
@pytest.mark.parametrize("rows", [100, 200])
def test_few_rows_predict_the_error(sampler, rows):
    """Of what is drawn the mean of 20 errors, which spread by some per cent, is compared."""
    graph, kernel = _graph("social"), grf.Diffusion(3.0)
    pilot = _Pilot(graph, kernel, np.arange(graph.n_nodes), 1e-6, ChoiceCosts(rows=rows))
    predicted = pilot.judged(sampler)
    drawn = [grf.sample_features(graph, sampler, seed=seed) for seed in range(20)]
    true = float(np.mean([_error(features, kernel, graph) for features in drawn]))
    assert predicted.error == pytest.approx(true, rel=0.15 if rows == 200 else 0.4)
    assert predicted.nonzeros == pytest.approx(
        drawn[0].nnz / graph.n_nodes, rel=0.02 if rows == 200 else 0.2
    )


def test_what_no_rows_reach_is_refused():
    graph, kernel = _graph("social"), grf.Diffusion(8.0)
    few = ChoiceCosts(most_nonzeros=20)

    def draw(sampler):
        return grf.sample_features(graph, sampler, seed=0)

    with pytest.raises(
        ValueError, match=r"`error` must be larger for Diffusion.*got 0.01.*graphrf.apply_kernel"
    ):
        features_with_error(draw, graph, kernel, np.arange(graph.n_nodes), 0.01, few)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"error": 0.0}, r"`error` must be in \(0, 1\], got 0"),
        ({"error": 1.5}, r"`error` must be in \(0, 1\], got 1.5"),
        ({"error": float("nan")}, "`error` must be finite"),
        ({"error": 0.1, "kernel": None}, "`kernel` must be given with `error`"),
        (
            {"error": 0.1, "sampler": grf.RandomWalks(4)},
            "`error` and `sampler` must not both be given",
        ),
        ({"error": 0.1, "path": "folder"}, "`path` must be None with `error`"),
        ({}, "`error` must be given with `kernel`"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        grf.sample_features(_graph("mesh"), **{"kernel": grf.Diffusion(1.0), **arguments})
