"""The graph that a command works on: a file, a graph's folder, or a named data set."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphrf.cli.options.commands import given_options, refuse_unused
from graphrf.cli.options.messages import Talking
from graphrf.cli.options.standard_input import NAME, input_file

if TYPE_CHECKING:
    from graphrf.graph.graph import Graph

_OF_MESHES = ("--mesh-on", "--mesh-weights")


@dataclass(frozen=True)
class Reading:
    """Options for reading a file, those of `graphrf.load_graph` and `graphrf.from_mesh`."""

    directed: bool | None = None
    weight: str | None = None
    unweighted: bool | None = None
    weight_is: str | None = None
    columns: str | None = None
    header: bool | None = None
    mesh_on: str | None = None
    mesh_weights: str | None = None


@dataclass(frozen=True)
class Loaded:
    """A graph and its source."""

    graph: Graph
    source: str

    @property
    def facts(self) -> dict[str, Any]:
        """Metadata of the graph, for the record of a result."""
        graph = self.graph
        facts = {
            "source": self.source,
            "nodes": graph.n_nodes,
            "edges": graph.n_edges,
            "directed": graph.directed,
        }
        return facts | {"weighted": bool(graph.is_weighted)}


def load(source: str, reading: Reading, talking: Talking) -> Loaded:
    """The graph of a file, a folder or a data set; standard error has which one was taken."""
    path = Path(input_file(source))
    given = given_options(reading)
    if source == "-":
        loaded = Loaded(_of_path(path, reading, given)[0], NAME)
        talking.remark(f"{loaded.graph!r} from {NAME}")
    elif os.path.exists(path):
        graph, kind = _of_path(path, reading, given)
        loaded = Loaded(graph, f"{kind} {source}")
        also = (
            "" if kind == "folder" or not _is_dataset(source) else ", not the data set of that name"
        )
        talking.remark(f"{graph!r} from the {loaded.source}{also}")
    else:
        refuse_unused(given, (), f"{source!r}, which is not a file")
        loaded = Loaded(_of_dataset(source), f"data set {source}")
        talking.remark(f"{loaded.graph!r} of the {loaded.source}")
    return loaded


def _of_path(path: Path, reading: Reading, given: dict[str, Any]) -> tuple[Graph, str]:
    from graphrf.graph.builders import from_mesh
    from graphrf.graph.files import text_files
    from graphrf.graph.geometry import meshes
    from graphrf.graph.loaders import load_graph

    if path.is_dir():
        from graphrf.graph.disk.mapped import open_graph

        refuse_unused(given, (), f"the folder {path}")
        return open_graph(path), "folder"

    if text_files.suffix(path) in meshes.MESH_SUFFIXES:
        refuse_unused(given, _OF_MESHES, f"the mesh {path}")
        return from_mesh(
            path, on=reading.mesh_on or "faces", weights=reading.mesh_weights or "unit"
        ), "mesh"

    refuse_unused(
        {option: given[option] for option in _OF_MESHES}, (), f"{path}, which is not a mesh"
    )
    if reading.unweighted and reading.weight is not None:
        raise ValueError("`--weight` and `--unweighted` exclude each other: use only one of them")
    columns = None if reading.columns is None else tuple(map(_column, reading.columns.split(",")))
    if columns is not None and (len(columns) != 2 or "" in columns):
        raise ValueError(f"`--columns` must be two columns, A,B, got {reading.columns!r}")

    weight: str | int | bool | None = False if reading.unweighted else None
    if reading.weight is not None:
        weight = _column(reading.weight)
    graph = load_graph(
        path,
        weight=weight,
        weight_is=reading.weight_is,
        directed=reading.directed,
        columns=columns,
        header=reading.header,
    )
    return graph, "file"


def _column(text: str) -> str | int:
    """A column by its title, or, where it is a number, by position from 0."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() else text


def _is_dataset(name: str) -> bool:
    from graphrf import datasets

    return name in datasets.names()


def _of_dataset(name: str) -> Graph:
    from graphrf import datasets

    if not _is_dataset(name):
        from graphrf._base.checks import did_you_mean

        like = did_you_mean(name.lower(), datasets.names())
        raise FileNotFoundError(
            f"GRAPH must be a file, a graph's folder or a data set, got {name!r}, which is none; "
            f"{f'{like} ' if like else ''}`graphrf datasets` lists the data sets"
        )
    if name in datasets.names("table"):  # before its files are fetched
        raise ValueError(f"GRAPH must be a graph, got the data set {name!r}, which is a table")
    graph = datasets.load(name).graph
    assert graph is not None
    return graph
