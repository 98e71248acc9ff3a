"""Random features as torch modules, for training by gradients."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from graphrf._base import checks
from graphrf.euclidean.features import FourierFeatures, LaplaceFeatures
from graphrf.euclidean.frequencies.norms import NormCoupling
from graphrf.euclidean.kernels import StationaryKernel
from graphrf.euclidean.tensors import paired


class _RandomFeatures(nn.Module):
    """Frequencies at lengthscale 1 and the logarithm of the lengthscale."""

    frequencies: Tensor
    log_lengthscale: Tensor

    # The transformer that draws the frequencies.
    _transformer: type[FourierFeatures] | type[LaplaceFeatures]

    def _begin(self, features: Any, train_frequencies: bool) -> None:
        """Copy frequencies and lengthscale of fitted features."""
        if not isinstance(features, self._transformer):
            raise checks.type_error(
                "features",
                f"must be fitted {self._transformer.__name__}, got {checks.describe(features)}",
            )
        if not hasattr(features, "frequencies_"):
            raise checks.value_error(
                "features", f"must be fitted, got {checks.describe(features)}: call fit(X) first"
            )
        nn.Module.__init__(self)
        dtype = torch.get_default_dtype()
        matrix = torch.tensor(features.frequencies_.matrix, dtype=dtype)
        self.log_lengthscale = nn.Parameter(
            torch.tensor(np.log(features.lengthscale_), dtype=dtype)
        )
        if checks.flag("train_frequencies", train_frequencies):
            self.frequencies = nn.Parameter(matrix)
        else:
            self.register_buffer("frequencies", matrix)

    @classmethod
    def from_features(cls, features: Any, *, train_frequencies: bool = False) -> Self:
        """The module of fitted features, with frequencies, lengthscale and phases, if any.

        Examples
        --------
        >>> import torch
        >>> from graphrf.euclidean.features import FourierFeatures
        >>> x = torch.linspace(0, 1, 6).reshape(3, 2)
        >>> features = FourierFeatures(16, seed=0).fit(x)
        >>> bool(
        ...     torch.allclose(
        ...         FourierModule.from_features(features)(x), features.transform(x), atol=1e-5
        ...     )
        ... )
        True
        """
        module = cls.__new__(cls)
        module._begin(features, train_frequencies)
        return module

    @property
    def lengthscale(self) -> Tensor:
        """exp(log_lengthscale), shape () or (d,)."""
        return self.log_lengthscale.exp()

    def forward(self, x: Tensor) -> Tensor:
        """Features of points x (..., d), shape (..., D), of the module's dtype."""
        if not isinstance(x, Tensor):
            raise checks.type_error("x", f"must be a torch tensor, got {checks.describe(x)}")
        d, dtype = self.frequencies.shape[1], self.frequencies.dtype
        if x.ndim == 0 or x.shape[-1] != d:
            raise checks.value_error("x", f"must have shape (..., {d}), got {tuple(x.shape)}")
        if not x.is_floating_point() or torch.promote_types(x.dtype, dtype) != dtype:
            raise checks.type_error(
                "x",
                f"must have the module's dtype, {dtype}, or a narrower one, got {x.dtype}: cast "
                "one of them",
            )
        # A projection W x of three digits would leave its cosine, or exponential, none.
        working = torch.promote_types(dtype, torch.float32)
        with torch.autocast(x.device.type, enabled=False):
            scaled = x.to(working) / self.log_lengthscale.to(working).exp()
            return self._readout(scaled, self.frequencies.to(working)).to(dtype)

    @abstractmethod
    def _readout(self, x: Tensor, frequencies: Tensor) -> Tensor:
        """Features of points in lengthscales."""

    def extra_repr(self) -> str:
        m, d = self.frequencies.shape
        return f"dimension={d}, n_frequencies={m}"


