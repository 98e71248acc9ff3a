"""`graphrf demo --papers`: errors of samplers and PageRank estimates, as papers compare them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from graphrf import datasets
from graphrf.cli.measures import measures
from graphrf.cli.options.output import aligned
from graphrf.kernels import Diffusion
from graphrf.pagerank.estimates import estimate
from graphrf.pagerank.power import pagerank

_REPEATS = 20


def tables(seed: int) -> Iterator[str]:
    """Two tables on the karate club: the kernel from features, then PageRank from walks."""
    graph = datasets.load("karate").graph
    assert graph is not None
    samplers = measures(
        graph,
        Diffusion(2.0),
        sizes=[8, 32],
        n_rows=graph.n_nodes,
        repeats=_REPEATS,
        most_work=1e10,
        seed=seed,
    )

    rows = [
        (
            each.method,
            "-" if each.size is None else str(each.size),
            each.note or f"{each.error:.2g}",
        )
        for each in samplers
    ]
    yield (
        "Gram matrix of Diffusion(2.0), karate club\n"
        f"{aligned(('sampler', 'size', 'relative error'), rows)}\n"
    )

    exact = pagerank(graph).scores
    rows = []
    for coupling in ("iid", "antithetic", "stratified", "pooled"):
        for n_walks in (8, 32):
            found = [
                estimate(graph, n_walks=n_walks, coupling=coupling, seed=seed + k).scores
                for k in range(_REPEATS)
            ]
            errors = np.abs(np.array(found) - exact).sum(axis=1)
            rows.append((coupling, str(n_walks), f"{np.mean(errors):.2g}"))

    yield f"PageRank from walks\n{aligned(('coupling', 'walks', 'L1 error'), rows)}"
