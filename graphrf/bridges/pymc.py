"""Fields on graphs in PyMC models: a distribution with density and gradients by sparse factors."""

from __future__ import annotations

import numbers
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from graphrf._base import checks
from graphrf._base.lazy import missing
from graphrf.bridges.field import SparseField, split_values
from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel

try:
    import pymc as pm
    import pytensor.tensor as pt
    from pymc.distributions.distribution import Continuous, _support_point
    from pymc.logprob.abstract import _logprob
    from pytensor.gradient import DisconnectedType, grad_not_implemented
    from pytensor.graph.basic import Apply
    from pytensor.graph.op import Op
    from pytensor.tensor.blockwise import Blockwise
    from pytensor.tensor.random.op import RandomVariable
except ModuleNotFoundError as error:
    raise missing(error, __name__) from error

__all__ = ["GraphField"]


class _OfField(Op):
    """A function of one field x and its values (`SparseField.names`)."""

    __props__ = ("field",)

    def __init__(self, field: SparseField) -> None:
        self.field = field


class _Density(_OfField):
    """The log density."""

    def make_node(self, x: Any, values: Any) -> Apply:
        return Apply(self, _vectors(x, values), [pt.scalar(dtype="float64")])

    def perform(self, node: Apply, inputs: Sequence[np.ndarray], outputs: Any) -> None:
        outputs[0][0] = np.array(self.field.log_density(*inputs))

    def infer_shape(self, fgraph: Any, node: Apply, shapes: Any) -> Any:
        return [()]

    def L_op(self, inputs: Sequence[Any], outputs: Any, slopes: Sequence[Any]) -> list[Any]:
        return [slopes[0] * gradient for gradient in _Gradients(self.field)(*inputs)]


class _Gradients(_OfField):
    """The gradients of the log density in x and the values; their own derivatives are missing."""

    def make_node(self, x: Any, values: Any) -> Apply:
        return Apply(
            self, _vectors(x, values), [pt.vector(dtype="float64"), pt.vector(dtype="float64")]
        )

    def perform(self, node: Apply, inputs: Sequence[np.ndarray], outputs: Any) -> None:
        _, outputs[0][0], outputs[1][0] = self.field.gradients(*inputs)

    def infer_shape(self, fgraph: Any, node: Apply, shapes: Any) -> Any:
        return shapes

    def L_op(self, inputs: Sequence[Any], outputs: Any, slopes: Sequence[Any]) -> list[Any]:
        if all(isinstance(slope.type, DisconnectedType) for slope in slopes):
            return [DisconnectedType()() for _ in inputs]
        why = "a GraphField has first derivatives alone"
        return [grad_not_implemented(self, i, each, comment=why) for i, each in enumerate(inputs)]


def _vectors(x: Any, values: Any) -> list[Any]:
    return [pt.cast(pt.as_tensor(each), "float64") for each in (x, values)]


class _GraphFieldVariable(RandomVariable):
    """Draws of a field, with one scalar parameter for each of its values."""

    __props__ = (*RandomVariable.__props__, "field")
    _print_name = ("GraphField", r"\operatorname{GraphField}")

    def __init__(
        self,
        field: SparseField,
        name: str = "graph_field",
        signature: str | None = None,
        dtype: str = "float64",
        inplace: bool = False,
    ) -> None:
        self.field = field
        own = signature or f"{','.join(['()'] * len(field.names))}->({field.n_nodes})"
        super().__init__(name=name, signature=own, dtype=dtype, inplace=inplace)

    def rng_fn(self, rng: np.random.Generator, *arguments: Any) -> np.ndarray:
        *values, size = arguments
        together = np.stack(np.broadcast_arrays(*values), axis=-1)
        batch = together.shape[:-1] if size is None else tuple(size)
        together = np.broadcast_to(together, (*batch, len(values)))
        drawn = np.empty((*batch, self.field.n_nodes))
        for index in np.ndindex(batch):
            drawn[index] = self.field.sample(together[index], rng)[0]
        return drawn


@_logprob.register(_GraphFieldVariable)
def _log_density(
    op: _GraphFieldVariable, values: Any, rng: Any, size: Any, *parameters: Any, **_: Any
) -> Any:
    (x,) = values
    own = pt.stack(pt.broadcast_arrays(*map(pt.as_tensor, parameters)), axis=-1)
    return Blockwise(_Density(op.field), signature="(n),(p)->()")(x, own)


@_support_point.register(_GraphFieldVariable)
def _zero(op: _GraphFieldVariable, rv: Any, *_: Any) -> Any:
    return pt.zeros(rv.shape)


