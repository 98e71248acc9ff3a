"""`graphrf fill`, and parts of `graphrf fit` and `graphrf predict` for signals through time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrf.cli.options.commands import refuse_without
from graphrf.cli.options.graphs import Reading, load
from graphrf.cli.options.kernels import KernelChoice
from graphrf.cli.options.messages import Talking, brief, shortened
from graphrf.cli.options.nodes import NodeNames
from graphrf.cli.options.observations import ObservedColumns
from graphrf.cli.options.output import Result, aligned, check_output, deliver, facts_table
from graphrf.cli.options.series import Readings, chosen_times, read_series

if TYPE_CHECKING:
    import numpy as np

    from graphrf.gp.time.regression import GraphTimeGPRegressor
    from graphrf.kernels.kernel import Kernel

EXAMPLES = (
    "graphrf fill roads.csv speeds.csv -o filled.csv --std deviations.csv --seed 0",
    "graphrf fill roads.csv long.csv --time when --target-column speed -o filled.csv",
)
_TRAINED = ("diffusion", "matern", "regularized_laplacian")


def fill(
    graph: str,
    observations: str,
    observed: ObservedColumns,
    reading: Reading,
    choice: KernelChoice,
    talking: Talking,
    time: str | None = None,
    max_train: int | None = None,
    seed: int | None = None,
    threads: int | None = None,
    observation: bool = False,
    output: str | None = None,
    std: str | None = None,
) -> None:
    """Fill gaps in readings through time with a Gaussian process on graph and time."""
    check_output(output, [graph, observations], [".csv"])
    if output is None and talking.json:
        raise ValueError("`--json` cannot be used with tables: `-o` is a .csv file")

    if std is None:
        refuse_without({"--observation": observation or None}, "`--std`")
    else:
        check_output(std, [graph, observations], [".csv"], "--std")
        if std in (output, "-"):
            raise ValueError("`--std` and `-o` must be different files")

    gp, readings, facts = _trained(
        graph, observations, time, observed, reading, choice, talking, max_train, seed, threads
    )
    std_of = "observation" if observation else "function"
    means, deviations = _in_gaps(
        gp, readings, std is not None and ("observation" if observation else True)
    )
    n_gaps = int(means.size)
    facts |= {"filled": n_gaps, "std_of": std_of}

    tables = Talking(quiet=talking.quiet)
    if std is not None:
        deliver(Result("fill", readings.filled(deviations, 0.0), facts), std, tables)
    talking.remark(f"filled {n_gaps} gaps in {readings.values.size} cells")
    deliver(Result("fill", readings.filled(means), facts), output, tables)


def _in_gaps(
    gp: GraphTimeGPRegressor, readings: Readings, std: bool | str
) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations in the gaps, from all their nodes at all their times."""
    import numpy as np

    gaps = np.flatnonzero(np.isnan(readings.values))
    if not gaps.size:
        return np.empty(0), np.empty(0)
    nodes, at_node = np.unique(readings.nodes[gaps], return_inverse=True)
    order = {stamp: i for i, stamp in enumerate(dict.fromkeys(readings.times[gap] for gap in gaps))}
    at_time = [order[readings.times[gap]] for gap in gaps]
    found = gp.predict(nodes, list(order), return_std=std)
    mean, deviation = found if std else (found, np.zeros_like(found))
    return mean[at_time, at_node], deviation[at_time, at_node]


def _trained(
    graph: str,
    observations: str,
    time: str | None,
    observed: ObservedColumns,
    reading: Reading,
    choice: KernelChoice,
    talking: Talking,
    max_train: int | None,
    seed: int | None,
    threads: int | None,
) -> tuple[GraphTimeGPRegressor, Readings, dict[str, Any]]:
    """A model trained on a file of observations, the readings of the file, and metadata."""
    kernel = _kernel(choice)
    loaded = load(graph, reading, talking)
    readings = read_series(observations, time, observed, NodeNames.of_graph(loaded.graph))
    seed = talking.settled(seed)

    from graphrf.gp import GraphTimeGPRegressor

    gp = GraphTimeGPRegressor(
        loaded.graph, kernel, max_train=max_train, seed=seed, n_threads=threads
    )
    gp.fit(readings.nodes, readings.times, readings.values)
    facts = {
        "graph": loaded.facts,
        "observations": observations,
        "seed": seed,
        "kernel": repr(gp.kernel_),
    }
    return gp, readings, facts


