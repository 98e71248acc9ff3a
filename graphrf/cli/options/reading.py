"""The graph that a command works on: a file, a graph's folder, or a named data set."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphrf.cli.options.completion import graphs
from graphrf.cli.options.refusals import refuse_unused
from graphrf.cli.options.running import Talking
from graphrf.cli.options.standard_input import NAME, input_file

if TYPE_CHECKING:
    from graphrf.graph.graph import Graph

PANEL = "Reading the graph"
GRAPH_HELP = (
    "An edge list, GML, GraphML, MatrixMarket, npz or mesh file, a graph's folder, or the name of a data set "
    "(`graphrf datasets`). A file of that name wins; - is an edge list from standard input."
)
GraphSource = Annotated[
    str, typer.Argument(metavar="GRAPH", help=GRAPH_HELP, show_default=False, autocompletion=graphs)
]


@dataclass(frozen=True)
class Reading:
    """Options for reading a file, those of `graphrf.load_graph` and `graphrf.from_mesh`."""

    directed: Annotated[
        bool | None,
        typer.Option(
            "--directed/--undirected", help="Keep or ignore the directions of edges.", rich_help_panel=PANEL,
            show_default=False,
        ),
    ] = None  # fmt: skip
    weight: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column or attribute with the weights of edges. Default: unweighted.",
            rich_help_panel=PANEL,
        ),
    ] = None
    unweighted: Annotated[
        bool | None,
        typer.Option(
            "--unweighted", help="Ignore weights, without a warning.", rich_help_panel=PANEL,
            show_default=False,
        ),
    ] = None  # fmt: skip
    weight_is: Annotated[
        str | None,
        typer.Option(
            metavar="similarity|distance", help="Whether a large weight means near or far.", rich_help_panel=PANEL
        ),
    ] = None
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="Columns of the two ends of each edge, by title or position from 0.",
            rich_help_panel=PANEL,
        ),
    ] = None
    header: Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header", help="Whether the first line contains titles. Default: detected.",
            rich_help_panel=PANEL, show_default=False,
        ),
    ] = None  # fmt: skip
    mesh_on: Annotated[
        str | None,
        typer.Option(
            metavar="faces|vertices",
            help="Which elements of a mesh are nodes. Default: faces.",
            rich_help_panel=PANEL,
        ),
    ] = None
    mesh_weights: Annotated[
        str | None,
        typer.Option(
            metavar="unit|inverse_length|cotangent",
            help="Edge weights of a mesh. Default: unit.",
            rich_help_panel=PANEL,
        ),
    ] = None


@dataclass(frozen=True)
class Loaded:
    """A graph and where it is from."""

    graph: Graph
    source: str

    @property
    def facts(self) -> dict[str, Any]:
        """Metadata of the graph, for the record of a result."""
        graph = self.graph
        facts = {"source": self.source, "nodes": graph.n_nodes, "edges": graph.n_edges, "directed": graph.directed}
        return facts | {"weighted": bool(graph.is_weighted)}


def load(source: str, reading: Reading, talking: Talking) -> Loaded:
    """The graph of a file, a folder or a data set; says on standard error which one was taken."""
    given = {
        "--directed" if reading.directed else "--undirected": reading.directed,
        "--weight": reading.weight, "--unweighted": reading.unweighted, "--weight-is": reading.weight_is,
        "--columns": reading.columns,
        "--header" if reading.header else "--no-header": reading.header,
        "--mesh-on": reading.mesh_on, "--mesh-weights": reading.mesh_weights,
    }  # fmt: skip
    path = Path(input_file(source))
    if source == "-":
        loaded = Loaded(_of_path(path, reading, given)[0], NAME)
        talking.remark(f"{loaded.graph!r} from {NAME}")
        return loaded
    if os.path.exists(path):
        graph, kind = _of_path(path, reading, given)
        also = "" if kind == "folder" or not _is_dataset(source) else ", not the data set of that name"
        loaded = Loaded(graph, f"{kind} {source}")
        talking.remark(f"{graph!r} from the {loaded.source}{also}")
        return loaded
    refuse_unused(given, (), f"{source!r}, which is not a file")
    graph = _of_dataset(source)
    talking.remark(f"{graph!r} of the data set {source}")
    return Loaded(graph, f"data set {source}")


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
        refuse_unused(given, ("--mesh-on", "--mesh-weights"), f"the mesh {path}")
        return from_mesh(path, on=reading.mesh_on or "faces", weights=reading.mesh_weights or "unit"), "mesh"
    refuse_unused(given, set(given) - {"--mesh-on", "--mesh-weights"}, f"{path}, which is not a mesh")
    if reading.unweighted and reading.weight is not None:
        raise ValueError("`--weight` and `--unweighted` exclude each other: use only one of them")
    unweighted = False if reading.unweighted else None
    graph = load_graph(
        path,
        weight=unweighted if reading.weight is None else column(reading.weight),
        weight_is=reading.weight_is,
        directed=reading.directed,
        columns=None if reading.columns is None else _two(reading.columns),
        header=reading.header,
    )
    return graph, "file"


def column(text: str) -> str | int:
    """A column by its title, or, where it is a number, by position from 0."""
    return int(text) if text.isascii() and text.isdigit() else text


def _two(text: str) -> tuple[str | int, str | int]:
    cells = [cell.strip() for cell in text.split(",")]
    if len(cells) != 2 or "" in cells:
        raise ValueError(f"`--columns` must be two columns, A,B, got {text!r}")
    return column(cells[0]), column(cells[1])


def _is_dataset(name: str) -> bool:
    from graphrf import datasets

    return name in datasets.names()


def _of_dataset(name: str) -> Graph:
    from graphrf import datasets

    if name not in datasets.names():
        from graphrf._base.checks import did_you_mean

        like = did_you_mean(name.lower(), datasets.names())
        raise FileNotFoundError(
            f"GRAPH must be a file, a graph's folder or a data set, got {name!r}, which is none; "
            f"{f'{like} ' if like else ''}`graphrf datasets` lists the data sets"
        )
    if name in datasets.names("table"):  # said before its files are fetched
        raise ValueError(f"GRAPH must be a graph, got the data set {name!r}, which is a table")
    graph = datasets.load(name).graph
    assert graph is not None
    return graph
