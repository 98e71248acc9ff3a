"""Numerics of power series: coefficients of named kernels, their tails, and roots of series.

Pure functions of numbers and arrays; `graphrf.kernels` gives them their meaning.
"""

from __future__ import annotations

import math
from decimal import MAX_EMAX, MIN_EMIN, Decimal, localcontext
from fractions import Fraction

import numpy as np
from scipy import special

Floats = np.ndarray

_NEGLIGIBLE = Decimal("1e-60")


def poisson(n: int, mean: float) -> Floats:
    """The first n coefficients e^-mean mean^r / r! of exp(mean (x - 1)).

    Computed in logarithms outward from the largest one, so that no mean underflows and the error
    does not grow with it.
    """
    mode = int(mean)
    if n <= mode and _log_poisson(n - 1, mean) < -746:
        return np.zeros(n)  # the coefficients grow up to the mode, and the last of these underflows
    steps = np.log(mean / np.arange(1, max(n, mode + 1)))
    below = -np.cumsum(steps[:mode][::-1])[::-1]
    above = np.cumsum(steps[mode:])
    logs = np.concatenate([below, [0.0], above])[:n] + _log_poisson(mode, mean)
    return np.asarray(np.exp(logs))


def _log_poisson(r: int, mean: float) -> float:
    """log(e^-mean mean^r / r!) for r <= mean, without cancellation where r is close to it."""
    if r == 0:
        return -mean
    excess = mean - r
    # log(r!) - Stirling's formula
    if r < 16:
        rest = math.lgamma(r + 1.0) - (0.5 * math.log(2 * math.pi * r) + r * math.log(r) - r)
    else:
        rest = 1 / (12 * r) - 1 / (360 * r**3) + 1 / (1260 * r**5)
    return r * math.log1p(excess / r) - excess - 0.5 * math.log(2 * math.pi * r) - rest


def negative_binomial(n: int, power: float, odds: float) -> Floats:
    """First coefficients of (1 + b (1 - x))^-q: (1+b)^-q (q)_r / r! a^r, a = b / (1 + b)."""
    r = np.arange(1, n, dtype=np.float64)
    steps = np.log1p((power - 1) / r) - np.log1p(1 / odds)
    if n > 1:
        steps[0] = math.log(power) - math.log1p(1 / odds)
    logs = np.concatenate([[0.0], np.cumsum(steps)])[:n] - power * math.log1p(odds)
    return np.asarray(np.exp(logs))


def harmonic(n: int, start: float) -> Floats:
    """sum_{i<r} 1 / (start + i) for r = 0 .. n-1: the derivative of log (start)_r in start."""
    return np.concatenate([[0.0], np.cumsum(1.0 / (start + np.arange(max(n - 1, 0))))])[:n]


def poisson_tail(length: int, mean: float) -> float:
    """sum_{r>length} e^-mean mean^r / r!, exactly (an incomplete gamma function)."""
    return 1.0 if length < 0 else float(special.gammainc(length + 1.0, mean))


def negative_binomial_tail(length: int, power: float, odds: float) -> float:
    """sum_{r>length} of `negative_binomial`, exactly (an incomplete beta function), of 1."""
    if length < 0:
        return 1.0
    if odds < 1:  # the complement would lose odds beside 1
        return float(special.betainc(length + 1.0, power, odds / (1.0 + odds)))
    return float(special.betaincc(power, length + 1.0, 1.0 / (1.0 + odds)))


def binomial(n: int, power: float, constant: float, slope: float) -> Floats:
    """The first n coefficients C(q, r) u^(q-r) s^r of (u + s x)^q.

    For an integer q >= 0 the series ends at r = q and u may have any sign; else u > 0.
    """
    coefficients = np.zeros(n)
    if power >= 0 and power == int(power):
        r = np.arange(min(n, int(power) + 1), dtype=np.float64)
        coefficients[: r.size] = special.binom(power, r) * constant ** (power - r) * slope**r
    else:
        r = np.arange(1, n, dtype=np.float64)
        ratios = (power - r + 1) / r * (slope / constant)
        coefficients[:] = constant**power * np.concatenate([[1.0], np.cumprod(ratios)])
    return coefficients


