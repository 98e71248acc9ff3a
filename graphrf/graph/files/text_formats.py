"""Files of other formats that look like lists of edges: what they are, and what reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_PASS = "and pass its graph"
# What the first line of a file that is no comment begins with, its format, and what reads it.
_BEGINNINGS = (
    (r"%%MatrixMarket", "a MatrixMarket file", "give it a name that ends in .mtx"),
    (
        r"\*(vertices|network|arcs|edges)\b",
        "a Pajek file",
        f"read it by networkx.read_pajek {_PASS}",
    ),
    (r"LEDA\.GRAPH", "a LEDA file", f"read it by networkx.read_leda {_PASS}"),
    (r">>graph6<<", "a graph6 file", f"read it by networkx.read_graph6 {_PASS}"),
    (r">>sparse6<<", "a sparse6 file", f"read it by networkx.read_sparse6 {_PASS}"),
    (r"dl\s+n\s*=", "a DL file of UCINET", f"read it by igraph.Graph.Read_DL {_PASS}"),
    (r"nodedef\s*>", "a GDF file", "write it as GraphML or GEXF, by Gephi"),
    (
        r"(Creator\b.*\s+)?(Version\b.*\s+)?graph\s*\[",
        "a GML file",
        "give it a name that ends in .gml",
    ),
    (
        r"(strict\s+)?(di)?graph\b[^\n\[]*\{",
        "a DOT file",
        f"read it by networkx.nx_pydot.read_dot {_PASS}",
    ),
    (
        r"(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)*<gexf\b",
        "a GEXF file",
        f"read it by networkx.read_gexf {_PASS}",
    ),
    (
        r"(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)*<graphml\b",
        "a GraphML file",
        "give it a name that ends in .graphml",
    ),
    (r"<\?xml\b", "an XML file", f"read it by its own reader {_PASS}"),
    (
        r"\{\s*[\"}\n]|\[\s*[\[{\"]|\[\s*$",
        "JSON",
        (
            "read it by json.load, and pass networkx.node_link_graph(...), a dictionary or a list "
            "of pairs"
        ),
    ),
)
_BEGINS = [
    (re.compile(start, re.IGNORECASE | re.DOTALL), what, way) for start, what, way in _BEGINNINGS
]
# Characters at the beginning that show the format.
_START = 2000
_DIMACS = (
    "in DIMACS format; pass columns=(1, 2) with the data frame of its lines of edges, "
    "pandas.DataFrame([line.split() for line in open(path) if line[:2] in ('a ', 'e ')])"
)
_AS_EDGES = "; if it is a list of edges, pass columns=(0, 1)"
# Lines of a DIMACS file that show what it is.
_FEW = 1000


def check_format(text: str, *, columns_given: bool) -> None:
    """Raise `ValueError` for the text of another format; of fewer if the columns are given."""
    for pattern, what, way_out in _BEGINS:
        if pattern.match(_first_lines(text)):
            raise ValueError(f"it seems to be {what}; {way_out}")
    rows = list(_rows(text, _FEW))
    _check_dimacs(rows, columns_given)
    if columns_given or not rows:
        return
    if "% bip" in text[:_START] and re.match(r"% bip\b", text):
        raise ValueError(
            "it is a bipartite graph of KONECT, whose two kinds of nodes are both counted from 1; "
            "read it by pandas.read_csv(path, sep=r'\\s+', comment='%', header=None), make the "
            "names of one kind differ, as by frame[1] = 'b' + frame[1].astype(str), and pass the "
            f"data frame{_AS_EDGES}"
        )
    _check_spatial(rows)
    _check_trivial(text)
    if 2 <= len(rows[0]) <= 4 and _integers(rows[0]) and _may_count(text, rows[0]):
        _check_counted(
            [line.split() for line in text.split("\n") if line.lstrip()[:1] not in ("#", "%")]
        )


def _check_dimacs(rows: list[list[str]], columns_given: bool) -> None:
    """ValueError for a DIMACS file, known by its line of the problem or by its lines of edges."""
    problem = next((row for row in rows if row[0] != "c"), [])
    if re.fullmatch(r"p \S+ \d+ \d+", " ".join(problem)):
        raise ValueError(f"it is {_DIMACS}")
    if columns_given or not rows:
        return
    if all(row[0] in ("a", "e") and len(row) in (3, 4) and _integers(row[1:3]) for row in rows):
        raise ValueError(f"it seems to be {_DIMACS}{_AS_EDGES}")


def _first_lines(text: str) -> str:
    """The beginning of the text, without comments that begin with a marker and a space."""
    return re.sub(r"\A(\s*([#%]([ \t][^\n]*)?\n))*\s*", "", text[:_START])


def _rows(text: str, most: int) -> Iterator[list[str]]:
    """The words of the first lines that are neither blank nor begin with a marker."""
    for found in re.finditer(r"^[^\S\n]*[^\s#%][^\n]*", text, re.MULTILINE):
        if most == 0:
            return
        most -= 1
        yield found[0].split()


def _integers(cells: Sequence[str]) -> bool:
    return all(cell.isascii() and cell.isdigit() for cell in cells)


def _check_spatial(rows: list[list[str]]) -> None:
    """ValueError for files of neighbours of spatial statistics: GAL and GWT."""
    if len(rows) < 3 or not (
        _integers(rows[0]) if len(rows[0]) == 1 else len(rows[0]) == 4 and rows[0][0] == "0"
    ):
        return
    way_out = "read it by libpysal.io.open(path, 'r', {!r}).read() and pass the result"
    second = rows[1]
    if len(second) == 2 and second[1].isdigit() and len(rows[2]) == int(second[1]):
        raise ValueError(f"it seems to be a GAL file of neighbours; {way_out.format('gal')}")
    if len(rows[0]) == 4 and len(second) == 3:
        raise ValueError(f"it seems to be a GWT file of neighbours; {way_out.format('gwt')}")


def _check_trivial(text: str) -> None:
    """ValueError for a file of the Trivial Graph Format: nodes, a line that is #, and edges."""
    parts = re.split(r"^#[^\S\n]*$", text, maxsplit=2, flags=re.MULTILINE)
    if len(parts) != 2:
        return
    nodes, edges = ([row.split() for row in part.split("\n") if row.strip()] for part in parts)
    names = {row[0] for row in nodes}
    if (
        nodes
        and edges
        and len(names) == len(nodes)
        and all(len(row) > 1 and names >= {*row[:2]} for row in edges)
    ):
        raise ValueError(
            "it seems to be in the Trivial Graph Format, whose edges are the lines below #; keep "
            f"only these{_AS_EDGES}"
        )


