"""`graphrf fit` and `graphrf predict`: Gaussian-process regression of a signal on a graph, also through time."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphrf._base.lazy import put_off
from graphrf.cli.options.kernels import KernelChoice
from graphrf.cli.options.messages import brief, shortened
from graphrf.cli.options.nodes import ChosenNodes, NodeNames
from graphrf.cli.options.observations import PANEL as OBSERVATIONS
from graphrf.cli.options.observations import ObservationsFile, ObservedColumns
from graphrf.cli.options.output import OutputPath, Result, aligned, check_output, deliver
from graphrf.cli.options.reading import GraphSource, Reading, load
from graphrf.cli.options.refusals import refuse_unused
from graphrf.cli.options.running import Seeding, Talking, Threads
from graphrf.cli.options.training import PANEL, Method, Optimize
from graphrf.cli.space_time import TIME_HELP, fit_through_time, predict_through_time, trained

if TYPE_CHECKING:
    from graphrf.gp.regression import GraphGPRegressor

FIT_EXAMPLES = (
    "graphrf fit roads.csv observed.csv -o model.npz --seed 0",
    "graphrf fit roads.csv observed.csv --kernel matern --laplacian combinatorial -o m.npz",
    "graphrf fit generated-grid heat.csv --target-column celsius --noise 0.01 -o m.npz",
    "graphrf fit roads.csv speeds.csv --time date -o traffic.npz --seed 0",
)
PREDICT_EXAMPLES = (
    "graphrf predict model.npz -o predictions.csv",
    "graphrf predict model.npz --nodes a,b --observation",
    "graphrf predict model.npz --samples 5 --seed 0 -o draws.csv",
    "graphrf predict traffic.npz --nodes a,b --times '2024-05-06 07:30,2024-05-06 08:00'",
)


def fit(
    graph: GraphSource,
    observations: ObservationsFile,
    output: Annotated[
        str,
        typer.Option(
            "-o", "--output", metavar="MODEL", rich_help_panel="Output", show_default=False,
            help="An .npz file, overwritten if it exists (missing folders are created); it contains the graph "
            "and the observations.",
        ),
    ],
    observed: ObservedColumns,
    reading: Reading,
    choice: KernelChoice,
    seeding: Seeding,
    threads: Threads,
    talking: Talking,
    method: Method = "auto",
    noise: Annotated[
        float | None, typer.Option(help="Fix the noise variance.", rich_help_panel=PANEL)
    ] = None,
    output_scale: Annotated[
        float | None, typer.Option(help="Fix the variance of the signal.", rich_help_panel=PANEL)
    ] = None,
    optimize: Optimize = True,
    max_train: Annotated[
        int | None,
        typer.Option(
            help="Maximum number of nodes in a block of training; through time, approximate number of readings.",
            rich_help_panel=PANEL,
        ),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", rich_help_panel=OBSERVATIONS, help=f"Fit through time. {TIME_HELP}"
        ),
    ] = None,
) -> None:  # fmt: skip
    """Fit a Gaussian process to values observed at some nodes, once or through time, and save it."""
    check_output(output, [graph, observations], [".npz"])
    if time is not None:
        single = {
            "--method": None if method == "auto" else method, "--noise": noise, "--output-scale": output_scale,
            "--no-optimize": None if optimize else True,
        }  # fmt: skip
        refuse_unused(single, (), "`--time`: hyperparameters through time are trained")
        fitted = trained(
            graph, observations, time, observed, reading, choice, seeding, threads, talking, max_train
        )
        fit_through_time(fitted, output, talking)
        return
    if choice.kernel is None and choice.laplacian is not None:
        raise ValueError("`--laplacian` needs `--kernel`: without a kernel, both Laplacians are compared")
    if choice.kernel is None and not optimize:
        raise ValueError("`--no-optimize` needs `--kernel`: without a kernel, several are trained and compared")
    kernel = choice.optional() or "auto"
    loaded = load(graph, reading, talking)
    names = NodeNames.of_graph(loaded.graph)
    positions, targets = observed.read(observations, names)
    seed = seeding.settled(talking)

    put_off("scipy.stats")  # as in `predict`
    from graphrf.gp import GraphGPRegressor, Numerics

    options: dict[str, Any] = {} if max_train is None else {"max_train": max_train}
    gp = GraphGPRegressor(
        loaded.graph,
        kernel=kernel,
        method=method,
        noise=noise,
        output_scale=output_scale,
        optimize=optimize,
        seed=seed,
        numerics=Numerics(n_threads=threads.threads, **options),
        progress=talking.progress,
    ).fit(positions, targets)
    # How this run was watched, and its threads, are not the next one's.
    gp.set_params(progress=False, numerics__n_threads=None).save(output)
    found = _fitted(gp)
    talking.remark(f"written to {output}")
    facts = {"graph": loaded.facts, "observations": observations, "seed": seed, "output": output}
    rows = [
        (name.replace("_", " "), brief(value) if type(value) is float else shortened(str(value)))
        for name, value in found.items()
    ]
    compared = [
        (shortened(repr(kernel)), f"{evidence:.2f}", f"{probability:.3f}")
        for kernel, evidence, probability in gp.candidates_
    ]

    def shown() -> str:
        table = aligned(("fitted", ""), rows, left=2)
        if len(compared) == 1:
            return table
        titles = ("kernels compared", "log evidence", "probability")
        return f"{table}\n{aligned(titles, compared, left=1)}"

    facts["candidates"] = [
        {
            "kernel": repr(kernel),
            "log_evidence": evidence,
            "probability": probability,
        }
        for kernel, evidence, probability in gp.candidates_
    ]
    deliver(Result("fit", (), facts, found, shown), None, talking)


def _fitted(gp: GraphGPRegressor) -> dict[str, Any]:
    """The fitted hyperparameters and how they were found."""
    return {
        "kernel": repr(gp.kernel_), "output_scale": float(gp.output_scale_), "noise": float(gp.noise_),
        "mean": float(gp.mean_), "log_marginal_likelihood": float(gp.log_marginal_likelihood_),
        "observations": gp.n_observations_, "observed_nodes": gp.n_observed_nodes_, "method": gp.method_,
        "solver": gp.solver_, "points": gp.n_points_, "converged": bool(gp.converged_),
    }  # fmt: skip


def predict(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A file written by `graphrf fit`.", show_default=False)
    ],
    threads: Threads,
    talking: Talking,
    nodes: ChosenNodes = None,
    times: Annotated[
        str | None,
        typer.Option(
            metavar="TIMES", help="Times for a model through time: a file, or A,B,C. "
            "Default: the times in its data."
        ),
    ] = None,
    observation: Annotated[
        bool, typer.Option("--observation", help="Give standard deviations of a new "
        "observation, which include noise.")
    ] = False,
    samples: Annotated[
        int | None, typer.Option(help="Number of functions to draw from the posterior, in addition.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Random seed of the draws. Default: random and reported.")
    ] = None,
    output: OutputPath = None,
) -> None:  # fmt: skip
    """Predict means and standard deviations at the nodes of a fitted model's graph, and at any times."""
    check_output(output, [model])
    if seed is not None and samples is None:
        raise ValueError("`--seed` is not used without `--samples`: means and standard deviations are not random")
    if samples is not None and samples < 1:
        raise ValueError(f"`--samples` must be at least 1, got {samples}")
    from graphrf._base.files.arrays import record_format

    if (record_format(model) or "").startswith("graphrf graph-time"):
        predict_through_time(model, threads, talking, nodes, times, observation, samples, seed, output)
        return
    if times is not None and os.path.isfile(model):
        raise ValueError(
            f"`--times` cannot be used with {model}, which is not a model through time (`fit --time`)"
        )
    # Imported for what is not used here: half the time that this command would need to start.
    for package in ("pandas", "scipy.optimize", "scipy.stats"):
        put_off(package)
    from graphrf.gp import GraphGPRegressor

    gp: GraphGPRegressor = GraphGPRegressor.load(model)
    gp.set_params(n_threads=threads.threads, progress=talking.progress)
    graph = gp.graph
    names = NodeNames.of_graph(graph)
    chosen = None if nodes is None else names.chosen(nodes, "--nodes")
    mean, std = gp.predict(chosen, return_std="observation" if observation else True)
    columns: dict[str, Any] = {"node": names.of(chosen), "mean": mean, "std": std}
    facts: dict[str, Any] = {
        "model": model, "kernel": repr(gp.kernel_), "std_of": "observation" if observation else "function",
    }  # fmt: skip
    if samples is not None:
        drawn = Seeding(seed).settled(talking)
        draws = gp.sample(chosen, n_samples=samples, seed=drawn)
        columns |= {f"sample_{number}": draw for number, draw in enumerate(draws, start=1)}
        facts["seed"] = drawn
    deliver(Result("predict", list(columns.items()), facts), output, talking)
