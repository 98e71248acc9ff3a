"""The question of PageRank: personalisation, vectors, and jumps from dangling nodes."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import graphrf as grf
from graphrf.pagerank.problem import make_problem, vectors_of
from tests.pagerank.oracles import directed_graph

ROWS = np.array([[0.0, 2.0, 0.0, 1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0, 5.0, 0.0, 0.0]])


def doubled_entries() -> sp.coo_array:
    """ROWS with two of its entries in two parts each."""
    rows, columns = np.array([0, 0, 0, 0, 1, 1]), np.array([1, 1, 3, 6, 4, 4])
    return sp.coo_array((np.array([0.5, 1.5, 1.0, 1.0, 2.0, 3.0]), (rows, columns)), shape=(2, 7))


@pytest.mark.parametrize("single", [None, {"a": 1.0}, {}, ROWS[0], list(ROWS[0]), tuple(ROWS[0])])
def test_one_vector_is_not_several(single: Any) -> None:
    assert vectors_of(directed_graph(), single) is None


@pytest.mark.parametrize(
    "several",
    [
        ROWS,
        ROWS.astype(np.float32),
        ROWS.astype(int),
        ROWS.tolist(),
        list(ROWS),
        sp.csr_array(ROWS),
        sp.csc_matrix(ROWS),
        sp.coo_array(ROWS.astype(int)),
        doubled_entries(),
        [{"b": 2.0, "d": 1, "g": 1.0}, {"e": 5.0}],
        ({1: 2.0, 3: 1.0, 6: 1.0}, {4: 0.1}),
    ],
    ids=lambda several: type(several).__name__,
)
def test_several_vectors_are_posed_one_by_one(several: Any) -> None:
    graph = directed_graph()
    vectors = vectors_of(graph, several)
    assert vectors is not None
    starts = [make_problem(graph, 0.15, vector).start for vector in vectors]
    assert np.array_equal(starts, ROWS / ROWS.sum(axis=1, keepdims=True))


def test_a_sparse_matrix_is_left_as_it_was() -> None:
    given = sp.csr_array((np.ones(4), np.array([3, 3, 1, 2]), np.array([0, 3, 4])), shape=(2, 7))
    before = given.data.copy(), given.indices.copy(), given.indptr.copy()
    vectors = vectors_of(directed_graph(), given)
    assert vectors is not None
    assert make_problem(directed_graph(), 0.15, vectors[0]).start[3] == pytest.approx(2 / 3)
    for array, old in zip((given.data, given.indices, given.indptr), before, strict=True):
        assert np.array_equal(array, old)


def test_a_single_row_is_several_vectors_too() -> None:
    vectors = vectors_of(directed_graph(), ROWS[:1])
    assert vectors is not None
    assert len(vectors) == 1


@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        (
            np.array([[1.0] * 7, [1, 1, -2, 1, 1, 1, 1]]),
            ValueError,
            r"`personalization\[1\]` must not be neg",
        ),
        (
            np.array([[1.0] * 7, [0] * 7]),
            ValueError,
            r"`personalization\[1\]` must have a positive value",
        ),
        (
            np.array([[1.0] * 7, [np.nan] * 7]),
            ValueError,
            r"`personalization\[1\]` must be finite, got nan",
        ),
        (
            sp.csr_array(np.array([[1.0] * 7, [0, 0, 0, 0, -1.0, 0, 0]])),
            ValueError,
            r"`personalization\[1\]` must not be negative, got -1 at position 4",
        ),
        (
            sp.csr_array(np.array([[0.0] * 7, [1] * 7])),
            ValueError,
            r"`personalization\[0\]` must have a positive",
        ),
        (sp.csr_array((2, 6)), ValueError, r"must have shape \(n, 7\) with n > 0, got \(2, 6\)"),
        (sp.csr_array(np.ones((1, 7)) * 1j), TypeError, "real sparse matrix of shape"),
        (np.ones((0, 7)), ValueError, r"must have shape \(n, 7\) with n > 0, got \(0, 7\)"),
        (np.ones((2, 6)), ValueError, r"must have shape \(n, 7\) with n > 0, got \(2, 6\)"),
        (
            [{"a": 1.0}, {"z": 1.0}],
            ValueError,
            r"keys of `personalization\[1\]` must be nodes of the graph",
        ),
        (
            [{"a": 1.0}, {"b": -1.0}],
            ValueError,
            r"personalization\[1\]` must not be negative, got -1 at position",
        ),
        ([{"a": 1.0}, {"b": "x"}], TypeError, r"`personalization\[1\]\['b'\]` must be a number"),
        ([{"a": 1.0}, {}], ValueError, r"`personalization\[1\]` must have a positive value"),
        (
            [{"a": 1.0}, [1.0] * 7],
            TypeError,
            "must hold mappings only, or numbers only, got a list",
        ),
        ([[1.0], [1.0, 2.0]], ValueError, "`personalization` must be rectangular"),
        ("abc", TypeError, "must be a mapping of nodes to values or an array"),
    ],
)
def test_errors_name_the_row(bad: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        vectors_of(directed_graph(), bad)


def test_three_dimensions_are_refused_when_posed() -> None:
    graph = directed_graph()
    assert vectors_of(graph, np.ones((1, 2, 7))) is None
    with pytest.raises(ValueError, match=r"must have shape \(7,\), got \(1, 2, 7\)"):
        make_problem(graph, 0.15, np.ones((1, 2, 7)))


def test_integer_keys_are_names_where_a_name_is_an_integer() -> None:
    graph = grf.Graph(np.ones((3, 3)), nodes=[2, 0, "x"])
    assert np.array_equal(make_problem(graph, 0.15, {2: 1.0}).start, [1.0, 0.0, 0.0])
    assert np.array_equal(make_problem(graph, 0.15, [0.0, 0.0, 1.0]).start, [0.0, 0.0, 1.0])
    with pytest.raises(
        ValueError, match="keys of `personalization` must be nodes of the graph, got 1"
    ):
        make_problem(graph, 0.15, {1: 1.0})
    numpys = grf.Graph(np.ones((3, 3)), nodes=list(np.array([2, 0, 1])))
    assert np.array_equal(make_problem(numpys, 0.15, {2: 1.0}).start, [1.0, 0.0, 0.0])


def test_dangling_nodes_jump_to_the_personalisation_unless_told_otherwise() -> None:
    graph = directed_graph()
    assert make_problem(graph, 0.15, None).jump is None
    assert np.array_equal(
        make_problem(graph, 0.15, None, {"b": 2.0, "c": 6.0}).jump, [0, 0.25, 0.75, 0, 0, 0, 0]
    )
    with pytest.raises(ValueError, match=r"`dangling` must have shape \(7,\), got \(3,\)"):
        make_problem(graph, 0.15, None, [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="`dangling` must have a positive value"):
        make_problem(graph, 0.15, None, {"a": 0.0})


STAR = grf.Graph([[0, 1, 1], [1, 0, 0], [1, 0, 0]], nodes=["hub", "a", "b"])


@pytest.mark.parametrize("argument", ["personalization", "dangling", "start"])
def test_series_are_aligned_by_their_labels(argument: str) -> None:
    pandas = pytest.importorskip("pandas")
    own = pandas.Series([1.0, 2.0, 3.0], ["b", "hub", "a"])
    leaf = grf.Graph([[0, 1, 0], [0, 0, 1], [0, 0, 0]], nodes=["hub", "a", "b"], directed=True)

    def rank(given: Any) -> np.ndarray:
        few = {"tol": 1e-300, "max_iter": 2} if argument == "start" else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return grf.pagerank(leaf, **{argument: given}, **few).scores

    expected = rank([2.0, 3.0, 1.0])
    assert np.abs(expected - rank([1.0, 2.0, 3.0])).max() > 1e-3  # the order matters
    for same in (dict(own), own, own.to_frame(), pandas.Series([2.0, 3.0, 1.0])):
        np.testing.assert_array_equal(rank(same), expected)
    np.testing.assert_array_equal(rank(own[:1]), rank({"b": 1.0}))
    for wrong, message in (
        (
            own.rename({"a": "z"}),
            f"keys of `{argument}` must be nodes of the graph, got 'z'; .* 'hub', 'a', 'b'",
        ),
        (
            pandas.Series([1.0, 2.0]),
            f"`{argument}` has the labels 0, 1, and the rows have 'hub', 'a'",
        ),
        (pandas.concat([own, own]), f"`{argument}` must name every node once, got 'b', 'hub'"),
        (
            pandas.DataFrame({"x": own, "y": own}),
            f"`{argument}` must be one vector .* shape .3, 2.",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            rank(wrong)


def test_several_series_are_aligned_and_numbers_that_may_be_names_refused() -> None:
    pandas = pytest.importorskip("pandas")
    own = pandas.Series([1.0, 2.0, 3.0], ["b", "hub", "a"])
    expected = grf.pagerank(STAR, personalization=[[2.0, 3.0, 1.0], [0.0, 0.0, 1.0]]).scores
    np.testing.assert_array_equal(
        grf.pagerank(STAR, personalization=[own, own[:1]]).scores, expected
    )
    walked = [
        grf.pagerank.estimate(STAR, personalization=v, seed=1, n_walks=8).scores
        for v in (own, [2.0, 3.0, 1.0])
    ]
    np.testing.assert_array_equal(*walked)
    moved = grf.Graph(STAR.adjacency, nodes=[2, 0, 1])
    with pytest.raises(ValueError, match=r"`personalization` has labels, 0, 1, .* in other orders"):
        grf.pagerank(moved, personalization=pandas.Series([1.0, 2.0, 3.0]))


def test_huge_and_tiny_values_keep_their_proportions() -> None:
    graph = directed_graph()
    for scale in (1e308, 1e-320):
        start = make_problem(graph, 0.15, scale * np.array([1.0, 1, 0, 0, 0, 0, 0])).start
        assert np.array_equal(start, [0.5, 0.5, 0, 0, 0, 0, 0])


@pytest.mark.parametrize(
    "rank", [grf.pagerank, grf.pagerank.estimate, grf.pagerank.refine, grf.pagerank.local_pagerank]
)
def test_the_alpha_of_networkx_is_answered_with_the_p_halt_that_it_is(rank: Any) -> None:
    with pytest.raises(
        TypeError, match=r"networkx's alpha is 1 - p_halt: pass p_halt=0\.15$"
    ) as caught:
        rank(directed_graph(), alpha=0.85)
    assert caught.value.argument == "alpha"  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match=r"networkx's alpha is 1 - p_halt$"):
        rank(directed_graph(), alpha=85)
    with pytest.raises(TypeError, match="unexpected keyword argument 'beta'"):
        rank(directed_graph(), beta=0.5)