def _may_count(text: str, head: list[str]) -> bool:
    """True if a number of the first line may be that of the lines below."""
    most = text.count("\n") + 1
    least = most - sum(text.count(start) for start in ("\n\n", "\n#", "\n%", "\n ", "\n\t")) - 3
    return any(len(cell) < 19 and least <= int(cell) <= most for cell in head[:2])


def _check_counted(rows: list[list[str]]) -> None:
    """ValueError for a first line that counts nodes and edges, as in METIS files."""
    while not rows[0]:
        del rows[0]
    head, below = rows[0], rows[1:]
    n_blank = 0  # lines of nodes without neighbours, or nothing
    while below and not below[-1]:
        below.pop()
        n_blank += 1
    if not all(map(_integers, below)):
        return
    n_nodes, n_edges = int(head[0]), int(head[1])
    if len(below) <= n_nodes <= len(below) + n_blank and _is_metis(head, below, n_edges):
        raise ValueError(
            "it seems to be in METIS format, a line of neighbours for each node; read it by "
            f"networkit.readGraph(path, networkit.Format.METIS) {_PASS}{_AS_EDGES}"
        )
    if len(head) == 2 and _are_counted(n_nodes, n_edges, [row for row in below if row]):
        raise ValueError(
            f"its first line, {head[0]} {head[1]}, seems to count the nodes and edges below; begin "
            f"it with # and a space{_AS_EDGES}"
        )


def _are_counted(n_nodes: int, n_edges: int, edges: list[list[str]]) -> bool:
    """True if there are so many edges, and their ends are so many nodes."""
    if not len(edges) == n_edges >= 3 or not all(len(row) in (2, 3) for row in edges):
        return False
    ends = {int(end) for row in edges for end in row[:2]}
    return len(ends) == n_nodes or max(ends) - n_nodes in (-1, 0)


def _is_metis(head: list[str], below: list[list[str]], n_edges: int) -> bool:
    """True if line i has the neighbours of node i, from 1, weighted as the first line says."""
    kind = head[2].zfill(3) if len(head) > 2 else "000"
    if not re.fullmatch("[01]{3}", kind):
        return False
    ahead = (kind[0] == "1") + (kind[1] == "1") * (int(head[3]) if len(head) > 3 else 1)
    step = 1 + (kind[2] == "1")
    rows = [[int(cell) for cell in row[ahead::step]] for row in below]
    if sum(map(len, rows)) != 2 * n_edges or any((len(row) - ahead) % step for row in below):
        return False
    arcs = {(node, other) for node, row in enumerate(rows, start=1) for other in row}
    return bool(arcs) and all(node != other and (other, node) in arcs for node, other in arcs)
