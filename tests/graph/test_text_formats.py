"""Files of other formats in the guise of edge lists are refused with their readers' names."""

import networkx as nx
import pandas
import pytest

from graphrf import load_graph
from tests.graph.test_loaders import write

RING = nx.cycle_graph(5)
TWICE = nx.DiGraph([(i, (i + k) % 5) for i in range(5) for k in (1, 2)])


def written(function, graph, **options):
    """The text that a function of networkx writes, which takes a path."""

    def make(folder):
        function(graph, folder / "written", **options)
        return (folder / "written").read_text()

    return make


FORMATS = {
    "DIMACS with weights": ("c x\np sp 4 3\na 1 2 3\na 2 3 4\na 3 4 1\n", "DIMACS.*columns="),
    "DIMACS without": ("p edge 4 3\ne 1 2\ne 2 3\ne 3 4\n", "DIMACS"),
    "arcs of DIMACS": (
        "a 1 2\na 2 3\na 3 4\n",
        r"DIMACS.*if it is a list of edges, pass columns=\(0, 1\)",
    ),
    "METIS": ("% c\n4 3\n2\n1 3\n2 4\n3\n", "METIS.*networkit"),
    "METIS of equal rows": ("4 4\n2 4\n1 3\n2 4\n1 3\n", "METIS"),
    "METIS with an isolated node": ("3 1\n2\n1\n\n", "METIS"),
    "METIS with weights": ("4 2 001\n2 5\n1 5\n4 1\n3 1\n", "METIS"),
    "METIS with weights of nodes": ("3 2 10\n7 2\n9 1 3\n5 2\n", "METIS"),
    "counts": ("4 3\n1 2\n2 3\n3 4\n", "seems to count the nodes and edges below"),
    "Pajek": (written(nx.write_pajek, RING), r"networkx\.read_pajek"),
    "GAL": ("3\na 1\nb\nb 2\na c\nc 1\nb\n", "libpysal.io.open"),
    "GAL with a title": ("0 3 map id\na 1\nb\nb 2\na c\nc 1\nb\n", "libpysal.io.open"),
    "GWT": ("0 3 map id\na b 1.0\nb a 1.0\nb c 2\n", "GWT.*libpysal.io.open"),
    "KONECT, bipartite": ("% bip unweighted\n1 2\n2 3\n", "KONECT"),
    "adjacency list": (written(nx.write_adjlist, RING), r"networkx\.read_adjlist"),
    "adjacency list of equal rows": (written(nx.write_adjlist, TWICE), r"networkx\.read_adjlist"),
    "adjacency list with commas": (
        written(nx.write_adjlist, TWICE, delimiter=","),
        r"networkx\.read_adjlist",
    ),
    "adjacency list by lines": (
        written(nx.write_multiline_adjlist, RING),
        r"networkx\.read_multiline_adjlist",
    ),
    "attributes": (written(nx.write_edgelist, nx.karate_club_graph()), r"networkx\.read_edgelist"),
    "LEDA": ("LEDA.GRAPH\nstring\nint\n-1\n2\n", r"networkx\.read_leda"),
    "GraphML": (written(nx.write_graphml, RING), r"name that ends in \.graphml"),
    "GEXF": (written(nx.write_gexf, RING), r"networkx\.read_gexf"),
    "GML": (written(nx.write_gml, RING), r"name that ends in \.gml"),
    "graph6": (written(nx.write_graph6, RING), r"networkx\.read_graph6"),
    "DOT": ("strict graph roads {\n a -- b;\n}\n", "read_dot"),
    "JSON": ('{"nodes": [], "links": []}', "networkx.node_link_graph"),
    "JSON of rows": ('[\n{"source": 1, "target": 2}\n]', "json.load"),
    "trivial": ("1 A\n2 B\n#\n1 2\n", "Trivial Graph Format"),
    "MatrixMarket": (
        "%%MatrixMarket matrix coordinate real general\n3 3 1\n1 2 1\n",
        r"ends in \.mtx",
    ),
    "UCINET": ("dl n = 3\nformat = edgelist1\ndata:\n1 2\n", "Read_DL"),
}


@pytest.mark.parametrize(("text", "message"), FORMATS.values(), ids=FORMATS.keys())
def test_other_formats_are_refused_with_their_reader(tmp_path, text, message):
    path = write(tmp_path, "e.txt", text(tmp_path) if callable(text) else text)
    with pytest.raises(ValueError, match=rf"e\.txt[,:] .*{message}"):
        load_graph(path)


LISTS = [
    ("# Nodes: 3 Edges: 2\n# FromNodeId\tToNodeId\n0\t1\n1\t2\n", {}, (3, 2)),  # of SNAP
    ("#FromNodeId ToNodeId\n0 1\n1 2\n", {}, (3, 2)),
    ("% sym unweighted\n% 2 3 3\n1 2\n2 3\n", {}, (3, 2)),  # of KONECT
    ("1 2 {}\n2 3 {}\n", {}, (3, 2)),
    ("a 1 2\na 2 3\n", {"columns": (0, 1)}, (3, 2)),
    ("a 1 0.5\na 2 1.5\n", {}, (3, 2)),  # a star
    ("4 4\n2 4\n1 3\n2 4\n1 3\n", {"columns": (0, 1)}, (4, 3)),
    ("3 5\n1 2\n2 3\n", {}, (4, 3)),
    ("0,1,2\n1,2,5\n2,0,1\n", {}, (3, 3)),
    ("0,1,1\n1,2,2\n2,0,1\n", {}, (3, 3)),
    ("e 1 x\ne 2 y\n", {}, (3, 2)),
    ("graph theory\ntheory physics\n", {}, (3, 2)),
]


@pytest.mark.parametrize(("text", "options", "size"), LISTS)
def test_lists_of_edges_that_only_resemble_another_format_are_read(tmp_path, text, options, size):
    graph = load_graph(write(tmp_path, "e.txt", text), **options)
    assert (graph.n_nodes, graph.n_edges) == size


def test_the_way_out_of_dimacs_works(tmp_path):
    path = write(tmp_path, "e.txt", "c x\np sp 4 3\na 1 2 3\na 2 3 4\na 3 4 1\n")
    frame = pandas.DataFrame(
        [line.split() for line in path.read_text().split("\n") if line[:2] in ("a ", "e ")]
    )
    graph = load_graph(frame, columns=(1, 2), weight=3)
    assert (graph.nodes, graph.adjacency.data.tolist()) == (
        ("1", "2", "3", "4"),
        [3, 3, 4, 4, 1, 1],
    )
