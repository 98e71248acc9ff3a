"""The example scripts of PageRank: what they measure with is right, and each runs on a small setting."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import graphrf as grf
from graphrf.couplings import shipped_coupling
from graphrf.couplings.pagerank_cost import pagerank_cost
from graphrf.pagerank import pagerank
from tests.examples.test_examples import require, run
from tests.support.real_data import needs_data


def test_errors_of_end_points_are_those_of_the_exact_variance(example, karate):
    """Eq. 82's cost gives the mean squared error without an approximation, here .745 of that of independent walks.

    The permutation of Gram matrices would leave .875.
    """
    module = example("pagerank_couplings")
    p_halt, repeats = 0.4, 600
    scores = pagerank(karate, p_halt=p_halt).scores
    permutation = shipped_coupling(p_halt, "pagerank").permutation
    cost = pagerank_cost(
        karate, grf.sampling.Survival.geometric(p_halt), permutation.size, rng=np.random.default_rng(0)
    )
    exact = {
        name: module.mean_square(cost, which, karate.n_nodes)
        for name, which in (("iid", None), ("sigma", permutation))
    }
    assert exact["sigma"] < 0.75 * exact["iid"]
    for name, expected in exact.items():
        errors = module.errors_of(karate, scores, ("endpoints", name), p_halt, 2, range(repeats))
        mean, spread = example("gram_error").mean_and_error(errors**2)
        assert mean == pytest.approx(expected, abs=5 * spread)
        assert 5 * spread < 0.1 * expected  # the three differ by more


def test_pagerank_couplings_prints_a_row_for_every_p_halt_and_draws(tmp_path):
    pytest.importorskip("matplotlib", reason="figures need the extra `plot`")
    picture = tmp_path / "errors.png"
    lines = run("pagerank_couplings.py", "--graphs", "karate", "--repeats", "20", "--out", str(picture))
    rows = [row for row in lines if row[1:2] == ["karate"]]
    assert [float(row[3]) for row in rows] == pytest.approx(np.arange(1, 10) / 10)
    ratios = np.array([[float(row[at]) for at in range(9, len(row), 4)] for row in rows])
    errors = np.array([[float(row[at + 2]) for at in range(9, len(row), 4)] for row in rows])
    assert ratios.shape == (9, 7)
    assert ratios[4, 1] + 5 * errors[4, 1] < 1  # sigma at .5
    assert (ratios[:, 2:] + 5 * errors[:, 2:] < 1).all()  # all scores from visits
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_pagerank_couplings_tells_what_learning_on_the_graph_adds():
    rows = run("pagerank_couplings.py", "--graphs", "karate", "--exact")[2:]
    ratios = np.array([[float(word) for word in row[5:12:2]] for row in rows])
    assert ratios.shape == (9, 4)
    shipped, learned, finer, gram = ratios.T
    assert (learned <= shipped).all()
    assert (finer <= learned).all()  # every tile of order 10 is three of order 30
    assert (shipped < gram)[:4].all()
    assert (gram < 1).all()


def test_agreement_counts_what_it_says(example):
    module = example("pagerank_citations")
    exact = np.linspace(2, 1, 200) / 300
    found = SimpleNamespace(scores=exact.copy(), stderr=np.full(200, 1e-4))
    assert module.agreement(found, exact, np.arange(200)) == (0.0, pytest.approx(1.0), 10, 100, 1.0)
    moved = exact.copy()
    moved[[0, 150]] = moved[[150, 0]]  # one paper leaves both tops, by far more than its error
    worse = module.agreement(found, moved, np.arange(100))
    assert worse.l1 == pytest.approx(2 * abs(exact[0] - exact[150]))
    assert worse[1:] == (pytest.approx(1 - 2 * 99 / (100 * 99 / 2)), 9, 99, 0.99)


def test_separations_are_in_standard_errors(example):
    separations = example("pagerank_citations").separations
    found = separations(np.array([5.0, 3.0, 2.5]), np.array([0.3, 0.4, 0.3]))
    np.testing.assert_allclose(found, [4.0, 1.0])


@needs_data
def test_topics_belong_to_the_papers_of_the_directed_graph(example):
    for name in ("cora", "cora-directed"):
        require(name)
    citations = example("pagerank_citations").load()
    labelled = grf.datasets.load("cora")
    places = labelled.graph.index([str(paper) for paper in citations.graph.nodes])
    directed = citations.graph.adjacency
    either_way = (directed + directed.T) > 0
    assert (either_way != (labelled.graph.adjacency[places][:, places] > 0)).nnz == 0
    paper = citations.graph.index([35])[0]
    assert citations.topics[paper] == "Genetic_Algorithms"
    assert citations.cited_by[paper] == citations.cited_by.max() == 166
    turned = citations.reversed().adjacency
    assert (turned != directed.T).nnz == 0


@needs_data
def test_pagerank_citations_ranks_and_draws(tmp_path):
    pytest.importorskip("matplotlib", reason="figures need the extra `plot`")
    for name in ("cora", "cora-directed"):
        require(name)
    picture = tmp_path / "citations.svg"
    rows = run("pagerank_citations.py", "--walks", "16", "--top", "5", "--out", str(picture))
    top = [row for row in rows if len(row) > 7 and row[0].isdigit() and row[6] == "±"]
    assert [int(row[0]) for row in top] == [1, 2, 3, 4, 5]
    for row in top:
        assert abs(float(row[5]) - float(row[8])) < 5 * float(row[7])
    agreements = [[float(word) for word in row] for row in rows if len(row) == 7 and row[0].isdigit()]
    assert [row[0] for row in agreements] == [16, 64, 256, 1024]
    l1 = [row[2] for row in agreements]
    assert l1 == sorted(l1, reverse=True)
    assert l1[-1] < 0.01
    assert all(0.85 < row[6] <= 1 for row in agreements)
    assert "<svg" in picture.read_text(encoding="utf-8")
