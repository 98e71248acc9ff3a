"""The networkx backend: what networkx returns, and when it is chosen."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from graphrf.graph.loaders import load_graph
from graphrf.pagerank import networkx_backend as backend

TIGHT = {"tol": 1e-13, "max_iter": 2000}


def named_digraph() -> nx.DiGraph:
    """Directed, weighted, out of order, with a self-loop, dangling and isolated nodes."""
    graph = nx.DiGraph()
    graph.add_nodes_from(["z", "m", ("a", 1), 7, "lonely"])
    graph.add_weighted_edges_from(
        [
            ("z", "m", 2.0),
            ("z", 7, 1.0),
            ("m", ("a", 1), 1.0),
            ("m", "m", 0.5),
            (7, "z", 3.0),
            (7, ("a", 1), 0.25),
        ]
    )
    graph.add_edge("z", ("a", 1))  # without a weight
    return graph


def parallel_edges(kind: Any) -> Any:
    graph = kind(named_digraph())
    graph.add_edge("z", "m", weight=4.0)
    graph.add_edge("z", "m")
    graph.add_edge("m", "m", weight=1.5)
    return graph


GRAPHS: dict[str, Callable[[], Any]] = {
    "directed": named_digraph,
    "undirected": lambda: nx.Graph(named_digraph()),
    "multidigraph": lambda: parallel_edges(nx.MultiDiGraph),
    "multigraph": lambda: parallel_edges(nx.MultiGraph),
    "karate": nx.karate_club_graph,
    "zero weights": lambda: nx.DiGraph(
        [(0, 1, {"weight": 0.0}), (1, 2, {"weight": 0}), (2, 0), (3, 0), (2, 3)]
    ),
    "no edges": lambda: nx.empty_graph(3),
    "one node": lambda: nx.empty_graph(1),
    "one loop": lambda: nx.DiGraph([("x", "x")]),
    "subgraph view": lambda: nx.subgraph(nx.karate_club_graph(), [30, 2, 1, 0, 33, 32, 8]),
    "filtered view": lambda: nx.subgraph_view(
        nx.karate_club_graph(), filter_edge=lambda u, v: u + v != 33
    ),
    "reversed view": lambda: named_digraph().reverse(copy=False),
    "directed view": lambda: nx.Graph(named_digraph()).to_directed(as_view=True),
}


def assert_like_networkx(graph: Any, **arguments: Any) -> None:
    expected = nx.pagerank(graph, backend="networkx", **arguments)
    scores = nx.pagerank(graph, backend="graphrf", **arguments)
    assert list(scores) == list(expected)
    assert all(type(score) is float for score in scores.values())
    # networkx stops when its error is below N tol alpha / (1 - alpha).
    assert scores == pytest.approx(expected, rel=0, abs=5e-12)


# -- the same answers ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize("weight", ["weight", None, "missing"])
def test_scores_are_those_of_networkx(kind: str, weight: str | None) -> None:
    assert_like_networkx(GRAPHS[kind](), weight=weight, **TIGHT)


@pytest.mark.parametrize("kind", ["directed", "undirected", "multidigraph"])
@pytest.mark.parametrize(
    "arguments",
    [
        {"alpha": 0.5},
        {"alpha": 0.99},
        {"personalization": {"m": 1, "z": 0.25}},
        {"personalization": {"lonely": 2.0, "nobody": 5.0}},
        {"dangling": {"z": 1.0, 7: 3, "nobody": 5.0}},
        {"personalization": {"m": 1}, "dangling": {"lonely": 1.0}},
        {"nstart": {7: 1.0}},
    ],
    ids=str,
)
def test_arguments_mean_what_they_mean_in_networkx(kind: str, arguments: dict[str, Any]) -> None:
    assert_like_networkx(GRAPHS[kind](), **arguments, **TIGHT)


def test_one_conversion_serves_weights_and_none(monkeypatch: pytest.MonkeyPatch) -> None:
    # networkx takes a graph cached with weights for a call without: zero weights and parallel edges
    # must come back then.
    monkeypatch.setattr(nx.config, "warnings_to_ignore", {"cache"})
    for kind in ("zero weights", "multidigraph", "directed"):
        graph = GRAPHS[kind]()
        assert_like_networkx(graph, **TIGHT)
        assert len(graph.__networkx_cache__["backends"]["graphrf"]) == 1
        assert_like_networkx(graph, weight=None, **TIGHT)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("weight", ["weight", None])
def test_a_graph_of_graphrf_needs_no_conversion(
    directed: bool, weight: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = named_digraph() if directed else nx.Graph(named_digraph())
    source["z"]["a", 1]["weight"] = 1.0
    graph = load_graph(source, weight="weight", weight_is="similarity")
    expected = nx.pagerank(source, weight=weight, backend="networkx", **TIGHT)
    assert nx.pagerank(graph, weight=weight, backend="networkx", **TIGHT) == pytest.approx(expected)
    for name in ("convert_from_nx", "convert_to_nx"):
        monkeypatch.setattr(backend, name, lambda *given, **options: pytest.fail("converted"))
    for given in ({}, {"backend": "graphrf"}):
        scores = nx.pagerank(graph, weight=weight, **TIGHT, **given)
        assert scores == pytest.approx(expected, abs=1e-10)
        assert list(scores) == list(graph.nodes)
    assert nx.pagerank(graph, personalization={7: 1.0})["lonely"] == 0


def test_other_functions_of_networkx_convert_a_graph_of_graphrf_on_request() -> None:
    graph = load_graph(nx.path_graph(5))
    assert nx.number_connected_components(graph, backend="networkx") == 1
    with pytest.raises(NotImplementedError, match="not implemented"):
        nx.number_connected_components(graph)
    with pytest.raises(ValueError, match="must be 'weight', the name"):
        nx.pagerank(graph, weight="cost")


def iterations_needed(graph: Any, implementation: str, **arguments: Any) -> int:
    for limit in range(1, 300):
        graph.__networkx_cache__.clear()
        try:
            nx.pagerank(graph, max_iter=limit, backend=implementation, **arguments)
        except nx.PowerIterationFailedConvergence:
            continue
        return limit
    raise AssertionError("no convergence")


@pytest.mark.parametrize(
    "graph",
    [
        nx.complete_graph(30),
        nx.star_graph(20),
        nx.karate_club_graph(),
        nx.gnm_random_graph(60, 600, seed=1),
    ],
)
@pytest.mark.parametrize("tol", [1e-4, 1e-9])
def test_undirected_graphs_need_no_more_iterations_than_in_networkx(
    graph: nx.Graph, tol: float
) -> None:
    arguments = {"tol": tol, "personalization": {3: 1.0}}
    assert iterations_needed(graph, "graphrf", **arguments) <= iterations_needed(
        graph, "networkx", **arguments
    )


def test_exceptions_are_those_of_networkx() -> None:
    for implementation in ("networkx", "graphrf"):
        with pytest.raises(ZeroDivisionError):
            nx.pagerank(named_digraph(), personalization={"m": 0.0}, backend=implementation)
        with pytest.raises(ZeroDivisionError):
            nx.pagerank(named_digraph(), personalization={"nobody": 1.0}, backend=implementation)
        for limits in ({"max_iter": 0}, {"max_iter": 3}, {"tol": 0.0, "max_iter": 5}):
            with pytest.raises(nx.PowerIterationFailedConvergence):
                nx.pagerank(named_digraph(), backend=implementation, **limits)


def test_a_loose_tolerance_is_not_vacuous_on_a_large_graph() -> None:
    # N tol = 2 is more than the L1 norm can change: networkx answers with its first iterate.
    graph = nx.star_graph(19_999)
    exact = nx.pagerank(graph, tol=1e-13, max_iter=1000, backend="networkx")
    ours = nx.pagerank(graph, tol=1e-4, backend="graphrf")
    theirs = nx.pagerank(graph, tol=1e-4, backend="networkx")
    error, vacuous = (
        sum(abs(scores[node] - exact[node]) for node in graph) for scores in (ours, theirs)
    )
    assert error < 1e-4 * 0.85 / 0.15
    assert vacuous > 0.1


@pytest.mark.parametrize(
    "refused",
    [
        {"G": nx.DiGraph([(0, 1, {"weight": -1.0})])},
        {"G": nx.DiGraph([(0, 1, {"weight": float("nan")})])},
        {"G": nx.DiGraph([(0, 1, {"weight": float("inf")})])},
        {"personalization": {0: 2.0, 1: -1.0}},
        {"nstart": {0: 0.0}},
        {"dangling": {"nobody": 1.0}},
        {"alpha": 1.0},
        {"alpha": 0.0},
    ],
    # No ids of the graphs' addresses: the processes of xdist would not agree on them.
    ids=[
        "negative",
        "nan",
        "infinite",
        "personalization",
        "nstart",
        "dangling",
        "alpha 1",
        "alpha 0",
    ],
)
def test_what_is_left_to_networkx_is_refused(refused: dict[str, Any]) -> None:
    arguments = {"G": nx.path_graph(3), **refused}
    with pytest.raises(NotImplementedError):
        nx.pagerank(**arguments, backend="graphrf")


# -- walks -----------------------------------------------------------------------------------------


def test_walks_are_made_when_asked_for() -> None:
    graph = named_digraph()
    exact = nx.pagerank(graph, backend="networkx", **TIGHT)
    options = {
        "method": "walks",
        "n_walks": 4000,
        "seed": 3,
        "coupling": "iid",
        "estimator": "endpoints",
    }
    scores = nx.pagerank(graph, backend="graphrf", **options)
    assert list(scores) == list(exact)
    assert scores != pytest.approx(exact, rel=1e-9)
    # 20000 walks end where rho says: standard errors below sqrt(.25 / 20000).
    assert scores == pytest.approx(exact, abs=5 * np.sqrt(0.25 / 20_000))
    graph.__networkx_cache__.clear()
    assert nx.pagerank(graph, backend="graphrf", **options) == scores


def test_options_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(TypeError, match=r"unexpected arguments for method='power': \['n_walks'\]"):
        nx.pagerank(named_digraph(), backend="graphrf", n_walks=3)
    with pytest.raises(ValueError, match="`method` must be one of 'power', 'walks', got 'push'"):
        nx.pagerank(named_digraph(), backend="graphrf", method="push")
    with pytest.raises(ValueError, match="`dangling` needs method='power'"):
        nx.pagerank(named_digraph(), backend="graphrf", method="walks", dangling={"z": 1})


# -- when it is chosen -----------------------------------------------------------------------------


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The methods of the calls that reach the backend."""
    seen: list[str] = []
    original = backend.pagerank

    def counted(*args: Any, **kwargs: Any) -> Any:
        seen.append(kwargs.get("method", "power"))
        return original(*args, **kwargs)

    monkeypatch.setattr(backend, "pagerank", counted)
    return seen


