"""`graphrf fill`, and what `graphrf fit` and `graphrf predict` do of a signal through time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphrf.cli.options.kernels import KernelChoice
from graphrf.cli.options.messages import brief, shortened
from graphrf.cli.options.nodes import NodeNames
from graphrf.cli.options.observations import ObservedColumns
from graphrf.cli.options.output import Result, aligned, check_output, deliver
from graphrf.cli.options.reading import GraphSource, Reading, load
from graphrf.cli.options.refusals import refuse_without
from graphrf.cli.options.running import Seeding, Talking, Threads
from graphrf.cli.options.series import chosen_times, read_series
from graphrf.cli.options.training import PANEL

if TYPE_CHECKING:
    import numpy as np

    from graphrf.gp.time.regression import GraphTimeGPRegressor
    from graphrf.kernels.kernel import Kernel

EXAMPLES = (
    "graphrf fill roads.csv speeds.csv -o filled.csv --std deviations.csv --seed 0",
    "graphrf fill roads.csv long.csv --time when --target-column speed -o filled.csv",
)
PLACES = {"y": "OBSERVATIONS", "Y": "OBSERVATIONS", "times": "--time"}
TIME_HELP = (
    "The column of times, in hours or dates. The table has a column for each node, or a line for each reading."
)
_TRAINED = ("diffusion", "matern", "regularized-laplacian")


def fill(
    graph: GraphSource,
    observations: Annotated[
        str,
        typer.Argument(
            metavar="OBSERVATIONS", show_default=False,
            help="A csv file of times and readings, with empty cells as gaps: a "
            "column for each node, or a line for "
            "each reading.",
        ),
    ],
    observed: ObservedColumns,
    reading: Reading,
    choice: KernelChoice,
    seeding: Seeding,
    threads: Threads,
    talking: Talking,
    time: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", rich_help_panel="Observations",
            help=f"{TIME_HELP} Default: the column with this title, or the first.",
        ),
    ] = None,
    max_train: Annotated[
        int | None, typer.Option(help="Approximate number of readings used in training.", rich_help_panel=PANEL)
    ] = None,
    observation: Annotated[
        bool, typer.Option("--observation", help="Give standard deviations of a new reading, which include noise.")
    ] = False,
    output: Annotated[
        str | None,
        typer.Option(
            "-o", "--output", metavar="FILE", rich_help_panel="Output", show_default=False,
            help="A .csv file of the same form, overwritten if it exists. Default: standard output.",
        ),
    ] = None,
    std: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", rich_help_panel="Output", show_default=False,
            help="Also write the standard deviations to this .csv file, in the same "
            "form; 0 where there is a reading.",
        ),
    ] = None,
) -> None:  # fmt: skip
    """Fill gaps in readings through time with a Gaussian process on graph and time."""
    check_output(output, [graph, observations], [".csv"])
    if output is None and talking.json:
        raise ValueError("`--json` cannot be used with tables: `-o` is a .csv file")
    if std is None:
        refuse_without({"--observation": observation or None}, "`--std`")
    else:
        try:
            check_output(std, [graph, observations], [".csv"])
        except ValueError as error:
            raise ValueError(str(error).replace("`-o`", "`--std`")) from None
        if std in (output, "-"):
            raise ValueError("`--std` and `-o` must be different files")
    fitted = trained(graph, observations, time, observed, reading, choice, seeding, threads, talking, max_train)
    gp, table = fitted.gp, fitted.table
    import numpy as np

    gaps = np.isnan(table.values)
    means, deviations = np.zeros(table.values.shape), np.zeros(table.values.shape)
    kind: Any = std is not None and ("observation" if observation else True)
    # Of long tables each gap's node and time, from the grid of those.
    nodes, column = np.unique(table.nodes, return_inverse=True)
    stamps = [table.times[i] for i in range(len(table.times)) if gaps[i].any()]
    order = {stamp: i for i, stamp in enumerate(dict.fromkeys(stamps))}
    if stamps:
        found = gp.predict(nodes, list(order), return_std=kind)
        mean, spread = found if kind else (found, np.zeros_like(found))
        rows = np.flatnonzero(gaps.any(axis=1) if gaps.ndim == 2 else gaps)
        if table.long:
            places = [order[stamp] for stamp in stamps], column[rows]
            means[rows], deviations[rows] = mean[places], spread[places]
        else:
            means[rows], deviations[rows] = mean[:, column], spread[:, column]
    facts = fitted.facts | {"filled": int(gaps.sum()), "std_of": "observation" if observation else "function"}
    if std is not None:
        deliver(Result("fill", table.with_cells(deviations, "0.0"), facts), std, Talking(quiet=talking.quiet))
    talking.remark(f"filled {int(gaps.sum())} gaps in {table.values.size} cells")
    deliver(Result("fill", table.with_cells(means), facts), output, Talking(quiet=talking.quiet))


class Fitted:
    """A regressor on graph and time, with the table that it was fitted to, and what a record says of it."""

    def __init__(self, gp: GraphTimeGPRegressor, table: Any, facts: dict[str, Any]) -> None:
        self.gp, self.table, self.facts = gp, table, facts


def trained(
    graph: str, observations: str, time: str | None, observed: ObservedColumns, reading: Reading,
    choice: KernelChoice, seeding: Seeding, threads: Threads, talking: Talking, max_train: int | None,
) -> Fitted:  # fmt: skip
    """Train a model on a file of observations, for `fit` and `fill`."""
    kernel = _kernel(choice)
    loaded = load(graph, reading, talking)
    table = read_series(observations, time, observed, NodeNames.of_graph(loaded.graph))
    seed = seeding.settled(talking)

    from graphrf.gp import GraphTimeGPRegressor

    options: dict[str, Any] = {} if max_train is None else {"max_train": max_train}
    gp = GraphTimeGPRegressor(loaded.graph, kernel, seed=seed, n_threads=threads.threads, **options)
    table.fitted(gp)
    facts = {"graph": loaded.facts, "observations": observations, "seed": seed, "kernel": repr(gp.kernel_)}
    return Fitted(gp, table, facts)


def fit_through_time(fitted: Fitted, output: str, talking: Talking) -> None:
    """Save a regressor on graph and time, and say what training found."""
    gp = fitted.gp
    gp.set_params(n_threads=None).save(output)  # threads are not the next run's
    talking.remark(f"written to {output}")
    found: dict[str, Any] = {
        "kernel": repr(gp.kernel_), "noise": float(gp.noise_), "mean": float(gp.mean_),
        "log_marginal_likelihood": float(gp.log_marginal_likelihood_), "observations": gp.n_observations_,
        "observed_nodes": int(gp.sensors_.size), "times": int(gp.times_.size), "converged": bool(gp.converged_),
        "parts": [
            {"kernel": repr(part.kernel), "shared": float(part.shared), "own": float(part.own)}
            for part in gp.parts_
        ],
    }  # fmt: skip
    rows = [
        (name.replace("_", " "), brief(value) if type(value) is float else shortened(str(value)))
        for name, value in found.items()
        if name != "parts"
    ]
    parts = [(shortened(part["kernel"]), brief(part["shared"]), brief(part["own"])) for part in found["parts"]]

    def shown() -> str:
        head = ("time kernels (hours)", "variance shared on the graph", "variance per node")
        return f"{aligned(('fitted', ''), rows, left=2)}\n{aligned(head, parts, left=1)}"

    deliver(Result("fit", (), fitted.facts | {"output": output}, found, shown), None, talking)


def predict_through_time(
    model: str, threads: Threads, talking: Talking, nodes: str | None, times: str | None, observation: bool,
    samples: int | None, seed: int | None, output: str | None,
) -> None:  # fmt: skip
    """Means and deviations at nodes and times, a line for each."""
    import numpy as np

    from graphrf.gp import GraphTimeGPRegressor

    gp = GraphTimeGPRegressor.load(model)
    gp.set_params(n_threads=threads.threads)
    names = NodeNames.of_graph(gp.graph)
    chosen = None if nodes is None else names.chosen(nodes, "--nodes")
    texts, stamps = (told(gp), None) if times is None else chosen_times(times, "--times")
    if stamps is not None and isinstance(stamps[0], float) == (gp.times_.dtype.kind == "M"):
        wanted = "dates" if isinstance(stamps[0], float) else "hours"
        raise ValueError(f"`--times` must be {wanted}, as in the table of {model}, got {texts[0]!r}")
    mean, std = gp.predict(chosen, stamps, return_std="observation" if observation else True)
    labels = names.of(chosen)
    columns: dict[str, Any] = {
        "time": [text for text in texts for _ in labels], "node": labels * len(texts),
        "mean": mean.ravel(), "std": std.ravel(),
    }  # fmt: skip
    facts: dict[str, Any] = {
        "model": model, "kernel": repr(gp.kernel_), "std_of": "observation" if observation else "function",
    }  # fmt: skip
    if samples is not None:
        drawn = Seeding(seed).settled(talking)
        draws = gp.sample(chosen, stamps, n_samples=samples, seed=drawn)
        columns |= {f"sample_{number}": np.ravel(draw) for number, draw in enumerate(draws, start=1)}
        facts["seed"] = drawn
    deliver(Result("predict", list(columns.items()), facts), output, talking)


def told(gp: GraphTimeGPRegressor) -> list[str]:
    """The times of a regressor as text: hours, or dates, in UTC where they have a time zone."""

    times: np.ndarray = gp.times_
    if times.dtype.kind != "M":
        return [repr(float(time)) for time in times]
    unit = next(unit for unit in ("m", "s", "us") if (times.astype(f"datetime64[{unit}]") == times).all())
    zone = "" if gp._clock.zone is None else "+00:00"
    return [f"{text}{zone}" for text in times.astype(f"datetime64[{unit}]").astype(str)]


def _kernel(choice: KernelChoice) -> Kernel | str:
    """ "auto", a name whose lengthscale is chosen, or a kernel that is taken as it is."""
    if choice.kernel is None:
        if choice.laplacian is not None:
            raise ValueError("`--laplacian` needs `--kernel`: without a kernel, both Laplacians are compared")
        return choice.optional() or "auto"
    name = choice.kernel.lower().replace("_", "-")
    given = (choice.lengthscale, choice.power, choice.smoothness, choice.laplacian)
    if name in _TRAINED and choice.lengthscale is None:
        if given != (None,) * 4:
            raise ValueError(
                "`--lengthscale` is needed: through time, either all "
                "hyperparameters of a kernel are given, or only "
                "`--kernel` and they are fitted"
            )
        return name.replace("-", "_")
    return choice.made(name)
