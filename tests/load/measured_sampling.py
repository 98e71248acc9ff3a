"""Measures the memory that samples take: `python -m tests.load.measured_sampling CASES`.

CASES is a list in JSON of (kind of graph, nodes, sampler, nodes to sample or null, threads); the
answer one of (bytes foreseen, bytes taken at the peak), in the same order.
"""

from __future__ import annotations

import ctypes
import gc
import json
import sys
import warnings
from pathlib import Path

import numpy as np

import graphrf as grf
from graphrf.sampling import task


def graph_of(kind: str, n_nodes: int) -> grf.Graph:
    """A square grid, whose walks stay near, or a random graph, whose walks scatter."""
    if kind == "grid":
        at = np.arange(int(n_nodes**0.5) ** 2).reshape(int(n_nodes**0.5), -1)
        src, dst = (
            np.concatenate([a.ravel(), b.ravel()])
            for a, b in ((at[1:], at[:, 1:]), (at[:-1], at[:, :-1]))
        )
        return grf.from_edges(src, dst)
    src, dst = np.random.default_rng(0).integers(0, n_nodes, (2, 4 * n_nodes))
    return grf.from_edges(src, dst, n_nodes=n_nodes)


def resident(field: str) -> int:
    """Bytes of memory that this process holds (VmRSS), or held at most (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def settle() -> int:
    """Give back what is free, begin a new peak, and say what is held now."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return resident("VmRSS")


def measured(cases: list[tuple[str, int, str, int | None, int]]) -> list[tuple[int, int]]:
    """Foreseen and taken of every case."""
    foreseen: list[int] = []
    before: list[int] = []
    original = task.needed_bytes

    def watched(*arguments):  # type: ignore[no-untyped-def]
        # What the sampler reads of the graph is there when room for the rest is looked for first.
        before.append(before[0] if before else settle())
        foreseen.append(original(*arguments))
        return foreseen[-1]

    task.needed_bytes = watched
    graphs: dict[tuple[str, int], grf.Graph] = {}
    answer = []
    compiled = set()
    for kind, n_nodes, written, n_rows, threads in cases:
        sampler = eval(written, {name: getattr(grf.sampling, name) for name in NAMES})
        if (kind, n_nodes) not in graphs:
            graphs = {(kind, n_nodes): graph_of(kind, n_nodes)}
        graph = graphs[kind, n_nodes]
        if type(sampler) not in compiled:
            compiled.add(type(sampler))
            for tiny in (graph_of("grid", 100), graph_of("random", 100)):
                grf.sample_features(tiny, sampler, n_threads=threads)
        if n_rows is None:
            nodes = None
        else:
            nodes = np.random.default_rng(1).choice(graph.n_nodes, n_rows, replace=False)
        foreseen.clear()
        before.clear()
        features = grf.sample_features(graph, sampler, nodes=nodes, seed=0, n_threads=threads)
        answer.append((foreseen[-1], resident("VmHWM") - before[0]))
        del features
    return answer


NAMES = ("RandomWalks", "IID", "Truncated", "CompressedPowers", "CutPowers", "ExactPowers")

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(measured(json.loads(sys.argv[1]))))