class GraphField(Continuous):
    r"""A field on the nodes of a graph as a PyMC random variable ([guide](../bridges.md#pymc)).

    .. math:: f \sim N(0, \sigma^2 K_\theta)

    A gradient takes some 20 ms for 6,000 areas; there are no second derivatives. Draws are exact.
    Where values are out of range the density is 0, with a warning the first time. A field of
    standard deviation 1, multiplied by sigma in the model (`sd * GraphField(...)`), is the better
    parametrisation where the data are uninformative.

    Examples
    --------
    >>> import networkx as nx, numpy as np, pymc as pm, graphrf as grf
    >>> from graphrf.bridges.pymc import GraphField
    >>> graph = grf.load_graph(nx.path_graph(["Ayr", "Bute", "Clyde"]))
    >>> with pm.Model() as model:
    ...     sd, mixing = pm.HalfNormal("sd"), pm.Beta("mixing", 1, 1)
    ...     f = GraphField("f", graph, grf.BYM2(), sd=sd, mixing=mixing, dims="district")
    ...     y = pm.Poisson("y", pm.math.exp(f), observed=[3, 1, 0])
    >>> model.coords["district"]
    ('Ayr', 'Bute', 'Clyde')

    Parameters
    ----------
    name : str
    graph, kernel
        As in `SparseField`, also for the errors; f is the sum of both parts of `BYM2`.
    sd : number or variable
        sigma > 0, which multiplies fields as they are defined by the kernel.
    dims : str or sequence of str, optional
        The last has N entries. If the model has no such coordinate, it has the names of the nodes;
        ValueError for another length or order.
    **hyperparameters : number or variable
        The kernel's lengthscale, mixing or dependence; default those of `kernel`.
    shape, size, initval, observed, ... : optional
        As in all distributions of PyMC. Further axes to the left are independent fields.
    """

    rv_type = _GraphFieldVariable

    def __new__(
        cls, name: str, graph: Graph, kernel: Kernel, *args: Any, dims: Any = None, **options: Any
    ) -> Any:
        """The variable, registered in the model."""
        if dims is not None:
            dims = (dims,) if isinstance(dims, str) else tuple(dims)
            _give_names(pm.modelcontext(None), dims[-1], graph)
        return super().__new__(cls, name, graph, kernel, *args, dims=dims, **options)

    @classmethod
    def dist(cls, graph: Graph, kernel: Kernel, sd: Any = 1.0, **options: Any) -> Any:
        """The variable without a model."""
        library = {"shape", "size", "rng", "name", "dtype"}
        given = {name: value for name, value in options.items() if name not in library}
        chosen, variables = split_values(kernel, given, _is_number)
        if _is_number(sd):
            sd = np.float64(checks.number("sd", float(sd), low=0, include_low=False))
        field = SparseField(graph, chosen, tuple(variables))
        _check_shape(options.get("shape"), field.n_nodes)
        kept = {name: value for name, value in options.items() if name in library}
        return super().dist([*map(pt.as_tensor, (*variables.values(), sd))], field=field, **kept)

    @classmethod
    def rv_op(cls, *parameters: Any, field: SparseField, **options: Any) -> Any:
        """The variable of these parameters."""
        return _GraphFieldVariable(field)(*parameters, **options)


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real | np.number) or (
        isinstance(value, np.ndarray) and value.ndim == 0
    )


def _check_shape(shape: Any, n_nodes: int) -> None:
    """Refuse a shape whose last axis is not that of the nodes, as far as it is known."""
    if shape is None:
        return
    last = tuple(np.atleast_1d(np.asarray(shape, dtype=object)))[-1:]
    for length in last:
        known = length.data if isinstance(length, pt.TensorConstant) else length
        if last and isinstance(known, numbers.Integral | np.ndarray) and int(known) != n_nodes:
            raise checks.value_error(
                "shape", f"must end with the {n_nodes} nodes of the graph, got {int(known)}"
            )


def _give_names(model: Any, dim: str, graph: Graph) -> None:
    """The nodes' names as a coordinate if there is none; refuse another length or order."""
    names = [name if isinstance(name, str | int) else str(name) for name in graph.nodes]
    if dim not in model.coords:
        model.add_coord(dim, names)
        return
    given = model.coords[dim]
    if given is None:
        return
    if len(given) != len(names):
        raise checks.value_error(
            "dims", f"must end with a dimension of {len(names)} nodes, and {dim!r} has {len(given)}"
        )
    if graph.has_names and _in_other_order(names, given):
        raise checks.value_error(
            "dims",
            f"must end with the nodes in the order of graph.nodes, and {dim!r} has others, or "
            "another order",
        )


def _in_other_order(names: Sequence[Hashable], given: Sequence[Hashable]) -> bool:
    own, theirs = list(map(str, names)), list(map(str, given))
    return own != theirs and not set(own).isdisjoint(theirs)
