"""The density of a field with a sparse precision, and its gradients: what all bridges share."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from graphrf._base import checks
from graphrf._base.warn import warn
from graphrf.bridges.covariances import FieldCovariance, Mixtures, Powers
from graphrf.graph.graph import Graph, require_graph
from graphrf.kernels.areal import BYM2, CAR
from graphrf.kernels.kernel import Kernel, require_kernel
from graphrf.operators.precision.markov import has_sparse_inverse

# Seconds of a gradient from which there is a warning: a sampler takes ten thousands of them.
_SLOW = 1.0


class SparseField:
    r"""A field on the nodes of a graph with a sparse precision: its log density and all gradients.

    .. math:: \log p(f \mid \theta, \sigma) = -\tfrac{N}{2} \log 2\pi - N \log \sigma - \tfrac12
        \log |K|
              - \tfrac{1}{2 \sigma^2} f^\top K^{-1} f, \quad
              \partial_\theta \log p = -\tfrac12 \mathrm{tr}(K^{-1} \partial K)
              - \tfrac{1}{2 \sigma^2} f^\top (\partial K^{-1}) f

    A density takes a sparse factorisation, gradients a selected inversion, which takes as long. The
    last factor is kept. Where hyperparameters are out of range, or a matrix is singular to
    rounding, the density is 0 (the first time with a warning). Source: Rue and Held 2005, "Gaussian
    Markov Random Fields", Sec. 2.4.

    Examples
    --------
    >>> import networkx as nx, numpy as np, graphrf as grf
    >>> from graphrf.bridges import SparseField
    >>> field = SparseField(grf.load_graph(nx.path_graph(3)), grf.CAR())
    >>> field.names
    ('dependence', 'sd')
    >>> density, in_field, in_values = field.gradients(
    ...     np.array([1.0, 0.0, -1.0]), np.array([0.9, 2.0])
    ... )
    >>> round(density, 4), in_field.round(4) + 0.0, in_values.round(4)
    (-5.57, array([-0.25,  0.  ,  0.25]), array([-4.7368, -1.25  ]))

    Parameters
    ----------
    graph : Graph, undirected, N nodes
    kernel : Kernel
        `Matern` with nu, or `RegularizedLaplacian` with power, 1, 2, 3 or 4; `Leroux`, `CAR` or
        `BYM2`, whose structured part is integrated out.
    free : sequence of str, optional
        The kernel's hyperparameters that vary. Default: all but smoothness and power, which cannot.

    Attributes
    ----------
    names : tuple of str
        The names of `values`: `free`, and "sd" for sigma.

    Raises
    ------
    TypeError, ValueError, FactorTooLargeError
        If the graph is directed, the kernel has no such density, or there is no room for the
        factor.
    """

    def __init__(self, graph: Graph, kernel: Kernel, free: Sequence[str] | None = None) -> None:
        self.graph, self.kernel = require_graph(graph), require_served(kernel)
        graph.require_undirected("a field on its nodes")
        kernel.check_graph(graph)

        known = trainable(kernel)
        for name in known if free is None else free:
            if name not in known:
                raise checks.value_error(
                    "free", f"must be of {', '.join(known)} of {kernel!r}, got {name!r}"
                )
        self.free = known if free is None else tuple(free)
        self.names = (*self.free, "sd")
        self._shared = (Mixtures if isinstance(kernel, BYM2) else Powers)(graph, kernel)
        self._last: tuple[Kernel, FieldCovariance] | None = None
        self._warned = False

        seconds = 2 * self._shared.pencil.elimination.seconds
        if seconds > _SLOW:
            warn(
                f"a gradient of the field takes about {seconds:.0f} s on this graph of "
                f"{self.n_nodes:,} nodes"
            )
        self._covariance(kernel)  # any failure of the factor is one of the construction

    def __reduce__(self) -> tuple[Any, ...]:
        return SparseField, (self.graph, self.kernel, self.free)

    def __repr__(self) -> str:
        return f"SparseField({self.graph!r}, {self.kernel!r}, free={self.free!r})"

    @property
    def n_nodes(self) -> int:
        """N."""
        return self.graph.n_nodes

    def log_density(self, x: np.ndarray, values: np.ndarray) -> float:
        """log p(x) for x of shape (N,) and values in the order of `names`."""
        result = self._at(x, values)
        return -math.inf if result is None else result[0]

    def gradients(self, x: np.ndarray, values: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """log p(x) and its gradients in x and values, (N,) and (len(names),); 0 where p is 0."""
        result = self._at(x, values)
        if result is None:
            return -math.inf, np.zeros(self.n_nodes), np.zeros(len(self.names))
        density, covariance, solved = result
        variance = float(values[-1]) ** 2
        slopes = []
        for name in self.free:
            log_determinant, quadratic = covariance.slopes(x, solved, name)
            slopes.append(-0.5 * (log_determinant + quadratic / variance))
        slopes.append((float(x @ solved) / variance - self.n_nodes) / float(values[-1]))
        return density, -solved / variance, np.array(slopes)

    def sample(self, values: np.ndarray, rng: np.random.Generator, n: int = 1) -> np.ndarray:
        """Independent draws, shape (n, N); ValueError for values out of their range."""
        sd = checks.number("sd", float(values[-1]), low=0, include_low=False)
        return np.ascontiguousarray(sd * self._covariance(self._kernel(values)).draws(rng, n).T)

    def _at(
        self, x: np.ndarray, values: np.ndarray
    ) -> tuple[float, FieldCovariance, np.ndarray] | None:
        """log p(x), K and K^-1 x; None where p is 0."""
        if x.shape != (self.n_nodes,) or values.shape != (len(self.names),):
            shapes = f"({self.n_nodes},) and ({len(self.names)},), got {x.shape} and {values.shape}"
            raise ValueError(f"a field and its values must have shapes {shapes}")

        sd = float(values[-1])
        try:
            checks.number("sd", sd, low=1e-150, high=1e150)  # its square must be a number
            covariance = self._covariance(self._kernel(values))
        except ValueError as error:  # LinAlgError is one
            if not self._warned:
                self._warned = True
                shown = ", ".join(
                    f"{name}={value:g}" for name, value in zip(self.names, values, strict=True)
                )
                warn(f"the density of the field is 0 at {shown}: {error}")
            return None

        with np.errstate(over="ignore", invalid="ignore"):
            solved = covariance.solve(x)
            quadratic = float(x @ solved) / sd**2
        if not math.isfinite(quadratic):  # x is far off, or not finite
            return None

        log_determinant = covariance.log_determinant + self.n_nodes * math.log(2 * math.pi * sd**2)
        return -0.5 * (log_determinant + quadratic), covariance, solved

    def _kernel(self, values: np.ndarray) -> Kernel:
        given = zip(self.free, values[:-1], strict=True)
        return self.kernel.replace(**{name: float(value) for name, value in given})

    def _covariance(self, kernel: Kernel) -> FieldCovariance:
        """K, kept until there is another: replaced as one, for threads."""
        last = self._last
        if last is None or last[0] != kernel:
            self._last = last = kernel, self._shared.at(kernel)
        return last[1]


def trainable(kernel: Kernel) -> tuple[str, ...]:
    """The hyperparameters of a kernel in which the density has a derivative."""
    return tuple(
        name
        for name in kernel.hyperparameters
        if name == "lengthscale" or name in kernel.proportions
    )


def require_served(kernel: Kernel) -> Kernel:
    """`kernel`, once it is known to have a density by one sparse factor."""
    if not has_sparse_inverse(require_kernel(kernel)) and not isinstance(kernel, BYM2 | CAR):
        raise checks.value_error(
            "kernel",
            "must be Matern with nu, or RegularizedLaplacian with power, 1, 2, 3 or 4, Leroux, CAR "
            f"or BYM2, got {kernel!r}, which has no density of the nodes by one sparse factor "
            "(ICAR's fields sum to 0; it is the structured part of BYM2)",
        )
    return kernel


def split_values(
    kernel: Any, given: Mapping[str, Any], is_number: Callable[[Any], bool]
) -> tuple[Kernel, dict[str, Any]]:
    """The kernel with the hyperparameters that are numbers, and the others: model variables."""
    known = require_kernel(kernel).hyperparameters
    for name in given:
        if name not in known:
            near = checks.did_you_mean(name, known)
            raise checks.type_error(
                name,
                f"is no hyperparameter of {kernel!r}, which has "
                f"{', '.join(known)}{'; ' * bool(near)}{near}",
            )
    numbers = {name: float(value) for name, value in given.items() if is_number(value)}
    variables = {name: value for name, value in given.items() if name not in numbers}
    for name in variables:
        if name not in trainable(kernel):
            raise checks.value_error(
                name, f"must be a number: the density of {kernel!r} has no derivative in it"
            )
    return require_served(kernel.replace(**numbers)), variables
