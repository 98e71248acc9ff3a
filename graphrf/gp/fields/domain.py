"""Domains: what carries a field, such as triangle meshes and metric graphs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from graphrf._base import checks
from graphrf._base.memory import needs_memory, require_memory
from graphrf._base.rows import slices
from graphrf.gp.fields.kernel import FieldKernel
from graphrf.gp.posterior.by_rows import LARGEST_JOINT
from graphrf.operators.pathwise import draws_at_once, draws_bytes
from graphrf.operators.precision.protocol import Precision
from graphrf.operators.precision.readings import Readings

_LESS_MEMORY = "ask for fewer places or draws at a time"


class DomainPlaces(Protocol):
    """Some places of a domain, once they are known to lie in it."""

    @property
    def size(self) -> int:
        """Their number."""
        ...

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of which a file consists."""
        ...

    def at(self, chosen: np.ndarray) -> Self:
        """Some of them."""
        ...

    def followed_by(self, others: Self) -> Self:
        """These and then the others."""
        ...


class FieldNodes(Protocol):
    """Nodes, among which some places are, and the variables of a field that its values there are
    read off.
    """

    where: np.ndarray  # the node of each place

    @property
    def n_nodes(self) -> int:
        """N."""
        ...

    @property
    def readings(self) -> Readings:
        """The linear map from the variables to values at nodes."""
        ...

    def precision(self, kernel: FieldKernel) -> Precision:
        """The precision of the variables, for standard deviation 1."""
        ...

    def readings_by(self, other: Self) -> Readings | None:
        """The map from the variables of other nodes to values at these nodes; None if these have
        variables of their own.
        """
        ...


