r"""Features of a stationary kernel from a quadrature rule: no randomness, for few dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from graphrf._base.warn import warn
from graphrf.euclidean.cosines import cos_sin_rows
from graphrf.euclidean.feature_map import FeatureMap
from graphrf.euclidean.frequencies.draw import DenseFrequencies
from graphrf.euclidean.frequencies.quadrature import Rule, spectral_rule, step
from graphrf.euclidean.kernels import StationaryKernel, lengthscales, stationary_kernel
from graphrf.euclidean.tensors import is_tensor


class QuadratureFeatures(FeatureMap):
    r"""Fourier features at the nodes of a quadrature rule, weighted as these (`spectral_rule`).

    .. math::
        \phi(x) = [\sqrt{a_i} \cos(w_i \cdot x / l), \; \sqrt{a_i} \sin(w_i \cdot x / l)]_i, \qquad
        \phi(x) \cdot \phi(y) = \sum_i a_i \cos(w_i \cdot (x - y) / l) \approx k(x, y).

    Parameters
    ----------
    n_nodes : int
        Nodes for each dimension. There are n_nodes^d columns, less those whose weight underflows to
        0.
    rule, kernel
        As for `spectral_rule`: "gauss-hermite", "gauss-legendre", "simpson" or a function, such as
        `functools.partial(simpson, max_frequency=6.0)`.
    lengthscale, n_threads
        As for `FourierFeatures`.
    normalize : bool
        Divide the weights by their sum: rows then have norm 1, k(0) = 1. Without it Gauss-Legendre
        has k(0) = 1.078 with 5 nodes and 1.0002 with 20 (Gaussian kernel, d = 1).

    Attributes
    ----------
    frequencies_ : Frequencies
        w at lengthscale 1, shape (m, d): one of each pair +-w; if n_nodes is odd, first the origin,
        without a sine.
    weights_ : ndarray, shape (m,)
        a.
    kernel_, lengthscale_, n_features_in_
        As of `FourierFeatures`; `fit` refuses more than 4 columns.

    Warns
    -----
    UserWarning
        In `transform`, if the points reach over pi/h lengthscales in a coordinate for nodes at
        distances h, since the approximation is periodic.

    Notes
    -----
    Largest error on distances up to 3 lengthscales, d = 1, normalised:

    ==========  ==============  ======  ======  ======  ======
    kernel      rule            9       17      33      65
    ==========  ==============  ======  ======  ======  ======
    gaussian    gauss-hermite   2.5e-3  2.2e-9  <1e-14  <1e-14
    gaussian    gauss-legendre  9.3e-2  1.5e-2  2.0e-4  5.5e-8
    gaussian    simpson         3.2e-1  9.1e-4  1.7e-4  1.7e-4
    matern52    gauss-hermite   1.8e-2  1.0e-3  2.0e-4  3.5e-5
    matern52    gauss-legendre  1.6e-1  4.8e-2  5.2e-3  6.3e-4
    matern12    gauss-hermite   1.4e-1  1.0e-1  7.3e-2  5.2e-2
    matern12    gauss-legendre  3.4e-1  1.8e-1  1.2e-1  5.2e-2
    ==========  ==============  ======  ======  ======  ======

    For a kernel that is not Gaussian, Gauss-Hermite weights carry the ratio of the two spectral
    densities, and the error falls as a power of n_nodes instead of exponentially. Every error grows
    with distance; `examples/fourier_decompositions.py` compares with `FourierFeatures` of as many
    columns.

    Cost of `transform`: O(n d n_nodes^d) time; memory n times the columns, and a block.

    Source: "Numerical methods for improved decoupled sampling of Gaussian processes", Sec. A.3.3;
    Dao, De Sa and Re 2017, "Gaussian quadrature for kernel features".

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(50, 2))
    >>> phi = QuadratureFeatures(17).fit_transform(x)
    >>> from graphrf.euclidean.kernels import stationary_kernel
    >>> phi.shape, bool(abs(phi @ phi.T - stationary_kernel("gaussian").gram(x)).max() < 1e-3)
    ((50, 289), True)
    """

    def __init__(
        self,
        n_nodes: int = 16,
        *,
        rule: str | Rule = "gauss-hermite",
        kernel: str | StationaryKernel = "gaussian",
        lengthscale: ArrayLike = 1.0,
        normalize: bool = True,
        n_threads: int | None = None,
    ) -> None:
        self.n_nodes = n_nodes
        self.rule = rule
        self.kernel = kernel
        self.lengthscale = lengthscale
        self.normalize = normalize
        self.n_threads = n_threads

    weights_: np.ndarray

    @property
    def _n_features_out(self) -> int:
        return 2 * len(self.weights_) - self._n_constant

    def _prepare(self, dimension: int) -> None:
        self.kernel_ = stationary_kernel(self.kernel)
        frequencies, self.weights_ = spectral_rule(
            self.n_nodes, dimension, rule=self.rule, kernel=self.kernel_, normalize=self.normalize
        )
        self.lengthscale_ = lengthscales(self.lengthscale, dimension)
        self._step = step(self.n_nodes, rule=self.rule, kernel=self.kernel)
        self._n_constant = 0 if frequencies[0].any() else 1
        self._amplitudes = np.sqrt(
            np.concatenate([self.weights_, self.weights_[self._n_constant :]])
        )
        self.frequencies_ = DenseFrequencies(frequencies)

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> QuadratureFeatures:
        """Compute the nodes for points like `X`, and keep the range of `X` for the warning."""
        super().fit(X)
        self._seen = _range(X)
        return self

    def transform(self, X: ArrayLike) -> Any:
        """Features of points, cosines first; otherwise as `FourierFeatures.transform`."""
        features = super().transform(X)
        if self._step is not None:
            both = np.concatenate([self._seen, _range(X)])
            reach = (np.ptp(both, axis=0) / self.lengthscale_).max() if len(both) else 0.0
            if reach >= np.pi / self._step:
                warn(
                    f"points reach over {reach:.3g} lengthscales in one coordinate, but nodes "
                    f"{self._step:.3g} apart repeat the kernel from pi/h = "
                    f"{np.pi / self._step:.3g} on: raise `n_nodes`, lower the rule's "
                    "max_frequency, or use a Gauss rule"
                )
        return features

    def _write(self, x: np.ndarray, out: np.ndarray) -> None:
        m = len(self.weights_)
        both = out if self._n_constant == 0 else np.empty((len(x), 2 * m), x.dtype)
        self.frequencies_.project(x, both[:, :m])
        cos_sin_rows(both, 1.0)
        if both is not out:  # the origin has no sine
            out[:, :m], out[:, m:] = both[:, :m], both[:, m + self._n_constant :]
        out *= self._amplitudes.astype(x.dtype)

    def _tensor(self, x: Any) -> Any:
        import torch

        projected = self.frequencies_.project(x)
        amplitudes = torch.as_tensor(self._amplitudes, dtype=x.dtype, device=x.device)
        return (
            torch.cat([projected.cos(), projected[..., self._n_constant :].sin()], dim=-1)
            * amplitudes
        )


def _range(points: Any) -> np.ndarray:
    """Minima and maxima of valid points, shape (2, d); (0, d) if there are none."""
    if is_tensor(points):
        points = points.detach().double().cpu().numpy()
    array = np.asarray(points, dtype=np.float64)
    array = array.reshape(-1, array.shape[-1])
    return np.stack([array.min(axis=0), array.max(axis=0)]) if len(array) else array
