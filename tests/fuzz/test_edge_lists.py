"""The reader of edge lists under any input: a sound graph, or an error that names the file."""

from __future__ import annotations

import gzip
import random
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrf.graph.graph import Graph
from graphrf.graph.loaders import load_graph
from tests.support.bounds import within

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="bounds on time and memory are those of Linux"),
    # What is said of weights and directions that a file has and that nobody asked for.
    pytest.mark.filterwarnings("ignore:(the graph is unweighted|the weights in|parallel edges|this MultiDiGraph)"),
]

# Pieces of which hostile lines are made: what Python, csv and NumPy read in their own ways.
PIECES = (
    *("0", "1", "7", "12", "-3", "+1", "007", "1_0", "10" * 20, "9" * 5000, "1e999", "1e308", "1.7e308", "1e-308"),
    *(
        "1e-320",
        "5e-324",
        "nan",
        "-inf",
        "0x1p3",
        "1.",
        ".5",
        "1e5",
        "٣",
        "²",
        "Ⅷ",
        "a",
        "b",
        "é",
        "源",
        "\U0001f600",
    ),
    *(
        "source",
        "target",
        "from",
        "to",
        "NA",
        "null",
        "",
        " ",
        "\t",
        ",",
        ";",
        "|",
        '"',
        '""',
        "'",
        "\\",
        "#",
        "%",
    ),
    *("\n", "\n", "\r", "\r\n", "\x00", "\x0b", "\x0c", "\x1c", "\x85", "\xa0", "\u2028", "\u3000", "\ufeff"),
    *("\u202e", "\u0301", "1" * 3000 + "x", "#" * 300, '"' * 301, "," * 200, "=1+1", "../..", "\ud7ff"),
)
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
    rows = [delimiter.join(rng.choices(PIECES[:36], k=width)) for _ in range(rng.randrange(1, 6))]
    return rng.choice(("\n", "\n", "\r\n", "\n\n")).join(rows).encode()


def mutated(good: bytes, rng: random.Random) -> bytes:
    """A good file with bits flipped, parts cut, doubled or put elsewhere, numbers made huge, and bytes between."""
    content = bytearray(good)
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        at, to = (rng.randrange(len(content) + 1) for _ in range(2))
        at, to = min(at, to), max(at, to)
        way = rng.randrange(7)
        if way == 0 and content:
            content[min(at, len(content) - 1)] ^= 1 << rng.randrange(8)
        elif way == 1:
            del content[at : at + rng.randrange(1, 9)]
        elif way == 2:
            del content[at:to]
        elif way == 3:
            content[at:at] = content[at : min(to, at + 40)]
        elif way == 4:
            content[at:at] = rng.choice(PIECES).encode()
        elif way == 5:
            content[at : at + 1] = rng.choice((b"\xff", b"\x00", b"99999999999999999999", b"-1", b"4294967296"))
        else:
            content = content[:at] + content[to:] + content[at:to]
    return bytes(content)


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


def check_sound(graph: Graph) -> None:
    """What every graph promises: finite positive weights, sorted distinct columns, symmetry, names."""
    adjacency = graph.adjacency
    assert (adjacency.data > 0).all()
    assert np.isfinite(adjacency.data).all()
    assert adjacency.has_canonical_format
    adjacency = sp.csr_array((adjacency.data, adjacency.indices, adjacency.indptr), shape=adjacency.shape)
    adjacency.check_format(full_check=True)
    assert adjacency.has_canonical_format  # looked up anew
    assert graph.directed or (adjacency != adjacency.T).nnz == 0
    assert len(set(graph.nodes)) == graph.n_nodes >= 1


def read(content: bytes, suffix: str, **given) -> Graph | str:
    """The graph of a file with this content, once it is sound, or the words with which it is refused."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"x{suffix}"
        path.write_bytes(gzip.compress(content, 1) if suffix.endswith(".gz") else content)
        try:
            with within(seconds=5, megabytes=200):
                graph = load_graph(path, **given)
        except (ValueError, MemoryError) as error:
            message = str(error)
            assert len(message) < 1000
            assert "not done after" not in message
            assert "x.csv" in message or f"x{suffix}" in message or "`columns`" in message
            return message
    check_sound(graph)
    return graph


@given(st.integers(0, 2**64 - 1))
def test_any_text_is_a_sound_graph_or_refused_by_name(seed):
    rng = random.Random(seed)
    content = hostile_text(rng) if rng.random() < 0.5 else mutated(rng.choice(GOOD), rng)
    read(content, rng.choice(SUFFIXES), **options(rng))


@given(st.binary(max_size=60))
def test_any_bytes_are_a_sound_graph_or_refused_by_name(content):
    read(content, ".csv")
    read(content, ".csv", weight=2, header=True)


def test_the_fuzzers_reach_both_ends():
    # A fuzzer whose inputs are all refused, or all read, would look at half of the code.
    results = []
    for seed in range(300):
        rng = random.Random(seed)
        content = hostile_text(rng) if rng.random() < 0.5 else mutated(rng.choice(GOOD), rng)
        results.append(isinstance(read(content, ".csv", **options(rng)), Graph))
    assert 30 < sum(results) < 270


NAMES = st.one_of(
    st.integers(-5, 5).map(str), st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=4)
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
    found = {(nodes[i], nodes[j]): w for i, j, w in zip(entries.row, entries.col, entries.data, strict=True)}
    assert found == {pair: weight for pair, weight in total.items() if weight}
    assert set(nodes) == {name for u, v, _ in edges for name in (u, v)}
