"""Fields on graphs in NumPyro models: a distribution, with gradients by sparse factors."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np

from graphrf._base import checks
from graphrf._base.lazy import missing
from graphrf.bridges.field import SparseField, split_values
from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel

try:
    import jax
    import jax.numpy as jnp
    from numpyro.distributions import Distribution, constraints
    from numpyro.distributions.util import validate_sample
except ModuleNotFoundError as error:
    raise missing(error, __name__) from error

__all__ = ["GraphField"]


class GraphField(Distribution):
    r"""A field on the nodes of a graph as a NumPyro distribution ([guide](../bridges.md#numpyro)).

    .. math:: f \sim N(0, \sigma^2 K_\theta)

    The factor is computed on the host (`jax.pure_callback`), once for each member of a batch;
    derivatives are of reverse mode and first order. Draws are exact, determined by the key, and
    have no derivative. Where values are out of range the density is 0, with a warning the first
    time.

    Examples
    --------
    >>> import jax, networkx as nx, numpyro, graphrf as grf
    >>> from graphrf.bridges.numpyro import GraphField
    >>> numpyro.enable_x64()
    >>> graph = grf.load_graph(nx.path_graph(3))
    >>> f = GraphField(graph, grf.BYM2(), mixing=0.5, sd=2.0)
    >>> f.event_shape, round(float(jax.grad(f.log_prob)(jax.numpy.ones(3))[0]), 4)
    ((3,), -0.5)

    Parameters
    ----------
    graph, kernel
        As in `SparseField`, also for the errors; f is the sum of both parts of `BYM2`.
    sd : number or array
        sigma > 0, which multiplies fields as they are defined by the kernel.
    validate_args : bool, optional
        As in all distributions of NumPyro.
    **hyperparameters : number or array
        The kernel's lengthscale, mixing or dependence; default those of `kernel`. Arrays, and `sd`,
        are broadcast to the batch.

    Raises
    ------
    RuntimeError
        Where JAX has float32 alone: `numpyro.enable_x64()`.
    """

    support = constraints.real_vector
    pytree_data_fields = ("values",)
    pytree_aux_fields = ("field",)

    def __init__(
        self,
        graph: Graph,
        kernel: Kernel,
        *,
        sd: Any = 1.0,
        validate_args: bool | None = None,
        **hyperparameters: Any,
    ) -> None:
        if not jax.config.jax_enable_x64:
            raise RuntimeError(
                "a GraphField needs float64, which JAX has switched off: call numpyro.enable_x64() "
                "first"
            )
        chosen, variables = split_values(kernel, hyperparameters, _is_number)
        if _is_number(sd):
            sd = checks.number("sd", float(sd), low=0, include_low=False)
        self.field = _field(graph, chosen, tuple(variables))
        own = jnp.broadcast_arrays(
            *(jnp.asarray(value, dtype=float) for value in (*variables.values(), sd))
        )
        self.values = jnp.stack(own, axis=-1)
        super().__init__(self.values.shape[:-1], (self.field.n_nodes,), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """0."""
        return jnp.zeros((*self.batch_shape, *self.event_shape))

    @validate_sample
    def log_prob(self, value: Any) -> Any:
        """The log density, shape of the batch."""
        if jnp.shape(value)[-1:] != self.event_shape:
            raise checks.value_error(
                "value",
                f"must have shape (..., {self.field.n_nodes}), got {checks.describe(value)}",
            )
        shape = jnp.broadcast_shapes(jnp.shape(value)[:-1], self.batch_shape)
        x = jnp.broadcast_to(jnp.asarray(value, dtype=float), (*shape, self.field.n_nodes))
        return _log_density(
            self.field, x, jnp.broadcast_to(self.values, (*shape, self.values.shape[-1]))
        )

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        """Independent draws, shape sample_shape + batch_shape + (N,)."""
        batch = (*sample_shape, *self.batch_shape)
        bits = jax.random.bits(key, (*batch, 4), jnp.uint32)
        values = jnp.broadcast_to(self.values, (*batch, self.values.shape[-1]))
        shapes = (jax.ShapeDtypeStruct((*batch, self.field.n_nodes), float),)

        def draw(own_bits: np.ndarray, own: np.ndarray) -> tuple[np.ndarray]:
            return (self.field.sample(own, np.random.default_rng(own_bits))[0],)

        return _on_host(draw, shapes, bits, jax.lax.stop_gradient(values))[0]


@lru_cache(maxsize=16)
def _field(graph: Graph, kernel: Kernel, free: tuple[str, ...]) -> SparseField:
    """The field of these arguments: a model is traced repeatedly."""
    return SparseField(graph, kernel, free)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _log_density(field: SparseField, x: Any, values: Any) -> Any:
    """The log density of fields of shape (..., N) and values of shape (..., p), the same batch."""
    return _on_host(lambda *given: (field.log_density(*given),), (_like(x[..., 0]),), x, values)[0]


def _forward(field: SparseField, x: Any, values: Any) -> tuple[Any, Any]:
    shapes = tuple(map(_like, (x[..., 0], x, values)))
    density, *gradients = _on_host(field.gradients, shapes, x, values)
    return density, gradients


def _backward(field: SparseField, gradients: Any, slope: Any) -> tuple[Any, ...]:
    return tuple(slope[..., None] * gradient for gradient in gradients)


_log_density.defvjp(_forward, _backward)


def _on_host(function: Callable[..., tuple[Any, ...]], shapes: Any, *arguments: Any) -> Any:
    """A function of vectors, for each member of a batch of them."""

    def each(*batch: Any) -> tuple[np.ndarray, ...]:
        given = [np.asarray(own) for own in batch]
        members = given[0].shape[:-1]
        if not members:
            return tuple(np.asarray(part, dtype=np.float64) for part in function(*given))
        result = [function(*(own[index] for own in given)) for index in np.ndindex(members)]
        parts = [np.array(part, dtype=np.float64) for part in zip(*result, strict=True)]
        return tuple(part.reshape(*members, *part.shape[1:]) for part in parts)

    return jax.pure_callback(each, shapes, *arguments, vmap_method="broadcast_all")


def _like(array: Any) -> Any:
    return jax.ShapeDtypeStruct(array.shape, float)


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real | np.number)
