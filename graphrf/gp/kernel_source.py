"""Where a trainable kernel's rows come from: sampled features, or the exact series of a graph."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
import torch

from graphrf import _feature_bounds
from graphrf._feature_bounds import TruncationWarning
from graphrf._feature_rows import row_blocks, row_numbers
from graphrf.features import Features
from graphrf.gp.device_factors import DeviceFeatures, DeviceSeries
from graphrf.gp.gram import LONGEST_SERIES, series_length
from graphrf.gp.torch_factor import HostFactor, TorchFactor
from graphrf.graph import Graph
from graphrf.kernels import Kernel
from graphrf.matching.spectrum import density_of_states
from graphrf.series import SeriesFactor

# Of the series: what its cut may lose of sum |f_k|.
_SERIES_TAIL = 1e-11
# Sets of nodes whose rows are kept: training and test nodes, once or twice.
_KEPT = 4


class Source(Protocol):
    """Rows of F for any nodes, and the mean prior variance that belongs to a modulation."""

    laplacian: str
    scale: float

    def length(self, kernel: Kernel) -> int:
        """L, the largest k with f_k in use."""
        ...

    def factor(self, nodes: np.ndarray, length: int, device: torch.device, dtype: torch.dtype) -> TorchFactor:
        """The rows of some nodes."""
        ...

    def mean_variance(self, f: np.ndarray) -> tuple[float, np.ndarray]:
        """The mean diagonal entry of F F^T, and its gradient in f."""
        ...


class FeatureSource:
    """Rows of sampled features; the mean variance is that of F F^T over the nodes that they hold.

    Parameters
    ----------
    features : Features
    kernel : Kernel
        Checked against the features, with the warnings that `Features.matrix` has.
    """

    def __init__(self, features: Features, kernel: Kernel) -> None:
        _feature_bounds.served_modulation(features, kernel, stacklevel=5)
        self.laplacian = features.laplacian
        self.scale = features._scale
        self._features = features
        # What was cut from rows was warned about above; later on the ends of walks or powers alone matter.
        self._ends = features if features._dropped is None else features._replaced(dropped=None)
        self._warned = False
        self._squares: np.ndarray | None = None
        self._rows = _Kept(self._make)

    def __deepcopy__(self, memo: dict[int, Any]) -> FeatureSource:
        return self  # the record is never changed, and large

    def length(self, kernel: Kernel) -> int:
        """The features' largest length; warns once when the kernel has outgrown it."""
        if not self._warned:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                _feature_bounds.served_modulation(self._ends, kernel)
            self._warned = bool(caught)
            for warning in caught:
                warnings.warn(warning.message, stacklevel=2)
        return self._features.max_length

    def factor(self, nodes: np.ndarray, length: int, device: torch.device, dtype: torch.dtype) -> TorchFactor:
        """The rows of some nodes, all among those that the features hold."""
        return self._rows(nodes, device, dtype)

    def _make(self, nodes: np.ndarray, device: torch.device, dtype: torch.dtype) -> TorchFactor:
        rows = row_numbers("nodes", nodes, self._features.nodes)
        features = self._features
        if not np.array_equal(rows, np.arange(features.shape[0])):
            features = features._take_rows(rows)
        if device.type != "cpu":
            return DeviceFeatures(features, device, dtype)
        # values of the model's type: products of mixed types would convert them each time
        plain = np.dtype(np.float32 if dtype == torch.float32 else np.float64)
        return HostFactor(features._replaced(dtype=plain).factor())

    def mean_variance(self, f: np.ndarray) -> tuple[float, np.ndarray]:
        """f^T M f with M_kl = <P_k, P_l> / n, a matrix made once, in one pass over pairs of an entry's visits."""
        if self._squares is None:
            self._squares = _step_squares(self._features)
        half = self._squares @ f
        return float(f @ half), 2 * half


