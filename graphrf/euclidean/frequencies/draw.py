r"""Random frequencies: directions times norms, and the product of points with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy import special
from scipy.stats import qmc

from graphrf._base import checks
from graphrf._base.blas import blas_threads
from graphrf._base.cached import cached_property
from graphrf.euclidean.frequencies.directions import (
    DIRECTIONS,
    simplex,
    simplex_plus,
    simplex_product,
    unit_blocks,
)
from graphrf.euclidean.frequencies.hadamard import hadamard, next_power_of_two, project_rows
from graphrf.euclidean.frequencies.norms import NormCoupling, block_uniforms
from graphrf.euclidean.kernels import StationaryKernel, stationary_kernel
from graphrf.euclidean.tensors import floating

SEQUENCES = ("halton", "sobol")
"""Directions that are a low-discrepancy sequence of whole frequencies, including norms."""


class Frequencies(Protocol):
    """m angular frequencies w_i of R^d, for lengthscale 1."""

    @property
    def shape(self) -> tuple[int, int]:
        """(m, d)."""
        ...

    @property
    def matrix(self) -> np.ndarray:
        """W, one frequency per row, shape (m, d), float64."""
        ...

    def project(self, x: Any, out: np.ndarray | None = None) -> Any:
        """x W^T, for points of shape (..., d): an array, in float32 or float64, or a torch tensor.

        With `out`, arrays of two axes are written into it; it has the dtype of x and contiguous
        rows.
        """
        ...


def draw_frequencies(
    n: int,
    dimension: int,
    *,
    kernel: str | StationaryKernel = "gaussian",
    directions: str = "orthogonal",
    norms: str | NormCoupling | None = "pnc",
    antithetic: bool = False,
    seed: int | None = None,
) -> Frequencies:
    """Draw coupled random frequencies, each with a kernel's spectral distribution as its marginal.

    Frequencies come in independent blocks, W = D U R with D the norms, U the geometry and R a
    rotation ([theory](../theory/euclidean.md#couplings-of-directions)):

    =============  ==================================================  ============================
    directions     U R                                                 cost of x W^T per block
    =============  ==================================================  ============================
    iid            independent, uniform on the sphere                  O(d^2)
    orthogonal     R, Haar                                             O(d^2)
    simplex        corners of a simplex, S R                           O(d^2)
    simplex+       as the simplex; longer frequencies, wider angles    O(d^2)
    orthogonal-hd  H D_1 H D_2 H D_3, random signs, Walsh-Hadamard     O(d log d), no matrix stored
    simplex-hd     S H D_1 H D_2 H D_3                                 O(d log d), no matrix stored
    halton, sobol  scrambled low-discrepancy points, whole frequencies O(d^2)
    =============  ==================================================  ============================

    All except the HD forms have exactly the kernel's spectral distribution as marginal, so features
    are unbiased. HD products are not uniform rotations, so they bias the kernel: with orthogonal-hd
    at distance 1.5 along an axis it is 0.81 of the exact one at d = 4, 0.957 at 8, 0.991 at 16;
    positive features at |x + y| = 3 are off by factors of 0.5 to 2.2 at d = 4
    (`examples/fast_simplex.py`). Below d = 16 use rotations. HD products pad x to a power of two d'
    with zeros and have blocks of d' frequencies with norms of dimension d'.

    Time O(m d^2) for the rotations; memory m d numbers, or m for HD forms.

    Source: Yu et al. 2016, "Orthogonal random features"; Reid et al. 2023, "Simplex random
    features", Eqs 8, 9, 17 and App. B.2; Reid et al. 2024, "Variance-reducing couplings for random
    features", Sec. 3 and App. G.

    Parameters
    ----------
    n : int
        m, frequencies. The last block is cut if n is not a multiple of its size.
    dimension : int
        d.
    kernel : str or StationaryKernel
        "gaussian", "matern12", "matern32", "matern52" or "laplace".
    directions : str
    norms : str, NormCoupling or None
        "iid", "pnc", "pm" or another coupling of `norm_coupling`. None for "halton" and "sobol",
        which have their own norms, and only for these.
    antithetic : bool
        Draw n / 2 frequencies and add their negatives, as the second half of the rows, for positive
        features; in Fourier features -w repeats w.
    seed : int, optional
        None draws one. Norms and directions have separate streams, so a seed gives the same
        directions for all couplings of norms.

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid, n is odd with `antithetic`, or `norms` cannot be combined with
        `directions`.

    Examples
    --------
    >>> w = draw_frequencies(4, 4, norms="pnc", seed=0).matrix
    >>> bool(abs(w @ w.T - np.diag(np.diag(w @ w.T))).max() < 1e-12)
    True
    """
    n = checks.integer("n", n, low=1)
    dimension = checks.integer("dimension", dimension, low=1)
    law = stationary_kernel(kernel)
    directions = checks.choice("directions", directions, DIRECTIONS)

    if checks.flag("antithetic", antithetic):
        if n % 2:
            raise checks.value_error(
                "n", f"must be even with antithetic frequencies, which come in pairs, got {n}"
            )
        half = draw_frequencies(
            n // 2,
            dimension,
            kernel=law,
            directions=directions,
            norms=norms,
            antithetic=False,
            seed=seed,
        )
        return AntitheticFrequencies(half)

    for_norms, for_directions = (
        np.random.default_rng(stream)
        for stream in np.random.SeedSequence(checks.seed(seed)).spawn(2)
    )
    if directions in SEQUENCES:
        if norms is not None:
            raise checks.value_error(
                "norms",
                f"must be None with directions={directions!r}, which has its own, got {norms!r}",
            )
        return DenseFrequencies(_sequence(directions, n, dimension, law, for_directions))

    if norms is None:
        raise checks.value_error(
            "norms",
            f"must be a coupling with directions={directions!r}, got None; use 'iid' or 'pnc'",
        )

    fast = directions.endswith("-hd")
    size = next_power_of_two(dimension) if fast else dimension
    if directions.startswith("simplex") and size == 1:
        # scikit-learn's tests search for the words in brackets.
        raise ValueError(
            "simplex directions need at least 2 dimensions, got 1 (n_features = 1); use "
            "directions='orthogonal'"
        )

    n_blocks = -(-n // size)
    lengths = law.norm_quantile(block_uniforms(norms, n_blocks, size, for_norms), size)
    if fast:
        signs = for_directions.integers(0, 2, size=(n_blocks, 3, size), dtype=np.int8) * 2 - 1
        return FastFrequencies(signs, lengths, directions == "simplex-hd", (n, dimension))
    units = _units(directions, lengths, for_directions)
    return DenseFrequencies((units * lengths[:, :, None]).reshape(-1, dimension)[:n])


class _Sized:
    """Base class with a representation of class and shape."""

    shape: Any

    def __repr__(self) -> str:
        n, d = self.shape
        return f"{type(self).__name__}({n} x {d})"


@dataclass(frozen=True, eq=False, repr=False)
class DenseFrequencies(_Sized):
    """Frequencies as a matrix."""

    matrix: np.ndarray

    def __post_init__(self) -> None:
        self.matrix.setflags(write=False)

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape

    def project(self, x: Any, out: np.ndarray | None = None) -> Any:
        x = floating("x", x, self.shape[1])
        if isinstance(x, np.ndarray):
            matrix = self._single if x.dtype == np.float32 else self.matrix
            return np.matmul(x, matrix.T, out=out)
        import torch

        return x @ torch.tensor(self.matrix.T, dtype=x.dtype, device=x.device)

    @cached_property
    def _single(self) -> np.ndarray:
        return self.matrix.astype(np.float32)


@dataclass(frozen=True, eq=False, repr=False)
class FastFrequencies(_Sized):
    """Blocks D S H D_1 H D_2 H D_3 as signs and norms: O(m) memory, O(m log d) time a point."""

    signs: np.ndarray
    norms: np.ndarray
    simplex: bool
    shape: tuple[int, int]

    @property
    def matrix(self) -> np.ndarray:
        return self.project(np.eye(self.shape[1])).T

    def project(self, x: Any, out: np.ndarray | None = None) -> Any:
        x = floating("x", x, self.shape[1])
        if isinstance(x, np.ndarray):
            rows = np.ascontiguousarray(x).reshape(-1, self.shape[1])
            if out is None:
                out = np.empty((len(rows), self.shape[0]), x.dtype)
            project_rows(rows, self.signs.astype(x.dtype), self.norms, self.simplex, out)
            return out if x.ndim == 2 else out.reshape(*x.shape[:-1], self.shape[0])
        import torch

        n, d = self.shape
        size = self.norms.shape[1]
        signs = torch.tensor(self.signs, dtype=x.dtype, device=x.device)
        y = torch.nn.functional.pad(x, (0, size - d))[..., None, :]
        for factor in (2, 1, 0):
            y = hadamard(y * signs[:, factor])
        if self.simplex:
            y = simplex_product(y)
        y = y * torch.tensor(self.norms, dtype=x.dtype, device=x.device)
        return y.flatten(-2)[..., :n]


@dataclass(frozen=True, eq=False, repr=False)
class AntitheticFrequencies(_Sized):
    """Frequencies and their negatives."""

    half: Frequencies

    @property
    def shape(self) -> tuple[int, int]:
        n, d = self.half.shape
        return 2 * n, d

    @property
    def matrix(self) -> np.ndarray:
        return np.concatenate([self.half.matrix, -self.half.matrix])

    def project(self, x: Any, out: np.ndarray | None = None) -> Any:
        if out is not None:
            n = out.shape[1] // 2
            np.negative(self.half.project(x, out[:, :n]), out=out[:, n:])
            return out
        half = self.half.project(x)
        if isinstance(half, np.ndarray):
            return np.concatenate([half, -half], axis=-1)
        import torch

        return torch.cat([half, -half], dim=-1)


def _units(directions: str, lengths: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Directions of blocks of d, shape (n_blocks, d, d)."""
    n_blocks, d = lengths.shape
    if directions != "simplex+":
        return unit_blocks(directions, n_blocks, d, rng)
    rotations, corners = unit_blocks("orthogonal", n_blocks, d, rng), simplex(d)
    with blas_threads(1):
        return np.stack(
            [simplex_plus(norms, corners) @ r for norms, r in zip(lengths, rotations, strict=True)]
        )


def _sequence(
    directions: str, n: int, dimension: int, kernel: StationaryKernel, rng: np.random.Generator
) -> np.ndarray:
    """First n points of a scrambled sequence as frequencies; unscrambled, the first is infinite."""
    columns = dimension if kernel.nu is None else dimension + 1
    kind = qmc.Halton if directions == "halton" else qmc.Sobol
    if directions == "sobol" and columns > qmc.Sobol.MAXDIM:
        raise checks.value_error(
            "directions",
            f"'sobol' has at most {qmc.Sobol.MAXDIM} columns, got {columns}; use 'halton'",
        )
    drawn = n if directions == "halton" else next_power_of_two(n)
    u = kind(columns, scramble=True, seed=rng).random(drawn)[:n]
    u = np.clip(u, 2.0**-53, 1 - 2.0**-53)
    normal = special.ndtri(u[:, :dimension])
    if kernel.nu is None:
        return normal
    freedom = 2 * kernel.nu
    return normal / np.sqrt(2 * special.gammaincinv(freedom / 2, u[:, dimension:]) / freedom)