def binomial_tail(length: int, power: float, constant: float, slope: float) -> float:
    r"""sum_{r>length} |C(q, r)| u^(q-r) s^r for u >= s > 0, or for an integer q >= 0.

    Above r = q the terms C(q, r) (-t)^r, t = s/u, keep their sign, so the sum is

    .. math:: u^q |C(q, L+1)| t^{L+1} H, \quad H = {}_2F_1(L+1-q, 1; L+2; t) = \frac{L+1}{q} \text{
        at } t = 1,
              \quad \frac{1}{1-t} \int_0^\infty e^{-y} \left(1 + \tfrac{t}{1-t}
              \left(1 - e^{-y/(L+1)}\right)\right)^{-q-1} dy \text{ below},

    by Euler's integral; library routines for the hypergeometric function fail for t near 1 and
    large L.
    """
    last_free = math.ceil(power) - 1 if power != int(power) else int(power)
    if length < last_free:
        head = np.abs(binomial(last_free + 1, power, constant, slope))[length + 1 :]
        return float(head.sum()) + binomial_tail(last_free, power, constant, slope)
    if power == int(power):
        return 0.0
    # |C(q, L+1)| = Gamma(L+1-q) / (|Gamma(-q)| Gamma(L+2)); poch is accurate where log-gammas
    # cancel, and the reflection of Gamma(-q) where it underflows
    t = slope / constant
    if power < 150:
        first = abs(special.poch(length + 2.0, -1 - power) / special.gamma(-power))
    else:
        first = (
            special.beta(length + 1 - power, power + 1) * abs(math.sin(math.pi * power)) / math.pi
        )
    first *= t ** (length + 1)
    if t == 1:
        factor = (length + 1) / power
    else:
        # the trapezoidal rule in log y, where the integrand is a smooth bell, is exact to rounding
        odds = t / (1 - t)
        log_y = np.arange(math.log(min(1.0, (length + 1) / odds)) - 40, 7, 0.05)
        y = np.exp(log_y)
        bell = np.exp(log_y - y - (power + 1) * np.log1p(-odds * np.expm1(-y / (length + 1))))
        factor = 0.05 * float(bell.sum()) / (1 - t)
    return float(constant**power * first * factor)


def inverse_cosine(n: int) -> Floats:
    """The first n coefficients of cos(pi (1 - x) / 4): 2^-1/2 (pi/4)^r / r!, signs + + - -."""
    r = np.arange(n)
    size = np.exp(r * math.log(math.pi / 4) - special.gammaln(r + 1.0)) / math.sqrt(2)
    return np.asarray(np.where(r % 4 < 2, size, -size))


def _inverse_cosine_regular(n_terms: int = 48) -> Floats:
    """The series h of sqrt(cos(pi (1 - x) / 4) / (1 + x)); its nearest singularity is x = 3."""
    alternating = inverse_cosine(n_terms + 24) * (-1.0) ** np.arange(n_terms + 24)
    # the quotient by 1 + x: g(-1) = 0, so its coefficients
    # are sums of the later ones, without cancellation
    following = np.cumsum(alternating[::-1])[::-1][1 : n_terms + 1]
    quotient = -following * (-1.0) ** np.arange(n_terms)
    root = np.zeros(n_terms)
    root[0] = math.sqrt(quotient[0])
    for r in range(1, n_terms):
        root[r] = (quotient[r] - root[1:r] @ root[r - 1 : 0 : -1]) / (2 * root[0])
    return root


def inverse_cosine_root(n: int) -> Floats:
    """The first n coefficients of sqrt(cos(pi (1 - x) / 4)) = (1 + x)^1/2 h(x), by convolution."""
    regular = _inverse_cosine_regular()
    # never the shorter operand, so that the coefficients have the same bits for any n
    return np.convolve(binomial(max(n, regular.size), 0.5, 1.0, 1.0), regular)[:n]


def inverse_cosine_root_tail(length: int) -> float:
    """sum_{r>length} |f_r| of `inverse_cosine_root`.

    (-1)^r f_r is negative for r >= 1 and sums to 0 (f vanishes at x = -1), so the tail is the
    partial sum sum_{r<=length} (-1)^r f_r: up to sign, the coefficient of x^length in f / (1 + x) =
    (1+x)^-1/2 h.
    """
    regular = _inverse_cosine_regular()
    if length < 0:
        return 2 * float(regular[0])
    j = np.arange(min(regular.size, length + 1))
    # (-1)^m C(-1/2, m) = Gamma(m + 1/2) / (Gamma(1/2) m!)
    size = special.poch(length - j + 1.0, -0.5) / math.sqrt(math.pi)
    return float(abs((regular[: j.size] * (-1.0) ** j) @ size))


