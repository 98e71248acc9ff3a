"""The Chebyshev coefficients of a function of the walk matrix's eigenvalues."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.fft

# How far below 1 the eigenvalues of W reach, on a graph without self-loops.
WIDTHS = {"normalized": 2.0, "combinatorial": 1.0}

# The initial number of values on the interval.
_FEWEST = 64

ROUNDING = float(np.finfo(np.float64).eps)

Function = Callable[[np.ndarray], np.ndarray]


def chebyshev_coefficients(
    function: Function,
    width: float,
    *,
    tol: float,
    max_degree: int,
    floor: float = ROUNDING,
    cut: bool = False,
) -> tuple[np.ndarray | None, float]:
    """Chebyshev coefficients on 1 - width <= x <= 1; the dropped tail is below tol max |function|.

    The function is given 1 - x, which is exact near x = 1 where kernels are steep. Coefficients
    below floor max |function| count as 0; with tol = 0 only these are dropped. The second result is
    the tail above `max_degree`, relative to max |function|; if that is too large the first is None,
    or with `cut` the truncated series.
    """

    def size(c: np.ndarray, largest: np.ndarray) -> int:
        c[np.abs(c) <= floor * largest] = 0.0
        return max(int(np.argmax(_dropped(c) <= tol * largest)), 1)

    c, largest, kept = _resolved(function, width, size, max_degree)
    if largest == 0:
        return np.zeros(1), 0.0
    fits = kept - 1 <= min((c.size - 1) // 2, max_degree)
    if not fits:
        kept = min(max_degree + 1, c.size - 1)
    reached = float(_dropped(c)[kept]) / float(largest)
    return (c[:kept].copy() if fits or cut else None), reached


def _dropped(c: np.ndarray) -> np.ndarray:
    """sum_{k >= d} |c_k| for d = 0 .. len(c)."""
    return np.append(np.cumsum(np.abs(c[::-1]))[::-1], 0.0)


def chebyshev_columns(
    function: Function,
    width: float,
    *,
    tol: float,
    max_degree: int,
    columns: slice = slice(0, 1),
    expected: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Chebyshev coefficients on 1 - width <= x <= 1 of columns of function(1 - x).

    The second result is the largest value of each column. The coefficients end with the last that
    is above tol max |column| in one of the named columns; above `max_degree` they need not be
    accurate. Where the degree can be guessed, `expected` saves the lower resolutions that are tried
    first.
    """

    def size(c: np.ndarray, largest: np.ndarray) -> int:
        above = np.abs(c[:, columns]) > tol * largest[columns]
        return int(np.flatnonzero(above.any(axis=1))[-1]) + 1 if above.any() else 1

    # at one resolution more than the largest degree needs
    c, largest, kept = _resolved(function, width, size, max_degree + 1, min(expected, max_degree))
    return c[:kept].copy(), largest


def _resolved(
    function: Function,
    width: float,
    size: Callable[[np.ndarray, np.ndarray], int],
    max_degree: int,
    expected: int = 0,
) -> tuple[np.ndarray, np.ndarray, int]:
    """Coefficients of a polynomial whose values show its degree, largest values, the degree."""
    n = _FEWEST
    while n // 2 < expected:
        n *= 2
    while True:
        c, largest = _interpolated(function, width, n)
        kept = size(c, largest)
        # only the lower half is trusted: the function's
        # higher terms are folded back onto the upper one
        if kept - 1 <= n // 2 or n // 2 >= max_degree:
            return c, largest, kept
        n *= 2


def _interpolated(function: Function, width: float, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients of the polynomial of degree n through n + 1 points, and the largest values."""
    values = function(width * np.sin(0.5 * np.pi * np.arange(n + 1) / n) ** 2)
    c = scipy.fft.dct(values, type=1, axis=0) / n
    c[[0, -1]] *= 0.5
    return c, np.abs(values).max(axis=0)


def polynomial(f: np.ndarray) -> Function:
    """gap -> sum_k f_k (1 - gap)^k on [0, 2], by blocks of about sqrt(len(f)) powers."""
    width = int(np.clip(np.sqrt(f.size), 16, 256))
    padded = np.zeros(-(-f.size // width) * width)
    padded[: f.size] = f
    blocks = padded.reshape(-1, width).T

    def evaluate(gap: np.ndarray) -> np.ndarray:
        x = 1 - gap
        powers = np.cumprod(np.broadcast_to(x[:, None], (x.size, width)), axis=1)
        powers[np.abs(powers) < 1e-200] = 0.0  # denormal numbers are slow, and nothing beside f_0
        parts = blocks[0] + powers[:, :-1] @ blocks[1:]  # shape (len(x), number of blocks)
        value = parts[:, -1]
        for part in parts.T[-2::-1]:
            value = value * powers[:, -1] + part
        return value

    return evaluate


def polynomial_coefficients(f: np.ndarray, width: float) -> np.ndarray:
    """Chebyshev coefficients on 1 - width <= x <= 1 of sum_k f_k x^k, none below rounding."""
    f = np.trim_zeros(f, "b")
    if f.size <= 1:
        return f if f.size else np.zeros(1)
    # Rounding in W moves F by eps sum_k k |f_k|; the floor keeps what
    # is dropped, all terms together, below that (the terms decay like
    # exp(-degree / sqrt(slope)) where the slope is large).
    slope = float(np.arange(f.size) @ np.abs(f)) / float(np.abs(f).sum())
    floor = ROUNDING * max(1.0, np.sqrt(slope))
    coefficients, _ = chebyshev_coefficients(
        polynomial(f), width, tol=0.0, max_degree=f.size - 1, floor=floor
    )
    if coefficients is None:  # all that is left above its degree is rounding
        n = 1 << int(f.size).bit_length()
        coefficients = _interpolated(polynomial(f), width, n)[0][: f.size]
    return coefficients
