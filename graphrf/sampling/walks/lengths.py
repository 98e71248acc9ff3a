"""Distributions of walk lengths: a survival table, and a rule for one source's uniforms.

Every distribution has the same marginal for every walk, S(k) = P(length >= k); they differ in how
the m walks of one source depend on each other. No engine and no graph is known here.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar

import numpy as np

from graphrf._base import checks
from graphrf._base.cached import cached_property
from graphrf.sampling.walks.coupling import Coupling, nearest_shipped, shipped_coupling

# Engines count in 16 bits the visits of a walk that never leaves its node: its steps and one more.
LONGEST_WALK = 65_534
# Uniforms have 53 bits: a survival below this is never reached.
_RESOLUTION = 2.0**-53


class Rule(IntEnum):
    """Rule for drawing the uniforms of one source's walks; the codes that engines switch on."""

    INDEPENDENT = 0
    ANTITHETIC = 1
    PERMUTATION = 2
    STRATIFIED = 3


@dataclass(frozen=True, eq=False)
class Survival:
    """A table of S(k) = P(length >= k), for any law of lengths; accepted as `p_halt`.

    Entries are rounded to multiples of 2^-53, the resolution of the uniforms that are compared with
    them, so that a walk reaches step k with probability S(k) exactly as stored. Entries below that
    are cut off.

    Parameters
    ----------
    table : array_like, shape (K + 1,)
        S(0) = 1, not increasing, in (0, 1]; no walk is longer than K steps, so S(k) = 0 above K.

    Raises
    ------
    TypeError, ValueError
        If the table is not a survival table, or allows walks longer than 65,534 steps.

    Examples
    --------
    >>> import graphrf as grf
    >>> grf.sampling.IID(grf.sampling.Survival([1.0, 1.0, 0.5]))
    IID(Survival(3 entries, mean length 1.5))
    """

    table: np.ndarray

    def __post_init__(self) -> None:
        checks.to_array_like("table", self.table)
        try:
            table = np.array(self.table, dtype=np.float64, copy=True)
        except (TypeError, ValueError):
            raise checks.type_error(
                "table", f"must be numbers of shape (K + 1,), got {checks.describe(self.table)}"
            ) from None
        if table.ndim != 1 or table.size == 0:
            raise checks.value_error("table", f"must have shape (K + 1,), got {table.shape}")
        checks.finite("table", table)
        if table[0] != 1.0:
            raise checks.value_error("table", f"must begin with S(0) = 1, got {table[0]:g}")
        rises = np.flatnonzero(np.diff(table) > 0)
        if rises.size or table[-1] < 0:
            k = int(rises[0]) + 1 if rises.size else table.size - 1
            after = f" after {table[k - 1]:g}" if rises.size else ""
            raise checks.value_error(
                "table",
                f"must not increase and must stay at least 0, got S({k}) = {table[k]:g}{after}",
            )
        table = np.round(table / _RESOLUTION) * _RESOLUTION
        table = table[: int(np.count_nonzero(table))]
        if table.size - 1 > LONGEST_WALK:
            raise checks.value_error(
                "table", f"must allow at most {LONGEST_WALK} steps, got {table.size - 1}"
            )
        table.setflags(write=False)
        object.__setattr__(self, "table", table)

    @classmethod
    def geometric(cls, p_halt: float) -> Survival:
        r"""S(k) = (1 - p_halt)^k: walks end before each step with probability p_halt in (0, 1)."""
        p_halt = checks.number(
            "p_halt", p_halt, low=0, high=1, include_low=False, include_high=False
        )
        last = _last_step(p_halt)
        if last > LONGEST_WALK:
            raise checks.value_error(
                "p_halt",
                f"must be at least 0.0006, got {p_halt:g}: walks would be longer than "
                f"{LONGEST_WALK} steps; use Truncated(max_length) or the exact series, "
                "for PageRank coupling='pooled'",
            )
        return cls((1.0 - p_halt) ** np.arange(last + 1))

    def cut(self, max_length: int) -> Survival:
        """This distribution with S(k) = 0 above `max_length` steps (at least 0).

        Longer walks end there, so features lack higher powers (`Features.truncation_error`).

        Examples
        --------
        >>> import graphrf as grf
        >>> grf.sampling.Survival.geometric(0.5).cut(3).table
        array([1.   , 0.5  , 0.25 , 0.125])
        """
        return Survival(self.table[: checks.integer("max_length", max_length, low=0) + 1])

    @property
    def max_length(self) -> int:
        """The longest possible walk, in steps."""
        return int(self.table.size - 1)

    @property
    def is_complete(self) -> bool:
        """True if the table ends below 1e-12, where few walks arrive, not at a fixed length."""
        return bool(self.table[-1] < 1e-12)

    @cached_property
    def mean_length(self) -> float:
        """Mean number of steps, sum of S(k) over k >= 1."""
        return float(self.table[1:].sum())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Survival) and np.array_equal(self.table, other.table)

    def __hash__(self) -> int:
        return hash(self.table.tobytes())

    def __reduce__(self) -> tuple[Any, ...]:
        return Survival, (self.table,)  # pickle would not restore the read-only flag

    def __repr__(self) -> str:
        if self.max_length > 2:  # a geometric table is shown by its p_halt
            p_halt = float(f"{1.0 - self.table[1]:.12g}")
            if 0.0 < p_halt < 1.0 and self.max_length <= _last_step(p_halt) <= LONGEST_WALK:
                whole = Survival.geometric(p_halt)
                if np.array_equal(self.table, whole.table[: self.table.size]):
                    cut = f".cut({self.max_length})" if self.max_length < whole.max_length else ""
                    return f"Survival.geometric({p_halt!r}){cut}"
        return f"Survival({self.table.size} entries, mean length {self.mean_length:.4g})"


