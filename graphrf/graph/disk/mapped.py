"""Graphs that stay on disk: folders opened as memory maps."""

from __future__ import annotations

import os

import numpy as np
import scipy.sparse as sp

from graphrf._base import checks
from graphrf.graph.disk import folder as graph_folder
from graphrf.graph.graph import Graph
from graphrf.graph.names import validated_names


def open_graph(folder: str | os.PathLike[str], *, verify: bool = True) -> Graph:
    """The graph of a folder that `Graph.save` wrote, with its arrays mapped into memory.

    Pages of the arrays are read when they are used, are shared by all processes, and are dropped
    when memory is short, so the graph may be larger than the memory. Walks and local queries read
    the rows that they visit (queries with walks on a directed graph, or one with loops, first read
    all of it). What makes a matrix of its own needs room for it: `laplacian`, `walk_matrix`,
    kernels' series, and walks for combinatorial kernels or where nodes are isolated.

    Parameters
    ----------
    folder : path
    verify : bool
        Whether all arrays are read, compared with the digest that was written, and checked
        (positions in range and increasing within rows, weights finite and above 0, degrees their
        sums, mirror images equal). Without it only the record, sizes, types and names are: for
        folders that you trust, since positions out of range end the process.

    Returns
    -------
    Graph
        As in memory, bit for bit, and whole for as long as it lives, also where its folder is
        written over meanwhile. Copies are the graph itself; pickle keeps the folder's path, so the
        graph travels to other processes as a few hundred bytes, provided that they see the folder.
        Unpickling opens it without `verify`, and refuses another graph than the one pickled.

    Raises
    ------
    FileNotFoundError
        If there is no such folder or a file is missing, as where the first graph is not written
        yet.
    ValueError
        If a file is damaged (the message names it), or the folder is written over all the time.

    Notes
    -----
    Cost: O(1) time and memory without `verify`; with it O(nnz) time, of which an undirected graph's
    mirror images take two fifths where all else is in memory, and 15 MB. Their comparison by random
    sums misses a difference with probability 2^-64. Names are read into memory. Walks on weights
    that differ within a row read all weights first, and keep 8 bytes per entry in memory.

    Examples
    --------
    >>> import pathlib, tempfile, graphrf as grf
    >>> folder = pathlib.Path(tempfile.mkdtemp(), "line")
    >>> grf.from_edges([0, 1], [1, 2]).save(folder)
    >>> graph = grf.open_graph(folder)
    >>> graph.degrees
    array([1., 2., 1.])
    """
    return _opened(graph_folder.folder_path(folder), checks.flag("verify", verify))[0]


def _opened(folder: str, verify: bool) -> tuple[Graph, str]:
    """The graph of a folder, and its identity."""
    folder = os.path.abspath(folder)
    record, place, arrays, names = graph_folder.read_folder(folder, verify)

    if names is not None:
        try:
            names = validated_names(names, record["n_nodes"])
        except (TypeError, ValueError) as error:
            raise graph_folder.fault(
                place / graph_folder.NAMES, f"holds wrong names ({error})"
            ) from None

    # Set one by one: the constructor would look for the smallest type of all indices.
    adjacency = sp.csr_array((record["n_nodes"], record["n_nodes"]), dtype=np.float64)
    adjacency.indptr, adjacency.indices, adjacency.data = (
        arrays[name] for name in ("indptr", "indices", "weights")
    )
    adjacency.has_canonical_format = True

    known = {
        "degrees": arrays["degrees"],
        "n_edges": record["n_edges"],
        "is_weighted": record["weighted"],
        "digest": record["digests"]["weights"],
    }
    identity = graph_folder.identity(record)
    again = _reopened, (folder, identity)
    return Graph._of_valid(adjacency, names, record["directed"], known, again), identity


def _reopened(folder: str, identity: str, which: str = "that was pickled") -> Graph:
    """The graph of a folder, known by its identity; ValueError if another one is there by now."""
    graph, found = _opened(folder, verify=False)
    if found != identity:
        raise ValueError(
            f"the graph in {folder} must be the one {which}, got another one; write different "
            "graphs to different folders"
        )
    return graph
