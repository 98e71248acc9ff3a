"""Readers that build each data set from its files."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from graphrf._base.files.json_text import parsed
from graphrf.datasets import shapes
from graphrf.graph.builders import from_edges, from_mesh
from graphrf.graph.files import text_files
from graphrf.graph.geometry import meshes
from graphrf.graph.geometry.faces import Faces
from graphrf.graph.graph import Graph
from graphrf.graph.loaders import load_graph

Content = dict[str, Any]


def _classes(labels: list[str]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Labels as integers, and the labels in order: by number if all are numbers, else by name."""
    distinct = set(labels)
    try:
        ordered = sorted(distinct, key=int)
    except ValueError:
        ordered = sorted(distinct)
    number = {label: position for position, label in enumerate(ordered)}
    return np.array([number[label] for label in labels], dtype=np.int64), tuple(ordered)


def _from_networkx(name: str, entry: Mapping[str, Any], files: list[Path]) -> Content:
    import networkx as nx

    if name == "les-miserables":
        return {"graph": load_graph(nx.les_miserables_graph(), weight="weight")}
    club = nx.karate_club_graph()
    targets, classes = _classes([club.nodes[node]["club"] for node in club])
    return {
        "graph": load_graph(club, weight=False),
        "targets": targets,
        "extra": {"classes": classes},
    }


def _gml(name: str, entry: Mapping[str, Any], files: list[Path]) -> Content:
    network = text_files.read_gml(files[0])
    graph = load_graph(network, weight=entry.get("weight", False))
    labels = [data.get("gt") for _, data in network.nodes(data=True)]
    known = np.flatnonzero([label is not None for label in labels])
    if not known.size:
        return {"graph": graph}
    targets, classes = _classes([str(labels[node]) for node in known])
    return {
        "graph": graph,
        "targets": targets,
        "target_nodes": known,
        "extra": {"classes": classes},
    }


def _cites(name: str, entry: Mapping[str, Any], files: list[Path]) -> Content:
    return {"graph": load_graph(files[0], columns=(1, 0), weight=False, directed=True)}


def _edges(name: str, entry: Mapping[str, Any], files: list[Path]) -> Content:
    return {"graph": load_graph(files[0], weight=False)}


def _labelled_edges(name: str, entry: Mapping[str, Any], files: list[Path]) -> Content:
    _, rows = _table_cells(files[1], header=True)
    nodes = [int(row[0]) for row in rows]
    edges = text_files.read_edge_list(files[0])
    graph = from_edges(
        *(np.asarray(edges.nodes)[end] for end in (edges.src, edges.dst)), n_nodes=len(rows)
    )
    targets, classes = _classes([row[1] for row in rows])
    return {"graph": graph, "targets": targets[np.argsort(nodes)], "extra": {"classes": classes}}


def _cedge(name: str, entry: Mapping[str, Any], files: list[Path]) -> Content:
    edges = text_files.read_edge_list(files[0], columns=(1, 2), weight=3)
    return {"graph": from_edges(edges.src, edges.dst, edges.weight, weight_is="distance")}


def _mesh(name: str, entry: Mapping[str, Any], files: list[Path]) -> Content:
    vertices, faces = meshes.mesh_arrays(files[0])
    return _mesh_content(vertices, faces.triangles())