class LengthLaw(ABC):
    """A distribution of lengths: `survival`, one of four rules, and its `permutations`."""

    rule: ClassVar[Rule]

    @property
    @abstractmethod
    def survival(self) -> Survival:
        """The survival table."""

    def permutations(self, n_walks: int) -> np.ndarray:
        """Integers for the rule, int64, 2-D, read-only, so that loops are compiled once.

        PERMUTATION: the coupling's, shape (group - 1, order). STRATIFIED: the stratum of every walk
        before the random rotation, shape (1, n_walks). Else empty.
        """
        return _read_only(np.zeros((0, 1), np.int64))

    @property
    def group(self) -> int:
        """Number of walks that are coupled; the number of walks must be a multiple of it."""
        return 1

    def check_walks(self, n_walks: int) -> None:
        """Raise `ValueError` unless `n_walks` is a multiple of `group`."""
        if n_walks % self.group:
            raise checks.value_error(
                "n_walks",
                f"must be a multiple of {self.group} for {self!r}, whose walks are coupled in "
                f"groups of {self.group}, got {n_walks}",
            )


@dataclass(frozen=True)
class _Halting(LengthLaw):
    """Base of the distributions that are given by a halting probability or a survival table."""

    p_halt: float | Survival

    def __post_init__(self) -> None:
        if not isinstance(self.p_halt, Survival):
            Survival.geometric(self.p_halt)  # checks the value
            object.__setattr__(self, "p_halt", float(self.p_halt))

    @cached_property
    def survival(self) -> Survival:
        return self.p_halt if isinstance(self.p_halt, Survival) else Survival.geometric(self.p_halt)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.p_halt!r})"


@dataclass(frozen=True, repr=False)
class IID(_Halting):
    """Independent lengths: geometric with P(length = k) = p (1 - p)^k, or of any survival table.

    Source: the paper (Reid et al. 2024), Sec. 4 and App. C.1.

    Parameters
    ----------
    p_halt : float in (0, 1), or Survival
        Probability of ending before each step; the mean length is (1 - p) / p.

    Examples
    --------
    >>> import graphrf as grf
    >>> round(grf.sampling.IID(0.1).survival.mean_length, 9)    # (1 - p) / p
    9.0
    """

    rule = Rule.INDEPENDENT


@dataclass(frozen=True, repr=False)
class Antithetic(_Halting):
    """Antithetic termination: the walks of a pair avoid ending at the same step.

    Before each step one uniform t1 is drawn, t2 = t1 + 1/2 mod 1, and walk i of the pair ends if
    t_i is below the halting probability. For p < 1/2 the two never end together.

    Source: the paper (Reid et al. 2024), App. C.2; Reid et al., NeurIPS 2023.

    Parameters
    ----------
    p_halt : float in (0, 1), or Survival

    Examples
    --------
    >>> import graphrf as grf
    >>> grf.RandomWalks(n_walks=8, lengths=grf.sampling.Antithetic(0.1)).lengths.group
    2
    """

    rule = Rule.ANTITHETIC

    @property
    def group(self) -> int:
        return 2


@dataclass(frozen=True, repr=False)
class Stratified(_Halting):
    """Stratified lengths (a Latin hypercube): u_j = ((pi(j) + R) mod m + U_j) / m, R uniform.

    The random rotation R leaves the distribution of each walk's length unchanged, and the m lengths
    of a source fall into the m quantiles one by one, for any number of walks, without learning. pi
    is the van der Corput order, in which every run of consecutive walks has well-spread lengths:
    stratified directions send such runs along one edge (measured on a 30 x 30 grid with 64 walks:
    Gram error 3 to 9 % below a random order, no difference on social graphs;
    `docs/benchmarks.md`).

    Parameters
    ----------
    p_halt : float in (0, 1), or Survival
    """

    rule = Rule.STRATIFIED

    def permutations(self, n_walks: int) -> np.ndarray:
        return _read_only(van_der_corput_order(n_walks)[None, :])