def test_it_is_not_chosen_unless_asked(calls: list[str]) -> None:
    nx.pagerank(nx.cycle_graph(2000))
    assert calls == []


def test_a_priority_chooses_it_for_graphs_worth_converting(calls: list[str]) -> None:
    with nx.config.backend_priority(algos=["graphrf"]):
        nx.pagerank(nx.cycle_graph(2000))
        assert calls == ["power"]
        nx.pagerank(nx.cycle_graph(20))
        nx.betweenness_centrality(nx.cycle_graph(2000), k=1)  # not ours: networkx goes on by itself
    assert calls == ["power"]


def test_a_priority_never_chooses_an_estimate() -> None:
    args = (nx.cycle_graph(2000),)
    assert backend.should_run("pagerank", args, {}) is True
    assert "estimates" in str(backend.should_run("pagerank", args, {"method": "walks"}))
    assert "small" in str(backend.should_run("pagerank", (nx.cycle_graph(20),), {}))


def test_what_it_refuses_goes_back_to_networkx() -> None:
    graph = nx.cycle_graph(2000, create_using=nx.DiGraph)
    graph.add_edge(5, 7, weight=-0.5)
    expected = nx.pagerank(graph, backend="networkx")
    with nx.config.backend_priority(algos=["graphrf"]):
        assert nx.pagerank(graph) == expected
        assert nx.pagerank(nx.cycle_graph(2000), alpha=0.0)[0] == pytest.approx(1 / 2000)


