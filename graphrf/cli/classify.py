"""`graphrf classify`: class probabilities at the nodes of a graph from labels at some."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from graphrf.cli.options.kernels import KernelChoice
from graphrf.cli.options.nodes import ChosenNodes, NodeNames
from graphrf.cli.options.observations import ObservationsFile, ObservedColumns
from graphrf.cli.options.output import OutputPath, Result, check_output, deliver
from graphrf.cli.options.reading import GraphSource, Reading, load
from graphrf.cli.options.running import Seeding, Talking, Threads
from graphrf.cli.options.training import PANEL, Method, Optimize

EXAMPLES = (
    "graphrf classify karate clubs.csv -o probabilities.csv --seed 0",
    "graphrf classify karate clubs.csv --predictive integrated --nodes 8,9 --seed 0",
)


def classify(
    graph: GraphSource,
    observations: ObservationsFile,
    observed: ObservedColumns,
    reading: Reading,
    choice: KernelChoice,
    seeding: Seeding,
    threads: Threads,
    talking: Talking,
    nodes: ChosenNodes = None,
    method: Method = "auto",
    predictive: Annotated[
        str,
        typer.Option(metavar="mode|integrated", help="Probabilities at the posterior mode, or "
        "integrated, for noisy labels.", rich_help_panel=PANEL),
    ] = "mode",
    optimize: Optimize = True,
    output: OutputPath = None,
) -> None:  # fmt: skip
    """Fit a Gaussian process to labels at some nodes, and predict classes at others."""
    check_output(output, [graph, observations])
    kernel = choice.made("diffusion")
    loaded = load(graph, reading, talking)
    names = NodeNames.of_graph(loaded.graph)
    positions, labels = observed.read_labels(observations, names, talking)
    if len(set(labels)) < 2:
        raise ValueError(f"OBSERVATIONS must have labels of at least two classes, got only {labels[0]!r}")
    chosen = None if nodes is None else names.chosen(nodes, "--nodes")
    seed = seeding.settled(talking)

    import numpy as np

    from graphrf.gp import GraphGPClassifier  # which says what it needs, where that is missing

    gp = GraphGPClassifier(
        loaded.graph,
        kernel=kernel,
        method=method,
        predictive=predictive,
        optimize=optimize,
        seed=seed,
        n_threads=threads.threads,
    ).fit(positions, np.array(labels))
    probabilities = gp.predict_proba(chosen)
    best = gp.classes_[probabilities.argmax(axis=1)]
    shares = dict(zip(gp.classes_.tolist(), probabilities.T, strict=True))
    facts: dict[str, Any] = {
        "graph": loaded.facts, "observations": observations, "seed": seed, "kernel": repr(gp.kernel_),
        "output_scale": float(gp.output_scale_), "method": gp.method_, "converged": bool(gp.converged_),
        "classes": gp.classes_.tolist(),
    }  # fmt: skip
    found = {"node": names.of(chosen), "class": best.tolist()}
    deliver(
        Result(
            "classify",
            [*found.items(), *((f"p({name})", share) for name, share in shares.items())],
            facts,
            {**found, "probabilities": probabilities},
        ),
        output,
        talking,
    )