def fit_through_time(
    graph: str,
    observations: str,
    output: str,
    time: str,
    observed: ObservedColumns,
    reading: Reading,
    choice: KernelChoice,
    talking: Talking,
    max_train: int | None,
    seed: int | None,
    threads: int | None,
) -> None:
    """Train a regressor on graph and time, save it, and report its hyperparameters."""
    gp, _, facts = _trained(
        graph, observations, time, observed, reading, choice, talking, max_train, seed, threads
    )
    gp.set_params(n_threads=None).save(output)  # threads are not the next run's
    talking.remark(f"written to {output}")

    fitted: dict[str, Any] = {
        "kernel": repr(gp.kernel_),
        "noise": float(gp.noise_),
        "mean": float(gp.mean_),
        "log_marginal_likelihood": float(gp.log_marginal_likelihood_),
        "observations": gp.n_observations_,
        "observed_nodes": int(gp.sensors_.size),
        "times": int(gp.times_.size),
        "converged": bool(gp.converged_),
    }
    parts = [
        {"kernel": repr(part.kernel), "shared": float(part.shared), "own": float(part.own)}
        for part in gp.parts_
    ]

    def shown() -> str:
        head = ("time kernels (hours)", "variance shared on the graph", "variance per node")
        rows = [
            (shortened(repr(part.kernel)), brief(part.shared), brief(part.own))
            for part in gp.parts_
        ]
        return f"{facts_table('fitted', fitted)}\n{aligned(head, rows)}"

    deliver(
        Result("fit", (), facts | {"output": output}, fitted | {"parts": parts}, shown),
        None,
        talking,
    )


def predict_through_time(
    model: str,
    talking: Talking,
    nodes: str | None,
    times: str | None,
    observation: bool,
    samples: int | None,
    seed: int | None,
    threads: int | None,
    output: str | None,
) -> None:
    """Means and standard deviations at nodes and times, a line for each."""
    import numpy as np

    from graphrf.gp import GraphTimeGPRegressor

    gp = GraphTimeGPRegressor.load(model)
    gp.set_params(n_threads=threads)
    names = NodeNames.of_graph(gp.graph)
    chosen = None if nodes is None else names.chosen(nodes, "--nodes")
    texts, stamps = (_times_of(gp), None) if times is None else chosen_times(times)
    if stamps is not None and isinstance(stamps[0], float) == (gp.times_.dtype.kind == "M"):
        wanted = "dates" if isinstance(stamps[0], float) else "hours"
        raise ValueError(
            f"`--times` must be {wanted}, as in the table of {model}, got {texts[0]!r}"
        )

    std_of = "observation" if observation else "function"
    mean, std = gp.predict(chosen, stamps, return_std="observation" if observation else True)
    labels = names.of(chosen)
    columns: dict[str, Any] = {
        "time": [text for text in texts for _ in labels],
        "node": labels * len(texts),
        "mean": mean.ravel(),
        "std": std.ravel(),
    }
    facts: dict[str, Any] = {"model": model, "kernel": repr(gp.kernel_), "std_of": std_of}

    if samples is not None:
        facts["seed"] = seed = talking.settled(seed)
        draws = gp.sample(chosen, stamps, n_samples=samples, seed=seed)
        columns |= {
            f"sample_{number}": np.ravel(draw) for number, draw in enumerate(draws, start=1)
        }
    deliver(Result("predict", list(columns.items()), facts), output, talking)


def _times_of(gp: GraphTimeGPRegressor) -> list[str]:
    """The times of a regressor as text: hours, or dates, in UTC where they have a time zone."""
    times: np.ndarray = gp.times_
    if times.dtype.kind != "M":
        return [repr(float(time)) for time in times]
    unit = next(
        unit for unit in ("m", "s", "us") if (times.astype(f"datetime64[{unit}]") == times).all()
    )
    zone = "" if gp._clock.zone is None else "+00:00"
    return [f"{text}{zone}" for text in times.astype(f"datetime64[{unit}]").astype(str)]


def _kernel(choice: KernelChoice) -> Kernel | str:
    """ "auto", a name whose lengthscale is trained, or a kernel with all its hyperparameters."""
    if choice.kernel is None and choice.laplacian is not None:
        raise ValueError(
            "`--laplacian` needs `--kernel`: without a kernel, both Laplacians are compared"
        )
    if choice.name not in _TRAINED or choice.lengthscale is not None:
        return choice.made() or "auto"
    if (choice.power, choice.nu, choice.laplacian) != (None,) * 3:
        raise ValueError(
            "`--lengthscale` is needed: through time, either all hyperparameters of a kernel are "
            "given, or only `--kernel` and they are fitted"
        )
    return choice.name
