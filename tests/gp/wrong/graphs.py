"""Wrong graphs, domains and kernels."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import pandas

import graphrf as grf
from graphrf import GraphGPClassifier as Classifier
from graphrf import GraphGPRegressor as Regressor
from graphrf.gp import Field, FieldGPRegressor, GraphTimeGPRegressor, Nodes
from tests.gp.wrong.shared import (
    DIRECTED,
    EDGES,
    LABELS,
    MATERN,
    NAMED,
    PLACES,
    READINGS,
    ROADS,
    XY,
    XYZ,
    Y,
    areas,
    mesh,
    points,
    surface,
    wrong,
)

GRAPHS = {
    "points as a frame": wrong(
        lambda: Nodes(pandas.DataFrame(XY, columns=["x", "y"]), MATERN),
        TypeError,
        *("`graph`", "a DataFrame of shape (6, 2)", "from_points(frame[['x', 'y']]", "load_graph"),
    ),
    "points": wrong(
        lambda: Regressor(XYZ).fit([0], [1.0]),
        TypeError,
        *("`graph`", "an array of shape (6, 3)", "graphrf.from_points(points)"),
    ),
    "points through time": wrong(
        lambda: GraphTimeGPRegressor(XY).fit(READINGS), TypeError, "`graph`", "from_points(points)"
    ),
    "points of a map": wrong(
        lambda: Nodes(points(), MATERN), TypeError, "`graph`", "GeoDataFrame", "from_points("
    ),
    "a map": wrong(
        lambda: Nodes(areas(), grf.BYM2()),
        TypeError,
        *("`graph`", "a GeoDataFrame", "load_graph(frame.set_index('name'))"),
    ),
    "a map for classes": wrong(
        lambda: Classifier(areas()).fit(PLACES, LABELS), TypeError, "`graph`", "set_index('name')"
    ),
    "a path": wrong(
        lambda: Nodes("streets.graphml", MATERN),
        TypeError,
        *("`graph`", "str 'streets.graphml'", "load_graph('streets.graphml')"),
    ),
    "a path object": wrong(
        lambda: Regressor(Path("a.csv")).fit([0], [1.0]),
        TypeError,
        *("`graph`", "Path", "load_graph('a.csv')"),
    ),
    "a surface": wrong(
        lambda: Nodes(surface(), MATERN), TypeError, "`graph`", "Trimesh", "load_graph(mesh)"
    ),
    "edges": wrong(
        lambda: Regressor(EDGES).fit([0], [1.0]),
        TypeError,
        *("`graph`", "a DataFrame", "load_graph(frame) makes one of a table of edges"),
    ),
    "a mesh for a graph": wrong(
        lambda: Nodes(mesh(), MATERN), TypeError, "`graph`", "TriangleMesh", "the term Field"
    ),
    "streets for a graph": wrong(
        lambda: Regressor(ROADS).fit([0], [1.0]),
        TypeError,
        *("`graph`", "MetricGraph", "FieldGPRegressor"),
    ),
    "a directed graph": wrong(
        lambda: Regressor(DIRECTED).fit([0, 1], Y[:2]), ValueError, "`graph`", "to_undirected()"
    ),
    "a graph for a domain": wrong(
        lambda: FieldGPRegressor(NAMED).fit(XY, Y),
        TypeError,
        *("`domain`", "Graph(6 nodes", "MetricGraph(src, dst, length)", "GraphGPRegressor"),
    ),
    "a graph for a field": wrong(
        lambda: Field(NAMED), TypeError, "`domain`", "Graph(6 nodes", "GraphGPRegressor"
    ),
    "points for a domain": wrong(
        lambda: FieldGPRegressor(XY).fit(XY, Y),
        TypeError,
        *("`domain`", "an array of shape (6, 2)", "TriangleMesh.from_points(points)"),
    ),
    "a map for a domain": wrong(
        lambda: Field(areas()), TypeError, "`domain`", "from_points(boundary=frame)"
    ),
    "a surface for a domain": wrong(
        lambda: FieldGPRegressor(surface()).fit(XYZ, Y), TypeError, "`domain`", "from_mesh(mesh)"
    ),
    "streets of networkx": wrong(
        lambda: Field(nx.path_graph(3)), TypeError, "`domain`", "MetricGraph.from_networkx(graph)"
    ),
    "a name for a kernel": wrong(
        lambda: Nodes(NAMED, "bym2"), TypeError, "`kernel`", "got 'bym2'", "graphrf.BYM2()"
    ),
    "a wrong name for a kernel": wrong(
        lambda: Nodes(NAMED, "bmy2"), ValueError, "`kernel`", "'bmy2'", "did you mean 'bym2'?"
    ),
    "a class for a kernel": wrong(
        lambda: Nodes(NAMED, grf.BYM2), TypeError, "`kernel`", "the class BYM2: call it"
    ),
    "a kernel without a precision": wrong(
        lambda: Nodes(NAMED, grf.Diffusion(2.0)),
        ValueError,
        *("`kernel`", "for a term", "Diffusion(lengthscale=2.0)", "GraphGPRegressor"),
    ),
    "a misspelt kernel": wrong(
        lambda: Regressor(NAMED, kernel="matren").fit(PLACES, Y),
        ValueError,
        *("`kernel`", "'matren'", "did you mean 'matern'?"),
    ),
    "a misspelt automatic kernel": wrong(
        lambda: Regressor(NAMED, kernel="atuo").fit(PLACES, Y),
        ValueError,
        *("`kernel`", "'atuo'", "did you mean 'auto'?"),
    ),
    "a misspelt kernel of classes": wrong(
        lambda: Classifier(NAMED, kernel="difusion").fit(PLACES, LABELS),
        ValueError,
        *("`kernel`", "'difusion'", "did you mean 'diffusion'?"),
    ),
    "an areal kernel of classes": wrong(
        lambda: Classifier(NAMED, kernel="bym2").fit(PLACES, LABELS),
        ValueError,
        *("`kernel`", "BYM2", "such as Leroux or Matern"),
    ),
    "a misspelt kernel through time": wrong(
        lambda: GraphTimeGPRegressor(NAMED, kernel="matren").fit(READINGS),
        ValueError,
        *("`kernel`", "'matren'", "did you mean 'matern'?"),
    ),
    "an areal kernel through time": wrong(
        lambda: GraphTimeGPRegressor(NAMED, kernel="icar").fit(READINGS),
        ValueError,
        *("`kernel`", "'icar'", "'leroux'"),
    ),
    "a name for a time kernel": wrong(
        lambda: GraphTimeGPRegressor(NAMED, time_kernel="matern").fit(READINGS),
        TypeError,
        *("`time_kernel`", "str 'matern'", "MaternTime(lengthscale=6.0)"),
    ),
}
