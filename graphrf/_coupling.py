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


def nearest_shipped(p_halt: float) -> str | None:
    """The key of the shipped coupling nearest to a p_halt, None where none is near."""
    keys = list(_shipped()["couplings"])
    grid = np.array([float(key) for key in keys])
    if not grid.min() - 0.025 <= p_halt <= grid.max() + 0.025:
        return None
    return keys[int(np.abs(grid - p_halt).argmin())]


def shipped_coupling(p_halt: float) -> Coupling:
    """The coupling that is shipped for the p_halt nearest to the one given, within .05 to .9."""
    table = _shipped()
    p_halt = _checks.number("p_halt", p_halt)
    key = nearest_shipped(p_halt)
    if key is None:
        low, *_, high = sorted(map(float, table["couplings"]))
        raise ValueError(
            f"`p_halt` must be in [{low:g}, {high:g}] for a shipped permutation, got {p_halt:g}; "
            "learn one with graphrf.learn_coupling(p_halt=...)"
        )
    record = table["couplings"][key]
    return Coupling(
        permutations=np.array(record["permutation"]),
        p_halt=float(key),
        objective="gram",
        solver="linear",
        kernel=table["kernel"],
        graph=table["graph"],
        cost_before=record["cost_before"],
        cost_after=record["cost_after"],
    )
