"""Comments, separators, quotation marks and tuples of edge lists: read right, or refused."""

import networkx as nx
import numpy as np
import pytest

from graphrf import load_graph
from tests.graph.test_loaders import write


def edges(graph):
    """The edges as a set of sets of names."""
    rows, columns = graph.adjacency.nonzero()
    return {frozenset((graph.nodes[i], graph.nodes[j])) for i, j in zip(rows, columns, strict=True)}


def pairs(text):
    return {frozenset(pair.split("~")) for pair in text.split(" | ")}


READ = [
    # names that begin with a marker, and comments
    ("sun,#beach\n#beach,fish\n#fish,sun\n", "sun~#beach | #beach~fish | #fish~sun"),
    ("#beach,fish\nsun,#beach\n#fish,sun\n", "#beach~fish | sun~#beach | #fish~sun"),
    ("%x y\ny %x\ny z\n", "%x~y | y~z"),
    ("source,target\n#sea,ann\n#sun,bob\n", "#sea~ann | #sun~bob"),
    ('"#beach",fish\nfish,sun\n', "#beach~fish | fish~sun"),
    ("#source,target\na,b\nb,c\n", "a~b | b~c"),
    ("# c\na b\n% c\n#\n  ## c\nb c\n", "a~b | b~c"),
    # marks within names
    ("Smith,J Doe,A\nDoe,A Roe,B\n", "Smith,J~Doe,A | Doe,A~Roe,B"),
    ("Smith,J Doe,A 3\nDoe,A Roe,B 4\n", "Smith,J~Doe,A | Doe,A~Roe,B"),
    ("Smith,J Doe\nDoe Roe,B\n", "Smith,J~Doe | Doe~Roe,B"),
    ("Smith,J;Doe,A\nDoe,A;Roe,B\n", "Smith,J~Doe,A | Doe,A~Roe,B"),
    ("Smith, J\tDoe, A\nDoe, A\tRoe, B\n", "Smith, J~Doe, A | Doe, A~Roe, B"),
    ("a;b,c;d\nc;d,e;f\n", "a;b~c;d | c;d~e;f"),
    ("New York,Boston\nBoston,San Jose\n", "New York~Boston | Boston~San Jose"),
    ("New York,San Jose\nSan Jose,El Paso\n", "New York~San Jose | San Jose~El Paso"),
    ("New York,Boston,3\nSan Jose,Dallas,4\n", "New York~Boston | San Jose~Dallas"),
    ("ann,bob,good friend\nbob,cleo,old friend\n", "ann~bob | bob~cleo"),
    ("a b\nc b\nb 1,2-x\n", "a~b | c~b | b~1,2-x"),
    # white space, and spaces beside marks
    ("a   b  1.0\nbb  c   2\n", "a~b | bb~c"),
    ("a\tb\nb c\n", "a~b | b~c"),
    ("a, b\nb, c\n", "a~b | b~c"),
    ("a,\tb\nb,\tc\n", "a~b | b~c"),
    # quotation marks
    ('"New York" Boston\nBoston "San Jose"\n', "New York~Boston | Boston~San Jose"),
    ('"Smith, J";"Doe; A"\n"Doe; A";x\n', "Smith, J~Doe; A | Doe; A~x"),
    # decimal commas
    ("a;b;1,5\nb;c;2,5\n", "a~b | b~c"),
    ("a b 1,5\nb c 2\n", "a~b | b~c"),
]


@pytest.mark.parametrize(("text", "wanted"), READ)
def test_one_separator_serves_the_whole_file(tmp_path, text, wanted):
    assert edges(load_graph(write(tmp_path, "e.txt", text))) == pairs(wanted)