class FourierModule(_RandomFeatures):
    r"""Random Fourier features as a torch module, with a trained lengthscale.

    .. math:: \phi(x) = \frac{1}{\sqrt m} [\cos(W x / l), \sin(W x / l)] \quad \text{or} \quad
              \phi(x) = \sqrt{\frac 2 m} \cos(W x / l + b).

    Features have the module's dtype: torch's default at construction; `.double()`, `.to(device)` as
    usual. Points of a narrower type are widened, those of a wider one or of another dimension
    refused; computations use at least float32, also under autocast. Cost: O(n m d) time for n
    points. Source: that of `FourierFeatures`.

    Parameters
    ----------
    dimension : int
        d.
    n_frequencies, kernel, directions, norms, readout, seed : optional
        As for `FourierFeatures`; `seed=None` draws one.
    lengthscale : float or array_like, shape (d,)
        Initial value; `log_lengthscale` is a parameter of this shape.
    train_frequencies : bool
        True makes W a parameter, False a buffer.

    Attributes
    ----------
    log_lengthscale : Parameter, shape () or (d,)
    frequencies : Tensor, shape (m, d)
        W, at lengthscale 1: a dense matrix, even for structured directions.
    phases : Tensor, shape (m,), or None
        A buffer.

    Examples
    --------
    >>> import torch
    >>> module = FourierModule(3, 64, lengthscale=2.0, seed=0)
    >>> features = module(torch.zeros(5, 3))
    >>> features.shape, round((features[0] @ features[0]).item(), 4)
    (torch.Size([5, 128]), 1.0)
    >>> [name for name, _ in module.named_parameters()]
    ['log_lengthscale']
    """

    _transformer = FourierFeatures
    phases: Tensor | None

    def __init__(
        self,
        dimension: int,
        n_frequencies: int = 128,
        *,
        kernel: str | StationaryKernel = "gaussian",
        directions: str = "orthogonal",
        norms: str | NormCoupling | None = "pnc",
        readout: str = "paired",
        lengthscale: ArrayLike = 1.0,
        train_frequencies: bool = False,
        seed: int | None = None,
    ) -> None:
        features = FourierFeatures(
            n_frequencies,
            kernel=kernel,
            directions=directions,
            norms=norms,
            readout=readout,
            lengthscale=lengthscale,
            seed=seed,
        )
        self._begin(_fitted(features, dimension), train_frequencies)

    def _begin(self, features: FourierFeatures, train_frequencies: bool) -> None:
        super()._begin(features, train_frequencies)
        phases = getattr(features, "phases_", None)
        tensor = None if phases is None else torch.tensor(phases, dtype=self.frequencies.dtype)
        self.register_buffer("phases", tensor)

    def _readout(self, x: Tensor, frequencies: Tensor) -> Tensor:
        projection = x @ frequencies.T
        if self.phases is None:
            return paired(projection)
        return math.sqrt(2 / projection.shape[-1]) * (projection + self.phases).cos()


class LaplaceModule(_RandomFeatures):
    r"""Positive (random Laplace) features of the Gaussian kernel as a torch module.

    .. math:: \phi(x) = \frac{1}{\sqrt m} \exp(W x / l - |x / l|^2).

    Centre x: the variance grows with exp(|x + y|^2 / l^2). Source: that of `LaplaceFeatures`, and
    Choromanski et al. 2020, "Rethinking attention with Performers".

    Parameters
    ----------
    n_frequencies, directions, norms, antithetic : optional
        As for `LaplaceFeatures`.
    dimension, lengthscale, train_frequencies, seed
        See `FourierModule`, also for the attributes, the cost and the dtype.

    Examples
    --------
    >>> import torch
    >>> features = LaplaceModule(2, 32, seed=0)(torch.zeros(1, 2))
    >>> round(features.square().sum().item(), 4)
    1.0
    """

    _transformer = LaplaceFeatures

    def __init__(
        self,
        dimension: int,
        n_frequencies: int = 128,
        *,
        directions: str = "orthogonal",
        norms: str | NormCoupling | None = "pnc",
        antithetic: bool = True,
        lengthscale: ArrayLike = 1.0,
        train_frequencies: bool = False,
        seed: int | None = None,
    ) -> None:
        features = LaplaceFeatures(
            n_frequencies,
            directions=directions,
            norms=norms,
            antithetic=antithetic,
            lengthscale=lengthscale,
            seed=seed,
        )
        self._begin(_fitted(features, dimension), train_frequencies)

    def _readout(self, x: Tensor, frequencies: Tensor) -> Tensor:
        common = x.square().sum(-1, keepdim=True) + 0.5 * math.log(frequencies.shape[0])
        return (x @ frequencies.T - common).exp()


def _fitted(features: Any, dimension: int) -> Any:
    """Features drawn for points of a dimension, since `fit` needs nothing else."""
    return features.fit(np.zeros((1, checks.integer("dimension", dimension, low=1))))
