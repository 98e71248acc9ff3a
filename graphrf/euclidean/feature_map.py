"""Base class of feature maps: points in, rows of features out, for numpy and torch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from graphrf._base import checks
from graphrf._base.blas import blas_threads
from graphrf._base.threads import ordered_map, thread_count
from graphrf.euclidean.frequencies.draw import Frequencies
from graphrf.euclidean.kernels import StationaryKernel
from graphrf.euclidean.tensors import finite_tensor, is_tensor

_BLOCK_BYTES = 1 << 20
"""Bytes of the projections of a block of rows, which should fit into a core's cache."""


class FeatureMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A scikit-learn transformer from points of R^d to features.

    A subclass draws frequencies in `_prepare`, and computes features in `_write` (numpy) and
    `_tensor` (torch).
    """

    n_threads: int | None
    n_features_in_: int
    kernel_: StationaryKernel
    lengthscale_: np.ndarray
    frequencies_: Frequencies

    @abstractmethod
    def _prepare(self, dimension: int) -> None:
        """Validate the settings and draw the features for points of R^d."""

    @abstractmethod
    def _write(self, x: np.ndarray, out: np.ndarray) -> None:
        """Write the features of a block of rows, in lengthscales, into `out`."""

    @abstractmethod
    def _tensor(self, x: Any) -> Any:
        """Features of a tensor of points in lengthscales, shape (..., d), with gradients."""

    @property
    @abstractmethod
    def _n_features_out(self) -> int: ...

    def fit(self, X: Any, y: Any = None) -> Any:
        """Draw the features for points with as many columns as `X`; values and `y` are not used.

        Parameters
        ----------
        X : array_like or torch.Tensor, shape (n, d)
        y : ignored

        Raises
        ------
        TypeError, ValueError
            If a setting or `X` is invalid.
        """
        if is_tensor(X):
            self.n_features_in_ = finite_tensor("X", X).shape[-1]
            if hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
        else:
            validate_data(self, checks.to_array_like("X", X), dtype=[np.float64, np.float32])
        self._prepare(self.n_features_in_)
        return self

    def transform(self, X: Any) -> Any:
        """Features of points, shape (..., D).

        Parameters
        ----------
        X : array_like, shape (n, d), or torch.Tensor, shape (..., d)
            float32 and float64 are kept, other numbers become float64 (of tensors, the default
            dtype). Features are of the same type and dtype; tensors stay on their device and carry
            gradients.

        Raises
        ------
        ValueError
            If the number of columns differs from that in `fit`, or `X` contains NaN or infinity.
        """
        check_is_fitted(self)
        if is_tensor(X):
            import torch

            tensor = finite_tensor("X", X, self.n_features_in_)
            self._check_lengthscale(tensor, torch.finfo(tensor.dtype))
            scale = torch.as_tensor(self.lengthscale_, dtype=tensor.dtype, device=tensor.device)
            return self._tensor(tensor / scale)
        x = validate_data(
            self, checks.to_array_like("X", X), dtype=[np.float64, np.float32], reset=False
        )
        self._check_lengthscale(x, np.finfo(x.dtype))
        out = np.empty((x.shape[0], self._n_features_out), x.dtype)
        lengthscale = self.lengthscale_.astype(x.dtype)

        def write(rows: np.ndarray, features: np.ndarray) -> None:
            self._write(rows / lengthscale, features)

        in_blocks(write, x, out, thread_count(self.n_threads))
        return out

    def _check_lengthscale(self, x: Any, limits: Any) -> None:
        """Refuse a lengthscale that vanishes or overflows in the precision of the points."""
        if self.lengthscale_.min() < limits.tiny or self.lengthscale_.max() > limits.max:
            raise checks.value_error(
                "lengthscale",
                f"{self.lengthscale_} is out of the range of {x.dtype}; pass float64 points",
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        # Without a seed, every fit draws other features.
        tags.non_deterministic = getattr(self, "seed", 0) is None
        return tags


def in_blocks(
    write: Callable[[np.ndarray, np.ndarray], None], x: np.ndarray, out: np.ndarray, n_threads: int
) -> None:
    """Fill `out` by blocks of rows on threads, with the same bits for any number of threads."""
    rows = max(16, _BLOCK_BYTES // max(1, out.shape[1] * out.itemsize))
    starts = range(0, x.shape[0], rows)
    # One thread of BLAS for each block, since its result depends on their number.
    with blas_threads(1):
        writes = ordered_map(lambda i: write(x[i : i + rows], out[i : i + rows]), starts, n_threads)
        for _ in writes:
            pass
