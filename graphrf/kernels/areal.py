"""Kernels of areal data: conditional autoregressions, whose precisions are sparse."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from graphrf._base import checks
from graphrf._base.memory import require_memory
from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel

# A mixing proportion this near to 0 or 1 costs half of the digits of the precision.
_NEAREST = 1e-6
_LARGEST_DENSE = 5_000


@dataclass(frozen=True, repr=False)
class _ArealKernel(Kernel):
    """A kernel that is no function of the Laplacian, but has a sparse precision; for subclasses."""

    laplacian: str = field(default="combinatorial", init=False)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.hyperparameters.items())
        return f"{type(self).__name__}({shown})"

    @property
    def is_series(self) -> bool:
        return False

    def dense(self, graph: Graph) -> np.ndarray:
        """The exact kernel matrix, (N, N), by dense algebra: O(N^3), at most 5,000 nodes."""
        self.check_graph(graph)
        n = graph.n_nodes
        if n > _LARGEST_DENSE:
            raise ValueError(
                f"a dense matrix of {self!r} is made for at most {_LARGEST_DENSE} nodes, got {n}; "
                "graphrf.apply_kernel multiplies by it without forming it"
            )
        require_memory(32.0 * n**2, f"a dense kernel matrix of {n} nodes", "take fewer nodes")
        return self._matrix(graph)

    def dense_root(self, graph: Graph) -> np.ndarray:
        """The exact symmetric F with K = F F^T, shape (N, N), float64; cost as `dense`."""
        eigenvalues, vectors = np.linalg.eigh(self.dense(graph))
        return np.asarray((vectors * np.sqrt(np.maximum(eigenvalues, 0.0))) @ vectors.T)

    def _matrix(self, graph: Graph) -> np.ndarray:
        raise NotImplementedError

    def _refuse(self, *_: Any) -> NoReturn:
        raise checks.value_error(
            "kernel",
            f"must be a function of the Laplacian here, and {self!r} is none: it has no series in "
            "the walk matrix and no random features; GraphGPRegressor takes it (method 'auto' or "
            "'precision'), and Leroux is an areal kernel that is such a function",
        )

    modulation_coefficients = taylor_coefficients = modulation_derivatives = _refuse  # type: ignore[assignment]
    spectral_function = root_spectral_function = _refuse  # type: ignore[assignment]
    modulation_remainder = nth_root = _refuse  # type: ignore[assignment]


@dataclass(frozen=True, repr=False)
class ICAR(_ArealKernel):
    r"""The intrinsic conditional autoregression, scaled.

    .. math:: K = \frac{1}{s} L^{+}, \quad \log s = \frac1N \sum_i \log (L^{+})_{ii},

    with the pseudoinverse of the combinatorial Laplacian L: the density of f is proportional to
    exp(-s f^T L f / 2), restricted to fields that sum to zero. The geometric mean of the variances
    is 1, so that an output scale means the same on all graphs.

    Without that constraint the density would be improper, since it does not depend on the level;
    that is left to the constant of the mean, whose prior is flat. On a graph of several components
    each of them is scaled for itself and sums to zero for itself, and isolated nodes are
    independent with variance 1. Components whose levels may differ need covariates that indicate
    their nodes.

    Sources: Besag, York and Mollié 1991, "Bayesian image restoration, with two applications in
    spatial statistics"; Sørbye and Rue 2014, "Scaling intrinsic Gaussian Markov random field priors
    in spatial modelling"; Freni-Sterrantino, Ventrucci and Rue 2018, "A note on intrinsic
    conditional autoregressive models for disconnected graphs".

    Examples
    --------
    >>> import numpy as np, graphrf as grf
    >>> line = grf.from_edges([0, 1], [1, 2])
    >>> K = grf.ICAR().dense(line)
    >>> bool(np.allclose(K.sum(axis=0), 0)), float(np.exp(np.log(np.diag(K)).mean()).round(6))
    (True, 1.0)
    """

    def _matrix(self, graph: Graph) -> np.ndarray:
        laplacian = graph.laplacian(normalized=False)
        result = np.zeros(laplacian.shape)
        components = graph.components()
        for component in range(int(components.max()) + 1):
            nodes = np.flatnonzero(components == component)
            if nodes.size == 1:
                result[nodes, nodes] = 1.0
                continue
            block = laplacian[nodes][:, nodes].toarray()
            # L + level 11^T / n has the inverse L^+ + 11^T / (level n)
            level = float(np.trace(block)) / nodes.size
            own = np.linalg.inv(block + level / nodes.size) - 1 / (level * nodes.size)
            result[np.ix_(nodes, nodes)] = own / math.exp(float(np.log(np.diag(own)).mean()))
        return 0.5 * (result + result.T)


@dataclass(frozen=True, repr=False)
class BYM2(_ArealKernel):
    r"""The model of Besag, York and Mollié in Riebler et al.'s form: structured and unstructured.

    .. math:: K = (1 - \varphi) I + \varphi K_{\mathrm{ICAR}},

    f = sqrt(1 - phi) v + sqrt(phi) u with independent standard normal v, and u with the covariance
    of `ICAR`, the geometric mean of whose variances is 1. So phi is the proportion of the variance
    that the graph explains.

    Sources: Riebler, Sørbye, Simpson and Rue 2016, "An intuitive Bayesian spatial model for disease
    mapping that accounts for scaling"; Freni-Sterrantino, Ventrucci and Rue 2018, "A note on
    intrinsic conditional autoregressive models for disconnected graphs".

    Parameters
    ----------
    mixing : float
        phi, from 1e-6 to 1 - 1e-6.

    Notes
    -----
    With `normalize=False` the output scale of a Gaussian process is the variance 1 / tau of Riebler
    et al., with `normalize=True` the mean variance of f over the nodes.

    The precision of f alone is dense. That of f and u together is sparse, with 2 N rows; u sums to
    zero in each component, see `ICAR`, and isolated nodes have variance 1.

    Examples
    --------
    >>> import numpy as np, graphrf as grf
    >>> line = grf.from_edges(range(5), range(1, 6))
    >>> K, structured = grf.BYM2(mixing=0.25).dense(line), grf.ICAR().dense(line)
    >>> bool(np.allclose(K, 0.75 * np.eye(6) + 0.25 * structured))
    True
    """

    mixing: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_proportion("mixing", _NEAREST)

    @property
    def proportions(self) -> tuple[str, ...]:
        return ("mixing",)

    def _matrix(self, graph: Graph) -> np.ndarray:
        return (1 - self.mixing) * np.eye(graph.n_nodes) + self.mixing * ICAR()._matrix(graph)


@dataclass(frozen=True, repr=False)
class CAR(_ArealKernel):
    r"""The proper conditional autoregression.

    .. math:: K = (D - \rho A)^{-1},

    with weights A and degrees D (loops are left out): given its neighbours, a node has the mean rho
    times their weighted mean, and the precision of its degree. Isolated nodes are refused; `Leroux`
    and `BYM2` serve them.

    Source: Besag 1974, "Spatial interaction and the statistical analysis of lattice systems".

    Parameters
    ----------
    dependence : float
        rho in (0, 1). Correlations are weak but for values near 1.

    Examples
    --------
    >>> import numpy as np, graphrf as grf
    >>> line = grf.from_edges([0, 1], [1, 2])
    >>> np.linalg.inv(grf.CAR(dependence=0.9).dense(line)).round(6) + 0.0
    array([[ 1. , -0.9,  0. ],
           [-0.9,  2. , -0.9],
           [ 0. , -0.9,  1. ]])
    """

    dependence: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_proportion("dependence")

    @property
    def proportions(self) -> tuple[str, ...]:
        return ("dependence",)

    def check_graph(self, graph: Graph) -> float:
        scale = super().check_graph(graph)
        alone = np.flatnonzero(graph.without_loops().degrees <= 0)
        if alone.size:
            raise checks.value_error(
                "graph",
                f"must have no isolated nodes with {self!r}, which has no variance there, and node "
                f"{alone[0]} is one of {alone.size}; use Leroux or BYM2, or join them to their "
                "neighbours",
            )
        return scale

    def _matrix(self, graph: Graph) -> np.ndarray:
        laplacian = graph.laplacian(normalized=False).toarray()
        diagonal = np.diag(np.diag(laplacian))
        inverse = np.linalg.inv((1 - self.dependence) * diagonal + self.dependence * laplacian)
        return 0.5 * (inverse + inverse.T)
