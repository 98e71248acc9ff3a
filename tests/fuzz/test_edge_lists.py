"""The reader of edge lists under any input: a sound graph, or an error that names the file."""

from __future__ import annotations

import gzip
import random
import sys

import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrf.graph.graph import Graph
from tests.fuzz.damage import mutated, read

pytestmark = [
    pytest.mark.skipif(
        sys.platform != "linux", reason="bounds on time and memory are those of Linux"
    ),
    # What is said of weights and directions that a file has and that nobody asked for.
    pytest.mark.filterwarnings(
        "ignore:(the graph is unweighted|the weights in|parallel edges|this MultiDiGraph)"
    ),
]

# Pieces of which hostile lines are made: what Python, csv and NumPy read in their own ways.
NUMBERS = [
    *(
        "0",
        "1",
        "7",
        "12",
        "-3",
        "+1",
        "007",
        "1_0",
        "10" * 20,
        "9" * 5000,
        "1e999",
        "1e308",
        "1.7e308",
        "1e-308",
    ),
    *("1e-320", "5e-324", "nan", "-inf", "0x1p3", "1.", ".5", "1e5", "\u0663", "\xb2", "\u2167"),
]
# The cells of lines of one width.
CELLS = [
    *NUMBERS,
    *("a", "b", "\xe9", "\u6e90", "\U0001f600", "source", "target", "from", "to", "NA", "null"),
]
PIECES = [
    *CELLS,
    *("", " ", "\t", ",", ";", "|", '"', '""', "'", "\\", "#", "%"),
    *(
        "\n",
        "\n",
        "\r",
        "\r\n",
        "\x00",
        "\x0b",
        "\x0c",
        "\x1c",
        "\x85",
        "\xa0",
        "\u2028",
        "\u3000",
        "\ufeff",
    ),
    *(
        "\u202e",
        "\u0301",
        "1" * 3000 + "x",
        "#" * 300,
        '"' * 301,
        "," * 200,
        "=1+1",
        "../..",
        "\ud7ff",
    ),
]
GOOD = (
    b"source,target,w\n0,1,2.5\n1,2,0.25\n2,2,7\n",
    b"# a comment\n0 1 1\n1 2 2\n\n2 3 3\n",
    b'from;to;km\n"Smith; J.";Doe;1e3\n"say ""hi""";Doe;2\n',
    b"a\tb\t1\nb\tc\t2\r\nc\ta\t3\n",
    b"10,20\n20,30\n30,10\n",
)
SUFFIXES = (".csv", ".tsv", ".txt", ".edges", ".edgelist", ".cites", ".mtx", ".csv.gz")


def hostile_text(rng: random.Random) -> bytes:
    """Lines of random pieces, mostly of one width and one delimiter, so that some get through."""
    if rng.random() < 0.3:
        return "".join(rng.choices(PIECES, k=rng.randrange(30))).encode()
    delimiter, width = rng.choice(",;\t "), rng.randrange(1, 5)
    rows = [delimiter.join(rng.choices(CELLS, k=width)) for _ in range(rng.randrange(1, 6))]
    return rng.choice(("\n", "\n", "\r\n", "\n\n")).join(rows).encode()


def harmed(good: bytes, rng: random.Random) -> bytes:
    return mutated(good, [piece.encode() for piece in PIECES], len(NUMBERS), rng)


def content_of(rng: random.Random) -> bytes:
    """Hostile text, or a damaged good file."""
    return hostile_text(rng) if rng.random() < 0.5 else harmed(rng.choice(GOOD), rng)


def options(rng: random.Random) -> dict:
    """Any of the options of edge lists."""
    places = (0, 1, 2, 3, -1, 10**30, "source", "w", "a", "", "\x00")
    given = {
        "columns": (rng.choice(places), rng.choice(places)),
        "weight": rng.choice((0, 2, 2, "w", "km", 5, -1)),
        "header": rng.random() < 0.5,
        "directed": rng.random() < 0.5,
        "weight_is": rng.choice(("distance", "similarity")),
    }
    return {name: value for name, value in given.items() if rng.random() < 0.35}


@given(st.integers(0, 2**64 - 1))
def test_any_text_is_a_sound_graph_or_refused_by_name(seed):
    rng = random.Random(seed)
    content, suffix = content_of(rng), rng.choice(SUFFIXES)
    packed = gzip.compress(content, 1) if suffix.endswith(".gz") else content
    read(packed, suffix, megabytes=200, **options(rng))


@given(st.binary(max_size=60))
def test_any_bytes_are_a_sound_graph_or_refused_by_name(content):
    read(content, ".csv")
    read(content, ".csv", weight=2, header=True)


def test_the_fuzzers_reach_both_ends():
    # A fuzzer whose inputs are all refused, or all read, would look at half of the code.
    results = []
    for seed in range(300):
        rng = random.Random(seed)
        results.append(isinstance(read(content_of(rng), ".csv", **options(rng)), Graph))
    assert 30 < sum(results) < 270


NAMES = st.one_of(
    st.integers(-5, 5).map(str),
    st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=4),
)


@settings(max_examples=200)
@given(
    st.lists(st.tuples(NAMES, NAMES, st.integers(0, 9)), min_size=1, max_size=12),
    st.sampled_from([",", "\t", ";"]),
)
def test_any_edges_written_out_are_read_back(edges, delimiter):
    text = "".join(f"{u}{delimiter}{v}{delimiter}{w}\n" for u, v, w in edges)
    graph = read(text.encode(), ".csv", weight=2, header=False, directed=True)
    total: dict[tuple[str, str], float] = {}
    for u, v, w in edges:
        total[u, v] = total.get((u, v), 0) + w
    nodes = [str(node) for node in graph.nodes]
    entries = sp.coo_array(graph.adjacency)
    found = {
        (nodes[i], nodes[j]): w
        for i, j, w in zip(entries.row, entries.col, entries.data, strict=True)
    }
    assert found == {pair: weight for pair, weight in total.items() if weight}
    assert set(nodes) == {name for u, v, _ in edges for name in (u, v)}
