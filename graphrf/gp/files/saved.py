"""Models in files: JSON and arrays, written whole or not at all, without pickle."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from graphrf._base import checks
from graphrf._base.files.arrays import complete_file, read_record, record_format, write_record
from graphrf.gp.files.graphs import GraphFile
from graphrf.gp.model.answers import Titles
from graphrf.graph.disk.folder import decoded_name, encoded_name
from graphrf.graph.graph import Graph

# The class that writes each format, whose name ends with the number of its version.
_WRITERS = {
    "graphrf regressor": "GraphGPRegressor",
    "graphrf classifier": "GraphGPClassifier",
    "graphrf field regressor": "FieldGPRegressor",
    "graphrf graph-time regressor": "GraphTimeGPRegressor",
    "graphrf latent Gaussian model": "LatentGaussianModel",
}


class Saved:
    """An estimator on graphs that can be saved: subclasses have `_saved`, and `_loaded`."""

    _format: ClassVar[str]
    _graph_files: ClassVar[tuple[type[GraphFile], ...]] = (GraphFile,)
    _titles = Titles()

    def save(self: Any, path: str | os.PathLike[str], *, graph: bool = True) -> None:
        """Write the fitted model to an .npz file, without pickle, whole or not at all.

        `feature_sampler` is not written. A loaded `GraphTimeGPRegressor` has the fitted kernels as
        its settings `kernel` and `time_kernel`.

        Parameters
        ----------
        path : path
        graph : bool
            Whether the graph is in the file. Without it `load` must be given the same one.

        Raises
        ------
        TypeError
            For kernels, samplers and distributions of lengths that are not graphrf's own, and for
            nodes' names that are neither text, numbers nor tuples of them.

        Examples
        --------
        >>> import pathlib, tempfile, graphrf as grf
        >>> line = grf.from_edges([0, 1], [1, 2])
        >>> gp = grf.GraphGPRegressor(
        ...     line, kernel=grf.Diffusion(1.0), optimize=False, noise=0.1, seed=0
        ... )
        >>> file = pathlib.Path(tempfile.mkdtemp(), "gp.npz")
        >>> gp.fit([0, 2], [1.0, -1.0]).save(file)
        >>> bool((grf.GraphGPRegressor.load(file).predict() == gp.predict()).all())
        True
        """
        self._check_fitted()
        with_graph = checks.flag("graph", graph)
        record, arrays = self._saved()

        graphs = []
        for number, one_graph in enumerate(self._graphs()):
            file = self._graph_file(one_graph)
            names = file.names(one_graph) if with_graph else None
            kind, digest = self._graph_files.index(file), file.digest(one_graph)
            graphs.append({"kind": kind, "digest": digest, "names": names})
            if with_graph:
                arrays |= {
                    f"{name}{number or ''}": array for name, array in file.arrays(one_graph).items()
                }

        record |= {
            "format": self._format,
            "graphs": graphs,
            "titles": [
                None if titles is None else [title_of(title) for title in titles]
                for titles in self._titles
            ],
        }
        write_record(path, record, arrays)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, graph: Graph | Sequence[Any] | None = None
    ) -> Self:
        """The model that `save` wrote: it predicts as that did, without being trained again.

        Parameters
        ----------
        path : path
        graph : Graph, optional
            The graph of the fit, to share it, or because the file was saved without it; a list of
            them, in the order of its terms, for a `LatentGaussianModel` on several.

        Raises
        ------
        FileNotFoundError, ValueError
            If the file does not exist or is incomplete, or if `graph` is a different graph.
        """
        path = checks.path("path", path)
        graphs_given = (
            None if graph is None else list(graph) if isinstance(graph, list | tuple) else [graph]
        )
        for one_graph in graphs_given or ():
            cls._graph_file(one_graph)

        writer = _WRITERS.get(str(record_format(path)).rpartition(" ")[0], cls.__name__)
        if writer != cls.__name__:
            raise checks.value_error(
                "path",
                f"must be a file written by {cls.__name__}.save, got {path!r} of {writer}.save: "
                f"{writer}.load reads it",
            )
        with complete_file(path, f"{cls.__name__}.save"):
            record, arrays = read_record(path, cls._format)
            digests = [str(saved["digest"]) for saved in record["graphs"]]
            graphs = (
                cls._graphs_of(record["graphs"], arrays) if graphs_given is None else graphs_given
            )
            if graphs_given is None and graphs is not None and cls._digests(graphs) != digests:
                raise ValueError("its graph is damaged")

        if graphs is None:
            raise checks.value_error(
                "graph", f"must be given, because {path!r} was saved without it"
            )
        if cls._digests(graphs) != digests:
            raise checks.value_error(
                "graph",
                f"must be the graph that {path!r} was fitted on, with the same names, got another "
                f"one, {graph!r}",
            )

        with complete_file(path, f"{cls.__name__}.save"):
            loaded = cls._restored(graphs, record, arrays)
            loaded._titles = Titles(
                *(
                    None if titles is None else tuple(map(decoded_name, titles))
                    for titles in record["titles"]
                )
            )
            return loaded

    def _graphs(self: Any) -> list[Any]:
        """The graphs of the model, each once."""
        return [self.graph]

    @classmethod
    def _graphs_of(cls, records: list[Any], arrays: Mapping[str, np.ndarray]) -> list[Any] | None:
        """The graphs in a file; None where it was saved without them."""
        graphs = []
        for number, record in enumerate(records):
            file = cls._graph_files[checks.integer("kind", record["kind"], low=0)]
            if f"{file.fields[0]}{number or ''}" not in arrays:
                return None
            fields = {name: arrays[f"{name}{number or ''}"] for name in file.fields}
            graphs.append(file.of(fields, record["names"]))
        return graphs

    @classmethod
    def _digests(cls, graphs: list[Any]) -> list[str]:
        return [cls._graph_file(graph).digest(graph) for graph in graphs]

    @classmethod
    def _graph_file(cls, graph: Any) -> type[GraphFile]:
        """The class that keeps a graph; an error for anything else."""
        for file in cls._graph_files:
            if file.holds(graph):
                return file
        cls._graph_files[0].require(graph)
        raise AssertionError("a graph is held or refused")

    @classmethod
    def _restored(
        cls, graphs: list[Any], record: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
    ) -> Self:
        """The model from its graphs, record and arrays; any error is attributed to the file."""
        (graph,) = graphs
        return cls._loaded(graph, record, arrays)

    def _saved(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """A record and arrays of all but the graph."""
        raise NotImplementedError

    @classmethod
    def _loaded(
        cls, graph: Graph, record: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
    ) -> Self:
        """The model from checked record and arrays; any error is attributed to the file."""
        raise NotImplementedError


def title_of(title: Hashable) -> Any:
    """A title of a data frame; what a file cannot hold is its text."""
    try:
        return encoded_name(title, "")
    except (TypeError, ValueError):
        return str(title)
