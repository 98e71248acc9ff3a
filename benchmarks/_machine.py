"""What every benchmark prints first and how it times: machine, versions, medians and spread."""

from __future__ import annotations

import os
import platform
import resource
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version


def header(*packages: str) -> str:
    """The machine and the versions in one line."""
    cpu = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            cpu = next(
                (line.split(":")[1].strip() for line in file if line.startswith("model name")), cpu
            )
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "numba", *packages))
    return f"{cpu}, {cores} cores; Python {platform.python_version()}, {versions}"


def timed(function: Callable[[], object], repeats: int = 5) -> tuple[float, float, float]:
    """Median, smallest and largest wall time of `repeats` calls, in seconds."""
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds), min(seconds), max(seconds)


def peak_gib() -> float:
    """Largest memory of this process so far, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
