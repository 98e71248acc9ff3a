"""Couplings of walk lengths: permutations of quantiles, and how they were learned."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from graphrf._base import checks, html
from graphrf._base.files.arrays import complete_file, opened
from graphrf._base.files.atomic import atomic_write
from graphrf._base.files.json_text import parsed

_FORMAT = "graphrf coupling 1"
_OBJECTIVES = ("gram", "pagerank")
# Largest distance from a shipped p_halt: half of the spacing.
_NEAR = 0.025
# More than the ten million numbers that could be learned.
_MOST_BYTES = 2**26


@dataclass(frozen=True, eq=False)
class Coupling:
    """Permutations that couple the lengths of walks, with the record of how they were learned.

    With n = `order`, walker 1 draws its uniform from tile q of n equal ones, q uniform, and walker
    j + 1 from tile `permutations[j - 1][q]`, each uniformly within its tile and independently.
    Marginals are exact for any permutation. Source: the paper (Reid et al. 2024), Sec. 4.1 and Def.
    4.2.

    Attributes
    ----------
    permutations : ndarray of int, shape (n_walkers - 1, order), 0-based
    p_halt : float or None
        The p_halt of the lengths that it was learned for; it may be used with any distribution of
        lengths.
    cost_before, cost_after : float
        Objective (see `graphrf.couplings.learn_coupling`) for independent tiles and for these
        permutations.
    law : str
        The distribution of lengths if it was given by a survival table and `p_halt` is None.
    objective, solver, kernel, graph, pairs, projections, seed
        The settings of `graphrf.couplings.learn_coupling`.

    Raises
    ------
    TypeError, ValueError
        If `permutations` are no permutations, another field has a wrong type, or `p_halt` is
        outside (0, 1).
    """

    permutations: np.ndarray
    p_halt: float | None = None
    objective: str = "gram"
    solver: str = "given"
    kernel: str = ""
    graph: str = ""
    cost_before: float = math.nan
    cost_after: float = math.nan
    law: str = ""
    pairs: int | None = None
    projections: int | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        checks.to_array_like("permutations", self.permutations)
        try:
            permutations = np.atleast_2d(np.array(self.permutations))
        except ValueError as error:  # rows of different lengths
            raise checks.value_error(
                "permutations", f"must have shape (n_walkers - 1, order): {error}"
            ) from None
        if permutations.dtype.kind not in "iu":
            raise checks.type_error(
                "permutations", f"must be integers, got {checks.describe(permutations)}"
            )
        if permutations.ndim != 2 or permutations.size == 0:
            raise checks.value_error(
                "permutations", f"must have shape (n_walkers - 1, order), got {permutations.shape}"
            )
        expected = np.arange(permutations.shape[1])
        for row in permutations:
            if not np.array_equal(np.sort(row), expected):
                raise checks.value_error(
                    "permutations",
                    f"must hold each of 0 .. {expected[-1]} once in every row, got "
                    f"{np.array2string(row, threshold=20)}",
                )
        # The loop is compiled for one order.
        permutations = permutations.astype(np.int64, order="C")
        permutations.setflags(write=False)
        object.__setattr__(self, "permutations", permutations)
        self._check_facts()

    def _check_facts(self) -> None:
        """Raise an error if a field beside the permutations is invalid."""
        if self.p_halt is not None:
            p_halt = checks.number(
                "p_halt", self.p_halt, low=0, high=1, include_low=False, include_high=False
            )
            object.__setattr__(self, "p_halt", p_halt)
        for name in ("objective", "solver", "kernel", "graph", "law"):
            if not isinstance(getattr(self, name), str):
                raise checks.type_error(
                    name, f"must be text, got {checks.describe(getattr(self, name))}"
                )
        for name in ("cost_before", "cost_after"):
            cost = getattr(self, name)
            unknown = isinstance(cost, float | np.floating) and math.isnan(cost)
            object.__setattr__(self, name, math.nan if unknown else checks.number(name, cost))
        for name in ("pairs", "projections", "seed"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, checks.integer(name, value, low=0))

    @property
    def order(self) -> int:
        """Number of tiles, n."""
        return int(self.permutations.shape[1])

    @property
    def n_walkers(self) -> int:
        """Number of walks that are coupled with each other."""
        return int(self.permutations.shape[0]) + 1

    @property
    def permutation(self) -> np.ndarray:
        """The first permutation, shape (order,): the only one when two walkers are coupled."""
        return self.permutations[0]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Coupling)
            and self.p_halt == other.p_halt
            and np.array_equal(self.permutations, other.permutations)
        )

    def __hash__(self) -> int:
        return hash((self.p_halt, self.permutations.tobytes()))

    def __reduce__(self) -> tuple[Any, ...]:
        # pickle would not restore the read-only flag
        return Coupling, tuple(getattr(self, field.name) for field in fields(self))

    def to_json(self) -> str:
        """The record as JSON text."""
        record = {key: value for key, value in asdict(self).items() if key != "permutations"}
        for key in ("cost_before", "cost_after"):
            record[key] = None if math.isnan(record[key]) else record[key]
        return json.dumps({"format": _FORMAT, "permutations": self.permutations.tolist(), **record})

    @classmethod
    def from_json(cls, text: str) -> Coupling:
        """The coupling of a text from `to_json`; TypeError or ValueError if it is none."""
        if not isinstance(text, str):
            raise checks.type_error(
                "text", f"must be a coupling as JSON, got {checks.describe(text)}"
            )
        try:
            return cls(**_arguments(parsed(text)))
        except (TypeError, ValueError) as error:
            raise checks.value_error("text", f"must be a coupling as JSON: {error}") from None

    def save(self, path: str | Path) -> None:
        """Write the record as a JSON file atomically; ValueError above 64 MiB, the
        limit of `load`.
        """
        _write(self, path)

    @classmethod
    def load(cls, path: str | Path) -> Coupling:
        """Read a file that `save` wrote; FileNotFoundError or ValueError if that fails."""
        path = checks.path("path", path)
        with complete_file(path, "Coupling.save"):
            with opened(path) as file:
                text = file.read(_MOST_BYTES + 1)
            if len(text) > _MOST_BYTES:
                raise ValueError(f"it has more than {_MOST_BYTES:,} bytes")
            return cls(**_arguments(parsed(text)))

    def __repr__(self) -> str:
        return f"Coupling({self.n_walkers} walkers, order {self.order}, {self.solver})"

    def _repr_html_(self) -> str:
        """A table for notebooks."""
        costs = f"{self.cost_after:.4g}, of {self.cost_before:.4g} with independent tiles"
        rows = [
            ("walkers", self.n_walkers),
            ("order", self.order),
            ("solver", self.solver),
            ("objective", self.objective),
            ("cost", None if math.isnan(self.cost_after) else costs),
            ("learned for", self.kernel or None),
            ("on", self.graph or None),
            ("p_halt", self.p_halt),
            ("distribution of lengths", self.law or None),
            ("seed", None if self.seed is None else str(self.seed)),
        ]
        return html.table("Coupling", rows)


def _arguments(record: Any) -> dict[str, Any]:
    """Arguments of a `Coupling` from its record, by the names of its fields."""
    if not isinstance(record, dict) or record.get("format") != _FORMAT:
        raise ValueError(f'a coupling must be a JSON object with "format": "{_FORMAT}"')
    known = {field.name for field in fields(Coupling)}
    arguments = {name: value for name, value in record.items() if name != "format"}
    if set(arguments) - known or "permutations" not in arguments:
        raise ValueError(
            f"a coupling must have the keys {sorted(known)}, got {str(sorted(arguments))[:200]}"
        )
    if not _are_integer_lists(arguments["permutations"]):
        raise checks.value_error("permutations", "must be a list of lists of integers")
    for name in ("cost_before", "cost_after"):
        cost = arguments.get(name)
        arguments[name] = math.nan if cost is None else checks.number(name, cost)
    return arguments


def _are_integer_lists(rows: Any) -> bool:
    """Return True for lists of integers; numpy would accept true as 1 beside integers."""
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        return False
    return all(type(number) is int for row in rows for number in row)


@cache
def _shipped(objective: str) -> tuple[Coupling, ...]:
    """The shipped couplings of an objective, in the order of their p_halt."""
    text = files("graphrf.sampling.walks").joinpath("permutations.json").read_text(encoding="utf-8")
    table = parsed(text)[objective]
    common = {"format": _FORMAT, "objective": objective}
    common |= {name: table[name] for name in ("kernel", "graph", "solver")}
    couplings = []
    for key in sorted(table["couplings"], key=float):
        record = dict(table["couplings"][key])
        record["permutations"] = [record.pop("permutation")]
        couplings.append(Coupling(**_arguments({**common, **record, "p_halt": float(key)})))
    return tuple(couplings)


def nearest_shipped(p_halt: float, objective: str = "gram") -> float | None:
    """The p_halt of the shipped coupling nearest to the given one, or None if none is near."""
    grid = np.array([coupling.p_halt for coupling in _shipped(objective)])
    if not grid[0] - _NEAR <= p_halt <= grid[-1] + _NEAR:
        return None
    return float(grid[np.abs(grid - p_halt).argmin()])


def shipped_coupling(p_halt: float, objective: str = "gram") -> Coupling:
    """The coupling of two walks that is shipped for the nearest of p_halt = 0.05, 0.10, ..., 0.90.

    It was learned as in the paper (Reid et al. 2024, Sec. 4.2 and App. E.3), on an Erdos-Renyi
    graph of 100 nodes with edge probability 0.1, averaged over all its nodes: for "gram" Eq. 56
    with order 30 and the 2-regularised Laplacian kernel of lengthscale 1, for "pagerank" Eq. 82
    with order 10 (`examples/learn_permutations.py`). Its `p_halt` is the one for which it was
    learned.

    Parameters
    ----------
    p_halt : float
        In [0.025, 0.925].
    objective : {"gram", "pagerank"}
        Quantity with the least variance: Gram matrices of features, or PageRank scores from end
        points. For PageRank from visits take "gram": at p_halt 0.1 to 0.7 its variance is within
        0.05 % of the least that a permutation reaches, and that of "pagerank" is up to 5 % above it
        (`docs/reproduction.md`).

    Raises
    ------
    TypeError, ValueError
        If no permutation is shipped near `p_halt`; then `graphrf.couplings.learn_coupling` makes
        one in about a second.

    Examples
    --------
    >>> from graphrf.couplings import shipped_coupling
    >>> shipped_coupling(0.31, "pagerank").permutation
    array([4, 3, 9, 0, 1, 8, 7, 6, 5, 2])
    """
    p_halt = checks.number("p_halt", p_halt)
    shipped = {
        coupling.p_halt: coupling
        for coupling in _shipped(checks.choice("objective", objective, _OBJECTIVES))
    }
    nearest = nearest_shipped(p_halt, objective)
    if nearest is None:
        low, *_, high = (value for value in shipped if value is not None)
        raise checks.value_error(
            "p_halt",
            f"must be in [{low - _NEAR:g}, {high + _NEAR:g}] for a shipped permutation, got "
            f"{p_halt:g}; learn one with graphrf.couplings.learn_coupling(p_halt={p_halt:g}, "
            f"objective={objective!r})",
        )
    return shipped[nearest]


def _write(coupling: Coupling, path: str | Path, most_bytes: int = _MOST_BYTES) -> None:
    """Write the file, of at most so many bytes, else ValueError."""
    text = coupling.to_json().encode()
    if len(text) > most_bytes:
        raise ValueError(
            f"a coupling that is saved must have at most {most_bytes:,} bytes as JSON, got "
            f"{len(text):,}; lower its order or number of walkers"
        )
    with atomic_write(path) as file:
        file.write(text)
