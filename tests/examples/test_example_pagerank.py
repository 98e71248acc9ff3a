"""The example scripts of PageRank: what they measure with is right, and each runs small."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import graphrf as grf
from tests.support.real_data import needs_data


def test_pagerank_couplings_prints_a_row_for_every_p_halt_and_draws(run, tmp_path):
    pytest.importorskip("matplotlib", reason="figures need the extra `plot`")
    picture = tmp_path / "errors.png"
    lines = run(
        "pagerank_couplings", "--graphs", "karate", "--repeats", "20", "--out", str(picture)
    )
    rows = [row for row in lines if row[1:2] == ["karate"]]
    assert [float(row[3]) for row in rows] == pytest.approx(np.arange(1, 10) / 10)
    ratios = np.array([[float(row[at]) for at in range(9, len(row), 4)] for row in rows])
    errors = np.array([[float(row[at + 2]) for at in range(9, len(row), 4)] for row in rows])
    assert ratios.shape == (9, 7)
    assert ratios[4, 1] + 5 * errors[4, 1] < 1  # sigma at .5
    assert (ratios[:, 2:] + 5 * errors[:, 2:] < 1).all()  # all scores from visits
    assert picture.read_bytes().startswith(b"\x89PNG")


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


@needs_data
def test_topics_belong_to_the_papers_of_the_directed_graph(example, require):
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
def test_pagerank_citations_ranks_and_draws(run, require, tmp_path):
    pytest.importorskip("matplotlib", reason="figures need the extra `plot`")
    for name in ("cora", "cora-directed"):
        require(name)
    picture = tmp_path / "citations.svg"
    rows = run("pagerank_citations", "--walks", "16", "--top", "5", "--out", str(picture))
    top = [row for row in rows if len(row) > 7 and row[0].isdigit() and row[6] == "±"]
    assert [int(row[0]) for row in top] == [1, 2, 3, 4, 5]
    for row in top:
        assert abs(float(row[5]) - float(row[8])) < 5 * float(row[7])
    agreements = [
        [float(word) for word in row] for row in rows if len(row) == 7 and row[0].isdigit()
    ]
    assert [row[0] for row in agreements] == [16, 64, 256, 1024]
    l1 = [row[2] for row in agreements]
    assert l1 == sorted(l1, reverse=True)
    assert l1[-1] < 0.01
    assert all(0.85 < row[6] <= 1 for row in agreements)
    assert "<svg" in picture.read_text(encoding="utf-8")
