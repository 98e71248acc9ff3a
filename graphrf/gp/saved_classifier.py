"""Files of fitted classifiers: arrays and JSON, without pickle."""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np

from graphrf._base import checks
from graphrf._base.blas import linear_algebra
from graphrf._base.files.arrays import read_record, whole_file, write_record
from graphrf.gp.inference.labels import Labels
from graphrf.gp.saved import decoded, encoded, read_graph
from graphrf.gp.settings import check_latent_scale
from graphrf.graph.folder import encoded_name
from graphrf.graph.graph import Graph, require_graph
from graphrf.kernels.kernel import require_kernel
from graphrf.kernels.precision.precision import SparsePrecision
from graphrf.sampling.sample import require_sampler

_FORMAT = "graphrf classifier 1"
_WRITER = "GraphGPClassifier.save"
_RECORD = {"format", "settings", "fitted", "classes", "kind", "graph", "names"}
_FITTED = (
    *("kernel_", "sampler_", "output_scale_", "log_marginal_likelihood_", "method_", "seed_"),
    *("n_observations_", "converged_"),
)
_ARRAYS = ("nodes", "counts")
_GRAPH = ("indptr", "indices", "weights")


class SavedClassifier:
    """What a classifier has of files."""

    def save(self: Any, path: str | os.PathLike[str], *, graph: bool = True) -> None:
        """Write the fitted classifier to an .npz file, without pickle; the file appears whole or not at all.

        Parameters
        ----------
        path : path
        graph : bool
            Whether the graph is in the file. Without it `load` must be given the same one.

        Raises
        ------
        TypeError
            For kernels, samplers and distributions of lengths that are not graphrf's own.
        """
        self._check_fitted()
        with_graph = checks.flag("graph", graph)
        own: Graph = self.graph
        arrays = {"nodes": self._labels.nodes, "counts": self._labels.counts}
        settings = {name: value for name, value in self.get_params(deep=False).items() if name != "graph"}
        record = {
            "format": _FORMAT,
            "settings": {name: encoded(name, value) for name, value in settings.items()},
            "fitted": {name: encoded(name, getattr(self, name)) for name in _FITTED},
            "classes": self.classes_.tolist(),
            "kind": self.classes_.dtype.str,
            "graph": own.digest,
            "names": [encoded_name(name, "pass graph=False and keep the graph yourself") for name in own.nodes]
            if with_graph and own.has_names
            else None,
        }
        if with_graph:
            adjacency = own.adjacency
            arrays |= dict(zip(_GRAPH, (adjacency.indptr, adjacency.indices, adjacency.data), strict=True))
        write_record(path, record, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, graph: Graph | None = None) -> Self:
        """The classifier that `save` wrote: it predicts as that one did.

        Parameters
        ----------
        path : path
        graph : Graph, optional
            The graph of the fit, to share it, or because the file was saved without it.

        Raises
        ------
        FileNotFoundError, ValueError
            If the file does not exist or is incomplete, or if `graph` is a different graph.

        Notes
        -----
        Nothing is trained; the posterior mode is sought again, so the file holds no matrices.
        """
        path = checks.path("path", path)
        if graph is not None:
            require_graph(graph)
        with whole_file(path, _WRITER):
            record, arrays = read_record(path, _FORMAT)
            if set(record) != _RECORD or set(arrays) - {*_ARRAYS, *_GRAPH}:
                raise ValueError("its contents are not those of a classifier")
            if graph is None and "weights" in arrays:
                graph = read_graph(arrays, record["names"])
            settings = {name: decoded(value) for name, value in record["settings"].items()}
            fitted = {name: decoded(record["fitted"][name]) for name in _FITTED}
            kind = np.dtype(record["kind"])
            if kind.kind not in "biufU":
                raise ValueError("its classes are of another kind than labels")
            classes = np.array(record["classes"], dtype=kind)
        if graph is None:
            raise checks.value_error("graph", f"must be given, because {path!r} was saved without it")
        if graph.digest != record["graph"]:
            raise checks.value_error("graph", f"must be the graph that {path!r} was fitted on, got {graph!r}")
        with whole_file(path, _WRITER):
            made: Any = cls
            loaded = made(graph, **settings)
            labels = _labels(arrays, classes, graph.n_nodes)
            _check_fitted(fitted)
            for name, value in fitted.items():
                setattr(loaded, name, value)
            loaded.classes_, loaded.class_bias_ = classes, labels.bias
            loaded.n_observed_nodes_ = labels.nodes.size
            precision = SparsePrecision(graph, loaded.kernel_) if loaded.method_ == "precision" else None
            with linear_algebra(labels.nodes.size, loaded.n_threads):
                loaded._condition(labels, precision)
            loaded.residual_ = loaded._mode.residual
        return loaded


def _labels(arrays: Any, classes: np.ndarray, n_nodes: int) -> Labels:
    """The labels of a file, once they can be such."""
    nodes, counts = (np.asarray(arrays[name]) for name in _ARRAYS)
    if nodes.dtype != np.int64 or counts.dtype != np.float64 or counts.shape != (nodes.size, classes.size):
        raise ValueError("its arrays are not those of labels")
    if classes.size < 2 or not nodes.size or nodes[0] < 0 or nodes[-1] >= n_nodes or (np.diff(nodes) <= 0).any():
        raise ValueError("its nodes are not in its graph, or there is one class only")
    checks.finite("counts", counts)
    if (
        (counts < 0).any()
        or (counts > 2.0**53).any()
        or not counts.any(axis=0).all()
        or not counts.any(axis=1).all()
    ):
        raise ValueError("its counts of labels are invalid")
    shares = np.log(counts.sum(axis=0))
    return Labels(nodes, counts, shares - shares.mean())


def _check_fitted(fitted: dict[str, Any]) -> None:
    """Raise unless what a fit finds is what it can find."""
    kernel = require_kernel(fitted["kernel_"])
    check_latent_scale(checks.number("output_scale", fitted["output_scale_"], low=0, include_low=False))
    checks.number("log_marginal_likelihood", fitted["log_marginal_likelihood_"])
    checks.choice("method", fitted["method_"], ("series", "precision", "features"))
    checks.seed(checks.integer("seed", fitted["seed_"]))
    checks.integer("n_observations", fitted["n_observations_"], low=1)
    checks.flag("converged", fitted["converged_"])
    sampler = fitted["sampler_"]
    if (sampler is None) == (fitted["method_"] == "features"):
        raise ValueError("its method and its sampler are inconsistent")
    if sampler is not None and require_sampler(sampler).laplacian != kernel.laplacian:
        raise ValueError("its sampler and its kernel are of different Laplacians")
