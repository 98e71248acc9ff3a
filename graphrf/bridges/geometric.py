"""Matérn and heat kernels for GeometricKernels, on graphs of any size and without eigenvectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from graphrf._base import checks
from graphrf.graph.graph import LAPLACIANS, Graph, require_graph
from graphrf.kernels.kernel import Kernel
from graphrf.kernels.named import Diffusion, Matern
from graphrf.operators.series.apply import kernel_block
from graphrf.operators.series.density_of_states import density_of_states
from graphrf.operators.series.spectral_filter import SpectralFilter

_missing: ImportError | None = None
try:
    from geometric_kernels.feature_maps.base import FeatureMap
    from geometric_kernels.kernels.base import BaseGeometricKernel
    from geometric_kernels.spaces.base import Space
    from lab import Int
except ImportError as _error:
    # Raised when a kernel is made: this file can be read without the library.
    _missing = _error
    BaseGeometricKernel = FeatureMap = Space = object
    Int = int

Block = Callable[[np.ndarray, np.ndarray | None], np.ndarray]
"""Entries of a function of the Laplacian, for rows and columns by position; None means all."""

# Entries are within this fraction of the spectrum's largest value, so that what is left after
# normalisation agrees with all eigenpairs to about ten digits.
_TOLERANCE = 1e-12


class NodeSpace(Space):
    """The nodes of a graph as a space of GeometricKernels: elements are positions, shape (1,)."""

    dimension = 0
    element_dtype: Any = Int

    def __init__(self, graph: Graph, laplacian: str) -> None:
        self.graph = graph
        self.laplacian = laplacian

    @property
    def element_shape(self) -> list[int]:
        """[1]."""
        return [1]

    @property
    def num_vertices(self) -> int:
        """N."""
        return self.graph.n_nodes

    def random(self, key: Any, number: int) -> tuple[Any, Any]:
        """The key, and `number` nodes drawn uniformly with replacement, shape (number, 1)."""
        from lab import randint

        key, nodes = randint(key, np.int64, number, 1, lower=0, upper=self.graph.n_nodes)
        return key, nodes


class MaternSeriesKernel(BaseGeometricKernel):
    r"""The kernel that GeometricKernels makes of a graph with all eigenpairs, by sparse products.

    .. math:: K = g(L) / \bar g, \quad \bar g = \tfrac1N \mathrm{trace} \, g(L), \quad
              g(\lambda) = (2 \nu / \ell^2 + \lambda)^{-\nu}, \text{ or } e^{-\ell^2 \lambda / 2}
              \text{ for } \nu = \infty.

    It replaces `MaternGeometricKernel(Graph(A), num=N)`, with the same parameters and results; that
    keeps at most 1,000 of the eigenpairs by default. `params` hold "nu" and "lengthscale", shape
    (1,), as NumPy arrays or torch tensors; results have their type, and first derivatives in both
    parameters where the tensors ask for gradients, as `GPyTorchGeometricKernel(kernel)` needs. X
    are node positions, shape (n,) or (n, 1), integers or integral floats below 2^24.

    Cost of K(X, X2): about 5 l sqrt(s) (heat) to 12 l sqrt(s) (Matérn) sparse products for every
    distinct node of the smaller of X and X2, with s = 1 for the normalized Laplacian and 2
    max(degree) for the combinatorial one; as many again for each parameter with a gradient. g_bar
    is exact on graphs of at most 1,000 nodes; above it is estimated by stochastic Lanczos
    quadrature, with a relative error near 1 / sqrt(64 N), at most about 1 / 2000.

    Source: Borovitskiy et al. 2021, "Matérn Gaussian processes on graphs"; Mostowsky et al. 2024,
    "The GeometricKernels Package".

    Examples
    --------
    A user of the library changes one line (their `Graph(A)` is what `space` was)::

        kernel = MaternSeriesKernel(graphrf.Graph(A))
        params = kernel.init_params()
        K = kernel.K(params, np.arange(5)[:, None])

    Parameters
    ----------
    graph : Graph
        Undirected, N nodes.
    laplacian : "combinatorial" or "normalized"
        Corresponds to `normalize_laplacian=False` (their default) and True of their `Graph`.
    normalize : bool
        Whether K is divided by its mean variance; if not, it is N g(L), as there.
    seed : int in [0, 2^63), optional
        Seed of the estimate of g_bar on graphs above 1,000 nodes; None draws one, which `seed`
        records.
    """

    def __init__(
        self,
        graph: Graph,
        *,
        laplacian: str = "combinatorial",
        normalize: bool = True,
        seed: int | None = None,
    ) -> None:
        if _missing is not None:
            raise ImportError(
                "MaternSeriesKernel needs the GeometricKernels library: pip install "
                "'graphrf[geometric]' (its release 1.0.1 needs numpy < 2.4). What failed: "
                f"{_missing}"
            ) from _missing
        require_graph(graph).require_undirected("a Matérn kernel")
        laplacian = checks.choice("laplacian", laplacian, LAPLACIANS)
        super().__init__(NodeSpace(graph, laplacian))
        self.graph = graph
        self.laplacian = laplacian
        self.normalize: bool = checks.flag("normalize", normalize)
        self.seed: int = checks.seed(seed)
        self._density: tuple[np.ndarray, np.ndarray] | None = None

    def init_params(self) -> dict[str, np.ndarray]:
        """The heat kernel of lengthscale 1, as there."""
        return {"nu": np.array([np.inf]), "lengthscale": np.array([1.0])}

    def K(self, params: Mapping[str, Any], X: Any, X2: Any = None, **kwargs: Any) -> Any:
        """The matrix K[X, X2], shape (n, n2); X2 = None means X."""
        rows = self._positions("X", X)
        cols = rows if X2 is None else self._positions("X2", X2)
        return self._evaluate(params, lambda block: block(rows, cols), self.normalize)

    def K_diag(self, params: Mapping[str, Any], X: Any, **kwargs: Any) -> Any:
        """The diagonal of K[X, X], shape (n,)."""
        rows = self._positions("X", X)

        def diagonal(block: Block) -> np.ndarray:
            result = np.empty(rows.size)
            for start in range(0, rows.size, 256):
                part = slice(start, start + 256)
                result[part] = np.diagonal(block(rows[part], rows[part]))
            return result

        return self._evaluate(params, diagonal, self.normalize)

    def feature_map(self) -> SeriesFeatureMap:
        """The feature map of this kernel, for `geometric_kernels.sampling.sampler` among others."""
        return SeriesFeatureMap(self)

    # -- how the numbers are made ------------------------------------------------------------------

    def _positions(self, name: str, nodes: Any) -> np.ndarray:
        return self.graph.positions(
            nodes.detach().cpu().numpy() if _is_torch(nodes) else nodes, argument=name
        )

    def _evaluate(
        self,
        params: Mapping[str, Any],
        entries: Callable[[Block], np.ndarray],
        normalize: bool,
        order: int = 1,
    ) -> Any:
        r"""`entries` of g^(1/order) over g_bar^(1/order), with derivatives for torch gradients."""
        kernel, given = self._kernel(params)
        names = [
            name for name in kernel.hyperparameters if getattr(given[name], "requires_grad", False)
        ]
        divisor, shrinking = (
            self._mean(kernel, names) if normalize else (1 / self.graph.n_nodes, {})
        )

        scale = divisor ** (-1 / order)
        value = scale * entries(
            partial(kernel_block, self.graph, kernel.root(order), tol=_TOLERANCE)
        )
        slopes = {
            name: scale * entries(self._slope(kernel, name, order).block)
            - value * (shrinking.get(name, 0.0) / (order * divisor))
            for name in names
        }

        like = given["lengthscale"]
        if not _is_torch(like):
            return value.astype(np.result_type(like.dtype, np.float32), copy=False)
        result = like.new_tensor(value)
        # value + slope (theta - theta) has the value, and the derivative.
        for name, slope in slopes.items():
            zero = (given[name] - given[name].detach()).reshape(()).to(like)
            result = result + like.new_tensor(slope) * zero
        return result

    def _slope(self, kernel: Kernel, name: str, order: int) -> SpectralFilter:
        """The derivative of g^(1/order) in a hyperparameter: g^(1/order) (log g)' / order."""
        root, scale = kernel.root(order), self.graph.laplacian_scale(self.laplacian)

        def function(eigenvalues: np.ndarray) -> np.ndarray:
            return np.asarray(
                root.spectrum(eigenvalues, scale) * _log_slope(kernel, name, eigenvalues) / order
            )

        return SpectralFilter(self.graph, self.laplacian, function, tol=_TOLERANCE)

    def _kernel(self, params: Mapping[str, Any]) -> tuple[Kernel, dict[str, Any]]:
        values = {}
        for name in ("nu", "lengthscale"):
            if name not in params:
                raise checks.value_error(
                    "params", f"must hold 'nu' and 'lengthscale', got {sorted(params)}"
                )
            value = params[name]
            if not (_is_torch(value) or isinstance(value, np.ndarray)):
                raise TypeError(
                    f"`params[{name!r}]` must be a NumPy array or a torch tensor, got "
                    f"{checks.describe(value)}"
                )
            if math.prod(value.shape) != 1:
                raise ValueError(
                    f"`params[{name!r}]` must have shape (1,), got {tuple(value.shape)}"
                )
            values[name] = value

        if _is_torch(values["nu"]) != _is_torch(values["lengthscale"]):
            raise checks.type_error(
                "params", "must hold two NumPy arrays or two torch tensors, got one of each"
            )

        nu, lengthscale = (
            float(x.detach() if _is_torch(x) else x.reshape(())) for x in values.values()
        )
        if nu == math.inf:
            return Diffusion(lengthscale, laplacian=self.laplacian), values
        return Matern(nu, lengthscale, laplacian=self.laplacian), values

    def _mean(self, kernel: Kernel, names: list[str]) -> tuple[float, dict[str, float]]:
        r"""g_bar and its derivatives."""
        if self._density is None:
            # The error falls as 1 / sqrt(probes x nodes).
            probes = int(np.clip(4_000_000 // self.graph.n_nodes, 1, 64))
            rng = np.random.default_rng(self.seed)
            self._density = density_of_states(self.graph, self.laplacian, rng, n_probes=probes)
        points, weights = self._density
        scale = self.graph.laplacian_scale(self.laplacian)
        eigenvalues = scale * np.maximum(1 - points, 0.0)
        values = kernel.spectrum(eigenvalues, scale)
        slopes = {
            name: float(weights @ (values * _log_slope(kernel, name, eigenvalues)))
            for name in names
        }
        return float(weights @ values), slopes


class SeriesFeatureMap(FeatureMap):
    """Rows of the symmetric root F of a `MaternSeriesKernel`, K = F F^T: its exact feature map.

    Called with X, shape (n, 1), and `params` it returns (None, features) with features of shape (n,
    N), normalised or not by `normalize` (None: as the kernel is). Cost: n times the products that K
    takes, and n N numbers. For draws at all nodes of a large graph `graphrf.apply_root` needs one
    column and no matrix.
    """

    def __init__(self, kernel: MaternSeriesKernel) -> None:
        self.kernel = kernel
        self.space: Any = kernel.space

    def __call__(
        self, X: Any, params: Mapping[str, Any], normalize: bool | None = True, **kwargs: Any
    ) -> tuple[None, Any]:
        kernel = self.kernel
        rows = kernel._positions("X", X)
        # Their sampler passes None by default.
        normalize = kernel.normalize if normalize is None else checks.flag("normalize", normalize)
        return None, kernel._evaluate(params, lambda block: block(rows, None), normalize, order=2)


def _log_slope(kernel: Kernel, name: str, eigenvalues: np.ndarray) -> np.ndarray:
    """d log g / d(hyperparameter), shape of the eigenvalues."""
    slopes = kernel.log_spectral_derivatives(eigenvalues)
    assert slopes is not None  # of the heat kernel and Matérn's
    return slopes[:, list(kernel.hyperparameters).index(name)]


def _is_torch(value: Any) -> bool:
    return type(value).__module__.split(".")[0] == "torch"
