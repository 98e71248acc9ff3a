"""Nodes: a field on the nodes of a graph as a term."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from graphrf._base import checks
from graphrf.gp.model.notices import warn_of_free_nodes
from graphrf.gp.model.settings import KERNELS
from graphrf.gp.search.coordinates import Parameter
from graphrf.gp.terms.covariate import require_column
from graphrf.gp.terms.levels import LevelAxis
from graphrf.gp.terms.parameters import BetaPrior, checked_prior
from graphrf.gp.terms.structure import Structure, Values
from graphrf.gp.terms.term import Term
from graphrf.graph.graph import Graph, require_graph
from graphrf.graph.notices import nodes_without_edges
from graphrf.kernels.kernel import Kernel, require_kernel
from graphrf.kernels.lengthscales import LENGTHSCALES, correlation_range, lengthscale_unit
from graphrf.operators.precision.areal import precision_of
from graphrf.operators.precision.markov import require_sparse_precision

# Priors where a term states none: those of `HyperparameterPrior`, with lengthscales in edges. Its
# prior of the mixing, of log odds, is close to the uniform one here.
_PRIORS: Mapping[str, Any] = {
    "lengthscale": (3.0, 3.0),
    "mixing": BetaPrior(),
    "dependence": (9.0, 6.0),
}
# The range of proportions.
_SHARES = (1e-4, 1 - 1e-4)


@dataclass(frozen=True)
class Nodes(Term):
    r"""A field on a graph: f ~ N(0, \sigma^2 K), one value for each node.

    Parameters
    ----------
    graph : Graph, undirected
    kernel : Kernel
        One with a sparse precision: `BYM2`, `CAR`, `ICAR`, `Leroux`, or `Matern` with nu or
        `RegularizedLaplacian` with power 1/2, 1, 3/2, 2, 5/2, 3 or 4. Terms with the same kernel
        object share its hyperparameters. Kernels that are functions of the Laplacian are divided by
        their mean variance.
    by : str
        The column with the nodes' names. A cell may be a list of nodes, whose mean it stands for,
        or a dictionary of nodes and weights.
    prior : mapping, optional
        Priors by name: `sd` and the kernel's hyperparameters. Default: `PenalisedDeviation()` of
        the standard deviation, a log-normal lengthscale with median 3 edges and factor 3, a uniform
        mixing, and odds of the dependence with median 9 and factor 6.
    fixed : tuple of str
        Hyperparameters of the kernel that stay as they are.

    Examples
    --------
    >>> import graphrf as grf
    >>> from graphrf.gp import Nodes
    >>> districts = grf.load_graph([("Ayr", "Bute"), ("Bute", "Clyde")])
    >>> Nodes(districts, grf.BYM2(), by="district").label
    'district'
    """

    graph: Graph
    kernel: Kernel
    by: str = "node"
    prior: Mapping[str, Any] | None = None
    fixed: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        require_graph(self.graph).require_undirected("a field on its nodes")
        if isinstance(self.kernel, str):
            name = KERNELS[checks.choice("kernel", self.kernel, KERNELS)].__name__
            raise checks.type_error(
                "kernel",
                f"must be a kernel and not its name, got {self.kernel!r}: graphrf.{name}()",
            )
        require_sparse_precision(require_kernel(self.kernel), "a term", "GraphGPRegressor")
        require_column(self.by)
        self.kernel.check_graph(self.graph)

        known = ("sd", *self.trained)
        for name in self.prior or ():
            if name not in known:
                raise checks.value_error(
                    "prior", f"must be of {', '.join(known)}, got one of {name!r}"
                )

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.by,)

    @property
    def trained(self) -> tuple[str, ...]:
        """The kernel's hyperparameters that are trained; smoothness and powers are not."""
        names = (
            name
            for name in self.kernel.hyperparameters
            if name == "lengthscale" or name in self.kernel.proportions
        )
        return tuple(name for name in names if name not in self.fixed)

    def axes(self, frame: Any) -> tuple[LevelAxis, ...]:
        return (NodeAxis(self),)

    def parameters(self) -> tuple[Parameter, ...]:
        """The kernel's hyperparameters, shared by all terms with this kernel object."""
        return tuple(self._parameter(name) for name in self.trained)

    def _parameter(self, name: str) -> Parameter:
        kind = "proportion" if name in self.kernel.proportions else "positive"
        low, high, unit = *_SHARES, 1.0

        if name == "lengthscale":
            unit = lengthscale_unit(self.graph, self.kernel.laplacian)
            low, high = (end * unit for end in LENGTHSCALES)

        prior = (self.prior or {}).get(name, _PRIORS[name])
        if kind == "proportion" or prior is None:
            prior = checked_prior(name, kind, prior)
        else:
            median, factor = checked_prior(name, kind, prior)  # type: ignore[misc]
            prior = (median * unit, factor)

        start = float(
            np.clip(
                self.kernel.hyperparameters[name], 2 * low, 0.5 * (high + (kind == "proportion"))
            )
        )
        return Parameter(
            f"{name}({self.by})", kind, start, low, high, prior, (name, id(self.kernel))
        )


