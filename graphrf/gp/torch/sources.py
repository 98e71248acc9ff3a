"""Sources of a trainable kernel's rows: sampled features, local or remote, or the exact series."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from graphrf._base.warn import warn
from graphrf.features import bounds
from graphrf.features.bounds import TruncationWarning
from graphrf.features.device_record import device_row_numbers
from graphrf.features.error import warn_of_diagonal
from graphrf.features.factor import FeatureFactor
from graphrf.features.features import Features
from graphrf.features.matrix import step_squares
from graphrf.features.rows import row_numbers
from graphrf.features.sample_info import SampleInfo
from graphrf.gp.torch.device_factors import TorchFeatureFactor, TorchSeriesFactor
from graphrf.gp.torch.factor import HostFactor, RemoteFactor, TorchFactor
from graphrf.graph.graph import Graph
from graphrf.kernels.chebyshev import chebyshev_columns
from graphrf.kernels.derivatives import jacobian_columns, root_derivatives
from graphrf.kernels.kernel import Kernel
from graphrf.operators.factor import Factor
from graphrf.operators.series.density_of_states import density_of_states
from graphrf.operators.series.series_factor import SeriesFactor

# The largest degree of Chebyshev polynomials; only kernels whose root is singular at the end of the
# spectrum come near it.
_LARGEST_DEGREE = 4_000


class TorchSource(ABC):
    """Rows of F for any nodes, and the mean prior variance that belongs to a modulation."""

    def __init__(self, laplacian: str, scale: float) -> None:
        self.laplacian = laplacian
        self.scale = scale
        self._warned = False
        self._rows = _Kept(self._make)

    def __deepcopy__(self, memo: dict[int, Any]) -> TorchSource:
        return self  # graph and record are never changed, and large

    @abstractmethod
    def coefficients(self, kernel: Kernel, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """f, and its derivatives in the named hyperparameters, shape (L + 1, len(names))."""

    def factor(self, nodes: Tensor, device: torch.device, dtype: torch.dtype) -> TorchFactor:
        """The rows of some nodes, int64, shape (n,), all among those that the source has."""
        return self._rows(nodes, device, dtype)

    @abstractmethod
    def mean_variance(self, f: np.ndarray) -> tuple[float, np.ndarray]:
        """The mean diagonal entry of F F^T, and its gradient in f."""

    @abstractmethod
    def _make(self, nodes: Tensor, device: torch.device, dtype: torch.dtype) -> TorchFactor:
        """`factor`, for nodes that are not among the last."""


class RemoteFeatures(Protocol):
    """Sampled features whose record lives elsewhere, as on a cluster: has `step_squares`."""

    # Settings that all rows share.
    info: SampleInfo

    @property
    def nodes(self) -> np.ndarray:
        """Positions of the rows' nodes, int64, shape (n,)."""

    def factor(self) -> Factor:
        """F of all rows, in the order of `nodes`; of some of them by its `take`."""

    def step_squares(self) -> np.ndarray:
        """`graphrf.features.step_squares` of all rows."""


