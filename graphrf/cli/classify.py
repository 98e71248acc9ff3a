"""`graphrf classify`: class probabilities at the nodes of a graph from labels at some."""

from __future__ import annotations

from typing import Any

from graphrf.cli.options.graphs import Reading, load
from graphrf.cli.options.kernels import KernelChoice
from graphrf.cli.options.messages import Talking
from graphrf.cli.options.nodes import NodeNames
from graphrf.cli.options.observations import ObservedColumns
from graphrf.cli.options.output import Result, check_output, deliver

EXAMPLES = (
    "graphrf classify karate clubs.csv -o probabilities.csv --seed 0",
    "graphrf classify karate clubs.csv --predictive integrated --nodes 8,9 --seed 0",
)


def classify(
    graph: str,
    observations: str,
    observed: ObservedColumns,
    reading: Reading,
    choice: KernelChoice,
    talking: Talking,
    seed: int | None = None,
    threads: int | None = None,
    nodes: str | None = None,
    method: str = "auto",
    predictive: str = "mode",
    optimize: bool = True,
    output: str | None = None,
) -> None:
    """Fit a Gaussian process to labels at some nodes, and predict classes at others."""
    check_output(output, [graph, observations])
    kernel = choice.made("diffusion")
    loaded = load(graph, reading, talking)
    names = NodeNames.of_graph(loaded.graph)
    found = observed.read(observations, names)
    labels = found.labels(talking)
    chosen = None if nodes is None else names.chosen(nodes, "--nodes")
    seed = talking.settled(seed)

    import numpy as np

    from graphrf.gp import GraphGPClassifier  # its import names the extra that is missing

    assert kernel is not None
    gp = GraphGPClassifier(
        loaded.graph,
        kernel=kernel,
        method=method,
        predictive=predictive,
        optimize=optimize,
        seed=seed,
        n_threads=threads,
    ).fit(found.positions, np.array(labels))

    probabilities = gp.predict_proba(chosen)
    best = {"node": names.of(chosen), "class": gp.classes_[probabilities.argmax(axis=1)].tolist()}
    by_class = {
        f"p({name})": column
        for name, column in zip(gp.classes_.tolist(), probabilities.T, strict=True)
    }

    facts: dict[str, Any] = {
        "graph": loaded.facts,
        "observations": observations,
        "seed": seed,
        "kernel": repr(gp.kernel_),
        "output_scale": float(gp.output_scale_),
        "method": gp.method_,
        "converged": bool(gp.converged_),
        "classes": gp.classes_.tolist(),
    }
    columns = [*best.items(), *by_class.items()]

    deliver(
        Result("classify", columns, facts, {**best, "probabilities": probabilities}),
        output,
        talking,
    )