class NodeStructure(Structure):
    """A kernel's precision: its N nodes first, hidden variables after them.

    Functions of the Laplacian are divided by their mean variance, so that a standard deviation is
    that of the field at a typical node; areal kernels are as they are defined.
    """

    def __init__(
        self,
        graph: Graph,
        kernel: Kernel,
        parameters: tuple[Parameter, ...],
        names: tuple[str, ...],
    ) -> None:
        self._precision = precision_of(graph, kernel).smooth_in_lengthscale()
        self.graph, self._kernel = graph, kernel
        self._last: tuple[Any, float] | None = None
        self._names = dict(zip((each.name for each in parameters), names, strict=True))
        self.size, self.parameters = self._precision.n_nodes, parameters
        self.constraints = self._precision.constraints

    def derived(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The range of a kernel with a lengthscale in the plane, in edges."""
        own = [name for name, each in self._names.items() if each == "lengthscale"]
        reach = correlation_range(self._kernel.replace(lengthscale=1.0), self.graph) if own else 0
        return {
            f"range{name.removeprefix('lengthscale')}, edges": reach * values[name]
            for name in own
            if reach > 0
        }

    def kernel(self, values: Values) -> Kernel:
        """The kernel with these hyperparameters."""
        return self._kernel.replace(**{each: values[name] for name, each in self._names.items()})

    def variance(self, values: Values) -> float:
        """The mean variance that the kernel is divided by."""
        return self._at(values)[1]

    def precision(self, values: Values) -> sp.csr_array:
        precision, variance = self._at(values)
        return sp.csr_array(precision.lifted * variance)

    def log_determinant(self, values: Values) -> float:
        precision, variance = self._at(values)
        return float(precision.log_determinant() + self.free * np.log(variance))

    def _at(self, values: Values) -> tuple[Any, float]:
        """The kernel's precision and the variance that it is multiplied by; the last are kept."""
        kernel, last = self.kernel(values), self._last
        if last is None or last[0].kernel != kernel:
            changed: Any = self._precision.with_kernel(kernel)
            last = changed, changed.mean_variance() if self._kernel.is_series else 1.0
            self._last = last
        return last


class NodeAxis(LevelAxis):
    """The nodes of a graph."""

    def __init__(self, term: Nodes) -> None:
        self.column, self.graph = term.by, term.graph
        self.levels = list(term.graph.nodes)
        self.structure = NodeStructure(term.graph, term.kernel, term.parameters(), term.trained)

    def warn_of(self, values: Values) -> None:
        field: Any = self.structure
        warn_of_free_nodes(
            field.graph,
            nodes_without_edges(field.graph),
            field.kernel(values),
            lambda: field.variance(values),
        )