REFUSED = [
    (
        "a b\n#note\nb c\n",
        "line 2: 1 columns .*'#note' after 'a b'; if it is a comment, write a space after",
    ),
    ("1 2\n#5 6\n2 3\n", "line 2: '#5 6' may be a comment or an edge"),
    ("a b\nb c\n#a c\n", "line 3: '#a c' may be a comment or an edge"),
    ("#beach,fish\nfish,sun\n", "line 1: '#beach,fish' may be a comment or an edge"),
    (
        "#beach,ann\n#sun,bob\n",
        "where names begin with # or %, titles such as source,target are needed above",
    ),
    (
        "a,b\nb,c\nc;d\n",
        "line 3: 1 columns where the lines above have 2, parted by commas: 'c;d' after 'b,c'",
    ),
    (
        "a b\nb c\nc,d\n",
        "line 3: 1 columns where the lines above have 2, parted by white space: 'c,d' after",
    ),
    ("a\nb,c\n", "line 1: one column, where line 2 has 2: 'a' and 'b,c'"),
    (
        "New York,Boston\nSan Jose,Dallas\n",
        r"line 1: .* may be \['New York', 'Boston'\] \(commas\) or \['New',",
    ),
    (
        "New York,Boston,3\nSan Jose,Dallas\n",
        r"line 2: 2 columns .* \(white space would part all lines",
    ),
    ("a b 1,5\nb c 2,5\n", "line 1: 'a b 1,5' may have decimal commas between white space"),
    ('a,b\n"b,c\n', "line 2: quotation marks do not match"),
    ("(a, b) (c, d)\n(c, d) (e, f)\n", r"line 1: '\(a, b\) \(c, d\)'"),
    ("x (a b)\ny (c d)\n", r"line 1: 'x \(a b\)' has names in brackets, which are cut in parts"),
    (
        "1 2 {}\n2 3 {'w': 1}\n",
        r"line 2: it ends with attributes in braces.*networkx\.read_edgelist",
    ),
    (
        "0 1 3\n1 2\n2 3\n3\n",
        "line 2: 2 columns.*lists a node and its neighbours.*networkx.read_adjlist",
    ),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_lines_that_disagree_are_refused_and_shown(tmp_path, text, message):
    with pytest.raises(ValueError, match=rf"e\.txt[,:] .*{message}"):
        load_graph(write(tmp_path, "e.txt", text))


def test_commas_part_the_cells_of_a_csv_file_where_spaces_might_too(tmp_path):
    graph = load_graph(write(tmp_path, "e.csv", "New York,Boston\nSan Jose,Dallas\n"))
    assert edges(graph) == pairs("New York~Boston | San Jose~Dallas")


@pytest.mark.parametrize(
    "text", ["{} {}\n", "{} {} {{}}\n", "{},{}\n", "{}\t{}\t0.5\n", "{} {} 0.5\n"]
)
@pytest.mark.parametrize(
    "names", [None, lambda node: ("a", node[0], -0.5 * node[1]), lambda node: (f"x y{node}", 1)]
)
def test_tuples_are_names(tmp_path, text, names):
    lattice = nx.grid_2d_graph(3, 3)
    if names is not None:
        lattice = nx.relabel_nodes(lattice, {node: names(node) for node in lattice})
    if names is not None and "(" in str(names((0, 0))[0]):
        lattice = nx.relabel_nodes(
            lattice, {node: (node[0].replace("(", "").replace(")", ""), 1) for node in lattice}
        )
    path = write(tmp_path, "e.txt", "".join(text.format(u, v) for u, v in lattice.edges))
    graph = load_graph(path)
    assert (graph.n_nodes, graph.n_edges) == (9, 12)
    assert edges(graph) == {frozenset(edge) for edge in lattice.edges}
    np.testing.assert_array_equal(
        graph.index(list(lattice)), [graph.nodes.index(node) for node in lattice]
    )


def test_text_in_parentheses_stays_text(tmp_path):
    graph = load_graph(write(tmp_path, "e.csv", '"(0, 0)",Paris (France)\nParis (France),(007)\n'))
    assert graph.nodes == ("(0, 0)", "Paris (France)", "(007)")


def test_weights_beside_tuples_and_names_with_commas(tmp_path):
    graph = load_graph(write(tmp_path, "e.txt", "(0, 0) (1, 0) 2.5\n(1, 0) (1, 1) 1\n"), weight=2)
    np.testing.assert_array_equal(graph.adjacency.toarray(), [[0, 2.5, 0], [2.5, 0, 1], [0, 1, 0]])
    graph = load_graph(write(tmp_path, "e.txt", "Smith,J Doe,A 3\nDoe,A Roe,B 4\n"), weight=2)
    np.testing.assert_array_equal(graph.adjacency.toarray(), [[0, 3, 0], [3, 0, 4], [0, 4, 0]])
