"""What a notebook shows of graphs, features and results: whole, escaped, cheap tables."""

from __future__ import annotations

import html.parser
import pickle
import re

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

import graphrf as grf
from graphrf._base.html import memory
from graphrf.pagerank import local_pagerank, pagerank

HOSTILE = (
    "<script>alert(1)</script>",
    "a\"b'c&amp;<img src=x onerror=y>",
    "x" * 5000,
    ("</table>", 1),
)
EMPTY_TAGS = {"br", "hr", "img", "input", "link", "meta"}


class _Reader(html.parser.HTMLParser):
    """The tags and the text of a page, once every tag is closed in its turn."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.cells: list[str] = []
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert {name for name, _ in attrs} <= {"style", "scope"}
        assert tag not in EMPTY_TAGS
        self.open.append(tag)
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.cells.append(data)


def _read(result: object) -> _Reader:
    return _Reader(result._repr_html_())  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def karate() -> grf.Graph:
    return grf.load_graph(nx.karate_club_graph(), weight=False)


@pytest.fixture(scope="module")
def shown(karate, tmp_path_factory):
    """One of each object that has a table, by name."""
    folder = tmp_path_factory.mktemp("graphs") / "karate"
    karate.save(folder)
    kernel = grf.Diffusion(2.0)
    walks = grf.RandomWalks(4)
    both = np.eye(34)[:2]
    seen = {
        "graph": karate,
        "mapped graph": grf.open_graph(folder),
        "directed graph": grf.Graph(sp.csr_array(np.triu(np.ones((3, 3)))), directed=True),
        "features": grf.sample_features(karate, seed=0),
        "walks": grf.sample_features(karate, walks, nodes=[3], seed=0),
        "product": grf.sampling.sample_product(karate, walks, n_factors=2, seed=0),
        "data set": grf.datasets.load("generated-torus"),
        "table": grf.datasets.Dataset("t", "table", "A table.", "CC0", features=np.zeros((2, 3))),
        "coupling": grf.couplings.learn_coupling(karate, kernel=kernel, order=6, seed=0),
        "plain coupling": grf.sampling.Coupling(np.array([1, 0])),
        "pagerank": grf.pagerank.estimate(karate, n_batches=4, seed=0),
        "pageranks": grf.pagerank.estimate(karate, n_batches=4, personalization=both, seed=0),
        "exact pagerank": pagerank(karate),
        "exact pageranks": pagerank(karate, personalization=both),
        "local pagerank": local_pagerank(karate, 0, k=3, seed=0),
        "local pageranks": local_pagerank(karate, [0, 33], seed=0),
        "pushed pagerank": local_pagerank(karate, [0], max_residual=1e-3),
        "reliability": grf.gp.metrics.reliability([0, 1], [[0.9, 0.1], [0.6, 0.4]]),
    }
    return seen


def test_tables_are_well_formed_and_load_nothing(shown):
    for result in shown.values():
        read = _read(result)
        assert {*read.tags} <= {"div", "table", "thead", "tbody", "tr", "th", "td"}
        assert "http" not in " ".join(re.findall(r'style="[^"]*"', result._repr_html_()))


def test_tables_name_no_colour_but_a_translucent_grey(shown):
    for result in shown.values():
        styles = " ".join(re.findall(r'style="([^"]*)"', result._repr_html_()))
        assert not re.search(r"(?<!-)color:|background|#[0-9a-f]{3}", styles)
        assert {*re.findall(r"rgba?\([^)]*\)", styles)} <= {"rgba(128,128,128,0.6)"}


def test_representations_fit_in_two_lines(shown):
    for result in shown.values():
        text = repr(result)
        assert len(text) <= 200
        assert text.count("\n") <= 1
        assert " object at 0x" not in text


def test_a_graph_says_its_size_and_where_it_is(shown):
    cells = _read(shown["graph"]).cells
    assert [cells[cells.index(label) + 1] for label in ("nodes", "edges", "kind")] == [
        "34",
        "78",
        "undirected",
    ]
    assert "folder" not in cells
    mapped = _read(shown["mapped graph"]).cells
    assert mapped[mapped.index("folder") + 1].endswith("karate")
    assert mapped[mapped.index("memory") + 1].endswith("on disk")


def test_rankings_list_their_best_nodes_with_standard_errors(shown):
    result = shown["pagerank"]
    cells = _read(result).cells
    for name, score in result.top(10):
        place = cells.index(f"{score:.4g}")
        assert cells[place - 1] == str(name)
        assert cells[place + 1] == f"{result.stderr[name]:.4g}"
    assert "standard error" not in _read(shown["exact pagerank"]).cells
    several = _read(shown["exact pageranks"])
    assert several.tags.count("tr") == 1 + 2 * 3


def test_local_rankings_list_the_best_nodes_of_each_seed(shown):
    result = shown["local pageranks"]
    cells = _read(result).cells
    for number, best in enumerate(result.top(3)):
        for name, score in best:
            place = cells.index(f"{score:.4g}")
            assert cells[place - 2 : place] == [("0", "33")[number], str(name)]
    assert "standard error" in cells
    assert "standard error" not in _read(shown["pushed pagerank"]).cells
    assert "1 source," in repr(shown["local pagerank"])
    assert "2 sources," in repr(result)


def test_hostile_names_are_escaped_and_cut():
    graph = grf.from_edges([0, 1, 2, 3], [1, 2, 3, 0])
    named = grf.Graph(graph.adjacency, nodes=HOSTILE)
    coupling = grf.sampling.Coupling(
        np.array([1, 0]), kernel=HOSTILE[0], graph=HOSTILE[1], solver=HOSTILE[0]
    )
    data = grf.datasets.Dataset(
        *HOSTILE[:2], HOSTILE[2], HOSTILE[0], (HOSTILE[1],), named, extra={HOSTILE[0]: 1}
    )
    results = [
        named,
        coupling,
        data,
        grf.pagerank.estimate(named, seed=0),
        pagerank(named),
        local_pagerank(named, list(HOSTILE[:2]), seed=0),
    ]
    for result in results:
        page = result._repr_html_()
        read = _Reader(page)  # which refuses all tags and attributes but the table's own
        assert len(page) < 10_000
        assert "script" not in read.tags
        assert "img" not in read.tags
    for result in (named, *results[3:]):
        assert len(repr(result)) <= 200
    # what the table is made of would be caught, were it not escaped
    with pytest.raises(AssertionError):
        _Reader(f"<div>{HOSTILE[1]}</div>")


def test_a_huge_mapped_graph_is_not_read():
    n, entries = 2**31, 10**12

    def endless(size, dtype):
        return np.broadcast_to(np.array(1, dtype=dtype), size)  # any pass over it takes hours

    adjacency = sp.csr_array((3, 3))
    adjacency._shape = (n, n)
    adjacency.indptr, adjacency.indices, adjacency.data = (
        endless(n + 1, np.int64),
        endless(entries, np.int64),
        endless(entries, np.float64),
    )
    known = {"n_edges": entries // 2, "is_weighted": False}
    graph = grf.Graph._of_valid(
        adjacency, None, False, known, (pickle.loads, ("/folder", "identity"))
    )
    assert repr(graph) == f"Graph({n} nodes, {entries // 2} edges, undirected, unweighted)"
    cells = _read(graph).cells
    assert f"{entries // 2:,}" in cells
    assert "14.6 TiB, on disk" in cells


def test_a_table_asks_no_workers(shown):
    features = pytest.importorskip("graphrf.distributed.features")
    frame = shown["features"].info
    held = None  # where workers would be asked
    there = features.DistributedFeatures(frame, None, [range(20), range(14)], held, dict)
    assert repr(there) == "DistributedFeatures(34 nodes of 34, powers up to 48, 2 blocks)"
    cells = _read(there).cells
    assert "CompressedPowers" in " ".join(cells)
    assert "non-zeros" not in cells


def test_sklearn_keeps_its_own_page_of_a_fitted_regressor(karate):
    gp = grf.GraphGPRegressor(karate, kernel=grf.Diffusion(1.0), optimize=False, noise=0.1, seed=0)
    bundle = gp.fit([0, 33], [1.0, -1.0])._repr_mimebundle_()
    assert bundle["text/plain"] == repr(gp)
    assert "GraphGPRegressor" in bundle["text/html"]


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (200 * 2**30, "200 GiB"),
    ],
)
def test_memory_is_told_in_the_largest_unit(size, text):
    assert memory(size) == text