class Domain(ABC):
    """A set that carries a Whittle-Matern field; a base class.

    A field is determined by finitely many variables with a sparse precision: along edges by its
    values at all vertices and places, on a mesh by the values at the vertices of triangles. A
    subclass says which, and has the units in which ranges are searched.
    """

    field_dimension: ClassVar[int]  # of the space in which the field lives: 1 or 2
    orders: ClassVar[tuple[float, ...]]  # values of alpha
    default_order: ClassVar[int]
    label: ClassVar[str]  # what a vertex is, as the title of an index

    @property
    @abstractmethod
    def length_unit(self) -> float:
        """The unit of the weak priors of ranges."""

    @property
    @abstractmethod
    def labels(self) -> Sequence[Hashable]:
        """The labels of all vertices."""

    @abstractmethod
    def places(self, places: Any = None) -> Any:
        """Places, checked; all vertices by default."""

    @abstractmethod
    def places_of(self, arrays: dict[str, np.ndarray]) -> Any:
        """The places with these arrays of a file, checked."""

    @abstractmethod
    def warn_of_parts(self, places: Any) -> None:
        """Warn of connected parts without any of these places, of which a fit learns nothing."""

    @abstractmethod
    def warn_of_range(self, range: float, places: Any) -> None:
        """Warn of a range that is too short for the variables of a field at these places."""

    @abstractmethod
    def field_nodes(self, places: Any, alpha: float) -> Any:
        """The nodes and variables of a field of order alpha at checked places."""

    def kernel(self, range: float, alpha: float) -> FieldKernel:
        """The covariance of a field of this range and order."""
        return FieldKernel(range, alpha, self.field_dimension)

    def checked_order(self, alpha: Any) -> float:
        """alpha, once it is an order of a field here; the default for None."""
        if alpha is None:
            return self.default_order
        number = isinstance(alpha, int | float | np.number) and not isinstance(alpha, bool)
        if not number or alpha not in self.orders:
            *most, last = map(str, self.orders)
            raise checks.value_error(
                "alpha",
                f"must be {', '.join(most)} or {last}, the order of the field (not scikit-learn's "
                f"noise variance), got {checks.describe(alpha)}",
            )
        return int(alpha) if float(alpha).is_integer() else float(alpha)

    # -- the prior -------------------------------------------------------------------------------

    @needs_memory(_LESS_MEMORY)
    def covariance(
        self, places: Any = None, *, range: float, sd: float = 1.0, alpha: float | None = None
    ) -> np.ndarray:
        """The covariance of the field of `FieldGPRegressor` at up to 5,000 places, shape (n, n),
        exact for whole orders.
        """
        nodes, precision, sd = self._prior(places, range, sd, alpha)
        distinct, inverse = np.unique(nodes.where, return_inverse=True)
        check_few(distinct.size)
        require_memory(
            16.0 * precision.n_nodes * distinct.size,
            f"the covariance of {distinct.size} places",
            "ask for fewer",
        )
        between = nodes.readings.covariances(precision.factor(), distinct)
        return np.asarray(sd * sd * between[np.ix_(inverse, inverse)])

    @needs_memory(_LESS_MEMORY)
    def sample(
        self,
        places: Any = None,
        *,
        range: float,
        sd: float = 1.0,
        alpha: float | None = None,
        n_samples: int = 1,
        seed: int | None = None,
    ) -> np.ndarray:
        """Joint draws of that field, shape (n_samples, n), by half a solve each."""
        nodes, precision, sd = self._prior(places, range, sd, alpha)
        n_samples = checks.integer("n_samples", n_samples, low=1)
        rng = np.random.default_rng(checks.seed(seed))
        require_memory(
            8.0 * n_samples * nodes.where.size + draws_bytes(precision.n_nodes, n_samples),
            f"`n_samples` = {n_samples}",
            "ask for fewer at a time, with another `seed` each",
        )
        factor, draws = precision.factor(), np.empty((n_samples, nodes.where.size))
        for part in slices(n_samples, draws_at_once(precision.n_nodes)):
            z = rng.standard_normal((part.stop - part.start, precision.n_nodes)).T
            draws[part] = sd * nodes.readings.read(factor.root(z), nodes.where).T
        return draws

    def _prior(
        self, places: Any, range: float, sd: float, alpha: Any
    ) -> tuple[FieldNodes, Precision, float]:
        """The nodes of places, the precision of their variables, and the standard deviation."""
        range = checks.number("range", range, low=0, include_low=False)
        sd = checks.number("sd", sd, low=0, include_low=False)
        alpha = self.checked_order(alpha)
        nodes: FieldNodes = self.field_nodes(self.places(places), alpha)
        return nodes, nodes.precision(self.kernel(range, alpha)), sd


def require_domain(domain: Any) -> Domain:
    """`domain`, once it is known to be one."""
    if not isinstance(domain, Domain):
        raise checks.type_error(
            "domain",
            f"must be a TriangleMesh or a MetricGraph, got {checks.describe(domain)}; "
            f"{_way_to_domain(domain)}",
        )
    return domain


def _way_to_domain(source: Any) -> str:
    """The call that makes a domain of an object."""
    if hasattr(source, "geom_type") and not any("Line" in kind for kind in source.geom_type):
        points = set(source.geom_type) <= {"Point"}
        return f"TriangleMesh.from_points({'' if points else 'boundary='}frame) makes a mesh of it"
    if hasattr(source, "vertices") and hasattr(source, "faces"):
        return "TriangleMesh.from_mesh(mesh) takes those of other libraries"
    if hasattr(source, "edges") and hasattr(source, "nodes") and hasattr(source, "adj"):
        return "MetricGraph.from_networkx(graph) makes one of edges with lengths"
    if len(getattr(source, "shape", ())) == 2 and source.shape[1] in (2, 3):
        return "TriangleMesh.from_points(points) makes a mesh around points"
    return (
        "MetricGraph(src, dst, length) makes one of edges; GraphGPRegressor takes a Graph, whose "
        "weights are not lengths"
    )


def check_few(n: int) -> None:
    """Raise if a joint covariance were of too many places."""
    if n > LARGEST_JOINT:
        raise checks.value_error(
            "places", f"must be at most {LARGEST_JOINT} for a joint covariance, got {n}"
        )
