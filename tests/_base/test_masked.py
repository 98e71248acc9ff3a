"""Masked arrays: refused with the way out wherever numbers come in, unless nothing is masked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pytest

import graphrf as grf
from graphrf import euclidean as euc
from graphrf.euclidean.kernels import stationary_kernel
from graphrf.gp import metrics
from graphrf.pagerank import pagerank

GRAPH = grf.load_graph(nx.path_graph(4))
KERNEL = grf.Diffusion(1.0)
FEATURES = grf.sample_features(GRAPH, seed=0)
FIXED = {"kernel": KERNEL, "optimize": False, "output_scale": 1.0, "seed": 0}
VALUES = np.array([1.0, 2.0, -9.0, 1.5])
NODES = np.array([0, 1, 2, 3])
POINTS = np.random.default_rng(0).standard_normal((4, 2))

# What is called with an array, the array, and the argument that it is.
DOORS: dict[str, tuple[Callable[[Any], Any], np.ndarray, str]] = {
    "Graph": (grf.Graph, GRAPH.adjacency.toarray(), "adjacency"),
    "load_graph": (grf.load_graph, GRAPH.adjacency.toarray(), "adjacency"),
    "from_edges": (lambda x: grf.from_edges(x, [1, 2, 3, 0]), NODES, "src"),
    "weights of edges": (
        lambda x: grf.from_edges([0, 1, 2, 0], [1, 2, 3, 3], weight=x),
        abs(VALUES),
        "weight",
    ),
    "from_points": (lambda x: grf.from_points(x, n_neighbors=2), POINTS, "x"),
    "nodes": (lambda x: GRAPH.positions(x), NODES, "nodes"),
    "regressor": (grf.GraphGPRegressor(GRAPH, noise=0.1, **FIXED).fit, VALUES, "y"),
    "nodes of observations": (
        lambda x: grf.GraphGPRegressor(GRAPH, noise=0.1, **FIXED).fit(x, VALUES),
        NODES,
        "nodes",
    ),
    "covariates": (
        lambda x: grf.GraphGPRegressor(GRAPH, noise=0.1, mean=x, **FIXED).fit(NODES, VALUES[::-1]),
        VALUES,
        "mean",
    ),
    "classifier": (grf.GraphGPClassifier(GRAPH, **FIXED).fit, np.array([0, 1, 9, 1]), "labels"),
    "apply_kernel": (lambda x: grf.apply_kernel(GRAPH, KERNEL, x), VALUES, "v"),
    "features": (lambda x: FEATURES.factor().apply(KERNEL.modulation(5), x), VALUES, "x"),
    "product": (
        lambda x: grf.sampling.sample_product(GRAPH, grf.CompressedPowers(8), seed=0).apply(
            KERNEL, x
        ),
        VALUES,
        "x",
    ),
    "pagerank": (lambda x: pagerank(GRAPH, personalization=x), abs(VALUES), "personalization"),
    "log loss": (
        lambda x: metrics.expected_calibration_error(np.array([0, 1, 0, 1]), x),
        np.full((4, 2), 0.5),
        "prob",
    ),
    "Fourier features": (
        lambda x: euc.FourierFeatures(8, seed=0).fit(POINTS).transform(x),
        POINTS,
        "X",
    ),
    "kernel": (lambda x: stationary_kernel("gaussian")(x), abs(VALUES), "distance"),
}


@pytest.mark.parametrize("door", DOORS)
def test_masked_entries_are_refused_and_unmasked_arrays_are_taken(door):
    call, array, argument = DOORS[door]
    if door in ("regressor", "classifier"):
        call = lambda x, fit=call: fit(NODES, x)  # noqa: E731
    mask = np.zeros(array.shape, dtype=bool)
    call(np.ma.array(array, mask=mask))  # nothing is masked
    mask.flat[2] = True
    masked = np.ma.array(array, mask=mask)
    with pytest.raises(
        ValueError, match=rf"`{argument}\w*` must have no masked entries, got 1 of {array.size}"
    ) as refused:
        call(masked)
    assert ".mask]" in str(refused.value)


@pytest.mark.parametrize(
    "door", ["Graph", "from_points", "nodes", "regressor", "covariates", "apply_kernel", "pagerank"]
)
def test_tensors_are_taken_and_their_gradients_left(door):
    torch = pytest.importorskip("torch")
    call, array, _ = DOORS[door]
    if door == "regressor":
        call = lambda x, fit=call: fit(NODES, x)  # noqa: E731
    call(torch.tensor(array.astype(float), requires_grad=True))
