"""Bars of progress: shown where they are asked for, and else nothing at all."""

from __future__ import annotations

import pytest
from tqdm import tqdm

import graphrf as grf
from graphrf._base.progress import progress_bar
from graphrf.pagerank import local_pagerank


def _everything(graph, folder, progress):
    """Calls that can show a bar, one at a time."""
    yield lambda: grf.sample_features(graph, seed=0, progress=progress)
    yield lambda: grf.sample_features(graph, seed=0, progress=progress, path=folder / "rows")
    yield lambda: grf.pagerank.estimate(graph, seed=0, progress=progress)
    yield lambda: grf.pagerank.estimate(graph, seed=0, tol=0.5, progress=progress)
    yield lambda: grf.pagerank.estimate(
        graph, seed=0, personalization=[{0: 1.0}, {1: 1.0}], progress=progress
    )
    yield lambda: local_pagerank(graph, sources=[0], k=2, seed=0, progress=progress)


def test_without_bars_no_lock_is_taken_that_forked_processes_share(karate, tmp_path, monkeypatch):
    def held():
        raise AssertionError("forked processes share this lock")

    monkeypatch.setattr(tqdm, "get_lock", held)
    for call in _everything(karate, tmp_path, False):
        call()
    for call in _everything(karate, tmp_path / "shown", True):
        with pytest.raises(AssertionError, match="share this lock"):
            call()


def test_bars_say_what_they_count(karate, tmp_path, capsys):
    for call in _everything(karate, tmp_path, False):
        call()
    assert capsys.readouterr().err == ""
    for call, said in zip(
        _everything(karate, tmp_path / "shown", True),
        ("features", "features", "PageRank", "L1 error", "vectors", "local PageRank"),
        strict=True,
    ):
        call()
        assert said in capsys.readouterr().err


def test_a_bar_that_is_not_shown_counts_all_the_same():
    with progress_bar("steps", False, total=3) as bar:
        bar.update()
        bar.update(2)
        bar.set_postfix_str("words")
        bar.refresh()
        assert bar.n == 3
