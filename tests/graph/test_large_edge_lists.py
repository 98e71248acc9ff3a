"""Large edge lists are read by a compiled loop where rows are plain, with the same result."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrf.graph.files import text_files
from graphrf.graph.files.text_files import TextSizes, read_edge_list
from tests.fuzz.test_edge_lists import GOOD, harmed, hostile_text, options

PLAIN = ["0", "1", "7", "-3", "12", "120", "123456789012345678", "-999999999999999999"]
ODD = [
    "007",
    "+1",
    "-0",
    "00",
    "-",
    "1_0",
    " 1",
    "1 ",
    "",
    "1.0",
    "1e3",
    "a",
    "é",
    "٣",
    '"1"',
    "#1",
    "%1",
    "1\t",
]
ODD += [
    "\u2003",
    "1\x0b",
    "\x1c1",
    "1234567890123456789",
    "9223372036854775808",
    "-9223372036854775809",
    "9" * 30,
]
WEIGHTS = [
    "1",
    "0.5",
    "-2",
    "1e-3",
    ".5",
    "nan",
    "1e999",
    "1_0",
    "x",
    "",
    " 2 ",
    "é",
    "a b",
    "#",
    "+1",
    "007",
]
TITLES = [
    "source",
    "target",
    "weight",
    "u",
    "v",
    "",
    "1",
    "node1",
    "node2",
    "year",
    "id",
    "length",
    "source",
]


def outcome(path, large, **given):
    """What is read with this bound of large files, or the words with which it is refused."""
    try:
        edges = read_edge_list(path, **given, sizes=TextSizes(large, sample=24))
    except (ValueError, MemoryError) as error:
        return type(error), str(error)
    weight = None if edges.weight is None else edges.weight.tolist()
    arrays = edges.src.tolist(), edges.dst.tolist(), edges.lines.tolist(), repr(weight)
    dtypes = edges.src.dtype, edges.dst.dtype, edges.lines.dtype
    nodes = list(edges.nodes)
    return *arrays, nodes, set(map(type, nodes)), dtypes, edges.weight_title, edges.others


def check(path, content, **given):
    """Both ways to read it have one outcome, which is returned."""
    path.write_bytes(content)
    by_loop, others = outcome(path, 0, **given), outcome(path, 2**60, **given)
    assert by_loop == others
    return by_loop


def some_text(rng):
    """Rows of integers with a column of numbers or none; often a few cells are unusual."""
    mark, width = rng.choice([",", "\t", ";", " ", " ", "  "]), rng.choice([2, 2, 3, 3, 4])
    rows = [[rng.choice(PLAIN) for _ in range(2)] for _ in range(rng.randrange(1, 9))]
    rows = [[*row, *(rng.choice(WEIGHTS[:5]) for _ in range(width - 2))] for row in rows]
    if rng.random() < 0.1:
        rows = [[str(place), str((place + 1) % 3), str((place + 2) % 3)] for place in range(3)]
    for _ in range(rng.choice([0, 0, 0, 1, 1, 2])):
        row, column = rng.choice(rows), rng.randrange(len(rows[0]))
        row[column] = rng.choice(ODD if column < 2 else WEIGHTS)
    if rng.random() < 0.1:
        rng.choice(rows).append("1")
    if rng.random() < 0.5:
        rows.insert(0, rng.choices(TITLES, k=len(rows[0])))
    lines = [mark.join(row) for row in rows]
    for _ in range(rng.choice([0, 0, 1, 2])):
        lines.insert(
            rng.choice([0, 0, 0, 1, len(lines)]),
            rng.choice(["# comment", "%", "", "  ", "\t#", '# "']),
        )
    return (
        rng.choice(["\n", "\n", "\r\n"]).join(lines) + rng.choice(["\n", "\n", "", "\n\n"])
    ).encode()


@given(st.integers(0, 2**64 - 1))
def test_both_ways_to_read_an_edge_list_agree(tmp_path_factory, seed):
    rng = random.Random(seed)
    content = some_text(rng)
    if rng.random() < 0.3:
        content = (
            hostile_text(rng) if rng.random() < 0.3 else harmed(rng.choice([content, *GOOD]), rng)
        )
    check(tmp_path_factory.getbasetemp() / "edges.csv", content, **_readers(options(rng)))


def _readers(given):
    """The options that are those of `read_edge_list`."""
    return {name: value for name, value in given.items() if name in ("columns", "weight", "header")}


@pytest.fixture
def by_loop(monkeypatch):
    """Whether each file was read by the loop, in their order."""
    taken = []
    large_table = text_files._large_table

    def noted(*given):
        table = large_table(*given)
        taken.append(table is not None)
        return table

    monkeypatch.setattr(text_files, "_large_table", noted)
    return taken


def test_the_texts_take_both_ways(tmp_path, by_loop):
    for seed in range(60):
        check(tmp_path / "edges.csv", some_text(random.Random(seed)))
    assert 12 < sum(by_loop[::2]) < 48
    assert not any(by_loop[1::2])


PLAIN_FILES = {
    "pairs": ("3,1\n1,-2\n", {}),
    "no newline at the end": ("3,1\n1,-2", {}),
    "comments above": ("# nodes: 3\n%\n\n3\t1\n1\t2\n", {}),
    "titles": ("source,target\n3,1\n1,2\n", {}),
    "weights by title": ("source,target,weight\n3,1,0.25\n1,2,1e3\n", {"weight": "weight"}),
    "weights by place": ("3 1 .5\n1 2 7\n", {"weight": 2}),
    "other columns": ("id,from,to,name\n7,3,1,A é\n8,1,2,\n", {"columns": ("to", "from")}),
    "one column twice": ("a,b\n3,1\n1,2\n", {"columns": (0, "a")}),
    "a weight that is an end": ("3,1\n1,2\n", {"weight": 1}),
    "far apart": ("3,1000000000000\n1,2\n", {}),
}


@pytest.mark.parametrize("name", PLAIN_FILES)
def test_plain_files_are_read_by_the_loop(tmp_path, by_loop, name):
    content, given = PLAIN_FILES[name]
    edges = check(tmp_path / "edges.csv", content.encode(), **given)
    assert by_loop == [True, False]
    assert edges[5] == {int}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("mark", [",", " "])
def test_what_is_no_plain_integer_is_left_to_the_other_reader(tmp_path, odd, mark):
    for row in (f"{odd}{mark}2", f"2{mark}{odd}"):
        check(tmp_path / "edges.csv", f"1{mark}2\n2{mark}3\n{row}\n3{mark}4\n".encode())


def test_a_file_above_the_bound_is_read_by_the_loop(tmp_path, by_loop):
    rng = np.random.default_rng(0)
    ends = rng.integers(10**6, 10**6 + 500, (140_000, 2))
    path = tmp_path / "edges.csv"
    np.savetxt(path, ends, fmt="%d", delimiter=",")
    assert path.stat().st_size > TextSizes().large
    edges = read_edge_list(path)
    assert by_loop == [True]
    nodes = np.asarray(edges.nodes)
    np.testing.assert_array_equal(np.c_[nodes[edges.src], nodes[edges.dst]], ends)
    np.testing.assert_array_equal(edges.lines, np.arange(1, 140_001))
    assert nodes.tolist() == sorted(set(ends.ravel().tolist()))
