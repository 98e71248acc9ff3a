"""Graph kernels inside GPyTorch: a `Kernel` module over the nodes of a graph."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphrf._base import checks
from graphrf.features.features import Features
from graphrf.gp.model.settings import trained_names
from graphrf.gp.torch.factor import TorchFactor, paired
from graphrf.gp.torch.operator import FactorOperator
from graphrf.gp.torch.sources import (
    RemoteFeatures,
    TorchFeatureSource,
    TorchRemoteSource,
    TorchSeriesSource,
    TorchSource,
)
from graphrf.graph.graph import Graph
from graphrf.graph.other_graphs import way_to_graph
from graphrf.kernels.explicit import LearnedModulation
from graphrf.kernels.kernel import Kernel, require_kernel
from graphrf.kernels.named import Diffusion

# isort: split
# After operator.py, which imports linear_operator without a warning of torch's.
import gpytorch
from gpytorch.constraints import GreaterThan, Interval, Positive
from gpytorch.priors import Prior
from linear_operator.utils.errors import NanError

# The first integer whose successor is no float of its own.
_LARGEST_ID = {torch.float32: 2**24, torch.float64: 2**53}


class NoKernelError(NanError, ValueError):
    """Hyperparameters that make no kernel: a `NanError`, at which fits of BoTorch step back."""


class GRFKernel(gpytorch.kernels.Kernel):
    r"""A graph kernel for GPyTorch, over integer node positions.

    .. math:: k(i, j) = \frac{(F F^\top)_{ij}}{v}, \quad F = \sum_k f_k(\theta) P_k, \quad
              v = \frac1N \mathrm{trace}(F F^\top),

    with P_k from sampled features or exact, P_k = W^k. It evaluates to a `FactorOperator`: nothing
    of the graph's size squared is formed. It works in `ScaleKernel`, sums and products as any other
    kernel; gradients reach theta.

    Examples
    --------
    >>> import torch, gpytorch, graphrf as grf
    >>> graph = grf.from_edges([0, 1, 2, 3], [1, 2, 3, 0])
    >>> kernel = grf.gp.GRFKernel(graph, grf.Diffusion(lengthscale=1.0)).double()
    >>> matrix = kernel(torch.arange(4)).to_dense()
    >>> bool(torch.allclose(matrix.diagonal().mean(), torch.tensor(1.0, dtype=torch.float64)))
    True
    >>> scaled = gpytorch.kernels.ScaleKernel(kernel)
    >>> [name for name, _ in scaled.named_parameters()]
    ['raw_outputscale', 'base_kernel.raw_lengthscale']

    Nodes in the first column, times in the second:

    >>> product = grf.gp.GRFKernel(graph, active_dims=[0]) * gpytorch.kernels.MaternKernel(
    ...     active_dims=[1]
    ... )
    >>> product(torch.tensor([[0, 0.5], [0, 0.7], [3, 0.5]])).to_dense().shape
    torch.Size([3, 3])

    Parameters
    ----------
    source : Features, RemoteFeatures or Graph
        Features: Phi Phi^T for their nodes, local or remote (`graphrf.distributed`). A graph: the
        exact kernel by its series, for all nodes.
    kernel : Kernel, optional
        The initial kernel, default `Diffusion` of lengthscale 1. `LearnedModulation` has its
        coefficients as one free parameter `modulation`.
    normalize : bool
        Whether to divide by v, over the features' nodes or all nodes of a graph.
    optimize : bool or sequence of str
        Trained hyperparameters: all but smoothness (`nu`, `power`), none, or those named. Each is a
        parameter `raw_<name>`.
    active_dims : int or sequence of one int, optional
        The column of the inputs that holds nodes, where others hold time or covariates.
    batch_shape : torch.Size
        Members of the batch have separate hyperparameters and share the source.
    lengthscale_prior, lengthscale_constraint : optional
        As for kernels of GPyTorch.

    Raises
    ------
    TypeError, ValueError
        If the kernel does not fit `source`, inputs are no known nodes, or features are on another
        device than the module.
    linear_operator.utils.errors.NanError
        A `ValueError` too: if hyperparameters make no kernel, or one that vanishes. BoTorch's fits
        step back.

    Warns
    -----
    TruncationWarning, HeavyTailWarning
        When features do not suit the kernel, at the start or once training outgrows them.
    FeatureErrorWarning
        At the start: see `Features.matrix`.

    Notes
    -----
    Inputs have shape (n,), (n, 1) or (batches, n, 1): integers, or integral floats below 2^24
    (float32) or 2^53 (float64), or with `active_dims` these in one of d columns. Batches of inputs
    are evaluated together as one dense matrix of their distinct nodes. dtype and device are those
    of the module, to which host features are copied ([devices](../devices.md)). A deep copy shares
    graph and features.

    Cost: see `FactorOperator`; the series takes two sparse products a Chebyshev term for each
    column. Where the dense matrix among n nodes is wanted with its gradient, entries of the
    polynomials are kept for the last nodes: n^2 / 2 numbers a term, at most 512 MiB in float64.
    """

    def __init__(
        self,
        source: Features | RemoteFeatures | Graph,
        kernel: Kernel | None = None,
        *,
        normalize: bool = True,
        optimize: bool | Sequence[str] = True,
        active_dims: int | Sequence[int] | Tensor | None = None,
        batch_shape: torch.Size | None = None,
        lengthscale_prior: Prior | None = None,
        lengthscale_constraint: Interval | None = None,
    ) -> None:
        if kernel is None:
            info = getattr(source, "info", None)
            kernel = Diffusion(laplacian=getattr(info, "laplacian", "normalized"))
        require_kernel(kernel)
        names = trained_names(optimize, kernel)
        if isinstance(kernel, LearnedModulation) and len(names) not in (0, len(kernel.values)):
            raise checks.value_error(
                "optimize",
                "must be True or False for LearnedModulation, whose values are one parameter",
            )

        self.has_lengthscale: bool = "lengthscale" in names
        if not self.has_lengthscale and (
            lengthscale_prior is not None or lengthscale_constraint is not None
        ):
            raise checks.value_error(
                "lengthscale_prior",
                "and `lengthscale_constraint` need a trained lengthscale, which "
                f"{kernel!r} with optimize={optimize!r} does not have",
            )

        super().__init__(
            active_dims=_node_column(active_dims),
            batch_shape=torch.Size(batch_shape or ()),
            lengthscale_prior=lengthscale_prior,
            lengthscale_constraint=lengthscale_constraint,
        )

        self._source = _source(source, kernel)
        self._template = kernel
        self._normalize = checks.flag("normalize", normalize)
        self._names = names
        # Follows `.to`, `.double()` and indices of the batch where nothing is trained.
        reference = torch.zeros(self.batch_shape, dtype=torch.get_default_dtype())
        self.register_buffer("_like", reference, persistent=False)

        if isinstance(kernel, LearnedModulation):
            if names:
                values = torch.tensor(kernel.values, dtype=reference.dtype).repeat(
                    *self.batch_shape, 1
                )
                self.register_parameter("modulation", torch.nn.Parameter(values))
        else:
            self._register_hyperparameters(kernel, names)

    def _register_hyperparameters(self, kernel: Kernel, names: Sequence[str]) -> None:
        """Raw parameters and their constraints, at the kernel's values; gpytorch registers those of
        the lengthscale.
        """
        bounds = kernel.hyperparameter_bounds(self._source.scale)
        for name in names:
            low = bounds[name]
            # The bound itself is not allowed.
            value = max(kernel.hyperparameters[name], low + 1e-3 * abs(low))
            if name != "lengthscale":
                self.register_parameter(
                    f"raw_{name}", torch.nn.Parameter(torch.zeros(self.batch_shape))
                )
                above = Positive() if low == 0 else GreaterThan(low)
                self.register_constraint(
                    f"raw_{name}", Interval(0.0, 1.0) if name in kernel.proportions else above
                )
            raw, constraint = getattr(self, f"raw_{name}"), getattr(self, f"raw_{name}_constraint")
            self.initialize(
                **{f"raw_{name}": constraint.inverse_transform(torch.full_like(raw, value))}
            )

    # -- what is trained ---------------------------------------------------------------------------

    @property
    def kernel(self) -> Kernel:
        """The graphrf kernel with present hyperparameters, not normalised; `self[i]` of a batch."""
        return self._kernel_of(self._single_values().detach().numpy())

    def hyperparameter(self, name: str) -> Tensor:
        """The present value of a trained hyperparameter, differentiable; shape `batch_shape`.

        Of a lengthscale (*batch_shape, 1, 1).
        """
        if name not in self._names or not hasattr(self, f"raw_{name}"):
            raise checks.value_error(
                "name", f"must be among the trained hyperparameters {self._names}, got {name!r}"
            )
        constraint = getattr(self, f"raw_{name}_constraint")
        value: Tensor = constraint.transform(getattr(self, f"raw_{name}"))
        return value

    def extra_repr(self) -> str:
        """The text that torch prints in brackets; numbers in training may make no kernel."""
        if self.batch_shape:
            return f"{type(self._template).__name__}, batch_shape={tuple(self.batch_shape)}"
        try:
            return repr(self.kernel)
        except ValueError:
            return f"{type(self._template).__name__}, hyperparameters out of range"

    @property
    def dtype(self) -> torch.dtype:
        """float32 or float64, as the module was cast."""
        return self._like.dtype

    @property
    def device(self) -> torch.device:
        """The device of the module."""
        return self._like.device

    @property
    def is_stationary(self) -> bool:
        """False: nodes have no differences."""
        return False

    # -- evaluation --------------------------------------------------------------------------------

    def root_modulation(self) -> Tensor:
        """f / sqrt(v), shape (L + 1,), on the module's device, differentiable in the parameters."""
        return self._root(self._single_values())

    def _root(self, values: Tensor) -> Tensor:
        """`root_modulation` of given hyperparameters."""
        f: Tensor = _Modulation.apply(values, self._coefficients)
        if self._normalize:
            variance: Tensor = _MeanVariance.apply(f, self._source)
            f = f / variance.sqrt()
        return f.to(self.device, self.dtype)

    def root_rows(self, x: Tensor) -> TorchFactor:
        """Rows of F at nodes (n,) or (n, 1): K among them is F F^T with `root_modulation`."""
        nodes = node_tensor("x", x)
        if nodes.ndim > 1:
            raise checks.value_error("x", f"must have shape (n,) or (n, 1), got {tuple(x.shape)}")
        return self._rows(nodes)

    def forward(
        self,
        x1: Tensor,
        x2: Tensor,
        diag: bool = False,
        last_dim_is_batch: bool = False,
        **params: Any,
    ) -> Tensor | FactorOperator:
        """K[x1, x2] as an operator, or its diagonal as a tensor; called by GPyTorch."""
        if last_dim_is_batch:
            raise checks.value_error("last_dim_is_batch", "must be False: nodes have one dimension")
        left = node_tensor("x1", x1)
        right = left if x2 is x1 else node_tensor("x2", x2)
        values = self._values()
        if left.ndim > 1 or right.ndim > 1 or values.ndim > 1:
            return self._batched(left, right, values, diag)
        f = self._root(values)
        rows, cols = self._rows(left), self._rows(right)
        return paired(rows, cols, f) if diag else FactorOperator(f, rows=rows, cols=cols)

    def __getitem__(self, index: Any) -> GRFKernel:
        """The kernel of some members of the batch, with copies of their hyperparameters."""
        if self.active_dims is None or not self.batch_shape:
            return super().__getitem__(index)
        return self._without_column(lambda bare: gpytorch.kernels.Kernel.__getitem__(bare, index))

    def expand_batch(self, *sizes: Any) -> GRFKernel:
        """The kernel with hyperparameters repeated to a larger batch, as of any kernel."""
        if self.active_dims is None:
            return super().expand_batch(*sizes)
        return self._without_column(lambda bare: gpytorch.kernels.Kernel.expand_batch(bare, *sizes))

    def _without_column(self, change: Callable[[GRFKernel], GRFKernel]) -> GRFKernel:
        """The kernel as GPyTorch changes it, which would expand `active_dims` with the batch."""
        bare = copy.deepcopy(self)
        bare.active_dims = None
        changed = change(bare)
        changed.active_dims = self.active_dims
        return changed

    def _batched(self, left: Tensor, right: Tensor, values: Tensor, diag: bool) -> Tensor:
        """Entries for batches of nodes and of hyperparameters, which are broadcast together."""
        kinds = values.shape[:-1]
        batch = torch.broadcast_shapes(kinds, left.shape[:-1], right.shape[:-1])
        left = left.to(self.device).expand(*batch, left.shape[-1]).reshape(batch.numel(), -1)
        right = right.to(self.device).expand(*batch, right.shape[-1]).reshape(batch.numel(), -1)
        member = torch.arange(kinds.numel()).reshape(kinds).expand(batch).reshape(-1)
        parts = [
            self._entries(left[member == number], right[member == number], self._root(each), diag)
            for number, each in enumerate(values.reshape(kinds.numel(), values.shape[-1]))
        ]
        together = torch.cat(parts)[member.argsort(stable=True).argsort()]
        return together.reshape(*batch, *together.shape[1:])

    def _entries(self, left: Tensor, right: Tensor, f: Tensor, diag: bool) -> Tensor:
        """Entries for batches of nodes, read off one dense matrix of the distinct ones."""
        row_nodes, row_at = torch.unique(left, return_inverse=True)
        col_nodes, col_at = torch.unique(right, return_inverse=True)
        if diag and torch.equal(left, right):
            rows = self._rows(row_nodes)
            return paired(rows, rows, f)[row_at]
        rows, cols = self._rows(row_nodes), self._rows(col_nodes)
        matrix = FactorOperator(f, rows=rows, cols=cols).to_dense()
        if not diag:
            row_at, col_at = row_at[..., :, None], col_at[..., None, :]
        return matrix[row_at, col_at]

    def _rows(self, nodes: Tensor) -> TorchFactor:
        return self._source.factor(nodes, self.device, self.dtype)

    def _values(self) -> Tensor:
        """The trained hyperparameters in order, float64 on the CPU, (*batch_shape, names)."""
        if not self._names:
            return torch.zeros(*self._like.shape, 0, dtype=torch.float64)
        if isinstance(self._template, LearnedModulation):
            return self.modulation.cpu().double()
        values = [self.hyperparameter(name).reshape(self._like.shape) for name in self._names]
        return torch.stack(values, -1).cpu().double()

    def _single_values(self) -> Tensor:
        """The hyperparameters of a kernel that is no batch."""
        values = self._values()
        if values.ndim > 1:
            raise ValueError(
                f"a batch of kernels, shape {tuple(values.shape[:-1])}, was given where one is "
                "needed: kernel[i]"
            )
        return values

    def _kernel_of(self, values: np.ndarray) -> Kernel:
        if isinstance(self._template, LearnedModulation):
            if self._names:
                return self._template.replace(values=tuple(values.tolist()))
            return self._template
        return self._template.replace(**dict(zip(self._names, values.tolist(), strict=True)))

    def _coefficients(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The source's modulation and its derivatives in the trained hyperparameters."""
        try:
            return self._source.coefficients(self._kernel_of(values), self._names)
        except (ValueError, ArithmeticError) as error:
            raise NoKernelError(
                f"the hyperparameters {self._names} = {values.tolist()} make no kernel: {error}"
            ) from error


class _Modulation(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, coefficients: Any) -> Tensor:
        f, jacobian = coefficients(values.numpy())
        ctx.jacobian = torch.from_numpy(np.ascontiguousarray(jacobian))
        return torch.from_numpy(np.array(f))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return ctx.jacobian.T @ grad, None


class _MeanVariance(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, f: Tensor, source: TorchSource) -> Tensor:
        value, gradient = source.mean_variance(f.numpy())
        if not value > 0:
            raise NoKernelError(
                "the kernel vanishes on these features or this graph (its mean variance is 0), so "
                "it cannot be normalised: its lengthscale is too long for them, or all its "
                "coefficients are 0"
            )
        ctx.gradient = torch.from_numpy(gradient)
        return torch.tensor(value, dtype=torch.float64)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad * ctx.gradient, None


def node_ids(name: str, x: Tensor) -> np.ndarray:
    """`node_tensor` as an array."""
    return np.ascontiguousarray(node_tensor(name, x).cpu().numpy())


def node_tensor(name: str, x: Tensor) -> Tensor:
    """Nodes of a tensor (n,), (n, 1) or (batches, n, 1), as int64 without the last axis."""
    if not isinstance(x, Tensor):
        raise checks.type_error(
            name, f"must be a tensor of node positions, got {checks.describe(x)}"
        )
    if x.ndim == 0 or (x.ndim > 1 and x.shape[-1] != 1):
        raise ValueError(
            f"`{name}` must hold one node position a row, shape (n, 1) or (batches, n, 1), got "
            f"{tuple(x.shape)}; `active_dims` of a GRFKernel selects the column of nodes among "
            "several"
        )

    x = x.detach()
    if x.is_floating_point():
        if x.dtype not in _LARGEST_ID:
            raise checks.type_error(
                name, f"must be integer, float32 or float64 node positions, got {x.dtype}"
            )
        limit = _LARGEST_ID[x.dtype]
        good = (x == x.floor()) & (x.abs() < limit)
        if not bool(good.all()):
            raise ValueError(
                f"`{name}` must be integer node positions, got {x[~good][0].item()} (floats must "
                f"be integral and below {limit}, above which {x.dtype} skips integers: pass int64)"
            )
    elif x.dtype == torch.bool or x.is_complex():
        raise checks.type_error(name, f"must be integer node positions, got {x.dtype}")
    return (x[..., 0] if x.ndim > 1 else x).long()


def _node_column(active_dims: Any) -> Tensor | None:
    """`active_dims` as GPyTorch takes it: one column."""
    if active_dims is None:
        return None
    dims = torch.as_tensor(active_dims).reshape(-1)
    if dims.numel() != 1 or dims.dtype == torch.bool or dims.is_floating_point() or int(dims) < 0:
        raise checks.value_error(
            "active_dims",
            f"must be the number of the one column that holds nodes, got {active_dims!r}",
        )
    return dims.long()


def _source(source: Any, kernel: Kernel) -> TorchSource:
    if isinstance(source, Features):
        return TorchFeatureSource(source, kernel)
    if hasattr(source, "step_squares"):
        return TorchRemoteSource(source, kernel)
    if isinstance(source, Graph):
        return TorchSeriesSource(source, kernel)
    raise checks.type_error(
        "source",
        "must be Features (Phi Phi^T of their nodes) or a Graph (the exact series), got "
        f"{checks.describe(source)}; {way_to_graph(source)}",
    )
