"""Named data sets: real graphs, meshes, traffic and tables, local or fetched, always checked.

Each has its own licence, on its card (`describe`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from graphrf._base import checks, html
from graphrf.datasets import files as data_files
from graphrf.datasets.readers import READERS
from graphrf.graph.graph import Graph

KINDS = ("graph", "mesh", "traffic", "large", "table", "generated")

#: The graphs of the coupled-features study (Reid et al. 2024, appendix E.3), by number of nodes.
PAPER_GRAPHS = (
    "karate",
    "dolphins",
    "polbooks",
    "football",
    "newsgroup",
    "eu-core",
    "arenas-email",
    "eurosis",
    "citeseer",
    "cora",
)


@dataclass(frozen=True, repr=False, eq=False)
class Dataset:
    """A data set; what does not apply is None.

    Attributes
    ----------
    name, kind, description, licence : str
    graph : Graph or None
        None for tables.
    targets : ndarray or None, shape (n,)
        Classes as integers (their names in `extra["classes"]`), or real values.
    target_nodes : ndarray of int64 or None, shape (n,)
        Positions of the nodes that `targets` belong to: all, unless some have none.
    coordinates : ndarray or None, shape (N, 2) or (N, 3)
        Places of the nodes: (longitude, latitude), (row, column), or points in space.
    features : ndarray of float64 or None, shape (n, d)
        Columns of a table. Categories are numbered in the order of their sorted names (in
        `extra["categories"]`); missing cells are NaN.
    sources : tuple of str
        Where the files are published.
    extra : dict
        Further data: `classes`, `categories`, `columns`; of a mesh `vertices`, `faces`, `normals`;
        of traffic `speeds`, `times`; of districts `expected` and covariates.

    Examples
    --------
    >>> from graphrf import datasets
    >>> karate = datasets.load("karate")
    >>> karate
    Dataset('karate': Graph(34 nodes, 78 edges, undirected, unweighted), 34 targets)
    >>> karate.extra["classes"]
    ('Mr. Hi', 'Officer')
    """

    name: str
    kind: str
    description: str
    licence: str
    sources: tuple[str, ...] = ()
    graph: Graph | None = None
    targets: np.ndarray | None = None
    target_nodes: np.ndarray | None = None
    coordinates: np.ndarray | None = None
    features: np.ndarray | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.graph is not None and self.targets is not None and self.target_nodes is None:
            object.__setattr__(self, "target_nodes", np.arange(self.graph.n_nodes))

    def __repr__(self) -> str:
        content = [repr(self.graph)] if self.graph is not None else []
        if self.features is not None:
            content.append(f"{self.features.shape[0]} rows, {self.features.shape[1]} features")
        if self.targets is not None:
            content.append(f"{len(self.targets)} targets")
        return f"Dataset({self.name!r}: {', '.join(content)})"

    def _repr_html_(self) -> str:
        """A table for notebooks."""
        arrays = {name: getattr(self, name) for name in ("targets", "coordinates", "features")}
        shapes = [
            (name, " x ".join(map(str, array.shape)))
            for name, array in arrays.items()
            if array is not None
        ]
        rows = [
            ("what", self.description),
            ("kind", self.kind),
            ("graph", self.graph),
            *shapes,
            ("extra", ", ".join(self.extra) or None),
            ("licence", self.licence),
            ("sources", ", ".join(self.sources) or None),
        ]
        return html.table(f"Dataset {self.name}", rows)


def names(kind: str | None = None) -> list[str]:
    """Names of the data sets, of all kinds or of one, in the order of their kinds.

    Parameters
    ----------
    kind : "graph", "mesh", "traffic", "large", "table" or "generated", optional

    Examples
    --------
    >>> from graphrf import datasets
    >>> datasets.names("generated")
    ['generated-grid', 'generated-icosphere', 'generated-torus']
    """
    if kind is not None:
        checks.choice("kind", kind, KINDS)
    return [
        name
        for name, entry in data_files.registry()["datasets"].items()
        if kind in (None, entry["kind"])
    ]


@dataclass(frozen=True)
class Entry:
    """A line of the catalog: facts about a data set, without reading its files.

    Attributes
    ----------
    name, kind, description, licence : str
    n_nodes, n_edges : int or None
        Of its graph; None for tables.
    n_rows : int or None
        Of a table.
    found : "built in", "data folder", "cache" or "to fetch"
        Where all its files are: none is needed, in `GRAPHRF_DATA_DIR`, in the cache, or not here
        yet.
    """

    name: str
    kind: str
    description: str
    licence: str
    n_nodes: int | None
    n_edges: int | None
    n_rows: int | None
    found: str


def catalog(kind: str | None = None) -> list[Entry]:
    """Size, licence and location of the files of each data set, in the order of `names`.

    Parameters
    ----------
    kind : as in `names`, optional

    Notes
    -----
    Reads and fetches nothing: only the names of files are checked; `load` checks their contents.

    Examples
    --------
    >>> from graphrf import datasets
    >>> karate = datasets.catalog()[0]
    >>> karate.name, karate.n_nodes, karate.n_edges, karate.found
    ('karate', 34, 78, 'built in')
    """
    return [
        Entry(
            name=name,
            kind=entry["kind"],
            description=entry["description"],
            licence="; ".join(_licences(entry)),
            n_nodes=entry.get("nodes"),
            n_edges=entry.get("edges"),
            n_rows=entry.get("rows"),
            found=data_files.location(entry["files"]),
        )
        for name in names(kind)
        for entry in [_entry(name)]
    ]


def load(name: str) -> Dataset:
    """The data set called `name`, read from local files or fetched.

    Files are searched for in the folder `GRAPHRF_DATA_DIR`, then in the cache (`GRAPHRF_CACHE_DIR`,
    or the user's cache folder), and else fetched from where they are published, at a fixed commit;
    their SHA-256 is compared.

    Parameters
    ----------
    name : one of `names()`

    Returns
    -------
    Dataset

    Raises
    ------
    ValueError
        If the data set does not exist, or the checksum of a file is wrong.
    ConnectionError
        If a file is neither stored nor available; the message states where to put it. A download is
        given up after 30 seconds without a byte, or when bytes of the file come after 10 minutes.
    OSError
        If a file cannot be read, or the cache cannot be written to.
    ImportError
        If a mesh is asked for without trimesh: pip install 'graphrf[mesh]'.

    Notes
    -----
    Cost: below a second each once the files are here, none of which is larger than 2 MB.

    Examples
    --------
    >>> from graphrf import datasets
    >>> datasets.load("generated-grid").graph
    Graph(900 nodes, 1740 edges, undirected, unweighted)
    """
    entry = _entry(name)
    files = [data_files.find(key) for key in entry["files"]]
    content = READERS[entry["reader"]](name, entry, files)
    for key, file in zip(entry["files"], files, strict=True):
        # Not changed since they were verified; no more than a look at each.
        if not data_files.verify(file, data_files.registry()["files"][key]):
            raise ValueError(f"{file} was removed while it was read; load {name!r} again")
    return Dataset(
        name=name,
        kind=entry["kind"],
        description=entry["description"],
        licence="; ".join(_licences(entry)),
        sources=tuple(_sources(entry)),
        **content,
    )


def path(name: str) -> Path:
    """The raw file of a data set, fetched if need be: the first one, if it has several.

    Raises
    ------
    ValueError
        If there is no such data set or it has no file, or the file does not have its checksum.
    ConnectionError, OSError
        As for `load`.
    """
    entry = _entry(name)
    if not entry["files"]:
        raise checks.value_error(
            "name", f"must be a data set with files, got {name!r}, which needs none: use load"
        )
    return data_files.find(entry["files"][0])


def describe(name: str) -> str:
    """The card of a data set, in Markdown: contents, source, licence, checksums and quirks.

    Examples
    --------
    >>> from graphrf import datasets
    >>> print(datasets.describe("dolphins").splitlines()[0])
    # dolphins
    """
    entry = _entry(name)
    facts = [f"- Kind: {entry['kind']}"]
    facts += [
        f"- {title}: {entry[key]:,}"
        for key, title in (("nodes", "Nodes"), ("edges", "Edges"), ("rows", "Rows"))
        if key in entry
    ]

    if "columns" in entry:
        facts.append(
            f"- Columns: {', '.join(entry['columns'])}; target: {entry['target']} ({entry['task']})"
        )
    facts += [f"- Licence: {licence}" for licence in _licences(entry)]
    if "citation" in entry:
        facts.append(f"- Cite: {entry['citation']}")

    lines = [f"# {name}", "", entry["description"], "", *facts]
    if "notes" in entry:
        lines += ["", "## Notes", "", *(f"- {note}" for note in entry["notes"])]
    if entry["files"]:
        lines += ["", "## Files", ""]
        for key in _with_inputs(entry):
            lines += _file_card(key)
    return "\n".join(lines) + "\n"


# -- facts of the registry -------------------------------------------------------------------------


def _entry(name: Any) -> dict[str, Any]:
    known = data_files.registry()["datasets"]
    if not isinstance(name, str):
        raise checks.type_error(
            "name", f"must be the name of a data set, got {checks.describe(name)}"
        )
    if name not in known:
        near = checks.did_you_mean(name.lower(), known)
        hint = f"{near} " if near else ""
        raise checks.value_error(
            "name",
            f"must be one of graphrf.datasets.names(), got {name!r}; {hint}"
            "graphrf.load_graph(path) reads your own files",
        )
    return known[name]


def _with_inputs(entry: Mapping[str, Any]) -> list[str]:
    """Files of a data set and those that they are made from."""
    files = data_files.registry()["files"]
    keys = list(entry["files"])
    for key in entry["files"]:
        keys += [made_from for made_from in files[key].get("inputs", ()) if made_from not in keys]
    return keys


def _licences(entry: Mapping[str, Any]) -> list[str]:
    if not entry["files"]:
        if entry["reader"] == "networkx":
            return ["BSD-3-Clause (networkx)"]
        return ["none needed (generated)"]
    files = data_files.registry()["files"]
    return list(dict.fromkeys(files[key]["licence"] for key in entry["files"]))


def _sources(entry: Mapping[str, Any]) -> list[str]:
    files = data_files.registry()["files"]
    return list(
        dict.fromkeys(files[key]["url"] for key in _with_inputs(entry) if "url" in files[key])
    )


_STORED = {
    "identity": "the published bytes",
    "gzip": "gzip of the published bytes",
    "member": "a member of the published archive",
    "columns": "gzip of some columns of the published table",
    "san_jose": "made by graphrf from the published files below",
}


def _file_card(key: str) -> list[str]:
    entry = data_files.registry()["files"][key]
    lines = [f"- `{key}`", f"  - Stored: {_STORED[entry['stored']]}"]
    if "columns" in entry:
        lines[-1] += f" ({', '.join(entry['columns'])})"
    if "member" in entry:
        lines[-1] += f" ({entry['member']})"
    if "size" in entry:
        lines.append(f"  - Size: {entry['size']:,} bytes")
    if "sha256" in entry:
        lines.append(f"  - SHA-256: `{entry['sha256']}`")
    else:
        lines.append("  - SHA-256: not known; the files made from it are checked")
    if "content_sha256" in entry:
        lines.append(f"  - SHA-256 of the content, decompressed: `{entry['content_sha256']}`")
    if "url" in entry:
        lines.append(f"  - Source: <{entry['url']}>")
    return lines


# -- readers: what a data set holds besides the facts of the registry ------------------------------