def test_a_converted_graph_chooses_it(calls: list[str]) -> None:
    graph = named_digraph()
    converted = backend.convert_from_nx(graph, edge_attrs={"weight": 1})
    scores = nx.pagerank(converted, **TIGHT)
    assert calls == ["power"]
    assert scores == pytest.approx(nx.pagerank(graph, **TIGHT), rel=1e-9)
    assert list(converted) == list(graph)
    with pytest.raises(ValueError, match=r"`weight` must be 'weight', .* got 'length'"):
        nx.pagerank(converted, weight="length")


@pytest.mark.parametrize("kind", ["directed", "undirected", "multigraph", "no edges"])
def test_a_converted_graph_comes_back(kind: str) -> None:
    graph = GRAPHS[kind]()
    simple = nx.DiGraph() if graph.is_directed() else nx.Graph()
    simple.add_nodes_from(graph)
    for u, v, weight in graph.edges(data="weight", default=1):
        simple.add_edge(u, v, weight=weight + simple.get_edge_data(u, v, {"weight": 0})["weight"])
    back = backend.convert_to_nx(backend.convert_from_nx(graph, edge_attrs={"weight": 1}))
    assert list(back) == list(simple)
    assert nx.utils.graphs_equal(back, simple)
    assert backend.convert_to_nx("anything else") == "anything else"


# -- what it imports -------------------------------------------------------------------------------


def test_networkx_is_imported_without_the_heavy_parts(tmp_path: Path) -> None:
    code = (
        "import sys, networkx as nx; assert 'graphrf' in nx.utils.backends.backend_info;"
        "assert 'pagerank' in nx.utils.backends.backend_info['graphrf']['functions'];"
        "heavy = {'numpy', 'scipy', 'numba', 'graphrf.graph', 'graphrf.pagerank.estimates'} & "
        "set(sys.modules);assert not heavy, heavy"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, cwd=tmp_path)
