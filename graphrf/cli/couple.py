"""`graphrf couple`: learn a coupling of walk lengths."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from graphrf.cli.options.kernels import KernelChoice
from graphrf.cli.options.output import Result, check_output, deliver
from graphrf.cli.options.reading import GRAPH_HELP, Reading, load
from graphrf.cli.options.refusals import given_options, refuse_without
from graphrf.cli.options.running import Talking

PANEL = "Coupling"
EXAMPLES = (
    "graphrf couple --p-halt 0.3 -o coupling.json",
    "graphrf couple roads.csv --kernel diffusion --lengthscale 2 --order 20 -o coupling.json",
    "graphrf features roads.csv --sampler walks --lengths coupling.json -o coupled.npz",
)


def couple(
    choice: KernelChoice,
    reading: Reading,
    talking: Talking,
    graph: Annotated[
        str | None,
        typer.Argument(
            metavar="[GRAPH]", show_default=False, help=f"{GRAPH_HELP} Default: a random graph, as in the paper."
        ),
    ] = None,
    p_halt: Annotated[
        float, typer.Option(help="Probability that a walk ends before each step.", rich_help_panel=PANEL)
    ] = 0.1,
    order: Annotated[int, typer.Option(help="Number of quantiles that are matched.", rich_help_panel=PANEL)] = 30,
    objective: Annotated[
        str, typer.Option(metavar="gram|pagerank", help="The estimate whose variance "
        "is minimised.", rich_help_panel=PANEL)
    ] = "gram",
    solver: Annotated[
        str,
        typer.Option(
            metavar="linear|quadratic|projection|exhaustive", help="Solver of the matching.", rich_help_panel=PANEL
        ),
    ] = "linear",
    walkers: Annotated[
        int, typer.Option(help="Number of walks that are coupled with each other.", rich_help_panel=PANEL)
    ] = 2,
    seed: Annotated[
        int | None, typer.Option(help="Random seed of the solver. Default: 0.", rich_help_panel="Running")
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "-o", "--output", metavar="FILE", rich_help_panel="Output", show_default=False,
            help="A .json file for `graphrf features --lengths`; overwritten if it exists.",
        ),
    ] = None,
) -> None:  # fmt: skip
    """Learn a coupling of walk lengths, for a kernel on a graph or for PageRank."""
    check_output(output, [graph] if graph else [], [".json"])
    kernel = choice.optional()
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
    facts: dict[str, Any] = {
        "graph": coupling.graph if loaded is None else loaded.facts, "kernel": coupling.kernel, "p_halt": p_halt,
        "order": order, "objective": objective, "solver": solver, "seed": coupling.seed,
    }  # fmt: skip
    found = {
        "permutations": coupling.permutations.tolist(),
        "cost_before": coupling.cost_before,
        "cost_after": coupling.cost_after,
    }
    lines = [
        f"permutation {number}: {' '.join(map(str, row))}"
        for number, row in enumerate(coupling.permutations.tolist(), start=1)
    ]
    lines.append(f"cost of independent lengths {coupling.cost_before:.6g}, coupled {coupling.cost_after:.6g}")
    deliver(Result("couple", (), facts, found, lambda: "\n".join(lines) + "\n"), None, talking)
