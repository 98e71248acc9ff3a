"""Couplings of walk lengths: permutations of quantiles, with the record of how they were found."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from graphrf import _checks
from graphrf._files import atomic_write


@dataclass(frozen=True, eq=False)
class Coupling:
    r"""Permutations that couple the lengths of walks, with the record of how they were found.

    With n = `order`, walker 1 draws its uniform from tile q of n equal ones, q uniform, and walker j + 1
    from tile permutations[j - 1][q], each uniformly within its tile and independently. Marginals are
    exact for any permutation.

    Source: the paper (Reid et al. 2024), Sec. 4.1 and Def. 4.2.

    Attributes
    ----------
    permutations : ndarray of int, shape (n_walkers - 1, order), 0-based
    p_halt : float or None
        What the coupling was learned for. It may be used with any law.
    objective, solver, kernel, graph : str
        What was minimised, how, for which kernel, on which graph.
    cost_before, cost_after : float
        What the solver minimised (`graphrf.learn_coupling` says what that is), for independent tiles and for these
        permutations.
    law : str
        The law of lengths where it was given by a survival table and `p_halt` is None.
    pairs, projections, seed : int or None
        The settings of `graphrf.learn_coupling`.
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
        permutations = np.atleast_2d(np.array(self.permutations))
        if permutations.dtype.kind not in "iu":
            raise TypeError(f"`permutations` must be integers, got {_checks.describe(permutations)}")
        permutations = permutations.astype(np.int64, order="C")  # the loop is compiled for one order
        if permutations.ndim != 2 or permutations.shape[1] == 0:
            raise ValueError(f"`permutations` must have shape (n_walkers - 1, order), got {permutations.shape}")
        expected = np.arange(permutations.shape[1])
        for row in permutations:
            if not np.array_equal(np.sort(row), expected):
                raise ValueError(
                    f"`permutations` must hold each of 0 .. {expected[-1]} once in every row, got {row.tolist()}"
                )
        permutations.setflags(write=False)
        object.__setattr__(self, "permutations", permutations)

    @property
    def order(self) -> int:
        """Number of tiles, n."""
        return int(self.permutations.shape[1])

    @property
    def n_walkers(self) -> int:
        """How many walks are coupled with each other."""
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
        # pickle alone would forget that the permutations are read-only
        return Coupling, tuple(getattr(self, field.name) for field in fields(self))

    def to_json(self) -> str:
        """The record as JSON text."""
        record = {key: value for key, value in asdict(self).items() if key != "permutations"}
        for key in ("cost_before", "cost_after"):
            record[key] = None if math.isnan(record[key]) else record[key]
        return json.dumps({"format": "graphrf coupling 1", "permutations": self.permutations.tolist(), **record})

    @classmethod
    def from_json(cls, text: str) -> Coupling:
        """The coupling that `to_json` wrote; `ValueError` if the text is not one."""
        try:
            record = json.loads(text)
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"`text` must be a coupling as JSON: {error}") from None
        if not isinstance(record, dict) or record.pop("format", None) != "graphrf coupling 1":
            raise ValueError('a coupling must be a JSON object with "format": "graphrf coupling 1"')
        known = {field.name for field in fields(cls)}
        if set(record) - known or "permutations" not in record:
            raise ValueError(f"a coupling must have the keys {sorted(known)}, got {sorted(record)}")
        for key in ("cost_before", "cost_after"):
            record[key] = math.nan if record.get(key) is None else float(record[key])
        try:
            return cls(**record)
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"a coupling must hold permutations of integers: {error}") from None

    def save(self, path: str | Path) -> None:
        """Write the record as a JSON file; the file appears whole or not at all."""
        with atomic_write(path) as file:
            file.write(self.to_json().encode())

    @classmethod
    def load(cls, path: str | Path) -> Coupling:
        """Read a file that `save` wrote; `FileNotFoundError` or `ValueError` if there is none."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise FileNotFoundError(
                f"`path` must be a file written by Coupling.save, got none at {path}"
            ) from None
        except (UnicodeDecodeError, IsADirectoryError) as error:
            raise ValueError(f"`path` must be a file written by Coupling.save, got {path}: {error}") from None
        return cls.from_json(text)

    def __repr__(self) -> str:
        return f"Coupling({self.n_walkers} walkers, order {self.order}, {self.solver})"


@lru_cache(maxsize=1)
def _shipped() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(files("graphrf").joinpath("permutations.json").read_text())
    return table


# How far a p_halt may be from those that permutations are shipped for: half of their distance.
_NEAR = 0.025


def nearest_shipped(p_halt: float, objective: str = "gram") -> str | None:
    """The key of the shipped coupling nearest to a p_halt, None where none is near."""
    keys = list(_shipped()[objective]["couplings"])
    grid = np.array([float(key) for key in keys])
    if not grid.min() - _NEAR <= p_halt <= grid.max() + _NEAR:
        return None
    return keys[int(np.abs(grid - p_halt).argmin())]


def shipped_coupling(p_halt: float, objective: str = "gram") -> Coupling:
    r"""The coupling of two walks that is shipped for the nearest of p_halt = .05, .10, ..., .90.

    Learned as in the paper, on an Erdos-Renyi graph of 100 nodes with edge probability .1, and averaged over all
    its nodes: for "gram" Eq. 56 with order 30 and the 2-regularised Laplacian kernel of lengthscale 1, for
    "pagerank" Eq. 82 with order 10. `examples/learn_permutations.py` makes them.

    Parameters
    ----------
    p_halt : float
        In [0.025, 0.925].
    objective : {"gram", "pagerank"}
        What varies least: Gram matrices of features, or PageRank scores from end points. For PageRank from visits
        take "gram": at p_halt .1 to .7 its variance is within .05 % of the least that a permutation reaches, and
        that of "pagerank" is up to 5 % above it (`docs/pagerank_couplings.md`).

    Returns
    -------
    Coupling
        Its `p_halt` is the one that it was learned for.

    Raises
    ------
    TypeError, ValueError
        If no permutation is shipped near `p_halt`; then `graphrf.learn_coupling` makes one in about a second.

    Source: the paper (Reid et al. 2024), Sec. 4.2 and App. E.3.

    Examples
    --------
    >>> from graphrf.lengths import shipped_coupling
    >>> shipped_coupling(0.31, "pagerank").permutation
    array([4, 3, 9, 0, 1, 8, 7, 6, 5, 2])
    """
    table = _shipped()
    p_halt = _checks.number("p_halt", p_halt)
    _checks.choice("objective", objective, tuple(table))
    shipped = table[objective]
    key = nearest_shipped(p_halt, objective)
    if key is None:
        low, *_, high = sorted(map(float, shipped["couplings"]))
        raise ValueError(
            f"`p_halt` must be in [{low - _NEAR:g}, {high + _NEAR:g}] for a shipped permutation, got {p_halt:g}; "
            f"learn one with graphrf.learn_coupling(p_halt={p_halt:g}, objective={objective!r})"
        )
    record = shipped["couplings"][key]
    return Coupling(
        permutations=np.array(record["permutation"]),
        p_halt=float(key),
        objective=objective,
        solver=shipped["solver"],
        kernel=shipped["kernel"],
        graph=shipped["graph"],
        cost_before=record["cost_before"],
        cost_after=record["cost_after"],
    )
