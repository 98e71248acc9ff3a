"""Kernels given by coefficients: fixed ones (`PowerSeries`) or free (`LearnedModulation`)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Self

import numpy as np

from graphrf._base import checks
from graphrf._base.cached import cached_property
from graphrf.kernels.coefficients import dyadic_remainder, poisson, remainder, root, square
from graphrf.kernels.kernel import Kernel


@dataclass(frozen=True, repr=False, init=False)
class PowerSeries(Kernel):
    r"""A kernel given by a finite series in the walk matrix W: of K (`taylor`) or of its root.

    .. math:: K = \sum_r \alpha_r W^r \quad \text{or} \quad K = F^2, \; F = \sum_r f_r W^r.

    Parameters
    ----------
    taylor : sequence of numbers
        alpha. The root series is found by recursion in decimal arithmetic of 80 digits or more and
        its square compared with alpha. A kernel needs alpha_0 > 0 and g(x) = sum alpha_r x^r >= 0
        on [-1, 1] ([0, 1] for the combinatorial Laplacian); that the root converges needs more: no
        zero of odd order of g in the open complex unit disc. `Decimal` and `Fraction` entries are
        kept exactly, which matters where alpha_0 is tiny.
    modulation : sequence of numbers
        f, any finite numbers; alpha is its convolution with itself. Give this or `taylor`.
    laplacian : "normalized" or "combinatorial"
        The coefficients belong to powers of W = I - L/s, so on the combinatorial Laplacian the same
        series is a different function of L on graphs of different scale.

    Raises
    ------
    ValueError
        If the series is no kernel or its root does not converge; the message states the reason.

    Examples
    --------
    >>> import graphrf as grf
    >>> grf.kernels.PowerSeries(taylor=[4.0, 4.0, 1.0]).modulation(4)
    array([2., 1., 0., 0.])
    >>> grf.kernels.PowerSeries(modulation=[2.0, 1.0]).taylor(4)
    array([4., 4., 1., 0.])
    """

    given: str
    coefficients: tuple[float | Decimal | Fraction, ...]

    def __init__(
        self,
        *,
        taylor: Iterable[Any] | None = None,
        modulation: Iterable[Any] | None = None,
        laplacian: str = "normalized",
    ) -> None:
        object.__setattr__(self, "laplacian", laplacian)
        super().__post_init__()
        if taylor is not None and modulation is None:
            object.__setattr__(self, "given", "taylor")
            object.__setattr__(self, "coefficients", _coefficients("taylor", taylor))
            self._check_taylor()
        elif modulation is not None and taylor is None:
            object.__setattr__(self, "given", "modulation")
            object.__setattr__(self, "coefficients", _coefficients("modulation", modulation))
        else:
            both = "both" if taylor is not None else "neither"
            raise ValueError(f"PowerSeries takes one of `taylor` and `modulation`, got {both}")

    def replace(self, **changes: Any) -> Self:
        return type(self)(**{self.given: self.coefficients, "laplacian": self.laplacian} | changes)

    def __repr__(self) -> str:
        rest = "" if self.laplacian == "normalized" else f", laplacian={self.laplacian!r}"
        return f"PowerSeries({self.given}=[{_shown(self.coefficients)}]{rest})"

    @cached_property
    def _values(self) -> np.ndarray:
        """The given coefficients as float64."""
        return np.array([float(c) for c in self.coefficients])

    def _check_taylor(self) -> None:
        alpha = self._values
        if alpha[0] <= 0:
            raise checks.value_error(
                "taylor", f"must begin with a positive number, got {alpha[0]:g}"
            )
        low = -1.0 if self.laplacian == "normalized" else 0.0
        angles = np.linspace(0, np.pi, 16 * alpha.size + 2001)
        x = low + (1 - low) * (1 + np.cos(angles)) / 2
        g = np.polynomial.polynomial.polyval(x, alpha)
        worst = int(g.argmin())
        if g[worst] < -1e-13 * np.abs(alpha).sum():
            raise checks.value_error(
                "taylor",
                f"must be a series that is at least 0 on [{low:g}, 1], where W has its "
                f"eigenvalues; got {g[worst]:g} at {x[worst]:.4g}: K would be indefinite",
            )
        f = self._root
        ratio = dyadic_remainder(f)[1] if np.abs(f).max() < 1e100 * f[0] else math.inf
        if ratio > 0.9:  # a zero on the unit circle gives 0.71, anything inside it more than 1
            raise checks.value_error(
                "taylor",
                "must have a root series that converges, but its coefficients do not decay (after "
                f"{f.size} terms they reach {np.abs(f[f.size // 2 :]).max():.2g}): the series has "
                "a zero of odd order inside the complex unit disc. Coefficients that are truncated "
                "or rounded while alpha_0 is tiny do this too: use the named kernel, more digits "
                "(Decimal), or `modulation=`",
            )

    @cached_property
    def _root(self) -> np.ndarray:
        """The first 1024 to 4096 coefficients of the root, for tails (fewer of long series)."""
        length = len(self.coefficients)
        return root(self.coefficients, max(2 * length, min(4096, max(1024, 2**17 // length))))

    def check_scale(self, scale: float) -> None:
        size = float(np.abs(self._values).sum())
        if size > 0:
            self.check_size((1 if self.given == "taylor" else 2) * math.log(size))

    def taylor_coefficients(self, n: int, scale: float) -> np.ndarray:
        values = self._values if self.given == "taylor" else square(self._values)
        return _padded(values, n)

    def modulation_coefficients(self, n: int, scale: float) -> np.ndarray:
        if self.given == "modulation":
            return _padded(self._values, n)
        return self._root[:n].copy() if n <= self._root.size else root(self.coefficients, n)

    def modulation_remainder(self, length: int, scale: float) -> float:
        if self.given == "modulation":
            return float(np.abs(self._values[length + 1 :]).sum())
        return remainder(self._root, length)

    def spectral_function(self, eigenvalues: np.ndarray, scale: float) -> np.ndarray:
        values = np.polynomial.polynomial.polyval(1 - eigenvalues / scale, self._values)
        return np.asarray(values if self.given == "taylor" else values**2)

    def root_spectral_function(self, eigenvalues: np.ndarray, scale: float) -> np.ndarray:
        values = np.polynomial.polynomial.polyval(1 - eigenvalues / scale, self._values)
        return np.asarray(
            values if self.given == "modulation" else np.sqrt(np.maximum(values, 0.0))
        )


@dataclass(frozen=True, repr=False)
class LearnedModulation(Kernel):
    r"""A free modulation f_0 .. f_L, trained with a Gaussian process: K = F^2, F = sum_k f_k W^k.

    K is positive semi-definite for any signs of f. The values are the hyperparameters, named "f0"
    .. "fL", of any sign; the Jacobian is the identity.

    Parameters
    ----------
    max_length : int
        L >= 0, the number of steps.
    values : sequence of L + 1 numbers, optional
        The coefficients. Default: those of `Diffusion(lengthscale=2)`, e^-1 / k!.
    laplacian : "normalized" or "combinatorial"

    Examples
    --------
    >>> import graphrf as grf
    >>> kernel = grf.kernels.LearnedModulation(max_length=2, values=[1.0, 0.5, -0.25])
    >>> kernel.hyperparameters
    {'f0': 1.0, 'f1': 0.5, 'f2': -0.25}
    >>> kernel.replace(f2=0.0).values
    (1.0, 0.5, 0.0)
    """

    max_length: int
    values: tuple[float, ...] = None  # type: ignore[assignment]  # filled below

    def __post_init__(self) -> None:
        super().__post_init__()
        length = checks.integer("max_length", self.max_length, low=0)
        object.__setattr__(self, "max_length", length)
        if self.values is None:
            values = tuple(poisson(length + 1, 1.0).tolist())
        else:
            values = tuple(float(value) for value in _coefficients("values", self.values))
        if len(values) != length + 1:
            raise checks.value_error(
                "values", f"must hold max_length + 1 = {length + 1} numbers, got {len(values)}"
            )
        object.__setattr__(self, "values", values)

    def __repr__(self) -> str:
        rest = "" if self.laplacian == "normalized" else f", laplacian={self.laplacian!r}"
        return (
            f"LearnedModulation(max_length={self.max_length}, values=[{_shown(self.values)}]{rest})"
        )

    @property
    def hyperparameters(self) -> dict[str, float]:
        return {f"f{k}": value for k, value in enumerate(self.values)}

    def hyperparameter_bounds(self, scale: float | None = None) -> dict[str, float]:
        """Minus infinity for each: the values may have any sign."""
        self.checked_scale(scale)
        return dict.fromkeys(self.hyperparameters, -math.inf)

    def replace(self, **changes: Any) -> Self:
        """This kernel with some arguments changed; single values by their names, "f0" and so on."""
        values = list(changes.get("values", self.values))
        for name in self.hyperparameters:
            if name in changes:
                values[int(name[1:])] = changes.pop(name)
        if "max_length" not in changes or "values" in changes:
            changes["values"] = tuple(values)
        return super().replace(**changes)

    def check_scale(self, scale: float) -> None:
        size = math.fsum(map(abs, self.values))
        if size > 0:
            self.check_size(2 * math.log(size))

    def taylor_coefficients(self, n: int, scale: float) -> np.ndarray:
        return _padded(square(np.array(self.values)), n)

    def modulation_coefficients(self, n: int, scale: float) -> np.ndarray:
        return _padded(np.array(self.values), n)

    def modulation_derivatives(self, n: int, scale: float) -> np.ndarray:
        return np.eye(n, self.max_length + 1)

    def modulation_remainder(self, length: int, scale: float) -> float:
        return float(np.abs(self.values[length + 1 :]).sum())

    def root_spectral_function(self, eigenvalues: np.ndarray, scale: float) -> np.ndarray:
        return np.asarray(np.polynomial.polynomial.polyval(1 - eigenvalues / scale, self.values))


def _padded(values: np.ndarray, n: int) -> np.ndarray:
    """The first n entries, with zeros after the last."""
    padded = np.zeros(n)
    padded[: min(n, values.size)] = values[:n]
    return padded


def _shown(coefficients: tuple[float | Decimal | Fraction, ...]) -> str:
    """The first coefficients, for a representation."""
    more = f", ... {len(coefficients)} terms" if len(coefficients) > 6 else ""
    return ", ".join(str(float(c)) for c in coefficients[:6]) + more


def _coefficients(name: str, values: Iterable[Any]) -> tuple[float | Decimal | Fraction, ...]:
    """A non-empty tuple of finite numbers, Decimals and Fractions kept as they are."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise checks.type_error(
            name, f"must be a sequence of numbers, got {checks.describe(values)}"
        )
    kept = tuple(
        value
        if isinstance(value, Decimal | Fraction) and math.isfinite(value)
        else checks.number(f"{name}[{k}]", value)
        for k, value in enumerate(values)
    )
    if not kept:
        raise checks.value_error(name, "must hold at least one number, got none")
    return kept
