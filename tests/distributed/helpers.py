"""What tests on clusters share: graphs, samplers that tell when they work, equality of bits."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp

import graphrf as grf
from tests.support.same_features import ARRAYS, parts

# Arrays that loops read are read-only.
WRITTEN_ONCE = ("nodes", *ARRAYS)


def weighted(n: int = 90) -> grf.Graph:
    """A random weighted graph with a hub, a loop and an isolated node."""
    edges = nx.gnm_random_graph(n - 1, 3 * n, seed=1)
    edges.add_edges_from((0, node) for node in range(1, n // 2))
    edges.add_edge(7, 7)
    edges.add_node(n - 1)
    rng = np.random.default_rng(2)
    for *_, facts in edges.edges(data=True):
        facts["weight"] = rng.uniform(0.25, 4.0)
    return grf.Graph(nx.to_scipy_sparse_array(edges, nodelist=range(n)))


def require_same(found: grf.features.Features, expected: grf.features.Features) -> None:
    """Every array and every setting is the same, with types."""
    one, other = parts(found), parts(expected)
    for name in other:
        if isinstance(other[name], np.ndarray):
            assert one[name].dtype == other[name].dtype, name
            assert name not in WRITTEN_ONCE or not one[name].flags.writeable, name
            np.testing.assert_array_equal(one[name], other[name], err_msg=name)
        else:
            assert one[name] == other[name], name
    assert found.n_steps == expected.n_steps


def require_same_matrix(found: sp.csr_array, expected: sp.csr_array) -> None:
    """Data, indices and pointers are the same, with types."""
    assert type(found) is type(expected)
    assert found.shape == expected.shape
    for name in ("data", "indices", "indptr"):
        assert getattr(found, name).dtype == getattr(expected, name).dtype, name
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)


@dataclass(frozen=True)
class Told:
    """A sampler that samples as another one, `pause` seconds later, and says so in a folder."""

    sampler: Any
    folder: str
    pause: float = 0.0

    @property
    def laplacian(self) -> str:
        return self.sampler.laplacian

    @property
    def survival(self) -> Any:
        return self.sampler.survival

    def prepare(self, graph: grf.Graph, seed: int) -> PreparedTold:
        return PreparedTold(self.sampler.prepare(graph, seed), self.folder, self.pause)

    def nodes(self) -> list[int]:
        """The nodes that other processes have sampled, in order, as often as they did."""
        told = [
            np.load(file)
            for file in Path(self.folder).glob("*.npy")
            if f"-{os.getpid()}-" not in file.name
        ]
        return np.sort(np.concatenate([np.zeros(0, np.int64), *told])).tolist()


class PreparedTold:
    def __init__(self, prepared: Any, folder: str, pause: float) -> None:
        self._prepared, self._folder, self._pause = prepared, folder, pause

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_prepared":
            raise AttributeError(name)
        return getattr(self._prepared, name)

    def sample(self, sources: np.ndarray) -> Any:
        time.sleep(self._pause)
        name = f"nodes-{os.getpid()}-{time.monotonic_ns()}"
        # Written whole or not at all: processes are killed.
        with Path(self._folder, f"{name}.new").open("wb") as file:
            np.save(file, sources)
        Path(self._folder, f"{name}.new").rename(Path(self._folder, f"{name}.npy"))
        return self._prepared.sample(sources)
