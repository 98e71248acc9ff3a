"""Graphs in the files of models: arrays and names, and a digest by which to recognise them."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from graphrf.graph.disk.folder import decoded_name, encoded_name
from graphrf.graph.graph import Graph, require_graph

WAY_OUT = "pass graph=False and keep the graph yourself"


class GraphFile:
    """The file of a `Graph`; a subclass keeps graphs of another class."""

    fields: ClassVar[tuple[str, ...]] = ("indptr", "indices", "weights")

    @classmethod
    def holds(cls, graph: Any) -> bool:
        """True for a graph of this kind."""
        return isinstance(graph, Graph)

    @classmethod
    def require(cls, graph: Any) -> None:
        """Raise unless the graph is of this kind."""
        require_graph(graph)

    @classmethod
    def named(cls, graph: Any) -> Graph:
        """The graph whose nodes have the names."""
        own: Graph = graph
        return own

    @classmethod
    def digest(cls, graph: Any) -> str:
        """A hash of all arrays and names."""
        named = cls.named(graph)
        found = hashlib.sha256(named.digest.encode())
        if named.has_names:
            found.update(repr([str(name) for name in named.nodes]).encode())
        return found.hexdigest()

    @classmethod
    def names(cls, graph: Any) -> Any:
        """The names of nodes as JSON knows them."""
        named = cls.named(graph)
        return [encoded_name(name, WAY_OUT) for name in named.nodes] if named.has_names else None

    @classmethod
    def arrays(cls, graph: Any) -> dict[str, np.ndarray]:
        """The arrays of a graph, by field."""
        own = graph.adjacency
        return dict(zip(cls.fields, (own.indptr, own.indices, own.data), strict=True))

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray], names: Any) -> Any:
        """The graph with these arrays and names."""
        indptr, indices, weights = (arrays[name] for name in cls.fields)
        return _graph(indptr, indices, weights, decoded_names(names))


def decoded_names(names: Any) -> list[Hashable] | None:
    """The names of a file's nodes."""
    return None if names is None else [decoded_name(name) for name in names]


def _graph(
    indptr: np.ndarray, indices: np.ndarray, weights: np.ndarray, names: list[Hashable] | None
) -> Graph:
    """The graph of a file."""
    if (
        (indptr.dtype.kind, indices.dtype.kind) != ("i", "i")
        or weights.dtype != np.float64
        or indptr.size < 2
    ):
        raise ValueError("its graph has arrays of other types than are written")

    size = indptr.size - 1
    # scipy looks at no index of a matrix whose last pointer is negative, and then writes anywhere.
    if not (
        indptr.shape == (size + 1,)
        and indices.shape == weights.shape == (indices.size,)
        and (int(indptr[0]), int(indptr[-1])) == (0, indices.size)
        and (indptr[1:] >= indptr[:-1]).all()
        and (indices.size == 0 or (int(indices.min()) >= 0 and int(indices.max()) < size))
    ):
        raise ValueError("its graph has arrays that are inconsistent")

    matrix = sp.csr_array((weights, indices, indptr), shape=(size, size))
    return Graph(matrix, nodes=names)