def _mesh_content(vertices: np.ndarray, faces: np.ndarray) -> Content:
    """The face graph of a mesh with the normals as signal."""
    places, welded, _ = meshes.weld(vertices, Faces.of_rows(faces), None)
    vertices, faces = vertices[places], welded.triangles()
    corners = vertices[faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    areas = np.linalg.norm(normals, axis=1, keepdims=True)
    # A face without area has no direction: its normal is zero.
    normals = np.divide(normals, areas, out=np.zeros_like(normals), where=areas > 0)
    return {
        "graph": from_mesh((vertices, faces)),
        "targets": normals[:, 2].copy(),
        "coordinates": corners.mean(axis=1),
        "extra": {"vertices": vertices, "faces": faces, "normals": normals},
    }


def _san_jose(name: str, entry: Mapping[str, Any], files: list[Path]) -> Content:
    _, nodes = _table_cells(files[0], header=True)
    _, roads = _table_cells(files[1], header=True)
    header, speeds = _table_cells(files[2], header=True)

    ends = np.array([row[:2] for row in roads], dtype=np.int64)
    lengths = np.array([float(row[2]) for row in roads])
    # Roads have no direction, so two parallel ones add, whichever way they are listed.
    ends.sort(axis=1)
    graph = from_edges(ends[:, 0], ends[:, 1], lengths, n_nodes=len(nodes), weight_is="distance")

    position = {row[2]: int(row[0]) for row in nodes if row[1] == "sensor"}
    values = np.array([row[1:] for row in speeds], dtype=np.float64)
    extra = {
        "speeds": values,
        "times": tuple(row[0] for row in speeds),
        "sensors": tuple(header[1:]),
        "roads": ends,
        "lengths": lengths,
    }

    return {
        "graph": graph,
        "targets": values[0],
        "target_nodes": np.array([position[sensor] for sensor in header[1:]], dtype=np.int64),
        "coordinates": np.array([[row[4], row[3]] for row in nodes], dtype=np.float64),
        "extra": extra,
    }


def _pems_bay(name: str, entry: Mapping[str, Any], files: list[Path]) -> Content:
    _, sensors = _table_cells(files[1], header=False)
    edges = text_files.read_edge_list(files[0], weight=2, header=False)
    assert edges.weight is not None
    other = edges.src != edges.dst
    listed = (
        [edges.nodes[end] for end in edges.src[other]],
        [edges.nodes[end] for end in edges.dst[other]],
    )
    graph = from_edges(
        *listed, edges.weight[other], nodes=[int(row[0]) for row in sensors], weight_is="distance"
    )
    return {
        "graph": graph,
        "coordinates": np.array([[row[2], row[1]] for row in sensors], dtype=np.float64),
    }


def _metr_la(name: str, entry: Mapping[str, Any], files: list[Path]) -> Content:
    _, rows = _table_cells(files[0], header=False)
    adjacency = np.array(rows, dtype=np.float64)
    np.fill_diagonal(adjacency, 0.0)
    header, speeds = _table_cells(files[1], header=True)
    _, sensors = _table_cells(files[2], header=True)
    values = np.array(speeds, dtype=np.float64)
    return {
        "graph": Graph(adjacency, nodes=[int(sensor) for sensor in header]),
        "targets": values[0],
        "coordinates": np.array([[row[3], row[2]] for row in sensors], dtype=np.float64),
        "extra": {"speeds": values},
    }


def _areal(name: str, entry: Mapping[str, Any], files: list[Path]) -> Content:
    table = parsed(text_files.read_text(files[0]))
    first, second = np.array(table["edges"], dtype=np.int64) - 1
    return {
        "graph": from_edges(first, second, n_nodes=len(table["y"])),
        "targets": np.array(table["y"], dtype=np.int64),
        "extra": {
            "expected": np.array(table["E"], dtype=float),
            "outdoor": np.array(table["x"], dtype=float),
        },
    }


def _table(name: str, entry: Mapping[str, Any], files: list[Path]) -> Content:
    columns: list[str] = entry["columns"]
    _, rows = _table_cells(
        files[0], header=entry.get("header", False), delimiter=entry.get("delimiter", ",")
    )
    cells = dict(zip(columns, zip(*rows, strict=True), strict=True))
    extra: dict[str, Any] = {}

    labels = cells.pop(entry["target"])
    if entry["task"] == "classification":
        targets, extra["classes"] = _classes(list(labels))
    else:
        targets = np.array(labels, dtype=np.float64)
    for dropped in entry["drop"]:
        del cells[dropped]

    features = np.empty((len(rows), len(cells)))
    categories = {}
    for position, (column, values) in enumerate(cells.items()):
        try:
            features[:, position] = [np.nan if value == "NA" else float(value) for value in values]
        except ValueError:
            features[:, position], categories[column] = _classes(list(values))

    extra |= {"columns": tuple(cells), "categories": categories}
    return {"features": features, "targets": targets, "extra": extra}


def _table_cells(
    path: Path, *, header: bool, delimiter: str | None = ","
) -> tuple[list[str], list[list[str]]]:
    """Header (or nothing) and rows of a table as stripped cells; blank lines are skipped."""
    text = text_files.read_text(path)
    if delimiter is None:
        rows = [line.split() for line in text.split("\n") if line.strip()]
    else:
        rows = [
            [cell.strip() for cell in row]
            for row in csv.reader(io.StringIO(text), delimiter=delimiter)
            if row
        ]
    return (rows[0], rows[1:]) if header else ([], rows)


def _generated(name: str, entry: Mapping[str, Any], files: list[Path]) -> Content:
    if name == "generated-grid":
        position = np.arange(900).reshape(30, 30)
        src = np.concatenate([position[:, :-1].ravel(), position[:-1].ravel()])
        dst = np.concatenate([position[:, 1:].ravel(), position[1:].ravel()])
        return {
            "graph": from_edges(src, dst),
            "coordinates": np.argwhere(position >= 0).astype(np.float64),
        }
    if name == "generated-icosphere":
        return _mesh_content(*shapes.icosphere(subdivisions=4))
    return _mesh_content(*shapes.torus(around=64, across=32, radius=2.0, tube=1.0))


READERS = {
    "networkx": _from_networkx,
    "gml": _gml,
    "cites": _cites,
    "edges": _edges,
    "labelled_edges": _labelled_edges,
    "cedge": _cedge,
    "mesh": _mesh,
    "san_jose": _san_jose,
    "pems_bay": _pems_bay,
    "metr_la": _metr_la,
    "areal": _areal,
    "table": _table,
    "generated": _generated,
}