def square(modulation: Floats) -> Floats:
    """The convolution of a finite series with itself."""
    return np.convolve(modulation, modulation)


def root(taylor: tuple[float | Decimal | Fraction, ...], n: int) -> Floats:
    r"""The first n coefficients of the root of a finite series, f * f = alpha with f_0 > 0.

    Miller's recursion, r alpha_0 f_r = sum_{k=1}^{r} (3k/2 - r) alpha_k f_{r-k}, in decimal
    arithmetic of 80 digits and more: in double precision it loses all accuracy where f_0 is small.
    The result is accepted once f * f gives alpha back. Entries may be huge or infinite where the
    root series diverges.

    Cost: O(n len(taylor)) decimal operations, a third of a microsecond each.
    """
    alpha = np.zeros(n)
    alpha[: min(n, len(taylor))] = [float(a) for a in taylor[:n]]
    for digits in (80, 160, 320, 640):
        f = _miller(taylor, n, digits)
        if not np.abs(f).max() < 1e100 * f[0]:
            return f  # divergence, which the caller refuses
        m = min(n, 4096)  # the recursion is checked where its square is cheap
        sizes = np.abs(f[:m])
        allowed = 1e-12 * np.convolve(sizes, sizes)[:m] + 1e-50 * sizes.sum() ** 2
        if (np.abs(square(f[:m])[:m] - alpha[:m]) <= allowed).all():
            return f
    raise ArithmeticError(f"the root of the series could not be computed in {digits} digits")


def _miller(taylor: tuple[float | Decimal | Fraction, ...], n: int, digits: int) -> Floats:
    with localcontext() as context:
        context.prec = digits
        context.Emax, context.Emin = MAX_EMAX, MIN_EMIN
        alpha = [
            Decimal(a.numerator) / a.denominator if isinstance(a, Fraction) else Decimal(a)
            for a in taylor
        ]
        ratios = [a / alpha[0] for a in alpha[1:]]
        weighted = [Decimal(3 * k) / 2 * ratio for k, ratio in enumerate(ratios, start=1)]
        f = [alpha[0].sqrt()]
        for r in range(1, n):
            last = f[-1 : -min(r, len(ratios)) - 1 : -1]  # f_{r-1}, f_{r-2}, ...
            first = sum(map(Decimal.__mul__, weighted, last), Decimal(0)) / r
            f.append(first - sum(map(Decimal.__mul__, ratios, last), Decimal(0)))
            if r % 64 == 0 and r > len(ratios) and all(abs(x) < _NEGLIGIBLE * f[0] for x in last):
                break  # what follows depends on these alone, and decays
        values = np.zeros(n)
        values[: len(f)] = [float(x) for x in f]
        return values


def dyadic_remainder(series: Floats) -> tuple[float, float]:
    """An estimate of sum_{k >= n} |f_k| from f_0 .. f_{n-1}, and the ratio of its dyadic blocks.

    The sums of |f_k| over [n/4, n/2) and [n/2, n) have the ratio 2^(1-beta) when |f_k| ~ k^-beta,
    and so have all later blocks: the remainder is a geometric series, exact for large n. Where f
    decays geometrically the estimate is too large, and negligible. A ratio of 1 or more means that
    f is not summable.
    """
    n = series.size
    size = np.abs(series)
    before, last = float(size[n // 4 : n // 2].sum()), float(size[n // 2 :].sum())
    if last <= 1e-18 * float(size.sum()):
        return 0.0, 0.0
    ratio = last / before if before > 0 else math.inf
    return (last * ratio / (1 - ratio) if ratio < 1 else math.inf), ratio


def remainder(series: Floats, length: int) -> float:
    """Estimate sum_{k > length} |f_k| from first coefficients; their own part is exact."""
    remainder, ratio = dyadic_remainder(series)
    if length < series.size:
        return float(np.abs(series[length + 1 :]).sum()) + remainder
    return remainder * ratio ** math.log2((length + 1) / series.size)