class SeriesSource:
    """Exact rows by sparse products with a graph's walk matrix; the mean variance is trace(K) / N.

    Parameters
    ----------
    graph : Graph
    kernel : Kernel
        Checked against the graph.
    """

    def __init__(self, graph: Graph, kernel: Kernel) -> None:
        self.laplacian = kernel.laplacian
        self.scale = kernel.check_graph(graph)
        self._graph = graph
        self._series: SeriesFactor | None = None
        self._spectrum: tuple[np.ndarray, np.ndarray] | None = None
        self._warned = False
        self._rows = _Kept(self._make)

    def __deepcopy__(self, memo: dict[int, Any]) -> SeriesSource:
        return self

    def length(self, kernel: Kernel) -> int:
        """Terms for a tail of 1e-11 of sum |f_k|, rounded up so that small changes of the kernel keep it."""
        needed = series_length(kernel, self.scale, _SERIES_TAIL)
        if needed >= LONGEST_SERIES and not self._warned:
            self._warned = True
            warnings.warn(
                f"the series of {kernel!r} is cut after {LONGEST_SERIES} terms: its root decays slowly",
                TruncationWarning,
                stacklevel=2,
            )
        step = max(1, 2 ** (needed.bit_length() - 3))
        return -(-needed // step) * step

    def factor(self, nodes: np.ndarray, length: int, device: torch.device, dtype: torch.dtype) -> TorchFactor:
        """The rows of some nodes."""
        if self._series is None or self._series.max_length != length:
            self._series = SeriesFactor(self._graph, self.laplacian, max_length=length)
            self._rows = _Kept(self._make)
        return self._rows(nodes, device, dtype)

    def _make(self, nodes: np.ndarray, device: torch.device, dtype: torch.dtype) -> TorchFactor:
        assert self._series is not None
        rows = self._series.take(self._graph.positions(nodes))
        return HostFactor(rows) if device.type == "cpu" else DeviceSeries(rows, device, dtype)

    def mean_variance(self, f: np.ndarray) -> tuple[float, np.ndarray]:
        """sum_j w_j F(x_j)^2 over a quadrature of W's spectrum: exact up to 1,000 nodes, by Lanczos beyond."""
        if self._spectrum is None:
            # One fixed start: the same graph has the same normalisation every time.
            self._spectrum = density_of_states(self._graph, self.laplacian, np.random.default_rng(0))
        points, weights = self._spectrum
        values = np.polynomial.polynomial.polyval(points, f)
        gradient = np.empty(f.size)
        term = 2 * weights * values
        for k in range(f.size):
            gradient[k] = term.sum()
            term = term * points
        return float(weights @ values**2), gradient


class _Kept:
    """A function of nodes, device and dtype that keeps its last few results."""

    def __init__(self, make: Callable[[np.ndarray, torch.device, torch.dtype], TorchFactor]) -> None:
        self._make = make
        self._known: OrderedDict[tuple[Any, ...], TorchFactor] = OrderedDict()

    def __call__(self, nodes: np.ndarray, device: torch.device, dtype: torch.dtype) -> TorchFactor:
        key = nodes.tobytes(), device, dtype
        factor = self._known.pop(key, None)
        if factor is None:
            factor = self._make(nodes, device, dtype)
        self._known[key] = factor
        if len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return factor


def _step_squares(features: Features) -> np.ndarray:
    """<P_k, P_l> / n for all steps, shape (L + 1, L + 1)."""
    load = 1.0 / (features._survival * features.n_walks)
    root = features._degree_roots()
    sums = np.zeros((load.size, load.size))
    visit_ptr = features._visit_ptr
    for first, last in row_blocks(features._indptr):
        entries = slice(int(features._indptr[first]), int(features._indptr[last]))
        visits = slice(int(visit_ptr[first]), int(visit_ptr[last]))
        per_entry = features._visits_per_entry[entries].astype(np.int64)
        counts = features._counts[visits].astype(np.float64)
        if root.size:
            own = np.repeat(root[features.nodes[first:last]], np.diff(features._indptr[first : last + 1]))
            counts *= np.repeat(own / root[features._indices[entries]], per_entry)
        pointer = np.concatenate([[0], np.cumsum(per_entry)])
        by_step = sp.csr_array(
            (counts, features._steps[visits].astype(np.int64), pointer), shape=(per_entry.size, load.size)
        )
        sums += (by_step.T @ by_step).toarray()
    return np.asarray(sums * np.outer(load, load) / features.shape[0])
