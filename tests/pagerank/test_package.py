"""The package, which is called as its function `pagerank`, and what its ways share."""

from __future__ import annotations

import inspect
import pickle
import pkgutil
from collections import Counter

import numpy as np

import graphrf as grf
from graphrf.pagerank import pagerank
from tests.pagerank.oracles import dense_pagerank, lopsided_graph


def test_a_call_of_the_package_gives_the_exact_scores() -> None:
    graph = lopsided_graph()
    result = grf.pagerank(graph, p_halt=0.3)
    assert isinstance(result, grf.pagerank.PageRankResult)
    actual = np.abs(result.scores - dense_pagerank(graph, 0.3)).sum()
    assert actual <= result.error_bound <= 1e-12
    assert np.array_equal(result.scores, pagerank(graph, p_halt=0.3).scores)
    assert not np.array_equal(
        result.scores, grf.pagerank.estimate(graph, p_halt=0.3, seed=1).scores
    )


def test_the_package_looks_like_the_function_and_travels_to_other_processes() -> None:
    assert inspect.signature(grf.pagerank) == inspect.signature(pagerank)
    assert pickle.loads(pickle.dumps(grf.pagerank)) is grf.pagerank


def test_no_module_has_the_name_of_a_function() -> None:
    # An import of it would put it in the place of the function.
    modules = {module.name for module in pkgutil.iter_modules(grf.pagerank.__path__)}
    assert {"estimates", "power", "walks"} <= modules
    assert not modules & set(grf.pagerank.__all__)


def test_arguments_that_the_functions_share_have_the_same_default_and_place() -> None:
    functions = (
        grf.pagerank.pagerank,
        grf.pagerank.estimate,
        grf.pagerank.refine,
        grf.pagerank.local_pagerank,
    )
    signatures = [inspect.signature(function).parameters for function in functions]
    counts = Counter(name for signature in signatures for name in signature)
    shared = {name for name, count in counts.items() if count > 1}
    assert {"graph", "p_halt", "personalization", "seed", "n_threads", "progress"} <= shared
    # Exact scores have a tolerance unless told otherwise, estimates none.
    for name in shared - {"tol"}:
        defaults = {signature[name].default for signature in signatures if name in signature}
        assert len(defaults) == 1, (name, defaults)