class _TorchSampledSource(TorchSource):
    """A source of sampled rows; the mean variance is that of F F^T over the nodes that they hold.

    It warns of truncated rows at the start: later only the ends of walks or powers matter.
    """

    def __init__(self, info: SampleInfo) -> None:
        super().__init__(info.laplacian, info.scale)
        self._size = info.max_length + 1
        self._info = info
        self._squares: np.ndarray | None = None

    def coefficients(self, kernel: Kernel, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """The modulation up to the features' largest length; warns once of an outgrown one."""
        f = kernel.modulation(self._size, self.scale)
        if not self._warned:
            result = bounds.suitability_warnings(self._info, kernel, f)
            self._warned = bool(result)
            for warning in result:
                warn(warning)
        return f, jacobian_columns(kernel, names, self._size, self.scale)

    def mean_variance(self, f: np.ndarray) -> tuple[float, np.ndarray]:
        """f^T M f with M_kl = <P_k, P_l> / n, a matrix made once."""
        if self._squares is None:
            self._squares = self._mean_squares()
        half = self._squares @ f
        return float(f @ half), 2 * half

    @abstractmethod
    def _mean_squares(self) -> np.ndarray:
        """M, float64, shape (L + 1, L + 1)."""


class TorchFeatureSource(_TorchSampledSource):
    """Rows of sampled features, on their record's device; kernels checked as in `Features`."""

    def __init__(self, features: Features, kernel: Kernel) -> None:
        f = features.checked_modulation(kernel)
        super().__init__(features.info)
        self._features = features
        if features.on_device:
            there = torch.from_numpy(f).to(features.device)
            diagonal = self._on_device().diagonal(there).cpu().numpy()
        else:
            diagonal = features.factor().diagonal(f)
        warn_of_diagonal(features.nodes, diagonal, kernel, self.scale)

    def factor(self, nodes: Tensor, device: torch.device, dtype: torch.dtype) -> TorchFactor:
        """The rows of nodes that the features hold; ValueError if they are on another device."""
        if self._features.device not in ("cpu", str(device)):
            raise ValueError(
                f"the kernel and its features must be on one device, got a kernel on {device} and "
                f"features on {self._features.device}; move the model with "
                f".to({self._features.device!r}), or the features with features.to('cpu'), from "
                "where they are copied to the model's device"
            )
        return super().factor(nodes, device, dtype)

    def _make(self, nodes: Tensor, device: torch.device, dtype: torch.dtype) -> TorchFactor:
        features = self._features
        if features.on_device:
            own = features.device_rows(torch.device(features.device)).nodes
            if torch.equal(nodes, own):
                return TorchFeatureFactor(features, device, dtype)
            return TorchFeatureFactor(features, device, dtype).take(
                device_row_numbers("nodes", nodes, own)
            )
        rows = row_numbers("nodes", nodes.cpu().numpy(), features.nodes)
        if not np.array_equal(rows, np.arange(features.shape[0])):
            features = Features(features.info, features.nodes[rows], features.record.take(rows))
        if device.type != "cpu":
            return TorchFeatureFactor(features, device, dtype)
        # values of the model's type: products of mixed types would convert them each time
        plain = np.dtype(np.float32 if dtype == torch.float32 else np.float64)
        return HostFactor(
            FeatureFactor(replace(features.info, dtype=plain), features.nodes, features.record)
        )

    def _mean_squares(self) -> np.ndarray:
        """M in one pass over pairs of an entry's visits; of a device's record it is made there."""
        features = self._features
        if not features.on_device:
            return step_squares(features.info, features.nodes, features.record)
        return np.asarray(self._on_device().mean_squares().cpu().numpy())

    def _on_device(self) -> TorchFeatureFactor:
        """All rows of features that lie on a device."""
        return TorchFeatureFactor(
            self._features, torch.device(self._features.device), torch.float64
        )


class TorchRemoteSource(_TorchSampledSource):
    """Rows of sampled features that are elsewhere: products pass through the host, in their dtype.

    The kernel is checked as by `TorchFeatureSource`, but for what `CutPowers` drop.
    """

    def __init__(self, features: RemoteFeatures, kernel: Kernel) -> None:
        f = bounds.checked_modulation(features.info, kernel)
        super().__init__(features.info)
        warn_of_diagonal(features.nodes, features.factor().diagonal(f), kernel, self.scale)
        self._features = features

    def _make(self, nodes: Tensor, device: torch.device, dtype: torch.dtype) -> TorchFactor:
        rows = row_numbers("nodes", nodes.cpu().numpy(), self._features.nodes)
        factor = self._features.factor()
        if not np.array_equal(rows, np.arange(self._features.nodes.size)):
            factor = factor.take(rows)
        return RemoteFactor(factor)

    def _mean_squares(self) -> np.ndarray:
        return self._features.step_squares()


class TorchSeriesSource(TorchSource):
    """Exact rows by sparse products with a graph's walk matrix; the mean variance is trace(K) / N.

    The modulation is the Chebyshev coefficients of F as a function of the walk matrix
    (`TorchSeriesFactor`).
    """

    def __init__(self, graph: Graph, kernel: Kernel) -> None:
        super().__init__(kernel.laplacian, kernel.check_graph(graph))
        self._graph = graph
        self._series = SeriesFactor(graph, self.laplacian, max_length=0)
        self._width = self._series.width
        self._spectrum: tuple[np.ndarray, np.ndarray] | None = None
        self._every: dict[tuple[torch.device, torch.dtype], TorchSeriesFactor] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_every": {}}  # which may lie on devices that others have not

    def coefficients(self, kernel: Kernel, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Chebyshev coefficients of F and derivatives, by interpolation; cut at 1e-12."""
        scale = self.scale

        def values(gap: np.ndarray) -> np.ndarray:
            slopes = root_derivatives(kernel, names, gap, scale)
            return np.column_stack([kernel.root_spectrum(scale * gap, scale), slopes])

        c, _ = chebyshev_columns(
            values, self._width, tol=1e-12, max_degree=_LARGEST_DEGREE, columns=slice(None)
        )
        kept, dropped = c[: _LARGEST_DEGREE + 1], c[_LARGEST_DEGREE + 1 :, 0]
        if dropped.size and not self._warned:
            gap = np.linspace(0, self._width, _LARGEST_DEGREE)
            lost = float(
                np.abs(dropped).sum() / np.abs(kernel.root_spectrum(scale * gap, scale)).max()
            )
            if lost > 1e-4:
                self._warned = True
                warn(
                    f"the series of {kernel!r} is cut after {_LARGEST_DEGREE} Chebyshev terms: F "
                    f"is off by up to {lost:.1g} of its norm",
                    TruncationWarning,
                )
        return kept[:, 0].copy(), kept[:, 1:].copy()

    def _make(self, nodes: Tensor, device: torch.device, dtype: torch.dtype) -> TorchFactor:
        if (device, dtype) not in self._every:
            self._every[device, dtype] = TorchSeriesFactor(self._series, device, dtype)
        outside = (nodes < 0) | (nodes >= self._graph.n_nodes)
        if bool(outside.any()):
            # This raises, as for every node out of range.
            self._graph.positions(nodes[outside][:1].cpu().numpy())
        return self._every[device, dtype].take(nodes)

    def mean_variance(self, f: np.ndarray) -> tuple[float, np.ndarray]:
        """sum_j w_j F(x_j)^2 by quadrature of W's spectrum: exact to 1,000 nodes, then Lanczos."""
        if self._spectrum is None:
            # One fixed start: the same graph has the same normalisation every time.
            points, weights = density_of_states(
                self._graph, self.laplacian, np.random.default_rng(0)
            )
            low = 1 - self._width
            self._spectrum = (
                (2 * np.clip(points, low, 1.0) - 1 - low) / (self._width or 1.0),
                weights,
            )
        points, weights = self._spectrum
        values = np.polynomial.chebyshev.chebval(points, f)
        weighted = 2 * weights * values
        gradient = np.empty(f.size)
        before, now = points, np.ones_like(points)  # T_{-1} = T_1
        for k in range(f.size):
            gradient[k] = weighted @ now
            before, now = now, 2 * points * now - before
        return float(weights @ values**2), gradient


class _Kept:
    """A function of nodes, device and dtype that keeps its last few results; pickles hold none.

    Nodes are compared where they lie, number by number, so that tensors changed in place are
    noticed.
    """

    def __init__(self, make: Callable[[Tensor, torch.device, torch.dtype], TorchFactor]) -> None:
        self._make = make
        self._known: tuple[tuple[Tensor, torch.device, torch.dtype, TorchFactor], ...] = ()

    def __call__(self, nodes: Tensor, device: torch.device, dtype: torch.dtype) -> TorchFactor:
        nodes = nodes.to(device)
        before = self._known  # read once and replaced whole: another thread may be doing the same
        for one in before:
            known, *kind, factor = one
            if kind == [device, dtype] and known.shape == nodes.shape and torch.equal(known, nodes):
                self._known = (*(other for other in before if other is not one), one)
                return factor
        factor = self._make(nodes, device, dtype)
        # Two pairs of training and test nodes are kept.
        self._known = (*before, (nodes.clone(), device, dtype, factor))[-4:]
        return factor

    def __getstate__(self) -> dict[str, Any]:
        return {"_make": self._make, "_known": ()}
