"""What the published benchmarks share: data, resources, coverage, and rows of Markdown."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtr

HERE = Path(__file__).parent
# The protocols are those of scripts beside this folder.
sys.path[1:1] = [str(HERE.parent), str(HERE.parents[1] / "examples")]

from _machine import header, peak_gib  # noqa: E402

import graphrf as grf  # noqa: E402
from graphrf.gp import metrics  # noqa: E402
from graphrf.gp.posterior.criteria import leave_one_out  # noqa: E402

LEVELS = (0.5, 0.8, 0.95)
COLUMNS = ("model", "published", "here", "coverage of 50, 80, 95 %", "CPU s (wall s)", "peak GiB")
Shares = tuple[float, ...]


class Spent:
    """Seconds of a block, of the processor and by the clock."""

    def __enter__(self) -> Spent:
        self._began = time.process_time(), time.perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        self.cpu, self.wall = (
            time.process_time() - self._began[0],
            time.perf_counter() - self._began[1],
        )


def skip(reason: object) -> SystemExit:
    """What a script raises where its data are not there: not a failure."""
    print(f"skipped: {reason}")
    return SystemExit(0)


def loaded(name: str) -> grf.datasets.Dataset:
    """A data set by its name, checked by its sum."""
    try:
        return grf.datasets.load(name)
    except (OSError, ImportError) as error:
        raise skip(error) from None


def areal_file(name: str, sha256: str) -> Path:
    """A file in no registry, in the folder `areal` of GRAPHRF_DATA_DIR, checked by its sum."""
    path = Path(os.environ.get("GRAPHRF_DATA_DIR", "data"), "areal", name)
    if not path.is_file():
        raise skip(f"set GRAPHRF_DATA_DIR to a folder that holds areal/{name}")
    if hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
        raise ValueError(f"areal/{name} has not the SHA-256 {sha256}")
    return path


def covered(y: np.ndarray, mean: np.ndarray, std: np.ndarray) -> Shares:
    """The shares of real observations within the central normal intervals of the three levels."""
    return tuple(metrics.coverage(y, mean, std, level=level) for level in LEVELS)


def covered_counts(fitted: Any) -> Shares:
    """The same of counts by leave-one-out transforms, averaged over [P(Y < y), P(Y <= y)]."""
    evaluation = fitted._evaluated()
    low, high = (leave_one_out(evaluation, share).pit for share in (0.0, 1.0))
    return tuple(within(low, high, level) for level in LEVELS)


def within(low: np.ndarray, high: np.ndarray, level: float) -> float:
    """The mean share of [low, high] within the central interval of a uniform variable."""
    shared = np.minimum(high, 0.5 + 0.5 * level) - np.maximum(low, 0.5 - 0.5 * level)
    return float(np.mean(np.maximum(shared, 0.0) / (high - low)))


def crps(y: np.ndarray, mean: np.ndarray, std: np.ndarray) -> float:
    """The mean CRPS of normal predictions (Gneiting and Raftery 2007, Eq. 21)."""
    z = (y - mean) / std
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    return float(np.mean(std * (z * (2 * ndtr(z) - 1) + 2 * density - 1 / np.sqrt(np.pi))))


def start(title: str, *packages: str, columns: tuple[str, ...] = COLUMNS) -> None:
    """The machine, and the head of the table."""
    print(f"{header('scipy', *packages)}\n\n{title}\n")
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}", flush=True)


def row(model: str, published: str, here: str, held: Shares | None, spent: Spent) -> None:
    """A row; memory is the largest of the process so far, imports and compiled loops included."""
    shares = ", ".join(f"{share:.3f}" for share in held or ())
    cells = (
        model,
        published,
        here,
        shares,
        f"{spent.cpu:.1f} ({spent.wall:.1f})",
        f"{peak_gib():.2f}",
    )
    print(f"| {' | '.join(cells)} |", flush=True)
