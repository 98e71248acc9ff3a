r"""Random Fourier features and positive (Laplace) random features, as scikit-learn transformers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from graphrf._base import checks
from graphrf.euclidean.cosines import cos_rows, cos_sin_rows
from graphrf.euclidean.feature_map import FeatureMap
from graphrf.euclidean.frequencies.draw import draw_frequencies
from graphrf.euclidean.frequencies.norms import NormCoupling
from graphrf.euclidean.kernels import StationaryKernel, lengthscales, stationary_kernel

READOUTS = ("paired", "phased")


class FourierFeatures(FeatureMap):
    r"""Random Fourier features of a stationary kernel, from coupled frequencies.

    .. math::
        \phi(x) &= \tfrac{1}{\sqrt m} [\cos(w_i \cdot x / l), \; \sin(w_i \cdot x / l)]_{i=1}^m
        \quad (paired), \\
        \phi(x) &= \sqrt{\tfrac 2 m} [\cos(w_i \cdot x / l + b_i)]_{i=1}^m \quad (phased),

    with :math:`\phi(x) \cdot \phi(y)` an unbiased estimate of k(x, y). Paired features have norm 1
    exactly, and less variance for the same number of columns if k(z)^2 >= k(2z) / 2, as for
    Gaussian and Laplace kernels ([theory](../theory/euclidean.md)).

    Cost of `transform`: O(n m d), with HD directions O(n m log d); memory n times the columns, and
    a block.

    Source: Rahimi and Recht 2007, "Random features for large-scale kernel machines"; Reid et al.
    2024, "Variance-reducing couplings for random features", Eq. 3 and Definition 3.3.

    Parameters
    ----------
    n_frequencies : int
        m. Paired features have 2 m columns, all cosines first; phased ones m.
    kernel, directions, norms
        The distribution of the frequencies, as for `draw_frequencies`. `fit` refuses invalid
        settings.
    readout : {"paired", "phased"}
    lengthscale : float or array_like, shape (d,)
        l > 0; one for all coordinates, or one for each.
    seed : int or None
        None draws one in every `fit`, which `seed_` records.
    n_threads : int, optional
        Default: the cores that the process may use. The result does not depend on it.

    Attributes
    ----------
    frequencies_ : Frequencies
        At lengthscale 1.
    kernel_ : StationaryKernel
    lengthscale_ : ndarray, shape () or (d,)
    phases_ : ndarray, shape (m,)
        b, phased features only.
    seed_, n_features_in_ : int

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(50, 4))
    >>> phi = FourierFeatures(512, lengthscale=2.0, seed=0).fit_transform(x)
    >>> from graphrf.euclidean.kernels import stationary_kernel
    >>> exact = stationary_kernel("gaussian").gram(x, lengthscale=2.0)
    >>> phi.shape, bool(abs(phi @ phi.T - exact).max() < 0.1)
    ((50, 1024), True)
    """

    seed_: int
    phases_: np.ndarray

    def __init__(
        self,
        n_frequencies: int = 128,
        *,
        kernel: str | StationaryKernel = "gaussian",
        directions: str = "orthogonal",
        norms: str | NormCoupling | None = "pnc",
        readout: str = "paired",
        lengthscale: ArrayLike = 1.0,
        seed: int | None = 0,
        n_threads: int | None = None,
    ) -> None:
        self.n_frequencies = n_frequencies
        self.kernel = kernel
        self.directions = directions
        self.norms = norms
        self.readout = readout
        self.lengthscale = lengthscale
        self.seed = seed
        self.n_threads = n_threads

    @property
    def _n_features_out(self) -> int:
        n = self.frequencies_.shape[0]
        return n if self._phased else 2 * n

    def _prepare(self, dimension: int) -> None:
        self._phased = checks.choice("readout", self.readout, READOUTS) == "phased"
        n = checks.integer("n_frequencies", self.n_frequencies, low=1)
        self.lengthscale_ = lengthscales(self.lengthscale, dimension)
        self.seed_ = checks.seed(self.seed)
        self.kernel_ = stationary_kernel(self.kernel)
        self.frequencies_ = draw_frequencies(
            n,
            dimension,
            kernel=self.kernel_,
            directions=self.directions,
            norms=self.norms,
            seed=self.seed_,
        )
        if self._phased:
            # The third stream of the seed: norms and directions have the first two.
            stream = np.random.SeedSequence(self.seed_, spawn_key=(2,))
            self.phases_ = np.random.default_rng(stream).uniform(0, 2 * np.pi, n)
        elif hasattr(self, "phases_"):
            del self.phases_

    def _write(self, x: np.ndarray, out: np.ndarray) -> None:
        m = self.frequencies_.shape[0]
        self.frequencies_.project(x, out[:, :m])
        if self._phased:
            out += self.phases_.astype(x.dtype)
            cos_rows(out, (2 / m) ** 0.5)
        else:
            cos_sin_rows(out, (1 / m) ** 0.5)

    def _tensor(self, x: Any) -> Any:
        import torch

        from graphrf.euclidean.tensors import paired

        projected = self.frequencies_.project(x)
        if self._phased:
            phases = torch.as_tensor(self.phases_, dtype=x.dtype, device=x.device)
            return torch.cos(projected + phases) * (2 / projected.shape[-1]) ** 0.5
        return paired(projected)


class LaplaceFeatures(FeatureMap):
    r"""Random Laplace features of the Gaussian kernel: positive, like every estimate of it.

    .. math:: \phi(x) = \tfrac{1}{\sqrt m} \exp(-\|x / l\|^2) \, [\exp(w_i \cdot x / l)]_{i=1}^m.

    Independent features have variance k(x, y)^2 (exp(|x + y|^2 / l^2) - 1) / m: use them for points
    within about one lengthscale of the origin (centre the data first), or for attention, which
    normalises.

    Source: Reid et al. 2024, "Variance-reducing couplings for random features", Eq. 4 and Theorem
    3.5; Reid et al. 2023, "Simplex random features", Eq. 7, where they are called positive random
    features.

    Parameters
    ----------
    n_frequencies : int
        m, the number of columns; with `antithetic` it must be even, and includes the negatives.
    antithetic : bool
        Add -w for each w, the second frequency with the least variance.
    directions, norms, lengthscale, seed, n_threads
        See `FourierFeatures`, also for the attributes and the cost.

    Examples
    --------
    >>> x = 0.5 * np.random.default_rng(0).normal(size=(20, 3))
    >>> phi = LaplaceFeatures(600, directions="simplex", norms="iid", seed=0).fit_transform(x)
    >>> bool((phi > 0).all())
    True
    """

    seed_: int

    def __init__(
        self,
        n_frequencies: int = 128,
        *,
        directions: str = "orthogonal",
        norms: str | NormCoupling | None = "pnc",
        antithetic: bool = True,
        lengthscale: ArrayLike = 1.0,
        seed: int | None = 0,
        n_threads: int | None = None,
    ) -> None:
        self.n_frequencies = n_frequencies
        self.directions = directions
        self.norms = norms
        self.antithetic = antithetic
        self.lengthscale = lengthscale
        self.seed = seed
        self.n_threads = n_threads

    @property
    def _n_features_out(self) -> int:
        return self.frequencies_.shape[0]

    def _prepare(self, dimension: int) -> None:
        n = checks.integer("n_frequencies", self.n_frequencies, low=1)
        if checks.flag("antithetic", self.antithetic) and n % 2:
            raise checks.value_error(
                "n_frequencies",
                f"must be even with antithetic=True, got {n}: each has its negative",
            )
        self.lengthscale_ = lengthscales(self.lengthscale, dimension)
        self.seed_ = checks.seed(self.seed)
        self.kernel_ = stationary_kernel("gaussian")
        self.frequencies_ = draw_frequencies(
            n,
            dimension,
            directions=self.directions,
            norms=self.norms,
            antithetic=self.antithetic,
            seed=self.seed_,
        )

    def _write(self, x: np.ndarray, out: np.ndarray) -> None:
        self.frequencies_.project(x, out)
        out -= self._common(x)
        np.exp(out, out=out)

    def _tensor(self, x: Any) -> Any:
        import torch

        return torch.exp(self.frequencies_.project(x) - self._common(x))

    def _common(self, x: Any) -> Any:
        """|x|^2 + log(m) / 2 of every row: in the exponent, since exp(w.x) alone may overflow."""
        return (x * x).sum(-1)[..., None] + 0.5 * float(np.log(self.frequencies_.shape[0]))
