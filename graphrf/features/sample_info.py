"""Settings that all rows of features share, and the factors that turn counts into values."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from graphrf._base import checks
from graphrf._base.cached import cached_property

if TYPE_CHECKING:
    from graphrf.features.device_record import DeviceRecord
    from graphrf.features.record import Record

# Samplers that draw nothing, by the name in a description: independent of any other features.
_DETERMINISTIC = ("CutPowers", "ExactPowers")
# sum_k |f_k| up to here, and down to its inverse, has a square that float32 holds.
_LARGEST_SINGLE = 1e17


class FeatureKernel(Protocol):
    """Interface of a kernel that features need (`graphrf.kernels.Kernel` has it)."""

    @property
    def laplacian(self) -> str: ...
    def modulation(self, n: int, scale: float | None = None) -> np.ndarray: ...
    def modulation_tail(self, length: int, scale: float | None = None) -> float: ...


@dataclass(frozen=True, eq=False)
class SampleInfo:
    """Settings of features and the properties of the graph that all their rows need.

    `n_walks` is m, by which counts are divided, 1 for powers, and `scale` the graph's scale of the
    Laplacian. `survival` is S(k), shape (L + 1,), 1 for powers; it is `complete` if it reaches
    every step that matters, without a fixed end. `degrees` is the load d of every node, None where
    all are 1 (combinatorial). `of_powers` is True if records hold values of powers (float32), not
    visits of walks (uint16).
    """

    n_nodes: int
    n_walks: int
    laplacian: str
    scale: float
    complete: bool
    seed: int
    dtype: np.dtype[Any]
    description: dict[str, Any]
    survival: np.ndarray
    degrees: np.ndarray | None
    of_powers: bool

    def __getstate__(self) -> dict[str, Any]:
        # Cached properties are left out.
        return {part.name: getattr(self, part.name) for part in fields(self)}

    @property
    def max_length(self) -> int:
        """The longest possible walk, or the highest power."""
        return int(self.survival.size - 1)

    @property
    def is_random(self) -> bool:
        """True if the features depend on the seed."""
        return self.description.get("sampler") not in _DETERMINISTIC

    @property
    def counts_dtype(self) -> np.dtype[Any]:
        """The type of the counts of a record."""
        return np.dtype(np.float32 if self.of_powers else np.uint16)

    @property
    def walkers(self) -> np.ndarray:
        """m S(k), the walks that are expected to reach step k, shape (L + 1,)."""
        return self.survival * self.n_walks

    def n_steps(self, record: Record | DeviceRecord) -> int:
        """Total steps of the walks of a record; multiply-adds of powers."""
        if record.work is not None:
            # every step, and every start of a walk, is one visit
            return int(record.work.sum())
        return record.total_count() - self.n_walks * record.n_rows

    def load(self, f: np.ndarray) -> np.ndarray:
        """f_k / (m S(k)) of every step, float64, (L + 1,); missing entries of f are zero."""
        f = np.asarray(f, dtype=np.float64)
        load = np.zeros(self.survival.size)
        used = min(load.size, f.size)
        load[:used] = f[:used] / self.walkers[:used]
        return load

    @cached_property
    def degree_roots(self) -> np.ndarray:
        """sqrt(d) of every node, or an empty array if all loads are 1; read-only by convention."""
        return np.zeros(0) if self.degrees is None else np.sqrt(self.degrees)

    def modulation(self, kernel: FeatureKernel) -> np.ndarray:
        """f_0 .. f_L of a kernel; TypeError or ValueError if its Laplacian is another."""
        for needed in ("laplacian", "modulation", "modulation_tail"):
            if not hasattr(kernel, needed):
                raise checks.not_a_kernel(kernel)
        if kernel.laplacian != self.laplacian:
            raise checks.value_error(
                "kernel",
                f"must be of the {self.laplacian} Laplacian, whose "
                f"{'powers' if self.of_powers else 'walks'} these are, got one of the "
                f"{kernel.laplacian} Laplacian; sample with laplacian={kernel.laplacian!r}",
            )
        if self.dtype == np.float32:
            total = kernel.modulation_tail(-1, scale=self.scale)
            if total and not 1 / _LARGEST_SINGLE < total < _LARGEST_SINGLE:
                raise ValueError(
                    f"entries of the Gram matrix of {kernel!r}, up to {total**2:.2g}, leave "
                    "float32: sample with dtype=numpy.float64"
                )
        return kernel.modulation(self.max_length + 1, scale=self.scale)

    def is_of_same_matrix(self, other: SampleInfo) -> bool:
        """True if both have the same number of nodes, Laplacian and scale of the walk matrix."""
        mine, its = ((one.n_nodes, one.laplacian, one.scale) for one in (self, other))
        return mine == its

    def settings_shown(self) -> list[tuple[str, Any]]:
        """The rows of a table for notebooks: the sampler and its settings."""
        settings = [
            f"{name} {value}" for name, value in self.description.items() if name != "sampler"
        ]
        return [
            ("sampler", f"{self.description.get('sampler')}: {', '.join(settings)}"),
            ("highest power" if self.of_powers else "longest step", self.max_length),
            ("Laplacian", self.laplacian),
            ("precision", str(self.dtype)),
            ("seed", str(self.seed)),
        ]


class SampleProperties:
    """Properties of features that are those of their `SampleInfo`."""

    info: SampleInfo

    @property
    def n_nodes(self) -> int:
        """Number of nodes of the graph."""
        return self.info.n_nodes

    @property
    def n_walks(self) -> int:
        """Walks from each node; 1 for powers."""
        return self.info.n_walks

    @property
    def laplacian(self) -> str:
        """The Laplacian whose walk matrix was used."""
        return self.info.laplacian

    @property
    def seed(self) -> int:
        """Seed of the samples."""
        return self.info.seed

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the feature matrices."""
        return self.info.dtype

    @property
    def description(self) -> dict[str, Any]:
        """The sampler's settings."""
        return self.info.description

    @property
    def max_length(self) -> int:
        """The longest possible walk, or the highest power."""
        return self.info.max_length