@dataclass(frozen=True, repr=False)
class SigmaCoupled(_Halting):
    """Sigma-coupled lengths: quantiles of the walks of a pair are matched by a learned permutation.

    Source: the paper (Reid et al. 2024), Sec. 4.1, Def. 4.2.

    Parameters
    ----------
    p_halt : float in (0, 1), or Survival, or Coupling
        A float takes the permutation shipped for the Gram matrix at the nearest of 0.05, 0.10, ...,
        0.90 (`graphrf.couplings.shipped_coupling`); marginals are exact with any permutation. A
        Coupling has a p_halt.
    coupling : Coupling, optional
        The permutations; required with a Survival. See `graphrf.couplings.learn_coupling`, and
        `graphrf.couplings.shipped_coupling(p_halt, "pagerank")` for end points.

    Examples
    --------
    >>> import graphrf as grf
    >>> grf.sampling.SigmaCoupled(0.1).coupling
    Coupling(2 walkers, order 30, linear)
    """

    p_halt: float | Survival
    _coupling: Coupling | None = None
    rule = Rule.PERMUTATION

    def __init__(
        self, p_halt: float | Survival | Coupling, coupling: Coupling | None = None
    ) -> None:
        if isinstance(p_halt, Coupling):
            if coupling is not None:
                raise checks.value_error("coupling", "was given twice")
            coupling = p_halt
            if coupling.p_halt is None:
                raise checks.value_error(
                    "coupling",
                    "does not state its p_halt; pass SigmaCoupled(p_halt, coupling) with both",
                )
            p_halt = coupling.p_halt
        if coupling is not None and not isinstance(coupling, Coupling):
            raise checks.type_error(
                "coupling", f"must be a Coupling, got {checks.describe(coupling)}"
            )
        object.__setattr__(self, "p_halt", p_halt)
        super().__post_init__()
        if coupling is None:
            if isinstance(self.p_halt, Survival):
                raise checks.value_error(
                    "coupling",
                    "is needed with a Survival table; see graphrf.couplings.learn_coupling",
                )
            coupling = shipped_coupling(self.p_halt)
        object.__setattr__(self, "_coupling", coupling)

    @property
    def coupling(self) -> Coupling:
        assert self._coupling is not None
        return self._coupling

    @property
    def group(self) -> int:
        return self.coupling.n_walkers

    def __repr__(self) -> str:
        key = None if isinstance(self.p_halt, Survival) else nearest_shipped(self.p_halt)
        own = key is None or shipped_coupling(float(key)) != self.coupling
        return f"SigmaCoupled({self.p_halt!r}{f', {self.coupling!r}' if own else ''})"

    def permutations(self, n_walks: int) -> np.ndarray:
        return self.coupling.permutations


@dataclass(frozen=True)
class Truncated(LengthLaw):
    """No termination: walks run exactly `max_length` steps, S(k) = 1 up to there, then 0.

    Features then lack the tail of the modulation, a bias that `Features.truncation_error` bounds.

    Parameters
    ----------
    max_length : int
        Number of steps, at least 0.

    Examples
    --------
    >>> import graphrf as grf
    >>> grf.sampling.Truncated(grf.Diffusion(lengthscale=2.0).truncation_length(1e-3))
    Truncated(5)
    """

    max_length: int
    rule = Rule.INDEPENDENT

    def __post_init__(self) -> None:
        checks.integer("max_length", self.max_length, low=0, high=LONGEST_WALK)

    @cached_property
    def survival(self) -> Survival:
        return Survival(np.ones(self.max_length + 1))

    def __repr__(self) -> str:
        return f"Truncated({self.max_length})"


def _last_step(p_halt: float) -> int:
    """The last k at which (1 - p_halt)^k is not below the resolution."""
    # The smallest floats overflow.
    return math.floor(min(math.log(_RESOLUTION) / math.log1p(-p_halt), 1e15))


def _read_only(array: np.ndarray) -> np.ndarray:
    array.setflags(write=False)
    return array


def van_der_corput_order(n: int) -> np.ndarray:
    """Ranks of the first n van der Corput points: any run of them is spread over 0 .. n - 1."""
    number = np.arange(n)
    points = np.zeros(n)
    for bit in range(max(1, int(n - 1).bit_length())):
        points += ((number >> bit) & 1) * 0.5 ** (bit + 1)
    order = np.empty(n, np.int64)
    order[np.argsort(points)] = number
    return order
