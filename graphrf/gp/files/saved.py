"""Models in files: JSON and arrays, written whole or not at all, with or without their graph, without pickle."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Hashable, Mapping
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from graphrf._base import checks
from graphrf._base.files.arrays import complete_file, read_record, write_record
from graphrf.gp.model.answers import Titles
from graphrf.graph.disk.folder import decoded_name, encoded_name
from graphrf.graph.graph import Graph, require_graph

WAY_OUT = "pass graph=False and keep the graph yourself"


class Saved:
    """An estimator on a graph that can be saved: a subclass has `_saved`, and `_loaded` for what that made."""

    _format: ClassVar[str]
    _titles = Titles()

    def save(self: Any, path: str | os.PathLike[str], *, graph: bool = True) -> None:
        """Write the fitted model to an .npz file, without pickle; the file appears whole or not at all.

        `feature_sampler` is not written. A loaded `GraphTimeGPRegressor` has the fitted kernels as its settings
        `kernel` and `time_kernel`.

        Parameters
        ----------
        path : path
        graph : bool
            Whether the graph is in the file. Without it `load` must be given the same one.

        Raises
        ------
        TypeError
            For kernels, samplers and distributions of lengths that are not graphrf's own, and for nodes' names
            that are neither text, numbers nor tuples of them.

        Examples
        --------
        >>> import pathlib, tempfile, graphrf as grf
        >>> line = grf.from_edges([0, 1], [1, 2])
        >>> gp = grf.GraphGPRegressor(line, kernel=grf.Diffusion(1.0), optimize=False, noise=0.1, seed=0)
        >>> file = pathlib.Path(tempfile.mkdtemp(), "gp.npz")
        >>> gp.fit([0, 2], [1.0, -1.0]).save(file)
        >>> bool((grf.GraphGPRegressor.load(file).predict() == gp.predict()).all())
        True
        """
        self._check_fitted()
        with_graph = checks.flag("graph", graph)
        record, arrays = self._saved()
        names = None
        if with_graph:
            arrays |= self._graph_arrays(self.graph)
            names = self._encoded_names(self.graph)
        record |= {
            "format": self._format,
            "graph": self._digest(self.graph),
            "names": names,
            "titles": [None if own is None else [title_of(title) for title in own] for own in self._titles],
        }
        write_record(path, record, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, graph: Graph | None = None) -> Self:
        """The model that `save` wrote: it predicts as that one did. The posterior is computed again, not trained.

        Parameters
        ----------
        path : path
        graph : Graph, optional
            The graph of the fit, to share it, or because the file was saved without it.

        Raises
        ------
        FileNotFoundError, ValueError
            If the file does not exist or is incomplete, or if `graph` is a different graph.
        """
        path = checks.path("path", path)
        if graph is not None:
            cls._require_graph(graph)
        writer = f"{cls.__name__}.save"
        with complete_file(path, writer):
            record, arrays = read_record(path, cls._format)
            if graph is None and cls._graph_fields[0] in arrays:
                graph = cls._graph_of(arrays, record["names"])
                if cls._digest(graph) != record["graph"]:
                    raise ValueError("its graph is damaged")
            digest = str(record["graph"])
        if graph is None:
            raise checks.value_error("graph", f"must be given, because {path!r} was saved without it")
        if cls._digest(graph) != digest:
            raise checks.value_error(
                "graph",
                f"must be the graph that {path!r} was fitted on, with the same names, got another one, {graph!r}",
            )
        with complete_file(path, writer):
            loaded = cls._loaded(graph, record, arrays)
            loaded._titles = Titles(
                *(None if own is None else tuple(map(decoded_name, own)) for own in record["titles"])
            )
            return loaded

    def _saved(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """A record and arrays of all but the graph."""
        raise NotImplementedError

    @classmethod
    def _loaded(cls, graph: Graph, record: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Self:
        """The model from checked record and arrays; any error is attributed to the file."""
        raise NotImplementedError

    # -- the graph: these are overridden where it is not a `Graph` -------------------------------------

    _graph_fields: ClassVar[tuple[str, ...]] = ("indptr", "indices", "weights")

    @classmethod
    def _require_graph(cls, graph: Any) -> None:
        require_graph(graph)

    @classmethod
    def _named_graph(cls, graph: Any) -> Graph:
        """The graph whose nodes have the names."""
        own: Graph = graph
        return own

    @classmethod
    def _digest(cls, graph: Any) -> str:
        """A hash of all arrays and names, by which a file recognises its graph."""
        named = cls._named_graph(graph)
        found = hashlib.sha256(named.digest.encode())
        if named.has_names:
            found.update(repr([str(name) for name in named.nodes]).encode())
        return found.hexdigest()

    @classmethod
    def _encoded_names(cls, graph: Any) -> Any:
        named = cls._named_graph(graph)
        return [encoded_name(name, WAY_OUT) for name in named.nodes] if named.has_names else None

    @classmethod
    def _graph_arrays(cls, graph: Any) -> dict[str, np.ndarray]:
        own = graph.adjacency
        return dict(zip(cls._graph_fields, (own.indptr, own.indices, own.data), strict=True))

    @classmethod
    def _graph_of(cls, arrays: Mapping[str, np.ndarray], names: Any) -> Any:
        indptr, indices, weights = (arrays[name] for name in cls._graph_fields)
        return _graph(indptr, indices, weights, decoded_names(names))


def decoded_names(names: Any) -> list[Hashable] | None:
    """The names of a file's nodes."""
    return None if names is None else [decoded_name(name) for name in names]


def title_of(title: Hashable) -> Any:
    """A title of a data frame; what a file cannot hold is its text."""
    try:
        return encoded_name(title, "")
    except (TypeError, ValueError):
        return str(title)


def _graph(indptr: np.ndarray, indices: np.ndarray, weights: np.ndarray, names: list[Hashable] | None) -> Graph:
    """The graph of a file."""
    if (indptr.dtype.kind, indices.dtype.kind) != ("i", "i") or weights.dtype != np.float64 or indptr.size < 2:
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
