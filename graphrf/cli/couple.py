"""`graphrf couple`: learn a coupling of walk lengths."""

from __future__ import annotations

from typing import Any

from graphrf.cli.options.commands import given_options, refuse_without
from graphrf.cli.options.graphs import Reading, load
from graphrf.cli.options.kernels import KernelChoice
from graphrf.cli.options.messages import Talking, brief
from graphrf.cli.options.output import Result, check_output, deliver

EXAMPLES = (
    "graphrf couple --p-halt 0.3 -o coupling.json",
    "graphrf couple roads.csv --kernel diffusion --lengthscale 2 --order 20 -o coupling.json",
    "graphrf features roads.csv --sampler walks --lengths coupling.json -o coupled.npz",
)


def couple(
    choice: KernelChoice,
    reading: Reading,
    talking: Talking,
    graph: str | None = None,
    p_halt: float = 0.1,
    order: int = 30,
    objective: str = "gram",
    solver: str = "linear",
    walkers: int = 2,
    seed: int | None = None,
    output: str | None = None,
) -> None:
    """Learn a coupling of walk lengths, for a kernel on a graph or for PageRank."""
    check_output(output, [graph] if graph else [], [".json"])
    kernel = choice.made()
    if graph is None:
        refuse_without(given_options(reading), "a GRAPH")
    loaded = None if graph is None else load(graph, reading, talking)

    from graphrf.couplings.learn import learn_coupling

    coupling = learn_coupling(
        None if loaded is None else loaded.graph,
        kernel,
        p_halt=p_halt,
        order=order,
        solver=solver,
        objective=objective,
        n_walkers=walkers,
        seed=seed,
    )
    if output is not None:
        coupling.save(output)
        talking.remark(f"written to {output}")
    permutations = coupling.permutations.tolist()
    facts: dict[str, Any] = {
        "graph": coupling.graph if loaded is None else loaded.facts,
        "kernel": coupling.kernel,
        "p_halt": p_halt,
        "order": order,
        "objective": objective,
        "solver": solver,
        "seed": coupling.seed,
    }
    found = {
        "permutations": permutations,
        "cost_before": coupling.cost_before,
        "cost_after": coupling.cost_after,
    }
    lines = [
        f"permutation {number}: {' '.join(map(str, row))}"
        for number, row in enumerate(permutations, start=1)
    ]
    lines.append(
        f"cost of independent lengths {brief(coupling.cost_before)}, coupled "
        f"{brief(coupling.cost_after)}"
    )
    deliver(Result("couple", (), facts, found, lambda: "\n".join(lines) + "\n"), None, talking)
